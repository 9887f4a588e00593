"""The number of calls that a ranking needs, estimated by simulation before any call is paid for.

True scores are standard normal, and a judge of two items answers p with

    logit p = strength·(s_first − s_second) + bias + noise·ε,    ε standard normal, anew in every call.

Its accuracy is the probability that it prefers the better of two random items (where bias is 0). The difference of
their scores has variance 2, hence the signal has standard deviation √2·strength, and

    accuracy = ½ + arctan(√2·strength / noise) / π.

Logits of random pairs have the standard deviation `SPREAD` for every accuracy. A hard judge says only whether
p > ½. The true ranking here is the one that the judge itself would give after infinitely many calls: systematic errors
of a judge are not simulated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from comparo.analysis.correlations import spearman_within
from comparo.data.comparisons import Comparisons
from comparo.methods import quiet_fit
from comparo.selection.designs import DEFAULT_ORDERS, Orders, Strategy, check_number
from comparo.selection.selector import Selector
from comparo.types import Array, LongIndex, Seed, as_generator

Answers = Literal["soft", "hard"]
AnswerFunction = Callable[[Array, np.random.Generator], Array]  # p of a judge, given true differences (K,)

SPREAD = 1.0  # standard deviation of the logits of random pairs: most p are between 0.2 and 0.8


@dataclass(frozen=True, slots=True)
class Effort:
    """The size of the simulation; measured with random pairs and judges of accuracy 0.7 and 0.75."""

    # Numbers of calls per item to try: from 4 on, the correlation changes by less than 0.05 from one to the next.
    per_item: tuple[int, ...] = (2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 18, 20, 25, 30, 35, 40, 50, 60, 80, 100)
    calls: int = 20  # most simulated calls per item; above, the formula is within 0.005 for twice as many
    items: int = 300  # at most; with 1200 items and as many calls per item the correlation differs by less than 0.01
    simulated: int = 1600  # items in all draws together: 3 s for 300 items
    fewest: int = 8  # draws
    most: int = 100  # draws


EFFORT = Effort()


@dataclass(frozen=True)
class CallPlan:
    """The correlation reached with increasing numbers of calls: columns of shape (R,).

    `per_item` is the number of calls per item, `spearman` the mean correlation over all draws. `low` and `high` enclose
    80% of the draws and are NaN where the formula `later` is used. The last row reaches the `target`, or has the
    largest number of calls that was tried.
    """

    items: int
    target: float
    per_item: Array
    spearman: Array
    low: Array
    high: Array

    @property
    def calls(self) -> int | None:
        """The fewest calls whose mean correlation is at least the target; None if no number of calls reaches it."""
        reached = np.flatnonzero(self.spearman >= self.target)
        return int(self._calls[reached[0]]) if reached.size else None

    @property
    def _calls(self) -> LongIndex:
        return np.rint(self.per_item * self.items).astype(np.int64)

    def to_columns(self) -> dict[str, NDArray[Any]]:
        """The table as columns: per_item, calls, spearman, low, high."""
        columns = {"per_item": self.per_item, "calls": self._calls, "spearman": self.spearman}
        return columns | {"low": self.low, "high": self.high}


def judge_of(accuracy: float) -> tuple[float, float]:
    """The strength and the noise of a judge of this accuracy.

    >>> strength, noise = judge_of(0.75)
    >>> round(0.5 + math.atan(math.sqrt(2) * strength / noise) / math.pi, 6)
    0.75
    """
    if not 0.5 < accuracy <= 1:
        raise ValueError(f"accuracy is above 0.5, a coin's, and at most 1, not {accuracy!r}")
    angle = math.pi * (accuracy - 0.5)
    return SPREAD * math.sin(angle) / math.sqrt(2), SPREAD * math.cos(angle)


def later(spearman: float, times: float) -> float:
    """The Spearman correlation after `times` as many calls, where each item has many calls.

    The variance of the errors is inversely proportional to the calls, so R²/(1 − R²) is proportional to them, with R
    the correlation of the scores. The rank correlation of normal variables is (6/π)·arcsin(R/2).

    >>> round(later(0.9, 2.0), 3)
    0.946
    """
    square = (2 * math.sin(math.pi * spearman / 6)) ** 2
    square *= times / (1 - square + times * square)
    return 6 / math.pi * math.asin(math.sqrt(square) / 2)


def plan(
    items: int,
    accuracy: float = 0.75,
    target: float = 0.9,
    *,
    answers: Answers = "soft",
    bias: float | None = None,
    strategy: Strategy | None = None,
    orders: Orders = DEFAULT_ORDERS,
    draws: int | None = None,
    seed: Seed = None,
    effort: Effort = EFFORT,
) -> CallPlan:
    """How many calls rank `items` items with a mean Spearman correlation of `target`.

    Calls per item are increased until the target is reached or all pairs were asked; above 20 calls per item the
    formula `later` is used. Scores are those of poe-bt with a joint bias. Above 300 items, 300 are simulated: the
    correlation depends on the calls per item and hardly on the number of items.

    Parameters
    ----------
    items : The number of items to rank.
    accuracy : The probability that the judge prefers the better of two random items; above 0.5.
    target : The Spearman correlation with the true ranking, between 0 and 1.
    answers : "soft" where the judge gives probabilities, "hard" where it only decides.
    bias : Added to every logit; above 0 it favours the item shown first. None is 0.
    strategy, orders : As in `Selector`.
    draws : The number of simulated runs; by default 8 to 100, fewer for more items.
    seed : A whole number or a generator.
    effort : The size of the simulation.

    Returns
    -------
    A `CallPlan`: the fewest calls, and the correlation at every number of calls that was tried.

    Raises
    ------
    ValueError
        If an argument is outside its range.

    Examples
    --------
    >>> found = plan(12, accuracy=0.9, target=0.9, seed=0)
    >>> found.calls
    36
    """
    check_number(items, 0)
    if not 0 < target < 1:
        raise ValueError(f"target is a correlation between 0 and 1, not {target!r}")
    if answers not in get_args(Answers):
        raise ValueError(f"answers is 'soft' or 'hard', not {answers!r}")
    if draws is not None and draws < 1:
        raise ValueError(f"draws is at least 1, not {draws}")
    strength, noise = judge_of(accuracy)
    size = min(items, effort.items)

    def answer(difference: Array, rng: np.random.Generator) -> Array:
        """p for true differences of the first and the second, shape (K,)."""
        logit = strength * difference + (bias or 0.0) + noise * rng.standard_normal(len(difference))
        return (logit > 0).astype(np.float64) if answers == "hard" else expit(logit)

    if draws is None:
        draws = min(max(effort.simulated // size, effort.fewest), effort.most)
    runs = [_Run(size, answer, strategy, orders, generator) for generator in as_generator(seed).spawn(draws)]
    found: list[tuple[float, ...]] = []
    for calls in _tried(effort.per_item, size, orders):
        if calls <= effort.calls * size or not found:
            reached = _reached(runs, calls)
            simulated = calls / size, float(np.mean(reached))
            found.append((*simulated, *np.quantile(reached, [0.1, 0.9])))
        else:
            last, accuracy = simulated
            found.append((calls / size, later(accuracy, calls / size / last), math.nan, math.nan))
        if found[-1][1] >= target:
            break
    return CallPlan(items, target, *np.array(found).T)


def _tried(numbers: tuple[int, ...], items: int, orders: Orders) -> Iterator[int]:
    """The numbers of calls to try: from slightly more than connect all items up to all possible calls."""
    calls = 2 if orders == "both" else 1
    most = calls * items * (items - 1) // 2
    for per_item in numbers:
        if per_item > calls and per_item * items < most:
            yield per_item * items
    if most <= numbers[-1] * items:
        yield most


def _reached(runs: list[_Run], calls: int) -> Array:
    """Spearman's correlation with the true scores in every run after `calls` calls; runs are contexts of one fit."""
    parts = [run.until(calls) for run in runs]
    first, second, p = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    data = Comparisons.from_columns(first, second, p, context=np.repeat(np.arange(len(runs)), calls))
    ranking = quiet_fit(data, "mixed")
    context = ranking.graph.context
    true = np.array([run.scores for run in runs])[context, ranking.items]
    return spearman_within(ranking.scores, true, context, len(runs))


