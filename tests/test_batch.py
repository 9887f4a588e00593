"""Runs by batches against a real server on loopback that behaves as the API's reference says, faults included."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import replace

import pytest

import comparo
from batch_runs import CALLS, QUICK, answers, check_whole, go, task, texts, work
from batch_server import BatchServer
from comparo import JudgeError, PendingError, RunError, StoreError
from inside import Storage, key_of, repair
from processes import CONTEXT, Forked
from servers import KEY, refusal, tokens, words
from split import one_short

pytestmark = pytest.mark.usefixtures("keys")

PRICE = (0.15, 0.60)


@pytest.fixture
def server():
    with BatchServer() as made:
        yield made


@pytest.fixture(autouse=True)
def _where_the_cache_is(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)


def single(server, folder, **options):
    """Rank by single calls, in the folder of a run of batches."""
    judge = f"openai/gpt-4o-mini; base_url={server.url}"
    return comparo.rank(texts(), "better", **{"judge": judge, "budget": CALLS, "out": folder} | options)


def test_the_answers_are_those_of_single_calls(server, tmp_path):
    """What a line of the results says is read as an answer to a single call is."""
    go(server.url, tmp_path / "run")
    asked = task(server.url)
    stored = {key_of(one.question): one for one in answers(tmp_path / "run")}
    questions = [
        asked.items.question(one.question.context, one.question.first, one.question.second) for one in stored.values()
    ]
    for single in asked.judge.judge(questions[:10], asked.prompt):
        found = stored[key_of(single.question)]
        assert (found.p, found.mass, found.tokens_in, found.reply) == (
            single.p,
            single.mass,
            single.tokens_in,
            single.reply,
        )


def test_a_run_that_waits_for_a_batch_is_not_asked_directly(server, tmp_path):
    server.does.looks = -1
    folder = tmp_path / "run"
    with pytest.raises(PendingError):
        single(server, Storage(folder, batch="submit"))
    with pytest.raises(StoreError, match=r"39 questions .*batch='wait'"):
        single(server, folder)
    server.does.looks = 0
    single(server, Storage(folder, batch="wait"))
    single(server, folder)
    check_whole(server, folder)


@pytest.mark.parametrize(("first", "then"), [(go, go), (go, single), (single, go)])
def test_a_larger_budget_asks_only_the_rest_by_batches_or_single_calls(server, tmp_path, first, then):
    place = {go: server.url, single: server}
    first(place[first], tmp_path / "run", budget=20)
    then(place[then], tmp_path / "run", budget=50)
    check_whole(server, tmp_path / "run", 50)
    sizes = [len(batch["lines"]) for batch in server.made]
    assert sizes == [size for size, how in ((19, first), (29, then)) if how is go]


def test_answers_of_a_batch_go_to_the_cache_and_come_from_there(server, tmp_path):
    cache = tmp_path / "cache.sqlite"
    single(server, Storage(tmp_path / "one", batch="wait"), budget=30, cache=cache)
    single(server, Storage(tmp_path / "two", batch="wait"), budget=50, cache=cache)
    assert len(answers(tmp_path / "two")) == 50
    assert sum(one.cached for one in answers(tmp_path / "two")) == 30
    assert [len(batch["lines"]) for batch in server.made] == [29, 19]
    single(server, tmp_path / "three", budget=50, cache=cache)
    single(server, Storage(tmp_path / "four", batch="wait"), budget=50, cache=cache)
    assert len(server.made) == 2
    assert all(one.cached for one in answers(tmp_path / "four"))
    assert max(server.asked.values()) == 1


def test_a_batch_that_is_refused_is_not_repeated(server, tmp_path):
    server.does.refuse = lambda _: [{"code": "invalid_url", "message": "The URL is wrong.", "line": 1}]
    with pytest.raises(RunError, match=r"invalid_url: .*\(line 1\)"):
        go(server.url, tmp_path / "run")
    server.does.refuse = lambda _: None
    go(server.url, tmp_path / "run")
    check_whole(server, tmp_path / "run")


def full(limit):
    """The server's refusal of more lines than so many."""
    message = "Enqueued token limit reached for gpt-4o-mini in organization org-x. Please try again later."
    return lambda lines: [{"code": "token_limit_exceeded", "message": message}] if len(lines) > limit else None


