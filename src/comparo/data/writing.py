"""Columns into files: CSV, JSON and Parquet; no cell of CSV that is written here is a formula to a spreadsheet."""

import csv
import gzip
import io
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO
from uuid import uuid4

import narwhals as nw
import numpy as np

from comparo.data.columns import Column
from comparo.data.documents import csv_lines, guarded
from comparo.data.reading import CHUNK, WRITTEN, parquet_library, split_ending
from comparo.errors import ComparisonsError


def write_columns(path: str | os.PathLike[str], columns: Mapping[str, Column]) -> None:
    """Write columns to a file in the format of its ending.

    The file appears whole or not at all, and the same columns give the same bytes.
    """
    path = Path(path)
    if path.is_dir():
        raise ComparisonsError(f"{path} is a folder; name a file in it")
    if not path.parent.is_dir():
        raise ComparisonsError(f"the folder {path.parent} does not exist; create it first")
    ending, compressed = split_ending(path, WRITTEN)
    with (
        whole(path) as raw,
        gzip.GzipFile("", "wb", 6, raw, mtime=0) if compressed else nullcontext(raw) as file,
    ):
        _WRITERS[ending](file, columns, str(path))


@contextmanager
def whole(path: Path) -> Iterator[BinaryIO]:
    """A file to write to that appears under its name once all is written, or not at all."""
    temporary = path.parent / f".{uuid4().hex}.tmp"
    try:
        with temporary.open("xb") as file:
            yield file
        os.replace(temporary, path)
    except UnicodeEncodeError as error:
        raise ComparisonsError(f"{path}: a label is not valid Unicode ({error.reason}); rename it") from error
    except OSError as error:
        raise ComparisonsError(f"{path} cannot be written ({error.strerror})") from error
    finally:
        temporary.unlink(missing_ok=True)


def csv_text(columns: Mapping[str, Column]) -> str:
    """Columns as CSV, missing numbers as empty fields, and a quote before cells that a spreadsheet might execute.

    >>> csv_text({"item": ["ana", "=bo()"], "std": np.array([0.5, np.nan])})
    "item,std\\nana,0.5\\n'=bo(),\\n"
    """
    return csv_lines(chain([columns], chain.from_iterable(_chunks_of_rows(columns))))


def _chunks_of_rows(columns: Mapping[str, Column]) -> Iterator[list[tuple[Any, ...]]]:
    for start in range(0, len(next(iter(columns.values()))), CHUNK):
        slices = (column[start : start + CHUNK] for column in columns.values())
        yield list(zip(*(part.tolist() if isinstance(part, np.ndarray) else part for part in slices), strict=True))


def _write_csv(file: BinaryIO, columns: Mapping[str, Column], source: str, delimiter: str = ",") -> None:
    for rows in chain([[tuple(columns)]], _chunks_of_rows(columns)):
        text = io.StringIO(newline="")
        csv.writer(text, delimiter=delimiter).writerows(map(guarded, row) for row in rows)
        if "\0" in text.getvalue():
            raise ComparisonsError(f"{source}: a label holds a NUL character, which CSV cannot; write .jsonl instead")
        file.write(text.getvalue().encode())


def _write_json_lines(file: BinaryIO, columns: Mapping[str, Column], _source: str) -> None:
    encode = json.JSONEncoder(ensure_ascii=False).encode
    for rows in _chunks_of_rows(columns):
        objects = (dict(zip(columns, row, strict=True)) for row in rows)
        file.write("".join(f"{encode(value)}\n" for value in objects).encode())


def _write_parquet(file: BinaryIO, columns: Mapping[str, Column], source: str) -> None:
    library, data = parquet_library(source), io.BytesIO()
    try:
        nw.from_dict(columns, backend=library).write_parquet(data)
    except Exception as error:  # as in reading
        raise ComparisonsError(f"{source}: Parquet cannot hold labels of mixed types; write .jsonl instead") from error
    file.write(data.getvalue())


_WRITERS: dict[str, Callable[..., None]] = {
    ".csv": _write_csv,
    ".tsv": partial(_write_csv, delimiter="\t"),
    ".jsonl": _write_json_lines,
    ".ndjson": _write_json_lines,
    ".parquet": _write_parquet,
}
