"""The result of `comparo.compare`: is one system better, on how many inputs, by how much, and how surely?"""

from __future__ import annotations

import html
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from comparo.analysis.sequential import FEW, Bets, Bettors
from comparo.data.sanitize import visible
from comparo.errors import Message
from comparo.ranking.ranking import Ranking
from comparo.ranking.self_consistency import CLIPPED, Flips, unreliable_by
from comparo.ranking.tabular import json_rows, json_text, plain, table_html
from comparo.types import Array

NEITHER = math.nan, math.nan  # the answers about two texts that are the same
EQUAL = 1e-9  # a margin in logits within rounding of 0
MARKS = "\\`*_{}[]|#!~>"  # characters that Markdown interprets
SHOWN = 5  # inputs that a summary names for each side
MANY = 20  # inputs of one side only that are named


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
    unmatched : The inputs that only the one side has, and those that only the other has.
    calls, cost, cached : How many answers there are, what was paid for them in dollars, and how many of them came from
        the cache.
    level : How sure an answer must be, 0.95 for one wrong answer in twenty at most.
    ranking : The ranking of the texts, None where all are the same.
    cluster : What each input belongs to, such as its topic, (n,); None where inputs are independent observations.
    observations : How many independent observations there may be: all clusters, or inputs.
    not_worse_than : The win rate, below ½, above which the other is not worse; None: the question is who is better.
    """

    one: str
    other: str
    input: NDArray[Any]
    first: Array
    second: Array
    planned: int
    same: int
    failed: int
    unmatched: tuple[tuple[Any, ...], tuple[Any, ...]]
    calls: int
    cost: float
    level: float
    ranking: Ranking | None
    cluster: NDArray[Any] | None = None
    observations: int | None = None
    cached: int = 0
    not_worse_than: float | None = None

    @cached_property
    def margin(self) -> Array:
        """The preference for the other's text in logits, (n,): the mean of both orders, in which γ cancels."""
        return margins(self.first, self.second)

    @property
    def win(self) -> Array:
        """1 where the other wins an input, 0 where it loses it, ½ where neither does, (n,)."""
        return wins(self.margin)

    @property
    def preference(self) -> Array:
        """The probability that the judge prefers the other's text, the mean of both orders, (n,)."""
        return np.asarray(np.nan_to_num(0.5 * (self.first + self.second), nan=0.5))

    @cached_property
    def bets(self) -> Bets:
        """The evidence after each input, or after each cluster with the mean preference of its inputs."""
        is_end = self.is_complete if self.cluster is not None and self.observations in FEW else None
        line = self.not_worse_than or 0.5
        return Bets(cluster_means(self.preference, self.cluster), 1 - self.level, self.observations, is_end, line)

    @property
    def is_complete(self) -> bool:
        """Whether every input was asked."""
        return len(self.input) + self.failed == self.planned

    @property
    def asked(self) -> int:
        """The number of inputs that the judge answered, without those whose two texts are the same."""
        return int(np.count_nonzero(~np.isnan(self.first)))

    @property
    def win_rate(self) -> float:
        """The mean of `preference` over inputs, or clusters: how probable it is that the judge prefers the other.

        Where the judge only decides, it is the share of inputs that the other wins, ties counted by half. Where inputs
        were left out because the answer was sure, what this adds to the mean is taken off (`Bets.mean`).
        """
        return float(np.mean(self.bets.x)) if self.is_complete and len(self.bets.x) else self.bets.mean

    @property
    def interval(self) -> tuple[float, float]:
        """The confidence interval of the win rate in the population of inputs, valid at every stopping time."""
        return self.bets.interval

    @property
    def probability(self) -> float:
        """P(the other is better), with a uniform prior on the win rate."""
        return self.bets.probability

    @property
    def side(self) -> int:
        """1 where the other is surely better, −1 where it is surely worse, 0 where neither is sure."""
        return self.bets.side

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know before trusting the verdict."""
        found = () if self.ranking is None else self.ranking.notes
        few = too_few(self.cluster, self.observations, self.level)
        return (*found, few) if few else found

    @property
    def flips(self) -> Flips:
        """On how many inputs the winner changes with the order of the texts."""
        position = np.minimum(self.first, 1 - self.second) > 0.5, np.maximum(self.first, 1 - self.second) < 0.5
        return Flips(self.asked, int(np.count_nonzero(np.logical_or(*position))), 0)

    @property
    def wins(self) -> tuple[int, int, int]:
        """On how many inputs the other wins, the one wins, and neither does."""
        won, lost = (int(np.count_nonzero(found)) for found in (self.win > 0.5, self.win < 0.5))
        return won, lost, len(self.win) - won - lost

    def is_worse(self, sure: float) -> bool:
        """Whether the other is worse; the false positive rate is at most 1 − `sure`."""
        return self.bets.is_below(1 - sure)

    @property
    def is_not_worse(self) -> bool:
        """Whether the other's win rate is surely above `not_worse_than`; equal texts are not worse."""
        return self.same == self.planned or self.bets.is_above

    @property
    def verdict(self) -> str:
        """The answer in a sentence."""
        low, high = self.interval
        where = f" in {len(self.bets.x)} clusters" if self.cluster is not None else ""
        rate = f"win rate {self.win_rate:.0%} ({low:.0%} to {high:.0%}) on {len(self.win)} inputs{where}"
        if self.same == self.planned:
            return f"no difference: {self.one} and {self.other} have the same text on all {self.planned} inputs"
        if self.not_worse_than is not None and self.side == 0:
            found = "surely above" if self.is_not_worse else "not surely above"
            return f"{self.other} is {found} a win rate of {self.not_worse_than:.0%} against {self.one}: {rate}"
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
        won, lost, tied = self.wins
        flips = self.flips
        unreliable = None if self.ranking is None else unreliable_by(self.ranking.judged.comparisons)
        document = {
            "one": self.one,
            "other": self.other,
            "verdict": self.verdict,
            "sure": {1: "better", -1: "worse", 0: "no difference found"}[self.side],
            "level": self.level,
            "not_worse": None if self.not_worse_than is None else self.is_not_worse,
            "probability": self.probability,
            "win_rate": {"value": self.win_rate, "low": low, "high": high},
            "inputs": {
                "asked": self.asked,
                "planned": self.planned,
                "same": self.same,
                "failed": self.failed,
                "unmatched": sum(map(len, self.unmatched)),
                "clusters": None if self.cluster is None else len(self.bets.x),
                "won": won,
                "lost": lost,
                "tied": tied,
            },
            "unmatched": dict(zip((self.one, self.other), map(list, self.unmatched), strict=True)),
            "flips": {"value": plain(flips.share), "low": flips.interval[0], "high": flips.interval[1]},
            "judge_unreliable": unreliable is not None,
            "unreliable_by": unreliable,
            "notes": list(self.notes),
            "calls": self.calls,
            "cached": self.cached,
            "cost": plain(self.cost),
            "by_input": json_rows(self.to_columns()),
        }
        return json_text(document)

    @property
    def figures(self) -> dict[str, tuple[float, float, float]]:
        """The rows of a table: (value, low, high) by name; low and high are NaN without an interval."""
        won, lost, tied = self.wins
        rows = {f"win rate of {self.other}": (self.win_rate, *self.interval)}
        single = {f"P({self.other} is better)": self.probability, f"inputs won by {self.other}": won}
        single |= {f"inputs won by {self.one}": lost, "inputs won by neither": tied}
        return rows | {name: (float(value), math.nan, math.nan) for name, value in single.items()}

    def extremes(self, most: int) -> dict[str, NDArray[Any]]:
        """The rows of `to_columns` on which each side wins most, up to `most` of each side."""
        won, lost, _ = self.wins
        rows = np.r_[: min(won, most), len(self.win) - min(lost, most) : len(self.win)]
        return {name: column[rows] for name, column in self.to_columns().items()}

    def to_markdown(self) -> str:
        """The answer as Markdown, for a pull request."""
        lines = [f"**{_cell(self.verdict)}**", "", "| | value | interval |", "| --- | ---: | ---: |"]
        for name, (value, low, high) in self.figures.items():
            lines.append(f"| {_cell(name)} | {value:.3g} | {'' if math.isnan(low) else f'{low:.3g} to {high:.3g}'} |")
        lines.append(f"| calls | {self.calls:,} | |")
        lines += [f"| answers from the cache | {self.cached:,} | |"] if self.cached else []
        most = self.extremes(SHOWN)
        by = list(zip(map(_cell, most["input"]), most["margin"].tolist(), strict=True))
        for name, cells in (
            (self.other, [f"{cell} ({margin:+.2f})" for cell, margin in by if margin > 0]),
            (self.one, [f"{cell} ({margin:+.2f})" for cell, margin in by[::-1] if margin < 0]),
        ):
            lines += ["", f"{_cell(name)} wins most, by so many logits, on: {', '.join(cells)}"] if cells else []
        for name, alone in zip((self.one, self.other), self.unmatched, strict=True):
            if alone:
                more = f" and {len(alone) - MANY:,} more" if len(alone) > MANY else ""
                lines += ["", f"Only in {_cell(name)}, not compared: {', '.join(map(_cell, alone[:MANY]))}{more}"]
        lines += [line for note in self.notes for line in ("", f"**{_cell(note)}**")]
        holds = f"Intervals hold with {self.level:.0%} confidence at whatever input one stops."
        return "\n".join([*lines, "", holds, ""])

    def _repr_html_(self) -> str:
        """The verdict, the figures and the inputs on which each side wins most, for a notebook."""
        value, low, high = (np.array(column) for column in zip(*self.figures.values(), strict=True))
        figures = {"": np.array(list(self.figures)), "value": value, "low": low, "high": high}
        head = f"<p><strong>{html.escape(visible(self.verdict))}</strong></p>"
        return head + table_html(figures, self.notes) + table_html(self.extremes(SHOWN), ())

    def __str__(self) -> str:
        return self.verdict


