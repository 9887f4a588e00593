"""Batches of questions, in a run folder and at a server: each step is stored before the request that depends on it.

    planned     the questions of the batch and its name are stored; nothing was requested
    uploaded    the server's id of the file is stored; nothing can have been created
    sent        the time is stored, then the creation is requested: from here on a batch may exist
    created     the server's id of the batch is stored
    closed      the judgements of all its questions are stored

A batch that was sent and whose id is not stored is looked for at the server before its questions are asked in another.
"""

from __future__ import annotations

import os
import re
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from comparo.data.prompts import Question
from comparo.data.run_folder import decode, encode
from comparo.errors import JudgeError, StoreError
from comparo.judges import Judgement
from comparo.judges.batch_endpoints import Batches
from comparo.judges.batches import Line, LostError, State
from comparo.run.database import insert
from comparo.run.files import OWNER, explained
from comparo.run.store import Store

COLUMNS = "number, name, lines, file, sent, id, status, done, others"
UNANSWERED = "unanswered in the batch: "  # begins the error of a question that can be asked again in another batch
CREATIONS = 3  # requests for a batch that end without an answer, before it is given up
CHUNK = 200  # judgements that are stored at once
DOWNLOADS = 3  # of results that contradict the server's own count, before the user is asked
EXPIRED = "expired"  # status of a batch that was not answered in time
CANCELLED = ("cancelled", "canceled")  # statuses of a batch that was ended early
PASSING = (408, 409, 429)  # statuses of a line, besides those of 500 and more, that another try may not have


@dataclass(frozen=True)
class Pauses:
    """Seconds between the first two looks at a batch (`first`), between later ones at most (`longest`), until a batch
    that was requested is in the server's list (`settle`), and before a server that was full is tried again (`full`).
    """

    first: float = 2.0
    longest: float = 60.0
    settle: float = 30.0
    full: float = 300.0


@dataclass(frozen=True)
class Batch:
    """A batch that is not closed, and of each of its questions without a judgement how many lines it has."""

    number: int
    name: str
    lines: int
    file: str
    sent: float | None
    id: str | None
    status: str
    done: int
    others: tuple[str, ...]
    questions: Mapping[int, tuple[Question, int]]

    @property
    def how_far(self) -> str:
        return how_far(self.status, self.lines, self.done)


def how_far(status: str, lines: int, done: int) -> str:
    """How far a server is with a batch, in words."""
    return f"{status.replace('_', ' ')}, {done:,} of {lines:,} done"


