"""The position bias γ: one number per judge, or one per context and judge with a shared mean and variance.

Pairs that were asked in both orders separate the effect of position from that of the texts: `Positions` estimates γ of
each context and judge, and how much each text gains by being shown first, separately from the scores.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import cg

from comparo.data.comparisons import Comparisons
from comparo.model.effects import random_effects
from comparo.model.experts import Expert, derivatives
from comparo.model.graph import Graph
from comparo.model.laplacian import Laplacian
from comparo.model.newton import Problem, Solution
from comparo.model.pattern import Pattern
from comparo.types import Array

WEAK = 1e-6  # ridge on a bias without a shared prior, relative to a curvature of ¼ per comparison


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
    return laplacian.solve(rhs)[pattern.graph.nodes + biases, biases % pattern.judges]


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
            known = members & self.asked
            mean[members], between[members] = random_effects(estimate[known], (variance / open_share)[known])
        return replace(self, mean=mean, ridge=np.where(self.shared, dispersion / between, WEAK))


def pairs(comparisons: Comparisons, graph: Graph) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """The number of each comparison's pair and judge from 0, whatever its order, and whether both orders were asked."""
    number = np.unique(comparisons.pair_keys(), return_inverse=True)[1]
    orders = np.bincount(number * 2 + (graph.first > graph.second), minlength=2 * int(number.max()) + 2)
    return number, np.min(orders.reshape(-1, 2), axis=1)[number] > 0


@dataclass(frozen=True)
class Positions:
    """The effect of position on each comparison, γ + e_first + e_second, estimated from pairs asked in both orders.

    `bias` (C·J,) is γ of each context and judge, those of a judge shrunk towards their mean by the variance `between`
    (None if there is only one); `effect` (n,) is e of each candidate. With r the sum of a pair's slopes in γ divided by
    its curvature c, a step for e minimises Σ c·(r − e_i − e_j)² + c̄·Σ e²: e is assumed to vary as much as the noise of
    a pair. In each context e is centred. For decisions, which do not determine e, it is 0.
    """

    comparisons: Comparisons
    graph: Graph
    expert: Expert
    pair: NDArray[np.intp]
    both: NDArray[np.bool_]
    family: NDArray[np.int32]
    bias: Array
    effect: Array
    between: float | None = None

    @classmethod
    def of(cls, comparisons: Comparisons, graph: Graph, expert: Expert) -> Positions:
        """The start of the rounds: γ as if all texts were equal.

        The weight of each order of a pair becomes the geometric mean of its own and half of the pair's: between equal
        weights an effect of position that is not estimated cancels, while different weights reflect different noise.
        """
        judges = 1 if comparisons.judges is None else len(comparisons.judges)
        family = np.asarray(graph.position[graph.first] * judges + comparisons.judged_by, dtype=np.int32)
        none = np.zeros(graph.contexts * judges), np.zeros(graph.nodes)
        pair, both = pairs(comparisons, graph)
        order, weight = 2 * pair + (graph.first > graph.second), comparisons.weights
        own, other = (np.bincount(order, weight, 2 * len(weight))[number] for number in (order, order ^ 1))
        even = np.divide(own + other, 2 * own, out=np.ones(len(own)), where=both & (own > 0) & (other > 0))
        comparisons = replace(comparisons, weight=weight * np.sqrt(even))
        return cls(comparisons, graph, expert, pair, both, family, *none)._with_biases(none[1], 1.0)

    @property
    def offset(self) -> Array:
        """γ + e_first + e_second of each comparison, shape (K,)."""
        return np.asarray(self.bias[self.family] + self._effects)

    def learn(self, scores: Array, dispersion: float) -> Positions:
        """The next γ and e, given the scores (n,) and φ."""
        return (self if self.comparisons.hard else self._with_effects(scores))._with_biases(scores, dispersion)

    @property
    def _effects(self) -> Array:
        return np.asarray(self.effect[self.graph.first] + self.effect[self.graph.second])

    def _with_effects(self, scores: Array) -> Positions:
        graph, n = self.graph, self.graph.nodes
        slope, c = np.empty((2, len(self.pair)))
        difference = scores[graph.first] - scores[graph.second] - self.offset
        derivatives(self.expert, difference, self.comparisons.p, slope, c)
        counted = self.both * self.comparisons.weights
        slope, c = counted * slope, counted * np.maximum(c, 0.0)
        ridge = max(float(np.sum(c)) / (int(self.pair.max()) + 1), np.finfo(float).tiny)
        ends = sparse.csr_array((c, (graph.first, graph.second)), shape=(n, n))
        total = np.bincount(graph.first, c, n) + np.bincount(graph.second, c, n)
        matrix = ends + ends.T + sparse.diags_array(total + ridge)
        gradient = np.bincount(graph.first, slope, n) + np.bincount(graph.second, slope, n)
        effect = self.effect + cg(matrix, -gradient - ridge * self.effect, rtol=1e-3)[0]
        effect -= (np.bincount(graph.position, effect) / np.diff(graph.starts))[graph.position]
        return replace(self, effect=effect)

    def _with_biases(self, scores: Array, dispersion: float) -> Positions:
        graph, family, judges = self.graph, self.family, len(self.bias) // self.graph.contexts
        known = scores[graph.first] - scores[graph.second] - self._effects
        gamma, variance = bias_given(self.expert, self.comparisons, family, known)
        bias, asked = np.zeros(len(self.bias)), np.bincount(family, minlength=len(self.bias)) > 0
        bias[: len(gamma)], variance = gamma, dispersion * variance
        spreads = []
        for judge in range(judges):
            own = np.flatnonzero(asked & (np.arange(len(bias)) % judges == judge))
            if len(own) > 1:
                centre, between = random_effects(gamma[own], variance[own])
                bias[own] = centre + (gamma[own] - centre) * between / (between + variance[own])
                spreads.append(between)
        return replace(self, bias=bias, between=float(np.mean(spreads)) if spreads else None)
