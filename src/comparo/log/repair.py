"""Repair of a damaged database: a new one gets every row that can still be read.

Every database of a run, or of caches, begins with the same page, which holds the schema: where a database has lost its
own, the first page of a new one replaces it. Rows are read one by one: a damaged page costs its own rows, or those that
it leads to.
"""

import json
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from comparo.data.run_folder import DATABASE, checksum, decode
from comparo.errors import StoreError, WrongFolderError
from comparo.log import cache
from comparo.log.configuration import stored_configuration, write_configuration, written_configuration
from comparo.log.database import RUN, Schema, last_judgement, open_database
from comparo.log.files import explained, free, lock, make_private, sync
from comparo.log.rows import insertion, is_valid, judgement_of
from comparo.log.store import CHANGED

PAGE = 4096  # bytes: SQLite's default, which the databases of runs have
MOST_ROWS = 400  # of one page: a row takes at least ten bytes
PARSED: Mapping[str, Callable[[str], Any]] = {
    **dict.fromkeys(("context", "first", "second", "shared", "id"), decode),
    **dict.fromkeys(("scores", "configuration", "found"), lambda text: {**json.loads(text)}),
    **dict.fromkeys(("at", "shown"), datetime.fromisoformat),
}
VOTES = (0, 0.5, 1)  # what a person's answer can be


@dataclass(frozen=True, slots=True)
class Repaired:
    """The result of a repair.

    Parameters
    ----------
    kept, lost
        The number of judgements that are kept, and of lost ones, by the gaps in their numbers.
    aside
        The new path of the damaged database.
    """

    kept: int
    lost: int
    aside: Path


def repair(folder: Path) -> Repaired:
    """Replace the damaged database of a run folder by a new one with every row that can be read.

    The configuration is that of run.json where it can be read.

    Raises
    ------
    StoreError
        If no judgement, ballot or batch can be read; the folder is then as it was.
    """
    path = folder / DATABASE
    if not path.is_file():
        raise WrongFolderError(f"{folder} is not a run folder: it has no {DATABASE}")
    with explained(folder), lock(folder):
        return _rebuilt(path, RUN, ("judgements", "ballots", "batches"), folder)


def repair_cache(path: Path) -> Repaired:
    """Replace a damaged cache by a new one with every answer that can be read; no run may use it meanwhile.

    Raises
    ------
    StoreError
        If no answer can be read; the file is then as it was.
    """
    if not path.is_file():
        raise StoreError(f"there is no cache {path}")
    with explained(path, is_cache=True):
        return _rebuilt(path, cache.SCHEMA, ("answers", "probes"))


def _rebuilt(path: Path, schema: Schema, tables: Sequence[str], folder: Path | None = None) -> Repaired:
    """Replace a database by one of its readable rows; a StoreError if `tables` have none."""
    with TemporaryDirectory(dir=path.parent) as name:
        mended = Path(name, "mended.db")
        make_private(mended)
        with closing(open_database(str(mended), schema)) as connection:
            connection.execute("PRAGMA journal_mode=DELETE")
            with connection:
                _copy_rows(_readable_copy(path, mended, connection), connection)
                if folder is not None:
                    _mend(connection, _configuration(folder, connection))
            counts = [connection.execute(f"SELECT count(*), max(rowid) FROM {table}").fetchone() for table in tables]
        kept, last = counts[0]
        if not any(count for count, _ in counts):
            raise StoreError(
                f"nothing can be read from {path}, which is as it was; put a copy of it back, or start anew "
                + schema.anew
            )
        sync(mended)
        aside = free(path.with_name(f"{path.name}.damaged"))
        for end in ("", "-wal", "-shm", "-journal"):
            with suppress(FileNotFoundError):
                os.replace(f"{path}{end}", f"{aside}{end}")
        os.replace(mended, path)
        sync(path.parent)
    return Repaired(kept, (last or 0) - kept, aside)


def _readable_copy(path: Path, other: Path, connection: sqlite3.Connection) -> Path:
    """A copy of a database, and of the log beside it; with the first page of another where its tables differ."""
    copy = other.with_name("copy.db")
    for end in ("", "-wal"):
        with suppress(FileNotFoundError):
            shutil.copyfile(f"{path}{end}", f"{copy}{end}")
    with suppress(sqlite3.Error), closing(sqlite3.connect(copy)) as damaged:
        if _columns(damaged) == _columns(connection):
            return copy
    first = bytearray(other.read_bytes()[:PAGE])
    first[18:20] = 2, 2  # WAL mode: it may have a log
    first[28:32] = bytes(4)  # unknown: SQLite takes the number of pages from the file size
    with copy.open("r+b") as file:
        file.write(first)
    return copy


