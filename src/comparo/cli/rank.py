"""comparo rank: the whole job, from texts to a ranking."""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from comparo.analysis.agreement import agreement
from comparo.cli import groups
from comparo.cli.asked import JudgeFlags
from comparo.cli.batch import BatchFlags
from comparo.cli.criteria import CriteriaFlags, first_criteria, print_criteria
from comparo.cli.groups import ColumnFlags, with_groups
from comparo.cli.printing import (
    Console,
    Format,
    cost_words,
    print_board,
    print_moved,
    print_notes,
    print_ranking,
    whose,
)
from comparo.cli.progress import calls_of, watched
from comparo.cli.settings import command_line
from comparo.cli.stopping import say_interrupted, stoppable
from comparo.data.items import LENGTH
from comparo.data.joint import CriteriaPrompt
from comparo.data.prompts import Question
from comparo.data.several import read_several
from comparo.errors import PendingError
from comparo.methods import Method
from comparo.model.product import Bias
from comparo.ranking.criteria import CriteriaRanking
from comparo.ranking.equal import control_sentences
from comparo.ranking.indecision import tie_sentences
from comparo.ranking.ranking import Ranking
from comparo.run.answers import count_cached
from comparo.run.audition import Trial
from comparo.run.auto import AUTO, beside
from comparo.run.budget import dollars
from comparo.run.criteria import CriteriaRun
from comparo.run.first import first_question
from comparo.run.folders import choose_folder
from comparo.run.growing import grown, growth_sentence
from comparo.run.loop import Run
from comparo.run.probing import price_sentences, remember_probes, tokens_sentence
from comparo.run.rank import rank
from comparo.run.recipe import Scores
from comparo.run.stops import stop_sentence
from comparo.run.task import DEFAULT_LEAST_MASS, DEFAULT_METHOD, Expense, Task
from comparo.run.writing import expense_words
from comparo.selection.defaults import DEFAULT_BUDGET, DEFAULT_GOAL, DEFAULT_ORDERS, Orders, Strategy

EPILOG = (
    "Example: `comparo rank stories.jsonl --criterion 'more surprising' --kind Story`, or with a server: `comparo rank "
    "summaries.csv --context article --criterion 'more coherent' --judge openai/gpt-6-luna --budget 20n --until 0.95`"
)
MUCH, PRINTED = "How much is asked", "Output"  # where --help shows some flags
BEGIN = ("local", "hf", "vllm")  # providers whose models always go on with an answer that was begun


@dataclass(frozen=True)
class Plan:
    """How much is asked."""

    budget: Annotated[str, typer.Option(help="Calls: 500, 10n (per item), 5% (of all pairs) or $2.50.")] = (
        DEFAULT_BUDGET
    )
    until: Annotated[
        float | None,
        typer.Option(
            help="Stop once the goal is this sure: the expected Spearman correlation with the true order, or the "
            "probability that the best are right."
        ),
    ] = None
    goal: Annotated[
        str,
        typer.Option(
            help="ranking, top-K (who is among the best K), systems (tell groups apart) or best-system (find the best "
            "group)."
        ),
    ] = DEFAULT_GOAL
    least_mass: Annotated[
        float,
        typer.Option(help="Stop if the judge puts less than this share of its probability on the labels; 0 never."),
    ] = DEFAULT_LEAST_MASS


@dataclass(frozen=True)
class How:
    """How pairs are chosen, and how answers become scores."""

    strategy: Annotated[
        Strategy | None,
        typer.Option(
            help="random, greedy (best connected) or adaptive (by the answers). Default: greedy, adaptive for other "
            "goals than ranking."
        ),
    ] = None
    orders: Annotated[Orders, typer.Option(help="Ask each pair in both orders (two calls), or in one.")] = (
        DEFAULT_ORDERS
    )
    seed: Annotated[int, typer.Option(min=0, help="The same seed and answers give the same run.")] = 0
    plain: Annotated[
        bool,
        typer.Option("--plain", help="As in the paper: texts not looked at, equal weights, no variances."),
    ] = False
    method: Annotated[Method, typer.Option(help="How answers become scores (docs/fitting.md).")] = DEFAULT_METHOD
    bias: Annotated[
        Bias | None, typer.Option(help="How position bias is removed: none, plug-in or joint, the default.")
    ] = None
    estimate: Annotated[
        Scores,
        typer.Option(
            help="Whose ranking: judge; consensus, what people would say as far as a judge can tell; auto: that where "
            "texts share groups."
        ),
    ] = "auto"
    validity: Annotated[
        float | None,
        typer.Option(
            help="For a consensus: the share of the judge's view of single texts that people share, 0 to 1. Default: "
            "estimated.",
            show_default=False,
        ),
    ] = None
    control: Annotated[
        list[str] | None,
        typer.Option(help="What is held equal: length, or a column of numbers; may be repeated."),
    ] = None


