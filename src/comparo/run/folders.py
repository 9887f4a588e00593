"""The run folders in a folder: choose one for a run, list them, rename one, repair a damaged one."""

import logging
import os
import re
import shutil
import sqlite3
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from comparo.errors import StoreError, WrongFolderError
from comparo.run.batch_store import waiting_for
from comparo.run.database import DATABASE, decode, explained, lock, make_private, open_database, sync
from comparo.run.store import CONFIGURATION, count_judgements, differences, read_configuration

ROOT = Path("comparo-runs")

logger = logging.getLogger(__name__)
PAGE = 4096  # bytes: SQLite's default, which the databases of runs have
TABLES = {  # in the order in which a database's tables are made
    "judgements": "number, at, context, first, second, p, mass, weight, reply, tokens_in, tokens_out, seconds, cost, "
    "cut, error, voice, tokens_cached, tokens_reasoning, cached, model",
    "contexts": "context, text",
    "items": "number, context, id, text, scores, shared, since",
    "run": "number, configuration",
    "ballots": "number, voter, context, first, second, shown, turn, judgement",
    "withdrawn": "number",
    "batches": "number, name, lines, file, sent, id, others, status, done, seen, closed",
    "batch_questions": "batch, number, lines, context, first, second, is_judged",
    "growths": "number, at, judgements, left_out",
    "former": "number, place, context, context_text, id, text, scores, shared, since, until",
}
LABELS = {"judgements": slice(2, 5), "contexts": slice(0, 1), "items": slice(1, 3), "run": slice(1, 2)}
LABELS |= {"ballots": slice(2, 5), "withdrawn": slice(0, 0), "batches": slice(0, 0), "batch_questions": slice(3, 6)}
LABELS |= {"growths": slice(0, 0), "former": slice(2, 5, 2)}
FARTHEST = 2**40  # rows that are skipped in one step in search of some behind the damage


@dataclass(frozen=True, slots=True)
class Summary:
    """One run in the list of runs."""

    folder: Path
    started: str
    judge: str
    budget: str
    answered: int
    failed: int
    ranked: bool
    batch: str = ""  # how far the server is with a batch that the run waits for


def choose_folder(
    name: str,
    identity: Mapping[str, Any],
    fresh: bool = False,
    root: Path = ROOT,
    may_differ: Collection[str] = (),
) -> Path:
    """The newest folder of the same run, to continue it; otherwise, or if `fresh`, a new one named after the time.

    Folders that cannot be read are skipped. A run is the same if its identity is, except in what `may_differ`.
    """
    for folder in [] if fresh else sorted(folders(root), reverse=True):
        try:
            configuration = read_configuration(folder)
        except StoreError as error:
            logger.warning("skipped: %s", error)
            continue
        if not differences(configuration["identity"], identity, may_differ):
            return folder
    stem = re.sub(r"[^\w.-]+", "-", Path(name).stem).strip("-.") or "items"
    base = root / f"{datetime.now():%Y%m%d-%H%M%S}-{stem}"
    return free(base)


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


def folders(root: Path = ROOT) -> list[Path]:
    """The run folders in a folder, by name."""
    return sorted({path.parent for name in (CONFIGURATION, DATABASE) for path in root.glob(f"*/{name}")})


def list_runs(root: Path = ROOT) -> list[Summary]:
    """All runs, the oldest first; a folder that cannot be read is listed with its error."""
    return [_summary(folder) for folder in folders(root)]


def _summary(folder: Path) -> Summary:
    try:
        configuration, (answered, failed) = read_configuration(folder), count_judgements(folder)
        batch = waiting_for(folder)
    except StoreError as error:
        return Summary(folder, "", str(error), "", 0, 0, False)
    started, budget = (str(configuration.get(name, "")) for name in ("started", "budget"))
    judge = str(configuration["identity"].get("judge", ""))
    return Summary(folder, started, judge, budget, answered, failed, (folder / "ranking.csv").exists(), batch)


@dataclass(frozen=True, slots=True)
class Repaired:
    """The number of judgements kept and known to be lost, and the new path of the damaged database."""

    kept: int
    lost: int
    aside: Path


