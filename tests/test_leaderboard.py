"""The leaderboard of groups: against a dense oracle, and by simulation against known systems."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit, logit

from benchmarks.systems import answers
from comparo import Comparisons, fit, rank
from comparo.ranking.grouping import CONFOUNDED, group_means
from comparo.ranking.leaderboard import win_probability
from inside import Limits, quiet_fit
from split import one_short


def systems(rng, groups=6, contexts=20, calls=2, sd=0.5, is_hard=False):
    """Answers about `groups` systems on contexts, with their true means, for new contexts and for these."""
    return answers(rng, groups, contexts, calls, sd, is_hard)


def test_the_means_are_those_of_dense_generalised_least_squares():
    """y = A s + noise, s = P m + δ, m free: all as dense matrices, for one ratio σ²/φ."""
    data, _, _ = systems(np.random.default_rng(1), groups=4, contexts=5, calls=2)
    ranking = quiet_fit(data, prior="estimated", groups="items", bias="none")
    predicted, graph = ranking.solution.effects.predicted, ranking.graph
    observed = predicted.solver.pattern
    a, rows = 0.7, np.arange(len(observed.first))
    design = np.zeros((len(rows), graph.nodes))
    design[rows, observed.first], design[rows, observed.second] = 1.0, -1.0
    weight = predicted.solver.c
    y = predicted.solver.pull / weight
    spread = np.diag(1.0 / weight) + a * design @ design.T
    groups = graph.centre(np.eye(4)[graph.item])
    inside = np.linalg.pinv((design @ groups).T @ np.linalg.solve(spread, design @ groups), rcond=1e-9)
    theta = inside @ (design @ groups).T @ np.linalg.solve(spread, y)
    found, covariance = predicted.free(a)
    np.testing.assert_allclose(found, theta, atol=1e-8)
    np.testing.assert_allclose(covariance / predicted.variances.noise(a), inside, atol=1e-8)
    _, means = group_means(graph, graph.item)
    gain = a * design.T @ np.linalg.inv(spread)
    start, solved = predicted.solver.given(a, groups, means.T)
    expected = groups @ theta + gain @ (y - design @ groups @ theta)
    np.testing.assert_allclose(means @ (start + solved[:, :4] @ theta), means @ expected, atol=1e-8)
    left = a * np.eye(graph.nodes) - gain @ design * a
    np.testing.assert_allclose(means @ solved[:, 4:], means @ left @ means.T, atol=1e-8)


def covered(board, truth):
    true = truth[board.group.astype(int)]
    return np.mean((board.low <= true) & (true <= board.high))


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize(
    ("is_hard", "groups", "contexts", "calls"), [(False, 8, 20, 2), (False, 4, 5, 3), (True, 6, 40, 3)]
)
def test_intervals_cover_the_means_of_new_and_of_these_contexts(is_hard, groups, contexts, calls):
    """50 runs: the share of intervals that cover has an error of 0.01 to 0.02."""
    rng, new, these = np.random.default_rng(0), [], []
    for _ in range(50):
        data, means, here = systems(rng, groups, contexts, calls, is_hard=is_hard)
        ranking = quiet_fit(data, "mixed", groups="items")
        new.append(covered(ranking.groups(), means))
        these.append(covered(ranking.groups(contexts="these"), here))
    assert 0.91 < np.mean(new) < 0.985
    assert 0.89 < np.mean(these) < 0.985


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize("is_hard", [False, True])
def test_equal_systems_share_a_tier(is_hard):
    """At a chance of 5% each, more than 7 of 60 runs split with a probability of 1%."""
    rng = np.random.default_rng(2)
    boards = [
        quiet_fit(systems(rng, sd=0.0, contexts=15, is_hard=is_hard)[0], "mixed", groups="items").groups()
        for _ in range(60)
    ]
    assert sum(board.tier.max() > 1 for board in boards) <= 7
    assert np.mean([board.best.max() for board in boards]) < 0.75


def test_systems_far_apart_are_told_apart():
    data, means, _ = systems(np.random.default_rng(3), sd=2.0, contexts=30, calls=4)
    board = quiet_fit(data, "mixed", groups="items").groups()
    assert board.group.tolist() == np.argsort(-means).tolist()
    assert board.tier.max() > 3
    best, second = board.group[:2].tolist()
    assert board.probability(best, second) == pytest.approx(1 - board.probability(second, best))
    apart, low, high = board.difference(best, second)
    assert low < apart < high
    assert board.best.sum() == pytest.approx(1.0)
    assert np.all((board.best_rank <= board.rank) & (board.rank <= board.worst_rank))


@pytest.mark.long
def test_two_systems_with_one_pair_on_each_input():
    """Nothing tells noise from what differs between inputs there; the interval is that of their sum."""
    rng = np.random.default_rng(4)
    hits, widths = [], []
    for _ in range(80):
        d = 0.4 + rng.standard_normal(30)
        noise = 0.5 * rng.standard_normal((2, 30))
        first, second = np.tile([0, 1], 30), np.tile([1, 0], 30)
        p = expit(np.stack([d + noise[0] + 0.5, -d + noise[1] + 0.5], axis=1).ravel())
        data = Comparisons.from_columns(first, second, p, context=np.repeat(np.arange(30), 2))
        board = quiet_fit(data, "mixed", groups="items").groups()
        _, low, high = board.difference(0, 1)
        hits.append(low <= 0.4 <= high)
        widths.append((high - low) / 2)
        these = quiet_fit(data, "mixed", groups="items").groups(contexts="these")
        assert these.std.tolist() == board.std.tolist()
    assert 0.9 <= np.mean(hits) <= 0.99
    assert np.mean(widths) == pytest.approx(2.05 * np.sqrt((1 + 0.125) / 30), rel=0.1)


def test_a_plain_ranking_and_a_consensus_have_the_leaderboard_of_the_mixed_model():
    data, _, _ = systems(np.random.default_rng(5))
    mixed = quiet_fit(data, "mixed", groups="items").groups()
    consensus = quiet_fit(data, "mixed", groups="items", estimate="consensus")
    np.testing.assert_array_equal(consensus.groups().score, mixed.score)
    np.testing.assert_array_equal(consensus.leaderboard.wins, mixed.wins)
    for method in ("poe-bt", "avg-prob", "poe-g"):
        plain = quiet_fit(data, method).groups()
        np.testing.assert_allclose(plain.score, mixed.score)
        np.testing.assert_allclose(plain.std, mixed.std)


def test_a_panel_has_a_leaderboard():
    rng = np.random.default_rng(7)
    means = np.array([1.0, 0.3, -0.3, -1.0])
    rows = []
    for judge, scale in (("ana", 1.0), ("bo", 0.6), ("cy", -0.8)):
        for context in range(25):
            own = np.random.default_rng(context).standard_normal(4) * 0.5
            view = scale * (means + own) + 0.2 * rng.standard_normal(4)
            for i, j in [(i, j) for i in range(4) for j in range(4) if i != j]:
                p = float(expit(view[i] - view[j] + 0.5 * rng.standard_normal()))
                rows.append({"first": i, "second": j, "p": p, "judge": judge, "context": context})
    grouped = quiet_fit(rows, "panel", groups="items")
    board = grouped.groups()
    assert board.group.tolist() == [0, 1, 2, 3]
    assert board.tier.tolist() == [1, 2, 3, 4]
    again = quiet_fit(rows, "panel").groups(by="items")
    np.testing.assert_allclose(again.score, board.score, atol=1e-9)
    these = grouped.groups(contexts="these")
    assert np.all(these.std < board.std)


def test_win_rates_are_the_means_over_the_pairs_of_a_context():
    data, _, _ = systems(np.random.default_rng(8), groups=4, contexts=6, calls=3)
    ranking = quiet_fit(data, "mixed", groups="items")
    board = ranking.groups()
    for g, one in enumerate(board.group.tolist()):
        for h, other in enumerate(board.group.tolist()):
            if g != h:
                found = []
                for context in range(6):
                    row, column = ranking[context, one], ranking[context, other]
                    nodes = (ranking.solution.numbers[context, each] for each in (one, other))
                    variance = ranking.covariance.difference(*nodes)
                    found.append(win_probability(np.array(row.score - column.score), np.array(variance)))
                assert board.wins[g, h] == pytest.approx(np.mean(found))
    np.testing.assert_allclose(board.wins + board.wins.T, 1.0)
    assert board.won.sum() == pytest.approx(6.0)
    assert board.calls.sum() == 2 * len(data)


def test_groups_of_one_large_context_have_no_win_rates():
    rng = np.random.default_rng(9)
    group = {k: f"system {k % 3}" for k in range(60)}
    score = np.array([k % 3 for k in range(60)]) + 0.3 * rng.standard_normal(60)
    first, second = rng.integers(60, size=(2, 600))
    keep = first != second
    p = expit(score[first] - score[second] + 0.5 * rng.standard_normal(600))[keep]
    data = Comparisons.from_columns(first[keep], second[keep], p)
    exact = quiet_fit(data, "mixed", groups=group).groups()
    large = quiet_fit(data, "mixed", groups=group, limits=Limits(exact=10)).groups()
    assert exact.group.tolist() == large.group.tolist() == ["system 2", "system 1", "system 0"]
    assert exact.contexts.tolist() == [1, 1, 1]
    assert exact.texts.tolist() == [20, 20, 20]
    assert exact.wins[0, 2] == pytest.approx(expit(2.0), abs=0.05)
    np.testing.assert_array_equal(large.wins, np.where(np.eye(3), 0.5, np.nan))
    assert json.loads(large.to_json())["wins"]["system 2"]["system 0"] is None
    assert exact.score[0] - exact.score[2] == pytest.approx(2.0, abs=4 * exact.std.max())


@pytest.mark.parametrize(
    ("rows", "by", "problem"),
    [
        ([("a", "b", 0.7), ("b", "c", 0.6)], None, "no two texts"),
        ([("a", "b", 0.7), ("b", "c", 0.6)], dict.fromkeys("abc", "one"), "'one'"),
        ([("a", "b", 0.7), ("b", "c", 0.6)], {"a": 1, "b": 2, "c": 3}, "one text only"),
        ([("a", "b", 0.7), ("b", "c", 0.6)], {"a": 1, "b": 2}, "'c'"),
        ([("a", "b", 0.7), ("c", "d", 0.6)], {"a": 1, "b": 1, "c": 2, "d": 2}, "no chain"),
    ],
)
def test_groups_that_cannot_be_compared_are_said(rows, by, problem):
    with pytest.raises(ValueError, match=problem):
        quiet_fit(rows).groups(by=by)


def test_the_table_as_text_csv_json_and_frame():
    data, _, _ = systems(np.random.default_rng(10), groups=3)
    ranking = fit(data, "mixed", groups="items")
    board = ranking.leaderboard
    assert board.to_csv().splitlines()[0].startswith("group,score,std,low,high,rank,best_rank,worst_rank,tier,best,")
    document = json.loads(board.to_json())
    assert [row["group"] for row in document["groups"]] == board.group.tolist()
    assert document["wins"]["0"]["1"] == board.wins[board.group.tolist().index(0), board.group.tolist().index(1)]
    assert json.loads(ranking.to_json())["groups"] == document["groups"]
    assert len(str(board).splitlines()) == 4
    assert board.to_frame("polars").shape == (3, 15)
    assert "<table>" in board._repr_html_()
    with pytest.raises(KeyError, match=r"no group 'x'.*\b0\b"):
        board.probability("x", 0)
    with pytest.raises(ValueError, match="'all'"):
        ranking.groups(contexts="all")


def test_a_run_writes_its_leaderboard_and_the_command_prints_it(run, tmp_path):
    rows = [
        {"id": f"{k}/{s}", "text": f"Number {s}.", "context_id": k, "system": f"system {s}", "score": s}
        for k in range(6)
        for s in range(4)
    ]
    (tmp_path / "items.jsonl").write_text("\n".join(map(json.dumps, rows)))
    judge = ("--judge", "simulated/soft", "-o", "scores=score")
    command = ("rank", "items.jsonl", "--group", "system", *judge)
    done = run(tmp_path, (*command, "--out", "run"))
    assert done.returncode == 0, done.stderr
    sentence, _, header, *lines = done.stdout.splitlines()
    assert "--estimate judge" in sentence
    assert header.split()[:2] == ["group", "score"]
    assert [line.split("  ")[0] for line in lines[:4]] == ["system 3", "system 2", "system 1", "system 0"]
    assert (tmp_path / "run" / "leaderboard.csv").read_text().splitlines()[1].startswith("system 3,")
    document = json.loads(run(tmp_path, (*command, "--out", "run", "--format", "json")).stdout)
    assert [row["group"] for row in document["groups"]] == ["system 3", "system 2", "system 1", "system 0"]
    plain = run(tmp_path, (*command, "--out", "plain", "--plain"))
    assert plain.stdout.splitlines()[1].startswith("system 3")


def test_recorded_comparisons_have_a_leaderboard_where_it_is_asked_for(run, tmp_path):
    lines = [
        f"{c},{i},{j},{0.5 + (j - i) / 8 + c / 50}" for c in range(4) for i in range(3) for j in range(3) if i != j
    ]
    (tmp_path / "answers.csv").write_text("\n".join(["context,first,second,p", *lines]))
    done = run(tmp_path, ("fit", "answers.csv", "--leaderboard", "--top", "1"))
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()[:4]] == ["group", "0", "1", "2"]
    document = json.loads(run(tmp_path, ("fit", "answers.csv", "--leaderboard", "--format", "json")).stdout)
    assert [row["group"] for row in document["groups"]] == ["0", "1", "2"]
    (tmp_path / "one.csv").write_text("first,second,p\na,b,0.7\n")
    refused = run(tmp_path, ("fit", "one.csv", "--leaderboard"))
    assert refused.returncode == 2
    assert "one text only" in refused.stderr


@pytest.mark.long
def test_the_leader_is_the_best_as_often_as_it_says():
    """400 boards of five systems whose means vary by 0.5, known to 0.35: the share has an error of 0.024."""
    rng, right, said = np.random.default_rng(0), [], []
    centre = np.eye(5) - 0.2
    board = quiet_fit(systems(rng, groups=5, contexts=8)[0], "mixed", groups="items").groups()
    for _ in range(400):
        means = 0.5 * rng.standard_normal(5)
        score = centre @ (means + 0.35 * rng.standard_normal(5))
        order = np.argsort(-score)
        best = replace(board, score=score[order], covariance=0.35**2 * centre, freedom=np.inf).best
        right.append(order[0] == np.argmax(means))
        said.append(best[0])
    assert np.mean(said) == pytest.approx(np.mean(right), abs=3 * 0.024)
    assert best.sum() == pytest.approx(1.0)


def battles(n=400):
    """One decision or tie in each of n contexts between five systems, and the wins of each, ties by half."""
    rng = np.random.default_rng(0)
    first = rng.integers(5, size=n)
    second = (first + rng.integers(1, 5, size=n)) % 5
    p = (rng.random(n) < expit(0.6 * (second - first))).astype(float)
    p[rng.random(n) < 0.2] = 0.5
    columns = {"first": first, "second": second, "p": p, "context": np.arange(n)}
    return columns, np.bincount(first, p, 5) + np.bincount(second, 1 - p, 5), np.bincount([*first, *second])


@pytest.mark.parametrize("method", ["poe-bt", "mixed"])
def test_judges_of_one_battle_each_are_people_in_one_pool(method):
    columns, won, met = battles()
    one = quiet_fit(Comparisons.from_columns(**columns), method).groups()
    each = quiet_fit(Comparisons.from_columns(**columns, judge=np.arange(400)), method).groups()
    np.testing.assert_array_equal(each.score, one.score)
    np.testing.assert_array_equal(each.wins, one.wins)
    share = (won / met)[each.group]
    np.testing.assert_allclose(each.to_columns()["win_rate"], share, atol=0.06)


@pytest.mark.parametrize(("won", "contexts"), one_short([(29, 40), (157, 200)]))
def test_one_decision_in_each_context_is_on_the_scale_of_the_win_rate(won, contexts):
    p = np.arange(contexts) < won
    turned = np.arange(contexts) % 2 == 0
    ends = [np.where(turned, *names) for names in (("x", "y"), ("y", "x"))]
    data = Comparisons.from_columns(*ends, (p == turned).astype(float), context=np.arange(contexts))
    board = quiet_fit(data).groups()
    assert (board.group.tolist(), board.won.tolist()) == (["x", "y"], [won, contexts - won])
    apart, low, high = board.difference("x", "y")
    assert apart == pytest.approx(np.log(won / (contexts - won)), rel=0.06)
    error = np.sqrt(1 / won + 1 / (contexts - won))  # of the logit of a share
    assert (high - low) / 2 == pytest.approx(1.97 * error, rel=0.1)
    assert len(board.notes) == 1
    twice = np.repeat(np.arange(len(data)), 2)
    assert not any("win rate" in note for note in quiet_fit(data.take(twice)).groups().notes)


def test_the_command_says_what_the_leaderboard_assumes_and_refuses_a_method_without_effect(run, tmp_path):
    columns, _, _ = battles(60)
    Comparisons.from_columns(**columns).write(tmp_path / "votes.csv")
    done = run(tmp_path, ("fit", "votes.csv", "--leaderboard"))
    assert done.returncode == 0, done.stderr
    assert "win rate" in done.stderr
    board = quiet_fit(Comparisons.from_columns(**columns), limits=Limits(mixed_rounds=1)).groups()
    assert any("did not settle" in note for note in board.notes)
    refused = run(tmp_path, ("fit", "votes.csv", "--leaderboard", "--method", "win-ratio"))
    assert refused.returncode == 2
    assert "--method" in refused.stderr


def test_texts_without_groups_have_no_leaderboard():
    texts = {"a": "one", "b": "two", "c": "three"}
    assert rank(texts, "better", judge=lambda first, second: 0.7 if first < second else 0.3).leaderboard is None


def test_a_group_that_is_always_first_keeps_its_win_rate_and_says_what_is_confounded():
    rows = [{"context": c, "first": "x", "second": "y", "p": float(c < 29)} for c in range(40)]
    board = fit(rows, "mixed", groups="items").groups()
    assert board.won.tolist() == [29.0, 11.0]
    assert board.score[0] - board.score[1] == pytest.approx(logit(29 / 40), abs=0.06)
    assert CONFOUNDED in board.notes
    turned = [{**row, "first": "y", "second": "x", "p": 1.0 - row["p"]} if row["context"] % 2 else row for row in rows]
    assert CONFOUNDED not in fit(turned, "mixed", groups="items").groups().notes


@pytest.mark.long
def test_contexts_with_one_choice_count_as_observed_beside_one_that_has_more():
    rows = [
        {"context": c, "first": "xy"[c % 2], "second": "yx"[c % 2], "p": float((c < 29) != c % 2)} for c in range(40)
    ]
    board = fit([*rows, rows[0]], "mixed", groups="items").groups()
    assert board.won[0] == pytest.approx(29, abs=0.5)
