"""Anytime-valid evidence: whether a mean is above ½, and whether answers show that texts differ.

Under pure noise, the probability that such evidence ever reaches x is at most 1/x, however often one looks, because its
expectation stays 1 (Ville's inequality).

`Bets` tests a mean, and has a confidence interval that holds after every observation. Observations x between 0 and 1,
such as how much a judge prefers one system on an input, have an unknown mean. A bettor who doubts that the mean is m
stakes a share of the capital on each observation. After n of them the capital is

    W_n(m) = ∏ (1 + λ_i·(x_i − m)),    λ_i known before x_i.

If the mean is m, no bettor can expect to win, and the chance that the capital ever reaches 1/α is at most α, no
matter what the distribution of x is, how λ is chosen, and when one looks (Waudby-Smith and Ramdas 2023, "Estimating
means of bounded random variables by betting"). The m that were never refuted are a confidence interval at any time.
Observations must be independent: where inputs share a topic, x is the mean over the topic.

The choice of λ affects only the power. T of at most `total` observations are left, and s² is the mean of (x − m)² so
far:

    λ = max( √(2·log(1/(α·W)) / (T·s²)),  (x̄ − m − z·s/√n) / s² ).

The first is the stake that reaches 1/α at the last observation (Voráček and Orabona 2025, "STaR-Bets", arXiv
2505.22422); the second is Kelly's, with a cautious mean, and stops early where the difference is large.

A few answers of pure noise may agree by chance and look like a sure order. The evidence B is the Bayes factor of the
answers for different against equal scores. The answers y are logits; for choices (decisions, votes) they are p − ½,
because logits of 0 and 1 are infinite. Their noise variance φ is unknown. `log_evidence` is log B,

    B = ∫ L(a) π(a) da / L(0),    L(a) = Π (1 + a·q)^−½ · Q(a)^−K/2,    Q(a) = Σ c·y² − a Σ β²/(1 + a·q),

where a = σ²/φ is the variance of scores relative to the noise of one answer, and q, β and c are those of the comparison
graph (`spectrum`), of all contexts together. The prior π of √a is Cauchy's distribution above 0 with the
scale 1. Where comparisons form no loop, some scores fit any answers exactly: then B = 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from comparo.data.comparisons import Comparisons
from comparo.model.inference.soft import Soft
from comparo.model.linalg.spectrum import Spectrum
from comparo.types import Array

MOST = 0.95  # share of the capital that is staked at most: an observation of 0 or 1 must not ruin a bettor
# Standard errors by which the mean is lowered in Kelly's stake. Measured as in `python -m benchmarks.systems`: 0, ½ and
# 1 stop after 59, 62 and 72 decisions where the win rate is 65%, and find one of 58% in 94, 97 and 98% of runs.
CAUTION = 0.5
FIRST = 0.25  # (x − m)² of a pseudo-observation before the first: that of a decision for m = ½
STEPS = 400  # means that are tried for the interval
ROUNDING = 1e-9  # tolerance of a log capital at its target


class Bettors:
    """The capital of two bettors for each mean m (M,): one bets that the mean is above m, the other below.

    Each reaches its target wrongly with probability at most `error` / 2; `total` is the most observations.

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
        """The fewest further observations after which a bettor can reach the target; 0 if one has."""
        if self.refuted.any():
            return 0
        gain = np.log1p(self._bound * np.array([1.0 - self._m, self._m]))
        return max(1, int(np.ceil(np.min((self.target - ROUNDING - self.log_capital) / gain))))


@dataclass(frozen=True, eq=False)
class Bets:
    """A sequential test whether the mean of x (n,), in the order observed, is above or below ½.

    `error` bounds the chance that at any time a wrong side is named, or the interval misses the mean; `total` is the
    most observations, by default n.

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
        """The number of observations after which a side was first sure; None if none was."""
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
        """The confidence interval: the least and the largest mean that no bettor refuted at any time.

        It holds after all observations jointly with probability 1 − error; (0, 1) without observations.
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


SURE = 20.0  # B from which texts are taken to differ: of pure noise, at most 1 run in 20 ever gets there
POINTS = 64  # quantiles of the prior over which L is averaged; 1000 change log B of the example below by under 0.01


def log_evidence(comparisons: Comparisons) -> float:
    """Return log B, the log Bayes factor of the answers for different against equal scores.

    Parameters
    ----------
    comparisons
        Comparisons of any number of contexts, which share the ratio a.

    Returns
    -------
    float
        Above log 20 ≈ 3.0 texts are taken to differ; below 0 the answers favour equal scores.

    Examples
    --------
    >>> chain = [("a", "b", 0.8), ("b", "c", 0.7), ("c", "d", 0.75), ("a", "d", 0.97)]
    >>> order, ring = [("a", "c", 0.92), ("b", "d", 0.9)], [("c", "a", 0.92), ("d", "b", 0.9)]
    >>> [round(log_evidence(Comparisons.from_rows(chain + rows)), 1) for rows in (order, ring)]
    [1.6, -1.2]
    """
    model = Soft.of_any(comparisons)
    spectrum = Spectrum.of(model.system, np.zeros((model.system.nodes, 0)))
    a = np.concatenate([[0.0], np.tan(np.pi / 2 * (np.arange(POINTS) + 0.5) / POINTS) ** 2])[:, None]
    rest = spectrum.square - np.sum(a * spectrum.beta**2 / (1.0 + a * spectrum.q), axis=1)
    rest = np.log(np.maximum(rest, np.finfo(float).tiny))
    height = -0.5 * (np.log1p(a * spectrum.trace_q) @ spectrum.trace_weight + np.count_nonzero(model.c > 0) * rest)
    top = float(np.max(height))
    return top + float(np.log(np.mean(np.exp(height[1:] - top)))) - float(height[0])
