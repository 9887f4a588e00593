"""The next pairs to ask in order to place new items in an existing ranking.

Each new item is first compared with one anchor, an old item; the anchors are spread evenly over the old ranking. Then
pairs are chosen that lower the variance of the new items most. With M new items, A (M, M) the covariance of their
scores, S = A², c the information of a call about two items, and v_y the variance of an old item's score,

    new items x and y:     c·(S_xx + S_yy − 2S_xy) / (1 + c·(A_xx + A_yy − 2A_xy)),
    new x and old y:       c'·S_xx / (1 + c'·A_xx),        c' = c / (1 + c·v_y·(1 + u_y)),

is the decrease of the sum of the variances of the new items by a pair (Sherman and Morrison). A call between two new
items informs about both, a call with an old item about one; but only the latter determines the level of the new items
relative to the old ones, and the sum weighs both effects. u_y is the number of new items already compared with y, which
share its error. A priori the scores of the new items have the standard deviation of the old ones, and so has their
mean. A choice has c = σ(d)·σ(−d) at the difference d of two scores, so near items are most informative; a soft answer
has c = 1/φ for all items, with φ the noise variance of the old answers (`comparo.model.observations`).

Once the variances of the new items are as small as those of the old ones, a `Selector` chooses among all pairs.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from comparo.data.columns import look_up
from comparo.methods import quiet_fit
from comparo.model.likelihoods.bradley_terry import logistic_curvature
from comparo.model.observations import are_choices, fitted_power, residuals
from comparo.rounding import first_best, merge_ties
from comparo.selection.designs import Pairs
from comparo.selection.greedy import differences
from comparo.selection.selector import Selector
from comparo.types import Array, LongIndex

ANCHORS = 256  # old items considered as partners: neighbours are 0.4% of the ranks apart
CLOSE = 0.9  # least gain of a pair asked in the same batch, relative to the best
MOST_NEW = 1024  # new items; above, each choice would take seconds, and `Selector` alone chooses
LEAST_SPREAD = 0.1  # least prior standard deviation in logits: new items may differ even if old ones hardly do
USUAL_NOISE = 4.0  # prior noise variance, that of a choice between equals (1/c = 4), with the weight of one observation


class Placing(Selector):
    """Returns pairs that place new items in a ranking, and then those that a `Selector` chooses.

    Parameters
    ----------
    items : The labels of all N items. Those that are in none of the comparisons observed before `next` are new.
    rng : Assigns new items to anchors, and breaks ties among pairs of equal gain.
    contrast, options : As in `Selector`.

    Examples
    --------
    >>> placing = Placing(["ana", "bo", "cy", "new"], np.random.default_rng(0), seed=1)
    >>> placing.observe([("ana", "bo", 0.8), ("bo", "ana", 0.2), ("bo", "cy", 0.7), ("cy", "bo", 0.3)])
    >>> placing.next(2)  # the anchor is the middle of the old ranking
    [('new', 'bo'), ('bo', 'new')]
    """

    def __init__(
        self, items: Sequence[Hashable], rng: np.random.Generator, *, contrast: Array | None = None, **options: Any
    ) -> None:
        super().__init__(items, contrast=contrast, **options)
        code = look_up(list(items), self._items).astype(np.int64)
        number = np.argsort(code, kind="stable")
        self._apart = None if contrast is None else contrast[np.ix_(number, number)]
        self._shuffled = code[rng.permutation(len(code))]  # the order that breaks ties
        self._new: LongIndex | None = None
        self._anchoring: Pairs = np.empty((0, 2), dtype=np.int32)
        self._is_placed = False
        self._fitted = 0  # number of answers behind `_view`, the scores of all items
        self._view = np.zeros(len(code))
        self._spread: float | None = None
        self._noise: float | None = None  # φ of soft answers; None for choices
        self._informs: Array | None = None  # relative information of a call about two items

    def _choose(self, wanted: int) -> Pairs:
        if self._new is None:
            self._new = self._shuffled[~np.isin(self._shuffled, self._asked.rows)]
            self._is_placed = not (len(self._asked.rows) and len(self._new))
            if not self._is_placed:
                self._fit()
                self._anchoring = self._anchors()
        if len(self._anchoring):
            pairs, self._anchoring = self._anchoring[:wanted], self._anchoring[wanted:]
            return pairs
        if not self._is_placed and len(pairs := self._informative()[:wanted]):
            return pairs
        self._is_placed = True
        return super()._choose(wanted)

    def _fit(self) -> None:
        """Fit all scores to the answers; an item without answers has the score 0, the mean."""
        data = self._answers()
        ranking = quiet_fit(data, "poe-bt", prior=self._spread, bias="joint" if self.calls == 1 else "none")
        self._view = np.zeros(len(self._items))
        self._view[ranking.items.astype(np.int64)] = ranking.scores
        if self._spread is None:
            self._spread = max(float(np.std(ranking.scores)), LEAST_SPREAD)
            if not are_choices(data):
                _, squares, freedom = residuals(data)
                self._noise = (np.sum(squares) + USUAL_NOISE) / (freedom + 1.0)
        if self._apart is not None:
            worth = self._apart ** fitted_power(data, self._apart[data.first, data.second])
            self._informs = worth / np.mean(worth)
        self._fitted = len(data)

    def _anchors(self) -> Pairs:
        """One pair of a new and an old item for each new item; the old items are spread evenly over their ranking."""
        assert self._new is not None
        old = self._old()
        places = ((np.arange(len(self._new)) + 0.5) / len(self._new) * len(old)).astype(np.int64)
        return np.column_stack([self._new, old[places]]).astype(np.int32)

    def _old(self) -> LongIndex:
        """The old items, the lowest score first."""
        old = self._shuffled[~np.isin(self._shuffled, np.asarray(self._new))]
        return old[np.argsort(merge_ties(self._view[old]), kind="stable")]

    def _information(self, x: NDArray[np.integer], y: NDArray[np.integer]) -> Array:
        """c of a call about items x and y, of shapes that numpy broadcasts."""
        apart = self._view[x] - self._view[y]
        c = logistic_curvature(apart) if self._noise is None else np.full(apart.shape, 1.0 / self._noise)
        return c if self._informs is None else c * self._informs[x, y]

    def _informative(self) -> Pairs:
        """Disjoint pairs that lower the sum of the variances of the new items most, best first."""
        assert self._new is not None
        assert self._spread is not None
        if len(self._answers()) != self._fitted:
            self._fit()
        new, old = self._new, self._old()
        first, second = self._asked.rows.T
        c = self._information(first, second)
        known = np.bincount(first, c, len(self._items)) + np.bincount(second, c, len(self._items))
        variance = 1.0 / (known + self._spread**-2)
        place = np.full(len(self._items), -1)
        place[new] = np.arange(len(new))
        one, other = place[first], place[second]
        covariance = self._covariance(one, other, c, variance[np.where(one < 0, first, second)])
        if np.mean(covariance.diagonal()) <= np.mean(variance[old]):
            return np.empty((0, 2), dtype=np.int32)
        taken = np.zeros((len(new), len(self._items)), dtype=bool)
        taken[one[one >= 0], second[one >= 0]] = taken[other[other >= 0], first[other >= 0]] = True
        anchors = old[np.linspace(0, len(old) - 1, min(ANCHORS, len(old))).round().astype(np.int64)]
        anchors = self._shuffled[np.isin(self._shuffled, anchors)]
        leaning = np.count_nonzero(taken[:, anchors], axis=0)
        square = np.einsum("xy,xy->x", covariance, covariance)
        own = covariance.diagonal()
        c = self.calls * self._information(new[:, None], anchors)
        c /= 1.0 + c * variance[anchors] * (1 + leaning)
        with_old = np.where(taken[:, anchors], -1.0, c * square[:, None] / (1.0 + c * own[:, None]))
        c = self.calls * self._information(new[:, None], new)
        gain = c * differences(covariance @ covariance) / (1.0 + c * differences(covariance))
        with_new = np.where(taken[:, new] | np.eye(len(new), dtype=bool), -1.0, gain)
        best_new = new[first_best(with_new, axis=1)]
        best_old = anchors[first_best(with_old, axis=1)]
        gains = np.concatenate([np.max(with_new, axis=1), np.max(with_old, axis=1)])
        other = np.concatenate([best_new, best_old])
        return _disjoint(gains, np.column_stack([np.tile(new, 2), other]))

    def _covariance(self, one: LongIndex, other: LongIndex, c: Array, variance: Array) -> Array:
        """A, from the new items of each row (`one`, `other`; −1: an old item), c, and the variance of its old item."""
        assert self._new is not None
        assert self._spread is not None
        m = len(self._new)
        place, row = np.concatenate([one, other]), np.tile(np.arange(len(c)), 2)
        sign, new = np.repeat([1.0, -1.0], len(c)), place >= 0
        x = sparse.csr_array((sign[new], (row[new], place[new])), shape=(len(c), m))
        weight = np.where((one >= 0) & (other >= 0), c, c / (1.0 + c * variance))
        prior = (np.eye(m) - 1.0 / (1.0 + m)) / self._spread**2  # the inverse of τ²·(I + 11ᵀ)
        return np.asarray(np.linalg.inv(prior + x.T @ sparse.diags_array(weight) @ x), dtype=np.float64)


def _disjoint(gains: Array, pairs: LongIndex) -> Pairs:
    """Disjoint `pairs` (P, 2) with at least `CLOSE` of the best gain, best first; none without positive gain.

    >>> _disjoint(np.array([2.9, 3.0, 2.8, 0.5]), np.array([[0, 1], [1, 2], [3, 4], [5, 6]])).tolist()
    [[1, 2], [3, 4]]
    """
    chosen: list[tuple[int, int]] = []
    used: set[int] = set()
    gains = merge_ties(gains / max(np.max(gains), np.finfo(float).tiny))
    for x, y in pairs[np.argsort(-gains, kind="stable")[: np.count_nonzero(gains >= CLOSE)]].tolist():
        if x not in used and y not in used:
            chosen.append((x, y))
            used |= {x, y}
    return np.array(chosen, dtype=np.int32).reshape(-1, 2)
