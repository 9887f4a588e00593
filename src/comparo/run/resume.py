"""New items into a run that is there: from a task and a folder to a task that has grown, and its store.

`grown` compares the items of a task with those of the folder. It returns the task with all items, the answers that are
there as given, and a budget for what is new. `open_grown` writes the change to the folder in one transaction, so that a
process that is killed leaves a folder that has grown or one that has not; the same command then goes on.

How a run grows: what is new, what was answered before, and how many calls that allows.

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

Items as a run folder stores them, and the items of a folder together with those that a user gives.
"""

from __future__ import annotations

import json
import sqlite3
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from comparo.data.columns import shown
from comparo.data.comparisons import Comparisons
from comparo.data.items import Items
from comparo.data.run_folder import DATABASE, Key, clean, decode, encode, key_of, named_rows, table_of_rows
from comparo.errors import StoreError, WrongFolderError
from comparo.judges import Judgement
from comparo.ranking.display import Grown
from comparo.ranking.ranking import Ranking
from comparo.rounding import merge_ties
from comparo.run.budget import Budget, paid_and_spent, rounded
from comparo.run.store import (
    KEPT,
    Label,
    Store,
    differences,
    item_rows,
    numbered_judgements,
    read_configuration,
    reading,
    stored_items,
    stored_judgements,
    texts_of,
)
from comparo.run.voices import comparisons
from comparo.selection.designs import Orders
from comparo.types import Array, Mask

if TYPE_CHECKING:
    from comparo.run.task import Task


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
        reference = {} if self.first is None else _scores_of(rank(self.first))
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


def _scores_of(ranking: Ranking) -> dict[Label, float]:
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
        rows = named_rows(connection, "SELECT number AS place, * FROM items")
        rows += named_rows(connection, "SELECT * FROM former")
        growths = connection.execute("SELECT judgements, left_out FROM growths ORDER BY number").fetchall()
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
        return {(row["context"], row["id"]): row["since"] for row in self._there(growth)}

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
        return [row for row in self.rows if (row["since"]) <= growth < row.get("until", growth + 1)]


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


def merged(stored: Items, given: Items, left: Collection[Label]) -> Items:
    """The items that are stored, but for those that are `left`, in their order, and behind them those that are given.

    What both have is taken as it is given, with its scores, group and numbers. Items that are stored and not given keep
    what is stored of them.

    >>> stored, given = Items.of({"ana": "A story.", "bo": "Another."}), Items.of({"cy": "A third.", "bo": "Another."})
    >>> merged(stored, given, ()).ids.tolist()
    ['ana', 'bo', 'cy']

    Raises
    ------
    ValueError
        If one of the two has groups, or a number that is held equal, and the other has not, or if a context has
        another text in each.
    """
    old, new = ({label: (of, row) for row, label in enumerate(texts_of(of))} for of in (stored, given))
    kept = {label: new.get(label, place) for label, place in old.items() if label not in left}
    places = kept | {label: place for label, place in new.items() if label not in kept}
    rows = list(places.values())
    if any(of is stored for of, _ in rows):
        _check_alike(stored, given)
    contexts: dict[str, tuple[Items, int]] = {}
    for (context, _), (of, row) in places.items():
        number = int(of.context[row])
        known, at = contexts.get(context, (of, number))
        if known is not of and clean(known.context_texts[at] or "") != clean(of.context_texts[number] or ""):
            raise ValueError(
                f"context {shown(of.contexts[number])} has another text in the run; give it as it is there"
            )
        contexts[context] = of, number
    code = {context: number for number, context in enumerate(contexts)}
    names = {id(of): of.ids.tolist() for of in (stored, given)}

    def numbers(name: str, column: str) -> NDArray[np.float64]:
        values = ((getattr(of, column).get(name), row) for of, row in rows)
        return np.array([np.nan if found is None else found[row] for found, row in values])

    return Items(
        _objects([names[id(of)][row] for of, row in rows]),
        tuple(of.texts[row] for of, row in rows),
        _objects([of.contexts.tolist()[number] for of, number in contexts.values()]),
        np.array([code[context] for context, _ in places], dtype=np.int32),
        tuple(of.context_texts[number] for of, number in contexts.values()),
        {name: numbers(name, "scores") for name in dict.fromkeys([*given.scores, *stored.scores])},
        None if given.group is None else _objects([of.group[row] for of, row in rows if of.group is not None]),
        {name: numbers(name, "numbers") for name in given.numbers},
    )


def _check_alike(stored: Items, given: Items) -> None:
    """Raise a ValueError where items that are stored only lack what the others have, or the other way round."""
    if (stored.group is None) != (given.group is None):
        has, lack = ("the items of the run", "the new ones") if given.group is None else ("the new items", "the run's")
        raise ValueError(f"{has} have groups and {lack} have none; give all items in one file, with --group")
    if missing := [name for name in given.numbers if name not in stored.numbers]:
        raise ValueError(f"the items of the run have no numbers {missing[0]!r}; give all items in one file")


