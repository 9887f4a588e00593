"""The batches in a run folder: their questions, how far each is, and what a run waits for."""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from comparo.data.prompts import Question
from comparo.data.run_folder import decode, encode
from comparo.errors import StoreError
from comparo.judges import Judgement
from comparo.judges.batches import State
from comparo.run.database import insert
from comparo.run.store import Store, reading

COLUMNS = "number, name, lines, file, sent, id, status, done, others"


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
        """How far the server is with it, in words."""
        return f"{self.status.replace('_', ' ')}, {self.done:,} of {self.lines:,} done"


class BatchStore:
    """The batches of a run folder.

    >>> batches = BatchStore(Store(None, {}))
    >>> made = batches.plan("f00d", [(Question("ana", "bo"), 1)])
    >>> [batch.how_far for batch in batches.open()]
    ['planned, 0 of 1 done']
    >>> batches.keep(made, [(0, Judgement(Question("ana", "bo"), p=0.7))])
    [Judgement(question=Question(first='ana', second='bo', ...
    >>> batches.close(made, "completed")
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
        now = datetime.now(UTC).isoformat(timespec="seconds")
        return self.update(batch, id=state.id, status=state.status, done=state.done, seen=now)

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

    def close(self, batch: Batch, status: str) -> None:
        """Store that a batch is over, and that all its results are stored."""
        self.update(batch, closed=datetime.now(UTC).isoformat(timespec="seconds"), status=status)

    def drop(self, batch: Batch) -> None:
        """Forget a batch of which the server has nothing, or which it refused."""
        with self.store.transaction() as connection:
            connection.execute("DELETE FROM batch_questions WHERE batch = ?", (batch.number,))
            connection.execute("DELETE FROM batches WHERE number = ?", (batch.number,))
        self.store.flush()


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


def waiting_for(folder: Path) -> str:
    """What a run folder waits for, as it was last seen: "in progress, 120 of 500 done"; "" where it does not wait."""
    with reading(folder) as connection:
        rows = connection.execute(
            "SELECT status, sum(lines), sum(done), max(seen) FROM batches WHERE closed IS NULL AND sent IS NOT NULL "
            "GROUP BY status ORDER BY min(number)"
        ).fetchall()
    parts = [f"{status.replace('_', ' ')}, {done:,} of {lines:,} done" for status, lines, done, _ in rows]
    seen = max((seen for *_, seen in rows if seen), default=None)
    return "; ".join(parts) + (f" ({seen[:16].replace('T', ' ')} UTC)" if seen else "")
