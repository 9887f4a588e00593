"""Whether answers show that the texts differ at all.

Answers with as much noise as they have say more or less about an order; a few answers of pure noise may agree by chance
and look like a sure order. How much more probable answers are if texts differ than if they do not does not suffer from
looking often: of pure noise, it ever reaches a number x in at most 1/x of all cases, whenever one looks (Ville's
inequality), because its expectation stays 1. The answers y are logits; for choices (decisions, votes) they are
p − ½, because logits of 0 and 1 are infinite. Their noise φ may be anything.

Whether scores order the texts (`log_evidence`):

    B = ∫ L(a) π(a) da / L(0),    L(a) = Π (1 + a·q)^−½ · Q(a)^−K/2,    Q(a) = Σ c·y² − a Σ β²/(1 + a·q),

where a = σ²/φ is the variance of scores relative to the noise of one answer, and q, β and c are those of the comparison
graph (`spectrum`), of all contexts together. The prior π of √a is Cauchy's distribution above 0 with the
scale 1. Comparisons that form no loop agree with some scores whatever they say: then B = 1.

Whether the answers are about the texts, pair by pair (`log_pair_evidence`): of the two answers about a pair, one in
each order, half of the difference is about the texts, and half of the sum about the position. Both have the noise φ
(`comparo.model.observations`). For K pairs with the weighted sum of squares Q of the differences, S of the sums around
the mean of their context (f degrees of freedom) and S′ of these means around their own mean (f′),

    B = ∫ g_K(Q)·h_f(S)·h_f′(S′) dφ/φ / ∫ N_K(Q)·h_f(S)·h_f′(S′) dφ/φ,    N_n(X) = φ^−n/2·exp(−X/2φ),

        g_n(X) = ∫₀¹ r^n·φ^−n/2·exp(−r²X/2φ) dr = ½·φ^−n/2·x^−a·γ(a, x),    x = X/2φ,   a = (n + 1)/2,

where γ is the incomplete gamma function: the standard deviation is √φ/r, and r, the share of noise in it, is anything
from 0 to 1. Sums vary more than noise if the position matters more for some texts, or in some contexts; h = (N + g)/2
leaves that open. φ is at least `ROUNDED` times the mean square of the answers, and for choices `COARSE` times: numbers
that are rounded to −½ or ½ have errors of the variance 1/12. So answers that are all the same are no evidence, and K
decisions that agree in both orders are worth at most about as much as K coins that do, 2^K.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import gammainc, gammaln, logsumexp

from comparo.data.comparisons import Comparisons
from comparo.model.inference.soft import Soft
from comparo.model.linalg.spectrum import Spectrum
from comparo.model.observations import Observations, are_choices
from comparo.model.tuning import LIMITS, Limits
from comparo.types import Array

SURE = 20.0  # B from which texts are taken to differ: of pure noise, at most 1 run in 20 ever gets there
POINTS = 64  # quantiles of the prior over which L is averaged; 1000 change log B of the example below by under 0.01
COARSE, ROUNDED = 1.0 / 3.0, 1e-12  # the least noise of choices and of others, relative to the mean square of answers
ABOVE, STEP = 16.0, 0.2  # how far log φ is followed above the largest variance, and its step, divided by √freedom


def log_evidence(comparisons: Comparisons, limits: Limits = LIMITS) -> float:
    """Return log B, how much more probable the answers are if scores differ than if they do not.

    Parameters
    ----------
    comparisons
        Of any number of contexts, which share the ratio a.
    limits
        Sizes at which the way of solving changes.

    Returns
    -------
    float
        Above log 20 ≈ 3.0 an order is certain enough to be reckoned with; below 0 it is less probable than none.

    Examples
    --------
    >>> chain = [("a", "b", 0.8), ("b", "c", 0.7), ("c", "d", 0.75), ("a", "d", 0.97)]
    >>> order, ring = [("a", "c", 0.92), ("b", "d", 0.9)], [("c", "a", 0.92), ("d", "b", 0.9)]
    >>> [round(log_evidence(Comparisons.from_rows(chain + rows)), 1) for rows in (order, ring)]
    [1.6, -1.2]
    """
    model = Soft.of_any(comparisons, limits)
    spectrum = Spectrum.of(model.system, np.zeros((model.system.nodes, 0)))
    a = np.concatenate([[0.0], np.tan(np.pi / 2 * (np.arange(POINTS) + 0.5) / POINTS) ** 2])[:, None]
    rest = spectrum.square - np.sum(a * spectrum.beta**2 / (1.0 + a * spectrum.q), axis=1)
    rest = np.log(np.maximum(rest, np.finfo(float).tiny))
    height = -0.5 * (np.log1p(a * spectrum.trace_q) @ spectrum.trace_weight + np.count_nonzero(model.c > 0) * rest)
    top = float(np.max(height))
    return top + float(np.log(np.mean(np.exp(height[1:] - top)))) - float(height[0])


def log_pair_evidence(comparisons: Comparisons, limits: Limits = LIMITS) -> float:
    """Return log B, how much more probable the answers are if they are about the texts, whatever order they make.

    Parameters
    ----------
    comparisons
        Of one judge and any number of contexts.
    limits
        Sizes at which the way of solving changes.

    Returns
    -------
    float
        nan if no pair was asked in both orders.

    Examples
    --------
    >>> agreeing, turning = [(0.9, 0.1), (0.2, 0.7), (0.6, 0.3), (0.3, 0.8)], [(0.9, 0.8), (0.2, 0.3), (0.6, 0.7)]
    >>> for answers in (agreeing, turning):
    ...     pairs = [((f"a{k}", f"b{k}", p), (f"b{k}", f"a{k}", turned)) for k, (p, turned) in enumerate(answers)]
    ...     print(round(log_pair_evidence(Comparisons.from_rows([row for pair in pairs for row in pair])), 1))
    2.3
    -0.7
    """
    found = Soft.of_any(comparisons, limits).observations
    content, *position = _squares(found)
    if not content[0]:
        return math.nan
    position = [part for part in position if part[0]]
    if not position:
        return 0.0  # one pair: its difference may be noise of any size
    answers = content[1] + found.sum_square + float(np.sum(found.sum_weight * found.sums**2))
    least = answers / float(np.sum(found.sum_weight)) * (COARSE if are_choices(comparisons) else ROUNDED)
    least = max(least, np.finfo(float).tiny)
    most = max(least, *(square / freedom for freedom, square in (content, *position)))
    step = STEP / math.sqrt(sum(freedom for freedom, _ in (content, *position)))
    log_phi = np.arange(math.log(least), math.log(most) + ABOVE, step)
    rest = np.sum([np.logaddexp(_noise(*part, log_phi), _more_than_noise(*part, log_phi)) for part in position], axis=0)
    rest[0] -= math.log(2.0)  # the trapezoidal rule: the integral begins there
    return float(logsumexp(rest + _more_than_noise(*content, log_phi)) - logsumexp(rest + _noise(*content, log_phi)))


def either(scores: float, pairs: float) -> float:
    """Return the logarithm of the mean of both, from theirs; its expectation, of pure noise, is that of each.

    Where no pair was asked in both orders (`pairs` is nan), it is that of scores.

    >>> round(either(0.0, math.log(39.0)), 3) == round(math.log(20.0), 3), either(1.0, math.nan)
    (True, 1.0)
    """
    return scores if math.isnan(pairs) else float(np.logaddexp(scores, pairs)) - math.log(2.0)


def _squares(found: Observations) -> list[tuple[int, float]]:
    """(K, Q), (f, S) and (f′, S′)."""
    both = found.judge == found.sums.shape[1]
    weight, asked = found.sum_weight, found.sum_weight > 0
    mean = np.sum(weight * found.sums, axis=0) / np.maximum(np.sum(weight, axis=0), np.finfo(float).tiny)
    return [
        (int(np.count_nonzero(both)), float(np.sum(found.weight[both] * found.y[both] ** 2))),
        (found.sum_freedom, found.sum_square),
        (
            int(np.count_nonzero(asked) - np.count_nonzero(asked.any(axis=0))),
            float(np.sum(weight * (found.sums - mean) ** 2)),
        ),
    ]


def _noise(freedom: int, square: float, log_phi: Array) -> Array:
    """log N_n(X) for n = `freedom` and X = `square`."""
    return -0.5 * (freedom * log_phi + square * np.exp(-log_phi))


def _more_than_noise(freedom: int, square: float, log_phi: Array) -> Array:
    """log g_n(X); where γ(a, x) underflows, x is far below a, and it is x^a·e^−x / (a − x)."""
    a, x = 0.5 * (freedom + 1), 0.5 * square * np.exp(-log_phi)
    share, small = gammainc(a, x), np.finfo(float).tiny
    series = -x - np.log(np.maximum(a - x, small))
    exact = np.log(np.maximum(share, small)) + gammaln(a) - a * np.log(np.maximum(x, small))
    return np.asarray(np.where(share > 1e-280, exact, series) - 0.5 * freedom * log_phi - math.log(2.0))
