"""comparo judge: judgements of pairs, written as they come, for those who only want these."""

import json
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, Literal

import typer

from comparo.cli.flags import ColumnFlags, QuestionFlags
from comparo.cli.judge_flags import JudgeFlags
from comparo.cli.printing import Console, cost_words, print_text, say
from comparo.cli.progress import watched
from comparo.data.columns import Table
from comparo.data.documents import csv_line
from comparo.data.injection import injection_sentence
from comparo.data.items import Items
from comparo.data.prompts import Question
from comparo.data.reading import read_columns
from comparo.errors import ComparisonsError, JudgeError
from comparo.judges import Judgement
from comparo.run.budget import PROBES, dollars, paid_and_spent
from comparo.run.plan import probe_judges
from comparo.run.progress import Progress
from comparo.run.voices import count_cached

LABELS = ("context", "first", "second")
Key = tuple[Any, Any, Any]


def judge_command(
    context: typer.Context,
    pairs: Annotated[Path | None, typer.Argument()] = None,
    items: str | None = None,
    is_probed: Annotated[bool, typer.Option("--probe")] = False,
    *,
    asked: JudgeFlags,
    question: QuestionFlags,
    columns: ColumnFlags,
    output: Annotated[Literal["csv", "jsonl"], typer.Option("--format")] = "csv",
) -> None:
    """Judgements of pairs of texts, one a line, as they come.

    p is the probability that the first is better, mass how much of the model's probability lay on the two labels. A
    judgement that failed has an error and no p. `comparo fit` reads what this prints. Answers are cached: the same
    command again asks for those that are missing only.

    Parameters
    ----------
    pairs : The pairs: CSV, TSV, JSONL, JSON, Parquet or .xlsx with columns first, second (and context), as `comparo
        select` prints.
    items : The texts: JSONL, JSON, CSV, TSV, Parquet, .xlsx, a folder of .txt or .md files or a run folder; columns id,
        text (and context).
    is_probed : Instead: what the model can do as a judge, by about five small calls: log-probabilities, structured
        output, effort. A run asks one such question of its own accord.
    output : How to print the judgements.

    Examples
    --------
    `comparo judge pairs.csv --items stories.jsonl --criterion 'more surprising' --kind Story > judged.csv`; `comparo
    judge --probe --judge openai/qwen --base-url http://localhost:8000/v1`
    """
    if is_probed:
        _probe(asked, context)
        return
    if pairs is None or items is None:
        raise ValueError("comparo judge needs the pairs and --items, the file of their texts; or --probe")
    if len(asked.judges) > 1 or len(question.wording or ()) > 1:
        raise ValueError("comparo judge asks one judge in one wording; give one --judge and one --wording")
    texts = columns.read(items)
    (prompt,) = question.make(texts, columns, asked.reader)
    if flagged := injection_sentence(texts, prompt):
        say(flagged)
    names = Names(texts)
    open_pairs = _questions(read_columns(pairs, labels=(*LABELS, "context_id")), texts, names)
    header = list(Judgement(Question("", ""), error="").row())[0 if names.has_contexts else 1 :]
    (judge,) = asked.make(texts, context)
    probes = probe_judges([judge]) if open_pairs else []
    if output == "csv":
        print_text(csv_line(header))
    done, progress = list[Judgement](), Progress(len(open_pairs))
    with watched(Console(stderr=True)) as show:
        for judgement in judge.judge(iter(open_pairs), prompt):
            print_text(line(judgement.row(), header, output == "csv"))
            done.append(judgement)
            progress.asked += 1
            progress.failed += judgement.failed
            progress.answered += not judgement.failed
            progress.cost += judgement.spent if judgement.spent > 0 else 0.0
            if show is not None:
                show(progress)
    _summarise(done, {PROBES: probes})


