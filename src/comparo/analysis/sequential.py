"""Is a mean above ½? A test that may be looked at after every observation, and a confidence interval that holds then.

Observations x between 0 and 1, such as the win rate of one system against another on an input, have an unknown mean.
A bettor who believes that the mean is not m stakes a share of the money on each observation: after n of them it has

    E_n(m) = mean over bets λ of ∏ (1 + λ·(x_i − m)).

If the mean is m, no bettor can expect to win, and the chance that the money ever reaches 1/α is at most α (Ville), no
matter what the distribution of x is and when one looks (Waudby-Smith and Ramdas 2023, "Estimating means of bounded
random variables by betting"). So an E of 20 is evidence at the 5% level at any time, and the m that were never refuted
are a confidence interval at any time.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import logsumexp

from comparo.types import Array

# Shares of the money that are staked: a mean θ of scatter s is best met by the share (θ − ½)/(2s²), so that decisions
# (s = ½) with a mean of 0.515 are met by the least. Neighbours differ by a factor of 2, and each more costs evidence.
STAKES = np.geomspace(0.03, 0.95, 6)
STEPS = 400  # means that are tried for the interval


@dataclass(frozen=True, eq=False)
class Bets:
    """What the observations x (n,), in the order they were made, say of their mean.

    Examples
    --------
    >>> bets = Bets(np.full(30, 0.8))
    >>> bets.stopped(0.05), bets.side(0.05), bool(bets.below[-1] < 1)
    (12, 1, True)
    >>> low, high = bets.interval(0.05)
    >>> 0.5 < low < 0.8 < high
    True
    """

    x: Array

    @cached_property
    def above(self) -> Array:
        """E_n of the bets that the mean is above ½, after each observation, (n,)."""
        return self._money(0.5, 1.0)

    @cached_property
    def below(self) -> Array:
        """E_n of the bets that the mean is below ½, after each observation, (n,)."""
        return self._money(0.5, -1.0)

    @property
    def probability(self) -> float:
        """P(the mean is above ½), if both sides were equally probable before: the share of the money won above ½.

        >>> Bets(np.array([0.5, 0.5])).probability
        0.5
        """
        if not len(self.x):
            return 0.5
        above, below = float(self.above[-1]), float(self.below[-1])
        return above / (above + below)

    def stopped(self, error: float) -> int | None:
        """After how many observations the side was first sure, with this chance of an error; None if it never was."""
        money = np.maximum(self.above, self.below)
        sure = np.flatnonzero(money >= 2.0 / error)
        return int(sure[0]) + 1 if len(sure) else None

    def side(self, error: float) -> int:
        """1 where the mean is surely above ½, −1 where it is below, 0 where neither is sure."""
        at = self.stopped(error)
        if at is None:
            return 0
        return 1 if self.above[at - 1] >= self.below[at - 1] else -1

    def interval(self, error: float) -> tuple[float, float]:
        """The ends of the means that no bettor refuted at any time, each side with half of the error.

        It holds after every observation at once with probability 1 − error; (0, 1) without observations. A bet that the
        mean is above m wins 1 + λ·(x/m − 1), the less the larger m is, and one below m the more; so that each end is
        found by bisection.
        """
        if not len(self.x):
            return 0.0, 1.0
        limit, grid = np.log(2.0 / error), (np.arange(STEPS) + 0.5) / STEPS
        begin = bisect_left(grid, True, key=lambda m: self._most(m, 1.0) < limit)
        end = bisect_left(grid, True, key=lambda m: self._most(m, -1.0) >= limit)
        if begin >= end:
            return float(np.mean(self.x)), float(np.mean(self.x))
        return begin / STEPS, end / STEPS

    def _most(self, m: float, side: float) -> float:
        return float(np.max(self._log_money(m, side)))

    def _money(self, m: float, side: float) -> Array:
        return np.asarray(np.exp(np.minimum(self._log_money(m, side), 700.0)))

    def _log_money(self, m: float, side: float) -> Array:
        """log of the mean over bets, after each observation, (n,); a bet never loses more than its stake."""
        most = 1.0 / m if side > 0 else 1.0 / (1.0 - m)
        each = np.log1p(side * most * STAKES * (self.x[:, None] - m))
        return np.asarray(logsumexp(np.cumsum(each, axis=0), axis=1) - np.log(len(STAKES)))
