"""What is found of reasons: effects with intervals and tests, shares of the ranking, and what no reason explains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import chndtr, stdtr, stdtrit

from comparo.model.estimators.coefficients import Coefficients
from comparo.types import Array

DISCOVERY = 0.05  # expected share of false discoveries
LEVELS = 39  # quantiles of σ², whose tails the interval of what is unexplained needs
LEAST = 1e-4  # share that is unexplained, below which it is none


@dataclass(frozen=True)
class Estimate:
    """An effect in logits for one standard deviation of a reason, with its 95% interval, p, and share of the ranking.

    `adjusted` is p adjusted for all reasons; `share`, `share_low` and `share_high` are of the variance of scores.
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


@dataclass(frozen=True)
class Found:
    """What is found of one reason: on its own (`alone`) and `beyond` the others.

    `words` say it in the direction of its effect: beyond the others where that is found, else alone. `more` say it in
    the direction of a positive effect.
    """

    name: str
    words: str
    more: str
    alone: Estimate
    beyond: Estimate

    @property
    def sign(self) -> int:
        """1 where `words` are those of a positive effect, else −1."""
        return 1 if self.words == self.more else -1

    @property
    def verdict(self) -> str:
        """ "matters" beyond the others; "goes with others", where it is found alone only; or "not shown"."""
        if self.beyond.is_found:
            return "matters"
        return "goes with others" if self.alone.is_found else "not shown"


def found_reasons(rows: Sequence[Mapping[str, Any]]) -> tuple[Found, ...]:
    """The reasons from the rows of `Why.to_columns`, as JSON holds them."""
    names = [each.name for each in fields(Estimate)]

    def estimate(row: Mapping[str, Any], prefix: str) -> Estimate:
        return Estimate(*(np.nan if row[prefix + name] is None else float(row[prefix + name]) for name in names))

    return tuple(
        Found(row["reason"], row["words"], row.get("more", row["words"]), estimate(row, "alone_"), estimate(row, ""))
        for row in rows
    )


def unexplained(joint: Coefficients, square: Array) -> tuple[float, float, float]:
    """The share ρ of the variance of scores that no reason explains: the median of its confidence, and a 95% interval.

    With S (R, R) the `square` of the reasons and A = S·Cov(β̂) at a quantile of σ², the statistic β̂ᵀSβ̂/c is about
    noncentral χ² with k degrees of freedom and the noncentrality βᵀSβ/c = σ²(1/ρ − 1)/c,

        c = tr A²/tr A,    k = (tr A)²/tr A²        (Satterthwaite).

    The confidence in a share above ρ is the probability of a statistic above that of β̂, averaged over the quantiles.
    Where answers have no noise, A is a multiple of the identity, and it is exact: that of the noncentral F.
    """
    each = square @ joint.covariances
    trace, twice = np.trace(each, axis1=1, axis2=2), np.einsum("qij,qji->q", each, each)
    scale, freedom = twice / trace, trace**2 / twice
    seen = np.einsum("qi,ij,qj->q", joint.means, square, joint.means) / scale

    def confidence(share: float) -> float:
        return float(np.mean(1.0 - chndtr(seen, freedom, joint.unexplained * (1.0 / share - 1.0) / scale)))

    def quantile(level: float) -> float:
        if confidence(1.0) >= level:
            return 1.0
        if confidence(LEAST) <= level:
            return 0.0
        return float(brentq(lambda share: confidence(share) - level, LEAST, 1.0, xtol=1e-9))

    return quantile(0.5), quantile(0.975), quantile(0.025)


def estimates(effect: Array, variance: Array, freedom: float, free: Array, total: float) -> list[Estimate]:
    """Effects with their tests and shares, from variances (R,) and the variance of each number that is `free`, (R,)."""
    error = np.sqrt(variance)
    p = np.asarray(2 * stdtr(freedom, -np.abs(effect) / error), dtype=np.float64)
    reach = stdtrit(freedom, 0.975) * error
    low, high = effect - reach, effect + reach

    def share(size: Array) -> NDArray[np.float64]:
        return np.minimum(size**2 * free / total, 1.0)

    near = np.where(low * high > 0, np.minimum(np.abs(low), np.abs(high)), 0.0)
    shares = share(effect), share(near), share(np.maximum(np.abs(low), np.abs(high)))
    columns = (effect, low, high, p, adjusted(p), *shares)
    return [Estimate(*map(float, row)) for row in zip(*columns, strict=True)]


def adjusted(p: Array) -> Array:
    """p (m,) adjusted for all of them: the least expected share of false discoveries at which each is one.

    That is min over p_(j) ≥ p of m·p_(j)/j, with p_(j) the j-th smallest (Benjamini and Hochberg 1995).

    >>> adjusted(np.array([0.01, 0.5, 0.03])).round(3)
    array([0.03 , 0.5  , 0.045])
    """
    order = np.argsort(-p, kind="stable")
    ranked = p[order] * len(p) / np.arange(len(p), 0, -1)
    found = np.empty(len(p))
    found[order] = np.minimum.accumulate(np.minimum(ranked, 1.0))
    return found
