"""Judgements and items as rows of a database: judgements with questions in a run folder, with keys in a cache.

Each field of a `Judgement` is a column, and nan is NULL. A row ends with a checksum of its other values
(`comparo.data.run_folder`).
"""

import json
import math
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from itertools import zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comparo.data.items import Items
from comparo.data.prompts import Question
from comparo.data.run_folder import ANCHOR, Key, about_items, clean, decode, encode, judgement_rows, key_of, slots_of
from comparo.judges import Judgement
from comparo.judges.protocol import NOTHING, Several, about
from comparo.log.files import now

Label = tuple[str, str]  # an item by its context and id, both encoded
KINDS = {"float": "REAL", "int": "INTEGER", "bool": "INTEGER", "str": "TEXT", "str | None": "TEXT"}
ANSWER = {field.name: KINDS[str(field.type)] for field in fields(Judgement)[1:]}  # the columns and their types
UNKNOWN = ("p", "mass", "seconds", "cost", "error")  # of these, those that may be NULL
LABELS = ("context", "first", "second")
TYPES: dict[str, Any] = {"TEXT": str, "INTEGER": int, "REAL": (int, float), "BLOB": bytes}
LARGEST = {"p": 1.0, "mass": 1.01, "weight": 1e6, "cost": 1e6}
LARGEST_VALUE = 1e12  # the largest value of other columns
# Raised for values that SQLite cannot store: an integer of more than 64 bits, a lone surrogate, a missing text.
UNFIT = (OverflowError, UnicodeError, sqlite3.IntegrityError, sqlite3.InterfaceError, sqlite3.ProgrammingError)


def declared(names: Iterable[str]) -> str:
    """The columns of an answer as a statement declares them.

    >>> declared(["p", "reply"])
    'p REAL, reply TEXT NOT NULL'
    """
    return ", ".join(f"{name} {ANSWER[name]}{'' if name in UNKNOWN else ' NOT NULL'}" for name in names)


def is_valid(name: str, kind: str, value: Any) -> bool:
    """Whether a value is NULL, or of the type of its column and in its range.

    >>> is_valid("p", "REAL", 0.5), is_valid("p", "REAL", 1.5), is_valid("reply", "TEXT", 7)
    (True, False, False)
    """
    if value is None or not isinstance(value, TYPES[kind]):
        return value is None
    if isinstance(value, str):
        return clean(value) == value
    return isinstance(value, bytes) or (
        0 <= value <= LARGEST.get(name, LARGEST_VALUE) and not (name == "weight" and not value)
    )


def labels_of(question: Question) -> dict[str, str]:
    """The columns of a question: its labels, encoded."""
    return {name: encode(getattr(question, name)) for name in LABELS}


def question_of(context: str, first: str, second: str, voice: str | None = None) -> Question:
    """The question about encoded labels, without texts."""
    return Question(decode(first), decode(second), decode(context), voice=voice)


def judgement_of(row: Mapping[str, Any], question: Question | None = None) -> Judgement:
    """The judgement of a row, about `question` where the row has none; a TypeError or ValueError if it is invalid."""
    question = question or _asked(*(row[name] for name in (*LABELS, "voice")))
    answer = {name: row[name] for name in ANSWER if name in row}
    for name in UNKNOWN[:-1]:
        if answer[name] is None:
            answer[name] = math.nan
    return Judgement(question, **answer | {"cached": bool(answer["cached"])})


def _asked(context: str, first: str, second: str, voice: str | None) -> Question:
    """The question of a row; a ValueError where an item is compared with itself."""
    if first == second or (second.startswith("[") and first in slots_of(second)):
        raise ValueError(f"{first} is compared with itself")
    return question_of(context, first, second, voice)


def sound_judgement(row: Mapping[str, Any], question: Question | None = None) -> Judgement | None:
    """The judgement of a row that may be damaged; None where a value is invalid or out of its range.

    >>> row = row_of(Judgement(Question("ana", "bo"), p=0.7))
    >>> sound_judgement(row, Question("a", "b")).p, sound_judgement(row | {"weight": -5.0}, Question("a", "b"))
    (0.7, None)
    """
    with suppress(TypeError, ValueError):
        if all(is_valid(name, kind, row.get(name)) for name, kind in ANSWER.items()):
            return judgement_of(row, question)
    return None


