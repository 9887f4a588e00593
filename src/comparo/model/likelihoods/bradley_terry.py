"""Bradley–Terry: P(first wins) = σ(d), and its soft form for a judge's probability p.

    ℓ(d; p) = p·d − log(1 + e^d) − log(π / sin πp)

The tilted moments of choices are those of Davidson's likelihood without ties (`davidson`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit

from comparo.types import Array

# A certain answer (p = 0 or 1) has its mode at infinity; with this distance from 0 and 1 it is at ±20.7.
CERTAIN = 1e-9
LOGISTIC = float(np.pi**2 / 3)  # variance of the logistic distribution


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


def logistic_curvature(difference: Array) -> Array:
    """σ(d)·σ(−d) of score differences d, without loss of digits where |d| is large.

    >>> logistic_curvature(np.zeros(1))
    array([0.25])
    """
    loses = expit(-np.abs(difference))
    return np.asarray(loses * (1.0 - loses))


def attenuation(variance: Array) -> Array:
    """κ with E σ(d) ≈ σ(κ·mean) where d has this `variance`."""
    return np.asarray(1.0 / np.sqrt(1.0 + np.pi * variance / 8.0))


def _uncertain(p: Array) -> Array:
    return np.clip(p, CERTAIN, 1 - CERTAIN)
