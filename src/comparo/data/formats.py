"""Read files into a `Table`, and write columns to files: CSV, JSON and Parquet; spreadsheets are only read.

CSV and JSON need no library; Parquet and .xlsx need one that is installed. Files are untrusted: they are parsed, never
evaluated, and no cell of CSV that is written here is a formula to a spreadsheet.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import re
import sys
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from itertools import accumulate, chain, islice
from pathlib import Path
from typing import Any, BinaryIO

import narwhals as nw
import numpy as np

from comparo.data.columns import (
    CHUNK,
    INSTALL,
    Column,
    Library,
    Table,
    columns_from_frame,
    columns_from_objects,
    installed,
)
from comparo.data.documents import csv_lines, rows_of_workbook, unguarded
from comparo.data.opening import VALUE, check_parquet, check_regular, check_size, most_bytes, unpacked, whole
from comparo.errors import ComparisonsError

WRITTEN = (".csv", ".jsonl", ".parquet")
READ = (*WRITTEN, ".tsv", ".ndjson", ".json", ".xlsx")


def read_columns(
    path: str | os.PathLike[str], wanted: Collection[str] | None = None, labels: Collection[str] = ()
) -> Table:
    """The columns of a file in the format of its ending; only the `wanted` ones if given.

    Values of a CSV file or a spreadsheet are strings. A key that a JSON object does not have is None. In CSV, the quote
    that `write_columns` puts before a possible formula is removed from the columns `labels`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "pairs.csv")
    ...     _ = path.write_text("first,second,p\\nana,bo,0.7\\n")
    ...     read_columns(path, wanted=["first", "p"]).columns
    {'first': ['ana'], 'p': ['0.7']}
    """
    path = Path(path)
    check_regular(path)
    ending, _ = split_ending(path, READ)
    content = unpacked(path)
    is_guarded = ending == ".csv" and b"'" in content.getvalue()
    table = _table_of(_READERS[ending], content, str(path), wanted)
    if not (labels and is_guarded):
        return table
    columns = dict(table.columns)
    for name, column in table.columns.items():
        if name in labels:
            columns[name] = [unguarded(cell) if cell[:1] == "'" else cell for cell in column]
    return replace(table, columns=columns)


def columns_from_text(text: str, source: str) -> Table:
    """The columns of a text: JSON if it begins with a brace or a list of objects, else CSV.

    `source` names the text in errors.
    """
    content = io.BytesIO(text.encode() if text.strip() else b"")
    return _table_of(_read_json if _BEGINS.match(text) else _read_csv, content, source)


def _table_of(
    read: Callable[..., Table], content: io.BytesIO, source: str, wanted: Collection[str] | None = None
) -> Table:
    """What a reader makes of a file; a ComparisonsError where it is empty."""
    try:
        table = read(content, source, wanted) if content.getbuffer() else None
    except UnicodeDecodeError as error:
        raise ComparisonsError(f"{source} is not UTF-8 text ({error.reason}); save it again as UTF-8") from error
    if table is None or not (table.columns or table.others):
        raise ComparisonsError(f"{source} is empty; write its rows first")
    return table


def split_ending(path: Path, known: Sequence[str]) -> tuple[str, bool]:
    """The ending of a file, which must be one of those `known`, and whether it is compressed (.gz)."""
    name = path.name.lower()
    compressed = name.endswith(".gz")
    ending = Path(name.removesuffix(".gz")).suffix
    if ending in known:
        return ending, compressed
    raise ComparisonsError(
        f"{path}: the ending is not a known one; save it as {', '.join(known)}, each also with .gz behind"
    )


def parquet_library(source: str) -> Library:
    """The library that reads and writes Parquet; `source` is for the error where none is installed."""
    library = installed("pyarrow", "polars")
    if library is None:
        raise ComparisonsError(f"{source}: Parquet needs pyarrow or polars: {INSTALL}")
    return library


def _read_csv(file: io.BytesIO, source: str, wanted: Collection[str] | None, delimiters: str = ",\t;") -> Table:
    content = file.getvalue()
    if (end := content.find(0) + 1) and content.decode("utf-8-sig"):
        number = len(content[:end].splitlines())
        raise ComparisonsError(f"{source}, line {number}: a NUL byte; this is not text, save it as UTF-8 CSV")
    text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
    top = next(text)
    delimiter = max(delimiters, key=top.count)
    reader = csv.reader(chain([top], text), delimiter=delimiter, skipinitialspace=f"{delimiter} " in top, strict=True)
    lines = array("q")
    longest = csv.field_size_limit(min(most_bytes(), 2**31 - 1))
    try:
        header = [name.strip() for name in next(reader)]
        if not header:
            raise ComparisonsError(f"{source}, line 1: the line is blank; it must name the columns")
        return _table(header, _rows_of_csv(reader, len(header), source, lines), lines, source, wanted)
    except csv.Error as error:
        raise ComparisonsError(
            f"{source}, line {reader.line_num}: this is not CSV ({error}); correct or drop the line"
        ) from error
    finally:
        csv.field_size_limit(longest)


def _table(
    header: list[str],
    chunks: Iterable[list[list[str]]],
    lines: Sequence[int],
    source: str,
    wanted: Collection[str] | None,
) -> Table:
    columns: dict[str, list[Any]] = {name: [] for name in header if wanted is None or name in wanted}
    if twice := [name for name in columns if header.count(name) > 1]:
        raise ComparisonsError(f"{source}, line 1: there are two columns {twice[0]!r}; rename one")
    for chunk in chunks:
        for name, cells in zip(header, zip(*chunk, strict=True), strict=True):
            if name in columns:
                columns[name].extend(map(sys.intern, cells))  # repeated labels would take most of the memory
        check_size(VALUE * len(lines) * len(columns), source)
    return Table(dict(columns), source, lines, tuple(name for name in header if name not in columns))


def _rows_of_csv(reader: Any, width: int, source: str, lines: array[int]) -> Iterator[list[list[str]]]:
    """The rows that are not blank, some at a time; the number of the last line of each is appended to `lines`."""
    last = reader.line_num
    while chunk := list(islice(reader, CHUNK)):
        numbers: Sequence[int] = range(last + 1, reader.line_num + 1)
        if len(numbers) > len(chunk):  # line breaks within quotes
            breaks = (1 + len(_BREAK.findall("\f".join(row))) for row in chunk)
            numbers = list(accumulate(breaks, initial=last))[1:]
        last = reader.line_num
        if set(map(len, chunk)) != {width}:
            for row, number in zip(chunk, numbers, strict=True):
                if len(row) not in (0, width):
                    raise ComparisonsError(
                        f"{source}, line {number}: {len(row)} fields where the header has {width}; correct the line, "
                        "or quote the field that holds the separator"
                    )
            numbers = [number for row, number in zip(chunk, numbers, strict=True) if row]
            chunk = [row for row in chunk if row]
        lines.extend(numbers)
        if chunk:
            yield chunk


def _read_json_lines(file: io.BytesIO, source: str, wanted: Collection[str] | None) -> Table:
    lines = array("q")
    columns, others = columns_from_objects(_objects_of_lines(file, source, lines), wanted, source)
    return Table(columns, source, lines, others)


def _read_json(file: io.BytesIO, source: str, wanted: Collection[str] | None) -> Table:
    """A list of objects, one object, or one object per line."""
    content = file.read()
    text = content.decode("utf-8-sig")
    _check_objects(text, source)
    try:
        rows = _JSON.decode(text)
    except (ValueError, RecursionError) as error:
        if isinstance(error, json.JSONDecodeError) and not text.lstrip().startswith("["):
            return _read_json_lines(io.BytesIO(content), source, wanted)
        raise ComparisonsError(f"{source} is not JSON ({error}); write it again") from error
    rows = rows if isinstance(rows, list) else [rows]
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise ComparisonsError(f"{source}, row {number}: {row!r:.60} is not an object; each row must be one")
    columns, others = columns_from_objects(rows, wanted, source)
    return Table(columns, source, others=others)


def _read_parquet(file: io.BytesIO, source: str, wanted: Collection[str] | None) -> Table:
    library = parquet_library(source)
    try:
        check_parquet(file, library, source)
        file.seek(0)
        frame = nw.read_parquet(file, backend=library)
    except ComparisonsError:
        raise
    except Exception as error:  # two libraries, whose errors have no common base class
        reason = str(error).partition("\n")[0]
        raise ComparisonsError(
            f"{source} cannot be read as Parquet ({reason}); write it again, each column by a name of its own, or "
            "correct its ending"
        ) from error
    columns, others = columns_from_frame(frame, wanted)
    return Table(columns, source, others=others)


def _read_workbook(file: io.BytesIO, source: str, wanted: Collection[str] | None) -> Table:
    header, rows, lines = rows_of_workbook(file, source)
    return _table(header, [rows] if rows else [], lines, source, wanted)


_BREAK = re.compile(r"\r\n?|\n")
_BEGINS = re.compile(r"\s*(?:\{|\[\s*\{)")
_READERS: dict[str, Callable[..., Table]] = {
    ".csv": _read_csv,
    ".tsv": partial(_read_csv, delimiters="\t"),
    ".jsonl": _read_json_lines,
    ".ndjson": _read_json_lines,
    ".json": _read_json,
    ".parquet": _read_parquet,
    ".xlsx": _read_workbook,
}


def _objects_of_lines(file: io.BytesIO, source: str, lines: array[int]) -> Iterator[Mapping[str, Any]]:
    """The object on each line that is not blank; the number of the line is appended to `lines`."""
    with io.TextIOWrapper(file, encoding="utf-8-sig") as text:
        for number, line in enumerate(text, 1):
            if line.isspace():
                continue
            _check_objects(line, source)
            try:
                value = _JSON.decode(line)
            except (ValueError, RecursionError) as error:
                raise ComparisonsError(
                    f"{source}, line {number}: this is not JSON ({error}); correct the line"
                ) from error
            if not isinstance(value, dict):
                raise ComparisonsError(
                    f"{source}, line {number}: a {type(value).__name__} is not a JSON object; each line must be one"
                )
            lines.append(number)
            yield value


def _check_objects(text: str, source: str) -> None:
    """Raise a ComparisonsError where a JSON text holds too many objects and lists, which take 56 bytes or more."""
    check_size(4 * VALUE * (text.count("{") + text.count("[")), source)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; a ValueError where it has a key twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError(f"an object has the key {Counter(name for name, _ in pairs).most_common(1)[0][0]!r} twice")
    return found


_JSON = json.JSONDecoder(object_pairs_hook=_object)


def write_columns(path: str | os.PathLike[str], columns: Mapping[str, Column]) -> None:
    """Write columns to a file in the format of its ending.

    The file appears whole or not at all, and the same columns give the same bytes.
    """
    path = Path(path)
    if path.is_dir():
        raise ComparisonsError(f"{path} is a folder; name a file in it")
    if not path.parent.is_dir():
        raise ComparisonsError(f"the folder {path.parent} does not exist; create it first")
    ending, compressed = split_ending(path, (*WRITTEN, *(".trec",) * ("Q0" in columns)))
    with (
        whole(path) as raw,
        gzip.GzipFile("", "wb", 6, raw, mtime=0) if compressed else nullcontext(raw) as file,
    ):
        _WRITERS[ending](file, columns, str(path))


def csv_text(columns: Mapping[str, Column]) -> str:
    """Columns as CSV, missing numbers as empty fields, and a quote before cells that a spreadsheet might execute.

    >>> csv_text({"item": ["ana", "=bo()"], "std": np.array([0.5, np.nan])})
    "item,std\\nana,0.5\\n'=bo(),\\n"
    """
    return "".join(_chunks_of_csv(columns))


def _chunks_of_csv(columns: Mapping[str, Column]) -> Iterator[str]:
    yield csv_lines([columns])
    yield from map(csv_lines, _chunks_of_rows(columns))


def _chunks_of_rows(columns: Mapping[str, Column]) -> Iterator[list[tuple[Any, ...]]]:
    rows = len(next(iter(columns.values())))
    for start in range(0, rows, CHUNK):
        slices = [column[start : start + CHUNK] for column in columns.values()]
        lists = [part.tolist() if isinstance(part, np.ndarray) else part for part in slices]
        yield list(zip(*lists, strict=True))


def _write_csv(file: BinaryIO, columns: Mapping[str, Column], source: str) -> None:
    for text in _chunks_of_csv(columns):
        if "\0" in text:
            raise ComparisonsError(f"{source}: a label holds a NUL character, which CSV cannot; write .jsonl instead")
        file.write(text.encode())


def _write_json_lines(file: BinaryIO, columns: Mapping[str, Column], _source: str) -> None:
    for rows in _chunks_of_rows(columns):
        objects = (json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False) for row in rows)
        file.write("".join(f"{line}\n" for line in objects).encode())


def _write_trec(file: BinaryIO, columns: Mapping[str, Column], _source: str) -> None:
    for rows in _chunks_of_rows(columns):
        file.write("".join(" ".join(map(str, row)) + "\n" for row in rows).encode())


def _write_parquet(file: BinaryIO, columns: Mapping[str, Column], source: str) -> None:
    library, data = parquet_library(source), io.BytesIO()
    try:
        nw.from_dict(columns, backend=library).write_parquet(data)
    except Exception as error:  # as in reading
        raise ComparisonsError(f"{source}: Parquet cannot hold labels of mixed types; write .jsonl instead") from error
    file.write(data.getvalue())


_WRITERS: dict[str, Callable[..., None]] = {
    ".csv": _write_csv,
    ".jsonl": _write_json_lines,
    ".parquet": _write_parquet,
    ".trec": _write_trec,
}
