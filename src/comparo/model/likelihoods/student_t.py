"""The Student-t expert: robust against some answers that are far off."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln, log1p, logit

from comparo.types import Array


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
