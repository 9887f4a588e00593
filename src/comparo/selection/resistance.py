"""The variance of every difference of two scores without an N × N array, and the many pairs chosen by it at a time.

In units of a comparison's curvature the variance R_xy of s_x − s_y is the effective resistance between x and y in the
graph of comparisons. With D the diagonal of the curvature H and S = D − H,

    H⁻¹ = D⁻¹ + D⁻¹ S D⁻¹ + D⁻¹ S H⁻¹ S D⁻¹,    so    R_xy = 1/D_xx + 1/D_yy + E‖Y_x − Y_y‖²

for x and y that were not compared, where the q columns of Y are draws from N(0, H⁻¹) / √q multiplied by D⁻¹ S. A draw
costs one solution with H. Only the last term is random: at ten comparisons per item it is a tenth of R_xy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from comparo.data.comparisons import Comparisons
from comparo.model.likelihoods.bradley_terry import logistic_curvature
from comparo.model.linalg.graph import Graph, Pattern
from comparo.model.linalg.laplacian import Laplacian
from comparo.rounding import TIES, merge_ties
from comparo.selection.designs import Pairs
from comparo.types import Array

DRAWS = 24
ACCURACY = 1e-2  # of a draw: far below its randomness
TREE = 1.25  # different pairs per item, below which a graph is treated as a tree
PARTNERS = 8  # pairs considered for each item
SHARE = 64  # at least one of so many items is in a round


@dataclass(frozen=True)
class Resistance:
    """R_xy ≈ own_x + own_y + ‖Y_x − Y_y‖² for N items: `own` (N,) is 1/D and `drawn` (N, q) is Y.

    >>> Resistance(np.array([1.0, 0.5]), np.array([[1.0], [3.0]])).between(np.array([0]), np.array([1]))
    array([5.5])
    """

    own: Array
    drawn: Array

    @classmethod
    def of(cls, pairs: Pairs, c: Array, ridge: Array, rng: np.random.Generator) -> Resistance:
        """Of the comparisons `pairs` (K, 2) with curvatures `c` (K,), which connect all items; `ridge` (N,) of a prior.

        A graph that is nearly a tree takes long to solve: there nothing is drawn.
        """
        laplacian = _laplacian(pairs, c, ridge)
        own = 1.0 / laplacian.diagonal
        if len(np.unique(np.sort(pairs, axis=1), axis=0)) < TREE * len(own):
            return cls(own, np.zeros((len(own), 1)))
        rhs = laplacian.noise(DRAWS, rng)
        # S z = D z − H z, and H z is the right-hand side.
        drawn = laplacian.solve(rhs, ACCURACY)
        drawn -= own[:, None] * rhs
        return cls(own, drawn / np.sqrt(DRAWS))

    @property
    def variance(self) -> Array:
        """The variance of each score around their mean, shape (N,)."""
        return np.asarray(self.own + np.einsum("iq,iq->i", self.drawn, self.drawn))

    def between(self, x: NDArray[np.integer], y: NDArray[np.integer]) -> Array:
        """R_xy for items x and y of shape (M,)."""
        apart = self.drawn[x] - self.drawn[y]
        return np.asarray(self.own[x] + self.own[y] + np.einsum("mq,mq->m", apart, apart))


def _laplacian(pairs: Pairs, c: Array, ridge: Array) -> Laplacian:
    first, second = np.ascontiguousarray(pairs.T)
    graph = Graph.build(Comparisons(np.arange(len(ridge)), first, second, np.full(len(pairs), 0.5)))
    pattern = Pattern(graph)
    return Laplacian(pattern, c[pattern.order], ridge)


@dataclass(frozen=True)
class Goal:
    """The value of a pair: c·R_xy for the whole ranking; for the top k, with v the variances of the scores,

        c·(n(z_x)²·v_x + n(z_y)²·v_y) / (1 + c·R_xy),   z = (s − border)/√(φ·v),

    the expected decrease of Σ P(1 − P), P the probability that an item is above the `border`, without the effect of a
    comparison on other items. c is `calls`, times σ(s_x − s_y)·σ(s_y − s_x) where there are `scores` (N,).

    >>> Goal(2).value(Resistance(np.ones(2), np.zeros((2, 1))), np.array([0]), np.array([1]))
    array([4.])
    """

    calls: int
    scores: Array | None = None
    border: float | None = None
    dispersion: float = 1.0

    def value(self, resistance: Resistance, x: NDArray[np.integer], y: NDArray[np.integer]) -> Array:
        """The value of the pairs of x and y, shape (M,)."""
        between = resistance.between(x, y)
        if self.scores is None:
            return self.calls * between
        c = self.calls * logistic_curvature(self.scores[x] - self.scores[y])
        if self.border is None:
            return np.asarray(c * between)
        variance = resistance.variance
        apart = (self.scores - self.border) ** 2 / (self.dispersion * variance)
        near = np.exp(np.min(apart) - apart) * variance
        return np.asarray(c * (near[x] + near[y]) / (1.0 + c * between))


def matching(resistance: Resistance, goal: Goal, taken: NDArray[np.int64], rng: np.random.Generator) -> Pairs:
    """Disjoint new pairs of high value, best first: shape (M, 2) with M ≤ N/2, the lower item first.

    `taken` are the sorted codes x·N + y, x < y, of pairs that may not be asked. Every item proposes `PARTNERS` others,
    near and far in the order of the scores (a random order without scores), and the best pair is taken as long as both
    its items are free. Pairs below half of the best value wait for another round, except so many that one of `SHARE`
    items is in this one.

    >>> pairs = matching(Resistance(np.ones(4), np.zeros((4, 1))), Goal(1), np.array([1]), np.random.default_rng(0))
    >>> sorted(pairs.ravel().tolist()), [0, 1] in pairs.tolist()
    ([0, 1, 2, 3], False)
    """
    n = len(resistance.own)
    ranked = rng.permutation(n) if goal.scores is None else np.argsort(merge_ties(goal.scores), kind="stable")
    steps = np.exp(rng.uniform(0.0, np.log(n), (PARTNERS, n))).astype(np.int64)
    one = np.tile(ranked, PARTNERS)
    other = ranked[(np.arange(n) + steps) % n].ravel()
    codes = np.unique((np.minimum(one, other) * n + np.maximum(one, other))[one != other])
    codes = rng.permutation(codes[~np.isin(codes, taken)])
    x, y = np.divmod(codes, n)
    value = goal.value(resistance, x, y)
    value = merge_ties(value / np.max(value, initial=np.finfo(float).tiny))
    order = np.argsort(-value, kind="stable")
    unmatched = bytearray(b"\x01") * n
    chosen = []
    for number, a, b in zip(order.tolist(), x[order].tolist(), y[order].tolist(), strict=True):
        if unmatched[a] and unmatched[b]:
            unmatched[a] = unmatched[b] = 0
            chosen.append(number)
    good = int(np.count_nonzero(value[chosen] >= 0.5 * (1 - TIES)))
    enough = max(good, n // (2 * SHARE), 1)
    return np.column_stack([x, y])[chosen[:enough]].astype(np.int32)
