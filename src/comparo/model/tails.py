"""Soft answers with heavy tails: noise that is Student's t, its freedom taken from the answers.

    y = d + ε,    ε = √(φ·(ν − 2)/(ν·weight))·t_ν,    Var(ε) = φ/weight

Student's t is normal with a random precision g ~ Gamma(ν/2, ν/2), so an answer to a pair whose difference is N(m, v)
by all other answers, its cavity, has the density

    Z = ∫ N(y; m, v + φ·(ν − 2)/(ν·weight·g))·Gamma(g) dg,

and mean and variance of d given the answer are those of a mixture of normal distributions. Each answer is replaced by a
Gaussian with the same mean and variance, its site (expectation propagation): the further it is from what all others
imply, the less it counts. Where sites and cavities agree, φ and ν with the largest Σ log Z also make the evidence of
expectation propagation stationary. Σ log Z, the density of each answer given all others, decides between Student's t
and normal noise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from comparo.types import Array

FREEDOMS = (3.0, 4.0, 6.0, 10.0, 20.0)  # between them the density changes little; 3 is the least with a clear variance
TRIED = (4.0, 10.0)  # of them, to decide whether tails are heavy
# Values of log g: steps of 0.5 integrate to 1e-3 with 20 freedoms, whose log g has the standard deviation 0.32. Answers
# up to e⁵ = 150 standard deviations away are told apart; more distant ones do not count either.
LOG_PRECISIONS = np.arange(-10.0, 2.6, 0.5)
# Standard errors of the test of normal noise. It only saves time: the margin decides.
SUSPECT = 2.0
# log Z by which heavy-tailed noise must be better. Twice the gain is about χ² of one freedom in half of the samples of
# normal noise, and 0 in the others: P(χ² > 6)/2 = 0.7%.
MARGIN = 3.0
STEP = 0.4  # of log φ in one round


def suspect(residual: Array, share: Array) -> bool:
    """Whether residuals (K,) in standard deviations may come from heavy-tailed noise, by a score test.

    `share` (K,) is that of noise in their variance. The derivative of log Z by 1/ν at ν = ∞ is proportional to
    U = Σ share²·(z⁴ − 6z² + 3), whose variance for normal noise is 24·Σ share⁴. Scores with heavy tails have 1 − share
    in place of it: noise is suspect where U is large and explains more than that.

    >>> rng = np.random.default_rng(0)
    >>> share = rng.uniform(0.5, 1.0, 1000)
    >>> suspect(rng.standard_normal(1000), share), suspect(rng.standard_t(4, 1000), share)
    (False, True)
    """
    square = residual**2 / max(float(np.mean(residual**2)), np.finfo(float).tiny)
    kurtosis = square**2 - 6.0 * square + 3.0

    def excess(weight: Array) -> float:
        return float(np.sum(weight * kurtosis) / np.sqrt(max(24.0 * np.sum(weight**2), np.finfo(float).tiny)))

    return excess(share**2) > max(SUSPECT, excess((1.0 - share) ** 2))


def mixture(freedom: float) -> tuple[Array, Array]:
    """log P and the variances of the normal distributions whose mixture is Student's t of variance 1."""
    if not np.isfinite(freedom):
        return np.zeros(1), np.ones(1)
    log_share = 0.5 * freedom * (LOG_PRECISIONS - np.exp(LOG_PRECISIONS))
    return log_share - logsumexp(log_share), np.exp(-LOG_PRECISIONS) * (freedom - 2.0) / freedom


def tail_moments(mean: Array, variance: Array, y: Array, noise: Array, freedom: float) -> tuple[Array, Array]:
    """Mean and variance of d given an answer, N(mean, variance) before it; all of shape (K,).

    `noise` is the variance of the answer y; a freedom of infinity is normal noise.

    >>> near, far = (tail_moments(*np.array([[0.0], [1.0], [y], [1.0]]), 3.0) for y in (1.0, 20.0))
    >>> near[0].round(2), far[0].round(2)
    (array([0.67]), array([0.2]))
    """
    away, (log_share, scale) = y - mean, mixture(freedom)
    scatter = noise[:, None] * scale
    total = variance[:, None] + scatter
    height = log_share - 0.5 * np.log(total) - 0.5 * away[:, None] ** 2 / total
    share = np.exp(height - np.max(height, axis=1, keepdims=True))
    share /= np.sum(share, axis=1, keepdims=True)
    gain = variance[:, None] / total
    centre = np.sum(share * gain, axis=1)
    spread = np.sum(share * (gain - centre[:, None]) ** 2, axis=1) * away**2
    return mean + centre * away, np.sum(share * gain * scatter, axis=1) + spread


