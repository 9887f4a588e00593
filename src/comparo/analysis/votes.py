"""The votes of people beside the answers of one judge, on the pairs that both judged.

A vote is the verdict of a person on a pair, by the mean of that person's answers; every pair is turned so that the item
with the lower code is the first. The answers of the judge are there as said and without its position bias: from each
answer p, as the judge saw the pair, logit p + γ, with γ = −median(logit p) over all its answers. That is the bias where
the better text was shown first as often as second; −logit(mean p) would be too small where texts differ much.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from comparo.analysis.annotators import Verdicts, judge_code
from comparo.analysis.shares import Clusters
from comparo.data.columns import shown
from comparo.data.comparisons import Comparisons
from comparo.errors import ComparisonsError
from comparo.types import Array


@dataclass(frozen=True, eq=False)
class Votes:
    """V votes of people on pairs that a judge answered too.

    Parameters
    ----------
    person : The code of the person, shape (V,).
    said, judged : The verdict of the person and of the judge: 1 for the first item, −1 for the second, 0 a tie, (V,).
    p, fair : P(the first item is better) of the judge, as said and without its position bias, shape (V,).
    clusters : The pair, the texts and the context of each vote.
    unit : What is drawn for intervals of κ and α, shape (V,).
    """

    person: NDArray[np.int32]
    said: NDArray[np.int64]
    judged: NDArray[np.int64]
    p: Array
    fair: Array
    clusters: Clusters
    unit: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.said)

    @property
    def decided(self) -> NDArray[np.bool_]:
        """Where neither the person nor the judge called a tie, shape (V,)."""
        return np.asarray((self.said != 0) & (self.judged != 0))

    def take(self, rows: NDArray[np.bool_]) -> Votes:
        """Some of the votes, by a mask (V,)."""
        columns = ("person", "said", "judged", "p", "fair", "unit")
        some: dict[str, Any] = {name: getattr(self, name)[rows] for name in columns}
        return replace(self, **some, clusters=self.clusters.take(rows))


@dataclass(frozen=True, eq=False)
class Panel:
    """People and judges on the same pairs: the comparisons, who is a person, and all verdicts.

    `fair` are the verdicts without the position bias of each judge that is not a person.
    """

    comparisons: Comparisons
    people: NDArray[np.int64]
    judges: NDArray[np.int64]
    verdicts: Verdicts
    fair: Verdicts

    @classmethod
    def of(cls, comparisons: Comparisons, people: Collection[Hashable]) -> Panel:
        """A panel of the comparisons, of which `people` are the judges that are people; all others are judges.

        >>> data = Comparisons.from_columns(["x", "x"], ["y", "y"], [1, 0.8], judge=["ana", "gpt"])
        >>> Panel.of(data, ["ana"]).judges.tolist()
        [1]
        """
        if isinstance(people, str):
            raise TypeError(f"people is a list of judges, such as [{people!r}], not a single name")
        if not people:
            known = [] if comparisons.judges is None else comparisons.judges.tolist()
            raise ComparisonsError(f"name the people among the judges {', '.join(map(shown, known[:20])) or '(none)'}")
        codes = np.unique([judge_code(comparisons, name) for name in people])
        judges = np.setdiff1d(np.unique(comparisons.judged_by), codes)
        if not len(judges):
            raise ComparisonsError(
                "every judge of the comparisons is a person; add the answers of the judge to compare"
            )
        panel = cls(
            comparisons, codes, judges, Verdicts.of(comparisons), Verdicts.of(without_bias(comparisons, judges))
        )
        together = [judge for judge in judges if len(panel.votes(judge))]
        if not together:
            raise ComparisonsError(
                "no pair was judged by a person and by a judge as well: put the pairs of the people to the judge "
                "(comparo judge PAIRS --items TEXTS …), and check that items and contexts have the same names"
            )
        return replace(panel, judges=np.array(together))

    def name(self, code: int) -> Any:
        """The label of a judge."""
        assert self.comparisons.judges is not None
        return self.comparisons.judges[code]

    def clusters(self, pair: NDArray[np.int64]) -> Clusters:
        """What belongs together, of pairs by their numbers; a text is an item of a context."""
        told, size = self.verdicts, np.int64(len(self.comparisons.items))
        context = told.context[pair]
        return Clusters(pair, context * size + told.low[pair], context * size + told.high[pair], context)

    def texts(self, pair: NDArray[np.int64]) -> NDArray[np.int64] | None:
        """Both texts of pairs, (2, P), where pairs are what is drawn for intervals; None where contexts are."""
        clusters, unit = self.clusters(pair), self.verdicts.unit
        return np.stack([clusters.first, clusters.second]) if len(unit) == unit.max(initial=-1) + 1 else None

    def votes(self, judge: int) -> Votes:
        """The votes of all people on the pairs of a judge."""
        told, size = self.verdicts, len(self.verdicts.unit)
        own = told.judge == judge
        answers = np.full((3, size), np.nan)
        answers[:, told.pair[own]] = told.said[own], told.p[own], self.fair.p[own]
        rows = np.flatnonzero(np.isin(told.judge, self.people) & ~np.isnan(answers[1, told.pair]))
        pair = told.pair[rows]
        judged, p, fair = answers[:, pair]
        return Votes(
            told.judge[rows], told.said[rows], judged.astype(np.int64), p, fair, self.clusters(pair), told.unit[pair]
        )

    def shares(self) -> tuple[Array, Array]:
        """How many people judged each pair, and the mean of their p for the first item, a tie being ½: (M,)."""
        told, size = self.verdicts, len(self.verdicts.unit)
        person = np.isin(told.judge, self.people)
        count = np.bincount(told.pair[person], minlength=size)
        won = np.bincount(told.pair[person], told.p[person], size)
        return count.astype(np.float64), won / np.maximum(count, 1)

    def between_people(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """The pair and both verdicts of any two people on the same pair, each of shape (T,)."""
        told = self.verdicts
        rows = np.flatnonzero(np.isin(told.judge, self.people))
        rows = rows[np.argsort(told.pair[rows], kind="stable")]
        pair, said = told.pair[rows], told.said[rows]
        found = [(np.empty(0, dtype=np.int64),) * 3]
        for shift in range(1, len(self.people)):
            same = np.flatnonzero(pair[shift:] == pair[:-shift])
            found.append((pair[same], said[same], said[same + shift]))
        first, *others = (np.concatenate(columns) for columns in zip(*found, strict=True))
        return first, others[0], others[1]


def without_bias(comparisons: Comparisons, judges: NDArray[np.int64]) -> Comparisons:
    """The comparisons with the position bias of some judges removed from each answer: logit p + γ.

    Decisions and ties have no such bias to remove, and stay as they are.

    >>> data = Comparisons.from_rows([("x", "y", 0.8), ("y", "x", 0.8)])
    >>> without_bias(data, np.array([0])).p.round(3)
    array([0.5, 0.5])
    """
    p = comparisons.p.copy()
    for judge in judges.tolist():
        own = comparisons.judged_by == judge
        if not comparisons.take(own).hard:
            with np.errstate(divide="ignore"):
                said = logit(p[own])
            middle = float(np.median(said))
            p[own] = expit(said - (middle if np.isfinite(middle) else 0.0))
    return replace(comparisons, p=p)
