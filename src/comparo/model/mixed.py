"""One mixed model for what judges say: scores, position biases and noise with variances from the comparisons.

    d = s_first − s_second − γ,    s = P m + X β + δ,
    m ~ N(0, ω_g²),   β ~ N(0, ω_x²),   δ ~ N(0, σ²),   γ of a context ~ N(γ̄, τ²)

P (n, G) is the group of each candidate, such as the system that wrote it or the same item in other contexts; X (n, D)
are features of it, such as its style. Soft answers observe d in logits with Gaussian noise (`observations`); choices
have the likelihood of Bradley–Terry, each replaced by a Gaussian (`sites`). Then everything is one linear system on
the comparison graph (`spectrum.System`). The variances maximise its restricted likelihood, and the scores are averaged
over the confidence in σ² (`variances`). No weight and no variance is made from the answer that it weighs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtri, stdtrit

from comparo.data.comparisons import Comparisons
from comparo.model.edges import difference_variances
from comparo.model.effects import Effects, random_effects
from comparo.model.experts import BradleyTerry, Expert, Gaussian, Linear
from comparo.model.graph import Graph
from comparo.model.limits import LIMITS, Limits
from comparo.model.newton import Solution
from comparo.model.observations import Observations, are_choices, logits, observe
from comparo.model.pattern import Pattern
from comparo.model.position import Biases, bias_variances, pairs
from comparo.model.product import Product
from comparo.model.sites import censored_moments, choice_moments, sites_from
from comparo.model.spectrum import Spectrum, System
from comparo.model.variances import NARROWEST, WIDEST, Variances, estimate
from comparo.types import Array, Index

FASTEST = 0.9  # largest ratio of two changes of a variance from which its limit is extrapolated
LEAST_FLIPS = 0.01  # variance of a choice in the dispersion: rarer ones would decide it alone
FURTHEST = 1.5  # largest extrapolation of the logarithm of a variance


def mixed(
    comparisons: Comparisons,
    expert: Expert,
    *,
    is_biased: bool = True,
    groups: NDArray[np.integer] | None = None,
    features: Array | None = None,
    limits: Limits = LIMITS,
) -> Product:
    """The mixed model of all comparisons, on the scale of the expert: logits, or p for a Gaussian expert.

    `groups` (n,) and `features` (n, D) are those of the candidates, in the order of `Graph.build`; groups are numbered
    from 0. With `is_biased`, γ of each context and judge is estimated with the scores.

    >>> rows = [("a", "b", 0.8), ("b", "a", 0.3), ("b", "c", 0.7), ("c", "b", 0.4)]
    >>> product = mixed(Comparisons.from_rows(rows), BradleyTerry())
    >>> bool(product.scores[0] > product.scores[1] > product.scores[2]), product.bias.round(2)
    (True, array([[-0.25]]))
    """
    graph = Graph.build(comparisons)
    shared = Shared.of(graph, groups, features, limits.shared_entries)
    if isinstance(expert, BradleyTerry) and are_choices(comparisons):
        model: _Choices | _Soft = _Choices.of(comparisons, graph, is_biased, limits)
    else:
        model = _Soft.of(comparisons, graph, expert, is_biased, limits)
    model, variances, steps, converged = model.settle(shared)
    system = model.system
    scores, effects, solution = _averaged(system, variances, shared)
    bias, between, error = model.bias(solution)
    return Product(
        comparisons=comparisons,
        graph=graph,
        expert=expert,
        prior=float(np.sqrt(effects.scores)),
        scores=graph.centre(scores),
        bias=bias,
        laplacian=solution.laplacian,
        steps=steps,
        converged=converged,
        effects=replace(effects, bias=between, bias_error=error),
    )


@dataclass(frozen=True)
class Shared:
    """What candidates share: the `columns` QM (n, M), and which of the `kinds` ("groups", "style") each is, (M,).

    A row of the columns of a kind has the mean square 1, so that ω² is the variance of the scores that it explains.
    `group` (n,) is the group of each candidate, where groups are among the kinds.
    """

    kinds: tuple[str, ...]
    kind: NDArray[np.intp]
    columns: Array
    group: Index | None = None

    @classmethod
    def of(cls, graph: Graph, groups: NDArray[np.integer] | None, features: Array | None, entries: int) -> Shared:
        """Groups are left out if the matrix has more than so many entries, or if no two candidates share one."""
        found = {}
        count = 0 if groups is None else int(groups.max()) + 1
        if groups is not None and 1 < count < graph.nodes and graph.nodes * count <= entries:
            found["groups"] = graph.centre(np.eye(count)[groups])
        if features is not None and features.shape[1]:
            found["style"] = graph.centre(features)
        columns = np.concatenate([np.zeros((graph.nodes, 0)), *found.values()], axis=1)
        kind = np.repeat(np.arange(len(found)), [block.shape[1] for block in found.values()])
        group = groups.astype(np.int32) if groups is not None and "groups" in found else None
        return cls(tuple(found), kind, columns, group)


@dataclass(frozen=True)
class _Soft:
    """Observations of differences; only γ, where it does not cancel, and saturated answers need rounds."""

    observations: Observations
    pattern: Pattern
    biases: Biases | None
    c: Array
    pull: Array
    unit: float
    is_biased: bool
    noise: float = 1.0

    @classmethod
    def of(cls, comparisons: Comparisons, graph: Graph, expert: Expert, is_biased: bool, limits: Limits) -> _Soft:
        if isinstance(expert, Gaussian):
            y, saturated = expert.mean(comparisons.p), np.zeros(len(comparisons), dtype=bool)
        else:
            y, saturated = logits(comparisons.p)
        found = observe(comparisons, graph, y, saturated)
        graph = replace(graph, first=found.first, second=found.second)
        has_bias = is_biased and not found.all_pairs
        pattern = Pattern(graph, found.judge if has_bias else None, limits)
        order = pattern.order
        biases = Biases.free(pattern, found.sums.shape[1]) if has_bias else None
        unit = expert.mean.alpha / 4.0 if isinstance(expert, Gaussian) and isinstance(expert.mean, Linear) else 1.0
        c = found.weight[order]
        return cls(found, pattern, biases, c, c * found.y[order], abs(unit), is_biased)

    @property
    def system(self) -> System:
        ridge = mean = np.zeros(0)
        if self.biases is not None:
            # What the pairs asked in both orders say of γ, as part of its prior.
            width, judges = self.pattern.judges, self.observations.sums.shape[1]
            known, sums = np.zeros((2, len(self.observations.sums), width))
            known[:, :judges] = self.observations.sum_weight * self.noise / self.observations.sum_variance
            sums[:, :judges] = -self.observations.sums
            ridge = self.biases.ridge + known.ravel()
            mean = (self.biases.ridge * self.biases.mean + (known * sums).ravel()) / ridge
        square = float(np.sum(self.pull**2 / np.maximum(self.c, np.finfo(float).tiny)))
        return System(self.pattern, self.c, self.pull, ridge, mean, square)

    def settle(self, shared: Shared) -> tuple[_Soft, Variances, int, bool]:
        """Once; γ and saturated answers are found in rounds with the variances."""
        state, limits, censored = self, self.pattern.limits, self.observations.censored[self.pattern.order]
        observations = max(int(np.count_nonzero(self.c > 0)) - int(np.count_nonzero(censored)), 1)
        before = np.array(0.0)
        for step in range(limits.mixed_rounds):
            spectrum = Spectrum.of(state.system, shared.columns)
            variances = estimate(spectrum, shared.kind, observations, False, self.unit)
            state = replace(state, noise=variances.noise(variances.ratio))
            logs = np.log([variances.ratio, state.noise])
            if self.biases is None and not censored.any():
                return state, variances, 1, True
            # Sites of saturated answers move in small steps.
            if np.max(np.abs(logs - before)) < limits.mixed_change / (10 if censored.any() else 1):
                return state, variances, step + 1, True
            before = logs
            solution, spread, between = _solution(state.system, variances, shared)
            if state.biases is not None:
                state = replace(state, biases=state.biases.learn(solution, state.noise))
            if censored.any():
                state = state._censor(*_differences(solution, spread, between), np.flatnonzero(censored))
        return state, variances, limits.mixed_rounds, False

    def _censor(self, mean: Array, variance: Array, rows: NDArray[np.intp]) -> _Soft:
        """The sites of saturated answers (`rows`): the difference is at least what was read."""
        order, noise, c, pull = self.pattern.order, self.noise, self.c.copy(), self.pull.copy()
        mean, variance = mean[rows], variance[rows]
        cavity = 1.0 / np.maximum(1.0 / variance - c[rows], 1e-3 / variance)
        centre = cavity * (mean / variance - pull[rows])
        least, scatter = self.observations.y[order][rows], noise / self.observations.weight[order][rows]
        moments = censored_moments(centre, noise * cavity, least, scatter)
        precision, pulls = sites_from(*moments, centre, noise * cavity)
        c[rows], pull[rows] = noise * precision, noise * pulls
        return replace(self, c=c, pull=pull)

    def bias(self, solution: Solution) -> tuple[Array, float | None, float | None]:
        """γ (C, J), its variance between contexts, and the standard error of its mean."""
        found, n = self.observations, self.pattern.graph.nodes
        contexts, judges = found.sums.shape
        if self.biases is not None:
            bias = solution.x[n:].reshape(contexts, -1)[:, :judges]
            variance = self.noise * bias_variances(solution.laplacian).reshape(contexts, -1)[:, :judges]
            return bias, self.biases.spread(self.noise), float(np.sqrt(np.mean(variance) / contexts))
        if not self.is_biased or not np.any(found.sum_weight):
            return np.zeros((contexts, 0)), None, None
        variance = found.sum_variance / np.maximum(found.sum_weight, np.finfo(float).tiny)
        gamma, between = _shrunk(-found.sums, variance, found.sum_weight > 0)
        total = (variance + (between or 0.0))[found.sum_weight > 0]
        return gamma, between, float(1.0 / np.sqrt(np.sum(1.0 / total)))


def _shrunk(gamma: Array, variance: Array, asked: NDArray[np.bool_]) -> tuple[Array, float | None]:
    """γ (C, J) of each judge shrunk towards its mean, and the variance between contexts; 0 where nothing was asked."""
    gamma, spreads = np.where(asked, gamma, 0.0), []
    for judge in range(gamma.shape[1]):
        own = asked[:, judge]
        if np.count_nonzero(own) > 1:
            centre, between = random_effects(gamma[own, judge], variance[own, judge])
            gamma[own, judge] = centre + (gamma[own, judge] - centre) * between / (between + variance[own, judge])
            spreads.append(between)
    return gamma, float(np.mean(spreads)) if spreads else None


@dataclass(frozen=True)
class _Choices:
    """Choices, whose sites settle with the variances and with γ.

    `p` and `weight` (2, M) are the choices about each pair in both orders, in the pattern's order; `family` (M,) is
    their context and judge, `gamma` (C, J) is γ of each, shrunk by its variance `between`. `dispersion` is the variance
    of shares of votes and of grades relative to a coin's; 1 for decisions.
    """

    pattern: Pattern
    p: Array
    weight: Array
    family: Index
    gamma: Array
    is_biased: bool
    are_counts: bool
    c: Array
    pull: Array
    dispersion: float = 1.0
    between: float | None = None
    error: float | None = None

    @classmethod
    def of(cls, comparisons: Comparisons, graph: Graph, is_biased: bool, limits: Limits) -> _Choices:
        judges = 1 if comparisons.judges is None else len(comparisons.judges)
        p, weight, are_counts = _votes(comparisons)
        pair, _ = pairs(comparisons, graph)
        count = int(pair.max()) + 1
        slot = pair + count * (graph.first > graph.second)
        total = np.bincount(slot, weight, 2 * count).astype(float)
        share = np.bincount(slot, weight * p, 2 * count) / np.maximum(total, np.finfo(float).tiny)
        _, lead = np.unique(pair, return_index=True)
        ends = [edge(graph.first, graph.second)[lead] for edge in (np.minimum, np.maximum)]
        pattern = Pattern(replace(graph, first=ends[0], second=ends[1]), limits=limits)
        order = pattern.order
        p, weight = (part.reshape(2, -1)[:, order] for part in (share, total))
        family = (graph.position[ends[0]] * judges + comparisons.judged_by[lead])[order].astype(np.int32)
        asked = np.sum(weight, axis=0)
        pull = weight[0] * (p[0] - 0.5) - weight[1] * (p[1] - 0.5)
        gamma = np.zeros((graph.contexts, judges))
        found = cls(pattern, p, weight, family, gamma, is_biased, are_counts, asked / 4.0, pull)
        return found._with_biases(np.zeros(len(asked)), np.full(len(asked), 1e-9)) if is_biased else found

    @property
    def system(self) -> System:
        square = float(np.sum(self.pull**2 / np.maximum(self.c, np.finfo(float).tiny)))
        return System(self.pattern, self.c, self.pull, np.zeros(0), np.zeros(0), square)

    def settle(self, shared: Shared) -> tuple[_Choices, Variances, int, bool]:
        """Alternate between sites and variances; a variance that converges slowly is extrapolated."""
        limits, state, last = self.pattern.limits, self, 0
        change = used = np.zeros(1 + len(shared.kinds))
        mean = np.zeros(len(self.c))
        for step in range(limits.mixed_rounds):
            variances = estimate(Spectrum.of(state.system, shared.columns), shared.kind, len(state.c), True)
            new = np.log(np.maximum([variances.ratio, *variances.shared], NARROWEST**2))
            old, change = change, new - used
            ratio = np.clip(np.divide(change, old, out=np.zeros(len(old)), where=old != 0.0), 0.0, FASTEST)
            beyond = np.clip(change * ratio / (1.0 - ratio), -FURTHEST, FURTHEST)
            used = new
            if step > 2 and step - last > 2:
                last, used = step, np.clip(new + beyond, *np.log([NARROWEST**2, WIDEST**2]))
            applied = replace(variances, ratio=float(np.exp(used[0])), shared=np.exp(used[1:]))
            solution, spread, between = _solution(state.system, applied, shared)
            before, (mean, variance) = mean, _differences(solution, spread, between)
            moved = float(np.sqrt(np.mean((mean - before) ** 2)))
            if step > 2 and float(np.max(np.abs(change) + np.abs(beyond))) + moved < limits.mixed_change:
                return state, variances, step + 1, True
            state = state._learn(mean, variance)
        return state, variances, limits.mixed_rounds, False

    def _learn(self, mean: Array, variance: Array) -> _Choices:
        """The next sites, γ and dispersion, from mean and variance of the difference of each pair (M,)."""
        state = self._with_biases(mean, variance) if self.is_biased else self
        if not self.are_counts:
            state = state._with_dispersion(mean, variance)
        cavity = 1.0 / np.maximum(1.0 / variance - self.c, 1e-3 / variance)
        centre = cavity * (mean / variance - self.pull)
        asked = np.any(self.weight > 0, axis=0)
        weight = self.weight / state.dispersion
        moments = choice_moments(centre, cavity, self.p, weight, state.gamma.ravel()[self.family])
        c, pull = sites_from(*moments, centre, cavity)
        return replace(state, c=np.where(asked, c, 0.0), pull=np.where(asked, pull, 0.0))

    def _chances(self, mean: Array, variance: Array) -> Array:
        """P(the item shown first is chosen) in both orders (2, M); a difference of `variance` is less certain."""
        sign, attenuation = np.array([[1.0], [-1.0]]), 1.0 / np.sqrt(1.0 + np.pi * variance / 8.0)
        return np.asarray(expit((sign * mean - self.gamma.ravel()[self.family]) * attenuation))

    def _with_biases(self, mean: Array, variance: Array) -> _Choices:
        """A Newton step for γ of each context and judge, shrunk towards the judge's mean."""
        chance = self._chances(mean, variance)
        curvature = np.sum(self.weight * chance * (1.0 - chance), axis=0)
        excess = np.sum(self.weight * (self.p - chance), axis=0)
        information, total = (np.bincount(self.family, values, self.gamma.size) for values in (curvature, excess))
        information, total = (part.reshape(self.gamma.shape) for part in (information, total))
        known = information > 1e-9
        error = 1.0 / np.where(known, information, 1.0)
        gamma, between = _shrunk(self.gamma - np.clip(total * error, -1.0, 1.0), error, known)
        spread = 1.0 / np.sum(known / (error + (between or 0.0))) if known.any() else np.inf
        return replace(self, gamma=gamma, between=between, error=float(np.sqrt(spread)))

    def _with_dispersion(self, mean: Array, variance: Array) -> _Choices:
        """X² / degrees of freedom of the shares of votes, or of the grades."""
        chance, asked = self._chances(mean, variance), self.weight > 0
        flips = np.maximum(chance * (1.0 - chance), LEAST_FLIPS)
        freedom = float(np.sum(asked) - np.sum(np.minimum(self.c * variance, 1.0)))
        squares = float(np.sum(self.weight * (self.p - chance) ** 2 / flips))
        return replace(self, dispersion=(1.0 + squares) / (1.0 + max(freedom, 0.0)))

    def bias(self, solution: Solution) -> tuple[Array, float | None, float | None]:
        """γ (C, J), its variance between contexts, and the standard error of its mean."""
        return (self.gamma, self.between, self.error) if self.is_biased else (self.gamma[:, :0], None, None)


