"""The ranking over the calls made, and what further calls would bring."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from comparo.analysis.agreement import agreement, spearman_within
from comparo.analysis.confidence import expected_spearman
from comparo.ranking.ranking import Ranking
from comparo.report.record import Record
from comparo.types import Array, LongIndex

POINTS = 10
FEW = (1, 2, 5, 10)  # of these, where there are many answers
MANY = 100_000


@dataclass(frozen=True, slots=True)
class Moment:
    """The ranking after `calls` answers: its expected Spearman correlation, and those with the last one and people."""

    calls: int
    expected: float
    final: float
    people: dict[str, float]


@dataclass(frozen=True, slots=True)
class Outlook:
    """The expected Spearman correlation after `more` further calls."""

    more: int
    expected: float


def convergence(record: Record) -> list[Moment]:
    """The rankings from the first tenth, two tenths, … of each context's answers; correlations are means over contexts.

    Contexts may have been asked one after the other, so each is taken at the same share of its own calls. Of very many
    answers only some shares are looked at, since each takes a fit.
    """
    ranking, moments = record.ranking, []
    context = ranking.graph.context[ranking.graph.first]
    order = np.argsort(context, kind="stable")
    sizes = np.bincount(context)
    place = np.empty(len(context))
    starts = np.repeat(np.cumsum(sizes) - sizes, sizes)
    place[order] = (np.arange(len(context)) - starts) / sizes[context[order]]
    for step in range(1, POINTS + 1) if len(context) <= MANY else FEW:
        if step == POINTS:
            earlier, expected = ranking, record.spearman
        else:
            earlier = _at(record, np.flatnonzero(place < step / POINTS - 1e-9))
            expected = expected_spearman(earlier)
        people = {name: mean(found) for name, found in agreement(earlier, record.items).items()}
        moments.append(Moment(len(earlier.comparisons), mean(expected), mean(_with(record, earlier)), people))
    return moments


def outlook(record: Record) -> list[Outlook]:
    """What no more calls, a quarter more, as many again and three times as many again would bring, if there are any."""
    made = len(record.answered)
    steps = {min(more, record.possible - made) for more in (made // 4, made, 3 * made)} - {0}
    further = [Outlook(more, mean(expected_spearman(record.ranking, more / made))) for more in sorted(steps)]
    return [Outlook(0, mean(record.spearman)), *further]


def mean(values: Array) -> float:
    """The mean of what is known, NaN where nothing is.

    >>> mean(np.array([0.5, np.nan]))
    0.5
    """
    known = values[~np.isnan(values)]
    return float(np.mean(known)) if known.size else math.nan


def _at(record: Record, rows: LongIndex) -> Ranking:
    return record.refit(record.ranking.comparisons.take(rows))


def _with(record: Record, earlier: Ranking) -> Array:
    """Spearman's correlation of an earlier ranking with the last, by context; who was not yet compared is average."""
    whole, many = record.ranking, len(record.ranking.comparisons.items)
    keys, before = (one.graph.context.astype(np.int64) * many + one.graph.item for one in (whole, earlier))
    order = np.argsort(before)
    place = np.minimum(np.searchsorted(before, keys, sorter=order), len(before) - 1)
    scores = np.where(before[order[place]] == keys, earlier.scores[order[place]], math.nan)
    scores = np.where(np.isnan(scores), np.nanmean(scores), scores)
    return spearman_within(scores, whole.scores, whole.graph.context, whole.graph.contexts)
