"""The judgement cache: answers of judges, keyed by what determines them, in one file that runs and processes share.

Texts are in the key only (`cached_judge.key_of_answer`): none can be read from the file; the judge's reply is stored.
An answer is in the file before a run counts it, so a killed process loses only the calls in flight. A key may have
several rows: each is a separate answer, and no run gets one row twice.

Of processes that need the same answer at the same time, one asks: it has a row in `claims` until the answer is there.
The others wait, unless that process has ended or has taken too long.
"""

from __future__ import annotations

import json
import logging
import math
import os
import sqlite3
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from comparo.data.prompts import Question
from comparo.data.run_folder import checked_rows, clean, kind_of
from comparo.errors import Message, StoreError
from comparo.judges import Judgement, Probe
from comparo.log.database import BUSY, Schema, open_database
from comparo.log.files import DAMAGED, explained, make_private, now
from comparo.log.folders import ROOT
from comparo.log.rows import UNFIT, declared, insertion, is_valid, plain, row_of, sound_judgement

CACHE = ROOT / "cache.sqlite"  # of all runs that name no other file
CLAIMS = "CREATE TABLE IF NOT EXISTS claims (key BLOB PRIMARY KEY, pid INTEGER NOT NULL, at REAL NOT NULL)"
KEPT = ("p", "mass", "weight", "reply", "tokens_in", "tokens_out", "seconds", "cost", "cut", "model", "lineup")
SCHEMA = Schema(
    "the cache ",
    0x636D7072,  # cmpr
    "in another file",
    (
        f"""
    CREATE TABLE answers (
        number INTEGER PRIMARY KEY, key BLOB NOT NULL, judge TEXT NOT NULL, at TEXT NOT NULL, {declared(KEPT)},
        checksum INTEGER
    )
    """,
        "CREATE INDEX answers_by_key ON answers (key)",
        """
    CREATE TABLE probes (
        key BLOB PRIMARY KEY, judge TEXT NOT NULL, sentence TEXT NOT NULL, found TEXT NOT NULL, cost REAL,
        checksum INTEGER
    )
    """,
        CLAIMS,
    ),
)
LONGEST_CLAIM = 120.0  # seconds for which others wait for the answer of a process
RELEASE = "DELETE FROM claims WHERE key = ? AND pid = ?"
CLAIM = f"""
    INSERT INTO claims VALUES (?, ?, ?) ON CONFLICT (key) DO UPDATE SET pid = excluded.pid, at = excluded.at
    WHERE pid = excluded.pid OR NOT is_alive(pid) OR abs(excluded.at - at) > {LONGEST_CLAIM}
"""
STEP = 0.02  # seconds between two looks at what another process is doing: making the file, or asking

logger = logging.getLogger(__name__)


