"""The next pairs for comparing groups of texts, such as the systems that wrote them.

The mean m_g of a group is estimated from all contexts together, and pairs are chosen for all contexts together. With A
the covariance of the means given the pairs so far, and weights w_gh for the differences of two groups, the next pair,
texts i of group g and j of group h, is the one that lowers Σ w_gh·Var(m_g − m_h) most (`Information`):

    c·(B_gg + B_hh − 2B_gh) / (1 + c·(A_gg + A_hh − 2A_gh)),   B = A L A,   c = o_ij·κ_i·κ_j,   κ_i = 1/(1 + d_i/4),

where L is the Laplacian of w and o_ij the contrast of the texts. The more calls d_i a text is in, the less another call
with it adds about its group: a text of another context adds more.

All differences have the weight w = 1 for the goal "systems", and before any answer for "best-system". For the latter,
after `Systems.learn`, with z_h the difference of the leader and group h in standard errors and R_h its variance,

    w_h = exp(−z_h²)/R_h    for the leader and each other group, 0 for any other two:

which is the derivative of the expected variance of 1[h is worse] by R_h, to first order and up to a factor.

A line-up of k texts is a clique of comparisons, each with 2/k of the information c (`comparo.selection.lineups`). It is
built text by text: the next text is the one whose comparisons with those chosen lower the sum most.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Hashable, Iterable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from comparo.data.prompts import Rest
from comparo.errors import Message, named
from comparo.ranking.leaderboard import Leaderboard
from comparo.rounding import first_best
from comparo.selection.designs import Orders, merge
from comparo.selection.greedy import Information, differences
from comparo.selection.lineups import in_slots
from comparo.types import Array, LongIndex

OWN = 0.25  # variance of a text within its group, relative to an answer's: decisions have 0.05, sure soft judges 1
CANDIDATES = 4  # texts per group and context considered for the next pair: those in the fewest calls
DRAWS = 10_000  # of all means in `sureness`: the standard error of a probability is at most 0.005


class Systems:
    """Chooses pairs of texts of different groups in all contexts, for the goal "systems" or "best-system".

    `groups` is the group of each item, by context. Groups that cannot all be compared raise a ValueError. The chosen
    pairs depend on the order in which contexts ask for theirs.

    >>> design = Systems({context: {name: name for name in "abcd"} for context in "xy"}, "systems")
    >>> x, y = (design.of_context(context, "one", np.random.default_rng(0)) for context in "xy")
    >>> len({frozenset(pair) for pair in x.next(2) + y.next(2)}), x.remaining
    (4, 4)
    """

    def __init__(self, groups: Mapping[Any, Mapping[Any, Hashable]], goal: str) -> None:
        self._groups, self.goal = groups, goal
        names = dict.fromkeys(group for own in groups.values() for group in own.values())
        self._code = {group: code for code, group in enumerate(names)}
        self.count = len(names)
        rows = [(context, one, other) for context, own in groups.items() for one, other in pairwise(own)]
        if self.count < 2 or not self.links(rows):
            raise ValueError(
                named("goal", goal)
                + f" compares groups with several texts each, and the {self.count} groups here cannot all be compared "
                "with each other; " + Message("check {group} and the contexts, or use the goal 'ranking'")
            )
        self.first = np.zeros(self.count, dtype=np.int64)  # times each group was shown first minus second
        self.slots: Array | None = None  # times each group was in each slot of line-ups, (G, k)
        self.information = Information(np.eye(self.count), 1.0 - np.eye(self.count))

    @property
    def learns(self) -> bool:
        """Whether the choice depends on the answers."""
        return self.goal == "best-system"

    def of_context(
        self, context: Any, orders: Orders, rng: np.random.Generator, contrast: Array | None = None, size: int = 2
    ) -> SystemPairs:
        """The selector of pairs of one context, or of line-ups of `size` texts if `size` > 2.

        `contrast` (n, n) is the contrast of its texts, None if all pairs are equally informative.
        """
        own = self._groups[context]
        group = np.array([self._code[group] for group in own.values()])
        if size > 2 and self.slots is None:
            self.slots = np.zeros((self.count, size))
        kind, calls = (SystemPairs if size == 2 else Lineups), (2 if size == 2 and orders == "both" else 1)
        return kind(self, list(own), group, calls, contrast, rng, size)

    def links(self, rows: Iterable[tuple[Any, Any, Any]]) -> bool:
        """Whether the comparisons `rows` (context, item, item) connect all groups and have more texts than groups."""
        texts = [((context, one), (context, other)) for context, one, other in rows]
        ends = [[self._code[self._groups[context][item]] for context, item in pair] for pair in texts]
        if len({text for pair in texts for text in pair}) <= self.count:
            return False
        return bool(merge(np.arange(self.count), np.array(ends)).max() == 0)

    def learn(self, board: Leaderboard) -> None:
        """For the goal "best-system": weigh the leader's differences by their remaining uncertainty."""
        code = [self._code[group] for group in board.group.tolist()]
        variance = differences(board.covariance) + np.eye(self.count)
        square = (board.score[:, None] - board.score) ** 2 / variance
        matters = np.zeros((self.count, self.count), dtype=bool)
        matters[0, 1:] = matters[1:, 0] = True
        weight = np.empty((self.count, self.count))
        # Masked before exp: other differences may be so much smaller than the leader's that exp would overflow.
        exponent = np.where(matters, np.min(square[matters]) - square, -np.inf)
        weight[np.ix_(code, code)] = np.exp(exponent) / variance
        self.information = Information(self.information.covariance, weight)


