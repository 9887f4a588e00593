"""Votes with a machine's help: against naive formulas, and by simulation against known scores of people."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit

from benchmarks.powered import Setting, drawn, outcome
from comparo import Comparisons, ComparisonsError
from comparo.model.estimators.prediction_powered import Cells, GroupAnswers, fitted
from comparo.model.estimators.prediction_powered import powered as estimated
from comparo.model.tuning import WIDE
from comparo.ranking.powered import powered
from inside import csv_text


def answers(rng, groups=4, count=60, clusters=15, soft=False, weighted=False):
    """Random answers about groups with effects of the cluster, in which every group occurs."""
    first = np.concatenate([np.arange(groups), rng.integers(groups, size=count - groups)])
    second = (first + rng.integers(1, groups, size=count)) % groups
    cluster = rng.integers(clusters, size=count)
    texts = rng.standard_normal((clusters, groups)) + np.linspace(-0.5, 0.5, groups)
    p = expit(texts[cluster, first] - texts[cluster, second] + 0.3)
    p = p if soft else (rng.random(count) < p).astype(float)
    weight = rng.uniform(0.5, 2.0, count) if weighted else np.ones(count)
    return GroupAnswers(*(part.astype(np.int32) for part in (first, second)), p, weight, cluster.astype(np.int32))


def design(some, groups):
    rows = np.zeros((len(some), groups + 1))
    rows[np.arange(len(some)), some.first] += 1.0
    rows[np.arange(len(some)), some.second] -= 1.0
    rows[:, -1] = -1.0
    return rows


def naive_scores(some, groups, is_reduced=False):
    """The maximum of the log-likelihood with the prior, and with ½ log det of the information where it is reduced."""
    rows = design(some, groups)

    def cost(x):
        d = rows @ x
        total = 0.5 * np.sum(x**2) / WIDE**2 - np.sum(some.weight * (some.p * d - np.logaddexp(0.0, d)))
        information = (rows.T * (some.weight * expit(d) * expit(-d))) @ rows + np.eye(groups + 1) / WIDE**2
        return total - 0.5 * np.linalg.slogdet(information)[1] * is_reduced

    return minimize(cost, np.zeros(groups + 1), method="BFGS", options={"gtol": 1e-8}).x


def centred(x):
    return x[:-1] - np.mean(x[:-1])


@pytest.mark.parametrize(("soft", "weighted"), [(False, False), (True, True)])
def test_scores_are_the_maximum_of_the_likelihood_and_of_firths(soft, weighted):
    some = answers(np.random.default_rng(1), soft=soft, weighted=weighted)
    np.testing.assert_allclose(fitted(some, 4, 15).scores, centred(naive_scores(some, 4)), atol=1e-4)
    x, more = Cells.of(some, 4).reduced(np.zeros(5), 1.0)
    np.testing.assert_allclose(centred(x), centred(naive_scores(some, 4, is_reduced=True)), atol=2e-3)
    assert np.sum(more) == pytest.approx(4.0, abs=0.05)  # leverages sum to the parameters: 3 differences and the bias


def test_what_a_cluster_adds_is_the_derivative_in_its_weight():
    some = answers(np.random.default_rng(2), weighted=True)
    found = fitted(some, 4, 15)
    for cluster in range(3):
        step = 1e-3 * (some.cluster == cluster)
        up, down = (naive_scores(replace(some, weight=some.weight * (1 + sign * step)), 4) for sign in (1, -1))
        derivative = centred(up - down) / 2e-3
        np.testing.assert_allclose((found.gain @ found.pulls[[cluster]].toarray().T)[:, 0], derivative, atol=1e-4)


def parts(seed, clusters):
    """Votes, all answers of a machine that sees the same texts, and its answers to the pairs voted on."""
    rng = np.random.default_rng(seed)
    some = answers(rng, count=200, clusters=clusters, soft=True)
    votes = 80
    seen = GroupAnswers(*(getattr(some, name)[:votes] for name in ("first", "second", "p", "weight", "cluster")))
    people = replace(seen, p=(rng.random(votes) < seen.p).astype(float))
    return people, some, seen


def test_the_estimate_is_that_of_finite_differences_over_clusters():
    """Each machine's term is differentiated by the weight of each cluster, and λ is searched on a line."""
    people, machine, seen = parts(3, 20)
    own, whole = fitted(people, 4, 20, is_reduced=True), fitted(machine, 4, 20)

    def surprise(x, asked):
        return design(asked, 4).T @ (asked.weight * (asked.p - expit(design(asked, 4) @ x)))

    def moved(cluster, step):
        all_answers, voted = (
            replace(some, weight=some.weight * (1 + step * (some.cluster == cluster))) for some in (machine, seen)
        )
        return -own.gain @ surprise(naive_scores(all_answers, 4), voted)

    helped = np.array([(moved(cluster, 1e-3) - moved(cluster, -1e-3)) / 2e-3 for cluster in range(20)])
    alone = (own.gain @ own.pulls.toarray().T).T

    def robust(weight):
        each = own.correction * (alone + weight * helped)
        return each.T @ each

    best = minimize_scalar(lambda weight: np.trace(robust(weight))).x
    found = estimated(own, [(whole, seen)])
    assert found.weight[0] == pytest.approx(best, abs=1e-3)
    expected = own.scores - best * own.gain @ surprise(whole.x, seen)
    np.testing.assert_allclose(found.scores, expected, atol=1e-3)
    np.testing.assert_allclose(found.covariance, own.covariance(robust(best)), atol=1e-4)
    assert np.trace(found.covariance) < np.trace(own.covariance(own.robust))


