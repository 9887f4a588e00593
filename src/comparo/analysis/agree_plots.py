"""Pictures of how a judge agrees with people, with matplotlib (the extra `plots`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from comparo.analysis.agree import PEOPLE, Agreement
from comparo.analysis.plots import BLUE, COLUMN, MARKS, VERMILION, axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_agreement(found: Agreement, judge: Any = None, ax: Axes | None = None) -> Axes:
    """Plot the calibration of a judge: people's share for the text shown first against the judge's p, with intervals.

    The diagonal is perfect calibration. Points are drawn as said and, where it differs, without position bias.

    Parameters
    ----------
    found, judge
        What `agree` returned, and which of its judges; may be omitted if there is only one.
    ax
        Axes to draw on; by default those of a new figure.

    Raises
    ------
    ValueError
        If there is no such judge, or if there are several and none is named.

    Examples
    --------
    >>> from comparo import agree
    >>> from matplotlib.figure import Figure
    >>> rows = [{"first": "a", "second": "b", "p": p, "judge": who} for who, p in (("ana", 1), ("gpt", 0.8))]
    >>> ax = plot_agreement(agree(rows, ["ana"]), ax=Figure().subplots())
    >>> ax.get_xlabel()
    "judge's p for the text shown first"
    """
    judges = [row["judge"] for row in found.judges if row["judge"] != PEOPLE]
    if judge is None and len(judges) > 1:
        raise ValueError(f"name one of the judges: {', '.join(judges)}")
    name = judges[0] if judge is None else str(judge)
    if name not in judges:
        raise ValueError(f"there is no judge {name!r}; there are {', '.join(judges)}")
    ax = axes(ax, COLUMN)
    ax.plot([0, 1], [0, 1], color="0.7", linewidth=0.8, zorder=0)
    curves = [
        np.array(
            [[row[key] for key in ("p", "people", "low", "high")] for row in found.calibration if _is(row, name, said)]
        )
        for said in ("as said", "without position bias")
    ]
    if np.array_equal(curves[0], curves[1]):
        del curves[1]
    for curve, colour, said in zip(curves, (BLUE, VERMILION), ("as said", "without position bias"), strict=False):
        p, people, low, high = curve.T
        reach = np.maximum([people - low, high - people], 0.0)
        ax.errorbar(p, people, yerr=reach, color=colour, label=said, **MARKS)
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), xlabel="judge's p for the text shown first")
    ax.set_ylabel(f"people's share for it,\n{100 * found.level:g}% interval")
    ax.set_title(name, parse_math=False, fontsize="medium")
    if len(curves) > 1:
        ax.legend(frameon=False, fontsize="small")
    return ax


def _is(row: dict[str, Any], judge: str, answers: str) -> bool:
    return bool(row["judge"] == judge and row["answers"] == answers)
