"""The loop, the run folder and going on after a stop."""

import random
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace

import pytest

from comparo import Items, Judgement, RunError, StoreError, load_judge, rank
from inside import Budget, Store, Task, choose_folder, criterion_prompt, list_runs, read_judgements
from processes import Loud
from split import one_short
from stored import asked, run


def task(size=12, budget="4n", judge=None, **options):
    items = Items.of({f"item {number}": f"Text number {number}." for number in range(size)})
    judge = judge or load_judge("simulated/soft", seed=3)
    return Task(items, criterion_prompt("better"), judge, Budget.of(budget), **options)


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


@pytest.mark.parametrize("strategy", ["random", "greedy", "adaptive"])
@pytest.mark.parametrize("orders", ["one", "both"])
def test_a_run_asks_its_budget_and_no_pair_twice(strategy, orders):
    ranking, judgements = run(task(strategy=strategy, orders=orders))
    assert len(judgements) == 48
    assert len({(one.question.first, one.question.second) for one in judgements}) == 48
    assert ranking.graph.components == 1
    assert ranking.graph.degrees().sum() == 96


def test_more_budget_goes_on_with_the_same_run(tmp_path):
    judge = Failing(10**9)
    run(task(budget="3n", judge=judge), tmp_path)
    assert judge.count == 36
    _, judgements = run(task(budget="4n", judge=judge), tmp_path)
    assert (judge.count, len(judgements)) == (48, 48)
    assert asked(judgements) == asked(run(task(budget="4n", judge=Failing(10**9)))[1])


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


def test_what_still_fails_is_left_out():
    ranking, judgements = run(task(judge=Failing(5, always=True)))
    assert len(ranking.comparisons) == len({one.question for one in judgements if not one.failed}) < 48


def test_too_many_failures_stop_the_run_and_it_can_go_on(tmp_path):
    with pytest.raises(RunError, match=r"\d+ of \d+.* 500\."):
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
    judge = Failing(10**9)
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
    assert subprocess.run(loud.command(*whole("run")), env=loud.environment, capture_output=True).returncode == 0
    assert len(read_judgements(tmp_path / "run")) == 300