def _votes(comparisons: Comparisons) -> tuple[Array, Array, bool]:
    """Share of votes, number of votes, and whether the answers are plain counts, so that their variance is known.

    A share (a + ½)/(n + 1) of weight n, as the judges of comparo report a of n votes, becomes a/n.
    """
    p, weight = comparisons.p, comparisons.weights
    if comparisons.hard:
        return p, weight, True
    votes = p * (weight + 1.0) - 0.5
    counted = (weight >= 1) & (np.abs(votes - np.round(votes)) < 1e-6) & (np.abs(weight - np.round(weight)) < 1e-6)
    if not counted.all():
        return p, weight, False
    return np.clip(np.round(votes) / weight, 0.0, 1.0), weight, True


def _solution(system: System, variances: Variances, shared: Shared) -> tuple[Solution, Array, Array]:
    """Scores and biases at the best variances, with F = λ·H⁻¹QM (n + C·J, M) and Cov(θ)/φ (M, M)."""
    ridge = 1.0 / variances.ratio
    between, theta = variances.precision(variances.ratio)
    laplacian = system.laplacian(ridge)
    columns = np.zeros((system.pattern.unknowns, shared.columns.shape[1]))
    columns[: system.nodes] = ridge * shared.columns
    rhs = np.column_stack([system.rhs, columns])
    found = laplacian.solve(rhs)
    spread = found[:, 1:]
    return Solution(found[:, 0] + spread @ theta, laplacian, 1, True), spread, between


