"""What is known of candidates besides comparisons: groups, features, and numbers to hold equal, by their labels."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from comparo.data.comparisons import Comparisons
from comparo.model.control import Control
from comparo.model.graph import Graph
from comparo.ranking.grouping import entry, group_codes
from comparo.types import Array, Index

Held = Mapping[str, Mapping[Any, float | str]]
DOUBLING = "twice"  # the step of a length: its numbers are logarithms to the base 2


def named_traits(
    comparisons: Comparisons,
    groups: Mapping[Any, Hashable] | Literal["items"] | None,
    features: Mapping[Any, Sequence[float]] | None,
) -> tuple[tuple[Index, NDArray[Any]] | None, Array | None]:
    """The number of each candidate's group (n,) with the names of groups, and its features (n, D).

    Both are given by its item, or by its context and item.
    """
    graph = Graph.build(comparisons)
    named = None if groups is None else group_codes(comparisons, graph, groups)
    if features is None:
        return named, None
    values = [tuple(entry("features", features, label)) for label in graph.labels(comparisons)]
    if len(set(map(len, values))) > 1:
        raise ValueError("features are of different lengths; give every item as many numbers")
    rows = np.array(values, dtype=np.float64)
    if not np.isfinite(rows).all():
        raise ValueError("features hold something that is not a finite number; give every item numbers")
    return named, rows


def control_of(comparisons: Comparisons, control: Held) -> Control:
    """The numbers that are held equal, for each candidate, by its item or by its context and item.

    Texts count by their length, log₂ of the number of characters, so that one step is twice the length. Characters need
    no rule of what a word is, in any language. A step of other numbers is their standard deviation within contexts.

    >>> data = Comparisons.from_rows([("a", "b", 1), ("b", "c", 1)])
    >>> found = control_of(data, {"length": {"a": "x", "b": "xx", "c": "xxxx"}, "price": {"a": 1, "b": 2, "c": 3}})
    >>> found.values.T.round(2), found.unit
    (array([[0.  , 1.  , 2.  ], [1.22, 2.45, 3.67]]), ('twice', '0.816'))
    """
    if not isinstance(control, Mapping) or not control or not all(isinstance(x, Mapping) for x in control.values()):
        raise TypeError("control maps a name to a mapping from item to number or text, as {'length': {'ana': 'A …'}}")
    graph = Graph.build(comparisons)
    labels = graph.labels(comparisons)
    columns, unit = [], []
    for name, of_item in control.items():
        found = [entry(f"control {name!r}", of_item, label) for label in labels]
        if all(isinstance(value, str) for value in found):
            columns.append(np.log2([max(len(text), 1) for text in found]))
            unit.append(DOUBLING)
            continue
        try:
            values = np.array(found, dtype=np.float64)
        except (TypeError, ValueError):
            values = np.full(len(found), np.nan)
        if not np.isfinite(values).all():
            bad = labels[int(np.argmin(np.isfinite(values)))]
            raise ValueError(f"control {name!r} of item {bad[1]!r} is not a number; give every item one")
        step = float(np.sqrt(np.mean(graph.centre(values) ** 2)))
        columns.append(values / step if step > 0 else values)
        unit.append(f"{step:.3g}")
    return Control(tuple(map(str, control)), np.column_stack(columns), tuple(unit))
