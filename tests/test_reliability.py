"""What is promised of money and data, and held when things go wrong."""

import errno
import fcntl
import json
import math
import os
import random
import re
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import comparo
from comparo import (
    Comparisons,
    ComparisonsError,
    Items,
    JudgeError,
    Judgement,
    Question,
    RunError,
    StoreError,
    load_judge,
    write_report,
)
from comparo.data.opening import whole
from comparo.judges.replay import Replay
from comparo.log.files import set_aside
from inside import (
    CHANCE,
    FAILED,
    GRACE,
    RECENT,
    Budget,
    Run,
    Spending,
    Store,
    Task,
    choose_folder,
    count_judgements,
    criterion_prompt,
    is_excess,
    key_of,
    list_runs,
    model_sentences,
    prepare,
    read_configuration,
    read_judgements,
    repair,
)
from processes import Forked
from run_faults import CONCURRENCY, stop_again_and_again
from server_faults import spent_of_a_dollar
from servers import Api, tokens
from split import one_short

QUESTION = Question("ana", "bo")


class Told:
    """A judge that answers as it is told, and counts what it is asked."""

    name, settings, ahead = "told/judge", {}, 8

    def __init__(self, **answer):
        self.answer, self.count = {"p": 0.7, "mass": 1.0} | answer, 0

    def judge(self, questions, prompt):
        for question in questions:
            self.count += 1
            yield Judgement(question, **self.answer)


def task(size=12, budget="4n", judge=None, **options):
    items = Items.of({f"item {number}": f"Text number {number}." for number in range(size)})
    return Task(items, criterion_prompt("better"), judge or Told(), Budget.of(budget), **options)


def run(made, folder=None, **options):
    store = Store(folder, made.identity, made.configuration)
    try:
        store.add_items(made.items)
        return Run(made, store, **options).go()
    finally:
        store.close()


# No single answer stops a run


@pytest.mark.parametrize(
    ("answer", "failed"),
    [
        ({"reply": "A \ud83d"}, False),
        ({"tokens_in": 10**30}, True),
        ({"tokens_out": -(10**30)}, True),
        ({"cut": 2**63}, True),
        ({"weight": math.nan}, True),
        ({"reply": None}, False),
        ({"reply": ["A"]}, False),
        ({"seconds": [1]}, True),
        ({"tokens_in": 10**30, "reply": "\udc00"}, True),
    ],
)
def test_an_answer_that_cannot_be_stored_is_stored_clean_or_as_failed_and_takes_no_other_with_it(
    tmp_path, answer, failed
):
    odd = Judgement(QUESTION, **{"p": 0.6, "mass": 1.0} | answer)
    others = [Judgement(Question("ana", name), p=0.3, mass=1.0) for name in ("cy", "di")]
    store = Store(tmp_path, {})
    kept = store.add([others[0], odd, others[1]])
    store.close()
    found = read_judgements(tmp_path)
    assert [one.failed for one in found] == [one.failed for one in kept] == [False, failed, False]
    assert found[1].p == 0.6 or failed
    if failed:
        assert "cannot be stored" in found[1].error
    found[1].reply.encode()


def test_an_error_with_half_a_surrogate_is_kept_as_an_error(tmp_path):
    store = Store(tmp_path, {})
    store.add([Judgement(QUESTION, error="the server said \udfff")])
    store.close()
    assert read_judgements(tmp_path)[0].error == "the server said ?"


def test_labels_with_half_a_surrogate_are_found_again():
    question = Question("\ud83d", "7", 7)
    store = Store(None, {})
    store.add([Judgement(question, p=0.5)])
    assert list(store.known()) == [key_of(question)]
    assert next(store.judgements()).question == question


def test_a_run_goes_on_over_answers_that_cannot_be_stored():
    class Odd(Told):
        def judge(self, questions, prompt):
            for answer in super().judge(questions, prompt):
                yield replace(answer, tokens_in=10**30) if self.count == 5 else answer

    assert len(run(task(judge=Odd())).comparisons) == 48  # what failed was asked once more


def test_a_judge_that_leaves_questions_unanswered_is_named():
    class Lazy(Told):
        def judge(self, questions, prompt):
            yield Judgement(next(iter(questions)), p=0.5)
            list(questions)

    with pytest.raises(JudgeError, match="told/judge gave no"):
        run(task(judge=Lazy()))


