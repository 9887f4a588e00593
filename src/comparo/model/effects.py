"""Variances that the comparisons tell: of scores around their groups, of biases between contexts, of the noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from comparo.types import Array


@dataclass(frozen=True)
class Effects:
    """What the comparisons tell about all scores and biases at once; variances in the square of a score's unit.

    `scores` is the variance of candidates around what is expected of their group and style; `groups` that of the group
    means and `style` that of what style explains, where there are such; `bias` that of γ between contexts, where there
    are several. `noise` is the variance of one comparison around the difference of its scores. `means` (G,) are the
    group means, `mean` (n,) is what is expected of each candidate. `spread` (n, M) and `between` (M, M) are what the
    uncertainty of that adds to H⁻¹: spread·between·spreadᵀ.
    """

    dispersion: float
    scores: float
    noise: float
    bias: float | None = None
    groups: float | None = None
    style: float | None = None
    means: Array | None = None
    mean: Array | None = None
    spread: Array | None = None
    between: Array | None = None


def random_effects(estimate: Array, variance: Array) -> tuple[float, float]:
    """Mean m and variance τ² of true values behind `estimate` (G,) with error `variance` (DerSimonian and Laird).

    τ² = (Q − (G − 1)) / (Σ1/v − Σ1/v² / Σ1/v), Q = Σ(x − x̄)²/v; never below a thousandth of the smallest error
    variance, where all values are as good as equal.

    >>> centre, between = random_effects(np.array([1.0, 3.0]), np.array([0.5, 0.5]))
    >>> round(centre, 6), round(between, 6)
    (2.0, 1.5)
    """
    precision = 1.0 / variance
    centre = np.sum(precision * estimate) / np.sum(precision)
    excess = np.sum(precision * (estimate - centre) ** 2) - (len(estimate) - 1)
    scale = np.sum(precision) - np.sum(precision**2) / np.sum(precision)
    between = max(float(excess / scale), 1e-3 * float(np.min(variance)))
    share = 1.0 / (variance + between)
    return float(np.sum(share * estimate) / np.sum(share)), between
