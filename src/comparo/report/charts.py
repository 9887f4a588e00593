"""The coordinates of charts, in the units of their pictures; the template draws them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from comparo.types import Array

LEFT, RIGHT, TOP, BOTTOM = 44.0, 24.0, 10.0, 26.0  # room around the marks, for the numbers at the axes


@dataclass(frozen=True, slots=True)
class Tick:
    """A number at an axis and its coordinate."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class Line:
    """A line through points; `kind` is the class of its colour, `end` its last point."""

    kind: str
    label: str
    path: str
    end: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Chart:
    """A picture of `width` by `height` with axes, lines and one cloud of points."""

    width: float
    height: float
    x: list[Tick]
    y: list[Tick]
    lines: list[Line]
    points: str = ""


def line_chart(
    series: Sequence[tuple[str, str, Sequence[tuple[float, float]]]], width: float = 640.0, height: float = 260.0
) -> Chart:
    """Lines (kind, label, points) over a common x from 0, y up to 1 and down to 0 or the lowest point.

    >>> [tick.text for tick in line_chart([("final", "with the last", [(10, 0.5), (20, 1.0)])]).x]
    ['0', '5', '10', '15', '20']
    """
    points = [point for _, _, line in series for point in line if not math.isnan(point[1])]
    low = min([0.0, *(y for _, y in points)])
    across = Scale(0.0, max(x for x, _ in points), LEFT, width - RIGHT)
    up = Scale(low, 1.0, height - BOTTOM, TOP)
    lines = []
    for kind, label, line in series:
        known = [(across(x), up(y)) for x, y in line if not math.isnan(y)]
        if known:
            lines.append(Line(kind, label, "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in known), known[-1]))
    return Chart(width, height, across.ticks(5), up.ticks(5), lines)


def scatter_chart(x: Array, y: Array, width: float = 320.0, height: float = 260.0) -> Chart:
    """Points, each a stroke of length 0 in one path.

    >>> scatter_chart(np.array([0.0, 1.0]), np.array([0.0, 1.0])).points
    'M52.2 226.7h0M287.8 17.3h0'
    """
    across, up = (
        Scale(float(np.min(values) - room), float(np.max(values) + room), begin, end)
        for values, room, begin, end in (
            (x, 0.035 * np.ptp(x), LEFT, width - RIGHT),
            (y, 0.035 * np.ptp(y), height - BOTTOM, TOP),
        )
    )
    points = "".join(f"M{across(a):.1f} {up(b):.1f}h0" for a, b in zip(x.tolist(), y.tolist(), strict=True))
    return Chart(width, height, across.ticks(4), up.ticks(4), [], points)


class Scale:
    """A linear map from numbers low…high to coordinates begin…end."""

    def __init__(self, low: float, high: float, begin: float, end: float) -> None:
        self.low, self.high, self.begin, self.end = low, high if high > low else low + 1.0, begin, end

    def __call__(self, value: float) -> float:
        return self.begin + (value - self.low) / (self.high - self.low) * (self.end - self.begin)

    def ticks(self, about: int) -> list[Tick]:
        """Round numbers within the scale, approximately `about` of them."""
        raw = (self.high - self.low) / about
        unit = 10.0 ** math.floor(math.log10(raw))
        step = next(unit * factor for factor in (1, 2, 2.5, 5, 10) if unit * factor >= raw * 0.999)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        digits = max(0, -math.floor(math.log10(step) + 1e-9)) + (step / unit == 2.5 and step < 2.5)
        return [
            Tick(self(number * step), f"{number * step:,.{digits}f}".replace("-", "−"))
            for number in range(first, last + 1)
        ]
