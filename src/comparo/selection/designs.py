"""Designs: which pairs to compare before any answer is known, in which order to show them, and the shared defaults.

A pair (x, y) is two items by their codes; `in_one_order` and `in_both_orders` decide which is shown first.

`comparo.rank`, `Selector`, `next_pairs`, `plan` and the commands `comparo rank` and `comparo plan`
share the defaults below, whose measurements are in docs/defaults.md.
"""

import re
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from comparo.errors import Message, OptionError, named
from comparo.types import Index, LongIndex, Mask, Seed, as_generator

Pairs = Index

TRIES = 100  # most random sets drawn until one is valid
DRAWN = 1_000_000  # pairs drawn in all tries together


def random_pairs(items: int, pairs: int, seed: Seed = None) -> Pairs:
    """K different random pairs of N items, each item in at least one of them, connected if K ≥ N − 1.

    The set is uniform among all such sets if a few random sets include one. Otherwise, as with few pairs per item, it
    is a uniform spanning tree plus uniform other pairs; below N − 1 pairs, it is random pairs to which the other items
    are joined at random.

    Parameters
    ----------
    items : N, the number of items.
    pairs : K ≥ N/2, the number of pairs.
    seed : A whole number or a generator.

    Returns
    -------
    The codes of the items of each pair, shape (K, 2).

    Examples
    --------
    >>> random_pairs(4, 6, seed=0).shape
    (6, 2)
    """
    check_number(items, pairs)
    rng = as_generator(seed)
    if 2 * pairs < items:
        raise ValueError(f"{pairs} pairs cannot hold {items} items; draw at least {(items + 1) // 2} pairs")
    apart, none = np.arange(items), np.empty(0, dtype=np.int64)
    if pairs >= items - 1:
        return connect(apart, none, pairs, rng)
    for _ in range(_tries(pairs)):
        drawn = draw(items, none, pairs, rng)
        if np.bincount(drawn.ravel(), minlength=items).all():
            return drawn
    return forest(apart, pairs, rng)


def in_one_order(pairs: Pairs, items: int, seed: Seed = None) -> Pairs:
    """Each pair in one order: each item is first and second equally often, to within one.

    Parameters
    ----------
    pairs : The codes of the items of each pair, shape (K, 2).
    items : N, the number of items.
    seed : A whole number or a generator.

    Returns
    -------
    The pairs with the item to show first in the first column, shape (K, 2).

    Examples
    --------
    >>> in_one_order(np.array([[0, 1], [0, 2], [0, 3], [0, 4]]), 5, seed=0)[:, 0].tolist().count(0)
    2
    """
    return orient(pairs, np.zeros(items, dtype=np.int64), as_generator(seed))


def in_both_orders(pairs: Pairs) -> Pairs:
    """Both orders of each pair (K, 2), one after the other: shape (2K, 2).

    Examples
    --------
    >>> in_both_orders(np.array([[0, 1], [1, 2]])).tolist()
    [[0, 1], [1, 0], [1, 2], [2, 1]]
    """
    return np.stack([pairs, pairs[:, ::-1]], axis=1).reshape(-1, 2)


def distinct(codes: LongIndex) -> LongIndex:
    """The different codes in ascending order; by sorting, which is several times as fast as hashing them."""
    ordered = np.sort(codes, kind="stable")  # one pass where a few are added to many that are in order
    return np.asarray(ordered[np.diff(ordered, prepend=-1) != 0])


def among(codes: LongIndex, known: LongIndex) -> Mask:
    """Whether each code is one of the `known`, which are in ascending order; `np.isin` would hash or sort them all.

    >>> among(np.array([5, 2, 9]), np.array([2, 5, 7])).tolist()
    [True, True, False]
    """
    return np.asarray(np.searchsorted(known, codes) < np.searchsorted(known, codes, side="right"))


def check_number(items: int, pairs: int) -> None:
    """Raise a ValueError if `items` items do not make `pairs` pairs."""
    if items < 2:
        raise ValueError(f"there is nothing to compare: {items} items; give at least two")
    if pairs > items * (items - 1) // 2:
        raise ValueError(f"{pairs} pairs are more than the {items * (items - 1) // 2} that {items} items make")


