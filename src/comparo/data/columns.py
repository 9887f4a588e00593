"""A table of columns, and its columns as codes and numbers; data frames are converted by narwhals.

Every value is checked: a function raises one `ComparisonsError` that names the first wrong row, its column and value.
"""

import importlib.util
import math
import re
import reprlib
import sys
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, count, islice
from typing import Any, Literal, Self

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from comparo.data.opening import VALUE, check_size
from comparo.errors import ComparisonsError, Message, pip_install
from comparo.types import Array, Index, LongIndex

Column = Sequence[Any] | NDArray[Any]
Library = Literal["pandas", "polars", "pyarrow"]

DECIMAL = re.compile(r"\s*-?(0,\d+|\d+,(\d\d?|\d{4,}))\s*")  # with a comma that does not separate thousands
DENSE = 8  # entries per row of a table of all keys that takes less time than sorting the rows
CHUNK = 512  # rows at a time: few enough to be freed before the garbage collector runs
INSTALL = pip_install("data")


def columns_from_frame(frame: Any, wanted: Collection[str] | None = None) -> tuple[dict[str, Column], tuple[str, ...]]:
    """The `wanted` columns of a data frame (all if None) with string names, and the names of the others.

    Numbers are arrays, everything else lists. Everything that narwhals reads is a data frame; a lazy one is collected.
    """
    try:
        frame = nw.from_native(frame)
        names = frame.collect_schema().names()
    except nw.exceptions.DuplicateError as error:
        raise ComparisonsError(f"two columns of the frame have the same name; rename one: {error}") from error
    kept = [name for name in names if isinstance(name, str) and (wanted is None or name in wanted)]
    frame = frame.select(kept)
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect()
    columns = {name: column_from_series(frame[name]) for name in kept}
    return columns, tuple(str(name) for name in names if name not in kept)


def columns_from_objects(
    objects: Iterable[Mapping[str, Any]], wanted: Collection[str] | None = None, source: str = "the rows"
) -> tuple[dict[str, Column], tuple[str, ...]]:
    """The wanted columns of an iterable of mappings, None where a key is missing, and the names of the others.

    >>> columns_from_objects([{"first": "ana", "p": 0.7}, {"first": "bo", "note": "!"}], wanted=["first", "p"])
    ({'first': ['ana', 'bo'], 'p': [0.7, None]}, ('note',))
    """
    columns: dict[str, list[Any]] = {}
    others: dict[str, None] = {}
    objects, rows = iter(objects), 0
    while chunk := list(islice(objects, CHUNK)):
        for name in dict.fromkeys(chain.from_iterable(chunk)):
            if wanted is not None and name not in wanted:
                others[name] = None
            elif name not in columns:
                columns[name] = [None] * rows
        for name, column in columns.items():
            column.extend(stored_once(row.get(name)) for row in chunk)
        rows += len(chunk)
        check_size(VALUE * rows * len(columns), source)  # each row may have a key of its own
    return dict(columns), tuple(others)


def stored_once(value: Any) -> Any:
    """A value, interned if it is a string: repeated labels would take most of the memory."""
    return sys.intern(value) if type(value) is str else value


@dataclass(frozen=True)
class Coded(Sequence[Any]):
    """A column of values as codes (K,) into its different `labels`, which are in the order of their appearance."""

    labels: list[Any]
    codes: LongIndex

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, row: Any) -> Any:
        return self.labels[self.codes[row]]

    def __iter__(self) -> Iterator[Any]:
        return map(self.labels.__getitem__, self.codes.tolist())


def column_from_series(series: nw.Series[Any]) -> Column:
    """A narwhals series as an array if it holds numbers, else as a list or codes, with None for missing values."""
    if series.dtype.is_numeric():
        return series.to_numpy()
    if not series.null_count():
        if hasattr(native := series.to_native(), "factorize"):  # of pandas: a list of a million takes ten times as long
            with suppress(TypeError):  # not hashable
                codes, labels = native.factorize()
                return Coded(labels.tolist(), codes)
        return series.to_list()
    return [None if missing else value for value, missing in zip(series, series.is_null(), strict=True)]


def column_from_values(name: str, values: Iterable[Any]) -> Column:
    """A column from an array, a series or any other iterable; `name` is for the error."""
    if isinstance(values, np.ndarray) and values.ndim != 1:
        raise ComparisonsError(f"column {name!r} has shape {values.shape}; it must have one value per row")
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise ComparisonsError(f"column {name!r} is {values!r}; it must be a sequence with one value per row")
    series = nw.from_native(values, series_only=True, pass_through=True)
    if isinstance(series, nw.Series):
        return column_from_series(series)
    return values if isinstance(values, (np.ndarray, list, tuple)) else list(values)


