"""Ranks, tiers, rank intervals and the best k, from scores and their covariance.

Each connected component is treated separately. Contexts of up to `Limits.exact` items use the whole covariance; larger
ones only the standard errors, as if the errors of two items were independent.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from comparo.model.linalg.graph import ContextBatch, Graph
from comparo.model.posterior import Covariance
from comparo.rounding import TINY, merge_ties
from comparo.types import Array, LongIndex, Mask


@dataclass(frozen=True, slots=True)
class Candidate:
    """One row of a ranking: an item (in a context, if there are any), its score with standard error and interval."""

    context: Any
    item: Any
    score: float
    std: float
    low: float
    high: float
    rank: int
    tier: int
    comparisons: int


def beats(difference: Array, variance: Array) -> Array:
    """P(true difference > 0) = Φ(difference / √variance); ½ where the difference is 0.

    >>> beats(np.array([0.0, 1.96]), np.array([1.0, 1.0])).round(3)
    array([0.5  , 0.975])
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = difference / np.sqrt(np.maximum(variance, 0.0))
    return np.where(difference == 0, 0.5, ndtr(ratio))


def ranks(graph: Graph, scores: Array) -> LongIndex:
    """1 for the best of each component, shape (n,); scores that differ by rounding share a rank.

    >>> from comparo import Comparisons
    >>> ranks(Graph.build(Comparisons.from_rows([("a", "b", 0.2), ("b", "c", 0.8)])), np.array([0.1, 0.5, 0.1]))
    array([2, 1, 2])
    """
    code = np.unique(merge_ties(scores), return_inverse=True)[1]
    begin = graph.component.astype(np.int64) * (len(scores) + 1)
    key = begin + len(scores) - code
    ordered = np.sort(key)
    return np.searchsorted(ordered, key) - np.searchsorted(ordered, begin) + 1


def tier_numbers(count: int, sure: Callable[[int], Mask]) -> LongIndex:
    """The tier of each of `count` candidates that are sorted best first, from 1.

    A tier ends before the first candidate that is surely worse than the best of the tier: `sure(best)` is the mask of
    these among the candidates from `best` on.

    >>> apart = np.array([[False, False, True], [False, False, True], [False, False, False]])
    >>> tier_numbers(3, lambda best: apart[best, best:]).tolist()
    [1, 1, 2]
    """
    tier, number, begin = np.empty(count, dtype=np.int64), 0, 0
    while begin < count:
        number += 1
        end = begin + (int(np.argmax(sure(begin))) or count - begin)
        tier[begin:end], begin = number, end
    return tier


def tiers(scores: Array, covariance: Covariance, level: float) -> LongIndex:
    """1 for the best tier of each component, shape (n,).

    A tier ends before the first item that its best item beats with a probability of at least `level`.
    """
    tier = np.empty(len(scores), dtype=np.int64)
    for members, block in components(covariance):
        order = np.argsort(-merge_ties(scores[members]), kind="stable")
        ordered = members[order]
        variance = covariance.std[ordered] ** 2 if block is None else np.diagonal(block)[order]
        shared = None if block is None else block[np.ix_(order, order)]
        tier[ordered] = tier_numbers(len(order), partial(_beaten, scores[ordered], variance, shared, level))
    return tier


def _beaten(scores: Array, variance: Array, shared: Array | None, level: float, best: int) -> Mask:
    """Whether the candidate at `best` surely beats each of those from `best` on; scores (m,) are descending."""
    both = 0.0 if shared is None else shared[best, best:]
    ahead = scores[best] - scores[best:]
    sure = beats(ahead, variance[best] + variance[best:] - 2 * both) >= level
    sure[0] = False
    return sure


