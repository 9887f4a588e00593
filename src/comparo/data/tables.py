"""Columns in and columns out of files: CSV, JSON, Parquet and spreadsheets.

Nothing here knows what a comparison is. A file becomes a `Table`: its columns, and what is needed to say where in the
file a row stands. CSV and JSON need no library; Parquet and .xlsx need one that is installed. A file is text from
somewhere else: it is parsed, never evaluated, and no cell of CSV that is written here is a formula to a spreadsheet.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import re
import zlib
from array import array
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any
from uuid import uuid4

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from comparo.data.frames import INSTALL, Column, Library, columns_from_frame, installed
from comparo.data.objects import CHUNK, Binary, columns_from_objects, objects_of_lines, objects_of_list, stored_once
from comparo.data.sheets import csv_line, guarded, rows_of_workbook, unguarded
from comparo.errors import ComparisonsError

WRITTEN = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet")
READ = (*WRITTEN, ".json", ".xlsx")


@dataclass(frozen=True)
class Table:
    """Columns of equal length, with what names a row in an error.

    `source` is the file they came from ("" in memory), `lines` the line each row ends on (None where there are no
    lines), `others` the names of columns that were there and not wanted.

    >>> Table({"p": ["0.3", "0.6", "1.2"]}, "pairs.csv", lines=[2, 3, 4]).place(2, "p")
    "pairs.csv, row 3 (line 4), column 'p'"
    """

    columns: Mapping[str, Column]
    source: str = ""
    lines: Sequence[int] | None = None
    others: tuple[str, ...] = ()

    def place(self, row: int, column: str | None = None) -> str:
        """Where a value stands: rows are counted from 1, and a line is named where it is not the row's number.

        >>> Table({}).place(0, "first")
        "row 1, column 'first'"
        """
        file = f"{self.source}, " if self.source else ""
        line = f" (line {self.lines[row]})" if self.lines is not None and self.lines[row] != row + 1 else ""
        return f"{file}row {row + 1}{line}" + (f", column {column!r}" if column else "")

    def error(self, rows: Sequence[int] | NDArray[Any], column: str | None, problem: str) -> ComparisonsError:
        """The error for the first of the offending rows, saying how many more there are.

        >>> str(Table({}).error([1, 4, 5], "p", "7.0 is not a probability"))
        "row 2, column 'p': 7.0 is not a probability (and 2 more rows like it)"
        """
        more = len(rows) - 1
        also = f" (and {more} more row{'s' if more > 1 else ''} like it)" if more else ""
        return ComparisonsError(f"{self.place(int(rows[0]), column)}: {problem}{also}")


def read_columns(
    path: str | os.PathLike[str], wanted: Collection[str] | None = None, labels: Collection[str] = ()
) -> Table:
    """The columns of a file, by its ending; only the `wanted` ones where given.

    Values of a CSV file or a spreadsheet are strings. A key that some JSON objects lack is None there. In CSV, columns
    of `labels` lose the quote that `write_columns` puts before what a spreadsheet would take for a formula.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "pairs.csv")
    ...     _ = path.write_text("first,second,p\\nana,bo,0.7\\n")
    ...     read_columns(path, wanted=["first", "p"]).columns
    {'first': ['ana'], 'p': ['0.7']}
    """
    path = Path(path)
    if os.path.isdir(path):
        raise ComparisonsError(f"{path} is a folder; name a file in it")
    if not os.path.exists(path):
        raise ComparisonsError(f"{path} does not exist; check the name (the working folder is {Path.cwd()})")
    ending, compressed = _ending(path, READ)
    read = _READERS[ending]
    try:
        with gzip.open(path, "rb") if compressed else path.open("rb") as file:
            if not file.peek(1):
                raise ComparisonsError(f"{path} is empty; write its rows first")
            table = read(file, str(path), wanted)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ComparisonsError(f"{path} is not a whole gzip file ({error}); copy it again or drop the .gz") from error
    except UnicodeDecodeError as error:
        raise ComparisonsError(f"{path} is not UTF-8 text ({error.reason}); save it again as UTF-8") from error
    except OSError as error:
        raise ComparisonsError(f"{path} cannot be read ({error.strerror}); check its permissions") from error
    if ending not in (".csv", ".tsv") or not labels:
        return table
    restored = {
        name: [unguarded(cell) if cell[:1] == "'" else cell for cell in column]
        for name, column in table.columns.items()
        if name in labels
    }
    return replace(table, columns={**table.columns, **restored})


def columns_from_text(text: str, source: str) -> Table:
    """The columns of JSON, if the text begins with a brace or with a list of objects, or of CSV.

    `source` names it in errors.

    >>> columns_from_text('{"id": "ana"}\\n{"id": "bo"}\\n', "standard input").columns
    {'id': ['ana', 'bo']}
    """
    if not text.strip():
        raise ComparisonsError(f"{source} is empty; write its rows first")
    read = _read_json if _JSON.match(text) else _read_csv
    return read(io.BytesIO(text.encode()), source, None)


def write_columns(path: str | os.PathLike[str], columns: Mapping[str, Column]) -> None:
    """Write columns to a file, by its ending.

    The file appears whole or not at all, and the same columns give the same bytes.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "pairs.jsonl")
    ...     write_columns(path, {"first": ["ana"], "p": np.array([0.7])})
    ...     path.read_text()
    '{"first": "ana", "p": 0.7}\\n'
    """
    path = Path(path)
    if path.is_dir():
        raise ComparisonsError(f"{path} is a folder; name a file in it")
    if not path.parent.is_dir():
        raise ComparisonsError(f"the folder {path.parent} does not exist; create it first")
    ending, compressed = _ending(path, WRITTEN)
    write = {".csv": _write_csv, ".tsv": _write_tsv, ".parquet": _write_parquet}.get(ending, _write_json_lines)
    temporary = path.parent / f".{uuid4().hex}.tmp"
    try:
        with (
            temporary.open("xb") as raw,
            gzip.GzipFile("", "wb", 6, raw, mtime=0) if compressed else nullcontext(raw) as file,
        ):
            write(file, columns, str(path))
        os.replace(temporary, path)
    except UnicodeEncodeError as error:
        raise ComparisonsError(f"{path}: a label is not valid Unicode ({error.reason}); rename it") from error
    except OSError as error:
        raise ComparisonsError(f"{path} cannot be written ({error.strerror})") from error
    finally:
        temporary.unlink(missing_ok=True)


def csv_text(columns: Mapping[str, Column]) -> str:
    """Columns as CSV, missing numbers as empty fields, and a quote before what a spreadsheet would take for a formula.

    >>> csv_text({"item": ["ana", "=bo()"], "std": np.array([0.5, np.nan])})
    "item,std\\nana,0.5\\n'=bo(),\\n"
    """
    return "".join(map(csv_line, chain([columns], chain.from_iterable(_chunks_of_rows(columns)))))


def _ending(path: Path, known: Sequence[str]) -> tuple[str, bool]:
    name = path.name.lower()
    compressed = name.endswith(".gz")
    ending = Path(name.removesuffix(".gz")).suffix
    if ending in known:
        return ending, compressed
    if ending in (".xls", ".ods", ".numbers"):
        raise ComparisonsError(f"{path}: this kind of spreadsheet is not read; save it as .xlsx or .csv")
    raise ComparisonsError(
        f"{path}: the ending is not a known one; rename it to {', '.join(known)}, each also with .gz behind"
    )


def _read_csv(file: Binary, source: str, wanted: Collection[str] | None, delimiters: str = ",\t;") -> Table:
    text = _lines_of_text(file, source)
    top = next(text)
    delimiter = max(delimiters, key=top.count)
    reader = csv.reader(chain([top], text), delimiter=delimiter, skipinitialspace=f"{delimiter} " in top, strict=True)
    lines = array("q")
    try:
        header = [name.strip() for name in next(reader)]
        if not header:
            raise ComparisonsError(f"{source}, line 1: the line is blank; it must name the columns")
        columns = _empty_columns(header, source, wanted)
        seen: dict[str, str] = {}
        rows = _rows_of_csv(reader, len(header), source, lines)
        while chunk := list(islice(rows, CHUNK)):
            for name, cells in zip(header, zip(*chunk, strict=True), strict=True):
                if name in columns:
                    columns[name].extend(stored_once(cells, seen))
    except csv.Error as error:
        raise ComparisonsError(
            f"{source}, line {reader.line_num}: this is not CSV ({error}); mend or drop the line"
        ) from error
    return Table(dict(columns), source, lines, tuple(name for name in header if name not in columns))


def _empty_columns(header: list[str], source: str, wanted: Collection[str] | None) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = {name: [] for name in header if wanted is None or name in wanted}
    for name in columns:
        if header.count(name) > 1:
            raise ComparisonsError(f"{source}, line 1: there are two columns {name!r}; rename one")
    return columns


def _read_tsv(file: Binary, source: str, wanted: Collection[str] | None) -> Table:
    return _read_csv(file, source, wanted, "\t")


def _read_workbook(file: Binary, source: str, wanted: Collection[str] | None) -> Table:
    header, rows, lines = rows_of_workbook(file.read(), source)
    columns = _empty_columns(header, source, wanted)
    for place, name in enumerate(header):
        if name in columns:
            columns[name] = [row[place] for row in rows]
    return Table(dict(columns), source, lines, tuple(name for name in header if name not in columns))


def _lines_of_text(file: Binary, source: str) -> Iterator[str]:
    with io.TextIOWrapper(file, encoding="utf-8-sig", newline="") as text:
        for number, line in enumerate(text, 1):
            if "\0" in line:
                raise ComparisonsError(f"{source}, line {number}: a NUL byte; this is not text, save it as UTF-8 CSV")
            yield line


def _rows_of_csv(reader: Any, width: int, source: str, lines: array[int]) -> Iterator[list[str]]:
    for row in reader:
        if len(row) == width:
            lines.append(reader.line_num)
            yield row
        elif row:
            raise ComparisonsError(
                f"{source}, line {reader.line_num}: {len(row)} fields where the header has {width}; mend the line, "
                "or quote the field that holds the separator"
            )


def _read_json_lines(file: Binary, source: str, wanted: Collection[str] | None) -> Table:
    lines = array("q")
    columns, others = columns_from_objects(objects_of_lines(file, source, lines), wanted)
    if not lines:
        raise ComparisonsError(f"{source} is empty; write its rows first")
    return Table(columns, source, lines, others)


def _read_json(file: Binary, source: str, wanted: Collection[str] | None) -> Table:
    """A list of objects, or an object a line."""
    content = file.read()
    text = content.decode("utf-8-sig")
    if not text.lstrip().startswith("["):
        return _read_json_lines(io.BytesIO(content), source, wanted)
    columns, others = columns_from_objects(objects_of_list(text, source), wanted)
    if not columns and not others:
        raise ComparisonsError(f"{source} is empty; write its rows first")
    return Table(columns, source, others=others)


def _read_parquet(file: Binary, source: str, wanted: Collection[str] | None) -> Table:
    library, data = _parquet_library(source), io.BytesIO(file.read())
    try:
        if library == "pyarrow":
            from pyarrow import parquet

            frame = parquet.read_table(data)
        else:
            import polars

            frame = polars.read_parquet(data)
    except Exception as error:  # two libraries, and no base class between their errors
        raise ComparisonsError(f"{source} is not a whole Parquet file; write it again, or mend its ending") from error
    columns, others = columns_from_frame(frame, wanted)
    return Table(columns, source, others=others)


def _parquet_library(source: str) -> Library:
    library = installed("pyarrow", "polars")
    if library is None:
        raise ComparisonsError(f"{source}: Parquet needs pyarrow or polars: {INSTALL}")
    return library


def _chunks_of_rows(columns: Mapping[str, Column]) -> Iterator[list[tuple[Any, ...]]]:
    for start in range(0, len(next(iter(columns.values()))), CHUNK):
        slices = (column[start : start + CHUNK] for column in columns.values())
        yield list(zip(*(part.tolist() if isinstance(part, np.ndarray) else part for part in slices), strict=True))


_JSON = re.compile(r"\s*(?:\{|\[\s*\{)")
_READERS = {
    ".csv": _read_csv,
    ".tsv": _read_tsv,
    ".jsonl": _read_json_lines,
    ".ndjson": _read_json_lines,
    ".json": _read_json,
    ".parquet": _read_parquet,
    ".xlsx": _read_workbook,
}


def _write_tsv(file: io.BufferedIOBase, columns: Mapping[str, Column], source: str) -> None:
    _write_csv(file, columns, source, "\t")


def _write_csv(file: io.BufferedIOBase, columns: Mapping[str, Column], source: str, delimiter: str = ",") -> None:
    for rows in chain([[tuple(columns)]], _chunks_of_rows(columns)):
        text = io.StringIO(newline="")
        csv.writer(text, delimiter=delimiter).writerows(map(guarded, row) for row in rows)
        if "\0" in text.getvalue():
            raise ComparisonsError(f"{source}: a label holds a NUL character, which CSV cannot; write .jsonl instead")
        file.write(text.getvalue().encode())


def _write_json_lines(file: io.BufferedIOBase, columns: Mapping[str, Column], _source: str) -> None:
    encode = json.JSONEncoder(ensure_ascii=False).encode
    for rows in _chunks_of_rows(columns):
        objects = (dict(zip(columns, row, strict=True)) for row in rows)
        file.write("".join(f"{encode(value)}\n" for value in objects).encode())


def _write_parquet(file: io.BufferedIOBase, columns: Mapping[str, Column], source: str) -> None:
    library, data = _parquet_library(source), io.BytesIO()
    try:
        nw.from_dict(columns, backend=library).write_parquet(data)
    except Exception as error:  # as in reading
        raise ComparisonsError(f"{source}: Parquet cannot hold labels of mixed types; write .jsonl instead") from error
    file.write(data.getvalue())
