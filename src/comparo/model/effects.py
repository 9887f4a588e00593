"""Variances estimated from the comparisons: of scores within groups, of biases between contexts, of the noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from comparo.model.predicted import Predicted
from comparo.types import Array, Index


@dataclass(frozen=True)
class Effects:
    """Estimated variances, in the square of a score's unit, and the means that scores are shrunk towards.

    `scores` is the variance of candidates around what their group and style predict; `groups` and `style` those of what
    these predict, if given; `bias` that of γ between contexts, if there are several, and `bias_error` the standard
    error of the mean γ. `noise` is the variance of one comparison around the difference of its scores, and `freedom`
    that of Student's t where it has heavy tails; None where it is normal, and for choices. `means` (G,) are the group
    means, `mean` (n,) the prediction for each candidate. The uncertainty of the predictions adds
    spread·between·spreadᵀ to H⁻¹, with `spread` (n, M) and `between` (M, M). `group` (n,) is the number of each
    candidate's group, and `columns` (n, M′) are the features with which mean = columns·θ; the first M′ of `between` are
    the covariance of θ before φ. `predicted` is what the answers say of θ. `gap` is the distance of two peaks of the
    scores, None where they have one; `scores` includes the variance between the peaks.
    """

    dispersion: float
    scores: float
    noise: float
    bias: float | None = None
    bias_error: float | None = None
    groups: float | None = None
    style: float | None = None
    means: Array | None = None
    mean: Array | None = None
    spread: Array | None = None
    between: Array | None = None
    group: Index | None = None
    columns: Array | None = None
    freedom: float | None = None
    predicted: Predicted | None = None
    gap: float | None = None


def random_effects(estimate: Array, variance: Array) -> tuple[float, float]:
    """Mean m and variance τ² of the true values of `estimate` (G,) with error `variance` (Paule and Mandel).

    τ² is where Σ(x − m)²/(v + τ²) = G − 1, with m the mean weighted by 1/(v + τ²); at least a thousandth of the
    smallest error variance, which makes all values practically equal. Weights 1/v (DerSimonian and Laird) would hear
    little of extreme values where these have large errors, as the biases of choices do.

    >>> centre, between = random_effects(np.array([1.0, 3.0]), np.array([0.5, 0.5]))
    >>> round(centre, 6), round(between, 6)
    (2.0, 1.5)
    """

    def centre(between: float) -> float:
        share = 1.0 / (variance + between)
        return float(np.sum(share * estimate) / np.sum(share))

    def excess(between: float) -> float:
        return float(np.sum((estimate - centre(between)) ** 2 / (variance + between))) - (len(estimate) - 1)

    least = 1e-3 * float(np.min(variance))
    most = least + float(np.sum((estimate - np.mean(estimate)) ** 2)) / (len(estimate) - 1)
    between = float(brentq(excess, least, most)) if excess(least) > 0.0 else least
    return centre(between), between


def shrunk(gamma: Array, variance: Array, asked: NDArray[np.bool_]) -> tuple[Array, float | None]:
    """γ (C, J) of each judge shrunk towards its mean, and the variance between contexts; 0 where nothing was asked."""
    gamma, spreads = np.where(asked, gamma, 0.0), []
    for judge in range(gamma.shape[1]):
        own = asked[:, judge]
        if np.count_nonzero(own) > 1:
            centre, between = random_effects(gamma[own, judge], variance[own, judge])
            gamma[own, judge] = centre + (gamma[own, judge] - centre) * between / (between + variance[own, judge])
            spreads.append(between)
    return gamma, float(np.mean(spreads)) if spreads else None
