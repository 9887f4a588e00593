"""The posterior of people's scores of all texts, from few votes and the view of a machine.

A machine (a judge or a panel) has judged all texts; people have voted on few pairs. People's scores are

    t = S·X b + P m + δ,    b ~ N(b₀, V),   m ~ N(0, ω²),   δ ~ N(0, σ²)

with X (n, D) the parts of the machine's view, such as its score of a text's system and of the text beyond that, each of
variance 1, and P (n, G) the groups. S is the standard deviation of people's scores in logits. b₀ and V are mean and
variance of b for usual judges (`comparo.ranking.votes`), and the usual ω² and σ² are the rest of S². Votes are choices
(`choices`): the posterior of b, m and δ is by expectation propagation, that of (S, ω², σ²) by its evidence and a prior
around the usual values. A few judges do not agree with people (`Expectation.ways`); the evidence weighs both cases. The
posterior is a mixture of points, one for each (S, ω², σ²).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy
from scipy.special import expit, logit

from comparo.data.comparisons import Comparisons
from comparo.model.inference.choices import Choices, joint_effects
from comparo.model.inference.ep import settle
from comparo.model.inference.newton import Maximum
from comparo.model.inference.random_effects import differences
from comparo.model.linalg.graph import Graph
from comparo.model.linalg.laplacian import Laplacian
from comparo.model.linalg.spectrum import log_det
from comparo.model.posterior import Posterior, mixture_moments
from comparo.model.tuning import EQUAL, LIMITS, NARROWEST, SPREAD, SPREAD_ERROR, VARIES, WIDEST, Limits
from comparo.types import Array, Index, Mask


@dataclass(frozen=True, eq=False)
class Point:
    """The posterior for one (S, ω², σ²): t (n,) and its covariance H⁻¹ + root·rootᵀ, root (n, M).

    `mean` (n,) is the prediction of t by groups and the machine's parts, with covariance lead·leadᵀ, `lead` (n, M).
    `coefficient` (D,) is S·b with its covariance `error` (D, D), and `evidence` the log probability of the votes.
    `choices` are their settled sites, and `share` is the probability of this point.
    """

    scores: Array
    laplacian: Laplacian
    root: Array
    mean: Array
    lead: Array
    coefficient: Array
    error: Array
    evidence: float
    choices: Choices
    share: float = 1.0


@dataclass(frozen=True, eq=False)
class Voted(Posterior):
    """The posterior of people's scores (n,): a mixture of `points` whose shares add to 1.

    `equal` is the posterior probability that all texts are equal. Scores and covariance are conditional on texts being
    different: if averaged with 0, intervals would miss the scores of texts that differ.
    """

    points: tuple[Point, ...] = ()
    equal: float = 0.0

    @classmethod
    def of(cls, points: tuple[Point, ...], equal: float = 0.0) -> Voted:
        shares = tuple(point.share for point in points)
        apart = np.array([point.scores for point in points])
        apart = apart - np.tensordot(shares, apart, axes=1)
        roots = [apart.T * np.sqrt(shares), *(point.root * np.sqrt(point.share) for point in points)]
        laplacians = tuple(point.laplacian for point in points)
        return cls(laplacians, shares, roots=np.column_stack(roots), points=points, equal=equal)

    @cached_property
    def scores(self) -> Array:
        return self._mean([point.scores for point in self.points])

    def means(self, by: Array, group: Index, is_new: bool) -> tuple[Array, Array]:
        """Group means (G,) and their covariance (G, G): `by` (G, n) averages scores, `group` (n,) is that of each text.

        With `is_new` they are those of new contexts: without δ, and with v·by·byᵀ added to the covariance, v the
        variance of the predictions within groups.
        """
        found, covariances = [], []
        graph = self.pattern.graph
        for point in self.points:
            if is_new:
                apart = graph.centre(point.mean - (by @ point.mean)[group])
                left, own = by @ point.lead, np.mean(apart**2) * by @ by.T
                found.append(by @ point.mean)
            else:
                wide = np.pad(by, ((0, 0), (0, point.laplacian.pattern.unknowns - by.shape[1])))
                left, own = by @ point.root, wide @ point.laplacian.solve(wide.T)
                found.append(by @ point.scores)
            covariances.append(left @ left.T + own)
        return mixture_moments(np.array(found), np.array(covariances), np.array(self.shares))


def mixture(points: Sequence[Point], draws: int, rng: np.random.Generator) -> Array:
    """Draws of S·b (draws, D) from the posterior of all points."""
    counts = rng.multinomial(draws, [point.share for point in points])
    return np.concatenate(
        [rng.multivariate_normal(p.coefficient, p.error, n) for p, n in zip(points, counts, strict=True)]
    )


FAR = 3.0  # range of the search, in prior standard deviations
EVALUATIONS, NEAR = 50, 0.05  # most evaluations of the search, and its tolerance in logarithms and in nats
RARE = 1e-3  # an alternative of `Expectation.ways` less probable than this, relative to the other, is left out
FIRST = 0.7  # first steps of the search
STEPS, FURTHEST, LEAST_RISE = 3, 3.0, 1e-3  # of the line search for a given rise: steps, largest factor, least rise
# Of expectation propagation: most sweeps, sweeps without damping, the damped share of a step, and the gradient
# (`Choices.learn`) that ends them.
SWEEPS, FREE, DAMPED, SETTLED = 60, 4, 0.5, 5e-3


@dataclass(frozen=True)
class Expectation:
    """The prior of people's scores, in units of their standard deviation S.

    Parameters
    ----------
    columns : X, the parts of the machine's view, (n, D), each of variance 1; D = 0 without a machine.
    mean, variance : b₀ and the diagonal of V, (D,).
    group : The group of each text, (n,), or None.
    between, within : The usual ω² and σ², as shares of S².
    against : The probability that the judge does not agree with people: b then has mean 0 and variances b₀² + V.
    """

    columns: Array
    mean: Array
    variance: Array
    group: Index | None
    between: float
    within: float
    against: float = 0.0

    @property
    def ways(self) -> tuple[tuple[float, Expectation], ...]:
        """The prior if the judge agrees with people and if it does not, each with its probability, if above 0."""
        other = replace(self, mean=np.zeros_like(self.mean), variance=self.mean**2 + self.variance)
        return tuple((chance, way) for chance, way in ((1.0 - self.against, self), (self.against, other)) if chance > 0)

    def of(self, nodes: Index) -> Expectation:
        """The prior of the texts `nodes`."""
        return replace(self, columns=self.columns[nodes], group=None if self.group is None else self.group[nodes])


def voted(votes: Comparisons, graph: Graph, expectation: Expectation, limits: Limits = LIMITS) -> Voted:
    """The posterior of people's scores of all texts of a graph, from votes about some of them.

    `graph.first` and `graph.second` (K,) are the texts of each vote. Every context is one component, because the prior
    connects its texts. A vote for the first text has p = 1, for the second p = 0, for neither p = ½.

    >>> rng = np.random.default_rng(0)
    >>> truth, machine = rng.standard_normal((2, 60))
    >>> machine = 0.6 * truth + 0.8 * machine
    >>> first, second = rng.integers(60, size=(2, 100))
    >>> first, second = first[first != second], second[first != second]
    >>> p = (rng.random(len(first)) < 1 / (1 + np.exp(truth[second] - truth[first]))).astype(float)
    >>> votes = Comparisons(np.arange(60), first, second, p)
    >>> usual = Expectation(machine[:, None] / np.std(machine), np.array([0.45]), np.array([0.04]), None, 0.0, 0.8)
    >>> graph = Graph.build(votes).whole()
    >>> found = voted(votes, graph, usual.of(graph.item))
    >>> bool(np.corrcoef(found.scores, truth[graph.item])[0, 1] > np.corrcoef(machine, truth)[0, 1])
    True
    """
    effect, _, slots = joint_effects(votes)
    # People who share their effects are one judge, so that thousands of voters have no more sites than there are pairs.
    votes = replace(votes, judge=slots[effect, 0])
    ways = [(chance, way, *_explored(votes, graph, way, limits)) for chance, way in expectation.ways]
    log = np.array([np.log(chance) + size for chance, _, _, size in ways])
    at = _about_voted(votes, graph, expectation, limits)
    equal = at(np.log([NARROWEST])).evidence
    share = np.exp(log - np.max(log))
    share[share < RARE] = 0.0
    share /= np.sum(share)
    points: list[Point] = []
    for part, (_, way, places, _) in zip(share.tolist(), ways, strict=True):
        if part > 0:
            whole = _Posterior.of(votes, graph, way, limits)
            points += [replace(whole.at(h), share=part / len(places)) for h in places]
    log_odds = logit(EQUAL) + equal - np.logaddexp.reduce(log)
    return Voted.of(tuple(points), equal=float(expit(log_odds)))


def _explored(votes: Comparisons, graph: Graph, expectation: Expectation, limits: Limits) -> tuple[list[Array], float]:
    """Equally weighted points of the posterior of (log S, log ω², log σ²), and its log marginal likelihood."""
    at = _about_voted(votes, graph, expectation, limits)
    spread = np.log(SPREAD)
    has_groups = expectation.group is not None
    free = [True, has_groups, has_groups or expectation.columns.shape[1] > 0]  # without groups and a machine, S is σ
    usual = np.array([spread, 0.0, 0.0])[free]
    error = np.array([SPREAD_ERROR, VARIES, VARIES])[free]

    low, high = usual - FAR * error, usual + FAR * error
    low[0], high[0] = np.log(NARROWEST), np.log(WIDEST)

    def cost(h: Array) -> float:
        return float(0.5 * np.sum(((h - usual) / error) ** 2)) - at(np.clip(h, low, high)).evidence

    simplex = np.vstack([usual, usual + FIRST * np.eye(len(usual))])
    best = scipy.optimize.minimize(
        cost,
        usual.tolist(),
        method="Nelder-Mead",
        options={"maxfev": EVALUATIONS, "xatol": NEAR, "fatol": NEAR, "initial_simplex": simplex},
    ).x
    middle, rise = cost(best), 0.5 * len(usual)  # √d standard deviations away: the cubature of a normal distribution
    points, reached, furthest = [], [], float(np.sqrt(len(usual)))  # the reach under the prior alone
    for way in (*np.diag(error), *-np.diag(error)):
        reach = 1.0
        for _ in range(STEPS):
            risen = max(cost(best + reach * way) - middle, LEAST_RISE)
            reach = min(reach * np.clip(np.sqrt(rise / risen), 1.0 / FURTHEST, FURTHEST), furthest)
        points.append(np.clip(best + reach * way, low, high))
        reached.append(reach)
    deviations = np.reshape(reached, (2, -1)).mean(axis=0) / np.sqrt(len(usual))
    size = float(np.sum(np.log(deviations)))  # Laplace's approximation, relative to the prior's deviations
    return points, size - middle


def _about_voted(
    votes: Comparisons, graph: Graph, expectation: Expectation, limits: Limits
) -> Callable[[Array], Point]:
    """The posterior of the texts with votes as a function of the logarithms of S, ω² and σ².

    Its evidence is that of all texts. Each call starts from the sites of the call before.
    """
    numbers = np.arange(graph.nodes)
    context = graph.position[graph.first].astype(np.int32)
    own = replace(votes, items=numbers, first=graph.first, second=graph.second, context=context)
    own = replace(own, contexts=np.arange(graph.contexts))
    few = Graph.build(own).whole()
    posterior = _Posterior.of(own, few, expectation.of(few.item), limits)

    def at(h: Array) -> Point:
        nonlocal posterior
        found = posterior.at(h)
        posterior = replace(posterior, choices=found.choices)
        return found

    return at


@dataclass(frozen=True, eq=False)
class _Posterior:
    """The model of the votes; `columns` (n, M) are groups and the machine's parts, the latter multiplied by √V."""

    choices: Choices
    expectation: Expectation
    columns: Array
    is_group: Mask

    @classmethod
    def of(cls, votes: Comparisons, graph: Graph, expectation: Expectation, limits: Limits) -> _Posterior:
        choices = Choices.of(votes, graph, True, limits)
        parts = expectation.columns * np.sqrt(expectation.variance)
        group = np.zeros((graph.nodes, 0))
        if expectation.group is not None:
            group = np.eye(int(expectation.group.max()) + 1)[expectation.group]
        columns = graph.centre(np.column_stack([group, parts]))
        return cls(choices, expectation, columns, np.arange(columns.shape[1]) < group.shape[1])

    def at(self, h: Array) -> Point:
        """The posterior for the logarithms h of S and, where they are free, of ω² and σ² relative to the usual."""
        usual, graph = self.expectation, self.choices.pattern.graph
        spread, *relative = np.exp(h).tolist()
        between = spread**2 * usual.between
        if relative and usual.group is not None:
            between *= relative.pop(0)
        within = spread**2 * usual.within
        if relative:
            within *= relative.pop(0)
        prior = np.where(self.is_group, between, spread**2)
        expected = graph.centre(spread * usual.columns @ usual.mean)
        pattern = self.choices.pattern
        choices = replace(self.choices, offset=expected[pattern.first] - expected[pattern.second])

        def solved(choices: Choices, _: int) -> tuple[Choices, tuple[_Solved, Choices], float]:
            found = _Solved.of(choices, self.columns, within, prior)
            new, moved = choices.learn(found.solution, found.mean, found.variance)
            return choices, (found, new), moved

        def learn(choices: Choices, found: tuple[_Solved, Choices], sweep: int) -> Choices:
            return found[1] if sweep < FREE else choices.towards(found[1], DAMPED)

        choices, (found, _), _ = settle(choices, solved, learn, SETTLED, SWEEPS)
        own = ~self.is_group
        part, half = np.sqrt(usual.variance), np.linalg.cholesky(found.error)
        error = part[:, None] * found.error[np.ix_(own, own)] * part
        return Point(
            scores=graph.centre(expected + found.solution.x[: graph.nodes]),
            laplacian=found.solution.laplacian,
            root=found.follow[: graph.nodes] @ half,
            mean=expected + self.columns @ found.theta,
            lead=self.columns @ half,
            coefficient=spread * usual.mean + part * found.theta[own],
            error=error,
            evidence=choices.evidence(found.evidence, found.mean, found.variance),
            choices=choices,
        )


