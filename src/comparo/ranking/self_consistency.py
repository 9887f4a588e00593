"""How consistent a judge's answers are: winners that change with the order, and a correlation of both orders.

The verdict of an answer is the text that it prefers, p > ½ or p < ½, or a tie. Flips are counted
over pairs, each of one judge, without scores; they are the same for a reversed judge.

Of a pair asked in both orders, with answers y and y′ in logits (probabilities, where answers are decisions),

    (y − y′)/2 = x_first − x_second + noise,    (y + y′)/2 = −γ + e_first + e_second + noise,

x is the judge's view of a text, and e the effect of the position on it. As the first of its pairs a text is worth
x + e, as the second x − e; the correlation of the two, without noise, is (Var x − Var e) / (Var x + Var e).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.special import logit, ndtri

from comparo.data.comparisons import Comparisons
from comparo.model.linalg.graph import Graph
from comparo.model.observations import JudgedPairs, are_choices
from comparo.types import Array, Index

NEAR = 1e-9  # distance from ½ below which a mean of answers is a tie: rounding
# Share of flips above which rankings are poor, measured by `python -m benchmarks.bounds`: there the Spearman
# correlation with the true order falls to 0.75. A coin has 0.5.
MANY = 0.4
NEARLY_ALL = 0.8  # share of flips above which winners say the order alone; with 20 pairs, all have to change
CLIPPED = 1e-4  # distance from 0 and 1 of the least and the most probable answers


@dataclass(frozen=True, slots=True)
class Flips:
    """The number of pairs asked in both orders, of those with contradicting verdicts, and of pairs asked in one order.

    Each voice's pairs count separately.

    >>> found = Flips(pairs=100, flipped=61, once=0)
    >>> [round(end, 2) for end in found.interval], found.are_many
    ([0.51, 0.7], True)
    """

    pairs: int
    flipped: int
    once: int

    @property
    def share(self) -> float:
        """The share of pairs whose verdicts contradict each other; NaN without pairs."""
        return self.flipped / self.pairs if self.pairs else math.nan

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95% interval of the share, for pairs that are independent; (0, 1) without pairs."""
        return wilson(self.share, self.pairs, float(ndtri(0.975))) if self.pairs else (0.0, 1.0)

    @property
    def are_many(self) -> bool:
        """Whether the share is surely above `MANY`: the judge hardly reads the texts, or they hardly differ."""
        return self.interval[0] > MANY


def count_flips(comparisons: Comparisons) -> Flips:
    """The number of pairs asked in both orders, and of those whose winner changes with the order; ties never do.

    >>> count_flips(Comparisons.from_rows([("a", "b", 0.8), ("b", "a", 0.6), ("a", "c", 0.9)]))
    Flips(pairs=1, flipped=1, once=1)
    """
    _, seen, mean, _ = comparisons.by_pair
    if comparisons.lists_winners:
        return Flips(0, 0, len(seen))
    one, other = mean[seen.all(axis=1)].T
    same_position = np.minimum(one, other) > 0.5 + NEAR, np.maximum(one, other) < 0.5 - NEAR
    flipped = int(np.count_nonzero(np.logical_or(*same_position)))
    return Flips(len(one), flipped, len(seen) - len(one))


def unexplained_flips(comparisons: Comparisons) -> Flips:
    """`count_flips` after each judge's position bias, the median over pairs, is removed from soft answers.

    Of a pair with answers y and y′ in logits, the winner changes where |(y + y′)/2 − median| ≥ |y − y′|/2.

    >>> rows = [("a", "b", 0.8), ("b", "a", 0.6), ("a", "c", 0.9), ("c", "a", 0.55), ("b", "c", 0.8), ("c", "b", 0.6)]
    >>> data = Comparisons.from_rows(rows)
    >>> count_flips(data).flipped, unexplained_flips(data).flipped
    (3, 0)
    """
    whole = count_flips(comparisons)
    if are_choices(comparisons):
        return whole
    flipped = 0
    for judge in np.unique(comparisons.judged_by):
        orders = comparisons.take(comparisons.judged_by == judge).both_orders()
        one, other = (logit(np.clip(p, CLIPPED, 1 - CLIPPED)) for p in orders)
        position = (one + other) / 2
        moved = np.abs(position - np.median(position)) if len(position) else position
        flipped += int(np.count_nonzero(moved >= np.abs(one - other) / 2 - NEAR))
    return Flips(whole.pairs, flipped, whole.once)


def unreliable_by(comparisons: Comparisons) -> str | None:
    """The figure by which the judge hardly reads, None where it reads.

    "unexplained_flips" are surely more than `MANY`, or "flips", which count the position bias, more than `NEARLY_ALL`.

    >>> biased = [(a, b, 0.9 if a < b else 0.8) for k in range(30) for a, b in ((k, k + 1), (k + 1, k))]
    >>> unreliable_by(Comparisons.from_rows(biased)), unreliable_by(Comparisons.from_rows(biased[:20]))
    ('flips', None)
    """
    if unexplained_flips(comparisons).are_many:
        return "unexplained_flips"
    return "flips" if count_flips(comparisons).interval[0] > NEARLY_ALL else None


