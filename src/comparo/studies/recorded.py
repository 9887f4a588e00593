"""Recorded judgements and people's scores as arrays, from which every study of few comparisons draws.

n candidates (items of C contexts) and R ordered comparisons of them are sorted by context. A pair is two candidates
asked in one order or in both. `open_set` finds the files of a data set: items, and judgements of each attribute.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comparo.data.columns import Table, factorise, look_up, shown
from comparo.data.comparisons import Comparisons
from comparo.data.formats import READ
from comparo.data.items import Items
from comparo.errors import ComparisonsError, Message
from comparo.types import Array, Index, LongIndex, Mask


@dataclass(frozen=True, eq=False)
class Recorded:
    """R recorded comparisons of n candidates, and the score that people gave each.

    `items` (M,) and `contexts` (C,) are labels; `item` (n,) is a code into `items`, `starts` (C + 1,) says where
    the candidates of each context begin; `human` (n,) is NaN where people gave no score. `first` and `second` (R,) are
    candidates, `p` and `weight` (R,) as in `Comparisons`. `notes` say what was left out. `of` checks its arguments.

    >>> texts = [{"id": name, "text": "…", "score": score} for name, score in zip("abc", (3, 1, 2))]
    >>> recorded = Recorded.of([("a", "b", 0.8), ("b", "a", 0.3), ("b", "c", 0.4)], Items.of(texts), "score")
    >>> recorded.human, recorded.pairs.tolist()
    (array([3., 1., 2.]), [[0, 1], [2, -1]])
    """

    items: NDArray[Any]
    contexts: NDArray[Any]
    item: Index
    starts: LongIndex
    human: Array
    first: Index
    second: Index
    p: Array
    weight: Array | None = field(default=None, repr=False)
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, judgements: Any, items: Items, attribute: str) -> Recorded:
        """The judgements (anything that `Comparisons.of` reads) of `items`, with people's scores for `attribute`.

        Labels are compared as text. A comparison recorded several times counts once, with its mean p and the sum of
        its weights; an item that was never compared is left out.
        """
        if attribute not in items.scores:
            known = ", ".join(items.scores) or "none"
            remedy = Message("Name it by {columns.scores:'NAME'}")
            raise ComparisonsError(f"the items have no human scores {attribute!r}; they have {known}. " + remedy)
        data = Comparisons.of(judgements)
        rows = _matched(data, items)
        order = np.lexsort((rows[1], rows[0], items.context[rows[0]]))
        key = (rows[0] * np.int64(len(items)) + rows[1])[order]
        begins = np.diff(key, prepend=-1) != 0
        which, weights = np.cumsum(begins) - 1, data.weights[order]
        total = np.bincount(which, weights).astype(np.float64)
        if np.min(total) <= 0:
            bad = int(order[begins][np.argmin(total)])
            raise ComparisonsError(f"judgement {bad + 1} has weight 0, so it has no effect; drop such rows")
        rows = rows[:, order[begins]]
        candidates = np.unique(rows)
        candidates = candidates[np.argsort(items.context[candidates], kind="stable")]
        place = np.empty(len(items), dtype=np.int32)
        place[candidates] = np.arange(len(candidates))
        used, sizes = np.unique(items.context[candidates], return_counts=True)
        labels, (item,) = factorise(Table({"id": items.ids[candidates]}), "id")
        found = cls(
            items=labels,
            contexts=items.contexts[used],
            item=item,
            starts=np.concatenate([[0], np.cumsum(sizes)]),
            human=items.scores[attribute][candidates],
            first=place[rows[0]],
            second=place[rows[1]],
            p=np.bincount(which, weights * data.p[order]) / total,
            weight=total if data.weight is not None or len(total) < len(data) else None,
        )
        if not found.has_spread.any():
            raise ComparisonsError(
                f"people gave all items of every context the same {attribute!r}: there is nothing to "
                "correlate with; " + Message("choose others with {columns.scores:'NAME'}")
            )
        return replace(found, notes=tuple(_notes(found, len(items))))

    def __len__(self) -> int:
        return len(self.p)

    @cached_property
    def context(self) -> Index:
        """The context's code of each candidate, shape (n,)."""
        return np.repeat(np.arange(len(self.contexts), dtype=np.int32), np.diff(self.starts))

    @cached_property
    def has_spread(self) -> Mask:
        """Whether people gave the items of a context different scores, shape (C,)."""
        lowest = np.fmin.reduceat(self.human, self.starts[:-1])
        return np.fmax.reduceat(self.human, self.starts[:-1]) > lowest

    @cached_property
    def pairs(self) -> Index:
        """The two rows of each pair, (P, 2): lower candidate shown first, then second; −1 where not asked.

        Pairs are sorted by context, then by candidates.
        """
        low, high = np.minimum(self.first, self.second), np.maximum(self.first, self.second)
        key = low.astype(np.int64) * len(self.item) + high
        _, pair = np.unique(key, return_inverse=True)
        rows = np.full((int(pair.max()) + 1, 2), -1, dtype=np.int32)
        rows[pair, (self.first > self.second).astype(int)] = np.arange(len(self), dtype=np.int32)
        return rows


