"""Choices in the mixed model: decisions, ties and votes, whose sites are updated in turn with the variances and γ.

A judge whose answers are decisions and ties has Davidson's likelihood. Its ν is updated with the sites: at a fixed
point of expectation propagation, the evidence is stationary in ν where Σ P(tie) is the number of ties. A share of votes
does not determine the number of ties; p = ½ is then half a win.

The prior of a score is wider the further its style predicts it from the mean. A sure judge decides all choices about an
extreme text the same way, so that they cannot correct a wrong prediction. Predictions are least certain there, because
features saturate: the share p of some kind of word among N words has a logit η with the variance
1/(N·p(1 − p)) ∝ cosh²(η/2) = 1 + η²/4 + …. With m_i the prediction of candidate i by its style,

    s_i ~ N(m_i + …, σ²·h_i),    h_i = 1 + m_i²/(v + π²/(3k)),

with v the variance of all scores (σ² plus that of the predictions), k the mean number of choices about a candidate, and
π²/(3k) the variance of their noise. Where style explains little, h is about 1. σ² is estimated with h = 1 and not
updated: h only widens priors. Its slope, 1 for each m²/v, was chosen by simulated judges with and without saturating
style (docs/fitting.md).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from comparo.data.comparisons import Comparisons
from comparo.data.lineups import luce_excess, luce_weights
from comparo.model.design import Shared
from comparo.model.inference.ep import distance, settle, sites_from, without_site
from comparo.model.inference.newton import Solution
from comparo.model.inference.position import information_share, slot_effects
from comparo.model.inference.random_effects import differences, random_effects, shrunk, solve
from comparo.model.inference.reml import Variances, estimate
from comparo.model.inference.soft import Soft
from comparo.model.likelihoods.bradley_terry import (
    LOGISTIC,
    BradleyTerry,
    PairChoices,
    attenuation,
    averaged_moments,
    choice_evidence,
    choice_moments,
    first_parameters,
    next_parameters,
    tie_totals,
)
from comparo.model.linalg.graph import Graph, Pattern
from comparo.model.linalg.spectrum import Spectrum, System
from comparo.model.observations import JudgedPairs, are_choices, votes_of
from comparo.model.tuning import NARROWEST, PULL, UNSURE, WIDEST, Limits
from comparo.rounding import TINY
from comparo.types import Array, Index

FREE, DAMPED = 20, 0.5  # rounds without damping, and the damped share of a step: slow sites mostly oscillate
FASTEST = 0.9  # largest ratio of two changes of a variance from which its limit is extrapolated
FURTHEST = 1.5  # largest extrapolation of the logarithm of a variance
LONGEST = 4.0  # longest step of a γ: from even odds to 0.98; a context with a dozen choices often needs 2

_Solved = tuple[Variances, tuple[Solution, Array, Array], Array, Array]


@dataclass(frozen=True)
class Choices:
    """The choices about M pairs, their sites `c` and `pull` (M,), and γ.

    `p` and `weight` (2, M) are the choices about each pair in both orders, in the pattern's order. `family` (M,) is the
    code of their context and judge. `gamma` (C, J) is γ, shrunk according to its variance `between` contexts, and
    `gamma_variance` (C, J) its variance, None without γ. `information_share` (C, J) is the Fisher information about γ
    given unknown scores, relative to known scores. `offset` (M,) is added to the score difference of each pair, 0
    unless scores have two peaks (`mixture`). `tied` (J,) is the weight of each judge's ties, and `nu` (J,) its ν; both
    are 0 where no decision is a tie. `strength` is the `pull` of `reml.estimate`, None for line-ups. `is_narrow`
    fixes the variance of scores around their groups at its smallest, so that group means are logits of win rates.
    `inflation` is that of the `system`. `slots` (J, 4) are `Comparisons.slots`. For choices among several texts,
    `lineup` (M,) are `lineups.ROWS`, and `whole` (2, M) the weights if all texts were equal, from which `luce_weights`
    computes `weight`.
    """

    pattern: Pattern
    p: Array
    weight: Array
    family: Index
    gamma: Array
    is_biased: bool
    c: Array
    pull: Array
    offset: Array
    tied: Array
    nu: Array
    between: float | None = None
    error: float | None = None
    gamma_variance: Array | None = None
    information_share: Array | float = 1.0
    strength: float | None = PULL
    is_narrow: bool = False
    inflation: Array | float = 1.0
    slots: Index = field(default_factory=lambda: np.zeros((0, 4), dtype=np.int32))
    lineup: NDArray[Any] | None = None
    whole: Array | None = None

    @classmethod
    def of(cls, comparisons: Comparisons, graph: Graph, is_biased: bool, limits: Limits) -> Choices:
        judges = len(comparisons.slots)
        votes = votes_of(comparisons)
        p, weight = (comparisons.p, comparisons.weights) if votes is None else votes
        pairs = JudgedPairs.of(comparisons, graph)
        pattern = Pattern(replace(graph, first=pairs.low, second=pairs.high), limits=limits)
        lead = pairs.row[pattern.order]
        won, weight = (pairs.total(of)[pattern.order].T for of in (weight * p, weight))
        p = won / np.maximum(weight, TINY)
        family = (graph.position[pattern.first] * judges + comparisons.positions[lead]).astype(np.int32)
        asked, zero = np.sum(weight, axis=0), np.zeros(weight.shape[1])
        lineup = None if comparisons.lineup is None else comparisons.lineup[lead]
        tied = nu = np.zeros(judges)
        if comparisons.hard:
            tied, answers = tie_totals(comparisons.p, comparisons.weights, comparisons.positions, judges)
            nu = first_parameters(tied, answers)
        found = cls(
            pattern,
            p,
            weight,
            family,
            gamma=np.zeros((graph.contexts, judges)),
            is_biased=is_biased,
            c=asked / 4.0,
            pull=weight[0] * (p[0] - 0.5) - weight[1] * (p[1] - 0.5),
            offset=zero,
            tied=tied,
            nu=nu,
            strength=PULL if lineup is None else None,
            slots=comparisons.slots,
            lineup=lineup,
            whole=weight,
        )
        if not is_biased:
            return found
        if not found.determines_biases:
            return found.with_plain_biases()
        return found._with_biases(zero, zero + 1e-9)

    @property
    def system(self) -> System:
        return System(self.pattern, self.c, self.pull, inflation=self.inflation)

    def settle(self, shared: Shared, fixed: Variances | None = None) -> tuple[Choices, Variances, bool]:
        """Alternate between sites and variances, or settle the sites alone where the variances are `fixed`.

        A variance that converges slowly is extrapolated.
        """
        limits, earlier, last = self.pattern.limits, self, 0
        change = used = np.zeros(1 + len(shared.kinds))
        mean = np.zeros(len(self.c))

        def solved(state: Choices, number: int) -> tuple[Choices, _Solved, float]:
            nonlocal earlier, last, change, used, mean
            spectrum = Spectrum.of(state.system, shared.columns)
            if fixed is None:
                variances = estimate(spectrum, shared.kind, len(state.c), True, pull=self.strength)
            else:
                variances = replace(fixed, spectrum=spectrum)
            if self.is_narrow:
                variances = replace(variances, ratio=NARROWEST**2, quantiles=np.array([NARROWEST**2]))
            new = np.log(np.maximum([variances.ratio, *variances.shared], NARROWEST**2))
            old, change = change, new - used
            ratio = np.clip(np.divide(change, old, out=np.zeros(len(old)), where=old != 0.0), 0.0, FASTEST)
            beyond = np.clip(change * ratio / (1.0 - ratio), -FURTHEST, FURTHEST)
            used = new
            if number > 2 and number - last > 2:
                last, used = number, np.clip(new + beyond, *np.log([NARROWEST**2, WIDEST**2]))
            applied = replace(variances, ratio=float(np.exp(used[0])), shared=np.exp(used[1:]))
            parts = solve(state.system, applied, shared)
            before, (mean, variance) = mean, differences(*parts)
            moved = np.max(np.abs(change) + np.abs(beyond)) + distance(mean, before)
            moved, earlier = moved + state._tie_change(earlier), state
            return state, (variances, parts, mean, variance), moved if number > 2 else np.inf

        def learn(state: Choices, found: _Solved, number: int) -> Choices:
            return state._with_information(*found[1]).learn(*found[2:], 1.0 if number < FREE else DAMPED)

        state, found, converged = settle(self, solved, learn, limits.mixed_change, limits.mixed_rounds)
        return state, found[0], converged

    def learn(self, mean: Array, variance: Array, share: float = 1.0) -> Choices:
        """Update sites and γ, given mean and variance of the difference of each pair (M,).

        Sites move by the fraction `share` of the way to their new values.
        """
        shown = mean + self.offset
        state = self._with_biases(shown, variance) if self.is_biased and self.determines_biases else self
        centre, cavity = without_site(mean, variance, self.c, self.pull)
        state = state._with_ties(shown, variance)._with_masses(centre + self.offset)
        asked = np.any(state.weight > 0, axis=0)
        found, spread = choice_moments(centre + self.offset, cavity, state._asked)
        c, pull = sites_from(found - self.offset, spread, centre, cavity)
        c, pull = (old + share * (np.where(asked, new, 0.0) - old) for old, new in ((self.c, c), (self.pull, pull)))
        return replace(state, c=c, pull=pull)

    @property
    def _asked(self) -> PairChoices:
        """The choices about each pair, with γ and ν."""
        variance = None if self.gamma_variance is None else self.gamma_variance.ravel()[self.family]
        return PairChoices(self.p, self.weight, self.gamma.ravel()[self.family], self.nu[self._judge], variance)

    @property
    def _judge(self) -> Index:
        """The judge of each pair, (M,)."""
        return np.asarray(self.family % self.gamma.shape[1])

    def _tie_change(self, before: Choices) -> float:
        """The largest change of log ν."""
        own = self.nu > 0
        return float(np.max(np.abs(np.log(self.nu[own] / before.nu[own])), initial=0.0))

    def evidence(self, gaussian: float, mean: Array, variance: Array) -> float:
        """The log marginal likelihood of all choices given the variances, by expectation propagation.

        `gaussian` is that of the sites, log ∫ exp(−½ Σ c·d² + Σ pull·d) over all scores; `mean` and `variance` (M,) are
        those of the difference of each pair. With cavities N(m, v), the choices about a pair have the probability Z
        given all others, and their site has ∫ N(d; m, v)·e^(pull·d − c·d²/2) dd. The result is `gaussian` plus the sum
        of the logarithms of these ratios.
        """
        m, v = without_site(mean, variance, self.c, self.pull)
        site = 0.5 * ((m / v + self.pull) ** 2 / (1.0 / v + self.c) - m**2 / v - np.log1p(self.c * v))
        total = float(np.sum(choice_evidence(m + self.offset, v, self._asked) - site))
        total += float(np.sum(self.tied[self.nu > 0] * np.log(self.nu[self.nu > 0])))
        if self.lineup is not None:
            p, shown = self._as_shown(m + self.offset)
            total += luce_excess(self.lineup, p, np.sum(self.weight, axis=0), shown)
        return total + gaussian

    def gradient(self, mean: Array) -> Array:
        """The derivative of the evidence by `offset` (M,), given the mean of each difference at settled sites."""
        return self.pull - self.c * mean

    def _moments(self, mean: Array, variance: Array) -> tuple[Array, Array, Array]:
        """E p, the information about γ, and P(tie) in both orders, each (2, M), for differences N(mean, variance)."""
        shown = np.array([[1.0], [-1.0]]) * mean - self.gamma.ravel()[self.family]
        if self.nu.any():
            return averaged_moments(shown, np.tile(variance, (2, 1)), np.tile(self.nu[self._judge], (2, 1)))
        less = attenuation(variance)
        chance = expit(shown * less)
        return chance, chance * (1.0 - chance) * less, np.zeros_like(chance)

    def _with_ties(self, mean: Array, variance: Array) -> Choices:
        """Make a Newton step for log ν of each judge."""
        if not self.nu.any():
            return self
        chance = self._moments(mean, variance)[2]
        judge = np.tile(self._judge, 2)
        return replace(self, nu=next_parameters(self.nu, self.tied, chance.ravel(), self.weight.ravel(), judge))

    def _with_masses(self, mean: Array) -> Choices:
        """Update the weights of line-ups, given the cavity mean of each difference (M,)."""
        if self.lineup is None or self.whole is None:
            return self
        p, shown = self._as_shown(mean)
        return replace(self, weight=luce_weights(self.lineup, p, self.whole, shown))

    def _as_shown(self, mean: Array) -> tuple[Array, Array]:
        """p and d (M,) of each row of a line-up in the order in which it was shown, given the mean differences (M,)."""
        is_second = self.weight[1] > 0
        shown = np.where(is_second, -mean, mean) - self.gamma.ravel()[self.family]
        return np.where(is_second, self.p[1], self.p[0]), shown

    def _with_information(self, solution: Solution, spread: Array, between: Array) -> Choices:
        if not self.is_biased:
            return self
        share = information_share(solution, spread, between, self.c, self.weight, self.family, self.slots)
        return replace(self, information_share=share)

    def _with_biases(self, mean: Array, variance: Array) -> Choices:
        """Make a Newton step for γ of each context and judge, and shrink γ towards the judge's mean."""
        chance, flips, _ = self._moments(mean, variance)
        information, total = (
            np.bincount(self.family, np.sum(self.weight * each, axis=0), self.gamma.size).astype(float)
            for each in (flips, self.p - chance)
        )
        shape = self.gamma.shape
        information, total = information.reshape(shape) * self.information_share, total.reshape(shape)
        several = self.slots[:, 1] > 2
        known = (information > 1e-9) & ~several
        error = 1.0 / np.where(known, information, 1.0)
        step = np.clip(total * error, -LONGEST, LONGEST)
        gamma, between = shrunk(self.gamma - step, error, known)
        precision = np.sum(known / (error + (between or 0.0)), axis=0)
        spread = 1.0 / np.maximum(precision, TINY)  # variance of the mean γ of each judge
        variance = error
        if between is not None:
            unknown = error / (error + between)  # the weight of the mean in a shrunk γ
            variance = (1.0 - unknown) * error + unknown**2 * spread
        if several.any():
            found, errors, spreads, mean_variance = slot_effects(self.slots, self.gamma, information, total)
            found = np.clip(found, self.gamma - LONGEST, self.gamma + LONGEST)
            gamma, variance = np.where(several, found, gamma), np.where(several, errors, variance)
            between = float(np.mean(spreads[several]))
            precision[several] = 2.0 / (self.slots[several, 1] * mean_variance[several])
        variance = np.minimum(variance, UNSURE)
        mean_error = float(1.0 / np.sqrt(np.sum(precision))) if np.any(precision) else np.inf
        return replace(self, gamma=gamma, between=between, error=mean_error, gamma_variance=variance)

    @property
    def determines_scores(self) -> bool:
        """Whether there are more choices than a spanning forest has edges; else σ² is confounded with the noise."""
        graph = self.pattern.graph
        return bool(np.sum(self.weight) > graph.nodes - graph.components)

    @cached_property
    def determines_biases(self) -> bool:
        """Whether there are more answers than scores and biases; true for line-ups, whose slot effects have a prior."""
        graph = self.pattern.graph
        free = graph.nodes - graph.components + self.gamma.size
        return self.lineup is not None or bool(np.count_nonzero(self.weight) > free)

    def with_plain_biases(self) -> Choices:
        """Set one γ per judge for all contexts: −logit of the share of first texts chosen, as if texts were equal."""
        judge = np.broadcast_to(self._judge, self.weight.shape).ravel()
        asked, won = (
            np.bincount(judge, part.ravel(), self.gamma.shape[1]).astype(float)
            for part in (self.weight, self.weight * self.p)
        )
        if self.tied.any():  # ties do not change the odds of a win against a loss
            asked, won = asked - self.tied + 1.0, won - 0.5 * self.tied + 0.5
        share = (won + 0.5) / (asked + 1.0)
        gamma, variance, between = -logit(share), 1.0 / ((asked + 1.0) * share * (1.0 - share)), 0.0
        if len(gamma) > 1:
            centre, between = random_effects(gamma, variance)
        mean_variance = float(1.0 / np.sum(1.0 / (variance + between)))
        if len(gamma) > 1:  # shrink γ towards the mean of all judges
            own = between / (between + variance)
            gamma = centre + own * (gamma - centre)
            variance = own * variance + (1.0 - own) ** 2 * mean_variance
        gamma, variance = (np.broadcast_to(x, self.gamma.shape) for x in (gamma, np.minimum(variance, UNSURE)))
        return replace(self, gamma=gamma, error=float(np.sqrt(mean_variance)), gamma_variance=variance)

    def bias(self, solution: Solution) -> tuple[Array, float | None, float | None]:
        """γ (C, J), its variance between contexts, and the standard error of its mean."""
        return (self.gamma, self.between, self.error) if self.is_biased else (self.gamma[:, :0], None, None)


