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
from batch_server import EXPIRED, BatchServer
from comparo import JudgeError, PendingError, RunError, StoreError
from inside import Storage, key_of, read_judgements, repair
from processes import CONTEXT, Forked
from servers import refusal, tokens, words
from split import one_short

KEY = "sk-test-0123456789abcdefghijklmnopqrstuvwxyz"
PRICE = (0.15, 0.60)


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


@pytest.fixture
def server():
    with BatchServer() as made:
        yield made


@pytest.fixture(autouse=True)
def _where_the_cache_is(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)


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
    options = {
        "judge": f"openai/gpt-4o-mini; base_url={server.url}",
        "budget": CALLS,
        "out": tmp_path / "run",
    }
    with pytest.raises(PendingError):
        comparo.rank(texts(), "better", **options | {"out": Storage(tmp_path / "run", batch="submit")})
    with pytest.raises(StoreError, match=r"39 questions .*add batch='wait'"):
        comparo.rank(texts(), "better", **options)
    server.does.looks = 0
    comparo.rank(texts(), "better", **options | {"out": Storage(tmp_path / "run", batch="wait")})
    comparo.rank(texts(), "better", **options)
    check_whole(server, tmp_path / "run")


def test_a_larger_budget_asks_only_the_rest(server, tmp_path):
    go(server.url, tmp_path / "run", budget=20)
    go(server.url, tmp_path / "run", budget=50)
    check_whole(server, tmp_path / "run", 50)
    assert [len(batch["lines"]) for batch in server.made] == [19, 29]


def test_answers_of_batches_count_in_a_run_of_single_calls(server, tmp_path):
    go(server.url, tmp_path / "run", budget=30)
    options = {"judge": f"openai/gpt-4o-mini; base_url={server.url}", "out": tmp_path / "run"}
    comparo.rank(texts(), "better", budget=50, **options)
    check_whole(server, tmp_path / "run", 50)


def test_single_calls_are_gone_on_with_by_a_batch(server, tmp_path):
    options = {"judge": f"openai/gpt-4o-mini; base_url={server.url}", "out": tmp_path / "run"}
    comparo.rank(texts(), "better", budget=20, **options)
    go(server.url, tmp_path / "run", budget=50)
    check_whole(server, tmp_path / "run", 50)


def test_answers_of_a_batch_go_to_the_cache_and_come_from_there(server, tmp_path):
    options = {"judge": f"openai/gpt-4o-mini; base_url={server.url}", "cache": tmp_path / "cache.sqlite"}
    comparo.rank(texts(), "better", budget=30, out=Storage(tmp_path / "one", batch="wait"), **options)
    comparo.rank(texts(), "better", budget=50, out=Storage(tmp_path / "two", batch="wait"), **options)
    assert len(answers(tmp_path / "two")) == 50
    assert sum(one.cached for one in answers(tmp_path / "two")) == 30
    assert [len(batch["lines"]) for batch in server.made] == [29, 19]
    comparo.rank(texts(), "better", budget=50, out=tmp_path / "three", **options)  # directly, with the same cache
    comparo.rank(texts(), "better", budget=50, out=Storage(tmp_path / "four", batch="wait"), **options)
    assert len(server.made) == 2
    assert all(one.cached for one in answers(tmp_path / "four"))
    assert max(server.asked.values()) == 1


def test_lines_that_expire_are_asked_again(server, tmp_path):
    server.does.outcome = lambda batch, line: "expired" if batch == 0 and line % 3 else "ok"
    go(server.url, tmp_path / "run")
    check_whole(server, tmp_path / "run")
    assert [len(batch["lines"]) for batch in server.made] == [39, 26]
    failed = [one for one in read_judgements(tmp_path / "run") if one.failed]
    assert len(failed) == 26
    assert all(one.error.endswith(f": batch_expired: {EXPIRED['message']}") for one in failed)


