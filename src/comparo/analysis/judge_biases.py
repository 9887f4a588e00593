"""Biases of judges, with intervals: effects of probes, and whether judges favour systems of their own family.

Probes (`probe_effects`) have a few pairs each, and the false discovery rate is controlled. A pair of probe m gives
y = δ_m + ε. A few pairs do not determine the variance of ε, so their sample variance s²_m is moderated (Smyth 2004,
limma): the variances of all probes come from a scaled inverse χ² with d₀ degrees of freedom and scale s²₀, and

    s̃²_m = (d₀·s²₀ + d_m·s²_m) / (d₀ + d_m),        t_m = ȳ_m / √(s̃²_m / n_m)

has a t distribution with d₀ + d_m degrees of freedom, at most Σ d_m, where δ_m = 0.

The own family (`own_family`). Judge r gives system i the score s_ri, from its votes alone. t_i is the mean score by
other judges that are not of the family of i, each in standard deviations over the systems of no judge's family,
because some judge more sharply than others. Over the S systems,

    s_ri = c_r + a_r·t_i + β_r·[i is of the family of r] + u_ri,

with β_r the effect of the own family in logits. β is tested against the variance of u_ri, the judge's own view of
single systems, with S − 3 degrees of freedom. So a judge that likes one system of its family no more than it likes
some others is not accused, however many votes there are.

Errors of t would bias the least-squares a towards 0, and β upwards where the family is simply good. So a is corrected.
With M the sum of squares of t about its means within the family and outside, and ω the variance of its errors, from
the disagreement of the other judges with ν degrees of freedom (Fuller 1987, Measurement Error Models, 1.2 and 2.2;
s² is the variance of the residuals; Δt is the mean of t in the family, of n₁ systems of S, less that outside),

    a = Σ(t − t̄)·s / (M − (S − 2)·ω),        β = Δs − a·Δt,
    Var(a) = (M·s² + (S − 2)·a²ω²·(1 + 2·(S − 2)/ν)) / (M − (S − 2)·ω)²,
    Var(β) = s²·(1/n₁ + 1/(S − n₁)) + Δt²·Var(a).

One fit without the votes by a system's own family would be biased: the remaining votes on its systems are by other
judges, which may judge more sharply or less. So the leaderboard without them ranks by t_i over all judges. Its errors
are those of a jackknife over parts of the contexts, or of the answers where there is one context.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy.special import digamma, polygamma, stdtr, stdtrit

from comparo.data.columns import look_up
from comparo.data.comparisons import Comparisons
from comparo.methods import quiet_fit
from comparo.rounding import merge_ties
from comparo.types import Array, Mask

LEVEL = 0.95  # of intervals
DISCOVERY = 0.05  # expected share of false discoveries
ROUNDING = 1e-12  # variance of a judge in logits that always answers the same
PARTS = 20  # of the contexts, each of which the jackknife leaves out once
FEWEST = 5  # systems: three coefficients, and two degrees of freedom for the interval
NEEDED = f"{FEWEST} systems that two other judges have judged, and agree about"
RELIABLE = 0.5  # least share of the variance of t that is not error: below it the correction is useless


@dataclass(frozen=True, eq=False)
class ProbeEffects:
    """Mean preferences and their tests, one entry per probe, (m,).

    Parameters
    ----------
    count : How many observations there are.
    mean, low, high : The mean of the observations and the ends of its 95% interval; nan without an observation.
    p : The p-value of the mean: two-sided where a preference against the variant is a bias too, else for means above 0.
    adjusted : p adjusted for all probes (Benjamini and Hochberg 1995).
    """

    count: NDArray[np.intp]
    mean: Array
    low: Array
    high: Array
    p: Array
    adjusted: Array


def probe_effects(
    observations: Sequence[Array],
    two_sided: Sequence[bool],
    extra: Sequence[float] | None = None,
    least: float = ROUNDING,
) -> ProbeEffects:
    """Estimate the effect of each probe.

    Parameters
    ----------
    observations
        The preferences for the variants of each probe, any number each; a sample variance needs two.
    two_sided
        Whether a preference against the variant is a bias too.
    extra
        Variances of the means in addition to those of their observations.
    least
        The least variance of an observation; a few decisions are often all the same by chance.

    Examples
    --------
    >>> found = probe_effects([np.array([0.9, 1.1, 1.0]), np.array([0.1, -0.1, 0.0])], [True, True])
    >>> found.adjusted <= DISCOVERY
    array([ True, False])
    """
    count = np.array([len(own) for own in observations])
    mean = np.array([np.mean(own) if len(own) else np.nan for own in observations])
    spread = np.array([np.var(own, ddof=1) if len(own) > 1 else 0.0 for own in observations])
    variance, freedom = moderated(np.maximum(spread, least), np.maximum(count - 1, 0))
    added = np.zeros(len(count)) if extra is None else np.asarray(extra)
    error = np.sqrt(variance / np.maximum(count, 1) + added)
    reach = stdtrit(freedom, 0.5 + LEVEL / 2) * error
    t = mean / error
    p = np.where(two_sided, 2 * stdtr(freedom, -np.abs(t)), stdtr(freedom, -t))
    known = count > 0
    adjusted = np.ones(len(count))
    adjusted[known] = scipy.stats.false_discovery_control(p[known])
    return ProbeEffects(count, mean, mean - reach, mean + reach, np.where(known, p, 1.0), adjusted)


def moderated(variance: Array, freedom: Array) -> tuple[Array, Array]:
    """Variances (m,) shrunk towards their common scale, and their degrees of freedom d₀ + d_m, at most Σ d_m.

    Parameters
    ----------
    variance, freedom
        Sample variances and their degrees of freedom, (m,); 0 where there is no sample.

    Examples
    --------
    >>> moderated(np.array([1.0, 1.0, 1.0]), np.array([2, 2, 2]))
    (array([1., 1., 1.]), array([6., 6., 6.]))
    """
    seen = freedom > 0
    if not seen.any():
        return variance, np.ones(len(variance))
    half = freedom[seen] / 2
    centred = np.log(variance[seen]) - digamma(half) + np.log(half)
    beyond = 0.0
    if seen.sum() > 1:
        beyond = float(np.var(centred, ddof=1) - np.mean(polygamma(1, half)))
    every = float(freedom.sum())
    if beyond <= 0:  # the sample variances differ no more than by chance
        pooled = variance[seen] @ freedom[seen] / every
        return np.full(len(variance), pooled), np.full(len(variance), every)
    # ψ′(x) = `beyond` (Smyth 2004); ψ′(x) is between 1/x and 1/x + 1/x².
    low, high = 1 / beyond, 1 + 1 / beyond
    x = float(scipy.optimize.brentq(lambda x: float(polygamma(1, x)) - beyond, low, high))
    scale = np.exp(np.mean(centred) + digamma(x) - np.log(x))
    prior = 2 * x
    total = prior + freedom
    return np.asarray((prior * scale + freedom * variance) / total), np.minimum(total, every)


@dataclass(frozen=True, eq=False)
class OwnFamily:
    """How much each judge that has a family prefers its own.

    Parameters
    ----------
    judge, family : The judges and their families, (J,).
    effect, low, high : β in logits, and its interval of coverage `level`, each (J,); NaN where it cannot be estimated.
    probability : The two-sided p-value of the effect, (J,).
    own, others : How many systems of its family and of others a judge compared, (J,).
    data, is_own : All comparisons, and for each of their judges the systems of its family, (R, N).
    """

    judge: NDArray[Any]
    family: NDArray[Any]
    effect: Array
    low: Array
    high: Array
    probability: Array
    own: NDArray[np.int64]
    others: NDArray[np.int64]
    data: Comparisons
    is_own: Mask
    level: float

    @property
    def is_found(self) -> Mask:
        """The judges with a significant effect, (J,), by Holm's method: P(any is false) ≤ 1 − level."""
        order = np.argsort(self.probability, kind="stable")  # unknown ones are last
        left = np.count_nonzero(~np.isnan(self.probability)) - np.arange(len(order))
        found = np.zeros(len(order), dtype=bool)
        found[order] = np.logical_and.accumulate(self.probability[order] * left <= 1 - self.level)
        return found

    def to_columns(self) -> dict[str, NDArray[Any]]:
        """A row per judge: judge, family, own, others, effect, low, high, found."""
        names = ("judge", "family", "own", "others", "effect", "low", "high")
        return {name: getattr(self, name) for name in names} | {"found": self.is_found}

    def board(self) -> dict[str, NDArray[Any]]:
        """The systems by their mean score over judges, in standard deviations, without and with their own family.

        A row per system, the best first: system, score, low and high without judges of its family, its rank, and its
        score and rank by all judges.
        """
        data, reference = self.data, ~np.any(self.is_own, axis=0)
        score, score_all = (_means(data, one, reference) for one in (self.is_own, np.zeros_like(self.is_own)))
        context = np.zeros(len(data), dtype=np.int64) if data.context is None else data.context
        part = (context if len(np.unique(context)) > 1 else np.arange(len(data))) % PARTS
        again = np.array([_means(data.take(part != number), self.is_own, reference) for number in np.unique(part)])
        error = np.sqrt((len(again) - 1) * np.var(again, axis=0))
        reach = float(stdtrit(len(again) - 1, (1 + self.level) / 2)) * error
        columns = {"system": data.items, "score": score, "low": score - reach, "high": score + reach}
        columns |= {"rank": _ranks(score), "score_all": score_all, "rank_all": _ranks(score_all)}
        order = np.argsort(columns["rank"], kind="stable")
        return {name: column[order] for name, column in columns.items()}

    @property
    def sentence(self) -> str:
        """The verdict."""
        if np.isnan(self.effect).all():
            return f"whether judges favour their own family is open: that takes {NEEDED}"
        rows = zip(self.judge, self.family, self.effect, strict=True)
        named = [f"{judge} gives {family} {by:+.2f} logits" for judge, family, by in rows]
        found = [name for name, is_found in zip(named, self.is_found, strict=True) if is_found]
        unknown = ", ".join(map(str, self.judge[np.isnan(self.effect)]))
        rest = f"; open for {unknown}: that takes {NEEDED}" if unknown else ""
        return f"own family, beyond chance: {'; '.join(found) or 'no judge favours its own'}{rest}"


