"""How commands that ask a judge go on to the end: progress on stderr, the ranking on stdout, and a report."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import typer

from comparo.analysis.agreement import agreement
from comparo.cli.criteria import print_criteria
from comparo.cli.expense import given_words
from comparo.cli.groups import UNRELIABLE
from comparo.cli.printing import (
    Console,
    Format,
    cost_words,
    print_board,
    print_moved,
    print_notes,
    print_ranking,
    print_text,
    whose,
)
from comparo.cli.progress import calls_of, watched
from comparo.cli.stopping import say_interrupted, stoppable
from comparo.errors import PendingError
from comparo.ranking.criteria import CriteriaRanking
from comparo.ranking.equal import control_sentences
from comparo.ranking.indecision import tie_sentences
from comparo.ranking.orders import unexplained_flips
from comparo.ranking.ranking import Ranking
from comparo.run.audition import Trial
from comparo.run.criteria import CriteriaRun
from comparo.run.growing import growth_sentence
from comparo.run.loop import Run
from comparo.run.probing import price_sentences, tokens_sentence
from comparo.run.stops import stop_sentence


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


def fail_if_unreliable(ranking: Ranking, console: Console) -> None:
    """End with an exit code of its own where the judge hardly reads the texts, by any of several criteria."""
    each = ranking.rankings.values() if isinstance(ranking, CriteriaRanking) else (ranking,)
    if any(unexplained_flips(one.judged.comparisons).are_many for one in each):
        console.print(f"the judge is unreliable: exit code {UNRELIABLE}", style="red", markup=False)
        raise typer.Exit(UNRELIABLE)


def say_begin(console: Console, run: Run) -> None:
    """Say how many calls a run may make, and where its folder is."""
    what = "An audition of the wordings: " if isinstance(run.task, Trial) and run.task.whole else ""
    calls = f"{run.progress.total:,} calls at most{given_words(run.task)}"
    if sentence := growth_sentence(run.task):
        console.print(sentence, markup=False, soft_wrap=True)
    console.print(f"[dim]{what}{calls}; run folder {run.store.folder}[/dim]")


def _print(ranking: Ranking, run: Run, shown: Shown, is_finished: bool = True) -> None:
    """Print the ranking, and write the report to the run folder."""
    from comparo.report import write_report
    from comparo.report.record import run_record

    if isinstance(ranking, CriteriaRanking) and isinstance(run, CriteriaRun):
        print_criteria(ranking, run, shown.console, shown.output, shown.top, is_finished)
        return
    console, record = shown.console, run_record(run, ranking)
    page = write_report(str(run.store.folder), record)
    if shown.output == "table" and ranking.meaning:
        print_text(f"{ranking.meaning}\n\n")
    if ranking.leaderboard is not None and shown.output == "table":
        print_board(ranking.leaderboard)
    progress, calls = run.progress, calls_of(run)
    print_ranking(ranking, shown.output, shown.top, calls)
    if ranking.grown is not None and shown.output == "table":
        print_moved(ranking, ranking.grown)
    if not shown.quiet:
        print_notes((*ranking.notes, *ranking.board_notes))
    parts = [f"{progress.answered:,} of {record.possible:,} possible comparisons{given_words(run.task)}"]
    if progress.failed:
        parts.append(f"{progress.failed:,} failed")
    if progress.cut:
        parts.append(f"{progress.cut:,} prompts cut to the model's window")
    parts += cost_words(calls["cached"], progress.answered, progress.cost)
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
