"""What a reader must know before trusting a ranking."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from comparo.data.comparisons import Comparisons
from comparo.model.graph import Graph
from comparo.model.product import Product

if TYPE_CHECKING:
    from comparo.ranking.ranking import Ranking

FEW = 5  # pairs in both orders from which on a judge that always chooses one position is noted
MOSTLY = 0.9


def notes(comparisons: Comparisons, graph: Graph, product: Product | None, converged: bool) -> tuple[str, ...]:
    """Return a sentence for each of: a graph that is not connected, no convergence, a bias that is not determined."""
    found = []
    split = np.diff(np.append(graph.component[graph.starts[:-1]], graph.components)) > 1
    if split.any():
        place = ""
        if comparisons.contexts is not None:
            label = comparisons.contexts[graph.context[graph.starts[:-1]][split][0]]
            others = np.count_nonzero(split) - 1
            place = f" in context '{label}'" + (f" and {others} more" if others else "")
        found.append(
            f"the comparisons{place} fall into groups that are not connected: each group is ranked on its own, and "
            "scores do not compare across groups; compare items of different groups to join them"
        )
    if not converged:
        found.append("the scores did not settle and may be wrong; try method='poe-bt' with a firm prior, as prior=1")
    if product is not None and not product.is_bias_determined:
        found.append(
            "the position bias cannot be estimated from these comparisons: show items in both positions, or use "
            "bias='none'"
        )
    if comparisons.hard and (always := _same_position(comparisons)):
        found.append(
            f"in {always:,} pairs asked in both orders, nearly all, the judge chose the same position both times: it "
            "hardly compares the texts; look at its replies, change the wording or the labels, or take another judge"
        )
    return tuple(found)


def consensus_sentence(ranking: Ranking) -> str:
    """What a consensus is and how to get the judge's own ranking, to stand above its table; "" for other rankings."""
    if ranking.estimate != "consensus":
        return ""
    is_style = ranking.group is None
    expected = "what its style predicts" if is_style else "the mean score of its group in all contexts"
    first = "" if is_style or ranking.context is None else ", so that one group may be first in every context"
    who = "the judge" if ranking.panel is None else "the panel"
    return (
        f"This is what people would say, as far as {who} can tell: a text counts by {expected}, and by "
        f"{ranking.validity:.0%} of what {who} says of the text beyond that{first}. judge_rank is the rank by {who} "
        'alone; --estimate judge (in Python, estimate="judge") ranks by it, without new calls.'
    )


def _same_position(comparisons: Comparisons) -> int:
    """In how many pairs the same position won in both orders, if that is nearly always so; else 0.

    A soft answer tells by how much the position counts, and what is left of it; a decision tells nothing more.
    """
    share = float(np.mean(comparisons.p > 0.5))
    if 1.0 - MOSTLY < share < MOSTLY:  # fast: no pairs need to be found
        return 0
    first, second = comparisons.both_orders()
    always = max(np.count_nonzero((first > 0.5) & (second > 0.5)), np.count_nonzero((first < 0.5) & (second < 0.5)))
    return int(always) if len(first) >= FEW and always > MOSTLY * len(first) else 0
