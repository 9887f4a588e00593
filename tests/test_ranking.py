import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import norm, rankdata

from comparo import Comparisons, fit
from inside import METHODS, Limits, Posterior, top_probability
from oracle import simulate

COLUMNS = ["item", "score", "std", "low", "high", "rank", "tier", "comparisons"]


@pytest.fixture(scope="module")
def ranking():
    comparisons, _ = simulate(np.random.default_rng(0), 8, 60)
    return fit(comparisons)


def blocks(ranking):
    (batch,) = ranking.covariance.pattern.batches
    return ranking.covariance.block(batch)[0]


def by_item(table, name):
    return table[name][np.argsort(table["item"])]


def test_the_frame_is_sorted_and_complete(ranking):
    frame = ranking.to_frame("pandas")
    assert list(frame.columns) == COLUMNS
    assert isinstance(frame, pd.DataFrame)
    assert isinstance(ranking.to_frame("polars"), pl.DataFrame)
    assert frame["score"].is_monotonic_decreasing
    assert frame["rank"].tolist() == list(range(1, 9))
    assert frame["comparisons"].sum() == 2 * 60
    assert np.allclose(frame["high"] - frame["score"], norm.ppf(0.975) * frame["std"])
    assert np.allclose(frame["score"] - frame["low"], norm.ppf(0.975) * frame["std"])
    assert frame["score"].mean() == pytest.approx(0, abs=1e-9)


def test_contexts_come_first_in_their_own_order():
    rows = [
        {"context": c, "first": "a", "second": b, "p": p}
        for c, b, p in (("z", "b", 0.9), ("z", "c", 0.3), ("y", "b", 0.2))
    ]
    frame = fit(rows).to_frame("pandas")
    assert list(frame.columns) == ["context", *COLUMNS]
    assert frame["context"].tolist() == ["z", "z", "z", "y", "y"]
    assert frame["item"].tolist() == ["c", "a", "b", "b", "a"]


def test_probability_is_that_of_the_difference(ranking):
    covariance = blocks(ranking)
    a, b = 2, 5
    spread = np.sqrt(covariance[a, a] + covariance[b, b] - 2 * covariance[a, b])
    expected = norm.cdf((ranking.scores[a] - ranking.scores[b]) / spread)
    assert ranking.probability(ranking.items[a], ranking.items[b]) == pytest.approx(expected)
    assert ranking.probability(ranking.items[b], ranking.items[a]) == pytest.approx(1 - expected)
    assert ranking.probability(ranking.items[a], ranking.items[a]) == 0.5


@pytest.mark.parametrize("method", METHODS)
def test_every_method_has_a_covariance_that_agrees_with_itself(method):
    comparisons, _ = simulate(np.random.default_rng(1), 7, 40)
    ranking = fit(comparisons, method=method)
    covariance = blocks(ranking)
    assert np.allclose(np.sqrt(np.diag(covariance)), ranking.std)
    assert np.linalg.eigvalsh(covariance).min() > -1e-9
    expected = covariance[0, 0] + covariance[3, 3] - 2 * covariance[0, 3]
    assert ranking.covariance.difference(0, 3) == pytest.approx(expected)


def test_ranks_tiers_and_top_agree_with_draws(ranking):
    rng = np.random.default_rng(5)
    root = np.linalg.cholesky(blocks(ranking) + 1e-10 * np.eye(8))
    drawn = ranking.scores[:, None] + root @ rng.standard_normal((8, 20_000))
    ranks = rankdata(-drawn, axis=0)
    order = np.argsort(-ranking.scores)
    places = ranking.rank_intervals()
    assert places["item"].tolist() == ranking.items[order].tolist()
    assert np.all(np.abs(places["best_rank"] - np.quantile(ranks[order], 0.025, axis=1)) <= 1)
    assert np.all(np.abs(places["worst_rank"] - np.quantile(ranks[order], 0.975, axis=1)) <= 1)
    assert np.all(places["best_rank"] <= places["rank"])
    assert np.all(places["rank"] <= places["worst_rank"])
    for k in (1, 3):
        top = ranking.top(k)
        assert top["item"].tolist() == ranking.items[order].tolist()
        assert np.allclose(top["probability"], np.mean(ranks[order] <= k, axis=1), atol=0.05)
        assert top["probability"].sum() == pytest.approx(k)


