"""The charts of the page: coordinates that the template draws."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from comparo.ranking.why import Found
from comparo.report.embed import label
from comparo.report.measures import Outlook, convergence
from comparo.report.record import Record
from comparo.run.audit_card import Audit
from comparo.types import Array

Chart = dict[str, Any]  # width and height of the picture, ticks of its axes x and y, and what is drawn

WIDE, NARROW, HEIGHT = 640.0, 320.0, 260.0
LEFT, RIGHT, TOP, BOTTOM = 44.0, 24.0, 10.0, 26.0  # room around the marks, for the numbers at the axes
DRAWN = 2000  # points of a scatter
LEAST = 0.05  # share that the widest bar of a reason stands for, at least
LEAST_REACH, MOST_REACH = 0.2, 4.0  # logits from the middle of a picture of a probe to its end, at least and at most


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
    """At most `DRAWN` points, drawn at random, each a stroke of length 0 in one path.

    >>> scatter_chart(np.array([0.0, 1.0]), np.array([0.0, 1.0]))["points"]
    'M52.2 226.7h0M287.8 17.3h0'
    """
    drawn = np.random.default_rng(0).permutation(len(x))[:DRAWN]
    x, y = x[drawn], y[drawn]
    across, up = (
        Scale(float(np.min(values) - 0.035 * np.ptp(values)), float(np.max(values) + 0.035 * np.ptp(values)), *ends)
        for values, ends in ((x, (LEFT, NARROW - RIGHT)), (y, (HEIGHT - BOTTOM, TOP)))
    )
    points = "".join(f"M{across(a):.1f} {up(b):.1f}h0" for a, b in zip(x.tolist(), y.tolist(), strict=True))
    return {"width": NARROW, "height": HEIGHT, "x": across.ticks(4), "y": up.ticks(4), "points": points}


def convergence_chart(record: Record, ahead: Sequence[Outlook]) -> dict[str, Any]:
    """Correlations of earlier rankings with the last one and with people, and the expected ones; also as a table."""
    moments, made = convergence(record), len(record.answered)
    series = [
        ("final", "same order as in the end", [(moment.calls, moment.final) for moment in moments]),
        ("expected", "expected agreement", [(moment.calls, moment.expected) for moment in moments]),
        ("outlook", "expected agreement, with more of them", [(made + step.more, step.expected) for step in ahead[:3]]),
    ]
    for number, name in enumerate(list(record.items.scores)[:4]):
        line = [(moment.calls, moment.people[name]) for moment in moments]
        series.append((f"people-{number}", f"with people: {label(name)}", line))
    known = [dict(line) for _, _, line in series]
    rows = [(f"{x:,}", [line.get(x) for line in known]) for x in sorted({x for line in known for x in line})]
    return {"convergence": line_chart(series), "curves": {"names": [name for _, name, _ in series], "rows": rows}}


def reason_reach(reasons: Sequence[Found]) -> float:
    """The share that the full width of a bar of a reason stands for: the largest end of an interval."""
    return max([LEAST, *(one.share_high for each in reasons for one in (each.alone, each.beyond))])


def probe_reach(found: Audit) -> float:
    """The logits from the middle of a picture of a probe to its end: the largest effect or end of an interval."""
    every = (end for card in found.cards for one in card.findings for end in (one.low, one.effect, one.high))
    return min(max([LEAST_REACH, *(abs(end) for end in every if not math.isnan(end))]), MOST_REACH)
