"""Traces of H⁻¹: how many degrees of freedom the scores take from the comparisons."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from comparo.model.laplacian import Laplacian
from comparo.model.pattern import Pattern
from comparo.types import Array


def traces(laplacian: Laplacian, c: Array) -> tuple[float, float]:
    """Return tr H⁻¹ over the centred scores, and Σ c·R over the comparisons, R the variance of their difference.

    The latter is tr XᵀcX·H⁻¹. In contexts too large for dense matrices both are estimated by random vectors.
    """
    pattern, trace, leverage = laplacian.pattern, 0.0, 0.0
    weighted = Laplacian(pattern, c, np.zeros(pattern.unknowns))
    items = np.bincount(pattern.graph.component)[pattern.graph.component]
    for batch in pattern.batches:
        if not pattern.is_batched(batch):
            tail, nodes, columns = weighted.tail, pattern.graph.nodes, pattern.limits.trace_probes
            probes = np.zeros((pattern.unknowns, columns))
            probes[tail.unknowns] = tail.signs(columns)
            probes = pattern.centre(probes)
            found = laplacian.solve(probes, accuracy=1e-2)
            trace += float(np.sum(probes[:nodes] * found[:nodes])) / columns
            leverage += float(np.sum(found[tail.unknowns] * tail.multiply(probes[tail.unknowns]))) / columns
            break
        inverse, matrix, size = np.linalg.inv(laplacian.dense(batch)), weighted.dense(batch), batch.size
        matrix[:, :size, :size] -= weighted.constants(batch)
        leverage += float(np.sum(inverse * matrix))
        together = (laplacian.constants(batch) > 0) / items[batch.nodes].reshape(-1, size, 1)
        trace += float(np.sum(inverse[:, :size, :size] * (np.eye(size) - together)))
    return trace, leverage


def shared_leverage(pattern: Pattern, c: Array, spread: Array, between: Array) -> float:
    """Return what the uncertainty of θ, F S⁻¹ Fᵀ with F = `spread` and S⁻¹ = `between`, adds to Σ c·R."""
    if not spread.shape[1]:
        return 0.0
    rows = np.arange(len(c))
    ends = [(pattern.first, 1.0), (pattern.second, -1.0), *([(pattern.bias_index, -1.0)] if pattern.judges else [])]
    columns = np.concatenate([end for end, _ in ends])
    values = np.repeat([sign for _, sign in ends], len(c))
    design = sparse.csr_array((values, (np.tile(rows, len(ends)), columns)), shape=(len(c), pattern.unknowns))
    image = design.T @ (sparse.diags_array(c) @ design) @ spread
    return float(np.sum(between * (spread.T @ image)))
