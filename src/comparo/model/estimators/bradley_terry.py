"""Bradley–Terry on hard decisions by the classical iterations: Zermelo's, and Newman's faster one.

With π = e^s, W_i the wins of i, w_ij its wins over j and n_ij = w_ij + w_ji:

    Zermelo   π_i ← W_i / Σ_j n_ij / (π_i + π_j)
    Newman    π_i ← Σ_j w_ij·π_j / (π_i + π_j)  /  Σ_j w_ji / (π_i + π_j)

Both are written as a step of s_i, with π_i / (π_i + π_j) = σ(s_i − s_j), which cannot overflow.
"""

from __future__ import annotations

import logging
from typing import Literal

import numpy as np
from scipy.special import expit

from comparo.model.linalg.graph import Graph
from comparo.model.tuning import LIMITS, Limits
from comparo.types import Array

Algorithm = Literal["zermelo", "newman"]

log = logging.getLogger(__name__)


def zermelo(
    graph: Graph,
    won: Array,
    lost: Array,
    algorithm: Algorithm = "zermelo",
    tolerance: float = 1e-4,
    limits: Limits = LIMITS,
) -> tuple[Array, int, bool]:
    """Scores (n,) from the wins of the first (`won`) and of the second (`lost`) in each comparison, shape (K,).

    Returns the scores, centred in each component, the iterations made, and whether no score moved by more than
    `tolerance` in the last one. Every item needs some wins and some losses, which a prior adds.

    >>> from comparo.data.comparisons import Comparisons
    >>> graph = Graph.build(Comparisons.from_rows([("a", "b", 1.0)]))
    >>> zermelo(graph, np.array([3.0]), np.array([1.0]), "newman", 1e-9)[0].round(4)   # ± ½ log 3
    array([ 0.5493, -0.5493])
    """
    n, first, second = graph.nodes, graph.first, graph.second
    wins = np.bincount(first, won, n) + np.bincount(second, lost, n)
    played = wins > 0
    scores, step = np.zeros(n), np.zeros(n)
    for iteration in range(1, limits.zermelo_iterations + 1):
        difference = scores[first] - scores[second]
        share, rest = expit(difference), expit(-difference)
        if algorithm == "zermelo":
            games = won + lost
            above, below = wins, np.bincount(first, games * share, n) + np.bincount(second, games * rest, n)
        else:
            above = np.bincount(first, won * rest, n) + np.bincount(second, lost * share, n)
            below = np.bincount(first, lost * share, n) + np.bincount(second, won * rest, n)
        ratio = np.divide(above, below, out=np.ones(n), where=played)
        target = graph.centre(scores + np.log(ratio))
        # Newman's update of all items at once can oscillate (for two items it does): then half of the step is taken.
        before, step = step, target - scores
        step = np.where(step * before < 0, 0.5 * step, step)
        scores = graph.centre(scores + step)
        moved = float(np.max(np.abs(step)))
        if moved <= tolerance:
            return scores, iteration, True
    log.warning(
        "%s's algorithm did not settle in %d iterations; a score still moved by %.1e", algorithm, iteration, moved
    )
    return scores, iteration, False
