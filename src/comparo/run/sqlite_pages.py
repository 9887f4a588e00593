"""Rows of a damaged SQLite file, read from its pages.

SQLite keeps the rows of a table in leaf pages, to which inner pages and the schema on page 1 lead. Here every leaf page
is read by itself, so that damage costs the rows that it hits and no others. The format is that of
https://www.sqlite.org/fileformat2.html:

    leaf page   type 13, …, number of cells (bytes 3 to 5), …; from byte 8 on the place of each cell, 2 bytes each
    cell        size of the record, rowid, record; behind a long record the number of the page where it goes on
    record      size of its header, a type per column; then the values
    log         header of 32 bytes; frames: header of 24 bytes (page, pages after a commit, salts, …) and a page
"""

import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

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