def frame_from_columns(columns: Mapping[str, Column], backend: str | None = None) -> Any:
    """A pandas, polars or pyarrow frame of these columns; `backend` None is the first of them that is installed."""
    libraries: tuple[Library, ...] = ("pandas", "polars", "pyarrow")
    asked = [name for name in libraries if backend in (None, name)]
    if not asked:
        raise ValueError(f"{backend!r} is not a data frame library comparo knows; choose {' or '.join(libraries)}")
    library = installed(*asked)
    if library is None:
        raise ImportError(f"a data frame needs {' or '.join(asked)}: {INSTALL}")
    try:
        return nw.from_dict(columns, backend=library).to_native()
    except (TypeError, ValueError) as error:  # pyarrow's own errors are both
        raise ValueError(
            f"{library} cannot hold mixed labels ({error}); " + Message("use {backend:'pandas'}")
        ) from error


def installed(*libraries: Library) -> Library | None:
    """The first of `libraries` that is installed, else None."""
    return next((name for name in libraries if importlib.util.find_spec(name)), None)


@dataclass(frozen=True)
class Table:
    """Columns of equal length, and what errors need to name a row.

    `source` is the file they were read from ("" in memory), `lines` the last line of each row (None if there are no
    lines), `others` the names of columns that were not wanted.

    >>> Table({"p": ["0.3", "0.6", "1.2"]}, "pairs.csv", lines=[2, 3, 4]).place(2, "p")
    "pairs.csv, row 3 (line 4), column 'p'"
    """

    columns: Mapping[str, Column]
    source: str = ""
    lines: Sequence[int] | None = None
    others: tuple[str, ...] = ()

    def place(self, row: int, column: str | None = None) -> str:
        """The place of a value, for errors: its row, from 1, and its line where the two numbers differ."""
        file = f"{self.source}, " if self.source else ""
        line = ""
        if self.lines is not None and self.lines[row] != row + 1:
            line = f" (line {self.lines[row]})"
        end = f", column {column!r}" if column else ""
        return f"{file}row {row + 1}{line}{end}"

    def error(self, rows: Sequence[int] | NDArray[np.integer], column: str | None, problem: str) -> ComparisonsError:
        """The error for the first of the wrong rows, with the number of the others.

        >>> str(Table({}).error([1, 4, 5], "p", "7.0 is not a probability"))
        "row 2, column 'p': 7.0 is not a probability (and 2 more rows like it)"
        """
        message = f"{self.place(int(rows[0]), column)}: " + problem
        if more := len(rows) - 1:
            others = "row" if more == 1 else "rows"
            message += f" (and {more} more {others} like it)"
        return ComparisonsError(message)

    def take(self, rows: Sequence[int]) -> Self:
        """The table of some rows; errors name their original lines."""
        if len(rows) == len(next(iter(self.columns.values()))):
            return self
        columns: dict[str, Column] = {}
        for name, column in self.columns.items():
            if isinstance(column, np.ndarray):
                columns[name] = column[rows]
            else:
                columns[name] = [column[row] for row in rows]
        lines = [row + 1 for row in rows]
        if self.lines is not None:
            lines = [self.lines[row] for row in rows]
        return replace(self, columns=columns, lines=lines)


def factorise(table: Table, *names: str) -> tuple[NDArray[Any], tuple[Index, ...]]:
    """The distinct labels of some columns, and each column (K,) as codes into them.

    Integers are in ascending order, other labels in the order of their first appearance.

    >>> factorise(Table({"first": ["bo", "ana"], "second": ["ana", "cy"]}), "first", "second")[1]
    (array([0, 1], dtype=int32), array([1, 2], dtype=int32))
    """
    columns = [table.columns[name] for name in names]
    arrays = [column for column in columns if isinstance(column, np.ndarray) and column.dtype.kind in "iu"]
    if len(arrays) == len(columns) and np.result_type(np.int64, *arrays) == np.int64:
        return _factorise_integers([column.astype(np.int64, copy=False) for column in arrays])
    columns = [column.tolist() if isinstance(column, np.ndarray) else column for column in columns]
    if all(isinstance(column, Coded) for column in columns):
        seen, flat = _joined([column for column in columns if isinstance(column, Coded)])
    else:
        seen = defaultdict(count().__next__)
        values = chain.from_iterable(zip(*columns, strict=True))
        try:
            flat = np.fromiter(map(seen.__getitem__, values), np.int32, len(columns) * len(columns[0]))
        except TypeError:  # not hashable
            flat = np.empty(0, dtype=np.int32)
    if not flat.size or any(map(is_missing, seen)):
        for name, column in zip(names, columns, strict=True):
            if bad := [row for row, label in enumerate(column) if is_missing(label)]:
                label = shown(column[bad[0]])
                raise table.error(bad, name, f"{label} is not a label; name it by text or an integer, or drop the row")
    labels = _label_array(list(seen))
    if labels.dtype.kind == "i":
        order = np.argsort(labels, kind="stable")
        flat, labels = np.argsort(order, kind="stable").astype(np.int32)[flat], labels[order]
    return labels, tuple(np.ascontiguousarray(codes) for codes in flat.reshape(-1, len(columns)).T)


