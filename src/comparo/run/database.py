"""The database of a run folder: its tables, and judgements as their rows."""

import json
import math
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import fields, replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from comparo.data.prompts import Question
from comparo.errors import StoreError, WrongFolderError
from comparo.judges import Judgement
from comparo.run.disk import explained

MIGRATIONS = (
    """
    CREATE TABLE judgements (
        number INTEGER PRIMARY KEY,
        at TEXT NOT NULL,
        context TEXT NOT NULL, first TEXT NOT NULL, second TEXT NOT NULL,
        p REAL, mass REAL, weight REAL NOT NULL, reply TEXT NOT NULL,
        tokens_in INTEGER NOT NULL, tokens_out INTEGER NOT NULL, seconds REAL, cost REAL,
        cut INTEGER NOT NULL, error TEXT
    )
    """,
    "CREATE TABLE contexts (context TEXT PRIMARY KEY, text TEXT)",
    """
    CREATE TABLE items (
        number INTEGER PRIMARY KEY, context TEXT NOT NULL, id TEXT NOT NULL, text TEXT NOT NULL, scores TEXT NOT NULL
    )
    """,
    "ALTER TABLE items ADD COLUMN shared TEXT",  # the item's group
    "CREATE TABLE run (number INTEGER PRIMARY KEY CHECK (number = 1), configuration TEXT NOT NULL)",
)
DATABASE = "judgements.db"
ANSWER = tuple(field.name for field in fields(Judgement))[1:]
COLUMNS = ("at", "context", "first", "second", *ANSWER)
INSERT = f"INSERT INTO judgements ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})"
# Raised for values that SQLite cannot store: an integer of more than 64 bits, a lone surrogate, a missing text.
UNFIT = (OverflowError, UnicodeError, sqlite3.IntegrityError, sqlite3.InterfaceError, sqlite3.ProgrammingError)

Key = tuple[str, str, str]


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
    """Decode a label that `encode` wrote."""
    return json.loads(label)


def key_of(question: Question) -> Key:
    """The key of a question in the database: its encoded context, first and second item."""
    return encode(question.context), encode(question.first), encode(question.second)


@contextmanager
def reading(folder: Path) -> Iterator[sqlite3.Connection]:
    """Open the database of a run folder for reading; a run may write to it at the same time."""
    path = folder / DATABASE
    if not path.is_file():
        raise WrongFolderError(f"{folder} is not a run folder: it has no {DATABASE}")
    with explained(folder), closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as connection:
        yield connection


def open_database(path: str) -> sqlite3.Connection:
    """Open the database for writing and migrate it to this version; threads may share it, one at a time."""
    connection = sqlite3.connect(path, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version > len(MIGRATIONS):
            raise StoreError(f"{path} was written by a newer comparo; update this one")
        for number, migration in enumerate(MIGRATIONS[version:], version + 1):
            with connection:
                connection.execute(migration)
                connection.execute(f"PRAGMA user_version={number}")
    except BaseException:
        connection.close()
        raise
    return connection


def stored_judgements(connection: sqlite3.Connection) -> Iterator[tuple[Key, Judgement]]:
    """All judgements with their keys, in the order in which they were stored; questions hold labels but no texts."""
    rows = connection.execute(f"SELECT context, first, second, {', '.join(ANSWER)} FROM judgements ORDER BY number")
    for context, first, second, *answer, error in rows:
        known: list[Any] = [*(math.nan if value is None else value for value in answer), error]
        question = Question(decode(first), decode(second), decode(context))
        yield (context, first, second), Judgement(question, *known)


def insert(connection: sqlite3.Connection, judgement: Judgement) -> Judgement:
    """Insert a judgement; if it cannot be stored, with cleaned text, and if it still cannot, as a failed one."""
    try:
        connection.execute(INSERT, _row(judgement))
        return judgement
    except UNFIT as problem:
        reason = problem
    reply, error = clean(str(judgement.reply)), judgement.error
    cleaned = replace(judgement, reply=reply, error=None if error is None else clean(str(error)))
    try:
        connection.execute(INSERT, _row(cleaned))
        return cleaned
    except UNFIT:
        failed = Judgement(judgement.question, reply=reply, error=f"the answer cannot be stored ({reason})")
        connection.execute(INSERT, _row(failed))
        return failed


def _row(judgement: Judgement) -> list[Any]:
    answer = (getattr(judgement, name) for name in ANSWER)
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    return [now, *key_of(judgement.question), *map(plain, answer)]


def plain(value: Any) -> Any:
    """Replace nan by None, which the database stores as NULL."""
    return None if isinstance(value, float) and math.isnan(value) else value


def clean(text: str) -> str:
    """Replace lone surrogates, which UTF-8 cannot encode, by question marks."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
