"""What a reader must know before trusting a ranking."""

from __future__ import annotations

import numpy as np

from comparo.data.comparisons import Comparisons
from comparo.model.graph import Graph
from comparo.model.product import Product
from comparo.ranking.orders import unexplained_flips


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
    if judge := judge_note(comparisons):
        found.append(judge)
    return tuple(found)


def consensus_sentence(validity: float, has_groups: bool, has_contexts: bool, is_panel: bool) -> str:
    """What a consensus is, and how to get the judge's own ranking, to stand above its table."""
    expected = "the mean score of its group in all contexts" if has_groups else "what its style predicts"
    first = ", so that one group may be first in every context" if has_groups and has_contexts else ""
    who = "the panel" if is_panel else "the judge"
    return (
        f"This is what people would say, as far as {who} can tell: a text counts by {expected}, and by {validity:.0%} "
        f"of what {who} says of the text beyond that{first}. judge_rank is the rank by {who} alone; --estimate judge "
        '(in Python, estimate="judge") ranks by it, without new calls.'
    )


def judge_note(comparisons: Comparisons) -> str:
    """That the judge hardly reads, where too many winners change with the order of the texts; else an empty string.

    >>> judge_note(Comparisons.from_rows([row for k in range(9) for row in ((k, -k - 1, 0.9), (-k - 1, k, 0.9))]))
    '9 of 9 winners change with the order of the texts (95% interval: 70 to 100%): this judge hardly reads them, or ...
    """
    found = unexplained_flips(comparisons)
    if not found.are_many:
        return ""
    low, high = found.interval
    return (
        f"{found.flipped:,} of {found.pairs:,} winners change with the order of the texts (95% interval: "
        f"{100 * low:.0f} to {100 * high:.0f}%): this judge hardly reads them, or they hardly differ; try another "
        "judge or wording before you ask more"
    )
