"""The run folder: how a run was made, and every judgement it got.

    run.json        the resolved configuration, versions, seed and hashes
    judgements.db   SQLite in WAL mode: the items, and judgements that are only ever added
    ranking.csv     the ranking, report.html the page about it

A judgement is on disk before the next answer is looked at, so a process that is killed loses the calls in flight and
nothing else. One process at a time may write to a folder.
"""

from __future__ import annotations

import json
import math
import os
import sqlite3
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import fields
from datetime import UTC, datetime
from functools import lru_cache
from itertools import repeat
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from comparo.items import Items
from comparo.judges import Judgement
from comparo.prompts import Question

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
)
ANSWER = tuple(field.name for field in fields(Judgement))[1:]
COLUMNS = ("at", "context", "first", "second", *ANSWER)
KEPT = ("started", "ahead", "versions")  # of the first start: the rounds depend on how far the judge works ahead
INSERT = f"INSERT INTO judgements ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})"


class StoreError(RuntimeError):
    """A run folder that cannot be used: in use, of another run, full, or not to be written to."""


@lru_cache(maxsize=1_000_000, typed=True)
def encode(label: Any) -> str:
    """A label as the database holds it: text and integers stay apart.

    >>> encode("7"), encode(7)
    ('"7"', '7')
    """
    return json.dumps(label, ensure_ascii=False, default=str)


class Store:
    """The judgements of a run and its configuration; without a folder, in memory only.

    `identity` is what must not change between two starts: a folder made with another one is refused, saying what
    differs. `close` gives the folder back.

    >>> store = Store(None, {"judge": "simulated/soft"})
    >>> store.add([Judgement(Question("ana", "bo"), p=0.7, mass=1.0)])
    >>> [(answer.question.first, answer.p) for answer in store.judgements()]
    [('ana', 0.7)]
    """

    def __init__(
        self, folder: Path | None, identity: Mapping[str, Any], configuration: Mapping[str, Any] | None = None
    ) -> None:
        self.folder = folder
        self._lock: IO[str] | None = None
        if folder is None:
            self.configuration = {"identity": dict(identity), **(configuration or {})}
            self._connection = self._open(":memory:")
            return
        try:
            with _explained(folder):
                folder.mkdir(parents=True, exist_ok=True)
                self._lock = _locked(folder)
                self.configuration = self._configure(folder, identity, configuration or {})
                self._connection = self._open(str(folder / "judgements.db"))
        except BaseException:
            self.close()
            raise

    def add(self, judgements: Iterable[Judgement]) -> None:
        """Append judgements; they are there for good when this returns."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        rows = [
            (now, *map(encode, (question.context, question.first, question.second)), *map(_plain, answer))
            for question, *answer in map(_values, judgements)
        ]
        with _explained(self.folder), self._connection:
            self._connection.executemany(INSERT, rows)

    def add_items(self, items: Items) -> None:
        """Keep the items, so that the folder tells the whole story; those that are there stay."""
        contexts = [encode(label) for label in items.contexts.tolist()]
        names = list(items.scores)
        scores = zip(*(items.scores[name].tolist() for name in names), strict=True) if names else repeat((), len(items))
        groups = repeat(None, len(items)) if items.group is None else map(encode, items.group.tolist())
        columns = zip(items.context, items.ids.tolist(), items.texts, scores, groups, strict=True)
        rows = [
            (contexts[context], encode(label), text, json.dumps(dict(zip(names, map(_plain, values), strict=True))), of)
            for context, label, text, values, of in columns
        ]
        with _explained(self.folder), self._connection as connection:
            if not connection.execute("SELECT 1 FROM items LIMIT 1").fetchone():
                connection.executemany(
                    "INSERT INTO contexts VALUES (?, ?)", zip(contexts, items.context_texts, strict=True)
                )
                connection.executemany(
                    "INSERT INTO items (context, id, text, scores, shared) VALUES (?, ?, ?, ?, ?)", rows
                )

    def judgements(self) -> Iterator[Judgement]:
        """All judgements, in the order in which they came; the questions have names and no texts."""
        with _explained(self.folder):
            yield from _judgements(self._connection)

    def write(self, name: str, text: str) -> None:
        """Write a file of the run folder, whole or not at all."""
        if self.folder is not None:
            with _explained(self.folder):
                write_text(self.folder / name, text)

    def close(self) -> None:
        """Give the folder back; what was added stays."""
        if connection := getattr(self, "_connection", None):
            connection.close()
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _configure(self, folder: Path, identity: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
        """The configuration of the folder, which must be of this run; what may change is as it is `now`."""
        path, kept = folder / "run.json", {}
        identity = json.loads(json.dumps(identity, default=str))
        if path.exists():
            before = read_configuration(folder)
            if differing := differences(before["identity"], identity):
                raise StoreError(
                    f"{folder} holds another run: {'; '.join(differing)}. Choose another --out, or start anew with "
                    "--fresh"
                )
            kept = {name: before[name] for name in KEPT if name in before}
        configuration = {"identity": identity, **now, **kept}
        write_text(path, json.dumps(configuration, ensure_ascii=False, indent=2, default=str) + "\n")
        return configuration

    def _open(self, path: str) -> sqlite3.Connection:
        connection = sqlite3.connect(path)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version > len(MIGRATIONS):
            raise StoreError(f"{path} was written by a newer comparo; update this one")
        for number, migration in enumerate(MIGRATIONS[version:], version + 1):
            with connection:
                connection.execute(migration)
                connection.execute(f"PRAGMA user_version={number}")
        return connection


def read_configuration(folder: Path) -> dict[str, Any]:
    """What run.json says."""
    path = folder / "run.json"
    try:
        configuration = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise StoreError(f"{folder} is not a run folder: it has no run.json") from error
    except (OSError, ValueError) as error:
        raise StoreError(f"{path} cannot be read ({error}); the judgements beside it are whole") from error
    if not isinstance(configuration, dict) or not isinstance(configuration.get("identity"), dict):
        raise StoreError(f"{path} is not the configuration of a run; the judgements beside it are whole")
    return configuration


def read_judgements(folder: Path) -> list[Judgement]:
    """The judgements of a run folder, also while a run writes to it."""
    with _reading(folder) as connection:
        return list(_judgements(connection))


def stored_items(folder: Path) -> Items:
    """The items of a run folder."""
    with _reading(folder) as connection:
        contexts = dict(connection.execute("SELECT context, text FROM contexts ORDER BY rowid").fetchall())
        rows = connection.execute("SELECT * FROM items ORDER BY number").fetchall()
    codes = {label: code for code, label in enumerate(contexts)}
    rows = [row[1:] for row in rows]
    scores = [json.loads(row[3]) for row in rows]
    groups = [row[4] for row in rows if len(row) > 4 and row[4] is not None]  # an older folder has no such column
    return Items(
        ids=_labels([row[1] for row in rows]),
        texts=tuple(row[2] for row in rows),
        contexts=_labels(list(contexts)),
        context=np.array([codes[row[0]] for row in rows], dtype=np.int32),
        context_texts=tuple(contexts.values()),
        scores={
            name: np.array([math.nan if row[name] is None else row[name] for row in scores])
            for name in (scores[0] if scores else ())
        },
        group=_labels(groups) if groups else None,
    )


@contextmanager
def _reading(folder: Path) -> Iterator[sqlite3.Connection]:
    path = folder / "judgements.db"
    if not path.is_file():
        raise StoreError(f"{folder} is not a run folder: it has no judgements.db")
    with _explained(folder), closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as connection:
        yield connection


def _labels(encoded: list[str]) -> NDArray[Any]:
    labels = [json.loads(label) for label in encoded]
    return np.fromiter(labels, dtype=object, count=len(labels))


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What differs between two identities, in words; nested settings by their own names.

    >>> differences({"judge": "a", "seed": 0}, {"judge": "b", "seed": 0})
    ["judge was 'a' and is 'b'"]
    """
    found: list[str] = []
    for name in dict.fromkeys([*before, *now]):
        old, new = before.get(name), now.get(name)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            found += [f"{name}: {difference}" for difference in differences(old, new)]
        elif old != new:
            found.append(f"{name} was {_short(old)} and is {_short(new)}")
    return found


