"""Pictures of a leaderboard and of a judge against people: groups, who beats whom, length, and calibration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from comparo.analysis.agree import PEOPLE, Agreement
from comparo.analysis.correlations import true_scores
from comparo.plots.rankings import BLUE, COLUMN, MARKS, TIERS, VERMILION, axes, intervals, labelled
from comparo.ranking.leaderboard import Leaderboard
from comparo.ranking.ranking import Ranking

if TYPE_CHECKING:
    from matplotlib.axes import Axes


MOST = 30  # groups whose win rates can be read
CELL = 0.28  # inches of a cell of the matrix


def plot_groups(board: Leaderboard, top: int = 40, ax: Axes | None = None) -> Axes:
    """Plot the mean scores of the best `top` groups with their intervals, best above; the colour changes with the tier.

    Parameters
    ----------
    board
        What `Ranking.groups` returned.
    top, ax
        The largest number of groups, and axes to draw on; by default those of a new figure.

    Examples
    --------
    >>> from comparo import fit
    >>> from matplotlib.figure import Figure
    >>> rows = [{"context": c, "first": "a", "second": "b", "p": 0.6 + c / 10} for c in range(3)]
    >>> board = fit(rows, prior="estimated", groups="items").groups()
    >>> ax = plot_groups(board, ax=Figure().subplots())
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['a', 'b']
    """
    best = slice(top)
    ax = intervals(board.group[best], board.score[best], board.high[best], board.tier[best], ax)
    ax.set_xlabel(f"mean score (logits),\n{100 * board.level:g}% interval, {board.over} contexts")
    return ax


def plot_wins(board: Leaderboard, top: int = 12, ax: Axes | None = None) -> Axes:
    """Plot how often, in per cent, a text of the row's group is preferred to one of the column's, for the best `top`.

    Parameters
    ----------
    board, top, ax
        As in `plot_groups`; at most 30 groups.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from comparo import fit
    >>> rows = [{"context": c, "first": "a", "second": "b", "p": 0.6 + c / 10} for c in range(3)]
    >>> ax = plot_wins(fit(rows, prior="estimated", groups="items").groups(), ax=Figure().subplots())
    >>> [text.get_text() for text in ax.texts]
    ['69', '31']
    """
    if not 1 <= top <= MOST:
        raise ValueError(f"top is a number of groups from 1 to {MOST}, not {top!r}")
    count = min(top, len(board))
    ax = axes(ax, 0.8 + CELL * count)
    wins = np.where(np.eye(count, dtype=bool), np.nan, board.wins[:count, :count])
    ax.imshow(wins, cmap="RdBu", vmin=0.0, vmax=1.0, aspect="auto")
    for row, column in np.argwhere(np.isfinite(wins)).tolist():
        share = wins[row, column]
        colour = "white" if abs(share - 0.5) > 0.35 else "black"
        ax.text(column, row, f"{100 * share:.0f}", ha="center", va="center", fontsize=7, color=colour)
    names = [str(name) for name in board.group[:count]]
    ax.set_yticks(range(count), names, parse_math=False)
    ax.set_xticks(range(count), names, parse_math=False, rotation=90)
    ax.set_xlabel("beaten in % of pairs")
    return ax


def plot_length(ranking: Ranking, texts: Mapping[Any, str], ax: Axes | None = None) -> Axes:
    """Plot the score of each text, around the mean of its context, over its length in characters, and the trend.

    Parameters
    ----------
    ranking
        What `fit` or `rank` returned.
    texts
        The text of each item, or of each pair (context, item).
    ax
        Axes to draw on; by default those of a new figure.

    Examples
    --------
    >>> from comparo import fit
    >>> from matplotlib.figure import Figure
    >>> ranking = fit([("a", "b", 0.8), ("b", "c", 0.7), ("c", "a", 0.1)])
    >>> ax = plot_length(ranking, {"a": "a long text", "b": "a text", "c": "text"}, ax=Figure().subplots())
    >>> ax.get_xscale(), len(ax.lines)
    ('log', 2)
    """
    lengths = true_scores(ranking.comparisons, ranking.graph, {key: float(len(text)) for key, text in texts.items()})
    ax = axes(ax)
    ax.plot(lengths, ranking.scores, "o", color=BLUE, markersize=3, alpha=0.6, label="a text")
    ax.set_xscale("log")
    x = np.log2(np.maximum(lengths, 1.0))
    inside, around = ranking.graph.centre(x), ranking.graph.centre(ranking.scores)
    slope = float(inside @ around / max(float(inside @ inside), 1e-12))
    ends = np.array([x.min(), x.max()])
    line = slope * (ends - x.mean())
    ax.plot(2.0**ends, line, "--", color=TIERS[1], linewidth=1.2, label=f"twice as long: {slope:+.2f}")
    return labelled(ax, "characters", "score")


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
    curves: dict[str, list[list[float]]] = {}
    for row in found.calibration:
        if row["judge"] == name:
            curves.setdefault(row["answers"], []).append([row[key] for key in ("p", "people", "low", "high")])
    if len(set(map(str, curves.values()))) == 1:
        del curves["without position bias"]
    for (said, curve), colour in zip(curves.items(), (BLUE, VERMILION), strict=False):
        p, people, low, high = np.array(curve).T
        reach = np.maximum([people - low, high - people], 0.0)
        ax.errorbar(p, people, yerr=reach, color=colour, label=said, **MARKS)
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), xlabel="judge's p for the text shown first")
    ax.set_ylabel(f"people's share for it,\n{100 * found.level:g}% interval")
    ax.set_title(name, parse_math=False, fontsize="medium")
    if len(curves) > 1:
        ax.legend(frameon=False, fontsize="small")
    return ax
