"""The tables and figures of a study, tables like the paper's: rows are ways, columns are calls, correlations × 100.

Retention is the share of a way's correlation from all recorded judgements that it keeps at K calls; the calls for 95%
of it are where the mean correlation, by linear interpolation between the K studied, first reaches it. Figures show the
correlation over the calls, and the judge's p against people's scores.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from comparo.data.formats import csv_text
from comparo.errors import pip_install
from comparo.metrics import BEST
from comparo.plots import plot_efficiency
from comparo.studies.draws import ENOUGH
from comparo.studies.sweep import Measure, Results, Way, deviation
from comparo.types import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

KEPT = 0.95
NONE = "–"


@dataclass(frozen=True)
class Entry:
    """A number of a table, its standard deviation over draws where it has one, and a mark before it, such as ≤.

    >>> str(Entry(27.93, 0.91)), str(Entry(32, digits=0, mark="≤ "))
    ('27.9 ± 0.9', '≤ 32')
    """

    value: float
    deviation: float | None = None
    digits: int = 1
    mark: str = ""

    def __str__(self) -> str:
        if math.isnan(self.value):
            return NONE
        spread = "" if self.deviation is None else f" ± {self.deviation:.{self.digits}f}"
        return f"{self.mark}{self.value:.{self.digits}f}{spread}"


@dataclass(frozen=True)
class ResultTable:
    """A title, the names of the columns, and the rows: a label and an entry for each column but the first.

    >>> table = ResultTable("Spearman × 100", ("method", "48"), (("poe-bt", (Entry(27.93, 0.91),)),))
    >>> print(table.markdown())
    | method | 48 |
    | --- | ---: |
    | poe-bt | 27.9 ± 0.9 |
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Entry | None, ...]], ...]

    @classmethod
    def of(cls, title: str, columns: Iterable[str], rows: Iterable[Iterable[Any]], digits: int = 1) -> ResultTable:
        """A table of rows that begin with their label; plain numbers become entries with `digits`."""
        entries = (
            (label, tuple(each if isinstance(each, Entry | None) else Entry(each, digits=digits) for each in values))
            for label, *values in rows
        )
        return cls(title, tuple(columns), tuple(entries))

    def texts(self) -> list[list[str]]:
        found = []
        for label, entries in self.rows:
            cells = [NONE if entry is None else str(entry) for entry in entries]
            found.append([label, *cells])
        return found

    def markdown(self) -> str:
        """The table in Markdown, numbers to the right."""
        rule = ["---"] + ["---:"] * (len(self.columns) - 1)
        lines = []
        for row in (self.columns, rule, *self.texts()):
            cells = [cell.replace("|", r"\|") for cell in row]
            lines.append(f"| {' | '.join(cells)} |")
        return "\n".join(lines)

    def _repr_markdown_(self) -> str:
        """The table and its title below, for notebooks."""
        return f"{self.markdown()}\n\n{self.title}"

    def csv(self) -> str:
        """The table as CSV with all digits, the deviations in columns of their own.

        >>> ResultTable("", ("method", "48"), (("poe-bt", (Entry(27.93, 0.91),)), ("bt", (None,)))).csv()
        'method,48,48 ±\\npoe-bt,27.93,0.91\\nbt,,\\n'
        """
        columns: dict[str, list[Any]] = {self.columns[0]: [label for label, _ in self.rows]}
        for number, name in enumerate(self.columns[1:]):
            entries = [row[number] for _, row in self.rows]
            columns[name] = [math.nan if entry is None else entry.value for entry in entries]
            spreads = [None if entry is None else entry.deviation for entry in entries]
            if any(spread is not None for spread in spreads):
                columns[f"{name} ±"] = [math.nan if spread is None else spread for spread in spreads]
        return csv_text(columns)


def correlations_table(results: Results, measure: Measure = "spearman") -> ResultTable:
    """Ways × calls: the mean over contexts and attributes, ± the standard deviation over draws.

    >>> from comparo.studies.recorded import example
    >>> from comparo.studies.sweep import sweep
    >>> results = sweep({"wit": example()}, [Way.of("poe-bt")], [4, "all"], draws=2)
    >>> correlations_table(results).csv()
    'method,4,4 ±,all = 6,all = 6 ±\\npoe-bt,100.0,0.0,100.0,0.0\\n'
    """
    name = {"ndcg": f"nDCG@{BEST}", "recall": f"Recall@{BEST}"}.get(measure, measure.capitalize())
    title = f"{name} × 100, {', '.join(results.attributes)}, {results.draws} draws"
    if measure == "recall":
        title += f", contexts of more than {BEST} texts"
    return _by_way(results, title, {heading(results, calls): (calls, measure) for calls in results.calls})