def families_of(names: Iterable[Any], patterns: Mapping[str, Sequence[str]]) -> dict[Any, str]:
    """The family of each name that contains one of the family's patterns, in upper or lower case.

    Raises
    ------
    ValueError
        If a name belongs to two families.

    Examples
    --------
    >>> families_of(["gpt-4", "claude-v1", "koala"], {"OpenAI": ["gpt-"], "Anthropic": ["Claude"]})
    {'gpt-4': 'OpenAI', 'claude-v1': 'Anthropic'}
    """
    found: dict[Any, str] = {}
    for name in names:
        written = str(name).lower()
        own = [family for family, parts in patterns.items() if any(part.lower() in written for part in parts)]
        if len(own) > 1:
            raise ValueError(f"{name!r} belongs to the families {own[0]!r} and {own[1]!r}; make the patterns longer")
        if own:
            found[name] = own[0]
    return found


def own_family(data: Comparisons, family: Mapping[Any, str], *, level: float = 0.95) -> OwnFamily:
    """Estimate how much each judge favours the systems of its own family.

    Parameters
    ----------
    data
        Comparisons by several judges; the items are systems.
    family
        The family of judges and systems by name; those without one have none.
    level
        The coverage of intervals.

    Returns
    -------
    OwnFamily

    Raises
    ------
    ValueError
        If there is no judge whose family has a system, or the answers are about more than two texts.

    Examples
    --------
    >>> rows = [(one, other, 0.7 if one < other else 0.3, judge)
    ...         for one in "abcdef" for other in "abcdef" if one != other for judge in ("x", "y", "z")]
    >>> data = Comparisons.from_columns(*zip(*[row[:3] for row in rows]), judge=[row[3] for row in rows])
    >>> found = own_family(data, {"x": "one", "a": "one", "f": "one"})
    >>> found.judge.tolist(), abs(found.effect).round(3).tolist()
    (['x'], [0.0])
    """
    if data.judges is None:
        raise ValueError("an effect of the own family needs a column judge; there is none")
    if data.lineup is not None:
        raise ValueError("an effect of the own family is estimated from pairs, and there are line-ups")
    kinds: list[str | None] = [family.get(name) for name in data.items.tolist()]
    codes = {kind: code for code, kind in enumerate(dict.fromkeys(kinds)) if kind is not None}
    of_item = np.array([-1 if kind is None else codes[kind] for kind in kinds])
    names = data.judges.tolist()
    of_judge = np.array([codes.get(str(family.get(name)), -2) for name in names])
    judges = np.flatnonzero(of_judge >= 0)
    if not len(judges):
        raise ValueError("no judge is of the family of a system; name families that judges and systems share")
    is_own = of_judge[:, None] == of_item
    scores = _scores_by_judges(data)
    relative = _standardised(scores, ~np.any(is_own, axis=0))
    rows = []
    for judge in judges.tolist():
        others = np.where(is_own, np.nan, relative)
        others[judge] = np.nan
        known = ~np.isnan(scores[judge]) & ~np.isnan(others).all(axis=0)
        rows.append(_effect(scores[judge, known], others[:, known], is_own[judge, known], level))
    families = np.array([family[names[judge]] for judge in judges.tolist()], dtype=object)
    effect, low, high, probability, own, others = (np.array(column) for column in zip(*rows, strict=True))
    return OwnFamily(data.judges[judges], families, effect, low, high, probability, own, others, data, is_own, level)


