"""One cell of a study's table: how well the scores of one method, from K calls per context, agree with people.

All contexts of all draws are fitted in one call, with draw·C + context as the context. Where a method shares something
between contexts, such as a position bias, each draw is fitted separately, so that draws stay independent.

With a the method's and b people's scores of a context's items, centred, Pearson's correlation is Σab / √(Σa²·Σb²), and
Spearman's the same of their ranks, ties at their mean rank. A cell has the mean over contexts in each draw; contexts in
which people gave all items the same score are left out, and a method that gives all items the same score has
correlation 0.

Scorers: functions from comparisons to scores that a study can compare, among them the methods of `comparo.fit`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from comparo.analysis.correlations import pearson, spearman
from comparo.data.comparisons import Comparisons
from comparo.methods import Method, quiet_fit
from comparo.model.estimators.poe import Bias
from comparo.model.linalg.graph import Graph
from comparo.ranking.ranking import Ranking
from comparo.studies.draws import Draws
from comparo.studies.recorded import Recorded
from comparo.types import Array

DECISIONS = ("win-ratio", "bt", "poe-g-hard")


class Scored(Protocol):
    """Candidates and their scores, such as a `Ranking`: `graph.context` and `graph.item` say whose each score is."""

    @property
    def graph(self) -> Graph:
        """The candidates, n of them."""

    @property
    def scores(self) -> Array:
        """The score of each, shape (n,)."""


class Scorer(Protocol):
    """Scores from comparisons of every context."""

    @property
    def independent(self) -> bool:
        """Whether the scores of a context depend on its own comparisons alone."""

    def __call__(self, comparisons: Comparisons) -> Scored:
        """A score for every item of every context."""


@dataclass(frozen=True)
class Fit:
    """`comparo.fit` by a method's name and bias.

    Methods that use decisions decide a pair that was asked in both orders once, by p̃_ij = ½(p_ij + 1 − p_ji), as the
    paper's symmetric set-up does: else a judge who favours a position would tie items that it can distinguish. "bt"
    has the paper's prior (`prior_pairs="compared"`).

    >>> Fit("poe-bt").independent, Fit("poe-bt", "joint").independent
    (True, False)
    >>> Fit("win-ratio")(Comparisons.from_rows([("a", "b", 0.9), ("b", "a", 0.6)])).scores
    array([1., 0.])
    """

    method: Method
    bias: Bias = "none"

    @property
    def independent(self) -> bool:
        """Plugged-in and jointly estimated biases are pooled over contexts."""
        return self.bias == "none"

    def __call__(self, comparisons: Comparisons) -> Ranking:
        """The ranking; what `fit` warns of (draws that are not connected) is a matter of course here."""
        if self.method in DECISIONS and self.bias == "none":
            merged = comparisons.merge_orders()
            comparisons = merged if comparisons.weight is not None else replace(merged, weight=None)
        if self.method == "bt" and self.bias == "none":
            return quiet_fit(comparisons, "bt", prior_pairs="compared")
        return quiet_fit(comparisons, self.method, bias=self.bias)


TIED = 1e-7  # scores closer than this share of their context's range are tied, so that rounding does not rank them
TOGETHER = 4_000_000  # most comparisons fitted at once


@dataclass(frozen=True, eq=False)
class Cell:
    """Spearman's and Pearson's correlation in each of S draws, shape (S,), each the mean over contexts.

    `by_context` (C,) is Spearman's in each context, mean over draws; NaN where people gave all items the same score.
    """

    spearman: Array
    pearson: Array
    by_context: Array

    def __str__(self) -> str:
        return f"{100 * np.mean(self.spearman):.1f} ± {100 * deviation(self.spearman):.1f}"


def evaluate(draws: Draws, scorer: Scorer) -> Cell:
    """The cell of a scorer on draws of recorded judgements.

    >>> from comparo.studies.draws import draw
    >>> from comparo.studies.recorded import example
    >>> from comparo.studies.cells import Fit
    >>> evaluate(draw(example(), 6, 2, rng=np.random.default_rng(0)), Fit("poe-bt")).spearman
    array([1., 1.])
    """
    return correlate(draws.recorded, score(draws, scorer))


def score(draws: Draws, scorer: Scorer) -> Array:
    """The scores of all candidates in each draw, shape (S, n), in the recorded order."""
    recorded, number = draws.recorded, len(draws)
    if draws.whole and number > 1:
        once = Draws(recorded, draws.rows[:1], draws.calls, whole=True)
        return np.repeat(score(once, scorer), number, axis=0)
    if not scorer.independent:
        return np.concatenate([_placed(recorded, scorer(draws.one(each)), 1) for each in range(number)])
    step = max(1, TOGETHER // draws.rows.shape[1])
    parts = [slice(begin, min(begin + step, number)) for begin in range(0, number, step)]
    return np.concatenate([_placed(recorded, scorer(draws.together(part)), part.stop - part.start) for part in parts])


def _placed(recorded: Recorded, scored: Scored, draws: int) -> Array:
    """Scores of all candidates, shape (draws, n), from those of contexts draw·C + context."""
    contexts, items, candidates = len(recorded.contexts), len(recorded.items), len(recorded.item)
    draw, context = np.divmod(scored.graph.context.astype(np.int64), contexts)
    known = recorded.context * np.int64(items) + recorded.item
    order = np.argsort(known, kind="stable")
    place = order[np.searchsorted(known, context * items + scored.graph.item, sorter=order)]
    found = np.full((draws, candidates), np.nan)
    found[draw, place] = scored.scores
    if np.isnan(found).any():
        raise ValueError("the scorer left items without a score, or with one that is no number; score every item")
    return found


def correlate(recorded: Recorded, scores: Array) -> Cell:
    """Spearman's and Pearson's correlation of `scores` (S, n) with people's, the mean over contexts `has_spread`: (S,).

    >>> from comparo.studies.recorded import example
    >>> correlate(example(), np.array([[9.0, 1.0, 2.0], [0.0, 0.0, 0.0]])).spearman
    array([1., 0.])
    """
    usable = ~np.isnan(recorded.human) & recorded.has_spread[recorded.context]
    columns = np.flatnonzero(usable)
    context = np.unique(recorded.context[columns], return_inverse=True)[1]
    sizes = np.bincount(context)
    ranked, linear = np.empty((2, len(scores), len(sizes)))
    for size in np.unique(sizes).tolist():
        which = np.flatnonzero(sizes == size)
        members = columns[np.isin(context, which)].reshape(-1, size)
        one, other = scores[:, members], recorded.human[members]
        linear[:, which] = np.nan_to_num(pearson(one, other))
        spread = np.ptp(one, axis=-1, keepdims=True)
        steps = np.round((one - one.min(axis=-1, keepdims=True)) / (TIED * np.where(spread > 0, spread, 1.0)))
        ranked[:, which] = np.nan_to_num(spearman(steps, other))
    by_context = np.full(len(recorded.contexts), np.nan)
    by_context[recorded.has_spread] = np.mean(ranked, axis=0)
    return Cell(np.mean(ranked, axis=1), np.mean(linear, axis=1), by_context)


def column_means(rows: Sequence[Array]) -> Array:
    """The mean of several rows (C,) column by column without NaN; NaN where a column has no number."""
    table = np.array(rows)
    known = ~np.isnan(table)
    total = np.sum(np.where(known, table, 0.0), axis=0)
    return np.asarray(np.divide(total, known.sum(axis=0), out=np.full(len(total), np.nan), where=known.any(axis=0)))


def deviation(values: Array) -> float:
    """The standard deviation over draws (S,), with denominator S − 1; 0 for a single draw."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
