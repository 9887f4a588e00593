"""Regression coefficients of text features in the mixed model, with intervals, tests and explained shares.

    s = P m + X β + δ,        m ~ N(0, ω_g²),   β ~ N(0, ω²),   δ ~ N(0, σ²),

with P the groups of the candidates and X (n, R) numbers of their texts, each with variance 1 within contexts. ω² is
the variance of all scores plus that of one answer, an upper bound of what a number explains. This prior is too weak to
change coefficients that the texts determine, and it allows more numbers than texts. An estimated ω² would shrink the
few large coefficients, whose correlated neighbours would take over the missing part: in simulation up to a quarter of
the discoveries were then false (docs/measurements/why.md). ω_g² and σ² maximise the restricted likelihood of each
model. The comparisons are reduced to Gaussians once (`Soft`, `Choices`); each model then costs a few small matrices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy.special import chndtr, expit, logit, stdtr, stdtrit

from comparo.data.comparisons import Comparisons
from comparo.model.design import Design, Shared
from comparo.model.inference.choices import Choices, model_of
from comparo.model.inference.reml import Variances, estimate
from comparo.model.linalg.graph import Graph
from comparo.model.linalg.spectrum import Moments
from comparo.model.observations import are_choices, mixes_kinds, pooled
from comparo.model.posterior import mixture_moments
from comparo.model.tuning import LIMITS, QUANTILES, SUREST, Limits
from comparo.rounding import TINY
from comparo.types import Array

MOST_LOST = 0.75  # of the information about σ²: intervals twice as wide; more is lost where choices hardly form cycles
DISCOVERY = 0.05  # expected share of false discoveries
LEVELS = 39  # quantiles of σ²; the interval of the unexplained share depends on the tails
LEAST_SHARE = 1e-4  # an unexplained share below this counts as 0
LEAST_SCALE = 0.1  # least scale of a judge, relative to the largest: answers are divided by the scale


@dataclass(frozen=True, eq=False)
class Coefficients:
    """Estimates in one model, at each of Q quantiles of the confidence distribution of σ².

    Parameters
    ----------
    means, covariances : Of the coefficients, (Q, M) and (Q, M, M).
    unexplained : σ² + ω_g², the variance of scores that no number explains, (Q,).
    freedom : Degrees of freedom: texts less contexts and the effective number of coefficients.
    """

    means: Array
    covariances: Array
    unexplained: Array
    freedom: float

    @cached_property
    def moments(self) -> tuple[Array, Array]:
        """Mean (M,) and covariance (M, M) of the coefficients, averaged over the quantiles of σ²."""
        shares = np.full(len(self.means), 1.0 / len(self.means))
        return mixture_moments(self.means, self.covariances, shares)


@dataclass(frozen=True, eq=False)
class Evidence:
    """The fitted comparisons for models of `columns` (n, R), centred in components; `choices` is 0 for soft answers.

    >>> rows = [("a", "b", 0.8), ("b", "c", 0.7), ("c", "d", 0.6), ("d", "a", 0.1), ("b", "d", 0.7)]
    >>> found = Evidence.of(Comparisons.from_rows(rows), np.array([[3.0], [2.0], [1.0], [0.0]]))
    >>> bool(found.fit([0]).moments[0][0] > 0)
    True
    """

    graph: Graph
    columns: Array
    variances: Variances
    groups: int
    choices: float

    @classmethod
    def of(
        cls, data: Comparisons, numbers: Array, groups: NDArray[np.integer] | None = None, limits: Limits = LIMITS
    ) -> Evidence:
        """Fit the comparisons once with all `numbers` (n, R) and `groups` (n,), in the order of `Graph.build`."""
        data = _alike(pooled(data))
        graph = Graph.build(data)
        shared = Shared.of(graph, Design(groups=groups, features=numbers), limits.shared_entries)
        model, variances, _ = model_of(data, graph, True, limits).settle(shared)
        count = int(np.sum(shared.is_group))
        choices = float(np.sum(model.weight)) if isinstance(model, Choices) else 0.0
        return cls(graph, shared.columns[:, count:], _with_noise(variances), count, choices)

    def fit(self, numbers: Sequence[int], quantiles: int = QUANTILES) -> Coefficients:
        """The coefficients in the model with the columns `numbers`, at `quantiles` quantiles of σ²."""
        base, groups = self.variances, self.groups
        moments = base.spectrum.moments
        kept = np.array([*range(groups), *(groups + number for number in numbers), moments.matrices.shape[1] - 1])
        moments = Moments(moments.points, moments.matrices[:, kept[:, None], kept])
        kind = np.repeat([0, -1], [groups, len(numbers)])
        spectrum = replace(base.spectrum, moments=moments)
        # The term that keeps σ² from 0 would inflate the unexplained variance.
        known = base.has_known_noise
        found = estimate(spectrum, kind, base.observations, known, pull=0.0, flat=1.0, quantiles=quantiles)
        means, covariances, unexplained, taken = [], [], [], []
        for a in _quantiles(found, self.choices).tolist():
            (covariance, theta), noise = found.precision(a), found.noise(a)
            means.append(theta[groups:])
            covariances.append(noise * covariance[groups:, groups:])
            unexplained.append(noise * (a + (found.shared[0] if groups else 0.0)))
            taken.append(float(np.sum(covariance * found.moments(a)[0])))
        freedom = self.graph.nodes - self.graph.components - float(np.mean(taken))
        each = np.array(means), np.array(covariances), np.array(unexplained)
        return Coefficients(*each, max(freedom, 1.0))


def _quantiles(found: Variances, choices: float) -> Array:
    """The quantiles of a = σ²/φ, widened in log a for K = `choices` choices; unchanged where K is 0.

    The sites of choices settle at one σ² and would be larger at a larger σ², so their common size is no evidence. Of
    the information about log a, ½ Σ x² with x = aq/(1 + aq), the part (Σ x)²/(2K) about a common factor of all
    observations is subtracted, as if φ were unknown.
    """
    if not choices:
        return found.quantiles
    aq = found.ratio * found.spectrum.trace_q
    x, weight = aq / (1.0 + aq), found.spectrum.trace_weight
    lost = float((weight @ x) ** 2 / (choices * max(float(weight @ x**2), TINY)))
    middle = np.median(found.quantiles)
    power = 1.0 / np.sqrt(1.0 - min(lost, MOST_LOST))
    return np.asarray(middle * (found.quantiles / middle) ** power)


def on_one_scale(data: Comparisons, scales: Mapping[Any, float]) -> Comparisons:
    """Rescale the comparisons of each judge with scale a: logit p becomes logit p / a, with a² times the weight.

    Decisions of a reversed judge (a < 0) are flipped. A judge without a scale gets the mean of the others.

    >>> rows = [{"first": "a", "second": "b", "p": 0.8, "judge": name} for name in ("ana", "bo")]
    >>> on_one_scale(Comparisons.from_rows(rows), {"ana": 1.0, "bo": -1.0}).p.round(6)
    array([0.8, 0.2])
    """
    assert data.judges is not None
    mean = float(np.mean(list(scales.values())))
    least = LEAST_SCALE * max(map(abs, scales.values()))
    each = np.array([scales.get(name, mean) for name in data.judges.tolist()])
    each = np.where(each < 0, -1.0, 1.0) * np.maximum(np.abs(each), least)
    if are_choices(data) or mixes_kinds(data):
        return replace(data, p=np.where(each[data.judged_by] < 0, 1.0 - data.p, data.p))
    scale = each[data.judged_by]
    with np.errstate(divide="ignore"):  # logit of 0 and 1
        return replace(data, p=expit(logit(data.p) / scale), weight=data.weights * scale**2)


def _alike(data: Comparisons) -> Comparisons:
    """Turn all answers into decisions where some judges decide and others give probabilities."""
    return replace(data, p=0.5 + 0.5 * np.sign(data.p - 0.5)) if mixes_kinds(data) else data


def _with_noise(variances: Variances) -> Variances:
    """Raise φ to at least 1/`SUREST` of the variance of a difference of two scores.

    Without noise, the variance that the numbers do not explain would be 0.
    """
    spectrum = variances.spectrum
    least = float(np.mean((spectrum.beta / spectrum.q) ** 2)) * 2 / SUREST
    noise = variances.noise(variances.ratio)
    if variances.has_known_noise or noise >= least:
        return variances
    more = variances.observations * (least - noise)
    return replace(variances, spectrum=replace(spectrum, square=spectrum.square + more))


@dataclass(frozen=True)
class ReasonEffect:
    """The effect of one standard deviation of a reason in logits, with its 95% interval, p-value and explained share.

    `adjusted` is p adjusted for all reasons; `share`, `share_low`, `share_high` are shares of the variance of scores.
    """

    effect: float
    low: float
    high: float
    p: float
    adjusted: float
    share: float
    share_low: float
    share_high: float

    @property
    def is_found(self) -> bool:
        return self.adjusted <= DISCOVERY


def unexplained(joint: Coefficients, square: Array) -> tuple[float, float, float]:
    """The share ρ of the variance of scores that no reason explains: confidence median, and the 95% interval.

    With S (R, R) the `square` of the reasons and A = S·Cov(β̂) at a quantile of σ², the statistic β̂ᵀSβ̂/c is about
    noncentral χ² with k degrees of freedom and the noncentrality βᵀSβ/c = σ²(1/ρ − 1)/c,

        c = tr A²/tr A,    k = (tr A)²/tr A²        (Satterthwaite).

    The confidence that the share is above ρ is the probability of a statistic above the observed one, averaged over the
    quantiles. Where answers have no noise, A is a multiple of the identity, and the result is the exact noncentral F.
    """
    each = square @ joint.covariances
    trace = np.trace(each, axis1=1, axis2=2)
    twice = np.einsum("qij,qji->q", each, each)
    scale, freedom = twice / trace, trace**2 / twice
    seen = np.einsum("qi,ij,qj->q", joint.means, square, joint.means) / scale

    def confidence(share: float) -> float:
        shift = joint.unexplained * (1.0 / share - 1.0) / scale
        return float(np.mean(1.0 - chndtr(seen, freedom, shift)))

    def quantile(level: float) -> float:
        if confidence(1.0) >= level:
            return 1.0
        if confidence(LEAST_SHARE) <= level:
            return 0.0
        return float(scipy.optimize.brentq(lambda share: confidence(share) - level, LEAST_SHARE, 1.0, xtol=1e-9))

    return quantile(0.5), quantile(0.975), quantile(0.025)


def estimates(effect: Array, variance: Array, freedom: float, free: Array, total: float) -> list[ReasonEffect]:
    """Tests and shares of the effects; `free` (R,) is the variance of each number given the others in its model."""
    error = np.sqrt(variance)
    p = np.asarray(2 * stdtr(freedom, -np.abs(effect) / error), dtype=np.float64)
    reach = stdtrit(freedom, 0.975) * error
    low, high = effect - reach, effect + reach

    def share(size: Array) -> Array:
        return np.minimum(size**2 * free / total, 1.0)

    near = np.where(low * high > 0, np.minimum(np.abs(low), np.abs(high)), 0.0)
    shares = share(effect), share(near), share(np.maximum(np.abs(low), np.abs(high)))
    columns = (effect, low, high, p, adjusted(p), *shares)
    return [ReasonEffect(*map(float, row)) for row in zip(*columns, strict=True)]


def adjusted(p: Array) -> Array:
    """The p-values (m,) adjusted for the false discovery rate (Benjamini and Hochberg 1995); unknown ones count as 1.

    >>> adjusted(np.array([0.01, 0.5, np.nan])).round(3)
    array([0.03, 0.75, 1.  ])
    """
    return scipy.stats.false_discovery_control(np.nan_to_num(p, nan=1.0))
