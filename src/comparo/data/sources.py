"""The sources of items, each as a `Table`, and the columns of such a table, each checked.

Sources are files, folders, standard input, lists, mappings, frames and data sets. Columns hold contexts, texts, scores
and other numbers; an error names the row, the column and the value, before a judge is called.
"""

import hashlib
import logging
import os
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comparo.data.columns import (
    Column,
    Table,
    as_number,
    columns_from_frame,
    columns_from_objects,
    factorise,
    is_blank,
    shown,
)
from comparo.data.documents import docx_text, pdf_text
from comparo.data.formats import columns_from_text, read_columns
from comparo.data.images import image_url
from comparo.data.opening import bounded, unpacked
from comparo.data.run_folder import database_of, items_of_run
from comparo.data.sanitize import visible
from comparo.data.wordings import few
from comparo.errors import ComparisonsError, Message
from comparo.types import Array, Index

STANDARD_INPUT = "standard input"
TEXTS = (".txt", ".md", ".docx", ".pdf")  # files of a folder that are one text each
DOCUMENTS = (*TEXTS[1:], ".doc", ".odt", ".rtf")  # files that hold one text; a .txt file may also hold one per line
IMAGES = (".png", ".jpg", ".jpeg")  # also one item each, which only people can read
LONGEST_LABEL = 60  # characters; a context that is longer gets a label made from it

logger = logging.getLogger(__name__)


def table_of(data: Any, header: bool, has_images: bool = False) -> Table:
    """Any source of items as a `Table`; `header` is true if standard input begins with column names.

    With `has_images`, images of a folder are items too.
    """
    if isinstance(data, Table):
        return data
    if isinstance(data, (str, os.PathLike)):
        path = Path(data)
        if str(path) == "-":
            return _standard_input(header)
        if (database := database_of(path)) is not None:
            return items_of_run(database)
        if os.path.isdir(path):
            return _folder(path, (*TEXTS, *IMAGES) if has_images else TEXTS)
        if path.suffix.lower() in DOCUMENTS and os.path.exists(path):
            remedy = "put each text into a .txt, .md, .docx or .pdf file of its own, and name their folder"
            raise ComparisonsError(f"{path}: this is one document; {remedy}")
        if path.suffix.lower() == ".txt":
            return _lines(text_of(path), str(path))
        return read_columns(path)
    if hasattr(data, "with_format"):
        if isinstance(data, Mapping) or not hasattr(data, "num_rows"):
            kind = type(data).__name__
            raise ComparisonsError(f"{kind} is not one loaded split; give load_dataset(…, split='train') or the like")
        data = data.with_format("arrow")[:]
    if isinstance(data, Mapping):
        return Table({"id": list(data), "text": list(data.values())})
    if isinstance(data, (list, tuple)):
        if not any(isinstance(row, Mapping) for row in data):
            return Table({"text": data})
        if bad := [row for row, value in enumerate(data) if not isinstance(value, Mapping)]:
            raise Table({}).error(bad, None, f"{shown(data[bad[0]])} is no mapping; give all rows so, or all as texts")
        return Table({str(name): column for name, column in columns_from_objects(data)[0].items()})
    try:
        columns, others = columns_from_frame(data)
    except TypeError as error:
        raise ComparisonsError(
            f"a {type(data).__name__} does not hold items; accepted are the path of a file or folder, '-' for standard "
            "input, a list of texts or mappings, a mapping from id to text, a pandas, polars or pyarrow frame, and a "
            "data set of Hugging Face"
        ) from error
    return Table(columns, others=others)


def _standard_input(header: bool) -> Table:
    if sys.stdin is None:  # the caller closed it
        raise ComparisonsError(f"{STANDARD_INPUT} is closed; pipe the texts into it, or name a file")
    text = _decoded(bounded(sys.stdin.buffer, STANDARD_INPUT).getvalue(), STANDARD_INPUT)
    names = {name.strip(' "') for name in re.split("[,;\t]", text.split("\n", 1)[0])}
    if header or text.lstrip().startswith(("{", "[{")) or names & {"id", "text"}:
        return columns_from_text(text, STANDARD_INPUT)
    with suppress(ComparisonsError):
        table = columns_from_text(text, STANDARD_INPUT)
        if len(table.columns) > 1:
            return table
    return _lines(text, STANDARD_INPUT)


