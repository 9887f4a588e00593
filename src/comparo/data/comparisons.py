"""Comparisons: who was compared with whom, and how likely the first is the better one.

Everything downstream works on integer codes, so labels are turned into codes once, here, and whatever is wrong with
the data is said here, before anything is computed. K comparisons of N items are columns of shape (K,): `first` and
`second` are codes into `items`, `p` is P(first is better) as the judge saw it with `first` shown first.

Four layouts are understood in frames, mappings and files: `first, second, p`, and `first, second, winner`,
`model_a, model_b, winner` and `left, right, winner`. A winner is called by the name of its column, by A or B, or by its
own name; tie, draw or equal is neither, and a row without a winner was not judged and is left out. Each layout may have
`weight`, `context` (or `context_id`) and `judge`; other columns are ignored, except that rows with an `error` are left
out: they are judgements that failed.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray

from comparo.data.columns import factorise, is_missing, numbers, shown, winners
from comparo.data.frames import Column, column_from_series, columns_from_frame, frame_from_columns
from comparo.data.objects import columns_from_objects
from comparo.data.rundata import database_of, judged
from comparo.data.tables import Table, read_columns, write_columns
from comparo.errors import ComparisonsError

__all__ = ["Comparisons", "ComparisonsError"]

LAYOUTS = (
    ("first", "second", "p"),
    ("first", "second", "winner"),
    ("model_a", "model_b", "winner"),
    ("left", "right", "winner"),
)
OPTIONAL = {"weight": ("weight",), "context": ("context", "context_id"), "judge": ("judge",)}
WANTED = frozenset(chain(*LAYOUTS, *OPTIONAL.values(), ["error"]))
LABELS = WANTED - {"p", "weight", "error"}
TIES = {"tie": 0.5, "draw": 0.5, "equal": 0.5}
WINNERS = {  # by the second column of a layout
    "second": {"first": 1.0, "second": 0.0, "left": 1.0, "right": 0.0, "a": 1.0, "b": 0.0, **TIES},
    "model_b": {"model_a": 1.0, "model_b": 0.0, "a": 1.0, "b": 0.0, **TIES}
    | dict.fromkeys(("tie (bothbad)", "both_bad", "bothbad"), 0.5),
    "right": {"left": 1.0, "right": 0.0, "a": 1.0, "b": 0.0, **TIES},
}

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Comparisons:
    """K comparisons of N items.

    Labels are any hashable values. Integer labels are kept as integers and stand in ascending order, all others in
    the order of their first appearance. The constructors below check what they are given; this one does not.

    >>> comparisons = Comparisons.from_rows([("ana", "bo", 0.7), ("bo", "cy", 0.6)])
    >>> comparisons.items, comparisons.first, comparisons.p
    (array(['ana', 'bo', 'cy'], dtype=object), array([0, 1], dtype=int32), array([0.7, 0.6]))
    """

    items: NDArray[Any]
    first: NDArray[np.int32]
    second: NDArray[np.int32]
    p: NDArray[np.float64]
    weight: NDArray[np.float64] | None = None
    contexts: NDArray[Any] | None = None
    context: NDArray[np.int32] | None = None
    judges: NDArray[Any] | None = None
    judge: NDArray[np.int32] | None = None

    def __len__(self) -> int:
        return len(self.p)

    @classmethod
    def of(cls, data: Any) -> Comparisons:
        """Comparisons from whatever holds them: a path, a matrix, rows, a data frame, or comparisons themselves.

        >>> Comparisons.of(np.array([[np.nan, 0.7], [0.4, np.nan]])).p
        array([0.7, 0.4])
        """
        if isinstance(data, Comparisons):
            return data
        if isinstance(data, (str, os.PathLike)):
            return cls.read(data)
        if isinstance(data, np.ndarray) and data.ndim == 2:
            return cls.from_matrix(data)
        if isinstance(data, (list, tuple, Iterator)):
            return cls.from_rows(data)
        return cls.from_frame(data)

    @classmethod
    def from_columns(
        cls,
        first: Iterable[Any],
        second: Iterable[Any],
        p: Iterable[Any],
        weight: Iterable[Any] | None = None,
        context: Iterable[Any] | None = None,
        judge: Iterable[Any] | None = None,
    ) -> Comparisons:
        """Comparisons from columns of labels and numbers, each of shape (K,). A float64 array is kept, not copied.

        >>> Comparisons.from_columns(np.array([7, 3]), np.array([3, 5]), [0.7, 1]).items
        array([3, 5, 7])
        """
        given = {"first": first, "second": second, "p": p, "weight": weight, "context": context, "judge": judge}
        return _comparisons(
            Table({name: _column(name, values) for name, values in given.items() if values is not None})
        )

    @classmethod
    def from_rows(cls, rows: Iterable[Any]) -> Comparisons:
        """Comparisons from rows (first, second, p) or (first, second, p, weight), or from mappings of any layout.

        A row of three has weight 1.

        >>> Comparisons.from_rows([{"left": "ana", "right": "bo", "winner": "tie"}]).p
        array([0.5])
        """
        rows = list(rows)
        if rows and all(isinstance(row, Mapping) for row in rows):
            columns, others = columns_from_objects(rows, WANTED)
            return _comparisons(Table(columns, others=others))
        if bad := [k for k, row in enumerate(rows) if not isinstance(row, (tuple, list)) or len(row) not in (3, 4)]:
            expected = "(first, second, p) or (first, second, p, weight); give all rows so, or all as mappings"
            raise Table({}).error(bad, None, f"{shown(rows[bad[0]])} is not {expected}. A matrix is a numpy array")
        if rows and all(isinstance(label, float) for row in rows for label in row[:2]):
            raise Table({}).error([0], None, f"{shown(rows[0])} has numbers for items. A matrix is a numpy array")
        weighted = any(len(row) == 4 for row in rows)
        return cls.from_columns(
            [row[0] for row in rows],
            [row[1] for row in rows],
            [row[2] for row in rows],
            [row[3] if len(row) == 4 else 1.0 for row in rows] if weighted else None,
        )

    @classmethod
    def from_matrix(cls, matrix: ArrayLike, items: Iterable[Any] | None = None) -> Comparisons:
        """One comparison for each entry [i, j] = P(i beats j), i shown first, of an N×N matrix; NaN is not asked.

        The diagonal is ignored. `items` keep the order of the matrix, also those that were never compared.

        >>> Comparisons.from_matrix([[np.nan, 0.7], [0.4, np.nan]], items=["bo", "ana"]).to_columns()["first"]
        array(['bo', 'ana'], dtype=object)
        """
        try:
            entries = np.asarray(matrix, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ComparisonsError(f"the matrix holds something that is not a number: {error}") from error
        if entries.ndim != 2 or entries.shape[0] != entries.shape[1]:
            raise ComparisonsError(f"the matrix has shape {entries.shape}; it must be square, a row for each item")
        size = len(entries)
        if size < 2:
            raise ComparisonsError(f"the matrix has shape {entries.shape}; at least two items are needed")
        labels = np.arange(size) if items is None else _labels_of_matrix(items, size)
        asked = ~np.isnan(entries)
        np.fill_diagonal(asked, False)
        first, second = np.nonzero(asked)
        p = entries[first, second]
        bad = np.flatnonzero((p < 0) | (p > 1))
        if bad.size:
            i, j = first[bad[0]], second[bad[0]]
            more = f" (and {bad.size - 1} more entries like it)" if bad.size > 1 else ""
            raise ComparisonsError(f"matrix entry [{i}, {j}]: {p[bad[0]]} is not a probability between 0 and 1{more}")
        if not p.size:
            raise ComparisonsError("there are no comparisons in the matrix: every entry off its diagonal is NaN")
        return cls(labels, first.astype(np.int32), second.astype(np.int32), p)

    @classmethod
    def from_frame(cls, frame: Any) -> Comparisons:
        """Comparisons from a pandas, polars or pyarrow frame, or any other that narwhals reads, in a known layout.

        >>> import pandas
        >>> arena = pandas.DataFrame({"model_a": ["ana"], "model_b": ["bo"], "winner": ["model_b"]})
        >>> Comparisons.from_frame(arena).p
        array([0.])
        """
        try:
            columns, others = columns_from_frame(frame, WANTED)
        except TypeError as error:
            raise ComparisonsError(
                f"a {type(frame).__name__} does not hold comparisons; accepted are Comparisons, the path of a file, "
                "a square numpy matrix, a list or iterator of rows, and a pandas, polars or pyarrow frame"
            ) from error
        return _comparisons(Table(columns, others=others))

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Comparisons:
        """Comparisons from a file, or the answers of a run folder.

        A file is .csv, .tsv, .jsonl, .ndjson, .json (a list of objects), .parquet or .xlsx, each also with .gz behind
        it. The labels of CSV and of spreadsheets are strings.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Comparisons.from_rows([("ana", "bo", 0.7)]).write(f"{folder}/pairs.csv.gz")
        ...     Comparisons.read(f"{folder}/pairs.csv.gz").items
        array(['ana', 'bo'], dtype=object)
        """
        database = database_of(path)
        return _comparisons(read_columns(path, WANTED, LABELS) if database is None else judged(database))

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the columns to a file, by its ending; `read` gives the same comparisons back, CSV labels as strings.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Comparisons.from_rows([(1, 2, 0.7)]).write(f"{folder}/pairs.parquet")
        ...     Comparisons.read(f"{folder}/pairs.parquet").items
        array([1, 2])
        """
        for labels in (self.items, self.contexts, self.judges):
            for label in [] if labels is None else labels.tolist():
                if not isinstance(label, (str, int, float)):
                    raise ComparisonsError(f"{path}: the label {shown(label)} is neither text nor number; rename it")
        write_columns(path, self.to_columns())

    def to_columns(self) -> dict[str, NDArray[Any]]:
        """Columns of labels and numbers, each of shape (K,): first, second, p; weight, context, judge where present.

        >>> Comparisons.from_rows([("ana", "bo", 0.7)]).to_columns()["second"]
        array(['bo'], dtype=object)
        """
        columns = {"first": self.items[self.first], "second": self.items[self.second], "p": self.p}
        if self.weight is not None:
            columns["weight"] = self.weight
        if self.contexts is not None:
            columns["context"] = self.contexts[self.context]
        if self.judges is not None:
            columns["judge"] = self.judges[self.judge]
        return columns

    def to_frame(self, backend: str | None = None) -> Any:
        """The columns as a pandas, polars or pyarrow frame; `backend` None is the first of them that is installed.

        >>> Comparisons.from_rows([("ana", "bo", 0.7)]).to_frame("polars").rows()
        [('ana', 'bo', 0.7)]
        """
        return frame_from_columns(self.to_columns(), backend)

    def merge_orders(self) -> Comparisons:
        """One comparison for each unordered pair within a context and a judge, free of the bias of position.

            p̃_ij = ½ (p_ij + 1 − p_ji) = 1 − p̃_ji

        p_ij is the mean of the comparisons that showed i first, weighted (unweighted where their weights sum to 0); a
        pair shown in one order only keeps that order's mean. The weight is the sum of the weights, 1 a comparison
        where there are none. A pair stands in the order and the place of its first appearance.

        >>> merged = Comparisons.from_rows([("ana", "bo", 0.75), ("bo", "ana", 0.5)]).merge_orders()
        >>> merged.p, merged.weight
        (array([0.625]), array([2.]))
        """
        key = np.minimum(self.first, self.second).astype(np.int64) * len(self.items)
        key += np.maximum(self.first, self.second)
        for labels, codes in ((self.contexts, self.context), (self.judges, self.judge)):
            if labels is not None and codes is not None:
                if int(key.max(initial=0)) * len(labels) >= 2**62:
                    key = np.unique(key, return_inverse=True)[1]
                key = key * len(labels) + codes
        _, appearance, pair = np.unique(key, return_index=True, return_inverse=True)
        order = np.argsort(appearance)
        lead, pairs = appearance[order], len(appearance)
        pair = np.argsort(order)[pair]

        # Two slots a pair: the order of its first appearance, and the other.
        slot = 2 * pair + (self.first != self.first[lead][pair])

        def total(values: NDArray[np.float64]) -> NDArray[np.float64]:
            return np.bincount(slot, values, 2 * pairs).astype(np.float64, copy=False)

        weight = self.weights
        seen, weights = total(np.ones(len(self))), total(weight)
        mean = total(self.p) / np.maximum(seen, 1)
        np.divide(total(weight * self.p), weights, out=mean, where=weights > 0)
        return replace(
            self,
            first=self.first[lead],
            second=self.second[lead],
            p=np.where(seen[1::2] > 0, (mean[::2] + 1 - mean[1::2]) / 2, mean[::2]),
            weight=weights[::2] + weights[1::2],
            context=None if self.context is None else self.context[lead],
            judge=None if self.judge is None else self.judge[lead],
        )

    @property
    def weights(self) -> NDArray[np.float64]:
        """The weight of each comparison, 1 where none are given: shape (K,).

        >>> Comparisons.from_rows([("ana", "bo", 0.7)]).weights
        array([1.])
        """
        return np.ones(len(self)) if self.weight is None else self.weight

    @property
    def judged_by(self) -> NDArray[np.int32]:
        """The judge's code of each comparison, 0 where none are given: shape (K,).

        >>> Comparisons.from_rows([("ana", "bo", 0.7)]).judged_by
        array([0], dtype=int32)
        """
        return np.zeros(len(self), dtype=np.int32) if self.judge is None else self.judge

    @property
    def hard(self) -> bool:
        """Whether every p is a decision: 0, ½ or 1.

        >>> Comparisons.from_rows([("ana", "bo", 0.7)]).hard, Comparisons.from_rows([("ana", "bo", 1)]).hard
        (False, True)
        """
        return bool(np.all((self.p == 0) | (self.p == 0.5) | (self.p == 1)))

    def decisions(self) -> Comparisons:
        """The same comparisons with hard p: 1 where p > ½, 0 where p < ½, ½ where the judge saw no difference.

        >>> Comparisons.from_rows([("ana", "bo", 0.7), ("bo", "cy", 0.5)]).decisions().p
        array([1. , 0.5])
        """
        return replace(self, p=(np.sign(self.p - 0.5) + 1) / 2)


