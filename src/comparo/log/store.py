"""The run folder: the configuration of a run and all its judgements.

    run.json        the resolved configuration, versions, seed and hashes
    judgements.db   SQLite (`comparo.data.run_folder`), with a log beside it while the run goes on
    votes.csv       people's votes about the items, where some were given
    ranking.csv     the ranking, voices.csv the scores by each of several voices, report.html the page about it

A judgement is in the database when `Store.add` returns, so a process that is killed loses the calls in flight and
nothing else. It is on the disk, safe from a power cut, once 64 judgements wait or a second has passed. One process
at a time may write to a folder.
"""

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import numpy as np

from comparo.data.criteria_prompt import shares_in
from comparo.data.items import Items
from comparo.data.run_folder import DATABASE, Key, check_version, read_only, table_of_items
from comparo.errors import Message, StoreError, WrongFolderError
from comparo.judges import Judgement
from comparo.log.configuration import (
    CONFIGURATION,
    as_written,
    differences,
    stored_configuration,
    write_configuration,
    written_configuration,
)
from comparo.log.database import open_database
from comparo.log.files import as_json, explained, lock, make_private, sync, write_text
from comparo.log.rows import calls_of, insert, stored_judgements, write_items

VOTES = "votes.csv"
CHANGED = "changed"  # in run.json: the voices of a judge before it changed (`comparo.run.check`)
LINK = "link"  # in run.json: the run to whose scale this one is linked, and the growth that copied it
# Entries of run.json that later starts keep: the questions depend on them.
KEPT = ("started", "ahead", "alike", "versions", "probes", CHANGED, LINK)
MOST_UNSYNCED, LONGEST_UNSYNCED = 64, 1.0  # judgements, and seconds, that a power cut may cost


