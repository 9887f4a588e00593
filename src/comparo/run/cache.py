"""The judgement cache: answers of judges by what determines them, in one file that runs and processes share.

    key = SHA-256 of [judge, settings, weights, template, labels, answer, what is added, first, second, context]

as JSON. Texts are in the key only, so that none can be read from the file; the reply of the judge is stored. An answer
is in the file before a run counts it, and a process that is killed loses the calls in flight. A key may have several
rows: each is an answer that was asked on its own, and no run gets one row twice.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from comparo.data.prompts import Prompt, Question
from comparo.errors import StoreError
from comparo.judges import Judge, Judgement, Probe
from comparo.run.database import BUSY, DAMAGED, UNFIT, clean, make_private, open_database, plain

CACHE = "cache.sqlite"
APPLICATION = 0x636D7072  # "cmpr": SQLite's place for a number that says whose file it is
MIGRATIONS = (
    f"PRAGMA application_id={APPLICATION}",
    """
    CREATE TABLE answers (
        number INTEGER PRIMARY KEY, key BLOB NOT NULL, judge TEXT NOT NULL, at TEXT NOT NULL,
        p REAL NOT NULL, mass REAL, weight REAL NOT NULL, reply TEXT NOT NULL,
        tokens_in INTEGER NOT NULL, tokens_out INTEGER NOT NULL, seconds REAL, cost REAL, cut INTEGER NOT NULL
    )
    """,
    "CREATE INDEX answers_by_key ON answers (key)",
    """
    CREATE TABLE probes (
        key BLOB PRIMARY KEY, judge TEXT NOT NULL, sentence TEXT NOT NULL, found TEXT NOT NULL, cost REAL
    )
    """,
)
KEPT = ("p", "mass", "weight", "reply", "tokens_in", "tokens_out", "seconds", "cost", "cut")
FIND = f"SELECT number, {', '.join(KEPT)} FROM answers WHERE key = ? ORDER BY number LIMIT -1 OFFSET ?"
ADD = f"INSERT INTO answers (key, judge, at, {', '.join(KEPT)}) VALUES ({', '.join('?' * (3 + len(KEPT)))})"
STEP = 0.02  # seconds between two tries to open a file that another process is making

logger = logging.getLogger(__name__)


def head_of(judge: Judge, prompt: Prompt) -> str:
    """All that determines an answer but the texts, as JSON.

    >>> from comparo.data.prompts import criterion_prompt
    >>> from comparo.judges import load_judge
    >>> sorted(json.loads(head_of(load_judge("openai/any"), criterion_prompt("better"))))
    ['adds', 'begins', 'judge', 'prompt', 'settings', 'weights']
    """
    asked = {name: getattr(judge, name, None) for name in ("begins", "adds")}
    determined = {
        "judge": judge.name,
        "settings": dict(judge.settings),
        "weights": getattr(judge, "weights", None),
        "prompt": {field.name: getattr(prompt, field.name) for field in fields(prompt) if field.compare},
        **{name: method and method(prompt) for name, method in asked.items()},
    }
    return json.dumps(determined, sort_keys=True, default=str)


def key_of_answer(head: str, question: Question) -> bytes:
    """The key of an answer, 32 bytes: what it is determined by, and the three texts, hashed.

    >>> one = Question("a", "b", first_text="x", second_text="y")
    >>> other = Question("c", "d", first_text="x", second_text="y")
    >>> key_of_answer("", one) == key_of_answer("", other)
    True
    """
    texts = [question.first_text, question.second_text, question.context_text]
    return hashlib.sha256(json.dumps([head, *texts]).encode()).digest()


def key_of_probe(judge: Judge) -> bytes:
    """The key of what a probe of a judge finds: its name and settings, hashed."""
    return hashlib.sha256(json.dumps([judge.name, dict(judge.settings)], sort_keys=True, default=str).encode()).digest()


class Cache:
    """The answers in a file; any number of threads and processes may use it at once.

    What cannot be read or written while a run goes on is said once, and the run goes on without it. A file that is
    damaged, or no cache at all, is a StoreError when it is opened, before anything is asked.
    """

    def __init__(self, path: str | Path, patience: float = BUSY) -> None:
        self.path, self.patience = Path(path), patience
        self._turn = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._reads = self._writes = True
        self._said: set[str] = set()
        self._had: Counter[bytes] = Counter()
        self._used: dict[bytes, set[int]] = {}

    def begin(self, answered: Iterable[bytes] = ()) -> None:
        """Open the file for a run that has had answers of these keys in an earlier start: it does not get them again.

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
        """An answer of an earlier run that this one has not had yet, to the question; None where there is none."""
        with self._turn:
            connection = self._open()
            if connection is None:
                return None
            used = self._used.setdefault(key, set())
            try:
                for number, *values in connection.execute(FIND, (key, self._had[key])):
                    if number not in used:
                        used.add(number)
                        known = (math.nan if value is None else value for value in values)
                        answer: dict[str, Any] = dict(zip(KEPT, known, strict=True))
                        return Judgement(question, **answer, cached=True)
            except sqlite3.Error as error:
                self._reads = self._writes = False
                self._warn(f"cannot be read ({error})", "so this run asks without it")
        return None

    def add(self, key: bytes, judge: str, judgement: Judgement) -> None:
        """Keep an answer, which the run that asked for it does not get again; failures are not kept."""
        if judgement.failed:
            return
        with self._turn:
            connection = self._open()
            if connection is None or not self._writes:
                return
            now = datetime.now(UTC).isoformat(timespec="seconds")
            values = [plain(getattr(judgement, name)) for name in KEPT]
            values[KEPT.index("reply")] = clean(str(judgement.reply))
            try:
                with connection:
                    number = connection.execute(ADD, (key, clean(judge), now, *values)).lastrowid
                self._used.setdefault(key, set()).add(int(number or 0))
            except UNFIT:
                return
            except sqlite3.Error as error:
                self._writes = False
                self._warn(f"cannot be written to ({error})", "so further answers of this run are not added to it")

    def found(self, key: bytes) -> Probe | None:
        """What an earlier probe of a judge found, without a call, and what it cost then; None where there was none."""
        with self._turn:
            connection = self._open()
            if connection is None:
                return None
            row = connection.execute("SELECT sentence, found, cost FROM probes WHERE key = ?", (key,)).fetchone()
        if row is None:
            return None
        sentence, found, cost = row
        return Probe(sentence, json.loads(found), cost=math.nan if cost is None else cost)

    def keep(self, key: bytes, judge: str, probe: Probe) -> None:
        """Keep what a probe of a judge found."""
        with self._turn:
            connection = self._open()
            if connection is None or not self._writes:
                return
            row = (key, clean(judge), clean(probe.sentence), json.dumps(dict(probe.found)), plain(probe.cost))
            try:
                with connection:
                    connection.execute("INSERT OR REPLACE INTO probes VALUES (?, ?, ?, ?, ?)", row)
            except sqlite3.Error as error:
                self._writes = False
                self._warn(f"cannot be written to ({error})", "so answers of this run are not added to it")

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        with self._turn:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _open(self) -> sqlite3.Connection | None:
        """The database; None where it cannot be opened, which was said."""
        if self._connection is None and self._reads:
            try:
                self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                make_private(self.path)
                self._connection = _opened(self.path, self.patience)
            except (OSError, sqlite3.Error) as error:
                if isinstance(error, sqlite3.DatabaseError) and _kind(error) in DAMAGED:
                    raise StoreError(_damaged(self.path, error)) from error
                self._reads = self._writes = False
                self._warn(
                    f"cannot be opened ({getattr(error, 'strerror', None) or error})", "so this run asks without it"
                )
        return self._connection

    def _warn(self, problem: str, consequence: str) -> None:
        if problem in self._said:
            return
        self._said.add(problem)
        logger.warning("The cache %s %s, %s; --cache names another file.", self.path, problem, consequence)


