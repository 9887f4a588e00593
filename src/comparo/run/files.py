"""Files of a run folder: private, atomic, flushed to the disk and locked, and the rows of its database.

Errors name the remedy. The schema of the database is in `comparo.data.run_folder`.
"""

import errno
import json
import math
import os
import sqlite3
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from comparo.data.items import Items
from comparo.data.prompts import Question
from comparo.data.run_folder import (
    ANCHOR,
    SCHEMA,
    UNSEALED,
    VERSION,
    Key,
    about_items,
    check_version,
    checksum,
    clean,
    decode,
    encode,
    judgement_rows,
    key_of,
    kind_of,
    slots_of,
    version_of,
)
from comparo.errors import StoreError
from comparo.judges import Judgement

OWNER = 0o600  # readable and writable by the owner alone
NO_LINK = getattr(os, "O_NOFOLLOW", 0)
GOES_ON = "What was stored before is kept, and the same command goes on from there"
IN_USE = (errno.EACCES, errno.EAGAIN, errno.EDEADLK)  # what systems answer where another process has the lock
DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def write_text(path: Path, text: str | bytes) -> None:
    """Write a private file atomically and flush it: it survives a power failure once this returns."""
    temporary = path.with_name(f".{uuid4().hex}.tmp")
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER), "wb") as file:
            file.write(text.encode() if isinstance(text, str) else text)
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
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        if error.errno in IN_USE:
            raise StoreError(f"{folder} is in use by another process; wait for it, or choose another `out`") from error
        raise StoreError(
            f"the file system of {folder} has no locks ({error.strerror}), so two processes could pay for the same "
            "answers; choose an `out` on a local disk"
        ) from error
    return file


def make_private(path: Path) -> None:
    """Create an empty private file unless it exists."""
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER))


@contextmanager
def explained(folder: Path | None, *, is_read: bool = False) -> Iterator[None]:
    """Turn errors of the disk and the database into a StoreError that says what is wrong and what to do.

    With `is_read` nothing is written, so that a full disk is not the reason.
    """
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        # The queries are right, so an error in one is of a table or a text that is damaged.
        if isinstance(error, sqlite3.Error) and kind_of(error) in (*DAMAGED, sqlite3.SQLITE_ERROR, 0):
            raise StoreError(
                f"{folder}: judgements.db is damaged ({error}). `comparo runs --repair {folder}` keeps every judgement "
                "that can still be read; then the same command goes on from there"
            ) from error
        reason, remedy = getattr(error, "strerror", error), "end the program that holds judgements.db open"
        if is_read:
            raise StoreError(f"{folder} cannot be read ({reason}); check its permissions, or {remedy}") from error
        raise StoreError(
            f"{folder} cannot be written to ({reason}); make room on the disk, check its permissions, {remedy}, or "
            f"choose another `out`. {GOES_ON}"
        ) from error


def set_aside(folder: Path) -> None:
    """Rename an existing folder to make room for a new run; a StoreError if a process is writing to it."""
    if folder.exists():
        with explained(folder), lock(folder):
            folder.rename(free(folder))


def free(folder: Path) -> Path:
    """The path, with a number appended if it already exists."""
    number, chosen = 1, folder
    while chosen.exists():
        number, chosen = number + 1, folder.with_name(f"{folder.name}-{number}")
    return chosen


ANSWER = tuple(field.name for field in fields(Judgement))[1:]
COLUMNS = ("at", "context", "first", "second", "voice", *ANSWER)
INSERT = f"""
    INSERT INTO judgements ({", ".join(COLUMNS)}) VALUES ({", ".join("?" * len(COLUMNS))}) ON CONFLICT DO NOTHING
"""
# Raised for values that SQLite cannot store: an integer of more than 64 bits, a lone surrogate, a missing text.
UNFIT = (OverflowError, UnicodeError, sqlite3.IntegrityError, sqlite3.InterfaceError, sqlite3.ProgrammingError)
BUSY = 5.0  # seconds to wait for a database that another process holds: the default of Python's sqlite3
SEALED = ("judgements", "answers", "probes")  # tables of a run or a cache whose rows carry a checksum
Label = tuple[str, str]  # an item by its context and id, both encoded


