"""The numbers of the plots: how a ranking converges, and the true difference given p.

K comparisons of n candidates (items of contexts) as columns of shape (K,); `scores` maps an item, or a pair (context,
item), to its true score.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comparo.analysis.agreement import aligned, spearman_within
from comparo.data.comparisons import Comparisons
from comparo.methods import Method, quiet_fit
from comparo.model.graph import Graph
from comparo.model.product import Bias
from comparo.ranking.ranking import Ranking
from comparo.types import Array, LongIndex


def convergence(
    data: Comparisons, truth: Array | None = None, *, method: Method, bias: Bias | None, points: int
) -> tuple[NDArray[np.int64], Array, Array | None]:
    """The calls made (P,), and Spearman's correlation of the ranking after them with the last and with `truth` (n,).

    Correlations are means over contexts. P is `points`, or less where there are fewer comparisons.
    """
    last = quiet_fit(data, method, bias=bias)
    parts = (first_rows(last.graph, step / points) for step in range(1, points + 1))
    taken = {len(rows): rows for rows in parts}
    settled = [quiet_fit(data.take(rows), method, bias=bias) for rows in taken.values()]
    final = np.array([correlation(last, earlier, last.scores) for earlier in settled])
    true = None if truth is None else np.array([correlation(last, earlier, truth) for earlier in settled])
    return np.array(list(taken)), final, true


def first_rows(graph: Graph, share: float) -> LongIndex:
    """The comparisons that are among the first `share` of their context, at least one per context.

    Contexts may have been compared one after the other, so each is taken at the same share of its own comparisons.
    """
    context = graph.context[graph.first]
    sizes, order = np.bincount(context), np.argsort(context, kind="stable")
    before = np.empty(len(context))
    begins = np.repeat(np.cumsum(sizes) - sizes, sizes)
    before[order] = (np.arange(len(context)) - begins) / sizes[context[order]]
    return np.flatnonzero(before < share - 1e-9)


def correlation(last: Ranking, earlier: Ranking, scores: Array) -> float:
    """Spearman's correlation of an earlier ranking with `scores` (n,) of the last one's candidates: mean over contexts.

    Candidates that the earlier ranking does not have get its mean score. NaN where no context has a correlation.
    """
    known = aligned(last, earlier)
    return mean_known(spearman_within(known, scores, last.graph.position, last.graph.contexts))


def mean_known(values: Array) -> float:
    """The mean of the values that are not NaN; NaN where all are."""
    known = values[~np.isnan(values)]
    return float(np.mean(known)) if known.size else float("nan")


def known_scores(data: Comparisons, graph: Graph, scores: Mapping[Any, float]) -> Array:
    """The true score of each candidate, shape (n,), by (context, item) or by item; NaN where there is none."""
    labels = graph.labels(data)
    return np.array([float(scores.get(label, scores.get(label[1], np.nan))) for label in labels])


def true_scores(data: Comparisons, graph: Graph, scores: Mapping[Any, float]) -> Array:
    """`known_scores`; a ValueError where there is none at all."""
    known = known_scores(data, graph, scores)
    if not np.isfinite(known).any():
        raise ValueError(
            "no item has a true score; is every key of `scores` an item (or a pair of context and item) of the "
            "comparisons?"
        )
    return known


def true_differences(data: Comparisons, scores: Mapping[Any, float]) -> tuple[Array, Array, Array]:
    """p, the true difference s_first − s_second, and the weight, of comparisons whose items both have a true score."""
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