def test_tables_of_a_ranking_join_by_label_and_by_row():
    """Contexts of different sizes, and the best item named last: the order of `items` is not that of the tables."""
    rows = [("big", f"i{k}", f"i{k + 1}", 0.1) for k in range(4)] + [("small", "i1", "i2", 0.05)]
    rows += [("split", first, second, 0.2) for first, second in (("a", "b"), ("c", "d"))]
    data = Comparisons.from_columns(*zip(*(row[1:] for row in rows), strict=True), context=[row[0] for row in rows])
    with pytest.warns(UserWarning, match="'split'.*not connected"):
        ranking = fit(data, "poe-bt")
    assert sorted(ranking.graph.component_in_context) == [1] * 9 + [2] * 2
    assert ranking.context.tolist() != ranking.to_columns()["context"].tolist()
    frame, names = ranking.to_frame("pandas"), ["context", "component", "item"]
    for table in (ranking.top(1), ranking.rank_intervals()):
        joined = frame.merge(pd.DataFrame(table), on=[*names, "rank"])
        assert len(joined) == len(frame)
        for name, column in table.items():
            assert joined[name].tolist() == column.tolist()
    assert frame["rank"].where(frame.assign(top=ranking.top(1)["probability"])["top"] > 0.5).dropna().unique() == [1]
    best = ranking.rank_intervals()
    assert np.all((best["best_rank"] <= frame["rank"]) & (frame["rank"] <= best["worst_rank"]))
    assert ranking.comparisons.contexts.tolist() == frame["context"].unique().tolist() == ["big", "small", "split"]
    surely = dict(zip(ranking.comparisons.contexts.tolist(), top_probability(ranking, 1), strict=True))
    assert surely["split"] < surely["small"]


def test_a_tier_ends_where_its_best_item_surely_wins(ranking):
    order = np.argsort(-ranking.scores)
    tier, leader = 1, order[0]
    for node in order:
        if node != leader and ranking.probability(ranking.items[leader], ranking.items[node]) >= 0.95:
            tier, leader = tier + 1, node
        assert ranking.tier[node] == tier
    assert ranking.tier.max() > 1


def test_groups_that_are_not_connected_are_ranked_apart():
    rows = [("a", "b", 0.9), ("b", "c", 0.8), ("x", "y", 0.3), ("y", "z", 0.6)]
    with pytest.warns(UserWarning, match="groups"):
        ranking = fit(rows, "poe-bt")
    frame = ranking.to_frame("pandas")
    assert list(frame.columns) == ["component", *COLUMNS]
    assert frame.groupby("component")["rank"].apply(list).tolist() == [[1, 2, 3], [1, 2, 3]]
    assert frame.groupby("component")["score"].sum().abs().max() < 1e-9
    assert np.isnan(ranking.probability("a", "x"))
    assert ranking.probability("a", "c") > 0.5
    places = ranking.rank_intervals()
    assert places["best_rank"].min() == 1
    assert places["worst_rank"].max() == 3
    assert ranking.top(1)["probability"].sum() == pytest.approx(2)
    alone = fit(rows[:2], "poe-bt")
    assert np.allclose(ranking.scores[:3], alone.scores)
    assert "do not compare" in ranking._repr_html_()


def test_an_item_that_was_never_compared_is_listed_without_a_guess():
    matrix = np.full((4, 4), np.nan)
    matrix[0, 1], matrix[1, 2] = 0.9, 0.8
    for method in METHODS:
        with pytest.warns(UserWarning, match="not connected"):
            ranking = fit(matrix, method=method)
        assert np.isnan(ranking.std[3])
        assert ranking.graph.degrees()[3] == 0
        assert np.isfinite(ranking.std[:3]).all()
        row = json.loads(ranking.to_json())["ranking"][-1]
        assert row["item"] == 3
        assert row["std"] is None


