"""How commands that ask a judge go on to the end: progress on stderr, the ranking on stdout, and a report.

What a run would take, and its first question as it is sent: what --dry-run shows.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from comparo.analysis.correlations import agreement
from comparo.cli.criteria_output import first_criteria, print_criteria
from comparo.cli.flags import UNRELIABLE
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
from comparo.cli.progress import calls_of, say_interrupted, stoppable, watched
from comparo.data.criteria_prompt import CriteriaPrompt
from comparo.data.injection import injection_sentence
from comparo.data.prompts import Question
from comparo.errors import PendingError
from comparo.ranking.criteria_ranking import CriteriaRanking
from comparo.ranking.display import control_sentences, tie_sentences
from comparo.ranking.ranking import Ranking
from comparo.ranking.self_consistency import unexplained_flips
from comparo.run.audition import Trial
from comparo.run.budget import dollars
from comparo.run.criteria_run import CriteriaRun
from comparo.run.dry_run import expense_words, longest_prompt_words
from comparo.run.loop import Run
from comparo.run.preview import first_question
from comparo.run.probing import price_sentences, remember_probes, tokens_sentence
from comparo.run.resume import growth_sentence
from comparo.run.stopping import stop_sentence
from comparo.run.task import Expense, Task

BEGIN = ("local", "hf", "vllm")  # providers whose models always go on with an answer that was begun


def given_words(task: Task) -> str:
    """How many of a run's calls were answered before, to be put after their number."""
    where = "in the audition" if task.growth is None else "before"
    return f", {len(task.given):,} of them answered {where}" if task.given else ""


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
    calls = f"{expense.calls:,} calls at most{given_words(task) if task.growth is None else ' now'}"
    remember_probes(task.judges, folder)
    console.print(f"{calls}, {expense_words(task, expense)}", markup=False, soft_wrap=True)
    console.print(longest_prompt_words(task), markup=False, soft_wrap=True)
    if flagged := injection_sentence(task.items, task.prompt):
        console.print(flagged, markup=False, soft_wrap=True)
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