def first_rows(key: LongIndex) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The first row of each of the M different keys (M,), in ascending order of keys, and the number of each row's key.

    >>> first_rows(np.array([7, 3, 7, 5]))
    (array([1, 3, 0]), array([2, 0, 2, 1]))
    """
    low, high = int(key.min(initial=0)), int(key.max(initial=0))
    if high - low >= DENSE * len(key):
        return np.unique(key, return_index=True, return_inverse=True)[1:]
    row = np.full(high - low + 1, -1, dtype=np.intp)
    row[key[::-1] - low] = np.arange(len(key))[::-1]  # of several rows, the last that is assigned stays
    number = np.cumsum(row >= 0) - 1
    return row[row >= 0], number[key - low]


def _joined(columns: Sequence[Coded]) -> tuple[dict[Any, int], Index]:
    """The labels of all columns in the order of their first appearance, row by row, and the codes of all rows."""
    places: dict[Any, tuple[int, int]] = {}
    for number, each in enumerate(columns):
        rows = np.full(len(each.labels), len(each))
        rows[each.codes[::-1]] = np.arange(len(each))[::-1]  # of several rows, the last that is assigned stays
        for label, row in zip(each.labels, rows.tolist(), strict=True):
            places[label] = min((row, number), places.get(label, (row, number)))
    seen = {label: code for code, label in enumerate(sorted(places, key=places.__getitem__))}
    flat = np.empty((len(columns[0]), len(columns)), dtype=np.int32)
    for number, each in enumerate(columns):
        flat[:, number] = np.array([seen[label] for label in each.labels], dtype=np.int32)[each.codes]
    return seen, flat.ravel()


def look_up(labels: Iterable[Any], known: Iterable[Any]) -> Index:
    """The code of each label (K,) among the `known` ones, −1 where it is not one of them.

    >>> look_up(["bo", "ana", "zoe"], ["ana", "bo"]).tolist()
    [1, 0, -1]
    """
    code = {label: number for number, label in enumerate(known)}
    return np.array([code.get(label, -1) for label in labels], dtype=np.int32)


def _factorise_integers(columns: list[LongIndex]) -> tuple[NDArray[Any], tuple[Index, ...]]:
    low = min(int(column.min()) for column in columns)
    high = max(int(column.max()) for column in columns)
    if high - low > 4 * len(columns[0]):
        labels, codes = np.unique(np.stack(columns), return_inverse=True)
        return labels, tuple(codes.astype(np.int32).reshape(len(columns), -1))
    if low:
        columns = [column - low for column in columns]
    present = np.zeros(high - low + 1, dtype=bool)
    for column in columns:
        present[column] = True
    code = np.cumsum(present, dtype=np.int32) - 1
    return np.flatnonzero(present) + low, tuple(code[column] for column in columns)


def _label_array(labels: list[Any]) -> NDArray[Any]:
    """Labels as an array: int64 if all are integers, else objects."""
    if all(isinstance(label, (int, np.integer)) and not isinstance(label, bool) for label in labels):
        try:
            return np.array(labels, dtype=np.int64)
        except OverflowError:
            pass
    return np.fromiter(labels, dtype=object, count=len(labels))


def numbers(table: Table, name: str, most: float, meaning: str) -> Array:
    """A column as floats, checked to be from 0 to `most`; a float64 array is not copied."""
    column = table.columns[name]
    if isinstance(column, np.ndarray) and column.dtype.kind in "fiub":
        values = column.astype(np.float64, copy=False)
    else:
        try:
            values = np.fromiter(map(float, column), np.float64, len(column))
        except (TypeError, ValueError, OverflowError):
            values = np.fromiter(map(as_number, column), np.float64, len(column))
            if (bad := np.flatnonzero(~np.isfinite(values))).size:
                raise table.error(bad, name, f"{shown(column[bad[0]])} is not {meaning}") from None
    # NaN fails both comparisons; min and max need no temporary array.
    if not (values.min() >= 0 and values.max() <= most):
        outside = np.flatnonzero(~((values >= 0) & (values <= most)))
        problem = f"{values[outside[0]]} is not {meaning}"
        if most == 1 and values.min() >= 0 and 2 <= values.max() <= 100:
            problem += "; divide by 100?"
        raise table.error(outside, name, problem)
    return values


def is_missing(label: Any) -> bool:
    """Whether a label is missing: None, NaN, blank, or of a type that cannot be a label."""
    try:
        hash(label)
        return label is None or bool(label != label) or (isinstance(label, str) and not label.strip())
    except TypeError:  # unhashable, or pandas.NA, whose comparisons have no truth value
        return True


def is_blank(value: Any) -> bool:
    """Whether a value is missing; lists, mappings and arrays are not."""
    return not isinstance(value, list | dict | np.ndarray) and is_missing(value)


def as_number(value: Any) -> float:
    """A value as a number: NaN where it is blank, infinity where it is no finite number, or may be another.

    >>> as_number(" 2 "), as_number("0,75"), as_number(""), as_number("two"), as_number("1,000")
    (2.0, 0.75, nan, inf, inf)
    """
    if isinstance(value, str) and DECIMAL.fullmatch(value):
        value = value.replace(",", ".")
    try:
        return math.nan if is_blank(value) else float(value)
    except (TypeError, ValueError, OverflowError):
        return math.inf


def shown(value: Any) -> str:
    """The shortened repr of a value, for errors."""
    return reprlib.repr(value.item() if isinstance(value, np.generic) else value)