def _effect(values: Array, others: Array, mine: Mask, level: float) -> tuple[float, float, float, float, int, int]:
    """β with its interval and p-value, and the numbers of systems of the own family and of others.

    `values` (S,) are the scores by the judge, `others` (R, S) those by others, NaN where there is none, and `mine` (S,)
    marks the systems of the judge's family.
    """
    own, rest = int(np.sum(mine)), int(np.sum(~mine))
    nothing = np.nan, np.nan, np.nan, np.nan, own, rest
    number = np.sum(~np.isnan(others), axis=0)
    disagreeing = int(np.sum(number - 1))  # ν
    if own + rest < FEWEST or not (own and rest and disagreeing):
        return nothing
    seen = np.nanmean(others, axis=0)
    omega = float(np.nansum((others - seen) ** 2)) / disagreeing * float(np.mean(1 / number))
    t, s = (part - np.where(mine, np.mean(part[mine]), np.mean(part[~mine])) for part in (seen, values))
    whole, free = float(t @ t), own + rest - 2
    true = whole - free * omega
    if true < max(RELIABLE * whole, np.finfo(float).eps):
        return nothing
    slope = float(t @ s) / true
    left = s - slope * t
    variance = float(left @ left) / (free - 1)
    apart, effect = (float(np.mean(part[mine]) - np.mean(part[~mine])) for part in (seen, values - slope * seen))
    of_slope = (whole * variance + free * (slope * omega) ** 2 * (1 + 2 * free / disagreeing)) / true**2
    error = float(np.sqrt(variance * (1 / own + 1 / rest) + apart**2 * of_slope))
    reach = float(stdtrit(free - 1, (1 + level) / 2)) * error
    probability = float(effect == 0)
    if error > 0:
        probability = float(2 * stdtr(free - 1, -abs(effect) / error))
    return effect, effect - reach, effect + reach, probability, own, rest