def open_database(path: str, schema: Sequence[str] = SCHEMA) -> sqlite3.Connection:
    """Open a database for writing, and make its tables if it is new; threads may share it, one at a time."""
    connection = sqlite3.connect(path, timeout=BUSY, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        is_made = "SELECT 1 FROM sqlite_schema"
        if not connection.execute(is_made).fetchone():
            with connection:
                connection.execute("BEGIN IMMEDIATE")  # another process may make the tables at the same time
                if not connection.execute(is_made).fetchone():
                    for statement in schema:
                        connection.execute(statement)
                    connection.execute(f"PRAGMA user_version={VERSION}")
        check_version(connection, path)
        _seal(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _seal(connection: sqlite3.Connection) -> None:
    """Let every row get its checksum whenever it is written, and add those that the rows of an older version lack."""
    connection.create_function("checksum_of", -1, checksum, deterministic=True)
    with connection:
        connection.execute("BEGIN IMMEDIATE" if (is_old := version_of(connection) == UNSEALED) else "BEGIN")
        is_old = is_old and version_of(connection) == UNSEALED  # another process may have added them
        for table in SEALED:
            names = [name for _, name, *_ in connection.execute(f"PRAGMA table_info({table})") if name != "checksum"]
            if not names:
                continue
            columns = ", ".join(names)
            seal = f"UPDATE {table} SET checksum = checksum_of({columns})"
            if is_old:
                connection.execute(f"ALTER TABLE {table} ADD COLUMN checksum INTEGER")
                connection.execute(seal)
            for event in ("INSERT", f"UPDATE OF {columns}"):
                connection.execute(
                    f"CREATE TEMP TRIGGER seal_{table}_{event[:6]} AFTER {event} ON {table} "
                    f"BEGIN {seal} WHERE rowid = new.rowid; END"
                )
        if is_old:
            connection.execute(f"PRAGMA user_version={VERSION}")


def stored_judgements(connection: sqlite3.Connection, source: object = "") -> Iterator[tuple[int, Key, Judgement]]:
    """The judgements that are not withdrawn, with numbers and keys, in the order in which they were stored.

    Those about lost items are left out, with a warning where `source` names the folder. Questions hold labels but no
    texts.
    """
    return about_items(connection, ((row[1], row) for row in _judgements(connection)), str(source or ""))


def _judgements(connection: sqlite3.Connection) -> Iterator[tuple[int, Key, Judgement]]:
    for number, *row in judgement_rows(connection, ("number", *COLUMNS[1:])):
        context, first, second, voice, *_ = row
        try:
            judgement = judgement_of(row)
        except (TypeError, ValueError) as problem:
            raise sqlite3.DatabaseError(f"judgement {number}: {problem}") from problem
        yield number, (context, first, second, voice), judgement


def judgement_of(row: Sequence[Any]) -> Judgement:
    """A judgement from the values of `COLUMNS[1:]`; a TypeError or ValueError where they are invalid."""
    context, first, second, voice, *values, error, cached = row
    if first in slots_of(second):
        raise ValueError(f"{first} is compared with itself")
    question = Question(decode(first), decode(second), decode(context), voice=voice)
    known: list[Any] = [math.nan if value is None else value for value in values]
    known += [error, bool(cached)]
    return Judgement(question, *known)


def insert(connection: sqlite3.Connection, judgement: Judgement) -> Judgement | None:
    """Insert a judgement with cleaned texts, or as a failed one where it cannot be stored, and return that.

    None where the question already has an answer: then nothing is stored.
    """
    reply, error = clean(str(judgement.reply)), judgement.error
    cleaned = replace(judgement, reply=reply, error=None if error is None else clean(str(error)))
    try:
        return cleaned if connection.execute(INSERT, _row(cleaned)).rowcount else None
    except UNFIT as problem:
        failed = Judgement(judgement.question, reply=reply, error=f"the answer cannot be stored ({problem})")
        connection.execute(INSERT, _row(failed))
        return failed


def _row(judgement: Judgement) -> list[Any]:
    answer = (getattr(judgement, name) for name in ANSWER)
    return [now("milliseconds"), *key_of(judgement.question), *map(plain, answer)]


def now(timespec: str = "seconds") -> str:
    """The time in UTC, as text."""
    return datetime.now(UTC).isoformat(timespec=timespec)


def as_json(value: Any) -> Any:
    """The value as it is read back from JSON."""
    return json.loads(json.dumps(value, default=str))


def last_judgement(connection: sqlite3.Connection) -> int:
    """The number of the last judgement, 0 where there is none."""
    return int(connection.execute("SELECT coalesce(max(number), 0) FROM judgements").fetchone()[0])


def plain(value: Any) -> Any:
    """Replace nan by None, which the database stores as NULL."""
    return None if isinstance(value, float) and math.isnan(value) else value


def as_objects(labels: Iterable[Any]) -> NDArray[Any]:
    """Labels as an array of objects, also where they are tuples."""
    every = list(labels)
    found = np.empty(len(every), dtype=object)
    found[:] = every
    return found


def texts_of(items: Items) -> dict[Label, tuple[tuple[Any, Any], str, str | None]]:
    """(context, id), text and context text of each item, by its encoded labels."""
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
    known = items.scores if items.anchor is None else {**items.scores, ANCHOR: items.anchor}
    groups = None if items.group is None else items.group.tolist()
    rows, contexts = [], dict.fromkeys(map(encode, items.contexts.tolist()))
    for number, ((context, label), (_, text, shared)) in enumerate(texts_of(items).items()):
        contexts[context] = shared
        scores = {name: plain(float(column[number])) for name, column in known.items()}
        group = None if groups is None else encode(groups[number])
        rows.append((context, label, text, json.dumps(scores), group))
    return list(contexts.items()), rows


def write_items(connection: sqlite3.Connection, items: Items, growth: int = 0) -> None:
    """Replace the stored items where they differ; those that are not there are new in this growth."""
    contexts, rows = item_rows(items)
    there = connection.execute("SELECT context, id, text, scores, shared, since FROM items ORDER BY number")
    since = {row[:5]: row[5] for row in there}
    texts = connection.execute("SELECT context, text FROM contexts").fetchall()
    if [*since] != rows or dict(texts) != dict(contexts):
        came = {row[:2]: number for row, number in since.items()}
        connection.execute("DELETE FROM items")
        connection.execute("DELETE FROM contexts")
        connection.executemany("INSERT INTO contexts VALUES (?, ?)", contexts)
        connection.executemany(
            "INSERT INTO items (context, id, text, scores, shared, since) VALUES (?, ?, ?, ?, ?, ?)",
            ((*row, came.get(row[:2], growth)) for row in rows),
        )
