"""Soft answers in the mixed model: Gaussian observations of differences in logits.

The fit is exact given the variances, except for γ where it does not cancel, and for saturated answers, which only bound
a difference. Both are updated in turn with the variances.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc, fdtr, fdtrc

from comparo.data.comparisons import Comparisons
from comparo.model.design import Shared
from comparo.model.inference.ep import settle, sites_from, without_site
from comparo.model.inference.newton import Maximum
from comparo.model.inference.position import Biases, leaked_share, winners_first
from comparo.model.inference.random_effects import differences, shrunk, solve
from comparo.model.inference.reml import LEAST_NOISE, Variances, estimate
from comparo.model.likelihoods import Expert
from comparo.model.likelihoods.bradley_terry import BradleyTerry
from comparo.model.likelihoods.gaussian import Gaussian, Linear, censored_moments
from comparo.model.linalg.graph import Graph, Pattern
from comparo.model.linalg.spectrum import Spectrum, System
from comparo.model.observations import Observations, are_choices, logits, observe
from comparo.model.tuning import CLEARLY, LIMITS, SLOTS, SURELY, TWICE, Limits
from comparo.rounding import TINY
from comparo.types import Array, Mask

FREE = 4  # first rounds, in which sums once rejected by `sums_are_noise` may be accepted again
DAMPING = 0.5  # factor on the step of the noise after a change of its sign, against oscillation


@dataclass(frozen=True)
class Soft:
    """The observations of differences with their precisions `c` and pulls `pull` (M,), and the prior of the biases.

    `noise` is φ. Saturated answers add `known` observations and `excess` squares to its estimate (`_censor`).
    `leaked_share` is the share of the residual variance that reaches the scores (`position.leaked_share`).
    """

    observations: Observations
    pattern: Pattern
    biases: Biases | None
    c: Array
    pull: Array
    unit: float
    is_biased: bool
    noise: float = 1.0
    known: float = 0.0
    excess: float = 0.0
    leaked_share: float = 1.0

    @classmethod
    def of(cls, comparisons: Comparisons, graph: Graph, expert: Expert, is_biased: bool, limits: Limits) -> Soft:
        left_out = winners_first(comparisons, comparisons.positions)
        is_biased = is_biased and not left_out.all()
        if isinstance(expert, Gaussian):
            y, saturated = expert.mean(comparisons.p), np.zeros(len(comparisons), dtype=bool)
        else:
            y, saturated = logits(comparisons.p)
        if not is_biased:  # then the order of two texts says nothing
            y = np.where(graph.first > graph.second, -y, y)
            low, high = (edge(graph.first, graph.second) for edge in (np.minimum, np.maximum))
            graph = replace(graph, first=low, second=high)
        found = observe(comparisons.relative(), graph, y, saturated)
        graph = replace(graph, first=found.first, second=found.second)
        has_bias = is_biased and bool(np.any(found.judge < found.sums.shape[1]))  # else γ cancels
        pattern = Pattern(graph, found.judge if has_bias else None, limits)
        order = pattern.order
        # The last effect: observations in which γ cancels; judges without answers have no effect either.
        is_zero = np.append(left_out, np.ones(pattern.judges, dtype=bool))[: pattern.judges]
        unit = expert.mean.alpha / 4.0 if isinstance(expert, Gaussian) and isinstance(expert.mean, Linear) else 1.0
        biases = Biases.of(pattern, np.zeros(pattern.judges), is_zero, (SLOTS * unit) ** 2) if has_bias else None
        c = found.weight[order]
        noise = found.sum_variance if np.any(found.sum_weight) else 1.0
        return cls(found, pattern, biases, c, c * found.y[order], abs(unit), is_biased, noise)

    @classmethod
    def of_any(cls, comparisons: Comparisons, limits: Limits = LIMITS) -> Soft:
        """Observe logits of soft answers, or p − ½ of choices, because logits of 0 and 1 are infinite."""
        decided = are_choices(comparisons)
        expert = Gaussian() if decided else BradleyTerry()
        return cls.of(comparisons, Graph.build(comparisons), expert, True, limits)

    @property
    def system(self) -> System:
        ridge = mean = np.zeros(0)
        if self.biases is not None:
            # The estimates of γ from pairs asked in both orders enter as part of its prior.
            width, judges = self.pattern.judges, self.observations.sums.shape[1]
            known, sums = np.zeros((2, len(self.observations.sums), width))
            known[:, :judges] = self.observations.sum_weight[:, :width] * self.noise / self.observations.sum_variance
            sums[:, :judges] = -self.observations.sums[:, :width]
            biases = self.biases.at(self.noise)
            ridge = biases.ridge + known.ravel()
            mean = (biases.ridge * biases.mean + (known * sums).ravel()) / ridge
        return System(self.pattern, self.c, self.pull, ridge, mean)

    @cached_property
    def censored(self) -> Mask:
        """Which answers are saturated, in the pattern's order (M,)."""
        return np.asarray(self.observations.bound[self.pattern.order] != 0)

    @property
    def count(self) -> float:
        """The effective number of observations that are not saturated."""
        return self.effective_count(~self.censored)

    def effective_count(self, used: Mask) -> float:
        """The number of observations in `used` (M,), less Σ c / (Σ c + ridge) for each γ."""
        used, taken = used & (self.c > 0), 0.0
        freedom = self.observations.freedom[self.pattern.order]
        if self.biases is not None:
            known = np.bincount(self.pattern.bias_index[used], self.c[used], self.pattern.unknowns)
            known = known[self.pattern.graph.nodes :]
            each = np.append(self.observations.position_freedom, 1.0)[: self.pattern.judges]
            taken = float(np.sum(np.tile(each, self.pattern.graph.contexts) * known / (known + self.system.ridge)))
        return max(np.sum(freedom[used]) - taken, 1.0)

    @cached_property
    def has_lineups(self) -> bool:
        """Whether some answers are about more than two texts: their rows are dependent, and slots balanced."""
        return bool(np.any(self.observations.freedom < 1.0))

    @property
    def _noise_share(self) -> float:
        """The largest share of the precision of a γ that depends on φ: 0 where γ cancels, 1 where γ share a prior."""
        if self.biases is None:
            return 0.0
        if self.biases.shared.any():
            return 1.0
        width, judges = self.pattern.judges, self.observations.sums.shape[1]
        alone = np.bincount(self.pattern.bias_index, self.c, self.pattern.unknowns)[self.pattern.graph.nodes :]
        both = self.observations.sum_weight[:, :width] + self.noise / self.biases.usual
        return float(np.max(both / np.maximum(both + alone.reshape(-1, width)[:, :judges], TINY)))

    def settle(self, shared: Shared) -> tuple[Soft, Variances, bool]:
        """Estimate the variances, in rounds with γ and the sites of saturated answers where there are any."""
        limits, censored = self.pattern.limits, self.censored
        in_one_order = self.is_biased and not np.any(self.observations.sum_weight) and not self.has_lineups
        start = replace(self, leaked_share=leaked_share(self.system, ~censored)) if in_one_order else self
        before, change, rate, has_sums = np.array(0.0), 0.0, 1.0, True
        share = 1.0 if censored.any() else self._noise_share

        def solved(state: Soft, number: int) -> tuple[Soft, Variances, float]:
            nonlocal before, change, rate, has_sums
            spectrum, found = Spectrum.of(state.system, shared.columns), self.observations
            spectrum = replace(spectrum, square=spectrum.square + state.excess)
            count = state.count + state.known
            if state.leaked_share < 1.0:
                left = spectrum.square - np.sum(spectrum.beta**2 / spectrum.q)
                spectrum = replace(spectrum, square=spectrum.square - (1.0 - state.leaked_share) * left)
            variances = estimate(spectrum, shared.kind, count, False, self.unit)
            has_sums = (has_sums or number < FREE) and state.sums_are_noise(variances.noise(variances.ratio))
            if has_sums:
                spectrum = replace(spectrum, square=spectrum.square + found.sum_variance * found.sum_freedom)
                variances = estimate(spectrum, shared.kind, count + found.sum_freedom, False, self.unit)
            used, new, last = state.noise, variances.noise(variances.ratio), change
            change = float(np.log(new / used))
            # The test of the sums and biases in one order can make the noise oscillate between two values.
            rate *= DAMPING if change * last < 0 else 1.0
            state = replace(state, noise=float(used * (new / used) ** rate))
            logs = np.log([variances.ratio, state.noise])
            # Sites of saturated answers move in small steps.
            moved = np.max(np.abs(logs - before)) * (10 if censored.any() else 1)
            before = logs
            if number > 0 or state.biases is None or not state.biases.shared.any():
                moved = min(moved, share * abs(change))  # the part of the system that depends on the noise
            return state, variances, moved

        def learn(state: Soft, variances: Variances, _: int) -> Soft:
            solution, spread, between = solve(state.system, variances, shared)
            if state.biases is not None and state.biases.shared.any():
                state = replace(state, biases=state.biases.learn(solution, state.noise))
            if censored.any():
                state = state._censor(*differences(solution, spread, between), np.flatnonzero(censored))
            return state

        return settle(start, solved, learn, limits.mixed_change, limits.mixed_rounds)

    def sums_are_noise(self, noise: float, surely: float = CLEARLY, most: float = TWICE) -> bool:
        """Whether the variance of the sums of the answers in both orders agrees with `noise`, by a two-sided F-test.

        The ratio of the two variances is F-distributed with f and f′ = M − (n − components) degrees of freedom; it must
        be within the quantiles 1 − `surely` and `surely`, and below `most`. A larger ratio shows position effects of
        single texts; a smaller one shows that the two answers are not independent, as in files with p and 1 − p. In
        both cases the sums do not estimate the noise.
        """
        found, graph = self.observations, self.pattern.graph
        if found.sum_square <= LEAST_NOISE * found.sum_freedom or self.censored.any():
            return False
        freedom = max(self.count - (graph.nodes - graph.components), 1)
        ratio = found.sum_variance / noise
        share = fdtr(found.sum_freedom, freedom, ratio)
        return bool(1.0 - surely < share < surely and ratio < most)

    def _censor(self, mean: Array, variance: Array, rows: NDArray[np.intp]) -> Soft:
        """Update the sites of the saturated answers `rows`, whose difference is at least y, or at most y.

        φ is where the derivative of log Z is 0. The residuals and leverages of the sites are no part of that equation,
        and are counted as observations. With Z = Φ(z), z = (m − y)/√(v + t), m and v of the cavity, and t = φ/w, it
        adds t·z·n(z)/Φ(z)/(v + t) observations, or where z < 0, as many φ to the squares.
        """
        found, order, noise = self.observations, self.pattern.order, self.noise
        c, pull = self.c.copy(), self.pull.copy()
        centre, cavity = without_site(mean[rows], variance[rows], c[rows], pull[rows])
        side, y, weight = (part[order][rows] for part in (found.bound, found.y, found.weight))
        centre, cavity, least, scatter = side * centre, noise * cavity, side * y, noise / weight
        moments = censored_moments(centre, cavity, least, scatter)
        gain = scatter * (moments[0] - centre) / cavity * (centre - least) / (cavity + scatter)
        left = (pull - c * mean)[rows] ** 2 / c[rows] / noise
        known = float(np.sum(c[rows] * variance[rows] + left + np.maximum(gain, 0.0)))
        excess = noise * float(np.sum(np.maximum(-gain, 0.0)))
        precision, pulls = sites_from(*moments, centre, cavity)
        c[rows], pull[rows] = noise * precision, noise * side * pulls
        return replace(self, c=c, pull=pull, known=known, excess=excess)

    def bias(self, solution: Maximum) -> tuple[Array, float | None, float | None]:
        """γ (C, J), its variance between contexts, and the standard error of its mean."""
        found, n = self.observations, self.pattern.graph.nodes
        contexts, judges = found.sums.shape
        if self.biases is not None:
            bias = solution.x[n:].reshape(contexts, -1)[:, :judges]
            return bias, self.biases.spread(self.noise), self.biases.error(solution, self.noise)
        if not self.is_biased or not np.any(found.sum_weight):
            return np.zeros((contexts, 0)), None, None
        variance = found.sum_variance / np.maximum(found.sum_weight, TINY)
        gamma, between = shrunk(-found.sums, variance, found.sum_weight > 0)
        total = (variance + (between or 0.0))[found.sum_weight > 0]
        return gamma, between, float(1.0 / np.sqrt(np.sum(1.0 / total)))


