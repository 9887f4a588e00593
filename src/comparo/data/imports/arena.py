"""Battles of Chatbot Arena: the cleaned battles (JSON, JSONL, Parquet) and the table of the Kaggle competition (CSV).

The battles hold model_a, model_b and winner (model_a, model_b, tie, or tie (bothbad)), and where they were kept
question_id, judge, turn, and conversation_a and conversation_b, lists of messages with role and content. The human
judgements of MT-Bench have the same columns. The table has id, model_a, model_b, prompt, response_a and response_b,
each a JSON list with a text per turn, and the winner as three columns of 0 and 1: winner_model_a, winner_model_b,
winner_tie.

A battle is a context of its own, or its question where several battles are about one. The text of an item is the answer
to the first message; where there were more turns, the whole conversation after that message.
"""

import json
from collections.abc import Sequence
from typing import Any

from comparo.data.columns import Table, shown, winners
from comparo.data.imports.gathering import Gathering, Imported
from comparo.data.layouts import WINNERS

BATTLES = frozenset({"model_a", "model_b"})
MARKS = ("winner_model_a", "winner_model_b", "winner_tie")


def read_battles(table: Table) -> Imported:
    """The comparisons of models; `model_a` was shown on the left, or above."""
    found = Gathering(table)
    p = _marked(found) if set(MARKS) <= set(table.columns) else _named(found)
    for row, context in enumerate(_contexts(found)):
        one, other = (found.name(row, f"model_{side}") for side in "ab")
        if row not in p:
            found.left_out["without a winner"] += 1
            continue
        judge = found.cell(row, "judge")
        found.compare(context, one, other, p[row], None if judge is None else str(judge))
        for side, item in (("a", one), ("b", other)):
            if context is not None:
                question, text = _conversation(found, row, side)
                found.tell(context, item, text, question)
    return found.finish("arena")


def _contexts(found: Gathering) -> list[str | None]:
    """The question of each row, with its turn where one question is judged at several; None where it is not kept."""
    column = "question_id" if "question_id" in found.table.columns else "id"
    asked = [(found.cell(row, column), found.cell(row, "turn")) for row in range(len(found))]
    turns: dict[str, set[str]] = {}
    for question, turn in asked:
        turns.setdefault(str(question), set()).add(str(turn))
    return [
        None if question is None else f"{question} turn {turn}" if len(turns[str(question)]) > 1 else str(question)
        for question, turn in asked
    ]


def _named(found: Gathering) -> dict[int, float]:
    """P(model_a is better) of each row that has a winner."""
    kept = [row for row in range(len(found)) if found.cell(row, "winner") is not None]
    if not kept:
        return {}
    return dict(zip(kept, winners(found.table.take(kept), WINNERS["model_b"], "model_a", "model_b"), strict=True))


def _marked(found: Gathering) -> dict[int, float]:
    """The same from three columns, of which one is 1."""
    p = {}
    for row in range(len(found)):
        marks = [found.cell(row, column) for column in MARKS]
        try:
            numbers = [0.0 if mark is None else float(mark) for mark in marks]
        except (TypeError, ValueError):
            numbers = []
        if sorted(numbers) == [0.0, 0.0, 1.0]:
            p[row] = (1.0, 0.0, 0.5)[numbers.index(1.0)]
        elif any(numbers) or not numbers:
            raise found.error(row, MARKS[0], f"{shown(marks)} is not one 1 and two 0 in {', '.join(MARKS)}")
    return p


def _conversation(found: Gathering, row: int, side: str) -> tuple[str | None, str | None]:
    """What was asked first, and what followed: an answer, or all that was said where there was more."""
    messages = found.cell(row, f"conversation_{side}")
    if messages is not None:
        said = [_content(found, row, f"conversation_{side}", message) for message in _list(messages)]
    else:
        asked, answered = (_list(found.cell(row, name)) for name in ("prompt", f"response_{side}"))
        said = [str(each or "") for pair in zip(asked, answered, strict=False) for each in pair]
    if len(said) < 2:
        return None, None
    if len(said) == 2:
        return said[0], said[1]
    speakers = ["User" if place % 2 == 0 else "Assistant" for place in range(len(said))]
    rest = [f"{who}: {text}" for who, text in zip(speakers, said, strict=True)][1:]
    return said[0], "\n\n".join(rest)


def _content(found: Gathering, row: int, column: str, message: Any) -> str:
    if not isinstance(message, dict) or "content" not in message:
        raise found.error(row, column, f"{shown(message)} is not a message with role and content; correct it")
    return str(message["content"] or "")


def _list(value: Any) -> Sequence[Any]:
    """A list, also one that is written as JSON; a text is a list of one."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return [value]
    if isinstance(value, str):
        return [value]
    return [] if value is None else list(value)
