"""The graph of the comparisons: its nodes are the candidates (an item in a context), its edges the comparisons.

Nodes of one context are adjacent, contexts of equal size are adjacent (small ones first), and so are the nodes of one
connected component, so that arrays of many contexts are obtained by a reshape.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from comparo.data.comparisons import Comparisons
from comparo.types import Index


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
    starts: NDArray[np.int64]
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

    def only(self, rows: NDArray[np.bool_]) -> Graph | None:
        """The graph of the comparisons in `rows` (K,), with all nodes; None where these connect fewer of them."""
        first, second = self.first[rows], self.second[rows]
        connected = int(np.max(_components(first, second, self.nodes), initial=-1)) + 1 == self.components
        return replace(self, first=first, second=second) if connected else None

    def whole(self) -> Graph:
        """The graph whose contexts are connected, for candidates that something else than comparisons connects."""
        return replace(self, component=self.position)

    def labels(self, comparisons: Comparisons) -> list[tuple[Any, Any]]:
        """The pair (context, item) of each node; the context is None where there are no contexts."""
        contexts = comparisons.contexts
        named = [None] * self.nodes if contexts is None else contexts[self.context].tolist()
        return list(zip(named, comparisons.items[self.item].tolist(), strict=True))

    def degrees(self) -> NDArray[np.int64]:
        """How many comparisons each node is in, shape (n,)."""
        n = self.nodes
        return np.bincount(self.first, minlength=n) + np.bincount(self.second, minlength=n)

    def centre(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """`values` (n,) or (n, q) minus their mean in each component."""
        if self.components == 1:
            return np.asarray(values - np.mean(values, axis=0))
        starts = np.flatnonzero(np.diff(self.component, prepend=-1))
        sums = np.add.reduceat(values, starts, axis=0)
        means = sums / np.diff(starts, append=self.nodes).reshape(-1, *[1] * (values.ndim - 1))
        return values - means[self.component]

    def balance(self, values: NDArray[np.float64], weight: NDArray[np.float64]) -> NDArray[np.float64]:
        """`values` (n,) or (n, q) minus a multiple of `weight` (n,) in each component, so that their sum in it is 0."""
        starts = np.flatnonzero(np.diff(self.component, prepend=-1))
        sums = np.add.reduceat(values, starts, axis=0)
        factor = (sums.T / np.add.reduceat(weight, starts)).T[self.component]
        return np.asarray(values - (factor.T * weight).T)


def _components(first: Index, second: Index, nodes: int) -> NDArray[np.int32]:
    """The connected component of each node; if there are many comparisons, a sample of them is tried first."""
    stride = max(1, len(first) // (8 * nodes))
    for step in dict.fromkeys((stride, 1)):
        sample = (np.ones(len(first[::step]), dtype=np.int8), (first[::step], second[::step]))
        count, label = connected_components(sparse.coo_array(sample, shape=(nodes, nodes)), directed=False)
        if count == 1:
            break
    return np.asarray(label, dtype=np.int32)
