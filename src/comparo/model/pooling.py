"""The product of experts with a prior whose variances the comparisons themselves tell.

Scores s and biases γ have

    s = P m + X β + δ,   m ~ N(0, ω_g²),   β ~ N(0, ω_x²),   δ ~ N(0, σ²),   γ_c ~ N(γ̄, τ²).

P (n, G) says which group a candidate is in, the system that wrote it or the item that it is in other contexts; X (n, D)
are features of it, such as its style. A candidate of which little was asked leans on its group and on those that are
like it, by as much as the data say that they agree. Given the variances, scores are found as ever, with a ridge
λ = φ/σ² (φ the dispersion) towards their means M θ, M = [P X] and θ = [m β], and θ by Newton steps with the curvature

    S = Λ + λ·(QM)ᵀ(QM − F),   F = λ·H⁻¹QM,   Λ = diag(φ/ω²),

Q being what centres in each component. The covariance is φ·(H⁻¹ + F S⁻¹ Fᵀ). The variances are those that make the
comparisons most probable by Laplace's approximation, found in turns: each is a sum of squares over the degrees of
freedom that the data hold (MacKay), σ² = Σδ² / (n − tr Cov(δ)/σ²), and begins with one degree of freedom of the size of
the noise, so that it is defined whatever the data say.

Both orders of a pair are one observation: what position does to them (`Positions`) is not taken for noise, and of their
slopes the noise is told by the sum. Where few pairs were asked in both orders, γ of each context is found with the
scores (`Biases`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from comparo.data.comparisons import Comparisons
from comparo.model.effects import Effects
from comparo.model.experts import BradleyTerry, Expert
from comparo.model.graph import Graph
from comparo.model.laplacian import Laplacian, Pattern
from comparo.model.newton import Problem, Solution
from comparo.model.position import Biases, Positions
from comparo.model.product import Product
from comparo.types import Array

ROUNDS = 20
SETTLED = 0.05  # change of a variance, relative, that ends the rounds
PROBES = 4  # random vectors by which the trace of a large context's H⁻¹ is estimated
POOLED_ENTRIES = 20_000_000  # of P: with more groups than that, none are pooled


def pool(
    comparisons: Comparisons,
    expert: Expert,
    *,
    is_biased: bool = True,
    groups: NDArray[np.integer] | None = None,
    features: Array | None = None,
) -> Product:
    """The product of `expert` over all comparisons with estimated variances.

    `groups` (n,) and `features` (n, D) are those of the candidates, in the order of `Graph.build`; groups are numbered
    from 0. With `is_biased`, γ of each context and judge is estimated with the scores, or from the pairs asked in both
    orders where most are.

    >>> rows = [("a", "b", 0.8), ("b", "a", 0.3), ("b", "c", 0.7), ("c", "b", 0.4)]
    >>> product = pool(Comparisons.from_rows(rows), BradleyTerry())
    >>> bool(product.scores[0] > product.scores[1] > product.scores[2]), product.bias.round(2)
    (True, array([[-0.21]]))
    """
    graph = Graph.build(comparisons)
    n, blocks = graph.nodes, _blocks(graph, groups, features)
    positions = Positions.of(comparisons, graph, expert) if is_biased else None
    if positions is None:
        merged = comparisons.merge_orders()
        rounds = _Rounds(Problem.of(Pattern(Graph.build(merged)), expert, merged, np.zeros(n)), blocks)
    elif np.mean(positions.both) < 0.5:
        pattern = Pattern(graph, comparisons.judged_by)
        problem = Problem.of(pattern, expert, comparisons, np.zeros(pattern.unknowns))
        rounds = _Rounds(problem, blocks, biases=Biases.of(pattern, expert, comparisons))
    else:
        problem = Problem.of(Pattern(graph), expert, positions.comparisons, np.zeros(n))
        rounds = _Rounds(problem, blocks, positions=positions)
    solution, effects = rounds.settle(comparisons.hard)
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


@dataclass
class _Rounds:
    """The rounds in which variances and scores settle; `blocks` are the columns of QM by kind, each (n, G).

    `biases` are found with the scores, `positions` beside them: then an observation is a pair, else a comparison.
    """

    problem: Problem
    blocks: dict[str, Array]
    biases: Biases | None = None
    positions: Positions | None = None

    @cached_property
    def pair(self) -> NDArray[np.intp] | None:
        """The pair of each comparison, in the pattern's order."""
        return None if self.positions is None else self.positions.pair[self.problem.pattern.order]

    def settle(self, hard: bool) -> tuple[Solution, Effects]:
        problem, n = self.problem, self.problem.pattern.graph.nodes
        members = np.concatenate([np.zeros((n, 0)), *self.blocks.values()], axis=1)
        kinds = np.repeat(np.arange(len(self.blocks)), [block.shape[1] for block in self.blocks.values()])
        sizes = np.bincount(kinds, minlength=len(self.blocks))
        coin = hard and isinstance(problem.expert, BradleyTerry)
        free = n - problem.pattern.graph.components
        theta, mean, ridge = np.zeros(len(kinds)), np.zeros(n), self._first_ridge()
        own_ridge = np.full(len(self.blocks), n * ridge / max(len(kinds), 1))
        x, steps, old = np.zeros(problem.pattern.unknowns), 0, np.zeros(2 + len(sizes))
        for _ in range(ROUNDS):
            applied = self._applied(ridge, mean)
            solution = applied.maximise(x)
            x, laplacian, steps = solution.x, solution.laplacian, steps + solution.steps
            spread = ridge * _solve(laplacian, members)
            apart = members - spread[:n]
            curvature = np.diag(own_ridge[kinds]) + ridge * members.T @ apart
            between = np.asarray(np.linalg.inv(curvature), dtype=np.float64)
            step = between @ (ridge * members.T @ (x[:n] - mean) - own_ridge[kinds] * theta)
            theta, x = theta + step, x + spread @ step
            mean = members @ theta
            c, level = self._shares(laplacian)
            trace, leverage = _traces(laplacian, c)
            leverage += _shared_leverage(laplacian.pattern, c, spread, between)
            held = free - ridge * (trace + float(np.sum(apart @ between * apart)))
            held_by = sizes - own_ridge * np.bincount(kinds, np.diagonal(between), len(sizes))
            leverage = min(leverage, free + len(x) - n)
            dispersion = 1.0 if coin else self._dispersion(applied, x, level, leverage)
            noise = dispersion / level
            own = (float(np.sum((x[:n] - mean) ** 2)) + noise) / (held + 1.0)
            shared = (np.bincount(kinds, theta**2, len(sizes)) + own * sizes / n) / (held_by + 1.0)
            ridge, own_ridge = dispersion / own, dispersion / shared
            if self.biases is not None:
                self.biases = self.biases.learn(solution, dispersion)
            if self.positions is not None:
                self.positions = self.positions.learn(x, dispersion)
            new = np.log([dispersion, own, *(own + shared)])  # a variance far below `own` does not matter
            if np.max(np.abs(new - old)) < SETTLED:
                break
            old = new
        solution = replace(self._applied(ridge, mean).maximise(x), steps=steps)
        found = dict(zip(self.blocks, shared.tolist(), strict=True))
        effects = Effects(dispersion, own, noise, self._bias_variance(dispersion), **found)
        if len(kinds):
            effects = replace(effects, mean=mean, spread=spread[:n], between=between)
        if "groups" in found:
            effects = replace(effects, means=theta[kinds == list(self.blocks).index("groups")])
        return solution, effects

    def _first_ridge(self) -> float:
        """As if scores varied as much as the noise of one comparison."""
        slope, c = np.empty((2, len(self.problem.p)))
        self.problem.evaluate(np.zeros(self.problem.pattern.unknowns), slope, c)
        return float(np.mean(c)) or 1.0

    def _applied(self, ridge: float, mean: Array) -> Problem:
        every = np.full(len(mean), ridge)
        if self.biases is not None:
            return self.biases.applied(self.problem, every, mean)
        if self.positions is not None:
            offset = self.positions.offset[self.problem.pattern.order]
            return replace(self.problem, ridge=every, mean=mean, offset=offset)
        return replace(self.problem, ridge=every, mean=mean)

    def _sums(self, values: Array) -> Array:
        """Sums of `values` (K,), in the pattern's order, over the comparisons of each observation: shape (M,)."""
        return values if self.pair is None else np.bincount(self.pair, values).astype(float)

    @cached_property
    def _weight(self) -> Array:
        """The weight of each observation, shape (M,)."""
        rows, weight = len(self.problem.p), self.problem.weight
        return np.maximum(self._sums(np.ones(rows) if weight is None else weight), np.finfo(float).tiny)

    def _shares(self, laplacian: Laplacian) -> tuple[Array, float]:
        """c·(c/w)/c̄, which R turns into leverages: (K,), and c̄, the mean of c/w over the observations."""
        each = self._sums(laplacian.c) / self._weight
        mean = max(float(np.mean(each)), np.finfo(float).tiny)
        return laplacian.c * (each if self.pair is None else each[self.pair]) / mean, mean

    def _dispersion(self, applied: Problem, x: Array, level: float, leverage: float) -> float:
        """φ = (ν + X²) / (ν + freedom),   X² = Σ slope²/w / c̄,   freedom = Σ (c/w)·(1 − c·R) / c̄.

        ν as in `Product.dispersion`; R is the variance of the difference of an observation before φ. What tells most
        has the smallest slopes, as it decides about the scores itself. The leverage, Σ (c/w)·c·R / c̄, is at most the
        number of parameters, which it may exceed where c differs by orders of magnitude.
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


def _blocks(graph: Graph, groups: NDArray[np.integer] | None, features: Array | None) -> dict[str, Array]:
    """The columns of QM by kind, each (n, G); groups are left out where they are too many, or none is shared."""
    found = {}
    if groups is not None and 1 < groups.max() + 1 < graph.nodes and graph.nodes * (groups.max() + 1) <= POOLED_ENTRIES:
        found["groups"] = graph.centre(np.eye(int(groups.max()) + 1)[groups])
    if features is not None and features.shape[1]:
        found["style"] = graph.centre(features)
    return found


def _solve(laplacian: Laplacian, members: Array) -> Array:
    """H⁻¹·QM, shape (n + C·J, G)."""
    padding = np.zeros((laplacian.pattern.unknowns - len(members), members.shape[1]))
    rhs = np.concatenate([members, padding])
    return laplacian.solve(rhs, accuracy=1e-2) if members.shape[1] else rhs


def _traces(laplacian: Laplacian, c: Array) -> tuple[float, float]:
    """tr H⁻¹ over the scores, centred, and Σ c·R over the comparisons, R the variance of their difference.

    The latter is tr XᵀcX·H⁻¹. Contexts too large for batches by random vectors (Hutchinson).
    """
    pattern, trace, leverage = laplacian.pattern, 0.0, 0.0
    weighted = Laplacian(pattern, c, np.zeros(pattern.unknowns))
    items = np.bincount(pattern.graph.component)[pattern.graph.component]
    for batch in pattern.batches:
        if not pattern.is_batched(batch):
            tail, nodes = weighted.tail, pattern.graph.nodes
            probes = np.zeros((pattern.unknowns, PROBES))
            probes[tail.unknowns] = np.random.default_rng(0).choice([-1.0, 1.0], (len(tail.diagonal), PROBES))
            probes = pattern.centre(probes)
            found = laplacian.solve(probes, accuracy=1e-2)
            trace += float(np.sum(probes[:nodes] * found[:nodes])) / PROBES
            leverage += float(np.sum(found[tail.unknowns] * tail.multiply(probes[tail.unknowns]))) / PROBES
            break
        inverse, matrix, size = np.linalg.inv(laplacian.dense(batch)), weighted.dense(batch), batch.size
        matrix[:, :size, :size] -= weighted.constants(batch)
        leverage += float(np.sum(inverse * matrix))
        together = (laplacian.constants(batch) > 0) / items[batch.nodes].reshape(-1, size, 1)
        trace += float(np.sum(inverse[:, :size, :size] * (np.eye(size) - together)))
    return trace, leverage


def _shared_leverage(pattern: Pattern, c: Array, spread: Array, between: Array) -> float:
    """What the uncertainty of group means and styles adds to Σ c·R."""
    if not spread.shape[1]:
        return 0.0
    rows = np.arange(len(c))
    ends = [(pattern.first, 1.0), (pattern.second, -1.0), *([(pattern.bias_index, -1.0)] if pattern.judges else [])]
    columns = np.concatenate([end for end, _ in ends])
    values = np.repeat([sign for _, sign in ends], len(c))
    design = sparse.csr_array((values, (np.tile(rows, len(ends)), columns)), shape=(len(c), pattern.unknowns))
    image = design.T @ (sparse.diags_array(c) @ design) @ spread
    return float(np.sum(between * (spread.T @ image)))
