"""The product of experts with a prior whose variances the comparisons themselves tell.

Scores s and biases γ have

    s = P m + X β + δ,   m ~ N(0, ω_g²),   β ~ N(0, ω_x²),   δ ~ N(0, σ²),   γ_c ~ N(γ̄, τ²).

P (n, G) says which group a candidate is in, the system that wrote it or the item that it is in other contexts; X (n, D)
are features of it, such as its style. A candidate of whom little was asked leans on its group and on those that are
like it, by as much as the data say that they agree. Given the variances, scores are found as ever, with a ridge
λ = φ/σ² (φ the dispersion) towards their means M θ, M = [P X] and θ = [m β], and θ by Newton steps with the curvature

    S = Λ + λ·(QM)ᵀ(QM − F),   F = λ·H⁻¹QM,   Λ = diag(φ/ω²),

Q being what centres in each component. The covariance is φ·(H⁻¹ + F S⁻¹ Fᵀ). The variances are those that make the
comparisons most probable by Laplace's approximation, found in turns: each is a sum of squares over the degrees of
freedom that the data hold (MacKay), σ² = Σδ² / (n − tr Cov(δ)/σ²), and begins with one degree of freedom of the size of
the noise, so that it is defined whatever the data say.

Both orders of a pair are one comparison (`Comparisons.merge_orders`): what position does is not taken for noise.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from comparo.biases import Biases, bias_given, bias_variances
from comparo.comparisons import Comparisons
from comparo.effects import Effects, random_effects
from comparo.experts import Array, BradleyTerry, Expert
from comparo.graph import Graph
from comparo.laplacian import Laplacian, Pattern
from comparo.newton import Problem, Solution
from comparo.product import Product

ROUNDS = 20
SETTLED = 0.05  # change of a variance, relative, that ends the rounds
PROBES = 8  # random vectors by which the trace of a large context's H⁻¹ is estimated
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
    n, family, blocks = graph.nodes, _families(comparisons, graph), _blocks(graph, groups, features)
    both = _pairs(comparisons, graph)[1]
    if is_biased and np.mean(both) < 0.5:
        pattern = Pattern(graph, comparisons.judged_by)
        problem = Problem.of(pattern, expert, comparisons, np.zeros(pattern.unknowns))
        rounds = _Rounds(problem, blocks, Biases.of(pattern, expert, comparisons))
        solution, effects = rounds.settle(comparisons.hard)
        bias = solution.x[n:]
    else:
        merged = comparisons.merge_orders()
        edges = Graph.build(merged)
        problem = Problem.of(Pattern(edges), expert, merged, np.zeros(n))
        rounds, bias = _Rounds(problem, blocks), np.empty(0)
        solution, effects = rounds.settle(comparisons.hard)
        if is_biased:
            bias, between = _bias_after(solution.x, comparisons, graph, expert, family, effects.dispersion)
            if not both.all():
                single = np.isin(_pairs(merged, edges)[0], _pairs(comparisons, graph)[0][~both])
                offset = np.where(single, bias[_families(merged, edges)], 0.0)
                rounds.problem = replace(problem, offset=offset[problem.pattern.order])
                solution, effects = rounds.settle(comparisons.hard)
            effects = replace(effects, bias=between)
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
    """The rounds in which variances and scores settle; `blocks` are the columns of QM by kind, each (n, G)."""

    problem: Problem
    blocks: dict[str, Array]
    biases: Biases | None = None

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
            solution = self._applied(ridge, mean).maximise(x)
            x, laplacian, steps = solution.x, solution.laplacian, steps + solution.steps
            spread = ridge * _solve(laplacian, members)
            apart = members - spread
            curvature = np.diag(own_ridge[kinds]) + ridge * members.T @ apart
            between = np.asarray(np.linalg.inv(curvature), dtype=np.float64)
            step = between @ (ridge * members.T @ (x[:n] - mean) - own_ridge[kinds] * theta)
            theta, x = theta + step, np.concatenate([x[:n] + spread @ step, x[n:]])
            mean = members @ theta
            held = free - ridge * (_trace(laplacian) + float(np.sum(apart @ between * apart)))
            held_by = sizes - own_ridge * np.bincount(kinds, np.diagonal(between), len(sizes))
            dispersion, noise = self._scatter(x, laplacian, held + float(np.sum(held_by)), coin)
            own = (float(np.sum((x[:n] - mean) ** 2)) + noise) / (held + 1.0)
            shared = (np.bincount(kinds, theta**2, len(sizes)) + own * sizes / n) / (held_by + 1.0)
            ridge, own_ridge = dispersion / own, dispersion / shared
            if self.biases is not None:
                self.biases = self.biases.learn(solution, dispersion)
            new = np.log([dispersion, own, *shared])
            if np.max(np.abs(new - old)) < SETTLED:
                break
            old = new
        solution = replace(self._applied(ridge, mean).maximise(x), steps=steps)
        found = dict(zip(self.blocks, shared.tolist(), strict=True))
        effects = Effects(dispersion, own, noise, self._bias_variance(dispersion), **found)
        if len(kinds):
            effects = replace(effects, mean=mean, spread=spread, between=between)
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
        return replace(self.problem, ridge=every, mean=mean)

    def _scatter(self, x: Array, laplacian: Laplacian, held: float, coin: bool) -> tuple[float, float]:
        """φ as in `Product.dispersion`, and the variance of a comparison of weight 1: φ over the mean curvature."""
        problem, rows = self.problem, len(self.problem.p)
        slope, c = np.empty((2, rows))
        problem.evaluate(x, slope, c)
        weight = np.ones(rows) if problem.weight is None else np.maximum(problem.weight, np.finfo(float).tiny)
        curvature = max(float(np.mean(np.maximum(c / weight, 0.0))), np.finfo(float).tiny)
        if self.biases is not None:
            nodes = laplacian.pattern.graph.nodes
            held += float(np.sum(1.0 - laplacian.ridge[nodes:] * bias_variances(laplacian)))
        freedom = max(rows - held, 0.0)
        unknown = 1.0 / (1.0 + freedom)
        squares = float(np.sum(slope**2 / weight)) / curvature
        dispersion = 1.0 if coin else (unknown + squares) / (unknown + freedom)
        return dispersion, dispersion / curvature

    def _bias_variance(self, dispersion: float) -> float | None:
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
    """The scores' part of H⁻¹·QP, shape (n, G)."""
    if not members.shape[1]:
        return members
    padding = np.zeros((laplacian.pattern.unknowns - len(members), members.shape[1]))
    return laplacian.solve(np.concatenate([members, padding]), accuracy=1e-5)[: len(members)]


