"""The open questions of a run folder: in batches at a server, and on the ballots of people.

A ballot is a pair or line-up as it was shown. It is answered once: a vote has the ballot's number and turn, and a vote
that is posted twice counts once. A withdrawn vote is not deleted; its ballot is open again, in the next turn.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import permutations
from typing import Any

from comparo.data.prompts import Question
from comparo.data.run_folder import decode
from comparo.data.wordings import LETTERS
from comparo.errors import Message, StoreError
from comparo.judges import Judgement
from comparo.judges.batches import State
from comparo.log.files import now
from comparo.log.rows import insert, insertion, labels_of, question_of
from comparo.log.store import Store

COLUMNS = "number, name, lines, file, sent, id, status, done"
SKIPPED = "skipped: "

DealtPair = tuple[Any, frozenset[Hashable]]  # the context, and two items or those of a line-up


@dataclass(frozen=True)
class OpenBatch:
    """A batch that is not closed; `questions` are those without a judgement, each with its number of lines."""

    number: int
    name: str
    lines: int
    file: str
    sent: float | None
    id: str | None
    status: str
    done: int
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

    def open(self) -> list[OpenBatch]:
        """The batches that are not closed."""
        with self.store.transaction() as connection:
            rows = connection.execute(f"SELECT {COLUMNS} FROM batches WHERE closed IS NULL ORDER BY number").fetchall()
            return [OpenBatch(*row, _asked(connection, row[0])) for row in rows]  # type: ignore[call-arg]

    def plan(self, name: str, questions: Sequence[tuple[Question, int]]) -> OpenBatch:
        """Store a batch of questions, each with the number of its lines."""
        lines = sum(number for _, number in questions)
        with self.store.transaction() as connection:
            made = connection.execute(*insertion("batches", {"name": name, "lines": lines})).lastrowid
            for number, (one, own) in enumerate(questions):
                row = {"batch": made, "number": number, "lines": own} | labels_of(one)
                connection.execute(*insertion("batch_questions", row))
        self.store.flush()
        return OpenBatch(made or 0, name, lines, "", None, None, "planned", 0, dict(enumerate(questions)))

    def update(self, batch: OpenBatch, **values: Any) -> OpenBatch:
        """Store new values of a batch; they are on the disk when this returns."""
        names = ", ".join(f"{name} = ?" for name in values)
        with self.store.transaction() as connection:
            connection.execute(f"UPDATE batches SET {names} WHERE number = ?", (*values.values(), batch.number))
        self.store.flush()
        return replace(batch, **{name: value for name, value in values.items() if hasattr(batch, name)})

    def seen(self, batch: OpenBatch, state: State) -> OpenBatch:
        """Store the server's id of the batch, if known, and its status."""
        return self.update(batch, id=state.id or None, status=state.status, done=state.done, seen=now())

    def keep(self, batch: OpenBatch, judgements: Iterable[tuple[int, Judgement]]) -> list[Judgement]:
        """Store judgements of a batch and mark their questions as judged, in one transaction."""
        kept: list[Judgement] = []
        with self.store.transaction() as connection:
            for number, judgement in judgements:
                kept += filter(None, [insert(connection, judgement)])
                connection.execute(
                    "UPDATE batch_questions SET is_judged = 1 WHERE batch = ? AND number = ?", (batch.number, number)
                )
        return kept

    def drop(self, batch: OpenBatch) -> None:
        """Delete a batch that the server does not have, or refused."""
        with self.store.transaction() as connection:
            connection.execute("DELETE FROM batch_questions WHERE batch = ?", (batch.number,))
            connection.execute("DELETE FROM batches WHERE number = ?", (batch.number,))
        self.store.flush()


def _asked(connection: sqlite3.Connection, batch: int) -> dict[int, tuple[Question, int]]:
    """The questions of a batch that are not judged, without their texts."""
    rows = connection.execute(
        "SELECT number, lines, context, first, second FROM batch_questions WHERE batch = ? AND NOT is_judged", (batch,)
    )
    return {number: (question_of(*labels), lines) for number, lines, *labels in rows}


def had_batches(store: Store) -> bool:
    """Whether some answers of a run came by batches."""
    with store.transaction() as connection:
        return connection.execute("SELECT 1 FROM batches LIMIT 1").fetchone() is not None


def check_no_batch(store: Store) -> None:
    """Raise a StoreError where a run waits for a batch, whose questions would be asked twice."""
    if lines := sum(batch.lines for batch in BatchStore(store).open() if batch.sent is not None):
        remedy = Message("add {batch:'wait'} to go on with it, or {batch:'cancel'} to end it early")
        raise StoreError(f"{store.folder} waits for a batch of {lines:,} questions at the server; " + remedy)


def choices_of(size: int) -> dict[str, float]:
    """The possible votes on `size` texts, each with its p: 1 if the first is the best, else 0; ½ for a tie of two.

    >>> choices_of(2), list(choices_of(3))[:2]
    ({'A': 1.0, '=': 0.5, 'B': 0.0}, ['A>B>C', 'A>C>B'])
    """
    if size == 2:
        return {"A": 1.0, "=": 0.5, "B": 0.0}
    return {">".join(order): float(order[0] == "A") for order in permutations(LETTERS[:size])}


