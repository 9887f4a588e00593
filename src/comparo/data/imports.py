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
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations, cycle
from typing import Any

from comparo.data.columns import Column, Table, as_number, columns_from_objects, is_blank, shown
from comparo.data.comparisons import Comparisons
from comparo.data.formats import read_columns
from comparo.data.layouts import WINNERS, winners
from comparo.data.run_folder import clean
from comparo.errors import ComparisonsError

UNKNOWN = "unknown"  # the judge of rows that name none, where other rows do
NAMED = 12  # columns of an unknown layout that the error names


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


@dataclass(frozen=True)
class Row:
    """A row of a table, by its number from 0.

    >>> row = Row(Table({"model_a": ["x"], "model_b": [None]}, "battles.json"), 0)
    >>> row["model_a"], row["judge"]
    ('x', None)
    >>> row.name("model_b")
    Traceback (most recent call last):
    comparo.errors.ComparisonsError: battles.json, row 1, column 'model_b': there is no name; write it, or drop the row
    """

    table: Table
    number: int

    def __getitem__(self, column: str) -> Any:
        """The value of a column; None where it is missing, or the file has no such column."""
        values = self.table.columns.get(column)
        return None if values is None or is_blank(values[self.number]) else values[self.number]

    def field(self, column: str, *keys: str) -> Any:
        """The value of the first of `keys` that the object in a column has; a value that is no object, unchanged."""
        value = self[column]
        return next(filter(None, map(value.get, keys)), None) if isinstance(value, dict) else value

    def name(self, column: str, *keys: str) -> str:
        """The name in a column, which must not be missing."""
        value = self.field(column, *keys)
        if value is None or isinstance(value, list | dict):
            raise self.error(column, "there is no name; write it, or drop the row")
        return str(value).strip()

    def error(self, column: str, problem: str) -> ComparisonsError:
        return self.table.error([self.number], column, problem)


@dataclass
class Gathering:
    """Collects comparisons and texts from the rows of a table."""

    table: Table
    left_out: Counter[str] = field(default_factory=Counter)
    _compared: list[dict[str, Any]] = field(default_factory=list)
    _texts: dict[str | None, dict[str, str]] = field(default_factory=dict)
    _questions: dict[str | None, str | None] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Row]:
        rows = len(next(iter(self.table.columns.values()), ()))
        return (Row(self.table, number) for number in range(rows))

    def compare(
        self, context: str | None, first: str, second: str, p: float, judge: Any = None, weight: float = 1.0
    ) -> None:
        """Add a comparison, unless `first` and `second` are the same system."""
        if first == second:
            self.left_out["of a system with itself"] += 1
            return
        labels = {"first": first, "second": second, "context": context}
        self._compared.append({**labels, "p": p, "judge": None if judge is None else str(judge), "weight": weight})

    def add_text(self, context: str | None, item: str, text: Any, question: Any) -> None:
        """Add the text of an item and what it answers; of two texts of the same item, the first is kept."""
        if not isinstance(text, str) or not text.strip():
            return
        known, text = self._texts.setdefault(context, {}), clean(text)
        if known.setdefault(item, text) != text:
            self.left_out["texts that differ from an earlier one of the same name and question"] += 1
        if self._questions.get(context) is None:
            self._questions[context] = clean(question) if isinstance(question, str) and question.strip() else None

    def finish(self, source: str) -> Imported:
        """All comparisons and texts; a ComparisonsError if there is no comparison."""
        if not self._compared:
            why = ", ".join(f"{count:,} {reason}" for reason, count in self.left_out.items())
            raise ComparisonsError(f"{self.table.source} holds no comparison{f' ({why})' if why else ''}")
        columns, _ = columns_from_objects(self._compared)
        if None in columns["context"]:
            del columns["context"]
        if any(columns["judge"]):
            columns["judge"] = [judge or UNKNOWN for judge in columns["judge"]]
        else:
            del columns["judge"]
        if set(columns["weight"]) == {1.0}:
            del columns["weight"]
        return Imported(source, Comparisons.from_columns(**columns), self._items(), dict(self.left_out))

    def _items(self) -> dict[str, Column]:
        """The columns of the texts, without contexts that have only one text."""
        rows = [
            {"id": item, "text": text, "context_id": context, "context": self._questions[context]}
            for context, known in self._texts.items()
            for item, text in known.items()
            if len(known) > 1
        ]
        columns, _ = columns_from_objects(rows)
        return {name: column for name, column in columns.items() if any(value is not None for value in column)}


BATTLES = frozenset({"model_a", "model_b"})


