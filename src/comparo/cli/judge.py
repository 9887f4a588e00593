"""comparo judge: judgements of pairs, written as they come; or the pairs of a run put to another judge."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated, Any

import typer

from comparo.cli.finishing import RankingFlags, complete, print_result
from comparo.cli.flags import ColumnFlags, JudgeFlags, run_folder
from comparo.cli.printing import Console, cost_words, print_text, say, watched
from comparo.cli.settings import name_of, options_of, running
from comparo.data.columns import Table
from comparo.data.documents import csv_lines
from comparo.data.formats import read_columns
from comparo.data.items import Items
from comparo.data.probes import injection_sentence
from comparo.data.prompts import Question
from comparo.data.run_folder import database_of
from comparo.errors import ComparisonsError, JudgeError
from comparo.judges import Judgement
from comparo.log.configuration import PROBES, paid_and_spent
from comparo.log.store import stored_items
from comparo.options import CriterionOptions, RejudgeOptions, ShareOptions
from comparo.run.budget import dollars
from comparo.run.cached_judge import probe_judges
from comparo.run.progress import Progress
from comparo.run.rejudge import Rejudged, plan_rejudge
from comparo.run.voices import Voice, count_cached, make_prompts
from comparo.run.worker import answers_to

LABELS = ("context", "first", "second")
OF_A_RUN = ("budget", "dry_run", "out", "fresh", "output", "top", "quiet")
OF_PAIRS = ("items", "criterion", "prompt", "kind", "wording", "context_column", "columns")


@dataclass(frozen=True)
class AgainFlags(RankingFlags, ShareOptions):
    """Where the pairs are those of a run.

    Parameters
    ----------
    out : The new run folder. Default: beside that of the run, named after the judge.
    output : How to print the consensus of a run; judgements are CSV.
    """


def judge_command(
    pairs: Annotated[Path | None, typer.Argument()] = None,
    items: str | None = None,
    is_probed: Annotated[bool, typer.Option("--probe")] = False,
    *,
    asked: JudgeFlags,
    question: CriterionOptions,
    columns: ColumnFlags,
    again: AgainFlags,
) -> None:
    """Judgements of pairs of texts, one a line, as they come; or the pairs of a run put to another judge.

    p is the probability that the first is better, mass how much of the model's probability lay on the two labels. A
    judgement that failed has an error and no p. `comparo fit` reads what this prints. Answers are cached: the same
    command again asks for those that are missing only.

    Of a run folder, the question is that of the run: prints the consensus of both judges, and how far their rankings
    agree. A new folder holds the answers of both, and that of the run is left as it is. The same command continues one
    that was stopped, and asks what was added to the run since.

    Parameters
    ----------
    pairs : The pairs: CSV, TSV, JSONL, JSON, Parquet or .xlsx with columns first, second (and context), as `comparo
        plan --next` prints; or a run folder, such as comparo-runs/TIME-NAME.
    items : The texts: JSONL, JSON, CSV, TSV, Parquet, .xlsx, a folder of .txt or .md files or a run folder; columns id,
        text (and context).
    is_probed : Instead: what the model can do as a judge with these options, by one small call: log-probabilities,
        structured output, effort. A run asks such a question of its own accord.

    Examples
    --------
    `comparo judge pairs.csv --items stories.jsonl --criterion 'more surprising' --kind Story > judged.csv`; `comparo
    judge comparo-runs/20260301-120000-stories --judge openai/gpt-6-luna --dry-run`; `comparo judge --probe --judge
    openai/qwen --base-url http://localhost:8000/v1`
    """
    if is_probed:
        _probe(asked)
        return
    if len(asked.judges) > 1 or len(question.wording or ()) > 1:
        raise ValueError("comparo judge asks one judge in one wording; give one --judge and one --wording")
    if pairs is not None and database_of(pairs) is not None:
        _refuse(OF_PAIRS, f"{pairs} is a run, which has its own texts and question")
        _judge_again(run_folder(pairs), asked, again)
        return
    if pairs is None or items is None:
        raise ValueError("comparo judge needs the pairs and --items, the file of their texts; or a run; or --probe")
    _refuse(OF_A_RUN, f"{pairs} is not a run folder")
    texts = columns.read(items)
    (prompt,) = make_prompts(texts, question, asked.judges, columns.context_column)
    if flagged := injection_sentence(texts, prompt):
        say(flagged)
    names = Names(texts)
    open_pairs = _questions(read_columns(pairs, labels=(*LABELS, "context_id")), texts, names)
    header = list(Judgement(Question("", ""), error="").row())[0 if names.has_contexts else 1 :]
    (judge,) = asked.make(texts)
    probes = probe_judges([judge]) if open_pairs else []
    print_text(csv_lines([header]))
    done, progress = list[Judgement](), Progress(len(open_pairs))
    with watched(Console(stderr=True)) as show:
        for judgement in answers_to(open_pairs, Voice(None, judge, prompt)):
            print_text(line(judgement.row(), header))
            done.append(judgement)
            progress.asked += 1
            progress.failed += judgement.failed
            progress.answered += not judgement.failed
            progress.pay(judgement)
            if show is not None:
                show(progress)
    _summarise(done, {PROBES: probes})


def _refuse(names: Sequence[str], why: str) -> None:
    """Raise for flags on the command line; those of a settings file are for all commands."""
    for option in options_of(running().command):
        source = running().get_parameter_source(str(option.name))
        if option.name in names and source is not None and source.name == "COMMANDLINE":
            raise ValueError(f"{why}; leave --{name_of(option)} out")


def _judge_again(run: Path, asked: JudgeFlags, again: AgainFlags) -> None:
    """Ask another judge the pairs of a run, and print the consensus and the agreement of both."""
    (judge,) = asked.make(stored_items(run))
    plan = plan_rejudge(run, RejudgeOptions(judge, budget=again.budget, out=again.storage()))
    found = complete(plan, again)
    assert plan.base.loop is not None
    print_result(found.ranking, plan.base.loop, again)
    again.console.print(_agreement(found))


def _agreement(found: Rejudged) -> str:
    before, after = ("unknown" if math.isnan(share) else f"{share:.0%}" for share in found.flips)
    return (
        f"Spearman correlation of the ranking by {found.voice} with that of the run: {found.spearman:.3f}\n"
        f"The same winner in {found.agree:.0%} of {found.questions:,} questions; the winner changes with the order of "
        f"the texts in {before} of the run's pairs, and in {after} by {found.voice}"
    )


def _probe(asked: JudgeFlags) -> None:
    """Print what a model can do as a judge with these settings, found by a question of a few words."""
    (made,) = asked.load(None)
    survey = getattr(made, "survey", None)
    if survey is None:
        raise ValueError(f"{made.name} has nothing to find out: it is not behind a server")
    found, probe = survey()
    console, width = Console(), max(len(name) for name, _ in found)
    calls = "1 call" if probe.calls == 1 else f"{probe.calls} calls"
    took = f"{calls}, {probe.tokens:,} tokens, {dollars(probe.cost)}"
    console.print(f"{made.name}, found on {date.today()} by {took}")
    for name, finding in found:
        console.print(f"{name:<{width}}  {finding}")


class Names:
    """Maps labels in a file to labels of items: CSV has text where the items have numbers.

    >>> names = Names(Items.of([{"id": 7, "text": "A"}, {"id": 8, "text": "B"}]))
    >>> names.item("7"), names.item(8), names.context("x")
    (7, 8, None)
    """

    def __init__(self, items: Items) -> None:
        contexts, ids = items.contexts.tolist(), items.ids.tolist()
        self.has_contexts = contexts != [None]
        self._contexts = {str(label): label for label in contexts}
        self._ids = {str(label): label for label in ids}

    def context(self, label: Any) -> Any:
        """The context's label for that in a file; None if the items have no contexts."""
        return self._contexts.get(str(label), label) if self.has_contexts else None

    def item(self, label: Any) -> Any:
        """The item's label for that in a file, which is unchanged if no item has it."""
        return self._ids.get(str(label), label)


