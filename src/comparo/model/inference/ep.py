"""Expectation propagation: Gaussian sites in place of answers, and the loop that updates them.

All answers about a pair are replaced by one Gaussian factor in the difference d of its scores, the site, with precision
t and pull ν (precision times mean). Site and answers give the same mean and variance of d when multiplied with the
distribution of d given all other pairs, the cavity. Choices and saturated answers differ only in these moments
(`likelihoods`). For few decisions, Laplace's approximation underestimates the variance of scores several times over;
expectation propagation does not, if both orders of a pair share a site.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from comparo.types import Array

State = TypeVar("State")
Found = TypeVar("Found")
LEAST_PRECISION = 1e-8  # smallest precision of a site


def sites_from(mean: Array, variance: Array, cavity_mean: Array, cavity_variance: Array) -> tuple[Array, Array]:
    """Precision t and pull ν of the site whose product with the cavity has `mean` and `variance`.

    >>> sites_from(np.ones(1), np.full(1, 0.5), np.zeros(1), np.ones(1))
    (array([1.]), array([2.]))
    """
    precision = np.maximum(1.0 / variance - 1.0 / cavity_variance, LEAST_PRECISION)
    return precision, mean * (precision + 1.0 / cavity_variance) - cavity_mean / cavity_variance


def without_site(mean: Array, variance: Array, precision: Array, pull: Array) -> tuple[Array, Array]:
    """Mean and variance of the cavity: N(mean, variance) divided by the site with `precision` and `pull`.

    The cavity variance is at most 1000·variance, because rounding could make it negative.

    >>> without_site(np.ones(1), np.full(1, 0.5), np.ones(1), np.full(1, 2.0))
    (array([0.]), array([1.]))
    """
    cavity = 1.0 / np.maximum(1.0 / variance - precision, 1e-3 / variance)
    return cavity * (mean / variance - pull), cavity


def settle(
    state: State,
    solve: Callable[[State, int], tuple[State, Found, float]],
    learn: Callable[[State, Found, int], State],
    near: float,
    rounds: int,
) -> tuple[State, Found, bool]:
    """Alternate `solve` and `learn` until the solution changes by less than `near`, for at most `rounds` rounds.

    `solve` returns the state, its solution, and the distance to the solution before (∞ if the rounds must go on);
    `learn` returns the state of the next round. Both get the number of the round. Returns the last state and solution,
    and whether they converged.

    >>> settle(9.0, lambda x, _: (x, 0.5 * x, 0.5 * x), lambda x, half, _: half, 1.0, 20)
    (1.125, 0.5625, True)
    """
    for number in range(rounds):
        state, found, moved = solve(state, number)
        if moved < near:
            return state, found, True
        state = learn(state, found, number)
    return state, found, False


def distance(new: Array, old: Array | float) -> float:
    """The root mean square of new − old, ∞ where there is no old."""
    return float(np.sqrt(np.mean((new - old) ** 2)))
