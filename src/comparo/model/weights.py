"""Weights of comparisons whose noise differs.

The soft Bradley–Terry expert assumes that a slope has the variance φ·c, that of coin flips, c = σ(d)σ(−d). The logits
of a model have about the same noise for certain answers as for uncertain ones, so that the variance is φ·c²: its
answers near 0 and 1 are more precise than coin flips, and have the weight 1/c (`even`). How the noise depends on any
other size is estimated from the answers (`power`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from comparo.data.comparisons import Comparisons
from comparo.model.experts import BradleyTerry, Expert, derivatives
from comparo.model.graph import Graph
from comparo.model.position import pairs
from comparo.model.product import multiply
from comparo.types import Array

WIDE = 100.0  # standard deviation of the prior in the fit whose residuals are used
CERTAIN = 0.02  # least 4p(1 − p): closer to 0 and 1 a model's probabilities lose their digits
COARSE = 11  # most distances from ½ for answers that are votes or grades (of up to 20 votes): these are coin flips
SAME = 9  # digits that equal answers share, so that 1 − 0.8 equals 0.2


def power(squares: Array, size: Array, freedom: float, powers: Array, usual: float, sure: float) -> float:
    """The most probable a of `powers` if the variance of comparisons is φ·size^−a, with the prior `usual` ± `sure`.

    `squares` (M,) are squared residuals divided by the variance that follows from weight and curvature, from a fit with
    equal weights, and `freedom` its degrees of freedom. With the best φ, a maximises

        ½·freedom·(mean a·log size − log Σ squares·size^a) − ½ ((a − usual)/sure)².

    >>> size, powers = np.tile([1.0, 0.1], 200), np.linspace(0.0, 3.0, 31)
    >>> power(np.ones(400), size, 400.0, powers, 1.0, 1.0), power(1 / size**2, size, 400.0, powers, 1.0, 1.0)
    (0.0, 2.0)
    """
    total = np.array([float(np.sum(squares * size**a)) for a in powers])
    fits = powers * float(np.mean(np.log(size))) - np.log(np.maximum(total, np.finfo(float).tiny))
    return float(powers[np.argmax(0.5 * freedom * fits - 0.5 * ((powers - usual) / sure) ** 2)])


def residuals(comparisons: Comparisons, expert: Expert) -> tuple[Comparisons, Array, float]:
    """The comparisons with both orders merged, their squared residuals (M,) as `power` takes them, and the freedom.

    >>> merged, squares, freedom = residuals(Comparisons.from_rows([("a", "b", 0.8), ("b", "a", 0.4)]), BradleyTerry())
    >>> len(merged), bool(squares[0] < 1e-6), freedom
    (1, True, 0.0)
    """
    merged = comparisons.merge_orders()
    product = multiply(merged, expert, prior=WIDE)
    slope, curvature = np.empty((2, len(merged)))
    derivatives(expert, product.differences(slice(None)), merged.p, slope, curvature)
    squares = merged.weights * slope**2 / np.maximum(curvature, np.finfo(float).tiny)
    return merged, squares, float(max(len(merged) - (product.graph.nodes - product.graph.components), 0))


def even(comparisons: Comparisons, expert: Expert) -> Comparisons:
    """The comparisons with their weights divided by 4p(1 − p), for equal noise of all logits; their sum is kept.

    Other experts than Bradley–Terry, and answers that are decisions, votes or grades, keep their weights.

    >>> even(Comparisons.from_rows([("a", "b", 0.5), ("b", "c", 0.9)]), BradleyTerry()).weight.round(2)
    array([0.53, 1.47])
    """
    if not isinstance(expert, BradleyTerry) or _is_coarse(comparisons):
        return comparisons
    weight = comparisons.weights / np.maximum(4.0 * comparisons.p * (1.0 - comparisons.p), CERTAIN)
    return replace(comparisons, weight=weight * (np.sum(comparisons.weights) / np.sum(weight)))


def _is_coarse(comparisons: Comparisons) -> bool:
    """Whether the same answers are repeated, as votes and grades are.

    p and 1 − p are the same answer, and the two orders of a pair count once, so that the result does not depend on
    which text was shown first, nor on whether a pair was asked once or in both orders.
    """
    different = len(np.unique(np.round(np.abs(comparisons.p - 0.5), SAME)))
    if different > COARSE:
        return False
    graph = Graph.build(comparisons)
    order = 2 * pairs(comparisons, graph)[0] + (graph.first > graph.second)
    asked = np.bincount(order, minlength=int(order.max()) + 2 - int(order.max()) % 2).reshape(-1, 2)
    return 2 * different < int(np.sum(np.max(asked, axis=1)))
