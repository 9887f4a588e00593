"""The covariance of the scores of every method, and the variance of the score difference of each comparison.

    Cov(s) = scale·(Σ_k share_k·H_k⁻¹ + R Rᵀ)

H⁻¹ is the inverse of a curvature (`Laplacian`) or another `Part`; a mixture has several. R (n, K) is a low-rank root:
the uncertainty of group means and style, and the scatter of the means of a mixture. Weighted means of several rankings,
and a consensus, have the same form, with the covariances of other rankings as parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from comparo.model.linalg.graph import ContextBatch, Pattern
from comparo.model.linalg.laplacian import Laplacian
from comparo.rounding import TINY
from comparo.types import Array


class Part(Protocol):
    """A part of the covariance of the scores around the mean of their component; contexts are independent."""

    @property
    def pattern(self) -> Pattern: ...

    def block(self, batch: ContextBatch) -> Array:
        """The covariance in each context of `batch`, shape (B, size, size)."""
        ...

    def variances(self, begin: int) -> Array:
        """Its diagonal at the nodes from `begin` on, for contexts too large for `block`."""
        ...

    def difference(self, one: int, other: int) -> float:
        """The variance of the difference of two nodes of one component."""
        ...


class Covariance(Part, Protocol):
    """The covariance of the scores of a ranking."""

    @property
    def std(self) -> Array:
        """Standard error of every score, shape (n,); NaN where an item was never compared."""
        ...


@dataclass(frozen=True, eq=False)
class Posterior:
    """The `Covariance` scale·(Σ share·part + ½(roots·othersᵀ + others·rootsᵀ) + own·C), with `roots` (n, K).

    `others` (n, K) defaults to `roots`. C = I − 1/items centres in each component; `own` is the variance of an
    independent error of each text. Contexts of up to `Limits.exact` items are exact; above, the diagonals of the parts
    are estimated.

    >>> from comparo.data.comparisons import Comparisons
    >>> from comparo.model.linalg.graph import Graph
    >>> pattern = Pattern(Graph.build(Comparisons.from_rows([("a", "b", 0.7)])))
    >>> found = Posterior((Laplacian(pattern, np.ones(1), np.ones(2)),))
    >>> found.std.round(3), round(found.difference(0, 1), 3)
    (array([0.408, 0.408]), 0.667)
    """

    parts: tuple[Part, ...]
    shares: tuple[float, ...] = (1.0,)
    scale: float = 1.0
    roots: Array | None = None
    others: Array | None = None
    own: float = 0.0

    @property
    def pattern(self) -> Pattern:
        return self.parts[0].pattern

    @cached_property
    def _roots(self) -> tuple[Array, Array]:
        roots = np.zeros((self.pattern.graph.nodes, 0)) if self.roots is None else self.roots
        return roots, roots if self.others is None else self.others

    def _mean(self, of: list[Array]) -> Array:
        return np.tensordot(self.shares, np.array(of), axes=1)

    @cached_property
    def _kept(self) -> dict[int, Array]:
        return {}

    def block(self, batch: ContextBatch) -> Array:
        if batch.begin in self._kept:
            return self._kept[batch.begin]
        block = self._mean([part.block(batch) for part in self.parts])
        roots, others = (of[batch.nodes].reshape(len(block), batch.size, -1) for of in self._roots)
        half = 0.5 * roots @ others.transpose(0, 2, 1)
        block = block + half + half.transpose(0, 2, 1)
        if self.own:
            block += self.own * self.pattern.centring(batch)
        block *= self.scale
        if self.pattern.may_keep:
            self._kept[batch.begin] = block
        return block

    @cached_property
    def std(self) -> Array:
        graph, variance = self.pattern.graph, np.empty(self.pattern.graph.nodes)
        items = np.bincount(graph.component)[graph.component]
        for batch in self.pattern.batches:
            if batch.size > self.pattern.limits.exact:
                begin = batch.nodes.start
                known = self._mean([part.variances(begin) for part in self.parts])
                roots, others = (of[begin:] for of in self._roots)
                known = known + np.sum(roots * others, axis=1) + self.own * (1.0 - 1.0 / items[begin:])
                variance[begin:] = self.scale * known
                break
            variance[batch.nodes] = np.einsum("bii->bi", self.block(batch)).ravel()
        return np.where(items > 1, np.sqrt(np.maximum(variance, 0.0)), np.nan)

    def variances(self, begin: int) -> Array:
        return self.std[begin:] ** 2

    def difference(self, one: int, other: int) -> float:
        batch = next(batch for batch in self.pattern.batches if one < batch.nodes.stop)
        if batch.size <= self.pattern.limits.exact:
            context, a = divmod(one - batch.nodes.start, batch.size)
            block, b = self.block(batch)[context], (other - batch.nodes.start) % batch.size
            return float(block[a, a] + block[b, b] - 2 * block[a, b])
        apart = self._mean([np.array(part.difference(one, other)) for part in self.parts])
        roots, others = (of[one] - of[other] for of in self._roots)
        return self.scale * float(apart + roots @ others + 2.0 * self.own * (one != other))


def root_of(covariance: Array) -> Array:
    """R (M, M) with R Rᵀ = `covariance`."""
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


def mixture_moments(means: Array, covariances: Array, shares: Array) -> tuple[Array, Array]:
    """Mean (G,) and covariance (G, G) of a mixture of distributions with `means` (P, G), `covariances` and `shares`."""
    mean = shares @ means
    apart = means - mean
    covariance = np.tensordot(shares, covariances, axes=1) + apart.T @ (shares[:, None] * apart)
    return mean, 0.5 * (covariance + covariance.T)


def evenly(either: Sequence[tuple[Array, Part]]) -> tuple[Array, Posterior]:
    """Mean (n,) and covariance of scores of which two means and covariances are equally likely."""
    (one, own), (other, its) = either
    return 0.5 * (one + other), Posterior((own, its), (0.5, 0.5), roots=0.5 * (one - other)[:, None])


STEPS = 8  # each reaches items one comparison further away; measured: the eighth changes a variance by under 1%
SETTLED = 1e-6  # relative change of a precision that ends the steps, far below this


def difference_variances(laplacian: Laplacian) -> Array:
    """R = xᵀH⁻¹x of every row x of X (M,), in the pattern's order.

    Exact in contexts of up to `Limits.spectral` items. Above, by belief propagation, which is exact without cycles: a
    comparison of i and j with precision c adds m_ji = 1/(1/c + 1/(P_j − m_ij)) to the precision P_i of item i, so that
    all others add P_i − m_ji, and R = 1/(c + 1/(1/(P_i − m_ji) + 1/(P_j − m_ij))).

    >>> from comparo.data.comparisons import Comparisons
    >>> from comparo.model.linalg.graph import Graph
    >>> from comparo.model.linalg.graph import Pattern
    >>> pattern = Pattern(Graph.build(Comparisons.from_rows([("a", "b", 0.7)])))
    >>> difference_variances(Laplacian(pattern, np.ones(1), np.ones(2)))
    array([0.66666667])
    """
    pattern = laplacian.pattern
    found = np.zeros(len(pattern.order))
    for batch in pattern.batches:
        if batch.size > pattern.limits.spectral:
            rows = slice(batch.rows.start, None)
            found[rows] = _on_a_tree(laplacian)[rows]
            break
        inverse = np.linalg.inv(laplacian.dense(batch))
        first, second = pattern.first[batch.rows], pattern.second[batch.rows]
        which = pattern.context[first] - batch.begin
        start = pattern.graph.starts[pattern.context[first]]
        ends = [(first - start, 1.0), (second - start, -1.0)]
        if pattern.judge is not None:
            ends.append((batch.size + pattern.judge[batch.rows], -1.0))
        for i, sign in ends:
            for j, other in ends:
                found[batch.rows] += sign * other * inverse[which, i, j]
    return found


def _on_a_tree(laplacian: Laplacian) -> Array:
    pattern, n = laplacian.pattern, laplacian.pattern.graph.nodes
    first, second, c = pattern.first, pattern.second, np.maximum(laplacian.c, TINY)
    to_first, to_second = c.copy(), c.copy()
    total = np.full(n, np.inf)
    for _ in range(STEPS):
        before, total = total, laplacian.ridge[:n] + np.bincount(first, to_first, n) + np.bincount(second, to_second, n)
        without_first = np.maximum(total[first] - to_first, TINY)
        without_second = np.maximum(total[second] - to_second, TINY)
        if np.all(np.abs(total - before) <= SETTLED * total):
            break
        to_first = c * without_second / (c + without_second)
        to_second = c * without_first / (c + without_first)
    return np.asarray(1.0 / (c + without_first * without_second / (without_first + without_second)))
