"""What a run folder holds, as tables: the items of a run, and its judgements as comparisons.

A run folder is given by its path or by that of the database in it. Other databases are not read, because it is unknown
which of their tables is meant.
"""

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from comparo.data.columns import Table
from comparo.errors import ComparisonsError

DATABASE = "judgements.db"
ENDINGS = (".db", ".sqlite", ".sqlite3")


def database_of(path: str | os.PathLike[str]) -> Path | None:
    """The database that a path means, itself or in a run folder; None where it means something else.

    >>> database_of("runs/first/judgements.db"), database_of("pairs.csv")
    (PosixPath('runs/first/judgements.db'), None)
    """
    path = Path(path)
    if os.path.isdir(path):
        return path / DATABASE if (path / DATABASE).is_file() else None
    return path if path.suffix.lower() in ENDINGS else None


def judged(database: Path) -> Table:
    """The answers of a run in the order of their arrival: first, second, p and, if present, weight and context.

    Judgements that failed are left out.
    """
    with _opened(database, "judgements", "first, second, p") as connection:
        rows = connection.execute(
            "SELECT first, second, p, weight, context FROM judgements WHERE error IS NULL ORDER BY number"
        ).fetchall()
    if not rows:
        raise ComparisonsError(f"{database.parent} holds no answers yet; run its command again to go on")
    first, second, p, weight, context = zip(*rows, strict=True)
    columns: dict[str, Any] = {"first": _labels(first), "second": _labels(second), "p": np.array(p, dtype=np.float64)}
    if any(each != 1 for each in weight):
        columns["weight"] = np.array(weight, dtype=np.float64)
    if any(each != "null" for each in context):
        columns["context"] = _labels(context)
    return Table(columns, str(database.parent))


def items_of_run(database: Path) -> Table:
    """The items of a run: id, text and, where there are any, context_id, context, group and score_…."""
    with _opened(database, "items", "id, text") as connection:
        return table_of_items(connection, str(database.parent))


def table_of_items(connection: sqlite3.Connection, source: str) -> Table:
    """The items that a run's database holds; `source` names it in errors."""
    texts = dict(connection.execute("SELECT context, text FROM contexts").fetchall())
    found = connection.execute("SELECT * FROM items ORDER BY number")
    names = [name for name, *_ in found.description]
    rows = [dict(zip(names, row, strict=True)) for row in found]
    columns: dict[str, Any] = {"id": _labels([row["id"] for row in rows]), "text": [row["text"] for row in rows]}
    if any(row["context"] != "null" for row in rows):
        columns["context_id"] = _labels([row["context"] for row in rows])
        columns["context"] = [texts[row["context"]] for row in rows]
    groups = [row.get("shared") for row in rows]  # an older folder has no such column
    if all(group is not None for group in groups):
        columns["group"] = _labels(groups)
    scores = [json.loads(row["scores"]) for row in rows]
    for name in scores[0] if scores else ():
        columns[f"score_{name}"] = [row[name] for row in scores]
    return Table(columns, source)


@contextmanager
def _opened(path: Path, table: str, wanted: str) -> Iterator[sqlite3.Connection]:
    """A database that has such a table, open for reading."""
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            if not {"judgements", "contexts", "items"} <= tables:
                raise ComparisonsError(
                    f"{path} is a database that comparo did not write; export the table that you mean, for example by "
                    f"sqlite3 -header -csv {path} 'SELECT {wanted} FROM …' > {table}.csv, and name that file"
                )
            yield connection
    except sqlite3.Error as error:
        raise ComparisonsError(f"{path} cannot be read as a run's database ({error}); check the name") from error


def _labels(encoded: Any) -> list[Any]:
    known = {text: json.loads(text) for text in set(encoded)}
    return [known[text] for text in encoded]
