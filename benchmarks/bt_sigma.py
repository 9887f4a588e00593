"""BT-σ (Qian, Sun, Gales and Knill 2026) is Bradley–Terry with a discrimination per judge:

    P(judge r prefers i to j) = σ(a_r·(s_i − s_j)),        a_r = 1/σ_r,

the panel without tastes, position biases and noise beyond Bradley–Terry's. Scores and discriminations maximise the
likelihood with a wide prior on the scores, in turn: given the a, the scores are one Newton problem on the comparison
graph; given the scores, each a is a number. a may be negative, for a judge that ranks the other way round. The scale is
that of the mean judge: mean |a_r| = 1.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from comparo.data.comparisons import Comparisons
from comparo.model.linalg.graph import Graph, Pattern
from comparo.model.linalg.laplacian import Laplacian
from comparo.model.posterior import Posterior
from comparo.model.solution import Solution
from comparo.model.tuning import WIDE
from comparo.types import Array

ROUNDS = 200  # measured: 6 to 40 for two to ten judges
SURE = 1e-6  # change of a score that ends them, far below any standard error
LARGEST = 50.0  # of a discrimination: a judge without noise would have an infinite one


@dataclass(frozen=True, eq=False)
class Sigma(Solution):
    """Scores with the discrimination a of each judge, (J,)."""

    discrimination: Array | None = None


def bt_sigma(comparisons: Comparisons, prior: float = WIDE) -> Sigma:
    """The maximum, with a Gaussian prior of standard deviation `prior` on the scores.

    >>> rows = [("a", "b", 0.9, "ana"), ("b", "c", 0.8, "ana"), ("a", "b", 0.55, "bo"), ("b", "c", 0.55, "bo")]
    >>> columns = dict(zip(("first", "second", "p", "judge"), zip(*rows)))
    >>> found = bt_sigma(Comparisons.from_columns(**columns), 10.0)
    >>> found.discrimination.round(1)
    array([1.8, 0.2])
    """
    graph = Graph.build(comparisons)
    pattern = Pattern(graph)
    order = pattern.order
    p, weight, judge = comparisons.p[order], comparisons.weights[order], comparisons.judged_by[order]
    judges = int(judge.max()) + 1
    asked = np.bincount(judge) > 0  # a judge without comparisons has a = 1, and no part in the scale
    a, x, ridge = np.ones(judges), np.zeros(graph.nodes), np.full(graph.nodes, 1.0 / prior**2)

    def value(x: Array, a: Array) -> float:
        d = a[judge] * (x[pattern.first] - x[pattern.second])
        return float(np.sum(weight * (p * d - np.logaddexp(0.0, d))) - 0.5 * np.sum(ridge * x**2))

    converged = False
    for _ in range(ROUNDS):
        difference = x[pattern.first] - x[pattern.second]
        chance = expit(a[judge] * difference)
        laplacian = Laplacian(pattern, weight * a[judge] ** 2 * chance * (1.0 - chance), ridge)
        step = laplacian.solve(pattern.gather(weight * a[judge] * (p - chance)) - ridge * x)
        now, length = value(x, a), 1.0
        while value(x + length * step, a) < now - 1e-9 * abs(now) and length > 1e-4:
            length /= 2
        new = x + length * step
        difference = new[pattern.first] - new[pattern.second]
        chance = expit(a[judge] * difference)
        slope = np.bincount(judge, weight * (p - chance) * difference, judges)
        curvature = np.bincount(judge, weight * chance * (1.0 - chance) * difference**2, judges)
        a = np.clip(a + np.clip(slope / np.maximum(curvature, 1e-9), -1.0, 1.0), -LARGEST, LARGEST)
        a = np.where(asked, a / np.mean(np.abs(a[asked])), 1.0)
        moved, x = float(np.max(np.abs(new - x))), new
        if moved < SURE:
            converged = True
            break
    found = Posterior((laplacian,))
    return Sigma(comparisons, graph, graph.centre(x), found, converged, method="bt", discrimination=a)
