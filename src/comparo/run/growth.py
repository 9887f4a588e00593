"""What a run held before it grew, and its ranking on the scale of the first one (`comparo.run.linking`).

Growth g = 1, 2, … of a run adds items (`comparo.run.resume`). The table growths has the number of the last judgement
before each: a judgement belongs to the last growth before it, 0 for the first run.
"""

from __future__ import annotations

import sqlite3
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from comparo.data.comparisons import Comparisons
from comparo.data.items import Items
from comparo.data.run_folder import Key, encode, named_rows, slot_labels, table_of_rows
from comparo.judges import Judgement
from comparo.ranking.ranking import Ranking
from comparo.run.files import Label, stored_judgements
from comparo.run.linking import drift, grown_from, labels_of, on_scale
from comparo.run.store import LINK, read_configuration, reading
from comparo.run.voices import comparisons


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
    since : The growth that added each item of `before`; items of growth 0 define the scale.
    is_linked : Whether it was another run, to whose scale this one is linked.
    """

    before: State
    since: Mapping[Label, int]
    is_linked: bool

    def added(self, data: Comparisons) -> Comparisons | None:
        """The comparisons of `data` that are not in `before`; None where there are none."""
        known = {*_pairs(self.before.data)}
        is_new = np.array([pair not in known for pair in _pairs(data)])
        return data.take(is_new).trimmed() if is_new.any() else None

    def place(self, ranking: Ranking, rank: Callable[[State], Ranking], added: Ranking | None = None) -> Ranking:
        """The ranking on the scale of the first one, with the earlier scores.

        `rank` ranks a state; `added` is the ranking by the comparisons that a linked run added.
        """

        def held(each: Ranking) -> Ranking:
            return on_scale(each, np.array([self.since.get(label) == 0 for label in labels_of(each)]))

        before, now = held(rank(self.before)), held(ranking)
        common = None if added is None else drift(added.judged, before.judged)
        return grown_from(before, now, self.since, common)

    def cohorts(self, labels: Sequence[tuple[Any, Any]]) -> dict[tuple[Any, Any], int]:
        """The growth that added each item (context, id), −1 for the last."""
        return {(context, item): self.since.get((encode(context), encode(item)), -1) for context, item in labels}


def _pairs(data: Comparisons) -> list[tuple[Any, ...]]:
    """The context, the texts and the judge of each comparison."""
    nothing = [None] * len(data)
    context = nothing if data.contexts is None else data.contexts[data.context].tolist()
    judge = nothing if data.judges is None else data.judges[data.judge].tolist()
    ends = (data.items[column].tolist() for column in (data.first, data.second))
    return list(zip(context, *ends, judge, strict=True))


def count_growths(connection: sqlite3.Connection) -> int | None:
    """How often a run has grown; None where it holds no items yet."""
    if not connection.execute("SELECT 1 FROM items LIMIT 1").fetchone():
        return None
    return int(connection.execute("SELECT count(*) FROM growths").fetchone()[0])


def read_past(folder: Path) -> Past | None:
    """The run of a folder before its last growth; None where it never grew."""
    with reading(folder) as connection:
        if not count_growths(connection):
            return None
        history = History.read(connection, str(folder))
    link = read_configuration(folder).get(LINK) or {}
    return history.past(history.growth, link.get("growth") == history.growth)


@dataclass(frozen=True, eq=False)
class History:
    """The items of a run, its judgements, and when it grew.

    `rows` are those of the table of items; `marks` the number of the last judgement before each growth.
    """

    source: str
    rows: Sequence[Mapping[str, Any]]
    texts: Mapping[str, str | None]
    marks: tuple[int, ...]
    judgements: Sequence[tuple[int, Key, Judgement]]

    @classmethod
    def read(cls, connection: sqlite3.Connection, source: str) -> History:
        rows = named_rows(connection, "SELECT * FROM items ORDER BY number")
        texts = dict(connection.execute("SELECT context, text FROM contexts").fetchall())
        marks = connection.execute("SELECT judgements FROM growths ORDER BY number").fetchall()
        return cls(source, rows, texts, tuple(mark for (mark,) in marks), list(stored_judgements(connection)))

    @property
    def growth(self) -> int:
        """How often the run has grown."""
        return len(self.marks)

    def since(self, growth: int) -> dict[Label, int]:
        """The items up to a growth, and the growth that added each."""
        return {(row["context"], row["id"]): row["since"] for row in self.rows if row["since"] <= growth}

    def state(self, growth: int) -> State:
        """The items up to a growth, and the answers about them up to the end of that growth."""
        since = self.since(growth)
        rows = [row for row in self.rows if row["since"] <= growth]
        answers = [
            one
            for number, key, one in self.judgements
            if bisect_left(self.marks, number) <= growth and since.keys() >= {*slot_labels(key)}
        ]
        items = Items.of(table_of_rows(rows, self.texts, self.source), has_images=True)
        return State(items, comparisons(answers))

    def past(self, growth: int, is_linked: bool) -> Past:
        """The run before a growth: its last one, or the next."""
        return Past(self.state(growth - 1), self.since(growth - 1), is_linked)


@dataclass(frozen=True, eq=False)
class Growth:
    """How a run has grown, or is about to.

    Parameters
    ----------
    number : How often it will have grown.
    digest : The digest of all its items.
    new : How many items of each context are new.
    paid : The dollars that earlier judgements count within a budget, and the dollars spent on them.
    audition : The entry about an audition in the run's identity, if any.
    past : The run before.
    mark : The number of the last judgement before the growth.
    configuration : That of the folder before the growth; None where the folder has grown already.
    linked_to : The folder of another run, which stays as it is: its texts and answers are copied. None where the run
        itself grows.
    """

    number: int
    digest: str
    new: Mapping[Any, int]
    paid: tuple[float, float]
    audition: str | None
    past: Past = field(repr=False)
    mark: int
    configuration: Mapping[str, Any] | None = field(default=None, repr=False)
    linked_to: Path | None = None
