"""Prediction-powered scores of groups: people's votes, with a machine's answers to reduce their variance.

Scores θ of G groups and a position bias γ are those of Bradley–Terry, d = θ_first − θ_second − γ, with x the row of the
design and H = Σ w·σ(d)σ(−d)·x xᵀ. A machine's surprise about a pair is r = p − σ(d̂), with d̂ from its own fit to all of
its answers. The estimate is

    θ = θ_people − Σ_j λ_j · H_people⁻¹ Σ w·x·r_j,    the sum over the pairs that people voted on.

The surprises of a machine sum to 0 over all of its answers, so the second term has the expectation 0 for every λ:
a machine that is wrong about groups changes only the width. Where a vote is surprising because of the two texts, the
machine's answer to the same pair is surprising too, and their difference varies less than the vote. This is prediction-
powered inference (Angelopoulos et al. 2023, arXiv 2311.01453) to first order. Because the surprise is a residual of the
machine's own fit, people and machine may be asked about different mixes of pairs.

λ minimises the sum of the variances of all θ; it is 0 for a machine with hardly any answers beyond people's pairs. The
variances are cluster-robust: a cluster is a context, with the answers of people and machines about it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import expit

from comparo.data.comparisons import Comparisons
from comparo.model.inference.newton import Problem
from comparo.model.likelihoods.bradley_terry import BradleyTerry, logistic_curvature
from comparo.model.linalg.graph import Graph, Pattern
from comparo.model.tuning import EXPECTED, NOTHING_NEW, WIDE
from comparo.rounding import TINY
from comparo.types import Array, Index

ROUNDS, SETTLED = 50, 1e-4  # most updates of the pseudo-votes, and the change of scores (logits) that ends them


@dataclass(frozen=True, eq=False)
class GroupAnswers:
    """K answers about groups: the groups shown `first` and `second`, `p`, `weight` and `cluster`, each (K,)."""

    first: Index
    second: Index
    p: Array
    weight: Array
    cluster: Index

    def __len__(self) -> int:
        return len(self.p)

    def take(self, rows: Any) -> GroupAnswers:
        """The answers in `rows`."""
        return GroupAnswers(**{name: column[rows] for name, column in vars(self).items()})

    def apart(self, x: Array) -> Array:
        """d of each answer, (K,), for the scores and γ in `x` (G + 1,)."""
        return np.asarray(x[self.first] - x[self.second] - x[-1])


@dataclass(frozen=True, eq=False)
class GroupFit:
    """Bradley–Terry scores of G groups, and the score contributions (gradients) of each cluster of answers.

    `x` (G + 1,) are the scores and γ, `inverse` (G + 1, G + 1) is H⁻¹; `pulls` (C, G + 1) is Σ w·x·(p − σ(d)) over the
    answers of each cluster; `dispersion` is the variance of the answers relative to that of coin flips.
    """

    answers: GroupAnswers
    x: Array
    inverse: Array
    pulls: sparse.csr_array
    dispersion: float

    @property
    def scores(self) -> Array:
        """θ (G,), with mean 0."""
        return self.x[:-1] - np.mean(self.x[:-1])

    @property
    def gain(self) -> Array:
        """The matrix (G, G + 1) that maps pulls to centred scores: the centred rows of H⁻¹."""
        return np.asarray(self.inverse[:-1] - np.mean(self.inverse[:-1], axis=0))

    @cached_property
    def clusters(self) -> int:
        """How many clusters have answers."""
        return len(np.unique(self.answers.cluster))

    @property
    def freedom(self) -> float:
        """Degrees of freedom of `covariance`: those of a group's own answers plus `EXPECTED` (Smyth 2004).

        They are at most (C − 1)·(G − 1), because the expected variance is scaled by the mean over all groups.
        """
        groups = len(self.x) - 1
        own = max(min(self.clusters - 1, len(self.answers) - groups), 1)
        return min(own + EXPECTED, float(own * (groups - 1)))

    @property
    def correction(self) -> float:
        """√[C/(C − 1)·(K − 1)/(K − G)], the small-sample correction of cluster-robust standard errors."""
        many, count = self.clusters, len(self.answers)
        left = max(count - len(self.x) + 1, 1)
        return float(np.sqrt(max(many, 2) / max(many - 1, 1) * max(count - 1, 1) / left))

    @property
    def robust(self) -> Array:
        """The cluster-robust covariance of θ, (G, G)."""
        gain = self.correction * self.gain
        return np.asarray(gain @ (self.pulls.T @ self.pulls).toarray() @ gain.T)

    def covariance(self, robust: Array) -> Array:
        """Shrink the cluster-robust covariance `robust` (G, G) towards the covariance expected by Bradley–Terry.

        The expected covariance is H⁻¹ times the dispersion of the answers, or larger where the trace of `self.robust`
        is larger; it is multiplied by the trace of `robust` relative to that of `self.robust`. The variance of a group
        with n clusters of answers is the mean of both with the weights n and `EXPECTED`: three votes that were all won
        hardly estimate a variance.
        """
        own = self.robust
        groups = len(own)
        centre = np.eye(groups) - 1.0 / groups
        expected = self.gain[:, :-1] @ centre
        total = max(float(np.trace(own)), TINY)  # 0 where every vote is a tie
        larger = max(total / float(np.trace(expected)), self.dispersion)
        expected *= larger * float(np.trace(robust)) / total
        met = np.concatenate([self.answers.first, self.answers.second]).astype(np.int64)
        clusters = self.pulls.shape[0]
        pairs = np.unique(met * clusters + np.tile(self.answers.cluster, 2))
        share = EXPECTED / (EXPECTED + np.bincount(pairs // clusters, minlength=groups))
        mixed = np.sqrt(np.outer(1 - share, 1 - share)) * robust
        mixed += np.sqrt(np.outer(share, share)) * expected
        return centre @ mixed @ centre


@dataclass(frozen=True, eq=False)
class PoweredScores:
    """The prediction-powered `scores` (G,), their `covariance` (G, G), and the `weight` λ (J,) of each machine."""

    scores: Array
    covariance: Array
    weight: Array


def fitted(answers: GroupAnswers, groups: int, clusters: int, is_reduced: bool = False) -> GroupFit:
    """Fit Bradley–Terry to groups by maximum likelihood with a wide prior.

    With `is_reduced` the bias of the estimate away from 0 is removed (Firth 1993): each cell of the design gets
    φ·leverage extra votes, half of them for each side. The dispersion φ is first that of coin flips, then that of the
    answers around this fit, so that a group that won all of its votes keeps its extra votes.

    >>> first = np.array([0, 1, 0, 1])
    >>> answers = GroupAnswers(first, 1 - first, 1.0 - first, np.ones(4), np.arange(4))
    >>> [float(np.round(np.ptp(fitted(answers, 2, 4, is_reduced).scores), 1)) for is_reduced in (False, True)]
    [5.1, 2.4]
    """
    cells = Cells.of(answers, groups)
    x, more = cells.maximum(np.zeros(groups + 1), np.zeros(len(cells.answers)))
    if is_reduced:
        x, more = cells.reduced(x, float(np.sum(answers.weight**2) / np.sum(answers.weight)))
        x, more = cells.reduced(x, cells.dispersion(answers, x))
    return GroupFit(
        answers, x, cells.inverse(x, more), _pulls(answers, x, groups, clusters), cells.dispersion(answers, x)
    )


def powered(people: GroupFit, machines: Sequence[tuple[GroupFit, GroupAnswers]]) -> PoweredScores:
    """Combine people's fit with machines: the fit of each to all of its answers, and its answers to the voted pairs.

    For each pair, the weights of a machine's answers must sum to the weights of the votes.

    >>> from dataclasses import replace
    >>> rng = np.random.default_rng(0)
    >>> first, second = np.zeros(400, int), np.ones(400, int)
    >>> texts, one = rng.normal(0.5, 2.0, 400), np.ones(400)
    >>> machine = GroupAnswers(first, second, expit(texts - 1.0), one, np.arange(400))
    >>> asked = machine.take(slice(40))
    >>> votes = replace(asked, p=(texts[:40] > 0).astype(float))
    >>> people = fitted(votes, 2, 400, is_reduced=True)
    >>> found = powered(people, [(fitted(machine, 2, 400), asked)])
    >>> bool(np.trace(found.covariance) < 0.5 * np.trace(people.covariance(people.robust)))
    True
    """
    size, gain = len(people.x), people.correction * people.gain
    adds, shifts, is_new = [people.pulls @ gain.T], [], []
    for machine, asked in machines:
        pulls = _pulls(asked, machine.x, size - 1, people.pulls.shape[0])
        seen = _squares(asked, asked.weight * logistic_curvature(asked.apart(machine.x)), size - 1)
        voted = pulls @ gain.T
        adds.append(machine.pulls @ (gain @ seen @ machine.inverse).T - voted)
        shifts.append(-people.gain @ np.asarray(pulls.sum(axis=0)))
        is_new.append(np.sum(adds[-1] ** 2) > NOTHING_NEW * np.sum(voted**2))
    weight, used = np.zeros(len(machines)), np.flatnonzero(is_new)
    if len(used):
        parts = np.array([adds[number + 1].ravel() for number in used])
        weight[used] = -np.linalg.lstsq(parts @ parts.T, parts @ adds[0].ravel())[0]
    total = adds[0] + sum(own * part for own, part in zip(weight.tolist(), adds[1:], strict=True))
    scores = people.scores + sum(own * shift for own, shift in zip(weight.tolist(), shifts, strict=True))
    return PoweredScores(scores, people.covariance(total.T @ total), weight)


@dataclass(frozen=True, eq=False)
class Cells:
    """The `answers` pooled by (first, second) group, with their mean p and total weight."""

    answers: GroupAnswers
    pattern: Pattern
    ridge: Array

    @classmethod
    def of(cls, answers: GroupAnswers, groups: int) -> Cells:
        cell, which = np.unique(answers.first.astype(np.int64) * groups + answers.second, return_inverse=True)
        first, second = (part.astype(np.int32) for part in np.divmod(cell, groups))
        weight, won = (np.bincount(which, w).astype(np.float64) for w in (answers.weight, answers.weight * answers.p))
        nodes = np.arange(groups, dtype=np.int32)
        graph = Graph(nodes, 0 * nodes, np.array([0, groups]), 0 * nodes, first, second)  # the prior connects all
        pattern = Pattern(graph, np.zeros(len(cell), dtype=np.int32))
        return cls(GroupAnswers(first, second, won / weight, weight, first), pattern, np.full(groups + 1, WIDE**-2))

    def maximum(self, start: Array, more: Array) -> tuple[Array, Array]:
        """The most probable x with `more` extra votes in each cell, half of them for each side; and `more`."""
        cells, weight = self.answers, self.answers.weight + more
        p = (cells.weight * cells.p + more / 2) / weight
        data = Comparisons(self.pattern.graph.item, cells.first, cells.second, p, weight)
        return Problem.of(self.pattern, BradleyTerry(), data, self.ridge).maximise(start).x, more

    def reduced(self, x: Array, dispersion: float) -> tuple[Array, Array]:
        """The most probable x with dispersion·leverage extra votes in each cell, and these votes."""
        for _ in range(ROUNDS):
            information = self.answers.weight * logistic_curvature(self.answers.apart(x))
            leverage = information * _forms(self.inverse(x, 0.0), self.answers)
            before, (x, more) = x, self.maximum(x, dispersion * leverage)
            if np.max(np.abs(x - before)) < SETTLED:
                break
        return x, more

    def inverse(self, x: Array, more: Array | float) -> Array:
        """(Σ weight·σ(d)σ(−d)·x xᵀ + ridge)⁻¹ with `more` extra votes in each cell, (G + 1, G + 1)."""
        information = (self.answers.weight + more) * logistic_curvature(self.answers.apart(x))
        squares = _squares(self.answers, information, len(x) - 1)
        return np.asarray(np.linalg.inv(squares + np.diag(self.ridge)), dtype=np.float64)

    def dispersion(self, answers: GroupAnswers, x: Array) -> float:
        """φ: the variance of the answers, relative to that of coin flips; below 1 for ties and probabilities."""
        squares = float(np.sum((answers.weight * (answers.p - expit(answers.apart(x)))) ** 2))
        information = float(np.sum(self.answers.weight * logistic_curvature(self.answers.apart(x))))
        return squares / information * len(answers) / max(len(answers) - len(x) + 1, 1)


def _pulls(answers: GroupAnswers, x: Array, groups: int, clusters: int) -> sparse.csr_array:
    """Σ w·x·(p − σ(d)) over the answers of each cluster, (C, G + 1)."""
    left = answers.weight * (answers.p - expit(answers.apart(x)))
    columns = np.concatenate([answers.first, answers.second, np.full(len(answers), groups)])
    entries = np.concatenate([left, -left, -left]), (np.tile(answers.cluster, 3), columns)
    return sparse.csr_array(entries, shape=(clusters, groups + 1))


def _squares(answers: GroupAnswers, c: Array, groups: int) -> Array:
    """Σ c·x xᵀ of the rows x of the design, (G + 1, G + 1)."""
    total = np.zeros((groups + 1, groups + 1))
    ends = ((answers.first, 1.0), (answers.second, -1.0), (np.full(len(c), groups), -1.0))
    for (column, sign), (other, its) in product(ends, ends):
        np.add.at(total, (column, other), sign * its * c)
    return total


def _forms(matrix: Array, answers: GroupAnswers) -> Array:
    """xᵀ·matrix·x for each row x of the design, where `matrix` is symmetric."""
    first, second, own = answers.first, answers.second, np.diagonal(matrix)
    crossed = matrix[first, second] + matrix[first, -1] - matrix[second, -1]
    apart = own[first] + own[second] + own[-1] - 2 * crossed
    return np.asarray(np.where(first == second, own[-1], apart))
