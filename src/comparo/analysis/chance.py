"""Measures of agreement beyond chance, 1 − D_o / D_e, from sums over pairs, with a bootstrap interval.

D_o is the observed share of different verdicts and D_e the share by chance. Both are functions of sums of columns over
pairs, so that a draw of the bootstrap is a sum, and equal pairs are drawn together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from comparo.types import Array, Seed, as_generator

LEAST = 10  # pairs, or contexts, for an interval
CELLS = 10_000_000  # numbers drawn at once: 80 MB
Texts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A measure with the ends of its interval, and on how many pairs it rests; NaN is what the verdicts do not tell."""

    value: float
    low: float
    high: float
    pairs: int


Disagreement = tuple[Array, Array]  # observed and by chance


def coincidences(counts: Array) -> Array:
    """Per unit, the number of different values among its pairable ones, and the counts: (U, 1 + C)."""
    values = np.sum(counts, axis=1)
    different = (values**2 - np.sum(counts**2, axis=1)) / np.maximum(values - 1, 1)
    return np.column_stack([different, counts])


def coincided(totals: Array) -> Disagreement:
    """From sums (…, 1 + C) of what `coincidences` returns."""
    different, counts = totals[..., 0], totals[..., 1:]
    values = np.sum(counts, axis=-1)
    chance = (values**2 - np.sum(counts**2, axis=-1)) / np.maximum(values * (values - 1), 1)
    return different / np.maximum(values, 1), chance


def tabulated(totals: Array) -> Disagreement:
    """From tables of counts (…, C²)."""
    size = round(totals.shape[-1] ** 0.5)
    table = totals.reshape(*totals.shape[:-1], size, size)
    count = np.maximum(np.sum(table, axis=(-2, -1)), 1)
    chance = np.sum(np.sum(table, axis=-1) * np.sum(table, axis=-2), axis=-1) / count**2
    observed = np.trace(table, axis1=-2, axis2=-1) / count
    return 1 - observed, np.where(np.sum(table, axis=(-2, -1)) > 0, 1 - chance, 0.0)


def counted(totals: Array) -> Disagreement:
    """From the number of different verdicts and of all (…, 2), without a correction for chance."""
    different, count = totals[..., 0], totals[..., 1]
    return different / np.maximum(count, 1), np.where(count > 0, 1.0, 0.0)


def beyond_chance(disagreement: Disagreement) -> Array:
    """1 − D_o/D_e, NaN where D_e is 0."""
    observed, chance = np.asarray(disagreement)
    return np.asarray(1 - np.divide(observed, chance, out=np.full(np.shape(chance), np.nan), where=chance > 1e-12))


def estimate(
    measure: Callable[[Array], Disagreement],
    columns: Array,
    unit: NDArray[np.int64],
    level: float,
    draws: int,
    rng: Seed,
    texts: Texts | None = None,
) -> Estimate:
    """The measure of the sums of `columns` (P, k), and the ends of its bootstrap over the units (P,) of the pairs.

    Where all verdicts agree, all draws do: the lower end is then that of Wilson's interval for 0 of U units that
    disagree, z²/(U + z²); and likewise where none agree.
    """
    if not 0 < level < 1:
        raise ValueError(f"level is a probability between 0 and 1, not {level!r}")
    observed, chance = measure(np.sum(columns, axis=0))
    value = float(beyond_chance((observed, chance)))
    names, unit = np.unique(unit, return_inverse=True)
    units = len(names)
    if units < LEAST or np.isnan(value):
        return Estimate(value, np.nan, np.nan, len(columns))
    sums = np.stack([np.bincount(unit, column, units) for column in columns.T], axis=1).astype(np.float64)
    drawn = beyond_chance(measure(resampled(sums, draws, as_generator(rng))))
    low, high = np.nanquantile(drawn, [(1 - level) / 2, (1 + level) / 2]).tolist()
    z = float(ndtri((1 + level) / 2)) ** 2
    if np.isclose(observed, 0.0):
        low = float(1 - z / (units + z) / chance)
    elif np.isclose(observed, 1.0):
        high = float(1 - units / (units + z) / chance)
    if texts is not None:
        wider = _wider(lambda totals: beyond_chance(measure(totals)), columns, unit, texts)
        low, high = max(value - wider * (value - low), -1.0), min(value + wider * (high - value), 1.0)
    return Estimate(value, low, high, len(columns))


def _wider(measure: Callable[[Array], Array], columns: Array, unit: NDArray[np.int64], texts: Texts) -> float:
    """By how much pairs that share a text widen an interval of pairs, at least 1.

    The influence of an observation on the measure is ψ = ∇f(Σ columns)·columns; the ratio is √(V_texts / V_pairs) of ψ,
    the two variances of `comparo.analysis.shares`.
    """
    total = np.sum(columns, axis=0)
    step = 1e-6 * np.sum(total)
    slope = [(measure(total + step * e) - measure(total - step * e)) / (2 * step) for e in np.eye(len(total))]
    influence = columns @ np.array(slope)
    pairs = float(np.sum(np.bincount(unit, influence) ** 2))
    labels, ends = np.unique(np.concatenate(texts), return_inverse=True)
    both = float(np.sum(np.bincount(ends, np.tile(influence, 2)) ** 2)) - pairs
    return float(np.sqrt(max(both / pairs, 1.0) * len(labels) / max(len(labels) - 2, 1))) if pairs > 0 else 1.0


def resampled(sums: Array, draws: int, rng: np.random.Generator) -> Array:
    """The sums of `draws` bootstrap samples of U units (U, k), shape (draws, k); equal units are drawn together.

    >>> resampled(np.array([[1.0], [1.0]]), 3, np.random.default_rng(0)).ravel()
    array([2., 2., 2.])
    """
    kinds, count = np.unique(sums, axis=0, return_counts=True)
    blocks = [
        rng.multinomial(len(sums), count / len(sums), size) @ kinds
        for size in np.diff(np.r_[0 : draws : max(CELLS // len(kinds), 1), draws])
    ]
    return np.concatenate(blocks)
