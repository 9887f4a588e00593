"""Effects of probes on a judge, with intervals and false discovery held, from a few pairs each.

A pair of probe m gives y = δ_m + ε with a variance of its own, s²_m. A few pairs do not tell it, so it is moderated
(Smyth 2004, limma): log s²_m of all probes determines the scaled inverse χ² that they come from, with d₀ degrees of
freedom and scale s²₀, and

    s̃²_m = (d₀·s²₀ + d_m·s²_m) / (d₀ + d_m),        t_m = ȳ_m / √(s̃²_m / n_m)

has a t distribution with d₀ + d_m degrees of freedom, at most Σ d_m, where δ_m = 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import digamma, polygamma

from comparo.types import Array

LEVEL = 0.95  # of intervals
DISCOVERY = 0.05  # expected share of false discoveries
ROUNDING = 1e-12  # variance of a judge in logits that always answers the same


@dataclass(frozen=True, eq=False)
class Effects:
    """Mean preferences and their tests, one entry per probe, (m,).

    Parameters
    ----------
    count : How many observations there are.
    mean, low, high : The mean of the observations and the ends of its 95% interval; nan without an observation.
    p : The probability of such a mean, or a greater one, without a bias: on both sides where the probe is equal, else
        above 0.
    adjusted : p adjusted for all probes (Benjamini and Hochberg 1995).
    """

    count: NDArray[np.intp]
    mean: Array
    low: Array
    high: Array
    p: Array
    adjusted: Array

    @property
    def is_bias(self) -> Array:
        return np.asarray(self.adjusted <= DISCOVERY)


def probe_effects(
    observations: Sequence[Array],
    two_sided: Sequence[bool],
    extra: Sequence[float] | None = None,
    least: float = ROUNDING,
) -> Effects:
    """Estimate the effect of each probe.

    Parameters
    ----------
    observations
        The preferences for the variants of each probe, any number each; less than two say nothing of a variance.
    two_sided
        Whether a preference against the variant is a bias too.
    extra
        Variances that the means have beside those of their observations.
    least
        The least variance of an observation; a few decisions are often all the same by chance.

    Examples
    --------
    >>> found = probe_effects([np.array([0.9, 1.1, 1.0]), np.array([0.1, -0.1, 0.0])], [True, True])
    >>> found.is_bias
    array([ True, False])
    """
    # All runs import this file, and few audit: scipy.stats takes long to load.
    from scipy.stats import false_discovery_control
    from scipy.stats import t as student

    count = np.array([len(own) for own in observations])
    mean = np.array([np.mean(own) if len(own) else np.nan for own in observations])
    spread = np.array([np.var(own, ddof=1) if len(own) > 1 else 0.0 for own in observations])
    variance, freedom = moderated(np.maximum(spread, least), np.maximum(count - 1, 0))
    added = np.zeros(len(count)) if extra is None else np.asarray(extra)
    error = np.sqrt(variance / np.maximum(count, 1) + added)
    reach = student.ppf(0.5 + LEVEL / 2, freedom) * error
    t = mean / error
    p = np.where(two_sided, 2 * student.sf(np.abs(t), freedom), student.sf(t, freedom))
    known = count > 0
    adjusted = np.ones(len(count))
    adjusted[known] = false_discovery_control(p[known])
    return Effects(count, mean, mean - reach, mean + reach, np.where(known, p, 1.0), adjusted)


def moderated(variance: Array, freedom: Array) -> tuple[Array, Array]:
    """Variances (m,) drawn towards their common scale, and their degrees of freedom with those of the scale.

    Parameters
    ----------
    variance, freedom
        Sample variances and their degrees of freedom, (m,); 0 where there is no sample.

    Examples
    --------
    >>> moderated(np.array([1.0, 1.0, 1.0]), np.array([2, 2, 2]))
    (array([1., 1., 1.]), array([6., 6., 6.]))
    """
    seen = freedom > 0
    if not seen.any():
        return variance, np.ones(len(variance))
    half = freedom[seen] / 2
    centred = np.log(variance[seen]) - digamma(half) + np.log(half)
    beyond = float(np.var(centred, ddof=1) - np.mean(polygamma(1, half))) if seen.sum() > 1 else 0.0
    every = float(freedom.sum())
    if beyond <= 0:  # the samples do not tell the variances apart
        return np.full(len(variance), variance[seen] @ freedom[seen] / every), np.full(len(variance), every)
    # ψ′(x) = `beyond` (Smyth 2004); ψ′(x) is between 1/x and 1/x + 1/x².
    prior = 2 * float(brentq(lambda x: float(polygamma(1, x)) - beyond, 1 / beyond, 1 + 1 / beyond))
    scale = np.exp(np.mean(centred) + digamma(prior / 2) - np.log(prior / 2))
    total = prior + freedom
    return np.asarray((prior * scale + freedom * variance) / total), np.minimum(total, every)
