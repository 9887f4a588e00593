"""Scores of groups by people's votes, made more exact by a machine's answers of which nothing is assumed.

Scores θ of G groups and a position bias γ are those of Bradley–Terry, d = θ_first − θ_second − γ, with x the row of the
design and H = Σ w·σ(d)σ(−d)·x xᵀ. A machine's surprise about a pair is r = p − σ(d̂), with d̂ from its own fit to all of
its answers. The estimate is

    θ = θ_people − Σ_j λ_j · H_people⁻¹ Σ w·x·r_j,    the sum over the pairs that people voted on.

The surprises of a machine sum to 0 over all of its answers, so the second term has the expectation 0 for every λ, and
a machine that is wrong about groups changes the width only. Where a vote is surprising because of the two texts, the
machine's answer to the same pair is surprising too, and their difference varies less than the vote. This is prediction-
powered inference (Angelopoulos et al. 2023, arXiv 2311.01453) to first order; since the surprise is about the machine's
own fit, people and machine may be asked about different mixes of pairs.

λ minimises the sum of the variances of all θ. They come from what each cluster of answers (a context) adds to θ, with
the answers of people and machines about the same context in the same cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse
from scipy.special import expit

from comparo.data.comparisons import Comparisons
from comparo.model.inference.newton import Problem
from comparo.model.likelihoods.bradley_terry import BradleyTerry, logistic_curvature
from comparo.model.linalg.graph import Graph, Pattern
from comparo.model.tuning import EXPECTED, NOTHING_NEW, WIDE
from comparo.types import Array, Index

ROUNDS, SETTLED = 50, 1e-4  # of pseudo-votes, until no score moves by more (logits)


@dataclass(frozen=True, eq=False)
class Answers:
    """K answers about groups: the groups shown `first` and `second`, `p`, `weight` and `cluster`, each (K,)."""

    first: Index
    second: Index
    p: Array
    weight: Array
    cluster: Index

    def __len__(self) -> int:
        return len(self.p)


@dataclass(frozen=True, eq=False)
class Fit:
    """Bradley–Terry scores of G groups, and what each cluster of answers adds to them.

    `x` (G + 1,) are the scores and γ, `inverse` (G + 1, G + 1) is H⁻¹; `pulls` (C, G + 1) is Σ w·x·(p − σ(d)) over the
    answers of each cluster; `dispersion` is the variance of the answers relative to that of coin flips.
    """

    answers: Answers
    x: Array
    inverse: Array
    pulls: sparse.csr_array
    dispersion: float

    @property
    def scores(self) -> Array:
        """θ (G,), with mean 0."""
        return np.asarray(self.x[:-1] - np.mean(self.x[:-1]))

    @property
    def gain(self) -> Array:
        """H⁻¹ from pulls to centred scores, (G, G + 1)."""
        return np.asarray(self.inverse[:-1] - np.mean(self.inverse[:-1], axis=0))

    @cached_property
    def clusters(self) -> int:
        """How many clusters have answers."""
        return len(np.unique(self.answers.cluster))

    @property
    def freedom(self) -> float:
        """Degrees of freedom of `covariance`: those of a group's own answers and of the expected variance (Smyth 2004).

        The latter is scaled by the mean of all groups, which has (C − 1)·(G − 1) itself.
        """
        groups = len(self.x) - 1
        own = max(min(self.clusters - 1, len(self.answers) - groups), 1)
        return min(own + EXPECTED, float(own * (groups - 1)))

    @property
    def correction(self) -> float:
        """√ of C/(C − 1)·(K − 1)/(K − G): residuals are smaller than errors, by the parameters that were fitted."""
        many, count = self.clusters, len(self.answers)
        left = max(count - len(self.x) + 1, 1)
        return float(np.sqrt(max(many, 2) / max(many - 1, 1) * max(count - 1, 1) / left))

    @property
    def robust(self) -> Array:
        """The covariance of θ from the clusters alone, (G, G)."""
        gain = self.correction * self.gain
        return np.asarray(gain @ (self.pulls.T @ self.pulls).toarray() @ gain.T)

    def covariance(self, robust: Array) -> Array:
        """`robust`, an estimate from the clusters alone, drawn towards what Bradley–Terry expects, (G, G).

        The expected covariance is that of Bradley–Terry, H⁻¹ times the dispersion of the answers, or larger where the
        clusters say so for the mean of all groups; smaller by as much as `robust` is below that of these answers. The
        variance of a group with n clusters of answers is the mean of both with the weights n and `EXPECTED`: three
        votes that all were won say little of how much votes vary.
        """
        own = self.robust
        groups = len(own)
        centre = np.eye(groups) - 1.0 / groups
        expected = self.gain[:, :-1] @ centre
        total = max(float(np.trace(own)), np.finfo(float).tiny)  # 0 where every vote is a tie
        expected *= max(total / float(np.trace(expected)), self.dispersion) * float(np.trace(robust)) / total
        met = np.concatenate([self.answers.first, self.answers.second]).astype(np.int64)
        pairs = np.unique(met * self.pulls.shape[0] + np.tile(self.answers.cluster, 2)) // self.pulls.shape[0]
        share = EXPECTED / (EXPECTED + np.bincount(pairs, minlength=groups))
        mixed = np.sqrt(np.outer(1 - share, 1 - share)) * robust + np.sqrt(np.outer(share, share)) * expected
        return np.asarray(centre @ mixed @ centre)


@dataclass(frozen=True, eq=False)
class Estimate:
    """People's scores with the help of J machines: `scores` (G,), `covariance` (G, G), and λ (J,)."""

    scores: Array
    covariance: Array
    weight: Array