# Checked before the first call


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "foo"}, "method = 'foo' is none of"),
        ({"method": "bt; bias=joint"}, "'bt' has no bias term"),
        ({"method": "mixed; bias=sideways"}, "bias = 'sideways' is none of"),
        ({"goal": "top-1", "strategy": "greedy"}, "needs answers to go by"),
        ({"goal": "top-12"}, "decides nothing among 12 items"),
        ({"orders": "three"}, "orders = 'three' is none of"),
        ({"strategy": "clever"}, "strategy = 'clever' is none of"),
        ({"until": "0.9"}, "is not between 0 and 1"),
        ({"least_mass": 50}, "is not a share"),
        ({"seed": -1}, "seed = -1"),
        ({"budget": "5"}, "cannot connect"),
    ],
)
def test_what_can_be_checked_is_checked_before_anything_is_asked_or_written(tmp_path, options, message):
    judge = Told()
    texts = {f"item {number}": f"Text number {number}." for number in range(12)}
    with pytest.raises((ValueError, TypeError), match=message):
        comparo.rank(texts, "better", judge=judge, **{"budget": "4n", "out": tmp_path / "run", **options})
    assert judge.count == 0
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("until", [None, 0.9])
def test_a_goal_chooses_its_strategy(until):
    assert task(goal="top-1").strategy == "adaptive"
    scores = {f"item {number}": 2.0 * number for number in range(12)}
    judge = load_judge("simulated/soft", scores=scores, noise=0.2)
    assert run(task(judge=judge, goal="top-1", until=until)).to_columns()["item"][0] == "item 11"


