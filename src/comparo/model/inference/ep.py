"""Choices as Gaussian observations: expectation propagation.

A choice with probability p (0 or 1, or a share of votes) and weight w has the likelihood of Bradley–Terry,
exp w·(p·d − log(1 + e^d)), in the difference d = s_first − s_second − γ; that of a judge whose decisions have ties has
the likelihood of Davidson (`ties`), either averaged over what is open about γ. All choices about a pair are replaced by
one Gaussian in the difference of its scores, their site, with precision t and pull ν (the precision times its mean),
such that mean and variance of the difference are the same with either, given all other pairs. Laplace's approximation
underestimates the variance of scores from few decisions several times over; expectation propagation does not, if both
orders of a pair share a site.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, log_ndtr, logsumexp

from comparo.model.likelihoods.davidson import answer_moments, log_partition
from comparo.types import Array

# Nodes and weights of Gauss and Hermite for an integral with the normal density.
NODES, SHARES = np.polynomial.hermite_e.hermegauss(33)
SHARES = SHARES / np.sum(SHARES)
WIDER = 1.3  # of the points than the curvature at the maximum says, since the likelihood of a choice has a long tail
NEWTON = 60  # most steps to the maximum between its bounds: bisection alone takes 30 from 1e6 to 1e-3
NEAR = 1e-6  # of its distance, in standard deviations, at which the maximum is found
LEAST = 1e-8  # precision of a site


@dataclass(frozen=True)
class Asked:
    """The choices about M pairs.

    `p` and `weight` (2, M) are those with the first item shown first, d − γ, and with it shown second, where p is that
    of the second item and the difference −d − γ; a weight of 0 means not asked. `bias` (M,) is the mean of γ and
    `bias_variance` (M,) its variance, over which the likelihood is averaged; None: γ is known. `nu` (M,) is Davidson's
    ν of the judge; None: no judge says that two texts are equal.
    """

    p: Array
    weight: Array
    bias: Array
    nu: Array | None = None
    bias_variance: Array | None = None


def choice_moments(mean: Array, variance: Array, asked: Asked) -> tuple[Array, Array]:
    """Mean and variance of d, N(mean, variance) before a pair was judged, shape (M,), given the choices in both orders.

    >>> once = np.array([[1.0], [0.0]])
    >>> mean, variance = choice_moments(np.zeros(1), np.ones(1), Asked(once, once, np.zeros(1)))
    >>> mean.round(3), variance.round(3)
    (array([0.413]), array([0.829]))
    """
    x, log_density, _ = _points(mean, variance, asked)
    share = SHARES * np.exp(log_density - np.max(log_density, axis=1, keepdims=True))
    share /= np.sum(share, axis=1, keepdims=True)
    centre = np.sum(share * x, axis=1)
    # No posterior is narrower than with the largest curvature, ¼ of the weight; a sum over few points could be.
    least = 1.0 / (1.0 / variance + 0.25 * np.sum(asked.weight, axis=0))
    return centre, np.maximum(np.sum(share * (x - centre[:, None]) ** 2, axis=1), least)


def choice_evidence(mean: Array, variance: Array, asked: Asked) -> Array:
    """log ∫ N(d; mean, variance)·Π exp w·(p·d − log(1 + e^d)) dd (M,), of the choices in both orders.

    With ν that of Davidson's likelihood, without the factor ν of each tie.

    >>> once = np.array([[1.0], [0.0]])
    >>> np.exp(choice_evidence(np.zeros(1), np.ones(1), Asked(once, once, np.zeros(1)))).round(3)
    array([0.5])
    """
    _, log_density, width = _points(mean, variance, asked)
    return np.asarray(logsumexp(log_density, b=SHARES, axis=1) + np.log(width / np.sqrt(variance)))


def _points(mean: Array, variance: Array, asked: Asked) -> tuple[Array, Array, Array]:
    """Points d (M, 33) around the maximum of the density of d given the choices, its logarithm there, and their scale.

    To the logarithm, log N(0, 1) of the nodes is not yet added. A likelihood e^ℓ averaged over γ ~ N(γ̂, v) is

        log ∫ e^ℓ(γ) N(γ; γ̂, v) dγ ≈ ℓ(γ̂) + ½·v·ℓ′²/(1 − v·ℓ″) − ½·log(1 − v·ℓ″),

    which is exact for a quadratic ℓ.
    """
    p, weight, bias, nu = asked.p, asked.weight, asked.bias, asked.nu
    sign = np.array([[1.0], [-1.0]])
    d, reach = mean.copy(), variance * np.sum(weight, axis=0)
    low, high = mean - reach, mean + reach
    for _ in range(NEWTON):
        chance, flips = _chances(sign * d - bias, weight, nu)
        slope = np.sum(sign * weight * (p - chance), axis=0) - (d - mean) / variance
        low, high = np.where(slope > 0, d, low), np.where(slope > 0, high, d)
        before, curvature = d, 1.0 / variance + np.sum(flips, axis=0)
        d = d + slope / curvature
        d = np.where((d > low) & (d < high), d, 0.5 * (low + high))
        if np.all(np.abs(d - before) * np.sqrt(curvature) < NEAR):
            break
    _, flips = _chances(sign * d - bias, weight, nu)
    width = WIDER / np.sqrt(1.0 / variance + np.sum(flips, axis=0))
    x = d[:, None] + width[:, None] * NODES
    log_density = 0.5 * (NODES**2 - (x - mean[:, None]) ** 2 / variance[:, None])
    slope, curvature = np.zeros((2, *x.shape))  # of the likelihood in γ
    for way, share, times in zip((1.0, -1.0), p[:, :, None], weight[:, :, None], strict=True):
        shown = way * x - bias[:, None]
        if nu is None:
            log_density += times * (share * shown - np.logaddexp(0.0, shown))
        else:
            log_density += times * ((share - 0.5) * shown - log_partition(shown, nu[:, None]))
        if asked.bias_variance is not None:
            chance, flips = _chances(shown, times, None if nu is None else nu[:, None])
            slope -= times * (share - chance)
            curvature += flips
    if asked.bias_variance is not None:
        v = asked.bias_variance[:, None]
        log_density += 0.5 * (v * slope**2 / (1.0 + v * curvature) - np.log1p(v * curvature))
    return x, log_density, width


def _chances(d: Array, weight: Array, nu: Array | None) -> tuple[Array, Array]:
    """The mean of p at the differences d, and its variance times the weight."""
    if nu is not None:
        mean, variance, _ = answer_moments(d, nu)
        return mean, weight * variance
    chance = expit(d)
    return chance, weight * chance * (1.0 - chance)


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


def sites_from(mean: Array, variance: Array, cavity_mean: Array, cavity_variance: Array) -> tuple[Array, Array]:
    """Precision t and pull ν of the Gaussian that turns N(cavity) into one with `mean` and `variance`.

    >>> sites_from(np.ones(1), np.full(1, 0.5), np.zeros(1), np.ones(1))
    (array([1.]), array([2.]))
    """
    precision = np.maximum(1.0 / variance - 1.0 / cavity_variance, LEAST)
    return precision, mean * (precision + 1.0 / cavity_variance) - cavity_mean / cavity_variance


def without_site(mean: Array, variance: Array, precision: Array, pull: Array) -> tuple[Array, Array]:
    """Mean and variance of a difference with `mean` and `variance` if its own site is taken away: the cavity.

    The variance is at most a thousand times that with the site, which rounding could make negative.

    >>> without_site(np.ones(1), np.full(1, 0.5), np.ones(1), np.full(1, 2.0))
    (array([0.]), array([1.]))
    """
    cavity = 1.0 / np.maximum(1.0 / variance - precision, 1e-3 / variance)
    return cavity * (mean / variance - pull), cavity
