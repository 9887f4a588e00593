"""Draws, cells, tables and the study command, against loops over contexts and scipy."""

import csv
import io
import itertools
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit, logit
from scipy.stats import pearsonr, spearmanr

from benchmarks.paper.claims import Difference, difference
from benchmarks.paper.datasets import open_dataset
from benchmarks.paper.experiments import METHODS, Plan, experiment
from benchmarks.paper.page import _figures, render
from comparo import Comparisons, ComparisonsError, Items, fit
from comparo.methods import METHODS as ALL_METHODS
from comparo.methods import quiet_fit
from comparo.studies.display import (
    Entry,
    ResultTable,
    attributes_table,
    calls_needed,
    correlations_table,
    retention_table,
)
from comparo.studies.draws import calls_in, draw, reaches
from comparo.studies.recorded import Opened, Recorded, open_set
from comparo.studies.sweep import Cell, Fit, Results, Way, correlate, evaluate, everything, score, sweep
from oracle import design_log_det
from split import one_short

ROOT = Path(__file__).parents[1]
DATA = ROOT.parent / "shared" / "data"
real = pytest.mark.recorded


def texts(sizes, rng, scores=("score",)):
    """Items of contexts c0, c1, … with human scores in halves; the first stands out, so that people tell some apart."""
    return [
        {"id": f"i{item}", "context_id": f"c{context}", "text": "word " * int(rng.integers(1, 9))}
        | {
            f"score_{name}" if name != "score" else name: round(2 * rng.normal()) / 2 + 9 * (item == 0)
            for name in scores
        }
        for context, size in enumerate(sizes)
        for item in range(size)
    ]


def judged(rows, rng, score="score", bias=0.5, share=1.0):
    """A judge who is biased, noisy and rounds to eighths, on all pairs in both orders, or on a share of them."""
    found = []
    for context in dict.fromkeys(row["context_id"] for row in rows):
        group = [row for row in rows if row["context_id"] == context]
        for number, (one, other) in enumerate(itertools.combinations(group, 2)):
            if number >= len(group) - 1 and rng.random() > share:  # the pairs of the first item stay: all are connected
                continue
            for first, second in ((one, other), (other, one)):
                p = expit(bias + np.clip(first[score] - second[score], -2, 2) + rng.normal())
                found.append((context, first["id"], second["id"], np.clip(round(8 * p) / 8, 0.02, 0.98)))
    context, first, second, p = zip(*found, strict=True)
    return Comparisons.from_columns(first, second, np.array(p), context=context)


def recording(sizes, seed=0, share=1.0):
    rng = np.random.default_rng(seed)
    rows = texts(sizes, rng)
    return Recorded.of(judged(rows, rng, share=share), Items.of(rows), "score")


def pairs_of(draws, number, context):
    """The ordered pairs of candidates drawn in one context."""
    ends = np.cumsum(draws.calls)
    rows = draws.rows[number, ends[context] - draws.calls[context] : ends[context]]
    return list(zip(draws.recorded.first[rows].tolist(), draws.recorded.second[rows].tolist(), strict=True))