class BatchStore:
    """The batches of a run folder.

    >>> batches = BatchStore(Store(None, {}))
    >>> made = batches.plan("f00d", [(Question("ana", "bo"), 1)])
    >>> [batch.how_far for batch in batches.open()]
    ['planned, 0 of 1 done']
    >>> batches.keep(made, [(0, Judgement(Question("ana", "bo"), p=0.7))])
    [Judgement(question=Question(first='ana', second='bo', ...
    >>> _ = batches.update(made, closed="2026-03-01", status="completed")
    >>> batches.open()
    []
    """

    def __init__(self, store: Store) -> None:
        self.store = store

    def open(self) -> list[Batch]:
        """The batches that are not closed."""
        with self.store.transaction() as connection:
            rows = connection.execute(f"SELECT {COLUMNS} FROM batches WHERE closed IS NULL ORDER BY number").fetchall()
            return [
                Batch(*row[:-1], tuple(row[-1].split()), _asked(connection, row[0]))  # type: ignore[call-arg]
                for row in rows
            ]

    def plan(self, name: str, questions: Sequence[tuple[Question, int]]) -> Batch:
        """Store a batch of questions, each with the number of its lines."""
        lines = sum(number for _, number in questions)
        with self.store.transaction() as connection:
            made = connection.execute("INSERT INTO batches (name, lines) VALUES (?, ?)", (name, lines)).lastrowid
            connection.executemany(
                "INSERT INTO batch_questions (batch, number, lines, context, first, second) VALUES (?, ?, ?, ?, ?, ?)",
                (
                    (made, number, own, encode(one.context), encode(one.first), encode(one.second))
                    for number, (one, own) in enumerate(questions)
                ),
            )
        self.store.flush()
        return Batch(made or 0, name, lines, "", None, None, "planned", 0, (), dict(enumerate(questions)))

    def update(self, batch: Batch, **values: Any) -> Batch:
        """Store new values of a batch, which is on the disk when this returns."""
        stored = {name: " ".join(value) if name == "others" else value for name, value in values.items()}
        names = ", ".join(f"{name} = ?" for name in stored)
        with self.store.transaction() as connection:
            connection.execute(f"UPDATE batches SET {names} WHERE number = ?", (*stored.values(), batch.number))
        self.store.flush()
        return replace(batch, **{name: value for name, value in values.items() if hasattr(batch, name)})

    def seen(self, batch: Batch, state: State) -> Batch:
        """Store the server's id of the batch, and how far it is."""
        return self.update(batch, id=state.id, status=state.status, done=state.done, seen=_now())

    def keep(self, batch: Batch, judgements: Iterable[tuple[int, Judgement]]) -> list[Judgement]:
        """Store the judgements of some questions of a batch, and that they are judged, in one piece."""
        kept: list[Judgement] = []
        with self.store.transaction() as connection:
            for number, judgement in judgements:
                kept += filter(None, [insert(connection, judgement)])
                connection.execute(
                    "UPDATE batch_questions SET is_judged = 1 WHERE batch = ? AND number = ?", (batch.number, number)
                )
        return kept

    def drop(self, batch: Batch) -> None:
        """Forget a batch of which the server has nothing, or which it refused."""
        with self.store.transaction() as connection:
            connection.execute("DELETE FROM batch_questions WHERE batch = ?", (batch.number,))
            connection.execute("DELETE FROM batches WHERE number = ?", (batch.number,))
        self.store.flush()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _asked(connection: sqlite3.Connection, batch: int) -> dict[int, tuple[Question, int]]:
    """The questions of a batch that are not judged, without their texts."""
    rows = connection.execute(
        "SELECT number, lines, context, first, second FROM batch_questions WHERE batch = ? AND NOT is_judged", (batch,)
    )
    return {
        number: (Question(decode(first), decode(second), decode(context)), lines)
        for number, lines, context, first, second in rows
    }


def had_batches(store: Store) -> bool:
    """Whether some answers of a run came by batches."""
    with store.transaction() as connection:
        return connection.execute("SELECT 1 FROM batches LIMIT 1").fetchone() is not None


def check_no_batch(store: Store) -> None:
    """Raise a StoreError where a run waits for a batch, whose questions would be asked twice."""
    waiting = [batch for batch in BatchStore(store).open() if batch.sent is not None]
    if waiting:
        lines = sum(batch.lines for batch in waiting)
        raise StoreError(
            f"{store.folder} waits for a batch of {lines:,} questions at the server; add batch='wait' to go on "
            "with it, or batch='cancel' to end it early"
        )


class StrangerError(Exception):
    """A batch that was taken for ours, and whose results are of another one."""


@dataclass(frozen=True)
class Results:
    """The judgements of a batch by number, the numbers `left`, and counts of `missing` lines and `disputed` answers."""

    judged: list[tuple[int, Judgement]]
    left: list[int]
    missing: int
    disputed: int