def row_of(judgement: Judgement) -> dict[str, Any]:
    """The columns of an answer, with texts as UTF-8 can hold them."""
    row = {name: plain(getattr(judgement, name)) for name in ANSWER}
    texts = (name for name, kind in ANSWER.items() if kind == "TEXT" and (name != "error" or judgement.failed))
    return row | {name: clean(str(row[name])) for name in texts}


def insert(connection: sqlite3.Connection, judgement: Judgement) -> Judgement | None:
    """Insert a judgement with cleaned texts, or as a failed one where it cannot be stored, and return that.

    None where the question already has an answer: then nothing is stored. Of a call about several criteria, the
    answers to those that have none are stored, a row each.
    """
    if isinstance(judgement, Several):
        stored = [insert(connection, one) for one in judgement.without(_answered(connection, judgement.question)).each]
        return Several.of([one for one in stored if one is not None]) if any(stored) else None
    row = row_of(judgement)
    try:
        is_new = _put_judgement(connection, judgement.question, row)
    except UNFIT as problem:
        failed = Judgement(judgement.question, reply=row["reply"], error=f"the answer cannot be stored ({problem})")
        _put_judgement(connection, failed.question, row_of(failed))
        return failed
    return replace(judgement, reply=row["reply"], error=row["error"]) if is_new else None


def _put_judgement(connection: sqlite3.Connection, question: Question, answer: Mapping[str, Any]) -> bool:
    row = {"at": now("milliseconds"), **labels_of(question), "voice": question.voice, **answer}
    return connection.execute(*insertion("judgements", row, "ON CONFLICT DO NOTHING")).rowcount > 0


def _answered(connection: sqlite3.Connection, question: Question) -> list[str | None]:
    """The voices that have answered a question."""
    where = "context = ? AND first = ? AND second = ? AND error IS NULL AND NOT withdrawn"
    found = connection.execute(f"SELECT voice FROM judgements WHERE {where}", tuple(labels_of(question).values()))
    return [voice for (voice,) in found]


def calls_of(answers: Mapping[Key, Sequence[Judgement]], criteria: Collection[str]) -> dict[Key, list[Judgement]]:
    """The calls about each pair, from its answers to each criterion: the answers of call n are the n-th to a criterion.

    A criterion whose rows are lost has failed in the last call, so that it is asked again.
    """
    by_pair: dict[Key, list[Sequence[Judgement]]] = {}
    for (*pair, _), own in answers.items():
        by_pair.setdefault((*pair, None), []).append(own)  # type: ignore[arg-type]
    found: dict[Key, list[Judgement]] = {}
    for key, rows in by_pair.items():
        calls = [[one for one in call if one is not None] for call in zip_longest(*rows)]
        if not any(one.failed for one in calls[-1]):
            there = {one.question.voice for own in rows for one in own if not one.failed}
            lost = [about(rows[0][0].question, name) for name in criteria if name not in there]
            calls[-1] += [Judgement(one, error="the answer is lost from the folder", **NOTHING) for one in lost]
        found[key] = [Several.of(call) for call in calls]
    return found


def insertion(
    table: str, row: Mapping[str, Any], conflict: str = "", verb: str = "INSERT"
) -> tuple[str, tuple[Any, ...]]:
    """The statement that inserts a row, given by column, and its values.

    >>> insertion("votes", {"voter": "ana", "p": 1.0})
    ('INSERT INTO votes (voter, p) VALUES (?, ?) ', ('ana', 1.0))
    """
    statement = f"{verb} INTO {table} ({', '.join(row)}) VALUES ({', '.join('?' * len(row))}) {conflict}"
    return statement, tuple(row.values())


def stored_judgements(connection: sqlite3.Connection, source: object = "") -> Iterator[tuple[int, Key, Judgement]]:
    """The judgements that are not withdrawn, with numbers and keys, in the order in which they were stored.

    Those about lost items are left out, with a warning where `source` names the folder. Questions hold labels but no
    texts.
    """
    rows = judgement_rows(connection, ("number", *LABELS, "voice", *ANSWER))
    rows = about_items(connection, rows, str(source or ""))
    for number, context, first, second, voice, *known, error, cached in rows:
        try:
            values = [*(math.nan if value is None else value for value in known), error, bool(cached)]
            judgement = Judgement(_asked(context, first, second, voice), *values)
        except (TypeError, ValueError) as problem:
            raise sqlite3.DatabaseError(f"judgement {number}: {problem}") from problem
        yield number, key_of(judgement.question), judgement


def plain(value: Any) -> Any:
    """Replace nan by None, which the database stores as NULL."""
    return None if isinstance(value, float) and math.isnan(value) else value


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
