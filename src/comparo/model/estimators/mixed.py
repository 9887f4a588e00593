"""The mixed model: scores, position biases and noise, with variances estimated from the comparisons.

    d = s_first − s_second − γ,    s = P m + X β + δ,
    m ~ N(0, ω_g²),   β ~ N(0, ω_x²),   δ ~ N(0, σ²),   γ of a context ~ N(γ̄, τ²)

P (n, G) is the group of each candidate, such as the system that wrote it or the same item in other contexts; X (n, D)
are its features, such as its style. Soft answers observe d in logits with Gaussian noise (`observations`). Choices have
the likelihood of Bradley–Terry, or with ties that of Davidson, each replaced by a Gaussian (`ep`), averaged over the
uncertainty of γ; if the choices support it, scores have two peaks (`mixture`), and δ ~ N(0, σ²·h) with h growing with
the distance of Xβ from 0 (`choices.style_inflation`). The result is one linear system on the comparison graph
(`spectrum.System`). The variances maximise its restricted likelihood, and the scores are averaged over quantiles of σ²
(`reml`). No weight and no variance depends on the answer that it weighs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.linalg import block_diag
from scipy.special import ndtri, stdtrit

from comparo.data.comparisons import Comparisons
from comparo.model.design import PLAIN, Control, Design, Held, Shared, without
from comparo.model.estimators.mixture import find_peaks
from comparo.model.inference.choices import Choices, Point, with_style_inflation
from comparo.model.inference.newton import Maximum
from comparo.model.inference.random_effects import Effects, Predicted, solve
from comparo.model.inference.reml import Variances
from comparo.model.inference.soft import Soft
from comparo.model.likelihoods import Expert, is_logit
from comparo.model.likelihoods.bradley_terry import Davidson
from comparo.model.linalg.graph import Graph
from comparo.model.linalg.spectrum import Spectrum, System
from comparo.model.observations import are_choices, pooled
from comparo.model.posterior import Posterior, root_of
from comparo.model.solution import Solution
from comparo.model.tuning import LIMITS, QUANTILES, Limits
from comparo.types import Array


def mixed(
    comparisons: Comparisons,
    expert: Expert,
    design: Design = PLAIN,
    *,
    for_groups: bool = False,
    limits: Limits = LIMITS,
) -> Solution:
    """The mixed model of all comparisons, on the scale of the expert: logits, or p for a Gaussian expert.

    With a control, `Solution.held` has its coefficients. A fit `for_groups` estimates group means, whose scale depends
    on few choices: it has no peaks and no style inflation, and for choices it omits the term that keeps the variance of
    scores from 0, which would stretch the means. Judges with few comparisons are pooled (`pooled`), as in
    `Solution.comparisons`; people keep their names.

    >>> from comparo.model.likelihoods.bradley_terry import BradleyTerry
    >>> rows = [("a", "b", 0.8), ("b", "a", 0.3), ("b", "c", 0.7), ("c", "b", 0.4)]
    >>> product = mixed(Comparisons.from_rows(rows), BradleyTerry())
    >>> bool(product.scores[0] > product.scores[1] > product.scores[2]), product.bias.round(2)
    (True, array([[-0.25]]))
    """
    comparisons = comparisons if comparisons.voted else pooled(comparisons)
    graph, control, is_biased = Graph.build(comparisons), design.control, design.is_biased
    shared = Shared.of(graph, design, limits.shared_entries)
    if is_logit(expert) and are_choices(comparisons):
        choices = Choices.of(comparisons, graph, is_biased, limits)
        is_narrow = for_groups and not choices.determines_scores
        model: Choices | Soft = replace(choices, has_prior=False, is_narrow=is_narrow) if for_groups else choices
    else:
        model = Soft.of(comparisons, graph, expert, is_biased, limits)
    model, variances, converged = model.settle(shared)
    peaks = None
    may_have_peaks = control is None and not for_groups
    if may_have_peaks and isinstance(model, Choices) and not model.nu.any():
        peaks = find_peaks(model, variances, shared)
    if peaks is not None:
        model, variances = peaks.model, peaks.variances
    if isinstance(model, Choices) and "style" in shared.kinds and not for_groups:
        model, variances, settled = with_style_inflation(model, variances, shared)
        converged = converged and settled
    count = float(np.sum(model.observations.freedom)) if isinstance(model, Soft) else None
    points, equal = model.explore(variances, shared) if isinstance(model, Choices) else [], 0.0
    if points and isinstance(model, Choices):
        equal = model.equal(points, variances, shared)
        model, variances, converged = _representative(points, shared)
    scores, effects, solution, beta = _averaged(model.system, variances, shared, count, control, points)
    if peaks is not None:
        scores, effects = peaks.applied(scores, effects)
    bias, between, error = model.bias(solution)
    doubt = model.bias_variances(solution) if isinstance(model, Choices) and bias.size else None
    if isinstance(model, Choices) and model.nu.any():
        expert = Davidson(model.nu[model.effects[comparisons.positions]])
    roots = effects.spread @ root_of(effects.between)
    return Solution(
        comparisons=comparisons,
        graph=graph,
        scores=graph.centre(scores),
        covariance=Posterior((solution.laplacian,), scale=effects.dispersion, roots=roots),
        converged=converged,
        bias=bias,
        expert=expert,
        laplacian=solution.laplacian,
        dispersion=effects.dispersion,
        effects=replace(effects, bias=between, bias_error=error, bias_variance=doubt, equal=equal),
        weights=(comparisons.relative() if isinstance(model, Soft) else comparisons).weights,
        held=None if control is None else Held(control, *beta, np.mean(shared.held**2, axis=0)),
    )


def _averaged(
    system: System,
    variances: Variances,
    shared: Shared,
    count: float | None,
    control: Control | None,
    points: Sequence[Point] = (),
) -> tuple[Array, Effects, Maximum, tuple[Array, Array]]:
    """Scores averaged over the quantiles of σ²/φ, the effects, the solution with the mean covariance, and β.

    β are the averaged coefficients of the control, with their covariance; the scores exclude their effect.

    The covariance includes the scatter of the scores over the quantiles. Where φ is estimated from `count`
    observations, the covariance is widened to the normal distribution whose central 95% are those of Student's t, with
    the degrees of freedom of the residuals. Group means have degrees of freedom of their own (`Predicted.freedom`).
    """
    n, held = system.nodes, shared.held
    scores, noises, sizes, coefficients = [], [], [], []
    every = [(one.model.system, one.variances, one.variances.ratio) for one in points]
    shares = _shares(points) if points else np.full(len(variances.quantiles), 1.0 / len(variances.quantiles))
    for own, fitted, a in every or [(system, variances, a) for a in variances.quantiles.tolist()]:
        _, theta = fitted.precision(a)
        scores.append(own.solve(1.0 / a, shared.columns @ theta)[:n])
        coefficients.append(theta[: held.shape[1]])
        scores[-1] -= held @ coefficients[-1]
        noises.append(fitted.noise(a))
        sizes.append(noises[-1] * _size(fitted.spectrum, a))
    noise, mean = float(np.mean(noises)), shares @ np.array(scores)  # choices have φ = 1 at all points
    a = variances.ratio
    if not points:
        low, high = np.log(variances.quantiles[0]), np.log(variances.quantiles[-1])
        for _ in range(50):
            middle = 0.5 * (low + high)
            is_below = noise * _size(variances.spectrum, np.exp(middle)) < np.mean(sizes)
            low, high = (middle, high) if is_below else (low, middle)
        a = float(np.exp(0.5 * (low + high)))
    _, theta = variances.precision(a)
    solution, spread, between = solve(system, replace(variances, ratio=a), shared)
    spread = without(spread[:n], held)
    freedoms = max(variances.residual(a)[1], 1.0), max(variances.observations, 2.0)
    heavy, widening = stdtrit(freedoms, 0.975) / ndtri(0.975) if count else (1.0, 1.0)
    dispersion = noise * float(heavy) ** 2
    scatter = (np.array(scores) - mean).T
    beta = shares @ np.array(coefficients)
    apart = np.array(coefficients) - beta
    covariance, count_held = dispersion * between, len(beta)
    covariance[:count_held, :count_held] += apart.T @ (shares[:, None] * apart)
    if control is not None:
        start = np.concatenate([beta, theta[count_held:]])
        informed, left = control.informed(start, covariance)
        mean, beta = mean + spread @ (informed - start), informed[:count_held]
        theta = theta + informed - start
        between, covariance = between - (covariance - left) / dispersion, left
    errors = covariance[:count_held, :count_held]
    if scatter.shape[1] > 1:
        spread = np.column_stack([spread, scatter])
        between = block_diag(between, np.diag(shares / dispersion))
    inflation = float(np.mean(system.inflation))
    found: dict[str, Any] = dict(zip(shared.kinds, (variances.shared * noise).tolist(), strict=True))
    if shared.kinds:
        known = (system.pattern.graph, shared.columns, shared.is_group, variances, system, count or len(system.c))
        none = np.zeros((n, 0))
        found["predicted"] = Predicted(*known, held, none, widening=float(widening) ** 2, control=control)
    columns = without(shared.columns, held)
    effects = Effects(
        dispersion,
        scores=float(shares @ [one.variances.ratio for one in points] if points else a * noise) * inflation,
        noise=noise,
        mean=columns @ theta,
        columns=columns,
        spread=spread,
        between=between,
        group=shared.group,
        **found,
    )
    return mean, effects, solution, (beta, errors)


def _shares(points: Sequence[Point]) -> Array:
    """The posterior probability of each point, (P,)."""
    heights = np.array([one.height for one in points])
    share = np.exp(heights - np.max(heights))
    return np.asarray(share / np.sum(share))


def _representative(points: Sequence[Point], shared: Shared) -> tuple[Choices, Variances, bool]:
    """The model at the σ² where the variance of all scores is its mean over the points, with the quantiles of σ²."""
    shares, ratios = _shares(points), np.array([one.variances.ratio for one in points])
    sizes = np.array([_size(one.variances.spectrum, one.variances.ratio) for one in points])
    a = float(np.exp(np.interp(shares @ sizes, sizes, np.log(ratios))))
    near = points[int(np.argmin(np.abs(np.log(ratios / a))))]
    below = np.cumsum(shares) - 0.5 * shares
    at = (np.arange(QUANTILES) + 0.5) / QUANTILES
    quantiles = np.exp(np.interp(at, below, np.log(ratios)))
    model, variances, converged = near.model.settle(shared, replace(near.variances, ratio=a, quantiles=quantiles))
    return model, variances, converged and all(one.converged for one in points)


def _size(spectrum: Spectrum, a: float) -> float:
    """Σ 1/(q + 1/a): the variance of all scores before φ."""
    return float(np.sum(spectrum.trace_weight * a / (1.0 + a * spectrum.trace_q)))