def test_a_batch_goes_in_parts_where_the_queue_is_short(server, tmp_path, caplog):
    server.does.refuse = full(10)
    go(server.url, tmp_path / "run")
    check_whole(server, tmp_path / "run")
    assert max(batch["request_counts"]["completed"] for batch in server.made) <= 10
    assert "in parts" in caplog.text


def test_a_full_queue_is_waited_for(server, tmp_path):
    limits = iter([0, 0, 0])
    server.does.refuse = lambda lines: full(next(limits, 99))(lines)
    go(server.url, tmp_path / "run", pauses=replace(QUICK, full=0.2))
    check_whole(server, tmp_path / "run")
    sizes = [len(batch["lines"]) for batch in server.made]
    assert sizes[:4] == [39, 19, 9, 4]
    assert sum(sizes[3:]) == 39


@pytest.mark.parametrize(("limit", "value"), [("most_lines", 15), ("most_bytes", 5000)])
def test_large_runs_are_split(server, tmp_path, monkeypatch, limit, value):
    monkeypatch.setattr(f"comparo.judges.batch_endpoints.OpenAIBatches.{limit}", value)
    go(server.url, tmp_path / "run")
    check_whole(server, tmp_path / "run")
    sizes = [len(batch["lines"]) for batch in server.made]
    assert sizes == [15, 15, 9] if limit == "most_lines" else len(sizes) > 2
    assert limit == "most_lines" or max(file.get("bytes", 0) for file in server.files.values()) <= value


def test_a_server_without_batches_is_told_apart(server, tmp_path):
    server.does.has_batches = False
    with pytest.raises(JudgeError, match="leave batch out"):
        go(server.url, tmp_path / "run")


def test_a_judge_that_does_not_use_the_labels_is_noticed_before_the_batch(server, tmp_path):
    server.does.answer = lambda _: tokens({"A": 0.06, "B": 0.04, "The": 0.9})
    with pytest.raises(RunError, match=r"10\.0%"):
        go(server.url, tmp_path / "run")
    assert server.made == []
    assert len(server.direct) == 20


def test_what_the_server_refuses_of_a_request_is_found_out_before_the_batch(server, tmp_path):
    usual = server.does.answer

    def answer(request):
        return refusal(400, "Use 'max_completion_tokens' instead.") if "max_tokens" in request.body else usual(request)

    server.does.answer = answer
    go(server.url, tmp_path / "run")
    assert len(answers(tmp_path / "run")) == CALLS
    assert all("max_completion_tokens" in line["body"] for line in server.made[0]["lines"])


def test_votes_are_one_line_where_the_server_takes_n(server, tmp_path):
    server.does.answer = lambda request: words(*['{"better": "Text A"}'] * request.body["n"])
    go(server.url, tmp_path / "run", votes=3)
    assert {(one.p, one.weight) for one in answers(tmp_path / "run")} == {(3.5 / 4, 3.0)}
    assert len(server.made[0]["lines"]) == CALLS - 1


def test_a_budget_in_dollars_is_kept_at_the_price_of_batches(server, tmp_path):
    one = (100 * PRICE[0] + 2 * PRICE[1]) / 1e6
    _, run = go(server.url, tmp_path / "run", budget=f"${11 * one:.7f}", items=texts(12))
    assert run.progress.answered == pytest.approx(21, abs=1)
    assert run.progress.cost <= 11 * one * 1.001


def test_a_batch_that_costs_more_than_expected_drops_no_context(server, tmp_path):
    rows = [
        {"id": f"t{number}", "context_id": f"c{number // 5}", "text": f"This is number {number}. It has words."}
        for number in range(40)
    ]
    one = task(server.url, 80, items=rows)
    each = one.expense.cost / one.expense.calls / 2  # of the expected price; the server tells a higher one
    _, run = go(server.url, tmp_path / "run", budget=f"${200 * each:.7f}", items=rows)
    calls = Counter(one.question.context for one in answers(tmp_path / "run"))
    assert sum(calls.values()) < run.task.expense.calls
    assert len(calls) == 8
    assert max(calls.values()) - min(calls.values()) <= 2


def test_a_prompt_that_does_not_fit_is_failed(server):
    asked = task(server.url, window=40)
    requests = asked.judge.batches(asked.prompt).requests(asked.items.question(None, "t1", "t2"))
    assert requests.failed
    assert "window" in requests.error


