"""A judge against people: known accuracies, calibrations and tastes are found again, and intervals cover them."""

import json
import re
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure
from scipy.special import expit

from comparo import Comparisons, ComparisonsError, agree
from comparo.analysis.agree import PEOPLE
from comparo.analysis.judge_votes import Clusters, share_of
from comparo.metrics import cohen_kappa
from comparo.plots import plot_agreement
from comparo.ranking.self_consistency import wilson
from conftest import RECORDED
from inside import csv_text
from split import one_short

# Shares


def clustered(rng, texts, pairs, people, spread, contexts):
    """Votes that are right with a probability that depends on the texts, the pair and the context."""
    columns = defaultdict(list)
    for context in range(contexts):
        i, j = np.triu_indices(texts, 1)
        some = rng.permutation(len(i))[:pairs]
        i, j, own = i[some], j[some], spread * rng.standard_normal(texts)
        shared = 0.7 * rng.standard_normal() * (contexts > 1)
        right = expit(1 + shared + own[i] + own[j] + spread * rng.standard_normal(len(i)))
        for _ in range(people):
            columns["y"].append(rng.random(len(i)) < right)
            columns["pair"].append(context * 1000 + np.arange(len(i)))
            columns["first"].append(context * 100 + i)
            columns["second"].append(context * 100 + j)
            columns["context"].append(np.full(len(i), context))
    made = {name: np.concatenate(values) for name, values in columns.items()}
    return made.pop("y").astype(float), Clusters(**made)


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize(
    ("texts", "pairs", "people", "spread", "contexts"),
    [
        (20, 60, 1, 0.7, 1),
        (20, 60, 2, 1.2, 1),
        (12, 40, 3, 0.7, 1),
        (8, 10, 2, 0.7, 30),
        (8, 10, 1, 0.7, 60),
        (15, 50, 2, 1.0, 1),  # these played no part in the choice of the degrees of freedom
        (10, 30, 2, 0.7, 1),
        (25, 150, 2, 0.5, 1),
    ],
)
def test_the_accuracy_is_covered_where_votes_belong_together(texts, pairs, people, spread, contexts):
    rng = np.random.default_rng(5)
    deviation = np.sqrt(3 * spread**2 + 0.49 * (contexts > 1))
    truth = np.mean(expit(1 + deviation * rng.standard_normal(200_000)))
    inside, naive = [], []
    for _ in range(1000 if contexts == 1 else 300):
        y, clusters = clustered(rng, texts, pairs, people, spread, contexts)
        found = share_of(y, clusters)
        inside.append(found.low <= truth <= found.high)
        low, high = wilson(found.value, len(y), 1.96)
        naive.append(low <= truth <= high)
    assert 0.93 <= np.mean(inside) <= 0.975
    assert np.mean(naive) < 0.9  # as if all votes were independent


def test_equal_observations_are_no_certainty():
    codes = np.arange(12)
    found = share_of(np.ones(12), Clusters(codes, 2 * codes, 2 * codes + 1, codes * 0))
    assert (found.value, found.high) == (1, 1)
    assert 0.6 < found.low < 0.8
    nothing = share_of(np.empty(0), Clusters(*(np.empty(0, dtype=int),) * 4))
    assert np.isnan(nothing.value)
    assert nothing.votes == 0


# All measures, against a loop


ANSWERS = st.lists(
    st.tuples(
        st.integers(0, 4),
        st.integers(1, 4),
        st.sampled_from([0, 0.3, 0.5, 0.8, 1]),
        st.sampled_from(["ana", "bo", "gpt", "claude"]),
        st.sampled_from(["x", "y"]),
    ),
    min_size=1,
    max_size=50,
)


