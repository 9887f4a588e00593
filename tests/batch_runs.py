"""Runs by batches, in this process or in one that ends itself at a given moment."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import comparo.run.batch_transport as courier
from comparo import Items, Judgement, Ranking, load_judge
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