def _objects(labels: Sequence[Any]) -> NDArray[Any]:
    found = np.empty(len(labels), dtype=object)
    found[:] = labels
    return found


DIFFERS = ("items", "audition")  # in what the identity of a run that grows may differ from that of its folder
NAMED = 3  # items that a message names


@dataclass(frozen=True)
class Change:
    """How the items that are given differ from those of a folder."""

    added: tuple[Label, ...]
    changed: tuple[Label, ...]
    removed: tuple[Label, ...]

    @classmethod
    def between(cls, stored: Items, given: Items, last: frozenset[Label]) -> Change:
        """The change from the stored items to those given; `last` are those that the last growth brought.

        Where none of the stored items is given, or only those of the last growth are, the others stay.
        """
        old, new = texts_of(stored), texts_of(given)
        changed = tuple(label for label in old if label in new and old[label][1:] != new[label][1:])
        others = old.keys() - new.keys()
        adds_only = others == old.keys() or (bool(last) and new.keys() == last and not changed)
        removed = () if adds_only else tuple(label for label in old if label in others)
        return cls(tuple(label for label in new if label not in old), changed, removed)

    def described(self, with_added: bool = False) -> str:
        """How many items were removed, changed and, if wanted, added, with the first names."""
        kinds = [(self.removed, "not given now"), (self.changed, "with another text now")]
        kinds += [(self.added, "more now")] if with_added else []
        parts = []
        for labels, what in kinds:
            if labels:
                names = ", ".join(shown(decode(item)) for _, item in labels[:NAMED])
                more = ", …" if len(labels) > NAMED else ""
                parts.append(f"{len(labels):,} item{'s' if len(labels) > 1 else ''} {what} ({names}{more})")
        return " and ".join(parts)


def grown(task: Task, folder: Path | None, allow_changes: bool = False) -> Task:
    """The task of a folder with the items that are there and those that are given; the same task for another folder.

    Raises
    ------
    WrongFolderError
        If the run is of another judge, prompt or way to choose pairs, or if texts were changed or removed and that is
        not allowed.
    ValueError
        If the goal is about groups, or the new items lack what the others have.
    """
    if folder is None or not (folder / DATABASE).is_file():
        return task
    with reading(folder) as connection:
        if (growths := count_growths(connection)) is None:
            return task
        configuration = read_configuration(folder)
        before, now = configuration["identity"], json.loads(json.dumps(task.identity, default=str))
        if not growths and before.get("items") == now["items"]:
            return task
    if before == now and len(stored_items(folder)) < len(task.items):  # damage took some, so that none of them is new
        with closing(Store(folder, before, configuration)) as store:
            store.add_items(task.items)
    with reading(folder) as connection:
        history = History.read(connection, str(folder))
        stood = list(stored_judgements(connection))
        (mark,) = connection.execute("SELECT coalesce(max(number), 0) FROM judgements").fetchone()
    since = history.since(history.growth)
    last = frozenset(label for label, growth in since.items() if growth == history.growth > 0)
    stored = stored_items(folder)
    change = Change.between(stored, task.items, last)
    if differing := differences(before, now, DIFFERS):
        raise WrongFolderError(
            f"{folder} holds another run: {'; '.join(differing)}. To add items to it, give its judge, criterion and "
            "options; else choose another --out, or start anew with --fresh"
        )
    if (change.changed or change.removed) and not allow_changes:
        raise WrongFolderError(_refusal(folder, change))
    gone = {*change.changed, *change.removed}
    if gone >= since.keys():
        raise WrongFolderError(f"no item of {folder} is as it was, so nothing of it can be used; choose another --out")
    items = merged(stored, task.items, gone)
    if not (change.added or gone or history.growth):
        return replace(task, items=items)
    if task.compares_groups:
        raise ValueError(f"a run with --goal {task.goal} cannot grow; rank all items in another --out")
    is_new = bool(change.added or gone)
    new = {*change.added, *change.changed} if is_new else last
    counts = Counter(context for context, _ in new)
    limit = mark if is_new else history.marks[-1]
    kept = [(number, one) for number, _, one in stood if number <= limit]
    left = sum(bool(gone & set(_labels(one))) for _, one in kept)
    given = tuple(answers_about(items, (one for _, one in kept if not gone & set(_labels(one)))).values())
    if not given:
        raise WrongFolderError(
            f"{folder} holds no answers to go by, so there is no ranking to add to; finish it with the items that it "
            "has, or start anew with --fresh"
        )
    number = history.growth + is_new
    growth = Growth(
        number,
        items.digest() if is_new else before["items"],
        {context: counts[label] for label, context in _contexts(items).items()},
        given,
        paid_and_spent(one for _, one in kept),
        before.get("audition"),
        history.past(number, left if is_new else history.left_out, gone),
        mark,
        change.changed,
        change.removed,
        configuration if is_new else None,
    )
    return replace(task, items=items, given=given, growth=growth)