@given(ANSWERS)
def test_counts_and_accuracy_are_those_of_a_loop(answers):
    rows = [
        {"first": i, "second": (i + step) % 5, "p": p, "judge": judge, "context": context}
        for i, step, p, judge, context in answers
    ]
    orders = defaultdict(lambda: defaultdict(list))
    for row in rows:
        low, high = sorted((row["first"], row["second"]))
        turned = row["first"] > row["second"]
        orders[row["context"], low, high, row["judge"]][turned].append(1 - row["p"] if turned else row["p"])
    said = {key: np.mean([np.mean(values) for values in both.values()]) for key, both in orders.items()}
    verdict = {key: 0 if abs(p - 0.5) < 1e-9 else np.sign(p - 0.5) for key, p in said.items()}
    expected = {}
    for judge in ("gpt", "claude"):
        votes = [
            (verdict[key], verdict[*key[:3], judge])
            for key in verdict
            if key[3] in ("ana", "bo") and (*key[:3], judge) in verdict
        ]
        if votes:
            decided = [one == other for one, other in votes if one and other]
            pairs = {key[:3] for key in verdict if key[3] in ("ana", "bo") and (*key[:3], judge) in verdict}
            expected[judge] = len(pairs), len(votes), len(decided), np.mean(decided) if decided else None
    people = sorted({row["judge"] for row in rows} & {"ana", "bo"})
    if not people or not expected:
        with pytest.raises(ComparisonsError):
            agree(rows, people)
        return
    found = agree(rows, people, draws=1)
    names = ("pairs", "votes", "decided", "accuracy")
    made = {row["judge"]: tuple(row[name] for name in names) for row in json.loads(found.to_json())["judges"]}
    both = [key[:3] for key in verdict if key[3] == "ana" and (*key[:3], "bo") in verdict]
    assert made.pop(PEOPLE)[:2] == (len(both), len(both))
    assert {name: pytest.approx(values) for name, values in made.items()} == expected


# Known truth


def world(seed, pairs=400, accuracy=0.8, taste=0.85, ties=0.1, people=2, contexts=None):
    """People who find the better text with a probability `taste`, and a judge with `accuracy`, at random."""
    rng = np.random.default_rng(seed)
    number = np.arange(pairs)
    right = rng.random(pairs) < 0.5
    parts = {"first": [], "second": [], "p": [], "judge": []} | ({"context": []} if contexts else {})
    for judge, chance in [*((f"person {k}", taste) for k in range(people)), ("gpt", accuracy)]:
        said = np.where(rng.random(pairs) < chance, right, ~right).astype(float)
        said[rng.random(pairs) < ties] = 0.5
        shared = {"first": 2 * number, "second": 2 * number + 1, "p": said, "judge": [judge] * pairs}
        shared |= {"context": number % contexts} if contexts else {}
        for name, values in parts.items():
            values.append(shared[name])
    names = [f"person {k}" for k in range(people)]
    return Comparisons.from_columns(**{name: np.concatenate(values) for name, values in parts.items()}), names


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize("contexts", [None, 40])
def test_accuracy_kappa_and_ceiling_are_found(contexts):
    inside = []
    for seed in range(50):
        data, people = world(seed, contexts=contexts)
        judge, ceiling = agree(data, people, draws=300).judges
        same, among = 0.8 * 0.85 + 0.2 * 0.15, 0.85**2 + 0.15**2
        chance, decided = 0.9**2 / 2 + 0.01, 0.9**2
        for row, share in ((judge, same), (ceiling, among)):
            kappa = (decided * share + 0.01 - chance) / (1 - chance)
            truth = {"accuracy": share, "kappa": kappa, "alpha": kappa if row is ceiling else np.nan}
            inside += [
                row[f"{name}_low"] <= true <= row[f"{name}_high"] for name, true in truth.items() if true == true
            ]
        assert judge["votes"] == 800
        assert judge["accuracy_fair"] == judge["accuracy"]  # decisions have no bias to remove
    assert 0.9 <= np.mean(inside) <= 0.985