def test_large_contexts_use_marginal_errors():
    comparisons, _ = simulate(np.random.default_rng(2), 300, 6000)
    small = fit(comparisons)
    large = fit(comparisons, limits=Limits(exact=100))
    assert np.abs(large.std / small.std - 1).max() < 0.05
    for name in ("best_rank", "worst_rank"):
        assert np.abs(by_item(large.rank_intervals(), name) - by_item(small.rank_intervals(), name)).mean() < 3
    top = [by_item(found.top(10), "probability") for found in (large, small)]
    assert np.abs(top[0] - top[1]).max() < 0.15
    assert np.abs(large.tier - small.tier).max() <= 2
    assert large.probability(3, 4) == pytest.approx(small.probability(3, 4), abs=1e-6)


def test_intervals_cover_the_truth():
    """Hard decisions and soft ones, near and far apart: about 95 of 100 intervals hold the true score."""
    rng = np.random.default_rng(3)
    for hard, spread in ((True, 1.0), (False, 1.0), (False, 3.0)):
        comparisons, truth = simulate(rng, 12, 120, noise=0.4, contexts=100, spread=spread)
        if hard:
            answers = (rng.random(len(comparisons)) < comparisons.p).astype(float)
            comparisons = Comparisons.from_columns(
                comparisons.first, comparisons.second, answers, context=comparisons.context
            )
        ranking = fit(comparisons)
        true = (truth - truth.mean(axis=1, keepdims=True)).ravel()
        covered = np.mean((ranking.low <= true) & (true <= ranking.high))
        assert 0.92 < covered < 0.98, (hard, spread, covered)


def test_soft_answers_are_surer_than_hard_ones():
    comparisons, _ = simulate(np.random.default_rng(4), 10, 200, noise=0.1)
    soft, hard = fit(comparisons), fit(comparisons.decisions())
    assert soft.solution.dispersion < 0.1
    assert hard.solution.dispersion == 1.0
    assert soft.std.mean() < 0.5 * hard.std.mean()
    assert isinstance(soft.covariance, Posterior)


def test_json_and_html_carry_the_table_and_escape_it():
    nasty = "<script>alert(1)</script>"
    ranking = fit([(nasty, "b", 0.9), ("b", nasty, 0.3)], bias="joint")
    document = json.loads(ranking.to_json())
    assert document["ranking"][0]["item"] == nasty
    assert document["bias"][0]["first_wins"] == pytest.approx(1 / (1 + np.exp(document["bias"][0]["gamma"])))
    page = ranking._repr_html_()
    assert nasty not in page
    assert "&lt;script&gt;" in page
    assert "by mixed" in repr(ranking)
    infinite = fit([(float("inf"), "b", 0.99), ("b", float("inf"), 0.99)])
    assert json.loads(infinite.to_json())["ranking"]


def test_a_ranking_behaves_like_a_mapping_of_its_items(ranking, tmp_path):
    assert len(ranking) == 8
    assert list(ranking) == ranking.to_columns()["item"].tolist()
    frame = ranking.to_frame("pandas").set_index("item")
    for item in ranking:
        row = ranking[item]
        assert row.item == item
        assert row.context is None
        assert [getattr(row, name) for name in COLUMNS[1:]] == frame.loc[item].tolist()
    assert next(iter(ranking)) in ranking
    assert "nobody" not in ranking
    with pytest.raises(AttributeError):
        ranking[0].score = 1.0
    assert ranking.to_csv(tmp_path / "ranking.csv") is None
    assert (tmp_path / "ranking.csv").read_bytes().decode() == ranking.to_csv()
    assert ranking.to_csv() is ranking.to_csv()  # that of a large ranking takes seconds


