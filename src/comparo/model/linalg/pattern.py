"""What does not change while scores do: the comparisons in the order in which the curvature H is filled.

Contexts of equal size lie together (`Batch`), so that H of all of them is one array of dense matrices.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from comparo.model.linalg.graph import Graph
from comparo.model.tuning import LIMITS, Limits
from comparo.types import Array, Index


@dataclass(frozen=True)
class Batch:
    """Contexts [begin, end) of `size` items each; their nodes and sorted comparisons are contiguous."""

    begin: int
    end: int
    size: int
    nodes: slice
    rows: slice


class Pattern:
    """The sorted comparisons, how they fill H, and the limits of what is computed from it.

    `order` (K,) sorts the comparisons by their first node, except that in contexts too large for the cache they are
    sorted by panels of second nodes and then by the first; `first`, `second` and `judge` are in that order. There are
    `unknowns` = n + C·J: the scores, then the bias of each context and judge (J = 0 where no bias is estimated).
    """

    def __init__(self, graph: Graph, judge: Index | None = None, limits: Limits = LIMITS) -> None:
        self.graph = graph
        self.limits = limits
        self.order, self.row_starts = _counting_sort(graph.first, graph.nodes)
        large = int(graph.starts[np.searchsorted(np.diff(graph.starts), limits.exact, side="right")])
        self.panelled = graph.nodes - large > 4 * limits.panel
        if self.panelled:
            rows = self.order[self.row_starts[large] :]
            panel = (graph.second[rows] - large) // limits.panel
            self.order[self.row_starts[large] :] = rows[_counting_sort(panel, int(panel.max()) + 1)[0]]
        nodes = np.arange(graph.nodes, dtype=np.int32)
        self.first: Index = graph.first[self.order] if self.panelled else np.repeat(nodes, np.diff(self.row_starts))
        self.second: Index = graph.second[self.order]
        self.judge = None if judge is None else judge[self.order]
        self.judges = 0 if judge is None else int(judge.max()) + 1
        self.unknowns = graph.nodes + graph.contexts * self.judges

    @cached_property
    def context(self) -> Index:
        """The position of each unknown's context among the graph's contexts, shape (n + C·J,)."""
        biases = np.repeat(np.arange(self.graph.contexts, dtype=np.int32), self.judges)
        return np.concatenate([self.graph.position, biases])

    @cached_property
    def bias_index(self) -> NDArray[np.int64]:
        """The unknown that is the bias of each comparison, shape (K,)."""
        assert self.judge is not None
        return self.graph.nodes + self.context[self.first].astype(np.int64) * self.judges + self.judge

    @cached_property
    def batches(self) -> tuple[Batch, ...]:
        """Runs of contexts of equal size, none of more matrix entries than the limit except single contexts."""
        sizes = np.diff(self.graph.starts)
        edges = [0, *(np.flatnonzero(np.diff(sizes)) + 1).tolist(), len(sizes)]
        batches = []
        for run_begin, run_end in itertools.pairwise(edges):
            size = int(sizes[run_begin])
            step = max(1, self.limits.batch_entries // (size + self.judges) ** 2)
            for begin in range(run_begin, run_end, step):
                end = min(begin + step, run_end)
                nodes = slice(int(self.graph.starts[begin]), int(self.graph.starts[end]))
                rows = slice(int(self.row_starts[nodes.start]), int(self.row_starts[nodes.stop]))
                batches.append(Batch(begin, end, size, nodes, rows))
        return tuple(batches)

    @cached_property
    def _entries(self) -> dict[int, NDArray[np.int64]]:
        return {batch.begin: self._entry(batch) for batch in self.batches if self.is_batched(batch)}

    def entries(self, batch: Batch) -> NDArray[np.int64]:
        """Where each comparison of `batch` lies in its flattened (B, m, m) matrices."""
        return self._entries[batch.begin] if self.is_batched(batch) else self._entry(batch)

    def is_batched(self, batch: Batch) -> bool:
        """Whether the contexts of `batch` are solved as dense matrices."""
        return batch.size + self.judges <= self.limits.batched

    def _entry(self, batch: Batch) -> NDArray[np.int64]:
        width = batch.size + self.judges
        first = self.first[batch.rows].astype(np.int64)
        which = self.context[first] - batch.begin
        start = self.graph.starts[self.context[first]]
        return (which * width + first - start) * width + self.second[batch.rows] - start

    def ends(self, values: Array) -> tuple[Array, Array]:
        """Sums of `values` (K,) over the comparisons in which each unknown is the first, and the second: (n + C·J,)."""
        first, second = np.zeros((2, self.unknowns))
        nodes = self.graph.nodes
        if self.panelled:
            first[:nodes] = np.bincount(self.first, values, nodes)
            second[:nodes] = np.bincount(self.second, values, nodes)
        else:
            filled = np.flatnonzero(np.diff(self.row_starts))
            first[filled] = np.add.reduceat(values, self.row_starts[filled])
            # As a matrix in compressed columns, with the first as column, its row sums are the sums by the second.
            columns = sparse.csc_array((values, self.second, self.row_starts), shape=(nodes, nodes))
            second[:nodes] = np.asarray(columns @ np.ones(nodes))
        return first, second

    def gather(self, values: Array) -> Array:
        """Xᵀ·values, shape (n + C·J,)."""
        first, second = self.ends(values)
        if self.judges:
            second += np.bincount(self.bias_index, values, self.unknowns)
        return first - second

    @property
    def may_keep(self) -> bool:
        """Whether the covariances within all contexts are few enough to be kept."""
        return sum(batch.size**2 * (batch.end - batch.begin) for batch in self.batches) <= self.limits.kept_entries

    def centre(self, x: Array) -> Array:
        """x with its scores centred in each component; its biases as they are."""
        n = self.graph.nodes
        return np.concatenate([self.graph.centre(x[:n]), x[n:]])

    def centred(self, batch: Batch, blocks: Array) -> Array:
        """The covariances (B, size, size) of scores in the contexts of `batch`, for scores centred in components."""
        component = self.graph.component[batch.nodes].reshape(-1, batch.size)
        same = (component[:, :, None] == component[:, None, :]).astype(float)
        centre = np.eye(batch.size) - same / np.sum(same, axis=2, keepdims=True)
        return np.asarray(centre @ blocks @ centre)


def _counting_sort(key: Index, values: int) -> tuple[Index, Index]:
    """The stable order of `key` (K,), whole numbers below `values`, and where each value begins in it."""
    # Each entry of `key` is the row of the only entry of a column; turned into rows, the columns come out sorted.
    column = (np.ones(len(key), dtype=np.int8), key, np.arange(len(key) + 1, dtype=np.int32))
    by_row = sparse.csc_array(column, shape=(values, len(key))).tocsr()
    return by_row.indices, by_row.indptr
