"""The tables of a run folder's database, and how databases of runs and caches are opened.

`judgements.db` holds the configuration, the items and the judgements. Judgements are only added; a retracted one is
marked as withdrawn. The index `answered` allows one valid answer per question, beside failed and withdrawn ones. Each
judgement carries a checksum of its row: damage can leave a row that reads as another answer.
"""

import sqlite3
from typing import NamedTuple

from comparo.data.run_folder import UNSEALED, VERSION, check_version, checksum, version_of
from comparo.errors import Message, StoreError
from comparo.log.rows import ANSWER, declared


class Schema(NamedTuple):
    """The tables of a database; `application` is SQLite's place for a number that says whose file it is."""

    name: str
    application: int
    anew: str  # how to start with another database
    statements: tuple[str, ...]


TABLES = (
    "CREATE TABLE run (number INTEGER PRIMARY KEY CHECK (number = 1), configuration TEXT NOT NULL)",
    "CREATE TABLE contexts (context TEXT PRIMARY KEY, text TEXT)",
    # `shared` is the item's group, `since` the number of the growth that added it, 0 for the first run.
    """
    CREATE TABLE items (
        number INTEGER PRIMARY KEY, context TEXT NOT NULL, id TEXT NOT NULL, text TEXT NOT NULL, scores TEXT NOT NULL,
        shared TEXT, since INTEGER NOT NULL
    )
    """,
    # `second` is a JSON array of all further slots in a line-up, whose answer is `lineup`. `voice` is NULL in a run of
    # one voice, `cached` is 1 for an answer of an earlier run.
    f"""
    CREATE TABLE judgements (
        number INTEGER PRIMARY KEY, at TEXT NOT NULL,
        context TEXT NOT NULL, first TEXT NOT NULL, second TEXT NOT NULL, voice TEXT,
        {declared(ANSWER)}, withdrawn INTEGER NOT NULL DEFAULT 0, checksum INTEGER
    )
    """,
    """
    CREATE UNIQUE INDEX answered ON judgements (context, first, second, coalesce(voice, ''))
    WHERE error IS NULL AND NOT withdrawn
    """,
    # A pair that was shown to a person; `judgement` is the number of the answer, NULL while there is none, and `turn`
    # how often the ballot was opened: once, and again whenever its answer was withdrawn.
    """
    CREATE TABLE ballots (
        number INTEGER PRIMARY KEY, voter TEXT NOT NULL,
        context TEXT NOT NULL, first TEXT NOT NULL, second TEXT NOT NULL,
        shown TEXT NOT NULL, turn INTEGER NOT NULL, judgement INTEGER
    )
    """,
    # A batch that is planned or waits at a server. `name` is ours, `file` and `id` are the server's; `sent` is when its
    # creation was first requested, `closed` is when it was over.
    """
    CREATE TABLE batches (
        number INTEGER PRIMARY KEY, name TEXT NOT NULL, lines INTEGER NOT NULL, file TEXT NOT NULL DEFAULT '',
        sent REAL, id TEXT, status TEXT NOT NULL DEFAULT 'planned',
        done INTEGER NOT NULL DEFAULT 0, seen TEXT, closed TEXT
    )
    """,
    """
    CREATE TABLE batch_questions (
        batch INTEGER NOT NULL, number INTEGER NOT NULL, lines INTEGER NOT NULL,
        context TEXT NOT NULL, first TEXT NOT NULL, second TEXT NOT NULL, is_judged INTEGER NOT NULL DEFAULT 0,
        PRIMARY KEY (batch, number)
    )
    """,
    # One row per growth of the run: the number of the last judgement before it.
    "CREATE TABLE growths (number INTEGER PRIMARY KEY, at TEXT NOT NULL, judgements INTEGER NOT NULL)",
)

RUN = Schema("", 0, Message("with {fresh:True}"), TABLES)
BUSY = 5.0  # seconds to wait for a database that another process holds: the default of Python's sqlite3
SEALED = ("judgements", "answers", "probes")  # tables of a run or a cache whose rows carry a checksum


def open_database(path: str, schema: Schema = RUN) -> sqlite3.Connection:
    """Open a database for writing, and make its tables if it is new; threads may share it, one at a time."""
    connection = sqlite3.connect(path, timeout=BUSY, check_same_thread=False)
    try:
        is_made = _is_made(connection, path, schema)  # before anything is written
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        with connection:
            # Another process may make the tables at the same time.
            if not is_made and connection.execute("BEGIN IMMEDIATE") and not _is_made(connection, path, schema):
                for statement in schema.statements:
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id={schema.application}")
                connection.execute(f"PRAGMA user_version={VERSION}")
        _seal(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _is_made(connection: sqlite3.Connection, path: str, schema: Schema) -> bool:
    """Whether a database has its tables; a StoreError where they are of something else or of another version."""
    # The tables first: another process may be making them, in one transaction.
    if not connection.execute("SELECT 1 FROM sqlite_schema").fetchone():
        return False
    if connection.execute("PRAGMA application_id").fetchone() != (schema.application,):
        raise StoreError(f"{path} is a database of something else; name another file")
    check_version(connection, f"{schema.name}{path}", schema.anew)
    return True


def _seal(connection: sqlite3.Connection) -> None:
    """Let every row get its checksum whenever it is written, and add those that the rows of an older version lack."""
    connection.create_function("checksum_of", -1, checksum, deterministic=True)
    with connection:
        connection.execute("BEGIN IMMEDIATE" if (is_old := version_of(connection) == UNSEALED) else "BEGIN")
        is_old = is_old and version_of(connection) == UNSEALED  # another process may have added them
        for table in SEALED:
            names = [name for _, name, *_ in connection.execute(f"PRAGMA table_info({table})") if name != "checksum"]
            if not names:
                continue
            columns = ", ".join(names)
            seal = f"UPDATE {table} SET checksum = checksum_of({columns})"
            if is_old:
                connection.execute(f"ALTER TABLE {table} ADD COLUMN checksum INTEGER")
                connection.execute(seal)
            for event in ("INSERT", f"UPDATE OF {columns}"):
                connection.execute(
                    f"CREATE TEMP TRIGGER seal_{table}_{event[:6]} AFTER {event} ON {table} "
                    f"BEGIN {seal} WHERE rowid = new.rowid; END"
                )
        if is_old:
            connection.execute(f"PRAGMA user_version={VERSION}")


def last_judgement(connection: sqlite3.Connection) -> int:
    """The number of the last judgement, 0 where there is none."""
    return int(connection.execute("SELECT coalesce(max(number), 0) FROM judgements").fetchone()[0])
