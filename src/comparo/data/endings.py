"""The files that are read and written, by the endings of their names, and the library that Parquet needs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from comparo.data.frames import INSTALL, Library, installed
from comparo.errors import ComparisonsError

WRITTEN = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet")
READ = (*WRITTEN, ".json", ".xlsx")


def split_ending(path: Path, known: Sequence[str]) -> tuple[str, bool]:
    """The ending of a file, which must be one of those `known`, and whether it is compressed (.gz).

    >>> split_ending(Path("pairs.CSV.gz"), READ)
    ('.csv', True)
    """
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


def parquet_library(source: str) -> Library:
    """The library that reads and writes Parquet; `source` is for the error where none is installed.

    >>> parquet_library("pairs.parquet")
    'pyarrow'
    """
    library = installed("pyarrow", "polars")
    if library is None:
        raise ComparisonsError(f"{source}: Parquet needs pyarrow or polars: {INSTALL}")
    return library
