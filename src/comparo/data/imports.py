"""Files of other tools as comparisons and items: a reader per layout, and `import_file`, which recognises the layout.

A system that answers questions is an item in the context of each question: its name is the id, the question's the
context. So `comparo fit --leaderboard` ranks systems over all questions.
"""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Literal, get_args

from comparo.data.columns import Table, as_number, shown, winners
from comparo.data.gathering import Gathering, Imported
from comparo.data.layouts import WINNERS
from comparo.data.promptfoo import RESULTS, read_results, results_table
from comparo.data.reading import read_columns
from comparo.errors import ComparisonsError

BATTLES = frozenset({"model_a", "model_b"})
MARKS = ("winner_model_a", "winner_model_b", "winner_tie")


def read_battles(table: Table) -> Imported:
    """Battles of Chatbot Arena: the cleaned battles, and the table of the Kaggle competition.

    The battles hold model_a (shown on the left, or above), model_b and winner (model_a, model_b, tie, or tie
    (bothbad)), and where they were kept question_id, judge, turn, and conversation_a and conversation_b, lists of
    messages with role and content. The human judgements of MT-Bench have the same columns. The table has id, model_a,
    model_b, prompt, response_a and response_b, each a JSON list with a text per turn, and three columns of 0 and 1 for
    the winner. A battle is a context, or its question where several battles are about one.
    """
    found = Gathering(table)
    p = _marked(found) if set(MARKS) <= set(table.columns) else _named(found)
    for row, context in enumerate(_contexts(found)):
        one, other = (found.name(row, f"model_{side}") for side in "ab")
        if row not in p:
            found.left_out["without a winner"] += 1
            continue
        found.compare(context, one, other, p[row], _judge(found.cell(row, "judge")))
        for side, item in (("a", one), ("b", other)):
            if context is not None:
                question, text = _conversation(found, row, side)
                found.add_text(context, item, text, question)
    return found.finish("arena")


def _contexts(found: Gathering) -> list[str | None]:
    """The question of each row, with its turn where one question is judged at several; None where it is not kept."""
    column = "question_id" if "question_id" in found.table.columns else "id"
    asked = [(found.cell(row, column), str(found.cell(row, "turn"))) for row in range(len(found))]
    turns = Counter(str(question) for question, _ in {(str(question), turn): None for question, turn in asked})
    names = (f"{question} turn {turn}" if turns[str(question)] > 1 else str(question) for question, turn in asked)
    return [None if question is None else name for (question, _), name in zip(asked, names, strict=True)]


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
        numbers = [0.0 if mark is None else as_number(mark) for mark in marks]
        if sorted(numbers) == [0.0, 0.0, 1.0]:
            p[row] = (1.0, 0.0, 0.5)[numbers.index(1.0)]
        elif any(numbers):
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
    """Pairwise judgements of MT-Bench: FastChat's `model_judgment/gpt-4_pair.jsonl`.

    A row holds question_id, model_1, model_2, judge (a model and the name of its prompt), turn, and two winners:
    g1_winner of the game in which model_1 was shown first, g2_winner of that in which model_2 was. Each is model_1,
    model_2, tie, or error where the reply held no verdict. A row is two comparisons, one in each order. A row with
    m1_score and m2_score was made from scores that each answer got alone, and both winners are the same: it is one
    comparison. The second turn of a question is another context.
    """
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
                raise found.error(row, column, f"{shown(winner)} is not one of {', '.join(GAME_WINNERS)}, {ERROR}")
            p = GAME_WINNERS[winner]
            found.compare(context, first, second, p if first == one else 1 - p, judge)
    return found.finish("mt_bench")


def _judge(judge: Any) -> str | None:
    """A model and its prompt, as comparo names a judge with its wording."""
    parts = judge if isinstance(judge, list | tuple) else [judge]
    return " · ".join(str(part) for part in parts if part is not None) or None


ANNOTATIONS = frozenset({"instruction", "output_1", "output_2", "preference"})


