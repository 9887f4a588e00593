"""The figures behind the report's cards, charts and judges: position bias, residuals, length, outlook, agreement.

Those of each voice are relative to the common ranking of the voices (`panel`), whatever the method of the ranking is.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, ndtri

from comparo.analysis.confidence import expected_spearman
from comparo.analysis.correlations import mean_known, pearson, spearman, spearman_within
from comparo.analysis.misfit import misfit
from comparo.analysis.reliability import MEASURES, measured
from comparo.data.run_folder import key_of
from comparo.metrics import BEST, ndcg, recall
from comparo.model.design import Design
from comparo.model.estimators.panel_members import PanelMembers, fit_members
from comparo.model.linalg.laplacian import Laplacian
from comparo.model.observations import OTHERS
from comparo.model.tuning import FEW
from comparo.ranking.criteria_ranking import in_logits
from comparo.ranking.display import BLIND
from comparo.ranking.ranking import Ranking
from comparo.ranking.tabular import rows_of
from comparo.report.embed import label
from comparo.report.record import Record
from comparo.types import Array

DRAWS = 1000  # of the bootstrap
LEAST_DRAWS = 200  # for very many texts: the ends of their intervals vary by a tenth of a standard error
DRAWN = 4_000_000  # texts in all draws together: some seconds
AT_ONCE = 1 << 18  # texts drawn at a time: arrays of 2 MB
LEVEL = 0.95  # of the bootstrap's intervals
SHOWN, CROSSED = 40, 12  # voices of the table, and of the agreement of any two
REASON = 300  # characters of the reason why a voice was left out
VoiceRow = dict[str, Any]  # a row of the table: one voice, its figures, and remarks
UNKNOWN: VoiceRow = dict.fromkeys(("agreement", "signal", "flips", "cost"), math.nan)
UNKNOWN |= {"favours": "–", "favours_interval": "", "fit": None}


@dataclass(frozen=True, slots=True)
class Position:
    """The probability that the first of two equal texts wins, with the ends of its 95% interval.

    `fitted` says whether the bias was estimated with the scores and so is taken out of them.
    """

    wins: float
    low: float
    high: float
    fitted: bool


def position_bias(ranking: Ranking) -> Position:
    """P(first of two equal texts wins), by the ranking's γ or the mean p: σ(−γ), or ½ − γ if scores are no logits."""
    p, solution, effects = ranking.comparisons.p, ranking.solution, ranking.solution.effects
    logits, asked = in_logits(ranking), np.unique(ranking.comparisons.positions)
    laplacian, has_bias = solution.laplacian, bool(solution.bias.size)
    mean_gamma = float(np.mean(solution.bias[:, asked])) if has_bias and solution.panel is None else 0.0
    if effects is not None and effects.bias_error is not None:
        gamma, error, fitted = mean_gamma, effects.bias_error, True
    elif laplacian is not None and has_bias and laplacian.pattern.judges:
        gamma, error, fitted = mean_gamma, _joint_error(laplacian, solution.dispersion), True
    else:
        mean = float(np.clip(np.mean(p), 1e-6, 1 - 1e-6))
        gamma, slope = 0.5 - mean, 1.0
        if logits:
            gamma, slope = -math.log(mean / (1 - mean)), mean * (1 - mean)
        error = float(np.std(p)) / math.sqrt(len(p)) / slope
        fitted = has_bias
    return _position(gamma, error, fitted, logits)


def voter_biases(ranking: Ranking) -> dict[str, Position]:
    """The position bias of each person in a ranking of votes, by name; empty for other rankings.

    It is σ(−γ) with the γ that the ranking corrects for. People with few votes share one γ. For
    line-ups of k texts, γ is the mean over the first slot against each other slot; if the k slot effects have equal
    errors, its variance is k/(2(k − 1)) times that of one such γ.
    """
    judges = ranking.comparisons.judges
    solution, effects = ranking.solution, ranking.solution.effects
    if not ranking.comparisons.voted or judges is None or effects is None or effects.bias_variance is None:
        return {}
    slots, asked = ranking.comparisons.slots, np.unique(ranking.comparisons.positions)
    own = asked[slots[asked, 2] == 0]
    judge, size = slots[own, 0], slots[own, 1]
    variance = np.mean(effects.bias_variance[:, own], axis=0) * size / (2.0 * (size - 1))
    gamma = np.mean(solution.bias[:, own], axis=0)
    gamma, variance = (np.bincount(judge, each) / np.bincount(judge) for each in (gamma, variance))
    found = zip(judges.tolist(), gamma.tolist(), np.sqrt(variance).tolist(), strict=True)
    return {str(name): _position(gamma, error, True) for name, gamma, error in found}


