"""Bradley–Terry, P(first wins) = σ(d), its soft form for a judge's probability p, and Davidson's model with ties.

    ℓ(d; p) = p·d − log(1 + e^d) − log(π / sin πp)

With d = s_first − s_second − γ, a judge that says "first", "equal" or "second" does so with probabilities in the ratio

    e^{d/2} : ν : e^{−d/2},        P(tie) = ν / (2·cosh(d/2) + ν),

where e^d are still the odds of a win against a loss, and ν is how readily the judge calls a tie: between equals it
does so with probability ν/(2 + ν). ν = 0 is Bradley–Terry. With p = 1, ½ or 0 for the three answers,

    ℓ(d; p) = (p − ½)·d − A(d) + [p = ½]·log ν,    A(d) = log(2·cosh(d/2) + ν),

A′ = sinh(d/2)/(2·cosh(d/2) + ν) is E p − ½, and A″ = (1 + ½ν·cosh(d/2))/(2·cosh(d/2) + ν)² is Var p. The likelihood of
the scores depends on p alone, so all answers to a pair may be replaced by their mean; ν depends on the number of ties:
at its maximum Σ P(tie) is that number. With few answers in which the better text never lost, ν and the scores would
grow together without bound; so each judge that calls ties has a prior of `TIE_PRIOR` ties and as many decisions between
two equal texts. All is written with h = e^{−|d|/2}, which cannot overflow.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, logsumexp

from comparo.model.tuning import TIE_PRIOR
from comparo.rounding import TINY
from comparo.types import Array, LongIndex

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
        return logit(_uncertain(p))


def logistic_curvature(difference: Array) -> Array:
    """σ(d)·σ(−d) of score differences d, without loss of digits where |d| is large.

    >>> logistic_curvature(np.zeros(1))
    array([0.25])
    """
    loses = expit(-np.abs(difference))
    return loses * (1.0 - loses)


def _uncertain(p: Array) -> Array:
    return np.clip(p, CERTAIN, 1 - CERTAIN)


# Nodes and weights of Gauss–Hermite quadrature with the normal density.
TIE_NODES, TIE_SHARES = np.polynomial.hermite_e.hermegauss(21)
TIE_SHARES = TIE_SHARES / np.sum(TIE_SHARES)
# Nodes of quadrature by the width from the curvature, and a factor on it, because the likelihood of a choice has a long
# tail. Densities below a width of 0.25 are nearly normal: moments by so few nodes are within 3e-6 of their integrals.
QUADRATURE = ((0.25, 11, 1.0), (np.inf, 33, 1.3))
NARROW = 1e-3  # weight·width⁶ below which an expansion is within 2e-6 of the integrals as well
CHUNK = 1 << 15  # rows together: temporary arrays of 256 kB
NEWTON = 60  # most steps to the maximum between its bounds: bisection alone takes 30 from 1e6 to 1e-3
NEAR = 1e-6  # last step to the maximum, in standard deviations
STEP = 1.0  # longest step of log ν


@dataclass(frozen=True, slots=True)
class Davidson:
    """Davidson's expert for decisions with ties, p = 1, ½ or 0.

        ℓ(d; p) = (p − ½)·d − log(2·cosh(d/2) + ν) + [p = ½]·log ν

    A tie is evidence that two scores are close, the stronger the smaller ν is. `fit(data, "davidson")` estimates ν
    of each judge; ν = 0 is Bradley–Terry.

    Parameters
    ----------
    nu
        ν, from 0 up: one number, or one for each comparison, shape (K,).

    Examples
    --------
    >>> Davidson(1.0).slope(np.zeros(2), np.array([1.0, 0.5]))
    array([0.5, 0. ])
    """

    nu: float | Array = 1.0

    @property
    def pooled(self) -> bool:
        return np.ndim(self.nu) == 0

    def log_density(self, d: Array, p: Array) -> Array:
        readily = np.log(np.maximum(self.nu, TINY))
        return (p - 0.5) * d - log_partition(d, self.nu) + np.where(p == 0.5, readily, 0.0)

    def slope(self, d: Array, p: Array) -> Array:
        return p - answer_moments(d, self.nu)[0]

    def curvature(self, d: Array, p: Array) -> Array:
        return answer_moments(d, self.nu)[1]

    def take(self, rows: slice | NDArray[np.integer]) -> Davidson:
        """The expert of the comparisons `rows`."""
        return self if np.ndim(self.nu) == 0 else Davidson(np.asarray(self.nu)[rows])


def log_partition(d: Array, nu: Array | float) -> Array:
    """A(d) = log(2·cosh(d/2) + ν).

    >>> log_partition(np.zeros(1), 2.0).round(4)    # log 4
    array([1.3863])
    """
    h = np.exp(-0.5 * np.abs(d))
    return 0.5 * np.abs(d) + np.log1p(h * (h + nu))


def answer_moments(d: Array, nu: Array | float) -> tuple[Array, Array, Array]:
    """E p, Var p and P(tie) at the difference d, each of the shape to which d and ν broadcast.

    >>> [part.round(4).tolist() for part in answer_moments(np.zeros(1), 2.0)]
    [[0.5], [0.125], [0.5]]
    """
    h = np.exp(-0.5 * np.abs(d))
    total = 1.0 + h * (h + nu)
    mean = 0.5 + 0.5 * np.sign(d) * (1.0 - h * h) / total
    variance = h * (h + 0.25 * nu * (1.0 + h * h)) / total**2
    return mean, variance, nu * h / total


def averaged_moments(mean: Array, variance: Array, nu: Array) -> tuple[Array, Array, Array]:
    """E p, Var p and P(tie) where d ~ N(mean, variance), with ν, all of one shape.

    >>> [part.round(3).tolist() for part in averaged_moments(np.zeros(1), np.full(1, 4.0), np.full(1, 2.0))]
    [[0.5], [0.147], [0.413]]
    """
    d = mean[..., None] + np.sqrt(variance)[..., None] * TIE_NODES
    each, own, tied = answer_moments(d, nu[..., None])
    chance = each @ TIE_SHARES
    return chance, (own + each**2) @ TIE_SHARES - chance**2, tied @ TIE_SHARES


def tie_totals(p: Array, weight: Array, judge: NDArray[np.integer], judges: int) -> tuple[Array, Array]:
    """The weight of the ties of each judge, and that of all its answers, (J,).

    >>> tie_totals(np.array([0.5, 1.0, 0.5]), np.ones(3), np.array([0, 0, 1]), 2)
    (array([1., 1.]), array([2., 1.]))
    """
    asked = np.bincount(judge, weight, judges).astype(float)
    return np.bincount(judge, np.where(p == 0.5, weight, 0.0), judges).astype(float), asked


def first_parameters(tied: Array, asked: Array) -> Array:
    """ν of each judge (J,) as if all texts were equal: ν/(2 + ν) is the share of ties; 0 without ties.

    >>> first_parameters(np.array([0.0, 5.0]), np.array([10.0, 10.0]))
    array([0., 2.])
    """
    return np.where(tied > 0, 2.0 * (tied + TIE_PRIOR) / (asked - tied + TIE_PRIOR), 0.0)


def next_parameters(nu: Array, tied: Array, chance: Array, weight: Array, judge: NDArray[np.integer]) -> Array:
    """ν of each judge (J,) after a Newton step of log ν towards Σ P(tie) = the number of ties, with the prior.

    `chance` and `weight` (K,) are P(tie) and the weight of each answer, `judge` (K,) its judge.

    >>> next_parameters(np.full(1, 2.0), np.array([5.0]), np.full(10, 0.5), np.ones(10), np.zeros(10, dtype=int))
    array([2.])
    """
    equals = nu / (2.0 + nu)
    ties, prior = weight * chance, 2.0 * TIE_PRIOR * equals
    expected = np.bincount(judge, ties, len(nu)) + prior
    known = np.bincount(judge, ties * (1.0 - chance), len(nu)) + prior * (1.0 - equals)
    step = (tied + TIE_PRIOR - expected) / np.maximum(known, TINY)
    step = np.where(tied > 0, step, 0.0)
    return np.asarray(nu * np.exp(np.clip(step, -STEP, STEP)))


def choice_moments(
    mean: Array, variance: Array, p: Array, weight: Array, nu: Array | float = 0.0
) -> tuple[Array, Array]:
    """Posterior mean and variance of d (M,) given choices about it, with the prior d ~ N(mean, variance).

    `p` and `weight` (M,) are share and number of the choices for the first text, and `nu` is Davidson's ν of the judge,
    0 without ties.

    >>> mean, variance = choice_moments(np.zeros(1), np.ones(1), np.ones(1), np.ones(1))
    >>> mean.round(3), variance.round(3)
    (array([0.413]), array([0.829]))
    """
    nu, found = np.broadcast_to(nu, mean.shape), np.empty((2, len(mean)))
    for begin in range(0, len(mean), CHUNK):
        asked = [column[begin : begin + CHUNK] for column in (mean, variance, p, weight, nu)]
        found[:, begin : begin + CHUNK] = _moments(*asked)
    # The largest curvature, ¼ of the weight, bounds the posterior variance from below; the quadrature may violate this.
    return found[0], np.maximum(found[1], 1.0 / (1.0 / variance + 0.25 * weight))


def _moments(mean: Array, variance: Array, p: Array, weight: Array, nu: Array) -> Array:
    d, width, told = _modes(mean, variance, p, weight, nu)
    found = _expanded(d, width, weight, *told)
    wide = np.flatnonzero(weight * width**6 >= NARROW)
    for rows, x, log_density, shares, _ in _points(d, width, mean, variance, p, weight, nu, wide):
        share = shares * np.exp(log_density - np.max(log_density, axis=0))
        share /= np.sum(share, axis=0)
        centre = np.sum(share * x, axis=0)
        found[:, rows] = centre, np.sum(share * (x - centre) ** 2, axis=0)
    return found


def _expanded(d: Array, width: Array, weight: Array, chance: Array, y1: Array, tied: Array | float) -> Array:
    """Mean and variance (2, R) of narrow densities by Laplace's method with two further orders, without quadrature.

    With the standard deviation s by the curvature at the mode, −log density = z²/2 + Σ a_k·z^k/k!, a_k = w·s^k·A⁽ᵏ⁾ of
    the order s^(k−2); the terms are those of the integrals up to s⁴. From A = log(2·cosh(d/2) + ν) follow y = A′,
    y′ = ¼ − y² − κ and κ′ = −y·κ, with κ a quarter of the probability of a tie.
    """
    y, k, square = chance - 0.5, 0.25 * tied, width**2
    y2 = y * (k - 2.0 * y1)
    y3 = k * (y1 - y**2) - 2.0 * (y1**2 + y * y2)
    y4 = k * (y2 - 3.0 * y * y1 + y * y**2) - 2.0 * (3.0 * y1 * y2 + y * y3)
    y5 = k * (y3 - 4.0 * y * y2 - 3.0 * y1**2 + 6.0 * y**2 * y1 - (y**2) ** 2)
    y5 -= 2.0 * (3.0 * y2**2 + 4.0 * y1 * y3 + y * y4)
    a4, a6 = weight * square**2 * y3, weight * square**2 * square * y5
    a3, a5 = weight * square * width * y2, weight * square**2 * width * y4
    shift = a3 / 2.0 + a5 / 8.0 - a3 * (2.0 / 3.0 * a4 - 5.0 / 8.0 * a3**2)
    change = a3**2 - a4 / 2.0 - a6 / 8.0 + 2.0 / 3.0 * a4**2
    change += a3 * (25.0 * a5 - a3 * (109.0 * a4 - 75.0 * a3**2)) / 24.0
    return np.array([d - width * shift, square * (1.0 + change)])


def choice_evidence(mean: Array, variance: Array, p: Array, weight: Array, nu: Array | float = 0.0) -> Array:
    """log ∫ N(d; mean, variance)·exp w·(p·d − log(1 + e^d)) dd (M,), with the arguments of `choice_moments`.

    With ν > 0 the likelihood is Davidson's, without the factor ν of each tie.

    >>> np.exp(choice_evidence(np.zeros(1), np.ones(1), np.ones(1), np.ones(1))).round(3)
    array([0.5])
    """
    nu, found = np.broadcast_to(nu, mean.shape), np.empty(len(mean))
    d, width, _ = _modes(mean, variance, p, weight, nu)
    every = np.arange(len(mean))
    for rows, _, log_density, shares, scale in _points(d, width, mean, variance, p, weight, nu, every):
        found[rows] = logsumexp(log_density, b=shares, axis=0) + np.log(scale / np.sqrt(variance[rows]))
    return found


_Told = tuple[Array, Array, Array | float]


def _modes(mean: Array, variance: Array, p: Array, weight: Array, nu: Array) -> tuple[Array, Array, _Told]:
    """The posterior modes of d (M,), the standard deviations by the curvature there, and the `_chances`."""
    d, reach, precision = mean.copy(), variance * weight, 1.0 / variance
    low, high, moved = mean - reach, mean + reach, 2.0 * reach
    is_bounded = np.max(reach, initial=0.0) > 1.0  # below it the curvature varies by a quarter, and all steps converge
    for _ in range(NEWTON):
        chance, flips, _ = _chances(d, nu)
        slope = weight * (p - chance) - (d - mean) * precision
        curvature = precision + weight * flips
        step = slope / curvature
        is_near = slope * step < NEAR**2
        before, d = d, d + step
        if is_bounded:  # Newton's method oscillates where the curvature is small: bisect the bounds there
            low, high = np.where(slope > 0, before, low), np.where(slope > 0, high, before)
            is_short = (np.abs(step) < 0.5 * moved) & (d > low) & (d < high)
            d = np.where(is_near | is_short, d, 0.5 * (low + high))
            moved = np.abs(d - before)
        if is_near.all():
            break
    told = _chances(d, nu)
    return d, 1.0 / np.sqrt(1.0 / variance + weight * told[1]), told


def _points(
    d: Array, width: Array, mean: Array, variance: Array, p: Array, weight: Array, nu: Array, asked: LongIndex
) -> Iterator[tuple[LongIndex, Array, Array, Array, Array]]:
    """Quadrature points (nodes, R) around the modes d of R of the rows `asked`, first of the narrowest.

    Yields the rows, the points, the log density there without log N(0, 1) of the nodes, the shares of the nodes
    (nodes, 1), and the scale of the points (R,).
    """
    least = 0.0
    for most, count, wider in QUADRATURE:
        rows, least = asked[(least <= width[asked]) & (width[asked] < most)], most
        if len(rows):
            nodes, shares = (each[:, None] for each in np.polynomial.hermite_e.hermegauss(count))
            x = d[rows] + wider * width[rows] * nodes
            said = weight[rows] * ((p[rows] - 0.5) * x - log_partition(x, nu[rows]))
            log_density = said + 0.5 * (nodes**2 - (x - mean[rows]) ** 2 / variance[rows])
            yield rows, x, log_density, shares / np.sum(shares), wider * width[rows]


def _chances(d: Array, nu: Array) -> _Told:
    """`answer_moments`, faster where there are no ties."""
    if nu.any():
        return answer_moments(d, nu)
    chance = expit(d)
    return chance, chance * (1.0 - chance), 0.0