@dataclass(frozen=True)
class Shown:
    """Output."""

    top: Annotated[int | None, typer.Option(min=1, help="Print only the best TOP of each context.")] = None
    output: Annotated[Format, typer.Option("--format", help="How to print the ranking.")] = "table"
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Nothing on stderr but errors.")] = False

    @property
    def console(self) -> Console:
        """Where everything but the ranking is printed."""
        return Console(stderr=True, quiet=self.quiet, highlight=False)


@with_groups
def rank_command(
    context: typer.Context,
    data: Annotated[
        str,
        typer.Argument(
            help="The texts: JSONL, JSON, CSV, TSV, Parquet or .xlsx with columns id, text (and context), a folder of "
            ".txt or .md files, a .txt file with a text a line, a run folder, or - for stdin."
        ),
    ],
    *,
    columns: ColumnFlags,
    group: groups.GroupColumn = None,
    scores: groups.Scores = None,
    votes: Annotated[
        list[Path] | None,
        typer.Option(
            help="People's votes about some texts, in a file or folder (docs/people.md): the ranking is then what they "
            "would say of all. May be repeated.",
            rich_help_panel=groups.TEXTS,
        ),
    ] = None,
    question: CriteriaFlags,
    asked: JudgeFlags,
    plan: Plan,
    audition: Annotated[
        Path | None,
        typer.Option(
            help="The folder of an audition; its answers count within the budget.",
            rich_help_panel=MUCH,
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Say calls, tokens, price and the first question; ask nothing.",
            rich_help_panel=MUCH,
        ),
    ] = False,
    by_batch: BatchFlags,
    how: How,
    out: Annotated[
        Path | None,
        typer.Option(
            help="The run folder; new items are added to its run, and --budget is for these. Default: "
            "comparo-runs/TIME-NAME, or that of the same run.",
            rich_help_panel=PRINTED,
        ),
    ] = None,
    fresh: Annotated[
        bool,
        typer.Option("--fresh", help="Start anew; an existing folder is renamed and kept.", rich_help_panel=PRINTED),
    ] = False,
    allow_changes: groups.AllowChanges = False,
    shown: Shown,
) -> None:
    """Rank texts by a judge, from few comparisons, safe to stop and start again.

    The ranking goes to stdout, progress to stderr, and everything asked to a run folder with a report to open in a
    browser. The same command continues a run that was stopped.
    """
    asked.check()  # flags that do not fit together are an error before anything is read
    numbers = [name for name in how.control or () if name != LENGTH]
    items = columns.read(data, group=group, scores=scores, numbers=numbers)
    is_auto = question.wording == [AUTO]
    prompts = question.resolved.spelled_out("all", AUTO).make(items, columns, asked.reader)

    def folder(task: Task) -> Path:
        if not (fresh or isinstance(task, Trial) or isinstance(task.prompt, CriteriaPrompt)):
            task = grown(task, out, allow_changes)
        expense = task.expense()
        if dry_run:
            say_expense(Console(highlight=False), task, expense, None if fresh else out)
            raise typer.Exit
        name = f"{'stdin' if data == '-' else data}{'-audition' if isinstance(task, Trial) else ''}"
        given = beside(out) if isinstance(task, Trial) else out
        return given if isinstance(given, Path) else choose_folder(name, task.identity, fresh)

    rank(
        items,
        prompt=prompts,
        wording=AUTO if is_auto else None,
        judge=asked.make(items, context),
        **asdict(plan) | asdict(how) | {"control": how.control or ()},
        audition=audition,
        votes=read_several(votes) if votes else None,
        weights=question.weights,
        out=folder,
        fresh=fresh and out is not None,
        batch=by_batch.mode,
        allow_changes=allow_changes,
        notes={"command": command_line(context)},
        say=partial(shown.console.print, style="yellow", markup=False, soft_wrap=True),
        finish=partial(finish, shown=shown),
    )


def finish(run: Run, shown: Shown) -> Ranking:
    """Ask all questions, with the progress on stderr, and print the ranking; also that of a run that is interrupted."""
    is_trial = isinstance(run.task, Trial)

    def so_far() -> None:
        if run.progress.answered and not is_trial:
            shown.console.print("The ranking so far:", style="yellow")
            _print(run.ranking(), run, shown, is_finished=False)

    ranking = complete(run, shown.console, so_far)
    if not is_trial:
        _print(ranking, run, shown)
    return ranking


def complete(run: Run, console: Console, so_far: Callable[[], None] = lambda: None) -> Ranking:
    """Ask all questions, with the progress on stderr; where that is interrupted, show what there is `so_far`."""
    say_begin(console, run)
    try:
        with stoppable(), watched(run, console):
            return run.finish()
    except PendingError as pending:
        console.print(str(pending), style="yellow", markup=False, soft_wrap=True)
        raise typer.Exit from None
    except KeyboardInterrupt as stop:
        say_interrupted(console, run, stop)
        so_far()
        raise typer.Exit(getattr(stop, "code", 130)) from None


def say_begin(console: Console, run: Run) -> None:
    """Say how many calls a run may make, and where its folder is."""
    what = "An audition of the wordings: " if isinstance(run.task, Trial) and run.task.whole else ""
    calls = f"{run.progress.total:,} calls at most{_given(run.task)}"
    if sentence := growth_sentence(run.task):
        console.print(sentence, markup=False, soft_wrap=True)
    console.print(f"[dim]{what}{calls}; run folder {run.store.folder}[/dim]")


