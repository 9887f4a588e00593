"""Is B better than A: bets that hold at any time, texts that belong together, and the command with a real server."""

import json
import math

import numpy as np
import pytest
from scipy.special import expit

from comparo import ComparisonsError, Items, compare
from comparo.analysis.sequential import STAKES, STEPS, Bets
from comparo.data.pairing import pair_files, pair_groups
from comparo.run.duel import margins, wins
from comparo.run.store import read_judgements
from servers import Api, tokens


@pytest.mark.statistical
@pytest.mark.parametrize("draw", ["decisions", "soft", "ties"])
def test_equal_systems_are_told_apart_in_at_most_one_run_of_twenty_whenever_one_looks(draw):
    """600 runs of 300 inputs, looked at after each: 5% and three errors are 7.7%."""
    rng, found = np.random.default_rng(0), []
    for _ in range(600):
        x = {
            "decisions": rng.integers(2, size=300).astype(float),
            "soft": expit(rng.standard_normal(300)),
            "ties": rng.choice([0.0, 0.5, 0.5, 1.0], 300),
        }[draw]
        found.append(Bets(x).stopped(0.05) is not None)
    assert np.mean(found) < 0.077


@pytest.mark.statistical
def test_the_interval_covers_where_one_stops():
    rng, hits = np.random.default_rng(1), []
    for _ in range(80):
        x = (rng.random(120) < 0.65).astype(float)
        stopped = Bets(x).stopped(0.05) or len(x)
        low, high = Bets(x[:stopped]).interval(0.05)
        hits.append(low <= 0.65 <= high)
    assert np.mean(hits) >= 0.93


@pytest.mark.parametrize("mean", [0.02, 0.5, 0.8])
def test_the_interval_is_that_of_all_means_that_no_bet_refutes(mean):
    rng = np.random.default_rng(3)
    for x in (rng.binomial(1, mean, 60).astype(float), rng.beta(4 * mean, 4 - 4 * mean, 40)):
        kept = []
        for m in (np.arange(STEPS) + 0.5) / STEPS:
            up = np.cumprod(1 + STAKES / m * (x[:, None] - m), axis=0).mean(axis=1)
            down = np.cumprod(1 - STAKES / (1 - m) * (x[:, None] - m), axis=0).mean(axis=1)
            if max(up.max(), down.max()) < 2 / 0.05:
                kept.append(m)
        assert Bets(x).interval(0.05) == pytest.approx((kept[0] - 0.5 / STEPS, kept[-1] + 0.5 / STEPS))


def test_money_is_the_product_of_all_bets():
    x = np.array([0.9, 0.2, 1.0])
    products = [np.prod(1 + 2 * stake * (x - 0.5)) for stake in STAKES]
    assert Bets(x).above[-1] == pytest.approx(np.mean(products))
    assert Bets(1 - x).below[-1] == pytest.approx(np.mean(products))
    assert Bets(x).probability == pytest.approx(1 - Bets(1 - x).probability)
    assert Bets(np.zeros(0)).interval(0.05) == (0.0, 1.0)


def test_a_sure_side_is_outside_of_the_interval():
    bets = Bets(np.array([1.0, 1, 0, 1, 1, 1, 1, 1, 1, 1, 0, *[1] * 10]))
    assert bets.side(0.05) == 1
    assert bets.interval(0.05)[0] >= 0.5
    assert Bets(1 - bets.x).side(0.05) == -1
    assert Bets(np.full(50, 0.5)).side(0.05) == 0


def test_position_cancels_in_the_margin():
    assert margins(np.array([0.95]), np.array([0.2]))[0] == pytest.approx((math.log(19) - math.log(4)) / 2)
    assert wins(margins(np.array([1.0, 1.0, 0.0]), np.array([1.0, 0.0, 0.0]))).tolist() == [1.0, 0.5, 0.0]


def test_rows_belong_together_by_id_by_context_id_or_by_number(tmp_path):
    one, other = tmp_path / "old.jsonl", tmp_path / "new.jsonl"
    one.write_text('{"id": "q1", "text": "a", "context": "Why?"}\n{"id": "q2", "text": "b"}\n')
    other.write_text('{"id": "q2", "text": "B"}\n{"id": "q1", "text": "A"}\n{"id": "q3", "text": "C"}\n')
    found = pair_files(one, other)
    assert (found.one, found.other, found.unmatched) == ("old", "new", 1)
    assert found.items.contexts.tolist() == ["q1", "q2"]
    assert found.items.texts == ("a", "A", "b", "B")
    assert found.items.context_texts == ("Why?", None)
    rows = [{"text": "a", "context_id": 7}, {"text": "b", "context_id": 8}]
    assert pair_files(rows, rows[::-1]).same == (7, 8)
    assert pair_files(["a", "b"], ["a", "c"]).items.contexts.tolist() == [1]


