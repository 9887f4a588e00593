"""The number of calls that a ranking needs, estimated by simulation before any call is paid for.

True scores are standard normal, and a judge of two items answers p with

    logit p = strength·(s_first − s_second) + bias + noise·ε,    ε standard normal, anew in every call.

Its accuracy is the probability that it prefers the better of two random items (where bias is 0). The difference of
their scores has variance 2, hence the signal has standard deviation √2·strength, and

    accuracy = ½ + arctan(√2·strength / noise) / π.

Logits of random pairs have the standard deviation `SPREAD` for every accuracy. A hard judge says only whether
p > ½. Of a line-up of k texts it says the log-probabilities of the slots or their order, by

    strength·s_a + bias·(k − 1 − 2a)/2 + noise·ε_a/√2,    slots a = 0…k − 1,

whose differences are those logits. The true ranking here is the one that the judge itself would give after infinitely
many calls: systematic errors of a judge are not simulated.

For a goal top-k, rows are the expected share of the best k that are right (`top_share`), which also stops a run.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_softmax

from comparo.analysis.confidence import top_share
from comparo.analysis.correlations import spearman_within
from comparo.data.comparisons import Comparisons
from comparo.data.prompts import Rest
from comparo.methods import quiet_fit
from comparo.selection.designs import (
    DEFAULT_GOAL,
    DEFAULT_ORDERS,
    Orders,
    Strategy,
    check_number,
    default_strategy,
    round_size,
    top_of,
)
from comparo.selection.lineups import LineupSelector
from comparo.selection.selector import Selector
from comparo.types import Array, LongIndex, Seed, as_generator

Answers = Literal["soft", "hard"]

SPREAD = 1.0  # standard deviation of the logits of random pairs: most p are between 0.2 and 0.8


@dataclass(frozen=True, slots=True)
class Effort:
    """The size of the simulation; measured with random pairs and judges of accuracy 0.7 and 0.75."""

    # Numbers of calls per item to try: from 4 on, the correlation changes by less than 0.05 from one to the next.
    per_item: tuple[int, ...] = (2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 18, 20, 25, 30, 35, 40, 50, 60, 80, 100)
    calls: int = 20  # most simulated calls per item; above, the formula is within 0.005 for twice as many
    items: int = 300  # at most; with 1200 items and as many calls per item the correlation differs by less than 0.01
    most_items: int = 3000  # at most for a goal top-k, whose share depends on how many of how many are wanted
    growth: float = 1.25  # of the calls from one number to try to the next, for line-ups and for a goal top-k
    simulated: int = 1600  # items in all draws together: 3 s for 300 items
    fewest: int = 8  # draws
    few: int = 2  # draws for a goal top-k, whose expected share differs by about 0.03 between runs
    most: int = 100  # draws


EFFORT = Effort()


@dataclass(frozen=True)
class CallPlan:
    """What increasing numbers of calls reach: columns of shape (R,).

    `per_item` is the number of calls per item, `reached` the mean over all draws of the Spearman correlation or, for a
    `goal` top-k, of the expected share of the best k that are right. `low` and `high` enclose 80% of the draws and are
    NaN where the formula `later` is used. The last row reaches the `target`, or has the largest number of calls that
    was tried.
    """

    items: int
    target: float
    per_item: Array
    reached: Array
    low: Array
    high: Array
    goal: str = DEFAULT_GOAL

    @property
    def calls(self) -> int | None:
        """The fewest calls whose mean is at least the target; None if no number of calls reaches it."""
        reached = np.flatnonzero(self.reached >= self.target)
        return int(self._calls[reached[0]]) if reached.size else None

    @property
    def _calls(self) -> LongIndex:
        return np.rint(self.per_item * self.items).astype(np.int64)

    def to_columns(self) -> dict[str, NDArray[Any]]:
        """The table as columns: per_item, calls, spearman (for a goal top-k, share), low, high."""
        name = "spearman" if self.goal == DEFAULT_GOAL else "share"
        columns = {"per_item": self.per_item, "calls": self._calls, name: self.reached}
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
    goal: str = DEFAULT_GOAL,
    lineup: int = 2,
    answers: Answers = "soft",
    bias: float | None = None,
    strategy: Strategy | None = None,
    orders: Orders = DEFAULT_ORDERS,
    draws: int | None = None,
    seed: Seed = None,
    effort: Effort = EFFORT,
) -> CallPlan:
    """How many calls rank `items` items with a mean Spearman correlation of `target`, or find the best k of them.

    Calls per item are increased until the target is reached or all pairs were asked; above 20 calls per item the
    formula `later` is used. Scores are those of a run (`mixed`). Above 300 items, 300 are simulated: the
    correlation depends on the calls per item and hardly on the number of items. For a goal top-k, up to 3,000 are.

    Parameters
    ----------
    items : The number of items to rank.
    accuracy : The probability that the judge prefers the better of two random items; above 0.5.
    target : The Spearman correlation with the true ranking or, for a goal top-k, the expected share of the best k that
        are right; between 0 and 1.
    goal : "ranking", or "top-k" such as "top-5", as of `Selector`.
    lineup : How many texts a call is about, 2 to 8.
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
    strategy = strategy or default_strategy(goal)
    top = top_of(goal, items, strategy)
    if not 0 < target < 1:
        what = "correlation" if top is None else f"share of the best {top}"
        raise ValueError(f"target is a {what} between 0 and 1, not {target!r}")
    if answers not in get_args(Answers):
        raise ValueError(f"answers is 'soft' or 'hard', not {answers!r}")
    if draws is not None and draws < 1:
        raise ValueError(f"draws is at least 1, not {draws}")
    judge = _Judge(*judge_of(accuracy), bias or 0.0, answers == "hard")
    size = min(items, effort.items if top is None else effort.most_items)
    if draws is None:
        draws = min(max(effort.simulated // size, effort.fewest if top is None else effort.few), effort.most)
    how = {"strategy": strategy, "goal": goal}
    runs = [_Run(size, judge, lineup, orders, rng, **how) for rng in as_generator(seed).spawn(draws)]
    found: list[tuple[float, ...]] = []
    for calls in _tried(effort, size, orders, lineup, top):
        if top is not None or lineup > 2 or calls <= effort.calls * size or not found:
            reached = _reached(runs, calls, top)
            simulated = calls / size, float(np.mean(reached))
            found.append((*simulated, *np.quantile(reached, [0.1, 0.9])))
        else:
            last, accuracy = simulated
            found.append((calls / size, later(accuracy, calls / size / last), math.nan, math.nan))
        if found[-1][1] >= target:
            break
    per_item, share, low, high = np.array(found).T
    return CallPlan(items, target, per_item, share, low, high, goal)


def _tried(effort: Effort, items: int, orders: Orders, lineup: int, top: int | None) -> Iterator[int]:
    """The numbers of calls to try: from about as many as connect all items up to all possible calls."""
    calls = 2 if orders == "both" and lineup == 2 else 1
    numbers = effort.per_item
    if lineup == 2 and top is None:
        most = calls * items * (items - 1) // 2
        for per_item in numbers:
            if per_item > calls and per_item * items < most:
                yield per_item * items
        if most <= numbers[-1] * items:
            yield most
        return
    every = calls * math.comb(items, 2) if lineup == 2 else math.perm(items, lineup)
    most = min(every, 2 * effort.calls * items // lineup)
    number = calls * math.ceil((items - 1) / (lineup - 1))
    while number < most:
        yield number
        number = math.ceil(effort.growth * number)
    yield most


def _reached(runs: list[_Run], calls: int, top: int | None) -> Array:
    """What every run has reached after `calls` calls; runs are contexts of one fit."""
    ranking = quiet_fit(_data([run.until(calls) for run in runs]), "mixed")
    if top is not None:
        return top_share(ranking, top)
    context = ranking.graph.context
    true = np.array([run.scores for run in runs])[context, ranking.items]
    return spearman_within(ranking.scores, true, context, len(runs))


def _data(runs: list[list[Any]]) -> Comparisons:
    """The answers of all runs, each a context."""
    if isinstance(runs[0][0], dict):
        return Comparisons.from_rows([{"context": run} | row for run, rows in enumerate(runs) for row in rows])
    first, second, p = zip(*(row for rows in runs for row in rows), strict=True)
    return Comparisons.from_columns(first, second, p, context=np.repeat(np.arange(len(runs)), len(runs[0])))


@dataclass(frozen=True)
class _Judge:
    strength: float
    noise: float
    bias: float
    is_hard: bool

    def answers(self, asked: list[tuple[int, Any]], scores: Array, rng: np.random.Generator) -> list[Any]:
        """A row (first, second, p) for each pair, or the columns of each line-up."""
        if isinstance(asked[0][1], Rest):
            return [self._lineup([first, *rest], scores, rng) for first, rest in asked]
        first, second = np.array(asked).T
        apart = scores[first] - scores[second]
        logit = self.strength * apart + self.bias + self.noise * rng.standard_normal(len(asked))
        p = (logit > 0).astype(np.float64) if self.is_hard else expit(logit)
        return list(zip(first.tolist(), second.tolist(), p.tolist(), strict=True))

    def _lineup(self, items: list[int], scores: Array, rng: np.random.Generator) -> dict[str, Any]:
        k = len(items)
        logit = self.strength * scores[items] + self.bias * ((k - 1) / 2 - np.arange(k))
        logit += self.noise * rng.standard_normal(k) / math.sqrt(2)
        if self.is_hard:
            return {"items": items, "order": [items[slot] for slot in np.argsort(-logit, kind="stable")]}
        return {"items": items, "logp": log_softmax(logit).tolist()}


class _Run:
    """One simulated run. An adaptive selector chooses in rounds, each before it observes the answers of the last."""

    def __init__(
        self, items: int, judge: _Judge, lineup: int, orders: Orders, rng: np.random.Generator, **how: Any
    ) -> None:
        self.scores = rng.standard_normal(items)
        self.judge, self.rng = judge, rng
        self.round = round_size(items, lineup, how["goal"])
        self.selector: Selector | LineupSelector
        if lineup > 2:
            self.selector = LineupSelector(range(items), lineup, seed=rng, **how)
        else:
            self.selector = Selector(range(items), orders=orders, seed=rng, **how)
        self.rows: list[Any] = []
        self.heard = 0

    def until(self, calls: int) -> list[Any]:
        """The answers to the first `calls` calls."""
        while (made := len(self.rows)) < calls:
            adaptive = self.selector.strategy == "adaptive"
            size = self.round if adaptive else calls - made
            asked = self.selector.next(min(size, self.selector.remaining))
            self.rows += self.judge.answers(asked, self.scores, self.rng)
            if adaptive and made:
                self.selector.observe(self.rows[self.heard : made])
                self.heard = made
        return self.rows[:calls]
