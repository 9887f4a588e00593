"""Methods "win-ratio" and "avg-prob": the mean outcome of every item, Σ w·p / Σ w, with 1 − p where it is second.

Its covariance is v·D⁻¹ L D⁻¹, with L the Laplacian of the weights, D its diagonal, and v the variance of an outcome of
weight 1 around the means of its items.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from comparo.data.comparisons import Comparisons
from comparo.model.linalg.graph import Batch, Graph, Pattern
from comparo.model.linalg.laplacian import Laplacian
from comparo.model.posterior import Posterior, Scored
from comparo.model.tuning import LIMITS, Limits
from comparo.types import Array


@dataclass(frozen=True)
class MeanInverse:
    """D⁻¹ L D⁻¹. An outcome p for the first is 1 − p for the second, hence the negative covariance of opponents."""

    laplacian: Laplacian

    @property
    def pattern(self) -> Pattern:
        return self.laplacian.pattern

    def inverse(self, batch: Batch) -> Array:
        weight = self.laplacian.diagonal[batch.nodes].reshape(-1, batch.size)
        scale = 1.0 / np.where(weight > 0, weight, np.inf)
        matrix = self.laplacian.dense(batch) - self.laplacian.constants(batch)
        return np.asarray(scale[:, :, None] * matrix * scale[:, None, :])

    def variances(self, begin: int) -> Array:
        weight = self.laplacian.diagonal[begin:]
        return np.asarray(1.0 / np.where(weight > 0, weight, np.nan))

    def difference(self, one: int, other: int) -> float:
        pattern, weight = self.pattern, self.laplacian.diagonal
        ends = np.sort([pattern.first, pattern.second], axis=0)
        between = np.all(ends == np.sort([one, other])[:, None], axis=0)
        opposed = float(np.sum(self.laplacian.c[between])) / (weight[one] * weight[other])
        return float(1 / weight[one] + 1 / weight[other] + 2 * opposed)


def mean_outcome(comparisons: Comparisons, limits: Limits = LIMITS) -> Scored:
    """The mean outcome of every item.

    >>> mean_outcome(Comparisons.from_rows([("a", "b", 0.75), ("b", "c", 0.5)])).scores
    array([0.75 , 0.375, 0.5  ])
    """
    graph = Graph.build(comparisons)
    n, p, weight = graph.nodes, comparisons.p, comparisons.weights
    pattern = Pattern(graph, limits=limits)
    laplacian = Laplacian(pattern, weight[pattern.order], np.zeros(n))
    total = laplacian.diagonal
    won = np.bincount(graph.first, weight * p, n) + np.bincount(graph.second, weight * (1 - p), n)
    scores = np.divide(won, total, out=np.full(n, 0.5), where=total > 0)
    squares = np.sum(weight * ((p - scores[graph.first]) ** 2 + (1 - p - scores[graph.second]) ** 2))
    freedom = max(0, 2 * len(p) - n)
    unknown = 1.0 / (1.0 + freedom)  # weight of the variance of a coin, ¼, for very few comparisons
    variance = float((0.25 * unknown + squares) / (unknown + freedom))
    return Scored(graph, scores, Posterior((MeanInverse(laplacian),), scale=variance), True)