def read_annotations(table: Table) -> Imported:
    """Annotations of AlpacaEval: `annotations.json` in the results of a model.

    A row holds instruction, output_1, output_2, generator_1, generator_2, annotator and preference: 1 where the first
    output is preferred, 2 where the second is, and anything between from annotators that give probabilities:

        p = P(output_1 is better) = 2 − preference.

    1.5, and 0 in older files, is a tie; a missing preference is an annotation that failed. The order in which the
    annotator saw the two outputs is random and not recorded, and there is no position bias to estimate. Instructions
    are numbered from 1 in the order of their appearance.
    """
    found = Gathering(table)
    number: dict[str, str] = {}
    for row in range(len(found)):
        question = found.cell(row, "instruction")
        context = number.setdefault(str(question), str(len(number) + 1))
        first, second = (found.name(row, f"generator_{place}") for place in (1, 2))
        for place, item in ((1, first), (2, second)):
            found.add_text(context, item, found.cell(row, f"output_{place}"), question)
        p = _probability(found, row)
        if p is None:
            found.left_out["without a preference"] += 1
        else:
            found.compare(context, first, second, p, _judge(found.cell(row, "annotator")))
    return found.finish("alpaca_eval")


def _probability(found: Gathering, row: int) -> float | None:
    said = found.cell(row, "preference")
    preference = as_number(said)
    if math.isnan(preference):
        return None
    if preference == 0:
        return 0.5
    if not 1 <= preference <= 2:
        raise found.error(row, "preference", f"{shown(said)} is not a number from 1 to 2; correct it, or drop the row")
    return 2 - preference


Source = Literal["promptfoo", "alpaca_eval", "arena", "mt_bench"]
# By the columns that a file of the tool always has, and its reader; the first that fits is taken.
SOURCES: dict[Source, tuple[frozenset[str], Callable[[Table], Imported]]] = {
    "promptfoo": (RESULTS, read_results),
    "alpaca_eval": (ANNOTATIONS, read_annotations),
    "mt_bench": (GAMES, read_games),
    "arena": (BATTLES, read_battles),
}


def import_file(path: str | os.PathLike[str], source: Source | None = None) -> Imported:
    """The comparisons, and the texts where there are any, of a file that another tool wrote (docs/runs.md).

    Parameters
    ----------
    path
        The file: JSON, JSONL, CSV or Parquet, also gzipped.
    source
        - "promptfoo": results of `promptfoo eval -o results.json`;
        - "alpaca_eval": annotations.json;
        - "arena": battles of Chatbot Arena, or the table of its Kaggle competition;
        - "mt_bench": FastChat's model_judgment/…_pair.jsonl.

        By default the one whose columns the file has.

    Returns
    -------
    Imported
        `comparisons`, `items` (columns id, text, context_id, context), and `left_out`, the number of rows without a
        comparison by reason.

    Raises
    ------
    ComparisonsError
        If the layout is not known, or a row is malformed; it names the row.

    Examples
    --------
    >>> import json, pathlib, tempfile
    >>> row = {"instruction": "Why?", "output_1": "So.", "output_2": "Because.", "generator_1": "old",
    ...        "generator_2": "new", "annotator": "gpt-4", "preference": 1.75}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "annotations.json")
    ...     _ = path.write_text(json.dumps([row]))
    ...     found = import_file(path)
    >>> found.source, found.comparisons.p.tolist(), found.items["text"]
    ('alpaca_eval', [0.25], ['So.', 'Because.'])
    """
    if source is not None and source not in get_args(Source):
        raise ValueError(f"the layout is one of {', '.join(get_args(Source))}, not {source!r}")
    table = results_table(read_columns(path))
    names = set(table.columns)
    fitting = [tool for tool, (needed, _) in SOURCES.items() if needed <= names]
    if not fitting or (source is not None and source not in fitting):
        raise ComparisonsError(_unknown(str(path), names, source))
    return SOURCES[source or fitting[0]][1](table)


def _unknown(path: str, names: set[str], source: Source | None) -> str:
    there = f"it has {', '.join(sorted(names)[:12])}{' …' if len(names) > 12 else ''}" if names else "it has no rows"
    if source is not None:
        missing = sorted(SOURCES[source][0] - names)
        return f"{path} is not a file of {source}: there is no {', '.join(missing)}; {there}"
    known = "; ".join(f"{tool}: {', '.join(sorted(needed))}" for tool, (needed, _) in SOURCES.items())
    return f"{path} is of no known layout ({known}); {there}. comparo fit reads first, second, p as they are"