def example() -> Recorded:
    """Recorded comparisons of three texts in every order, by a judge who agrees with people: for examples."""
    texts = [{"id": name, "text": "…", "score": score} for name, score in zip("abc", (3, 1, 2), strict=True)]
    rows = [("a", "b", 0.9), ("b", "a", 0.2), ("a", "c", 0.8), ("c", "a", 0.3), ("b", "c", 0.3), ("c", "b", 0.8)]
    return Recorded.of(rows, Items.of(texts), "score")


def _notes(recorded: Recorded, items: int) -> Iterator[str]:
    if left_out := items - len(recorded.item):
        yield f"{left_out} of {items} items were never compared and are left out"
    if unscored := int(np.count_nonzero(np.isnan(recorded.human))):
        yield f"{unscored} of {len(recorded.human)} items have no human score and count in no correlation"
    if alike := int(np.count_nonzero(~recorded.has_spread)):
        contexts = len(recorded.contexts)
        yield f"{alike} of {contexts} contexts count in no mean: people gave all of their items the same score"


def _matched(data: Comparisons, items: Items) -> LongIndex:
    """The rows of `items` that are the first and the second of each comparison, shape (2, K)."""
    alone = len(items.contexts) == 1 and (data.contexts is None or len(data.contexts) == 1)
    if data.contexts is None and not alone:
        raise ComparisonsError("the items have contexts and the judgements have none; add a column context to them")
    columns = data.to_columns()
    contexts = [""] * len(data) if alone else list(map(str, columns["context"].tolist()))
    labels = [("" if alone else str(context), str(label)) for context, label in items.labels]
    compared = [zip(contexts, map(str, columns[side].tolist()), strict=True) for side in ("first", "second")]
    rows = look_up(chain(*compared), labels).astype(np.int64).reshape(2, -1)
    if rows.min() < 0:
        side, bad = (int(index[0]) for index in np.nonzero(rows < 0))
        name = columns[("first", "second")[side]][bad]
        place = f" in context {shown(contexts[bad])}" if contexts[bad] else ""
        raise ComparisonsError(
            f"judgement {bad + 1} is of {shown(name)}{place}, which is not among the items; are these the judgements "
            "of these items?"
        )
    return rows


ENDINGS = tuple(f"{kind}{packed}" for kind in READ for packed in ("", ".gz"))


@dataclass(frozen=True, eq=False)
class Opened:
    """A set's name, its items, and the recorded judgements by attribute."""

    name: str
    items: Items = field(repr=False)
    recorded: Mapping[str, Recorded]


def open_set(
    path: str | os.PathLike[str],
    judgements: str | os.PathLike[str] | None = None,
    *,
    attributes: Iterable[str] = (),
    items: Items | None = None,
) -> Opened:
    """A file of items with people's scores, with its recorded judgements.

    `judgements` is a file of comparisons, for one attribute, or a folder with NAME.ATTRIBUTE.csv.gz (or another ending
    that `Comparisons.read` knows), where NAME is the name of the file without its endings; by default the folder
    `judgements` beside the file. Without `attributes`, all that have judgements are used. `items` are the file's items,
    if they were read before.

    >>> open_set("nothing.jsonl")
    Traceback (most recent call last):
    ValueError: nothing.jsonl is not there; give a file of items with people's scores
    """
    file = Path(path)
    if not file.exists():
        raise ValueError(f"{file} is not there; give a file of items with people's scores")
    name, texts = file.name.split(".")[0], Items.of(file) if items is None else items
    if not texts.scores:
        raise ComparisonsError(f"{file} has no human scores; " + Message("name others with {columns.scores:'NAME'}"))
    wanted = tuple(attributes)
    if unknown := [attribute for attribute in wanted if attribute not in texts.scores]:
        raise ComparisonsError(f"{name} has no human scores {unknown[0]!r}; it has {', '.join(texts.scores)}")
    place = file.parent / "judgements" if judgements is None else Path(judgements)
    files = _judged(name, place, wanted or tuple(texts.scores), bool(wanted))
    return Opened(name, texts, {attribute: Recorded.of(path, texts, attribute) for attribute, path in files.items()})


def _named(place: Path, stem: str) -> Path | None:
    return next((file for ending in ENDINGS if (file := place / f"{stem}{ending}").is_file()), None)


def _judged(name: str, place: Path, attributes: tuple[str, ...], named: bool) -> dict[str, Path]:
    """The file of judgements of each attribute; unless `named`, attributes without a file are left out."""
    first = attributes[0]
    remedy = (
        "a study draws from judgements recorded before. Make them for each attribute: `comparo plan ITEMS --next "
        "CALLS --strategy random --orders both > pairs.csv`, then `comparo judge pairs.csv --items ITEMS --criterion … "
        f"> {name}.{first}.csv`"
    )
    if place.is_file():
        if len(attributes) > 1:
            which = Message("say which with {attribute}: ") + ", ".join(attributes)
            raise ValueError(f"{place} holds the judgements of one attribute; " + which)
        return {first: place}
    files = ((attribute, _named(place, f"{name}.{attribute}")) for attribute in attributes)
    found = {attribute: file for attribute, file in files if file is not None}
    missing = [attribute for attribute in attributes if attribute not in found]
    if missing and (named or not found):
        raise ValueError(f"there are no judgements {name}.{missing[0]}.csv (or .csv.gz, …) in {place}; {remedy}")
    return found