@pytest.mark.parametrize("what", ["batch", "results"])
def test_a_batch_that_the_server_has_lost_can_be_given_up(server, tmp_path, what):
    server.does.looks = -1
    with pytest.raises(PendingError):
        go(server.url, tmp_path / "run", mode="submit")
    if what == "batch":
        server.batches.clear()
    else:
        server.does.looks = 0
        server.move(server.made[0])
        server.files.clear()
    with pytest.raises(JudgeError, match="batch='cancel'"):
        go(server.url, tmp_path / "run")
    with pytest.raises(PendingError, match=" 1 answers"):
        go(server.url, tmp_path / "run", mode="cancel")
    server.does.looks = 0
    go(server.url, tmp_path / "run")
    assert len(answers(tmp_path / "run")) == CALLS


def break_off(server, wanted, which):
    """Break off the requests of these numbers at a moment; returns a list of when it came."""
    moments = []

    def at(moment):
        if moment == wanted:
            moments.append(moment)
            if len(moments) in which:
                raise ConnectionAbortedError

    server.does.at = at
    return moments


@pytest.mark.parametrize("has_metadata", [True, False])  # without, the batch is found by its file
def test_the_answer_to_the_creation_may_be_lost(server, tmp_path, has_metadata):
    server.does.has_metadata = has_metadata
    moments = break_off(server, "half of POST batches", {1})
    go(server.url, tmp_path / "run")
    assert moments
    assert len(server.made) == 1
    check_whole(server, tmp_path / "run")


@pytest.mark.long
@pytest.mark.parametrize(
    ("moment", "which", "looks"), [("half of GET content", {1, 2}, 0), ("before GET batches/id", {2, 3, 4, 5}, 1)]
)
def test_a_cut_download_begins_again_and_an_outage_is_waited_for(server, tmp_path, moment, which, looks):
    server.does.looks = looks
    moments = break_off(server, moment, which)
    go(server.url, tmp_path / "run", retries=5 if looks == 0 else 1)
    assert len(moments) > max(which)
    check_whole(server, tmp_path / "run")


def test_a_repaired_folder_goes_on_with_its_batch(server, tmp_path):
    server.does.looks = -1
    with pytest.raises(PendingError):
        go(server.url, tmp_path / "run", mode="submit")
    repair(tmp_path / "run")
    server.does.looks = 0
    go(server.url, tmp_path / "run")
    check_whole(server, tmp_path / "run")
    assert len(server.made) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"until": 0.9}, "until"),
        ({"strategy": "adaptive"}, "strategy"),
        ({"goal": "top-2"}, "goals"),
        ({"wording": ["paper", "between"]}, "wording"),
        ({"out": Storage(batch="wait")}, "out="),
        ({"judge": "simulated/soft"}, "simulated/soft"),
        ({"out": Storage("run", batch="later")}, "'later' is none of wait, submit, cancel"),
    ],
)
def test_what_makes_no_sense_is_refused(server, tmp_path, options, message):
    usual = {"judge": f"openai/gpt-4o-mini; base_url={server.url}", "out": Storage(tmp_path / "run", batch="wait")}
    with pytest.raises(ValueError, match=re.escape(message)):
        comparo.rank(texts(), "better", **usual | options)
    assert server.routes == []
    assert not (tmp_path / "run").exists()


# Kills


def start(server, folder, moment=None):
    """A process that goes on with a run, and may end itself at a moment."""
    process = CONTEXT.Process(target=work, args=(server.url, folder, {"OPENAI_API_KEY": KEY}, moment))
    process.start()
    return process


def end(process):
    process.join(60)
    assert process.exitcode is not None
    return process.exitcode


STEPS = [f"{when} {name} 1" for name in ("plan", "uploaded", "sent", "seen") for when in ("before", "after")]
LATE = ["before keep 1", "after keep 1", "before keep 2", "after keep 3", "before close 1", "after close 1"]


@pytest.mark.long
def test_a_process_may_be_killed_at_every_step_in_turn(server, tmp_path):
    """Before and after everything that is stored; each start is killed one step later than the one before."""
    folder = tmp_path / "run"
    for moment in STEPS:
        assert end(start(server, folder, moment)) == -signal.SIGKILL, moment
    server.does.looks = 1
    for moment in LATE:
        assert end(start(server, folder, moment)) == -signal.SIGKILL, moment
    assert end(start(server, folder)) == 0
    assert len(server.made) == 1
    check_whole(server, folder)


