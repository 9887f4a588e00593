"""What the page shows: the rankings as columns, and the coordinates of charts, which the template draws."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comparo.report.embed import label
from comparo.report.record import Record
from comparo.rounding import merge_ties
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
    return np.lexsort((-merge_ties(ranking.scores), ranking.component, record.items.context[record.row]))


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
    if ranking.opinion is not None:
        columns["judge_rank"] = ranking.opinion.rank[order].tolist()
    people = list(record.items.scores.items())[:PEOPLE]
    return columns | {f"people: {label(name)}": numbers(scores[rows]) for name, scores in people}


def leaderboard(record: Record) -> Columns | None:
    """The mean scores of the ranking's groups, best first, as the columns of candidates; None where there are none.

    A consensus has the same group means as the judge's scores. `firsts` is in how many contexts a group has the best
    text, as far as is known.
    """
    board = record.ranking.leaderboard
    if board is None:
        return None
    assert record.ranking.group is not None
    code = {name: number for number, name in enumerate(record.ranking.group[1].tolist())}
    return {
        "code": [code[name] for name in board.group.tolist()],
        "item": [label(name) for name in board.group.tolist()],
        "score": numbers(board.score),
        "std": numbers(board.std),
        "low": numbers(board.low),
        "high": numbers(board.high),
        "rank": board.rank.tolist(),
        "best": board.best_rank.tolist(),
        "worst": board.worst_rank.tolist(),
        "tier": board.tier.tolist(),
        "group": [1] * len(board),
        "comparisons": board.calls.tolist(),
        "contexts": board.contexts.tolist(),
        "texts": board.texts.tolist(),
        "firsts": numbers(board.won.round(1)),
        "sure": numbers(board.best),
        "wins": numbers(board.to_columns()["win_rate"]),
    }


def numbers(values: NDArray[Any]) -> list[float | None]:
    """Numbers with six digits for JSON, None where one is missing."""
    return [float(f"{value:.6g}") if math.isfinite(value) else None for value in values.tolist()]
