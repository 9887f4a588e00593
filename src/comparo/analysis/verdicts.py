"""What the verdicts of a voice show without a model: flips, cycles and ties.

The verdict of an answer is the text that it prefers, p > ½ or p < ½, or a tie. Everything here is a count over pairs or
triads of one voice, so that it needs neither scores nor other voices.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from comparo.data.comparisons import Comparisons
from comparo.model.graph import Graph

NEAR = 1e-9  # distance from ½ below which a mean of answers is a tie: rounding


def flips(comparisons: Comparisons) -> float:
    """The share of pairs asked in both orders whose verdicts contradict each other; NaN without such pairs.

    A tie contradicts nothing.

    >>> data = Comparisons.from_rows([("a", "b", 0.8), ("b", "a", 0.7), ("a", "c", 0.6), ("c", "a", 0.2)])
    >>> flips(data)
    0.5
    """
    one, other = comparisons.both_orders()
    same_position = np.minimum(one, other) > 0.5 + NEAR, np.maximum(one, other) < 0.5 - NEAR
    return float(np.mean(np.logical_or(*same_position))) if len(one) else float("nan")


def transitivity(comparisons: Comparisons) -> float:
    """The share of triads without a cycle, among three texts with a verdict on each of their pairs; NaN without any.

    The verdict on a pair is that of the mean of its answers in both orders. A cycle is a > b > c > a; coins would make
    one in a quarter of all triads.

    >>> transitivity(Comparisons.from_rows([("a", "b", 0.8), ("b", "c", 0.7), ("c", "a", 0.9)]))
    0.0
    """
    merged = comparisons.merge_orders()
    graph, lead = Graph.build(merged), merged.p - 0.5
    decided = np.abs(lead) > NEAR
    ends = np.where(lead > 0, (graph.first, graph.second), (graph.second, graph.first))[:, decided]
    ones = np.ones(np.count_nonzero(decided))
    beats = sparse.csr_array((ones, (ends[0], ends[1])), shape=(graph.nodes, graph.nodes))
    judged = beats + beats.T
    triads = float((judged @ judged).multiply(judged).sum()) / 6
    cycles = float((beats @ beats).multiply(beats.T).sum()) / 3
    return 1.0 - cycles / triads if triads else float("nan")


def ties(comparisons: Comparisons) -> float:
    """The share of answers that are a tie, p = ½.

    >>> ties(Comparisons.from_rows([("a", "b", 0.5), ("b", "a", 0.7)]))
    0.5
    """
    return float(np.mean(comparisons.p == 0.5))