def line(row: Mapping[str, Any], columns: Sequence[str]) -> str:
    """A judgement as a line of CSV that can be read again; an unknown number is empty.

    >>> line({"first": "ana", "p": float("nan")}, ["first", "p"])
    'ana,\\n'
    """
    values = [None if row[name] != row[name] else row[name] for name in columns]
    text = csv_lines([values]).replace("\0", "\ufffd")  # readers of CSV take no NUL
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
    pairs = zip([None] * len(first) if contexts is None else contexts, first, second, strict=True)
    for row, (context, one, other) in enumerate(pairs):
        try:
            questions.append(items.question(names.context(context), names.item(one), names.item(other)))
        except ComparisonsError as error:
            raise table.error([row], None, str(error)) from error
    return questions


def _summarise(done: list[Judgement], found: Mapping[str, Any]) -> None:
    """Print a summary on stderr, with the cost of the probe in `found`; a JudgeError if every judgement failed."""
    failed = [judgement for judgement in done if judgement.failed]
    if done and len(failed) == len(done):
        raise JudgeError(f"all {len(done)} judgements failed, the first with: {failed[0].error}")
    answered = [judgement for judgement in done if not judgement.failed]
    parts = [f"{len(answered)} judgements"]
    parts += cost_words(count_cached(done), len(answered), paid_and_spent(done, found)[1])
    if cut := sum(judgement.cut > 0 for judgement in done):
        parts.append(f"{cut} with texts cut to the model's window")
    if failed:
        parts.append(f"{len(failed)} failed, the first with: {failed[0].error}")
    say("; ".join(parts))
