"""Rankings beside true scores: correlations, and an expert learnt from scores.

K comparisons of n candidates (items of contexts) as columns of shape (K,); `scores` maps an item, or a pair (context,
item), to its true score.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from comparo.data.columns import look_up
from comparo.data.comparisons import Comparisons
from comparo.data.items import Items
from comparo.errors import ComparisonsError, Message
from comparo.model.likelihoods.gaussian import Constant, Gaussian
from comparo.model.linalg.graph import Graph
from comparo.ranking.ranking import Ranking
from comparo.rounding import mean_ranks
from comparo.types import Array


def pearson(one: Array, other: Array) -> Array:
    """Pearson's correlation along the last axis of two arrays; NaN where one of them is constant.

    >>> pearson(np.array([1.0, 2.0, 3.0]), np.array([[1.0, 3.0, 2.0], [7.0, 7.0, 7.0]]))
    array([0.5, nan])
    """
    a, b = (column - np.mean(column, axis=-1, keepdims=True) for column in (one, other))
    norm = np.sqrt(np.sum(a * a, axis=-1) * np.sum(b * b, axis=-1))
    varies = _varies(one) & _varies(other)
    return np.asarray(np.divide(np.sum(a * b, axis=-1), norm, out=np.full(norm.shape, np.nan), where=varies))


def _varies(column: Array) -> NDArray[np.bool_]:
    """Whether the values along the last axis differ by more than rounding."""
    return np.asarray(np.ptp(column, axis=-1) > 1e-12 * np.maximum(np.max(np.abs(column), axis=-1), 1.0))


def spearman(one: Array, other: Array) -> Array:
    """Spearman's correlation along the last axis: Pearson's of the ranks, where equal values share their mean rank.

    >>> spearman(np.array([1.0, 2.0, 3.0]), np.array([10.0, 30.0, 20.0]))
    array(0.5)
    """
    return pearson(mean_ranks(one), mean_ranks(other))


def spearman_within(one: Array, other: Array, segment: NDArray[np.integer], segments: int) -> Array:
    """`spearman` within each segment, (segments,), of the entries (n,) that neither column has as NaN.

    `segment` (n,) counts from 0. NaN for fewer than two entries, or where one of the columns is constant.

    >>> scores, others = np.array([1.0, 2.0, 3.0, 5.0]), np.array([1.0, 3.0, 2.0, np.nan])
    >>> spearman_within(scores, others, np.array([0, 0, 0, 1]), 2)
    array([0.5, nan])
    """
    known = ~(np.isnan(one) | np.isnan(other))
    segment = segment[known]
    size = np.bincount(segment, minlength=segments)
    middle = (np.cumsum(size) - size + (size + 1) / 2)[segment]  # of the ranks of each segment among those of all
    begin = segment * (len(segment) + 1.0)
    a, b = (mean_ranks(begin + mean_ranks(column[known])) - middle for column in (one, other))
    inner, square, others = (np.bincount(segment, values, segments) for values in (a * b, a * a, b * b))
    norm = np.sqrt(square * others)
    return np.asarray(np.divide(inner, norm, out=np.full(segments, np.nan), where=norm > 0))


def agreement(ranking: Ranking, items: Items) -> dict[str, Array]:
    """Spearman's correlation with each of the items' scores, per context: shape (C,), in the items' order.

    NaN where a context has fewer than two scored items, or equal scores.
    """
    row = look_up(items.labels, ranking.solution.labels)
    estimated, contexts = np.where(row < 0, np.nan, ranking.scores[row]), len(items.contexts)
    return {name: spearman_within(estimated, scores, items.context, contexts) for name, scores in items.scores.items()}


def mean_known(values: Array) -> float:
    """The mean of the values that are not NaN; NaN where all are."""
    known = values[~np.isnan(values)]
    return float(np.mean(known)) if known.size else float("nan")


def true_differences(data: Comparisons, scores: Mapping[Any, float]) -> tuple[Array, Array, Array]:
    """p, the true difference s_first − s_second, and the weight, of comparisons whose items both have a true score."""
    graph = Graph.build(data)
    labels = graph.labels(data)
    known = np.array([float(scores.get(label, scores.get(label[1], np.nan))) for label in labels])
    difference, weight = known[graph.first] - known[graph.second], data.weights
    usable = np.isfinite(difference) & (weight > 0)
    return data.p[usable], difference[usable], weight[usable]


@dataclass(frozen=True, slots=True)
class Interpolated:
    """A function of p through the points (p, value), straight between them and constant beyond the ends.

    >>> Interpolated((0.0, 1.0), (-1.0, 1.0))(np.array([0.0, 0.75]))
    array([-1. ,  0.5])
    """

    p: tuple[float, ...]
    value: tuple[float, ...]

    def __call__(self, p: Array) -> Array:
        return np.interp(p, self.p, self.value)


def calibrate(data: Any, scores: Mapping[Any, float]) -> Gaussian:
    """Fit a Gaussian expert to true scores of some items: μ(p) = E[s_first − s_second | p] and a constant σ².

    μ is the non-decreasing function closest to the true differences, where the paper assumes a line. A position bias
    of the judge becomes part of it.

    Parameters
    ----------
    data, scores
        Comparisons, in any form that `fit` reads, and the true score of an item, or of a pair (context, item).
        Comparisons with other items are ignored.

    Returns
    -------
    Gaussian
        An expert, to be used as `fit(data, method=expert)`.

    Raises
    ------
    ComparisonsError
        If fewer than two comparisons have a true score for both items.

    Examples
    --------
    >>> truth = {"a": 2.0, "b": 1.0, "c": 0.0}
    >>> expert = calibrate([("a", "b", 0.7), ("b", "c", 0.7), ("a", "c", 0.9), ("c", "a", 0.2)], truth)
    >>> expert.mean(np.array([0.2, 0.7, 0.9]))
    array([-2.,  1.,  2.])
    """
    p, difference, weight = true_differences(Comparisons.of(data), scores)
    if len(p) < 2:
        remedy = Message("give {columns.scores} of more items, with the keys of the comparisons")
        raise ComparisonsError(f"{len(p)} comparisons have a true score for both of their items; " + remedy)
    points, place = np.unique(p, return_inverse=True)
    total = np.bincount(place, weight)
    level = np.bincount(place, weight * difference) / total
    rising = scipy.optimize.isotonic_regression(level, weights=total).x
    mean = Interpolated(tuple(points.tolist()), tuple(rising.tolist()))
    variance = float(np.average((difference - mean(p)) ** 2, weights=weight))
    # If all answers fit exactly, the variance would be 0 and the precision infinite.
    least = 1e-6 * float(np.var(difference)) + np.finfo(float).tiny
    return Gaussian(mean, Constant(max(variance, least)))
