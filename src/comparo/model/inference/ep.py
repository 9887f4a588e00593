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

import numpy as np

from comparo.types import Array

LEAST = 1e-8  # precision of a site


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
