"""The data sets of the paper as items with people's scores: downloads, published layouts, attributes.

Each is read from a path, in one of these layouts or in comparo's own JSON Lines: one row per item, with `context_id`,
`context`, `id`, `text`, the object `scores` and, where it is known, `system`. Three are downloaded by their name
(`fetch`); Cambridge gives CMCQRD to those who register, and it needs a path. Files may be damaged: every field that is
read is checked, and an error names file, row and field.

- SummEval: Hugging Face's mteb/summeval (Parquet or JSON Lines), one row per article: `id`, `text`, the list
  `machine_summaries`, and for each attribute a list of the experts' means of the same length.
- TopicalChat: UniEval's `topical_chat.json`, one row per response: `source` (the dialogue), `context` (the fact),
  `system_id`, `system_output`, and the object `scores`.
- HANNA: its authors' `hanna_stories_annotations.csv`, one row per rating: `Story ID`, `Story`, `Model`, six attributes.
- CMCQRD: Cambridge's JSON Lines, one row per passage: `id`, `title`, `text`, and the object `questions`, each with
  `text`, `options` (each with `text`) and the difficulty `diff`.

TopicalChat's attributes have other names in the paper than in the file: the paper's continuity is what people were
asked as "Maintains Context", in the file `coherence`; the paper's coherence is their "Understandable", in the file
`understandability`. The file's names are kept, and `continuity` is a second name for the file's `coherence`.
"""

import logging
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from benchmarks.paper.downloads import fetch
from benchmarks.paper.prompts import PAPER
from comparo.data.columns import Column, Table, as_number, shown
from comparo.data.formats import read_columns
from comparo.data.items import Items
from comparo.errors import ComparisonsError
from comparo.studies.recorded import Opened, open_set

SUMMEVAL = ("coherence", "consistency", "fluency", "relevance")
HANNA = ("Relevance", "Coherence", "Empathy", "Surprise", "Engagement", "Complexity")

Value = TypeVar("Value")
_log = logging.getLogger(__name__)


def read_summeval(table: Table) -> Items:
    """SummEval from mteb/summeval: an article's summaries are numbered from 0, since the set does not name systems.

    >>> row = {"id": ["dm-1"], "text": ["The article."], "machine_summaries": [["One.", "Two."]]}
    >>> items = read_summeval(Table(row | {name: [[1.0, 2.0]] for name in SUMMEVAL}))
    >>> items.names, items.scores["fluency"], items.group
    ({'dm-1': [0, 1]}, array([1., 2.]), None)
    """
    ids, articles = _column(table, "id", _label), _column(table, "text", _text)
    _check_distinct(table, "id", ids)
    summaries = [
        [_text(table, row, f"machine_summaries.{number}", value) for number, value in enumerate(values)]
        for row, values in enumerate(_column(table, "machine_summaries", _list))
    ]
    scores: dict[str, list[float]] = {name: [] for name in SUMMEVAL}
    for name, column in scores.items():
        for row, values in enumerate(_column(table, name, _list)):
            if len(values) != len(summaries[row]):
                problem = f"{len(values)} scores for {len(summaries[row])} summaries; give one to each"
                raise table.error([row], name, problem)
            column.extend(_number(table, row, f"{name}.{number}", value) for number, value in enumerate(values))
    rows = [
        {"id": number, "text": text, "context_id": name, "context": article}
        for name, article, texts in zip(ids, articles, summaries, strict=True)
        for number, text in enumerate(texts)
    ]
    return _items(table, rows, scores)


def read_topicalchat(table: Table) -> Items:
    """TopicalChat from UniEval's file: rows with the same dialogue and fact are one context, tc-00, tc-01, ….

    The dialogue is the context that a judge is shown; the fact, which the paper's prompts do not show, only
    distinguishes dialogues.

    >>> rows = {"source": ["hi \\n\\n"] * 2, "context": ["Owls fly."] * 2, "system_id": ["Argmax", "Nucleus"]}
    >>> rows |= {"system_output": ["hello", "yes"], "scores": [{"coherence": 1.0}, {"coherence": 3.0}]}
    >>> items = read_topicalchat(Table(rows))
    >>> items.names, items.scores["coherence"]
    ({'tc-00': ['Argmax', 'Nucleus']}, array([1., 3.]))
    """
    dialogues = _column(table, "source", _text)
    systems = _column(table, "system_id", _label)
    keys = list(zip(dialogues, _column(table, "context", _any_text), strict=True))
    label = {key: f"tc-{number:02d}" for number, key in enumerate(dict.fromkeys(keys))}
    rows = [
        {"id": system, "group": system, "text": text.strip(), "context_id": label[key], "context": dialogue.strip()}
        for system, text, key, dialogue in zip(
            systems, _column(table, "system_output", _text), keys, dialogues, strict=True
        )
    ]
    objects = _column(table, "scores", _mapping)
    names = dict.fromkeys(str(name) for scores in objects for name in scores)
    scores = {
        name: [_number(table, row, f"scores.{name}", given.get(name)) for row, given in enumerate(objects)]
        for name in names
    }
    return _items(table, rows, scores)