@pytest.mark.long
def test_a_machine_of_noise_has_no_weight_and_a_reversed_one_a_negative_one():
    rng = np.random.default_rng(4)
    found = {kind: np.array([outcome(rng, Setting(kind, 6, 40))[9:] for _ in range(20)]) for kind in KINDS}
    worth, weight = ({kind: rows[:, column] for kind, rows in found.items()} for column in (0, 1))
    assert abs(np.mean(weight["useless"])) < 3 * np.std(weight["useless"]) / np.sqrt(20)
    assert np.mean(weight["useful"]) > 0.2
    assert np.mean(weight["reversed"]) < -0.2
    assert 1.0 <= np.median(worth["useless"]) < 1.05
    assert np.median(worth["knows texts"]) > 1.15


KINDS = ("useful", "knows texts", "useless", "reversed")


@pytest.mark.long
@pytest.mark.statistical
def test_intervals_cover_peoples_scores_whatever_the_machine_prefers():
    """30 runs of each setting: the share of one that covers has an error of about 0.015, that of all of 0.007."""
    settings = [
        Setting("useful", 5, 20, 1, is_hard=True),
        Setting("useful", 20, 10, 5, is_other_design=True),
        Setting("biased", 8, 30, 3),
        Setting("biased", 5, 50, 1, is_hard=True, is_other_design=True),
        Setting("reversed", 5, 30, 5),
        Setting("useless", 10, 15, 1),
        Setting("biased", 30, 3.6, 1),  # not all groups are connected
    ]
    rng = np.random.default_rng(5)
    found = {setting: np.array([outcome(rng, setting) for _ in range(30)]) for setting in settings}
    covered = [np.mean(rows[:, 0]) for rows in found.values()]
    assert min(covered) > 0.91
    assert 0.94 < np.mean(covered) < 0.975
    biased = np.concatenate([rows for setting, rows in found.items() if setting.machine == "biased"])
    for column in (2, 5):  # both, and people alone
        assert abs(np.mean(biased[:, column])) < 3 * np.std(biased[:, column]) / np.sqrt(len(biased))
    assert np.mean(biased[:, 8]) > 0.5
    for setting, rows in found.items():
        assert np.mean(rows[:, 1]) <= np.mean(rows[:, 4]) * (1.001 if setting.machine == "useless" else 1.0)