def log_density(variance: Array, away: Array, noise: Array, freedom: float) -> Array:
    """log Z (K,) of answers that are `away` from the mean of N(mean, variance).

    >>> log_density(np.zeros(1), np.zeros(1), np.ones(1), np.inf).round(3)
    array([-0.919])
    """
    log_share, scale = mixture(freedom)
    total = variance[:, None] + noise[:, None] * scale
    density = np.exp(-0.5 * away[:, None] ** 2 / total) / np.sqrt(2.0 * np.pi * total)
    return np.asarray(np.log(np.maximum(density @ np.exp(log_share), np.finfo(float).tiny)))


@dataclass(frozen=True)
class Cavities:
    """Answers y of relative precision `weight`, and mean and variance of their d by all other answers, all (K,)."""

    mean: Array
    variance: Array
    y: Array
    weight: Array
    chunk: int

    def moments(self, noise: float, freedom: float) -> tuple[Array, Array]:
        """Mean and variance of d given each answer, with φ = `noise`."""
        found = np.empty((2, len(self.y)))
        for rows in self._chunks():
            found[:, rows] = tail_moments(
                self.mean[rows], self.variance[rows], self.y[rows], noise / self.weight[rows], freedom
            )
        return found[0], found[1]

    def density(self, noise: float, freedom: float) -> float:
        """Σ log Z."""
        away = self.y - self.mean
        parts = [
            np.sum(log_density(self.variance[rows], away[rows], noise / self.weight[rows], freedom))
            for rows in self._chunks()
        ]
        return float(np.sum(parts))

    def _chunks(self) -> list[slice]:
        return [slice(begin, begin + self.chunk) for begin in range(0, len(self.y), self.chunk)]

    def best_noise(self, noise: float, freedom: float) -> tuple[float, float]:
        """φ near `noise` with the largest Σ log Z, and that sum.

        >>> rng = np.random.default_rng(0)
        >>> cavities = Cavities(np.zeros(4000), np.zeros(4000), rng.standard_t(6, 4000), np.ones(4000), 4000)
        >>> abs(cavities.best_noise(1.2, 6.0)[0] / 1.5 - 1) < 0.1
        True
        """
        low, middle, high = (self.density(noise * np.exp(step), freedom) for step in (-STEP, 0.0, STEP))
        bend = 2.0 * middle - low - high
        step = float(np.sign(high - low)) if bend <= 0 else float(np.clip(0.5 * (high - low) / bend, -1.0, 1.0))
        return noise * float(np.exp(step * STEP)), middle + 0.5 * (high - low) * step - 0.5 * bend * step**2

    def best(self, noise: float, freedoms: tuple[float, ...] = FREEDOMS) -> tuple[float, float, float]:
        """φ and ν with the largest Σ log Z, and that sum."""
        found = [(*self.best_noise(noise, freedom), freedom) for freedom in freedoms]
        phi, height, freedom = max(found, key=lambda one: one[1])
        return phi, freedom, height

    def are_suspect(self, noise: float) -> bool:
        """Whether noise with heavy tails is worth a look, by a test."""
        scatter = noise / self.weight
        total = self.variance + scatter
        return suspect((self.y - self.mean) / np.sqrt(total), scatter / total)

    def are_heavy(self, noise: float) -> bool:
        """Whether noise with heavy tails describes the answers better than normal noise and than scores with such tails.

        Contexts whose scores vary more than those of others look like heavy tails where most of the variance of an
        answer is that of the scores; then the variances take each other's place.
        """
        turned = Cavities(self.mean, noise / self.weight, self.y, 1.0 / self.variance, self.chunk)
        other = max(self.best_noise(noise, np.inf)[1], turned.best(1.0, TRIED)[2])
        return self.best(noise, TRIED)[2] > other + MARGIN
