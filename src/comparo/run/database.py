"""Files of a run folder, private, atomic and flushed, and its database: tables, and judgements as their rows."""

import errno
import json
import math
import os
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields, replace
from datetime import UTC, datetime
from functools import lru_cache
from itertools import repeat
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

from comparo.data.items import Items
from comparo.data.prompts import Question
from comparo.data.sources import counted, read_only, standing
from comparo.errors import StoreError, WrongFolderError
from comparo.judges import Judgement

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
    "ALTER TABLE judgements ADD COLUMN voice TEXT",  # NULL in a run of one voice
    # A pair that was shown to a person; `judgement` is the number of the answer, NULL while there is none, and `turn`
    # how often the ballot was opened: once, and again whenever its answer was withdrawn.
    """
    CREATE TABLE ballots (
        number INTEGER PRIMARY KEY, voter TEXT NOT NULL,
        context TEXT NOT NULL, first TEXT NOT NULL, second TEXT NOT NULL,
        shown TEXT NOT NULL, turn INTEGER NOT NULL, judgement INTEGER
    )
    """,
    "CREATE TABLE withdrawn (number INTEGER PRIMARY KEY)",  # judgements that are not read any more
    "ALTER TABLE judgements ADD COLUMN tokens_cached INTEGER",
    "ALTER TABLE judgements ADD COLUMN tokens_reasoning INTEGER",
    "ALTER TABLE judgements ADD COLUMN cached INTEGER",  # 1 for an answer of an earlier run
    # A batch that is planned or waits at a server. `name` is ours, `file` and `id` are the server's; `sent` is when its
    # creation was first requested, `others` are ids of batches that were taken for it, `closed` is when it was over.
    """
    CREATE TABLE batches (
        number INTEGER PRIMARY KEY, name TEXT NOT NULL, lines INTEGER NOT NULL, file TEXT NOT NULL DEFAULT '',
        sent REAL, id TEXT, others TEXT NOT NULL DEFAULT '', status TEXT NOT NULL DEFAULT 'planned',
        done INTEGER NOT NULL DEFAULT 0, seen TEXT, closed TEXT
    )
    """,
    """
    CREATE TABLE batch_questions (
        batch INTEGER NOT NULL, number INTEGER NOT NULL, lines INTEGER NOT NULL,
        context TEXT NOT NULL, first TEXT NOT NULL, second TEXT NOT NULL, is_judged INTEGER NOT NULL DEFAULT 0,
        PRIMARY KEY (batch, number)
    )
    """,
    "ALTER TABLE items ADD COLUMN since INTEGER",  # the growth that brought it, NULL in the first run
    # Each time a run grew: the number of the last judgement before, and how many it left out.
    """
    CREATE TABLE growths (
        number INTEGER PRIMARY KEY, at TEXT NOT NULL, judgements INTEGER NOT NULL, left_out INTEGER NOT NULL
    )
    """,
    # Items that a growth changed or removed, as they were until then; `place` is their number among the items.
    """
    CREATE TABLE former (
        number INTEGER PRIMARY KEY, place INTEGER NOT NULL, context TEXT NOT NULL, context_text TEXT, id TEXT NOT NULL,
        text TEXT NOT NULL, scores TEXT NOT NULL, shared TEXT, since INTEGER NOT NULL, until INTEGER NOT NULL
    )
    """,
    "ALTER TABLE judgements ADD COLUMN model TEXT",  # as the server's reply names it
    # Not unique: an older version may have stored a question twice, and an answer that was withdrawn is given again.
    "CREATE INDEX answered ON judgements (context, first, second, voice) WHERE error IS NULL",
)
DATABASE = "judgements.db"
ANSWER = tuple(field.name for field in fields(Judgement))[1:]
# Of ANSWER, those that a database of before lacks, and what stands for them.
LATER = {"tokens_cached": "0", "tokens_reasoning": "0", "cached": "0", "model": "''"}
COLUMNS = ("at", "context", "first", "second", "voice", *ANSWER)
# Stores no answer to a question that has one.
INSERT = f"""
    INSERT INTO judgements ({", ".join(COLUMNS)}) SELECT * FROM (SELECT {", ".join(f"? AS {name}" for name in COLUMNS)})
    AS new WHERE error IS NOT NULL OR NOT EXISTS (
        SELECT 1 FROM judgements AS old WHERE old.context = new.context AND old.first = new.first
        AND old.second = new.second AND old.voice IS new.voice AND old.error IS NULL
        AND old.number NOT IN (SELECT number FROM withdrawn)
    )
"""
# Raised for values that SQLite cannot store: an integer of more than 64 bits, a lone surrogate, a missing text.
UNFIT = (OverflowError, UnicodeError, sqlite3.IntegrityError, sqlite3.InterfaceError, sqlite3.ProgrammingError)

