"""What a comparison of two systems found: who is better, how sure that is, and on which inputs."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit, ndtri

from comparo.analysis.sequential import Bets
from comparo.data.words import visible
from comparo.ranking.display import json_rows, plain
from comparo.ranking.orders import CLIPPED
from comparo.ranking.ranking import Ranking
from comparo.types import Array

EQUAL = 1e-9  # a margin in logits within rounding of 0
FEWEST = 2  # inputs for an estimate of how much they differ
MARKS = "\\`*_{}[]|#!~>"  # what Markdown would obey
SHOWN = 5  # inputs that a summary names for each side


@dataclass(frozen=True, eq=False)
class Duel:
    """Whether `other` is better than `one`, and how sure that is.

    Parameters
    ----------
    one, other : The names of the two sides.
    input : The inputs in the order they were asked, (n,).
    first, second : The probability that the judge prefers the other's text on each, where that is shown first, and
        where it is shown second, (n,); NaN where the texts are the same.
    planned : How many inputs both sides have, of which not all may have been asked.
    same : On how many of these the two texts are the same.
    failed : How many inputs are left out because the judge did not answer in both orders.
    unmatched : How many inputs only one side has.
    calls, cost, cached : How many answers there are, what was paid for them in dollars, and how many of them came from
        the cache.
    level : How sure an answer must be, 0.95 for one wrong answer in twenty at most.
    ranking : The ranking of the texts, None where all are the same.
    """

    one: str
    other: str
    input: NDArray[Any]
    first: Array
    second: Array
    planned: int
    same: int
    failed: int
    unmatched: int
    calls: int
    cost: float
    level: float
    ranking: Ranking | None
    cached: int = 0

    @cached_property
    def margin(self) -> Array:
        """By how much the other's text is preferred, (n,): the mean of both orders in logits, in which γ cancels."""
        return margins(self.first, self.second)

    @property
    def win(self) -> Array:
        """1 where the other wins an input, 0 where it loses it, ½ where neither does, (n,)."""
        return wins(self.margin)

    @cached_property
    def bets(self) -> Bets:
        """The evidence after each input."""
        return Bets(self.win)

    @property
    def asked(self) -> int:
        """How many inputs the judge answered: those that were looked at, without the same text twice."""
        return int(np.count_nonzero(~np.isnan(self.first)))

    @property
    def win_rate(self) -> float:
        """The share of inputs that the other wins, those that neither wins counted by half."""
        return float(np.mean(self.win)) if len(self.win) else 0.5

    @cached_property
    def interval(self) -> tuple[float, float]:
        """The interval of the win rate over all inputs that could have been drawn; it holds whenever one stops."""
        return self.bets.interval(1 - self.level)

    @property
    def probability(self) -> float:
        """P(the other is better), if both were equally probable before."""
        return self.bets.probability

    @property
    def side(self) -> int:
        """1 where the other is surely better, −1 where it is surely worse, 0 where neither is sure."""
        return self.bets.side(1 - self.level)

    @property
    def wins(self) -> tuple[int, int, int]:
        """On how many inputs the other wins, the one wins, and neither does."""
        won, lost = (int(np.count_nonzero(found)) for found in (self.win > 0.5, self.win < 0.5))
        return won, lost, len(self.win) - won - lost

    def is_worse(self, sure: float) -> bool:
        """Whether the other is worse; where it is not, that is said in at most a share 1 − `sure` of all runs."""
        return bool(len(self.win)) and float(np.max(self.bets.below)) >= 1 / (1 - sure)

    @cached_property
    def difference(self) -> tuple[float, float, float]:
        """How much higher the other's mean score is, in logits, and the ends of its interval; NaN where it is unknown.

        The standard error is that of `Ranking.groups`. The interval is wide enough for stopping at any time: in place
        of 1.96 errors it has √((1 + 1/v)·(log(1 + v) + 2·log(1/α))), v = 8.1·n/planned, the bound of Robbins' mixture
        (Waudby-Smith and others 2021), which is approximate where inputs are few.
        """
        if self.ranking is None or self.asked < FEWEST:
            return math.nan, math.nan, math.nan
        board = self.ranking.groups()
        apart, low, _ = board.difference(self.other, self.one)
        error = (apart - low) / float(ndtri((1 + board.level) / 2))
        level = 2 * math.log(1 / (1 - self.level))
        tuned = level + math.log(level) + 1
        v = tuned * len(self.win) / max(self.planned, 1)
        reach = error * math.sqrt((1 + 1 / v) * (math.log1p(v) + level))
        return apart, apart - reach, apart + reach

    @property
    def verdict(self) -> str:
        """The answer in a sentence."""
        low, high = self.interval
        rate = f"{self.other} wins {self.win_rate:.0%} ({low:.0%} to {high:.0%}) of {len(self.win)} inputs"
        if self.same == self.planned:
            return f"no difference: {self.one} and {self.other} have the same text on all {self.planned} inputs"
        if self.side == 0:
            return f"no difference found between {self.one} and {self.other}: {rate}"
        return f"{self.other} is {'better' if self.side > 0 else 'worse'} than {self.one}: {rate}"

    def to_columns(self) -> dict[str, NDArray[Any]]:
        """The inputs, those on which the other wins most first: input, margin, first, second."""
        order = np.argsort(-self.margin, kind="stable")
        columns = {"input": self.input, "margin": self.margin, "first": self.first, "second": self.second}
        return {name: column[order] for name, column in columns.items()}

    def to_json(self) -> str:
        """Everything as one JSON object."""
        low, high = self.interval
        apart, least, most = self.difference
        won, lost, tied = self.wins
        document = {
            "one": self.one,
            "other": self.other,
            "verdict": self.verdict,
            "sure": {1: "better", -1: "worse", 0: "no difference found"}[self.side],
            "level": self.level,
            "probability": self.probability,
            "win_rate": {"value": self.win_rate, "low": low, "high": high},
            "score_difference": {"value": plain(apart), "low": plain(least), "high": plain(most)},
            "inputs": {
                "asked": self.asked,
                "planned": self.planned,
                "same": self.same,
                "failed": self.failed,
                "unmatched": self.unmatched,
                "won": won,
                "lost": lost,
                "tied": tied,
            },
            "calls": self.calls,
            "cached": self.cached,
            "cost": plain(self.cost),
            "by_input": json_rows(self.to_columns()),
        }
        return json.dumps(document, ensure_ascii=False, default=str, allow_nan=False)

    def to_markdown(self) -> str:
        """The answer as Markdown, for a pull request."""
        low, high = self.interval
        apart, least, most = self.difference
        won, lost, tied = self.wins
        lines = [f"**{_cell(self.verdict)}**", "", "| | value | interval |", "| --- | ---: | ---: |"]
        lines.append(f"| win rate of {_cell(self.other)} | {self.win_rate:.1%} | {low:.1%} to {high:.1%} |")
        if not math.isnan(apart):
            lines.append(f"| score difference (logits) | {apart:.2f} | {least:.2f} to {most:.2f} |")
        lines.append(f"| P({_cell(self.other)} is better) | {self.probability:.3f} | |")
        lines.append(f"| inputs won, lost, tied | {won}, {lost}, {tied} | |")
        lines.append(f"| calls | {self.calls:,} | |")
        lines += [f"| answers from the cache | {self.cached:,} | |"] if self.cached else []
        columns = self.to_columns()
        cells = [f"{_cell(name)} ({by:+.2f})" for name, by in zip(columns["input"], columns["margin"], strict=True)]
        for name, most_won in ((self.other, cells[:won]), (self.one, cells[::-1][:lost])):
            if most_won:
                lines += ["", f"{_cell(name)} wins most, by so many logits, on: {', '.join(most_won[:SHOWN])}"]
        holds = f"Intervals hold with {self.level:.0%} confidence at whatever input one stops."
        return "\n".join([*lines, "", holds, ""])

    def __str__(self) -> str:
        return self.verdict


def margins(first: Array, second: Array) -> Array:
    """The mean of the logits of two probabilities (n,), 0 where these are NaN: the effect of position cancels.

    >>> margins(np.array([0.9, 1.0, np.nan]), np.array([0.1, 0.0, np.nan])).round(9)
    array([0., 0., 0.])
    """
    one, other = (logit(np.clip(np.nan_to_num(p, nan=0.5), CLIPPED, 1 - CLIPPED)) for p in (first, second))
    return np.asarray(0.5 * (one + other))


def wins(margin: Array) -> Array:
    """1, 0 or ½ for a margin above, below or of 0 (within rounding), (n,).

    >>> wins(np.array([0.3, -0.2, 1e-12]))
    array([1. , 0. , 0.5])
    """
    return np.where(np.abs(margin) < EQUAL, 0.5, (margin > 0).astype(np.float64))


def _cell(value: Any) -> str:
    """A text that may stand in a Markdown table: on one line, and with nothing that Markdown or HTML would obey."""
    line = " ".join(visible(value, lines=False).split())
    return "".join(f"\\{sign}" if sign in MARKS else sign for sign in line).replace("&", "&amp;").replace("<", "&lt;")