def _opened(path: Path, patience: float) -> sqlite3.Connection:
    """The database of a cache, which another process may be making at the same time."""
    end = time.monotonic() + patience
    while True:
        try:
            _check(path)
            return open_database(str(path), MIGRATIONS, patience)
        except sqlite3.OperationalError as error:  # two processes that turn to WAL at once do not wait for each other
            if _kind(error) != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                raise
            time.sleep(STEP)


def _check(path: Path) -> None:
    """Raise a StoreError where the file is a database of something else, which must not be changed."""
    with closing(sqlite3.connect(path)) as connection:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        if tables and application != APPLICATION:
            raise StoreError(f"{path} is a database of something else than a cache; give --cache another file")


def _kind(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _damaged(path: Path, error: sqlite3.Error) -> str:
    return (
        f"the cache {path} is damaged or no cache ({error}); delete it to start a new one, or go on without it by "
        "--no-cache. Run folders do not need it"
    )


@dataclass(frozen=True)
class Kept:
    """What a cache holds of one judge: how many answers, from when to when, and their cost, nan where it is unknown."""

    judge: str
    answers: int
    first: str
    last: str
    cost: float


def contents(path: Path) -> list[Kept]:
    """What a cache holds, by judge; a StoreError where it is damaged, or there is none."""
    with closing(_existing(path)) as connection:
        rows = connection.execute(
            "SELECT judge, count(*), min(at), max(at), sum(cost) FROM answers GROUP BY judge ORDER BY judge"
        )
        return [
            Kept(judge, answers, first, last, math.nan if cost is None else cost)
            for judge, answers, first, last, cost in rows
        ]


def clear(path: Path, judge: str | None = None) -> int:
    """Remove the answers of a judge, or all, from a cache and give their room back; how many there were."""
    with closing(_existing(path)) as connection:
        with connection:
            chosen: Mapping[str, Any] = {"judge": judge}
            connection.execute("DELETE FROM probes WHERE :judge IS NULL OR judge = :judge", chosen)
            removed = connection.execute("DELETE FROM answers WHERE :judge IS NULL OR judge = :judge", chosen).rowcount
        connection.execute("VACUUM")
    return removed


def _existing(path: Path) -> sqlite3.Connection:
    if not path.is_file():
        raise StoreError(f"there is no cache {path}; a run that asks a judge makes one")
    try:
        return _opened(path, BUSY)
    except sqlite3.DatabaseError as error:
        raise StoreError(_damaged(path, error)) from error
