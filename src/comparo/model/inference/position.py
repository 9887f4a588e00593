"""The position bias γ: one number per judge, or one per context and judge with a shared mean and variance.

Pairs that were asked in both orders separate the effect of position from that of the texts (`observations`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from comparo.data.comparisons import Comparisons
from comparo.model.estimators.random_effects import random_effects
from comparo.model.inference.newton import Problem, Solution
from comparo.model.likelihoods.experts import Expert
from comparo.model.linalg.graph import Graph
from comparo.model.linalg.laplacian import Laplacian
from comparo.model.linalg.pattern import Pattern
from comparo.types import Array

WEAK = 1e-6  # ridge on a bias without a shared prior, relative to a curvature of ¼ per comparison
ZERO = 1e9  # ridge on a bias that is known to be 0


def plug_in(expert: Expert, comparisons: Comparisons) -> Array:
    """γ of each judge, shape (J,): the root of Σ w·slope(−γ; p), as if every pair were equal.

    For Bradley–Terry this is −logit(mean p), for the linear Gaussian it makes β the mean p.
    """
    return bias_given(expert, comparisons, comparisons.judged_by)[0]


def bias_given(
    expert: Expert, comparisons: Comparisons, family: NDArray[np.int32], difference: Array | None = None
) -> tuple[Array, Array]:
    """γ of each family of comparisons, given the differences of scores (K,), 0 if None; and its variance before φ.

    The root of Σ w·slope(difference − γ; p) over the family, and 1 / Σ w·curvature there: both of shape (F,).
    """
    # A graph of two nodes per family: its only unknown, the difference of their scores, is −γ.
    nodes = np.arange(2 * (int(family.max()) + 1), dtype=np.int32)
    graph = Graph(nodes, nodes // 2, np.arange(0, len(nodes) + 1, 2), nodes // 2, 2 * family, 2 * family + 1)
    offset = None if difference is None else -difference
    problem = Problem.of(Pattern(graph), expert, comparisons, np.full(len(nodes), 1e-9), offset)
    solution = problem.maximise(np.zeros(len(nodes)))
    return solution.x[1::2] - solution.x[::2], 1.0 / solution.laplacian.diagonal[::2]


def bias_variances(laplacian: Laplacian) -> Array:
    """The diagonal of H⁻¹ at the biases, shape (C·J,); contexts do not mix, so J solutions serve all of them."""
    pattern = laplacian.pattern
    biases = np.arange(pattern.unknowns - pattern.graph.nodes)
    rhs = np.zeros((pattern.unknowns, pattern.judges))
    rhs[pattern.graph.nodes + biases, biases % pattern.judges] = 1.0
    return laplacian.solve(rhs, accuracy=1e-4)[pattern.graph.nodes + biases, biases % pattern.judges]


@dataclass(frozen=True)
class Biases:
    """γ ~ N(m, τ²) for each context and judge, shape (C·J,), with m and τ² from the data.

    Biases of one judge share m and τ² over the contexts; with a single context, all judges share them. `family` (C·J,)
    numbers those that share, `asked` (C·J,) marks biases with comparisons, `shared` (C·J,) families with more than one
    such bias. From a bias γ̂ with variance v, estimated with the ridge φ/τ² towards m, follows the estimate without the
    ridge, m + (γ̂ − m)·τ²/(τ² − v), and its variance vτ²/(τ² − v). These give the next m and τ² (`random_effects`).
    The ridge of the first round keeps the estimate of a judge with few comparisons finite.
    """

    family: NDArray[np.int64]
    asked: NDArray[np.bool_]
    shared: NDArray[np.bool_]
    mean: Array
    ridge: Array

    @classmethod
    def of(cls, pattern: Pattern, expert: Expert, comparisons: Comparisons) -> Biases:
        """The start of the rounds: each judge's own γ over all contexts."""
        contexts, judges = pattern.graph.contexts, pattern.judges
        family = np.tile(np.arange(judges), contexts) if contexts > 1 else np.zeros(judges, dtype=np.int64)
        asked = np.bincount(pattern.bias_index, minlength=pattern.unknowns)[pattern.graph.nodes :] > 0
        shared = (np.bincount(family[asked], minlength=int(family.max()) + 1) > 1)[family]
        common = plug_in(expert, comparisons) if contexts > 1 else np.zeros(1)
        return cls(family, asked, shared, np.where(shared, common[family], 0.0), np.where(shared, 1.0, WEAK))

    @classmethod
    def free(cls, pattern: Pattern, judges: int) -> Biases:
        """The start for observations in logits: any γ; that of the judge numbered `judges`, where γ cancels, is 0."""
        contexts, width = pattern.graph.contexts, pattern.judges
        family = np.tile(np.arange(width), contexts) if contexts > 1 else np.zeros(width, dtype=np.int64)
        asked = np.bincount(pattern.bias_index, minlength=pattern.unknowns)[pattern.graph.nodes :] > 0
        is_zero = np.tile(np.arange(width) == judges, contexts)
        asked &= ~is_zero
        shared = (np.bincount(family[asked], minlength=int(family.max()) + 1) > 1)[family] & ~is_zero
        return cls(family, asked, shared, np.zeros(len(family)), np.where(is_zero, ZERO, WEAK))

    def spread(self, dispersion: float) -> float | None:
        """τ², the mean over the families that share one; None if there is none."""
        return float(np.mean(dispersion / self.ridge[self.shared])) if self.shared.any() else None

    def applied(self, problem: Problem, ridge: Array, mean: Array) -> Problem:
        """The problem with this prior on its biases, and `ridge` and `mean` (n,) on its scores."""
        return replace(problem, mean=np.concatenate([mean, self.mean]), ridge=np.concatenate([ridge, self.ridge]))

    def _unshrunk(self, solution: Solution, dispersion: float) -> tuple[Array, Array]:
        """The estimates without the ridge, and their variance, both (C·J,)."""
        between, n = dispersion / self.ridge, solution.laplacian.pattern.graph.nodes
        variance = np.minimum(dispersion * bias_variances(solution.laplacian), 0.999 * between)
        open_share = 1.0 - variance / between
        return self.mean + (solution.x[n:] - self.mean) / open_share, variance / open_share

    def error(self, solution: Solution, dispersion: float) -> float:
        """The standard error of the mean of all γ, from a solution and its φ."""
        _, variance = self._unshrunk(solution, dispersion)
        total = variance + np.where(self.shared, dispersion / self.ridge, 0.0)
        return float(1.0 / np.sqrt(np.sum(1.0 / total[self.asked])))

    def learn(self, solution: Solution, dispersion: float) -> Biases:
        """The next m and τ², from a solution and its φ."""
        between, mean = dispersion / self.ridge, self.mean.copy()
        estimate, variance = self._unshrunk(solution, dispersion)
        for number in np.unique(self.family[self.shared]):
            members = self.family == number
            known = members & self.asked
            members &= self.shared
            mean[members], between[members] = random_effects(estimate[known], variance[known])
        return replace(self, mean=mean, ridge=np.where(self.shared, dispersion / between, self.ridge))


def pairs(comparisons: Comparisons, graph: Graph) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """The number of each comparison's pair and judge from 0, whatever its order, and whether both orders were asked."""
    number = np.unique(comparisons.pair_keys(), return_inverse=True)[1]
    orders = np.bincount(number * 2 + (graph.first > graph.second), minlength=2 * int(number.max()) + 2)
    return number, np.min(orders.reshape(-1, 2), axis=1)[number] > 0