def _given(task: Task) -> str:
    where = "in the audition" if task.growth is None else "before"
    return f", {len(task.given):,} of them answered {where}" if task.given else ""


def _print(ranking: Ranking, run: Run, shown: Shown, is_finished: bool = True) -> None:
    """Print the ranking, and write the report to the run folder."""
    from comparo.report import write_report
    from comparo.report.record import run_record

    if isinstance(ranking, CriteriaRanking) and isinstance(run, CriteriaRun):
        print_criteria(ranking, run, shown.console, shown.output, shown.top, is_finished)
        return
    console, record = shown.console, run_record(run, ranking)
    page = write_report(str(run.store.folder), record)
    if ranking.leaderboard is not None and shown.output == "table":
        print_board(ranking.leaderboard)
    progress, cached = run.progress, count_cached(run.judgements)
    print_ranking(ranking, shown.output, shown.top, calls_of(run))
    if ranking.grown is not None and shown.output == "table":
        print_moved(ranking, ranking.grown)
    if not shown.quiet:
        print_notes(ranking.notes)
    parts = [f"{progress.answered:,} of {record.possible:,} possible comparisons{_given(run.task)}"]
    if progress.failed:
        parts.append(f"{progress.failed:,} failed")
    if progress.cut:
        parts.append(f"{progress.cut:,} prompts cut to the model's window")
    parts += cost_words(cached, progress.answered, progress.cost)
    console.print("; ".join(parts))
    if any(one.tokens_cached or one.tokens_reasoning for one in run.judgements):
        console.print(tokens_sentence(run.judgements), markup=False, soft_wrap=True)
    for sentence in price_sentences(run.task.judges) if progress.cost else ():
        console.print(sentence, markup=False, soft_wrap=True)
    if run.task.until is not None and is_finished:
        console.print(stop_sentence(run.task, ranking, run.rounds, progress.answered, progress.total), soft_wrap=True)
    console.print(whose(ranking), markup=False, soft_wrap=True)
    for sentence in (*tie_sentences(ranking.ties), *control_sentences(ranking.control)):
        console.print(sentence, markup=False, soft_wrap=True)
    for name, found in agreement(ranking, run.task.items).items():
        contexts = f", mean of {np.count_nonzero(~np.isnan(found))} contexts" if len(found) > 1 else ""
        if not np.isnan(found).all():
            console.print(f"Spearman correlation with {name}: {np.nanmean(found):.3f}{contexts}", markup=False)
    console.print(f"Report: {page}", markup=False)


def say_expense(console: Console, task: Task, expense: Expense, folder: Path | None = None) -> None:
    """Say what a run would take, and its first question; an earlier run may have left a probe in the `folder`."""
    contexts = f" in {len(task.items.contexts)} contexts" if len(task.items.contexts) > 1 else ""
    several = len(task.voices) > 1
    if isinstance(task, Trial) and task.whole:
        console.print(f"At most {task.whole:,} calls in all; the first of them are an audition of the wordings:")
    who = f"{len(task.voices)} voices" if several else f"judge {task.judge.name}"
    console.print(f"{len(task.items):,} items{contexts}, {who}", markup=False)
    if task.compares_groups:
        aim = "find the best of" if task.goal == "best-system" else "tell apart"
        console.print(f"goal {task.goal}: calls to {aim} {task.systems().count} groups, in all contexts together")
    for voice in task.voices if several else ():
        each = expense.costs[voice.name]
        console.print(f"  {voice.name}: {'price not known' if math.isnan(each) else f'{dollars(each)} a call'}")
    if sentence := growth_sentence(task):
        console.print(sentence, markup=False)
    calls = f"{expense.calls:,} calls at most{_given(task) if task.growth is None else ' now'}"
    remember_probes(task.judges, folder)
    console.print(f"{calls}, {expense_words(task, expense)}", markup=False, soft_wrap=True)
    for sentence in price_sentences(task.judges):
        console.print(sentence, markup=False, soft_wrap=True)
    question = first_question(task)
    if question is not None:
        sent = written_out(task, question)
        console.print(f"The first question, as it is sent:\n\n{sent}", markup=False, soft_wrap=True)


def written_out(task: Task, question: Question) -> str:
    """A question of a run as it is sent, and how the answer is begun, if it is."""
    voice = next(voice for voice in task.voices if voice.name == question.voice)
    judge, prompt = voice.judge, voice.prompt
    begins, adds = (getattr(judge, name, None) for name in ("begins", "adds"))
    by_itself = isinstance(prompt, CriteriaPrompt) and not adds
    text = first_criteria(prompt, question) if by_itself else prompt.text(question)
    text += adds(prompt) if adds else ""
    is_begun = begins(prompt) if begins else judge.name.partition("/")[0] in BEGIN
    return text + (f"\n\nThe answer is begun with: {prompt.answer}" if is_begun and prompt.answer else "")
