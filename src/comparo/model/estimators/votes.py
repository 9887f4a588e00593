"""Few votes of people beside the view of a machine: the posterior of people's scores of all texts.

A machine (a judge or a panel) has seen all texts; people have voted on few pairs. People's scores are

    t = S·X b + P m + δ,    b ~ N(b₀, V),   m ~ N(0, ω²),   δ ~ N(0, σ²)

with X (n, D) the parts of the machine's view, such as its score of a text's system and of the text beyond that, each of
variance 1, and P (n, G) the groups. S is the spread of people's scores in logits. b₀ and V are the usual share of such
parts that people have too (`comparo.ranking.votes`), and the usual ω² and σ² are the rest of S². Votes are choices
(`choices`): b, m and δ have their posterior by expectation propagation, and (S, ω², σ²) that of the evidence with a
prior around the usual values. Few judges go another way (`Expectation.ways`); the evidence decides whether this one
does. The posterior is a mixture of points, each that for one S and its variances.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy
from scipy.special import expit, logit

from comparo.data.comparisons import Comparisons
from comparo.model.inference.choices import Choices
from comparo.model.inference.ep import distance, settle
from comparo.model.inference.newton import Solution
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

    What groups and the machine's parts predict of t is `mean` (n,), with the covariance lead·leadᵀ, `lead` (n, M).
    `coefficient` (D,) is S·b with its covariance `error` (D, D), and `evidence` the log probability of the votes.
    `choices` are their settled sites, `variance` is that of a score around the machine's view before any vote, and
    `share` is the probability of this point among all.
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
    variance: float
    share: float = 1.0


@dataclass(frozen=True, eq=False)
class Voted(Posterior):
    """The posterior of people's scores (n,): a mixture of `points` whose shares add to 1.

    `equal` is the probability, given the votes, that all texts are equal. Scores and covariance are those if they
    differ: averaged with 0, intervals would miss the scores of texts that do.
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

    @property
    def variance(self) -> float:
        """The variance of a score before any vote, the mean over the points."""
        return float(np.dot(self.shares, [point.variance for point in self.points]))

    def means(self, by: Array, group: Index, is_new: bool) -> tuple[Array, Array]:
        """Means of groups (G,) and their covariance (G, G), with `by` (G, n) and the `group` of each text (n,).

        In new contexts δ is not that of these, and the machine's parts vary around their mean in the group, with a
        variance v that adds v·by·byᵀ.
        """
        found, covariances = [], []
        graph = self.pattern.graph
        for point in self.points:
            if is_new:
                apart = graph.centre(point.mean - (by @ point.mean)[group])
                left, own = by @ point.lead, float(np.mean(apart**2)) * by @ by.T
                found.append(by @ point.mean)
            else:
                left, own = by @ point.root, by @ point.laplacian.solve(by.T)
                found.append(by @ point.scores)
            covariances.append(left @ left.T + own)
        return mixture_moments(np.array(found), np.array(covariances), np.array(self.shares))


def mixture(points: Sequence[Point], draws: int, rng: np.random.Generator) -> Array:
    """Draws of S·b (draws, D) from the posterior of all points."""
    counts = rng.multinomial(draws, [point.share for point in points])
    return np.concatenate(
        [rng.multivariate_normal(p.coefficient, p.error, n) for p, n in zip(points, counts, strict=True)]
    )


FAR = 3.0  # of these standard deviations, how far the search goes
MOST, NEAR = 50, 0.05  # evaluations of the search, and what ends it, in logarithms and in nats: no vote tells less
RARE = 1e-3  # a way that is less probable than this, relative to the other, is left out
FIRST = 0.7  # first steps of the search
STEPS, FURTHEST, LEAST = 3, 3.0, 1e-3  # towards a given rise of the cost: how many, by which factor, and from what rise
# Of expectation propagation: how many sweeps, those without damping, the share of a step with it, and the change of a
# difference, in units of S, that ends them.
SWEEPS, FREE, DAMPED, SETTLED = 60, 4, 0.5, 1e-3


