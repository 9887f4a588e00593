"""Designs made before any answer: unique, covering, connected, balanced; and greedy is the full scan."""

from __future__ import annotations

import itertools
from collections import Counter
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.stats import chisquare

from comparo import Comparisons
from comparo.selection import Selector, designs, greedy_pairs, in_both_orders, in_one_order, random_pairs
from comparo.selection.designs import Pairs
from inside import Limits
from oracle import design_log_det
from split import one_short

SEEDS = st.integers(0, 2**32 - 1)


def components(pairs: Pairs, items: int) -> int:
    links = coo_array((np.ones(len(pairs)), pairs.T), shape=(items, items))
    return int(connected_components(links, directed=False)[0])


def assert_design(pairs: Pairs, items: int, number: int) -> None:
    assert pairs.shape == (number, 2)
    assert pairs.dtype == np.int32
    assert len({frozenset(pair) for pair in pairs.tolist()} - {frozenset([x]) for x in range(items)}) == number
    assert set(pairs.ravel().tolist()) == set(range(items))
    if number >= items - 1:
        assert components(pairs, items) == 1


@st.composite
def sizes(draw: st.DrawFn, least: int = 2) -> tuple[int, int]:
    items = draw(st.integers(2, 30))
    fewest = (items + 1) // 2 if least == 2 else items - 1
    return items, draw(st.integers(fewest, items * (items - 1) // 2))


@given(sizes(), SEEDS)
@settings(deadline=None)
def test_random_pairs_are_unique_cover_and_connect(size: tuple[int, int], seed: int) -> None:
    assert_design(random_pairs(*size, np.random.default_rng(seed)), *size)


@given(sizes(), SEEDS)
@settings(deadline=None)
def test_so_they_do_where_no_try_succeeds(size: tuple[int, int], seed: int) -> None:
    with patch.object(designs, "TRIES", 0):
        assert_design(random_pairs(*size, np.random.default_rng(seed)), *size)


@pytest.mark.long
@pytest.mark.parametrize("tries", one_short([0, 100]))
def test_random_pairs_are_uniform_among_spanning_trees(tries: int) -> None:
    rng = np.random.default_rng(0)
    with patch.object(designs, "TRIES", tries):
        drawn = Counter(frozenset(map(tuple, np.sort(random_pairs(4, 3, rng)).tolist())) for _ in range(3200))
    assert len(drawn) == 16
    assert chisquare(list(drawn.values())).pvalue > 1e-3


@pytest.mark.long
def test_random_pairs_are_uniform_among_designs_that_connect() -> None:
    rng = np.random.default_rng(1)
    drawn = Counter(frozenset(map(tuple, np.sort(random_pairs(4, 4, rng)).tolist())) for _ in range(3000))
    assert len(drawn) == 15
    assert chisquare(list(drawn.values())).pvalue > 1e-3


@pytest.mark.long
def test_random_pairs_of_many_items() -> None:
    assert_design(random_pairs(20_000, 100_000, np.random.default_rng(0)), 20_000, 100_000)
    assert_design(random_pairs(20_000, 19_999, np.random.default_rng(0)), 20_000, 19_999)
    assert_design(random_pairs(20_000, 10_000, np.random.default_rng(0)), 20_000, 10_000)


@given(st.integers(2, 12).flatmap(lambda n: st.tuples(st.just(n), st.lists(pair_of(n), min_size=1))), SEEDS)
@settings(deadline=None)
def test_in_one_order_everyone_is_first_and_second_equally_often(case: tuple[int, list[list[int]]], seed: int) -> None:
    items, chosen = case
    pairs = np.array(chosen, dtype=np.int32)
    rows = in_one_order(pairs, items, np.random.default_rng(seed))
    assert np.array_equal(np.sort(rows, axis=1), np.sort(pairs, axis=1))
    first, second = (np.bincount(column, minlength=items) for column in rows.T)
    assert np.max(np.abs(first - second)) <= 1


def pair_of(items: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(0, items - 1), min_size=2, max_size=2, unique=True)


def test_who_comes_first_in_one_order_is_drawn() -> None:
    rows = [in_one_order(np.array([[0, 1]]), 2, np.random.default_rng(seed)).tolist()[0] for seed in range(20)]
    assert [0, 1] in rows
    assert [1, 0] in rows


def test_in_both_orders() -> None:
    assert in_both_orders(np.array([[3, 1], [0, 2]])).tolist() == [[3, 1], [1, 3], [0, 2], [2, 0]]


def brute_force(order: list[int], number: int) -> list[tuple[int, int]]:
    """Of all pairs that are left, the one with the largest determinant of W̃ᵀW̃, computed afresh each time."""
    items = len(order)
    chosen = list(itertools.pairwise(range(items)))
    while len(chosen) < number:
        determinants = {}
        for pair in itertools.combinations(range(items), 2):
            if pair not in chosen:
                rows = np.zeros((len(chosen) + 2, items))
                rows[0, 0] = 1.0
                for row, (x, y) in zip(rows[1:], [*chosen, pair], strict=True):
                    row[x], row[y] = 1.0, -1.0
                determinants[pair] = np.linalg.det(rows.T @ rows)
        # Spanning trees: whole numbers, so that equal is equal.
        most = max(round(determinant) for determinant in determinants.values())
        chosen.append(next(pair for pair, determinant in determinants.items() if round(determinant) == most))
    return [(order[x], order[y]) for x, y in chosen]


def full_scan(order: list[int], number: int) -> list[tuple[int, int]]:
    """Look at every pair for each choice, the inverse kept by the Sherman–Morrison formula."""
    items = len(order)
    A = 1.0 + np.minimum.outer(np.arange(items), np.arange(items))
    closed = np.tri(items, k=1, dtype=bool)
    chosen = list(itertools.pairwise(range(items)))
    closed |= closed.T & np.tri(items, k=0, dtype=bool)
    while len(chosen) < number:
        gains = np.add.outer(A.diagonal(), A.diagonal()) - 2 * A
        gains[closed] = -np.inf
        x, y = np.unravel_index(np.argmax(gains >= gains.max() * (1 - 1e-9)), gains.shape)
        v = A[x] - A[y]
        A -= np.outer(v, v) / (1 + gains[x, y])
        closed[x, y] = True
        chosen.append((int(x), int(y)))
    return [(order[x], order[y]) for x, y in chosen]


def unordered(pairs: Pairs | list[tuple[int, int]]) -> list[frozenset[int]]:
    return [frozenset(map(int, pair)) for pair in pairs]


@given(st.integers(2, 6), SEEDS)
@settings(deadline=None, max_examples=20 * settings.default.max_examples // 100)
def test_greedy_is_brute_force(items: int, seed: int) -> None:
    order = np.random.default_rng(seed).permutation(items).tolist()
    number = items * (items - 1) // 2
    pairs = greedy_pairs(items, number, np.random.default_rng(seed))
    assert unordered(pairs) == unordered(brute_force(order, number))


@pytest.mark.parametrize(
    ("candidates", "pending", "rows"), one_short([(300, 5, 7), (4096, 128, 64), (20, 128, 64), (1, 1, 16)])
)
def test_greedy_is_the_full_scan(candidates: int, pending: int, rows: int) -> None:
    limits = Limits(candidates=candidates, pending=pending, gain_rows=rows)
    for items, number in ((41, 820), (60, 600)):
        order = np.random.default_rng(items).permutation(items).tolist()
        pairs = greedy_pairs(items, number, np.random.default_rng(items), limits)
        assert unordered(pairs) == unordered(full_scan(order, number))


@given(sizes(least=1), SEEDS)
@settings(deadline=None)
def test_greedy_pairs_are_a_balanced_design(size: tuple[int, int], seed: int) -> None:
    items, number = size
    pairs = greedy_pairs(items, number, np.random.default_rng(seed))
    assert_design(pairs, items, number)
    first, second = (np.bincount(column, minlength=items) for column in pairs.T)
    assert np.max(np.abs(first - second)) <= 1


def log_det(pairs: Pairs, items: int) -> float:
    return design_log_det(Comparisons(np.arange(items), pairs[:, 0], pairs[:, 1], np.full(len(pairs), 0.5)))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda rng: random_pairs(1, 1, rng), "nothing to compare: 1 items"),
        (lambda rng: random_pairs(9, 4, rng), "4 pairs .*9 items.* 5 pairs"),
        (lambda rng: random_pairs(5, 11, rng), "11 pairs .* 10 "),
        (lambda rng: greedy_pairs(0, 1, rng), "nothing to compare: 0 items"),
        (lambda rng: greedy_pairs(5, 3, rng), "3 pairs .*5 items.* 4,"),
        (lambda rng: greedy_pairs(5, 11, rng), "11 pairs .* 10 "),
    ],
)
def test_a_design_that_cannot_be_is_refused(call: type, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call(np.random.default_rng(0))


@pytest.mark.parametrize("batches", [[60], [19, 41], [7] * 8 + [4], [1] * 60])
def test_greedy_grows_by_the_same_pairs_in_any_batches(batches: list[int]) -> None:
    selector = Selector(range(20), strategy="greedy", orders="one", seed=np.random.default_rng(5))
    asked = []
    for batch in batches:
        rows = selector.next(batch)
        selector.observe([(first, second, 0.3) for first, second in rows])
        asked += rows
    assert unordered(asked) == unordered(greedy_pairs(20, 60, np.random.default_rng(5)))


def test_greedy_in_both_orders_is_the_same_design() -> None:
    rows = Selector(range(20), strategy="greedy", orders="both", seed=np.random.default_rng(5)).next(120)
    assert unordered(rows[::2]) == unordered(greedy_pairs(20, 60, np.random.default_rng(5)))
