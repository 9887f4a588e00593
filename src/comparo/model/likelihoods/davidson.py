"""Ties: Davidson's model of a judge that may say "equal".

With d = s_first − s_second − γ, a judge that says "first", "equal" or "second" does so with probabilities in the ratio

    e^{d/2} : ν : e^{−d/2},        P(tie) = ν / (2·cosh(d/2) + ν),

so that e^d are still the odds of a win against a loss, and ν is how readily the judge calls a tie: between equals it
does so with probability ν/(2 + ν). ν = 0 is Bradley–Terry. With p = 1, ½ or 0 for the three answers,

    ℓ(d; p) = (p − ½)·d − A(d) + [p = ½]·log ν,    A(d) = log(2·cosh(d/2) + ν),

A′ = sinh(d/2)/(2·cosh(d/2) + ν) is E p − ½, and A″ = (1 + ½ν·cosh(d/2))/(2·cosh(d/2) + ν)² is Var p. What an answer
says about scores depends on p alone, so all answers to a pair may be replaced by their mean; ν depends on how many ties
there are: at its maximum Σ P(tie) is their number. Few answers in which the better text never lost would let ν and the
scores grow together without end; so each judge that calls ties has a prior of `PRIOR` ties and as many decisions
between two equal texts. All is written with h = e^{−|d|/2}, which cannot overflow.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from comparo.types import Array

# Nodes and weights of Gauss and Hermite for an integral with the normal density.
NODES, SHARES = np.polynomial.hermite_e.hermegauss(21)
SHARES = SHARES / np.sum(SHARES)
PRIOR = 1.0  # with which P(tie between equals) is uniform between 0 and 1
STEP = 1.0  # of log ν in one round


def log_partition(d: Array, nu: Array | float) -> Array:
    """A(d) = log(2·cosh(d/2) + ν).

    >>> log_partition(np.zeros(1), 2.0).round(4)    # log 4
    array([1.3863])
    """
    h = np.exp(-0.5 * np.abs(d))
    return np.asarray(0.5 * np.abs(d) + np.log1p(h * (h + nu)))


def answer_moments(d: Array, nu: Array | float) -> tuple[Array, Array, Array]:
    """E p, Var p and P(tie) at the difference d; all of the shape of d and ν together.

    >>> [part.round(4).tolist() for part in answer_moments(np.zeros(1), 2.0)]
    [[0.5], [0.125], [0.5]]
    """
    h = np.exp(-0.5 * np.abs(d))
    total = 1.0 + h * (h + nu)
    mean = 0.5 + 0.5 * np.sign(d) * (1.0 - h * h) / total
    variance = h * (h + 0.25 * nu * (1.0 + h * h)) / total**2
    return np.asarray(mean), np.asarray(variance), np.asarray(nu * h / total)


def averaged_moments(mean: Array, variance: Array, nu: Array) -> tuple[Array, Array, Array]:
    """E p, Var p and P(tie) where d ~ N(mean, variance), with ν, all of one shape.

    >>> [part.round(3).tolist() for part in averaged_moments(np.zeros(1), np.full(1, 4.0), np.full(1, 2.0))]
    [[0.5], [0.147], [0.413]]
    """
    d = mean[..., None] + np.sqrt(variance)[..., None] * NODES
    each, own, tied = answer_moments(d, nu[..., None])
    chance = each @ SHARES
    return np.asarray(chance), np.asarray((own + each**2) @ SHARES - chance**2), np.asarray(tied @ SHARES)


def tie_totals(p: Array, weight: Array, judge: NDArray[np.integer], judges: int) -> tuple[Array, Array]:
    """The weight of the ties of each judge, and that of all its answers, (J,).

    >>> tie_totals(np.array([0.5, 1.0, 0.5]), np.ones(3), np.array([0, 0, 1]), 2)
    (array([1., 1.]), array([2., 1.]))
    """
    asked = np.bincount(judge, weight, judges).astype(float)
    return np.bincount(judge, np.where(p == 0.5, weight, 0.0), judges).astype(float), asked


def first_parameters(tied: Array, asked: Array) -> Array:
    """ν of each judge as if all texts were equal, (J,): from ν/(2 + ν), the share of ties; 0 without ties.

    >>> first_parameters(np.array([0.0, 5.0]), np.array([10.0, 10.0]))
    array([0., 2.])
    """
    return np.where(tied > 0, 2.0 * (tied + PRIOR) / (asked - tied + PRIOR), 0.0)


def next_parameters(nu: Array, tied: Array, chance: Array, weight: Array, judge: NDArray[np.integer]) -> Array:
    """ν of each judge (J,) after a Newton step of log ν towards Σ P(tie) = the number of ties, with the prior.

    `chance` and `weight` (K,) are P(tie) and the weight of each answer, `judge` (K,) its judge.

    >>> next_parameters(np.full(1, 2.0), np.array([5.0]), np.full(10, 0.5), np.ones(10), np.zeros(10, dtype=int))
    array([2.])
    """
    equals = nu / (2.0 + nu)
    expected = np.bincount(judge, weight * chance, len(nu)) + 2.0 * PRIOR * equals
    known = np.bincount(judge, weight * chance * (1.0 - chance), len(nu)) + 2.0 * PRIOR * equals * (1.0 - equals)
    step = (tied + PRIOR - expected) / np.maximum(known, np.finfo(float).tiny)
    return np.asarray(nu * np.exp(np.clip(np.where(tied > 0, step, 0.0), -STEP, STEP)))