def _tries(pairs: int) -> int:
    return min(TRIES, max(1, DRAWN // pairs))


def draw(items: int, taken: LongIndex, pairs: int, rng: np.random.Generator) -> Pairs:
    """Draw different pairs uniformly, without those in `taken`, sorted codes x·N + y with x < y."""
    if 4 * (pairs + len(taken)) > items * (items - 1) // 2:
        x, y = np.triu_indices(items, 1)
        codes = rng.choice(np.setdiff1d(x * items + y, taken, assume_unique=True), pairs, replace=False)
    else:
        codes = np.empty(0, dtype=np.int64)
        while len(codes) < pairs:
            x, y = np.sort(rng.integers(items, size=(2, 2 * pairs)), axis=0)
            codes = np.concatenate([codes, (x * items + y)[x < y]])
            codes = codes[np.sort(np.unique(codes, return_index=True)[1])]
            codes = codes[~among(codes, taken)]
    return np.column_stack(np.divmod(codes[:pairs], items)).astype(np.int32)


def merge(component: NDArray[np.integer], pairs: Pairs) -> Index:
    """The connected component of each item, numbered from 0, after `pairs` join the components of `component`."""
    number = int(component.max()) + 1
    links = sparse.coo_array((np.ones(len(pairs), dtype=np.int8), component[pairs].T), shape=(number, number))
    return np.asarray(connected_components(links, directed=False)[1][component], dtype=np.int32)


def joining(component: NDArray[np.integer], walk: NDArray[np.integer]) -> Pairs:
    """The steps of `walk`, a sequence of items, that enter a component for the first time, as pairs.

    If the items of the walk are uniform, these pairs are a uniform spanning tree of the components (Aldous, Broder).

    >>> joining(np.arange(3), np.array([2, 0, 2, 1])).tolist()
    [[0, 2], [1, 2]]
    """
    entered = np.sort(np.unique(component[walk], return_index=True)[1])[1:]
    return np.sort(np.column_stack([walk[entered - 1], walk[entered]]), axis=1).astype(np.int32)


def _tree(component: NDArray[np.integer], rng: np.random.Generator) -> Pairs:
    """A uniformly drawn spanning tree of the components, as pairs."""
    items, number = len(component), len(np.unique(component))
    walk = rng.integers(items, size=items)
    while len(np.unique(component[walk])) < number:
        walk = np.concatenate([walk, rng.integers(items, size=len(walk))])
    return joining(component, walk)


def connect(component: NDArray[np.integer], taken: LongIndex, pairs: int, rng: np.random.Generator) -> Pairs:
    """Draw different pairs, without those in `taken`, that join all components; there are at most `pairs` + 1."""
    items = len(component)
    for _ in range(_tries(pairs)):
        drawn = draw(items, taken, pairs, rng)
        if merge(component, drawn).max() == 0:
            return drawn
    tree = _tree(component, rng)
    closed = np.union1d(taken, tree[:, 0] * np.int64(items) + tree[:, 1])
    return rng.permutation(np.concatenate([tree, draw(items, closed, pairs - len(tree), rng)]))


def forest(component: NDArray[np.integer], pairs: int, rng: np.random.Generator) -> Pairs:
    """Draw pairs, too few to join all components, that each join two of them and include the most single items."""
    alone = np.bincount(component)[component] == 1
    waiting = rng.permutation(np.flatnonzero(alone))
    couples = min(pairs, max(len(waiting) - pairs, 0))
    joined = min(pairs, len(waiting)) - couples
    settled = np.concatenate([np.flatnonzero(~alone), waiting[: 2 * couples + joined]])
    newcomers = np.arange(len(settled) - joined, len(settled))
    partners = settled[rng.integers(newcomers)]
    chosen = np.concatenate(
        [waiting[: 2 * couples].reshape(-1, 2), np.column_stack([settled[newcomers], partners])]
    ).astype(np.int32)
    rest = rng.permutation(_tree(merge(component, chosen), rng))[: pairs - len(chosen)]
    return np.sort(np.concatenate([chosen, rest]), axis=1)


def orient(pairs: Pairs, more_first: LongIndex, rng: np.random.Generator) -> Pairs:
    """Order each pair so that every item is first in half of its pairs, to within one.

    The occurrences of an item are matched two by two. Of two matched occurrences, one is first and one second, as of
    the two items of a pair, so occurrences form chains that alternate. An item with an odd number of pairs has one
    unmatched occurrence, where a chain begins or ends. Of the two items at the ends of a chain, the one with the
    smaller `more_first` (N,), the number of times first minus second so far, is first.
    """
    ends = pairs.ravel()
    order = np.argsort(ends, kind="stable")
    place = np.arange(len(ends)) - np.searchsorted(ends[order], ends[order])
    later = np.flatnonzero(place % 2 == 1)
    mate, other = order[later - 1], order[later]
    alike = np.concatenate([mate ^ 1, other ^ 1]), np.concatenate([other, mate])
    links = sparse.coo_array((np.ones(len(alike[0]), dtype=np.int8), alike), shape=(len(ends), len(ends)))
    kinds, kind = connected_components(links, directed=False)
    lone = np.ones(len(ends), dtype=bool)
    lone[mate] = lone[other] = False
    claim = rng.random(kinds) - np.bincount(kind[lone], more_first[ends[lone]], kinds)
    return np.where((claim[kind[::2]] > claim[kind[1::2]])[:, None], pairs, pairs[:, ::-1])


Strategy = Literal["random", "greedy", "adaptive"]
Orders = Literal["one", "both"]

DEFAULT_GOAL = "ranking"
SYSTEM_GOALS = ("systems", "best-system")  # of groups of texts in all contexts together (`systems`)
DEFAULT_ORDERS: Orders = "both"


def default_strategy(goal: str = DEFAULT_GOAL) -> Strategy:
    """The default strategy of a goal: greedy for the whole ranking, adaptive for the others, which need answers.

    >>> default_strategy(), default_strategy("top-5")
    ('greedy', 'adaptive')
    """
    return "greedy" if goal == "ranking" else "adaptive"


def round_size(items: int, size: int, goal: str, ahead: int = 0) -> int:
    """How many calls about `size` texts each are chosen at a time, from the answers to those before.

    At least `ahead`, as many as a judge works on at a time; but not for the best k. Of 200 texts, 100 line-ups of eight
    find 0.84 of the best ten in rounds of 4, 0.71 in rounds of 25 and 0.52 in rounds of 64 (benchmarks.top).

    >>> round_size(200, 2, "top-5"), round_size(200, 4, "top-5", ahead=64), round_size(200, 4, "ranking", ahead=64)
    (50, 6, 64)
    """
    if goal == DEFAULT_GOAL:
        return max(4, items // 4, ahead)
    return max(4, items // (4 if size == 2 else 8 * size))


def best_of(goal: str) -> int | None:
    """k of the goal "top-k", None for other goals.

    >>> best_of("top-5"), best_of("ranking")
    (5, None)
    """
    return int(goal.removeprefix("top-")) if goal.startswith("top-") else None


def top_of(goal: str, items: int, strategy: str) -> int | None:
    """k of the goal "top-k", None for the goal "ranking" and for goals of systems.

    >>> top_of("top-5", items=20, strategy="adaptive")
    5
    """
    if goal == "ranking":
        return None
    found = re.fullmatch(r"top-(\d+)", goal)
    if found is None:
        raise ValueError(
            f"goal is 'ranking' or 'top-' and a number, such as 'top-5', not {goal!r}; comparo rank also knows the "
            f"goals {' and '.join(map(repr, SYSTEM_GOALS))}, of texts that share groups"
        )
    if strategy != "adaptive":
        needed = Message(" needs answers to go by: use {strategy:'adaptive'}, ") + f"not {strategy!r}"
        raise ValueError(named("goal", goal) + needed)
    top = int(found[1])
    if not 0 < top < items:
        remedy = f"decides nothing among {items} items; choose from top-1 to top-{items - 1}"
        raise OptionError("goal", goal, remedy)
    return top