@pytest.mark.long
@pytest.mark.statistical
def test_kappa_and_alpha_know_that_pairs_share_texts():
    """A judge that is right on easy texts and wrong on hard ones, one person, no ties: κ = α = 2·accuracy − 1."""
    rng = np.random.default_rng(0)
    truth = 2 * np.mean(expit(1 + 2 * rng.standard_normal(200_000))) - 1
    i, j = np.triu_indices(20, 1)
    inside, narrow = [], []
    for _ in range(80):
        own = np.sqrt(2) * rng.standard_normal(20)
        same = rng.random(len(i)) < expit(1 + own[i] + own[j])
        judge = np.repeat(["ana", "gpt"], len(i))
        data = Comparisons.from_columns(
            np.tile(i, 2), np.tile(j, 2), np.concatenate([same, np.ones(len(i))]), judge=judge
        )
        found = agree(data, ["ana"], draws=200).judges[0]
        inside.append([found[f"{name}_low"] <= truth <= found[f"{name}_high"] for name in ("kappa", "alpha")])
        alone = cohen_kappa(data, "ana", "gpt", draws=200)
        narrow.append(alone.low <= truth <= alone.high)
    assert np.all(np.mean(inside, axis=0) >= 0.88)
    assert np.mean(narrow) < 0.7  # over pairs alone, which holds for these texts only


def soft(seed, bias=1.0, pairs=1500, orders=1):
    """A judge that would be calibrated, but for a position bias; one person who votes by the true probability."""
    rng = np.random.default_rng(seed)
    number = np.arange(pairs)
    d = 1.5 * rng.standard_normal(pairs)
    vote = (rng.random(pairs) < expit(d)).astype(float)
    first, second = 2 * number, 2 * number + 1
    turn = rng.random(pairs) < 0.5
    asked = [(np.where(turn, second, first), np.where(turn, first, second), expit(np.where(turn, -d, d) + bias))]
    if orders == 2:
        asked.append(
            (np.where(turn, first, second), np.where(turn, second, first), expit(np.where(turn, d, -d) + bias))
        )
    columns = [(first, second, vote), *asked]
    merged = map(np.concatenate, zip(*columns, strict=True))
    return Comparisons.from_columns(*merged, judge=["ana"] * pairs + ["gpt"] * pairs * orders)


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize("orders", [1, 2])
def test_calibration_without_position_bias(orders):
    inside, sure = [], []
    for seed in range(20):
        found = agree(soft(seed, orders=orders), ["ana"], draws=1)
        judge = found.judges[0]
        assert judge["calibration"] > 4 * judge["calibration_chance"]
        assert judge["calibration_fair"] < 2.5 * judge["calibration_chance"]
        curve = [row for row in found.calibration if row["answers"] == "without position bias"]
        assert sum(row["votes"] for row in curve) == 1500 * orders
        inside += [row["low"] <= row["p"] <= row["high"] for row in curve]
        if orders == 1:  # asked in both orders, the bias cancels by itself
            assert judge["accuracy_fair"] > judge["accuracy"] + 0.02
        sure += [row["low"] <= row["from"] + 0.05 <= row["high"] for row in found.confidence]
    assert len(sure) == 20 * 5
    assert np.mean(inside) >= 0.88  # 0.94 in 40 worlds; γ is estimated, too
    assert np.mean(sure) >= 0.88


@pytest.mark.long
def test_a_calibrated_judge_has_no_error_beyond_chance():
    ratio = []
    for seed in range(20):
        judge, _ = agree(soft(seed, bias=0.0, pairs=300), ["ana"], draws=1).judges
        ratio.append(judge["calibration"] / judge["calibration_chance"])
    assert np.mean(ratio) == pytest.approx(1, abs=0.15)


