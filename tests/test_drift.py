"""A judge that changes is noticed, by a test that may be looked at at any time; one that stays the same is not."""

import itertools
import json
import logging
import math
import os
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

from comparo import Comparisons, Question, RunError, StoreError, compare, rank, rejudge, write_report
from comparo.analysis.drift import LEANING, NEAR, NEARBY, ODD, TOLERANCE, Drift
from inside import UNFINISHED, Price, Simulated, check, open_database, prepare_rank, read_configuration, read_judgements
from servers import Api, prefers

TEXTS = {f"t{number}": f"Story number {number}." for number in range(16)}
FIRST = dict(list(TEXTS.items())[:12])


@dataclass
class Server:
    """A judge behind an API: name and settings stay the same, whatever `now` answers; `model` is in its replies."""

    now: Simulated
    model: str = "model-1"
    asked: list[Question] = field(default_factory=list)

    name = "api/any"
    settings: dict[str, Any] = field(default_factory=dict)
    ahead = 8

    @property
    def chooses(self):
        return self.now.chooses

    def judge(self, questions, prompt):
        for question in questions:
            self.asked.append(question)
            (answer,) = self.now.judge([question])
            yield replace(answer, model=self.model)


@dataclass
class Priced(Server):
    price = Price(1.0, 0.0)

    def judge(self, questions, prompt):
        yield from (replace(one, cost=0.01) for one in super().judge(questions, prompt))


def age(run):
    """Let all answers of a run be of last year."""
    with closing(open_database(str(run / "judgements.db"))) as connection, connection:
        connection.execute("UPDATE judgements SET at = '2025-06-01T00:00:00.000+00:00'")


def aged(judge, tmp_path):
    """A judge, and a run of it about the first texts last year."""
    rank(FIRST, "better", judge=judge, out=tmp_path / "run")
    age(tmp_path / "run")
    return judge, tmp_path / "run"


def naive(old, new, f):
    """The evidence, bettor by bettor."""
    total = weights = 0.0
    for theta in itertools.product(ODD, LEANING, LEANING, NEAR):
        weight = math.prod(2.0 if part == 0 else 1.0 for part in theta[1:3])
        capital = 1.0
        for row in range(len(old)):
            values = [old[row], *new[row]]
            scores = []
            for place, value in enumerate(values):
                others = values[:place] + values[place + 1 :]
                apart, span = value - sum(others) / len(others), max(values) - min(values)
                odd = math.log((abs(apart) + TOLERANCE) / (max(others) - min(others) + TOLERANCE))
                near = -math.log(abs(value - f[row] - 0.3) + NEARBY)
                first = apart / span if span > 0 else 0.0
                parts = odd, first, first * 2 * f[row] / (1 + abs(f[row])), near
                parts = parts if span > TOLERANCE else (0.0,) * 4
                scores.append(math.exp(sum(a * b for a, b in zip(theta, parts, strict=True))))
            capital *= len(values) * scores[0] / sum(scores)
        total, weights = total + weight * capital, weights + weight
    return total / weights


@pytest.mark.parametrize("repeats", [1, 2])
def test_evidence_is_that_of_the_bettors_one_by_one(repeats):
    rng = np.random.default_rng(1)
    old, new, f = rng.normal(size=6), rng.normal(size=(6, repeats)), rng.uniform(-2, 2, size=6)
    old[0] = new[0, 0] = new[0, -1]  # no answer stands apart
    assert Drift(old, new, f, 0.3).evidence[-1] == pytest.approx(naive(old, new, f))


def test_no_bettor_can_expect_to_win_if_labels_are_a_lottery():
    rng = np.random.default_rng(2)
    values, f = rng.normal(size=(2, 3)), np.array([0.7, -1.2])
    found = []
    for shifts in itertools.product(range(3), repeat=2):
        table = np.array([np.roll(row, -shift) for row, shift in zip(values, shifts, strict=True)])
        found.append(Drift(table[:, 0], table[:, 1:], f).evidence[-1])
    assert np.mean(found) == pytest.approx(1.0)


