"""Repair a damaged run folder: a new database of the rows that can be read and can be true.

SQLite keeps the rows of a table in leaf pages, to which inner pages and the schema on page 1 lead. Every leaf page is
read on its own: damage costs the rows that it hits and no others. The format is https://www.sqlite.org/fileformat2.html:

    leaf page   type 13, …, number of cells (bytes 3 to 5), …; from byte 8 on the place of each cell, 2 bytes each
    cell        size of the record, rowid, record; behind a long record the number of the page where it goes on
    record      size of its header, a type per column; then the values
    log         header of 32 bytes; frames: header of 24 bytes (page, pages after a commit, salts, …) and a page
"""

import json
import math
import os
import sqlite3
import struct
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from comparo.data.items import Items
from comparo.data.lineups import is_answer
from comparo.data.run_folder import DATABASE, decode, slot_labels, slots_of, table_of_items
from comparo.errors import ComparisonsError, StoreError, WrongFolderError
from comparo.run.files import explained, free, lock, make_private, sync
from comparo.run.store import open_database, write_configuration, written_configuration

PAGE = 4096  # bytes: SQLite's default, which the databases of runs have
LEAF = 13
MAGIC = b"SQLite format 3\0"
INTEGERS = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}  # the bytes of an integer by its type
MOST_ROWS = 400  # of one page: a row takes at least ten bytes

Row = tuple[Any, ...]