def ranked(seed, texts, votes, contexts=1, share=0.8):
    """A judge whose view has the correlation `share` with people's, who vote with the noise of Bradley–Terry."""
    rng = np.random.default_rng(seed)
    truth = 1.5 * rng.standard_normal((contexts, texts))
    view = share * truth + 1.5 * np.sqrt(1 - share**2) * rng.standard_normal(truth.shape)
    context = np.repeat(np.arange(contexts), texts + votes)
    ring = np.arange(texts)  # connects all texts
    i = np.concatenate([np.r_[ring, rng.integers(texts, size=votes)] for _ in range(contexts)])
    step = np.concatenate([np.r_[ring * 0 + 1, rng.integers(1, texts, size=votes)] for _ in range(contexts)])
    j = (i + step) % texts
    vote = (rng.random(len(i)) < expit(truth[context, i] - truth[context, j])).astype(float)
    p = np.concatenate([vote, expit(view[context, i] - view[context, j])])
    first, second = (np.tile(context * texts + ends, 2) for ends in (i, j))
    judge = np.repeat(["ana", "gpt"], len(i))
    return Comparisons.from_columns(first, second, p, context=np.tile(context, 2), judge=judge)


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize(("texts", "votes", "contexts"), one_short([(30, 200, 1), (8, 20, 12), (60, 150, 1)]))
def test_the_rank_correlation_with_infinitely_many_votes(texts, votes, contexts):
    population = 6 / np.pi * np.arcsin(0.8 / 2)  # Spearman's correlation of a normal distribution with 0.8
    inside, off = [], []
    for seed in range(120):
        now = agree(ranked(seed, texts, votes, contexts), ["ana"], draws=1).ranking[0]
        inside.append(now["correlation_low"] <= population <= now["correlation_high"])
        off.append(now["correlation"] - population)
    assert np.mean(inside) >= 0.88
    assert -0.05 < np.mean(off) < 0.05


def test_the_rank_correlation_is_a_table_of_its_own(comparo, tmp_path):
    data = ranked(0, 30, 200)
    data.write(tmp_path / "all.csv")
    row = agree(data, ["ana"], draws=1).ranking[0]
    assert row["correlation_low"] < row["correlation"] < row["correlation_high"]
    shown = comparo("agree", "all.csv", "--people", "ana").stdout.split("Rank correlation\n")[1]
    assert f"{row['correlation']:.3f} ({row['correlation_low']:.3f} to {row['correlation_high']:.3f})" in shown


def test_few_texts_have_no_rank_correlation():
    rows = [{"first": "a", "second": name, "p": 1, "judge": who} for name in "bc" for who in ("ana", "gpt")]
    assert all(np.isnan(row["correlation"]) for row in agree(rows, ["ana"]).ranking)


# What goes wrong


@pytest.mark.parametrize(
    ("rows", "people", "message"),
    [
        ([("a", "b", "ana"), ("a", "b", "gpt")], ["zoe"], "'zoe' .* judge .*'ana', 'gpt'"),
        ([("a", "b", "ana"), ("a", "c", "gpt")], ["ana"], "no pair"),
        ([("a", "b", "ana"), ("a", "b", "bo")], ["ana", "bo"], "every judge"),
        ([("a", "b", "ana"), ("a", "b", "gpt")], [], "`people` .*'ana', 'gpt'"),
    ],
)
def test_what_cannot_be_compared(rows, people, message):
    data = [{"first": a, "second": b, "p": 1, "judge": judge} for a, b, judge in rows]
    with pytest.raises(ComparisonsError, match=message):
        agree(data, people)
    with pytest.raises(TypeError, match=r"people .*list"):
        agree(data, "ana")
    with pytest.raises(ValueError, match="level"):
        agree(data, people, level=0)


# The command and the picture


@pytest.fixture
def files(tmp_path):
    data, people = world(0, pairs=60)
    data.write(tmp_path / "all.csv")
    machine = data.judge == len(people)
    for name, rows in (("machine", machine), ("votes", ~machine)):
        data.take(rows).write(tmp_path / f"{name}.csv")
    columns = data.take(machine).to_columns()
    (tmp_path / "bare.csv").write_text(csv_text({name: columns[name] for name in ("first", "second", "p")}))
    return ",".join(people)


def test_one_file_or_two_say_the_same(comparo, files):
    one = comparo("agree", "all.csv", "--people", files, "--format", "json")
    two = comparo("agree", "machine.csv", "votes.csv", "--format", "json")
    bare = comparo("agree", "bare.csv", "votes.csv", "--format", "json")
    assert one.returncode == two.returncode == bare.returncode == 0, one.stderr + two.stderr + bare.stderr
    assert one.stdout == two.stdout == bare.stdout.replace('"bare"', '"gpt"')
    found = json.loads(one.stdout)
    assert found["people"] == files.split(",")
    assert found["judges"][0]["pairs"] == 60


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("command", [("fit",), ("agree", "--people", "gpt")])
def test_long_work_of_many_voices_is_said_beforehand(run, tmp_path, monkeypatch, command):
    monkeypatch.setattr("comparo.cli.printing.MANY", 3)
    done = run(tmp_path, [command[0], "all.csv", *command[1:]])
    assert (done.returncode, re.findall(r"\d+", done.stderr)[:2]) == (0, ["180", "3"])


