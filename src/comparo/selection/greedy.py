"""The pair that lowers the uncertainty most, found repeatedly without computing the gains of all pairs each time.

A = H⁻¹ is the covariance of the scores, H the curvature of the comparisons so far. A comparison of x and y of curvature
c multiplies det H by 1 + c·R_xy with the variance of the difference R_xy = A_xx + A_yy − 2A_xy, and turns A into

    A − v vᵀ,   v = A r·√(c / (1 + c·R_xy)),   r = e_x − e_y   (Sherman and Morrison).

So R_xy never grows as comparisons are added. Items are numbered in shuffled order; among pairs whose gains differ by
less than rounding does (`comparo.rounding`) the first in that order is taken: the seed decides among equal pairs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from comparo.model.likelihoods.bradley_terry import logistic_curvature
from comparo.model.tuning import LIMITS, Limits
from comparo.rounding import TIES, first_best, merge_ties
from comparo.types import Array, Mask

SAMPLE = 8192  # pairs by which the gain of the last candidate is estimated
SERIAL = 2**18  # multiplications that BLAS does in one thread; on busy cores its threads wait for each other
WINDOW = 512  # items around the border between the top k and the others


def inverse(first: NDArray[np.int32], second: NDArray[np.int32], c: Array, ridge: Array) -> Array:
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


def join(component: NDArray[np.int32], asked: NDArray[np.int32], worth: Array, most: int) -> list[tuple[int, int]]:
    """At most `most` pairs of N items, each joining two components: those of largest gain `worth`·R, one at a time.

    R is the variance of the difference given a prior of variance 1 and the pairs `asked` (K, 2), all counting by their
    `worth` (N, N). Items without any comparison come first, two by two, so that N/2 pairs include all of them.

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


class Greedy:
    """The free pairs by falling gain c·R, each taken into A before the next is found.

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

    def __init__(
        self,
        covariance: Array,
        free: Mask,
        scores: Array | None = None,
        calls: int = 1,
        repeats: bool = False,
        worth: Array | None = None,
        limits: Limits = LIMITS,
    ) -> None:
        n = len(covariance)
        self.limits = limits
        self.worth = worth
        self.covariance = covariance
        self.free = free
        self.scores = scores
        self.calls = calls
        self.repeats = repeats
        self.variance = covariance.diagonal().copy()
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
        v = self._column(x) - self._column(y) - np.einsum("k,ki->i", vectors[:, x] - vectors[:, y], vectors)
        v *= np.sqrt(c / (1.0 + float(self.gains[chosen])))
        self.vectors[self.pending] = v
        self.pending += 1
        self.gains -= self.c * (v[self.x] - v[self.y]) ** 2
        if not self.repeats:
            self.free[x, y] = False
            self.gains[chosen] = -np.inf
        return x, y

    def _best(self) -> float:
        """The gain from which on pairs tie with the best candidate."""
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
            if self.scores is not None:
                gains *= logistic_curvature(self.scores[rows, None] - self.scores[begin:])
            if self.worth is not None:
                gains *= self.worth[rows, begin:]
            gains *= self.calls
            row, column = np.nonzero((gains >= self.threshold) & self.free[rows, begin:])
            found.append((row + begin, column + begin, gains[row, column]))
        self.x, self.y, self.gains = (np.concatenate(parts) for parts in zip(*found, strict=True))
        self.c = self._weight(self.x, self.y)

    def _weight(self, x: NDArray[np.int64], y: NDArray[np.int64]) -> Array:
        weight = np.full(len(x), float(self.calls))
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
        gains = self._weight(x, y) * (self.variance[x] + self.variance[y] - 2.0 * self.covariance[x, y])
        # Lowered a little, so that no pair that ties with the one in the sample is left out.
        return float(np.partition(gains, -above - 1)[-above - 1]) * (1 - 1e-6)


class Border:
    """The free pairs that are most informative about the top k, each taken into A before the next is found.

    For i inside and j outside of the best k by `scores` (N,), 1[s_i > s_j] has the variance P(1 − P) with
    P = Φ(z_ij), z_ij = (s_i − s_j)/√(φ·R_ij). An answer that lowers the variance of s_i − s_j by Δ lowers it, in
    expectation and to first order, by w_ij·Δ with w_ij = n(z_ij)²/R_ij, n the normal density. Summed over all such i
    and j, with L the Laplacian of w (up to a factor, which changes no choice), a comparison of x and y is worth

        c·(B_xx + B_yy − 2B_xy) / (1 + c·R_xy),   B = A L A.

    Both A and B are updated by rank one; w is not updated. Only the `WINDOW` items nearest to the border, by their
    distance from the middle of the k-th and the next score in standard errors, count and are compared. `dispersion` is
    φ.

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
        repeats: bool = False,
    ) -> None:
        best = np.argsort(-merge_ties(scores), kind="stable")
        z = (scores - np.mean(scores[best[top - 1 : top + 1]])) / np.sqrt(covariance.diagonal())
        self.items = items = np.sort(np.argsort(merge_ties(np.abs(z)), kind="stable")[:WINDOW])
        upper = np.triu(covariance[np.ix_(items, items)])
        self.covariance = upper + np.triu(upper, 1).T
        self.free = free[np.ix_(items, items)]
        self.repeats = repeats
        difference = scores[items, None] - scores[items]
        self.c = calls * logistic_curvature(difference)
        resistance = differences(self.covariance) + np.eye(len(items))
        inside = np.isin(items, best[:top])
        across = inside[:, None] != inside
        apart = difference**2 / (dispersion * resistance)
        w = across * np.exp(np.min(apart[across], initial=np.inf) - apart) / resistance
        self.laplacian = np.diag(w.sum(axis=1)) - w
        self.worth = self.covariance @ self.laplacian @ self.covariance

    def pick(self) -> tuple[int, int]:
        """The free pair worth most, (x, y) with x < y; there must be one."""
        resistance = differences(self.covariance)
        value = np.where(self.free, self.c * differences(self.worth) / (1.0 + self.c * resistance), -np.inf)
        x, y = divmod(int(first_best(value)), len(self.items))
        scale = self.c[x, y] / (1.0 + self.c[x, y] * resistance[x, y])
        v = np.sqrt(scale) * (self.covariance[x] - self.covariance[y])
        u = self.covariance @ (self.laplacian @ v)
        self.covariance -= np.outer(v, v)
        crossed = np.outer(u - 0.5 * (v @ self.laplacian @ v) * v, v)
        self.worth -= crossed + crossed.T
        if not self.repeats:
            self.free[x, y] = False
        return int(self.items[x]), int(self.items[y])


def differences(matrix: Array) -> Array:
    """M_xx + M_yy − 2M_xy for all x and y."""
    diagonal = matrix.diagonal()
    return np.asarray(diagonal[:, None] + diagonal - 2.0 * matrix)
