"""The rankings by several criteria, how far they agree, and the overall: a weighted mean with its intervals.

With s_ci the score of item i by criterion c, and w_c the weights, which sum to 1,

    o_i = Σ_c a_c · s_ci,    a_c = w_c / τ_c,    τ_c² = variance of s_c within contexts + mean squared standard error,

where τ_c is the standard deviation of the true scores, so that w_c alone decides how much a criterion contributes.
The weights a_c are taken as known. The errors of two criteria are correlated, because one call answers both:

    Var(o) = Σ_c Σ_d a_c a_d Cov(s_c, s_d),    Cov(s_c, s_d) ≈ ρ_cd · ½ (r·Cov(s_c) + Cov(s_d)/r),    r² = v_d / v_c,

with v_c the mean squared standard error; the approximation is exact where the two covariances are proportional, which
they nearly are, as both criteria are asked about the same pairs. All of it is a sum over the covariances of the
criteria: Var(o) = Σ_c κ_c Cov(s_c), κ_c = a_c / √v_c · Σ_d ρ_cd a_d √v_d.

A score that is estimated with a prior has an error from noise and one from shrinkage. The share of noise in the squared
error is λ = variance of s / τ², and

    ρ_cd = max(0, λ·(correlation of the residuals of calls) + (1 − λ)·(correlation of the scores)),   λ = √(λ_c λ_d),

where a residual is an answer less its expectation given the scores. Without a prior λ = 1.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from comparo.data.columns import look_up
from comparo.model.likelihoods import is_logit
from comparo.model.likelihoods.bradley_terry import answer_moments
from comparo.model.posterior import Posterior
from comparo.model.solution import Solution
from comparo.ranking.columns import columns_of
from comparo.ranking.judge_tables import comparison_ties
from comparo.ranking.ranking import Ranking, all_notes
from comparo.ranking.scores import table_of
from comparo.ranking.tabular import json_rows, json_text
from comparo.rounding import mean_ranks
from comparo.types import Array


def expected(ranking: Ranking, equal: bool = False) -> Array:
    """P(first wins) of each comparison by the model of the judge, shape (K,); with `equal`, for equal scores."""
    return expected_answers(ranking, equal)[0]


def expected_answers(ranking: Ranking, equal: bool = False) -> tuple[Array, Array]:
    """P(first wins) and P(tie) of each comparison by the model of the judge, each (K,); `equal` as for `expected`.

    The first is σ(d) for Bradley–Terry, with half of P(tie) where ties are modelled, and ½ + d for scores that are
    means of probabilities, d = s_first − s_second − γ.
    """
    judged = ranking.judged
    solution = judged.solution
    d = solution.differences - solution.apart if equal else solution.differences
    nu = comparison_ties(solution)
    if nu is not None:
        mean, _, ties = answer_moments(d, nu)
        return mean, ties
    mean = np.asarray(expit(d) if in_logits(judged) else np.clip(0.5 + d, 0.0, 1.0))
    return mean, np.zeros(len(mean))


def in_logits(ranking: Ranking) -> bool:
    """Whether differences of scores are logits of probabilities, as under Bradley–Terry."""
    expert = ranking.solution.expert
    return ranking.method in ("bt", "panel") if expert is None else is_logit(expert)


METHOD = "weighted mean of criteria"


@dataclass(frozen=True)
class CriteriaRanking(Ranking):
    """The overall ranking by several criteria, and the ranking by each; made by `comparo.rank` with several criteria.

    It is a `Ranking` whose scores are the weighted mean of the criteria's, each in standard deviations of its true
    scores, and its table has a column for each criterion.

    Parameters
    ----------
    rankings
        The `Ranking` by each criterion, by name.
    shares
        The weight of each criterion in the overall; they sum to 1.
    residuals
        The correlation, over calls, of the residuals of the answers to two criteria, (C, C).

    Examples
    --------
    >>> from comparo import rank
    >>> texts = {name: f"A story by {name}." for name in ("ana", "bo", "cy", "di")}
    >>> def judge(first, second):
    ...     return {"wit": 0.8 if first < second else 0.2, "length": 0.3 if first < second else 0.7}
    >>> found = rank(texts, {"wit": "funnier; weight=3", "length": "shorter"}, judge=judge)
    >>> list(found), list(found.rankings["length"]), found.shares
    (['ana', 'bo', 'cy', 'di'], ['di', 'cy', 'bo', 'ana'], {'wit': 0.75, 'length': 0.25})
    >>> found.correlations["wit"].tolist()
    [1.0, -1.0]
    """

    rankings: Mapping[str, Ranking] = field(default_factory=dict, repr=False)
    shares: Mapping[str, float] = field(default_factory=dict)
    residuals: Array = field(default_factory=lambda: np.empty((0, 0)), repr=False)

    @property
    def correlations(self) -> dict[str, NDArray[Any]]:
        """Spearman's correlation of the scores by each two criteria, mean over contexts: a table (C, C).

        It includes the noise that answers of a call share; `residual_correlations` are those of this noise alone.
        """
        return self._square(spearman_matrix(self))

    @property
    def residual_correlations(self) -> dict[str, NDArray[Any]]:
        """The correlation, over calls, of the residuals of the answers to each two criteria: a table (C, C).

        Near 1, a call gives the same verdict on all criteria, and several criteria add little.
        """
        return self._square(self.residuals)

    def _square(self, matrix: Array) -> dict[str, NDArray[Any]]:
        names = np.array(list(self.rankings), dtype=object)
        return {"criterion": names} | {name: matrix[:, number] for number, name in enumerate(self.rankings)}

    @property
    def notes(self) -> tuple[str, ...]:
        """Problems that a reader must know of, with the criterion that has them."""
        found: dict[str, list[str]] = {}
        for name, ranking in self.rankings.items():
            for note in all_notes(ranking):
                found.setdefault(note, []).append(name)
        return tuple(f"{', '.join(names)}: {note}" for note, names in found.items())

    def to_columns(self) -> dict[str, NDArray[Any]]:
        """The table as columns, best first: item, overall, each criterion, std, low, high, rank, tier, comparisons.

        std, low, high, rank and tier are those of the overall.
        """
        columns = {"item": self.items, "overall": self.scores}
        columns |= {name: aligned(ranking, self) for name, ranking in self.rankings.items()}
        return table_of(self, columns | {name: own for name, own in columns_of(self).items() if name != "score"})

    def to_json(self) -> str:
        """The table with weights, correlations and notes, and the ranking by each criterion, as one JSON object."""
        document = {
            "method": self.method,
            "level": self.level,
            "notes": list(self.notes),
            "weights": dict(self.shares),
            "correlations": json_rows(self.correlations),
            "residual_correlations": json_rows(self.residual_correlations),
            "ranking": json_rows(self.to_columns()),
            "criteria": {name: json.loads(ranking.to_json()) for name, ranking in self.rankings.items()},
        }
        return json_text(document)


def combine(
    rankings: Mapping[str, Ranking], shares: Mapping[str, float], shown: Mapping[str, Ranking] | None = None
) -> CriteriaRanking:
    """The overall ranking of `rankings` from the same calls; its field `rankings` is `shown`, where given.

    The comparisons of all rankings are the same, in the same order, except for p.
    """
    names, parts = list(rankings), list(rankings.values())
    first, weight = parts[0], np.array([shares[name] for name in names])
    context, scores = first.graph.position, np.array([ranking.scores for ranking in parts])
    means = np.array([np.bincount(context, own) for own in scores]) / np.bincount(context)
    centred = scores - means[:, context]
    error = np.array([np.nanmean(ranking.std**2) for ranking in parts])
    error = np.where(np.isfinite(error), error, 0.0)
    between = np.mean(centred**2, axis=1)
    spread = np.sqrt(between + error)
    a = weight / np.where(spread > 0, spread, 1.0)
    missed = [ranking.judged.comparisons.p - expected(ranking) for ranking in parts]
    residuals = _correlation(np.array(missed))
    has_prior = np.array([ranking.solution.is_shrunk for ranking in parts])
    known = between / np.maximum(spread**2, 1e-300)
    noise = np.sqrt(np.where(has_prior & (spread > 0), known, 1.0))
    share = np.outer(noise, noise)
    rho = np.maximum(share * residuals + (1.0 - share) * _correlation(centred), 0.0)
    np.fill_diagonal(rho, 1.0)
    root = np.sqrt(error)
    shared = rho @ (a * root)
    kappa = np.where(root > 0, a / np.where(root > 0, root, 1.0) * shared, a**2)
    mean = sum(w * ranking.comparisons.p for w, ranking in zip(weight.tolist(), parts, strict=True))
    overall = Solution(
        comparisons=replace(first.comparisons, p=np.clip(mean, 0.0, 1.0)),
        graph=first.graph,
        scores=np.asarray(a @ scores),
        covariance=Posterior(tuple(ranking.covariance for ranking in parts), tuple(kappa.tolist())),
        converged=all(ranking.solution.converged for ranking in parts),
        method=METHOD,
        unreached=first.solution.unreached,
    )
    return CriteriaRanking(
        overall,
        overall.scores,
        overall.covariance,
        first.level,
        rankings=dict(rankings if shown is None else shown),
        shares=dict(shares),
        residuals=residuals,
    )


def aligned(ranking: Ranking, other: Ranking) -> Array:
    """The scores in `ranking` of the candidates of `other`, in the order of `other`; NaN for a missing one."""
    row = look_up(other.solution.labels, ranking.solution.labels)
    return np.where(row < 0, np.nan, ranking.scores[row])


def spearman_matrix(found: CriteriaRanking) -> Array:
    """Spearman's correlation of the scores by each two criteria, mean over contexts of two items or more, (C, C)."""
    scores = np.array([aligned(ranking, found) for ranking in found.rankings.values()])
    means: list[Array] = []
    for begin, end in zip(found.graph.starts[:-1], found.graph.starts[1:], strict=True):
        own = scores[:, begin:end]
        own = own[:, ~np.isnan(own).any(axis=0)]
        if own.shape[1] > 1:
            means.append(_correlation(mean_ranks(np.round(own, 9))))
    count = len(found.rankings)
    return np.asarray(np.mean(means, axis=0)) if means else np.full((count, count), np.nan)


def _correlation(rows: Array) -> Array:
    """Pearson's correlation of each two rows, 0 with a row that does not vary; 1 on the diagonal."""
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.nan_to_num(np.atleast_2d(np.corrcoef(rows)))
    np.fill_diagonal(found, 1.0)
    return found