class _Run:
    """One simulated run. An adaptive selector chooses in rounds, each before it observes the answers of the last."""

    def __init__(
        self, items: int, answer: AnswerFunction, strategy: Strategy | None, orders: Orders, rng: np.random.Generator
    ) -> None:
        self.scores = rng.standard_normal(items)
        self.answer = answer
        self.rng = rng
        self.selector = Selector(range(items), strategy=strategy, orders=orders, seed=rng)
        self.rows = np.empty((0, 2), dtype=np.int64)
        self.p = np.empty(0)
        self.heard = 0

    def until(self, calls: int) -> tuple[LongIndex, LongIndex, Array]:
        """The first `calls` calls: the items shown first and second, and p."""
        while (made := len(self.rows)) < calls:
            adaptive = self.selector.strategy == "adaptive"
            size = max(4, len(self.scores) // 4) if adaptive else calls - made
            asked = np.array(self.selector.next(min(size, self.selector.remaining)))
            self.rows = np.concatenate([self.rows, asked])
            apart = self.scores[asked[:, 0]] - self.scores[asked[:, 1]]
            self.p = np.append(self.p, self.answer(apart, self.rng))
            if adaptive and made:
                new = slice(self.heard, made)
                self.selector.observe(Comparisons.from_columns(self.rows[new, 0], self.rows[new, 1], self.p[new]))
                self.heard = made
        first, second = self.rows[:calls].T
        return first, second, self.p[:calls]
