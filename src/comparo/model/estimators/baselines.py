"""The baselines: methods "bt", "win-ratio" and "avg-prob".

"bt" is Bradley–Terry on decisions by maximum likelihood, optionally with a prior of e wins per side,

    Σ_k w_k·[y_k·d_k − log(1 + e^d_k)],    d = s_first − s_second:

The prior replaces a comparison by the decision (w·y + e)/(w + 2e) of weight w + 2e.

"win-ratio" and "avg-prob" are the mean outcome of every item, Σ w·p / Σ w, with 1 − p where the item is second. The
covariance is v·D⁻¹ L D⁻¹, with L the Laplacian of the weights, D its diagonal, and v the residual variance of an
outcome of weight 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from comparo.data.comparisons import Comparisons
from comparo.model.inference.newton import Problem
from comparo.model.likelihoods.bradley_terry import BradleyTerry
from comparo.model.linalg.graph import ContextBatch, Graph, Pattern
from comparo.model.linalg.laplacian import Laplacian
from comparo.model.posterior import Posterior
from comparo.model.solution import Solution
from comparo.model.tuning import LIMITS, WIDE, Limits
from comparo.types import Array, Mask

PriorPairs = Literal["none", "compared"]


def bradley_terry(comparisons: Comparisons, prior_pairs: PriorPairs = "none", limits: Limits = LIMITS) -> Solution:
    """The maximum-likelihood scores of the decisions.

    With `prior_pairs` "compared", each side of a comparison gets 1/(N − 1) extra wins, in a context of N items. With
    "none", scores have a Gaussian prior of standard deviation `WIDE` in components whose likelihood has no maximum.

    >>> rows = [("a", "b", 1.0)] * 3 + [("b", "a", 1.0)]
    >>> bradley_terry(Comparisons.from_rows(rows)).scores.round(4)    # ± ½ log 3
    array([ 0.5493, -0.5493])
    """
    graph = Graph.build(comparisons)
    p, weight, ridge = comparisons.p, comparisons.weights, np.zeros(graph.nodes)
    if prior_pairs == "none":
        ridge = np.where(_has_maximum(graph, comparisons)[graph.component], 0.0, 1.0 / WIDE**2)
    else:
        wins = 1.0 / np.maximum(np.diff(graph.starts) - 1.0, 1.0)[graph.position]
        more = np.where(weight > 0, wins[graph.first], 0.0)
        total = weight + 2.0 * more
        p = (weight * p + more) / np.where(weight > 0, total, 1.0)
        weight = total
    pattern = Pattern(graph, limits=limits)
    order, start = pattern.order, np.zeros(graph.nodes)
    found = Problem(pattern, BradleyTerry(), p[order], weight[order], None, start, ridge).maximise(start)
    return Solution(comparisons, graph, graph.centre(found.x), Posterior((found.laplacian,)), found.converged)


def _has_maximum(graph: Graph, comparisons: Comparisons) -> Mask:
    """Whether the wins strongly connect each component, so that the likelihood has a maximum there (Ford 1957)."""
    is_used = comparisons.weights > 0
    won, lost = is_used & (comparisons.p > 0), is_used & (comparisons.p < 1)
    winner = np.concatenate([graph.first[won], graph.second[lost]])
    loser = np.concatenate([graph.second[won], graph.first[lost]])
    beat = sparse.coo_array((np.ones(len(winner)), (winner, loser)), shape=(graph.nodes, graph.nodes))
    strong = connected_components(beat, directed=True, connection="strong")[1]
    parts = np.unique(np.column_stack([graph.component, strong]), axis=0)[:, 0]
    return np.asarray(np.bincount(parts) == 1)


@dataclass(frozen=True)
class MeanInverse:
    """D⁻¹ L D⁻¹. Opponents have negative covariance, because an outcome p for one is 1 − p for the other."""

    laplacian: Laplacian

    @property
    def pattern(self) -> Pattern:
        return self.laplacian.pattern

    def block(self, batch: ContextBatch) -> Array:
        weight = self.laplacian.diagonal[batch.nodes].reshape(-1, batch.size)
        scale = 1.0 / np.where(weight > 0, weight, np.inf)
        matrix = self.laplacian.dense(batch) - self.laplacian.constants(batch)
        return scale[:, :, None] * matrix * scale[:, None, :]

    def variances(self, begin: int) -> Array:
        weight = self.laplacian.diagonal[begin:]
        return 1.0 / np.where(weight > 0, weight, np.nan)

    def difference(self, one: int, other: int) -> float:
        pattern, weight = self.pattern, self.laplacian.diagonal
        ends = np.sort([pattern.first, pattern.second], axis=0)
        between = np.all(ends == np.sort([one, other])[:, None], axis=0)
        opposed = np.sum(self.laplacian.c[between]) / (weight[one] * weight[other])
        return float(1 / weight[one] + 1 / weight[other] + 2 * opposed)


def mean_outcome(comparisons: Comparisons, limits: Limits = LIMITS) -> Solution:
    """The mean outcome of every item.

    >>> mean_outcome(Comparisons.from_rows([("a", "b", 0.75), ("b", "c", 0.5)])).scores
    array([0.75 , 0.375, 0.5  ])
    """
    graph = Graph.build(comparisons)
    n, p, weight = graph.nodes, comparisons.p, comparisons.relative().weights
    pattern = Pattern(graph, limits=limits)
    laplacian = Laplacian(pattern, weight[pattern.order], np.zeros(n))
    total = laplacian.diagonal
    won = np.bincount(graph.first, weight * p, n) + np.bincount(graph.second, weight * (1 - p), n)
    scores = np.divide(won, total, out=np.full(n, 0.5), where=total > 0)
    first, second = scores[graph.first], scores[graph.second]
    squares = np.sum(weight * ((p - first) ** 2 + (1 - p - second) ** 2))
    freedom = max(0, 2 * len(p) - n)
    unknown = 1.0 / (1.0 + freedom)  # weight of a coin's variance, ¼, which dominates with very few comparisons
    variance = float((0.25 * unknown + squares) / (unknown + freedom))
    return Solution(comparisons, graph, scores, Posterior((MeanInverse(laplacian),), scale=variance))