def _comparisons(table: Table) -> Comparisons:
    """Check every column of a table and turn its labels into codes."""
    table = _answered(table)
    column = _layout(table)
    lengths = {name: len(table.columns[name]) for name in column.values()}
    if len(set(lengths.values())) > 1:
        counted = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise ComparisonsError(f"the columns differ in length: {counted} rows; give one value a row in each")
    if not all(lengths.values()):
        place = table.source or "the data"
        raise ComparisonsError(f"there are no comparisons in {place}; at least two items are needed, compared once")
    words = WINNERS[column["second"]] if column["p"] == "winner" else None
    if words is not None:
        table = _decided(table, column)
    items, (first, second) = factorise(table, column["first"], column["second"])
    same = np.flatnonzero(first == second)
    if same.size:
        label = shown(table.columns[column["second"]][same[0]])
        raise table.error(same, column["second"], f"{label} is compared with itself; drop the row")
    if words is not None:
        p = winners(table, words, column["first"], column["second"])
    else:
        p = numbers(table, "p", 1.0, "a probability between 0 and 1")
    largest = float(np.finfo(np.float64).max)
    weight = numbers(table, "weight", largest, "a finite weight of 0 or more") if "weight" in column else None
    contexts, (context,) = factorise(table, column["context"]) if "context" in column else (None, (None,))
    judges, (judge,) = factorise(table, column["judge"]) if "judge" in column else (None, (None,))
    return Comparisons(items, first, second, p, weight, contexts, context, judges, judge)


