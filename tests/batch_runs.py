"""Runs by batches, in this process or in one that ends itself, and kinds of results that a server may give of a batch.

Each kind changes the results of the first batch only. The run either ends with all answers, or stops with a message;
then `--batch cancel` and the same run again must end it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import comparo.run.batch_transport as courier
from batch_server import BatchServer
from claude import ClaudeBatchServer
from comparo import Items, JudgeError, Judgement, Ranking, RunError, load_judge
from comparo.log.questions import BatchStore
from inside import (
    DEFAULT_WORDING,
    BatchRun,
    Budget,
    Pauses,
    Store,
    Task,
    check_batch,
    criterion_prompt,
    key_of,
    read_judgements,
)

QUICK = Pauses(first=0.01, longest=0.02, settle=0.1, full=0.01)
SIZE, CALLS = 8, 40


def texts(size: int = SIZE) -> dict[str, str]:
    return {f"t{number}": f"This is number {number}. It has words." for number in range(size)}


def task(
    url: str,
    budget: str | int = CALLS,
    items: Any = None,
    judge: str = "openai/gpt-4o-mini",
    lineup: int = 2,
    **options: Any,
) -> Task:
    asked = load_judge(judge, base_url=url, **{"retries": 1} | options)
    prompt = criterion_prompt("better", wording=DEFAULT_WORDING).resized(lineup)
    return Task(Items.of(items or texts()), prompt, asked, Budget.of(budget))


def go(url: str, folder: Path, mode: Any = "wait", pauses: Pauses = QUICK, **options: Any) -> tuple[Ranking, BatchRun]:
    """The ranking by a run of batches, and the run."""
    made = check_batch(task(url, **options), has_folder=True)
    store = Store(folder, made.identity, made.configuration)
    try:
        store.add_items(made.items)
        run = BatchRun(made, store, mode=mode, pauses=pauses)
        return run.finish(), run
    finally:
        store.close()


def answers(folder: Path) -> list[Judgement]:
    return [one for one in read_judgements(folder) if not one.failed]


def check_whole(server: Any, folder: Path, calls: int = CALLS, votes: int = 1) -> None:
    """Every question of the budget has one answer, and the server was asked each of them once for each vote."""
    found = answers(folder)
    assert len(found) == calls == len({key_of(one.question) for one in found})
    assert len(server.asked) == calls
    assert set(server.asked.values()) == {votes}


def work(url: str, folder: Path, variables: dict[str, str], moment: str | None = None, **options: Any) -> None:
    """A run in a process of its own that kills itself at a moment: before or after a step is stored, the n-th time."""
    os.environ |= variables
    courier.CHUNK = 7
    if moment is not None:
        when, name, number = moment.split()
        method = "update" if name in ("uploaded", "sent", "close") else name  # else the status that is stored
        step, calls = getattr(BatchStore, method), []

        def stored(*arguments: Any, **values: Any) -> Any:
            if method == name or ("closed" in values if name == "close" else values.get("status") == name):
                calls.append(name)
            is_due = len(calls) == int(number)
            if when == "before" and is_due:
                os.kill(os.getpid(), signal.SIGKILL)
            made = step(*arguments, **values)
            if when == "after" and is_due:
                os.kill(os.getpid(), signal.SIGKILL)
            return made

        setattr(BatchStore, method, stored)
    go(url, folder, **options)


Lines = list[Any]


@dataclass(frozen=True)
class Endpoint:
    """An API of batches: its server, the judge that it is, and where that judge finds its key."""

    server: Callable[[], BatchServer]
    variable: str
    download: str  # the moment at which results are sent
    options: dict[str, Any] = field(default_factory=dict)


ENDPOINTS = {
    "openai": Endpoint(BatchServer, "OPENAI_API_KEY", "GET content", {"judge": "openai/gpt-4o-mini"}),
    "anthropic": Endpoint(
        ClaudeBatchServer,
        "ANTHROPIC_API_KEY",
        "GET results",
        {"judge": "anthropic/claude-haiku-5-5", "effort": "none"},
    ),
}

LINED_UP = {
    f"{name}, line-ups of {lineup}": replace(ENDPOINTS[name], options=ENDPOINTS[name].options | {"lineup": lineup})
    for name, lineup in (("openai", 4), ("anthropic", 3))
}


@dataclass(frozen=True)
class Kind:
    """How results differ from what they should be; `stops`: what was paid is not there, so the user is asked."""

    lines: Callable[[Lines], Lines] = lambda lines: lines
    counts: Callable[[Any], Any] = lambda counts: counts
    outcome: Callable[[int], Any] = lambda _: "ok"
    stops: bool = False


def _renamed(line: Any, name: str) -> Any:
    return {**line, "custom_id": name}


def _failed(line: Any) -> Any:
    """The line with an error of the server in place of its answer."""
    error = {"code": "server_error", "message": "oops", "type": "api_error"}
    result = {"type": "errored", "error": {"type": "error", "error": error}}
    return {"custom_id": line["custom_id"], "response": None, "error": error, "result": result}


def _next(lines: Lines) -> Lines:
    """Each line with the answer to another one."""
    ids = [line["custom_id"] for line in lines]
    return [_renamed(line, id_) for line, id_ in zip(lines, [*ids[1:], ids[0]], strict=True)]


def _bare(line: Any) -> Any:
    """A line that holds neither an answer nor an error."""
    return {"custom_id": line["custom_id"], "response": None, "error": None, "result": {"type": "unheard"}}


def _uncounted(counts: Any) -> Any:
    return dict.fromkeys(counts, 0)


KINDS = {
    "in order": Kind(lambda lines: lines[::-1]),
    "every line twice": Kind(lambda lines: lines + lines),
    "an error before every answer": Kind(lambda lines: [each for line in lines for each in (_failed(line), line)]),
    "an error after every answer": Kind(lambda lines: lines + [_failed(line) for line in lines]),
    "empty lines between": Kind(lambda lines: [each for line in lines for each in (b"", line)]),
    "lines of another batch among them": Kind(lambda lines: [_renamed(lines[0], "0" * 16 + "-1-0"), *lines]),
    "ids that were never sent": Kind(lambda lines: [*lines, _renamed(lines[0], "7"), _renamed(lines[0], "")]),
    "numbers that were never sent": Kind(
        lambda lines: [*lines, _renamed(lines[0], lines[0]["custom_id"].rsplit("-", 2)[0] + "-99999-0")]
    ),
    "no counts": Kind(counts=lambda _: None),
    "counts of zero": Kind(counts=_uncounted),
    "counts that are no numbers": Kind(counts=lambda counts: dict.fromkeys(counts, "many")),
    "a line not done, and not counted": Kind(outcome=lambda line: "missing" if line == 3 else "ok"),
    "lines that expired": Kind(outcome=lambda line: "expired" if line % 3 else "ok"),
    "no lines": Kind(lambda _: [], stops=True),
    "no lines and counts of zero": Kind(lambda _: [], _uncounted, stops=True),
    "no lines and no counts": Kind(lambda _: [], lambda _: None, stops=True),
    "an empty file": Kind(lambda _: [b""], stops=True),
    "a counted line is missing": Kind(lambda lines: lines[1:], stops=True),
    "a line is cut": Kind(lambda lines: [b'{"custom_id": "', *lines[1:]], stops=True),
    "a line is a list": Kind(lambda lines: [[1], *lines[1:]], stops=True),
    "a line holds nothing": Kind(lambda lines: [_bare(lines[0]), *lines[1:]], stops=True),
    "bytes that are no text": Kind(lambda _: [bytes(range(256)) * 9], stops=True),
    "two answers to one request": Kind(lambda lines: [*lines, _renamed(lines[0], lines[-1]["custom_id"])]),
    "two answers to every request": Kind(lambda lines: lines + _next(lines)),
}


@dataclass(frozen=True)
class Outcome:
    """What became of a run: how it ended, how many answers were lost, and how many paid twice without a word."""

    said: str | None
    kept: int  # answers that were stored before the user was asked
    again: int  # questions that were paid twice before the user was asked
    lost: int  # answers that are not there in the end
    doubled: int  # answers that are there twice


def meet(endpoint: Endpoint, kind: Kind, folder: Path) -> Outcome:
    """Let a run meet a kind of results; where it asks the user, give the batch up and run it again."""
    with endpoint.server() as server:
        server.does.lines = lambda batch, lines: lines if batch else kind.lines(lines)
        server.does.counts = lambda batch, counts: counts if batch else kind.counts(counts)
        server.does.outcome = lambda batch, line: "ok" if batch else kind.outcome(line)
        said = None
        try:
            go(server.url, folder, **endpoint.options)
        except (JudgeError, RunError) as problem:
            said = str(problem)
        again = sum(count - 1 for count in server.asked.values())
        kept = len(answers(folder))
        if said is not None:
            try:
                go(server.url, folder, mode="cancel", **endpoint.options)
            except RunError:  # which says what is kept
                go(server.url, folder, **endpoint.options)
        found = [key_of(one.question) for one in answers(folder)]
    return Outcome(said, kept, again, CALLS - len({*found}), len(found) - len({*found}))