def repair(folder: Path) -> Repaired:
    """Replace the damaged database of a run folder by a new one with every row that can be read.

    SQLite keeps rows in pages of 4096 bytes, ordered by their number. Where a page is damaged the rows in it are lost
    and those before and behind it are not, so they are read up to the damage and again from behind it. The first page
    holds the tables' names and places; where that one is damaged, the first page of a new database, whose tables were
    made in the same order, takes its place. The damaged files are read as a copy and kept.
    """
    path = folder / DATABASE
    if not path.is_file():
        raise WrongFolderError(f"{folder} is not a run folder: it has no {DATABASE}")
    with explained(folder), lock(folder), TemporaryDirectory(dir=folder) as name:
        damaged, mended = Path(name, "damaged.db"), Path(name, "mended.db")
        for end in ("", "-wal"):
            with suppress(FileNotFoundError):
                shutil.copyfile(f"{path}{end}", f"{damaged}{end}")
        make_private(mended)
        numbers = _copy_rows(damaged, mended)
        aside = free(path.with_name(f"{DATABASE}.damaged"))
        os.replace(path, aside)
        for end in ("-wal", "-shm"):
            with suppress(FileNotFoundError):
                os.replace(f"{path}{end}", f"{aside}{end}")
        os.replace(mended, path)
        sync(folder)
    return Repaired(len(numbers), max(numbers, default=0) - len(numbers), aside)


def _copy_rows(damaged: Path, mended: Path) -> list[int]:
    """Copy all readable rows; return the numbers of the copied judgements."""
    numbers: list[int] = []
    with closing(open_database(str(mended))) as new, closing(_opened(damaged)) as old:
        for table, columns in TABLES.items():
            wanted = columns.split(", ")
            insert = f"INSERT OR IGNORE INTO {table} ({columns}) VALUES ({', '.join('?' * len(wanted))})"
            with new:
                for row in _rows(old, table, columns):
                    try:
                        for label in row[LABELS[table]]:
                            decode(label)
                        new.execute(insert, row)
                    except (TypeError, ValueError, sqlite3.IntegrityError):
                        continue  # the page could be read, but its content is not a valid row
                    if table == "judgements":
                        numbers.append(row[0])
    sync(mended)
    return numbers


def _opened(damaged: Path) -> sqlite3.Connection:
    """Open the damaged database, after replacing its first page if that is unreadable."""
    connection = sqlite3.connect(damaged)
    try:
        connection.execute("SELECT name FROM sqlite_schema").fetchall()
        return connection
    except sqlite3.DatabaseError:
        connection.close()
    fresh = damaged.with_name("fresh.db")
    open_database(str(fresh)).close()
    page = bytearray(fresh.read_bytes()[:PAGE])
    page[28:32] = (damaged.stat().st_size // PAGE).to_bytes(4, "big")  # how many pages there are
    page[32:40] = bytes(8)  # and none of them is free
    with damaged.open("r+b") as file:
        file.write(page)
    return sqlite3.connect(damaged)


def _rows(connection: sqlite3.Connection, table: str, columns: str) -> Iterator[tuple[Any, ...]]:
    """The readable rows of a table, in the order of their numbers."""
    with suppress(sqlite3.DatabaseError):
        known = {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}
        columns = ", ".join(name if name in known else f"NULL AS {name}" for name in columns.split(", "))
    after, step = -1, 0
    while step <= FARTHEST:
        try:
            for number, *row in connection.execute(
                f"SELECT rowid, {columns} FROM {table} WHERE rowid > ? ORDER BY rowid", (after + step,)
            ):
                if step > 1:  # some rows between the damage and this one may be readable
                    yield from _single_rows(connection, table, columns, range(after + 1, number))
                after, step = number, 0
                yield tuple(row)
            return
        except sqlite3.DatabaseError:
            step = max(1, 2 * step)


def _single_rows(connection: sqlite3.Connection, table: str, columns: str, numbers: range) -> Iterator[tuple[Any, ...]]:
    for number in numbers:
        with suppress(sqlite3.DatabaseError):
            yield from connection.execute(f"SELECT {columns} FROM {table} WHERE rowid = ?", (number,))
