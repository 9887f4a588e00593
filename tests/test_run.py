"""The loop, the run folder and going on after a stop."""

import random
import re
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest

from comparo import Items, JudgeError, Judgement, Question, RunError, StoreError, load_judge, rank
from comparo.selection import Selector
from inside import Budget, Rounds, Run, Store, Task, choose_folder, criterion_prompt, encode, list_runs, read_judgements
from processes import Forked, Loud
from split import one_short


def task(size=12, budget="4n", judge=None, **options):
    items = Items.of({f"item {number}": f"Text number {number}." for number in range(size)})
    judge = judge or load_judge("simulated/soft", seed=3)
    return Task(items, criterion_prompt("better"), judge, Budget.of(budget), **options)


def asked(judgements):
    return sorted((encode(one.question.context), one.question.first, one.question.second, one.p) for one in judgements)


def run(task, folder=None):
    store = Store(folder, task.identity, task.configuration)
    try:
        return Run(task, store).go(), list(store.judgements())
    finally:
        store.close()


class Failing:
    """A judge that fails at every n-th question, the first time that it is asked."""

    name, settings, ahead = "failing/judge", {}, 8

    def __init__(self, every, always=False):
        self.every, self.always, self.seen, self.count = every, always, set(), 0

    def judge(self, questions, prompt):
        for question in questions:
            self.count += 1
            key = (question.first, question.second)
            if self.count % self.every == 0 and (self.always or key not in self.seen):
                self.seen.add(key)
                yield Judgement(question, error="the server answered 500")
            else:
                self.seen.add(key)
                yield from load_judge("simulated/soft", seed=3).judge([question])


class Counting(Failing):
    def __init__(self, stop_after=None):
        super().__init__(10**9)
        self.stop_after = stop_after

    def judge(self, questions, prompt):
        for answer in super().judge(questions, prompt):
            if self.stop_after is not None and self.count > self.stop_after:
                raise JudgeError("the key was withdrawn")
            yield answer


@pytest.mark.parametrize("strategy", ["random", "greedy", "adaptive"])
@pytest.mark.parametrize("orders", ["one", "both"])
def test_a_run_asks_its_budget_and_no_pair_twice(strategy, orders):
    ranking, judgements = run(task(strategy=strategy, orders=orders))
    assert len(judgements) == 48
    assert len({(one.question.first, one.question.second) for one in judgements}) == 48
    assert ranking.graph.components == 1
    assert ranking.graph.degrees().sum() == 96


@pytest.mark.parametrize("stop", [1, 7, 20, 40])
@pytest.mark.parametrize("strategy", ["greedy", "adaptive"])
def test_a_run_that_was_stopped_ends_with_the_judgements_of_an_unbroken_one(tmp_path, stop, strategy):
    _, whole = run(task(judge=Counting(), strategy=strategy))
    with pytest.raises(JudgeError, match="withdrawn"):
        run(task(judge=Counting(stop), strategy=strategy), tmp_path / "run")
    assert len(read_judgements(tmp_path / "run")) == stop
    judge = Counting()
    _, resumed = run(task(judge=judge, strategy=strategy), tmp_path / "run")
    assert asked(resumed) == asked(whole)
    assert judge.count == len(whole) - stop


def test_more_budget_goes_on_with_the_same_run(tmp_path):
    run(task(budget="3n"), tmp_path / "run")
    judge = Counting()
    first = task(budget="3n", judge=judge)
    run(first, tmp_path / "other")
    second = task(budget="4n", judge=judge)
    assert judge.count == 36
    _, judgements = run(second, tmp_path / "other")
    assert (judge.count, len(judgements)) == (48, 48)
    assert asked(judgements) == asked(run(task(budget="4n", judge=Counting()))[1])


def test_answers_that_come_in_any_order_lead_to_the_same_questions():
    class Shuffling(Failing):
        def judge(self, questions, prompt):
            answers = list(super().judge(questions, prompt))
            random.Random(self.count).shuffle(answers)
            yield from answers

    kept = [asked(run(task(judge=judge, strategy="adaptive"))[1]) for judge in (Counting(), Shuffling(10**9))]
    assert kept[0] == kept[1]


def answered(rounds, pairs, **answer):
    for pair in pairs:
        rounds.answer(pair, Judgement(Question(*pair), **answer or {"p": 0.6}))