@dataclass(frozen=True, eq=False)
class _Solved:
    """s = M θ + δ given the sites: δ ~ N(0, σ²), θ ~ N(0, R).

    Position effects are further unknowns of H, with their own prior. With H = L + λ, λ = 1/σ², F = λH⁻¹M, C = λMᵀ(M −
    F) and g = Fᵀb:  Cov θ = (C + R⁻¹)⁻¹, s = H⁻¹b + F θ, and

        log ∫ exp(−½ sᵀL s + bᵀs) = ½ [bᵀH⁻¹b + gᵀ Cov(θ) g − log det(H/λ) − log det(I + R C)].

    `rest` is the bracket without log det H, and with the prior of the position effects. `mean` and `variance` (M,) are
    those of the difference of every pair, in the pattern's order.
    """

    solution: Maximum
    follow: Array
    theta: Array
    error: Array
    rest: float
    mean: Array
    variance: Array

    @property
    def evidence(self) -> float:
        """The logarithm of the integral."""
        return 0.5 * (self.rest - log_det(self.solution.laplacian))

    @classmethod
    def of(cls, choices: Choices, columns: Array, within: float, prior: Array) -> _Solved:
        system, ridge = choices.system, 1.0 / within
        b, n = system.rhs, system.nodes
        laplacian, start, follow = system.solved(ridge, ridge * columns)
        known = ridge * columns.T @ (columns - follow[:n])
        pulled = follow.T @ b
        root = np.sqrt(prior)
        inner = np.eye(len(prior)) + root[:, None] * known * root
        error = root[:, None] * np.linalg.inv(inner) * root
        theta = error @ pulled
        rest = float(b @ start + pulled @ theta + n * np.log(ridge) - np.linalg.slogdet(inner).logabsdet)
        rest += float(np.sum(np.log(system.ridge) - system.ridge * system.mean**2))
        error = 0.5 * (error + error.T)
        solution = Maximum(start + follow @ theta, laplacian, 1, True)
        return cls(solution, follow, theta, error, rest, *differences(solution, follow, error))
