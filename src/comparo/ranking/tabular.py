"""Tables of named columns: a frame, CSV, JSON, aligned text and HTML."""

from __future__ import annotations

import html
import json
import math
import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from comparo.data.columns import frame_from_columns
from comparo.data.formats import csv_text
from comparo.data.sanitize import visible

Columns = dict[str, NDArray[Any]]
SHOWN = 100  # rows


class Tabular:
    """The table of `to_columns` as a frame and as CSV."""

    def to_columns(self) -> Columns:
        """The table as columns."""
        raise NotImplementedError

    def __str__(self) -> str:
        return table_text(self.to_columns())

    def _repr_html_(self) -> str:
        return table_html(self.to_columns())

    def to_frame(self, backend: str | None = None) -> Any:
        """The table of `to_columns` as a pandas, polars or pyarrow frame: the first that is installed, or `backend`."""
        return frame_from_columns(self.to_columns(), backend)

    @overload
    def to_csv(self) -> str: ...
    @overload
    def to_csv(self, path: str | os.PathLike[str]) -> None: ...
    def to_csv(self, path: str | os.PathLike[str] | None = None) -> str | None:
        """Return the table of `to_columns` as CSV, or write it to `path`; missing numbers are empty fields."""
        if path is None:
            return self._csv
        Path(path).write_text(self._csv, encoding="utf-8", newline="")
        return None

    @cached_property
    def _csv(self) -> str:
        return csv_text(self.to_columns())


def table_text(table: Columns, notes: Sequence[str] = ()) -> str:
    """Return the first rows of a ranking's columns as aligned text, followed by its notes.

    >>> print(table_text({"item": np.array(["ana", "bo"]), "score": np.array([1.0, -1.0])}, ()))
    item   score
    ana    1.000
    bo    -1.000
    """
    columns = []
    for name, column in table.items():
        values = [visible(_shown(value), lines=False) for value in column[:SHOWN].tolist()]
        columns.append([name, *values])
    is_text = [column.dtype.kind in "OUS" for column in table.values()]
    widths = [max(map(len, column)) for column in columns]
    lines = []
    for row in zip(*columns, strict=True):
        cells = zip(row, widths, is_text, strict=True)
        padded = [cell.ljust(width) if left else cell.rjust(width) for cell, width, left in cells]
        lines.append("  ".join(padded).rstrip())
    hidden = len(next(iter(table.values()))) - SHOWN
    if hidden > 0:
        lines.append(f"{hidden} more")
    return "\n".join([*lines, *map(visible, notes)])


def table_html(table: Columns, notes: Sequence[str] = ()) -> str:
    """Return the first rows of a ranking's columns and its notes as HTML; every label is escaped.

    >>> table = {"item": np.array(["<a>"]), "low": np.array([0.1])}
    >>> "<td>&lt;a&gt;</td><td>0.100</td>" in table_html(table, ())
    True
    """
    head = "".join(f"<th>{name}</th>" for name in table)
    body = ""
    for row in rows_of(table, SHOWN):
        cells = (f"<td>{html.escape(_shown(value))}</td>" for value in row.values())
        body += f"<tr>{''.join(cells)}</tr>"
    below = "".join(f"<p>{html.escape(note)}</p>" for note in notes)
    hidden = len(next(iter(table.values()))) - SHOWN
    more = f"<p>{hidden} more</p>" if hidden > 0 else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}{below}"


def columns_from(rows: Sequence[Sequence[Any]], names: Sequence[str], texts: int) -> Columns:
    """Rows as columns with these names, of which the first `texts` are no numbers."""
    kinds = [object] * texts + [float] * (len(names) - texts)
    each = zip(names, kinds, zip(*rows, strict=True), strict=True)
    return {name: np.array(column, dtype=kind) for name, kind, column in each}


def rows_of(columns: Mapping[str, NDArray[Any]], most: int | None = None) -> list[dict[str, Any]]:
    """The first `most` rows of a table (None: all), each by the names of the columns."""
    values = (column[:most].tolist() for column in columns.values())
    return [dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True)]


def with_interval(value: float, low: float, high: float, form: str) -> str:
    """A value and its interval in a format; a value without one alone, and "" where it is unknown.

    >>> with_interval(0.5, 0.25, 0.75, ".0%"), with_interval(0.5, math.nan, 1.0, "+.2f")
    ('50% (25% to 75%)', '+0.50')
    """
    if math.isnan(value):
        return ""
    return f"{value:{form}}" + ("" if math.isnan(low + high) else f" ({low:{form}} to {high:{form}})")


def json_rows(columns: Mapping[str, NDArray[Any]]) -> list[dict[str, Any]]:
    """A table as JSON holds it: one object per row, null for what is not finite."""
    return [{name: plain(value) for name, value in row.items()} for row in rows_of(columns)]


def json_text(document: Mapping[str, Any]) -> str:
    """A document as JSON, in which labels of any type are text."""
    return json.dumps(document, ensure_ascii=False, default=str, allow_nan=False)


def plain(value: Any) -> Any:
    """A value as JSON can hold it: None for a number that is not finite."""
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and not np.isfinite(value) else value


def _shown(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)