@dataclass(frozen=True, slots=True)
class Ballot:
    """A pair as it is shown to a judge; `first` is A, on the left. `judgement` is the number of its answer, or None.

    For a line-up, `second` is a `Rest`, and `order` is the vote, such as "C>A>B".
    """

    number: int
    voter: str
    context: Any
    first: Any
    second: Any
    shown: datetime
    turn: int = 1
    judgement: int | None = None
    p: float | None = None
    order: str = ""

    @property
    def items(self) -> tuple[Any, ...]:
        """The labels in slot order."""
        return Question(self.first, self.second).items

    @property
    def pair(self) -> DealtPair:
        """The context and the set of items, without their slots."""
        return self.context, frozenset(self.items)

    @property
    def is_open(self) -> bool:
        """Whether it waits for an answer."""
        return self.judgement is None

    @property
    def is_skip(self) -> bool:
        """Whether it was skipped."""
        return self.judgement is not None and self.p is None

    @property
    def is_vote(self) -> bool:
        """Whether it was answered, and not skipped."""
        return self.p is not None


def show(store: Store, voter: str, context: Any, first: Any, second: Any) -> Ballot:
    """Store a new ballot.

    >>> store = Store(None, {})
    >>> ballot = show(store, "ana", None, "x", "y")
    >>> vote = answer(store, ballot, "A", 3.5)
    >>> vote.p, [one.reply for one in store.judgements()]
    (1.0, ['A'])
    >>> again = withdraw(store, vote)
    >>> again.turn, again.is_open, list(store.judgements())
    (2, True, [])
    >>> answer(store, ballot, "B", 1.0) is None  # of a turn that is over
    True
    """
    shown = now("milliseconds")
    row = {"voter": voter, **labels_of(Question(first, second, context)), "shown": shown, "turn": 1}
    with store.transaction() as connection:
        number = connection.execute(*insertion("ballots", row)).lastrowid
    return Ballot(number or 0, voter, context, first, second, datetime.fromisoformat(shown))


def answer(store: Store, ballot: Ballot, choice: str, seconds: float, reason: str = "") -> Ballot | None:
    """Store the vote on a ballot, one of `choices_of`; None if the ballot is not open in this turn.

    The reason is the second line of the stored reply.
    """
    size = len(ballot.items)
    order = choice if size > 2 else ""
    return _close(
        store, ballot, p=choices_of(size)[choice], reply=f"{choice}\n{reason}".rstrip(), lineup=order, seconds=seconds
    )


def skip(store: Store, ballot: Ballot, reason: str, seconds: float) -> Ballot | None:
    """Store that a ballot was skipped, as a failed judgement, not a tie; None if it is not open in this turn."""
    return _close(store, ballot, error=f"{SKIPPED}{reason}", seconds=seconds)


def withdraw(store: Store, ballot: Ballot) -> Ballot:
    """Withdraw the answer of a ballot, and open it again in the next turn."""
    with store.transaction() as connection:
        connection.execute("UPDATE judgements SET withdrawn = 1 WHERE number = ?", (ballot.judgement,))
        connection.execute(
            "UPDATE ballots SET judgement = NULL, turn = turn + 1 WHERE number = ? AND turn = ?",
            (ballot.number, ballot.turn),
        )
    return replace(ballot, judgement=None, p=None, order="", turn=ballot.turn + 1)


def stored_ballots(store: Store) -> Iterator[Ballot]:
    """All ballots in the order in which they were shown."""
    columns = "ballots.number, voter, ballots.context, ballots.first, ballots.second, shown, turn, judgement, p, lineup"
    with store.transaction() as connection:
        rows = connection.execute(
            f"SELECT {columns} FROM ballots LEFT JOIN judgements ON judgements.number = judgement ORDER BY 1"
        ).fetchall()
    for number, voter, context, first, second, shown, turn, judgement, p, order in rows:
        labels = (decode(context), decode(first), decode(second))
        yield Ballot(number, voter, *labels, datetime.fromisoformat(shown), turn, judgement, p, order or "")


def _close(store: Store, ballot: Ballot, **answered: Any) -> Ballot | None:
    """Store a judgement and link its ballot to it, in one transaction; None if the ballot is not open in this turn."""
    question = Question(ballot.first, ballot.second, ballot.context, voice=ballot.voter)
    with store.transaction() as connection:
        known = connection.execute(
            "SELECT 1 FROM ballots WHERE number = ? AND turn = ? AND judgement IS NULL", (ballot.number, ballot.turn)
        ).fetchone()
        if known is None or insert(connection, Judgement(question, **answered)) is None:
            return None
        number = int(connection.execute("SELECT last_insert_rowid()").fetchone()[0])
        connection.execute("UPDATE ballots SET judgement = ? WHERE number = ?", (number, ballot.number))
    return replace(ballot, judgement=number, p=answered.get("p"), order=answered.get("lineup", ""))