def test_rounds_lag_by_one_and_wait_to_be_told():
    selector = Selector(range(10), strategy="adaptive", orders="one", seed=np.random.default_rng(0))
    rounds = Rounds(selector, 40, 5, waits=True)
    first = rounds.offer()
    assert len(first) == 10
    assert rounds.offer() == []
    answered(rounds, reversed(first[5:]))  # the second round is answered first
    assert not rounds.has_answered(1)
    answered(rounds, first[:5])
    assert rounds.has_answered(2)
    assert rounds.offer() == []
    rounds.go_on(1)
    third = rounds.offer()
    assert len(third) == 5
    assert rounds.offer() == []
    answered(rounds, third[:1], error="lost")
    answered(rounds, third[1:])
    assert [len(rounds.answers(number)) for number in (1, 2, 3)] == [5, 10, 14]
    assert rounds.left
    rounds.stop()
    assert not rounds.left
    assert rounds.has_answered(7)


def test_rounds_that_wait_choose_what_others_choose():
    freely, held = (
        Rounds(Selector(range(10), strategy="adaptive", orders="one", seed=np.random.default_rng(0)), 40, 5, waits)
        for waits in (False, True)
    )
    kept = {0: [], 1: []}
    for number in range(8):
        for place, rounds in enumerate((freely, held)):
            pairs = rounds.offer()
            kept[place] += pairs
            for pair in pairs:
                rounds.answer(pair, Judgement(Question(*pair), p=0.5 + 0.04 * (pair[0] - pair[1])))
        held.go_on(number)
    assert kept[0] == kept[1]
    assert len(kept[0]) == 40


class Waving(Counting):
    """Answers about texts of six contexts, the last the easiest, in an order that `stir` determines."""

    def __init__(self, stop_after=None, stir=0):
        super().__init__(stop_after)
        self.stir = stir

    def judge(self, questions, prompt):
        scores = {f"item {c} {k}": 0.2 * k * (c + 1) for c in range(6) for k in range(8)}
        answers = list(load_judge("simulated/soft", scores=scores, noise=1.0).judge(questions))
        random.Random(self.stir).shuffle(answers)
        for answer in answers:
            self.count += 1
            if self.stop_after is not None and self.count > self.stop_after:
                raise JudgeError("the key was withdrawn")
            yield answer


def waves(judge, strategy):
    rows = [{"id": f"item {c} {k}", "text": f"Text {c} {k}", "context_id": c} for c in range(6) for k in range(8)]
    options = {"until": 0.9, "strategy": strategy}
    return Task(Items.of(rows), criterion_prompt("better"), judge, Budget.of("7n"), **options)


@pytest.mark.long
@pytest.mark.parametrize("strategy", ["adaptive", "greedy"])
def test_contexts_stop_at_the_same_calls_however_answers_come_and_a_run_is_stopped(tmp_path, strategy):
    _, whole = run(waves(Waving(), strategy))
    calls = np.bincount([one.question.context for one in whole])
    assert calls.min() < 40 < calls.max() == 56
    assert asked(run(waves(Waving(stir=5), strategy))[1]) == asked(whole)
    for stir, more in enumerate((3, 100, 40)):
        with pytest.raises(JudgeError, match="withdrawn"):
            run(waves(Waving(more, stir), strategy), tmp_path / "run")
    judge = Waving(stir=7)
    assert asked(run(waves(judge, strategy), tmp_path / "run")[1]) == asked(whole)
    assert judge.count == len(whole) - 143


def test_a_judge_that_chooses_is_asked_pairs_without_contrast():
    """From the first round on: whether the texts are alike makes no difference to what is asked."""
    items = Items.of({f"item {k}": "the cat sat on a mat" if k < 8 else f"{chr(97 + k) * 9} {k}" for k in range(12)})

    def first(model, **options):
        work = Task(items, criterion_prompt("better"), load_judge(f"simulated/{model}"), Budget.of("2n"), **options)
        pairs = {(one.question.first, one.question.second) for one in run(work)[1]}
        return pairs, work.identity.get("pairs")

    assert first("hard") == (first("hard", plain=True)[0], None)
    assert first("soft")[0] != first("soft", plain=True)[0]
    assert first("soft")[1] == "by contrast"


