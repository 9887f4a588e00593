"""Whether answers show that the texts differ at all.

Answers with as much noise as they have say more or less about an order; a few answers of pure noise may agree by chance
and look like a sure order. How much more probable answers are if scores differ than if they do not,

    B = ∫ L(a) π(a) da / L(0),    L(a) = Π (1 + a·q)^−½ · Q(a)^−K/2,    Q(a) = Σ c·y² − a Σ β²/(1 + a·q),

does not suffer from looking often: of pure noise, B ever reaches a number x in at most 1/x of all cases, whenever one
looks (Ville's inequality), because its expectation stays 1. a = σ²/φ is the variance of scores relative to the noise of
one answer, and q, β and c are those of the comparison graph (`comparo.model.spectrum`), of all contexts together. The
prior π of √a is Cauchy's distribution above 0 with the scale 1. The answers y are logits; for choices (decisions,
votes, grades) they are p itself, because logits of 0 and 1 are infinite. φ may be anything.
"""

from __future__ import annotations

import numpy as np

from comparo.data.comparisons import Comparisons
from comparo.model.experts import BradleyTerry, Gaussian
from comparo.model.graph import Graph
from comparo.model.limits import LIMITS, Limits
from comparo.model.observations import are_choices
from comparo.model.soft import Soft
from comparo.model.spectrum import Spectrum

SURE = 20.0  # B from which texts are taken to differ: of pure noise, at most 1 run in 20 ever gets there
POINTS = 64  # quantiles of the prior over which L is averaged; 1000 change log B of the example below by under 0.01


def log_evidence(comparisons: Comparisons, limits: Limits = LIMITS) -> float:
    """Return log B, how much more probable the answers are if scores differ than if they do not.

    Parameters
    ----------
    comparisons
        Of any number of contexts, which share the ratio a.
    limits
        Sizes at which the way of solving changes.

    Returns
    -------
    float
        Above log 20 ≈ 3.0 an order is certain enough to be reckoned with; below 0 it is less probable than none.

    Examples
    --------
    >>> chain = [("a", "b", 0.8), ("b", "c", 0.7), ("c", "d", 0.75), ("a", "d", 0.97)]
    >>> order, ring = [("a", "c", 0.92), ("b", "d", 0.9)], [("c", "a", 0.92), ("d", "b", 0.9)]
    >>> [round(log_evidence(Comparisons.from_rows(chain + rows)), 1) for rows in (order, ring)]
    [1.6, -1.2]
    """
    graph = Graph.build(comparisons)
    expert = Gaussian() if are_choices(comparisons) else BradleyTerry()
    model = Soft.of(comparisons, graph, expert, True, limits)
    spectrum = Spectrum.of(model.system, np.zeros((graph.nodes, 0)))
    a = np.concatenate([[0.0], np.tan(np.pi / 2 * (np.arange(POINTS) + 0.5) / POINTS) ** 2])[:, None]
    rest = spectrum.square - np.sum(a * spectrum.beta**2 / (1.0 + a * spectrum.q), axis=1)
    rest = np.log(np.maximum(rest, np.finfo(float).tiny))
    height = -0.5 * (np.log1p(a * spectrum.trace_q) @ spectrum.trace_weight + np.count_nonzero(model.c > 0) * rest)
    top = float(np.max(height))
    return top + float(np.log(np.mean(np.exp(height[1:] - top)))) - float(height[0])