def _scores_by_judges(data: Comparisons) -> Array:
    """The score of each system by each judge, (R, N); NaN where there is none."""
    judges = 0 if data.judges is None else len(data.judges)
    return np.array([_scores(data.take(data.judged_by == judge)) for judge in range(judges)])


def _means(data: Comparisons, left_out: Mask, reference: Mask) -> Array:
    """The mean standardised score of each system over judges, (N,), without the entries `left_out` (R, N)."""
    relative = _standardised(_scores_by_judges(data), reference)
    counted = ~left_out & ~np.isnan(relative)
    total = np.sum(np.where(counted, relative, 0.0), axis=0)
    number = np.sum(counted, axis=0)
    return np.asarray(np.divide(total, number, out=np.full(len(total), np.nan), where=number > 0))


def _ranks(scores: Array) -> NDArray[np.int64]:
    """The rank of each score, 1 for the highest; equals share the best, and those without a score are last."""
    known = merge_ties(np.where(np.isnan(scores), -np.inf, scores))
    return np.asarray(1 + np.count_nonzero(known > known[:, None], axis=1))


def _scores(votes: Comparisons) -> Array:
    """The score of each system by a judge's votes in all contexts together, (N,); NaN outside the largest component."""
    found = np.full(len(votes.items), np.nan)
    if len(votes):
        ranking = quiet_fit(
            replace(votes, contexts=None, context=None, judges=None, judge=None), "poe-bt", bias="joint"
        )
        component = ranking.graph.component
        largest = component == np.argmax(np.bincount(component))
        found[look_up(ranking.items[largest].tolist(), votes.items.tolist())] = ranking.scores[largest]
    return found


def _standardised(scores: Array, reference: Mask) -> Array:
    """Scores (J, N) standardised over the systems of `reference`, or over all if these are fewer than `FEWEST`."""
    among = scores[:, reference] if np.count_nonzero(reference) >= FEWEST else scores
    with np.errstate(invalid="ignore", divide="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a judge that compared none of them has no scores here
        relative = (scores - np.nanmean(among, axis=1, keepdims=True)) / np.nanstd(among, axis=1, keepdims=True)
    return np.asarray(np.where(np.isfinite(relative), relative, np.nan))
