"""The figures of a study: the correlation over the calls, and the judge's p against people's scores."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from comparo.errors import pip_install
from comparo.plots import plot_difference_given_p, plot_efficiency, plot_joint, plot_position_bias
from comparo.studies.draws import ENOUGH
from comparo.studies.recorded import Recorded
from comparo.studies.sweep import Results
from comparo.types import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANEL = (3.3, 2.7)  # inches
ACROSS = 3  # panels in a row
DPI = 100


def panels(count: int) -> tuple[Figure, list[Axes]]:
    """A figure of `count` panels, and their axes in reading order."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(f"figures need matplotlib: {pip_install('plots')}") from error
    columns = min(count, ACROSS)
    rows = -(-count // columns)
    figure = Figure(figsize=(PANEL[0] * columns, PANEL[1] * rows), layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for ax in axes[count:]:
        ax.remove()
    for ax in axes[:count]:
        ax.tick_params(labelsize=8)
    return figure, axes[:count]


def efficiency(
    curves: Mapping[str, tuple[Results, str]], ax: Axes, *, title: str, attribute: str | None = None
) -> None:
    """The correlation of ways over the calls per context, the mean over draws with its 95% interval.

    `curves` are results and the name of a way in them, by the label in the legend. A way that has no cell at some
    calls, or at "all" fewer calls than another (one order has half of them), has no point there.
    """
    points: dict[str, dict[str, tuple[float, Array]]] = {}
    for label, (results, name) in curves.items():
        way = next(way for way in results.ways if way.name == name)
        for calls in results.calls:
            values = results.values(name, calls, attribute=attribute)
            if values is not None:
                points.setdefault(calls, {})[label] = results.made(way, calls), 100 * values
    columns = [(max(made for made, _ in column.values()), column) for column in points.values()]
    columns.sort(key=lambda column: column[0])
    lines = {}
    for label, (results, _) in curves.items():
        missing = 0.0, np.full(results.draws, np.nan)
        there = [(x, *column.get(label, missing)) for x, column in columns]
        lines[label] = np.column_stack([curve if made >= ENOUGH * x else missing[1] for x, made, curve in there])
    plot_efficiency([x for x, _ in columns], lines, measure="Spearman × 100", ax=ax)
    ax.set_xlabel("calls per context")
    ax.set_title(title, fontsize=9)


def efficiency_figure(results: Results) -> Figure:
    """A panel for each attribute with a line for each way, and before them their mean where there are several."""
    attributes: list[str | None] = [None, *results.attributes] if len(results.attributes) > 1 else [*results.attributes]
    figure, axes = panels(len(attributes))
    curves = {way.name: (results, way.name) for way in results.ways}
    for attribute, ax in zip(attributes, axes, strict=True):
        efficiency(curves, ax, title=attribute or "mean of all", attribute=attribute)
    return figure


def judge_figure(recorded: Mapping[str, Recorded]) -> Figure:
    """For each attribute: p and the true difference jointly, its mean and variance given p, and the position bias."""
    figure, axes = panels(3 * len(recorded))
    for number, (attribute, judgements) in enumerate(recorded.items()):
        data, scores = judgements.comparisons(), judgements.scores()
        joint, given, bias = axes[3 * number : 3 * number + 3]
        plot_joint(data, scores, ax=joint)
        plot_difference_given_p(data, scores, ax=given)
        plot_position_bias(data, ax=bias)
        joint.set_title(attribute, fontsize=9)
    return figure


def save(figures: Mapping[str, Figure], folder: Path, prefix: str = "") -> list[Path]:
    """Write each figure as a PNG file named after it, and return the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, figure in figures.items():
        path = folder / f"{prefix}{name}.png"
        figure.savefig(path, dpi=DPI, metadata={"Software": None})
        paths.append(path)
    return paths
