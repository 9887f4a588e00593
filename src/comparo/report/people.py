"""How the ranking agrees with people's scores, where the items carry them."""

import math
from dataclasses import dataclass

import numpy as np

from comparo.analysis.agreement import pearson, spearman
from comparo.report.record import Record
from comparo.report.views import PEOPLE
from comparo.types import Array

DRAWS = 1000  # of the bootstrap
LEVEL = 0.95  # of its interval


@dataclass(frozen=True, slots=True)
class Correlation:
    """A correlation with the ends of its bootstrap interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Agreement:
    """How the ranking agrees with one of people's scores: points to draw, number of contexts, correlations.

    With several contexts, correlations are means over contexts with a bootstrap over contexts, and `x`, `y` are
    differences from the context's mean. `systems` is Spearman's correlation of each id's mean over contexts, None where
    contexts share no ids.
    """

    name: str
    x: Array
    y: Array
    contexts: int
    spearman: Correlation
    pearson: Correlation
    systems: float | None


def agreements(record: Record, shared: bool) -> list[Agreement]:
    """The agreement with each of people's first scores that has a correlation; `shared` if contexts share items."""
    found = (_agreement(record, name, shared) for name in list(record.items.scores)[:PEOPLE])
    return [agreement for agreement in found if agreement is not None]


def _agreement(record: Record, name: str, shared: bool) -> Agreement | None:
    human, scores = record.items.scores[name][record.row], record.ranking.scores
    pairs = []
    for nodes in record.contexts:
        known = ~np.isnan(human[nodes])
        if np.count_nonzero(known) > 2:
            pairs.append((scores[nodes][known], human[nodes][known]))
    if not pairs:
        return None
    if len(pairs) == 1:
        x, y = pairs[0]
        drawn = np.random.default_rng(0).integers(len(x), size=(DRAWS, len(x)))
        found = [_interval(float(of(x, y)), of(x[drawn], y[drawn])) for of in (spearman, pearson)]
    else:
        x, y = (np.concatenate([pair[side] - np.mean(pair[side]) for pair in pairs]) for side in (0, 1))
        found = [_over_contexts([float(of(a, b)) for a, b in pairs]) for of in (spearman, pearson)]
    if math.isnan(found[0].value):
        return None
    return Agreement(name, x, y, len(pairs), found[0], found[1], _systems(record, human) if shared else None)


def _interval(value: float, drawn: Array) -> Correlation:
    drawn = drawn[~np.isnan(drawn)]
    if not drawn.size:
        return Correlation(float(value), math.nan, math.nan)
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Correlation(float(value), float(low), float(high))


def _over_contexts(values: list[float]) -> Correlation:
    known = np.array([value for value in values if not math.isnan(value)])
    if not known.size:
        return Correlation(math.nan, math.nan, math.nan)
    drawn = np.random.default_rng(0).integers(len(known), size=(DRAWS, len(known)))
    return _interval(float(np.mean(known)), np.mean(known[drawn], axis=1))


def _systems(record: Record, human: Array) -> float:
    """Spearman's correlation of the means over contexts of each id."""
    graph = record.ranking.graph
    known = ~np.isnan(human)
    item = graph.item[known]
    seen = np.bincount(item)
    kept = seen > 1
    totals = (np.bincount(item, values[known])[kept] / seen[kept] for values in (record.ranking.scores, human))
    return float(spearman(*totals)) if np.count_nonzero(kept) > 2 else math.nan