def _columns(connection: sqlite3.Connection) -> dict[str, dict[str, str]]:
    """The columns of each table with their types."""
    tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
    infos = {table: connection.execute(f"PRAGMA table_info({table})") for (table,) in tables}
    return {table: {name: kind for _, name, kind, *_ in info} for table, info in infos.items()}


def _copy_rows(source: Path, connection: sqlite3.Connection) -> None:
    with closing(sqlite3.connect(source)) as damaged:
        for table, kinds in _columns(connection).items():
            found = _rows(damaged, table, MOST_ROWS * (source.stat().st_size // PAGE))
            rows = [dict(zip(kinds, row, strict=True)) for row in found]
            # Rows of an older version have no checksum: none of them.
            is_sealed = any(row.get("checksum") is not None for row in rows)
            for row in rows:
                *values, last = row.values()
                if _is_readable(table, kinds, row) and (not is_sealed or last == checksum(*values)):
                    with suppress(sqlite3.IntegrityError, OverflowError):  # a value is missing, or its number taken
                        connection.execute(*insertion(table, row))


def _rows(damaged: sqlite3.Connection, table: str, most: int) -> Iterator[tuple[Any, ...]]:
    """The readable rows of a table; rowids above `most` are not tried."""
    with suppress(sqlite3.DatabaseError):
        (last,) = damaged.execute(f"SELECT coalesce(max(rowid), 0) FROM {table}").fetchone()
        most = min(last, most)
    for rowid in range(1, most + 1):
        with suppress(sqlite3.DatabaseError):
            yield from damaged.execute(f"SELECT * FROM {table} WHERE rowid = ?", (rowid,))


def _is_readable(table: str, kinds: Mapping[str, str], row: Mapping[str, Any]) -> bool:
    """Whether the values are those of their columns, and can be read as labels, objects, times, a judgement."""
    try:
        for name in PARSED.keys() & row.keys() if table != "batches" else ():
            if row[name] is not None:
                PARSED[name](row[name])
        if table == "judgements":
            judgement_of(row)
    except (TypeError, ValueError):
        return False
    return all(is_valid(name, kind, row[name]) for name, kind in kinds.items())


def _configuration(folder: Path, connection: sqlite3.Connection) -> Mapping[str, Any]:
    """Take the configuration of run.json where it can be read, and return that of the run."""
    with suppress(StoreError):
        write_configuration(connection, written_configuration(folder))
    return stored_configuration(connection) or {"identity": {}}


def _mend(connection: sqlite3.Connection, configuration: Mapping[str, Any]) -> None:
    """Delete answers of unknown voices and items without their context; ask for lost votes again."""
    identity = configuration["identity"]
    prompt = identity.get("prompt")
    if identity.get("asked") == "people":
        connection.execute(f"DELETE FROM judgements WHERE error IS NULL AND p NOT IN {VOTES}")
    elif names := identity.get("voices") or (isinstance(prompt, dict) and prompt.get("criteria")):
        names = (*names, *(configuration.get(CHANGED) or ()))
        connection.execute(f"DELETE FROM judgements WHERE voice NOT IN ({', '.join('?' * len(names))})", names)
    # All judgements of a run have a voice, or none has; damage is of the fewer.
    connection.execute(
        "DELETE FROM judgements WHERE (voice IS NULL) <> (SELECT 2 * sum(voice IS NULL) > count(*) FROM judgements)"
    )
    connection.execute("DELETE FROM items WHERE context <> 'null' AND context NOT IN (SELECT context FROM contexts)")
    connection.execute(
        "UPDATE ballots SET judgement = NULL, turn = turn + 1 WHERE judgement NOT IN (SELECT number FROM judgements)"
    )
    _restore_growths(connection)


def _restore_growths(connection: sqlite3.Connection) -> None:
    """Add lost growths that rows of items name: each ended before the first judgement about its items."""
    last = last_judgement(connection)
    (most,) = connection.execute("SELECT coalesce(max(since), 0) FROM items").fetchone()
    for number in range(1, most + 1):
        (mark,) = connection.execute(
            "SELECT min(judgements.number) - 1 FROM judgements JOIN items ON judgements.context = items.context "
            "AND (id IN (first, second) OR (second LIKE '[%' AND instr(second, id))) WHERE since = ?",
            (number,),
        ).fetchone()
        row = number, "", last if mark is None else mark
        connection.execute("INSERT OR IGNORE INTO growths VALUES (?, ?, ?)", row)
