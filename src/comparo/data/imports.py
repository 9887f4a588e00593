"""Files of other tools as comparisons and items: a reader per layout, and `import_file`, which recognises the layout.

A system that answers questions is an item in the context of each question: its name is the id, the question's the
context. So `comparo fit --leaderboard` ranks systems over all questions. Rows without a comparison are counted by
reason. The text of an item is the answer to the first message; where there were more turns, the whole conversation
after that message.
"""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, Literal, get_args

from comparo.data.columns import Column, Table, as_number, is_blank, shown, winners
from comparo.data.comparisons import Comparisons
from comparo.data.layouts import WINNERS
from comparo.data.reading import columns_from_objects, read_document
from comparo.errors import ComparisonsError

UNKNOWN = "unknown"  # a judge that a row does not name, where others do


@dataclass(frozen=True)
class Imported:
    """The comparisons of another tool's file.

    Parameters
    ----------
    source : The tool.
    comparisons : The comparisons; labels are text.
    items : The texts as columns id, text, context_id and context; empty where the file holds no texts.
    left_out : How many rows hold no comparison, by the reason.
    """

    source: str
    comparisons: Comparisons
    items: Mapping[str, Column]
    left_out: Mapping[str, int]


@dataclass
class Gathering:
    """Comparisons and texts as they are read from the rows of a table.

    >>> table = Table({"model_a": ["x"], "model_b": [None]}, "battles.json")
    >>> Gathering(table).name(0, "model_a")
    'x'
    >>> Gathering(table).name(0, "model_b")
    Traceback (most recent call last):
    comparo.errors.ComparisonsError: battles.json, row 1, column 'model_b': there is no name; write it, or drop the row
    """

    table: Table
    left_out: Counter[str] = field(default_factory=Counter)
    _rows: list[dict[str, Any]] = field(default_factory=list)
    _texts: dict[str | None, dict[str, str]] = field(default_factory=dict)
    _questions: dict[str | None, str | None] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(next(iter(self.table.columns.values()), ()))

    def cell(self, row: int, column: str) -> Any:
        """The value of a row; None where it is missing, or the file has no such column."""
        values = self.table.columns.get(column)
        if values is None:
            return None
        return None if is_blank(values[row]) else values[row]

    def name(self, row: int, column: str) -> str:
        """A name, which must be there."""
        value = self.cell(row, column)
        if value is None or isinstance(value, list | dict):
            raise self.error(row, column, "there is no name; write it, or drop the row")
        return str(value).strip()

    def error(self, row: int, column: str, problem: str) -> ComparisonsError:
        """The error for a malformed row."""
        return self.table.error([row], column, problem)

    def compare(
        self, context: str | None, first: str, second: str, p: float, judge: str | None = None, weight: float = 1.0
    ) -> None:
        """Add a comparison, unless it is that of a system with itself."""
        if first == second:
            self.left_out["of a system with itself"] += 1
            return
        self._rows.append(
            {"first": first, "second": second, "p": p, "context": context, "judge": judge, "weight": weight}
        )

    def add_text(self, context: str | None, item: str, text: Any, question: Any) -> None:
        """Add the text of an item and what it answers; of two texts of the same item, the first is kept."""
        if not isinstance(text, str) or not text.strip():
            return
        known = self._texts.setdefault(context, {})
        if known.setdefault(item, _clean(text)) != _clean(text):
            self.left_out["texts that differ from an earlier one of the same name and question"] += 1
        if self._questions.get(context) is None:
            self._questions[context] = _clean(question) if isinstance(question, str) and question.strip() else None

    def finish(self, source: str) -> Imported:
        """All that was gathered; a ComparisonsError where there is no comparison."""
        if not self._rows:
            why = ", ".join(f"{count:,} {reason}" for reason, count in self.left_out.items())
            raise ComparisonsError(f"{self.table.source} holds no comparison{f' ({why})' if why else ''}")
        columns, _ = columns_from_objects(self._rows)
        if any(context is None for context in columns["context"]):
            del columns["context"]
        if all(judge is None for judge in columns["judge"]):
            del columns["judge"]
        else:
            columns["judge"] = [judge or UNKNOWN for judge in columns["judge"]]
        if all(weight == 1 for weight in columns["weight"]):
            del columns["weight"]
        return Imported(source, Comparisons.from_columns(**columns), self._items(), dict(self.left_out))

    def _items(self) -> dict[str, Column]:
        """The texts of contexts that have at least two: with one there is nothing to compare it with."""
        rows = [
            {"id": item, "text": text, "context_id": context, "context": self._questions[context]}
            for context, known in self._texts.items()
            for item, text in known.items()
            if len(known) > 1
        ]
        columns, _ = columns_from_objects(rows)
        return {name: column for name, column in columns.items() if any(value is not None for value in column)}


