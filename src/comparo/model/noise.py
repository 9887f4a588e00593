"""How the noise of answers depends on a size that is known without them, such as the contrast of two texts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from comparo.data.comparisons import Comparisons
from comparo.model.linalg.graph import Graph
from comparo.model.linalg.pattern import Pattern
from comparo.model.linalg.spectrum import System
from comparo.model.observations import logits, observe
from comparo.model.tuning import LIMITS, Limits
from comparo.types import Array

WEAK = 1e-6  # ridge of least squares, relative to the weight of an observation


def power(squares: Array, size: Array, freedom: float, powers: Array, usual: float, sure: float) -> float:
    """The most probable a of `powers` if the variance of comparisons is φ·size^−a, with the prior `usual` ± `sure`.

    `squares` (M,) are squared residuals divided by the variance that follows from weight and curvature, from a fit with
    equal weights, and `freedom` its degrees of freedom. With the best φ, a maximises

        ½·freedom·(mean a·log size − log Σ squares·size^a) − ½ ((a − usual)/sure)².

    >>> size, powers = np.tile([1.0, 0.1], 200), np.linspace(0.0, 3.0, 31)
    >>> power(np.ones(400), size, 400.0, powers, 1.0, 1.0), power(1 / size**2, size, 400.0, powers, 1.0, 1.0)
    (0.0, 2.0)
    """
    total = np.array([float(np.sum(squares * size**a)) for a in powers])
    fits = powers * float(np.mean(np.log(size))) - np.log(np.maximum(total, np.finfo(float).tiny))
    return float(powers[np.argmax(0.5 * freedom * fits - 0.5 * ((powers - usual) / sure) ** 2)])


def residuals(comparisons: Comparisons, limits: Limits = LIMITS) -> tuple[NDArray[np.intp], Array, float]:
    """Squared residuals of soft answers, as `power` takes them, from least squares on their logits.

    Returns a row of the comparisons for each of M observations (both orders of a pair are one), weight·residual² (M,),
    and the degrees of freedom.

    >>> row, squares, freedom = residuals(Comparisons.from_rows([("a", "b", 0.8), ("b", "a", 0.4)]))
    >>> row, squares.round(6), freedom
    (array([0]), array([0.]), 0.0)
    """
    graph = Graph.build(comparisons)
    found = observe(comparisons, graph, *logits(comparisons.p))
    shift = np.zeros(found.sums.shape[1] + 1)
    y = found.y
    for _ in range(2):  # once for scores without γ, once for scores with γ of each judge
        pattern = Pattern(replace(graph, first=found.first, second=found.second), limits=limits)
        order = pattern.order
        c = found.weight[order]
        system = System(pattern, c, c * (y + shift[found.judge])[order], np.zeros(0), np.zeros(0))
        x = system.solve(WEAK * float(np.mean(c)), np.zeros(graph.nodes))
        left = y - x[found.first] + x[found.second]
        for judge in range(len(shift) - 1):
            own = found.judge == judge
            if own.any():
                shift[judge] = -np.average(left[own], weights=found.weight[own])
    squares = found.weight * (left + shift[found.judge]) ** 2
    return found.row, squares, float(max(len(squares) - (graph.nodes - graph.components), 0))
