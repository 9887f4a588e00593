"""The covariance of the scores: exact where it fits in memory, estimated where it does not.

The variance of the difference that every comparison is about.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from comparo.model.estimators.poe import Product
from comparo.model.linalg.graph import Graph
from comparo.model.linalg.laplacian import Laplacian
from comparo.model.linalg.pattern import Batch, Pattern
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


@dataclass(frozen=True)
class ProductCovariance:
    """φ·H⁻¹ of a product of experts (Laplace's approximation for Bradley–Terry), φ its dispersion.

    Contexts of up to `Limits.exact` items are exact. Above, with D the diagonal of H and S = D − H,

        H⁻¹ = D⁻¹ + D⁻¹ S D⁻¹ + D⁻¹ S H⁻¹ S D⁻¹

    whose last diagonal is the variance of (S z)/D for z ~ N(0, H⁻¹), estimated from `Limits.error_draws` draws, one
    solution each. Only the last term is random, so a standard error has the relative error 1/√(2·64) = 9% (root mean
    square) times that term's share of the variance: about 0.5% for an item with twenty comparisons, 9% at the end of a
    long chain.

    Where group means and styles are estimated (`Effects`), their uncertainty φ·F S⁻¹ Fᵀ is added.
    """

    laplacian: Laplacian
    product: Product | None = None  # None: φ = 1

    @property
    def pattern(self) -> Pattern:
        return self.laplacian.pattern

    @property
    def dispersion(self) -> float:
        return 1.0 if self.product is None else self.product.dispersion

    @cached_property
    def _kept(self) -> dict[int, Array]:
        return {}

    @cached_property
    def _shared(self) -> Array | None:
        """F S^(−½), shape (n, M), where scores have estimated group means or styles."""
        effects = None if self.product is None else self.product.effects
        if effects is None or effects.spread is None or effects.between is None:
            return None
        values, vectors = np.linalg.eigh(effects.between)
        return np.asarray(effects.spread @ (vectors * np.sqrt(np.maximum(values, 0.0))))

    def block(self, batch: Batch) -> Array:
        if batch.begin in self._kept:
            return self._kept[batch.begin]
        block = self.dispersion * self.laplacian.inverse(batch)
        if self._shared is not None:
            spread = self._shared[batch.nodes].reshape(len(block), batch.size, -1)
            block += self.dispersion * spread @ spread.transpose(0, 2, 1)
        if self.pattern.may_keep:
            self._kept[batch.begin] = block
        return block

    @cached_property
    def std(self) -> Array:
        variance = np.empty(self.pattern.graph.nodes)
        for batch in self.pattern.batches:
            if batch.size > self.pattern.limits.exact:
                variance[batch.nodes.start :] = self._sampled(batch.nodes.start)
                break
            variance[batch.nodes] = np.einsum("bii->bi", self.block(batch)).ravel()
        return np.where(compared(self.pattern.graph), np.sqrt(np.maximum(variance, 0.0)), np.nan)

    def _sampled(self, begin: int) -> Array:
        """The diagonal of φ·H⁻¹ at the nodes from `begin` on."""
        shared = 0.0 if self._shared is None else np.sum(self._shared[begin:] ** 2, axis=1)
        return np.asarray(self.dispersion * (sampled_variances(self.laplacian, begin) + shared))

    def difference(self, one: int, other: int) -> float:
        batch = next(batch for batch in self.pattern.batches if one < batch.nodes.stop)
        if batch.size <= self.pattern.limits.exact:
            return block_difference(self.block(batch), batch, one, other)
        shared = 0.0 if self._shared is None else float(np.sum((self._shared[one] - self._shared[other]) ** 2))
        return self.dispersion * (solved_difference(self.laplacian, one, other) + shared)


@dataclass(frozen=True)
class MeanCovariance:
    """The covariance of scores that are an item's mean outcome: v·D⁻¹ L D⁻¹.

    L is the Laplacian of the weights and D its diagonal. An outcome p for the first is 1 − p for the second, hence the
    negative covariance of opponents; v is the variance of an outcome of weight 1 around its items' means.
    """

    laplacian: Laplacian
    variance: float

    @property
    def pattern(self) -> Pattern:
        return self.laplacian.pattern

    @cached_property
    def std(self) -> Array:
        weight = self.laplacian.diagonal
        return np.sqrt(self.variance / np.where(weight > 0, weight, np.nan))

    def block(self, batch: Batch) -> Array:
        weight = self.laplacian.diagonal[batch.nodes].reshape(-1, batch.size)
        scale = 1.0 / np.where(weight > 0, weight, np.inf)
        matrix = self.laplacian.dense(batch) - self.laplacian.constants(batch)
        return np.asarray(self.variance * scale[:, :, None] * matrix * scale[:, None, :])

    def difference(self, one: int, other: int) -> float:
        pattern, weight = self.pattern, self.laplacian.diagonal
        between = (pattern.first == one) & (pattern.second == other) | (pattern.first == other) & (
            pattern.second == one
        )
        opposed = float(np.sum(self.laplacian.c[between])) / (weight[one] * weight[other])
        return self.variance * float(1 / weight[one] + 1 / weight[other] + 2 * opposed)


def solved_difference(laplacian: Laplacian, one: int, other: int) -> float:
    """The variance of the difference of two nodes by H⁻¹, from one solution."""
    rhs = np.zeros(laplacian.pattern.unknowns)
    rhs[[one, other]] = 1.0, -1.0
    x = laplacian.solve(rhs)
    return float(x[one] - x[other])


def sampled_variances(laplacian: Laplacian, begin: int) -> Array:
    """The diagonal of H⁻¹ at the nodes from `begin` on, centred, by `Limits.error_draws` random vectors."""
    pattern, rng = laplacian.pattern, np.random.default_rng(0)
    draws, columns = pattern.limits.error_draws, pattern.limits.error_columns
    diagonal = np.where(laplacian.diagonal > 0, laplacian.diagonal, 1.0)[:, None]
    spread = np.zeros(pattern.unknowns)
    for _ in range(draws // columns):
        rhs = laplacian.noise(columns, rng)
        # Weak links between clusters carry much of the variance and little of the residual.
        spread += np.sum((laplacian.solve(rhs, accuracy=1e-8) - rhs / diagonal) ** 2, axis=1) / draws
    nodes = slice(begin, pattern.graph.nodes)
    component, ridge = pattern.graph.component, laplacian.ridge[: pattern.graph.nodes]
    items, total = (np.bincount(component, of)[component[nodes]] for of in (None, ridge))
    share = 1.0 - 2.0 / items + ridge[nodes] ** 2 / (np.where(total > 0, total, 1.0) * diagonal[nodes, 0])
    return np.asarray(share / diagonal[nodes, 0] + spread[nodes])


def block_difference(block: Array, batch: Batch, one: int, other: int) -> float:
    """The variance of the difference of two nodes of a context of `batch`, from the covariances (B, size, size)."""
    context, a = divmod(one - batch.nodes.start, batch.size)
    own, b = block[context], (other - batch.nodes.start) % batch.size
    return float(own[a, a] + own[b, b] - 2 * own[a, b])


def compared(graph: Graph) -> Array:
    """Whether each node shares its component with another, shape (n,)."""
    return np.asarray(np.bincount(graph.component)[graph.component] > 1)


STEPS = 8  # each takes in the items one comparison further away; measured: the eighth changes a variance by under 1%


def difference_variances(laplacian: Laplacian) -> Array:
    """R = xᵀH⁻¹x of every row x of X (M,), in the pattern's order.

    Exact in contexts of up to `Limits.spectral` items. Above, that of a graph without short cycles: with the precision
    of what the other comparisons say of an item, P_i − m_ji, a comparison of precision c says of it
    m_ij = 1/(1/c + 1/(P_j − m_ij)) through its opponent j, and R = 1/(c + 1/(1/(P_i − m_ji) + 1/(P_j − m_ij))).

    >>> from comparo.data.comparisons import Comparisons
    >>> from comparo.model.linalg.graph import Graph
    >>> from comparo.model.linalg.pattern import Pattern
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
        size, width = batch.size, batch.size + pattern.judges
        inverse = np.linalg.inv(laplacian.dense(batch))
        first, second = pattern.first[batch.rows], pattern.second[batch.rows]
        which = pattern.context[first] - batch.begin
        start = pattern.graph.starts[pattern.context[first]]
        ends = [(first - start, 1.0), (second - start, -1.0)]
        if pattern.judge is not None:
            ends.append((size + pattern.judge[batch.rows], -1.0))
        assert inverse.shape[-1] == width
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
