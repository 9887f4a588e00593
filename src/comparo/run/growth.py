"""How a run grows: what is new, what was answered before, and how many calls that allows.

What a run held before it grew, read from its folder.

Growth g = 1, 2, … of a run adds items, and may change or remove some (`growing`). `growths` has the number of the last
judgement before each, so a judgement belongs to the growth after whose mark it came, 0 for the first run. An item that
was changed or removed is kept as it was in `former`, with the growths between which it was there. So the items and
answers of any growth can be read again: a judgement counts there if both its items were the same texts when it was
made.

The scale of a ranking that has grown: that of the first one.

Scores are centred in each connected component, so items that are added would move all others. The scale is held by the
items that were there from the start: with r_i their scores in the first ranking, all scores of a component are shifted
by the same number, such that

    mean of (s_i − r_i) over the items of the first ranking that are still there and as they were = 0.

While all of them are, that is a mean of 0 as in the first ranking. Differences of scores, ranks and tiers are those of
the joint fit of all answers. The unit is the method's, in most cases logits of the judge; new items do not change it.
"""

from __future__ import annotations

import sqlite3
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comparo.data.comparisons import Comparisons
from comparo.data.items import Items
from comparo.data.sources import named_rows, table_of_rows
from comparo.judges import Judgement
from comparo.ranking.display import Grown
from comparo.ranking.ranking import Ranking
from comparo.rounding import merge_ties
from comparo.run.budget import Budget, rounded
from comparo.run.database import encode, numbered_judgements, reading
from comparo.run.item_rows import Label
from comparo.run.voices import comparisons
from comparo.selection.designs import Orders
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


def compared(ranking: Ranking, before: Ranking, nodes: Sequence[int | None], left_out: int) -> Ranking:
    """The ranking with what each candidate was `before`: `nodes` (n,) are its numbers there, None for a new one."""
    new = np.array([node is None for node in nodes])
    there = np.array([0 if node is None else node for node in nodes])
    was = {name: np.where(new, np.nan, getattr(before, name)[there]) for name in ("low", "high")}
    score = np.where(new, np.nan, before.scores[there])
    context = ranking.graph.context
    rank, rank_now = (_ranks(values, context, ~new) for values in (score, ranking.scores))
    return replace(ranking, grown=Grown(new, score, was["low"], was["high"], rank, rank_now, left_out))


def _ranks(scores: Array, context: NDArray[np.integer], among: Mask) -> NDArray[np.int64]:
    """The rank of each candidate among those of its context that are `among` (n,), 0 for the others."""
    found = np.zeros(len(scores), dtype=np.int64)
    rows = np.flatnonzero(among)
    order = rows[np.lexsort((-merge_ties(scores[rows]), context[rows]))]
    starts = np.flatnonzero(np.diff(context[order], prepend=-1))
    sizes = np.diff(starts, append=len(order))
    found[order] = np.arange(len(order)) - np.repeat(starts, sizes) + 1
    return found


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
        found: dict[Any, Judgement] = {}
        for number, one, other, judgement in self.judgements:
            made = bisect_left(self.marks, number)
            if made <= growth and all(label in since and since[label] <= made for label in (one, other)):
                found.setdefault((one, other, judgement.question.voice), judgement)  # one stored twice counts once
        return list(found.values())

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


@dataclass(frozen=True, eq=False)
class Growth:
    """How a run has grown, or is about to.

    Parameters
    ----------
    number : How often it will have grown.
    digest : That of all its items.
    new : How many items of each context are new.
    given : The answers from before that count.
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
    given: tuple[Judgement, ...] = field(repr=False)
    paid: tuple[float, float]
    audition: str | None
    past: Past = field(repr=False)
    mark: int
    changed: tuple[Label, ...] = ()
    removed: tuple[Label, ...] = ()
    configuration: Mapping[str, Any] | None = field(default=None, repr=False)

    @property
    def before(self) -> tuple[int, float, float]:
        """How many answers are given, and what all judgements before count for and cost, in dollars."""
        return len(self.given), *self.paid

    def calls(
        self, budget: Budget, sizes: Mapping[Any, int], orders: Orders, cost: float, voices: int
    ) -> dict[Any, tuple[int, Orders]]:
        """The number of calls that a context may have had in the end, and the orders in which its pairs are asked.

        The budget is for what is asked now: 500 calls, 10n for each new item, 5% of all ordered pairs with a new item,
        or $2.50. It is shared out by the number of new items. What a call costs is `cost`.

        Raises
        ------
        ValueError
            If there is not one pair for each new item.
        """
        budget.check_price(cost)
        new = {context: self.new.get(context, 0) for context in sizes}
        total = max(1, sum(new.values()))
        old = {context: size - new[context] for context, size in sizes.items()}
        wanted = {
            context: {
                "": budget.number * number / total,
                "n": budget.number * number,
                "%": budget.number / 100 * (sizes[context] * (sizes[context] - 1) - old[context] * (old[context] - 1)),
                "$": budget.number / cost * number / total if cost > 0 else 0.0,
            }[budget.unit]
            for context, number in new.items()
        }
        found: dict[Any, tuple[int, Orders]] = {}
        given, links = self.given_in, self.links(sizes)
        for context, number in rounded(wanted).items():
            size = sizes[context]
            most = voices * size * (size - 1) - given[context]
            chosen: Orders = "both" if given[context] + number > voices * size * (size - 1) // 2 else orders
            needed = min(most, links[context] * (2 if chosen == "both" else 1))
            if number < needed:
                place = "" if context is None else f" in context {context!r}"
                raise ValueError(
                    f"{number} calls cannot place the {new[context]} new items{place}: at least {needed} are needed; "
                    "allow more, such as --budget 5n, which is for each new item"
                )
            found[context] = given[context] + min(number, most), chosen
        return found

    @property
    def given_in(self) -> Counter[Any]:
        """How many answers are given in each context."""
        return Counter(one.question.context for one in self.given)

    def links(self, sizes: Mapping[Any, int]) -> dict[Any, int]:
        """How many pairs join the new items of each context with the others."""
        new = {context: self.new.get(context, 0) for context in sizes}
        return {context: new[context] if new[context] < size else size - 1 for context, size in sizes.items()}

    def more(self, by_context: Mapping[Any, tuple[int, Orders]]) -> int:
        """Of the calls of all contexts, how many are not given."""
        return sum(number for number, _ in by_context.values()) - len(self.given)
