"""The leaderboard: mean scores of groups, such as systems, over many contexts, with intervals for new contexts.

The groups are compared by the mixed model of the same comparisons (`random_effects`), with one difference: the means of
groups have no prior, and no group is drawn towards the others. The contexts are a random sample: the error of a mean
includes the variance of a group's texts from context to context, and the uncertainty of the estimated variances.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, stdtr, stdtrit

from comparo.model.tuning import NARROWEST, WIDEST
from comparo.ranking.ranks import tier_numbers
from comparo.ranking.tabular import Columns, Tabular, json_rows, json_text, plain
from comparo.rounding import merge_ties
from comparo.types import Array, LongIndex

Over = Literal["new", "these"]
NORMAL = 1e9  # degrees of freedom above which Student's t is normal
SPREADS = 200  # values of ω on the grid: steps of 3%
SINGULAR = 1e-9  # eigenvalue of a covariance, relative to the largest, that is 0
DRAWS = 10_000  # of all means, for P(best): its error is at most 0.005


@dataclass(frozen=True, eq=False)
class Leaderboard(Tabular):
    """The groups of a ranking, best first: their mean scores, and the uncertainty of their order.

    Arrays have one entry per group, shape (G,), best first. `len(board)` is G, and `print(board)` shows the table.

    Parameters
    ----------
    group : The name of each group.
    score : Its mean score, in the ranking's logits; the mean of all groups is 0.
    covariance : Of the mean scores, (G, G).
    freedom : Degrees of freedom of the Student's t of the errors; infinite where they are normal.
    level : The coverage of intervals.
    over : "new": intervals are for the mean over all contexts that could have been drawn; "these": for these only.
    wins : (G, G), the probability that the judge prefers a text of the row's group to one of the column's, mean over
        pairs of texts in contexts of at most 4,096 texts, NaN where there are none; ½ on the diagonal.
    won : The expected number of contexts whose best text is of the group: the sum of P(best) of its texts; where one
        choice decided a context, P(best) is 1 for its winner and ½ for either text of a tie.
    notes : What a reader must know before trusting the scores.
    texts, contexts, calls : How many texts it has, in how many contexts, and how many comparisons they are in.

    Examples
    --------
    >>> from comparo import fit
    >>> pairs = [("a", "b", 0.8), ("b", "a", 0.3), ("b", "c", 0.6), ("c", "a", 0.2)]
    >>> rows = [{"context": c, "first": i, "second": j, "p": p + c / 40} for c in range(6) for i, j, p in pairs]
    >>> board = fit(rows, groups="items", prior="estimated").groups()
    >>> board.group.tolist(), board.tier.tolist(), round(float(board.wins[0, 2]), 2)
    (['a', 'b', 'c'], [1, 2, 3], 0.8)
    """

    group: NDArray[Any]
    score: Array
    covariance: Array
    freedom: float
    level: float
    over: Over
    wins: Array
    won: Array
    texts: LongIndex
    contexts: LongIndex
    calls: LongIndex
    notes: tuple[str, ...] = ()

    @classmethod
    def ordered(cls, scores: Array, covariance: Array, wins: Array, columns: Columns, **others: Any) -> Leaderboard:
        """The leaderboard of G groups in any order: their scores, (G, G) matrices and further columns (G,) by name."""
        order = np.argsort(-merge_ties(scores), kind="stable")
        covariance, wins = (matrix[np.ix_(order, order)] for matrix in (covariance, wins))
        each: dict[str, Any] = {name: column[order] for name, column in columns.items()}
        return cls(score=scores[order], covariance=covariance, wins=wins, **each, **others)

    def __len__(self) -> int:
        return len(self.group)

    @property
    def std(self) -> Array:
        """Standard error of each mean score."""
        return np.sqrt(np.diagonal(self.covariance))

    def _reach(self, sides: float) -> float:
        """The t quantile of an interval, in standard errors, so that `sides` ends hold jointly (Bonferroni)."""
        return float(stdtrit(min(self.freedom, NORMAL), 1 - (1 - self.level) / sides))

    @property
    def low(self) -> Array:
        """Lower end of each mean score's interval."""
        return self.score - self._reach(2) * self.std

    @property
    def high(self) -> Array:
        """Upper end of each mean score's interval."""
        return self.score + self._reach(2) * self.std

    @cached_property
    def _error(self) -> Array:
        """The standard error of m_g − m_h, (G, G)."""
        variance = np.diagonal(self.covariance)
        return np.sqrt(np.maximum(variance[:, None] + variance - 2 * self.covariance, 0.0))

    @cached_property
    def _ratio(self) -> Array:
        """(m_g − m_h) in its standard errors, (G, G); 0 where the standard error is 0."""
        apart = self.score[:, None] - self.score
        return np.divide(apart, self._error, out=np.zeros_like(apart), where=self._error > 0)

    @property
    def rank(self) -> LongIndex:
        """1 for the best; equal scores share a rank."""
        return np.asarray(1 + np.sum(self.score > self.score[:, None] + 1e-9, axis=1))

    @property
    def best_rank(self) -> LongIndex:
        """The best rank that the group may have: 1 + the number of groups surely better, jointly at `level`."""
        reach = self._reach(2 * max(len(self) - 1, 1))
        return np.asarray(1 + np.sum(self._ratio < -reach, axis=1))

    @property
    def worst_rank(self) -> LongIndex:
        """The worst rank that the group may have: G − the number of groups surely worse."""
        reach = self._reach(2 * max(len(self) - 1, 1))
        return np.asarray(len(self) - np.sum(self._ratio > reach, axis=1))

    @property
    def tier(self) -> LongIndex:
        """1 for the best tier; groups that cannot be distinguished share one.

        A tier ends before the first group that is surely worse than the best of the tier. The test is corrected for
        all G(G − 1)/2 pairs: the probability that any equal groups are split is at most 1 − `level`.
        """
        sure = self._ratio > self._reach(len(self) * max(len(self) - 1, 1))
        return tier_numbers(len(self), lambda best: sure[best, best:])

    @cached_property
    def best(self) -> Array:
        """P(each group is the best), from draws of all means m under the prior m ~ N(0, ω²).

        Without a prior P(best) of the leader, which is partly lucky, would be too large. In the eigenvectors of the
        covariance, with eigenvalues v, a mean score z is N(0, v + ω²), and m given ω is
        N(z·ω²/(ω² + v), v·ω²/(ω² + v)). ω is drawn too, with a uniform prior (Gelman 2006).
        """
        rng = np.random.default_rng(0)
        values, vectors = np.linalg.eigh(self.covariance)
        v, z = np.maximum(values, 0.0), vectors.T @ self.score
        spread = np.geomspace(NARROWEST, WIDEST, SPREADS)
        own = v > SINGULAR * np.max(v, initial=0.0)  # not the mean of all, which is 0
        total = v[own] + spread[:, None] ** 2
        height = np.log(spread) - 0.5 * np.sum(np.log(total) + z[own] ** 2 / total, axis=1)  # steps of log ω
        chance = np.exp(height - np.max(height))
        omega = rng.choice(spread, (DRAWS, 1), p=chance / np.sum(chance))
        share = omega**2 / (omega**2 + v)
        freedom = min(self.freedom, NORMAL)
        heavy = np.sqrt(freedom / rng.chisquare(freedom, (DRAWS, 1)))
        # Drawn for the groups and then rotated to the eigenvectors, whose signs differ between machines.
        noise = rng.standard_normal((DRAWS, len(self))) @ vectors
        drawn = (share * z + heavy * np.sqrt(share * v) * noise) @ vectors.T
        return np.bincount(np.argmax(drawn, axis=1), minlength=len(self)) / DRAWS

    def probability(self, one: Hashable, other: Hashable) -> float:
        """P(the mean score of `one` is higher than that of `other`), given the comparisons."""
        a, b = self._place(one), self._place(other)
        return float(stdtr(min(self.freedom, NORMAL), self._ratio[a, b]))

    def difference(self, one: Hashable, other: Hashable) -> tuple[float, float, float]:
        """The difference of two mean scores and the ends of its interval at `level`."""
        a, b = self._place(one), self._place(other)
        apart = float(self.score[a] - self.score[b])
        reach = self._reach(2) * float(self._error[a, b])
        return apart, apart - reach, apart + reach

    def _place(self, group: Hashable) -> int:
        names: list[Any] = self.group.tolist()
        if group not in names:
            raise KeyError(f"there is no group {group!r}; there are {', '.join(map(repr, names[:8]))}")
        return names.index(group)

    def to_columns(self) -> dict[str, NDArray[Any]]:
        """The table as columns, best first."""
        names = ("group", "score", "std", "low", "high", "rank", "best_rank", "worst_rank", "tier", "best")
        wins = (np.sum(self.wins, axis=1) - 0.5) / max(len(self) - 1, 1)
        counts = {"won": self.won, "contexts": self.contexts, "texts": self.texts, "comparisons": self.calls}
        return {name: getattr(self, name) for name in names} | {"win_rate": wins} | counts

    def to_json(self) -> str:
        """The table and the win rates as one JSON object."""
        names = [str(name) for name in self.group.tolist()]
        rows = (map(plain, row) for row in self.wins)
        wins = {name: dict(zip(names, row, strict=True)) for name, row in zip(names, rows, strict=True)}
        document: dict[str, Any] = {"contexts": self.over, "level": self.level}
        document |= {"groups": json_rows(self.to_columns()), "wins": wins}
        document |= {"notes": list(self.notes)} if self.notes else {}
        return json_text(document)

    def __repr__(self) -> str:
        return f"<Leaderboard of {len(self)} groups over {self.over} contexts: {', '.join(map(str, self.group[:3]))}>"


def win_probability(difference: Array, variance: Array) -> Array:
    """E σ(d) for d ~ N(difference, variance), by σ(difference / √(1 + π·variance/8)).

    >>> win_probability(np.array([0.0, 1.0, 1.0]), np.array([1.0, 0.0, 4.0])).round(3)
    array([0.5  , 0.731, 0.651])
    """
    return expit(difference / np.sqrt(1.0 + np.pi / 8.0 * variance))