class Cache:
    """The answers in a file; any number of threads and processes may use it at once.

    A read or write that fails during a run is logged once, and the run goes on without it. Opening a file that is
    damaged, or no cache at all, raises a StoreError before anything is asked.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._turn = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._reads = self._writes = True
        self._said: set[str] = set()
        self._had: Counter[bytes] = Counter()
        self._used: dict[bytes, set[int]] = {}

    def begin(self, answered: Iterable[bytes] = ()) -> None:
        """Open the file for a run; the answers that it had in earlier starts, one per key in `answered`, are skipped.

        Raises
        ------
        StoreError
            If the file is damaged, or is not a cache.
        """
        with self._turn:
            self._had, self._used = Counter(answered), {}
            self._reads = self._writes = True
            self._open()

    def find(self, key: bytes, question: Question) -> Judgement | None:
        """A stored answer to the question that this run has not had yet; None where there is no undamaged one."""
        with self._turn:
            rows, used = self._select("answers", ("number", *KEPT), key), self._used.setdefault(key, set())
            known = ((row["number"], sound_judgement(row | {"cached": True}, question)) for row in rows if row)
            sound = [(number, answer) for number, answer in known if answer is not None]
            for number, answer in sound[self._had[key] :]:
                if number not in used:
                    used.add(number)
                    return answer
            if len(sound) < len(rows):
                self._warn("holds damaged answers", "so they are asked for again")
        return None

    def add(self, key: bytes, judge: str, judgement: Judgement) -> None:
        """Store an answer, which `find` does not return in this run, and end its claim; failures are not stored."""
        if judgement.failed:
            return
        answer = row_of(judgement)
        row = {"key": key, "judge": clean(judge), "at": now()} | {name: answer[name] for name in KEPT}
        with self._turn:
            if (written := self._write(*insertion("answers", row), released=key)) is not None:
                self._used.setdefault(key, set()).add(written.lastrowid or 0)

    def found(self, key: bytes) -> Probe | None:
        """The stored probe of a judge, with its original cost and no calls; None where there is none."""
        with self._turn:
            for row in self._select("probes", ("sentence", "found", "cost"), key):
                if row and (probe := _probe_of(row)) is not None:
                    return probe
                self._warn("holds a damaged probe", "so the judge is probed again")
        return None

    def keep(self, key: bytes, judge: str, probe: Probe) -> None:
        """Store the findings of a probe of a judge."""
        found = {"sentence": clean(probe.sentence), "found": json.dumps(dict(probe.found)), "cost": plain(probe.cost)}
        row = {"key": key, "judge": clean(judge)} | found
        with self._turn:
            self._write(*insertion("probes", row, verb="REPLACE"))

    def claim(self, key: bytes) -> bool:
        """Whether this process is to ask for an answer: no other one that is alive has claimed it a moment ago.

        Without a file that can be written, every process asks.
        """
        with self._turn:
            row = self._write(CLAIM, (key, os.getpid(), time.time()))
        return row is None or row.rowcount > 0

    def release(self, key: bytes) -> None:
        """End the claim of this process: the answer is stored, or there is none."""
        with self._turn:
            self._write(RELEASE, (key, os.getpid()))

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        with self._turn:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _open(self) -> sqlite3.Connection | None:
        """The database; None, with a warning, where it cannot be opened."""
        if self._connection is None and self._reads:
            try:
                self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                make_private(self.path)
                self._connection = _opened(self.path)
            except (OSError, sqlite3.Error) as error:
                if isinstance(error, sqlite3.DatabaseError) and kind_of(error) in DAMAGED:
                    with explained(self.path, is_read=True, is_cache=True):
                        raise
                self._reads = self._writes = False
                self._warn(
                    f"cannot be opened ({getattr(error, 'strerror', None) or error})", "so this run asks without it"
                )
        return self._connection

    def _write(self, statement: str, row: tuple[Any, ...], released: bytes | None = None) -> sqlite3.Cursor | None:
        """Write a row, end a claim, return the cursor; None where values do not fit or, with a warning, on failure."""
        connection = self._open()
        if connection is None or not self._writes:
            return None
        try:
            with connection:
                written = connection.execute(statement, row)
                if released is not None:
                    connection.execute(RELEASE, (released, os.getpid()))
            return written
        except UNFIT:
            return None
        except sqlite3.Error as error:
            self._writes = False
            self._warn(f"cannot be written to ({error})", "so further answers of this run are not added to it")
            return None

    def _select(self, table: str, columns: Sequence[str], key: bytes) -> list[dict[str, Any]]:
        """The rows of a key, damaged ones empty; none, with a warning, where they cannot be read."""
        try:
            if (connection := self._open()) is None:
                return []
            rows = checked_rows(connection, table, columns, "WHERE key = ?", key)
            return [dict(zip(columns, row, strict=True)) if is_sound else {} for row, is_sound in rows]
        except sqlite3.Error as error:
            self._writes = False
            self._warn(f"cannot be read ({error})", "so this run asks for what it cannot read, and adds nothing to it")
            return []

    def _warn(self, problem: str, consequence: str) -> None:
        if problem in self._said:
            return
        self._said.add(problem)
        logger.warning(f"The cache {self.path} {problem}, {consequence}; " + Message("{cache} names another file."))


def _opened(path: Path) -> sqlite3.Connection:
    """The database of a cache, which another process may be making at the same time."""
    end = time.monotonic() + BUSY
    while True:
        try:
            connection = open_database(str(path), SCHEMA)
            # A text that is not UTF-8 would hide all rows.
            connection.text_factory = lambda data: data.decode(errors="surrogateescape")
            connection.create_function("is_alive", 1, _is_alive)
            with suppress(sqlite3.OperationalError), connection:  # a file that can only be read
                connection.execute(CLAIMS)  # which an older version has not made
            return connection
        except sqlite3.OperationalError as error:  # two processes that turn to WAL at once do not wait for each other
            if kind_of(error) != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                raise
            time.sleep(STEP)


def _is_alive(pid: int) -> bool:
    """Whether there is a process of this number; on Windows, where this cannot be asked without harm, always."""
    try:
        if sys.platform != "win32":
            os.kill(pid, 0)
    except OSError as error:
        return not isinstance(error, ProcessLookupError)  # else it is another user's
    return True


def _probe_of(row: Mapping[str, Any]) -> Probe | None:
    """The probe of a row; None where it is invalid."""
    with suppress(TypeError, ValueError, RecursionError):
        cost, found = row["cost"], json.loads(row["found"])
        if is_valid("cost", "REAL", cost) and is_valid("sentence", "TEXT", row["sentence"]) and isinstance(found, dict):
            return Probe(row["sentence"], found, cost=math.nan if cost is None else cost)
    return None


@dataclass(frozen=True)
class Kept:
    """The answers of one judge in a cache: their number, first and last date, and cost (nan if unknown)."""

    judge: str
    answers: int
    first: str
    last: str
    cost: float


def contents(path: Path) -> list[Kept]:
    """What a cache holds, by judge; a StoreError where it is damaged, or there is none."""
    with _existing(path, is_read=True) as connection:
        rows = connection.execute(
            "SELECT judge, count(*), min(at), max(at), sum(cost) FROM answers GROUP BY judge ORDER BY judge"
        )
        return [
            Kept(clean(str(judge)), answers, clean(str(first)), clean(str(last)), math.nan if cost is None else cost)
            for judge, answers, first, last, cost in rows
        ]


def clear(path: Path, judge: str | None = None) -> int:
    """Delete the answers of a judge, or all, from a cache, free their space, and return their number."""
    with _existing(path) as connection:
        with connection:
            chosen: Mapping[str, Any] = {"judge": judge}
            connection.execute("DELETE FROM probes WHERE :judge IS NULL OR judge = :judge", chosen)
            removed = connection.execute("DELETE FROM answers WHERE :judge IS NULL OR judge = :judge", chosen).rowcount
        connection.execute("VACUUM")
    return removed


@contextmanager
def _existing(path: Path, is_read: bool = False) -> Iterator[sqlite3.Connection]:
    """The database of a cache that exists; a StoreError where it does not, or cannot be read."""
    if not path.is_file():
        raise StoreError(f"there is no cache {path}; a run that asks a judge makes one")
    with explained(path, is_read=is_read, is_cache=True), closing(_opened(path)) as connection:
        yield connection
