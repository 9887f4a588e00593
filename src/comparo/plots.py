"""Pictures of rankings, leaderboards and judges, with matplotlib (the extra `plots`).

Every function draws on `ax`, or on a figure of its own that is as wide as a column of print, and returns the axes.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, logit, stdtrit

from comparo.analysis.agree import PEOPLE, Agreement
from comparo.analysis.correlations import moments, true_differences, true_scores
from comparo.data.comparisons import Comparisons
from comparo.errors import pip_install
from comparo.methods import quiet_fit
from comparo.model.likelihoods.bradley_terry import BradleyTerry
from comparo.ranking.leaderboard import Leaderboard
from comparo.ranking.ranking import Ranking
from comparo.rounding import merge_ties
from comparo.types import Array, LongIndex

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CERTAIN = 0.01  # p closer to 0 or 1 is replaced by this, since its logit would dominate the fit
# Okabe and Ito's colours, which colour-blind readers can distinguish; lines also differ in style, for print in grey.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
BLUE, VERMILION, GREEN = COLOURS[:3]
STYLES = ("-", "--", "-.", ":")
TIERS = (BLUE, VERMILION)  # of tiers, alternating
COLUMN = 3.4  # inches
MOST = 30  # groups whose win rates can be read
CELL = 0.28  # inches of a cell of the matrix
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
    nodes = ranking.nodes_of(context)
    order = np.lexsort((-merge_ties(ranking.scores[nodes]), ranking.component[nodes]))[:top] + nodes.start
    ax = _intervals(ranking.items[order], ranking.scores[order], ranking.high[order], ranking.tier[order], ax)
    ax.set_xlabel(f"score ({ranking.method}),\n{100 * ranking.level:g}% interval")
    return ax


def _intervals(names: NDArray[Any], scores: Array, high: Array, tier: LongIndex, ax: Axes | None) -> Axes:
    """Axes with a line for each name, best above: its score, its interval, and the colour of its tier; all (n,)."""
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
    table = {name: np.asarray(values, dtype=np.float64) for name, values in curves.items()}
    if x.ndim != 1 or not x.size or not np.isfinite(x).all():
        raise ValueError(f"calls are K finite numbers, not an array of shape {x.shape}")
    if not table:
        raise ValueError("there are no curves; give at least one, as {'random': values of shape (draws, K)}")
    for name, values in table.items():
        if values.ndim != 2 or values.shape[1] != len(x) or not len(values):
            raise ValueError(f"the curve {name!r} has shape {values.shape}; it must be (draws, {len(x)}), as calls are")
    ax = _axes(ax)
    for number, (name, drawn) in enumerate(table.items()):
        measured = ~np.isnan(drawn).any(axis=0)
        at, values = x[measured], drawn[:, measured]
        colour, draws, mean = COLOURS[number % len(COLOURS)], len(values), np.mean(values, axis=0)
        ax.plot(at, mean, color=colour, linestyle=STYLES[number % len(STYLES)], label=name)
        if draws > 1:
            reach = stdtrit(draws - 1, 0.975) * np.std(values, axis=0, ddof=1) / np.sqrt(draws)
            ax.fill_between(at, mean - reach, mean + reach, color=colour, alpha=0.2, linewidth=0)
    return _labelled(ax, "comparisons", measure)


def plot_joint(data: Any, scores: Mapping[Any, float], *, bins: int = 20, ax: Axes | None = None) -> Axes:
    """Plot the joint distribution of p and the true difference s_first − s_second, as a histogram.

    Colours are sums of weights (numbers of comparisons if there are no weights); empty bins are blank.

    Parameters
    ----------
    data, scores
        Comparisons, in any form that `fit` reads, and the true score of an item, or of a pair (context, item).
        Comparisons with other items are ignored.
    bins, ax
        The number of bins along each axis, and axes to draw on; by default those of a new figure.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> rows = [("a", "b", 0.8), ("b", "a", 0.3), ("a", "b", 0.9)]
    >>> ax = plot_joint(rows, {"a": 1, "b": 0}, bins=2, ax=Figure().subplots())
    >>> ax.collections[0].get_array().tolist()
    [[1.0, None], [None, 2.0]]
    """
    _check_whole("bins", bins)
    p, difference, weight = true_differences(Comparisons.of(data), scores)
    reach = float(np.max(np.abs(difference))) or 1.0
    counts, x, y = np.histogram2d(p, difference, bins, ((0, 1), (-reach, reach)), weights=weight)
    ax = _axes(ax)
    mesh = ax.pcolormesh(x, y, np.ma.masked_equal(counts.T, 0), cmap="cividis_r", vmin=0)
    bar = ax.figure.colorbar(mesh, ax=ax)
    bar.set_label("comparisons" if np.all(weight == 1) else "weight", size=9)
    bar.ax.tick_params(labelsize=8)
    ax.set_xlabel("p, that the first is better")
    ax.set_ylabel("true difference")
    return ax


def plot_difference_given_p(data: Any, scores: Mapping[Any, float], *, bins: int = 10, ax: Axes | None = None) -> Axes:
    """Plot mean and standard deviation of the true difference s_first − s_second given p, in equally wide bins of p.

    Points are means, bars reach one standard deviation up and down; a bin with one comparison has no bar. The two
    curves are the differences that experts assume, Bradley–Terry a·logit(p) + c and the linear Gaussian α·(p − β), each
    fitted to all comparisons by least squares: a and α are the unit of the true scores, c and β a position bias.

    Parameters
    ----------
    data, scores, bins, ax
        As in `plot_joint`.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> rows = [("a", "b", 0.8), ("b", "a", 0.2), ("a", "b", 0.8)]
    >>> ax = plot_difference_given_p(rows, {"a": 1, "b": 0}, ax=Figure().subplots())
    >>> ax.containers[0].lines[0].get_ydata()
    array([-1.,  1.])
    """
    _check_whole("bins", bins)
    p, difference, weight = true_differences(Comparisons.of(data), scores)
    if np.ptp(p) == 0:
        raise ValueError(f"every usable comparison has p = {p[0]:g}; a curve needs two different p at least")
    middle, mean, deviation = moments(p, difference, weight, bins)
    ax = _axes(ax)
    ax.errorbar(middle, mean, yerr=deviation, color=BLUE, label="mean ± deviation", **MARKS)
    grid = np.linspace(CERTAIN, 1 - CERTAIN, 199)
    surely = np.clip(p, CERTAIN, 1 - CERTAIN)
    for label, of_p, of_grid, colour, style in (
        ("Bradley–Terry", logit(surely), logit(grid), VERMILION, "-"),
        ("linear Gaussian", p, grid, GREEN, "--"),
    ):
        slope, offset = np.polyfit(of_p, difference, 1, w=np.sqrt(weight))
        ax.plot(grid, slope * of_grid + offset, color=colour, linestyle=style, linewidth=1.2, label=label)
    ax.set_xlim(0, 1)
    return _labelled(ax, "p, that the first is better", "true difference")


def plot_position_bias(data: Any, *, bins: int = 20, ax: Axes | None = None) -> Axes:
    """Plot whether a judge favours a position: the distribution of p, its mean, and P(the first of equal texts wins).

    The filled area is the distribution of p. The outline is the distribution of σ(−γ), the probability that the first
    of two equal texts wins, over the pairs asked in both orders, by Bradley–Terry

        −γ_ij = ½ (logit p_ij + logit p_ji),

    where the effect of the texts cancels: without a bias it is near ½. The lines are the mean p, a rough estimate of
    the bias, and σ(−γ) from all comparisons by `fit(data, bias="joint")`, the mean over contexts and judges; it is
    omitted where the comparisons do not determine it.

    Parameters
    ----------
    data, bins, ax
        As in `plot_joint`; bins of p.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> ax = plot_position_bias([("a", "b", 0.8), ("b", "a", 0.6)], ax=Figure().subplots())
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['p of 2 comparisons', 'σ(−γ) of 1 pair in both orders', 'mean p = 0.70', 'σ(−γ) of all = 0.71']
    """
    _check_whole("bins", bins)
    comparisons = Comparisons.of(data)
    weight, edges = comparisons.weights, np.linspace(0, 1, bins + 1)
    if not np.sum(weight) > 0:
        raise ValueError("every comparison has weight 0, so none of them has an effect")
    ax = _axes(ax)
    share = np.histogram(comparisons.p, edges, weights=weight / np.sum(weight))[0]
    ax.stairs(
        share, edges, fill=True, color="#56B4E9", alpha=0.7, label=f"p of {_counted(len(comparisons), 'comparison')}"
    )
    first, second = comparisons.both_orders()
    if len(first):
        expert = BradleyTerry()
        share = np.histogram(expit((expert.mode(first) + expert.mode(second)) / 2), edges)[0] / len(first)
        ax.stairs(share, edges, color="#000000", label=f"σ(−γ) of {_counted(len(first), 'pair')} in both orders")
    mean = float(np.average(comparisons.p, weights=weight))
    ax.axvline(0.5, color="#999999", linewidth=0.8)
    ax.axvline(mean, color=VERMILION, linewidth=1.5, label=f"mean p = {mean:.2f}")
    ranking = quiet_fit(comparisons, bias="joint")
    if ranking.bias is not None and ranking.product is not None and ranking.product.is_bias_determined:
        context = 0 if comparisons.context is None else comparisons.context
        gamma = ranking.bias[context, comparisons.positions]
        wins = float(np.average(expit(-gamma), weights=weight))
        ax.axvline(wins, color=BLUE, linestyle="--", linewidth=1.5, label=f"σ(−γ) of all = {wins:.2f}")
    ax.set_xlim(0, 1)
    ax.set_xlabel("p, that the first is better")
    ax.set_ylabel("share")
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
    ax = _axes(ax, 0.8 + CELL * count)
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
    ax = _axes(ax)
    ax.plot(lengths, ranking.scores, "o", color=BLUE, markersize=3, alpha=0.6, label="a text")
    ax.set_xscale("log")
    x = np.log2(np.maximum(lengths, 1.0))
    inside, around = ranking.graph.centre(x), ranking.graph.centre(ranking.scores)
    slope = float(inside @ around / max(float(inside @ inside), 1e-12))
    ends = np.array([x.min(), x.max()])
    line = slope * (ends - x.mean())
    ax.plot(2.0**ends, line, "--", color=TIERS[1], linewidth=1.2, label=f"twice as long: {slope:+.2f}")
    return _labelled(ax, "characters", "score")


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


def _check_whole(name: str, value: int) -> None:
    if not isinstance(value, int) or value < 2:
        raise ValueError(f"{name} is a whole number from 2 on, not {value!r}")


def _counted(number: int, name: str) -> str:
    return f"{number:,} {name}" + "s" * (number != 1)


def _labelled(ax: Axes, x: str, y: str) -> Axes:
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    ax.grid(linewidth=0.4, alpha=0.6)
    ax.legend(fontsize="small", frameon=False)
    return ax