def test_failures_are_asked_once_more_and_left_out_of_the_fit(tmp_path):
    judge = Failing(7)
    ranking, judgements = run(task(judge=judge), tmp_path / "run")
    assert sum(one.failed for one in judgements) == 6
    assert len(judgements) == 48 + 6
    assert len(ranking.comparisons) == 48


def test_what_still_fails_is_left_out():
    ranking, judgements = run(task(judge=Failing(5, always=True)))
    assert len(ranking.comparisons) == len({one.question for one in judgements if not one.failed}) < 48


def test_too_many_failures_stop_the_run_and_it_can_go_on(tmp_path):
    with pytest.raises(RunError, match=r"\d+ of \d+ .* 500\."):
        run(task(size=30, judge=Failing(2, always=True)), tmp_path / "run")
    before = len(read_judgements(tmp_path / "run"))
    assert 20 <= before < 60
    ranking, _ = run(task(size=30, judge=Failing(10**9)), tmp_path / "run")
    assert len(ranking.comparisons) == 120


def test_every_context_is_ranked_and_gets_its_share():
    rows = [{"id": f"s{k}", "text": f"Text {k}", "context_id": c} for c in ("x", "y", "z") for k in range(8)]
    found = rank(rows, judge="simulated/soft", criterion="better", budget="3n")
    assert sorted(set(found.context.tolist())) == ["x", "y", "z"]
    assert len(found.comparisons) == 72
    assert found.graph.components == 3


def test_until_stops_early_when_the_ranking_is_sure():
    scores = {f"item {number}": 3.0 * number for number in range(12)}
    sure = load_judge("simulated/soft", scores=scores, noise=0.1)
    _, short = run(task(judge=sure, budget="11n", until=0.9))
    _, whole = run(task(judge=sure, budget="11n"))
    assert len(short) < len(whole) == 132


@pytest.mark.parametrize(("plain", "budget", "most"), [(True, "9n", 180), (False, "18n", 300)])
def test_goal_top_spends_calls_on_the_border_and_stops(plain, budget, most):
    scores = {f"item {number}": 1.5 * number for number in range(20)}
    judge = load_judge("simulated/soft", scores=scores, noise=0.2)
    options = {"until": 0.9, "goal": "top-3", "strategy": "adaptive", "plain": plain}
    ranking, judgements = run(task(20, judge=judge, budget=budget, **options))
    assert len(judgements) < most
    assert set(ranking.to_columns()["item"][:3].tolist()) == {"item 19", "item 18", "item 17"}


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"prompt": criterion_prompt("worse")}, "prompt: template was 'Text A:"),
        ({"judge": load_judge("simulated/soft", seed=4)}, "seed was 3 .* 4"),
        ({"judge": load_judge("simulated/hard", seed=3)}, "judge was 'simulated/soft' .* 'simulated/hard'"),
        ({"items": Items.of({f"item {n}": f"Text no. {n}." for n in range(12)})}, "items was '"),
        ({"seed": 1}, "seed was 0 .* 1"),
    ],
)
def test_a_folder_of_another_run_is_refused_saying_what_differs(tmp_path, change, place):
    run(task(), tmp_path / "run")
    with pytest.raises(StoreError, match=place):
        run(replace(task(), **change), tmp_path / "run")
    assert len(read_judgements(tmp_path / "run")) == 48


def test_the_same_run_is_found_again_and_a_fresh_one_is_not(tmp_path):
    folder = choose_folder("stories.jsonl", task().identity, root=tmp_path)
    run(task(), folder)
    assert choose_folder("stories.jsonl", task().identity, root=tmp_path) == folder
    assert choose_folder("stories.jsonl", task(seed=1).identity, root=tmp_path) != folder
    assert choose_folder("stories.jsonl", task().identity, fresh=True, root=tmp_path) != folder
    (summary,) = list_runs(tmp_path)
    assert (summary.answered, summary.failed, summary.judge) == (48, 0, "simulated/soft")