@pytest.mark.parametrize(
    ("one", "other", "problem"),
    [
        ({"x": "a"}, {"y": "b"}, "A and B have no input in common: the first is 'x' in one and 'y' in the other"),
        ([{"id": "x", "text": "a"}] * 2, {"x": "b"}, r"row 2, column 'id': 'x' stands there before"),
        ([{"id": "x", "text": " "}], {"x": "b"}, "there is no text"),
        ([{"id": "x", "words": "a"}], {"x": "b"}, "there is no column 'text'"),
        ([{"id": None, "text": "a"}], {"x": "b"}, "None is not a name"),
    ],
)
def test_files_that_cannot_be_paired_are_said(one, other, problem):
    with pytest.raises(ComparisonsError, match=problem):
        compare(one, other, "better", judge=lambda *_: 0.5)


def test_two_groups_of_one_file():
    rows = [
        {"id": f"{c}{k}", "text": f"{s} on {c}", "context_id": c, "group": s}
        for c in "xyz"
        for k, s in enumerate(("old", "new", "own"))
    ]
    items = Items.of(rows[:-1])
    assert pair_groups(items, "old", "new").items.contexts.tolist() == ["x", "y", "z"]
    assert pair_groups(items, "old", "own").unmatched == 1
    with pytest.raises(ComparisonsError, match="no text is of 'mine'; there are old, new, own"):
        pair_groups(items, "old", "mine")
    twice = Items.of([*rows, {"id": "again", "text": "t", "context_id": "x", "group": "old"}])
    with pytest.raises(ComparisonsError, match="'old' has two texts in context 'x'"):
        pair_groups(twice, "old", "new")
    with pytest.raises(ComparisonsError, match="both sides are called 'old'"):
        pair_groups(items, "old", "old")


def answers(count=60, better=1.0):
    """Two systems; the judge sees how much better each text of the other is, and likes what is shown first."""
    old = {f"q{k}": f"old {k}" for k in range(count)}
    new = {name: f"new {k}" for k, name in enumerate(old)}
    by = better + np.random.default_rng(3).standard_normal(count)

    def judge(first, _):
        k = int(first.split()[1])
        return float(expit((by[k] if first.startswith("new") else -by[k]) + 1.0))

    return old, new, judge


def test_it_stops_once_it_is_sure_and_asks_no_input_twice():
    old, new, judge = answers()
    duel = compare(old, new, "better", judge=judge)
    assert duel.side == 1
    assert duel.verdict.startswith("B is better than A: B wins")
    assert duel.calls == 2 * len(duel.win) < 120
    every = compare(old, new, "better", judge=judge, stop=False)
    assert (every.calls, len(every.win)) == (120, 60)
    assert every.input[: len(duel.win)].tolist() == duel.input.tolist()
    assert compare(new, old, "better", judge=judge).is_worse(0.95)
    assert not duel.is_worse(0.95)
    apart, low, high = every.difference
    assert low < 1.0 < high
    assert apart == pytest.approx(np.mean(every.margin), abs=0.05)


def test_the_same_texts_are_not_asked_about():
    old, new, judge = answers(20)
    half = {name: new[name] if k % 2 else text for k, (name, text) in enumerate(old.items())}
    duel = compare(old, half, "better", judge=judge, stop=False)
    assert (duel.calls, duel.same, len(duel.win)) == (20, 10, 20)
    assert sorted(duel.wins) == sorted((duel.wins[0], duel.wins[1], 10))
    none = compare(old, dict(old), "better", judge=judge)
    assert none.verdict == "no difference: A and B have the same text on all 20 inputs"
    assert (none.calls, none.side) == (0, 0)
    assert json.loads(none.to_json())["score_difference"]["value"] is None


def test_a_budget_ends_it():
    old, new, judge = answers(better=0.0)
    duel = compare(old, new, "better", judge=judge, budget=20)
    assert (duel.calls, len(duel.win), duel.planned) == (20, 10, 60)
    assert "no difference found between A and B: B wins" in duel.verdict
    for wrong in ("3", "10n", 2):
        with pytest.raises(ValueError, match="not a number of calls from 4 on"):
            compare(old, new, "better", judge=judge, budget=wrong)
    with pytest.raises(ValueError, match="level is a probability"):
        compare(old, new, "better", judge=judge, level=95)


