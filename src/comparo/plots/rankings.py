"""Pictures of rankings and judges, with matplotlib (the extra `plots`).

Every function draws on `ax`, or on a figure of its own that is as wide as a column of print, and returns the axes.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, logit, stdtrit

from comparo.analysis.correlations import convergence, moments, true_differences, true_scores
from comparo.data.comparisons import Comparisons
from comparo.errors import pip_install
from comparo.methods import Method, quiet_fit
from comparo.model.estimators.poe import Bias
from comparo.model.likelihoods.bradley_terry import BradleyTerry
from comparo.model.linalg.graph import Graph
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
    ax = intervals(ranking.items[order], ranking.scores[order], ranking.high[order], ranking.tier[order], ax)
    ax.set_xlabel(f"score ({ranking.method}),\n{100 * ranking.level:g}% interval")
    return ax


def intervals(names: NDArray[Any], scores: Array, high: Array, tier: LongIndex, ax: Axes | None) -> Axes:
    """Axes with a line for each name, best above: its score, its interval, and the colour of its tier; all (n,)."""
    ax = axes(ax, 0.8 + 0.2 * len(names))
    places = np.arange(len(names))
    for parity, colour in enumerate(TIERS):
        here = (tier - 1) % 2 == parity
        reach = np.nan_to_num(high[here] - scores[here])
        ax.errorbar(scores[here], places[here], xerr=reach, color=colour, **MARKS)
    ax.set_yticks(places, [str(name) for name in names], parse_math=False)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.grid(axis="x", linewidth=0.4, alpha=0.6)
    return ax


def plot_convergence(
    data: Any,
    scores: Mapping[Any, float] | None = None,
    *,
    method: Method = "poe-bt",
    bias: Bias | None = None,
    points: int = 20,
    ax: Axes | None = None,
) -> Axes:
    """Plot how the ranking converges: its Spearman correlation with the last one, and with true scores.

    With contexts each is taken at the same share of its own comparisons, and the line is the mean over contexts.

    Parameters
    ----------
    data, method, bias
        As in `fit`; comparisons in the order in which they were asked.
    scores
        The true score of an item, or of a pair (context, item); optional.
    points, ax
        The number of fits, and axes to draw on; by default those of a new figure.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> ax = plot_convergence([("a", "b", 0.8), ("b", "c", 0.7)], ax=Figure().subplots())
    >>> ax.lines[0].get_xdata(), ax.lines[0].get_ydata()
    (array([1, 2]), array([0.5, 1. ]))
    """
    whole("points", points)
    comparisons = Comparisons.of(data)
    truth = None if scores is None else true_scores(comparisons, Graph.build(comparisons), scores)
    calls, final, true = convergence(comparisons, truth, method=method, bias=bias, points=points)
    ax = axes(ax)
    ax.plot(calls, final, "o-", color=BLUE, markersize=3, label="with the final ranking")
    if true is not None:
        ax.plot(calls, true, "s--", color=VERMILION, markersize=3, label="with the true scores")
    return labelled(ax, "comparisons", "Spearman correlation")


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
    if len(table) > len(COLOURS) * len(STYLES):
        raise ValueError(f"{len(table)} curves cannot be distinguished; give at most {len(COLOURS) * len(STYLES)}")
    ax = axes(ax)
    for number, (name, drawn) in enumerate(table.items()):
        measured = ~np.isnan(drawn).any(axis=0)
        at, values = x[measured], drawn[:, measured]
        colour, draws, mean = COLOURS[number % len(COLOURS)], len(values), np.mean(values, axis=0)
        ax.plot(at, mean, color=colour, linestyle=STYLES[number % len(STYLES)], label=name)
        if draws > 1:
            reach = stdtrit(draws - 1, 0.975) * np.std(values, axis=0, ddof=1) / np.sqrt(draws)
            ax.fill_between(at, mean - reach, mean + reach, color=colour, alpha=0.2, linewidth=0)
    return labelled(ax, "comparisons", measure)


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
    whole("bins", bins)
    p, difference, weight = true_differences(Comparisons.of(data), scores)
    reach = float(np.max(np.abs(difference))) or 1.0
    counts, x, y = np.histogram2d(p, difference, bins, ((0, 1), (-reach, reach)), weights=weight)
    ax = axes(ax)
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
    whole("bins", bins)
    p, difference, weight = true_differences(Comparisons.of(data), scores)
    if np.ptp(p) == 0:
        raise ValueError(f"every usable comparison has p = {p[0]:g}; a curve needs two different p at least")
    middle, mean, deviation = moments(p, difference, weight, bins)
    ax = axes(ax)
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
    return labelled(ax, "p, that the first is better", "true difference")


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
    whole("bins", bins)
    comparisons = Comparisons.of(data)
    weight, edges = comparisons.weights, np.linspace(0, 1, bins + 1)
    if not np.sum(weight) > 0:
        raise ValueError("every comparison has weight 0, so none of them has an effect")
    ax = axes(ax)
    share = np.histogram(comparisons.p, edges, weights=weight / np.sum(weight))[0]
    ax.stairs(
        share, edges, fill=True, color="#56B4E9", alpha=0.7, label=f"p of {counted(len(comparisons), 'comparison')}"
    )
    first, second = comparisons.both_orders()
    if len(first):
        expert = BradleyTerry()
        share = np.histogram(expit((expert.mode(first) + expert.mode(second)) / 2), edges)[0] / len(first)
        ax.stairs(share, edges, color="#000000", label=f"σ(−γ) of {counted(len(first), 'pair')} in both orders")
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


def axes(ax: Axes | None, height: float = 2.6) -> Axes:
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


def whole(name: str, value: int) -> None:
    """Raise a ValueError unless a value is a whole number from 2 on."""
    if not isinstance(value, int) or value < 2:
        raise ValueError(f"{name} is a whole number from 2 on, not {value!r}")


def counted(number: int, name: str) -> str:
    """A number with its noun, in the plural where it must be."""
    return f"{number:,} {name}" + "s" * (number != 1)


def labelled(ax: Axes, x: str, y: str) -> Axes:
    """The axes with their names, a grid and a legend."""
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    ax.grid(linewidth=0.4, alpha=0.6)
    ax.legend(fontsize="small", frameon=False)
    return ax
