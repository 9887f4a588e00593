"""What the verdicts of voices show without a model: flips, cycles and ties.

The verdict of an answer is the text that it prefers, p > ½ or p < ½, or a tie. Everything here is a count over pairs or
triads, each of one voice, so that it needs neither scores nor other voices, and is the same for a voice turned round.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from comparo.data.comparisons import Comparisons
from comparo.model.linalg.graph import Graph
from comparo.ranking.flips import NEAR, count_flips

STEPS = 20_000_000  # walks of three comparisons that are counted, at most: about a second


def flips(comparisons: Comparisons) -> float:
    """The share of pairs asked in both orders whose verdicts contradict each other; NaN without such pairs.

    >>> data = Comparisons.from_rows([("a", "b", 0.8), ("b", "a", 0.7), ("a", "c", 0.6), ("c", "a", 0.2)])
    >>> flips(data)
    0.5
    """
    return count_flips(comparisons).share


@dataclass(frozen=True, slots=True)
class Cycles:
    """Of `triples` whose three pairs one voice decided, those that form a circle; a quarter do by chance.

    `sampled`: only the triples of some items were counted, a triple once for each of these items.
    """

    triples: int
    cyclic: int
    sampled: bool = False


def cycles(comparisons: Comparisons, steps: int = STEPS) -> Cycles:
    """Triples of items that a voice compared with each other, and how many of them are cyclic: a > b > c > a.

    With A[i, j] = 1 where i won against j by the mean of both orders, tr(A³)/3 triples are cyclic. Row i of A³ costs
    the square of the comparisons of item i: where the sum is above `steps`, only the rows of random items are computed.

    >>> cycles(Comparisons.from_rows([("a", "b", 0.8), ("b", "c", 0.7), ("c", "a", 0.6)])).cyclic
    1
    """
    merged = _apart(comparisons).merge_orders()
    decided = np.abs(merged.p - 0.5) > NEAR
    if not decided.any():
        return Cycles(0, 0)
    merged = replace(merged.take(decided), weight=None)
    graph = Graph.build(merged)
    won = merged.p > 0.5
    winner, loser = np.where(won, (graph.first, graph.second), (graph.second, graph.first))
    ones = np.ones(len(won))
    wins = sparse.csr_array((ones, (winner, loser)), shape=(graph.nodes, graph.nodes))
    played = sparse.csr_array(wins + wins.T)
    needed = float(np.sum(graph.degrees().astype(np.float64) ** 2))
    if needed <= steps:
        every = np.arange(graph.nodes)
        return Cycles(round(_closed(played, every) / 6), round(_closed(wins, every) / 3))
    some = np.sort(np.random.default_rng(0).permutation(graph.nodes)[: max(int(graph.nodes * steps / needed), 1)])
    return Cycles(round(_closed(played, some) / 2), round(_closed(wins, some)), sampled=True)


def transitivity(comparisons: Comparisons) -> float:
    """The share of triads without a cycle, among three texts with a verdict on each of their pairs; NaN without any.

    The verdict on a pair is that of the mean of its answers in both orders. Coins would make a cycle of a quarter of
    all triads.

    >>> transitivity(Comparisons.from_rows([("a", "b", 0.8), ("b", "c", 0.7), ("c", "a", 0.9)]))
    0.0
    """
    found = cycles(comparisons)
    return 1.0 - found.cyclic / found.triples if found.triples else float("nan")


def _apart(comparisons: Comparisons) -> Comparisons:
    """The comparisons with a context for each context and judge, and without judges."""
    if comparisons.judges is None or comparisons.judge is None:
        return comparisons
    context = 0 if comparisons.context is None else comparisons.context
    code = context * len(comparisons.judges) + comparisons.judge
    labels, code = np.unique(code, return_inverse=True)
    return replace(comparisons, contexts=labels, context=code.astype(np.int32), judges=None, judge=None)


def _closed(matrix: sparse.csr_array, rows: NDArray[np.int64]) -> float:
    """Closed walks of three steps that begin at `rows`, the diagonal of A³."""
    return float((matrix[rows] @ matrix).multiply(sparse.csr_array(matrix.T)[rows]).sum())


def ties(comparisons: Comparisons) -> float:
    """The share of answers that are a tie, p = ½.

    >>> ties(Comparisons.from_rows([("a", "b", 0.5), ("b", "a", 0.7)]))
    0.5
    """
    return float(np.mean(comparisons.p == 0.5))
