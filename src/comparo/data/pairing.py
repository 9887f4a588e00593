"""Two texts about each of many inputs: from two files with matching rows, or from two groups of one file.

The result are items with one context per input and two items in it, named after the two sides.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from comparo.data.columns import Table, is_missing, shown
from comparo.data.items import Items, identified
from comparo.data.sources import checked_texts, column_of_role, no_column, table_of
from comparo.errors import ComparisonsError, Message

TOPIC = "topic"  # the default column of clusters: inputs of one topic are not independent


@dataclass(frozen=True, eq=False)
class Paired:
    """The texts of two sides about the same inputs.

    `items` has two items in each context, the sides `one` and `other`; `same` are the inputs about which both sides
    have the same text, which are not among the items; `unmatched` are the inputs that only the one side has, and those
    that only the other has. `cluster` is what each input belongs to, such as its topic; None where inputs are
    independent.
    """

    one: str
    other: str
    items: Items | None
    same: tuple[Any, ...]
    unmatched: tuple[tuple[Any, ...], tuple[Any, ...]]
    cluster: Mapping[Any, Any] | None = None

    @property
    def inputs(self) -> list[Any]:
        """The inputs that both sides have."""
        return [*([] if self.items is None else self.items.contexts.tolist()), *self.same]

    def unit(self, key: Any) -> Any:
        """The cluster of an input; the input itself where inputs are independent."""
        return key if self.cluster is None else self.cluster[key]

    @property
    def units(self) -> int:
        """The number of clusters, or of inputs where these are independent."""
        return len(set(map(self.unit, self.inputs)))


def pair_files(
    one: str | os.PathLike[str] | Any,
    other: str | os.PathLike[str] | Any,
    names: tuple[str, str] | None = None,
    cluster: str | None = None,
    **columns: str | None,
) -> Paired:
    """The texts of two files, or other sources of rows, about the same inputs.

    Rows belong together by their `context_id`, else by their `id`, else by their number. `columns` name the columns
    id, text, context and context_id; the context is shown to the judge. `cluster` names the column of
    clusters, by default `topic`, which one of the files may lack.

    >>> found = pair_files({"q1": "Yes.", "q2": "No."}, {"q1": "Yes!", "q2": "No.", "q3": "Why?"})
    >>> found.items.contexts.tolist(), found.items.ids.tolist(), found.same, found.unmatched
    (['q1'], ['A', 'B'], ('q2',), ((), ('q3',)))
    """
    names = names or _names(one, other)
    tables = [table_of(source, header=cluster is not None or any(columns.values())) for source in (one, other)]
    sides = [_rows(table, columns) for table in tables]
    shared = [key for key in sides[0] if key in sides[1]]
    if not shared:
        left, right = (shown(next(iter(side))) for side in sides)
        raise ComparisonsError(
            f"{names[0]} and {names[1]} have no input in common: the first is {left} in one and {right} in the other; "
            "give both files a column id (or context_id) that names the input"
        )
    if cluster is not None and not any(cluster in table.columns for table in tables):
        raise no_column(tables[0], cluster, "cluster")
    clusters: dict[Any, Any] = {}
    for table, side in zip(tables[::-1], sides[::-1], strict=True):  # the first file overrides the second
        if (column := cluster or TOPIC) in table.columns:
            clusters |= _clusters(table, column, side)
    return _paired(names, sides, clusters)


def pair_groups(
    data: Any,
    one: str,
    other: str,
    group: str | None = None,
    cluster: str | None = None,
    **columns: Any,
) -> Paired:
    """The texts of two groups of some items, or of two ids where there are no groups, about the same contexts.

    >>> rows = [{"id": s, "text": f"{s} {c}", "context_id": c} for c in "xy" for s in ("old", "new", "own")]
    >>> pair_groups(Items.of(rows), "old", "new").items.texts
    ('old x', 'new x', 'old y', 'new y')
    """
    table = None if isinstance(data, Items) else table_of(data, header=True)
    items = Items.of(data if table is None else table, group=group, **columns)
    names = list(map(str, items.ids if items.group is None else items.group))
    found: list[dict[Any, tuple[str, str | None]]] = []
    for side in (one, other):
        if side not in names:
            known = ", ".join(list(dict.fromkeys(names))[:8])
            raise ComparisonsError(
                f"no text is of {side!r}; there are {known}. " + Message("Name its column by {group}")
            )
        texts: dict[Any, tuple[str, str | None]] = {}
        for row in (row for row, name in enumerate(names) if name == side):
            key = items.contexts[items.context[row]]
            if key in texts:
                problem = f"{side!r} has two texts in context {shown(key)}"
                raise ComparisonsError(f"{problem}; " + Message("name the inputs by {columns.context_id:'NAME'}"))
            texts[key] = items.texts[row], items.context_texts[items.context[row]]
        found.append(texts)
    if not found[0].keys() & found[1].keys():
        raise ComparisonsError(f"{one!r} and {other!r} are never in the same context; give both a text on each input")
    clusters: dict[Any, Any] = {}
    if table is not None and (column := column_of_role(table, TOPIC, cluster)):
        clusters = _clusters(table, column, items.contexts[items.context].tolist())
    elif cluster is not None:
        raise ComparisonsError(f"these items have no column {cluster!r}; give the file or the rows that have it")
    return _paired((one, other), found, clusters)


def _clusters(table: Table, column: str, inputs: Iterable[Any]) -> dict[Any, Any]:
    """The cluster of each input by the value of its row; a row without one is a cluster of its own."""
    pairs = zip(inputs, table.columns[column], strict=True)
    return {key: (key,) if is_missing(value) else str(value) for key, value in pairs}


def _paired(names: tuple[str, str], sides: Sequence[Mapping[Any, Any]], clusters: Mapping[Any, Any]) -> Paired:
    one, other = sides
    matched = [key for key in one if key in other]
    unmatched = (
        tuple(key for key in one if key not in other),
        tuple(key for key in other if key not in one),
    )
    known = {key: clusters.get(key, (key,)) for key in matched}
    cluster = known if len(set(known.values())) < len(matched) else None
    if names[0] == names[1]:
        raise ComparisonsError(f"both sides are called {names[0]!r}; give two that differ")
    same, apart, texts, shown_texts = [], [], [], []
    for key in matched:
        (text, context), (its_text, its_context) = one[key], other[key]
        if text == its_text:
            same.append(key)
            continue
        apart.append(key)
        texts += [text, its_text]
        shown_texts.append(its_context if context is None else context)
    if not apart:
        return Paired(*names, None, tuple(same), unmatched, cluster)
    contexts = np.empty(len(apart), dtype=object)
    contexts[:] = apart
    items = Items(
        np.array(names * len(apart), dtype=object),
        tuple(texts),
        contexts,
        np.repeat(np.arange(len(apart), dtype=np.int32), 2),
        tuple(shown_texts),
    )
    return Paired(*names, items, tuple(same), unmatched, cluster)


def _rows(table: Table, named: Mapping[str, str | None]) -> dict[Any, tuple[str, str | None]]:
    """The text and the context of each input of a table."""
    roles = ("id", "text", "context", "context_id")
    own, text, context, shared = (column_of_role(table, role, named.get(role)) for role in roles)
    texts = checked_texts(table, text)
    inputs = identified(table, {"id": shared or own, "text": text, "shown": context})
    shown_texts: list[str | None] = [None] * len(texts)
    if context:
        shown_texts = [value if isinstance(value, str) else None for value in table.columns[context]]
    pairs = zip(texts, shown_texts, strict=True)
    return dict(zip(inputs.ids.tolist(), pairs, strict=True))


def _names(one: Any, other: Any) -> tuple[str, str]:
    """The files' names without their ending, with their folders if the names are equal; A and B for other sources."""
    if not all(isinstance(side, str | os.PathLike) for side in (one, other)):
        return "A", "B"
    left, right = Path(one), Path(other)
    if left.stem != right.stem:
        return left.stem, right.stem
    return str(left), str(right)
