"""The run folders in a folder: choose one for a run, list them, repair one.

A damaged folder gets a new database of the rows that can still be read. Every database of a run begins with the same
page, which holds the schema: the first page of a new database replaces it. Rows are read one by one: a damaged page
costs its own rows, or those that it leads to.
"""

import json
import logging
import math
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

from comparo.data.run_folder import DATABASE, decode, is_sound
from comparo.errors import StoreError, WrongFolderError
from comparo.run.batch_transport import how_far
from comparo.run.files import (
    COLUMNS,
    explained,
    free,
    judgement_of,
    last_judgement,
    lock,
    make_private,
    open_database,
    sync,
)
from comparo.run.store import (
    CHANGED,
    CONFIGURATION,
    LINK,
    count_judgements,
    differences,
    read_configuration,
    reading,
    write_configuration,
    written_configuration,
)

ROOT = Path("comparo-runs")

logger = logging.getLogger(__name__)


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
    link: str = ""  # the run to whose scale it is linked


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
    return free(root / f"{datetime.now():%Y%m%d-%H%M%S}-{slug(Path(name).stem) or 'items'}")


def slug(name: str) -> str:
    """The name with only letters, digits, dots and hyphens.

    >>> slug("openai/gpt-6 luna")
    'openai-gpt-6-luna'
    """
    return re.sub(r"[^\w.-]+", "-", name).strip("-.")


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
    started = str(configuration.get("started", ""))
    budget = str(configuration.get("budget", ""))
    judge = str(configuration["identity"].get("judge", ""))
    link = str((configuration.get(LINK) or {}).get("run", ""))
    is_ranked = (folder / "ranking.csv").exists()
    return Summary(folder, started, judge, budget, answered, failed, is_ranked, batch, link)


def waiting_for(folder: Path) -> str:
    """The last known state of the open batches of a run: "in progress, 120 of 500 done"; "" where there are none."""
    with reading(folder) as connection:
        rows = connection.execute(
            "SELECT status, sum(lines), sum(done), max(seen) FROM batches WHERE closed IS NULL AND sent IS NOT NULL "
            "GROUP BY status ORDER BY min(number)"
        ).fetchall()
    states = "; ".join(how_far(*state) for *state, _ in rows)
    times = [seen for *_, seen in rows if seen]
    if not times:
        return states
    last = max(times)[:16].replace("T", " ")
    return f"{states} ({last} UTC)"


PAGE = 4096  # bytes: SQLite's default, which the databases of runs have
MOST_ROWS = 400  # of one page: a row takes at least ten bytes

DatabaseRow = tuple[Any, ...]

TYPES: dict[str, tuple[type, ...]] = {"TEXT": (str,), "INTEGER": (int,), "REAL": (int, float)}
LABELS = {"context", "first", "second", "shared", "id"}
OBJECTS = {"scores", "configuration"}  # of JSON
TIMES = {"at", "shown"}
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
    with explained(folder), lock(folder), TemporaryDirectory(dir=folder) as name:
        mended = Path(name, "mended.db")
        make_private(mended)
        with closing(open_database(str(mended))) as connection:
            connection.execute("PRAGMA journal_mode=DELETE")
            with connection:
                _copy_rows(_with_first_page(path, mended), connection)
                _mend(connection, _configuration(folder, connection))
            kept, last = connection.execute("SELECT count(*), coalesce(max(number), 0) FROM judgements").fetchone()
            (asked,) = connection.execute("SELECT count(*) + (SELECT count(*) FROM ballots) FROM batches").fetchone()
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
    return Repaired(kept, last - kept, aside)


def _with_first_page(path: Path, other: Path) -> Path:
    """A copy of a database, and of the log beside it, with the first page of another."""
    copy = other.with_name("copy.db")
    for end in ("", "-wal"):
        with suppress(FileNotFoundError):
            shutil.copyfile(f"{path}{end}", f"{copy}{end}")
    first = bytearray(other.read_bytes()[:PAGE])
    first[18:20] = 2, 2  # WAL mode: it may have a log
    first[28:32] = bytes(4)  # unknown: SQLite takes the number of pages from the file size
    with copy.open("r+b") as file:
        file.write(first)
    return copy


def _copy_rows(source: Path, connection: sqlite3.Connection) -> None:
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    with closing(sqlite3.connect(source)) as damaged:
        for table in tables:
            columns = connection.execute(f"PRAGMA table_info({table})").fetchall()
            rows = [*_rows(damaged, table, MOST_ROWS * (source.stat().st_size // PAGE))]
            # Rows of an older version have no checksum: none of them.
            is_sealed = columns[-1][1] == "checksum" and any(row[-1] is not None for row in rows)
            for row in rows:
                if _is_readable(table, columns, row) and (not is_sealed or is_sound(row)):
                    with suppress(sqlite3.IntegrityError, OverflowError):  # a value is missing, or its number taken
                        connection.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)


def _rows(damaged: sqlite3.Connection, table: str, most: int) -> Iterator[DatabaseRow]:
    """The readable rows of a table; rowids above `most` are not tried."""
    with suppress(sqlite3.DatabaseError):
        (last,) = damaged.execute(f"SELECT coalesce(max(rowid), 0) FROM {table}").fetchone()
        most = min(last, most)
    for rowid in range(1, most + 1):
        with suppress(sqlite3.DatabaseError):
            yield from damaged.execute(f"SELECT * FROM {table} WHERE rowid = ?", (rowid,))


def _is_readable(table: str, columns: list[DatabaseRow], row: DatabaseRow) -> bool:
    """Whether the values have the types of their columns, and can be read as labels, objects, times, a judgement."""
    named: dict[str, Any] = {}
    for (_, name, kind, *_), value in zip(columns, row, strict=True):
        if value is not None:
            named[name] = value
            if not isinstance(value, TYPES[kind]):
                return False
    if not all(0 <= value < math.inf for value in named.values() if not isinstance(value, str)):
        return False
    try:
        for name in named.keys() & LABELS if table != "batches" else ():
            decode(named[name])
        for name in named.keys() & TIMES:
            datetime.fromisoformat(named[name])
        if table == "judgements":
            judgement_of([named.get(name) for name in COLUMNS[1:]])
        return all(isinstance(json.loads(named[name]), dict) for name in named.keys() & OBJECTS)
    except (TypeError, ValueError):
        return False


def _configuration(folder: Path, connection: sqlite3.Connection) -> Mapping[str, Any]:
    """Take the configuration of run.json where it can be read, and return that of the run."""
    with suppress(StoreError):
        write_configuration(connection, written_configuration(folder))
    found = connection.execute("SELECT configuration FROM run").fetchone()
    configuration = json.loads(found[0]) if found else {}
    return configuration if isinstance(configuration.get("identity"), dict) else {"identity": {}}


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