class SystemPairs:
    """Selects pairs of texts of different groups in one context, for a `Systems`; each pair takes `calls` calls.

    `remaining` is the number of calls that can still be asked.
    """

    def __init__(
        self,
        design: Systems,
        items: list[Any],
        group: LongIndex,
        calls: int,
        contrast: Array | None,
        rng: np.random.Generator,
        size: int = 2,
    ) -> None:
        self._design, self._items, self._group, self.calls, self._contrast = design, items, group, calls, contrast
        self._asked = np.zeros(len(items), dtype=np.int64)
        self._met: list[set[int]] = [set() for _ in items]
        self._order = rng.permutation(len(items))
        alike = sum(size * (size - 1) // 2 for size in np.bincount(group).tolist())
        self.remaining: int = calls * (len(items) * (len(items) - 1) // 2 - alike)
        if size > 2 and self.remaining:  # some texts are of different groups
            self.remaining = math.perm(len(items), size)
        self._size, self._rng, self._lineups = size, rng, set[tuple[int, ...]]()
        self._queue: deque[tuple[Any, Any]] = deque()

    def next(self, batch: int) -> list[tuple[Any, Any]]:
        """The next `batch` calls, each (item shown first, item shown second)."""
        while len(self._queue) < batch:
            self._choose()
        self.remaining -= batch
        return [self._queue.popleft() for _ in range(batch)]

    def observe(self, data: Any) -> None:
        """Do nothing: `Systems.learn` uses the answers of all contexts together."""

    def _choose(self) -> None:
        """Put the calls for the pair of largest gain in the queue."""
        found = self._best(self._candidates()) or self._best(self._order)
        if found is None:
            raise ValueError("all pairs of texts of different groups were asked")
        x, y, c = found
        g, h = int(self._group[x]), int(self._group[y])
        self._design.information.add(g, h, c)
        self._met[x].add(y)
        self._met[y].add(x)
        self._asked[[x, y]] += self.calls
        balance = self._design.first
        if balance[g] > balance[h]:
            x, y, g, h = y, x, h, g
        if self.calls == 1:
            balance[g] += 1
            balance[h] -= 1
        one, other = self._items[x], self._items[y]
        self._queue.extend([(one, other), (other, one)][: self.calls])

    def _candidates(self) -> LongIndex:
        """The `CANDIDATES` texts of each group that are in the fewest calls."""
        order = self._order[np.lexsort((self._asked[self._order], self._group[self._order]))]
        group = self._group[order]
        return order[np.arange(len(order)) - np.searchsorted(group, group) < CANDIDATES]

    def _best(self, texts: LongIndex) -> tuple[int, int, float] | None:
        """The pair of `texts` with the largest gain, and the information it adds; None if all pairs were asked."""
        group = self._group[texts]
        place = {text: number for number, text in enumerate(texts.tolist())}
        free = group[:, None] != group
        for text, number in place.items():
            free[number, [place[other] for other in self._met[text] if other in place]] = False
        if not free.any():
            return None
        c = self._added(texts)
        gain = np.where(free, self._design.information.gains(c, np.ix_(group, group)), -1.0)
        x, y = divmod(int(first_best(gain)), len(texts))
        return int(texts[x]), int(texts[y]), float(c[x, y])

    def _added(self, texts: LongIndex) -> Array:
        """The information c (m, m) that the calls for each pair of `texts` (m,) add."""
        fresh = 1.0 / (1.0 + OWN * self._asked[texts])
        c = self.calls * fresh[:, None] * fresh
        return c if self._contrast is None else c * self._contrast[np.ix_(texts, texts)]


class Lineups(SystemPairs):
    """Selects line-ups of `size` texts in one context, for a `Systems`; none is asked twice.

    >>> design = Systems({context: {name: name for name in "abcd"} for context in "xy"}, "systems")
    >>> first, rest = design.of_context("x", "one", np.random.default_rng(0), size=3).next(1)[0]
    >>> len({first, *rest})
    3
    """

    def _choose(self) -> None:
        """Put the line-up of largest gain in the queue, built text by text."""
        information, slots = self._design.information, self._design.slots
        assert slots is not None
        texts = self._candidates()
        texts = self._order if len(texts) < self._size else texts
        group = self._group[texts]
        c = 2.0 / self._size * self._added(texts) * (group[:, None] != group)
        chosen = list[int]()
        while len(chosen) < self._size:
            gain = information.gains(c, np.ix_(group, group))
            total = np.sum(gain[chosen], axis=0) if chosen else np.max(gain, axis=1)
            total[chosen] = -1.0
            new = int(first_best(total))
            for old in chosen:
                information.add(int(group[old]), int(group[new]), float(c[old, new]))
            chosen.append(new)
        shown = in_slots(texts[chosen].tolist(), slots, self._lineups, self._rng, self._group.tolist())
        self._lineups.add(shown)
        self._asked[list(shown)] += 1
        slots[self._group[list(shown)], np.arange(self._size)] += 1.0
        first, *rest = (self._items[text] for text in shown)
        self._queue.append((first, Rest(rest)))


def sureness(board: Leaderboard, goal: str) -> float:
    """P(the first group is the best), or for "systems" the expected Spearman correlation of the order of groups.

    Estimated means vary more than true ones. The draws are therefore from the posterior with a normal prior on the true
    means, whose variance is estimated as τ² = (|m|² − tr Cov m)/(G − 1), at least 0. If τ² is 0, the groups do not
    differ more than by chance, and the result is 1/G or a correlation of 0.

    >>> from comparo import fit
    >>> pairs = [("a", "b", 0.8), ("b", "a", 0.3), ("b", "c", 0.6), ("c", "a", 0.2)]
    >>> rows = [{"context": c, "first": i, "second": j, "p": p + c / 40} for c in range(6) for i, j, p in pairs]
    >>> board = fit(rows, groups="items", prior="estimated").groups()
    >>> sureness(board, "systems") > 0.99, sureness(board, "best-system") > 0.99
    (True, True)
    """
    count, rng = len(board), np.random.default_rng(0)
    variance, axes = np.linalg.eigh(board.covariance)
    variance = np.maximum(variance, 0.0)
    spread = max((board.score @ board.score - np.sum(variance)) / (count - 1), 0.0)
    if not spread:
        return 1.0 / count if goal == "best-system" else 0.0
    kept = spread / (spread + variance)
    scale = np.sqrt(kept * variance)
    # Drawn for the groups and then rotated to the eigenvectors, whose signs differ between machines.
    errors = rng.standard_normal((DRAWS, count)) @ axes
    drawn = (kept * (board.score @ axes) + scale * errors) @ axes.T
    if goal == "best-system":
        return float(np.mean(np.argmax(drawn, axis=1) == 0))
    order = np.argsort(-drawn, axis=1, kind="stable")
    place = np.argsort(order, axis=1, kind="stable")
    moved = np.sum((place - np.arange(count)) ** 2, axis=1)
    return float(1.0 - 6.0 * np.mean(moved) / (count**3 - count))