@dataclass(frozen=True)
class Expectation:
    """What is expected of people's scores before any vote, in units of their spread S.

    Parameters
    ----------
    columns : X, the parts of the machine's view, (n, D), each of variance 1; D = 0 without a machine.
    mean, variance : b₀ and the diagonal of V, (D,).
    group : The group of each text, (n,), or None.
    between, within : The usual ω² and σ², as shares of S².
    against : The probability that the judge goes another way: b then has the mean 0, and variances b₀² + V.
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
        """The expectation with and without the judge's going with people, each with its probability."""
        if self.against == 0.0:
            return ((1.0, self),)
        other = replace(self, mean=np.zeros_like(self.mean), variance=self.mean**2 + self.variance)
        return (1.0 - self.against, self), (self.against, other)

    def of(self, nodes: Index) -> Expectation:
        """The expectation of some of the texts."""
        return replace(self, columns=self.columns[nodes], group=None if self.group is None else self.group[nodes])


def voted(votes: Comparisons, graph: Graph, expectation: Expectation, limits: Limits = LIMITS) -> Voted:
    """People's scores of all texts of a graph, from votes about some of them.

    `graph.first` and `graph.second` (K,) are the texts of each vote, and all its contexts are connected, by what is
    expected. A vote for the first text has p = 1, for the second p = 0, for neither p = ½.

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
    ways = [(chance, way, *_explored(votes, graph, way, limits)) for chance, way in expectation.ways]
    log = np.array([np.log(chance) + size for chance, _, _, size in ways])
    equal = _about_voted(votes, graph, expectation, limits)(np.log([NARROWEST])).evidence
    share = np.exp(log - np.max(log))
    share[share < RARE] = 0.0
    share /= np.sum(share)
    points: list[Point] = []
    for part, (_, way, places, _) in zip(share.tolist(), ways, strict=True):
        if part > 0:
            whole = _Posterior.of(votes, graph, way, limits)
            points += [replace(whole.at(h), share=part / len(places)) for h in places]
    return Voted.of(tuple(points), equal=float(expit(logit(EQUAL) + equal - np.logaddexp.reduce(log))))


def _explored(votes: Comparisons, graph: Graph, expectation: Expectation, limits: Limits) -> tuple[list[Array], float]:
    """Where the posterior of (log S, log ω², log σ²) has its mass: equally probable points, and log of its size."""
    at = _about_voted(votes, graph, expectation, limits)
    spread = np.log(SPREAD)
    has_groups = expectation.group is not None
    free = [True, has_groups, has_groups or expectation.columns.shape[1] > 0]  # with neither, S is σ
    usual, error = np.array([spread, 0.0, 0.0])[free], np.array([SPREAD_ERROR, VARIES, VARIES])[free]

    low, high = usual - FAR * error, usual + FAR * error
    low[0], high[0] = np.log(NARROWEST), np.log(WIDEST)

    def cost(h: Array) -> float:
        return float(0.5 * np.sum(((h - usual) / error) ** 2)) - at(np.clip(h, low, high)).evidence

    simplex = np.vstack([usual, usual + FIRST * np.eye(len(usual))])
    best = scipy.optimize.minimize(
        cost,
        usual.tolist(),
        method="Nelder-Mead",
        options={"maxfev": MOST, "xatol": NEAR, "fatol": NEAR, "initial_simplex": simplex},
    ).x
    middle, rise = cost(best), 0.5 * len(usual)  # √d standard deviations away: the cubature of a normal distribution
    points, reached, furthest = [], [], float(np.sqrt(len(usual)))  # where the prior alone decides
    for way in (*np.diag(error), *-np.diag(error)):
        reach = 1.0
        for _ in range(STEPS):
            risen = max(cost(best + reach * way) - middle, LEAST)
            reach = min(reach * float(np.clip(np.sqrt(rise / risen), 1.0 / FURTHEST, FURTHEST)), furthest)
        points.append(np.clip(best + reach * way, low, high))
        reached.append(reach)
    deviations = np.reshape(reached, (2, -1)).mean(axis=0) / np.sqrt(len(usual))
    size = float(np.sum(np.log(deviations)))  # Laplace: relative to those of the prior
    return points, size - middle


def _about_voted(
    votes: Comparisons, graph: Graph, expectation: Expectation, limits: Limits
) -> Callable[[Array], Point]:
    """The posterior as a function of the logarithms of S, ω² and σ², about the texts with votes only.

    The evidence is the same as with all texts. Sites start where they settled last.
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
    """The model with its `choices`; `columns` (n, M) are groups and the machine's parts, the last of variance V."""

    choices: Choices
    expectation: Expectation
    columns: Array
    is_group: Mask

    @classmethod
    def of(cls, votes: Comparisons, graph: Graph, expectation: Expectation, limits: Limits) -> _Posterior:
        choices = Choices.of(votes, graph, False, limits).with_plain_biases()
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
        between = spread**2 * usual.between * (relative.pop(0) if relative and usual.group is not None else 1.0)
        within = spread**2 * usual.within * (relative.pop(0) if relative else 1.0)
        prior = np.where(self.is_group, between, spread**2)
        expected = graph.centre(spread * usual.columns @ usual.mean)
        pattern = self.choices.pattern
        choices = replace(self.choices, offset=expected[pattern.first] - expected[pattern.second])
        before: Array | float = np.inf

        def solved(choices: Choices, _: int) -> tuple[Choices, _Solved, float]:
            nonlocal before
            found = _Solved.of(choices, self.columns, within, prior)
            last, before = before, found.mean
            return choices, found, distance(before, last)

        def learn(choices: Choices, found: _Solved, sweep: int) -> Choices:
            return choices.learn(found.mean, found.variance, 1.0 if sweep < FREE else DAMPED)

        choices, found, _, _ = settle(choices, solved, learn, SETTLED * spread, SWEEPS)
        own = ~self.is_group
        part, half = np.sqrt(usual.variance), np.linalg.cholesky(found.error)
        error = part[:, None] * found.error[np.ix_(own, own)] * part
        return Point(
            scores=graph.centre(expected + found.scores),
            laplacian=found.laplacian,
            root=found.follow @ half,
            mean=expected + self.columns @ found.theta,
            lead=self.columns @ half,
            coefficient=spread * usual.mean + part * found.theta[own],
            error=error,
            evidence=choices.evidence(found.evidence, found.mean, found.variance),
            choices=choices,
            variance=within + (between if usual.group is not None else 0.0),
        )


