"""The database of a run folder as a file of answers and of items; `comparo.log.database` has its tables.

Labels are stored as JSON. Each judgement carries a checksum of its row: damage can leave a row that reads as another
answer.
"""

import json
import logging
import os
import shutil
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from functools import lru_cache
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zlib import crc32

import numpy as np

from comparo.data.columns import Coded, Table
from comparo.data.lineups import lineup_columns
from comparo.data.prompts import Question, Rest
from comparo.errors import ComparisonsError, Message, StoreError
from comparo.types import LongIndex

DATABASE = "judgements.db"
ENDINGS = (".db", ".sqlite", ".sqlite3")
VERSION = 4  # of the schema
UNSEALED = 3  # the version before: its rows have no checksum, and opening it for writing adds them
ANCHOR = "=anchor"  # the key of an item's known score among its scores; no column of scores has this name
logger = logging.getLogger(__name__)
Key = tuple[str, str, str, str | None]


def database_of(path: str | os.PathLike[str]) -> Path | None:
    """The database at a path: the file itself, or that of a run folder; None for other paths.

    Other databases are not read, because it is unknown which of their tables is meant.

    >>> database_of("runs/first/judgements.db"), database_of("pairs.csv")
    (PosixPath('runs/first/judgements.db'), None)
    """
    path = Path(path)
    if os.path.isdir(path):
        return path / DATABASE if os.path.isfile(path / DATABASE) else None  # False also without permission to read
    return path if path.suffix.lower() in ENDINGS else None


def check_version(connection: sqlite3.Connection, name: object, anew: str = Message("with {fresh:True}")) -> None:
    """Raise a StoreError where a database, called `name` in the error, has another schema."""
    if (found := version_of(connection)) not in (VERSION, UNSEALED):
        raise StoreError(
            f"{name} has the schema {found} in place of {VERSION}: it is of another version of comparo, or damaged; "
            f"use that version, mend it by `comparo runs --repair`, or start anew " + anew
        )


def version_of(connection: sqlite3.Connection) -> int:
    """The version of a database's schema."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def checksum(*values: Any) -> int:
    """The CRC-32 of the values of a row; it notices every burst of up to 32 bits, and of others all but 1 in 2³².

    >>> checksum("ana", 0.5) == checksum("ana", 0.50000001)
    False
    """
    return crc32(ascii(values).encode())


@lru_cache(maxsize=1_000_000, typed=True)
def encode(label: Any) -> str:
    """Encode a label as JSON text: "7" and 7 stay different, and lone surrogates are escaped.

    >>> encode("7"), encode(7), encode("\\ud83d")
    ('"7"', '7', '"\\\\ud83d"')
    """
    text = json.dumps(label, ensure_ascii=False, default=str)
    return text if text.isascii() or text == clean(text) else json.dumps(label, default=str)


@lru_cache(maxsize=1_000_000)
def decode(label: str) -> Any:
    """Decode a label that `encode` wrote, or the `Rest` of a line-up."""
    found = json.loads(label)
    return Rest(found) if isinstance(found, list) else found


def key_of(question: Question) -> Key:
    """The key of a question in the database: its encoded context, first and second item, and the voice."""
    return encode(question.context), encode(question.first), encode(question.second), question.voice


def slot_labels(key: Key) -> tuple[tuple[str, str], ...]:
    """The encoded context and label of each item of a question, in slot order.

    >>> slot_labels(("null", '"ana"', '["bo", "cy"]', None))
    (('null', '"ana"'), ('null', '"bo"'), ('null', '"cy"'))
    """
    context, first, second, _ = key
    return tuple((context, item) for item in (first, *slots_of(second)))


def slots_of(second: str) -> list[str]:
    """The encoded labels in the second and, of a line-up, all further slots.

    >>> slots_of('"bo"'), slots_of('["bo", "cy"]')
    (['"bo"'], ['"bo"', '"cy"'])
    """
    return [*map(encode, decode(second))] if second.startswith("[") else [second]


def clean(text: str) -> str:
    """Replace lone surrogates, which UTF-8 cannot encode, by question marks."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def judged(database: Path) -> Table:
    """The answers of a run in the order of their questions: first, second, p, mass; if any, weight, context and judge.

    The judge is called voter where people voted on ballots. Judgements that failed or were withdrawn are left out.
    """
    with _opened(database) as connection:
        names = ("error", "context", "first", "second", "voice", "p", "mass", "weight", "lineup")
        valid = (row for row in judgement_rows(connection, names) if row[0] is None)
        found: list[Any] = [*zip(*about_items(connection, valid, str(database.parent)), strict=True)]
        has_ballots = connection.execute("SELECT 1 FROM ballots LIMIT 1").fetchone()
    if not found:
        raise ComparisonsError(f"{database.parent} holds no answers yet; run its command again to go on")
    _, *asked, p, mass, weight, lineup = found
    order, (context, first, second, judge) = in_order(*asked)
    first, second, context = (replace(each, labels=[*map(decode, each.labels)]) for each in (first, second, context))
    p, mass, weight = (np.array(column, dtype=np.float64)[order] for column in (p, mass, weight))  # NULL is nan
    columns: dict[str, Any] = {"first": first, "second": second, "p": p}
    if any(lineup):
        columns = lineup_columns(first, second, p.tolist(), [lineup[row] for row in order.tolist()])
    columns["mass"] = mass
    if np.any(weight != 1):
        columns["weight"] = weight
    if context.labels != [None]:
        columns["context"] = context
    if judge.labels != [None]:
        columns["voter" if has_ballots else "judge"] = list(judge)
    return Table(columns, str(database.parent))


