"""Repair a damaged run folder: a new database of the rows that can be read and can be true."""

import json
import math
import os
import sqlite3
from collections import Counter
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from comparo.data.items import Items
from comparo.data.sources import table_of_items
from comparo.errors import ComparisonsError, StoreError, WrongFolderError
from comparo.run.database import DATABASE, decode, explained, lock, make_private, open_database, sync
from comparo.run.folders import free
from comparo.run.sqlite_pages import Pages, Row
from comparo.run.store import write_configuration, written_configuration

TYPES: dict[str, tuple[type, ...]] = {"TEXT": (str,), "INTEGER": (int,), "REAL": (int, float)}
FEWEST = {"judgements": 15, "items": 5}  # columns of a row that an older version wrote; other tables got no columns
JSON = {"context", "first", "second", "shared", "scores", "configuration"}  # columns; id too, but not a batch's
TIMES = {"at", "shown"}
VOTES = (0, 0.5, 1)  # what a person's answer can be


@dataclass(frozen=True, slots=True)
class Repaired:
    """What a repair has found.

    Parameters
    ----------
    kept, lost
        The number of judgements that are kept, and that are known to be lost by the gaps in their numbers.
    may_lack_more
        Whether judgements behind the last may be lost: the database was cut short, or does not say how long it was.
    has_items
        Whether all items are there; else the command of the run restores them.
    aside
        The new path of the damaged database.
    """

    kept: int
    lost: int
    may_lack_more: bool
    has_items: bool
    aside: Path


def repair(folder: Path) -> Repaired:
    """Replace the damaged database of a run folder by a new one with every row that can be read and can be true.

    Rows are read from each page by itself and belong to the table whose columns they fit, so that neither a damaged
    schema nor a damaged inner page costs rows. The configuration is that of run.json where it can be read.

    Raises
    ------
    StoreError
        If no judgement, ballot or batch can be read; the folder is then as it was.
    """
    path = folder / DATABASE
    if not path.is_file():
        raise WrongFolderError(f"{folder} is not a run folder: it has no {DATABASE}")
    with explained(folder), lock(folder), TemporaryDirectory(dir=folder) as name:
        mended = Path(name, "mended.db")
        make_private(mended)
        pages = Pages(path)
        with closing(open_database(str(mended))) as connection:
            with connection:
                _copy_rows(pages, connection)
                has_items = _mend(connection, _identity(folder, connection))
            kept, last = connection.execute("SELECT count(*), coalesce(max(number), 0) FROM judgements").fetchone()
            (asked,) = connection.execute("SELECT count(*) + (SELECT count(*) FROM ballots) FROM batches").fetchone()
            connection.execute("PRAGMA journal_mode=DELETE")
        if not kept + asked:
            raise StoreError(
                f"no judgement can be read from {path}; put a copy of it back, or start anew with --fresh. The folder "
                "is as it was"
            )
        sync(mended)
        aside = free(path.with_name(f"{DATABASE}.damaged"))
        for end in ("", "-wal", "-shm", "-journal"):
            with suppress(FileNotFoundError):
                os.replace(f"{path}{end}", f"{aside}{end}")
        os.replace(mended, path)
        sync(folder)
    return Repaired(kept, last - kept, not pages.is_whole, has_items, aside)


def _copy_rows(pages: Pages, connection: sqlite3.Connection) -> None:
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    columns = {name: connection.execute(f"PRAGMA table_info({name})").fetchall() for name in tables}
    for rowid, values in pages.rows():
        for table, known in columns.items():
            if (row := _fitted(table, known, rowid, values)) is not None:
                with suppress(sqlite3.IntegrityError, OverflowError):  # another row has its number
                    connection.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)
                break


def _fitted(table: str, columns: list[Row], rowid: int, values: Row) -> Row | None:
    """The values as a row of a table; None where they cannot be one."""
    if not FEWEST.get(table, len(columns)) <= len(values) <= len(columns):
        return None
    keys = [kind for _, _, kind, _, _, key in columns if key]
    is_numbered = keys == ["INTEGER"]
    if is_numbered and values[0] is not None:
        return None
    row = (*([rowid] if is_numbered else values[:1]), *values[1:], *[None] * (len(columns) - len(values)))
    for (_, name, kind, is_needed, _, is_key), value in zip(columns, row, strict=True):
        if value is None:
            if is_needed or is_key:
                return None
        elif not isinstance(value, TYPES[kind]) or not _can_be(table, name, value):
            return None
    names = [name for _, name, *_ in columns]
    return None if table == "judgements" and not _can_be_true(dict(zip(names, row, strict=True))) else row


