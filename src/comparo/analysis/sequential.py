"""Is a mean above ½? A test that may be looked at after every observation, and a confidence interval that holds then.

Observations x between 0 and 1, such as how much a judge prefers one system on an input, have an unknown mean. A bettor
who doubts that the mean is m stakes a share of the capital on each observation. After n of them the capital is

    W_n(m) = ∏ (1 + λ_i·(x_i − m)),    λ_i known before x_i.

If the mean is m, no bettor can expect to win, and the chance that the capital ever reaches 1/α is at most α (Ville), no
matter what the distribution of x is, how λ is chosen, and when one looks (Waudby-Smith and Ramdas 2023, "Estimating
means of bounded random variables by betting"). The m that were never refuted are a confidence interval at any time.
Observations must be independent of each other: of inputs that have a topic in common, x is the mean of the topic.

How λ is chosen decides the power alone. Of `total` observations that there may be, T are left, and s² is the mean of
(x − m)² so far:

    λ = max( √(2·log(1/(α·W)) / (T·s²)),  (x̄ − m − z·s/√n) / s² ).

The first is the stake that reaches 1/α at the last observation (Voráček and Orabona 2025, "STaR-Bets", arXiv
2505.22422); the second is Kelly's, with a cautious mean, and stops early where the difference is large.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from comparo.types import Array

MOST = 0.95  # share of the capital that is staked at most: an observation of 0 or 1 must not ruin a bettor
# Errors by which the mean is lowered in Kelly's stake. Measured as in `python -m benchmarks.systems`: 0, ½ and 1 stop
# after 59, 62 and 72 decisions where the win rate is 65%, and find one of 58% in 94, 97 and 98% of runs.
CAUTION = 0.5
FIRST = 0.25  # (x − m)² of an observation before the first, the largest that decisions can have around ½
STEPS = 400  # means that are tried for the interval
ROUNDING = 1e-9  # by which a capital may miss its target


class Bettors:
    """The capital of two bettors for each mean m (M,): one bets that the mean is above m, the other below.

    Each of them may be wrong with probability `error` / 2; `total` is how many observations there may be.

    >>> bettors = Bettors(np.array([0.5]), error=0.05, total=20)
    >>> bettors.needed
    6
    >>> for x in (0.9, 0.9, 0.9): bettors.add(x)
    >>> bettors.needed, bool(bettors.log_capital[0, 0] > 0 > bettors.log_capital[1, 0])
    (4, True)
    """

    def __init__(self, m: Array, error: float, total: int) -> None:
        self.target, self.total, self.count = float(np.log(2.0 / error)), total, 0
        self.log_capital = np.zeros((2, len(m)))
        self.most = np.zeros((2, len(m)))  # the largest so far
        self._m, self._side = m, np.array([[1.0], [-1.0]])
        self._bound = MOST / np.array([m, 1.0 - m])
        self._sum, self._squares = np.zeros((2, len(m))), np.full(len(m), FIRST)

    def add(self, x: float) -> None:
        """Bet on one more observation."""
        left, seen = max(self.total - self.count, 1), self.count + 1
        square = self._squares / seen
        reaching = np.sqrt(2.0 * np.maximum(self.target - self.log_capital, 0.0) / (left * square))
        kelly = (self._sum / seen - CAUTION * np.sqrt(square / seen)) / square
        stake = np.clip(np.maximum(reaching, kelly), 0.0, self._bound)
        away = self._side * (x - self._m)
        self.log_capital += np.log1p(stake * away)
        self.most = np.maximum(self.most, self.log_capital)
        self._sum += away
        self._squares += (x - self._m) ** 2
        self.count = seen

    @property
    def refuted(self) -> NDArray[np.bool_]:
        """Which bettors reached their target at some time, (2, M)."""
        return np.asarray(self.most >= self.target - ROUNDING)

    @property
    def needed(self) -> int:
        """How many further observations it takes at least until one reaches the target; 0 where one has."""
        if self.refuted.any():
            return 0
        gain = np.log1p(self._bound * np.array([1.0 - self._m, self._m]))
        return max(1, int(np.ceil(np.min((self.target - ROUNDING - self.log_capital) / gain))))


@dataclass(frozen=True, eq=False)
class Bets:
    """What the observations x (n,), in the order they were made, say of their mean.

    `error` is the chance that a side is named, or the interval misses the mean, at any time; `total` is how many
    observations there may be, by default n.

    Examples
    --------
    >>> bets = Bets(np.full(30, 0.8))
    >>> bets.stopped, bets.side, round(bets.probability, 3)
    (11, 1, 1.0)
    >>> low, high = bets.interval
    >>> 0.5 < low < 0.8 < high
    True
    """

    x: Array
    error: float = 0.05
    total: int | None = None

    @cached_property
    def capital(self) -> Array:
        """The capital of those who bet that the mean is above and below ½, after each observation, (n, 2)."""
        bettors, found = self._bettors(np.array([0.5])), np.zeros((len(self.x), 2))
        for row, x in enumerate(self.x.tolist()):
            bettors.add(x)
            found[row] = bettors.log_capital[:, 0]
        return np.exp(found)

    @property
    def probability(self) -> float:
        """P(the mean is above ½) by the normal approximation, if all means were equally probable before.

            Φ( Σ (x − ½) / √(¼ + Σ (x − ½)²) )

        >>> Bets(np.array([0.5, 0.5])).probability, round(Bets(np.array([1.0, 0.5, 1.0])).probability, 3)
        (0.5, 0.876)
        """
        away = self.x - 0.5
        return float(ndtr(np.sum(away) / np.sqrt(FIRST + np.sum(away**2))))

    @property
    def stopped(self) -> int | None:
        """After how many observations the side was first sure; None if it never was."""
        sure = np.flatnonzero(np.max(self.capital, axis=1) >= (2.0 - ROUNDING) / self.error)
        return int(sure[0]) + 1 if len(sure) else None

    @property
    def side(self) -> int:
        """1 where the mean is surely above ½, −1 where it is below, 0 where neither is sure."""
        at = self.stopped
        if at is None:
            return 0
        above, below = self.capital[at - 1]
        return 1 if above >= below else -1

    @cached_property
    def interval(self) -> tuple[float, float]:
        """The ends of the means that no bettor refuted at any time, each side with half of the error.

        It holds after every observation at once with probability 1 − error; (0, 1) without observations.
        """
        bettors = self._bettors((np.arange(STEPS) + 0.5) / STEPS)
        for x in self.x.tolist():
            bettors.add(x)
        kept = np.flatnonzero(~bettors.refuted.any(axis=0))
        if not len(kept):
            return float(np.mean(self.x)), float(np.mean(self.x))
        return int(kept[0]) / STEPS, (int(kept[-1]) + 1) / STEPS

    def _bettors(self, m: Array) -> Bettors:
        return Bettors(m, self.error, len(self.x) if self.total is None else self.total)
