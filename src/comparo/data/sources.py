"""The sources of items: files, folders, standard input, lists, mappings, frames and data sets, each as a `Table`."""

import logging
import os
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from comparo.data.columns import Table, columns_from_frame, shown
from comparo.data.documents import docx_text, image_text, pdf_text
from comparo.data.reading import columns_from_objects, columns_from_text, read_columns
from comparo.data.run_folder import database_of, items_of_run
from comparo.data.sanitize import visible
from comparo.errors import ComparisonsError

STANDARD_INPUT = "standard input"
TEXTS = (".txt", ".md", ".docx", ".pdf")  # files of a folder that are one text each
DOCUMENTS = (*TEXTS[1:], ".doc", ".odt", ".rtf")  # files that hold one text; a .txt file may also hold one per line
IMAGES = (".png", ".jpg", ".jpeg")  # also one item each, which only people can read
NAMED = 5  # files that are not read of which a message has the names

logger = logging.getLogger(__name__)


def table_of(data: Any, header: bool, has_images: bool = False) -> Table:
    """The columns of any source of items; `header` is true where standard input begins with the names of columns.

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
            raise ComparisonsError(
                f"{path}: this is one document; put each text into a .txt, .md, .docx or .pdf file of its own, all in "
                "one folder, and name the folder"
            )
        return _lines(_content(path), str(path)) if path.suffix.lower() == ".txt" else read_columns(path)
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
    text = _decoded(sys.stdin.buffer.read(), STANDARD_INPUT)
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
    names = ", ".join(map(visible, unread[:NAMED])) + (f" and {len(unread) - NAMED} more" if unread[NAMED:] else "")
    if not files:
        raise ComparisonsError(
            f"the folder {path} has no {', '.join(endings[:-1])} or {endings[-1]} files"
            f"{f', only {names}' if unread else ''}; put each text into one, or name a file"
        )
    if unread:
        logger.warning("%s: not read, save them as .txt to add them: %s", path, names)
    texts = [_text(file).rstrip() for file in files]
    for file, text in zip(files, texts, strict=True):
        if not text:
            raise ComparisonsError(f"{file} has no text; write it, or move the file away")
    return Table({"id": [file.stem for file in files], "text": texts}, str(path))


def _text(path: Path) -> str:
    """The text of a file of a folder."""
    kind = path.suffix.lower()
    if kind in IMAGES:
        return image_text(path)
    return docx_text(path) if kind == ".docx" else pdf_text(path) if kind == ".pdf" else _content(path)


def _lines(text: str, source: str) -> Table:
    """The lines that are not blank, each an item and its own id."""
    lines = {number: line.strip() for number, line in enumerate(text.split("\n"), 1) if line.strip()}
    return Table({"id": list(lines.values()), "text": list(lines.values())}, source, list(lines))


def _content(path: Path) -> str:
    try:
        return _decoded(path.read_bytes(), str(path))
    except OSError as error:
        raise ComparisonsError(
            f"{path} cannot be read ({error.strerror}); check the name (the working folder is {Path.cwd()})"
        ) from error


def _decoded(content: bytes, source: str) -> str:
    """UTF-8 as text without a byte order mark, its lines ended by newlines."""
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        raise ComparisonsError(f"{source} is not UTF-8 text ({error.reason}); save it again as UTF-8") from error
