"""Draws: K of the recorded comparisons of every context, drawn many times, as if only these had been made.

K counts calls. Asked in both orders, K calls are K/2 pairs; asked in one order, K pairs each in a
random order. Every item is in at least one comparison. S draws of T calls (over all contexts) are an array of
recorded rows, shape (S, T), in the order of the contexts.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from comparo.data.columns import shown
from comparo.data.comparisons import Comparisons
from comparo.selection.defaults import Orders
from comparo.studies.recorded import Recorded
from comparo.studies.subsets import Group
from comparo.types import Index

Strategy = Literal["random", "greedy"]

ENOUGH = 0.95  # share of the requested calls that is enough to count as all of them


@dataclass(frozen=True, eq=False)
class Draws:
    """S draws from `recorded`: `rows` (S, T) are recorded comparisons; `whole` where every draw is all of them.

    `calls` (C,) is how many each context has.
    """

    recorded: Recorded
    rows: NDArray[np.int32]
    calls: NDArray[np.int64]
    whole: bool = False

    def __len__(self) -> int:
        return len(self.rows)

    def together(self, draws: slice = slice(None)) -> Comparisons:
        """The comparisons of several draws as one set, where context code draw·C + context is a context of its own.

        Items keep their codes, so that item i of one context is item i of every other.
        """
        recorded, rows = self.recorded, self.rows[draws]
        contexts = len(recorded.contexts)
        number = np.arange(len(rows), dtype=np.int32)[:, None]
        context = number * contexts + np.repeat(np.arange(contexts, dtype=np.int32), self.calls)
        return self._taken(rows.ravel(), np.arange(len(rows) * contexts), context.ravel())

    def one(self, draw: int) -> Comparisons:
        """The comparisons of one draw, contexts with the labels they have."""
        contexts = np.arange(len(self.recorded.contexts), dtype=np.int32)
        return self._taken(self.rows[draw], self.recorded.contexts, np.repeat(contexts, self.calls))

    def _taken(self, rows: Index, contexts: NDArray[np.generic], context: Index) -> Comparisons:
        recorded = self.recorded
        first, second = recorded.item[recorded.first[rows]], recorded.item[recorded.second[rows]]
        weight = None if recorded.weight is None else recorded.weight[rows]
        return Comparisons(recorded.items, first, second, recorded.p[rows], weight, contexts, context)


def calls_in(recorded: Recorded, calls: int | str, orders: Orders = "both") -> NDArray[np.int64]:
    """How many calls each context has, shape (C,), for "48", "3n" (three per item) or "all"; at most those recorded.

    In both orders they are even: a pair has two.

    >>> from comparo.studies.recorded import example
    >>> [calls_in(example(), calls).tolist() for calls in (5, "1.5n", "all", "20n")]
    [[4], [4], [6], [6]]
    """
    wanted, most = _asked_for(recorded, calls, orders)
    wanted = np.minimum(wanted, most)
    return wanted - wanted % 2 if orders == "both" else wanted


def reaches(recorded: Recorded, calls: int | str, orders: Orders) -> bool:
    """Whether at least 95% of the requested calls were recorded.

    >>> from comparo.studies.recorded import example
    >>> reaches(example(), 6, "both"), reaches(example(), 6, "one"), reaches(example(), "all", "one")
    (True, False, True)
    """
    wanted, most = _asked_for(recorded, calls, orders)
    return bool(np.sum(np.minimum(wanted, most)) >= ENOUGH * np.sum(wanted))


def _asked_for(recorded: Recorded, calls: int | str, orders: Orders) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """How many calls are asked for in each context, and how many were recorded, shape (C,) each."""
    found = re.fullmatch(r"([1-9]\d*)|(\d+(?:\.\d+)?)n|all", str(calls).strip().lower())
    if found is None or (found[2] and float(found[2]) == 0):
        raise ValueError(f"calls are a number such as 48, a number per item such as 3n, or all, not {str(calls)!r}")
    most = _usable(recorded, orders)[1] * (2 if orders == "both" else 1)
    if found[1]:
        return np.full(len(most), int(found[1]), dtype=np.int64), most
    if found[2]:
        return np.floor(float(found[2]) * np.diff(recorded.starts)).astype(np.int64), most
    return most, most


def draw(
    recorded: Recorded,
    calls: int | str | NDArray[np.int64],
    draws: int,
    *,
    rng: np.random.Generator,
    orders: Orders = "both",
    strategy: Strategy = "random",
) -> Draws:
    """S = `draws` sets of `calls` recorded comparisons for every context, every item in at least one.

    `calls` are what `calls_in` understands, or a number for each context (C,). A "random" set is drawn uniformly from
    all such sets where a hundred tries find one, else as a random cover of the items and uniform others. A "greedy" one
    is the paper's design for shuffled items (`greedy_pairs`); where not every pair was recorded, it is chosen among
    those that were, after a random tree of them. All calls in both orders are the full set, the same in every draw.

    >>> from comparo.studies.recorded import example
    >>> found = draw(example(), 4, 10, rng=np.random.default_rng(0))
    >>> found.rows.shape, found.whole
    ((10, 4), False)
    """
    if draws < 1:
        raise ValueError(f"draws are at least 1, not {draws}")
    for name, value, known in (("orders", orders, Orders), ("strategy", strategy, Strategy)):
        if value not in get_args(known):
            raise ValueError(f"{name} is one of {', '.join(map(repr, get_args(known)))}, not {value!r}")
    pairs, available = _usable(recorded, orders)
    each = 2 if orders == "both" else 1
    counts = calls if isinstance(calls, np.ndarray) else calls_in(recorded, calls, orders)
    wanted = counts // each
    _check(recorded, pairs, available, wanted, orders)
    chosen = np.empty((draws, int(wanted.sum())), dtype=np.int32)
    ends = np.cumsum(wanted)
    for group in _groups(recorded, pairs, available, wanted):
        places = (ends[group.contexts] - group.wanted)[:, None] + np.arange(group.wanted)
        found = group.random(draws, rng) if strategy == "random" else group.greedy(draws, rng)
        chosen[:, places.ravel()] = (found + group.begins[None, :, None]).reshape(draws, -1)
    rows = pairs[chosen]
    if orders == "both":
        return Draws(recorded, rows.reshape(draws, -1), 2 * wanted, bool(np.all(wanted == available)))
    coin = rng.integers(2, size=chosen.shape)[..., None]
    seen = np.take_along_axis(rows, coin, axis=2)
    seen = np.where(seen < 0, np.take_along_axis(rows, 1 - coin, axis=2), seen)
    return Draws(recorded, seen.reshape(draws, -1), wanted)


def _usable(recorded: Recorded, orders: Orders) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """The pairs (P, 2) recorded in these orders, and their number in each context (C,)."""
    pairs = recorded.pairs
    if orders == "both":
        pairs = pairs[pairs.min(axis=1) >= 0]
    context = recorded.context[recorded.first[pairs.max(axis=1)]]
    return pairs, np.bincount(context, minlength=len(recorded.contexts))


def _check(
    recorded: Recorded,
    pairs: NDArray[np.int32],
    available: NDArray[np.int64],
    wanted: NDArray[np.int64],
    orders: Orders,
) -> None:
    """Raise where a context has too few pairs, or an item none."""
    row = pairs.max(axis=1)
    covered = np.zeros(len(recorded.item), dtype=bool)
    covered[recorded.first[row]] = covered[recorded.second[row]] = True
    if not covered.all():
        bad = int(np.argmin(covered))
        name, place = recorded.items[recorded.item[bad]], recorded.contexts[recorded.context[bad]]
        raise ValueError(
            f"item {shown(name)} of context {shown(place)} was never asked in both orders; draw with orders='one', or "
            "record the other order of its pairs"
        )
    least = (np.diff(recorded.starts) + 1) // 2
    if np.any((wanted < least) | (wanted > available)):
        bad = int(np.argmax((wanted < least) | (wanted > available)))
        each = 2 if orders == "both" else 1
        raise ValueError(
            f"context {shown(recorded.contexts[bad])}: {each * int(wanted[bad])} calls cannot be drawn in "
            f"{'both orders' if each == 2 else 'one order'}; from {each * int(least[bad])} (every item once) to "
            f"{each * int(available[bad])} (all that were recorded) can"
        )


def _groups(
    recorded: Recorded, pairs: NDArray[np.int32], available: NDArray[np.int64], wanted: NDArray[np.int64]
) -> Iterator[Group]:
    """Groups of contexts with the same number of items, pairs and wanted pairs."""
    sizes, ends = np.diff(recorded.starts), np.cumsum(available)
    row = pairs.max(axis=1)
    ordered = np.sort(np.column_stack([recorded.first[row], recorded.second[row]]), axis=1)
    kinds, kind = np.unique(np.column_stack([sizes, available, wanted]), axis=0, return_inverse=True)
    for number, (items, count, few) in enumerate(kinds.tolist()):
        contexts = np.flatnonzero(kind.ravel() == number)
        begins = (ends - available)[contexts].astype(np.int32)
        ends_of_pairs = ordered[begins[:, None] + np.arange(count)] - recorded.starts[contexts, None, None]
        yield Group(contexts, begins, ends_of_pairs.astype(np.int32), items, few)