def read_hanna(table: Table) -> Items:
    """HANNA from the authors' table of ratings: a story's score is the mean over its raters, one context for all.

    >>> ratings = {"Story ID": ["7", "7", "8"], "Story": ["One.", "One.", "Two."], "Model": ["Human", "Human", "GPT"]}
    >>> items = read_hanna(Table(ratings | {name: ["3", "4", "1"] for name in HANNA}))
    >>> items.names, items.scores["surprise"], items.group
    ({'hanna': ['7', '8']}, array([3.5, 1. ]), array(['Human', 'GPT'], dtype=object))
    """
    ids = _column(table, "Story ID", _label)
    stories, models = _column(table, "Story", _text), _column(table, "Model", _label)
    first: dict[Any, int] = {}
    for row, name in enumerate(ids):
        start = first.setdefault(name, row)
        for heading, column in (("Story", stories), ("Model", models)):
            if column[row] != column[start]:
                problem = f"story {shown(name)} has another one in row {start + 1}; give each story its own Story ID"
                raise table.error([row], heading, problem)
    position = {name: number for number, name in enumerate(first)}
    code = np.array([position[name] for name in ids], dtype=np.int64)
    scores = {}
    for heading in HANNA:
        ratings = np.array([_number(table, row, heading, value) for row, value in enumerate(_cells(table, heading))])
        known = ~np.isnan(ratings)
        count = np.bincount(code[known], minlength=len(first))
        total = np.bincount(code[known], ratings[known], minlength=len(first))
        scores[heading.lower()] = np.divide(total, count, out=np.full(len(first), np.nan), where=count > 0).tolist()
    rows = [
        {"id": name, "group": models[row], "text": stories[row], "context_id": "hanna"} for name, row in first.items()
    ]
    return _items(table, rows, scores)


def read_cmcqrd(table: Table) -> Items:
    """CMCQRD: all questions are compared with each other, and each shows its passage and its options.

    `diff` is the score `difficulty`; a question without one is left out, and how many are is logged.

    >>> options = {letter: {"text": word, "fac": 0.5} for letter, word in zip("ab", ("An owl.", "A cat."))}
    >>> questions = {"1": {"text": "Who flies?", "options": options, "diff": 61.5, "answer": "a"}}
    >>> questions["2"] = questions["1"] | {"text": "Who purrs?", "diff": 40}
    >>> items = read_cmcqrd(Table({"id": [12], "text": ["Owls and cats."], "questions": [questions]}))
    >>> items.ids, items.scores
    (array(['12-1', '12-2'], dtype=object), {'difficulty': array([61.5, 40. ])})
    >>> print(items.texts[0])
    Owls and cats.
    <BLANKLINE>
    Who flies?
    A) An owl.
    B) A cat.
    """
    ids, passages = _column(table, "id", _label), _column(table, "text", _text)
    titles = [_any_text(table, row, "title", value or "") for row, value in enumerate(table.columns.get("title", ()))]
    _check_distinct(table, "id", ids)
    rows, difficulty, unknown = [], [], 0
    for row, questions in enumerate(_column(table, "questions", _mapping)):
        title = titles[row].strip() if titles else ""
        passage = f"{title}\n{passages[row]}" if title else passages[row]
        for name, question, place in _objects(table, row, "questions", questions):
            score = _number(table, row, f"{place}.diff", question.get("diff"))
            if math.isnan(score):
                unknown += 1
                continue
            options = _mapping(table, row, f"{place}.options", question.get("options"))
            lines = [
                f"{letter.upper()}) {_text(table, row, f'{inner}.text', option.get('text'))}"
                for letter, option, inner in _objects(table, row, f"{place}.options", options)
            ]
            asked = _text(table, row, f"{place}.text", question.get("text"))
            rows.append({"id": f"{ids[row]}-{name}", "text": "\n".join([passage, "", asked, *lines])})
            difficulty.append(score)
    if unknown:
        _log.info("%s: %d questions without a difficulty are left out", table.source or "the data", unknown)
    return _items(table, rows, {"difficulty": difficulty})


def _items(table: Table, rows: list[dict[str, Any]], scores: Mapping[str, Sequence[float]]) -> Items:
    for name, column in scores.items():
        for row, score in zip(rows, column, strict=True):
            row[f"score_{name}"] = score
    try:
        return Items.of(rows)
    except ComparisonsError as error:
        raise ComparisonsError(f"{table.source}: among its items, {error}" if table.source else str(error)) from error


def _objects(
    table: Table, row: int, place: str, values: Mapping[str, Any]
) -> Iterator[tuple[str, Mapping[str, Any], str]]:
    """The objects of an object: name, object, and where it stands."""
    for name, value in values.items():
        inner = f"{place}.{name}"
        yield name, _mapping(table, row, inner, value), inner


