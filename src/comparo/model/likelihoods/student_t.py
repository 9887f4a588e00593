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

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import gammaln, log1p, logit, logsumexp

from comparo.model.tuning import FREEDOMS, MARGIN, SUSPECT, TRIED
from comparo.types import Array, Index

# Values of log g: steps of 0.5 integrate to 1e-3 with 20 freedoms, whose log g has the standard deviation 0.32. Answers
# up to e⁵ = 150 standard deviations away are told apart; more distant ones do not count either.
LOG_PRECISIONS = np.arange(-10.0, 2.6, 0.5)
STEP = 0.4  # of log φ in one round


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


def suspect(residual: Array, share: Array, errors: float = SUSPECT) -> bool:
    """Whether residuals (K,) in standard deviations may come from heavy-tailed noise, by a score test.

    `share` (K,) is that of noise in their variance. The derivative of log Z by 1/ν at ν = ∞ is proportional to
    U = Σ share²·(z⁴ − 6z² + 3), whose variance for normal noise is 24·Σ share⁴; it must exceed 0 by so many `errors`.

    >>> rng = np.random.default_rng(0)
    >>> suspect(rng.standard_normal(1000), np.ones(1000)), suspect(rng.standard_t(4, 1000), np.ones(1000))
    (False, True)
    """
    square, weight = residual**2, share**2
    excess = float(np.sum(weight * (square**2 - 6.0 * square + 3.0)))
    return excess > errors * float(np.sqrt(24.0 * np.sum(weight**2)))


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
    """Answers y of relative precision `weight`, and mean and variance of their d by all other answers, all (K,).

    `context` (K,) is the number of each answer's context; `chunk` answers are evaluated together.
    """

    mean: Array
    variance: Array
    y: Array
    weight: Array
    context: Index
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
        >>> zeros, context = np.zeros(4000), np.zeros(4000, dtype=np.int32)
        >>> cavities = Cavities(zeros, zeros, rng.standard_t(6, 4000), np.ones(4000), context, 4000)
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

    def are_heavy(self, noise: float) -> bool:
        """Whether noise with heavy tails describes the answers better by a margin than each of three others.

        These are normal noise, contexts that differ by a factor in all that is said of them, and scores with heavy
        tails: answers whose variance is mostly that of scores cannot distinguish these from noise.
        """
        scatter, away = noise / self.weight, self.y - self.mean
        total = self.variance + scatter
        square = away**2 / total
        count, sums = (np.bincount(self.context, values).astype(float) for values in (np.ones(len(square)), square))
        factor = np.sqrt(np.maximum(sums, np.finfo(float).tiny) / np.maximum(count, 1))
        if not suspect(np.sqrt(square) / factor[self.context], scatter / total):
            return False
        found = self.best_noise(noise, TRIED)[1] - MARGIN
        contexts = self.density(noise, np.inf) + _factors(count, sums)
        if found < max(self.best_noise(noise, np.inf)[1], contexts):
            return False
        turned = replace(self, variance=scatter, weight=1.0 / self.variance)
        return found > turned.best_noise(1.0, TRIED)[1]


def _factors(count: Array, sums: Array) -> float:
    """The gain of log Z if the variance of all answers in a context has a factor of its own, as g has in Student's t.

    `count` and `sums` (C,) are the number of answers of each context and the sum of their squares in standard
    deviations.
    """
    log_share, scale = (np.array(part) for part in zip(*map(mixture, FREEDOMS), strict=True))
    scale = np.exp(STEP * np.arange(-2, 3))[:, None, None, None] * scale[:, None]
    each = log_share[:, None] - 0.5 * count[:, None] * np.log(scale) - 0.5 * sums[:, None] / scale
    return float(np.max(np.sum(logsumexp(each, axis=-1), axis=-1)) + 0.5 * np.sum(sums))
