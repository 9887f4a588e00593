"""Rows of a run's database: opened, and judgements and items as it holds them (`comparo.data.run_folder`)."""

import json
import math
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comparo.data.items import Items
from comparo.data.prompts import Question
from comparo.data.run_folder import (
    ANCHOR,
    SCHEMA,
    VERSION,
    Key,
    about_items,
    check_version,
    clean,
    decode,
    encode,
    key_of,
)
from comparo.judges import Judgement

ANSWER = tuple(field.name for field in fields(Judgement))[1:]
COLUMNS = ("at", "context", "first", "second", "voice", *ANSWER)
INSERT = f"""
    INSERT INTO judgements ({", ".join(COLUMNS)}) VALUES ({", ".join("?" * len(COLUMNS))}) ON CONFLICT DO NOTHING
"""
# Raised for values that SQLite cannot store: an integer of more than 64 bits, a lone surrogate, a missing text.
UNFIT = (OverflowError, UnicodeError, sqlite3.IntegrityError, sqlite3.InterfaceError, sqlite3.ProgrammingError)
BUSY = 5.0  # seconds to wait for a database that another process holds: the default of Python's sqlite3
Label = tuple[str, str]  # an item by its context and id, both encoded


def open_database(path: str, schema: Sequence[str] = SCHEMA, patience: float = BUSY) -> sqlite3.Connection:
    """Open a database for writing, and make its tables if it is new; threads may share it, one at a time.

    Where another process holds it, this one waits for `patience` seconds.
    """
    connection = sqlite3.connect(path, timeout=patience, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        is_made = "SELECT 1 FROM sqlite_schema"
        if not connection.execute(is_made).fetchone():
            with connection:
                connection.execute("BEGIN IMMEDIATE")  # another process may make the tables at the same time
                if not connection.execute(is_made).fetchone():
                    for statement in schema:
                        connection.execute(statement)
                    connection.execute(f"PRAGMA user_version={VERSION}")
        check_version(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def stored_judgements(connection: sqlite3.Connection, source: object = "") -> Iterator[tuple[int, Key, Judgement]]:
    """The judgements that stand with their numbers and keys, in the order in which they were stored.

    Those about lost items are left out, with a warning where `source` names the folder. Questions hold labels but no
    texts.
    """
    rows = numbered_judgements(connection, "NOT withdrawn")
    return about_items(connection, ((row[1], row) for row in rows), str(source or ""))


def numbered_judgements(connection: sqlite3.Connection, condition: str) -> Iterator[tuple[int, Key, Judgement]]:
    """The judgements of some rows with their numbers and keys, in the order in which they were stored."""
    columns = ", ".join(("number", *COLUMNS[1:]))
    for number, context, first, second, voice, *answer, error, cached in connection.execute(
        f"SELECT {columns} FROM judgements WHERE {condition} ORDER BY number"
    ):
        known: list[Any] = [*(math.nan if value is None else value for value in answer), error, bool(cached)]
        try:
            question = Question(decode(first), decode(second), decode(context), voice=voice)
            judgement = Judgement(question, *known)
        except (TypeError, ValueError) as problem:
            raise sqlite3.DatabaseError(f"judgement {number}: {problem}") from problem
        yield number, (context, first, second, voice), judgement


def insert(connection: sqlite3.Connection, judgement: Judgement) -> Judgement | None:
    """Insert a judgement; if it cannot be stored, with cleaned text, and if it still cannot, as a failed one.

    None where it is an answer to a question that has one: nothing is stored.
    """
    try:
        return judgement if connection.execute(INSERT, _row(judgement)).rowcount else None
    except UNFIT as problem:
        reason = problem
    reply, error = clean(str(judgement.reply)), judgement.error
    cleaned = replace(judgement, reply=reply, error=None if error is None else clean(str(error)))
    try:
        return cleaned if connection.execute(INSERT, _row(cleaned)).rowcount else None
    except UNFIT:
        failed = Judgement(judgement.question, reply=reply, error=f"the answer cannot be stored ({reason})")
        connection.execute(INSERT, _row(failed))
        return failed


def _row(judgement: Judgement) -> list[Any]:
    answer = (getattr(judgement, name) for name in ANSWER)
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    return [now, *key_of(judgement.question), *map(plain, answer)]


def plain(value: Any) -> Any:
    """Replace nan by None, which the database stores as NULL."""
    return None if isinstance(value, float) and math.isnan(value) else value


def as_objects(labels: Iterable[Any]) -> NDArray[Any]:
    """Labels as an array of objects, also where they are tuples."""
    every = list(labels)
    found = np.empty(len(every), dtype=object)
    found[:] = every
    return found


def texts_of(items: Items) -> dict[Label, tuple[tuple[Any, Any], str, str | None]]:
    """Labels, text and context of each item, by its encoded labels."""
    shared = [None if text is None else clean(text) for text in items.context_texts]
    contexts = items.contexts.tolist()
    rows = zip(items.context.tolist(), items.ids.tolist(), map(clean, items.texts), strict=True)
    return {
        (encode(contexts[code]), encode(label)): ((contexts[code], label), text, shared[code])
        for code, label, text in rows
    }


def item_rows(items: Items) -> tuple[list[tuple[str, str | None]], list[tuple[str, str, str, str, str | None]]]:
    """The rows of the table of contexts (label, text), and of the items (context, id, text, scores, group).

    >>> item_rows(Items.of({"ana": "A story.", "bo": "Another."}))[1][0]
    ('null', '"ana"', 'A story.', '{}', None)
    """
    contexts = [encode(label) for label in items.contexts.tolist()]
    known = {**items.scores, **({} if items.anchor is None else {ANCHOR: items.anchor})}
    names = list(known)
    scores = zip(*(known[name].tolist() for name in names), strict=True) if names else repeat((), len(items))
    groups = repeat(None, len(items)) if items.group is None else map(encode, items.group.tolist())
    columns = zip(items.context, items.ids.tolist(), map(clean, items.texts), scores, groups, strict=False)
    rows = [
        (contexts[context], encode(label), text, json.dumps(dict(zip(names, map(plain, values), strict=True))), of)
        for context, label, text, values, of in columns
    ]
    shared = [None if text is None else clean(text) for text in items.context_texts]
    return list(zip(contexts, shared, strict=True)), rows