def test_lines_that_failed_have_their_reason(server, tmp_path):
    outcomes = {4: refusal(400, "flagged by the policy"), 5: words("It depends."), 6: refusal(500, "oops")}
    server.does.outcome = lambda batch, line: outcomes.get(line, "ok") if batch == 0 else "ok"
    _, run = go(server.url, tmp_path / "run")
    assert (run.progress.answered, run.progress.failed) == (CALLS - 2, 2)
    assert [len(batch["lines"]) for batch in server.made] == [39, 1]  # only the server's fault is worth another try
    errors = " | ".join(one.error for one in read_judgements(tmp_path / "run") if one.failed)
    assert "flagged by the policy" in errors
    assert "'It depends.'" in errors
    assert "oops" in errors
    comparo.rank(
        texts(),
        "better",
        judge=f"openai/gpt-4o-mini; base_url={server.url}",
        budget=CALLS,
        out=tmp_path / "run",
    )
    assert len(answers(tmp_path / "run")) == CALLS  # without --batch they are asked once more


def test_a_batch_that_is_refused_is_not_repeated(server, tmp_path):
    server.does.refuse = lambda _: [{"code": "invalid_url", "message": "The URL is wrong.", "line": 1}]
    with pytest.raises(RunError, match=r"nothing was asked: invalid_url: .* \(line 1\)"):
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
    assert any("goes in parts of" in sentence for sentence in caplog.messages)


def test_a_full_queue_is_waited_for(server, tmp_path):
    limits = iter([0, 0, 0])
    server.does.refuse = lambda lines: full(next(limits, 99))(lines)
    go(server.url, tmp_path / "run", pauses=replace(QUICK, full=0.2))
    check_whole(server, tmp_path / "run")
    sizes = [len(batch["lines"]) for batch in server.made]
    assert sizes[:4] == [39, 19, 9, 4]
    assert sum(sizes[3:]) == 39


def test_large_runs_are_split(server, tmp_path, monkeypatch):
    monkeypatch.setattr("comparo.judges.batch_endpoints.OpenAIBatches.most_lines", 15)
    go(server.url, tmp_path / "run")
    check_whole(server, tmp_path / "run")
    assert [len(batch["lines"]) for batch in server.made] == [15, 15, 9]


def test_large_files_are_split(server, tmp_path, monkeypatch):
    monkeypatch.setattr("comparo.judges.batch_endpoints.OpenAIBatches.most_bytes", 5000)
    go(server.url, tmp_path / "run")
    check_whole(server, tmp_path / "run")
    assert len(server.made) > 2
    assert max(file["bytes"] for file in server.files.values() if "bytes" in file) <= 5000


def test_a_wrong_key_costs_nothing(server, tmp_path):
    server.does.key = "sk-other"
    with pytest.raises(JudgeError, match="refused the key"):
        go(server.url, tmp_path / "run")
    assert server.made == []
    server.does.key = KEY
    server.does.looks = -1
    with pytest.raises(PendingError):
        go(server.url, tmp_path / "run", mode="submit")
    server.does.key = "sk-other"
    with pytest.raises(JudgeError, match="refused the key"):
        go(server.url, tmp_path / "run")


def test_a_server_without_batches_is_told_apart(server, tmp_path):
    server.does.has_batches = False
    with pytest.raises(JudgeError, match=r"no batches.*leave batch out"):
        go(server.url, tmp_path / "run")


def test_a_judge_that_does_not_use_the_labels_is_noticed_before_the_batch(server, tmp_path):
    server.does.answer = lambda _: tokens({"A": 0.06, "B": 0.04, "The": 0.9})
    with pytest.raises(RunError, match=r"10\.0% .*on the labels"):
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


@pytest.mark.parametrize("takes_n", [True, False])
def test_votes_are_one_line_or_one_each(server, tmp_path, takes_n):
    def answer(request):
        number = request.body.get("n", 1) if takes_n else 1
        return words(*['{"better": "Text A"}'] * number)

    server.does.answer = answer
    go(server.url, tmp_path / "run", votes=3)
    found = answers(tmp_path / "run")
    assert len(found) == CALLS
    assert {(one.p, one.weight) for one in found} == {(3.5 / 4, 3.0)}
    assert len(server.made[0]["lines"]) == (CALLS - 1) * (1 if takes_n else 3)


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
    assert "does not hold the question" in requests.error


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
    with pytest.raises(JudgeError, match=r"lost the batch.*batch='cancel'"):
        go(server.url, tmp_path / "run")
    with pytest.raises(PendingError, match="Cancelled: 1 answers are kept"):
        go(server.url, tmp_path / "run", mode="cancel")
    server.does.looks = 0
    go(server.url, tmp_path / "run")
    assert len(answers(tmp_path / "run")) == CALLS


