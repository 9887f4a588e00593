"""The product of experts with a prior whose variances are estimated from the comparisons.

Scores s and biases γ have

    s = P m + X β + δ,   m ~ N(0, ω_g²),   β ~ N(0, ω_x²),   δ ~ N(0, σ²),   γ_c ~ N(γ̄, τ²).

P (n, G) is the group of each candidate, such as the system that wrote it or the same item in other contexts; X (n, D)
are features of it, such as its style. The score of a candidate with few comparisons is shrunk towards what its group
and features predict, as strongly as the data show that these predict scores. Given the variances, scores are found by
Newton's method with a ridge λ = φ/σ² (φ the dispersion) towards their means M θ, M = [P X] and θ = [m β], and θ by
Newton steps with the curvature

    S = Λ + λ·(QM)ᵀ(QM − F),   F = λ·H⁻¹QM,   Λ = diag(φ/ω²),

where Q centres in each component. The covariance is φ·(H⁻¹ + F S⁻¹ Fᵀ). The variances maximise the probability of the
comparisons by Laplace's approximation. They are found in rounds: each is a sum of squares divided by the effective
degrees of freedom (MacKay), σ² = Σδ² / (n − tr Cov(δ)/σ²), to which one degree of freedom of the size of the noise is
added, so that the variance is defined for any data.

Both orders of a pair are one observation: the effect of position (`Positions`) does not count as noise, and the noise
is estimated from the sum of the two slopes. Where few pairs were asked in both orders, γ of each context is estimated
together with the scores (`Biases`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from comparo.data.comparisons import Comparisons
from comparo.model.effects import Effects
from comparo.model.experts import BradleyTerry, Expert
from comparo.model.graph import Graph
from comparo.model.laplacian import Laplacian
from comparo.model.limits import LIMITS, Limits
from comparo.model.newton import Problem, Solution
from comparo.model.pattern import Pattern
from comparo.model.position import Biases, Positions
from comparo.model.product import Product
from comparo.model.traces import shared_leverage, traces
from comparo.types import Array


def pool(
    comparisons: Comparisons,
    expert: Expert,
    *,
    is_biased: bool = True,
    groups: NDArray[np.integer] | None = None,
    features: Array | None = None,
    limits: Limits = LIMITS,
) -> Product:
    """The product of `expert` over all comparisons with estimated variances.

    `groups` (n,) and `features` (n, D) are those of the candidates, in the order of `Graph.build`; groups are numbered
    from 0. With `is_biased`, γ of each context and judge is estimated with the scores, or from the pairs asked in both
    orders if these are at least half of the comparisons.

    >>> rows = [("a", "b", 0.8), ("b", "a", 0.3), ("b", "c", 0.7), ("c", "b", 0.4)]
    >>> product = pool(Comparisons.from_rows(rows), BradleyTerry())
    >>> bool(product.scores[0] > product.scores[1] > product.scores[2]), product.bias.round(2)
    (True, array([[-0.21]]))
    """
    graph = Graph.build(comparisons)
    n, shared = graph.nodes, _Shared.of(graph, groups, features, limits.pooled_entries)
    has_known_noise = comparisons.hard and isinstance(expert, BradleyTerry)
    positions = Positions.of(comparisons, graph, expert) if is_biased else None
    if positions is None:
        merged = comparisons.merge_orders()
        pattern = Pattern(Graph.build(merged), limits=limits)
        rounds = _Rounds(Problem.of(pattern, expert, merged, np.zeros(n)), shared, has_known_noise)
    elif np.mean(positions.both) < 0.5:
        pattern = Pattern(graph, comparisons.judged_by, limits)
        problem = Problem.of(pattern, expert, comparisons, np.zeros(pattern.unknowns))
        rounds = _Rounds(problem, shared, has_known_noise, biases=Biases.of(pattern, expert, comparisons))
    else:
        problem = Problem.of(Pattern(graph, limits=limits), expert, positions.comparisons, np.zeros(n))
        rounds = _Rounds(problem, shared, has_known_noise, positions=positions)
    solution, effects = rounds.settle()
    bias = solution.x[n:] if rounds.positions is None else rounds.positions.bias
    return Product(
        comparisons=comparisons,
        graph=graph,
        expert=expert,
        prior=float(np.sqrt(effects.scores)),
        scores=graph.centre(solution.x[:n]),
        bias=bias.reshape(graph.contexts, -1),
        laplacian=solution.laplacian,
        steps=solution.steps,
        converged=solution.converged,
        effects=effects,
    )


@dataclass(frozen=True)
class _Shared:
    """What candidates share: the `columns` QM (n, M), and which of the `kinds` ("groups", "style") each is, (M,)."""

    kinds: tuple[str, ...]
    kind: NDArray[np.intp]
    columns: Array

    @classmethod
    def of(cls, graph: Graph, groups: NDArray[np.integer] | None, features: Array | None, entries: int) -> _Shared:
        """Groups are left out if the matrix has more than so many entries, or if no two candidates share one."""
        found = {}
        count = 0 if groups is None else int(groups.max()) + 1
        if groups is not None and 1 < count < graph.nodes and graph.nodes * count <= entries:
            found["groups"] = graph.centre(np.eye(count)[groups])
        if features is not None and features.shape[1]:
            found["style"] = graph.centre(features)
        columns = np.concatenate([np.zeros((graph.nodes, 0)), *found.values()], axis=1)
        kind = np.repeat(np.arange(len(found)), [block.shape[1] for block in found.values()])
        return cls(tuple(found), kind, columns)

    def sums(self, values: Array | None = None) -> NDArray[np.float64]:
        """Sums of `values` (M,), or the number of columns, by kind."""
        return np.bincount(self.kind, values, len(self.kinds)).astype(float)


@dataclass(frozen=True)
class _Prior:
    """The prior of one round: ridges λ of the scores around `mean` = QMθ (n,), and Λ of θ (M,) by kind."""

    ridge: float
    ridges: Array
    theta: Array
    mean: Array


@dataclass(frozen=True)
class _Step:
    """The unknowns `x` and θ after a Newton step in θ, with F (`spread`), QM − F over the scores, and S⁻¹."""

    x: Array
    theta: Array
    mean: Array
    spread: Array
    apart: Array
    between: Array


@dataclass(frozen=True)
class _Variances:
    """φ, the variance of one comparison, σ², and ω² by kind."""

    dispersion: float
    noise: float
    own: float
    shared: Array

    def prior(self, step: _Step) -> _Prior:
        return _Prior(self.dispersion / self.own, self.dispersion / self.shared, step.theta, step.mean)

    @property
    def logs(self) -> Array:
        """What must settle; a ω² far below σ² has no effect."""
        return np.log([self.dispersion, self.own, *(self.own + self.shared)])


@dataclass
class _Rounds:
    """The rounds in which variances and scores settle.

    `biases` are found with the scores, `positions` separately: then an observation is a pair, else a comparison. Where
    the noise is known, that of coin flips, φ is 1.
    """

    problem: Problem
    shared: _Shared
    has_known_noise: bool
    biases: Biases | None = None
    positions: Positions | None = None

    @cached_property
    def pair(self) -> NDArray[np.intp] | None:
        """The pair of each comparison, in the pattern's order."""
        return None if self.positions is None else self.positions.pair[self.problem.pattern.order]

    def settle(self) -> tuple[Solution, Effects]:
        """Alternate between scores, means and variances until the variances change by little."""
        pattern, limits = self.problem.pattern, self.problem.pattern.limits
        prior, x, steps, old = self._first_prior(), np.zeros(pattern.unknowns), 0, np.array(0.0)
        for _ in range(limits.pooling_rounds):
            applied = self._applied(prior)
            solution = applied.maximise(x)
            step = self._step(solution, prior)
            found = self._variances(applied, solution.laplacian, step, prior)
            prior, x, steps = found.prior(step), step.x, steps + solution.steps
            if self.biases is not None:
                self.biases = self.biases.learn(solution, found.dispersion)
            if self.positions is not None:
                self.positions = self.positions.learn(x, found.dispersion)
            new = found.logs
            if np.max(np.abs(new - old)) < limits.pooling_change:
                break
            old = new
        solution = replace(self._applied(prior).maximise(x), steps=steps)
        return solution, self._effects(found, step)

    def _first_prior(self) -> _Prior:
        """As if scores varied as much as the noise of one comparison."""
        n, shared = self.problem.pattern.graph.nodes, self.shared
        slope, c = np.empty((2, len(self.problem.p)))
        self.problem.evaluate(np.zeros(self.problem.pattern.unknowns), slope, c)
        ridge = float(np.mean(c)) or 1.0
        ridges = np.full(len(shared.kinds), n * ridge / max(len(shared.kind), 1))
        return _Prior(ridge, ridges, np.zeros(len(shared.kind)), np.zeros(n))

    def _applied(self, prior: _Prior) -> Problem:
        """The problem with this prior, and the current effects of position."""
        every = np.full(len(prior.mean), prior.ridge)
        if self.biases is not None:
            return self.biases.applied(self.problem, every, prior.mean)
        if self.positions is not None:
            offset = self.positions.offset[self.problem.pattern.order]
            return replace(self.problem, ridge=every, mean=prior.mean, offset=offset)
        return replace(self.problem, ridge=every, mean=prior.mean)

    def _step(self, solution: Solution, prior: _Prior) -> _Step:
        """A Newton step in θ from the scores of `solution`, which move along with it."""
        columns, n, ridges = self.shared.columns, len(prior.mean), prior.ridges[self.shared.kind]
        spread = prior.ridge * _solve(solution.laplacian, columns)
        apart = columns - spread[:n]
        curvature = np.diag(ridges) + prior.ridge * columns.T @ apart
        between = np.asarray(np.linalg.inv(curvature), dtype=np.float64)
        gradient = prior.ridge * columns.T @ (solution.x[:n] - prior.mean) - ridges * prior.theta
        step = between @ gradient
        theta = prior.theta + step
        return _Step(solution.x + spread @ step, theta, columns @ theta, spread, apart, between)

    def _variances(self, applied: Problem, laplacian: Laplacian, step: _Step, prior: _Prior) -> _Variances:
        """Each variance as a sum of squares divided by its degrees of freedom."""
        graph, shared = self.problem.pattern.graph, self.shared
        n, free, sizes = graph.nodes, graph.nodes - graph.components, shared.sums()
        c, level = self._shares(laplacian)
        trace, leverage = traces(laplacian, c)
        leverage += shared_leverage(laplacian.pattern, c, step.spread, step.between)
        leverage = min(leverage, free + len(step.x) - n)
        dispersion = 1.0 if self.has_known_noise else self._dispersion(applied, step.x, level, leverage)
        noise = dispersion / level
        own_freedom = free - prior.ridge * (trace + float(np.sum(step.apart @ step.between * step.apart)))
        own = (float(np.sum((step.x[:n] - step.mean) ** 2)) + noise) / (own_freedom + 1.0)
        freedom = sizes - prior.ridges * shared.sums(np.diagonal(step.between))
        return _Variances(dispersion, noise, own, (shared.sums(step.theta**2) + own * sizes / n) / (freedom + 1.0))

    def _effects(self, found: _Variances, step: _Step) -> Effects:
        kinds, n = self.shared.kinds, len(step.mean)
        variances = dict(zip(kinds, found.shared.tolist(), strict=True))
        effects = Effects(found.dispersion, found.own, found.noise, self._bias_variance(found.dispersion), **variances)
        if kinds:
            effects = replace(effects, mean=step.mean, spread=step.spread[:n], between=step.between)
        if "groups" in kinds:
            effects = replace(effects, means=step.theta[self.shared.kind == kinds.index("groups")])
        return effects

    def _sums(self, values: Array) -> Array:
        """Sums of `values` (K,), in the pattern's order, over the comparisons of each observation: shape (M,)."""
        return values if self.pair is None else np.bincount(self.pair, values).astype(float)

    @cached_property
    def _weight(self) -> Array:
        """The weight of each observation, shape (M,)."""
        rows, weight = len(self.problem.p), self.problem.weight
        return np.maximum(self._sums(np.ones(rows) if weight is None else weight), np.finfo(float).tiny)

    def _shares(self, laplacian: Laplacian) -> tuple[Array, float]:
        """c·(c/w)/c̄ (K,), whose product with R, the variance of a difference, is a leverage; and c̄ = mean c/w.

        The mean is over the observations.
        """
        each = self._sums(laplacian.c) / self._weight
        mean = max(float(np.mean(each)), np.finfo(float).tiny)
        return laplacian.c * (each if self.pair is None else each[self.pair]) / mean, mean

    def _dispersion(self, applied: Problem, x: Array, level: float, leverage: float) -> float:
        """φ = (ν + X²) / (ν + freedom),   X² = Σ slope²/w / c̄,   freedom = Σ (c/w)·(1 − c·R) / c̄.

        ν as in `Product.dispersion`; R is the variance of the difference of an observation before φ. An observation
        with a large leverage has a small slope, since it determines the scores itself. The leverage Σ (c/w)·c·R / c̄ is
        limited to the number of parameters, which it may exceed where c differs by orders of magnitude.
        """
        slope, c = np.empty((2, len(applied.p)))
        applied.evaluate(x, slope, c)
        if self.pair is not None:
            slope = self._sums(np.where(applied.pattern.first < applied.pattern.second, slope, -slope))
        freedom = max(len(self._weight) - leverage, 0.0)
        unknown = 1.0 / (1.0 + freedom)
        return float((unknown + np.sum(slope**2 / self._weight) / level) / (unknown + freedom))

    def _bias_variance(self, dispersion: float) -> float | None:
        if self.positions is not None:
            return self.positions.between
        if self.biases is None or not self.biases.shared.any():
            return None
        return float(np.mean(dispersion / self.biases.ridge[self.biases.shared]))


def _solve(laplacian: Laplacian, columns: Array) -> Array:
    """H⁻¹·QM, shape (n + C·J, M)."""
    padding = np.zeros((laplacian.pattern.unknowns - len(columns), columns.shape[1]))
    rhs = np.concatenate([columns, padding])
    return laplacian.solve(rhs, accuracy=1e-2) if columns.shape[1] else rhs
