"""The covariance of the scores of every method, and the variances of the differences that comparisons are about.

    Cov(s) = scale·(Σ_k share_k·H_k⁻¹ + R Rᵀ)

H⁻¹ is the inverse of a curvature (`Inverse`); a mixture has several. R (n, K) is a low-rank part: estimated means of
groups and styles, and the scatter of the means of a mixture.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from comparo.model.linalg.graph import Batch, Graph, Pattern
from comparo.model.linalg.laplacian import Laplacian
from comparo.types import Array


class Covariance(Protocol):
    """The covariance of the scores around the mean of their component; contexts are independent."""

    @property
    def pattern(self) -> Pattern: ...

    @property
    def std(self) -> Array:
        """Standard error of every score, shape (n,); NaN where an item was never compared."""
        ...

    def block(self, batch: Batch) -> Array:
        """The covariance of each context of `batch`, shape (B, size, size)."""
        ...

    def difference(self, one: int, other: int) -> float:
        """The variance of the difference of two nodes of one component."""
        ...


class Inverse(Protocol):
    """The inverse of a curvature of the scores, centred in each component: a `Laplacian`, or what stands for one."""

    @property
    def pattern(self) -> Pattern: ...

    def inverse(self, batch: Batch) -> Array:
        """Its block for each context of `batch`, shape (B, size, size)."""
        ...

    def variances(self, begin: int) -> Array:
        """Its diagonal at the nodes from `begin` on, for contexts too large for `inverse`."""
        ...

    def difference(self, one: int, other: int) -> float:
        """xᵀH⁻¹x for the difference x of two nodes of one component, without `inverse`."""
        ...


@dataclass(frozen=True, eq=False)
class Posterior:
    """The `Covariance` scale·(Σ share·H⁻¹ + roots·rootsᵀ), with `roots` (n, K).

    Contexts of up to `Limits.exact` items are exact; above, the diagonal of H⁻¹ is estimated.

    >>> from comparo.data.comparisons import Comparisons
    >>> from comparo.model.linalg.graph import Graph
    >>> pattern = Pattern(Graph.build(Comparisons.from_rows([("a", "b", 0.7)])))
    >>> found = Posterior((Laplacian(pattern, np.ones(1), np.ones(2)),))
    >>> found.std.round(3), round(found.difference(0, 1), 3)
    (array([0.408, 0.408]), 0.667)
    """

    inverses: tuple[Inverse, ...]
    shares: tuple[float, ...] = (1.0,)
    scale: float = 1.0
    roots: Array | None = None

    @property
    def pattern(self) -> Pattern:
        return self.inverses[0].pattern

    @cached_property
    def _roots(self) -> Array:
        return np.zeros((self.pattern.graph.nodes, 0)) if self.roots is None else self.roots

    def _mean(self, of: list[Array]) -> Array:
        return np.asarray(np.tensordot(self.shares, np.array(of), axes=1))

    @cached_property
    def _kept(self) -> dict[int, Array]:
        return {}

    def block(self, batch: Batch) -> Array:
        if batch.begin in self._kept:
            return self._kept[batch.begin]
        own = self._mean([part.inverse(batch) for part in self.inverses])
        roots = self._roots[batch.nodes].reshape(len(own), batch.size, -1)
        block = np.asarray(self.scale * (own + roots @ roots.transpose(0, 2, 1)))
        if self.pattern.may_keep:
            self._kept[batch.begin] = block
        return block

    @cached_property
    def std(self) -> Array:
        graph, variance = self.pattern.graph, np.empty(self.pattern.graph.nodes)
        for batch in self.pattern.batches:
            if batch.size > self.pattern.limits.exact:
                begin = batch.nodes.start
                own = self._mean([part.variances(begin) for part in self.inverses])
                variance[begin:] = self.scale * (own + np.sum(self._roots[begin:] ** 2, axis=1))
                break
            variance[batch.nodes] = np.einsum("bii->bi", self.block(batch)).ravel()
        compared = np.bincount(graph.component)[graph.component] > 1
        return np.where(compared, np.sqrt(np.maximum(variance, 0.0)), np.nan)

    def difference(self, one: int, other: int) -> float:
        batch = next(batch for batch in self.pattern.batches if one < batch.nodes.stop)
        if batch.size <= self.pattern.limits.exact:
            context, a = divmod(one - batch.nodes.start, batch.size)
            own, b = self.block(batch)[context], (other - batch.nodes.start) % batch.size
            return float(own[a, a] + own[b, b] - 2 * own[a, b])
        apart = self._mean([np.array(part.difference(one, other)) for part in self.inverses])
        return self.scale * float(apart + np.sum((self._roots[one] - self._roots[other]) ** 2))


@dataclass(frozen=True, eq=False)
class Scored:
    """The scores (n,) of the nodes of `graph`, their posterior, and whether the solution converged."""

    graph: Graph
    scores: Array
    posterior: Posterior
    converged: bool


def mixture_moments(means: Array, covariances: Array, shares: Array) -> tuple[Array, Array]:
    """Mean (G,) and covariance (G, G) of a mixture of distributions with `means` (P, G), `covariances` and `shares`."""
    mean = shares @ means
    apart = means - mean
    covariance = np.tensordot(shares, covariances, axes=1) + apart.T @ (shares[:, None] * apart)
    return mean, 0.5 * (covariance + covariance.T)


STEPS = 8  # each takes in the items one comparison further away; measured: the eighth changes a variance by under 1%


def difference_variances(laplacian: Laplacian) -> Array:
    """R = xᵀH⁻¹x of every row x of X (M,), in the pattern's order.

    Exact in contexts of up to `Limits.spectral` items. Above, that of a graph without short cycles: with the precision
    P_i − m_ji of the other comparisons about an item, a comparison of precision c adds
    m_ij = 1/(1/c + 1/(P_j − m_ij)) through its opponent j, and R = 1/(c + 1/(1/(P_i − m_ji) + 1/(P_j − m_ij))).

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
    first, second, c = pattern.first, pattern.second, np.maximum(laplacian.c, np.finfo(float).tiny)
    to_first, to_second = c.copy(), c.copy()
    for _ in range(STEPS):
        total = laplacian.ridge[:n] + np.bincount(first, to_first, n) + np.bincount(second, to_second, n)
        without_first = np.maximum(total[first] - to_first, np.finfo(float).tiny)
        without_second = np.maximum(total[second] - to_second, np.finfo(float).tiny)
        to_first, to_second = 1.0 / (1.0 / c + 1.0 / without_second), 1.0 / (1.0 / c + 1.0 / without_first)
    return np.asarray(1.0 / (c + 1.0 / (1.0 / without_first + 1.0 / without_second)))