class Store:
    """The judgements and the configuration of a run; without a folder, only in memory.

    `identity` is what must not change between two starts: a folder made with another one is refused, saying what
    differs, except for the settings that `may_differ`. `add` may be called from any thread. `close` releases the
    folder. `most_unsynced` judgements, or those of a second, may be lost in a power cut.

    >>> from comparo.data.prompts import Question
    >>> store = Store(None, {"judge": "simulated/soft"})
    >>> _ = store.add([Judgement(Question("ana", "bo"), p=0.7, mass=1.0)])
    >>> [(answer.question.first, answer.p) for answer in store.judgements()]
    [('ana', 0.7)]
    """

    def __init__(
        self,
        folder: Path | None,
        identity: Mapping[str, Any],
        configuration: Mapping[str, Any] | None = None,
        *,
        may_differ: Collection[str] = (),
        most_unsynced: int = MOST_UNSYNCED,
    ) -> None:
        self.folder, self.most_unsynced = folder, most_unsynced
        self._turn = threading.Lock()
        self._lock: IO[str] | None = None
        self._unsynced, self._synced = 0, time.monotonic()
        if folder is None:
            self.configuration = {"identity": dict(identity), **(configuration or {})}
            self._connection = open_database(":memory:")
            return
        if folder.exists() and not folder.is_dir():
            raise WrongFolderError(f"{folder} is a file; " + Message("give {out} a folder, of a run or a new one"))
        try:
            with explained(folder):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._lock = lock(folder)
                _check_not_emptied(folder)
                make_private(folder / DATABASE)
                self._connection = open_database(str(folder / DATABASE))
                self._file = os.stat(folder / DATABASE).st_ino
                self._configure(folder, identity, configuration or {}, may_differ)
                sync(folder)
        except BaseException:
            self.close()
            raise

    def add(self, judgements: Iterable[Judgement]) -> list[Judgement]:
        """Append judgements and return them as stored: one that cannot be stored becomes a failed one.

        They survive the end of the process when this returns, and a power failure after 64 judgements or one second.
        A StoreError says that some were second answers to their questions; all others are stored.
        """
        with self.transaction() as connection:
            kept = [insert(connection, judgement) for judgement in judgements]
        self.settle()
        stored = [judgement for judgement in kept if judgement is not None]
        if len(stored) < len(kept):
            raise StoreError(
                f"{self.folder} has answers to {len(kept) - len(stored)} of these questions already, so they were not "
                "stored again; run the same command again, which goes on from what is there"
            )
        return stored

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Yield the database in a transaction: all changes are kept, or none after an exception.

        Same durability as `add`.

        >>> store = Store(None, {})
        >>> with store.transaction() as connection:
        ...     _ = connection.execute("INSERT INTO contexts VALUES ('null', NULL)")
        """
        with self._turn, explained(self.folder):
            self._check_there()
            with self._connection as connection:
                connection.execute("BEGIN IMMEDIATE")
                before = connection.total_changes
                yield connection
            # A judgement is two changes: the row, and its checksum.
            self._unsynced += -(-(connection.total_changes - before) // 2)
            if self._unsynced >= self.most_unsynced:
                self._sync()

    def settle(self) -> None:
        """Flush judgements that have waited for a second to the disk."""
        with self._turn, explained(self.folder):
            if self._unsynced and time.monotonic() - self._synced >= LONGEST_UNSYNCED:
                self._sync()

    def flush(self) -> None:
        """Flush everything to the disk: it survives a power failure once this returns."""
        with self._turn, explained(self.folder):
            self._sync()

    def add_items(self, items: Items) -> None:
        """Store the items, replacing stored ones that differ: damage may have lost or changed some."""
        with self.transaction() as connection:
            write_items(connection, items)

    def judgements(self) -> Iterator[Judgement]:
        """All judgements, in the order in which they were stored; questions hold labels but no texts."""
        with explained(self.folder, is_read=True):
            yield from (judgement for *_, judgement in stored_judgements(self._connection))

    def known(self) -> dict[Key, list[Judgement]]:
        """The judgements of each question, in the order in which they were stored; calls, where criteria share one."""
        found: dict[Key, list[Judgement]] = {}
        with explained(self.folder, is_read=True):
            for _, key, judgement in stored_judgements(self._connection, self.folder):
                found.setdefault(key, []).append(judgement)
        criteria = shares_in(self.configuration)
        return calls_of(found, criteria) if criteria else found

    def write(self, name: str, text: str) -> None:
        """Write a file of the run folder atomically."""
        if self.folder is not None:
            with explained(self.folder):
                self._check_there()
                write_text(self.folder / name, text)

    def close(self) -> None:
        with self._turn:
            if connection := getattr(self, "_connection", None):
                # Without its log the database is one file, which can be read where nothing can be written.
                with suppress(sqlite3.Error):  # another process reads it, or the disk is full; the log stays beside it
                    connection.execute("PRAGMA busy_timeout=0")
                    connection.execute("PRAGMA journal_mode=DELETE")
                connection.close()
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _sync(self) -> None:
        if self.folder is not None:
            sync(self.folder / f"{DATABASE}-wal")
        self._unsynced, self._synced = 0, time.monotonic()

    def _check_there(self) -> None:
        """Raise a StoreError if the folder is gone: anything written to a deleted file would be lost."""
        if self.folder is None:
            return
        try:
            there = os.stat(self.folder / DATABASE).st_ino == self._file
        except FileNotFoundError:
            there = False
        if not there:
            raise StoreError(
                f"{self.folder} was deleted or moved while the run was writing to it, and answers since then are not "
                "kept. If you moved it, move it back and run the same command again"
            )

    def _configure(
        self, folder: Path, identity: Mapping[str, Any], now: Mapping[str, Any], may_differ: Collection[str]
    ) -> None:
        """Check that the folder belongs to this run, and store the configuration as it is `now`."""
        identity = as_json(identity)
        begun = self._connection.execute("SELECT 1 FROM judgements LIMIT 1").fetchone() is not None
        before = stored_configuration(self._connection)
        if before is None and (begun or (folder / CONFIGURATION).exists()):
            before = written_configuration(folder)
        kept = {}
        if before is not None:
            if differing := differences(before["identity"], identity, may_differ):
                remedy = Message("Choose another {out}, or start anew with {fresh:True}")
                raise WrongFolderError(f"{folder} holds another run: {'; '.join(differing)}. " + remedy)
            kept = {name: before[name] for name in KEPT if name in before}
        self.change(lambda _: None, {"identity": identity, **now, **kept})

    def change(self, rows: Callable[[sqlite3.Connection], None], configuration: Mapping[str, Any]) -> None:
        """Call `rows` with the database and store the configuration, in one transaction."""
        with self.transaction() as connection:
            rows(connection)
            write_configuration(connection, configuration)
        self.configuration = dict(configuration)
        self.write(CONFIGURATION, as_written(configuration))

    def identify(self, identity: Mapping[str, Any]) -> None:
        """Store a new identity, which may differ from the old one in `may_differ`, such as who has joined."""
        self.change(lambda _: None, {**self.configuration, "identity": dict(identity)})


@contextmanager
def reading(folder: Path) -> Iterator[sqlite3.Connection]:
    """Open the database of a run folder for reading; a run may write to it at the same time."""
    path = folder / DATABASE
    if not path.is_file():
        raise WrongFolderError(f"{folder} is not a run folder: it has no {DATABASE}")
    with explained(folder, is_read=True), read_only(path) as connection:
        check_version(connection, folder)
        yield connection


def _check_not_emptied(folder: Path) -> None:
    """Raise a StoreError where a database is empty though a run has begun: it would ask everything again."""
    path = folder / DATABASE
    if path.is_file() and not path.stat().st_size and (folder / CONFIGURATION).exists():
        remedy = Message("put it back, or start anew with {fresh:True}")
        raise StoreError(f"{path} is empty, so its judgements are lost; " + remedy)


def read_configuration(folder: Path) -> dict[str, Any]:
    """The configuration of a run: from its database, or from run.json if the database has none."""
    try:
        with reading(folder) as connection:
            configuration = stored_configuration(connection)
    except StoreError:
        if not (folder / CONFIGURATION).is_file():
            raise
        configuration = None
    return written_configuration(folder) if configuration is None else configuration


def read_judgements(folder: Path) -> list[Judgement]:
    """The judgements of a run folder; a run may write to it at the same time."""
    with reading(folder) as connection:
        return [judgement for *_, judgement in stored_judgements(connection, folder)]


def count_judgements(folder: Path) -> tuple[int, int]:
    """The number of answered questions of a run folder, and of failed ones without an answer."""
    asked = "FROM judgements WHERE NOT withdrawn GROUP BY context, first, second, voice"
    with reading(folder) as connection:
        failures = [failed for (failed,) in connection.execute(f"SELECT min(error IS NOT NULL) {asked}")]
    return failures.count(0), failures.count(1)


def stored_items(folder: Path) -> Items:
    """The items of a run folder, with the numbers that its scores depend on; a StoreError where there are none."""
    with reading(folder) as connection:
        table = table_of_items(connection, str(folder))
    if not table.columns["id"]:
        raise StoreError(f"{folder} holds no items, so there is nothing to show; run the same command again")
    configuration = read_configuration(folder)
    held = {**(configuration.get("control") or {}), **configuration.get("numbers", {})}
    numbers = {name: np.array(values, dtype=float) for name, values in held.items() if values is not None}
    return replace(Items.of(table, has_images=True), numbers=numbers)
