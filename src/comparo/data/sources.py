"""The sources of items: files, folders, standard input, lists, mappings, frames and data sets, each as a `Table`."""

import json
import logging
import os
import re
import shutil
import sqlite3
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import numpy as np

from comparo.data.columns import Table, columns_from_frame, shown
from comparo.data.documents import docx_text, pdf_text
from comparo.data.reading import columns_from_objects, columns_from_text, read_columns
from comparo.data.sanitize import visible
from comparo.errors import ComparisonsError

STANDARD_INPUT = "standard input"
DATABASE = "judgements.db"
ENDINGS = (".db", ".sqlite", ".sqlite3")
TEXTS = (".txt", ".md", ".docx", ".pdf")  # files of a folder that are one text each
DOCUMENTS = (*TEXTS[1:], ".doc", ".odt", ".rtf")  # files that hold one text; a .txt file may also hold one per line
NAMED = 5  # files that are not read of which a message has the names

logger = logging.getLogger(__name__)
Row = TypeVar("Row")


def database_of(path: str | os.PathLike[str]) -> Path | None:
    """The database that a path means, itself or in a run folder; None where it means something else.

    Other databases are not read, because it is unknown which of their tables is meant.

    >>> database_of("runs/first/judgements.db"), database_of("pairs.csv")
    (PosixPath('runs/first/judgements.db'), None)
    """
    path = Path(path)
    if os.path.isdir(path):
        return path / DATABASE if os.path.isfile(path / DATABASE) else None  # False also where it may not be read
    return path if path.suffix.lower() in ENDINGS else None


def judged(database: Path) -> Table:
    """The answers of a run in the order of their arrival: first, second, p and, if any, weight, context and judge.

    The judge is called voter where people voted on ballots. Judgements that failed or were withdrawn are left out.
    """
    with _opened(database, "judgements", "first, second, p") as connection:
        rows = _answers(connection, "p, weight", str(database.parent))
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        has_ballots = "ballots" in tables and connection.execute("SELECT 1 FROM ballots LIMIT 1").fetchone()
    if not rows:
        raise ComparisonsError(f"{database.parent} holds no answers yet; run its command again to go on")
    context, first, second, judge, p, weight = zip(*rows, strict=True)
    columns: dict[str, Any] = {"first": _labels(first), "second": _labels(second), "p": np.array(p, dtype=np.float64)}
    if any(each != 1 for each in weight):
        columns["weight"] = np.array(weight, dtype=np.float64)
    if any(each != "null" for each in context):
        columns["context"] = _labels(context)
    if any(each is not None for each in judge):
        columns["voter" if has_ballots else "judge"] = list(judge)
    return Table(columns, str(database.parent))


def standing(connection: sqlite3.Connection) -> str:
    """The condition that a judgement of a run was not withdrawn; an older folder has no such table.

    >>> standing(sqlite3.connect(":memory:"))
    'TRUE'
    """
    (there,) = connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'withdrawn'").fetchone()
    return "number NOT IN (SELECT number FROM withdrawn)" if there else "TRUE"


def masses(database: Path) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The probability of the labels in the answers that `judged` reads, in the same order; NaN where it is unknown."""
    with _opened(database, "judgements", "mass") as connection:
        rows = _answers(connection, "mass")
    return np.array([np.nan if mass is None else mass for *_, mass in rows], dtype=np.float64)


def _answers(connection: sqlite3.Connection, columns: str, source: str = "") -> list[tuple[Any, ...]]:
    """Context, first, second, voice and some columns of the answers that count, in the order of their arrival."""
    names = {row[1] for row in connection.execute("PRAGMA table_info(judgements)")}
    voice = "voice" if "voice" in names else "NULL"  # an older folder has no such column
    rows = connection.execute(
        f"SELECT context, first, second, {voice}, {columns} FROM judgements WHERE error IS NULL AND "
        f"{standing(connection)} ORDER BY number"
    )
    return list(counted(connection, ((row[:4], True, row) for row in rows), source))


def counted(
    connection: sqlite3.Connection, rows: Iterable[tuple[tuple[Any, ...], bool, Row]], source: str
) -> Iterator[Row]:
    """The rows of judgements that count: about items that are there, and one answer to a question, the first.

    Two processes that wrote to one folder leave a second answer, damage leaves judgements about items that are gone.
    How many are left out is said, unless `source` is empty. A row comes with its key (context, first, second, voice)
    and whether it is an answer.

    >>> rows = [(("null", "a", "b", None), True, number) for number in range(2)]
    >>> connection = sqlite3.connect(":memory:")
    >>> _ = connection.execute("CREATE TABLE items (context, id)")
    >>> list(counted(connection, rows, ""))
    [0]
    """
    there = set(connection.execute("SELECT context, id FROM items"))
    answered: set[tuple[Any, ...]] = set()
    unknown = doubled = 0
    for key, is_answer, row in rows:
        context, first, second, _ = key
        if there and not ((context, first) in there and (context, second) in there):
            unknown += 1
        elif is_answer and key in answered:
            doubled += 1
        else:
            if is_answer:
                answered.add(key)
            yield row
    if doubled and source:
        logger.warning("%s: %d answers are there twice, from two processes; each counts once", source, doubled)
    if unknown and source:
        logger.warning(
            "%s: %d judgements are left out: their items are lost; the same command restores items that it is given",
            source,
            unknown,
        )


def items_of_run(database: Path) -> Table:
    """The items of a run: id, text and, where there are any, context_id, context, group and score_…."""
    with _opened(database, "items", "id, text") as connection:
        return table_of_items(connection, str(database.parent))


def table_of_items(connection: sqlite3.Connection, source: str) -> Table:
    """The items that a run's database holds; `source` names it in errors, a DatabaseError says that it is damaged."""
    texts = dict(connection.execute("SELECT context, text FROM contexts").fetchall())
    try:
        return table_of_rows(named_rows(connection, "SELECT * FROM items ORDER BY number"), texts, source)
    except (KeyError, TypeError, ValueError) as error:
        raise sqlite3.DatabaseError(f"the items: {error!r}") from error