class Pages:
    """The pages of a database and of the log beside it.

    >>> import sqlite3, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with sqlite3.connect(f"{folder}/x.db") as connection:
    ...         _ = connection.execute("CREATE TABLE t (number INTEGER PRIMARY KEY, name TEXT)")
    ...         _ = connection.execute("INSERT INTO t VALUES (7, 'ana')")
    ...     connection.close()
    ...     [*Pages(Path(folder, "x.db")).rows()][1:]  # the first is of the schema
    [(7, (None, 'ana'))]
    """

    def __init__(self, path: Path) -> None:
        self._content = path.read_bytes()
        self._newer: dict[int, bytes] = {}
        with suppress(FileNotFoundError):
            self._read_log(path.with_name(f"{path.name}-wal").read_bytes())
        self.count = max([len(self._content) // PAGE, *self._newer])

    @property
    def is_whole(self) -> bool:
        """Whether the file is as long as its first page says."""
        first = self._page(1)
        return first.startswith(MAGIC) and _number(first[28:32]) <= self.count and not len(self._content) % PAGE

    def rows(self) -> Iterator[tuple[int, Row]]:
        """The rowid and the values of each row of all tables; the first column is None where it is the rowid."""
        free = self._free()
        for number in range(1, self.count + 1):
            if number not in free:
                yield from self.leaf(number)

    def _page(self, number: int) -> bytes:
        return self._newer.get(number, self._content[(number - 1) * PAGE : number * PAGE])

    def _read_log(self, log: bytes) -> None:
        """Take the pages of all commits in a log; frames with other salts are of an earlier log."""
        salts, changed = (log[16:24], log[40:48]), {}
        for at in range(32, len(log) - PAGE - 23, PAGE + 24):
            number, committed = _number(log[at : at + 4]), _number(log[at + 4 : at + 8])
            if log[at + 8 : at + 16] in salts:
                changed[number] = log[at + 24 : at + 24 + PAGE]
                if committed:
                    self._newer |= {page: content for page, content in changed.items() if page <= committed}
                    changed = {}

    def _free(self) -> set[int]:
        """The pages that are not in use, whose rows were deleted; none where their list is damaged."""
        first, found = self._page(1), set[int]()
        trunk = _number(first[32:36])
        while trunk and trunk not in found:
            page = self._page(trunk)
            count = min(_number(page[4:8]), PAGE // 4 - 2)
            found |= {trunk, *struct.unpack_from(f">{count}I", page.ljust(PAGE, b"\0"), 8)}
            trunk = _number(page[:4])
        return found if first.startswith(MAGIC) and len(found) == _number(first[36:40]) else set()

    def leaf(self, number: int) -> Iterator[tuple[int, Row]]:
        """The rows of a leaf page; none of any other."""
        page, start = self._page(number), 100 if number == 1 else 0
        if page[start : start + 1] != bytes([LEAF]):
            return
        rows = []
        for place in range(start + 8, start + 8 + 2 * _number(page[start + 3 : start + 5]), 2):
            with suppress(IndexError, ValueError, struct.error):
                rows.append(self._cell(page, _number(page[place : place + 2])))
        ids = [0, *(rowid for rowid, _ in rows), MOST_ROWS * self.count]
        for (rowid, values), before, after in zip(rows, ids, ids[2:], strict=False):
            if before < rowid < after or before >= after:  # else the rowid is damaged: they grow within a page
                yield rowid, values

    def _cell(self, page: bytes, at: int) -> tuple[int, Row]:
        size, at = _varint(page, at)
        rowid, at = _varint(page, at)
        local, least = size, (PAGE - 12) * 32 // 255 - 23
        if size > PAGE - 35:
            local = least + (size - least) % (PAGE - 4)
            local = local if local <= PAGE - 35 else least
        record, follower = bytearray(page[at : at + local]), _number(page[at + local : at + local + 4])
        for _ in range(self.count):
            if len(record) >= size or not follower:
                break
            more = self._page(follower)
            record += more[4 : 4 + size - len(record)]
            follower = _number(more[:4])
        if len(record) != size:
            raise ValueError("the record goes on elsewhere")
        return rowid, tuple(_values(bytes(record)))


def _values(record: bytes) -> Iterator[Any]:
    """The values of a record; a ValueError where it is not exactly one."""
    end, at = _varint(record, 0)
    types, place = [], end
    while at < end:
        kind, at = _varint(record, at)
        types.append(kind)
    for kind in types:
        length = INTEGERS.get(kind, 8 if kind == 7 else max(0, kind - 12) // 2)
        value, place = record[place : place + length], place + length
        if kind in (10, 11):
            raise ValueError("no value has this type")
        if kind in INTEGERS:
            yield int.from_bytes(value, "big", signed=True)
        elif kind == 7:
            yield struct.unpack(">d", value)[0]
        elif kind in (0, 8, 9):
            yield None if kind == 0 else kind - 8
        else:
            yield value.decode() if kind % 2 else value
    if at != end or place != len(record):
        raise ValueError("the record is longer or shorter than its types say")


def _number(data: bytes) -> int:
    return int.from_bytes(data, "big")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """An integer of 1 to 9 bytes, of which the first eight have seven bits each, and the place behind it.

    >>> _varint(bytes([129, 5]), 0)
    (133, 2)
    """
    value = 0
    for place in range(at, at + 8):
        value = value << 7 | data[place] & 127
        if data[place] < 128:
            return value, place + 1
    return value << 8 | data[at + 8], at + 9


TYPES: dict[str, tuple[type, ...]] = {"TEXT": (str,), "INTEGER": (int,), "REAL": (int, float)}
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

    Rows are read page by page and belong to the table whose columns they fit: neither a damaged
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
                f"no judgement can be read from {path}; put a copy of it back, or start anew with fresh=True. The "
                "folder is as it was"
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
    if len(values) != len(columns):
        return None
    keys = [kind for _, _, kind, _, _, key in columns if key]
    is_numbered = keys == ["INTEGER"]
    if is_numbered and values[0] is not None:
        return None
    row = (rowid, *values[1:]) if is_numbered else values
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
    """Whether a judgement has an answer to its question or an error, and no number below 0 where there is none."""
    p = judgement["p"]
    if p is not None and not is_answer(judgement["lineup"], 1 + len(slots_of(judgement["second"]))):
        return False
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
    there = set(connection.execute("SELECT context, id FROM items UNION SELECT context, id FROM former"))
    asked = connection.execute("SELECT number, context, first, second, voice FROM judgements").fetchall()
    gone = [(number,) for number, *key in asked if not there.issuperset(slot_labels((*key,)))]
    connection.executemany("DELETE FROM judgements WHERE number = ?", gone)
    return True


def _restore_growths(connection: sqlite3.Connection) -> None:
    """Add lost growths that rows of items name: each ended before the first judgement about its items."""
    (last,) = connection.execute("SELECT coalesce(max(number), 0) FROM judgements").fetchone()
    (most,) = connection.execute(
        "SELECT coalesce(max(since), 0) FROM (SELECT since FROM items UNION SELECT until FROM former)"
    ).fetchone()
    for number in range(1, most + 1):
        (mark,) = connection.execute(
            "SELECT min(judgements.number) - 1 FROM judgements JOIN items ON judgements.context = items.context "
            "AND (id IN (first, second) OR (second LIKE '[%' AND instr(second, id))) WHERE since = ?",
            (number,),
        ).fetchone()
        row = number, "", last if mark is None else mark, 0
        connection.execute("INSERT OR IGNORE INTO growths VALUES (?, ?, ?, ?)", row)