Key = tuple[str, str, str, str | None]
OWNER = 0o600  # readable and writable by the owner alone
NO_LINK = getattr(os, "O_NOFOLLOW", 0)
IN_USE = (errno.EACCES, errno.EAGAIN, errno.EDEADLK)  # what systems answer where another process has the lock
DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
FULL = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)
BUSY = 5.0  # seconds to wait for a database that another process holds: the default of Python's sqlite3


def write_text(path: Path, text: str) -> None:
    """Write a private file atomically and flush it, so that it survives a power failure once this returns."""
    temporary = path.with_name(f".{uuid4().hex}.tmp")
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER), "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        sync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Flush a file, or the entries of a folder, to the disk; Windows needs no flush of folders."""
    if path.is_dir() and sys.platform == "win32":
        return
    descriptor = os.open(path, os.O_RDONLY if sys.platform != "win32" else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def lock(folder: Path) -> IO[str]:
    """Lock a folder; the lock is released when the returned file is closed or the process ends in any way."""
    path = folder / "lock"
    if path.is_symlink():
        raise StoreError(f"{path} is a link to somewhere else, which comparo does not follow; remove it")
    file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | NO_LINK, OWNER), "r+", encoding="utf-8")
    try:
        hold(file.fileno(), folder)
    except StoreError:
        file.close()
        raise
    return file


def hold(descriptor: int, path: Path) -> None:
    """Keep other processes from writing to an open file until it is closed; `path` is what the user named."""
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in IN_USE:
            raise StoreError(f"{path} is in use by another process; wait for it, or choose another --out") from error
        raise StoreError(
            f"the file system of {path} has no locks ({error.strerror}), so two processes could pay for the same "
            "answers; choose an --out on a local disk"
        ) from error


def make_private(path: Path) -> None:
    """Create an empty private file unless it exists."""
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER))


@contextmanager
def explained(folder: Path | None) -> Iterator[None]:
    """Turn errors of the disk and the database into a StoreError that says what is wrong and what to do."""
    try:
        yield
    except OSError as error:
        raise StoreError(
            f"{folder} cannot be written to ({error.strerror}); make room, check its permissions, or choose another "
            "--out. What was stored before is kept, and the same command goes on from there"
        ) from error
    except sqlite3.Error as error:
        kind = getattr(error, "sqlite_errorcode", 0) & 0xFF
        raise StoreError(f"{folder}: {_meaning(kind, error, folder)}") from error


def _meaning(kind: int, error: sqlite3.Error, folder: Path | None) -> str:
    if kind in (*DAMAGED, sqlite3.SQLITE_ERROR, 0):  # the queries are right, so that a table or a text is not
        return (
            f"judgements.db is damaged ({error}). `comparo runs --repair {folder}` keeps every judgement that can "
            "still be read; then the same command goes on from there"
        )
    if kind in FULL:
        remedy = "make room on the disk"
    elif kind in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        remedy = "end the program that holds judgements.db open"
    else:
        remedy = "check the folder's permissions"
    return (
        f"the judgements cannot be stored ({error}); {remedy}. What was stored before is kept, and the same command "
        "goes on from there"
    )


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
    """The key of a question in the database: its encoded context, first and second item, and the voice."""
    return encode(question.context), encode(question.first), encode(question.second), question.voice


@contextmanager
def reading(folder: Path) -> Iterator[sqlite3.Connection]:
    """Open the database of a run folder for reading; a run may write to it at the same time."""
    path = folder / DATABASE
    if not path.is_file():
        raise WrongFolderError(f"{folder} is not a run folder: it has no {DATABASE}")
    with explained(folder), read_only(path) as connection:
        yield connection


