"""The agreement of judges, people or machines, on the same pairs, without scores.

The verdict of a judge on a pair is the text that it prefers, or a tie, by the mean of its answers in both orders. Which
of the two texts is called the first is arbitrary, so each pair is counted in both orientations: chance agreement then
does not depend on that choice. A measure corrected for chance is

    1 − D_o / D_e,    D_o the observed share of different verdicts,    D_e the share by chance.

Krippendorff's α takes D_e from the verdicts of all judges together, and Cohen's κ from those of each of two judges.
Intervals come from a bootstrap over pairs, or over contexts where there are at least `CONTEXTS` of them, because pairs
of one context share texts.

D_o and D_e are functions of sums of columns over pairs: a bootstrap sample is a weighted sum, with one multinomial
count for all equal units.

`ndcg` and `recall` say how well a ranking finds the best texts by true scores.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from comparo.data.columns import shown
from comparo.data.comparisons import Comparisons
from comparo.data.wordings import few
from comparo.errors import ComparisonsError
from comparo.ranking.self_consistency import NEAR
from comparo.rounding import tied_places
from comparo.types import Array, Mask, Seed, as_generator, check_level

LEAST_PAIRS = 10  # pairs, or contexts, for an interval
CELLS = 10_000_000  # numbers drawn at once: 80 MB
Texts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A measure, the ends of its interval, and its number of pairs; NaN where verdicts do not determine it."""

    value: float
    low: float
    high: float
    pairs: int


Disagreement = tuple[Array, Array]  # observed and by chance


def coincidences(counts: Array) -> Array:
    """(m² − Σ_c n_c²)/(m − 1) of each unit, with m = Σ_c n_c, and its counts n_c (U, C): (U, 1 + C)."""
    values = np.sum(counts, axis=1)
    different = (values**2 - np.sum(counts**2, axis=1)) / np.maximum(values - 1, 1)
    return np.column_stack([different, counts])


def coincided(totals: Array) -> Disagreement:
    """D_o and D_e of α from sums (…, 1 + C) of `coincidences`."""
    different, counts = totals[..., 0], totals[..., 1:]
    values = np.sum(counts, axis=-1)
    chance = (values**2 - np.sum(counts**2, axis=-1)) / np.maximum(values * (values - 1), 1)
    return different / np.maximum(values, 1), chance


def tabulated(totals: Array) -> Disagreement:
    """D_o and D_e of κ from tables of counts (…, C²)."""
    size = round(totals.shape[-1] ** 0.5)
    table = totals.reshape(*totals.shape[:-1], size, size)
    count = np.maximum(np.sum(table, axis=(-2, -1)), 1)
    chance = np.sum(np.sum(table, axis=-1) * np.sum(table, axis=-2), axis=-1) / count**2
    observed = np.trace(table, axis1=-2, axis2=-1) / count
    return 1 - observed, np.where(np.sum(table, axis=(-2, -1)) > 0, 1 - chance, 0.0)


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
    seed: Seed,
    texts: Texts | None = None,
) -> Estimate:
    """1 − D_o/D_e of the sums of `columns` (P, k), and its bootstrap interval over the `unit` (P,) of pairs.

    Where all verdicts agree, they do in all draws: the lower end is then from Wilson's interval for D_o = 0 in U units,
    whose upper end is z²/(U + z²); and likewise where none agree.
    """
    check_level(level)
    observed, chance = measure(np.sum(columns, axis=0))
    value = float(beyond_chance((observed, chance)))
    names, unit = np.unique(unit, return_inverse=True)
    units = len(names)
    if units < LEAST_PAIRS or np.isnan(value):
        return Estimate(value, np.nan, np.nan, len(columns))
    sums = np.stack([np.bincount(unit, column, units) for column in columns.T], axis=1).astype(np.float64)
    drawn = beyond_chance(measure(resampled(sums, draws, as_generator(seed))))
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
    """The factor, at least 1, by which pairs that share a text widen an interval.

    The influence of an observation on the measure is ψ = ∇f(Σ columns)·columns; the ratio is √(V_texts / V_pairs) of ψ,
    the two variances of `comparo.analysis.judge_votes`.
    """
    total = np.sum(columns, axis=0)
    step = 1e-6 * np.sum(total)
    steps = step * np.eye(len(total))
    slope = [(measure(total + e) - measure(total - e)) / (2 * step) for e in steps]
    influence = columns @ np.array(slope)
    pairs = float(np.sum(np.bincount(unit, influence) ** 2))
    labels, ends = np.unique(np.concatenate(texts), return_inverse=True)
    by_text = np.bincount(ends, np.tile(influence, 2))
    both = float(np.sum(by_text**2)) - pairs
    if pairs > 0:
        ratio = max(both / pairs, 1.0) * len(labels) / max(len(labels) - 2, 1)
        return float(np.sqrt(ratio))
    return 1.0


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