def _can_be(table: str, name: str, value: Any) -> bool:
    try:
        if name in JSON or (name == "id" and table != "batches"):
            return isinstance(decode(value), dict) or name not in ("scores", "configuration")
        if name in TIMES:
            datetime.fromisoformat(value)
    except ValueError:
        return False
    return not isinstance(value, float) or math.isfinite(value)


def _can_be_true(judgement: Mapping[str, Any]) -> bool:
    """Whether a judgement has a probability or an error, and no number below 0 where there is none."""
    p = judgement["p"]
    least = min(judgement[name] or 0 for name in ("mass", "weight", "seconds", "cost", "cut"))
    return (judgement["error"] is not None if p is None else 0 <= p <= 1) and least >= 0


def _identity(folder: Path, connection: sqlite3.Connection) -> Mapping[str, Any]:
    """Take the configuration of run.json where it can be read, and return the identity of the run."""
    with suppress(StoreError):
        write_configuration(connection, written_configuration(folder))
    found = connection.execute("SELECT configuration FROM run").fetchone()
    identity = json.loads(found[0]).get("identity") if found else None
    return identity if isinstance(identity, dict) else {}


def _mend(connection: sqlite3.Connection, identity: Mapping[str, Any]) -> bool:
    """Drop or change rows that do not agree with the run or with others; whether all items are there."""
    prompt = identity.get("prompt")
    if identity.get("asked") == "people":
        connection.execute(f"DELETE FROM judgements WHERE error IS NULL AND p NOT IN {VOTES}")
    elif names := identity.get("voices") or (isinstance(prompt, dict) and prompt.get("criteria")):
        connection.execute(f"DELETE FROM judgements WHERE voice NOT IN ({', '.join('?' * len(names))})", tuple(names))
    rows = connection.execute("SELECT number, scores FROM items").fetchall()
    kinds = {number: tuple(json.loads(scores)) for number, scores in rows}
    usual = Counter(kinds.values()).most_common(1)
    odd = [(number,) for number, own in kinds.items() if own != usual[0][0]]
    connection.executemany("DELETE FROM items WHERE number = ?", odd)
    connection.execute("DELETE FROM items WHERE context <> 'null' AND context NOT IN (SELECT context FROM contexts)")
    # A vote that is lost is asked for again.
    connection.execute(
        "UPDATE ballots SET judgement = NULL, turn = turn + 1 WHERE judgement NOT IN (SELECT number FROM judgements)"
    )
    _restore_growths(connection)
    try:
        if Items.of(table_of_items(connection, DATABASE)).digest() != identity.get("items"):
            return False
    except (ComparisonsError, sqlite3.DatabaseError):
        return False
    for side in ("first", "second"):
        gone = f"(context, {side}) NOT IN (SELECT context, id FROM items UNION SELECT context, id FROM former)"
        connection.execute(f"DELETE FROM judgements WHERE {gone}")
    return True


def _restore_growths(connection: sqlite3.Connection) -> None:
    """Add the growths that items tell of and that are lost: each ended before the first judgement about its items."""
    (last,) = connection.execute("SELECT coalesce(max(number), 0) FROM judgements").fetchone()
    (most,) = connection.execute(
        "SELECT coalesce(max(since), 0) FROM (SELECT since FROM items UNION SELECT until FROM former)"
    ).fetchone()
    for number in range(1, most + 1):
        (mark,) = connection.execute(
            "SELECT min(judgements.number) - 1 FROM judgements JOIN items ON judgements.context = items.context "
            "AND id IN (first, second) WHERE since = ?",
            (number,),
        ).fetchone()
        row = number, "", last if mark is None else mark, 0
        connection.execute("INSERT OR IGNORE INTO growths VALUES (?, ?, ?, ?)", row)