def test_the_database_of_a_finished_run_has_no_log_and_numbered_rows(tmp_path):
    run(task(), tmp_path / "run")
    database = tmp_path / "run" / "judgements.db"
    assert not list(database.parent.glob("judgements.db-*"))
    assert database.read_bytes()[18:20] == b"\x01\x01"  # versions for writing and reading: a rollback journal, no WAL
    with closing(sqlite3.connect(database)) as connection:
        assert connection.execute("SELECT count(*), max(number) FROM judgements").fetchone() == (48, 48)
        connection.execute("PRAGMA user_version=99")
    with pytest.raises(StoreError, match="99"):
        Store(tmp_path / "run", task().identity)


def test_a_second_process_is_refused(tmp_path):
    store = Store(tmp_path / "run", {"judge": "x"})
    code = "import sys, pathlib; from comparo.log.store import Store; Store(pathlib.Path(sys.argv[1]), {'judge': 'x'})"
    command = [sys.executable, "-c", code, str(tmp_path / "run")]
    second = subprocess.run(command, capture_output=True, text=True)
    assert "in use" in second.stderr
    store.close()
    assert subprocess.run(command, capture_output=True, text=True).returncode == 0


def test_a_budget_that_cannot_connect_the_items_is_refused_before_anything_is_asked():
    judge = Counting()
    with pytest.raises(ValueError, match="22 "):
        run(task(judge=judge, budget="20"))
    assert judge.count == 0


@pytest.fixture
def loud(tmp_path):
    found = Loud(tmp_path)
    found.write_items("items.jsonl", 20)
    return found


def whole(out):
    return ("items.jsonl", out, "--budget", "15n", "--format", "csv")


@pytest.mark.parametrize("kills", one_short([1, 10]))
def test_killed_at_any_moment_a_run_ends_with_the_judgements_of_an_unbroken_one(loud, tmp_path, kills):
    unbroken = loud.start(*whole("whole")).communicate()[0]
    loud.log.unlink()
    rng = random.Random(5)
    for _ in range(kills):
        begin = loud.length
        process = loud.start(*whole("killed"), limit=begin + 14 * rng.randrange(25))  # a line has at most 16 bytes
        loud.kill(process, begin, after=rng.uniform(0, 0.12))
    last = loud.start(*whole("killed")).communicate()[0]
    assert asked(read_judgements(tmp_path / "killed")) == asked(read_judgements(tmp_path / "whole"))
    assert last == unbroken
    again = loud.log.read_text().splitlines()
    # This judge has one call in flight, and one answer may be on its way to the disk.
    assert len(again) - len(set(again)) <= 2 * kills


@pytest.mark.long
def test_interrupted_a_run_gives_the_ranking_so_far_and_can_go_on(loud, tmp_path):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    slow = loud.environment | {"LOUD_LIMIT": "2000", "LOUD_PAUSE": "0.5"}
    process = Forked(loud.command(*whole("run")), env=slow, **pipes)
    while loud.length < 2000:
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, error = process.communicate()
    assert process.returncode == 130
    assert "same command" in error
    assert out.startswith("item,score")
    assert 0 < len(read_judgements(tmp_path / "run")) < 300
    goes_on(loud)


def goes_on(loud):
    done = subprocess.run(loud.command(*whole("run")), env=loud.environment, capture_output=True)
    assert done.returncode == 0
    assert len(read_judgements(loud.folder / "run")) == 300


def test_a_file_in_place_of_the_folder_is_a_wrong_command(request, tmp_path):
    (tmp_path / "items.jsonl").write_text('{"id": "a", "text": "A."}\n{"id": "b", "text": "B."}\n')
    (tmp_path / "run").write_text("a file where a folder should be")
    what = ["rank", "items.jsonl", "--judge", "simulated/soft", "--criterion", "better", "--out", "run"]
    done = request.getfixturevalue("run")(tmp_path, what)
    assert done.returncode == 2
    assert re.fullmatch("comparo: run .*--out.*\\n", done.stderr)


@pytest.mark.long
def test_a_disk_that_fills_up_is_one_line_and_the_run_goes_on_later(loud, tmp_path):
    code = (
        "import resource, sys; from comparo.cli.app import main; import signal;"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000)); main()"
    )
    full = [sys.executable, "-c", code, *loud.command(*whole("run"))[3:]]
    done = subprocess.run(full, env=loud.environment, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    assert "same command" in done.stderr
    assert "Traceback" not in done.stderr
    assert 0 < len(read_judgements(tmp_path / "run")) < 300
    goes_on(loud)