@settings(max_examples=60 * settings.default.max_examples // 100, deadline=None)
@given(
    sizes=st.lists(st.integers(3, 7), min_size=1, max_size=3),
    orders=st.sampled_from(["both", "one"]),
    strategy=st.sampled_from(["random", "greedy"]),
    share=st.sampled_from([1.0, 0.6]),
    an_item=st.sampled_from(["2n", "2.5n", "3n", "all"]),
    seed=st.integers(0, 1000),
)
def test_draws_are_recorded_calls_with_every_item(sizes, orders, strategy, share, an_item, seed):
    recorded = recording(sizes, seed, share)
    calls = calls_in(recorded, an_item, orders)
    draws = draw(recorded, an_item, 3, rng=np.random.default_rng(seed), orders=orders, strategy=strategy)
    assert draws.calls.tolist() == calls.tolist()
    assert draws.rows.shape == (3, calls.sum())
    again = draw(recorded, an_item, 3, rng=np.random.default_rng(seed), orders=orders, strategy=strategy)
    assert np.array_equal(draws.rows, again.rows)
    for number, context in itertools.product(range(3), range(len(sizes))):
        pairs = pairs_of(draws, number, context)
        inside = set(range(*recorded.starts[context : context + 2]))
        assert {end for pair in pairs for end in pair} == inside
        unordered = [frozenset(pair) for pair in pairs]
        if orders == "both":
            assert len(set(pairs)) == len(pairs)
            assert set(pairs) == {pair[::-1] for pair in pairs}
        else:
            assert len(set(unordered)) == len(pairs)
        available = np.sum(recorded.context[recorded.first] == context) // 2
        assert len(set(unordered)) == min(len(pairs) // (2 if orders == "both" else 1), available)
    assert draws.whole == (orders == "both" and int(calls.sum()) == len(recorded))


def test_random_draws_are_uniform_among_those_that_hold_every_item():
    recorded = recording([4])
    draws = draw(recorded, 6, 4000, rng=np.random.default_rng(0))  # three of six pairs
    sets = [frozenset(map(frozenset, pairs_of(draws, number, 0))) for number in range(4000)]
    pairs = list(map(frozenset, itertools.combinations(range(4), 2)))
    allowed = {frozenset(three) for three in itertools.combinations(pairs, 3) if len(frozenset.union(*three)) == 4}
    assert set(sets) == allowed
    counts = np.array([sets.count(each) for each in allowed])
    expected = 4000 / len(allowed)
    assert np.sum((counts - expected) ** 2 / expected) < 50  # χ² with 15 degrees of freedom


def test_few_pairs_an_item_hold_every_item_and_either_order_is_seen_about_equally_often():
    draws = draw(recording([20]), 20, 5, rng=np.random.default_rng(0))  # ten pairs for twenty items
    assert all(len({end for pair in pairs_of(draws, number, 0) for end in pair}) == 20 for number in range(5))
    recorded = recording([6] * 20)
    draws = draw(recorded, 10, 20, rng=np.random.default_rng(0), orders="one")
    lower_first = recorded.first[draws.rows] < recorded.second[draws.rows]
    assert 0.45 < lower_first.mean() < 0.55


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_greedy_draws_determine_more_than_random_ones(share):
    recorded = recording([14], share=share)
    found = {}
    for strategy in ("random", "greedy"):
        draws = draw(recorded, "4n", 20, rng=np.random.default_rng(0), strategy=strategy)
        assert len({rows.tobytes() for rows in np.sort(draws.rows, axis=1)}) > 10
        found[strategy] = [design_log_det(draws.one(number)) for number in range(20)]
    assert np.min(found["greedy"]) > np.median(found["random"])


def test_what_cannot_be_drawn_is_refused_with_what_can():
    recorded = recording([5, 5])
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match=r"'c0': 4 .*\b6\b.*\b20\b"):
        draw(recorded, 4, 2, rng=rng)
    with pytest.raises(ValueError, match=r"3n.* all.* 'many'"):
        calls_in(recorded, "many")
    assert reaches(recorded, 20, "both")
    assert not reaches(recorded, 20, "one")
    rows = texts([4], rng)
    once = [(one["id"], other["id"], 0.7) for one, other in itertools.combinations(rows, 2)]
    recorded = Recorded.of(once, Items.of(rows), "score")
    with pytest.raises(ValueError, match="orders='one'"):
        draw(recorded, 6, 1, rng=rng)
    assert draw(recorded, 6, 1, rng=rng, orders="one").rows.shape == (1, 6)


def naive_scores(first, second, p, items, method, shift):
    """The scores of one context in one draw, by what the method says and scipy."""
    if method in ("avg-prob", "win-ratio"):
        total, won = np.zeros(items), np.zeros(items)
        seen = {}
        for i, j, value in zip(first, second, p, strict=True):
            seen.setdefault(frozenset((i, j)), []).append((i, j, value))
        for answers in seen.values():
            i, j, _ = answers[0]
            merged = np.mean([value if a == i else 1 - value for a, _, value in answers])
            value = merged if method == "avg-prob" else (np.sign(merged - 0.5) + 1) / 2
            won[[i, j]] += value, 1 - value
            total[[i, j]] += 1
        return won / total

    def loss(scores):
        d = scores[first] - scores[second] - shift
        if method == "poe-bt":
            return np.sum(np.logaddexp(0, d) - p * d) + scores[0] ** 2 / 2
        return np.sum((d - (p - 0.5)) ** 2) / 2 + scores[0] ** 2 / 2

    found = minimize(loss, np.zeros(items), method="BFGS", options={"gtol": 1e-8}).x
    return found - found.mean()


@pytest.mark.parametrize(
    ("method", "bias", "orders"),
    [
        ("poe-bt", "none", "both"),
        ("poe-g", "none", "both"),
        ("avg-prob", "none", "both"),
        ("win-ratio", "none", "both"),
        ("poe-bt", "none", "one"),
        ("poe-bt", "plug-in", "one"),
    ],
)
def test_a_cell_is_what_loops_and_scipy_make_of_it(method, bias, orders):
    recorded = recording([6, 8, 6, 5], seed=3)
    draws = draw(recorded, "3n" if orders == "both" else "2n", 4, rng=np.random.default_rng(1), orders=orders)
    spearman, pearson = np.empty((2, 4, 4))
    for number in range(4):
        p = recorded.p[draws.rows[number]]
        shift = -logit(np.mean(p)) if bias == "plug-in" else 0.0
        ends = np.cumsum(draws.calls)
        for context in range(4):
            rows = draws.rows[number, ends[context] - draws.calls[context] : ends[context]]
            begin, end = recorded.starts[context : context + 2]
            first, second = recorded.first[rows] - begin, recorded.second[rows] - begin
            scores = naive_scores(first, second, recorded.p[rows], end - begin, method, shift).round(5)
            human = recorded.human[begin:end]
            spearman[number, context] = spearmanr(scores, human).statistic
            pearson[number, context] = pearsonr(scores, human).statistic
    cell = evaluate(draws, Fit(method, bias))
    assert cell.spearman == pytest.approx(spearman.mean(axis=1), abs=1e-6)
    assert cell.pearson == pytest.approx(pearson.mean(axis=1), abs=1e-4)
    assert cell.by_context == pytest.approx(spearman.mean(axis=0), abs=1e-6)


@pytest.mark.parametrize("sizes", [[6, 6, 9], [70]])
def test_bradley_terry_has_the_maximum_of_the_classical_iteration(sizes):
    recorded = recording(sizes, seed=5)
    comparisons = draw(recorded, "8n" if sizes == [70] else "4n", 2, rng=np.random.default_rng(0)).together()
    ends, context = (comparisons.first, comparisons.second), comparisons.context
    merged = Comparisons.from_columns(*ends, comparisons.p, context=context).merge_orders()
    merged = Comparisons(merged.items, merged.first, merged.second, merged.p, None, merged.contexts, merged.context)
    assert Fit("bt")(comparisons).scores == pytest.approx(fit(merged, "bt", prior_pairs="compared").scores, abs=1e-6)


class Counted:
    """A scorer that counts how often it is asked, and by how many contexts."""

    def __init__(self, independent):
        self.independent = independent
        self.asked = []

    def __call__(self, comparisons):
        self.asked.append(len(comparisons.contexts))
        return Fit("avg-prob")(comparisons)


def test_draws_are_fitted_together_unless_contexts_share_something():
    recorded = recording([4, 5, 4])
    some = draw(recorded, "2n", 6, rng=np.random.default_rng(0))
    together, apart = Counted(True), Counted(False)
    assert score(some, together) == pytest.approx(score(some, apart))
    assert (together.asked, apart.asked) == ([18], [3] * 6)
    whole = draw(recorded, "all", 6, rng=np.random.default_rng(0))
    once = Counted(True)
    assert np.ptp(score(whole, once), axis=0).max() == 0
    assert once.asked == [3]
    assert everything(recorded).calls.tolist() == whole.calls.tolist()


def test_draws_do_not_leak_into_each_other():
    recorded = recording([5, 6])
    some = draw(recorded, "2n", 3, rng=np.random.default_rng(0), orders="one")
    for bias in ("plug-in", "joint"):
        found = score(some, Fit("poe-bt", bias))
        for number in range(3):
            assert found[number] == pytest.approx(by_candidate(Fit("poe-bt", bias)(some.one(number))))


def by_candidate(ranking):
    """The scores of a ranking of one draw, in the recorded order."""
    return ranking.scores[np.lexsort((ranking.graph.item, ranking.graph.context))]


@pytest.mark.parametrize("orders", ["both", "one"])
@pytest.mark.parametrize("method", ALL_METHODS)
@pytest.mark.parametrize("soft", one_short([1, 0, 70]))
def test_a_study_scores_a_draw_as_fit_does(method, orders, soft):
    recorded = recording([5, 6, 5])
    decided = np.arange(len(recorded)) < len(recorded) - soft
    recorded = replace(recorded, p=np.where(decided, np.round(recorded.p), recorded.p))
    some = draw(recorded, "2n", 3, rng=np.random.default_rng(0), orders=orders)
    assert {some.one(number).hard for number in range(3)} == {0: {True}, 1: {True, False}, 70: {False}}[soft]
    found = score(some, Way.of(method, orders=orders).scorer)
    for number in range(3):
        asked, how = some.one(number), {}
        if method in ("win-ratio", "bt", "poe-g-hard"):  # the paper's set-up: one decision for both orders
            asked = replace(asked.merge_orders(), weight=None)
            how = {"prior_pairs": "compared"} if method == "bt" else {}
        expected = quiet_fit(asked, method, **how)
        assert found[number] == pytest.approx(by_candidate(expected), abs=1e-6), number


def test_a_bias_that_is_not_the_methods_own_is_named():
    names = [Way.of(*way).name for way in (("mixed",), ("mixed", "joint"), ("mixed", "none"), ("poe-bt", "none"))]
    assert names == ["mixed", "mixed", "mixed, bias none", "poe-bt"]


def test_contexts_that_people_do_not_tell_are_left_out_and_said():
    rows = texts([4, 4, 4], np.random.default_rng(2))
    for row in rows[:4]:
        row["score"] = 3
    rows[5]["score"] = None
    comparisons = judged([row | {"score": row["score"] or 0} for row in rows], np.random.default_rng(0))
    recorded = Recorded.of(comparisons, Items.of(rows), "score")
    assert recorded.has_spread.tolist() == [False, True, True]
    items_left, contexts_left = recorded.notes
    assert items_left.startswith("1 of 12")
    assert contexts_left.startswith("1 of 3")
    assert "the same score" in contexts_left
    scores = np.random.default_rng(1).normal(size=(1, 12))
    known = [[4, 6, 7], [8, 9, 10, 11]]
    expected = [spearmanr(scores[0][group], recorded.human[group]).statistic for group in known]
    assert correlate(recorded, scores).spearman == pytest.approx([np.mean(expected)])
    assert np.isnan(correlate(recorded, scores).by_context[0])


def test_rounding_ranks_nothing_and_equal_scores_correlate_by_nothing():
    recorded = recording([6])
    tied = np.array([1.0, 1.0, 2.0, 2.0, 3.0, 3.0])
    noisy = tied + 1e-12 * np.arange(6)
    expected = spearmanr(tied, recorded.human).statistic
    found = correlate(recorded, np.array([tied, noisy, np.full(6, 0.3)]))
    assert found.spearman == pytest.approx([expected, expected, 0.0])
    assert found.pearson[2] == 0.0


def test_repeated_judgements_count_once_and_strangers_are_refused():
    rows = texts([3], np.random.default_rng(0))
    items = Items.of(rows)
    recorded = Recorded.of([("i0", "i1", 0.2), ("i0", "i1", 0.6), ("i1", "i2", 0.5)], items, "score")
    assert recorded.p == pytest.approx([0.4, 0.5])
    assert recorded.weight.tolist() == [2.0, 1.0]
    with pytest.raises(ComparisonsError, match=r"1 .*'ana'"):
        Recorded.of([("i0", "ana", 0.2)], items, "score")
    with pytest.raises(ComparisonsError, match=r"'wit'.* score"):
        Recorded.of([("i0", "i1", 0.2)], items, "wit")
    two = Items.of(texts([3, 3], np.random.default_rng(0)))
    with pytest.raises(ComparisonsError, match="column context"):
        Recorded.of([("i0", "i1", 0.2)], two, "score")


@pytest.fixture(scope="module")
def results():
    return sweep(
        {"wit": recording([8] * 12, 1), "salt": recording([8] * 12, 2)},
        [Way.of("poe-bt"), Way.of("win-ratio"), Way.of("poe-bt", "joint", orders="one")],
        ["2n", 24, "all", 400],
        draws=6,
    )


@pytest.mark.long
def test_a_sweep_does_not_depend_on_what_else_is_studied_nor_on_processes(results):
    alone = sweep(
        {"salt": results.recorded["salt"]}, [Way.of("win-ratio"), Way.of("avg-prob")], [24], draws=6, processes=2
    )
    assert np.array_equal(alone.values("win-ratio", "24"), results.values("win-ratio", "24", attribute="salt"))


def test_calls_that_are_out_of_reach_are_not_studied(results):
    assert results.calls == ("2n", "24", "all")
    assert results.values("poe-bt, bias joint, one order", "24") is not None
    assert [results.made(way, "all") for way in results.ways] == [56, 56, 28]
    with pytest.raises(ValueError, match="400"):
        sweep(results.recorded, results.ways, [400], draws=2)
    with pytest.raises(ValueError, match="'poe-bt'"):
        sweep(results.recorded, [Way.of("poe-bt")] * 2, [16], draws=2)


def test_tables_say_the_same_in_all_formats(results):
    broken = ResultTable("", ("a|b", '50%, "more"'), (("$way|#1", (Entry(1.0),)),))
    assert broken.markdown().splitlines()[2] == r"| $way\|#1 | 1.0 |"
    assert next(csv.reader(io.StringIO(broken.csv()))) == ["a|b", '50%, "more"']
    for table in (
        correlations_table(results),
        correlations_table(results, "pearson"),
        attributes_table(results, "24"),
        retention_table(results),
    ):
        read = list(csv.reader(io.StringIO(table.csv())))
        markdown = [re.split(r" \| ", line.strip("| ")) for line in table.markdown().splitlines()]
        assert [row[0] for row in read] == [row[0] for row in markdown[:1] + markdown[2:]]
        assert markdown[0] == list(table.columns)
        for (label, entries), line, row in zip(table.rows, markdown[2:], read[1:], strict=True):
            values = dict(zip(read[0], row, strict=True))
            for name, entry, shown in zip(table.columns[1:], entries, line[1:], strict=True):
                if entry is None:
                    assert (shown, values[name]) == ("–", "")
                    continue
                numbers = [float(number) for number in re.findall(r"-?\d+\.?\d*", shown)]
                assert float(values[name]) == pytest.approx(entry.value)
                assert numbers[0] == pytest.approx(entry.value, abs=0.51 * 10**-entry.digits), (label, name)
                if entry.deviation is not None:
                    assert float(values[f"{name} ±"]) == pytest.approx(entry.deviation)
                    assert numbers[1] == pytest.approx(entry.deviation, abs=0.051)


def made_up(values, full):
    """Results of one way whose mean correlation is `values` at 8, 16 and 24 calls."""
    way, recorded = Way.of("poe-bt"), recording([8])
    cells = {}
    for calls, value in zip(("8", "16", "24"), values, strict=True):
        cells["score", "poe-bt", calls] = Cell(np.array([value - 0.1, value + 0.1]), np.zeros(2), np.array([value]))
    cells["score", "poe-bt", None] = Cell(np.array([full]), np.array([full]), np.array([full]))
    return Results({"score": recorded}, (way,), ("8", "16", "24"), 2, cells)


def test_calls_for_95_percent_are_where_the_line_crosses():
    crossing = made_up([0.5, 0.7, 0.8], 0.8)
    assert str(calls_needed(crossing, crossing.ways[0])) == "21"  # 0.76 is 0.6 of the way from 16 to 24: 20.8
    assert calls_needed(crossing, crossing.ways[0]).value == pytest.approx(20.8)
    early = made_up([0.79, 0.7, 0.8], 0.8)
    assert str(calls_needed(early, early.ways[0])) == "≤ 8"
    never = made_up([0.1, 0.2, 0.3], 0.8)
    assert calls_needed(never, never.ways[0]) is None
    worthless = made_up([0.1, 0.2, 0.3], -0.1)
    assert calls_needed(worthless, worthless.ways[0]) is None
    shares = [str(entry) for entry in retention_table(crossing).rows[0][1]]
    assert shares == ["62", "88", "100", "80.0", "21"]


def test_a_difference_has_the_interval_of_students_t_over_contexts():
    way = Way.of("poe-bt")
    recorded = recording([5] * 4)
    by_context = np.array([[0.1, 0.2, 0.4, np.nan], [0.0, 0.2, 0.1, 0.3]])
    cells = {
        ("score", name, "10"): Cell(np.zeros(2), np.zeros(2), row) for name, row in zip("ab", by_context, strict=True)
    }
    found = Results({"score": recorded}, (way,), ("10",), 2, cells)
    apart = difference(found, "a", found, "b", "10")
    gaps = 100 * np.array([0.1, 0.0, 0.3])
    reach = 4.302652729696142 * np.std(gaps, ddof=1) / np.sqrt(3)  # t of 2 degrees of freedom at 97.5%
    assert (apart.value, apart.low, apart.high) == pytest.approx(
        (gaps.mean(), gaps.mean() - reach, gaps.mean() + reach)
    )
    assert apart.verdict == "not significant"
    assert Difference(-1, -2, -0.5).verdict == "did not hold"


def opened(name, sizes, attributes, seed):
    rng = np.random.default_rng(seed)
    rows = texts(sizes, rng, attributes)
    items = Items.of(rows)
    recorded = {
        attribute: Recorded.of(judged(rows, rng, f"score_{attribute}"), items, attribute) for attribute in attributes
    }
    return Opened(name, items, recorded)


@pytest.mark.long
def test_the_page_has_every_claim_and_its_own_figures(tmp_path):
    small = Plan("SummEval", METHODS, ("10", "14", "30"), ("14",), ("10", "14"), "14", "10")
    large = Plan(
        "HANNA", ("win-ratio", "avg-prob", "poe-bt", "poe-g"), ("5n", "10n", "20n"), ("5n",), ("5n",), "5n", "5n"
    )
    found = {
        "summeval": experiment(opened("summeval", [6] * 8, ("relevance", "fluency"), 1), small, 4),
        "hanna": experiment(opened("hanna", [24], ("coherence",), 2), large, 3),
    }
    page = render(found, 4, "python -m benchmarks.paper.page")
    reached = found["summeval"].random.mean("poe-bt", "14", attribute="relevance")
    by_attribute = page.split("By attribute, at 14 calls:")[1].split("Kept of")[0]
    assert re.search(rf"\| poe-bt \| {100 * reached:.1f} ± ", by_attribute)
    for claim in ("Probabilities beat decisions", "experts agree", "Greedy selection adds", "must be debiased"):
        assert f"| {claim}" in page or re.search(rf"\| [^|]*{claim}", page)
    assert "10 N calls" in page
    assert "{{" not in page
    assert "nan" not in page
    figures = _figures(found)
    for name, figure in figures.items():
        assert f"images/study_{name}.png" in page
        figure.savefig(tmp_path / name, format="png")
        assert (tmp_path / name).stat().st_size < 100_000


@pytest.fixture
def folder(tmp_path):
    """A user's own set: items with two attributes, judgements of each beside them."""
    rng = np.random.default_rng(0)
    rows = texts([6] * 5, rng, ("wit", "salt"))
    (tmp_path / "stories.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "judgements").mkdir()
    for attribute in ("wit", "salt"):
        judged(rows, rng, f"score_{attribute}").write(tmp_path / "judgements" / f"stories.{attribute}.csv.gz")
    return tmp_path


@pytest.fixture
def command(run, tmp_path):
    def start(*arguments, code=0):
        done = run(tmp_path, ["study", *arguments])
        assert done.returncode == code, done.stderr
        return done

    return start


def test_the_command_studies_a_users_own_set(command, folder):
    run = command(
        folder / "stories.jsonl", "--calls", "2n,all", "--draws", 5, "--format", "csv", "--out", folder / "study",
        "--method", "poe-bt", "--method", "win-ratio", "--orders", "both", "--orders", "one", "--bias", "joint",
        "--processes", 1,
    )  # fmt: skip
    rows = list(csv.reader(io.StringIO(run.stdout)))
    assert rows[0] == ["method", "2n = 12", "2n = 12 ±", "all", "all ±"]
    assert [row[0] for row in rows[1:]] == [
        "poe-bt, bias joint", "win-ratio", "poe-bt, bias joint, one order", "win-ratio, one order",
    ]  # fmt: skip
    opened_again = open_set(str(folder / "stories.jsonl"))
    again = sweep(opened_again.recorded, [Way.of("win-ratio")], ["2n"], draws=5)
    assert float(rows[2][1]) == pytest.approx(100 * again.mean("win-ratio", "2n"))
    written = {path.name for path in (folder / "study").iterdir()}
    tables = ("spearman", "pearson", "ndcg", "recall", "retention", "spearman_2n", "spearman_all")
    assert written == {f"{name}.{end}" for name in tables for end in ("md", "csv")} | {"efficiency.png"}
    assert (folder / "study" / "spearman.csv").read_text() == run.stdout


def test_the_command_takes_one_file_of_judgements_and_named_scores(command, folder):
    file = folder / "judgements" / "stories.wit.csv.gz"
    arguments = [folder / "stories.jsonl", "--judgements", file, "--draws", 2, "--calls", "12", "--processes", 1]
    named = command(*arguments, "--columns", "scores=score_wit", "--format", "markdown", "--table", "retention")
    assert named.stdout.startswith("| method | % at 12 |")
    message = command(*arguments, code=2).stderr
    assert "--attribute: wit, salt" in message


def test_the_command_says_what_is_missing(folder, command):
    def message(*arguments):
        return " ".join(command(*arguments, "--processes", 1, code=2).stderr.split())

    items = folder / "stories.jsonl"
    assert re.search("--method .*win-ratio, bt,", message(items, "--method", "elo"))
    assert re.search("3n.* all.* 'few'", message(items, "--calls", "few"))
    assert re.search("'pepper'.* wit, salt", message(items, "--attribute", "pepper"))
    assert "nowhere.jsonl" in message(folder / "nowhere.jsonl")
    assert "300 calls" in message(items, "--calls", "300")
    (folder / "judgements" / "stories.wit.csv.gz").unlink()
    missing = message(items, "--attribute", "wit")
    assert "stories.wit.csv" in missing
    assert "comparo judge" in missing
    assert list(open_set(str(items)).recorded) == ["salt"]


@pytest.fixture(scope="module")
def relevance():
    return open_dataset("summeval", DATA, attributes=["relevance"]).recorded


@pytest.mark.long
@real
def test_the_figures_measured_elsewhere_are_met(relevance):
    expected = {"win-ratio": 23.8, "avg-prob": 25.7, "poe-g": 27.7, "poe-bt": 27.7}
    found = sweep(relevance, [Way.of(method) for method in METHODS], ["48", "240"], draws=40)
    for method, value in expected.items():
        draws = 100 * found.values(method, "48")
        assert abs(draws.mean() - value) < draws.std(ddof=1) / 2, method
    for method in METHODS:
        full = 100 * found.values(method, "240")
        assert full == pytest.approx(29.8 if method in ("win-ratio", "bt", "poe-g-hard") else 31.0, abs=0.05)


@pytest.mark.long
@real
def test_one_order_needs_the_bias_term(relevance):
    ways = {bias: Way.of("poe-bt", bias, orders="one") for bias in ("none", "plug-in", "joint")}
    found = sweep(relevance, list(ways.values()), ["48"], draws=20)
    for bias, value in (("none", 23.3), ("plug-in", 26.3), ("joint", 26.8)):
        draws = 100 * found.values(ways[bias].name, "48")
        assert abs(draws.mean() - value) < draws.std(ddof=1), bias


@pytest.mark.long
@real
def test_the_written_study_has_the_figures_that_its_command_makes(relevance):
    page = (ROOT / "docs" / "measurements" / "study.md").read_text(encoding="utf-8")
    table = page.split("By attribute, at 48 calls:")[1]
    [row] = re.findall(r"\| poe-bt \|(.*)\|", table.split("Kept of")[0])
    names = re.findall(r"\w+", table.strip().splitlines()[0])
    written = dict(zip(names[1:], map(str.strip, row.split("|")), strict=True))["relevance"]
    found = sweep(relevance, [Way.of("poe-bt")], ["48"], draws=100)
    assert written == str(attributes_table(found, "48").rows[0][1][0])
