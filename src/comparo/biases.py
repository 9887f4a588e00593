"""The position bias γ: one number for each judge, or one for each context and judge that are all alike somewhat."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from comparo.comparisons import Comparisons
from comparo.effects import random_effects
from comparo.experts import Array, Expert
from comparo.graph import Graph
from comparo.laplacian import Laplacian, Pattern
from comparo.newton import Problem, Solution

WEAK = 1e-6  # ridge on a bias that nothing else holds


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
    # A graph of two nodes a family: its only unknown, the difference of their scores, is −γ.
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
    return laplacian.solve(rhs)[pattern.graph.nodes + biases, biases % pattern.judges]


@dataclass(frozen=True)
class Biases:
    """γ ~ N(m, τ²) for each context and judge, shape (C·J,), with m and τ² from the data.

    Biases of one judge share m and τ² over the contexts; where there is but one context, all judges share them:
    `family` (C·J,) says which do. `shared` (C·J,) are those of families with more than one bias `asked` for. From a
    solution with the ridge φ/τ² towards m, a bias γ̂ with variance v says what it would be without them: the estimate
    m + (γ̂ − m)·τ²/(τ² − v) with the variance vτ²/(τ² − v). These give the next m and τ² (`random_effects`). A judge
    of whom little is known is near m from the start, so that its estimate stays finite.
    """

    family: NDArray[np.int64]
    asked: NDArray[np.bool_]
    shared: NDArray[np.bool_]
    mean: Array
    ridge: Array

    @classmethod
    def of(cls, pattern: Pattern, expert: Expert, comparisons: Comparisons) -> Biases:
        """Where the rounds begin: at each judge's own γ over all contexts."""
        contexts, judges = pattern.graph.contexts, pattern.judges
        family = np.tile(np.arange(judges), contexts) if contexts > 1 else np.zeros(judges, dtype=np.int64)
        asked = np.bincount(pattern.bias_index, minlength=pattern.unknowns)[pattern.graph.nodes :] > 0
        shared = (np.bincount(family[asked], minlength=int(family.max()) + 1) > 1)[family]
        common = plug_in(expert, comparisons) if contexts > 1 else np.zeros(1)
        return cls(family, asked, shared, np.where(shared, common[family], 0.0), np.where(shared, 1.0, WEAK))

    def applied(self, problem: Problem, ridge: Array, mean: Array) -> Problem:
        """The problem with this prior on its biases, and `ridge` and `mean` (n,) on its scores."""
        return replace(problem, mean=np.concatenate([mean, self.mean]), ridge=np.concatenate([ridge, self.ridge]))

    def learn(self, solution: Solution, dispersion: float) -> Biases:
        """The next m and τ², from a solution and its φ."""
        n = solution.laplacian.pattern.graph.nodes
        between, mean = dispersion / self.ridge, self.mean.copy()
        variance = np.minimum(dispersion * bias_variances(solution.laplacian), 0.999 * between)
        open_share = 1.0 - variance / between
        estimate = mean + (solution.x[n:] - mean) / open_share
        for number in np.unique(self.family[self.shared]):
            members = self.family == number
            heard = members & self.asked
            mean[members], between[members] = random_effects(estimate[heard], (variance / open_share)[heard])
        return replace(self, mean=mean, ridge=np.where(self.shared, dispersion / between, WEAK))
