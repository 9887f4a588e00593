"""How well a ranking as a whole agrees with the true one.

Scores vary by more than the true ones do, so that draws around them would find an order even in pure noise. Draws come
from a posterior with a prior on the true scores instead (`comparo.analysis.score_posterior`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from comparo.analysis.score_posterior import posterior
from comparo.model.estimators.votes import Voted
from comparo.ranking.ranking import Ranking
from comparo.rounding import mean_ranks, merge_ties
from comparo.types import Array


def expected_spearman(ranking: Ranking, more: float = 0.0) -> Array:
    """Return the expected Spearman correlation of each context's ranking with its true one.

    The true ranking is the one that the judge would give after infinitely many comparisons; whether the judge is right
    is another question. Of a consensus, it is the expected correlation of the judge's own ranking (`Ranking.judged`).

    Parameters
    ----------
    ranking
        What `fit` returned.
    more
        The correlation after this many times as many further comparisons: 1 doubles them.

    Returns
    -------
    ndarray of shape (C,)
        In the order of `ranking.contexts`. From 256 draws, fewer in contexts of thousands of items, whose correlation
        varies little: the standard error is at most about 0.01.

    Raises
    ------
    ValueError
        If `more` is negative.

    Examples
    --------
    >>> from comparo import fit
    >>> sure = fit([("a", "b", 0.8), ("b", "c", 0.7), ("c", "a", 0.1), ("b", "a", 0.2), ("c", "b", 0.3)])
    >>> vague = fit([("a", "b", 0.8), ("b", "c", 0.7), ("c", "a", 0.9), ("b", "a", 0.4), ("c", "b", 0.6)])
    >>> bool(expected_spearman(sure)[0] > 0.9), bool(expected_spearman(vague)[0] < 0.5)
    (True, True)
    """
    if not more >= 0:
        raise ValueError(f"more is a number from 0 up, not {more!r}")
    ranking = ranking.judged
    found, rng = np.empty(ranking.graph.contexts), np.random.default_rng(1)
    for some, x, spread in posterior(ranking).draws():
        drawn, size = some.rotate(x), x.shape[2]
        estimated = some.rotate(some.later(x, spread, more, rng)) if more else some.select(ranking.scores)[:, None]
        rank = mean_ranks(np.round(estimated, 9)) - (size + 1) / 2
        norm = np.sqrt(np.sum(rank**2, axis=2) * (size**3 - size) / 12)
        order = np.argsort(drawn, axis=2, kind="stable")
        ordered = np.take_along_axis(np.broadcast_to(rank, drawn.shape), order, axis=2)
        inner = ordered @ (np.arange(size) - (size - 1) / 2)
        found[some.contexts] = np.mean(inner / np.where(norm > 0, norm, 1.0), axis=1)
    if isinstance(ranking.covariance, Voted):
        found *= 1.0 - ranking.covariance.equal  # with equal texts any order is chance
    return found[_in_order(ranking)]


def top_probability(ranking: Ranking, k: int) -> Array:
    """Return P(the best k of each context's ranking are exactly the true best k).

    Parameters
    ----------
    ranking
        What `fit` returned.
    k
        A whole number from 1 on.

    Returns
    -------
    ndarray of shape (C,)
        In the order of `ranking.contexts`, from the draws of `expected_spearman`; 1 where a context has at most k
        items.

    Raises
    ------
    ValueError
        If `k` is not a whole number from 1 on.

    Examples
    --------
    >>> from comparo import fit
    >>> bool(top_probability(fit([("a", "b", 0.99), ("b", "a", 0.01), ("a", "b", 0.98)]), 1)[0] > 0.9)
    True
    """
    if not isinstance(k, int) or k < 1:
        raise ValueError(f"k is a whole number from 1 on, not {k!r}")
    ranking = ranking.judged
    found = np.ones(ranking.graph.contexts)
    for some, x, _ in posterior(ranking).draws():
        if k < x.shape[2]:
            best = np.argsort(-some.select(merge_ties(ranking.scores)), axis=1, kind="stable")[:, None]
            drawn = np.take_along_axis(some.rotate(x), np.broadcast_to(best, x.shape), axis=2)
            found[some.contexts] = np.mean(np.min(drawn[..., :k], axis=2) > np.max(drawn[..., k:], axis=2), axis=1)
    return found[_in_order(ranking)]


def _in_order(ranking: Ranking) -> NDArray[np.intp]:
    """The position in the graph of each of the comparisons' contexts."""
    return np.argsort(ranking.graph.context[ranking.graph.starts[:-1]], kind="stable")
