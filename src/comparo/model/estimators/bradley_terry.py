"""Method "bt": Bradley–Terry on decisions by maximum likelihood, with a prior in wins where one is asked for.

    Σ_k w_k·[y_k·d_k − log(1 + e^d_k)],    d = s_first − s_second

e wins more for either side of a comparison are the decision (w·y + e)/(w + 2e) of weight w + 2e.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from comparo.data.comparisons import Comparisons
from comparo.model.inference.newton import Problem
from comparo.model.likelihoods.bradley_terry import BradleyTerry
from comparo.model.linalg.graph import Graph, Pattern
from comparo.model.posterior import Posterior, Scored
from comparo.model.tuning import LIMITS, WIDE, Limits
from comparo.types import Index

PriorPairs = Literal["none", "compared", "all"]
MOST_PAIRS = 50_000_000  # 400 MB of node numbers


def bradley_terry(comparisons: Comparisons, prior_pairs: PriorPairs = "none", limits: Limits = LIMITS) -> Scored:
    """The scores that make the decisions most probable.

    `prior_pairs` are the pairs with 1/(N − 1) more wins for either side, in a context of N items. With "none", scores
    have a Gaussian prior of standard deviation `WIDE` in components without a maximum.

    >>> rows = [("a", "b", 1.0)] * 3 + [("b", "a", 1.0)]
    >>> bradley_terry(Comparisons.from_rows(rows)).scores.round(4)    # ± ½ log 3
    array([ 0.5493, -0.5493])
    """
    graph = Graph.build(comparisons)
    p, weight, ridge, played = comparisons.p, comparisons.weights, np.zeros(graph.nodes), graph
    wins = 1.0 / np.maximum(np.diff(graph.starts) - 1.0, 1.0)[graph.position]
    if prior_pairs == "none":
        ridge = np.where(_has_maximum(graph, comparisons)[graph.component], 0.0, 1.0 / WIDE**2)
    elif prior_pairs == "compared":
        more = np.where(weight > 0, wins[graph.first], 0.0)
        p, weight = (weight * p + more) / np.where(weight > 0, weight + 2.0 * more, 1.0), weight + 2.0 * more
    else:
        first, second = _all_pairs(graph)
        p, weight = np.append(p, np.full(len(first), 0.5)), np.append(weight, 2.0 * wins[first])
        graph = graph.whole()
        played = replace(graph, first=np.append(graph.first, first), second=np.append(graph.second, second))
    pattern = Pattern(played, limits=limits)
    order, start = pattern.order, np.zeros(graph.nodes)
    found = Problem(pattern, BradleyTerry(), p[order], weight[order], None, start, ridge).maximise(start)
    return Scored(graph, graph.centre(found.x), Posterior((found.laplacian,)), found.converged)


def _has_maximum(graph: Graph, comparisons: Comparisons) -> NDArray[np.bool_]:
    """Whether the likelihood of Bradley–Terry has a maximum in each component (Ford 1957): strongly connected wins."""
    won, lost = (comparisons.weights * share > 0 for share in (comparisons.p, 1.0 - comparisons.p))
    winner, loser = (
        np.concatenate([one[won], other[lost]])
        for one, other in ((graph.first, graph.second), (graph.second, graph.first))
    )
    beat = sparse.coo_array((np.ones(len(winner)), (winner, loser)), shape=(graph.nodes, graph.nodes))
    strong = connected_components(beat, directed=True, connection="strong")[1]
    parts = np.unique(np.column_stack([graph.component, strong]), axis=0)[:, 0]
    return np.asarray(np.bincount(parts) == 1)


def _all_pairs(graph: Graph) -> tuple[Index, Index]:
    """Every pair of nodes of every context."""
    pairs = sum(size * (size - 1) // 2 for size in np.diff(graph.starts).tolist())
    if pairs > MOST_PAIRS:
        raise ValueError(f"prior_pairs='all' would add {pairs:,} pairs; use prior_pairs='compared' for so many items")
    parts = [np.add(np.triu_indices(end - start, 1), start) for start, end in itertools.pairwise(graph.starts.tolist())]
    first, second = np.concatenate(parts, axis=1).astype(np.int32)
    return first, second