def equality(comparisons: Comparisons, limits: Limits = LIMITS) -> float:
    """The p-value of the hypothesis that all candidates of a component have the same score.

    E = Σ β²/q is the sum of squares explained by scores, r = rank L, and R = Σ c·y² − E the residual with ν degrees of
    freedom. Sums of the answers in both orders are added to R and ν where they are noise. The test statistic is

        F = (E/r) / (R/ν)  (F-test) for soft answers,    χ²_r = E / ((E + R)/(r + ν))  (score test) for choices,

    whose noise is known under the hypothesis. Where the graph has no cycles, scores fit any answers, and p is 1.

    >>> rows = [("a", "b", 0.8), ("b", "c", 0.71), ("c", "a", 0.09), ("a", "d", 0.3), ("b", "d", 0.12)]
    >>> turned = [(second, first, 0.98 - p) for first, second, p in rows]
    >>> round(equality(Comparisons.from_rows(rows + turned)), 3), equality(Comparisons.from_rows(rows[:2]))
    (0.0, 1.0)
    """
    model = Soft.of_any(comparisons, limits)
    spectrum = Spectrum.of(model.system, np.zeros((model.system.nodes, 0)))
    explained, rank = float(np.sum(spectrum.beta**2 / spectrum.q)), float(np.sum(spectrum.trace_weight))
    freedom = model.effective_count(np.ones(len(model.c), dtype=bool)) - rank
    if min(freedom, rank) < 0.5:  # neither is exactly whole: rounding, prior of γ
        return 1.0
    left, found = max(spectrum.square - explained, LEAST_NOISE * freedom), model.observations
    if model.sums_are_noise(left / freedom, SURELY, np.inf):
        freedom, left = freedom + found.sum_freedom, left + found.sum_variance * found.sum_freedom
    if are_choices(comparisons):
        return float(chdtrc(rank, explained / (explained + left) * (rank + freedom)))
    return float(fdtrc(rank, freedom, explained / rank / (left / freedom)))