def in_order(*columns: Sequence[str | None]) -> tuple[LongIndex, tuple[Coded, ...]]:
    """The rows in the order of some columns of text, None before all, and these columns in that order.

    >>> order, (names, _) = in_order(["b", "a", "b"], ["y", "z", "x"])
    >>> order.tolist(), list(names)
    ([1, 2, 0], ['a', 'b', 'b'])
    """
    found = []
    for column in columns:
        labels = sorted(set(column), key=lambda label: label or "")
        code = {label: number for number, label in enumerate(labels)}
        found.append(Coded(labels, np.fromiter(map(code.__getitem__, column), np.int64, len(column))))
    order = np.lexsort([each.codes for each in reversed(found)])
    return order, tuple(replace(each, codes=each.codes[order]) for each in found)


def judgement_rows(connection: sqlite3.Connection, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """Some columns of the judgements that are not withdrawn, in the order in which they were stored.

    A DatabaseError where a row is not as it was stored.
    """
    is_sealed = version_of(connection) != UNSEALED
    for row, is_kept in checked_rows(connection, "judgements", (*columns, "number", "withdrawn")):
        if is_sealed and not is_kept:
            raise sqlite3.DatabaseError(f"judgement {row[-2]}: its checksum is another")
        if not row[-1]:
            yield row[:-2]


def checked_rows(
    connection: sqlite3.Connection, table: str, columns: Sequence[str], where: str = "", *values: Any
) -> Iterator[tuple[tuple[Any, ...], bool]]:
    """Some columns of the rows of a table, in the order of their numbers, and whether each row is as it was stored."""
    rows = connection.execute(f"SELECT * FROM {table} {where} ORDER BY rowid", values)
    place = {name: number for number, (name, *_) in enumerate(rows.description)}
    if missing := [name for name in columns if name not in place]:
        raise sqlite3.DatabaseError(f"{table} has no column {missing[0]}")
    wanted = itemgetter(*(place[name] for name in columns))
    for row in rows:
        yield wanted(row), row[-1] == crc32(ascii(row[:-1]).encode())


def about_items(
    connection: sqlite3.Connection, rows: Iterable[tuple[Any, ...]], source: str
) -> Iterator[tuple[Any, ...]]:
    """The rows about items in the database; the key of a row (context, first, second, voice) is after its first value.

    A damaged database may have lost items; a warning counts their judgements, unless `source` is empty.

    >>> connection = sqlite3.connect(":memory:")
    >>> _ = connection.execute("CREATE TABLE items (context, id)")
    >>> _ = connection.execute("INSERT INTO items VALUES ('null', 'a'), ('null', 'b')")
    >>> list(about_items(connection, [(number, "null", "a", "bc"[number], None) for number in range(2)], ""))
    [(0, 'null', 'a', 'b', None)]
    """
    there = set(connection.execute("SELECT context, id FROM items"))
    unknown = 0
    for row in rows:
        _, context, first, second, *_ = row
        is_pair = (context, first) in there and (context, second) in there
        if is_pair or not there or there.issuperset(slot_labels(row[1:5])):
            yield row
        else:
            unknown += 1
    if unknown and source:
        logger.warning(
            "%s: %d judgements are left out: their items are lost; the same command restores items that it is given",
            source,
            unknown,
        )


def items_of_run(database: Path) -> Table:
    """The items of a run: id, text and, where there are any, context_id, context, group, score_… and anchor."""
    with _opened(database) as connection:
        return table_of_items(connection, str(database.parent))


def table_of_items(connection: sqlite3.Connection, source: str) -> Table:
    """The items in a run's database, called `source` in errors; a DatabaseError if it is damaged."""
    texts = dict(connection.execute("SELECT context, text FROM contexts").fetchall())
    names = ("context", "id", "text", "scores", "shared")
    rows = connection.execute(f"SELECT {', '.join(names)} FROM items ORDER BY number").fetchall()
    stored: dict[str, list[Any]] = {name: [row[place] for row in rows] for place, name in enumerate(names)}
    try:
        columns: dict[str, Any] = {"id": [*map(decode, stored["id"])], "text": stored["text"]}
        if any(context != "null" for context in stored["context"]):
            columns["context_id"] = [*map(decode, stored["context"])]
            columns["context"] = [texts[context] for context in stored["context"]]
        if None not in stored["shared"]:
            columns["group"] = [*map(decode, stored["shared"])]
        scores = [*map(json.loads, stored["scores"])]
        for name in scores[0] if scores else ():
            column = "anchor" if name == ANCHOR else f"score_{name}"
            columns[column] = [row.get(name) for row in scores]
    except (KeyError, TypeError, ValueError) as error:
        raise sqlite3.DatabaseError(f"the items: {error!r}") from error
    return Table(columns, source)


@contextmanager
def read_only(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a database for reading; a process may write to it at the same time.

    SQLite cannot read a database with a write-ahead log in a read-only folder: a copy is read there.
    """
    with ExitStack() as stack:
        connection = stack.enter_context(closing(_connected(path)))
        try:
            connection.execute("SELECT 1 FROM sqlite_master").fetchone()
        except sqlite3.OperationalError as error:
            if kind_of(error) not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
                raise
            copy = Path(stack.enter_context(TemporaryDirectory()), DATABASE)
            for end in ("", "-wal"):
                with suppress(FileNotFoundError):
                    shutil.copyfile(f"{path}{end}", f"{copy}{end}")
            connection = stack.enter_context(closing(_connected(copy)))
        yield connection


def kind_of(error: sqlite3.Error) -> int:
    """SQLite's code of an error, without its details; 0 where Python raised it."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _connected(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a run's database."""
    try:
        with read_only(path) as connection:
            tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            if not {"judgements", "contexts", "items"} <= tables:
                remedy = "export the table that you mean as .csv, and name that file"
                raise ComparisonsError(f"{path} is a database that comparo did not write; {remedy}")
            check_version(connection, path.parent)
            yield connection
    except sqlite3.Error as error:
        remedy = "check its name and permissions, or mend a run by `comparo runs --repair`"
        raise ComparisonsError(f"{path} cannot be read as a run's database ({error}); {remedy}") from error