def wilson(value: float, count: float, z: float) -> tuple[float, float]:
    """Wilson's interval of a share of `count` independent observations, with z standard errors on either side.

    >>> low, high = wilson(0.0, 10, 1.96)
    >>> low, round(high, 3)
    (0.0, 0.278)
    """
    centre = (value + z * z / (2 * count)) / (1 + z * z / count)
    reach = z / (1 + z * z / count) * np.sqrt(value * (1 - value) / count + (z / (2 * count)) ** 2)
    return max(float(centre - reach), 0.0), min(float(centre + reach), 1.0)


def orders_correlation(comparisons: Comparisons, graph: Graph, group: Index | None = None) -> float | None:
    """The correlation of x + e and x − e over texts (see the module), after removing group means.

    None where no text has two pairs that were asked in both orders; 0 where texts do not differ. `group` (n,) is the
    number of each candidate's group; its effects on x and e are removed by least squares first.

    >>> rng, x, e = np.random.default_rng(0), *np.random.default_rng(1).normal(size=(2, 20))
    >>> ends = [(i, j) for i in range(20) for j in range(20) if i != j]
    >>> d = np.array([x[i] - x[j] + 0.5 * (e[i] + e[j]) for i, j in ends]) + 0.1 * rng.normal(size=380)
    >>> data = Comparisons.from_columns(*zip(*ends), 1 / (1 + np.exp(-d)))
    >>> found, true = orders_correlation(data, Graph.build(data)), (x.var() - e.var() / 4) / (x.var() + e.var() / 4)
    >>> bool(abs(found - true) < 0.05)
    True
    """
    first, second, prefers, position = _both(comparisons, graph)
    ends = np.bincount(np.concatenate([first, second]), minlength=graph.nodes)
    if not np.any(ends > 1):
        return None
    context = graph.position[first]
    if group is not None:
        prefers = prefers - _explained(group[first], group[second], prefers, -1, None)
        position = position - _explained(group[first], group[second], position, 1, context)
    own = text_variance(first, second, prefers, -1, context, graph.nodes)
    moved = max(text_variance(first, second, position, 1, context, graph.nodes), 0.0)
    return (own - moved) / (own + moved) if own > 0 else 0.0


def text_variance(first: Index, second: Index, values: Array, sign: int, context: Index, texts: int) -> float:
    """The variance of x in values = x_first + sign·x_second + context + noise, all of shape (K,), by moments.

    It is the mean product of two values of a context whose pairs share a text, each with the sign of that text. With
    sign = 1 the product includes the context's square: the mean product of pairs without a common text is subtracted.

    >>> first, second = np.array([0, 0, 1]), np.array([1, 2, 2])
    >>> text_variance(first, second, np.array([2.0, 2.0, 0.0]), -1, np.zeros(3, dtype=np.int32), 3)
    1.3333333333333333
    """
    ends, signed = np.concatenate([first, second]), np.concatenate([values, sign * values])
    of_text = np.bincount(ends, minlength=texts).astype(float)
    sharing, number = _products(np.bincount(ends, signed, texts).astype(float), of_text, signed)
    of_context = np.bincount(context).astype(float)
    products, all_of_them = _products(np.bincount(context, values).astype(float), of_context, values)
    rest = all_of_them - number
    other = (products - sharing) / rest if sign > 0 and rest > 0 else 0.0
    return sharing / number - other


def _products(sums: Array, counts: Array, values: Array) -> tuple[float, float]:
    """The sum of the products of any two values within a group of `sums`, and the number of products."""
    return float(np.sum(sums**2) - np.sum(values**2)), float(np.sum(counts * (counts - 1)))


def _both(comparisons: Comparisons, graph: Graph) -> tuple[Index, Index, Array, Array]:
    """The nodes of each pair (and judge) asked in both orders; half the difference and half the sum of its answers."""
    p = comparisons.p
    y = p if are_choices(comparisons) else logit(np.clip(p, CLIPPED, 1 - CLIPPED))
    pairs = JudgedPairs.of(comparisons, graph)
    asked = pairs.total(np.ones(len(y)))
    kept = asked.all(axis=1)
    one, other = (pairs.total(y)[kept] / asked[kept]).T
    return pairs.low[kept], pairs.high[kept], (one - other) / 2, (one + other) / 2


def _explained(first: Index, second: Index, values: Array, sign: int, context: Index | None) -> Array:
    """The least-squares fit m_first + sign·m_second (+ context) to values, without the context's part, (K,)."""
    from scipy.sparse.linalg import lsmr

    rows, ones = np.arange(len(values)), np.ones(len(values))
    groups = int(max(first.max(), second.max())) + 1
    columns = [(ones, first), (sign * ones, second)]
    if context is not None:
        columns.append((ones, groups + context))
    entries, places = (np.concatenate(parts) for parts in zip(*columns, strict=True))
    width = groups + (0 if context is None else int(context.max()) + 1)
    shape = (len(values), width)
    design = sparse.csr_array((entries, (np.tile(rows, len(columns)), places)), shape=shape)
    found = lsmr(design, values, atol=1e-8, btol=1e-8)[0][:groups]
    return found[first] + sign * found[second]