def small(seed=6, kind="useful", **more):
    return drawn(np.random.default_rng(seed), Setting(kind, 4, 30, **more))[:2]


def table(**parts):
    """The comparisons of several judges, by name."""
    columns = [part.to_columns() | {"judge": np.full(len(part), name)} for name, part in parts.items()]
    return Comparisons.from_columns(**{name: np.concatenate([part[name] for part in columns]) for name in columns[0]})


def same(one, other, apart=1e-6):
    assert one.group.tolist() == other.group.tolist()
    np.testing.assert_allclose(one.score, other.score, atol=apart)
    np.testing.assert_allclose(one.covariance, other.covariance, atol=apart)


def test_one_table_with_a_column_judge_is_the_same_as_two():
    machine, votes = small()
    one, two = powered(table(m=machine, h=votes), people=["h"]), powered(machine, votes)
    same(one.board, two.board)
    assert one.weight["m"] == pytest.approx(two.weight["machine"], abs=1e-6)
    assert (one.votes, one.matched, one.worth) == (two.votes, two.matched, pytest.approx(two.worth))


def test_groups_by_name_are_those_of_the_mapping():
    machine, votes = small()
    same(powered(machine, votes, {0: 0, 1: 1, 2: 2, 3: 3}).board, powered(machine, votes).board)
    board = powered(machine, votes, {0: "a", 1: "a", 2: "b", 3: "c"}).board
    assert sorted(board.group.tolist()) == ["a", "b", "c"]
    assert np.sum(board.calls) == 2 * len(votes)


@pytest.mark.parametrize(
    "changed",
    [
        lambda part: replace(part, items=np.arange(6)),  # an item without answers is no group
        lambda part: replace(part, first=part.second, second=part.first, p=1 - part.p),
    ],
)
def test_items_without_answers_and_the_order_of_texts_change_nothing(changed):
    parts = small(is_hard=True)
    same(powered(*map(changed, parts)).board, powered(*parts).board)


def test_only_the_ratio_of_weights_counts_and_zero_is_no_answer():
    machine, votes = small()
    twice = [replace(part, weight=np.full(len(part), 2.0)) for part in (machine, votes)]
    same(powered(*twice).board, powered(machine, votes).board, apart=0.01)  # the wide prior counts half as much
    assert powered(*twice).worth == pytest.approx(powered(machine, votes).worth, rel=0.01)
    more = np.concatenate([np.arange(len(votes)), [0, 0]])
    none = replace(votes.take(more), weight=(np.arange(len(more)) < len(votes)).astype(float))
    same(powered(machine, none).board, powered(machine, votes).board)


def test_a_machine_that_answered_only_what_people_voted_on_tells_nothing():
    votes = small()[1]
    alike = replace(votes, p=np.clip(votes.p, 0.1, 0.9))
    found = powered(alike, votes)
    assert found.weight == {"machine": 0.0}
    same(found.board, found.people_only)
    assert found.worth == found.votes == found.matched


def test_several_machines_have_weights_of_their_own():
    machine, votes = small(7, "knows texts")
    noise = replace(machine, p=np.random.default_rng(0).permutation(machine.p))
    found = powered(table(a=machine, b=noise), votes)
    assert set(found.weight) == {"a", "b"}
    assert found.weight["a"] > 3 * abs(found.weight["b"])
    assert found.worth >= powered(machine, votes).worth