def _differences(solution: Solution, spread: Array, between: Array) -> tuple[Array, Array]:
    """Mean and variance (before φ) of d of every observation, in the pattern's order."""
    pattern, x = solution.laplacian.pattern, solution.x

    def apart(values: Array) -> Array:
        found = values[pattern.first] - values[pattern.second]
        return np.asarray(found - values[pattern.bias_index] if pattern.judges else found)

    variance = difference_variances(solution.laplacian)
    if spread.shape[1]:
        columns = apart(spread)
        variance = variance + np.sum((columns @ between) * columns, axis=1)
    return apart(x), np.maximum(variance, np.finfo(float).tiny)


def _averaged(system: System, variances: Variances, shared: Shared) -> tuple[Array, Effects, Solution]:
    """Scores averaged over the quantiles of σ²/φ, the effects, and the solution with the mean covariance.

    The scatter of the averaged scores is part of their covariance. Where φ is estimated, the covariance is that of a
    normal distribution with the same central 95% as Student's t.
    """
    n, kind = system.nodes, shared.kind
    scores, noises, sizes = [], [], []
    spectrum = variances.spectrum
    for a in variances.quantiles.tolist():
        _, theta = variances.precision(a)
        scores.append(system.solve(1.0 / a, shared.columns @ theta)[:n])
        noises.append(variances.noise(a))
        sizes.append(noises[-1] * _size(spectrum, a))
    noise, mean = float(np.mean(noises)), np.mean(scores, axis=0)
    low, high = np.log(variances.quantiles[0]), np.log(variances.quantiles[-1])
    for _ in range(50):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if noise * _size(spectrum, np.exp(middle)) < np.mean(sizes) else (low, middle)
    a = float(np.exp(0.5 * (low + high)))
    _, theta = variances.precision(a)
    solution, spread, between = _solution(system, replace(variances, ratio=a), shared)
    spread = spread[:n]
    heavy = 1.0 if variances.has_known_noise else float(stdtrit(max(variances.observations, 2), 0.975) / ndtri(0.975))
    dispersion = noise * heavy**2
    scatter = (np.array(scores) - mean).T
    if scatter.shape[1] > 1:
        spread = np.column_stack([spread, scatter])
        corner = np.eye(scatter.shape[1]) / (scatter.shape[1] * dispersion)
        between = np.block(
            [[between, np.zeros((len(theta), len(corner)))], [np.zeros((len(corner), len(theta))), corner]]
        )
    found = dict(zip(shared.kinds, (variances.shared * noise).tolist(), strict=True))
    effects = Effects(dispersion, a * noise, noise, **found)
    if spread.shape[1]:
        effects = replace(effects, spread=spread, between=between)
    if shared.kinds:
        effects = replace(effects, mean=shared.columns @ theta, columns=shared.columns, group=shared.group)
    if "groups" in shared.kinds:
        effects = replace(effects, means=theta[kind == shared.kinds.index("groups")])
    return mean, effects, solution


def _size(spectrum: Spectrum, a: float) -> float:
    """Σ 1/(q + 1/a): the variance of all scores before φ."""
    return float(np.sum(spectrum.trace_weight * a / (1.0 + a * spectrum.trace_q)))
