"""Scorers: functions from comparisons to scores that a study can compare, among them the methods of `comparo.fit`."""

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from comparo.data.comparisons import Comparisons
from comparo.methods import Method, quiet_fit
from comparo.model.graph import Graph
from comparo.model.limits import LIMITS
from comparo.model.product import Bias
from comparo.ranking.ranking import Ranking
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
    has the paper's prior (`prior_pairs="compared"`). In small contexts it is solved by Newton's method, which is
    faster: e = 1/(N − 1) additional wins for either side of a comparison are p = (y + e)/(1 + 2e) with weight 1 + 2e,
    so that its maximum is that of a product of soft Bradley–Terry experts.

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
            return _bradley_terry(comparisons)
        return quiet_fit(comparisons, self.method, bias=self.bias)


def _bradley_terry(comparisons: Comparisons) -> Ranking:
    """The scores of "bt": by Newton's method where all contexts are small, else by Newman's iteration."""
    graph = Graph.build(comparisons)
    if int(np.max(np.diff(graph.starts))) > LIMITS.batched:
        return quiet_fit(comparisons, "bt", algorithm="newman", prior_pairs="compared")
    decisions = comparisons.decisions()
    extra = 1.0 / (np.diff(graph.starts) - 1.0)[graph.position[graph.first]]
    weight = decisions.weights + 2.0 * extra
    p = (decisions.weights * decisions.p + extra) / weight
    return quiet_fit(replace(decisions, p=p, weight=weight), "poe-bt", prior="first")
