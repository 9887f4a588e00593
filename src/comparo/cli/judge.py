"""comparo judge: judgements of pairs, written as they come, for those who only want these."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, Literal, TextIO

import typer
from rich.console import Console

from comparo.cli import options
from comparo.cli.printing import watch
from comparo.frames import ComparisonsError
from comparo.items import Items
from comparo.judges import JudgeError, Judgement
from comparo.prompts import Question
from comparo.tables import Table, read_columns

EPILOG = (
    "Example: `comparo judge pairs.csv --items stories.jsonl --criterion 'more surprising' --kind Story > judged.csv`"
)


def judge_command(
    context: typer.Context,
    pairs: Annotated[
        Path,
        typer.Argument(
            help="The pairs: CSV, JSONL or Parquet with columns first, second (and context), as `comparo select` "
            "prints.",
            show_default=False,
        ),
    ],
    items: Annotated[
        str,
        typer.Option(help="The texts: JSONL, CSV, Parquet or a folder of .txt files; columns id, text (and context)."),
    ],
    judge: options.JudgeName = "local/smollm2",
    criterion: options.Criterion = None,
    kind: options.Kind = "Text",
    heading: options.Heading = None,
    prompt: options.PromptName = None,
    labels: options.Labels = None,
    answer: options.Answer = None,
    option: options.Options = None,
    base_url: options.BaseUrl = None,
    votes: options.Votes = None,
    concurrency: options.Concurrency = None,
    price: options.Price = None,
    engine: options.Engine = None,
    ray_address: options.RayAddress = None,
    judge_replicas: options.Replicas = None,
    judge_gpus: options.Gpus = None,
    judge_cpus: options.Cpus = None,
    id_column: options.IdColumn = None,
    text_column: options.TextColumn = None,
    context_column: options.ContextColumn = None,
    context_id: options.ContextIdColumn = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="A .csv or .jsonl file to write to in place of stdout. Pairs that it holds answers to are not asked "
            "again, so the same command goes on where it stopped.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[Literal["csv", "jsonl"], typer.Option("--format", help="How to print the judgements.")] = "csv",
) -> None:
    """Judgements of pairs of texts, one a line, as they come.

    p is the probability that the first is better, mass how much of the model's probability lay on the two labels. A
    judgement that failed has an error and no p. `comparo fit` reads what this prints.
    """
    ray = options.ray_options(engine, ray_address, judge_replicas, judge_gpus, judge_cpus)
    texts = Items.of(items, id=id_column, text=text_column, context=context_column, context_id=context_id)
    question = options.make_prompt(texts, criterion, prompt, kind, heading, context_column, labels, answer, judge)
    asked = _questions(read_columns(pairs), texts)
    if out is not None:
        output = "csv" if out.suffix == ".csv" else "jsonl"
        known = _answered(out)
        asked = [pair for pair in asked if (pair.context, pair.first, pair.second) not in known]
    named = {"base_url": base_url, "votes": votes, "concurrency": concurrency, "price": price}
    whoever = options.make_judge(judge, texts, option, context, ray, **named)
    columns = list(Judgement(asked[0], error="").row())[list(texts.contexts) == [None] :] if asked else []
    done: list[Judgement] = []
    with out.open("a", encoding="utf-8", newline="") if out else nullcontext(sys.stdout) as file:
        write = _writer(file, output, columns, header=not (out and file.tell()))
        for judgement in watch(whoever.judge(iter(asked), question), len(asked)):
            write(judgement)
            done.append(judgement)
    _summarise(done)


def _questions(table: Table, items: Items) -> list[Question]:
    """The pairs of a table as questions about the items."""
    for name in ("first", "second"):
        if name not in table.columns:
            there = ", ".join(table.columns)
            raise ComparisonsError(f"{table.source}: there is no column {name!r} among {there}; name the pair's items")
    known = {str(label): label for label in items.contexts.tolist()}
    ids = {str(label): label for label in items.ids.tolist()}
    contexts = table.columns.get("context", table.columns.get("context_id"))
    if contexts is None and list(known.values()) != [None]:
        raise ComparisonsError(f"{table.source}: the items have contexts and the pairs have none; add a column context")
    questions = []
    for row, (first, second) in enumerate(zip(table.columns["first"], table.columns["second"], strict=True)):
        context = None if contexts is None or known.keys() == {"None"} else known.get(str(contexts[row]), contexts[row])
        try:
            questions.append(items.question(context, ids.get(str(first), first), ids.get(str(second), second)))
        except ComparisonsError as error:
            raise table.error([row], None, str(error)) from error
    return questions


def _answered(path: Path) -> set[tuple[Any, Any, Any]]:
    """The pairs that a file written before has answers to."""
    if not path.exists() or not path.stat().st_size:
        return set()
    columns = read_columns(path).columns
    size = len(columns["first"])
    contexts, errors = (columns.get(name, [None] * size) for name in ("context", "error"))
    rows = zip(contexts, columns["first"], columns["second"], errors, strict=True)
    return {(context, first, second) for context, first, second, error in rows if not error}


def _writer(file: TextIO, output: str, columns: list[str], header: bool) -> Callable[[Judgement], None]:
    """What writes a judgement as one line, at once."""
    table = csv.writer(file, lineterminator="\n")
    if output == "csv" and header:
        table.writerow(columns)

    def write(judgement: Judgement) -> None:
        row = {name: None if value != value else value for name, value in judgement.row().items() if name in columns}
        if output == "csv":
            table.writerow("" if value is None else value for value in row.values())
        else:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
        file.flush()

    return write


def _summarise(done: list[Judgement]) -> None:
    """How it went, on stderr; a JudgeError where every judgement failed."""
    failed = [judgement for judgement in done if judgement.failed]
    if done and len(failed) == len(done):
        raise JudgeError(f"all {len(done)} judgements failed, the first with: {failed[0].error}")
    answered = [judgement for judgement in done if not judgement.failed]
    parts = [f"{len(answered)} judgements"]
    if answered:
        parts.append(f"mean p {fmean(judgement.p for judgement in answered):.2f}")
        parts.append(f"mean mass {fmean(judgement.mass for judgement in answered):.2f}")
    if cost := sum(judgement.cost for judgement in done if judgement.cost > 0):
        parts.append(f"${cost:.4f}")
    if cut := sum(judgement.cut > 0 for judgement in done):
        parts.append(f"{cut} with texts cut to the model's window")
    if failed:
        parts.append(f"{len(failed)} failed, the first with: {failed[0].error}")
    Console(stderr=True).print("; ".join(parts), highlight=False, markup=False)
