"""Sets of m of the P pairs of a context that hold every one of its N items, for many contexts and draws at once.

Random sets are drawn together, and those that leave an item out are drawn again; where hardly any set holds all items
(few pairs per item), a random cover of the items is drawn first. The greedy design is the same for every context in
which all pairs were recorded, up to the order of its items.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from comparo.model.limits import LIMITS
from comparo.selection.designs import merge
from comparo.selection.greedy import Greedy, inverse
from comparo.selection.selector import greedy_pairs
from comparo.types import Index

TRIES = 100  # rounds in which sets that leave an item out are drawn again
ENTRIES = 4_000_000  # random numbers drawn at once


@dataclass(frozen=True, eq=False)
class Group:
    """B contexts of N items each with P pairs, of which m are wanted.

    `contexts` (B,); `begins` (B,) where the pairs of each begin; `pairs` (B, P, 2) the items of each, from 0 to N − 1.
    Sets are positions among a context's pairs, shape (S, B, m).
    """

    contexts: NDArray[np.int64]
    begins: NDArray[np.int32]
    pairs: NDArray[np.int32]
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
                found[part] = np.argpartition(keys, self.wanted - 1, axis=1)[:, : self.wanted]
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
            sets = [
                greedy_among(self.pairs[c], self.items, self.wanted, rng) for _ in range(draws) for c in range(contexts)
            ]
            return np.array(sets).reshape(draws, contexts, -1)
        design = greedy_pairs(self.items, self.wanted, rng)
        shuffled = rng.permuted(np.tile(np.arange(self.items), (draws * contexts, 1)), axis=1)
        low, high = np.sort(shuffled[:, design], axis=2).transpose(2, 0, 1)
        chosen: Index = (low * (2 * self.items - low - 1) // 2 + high - low - 1).astype(np.int32)
        return chosen.reshape(draws, contexts, -1)

    def _covers(self, chosen: Index, context: NDArray[np.int64]) -> NDArray[np.bool_]:
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
    """The positions of `wanted` of the pairs (P, 2), x < y, of N items: a random tree of them, then the largest gains.

    The gain is A_xx + A_yy − 2A_xy as in `greedy_pairs`, but only the given pairs are looked at.

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
