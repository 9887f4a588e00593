"""Experts: the probability of a difference of two scores, given one comparison. One file per family.

An expert is a log-density ℓ(d; p) over d = s_first − s_second − γ, given the judge's probability p that the first is
better. The product of all experts needs only its slope ∂ℓ/∂d and curvature −∂²ℓ/∂d²; every array has one entry per
comparison, shape (K,). An expert of your own is any object with the three methods of `Expert`.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from comparo.model.likelihoods.bradley_terry import CERTAIN, BradleyTerry, Davidson, answer_moments
from comparo.model.likelihoods.gaussian import Gaussian, StudentT
from comparo.types import Array

__all__ = ["BradleyTerry", "Davidson", "Expert", "Gaussian", "StudentT", "derivatives", "is_logit", "of_rows"]

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


def of_rows(expert: Expert, rows: slice | NDArray[np.integer]) -> Expert:
    """The expert of the comparisons `rows`; only Davidson's has parameters per comparison.

    >>> of_rows(Davidson(np.array([0.5, 1.0])), slice(1, 2)).nu
    array([1.])
    """
    return expert.take(rows) if isinstance(expert, Davidson) else expert


def is_logit(expert: Expert) -> bool:
    """Whether the difference of two scores is the logarithm of the odds of a win against a loss.

    >>> is_logit(Davidson()), is_logit(StudentT())
    (True, False)
    """
    return isinstance(expert, BradleyTerry | Davidson)


def derivatives(expert: Expert, d: Array, p: Array, slope: Array, curvature: Array) -> None:
    """Fill `slope` and `curvature` of any expert in place; Bradley–Terry evaluates σ(d) once for both.

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