def test_tables_for_people(comparo, files):
    done = comparo("agree", "all.csv", "--people", files, "--fail-below", "0.1")
    assert done.returncode == 0, done.stderr
    low = comparo("agree", "all.csv", "--people", files, "--fail-below", "0.99")
    assert (low.returncode, low.stdout, "gpt" in low.stderr) == (3, done.stdout, True)
    for title in ("Judges against person 0, person 1\n", "Calibration error"):
        assert title in done.stdout
    assert f"'{PEOPLE}' is" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["all.csv"], "--people .*'person 0', 'person 1', 'gpt'"),
        (["all.csv", "--people", "zoe"], "'zoe' .* judge .*'person 0'"),
        (["bare.csv"], "--people .*'bare'"),
        (["all.csv", "votes.csv"], "'person 0' .*both files.* --people NAMES"),
        (["other.csv", "votes.csv"], "no pair"),
        (["machine.csv", "votes.csv", "--fail-below", "60"], "--fail-below 60"),
        (["machine.csv", "nowhere.csv"], "nowhere.csv"),
    ],
)
@pytest.mark.usefixtures("files")
def test_mistakes_are_one_line(comparo, tmp_path, arguments, message):
    (tmp_path / "other.csv").write_text("first,second,p\nq,r,1\n")
    done = comparo("agree", *arguments)
    assert done.returncode == 2
    assert re.search(message, done.stderr)
    assert len(done.stderr.splitlines()) == 1


def test_a_run_folder_against_votes(comparo, tmp_path):
    rows = "".join(json.dumps({"id": f"t{k}", "text": "word " * (k + 1)}) + "\n" for k in range(8))
    (tmp_path / "items.jsonl").write_text(rows)
    judge = ("--criterion", "better", "--judge", "simulated/soft", "--budget", "56", "--out", "run")
    assert comparo("rank", "items.jsonl", *judge).returncode == 0
    asked = Comparisons.read(tmp_path / "run").to_columns()
    votes = {"first": asked["first"], "second": asked["second"], "winner": np.where(asked["p"] > 0.5, "A", "B")}
    (tmp_path / "votes.csv").write_text(csv_text(votes | {"judge": ["ana"] * len(asked["p"])}))
    done = comparo("agree", "run", "votes.csv", "--format", "json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["judges"][0]["accuracy"] == 1


def test_the_picture_of_a_calibration():
    found = agree(soft(0, pairs=300), ["ana"], draws=1)
    ax = plot_agreement(found, ax=Figure().subplots())
    assert len(ax.containers) == 2
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["as said", "without position bias"]
    data, people = world(0, pairs=60)
    assert len(plot_agreement(agree(data, people, draws=1), "gpt", ax=Figure().subplots()).containers) == 1
    with pytest.raises(ValueError, match=r"'zoe'.* gpt"):
        plot_agreement(agree(data, people, draws=1), "zoe")
    with pytest.raises(ValueError, match="person 1, gpt"):
        plot_agreement(agree(data, people[:1], draws=1))


@pytest.mark.long
@pytest.mark.recorded
def test_recorded_battles(comparo):
    done = comparo("agree", RECORDED / "panel" / "judges.arena_ppr.csv.gz", "--people", "human", "--format", "json")
    found = {row["judge"]: row for row in json.loads(done.stdout)["judges"]}
    assert found["gpt-4-0125-preview"]["accuracy"] == pytest.approx(0.833, abs=5e-4)
    assert found["gpt-3.5-turbo"]["kappa"] == pytest.approx(0.076, abs=5e-4)
    assert found[PEOPLE]["pairs"] == 0
