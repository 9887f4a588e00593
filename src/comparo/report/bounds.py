"""The bounds behind the verdicts fine, check and poor, each with its source, which the page shows beside the verdict.

Where a bound is measured, `python -m benchmarks.bounds` shows the measurement: simulated judges with more and more
noise are asked 6 calls per item in both orders, and the figure is read where the ranking's Spearman correlation with
the true scores falls to 0.90 (`fine`) and to 0.75 (`check`). 6 calls are fewer than the 10 of `comparo rank`.
"""

import math
from dataclasses import dataclass
from typing import Literal

from comparo.ranking.self_consistency import MANY

Verdict = Literal["fine", "check", "poor", "plain"]


@dataclass(frozen=True, slots=True)
class Bound:
    """A figure is fine up to `fine`, worth a check up to `check`, and poor beyond; downwards where `check` is lower.

    `source` says on the page where the two numbers come from.

    >>> Bound(0.9, 0.75, "").verdict(0.8), Bound(0.05, 0.15, "").verdict(0.2), Bound(0.0, 1.0, "").verdict(math.nan)
    ('check', 'poor', 'plain')
    """

    fine: float
    check: float
    source: str

    def verdict(self, value: float) -> Verdict:
        """The verdict on a figure; `plain` where it is unknown."""
        if math.isnan(value):
            return "plain"
        sign = 1 if self.check >= self.fine else -1
        return "fine" if sign * value <= sign * self.fine else "check" if sign * value <= sign * self.check else "poor"


def pairs_in_order(spearman: float) -> float:
    """The share of pairs in the right order at a Spearman correlation, exact where scores and estimates are normal.

    ½ + asin(2·sin(πρ/6)) / π (Kendall, Rank Correlation Methods, 1948).

    >>> round(pairs_in_order(0.9), 2), round(pairs_in_order(0.75), 2), pairs_in_order(0.0)
    (0.86, 0.78, 0.5)
    """
    return 0.5 + math.asin(min(2 * math.sin(math.pi * spearman / 6), 1.0)) / math.pi


def _measured(figure: str) -> str:
    return (
        f"{figure}; at these values, rankings by simulated judges from 6 calls per text have Spearman correlations of "
        "about 0.90 and 0.75 with the true order."
    )


# Definition: `pairs_in_order` of 0.90 and 0.75 are 86% and 78%.
SPEARMAN = Bound(
    0.9, 0.75, "Fine from 0.90, where 86 of 100 pairs are in the right order; poor below 0.75 (78 of 100)."
)
# Definition: by `pairs_in_order`, 0.03 more at 0.9 is 2 more of 100 pairs in the right order, for twice the calls.
WORTH = 0.03
# Definition: wrong in at most one of ten runs; below ½ it is more probably wrong than right.
TOP = Bound(0.9, 0.5, "Fine from 0.90; poor below 0.50, where it is more probable that one of them is wrong.")
# Definition: with three comparisons a single answer is outvoted by the other two.
COMPARISONS = 3
# Measured: not taken out of the scores, a share of 0.55 lowers the Spearman correlation by 0.003, and 0.65 by 0.025.
POSITION = Bound(
    0.05,
    0.15,
    "Fine from 0.45 to 0.55, poor outside 0.35 to 0.65; in simulations such shares lower the Spearman correlation by "
    "0.003 and 0.025.",
)
# Measured: estimated with the scores, a share of 0.6 lowers it by less than 0.001 and 0.8 by 0.005, where the bias is
# the same for all texts. Real judges' bias differs between texts, so the bounds are narrower than this requires.
POSITION_FITTED = Bound(
    0.1,
    0.3,
    "As the bias is taken out: fine from 0.40 to 0.60, poor outside 0.20 to 0.80; in simulations such shares lower the "
    "Spearman correlation by at most 0.001 and 0.005.",
)
# Measured: 0.30 and 0.41.
FLIPS = Bound(0.3, MANY, _measured("Fine up to 30%, poor above 40%"))
# Measured: 0.07 and 0.15.
CYCLES = Bound(0.07, 0.15, _measured("Fine up to 7%, poor above 15%"))
# Measured: 0.19 and 0.27.
CONTRADICTING = Bound(0.19, 0.27, _measured("Fine up to 19%, poor above 27%"))
# Cohen (Statistical Power Analysis, 1988) calls a correlation of 0.3 medium. docs/measurements/study.md, "The longer
# text wins": people's own scores on ten attributes correlate with the length by −0.02 to 0.53, so that 0.6 is beyond
# any of them.
LENGTH = Bound(
    0.3,
    0.6,
    "Fine up to 0.30, a medium correlation; poor above 0.60: people's own scores on ten published attributes correlate "
    "with the length by at most 0.53.",
)
# Definition: with mass m on the two labels, the rest, 1 − m, could move p by up to 1 − m. At m = ½ it could reverse any
# answer, and `comparo rank` stops there (Task.least_mass).
MASS = Bound(
    0.9,
    0.5,
    "Fine from 0.90, where the other words could change an answer by 0.1 at most; poor below 0.50, where they could "
    "reverse any answer.",
)
# Definition: intervals are as 1/√calls, so that 5% fewer calls widen them by 1/√0.95 − 1 = 3%.
FAILED = Bound(0.0, 0.05, "Fine if no call failed; up to 5% failed calls make the intervals at most 3% wider.")
