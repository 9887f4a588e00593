"""Draws: K of the recorded comparisons of every context, drawn many times, as if only these had been made.

K counts calls. Asked in both orders, K calls are K/2 pairs; asked in one order, K pairs each in a random order. Every
item is in at least one comparison. S draws of T calls (over all contexts) are an array of recorded rows, shape (S, T),
in the order of the contexts.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from comparo.data.columns import shown
from comparo.data.comparisons import Comparisons
from comparo.errors import Message
from comparo.model.tuning import LIMITS
from comparo.selection.designs import Orders, merge
from comparo.selection.greedy import Greedy, inverse
from comparo.selection.selector import greedy_pairs
from comparo.studies.recorded import Recorded
from comparo.types import Index, LongIndex, Mask

DrawStrategy = Literal["random", "greedy"]

ENOUGH = 0.95  # share of the requested calls that must be recorded
TRIES = 100  # rounds in which sets that leave an item out are drawn again
ENTRIES = 4_000_000  # random numbers drawn at once


@dataclass(frozen=True, eq=False)
class Group:
    """B contexts of N items each with P pairs, of which m are wanted.

    `contexts` (B,); `begins` (B,) where the pairs of each begin; `pairs` (B, P, 2) the items of each, from 0 to N − 1.
    Sets are positions among a context's pairs, shape (S, B, m), that hold every item. Random sets are drawn together,
    and those that leave an item out are drawn again; where hardly any set holds all items (few pairs per item), a
    random cover of the items is drawn first. The greedy design is the same for every context in which all pairs were
    recorded, up to the order of its items.
    """

    contexts: LongIndex
    begins: Index
    pairs: Index
    items: int
    wanted: int

    def random(self, draws: int, rng: np.random.Generator) -> Index:
        """Sets drawn uniformly among those that hold every item, or nearly so where these are rare."""
        contexts, count = self.pairs.shape[:2]
        found = np.empty((draws * contexts, self.wanted), dtype=np.int32)
        if self.wanted == count:
            found[:] = np.arange(count)
            return found.reshape(draws, contexts, -1)
        missing = np.arange(len(found))
        for _ in range(TRIES):
            for part in np.array_split(missing, -(-len(missing) * count // ENTRIES)):
                keys = rng.random((len(part), count), dtype=np.float32)
                found[part] = np.argsort(keys, axis=1, kind="stable")[:, : self.wanted]
            missing = missing[~self._covers(found[missing], missing % contexts)]
            if not len(missing):
                break
        for number in missing.tolist():
            found[number] = _covering(self.pairs[number % contexts], self.items, self.wanted, rng)
        return found.reshape(draws, contexts, -1)

    def greedy(self, draws: int, rng: np.random.Generator) -> Index:
        """The paper's design for items in shuffled order, a new order for each set."""
        contexts, count = self.pairs.shape[:2]
        if count < self.items * (self.items - 1) // 2:
            every = [pairs for _ in range(draws) for pairs in self.pairs]
            sets = [greedy_among(pairs, self.items, self.wanted, rng) for pairs in every]
            return np.array(sets).reshape(draws, contexts, -1)
        design = greedy_pairs(self.items, self.wanted, rng)
        shuffled = rng.permuted(np.tile(np.arange(self.items), (draws * contexts, 1)), axis=1)
        low, high = np.sort(shuffled[:, design], axis=2).transpose(2, 0, 1)
        chosen: Index = (low * (2 * self.items - low - 1) // 2 + high - low - 1).astype(np.int32)
        return chosen.reshape(draws, contexts, -1)

    def _covers(self, chosen: Index, context: LongIndex) -> Mask:
        """Whether each set (Q, m) of the pairs of its context (Q,) holds every item."""
        covered = np.zeros((len(chosen), self.items), dtype=bool)
        np.put_along_axis(covered, self.pairs[context[:, None], chosen].reshape(len(chosen), -1), True, axis=1)
        return np.asarray(covered.all(axis=1))


def _covering(pairs: Index, items: int, wanted: int, rng: np.random.Generator) -> Index:
    """The positions of `wanted` of the pairs (P, 2): a random cover of the items, and a uniform rest."""
    order = rng.permutation(len(pairs)).tolist()
    ends = pairs.tolist()
    for news in ((1, 2), (2, 1)):  # pairs with at least one new item; or first those with two, then those with one
        open_items, taken = set(range(items)), []
        for least in news:
            for position in order:
                if len(open_items.intersection(ends[position])) >= least:
                    open_items.difference_update(ends[position])
                    taken.append(position)
        if len(taken) <= wanted:
            rest = np.setdiff1d(order, taken)
            return np.concatenate([taken, rng.permutation(rest)[: wanted - len(taken)]]).astype(np.int32)
    raise ValueError(
        f"no {wanted} of the {len(pairs)} recorded pairs were found to hold all {items} items; draw more calls"
    )


def greedy_among(pairs: Index, items: int, wanted: int, rng: np.random.Generator) -> Index:
    """The positions of `wanted` of the pairs (P, 2), x < y: a random spanning tree, then the largest gains.

    The gain is A_xx + A_yy − 2A_xy as in `greedy_pairs`, but only the given pairs are candidates.

    >>> greedy_among(np.array([[0, 1], [1, 2], [2, 3], [0, 3]]), 4, 4, np.random.default_rng(0)).tolist()
    [0, 1, 2, 3]
    """
    if items > LIMITS.exact:
        raise ValueError(
            f"greedy draws among recorded pairs take at most {LIMITS.exact} items per context; draw at random"
        )
    component, tree = np.arange(items), []
    for position in rng.permutation(len(pairs)).tolist():
        x, y = component[pairs[position]]
        if x != y:
            component[component == y] = x
            tree.append(position)
    if wanted < len(tree):
        raise ValueError(f"{wanted} pairs cannot connect {items} items; draw at least {len(tree)}, or at random")
    first, second = np.ascontiguousarray(pairs[tree].T)
    ridge = np.zeros(items)
    ridge[np.unique(merge(np.arange(items), pairs[tree]), return_index=True)[1]] = 1.0
    free = np.zeros((items, items), dtype=bool)
    free[tuple(pairs.T)] = True
    free[first, second] = False
    greedy = Greedy(inverse(first, second, np.ones(len(tree)), ridge), free)
    position_of = {pair: number for number, pair in enumerate(map(tuple, pairs.tolist()))}
    picked = [position_of[greedy.pick()] for _ in range(wanted - len(tree))]
    return np.sort(np.array(tree + picked, dtype=np.int32))


@dataclass(frozen=True, eq=False)
class Draws:
    """S draws from `recorded`: `rows` (S, T) are recorded comparisons; `whole` if every draw has all of them.

    `calls` (C,) is the number of calls in each context.
    """

    recorded: Recorded
    rows: Index
    calls: LongIndex
    whole: bool = False

    def __len__(self) -> int:
        return len(self.rows)

    def together(self, draws: slice = slice(None)) -> Comparisons:
        """The comparisons of several draws as one set, in which draw·C + context is the code of the context.

        Items keep their codes: item i of one context is item i of every other.
        """
        recorded, rows = self.recorded, self.rows[draws]
        contexts = len(recorded.contexts)
        number = np.arange(len(rows), dtype=np.int32)[:, None]
        context = number * contexts + np.repeat(np.arange(contexts, dtype=np.int32), self.calls)
        taken = rows.ravel()
        first, second = recorded.item[recorded.first[taken]], recorded.item[recorded.second[taken]]
        weight = None if recorded.weight is None else recorded.weight[taken]
        labels = np.arange(len(rows) * contexts)
        return Comparisons(recorded.items, first, second, recorded.p[taken], weight, labels, context.ravel())

    def one(self, draw: int) -> Comparisons:
        """The comparisons of one draw, with the recorded labels of contexts."""
        return replace(self.together(slice(draw, draw + 1)), contexts=self.recorded.contexts)


def calls_in(recorded: Recorded, calls: int | str, orders: Orders = "both") -> LongIndex:
    """The calls in each context, shape (C,), for "48", "3n" (three per item) or "all"; at most those recorded.

    In both orders the number is even: a pair takes two calls.

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


def _asked_for(recorded: Recorded, calls: int | str, orders: Orders) -> tuple[LongIndex, LongIndex]:
    """The number of calls requested in each context, and of calls recorded, shape (C,) each."""
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
    calls: int | str,
    draws: int,
    *,
    rng: np.random.Generator,
    orders: Orders = "both",
    strategy: DrawStrategy = "random",
) -> Draws:
    """S = `draws` sets of `calls` recorded comparisons for every context, every item in at least one.

    `calls` has a form that `calls_in` reads. A "random" set is drawn uniformly from all such sets where a hundred tries
    find one, else as a random cover of the items and uniform others. A "greedy" set is the paper's design for shuffled
    items (`greedy_pairs`); where not every pair was recorded, it extends a random spanning tree of the recorded pairs.
    All recorded calls in both orders are the full set, the same in every draw.

    >>> from comparo.studies.recorded import example
    >>> found = draw(example(), 4, 10, rng=np.random.default_rng(0))
    >>> found.rows.shape, found.whole
    ((10, 4), False)
    """
    if draws < 1:
        raise ValueError(f"draws are at least 1, not {draws}")
    pairs, available = _usable(recorded, orders)
    each = 2 if orders == "both" else 1
    wanted = calls_in(recorded, calls, orders) // each
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


def _usable(recorded: Recorded, orders: Orders) -> tuple[Index, LongIndex]:
    """The pairs (P, 2) recorded in these orders, and their number in each context (C,)."""
    pairs = recorded.pairs
    if orders == "both":
        pairs = pairs[pairs.min(axis=1) >= 0]
    context = recorded.context[recorded.first[pairs.max(axis=1)]]
    return pairs, np.bincount(context, minlength=len(recorded.contexts))


def _check(
    recorded: Recorded,
    pairs: Index,
    available: LongIndex,
    wanted: LongIndex,
    orders: Orders,
) -> None:
    """Raise where a context has too few pairs, or an item none."""
    row = pairs.max(axis=1)
    covered = np.zeros(len(recorded.item), dtype=bool)
    covered[recorded.first[row]] = covered[recorded.second[row]] = True
    if not covered.all():
        bad = int(np.argmin(covered))
        name, place = recorded.items[recorded.item[bad]], recorded.contexts[recorded.context[bad]]
        remedy = Message("draw with {orders:'one'}, or record the other order of its pairs")
        raise ValueError(f"item {shown(name)} of context {shown(place)} was never asked in both orders; " + remedy)
    least = (np.diff(recorded.starts) + 1) // 2
    if np.any(wanted < least):
        bad = int(np.argmax(wanted < least))
        each = 2 if orders == "both" else 1
        raise ValueError(
            f"context {shown(recorded.contexts[bad])}: {each * int(wanted[bad])} calls cannot be drawn in "
            f"{'both orders' if each == 2 else 'one order'}; from {each * int(least[bad])} (every item once) to "
            f"{each * int(available[bad])} (all that were recorded) can"
        )


def _groups(recorded: Recorded, pairs: Index, available: LongIndex, wanted: LongIndex) -> Iterator[Group]:
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