def test_with_contexts_the_keys_are_pairs():
    rows = [{"context": c, "first": "a", "second": "b", "p": p} for c, p in (("x", 0.7), ("y", 0.2))]
    ranking = fit(rows, "poe-bt")
    assert list(ranking) == [("x", "a"), ("x", "b"), ("y", "b"), ("y", "a")]
    assert ranking["y", "b"].rank == 1
    assert ranking["y", "b"].context == "y"
    assert ranking["x", "a"].score == pytest.approx(-ranking["x", "b"].score)
    assert ranking.probability("a", "b", context="x") > 0.5
    for wrong in (lambda: ranking["a"], lambda: ranking.probability("a", "b")):
        with pytest.raises(KeyError, match="2 contexts"):
            wrong()
    with pytest.raises(KeyError, match=r"'z'.* 'x', 'y'"):
        ranking.probability("a", "b", context="z")
    assert fit(rows[:1], "poe-bt")["a"] == fit(rows[:1], "poe-bt")["x", "a"]


def test_a_ranking_prints_as_a_table():
    ranking = fit([("ana", "b\x1b\no", 0.8), ("b\x1b\no", "ana", 0.4)])
    lines = str(ranking).splitlines()
    assert lines[0].split() == COLUMNS
    assert [line.split()[0] for line in lines[1:]] == ["ana", "b\\u001b\\no"]
    assert len({len(line) for line in lines}) == 1
    assert "\n" not in repr(ranking)
    with pytest.warns(UserWarning, match="not connected"):
        split = fit([("a", "b", 0.8), ("c", "d", 0.8)])
    assert "groups" in str(split).splitlines()[-1]
    long = fit([(number, number + 1, 0.6) for number in range(120)])
    assert str(long).endswith("21 more")
    page = long._repr_html_()
    assert (page.count("<tr>"), "<p>21 more</p>" in page) == (101, True)


def test_the_bias_is_had_by_label():
    rows = [
        {"context": c, "judge": j, "first": a, "second": b, "p": p}
        for c in "xyz"
        for j, p in (("one", 0.6), ("two", 0.9))
        for a, b in ("ab", "bc", "ca", *(["ad", "db"] if c == "x" else []))
    ]
    ranking = fit(rows, "poe-bt", bias="joint")
    table = ranking.tables["bias"]
    assert list(table) == ["context", "judge", "gamma", "first_wins"]
    rows_of_table = [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
    assert rows_of_table == json.loads(ranking.to_json())["bias"]
    graph, judges = ranking.graph, ranking.comparisons.judges.tolist()
    contexts = ranking.comparisons.contexts[graph.context[graph.starts[:-1]]].tolist()
    for row in rows_of_table:
        assert row["gamma"] == ranking.solution.bias[contexts.index(row["context"]), judges.index(row["judge"])]
    assert "bias" not in fit(rows, "poe-bt").tables


def test_names_that_do_not_exist_are_said(ranking):
    for wrong in (lambda: ranking["nobody"], lambda: ranking.probability("nobody", 1)):
        with pytest.raises(KeyError, match="'nobody'"):
            wrong()
    with pytest.raises(KeyError, match="no contexts"):
        ranking.probability(0, 1, context="c")
    with pytest.raises(ValueError, match=r"\bk .*not 0"):
        ranking.top(0)


def test_labels_may_be_anything_hashable():
    ranking = fit([(("a", 1), ("b", 2), 0.8), (("b", 2), ("c", 3), 0.7)], "poe-bt")
    assert ranking.probability(("a", 1), ("b", 2)) > 0.5
    rows = [{"context": ("x", c), "first": "a", "second": "b", "p": 0.7} for c in range(2)]
    assert fit(rows, "poe-bt").probability("a", "b", context=("x", 1)) > 0.5
    with pytest.raises(ValueError, match="use backend='pandas'"):
        fit([("a", 1, 0.8), (1, 2.5, 0.7)], "poe-bt").to_frame("pyarrow")
