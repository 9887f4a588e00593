"""Grades by cut points on a scale, by boundary texts, or by shares of the texts, with the probability of each.

A predicted score with standard error e and ν degrees of freedom is above a cut point c with the probability
P(T_ν > (c − score)/e). A text i reaches a grade whose boundary is the text b with the probability
P(s_i > s_b), from draws of the boundary texts in their order; s are posterior means, or shrunk to such where a method
has no prior. By shares, the probability is that of a rank among the best, from draws of all scores.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, stdtr

from comparo.data.columns import as_number
from comparo.data.grammar import read_settings
from comparo.errors import OptionError
from comparo.ranking.ranking import Ranking
from comparo.ranking.ranks import components, places
from comparo.rounding import TINY
from comparo.types import Array, LongIndex

DRAWS = 2000  # of boundary texts: probabilities have a Monte Carlo error of 0.01
ORDERED = 0.01  # the least share of draws in which boundary texts are in their order
LEAST_RELIABILITY = 0.1  # the least reliability of a score that is assumed
NEAR = 0.2  # another grade is named if its probability is lower by at most this, as 0.4 beside 0.6


@dataclass(frozen=True)
class Grading:
    """The names of the grades, best first, and what separates each from the next.

    These are cut points, shares of the texts, or `boundaries`: ids of texts that just reach a grade.

    >>> Grading.of("A>=85, B>=70, C")
    Grading(names=('A', 'B', 'C'), limits=(85.0, 70.0), is_shares=False, boundaries=())
    >>> Grading.of("A:10%, B:25%")
    Grading(names=('A', 'B', 'below B'), limits=(0.1, 0.35), is_shares=True, boundaries=())
    >>> Grading.of("A>=essay:1, B>='7'").boundaries
    ('essay:1', '7')
    """

    names: tuple[str, ...]
    limits: tuple[float, ...]
    is_shares: bool
    boundaries: tuple[str, ...] = ()

    @property
    def needs_anchors(self) -> bool:
        """Whether the limits are scores on the scale of anchors."""
        return not self.is_shares and not self.boundaries

    @classmethod
    def of(cls, text: str) -> Self:
        """Parse grades as in the examples; a last name without a limit is that of the texts below all limits."""
        is_shares = ">=" not in text
        sign = ":" if is_shares else ">="
        parts, comma, last = text.rpartition(",")
        if not comma or re.search(">=|:|^\\s*$", last):
            parts, last = text, ""
        names, values = (list(each) for each in zip(*read_settings(parts, sign=sign), strict=True))
        limits = np.array([as_number(value.removesuffix("%")) for value in values])
        is_bounded = not is_shares and all(values) and not np.isfinite(limits).any()
        for name, value, limit in zip(names, values, limits, strict=True):
            if not is_bounded and (not np.isfinite(limit) or value.endswith("%") != is_shares):
                meant = "is not NAME>=NUMBER or NAME:SHARE%; or write all as NAME>=ID, with the ids of boundary texts"
                raise OptionError("grades", text, f"has {name + sign + value!r}, which {meant}")
        boundaries = tuple(re.sub("^(['\"])(.*)\\1$", r"\2", name) for name in values) if is_bounded else ()
        if is_bounded:
            limits = limits[:0]
        elif is_shares:
            if np.any(limits <= 0) or limits.sum() > 100 * (1 + 1e-9):
                raise OptionError("grades", text, "has shares that are not above 0% and at most 100% together")
            limits = np.cumsum(limits / 100)
        elif np.any(np.diff(limits) >= 0):
            remedy = "is not in order; write the best grade first, each with a lower limit than the one before"
            raise OptionError("grades", text, remedy)
        names.append(last.strip() or f"below {names[-1]}")
        if len(set(names)) < len(names):
            raise OptionError("grades", text, "names a grade twice; give each its own name")
        return cls(tuple(names), tuple(limits.tolist()), is_shares, boundaries)

    def by_cuts(self, score: Array, std: Array, degrees: LongIndex) -> tuple[NDArray[Any], Array]:
        """The grade of each score (n,), and the probability of each grade (n, G), by predictive t distributions.

        They are "" and NaN where the score is NaN; the probability is NaN where `std` is.

        >>> grade, probability = Grading.of("A>=85, B").by_cuts(np.array([88.0]), np.array([3.0]), np.array([8]))
        >>> grade.tolist(), probability.round(2).tolist()
        (['A'], [[0.83, 0.17]])
        """
        cuts, width = np.array(self.limits), np.maximum(std, TINY)[:, None]
        with np.errstate(over="ignore"):
            above = stdtr(np.maximum(degrees, 1)[:, None], (score[:, None] - cuts) / width)
        place = np.where(np.isnan(score), len(self.names), np.sum(score[:, None] < cuts, axis=1))
        return np.array([*self.names, ""], dtype=object)[place], _differences(np.asarray(above))

    def by_shares(self, ranking: Ranking) -> tuple[NDArray[Any], Array]:
        """The grade of each candidate (n,) by its rank in its component, and the probability of each grade (n, G)."""
        size = np.bincount(ranking.graph.component)[ranking.graph.component]
        last = np.floor(np.outer(size, self.limits) + 0.5 + 1e-9).astype(np.int64)
        within = np.zeros(last.shape)
        for k in np.unique(last[last > 0]).tolist():
            among = places(ranking.scores, ranking.covariance, ranking.level, k)[2]
            within = np.where(last == k, among[:, None], within)
        place = np.sum(ranking.rank[:, None] > last, axis=1)
        return np.array(self.names, dtype=object)[place], _differences(within)

    def by_boundaries(self, ranking: Ranking) -> tuple[NDArray[Any], Array]:
        """The grade of each candidate (n,) by the boundary texts of its component, and the probability of each (n, G).

        They are "" and NaN where a component lacks one of these texts. A boundary text is at its limit, so its
        probability to reach the grade is ½.

        >>> from comparo import fit
        >>> ranking = fit([("a", "b", 0.9), ("b", "c", 0.9), ("a", "c", 0.99)], "mixed")
        >>> grade, probability = Grading.of("A>=b, B").by_boundaries(ranking)
        >>> grade.tolist(), probability[1].tolist()
        (['A', 'A', 'B'], [0.5, 0.5])
        """
        names, above = ranking.items.astype(str), np.full((len(ranking), len(self.boundaries)), np.nan)
        place = np.full(len(ranking), len(self.names))
        if missing := [name for name in self.boundaries if name not in names]:
            raise ValueError(
                f"the grades name {missing[0]!r}, which is no number and no text of the ranking; correct it"
            )
        for members, block in components(ranking.covariance):
            limits = [members[names[members] == name] for name in self.boundaries]
            if not all(map(len, limits)):
                continue
            at = np.concatenate(limits) - members[0]
            above[members], place[members] = self._reached(ranking, members, block, at)
        return np.array([*self.names, ""], dtype=object)[place], _differences(above)

    def _reached(
        self, ranking: Ranking, members: NDArray[np.intp], block: Array | None, at: NDArray[np.intp]
    ) -> tuple[Array, LongIndex]:
        """P(each text of a component reaches each grade), (m, G − 1), and the index of its grade, (m,).

        `at` are the boundary texts. Each is known to be better than the next, so draws in another order are dropped;
        given a draw of these, the other scores are normal.
        """
        rho, score = _posterior(ranking, members)
        own = rho * ranking.std[members] ** 2
        shared = np.zeros((len(members), len(at)))
        if block is not None:
            shared = rho[:, None] * block[:, at] * rho[at]
        between = shared[at]
        np.fill_diagonal(between, own[at])
        rng = np.random.default_rng(0)
        drawn = rng.multivariate_normal(score[at], between, size=DRAWS, method="eigh")
        drawn = drawn[np.all(np.diff(drawn, axis=1) < 0, axis=1)]
        if len(drawn) < ORDERED * DRAWS:
            names = " and ".join(map(repr, self.boundaries))
            raise ValueError(f"the boundary texts {names} are not in this order, the best first; check the grades")
        jitter = 1e-9 * np.trace(between) * np.eye(len(at))
        gain = np.linalg.solve(between + jitter, shared.T)
        mean = score + (drawn - score[at]) @ gain
        std = np.sqrt(np.maximum(own - np.sum(shared * gain.T, axis=1), TINY))
        chances = [np.mean(ndtr((mean - limit[:, None]) / std), axis=0) for limit in drawn.T]
        above = np.stack(chances, axis=1)
        above[at, np.arange(len(at))] = 0.5
        place = np.sum(score[:, None] < drawn.mean(axis=0), axis=1)
        place[at] = np.arange(len(at))
        return above, place

    def near(self, grade: NDArray[Any], probability: Array) -> NDArray[Any]:
        """The most probable other grade, where its probability is at most `NEAR` below that of the grade; else "".

        >>> probability = np.array([[0.55, 0.4, 0.05], [0.75, 0.2, 0.05]])
        >>> Grading.of("A>=85, B>=70, C").near(np.array(["A", "A"]), probability).tolist()
        ['B', '']
        """
        names = np.array(self.names, dtype=object)
        is_own = grade[:, None] == names
        own = np.sum(np.where(is_own, probability, 0.0), axis=1)
        others = np.where(is_own, -1.0, probability)
        best = np.argmax(others, axis=1)
        is_near = np.max(others, axis=1) >= own - NEAR  # not where they are NaN
        return np.where(is_near, names[best], "")


def _posterior(ranking: Ranking, members: NDArray[np.intp]) -> tuple[Array, Array]:
    """The reliability ρ of the scores of a component, (m,): 1 for posterior means; and these means s̄ + ρ(s − s̄).

    Given an estimate s with the error variance v, and the variance σ² of true scores, the true score has the posterior
    mean s̄ + ρ(s − s̄), ρ = σ²/(σ² + v), and the variance ρv.
    """
    s, v = ranking.scores[members], ranking.std[members] ** 2
    if ranking.solution.is_shrunk:
        return np.ones(len(members)), s
    spread = max(float(np.var(s) - np.mean(v)), LEAST_RELIABILITY * float(np.mean(v)), TINY)
    rho = spread / (spread + v)
    return rho, np.mean(s) + rho * (s - np.mean(s))


def _differences(above: Array) -> Array:
    """P(each of G grades), shape (n, G), from P(the grade or a better one) of all but the last, (n, G − 1)."""
    none, every = np.zeros((len(above), 1)), np.where(np.isnan(above[:, :1]), np.nan, 1.0)
    return np.diff(np.hstack([none, above, every]), axis=1)