def test_a_judge_that_is_not_ready_says_so_before_the_folder_is_made(tmp_path):
    class Keyless(Told):
        def ready(self):
            raise JudgeError("told/judge needs a key")

    with pytest.raises(JudgeError, match="needs a key"):
        comparo.rank(["a", "b", "c"], "better", judge=Keyless(), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


# Money


@pytest.mark.parametrize("concurrency", [1, 32])
def test_a_budget_in_dollars_holds_with_many_calls_at_once(tmp_path, concurrency):
    spent, calls = spent_of_a_dollar(tmp_path, concurrency)
    assert calls == 33  # the probe among them
    assert spent <= 1.0


@pytest.mark.parametrize(("concurrency", "after"), one_short([(32, 0.0), (32, 0.02), (4, 0.0)]))
def test_a_price_that_rises_tenfold_exceeds_a_budget_by_the_calls_in_flight_at_most(tmp_path, concurrency, after):
    spent, _ = spent_of_a_dollar(tmp_path, concurrency, cheap=60, after=after)
    assert 0.95 < spent <= 1.0 + concurrency * (0.03006 - 0.00306)
    assert spent < 1.2  # 60 cheap calls and 32 dear ones


def test_one_dear_call_is_forgotten_after_many_usual_ones():
    spending = Spending(100.0, lambda _: 0.1)
    for number in range(RECENT + 1):
        spending.reserve(Question("ana", number))
        spending.settle(Judgement(Question("ana", number), p=0.7, cost=0.1 if number else 5.0))
        assert spending.expected(QUESTION) == pytest.approx(5.0 if number < RECENT else 0.1)


@pytest.mark.parametrize("seed", one_short(range(8)))
@pytest.mark.parametrize("spread", [0.0, 0.5, 1.0])
def test_a_budget_in_dollars_is_overrun_by_one_call_at_most_whatever_calls_cost(seed, spread):
    rng = np.random.default_rng(seed)

    class Priced(Told):
        ahead, price, spent, dearest = 64, (1000.0, 1000.0), 0.0, 0.0

        def judge(self, questions, prompt):
            flying = []
            for question in questions:
                flying.append(question)
                if len(flying) >= 32:  # many are out before the first comes back
                    yield self.priced(flying.pop(int(rng.integers(len(flying)))))
            yield from map(self.priced, flying)

        def priced(self, question):
            cost = 0.05 * math.exp(spread * rng.standard_normal())
            self.spent, self.dearest = self.spent + cost, max(self.dearest, cost)
            return Judgement(question, p=0.6, mass=1.0, cost=cost)

    judge = Priced()
    run(task(size=60, budget="$8", judge=judge, orders="one"))
    assert 4.0 < judge.spent <= 8.0 + judge.dearest


@pytest.mark.long
def test_calls_whose_price_is_not_told_count_as_expected():
    class Silent(Told):
        price = (1000.0, 1000.0)

    judge = Silent()
    made = task(size=30, budget="$4", judge=judge)
    run(made)
    question = made.items.question(None, "item 0", "item 1")
    assert 0.9 * 4 < judge.count * made.price_of(question) <= 4 * 1.05


def test_money_spent_before_counts_when_a_run_goes_on(tmp_path):
    class Dear(Told):
        price = (1000.0, 1000.0)

    judge = Dear(cost=0.125)
    for budget, calls in (("$4", 32), ("$4", 32), ("$5", 40)):
        run(task(size=12, budget=budget, judge=judge), tmp_path)
        assert calls - 1 <= judge.count <= calls  # the last call may be expected to cost a little more


def test_a_judge_that_costs_nothing_has_no_budget_in_dollars():
    class Free(Told):
        price = (0.0, 0.0)

    with pytest.raises(ValueError, match="costs nothing"):
        prepare(task(budget="$1", judge=Free()))
    assert len(run(task(judge=Free())).scores) == 12


# Failures


def losing(is_lost):
    """A judge that fails at some of its calls, by their numbers."""

    class Losing(Told):
        def judge(self, questions, prompt):
            for answer in super().judge(questions, prompt):
                yield Judgement(answer.question, error="the server answered 500") if is_lost(self.count) else answer

    return Losing()


def test_twelve_failures_among_forty_may_be_chance_and_stop_nothing():
    judge = losing(lambda count: count <= 40 and count % 10 in (1, 4, 7))
    assert len(run(task(judge=judge)).comparisons) == 48  # what failed was asked once more
    assert judge.count == 60


@pytest.mark.long
@pytest.mark.parametrize("asked", [20, 100, 400])
def test_the_rule_of_failures_keeps_its_level_at_every_look(asked):
    lost = np.random.default_rng(0).binomial(asked, FAILED, 20_000)
    assert np.mean([is_excess(int(each), asked) for each in lost]) < 2 * CHANCE


def test_the_models_names_are_in_the_folder_and_in_exports(tmp_path):
    made = task(judge=Told(model="tiny-2026-11-01"))
    run(made, tmp_path / "run")
    assert {one.model for one in read_judgements(tmp_path / "run")} == {"tiny-2026-11-01"}
    done = comparo.export_run(tmp_path / "run", tmp_path / "answers.csv")
    assert "tiny-2026-11-01" in Path(done.path).read_text().splitlines()[1]
    repair(tmp_path / "run")
    assert {one.model for one in read_judgements(tmp_path / "run")} == {"tiny-2026-11-01"}


class Renamed(Told):
    """A judge whose server changes the model after 30 answers."""

    def judge(self, questions, prompt):
        for answer in super().judge(questions, prompt):
            yield replace(answer, model="tiny-2026-11" if self.count <= 30 else "tiny-2026-12<b>")


def test_a_model_that_the_server_changes_is_told_and_in_the_report(tmp_path, caplog):
    run(task(judge=Renamed()), tmp_path)
    (sentence,) = [one for one in caplog.messages if "tiny" in one]
    assert "tiny-2026-11 gave 30 " in sentence
    assert "tiny-2026-12<b> gave 18 " in sentence
    assert "tiny-2026-12&lt;b&gt; gave 18 " in write_report(tmp_path).read_text()
    each = [replace(one, question=replace(one.question, voice=one.model)) for one in read_judgements(tmp_path)]
    assert model_sentences(each) == ()  # two judges


# The run folder


def test_the_folder_and_its_files_are_for_their_owner_alone(tmp_path):
    comparo.rank(["a text", "b text", "c text"], "better", judge=Told(), out=tmp_path / "run")
    assert stat.S_IMODE((tmp_path / "run").stat().st_mode) == 0o700
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "run").iterdir()}
    assert {"run.json", "judgements.db", "ranking.csv", "lock"} <= modes.keys()
    assert set(modes.values()) == {0o600}


def test_a_lock_that_is_a_link_is_not_followed(tmp_path):
    folder, elsewhere = tmp_path / "run", tmp_path / "precious"
    folder.mkdir()
    elsewhere.write_text("mine")
    (folder / "lock").symlink_to(elsewhere)
    with pytest.raises(StoreError, match="is a link"):
        Store(folder, {})
    assert elsewhere.read_text() == "mine"