DRAWS = 1000  # of the bootstrap: the ends of a 95% interval are then known to about 0.1 of its standard error
CONTEXTS = 20  # fewest contexts for a bootstrap over contexts, else over pairs: with 12, intervals were too short
BEST = 10  # k of nDCG and recall where no goal names another


@dataclass(frozen=True, eq=False)
class Verdicts:
    """V verdicts on M pairs, one for each judge of a pair.

    Parameters
    ----------
    pair, judge : The pair, from 0 to M − 1, and the code of the judge of each verdict, shape (V,).
    p, said : P(the item with the lower code is better), and 1 for that item, −1 for the other, 0 for a tie, (V,).
    low, high, context : The lower and the higher code of each pair's items, and its context, 0 without any, shape (M,).
    unit : What the bootstrap draws: the context of each pair, or with few contexts the pair itself, shape (M,).
    """

    pair: NDArray[np.int64]
    judge: NDArray[np.int32]
    p: Array
    said: NDArray[np.int64]
    low: NDArray[np.int32]
    high: NDArray[np.int32]
    context: NDArray[np.int32]
    unit: NDArray[np.int64]

    @classmethod
    def of(cls, comparisons: Comparisons) -> Verdicts:
        """The verdicts of all judges; comparisons without judges are those of one.

        >>> Verdicts.of(Comparisons.from_rows([("ana", "bo", 0.7), ("bo", "ana", 0.6), ("cy", "bo", 1)])).said
        array([ 1, -1])
        """
        merged = comparisons.merge_orders()
        keys = replace(merged, judges=None, judge=None).pair_keys()
        _, lead, pair = np.unique(keys, return_index=True, return_inverse=True)
        p = np.where(merged.first < merged.second, merged.p, 1 - merged.p)
        said = np.where(np.abs(p - 0.5) > NEAR, np.sign(p - 0.5), 0.0).astype(np.int64)
        ends = np.sort(np.stack([merged.first[lead], merged.second[lead]]), axis=0)
        context = np.zeros(len(lead), dtype=np.int32) if merged.context is None else merged.context[lead]
        codes = np.unique(context, return_inverse=True)[1]
        unit = codes if codes.max(initial=0) + 1 >= CONTEXTS else np.arange(len(lead))
        return cls(pair, merged.judged_by, p, said, ends[0], ends[1], context, unit)

    def counts(self, counted: Mask | slice = slice(None)) -> Array:
        """The number of verdicts −1, 0 and 1 on each pair, shape (M, 3), among those `counted` (V,)."""
        slot = 3 * self.pair[counted] + self.said[counted] + 1
        return np.bincount(slot, minlength=3 * len(self.unit)).reshape(-1, 3).astype(np.float64)

    def both(self, one: int, other: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """The pairs on which both judges have a verdict, and the verdicts of either, each of shape (P,)."""
        table = np.full((2, len(self.unit)), 2)
        for row, code in enumerate((one, other)):
            own = self.judge == code
            table[row, self.pair[own]] = self.said[own]
        pairs = np.flatnonzero(np.all(table < 2, axis=0))
        return pairs, table[0, pairs], table[1, pairs]


def krippendorff_alpha(data: Any, *, level: float = 0.95, draws: int = DRAWS, seed: Seed = 0) -> Estimate:
    """Krippendorff's α of all judges, with the nominal metric: any two different verdicts differ equally.

    With n_uc judges who gave pair u the verdict c (first, second, tie) and m_u = Σ_c n_uc ≥ 2,

        α = 1 − (n − 1)·Σ_u (m_u² − Σ_c n_uc²)/(m_u − 1) / (n² − Σ_c n_c²),    n_c = Σ_u n_uc,  n = Σ_c n_c

    over both orientations of each pair (Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability"). It is 1 where
    all agree and 0 where verdicts are independent. Pairs with one judge are left out.

    Parameters
    ----------
    data
        Comparisons with judges, each a person or a machine, in any form that `fit` reads. Soft answers are thresholded
        at ½.
    level, draws, seed
        The coverage of the interval, the number of draws of the bootstrap, and its seed.

    Returns
    -------
    Estimate
        The value is NaN where no pair has two judges, or where all verdicts are ties; the ends are NaN below 10 pairs.

    Examples
    --------
    >>> pairs = [("a", "b"), ("b", "c"), ("a", "c"), ("c", "d")]
    >>> said = [("ana", 1, 1, 1, 0), ("bo", 1, 1, 1, 1)]
    >>> rows = [{"first": a, "second": b, "p": p, "judge": who} for who, *ps in said for (a, b), p in zip(pairs, ps)]
    >>> round(krippendorff_alpha(rows).value, 3)
    0.531
    """
    verdicts = Verdicts.of(Comparisons.of(data))
    return alpha_of(verdicts.counts(), verdicts.unit, level, draws, seed)


def alpha_of(
    counts: Array, unit: NDArray[np.int64], level: float, draws: int, seed: Seed, texts: Texts | None = None
) -> Estimate:
    """`krippendorff_alpha` from the counts (M, 3) of verdicts −1, 0 and 1 of each pair, and bootstrap units (M,).

    With `texts`, both texts of each pair, (2, M), the interval is widened for pairs that share a text.
    """
    several = np.sum(counts, axis=1) >= 2
    columns = coincidences(counts[several])
    columns[:, 1:] += columns[:, :0:-1].copy()  # both orientations of each pair
    columns[:, 0] *= 2
    shared = None if texts is None else texts[:, several]
    return estimate(coincided, columns, unit[several], level, draws, seed, shared)


def cohen_kappa(
    data: Any, one: Any, other: Any, *, level: float = 0.95, draws: int = DRAWS, seed: Seed = 0
) -> Estimate:
    """Cohen's κ of two judges on the pairs that both judged: (p_o − p_e)/(1 − p_e).

    p_o is the share of equal verdicts (first, second, tie), and p_e that of independent judges with the same shares of
    ties. Since each pair counts in both orientations, p_e = ½·d₁·d₂ + (1 − d₁)·(1 − d₂), with d the share of pairs that
    a judge decides.

    Parameters
    ----------
    data, one, other
        Comparisons with judges, in any form that `fit` reads, and the labels of two of them.
    level, draws, seed
        As in `krippendorff_alpha`.

    Returns
    -------
    Estimate
        NaN as in `krippendorff_alpha`.

    Raises
    ------
    ComparisonsError
        If one of the two is not a judge of the comparisons.

    Examples
    --------
    >>> columns = {"first": ["a", "a", "b"] * 2, "second": ["b", "c", "c"] * 2, "p": [1, 1, 0, 1, 1, 1]}
    >>> comparisons = Comparisons.from_columns(**columns, judge=["ana"] * 3 + ["bo"] * 3)
    >>> round(cohen_kappa(comparisons, "ana", "bo").value, 3)
    0.333
    """
    comparisons = Comparisons.of(data)
    verdicts = Verdicts.of(comparisons)
    pairs, a, b = verdicts.both(judge_code(comparisons, one), judge_code(comparisons, other))
    return kappa_of(a, b, verdicts.unit[pairs], level, draws, seed)


def kappa_of(
    one: NDArray[np.int64],
    other: NDArray[np.int64],
    unit: NDArray[np.int64],
    level: float,
    draws: int,
    seed: Seed,
    texts: Texts | None = None,
) -> Estimate:
    """`cohen_kappa` from verdicts −1, 0 and 1 on the same pairs, and bootstrap units, each of shape (P,).

    With `texts`, both texts of each pair, (2, P), the interval is widened for pairs that share a text.
    """
    tables = np.zeros((len(one), 9))
    for row, column in ((one, other), (-one, -other)):  # both orientations
        tables[np.arange(len(one)), 3 * row + column + 4] += 1
    return estimate(tabulated, tables, unit, level, draws, seed, texts)


def judge_code(comparisons: Comparisons, name: Any) -> int:
    """The code of a judge by its label, or by the label as text.

    >>> judge_code(Comparisons.from_columns(["a"], ["b"], [1], judge=["ana"]), "ana")
    0
    """
    if comparisons.judges is None:
        raise ComparisonsError("the comparisons name no judges; add a column judge that says who gave each answer")
    labels: list[Any] = comparisons.judges.tolist()
    if name not in labels:
        labels = [str(label) for label in labels]
    if name in labels:
        return labels.index(name)
    raise ComparisonsError(
        f"{shown(name)} is not a judge of the comparisons; they are {few(map(shown, labels), like=shown(name))}"
    )


def ndcg(scores: Array, truth: Array, k: int = BEST) -> Array:
    """The normalised discounted cumulative gain of the first k of n texts, along the last axis.

    With g_i = t_i − min t the gain of the text with the true score t_i, r_i its place by the scores, from 1, and DCG*
    the DCG of the order by true scores,

        nDCG@k = DCG / DCG*,    DCG = Σ_{r_i ≤ k} g_i / log₂(r_i + 1)

    (Järvelin and Kekäläinen 2002, with linear gains as in trec_eval). Texts of equal score have the mean of their
    places' discounts, the expectation over their orders. With fewer than k texts, all of them count.

    Parameters
    ----------
    scores, truth
        The scores of a ranking and true scores, of shapes (…, n) that numpy broadcasts.
    k
        How many places count.

    Returns
    -------
    Array
        Shape (…), from 0 to 1; NaN where all true scores are equal.

    Examples
    --------
    >>> round(float(ndcg(np.array([3.0, 2.0, 1.0]), np.array([4.0, 1.0, 5.0]), k=2)), 3)
    0.509
    """
    place, gain = np.arange(truth.shape[-1]), truth - np.min(truth, axis=-1, keepdims=True)
    worth = np.where(place < k, 1.0 / np.log2(place + 2.0), 0.0)
    found, most = (np.sum(gain * _expected(by, worth), axis=-1) for by in (scores, truth))
    return np.asarray(np.divide(found, most, out=np.full(np.shape(found), np.nan), where=most > 0))


def recall(scores: Array, truth: Array, k: int = BEST) -> Array:
    """The share of the k best of n texts that are among the first k by the scores, along the last axis.

    With t_(k) the k-th largest true score and r_i as in `ndcg`,

        recall@k = #{i: t_i ≥ t_(k), r_i ≤ k} / k,

    so that of texts that tie with the k-th best any may be found. Texts of equal score count by the share of their
    orders that puts them among the first k. Parameters and result are as of `ndcg`, but the result is NaN where there
    are at most k texts, which every ranking finds.

    Examples
    --------
    >>> recall(np.array([3.0, 2.0, 1.0]), np.array([4.0, 1.0, 5.0]), k=2)
    array(0.5)
    """
    if truth.shape[-1] <= k:
        return np.full(np.broadcast(scores, truth).shape[:-1], np.nan)
    found = _expected(scores, (np.arange(truth.shape[-1]) < k).astype(float))
    return np.asarray(np.sum((truth >= np.sort(truth, axis=-1)[..., -k, None]) * found, axis=-1) / k)


def _expected(scores: Array, worth: Array) -> Array:
    """The `worth` (n,) of the place of each score, the highest first; equal scores have the mean of their places."""
    order, first, last = tied_places(-scores)
    total = np.concatenate([[0.0], np.cumsum(worth)])
    found = np.empty(scores.shape)
    np.put_along_axis(found, order, (total[last + 1] - total[first]) / (last + 1 - first), axis=-1)
    return found