def _cells(table: Table, name: str) -> Column:
    if name not in table.columns:
        raise ComparisonsError(
            f"{table.source or 'the data'}: there is no field {name!r}, which the published file has; there are "
            f"{', '.join(table.columns) or 'none'}. Copy the file again, or name the data set that it holds"
        )
    return table.columns[name]


def _column(table: Table, name: str, check: Callable[[Table, int, str, Any], Value]) -> list[Value]:
    return [check(table, row, name, value) for row, value in enumerate(_cells(table, name))]


def _check_distinct(table: Table, name: str, labels: Sequence[Any]) -> None:
    first: dict[Any, int] = {}
    if twice := [row for row, label in enumerate(labels) if first.setdefault(label, row) != row]:
        raise table.error(twice, name, f"{shown(labels[twice[0]])} stands there before; give each row its own {name}")


def _of_kind(table: Table, row: int, name: str, value: Any, *, kind: Any, meant: str) -> Any:
    value = value.tolist() if isinstance(value, np.ndarray) else value
    if not isinstance(value, kind):
        raise table.error([row], name, f"{shown(value)} is not {meant}; copy the file again")
    return value


_any_text = partial(_of_kind, kind=str, meant="text")
_list = partial(_of_kind, kind=list | tuple, meant="a list")
_mapping = partial(_of_kind, kind=Mapping, meant="an object")


def _text(table: Table, row: int, name: str, value: Any) -> str:
    if not _any_text(table, row, name, value).strip():
        raise table.error([row], name, "there is no text; copy the file again, or drop the row")
    return str(value)


def _label(table: Table, row: int, name: str, value: Any) -> Any:
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, bool) or not isinstance(value, str | int) or not str(value).strip():
        raise table.error([row], name, f"{shown(value)} is not a label; name it by text or an integer")
    return value


def _number(table: Table, row: int, name: str, value: Any) -> float:
    """A score, NaN where there is none."""
    number = math.inf if isinstance(value, bool) else as_number(value)
    if math.isinf(number):
        raise table.error([row], name, f"{shown(value)} is not a number; correct it, or leave it empty")
    return number


READERS = {
    "summeval": ("machine_summaries", read_summeval),
    "topicalchat": ("system_output", read_topicalchat),
    "hanna": ("Story ID", read_hanna),
    "cmcqrd": ("questions", read_cmcqrd),
}


@dataclass(frozen=True, eq=False)
class DataSet:
    """N items with people's scores for each of `attributes`; the system that wrote an item, if known, is its group."""

    name: str
    items: Items
    attributes: tuple[str, ...]


def load_dataset(
    name: str,
    path: str | os.PathLike[str] | None = None,
    *,
    cache: str | os.PathLike[str] | None = None,
    mirror: str | None = None,
) -> DataSet:
    """A data set of the paper by its name, from a file, or downloaded once into the folder `cache`.

    The file is in the published layout or in comparo's own. Attributes are those of the paper's prompts that the file
    has scores for. `mirror` is a server that holds the published paths.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "stories.jsonl")
    ...     row = '{"context_id": "h", "id": "%s", "system": "GPT", "text": "A story.", "scores": {"surprise": %d}}\\n'
    ...     _ = file.write_text(row % ("7", 3) + row % ("8", 1))
    ...     data = load_dataset("hanna", file)
    >>> data.attributes, data.items.group
    (('surprise',), array(['GPT', 'GPT'], dtype=object))
    """
    file = fetch(name, None if cache is None else Path(cache), mirror) if path is None else Path(path)
    table = read_columns(file)
    layout = next((known for known, (mark, _) in READERS.items() if mark in table.columns), None)
    if layout is not None:
        if layout != name:
            raise ComparisonsError(f"{file} holds {layout}, not {name}; name the set that it holds")
        items = READERS[name][1](table)
    else:
        items = Items.of(file, group="system" if "system" in table.columns else None)
        if items.group is None and name in ("summeval", "topicalchat"):
            items = replace(items, group=items.ids)  # there an item is called after the system that wrote it
    if name == "topicalchat" and "coherence" in items.scores:
        items = replace(items, scores={"continuity": items.scores["coherence"], **items.scores})
    scored = [attribute for attribute, scores in items.scores.items() if not np.isnan(scores).all()]
    asked = tuple(key.split("/")[1] for key in PAPER if key.split("/")[0] == name and key.split("/")[1] in scored)
    if not asked:
        raise ComparisonsError(f"{file} has no human scores for the attributes of {name}; a study needs some")
    return DataSet(name, items, asked)


def open_dataset(name: str, data: Path, judgements: Path | None = None, *, attributes: Iterable[str] = ()) -> Opened:
    """A data set in the folder `data`, in comparo's own layout, with its recorded judgements; see `open_set`."""
    file = data / f"{name}.jsonl"
    found = load_dataset(name, file)
    scores = {attribute: found.items.scores[attribute] for attribute in found.attributes}
    return open_set(file, judgements, attributes=attributes, items=replace(found.items, scores=scores))
