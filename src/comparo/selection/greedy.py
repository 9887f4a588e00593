"""The pairs that reduce the uncertainty of scores most, chosen one at a time or, for many items, in batches.

A = H⁻¹ is the covariance of the scores, H the curvature of the comparisons so far. A comparison of x and y of curvature
c multiplies det H by 1 + c·R_xy with the variance of the difference R_xy = A_xx + A_yy − 2A_xy, and turns A into

    A − v vᵀ,   v = A r·√(c / (1 + c·R_xy)),   r = e_x − e_y   (Sherman and Morrison).

R_xy never grows as comparisons are added. Items are numbered in shuffled order. Among pairs whose gains are equal up to
rounding (`comparo.rounding`), the first in that order is taken, so the seed decides ties.

Without an N × N array, R_xy is estimated (`Resistance`), and many pairs are chosen at a time (`matching`). With D the
diagonal of the curvature H and S = D − H,

    H⁻¹ = D⁻¹ + D⁻¹ S D⁻¹ + D⁻¹ S H⁻¹ S D⁻¹,    so    R_xy = 1/D_xx + 1/D_yy + E‖Y_x − Y_y‖²

for x and y that were not compared, where the q columns of Y are draws from N(0, H⁻¹) / √q multiplied by D⁻¹ S. A draw
costs one solution with H. Only the last term is random: at ten comparisons per item it is a tenth of R_xy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from comparo.data.comparisons import Comparisons
from comparo.model.likelihoods.bradley_terry import logistic_curvature
from comparo.model.linalg.graph import Graph, Pattern
from comparo.model.linalg.laplacian import Laplacian
from comparo.model.tuning import LIMITS, Limits
from comparo.rounding import TIES, first_best, merge_ties
from comparo.selection.designs import Pairs, among, distinct
from comparo.types import Array, Index, LongIndex, Mask

SAMPLE = 8192  # sampled pairs that estimate the gain of the last candidate
SERIAL = 2**18  # most multiplications that BLAS does in one thread; on busy cores threads wait for each other
WINDOW = 512  # items around the border between the top k and the others


def inverse(first: Index, second: Index, c: Array, ridge: Array) -> Array:
    """A = (Xᵀ diag(c) X + diag(ridge))⁻¹ for N items and K comparisons: its upper triangle in an (N, N) array.

    >>> one, other = np.array([0], dtype=np.int32), np.array([1], dtype=np.int32)
    >>> np.triu(inverse(one, other, np.ones(1), np.array([1.0, 0.0])))
    array([[1., 1.],
           [0., 2.]])
    """
    n = len(ridge)
    matrix = np.bincount(first * np.int64(n) + second, c, n * n).reshape(n, n)
    matrix = -(matrix + matrix.T)
    np.fill_diagonal(matrix, ridge - matrix.sum(axis=1))
    factor, failed = lapack.dpotrf(matrix.T, lower=1, overwrite_a=True)
    if failed:
        raise ValueError("the weights of the comparisons are too far apart to be taken together; rescale them")
    triangle, _ = lapack.dpotri(factor, lower=1, overwrite_c=True)
    return np.asarray(triangle.T)


def join(component: Index, asked: Index, worth: Array, most: int) -> list[tuple[int, int]]:
    """At most `most` pairs of N items, each joining two components: those of largest gain `worth`·R, one at a time.

    R is the variance of the difference given a prior of variance 1 and the pairs `asked` (K, 2), whose precisions are
    their `worth` (N, N). Items without any comparison are paired first: N/2 pairs include all of them.

    >>> worth = np.array([[1.0, 0.2, 0.9], [0.2, 1.0, 0.5], [0.9, 0.5, 1.0]])
    >>> join(np.arange(3, dtype=np.int32), np.empty((0, 2), dtype=np.int32), worth, 5)
    [(0, 2), (1, 2)]
    """
    first, second = np.ascontiguousarray(asked.T)
    upper = inverse(first, second, worth[first, second], np.ones(len(worth)))
    covariance = np.triu(upper) + np.triu(upper, 1).T
    component, new = component.copy(), ~np.isin(np.arange(len(worth)), asked)
    chosen: list[tuple[int, int]] = []
    while len(chosen) < most and component.max() > 0:
        joins = component[:, None] != component
        if np.count_nonzero(new) > 1:
            joins &= new[:, None] & new
        gains = np.where(joins, worth * differences(covariance), -1.0)
        x, y = divmod(int(first_best(gains)), len(worth))
        v = covariance[x] - covariance[y]
        covariance -= np.outer(v, v) * (worth[x, y] / (1.0 + gains[x, y]))
        component[component == component[y]] = component[x]
        component = np.unique(component, return_inverse=True)[1].astype(np.int32)
        new[[x, y]] = False
        chosen.append((x, y))
    return chosen


@dataclass(eq=False)
class Greedy:
    """Picks free pairs by largest gain c·R, and updates A after each.

    `covariance` (N, N) is A, of which the upper triangle is read and overwritten; `free` (N, N) is true above the
    diagonal for pairs that may be taken. c is `calls`, times σ(s_x − s_y)·σ(s_y − s_x) where there are `scores` (N,),
    times `worth` (N, N) where pairs differ in how informative they are.

    Gains never grow, so those of the last pass over all pairs are upper bounds: only the pairs whose gain was above a
    `threshold` are updated, until the best of them falls to it. The vectors v since then are stored, A = A₀ − VᵀV, and
    A₀ is updated with all of them in the next pass.

    >>> chain = 1.0 + np.minimum.outer(range(4), range(4))
    >>> greedy = Greedy(chain, np.triu(np.ones((4, 4), dtype=bool), 2))
    >>> greedy.pick(), greedy.pick()
    ((0, 3), (0, 2))
    """

    covariance: Array
    free: Mask
    scores: Array | None = None
    calls: int = 1
    worth: Array | None = None
    limits: Limits = LIMITS

    def __post_init__(self) -> None:
        n, limits = len(self.covariance), self.limits
        self.variance = self.covariance.diagonal().copy()
        self.vectors = np.empty((limits.pending, n))
        self.pending = 0
        many = n * (n - 1) > 2 * limits.candidates
        sample = np.sort(np.random.default_rng(0).integers(0, n, (2, SAMPLE * many)), axis=0)
        self.sample = sample[:, sample[0] < sample[1]]
        self._look()

    def pick(self) -> tuple[int, int]:
        """The free pair of largest gain, (x, y) with x < y; there must be one."""
        best = self._best()
        while best <= self.threshold or self.pending == self.limits.pending:
            self._look()
            best = self._best()
        chosen = int(np.argmax(self.gains >= best))
        x, y, c = int(self.x[chosen]), int(self.y[chosen]), float(self.c[chosen])
        vectors = self.vectors[: self.pending]
        known = np.einsum("k,ki->i", vectors[:, x] - vectors[:, y], vectors)
        v = self._column(x) - self._column(y) - known
        v *= np.sqrt(c / (1.0 + float(self.gains[chosen])))
        self.vectors[self.pending] = v
        self.pending += 1
        self.gains -= self.c * (v[self.x] - v[self.y]) ** 2
        self.free[x, y] = False
        self.gains[chosen] = -np.inf
        return x, y

    def _best(self) -> float:
        """The smallest gain that ties with the best candidate."""
        return float(np.max(self.gains, initial=-np.inf)) * (1 - TIES)

    def _column(self, x: int) -> Array:
        column: Array = self.covariance[x].copy()
        column[:x] = self.covariance[:x, x]
        return column

    def _look(self) -> None:
        """Pass over all free pairs: update A₀, and take the pairs of largest gain as candidates."""
        vectors, self.pending = self.vectors[: self.pending], 0
        self.variance -= np.einsum("ki,ki->i", vectors, vectors)
        n = len(self.variance)
        rows_at_once = self.limits.gain_rows
        blocks = [(begin, slice(begin, min(begin + rows_at_once, n))) for begin in range(0, n, rows_at_once)]
        width = SERIAL // (rows_at_once * max(len(vectors), 1))
        for begin, rows in blocks if len(vectors) else []:
            for left in range(begin, n, width):
                columns = slice(left, left + width)
                self.covariance[rows, columns] -= vectors[:, rows].T @ vectors[:, columns]
        self.threshold = self._threshold()
        found = []
        for begin, rows in blocks:
            gains = self.covariance[rows, begin:] * -2.0
            gains += self.variance[rows, None]
            gains += self.variance[begin:]
            gains *= self._weight(np.arange(begin, rows.stop)[:, None], np.arange(begin, n))
            row, column = np.nonzero((gains >= self.threshold) & self.free[rows, begin:])
            found.append((row + begin, column + begin, gains[row, column]))
        self.x, self.y, self.gains = (np.concatenate(parts) for parts in zip(*found, strict=True))
        self.c = self._weight(self.x, self.y)

    def _weight(self, x: LongIndex, y: LongIndex) -> Array:
        """c of the pairs of x and y, of shapes that numpy broadcasts."""
        weight = np.full(np.broadcast_shapes(x.shape, y.shape), float(self.calls))
        if self.scores is not None:
            weight *= logistic_curvature(self.scores[x] - self.scores[y])
        return weight if self.worth is None else weight * self.worth[x, y]

    def _threshold(self) -> float:
        """About the gain of the last of the `Limits.candidates` best, or −∞ where there are not many more pairs."""
        x, y = self.sample[:, self.free[tuple(self.sample)]]
        n = len(self.variance)
        above = len(self.sample[0]) * self.limits.candidates * 2 // (n * (n - 1))
        if above >= len(x):
            return -np.inf
        variance = self.variance[x] + self.variance[y] - 2.0 * self.covariance[x, y]
        gains = self._weight(x, y) * variance
        # Lowered a little, so that no pair that ties with the one in the sample is left out.
        return float(np.partition(gains, -above - 1)[-above - 1]) * (1 - 1e-6)


class Information:
    """The covariance A of n scores and B = A L A, which give the decrease of Σ w_gh·Var(s_g − s_h) by a comparison.

    L is the Laplacian of the weights w. A comparison of x and y with the information c lowers the sum by

        c·(B_xx + B_yy − 2B_xy) / (1 + c·(A_xx + A_yy − 2A_xy)).
    """

    def __init__(self, covariance: Array, weight: Array) -> None:
        self.covariance = covariance.copy()
        self.laplacian = np.diag(weight.sum(axis=1)) - weight
        self.worth = self.covariance @ self.laplacian @ self.covariance

    def gains(self, c: Array, pairs: Any = ...) -> Array:
        """The decrease for each pair, (n, n), or for the `pairs` of an index."""
        return np.asarray(c * differences(self.worth)[pairs] / (1.0 + c * differences(self.covariance)[pairs]))

    def add(self, x: int, y: int, c: float) -> None:
        """Add a comparison of x and y with the information c: a rank-one update of A and a rank-two update of B."""
        v = self.covariance[x] - self.covariance[y]
        v *= np.sqrt(c / (1.0 + c * (v[x] - v[y])))
        u = self.covariance @ (self.laplacian @ v)
        self.covariance -= np.outer(v, v)
        crossed = np.outer(u - 0.5 * (v @ self.laplacian @ v) * v, v)
        self.worth -= crossed + crossed.T


class Border:
    """Picks the free pairs that are most informative about the top k, and updates A after each.

    For i inside and j outside of the best k by `scores` (N,), 1[s_i > s_j] has the variance P(1 − P) with
    P = Φ(z_ij), z_ij = (s_i − s_j)/√(φ·R_ij). An answer that lowers the variance of s_i − s_j by Δ lowers P(1 − P), in
    expectation and to first order, by w_ij·Δ with w_ij = n(z_ij)²/R_ij, n the normal density. The pair with the largest
    sum over all such i and j (`Information`) is taken. w is not updated, and its constant factor is left out.

    Only the `WINDOW` items nearest to the border, by their distance from the middle of the k-th and the next score in
    standard errors, count and are compared. `dispersion` is φ.

    >>> covariance, free = np.eye(4), np.triu(np.ones((4, 4), dtype=bool), 1)
    >>> Border(covariance, free, np.array([9.0, 0.1, 0.0, -9.0]), top=2).pick()
    (1, 2)
    """

    def __init__(
        self,
        covariance: Array,
        free: Mask,
        scores: Array,
        top: int,
        dispersion: float = 1.0,
        calls: int = 1,
    ) -> None:
        best = np.argsort(-merge_ties(scores), kind="stable")
        z = (scores - np.mean(scores[best[top - 1 : top + 1]])) / np.sqrt(covariance.diagonal())
        self.items = items = np.sort(np.argsort(merge_ties(np.abs(z)), kind="stable")[:WINDOW])
        upper = np.triu(covariance[np.ix_(items, items)])
        covariance = upper + np.triu(upper, 1).T
        self.free = free[np.ix_(items, items)]
        difference = scores[items, None] - scores[items]
        self.c = calls * logistic_curvature(difference)
        resistance = differences(covariance) + np.eye(len(items))
        inside = np.isin(items, best[:top])
        across = inside[:, None] != inside
        apart = difference**2 / (dispersion * resistance)
        w = across * np.exp(np.min(apart[across], initial=np.inf) - apart) / resistance
        self.information = Information(covariance, w)

    def pick(self) -> tuple[int, int]:
        """The free pair of largest weighted gain, (x, y) with x < y; there must be one."""
        value = np.where(self.free, self.information.gains(self.c), -np.inf)
        x, y = divmod(int(first_best(value)), len(self.items))
        self.information.add(x, y, float(self.c[x, y]))
        self.free[x, y] = False
        return int(self.items[x]), int(self.items[y])


def differences(matrix: Array) -> Array:
    """M_xx + M_yy − 2M_xy for all x and y."""
    diagonal = matrix.diagonal()
    return diagonal[:, None] + diagonal - 2.0 * matrix


DRAWS = 24
ACCURACY = 1e-2  # of a draw: far below its randomness
TREE = 1.25  # different pairs per item below which a graph counts as a tree
PARTNERS = 8  # pairs considered for each item
SHARE = 64  # a round includes at least one item in 64


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
        """Estimate R from `pairs` (K, 2), which connect all items, their curvatures `c` (K,) and the `ridge` (N,).

        A graph that is nearly a tree takes long to solve; for it nothing is drawn.
        """
        first, second = np.ascontiguousarray(pairs.T)
        graph = Graph.build(Comparisons(np.arange(len(ridge)), first, second, np.full(len(pairs), 0.5)))
        pattern = Pattern(graph)
        laplacian = Laplacian(pattern, c[pattern.order], ridge)
        own = 1.0 / laplacian.diagonal
        low, high = np.sort(pairs, axis=1).T
        if len(distinct(low * np.int64(len(own)) + high)) < TREE * len(own):
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
            return c * between
        variance = resistance.variance
        apart = (self.scores - self.border) ** 2 / (self.dispersion * variance)
        near = np.exp(np.min(apart) - apart) * variance
        return np.asarray(c * (near[x] + near[y]) / (1.0 + c * between))


def matching(resistance: Resistance, goal: Goal, taken: LongIndex, rng: np.random.Generator) -> Pairs:
    """Disjoint new pairs of high value, best first: shape (M, 2) with M ≤ N/2, the lower item first.

    `taken` are the sorted codes x·N + y, x < y, of pairs that may not be asked. Every item proposes `PARTNERS` others,
    near and far in the order of the scores (a random order without scores). Pairs are taken by value while both items
    are free. Pairs below half of the best value wait for another round, unless fewer than one item in `SHARE` is in
    this one.

    >>> pairs = matching(Resistance(np.ones(4), np.zeros((4, 1))), Goal(1), np.array([1]), np.random.default_rng(0))
    >>> sorted(pairs.ravel().tolist()), [0, 1] in pairs.tolist()
    ([0, 1, 2, 3], False)
    """
    n = len(resistance.own)
    ranked = rng.permutation(n) if goal.scores is None else np.argsort(merge_ties(goal.scores), kind="stable")
    steps = np.exp(rng.uniform(0.0, np.log(n), (PARTNERS, n))).astype(np.int64)
    one = np.tile(ranked, PARTNERS)
    other = ranked[(np.arange(n) + steps) % n].ravel()
    codes = distinct((np.minimum(one, other) * n + np.maximum(one, other))[one != other])
    codes = rng.permutation(codes[~among(codes, taken)])
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