class Courier:
    """Packs questions into batches, takes them to the server and brings judgements back.

    `texts` gives a question of the folder its texts. A process may end within any of the functions: `resume` of the
    next one goes on.
    """

    def __init__(self, store: Store, server: Batches, texts: Callable[[Question], Question], pauses: Pauses) -> None:
        self._store, self._server, self._texts, self._pauses = store, server, texts, pauses
        self.batches = BatchStore(store)

    def resume(self) -> list[Batch]:
        """The batches that are at the server; those of earlier starts that never came there are dropped."""
        for path in self._folder.glob(".*.jsonl"):
            path.unlink(missing_ok=True)
        return [found for batch in self.batches.open() if (found := self._found(batch)) is not None]

    def _found(self, batch: Batch) -> Batch | None:
        """A batch whose id is known, if need be by looking for it at the server; dropped where it is not there."""
        if batch.id is not None:
            return batch
        if batch.sent is not None:
            # A request that was under way when its process ended may be done somewhat later.
            wait = self._pauses.settle - max(0.0, time.time() - batch.sent)
            end = time.monotonic() + min(max(wait, 0.0), self._pauses.settle)
            known = [one.id for one in self.batches.open() if one.id is not None]
            while True:
                state = self._server.find(batch.name, batch.file, batch.sent, batch.lines, (*batch.others, *known))
                if state is not None:
                    return self.batches.seen(batch, state)
                if (left := end - time.monotonic()) <= 0:
                    break
                time.sleep(min(left, 1.0))
        self._server.discard(batch.name, batch.file)
        self.batches.drop(batch)
        return None

    def pack(self, pool: deque[Question], most: int, refuse: Callable[[Judgement], None]) -> tuple[Batch, Path] | None:
        """Take questions from a pool, `most` of them or what one batch may hold, and plan a batch of them.

        The second value is a file with its lines. None where there was no question that can be asked; those that cannot
        are given to `refuse` as failed judgements.
        """
        name, size, lines = uuid4().hex[:16], 0, 0
        path, asked = self._folder / f".{name}.jsonl", list[tuple[Question, int]]()
        with (
            explained(self._folder),
            os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER), "wb") as file,
        ):
            while pool and len(asked) < most:
                requests = self._server.requests(pool[0])
                if isinstance(requests, Judgement):
                    pool.popleft()
                    refuse(requests)
                    continue
                text = b"".join(
                    self._server.line(f"{name}-{len(asked)}-{number}", each) for number, each in enumerate(requests)
                )
                lines, size = lines + len(requests), size + len(text)
                if asked and (lines > self._server.most_lines or size > self._server.most_bytes):
                    break
                asked.append((pool.popleft(), len(requests)))
                file.write(text)
        if not asked:
            path.unlink()
            return None
        return self.batches.plan(name, asked), path

    def send(self, batch: Batch, path: Path) -> Batch | None:
        """Upload the lines of a batch and create it; None where the server did not create it, and it is dropped."""
        try:
            batch = self.batches.update(batch, file=self._server.upload(batch.name, path), status="uploaded")
            batch = self.batches.update(batch, sent=time.time(), status="sent")
            try:
                return self.batches.seen(batch, self._server.create(batch.name, batch.file, path))
            except ConnectionError:
                return self._found(batch)
        except JudgeError:
            self.refused(batch)
            raise
        finally:
            path.unlink(missing_ok=True)

    def refused(self, batch: Batch) -> None:
        """Forget a batch that the server refused."""
        self.batches.drop(batch)
        self._server.discard(batch.name, batch.file)

    def look_at(self, batch: Batch) -> tuple[Batch, State]:
        """A batch as it is now."""
        state = self._server.state(str(batch.id))
        return self.batches.seen(batch, state), state

    def answers(self, batch: Batch, state: State) -> Iterator[list[Judgement]]:
        """Store the judgements of a batch that is over, and give them as they are stored; then it is closed.

        A question without an answer has a failed judgement, unless the batch was cancelled: then it was not asked. A
        StrangerError where the results are all of another batch. Where the server counts more answers than its results
        hold, or gives two different ones to one request, they are downloaded again; a LostError where that does not
        help: what is certain is stored, the batch stays open, and nothing is asked again.
        """
        for download in range(DOWNLOADS):
            if download:
                time.sleep(self._pauses.first)
                state = self._server.state(str(batch.id))
            results = self._collect(batch, state)
            is_whole = state.status not in (*CANCELLED, EXPIRED)
            counted = min(state.done, batch.lines) or (batch.lines if is_whole else 0)
            is_certain = not results.disputed and results.missing <= batch.lines - counted
            if is_certain:
                break
        ready, left = results.judged, results.left
        if is_certain and state.status not in CANCELLED:
            why = "it expired" if state.status == EXPIRED else "there is no line about it in the results"
            ready += [(number, Judgement(batch.questions[number][0], error=UNANSWERED + why)) for number in left]
        for begin in range(0, max(1, len(ready)), CHUNK):
            yield self.batches.keep(batch, ready[begin : begin + CHUNK])
        if not is_certain:
            lack = f"lack {results.missing:,} lines" if results.missing else ""
            differ = f"give different answers to {results.disputed:,} questions" if results.disputed else ""
            raise LostError(
                f"the results of batch {batch.id} ({state.status}, {state.done:,} of {batch.lines:,} done by the "
                f"server's count) {' and '.join(filter(None, (lack, differ)))}, in {DOWNLOADS} downloads. All other "
                "answers are kept, and nothing was asked again. Run the same command later to download them once more. "
                f"With batch='cancel' the batch is given up: the same command then asks {len(left):,} questions "
                "again, and pays for them again"
            )
        self.batches.update(batch, closed=_now(), status=state.status)

    def _collect(self, batch: Batch, state: State) -> Results:
        """Read the results of a batch; lines that are there twice count once, if they are the same."""
        parts: dict[int, dict[int, Line]] = {}
        judged: dict[int, Judgement] = {}
        known: dict[tuple[int, int], int] = {}  # a hash of each line
        disputed: set[int] = set()
        for number, copy, line in self._own(batch, state):
            question, lines = batch.questions.get(number, (None, 0))
            if question is None or copy >= lines:
                continue  # judged in an earlier start, or never asked
            if (number, copy) in known:
                if known[number, copy] != hash(repr(line)):
                    disputed.add(number)
                continue
            known[number, copy] = hash(repr(line))
            parts.setdefault(number, {})[copy] = line
            if len(parts[number]) == lines:
                answers = parts.pop(number)
                judged[number] = self._read(question, [answers[each] for each in range(lines)])
        left = [number for number in batch.questions if number not in judged or number in disputed]
        wanted = sum(lines for _, lines in batch.questions.values())
        certain = [(number, one) for number, one in judged.items() if number not in disputed]
        return Results(certain, left, wanted - len(known), len(disputed))

    def look_again(self, batch: Batch) -> Batch | None:
        """Look for a batch at the server for which another one was taken; None where it is not there."""
        others = (*batch.others, *filter(None, [batch.id]))
        return self._found(self.batches.update(batch, id=None, others=others, status="sent", done=0))

    def cancel(self, batch: Batch) -> None:
        """Let the server end a batch early, unless it is over."""
        try:
            self._server.cancel(str(batch.id))
        except LostError:
            raise
        except JudgeError:
            if not self._server.state(str(batch.id)).is_over:
                raise

    def _own(self, batch: Batch, state: State) -> Iterator[tuple[int, int, Line]]:
        """The lines of the results that are of this batch, each with the numbers of its question and request."""
        others = own = 0
        for line in self._server.results(state):
            found = re.fullmatch(r"([0-9a-f]{16})-(\d{1,9})-(\d{1,9})", line.id)
            if found and found[1] == batch.name:
                own += 1
                yield int(found[2]), int(found[3]), line
            else:
                others += 1
        if others and not own:
            raise StrangerError

    def _read(self, question: Question, answers: list[Line]) -> Judgement:
        judgement = self._server.read(self._texts(question), answers)
        passes = any(one.error is not None or one.status in PASSING or one.status >= 500 for one in answers)
        if judgement.failed and passes:
            return replace(judgement, error=f"{UNANSWERED}{judgement.error}")
        return judgement

    @property
    def _folder(self) -> Path:
        assert self._store.folder is not None
        return self._store.folder
