"""The graph of the comparisons, and the order in which they fill the curvature H.

Nodes are the candidates (an item in a context), edges the comparisons. Nodes of one context are adjacent, contexts of
equal size are adjacent (small ones first), and so are the nodes of one connected component: arrays of many contexts are
obtained by a reshape, and H of all contexts of one size (`ContextBatch`) is one array of dense matrices.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from comparo.data.comparisons import Comparisons
from comparo.model.tuning import LIMITS, Limits
from comparo.types import Array, Index, LongIndex, Mask


@dataclass(frozen=True, slots=True)
class Graph:
    """n nodes in C contexts, and the nodes of K comparisons.

    `item` and `context` (n,) are codes into the comparisons' labels; `starts` (C + 1,) is where each context's nodes
    begin; `component` (n,) numbers the connected components from 0 in node order; `first` and `second` (K,) are the
    nodes of each comparison, in the comparisons' own order.

    >>> graph = Graph.build(Comparisons.from_rows([("a", "b", 0.7), ("c", "d", 0.4)]))
    >>> graph.component.tolist()
    [0, 0, 1, 1]
    """

    item: Index
    context: Index
    starts: LongIndex
    component: Index
    first: Index
    second: Index

    @classmethod
    def build(cls, comparisons: Comparisons) -> Graph:
        """The graph of `comparisons`, one node for each item of each context."""
        items = len(comparisons.items)
        if comparisons.context is None:
            first, second = comparisons.first, comparisons.second
            item = np.arange(items, dtype=np.int32)
            context = np.zeros(items, dtype=np.int32)
        else:
            base = comparisons.context.astype(np.int64) * items
            keys = np.concatenate([base + comparisons.first, base + comparisons.second])
            present, inverse = np.unique(keys, return_inverse=True)
            first, second = np.split(inverse.astype(np.int32), 2)
            context, item = (part.astype(np.int32) for part in np.divmod(present, items))
        counts = slice(None) if comparisons.weight is None else comparisons.weight > 0
        component = _components(first[counts], second[counts], len(item))
        sizes = np.bincount(context)
        order = np.lexsort((component, context, sizes[context])).astype(np.int32)
        if np.any(np.diff(order) != 1):
            position = np.empty_like(order)
            position[order] = np.arange(len(order), dtype=np.int32)
            first, second = position[first], position[second]
            item, context, component = item[order], context[order], component[order]
        starts = np.concatenate([[0], np.flatnonzero(np.diff(context)) + 1, [len(item)]])
        number = np.concatenate([[0], np.cumsum(np.diff(component) != 0)]).astype(np.int32)
        return cls(item, context, starts, number, first, second)

    @property
    def nodes(self) -> int:
        return len(self.item)

    @property
    def contexts(self) -> int:
        return len(self.starts) - 1

    @property
    def components(self) -> int:
        return int(self.component[-1]) + 1

    @property
    def position(self) -> Index:
        """The position of each node's context among the contexts, shape (n,)."""
        return np.repeat(np.arange(self.contexts, dtype=np.int32), np.diff(self.starts))

    def is_connected_by(self, rows: Mask) -> bool:
        """Whether the comparisons in `rows` (K,) connect as many nodes as all do."""
        return int(np.max(_components(self.first[rows], self.second[rows], self.nodes))) + 1 == self.components

    def whole(self) -> Graph:
        """The graph with each context as one component, for candidates that a prior connects."""
        return replace(self, component=self.position)

    @property
    def component_in_context(self) -> Index:
        """The connected component of each node, numbered from 1 in its context."""
        first_of_context = self.component[self.starts[:-1]]
        return self.component - np.repeat(first_of_context, np.diff(self.starts)) + 1

    def labels(self, comparisons: Comparisons) -> list[tuple[Any, Any]]:
        """The pair (context, item) of each node; the context is None where there are no contexts."""
        contexts = comparisons.contexts
        named = [None] * self.nodes if contexts is None else contexts[self.context].tolist()
        return list(zip(named, comparisons.items[self.item].tolist(), strict=True))

    def all_pairs(self) -> tuple[Index, Index]:
        """The first and second node of every pair of nodes of one context."""
        ends = itertools.pairwise(self.starts.tolist())
        parts = [np.add(np.triu_indices(end - start, 1), start) for start, end in ends]
        first, second = np.concatenate(parts, axis=1).astype(np.int32)
        return first, second

    def degrees(self) -> LongIndex:
        """The number of comparisons of each node, shape (n,)."""
        n = self.nodes
        return np.bincount(self.first, minlength=n) + np.bincount(self.second, minlength=n)

    def centre(self, values: Array) -> Array:
        """`values` (n,) or (n, q) minus their mean in each component."""
        if self.components == 1:
            return np.asarray(values - np.mean(values, axis=0))
        return self.balance(values, np.ones(self.nodes))

    def balance(self, values: Array, weight: Array) -> Array:
        """`values` (n,) or (n, q) minus the multiple of `weight` (n,) that makes their sum 0 in each component."""
        starts = np.flatnonzero(np.diff(self.component, prepend=-1))
        sums = np.add.reduceat(values, starts, axis=0)
        factor = (sums.T / np.add.reduceat(weight, starts)).T[self.component]
        return values - (factor.T * weight).T


