"""Pictures of a leaderboard, with matplotlib (the extra `plots`): groups, who beats whom, and length."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from comparo.analysis.curves import true_scores
from comparo.analysis.plots import BLUE, TIERS, axes, intervals, labelled
from comparo.ranking.leaderboard import Leaderboard

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from comparo.ranking.ranking import Ranking

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
    board
        What `Ranking.groups` returned.
    top, ax
        The largest number of groups, at most 30, and axes to draw on; by default those of a new figure.

    Examples
    --------
    >>> from comparo import fit
    >>> from matplotlib.figure import Figure
    >>> rows = [{"context": c, "first": "a", "second": "b", "p": 0.6 + c / 10} for c in range(3)]
    >>> board = fit(rows, prior="estimated", groups="items").groups()
    >>> [text.get_text() for text in plot_wins(board, ax=Figure().subplots()).texts]
    ['69', '31']
    """
    if not 1 <= top <= MOST:
        raise ValueError(f"top is a number of groups from 1 to {MOST}, not {top!r}")
    count = min(top, len(board))
    ax = axes(ax, 0.8 + CELL * count)
    wins = np.where(np.eye(count, dtype=bool), np.nan, board.wins[:count, :count])
    ax.imshow(wins, cmap="RdBu", vmin=0.0, vmax=1.0, aspect="auto")
    for row in range(count):
        for column in range(count):
            if np.isfinite(wins[row, column]):
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