def named_rows(connection: sqlite3.Connection, query: str) -> list[dict[str, Any]]:
    """The rows that a query finds, each with its columns by name.

    >>> named_rows(sqlite3.connect(":memory:"), "SELECT 7 AS number")
    [{'number': 7}]
    """
    found = connection.execute(query)
    names = [name for name, *_ in found.description]
    return [dict(zip(names, row, strict=True)) for row in found]


def table_of_rows(rows: Sequence[Mapping[str, Any]], texts: Mapping[str, str | None], source: str) -> Table:
    """Rows of the table of items, with the text of each context by its label; `source` names them in errors."""
    columns: dict[str, Any] = {"id": _labels([row["id"] for row in rows]), "text": [row["text"] for row in rows]}
    if any(row["context"] != "null" for row in rows):
        columns["context_id"] = _labels([row["context"] for row in rows])
        columns["context"] = [texts[row["context"]] for row in rows]
    groups = [row.get("shared") for row in rows]  # an older folder has no such column
    if all(group is not None for group in groups):
        columns["group"] = _labels(groups)
    scores = [json.loads(row["scores"]) for row in rows]
    for name in scores[0] if scores else ():
        columns[f"score_{name}"] = [row[name] for row in scores]
    return Table(columns, source)


@contextmanager
def read_only(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a database for reading; a process may write to it at the same time.

    SQLite cannot read a database with a log where it may not write. There a copy is read.
    """
    with ExitStack() as stack:
        connection = stack.enter_context(closing(_connected(path)))
        try:
            connection.execute("SELECT 1 FROM sqlite_master").fetchone()
        except sqlite3.OperationalError as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
                raise
            copy = Path(stack.enter_context(TemporaryDirectory()), DATABASE)
            for end in ("", "-wal"):
                with suppress(FileNotFoundError):
                    shutil.copyfile(f"{path}{end}", f"{copy}{end}")
            connection = stack.enter_context(closing(_connected(copy)))
        yield connection


def _connected(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)


@contextmanager
def _opened(path: Path, table: str, wanted: str) -> Iterator[sqlite3.Connection]:
    """A database that has such a table, open for reading."""
    try:
        with read_only(path) as connection:
            tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            if not {"judgements", "contexts", "items"} <= tables:
                raise ComparisonsError(
                    f"{path} is a database that comparo did not write; export the table that you mean, for example by "
                    f"sqlite3 -header -csv {path} 'SELECT {wanted} FROM …' > {table}.csv, and name that file"
                )
            yield connection
    except sqlite3.Error as error:
        raise ComparisonsError(f"{path} cannot be read as a run's database ({error}); check the name") from error


def _labels(encoded: Any) -> list[Any]:
    known = {text: json.loads(text) for text in set(encoded)}
    return [known[text] for text in encoded]


def table_of(data: Any, header: bool) -> Table:
    """The columns of any source of items; `header` is true where standard input begins with the names of columns."""
    if isinstance(data, Table):
        return data
    if isinstance(data, (str, os.PathLike)):
        path = Path(data)
        if str(path) == "-":
            return _standard_input(header)
        if (database := database_of(path)) is not None:
            return items_of_run(database)
        if os.path.isdir(path):
            return _folder(path)
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


def _folder(path: Path) -> Table:
    try:
        there = [file for file in path.iterdir() if file.is_file() and not file.name.startswith(".")]
    except OSError as error:
        raise ComparisonsError(f"the folder {path} cannot be read ({error.strerror}); check its permissions") from error
    there = sorted(file for file in there if file.stem.lower() != "readme")  # which is about the folder
    files = [file for file in there if file.suffix.lower() in TEXTS]
    unread = [file.name for file in there if file not in files]
    names = ", ".join(map(visible, unread[:NAMED])) + (f" and {len(unread) - NAMED} more" if unread[NAMED:] else "")
    if not files:
        raise ComparisonsError(
            f"the folder {path} has no .txt, .md, .docx or .pdf files{f', only {names}' if unread else ''}; put each "
            "text into one, or name a file"
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
