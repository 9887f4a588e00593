"""The open loop: adaptive choices are the formula evaluated naively, and nothing is asked twice."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit
from scipy.stats import norm

from comparo import Comparisons, ComparisonsError, load_judge, plan, rank
from comparo.methods import WIDE
from comparo.model.solution import Solution
from comparo.selection import Selector, greedy, greedy_pairs, in_one_order, random_pairs
from comparo.selection.designs import DEFAULT_ORDERS, default_strategy
from inside import BradleyTerry, Limits, multiply, next_pairs
from oracle import design_log_det

Rows = list[tuple[int, int, float]]


def judge(rows: list[tuple[int, int]], scores: np.ndarray, rng: np.random.Generator, noise: float = 0.5) -> Rows:
    return [(a, b, float(expit(scores[a] - scores[b] + noise * rng.standard_normal()))) for a, b in rows]


def run(selector: Selector, scores: np.ndarray, calls: int, batch: int, seed: int = 0, noise: float = 0.5) -> Rows:
    rng, answered = np.random.default_rng(seed), []
    while len(answered) < calls:
        rows = judge(selector.next(min(batch, calls - len(answered))), scores, rng, noise)
        selector.observe(rows)
        answered += rows
    return answered


def naive_scores(rows: Rows, items: int) -> np.ndarray:
    product = naive_product(rows)
    scores = np.zeros(items)
    scores[product.comparisons.items[product.graph.item].astype(int)] = product.scores
    return scores


def naive_product(rows: Rows) -> Solution:
    return multiply(Comparisons.from_rows(rows), BradleyTerry(), prior=WIDE)


def curvature_of(asked: list[tuple[int, int]], scores: np.ndarray) -> np.ndarray:
    H = WIDE**-2 * np.eye(len(scores))
    for a, b in asked:
        r = np.zeros(len(scores))
        r[a], r[b] = 1.0, -1.0
        H += expit(scores[a] - scores[b]) * expit(scores[b] - scores[a]) * np.outer(r, r)
    return H


def naive_batch(rows: Rows, pending: list[tuple[int, int]], items: int, batch: int, calls: int) -> list[frozenset[int]]:
    """The paper's formula, with a fresh inverse for every pair and every pair looked at."""
    scores = naive_scores(rows, items)
    asked = [(a, b) for a, b, _ in rows] + pending
    chosen: list[frozenset[int]] = []
    while len(chosen) < batch:
        A = np.linalg.inv(curvature_of(asked, scores))
        gains = {
            (a, b): expit(scores[a] - scores[b]) * expit(scores[b] - scores[a]) * (A[a, a] + A[b, b] - 2 * A[a, b])
            for a, b in itertools.combinations(range(items), 2)
            if not {(a, b), (b, a)} & set(asked)
        }
        best = max(gains, key=lambda pair: gains[pair])
        chosen.append(frozenset(best))
        asked += [best] * calls
    return chosen


@pytest.mark.parametrize("orders", ["one", "both"])
@pytest.mark.parametrize("candidates", [4096, 5])
def test_adaptive_is_the_formula(orders: Any, candidates: int) -> None:
    items, calls = 12, 2 if orders == "both" else 1
    scores = 2 * np.random.default_rng(1).standard_normal(items)
    limits = Limits(candidates=candidates)
    selector = Selector(range(items), orders=orders, strategy="adaptive", seed=np.random.default_rng(2), limits=limits)
    rows = run(selector, scores, (items - 1) * calls, 6)
    assert len({frozenset(row[:2]) for row in rows}) == items - 1
    for seed in range(6):
        expected = naive_batch(rows, [], items, 4, calls)
        batch = selector.next(4 * calls)
        assert [frozenset(row) for row in batch[::calls]] == expected
        answers = judge(batch, scores, np.random.default_rng(seed))
        selector.observe(answers)
        rows += answers


def test_what_is_asked_and_not_answered_counts_at_the_current_scores() -> None:
    items = 10
    scores = np.random.default_rng(1).standard_normal(items)
    selector = Selector(range(items), strategy="adaptive", orders="one", seed=np.random.default_rng(2))
    rows = run(selector, scores, 15, 5)
    waiting = selector.next(3)
    more = judge([(a, b) for a, b in selector.next(3)], scores, np.random.default_rng(9))
    selector.observe(more)
    rows += more
    assert [frozenset(row) for row in selector.next(3)] == naive_batch(rows, waiting, items, 3, 1)