def test_without_run_json_another_run_is_still_refused_and_the_same_one_goes_on(tmp_path):
    run(task(), tmp_path)
    (tmp_path / "run.json").unlink()
    with pytest.raises(StoreError, match="seed was 0"):
        run(task(seed=1), tmp_path)
    judge = Told()
    run(task(judge=judge), tmp_path)
    assert judge.count == 0
    assert read_configuration(tmp_path)["identity"] == json.loads((tmp_path / "run.json").read_text())["identity"]


def test_judgements_of_nobody_knows_what_are_refused(tmp_path):
    run(task(), tmp_path)
    (tmp_path / "run.json").unlink()
    with sqlite3.connect(tmp_path / "judgements.db") as connection:  # as an older version made it
        connection.execute("DELETE FROM run")
    connection.close()
    with pytest.raises(StoreError, match=r"run\.json cannot"):
        run(task(), tmp_path)


def test_a_run_that_cannot_be_read_blocks_no_other(tmp_path):
    run(task(), tmp_path / "20260101-sound")
    (tmp_path / "20260102-bad").mkdir()
    (tmp_path / "20260102-bad" / "run.json").write_text("{")
    (tmp_path / "20260103-worse").mkdir()
    (tmp_path / "20260103-worse" / "judgements.db").write_text("no database at all " * 300)
    assert choose_folder("x", task().identity, root=tmp_path).name == "20260101-sound"
    sound, bad, worse = list_runs(tmp_path)
    assert (sound.answered, sound.failed) == (48, 0)
    assert "cannot be read" in bad.judge
    assert "--repair" in worse.judge


def test_failures_are_counted_until_they_are_mended(tmp_path):
    store = Store(tmp_path / "run", {})
    lost, mended = Question("ana", "cy"), Question("ana", "bo")
    store.add([Judgement(one, error="500") for one in (lost, lost, mended)])
    store.add([Judgement(mended, p=0.5), Judgement(Question("bo", "ana"), p=0.5)])
    store.close()
    (found,) = list_runs(tmp_path)
    assert (found.answered, found.failed) == (2, 1)


def test_a_folder_deleted_in_the_middle_stops_the_run_at_once(tmp_path):
    class Deleting(Told):
        def judge(self, questions, prompt):
            for answer in super().judge(questions, prompt):
                if self.count == 30:
                    shutil.rmtree(tmp_path / "run")
                yield answer

    judge = Deleting()
    with pytest.raises(StoreError, match=rf"{re.escape(str(tmp_path / 'run'))} .*moved"):
        run(task(size=100, judge=judge), tmp_path / "run")
    assert judge.count == 30


def test_a_folder_in_use_is_not_set_aside(tmp_path):
    store = Store(tmp_path / "run", {})
    with pytest.raises(StoreError, match="in use"):
        set_aside(tmp_path / "run")
    store.close()
    set_aside(tmp_path / "run")
    assert not (tmp_path / "run").exists()
    assert (tmp_path / "run-1" / "run.json").exists()


def test_of_two_writers_the_first_stops_and_no_answer_counts_twice(tmp_path):
    second = Told()

    class Joined(Told):
        def judge(self, questions, prompt):
            for answer in super().judge(questions, prompt):
                if self.count == 30:
                    (tmp_path / "run" / "lock").unlink()
                    run(task(judge=second), tmp_path / "run")
                yield answer

    judge = Joined()
    with pytest.raises(StoreError, match="1 of these questions"):
        run(task(judge=judge), tmp_path / "run")
    keys = [key_of(one.question) for one in read_judgements(tmp_path / "run")]
    assert len(keys) == len(set(keys)) == stored(tmp_path / "run") == 48
    assert judge.count == 30
    assert judge.count + second.count == 48 + 1  # the answer that was on its way when the other began


def stored(folder):
    with closing(sqlite3.connect(folder / "judgements.db")) as connection:
        return connection.execute("SELECT count(*) FROM judgements").fetchone()[0]