def places(scores: Array, covariance: Covariance, level: float, k: int = 1) -> tuple[LongIndex, LongIndex, Array]:
    """Best and worst rank of each candidate at `level`, and P(it is among the best k of its component), each (n,).

    Both are from draws of all scores. In large contexts, the ranks are those that the ends of a score's interval would
    have among the scores, and the probability is that the true score is above the mean of the k-th and the next score.
    """
    best, worst = np.empty((2, len(scores)), dtype=np.int64)
    probability, outside = np.empty(len(scores)), (1 - level) / 2
    for nodes, drawn in _drawn_ranks(scores, covariance):
        ends = np.quantile(drawn, [outside, 1 - outside], axis=-1, method="inverted_cdf")
        best[nodes], worst[nodes] = ends.reshape(2, -1)
        probability[nodes] = np.mean(drawn <= k, axis=-1).ravel()
    graph, exact = covariance.pattern.graph, covariance.pattern.limits.exact
    large = (batch for batch in covariance.pattern.batches if batch.size > exact)
    for members in itertools.chain.from_iterable(_members(graph, batch) for batch in large):
        ordered, std = np.sort(scores[members]), covariance.std[members]
        for target, sign in ((best, -1.0), (worst, 1.0)):
            end = scores[members] + sign * ndtri(outside) * std
            above = len(members) - np.searchsorted(ordered, end, side="right")
            target[members] = np.clip(above + 1, 1, len(members))
        border = np.mean(ordered[::-1][k - 1 : k + 1]) if k < len(members) else -np.inf
        probability[members] = beats(scores[members] - border, std**2)
    return best, worst, probability


def components(covariance: Covariance) -> Iterator[tuple[NDArray[np.intp], Array | None]]:
    """The nodes of each component and their covariance, None in contexts of more than `Limits.exact` items."""
    graph, exact = covariance.pattern.graph, covariance.pattern.limits.exact
    for batch in covariance.pattern.batches:
        blocks = covariance.block(batch) if batch.size <= exact else None
        for members in _members(graph, batch):
            number, begin = divmod(int(members[0]) - batch.nodes.start, batch.size)
            own = slice(begin, begin + len(members))
            yield members, None if blocks is None else blocks[number, own, own]


def _members(graph: Graph, batch: ContextBatch) -> list[NDArray[np.intp]]:
    """The nodes of each component of the contexts of a batch."""
    nodes = np.arange(batch.nodes.start, batch.nodes.stop)
    return np.split(nodes, np.flatnonzero(np.diff(graph.component[nodes])) + 1)


def _drawn_ranks(scores: Array, covariance: Covariance) -> Iterator[tuple[slice, LongIndex]]:
    """For batches of B contexts of equal size: their nodes, and ranks in each of D draws, shape (B, size, D)."""
    graph, limits, rng = covariance.pattern.graph, covariance.pattern.limits, np.random.default_rng(0)
    for batch in covariance.pattern.batches:
        if batch.size > limits.exact:
            continue
        blocks, size = covariance.block(batch), batch.size
        step = max(1, limits.drawn_entries // (size * limits.rank_draws))
        for begin in range(0, len(blocks), step):
            block = blocks[begin : begin + step]
            first = batch.nodes.start + begin * size
            nodes = slice(first, first + len(block) * size)
            # The covariance of centred scores is singular; a small diagonal term makes it positive definite.
            largest = np.max(np.einsum("bii->bi", block), axis=1)
            jitter = 1e-10 * np.maximum(largest, TINY)
            root = np.linalg.cholesky(block + jitter[:, None, None] * np.eye(size))
            errors = root @ rng.standard_normal((len(block), size, limits.rank_draws))
            drawn = scores[nodes].reshape(-1, size, 1) + errors
            component = graph.component[nodes].reshape(-1, size, 1)
            component = component - component[:, :1]
            apart = 2.0 * (np.max(np.abs(drawn)) + 1.0)
            place = _ranks(component * apart - drawn)
            earlier = np.sum(component.transpose(0, 2, 1) < component, axis=2, keepdims=True)
            yield nodes, place - earlier


def _ranks(values: Array) -> LongIndex:
    """The rank along axis 1 of values (B, size, D), 1 for the lowest."""
    place = np.empty(values.shape, dtype=np.int64)
    ranks_of = np.broadcast_to(np.arange(1, values.shape[1] + 1)[:, None], values.shape)
    np.put_along_axis(place, np.argsort(values, axis=1, kind="stable"), ranks_of, axis=1)
    return place
