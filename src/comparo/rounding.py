"""Values that differ only by rounding are ties.

CPUs differ in the last digits of a sum. Choices and sorts are the same on every CPU if values within `TIES` count as
equal. Among equal values the order of the input decides; where a seed should decide, the input is shuffled.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from comparo.types import Array

# A relative tolerance; `merge_ties` uses it as an absolute one too. Rounding errors are 1e-16; those of a covariance
# that is updated hundreds of times, and of scores from p with errors of 1e-13, are < 1e-11 (tests/test_determinism.py).
TIES = 1e-9
# Distance from 0, ½ and 1 within which a probability is that value: 1 − p, means and products round by at most some
# 1e-16 each, thousands of them by less than this, and no judge means a difference of 4e-12 logits from a tie.
EXACT = 1e-12
TINY = float(np.finfo(float).tiny)  # keeps a denominator or the argument of a logarithm above 0


def first_best(values: Array, axis: int | None = None) -> NDArray[np.intp]:
    """The index of the first value that ties with the largest.

    >>> int(first_best(np.array([0.1, 0.3, 0.1 + 0.2]))), int(first_best(np.array([-np.inf, -1e-16])))
    (1, 1)
    """
    best = np.max(values, axis=axis, keepdims=True)
    return np.asarray(np.argmax(values >= best - TIES * np.abs(best), axis=axis))


def snapped(p: Array) -> Array:
    """The probabilities, where those within `EXACT` of 0, ½ and 1 are these values.

    >>> snapped(np.array([0.1 + 0.2 + 0.2 + 1e-13, 1e-11, 1 - 1e-13])).tolist()
    [0.5, 1e-11, 1.0]
    """
    near = np.round(2.0 * p) / 2.0
    is_near = (np.abs(p - near) <= EXACT) & (p != near)
    return np.where(is_near, near, p) if is_near.any() else p


def merge_ties(values: Array) -> Array:
    """Replace each value by the smallest that ties with it: a stable sort then keeps the order of ties.

    Two values tie if they differ by at most `TIES`·(1 + |value|), or if a chain of such ties connects them.

    >>> merge_ties(np.array([0.1 + 0.2, 0.5, 0.3])).tolist()
    [0.3, 0.5, 0.3]
    """
    flat = values.ravel()
    order = np.argsort(flat, kind="stable")
    ordered = flat[order]
    new = ~np.isclose(ordered[1:], ordered[:-1], rtol=TIES, atol=TIES)
    lead = np.maximum.accumulate(np.concatenate([[0], np.where(new, np.arange(1, len(flat)), 0)]))
    merged = np.empty_like(flat)
    merged[order] = ordered[lead[: len(flat)]]
    return merged.reshape(values.shape)


def mean_ranks(values: Array) -> Array:
    """Ranks along the last axis, from 1; equal values share their mean rank, and one NaN makes all ranks NaN.

    The same as `scipy.stats.rankdata`, whose import takes half of a command's start-up time.

    >>> mean_ranks(np.array([0.5, 0.1, 0.5])).tolist()
    [2.5, 1.0, 2.5]
    """
    order, first, last = tied_places(values)
    ranks = np.empty(values.shape)
    np.put_along_axis(ranks, order, (first + last) / 2 + 1, axis=-1)
    return np.where(np.isnan(values).any(axis=-1, keepdims=True), np.nan, ranks)


def tied_places(values: Array) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
    """The order of values along the last axis, the lowest first, and the first and last place of each one's ties.

    >>> [each.tolist() for each in tied_places(np.array([0.5, 0.1, 0.5]))]
    [[1, 0, 2], [0, 1, 1], [0, 2, 2]]
    """
    order = np.argsort(values, axis=-1, kind="stable")
    ordered = np.take_along_axis(values, order, axis=-1)
    begins = np.ones((*values.shape[:-1], values.shape[-1] + 1), dtype=bool)
    begins[..., 1:-1] = ordered[..., 1:] != ordered[..., :-1]
    place = np.arange(values.shape[-1])
    first = np.maximum.accumulate(np.where(begins[..., :-1], place, 0), axis=-1)
    last = np.minimum.accumulate(np.where(begins[..., 1:], place, place.size)[..., ::-1], axis=-1)[..., ::-1]
    return order, first, last