def _position(gamma: float, error: float, fitted: bool, logits: bool = True) -> Position:
    reach = float(ndtri(0.975)) * error
    values = np.array([gamma, gamma + reach, gamma - reach])
    wins, low, high = (expit(-values) if logits else np.clip(0.5 - values, 0.0, 1.0)).tolist()
    return Position(wins, low, high, fitted)


def _joint_error(laplacian: Laplacian, dispersion: float) -> float:
    """The standard error of the mean γ of all contexts.

    One context: √v with v = φ·H⁻¹ at γ. Several: γ ~ N(m, τ²) with τ² = φ/ridge, and the estimate of one context, whose
    posterior variance is v, adds (τ² − v)/τ⁴ to the precision of m.
    """
    variance = dispersion * laplacian.bias_variances
    if len(variance) == 1:
        return float(np.sqrt(variance[0]))
    between = dispersion / laplacian.ridge[laplacian.pattern.graph.nodes :]
    return float(1.0 / np.sqrt(np.sum(np.maximum(between - variance, 0.0) / between**2)))


def residuals(p: Array, expected: Array, even: Array) -> tuple[float, float]:
    """The share of answers p (K,) that contradict the model, and √mean (p − expected)².

    An answer prefers the first text where p > `even`, the p of equal texts.
    """
    against = (p - even) * (expected - even) < 0
    return float(np.mean(against)), float(np.sqrt(np.mean((p - expected) ** 2)))


def length_correlation(record: Record, values: Array) -> float:
    """Spearman's correlation of `values` (n,) with the number of characters, the mean over contexts."""
    graph = record.ranking.graph
    found = spearman_within(values, record.characters, graph.position, graph.contexts)
    return mean_known(found)


@dataclass(frozen=True, slots=True)
class Outlook:
    """The expected Spearman correlation after `more` further calls."""

    more: int
    expected: float


