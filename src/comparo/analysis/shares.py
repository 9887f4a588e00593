"""Shares with intervals that know which observations belong together.

The variance of a mean of observations y from 0 to 1 comes from residuals e = y − ȳ, summed over what belongs together:

    contexts:  V = C/(C − 1) · Σ_c S_c² / n²,                S_c = Σ e of context c
    texts:     V = N/(N − 2) · (Σ_i S_i² − Σ_d S_d²) / n²,   S_i = Σ e of pairs with text i,  S_d = Σ e of pair d

The second holds where any two pairs that share a text may be alike (the dyadic variance of Aronow, Samii and Assenova
2015), and is used where there are fewer than `CONTEXTS` contexts; it is at least that of pairs. The interval is
Wilson's with n_eff = ȳ(1 − ȳ)/V observations, so that it stays between 0 and 1 and is no point where all observations
are equal, and with Student's t in place of the normal quantile: C − 1 degrees of freedom, or N/2, since N texts make at
most N/2 pairs without a common text. N/(N − 2) and N/2 were chosen among seven forms by simulated coverage; at settings
that played no part in the choice, 95% intervals cover in 93 to 96% of cases (the last ones of tests/test_agree.py).

With m times as many votes on new pairs, V falls to V/m where these are of new contexts. With the same texts, only the
part of the pairs does, Σ_d S_d², and what pairs of one text have in common stays.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from comparo.analysis.annotators import CONTEXTS
from comparo.ranking.orders import wilson
from comparo.types import Array

Codes = NDArray[np.integer]


@dataclass(frozen=True, slots=True)
class Share:
    """A share, its interval, the number of observations (votes) and of pairs behind it; NaN where there are none.

    `effective` is the number of independent observations that would tell as much, `reach` the number of standard errors
    from the middle of the interval to its ends, and `lasting` the part of the variance that more votes on the same
    texts would leave.
    """

    value: float
    low: float
    high: float
    votes: int
    pairs: int
    effective: float
    reach: float
    lasting: float

    @property
    def std(self) -> float:
        """The standard error, √(value·(1 − value)/effective)."""
        return float(np.sqrt(self.value * (1 - self.value) / self.effective)) if self.votes else np.nan

    def with_more(self, times: float) -> tuple[float, float]:
        """The interval that `times` as many votes would give: V(m) = V·(lasting + (1 − lasting)/m)."""
        if not self.votes:
            return np.nan, np.nan
        return wilson(self.value, self.effective / (self.lasting + (1 - self.lasting) / times), self.reach)


@dataclass(frozen=True, eq=False)
class Clusters:
    """What belongs together: the pair, both texts and the context of each observation, each of shape (V,)."""

    pair: Codes
    first: Codes
    second: Codes
    context: Codes

    def take(self, rows: NDArray[np.bool_] | Codes) -> Clusters:
        """Some of the observations, by their numbers or a mask (V,)."""
        return Clusters(self.pair[rows], self.first[rows], self.second[rows], self.context[rows])


def share_of(y: Array, clusters: Clusters, level: float = 0.95) -> Share:
    """The mean of y (V,) with its interval.

    >>> y, codes = np.array([1.0, 1.0, 0.0, 1.0]), np.arange(4)
    >>> found = share_of(y, Clusters(codes, 2 * codes, 2 * codes + 1, codes * 0))
    >>> found.value, 0 < found.low < 0.75 < found.high < 1
    (0.75, True)
    """
    votes = len(y)
    if not votes:
        return Share(np.nan, np.nan, np.nan, 0, 0, 0.0, np.nan, 0.0)
    value = float(np.mean(y))
    residual = y - value
    pair, pairs = _codes(clusters.pair)
    context, contexts = _codes(clusters.context)
    by_pair = float(np.sum(np.bincount(pair, residual) ** 2))
    lasting = 0.0
    if contexts >= CONTEXTS:
        square = float(np.sum(np.bincount(context, residual) ** 2)) * contexts / (contexts - 1)
        freedom = contexts - 1.0
    else:
        text, texts = _codes(np.concatenate([clusters.first, clusters.second]))
        sums = np.bincount(text, np.concatenate([residual, residual]))
        total = max(float(np.sum(sums**2)) - by_pair, by_pair)
        lasting = 1 - by_pair / total if total > 1e-12 else 0.0
        square = total * texts / max(texts - 2, 1)
        freedom = texts / 2
    independent = float(value * (1 - value) * votes**2 / square) if square > 1e-12 else np.inf
    effective = min(independent, votes if square > 1e-12 else pairs)
    reach = float(stdtrit(freedom, (1 + level) / 2))
    return Share(value, *wilson(value, effective, reach), votes, pairs, effective, reach, lasting)


def _codes(labels: Codes) -> tuple[NDArray[np.intp], int]:
    names, codes = np.unique(labels, return_inverse=True)
    return codes, len(names)
