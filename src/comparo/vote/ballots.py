"""Ballots: each pair or line-up that is shown to a judge, stored before it is shown, and the vote that answers it.

A ballot is answered once: a vote names its number and turn, and one that is posted twice counts once. A vote that is
taken back is not deleted: it is withdrawn, and its ballot is open again, in the next turn.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import permutations
from typing import Any

from comparo.data.prompts import Question
from comparo.data.run_folder import decode, encode
from comparo.data.wordings import LETTERS
from comparo.judges import Judgement
from comparo.run.files import insert
from comparo.run.store import Store

SKIPPED = "skipped: "

Pair = tuple[Any, frozenset[Hashable]]  # the context, and two items or those of a line-up


def choices_of(size: int) -> dict[str, float]:
    """What may be voted about so many texts, and whether the first is the best: 1, 0, or ½ for a tie of two texts.

    >>> choices_of(2), list(choices_of(3))[:2]
    ({'A': 1.0, '=': 0.5, 'B': 0.0}, ['A>B>C', 'A>C>B'])
    """
    if size == 2:
        return {"A": 1.0, "=": 0.5, "B": 0.0}
    return {">".join(order): float(order[0] == "A") for order in permutations(LETTERS[:size])}


@dataclass(frozen=True, slots=True)
class Ballot:
    """A pair as it is shown to a judge: `first` is A, on the left. `judgement` is the number of its answer.

    In a line-up `second` is the `Rest`, and `order` the vote: "C>A>B".
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
    def pair(self) -> Pair:
        """The pair or the line-up, whichever text is on the left."""
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
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    row = (voter, encode(context), encode(first), encode(second), now, 1)
    with store.transaction() as connection:
        number = connection.execute(
            "INSERT INTO ballots (voter, context, first, second, shown, turn) VALUES (?, ?, ?, ?, ?, ?)", row
        ).lastrowid
    assert number is not None
    return Ballot(number, voter, context, first, second, datetime.fromisoformat(now))


def answer(store: Store, ballot: Ballot, choice: str, seconds: float, reason: str = "") -> Ballot | None:
    """Store the vote of a ballot, one of `choices_of`; None where the ballot was answered before.

    A reason is the second line of the reply.
    """
    size = len(ballot.items)
    order = choice if size > 2 else ""
    return _close(
        store, ballot, p=choices_of(size)[choice], reply=f"{choice}\n{reason}".rstrip(), lineup=order, seconds=seconds
    )


def skip(store: Store, ballot: Ballot, reason: str, seconds: float) -> Ballot | None:
    """Store that a ballot was skipped, a failed judgement and no tie; None where it was answered before."""
    return _close(store, ballot, error=f"{SKIPPED}{reason}", seconds=seconds)


def withdraw(store: Store, ballot: Ballot) -> Ballot:
    """Take back the answer of a ballot, and open it again."""
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
    """Store a judgement and which ballot it answers, both or neither."""
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
