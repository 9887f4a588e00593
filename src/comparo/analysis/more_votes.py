"""What more votes of people would add to the agreement of a judge with them.

With m times as many votes, on new pairs of these texts or on new contexts, the variance of the accuracy is

    V(m) = V_texts + V_pairs/m,

V_texts being the covariance of pairs that share a text, which more votes do not change. It is 0 where contexts are the
clusters, since more votes then come from more contexts, and the interval shrinks with 1/√m.

The rank correlation r of the judge's ranking with the one that people would give after infinitely many votes is
ρ / q(1): ρ is the correlation with the ranking of the votes there are, and q(m) the expected correlation of people's
ranking with their own true one after m times as many votes on the same texts (`confidence.expected_spearman`). Then

    ρ(m) = r·q(m),    interval of r with m times as many votes = tanh(atanh ρ(m) ± z·s) / q(m),
    s² = (1 + ρ(m)²/2) / (N − 3)  (Bonett and Wright 2000) for N texts of one context,

or, with several contexts, ρ(m) ± t·(the standard error of the mean over contexts), divided by q(m).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from scipy.special import ndtri, stdtrit

from comparo.analysis.confidence import expected_spearman
from comparo.analysis.correlations import mean_known, spearman_within
from comparo.analysis.judge_votes import Panel, Row, Share
from comparo.data.comparisons import Comparisons
from comparo.methods import quiet_fit
from comparo.ranking.criteria_ranking import aligned
from comparo.ranking.votes import shared_ids
from comparo.types import Array

TIMES = (1, 2, 4)
KNOWN = 0.5  # q(1) below which people's own ranking is mostly noise, and ρ / q would be too
RANKED = 5  # texts of a context for a correlation: Fisher's transformation needs more than 3


def more_votes(panel: Panel, judge: int, accuracy: Share, level: float) -> Iterator[Row]:
    """The intervals of the accuracy and of the rank correlation with as many votes, twice and four times as many.

    Items that are in several contexts, such as systems that answer many questions, are ranked over all contexts.
    Contexts of fewer than 5 texts, or whose pairs do not connect all texts, have no rank correlation;
    nor is there one where q(1) is below ½, since people's own ranking is then mostly noise.
    """
    quality, correlations, texts = _ranked(panel, judge)
    for times, q in zip(TIMES, quality, strict=True):
        ends = accuracy.with_more(times)
        found = mean_known(correlations) / quality[0] if quality[0] >= KNOWN else np.nan
        expected = float(np.clip(found * q, -0.999, 0.999))
        low, high = np.clip(np.array(_reach(expected, correlations, texts, level)) / q, -1.0, 1.0).tolist()
        rank = {"correlation": float(np.clip(found, -1, 1)), "correlation_low": low, "correlation_high": high}
        row = {"times": times, "votes": times * accuracy.votes}
        yield {**row, "accuracy_low": ends[0], "accuracy_high": ends[1], **rank, "quality": q}


def _ranked(panel: Panel, judge: int) -> tuple[list[float], Array, int]:
    """q(m) of people's ranking, the rank correlation of each context, (C,), and the number of texts of a context."""
    data, both = panel.comparisons, panel.pair_keys()
    person = np.isin(data.judged_by, panel.people)
    shared = np.intersect1d(both[person], both[data.judged_by == judge])
    mine, theirs = (_pooled(data.take(rows & np.isin(both, shared))) for rows in (data.judged_by == judge, person))
    ranking, judged = quiet_fit(theirs), quiet_fit(mine)
    graph = ranking.graph
    large = np.bincount(graph.position, minlength=graph.contexts) >= RANKED
    parts = np.unique(graph.position * np.int64(graph.nodes) + ranking.component) // graph.nodes
    large &= np.bincount(parts, minlength=graph.contexts) == 1  # what is not connected has no order
    if not large.any():
        return [np.nan] * len(TIMES), np.full(1, np.nan), 0
    quality = [float(np.nanmean(expected_spearman(ranking, times - 1.0)[large])) for times in TIMES]
    correlations = spearman_within(aligned(judged, ranking), ranking.scores, graph.position, graph.contexts)[large]
    return quality, correlations, int(np.max(np.bincount(graph.position)))


def _pooled(comparisons: Comparisons) -> Comparisons:
    """The comparisons without contexts where most items are in several of them."""
    return comparisons if shared_ids(comparisons) is None else replace(comparisons, contexts=None, context=None)


def _reach(expected: float, correlations: Array, texts: int, level: float) -> tuple[float, float]:
    """The ends of a correlation that is expected to be observed; NaN where it is unknown."""
    if not np.isfinite(expected):
        return np.nan, np.nan
    known = correlations[np.isfinite(correlations)]
    if len(known) > 1:
        reach = float(stdtrit(len(known) - 1, (1 + level) / 2) * np.std(known, ddof=1) / np.sqrt(len(known)))
        return expected - reach, expected + reach
    error = float(ndtri((1 + level) / 2) * np.sqrt((1 + expected**2 / 2) / (texts - 3)))
    return float(np.tanh(np.arctanh(expected) - error)), float(np.tanh(np.arctanh(expected) + error))