MOMENTS = [
    *(f"{when} {request}" for request in ("POST files", "POST batches") for when in ("before", "after", "half of")),
    *(f"{when} {request}" for request in ("GET batches/id", "GET content") for when in ("before", "half of")),
]


@pytest.mark.long
@pytest.mark.parametrize("wanted", one_short(MOMENTS))
def test_a_process_may_be_killed_within_every_request(server, tmp_path, wanted):
    """The server kills the process while it answers, and goes on: what was asked for is done after its death."""
    processes, is_killed = [], threading.Event()

    def at(moment):
        if moment == wanted and not is_killed.is_set():
            until(lambda: processes)
            os.kill(processes[0].pid, signal.SIGKILL)
            is_killed.set()

    server.does.at = at
    processes.append(start(server, tmp_path / "run"))
    assert end(processes[0]) == -signal.SIGKILL
    assert is_killed.wait(60)
    go(server.url, tmp_path / "run", pauses=replace(QUICK, settle=1.0))
    assert len(server.made) == 1
    check_whole(server, tmp_path / "run")


# The command line


def command(server, *flags, batch=("--batch", "wait")):
    judge = ["--judge", "openai/gpt-4o-mini", "--base-url", server.url, "--option", "retries=1"]
    return ["rank", "texts.jsonl", "--criterion", "better", *judge, "--budget", CALLS, *batch, *flags]


@pytest.fixture
def folder(tmp_path):
    lines = (json.dumps({"id": name, "text": text}) + "\n" for name, text in texts().items())
    (tmp_path / "texts.jsonl").write_text("".join(lines), encoding="utf-8")
    return tmp_path


def test_the_command_submits_tells_and_collects(server, folder, run):
    server.does.looks = -1
    shown = run(folder, command(server, "--dry-run"), OPENAI_API_KEY=KEY)
    assert "50%" in shown.stdout
    whole = run(folder, command(server, "--dry-run", batch=()), OPENAI_API_KEY=KEY)
    price, ordinary = (float(re.search(r"at most \$([\d.]+)", text)[1]) for text in (shown.stdout, whole.stdout))
    assert price == pytest.approx(ordinary / 2, rel=0.1)
    sent = run(folder, command(server, batch=("--batch", "submit")), OPENAI_API_KEY=KEY)
    assert (sent.returncode, sent.stdout) == (0, "")
    assert "batch_1 of 39" in sent.stderr
    assert "0 of 39" in sent.stderr
    listed = run(folder, ["runs", "--format", "csv"])
    assert "0 of 39" in listed.stdout
    refused = run(folder, command(server, batch=()), OPENAI_API_KEY=KEY)
    assert refused.returncode == 1
    assert "39 questions" in refused.stderr
    server.does.looks = 0
    done = run(folder, command(server), OPENAI_API_KEY=KEY)
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()[1:4]] == ["t7", "t6", "t5"]
    [out] = (folder / "comparo-runs").glob("*-texts")
    check_whole(server, out)
    assert (out / "report.html").exists()
    assert run(folder, ["fit", out]).returncode == 0
    assert "batch" not in run(folder, ["runs"]).stdout.splitlines()[1]


@pytest.mark.long
def test_an_interrupted_command_says_how_to_come_back(server, folder):
    server.does.looks = -1
    variables = {**os.environ, "OPENAI_API_KEY": KEY}
    arguments = [sys.executable, "-m", "comparo.cli", *map(str, command(server))]
    process = Forked(arguments, env=variables, cwd=folder, stderr=subprocess.PIPE)
    until(lambda: server.routes.count("GET /batches/batch_1") > 1)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate()
    assert process.returncode == 130
    assert "0 of 39" in said
    server.does.looks = 0
    again = Forked(arguments, env=variables, cwd=folder, stderr=subprocess.PIPE)
    _, said = again.communicate()
    assert again.returncode == 0, said
    [out] = (folder / "comparo-runs").glob("*-texts")
    check_whole(server, out)


def test_flags_that_do_not_fit_are_refused(server, folder, run):
    found = run(folder, command(server, "--until", "0.9"), OPENAI_API_KEY=KEY)
    assert found.returncode == 2
    assert "--until" in found.stderr
    assert server.routes == []


def until(condition):
    end_of_patience = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end_of_patience
        time.sleep(0.01)
