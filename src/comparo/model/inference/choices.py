"""Choices in the mixed model: decisions, ties and votes, whose sites are updated in turn with the variances.

Each answer is about d = s_first − s_second − γ. Scores and position effects γ are unknowns of one linear system, so
that what the design does not separate stays uncertain together: both have priors (`position.Positions`, `reml`).

A judge whose answers are decisions and ties has Davidson's likelihood. Its ν is updated with the sites: at a fixed
point of expectation propagation, the evidence is stationary in ν where Σ P(tie) is the number of ties. A share of votes
does not determine the number of ties; p = ½ is then half a win.

The prior of a score is wider the further its style predicts it from the mean. A sure judge decides all choices about an
extreme text the same way, so that they cannot correct a wrong prediction. Predictions are least certain there, because
features saturate: the share p of some kind of word among N words has a logit η with the variance
1/(N·p(1 − p)) ∝ cosh²(η/2) = 1 + η²/4 + …. With m_i the prediction of candidate i by its style,

    s_i ~ N(m_i + …, σ²·h_i),    h_i = 1 + m_i²/(v + π²/(3k)),

with v the variance of all scores (σ² plus that of the predictions), k the mean number of choices about a candidate, and
π²/(3k) the variance of their noise. Where style explains little, h is about 1. σ² is estimated with h = 1, so that h
only widens priors; its posterior (`Choices.explore`) is with h. The slope of h, 1 for each m²/v, was chosen by
simulated judges with and without saturating style (docs/fitting.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, logsumexp

from comparo.data.columns import first_rows
from comparo.data.comparisons import Comparisons
from comparo.data.lineups import luce_excess, luce_weights
from comparo.model.design import Shared
from comparo.model.inference.ep import settle, sites_from, without_site
from comparo.model.inference.newton import Maximum, Problem
from comparo.model.inference.position import Positions, winners_first
from comparo.model.inference.random_effects import apart, differences, solve
from comparo.model.inference.reml import Variances, estimate, spread_prior
from comparo.model.inference.soft import Soft
from comparo.model.likelihoods.bradley_terry import (
    LOGISTIC,
    BradleyTerry,
    Davidson,
    averaged_moments,
    choice_evidence,
    choice_moments,
    first_parameters,
    next_parameters,
    tie_totals,
)
from comparo.model.linalg.graph import Graph, Pattern
from comparo.model.linalg.spectrum import Spectrum, System
from comparo.model.observations import are_choices, pooled, votes_of
from comparo.model.tuning import EQUAL, NARROWEST, SPREAD, WIDEST, Limits
from comparo.rounding import TINY
from comparo.types import Array, Index

FREE, DAMPED = 20, 0.5  # rounds without damping, and the damped share of a step: slow sites mostly oscillate
# Choices per unknown above which sites begin at the mode, which halves the rounds, and how near: the first solution is
# another step of Newton's method.
MANY, NEAR = 64, 0.01
# Posterior of log σ: the standard deviation (by the sites at the best σ) below which they serve for all σ, least and
# most step, half the range of nine quantiles in standard deviations, and the log density below the top that ends it.
NARROW, STEPS, REACH, FAR = 0.1, (0.2, 0.6), 1.6, 4.0


@dataclass(frozen=True)
class Point:
    """The `model` settled at the σ of its `variances`, and the log posterior density there, up to a constant."""

    height: float
    model: Choices
    variances: Variances
    converged: bool


@dataclass(frozen=True)
class Choices:
    """M sets of choices, each about one pair in one order by one judge, and their sites `c` and `pull` (M,).

    `p` and `weight` (M,) are the share and number of choices for the first text, in the pattern's order. `positions`
    are the priors of γ. `offset` (M,) is added to the difference of each set, 0 unless scores have two peaks
    (`mixture`). `tied` (J,) is the weight of each judge's ties, and `nu` (J,) its ν; both are 0 where no decision is a
    tie. `judge` (M,) is an index into these, and so is `effects` for each row of `Comparisons.slots`, −1 where it does
    not occur: people with fewer than `FEW` votes have one γ and one ν together. Without `has_prior`, the spread of
    scores has no prior, and `is_narrow` fixes it at its smallest, so that group means are logits of win rates.
    `inflation` is that of the `system`. For choices among several texts, `lineup` (M,) are `lineups.ROWS`, and `whole`
    (M,) the weights if all texts were equal, from which `luce_weights` computes `weight`.
    """

    pattern: Pattern
    p: Array
    weight: Array
    judge: Index
    effects: Index
    positions: Positions | None
    c: Array
    pull: Array
    offset: Array
    tied: Array
    nu: Array
    whole: Array
    has_prior: bool = True
    is_narrow: bool = False
    inflation: Array | float = 1.0
    lineup: NDArray[Any] | None = None

    @classmethod
    def of(cls, comparisons: Comparisons, graph: Graph, is_biased: bool, limits: Limits) -> Choices:
        votes = votes_of(comparisons)
        p, weight = (comparisons.p, comparisons.weights) if votes is None else votes
        # Without γ, both orders are one set: the order of two texts says nothing.
        turned = graph.first > graph.second
        key = 2 * comparisons.pairing[1]
        if is_biased or comparisons.lineup is not None:
            key, turned = key + turned, np.zeros(len(p), dtype=bool)
        p = np.where(turned, 1.0 - p, p)
        lead, slot = first_rows(key)
        effect, effects, slots = joint_effects(comparisons)
        first, second = (
            np.where(turned, other, end)[lead]
            for end, other in ((graph.first, graph.second), (graph.second, graph.first))
        )
        judge = effect[lead]
        won, weight = (np.bincount(slot, of, len(lead)).astype(float) for of in (weight * p, weight))
        pattern = Pattern(replace(graph, first=first, second=second), judge if is_biased else None, limits)
        order = pattern.order
        lead, judge, won, weight = lead[order], judge[order], won[order], weight[order]
        p = won / np.maximum(weight, TINY)
        tied = nu = np.zeros(len(slots))
        if comparisons.hard:
            tied, answers = tie_totals(comparisons.p, comparisons.weights, effect, len(slots))
            nu = first_parameters(tied, answers)
        found = cls(
            pattern,
            p,
            weight,
            judge,
            effects,
            Positions.of(pattern, slots, winners_first(comparisons, effect)) if is_biased else None,
            c=weight / 4.0,
            pull=weight * (p - 0.5),
            offset=np.zeros(len(p)),
            tied=tied,
            nu=nu,
            whole=weight,
            lineup=None if comparisons.lineup is None else comparisons.lineup[lead],
        )
        return found.at_mode() if np.sum(weight) > MANY * pattern.unknowns else found

    def at_mode(self) -> Choices:
        """The sites by Laplace's method, near their end where there are many choices about each text."""
        system, expert = self.system, Davidson(self._nu) if self.nu.any() else BradleyTerry()
        ridge = np.concatenate([np.full(system.nodes, 1.0 / SPREAD**2), system.ridge])
        problem = Problem(self.pattern, expert, self.p, self.weight, None, np.zeros(len(ridge)), ridge)
        mode = problem.maximise(problem.start, NEAR)
        d, c = apart(self.pattern, mode.x), mode.laplacian.c
        return replace(self, c=c, pull=c * d + self.weight * expert.slope(d, self.p))

    @property
    def system(self) -> System:
        none = np.zeros(0)
        ridge, mean = (none, none) if self.positions is None else (self.positions.ridge, self.positions.mean)
        return System(self.pattern, self.c, self.pull, ridge, mean, self.inflation)

    def settle(self, shared: Shared, fixed: Variances | None = None) -> tuple[Choices, Variances, bool]:
        """Alternate between sites, position priors and variances, which stay where they are `fixed`.

        The rounds end where the moments of every answer agree with those of the solution, and all priors stay.
        """
        limits, before = self.pattern.limits, np.array(np.inf)

        def solved(state: Choices, _: int) -> tuple[Choices, tuple[Variances, Choices, Choices], float]:
            nonlocal before
            system = state.system
            spectrum = Spectrum.of(system, shared.columns)
            if fixed is not None:
                variances = replace(fixed, spectrum=spectrum)
            else:
                variances = estimate(spectrum, shared.kind, len(state.c), True, pull=0.0, has_prior=state.has_prior)
            if self.is_narrow:
                variances = replace(variances, ratio=NARROWEST**2, quantiles=np.array([NARROWEST**2]))
            logs = np.log(np.maximum([variances.ratio, *variances.shared], NARROWEST**2))
            moved, before = float(np.max(np.abs(logs - before))), logs
            solution, spread, between = solve(system, variances, shared)
            new, apart = state.learn(solution, *differences(solution, spread, between))
            return state, (variances, state, new), max(moved, apart)

        def learn(_: Choices, found: tuple[Variances, Choices, Choices], number: int) -> Choices:
            old, new = found[1:]
            return new if number < FREE else old.towards(new, DAMPED)

        state, found, converged = settle(self, solved, learn, limits.mixed_change, limits.mixed_rounds)
        return state, found[0], converged

    def explore(self, variances: Variances, shared: Shared) -> list[Point]:
        """The posterior of σ at equal steps of log σ, each with sites of its own; empty where it is narrow.

        The sites at the best σ understate the uncertainty of σ, because larger scores would make larger sites.
        """
        low, high = np.log(variances.quantiles[[0, -1]]) / 2.0
        step = float((high - low) / (2.0 * REACH))
        if not self.has_prior or self.is_narrow or step < NARROW:
            return []
        step = float(np.clip(step, *STEPS))

        def point(h: float, start: Choices) -> Point:
            at = replace(variances, ratio=float(np.exp(2.0 * h)))
            model, at, converged = start.settle(shared, at)
            height = model.log_evidence(at, shared) + float(spread_prior(np.array(h)))
            return Point(height, model, at, converged)

        found = [point(0.5 * float(np.log(variances.ratio)), self)]
        for way, end in ((1.0, WIDEST), (-1.0, NARROWEST)):
            while found[-1].height > max(one.height for one in found) - FAR:
                h = 0.5 * float(np.log(found[-1].variances.ratio)) + way * step
                if way * (h - np.log(end)) > 0:
                    break
                found.append(point(h, found[-1].model))
            found.reverse()
        return found

    def equal(self, points: Sequence[Point], variances: Variances, shared: Shared) -> float:
        """The probability that all texts are equal, with prior odds of `EQUAL`; scores are given that they differ.

        ∫ Z(σ) p(log σ) d log σ over the points, at equal steps, against Z at the smallest σ.
        """
        at = replace(variances, ratio=NARROWEST**2, shared=np.zeros_like(variances.shared))
        model, at, _ = points[0].model.settle(shared, at)
        logs = 0.5 * np.log([one.variances.ratio for one in points])
        differ = logsumexp([one.height for one in points]) + np.log(np.mean(np.diff(logs)))
        return float(expit(logit(EQUAL) + model.log_evidence(at, shared) - differ))

    def log_evidence(self, variances: Variances, shared: Shared) -> float:
        """The log marginal likelihood of all choices at settled sites, given the variances."""
        apart = differences(*solve(self.system, variances, shared))
        system, spectrum, gaussian = self.system, variances.spectrum, variances.evidence
        gaussian += 0.5 * (system.square - spectrum.square)
        if self.positions is not None:
            biases = system.laplacian(0.0).diagonal[system.nodes :]
            gaussian -= 0.5 * float(np.sum(np.log(biases / system.ridge)))
        return self.evidence(gaussian, *apart)

    def learn(self, solution: Maximum, mean: Array, variance: Array) -> tuple[Choices, float]:
        """Update sites and priors, given the solution and mean and variance (M,) of each difference without `offset`.

        Also returns the largest gradient of expectation propagation: the distance of the mean of a difference from that
        given its answers by their own likelihood, in standard deviations, or of the logarithms of both variances; or
        the largest change of a prior or of log ν.
        """
        centre, cavity = without_site(mean, variance, self.c, self.pull)
        new = self._with_ties(mean + self.offset, variance).sites(centre, cavity)
        spread = 1.0 / (1.0 / cavity + new.c)
        found = spread * (centre / cavity + new.pull)
        gradient = np.maximum(np.abs(found - mean) / np.sqrt(variance), np.abs(np.log(spread / variance)))
        moved = max(float(np.max(gradient[self.weight > 0], initial=0.0)), self._tie_change(new))
        if self.positions is not None:
            positions = self.positions.learn(solution)
            new, moved = replace(new, positions=positions), max(moved, positions.distance(self.positions))
        return new, moved

    def sites(self, centre: Array, cavity: Array) -> Choices:
        """Update the sites, given mean and variance (M,) of each difference by all other answers."""
        state, shown = self._with_masses(centre + self.offset), centre + self.offset
        found, spread = choice_moments(shown, cavity, state.p, state.weight, state._nu)
        c, pull = (
            np.where(state.weight > 0, new, 0.0) for new in sites_from(found - self.offset, spread, centre, cavity)
        )
        return replace(state, c=c, pull=pull)

    def towards(self, new: Choices, share: float) -> Choices:
        """The state `new`, with its sites moved only by `share` of the way."""
        c, pull = (old + share * (to - old) for old, to in ((self.c, new.c), (self.pull, new.pull)))
        return replace(new, c=c, pull=pull)

    @property
    def _nu(self) -> Array:
        return self.nu[self.judge]

    def _tie_change(self, other: Choices) -> float:
        """The largest difference of log ν."""
        own = self.nu > 0
        return float(np.max(np.abs(np.log(self.nu[own] / other.nu[own])), initial=0.0))

    def evidence(self, gaussian: float, mean: Array, variance: Array) -> float:
        """The log marginal likelihood of all choices given the variances, by expectation propagation.

        `gaussian` is that of the sites, log ∫ exp(−½ Σ c·d² + Σ pull·d) over all scores and position effects; `mean`
        and `variance` (M,) are those of each difference. With cavities N(m, v), the choices have the probability Z
        given all others, and their site has ∫ N(d; m, v)·e^(pull·d − c·d²/2) dd. The result is `gaussian` plus the sum
        of the logarithms of these ratios.
        """
        m, v = without_site(mean, variance, self.c, self.pull)
        site = 0.5 * ((m / v + self.pull) ** 2 / (1.0 / v + self.c) - m**2 / v - np.log1p(self.c * v))
        total = float(np.sum(choice_evidence(m + self.offset, v, self.p, self.weight, self._nu) - site))
        total += float(np.sum(self.tied[self.nu > 0] * np.log(self.nu[self.nu > 0])))
        if self.lineup is not None:
            total += luce_excess(self.lineup, self.p, self.weight, m + self.offset)
        return total + gaussian

    def gradient(self, mean: Array) -> Array:
        """The derivative of the evidence by `offset` (M,), given the mean of each difference at settled sites."""
        return self.pull - self.c * mean

    def _with_ties(self, mean: Array, variance: Array) -> Choices:
        """Make a Newton step for log ν of each judge."""
        if not self.nu.any():
            return self
        chance = averaged_moments(mean, variance, self._nu)[2]
        return replace(self, nu=next_parameters(self.nu, self.tied, chance, self.weight, self.judge))

    def _with_masses(self, mean: Array) -> Choices:
        """Update the weights of line-ups, given the cavity mean of each difference (M,)."""
        if self.lineup is None:
            return self
        return replace(self, weight=luce_weights(self.lineup, self.p, self.whole, mean))

    @property
    def determines_scores(self) -> bool:
        """Whether there are more choices than a spanning forest has edges; else σ² is confounded with the noise."""
        graph = self.pattern.graph
        return bool(np.sum(self.weight) > graph.nodes - graph.components)

    def bias(self, solution: Maximum) -> tuple[Array, float | None, float | None]:
        """γ (C, J), its variance between contexts, and the standard error of its mean."""
        contexts = self.pattern.graph.contexts
        if self.positions is None:
            return np.zeros((contexts, 0)), None, None
        gamma = solution.x[self.pattern.graph.nodes :]
        return self._of_effects(gamma), self.positions.between, self.positions.error(solution)

    def bias_variances(self, solution: Maximum) -> Array:
        """The posterior variance of each γ, (C, J)."""
        return self._of_effects(solution.laplacian.bias_variances)

    @property
    def slot(self) -> Index:
        """The row of `Comparisons.slots` of each set, (M,); that of one of them for people with one γ together."""
        effect, row = np.unique(self.effects, return_index=True)
        return np.asarray(row[effect >= 0][self.judge])

    def _of_effects(self, values: Array) -> Array:
        """Values of the position effects of the pattern (C·J′,) for each of `Comparisons.slots`, (C, J)."""
        found = values.reshape(self.pattern.graph.contexts, -1)
        return np.where(self.effects >= 0, found[:, self.effects], 0.0)


def joint_effects(comparisons: Comparisons) -> tuple[Index, Index, Index]:
    """The effect of each comparison (K,), that of each row of `Comparisons.slots`, and a row of these for each effect.

    People with few votes are one judge here (`pooled`), and effects without comparisons are left out.
    """
    joint = pooled(comparisons) if comparisons.voted else comparisons
    asked, code = np.unique(joint.positions, return_inverse=True)
    effects = np.full(len(comparisons.slots), -1, dtype=np.int32)
    effects[comparisons.positions] = code
    return effects[comparisons.positions], effects, joint.slots[asked]


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