def test_an_input_without_an_answer_is_left_out_and_counted():
    old, new, judge = answers(40)

    def broken(first, second):
        if "7" in first:
            raise OSError("no line")
        return judge(first, second)

    duel = compare(old, new, "better", judge=broken, stop=False)
    assert duel.failed == 4
    assert len(duel.win) == 36
    assert "q7" not in duel.input.tolist()


def test_names_cannot_break_the_markdown():
    old, new, judge = answers(20)
    text = compare(old, new, "better", judge=judge, names=("a|b", "<img src=x>")).to_markdown()
    assert "a\\|b" in text
    assert "<img" not in text


def prefers_long(request):
    shown = request.body["messages"][0]["content"]
    if "Answer A" not in shown:  # the probe
        return tokens({"A": 0.9, "B": 0.1})
    first, second = (part.split("\n")[0].count("word") for part in shown.split("Answer ")[1:3])
    p = 0.9 if first > second else 0.4 if first < second else 0.6
    return tokens({"A": p, "B": 1 - p} if p > 0.5 else {"B": 1 - p, "A": p})


@pytest.fixture
def files(tmp_path):
    for name, words in (("old", 1), ("new", 3)):
        rows = [{"id": f"q{k}", "text": "word " * (words + k % 2)} for k in range(40)]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return tmp_path


def test_the_command_with_a_server(run, files):
    with Api(prefers_long) as api:
        asked = ("--criterion", "longer", "--kind", "Answer", "--judge", "openai/model", "--base-url", api.url)
        command = ("compare", "old.jsonl", "new.jsonl", *asked, "--concurrency", "2", "--out", "run")
        done = run(files, command, OPENAI_API_KEY="sk-none")
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("new is better than old: new wins 100% (")
        made = len(api.asked)
        assert made < 80
        document = json.loads((files / "run" / "compare.json").read_text())
        assert (document["sure"], document["calls"]) == ("better", made)
        assert "**new is better than old" in (files / "run" / "compare.md").read_text()
        assert (files / "run" / "report.html").is_file()
        again = run(files, (*command, "--format", "json"), OPENAI_API_KEY="sk-none")
        assert json.loads(again.stdout) == document
        assert len(api.asked) == made
        worse = ("compare", "new.jsonl", "old.jsonl", *asked, "--concurrency", "2", "--fail-if-worse", "0.95")
        refused = run(files, (*worse, "--format", "markdown", "--out", "worse"), OPENAI_API_KEY="sk-none")
        assert refused.returncode == 3
        assert "**old is worse than new" in refused.stdout
        assert "exit code 3" in refused.stderr
    assert len(read_judgements(files / "run")) == made


def test_an_interrupted_comparison_goes_on_to_the_same_answer(tmp_path):
    old, new, judge = answers(better=0.5)
    whole = compare(old, new, "better", judge=judge)
    left = [17]

    def interrupted(first, second):
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt
        return judge(first, second)

    with pytest.raises(KeyboardInterrupt):
        compare(old, new, "better", judge=interrupted, out=tmp_path / "run")
    assert 0 < len(read_judgements(tmp_path / "run")) < whole.calls
    again = compare(old, new, "better", judge=interrupted, out=tmp_path / "run")
    assert again.input.tolist() == whole.input.tolist()
    assert again.margin.tolist() == whole.margin.tolist()


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (("old.jsonl", "nowhere.jsonl"), "nowhere.jsonl"),
        (("old.jsonl", "old.jsonl"), "both sides are called"),
        (("old.jsonl", "new.jsonl", "--fail-if-worse", "95"), "--fail-if-worse 95.0 is not between 0 and 1"),
        (("old.jsonl", "new.jsonl", "--names", "one"), "--names are two names with a comma between"),
        (("old.jsonl", "new.jsonl", "--judge", "a/b", "--judge", "c/d"), "one judge in one wording"),
        (("old.jsonl", "new.jsonl", "--judge", "a/b"), "a/b"),
        (("one", "two", "--data", "old.jsonl"), "no text is of 'one'"),
        (("old.jsonl", "new.jsonl", "--wording", "paper", "--wording", "between"), "one judge in one wording"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_asked(run, files, flags, problem):
    done = run(files, ("compare", *flags, "--criterion", "longer"))
    assert done.returncode == 2
    assert problem in done.stderr
    assert not (files / "comparo-runs").exists()


def test_a_dry_run_says_the_price(run, files):
    flags = ("--criterion", "longer", "--judge", "simulated/soft", "--dry-run")
    done = run(files, ("compare", "old.jsonl", "new.jsonl", *flags))
    assert done.returncode == 0
    assert "80 calls at most" in done.stdout
