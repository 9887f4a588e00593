"""Soft answers as observations of score differences with Gaussian noise.

The paper's general Gaussian expert with μ(p) = logit p models an answer as

    y = logit p = s_first − s_second − γ + noise,    Var(noise) = φ / weight.

Two answers about a pair, in both orders, are one observation, half of their difference, in which the position effects
of the judge (γ) and of the two texts cancel. Rounding errors of p are part of the noise. Answers that are choices
(decisions, ties, votes) have the likelihood of Bradley–Terry instead (`comparo.model.inference.choices`). The noise may
depend on the contrast of the two texts (`fitted_power`).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from comparo.data.columns import first_rows
from comparo.data.comparisons import Comparisons
from comparo.model.linalg.graph import Graph, Pattern
from comparo.model.linalg.spectrum import System
from comparo.model.tuning import FEW, LEAST_CAP
from comparo.rounding import TINY
from comparo.types import Array, Index, Mask

WHOLE = 1e-6  # tolerance for whole numbers: p in files often has six digits
STEPS = (0.25, 0.2, 0.1, 0.05, 0.025, 0.02, 0.01)  # steps of rounded p; finer ones are left to `LEAST_CAP`
SATURATED = 2e-12  # distance from 0 or 1 at which p counts as rounded: above that of clear line-ups (`CLEAR`)


@dataclass(frozen=True)
class Observations:
    """M observations y of s_first − s_second − γ with relative precisions `weight`, all of shape (M,).

    `row` is one comparison of each; `first` and `second` are nodes. `judge` is the code of the judge whose γ is in y,
    or J where γ cancels. `bound` is 1 or −1 for a saturated answer, whose difference is at least or at most y, else 0.
    Pairs asked in both orders also estimate γ: `sums` (C, J), the mean of half the sum of the two answers, estimates −γ
    with the weight `sum_weight` (C, J). `sum_square` is the weighted sum of squares of these halves around their means,
    with `sum_freedom` degrees of freedom. Judges are codes of position effects (`Comparisons.positions`). `freedom`
    (M,) and `position_freedom` (J,) are the degrees of freedom of each observation and position effect.
    """

    row: NDArray[np.intp]
    first: Index
    second: Index
    y: Array
    weight: Array
    judge: Index
    bound: Array
    sums: Array
    sum_weight: Array
    sum_square: float
    sum_freedom: int
    freedom: Array
    position_freedom: Array

    @property
    def sum_variance(self) -> float:
        """The variance of half sums of weight 1: φ plus the variance of position effects of single texts."""
        return (self.sum_square + 1e-3) / (self.sum_freedom + 1e-3)


def votes_of(comparisons: Comparisons) -> tuple[Array, Array] | None:
    """Share and number of votes of each answer, both (K,), if all answers are decisions or votes; else None.

    Decisions are 0, ½ or 1. Answers are votes if every weight n is a whole number and all p are a/n, or all are
    (a + ½)/(n + 1), as judges report a of n votes, where a tie is half a vote. So ¼, ½ and ¾ of weight 1 are single
    votes. All other p are probabilities, however few distinct values they have.

    >>> votes_of(Comparisons.from_rows([("a", "b", 0.7, 4), ("b", "c", 0.5, 4)]))
    (array([0.75, 0.5 ]), array([4., 4.]))
    """
    p, weight = comparisons.p, comparisons.weights
    if comparisons.hard:
        return p, weight
    if np.all((weight >= 1) & _is_whole(weight)):
        for votes in (p * weight, p * (weight + 1.0) - 0.5):
            if np.all(_is_whole(2.0 * votes)):
                return np.clip(0.5 * np.round(2.0 * votes) / weight, 0.0, 1.0), weight
    return None


def _is_whole(values: Array) -> Mask:
    return np.abs(values - np.round(values)) < WHOLE


def are_choices(comparisons: Comparisons) -> bool:
    """Whether the answers are decisions or votes (`votes_of`), not probabilities.

    >>> are_choices(Comparisons.from_rows([("a", "b", 1.0), ("b", "c", 0.5)]))
    True
    """
    return votes_of(comparisons) is not None


def mixes_kinds(comparisons: Comparisons) -> bool:
    """Whether some judges decide, and others give probabilities.

    One noise variance does not fit both, and decisions as logits would be as large as the largest other answer.

    >>> rows = [{"first": "a", "second": "b", "p": p, "judge": name} for name, p in (("ana", 1.0), ("bo", 0.7))]
    >>> mixes_kinds(Comparisons.from_rows(rows))
    True
    """
    judge = comparisons.judged_by
    return len({are_choices(comparisons.take(judge == each)) for each in np.unique(judge)}) > 1


def logits(p: Array) -> tuple[Array, Mask]:
    """logit p (K,), and which p are saturated: 0 or 1, or as sure as line-ups can say.

    0 and 1 get the largest |logit p| of the others, at least `LEAST_CAP`; where all p are multiples of a step h, they
    get ±logit(1 − h/2).

    >>> logits(np.array([0.5, 1.0, 1e-3]))
    (array([ 0.        ,  6.90675478, -6.90675478]), array([False,  True, False]))
    """
    saturated = np.minimum(p, 1.0 - p) < SATURATED
    if not saturated.any():
        return logit(p), saturated
    is_certain = (p == 0) | (p == 1)
    cap = max(np.max(np.abs(logit(p[~is_certain])), initial=0.0), LEAST_CAP)
    step = next((step for step in STEPS if np.all(_is_whole(p / step))), None)
    if step is not None:
        cap = float(logit(1.0 - step / 2))
    return np.where(is_certain, np.sign(p - 0.5) * cap, logit(np.where(is_certain, 0.5, p))), saturated


@dataclass(frozen=True, eq=False)
class JudgedPairs:
    """Comparisons of the same two candidates by the same judge: M pairs.

    `row` (M,) is one comparison of each pair, `low` and `high` (M,) are its nodes, and `slot` (K,) is 2·pair for the
    comparisons that showed the lower node first and 2·pair + 1 for the others.

    >>> data = Comparisons.from_rows([("a", "b", 0.8), ("b", "a", 0.4), ("b", "c", 0.7)])
    >>> JudgedPairs.of(data, Graph.build(data)).total(data.p)
    array([[0.8, 0.4],
           [0.7, 0. ]])
    """

    row: NDArray[np.intp]
    low: Index
    high: Index
    slot: NDArray[np.intp]

    @classmethod
    def of(cls, comparisons: Comparisons, graph: Graph, apart: Mask | None = None) -> JudgedPairs:
        """The pairs of all comparisons; those marked by `apart` (K,) are pairs of their own."""
        row, pair = comparisons.pairing
        if apart is not None:
            row, pair = first_rows(np.where(apart, -np.cumsum(apart, dtype=np.intp), pair))
        low, high = (edge(graph.first, graph.second)[row] for edge in (np.minimum, np.maximum))
        return cls(row, low, high, 2 * pair + (graph.first > graph.second))

    def total(self, values: Array) -> Array:
        """Sums of values (K,) over each pair and order, (M, 2)."""
        return np.bincount(self.slot, values, 2 * len(self.row)).astype(float).reshape(-1, 2)


def observe(comparisons: Comparisons, graph: Graph, y: Array, saturated: Mask) -> Observations:
    """Reduce the answers y (K,) to one observation for each pair, context and judge.

    Repeated answers are averaged by weight. For pairs asked in both orders, with weights w and w′, the observation is
    half of the difference, with the weight 4 / (1/w + 1/w′). A saturated answer is an observation of its own: the bound
    of a mean would depend on the noise of the other answers.

    >>> data = Comparisons.from_rows([("a", "b", 0.8), ("b", "a", 0.4), ("b", "c", 0.7)])
    >>> found = observe(data, Graph.build(data), *logits(data.p))
    >>> found.y.round(2), found.weight, found.judge, found.sums.round(2)
    (array([0.9 , 0.85]), array([2., 1.]), array([1, 0], dtype=int32), array([[0.49]]))
    """
    judges, pairs = len(comparisons.slots), JudgedPairs.of(comparisons, graph, saturated)
    lead, low, high = pairs.row, pairs.low, pairs.high
    judge, context = comparisons.positions[lead], graph.position[low]
    weight = pairs.total(comparisons.weights)
    mean = pairs.total(comparisons.weights * y) / np.where(weight > 0, weight, 1.0)
    asked = weight > 0
    both = asked.all(axis=1)
    half = 4.0 / np.sum(1.0 / np.where(asked, weight, 1.0), axis=1)
    case = np.where(both, 0, np.where(asked[:, 0], 1, 2 + ~asked[:, 1]))  # 3: without weight, left out
    rows = np.argsort(case, kind="stable")[: np.count_nonzero(asked.any(axis=1))]
    y = np.choose(case, [(mean[:, 0] - mean[:, 1]) / 2, mean[:, 0], mean[:, 1], 0.0])
    first, second = np.where(case == 2, high, low), np.where(case == 2, low, high)
    weights = np.where(both, half, np.sum(weight, axis=1))
    key, each = context[both] * judges + judge[both], mean[both].mean(axis=1)
    groups = graph.contexts * judges
    sum_weight = np.bincount(key, half[both], groups).astype(float)
    sums = np.bincount(key, half[both] * each, groups) / np.maximum(sum_weight, TINY)
    return Observations(
        lead[rows],
        first[rows],
        second[rows],
        y[rows],
        weights[rows],
        np.where(both, judges, judge)[rows].astype(np.int32),
        (np.sign(y) * saturated[lead])[rows],
        sums.reshape(-1, judges),
        sum_weight.reshape(-1, judges),
        float(np.sum(half[both] * (each - sums[key]) ** 2)),
        int(len(key) - np.count_nonzero(sum_weight)),
        comparisons.freedom[lead[rows]],
        comparisons.position_freedom,
    )


OTHERS = "others"  # the name of the pooled voices


def named_voices(comparisons: Comparisons, people: Collection[Any] = ()) -> tuple[tuple[Any, ...], NDArray[np.intp]]:
    """The names of the voices (R,) and the voice of each comparison (K,); `people` are never pooled."""
    if comparisons.judges is None:
        return ("judge",), np.zeros(len(comparisons), dtype=np.intp)
    labels = comparisons.judges.tolist()
    calls = np.bincount(comparisons.judged_by, minlength=len(labels))
    own = (calls >= FEW) | (np.array([label in people for label in labels]) & (calls > 0))
    number = np.where(own, np.cumsum(own) - 1, np.count_nonzero(own))
    names = comparisons.judges[own].tolist()
    code = number[comparisons.judged_by]
    return tuple(names if int(code.max()) < len(names) else [*names, OTHERS]), code


def pooled(comparisons: Comparisons) -> Comparisons:
    """Pool judges with fewer than `FEW` comparisons as "others": so few do not determine a bias per judge.

    >>> rows = [{"first": "a", "second": "b", "p": 1, "judge": person} for person in range(100)]
    >>> pooled(Comparisons.from_rows(rows)).judges.tolist()
    ['others']
    """
    names, code = named_voices(comparisons)
    if comparisons.judges is None or len(names) == len(np.unique(comparisons.judged_by)):
        return comparisons
    return replace(comparisons, judges=np.array(names, dtype=object), judge=code.astype(np.int32))


WEAK_RIDGE = 1e-6  # ridge of least squares, relative to the weight of an observation
# Grid of the power a of the contrast, and mean and standard deviation of its prior, after recorded judges
# (docs/efficiency.md).
POWERS, USUAL, POWER_ERROR = np.linspace(0.0, 3.0, 31), 1.0, 1.0


def fitted_power(data: Comparisons, contrast: Array) -> float:
    """The power a with which the information c^a of an answer rises with its contrast c (K,); 0 for choices.

    A choice has the noise of a coin, which does not depend on the texts.

    >>> fitted_power(Comparisons.from_rows([("a", "b", 1), ("b", "c", 0)]), np.array([0.5, 1.0]))
    0.0
    """
    if np.all(contrast == contrast[0]) or are_choices(data):
        return 0.0
    row, squares, freedom = residuals(data)
    return power(squares, contrast[row], freedom)


def power(squares: Array, contrast: Array, freedom: float) -> float:
    """The most probable a of `POWERS` if the variance of answers is φ·contrast^−a.

    The prior is a ~ N(USUAL, POWER_ERROR²). `squares` (M,) are squared residuals of a fit that ignores the contrast,
    relative to their variance by weight, and `freedom` are its degrees of freedom. With the best φ, a maximises

        ½·freedom·(mean a·log contrast − log Σ squares·contrast^a) − ½ ((a − USUAL)/POWER_ERROR)².

    >>> contrast = np.tile([1.0, 0.1], 200)
    >>> power(np.ones(400), contrast, 400.0), power(1 / contrast**2, contrast, 400.0)
    (0.0, 2.0)
    """
    total = np.array([np.sum(squares * contrast**a) for a in POWERS])
    fits = POWERS * np.mean(np.log(contrast)) - np.log(np.maximum(total, TINY))
    return float(POWERS[np.argmax(0.5 * freedom * fits - 0.5 * ((POWERS - USUAL) / POWER_ERROR) ** 2)])


def residuals(comparisons: Comparisons) -> tuple[NDArray[np.intp], Array, float]:
    """Squared residuals of soft answers for `power`, from least squares on their logits.

    Returns one row of the comparisons for each of M observations (both orders of a pair are one), weight·residual²
    (M,), and the degrees of freedom.

    >>> row, squares, freedom = residuals(Comparisons.from_rows([("a", "b", 0.8), ("b", "a", 0.4)]))
    >>> row, squares.round(6), freedom
    (array([0]), array([0.]), 0.0)
    """
    graph = Graph.build(comparisons)
    found = observe(comparisons, graph, *logits(comparisons.p))
    shift = np.zeros(found.sums.shape[1] + 1)
    y = found.y
    for _ in range(2):  # first without γ, then with γ of each judge
        pattern = Pattern(replace(graph, first=found.first, second=found.second))
        order = pattern.order
        c = found.weight[order]
        system = System(pattern, c, c * (y + shift[found.judge])[order])
        x = system.solve(WEAK_RIDGE * float(np.mean(c)), np.zeros(graph.nodes))
        left = y - x[found.first] + x[found.second]
        for judge in range(len(shift) - 1):
            own = found.judge == judge
            if own.any():
                shift[judge] = -np.average(left[own], weights=found.weight[own])
    squares = found.weight * (left + shift[found.judge]) ** 2
    return found.row, squares, float(max(np.sum(found.freedom) - (graph.nodes - graph.components), 0))