def _folder(path: Path, endings: Sequence[str]) -> Table:
    try:
        there = [file for file in path.iterdir() if file.is_file() and not file.name.startswith(".")]
    except OSError as error:
        raise ComparisonsError(f"the folder {path} cannot be read ({error.strerror}); check its permissions") from error
    there = sorted(file for file in there if file.stem.lower() != "readme")  # which is about the folder
    files = [file for file in there if file.suffix.lower() in endings]
    unread = [file.name for file in there if file not in files]
    names = few(map(visible, unread))
    if not files:
        *some, last = endings
        only = f", only {names}" if unread else ""
        raise ComparisonsError(
            f"the folder {path} has no {', '.join(some)} or {last} files{only}; put each text into one, or name a file"
        )
    if unread:
        logger.warning("%s: not read, save them as .txt to add them: %s", path, names)
    texts = [_text(file).rstrip() for file in files]
    for file, text in zip(files, texts, strict=True):
        if not text:
            raise ComparisonsError(f"{file} has no text; write it, or move the file away")
    return Table({"id": [file.stem for file in files], "text": texts}, str(path))


def _text(path: Path) -> str:
    kind = path.suffix.lower()
    if kind in IMAGES:
        return image_url(unpacked(path).getvalue(), str(path))
    if kind == ".docx":
        return docx_text(path)
    if kind == ".pdf":
        return pdf_text(path)
    return text_of(path)


def _lines(text: str, source: str) -> Table:
    """The lines that are not blank, each an item and its own id."""
    lines = {number: line.strip() for number, line in enumerate(text.split("\n"), 1) if line.strip()}
    return Table({"id": list(lines.values()), "text": list(lines.values())}, source, list(lines))


def text_of(path: Path) -> str:
    """The text of a file of UTF-8, without a byte order mark and with lines that end with newlines."""
    return _decoded(unpacked(path).getvalue(), str(path))


def _decoded(content: bytes, source: str) -> str:
    """UTF-8 as text without a byte order mark, its lines ended by newlines."""
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        raise ComparisonsError(f"{source} is not UTF-8 text ({error.reason}); save it again as UTF-8") from error


def column_of_role(table: Table, role: str, name: str | None) -> str | None:
    """The column of a role: `name`, which must exist, or by default the column called like the role, if any."""
    if name is not None and name not in table.columns:
        raise no_column(table, name, role)
    return name or (role if role in table.columns else None)


def no_column(table: Table, name: str, role: str) -> ComparisonsError:
    """The error for a column that is missing, with the columns that are there."""
    option = f"columns.{role}" if role in ("id", "text", "context_id") else role
    return ComparisonsError(
        f"{table.source or 'the data'}: there is no column {name!r}; the columns are "
        f"{', '.join(chain(table.columns, table.others)) or 'none'}. "
        + Message(f"Name the right one with {{{option}:'NAME'}}")
    )


def context_codes(
    table: Table, rows: int, name: str | None, label_name: str | None
) -> tuple[NDArray[Any], Index, tuple[str | None, ...]]:
    """The labels of the contexts (C,), the code of each row's context (N,), and the texts of the contexts (C,)."""
    values: list[Any] = []
    if name:
        values = [None if is_blank(value) else value for value in table.columns[name]]
    if label_name:
        labels, (codes,) = factorise(table, label_name)
        if bad := [row for row, value in enumerate(values) if not isinstance(value, str | None)]:
            raise table.error(bad, name, f"{shown(values[bad[0]])} is not text; put it in quotes")
    elif name and any(value is not None for value in values):
        distinct = {value for value in values if isinstance(value, str)}
        short = {text: _label(text) for text in distinct}
        column = [short[value] if isinstance(value, str) else value for value in values]
        labels, (codes,) = factorise(replace(table, columns={name: column}), name)
    else:
        return np.array([None]), np.zeros(rows, dtype=np.int32), (None,)
    texts: list[str | None] = [None] * len(labels)
    bad = []
    for row, (code, value) in enumerate(zip(codes.tolist(), values, strict=False)):
        if texts[code] is None and isinstance(value, str):
            texts[code] = value
        elif isinstance(value, str) and value != texts[code]:
            bad.append(row)
    if bad:
        label = shown(labels[codes[bad[0]]])
        raise table.error(bad, name, f"context {label} had another text before; give each text its own context_id")
    return labels, codes, tuple(texts)