def write_text(path: Path, text: str) -> None:
    """Write a file, whole or not at all."""
    temporary = path.with_name(f".{uuid4().hex}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8")
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _judgements(connection: sqlite3.Connection) -> Iterator[Judgement]:
    for context, first, second, *answer in connection.execute(
        f"SELECT context, first, second, {', '.join(ANSWER)} FROM judgements ORDER BY number"
    ):
        values = dict(zip(ANSWER, answer, strict=True))
        for name in ("p", "mass", "seconds", "cost"):
            values[name] = math.nan if values[name] is None else values[name]
        yield Judgement(Question(json.loads(first), json.loads(second), json.loads(context)), **values)


def _values(judgement: Judgement) -> tuple[Any, ...]:
    return tuple(getattr(judgement, field.name) for field in fields(judgement))


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:60]}…{text[-19:]}"


def _locked(folder: Path) -> IO[str]:
    """The folder's lock file, held until it is closed or the process ends, however it ends."""
    file = (folder / "lock").open("a", encoding="utf-8")
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        raise StoreError(f"{folder} is in use by another process; wait for it, or choose another --out") from error
    return file


@contextmanager
def _explained(folder: Path | None) -> Iterator[None]:
    """Errors of the disk and the database, as one line that says what to do."""
    try:
        yield
    except OSError as error:
        raise StoreError(
            f"{folder} cannot be written to ({error.strerror}); make room or choose another --out. What was judged is "
            "kept, and the same command goes on from there"
        ) from error
    except sqlite3.Error as error:
        raise StoreError(
            f"{folder}: the judgements cannot be stored ({error}); make room, or check the folder's permissions. What "
            "was judged before is kept, and the same command goes on from there"
        ) from error