def items_there(folder: Path) -> Items | None:
    """The items of a run to which others may be added; None where there is no such run."""
    if not (folder / DATABASE).is_file():
        return None
    with reading(folder) as connection:
        if count_growths(connection) is None:
            return None
    return stored_items(folder)


def open_grown(folder: Path | None, task: Task, notes: Mapping[str, Any]) -> Store:
    """The store of a task in its folder; where the task grows, the folder has grown when this returns."""
    now, growth = {**task.configuration, **notes}, task.growth
    if growth is None or growth.configuration is None:
        return Store(folder, task.identity, now)
    before = dict(growth.configuration)
    store = Store(folder, before.pop("identity"), before)
    try:
        kept = {name: before[name] for name in KEPT if name in before}
        identity = json.loads(json.dumps(task.identity, default=str))
        store.change(partial(_write, str(folder), growth, task.items), {"identity": identity, **now, **kept})
    except BaseException:
        store.close()
        raise
    return store


def growth_sentence(task: Task) -> str:
    """What a growth adds and leaves out, before anything is asked; "" for a run that does not grow now."""
    growth = task.growth
    if growth is None:
        return ""
    new = sum(growth.new.values())
    gone = len(growth.changed) + len(growth.removed)
    left = f", {growth.past.left_out:,} judgements about {gone:,} changed or removed texts are left out" if gone else ""
    return f"{new:,} of {len(task.items):,} items are new, {len(growth.given):,} answers from before count{left}"


def _labels(judgement: Judgement) -> tuple[Label, Label]:
    context, first, second, _ = key_of(judgement.question)
    return (context, first), (context, second)


def answers_about(
    items: Items, judgements: Iterable[Judgement], voices: Mapping[str | None, str | None] | None = None
) -> dict[Key, Judgement]:
    """The last answer to each question, as a question about these items; `voices` has the names of those that count."""
    labels = {label: names for label, (names, *_) in texts_of(items).items()}
    found = {}
    for one in judgements:
        voice = one.question.voice
        if not one.failed and (voices is None or voice in voices):
            (context, first), (_, second) = (labels[label] for label in _labels(one))
            question = items.question(context, first, second)
            question = replace(question, voice=voice if voices is None else voices[voice])
            found[key_of(question)] = replace(one, question=question)
    return found


def _contexts(items: Items) -> dict[str, Any]:
    return {label: names[0] for (label, _), (names, *_) in texts_of(items).items()}


def _refusal(folder: Path, change: Change) -> str:
    return (
        f"{folder} has {change.described()}. Give them as they were; or add --allow-changes, which leaves the "
        "judgements about them out of the ranking and keeps them in the folder; or choose another --out"
    )


def _write(folder: str, growth: Growth, items: Items, connection: sqlite3.Connection) -> None:
    """Change the tables of a run; a StoreError where another process has changed them since they were read."""
    (mark,) = connection.execute("SELECT coalesce(max(number), 0) FROM judgements").fetchone()
    (growths,) = connection.execute("SELECT count(*) FROM growths").fetchone()
    if (mark, growths) != (growth.mark, growth.number - 1):
        raise StoreError(f"{folder} was changed by another process in the meantime; run the same command again")
    at = datetime.now(UTC).isoformat(timespec="seconds")
    connection.execute("INSERT INTO growths VALUES (?, ?, ?, ?)", (growth.number, at, mark, growth.past.left_out))
    for label in (*growth.changed, *growth.removed):
        connection.execute(
            "INSERT INTO former (place, context, context_text, id, text, scores, shared, since, until) "
            "SELECT items.number, items.context, contexts.text, id, items.text, scores, shared, since, ? "
            "FROM items JOIN contexts ON contexts.context = items.context WHERE items.context = ? AND id = ?",
            (growth.number, *label),
        )
        connection.execute("DELETE FROM items WHERE context = ? AND id = ?", label)
        connection.execute(
            "UPDATE judgements SET withdrawn = 1 WHERE context = ? AND ? IN (first, second)",
            label,
        )
    rows = connection.execute("SELECT number, context, id FROM items")
    there = {(context, name): number for number, context, name in rows}
    contexts, items_now = item_rows(items)
    connection.executemany("INSERT OR REPLACE INTO contexts VALUES (?, ?)", contexts)
    for context, name, text, scores, shared in items_now:
        if (number := there.get((context, name))) is not None:
            connection.execute("UPDATE items SET scores = ?, shared = ? WHERE number = ?", (scores, shared, number))
        else:
            connection.execute(
                "INSERT INTO items (context, id, text, scores, shared, since) VALUES (?, ?, ?, ?, ?, ?)",
                (context, name, text, scores, shared, growth.number),
            )
