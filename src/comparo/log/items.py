"""The items of a run folder as rows of its database."""

import json
import sqlite3
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comparo.data.items import Items
from comparo.data.run_folder import ANCHOR, clean, encode
from comparo.log.rows import plain

Label = tuple[str, str]  # an item by its context and id, both encoded


def as_objects(labels: Iterable[Any]) -> NDArray[Any]:
    """Labels as an array of objects, also where they are tuples."""
    return np.fromiter(labels, dtype=object)


def texts_of(items: Items) -> dict[Label, tuple[tuple[Any, Any], str, str | None]]:
    """(context, id), text and context text of each item, by its encoded labels."""
    shared = [None if text is None else clean(text) for text in items.context_texts]
    contexts = items.contexts.tolist()
    rows = zip(items.context.tolist(), items.ids.tolist(), map(clean, items.texts), strict=True)
    return {
        (encode(contexts[code]), encode(label)): ((contexts[code], label), text, shared[code])
        for code, label, text in rows
    }


def write_items(connection: sqlite3.Connection, items: Items, growth: int = 0) -> None:
    """Replace the stored items where they differ; those that are not there are new in this growth."""
    known = items.scores if items.anchor is None else {**items.scores, ANCHOR: items.anchor}
    groups = None if items.group is None else items.group.tolist()
    rows, contexts = [], dict[str, str | None].fromkeys(map(encode, items.contexts.tolist()))
    for number, ((context, label), (_, text, shared)) in enumerate(texts_of(items).items()):
        contexts[context] = shared
        scores = {name: plain(float(column[number])) for name, column in known.items()}
        group = None if groups is None else encode(groups[number])
        rows.append((context, label, text, json.dumps(scores), group))
    there = connection.execute("SELECT context, id, text, scores, shared, since FROM items ORDER BY number")
    since = {row[:5]: row[5] for row in there}
    texts = connection.execute("SELECT context, text FROM contexts").fetchall()
    if [*since] != rows or dict(texts) != contexts:
        came = {row[:2]: number for row, number in since.items()}
        connection.execute("DELETE FROM items")
        connection.execute("DELETE FROM contexts")
        connection.executemany("INSERT INTO contexts VALUES (?, ?)", contexts.items())
        connection.executemany(
            "INSERT INTO items (context, id, text, scores, shared, since) VALUES (?, ?, ?, ?, ?, ?)",
            ((*row, came.get(row[:2], growth)) for row in rows),
        )
