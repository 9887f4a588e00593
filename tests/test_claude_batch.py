"""Runs by Anthropic's Message Batches, against a server on loopback that behaves as the API's reference says."""

import os
import signal
import sqlite3
import threading

import pytest

import comparo
from batch_runs import CALLS, answers, check_whole, go, task, texts, work
from claude import message, refused
from claude_batches import ClaudeBatchServer
from comparo.errors import JudgeError, PendingError
from comparo.run.batch import check_batch
from comparo.run.store import read_judgements
from processes import CONTEXT
from split import one_short

KEY = "sk-ant-test-0123456789abcdefghijklmnop"
CLAUDE = {"judge": "anthropic/claude-haiku-5-5", "effort": "none"}


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.delenv("ANTHROPIC_BASE_URL", raising=False)


@pytest.fixture
def server():
    with ClaudeBatchServer() as made:
        yield made


def test_a_run_by_message_batches(server, tmp_path):
    ranking, run = go(server.url, tmp_path / "run", **CLAUDE)
    check_whole(server, tmp_path / "run")
    order = ranking.to_columns()["item"].tolist()
    assert {*order[:3]} >= {"t7", "t6"}
    assert len(server.versions) == 1
    assert None not in server.versions
    [batch] = server.made
    sent = batch["lines"][0]["params"]
    assert sent == {**server.direct[0], "messages": sent["messages"]}
    price = task(server.url, **CLAUDE).judge.price
    one = (100 * price.read + 8 * price.written) / 1e6
    assert run.progress.cost == pytest.approx(one * (1 + (CALLS - 1) / 2))
    half = check_batch(task(server.url, **CLAUDE), has_folder=True)
    assert half.expense().cost == pytest.approx(task(server.url, **CLAUDE).expense().cost / 2)


def test_votes_are_one_request_each(server, tmp_path):
    go(server.url, tmp_path / "run", votes=3, **CLAUDE)
    check_whole(server, tmp_path / "run", votes=3)
    assert len(server.made[0]["lines"]) == 3 * (CALLS - 1)
    assert {one.weight for one in answers(tmp_path / "run")} == {3.0}


def test_a_batch_is_collected_later(server, tmp_path):
    server.does.looks = -1
    options = {"judge": "anthropic/claude-haiku-5-5", "options": {"base_url": server.url, "effort": "none"}}
    options |= {"budget": CALLS, "out": tmp_path / "run"}
    with pytest.raises(PendingError, match="in progress, 0 of 39 done"):
        comparo.rank(texts(), "better", batch="submit", **options)
    server.does.looks = 0
    comparo.rank(texts(), "better", batch=True, **options)
    assert len(server.made) == 1
    check_whole(server, tmp_path / "run")


def test_results_of_every_kind(server, tmp_path):
    outcomes = {
        1: "expired",
        2: refused(400, "invalid_request_error", "too bad"),
        3: refused(500, "api_error", "oops"),
        4: "missing",
        5: "twice",
        6: message("It depends."),
    }
    server.does.outcome = lambda batch, line: outcomes.get(line, "ok") if batch == 0 else "ok"
    _, run = go(server.url, tmp_path / "run", **CLAUDE)
    assert (run.progress.answered, run.progress.failed) == (CALLS - 2, 2)
    assert [len(batch["lines"]) for batch in server.made] == [39, 3]
    errors = sorted(one.error for one in read_judgements(tmp_path / "run") if one.failed)
    assert len(errors) == 5
    for said in ("unanswered in the batch: it expired", "too bad", "api_error: oops", "no line about it", "It depends"):
        assert any(said in error for error in errors), said


def test_a_cancelled_batch_keeps_what_was_answered(server, tmp_path):
    server.does.looks = -1
    with pytest.raises(PendingError):
        go(server.url, tmp_path / "run", mode="submit", **CLAUDE)
    with pytest.raises(PendingError, match="Cancelled: 21 answers are kept"):
        go(server.url, tmp_path / "run", mode="cancel", **CLAUDE)
    server.does.looks = 0
    go(server.url, tmp_path / "run", **CLAUDE)
    check_whole(server, tmp_path / "run")


def test_a_wrong_key_is_told(server, tmp_path):
    server.does.key = "sk-other"
    with pytest.raises(JudgeError, match="refused the key"):
        go(server.url, tmp_path / "run", **CLAUDE)
    assert server.made == []


def unconfirmed(folder):
    """As if the process had been killed before the id of the batch was stored."""
    with sqlite3.connect(folder / "judgements.db") as connection:
        connection.execute("UPDATE batches SET id = NULL, status = 'sent'")


@pytest.mark.parametrize("looks", [-1, 0])
def test_of_two_batches_alike_each_run_finds_its_own(server, tmp_path, looks):
    """Both have as many requests and nearly the same time; only their results tell whose they are."""
    server.does.looks = -1
    for name in ("one", "two"):
        with pytest.raises(PendingError):
            go(server.url, tmp_path / name, mode="submit", **CLAUDE)
        unconfirmed(tmp_path / name)
    server.does.looks = 0
    if looks == 0:  # both have ended before they are looked for
        for batch in server.made:
            server.move(batch)
    for name in ("one", "two"):
        go(server.url, tmp_path / name, **CLAUDE)
        assert len(answers(tmp_path / name)) == CALLS
    assert len(server.made) == 2


def test_a_batch_that_was_never_created_is_made_again(server, tmp_path):
    lost = []

    def at(moment):
        if moment == "before POST batches" and not lost:
            lost.append(moment)
            raise ConnectionAbortedError

    server.does.at = at
    go(server.url, tmp_path / "run", **CLAUDE)
    assert len(server.made) == 1
    check_whole(server, tmp_path / "run")


@pytest.mark.long
@pytest.mark.parametrize("wanted", one_short(["after GET results", "before POST batches"]))
def test_a_process_may_be_killed_within_every_request(server, tmp_path, wanted):
    processes, is_killed, is_there = [], threading.Event(), threading.Event()

    def at(moment):
        if moment == wanted and not is_killed.is_set():
            assert is_there.wait(60)
            os.kill(processes[0].pid, signal.SIGKILL)
            is_killed.set()

    server.does.at = at
    arguments = (server.url, tmp_path / "run", {"ANTHROPIC_API_KEY": KEY})
    processes.append(CONTEXT.Process(target=work, args=arguments, kwargs=CLAUDE))
    processes[0].start()
    is_there.set()
    processes[0].join(60)
    assert processes[0].exitcode == -signal.SIGKILL
    assert is_killed.wait(60)
    go(server.url, tmp_path / "run", **CLAUDE)
    assert len(server.made) == 1
    check_whole(server, tmp_path / "run")