@dataclass(frozen=True, eq=False)
class _Solved:
    """s = M θ + δ given the sites: δ ~ N(0, σ²), θ ~ N(0, R).

    With H = L + λ, λ = 1/σ², F = λH⁻¹M, C = λMᵀ(M − F) and g = Fᵀb:  Cov θ = (C + R⁻¹)⁻¹, s = H⁻¹b + F θ, and

        log ∫ exp(−½ sᵀL s + bᵀs) = ½ [bᵀH⁻¹b + gᵀ Cov(θ) g − log det(H/λ) − log det(I + R C)].

    `rest` is the bracket without log det H. `mean` and `variance` (M,) are those of the difference of every pair, in
    the pattern's order.
    """

    laplacian: Laplacian
    scores: Array
    follow: Array
    theta: Array
    error: Array
    rest: float
    mean: Array
    variance: Array

    @property
    def evidence(self) -> float:
        """The logarithm of the integral."""
        return 0.5 * (self.rest - log_det(self.laplacian))

    @classmethod
    def of(cls, choices: Choices, columns: Array, within: float, prior: Array) -> _Solved:
        system, ridge = choices.system, 1.0 / within
        laplacian, b = system.laplacian(ridge), system.rhs
        found = laplacian.solve(np.column_stack([b, ridge * columns]), accuracy=1e-9)
        start, follow = found[:, 0], found[:, 1:]
        known, pulled, root = ridge * columns.T @ (columns - follow), follow.T @ b, np.sqrt(prior)
        inner = np.eye(len(prior)) + root[:, None] * known * root
        error = root[:, None] * np.linalg.inv(inner) * root
        theta = error @ pulled
        rest = float(b @ start + pulled @ theta + len(b) * np.log(ridge) - np.linalg.slogdet(inner).logabsdet)
        error = 0.5 * (error + error.T)
        solution = Solution(start + follow @ theta, laplacian, 1, True)
        apart = differences(solution, follow, error)
        return cls(laplacian, solution.x, follow, theta, error, rest, *apart)