def read_battles(table: Table) -> Imported:
    """Battles of Chatbot Arena.

    A row holds model_a (shown on the left, or above), model_b, winner (model_a, model_b, tie, or tie (bothbad)), and
    optionally question_id, judge, conversation_a and conversation_b (lists of messages with role and content). Battles
    about the same question share a context; any other battle is a context of its own.
    """
    found = Gathering(table)
    rows = [row for row in found if row["winner"] is not None]
    if blank := len(list(found)) - len(rows):
        found.left_out["without a winner"] = blank
    judged = table.take([row.number for row in rows])
    said = winners(judged, WINNERS["model_b"], "model_a", "model_b").tolist() if rows else []
    column = "question_id" if "question_id" in table.columns else "id"
    for row, p in zip(rows, said, strict=True):
        one, other = row.name("model_a"), row.name("model_b")
        context = None if row[column] is None else str(row[column])
        found.compare(context, one, other, p, row["judge"])
        if context is not None:
            found.add_text(context, one, *_conversation(row, "conversation_a"))
            found.add_text(context, other, *_conversation(row, "conversation_b"))
    return found.finish("arena")


def _conversation(row: Row, column: str) -> tuple[str | None, str | None]:
    """The reply to the first message, with more turns the whole conversation after it, and the first message."""
    said = []
    messages = row[column]
    for message in [] if messages is None else messages:
        if not isinstance(message, dict) or "content" not in message:
            raise row.error(column, f"{shown(message)} is not a message with role and content; correct it")
        said.append(str(message["content"] or ""))
    if len(said) < 2:
        return None, None
    question, *rest = said
    if len(rest) > 1:
        rest = [f"{who}: {text}" for who, text in zip(cycle(["Assistant", "User"]), rest, strict=False)]
    return "\n\n".join(rest), question


ANNOTATIONS = frozenset({"instruction", "output_1", "output_2", "preference"})


def read_annotations(table: Table) -> Imported:
    """Annotations of AlpacaEval: `annotations.json` in the results of a model.

    A row holds instruction, output_1, output_2, generator_1, generator_2, annotator and preference: 1 where the first
    output is preferred, 2 where the second is, and anything between from annotators that give probabilities:

        p = P(output_1 is better) = 2 − preference.

    1.5, and 0 in older files, is a tie; a missing preference is an annotation that failed. The order in which the
    annotator saw the two outputs is random and not recorded, so no position bias can be estimated. Instructions
    are numbered from 1 in the order of their appearance.
    """
    found = Gathering(table)
    number: dict[str, str] = {}
    for row in found:
        context = number.setdefault(str(row["instruction"]), str(len(number) + 1))
        first, second = (row.name(f"generator_{place}") for place in (1, 2))
        for item, text in ((first, row["output_1"]), (second, row["output_2"])):
            found.add_text(context, item, text, row["instruction"])
        preference = as_number(row["preference"]) or 1.5
        if math.isnan(preference):
            found.left_out["without a preference"] += 1
        elif 1 <= preference <= 2:
            found.compare(context, first, second, 2 - preference, row["annotator"])
        else:
            problem = f"{shown(row['preference'])} is not a number from 1 to 2; correct it, or drop the row"
            raise row.error("preference", problem)
    return found.finish("alpaca_eval")


RESULTS = frozenset({"provider", "prompt", "promptIdx", "testIdx", "vars", "score", "success"})
SELECT = "select-best"
LONGEST = 60  # characters of a prompt's label, or of a criterion, in a name
FAILED = 2  # failureReason of an output that could not be made


def results_table(table: Table) -> Table:
    """The entries of promptfoo's results file, a single object, as a table; any other table is unchanged."""
    held = table.columns.get("results", ())
    results = held[0] if len(held) == 1 else None
    entries = results.get("results") if isinstance(results, dict) else results
    if not isinstance(entries, list):
        return table
    source = f"{table.source}, results"
    for number, entry in enumerate(entries, 1):
        if not isinstance(entry, dict):
            raise ComparisonsError(f"{source}, row {number}: {shown(entry)} is not an object; write it again")
    return Table(columns_from_objects(entries)[0], source)


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
    name, has_one_prompt = _names(found)
    cases: dict[str, dict[str, Row]] = {}
    times: Counter[tuple[Any, Any]] = Counter()
    for row in found:
        text = _output(row)
        if text is None:
            found.left_out["outputs that failed"] += 1
            continue
        case, item = as_number(row["testIdx"]), name[row.name("promptIdx")]
        if not math.isfinite(case):
            raise row.error("testIdx", f"{shown(row['testIdx'])} is not the number of a test case; correct it")
        times[case, item] += 1
        context = f"{case + 1:.0f}{f' repeat {times[case, item]}' if times[case, item] > 1 else ''}"
        cases.setdefault(context, {})[item] = row
        found.add_text(context, item, text, row.field("prompt", "raw") if has_one_prompt else _variables(row))
    for context, outputs in cases.items():
        if len(outputs) < 2:
            found.left_out["test cases with a single output"] += 1
        elif not _select(found, context, outputs):
            _score(found, context, outputs)
    return found.finish("promptfoo")