def fitted(answers: Answers, groups: int, clusters: int, is_reduced: bool = False) -> Fit:
    """Bradley–Terry of groups, at its maximum with a wide prior.

    With `is_reduced` the bias of the maximum away from 0 is removed (Firth 1993): each cell of the design has
    φ·leverage more votes, half of them for each side. The dispersion φ is first that of coin flips, then that of the
    answers about the fit with these votes: a group that won all of its votes does not make them vanish.

    >>> first = np.array([0, 1, 0, 1])
    >>> answers = Answers(first, 1 - first, 1.0 - first, np.ones(4), np.arange(4))
    >>> [float(np.round(np.ptp(fitted(answers, 2, 4, is_reduced).scores), 1)) for is_reduced in (False, True)]
    [5.1, 2.4]
    """
    cells = Cells.of(answers, groups)
    x, more = cells.maximum(np.zeros(groups + 1), np.zeros(len(cells.weight)))
    if is_reduced:
        x, more = cells.reduced(x, float(np.sum(answers.weight**2) / np.sum(answers.weight)))
        x, more = cells.reduced(x, cells.dispersion(answers, x))
    inverse = _inverse(cells.curvature(x, cells.weight + more) + np.diag(cells.ridge))
    return Fit(answers, x, inverse, _pulls(answers, x, groups, clusters), cells.dispersion(answers, x))


def powered(people: Fit, machines: Sequence[tuple[Fit, Answers]]) -> Estimate:
    """People's scores, with the fit of each machine to all of its answers and its answers to the pairs voted on.

    The weights of the latter sum, for each pair, to those of the votes.

    >>> from dataclasses import replace
    >>> rng = np.random.default_rng(0)
    >>> first, second = np.zeros(400, int), np.ones(400, int)
    >>> texts, one = rng.normal(0.5, 2.0, 400), np.ones(400)
    >>> machine = Answers(first, second, expit(texts - 1.0), one, np.arange(400))
    >>> votes = Answers(*(part[:40] for part in (first, second, (texts > 0).astype(float), one, np.arange(400))))
    >>> asked = replace(votes, p=machine.p[:40])
    >>> people = fitted(votes, 2, 400, is_reduced=True)
    >>> found = powered(people, [(fitted(machine, 2, 400), asked)])
    >>> bool(np.trace(found.covariance) < 0.5 * np.trace(people.covariance(people.robust)))
    True
    """
    size, count = len(people.x), len(machines)
    gain = people.correction * people.gain
    parts, ways, shifts = [people.pulls], np.zeros((count + 1, size - 1, (2 * count + 1) * size)), []
    ways[0, :, :size] = gain
    for number, (machine, asked) in enumerate(machines):
        pulls = _pulls(asked, machine.x, size - 1, people.pulls.shape[0])
        d = machine.x[asked.first] - machine.x[asked.second] - machine.x[-1]
        seen = _squares(asked.first, asked.second, asked.weight * logistic_curvature(d), size - 1)
        begin = (2 * number + 1) * size
        ways[number + 1, :, begin : begin + size] = gain @ seen @ machine.inverse
        ways[number + 1, :, begin + size : begin + 2 * size] = -gain
        parts += [machine.pulls, pulls]
        shifts.append(-people.gain @ np.asarray(pulls.sum(axis=0)))
    stacked = sparse.hstack(parts, format="csr")
    gram = (stacked.T @ stacked).toarray()
    traces = np.einsum("agm,mn,bgn->ab", ways, gram, ways, optimize=True)
    weight = _weights(traces, ways, gram, size)
    way = ways[0] + np.tensordot(weight, ways[1:], 1)
    shift = np.tensordot(weight, np.array(shifts).reshape(count, size - 1), 1)
    return Estimate(people.scores + shift, people.covariance(way @ gram @ way.T), weight)


