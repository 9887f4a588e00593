"""The same seed gives the same questions and tables on every CPU.

CPUs differ in the last digits of a sum, and in all that numpy leaves open: the order inside a partition, the order of
equal values in a sort that is not stable, the sign of an eigenvector. `another_cpu` changes all three.
"""

import ast
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit

import comparo
from comparo import Comparisons, Items, fit
from comparo.rounding import TIES, first_best, merge_ties
from comparo.selection import Selector
from comparo.selection import selector as selector_module
from comparo.vote.dealing import BASE, Deck
from inside import (
    LIMITS,
    Placing,
    Recorded,
    Systems,
    Way,
    correlations_table,
    expected_spearman,
    quiet_fit,
    retention_table,
    sureness,
    sweep,
    telling_pairs,
    top_probability,
)

SOURCE = Path(comparo.__file__).parent
NOISE = 1e-13  # relative: some hundred roundings


@contextmanager
def another_cpu(seed):
    rng = np.random.default_rng(seed)
    argsort, argpartition, partition, eigh, inverse = (
        *(np.argsort, np.argpartition, np.partition, np.linalg.eigh),
        selector_module.inverse,
    )

    def shuffled_argsort(values, axis=-1, kind=None, **others):
        if kind in ("stable", "mergesort") or others.get("stable"):
            return argsort(values, axis, kind=kind, **others)
        order = rng.permutation(np.shape(values)[axis])
        return order[argsort(np.take(values, order, axis), axis, kind="stable")]

    def shuffled(partitioned):
        def changed(values, kth, axis=-1, **others):
            found = np.moveaxis(partitioned(values, kth, axis, **others), axis, -1)
            for part in (found[..., :kth], found[..., kth + 1 :]):
                part[...] = rng.permuted(part, axis=-1)
            return np.moveaxis(found, -1, axis)

        return changed

    def turned_eigh(matrix, *others):
        values, vectors = eigh(matrix, *others)
        return values, vectors * rng.choice([-1.0, 1.0], values.shape)[..., None, :]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(np, "argsort", shuffled_argsort)
        patch.setattr(np, "argpartition", shuffled(argpartition))
        patch.setattr(np, "partition", shuffled(partition))
        patch.setattr(np.linalg, "eigh", turned_eigh)
        patch.setattr(selector_module, "inverse", lambda *parts: rounded(inverse(*parts), rng))
        yield rng


def rounded(values, rng):
    return values * (1.0 + NOISE * rng.standard_normal(np.shape(values)))


@contextmanager
def this_cpu():
    yield None


def on_all_cpus(made):
    """What `made(answer)` returns, the same on three CPUs; `answer` is p of a question about two numbers."""

    def run(cpu):
        with cpu as rng:

            def answer(x, y):  # on a grid, so that many pairs have equal gains
                p = float(expit((x % 7 - y % 7) / 4 + 0.3 * ((5 * x + 3 * y) % 4 - 1.5)))
                return p if rng is None else float(rounded(p, rng))

            return made(answer)

    first, *others = (run(cpu) for cpu in (this_cpu(), another_cpu(1), another_cpu(2)))
    assert all(other == first for other in others)
    return first


def asked(chooser, answer, batches, size):
    """The questions of some batches, each answered before the next."""
    rows = []
    for _ in range(batches):
        rows += (batch := chooser.next(size))
        chooser.observe([(x, y, answer(x, y)) for x, y in batch])
    return rows


@pytest.mark.parametrize("orders", ["one", "both"])
@pytest.mark.parametrize(
    "options",
    [
        {"strategy": "greedy"},
        {"strategy": "greedy", "contrast": 1.0 + np.abs(np.subtract.outer(np.arange(30) % 3, np.arange(30) % 3))},
        {"strategy": "adaptive"},
        {"goal": "top-5"},
        {"strategy": "greedy", "limits": replace(LIMITS, exact=20)},
        {"strategy": "adaptive", "limits": replace(LIMITS, exact=20)},
        {"goal": "top-5", "limits": replace(LIMITS, exact=20)},
    ],
    ids=["greedy", "contrast", "adaptive", "top", "greedy of many", "adaptive of many", "top of many"],
)
def test_the_questions_of_a_selector(options, orders):
    def made(answer):
        return asked(Selector(range(30), orders=orders, seed=3, **options), answer, 12, 16)

    rows = on_all_cpus(made)
    assert len(rows) == len(set(rows)) == 192


@pytest.mark.parametrize("orders", ["one", "both"])
@pytest.mark.parametrize("hard", [False, True])
def test_the_questions_about_new_items(orders, hard):
    def made(answer, seed=0):
        def say(x, y):
            p = answer(x, y)
            return float(p > 0.5) if hard else p

        items = list(range(36))
        placing = Placing(items, np.random.default_rng(seed), orders=orders, seed=1)
        placing.observe([(x, y, say(x, y)) for x in range(24) for y in range(24) if (x - y) % 24 in (1, 3, 8)])
        return asked(placing, say, 14, 12)

    rows = on_all_cpus(made)
    assert len(set(rows)) == 168
    with this_cpu():
        assert rows != made(lambda x, y: float(expit((x % 7 - y % 7) / 4)), seed=1)


