"""Results of promptfoo as comparisons: the winners of select-best assertions, or the outputs' scores."""

from __future__ import annotations

import json
from itertools import combinations
from typing import Any

from comparo.data.columns import Table, shown
from comparo.data.gathering import Gathering, Imported
from comparo.data.reading import columns_from_objects
from comparo.errors import ComparisonsError

RESULTS = frozenset({"provider", "prompt", "vars", "score", "success"})
SELECT = "select-best"
SCORE = "score"
LONGEST = 60  # characters of a prompt's label, or of a criterion, in a name
FAILED = 2  # failureReason of an output that could not be made
Outputs = dict[str, tuple[int, str]]  # by item: the row, and the text


def results_table(table: Table) -> Table:
    """The entries of a results file, which is one object, as a table; another table as it is."""
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
    place: dict[str, dict[str, int]] = {}
    columns = [str(found.cell(row, "promptIdx")) for row in rows]
    for name, column in zip(names, columns, strict=True):
        place.setdefault(name, {}).setdefault(column, len(place[name]) + 1)
    return [
        name if len(place[name]) == 1 else f"{name} #{place[name][column]}"
        for name, column in zip(names, columns, strict=True)
    ]


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
