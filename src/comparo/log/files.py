"""Files of a run folder: private, atomic, flushed to the disk and locked, and the rows of its database.

Errors name the remedy. The schema of the database is in `comparo.data.run_folder`.
"""

import errno
import json
import os
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

from comparo.data.run_folder import kind_of
from comparo.errors import Message, StoreError

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
            remedy = Message("wait for it, or choose another {out}")
            raise StoreError(f"{folder} is in use by another process; " + remedy) from error
        raise StoreError(
            f"the file system of {folder} has no locks ({error.strerror}), so two processes could pay for "
            "the same answers; " + Message("choose an {out} on a local disk")
        ) from error
    return file


def make_private(path: Path) -> None:
    """Create an empty private file unless it exists."""
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER))


@contextmanager
def explained(path: Path | None, *, is_read: bool = False, is_cache: bool = False) -> Iterator[None]:
    """Turn errors of the disk and the database into a StoreError that says what is wrong and what to do.

    With `is_read` nothing is written, so that a full disk is not the reason.
    """
    name, repair, then = f"{path}", "--repair", "then the same command goes on from there"
    if is_cache:
        name, repair = f"the cache {path}", "--cached --repair"
        then = Message("{cache:'off'} goes on without the cache")
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        # The queries are right, so an error in one is of a table or a text that is damaged.
        if isinstance(error, sqlite3.Error) and kind_of(error) in (*DAMAGED, sqlite3.SQLITE_ERROR, 0):
            raise StoreError(
                f"{name} is damaged ({error}). `comparo runs {repair} {path}` keeps what can still be read; " + then
            ) from error
        reason, remedy = getattr(error, "strerror", error), "end the program that holds its database open"
        if is_read:
            raise StoreError(f"{name} cannot be read ({reason}); check its permissions, or {remedy}") from error
        raise StoreError(
            f"{name} cannot be written to ({reason}); make room on the disk, check its permissions, "
            f"{remedy}, " + Message("or choose another {out}. ") + GOES_ON
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


def now(timespec: str = "seconds") -> str:
    """The time in UTC, as text."""
    return datetime.now(UTC).isoformat(timespec=timespec)


def as_json(value: Any) -> Any:
    """The value as it is read back from JSON."""
    return json.loads(json.dumps(value, default=str))
