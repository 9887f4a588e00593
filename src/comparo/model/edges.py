"""The variance of the difference that every comparison is about."""

from __future__ import annotations

import numpy as np

from comparo.model.laplacian import Laplacian
from comparo.types import Array

STEPS = 8  # each takes in the items one comparison further away; measured: the eighth changes a variance by under 1%


def difference_variances(laplacian: Laplacian) -> Array:
    """R = xᵀH⁻¹x of every row x of X (M,), in the pattern's order.

    Exact in contexts of up to `Limits.spectral` items. Above, that of a graph without short cycles: with the precision
    of what the other comparisons say of an item, P_i − m_ji, a comparison of precision c says of it
    m_ij = 1/(1/c + 1/(P_j − m_ij)) through its opponent j, and R = 1/(c + 1/(1/(P_i − m_ji) + 1/(P_j − m_ij))).

    >>> from comparo.data.comparisons import Comparisons
    >>> from comparo.model.graph import Graph
    >>> from comparo.model.pattern import Pattern
    >>> pattern = Pattern(Graph.build(Comparisons.from_rows([("a", "b", 0.7)])))
    >>> difference_variances(Laplacian(pattern, np.ones(1), np.ones(2)))
    array([0.66666667])
    """
    pattern = laplacian.pattern
    found = np.zeros(len(pattern.order))
    for batch in pattern.batches:
        if batch.size > pattern.limits.spectral:
            rows = slice(batch.rows.start, None)
            found[rows] = _on_a_tree(laplacian)[rows]
            break
        size, width = batch.size, batch.size + pattern.judges
        inverse = np.linalg.inv(laplacian.dense(batch))
        first, second = pattern.first[batch.rows], pattern.second[batch.rows]
        which = pattern.context[first] - batch.begin
        start = pattern.graph.starts[pattern.context[first]]
        ends = [(first - start, 1.0), (second - start, -1.0)]
        if pattern.judge is not None:
            ends.append((size + pattern.judge[batch.rows], -1.0))
        assert inverse.shape[-1] == width
        for i, sign in ends:
            for j, other in ends:
                found[batch.rows] += sign * other * inverse[which, i, j]
    return found


def _on_a_tree(laplacian: Laplacian) -> Array:
    pattern, n = laplacian.pattern, laplacian.pattern.graph.nodes
    first, second, c = pattern.first, pattern.second, np.maximum(laplacian.c, np.finfo(float).tiny)
    to_first, to_second = c.copy(), c.copy()
    for _ in range(STEPS):
        total = laplacian.ridge[:n] + np.bincount(first, to_first, n) + np.bincount(second, to_second, n)
        without_first = np.maximum(total[first] - to_first, np.finfo(float).tiny)
        without_second = np.maximum(total[second] - to_second, np.finfo(float).tiny)
        to_first, to_second = 1.0 / (1.0 / c + 1.0 / without_second), 1.0 / (1.0 / c + 1.0 / without_first)
    return np.asarray(1.0 / (c + 1.0 / (1.0 / without_first + 1.0 / without_second)))
