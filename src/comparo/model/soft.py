"""Soft answers in the mixed model: observations of differences in logits, exact but for two things.

γ, where it does not cancel, and saturated answers, which only say that a difference is large, are found in rounds with
the variances.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from comparo.data.comparisons import Comparisons
from comparo.model.effects import shrunk
from comparo.model.experts import Expert, Gaussian, Linear
from comparo.model.graph import Graph
from comparo.model.limits import Limits
from comparo.model.newton import Solution
from comparo.model.observations import Observations, logits, observe
from comparo.model.pattern import Pattern
from comparo.model.position import Biases
from comparo.model.shared import Shared, differences, solve
from comparo.model.sites import censored_moments, sites_from, without_site
from comparo.model.spectrum import Spectrum, System
from comparo.model.variances import Variances, estimate
from comparo.types import Array


@dataclass(frozen=True)
class Soft:
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
        return System(self.pattern, self.c, self.pull, ridge, mean)

    def settle(self, shared: Shared) -> tuple[Soft, Variances, int, bool]:
        """Once; γ and saturated answers are found in rounds with the variances."""
        state, limits, censored = self, self.pattern.limits, self.observations.censored[self.pattern.order]
        observations = max(int(np.count_nonzero(self.c > 0)) - int(np.count_nonzero(censored)), 1)
        before = np.array(0.0)
        is_settled = not censored.any() and (
            self.biases is None or not (self.biases.shared.any() or np.any(self.observations.sum_weight))
        )
        for step in range(limits.mixed_rounds):
            spectrum = Spectrum.of(state.system, shared.columns)
            variances = estimate(spectrum, shared.kind, observations, False, self.unit)
            state = replace(state, noise=variances.noise(variances.ratio))
            logs = np.log([variances.ratio, state.noise])
            if is_settled:  # nothing else depends on the variances
                return state, variances, 1, True
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
