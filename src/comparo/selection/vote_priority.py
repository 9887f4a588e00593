"""Which pairs people should vote on first: those that tell most about how far a judge can be believed.

People's scores are t = X b + rest (`votes`), with X (n, D) the parts of the judge's view: what it says of
a text's group, and of the text beyond that. The validity is the ratio of the two b, and where there is one part, b
itself is what votes tell. A vote about texts i and j observes x·b, x = X_i − X_j, with the noise of a coin and of both
rests, of precision w. With C the covariance of b before it and g the gradient of the validity, it takes

    (gᵀC x)² · w / (1 + w·xᵀC x)

from the variance of the validity. Pairs are chosen one after the other, each by the largest such gain.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from comparo.model.estimators.votes import SPREAD, Expectation
from comparo.model.likelihoods.bradley_terry import logistic_curvature
from comparo.ranking.ranking import Ranking
from comparo.ranking.votes import expected_of
from comparo.rounding import first_best
from comparo.types import Array, Index, Seed, as_generator

MOST = 50_000  # pairs that are considered; of more, so many at random


def telling_pairs(ranking: Ranking, number: int, seed: Seed = None) -> list[tuple[Any, Any, Any]]:
    """Pairs (context, item, item) whose votes tell most of how much of a judge's view people share, the first most.

    No text is in two of them while there are others.

    Parameters
    ----------
    ranking : The judge's.
    number : How many pairs; fewer come back where there are fewer.
    seed : A whole number or a generator; decides between equal pairs, and which of very many pairs are considered.

    Examples
    --------
    >>> from comparo import fit
    >>> machine = fit([("a", "b", 0.9), ("b", "c", 0.6), ("c", "d", 0.9), ("d", "a", 0.1)])
    >>> telling_pairs(machine, 1)
    [(None, 'a', 'd')]
    """
    judged, expectation = ranking.judged, expected_of(ranking)[0]
    rng = as_generator(seed)
    first, second = rng.permutation(np.stack(_pairs(judged.graph.starts, rng)), axis=1)
    chosen = _chosen(expectation, first, second, min(number, len(first)))
    labels = judged.graph.labels(judged.comparisons)
    return [(labels[int(first[k])][0], labels[int(first[k])][1], labels[int(second[k])][1]) for k in chosen]


def _pairs(starts: NDArray[np.int64], rng: np.random.Generator) -> tuple[Index, Index]:
    """Pairs of candidates of one context: all of them, or `MOST` at random."""
    sizes = np.diff(starts)
    count = sizes * (sizes - 1) // 2
    if np.sum(count) <= MOST:
        both = [np.triu_indices(size, 1) for size in sizes.tolist()]
        ends = [[ij[end] + start for ij, start in zip(both, starts.tolist(), strict=False)] for end in (0, 1)]
        first, second = (np.concatenate(end) for end in ends)
        return first.astype(np.int32), second.astype(np.int32)
    context = rng.choice(len(sizes), MOST, p=count / np.sum(count))
    first = rng.integers(sizes[context])
    second = (first + rng.integers(1, sizes[context])) % sizes[context]
    pairs = np.unique(np.sort(np.column_stack([first, second]) + starts[context][:, None], axis=1), axis=0)
    return pairs[:, 0].astype(np.int32), pairs[:, 1].astype(np.int32)


def _chosen(expected: Expectation, first: Index, second: Index, number: int) -> list[int]:
    """The numbers of the pairs that are chosen, in their order."""
    b, covariance = SPREAD * expected.mean, SPREAD**2 * np.diag(expected.variance)
    gradient = np.array([-b[1] / b[0] ** 2, 1.0 / b[0]]) if len(b) == 2 else np.ones(1)
    x = expected.columns[first] - expected.columns[second]
    rest = 2.0 * SPREAD**2 * (expected.between + expected.within)
    weight = 1.0 / (1.0 / logistic_curvature(x @ b) + rest)
    used, chosen, taken = np.zeros(len(expected.columns), dtype=np.int64), [], np.zeros(len(x), dtype=bool)
    for _ in range(number):
        gain = _gains(x, weight, covariance, gradient)
        often = used[first] + used[second]
        gain[taken | (often > np.min(often[~taken]))] = -1.0
        best = int(first_best(gain))
        chosen.append(best)
        taken[best] = True
        used[[first[best], second[best]]] += 1
        along = covariance @ x[best]
        covariance = covariance - weight[best] / (1.0 + weight[best] * x[best] @ along) * np.outer(along, along)
    return chosen


def _gains(x: Array, weight: Array, covariance: Array, gradient: Array) -> Array:
    """What a vote about each pair takes from the variance of the validity, (P,)."""
    along = x @ covariance
    return np.asarray((along @ gradient) ** 2 * weight / (1.0 + weight * np.sum(along * x, axis=1)))
