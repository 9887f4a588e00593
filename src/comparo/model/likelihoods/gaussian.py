"""The Gaussian expert, for any mean μ(p) and variance σ²(p), and the tilted moments of a censored answer.

ℓ(d; p) = −(d − μ(p))² / 2σ²(p) − ½ log 2πσ²(p)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from scipy.special import log_ndtr

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

    `comparo.analysis.calibration.calibrate` estimates both from true scores.

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
