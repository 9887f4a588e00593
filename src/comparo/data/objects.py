"""Columns from JSON: a list of objects, or one object per line."""

from __future__ import annotations

import gzip
import io
import json
from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any

from comparo.data.frames import Column
from comparo.errors import ComparisonsError

Binary = gzip.GzipFile | io.BufferedReader | io.BytesIO

CHUNK = 512  # rows at a time: few enough to be freed before the garbage collector runs


def columns_from_objects(
    objects: Iterable[Mapping[str, Any]], wanted: Collection[str] | None = None
) -> tuple[dict[str, Column], tuple[str, ...]]:
    """The wanted columns of an iterable of mappings, None where a key is missing, and the names of the others.

    >>> columns_from_objects([{"first": "ana", "p": 0.7}, {"first": "bo", "note": "!"}], wanted=["first", "p"])
    ({'first': ['ana', 'bo'], 'p': [0.7, None]}, ('note',))
    """
    columns: dict[str, list[Any]] = {}
    others: dict[str, None] = {}
    seen: dict[str, str] = {}
    objects, rows = iter(objects), 0
    while chunk := list(islice(objects, CHUNK)):
        for name in dict.fromkeys(chain.from_iterable(chunk)):
            if wanted is not None and name not in wanted:
                others[name] = None
            elif name not in columns:
                columns[name] = [None] * rows
        for name, column in columns.items():
            column.extend(stored_once((row.get(name) for row in chunk), seen))
        rows += len(chunk)
    return dict(columns), tuple(others)


def stored_once(values: Iterable[Any], seen: dict[str, str]) -> list[Any]:
    """The values with equal strings stored once: labels repeat, and a string per row would take most of the memory."""
    if len(seen) > 100_000:
        seen.clear()
    return [seen.setdefault(value, value) if type(value) is str else value for value in values]


def objects_of_lines(file: Binary, source: str, lines: array[int]) -> Iterator[Mapping[str, Any]]:
    """The object on each line that is not blank; its number is added to `lines`."""
    with io.TextIOWrapper(file, encoding="utf-8-sig") as text:
        for number, line in enumerate(text, 1):
            if line.isspace():
                continue
            try:
                value = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise ComparisonsError(
                    f"{source}, line {number}: this is not JSON ({error}); correct the line"
                ) from error
            if not isinstance(value, dict):
                raise ComparisonsError(
                    f"{source}, line {number}: a {type(value).__name__} is not a JSON object; each line must be one"
                )
            lines.append(number)
            yield value


def objects_of_list(text: str, source: str) -> list[Mapping[str, Any]]:
    """The objects of a JSON list."""
    try:
        rows = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ComparisonsError(f"{source} is not JSON ({error}); write it again") from error
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise ComparisonsError(f"{source}, row {number}: {row!r:.60} is not an object; each row must be one")
    return list(rows)
