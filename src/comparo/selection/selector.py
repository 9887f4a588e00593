"""The next pairs to ask, before and while answers arrive.

`greedy_pairs` is the paper's selection before any answer, which greedily maximises log det(W̃ᵀW̃). `Selector` returns
pairs while answers arrive; its adaptive strategy is the paper's selection under Laplace's approximation.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np

from comparo.data.columns import look_up
from comparo.data.comparisons import Comparisons
from comparo.data.grammar import check_one
from comparo.errors import ComparisonsError
from comparo.model.estimators.poe import product_at
from comparo.model.inference.newton import Problem
from comparo.model.likelihoods.bradley_terry import BradleyTerry, logistic_curvature
from comparo.model.linalg.graph import Graph, Pattern
from comparo.model.observations import USUAL, fitted_power
from comparo.model.tuning import LIMITS, WIDE, Limits
from comparo.selection.designs import (
    DEFAULT_GOAL,
    DEFAULT_ORDERS,
    Orders,
    Pairs,
    Strategy,
    among,
    check_number,
    connect,
    default_strategy,
    distinct,
    draw,
    forest,
    in_both_orders,
    joining,
    merge,
    orient,
    top_of,
)
from comparo.selection.greedy import Border, Goal, Greedy, Resistance, inverse, join, matching
from comparo.types import Array, LongIndex, Mask, Seed, as_generator

JITTER = 0.15  # standard deviation added to the logarithm of a contrast, so that another seed gives other pairs

log = logging.getLogger(__name__)


def greedy_pairs(items: int, pairs: int, seed: Seed = None, limits: Limits = LIMITS) -> Pairs:
    """The paper's design: a chain of all items in shuffled order, then the pairs with the largest A_xx + A_yy − 2A_xy.

    A = (W̃ᵀW̃)⁻¹ of the pairs chosen before, so each pair increases det(W̃ᵀW̃) most; ties go to the first in the
    shuffled order. Above 4096 items the gains are estimated, and pairs are chosen in rounds of at most N/2 disjoint
    ones.

    Parameters
    ----------
    items : N, the number of items.
    pairs : K ≥ N − 1, the number of different pairs.
    seed : A whole number or a generator; it determines the order of the items.
    limits : `limits.exact` is the number of items up to which gains are exact.

    Returns
    -------
    The codes of the items of each pair, shape (K, 2).

    Examples
    --------
    >>> pairs = greedy_pairs(4, 6, seed=0)
    >>> len({frozenset(pair) for pair in pairs.tolist()})
    6
    """
    check_number(items, pairs)
    if pairs < items - 1:
        raise ValueError(f"{pairs} pairs cannot connect {items} items; choose at least {items - 1}, or random pairs")
    selector = Selector(range(items), strategy="greedy", orders="one", seed=seed, limits=limits)
    return np.array(selector.next(pairs), dtype=np.int32)


@dataclass(frozen=True)
class AskedRows:
    """K rows asked: items (K, 2), the first shown first; p (K,), NaN where there is no answer yet; weight (K,)."""

    rows: Pairs
    p: Array
    weight: Array

    def and_also(self, rows: Pairs, p: Array, weight: Array) -> AskedRows:
        numbers = (np.concatenate(columns) for columns in ((self.p, p), (self.weight, weight)))
        return AskedRows(np.concatenate([self.rows, rows]), *numbers)

    def where(self, kept: Mask) -> AskedRows:
        return AskedRows(self.rows[kept], self.p[kept], self.weight[kept])


class Selector:
    """Returns the next pairs to ask, and takes the answers into account.

    Parameters
    ----------
    items : The labels of N items, all different.
    strategy : "random"; "greedy", which uses the pairs compared so far but not the answers; or "adaptive", which
        chooses the pair with the largest σ(s_x − s_y)·σ(s_y − s_x)·(A_xx + A_yy − 2A_xy), where s are the scores
        estimated from the answers so far and A is the inverse curvature of all comparisons asked. The last two first
        connect all items by a chain in shuffled order. None is greedy, and adaptive for a goal top-k.
    orders : "both" asks each pair in both orders, two calls; "one" asks it in one order, such that each item is shown
        first and second about equally often.
    goal : "ranking", or "top-k" such as "top-5": calls are then spent on which items are the best k.
    contrast : The contrast of the two texts of each pair, (N, N), from `text_features.contrasts`: a comparison
        has the information contrast^a, with a = 1 before any answer and then estimated from the answers
        (`observations.fitted_power`). It is ignored for random pairs, for a goal top-k and above 4096 items.
    seed : A whole number or a generator. The same seed and the same answers give the same calls.
    limits : `limits.exact` is the number of items up to which all pairs are considered, with an N × N covariance.

    Examples
    --------
    >>> selector = Selector(["ana", "bo", "cy"], orders="one", seed=0)
    >>> selector.remaining
    3
    >>> pairs = selector.next(2)
    >>> selector.observe([(first, second, 0.7) for first, second in pairs])
    >>> len(selector.next(1)), selector.remaining
    (1, 0)
    """

    def __init__(
        self,
        items: Sequence[Hashable],
        *,
        strategy: Strategy | None = None,
        orders: Orders = DEFAULT_ORDERS,
        goal: str = DEFAULT_GOAL,
        contrast: Array | None = None,
        seed: Seed = None,
        limits: Limits = LIMITS,
    ) -> None:
        strategy = default_strategy(goal) if strategy is None else strategy
        check_one("strategy", strategy, get_args(Strategy))
        check_one("orders", orders, get_args(Orders))
        check_number(len(items), 0)
        self.strategy = strategy
        self.calls = 2 if orders == "both" else 1
        self.top = top_of(goal, len(items), strategy)
        self._exact, self._limits = len(items) <= limits.exact, limits
        self.rng = rng = as_generator(seed)
        names = list(items)
        order = rng.permutation(len(names))
        self._items = [names[number] for number in order.tolist()]
        self._engine: Greedy | Border | None = None
        self._contrast: Array | None = None
        self._worth: Array | None = None
        self._power = 0.0
        if contrast is not None and strategy != "random" and self.top is None and self._exact:
            luck = np.exp(JITTER * rng.standard_normal(contrast.shape))
            self._contrast, self._luck = contrast[np.ix_(order, order)], luck * luck.T
            self._raise_to(USUAL)
        if len(set(names)) < len(names):
            twice = next(item for number, item in enumerate(names) if item in names[:number])
            raise ValueError(f"the item {twice!r} is there more than once; give each item a name of its own")
        self._scores = np.zeros(len(items))
        self._asked = AskedRows(np.empty((0, 2), dtype=np.int32), np.empty(0), np.empty(0))
        self._seen = np.empty(0, dtype=np.int64)  # the sorted codes of all rows asked
        self._connected = False
        self._planned = np.empty((0, 2), dtype=np.int32)
        self._queue: list[tuple[int, int]] = []

    @property
    def remaining(self) -> int:
        """The number of calls that can still be asked."""
        pairs = len(self._items) * (len(self._items) - 1) // 2
        return self.calls * pairs - len(self._seen) + len(self._queue)

    def next(self, batch: int) -> list[tuple[Any, Any]]:
        """The next `batch` calls, each (item shown first, item shown second).

        Calls returned before count as asked, whether they were answered or not.
        """
        if batch < 1:
            raise ValueError(f"batch is at least 1, not {batch}")
        left = self.remaining
        if batch > left:
            pairs = len(self._items) * (len(self._items) - 1) // 2
            orders = "both orders" if self.calls == 2 else "one order"
            raise ValueError(
                f"{batch} calls are more than the {left} that are left: {len(self._items)} items make {pairs} pairs, "
                f"each asked in {orders}; ask for fewer"
            )
        while len(self._queue) < batch:
            self._ask(self._choose(-(-(batch - len(self._queue)) // self.calls)))
        rows, self._queue = self._queue[:batch], self._queue[batch:]
        return [(self._items[first], self._items[second]) for first, second in rows]

    def observe(self, data: Any) -> None:
        """Add the comparisons `data` (`Comparisons.of`), also of pairs not returned by `next`; NaN p: no answer yet."""
        comparisons = Comparisons.of(data)
        if comparisons.contexts is not None and len(comparisons.contexts) > 1:
            raise ComparisonsError(
                f"the comparisons are of {len(comparisons.contexts)} contexts; use a Selector for each of them"
            )
        position = look_up(comparisons.items.tolist(), self._items)
        rows = np.column_stack([position[comparisons.first], position[comparisons.second]])
        if rows.min() < 0:
            place = tuple(np.argwhere(rows < 0)[0])
            label = comparisons.items[(comparisons.first, comparisons.second)[place[1]][place[0]]]
            raise ComparisonsError(
                f"comparison {place[0] + 1} is of {label!r}, which is not one of the {len(self._items)} items, such as "
                f"{self._items[0]!r}"
            )
        codes = distinct(self._codes(rows))
        answered = np.isnan(self._asked.p)
        answered[answered] = among(self._codes(self._asked.rows[answered]), codes)
        self._seen = distinct(np.concatenate([self._seen, codes]))
        if self.strategy == "adaptive" or np.count_nonzero(answered) != len(rows):
            self._engine = None
        self._asked = self._asked.where(~answered).and_also(rows, comparisons.p, comparisons.weights)
        seen = set(map(tuple, rows.tolist()))
        self._queue = [row for row in self._queue if row not in seen]
        answers = self._answers()
        if self._contrast is not None and len(answers):
            self._raise_to(fitted_power(answers, self._contrast[answers.first, answers.second]))

    def _answers(self) -> Comparisons:
        known = self._asked.where(~np.isnan(self._asked.p))
        first, second = np.ascontiguousarray(known.rows.T)
        return Comparisons(np.arange(len(self._items)), first, second, known.p, known.weight)

    def _raise_to(self, power: float) -> None:
        """Set the information of a comparison to contrast^power; with a power of 0 it is the same for all."""
        if self._contrast is not None and power != self._power:
            worth = self._contrast**power * self._luck
            mean = float(np.mean(worth[np.triu_indices(len(worth), 1)]))
            self._power, self._worth, self._engine = power, worth / mean if power else None, None

    def _rows(self, rows: Pairs) -> LongIndex:
        """A number for each row, different for the two orders of a pair."""
        return rows[:, 0] * np.int64(len(self._items)) + rows[:, 1]

    def _codes(self, rows: Pairs) -> LongIndex:
        """A number for each row, the same for both orders if pairs are asked in one order."""
        return self._rows(rows) if self.calls == 2 else self._rows(np.sort(rows, axis=1))

    def _taken(self) -> LongIndex:
        """The sorted codes x·N + y, x < y, of pairs that may not be asked again."""
        pairs = np.column_stack(np.divmod(self._seen, len(self._items)))
        return self._seen[(pairs[:, 0] < pairs[:, 1]) & self._is_taken(pairs)]

    def _is_taken(self, pairs: Pairs) -> Mask:
        """Whether each pair may not be asked again."""
        one, other = (among(self._codes(rows), self._seen) for rows in (pairs, pairs[:, ::-1]))
        return one & other

    def _ask(self, pairs: Pairs) -> None:
        """Put the calls for `pairs` in the queue."""
        first, second = (np.bincount(column, minlength=len(self._items)) for column in self._asked.rows.T)
        rows = in_both_orders(pairs) if self.calls == 2 else orient(pairs, first - second, self.rng)
        rows = rows[~among(self._codes(rows), self._seen)]
        self._seen = distinct(np.concatenate([self._seen, self._codes(rows)]))
        self._asked = self._asked.and_also(rows, np.full(len(rows), np.nan), np.ones(len(rows)))
        self._queue.extend(map(tuple, rows.tolist()))

    def _choose(self, wanted: int) -> Pairs:
        """At least one and at most `wanted` pairs to ask next."""
        items = len(self._items)
        if self.strategy == "random":
            component, taken = merge(np.arange(items), self._asked.rows), self._taken()
            wanted = min(wanted, items * (items - 1) // 2 - len(taken))
            if wanted < component.max():
                return forest(component, wanted, self.rng)
            return connect(component, taken, wanted, self.rng)
        if not self._connected:
            component = merge(np.arange(items), self._asked.rows)
            self._connected = component.max() == 0
            if not self._connected:
                if self._worth is None:
                    return joining(component, np.arange(items))[:wanted]
                return np.array(join(component, self._asked.rows, self._worth, wanted), dtype=np.int32)
        if not self._exact:
            return self._choose_of_many(wanted)
        chosen: list[tuple[int, int]] = []
        while len(chosen) < wanted:
            if self._engine is None or not self._engine.free.any():
                self._engine = self._prepare()
            chosen.append(self._engine.pick())
        return np.array(chosen, dtype=np.int32)

    def _choose_of_many(self, wanted: int) -> Pairs:
        """Pairs from the last matching, or from a new one if all pairs of the last were asked."""
        self._planned = self._planned[~self._is_taken(self._planned)]
        if not len(self._planned):
            dispersion = self._refit()
            goal = Goal(self.calls)
            if self.strategy == "adaptive":
                best = np.sort(self._scores)[::-1]
                border = None if self.top is None else float(np.mean(best[self.top - 1 : self.top + 1]))
                goal = Goal(self.calls, self._scores, border, dispersion)
            resistance = Resistance.of(self._asked.rows, *self._curvature(), self.rng)
            self._planned = matching(resistance, goal, self._taken(), self.rng)
            log.debug("planned %d pairs", len(self._planned))
        if not len(self._planned):
            items, taken = len(self._items), self._taken()
            return draw(items, taken, min(wanted, items * (items - 1) // 2 - len(taken)), self.rng)
        chosen, self._planned = self._planned[:wanted], self._planned[wanted:]
        return chosen

    def _prepare(self) -> Greedy | Border:
        """The search for the next pairs, given all rows asked and the scores estimated from the answers."""
        items = len(self._items)
        free = np.triu(np.ones((items, items), dtype=bool), 1)
        free.ravel()[self._taken()] = False
        dispersion = self._refit()
        c, ridge = self._curvature()
        scores = None if self.strategy == "greedy" else self._scores
        if scores is None:
            ridge[0] = 1.0  # the paper's expert on the first item
        covariance = inverse(self._asked.rows[:, 0], self._asked.rows[:, 1], c, ridge)
        if scores is not None and self.top is not None:
            border = Border(covariance, free, scores, self.top, dispersion, self.calls)
            if border.free.any():
                return border
        return Greedy(covariance, free, scores, self.calls, self._worth, self._limits)

    def _curvature(self) -> tuple[Array, Array]:
        """The curvatures of all rows asked, at the current scores, and the ridge of the prior."""
        items, rows = len(self._items), self._asked.rows
        first, second = rows.T
        worth = np.ones(len(rows)) if self._worth is None else self._worth[first, second]
        if self.strategy == "greedy":
            return worth, np.zeros(items)
        curvature = logistic_curvature(self._scores[first] - self._scores[second])
        return worth * self._asked.weight * curvature, np.full(items, WIDE**-2)

    def _refit(self) -> float:
        """Fit the scores to the answers, starting from the last scores; return the dispersion of the answers."""
        comparisons = self._answers()
        if self.strategy == "greedy" or not len(comparisons):
            return 1.0
        graph, expert = Graph.build(comparisons), BradleyTerry()
        problem = Problem.of(Pattern(graph), expert, comparisons, np.full(graph.nodes, WIDE**-2))
        solution = problem.maximise(graph.centre(self._scores[graph.item]))
        product = product_at(comparisons, graph, expert, solution)
        self._scores[graph.item] = product.scores
        return product.dispersion