def test_an_answer_in_the_other_order_is_an_answer() -> None:
    items = 10
    scores = np.random.default_rng(1).standard_normal(items)
    selector = Selector(range(items), strategy="adaptive", orders="one", seed=np.random.default_rng(2))
    rows = run(selector, scores, 15, 5)
    more = judge([(b, a) for a, b in selector.next(3)], scores, np.random.default_rng(9))
    selector.observe(more)
    assert [frozenset(row) for row in selector.next(3)] == naive_batch(rows + more, [], items, 3, 1)


def test_adaptive_without_answers_is_greedy() -> None:
    for items, number in ((30, 150), (80, 500)):
        greedy_design = greedy_pairs(items, number, np.random.default_rng(0))
        rows = np.array(
            run(
                Selector(range(items), strategy="adaptive", orders="one", seed=np.random.default_rng(0)),
                np.zeros(items),
                number,
                16,
                noise=0,
            )
        )
        logs = []
        for pairs in (greedy_design, rows[:, :2].astype(np.int32)):
            columns = np.ascontiguousarray(pairs.T)
            logs.append(design_log_det(Comparisons(np.arange(items), *columns, np.full(number, 0.5))))
        assert logs[1] == pytest.approx(logs[0], rel=0.01)


def test_adaptive_joins_what_others_asked_before() -> None:
    selector = Selector(range(8), strategy="adaptive", orders="one", seed=np.random.default_rng(0))
    selector.observe([(0, 1, 0.5), (2, 3, 0.5), (1, 4, 0.5)])
    assert selector.remaining == 28 - 3
    asked = {frozenset(row) for row in selector.next(4)}
    groups = [{0, 1, 4}, {2, 3}, {5}, {6}, {7}]
    assert not any(pair <= group for pair in asked for group in groups)
    rest = {frozenset(row) for row in selector.next(21)}
    assert len(asked | rest) == 25
    assert not {frozenset(pair) for pair in [(0, 1), (2, 3), (1, 4)]} & (asked | rest)


def naive_top(rows: Rows, items: int, top: int, dispersion: float) -> frozenset[int]:
    """The pair with the largest expected fall of Σ P(1 − P) over pairs across the border, each by its own sum."""
    scores = naive_scores(rows, items)
    A = np.linalg.inv(curvature_of([(a, b) for a, b, _ in rows], scores))
    best = np.argsort(-scores)
    worth = {}
    for x, y in itertools.combinations(range(items), 2):
        if {(x, y), (y, x)} & {row[:2] for row in rows}:
            continue
        c = expit(scores[x] - scores[y]) * expit(scores[y] - scores[x])
        change = c * np.outer(A[x] - A[y], A[x] - A[y]) / (1 + c * (A[x, x] + A[y, y] - 2 * A[x, y]))
        worth[x, y] = 0.0
        for i, j in itertools.product(best[:top], best[top:]):
            variance = A[i, i] + A[j, j] - 2 * A[i, j]
            density = norm.pdf((scores[i] - scores[j]) / np.sqrt(dispersion * variance)) ** 2 / variance
            worth[x, y] += density * (change[i, i] + change[j, j] - 2 * change[i, j])
    return frozenset(max(worth, key=lambda pair: worth[pair]))


def test_top_k_is_the_formula() -> None:
    items = 11
    scores = np.random.default_rng(3).standard_normal(items)
    selector = Selector(range(items), goal="top-3", orders="one", seed=np.random.default_rng(4))
    rows = run(selector, scores, 18, 1)
    for seed in range(8):
        product = naive_product(rows)
        pair = selector.next(1)
        assert frozenset(pair[0]) == naive_top(rows, items, 3, product.dispersion)
        answers = judge(pair, scores, np.random.default_rng(seed))
        selector.observe(answers)
        rows += answers


