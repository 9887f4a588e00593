"""Soft answers in the mixed model: observations of differences in logits, exact but for three things.

γ, where it does not cancel, and saturated answers, which only say that a difference is large, are found in rounds with
the variances. Where the answers show heavy tails, their sites are found in further rounds (`tails`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from comparo.data.comparisons import Comparisons
from comparo.model.edges import difference_variances
from comparo.model.effects import shrunk
from comparo.model.experts import Expert, Gaussian, Linear
from comparo.model.graph import Graph
from comparo.model.limits import Limits
from comparo.model.newton import Solution
from comparo.model.observations import Observations, logits, observe
from comparo.model.pattern import Pattern
from comparo.model.position import Biases
from comparo.model.reach import CLEARLY, reach
from comparo.model.shared import Shared, apart, differences, solve
from comparo.model.sites import censored_moments, sites_from, without_site
from comparo.model.spectrum import Spectrum, System
from comparo.model.tails import FREEDOMS, SUSPECT, Cavities, suspect
from comparo.model.variances import Variances, estimate
from comparo.types import Array

FREE = 4  # rounds in which the freedom may change
DAMPING = 0.5  # share of the way to new sites: answers far from all others would otherwise swing
TWICE = 2.0  # the most by which sums that are taken for noise vary more: errors are then at most √2 times too wide
MANY = 8  # observations per candidate from which a residual is noise by 3/4: its share is 1 − n/M


@dataclass(frozen=True)
class Soft:
    """Observations of differences; only γ, where it does not cancel, saturated answers and heavy tails need rounds.

    `noise` is φ, and `freedom` that of Student's t, infinite for normal noise. `reach` is the share of what is left of
    the answers that reaches the scores (`comparo.model.reach`).
    """

    observations: Observations
    pattern: Pattern
    biases: Biases | None
    c: Array
    pull: Array
    unit: float
    is_biased: bool
    noise: float = 1.0
    freedom: float = np.inf
    reach: float = 1.0

    @classmethod
    def of(cls, comparisons: Comparisons, graph: Graph, expert: Expert, is_biased: bool, limits: Limits) -> Soft:
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
        noise = found.sum_variance if np.any(found.sum_weight) else 1.0
        return cls(found, pattern, biases, c, c * found.y[order], abs(unit), is_biased, noise)

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
        return System(self.pattern, self.c, self.pull, ridge, mean)

    @cached_property
    def censored(self) -> NDArray[np.bool_]:
        """Which answers are saturated, in the pattern's order (M,)."""
        return self.observations.censored[self.pattern.order]

    @property
    def count(self) -> int:
        """The number of observations that tell the noise."""
        return max(int(np.count_nonzero((self.c > 0) & ~self.censored)), 1)

    @property
    def _noise_share(self) -> float:
        """The largest part of what is known of a γ that depends on the noise; 0 where γ cancels, 1 if γ are shared."""
        if self.biases is None:
            return 0.0
        if self.biases.shared.any():
            return 1.0
        width, judges = self.pattern.judges, self.observations.sums.shape[1]
        alone = np.bincount(self.pattern.bias_index, self.c, self.pattern.unknowns)[self.pattern.graph.nodes :]
        both = self.observations.sum_weight
        return float(np.max(both / np.maximum(both + alone.reshape(-1, width)[:, :judges], np.finfo(float).tiny)))

    def settle(self, shared: Shared) -> tuple[Soft, Variances, int, bool]:
        """With normal noise, unless the answers have heavier tails, whose sites settle."""
        state, variances, steps, converged = self._settle_normal(shared)
        if state._has_tails(variances, shared):
            heavy = state._settle_tails(variances, shared)
            if heavy[-1]:
                return heavy
        return state, variances, steps, converged

    def _settle_normal(self, shared: Shared) -> tuple[Soft, Variances, int, bool]:
        """Once; γ and saturated answers are found in rounds with the variances."""
        limits, censored, observations = self.pattern.limits, self.censored, self.count
        in_one_order = self.is_biased and not np.any(self.observations.sum_weight)
        state = replace(self, reach=reach(self.system, ~censored)) if in_one_order else self
        before = np.array(0.0)
        share = 1.0 if censored.any() else self._noise_share
        for step in range(limits.mixed_rounds):
            spectrum = Spectrum.of(state.system, shared.columns)
            if state.reach < 1.0:
                left = spectrum.square - float(np.sum(spectrum.beta**2 / spectrum.q))
                spectrum = replace(spectrum, square=spectrum.square - (1.0 - state.reach) * left)
            variances = estimate(spectrum, shared.kind, observations, False, self.unit)
            if state._sums_are_noise(variances):
                found = self.observations
                spectrum = replace(spectrum, square=spectrum.square + found.sum_variance * found.sum_freedom)
                variances = estimate(spectrum, shared.kind, observations + found.sum_freedom, False, self.unit)
            used, state = state.noise, replace(state, noise=variances.noise(variances.ratio))
            logs = np.log([variances.ratio, state.noise])
            learnt = step > 0 or state.biases is None or not state.biases.shared.any()
            if learnt and share * abs(np.log(state.noise / used)) < limits.mixed_change:  # the system stays the same
                return state, variances, step + 1, True
            # Sites of saturated answers move in small steps.
            if np.max(np.abs(logs - before)) < limits.mixed_change / (10 if censored.any() else 1):
                return state, variances, step + 1, True
            before = logs
            solution, spread, between = solve(state.system, variances, shared)
            if state.biases is not None and state.biases.shared.any():
                state = replace(state, biases=state.biases.learn(solution, state.noise))
            if censored.any():
                state = state._censor(*differences(solution, spread, between), np.flatnonzero(censored))
        return state, variances, limits.mixed_rounds, False

    def _sums_are_noise(self, variances: Variances) -> bool:
        """Whether the sums of the answers in both orders vary as noise makes them vary, by a test of either side.

        log of the ratio of two variances has about the variance 2/f + 2/f′, f′ = M − (n − components) for φ. Where the
        sums vary more, the position of single texts has an effect; where they vary less, the two answers about a pair
        are not two observations, as in files with p and 1 − p. In both cases the sums do not tell the noise.
        """
        found, graph = self.observations, self.pattern.graph
        if found.sum_freedom < 1 or self.censored.any():
            return False
        freedom = max(self.count - (graph.nodes - graph.components), 1)
        error = ndtri(CLEARLY) * np.sqrt(2.0 / found.sum_freedom + 2.0 / freedom)
        ratio = np.log(found.sum_variance / variances.noise(variances.ratio))
        return bool(-error < ratio < min(error, np.log(TWICE)))

    def _has_tails(self, variances: Variances, shared: Shared) -> bool:
        """Whether the noise has heavy tails; the uncertainty of what candidates share is left out of the cavities."""
        system, ridge = self.system, 1.0 / variances.ratio
        laplacian, rhs = system.laplacian(ridge), system.rhs
        rhs[: system.nodes] += ridge * (shared.columns @ variances.precision(variances.ratio)[1])
        mean = apart(self.pattern, laplacian.solve(rhs, accuracy=1e-6))
        rows, order = ~self.censored, self.pattern.order
        if np.count_nonzero(rows) > MANY * system.nodes:  # residuals are nearly noise: the test needs no variances
            left = (self.observations.y[order] - mean) * np.sqrt(self.observations.weight[order])
            if not suspect(left[rows] / np.std(left[rows]), np.ones(np.count_nonzero(rows)), SUSPECT / 2):
                return False
        cavities = self._cavities(mean, np.maximum(difference_variances(laplacian), np.finfo(float).tiny))
        return cavities.are_heavy(self.noise / self.reach)

    def _settle_tails(self, variances: Variances, shared: Shared) -> tuple[Soft, Variances, int, bool]:
        """In rounds with the sites of heavy tails, from normal noise."""
        limits, state, before = self.pattern.limits, self, np.zeros(2)
        cavities = state._cavities(*differences(*solve(state.system, variances, shared)))
        for step in range(limits.mixed_rounds):
            freedoms = FREEDOMS if step < FREE else (state.freedom,)
            noise, freedom, _ = cavities.best(state.noise / state.reach, freedoms)
            state = state._with_sites(cavities, noise, freedom)
            variances = estimate(
                Spectrum.of(state.system, shared.columns), shared.kind, self.count, True, self.unit, noise
            )
            solution, spread, between = solve(state.system, variances, shared)
            apart_by = differences(solution, spread, between)
            if state.biases is not None:
                state = replace(state, biases=state.biases.learn(solution, noise))
            if self.censored.any():
                state = state._censor(*apart_by, np.flatnonzero(self.censored))
            cavities = state._cavities(*apart_by)
            logs = np.log([variances.ratio * noise, noise])
            if step >= FREE and np.max(np.abs(logs - before)) < limits.mixed_change:
                break
            before = logs
        return state, variances, step + 1, step + 1 < limits.mixed_rounds

    def _cavities(self, mean: Array, variance: Array) -> Cavities:
        """The answers that are neither saturated nor without weight, with what all others say of them."""
        rows, order = (self.c > 0) & ~self.censored, self.pattern.order
        centre, cavity = without_site(mean[rows], variance[rows], self.c[rows], self.pull[rows])
        y, weight = self.observations.y[order][rows], self.observations.weight[order][rows]
        context = self.pattern.context[self.pattern.first[rows]]
        return Cavities(centre, self.noise * cavity, y, weight, context, self.pattern.limits.chunk)

    def _with_sites(self, cavities: Cavities, noise: float, freedom: float) -> Soft:
        """The next sites, half of the way from these, for φ and ν; site precisions are in units of 1/φ."""
        rows, c, pull = (self.c > 0) & ~self.censored, self.c.copy(), self.pull.copy()
        mean, variance = cavities.moments(noise, freedom)
        precision, pulls = sites_from(mean, variance, cavities.mean, cavities.variance)
        change = noise / self.noise
        c, pull = c * change, pull * change
        c[rows] += DAMPING * (noise * precision - c[rows])
        pull[rows] += DAMPING * (noise * pulls - pull[rows])
        return replace(self, c=c, pull=pull, noise=noise, freedom=freedom, reach=1.0)

    def _censor(self, mean: Array, variance: Array, rows: NDArray[np.intp]) -> Soft:
        """The sites of saturated answers (`rows`): the difference is at least what was read."""
        order, noise, c, pull = self.pattern.order, self.noise, self.c.copy(), self.pull.copy()
        centre, cavity = without_site(mean[rows], variance[rows], c[rows], pull[rows])
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
            return bias, self.biases.spread(self.noise), self.biases.error(solution, self.noise)
        if not self.is_biased or not np.any(found.sum_weight):
            return np.zeros((contexts, 0)), None, None
        variance = found.sum_variance / np.maximum(found.sum_weight, np.finfo(float).tiny)
        gamma, between = shrunk(-found.sums, variance, found.sum_weight > 0)
        total = (variance + (between or 0.0))[found.sum_weight > 0]
        return gamma, between, float(1.0 / np.sqrt(np.sum(1.0 / total)))