def test_groups_without_a_chain_of_votes_are_named_and_change_nothing():
    """As if they were not there; two of them have a vote with each other."""
    machine, votes = small()
    texts = np.arange(7)
    loose = Comparisons(texts, *(np.array([pair], np.int32) for pair in (4, 5)), np.ones(1), None, *contexts(votes, 1))
    asked = Comparisons(
        texts, *(np.array(of, np.int32) for of in ((0, 4, 5), (4, 5, 6))), np.full(3, 0.8), None, *contexts(votes, 3)
    )
    found = powered(joined(machine, asked), joined(votes, loose))
    assert found.left_out == (4, 5, 6)
    same(found.board, powered(machine, votes).board)
    assert "groups (4, 5, 6)" in found.sentence
    assert "groups (" not in powered(machine, votes).sentence


def contexts(like, count):
    return like.contexts, np.zeros(count, np.int32)


def joined(one, other):
    columns = [part.to_columns() for part in (one, other)]
    return Comparisons.from_columns(**{name: np.concatenate([part[name] for part in columns]) for name in columns[0]})


def test_texts_of_one_context_are_compared_as_these_texts():
    """Twenty texts of each of three groups, whose names are the texts' first letters."""
    rng = np.random.default_rng(8)
    labels = [f"{name}{number}" for name in "abc" for number in range(20)]
    scores = dict(zip(labels, np.repeat([0.5, 0.0, -0.5], 20) + rng.standard_normal(60), strict=True))
    pairs = [tuple(rng.choice(labels, 2, replace=False)) for _ in range(600)]
    machine = [(one, other, expit(scores[one] - scores[other])) for one, other in pairs]
    votes = [(one, other, float(rng.random() < p)) for one, other, p in machine[:150]]
    groups = {label: label[0] for label in labels}
    found = powered(machine, votes, groups)
    assert found.board.over == "these"
    assert found.board.group.tolist() == ["a", "b", "c"]
    assert found.worth > found.votes


def test_a_group_that_won_all_of_its_votes_is_not_sure_of_its_score():
    machine, votes = small(9)
    is_first, is_second = votes.first == 0, votes.second == 0
    rows = np.flatnonzero(~(is_first | is_second)).tolist() + np.flatnonzero(is_first | is_second)[:4].tolist()
    won = replace(votes, p=np.where(is_first, 1.0, np.where(is_second, 0.0, votes.p))).take(rows)
    board = powered(machine, won).board
    at = board.group.tolist().index(0)
    assert at == 0
    assert board.std[at] > 1.5 * np.max(np.delete(board.std, at))


def test_votes_that_are_all_ties_are_equal_groups():
    machine, votes = small()
    found = powered(machine, replace(votes, p=np.full(len(votes), 0.5)))
    np.testing.assert_allclose(found.board.score, 0.0, atol=1e-9)
    assert found.worth == found.votes


def test_the_table_says_what_the_votes_are_worth():
    machine, votes = small()
    found = powered(machine, votes)
    assert f"worth {found.worth:.0f} votes" in str(found)
    assert found.saved == round(found.worth) - found.votes > 0
    assert found.sentence in found._repr_html_()
    assert "saved no votes" in replace(found, worth=found.votes - 3.0).sentence
    assert found.board.wins[0, 1] == pytest.approx(expit(found.board.score[0] - found.board.score[1]))
    assert found.board.to_json()


