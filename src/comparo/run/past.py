"""What a run held before it grew, read from its folder.

Growth g = 1, 2, … of a run adds items, and may change or remove some (`growing`). `growths` has the number of the last
judgement before each, so a judgement belongs to the growth after whose mark it came, 0 for the first run. An item that
was changed or removed is kept as it was in `former`, with the growths between which it was there. So the items and
answers of any growth can be read again: a judgement counts there if both its items were the same texts when it was
made.
"""

from __future__ import annotations

import sqlite3
from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from comparo.data.comparisons import Comparisons
from comparo.data.items import Items
from comparo.data.sources import named_rows, table_of_rows
from comparo.judges import Judgement
from comparo.ranking.ranking import Ranking
from comparo.ranking.scale import compared, on_scale
from comparo.run.answers import comparisons
from comparo.run.database import encode, numbered_judgements, reading
from comparo.run.merging import Label
from comparo.types import Array, Mask


@dataclass(frozen=True, eq=False)
class State:
    """The items of a run at some growth, and the answers about them."""

    items: Items
    data: Comparisons


@dataclass(frozen=True, eq=False)
class Past:
    """A run before its last growth.

    Parameters
    ----------
    before : Its items and answers before the last growth.
    stayed : The items of before that are still there and as they were.
    kept : Those of them that are of the first run, which hold the scale.
    since : The growth that brought each item as it is; those of the last one may be missing.
    first : The first run, where some of its items are gone or changed; None where `kept` are all of them.
    left_out : How many judgements the last growth left out.
    """

    before: State
    stayed: frozenset[Label]
    kept: frozenset[Label]
    since: Mapping[Label, int]
    first: State | None = None
    left_out: int = 0

    def place(self, ranking: Ranking, rank: Callable[[State], Ranking]) -> Ranking:
        """The ranking on the scale of the first one, with what it was before; `rank` is how it is made."""
        reference = {} if self.first is None else _scores(rank(self.first))
        before = self._held(rank(self.before), reference)
        nodes = {label: node for node, label in enumerate(labels_of(before)) if label in self.stayed}
        now = self._held(ranking, reference)
        return compared(now, before, [nodes.get(label) for label in labels_of(now)], self.left_out)

    def cohorts(self, labels: Sequence[tuple[Any, Any]]) -> dict[tuple[Any, Any], int]:
        """The growth that brought each item (context, id), −1 for the last."""
        return {(context, item): self.since.get((encode(context), encode(item)), -1) for context, item in labels}

    def _held(self, ranking: Ranking, reference: Mapping[Label, float]) -> Ranking:
        labels = labels_of(ranking)
        kept: Mask = np.array([label in self.kept for label in labels])
        known: Array = np.array([reference.get(label, 0.0) for label in labels])
        return on_scale(ranking, kept, known)


def count_growths(connection: sqlite3.Connection) -> int | None:
    """How often a run has grown; None where it holds no items yet.

    >>> count_growths(sqlite3.connect(":memory:")) is None
    True
    """
    tables = _tables(connection)
    if "items" not in tables or not connection.execute("SELECT 1 FROM items LIMIT 1").fetchone():
        return None
    growths = connection.execute("SELECT count(*) FROM growths").fetchone()[0] if "growths" in tables else 0
    return int(growths)


def read_past(folder: Path) -> Past | None:
    """The run of a folder before its last growth; None where it never grew."""
    with reading(folder) as connection:
        if not count_growths(connection):
            return None
        history = History.read(connection, str(folder))
    return history.past(history.growth, history.left_out)


def _tables(connection: sqlite3.Connection) -> set[str]:
    return {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def labels_of(ranking: Ranking) -> list[Label]:
    """The candidates of a ranking by their encoded labels."""
    return [(encode(context), encode(item)) for context, item in ranking.graph.labels(ranking.comparisons)]


def _scores(ranking: Ranking) -> dict[Label, float]:
    return dict(zip(labels_of(ranking), ranking.scores.tolist(), strict=True))


@dataclass(frozen=True, eq=False)
class History:
    """All items that a run has or had, its judgements, and when it grew.

    `rows` are those of the tables items and former; `marks` the number of the last judgement before each growth.
    """

    source: str
    rows: Sequence[Mapping[str, Any]]
    texts: Mapping[str, str | None]
    marks: tuple[int, ...]
    judgements: Sequence[tuple[int, Label, Label, Judgement]]
    left_out: int

    @classmethod
    def read(cls, connection: sqlite3.Connection, source: str) -> History:
        """What the database of a run holds, also one of an older version."""
        tables = _tables(connection)
        rows = named_rows(connection, "SELECT number AS place, * FROM items")
        rows += named_rows(connection, "SELECT * FROM former") if "former" in tables else []
        growths = (
            connection.execute("SELECT judgements, left_out FROM growths ORDER BY number").fetchall()
            if "growths" in tables
            else []
        )
        judgements = [
            (number, (context, first), (context, second), judgement)
            for number, (context, first, second, _), judgement in numbered_judgements(connection, "error IS NULL")
        ]
        texts = dict(connection.execute("SELECT context, text FROM contexts").fetchall())
        return cls(
            source,
            sorted(rows, key=lambda row: row["place"]),
            texts,
            tuple(mark for mark, _ in growths),
            judgements,
            growths[-1][1] if growths else 0,
        )

    @property
    def growth(self) -> int:
        """How often the run has grown."""
        return len(self.marks)

    def since(self, growth: int) -> dict[Label, int]:
        """The items of a growth, and the growth that brought each as it was then."""
        return {(row["context"], row["id"]): row.get("since") or 0 for row in self._there(growth)}

    def answers(self, growth: int) -> list[Judgement]:
        """The answers about the items of a growth, as they were then, that came in it or before."""
        since = self.since(growth)
        return [
            judgement
            for number, one, other, judgement in self.judgements
            if (made := bisect_left(self.marks, number)) <= growth
            and all(label in since and since[label] <= made for label in (one, other))
        ]

    def state(self, growth: int) -> State:
        """The items of a growth and the answers about them."""
        rows = self._there(growth)
        texts = {row["context"]: row.get("context_text", self.texts.get(row["context"])) for row in rows}
        items = Items.of(table_of_rows(rows, texts, self.source))
        return State(items, comparisons(self.answers(growth)))

    def past(self, growth: int, left_out: int, gone: Collection[Label] = ()) -> Past:
        """The run before a growth: its last one, or the next, which leaves out some judgements and items, `gone`."""
        now = self.since(self.growth)
        since = {label: came for label, came in now.items() if came < growth and label not in gone}
        kept = frozenset(label for label, came in since.items() if came == 0)
        origin = None if len(kept) == len(self.since(0)) else self.state(0)
        return Past(self.state(growth - 1), frozenset(since), kept, since, origin, left_out)

    def _there(self, growth: int) -> list[Mapping[str, Any]]:
        return [row for row in self.rows if (row.get("since") or 0) <= growth < row.get("until", growth + 1)]
