"""Pictures of rankings, leaderboards and judges, with matplotlib (the extra `plots`).

Every function draws on `ax`, or on a figure of its own that is as wide as a column of print, and returns the axes.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, stdtrit

from comparo.analysis.agree import PEOPLE, Agreement
from comparo.data.comparisons import Comparisons
from comparo.data.wordings import few
from comparo.errors import pip_install
from comparo.methods import quiet_fit
from comparo.model.likelihoods.bradley_terry import BradleyTerry
from comparo.ranking.leaderboard import Leaderboard
from comparo.ranking.ranking import Ranking
from comparo.ranking.scores import nodes_of
from comparo.rounding import merge_ties
from comparo.types import Array, LongIndex

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colours, which colour-blind readers can distinguish; lines also differ in style, for print in grey.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
BLUE, VERMILION, GREEN = COLOURS[:3]
STYLES = ("-", "--", "-.", ":")
TIERS = (BLUE, VERMILION)  # of tiers, alternating
COLUMN = 3.4  # inches
BINS = 20  # of p
MARKS: dict[str, Any] = {"fmt": "o", "markersize": 4, "capsize": 2, "linewidth": 1.2}  # points with intervals


def plot_ranking(ranking: Ranking, context: Hashable = None, top: int = 40, ax: Axes | None = None) -> Axes:
    """Plot the best `top` items of a context, best above, with their intervals; the colour changes with the tier.

    Parameters
    ----------
    ranking, context
        What `fit` returned, and which context of it; may be omitted if there is only one.
    top, ax
        The largest number of items, and axes to draw on; by default those of a new figure.

    Examples
    --------
    >>> from comparo import fit
    >>> from matplotlib.figure import Figure
    >>> ranking = fit([("a", "b", 0.8), ("b", "c", 0.7), ("c", "a", 0.1)])
    >>> ax = plot_ranking(ranking, ax=Figure().subplots())
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['a', 'b', 'c']
    """
    nodes = nodes_of(ranking, context)
    order = np.lexsort((-merge_ties(ranking.scores[nodes]), ranking.graph.component[nodes]))[:top] + nodes.start
    ax = _intervals(ranking.items[order], ranking.scores[order], ranking.high[order], ranking.tier[order], ax)
    ax.set_xlabel(f"score ({ranking.method}),\n{100 * ranking.level:g}% interval")
    return ax


def _intervals(names: NDArray[Any], scores: Array, high: Array, tier: LongIndex, ax: Axes | None) -> Axes:
    """Plot a row per name, best above: its score, its interval, and the colour of its tier; all (n,)."""
    ax = _axes(ax, 0.8 + 0.2 * len(names))
    places = np.arange(len(names))
    for parity, colour in enumerate(TIERS):
        here = (tier - 1) % 2 == parity
        reach = np.nan_to_num(high[here] - scores[here])
        ax.errorbar(scores[here], places[here], xerr=reach, color=colour, **MARKS)
    ax.set_yticks(places, [str(name) for name in names], parse_math=False)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.grid(axis="x", linewidth=0.4, alpha=0.6)
    return ax


def plot_efficiency(
    calls: ArrayLike, curves: Mapping[str, ArrayLike], *, measure: str = "Spearman correlation", ax: Axes | None = None
) -> Axes:
    """Plot a measure over the number of calls: a line per curve, its mean over draws, with the mean's 95% interval.

    The band is mean ± t·s/√draws, with Student's t; a single draw has none.

    Parameters
    ----------
    calls, curves
        Numbers of calls (K,), and the values of each curve by its name, shape (draws, K); NaN where not measured.
    measure, ax
        The label of the vertical axis, and axes to draw on; by default those of a new figure.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> curves = {"selected": [[0.7, 0.9], [0.8, 0.9]], "random": [[0.5, 0.8], [0.6, 0.7]]}
    >>> ax = plot_efficiency([100, 200], curves, ax=Figure().subplots())
    >>> ax.lines[1].get_ydata()
    array([0.55, 0.75])
    """
    x = np.asarray(calls, dtype=np.float64)
    ax = _axes(ax)
    for number, (name, given) in enumerate(curves.items()):
        drawn = np.asarray(given, dtype=np.float64)
        measured = ~np.isnan(drawn).any(axis=0)
        at, values = x[measured], drawn[:, measured]
        colour = COLOURS[number % len(COLOURS)]
        draws, mean = len(values), np.mean(values, axis=0)
        ax.plot(at, mean, color=colour, linestyle=STYLES[number % len(STYLES)], label=name)
        if draws > 1:
            reach = stdtrit(draws - 1, 0.975) * np.std(values, axis=0, ddof=1) / np.sqrt(draws)
            ax.fill_between(at, mean - reach, mean + reach, color=colour, alpha=0.2, linewidth=0)
    ax.set(xlabel="comparisons", ylabel=measure)
    ax.grid(linewidth=0.4, alpha=0.6)
    ax.legend(fontsize="small", frameon=False)
    return ax


def plot_position_bias(data: Any, *, ax: Axes | None = None) -> Axes:
    """Plot whether a judge favours a position: the distribution of p, its mean, and P(the first of equal texts wins).

    The filled area is the distribution of p. The outline is the distribution of σ(−γ), the probability that the first
    of two equal texts wins, over the pairs asked in both orders, by Bradley–Terry

        −γ_ij = ½ (logit p_ij + logit p_ji),

    where the effect of the texts cancels: without a bias it is near ½. The lines are the mean p, a rough estimate of
    the bias, and the mean over comparisons of σ(−γ) by `fit(data, bias="joint")`, which is omitted where the
    comparisons do not determine γ.

    Parameters
    ----------
    data
        Comparisons, in any form that `fit` reads.
    ax
        Axes to draw on; by default those of a new figure.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> ax = plot_position_bias([("a", "b", 0.8), ("b", "a", 0.6)], ax=Figure().subplots())
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['p of 2 comparisons', 'σ(−γ) of 1 pair in both orders', 'mean p = 0.70', 'σ(−γ) of all = 0.71']
    """
    comparisons = Comparisons.of(data)
    weight, edges = comparisons.weights, np.linspace(0, 1, BINS + 1)
    ax = _axes(ax)
    share = np.histogram(comparisons.p, edges, weights=weight / np.sum(weight))[0]
    every = f"p of {_counted(len(comparisons), 'comparison')}"
    ax.stairs(share, edges, fill=True, color="#56B4E9", alpha=0.7, label=every)
    first, second = comparisons.both_orders()
    if len(first):
        expert = BradleyTerry()
        wins = expit((expert.mode(first) + expert.mode(second)) / 2)
        share = np.histogram(wins, edges)[0] / len(first)
        ax.stairs(share, edges, color="#000000", label=f"σ(−γ) of {_counted(len(first), 'pair')} in both orders")
    mean = float(np.average(comparisons.p, weights=weight))
    ax.axvline(0.5, color="#999999", linewidth=0.8)
    ax.axvline(mean, color=VERMILION, linewidth=1.5, label=f"mean p = {mean:.2f}")
    solution = quiet_fit(comparisons, "mixed").solution
    if solution.laplacian is not None and solution.bias.size and solution.is_bias_determined:
        gamma = solution.apart - solution.differences
        all_win = float(np.average(expit(-gamma), weights=weight))
        ax.axvline(all_win, color=BLUE, linestyle="--", linewidth=1.5, label=f"σ(−γ) of all = {all_win:.2f}")
    ax.set(xlim=(0, 1), xlabel="p, that the first is better", ylabel="share")
    ax.legend(fontsize="small", frameon=False, loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0)
    return ax


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
    ax = _intervals(board.group[best], board.score[best], board.high[best], board.tier[best], ax)
    ax.set_xlabel(f"mean score (logits),\n{100 * board.level:g}% interval, {board.over} contexts")
    return ax


def plot_agreement(found: Agreement, judge: Any = None, ax: Axes | None = None) -> Axes:
    """Plot the calibration of a judge: people's share for the text shown first against the judge's p, with intervals.

    The diagonal is perfect calibration. Points are the judge's p and, where it differs, p without position bias.

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
        raise ValueError(f"there is no judge {name!r}; there are {few(judges, like=name)}")
    ax = _axes(ax, COLUMN)
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


def _axes(ax: Axes | None, height: float = 2.6) -> Axes:
    """`ax`, or the axes of a new figure one column wide, without the frame's upper and right sides."""
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError(f"plots need matplotlib: {pip_install('plots')}") from error
    if ax is None:
        _, ax = pyplot.subplots(figsize=(COLUMN, height), layout="constrained")
        ax.tick_params(labelsize=8)
        for axis in (ax.xaxis, ax.yaxis):
            axis.label.set_fontsize(9)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    return ax


def _counted(number: int, name: str) -> str:
    return f"{number:,} {name}" + "s" * (number != 1)