def _label(text: str) -> str:
    """A context's text as its label: itself if it is short, else its beginning and the first digits of its SHA-256."""
    if len(text) <= LONGEST_LABEL:
        return text
    return f"{' '.join(text[:48].split())}… {hashlib.sha256(text.encode()).hexdigest()[:8]}"


def checked_texts(table: Table, name: str | None) -> tuple[str, ...]:
    """The texts (N,) in the column `name`, which must be there; none of them is blank."""
    if name is None:
        raise no_column(table, "text", "text")
    column = table.columns[name]
    if bad := [row for row, text in enumerate(column) if not isinstance(text, str) or is_blank(text)]:
        text = column[bad[0]]
        problem = "there is no text; write it" if is_blank(text) else f"{shown(text)} is not text; put it in quotes"
        raise table.error(bad, name, f"{problem}, or drop the row")
    return tuple(column)


def checked_scores(table: Table, chosen: str | Sequence[str] | None) -> dict[str, Array]:
    """The scores (N,) by name: the `chosen` ones, or by default all columns marked as scores."""
    marked = [name for name in table.columns if name == "score" or name.startswith("score_")]
    found = {name.removeprefix("score_"): (name, table.columns[name]) for name in marked}
    objects = table.columns.get("scores", ())
    if any(isinstance(value, Mapping) for value in objects):
        if bad := [row for row, value in enumerate(objects) if not (isinstance(value, Mapping) or is_blank(value))]:
            problem = f"{shown(objects[bad[0]])} is not an object of names and numbers; correct it"
            raise table.error(bad, "scores", problem)
        nested, _ = columns_from_objects(value if isinstance(value, Mapping) else {} for value in objects)
        found |= {str(name): (f"scores.{name}", column) for name, column in nested.items()}
    if chosen is not None:
        chosen = [chosen] if isinstance(chosen, str) else chosen
        every = {name: (name, column) for name, column in table.columns.items()} | found
        if missing := [name for name in chosen if name not in every]:
            raise ComparisonsError(
                f"{table.source or 'the data'}: there are no scores {missing[0]!r}; there are "
                f"{', '.join(found) or 'none'}, and the columns {', '.join(table.columns)}. "
                + Message("Name others with {columns.scores:'NAME'}")
            )
        found = {name: every[name] for name in chosen}
    return {name: column_of_numbers(table, *place) for name, place in found.items()}


def checked_numbers(table: Table, chosen: Mapping[str, str]) -> dict[str, Array]:
    """The columns of numbers (N,) by name, chosen by an option each; every row must have one."""
    found = {}
    for name, option in chosen.items():
        if name not in table.columns:
            raise no_column(table, name, option)
        found[name] = column_of_numbers(table, name, table.columns[name], option)
        if (bad := np.flatnonzero(np.isnan(found[name]))).size:
            remedy = Message(f"give every item one, or leave {{{option}}} out")
            raise table.error(bad, name, "there is no number; " + remedy)
    return found


def column_of_numbers(table: Table, name: str, column: Column, flag: str = "scores") -> Array:
    """The numbers (N,) of a column, NaN where it is empty; an error names the parameter that chose it."""
    values = np.array([as_number(value) for value in column])
    if bad := np.flatnonzero(np.isinf(values)).tolist():
        problem = f"{shown(column[bad[0]])} is not a number; correct it, leave it empty, or choose other {flag}"
        raise table.error(bad, name, problem)
    return values


def check_characters(table: Table, name: str) -> None:
    """Raise for a lone surrogate (a cut JSON escape), which can neither be sent to a judge nor stored."""
    strings = [value if isinstance(value, str) else "" for value in table.columns[name]]
    try:
        "".join(strings).encode()
    except UnicodeEncodeError as error:
        bad = [row for row, value in enumerate(strings) if any("\ud800" <= letter <= "\udfff" for letter in value)]
        problem = f"{error.object[error.start]!a} is half a character; write the whole, or drop it"
        raise table.error(bad, name, problem) from None
