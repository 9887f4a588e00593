"""Scores with two peaks, for choices between two families of texts that are far apart.

    s = g·z + P m + X β + δ,    z of each candidate 0 or 1,    g ~ |N(0, GAP²)|

If nearly all choices between two families favour the same family, the choices do not determine the size of the gap g.
A normal prior on all scores does: its density is larger the closer the families are, so it shrinks the gap. Therefore,
where the scores of the normal model have two peaks and choices against the higher peak are rare, each candidate is
assigned to the nearer peak, z. The choices between the peaks then determine the gap as rare events determine a rate,

    log Z(g) = −A·e^−g − U·g + constant,

where A is about the number of these choices, and U the number against the higher peak. A and U follow from the
derivative of log Z, which expectation propagation gives at two gaps. Two peaks replace the normal model only if they
make all choices `CLEAR` times as probable, including the probability of z given groups and style (a lower bound: the
sum over all z would be larger). Normal scores never pass: the halves of a normal distribution have 36% of its variance,
which gains ½·log(1/0.36) = 0.51 per candidate and costs log 2 = 0.69; uniform scores are the limit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import block_diag
from scipy.special import expit, log_expit, logsumexp

from comparo.model.design import Shared
from comparo.model.inference.choices import Choices
from comparo.model.inference.random_effects import Effects, differences, solve
from comparo.model.inference.reml import Variances
from comparo.model.linalg.graph import Graph
from comparo.model.tuning import CLEAR, GAP, RARE, UNIFORM, WIDEST
from comparo.rounding import TINY, merge_ties
from comparo.types import Array, Mask

GRID = np.linspace(0.0, 2 * WIDEST, 401)  # grid of gaps; above, the prior density is below e⁻⁸ of that at 0
APART = 0.3  # least distance of the two gaps at which the derivative is taken: rates differ by a third
WEAK = (1.0, 10.0, 100.0, 1000.0)  # prior variances to try for the coefficients of the regression of z
NEWTON, NEAR = 50, 1e-3  # most Newton steps for these coefficients, and the size of the last step
ROUNDS = 20  # of alternating between gap and peaks; measured: 2 to 8


@dataclass(frozen=True)
class Peaks:
    """Two peaks: the settled `model` and its `variances` at a gap, and the uncertainty of the gap.

    `base` (n,) is added to the scores of the model; `slope` (n,) is the derivative of the scores by the gap, and
    `error` the standard error of the gap. `spread` is the variance of scores between the peaks.
    """

    model: Choices
    variances: Variances
    gap: float
    error: float
    base: Array
    slope: Array
    spread: float

    def applied(self, scores: Array, effects: Effects) -> tuple[Array, Effects]:
        """Add the two peaks to the scores (n,) of the model and to its effects."""
        spread = np.column_stack([effects.spread, self.slope])
        between = block_diag(effects.between, [self.error**2 / effects.dispersion])
        total = effects.scores + self.spread
        return scores + self.base, replace(effects, scores=total, gap=self.gap, spread=spread, between=between)


def find_peaks(model: Choices, variances: Variances, shared: Shared) -> Peaks | None:
    """The two peaks of the scores of a settled model, or None where one peak fits as well."""
    graph, n = model.pattern.graph, model.pattern.graph.nodes
    solution = solve(model.system, variances, shared)[0]
    high, _, within = split(graph, solution.x[:n])
    if within > UNIFORM:
        return None
    # Groups and style predict the peak but are not used in `_sorted`: with them, correct only clear errors.
    bias = solution.x[model.pattern.bias_index] if model.pattern.judges else np.zeros(len(model.p))
    high, asked, other = _sorted(model, high, bias, np.log(CLEAR) if shared.kinds else 0.0)
    if other > RARE * asked:
        return None
    plain = model.log_evidence(variances, shared)
    first = _settled(model, shared, graph, high, _posterior(asked, other)[0])
    if first is None:
        return None
    rate = (first.slope + other) * np.exp(first.gap)
    gap = _posterior(max(rate, other), other)[0]
    gap = gap if abs(gap - first.gap) > APART else first.gap + APART
    second = _settled(first.model, shared, graph, high, gap)
    if second is None:
        return None
    rate = max((first.slope - second.slope) / (np.exp(-first.gap) - np.exp(-second.gap)), TINY)
    other = max(rate * np.exp(-second.gap) - second.slope, 0.0)
    gap, error, mass = _posterior(rate, other)
    height = second.height + rate * np.exp(-second.gap) + other * second.gap + mass
    if height + membership(high, shared.columns) < plain + np.log(CLEAR):
        return None
    slope = (second.scores - first.scores) / (second.gap - first.gap)
    column = graph.centre(high.astype(float))
    base = second.gap * column + (gap - second.gap) * slope
    spread = gap**2 * float(np.mean(column**2))
    return Peaks(second.model, second.variances, gap, error, base, slope, spread)


def _sorted(model: Choices, high: Mask, bias: Array, least: float) -> tuple[Mask, float, float]:
    """Move candidates whose choices are more than e^least times as probable in the other peak; return the peaks (n,).

    Scores within a peak are taken as equal, and `bias` (M,) is γ of each set of choices. Also returns the number of
    choices between the peaks, and the number against the higher peak, which a candidate in the wrong peak would
    inflate.
    """
    ends = model.pattern.first, model.pattern.second

    def log_chance(d: Array) -> Array:
        shown = d - bias
        return np.asarray(model.weight * (model.p * shown + log_expit(-shown)))

    for number in range(ROUNDS):
        side = high[ends[0]].astype(float) - high[ends[1]]
        between = side != 0
        asked = float(np.sum(model.weight[between]))
        other = float(np.sum((model.weight * np.abs(model.p - (side > 0)))[between]))
        if other > RARE * asked and number:
            break
        gap = _posterior(asked, other)[0]
        now, gain = log_chance(gap * side), np.zeros(len(high))
        for end, sign in zip(ends, (1.0, -1.0), strict=True):
            moved = side + sign * (1.0 - 2.0 * high[end])
            gain += np.bincount(end, log_chance(gap * moved) - now, len(high))
        wrong = gain > least
        if not wrong.any():
            break
        high = high ^ wrong
    return high, asked, other


@dataclass(frozen=True)
class _Settled:
    """The model at a gap: its scores (n,), log Z (`height`) and the derivative of log Z by the gap (`slope`)."""

    model: Choices
    variances: Variances
    gap: float
    scores: Array
    height: float
    slope: float


def _settled(model: Choices, shared: Shared, graph: Graph, high: Mask, gap: float) -> _Settled | None:
    """The model refitted at this gap; None if it does not converge."""
    pattern = model.pattern
    side = high[pattern.first].astype(float) - high[pattern.second]
    moved = replace(model, offset=gap * side, pull=model.pull - model.c * (gap * side - model.offset))
    model, variances, converged = moved.settle(shared)
    if not converged:
        return None
    solution, spread, between = solve(model.system, variances, shared)
    mean, _ = differences(solution, spread, between)
    scores = graph.centre(solution.x[: graph.nodes] + gap * high)
    slope = float(side @ model.gradient(mean))
    return _Settled(model, variances, gap, scores, model.log_evidence(variances, shared), slope)


def split(graph: Graph, scores: Array) -> tuple[Mask, float, float]:
    """Which candidates are in the higher of two peaks (n,), the gap, and the share of the variance within the peaks.

    In a context of n candidates with centred scores, the higher peak has the t best. The squared error is least where
    2·(sum of the t best) − gap·t(n − t)/n is largest; t = 0 is one peak. Gap and t are found in turn.

    >>> from comparo.data.comparisons import Comparisons
    >>> graph = Graph.build(Comparisons.from_rows([("a", "b", 0.7), ("b", "c", 0.6), ("c", "d", 0.6)]))
    >>> high, gap, within = split(graph, np.array([3.0, -2.8, 3.2, -3.0]))
    >>> high, round(gap, 2), round(within, 3)
    (array([ True, False,  True, False]), 6.0, 0.001)
    """
    scores, begin = graph.centre(scores), graph.starts[:-1]
    context, sizes = graph.position, np.diff(graph.starts)
    order = np.lexsort((-merge_ties(scores), context))
    sums = np.cumsum(scores[order])
    best = sums - (sums - scores[order])[begin][context]
    rank, size = np.arange(1, graph.nodes + 1) - begin[context], sizes[context]
    total = float(np.sum(scores**2))
    gap, high = 2.0 * np.sqrt(total / graph.nodes), np.zeros(graph.nodes, dtype=bool)
    for _ in range(ROUNDS):
        value = 2.0 * best - gap * rank * (size - rank) / size
        most = np.maximum.reduceat(value, begin)
        taken = np.maximum.reduceat(np.where((value == most[context]) & (value > 0), rank, 0), begin)
        before, high = high, np.empty_like(high)
        high[order] = rank <= taken[context]
        column = graph.centre(high.astype(float))
        square = float(np.sum(column**2))
        if square == 0 or np.array_equal(high, before):
            break
        gap = float(np.sum(column * scores)) / square
    left = float(np.sum((scores - gap * column) ** 2))
    return high, gap, left / total if total > 0 else 1.0


def membership(high: Mask, columns: Array) -> float:
    """The log marginal probability of the peaks `high` (n,) given `columns` (n, M), by logistic regression.

    Coefficients have a prior N(0, v), v the best of `WEAK`, and are integrated out by Laplace's approximation. Without
    columns, or if these explain nothing, the model has an intercept only.

    >>> high = np.arange(40) % 2 == 0
    >>> [round(membership(high, columns), 1) for columns in (np.zeros((40, 0)), high[:, None] - 0.5)]
    [-28.9, -2.9]
    """
    n, sign = len(high), np.where(high, 1.0, -1.0)
    alike, wide = np.ones((n, 1)), np.column_stack([np.ones(n), columns])
    found = [_logistic(sign, wide, variance) for variance in WEAK if columns.shape[1]]
    return max([_logistic(sign, alike, WEAK[0]), *found])


def _logistic(sign: Array, columns: Array, variance: float) -> float:
    """The log marginal probability of `sign` (n,), with coefficients ~ N(0, variance)."""
    beta, identity = np.zeros(columns.shape[1]), np.eye(columns.shape[1])
    for _ in range(NEWTON):
        chance = expit(-sign * (columns @ beta))
        curvature = identity / variance + (columns * (chance * (1.0 - chance))[:, None]).T @ columns
        step = np.linalg.solve(curvature, columns.T @ (sign * chance) - beta / variance)
        beta = beta + step * min(1.0, 2.0 / max(np.max(np.abs(columns @ step)), 1e-9))
        if np.max(np.abs(step)) < NEAR:
            break
    height = float(np.sum(log_expit(sign * (columns @ beta))) - 0.5 * (beta @ beta) / variance)
    return height - 0.5 * float(np.linalg.slogdet(variance * curvature).logabsdet)


def _posterior(rate: float, other: float) -> tuple[float, float, float]:
    """Posterior mean and standard deviation of the gap if log Z = −rate·e^−g − other·g, and log ∫ Z·prior dg."""
    height = -rate * np.exp(-GRID) - other * GRID - 0.5 * (GRID / GAP) ** 2
    mass = float(logsumexp(height))
    share = np.exp(height - mass)
    mean = float(share @ GRID)
    width = (GRID[1] - GRID[0]) * 2.0 / (GAP * np.sqrt(2.0 * np.pi))
    return mean, float(np.sqrt(share @ (GRID - mean) ** 2)), mass + float(np.log(width))