def _names(found: Gathering) -> tuple[dict[str, str], bool]:
    """The item name of each column of provider and prompt, and whether all columns have one prompt."""
    columns: dict[str, Row] = {}
    for row in found:
        columns.setdefault(row.name("promptIdx"), row)
    prompt = {place: str(row.field("prompt", "label", "raw")) for place, row in columns.items()}
    labels = list(dict.fromkeys(prompt.values()))
    names = {}
    for place, label in prompt.items():
        names[place] = columns[place].name("provider", "label", "id")
        if len(labels) > 1:
            short = label if len(label) <= LONGEST else f"prompt {labels.index(label) + 1}"
            names[place] = f"{names[place]} · {short}"
    alike, times = Counter(names.values()), Counter[str]()
    for place, name in names.items():
        if alike[name] > 1:  # the same provider with other settings
            times[name] += 1
            names[place] = f"{name} #{times[name]}"
    return names, len(labels) == 1


def _output(row: Row) -> str | None:
    """The text of an output; None where it could not be made."""
    output = row["response"].get("output") if isinstance(row["response"], dict) else None
    if row["failureReason"] == FAILED or output is None:
        return None
    return output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)


def _variables(row: Row) -> str:
    """The variables of a test case, one per line: outputs of different prompts have them in common."""
    values = row["vars"] if isinstance(row["vars"], dict) else {}
    texts = (value if isinstance(value, str) else json.dumps(value) for value in values.values())
    return "\n".join(map(": ".join, zip(values, texts, strict=True)))


def _select(found: Gathering, context: str, outputs: Mapping[str, Row]) -> bool:
    """Compare the winner of each select-best assertion with the others, and return whether there is one."""
    verdicts: dict[str, dict[str, bool]] = {}
    for item, row in outputs.items():
        grading = row["gradingResult"] if isinstance(row["gradingResult"], dict) else {}
        for part in grading.get("componentResults") or [grading]:  # the result itself where there is one assertion
            assertion = part.get("assertion") if isinstance(part, dict) else None
            if isinstance(assertion, dict) and assertion.get("type") == SELECT:
                verdicts.setdefault(str(assertion.get("value")), {})[item] = bool(part.get("pass"))
    for criterion, passed in verdicts.items():
        if sum(passed.values()) != 1:
            found.left_out["select-best assertions without one winner"] += 1
            continue
        for first, second in combinations(passed, 2):
            if passed[first] or passed[second]:
                found.compare(context, first, second, float(passed[first]), f"{SELECT} · {criterion:.{LONGEST}}")
    return bool(verdicts)


def _score(found: Gathering, context: str, outputs: Mapping[str, Row]) -> None:
    """Compare every two outputs by their scores."""
    for row in outputs.values():
        if isinstance(row["score"], bool) or not isinstance(row["score"], int | float):
            raise row.error("score", f"{shown(row['score'])} is not a number; write it, or drop the row")
    for (first, one), (second, other) in combinations(outputs.items(), 2):
        p = 0.5 if one["score"] == other["score"] else float(one["score"] > other["score"])
        found.compare(context, first, second, p, "score", 2 / len(outputs))


# The columns that a file of each tool always has, and its reader; the first match is used.
SOURCES: dict[str, tuple[frozenset[str], Callable[[Table], Imported]]] = {
    "promptfoo": (RESULTS, read_results),
    "alpaca_eval": (ANNOTATIONS, read_annotations),
    "arena": (BATTLES, read_battles),
}


def import_file(path: str | os.PathLike[str]) -> Imported:
    """The comparisons, and the texts where there are any, of a file that another tool wrote (docs/runs.md).

    Parameters
    ----------
    path
        The file: JSON, JSONL, CSV or Parquet, also gzipped. Its columns show whose it is: results of
        `promptfoo eval -o results.json`, annotations.json of AlpacaEval, or battles of Chatbot Arena.

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
    table = results_table(read_columns(path))
    for needed, read in SOURCES.values():
        if needed <= table.columns.keys():
            return read(table)
    known = "; ".join(f"{tool}: {', '.join(sorted(needed))}" for tool, (needed, _) in SOURCES.items())
    there = ", ".join(list(table.columns)[:NAMED]) or "no rows"
    remedy = "comparo fit reads first, second, p as they are"
    raise ComparisonsError(f"{path} is of no known layout ({known}); it has {there}. {remedy}")
