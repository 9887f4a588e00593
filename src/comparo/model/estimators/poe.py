"""The product of all experts: scores and position bias that make the comparisons most probable.

For comparison k between i (shown first) and j (shown second), d_k = s_i − s_j − γ, and the scores maximise

    Σ_k w_k · ℓ(d_k; p_k) + log prior(s).

γ is the position bias, negative where the judge favours the first text: σ(−γ) is the probability with which the first
of two equal texts wins under Bradley–Terry. Davidson's experts have a tie parameter ν per judge, found in turn with the
scores: ν is the root of Σ w·P(tie) = the weight of the judge's ties. Both steps increase the same log-density, which
has one maximum.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np

from comparo.data.comparisons import Comparisons
from comparo.data.lineups import luce_weights
from comparo.model.inference.ep import settle
from comparo.model.inference.newton import Maximum, Problem
from comparo.model.inference.position import Biases, plug_in
from comparo.model.likelihoods import Expert, derivatives, is_logit
from comparo.model.likelihoods.bradley_terry import (
    BradleyTerry,
    Davidson,
    answer_moments,
    first_parameters,
    next_parameters,
    tie_totals,
)
from comparo.model.linalg.graph import Graph, Pattern
from comparo.model.posterior import Posterior
from comparo.model.solution import Solution
from comparo.model.tuning import LIMITS, Limits
from comparo.rounding import TINY
from comparo.types import Array

Bias = Literal["none", "plug-in", "joint"]
Prior = float | Literal["first", "estimated"]


def multiply(
    comparisons: Comparisons,
    expert: Expert,
    *,
    prior: float | Literal["first"] = "first",
    bias: Bias = "none",
    is_scaled: bool = False,
    limits: Limits = LIMITS,
) -> Solution:
    """The product of `expert` over all comparisons, at its maximum.

    `prior` is the standard deviation of a Gaussian prior on every score, or "first": the paper's expert N(0, 1) on the
    first item (of each component), which determines the mean score and nothing else. `bias` is "none"; "plug-in", one γ
    for each judge, by which equal texts have slopes that sum to zero (γ = −logit(mean p) for Bradley–Terry, β = mean p
    for the linear Gaussian); or "joint", one γ for each context and judge, estimated with the scores and shrunk towards
    their mean according to their estimated variance. With `is_scaled` the ridge is φ/σ² instead of 1/σ², because the
    variance of comparisons is φ times what the expert assumes. Under Bradley–Terry an answer about several texts is
    multinomial, Σ_a p_a·log π_a (Plackett–Luce for choices and orders), expressed by the weights of its rows.

    >>> from comparo.model.likelihoods.gaussian import Gaussian
    >>> multiply(Comparisons.from_rows([("a", "b", 0.9)]), Gaussian()).scores.round(6)
    array([ 0.2, -0.2])
    """
    if comparisons.lineup is None or not isinstance(expert, BradleyTerry):
        return _multiply(comparisons, expert, prior, bias, is_scaled, limits)
    rows, whole = comparisons.lineup, comparisons.weights

    def solved(state: _Weighed, _: int) -> tuple[_Weighed, tuple[Solution, _Weighed], float]:
        weight, scaled = state
        product = _multiply(replace(comparisons, weight=weight), expert, scaled, bias, False, limits)
        product = replace(product, comparisons=comparisons)
        new = luce_weights(rows, comparisons.p, whole, product.differences)
        moved = float(np.max(np.abs(new - weight)))
        if is_scaled and prior != "first":
            last, scaled = float(scaled), float(prior / np.sqrt(product.dispersion))
            moved += abs(scaled / last - 1.0)
        return state, (product, (new, scaled)), moved

    start: _Weighed = (whole, prior)
    _, (product, _), converged = settle(start, solved, lambda _, found, __: found[1], LUCE_CHANGE, LUCE_ROUNDS)
    return replace(product, converged=product.converged and converged)


_Weighed = tuple[Array, float | Literal["first"]]  # the weights of rows of line-ups, and the prior, in units of φ


LUCE_ROUNDS, LUCE_CHANGE = 200, 1e-10  # most updates of the weights of line-ups, and the change that ends them


def _multiply(
    comparisons: Comparisons,
    expert: Expert,
    prior: float | Literal["first"],
    bias: Bias,
    is_scaled: bool,
    limits: Limits,
) -> Solution:
    graph = Graph.build(comparisons)
    ridge = np.full(graph.nodes, 0.0 if prior == "first" else 1.0 / prior**2)
    if bias == "joint":
        solution = _joint(Pattern(graph, comparisons.positions, limits), expert, comparisons, ridge)
    elif bias == "plug-in":
        shift = plug_in(expert, comparisons)
        offset = shift[comparisons.positions]
        problem = Problem.of(Pattern(graph, limits=limits), expert, comparisons, ridge, offset)
        solution = problem.maximise(np.zeros(graph.nodes))
    else:
        is_pooled = getattr(expert, "pooled", False) and graph.nodes**2 <= 2 * len(comparisons)
        pair_graph, pairs = _pool(graph, comparisons) if is_pooled else (graph, comparisons)
        problem = Problem.of(Pattern(pair_graph, limits=limits), expert, pairs, ridge)
        solution = problem.maximise(problem.start)
    product = product_at(comparisons, graph, expert, solution)
    if is_scaled and prior != "first":
        used = float(prior)
        for _ in range(limits.bias_rounds):
            scaled = float(prior / np.sqrt(product.dispersion))
            if abs(scaled / used - 1.0) < limits.last_step:
                break
            used, product = scaled, _multiply(comparisons, expert, scaled, bias, False, limits)
    if bias == "plug-in":
        product = _with_dispersion(replace(product, bias=np.tile(shift, (graph.contexts, 1))))
    return product


def product_at(comparisons: Comparisons, graph: Graph, expert: Expert, found: Maximum) -> Solution:
    """The product at a maximum, whose unknowns after the scores are the biases."""
    scores, gamma = np.split(found.x, [graph.nodes])
    product = Solution(
        comparisons=comparisons,
        graph=graph,
        scores=graph.centre(scores),
        covariance=Posterior((found.laplacian,)),
        converged=found.converged,
        bias=gamma.reshape(graph.contexts, -1),
        expert=expert,
        laplacian=found.laplacian,
        weights=comparisons.weights,
    )
    return _with_dispersion(product)


def _with_dispersion(product: Solution) -> Solution:
    """The product with its φ, and the covariance φ·H⁻¹ (Laplace's approximation for Bradley–Terry)."""
    phi = dispersion(product)
    return replace(product, dispersion=phi, covariance=replace(product.covariance, scale=phi))


def dispersion(product: Solution) -> float:
    """φ, the residual variance of the answers relative to the expert's; it scales the covariance.

        φ = (ν + X²) / (ν + K − parameters),   X² = K · Σ w·slope² / Σ curvature,   ν = 1 / (1 + K − parameters)

    A correct expert has φ = 1 (E slope² = E curvature). Soft probabilities vary far less than the coin flips that
    Bradley–Terry assumes: then φ is small and so are the standard errors. A bias that is shrunk counts as a fraction of
    a parameter. Where there are no more comparisons than parameters, φ is 1. Hard decisions (every p is 0, ½ or 1)
    under Bradley–Terry or Davidson are coin flips: φ is 1 by definition.
    """
    comparisons, expert, graph = product.comparisons, product.expert, product.graph
    assert expert is not None
    if is_logit(expert) and comparisons.hard:
        return 1.0
    freedoms = comparisons.freedom
    rows = float(np.sum(freedoms))
    freedom = rows - (graph.nodes - graph.components) - _free_biases(product)
    if freedom < 1e-6:
        return 1.0
    slope, curvature = np.empty((2, len(comparisons)))
    derivatives(expert, product.differences, comparisons.p, slope, curvature)
    squares = float(np.sum(product.weights * slope**2))
    curvatures = float(np.sum(np.maximum(curvature, 0.0) * freedoms))
    unknown = 1.0 / (1.0 + freedom)
    return float((unknown + rows * squares / max(curvatures, TINY)) / (unknown + freedom))


def _free_biases(product: Solution) -> float:
    """Σ (1 − ridge·variance) over the biases: their effective number of parameters."""
    if not product.bias.size:
        return 0.0
    laplacian, freedom = product.laplacian, product.comparisons.position_freedom
    if laplacian is None or not laplacian.pattern.judges:
        return float(np.sum(freedom))
    free = 1.0 - laplacian.ridge[product.graph.nodes :] * laplacian.bias_variances
    return float(np.sum(free * np.tile(freedom, product.graph.contexts)))


def _pool(graph: Graph, comparisons: Comparisons) -> tuple[Graph, Comparisons]:
    """Replace the comparisons of a pair by a judge by one, with their total weight and mean p.

    Exact for an expert whose slope is linear in p, whose curvature is free of p, and with ℓ(d; p) = ℓ(−d; 1 − p).
    """
    lead, _, mean, weights = comparisons.by_pair
    total = np.sum(weights, axis=1)
    used = total > 0
    p = (weights[:, 0] * mean[:, 0] + weights[:, 1] * (1.0 - mean[:, 1]))[used] / total[used]
    first, second = graph.first[lead[used]], graph.second[lead[used]]
    pooled = replace(comparisons, first=first, second=second, p=p, weight=total[used], context=None, judge=None)
    return replace(graph, first=first, second=second), pooled


def _joint(pattern: Pattern, expert: Expert, comparisons: Comparisons, ridge: Array) -> Maximum:
    """Solve for scores and one γ for each context and judge, γ ~ N(m, τ²) with estimated m and τ² (`Biases`)."""
    graph, mean = pattern.graph, np.zeros(pattern.graph.nodes)
    common = plug_in(expert, comparisons) if graph.contexts > 1 else np.zeros(pattern.judges)
    biases = Biases.of(pattern, common)
    problem = biases.applied(Problem.of(pattern, expert, comparisons, ridge), ridge, mean)
    solution = problem.maximise(np.zeros(pattern.unknowns))
    for _ in range(pattern.limits.bias_rounds if biases.shared.any() else 0):
        biases = biases.learn(solution, product_at(comparisons, graph, expert, solution).dispersion)
        solution = biases.applied(problem, ridge, mean).maximise(solution.x)
    return solution


TIE_ROUNDS = 100  # measured: 5 to 15 with ten or more answers per item, up to 60 with two
TIE_CHANGE = 1e-6  # of log ν: far below its standard error
TIE_STEPS = 50  # of log ν given the scores; Newton's method needs about five


def davidson(comparisons: Comparisons, **options: Any) -> Solution:
    """The product of Davidson's experts at its maximum, with ν by judge; p is 1, 0 or, for a tie, ½.

    `options` are those of `multiply`. Without ties it is the product of Bradley–Terry experts.

    >>> rows = [("a", "b", 1.0), ("a", "b", 0.5), ("b", "a", 0.5), ("b", "a", 1.0)]
    >>> float(np.round(davidson(Comparisons.from_rows(rows)).expert.nu, 3))     # equals, half of whose answers are ties
    2.0
    """
    judge = comparisons.judged_by
    tied, asked = tie_totals(comparisons.p, comparisons.weights, judge, int(judge.max()) + 1)
    if not tied.any():
        return multiply(comparisons, BradleyTerry(), **options)

    def solved(nu: Array, _: int) -> tuple[Array, tuple[Solution, Array], float]:
        expert = Davidson(float(nu[0]) if len(nu) == 1 else nu[judge])
        product = multiply(comparisons, expert, **options)
        new, d = nu, product.differences
        for _ in range(TIE_STEPS):
            last, new = new, next_parameters(new, tied, answer_moments(d, new[judge])[2], comparisons.weights, judge)
            if np.max(np.abs(new - last)) <= TIE_CHANGE * np.max(new):
                break
        return nu, (product, new), float(np.max(np.abs(new - nu) / np.maximum(nu, TINY)))

    start = first_parameters(tied, asked)
    _, (product, _), converged = settle(start, solved, lambda _, found, __: found[1], TIE_CHANGE, TIE_ROUNDS)
    return replace(product, converged=product.converged and converged)
