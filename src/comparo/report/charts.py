"""The charts of the page: coordinates that the template draws."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from comparo.ranking.why import Found
from comparo.run.audit_card import Audit
from comparo.types import Array

Chart = dict[str, Any]  # width and height of the picture, ticks of its axes x and y, and what is drawn

WIDTH, HEIGHT = 320.0, 260.0
LEFT, RIGHT, TOP, BOTTOM = 44.0, 24.0, 10.0, 26.0  # room around the marks, for the numbers at the axes
DRAWN = 2000  # points of a scatter
LEAST = 0.05  # least share that the full width of a bar stands for
LEAST_REACH, MOST_REACH = 0.2, 4.0  # logits between the middle and the end of a probe's axis, at least and at most


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


def scatter_chart(x: Array, y: Array) -> Chart:
    """At most `DRAWN` points, drawn at random, each a stroke of length 0 in one path.

    >>> scatter_chart(np.array([0.0, 1.0]), np.array([0.0, 1.0]))["points"]
    'M52.2 226.7h0M287.8 17.3h0'
    """
    drawn = np.random.default_rng(0).permutation(len(x))[:DRAWN]
    x, y = x[drawn], y[drawn]
    across, up = (
        Scale(float(np.min(values) - 0.035 * np.ptp(values)), float(np.max(values) + 0.035 * np.ptp(values)), *ends)
        for values, ends in ((x, (LEFT, WIDTH - RIGHT)), (y, (HEIGHT - BOTTOM, TOP)))
    )
    points = "".join(f"M{across(a):.1f} {up(b):.1f}h0" for a, b in zip(x.tolist(), y.tolist(), strict=True))
    return {"width": WIDTH, "height": HEIGHT, "x": across.ticks(4), "y": up.ticks(4), "points": points}


def reason_reach(reasons: Sequence[Found]) -> float:
    """The share that the full width of a reason's bar stands for: the largest end of an interval."""
    return max([LEAST, *(one.share_high for each in reasons for one in (each.alone, each.beyond))])


def probe_reach(found: Audit) -> float:
    """The logits between the middle and the end of a probe's axis: the largest effect or end of an interval."""
    every = (end for card in found.cards for one in card.findings for end in (one.low, one.effect, one.high))
    return min(max([LEAST_REACH, *(abs(end) for end in every if not math.isnan(end))]), MOST_REACH)
