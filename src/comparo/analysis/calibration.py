"""Learn the Gaussian expert from items whose true scores are known.

The expert needs the mean μ(p) and the variance σ²(p) of the score difference given the answer p. The paper assumes a
line and a constant; with true scores for some items both are estimated from the comparisons among them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from comparo.analysis.correlations import true_differences
from comparo.data.comparisons import Comparisons
from comparo.errors import ComparisonsError
from comparo.model.likelihoods.gaussian import Constant, Gaussian
from comparo.types import Array


@dataclass(frozen=True, slots=True)
class Interpolated:
    """A function of p through the points (p, value), straight between them and constant beyond the ends.

    >>> Interpolated((0.0, 1.0), (-1.0, 1.0))(np.array([0.0, 0.75]))
    array([-1. ,  0.5])
    """

    p: tuple[float, ...]
    value: tuple[float, ...]

    def __call__(self, p: Array) -> Array:
        return np.interp(p, self.p, self.value)


def calibrate(
    data: Any,
    scores: Mapping[Any, float],
    *,
    mean: Literal["isotonic", "binned"] = "isotonic",
    variance: Literal["constant", "binned"] = "constant",
    bins: int = 10,
) -> Gaussian:
    """Learn a Gaussian expert from true scores of some items: μ(p) = E[s_first − s_second | p] and σ²(p).

    Parameters
    ----------
    data, scores
        Comparisons, in any form that `fit` reads, and the true score of an item, or of a pair (context, item).
        Comparisons with other items are ignored.
    mean
        "isotonic", the non-decreasing function closest to the differences, or "binned", their mean in `bins` bins of
        equally many comparisons. A position bias of the judge becomes part of μ.
    variance, bins
        The variance around the mean, "constant" or "binned", and the number of bins.

    Returns
    -------
    Gaussian
        An expert, to be used as `fit(data, method=expert)`.

    Raises
    ------
    ComparisonsError
        If fewer than two comparisons have a true score for both items.
    ValueError
        If `mean`, `variance` or `bins` has no meaning.

    Examples
    --------
    >>> truth = {"a": 2.0, "b": 1.0, "c": 0.0}
    >>> expert = calibrate([("a", "b", 0.7), ("b", "c", 0.7), ("a", "c", 0.9), ("c", "a", 0.2)], truth)
    >>> expert.mean(np.array([0.2, 0.7, 0.9]))
    array([-2.,  1.,  2.])
    """
    from scipy.optimize import isotonic_regression  # takes longer to import than all of comparo

    if mean not in ("isotonic", "binned") or variance not in ("constant", "binned") or bins < 1:
        raise ValueError("mean is 'isotonic' or 'binned', variance 'constant' or 'binned', and bins at least 1")
    p, difference, weight = true_differences(Comparisons.of(data), scores)
    if len(p) < 2:
        raise ComparisonsError("only one comparison has a true score for both of its items; give scores of more items")
    order = np.argsort(p, kind="stable")
    p, difference, weight = p[order], difference[order], weight[order]
    if mean == "isotonic":
        points, first = np.unique(p, return_index=True)
        total = np.add.reduceat(weight, first)
        level = np.add.reduceat(weight * difference, first) / total
        learnt = Interpolated(tuple(points.tolist()), tuple(isotonic_regression(level, weights=total).x.tolist()))
    else:
        learnt = _binned(p, difference, weight, bins)
    squares = (difference - learnt(p)) ** 2
    # If all answers fit exactly, the variance would be 0 and the precision infinite.
    least = 1e-6 * float(np.var(difference)) + np.finfo(float).tiny
    if variance == "constant":
        return Gaussian(learnt, Constant(max(float(np.average(squares, weights=weight)), least)))
    spread = _binned(p, squares, weight, bins)
    return Gaussian(learnt, Interpolated(spread.p, tuple(max(value, least) for value in spread.value)))


def _binned(p: Array, values: Array, weight: Array, bins: int) -> Interpolated:
    """Weighted means of sorted p and `values` in bins of equally many comparisons; equal p share a bin."""
    edges = np.searchsorted(p, p[np.linspace(0, len(p), bins, endpoint=False).astype(int)])
    begins = np.unique(edges)
    total = np.add.reduceat(weight, begins)
    centre, level = (np.add.reduceat(weight * column, begins) / total for column in (p, values))
    return Interpolated(tuple(centre.tolist()), tuple(level.tolist()))