def _clean(text: str) -> str:
    """The text with half characters, which published files hold, replaced: they can be neither stored nor sent."""
    return text.encode("utf-8", "replace").decode()


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
        judge = found.cell(row, "judge")
        found.compare(context, one, other, p[row], None if judge is None else str(judge))
        for side, item in (("a", one), ("b", other)):
            if context is not None:
                question, text = _conversation(found, row, side)
                found.add_text(context, item, text, question)
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
            annotator = found.cell(row, "annotator")
            found.compare(context, first, second, p, None if annotator is None else str(annotator))
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


RESULTS = frozenset({"provider", "prompt", "vars", "score", "success"})
SELECT = "select-best"
SCORE = "score"
LONGEST = 60  # characters of a prompt's label, or of a criterion, in a name
FAILED = 2  # failureReason of an output that could not be made
Outputs = dict[str, tuple[int, str]]  # by item: the row, and the text


def results_table(document: Mapping[str, Any], source: str) -> Table:
    """The entries of a results file as a table; another object is a table of one row."""
    results = document.get("results")
    entries = results.get("results") if isinstance(results, dict) else results
    if not isinstance(entries, list):
        return Table(columns_from_objects([document])[0], source)
    for number, entry in enumerate(entries, 1):
        if not isinstance(entry, dict):
            raise ComparisonsError(f"{source}, results, row {number}: {shown(entry)} is not an object; write it again")
    return Table(columns_from_objects(entries)[0], f"{source}, results")


def read_results(table: Table) -> Imported:
    """Results of promptfoo: `promptfoo eval -o results.json`, or results.jsonl.

    The JSON file holds results.results, a list with an entry per output; the lines of a .jsonl file are these entries.
    An entry holds testIdx and promptIdx (the test case, and the column of provider and prompt), provider, prompt, vars,
    response.output, score, success, error, and gradingResult, whose componentResults name their assertion. An output is
    an item, named after its provider, and after its prompt where there are several; a test case is a context.

    A test case with a select-best assertion has a winner: the output whose component passes. It beats each of the
    others, which is n − 1 comparisons of n outputs; the others are not compared. The scores are then no use, because
    promptfoo overwrites that of every loser. In a test case without that assertion the higher score wins, and equal
    scores are a tie: n (n − 1)/2 comparisons, each with the weight 2/n, so together they count as n − 1.
    """
    found = Gathering(table)
    name = _names(found)
    has_one_prompt = len({_prompt(found, row) for row in range(len(found))}) == 1
    cases: dict[str, Outputs] = {}
    for row in range(len(found)):
        text = _output(found, row)
        if text is None:
            found.left_out["outputs that failed"] += 1
            continue
        context, repeat = _case(found, row), 1
        while name[row] in cases.get(_repeated(context, repeat), {}):
            repeat += 1
        cases.setdefault(_repeated(context, repeat), {})[name[row]] = (row, text)
    for context, outputs in cases.items():
        for item, (row, text) in outputs.items():
            asked = _field(found, row, "prompt", "raw") if has_one_prompt else _variables(found, row)
            found.add_text(context, item, text, asked)
        if len(outputs) < 2:
            found.left_out["test cases with a single output"] += 1
        elif not _selected(found, context, outputs):
            _scored(found, context, outputs)
    return found.finish("promptfoo")


