"""The rankings as columns to show: every candidate, best first in its context, and the mean over contexts."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from comparo.report.embed import label
from comparo.report.record import Record
from comparo.types import Array, LongIndex

Columns = dict[str, list[Any]]

PEOPLE = 12  # columns of people's scores that are shown, at most


def display_order(record: Record) -> LongIndex:
    """The candidates as they are shown: contexts in the items' order, groups apart, best first; shape (n,)."""
    ranking = record.ranking
    return np.lexsort((-ranking.scores, ranking.component, record.items.context[record.row]))


def candidates(record: Record, order: LongIndex) -> Columns:
    """The columns that are shown of some candidates, one list per column, in the given order."""
    ranking, rows = record.ranking, record.row[order]
    best, worst, _ = record.places
    columns: Columns = {
        "item": [label(item) for item in ranking.items[order].tolist()],
        "score": numbers(ranking.scores[order]),
        "std": numbers(ranking.std[order]),
        "low": numbers(ranking.low[order]),
        "high": numbers(ranking.high[order]),
        "rank": ranking.rank[order].tolist(),
        "best": best[order].tolist(),
        "worst": worst[order].tolist(),
        "tier": ranking.tier[order].tolist(),
        "group": ranking.component[order].tolist(),
        "comparisons": ranking.counts[order].tolist(),
        "characters": record.characters[order].astype(np.int64).tolist(),
    }
    people = list(record.items.scores.items())[:PEOPLE]
    return columns | {f"people: {label(name)}": numbers(scores[rows]) for name, scores in people}


def means(record: Record) -> Columns | None:
    """The mean score over contexts of each id that several contexts share, best first; None if less than half are.

    Its standard error is sd/√m over the m contexts, and its interval is Student's. Tiers are determined by differences
    within contexts: a tier ends where its best is better than the next with at least the probability `ranking.level`.
    Contexts whose candidates are not all connected are left out, since their scores cannot be compared.
    """
    graph, ranking = record.ranking.graph, record.ranking
    joined = record.joined[graph.position]
    item, position = graph.item[joined], graph.position[joined]
    seen = np.bincount(item, minlength=len(ranking.comparisons.items))
    shared = seen[item] > 1
    if np.count_nonzero(record.joined) < 2 or 2 * np.count_nonzero(shared) < graph.nodes:
        return None
    scores, counts = np.full((len(seen), graph.contexts), np.nan), np.zeros(len(seen), dtype=np.int64)
    scores[item, position] = ranking.scores[joined]
    np.add.at(counts, item, ranking.counts[joined])
    kept = np.flatnonzero(seen > 1)
    mean = np.nanmean(scores[kept], axis=1)
    best_first = np.argsort(-mean, kind="stable")
    kept, mean, seen = kept[best_first], mean[best_first], seen[kept[best_first]]
    table = scores[kept]
    std = np.nanstd(table, axis=1, ddof=1) / np.sqrt(seen)
    reach = stdtrit(seen - 1, (1 + ranking.level) / 2) * std
    places = np.full(scores.shape, np.nan)
    places[item, position] = ranking.rank[joined]
    return {
        "code": kept.tolist(),
        "item": [label(item) for item in ranking.comparisons.items[kept].tolist()],
        "score": numbers(mean),
        "std": numbers(std),
        "low": numbers(mean - reach),
        "high": numbers(mean + reach),
        "rank": (1 + len(mean) - np.searchsorted(np.sort(mean), mean + 1e-9, side="right")).tolist(),
        "tier": _paired_tiers(table, ranking.level),
        "group": [1] * len(kept),
        "comparisons": counts[kept].tolist(),
        "contexts": seen.tolist(),
        "firsts": np.sum(places[kept] == 1, axis=1).tolist(),
    }


def _paired_tiers(table: Array, level: float) -> list[int]:
    """Tiers of rows (best first) of scores (m, C), by Student's test of their differences in the same contexts."""
    tier, number, leader = [], 0, 0
    for row in range(len(table)):
        difference = table[leader] - table[row]
        difference = difference[~np.isnan(difference)]
        m = len(difference)
        sure = row == 0
        if row > leader and m > 1:
            mean, error = np.mean(difference), np.std(difference, ddof=1) / math.sqrt(m)
            sure = mean > 0 and bool(error == 0 or stdtr(m - 1, mean / error) >= level)
        if sure:
            number, leader = number + 1, row
        tier.append(number)
    return tier


def numbers(values: NDArray[Any]) -> list[float | None]:
    """Numbers with six digits for JSON, None where one is missing."""
    return [float(f"{value:.6g}") if math.isfinite(value) else None for value in values.tolist()]
