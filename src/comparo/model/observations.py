"""What soft answers say about differences of scores: observations with Gaussian noise.

The paper's general Gaussian expert with μ(p) = logit p takes an answer as

    y = logit p = s_first − s_second − γ + noise,    Var(noise) = φ / weight.

Two answers about a pair, in both orders, are one observation, half of their difference: the effect of position cancels
in it, that of the judge (γ) and that of the two texts. Answers that are choices (decisions, ties, votes, grades) have
the likelihood of Bradley–Terry instead (`comparo.model.sites`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from comparo.data.comparisons import Comparisons
from comparo.model.graph import Graph
from comparo.model.position import pairs
from comparo.types import Array, Index

COARSE = 11  # most distances from ½ for answers that are votes or grades (of up to 20 votes)
SAME = 9  # digits that equal answers share, so that 1 − 0.8 equals 0.2
SATURATED = 1e-12  # distance from 0 or 1 below which an answer is rounded: a few hundred roundings of a double near 1
LEAST_CAP = 4.6  # logit of 0.99: the least difference that a saturated answer stands for


@dataclass(frozen=True)
class Observations:
    """M observations y of s_first − s_second − γ with relative precisions `weight`, all of shape (M,).

    `row` is one of its comparisons; `first` and `second` are nodes. `judge` is the code of the judge whose γ is in y,
    or J where γ cancels. `censored` marks saturated answers: the difference is at least y, which is positive there. The
    pairs asked in both orders also say what γ is: `sums` (C, J) is the mean of half of the sums of their answers, an
    estimate of −γ, with the weight `sum_weight` (C, J). `sum_square` is the weighted sum of their squares around these
    means, with `sum_freedom` degrees of freedom.
    """

    row: NDArray[np.intp]
    first: Index
    second: Index
    y: Array
    weight: Array
    judge: Index
    censored: NDArray[np.bool_]
    sums: Array
    sum_weight: Array
    sum_square: float
    sum_freedom: int

    @property
    def all_pairs(self) -> bool:
        """Whether γ cancels in every observation."""
        return bool(np.all(self.judge == self.sums.shape[1]))

    @property
    def sum_variance(self) -> float:
        """The variance of half of a sum, as of weight 1: φ, and what the position does to single texts."""
        return (self.sum_square + 1e-3) / (self.sum_freedom + 1e-3)


def are_choices(comparisons: Comparisons) -> bool:
    """Whether the same answers are repeated, as decisions, votes and grades are.

    p and 1 − p are the same answer, and the two orders of a pair count once, so that the result does not depend on
    which text was shown first, nor on whether a pair was asked once or in both orders.

    >>> are_choices(Comparisons.from_rows([("a", "b", 1.0), ("b", "c", 0.5)]))
    True
    """
    if comparisons.hard:
        return True
    different = len(np.unique(np.round(np.abs(comparisons.p - 0.5), SAME)))
    if different > COARSE:
        return False
    graph = Graph.build(comparisons)
    order = 2 * pairs(comparisons, graph)[0] + (graph.first > graph.second)
    asked = np.bincount(order, minlength=int(order.max()) + 2 - int(order.max()) % 2).reshape(-1, 2)
    return 2 * different < int(np.sum(np.max(asked, axis=1)))


def logits(p: Array) -> tuple[Array, NDArray[np.bool_]]:
    """logit p (K,), and which are saturated: 0 and 1 within rounding, at the largest size of all others.

    >>> logits(np.array([0.5, 1.0, 1e-3]))
    (array([ 0.        ,  6.90675478, -6.90675478]), array([False,  True, False]))
    """
    saturated = np.minimum(p, 1.0 - p) < SATURATED
    cap = max(float(np.max(np.abs(logit(p[~saturated])), initial=0.0)), LEAST_CAP)
    return np.where(saturated, np.sign(p - 0.5) * cap, logit(np.where(saturated, 0.5, p))), saturated


def observe(comparisons: Comparisons, graph: Graph, y: Array, saturated: NDArray[np.bool_]) -> Observations:
    """The observations from y (K,), one for each pair, context and judge, or one for each order that was asked alone.

    Repeated answers are averaged by weight. With weights w and w′ of the two orders, half of their difference has the
    weight 4 / (1/w + 1/w′).

    >>> data = Comparisons.from_rows([("a", "b", 0.8), ("b", "a", 0.4), ("b", "c", 0.7)])
    >>> found = observe(data, Graph.build(data), *logits(data.p))
    >>> found.y.round(2), found.weight, found.judge, found.sums.round(2)
    (array([0.9 , 0.85]), array([2., 1.]), array([1, 0], dtype=int32), array([[0.49]]))
    """
    judges = 1 if comparisons.judges is None else len(comparisons.judges)
    pair, _ = pairs(comparisons, graph)
    turned = graph.first > graph.second
    count = int(pair.max(initial=-1)) + 1
    slot = 2 * pair + turned
    lead = np.zeros(count, dtype=np.intp)
    lead[pair[::-1]] = np.arange(len(pair))[::-1]  # the first row of each pair
    low, high = (edge(graph.first, graph.second)[lead] for edge in (np.minimum, np.maximum))
    judge, context = comparisons.judged_by[lead], graph.position[low]

    def total(values: Array) -> Array:
        return np.bincount(slot, values, 2 * count).astype(float).reshape(-1, 2)

    weight = total(comparisons.weights)
    mean = np.divide(total(comparisons.weights * y), weight, out=np.zeros((count, 2)), where=weight > 0)
    cut = total(saturated.astype(float)) > 0
    asked = weight > 0
    both = asked.all(axis=1)
    half = 4.0 / np.sum(1.0 / np.where(asked, weight, 1.0), axis=1)
    parts = [
        (
            lead[both],
            low[both],
            high[both],
            (mean[both, 0] - mean[both, 1]) / 2,
            half[both],
            np.full(np.count_nonzero(both), judges),
        )
    ]
    cuts = [cut[both].any(axis=1)]
    for order, (first, second) in enumerate(((low, high), (high, low))):
        alone = asked[:, order] & ~both
        parts.append((lead[alone], first[alone], second[alone], mean[alone, order], weight[alone, order], judge[alone]))
        cuts.append(cut[alone, order])
    row, first, second, values, weights, family = (np.concatenate(column) for column in zip(*parts, strict=True))
    family, censored = family.astype(np.int32), np.concatenate(cuts)
    swap = censored & (values < 0) & (family == judges)  # a pair may be turned round so that its y is positive
    first, second = np.where(swap, second, first), np.where(swap, first, second)
    key, each = context[both] * judges + judge[both], mean[both].mean(axis=1)
    groups = graph.contexts * judges
    sum_weight = np.bincount(key, half[both], groups).astype(float)
    sums = np.bincount(key, half[both] * each, groups) / np.maximum(sum_weight, np.finfo(float).tiny)
    return Observations(
        row,
        first.astype(np.int32),
        second.astype(np.int32),
        np.where(swap, -values, values),
        weights,
        family,
        censored,
        sums.reshape(-1, judges),
        sum_weight.reshape(-1, judges),
        float(np.sum(half[both] * (each - sums[key]) ** 2)),
        int(len(key) - np.count_nonzero(sum_weight)),
    )