def _answered(table: Table) -> Table:
    """The table without the rows that have an error, where some have one and some do not."""
    errors = table.columns.get("error")
    if errors is None:
        return table
    kept = [row for row, error in enumerate(errors) if error is None or error != error or not str(error).strip()]
    if not kept:
        raise table.error(range(len(errors)), "error", "every judgement failed; there is nothing to fit")
    columns = {name: column for name, column in table.columns.items() if name != "error"}
    return _rows(replace(table, columns=columns), kept)


def _decided(table: Table, column: Mapping[str, str]) -> Table:
    """The table without the rows that have no winner: they were not judged."""
    said = table.columns[column["p"]]
    kept = [row for row, word in enumerate(said) if not is_missing(word)]
    if not kept:
        raise table.error(range(len(said)), "winner", "no row has a winner; there is nothing to fit")
    left = sum(map(is_missing, said)) - sum(
        is_missing(word) and is_missing(first) for word, first in zip(said, table.columns[column["first"]], strict=True)
    )
    if left:
        place = table.source or "the data"
        logger.warning("%s: %d of %d comparisons have no winner and are left out", place, left, left + len(kept))
    return _rows(table, kept)


def _rows(table: Table, kept: Sequence[int]) -> Table:
    """Some rows of a table, under the numbers that they had."""
    if len(kept) == len(next(iter(table.columns.values()))):
        return table
    return Table(
        {
            name: column[kept] if isinstance(column, np.ndarray) else [column[row] for row in kept]
            for name, column in table.columns.items()
        },
        table.source,
        [row + 1 if table.lines is None else table.lines[row] for row in kept],
        table.others,
    )