def outlook(record: Record) -> list[Outlook]:
    """The outlook after 0, ¼, 1 and 3 times as many further calls as were answered, as far as these are possible."""
    made = len(record.answered)
    steps = {int(min(more, record.left)) for more in (made // 4, made, 3 * made)} - {0}
    further = [Outlook(more, mean_known(expected_spearman(record.ranking, more / made))) for more in sorted(steps)]
    return [Outlook(0, mean_known(record.spearman)), *further]


def as_many_again(ahead: Sequence[Outlook]) -> Outlook:
    """The step closest to doubling the calls: four times the first further step, a quarter of the calls."""
    return min(ahead[1:], key=lambda step: abs(step.more - 4 * ahead[1].more))


@dataclass(frozen=True, slots=True)
class Correlation:
    """A correlation with the ends of its bootstrap interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class HumanAgreement:
    """How the ranking agrees with one of people's scores: points to draw, number of contexts, correlations.

    With several contexts, correlations are means over contexts with a bootstrap over contexts, and `x`, `y` are
    differences from the context's mean. `systems` is Spearman's correlation of each id's mean over contexts, None where
    contexts share no ids. `ndcg` and `recall` are those of the first `best` (`comparo.metrics`), means over contexts.
    """

    name: str
    x: Array
    y: Array
    contexts: int
    spearman: Correlation
    pearson: Correlation
    systems: float | None
    best: int
    ndcg: float
    recall: float


def agreements(record: Record, shared: bool) -> list[HumanAgreement]:
    """The agreement with each of people's first scores that has a correlation; `shared` if contexts share items."""
    found = (_agreement(record, name, shared) for name in record.people)
    return [agreement for agreement in found if agreement is not None]


def _agreement(record: Record, name: str, shared: bool) -> HumanAgreement | None:
    human, scores = record.people[name], record.ranking.scores
    pairs = []
    for nodes in record.contexts:
        known = ~np.isnan(human[nodes])
        if np.count_nonzero(known) > 2:
            pairs.append((scores[nodes][known], human[nodes][known]))
    if not pairs:
        return None
    x, y = pairs[0]
    each = np.array([[of(a, b) for a, b in pairs] for of in (spearman, pearson)])
    if len(pairs) > 1:
        x = np.concatenate([a - np.mean(a) for a, _ in pairs])
        y = np.concatenate([b - np.mean(b) for _, b in pairs])
    drawn = bootstrap(x, y) if len(pairs) == 1 else [_drawn_means(values) for values in each]
    ranked, linear = (_interval(mean_known(values), draws) for values, draws in zip(each, drawn, strict=True))
    if math.isnan(ranked.value):
        return None
    best = record.ranking.solution.best or BEST
    found = [mean_known(np.array([of(a, b, best) for a, b in pairs])) for of in (ndcg, recall)]
    systems = _systems(record, human) if shared else None
    return HumanAgreement(name, x, y, len(pairs), ranked, linear, systems, best, *found)


def bootstrap(x: Array, y: Array) -> Array:
    """Spearman's and Pearson's correlation of `x` and `y` (n,) in bootstrap samples, shape (2, draws)."""
    rng, size = np.random.default_rng(0), len(x)
    left, found = min(DRAWS, max(LEAST_DRAWS, DRAWN // size)), []
    while left:
        drawn = rng.integers(size, size=(min(left, max(1, AT_ONCE // size)), size))
        found.append([of(x[drawn], y[drawn]) for of in (spearman, pearson)])
        left -= len(drawn)
    return np.concatenate(found, axis=1)


def _drawn_means(values: Array) -> Array:
    """The bootstrap means of the known values among `values` (C,), shape (DRAWS,)."""
    known = values[~np.isnan(values)]
    if not known.size:
        return known
    drawn = np.random.default_rng(0).integers(len(known), size=(DRAWS, len(known)))
    return np.asarray(np.mean(known[drawn], axis=1))


def _interval(value: float, drawn: Array) -> Correlation:
    drawn = drawn[~np.isnan(drawn)]
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]) if drawn.size else (math.nan, math.nan)
    return Correlation(value, float(low), float(high))


def _systems(record: Record, human: Array) -> float:
    """Spearman's correlation of the means over contexts of each id."""
    graph = record.ranking.graph
    known = ~np.isnan(human)
    item = graph.item[known]
    seen = np.bincount(item)
    kept = seen > 1
    totals = (np.bincount(item, values[known])[kept] / seen[kept] for values in (record.ranking.scores, human))
    return float(spearman(*totals)) if np.count_nonzero(kept) > 2 else math.nan


def who_judged(record: Record) -> dict[str, Any] | None:
    """The contents of the section; None for a run of one voice.

    Parameters
    ----------
    record
        A run with its ranking.

    Returns
    -------
    dict or None
        `members`, a row per voice, in the order of the run; `hidden`, how many are left out of them; `crossed`, the
        agreement of any two of the first voices as rows of cells, and `uncrossed`, how many are not among them; and
        whether a cost is known (`priced`).
    """
    data = record.ranking.comparisons
    asked = [str(name) for name in record.identity.get("voices", {})]
    if len(asked) < 2 and (data.judges is None or len(data.judges) < 2):
        return None
    heard = fit_members(data, Design(is_biased=record.fitting.bias == "joint"))
    names = [str(name) for name in heard.names]
    place = {name: number for number, name in enumerate(asked)}
    order = sorted(range(len(names)), key=lambda r: place.get(names[r], len(asked)))
    costs, reasons = _costs(record, names), _left_out(record)
    members = _members(record, heard, order, costs)
    for name in asked:
        if name not in names:
            calls = sum(judgement.question.voice == name for judgement in record.answered)
            few = f"fewer than {FEW} answers: they are counted under “{OTHERS}”" if calls else "gave no answer"
            members.append({**UNKNOWN, "name": name, "calls": calls, "remarks": [few]})
    for member in members:
        if member["name"] in reasons:
            member["remarks"].append(f"was left out: {reasons[member['name']]}")
    single = [(number, r) for number, r in enumerate(order, 1) if names[r] != OTHERS]
    return {
        "members": members[:SHOWN],
        "hidden": max(0, len(members) - SHOWN),
        "crossed": _crossed(heard, single[:CROSSED]) if len(single) > 1 else [],
        "uncrossed": max(0, len(single) - CROSSED),
        "priced": any(costs.values()),
        "level": f"{record.ranking.level:.0%}",
    }


def _members(record: Record, heard: PanelMembers, order: Sequence[int], costs: Mapping[str, float]) -> list[VoiceRow]:
    """A row for each voice with figures, in the given `order`."""
    ranking, names = record.ranking, [str(name) for name in heard.names]
    found = dict(zip(MEASURES, measured(ranking.comparisons, heard, None), strict=True))
    own = voter_biases(ranking)
    rows = rows_of(misfit(ranking, "judge"), len(names) + SHOWN)
    fits = {str(row["judge"]): row for row in rows}

    def preferred(name: str, first: float) -> tuple[str, str]:
        """Which of two equal texts wins; in a ranking of votes, by its own bias estimate and with its interval."""
        if not own:
            return favours(first), ""
        bias = own.get(name) or position_bias(ranking)  # the mean bias, for the row of all people with few votes
        begin, end = 1.0 - bias.high, 1.0 - bias.low
        if bias.wins > 0.495:
            begin, end = bias.low, bias.high
        return favours(bias.wins), f"{begin:.0%} to {end:.0%}"

    low, high = heard.interval(ranking.level)
    calls = [ranking.comparisons.take(heard.voice == r).answers for r in range(len(names))]
    members = []
    for r in order:
        name, remarks = names[r], []
        is_known = not math.isnan(found["agreement"][r])
        first = next(s for s in order if heard.family[s] == heard.family[r])
        if first != r:
            remarks.append(f"gives the same ranking as {label(names[first])}: the two count as one opinion")
        if heard.undecided[r]:
            remarks.append("contradicts others, and nothing says who is right")
        elif is_known and heard.reversed[r]:
            remarks.append("ranks against the others: its answers are sign-flipped")
        elif is_known and low[r] <= 0 <= high[r]:
            if heard.loading[r] < BLIND:
                remarks.append("tells next to nothing of what the others agree on")
            else:
                remarks.append("may agree with the others by chance: its interval contains 0")
        if name == OTHERS:
            remarks.append(f"all {record.words.ones} with fewer than {FEW} answers together")
        fit = fits.get(name)
        if fit is not None and fit["misfit"]:
            remarks.append("contradicts the ranking more often than chance explains: read some of its answers")
        favoured, favoured_interval = preferred(name, float(expit(-found["gamma"][r])))
        members.append(
            {
                "name": name,
                "calls": calls[r],
                "remarks": remarks,
                **{measure: float(found[measure][r]) for measure in ("agreement", "signal", "flips")},
                "low": low[r],
                "high": high[r],
                "favours": favoured,
                "favours_interval": favoured_interval,
                "fit": fit,
                "cost": costs.get(name, math.nan),
            }
        )
    return members


def favours(first: float) -> str:
    """Which of two equal texts wins, given the probability that the first does.

    >>> favours(0.62), favours(0.3), favours(0.503)
    ('the first, 62%', 'the second, 70%', 'neither')
    """
    share = max(first, 1.0 - first)
    return "neither" if share < 0.505 else f"the {'first' if first > 0.5 else 'second'}, {share:.0%}"


def _costs(record: Record, names: list[str]) -> dict[str, float]:
    """The known cost of each voice; "others" are all voices without a name among `names`."""
    costs: dict[str, float] = {}
    for judgement in record.judgements:
        if not math.isnan(judgement.spent):
            voice = str(judgement.question.voice)
            voice = voice if voice in names else OTHERS
            costs[voice] = costs.get(voice, 0.0) + judgement.spent
    return costs


def _left_out(record: Record) -> dict[str, str]:
    """Why voices were left out: the error of questions that have not been asked again."""
    last = {key_of(judgement.question): judgement for judgement in record.judgements}
    reasons = {}
    for judgement in last.values():
        begin = f"{judgement.question.voice} was left out: "
        if judgement.failed and str(judgement.error).startswith(begin):
            reasons[str(judgement.question.voice)] = label(str(judgement.error).removeprefix(begin), REASON)
    return reasons


def _crossed(heard: PanelMembers, single: Sequence[tuple[int, int]]) -> list[dict[str, Any]]:
    """The agreement of numbered voices with each other: rows of cells, None on the diagonal."""
    found = np.clip(heard.agreement.correlation, -1.0, 1.0).tolist()
    return [
        {
            "number": number,
            "name": label(heard.names[r]),
            "cells": [None if r == s else found[r][s] for _, s in single],
        }
        for number, r in single
    ]