def test_a_question_that_has_an_answer_gets_no_second_one(tmp_path):
    store = Store(tmp_path, {})
    asked, other = Question("ana", "bo"), Question("bo", "ana")
    store.add([Judgement(asked, error="500"), Judgement(asked, p=0.25)])  # what failed is asked again
    with pytest.raises(StoreError, match="1 of these questions"):
        store.add([Judgement(asked, p=0.75), Judgement(other, p=0.5)])
    assert [one.p for one in store.judgements() if not one.failed] == [0.25, 0.5]
    store.add([Judgement(replace(asked, voice="cy"), p=0.75), Judgement(replace(asked, context="story"), p=0.75)])
    with store.transaction() as connection:
        connection.execute("UPDATE judgements SET withdrawn = 1 WHERE number = 2")
    store.add([Judgement(asked, p=1.0)])
    store.close()
    assert [one.p for one in read_judgements(tmp_path) if not one.failed] == [0.5, 0.75, 0.75, 1.0]
    assert count_judgements(tmp_path) == (4, 0)


@pytest.mark.parametrize(("number", "words"), [(errno.ENOLCK, "has no locks"), (errno.EAGAIN, "in use by another")])
def test_a_file_system_without_locks_is_named_as_such(tmp_path, monkeypatch, number, words):
    def refuse(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(StoreError, match=words):
        Store(tmp_path / "run", {})


# Runs commands of comparo without the capabilities by which root writes to any file.
WITHOUT_RIGHTS = """
import ctypes, json, os, sys
from pathlib import Path
from typer.testing import CliRunner
from comparo.cli.app import app
if os.geteuid() == 0:
    ctypes.CDLL(None).capset((ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)())
writable = [str(path) for path in Path(sys.argv[1]).rglob("*") if os.access(path, os.W_OK)]
assert not writable, writable
found = [CliRunner().invoke(app, words) for words in json.loads(sys.argv[2])]
print(json.dumps([(one.exit_code, one.stdout) for one in found]))
"""


@pytest.fixture(params=["mount", "mode"])
def read_only(tmp_path, request):
    """A function that runs commands of comparo beside a read-only folder, and returns what they print.

    The folder is mounted read-only where the system permits this, and else without permission to write.
    """
    source, work = tmp_path / "source", tmp_path / "work"
    start = ["unshare", "--mount", "sh", "-c", f'mount --bind -o ro {source} {source} && exec "$@"', "sh"]
    source.mkdir()
    work.mkdir()
    mounts = request.param == "mount" and shutil.which("unshare") is not None
    mounts = mounts and subprocess.run([*start, "true"], capture_output=True).returncode == 0

    def commands(*given):
        if not mounts:
            for path in [*source.rglob("*"), source]:
                path.chmod(path.stat().st_mode & ~0o222)
        command = [sys.executable, "-c", WITHOUT_RIGHTS, source, json.dumps(given)]
        command = [*start, *command] if mounts else command
        return json.loads(subprocess.run(command, cwd=work, capture_output=True, text=True, check=True).stdout)

    yield commands
    for path in [source, *source.rglob("*")]:  # so that pytest can remove them
        path.chmod(path.stat().st_mode | 0o200)


@pytest.mark.long
def test_a_finished_run_on_read_only_storage_is_listed_fitted_reported_and_exported(read_only, tmp_path):
    folder = tmp_path / "source" / "run"
    run(task(judge=load_judge("simulated/soft"), plain=True), folder)
    assert sorted(path.name for path in folder.iterdir()) == ["judgements.db", "lock", "run.json"]
    check_read_only(read_only, folder)


@pytest.mark.long
def test_a_killed_run_on_read_only_storage_is_read_with_its_log(read_only, tmp_path):
    made = task(judge=load_judge("simulated/soft"), plain=True)
    run(made, tmp_path / "run")
    with closing(Store(tmp_path / "run", made.identity, made.configuration)):
        shutil.copytree(tmp_path / "run", tmp_path / "source" / "run")
    assert (tmp_path / "source" / "run" / "judgements.db-wal").exists()
    check_read_only(read_only, tmp_path / "source" / "run")


@pytest.mark.long
def test_a_folder_that_cannot_be_written_is_named(read_only, tmp_path):
    folder = tmp_path / "source" / "run"
    texts = [f"{'word ' * k}." for k in range(12)]
    comparo.rank(texts, "better", judge=load_judge("simulated/soft"), budget="4n", out=folder)
    code, printed = read_only(["why", str(folder)])[0]
    assert code == 1
    assert "on its own" in printed


def test_a_file_in_a_read_only_folder_is_named(tmp_path, monkeypatch):
    def refused(*_, **__):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(Path, "open", refused)
    monkeypatch.setattr(Path, "unlink", refused)
    path = tmp_path / "run.csv"
    with pytest.raises(ComparisonsError, match=re.escape(str(path))), whole(path):
        pass


def check_read_only(commands, folder):
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    runs = ["runs", str(folder.parent), "--format", "csv"]
    listed, fitted, *paths = commands(
        runs, ["fit", str(folder)], ["runs", "--report", str(folder)], ["export", str(folder)]
    )
    assert [listed[0], fitted[0]] == [0, 0]
    assert ",48,0," in listed[1]
    assert "item 11" in fitted[1]
    assert paths == [[0, "run-report/report.html\n"], [0, "run.csv\n"]]
    work = folder.parents[1] / "work"
    assert {path.name for path in work.iterdir()} == {"run.csv", "run-report"}
    assert "<html" in (work / "run-report" / "report.html").read_text()
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def damaged(folder, places, size=4096):
    """Overwrite pages of the database: the first two, or by their place among those that hold judgements.

    The latter are leaves of a table (kind 13) with more than one row; items are on the first of these.
    """
    path = folder / "judgements.db"
    content = path.read_bytes()
    pages = [content[start : start + size] for start in range(0, len(content), size)]
    judgements = [number for number, page in enumerate(pages) if page[0] == 13 and page[3:5] > b"\0\1"][1:]
    with path.open("r+b") as file:
        for place in places:
            file.seek((place if place < 2 else judgements[place]) * size)
            file.write(random.Random(place).randbytes(size))
    return len(pages), len(judgements)


@pytest.mark.long
@pytest.mark.parametrize("places", one_short([[0, 9], [0], [1], [7], [12, 13, 14, 15]]))
def test_repair_keeps_what_can_be_read_and_the_run_goes_on(tmp_path, places):
    run(task(size=60, budget="20n"), tmp_path / "run")
    before = read_judgements(tmp_path / "run")
    pages, full = damaged(tmp_path / "run", places)
    with pytest.raises(StoreError, match="runs --repair"):
        run(task(size=60, budget="20n"), tmp_path / "run")
    found = repair(tmp_path / "run")
    kept = read_judgements(tmp_path / "run")
    assert found.kept == len(kept)
    # A page of rows is about 40 of them; the first two hold none.
    assert len(before) * (1 - (len(places) + 2) / full) <= len(kept) <= len(before)
    assert {key_of(one.question) for one in kept} <= {key_of(one.question) for one in before}
    assert {one.p for one in kept} <= {0.7}
    assert found.aside.stat().st_size == pages * 4096
    judge = Told()
    run(task(size=60, budget="20n", judge=judge), tmp_path / "run")
    assert judge.count == len(before) - len(kept)


def test_a_changed_criterion_is_shown_where_it_differs(tmp_path):
    items = Items.of({f"item {number}": f"Text number {number}." for number in range(4)})
    one, other = (Task(items, criterion_prompt(words), Told(), Budget.of("3n")) for words in ("bolder", "calmer"))
    run(one, tmp_path)
    with pytest.raises(StoreError, match="holds another run") as refused:
        run(other, tmp_path)
    was, now = str(refused.value).split(" and is ")
    assert "bolder" in was
    assert "calmer" in now


def test_recorded_answers_are_told_apart_by_what_they_say():
    rows = [("ana", "bo", 0.7), ("bo", "cy", 0.6)]
    same, other = (Replay(Comparisons.from_rows([*rows[:1], ("bo", "cy", p)]), "x.csv") for p in (0.6, 0.61))
    assert Replay(Comparisons.from_rows(rows), "x.csv").settings == same.settings
    assert same.settings != other.settings


def test_at_most_64_judgements_wait_for_the_disk(tmp_path, monkeypatch):
    synced = []
    for longest in (math.inf, 0.0):
        store = Store(tmp_path / str(longest), {})
        with monkeypatch.context() as patch:
            patch.setattr("comparo.log.store.LONGEST_UNSYNCED", longest)
            patch.setattr(os, "fsync", lambda file: synced.append(os.fstat(file).st_ino))
            for number in range(200):
                store.add([Judgement(Question(number, "bo"), p=0.5)])
            store.settle()
        (file,) = set(synced)
        assert file == (tmp_path / str(longest) / "judgements.db-wal").stat().st_ino
        assert len(synced) == (3 if longest else 200)
        synced.clear()
        store.close()


# What the judge says of itself


def test_until_never_stops_before_all_items_of_a_context_are_connected():
    ranking = run(task(size=60, budget="30n", until=0.01, orders="one", judge=load_judge("simulated/soft")))
    assert ranking.graph.components == 1
    assert ranking.graph.nodes == 60
    assert len(ranking.comparisons) < 300


@pytest.mark.parametrize("mass", [0.0, 0.3])
def test_a_judge_that_does_not_answer_with_the_labels_is_stopped_early_with_its_words(mass):
    judge = Told(mass=mass, reply="As a language model")
    with pytest.raises(RunError, match=r"first 20\b.*'As a"):
        run(task(size=40, judge=judge))
    assert judge.count <= 40
    assert len(run(task(size=40, judge=judge, least_mass=0.0)).scores) == 40


def test_a_small_run_too_is_stopped_before_it_is_over():
    judge = Told(mass=0.1)
    with pytest.raises(RunError, match="first 6 answers"):
        run(task(size=4, budget="3n", judge=judge))


def test_a_cut_prompt_is_told_at_once(caplog):
    run(task(judge=Told(cut=900)))
    (sentence,) = caplog.messages
    assert re.search("900 characters .*cut", sentence)


# Stopped


@pytest.mark.long
@pytest.mark.parametrize("which", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_stopped_pays_again_for_no_more_than_the_calls_in_flight(which):
    found = stop_again_and_again(which, 4)
    assert (found.kept, found.lost, found.doubled) == (600, 0, 0)
    if which == signal.SIGKILL:
        assert found.paid_twice <= 4 * CONCURRENCY
    else:
        assert found.paid_twice == 0
        name = {signal.SIGINT: "Interrupted", signal.SIGTERM: "Stopped by SIGTERM"}[which]
        assert all(re.search(rf"\b{GRACE:g} s .*in flight", words) for words in found.words)
        assert all(f"{name}: " in words and "same command" in words for words in found.words)


def ranking_by(api, folder):
    """The command that ranks twenty texts by a server."""
    texts = "\n".join(json.dumps({"id": f"item {k}", "text": f"Text {k}."}) for k in range(20))
    (folder / "items.jsonl").write_text(texts)
    command = [sys.executable, "-m", "comparo.cli", "rank", "items.jsonl", "--criterion", "better", "--out", "run"]
    return [*command, "--judge", "openai/any", "--base-url", api.url]


@pytest.mark.long
def test_interrupted_twice_a_run_leaves_at_once(tmp_path):
    # Whoever waits gets all answers: they come well within those seconds.
    quick, slow = (tokens({"A": 0.7, "B": 0.3}, after=after) for after in (0.0, GRACE - 2.0))
    with Api(quick, quick, slow) as api:
        how = {"cwd": tmp_path, "env": os.environ | {"OPENAI_API_KEY": "none"}, "stderr": subprocess.PIPE, "text": True}
        with subprocess.Popen(ranking_by(api, tmp_path), **how) as process:
            while len(api.requests) < 10:
                assert process.poll() is None
                time.sleep(0.01)
            process.send_signal(signal.SIGINT)
            told = ("a probe of", "calls at most")
            assert f"up to {GRACE:g} s" in next(
                line for line in process.stderr if not any(word in line for word in told)
            )
            process.send_signal(signal.SIGINT)
            words = process.stderr.read()
    assert process.returncode == 130
    assert "Traceback" not in words
    assert re.search(r"Interrupted: .*kept \(1\)", words)


@pytest.mark.long
def test_a_run_of_slow_calls_ends_within_ten_seconds_of_an_interrupt(tmp_path):
    quick, slow = (tokens({"A": 0.7, "B": 0.3}, after=after) for after in (0.0, 60.0))
    with Api(quick, quick, slow) as api:
        how = {"env": os.environ | {"OPENAI_API_KEY": "none"}, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = Forked(ranking_by(api, tmp_path), cwd=tmp_path, **how)
        while len(api.requests) < 10:
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        start = time.monotonic()
        out, words = process.communicate()
        assert time.monotonic() - start < 10
    assert process.returncode == 130
    assert "Traceback" not in words
    assert out.startswith("item")