def test_inside_a_batch_top_k_updates_by_rank_one() -> None:
    rng = np.random.default_rng(0)
    covariance = np.cov(rng.standard_normal((9, 40)))
    scores = rng.standard_normal(9)
    border = greedy.Border(covariance, np.triu(np.ones((9, 9), dtype=bool), 1), scores, 4)
    for _ in range(5):
        x, y = border.pick()
        r = np.eye(9)[x] - np.eye(9)[y]
        covariance = np.linalg.inv(np.linalg.inv(covariance) + border.c[x, y] * np.outer(r, r))
        assert np.allclose(border.information.covariance, covariance)
        assert np.allclose(border.information.worth, covariance @ border.information.laplacian @ covariance)


@pytest.mark.long
@pytest.mark.statistical
def test_top_k_is_right_more_often_at_equal_calls() -> None:
    # The gain is largest where k is far below N; with 24 items and k = 4 it takes hundreds of runs to show.
    items, top, calls, runs = 60, 5, 240, 40
    right: dict[str, list[bool]] = {}
    for number in range(runs):
        scores = 1.5 * np.random.default_rng([1, number]).standard_normal(items)
        best = set(np.argsort(-scores)[:top].tolist())
        for strategy, goal in (("random", "ranking"), ("adaptive", "ranking"), ("adaptive", "top-5")):
            selector = Selector(
                range(items), strategy=strategy, goal=goal, orders="one", seed=np.random.default_rng([2, number])
            )
            rows = run(selector, scores, calls, 30, seed=number, noise=1.0)
            found = set(np.argsort(-naive_scores(rows, items))[:top].tolist())
            right.setdefault(f"{strategy} {goal}", []).append(found == best)
    for other in ("random ranking", "adaptive ranking"):
        gain = np.array(right["adaptive top-5"], dtype=float) - np.array(right[other], dtype=float)
        assert gain.mean() > 2 * gain.std() / np.sqrt(runs)