def _components(first: Index, second: Index, nodes: int) -> Index:
    """The connected component of each node; if there are many comparisons, a sample of them is tried first."""
    stride = max(1, len(first) // (8 * nodes))
    for step in dict.fromkeys((stride, 1)):
        sample = (np.ones(len(first[::step]), dtype=np.int8), (first[::step], second[::step]))
        count, label = connected_components(sparse.coo_array(sample, shape=(nodes, nodes)), directed=False)
        if count == 1:
            break
    return np.asarray(label, dtype=np.int32)


@dataclass(frozen=True)
class ContextBatch:
    """Contexts [begin, end) of `size` items each; their nodes and sorted comparisons are contiguous."""

    begin: int
    end: int
    size: int
    nodes: slice
    rows: slice


class Pattern:
    """The sorted comparisons, how they fill H, and the limits of all computations with it.

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
    def bias_index(self) -> LongIndex:
        """The index of each comparison's bias among the unknowns, shape (K,)."""
        assert self.judge is not None
        return self.graph.nodes + self.context[self.first].astype(np.int64) * self.judges + self.judge

    @cached_property
    def border(self) -> tuple[LongIndex, LongIndex]:
        """Where each comparison lies in the flattened (n, J) matrix of nodes and judges, by first and second node."""
        assert self.judge is not None
        first, second = (node.astype(np.int64) * self.judges for node in (self.first, self.second))
        return first + self.judge, second + self.judge

    @cached_property
    def batches(self) -> tuple[ContextBatch, ...]:
        """Runs of contexts of equal size, each of one context or of at most `Limits.batch_entries` matrix entries."""
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
                batches.append(ContextBatch(begin, end, size, nodes, rows))
        return tuple(batches)

    @cached_property
    def entries(self) -> LongIndex:
        """Where each comparison lies in the flattened (B, m, m) matrices of its batch, (K,)."""
        context, starts = self.context[self.first], self.graph.starts
        begin = np.concatenate([np.full(batch.end - batch.begin, batch.begin) for batch in self.batches])
        width = np.diff(starts)[context] + self.judges
        row = (context - begin[context]) * width + self.first - starts[context]
        return np.asarray(row * width + self.second - starts[context])

    def is_batched(self, batch: ContextBatch) -> bool:
        """Whether the contexts of `batch` are solved as dense matrices."""
        return batch.size + self.judges <= self.limits.batched

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
            # In a CSC matrix whose columns are the first nodes, the row sums are the sums by second node.
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
        """Whether the covariances within all contexts have at most `Limits.kept_entries` entries."""
        return sum(batch.size**2 * (batch.end - batch.begin) for batch in self.batches) <= self.limits.kept_entries

    def centre(self, x: Array) -> Array:
        """x with its scores centred in each component and its biases unchanged."""
        n = self.graph.nodes
        return np.concatenate([self.graph.centre(x[:n]), x[n:]])

    def centring(self, batch: ContextBatch) -> Array:
        """The matrices (B, size, size) that centre the scores of each context of `batch` in components."""
        component = self.graph.component[batch.nodes].reshape(-1, batch.size)
        same = (component[:, :, None] == component[:, None, :]).astype(float)
        return np.asarray(np.eye(batch.size) - same / np.sum(same, axis=2, keepdims=True))

    def centred(self, batch: ContextBatch, blocks: Array) -> Array:
        """The covariances (B, size, size) of scores in the contexts of `batch`, for scores centred in components."""
        centre = self.centring(batch)
        return centre @ blocks @ centre


def _counting_sort(key: Index, values: int) -> tuple[Index, Index]:
    """The stable sorting order of `key` (K,), integers below `values`, and the start of each value in that order."""
    # A CSC matrix with one entry per column, in row `key`; its conversion to CSR sorts the columns by `key`.
    column = (np.ones(len(key), dtype=np.int8), key, np.arange(len(key) + 1, dtype=np.int32))
    by_row = sparse.csc_array(column, shape=(values, len(key))).tocsr()
    return by_row.indices, by_row.indptr
