"""Pictures of a ranking, with matplotlib (`pip install "comparo[plots]"`)."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from comparo.ranking import Ranking

# Okabe and Ito's blue and orange, which the colour-blind can tell apart; tiers take them in turn.
TIERS = ("#0072B2", "#D55E00")


def plot_ranking(ranking: Ranking, context: Hashable = None, top: int = 40, ax: Axes | None = None) -> Axes:
    """The best `top` items of a context, best above, as points with their intervals; tiers change colour.

    >>> from comparo import fit
    >>> ax = plot_ranking(fit([("a", "b", 0.8), ("b", "c", 0.7), ("c", "a", 0.1)]))
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['a', 'b', 'c']
    """
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError('plots need matplotlib: pip install "comparo[plots]"') from error
    nodes = ranking.nodes_of(context)
    order = np.lexsort((-ranking.scores[nodes], ranking.component[nodes]))[:top] + nodes.start
    if ax is None:
        _, ax = pyplot.subplots(figsize=(5.0, 0.6 + 0.25 * len(order)), layout="constrained")
    places = np.arange(len(order))
    for parity, colour in enumerate(TIERS):
        here = (ranking.tier[order] - 1) % 2 == parity
        nodes_here = order[here]
        scores = ranking.scores[nodes_here]
        reach = np.nan_to_num(ranking.high[nodes_here] - scores)
        ax.errorbar(scores, places[here], xerr=reach, fmt="o", color=colour, markersize=4, capsize=2, linewidth=1.2)
    ax.set_yticks(places, [str(item) for item in ranking.items[order]], parse_math=False)
    ax.set_ylim(len(order) - 0.5, -0.5)
    ax.set_xlabel(f"score ({ranking.method}), {ranking.level:.0%} interval")
    ax.grid(axis="x", linewidth=0.4, alpha=0.6)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    return ax
