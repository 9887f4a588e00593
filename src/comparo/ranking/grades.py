"""Grades by cut points on a scale, by boundary texts, or by shares of the texts, with the probability of each.

A predicted score with standard error e and ν degrees of freedom is above a cut point c with the probability
P(T_ν > (c − score)/e). A text i reaches a grade whose boundary is the text b with the probability
Φ((s_i − s_b)/√Var(s_i − s_b)). By shares, the probability is that of a rank among the best, from draws of all scores.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr

from comparo.data.columns import as_number
from comparo.ranking.ranks import beats, components, places
from comparo.types import Array

if TYPE_CHECKING:
    from comparo.ranking.ranking import Ranking

NEAR = 0.2  # another grade is named whose probability is lower by at most this: 0.6 to 0.4 for two


@dataclass(frozen=True)
class Grading:
    """The names of the grades, best first, and what separates each from the next.

    These are cut points, shares of the texts, or `boundaries`: ids of texts that just reach a grade.

    >>> Grading.of("A>=85, B>=70, C")
    Grading(names=('A', 'B', 'C'), limits=(85.0, 70.0), is_shares=False, boundaries=())
    >>> Grading.of("A:10%, B:25%")
    Grading(names=('A', 'B', 'below B'), limits=(0.1, 0.35), is_shares=True, boundaries=())
    >>> Grading.of("A>=ana, B>='7'").boundaries
    ('ana', '7')
    """

    names: tuple[str, ...]
    limits: tuple[float, ...]
    is_shares: bool
    boundaries: tuple[str, ...] = ()

    @property
    def needs_anchors(self) -> bool:
        """Whether its limits are scores."""
        return not self.is_shares and not self.boundaries

    @classmethod
    def of(cls, text: str) -> Self:
        """The grades that are written so; the last name may stand alone, for the texts below all limits."""
        parts = [part.strip() for part in text.split(",")]
        last = parts.pop() if len(parts) > 1 and not re.search(">=|:", parts[-1]) else None
        found = [re.fullmatch(r"(.*[^\s])\s*(>=|:)\s*([^%]*)(%?)", part) for part in parts]
        matches = [match for match in found if match is not None]
        texts = [match[3].strip() for match in matches if match[2] == ">=" and not match[4] and _limit(match) is None]
        is_bounded = len(texts) == len(parts) and all(texts)
        wrong = [part for part, match in zip(parts, found, strict=True) if match is None or _limit(match) is None]
        if last == "" or (wrong and not is_bounded):
            raise ValueError(
                f"grades={text!r}: {(wrong or [''])[0]!r} is not NAME>=NUMBER or NAME:SHARE%; or write all as "
                "NAME>=ID, with the ids of boundary texts"
            )
        is_shares = matches[0][2] == ":"
        if len({match[2] for match in matches}) > 1:
            raise ValueError(
                f"grades={text!r} mixes cut points and shares; write all as NAME>=NUMBER, or as NAME:SHARE%"
            )
        boundaries = tuple(re.sub("^(['\"])(.*)\\1$", r"\2", name) for name in texts)
        limits = np.array([] if is_bounded else [_limit(match) for match in matches], dtype=float)
        if is_shares:
            if np.any(limits <= 0) or limits.sum() > 1 + 1e-9:
                raise ValueError(f"grades={text!r}: shares are above 0% and at most 100% together")
            limits = np.cumsum(limits)
        elif any(one <= other for one, other in pairwise(limits)):
            raise ValueError(
                f"grades={text!r}: write the best grade first, each with a lower limit than the one before"
            )
        names = [match[1] for match in matches]
        names.append(last or f"below {names[-1]}")
        if len(set(names)) < len(names):
            raise ValueError(f"grades={text!r} names a grade twice; give each its own name")
        return cls(tuple(names), tuple(limits.tolist()), is_shares, boundaries)

    def by_cuts(self, score: Array, std: Array, degrees: NDArray[np.int64]) -> tuple[NDArray[Any], Array]:
        """The grade of each score (n,), and the probability of each grade (n, G), by predictive t distributions.

        They are "" and NaN where the score is NaN; the probability is NaN where `std` is.

        >>> grade, probability = Grading.of("A>=85, B").by_cuts(np.array([88.0]), np.array([3.0]), np.array([8]))
        >>> grade.tolist(), probability.round(2).tolist()
        (['A'], [[0.83, 0.17]])
        """
        cuts, width = np.array(self.limits), np.maximum(std, np.finfo(float).tiny)[:, None]
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
            nodes = np.concatenate(limits)
            variances, at = ranking.std**2, nodes - members[0]
            shared = 0.0 if block is None else block[:, at]
            variance = variances[members][:, None] + variances[nodes] - 2 * shared
            apart = ranking.scores[members][:, None] - ranking.scores[nodes]
            above[members] = np.maximum.accumulate(beats(apart, variance), axis=1)
            place[members] = np.sum(np.maximum.accumulate(apart, axis=1) < 0, axis=1)
        return np.array([*self.names, ""], dtype=object)[place], _differences(above)

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


def _differences(above: Array) -> Array:
    """P(each of G grades), shape (n, G), from P(the grade or a better one) of all but the last, (n, G − 1)."""
    none, every = np.zeros((len(above), 1)), np.where(np.isnan(above[:, :1]), np.nan, 1.0)
    return np.diff(np.hstack([none, above, every]), axis=1)


def _limit(match: re.Match[str]) -> float | None:
    """The number of a part of `Grading.of`; None where there is none."""
    value = as_number(match[3].strip())
    is_wrong = not np.isfinite(value) or (match[2] == ":") != (match[4] == "%")
    return None if is_wrong else value / (100 if match[4] else 1)
