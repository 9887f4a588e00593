"""The way for many items, forced on few, where the exact answer is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import expit

from comparo import Comparisons
from comparo.selection import Selector, greedy_pairs, random_pairs
from comparo.selection.designs import Pairs
from comparo.selection.greedy import Goal, Resistance, inverse, matching
from inside import Limits
from oracle import design_log_det
from split import one_short

ITEMS, FEW = 400, Limits(exact=10)


def log_det(pairs: Pairs) -> float:
    first, second = np.ascontiguousarray(pairs.T)
    return design_log_det(Comparisons(np.arange(ITEMS), first, second, np.full(len(pairs), 0.5)))


@pytest.mark.parametrize("ridge", [0.0, 0.01])
def test_resistances_are_near_the_exact_ones(ridge: float) -> None:
    rng = np.random.default_rng(0)
    pairs = random_pairs(ITEMS, 5 * ITEMS, rng)
    c = rng.uniform(0.05, 0.25, len(pairs))
    A = inverse(pairs[:, 0], pairs[:, 1], c, np.full(ITEMS, max(ridge, 1e-9)))
    x, y = random_pairs(ITEMS, 2000, rng).T
    exact = A.diagonal()[x] + A.diagonal()[y] - 2 * A[x, y]
    estimate = Resistance.of(pairs, c, np.full(ITEMS, ridge), rng).between(x, y)
    # Pairs that were compared are overestimated: the term that they share is left out.
    new = ~np.isin(x.astype(int) * ITEMS + y, pairs[:, 0].astype(int) * ITEMS + pairs[:, 1])
    assert np.corrcoef(exact[new], estimate[new])[0, 1] > 0.99
    assert np.mean(np.abs(estimate[new] / exact[new] - 1)) < 0.03


def test_a_near_tree_is_not_solved() -> None:
    chain = np.column_stack([np.arange(9), np.arange(1, 10)]).astype(np.int32)
    resistance = Resistance.of(chain, np.ones(9), np.zeros(10), np.random.default_rng(0))
    assert not resistance.drawn.any()
    assert resistance.own.tolist() == [1.0] + [0.5] * 8 + [1.0]


def test_a_matching_is_new_and_disjoint() -> None:
    rng = np.random.default_rng(0)
    resistance = Resistance(rng.uniform(1, 1.5, 50), np.zeros((50, 1)))
    taken = np.sort(rng.choice(2500, 1500, replace=False))
    pairs = matching(resistance, Goal(1), taken, rng)
    assert len(np.unique(pairs)) == pairs.size > 20
    assert np.all(pairs[:, 0] < pairs[:, 1])
    assert not np.isin(pairs[:, 0] * 50 + pairs[:, 1], taken).any()


def test_a_matching_leaves_what_is_worth_little_for_later() -> None:
    own = np.where(np.arange(1000) < 100, 10.0, 1.0)
    pairs = matching(Resistance(own, np.zeros((1000, 1))), Goal(1), np.empty(0, dtype=int), np.random.default_rng(0))
    assert len(pairs) < 120
    assert np.all(pairs.min(axis=1) < 100)


@pytest.mark.long
def test_greedy_tells_more_than_random_and_nearly_as_much_as_exact() -> None:
    for number in (2 * ITEMS, 5 * ITEMS):
        pairs = greedy_pairs(ITEMS, number, np.random.default_rng(0), FEW)
        assert len(np.unique(np.sort(pairs, axis=1), axis=0)) == number
        drawn = log_det(random_pairs(ITEMS, number, np.random.default_rng(0)))
        exact = log_det(greedy_pairs(ITEMS, number, np.random.default_rng(0)))
        assert log_det(pairs) > drawn + 0.8 * (exact - drawn)


def test_greedy_goes_on_to_the_last_pair() -> None:
    pairs = greedy_pairs(20, 190, np.random.default_rng(0), FEW)
    assert len(np.unique(np.sort(pairs, axis=1), axis=0)) == 190


@pytest.mark.parametrize(("orders", "goal"), one_short([("both", "ranking"), ("one", "ranking"), ("one", "top-20")]))
def test_adaptive(orders: Any, goal: str) -> None:
    rng = np.random.default_rng(0)
    scores = 2 * rng.standard_normal(ITEMS)
    selector = Selector(
        range(ITEMS), strategy="adaptive", orders=orders, goal=goal, seed=np.random.default_rng(1), limits=FEW
    )
    asked: list[tuple[int, int]] = []
    for _ in range(5):
        rows = selector.next(300)
        answers = expit([scores[a] - scores[b] + rng.standard_normal() for a, b in rows])
        selector.observe([(a, b, p) for (a, b), p in zip(rows, answers.tolist(), strict=True)])
        asked += rows
    assert len(set(asked)) == 1500
    late = np.array(asked[1200:])
    apart = np.abs(scores[late[:, 0]] - scores[late[:, 1]])
    assert apart.mean() < 0.7 * np.mean(np.abs(np.subtract.outer(scores, scores)))
    if goal == "top-20":
        border = np.mean(np.sort(scores)[-21:-19])
        near = np.abs(scores[late] - border).min(axis=1)
        assert np.median(near) < 0.3 * np.median(np.abs(scores - border))