def _selected(found: Gathering, context: str, outputs: Outputs) -> bool:
    """Compare the winner of each select-best assertion with the others, and return whether there is one."""
    verdicts: dict[str, dict[str, bool]] = {}
    for item, (row, _) in outputs.items():
        for component in _components(found.cell(row, "gradingResult")):
            assertion = component.get("assertion")
            if isinstance(assertion, dict) and assertion.get("type") == SELECT:
                verdicts.setdefault(str(assertion.get("value")), {})[item] = bool(component.get("pass"))
    for criterion, passed in verdicts.items():
        best = [item for item, is_best in passed.items() if is_best]
        if len(best) != 1:
            found.left_out["select-best assertions without one winner"] += 1
            continue
        order = list(passed)
        for other in order:
            if other != best[0]:
                first, second = sorted((best[0], other), key=order.index)
                found.compare(context, first, second, float(first == best[0]), f"{SELECT} · {criterion:.{LONGEST}}")
    return bool(verdicts)


def _components(grading: Any) -> list[dict[str, Any]]:
    """The verdict of each assertion: the components, or the whole where there is one assertion."""
    if not isinstance(grading, dict):
        return []
    parts = grading.get("componentResults")
    return [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) and parts else [grading]


def _scored(found: Gathering, context: str, outputs: Outputs) -> None:
    """Compare every two outputs by their scores."""
    scores = {}
    for item, (row, _) in outputs.items():
        score = found.cell(row, "score")
        if isinstance(score, bool) or not isinstance(score, int | float):
            raise found.error(row, "score", f"{shown(score)} is not a number; write it, or drop the row")
        scores[item] = float(score)
    for first, second in combinations(scores, 2):
        p = 0.5 if scores[first] == scores[second] else float(scores[first] > scores[second])
        found.compare(context, first, second, p, SCORE, 2 / len(scores))


def _names(found: Gathering) -> list[str]:
    """The name of the item that each row is an output of."""
    rows = range(len(found))
    provider = [_provider(found, row) for row in rows]
    prompt = [_prompt(found, row) for row in rows]
    number = {label: place for place, label in enumerate(dict.fromkeys(prompt), 1)}
    short = {label: label if len(label) <= LONGEST else f"prompt {place}" for label, place in number.items()}
    names = [
        one if len(number) == 1 else f"{one} · {short[label]}" for one, label in zip(provider, prompt, strict=True)
    ]
    # Two columns may have the same name: the same provider with other settings.
    columns: dict[str, list[Any]] = {}
    for row, name in enumerate(names):
        if (column := found.cell(row, "promptIdx")) not in columns.setdefault(name, []):
            columns[name].append(column)
    place = [columns[name].index(found.cell(row, "promptIdx")) + 1 for row, name in enumerate(names)]
    return [name if len(columns[name]) == 1 else f"{name} #{place[row]}" for row, name in enumerate(names)]


def _provider(found: Gathering, row: int) -> str:
    value = _field(found, row, "provider", "label", "id")
    if not isinstance(value, str) or not value.strip():
        raise found.error(row, "provider", "there is no provider with an id; write it, or drop the row")
    return value


def _field(found: Gathering, row: int, column: str, *keys: str) -> Any:
    """The value of the first key that an object in a cell has; the cell where it holds no object."""
    value = found.cell(row, column)
    return next(filter(None, map(value.get, keys)), None) if isinstance(value, dict) else value


def _prompt(found: Gathering, row: int) -> str:
    """The label of a prompt, which is its template where it was given none."""
    return str(_field(found, row, "prompt", "label", "display", "raw"))


def _variables(found: Gathering, row: int) -> str | None:
    """The variables of a test case, one a line: what outputs of different prompts have in common."""
    values = found.cell(row, "vars")
    if not isinstance(values, dict):
        return None
    return "\n".join(
        f"{name}: {value if isinstance(value, str) else json.dumps(value)}" for name, value in values.items()
    )


def _output(found: Gathering, row: int) -> str | None:
    """The text of an output; None where it could not be made."""
    response = found.cell(row, "response")
    output = response.get("output") if isinstance(response, dict) else None
    if found.cell(row, "failureReason") == FAILED or output is None:
        return None
    return output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)


def _case(found: Gathering, row: int) -> str:
    """The name of a test case: its number from 1, or its variables in a file of an older version."""
    number = found.cell(row, "testIdx")
    return str(number + 1) if isinstance(number, int) else json.dumps(found.cell(row, "vars"), sort_keys=True)


def _repeated(context: str, repeat: int) -> str:
    return context if repeat == 1 else f"{context} repeat {repeat}"


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
    document = read_document(path)
    table = document if isinstance(document, Table) else results_table(document, str(path))
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
