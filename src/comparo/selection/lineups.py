"""The next line-ups to ask: k texts at a time, each text in each slot about equally often.

With A the covariance of the scores given what was asked, a line-up of the texts S has the precision 2·(I − 11ᵀ/k) in
units of a pair, and multiplies the determinant of the precision of all scores by

    det(I + 2·C A_S C),    C = I − 11ᵀ/k,

which for k = 2 is 1 plus the effective resistance A_xx + A_yy − 2A_xy of the choice of pairs. A line-up is built text
by text: the pair of largest resistance, then always the text with the largest sum of resistances to those chosen. While
the graph is not connected, each line-up joins k components, so that ⌈(n − 1)/(k − 1)⌉ connect all. The adaptive
strategy weighs the resistance of two texts by σ(d)σ(−d). For a goal top-k, texts are drawn by how open it is
whether they are among the best k (`doubt`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import scipy
from scipy.special import expit

from comparo.data.comparisons import Comparisons
from comparo.data.lineups import ROWS
from comparo.data.prompts import Rest
from comparo.model.estimators.poe import multiply
from comparo.model.likelihoods.bradley_terry import BradleyTerry
from comparo.model.tuning import WIDE
from comparo.rounding import first_best
from comparo.selection.designs import DEFAULT_GOAL, top_of
from comparo.selection.doubt import Doubt
from comparo.types import Array, Index, Seed, as_generator

RIDGE = 1e-3  # prior precision of a score, in units of a pair: small, so that unconnected texts have large resistance
MANY = 256  # texts above which line-ups are dealt at random; one of 256 takes 3 ms, one of 1000 takes 75 ms
OTHER = 0.1  # where a line-up was asked before, probability of drawing other texts instead of another order


class LineupSelector:
    """Returns the next line-ups, each (first, `Rest` of the further slots), and takes answers into account.

    Parameters
    ----------
    items : The labels of N ≥ k items, all different.
    size : k, the number of texts of a line-up.
    strategy : "random" deals all texts once before any is repeated, the first time in a chain that connects them;
        "greedy" uses the line-ups asked so far; "adaptive" also the answers. Above `MANY` texts all are "random".
    goal : "ranking" or "top-5", as of `Selector`.
    first_stage : A number of each item, (N,), that its score may follow; used for a goal top-k.
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
        first_stage: Array | None = None,
        seed: Seed = None,
    ) -> None:
        if not 3 <= size <= len(items):
            raise ValueError(f"a line-up of {size} texts needs that many items, and 3 at least; there are {len(items)}")
        self.rng = as_generator(seed)
        names = list(items)
        order = self.rng.permutation(len(names))
        self._items = [names[number] for number in order.tolist()]
        self.size, self.strategy = size, strategy
        top = top_of(goal, len(names), strategy)
        prior = None if first_stage is None else first_stage[order]
        self._doubt = None if top is None else Doubt(len(names), top, prior)
        self._place = {item: code for code, item in enumerate(self._items)}
        self._slots = np.zeros((len(names), size))  # number of times each text was in each slot
        self._is_linked = False
        self._is_dealt = strategy == "random" or self._doubt is not None or len(names) > MANY
        self._deck, self._link = list(range(len(names))), list[int]()  # codes of shuffled items
        self._covariance = np.eye(0 if self._is_dealt else len(names)) / RIDGE
        self._worth: Array | None = None  # factor on the resistance of two texts; None before answers
        none = np.empty(0, dtype=np.int32)
        self._known = Comparisons(
            np.arange(len(names)), none, none, np.empty(0), np.empty(0), lineup=np.empty(0, dtype=ROWS)
        )
        self._is_learnt = True
        self._open: set[tuple[int, ...]] = set()  # line-ups without an answer
        self._waiting = np.zeros(len(names))  # how many of them each text is in, from the last fit on
        self._component: Index = np.arange(len(names), dtype=np.int32)
        self._asked: set[tuple[int, ...]] = set()  # line-ups in slot order

    @property
    def remaining(self) -> int:
        """The number of line-ups that were not asked: n!/(n − k)! at first."""
        return math.perm(len(self._items), self.size) - len(self._asked)

    def next(self, batch: int) -> list[tuple[Any, Any]]:
        """The next `batch` line-ups; those returned before count as asked. A ValueError if fewer remain."""
        found = []
        for _ in range(batch):
            chosen = sorted(self._choose())
            shown = in_slots(chosen, self._slots, self._asked, self.rng)
            self._take(shown)
            first, *rest = (self._items[code] for code in shown)
            found.append((first, Rest(rest)))
        return found

    def observe(self, data: Sequence[Mapping[str, Any]]) -> None:
        """Count the line-ups of `data`, rows of `Comparisons.from_rows`, as asked; "adaptive" also uses the answers."""
        asked = [tuple(self._place[item] for item in row["items"]) for row in data]
        new = [shown for shown in asked if shown not in self._asked]  # not returned by `next`
        for shown in new:
            self._take(shown)
        if new and self._is_dealt:  # the same seed would deal the same line-ups again
            self._deck = self.rng.permutation(len(self._items)).tolist()
        if self.strategy != "adaptive" or (self._is_dealt and self._doubt is None):
            return
        self._open.difference_update(asked)
        self._remember(Comparisons.from_rows(data))
        self._is_learnt = False
        if self._doubt is None:
            found = multiply(self._known, BradleyTerry(), prior=WIDE)
            scores = np.zeros(len(self._items))
            scores[found.graph.item] = found.scores
            self._worth = expit(scores[:, None] - scores) * expit(scores - scores[:, None])

    def _remember(self, found: Comparisons) -> None:
        """Add answers, with the codes of shuffled items in place of labels."""
        place, known = np.array([self._place[item] for item in found.items.tolist()], dtype=np.int32), self._known
        assert found.lineup is not None
        assert known.lineup is not None
        rows = found.lineup.copy()
        rows["answer"] += np.where(rows["answer"] >= 0, len(known), 0).astype(np.int32)
        self._known = Comparisons(
            known.items,
            np.concatenate([known.first, place[found.first]]),
            np.concatenate([known.second, place[found.second]]),
            np.concatenate([known.p, found.p]),
            np.concatenate([known.weights, found.weights]),
            lineup=np.concatenate([known.lineup, rows]),
        )

    def _choose(self) -> list[int]:
        """The texts of the next line-up."""
        if self._doubt is None:
            return self._deal() if self._is_dealt else self._build()
        if not self._is_learnt:
            self._doubt.learn(self._known)
            self._is_learnt = True
            waiting = [code for shown in self._open for code in shown]
            self._waiting = np.bincount(waiting, minlength=len(self._items)).astype(float)
        return [*self._doubt.draw(self.size, self._component, self._waiting, self.rng).tolist()]

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
        """The texts of the next line-up; the seed breaks ties."""
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
        """Count the line-up `shown`, in slot order, as asked, and update the covariance."""
        self._asked.add(shown)
        self._slots[list(shown), np.arange(len(shown))] += 1.0
        self._open.add(shown)
        self._waiting[list(shown)] += 1.0
        if self._component.any():
            joined = self._component[list(shown)]
            self._component[np.isin(self._component, joined)] = joined.min()
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
    """Assign the k `chosen` texts to slots in which they were least often, as a line-up that is not in `asked`.

    `counts` (rows, k) says how often; the row of text t is `rows[t]`, t by default. If the line-up was asked, another
    order of the same texts or of other texts is drawn. A ValueError if all line-ups were asked.

    >>> in_slots([0, 2], np.array([[9.0, 0.0], [0.0, 0.0], [0.0, 9.0]]), set(), np.random.default_rng(0))
    (2, 0)
    """
    row = range(len(counts)) if rows is None else rows
    k = len(chosen)
    if len(asked) >= math.perm(len(row), k):
        raise ValueError(f"all line-ups of {k} of these {len(row)} texts were asked")
    own = counts[[row[text] for text in chosen]]
    _, slots = scipy.optimize.linear_sum_assignment(own + 1e-3 * rng.random((k, k)))
    shown = tuple(chosen[place] for place in np.argsort(slots, kind="stable").tolist())
    while shown in asked:
        pool = range(len(row)) if rng.random() < OTHER else chosen
        shown = tuple(rng.permutation(pool)[:k].tolist())
    return shown
