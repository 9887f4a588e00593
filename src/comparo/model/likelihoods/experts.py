"""Experts: the probability of a difference of two scores, given one comparison.

An expert is a log-density ℓ(d; p) over d = s_first − s_second − γ, given the judge's probability p that the first is
better. The product of all experts needs only its slope ∂ℓ/∂d and curvature −∂²ℓ/∂d²; every array has one entry per
comparison, shape (K,). An expert of your own is any object with the three methods of `Expert`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, gammaln, log1p, logit

from comparo.model.likelihoods.davidson import answer_moments, log_partition
from comparo.types import Array

# A certain answer (p = 0 or 1) has its mode at infinity; with this distance from 0 and 1 it is at ±20.7.
CERTAIN = 1e-9
FAR = 16.0  # from this difference on, 1 − σ(d) has lost half of its digits


@runtime_checkable
class Expert(Protocol):
    """A log-density over score differences with its first two derivatives.

    Two optional class attributes make the solver faster: `quadratic = True` if the curvature does not depend on d, so
    that one Newton step is exact, and `pooled = True` if all comparisons of two items may be replaced by their mean p
    (the slope is linear in p, the curvature does not depend on p, and ℓ(d; p) = ℓ(−d; 1 − p)).
    """

    def log_density(self, d: Array, p: Array) -> Array:
        """ℓ(d; p)."""
        ...

    def slope(self, d: Array, p: Array) -> Array:
        """∂ℓ/∂d."""
        ...

    def curvature(self, d: Array, p: Array) -> Array:
        """−∂²ℓ/∂d²."""
        ...


@dataclass(frozen=True, slots=True)
class BradleyTerry:
    """The soft Bradley–Terry expert.

        ℓ(d; p) = p·d − log(1 + e^d) − log(π / sin πp)

    Its mode is logit(p) and its mean −π·cot πp. Its curvature σ(d)σ(−d), the information of a comparison,
    is largest for equal scores. p is kept 1e-9 away from 0 and 1, where the density would have no mode.

    >>> BradleyTerry().slope(np.zeros(1), np.array([0.75]))
    array([0.25])
    """

    pooled = True

    def log_density(self, d: Array, p: Array) -> Array:
        p = _uncertain(p)
        return p * d - np.logaddexp(0.0, d) - np.log(np.pi / np.sin(np.pi * p))

    def slope(self, d: Array, p: Array) -> Array:
        return _uncertain(p) - expit(d)

    def curvature(self, d: Array, p: Array) -> Array:
        return logistic_curvature(d)

    def mode(self, p: Array) -> Array:
        """logit(p), the most likely difference.

        >>> BradleyTerry().mode(np.array([0.5]))
        array([0.])
        """
        return np.asarray(logit(_uncertain(p)))

    def mean(self, p: Array) -> Array:
        """−π·cot πp, the expected difference.

        >>> np.round(BradleyTerry().mean(np.array([0.25])), 6)
        array([-3.141593])
        """
        p = _uncertain(p)
        return np.asarray(-np.pi * np.cos(np.pi * p) / np.sin(np.pi * p))


@dataclass(frozen=True, slots=True)
class Davidson:
    """Davidson's expert for decisions with ties, p = 1, ½ or 0 (`comparo.model.likelihoods.davidson`).

        ℓ(d; p) = (p − ½)·d − log(2·cosh(d/2) + ν) + [p = ½]·log ν

    A tie says that two texts are near to each other, the more so the smaller ν is. `fit(data, "davidson")` estimates ν
    of each judge; ν = 0 is Bradley–Terry.

    Parameters
    ----------
    nu
        ν, from 0 up: one number, or one for each comparison, shape (K,).

    Examples
    --------
    >>> Davidson(1.0).slope(np.zeros(2), np.array([1.0, 0.5]))
    array([0.5, 0. ])
    """

    nu: float | Array = 1.0

    @property
    def pooled(self) -> bool:
        return np.ndim(self.nu) == 0

    def log_density(self, d: Array, p: Array) -> Array:
        readily = np.log(np.maximum(self.nu, np.finfo(float).tiny))
        return np.asarray((p - 0.5) * d - log_partition(d, self.nu) + np.where(p == 0.5, readily, 0.0))

    def slope(self, d: Array, p: Array) -> Array:
        return np.asarray(p - answer_moments(d, self.nu)[0])

    def curvature(self, d: Array, p: Array) -> Array:
        return answer_moments(d, self.nu)[1]

    def take(self, rows: slice | NDArray[np.integer]) -> Davidson:
        """The expert of some of the comparisons."""
        return self if np.ndim(self.nu) == 0 else Davidson(np.asarray(self.nu)[rows])


@dataclass(frozen=True, slots=True)
class Linear:
    """The mean μ(p) = α(p − β).

    >>> Linear()(np.array([0.75]))
    array([0.25])
    """

    alpha: float = 1.0
    beta: float = 0.5

    def __call__(self, p: Array) -> Array:
        return self.alpha * (p - self.beta)


@dataclass(frozen=True, slots=True)
class Constant:
    """A variance that is the same for every p.

    >>> Constant(2.0)(np.zeros(2))
    array([2., 2.])
    """

    value: float = 1.0

    def __call__(self, p: Array) -> Array:
        return np.full(np.shape(p), self.value)


@dataclass(frozen=True, slots=True)
class Gaussian:
    """The Gaussian expert, for any mean μ(p) and variance σ²(p).

        ℓ(d; p) = −(d − μ(p))² / 2σ²(p) − ½ log 2πσ²(p)

    `comparo.calibrate` estimates both from true scores.

    Parameters
    ----------
    mean, variance
        Functions of p (K,), by default the paper's: μ(p) = p − ½ and σ²(p) = 1.

    Examples
    --------
    >>> Gaussian().slope(np.zeros(1), np.array([0.75]))
    array([0.25])
    """

    mean: Callable[[Array], Array] = field(default_factory=Linear)
    variance: Callable[[Array], Array] = field(default_factory=Constant)

    quadratic = True

    @property
    def pooled(self) -> bool:
        return isinstance(self.mean, Linear) and self.mean.beta == 0.5 and isinstance(self.variance, Constant)

    def log_density(self, d: Array, p: Array) -> Array:
        variance = self.variance(p)
        return np.asarray(-0.5 * ((d - self.mean(p)) ** 2 / variance + np.log(2 * np.pi * variance)))

    def slope(self, d: Array, p: Array) -> Array:
        return np.asarray((self.mean(p) - d) / self.variance(p))

    def curvature(self, d: Array, p: Array) -> Array:
        return np.asarray(1.0 / self.variance(p))


@dataclass(frozen=True, slots=True)
class StudentT:
    """A robust expert: a Student-t distribution around logit(p), for judges with some answers that are far off.

        ℓ(d; p) = −½(ν + 1) log(1 + r²/ν) + log Γ((ν+1)/2) − log Γ(ν/2) − ½ log(πν) − log τ,   r = (d − logit p)/τ

    The further an answer is from what the others imply, the smaller its effect: the curvature is negative beyond
    |r| = √ν.

    Parameters
    ----------
    freedom, scale
        ν and τ.
    floor
        p is kept inside [floor, 1 − floor], so that a certain answer has a finite mode.

    Examples
    --------
    >>> StudentT().curvature(np.zeros(1), np.array([0.5]))
    array([1.25])
    """

    freedom: float = 4.0
    scale: float = 1.0
    floor: float = 0.01

    def _residual(self, d: Array, p: Array) -> Array:
        return np.asarray((d - logit(np.clip(p, self.floor, 1 - self.floor))) / self.scale)

    def log_density(self, d: Array, p: Array) -> Array:
        nu = self.freedom
        constant = gammaln((nu + 1) / 2) - gammaln(nu / 2) - 0.5 * np.log(np.pi * nu) - np.log(self.scale)
        return np.asarray(constant - 0.5 * (nu + 1) * log1p(self._residual(d, p) ** 2 / nu))

    def slope(self, d: Array, p: Array) -> Array:
        r = self._residual(d, p)
        return np.asarray(-(self.freedom + 1) * r / ((self.freedom + r**2) * self.scale))

    def curvature(self, d: Array, p: Array) -> Array:
        r = self._residual(d, p)
        nu = self.freedom
        return np.asarray((nu + 1) * (nu - r**2) / ((nu + r**2) ** 2 * self.scale**2))


def of_rows(expert: Expert, rows: slice | NDArray[np.integer]) -> Expert:
    """The expert of some of the comparisons; only Davidson's may differ between them.

    >>> of_rows(Davidson(np.array([0.5, 1.0])), slice(1, 2)).nu
    array([1.])
    """
    return expert.take(rows) if isinstance(expert, Davidson) else expert


def is_logit(expert: Expert) -> bool:
    """Whether the difference of two scores is the logarithm of the odds of a win against a loss.

    >>> is_logit(Davidson()), is_logit(Gaussian())
    (True, False)
    """
    return isinstance(expert, BradleyTerry | Davidson)


def logistic_curvature(difference: Array) -> Array:
    """σ(d)·σ(−d) of score differences d, without loss of digits where |d| is large.

    >>> logistic_curvature(np.zeros(1))
    array([0.25])
    """
    loses = expit(-np.abs(difference))
    return np.asarray(loses * (1.0 - loses))


def derivatives(expert: Expert, d: Array, p: Array, slope: Array, curvature: Array) -> None:
    """Fill in slope and curvature of any expert; for Bradley–Terry both from one evaluation of σ(d).

    >>> slope, curvature = np.empty((2, 1))
    >>> derivatives(BradleyTerry(), np.zeros(1), np.array([0.75]), slope, curvature)
    >>> slope, curvature
    (array([0.25]), array([0.25]))
    """
    if isinstance(expert, Davidson):
        mean, curvature[:], _ = answer_moments(d, expert.nu)
        np.subtract(p, mean, out=slope)
        return
    if not isinstance(expert, BradleyTerry):
        slope[:], curvature[:] = expert.slope(d, p), expert.curvature(d, p)
        return
    first = expit(d)
    if np.max(d, initial=0.0) > FAR:
        np.multiply(first, expit(-d), out=curvature)
    else:
        np.subtract(1.0, first, out=curvature)
        curvature *= first
    np.clip(p, CERTAIN, 1 - CERTAIN, out=slope)
    slope -= first


def _uncertain(p: Array) -> Array:
    return np.clip(p, CERTAIN, 1 - CERTAIN)