def answers(rng, kind, n, repeats, **change):
    """Old answers, and new ones by a judge with another bias, strength, noise or order."""
    scores = 1.5 * rng.normal(size=n)
    own = change.get("order", 0.0)
    other = math.sqrt(1 - own**2) * scores + own * 1.5 * rng.normal(size=n)
    now = change.get("strength", 1.0) * other + change.get("bias", 0.0)

    def draw(mean, noise):
        if kind == "hard":
            return np.where(rng.random(size=n) < expit(mean), 4.6, -4.6)
        drawn = mean + noise * rng.normal(size=n)
        return np.round(8 * drawn) / 8 if kind == "rounded" else drawn

    noise = 0.08 if kind == "rounded" else 0.3
    new = [draw(now, change.get("noise", noise)) for _ in range(repeats)]
    return Drift(draw(scores, noise), np.column_stack(new), scores + 0.5 * rng.normal(size=n))


@pytest.mark.parametrize(("kind", "repeats"), [("soft", 2), ("rounded", 2), ("hard", 1)])
def test_false_alarms_are_at_most_one_in_twenty(kind, repeats):
    rng = np.random.default_rng(3)
    alarms = [answers(rng, kind, 40 // repeats, repeats).is_changed for _ in range(400)]
    assert np.mean(alarms) <= 0.05


@pytest.mark.parametrize(
    ("change", "named", "calls"),
    [
        ({"bias": 1.0}, "position bias", 20),
        ({"strength": 0.3}, "sharpness", 20),
        ({"order": 0.9}, "order of texts", 20),
        ({"noise": 2.0}, "noise", 40),
    ],
)
def test_a_change_is_found_and_named(change, named, calls):
    rng = np.random.default_rng(4)
    found = [answers(rng, "soft", calls, 2, **change) for _ in range(40)]
    assert np.mean([one.is_changed for one in found]) >= 0.9
    assert np.mean([any(named in part for part in one.changes) for one in found]) >= 0.8


def test_figures_are_those_that_were_planted():
    rng = np.random.default_rng(6)
    found = answers(rng, "soft", 4000, 2, bias=0.5, strength=0.6)
    assert found.bias[0] == pytest.approx(0.5, abs=0.05)
    assert found.sharpness[0] == pytest.approx(-0.4, abs=0.05)
    assert found.noise == pytest.approx(0.3, abs=0.02)


def test_a_change_of_decisions_is_a_share_of_them():
    old, new = np.repeat([4.6, -4.6], 100), np.repeat([4.6, 4.6, -4.6], [100, 30, 70])
    found = Drift(old, new[:, None], np.zeros(len(old)), leaning=1.0)
    assert found.bias[0] == pytest.approx(0.15)
    assert found.is_changed
    assert any("+15 percentage points" in part for part in found.changes)


def test_a_check_finds_a_change_and_nothing_else(tmp_path):
    judge = Server(Simulated())
    rank(TEXTS, "better", judge=judge, out=tmp_path / "run")
    before = len(judge.asked)
    same = check(tmp_path / "run", judge)
    assert (same.is_changed, same.calls, len(judge.asked) - before) == (False, 40, 40)
    judge.now = Simulated(bias=1.0)
    found = check(tmp_path / "run", judge)
    assert found.is_changed
    assert found.calls < 20
    assert "position bias" in found.sentence
    renamed = check(tmp_path / "run", replace(judge, now=Simulated(), model="model-2"))
    assert renamed.is_changed
    assert renamed.models == (("model-1",), ("model-2",))


@dataclass
class Stopped(Server):
    """A judge that ends the process, as it were, before it answers another question."""

    most: int = 10**9

    def judge(self, questions, prompt):
        for one in super().judge(questions, prompt):
            if len(self.asked) > self.most:
                self.asked.pop()
                raise KeyboardInterrupt
            yield one


def test_a_check_that_was_stopped_asks_only_what_is_missing(tmp_path):
    judge = Stopped(Simulated(noise=0.3))
    rank(TEXTS, "better", judge=judge, out=tmp_path / "run")
    files, before = sorted(path.name for path in (tmp_path / "run").iterdir()), len(judge.asked)
    for asked in (3, 13, 21):
        judge.most = before + asked
        with pytest.raises(KeyboardInterrupt):
            check(tmp_path / "run", judge)
    judge.most = 10**9
    found = check(tmp_path / "run", judge)
    assert (found.is_changed, found.calls, len(judge.asked) - before) == (False, 40, 40)
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == files
    assert check(tmp_path / "run", judge).calls == 40
    assert len(judge.asked) - before == 80  # a check that has ended says nothing about the judge now


def test_answers_of_a_check_that_was_stopped_hours_ago_do_not_count(tmp_path):
    judge = Stopped(Simulated())
    rank(TEXTS, "better", judge=judge, out=tmp_path / "run")
    judge.most = len(judge.asked) + 13
    with pytest.raises(KeyboardInterrupt):
        check(tmp_path / "run", judge)
    os.utime(tmp_path / "run" / UNFINISHED, (0, 0))
    before, judge.most = len(judge.asked), 10**9
    check(tmp_path / "run", judge)
    assert len(judge.asked) - before == 40


def test_a_run_that_is_stopped_while_it_checks_asks_only_what_is_missing(tmp_path):
    judge = Stopped(Simulated())
    rank(TEXTS, "better", judge=judge, budget=60, out=tmp_path / "run")
    age(tmp_path / "run")
    judge.most = len(judge.asked) + 9
    with pytest.raises(KeyboardInterrupt):
        rank(TEXTS, "better", judge=judge, budget=160, out=tmp_path / "run")
    judge.most = 10**9
    rank(TEXTS, "better", judge=judge, budget=160, out=tmp_path / "run")
    assert len(judge.asked) == 160 + 16
    assert not (tmp_path / "run" / UNFINISHED).exists()


def test_questions_whose_answers_are_at_the_limit_are_seldom_asked_again(tmp_path):
    """Most pairs of texts are so far apart that a bias does not show."""
    scores = {f"t{number}": number / 3 for number in range(40)}
    texts = {name: f"Story {name}." for name in scores}
    judge = Server(Simulated(scores=scores, noise=0.2))
    rank(texts, "better", judge=judge, budget=300, out=tmp_path / "run")
    judge.now = Simulated(scores=scores, noise=0.2, bias=1.0)
    found = [check(tmp_path / "run", judge, seed=seed).is_changed for seed in range(5)]
    assert all(found)


def test_a_check_needs_the_judge_of_the_run_and_answers(tmp_path):
    judge = Server(Simulated())
    rank(TEXTS, "better", judge=judge, out=tmp_path / "run")
    with pytest.raises(ValueError, match="simulated/soft"):
        check(tmp_path / "run", Simulated())
    rank({name: TEXTS[name] for name in ("t1", "t2")}, "better", judge=judge, out=tmp_path / "small")
    with pytest.raises(StoreError, match="2 answers"):
        check(tmp_path / "small", judge)


def test_a_run_that_grows_gives_a_changed_judge_a_voice_of_its_own(tmp_path, caplog):
    judge, folder = aged(Server(Simulated(noise=0.2)), tmp_path)
    old = len(read_judgements(folder))
    judge.now = Simulated(noise=0.2, bias=1.5, strength=0.5)
    plan = prepare_rank(TEXTS, "better", judge=judge, out=folder)
    assert plan.base.check_calls == 10
    with caplog.at_level(logging.WARNING, logger="comparo"):
        ranking = plan.run()
    assert any("position bias" in record.getMessage() for record in caplog.records)
    voices = [one.question.voice for one in read_judgements(folder)]
    assert voices.count("api/any until 2025-06-01") == old
    assert voices.count("api/any") == len(voices) - old > 40
    assert ranking.method == "panel"
    assert set(ranking.comparisons.judges) == {"api/any", "api/any until 2025-06-01"}
    truth = [Simulated(noise=0.2).score(None, name) for name in ranking.items.tolist()]
    assert np.corrcoef(ranking.scores, truth)[0, 1] > 0.9
    assert write_report(folder).is_file()
    # The next start asks nothing, and a check is of the new voice.
    before = len(judge.asked)
    again = rank(TEXTS, "better", judge=judge, out=folder)
    assert len(judge.asked) == before
    np.testing.assert_allclose(again.scores, ranking.scores)
    assert not check(folder, judge).is_changed


@pytest.mark.long
def test_a_folder_of_a_changed_judge_is_judged_again_and_may_change_again(tmp_path):
    judge, folder = aged(Server(Simulated(noise=0.2)), tmp_path)
    judge.now = Simulated(noise=0.2, bias=1.5, strength=0.5)
    rank(TEXTS, "better", judge=judge, out=folder)
    assert rejudge(folder, Simulated(seed=1), budget=30).questions == 30
    # A second change, in a run that goes on with a larger budget.
    age(folder)
    judge.now = Simulated(noise=0.2, bias=-1.5)
    rank({**TEXTS, "more": "A further story."}, "better", judge=judge, budget="40n", out=folder)
    assert set(read_configuration(folder)["changed"]) == {"api/any until 2025-06-01", "api/any until 2025-06-01 (2)"}


def test_a_judge_that_did_not_change_goes_on_as_one_voice(tmp_path):
    judge, folder = aged(Server(Simulated()), tmp_path)
    before = len(judge.asked)
    plan = prepare_rank(TEXTS, "better", judge=judge, out=folder)
    calls = plan.base.check_calls
    plan.run()
    assert len(judge.asked) - before == calls + plan.base.expense.calls
    assert {one.question.voice for one in read_judgements(folder)} == {None}
    assert "changed" not in read_configuration(folder)
    # Nothing is left to ask, so nothing is checked.
    age(folder)
    before = len(judge.asked)
    rank(TEXTS, "better", judge=judge, out=folder)
    assert len(judge.asked) == before


def test_what_a_check_costs_counts_in_dollars(tmp_path):
    judge, folder = aged(Priced(Simulated()), tmp_path)
    before = len(judge.asked)
    plan = prepare_rank(TEXTS, "better", judge=judge, budget="$0.505", out=folder)
    plan.run()
    assert plan.base.check_calls == 16
    assert len(judge.asked) - before == 50
    assert plan.base.loop.progress.cost == pytest.approx(0.50)


def test_what_was_interrupted_a_moment_ago_and_what_cannot_change_is_not_checked(tmp_path):
    rank(FIRST, "better", judge=Server(Simulated()), out=tmp_path / "new")
    assert prepare_rank(TEXTS, "better", judge=Server(Simulated()), out=tmp_path / "new").base.check_calls == 0
    rank(FIRST, "better", judge=Simulated(), out=tmp_path / "known")
    age(tmp_path / "known")
    assert prepare_rank(TEXTS, "better", judge=Simulated(), out=tmp_path / "known").base.check_calls == 0


@pytest.mark.long
def test_one_of_several_judges_that_changed_is_two_voices(tmp_path):
    @dataclass
    class Other(Server):
        name = "api/other"

    one, other, folder = Server(Simulated(noise=0.2)), Other(Simulated(noise=0.2, seed=0)), tmp_path / "run"
    rank(FIRST, "better", judge=[one, other], budget="20n", out=folder)
    age(folder)
    one.now = Simulated(noise=0.2, bias=2.0)
    rank(TEXTS, "better", judge=[one, other], budget="40n", out=folder)
    voices = {one.question.voice for one in read_judgements(folder)}
    assert voices == {"api/any", "api/any until 2025-06-01", "api/other"}


def side(name, end, begin=0):
    return {f"q{number}": f"{name} answer {number}" for number in range(begin, end)}


def test_compare_checks_before_it_goes_on(tmp_path):
    judge, folder = Server(Simulated(noise=0.2)), tmp_path / "run"
    compare(side("old", 40), side("new", 40), "better", judge=judge, out=folder, budget=30)
    age(folder)
    stored = len(read_judgements(folder))
    judge.now = Simulated(noise=0.2, bias=1.5)
    duel = compare(side("old", 40), side("new", 40), "better", judge=judge, out=folder, stop=False)
    voices = [one.question.voice for one in read_judgements(folder)]
    assert voices.count("api/any until 2025-06-01") == stored
    assert voices.count("api/any") == 80
    # The verdict is that of the judge as it is now: the text shown first gains.
    assert np.mean(duel.first) - np.mean(duel.second) > 0.3
    # Where the answer is sure already, nothing is asked, so nothing is checked.
    age(folder)
    before = len(judge.asked)
    compare(side("old", 40), side("new", 40), "better", judge=judge, out=folder, stop=False)
    assert len(judge.asked) == before


@pytest.mark.parametrize("since", [0, 20])
def test_compare_with_more_inputs_asks_a_changed_judge_again(tmp_path, since):
    judge, folder = Server(Simulated(noise=0.2)), tmp_path / "run"
    compare(side("old", 20), side("new", 20), "better", judge=judge, out=folder)
    age(folder)
    judge.now = Simulated(noise=0.2, bias=2.0)
    now = side("old", 60, since), side("new", 60, since)
    duel = compare(*now, "better", judge=judge, out=folder)
    assert np.mean(duel.first) - np.mean(duel.second) > 0.3
    assert duel.asked > 10
    before = len(judge.asked)
    assert compare(*now, "better", judge=judge, out=folder).verdict == duel.verdict
    assert len(judge.asked) == before


def test_a_comparison_without_an_answer_has_no_verdict():
    one, other = (side(name, 4) for name in "AB")
    with pytest.raises(RunError, match="budget"):
        compare(one, other, "better", judge=Priced(Simulated()), budget="$0.01")


def test_a_comparison_that_is_sure_is_not_checked(tmp_path):
    quality = {name: float(name == "B") for name in "AB"}
    one, other = (side(name, 60) for name in "AB")
    judge, folder = Server(Simulated(scores=quality, noise=0.1, strength=3.0)), tmp_path / "run"
    assert compare(one, other, "better", judge=judge, out=folder).side == 1
    age(folder)
    before = len(judge.asked)
    assert compare(one, other, "better", judge=judge, out=folder).side == 1
    assert len(judge.asked) == before


def test_the_command_checks_a_run_and_one_that_grows_asks_past_the_cache(run, tmp_path):
    rows = [json.dumps({"id": f"item {number}", "text": f"Text number {number}."}) for number in range(14)]
    (tmp_path / "items.jsonl").write_text("\n".join(rows[:10]))
    (tmp_path / "more.jsonl").write_text("\n".join(rows))
    answer = [prefers(0.3)]
    with Api(lambda request: answer[0](request)) as api:
        judge = ["--judge", "openai/any", "--base-url", api.url]
        asked = ["--criterion", "better", *judge, "--budget", "20n", "--out", "run"]
        assert run(tmp_path, ["rank", "items.jsonl", *asked]).returncode == 0
        before = len(api.asked)
        same = run(tmp_path, ["runs", "--check", "run", *judge])
        assert (same.returncode, len(api.asked) - before) == (0, 40)
        assert "no change" in same.stdout
        none = run(tmp_path, ["runs", "--check", "run"])
        assert (none.returncode, "--judge" in none.stderr, "smollm2" in none.stderr) == (2, True, False)
        wrong = run(tmp_path, ["runs", "--check", "run", "--judge", "openai/other", "--base-url", api.url])
        assert (wrong.returncode, "openai/any" in wrong.stderr) == (2, True)
        answer[0] = prefers(-0.3)
        changed = run(tmp_path, ["runs", "--check", "run", *judge])
        assert changed.returncode == 6, changed.stderr
        age(tmp_path / "run")
        assert "16 calls more" in run(tmp_path, ["rank", "more.jsonl", *asked, "--dry-run"]).stdout
        grown = run(tmp_path, ["rank", "more.jsonl", *asked])
        assert grown.returncode == 0, grown.stderr
        assert "openai/any: the judge" in grown.stderr
        assert run(tmp_path, ["fit", "run"]).returncode == 0
        assert run(tmp_path, ["runs", "--report", "run"]).returncode == 0
    kept = read_judgements(tmp_path / "run")
    assert {one.question.voice for one in kept} == {"openai/any", "openai/any until 2025-06-01"}
    assert not any(one.cached for one in kept)


PANEL = Path(__file__).parents[2] / "shared" / "data" / "panel"


def recorded(name):
    return Comparisons.read(PANEL / f"topicalchat.{name}.csv.gz")


@pytest.mark.long
@pytest.mark.recorded
@pytest.mark.parametrize("other", ["qwen15-b", "qwen05-a"])
def test_recorded_voices_are_told_apart_within_forty_calls(other):
    from benchmarks.drift import splices

    old, new = recorded("naturalness.qwen15-a"), recorded(f"naturalness.{other}")
    assert np.mean(np.array(splices(old, new, draws=20)) <= 40) >= 0.9
    assert not any(math.isfinite(calls) for calls in splices(old, old, draws=20))