def attributes_table(results: Results, calls: str) -> ResultTable:
    """Ways × attributes at one number of calls."""
    title = f"Spearman × 100 at {heading(results, calls)} calls per context, {results.draws} draws"
    return _by_way(results, title, {name: (calls, "spearman", name) for name in results.attributes})


def _by_way(results: Results, title: str, columns: Mapping[str, tuple[Any, ...]]) -> ResultTable:
    """A table with a row per way; `columns` maps a heading to arguments of `Results.values` after the way."""
    rows = ([way.name, *(entry(results.values(way.name, *cell)) for cell in columns.values())] for way in results.ways)
    return ResultTable.of(title, ("method", *columns), rows)


def retention_table(results: Results) -> ResultTable:
    """Ways × calls: the retention in percent, the correlation from all judgements, and the calls for 95% of it.

    >>> from comparo.studies.recorded import example
    >>> from comparo.studies.sweep import sweep
    >>> results = sweep({"wit": example()}, [Way.of("poe-bt")], [4, "all"], draws=2)
    >>> print(retention_table(results).markdown().splitlines()[2])
    | poe-bt | 100 | 100 | 100.0 | ≤ 4 |
    """
    rows = []
    for way in results.ways:
        whole = results.whole(way.name)
        shares = [100 * results.mean(way.name, calls) / whole if whole > 0 else math.nan for calls in results.calls]
        kept = [None if math.isnan(share) else Entry(share, digits=0) for share in shares]
        rows.append([way.name, *kept, 100 * whole, calls_needed(results, way)])
    at = [f"% at {heading(results, calls)}" for calls in results.calls]
    columns = ("method", *at, "all × 100", f"calls for {KEPT:.0%}")
    title = "Retention: share of the Spearman correlation from all judgements that is kept"
    return ResultTable.of(title, columns, rows)


def calls_needed(results: Results, way: Way) -> Entry | None:
    """The calls per context at which a way keeps 95% of its full correlation, by linear interpolation.

    Marked ≤ where the fewest calls studied suffice; None where none do, or the full correlation is not above 0.
    """
    goal = KEPT * results.whole(way.name)
    curve = sorted((results.made(way, calls), results.mean(way.name, calls)) for calls in results.calls)
    made, values = np.array([point for point in curve if not math.isnan(point[1])]).reshape(-1, 2).T
    needed = reaching(made, values, goal) if goal > 0 else math.nan
    if math.isnan(needed):
        return None
    return Entry(needed, digits=0, mark="≤ " if values[0] >= goal else "")


def reaching(calls: Array, values: Array, goal: float) -> float:
    """The first calls at which a curve (Q,) reaches the goal, by linear interpolation; NaN where it never does.

    >>> reaching(np.array([10.0, 20.0]), np.array([20.0, 30.0]), 25.0)
    15.0
    """
    reached = np.flatnonzero(values >= goal)
    if not len(reached):
        return math.nan
    last = slice(max(int(reached[0]) - 1, 0), int(reached[0]) + 1)
    return float(np.interp(goal, values[last], calls[last]))


def heading(results: Results, calls: str) -> str:
    """A column heading: `calls` as given and, if equal for all ways, the number per context: 3n = 48."""
    made = {results.made(way, calls) for way in results.ways if results.values(way.name, calls) is not None}
    number = f"{next(iter(made)):.10g}" if len(made) == 1 else calls
    return calls if number == calls else f"{calls} = {number}"


def entry(values: Array | None) -> Entry | None:
    """The mean × 100 and the standard deviation × 100 of correlations in draws (S,), None where there are none."""
    return None if values is None else Entry(100 * float(np.mean(values)), 100 * deviation(values))


PANEL = (3.3, 2.7)  # inches
ACROSS = 3  # panels in a row


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
    """Plot the correlation of ways over the calls per context, the mean over draws with its 95% interval.

    `curves` maps a label of the legend to results and the name of a way. A way that has no cell at some calls, or at
    "all" fewer calls than another (one order has half of them), has no point there.
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
        missing = np.full(results.draws, np.nan)
        line = []
        for x, column in columns:
            made, curve = column.get(label, (0.0, missing))
            line.append(curve if made >= ENOUGH * x else missing)
        lines[label] = np.column_stack(line)
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