def _layout(table: Table) -> dict[str, str]:
    """Which column plays which role."""
    layout = min(LAYOUTS, key=lambda names: len(set(names) - set(table.columns)))
    if missing := [repr(name) for name in layout if name not in table.columns]:
        raise ComparisonsError(
            f"{table.source or 'the data'}: there is no column {' or '.join(missing)}; the columns are "
            f"{', '.join([*table.columns, *map(str, table.others)]) or 'none'}. Rename them to one of the layouts "
            f"{'; '.join(', '.join(names) for names in LAYOUTS)}"
        )
    column = dict(zip(("first", "second", "p"), layout, strict=True))
    for role, names in OPTIONAL.items():
        if there := [name for name in names if name in table.columns]:
            column[role] = there[0]
    return column


def _labels_of_matrix(items: Iterable[Any], size: int) -> NDArray[Any]:
    table = Table({"items": _column("items", items)})
    if len(table.columns["items"]) != size:
        raise ComparisonsError(f"there are {len(table.columns['items'])} items for a matrix of {size} rows")
    labels, (codes,) = factorise(table, "items")
    if len(labels) < size:
        twice = labels[np.argmax(np.bincount(codes))]
        raise ComparisonsError(f"two rows of the matrix are called {shown(twice)}; give each item a name of its own")
    return labels[codes]


def _column(name: str, values: Iterable[Any]) -> Column:
    if isinstance(values, np.ndarray) and values.ndim != 1:
        raise ComparisonsError(f"column {name!r} has shape {values.shape}; it must have one value a row")
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise ComparisonsError(f"column {name!r} is {values!r}; it must be a sequence with one value a row")
    series = nw.from_native(values, series_only=True, pass_through=True)
    if isinstance(series, nw.Series):
        return column_from_series(series)
    return values if isinstance(values, (np.ndarray, list, tuple)) else list(values)