@pytest.mark.parametrize("goal", ["systems", "best-system"])
def test_the_questions_about_systems(goal):
    texts = {context: {f"{context}.{number}": number % 5 for number in range(10)} for context in range(4)}

    def made(answer):
        design, rows = Systems(texts, goal), []
        parts = [design.of_context(context, "both", np.random.default_rng(context)) for context in texts]
        for _ in range(3):
            for context, part in zip(texts, parts, strict=True):
                for one, other in part.next(6):
                    # The systems 0 and 1 are equals, and lead.
                    p = answer(*(min(6 - texts[context][item], 5) for item in (one, other)))
                    rows.append({"context": context, "first": one, "second": other, "p": p})
            groups = {item: group for own in texts.values() for item, group in own.items()}
            board = quiet_fit(rows, groups=groups, prior="estimated").groups()
            design.learn(board)
        sure = (board.best.tolist(), sureness(board, goal))
        return [(row["first"], row["second"]) for row in rows], str(board), sure

    on_all_cpus(made)


def test_the_pairs_that_people_see():
    def made(answer):
        deck, rows = Deck(list(range(12)), [0]), []
        for number in range(BASE * 12 + 20):
            pair = deck.take(lambda pair: pair in rows, ahead=1)
            rows.append(pair)
            deck.vote(number, (*pair, float(answer(*pair) > 0.5)))
        judged = [(x, y, answer(x, y)) for x in range(20) for y in range(20) if (x - y) % 20 in (1, 4, 7)]
        return rows, telling_pairs(fit(judged), 25, 0)

    on_all_cpus(made)
    judged = fit([(x, (x + 1) % 6, 0.5) for x in range(6)], "poe-bt")  # of equals all pairs tell the same
    assert telling_pairs(judged, 3, 0) != telling_pairs(judged, 3, 1)


@pytest.mark.long
def test_the_tables_of_a_study():
    texts = [{"context": str(c), "id": f"{i}", "text": f"{i}", "score": i % 4} for c in range(6) for i in range(8)]
    pairs = [(c, i, j) for c in range(6) for i in range(8) for j in range(8) if i != j]
    ways = [
        *(Way.of("poe-bt"), Way.of("avg-prob", orders="one"), Way.of("poe-bt", "joint", orders="one")),
        *(Way.of(method, strategy="greedy") for method in ("poe-bt", "win-ratio")),
    ]

    def made(answer):
        rows = [{"context": str(c), "first": f"{i}", "second": f"{j}", "p": answer(i + c, j)} for c, i, j in pairs]
        results = sweep({"wit": Recorded.of(rows, Items.of(texts), "score")}, ways, ["2n", 24, "all"], draws=5)
        return str(correlations_table(results)), str(retention_table(results))

    on_all_cpus(made)


@pytest.mark.parametrize("options", [{}, {"prior": "estimated"}, {"method": "bt"}])
def test_equals_are_ranked_in_one_order_and_chances_are_the_same(options):
    def made(answer):
        # Eight texts, of which each half are equals.
        rows = [(x, y, answer(3 * (x // 4), 3 * (y // 4))) for x in range(8) for y in range(8) if x != y]
        ranking = fit(Comparisons.from_rows(rows), **options)
        chances = [expected_spearman(ranking), expected_spearman(ranking, 1.0), top_probability(ranking, 4)]
        return list(ranking), ranking.rank.tolist(), ranking.tier.tolist(), np.round(chances, 6).tolist()

    order, rank, *_ = on_all_cpus(made)
    assert order in ([*range(8)], [4, 5, 6, 7, 0, 1, 2, 3])
    assert sorted(rank) == [1] * 4 + [5] * 4


def test_ties_are_within_rounding():
    values = np.array([[1.0, 2.0 + TIES / 4, np.nan], [2.0, 1.0 + 8 * TIES, -np.inf]])
    found = merge_ties(values)
    assert found[0, 1] == found[1, 0]
    assert found[0, 0] < found[1, 1]
    np.testing.assert_allclose(found, values, rtol=TIES)
    assert first_best(np.array([[0.5, 1.0 - TIES / 2, 1.0], [3.0, 3.0 - 9 * TIES, -1.0]]), axis=1).tolist() == [1, 0]
    assert first_best(np.array([-1.0, 0.2, 0.2 + TIES / 10])) == 1


def test_no_sort_leaves_the_order_of_equals_to_numpy():
    """A stable argsort only; the inside of a partition has no order, so that it is sorted."""
    found = []
    for path in SOURCE.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
            kinds = [ast.unparse(keyword.value) for keyword in call.keywords if keyword.arg == "kind"]
            if name == "argpartition" or (name == "argsort" and kinds != ["'stable'"]):
                found.append(f"{path.relative_to(SOURCE)}:{call.lineno}")
    assert found == []
