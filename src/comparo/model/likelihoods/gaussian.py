"""Gaussian and Student-t experts, and the posterior moments of d given a censored answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from scipy.special import gammaln, log1p, log_ndtr, logit

from comparo.types import Array


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

    `comparo.analysis.correlations.calibrate` estimates both from true scores.

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
        return -0.5 * ((d - self.mean(p)) ** 2 / variance + np.log(2 * np.pi * variance))

    def slope(self, d: Array, p: Array) -> Array:
        return (self.mean(p) - d) / self.variance(p)

    def curvature(self, d: Array, p: Array) -> Array:
        return 1.0 / self.variance(p)


@dataclass(frozen=True, slots=True)
class StudentT:
    """A robust expert: a Student-t distribution around logit(p), for judges with outliers among their answers.

        ℓ(d; p) = −½(ν + 1) log(1 + r²/ν) + log Γ((ν+1)/2) − log Γ(ν/2) − ½ log(πν) − log τ,   r = (d − logit p)/τ

    Outliers have little effect: the slope falls with |r| beyond |r| = √ν, where the curvature is negative.

    Parameters
    ----------
    freedom, scale
        ν and τ.
    floor
        p is kept inside [floor, 1 − floor]: a certain answer has a finite mode.

    Examples
    --------
    >>> StudentT().curvature(np.zeros(1), np.array([0.5]))
    array([1.25])
    """

    freedom: float = 4.0
    scale: float = 1.0
    floor: float = 0.01

    def _residual(self, d: Array, p: Array) -> Array:
        return (d - logit(np.clip(p, self.floor, 1 - self.floor))) / self.scale

    def log_density(self, d: Array, p: Array) -> Array:
        nu = self.freedom
        constant = gammaln((nu + 1) / 2) - gammaln(nu / 2) - 0.5 * np.log(np.pi * nu) - np.log(self.scale)
        return np.asarray(constant - 0.5 * (nu + 1) * log1p(self._residual(d, p) ** 2 / nu))

    def slope(self, d: Array, p: Array) -> Array:
        r = self._residual(d, p)
        return -(self.freedom + 1) * r / ((self.freedom + r**2) * self.scale)

    def curvature(self, d: Array, p: Array) -> Array:
        r = self._residual(d, p)
        nu = self.freedom
        return (nu + 1) * (nu - r**2) / ((nu + r**2) ** 2 * self.scale**2)


def censored_moments(mean: Array, variance: Array, least: Array, noise: Array) -> tuple[Array, Array]:
    """Mean and variance of d with the density N(d; mean, variance)·P(d + noise ≥ least), all of shape (K,).

    With z = (mean − least)/√(variance + noise) and r = n(z)/Φ(z): mean + variance·r/√(variance + noise), and
    variance − variance²·r(z + r)/(variance + noise).

    >>> mean, variance = censored_moments(np.zeros(1), np.ones(1), np.zeros(1), np.full(1, 1e-9))
    >>> mean.round(3), variance.round(3)
    (array([0.798]), array([0.363]))
    """
    total = variance + noise
    z = (mean - least) / np.sqrt(total)
    ratio = np.exp(-0.5 * z**2 - 0.5 * np.log(2 * np.pi) - log_ndtr(z))
    return mean + variance * ratio / np.sqrt(total), variance - variance**2 * ratio * (z + ratio) / total
