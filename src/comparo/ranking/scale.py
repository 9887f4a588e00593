"""The scale of a ranking that has grown: that of the first one.

Scores are centred in each connected component, so items that are added would move all others. The scale is held by the
items that were there from the start: with r_i their scores in the first ranking, all scores of a component are shifted
by the same number, such that

    mean of (s_i − r_i) over the items of the first ranking that are still there and as they were = 0.

While all of them are, that is a mean of 0 as in the first ranking. Differences of scores, ranks and tiers are those of
the joint fit of all answers. The unit is the method's, in most cases logits of the judge; new items do not change it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comparo.ranking.grown import Grown
from comparo.ranking.ranking import Ranking
from comparo.rounding import merge_ties
from comparo.types import Array, Mask

UNCENTRED = ("win-ratio", "avg-prob")  # methods whose scores are shares of all comparisons, and not differences


def on_scale(ranking: Ranking, kept: Mask, reference: Array) -> Ranking:
    """The ranking with the mean of its `kept` candidates (n,) at that of their `reference` scores (n,).

    Components without such a candidate, and scores that are shares of wins, stay as they are.

    >>> from comparo import fit
    >>> ranking = fit([("a", "b", 0.8), ("b", "new", 0.7), ("new", "a", 0.1)])
    >>> held = on_scale(ranking, ranking.items != "new", np.zeros(3))
    >>> round(held["a"].score + held["b"].score, 9), round(held["a"].score - ranking["a"].score, 2)
    (0.0, -0.51)
    """
    if ranking.method in UNCENTRED:
        return ranking
    component = ranking.graph.component
    number = np.bincount(component, kept)
    apart = np.bincount(component, np.where(kept, ranking.scores - reference, 0.0))
    shift = np.divide(apart, number, out=np.zeros(len(number)), where=number > 0)
    others = {name: getattr(ranking, name) for name in ("opinion", "controlled")}
    held: dict[str, Any] = {
        name: on_scale(other, kept, reference) for name, other in others.items() if other is not None
    }
    return replace(ranking, scores=ranking.scores - shift[component], **held)


def compared(ranking: Ranking, before: Ranking, nodes: Sequence[int | None], left_out: int) -> Ranking:
    """The ranking with what each candidate was `before`: `nodes` (n,) are its numbers there, None for a new one."""
    new = np.array([node is None for node in nodes])
    there = np.array([0 if node is None else node for node in nodes])
    was = {name: np.where(new, np.nan, getattr(before, name)[there]) for name in ("low", "high")}
    score = np.where(new, np.nan, before.scores[there])
    context = ranking.graph.context
    rank, rank_now = (_ranks(values, context, ~new) for values in (score, ranking.scores))
    return replace(ranking, grown=Grown(new, score, was["low"], was["high"], rank, rank_now, left_out))


def _ranks(scores: Array, context: NDArray[np.integer], among: Mask) -> NDArray[np.int64]:
    """The rank of each candidate among those of its context that are `among` (n,), 0 for the others."""
    found = np.zeros(len(scores), dtype=np.int64)
    rows = np.flatnonzero(among)
    order = rows[np.lexsort((-merge_ties(scores[rows]), context[rows]))]
    starts = np.flatnonzero(np.diff(context[order], prepend=-1))
    sizes = np.diff(starts, append=len(order))
    found[order] = np.arange(len(order)) - np.repeat(starts, sizes) + 1
    return found