ROWS = [{"context": c, "first": "a", "second": "b", "p": 0.7} for c in range(9)]
OTHERS = [{"context": c, "first": "c", "second": "d", "p": 0.7} for c in range(9)]
LOOSE = [*({"context": c, "first": "a", "second": s, "p": 1.0} for c, s in enumerate("eef")), *OTHERS]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"votes": ROWS[:2]}, "2 votes .* at least 3"),
        ({"votes": LOOSE}, "3 votes .* at least 5"),
        ({"votes": ROWS + OTHERS}, "groups 'a' and 'c'"),
        ({"votes": [row | {"context": 9 + row["context"]} for row in ROWS]}, "no vote"),
        ({"votes": [("a", "b", 1.0)] * 9}, "column context"),
        ({"votes": ROWS[:1] * 9}, "about one context"),
        ({"votes": ROWS, "people": ["x"]}, "people or votes"),
        ({}, "give votes"),
        ({"people": ["x"]}, "'x'"),
        ({"votes": ROWS, "groups": {"a": 1, "b": 1}}, "one group"),
        ({"votes": ROWS, "groups": {"a": 1}}, "'b'"),
        ({"votes": ROWS, "contexts": "all"}, "'new' or 'these'"),
        ({"votes": ROWS, "level": 95}, "level"),
        ({"machine": [("a", "b", 0.7)], "votes": [("a", "b", 1.0)] * 9}, "one pair"),
    ],
)
def test_what_is_missing_is_said_with_its_remedy(given, message):
    with pytest.raises((ComparisonsError, ValueError), match=message):
        powered(**({"machine": ROWS + (OTHERS if len(given.get("votes", ())) > 9 else [])} | given))
    with pytest.raises(TypeError, match=r"\['human'\]"):
        powered(ROWS, people="human")


@pytest.mark.long
def test_texts_of_one_context_are_ranked_as_people_would_whatever_the_machine_says():
    """Each text is a group of its own. The machine shares no luck of single votes, so that it saves none."""
    covered, worth, pairs = [], [], [(i, j) for i in range(15) for j in range(15) if i != j]
    for seed in range(40):
        rng = np.random.default_rng(seed)
        people, other = 1.2 * rng.standard_normal((2, 15))
        machine = [(i, j, expit(other[i] - other[j] + 0.5 * rng.standard_normal())) for i, j in pairs]
        asked = [pairs[k] for k in rng.choice(len(pairs), 100, replace=False)]
        votes = [(i, j, float(rng.random() < expit(people[i] - people[j]))) for i, j in asked]
        found = powered(machine, votes)
        true = (people - np.mean(people))[found.board.group.astype(int)]
        covered.append(np.mean((found.board.low <= true) & (true <= found.board.high)))
        worth.append(found.worth / found.votes)
    assert 0.93 <= np.mean(covered) <= 0.97
    assert 1.0 <= np.median(worth) < 1.02


def test_the_command_says_how_many_votes_were_saved(run, tmp_path):
    machine, votes = small()
    for name, data in (("machine.csv", machine), ("votes.csv", votes)):
        (tmp_path / name).write_text(csv_text(data.to_columns()))
    done = run(tmp_path, ["fit", "--powered", "machine.csv", "--votes", "votes.csv", "--format", "json"])
    assert done.returncode == 0, done.stderr
    found, expected = json.loads(done.stdout), powered(machine, votes)
    assert found["worth"] == pytest.approx(expected.worth)
    assert found["left_out"] == []
    assert [row["score"] for row in found["leaderboard"]["groups"]] == pytest.approx(expected.board.score.tolist())
    assert expected.sentence in done.stderr
    done = run(tmp_path, ["fit", "--powered", "machine.csv"])
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "people" in done.stderr


@pytest.mark.long
def test_the_command_knows_the_groups_of_a_run_folder(run, tmp_path):
    rng = np.random.default_rng(1)
    texts = [
        {"id": f"q{q}-{s}", "context_id": f"q{q}", "text": f"{s} {q}", "group": s} for q in range(40) for s in "ab"
    ]
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in texts))
    judge = ("--criterion", "better", "--judge", "simulated/soft", "--budget", "2n", "--out", "run")
    assert run(tmp_path, ["rank", "texts.jsonl", *judge]).returncode == 0
    lines = [f"q{q},q{q}-a,q{q}-b,{int(rng.random() < 0.7)}" for q in range(20)]
    (tmp_path / "votes.csv").write_text("context,first,second,p\n" + "\n".join(lines))
    done = run(tmp_path, ["fit", "--powered", "run", "--votes", "votes.csv", "--these"])
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()[1:3]] == ["a", "b"]
    assert "20 votes, 20" in done.stderr