def test_the_answer_to_the_creation_may_be_lost(server, tmp_path):
    """The batch is found by its metadata, and not made again."""
    lost = []

    def at(moment):
        if moment == "half of POST batches" and not lost:
            lost.append(moment)
            raise ConnectionAbortedError

    server.does.at = at
    go(server.url, tmp_path / "run")
    assert lost
    assert len(server.made) == 1
    check_whole(server, tmp_path / "run")


def test_a_batch_is_found_by_its_file_where_there_are_no_metadata(server, tmp_path):
    server.does.has_metadata = False
    test_the_answer_to_the_creation_may_be_lost(server, tmp_path)


@pytest.mark.long
def test_a_cut_download_begins_again(server, tmp_path):
    cuts = []

    def at(moment):
        if moment == "half of GET content" and len(cuts) < 2:
            cuts.append(moment)
            raise ConnectionAbortedError

    server.does.at = at
    go(server.url, tmp_path / "run", retries=5)
    assert len(cuts) == 2
    check_whole(server, tmp_path / "run")


@pytest.mark.long
def test_an_outage_while_waiting_is_waited_for(server, tmp_path):
    looks = []

    def at(moment):
        if moment == "before GET batches/id":
            looks.append(moment)
            if 2 <= len(looks) < 6:
                raise ConnectionAbortedError

    server.does.at, server.does.looks = at, 1
    go(server.url, tmp_path / "run")
    assert len(looks) >= 6
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
        ({"until": 0.9}, "`until`, an adaptive"),
        ({"strategy": "adaptive"}, "adaptive `strategy`"),
        ({"goal": "top-2"}, "goals other than ranking"),
        ({"wording": ["paper", "between"]}, "one judge and one wording"),
        ({"out": Storage(batch="wait")}, "give out='FOLDER'"),
        ({"judge": "simulated/soft"}, "simulated/soft takes no batches"),
        ({"out": Storage("run", batch="later")}, "'wait', 'submit', 'cancel', not 'later'"),
    ],
)
def test_what_makes_no_sense_is_refused(server, tmp_path, options, message):
    usual = {"judge": f"openai/gpt-4o-mini; base_url={server.url}", "out": Storage(tmp_path / "run", batch="wait")}
    with pytest.raises(ValueError, match=re.escape(message)):
        comparo.rank(texts(), "better", **usual | options)
    assert server.routes == []
    assert not (tmp_path / "run").exists()


# Kills


def start(server, folder, moment=None, **options):
    """A process that goes on with a run, and how it ended."""
    variables = {"OPENAI_API_KEY": KEY}
    process = CONTEXT.Process(target=work, args=(server.url, folder, variables, moment), kwargs=options)
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
    assert "50% of that for a batch" in shown.stdout
    whole = run(folder, command(server, "--dry-run", batch=()), OPENAI_API_KEY=KEY)
    price, ordinary = (float(re.search(r"at most \$([\d.]+)", text)[1]) for text in (shown.stdout, whole.stdout))
    assert price == pytest.approx(ordinary / 2, rel=0.1)
    sent = run(folder, command(server, batch=("--batch", "submit")), OPENAI_API_KEY=KEY)
    assert (sent.returncode, sent.stdout) == (0, "")
    assert "Batch batch_1 of 39 questions" in sent.stderr
    assert "(in progress, 0 of 39 done)" in sent.stderr
    assert "run the same command again" in sent.stderr
    listed = run(folder, ["runs", "--format", "csv"])
    assert "in progress, 0 of 39 done" in listed.stdout
    refused = run(folder, command(server, batch=()), OPENAI_API_KEY=KEY)
    assert refused.returncode == 1
    assert "a batch of 39 questions" in refused.stderr
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
    assert "(in progress, 0 of 39 done)" in said
    assert "the same command collects" in said
    server.does.looks = 0
    again = Forked(arguments, env=variables, cwd=folder, stderr=subprocess.PIPE)
    _, said = again.communicate()
    assert again.returncode == 0, said
    [out] = (folder / "comparo-runs").glob("*-texts")
    check_whole(server, out)


def test_flags_that_do_not_fit_are_refused(server, folder, run):
    found = run(folder, command(server, "--until", "0.9"), OPENAI_API_KEY=KEY)
    assert found.returncode == 2
    assert "go by answers: leave them out" in " ".join(found.stderr.split())
    assert server.routes == []


def until(condition):
    end_of_patience = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end_of_patience
        time.sleep(0.01)
