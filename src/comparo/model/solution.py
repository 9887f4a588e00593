"""What every estimator returns: the scores of the candidates, their covariance, and what some methods find with them.

A method fills the fields that it has. The others say that there is none: no position bias, no estimated variances, one
judge in place of a panel.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comparo.data.comparisons import Comparisons
from comparo.model.design import Held
from comparo.model.estimators.panel_covariance import Panel
from comparo.model.inference.random_effects import Effects
from comparo.model.likelihoods import Expert
from comparo.model.linalg.graph import Graph
from comparo.model.linalg.laplacian import Laplacian
from comparo.model.posterior import Posterior
from comparo.types import Array, Index


@dataclass(frozen=True, eq=False)
class Solution:
    """The solution of an estimator for the n candidates of `graph`.

    Parameters
    ----------
    comparisons : What was fitted, (K,).
    scores, covariance : The scores, (n,), centred in each component except where they are means, and their covariance.
    converged : Whether the solver converged.
    bias : γ of each context, in the graph's order, and position effect or voice, (C, J); J = 0 without a bias.
    expert, laplacian, dispersion : Of a product of experts: the expert, the curvature H at the solution, and φ, the
        residual variance of the answers relative to the expert's, which scales the covariance.
    weights : Of a product, the weight of each comparison, (K,): relative where φ is estimated, or `luce_weights`.
    effects : The variances of scores, groups, styles, biases and noise; None where the prior was not estimated.
    held : The coefficients of a control, whose effect the scores exclude.
    panel : The voices and their agreement, where there are several.
    either : Where voices are undecided, the solutions with either of their signs, equally likely; `scores` are the
        mean.
    method : The name of the method.
    groups : The number of each candidate's group, (n,), and the names of the groups, where there are any.
    validity : The share of the judge's view of single texts that people share, where a consensus was estimated with it.
    unreached : The context and the name of each item that no comparison is about.
    best : k of a run whose goal is "top-k"; None for other goals.

    Examples
    --------
    >>> from comparo import fit
    >>> solution = fit([("a", "b", 0.8), ("b", "a", 0.3), ("b", "c", 0.7), ("c", "b", 0.4)], "mixed").solution
    >>> solution.method, solution.bias.round(2), solution.effects.scores > 0
    ('mixed', array([[-0.25]]), True)
    """

    comparisons: Comparisons
    graph: Graph
    scores: Array
    covariance: Posterior
    converged: bool = True
    bias: Array = field(default_factory=lambda: np.empty((0, 0)))
    expert: Expert | None = None
    laplacian: Laplacian | None = None
    dispersion: float = 1.0
    effects: Effects | None = None
    held: Held | None = None
    weights: Array = field(default_factory=lambda: np.empty(0))
    panel: Panel | None = None
    either: tuple[Solution, ...] = ()
    method: str = ""
    groups: tuple[Index, NDArray[Any]] | None = None
    validity: float | None = None
    unreached: tuple[tuple[Any, Any], ...] = ()
    best: int | None = None

    @cached_property
    def labels(self) -> list[tuple[Any, Any]]:
        """The context, None where there are none, and the item of each candidate."""
        return self.graph.labels(self.comparisons)

    @cached_property
    def numbers(self) -> dict[tuple[Any, Any], int]:
        """The number of each candidate, by its label."""
        return {label: node for node, label in enumerate(self.labels)}

    @property
    def apart(self) -> Array:
        """s_first − s_second of each comparison, (K,); of a panel with the scores of its voice."""
        if self.panel is not None:
            return self.panel.apart
        return np.asarray(self.scores[self.graph.first] - self.scores[self.graph.second])

    @property
    def differences(self) -> Array:
        """d = s_first − s_second − γ of each comparison, (K,)."""
        if self.panel is not None:
            return self.apart - self.panel.gamma
        if not self.bias.size:
            return self.apart
        return self.apart - self.bias[self.graph.position[self.graph.first], self.comparisons.positions]

    @property
    def is_shrunk(self) -> bool:
        """Whether the scores are posterior means with estimated variances."""
        return self.effects is not None or self.panel is not None

    @cached_property
    def is_bias_determined(self) -> bool:
        """Whether the standard error of every γ is at most ten times what it would be if the scores were known."""
        if self.laplacian is None or not self.laplacian.pattern.judges:
            return True
        known = self.laplacian.diagonal[self.graph.nodes :]
        return bool(np.all(self.laplacian.bias_variances * known <= 100.0))
