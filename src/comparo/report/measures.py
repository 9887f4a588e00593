"""The figures behind the report's cards and charts: position bias, residuals, length, outlook, agreement."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, ndtri

from comparo.analysis.confidence import expected_spearman
from comparo.analysis.correlations import mean_known, pearson, spearman, spearman_within
from comparo.model.estimators.poe import Product
from comparo.model.estimators.votes import Voted
from comparo.model.inference.position import bias_variances
from comparo.ranking.criteria_ranking import in_logits
from comparo.ranking.ranking import Ranking
from comparo.report.record import Record
from comparo.types import Array

DRAWS = 1000  # of the bootstrap
LEAST_DRAWS = 200  # for very many texts: the ends of their intervals vary by a tenth of a standard error
DRAWN = 4_000_000  # texts in all draws together: some seconds
AT_ONCE = 1 << 18  # texts drawn at a time: arrays of 2 MB
LEVEL = 0.95  # of the bootstrap's intervals


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
    p, product, effects = ranking.comparisons.p, ranking.product, ranking.effects
    logits, asked = in_logits(ranking), np.unique(ranking.comparisons.positions)
    mean_gamma = float(np.mean(product.bias[:, asked])) if product is not None and product.bias.size else 0.0
    if product is not None and effects is not None and effects.bias_error is not None:
        gamma, error, fitted = mean_gamma, effects.bias_error, True
    elif product is not None and product.bias.size and product.laplacian.pattern.judges:
        gamma, error, fitted = mean_gamma, _joint_error(product), True
    else:
        mean = float(np.clip(np.mean(p), 1e-6, 1 - 1e-6))
        slope = mean * (1 - mean) if logits else 1.0
        gamma = -math.log(mean / (1 - mean)) if logits else 0.5 - mean
        error, fitted = float(np.std(p)) / math.sqrt(len(p)) / slope, bool(product is not None and product.bias.size)
    return _position(gamma, error, fitted or (ranking.panel is not None and ranking.bias is not None), logits)


def voter_biases(ranking: Ranking) -> dict[str, Position]:
    """The position bias of each person in a ranking of votes, by name; empty for other rankings.

    It is σ(−γ) with the γ that the ranking corrects for. γ of a person with few votes is near the mean of all. For
    line-ups of k texts, γ is the mean over the first slot against each other slot; if the k slot effects have equal
    errors, its variance is k/(2(k − 1)) times that of one such γ.
    """
    judges = ranking.comparisons.judges
    if not isinstance(ranking.covariance, Voted) or ranking.people is not None or judges is None:
        return {}
    choices = max(ranking.covariance.points, key=lambda point: point.share).choices
    if choices.gamma_variance is None:
        return {}
    slots, asked = ranking.comparisons.slots, np.unique(ranking.comparisons.positions)
    own = asked[slots[asked, 2] == 0]
    judge, size = slots[own, 0], slots[own, 1]
    variance = choices.gamma_variance[0, own] * size / (2.0 * (size - 1))
    gamma, variance = (np.bincount(judge, each) / np.bincount(judge) for each in (choices.gamma[0, own], variance))
    found = zip(judges.tolist(), gamma.tolist(), np.sqrt(variance).tolist(), strict=True)
    return {str(name): _position(gamma, error, True) for name, gamma, error in found}


def _position(gamma: float, error: float, fitted: bool, logits: bool = True) -> Position:
    reach = float(ndtri(0.975)) * error
    values = np.array([gamma, gamma + reach, gamma - reach])
    wins, low, high = (expit(-values) if logits else np.clip(0.5 - values, 0.0, 1.0)).tolist()
    return Position(wins, low, high, fitted)


def _joint_error(product: Product) -> float:
    """The standard error of the mean γ of all contexts.

    One context: √v with v = φ·H⁻¹ at γ. Several: γ ~ N(m, τ²) with τ² = φ/ridge, and the estimate of one context, whose
    posterior variance is v, adds (τ² − v)/τ⁴ to the precision of m.
    """
    variance = product.dispersion * bias_variances(product.laplacian)
    if len(variance) == 1:
        return float(np.sqrt(variance[0]))
    between = product.dispersion / product.laplacian.ridge[product.graph.nodes :]
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
class Agreement:
    """How the ranking agrees with one of people's scores: points to draw, number of contexts, correlations.

    With several contexts, correlations are means over contexts with a bootstrap over contexts, and `x`, `y` are
    differences from the context's mean. `systems` is Spearman's correlation of each id's mean over contexts, None where
    contexts share no ids.
    """

    name: str
    x: Array
    y: Array
    contexts: int
    spearman: Correlation
    pearson: Correlation
    systems: float | None


def agreements(record: Record, shared: bool) -> list[Agreement]:
    """The agreement with each of people's first scores that has a correlation; `shared` if contexts share items."""
    found = (_agreement(record, name, shared) for name in record.people)
    return [agreement for agreement in found if agreement is not None]


def _agreement(record: Record, name: str, shared: bool) -> Agreement | None:
    human, scores = record.people[name], record.ranking.scores
    known = [np.arange(nodes.start, nodes.stop)[~np.isnan(human[nodes])] for nodes in record.contexts]
    pairs = [(scores[nodes], human[nodes]) for nodes in known if len(nodes) > 2]
    if not pairs:
        return None
    x, y = pairs[0]
    each = np.array([[of(a, b) for a, b in pairs] for of in (spearman, pearson)])
    if len(pairs) > 1:
        x, y = (np.concatenate([pair[side] - np.mean(pair[side]) for pair in pairs]) for side in (0, 1))
    drawn = bootstrap(x, y) if len(pairs) == 1 else [_drawn_means(values) for values in each]
    found = [_interval(mean_known(values), draws) for values, draws in zip(each, drawn, strict=True)]
    if math.isnan(found[0].value):
        return None
    return Agreement(name, x, y, len(pairs), found[0], found[1], _systems(record, human) if shared else None)


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
