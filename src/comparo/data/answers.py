"""Answers about pairs as arrays, and what follows from them: the two orders of a pair, weights, position effects.

K answers about N items are columns of shape (K,): `first` and `second` are codes into `items`, `p` is P(first is
better) as the judge saw it with `first` shown first. `comparo.data.comparisons` has the ways in and out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from comparo.data.columns import first_rows
from comparo.data.lineups import position_effects
from comparo.rounding import snapped
from comparo.types import Array, Index, LongIndex, Mask


@dataclass(frozen=True, eq=False)
class Answers:
    """The columns of `Comparisons`, whose docstring describes them.

    >>> Answers(np.array(["ana", "bo"]), np.array([0]), np.array([1]), np.array([0.7])).hard
    False
    """

    items: NDArray[Any]
    first: Index
    second: Index
    p: Array
    weight: Array | None = None
    contexts: NDArray[Any] | None = None
    context: Index | None = None
    judges: NDArray[Any] | None = None
    judge: Index | None = None
    voted: bool = False
    lineup: NDArray[Any] | None = None
    lists_winners: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "p", snapped(self.p))

    def __len__(self) -> int:
        return len(self.p)

    def pair_keys(self) -> LongIndex:
        """A number for each comparison, (K,): equal for the same two items, context and judge, in either order.

        >>> from comparo import Comparisons
        >>> Comparisons.from_rows([("a", "b", 0.7), ("b", "a", 0.5), ("a", "c", 0.9)]).pair_keys()
        array([1, 1, 2])
        """
        key = np.minimum(self.first, self.second).astype(np.int64) * len(self.items)
        key += np.maximum(self.first, self.second)
        for labels, codes in ((self.contexts, self.context), (self.judges, self.judge)):
            if labels is not None and codes is not None:
                if int(key.max(initial=0)) * len(labels) >= 2**62:
                    key = np.unique(key, return_inverse=True)[1]
                key = key * len(labels) + codes
        if self.lineup is not None:  # rows of line-ups are never merged: the other texts shown differ
            apart = self.lineup["answer"] >= 0
            key[apart] = int(key.max(initial=0)) + 1 + np.arange(np.count_nonzero(apart))
        return key

    @cached_property
    def pairing(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The first row of each pair (M,), in ascending order of `pair_keys`, and the pair of each row (K,)."""
        return first_rows(self.pair_keys())

    def by_order(self) -> tuple[NDArray[np.intp], Mask, Array, Array]:
        """The first row of each of M pairs (M,), and per order (M, 2): whether compared, mean p, sum of weights.

        Column 0 is the order of the first row, column 1 the other. The mean is unweighted where weights sum to 0.

        >>> from comparo import Comparisons
        >>> Comparisons.from_rows([("a", "b", 0.75), ("b", "a", 0.5), ("a", "c", 0.9)]).by_order()[2]
        array([[0.75, 0.5 ],
               [0.9 , 0.  ]])
        """
        lead, seen, mean, weights = self.by_pair
        order = np.argsort(lead, kind="stable")
        return lead[order], seen[order], mean[order], weights[order]

    @cached_property
    def by_pair(self) -> tuple[NDArray[np.intp], Mask, Array, Array]:
        """As `by_order`, with the pairs in ascending order of their keys, which takes no sorting."""
        lead, pair = self.pairing
        slot = 2 * pair + (self.first != self.first[lead][pair])

        def total(values: Array) -> Array:
            return np.bincount(slot, values, 2 * len(lead)).astype(np.float64, copy=False).reshape(-1, 2)

        seen = weights = total(np.ones(len(self)))
        mean = total(self.p) / np.maximum(seen, 1)
        if self.weight is not None:
            weights = total(self.weight)
            np.divide(total(self.weight * self.p), weights, out=mean, where=weights > 0)
        return lead, seen > 0, mean, weights

    def both_orders(self) -> tuple[Array, Array]:
        """p_ij and p_ji of the M pairs that a judge compared in both orders, each the mean of its comparisons: (M,).

        >>> from comparo import Comparisons
        >>> Comparisons.from_rows([("a", "b", 0.75), ("b", "a", 0.5), ("a", "c", 0.9)]).both_orders()
        (array([0.75]), array([0.5]))
        """
        _, seen, mean, _ = self.by_order()
        first, second = mean[seen.all(axis=1)].T
        return first, second

    @property
    def weights(self) -> Array:
        """The weight of each comparison, shape (K,); 1 if `weight` is None."""
        return np.ones(len(self)) if self.weight is None else self.weight

    def relative(self) -> Self:
        """The same comparisons with a mean weight of at least 1 per answer.

        Where the noise is estimated from the answers, only the ratios of weights below 1 matter: there is no answer of
        less than one. Weights above 1 are repetitions.

        >>> from comparo import Comparisons
        >>> Comparisons.from_rows([("ana", "bo", 0.7, 0.01), ("bo", "cy", 0.6, 0.03)]).relative().weights.round(9)
        array([0.5, 1.5])
        """
        if self.weight is None or not self.weight.any():
            return self
        share = self.weight / np.max(self.weight)
        least = share * (np.sum(self.freedom[share > 0]) / np.sum(share))
        return replace(self, weight=np.maximum(self.weight, least))

    @property
    def judged_by(self) -> Index:
        """The code of each comparison's judge, shape (K,); 0 if `judge` is None."""
        return np.zeros(len(self), dtype=np.int32) if self.judge is None else self.judge

    @property
    def freedom(self) -> Array:
        """The number of observations per comparison, (K,): 1 for a pair, 2/m for a row of a line-up (`lineups`)."""
        return np.ones(len(self)) if self.lineup is None else 2.0 / self.lineup["left"]

    @property
    def answers(self) -> int:
        """The number of answers; all rows of a line-up are one answer.

        >>> from comparo import Comparisons
        >>> Comparisons.from_rows([{"items": "x|y|z", "best": "x"}, {"items": "x|y", "best": "x"}]).answers
        2
        """
        if self.lineup is None:
            return len(self)
        number = self.lineup["answer"]
        return int(np.count_nonzero(number < 0)) + len(np.unique(number[number >= 0]))

    @property
    def positions(self) -> Index:
        """The position effect of each comparison, (K,), as an index into `slots`."""
        return self._positions[0]

    @property
    def slots(self) -> Index:
        """Judge, size of the line-up, lower and higher slot of each position effect, (F, 4): those of pairs first.

        >>> from comparo import Comparisons
        >>> Comparisons.from_rows([{"items": "x|y|z", "best": "x"}]).slots.tolist()
        [[0, 2, 0, 1], [0, 3, 0, 1], [0, 3, 0, 2]]
        """
        return self._positions[1]

    @cached_property
    def _positions(self) -> tuple[Index, Index]:
        return position_effects(self.lineup, self.judged_by, 1 if self.judges is None else len(self.judges))

    @property
    def position_freedom(self) -> Array:
        """The free parameters per position effect, (F,): 1 for pairs, 2/k for two slots of a line-up of k texts.

        Of the k(k − 1)/2 effects of two slots only k − 1 are free, as many as an answer has observations.
        """
        return 2.0 / self.slots[:, 1]

    @property
    def hard(self) -> bool:
        """Whether every p is a decision: 0, ½ or 1.

        >>> from comparo import Comparisons
        >>> Comparisons.from_rows([("ana", "bo", 0.7)]).hard, Comparisons.from_rows([("ana", "bo", 1)]).hard
        (False, True)
        """
        return bool(np.all((self.p == 0) | (self.p == 0.5) | (self.p == 1)))
