"""The items to rank: their names, and the context that each belongs to."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from comparo.columns import factorise
from comparo.frames import ComparisonsError
from comparo.tables import Table, read_columns

CONTEXTS = ("context", "context_id")


def read_items(path: str | os.PathLike[str]) -> dict[Any, list[Any]]:
    """The names of the items in a file, by context; without a column `context` (or `context_id`) all under None.

    A .csv, .jsonl or .parquet file (also gzipped) has them in a column `id`, or in its first column; a .txt file has
    one a line. A name that stands twice in a context, an empty name and a lone item are errors that name the row.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "items.csv")
    ...     _ = path.write_text("id,text\\nana,A story.\\nbo,Another.\\n")
    ...     read_items(path)
    {None: ['ana', 'bo']}
    """
    table = _lines(Path(path)) if str(path).lower().endswith(".txt") else read_columns(path)
    name = "id" if "id" in table.columns else next(iter(table.columns), "")
    if not name or not len(table.columns[name]):
        raise ComparisonsError(f"there are no items in {path}; give at least two, one a row")
    column = next((column for column in CONTEXTS if column in table.columns and column != name), None)
    labels, (codes,) = factorise(table, name)
    contexts, (context,) = factorise(table, column) if column else (np.array([None]), (np.zeros_like(codes),))
    key = context.astype(np.int64) * len(labels) + codes
    order = np.argsort(key, kind="stable")
    twice = np.sort(order[1:][np.diff(key[order]) == 0])
    if twice.size:
        raise table.error(twice, name, f"{labels[codes[twice[0]]]!r} stands there before; give each item its own name")
    groups = {label: labels[codes[context == code]].tolist() for code, label in enumerate(contexts.tolist())}
    for code, (label, names) in enumerate(groups.items()):
        if len(names) < 2:
            row = np.flatnonzero(context == code)
            place = "" if label is None else f" in context {label!r}"
            raise table.error(row, name, f"{names[0]!r} is the only item{place}; there is nothing to compare it with")
    return groups


def _lines(path: Path) -> Table:
    """The lines of a text file that are not blank, as a table of one column."""
    if not path.is_file():
        raise ComparisonsError(f"{path} is not a file; check the name (the working folder is {Path.cwd()})")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ComparisonsError(f"{path} is not UTF-8 text ({error.reason}); save it again as UTF-8") from error
    lines = [(number, line.strip()) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    return Table({"id": [line for _, line in lines]}, str(path), [number for number, _ in lines])
