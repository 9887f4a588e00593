"""What a run held before it grew, and its ranking on the scale of the first one (`comparo.run.linking`).

Growth g = 1, 2, … of a run adds items, and may change or remove some (`comparo.run.resume`). The table growths has the
number of the last judgement before each: a judgement belongs to the growth after whose mark it came, 0 for the first
run. The table former keeps items that were changed or removed, with the growths between which they were there. A
judgement counts in a growth if both its items were the same texts when it was made.
"""

from __future__ import annotations

import sqlite3
from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from comparo.data.comparisons import Comparisons
from comparo.data.items import Items
from comparo.data.run_folder import encode, named_rows, slot_labels, table_of_rows
from comparo.judges import Judgement
from comparo.ranking.ranking import Ranking
from comparo.run.files import Label, numbered_judgements
from comparo.run.linking import drift, grown_from, labels_of, on_scale
from comparo.run.store import LINK, read_configuration, reading
from comparo.run.voices import comparisons
from comparo.types import Mask


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
    since : The growth that brought each item of before that is still there and as it was; those of growth 0 hold the
        scale.
    first : The first run, where some of its items are gone or changed; None where all of them hold the scale.
    left_out : How many judgements the last growth left out.
    is_linked : Whether it was another run, to whose scale this one is linked.
    """

    before: State
    since: Mapping[Label, int]
    first: State | None = None
    left_out: int = 0
    is_linked: bool = False

    def added(self, data: Comparisons) -> Comparisons | None:
        """Those of the comparisons that were not there before; None where there are none."""
        known = {*_pairs(self.before.data)}
        is_new = np.array([pair not in known for pair in _pairs(data)])
        return data.take(is_new).trimmed() if is_new.any() else None

    def place(self, ranking: Ranking, rank: Callable[[State], Ranking], added: Ranking | None = None) -> Ranking:
        """The ranking on the scale of the first one, with what it was before.

        `rank` is how it is made; `added` the ranking by the comparisons that a linked run added.
        """
        reference: dict[Label, float] = {}
        if self.first is not None:
            first = rank(self.first)
            reference = dict(zip(labels_of(first), first.scores.tolist(), strict=True))

        def held(each: Ranking) -> Ranking:
            labels = labels_of(each)
            kept: Mask = np.array([self.since.get(label) == 0 for label in labels])
            return on_scale(each, kept, np.array([reference.get(label, 0.0) for label in labels]))

        before, now = held(rank(self.before)), held(ranking)
        common = None if added is None else drift(added.judged, before.judged)
        return grown_from(before, now, self.since, self.left_out, common)

    def cohorts(self, labels: Sequence[tuple[Any, Any]]) -> dict[tuple[Any, Any], int]:
        """The growth that brought each item (context, id), −1 for the last."""
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
    return history.past(history.growth, history.left_out, is_linked=link.get("growth") == history.growth)


@dataclass(frozen=True, eq=False)
class History:
    """All items that a run has or had, its judgements, and when it grew.

    `rows` are those of the tables items and former; `marks` the number of the last judgement before each growth.
    """

    source: str
    rows: Sequence[Mapping[str, Any]]
    texts: Mapping[str, str | None]
    marks: tuple[int, ...]
    judgements: Sequence[tuple[int, tuple[Label, ...], Judgement]]
    left_out: int

    @classmethod
    def read(cls, connection: sqlite3.Connection, source: str) -> History:
        rows = named_rows(connection, "SELECT number AS place, * FROM items")
        rows += named_rows(connection, "SELECT * FROM former")
        growths = connection.execute("SELECT judgements, left_out FROM growths ORDER BY number").fetchall()
        judgements = [
            (number, slot_labels(key), judgement)
            for number, key, judgement in numbered_judgements(connection, "error IS NULL")
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
        return {(row["context"], row["id"]): row["since"] for row in self._there(growth)}

    def answers(self, growth: int) -> list[Judgement]:
        """The answers about the items of a growth, as they were then, that came in it or before."""
        since = self.since(growth)
        found: dict[Any, Judgement] = {}
        for number, labels, judgement in self.judgements:
            made = bisect_left(self.marks, number)
            if made <= growth and all(label in since and since[label] <= made for label in labels):
                found.setdefault((labels, judgement.question.voice), judgement)  # one stored twice counts once
        return list(found.values())

    def state(self, growth: int) -> State:
        """The items of a growth and the answers about them."""
        rows = self._there(growth)
        texts = {row["context"]: row.get("context_text", self.texts.get(row["context"])) for row in rows}
        items = Items.of(table_of_rows(rows, texts, self.source), has_images=True)
        return State(items, comparisons(self.answers(growth)))

    def past(self, growth: int, left_out: int, gone: Collection[Label] = (), is_linked: bool = False) -> Past:
        """The run before a growth: its last one, or the next, which leaves out some judgements and items, `gone`."""
        now = self.since(self.growth)
        since = {label: came for label, came in now.items() if came < growth and label not in gone}
        is_whole = sum(came == 0 for came in since.values()) == len(self.since(0))
        return Past(self.state(growth - 1), since, None if is_whole else self.state(0), left_out, is_linked)

    def _there(self, growth: int) -> list[Mapping[str, Any]]:
        return [row for row in self.rows if row["since"] <= growth < row.get("until", growth + 1)]


@dataclass(frozen=True, eq=False)
class Growth:
    """How a run has grown, or is about to.

    Parameters
    ----------
    number : How often it will have grown.
    digest : That of all its items.
    new : How many items of each context are new.
    paid : What all judgements before count for within a budget, and what was spent on them, in dollars.
    audition : What the identity of the run says of an audition, if anything.
    past : The run before.
    mark : The number of the last judgement before.
    changed, removed : The items whose text is another now, and that are not there any more.
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
    changed: tuple[Label, ...] = ()
    removed: tuple[Label, ...] = ()
    configuration: Mapping[str, Any] | None = field(default=None, repr=False)
    linked_to: Path | None = None
