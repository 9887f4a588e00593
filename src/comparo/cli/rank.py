"""comparo rank: the whole job, from texts to a ranking."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.live import Live
from rich.text import Text

from comparo.analysis.agreement import agreement
from comparo.cli import options
from comparo.cli.groups import ColumnFlags, JudgeFlags, QuestionFlags, with_groups
from comparo.cli.previewing import first_question
from comparo.cli.printing import Console, Format, print_notes, print_ranking
from comparo.cli.repeating import command_line
from comparo.cli.stopping import stoppable
from comparo.data.words import visible
from comparo.methods import Method
from comparo.model.product import Bias
from comparo.ranking.ranking import Ranking
from comparo.run.budget import Budget
from comparo.run.folders import choose_folder
from comparo.run.loop import Progress, Run
from comparo.run.money import dollars
from comparo.run.rank import open_run
from comparo.run.recipe import Scores
from comparo.run.task import DEFAULT_LEAST_MASS, DEFAULT_METHOD, Expense, Task
from comparo.selection.defaults import DEFAULT_BUDGET, DEFAULT_ORDERS, Orders, Strategy

EPILOG = (
    "Example: `comparo rank stories.jsonl --criterion 'more surprising' --kind Story`, or with a server: `comparo rank "
    "summaries.csv --context article --criterion 'more coherent' --judge openai/gpt-4o-mini --budget 20n --until 0.95`"
)


@dataclass(frozen=True)
class Plan:
    """How many calls are made, and of which pairs."""

    budget: Annotated[
        str, typer.Option(help="Calls to make: 500, 10n (ten per item), 5% (of all ordered pairs) or $2.50.")
    ] = DEFAULT_BUDGET
    until: Annotated[
        float | None,
        typer.Option(
            help="Stop earlier, once the expected Spearman correlation with the true ranking is this high (with --goal "
            "top-5: the probability that the best five are right).",
            show_default=False,
        ),
    ] = None
    goal: Annotated[str, typer.Option(help="ranking, or top-K to spend the calls on who is among the best K.")] = (
        "ranking"
    )
    strategy: Annotated[
        Strategy | None,
        typer.Option(
            help="How pairs are chosen. greedy: where the fewest comparisons connect; adaptive: where the answers "
            "leave most open; random. Default: greedy, adaptive for a goal top-K.",
            show_default=False,
        ),
    ] = None
    orders: Annotated[Orders, typer.Option(help="Ask each pair in both orders (two calls), or in one.")] = (
        DEFAULT_ORDERS
    )
    method: Annotated[Method, typer.Option(help="How comparisons become scores; see comparo fit.")] = DEFAULT_METHOD
    bias: Annotated[Bias | None, typer.Option(help="How the position bias is removed. Default: joint.")] = None
    seed: Annotated[int, typer.Option(min=0, help="The same seed and answers give the same run.")] = 0
    plain: Annotated[
        bool,
        typer.Option(
            "--plain",
            help="As in the paper: choose pairs without looking at their texts, give every comparison the same weight, "
            "and estimate no variances.",
        ),
    ] = False
    estimate: Annotated[
        Scores,
        typer.Option(
            help="Whose ranking it is. judge: this judge's; consensus: what people would say, as far as one judge can "
            "tell. auto: consensus where texts share groups (--group, or the same ids in several contexts). A finished "
            "run is scored again without calls."
        ),
    ] = "auto"
    validity: Annotated[
        float | None,
        typer.Option(
            help="For a consensus: the share, 0 to 1, of the judge's view of single texts beyond their group that "
            "people share. Default: estimated.",
            show_default=False,
        ),
    ] = None
    least_mass: Annotated[
        float,
        typer.Option(
            help="Stop early if the judge puts less than this share of its probability on the labels: its answers then "
            "mean little. 0 never stops."
        ),
    ] = DEFAULT_LEAST_MASS


@dataclass(frozen=True)
class Shown:
    """What is printed."""

    top: Annotated[
        int | None, typer.Option(min=1, help="Print only the best TOP of each context.", show_default=False)
    ] = None
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
            ".txt files, a .txt file with a text a line, a run folder, or - for standard input.",
            show_default=False,
        ),
    ],
    question: QuestionFlags,
    asked: JudgeFlags,
    plan: Plan,
    columns: ColumnFlags,
    group: options.GroupColumn = None,
    scores: options.Scores = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say calls, tokens and price, and ask nothing.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(help="The run folder. Default: comparo-runs/TIME-NAME, or that of the same run, to continue it."),
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Start anew; an existing folder is renamed and kept.")] = False,
    *,
    shown: Shown,
) -> None:
    """Rank texts by a judge, from few comparisons, safe to stop and start again.

    The ranking goes to stdout, progress to stderr, and everything asked to a run folder with a report to open in a
    browser. The same command continues a run that was stopped.
    """
    asked.check()
    items = columns.read(data, group=group, scores=scores)
    prompt = question.make(items, columns, asked.judge)
    judge, how = asked.make(items, context), asdict(plan)
    task = Task(items, prompt, judge, Budget.of(how.pop("budget")), **how)
    expense = task.expense()
    if dry_run:
        _say_expense(Console(highlight=False), task, expense)
        return
    folder = out or choose_folder("stdin" if data == "-" else data, task.identity, fresh)
    console, notes = shown.console, {"command": command_line(context)}
    say = partial(console.print, style="yellow", markup=False, soft_wrap=True)
    with open_run(task, folder, fresh=fresh and out is not None, notes=notes, say=say) as run:
        console.print(f"[dim]{expense.calls:,} calls at most; run folder {folder}[/dim]")
        try:
            with stoppable(), _shown(run, console):
                ranking = run.finish()
        except KeyboardInterrupt as stop:
            kept = f"what was judged is kept ({run.progress.answered:,}), and the same command goes on from here."
            console.print(f"{str(stop) or 'Interrupted'}: {kept}", style="yellow", soft_wrap=True)
            if run.progress.answered:
                console.print("The ranking so far:", style="yellow")
                _finish(run.ranking(), run, folder, shown)
            raise typer.Exit(getattr(stop, "code", 130)) from None
        _finish(ranking, run, folder, shown)


def _finish(ranking: Ranking, run: Run, folder: Path, shown: Shown) -> None:
    """Print the ranking, and write the report to the run folder."""
    from comparo.report import write_report
    from comparo.report.record import run_record

    console = shown.console
    page = write_report(folder, run_record(run, ranking))
    print_ranking(ranking, shown.output, shown.top)
    if not shown.quiet:
        print_notes(ranking.notes)
    progress = run.progress
    parts = [f"{progress.answered:,} of {run.possible:,} possible comparisons"]
    if progress.failed:
        parts.append(f"{progress.failed:,} failed")
    if progress.cut:
        parts.append(f"{progress.cut:,} prompts cut to the model's window")
    if progress.cost:
        parts.append(dollars(progress.cost))
    console.print("; ".join(parts))
    console.print(_whose(ranking), markup=False, soft_wrap=True)
    for name, found in agreement(ranking, run.task.items).items():
        contexts = f", mean of {np.count_nonzero(~np.isnan(found))} contexts" if len(found) > 1 else ""
        if not np.isnan(found).all():
            console.print(f"Spearman correlation with {name}: {np.nanmean(found):.3f}{contexts}", markup=False)
    console.print(f"Report: {page}", markup=False)


def _whose(ranking: Ranking) -> str:
    if ranking.validity is None:
        return "scores: the judge's own opinion"
    return (
        f"scores: consensus, validity {ranking.validity:.2f}: what people would say, as far as one judge can tell; "
        "--estimate judge for the judge's own opinion"
    )


def _say_expense(console: Console, task: Task, expense: Expense) -> None:
    contexts = f" in {len(task.items.contexts)} contexts" if len(task.items.contexts) > 1 else ""
    price = "price not known (set it by --price)" if math.isnan(expense.cost) else f"about {dollars(expense.cost)}"
    console.print(f"{len(task.items):,} items{contexts}, judge {task.judge.name}", markup=False)
    console.print(f"{expense.calls:,} calls at most, about {expense.tokens:,} tokens, {price}", markup=False)
    console.print(f"The first question, as it is sent:\n\n{first_question(task)}", markup=False, soft_wrap=True)


@contextmanager
def _shown(run: Run, console: Console) -> Iterator[None]:
    """A line on stderr that tells how far the run is, where that is a terminal."""
    if not console.is_terminal or console.quiet:
        yield
        return
    with Live(Text("starting"), console=console, transient=True, refresh_per_second=4) as live:
        run.watch = lambda progress: live.update(progress_line(progress))
        yield


def progress_line(progress: Progress) -> Text:
    """How far a run is, in one line: calls, rate, time left, cost, failures and the leaders."""
    done = progress.answered + progress.failed
    parts = [f"{done:,}/{progress.total:,} calls", f"{progress.rate:.1f}/s"]
    if progress.rate:
        left = (progress.total - done) / progress.rate
        parts.append(f"{left // 60:.0f} min {left % 60:.0f} s left" if left >= 60 else f"{left:.0f} s left")
    if progress.cost:
        parts.append(dollars(progress.cost))
    if progress.failed:
        parts.append(f"{progress.failed} failed")
    if progress.ranking is not None:
        best = progress.ranking.to_columns()["item"][:3].tolist()
        parts.append("leading: " + ", ".join(visible(f"{item!s:.20}", lines=False) for item in best))
    return Text("  ".join(parts), style="cyan", overflow="ellipsis", no_wrap=True)