def with_style_inflation(model: Choices, variances: Variances, shared: Shared) -> tuple[Choices, Variances, bool]:
    """Settle the sites of a settled model again, with style inflation and the same σ²; returns as `Choices.settle`."""
    found = style_inflation(variances, shared, 2.0 * np.sum(model.weight) / model.pattern.graph.nodes)
    if np.max(np.log(found)) < model.pattern.limits.mixed_change:
        return model, variances, True
    return replace(model, inflation=found).settle(shared, fixed=variances)


def style_inflation(variances: Variances, shared: Shared, choices: float) -> Array:
    """h (n,) at the best variances, with k = `choices` choices per candidate."""
    theta = variances.precision(variances.ratio)[1]
    own = np.array([kind == "style" for kind in shared.kinds])[shared.kind] & (shared.kind >= 0)
    expected = shared.columns[:, own] @ theta[own]
    total = variances.ratio + np.mean((shared.columns @ theta) ** 2) + LOGISTIC / choices
    return 1.0 + expected**2 / total


def model_of(comparisons: Comparisons, graph: Graph, is_biased: bool, limits: Limits) -> Choices | Soft:
    """The model of the answers: `Choices` for decisions and votes, `Soft` for probabilities."""
    if are_choices(comparisons):
        return Choices.of(comparisons, graph, is_biased, limits)
    return Soft.of(comparisons, graph, BradleyTerry(), is_biased, limits)
