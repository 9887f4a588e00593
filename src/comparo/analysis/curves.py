"""The numbers behind the plots: how a ranking settles, and what a difference is given p.

K comparisons of n candidates (items of contexts) as columns of shape (K,); `scores` maps an item, or a pair (context,
item), to its true score.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comparo.analysis.agreement import spearman
from comparo.data.comparisons import Comparisons
from comparo.methods import Method, fit
from comparo.model.graph import Graph
from comparo.model.product import Bias
from comparo.ranking.ranking import Ranking
from comparo.types import Array


def convergence(
    data: Comparisons, truth: Array | None = None, *, method: Method, bias: Bias, points: int
) -> tuple[NDArray[np.int64], Array, Array | None]:
    """The calls made (P,), and Spearman's correlation of the ranking after them with the last and with `truth` (n,).

    Comparisons are taken in their order, each context at the same share of its own; correlations are means over
    contexts. Who was not yet compared is average. P is `points`, or less where there are fewer comparisons.

    >>> data = Comparisons.from_rows([("a", "b", 0.8), ("b", "c", 0.7)])
    >>> convergence(data, method="poe-bt", bias="none", points=2)
    (array([1, 2]), array([0.5, 1. ]), None)
    """
    last = quiet_fit(data, method, bias)
    context = last.graph.context[last.graph.first]
    sizes, order = np.bincount(context), np.argsort(context, kind="stable")
    share = np.empty(len(data))
    begins = np.repeat(np.cumsum(sizes) - sizes, sizes)
    share[order] = (np.arange(len(data)) - begins + 1) / sizes[context[order]]
    parts = [np.flatnonzero(share <= step / points + 1e-9) for step in range(1, points + 1)]
    taken = {len(rows): rows for rows in parts if len(rows)}
    settled = [_candidates_scores(last, quiet_fit(data.take(rows), method, bias)) for rows in taken.values()]
    final = np.array([_mean_spearman(last.graph, scores, last.scores) for scores in settled])
    true = None if truth is None else np.array([_mean_spearman(last.graph, scores, truth) for scores in settled])
    return np.array(list(taken)), final, true


def true_scores(data: Comparisons, graph: Graph, scores: Mapping[Any, float]) -> Array:
    """The true score of each candidate, shape (n,), NaN where there is none; a ValueError where there is none at all.

    >>> data = Comparisons.from_rows([("a", "b", 0.8)])
    >>> true_scores(data, Graph.build(data), {"a": 2})
    array([ 2., nan])
    """
    contexts = [None] * graph.nodes if data.contexts is None else data.contexts[graph.context].tolist()
    labels = zip(contexts, data.items[graph.item].tolist(), strict=True)
    known = np.array([float(scores.get(label, scores.get(label[1], np.nan))) for label in labels])
    if not np.isfinite(known).any():
        raise ValueError(
            "no item has a true score; is every key of `scores` an item (or a pair of context and item) of the "
            "comparisons?"
        )
    return known


def true_differences(data: Comparisons, scores: Mapping[Any, float]) -> tuple[Array, Array, Array]:
    """p, the true difference s_first − s_second, and the weight, of comparisons whose items both have a true score.

    >>> p, difference, weight = true_differences(Comparisons.from_rows([("a", "b", 0.8)]), {"a": 2, "b": 1})
    >>> p, difference, weight
    (array([0.8]), array([1.]), array([1.]))
    """
    graph = Graph.build(data)
    known = true_scores(data, graph, scores)
    difference, weight = known[graph.first] - known[graph.second], data.weights
    usable = np.isfinite(difference) & (weight > 0)
    if not usable.any():
        raise ValueError("no comparison has a true score for both of its items; give scores of more items")
    return data.p[usable], difference[usable], weight[usable]


def moments(p: Array, values: Array, weight: Array, bins: int) -> tuple[Array, Array, Array]:
    """Weighted mean of p, and mean and standard deviation of `values`, in equally wide bins of p that are not empty.

    The deviation of a single value is NaN.

    >>> moments(np.array([0.2, 0.9, 0.9]), np.array([-1.0, 1.0, 3.0]), np.ones(3), bins=2)
    (array([0.2, 0.9]), array([-1.,  2.]), array([nan,  1.]))
    """
    which = np.minimum((p * bins).astype(int), bins - 1)
    counts, total = np.bincount(which, minlength=bins), np.bincount(which, weight, bins)
    filled = counts > 0

    def mean(column: Array) -> Array:
        return np.asarray(np.bincount(which, weight * column, bins)[filled] / total[filled])

    middle = mean(values)
    deviation = np.sqrt(mean((values - middle[(np.cumsum(filled) - 1)[which]]) ** 2))
    return mean(p), middle, np.where(counts[filled] > 1, deviation, np.nan)


def quiet_fit(data: Comparisons, method: Method, bias: Bias) -> Ranking:
    """A fit without its warnings, for parts of comparisons that need not be connected.

    >>> quiet_fit(Comparisons.from_rows([("a", "b", 0.8), ("c", "d", 0.8)]), "poe-bt", "none").graph.components
    2
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return fit(data, method, bias=bias)


def _candidates_scores(last: Ranking, earlier: Ranking) -> Array:
    """The scores of an earlier ranking for all candidates of the last, (n,)."""
    keys, found = (
        ranking.graph.context * np.int64(len(last.comparisons.items)) + ranking.graph.item
        for ranking in (last, earlier)
    )
    order = np.argsort(keys)
    scores = np.full(len(keys), np.mean(earlier.scores))
    scores[order[np.searchsorted(keys, found, sorter=order)]] = earlier.scores
    return scores


def _mean_spearman(graph: Graph, one: Array, other: Array) -> float:
    """The mean over contexts of the correlation of what both know, NaN where no context has one."""
    correlations = []
    for begin, end in zip(graph.starts[:-1].tolist(), graph.starts[1:].tolist(), strict=True):
        known = begin + np.flatnonzero(np.isfinite(other[begin:end]))
        correlations.append(spearman(one[known], other[known]))
    told = [correlation for correlation in correlations if not np.isnan(correlation)]
    return float(np.mean(told)) if told else float("nan")