def _probe(asked: JudgeFlags, context: typer.Context) -> None:
    """Print what a model can do as a judge, found by a handful of small questions."""
    (made,) = asked.load(None, context)
    survey = getattr(made, "survey", None)
    if survey is None:
        raise ValueError(f"{made.name} has nothing to find out: it is not behind a server")
    found, probe = survey()
    console, width = Console(), max(len(name) for name, _ in found)
    took = f"{probe.calls} calls, {probe.tokens:,} tokens, {dollars(probe.cost)}"
    console.print(f"{made.name}, found on {date.today()} by {took}")
    for name, finding in found:
        console.print(f"{name:<{width}}  {finding}")


class Names:
    """The labels of items, by what a file may hold of them: CSV has text where the items have numbers.

    >>> Names(Items.of([{"id": 7, "text": "A"}, {"id": 8, "text": "B"}])).key(None, "7", 8)
    (None, 7, 8)
    """

    def __init__(self, items: Items) -> None:
        self._contexts, self._ids = (set(labels.tolist()) for labels in (items.contexts, items.ids))
        self._written = [{str(label): label for label in labels} for labels in (self._contexts, self._ids)]
        self.has_contexts = self._contexts != {None}

    def key(self, context: Any, first: Any, second: Any) -> Key:
        """The labels that the items have, for those that a file has; one that no item has stays as it is."""
        shared = self._label(context, self._contexts, self._written[0]) if self.has_contexts else None
        return shared, *(self._label(label, self._ids, self._written[1]) for label in (first, second))

    def _label(self, label: Any, known: set[Any], written: Mapping[str, Any]) -> Any:
        text = isinstance(label, list | dict)  # neither can be a label
        return label if not text and label in known else written.get(str(label), label)


def line(row: Mapping[str, Any], columns: Sequence[str], is_csv: bool) -> str:
    """A judgement as one line that can be read again.

    >>> line({"first": "ana", "p": float("nan")}, ["first", "p"], is_csv=False)
    '{"first": "ana", "p": null}\\n'
    """
    values = {name: None if row[name] != row[name] else row[name] for name in columns}
    text = csv_line(values.values()) if is_csv else json.dumps(values, ensure_ascii=False) + "\n"
    text = text.replace("\0", "\ufffd")  # readers of CSV take no NUL
    return text.encode("utf-8", "replace").decode()


def _questions(table: Table, items: Items, names: Names) -> list[Question]:
    """The pairs of a table as questions about the items."""
    for name in ("first", "second"):
        if name not in table.columns:
            there = ", ".join(table.columns)
            raise ComparisonsError(f"{table.source}: there is no column {name!r} among {there}; name the pair's items")
    contexts = table.columns.get("context", table.columns.get("context_id"))
    if contexts is None and names.has_contexts:
        raise ComparisonsError(f"{table.source}: the items have contexts and the pairs have none; add a column context")
    first, second = table.columns["first"], table.columns["second"]
    questions = []
    for row, pair in enumerate(zip([None] * len(first) if contexts is None else contexts, first, second, strict=True)):
        try:
            questions.append(items.question(*names.key(*pair)))
        except ComparisonsError as error:
            raise table.error([row], None, str(error)) from error
    return questions


def _summarise(done: list[Judgement], found: Mapping[str, Any]) -> None:
    """How it went, on stderr, with the cost of the probe in `found`; a JudgeError where every judgement failed."""
    failed = [judgement for judgement in done if judgement.failed]
    if done and len(failed) == len(done):
        raise JudgeError(f"all {len(done)} judgements failed, the first with: {failed[0].error}")
    answered = [judgement for judgement in done if not judgement.failed]
    parts = [f"{len(answered)} judgements"]
    if answered:
        parts.append(f"mean p {fmean(judgement.p for judgement in answered):.2f}")
        parts.append(f"mean mass {fmean(judgement.mass for judgement in answered):.2f}")
    parts += cost_words(count_cached(done), len(answered), paid_and_spent(done, found)[1])
    if cut := sum(judgement.cut > 0 for judgement in done):
        parts.append(f"{cut} with texts cut to the model's window")
    if failed:
        parts.append(f"{len(failed)} failed, the first with: {failed[0].error}")
    say("; ".join(parts))
