"""Votes of people and answers of a judge on the same pairs: shares with clustered intervals, and rank correlation.

A vote is the verdict of a person on a pair, by the mean of that person's answers; the item with the lower code is the
first of every pair. The judge's answers are used as given and without its position bias: logit p + γ for each answer p,
with γ = −median(logit p) over all its answers. That is the bias where the better text was shown first as often as
second; −logit(mean p) would be too small where texts differ much.

The variance of a mean of observations y from 0 to 1 comes from residuals e = y − ȳ, summed over clusters:

    contexts:  V = C/(C − 1) · Σ_c S_c² / n²,                S_c = Σ e of context c
    texts:     V = N/(N − 2) · (Σ_i S_i² − Σ_d S_d²) / n²,   S_i = Σ e of pairs with text i,  S_d = Σ e of pair d

The second allows any two pairs that share a text to be correlated (the dyadic variance of Aronow, Samii and Assenova
2015), and is used where there are fewer than `CONTEXTS` contexts; it is at least that of pairs. The interval is
Wilson's with n_eff = ȳ(1 − ȳ)/V observations, which stays between 0 and 1 and has a width even where all observations
are equal, and with Student's t in place of the normal quantile: C − 1 degrees of freedom, or N/2, since N texts make at
most N/2 pairs without a common text. N/(N − 2) and N/2 were chosen among seven forms by simulated coverage; at settings
that played no part in the choice, 95% intervals cover in 93 to 96% of cases (the last ones of tests/test_agree.py).

The rank correlation r of the judge's ranking with the one that people would give after infinitely many votes is
ρ / q: ρ is the correlation with the ranking of the votes there are, and q the expected correlation of people's ranking
with their own true one (`confidence.expected_spearman`). Its interval is

    tanh(atanh ρ ± z·s) / q,    s² = (1 + ρ²/2) / (N − 3)  (Bonett and Wright 2000) for N texts of one context,

or, with several contexts, ρ ± t·(the standard error of the mean over contexts), divided by q.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, ndtri, stdtrit

from comparo.analysis.confidence import expected_spearman
from comparo.analysis.correlations import mean_known, spearman_within
from comparo.data.columns import shown
from comparo.data.comparisons import Comparisons
from comparo.data.wordings import few
from comparo.errors import ComparisonsError, Message
from comparo.methods import quiet_fit
from comparo.metrics import CONTEXTS, Verdicts, judge_code
from comparo.ranking.criteria_ranking import aligned
from comparo.ranking.self_consistency import wilson
from comparo.ranking.votes import check_people, shared_ids
from comparo.types import Array

Codes = NDArray[np.integer]
AgreementRow = dict[str, Any]  # of a table
KNOWN = 0.5  # q below which people's own ranking, and so ρ / q, is mostly noise
RANKED = 5  # texts of a context for a correlation: Fisher's transformation needs more than 3


@dataclass(frozen=True, slots=True)
class Share:
    """A share, its interval, the number of observations (votes) and of pairs behind it; NaN where there are none.

    `effective` is the number of independent observations with the same variance.
    """

    value: float
    low: float
    high: float
    votes: int
    pairs: int
    effective: float

    @property
    def std(self) -> float:
        """The standard error, √(value·(1 − value)/effective)."""
        return float(np.sqrt(self.value * (1 - self.value) / self.effective)) if self.votes else np.nan


@dataclass(frozen=True, eq=False)
class Clusters:
    """The clusters of each observation: its pair, both texts and the context, each of shape (V,)."""

    pair: Codes
    first: Codes
    second: Codes
    context: Codes

    def take(self, rows: NDArray[np.bool_] | Codes) -> Self:
        """Some of the observations, by their numbers or a mask (V,)."""
        return type(self)(**{name: column[rows] for name, column in vars(self).items()})


def share_of(y: Array, clusters: Clusters, level: float = 0.95) -> Share:
    """The mean of y (V,) with its interval.

    >>> y, codes = np.array([1.0, 1.0, 0.0, 1.0]), np.arange(4)
    >>> found = share_of(y, Clusters(codes, 2 * codes, 2 * codes + 1, codes * 0))
    >>> found.value, 0 < found.low < 0.75 < found.high < 1
    (0.75, True)
    """
    votes = len(y)
    if not votes:
        return Share(np.nan, np.nan, np.nan, 0, 0, 0.0)
    value = float(np.mean(y))
    residual = y - value
    pair, pairs = _codes(clusters.pair)
    context, contexts = _codes(clusters.context)
    by_pair = float(np.sum(np.bincount(pair, residual) ** 2))
    if contexts >= CONTEXTS:
        square = float(np.sum(np.bincount(context, residual) ** 2)) * contexts / (contexts - 1)
        freedom = contexts - 1.0
    else:
        text, texts = _codes(np.concatenate([clusters.first, clusters.second]))
        sums = np.bincount(text, np.concatenate([residual, residual]))
        total = max(float(np.sum(sums**2)) - by_pair, by_pair)
        square = total * texts / max(texts - 2, 1)
        freedom = texts / 2
    independent = float(value * (1 - value) * votes**2 / square) if square > 1e-12 else np.inf
    effective = min(independent, votes if square > 1e-12 else pairs)
    reach = float(stdtrit(freedom, (1 + level) / 2))
    return Share(value, *wilson(value, effective, reach), votes, pairs, effective)


def _codes(labels: Codes) -> tuple[NDArray[np.intp], int]:
    names, codes = np.unique(labels, return_inverse=True)
    return codes, len(names)


@dataclass(frozen=True, eq=False)
class Votes(Clusters):
    """V votes of people on pairs that a judge answered too, with their clusters.

    Parameters
    ----------
    said, judged : The verdict of the person and of the judge: 1 for the first item, −1 for the second, 0 a tie, (V,).
    fair : P(the first item is better) of the judge without its position bias, shape (V,).
    """

    said: NDArray[np.int64]
    judged: NDArray[np.int64]
    fair: Array

    def __len__(self) -> int:
        return len(self.said)

    @property
    def decided(self) -> NDArray[np.bool_]:
        """Where neither the person nor the judge called a tie, shape (V,)."""
        return np.asarray((self.said != 0) & (self.judged != 0))


@dataclass(frozen=True, eq=False)
class JudgesAndPeople:
    """People and judges on the same pairs: the comparisons, who is a person, and all verdicts.

    `fair` are the verdicts without the position bias of each judge that is not a person.
    """

    comparisons: Comparisons
    people: NDArray[np.int64]
    judges: NDArray[np.int64]
    verdicts: Verdicts
    fair: Verdicts

    @classmethod
    def of(cls, comparisons: Comparisons, people: Collection[Hashable]) -> JudgesAndPeople:
        """A panel of the comparisons, of which `people` are the judges that are people; all others are judges.

        >>> data = Comparisons.from_columns(["x", "x"], ["y", "y"], [1, 0.8], judge=["ana", "gpt"])
        >>> JudgesAndPeople.of(data, ["ana"]).judges.tolist()
        [1]
        """
        check_people(None, people)
        if not people:
            known = [] if comparisons.judges is None else comparisons.judges.tolist()
            raise ComparisonsError(Message("name the {people}") + f" of the judges {few(map(shown, known)) or 'none'}")
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

    def pair_keys(self) -> NDArray[np.int64]:
        """A number for each comparison (K,): equal for the same two items and context, in the order of the verdicts."""
        return replace(self.comparisons, judges=None, judge=None).pair_keys()

    def clusters(self, pair: NDArray[np.int64]) -> Clusters:
        """The clusters of pairs, given by their numbers; a text is an item of a context."""
        verdicts, size = self.verdicts, np.int64(len(self.comparisons.items))
        context = verdicts.context[pair]
        return Clusters(pair, context * size + verdicts.low[pair], context * size + verdicts.high[pair], context)

    def texts(self, pair: NDArray[np.int64]) -> NDArray[np.int64] | None:
        """Both texts of pairs, (2, P), if the bootstrap draws pairs; None if it draws contexts."""
        clusters, unit = self.clusters(pair), self.verdicts.unit
        return np.stack([clusters.first, clusters.second]) if len(unit) == unit.max(initial=-1) + 1 else None

    def votes(self, judge: int) -> Votes:
        """The votes of all people on the pairs of a judge."""
        verdicts = self.verdicts
        own = verdicts.judge == judge
        answers = np.full((2, len(verdicts.unit)), np.nan)
        answers[:, verdicts.pair[own]] = verdicts.said[own], self.fair.p[own]
        rows = np.flatnonzero(np.isin(verdicts.judge, self.people) & ~np.isnan(answers[0, verdicts.pair]))
        pair = verdicts.pair[rows]
        judged, fair = answers[:, pair]
        return Votes(
            **vars(self.clusters(pair)),
            said=verdicts.said[rows],
            judged=judged.astype(np.int64),
            fair=fair,
        )

    def shares(self) -> tuple[Array, Array]:
        """How many people judged each pair, and the mean of their p for the first item, a tie being ½: (M,)."""
        verdicts, size = self.verdicts, len(self.verdicts.unit)
        person = np.isin(verdicts.judge, self.people)
        count = np.bincount(verdicts.pair[person], minlength=size)
        won = np.bincount(verdicts.pair[person], verdicts.p[person], size)
        return count.astype(np.float64), won / np.maximum(count, 1)

    def between_people(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """The pair and both verdicts of any two people on the same pair, each of shape (T,)."""
        verdicts = self.verdicts
        rows = np.flatnonzero(np.isin(verdicts.judge, self.people))
        rows = rows[np.argsort(verdicts.pair[rows], kind="stable")]
        pair, said = verdicts.pair[rows], verdicts.said[rows]
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


def rank_correlation(panel: JudgesAndPeople, judge: int, level: float) -> AgreementRow:
    """The correlation of the judge's ranking with people's after infinitely many votes, its interval, and q.

    Items that are in several contexts, such as systems that answer many questions, are ranked over all contexts.
    Contexts of fewer than 5 texts, or whose pairs do not connect all texts, have no rank correlation;
    nor is there one where q is below ½, since people's own ranking is then mostly noise.
    """
    quality, correlations, texts = _ranked(panel, judge)
    observed = mean_known(correlations) if quality >= KNOWN else np.nan
    ends = _reach(float(np.clip(observed, -0.999, 0.999)), correlations, texts, level)
    found, low, high = np.clip(np.array([observed, *ends]) / quality, -1.0, 1.0).tolist()
    return {"correlation": found, "correlation_low": low, "correlation_high": high, "quality": quality}


def _ranked(panel: JudgesAndPeople, judge: int) -> tuple[float, Array, int]:
    """q of people's ranking, the rank correlation of each context, (C,), and the size of the largest one."""
    data, both = panel.comparisons, panel.pair_keys()
    person = np.isin(data.judged_by, panel.people)
    shared = np.intersect1d(both[person], both[data.judged_by == judge])
    mine, theirs = (_pooled(data.take(rows & np.isin(both, shared))) for rows in (data.judged_by == judge, person))
    ranking, judged = quiet_fit(theirs), quiet_fit(mine)
    graph = ranking.graph
    large = np.bincount(graph.position, minlength=graph.contexts) >= RANKED
    parts = np.unique(graph.position * np.int64(graph.nodes) + graph.component) // graph.nodes
    large &= np.bincount(parts, minlength=graph.contexts) == 1  # connected: only these have an order
    if not large.any():
        return np.nan, np.full(1, np.nan), 0
    quality = float(np.nanmean(expected_spearman(ranking)[large]))
    correlations = spearman_within(aligned(judged, ranking), ranking.scores, graph.position, graph.contexts)[large]
    return quality, correlations, int(np.max(np.bincount(graph.position)))


def _pooled(comparisons: Comparisons) -> Comparisons:
    """The comparisons, without contexts if items are in two or more on average."""
    return comparisons if shared_ids(comparisons) is None else replace(comparisons, contexts=None, context=None)


def _reach(observed: float, correlations: Array, texts: int, level: float) -> tuple[float, float]:
    """The ends of the interval of an observed correlation; NaN where it is unknown."""
    if not np.isfinite(observed):
        return np.nan, np.nan
    known = correlations[np.isfinite(correlations)]
    if len(known) > 1:
        quantile = stdtrit(len(known) - 1, (1 + level) / 2)
        reach = float(quantile * np.std(known, ddof=1) / np.sqrt(len(known)))
        return observed - reach, observed + reach
    error = np.sqrt((1 + observed**2 / 2) / (texts - 3))
    reach = float(ndtri((1 + level) / 2) * error)
    z = np.arctanh(observed)
    return float(np.tanh(z - reach)), float(np.tanh(z + reach))
