"""Battles of Chatbot Arena: the cleaned battles (JSON, JSONL, Parquet) and the table of the Kaggle competition (CSV).

The battles hold model_a, model_b and winner (model_a, model_b, tie, or tie (bothbad)), and where they were kept
question_id, judge, turn, and conversation_a and conversation_b, lists of messages with role and content. The human
judgements of MT-Bench have the same columns. The table has id, model_a, model_b, prompt, response_a and response_b,
each a JSON list with a text per turn, and the winner as three columns of 0 and 1: winner_model_a, winner_model_b,
winner_tie.

A battle is a context of its own, or its question where several battles are about one. The text of an item is the answer
to the first message; where there were more turns, the whole conversation after that message.

Pairwise judgements of MT-Bench: FastChat's `model_judgment/gpt-4_pair.jsonl`.

A row holds question_id, model_1, model_2, judge (a model and the name of its prompt), turn, and two winners: g1_winner
of the game in which model_1 was shown first, g2_winner of that in which model_2 was. Each is model_1, model_2, tie, or
error where no verdict was found in the judge's reply. A row is two comparisons, one in each order. A row with m1_score
and m2_score was made from scores that each answer got on its own, and both winners are the same: it is one comparison.

The second turn of a question is a context of its own, because it is another question.

Annotations of AlpacaEval: `annotations.json` in the results of a model.

A row holds instruction, output_1, output_2, generator_1, generator_2, annotator and preference: 1 where the first
output is preferred, 2 where the second is, and anything between from annotators that give probabilities, so that

    p = P(output_1 is better) = 2 − preference.

1.5, and 0 in older files, is a tie; a preference that is missing is an annotation that failed. In which order the
annotator saw the two outputs is drawn at random and not recorded, so that there is no position bias to estimate.
"""

import json
import math
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


GAMES = frozenset({"question_id", "model_1", "model_2", "g1_winner", "g2_winner"})
GAME_WINNERS = {"model_1": 1.0, "model_2": 0.0, "tie": 0.5}
ERROR = "error"


def read_games(table: Table) -> Imported:
    """The comparisons of models on questions, in the orders in which the judge saw them."""
    found = Gathering(table)
    for row in range(len(found)):
        one, two = (found.name(row, f"model_{place}") for place in (1, 2))
        judge = _judge(found.cell(row, "judge"))
        turn = found.cell(row, "turn")
        question = found.name(row, "question_id")
        context = question if turn is None or str(turn) == "1" else f"{question} turn {turn}"
        games = [("g1_winner", one, two), ("g2_winner", two, one)]
        is_scored = found.cell(row, "m1_score") is not None
        for column, first, second in games[:1] if is_scored else games:
            winner = found.name(row, column)
            if winner == ERROR:
                found.left_out["games without a verdict"] += 1
                continue
            if winner not in GAME_WINNERS:
                raise found.error(row, column, f"{shown(winner)} is not one of {', '.join(WINNERS)}, {ERROR}")
            p = GAME_WINNERS[winner]
            found.compare(context, first, second, p if first == one else 1 - p, judge)
    return found.finish("mt_bench")


def _judge(judge: Any) -> str | None:
    """A model and its prompt, as comparo names a judge with its wording."""
    parts = judge if isinstance(judge, list | tuple) else [judge]
    return " · ".join(str(part) for part in parts if part is not None) or None


ANNOTATIONS = frozenset({"instruction", "output_1", "output_2", "preference"})


def read_annotations(table: Table) -> Imported:
    """The comparisons of generators on instructions, which are numbered from 1 in the order of their appearance."""
    found = Gathering(table)
    number: dict[str, str] = {}
    for row in range(len(found)):
        question = found.cell(row, "instruction")
        context = number.setdefault(str(question), str(len(number) + 1))
        first, second = (found.name(row, f"generator_{place}") for place in (1, 2))
        for place, item in ((1, first), (2, second)):
            found.tell(context, item, found.cell(row, f"output_{place}"), question)
        p = _probability(found, row)
        if p is None:
            found.left_out["without a preference"] += 1
        else:
            annotator = found.cell(row, "annotator")
            found.compare(context, first, second, p, None if annotator is None else str(annotator))
    return found.finish("alpaca_eval")


def _probability(found: Gathering, row: int) -> float | None:
    said = found.cell(row, "preference")
    if said is None:
        return None
    try:
        preference = float(said)
    except (TypeError, ValueError):
        preference = math.inf
    if math.isnan(preference):
        return None
    if preference == 0:
        return 0.5
    if not 1 <= preference <= 2:
        raise found.error(row, "preference", f"{shown(said)} is not a number from 1 to 2; correct it, or drop the row")
    return 2 - preference