def _trace(laplacian: Laplacian) -> float:
    """tr H⁻¹ over the scores, centred; contexts too large for batches by random vectors (Hutchinson)."""
    pattern, total = laplacian.pattern, 0.0
    for batch in pattern.batches:
        if not pattern.is_batched(batch):
            rng, start = np.random.default_rng(0), batch.nodes.start
            probes = np.zeros((pattern.unknowns, PROBES))
            probes[start : pattern.graph.nodes] = rng.choice([-1.0, 1.0], (pattern.graph.nodes - start, PROBES))
            probes = pattern.centre(probes)
            return total + float(np.sum(probes * laplacian.solve(probes, accuracy=1e-3))) / PROBES
        total += float(np.einsum("bii->", laplacian.inverse(batch)))
    return total


def _pairs(comparisons: Comparisons, graph: Graph) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """A number for the pair and judge of each comparison, whatever its order, and whether both orders were asked."""
    judges = 1 if comparisons.judges is None else len(comparisons.judges)
    low, high = np.minimum(graph.first, graph.second).astype(np.int64), np.maximum(graph.first, graph.second)
    pair = (low * graph.nodes + high) * judges + comparisons.judged_by
    turned = graph.first > graph.second
    return pair, np.where(turned, np.isin(pair, pair[~turned]), np.isin(pair, pair[turned]))


def _families(comparisons: Comparisons, graph: Graph) -> NDArray[np.int32]:
    """The number of each comparison's context and judge, shape (K,)."""
    judges = 1 if comparisons.judges is None else len(comparisons.judges)
    return np.asarray(graph.position[graph.first] * judges + comparisons.judged_by, dtype=np.int32)


def _bias_after(
    scores: Array, comparisons: Comparisons, graph: Graph, expert: Expert, family: NDArray[np.int32], dispersion: float
) -> tuple[Array, float | None]:
    """γ of each context and judge given the scores, (C·J,), those of a judge shrunk to their mean; and τ²."""
    judges = 1 if comparisons.judges is None else len(comparisons.judges)
    found = np.zeros(graph.contexts * judges)
    gamma, variance = bias_given(expert, comparisons, family, scores[graph.first] - scores[graph.second])
    asked, variance = np.bincount(family, minlength=len(found)) > 0, dispersion * variance
    found[: len(gamma)] = gamma
    spreads = []
    for judge in range(judges):
        own = np.flatnonzero(asked & (np.arange(len(found)) % judges == judge))
        if len(own) > 1:
            centre, between = random_effects(gamma[own], variance[own])
            found[own] = centre + (gamma[own] - centre) * between / (between + variance[own])
            spreads.append(between)
    return found, float(np.mean(spreads)) if spreads else None
