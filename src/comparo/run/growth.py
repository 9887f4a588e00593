"""What a run held before it grew, and the scale of its ranking: that of the first one.

Growth g = 1, 2, … of a run adds items, and may change or remove some (`comparo.run.resume`). The table growths has the
number of the last judgement before each: a judgement belongs to the growth after whose mark it came, 0 for the first
run. The table former keeps items that were changed or removed, with the growths between which they were there. A
judgement counts in a growth if both its items were the same texts when it was made.

Scores are centred in each connected component, so added items would move all others. With r_i the scores of the first
ranking, all scores of a component are shifted by the same number, such that

    mean of (s_i − r_i) over the items of the first ranking that are still there and as they were = 0.

Differences of scores, ranks and tiers are those of the joint fit of all answers, in the unit of the method.
"""

from __future__ import annotations

import sqlite3
from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comparo.data.comparisons import Comparisons
from comparo.data.items import Items
from comparo.data.run_folder import encode, named_rows, slot_labels, table_of_rows
from comparo.judges import Judgement
from comparo.ranking.ranking import Ranking
from comparo.ranking.scores import Grown
from comparo.rounding import merge_ties
from comparo.run.database import Label, numbered_judgements
from comparo.run.store import reading
from comparo.run.voices import comparisons
from comparo.types import Array, Mask

UNCENTRED = ("win-ratio", "avg-prob")  # methods whose scores are shares of all comparisons, and not differences


def on_scale(ranking: Ranking, kept: Mask, reference: Array) -> Ranking:
    """The ranking with the mean of its `kept` candidates (n,) at that of their `reference` scores (n,).

    Components without such a candidate, and scores that are shares of wins, stay as they are.

    >>> from comparo import fit
    >>> ranking = fit([("a", "b", 0.8), ("b", "new", 0.7), ("new", "a", 0.1)])
    >>> held = on_scale(ranking, ranking.items != "new", np.zeros(3))
    >>> round(held["a"].score + held["b"].score, 9), round(held["a"].score - ranking["a"].score, 2)
    (0.0, -0.51)
    """
    if ranking.method in UNCENTRED:
        return ranking
    component = ranking.graph.component
    number = np.bincount(component, kept)
    apart = np.bincount(component, np.where(kept, ranking.scores - reference, 0.0))
    shift = np.divide(apart, number, out=np.zeros(len(number)), where=number > 0)
    others = {name: getattr(ranking, name) for name in ("opinion", "controlled")}
    held: dict[str, Any] = {
        name: on_scale(other, kept, reference) for name, other in others.items() if other is not None
    }
    return replace(ranking, scores=ranking.scores - shift[component], **held)


def _ranks(scores: Array, context: NDArray[np.integer], among: Mask) -> NDArray[np.int64]:
    """The rank of each candidate among those of its context that are `among` (n,), 0 for the others."""
    found = np.zeros(len(scores), dtype=np.int64)
    rows = np.flatnonzero(among)
    order = rows[np.lexsort((-merge_ties(scores[rows]), context[rows]))]
    starts = np.flatnonzero(np.diff(context[order], prepend=-1))
    sizes = np.diff(starts, append=len(order))
    found[order] = np.arange(len(order)) - np.repeat(starts, sizes) + 1
    return found


def grown_from(before: Ranking, now: Ranking, old: Collection[Label], left_out: int = 0) -> Ranking:
    """The ranking `now` with what its `old` candidates were `before`; the others are new."""
    nodes = {label: node for node, label in enumerate(labels_of(before)) if label in old}
    there = np.array([nodes.get(label, -1) for label in labels_of(now)])
    new, context = there < 0, now.graph.context
    score, low, high = (np.where(new, np.nan, values[there]) for values in (before.scores, before.low, before.high))
    rank_then, rank_now = (_ranks(values, context, ~new) for values in (score, now.scores))
    return replace(now, grown=Grown(new, score, low, high, rank_then, rank_now, left_out))


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
    """

    before: State
    since: Mapping[Label, int]
    first: State | None = None
    left_out: int = 0

    def place(self, ranking: Ranking, rank: Callable[[State], Ranking]) -> Ranking:
        """The ranking on the scale of the first one, with what it was before; `rank` is how it is made."""
        reference: dict[Label, float] = {}
        if self.first is not None:
            first = rank(self.first)
            reference = dict(zip(labels_of(first), first.scores.tolist(), strict=True))
        before, now = (self._held(each, reference) for each in (rank(self.before), ranking))
        return grown_from(before, now, self.since, self.left_out)

    def cohorts(self, labels: Sequence[tuple[Any, Any]]) -> dict[tuple[Any, Any], int]:
        """The growth that brought each item (context, id), −1 for the last."""
        return {(context, item): self.since.get((encode(context), encode(item)), -1) for context, item in labels}

    def _held(self, ranking: Ranking, reference: Mapping[Label, float]) -> Ranking:
        labels = labels_of(ranking)
        kept: Mask = np.array([self.since.get(label) == 0 for label in labels])
        known: Array = np.array([reference.get(label, 0.0) for label in labels])
        return on_scale(ranking, kept, known)


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
    return history.past(history.growth, history.left_out)


def labels_of(ranking: Ranking) -> list[Label]:
    """The candidates of a ranking by their encoded labels."""
    return [(encode(context), encode(item)) for context, item in ranking.graph.labels(ranking.comparisons)]


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

    def past(self, growth: int, left_out: int, gone: Collection[Label] = ()) -> Past:
        """The run before a growth: its last one, or the next, which leaves out some judgements and items, `gone`."""
        now = self.since(self.growth)
        since = {label: came for label, came in now.items() if came < growth and label not in gone}
        is_whole = sum(came == 0 for came in since.values()) == len(self.since(0))
        return Past(self.state(growth - 1), since, None if is_whole else self.state(0), left_out)

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
