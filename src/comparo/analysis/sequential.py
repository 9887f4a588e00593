"""Evidence that may be looked at at any time: whether a mean is above ½, and whether answers show that texts differ.

Of pure noise, such evidence ever reaches a number x in at most 1/x of all cases, whenever one looks, because its
expectation stays 1 (Ville's inequality).

`Bets` tests a mean, and has a confidence interval that holds after every observation. Observations x between 0 and 1,
such as how much a judge prefers one system on an input, have an unknown mean. A bettor who doubts that the mean is m
stakes a share of the capital on each observation. After n of them the capital is

    W_n(m) = ∏ (1 + λ_i·(x_i − m)),    λ_i known before x_i.

If the mean is m, no bettor can expect to win, and the chance that the capital ever reaches 1/α is at most α, no
matter what the distribution of x is, how λ is chosen, and when one looks (Waudby-Smith and Ramdas 2023, "Estimating
means of bounded random variables by betting"). The m that were never refuted are a confidence interval at any time.
Observations must be independent of each other: of inputs that have a topic in common, x is the mean of the topic.

How λ is chosen decides the power alone. Of `total` observations that there may be, T are left, and s² is the mean of
(x − m)² so far:

    λ = max( √(2·log(1/(α·W)) / (T·s²)),  (x̄ − m − z·s/√n) / s² ).

The first is the stake that reaches 1/α at the last observation (Voráček and Orabona 2025, "STaR-Bets", arXiv
2505.22422); the second is Kelly's, with a cautious mean, and stops early where the difference is large.

No test that holds for every distribution finds much in a dozen means: twelve that are all 0.6 are not rare where one in
six is 0 and the mean ½. Means of clusters are averages, so where there are `FEW` of them, the bets get a share `BETS`
of the error α, and the rest is for one test at the end, when all are there: Student's interval of the mean, whose ends
are moved outwards for the skewness g by the first term of Cornish and Fisher,

    x̄ ∓ s/√n · (t + max(0, ∓g)·(1 + 2t²) / (6√n)).

A mean at which one stops is too far from ½, because one stops where it is far. The size of this is estimated by playing
the same bets on draws from the observations (`Bets.mean`).

A few answers of pure noise may agree by chance and look like a sure order. The evidence B is how much more probable
answers are if texts differ than if they do not. The answers y are logits; for choices (decisions, votes) they are
p − ½, because logits of 0 and 1 are infinite. Their noise φ may be anything.

Whether scores order the texts (`log_evidence`):

    B = ∫ L(a) π(a) da / L(0),    L(a) = Π (1 + a·q)^−½ · Q(a)^−K/2,    Q(a) = Σ c·y² − a Σ β²/(1 + a·q),

where a = σ²/φ is the variance of scores relative to the noise of one answer, and q, β and c are those of the comparison
graph (`spectrum`), of all contexts together. The prior π of √a is Cauchy's distribution above 0 with the
scale 1. Comparisons that form no loop agree with some scores whatever they say: then B = 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtr, stdtrit

from comparo.data.comparisons import Comparisons
from comparo.errors import Message
from comparo.model.inference.soft import Soft
from comparo.model.linalg.spectrum import Spectrum
from comparo.model.observations import are_choices
from comparo.ranking.ranking import Ranking
from comparo.types import Array

LARGEST_STAKE = 0.95  # share of the capital that is staked at most: an observation of 0 or 1 must not ruin a bettor
# Errors by which the mean is lowered in Kelly's stake. Measured as in `python -m benchmarks.systems`: 0, ½ and 1 stop
# after 59, 62 and 72 decisions where the win rate is 65%, and find one of 58% in 94, 97 and 98% of runs.
CAUTION = 0.5
FIRST = 0.25  # (x − m)² of an observation before the first, the largest that decisions can have around ½
STEPS = 400  # means that are tried for the interval
ROUNDING = 1e-9  # by which a capital may miss its target
# Numbers of clusters for which a test at the end is worth its share of the error. Measured by `python -m
# benchmarks.systems`: of more, bets alone find nearly as much and stop earlier; of 6, skewed means that are equal were
# told apart in up to 8% of runs.
FEW = range(8, 101)
BETS = 0.4  # the share of the error for bets before that end; the test has 3%, so that skewed means keep to 5%
DRAWS = 400  # runs by which the bias of stopping is estimated, with an error of 5 / √400 = 0.25 points


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
        self._bound = LARGEST_STAKE / np.array([m, 1.0 - m])
        self._sum, self._squares = np.zeros((2, len(m))), np.full(len(m), FIRST)

    def add(self, x: float | Array) -> None:
        """Bet on one more observation, or on one for each mean (M,)."""
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
    observations there may be, by default n. Where a part of the error is for a test at the end, `is_end` says whether
    x are all there will be; None: it is all for bets. One stops when the mean is surely above or below `line`.

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
    is_end: bool | None = None
    line: float = 0.5

    @cached_property
    def capital(self) -> Array:
        """The capital of those who bet that the mean is above and below `line`, after each observation, (n, 2)."""
        bettors, found = self._bettors(np.array([self.line])), [np.zeros((0, 2))]
        for x in self.x.tolist():
            bettors.add(x)
            found.append(bettors.log_capital.T.copy())
        return np.exp(np.concatenate(found))

    @property
    def probability(self) -> float:
        """P(the mean is above ½) by the normal approximation, if all means were equally probable before.

            Φ( Σ (x − ½) / √(¼ + Σ (x − ½)²) )

        >>> Bets(np.array([0.5, 0.5])).probability, round(Bets(np.array([1.0, 0.5, 1.0])).probability, 3)
        (0.5, 0.876)
        """
        away = self.x - 0.5
        return float(ndtr(np.sum(away) / np.sqrt(FIRST + np.sum(away**2))))

    @cached_property
    def stopped(self) -> int | None:
        """After how many observations the side was first sure; None if it never was."""
        sure = np.flatnonzero(np.max(self.capital, axis=1) >= (2.0 - ROUNDING) / (self._share * self.error))
        low, high = self._at_end(self.error)
        return int(sure[0]) + 1 if len(sure) else len(self.x) if not low <= self.line <= high else None

    @property
    def side(self) -> int:
        """1 where the mean is surely above ½, −1 where it is below, 0 where neither is sure."""
        if self.line != 0.5:
            return int(self.interval[0] > 0.5) - int(self.interval[1] < 0.5)
        return 0 if self.stopped is None else 1 if sum(self.interval) > 1.0 else -1

    @property
    def is_above(self) -> bool:
        """Whether the mean is surely above `line`; where it is not, this is ever so with the chance `error` / 2."""
        most = float(np.max(self.capital[:, 0], initial=0.0))
        return most * self._share * self.error >= 2.0 - ROUNDING or self._at_end(self.error)[0] > self.line

    def is_below(self, error: float) -> bool:
        """Whether the mean is surely below `line`; where it is not, this is ever so with the chance `error` at most."""
        most = float(np.max(self.capital[:, 1], initial=0.0))
        return most * self._share * error >= 1.0 - ROUNDING or self._at_end(2.0 * error)[1] < self.line

    @cached_property
    def interval(self) -> tuple[float, float]:
        """The ends of the means that no bettor refuted at any time; each side has half of the error.

        Where there is a test at the end, it did not refute them either. It holds after every observation at once with
        probability 1 − error; (0, 1) without observations.
        """
        bettors = self._bettors((np.arange(STEPS) + 0.5) / STEPS)
        for x in self.x.tolist():
            bettors.add(x)
        kept = np.flatnonzero(~bettors.refuted.any(axis=0))
        if not len(kept):
            return float(np.mean(self.x)), float(np.mean(self.x))
        low, high = self._at_end(self.error)
        return max(low, int(kept[0]) / STEPS), min(high, (int(kept[-1]) + 1) / STEPS)

    @cached_property
    def mean(self) -> float:
        """The mean of x, less what stopping adds to it: so much as it adds to draws from x, on which the same is bet.

        >>> bets = Bets(np.array([1.0, 0.5] * 12), total=60)
        >>> bets.stopped, float(np.mean(bets.x)), round(bets.mean, 2)
        (17, 0.75, 0.74)
        """
        mean = float(np.mean(self.x)) if len(self.x) else 0.5
        if self.stopped is None or self.total is None or len(self.x) >= self.total:
            return mean
        bettors, rng = self._bettors(np.full(DRAWS, self.line)), np.random.default_rng(0)
        sums, counts = np.zeros(DRAWS), np.zeros(DRAWS)
        while bettors.count < self.total and not (sure := bettors.refuted.any(axis=0)).all():
            x = rng.choice(self.x, DRAWS)
            bettors.add(x)
            sums += ~sure * x
            counts += ~sure
        return mean - (float(np.mean(sums / counts)) - mean) * self.stopped / len(self.x)

    @property
    def _share(self) -> float:
        """The share of the error that bets have."""
        return 1.0 if self.is_end is None else BETS

    def _at_end(self, error: float) -> tuple[float, float]:
        """The interval of the test at the end, where there is one."""
        is_tested = self.is_end and len(self.x) in FEW
        return mean_interval(self.x, (1.0 - self._share) * error) if is_tested else (0.0, 1.0)

    def _bettors(self, m: Array) -> Bettors:
        return Bettors(m, self._share * self.error, len(self.x) if self.total is None else self.total)


def power(line: float, error: float, total: int) -> float:
    """The probability that `total` observations of a coin, 0 or 1, show that their mean is above `line`, below ½.

    >>> power(0.45, 0.05, 400) < power(0.35, 0.05, 400)
    True
    """
    bettors, rng = Bettors(np.full(DRAWS, line), error, total), np.random.default_rng(0)
    for _ in range(total):
        bettors.add(rng.integers(0, 2, DRAWS).astype(np.float64))
    return float(np.mean(bettors.refuted[0]))


def mean_interval(x: Array, error: float) -> tuple[float, float]:
    """Student's interval of a mean, widened on the side of the longer tail, of which few observations show little.

    >>> low, high = mean_interval(np.array([0.5, 0.5, 0.6, 0.6, 0.6, 0.7, 0.7, 0.9]), 0.05)
    >>> round(low, 2), round(high, 2)
    (0.53, 0.78)
    """
    mean, away = float(np.mean(x)), x - np.mean(x)
    spread = max(math.sqrt(np.mean(away**2)), ROUNDING)
    t, skewness = float(stdtrit(len(x) - 1, 1.0 - error / 2)), float(np.mean(away**3)) / spread**3
    wider = skewness * (1.0 + 2.0 * t**2) / (6.0 * math.sqrt(len(x)))
    each = spread / math.sqrt(len(x) - 1)
    return max(mean - each * (t + max(-wider, 0.0)), 0.0), min(mean + each * (t + max(wider, 0.0)), 1.0)


CLEAR_EVIDENCE = 20.0  # B from which texts are taken to differ: of pure noise, at most 1 run in 20 ever gets there
# Of 30 texts with two looks at each in orders of five, 1 of 24 judges that read is above it, and 13 of 16 coins; 4 of
# the 24 are above ½ (tests/test_confidence.py).
CHANCE = 2 / 3
POINTS = 64  # quantiles of the prior over which L is averaged; 1000 change log B of the example below by under 0.01


def log_evidence(comparisons: Comparisons) -> float:
    """Return log B, how much more probable the answers are if scores differ than if they do not.

    Parameters
    ----------
    comparisons
        Of any number of contexts, which share the ratio a.

    Returns
    -------
    float
        Above log 20 ≈ 3.0 an order is certain enough to be reckoned with; below 0 it is less probable than none.

    Examples
    --------
    >>> chain = [("a", "b", 0.8), ("b", "c", 0.7), ("c", "d", 0.75), ("a", "d", 0.97)]
    >>> order, ring = [("a", "c", 0.92), ("b", "d", 0.9)], [("c", "a", 0.92), ("d", "b", 0.9)]
    >>> [round(log_evidence(Comparisons.from_rows(chain + rows)), 1) for rows in (order, ring)]
    [2.4, -1.2]
    """
    model = Soft.of_any(comparisons)
    spectrum = Spectrum.of(model.system, np.zeros((model.system.nodes, 0)))
    angles = np.pi / 2 * (np.arange(POINTS) + 0.5) / POINTS
    a = np.concatenate([[0.0], np.tan(angles) ** 2])[:, None]
    rest = spectrum.square - np.sum(a * spectrum.beta**2 / (1.0 + a * spectrum.q), axis=1)
    rest = np.log(np.maximum(rest, np.finfo(float).tiny))
    trace = np.log1p(a * spectrum.trace_q) @ spectrum.trace_weight
    freedom = model.observations.freedom[model.pattern.order]  # the rows of a line-up are not independent
    height = -0.5 * (trace + np.sum(freedom[model.c > 0]) * rest)
    top = float(np.max(height))
    return top + float(np.log(np.mean(np.exp(height[1:] - top)))) - float(height[0])


def chance_notes(ranking: Ranking) -> list[str]:
    """A note where all texts of a run with the goal "top-k" are probably equal (above `CHANCE`; before the answers, ½).

    The probability is the model's (`Effects.equal`) for choices, and 1 / (1 + B) for soft answers.

    >>> from comparo import fit
    >>> chance_notes(fit([("a", "b", 0.8), ("b", "a", 0.3)]))
    []
    """
    data, effects = ranking.comparisons, ranking.solution.effects
    if ranking.solution.best is None or effects is None:
        return []
    equal = effects.equal if are_choices(data) else float(expit(-log_evidence(data)))
    if equal <= CHANCE:
        return []
    smaller = "" if data.lineup is None else Message("ask pairs or smaller line-ups ({lineup}), ")
    return [
        f"these answers hardly tell the texts apart (probability that all are equal: {equal:.2f}), so the best "
        f"{ranking.solution.best} may be chance: check the judge with `comparo audition`, "
        + smaller
        + Message("take another {judge}, or ask more ({budget})")
    ]