@dataclass(frozen=True, eq=False)
class Cells:
    """The answers as a table: the `weight` of all that show group `first` before `second`, and what the first `won`."""

    pattern: Pattern
    first: Index
    second: Index
    weight: Array
    won: Array
    ridge: Array

    @classmethod
    def of(cls, answers: Answers, groups: int) -> Cells:
        cell, which = np.unique(answers.first.astype(np.int64) * groups + answers.second, return_inverse=True)
        first, second = (part.astype(np.int32) for part in np.divmod(cell, groups))
        weight, won = (np.bincount(which, w).astype(np.float64) for w in (answers.weight, answers.weight * answers.p))
        nodes = np.arange(groups, dtype=np.int32)
        graph = Graph(nodes, 0 * nodes, np.array([0, groups]), 0 * nodes, first, second)  # the prior connects all
        pattern = Pattern(graph, np.zeros(len(cell), dtype=np.int32))
        return cls(pattern, first, second, weight, won, np.full(groups + 1, WIDE**-2))

    def maximum(self, start: Array, more: Array) -> tuple[Array, Array]:
        """The most probable x with `more` votes in each cell, half of them for each side; and these."""
        weight = self.weight + more
        data = Comparisons(self.pattern.graph.item, self.first, self.second, (self.won + more / 2) / weight, weight)
        return Problem.of(self.pattern, BradleyTerry(), data, self.ridge).maximise(start).x, more

    def reduced(self, x: Array, dispersion: float) -> tuple[Array, Array]:
        """The most probable x with dispersion·leverage more votes in each cell; and these."""
        for _ in range(ROUNDS):
            inverse = _inverse(self.curvature(x, self.weight) + np.diag(self.ridge))
            leverage = self.weight * logistic_curvature(self.apart(x)) * _forms(inverse, self.first, self.second)
            before, (x, more) = x, self.maximum(x, dispersion * leverage)
            if np.max(np.abs(x - before)) < SETTLED:
                break
        return x, more

    def apart(self, x: Array) -> Array:
        """d of each cell."""
        return np.asarray(x[self.first] - x[self.second] - x[-1])

    def curvature(self, x: Array, weight: Array) -> Array:
        """Σ weight·σ(d)σ(−d)·x xᵀ, (G + 1, G + 1)."""
        return _squares(self.first, self.second, weight * logistic_curvature(self.apart(x)), len(x) - 1)

    def dispersion(self, answers: Answers, x: Array) -> float:
        """φ: the variance of the answers, relative to that of coin flips; below 1 for ties and probabilities."""
        expected = expit(x[answers.first] - x[answers.second] - x[-1])
        squares = float(np.sum((answers.weight * (answers.p - expected)) ** 2))
        information = float(np.sum(self.weight * logistic_curvature(self.apart(x))))
        return squares / information * len(answers) / max(len(answers) - len(x) + 1, 1)


def _weights(traces: Array, ways: Array, gram: Array, size: int) -> Array:
    """λ (J,), which minimises the trace of the covariance; 0 for a machine that was asked little else than people."""
    weight = np.zeros(len(traces) - 1)
    used = []
    for number in range(len(weight)):
        own = slice((2 * number + 2) * size, (2 * number + 3) * size)
        voted = ways[number + 1, :, own]
        if traces[number + 1, number + 1] > NOTHING_NEW * np.sum((voted @ gram[own, own]) * voted):
            used.append(number + 1)
    if used:
        weight[np.array(used) - 1] = -np.linalg.lstsq(traces[np.ix_(used, used)], traces[used, 0])[0]
    return weight


def _pulls(answers: Answers, x: Array, groups: int, clusters: int) -> sparse.csr_array:
    """Σ w·x·(p − σ(d)) over the answers of each cluster, (C, G + 1)."""
    left = answers.weight * (answers.p - expit(x[answers.first] - x[answers.second] - x[-1]))
    columns = np.concatenate([answers.first, answers.second, np.full(len(answers), groups)])
    entries = np.concatenate([left, -left, -left]), (np.tile(answers.cluster, 3), columns)
    return sparse.csr_array(entries, shape=(clusters, groups + 1))


def _squares(first: Index, second: Index, c: Array, groups: int) -> Array:
    """Σ c·x xᵀ, (G + 1, G + 1)."""
    size = groups + 1
    signed = [(first.astype(np.int64), c), (second.astype(np.int64), -c), (np.full(len(c), groups), -c)]
    total = np.zeros(size**2)
    for column, own in signed:
        for other, sign in zip((first, second, groups), (1.0, -1.0, -1.0), strict=True):
            total += np.bincount(column * size + other, sign * own, size**2)
    return total.reshape(size, size)


def _forms(matrix: Array, first: Index, second: Index) -> Array:
    """xᵀ·matrix·x for each row x of the design, where `matrix` is symmetric."""
    own = np.diagonal(matrix)
    crossed = matrix[first, second] + matrix[first, -1] - matrix[second, -1]
    return np.asarray(np.where(first == second, own[-1], own[first] + own[second] + own[-1] - 2 * crossed))


def _inverse(matrix: Array) -> Array:
    return np.asarray(np.linalg.inv(matrix), dtype=np.float64)