@given(
    st.integers(2, 9),
    st.sampled_from(["random", "greedy", "adaptive"]),
    st.sampled_from(["one", "both"]),
    st.lists(st.integers(1, 7), min_size=1, max_size=30),
    st.integers(0, 2**32 - 1),
)
@settings(deadline=None, max_examples=150 * settings.default.max_examples // 100)
def test_nothing_is_asked_twice(items: int, strategy: Any, orders: Any, batches: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    selector = Selector(range(items), strategy=strategy, orders=orders, seed=np.random.default_rng(seed))
    asked: set[Any] = set()
    total = items * (items - 1) // (1 if orders == "both" else 2)
    for batch in batches:
        # Now and then an answer to what was never handed out.
        if rng.random() < 0.3:
            a, b = rng.choice(items, 2, replace=False).tolist()
            selector.observe([(a, b, 0.6)])
            asked.add((a, b) if orders == "both" else frozenset((a, b)))
        left = selector.remaining
        assert left == total - len(asked)
        if batch > left:
            with pytest.raises(ValueError, match=rf"\b{batch} calls .*\b{left} "):
                selector.next(batch)
            continue
        rows = selector.next(batch)
        assert len(rows) == batch
        codes = set(rows) if orders == "both" else {frozenset(row) for row in rows}
        assert len(codes) == batch
        assert not codes & asked
        asked |= codes
        if rng.random() < 0.7:
            selector.observe(judge(rows, np.arange(items) / 2, rng))


@given(st.integers(2, 12), st.lists(st.integers(1, 12), min_size=1, max_size=8), st.integers(0, 2**32 - 1))
@settings(deadline=None)
def test_random_batches_connect_and_cover_as_soon_as_they_can(items: int, batches: list[int], seed: int) -> None:
    selector = Selector(range(items), strategy="random", orders="one", seed=np.random.default_rng(seed))
    rows: list[tuple[int, int]] = []
    for batch in batches:
        rows += selector.next(min(batch, selector.remaining or 0)) if selector.remaining else []
        parent = list(range(items))
        for a, b in rows:
            parent = [parent[a] if root == parent[b] else root for root in parent]
        assert len(set(parent)) == max(1, items - len(rows))
        assert len({item for row in rows for item in row}) >= min(items, batches[0] * 2)


@pytest.mark.parametrize("strategy", ["random", "greedy", "adaptive"])
def test_one_order_is_balanced_as_batches_come(strategy: Any) -> None:
    items = 40
    selector = Selector(range(items), strategy=strategy, orders="one", seed=np.random.default_rng(0))
    rows = np.array(run(selector, np.linspace(-1, 1, items), 400, 16))[:, :2].astype(int)
    first, second = (np.bincount(column, minlength=items) for column in rows.T)
    assert np.max(np.abs(first - second)) <= 3


def test_both_orders_follow_each_other_across_batches() -> None:
    selector = Selector("abcd", strategy="greedy", orders="both", seed=np.random.default_rng(0))
    assert selector.remaining == 12
    rows = selector.next(3) + selector.next(1) + selector.next(5)
    assert all(one == other[::-1] for one, other in zip(rows[:8:2], rows[1:8:2], strict=True))
    assert selector.remaining == 3
    assert rows[8] == selector.next(1)[0][::-1]


def test_the_other_order_of_what_was_seen_is_asked() -> None:
    selector = Selector("ab", orders="both", strategy="adaptive", seed=np.random.default_rng(0))
    selector.observe([("a", "b", 0.6)])
    assert selector.next(1) == [("b", "a")]
    assert selector.remaining == 0


def test_an_answer_to_a_call_still_in_the_queue_takes_it_out() -> None:
    selector = Selector("abc", orders="both", strategy="adaptive", seed=np.random.default_rng(0))
    ((first, second),) = selector.next(1)
    selector.observe([(second, first, 0.6)])
    assert (second, first) not in selector.next(4)
    assert selector.remaining == 0


def test_greedy_takes_account_of_pairs_it_did_not_hand_out() -> None:
    selector = Selector(range(6), strategy="greedy", orders="one", seed=np.random.default_rng(0))
    chain = selector.next(5)
    ends = [item for item in range(6) if sum(item in row for row in chain) == 1]
    selector.observe([(ends[0], ends[1], 0.5)])
    # On a ring of six the largest resistance is between opposites.
    (pair,) = selector.next(1)
    order = {frozenset(row) for row in chain}
    steps = [{pair[0]}]
    ring = [*order, frozenset(ends)]
    for _ in range(3):
        steps.append({item for edge in ring if edge & steps[-1] for item in edge} - set().union(*steps))
    assert steps[3] == {pair[1]}


def test_the_last_pairs_are_asked_where_no_pair_says_anything_of_the_border():
    """By rounding, the gain of the last pairs may be below 0."""
    scores = dict(enumerate(1.5 * np.random.default_rng(5).standard_normal(30)))
    judge = load_judge("simulated/soft", scores=scores, seed=5, noise=1.0)
    texts = {item: f"text {item}" for item in scores}
    found = rank(texts, "better", judge=judge, budget="100%", goal="top-1", until=0.9999, seed=5)
    assert len(found.comparisons) == 30 * 29


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"items": ["a"]}, "nothing to compare: 1 items"),
        ({"items": ["a", "b", "a"]}, "item 'a' is there more than once"),
        ({"strategy": "best"}, "random, greedy, adaptive"),
        ({"orders": "two"}, "orders = 'two'"),
        ({"goal": "top"}, "'top-5', not 'top'"),
        ({"goal": "top-3"}, "3 items.* top-1 to top-2"),
        ({"goal": "top-0"}, "top-1 to top-2"),
        (
            {"goal": "top-1", "strategy": "greedy"},
            "strategy='adaptive', not 'greedy'",
        ),
    ],
)
def test_what_a_selector_cannot_be_made_of(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Selector(**({"items": ["a", "b", "c"], "seed": np.random.default_rng(0)} | arguments))


def test_what_cannot_be_asked_or_observed() -> None:
    selector = Selector(["a", "b", "c"], orders="both", strategy="adaptive", seed=np.random.default_rng(0))
    with pytest.raises(ValueError, match=r"batch .*not 0"):
        selector.next(0)
    with pytest.raises(ValueError, match=r"7 calls .*3 items.*3 pairs"):
        selector.next(7)
    with pytest.raises(ComparisonsError, match=r"comparison 2 .*'d'.*'[abc]'"):
        selector.observe([("a", "b", 0.5), ("a", "d", 0.5)])
    contexts = Comparisons.from_columns(["a", "a"], ["b", "b"], [0.5, 0.5], context=["x", "y"])
    with pytest.raises(ComparisonsError, match=r"2 contexts; .*Selector"):
        selector.observe(contexts)
    assert selector.remaining == 6


def test_weights_beyond_arithmetic_are_refused() -> None:
    selector = Selector("abcd", strategy="adaptive", orders="one", seed=np.random.default_rng(0))
    selector.observe([("a", "b", 0.5, 4.0**40), ("b", "c", 0.5, 1.0), ("c", "d", 0.5, 4.0**40)])
    with pytest.raises(ValueError, match=r"weights .*apart"):
        selector.next(1)


def test_next_pairs_of_every_context() -> None:
    items = {"x": ["a", "b", "c"], "y": ["a", "d", "e", "f"]}
    asked = Comparisons.from_columns(["a", "d"], ["b", "e"], [0.6, 0.7], weight=[1.0, 2.0], context=["x", "y"])
    columns = next_pairs(items, 2, asked, strategy="adaptive", orders="one", seed=np.random.default_rng(0))
    assert columns["context"] == ["x", "x", "y", "y"]
    pairs = [frozenset(pair) for pair in zip(columns["first"], columns["second"], strict=True)]
    assert set(pairs[:2]) == {frozenset("ac"), frozenset("bc")}
    assert pairs[2] | pairs[3] >= {"a", "f"}
    again = next_pairs(items, 2, asked, strategy="adaptive", orders="one", seed=np.random.default_rng(0))
    assert again == columns


def test_what_is_not_said_is_the_shared_default() -> None:
    assert (DEFAULT_ORDERS, default_strategy(), default_strategy("top-2")) == ("both", "greedy", "adaptive")
    selector = Selector(range(9), seed=1)
    assert (selector.strategy, selector.calls) == ("greedy", 2)
    assert Selector(range(9), goal="top-2", seed=1).strategy == "adaptive"
    assert selector.next(20) == Selector(range(9), strategy="greedy", orders="both", seed=1).next(20)
    columns = next_pairs({None: list(range(9))}, 20, seed=1)
    spelled = next_pairs({None: list(range(9))}, 20, strategy="greedy", orders="both", goal="ranking", seed=1)
    assert columns == spelled


@pytest.mark.parametrize(
    "choose",
    [
        lambda rng: Selector(range(9), seed=rng).next(20),
        lambda rng: next_pairs({"x": list("abcd"), "y": list("abcde")}, 4, seed=rng),
        lambda rng: greedy_pairs(9, 20, rng).tolist(),
        lambda rng: random_pairs(9, 20, seed=rng).tolist(),
        lambda rng: in_one_order(np.array([[0, 1], [2, 3], [4, 5], [6, 7]]), 8, seed=rng).tolist(),
        lambda rng: plan(6, draws=2, seed=rng).reached.tolist(),
    ],
)
def test_a_seed_is_as_good_as_its_generator(choose: Any) -> None:
    before = np.random.get_state()[1].tolist()  # noqa: NPY002
    assert choose(3) == choose(np.random.default_rng(3)) != choose(4)
    assert choose(None)
    assert np.random.get_state()[1].tolist() == before  # noqa: NPY002


def test_next_pairs_says_in_which_context_it_fails() -> None:
    items, rng = {"x": ["a", "b"], "y": ["a", "b", "c"]}, np.random.default_rng(0)
    with pytest.raises(ValueError, match=r"'x': 2 calls .*1 pairs"):
        next_pairs(items, 2, strategy="adaptive", orders="one", seed=rng)
    with pytest.raises(ValueError, match=r"^2 calls .*\b1\b"):
        next_pairs({None: ["a", "b"]}, 2, strategy="adaptive", orders="one", seed=rng)
    with pytest.raises(ComparisonsError, match="column context"):
        next_pairs(items, 1, Comparisons.from_rows([("a", "b", 0.5)]), strategy="adaptive", orders="one", seed=rng)
    other = Comparisons.from_columns(["a"], ["b"], [0.5], context=["z"])
    with pytest.raises(ComparisonsError, match="context 'z'"):
        next_pairs(items, 1, other, strategy="adaptive", orders="one", seed=rng)