def too_few(cluster: Any, observations: int | None, level: float) -> str:
    """A sentence where `observations` clusters cannot make anything sure, whatever the judge answers; else ""."""
    if cluster is None or observations in FEW or Bettors(np.array([0.5]), 1 - level, 1).needed <= (observations or 0):
        return ""
    problem = f"{observations} clusters are too few to be sure of anything; "
    return problem + Message("{cluster:'id'} takes every input as independent")


def margins(first: Array, second: Array) -> Array:
    """The mean of the logits of two probabilities (n,), 0 where these are NaN: the effect of position cancels.

    >>> margins(np.array([0.9, 1.0, np.nan]), np.array([0.1, 0.0, np.nan])).round(9)
    array([0., 0., 0.])
    """
    one, other = (logit(np.clip(np.nan_to_num(p, nan=0.5), CLIPPED, 1 - CLIPPED)) for p in (first, second))
    return np.asarray(0.5 * (one + other))


def cluster_means(values: Array, cluster: NDArray[Any] | None) -> Array:
    """The mean of `values` (n,) in each cluster, in the order of first occurrence; without clusters, `values`.

    >>> cluster_means(np.array([0.2, 0.4, 1.0]), np.array(["x", "x", "y"], dtype=object))
    array([0.3, 1. ])
    """
    if cluster is None:
        return values
    number = {name: code for code, name in enumerate(dict.fromkeys(cluster.tolist()))}
    codes = np.array([number[name] for name in cluster.tolist()])
    return np.asarray(np.bincount(codes, values) / np.bincount(codes))


def wins(margin: Array) -> Array:
    """1, 0 or ½ for a margin above, below or equal to 0 (within rounding), (n,).

    >>> wins(np.array([0.3, -0.2, 1e-12]))
    array([1. , 0. , 0.5])
    """
    return np.where(np.abs(margin) < EQUAL, 0.5, (margin > 0).astype(np.float64))


def _cell(value: Any) -> str:
    """A value as a cell of a Markdown table: on one line, with Markdown and HTML escaped."""
    line = " ".join(visible(value, lines=False).split())
    escaped = "".join(f"\\{sign}" if sign in MARKS else sign for sign in line)
    return escaped.replace("&", "&amp;").replace("<", "&lt;")
