"""Correlations: of rankings with people's scores, and of a ranking with an earlier one."""

import numpy as np
from numpy.typing import NDArray

from comparo.data.columns import look_up
from comparo.data.items import Items
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
    """`spearman` of the entries (n,) of each segment, shape (segments,), where both are known; `segment` (n,) from 0.

    NaN where fewer than two are known, or where one of the columns is constant.

    >>> scores, others = np.array([1.0, 2.0, 3.0, 5.0]), np.array([1.0, 3.0, 2.0, np.nan])
    >>> spearman_within(scores, others, np.array([0, 0, 0, 1]), 2)
    array([0.5, nan])
    """
    known = ~(np.isnan(one) | np.isnan(other))
    segment = segment[known]
    size = np.bincount(segment, minlength=segments)
    a, b = (_ranks(column[known], segment) - (size[segment] + 1) / 2 for column in (one, other))
    inner, square, others = (np.bincount(segment, values, segments) for values in (a * b, a * a, b * b))
    norm = np.sqrt(square * others)
    return np.asarray(np.divide(inner, norm, out=np.full(segments, np.nan), where=norm > 0))


def aligned(last: Ranking, earlier: Ranking) -> Array:
    """The earlier scores of all candidates of the last ranking, shape (n,); the mean for those not yet compared."""
    items = np.int64(len(last.comparisons.items))
    keys, found = (one.graph.context * items + one.graph.item for one in (last, earlier))
    order = np.argsort(keys, kind="stable")
    scores = np.full(len(keys), np.mean(earlier.scores))
    scores[order[np.searchsorted(keys, found, sorter=order)]] = earlier.scores
    return scores


def _ranks(values: Array, segment: NDArray[np.integer]) -> Array:
    """The rank of each value (n,) in its segment, from 1; equal ones share the mean of theirs."""
    order = np.lexsort((values, segment))
    ordered, part = values[order], segment[order]
    starts = np.diff(part, prepend=-1) != 0
    group = np.cumsum(starts | (np.diff(ordered, prepend=np.nan) != 0)) - 1
    place = np.arange(len(values))
    place = place - np.maximum.accumulate(np.where(starts, place, 0)) + 1
    ranks = np.empty(len(values))
    ranks[order] = (np.bincount(group, place) / np.bincount(group))[group] if len(values) else ranks
    return ranks


def agreement(ranking: Ranking, items: Items) -> dict[str, Array]:
    """Spearman's correlation with each of the items' scores, per context: shape (C,), in the items' order.

    NaN where a context has fewer than two scored items, or equal scores.
    """
    labels = zip(items.contexts[items.context].tolist(), items.ids.tolist(), strict=True)
    row = look_up(labels, ranking.graph.labels(ranking.comparisons))
    estimated = np.where(row < 0, np.nan, ranking.scores[row])
    contexts_of = len(items.contexts)
    return {
        name: spearman_within(estimated, scores, items.context, contexts_of) for name, scores in items.scores.items()
    }
