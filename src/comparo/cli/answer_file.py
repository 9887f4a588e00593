"""The file that judgements are added to: whole lines only, one process at a time, and what it holds already."""

import csv
import json
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from comparo.data.documents import csv_line
from comparo.data.items import Items
from comparo.data.reading import read_columns
from comparo.errors import StoreError
from comparo.run.files import hold

NEEDED = ("first", "second", "p", "error")
LABELS = ("context", "first", "second")
JSON_LINES = (".jsonl", ".ndjson")

Key = tuple[Any, Any, Any]
logger = logging.getLogger(__name__)


class Names:
    """The labels of items, by what a file may hold of them: CSV has text where the items have numbers.

    >>> Names(Items.of([{"id": 7, "text": "A"}, {"id": 8, "text": "B"}])).key(None, "7", 8)
    (None, 7, 8)
    """

    def __init__(self, items: Items) -> None:
        self._contexts, self._ids = (set(labels.tolist()) for labels in (items.contexts, items.ids))
        self._written = [{str(label): label for label in labels} for labels in (self._contexts, self._ids)]
        self.has_contexts = self._contexts != {None}

    def key(self, context: Any, first: Any, second: Any) -> Key:
        """The labels that the items have, for those that a file has; one that no item has stays as it is."""
        shared = self._label(context, self._contexts, self._written[0]) if self.has_contexts else None
        return shared, *(self._label(label, self._ids, self._written[1]) for label in (first, second))

    @property
    def alike(self) -> bool:
        """Whether two labels are the same in CSV, such as 7 and "7"."""
        return sum(map(len, self._written)) < len(self._contexts) + len(self._ids)

    def _label(self, label: Any, known: set[Any], written: Mapping[str, Any]) -> Any:
        text = isinstance(label, list | dict)  # neither can be a label
        return label if not text and label in known else written.get(str(label), label)


class Answers:
    """A file of judgements, `known` being the pairs that it has answers to."""

    def __init__(self, path: Path, descriptor: int, columns: Sequence[str]) -> None:
        self.path, self.columns, self.known = path, list(columns), set[Key]()
        self.file, self.end = descriptor, os.fstat(descriptor).st_size
        self.is_csv = path.suffix.lower() == ".csv"

    def write(self, row: Mapping[str, Any]) -> None:
        """Add a row, the whole of its line or nothing."""
        if self.is_csv and not self.end:
            self._add(csv_line(self.columns))
        self._add(line(row, self.columns, self.is_csv))

    def _add(self, text: str) -> None:
        data = text.encode()
        try:
            written = 0
            while written < len(data):
                written += os.write(self.file, data[written:])
        except OSError as error:
            os.ftruncate(self.file, self.end)
            raise StoreError(
                f"{self.path} cannot be written to ({error.strerror}); make room. The judgements in it are whole, and "
                "the same command goes on from there"
            ) from error
        self.end += len(data)


def line(row: Mapping[str, Any], columns: Sequence[str], is_csv: bool) -> str:
    """A judgement as one line that can be read again.

    >>> line({"first": "ana", "p": float("nan")}, ["first", "p"], is_csv=False)
    '{"first": "ana", "p": null}\\n'
    """
    values = {name: None if row[name] != row[name] else row[name] for name in columns}
    text = csv_line(values.values()) if is_csv else json.dumps(values, ensure_ascii=False) + "\n"
    text = text.replace("\0", "\ufffd")  # readers of CSV take no NUL
    return text.encode("utf-8", "replace").decode()


@contextmanager
def open_answers(path: Path, columns: Sequence[str], names: Names) -> Iterator[Answers]:
    """A file to add judgements to, made if there is none; half a line at its end, as a kill leaves it, is removed.

    `columns` are those that a new file gets; one that is there keeps its own.
    """
    if path.suffix.lower() not in (".csv", *JSON_LINES):
        raise ValueError(f"--out {path}: judgements are written to a .csv or a .jsonl file; give such a name")
    if path.suffix.lower() == ".csv" and names.alike:
        raise ValueError(f"--out {path}: two labels, such as 7 and '7', are the same in CSV; give a .jsonl file")
    new = not path.exists()
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0), 0o666)
    except OSError as error:
        raise ValueError(f"--out {path} cannot be opened ({error.strerror}); choose another") from error
    try:
        hold(descriptor, path)
        answers = Answers(path, descriptor, columns)
        if answers.end:
            _take_up(answers, names)
        yield answers
    finally:
        if new and not os.fstat(descriptor).st_size:
            path.unlink(missing_ok=True)
        os.close(descriptor)


def _take_up(answers: Answers, names: Names) -> None:
    """Go on with a file that is there: check that it holds judgements, mend its end, and learn what is answered."""
    path = answers.path
    whole, size, top = _whole(path, answers.is_csv)
    if whole:
        header = _header(top, answers.is_csv)
        missing = [name for name in (*NEEDED, *(["context"] if names.has_contexts else [])) if name not in header]
        unknown = [name for name in header if name not in answers.columns]
        if missing or unknown:
            problem = f"no column {missing[0]!r}" if missing else f"a column {unknown[0]!r}, which judgements have not"
            raise ValueError(f"--out {path} has {problem}; choose another, or mend its first line")
        answers.columns = header
    else:
        begins = csv_line(answers.columns) if answers.is_csv else json.dumps({answers.columns[0]: ""})[:-2]
        if top[: len(begins)] != begins.encode()[: len(top)]:
            raise ValueError(f"--out {path} holds something else than judgements; choose another")
    if whole < size:
        os.ftruncate(answers.file, whole)
        answers.end = whole
        logger.warning("%s ended in half a line, which was removed; what it was about is asked again", path)
    if whole:
        answers.known = _answered(path, names)


def _whole(path: Path, is_csv: bool) -> tuple[int, int, bytes]:
    """Where the last whole line of a file ends, its size, and its first line; a field of CSV may hold newlines."""
    whole = size = quotes = 0
    top = b""
    with path.open("rb") as file:
        for text in file:
            top, size, quotes = top or text, size + len(text), quotes + text.count(b'"')
            if text.endswith(b"\n") and not (is_csv and quotes % 2):
                whole = size
    return whole, size, top


def _header(top: bytes, is_csv: bool) -> list[str]:
    """The columns that the first line names; none where it names none."""
    text = top.decode("utf-8-sig", "replace")
    if is_csv:
        return [name.strip() for name in next(csv.reader([text]), [])]
    try:
        first = json.loads(text)
    except ValueError:
        return []
    return list(first) if isinstance(first, dict) else []


def _answered(path: Path, names: Names) -> set[Key]:
    columns = read_columns(path, labels=LABELS).columns
    empty = [None] * len(columns["first"])
    rows = zip(*(columns.get(name, empty) for name in (*LABELS, "p", "error")), strict=True)
    return {names.key(*labels) for *labels, p, error in rows if not error and p not in (None, "")}
