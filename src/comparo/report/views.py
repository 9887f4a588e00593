"""What the page shows: the rankings as columns, and the coordinates of charts, which the template draws."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from comparo.report.embed import label
from comparo.report.record import Record
from comparo.types import Array, LongIndex

Columns = dict[str, list[Any]]

PEOPLE = 12  # columns of people's scores that are shown, at most
Chart = dict[str, Any]  # width and height of the picture, ticks of its axes x and y, and what is drawn

WIDE, NARROW, HEIGHT = 640.0, 320.0, 260.0
LEFT, RIGHT, TOP, BOTTOM = 44.0, 24.0, 10.0, 26.0  # room around the marks, for the numbers at the axes


def line_chart(series: Sequence[tuple[str, str, Sequence[tuple[float, float]]]]) -> Chart:
    """Lines (kind, label, points) over a common x from 0, y up to 1 and down to 0 or the lowest point.

    The kind of a line is the class of its colour, and `end` is its last point.

    >>> [text for _, text in line_chart([("final", "with the last", [(10, 0.5), (20, 1.0)])])["x"]]
    ['0', '5', '10', '15', '20']
    """
    points = [point for _, _, line in series for point in line if not math.isnan(point[1])]
    low = min([0.0, *(y for _, y in points)])
    across = Scale(0.0, max(x for x, _ in points), LEFT, WIDE - RIGHT)
    up = Scale(low, 1.0, HEIGHT - BOTTOM, TOP)
    lines = []
    for kind, name, line in series:
        known = [(across(x), up(y)) for x, y in line if not math.isnan(y)]
        if known:
            path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in known)
            lines.append({"kind": kind, "label": name, "path": path, "end": known[-1]})
    return {"width": WIDE, "height": HEIGHT, "x": across.ticks(5), "y": up.ticks(5), "lines": lines}


def scatter_chart(x: Array, y: Array) -> Chart:
    """Points, each a stroke of length 0 in one path.

    >>> scatter_chart(np.array([0.0, 1.0]), np.array([0.0, 1.0]))["points"]
    'M52.2 226.7h0M287.8 17.3h0'
    """
    across, up = (
        Scale(float(np.min(values) - room), float(np.max(values) + room), begin, end)
        for values, room, begin, end in (
            (x, 0.035 * np.ptp(x), LEFT, NARROW - RIGHT),
            (y, 0.035 * np.ptp(y), HEIGHT - BOTTOM, TOP),
        )
    )
    points = "".join(f"M{across(a):.1f} {up(b):.1f}h0" for a, b in zip(x.tolist(), y.tolist(), strict=True))
    return {"width": NARROW, "height": HEIGHT, "x": across.ticks(4), "y": up.ticks(4), "points": points}


class Scale:
    """A linear map from numbers low…high to coordinates begin…end."""

    def __init__(self, low: float, high: float, begin: float, end: float) -> None:
        self.low, self.high, self.begin, self.end = low, high if high > low else low + 1.0, begin, end

    def __call__(self, value: float) -> float:
        return self.begin + (value - self.low) / (self.high - self.low) * (self.end - self.begin)

    def ticks(self, about: int) -> list[tuple[float, str]]:
        """Round numbers within the scale, approximately `about` of them, each after its coordinate."""
        raw = (self.high - self.low) / about
        unit = 10.0 ** math.floor(math.log10(raw))
        step = next(unit * factor for factor in (1, 2, 2.5, 5, 10) if unit * factor >= raw * 0.999)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        digits = max(0, -math.floor(math.log10(step) + 1e-9)) + (step / unit == 2.5 and step < 2.5)
        return [
            (self(number * step), f"{number * step:,.{digits}f}".replace("-", "−")) for number in range(first, last + 1)
        ]


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
    Contexts whose candidates are not all connected are left out, since their scores cannot be compared. The scores of a
    consensus vary less between contexts than its errors do, so that those of the judge are averaged, whose mean is the
    same where all contexts have the same ids.
    """
    graph, ranking = record.ranking.graph, record.ranking.judged
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
