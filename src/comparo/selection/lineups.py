"""The next line-ups to ask: k texts at a time, each text in each slot about equally often.

With A the covariance of the scores given what was asked, a line-up of the texts S has the precision 2·(I − 11ᵀ/k) in
units of a pair, and multiplies the determinant of the precision of all scores by

    det(I + 2·C A_S C),    C = I − 11ᵀ/k,

which for k = 2 is the effective resistance A_xx + A_yy − 2A_xy of the choice of pairs, plus 1. A line-up is built text
by text: the pair of largest resistance, then always the text of largest resistance to those chosen. While texts are
not connected, each line-up joins k parts, so that ⌈(n − 1)/(k − 1)⌉ connect all. For a goal top-k the resistance of two
texts counts by the probability that the answer is open and that each text may belong to the border.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import scipy
from scipy.special import expit

from comparo.data.columns import look_up
from comparo.data.comparisons import Comparisons
from comparo.data.prompts import Rest
from comparo.model.estimators.poe import multiply
from comparo.model.likelihoods.bradley_terry import BradleyTerry
from comparo.model.tuning import WIDE
from comparo.rounding import first_best
from comparo.selection.designs import DEFAULT_GOAL, top_of
from comparo.types import Array, Seed, as_generator

RIDGE = 1e-3  # prior precision of a score, in units of a pair: texts that nothing connects are far apart
MANY = 256  # texts above which line-ups are dealt at random; one of 256 takes 3 ms, one of 1000 takes 75 ms
OTHER = 0.1  # how often, in place of another order of texts whose line-up was asked, other texts are drawn


class LineupSelector:
    """Returns the next line-ups, each (first, `Rest` of the further slots), and takes answers into account.

    Parameters
    ----------
    items : The labels of N ≥ k items, all different.
    size : k, the number of texts of a line-up.
    strategy : "random" deals all texts once before any comes again, the first time in a chain that connects them;
        "greedy" uses what was asked; "adaptive" the answers too. Above `MANY` texts all are as "random".
    goal : "ranking" or "top-5", as of `Selector`.
    seed : A whole number or a generator. The same seed and the same answers give the same line-ups.

    Examples
    --------
    >>> selector = LineupSelector("abcdefg", 3, seed=0)
    >>> asked = selector.next(3)
    >>> sorted({item for first, rest in asked for item in (first, *rest)}), len(asked[0][1])
    (['a', 'b', 'c', 'd', 'e', 'f', 'g'], 2)
    """

    def __init__(
        self,
        items: Sequence[Hashable],
        size: int,
        *,
        strategy: str = "greedy",
        goal: str = DEFAULT_GOAL,
        seed: Seed = None,
    ) -> None:
        if not 3 <= size <= len(items):
            raise ValueError(f"a line-up of {size} texts needs that many items, and 3 at least; there are {len(items)}")
        self.rng = as_generator(seed)
        names = list(items)
        self._items = [names[number] for number in self.rng.permutation(len(names)).tolist()]
        self.size, self.strategy = size, strategy
        self._top = top_of(goal, len(names), strategy)
        self._slots = np.zeros((len(names), size))  # how often each text was in each slot
        self._is_linked = False
        self._is_dealt = strategy == "random" or len(names) > MANY
        self._deck, self._link = list(range(len(names))), list[int]()  # in the shuffled order
        self._covariance = np.eye(0 if self._is_dealt else len(names)) / RIDGE
        self._worth: Array | None = None  # of two texts, where answers count
        self._answers: list[Mapping[str, Any]] = []
        self._asked: set[tuple[int, ...]] = set()  # line-ups in slot order

    @property
    def remaining(self) -> int:
        """How many line-ups were not asked: n!/(n − k)! at first."""
        return math.perm(len(self._items), self.size) - len(self._asked)

    def next(self, batch: int) -> list[tuple[Any, Any]]:
        """The next `batch` line-ups, no more than remain; those returned before count as asked, answered or not."""
        found = []
        for _ in range(batch):
            chosen = sorted(self._deal() if self._is_dealt else self._build())
            shown = in_slots(chosen, self._slots, self._asked, self.rng)
            self._take(shown)
            first, *rest = (self._items[code] for code in shown)
            found.append((first, Rest(rest)))
        return found

    def observe(self, data: Sequence[Mapping[str, Any]]) -> None:
        """Take answers into account, rows as `Comparisons.from_rows` reads them, if the strategy is adaptive."""
        asked = (tuple(look_up(row["items"], self._items).tolist()) for row in data)
        new = [shown for shown in asked if shown not in self._asked]  # given before
        for shown in new:
            self._take(shown)
        if new and self._is_dealt:  # from the beginning, the same line-ups would come again
            self._deck = self.rng.permutation(len(self._items)).tolist()
        if self._is_dealt or self.strategy != "adaptive":
            return
        self._answers += data
        scores, errors = self._fitted()
        self._worth = expit(scores[:, None] - scores) * expit(scores - scores[:, None])
        if self._top is not None:
            ordered = np.sort(scores)[::-1]
            border = float(np.mean(ordered[self._top - 1 : self._top + 1]))
            near = np.exp(-0.5 * ((scores - border) / errors) ** 2)
            self._worth = self._worth * near[:, None] * near

    def _fitted(self) -> tuple[Array, Array]:
        """Scores and standard errors of all texts from the answers, each (N,); of new ones those of the middle."""
        data = Comparisons.from_rows(self._answers)
        found = multiply(data, BradleyTerry(), prior=WIDE)
        place, std = look_up(data.items.tolist(), self._items)[found.graph.item], found.posterior.std
        scores, errors = np.zeros(len(self._items)), np.full(len(self._items), float(np.max(std)))
        scores[place], errors[place] = found.scores, std
        return scores, np.maximum(errors, np.finfo(float).tiny)

    def _deal(self) -> list[int]:
        chosen, self._link = self._link, []
        while len(chosen) < self.size:
            if not self._deck:
                self._is_linked = True
                codes = self.rng.permutation(len(self._items)).tolist()
                self._deck = [*chosen, *(code for code in codes if code not in chosen)]
            chosen.append(self._deck.pop())
        if not self._is_linked:
            self._link = chosen[-1:]
        return chosen

    def _build(self) -> list[int]:
        """The texts of the next line-up; ties go by the seed."""
        a = self._covariance
        variance = np.diag(a)
        resistance = variance[:, None] + variance - 2.0 * a
        if self._worth is not None:
            resistance = resistance * self._worth
        order = self.rng.permutation(len(a))
        total, chosen = np.max(resistance, axis=1), list[int]()
        while len(chosen) < self.size:
            chosen.append(int(order[first_best(total[order])]))
            total = np.sum(resistance[chosen], axis=0)
            total[chosen] = -1.0
        return chosen

    def _take(self, shown: tuple[int, ...]) -> None:
        """Count a line-up, in slot order, as asked, and take its information into the covariance."""
        self._asked.add(shown)
        self._slots[list(shown), np.arange(len(shown))] += 1.0
        if self._is_dealt:
            return
        centred = np.eye(len(shown)) - 1.0 / len(shown)
        columns = self._covariance[:, list(shown)]
        inner = np.linalg.inv(np.eye(len(shown)) + 2.0 * centred @ columns[list(shown)])
        self._covariance = self._covariance - 2.0 * columns @ inner @ centred @ columns.T


def in_slots(
    chosen: Sequence[int],
    counts: Array,
    asked: Collection[tuple[int, ...]],
    rng: np.random.Generator,
    rows: Sequence[int] | None = None,
) -> tuple[int, ...]:
    """The k chosen texts in slot order, each where it was least by `counts` (rows, k), as a line-up that was not asked.

    The row of text t is `rows[t]`, t by default. Where the line-up was asked, another order of the same texts is drawn,
    or else of other texts; a ValueError where all line-ups were asked.

    >>> in_slots([0, 2], np.array([[9.0, 0.0], [0.0, 0.0], [0.0, 9.0]]), set(), np.random.default_rng(0))
    (2, 0)
    """
    row = range(len(counts)) if rows is None else rows
    k = len(chosen)
    if len(asked) >= math.perm(len(row), k):
        raise ValueError(f"all line-ups of {k} of these {len(row)} texts were asked")
    slots = scipy.optimize.linear_sum_assignment(counts[[row[text] for text in chosen]] + 1e-3 * rng.random((k, k)))[1]
    shown = tuple(chosen[place] for place in np.argsort(slots, kind="stable").tolist())
    while shown in asked:
        pool = range(len(row)) if rng.random() < OTHER else chosen
        shown = tuple(rng.permutation(pool)[:k].tolist())
    return shown