def open_database(path: str, migrations: Sequence[str] = MIGRATIONS, patience: float = BUSY) -> sqlite3.Connection:
    """Open a database for writing and migrate it to this version; threads may share it, one at a time.

    Where another process holds it, this one waits for `patience` seconds.
    """
    connection = sqlite3.connect(path, timeout=patience, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        if database_version(connection) < len(migrations):
            with connection:
                connection.execute("BEGIN IMMEDIATE")  # two processes may open a new database at the same time
                for migration in migrations[database_version(connection) :]:
                    connection.execute(migration)
                connection.execute(f"PRAGMA user_version={len(migrations)}")
        if database_version(connection) > len(migrations):
            raise StoreError(f"{path} was written by a newer comparo; update this one")
    except BaseException:
        connection.close()
        raise
    return connection


def database_version(connection: sqlite3.Connection) -> int:
    """How many migrations a database has had."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def stored_judgements(connection: sqlite3.Connection, source: object = "") -> Iterator[tuple[int, Key, Judgement]]:
    """The judgements that count with their numbers and keys, in the order in which they were stored.

    Those that were withdrawn are left out, and second answers and those about lost items (`counted`), which is said
    where `source` names the folder. Questions hold labels but no texts.
    """
    rows = numbered_judgements(connection, standing(connection))
    return counted(connection, ((row[1], not row[2].failed, row) for row in rows), str(source or ""))


def numbered_judgements(connection: sqlite3.Connection, condition: str) -> Iterator[tuple[int, Key, Judgement]]:
    """The judgements of some rows with their numbers and keys, in the order in which they were stored."""
    columns = f"number, context, first, second, {voice_column(connection)}, {', '.join(_answer_columns(connection))}"
    for number, context, first, second, voice, *answer, error, cached in connection.execute(
        f"SELECT {columns} FROM judgements WHERE {condition} ORDER BY number"
    ):
        known: list[Any] = [*(math.nan if value is None else value for value in answer), error, bool(cached)]
        try:
            question = Question(decode(first), decode(second), decode(context), voice=voice)
            judgement = Judgement(question, *known)
        except (TypeError, ValueError) as problem:
            raise sqlite3.DatabaseError(f"judgement {number}: {problem}") from problem
        yield number, (context, first, second, voice), judgement


def _answer_columns(connection: sqlite3.Connection) -> Iterator[str]:
    """What to select as the fields of an answer; what older versions did not store is 0, or no text."""
    there = _columns(connection)
    for name in ANSWER:
        empty = LATER.get(name)
        yield name if empty is None else f"coalesce({name}, {empty})" if name in there else empty


def voice_column(connection: sqlite3.Connection) -> str:
    """What to select as the voice of a judgement: NULL where an older version made the database."""
    return "voice" if "voice" in _columns(connection) else "NULL"


def _columns(connection: sqlite3.Connection) -> set[str]:
    return {row[1] for row in connection.execute("PRAGMA table_info(judgements)")}


def insert(connection: sqlite3.Connection, judgement: Judgement) -> Judgement | None:
    """Insert a judgement; if it cannot be stored, with cleaned text, and if it still cannot, as a failed one.

    None where it is an answer to a question that has one: nothing is stored.
    """
    try:
        return judgement if connection.execute(INSERT, _row(judgement)).rowcount else None
    except UNFIT as problem:
        reason = problem
    reply, error = clean(str(judgement.reply)), judgement.error
    cleaned = replace(judgement, reply=reply, error=None if error is None else clean(str(error)))
    try:
        return cleaned if connection.execute(INSERT, _row(cleaned)).rowcount else None
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


Label = tuple[str, str]  # an item by its context and id, both encoded


def texts_of(items: Items) -> dict[Label, tuple[tuple[Any, Any], str, str | None]]:
    """Labels, text and context of each item, by its encoded labels."""
    shared = [None if text is None else clean(text) for text in items.context_texts]
    contexts = items.contexts.tolist()
    rows = zip(items.context.tolist(), items.ids.tolist(), map(clean, items.texts), strict=True)
    return {
        (encode(contexts[code]), encode(label)): ((contexts[code], label), text, shared[code])
        for code, label, text in rows
    }


def item_rows(items: Items) -> tuple[list[tuple[str, str | None]], list[tuple[str, str, str, str, str | None]]]:
    """The rows of the table of contexts (label, text), and of the items (context, id, text, scores, group).

    >>> item_rows(Items.of({"ana": "A story.", "bo": "Another."}))[1][0]
    ('null', '"ana"', 'A story.', '{}', None)
    """
    contexts = [encode(label) for label in items.contexts.tolist()]
    names = list(items.scores)
    scores = zip(*(items.scores[name].tolist() for name in names), strict=True) if names else repeat((), len(items))
    groups = repeat(None, len(items)) if items.group is None else map(encode, items.group.tolist())
    columns = zip(items.context, items.ids.tolist(), map(clean, items.texts), scores, groups, strict=False)
    rows = [
        (contexts[context], encode(label), text, json.dumps(dict(zip(names, map(plain, values), strict=True))), of)
        for context, label, text, values, of in columns
    ]
    shared = [None if text is None else clean(text) for text in items.context_texts]
    return list(zip(contexts, shared, strict=True)), rows
