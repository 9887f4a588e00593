"""The columns of a table of items, each checked: contexts, texts, scores and other numbers.

An error names the row, the column and the value, before a judge is called.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comparo.data.columns import Column, Table, as_number, factorise, is_blank, shown
from comparo.data.reading import columns_from_objects
from comparo.errors import ComparisonsError

LONGEST_LABEL = 60  # characters; a context that is longer gets a label made from it


def column_of_role(table: Table, role: str, name: str | None) -> str | None:
    """The column of a role: the one that is named, which must be there, or the one called like the role, if any."""
    if name is not None and name not in table.columns:
        raise no_column(table, name, role)
    return name or (role if role in table.columns else None)


def no_column(table: Table, name: str, role: str) -> ComparisonsError:
    """The error for a column that is missing, with the columns that are there."""
    return ComparisonsError(
        f"{table.source or 'the data'}: there is no column {name!r}; the columns are "
        f"{', '.join(chain(table.columns, table.others)) or 'none'}. Name the right one with {role}='NAME'"
    )


def context_codes(
    table: Table, rows: int, name: str | None, label_name: str | None
) -> tuple[NDArray[Any], NDArray[np.int32], tuple[str | None, ...]]:
    """The labels of the contexts (C,), the code of each row's (N,), and their texts (C,)."""
    values = [None if is_blank(value) else value for value in table.columns[name]] if name else []
    if label_name:
        labels, (codes,) = factorise(table, label_name)
        if bad := [row for row, value in enumerate(values) if not isinstance(value, str | None)]:
            raise table.error(bad, name, f"{shown(values[bad[0]])} is not text; put it in quotes")
    elif name and any(value is not None for value in values):
        short = {value: _label(value) for value in {value for value in values if isinstance(value, str)}}
        column = [short[value] if isinstance(value, str) else value for value in values]
        labels, (codes,) = factorise(replace(table, columns={name: column}), name)
    else:
        return np.array([None]), np.zeros(rows, dtype=np.int32), (None,)
    texts: list[str | None] = [None] * len(labels)
    bad = []
    for row, (code, value) in enumerate(zip(codes.tolist(), values, strict=False)):
        if texts[code] is None and isinstance(value, str):
            texts[code] = value
        elif isinstance(value, str) and value != texts[code]:
            bad.append(row)
    if bad:
        label = shown(labels[codes[bad[0]]])
        raise table.error(bad, name, f"context {label} had another text before; give each text its own context_id")
    return labels, codes, tuple(texts)


def _label(text: str) -> str:
    """A context's text as its label: itself if it is short, else its beginning and the first digits of its SHA-256."""
    if len(text) <= LONGEST_LABEL:
        return text
    return f"{' '.join(text[:48].split())}… {hashlib.sha256(text.encode()).hexdigest()[:8]}"


def checked_texts(table: Table, name: str | None) -> tuple[str, ...]:
    """The texts (N,) in the column `name`, which must be there; none of them is blank."""
    if name is None:
        raise no_column(table, "text", "text")
    column = table.columns[name]
    if bad := [row for row, text in enumerate(column) if not isinstance(text, str) or is_blank(text)]:
        text = column[bad[0]]
        problem = "there is no text; write it" if is_blank(text) else f"{shown(text)} is not text; put it in quotes"
        raise table.error(bad, name, f"{problem}, or drop the row")
    return tuple(column)


def checked_scores(table: Table, chosen: str | Sequence[str] | None) -> dict[str, NDArray[np.float64]]:
    """The scores (N,) by name, those that are chosen or else all that are marked as scores."""
    marked = [name for name in table.columns if name == "score" or name.startswith("score_")]
    found = {name.removeprefix("score_"): (name, table.columns[name]) for name in marked}
    objects = table.columns.get("scores", ())
    if any(isinstance(value, Mapping) for value in objects):
        if bad := [row for row, value in enumerate(objects) if not (isinstance(value, Mapping) or is_blank(value))]:
            raise table.error(
                bad, "scores", f"{shown(objects[bad[0]])} is not an object of names and numbers; correct it"
            )
        nested, _ = columns_from_objects(value if isinstance(value, Mapping) else {} for value in objects)
        found |= {str(name): (f"scores.{name}", column) for name, column in nested.items()}
    if chosen is not None:
        chosen = [chosen] if isinstance(chosen, str) else chosen
        every = {name: (name, column) for name, column in table.columns.items()} | found
        if missing := [name for name in chosen if name not in every]:
            raise ComparisonsError(
                f"{table.source or 'the data'}: there are no scores {missing[0]!r}; there are "
                f"{', '.join(found) or 'none'}, and the columns {', '.join(table.columns)}. "
                "Name others with scores='NAME'"
            )
        found = {name: every[name] for name in chosen}
    return {name: column_of_numbers(table, *place) for name, place in found.items()}


def checked_numbers(table: Table, chosen: Sequence[str]) -> dict[str, NDArray[np.float64]]:
    """The columns of numbers (N,) that are chosen by name; every row must have one."""
    found = {}
    for name in chosen:
        if name not in table.columns:
            raise no_column(table, name, "control")
        found[name] = column_of_numbers(table, name, table.columns[name], "control")
        if (bad := np.flatnonzero(np.isnan(found[name]))).size:
            raise table.error(bad, name, "there is no number; give every item one, or leave `control` out")
    return found


def column_of_numbers(table: Table, name: str, column: Column, flag: str = "scores") -> NDArray[np.float64]:
    """The numbers (N,) of a column, NaN where it is empty; an error names the parameter that chose it."""
    values = np.array([as_number(value) for value in column])
    if bad := np.flatnonzero(np.isinf(values)).tolist():
        problem = f"{shown(column[bad[0]])} is not a number; correct it, leave it empty, or choose other {flag}"
        raise table.error(bad, name, problem)
    return values


def check_characters(table: Table, name: str) -> None:
    """Raise for half a surrogate pair (a cut JSON escape), which can neither be sent to a judge nor stored."""
    strings = [value if isinstance(value, str) else "" for value in table.columns[name]]
    try:
        "".join(strings).encode()
    except UnicodeEncodeError as error:
        bad = [row for row, value in enumerate(strings) if any("\ud800" <= letter <= "\udfff" for letter in value)]
        problem = f"{error.object[error.start]!a} is half a character; write the whole, or drop it"
        raise table.error(bad, name, problem) from None
