"""What commands that ask a judge print: the plan (--dry-run), the ranking on stdout, and a report."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Protocol, TypeVar

import numpy as np
import typer

from comparo.analysis.correlations import agreement
from comparo.analysis.sequential import chance_notes
from comparo.cli.flags import UNRELIABLE, Count
from comparo.cli.printing import (
    Console,
    Format,
    calls_of,
    how_it_went,
    print_board,
    print_criteria,
    print_notes,
    print_ranking,
    print_text,
    say_interrupted,
    scores_sentence,
    watched,
)
from comparo.cli.settings import command_line
from comparo.data.criteria_prompt import CriteriaPrompt
from comparo.data.prompts import Prompt, Question
from comparo.errors import Message, PendingError
from comparo.judges import Judge
from comparo.judges.prices import Price
from comparo.options import Storage
from comparo.ranking.criteria_ranking import CriteriaRanking
from comparo.ranking.display import best_sentence, consensus_sentence, taste_sentences
from comparo.ranking.ranking import Ranking, all_notes
from comparo.ranking.scale import Scaled
from comparo.ranking.self_consistency import unreliable_by
from comparo.run.budget import dollars, price_words
from comparo.run.cached_judge import remember_probes
from comparo.run.loop import Run
from comparo.run.plan import Plan, first_question, given_words, longest_prompt_words
from comparo.run.progress import Watch
from comparo.run.resume import growth_sentence
from comparo.run.stopping import stop_sentence
from comparo.run.task import CHARACTERS, Task
from comparo.run.voices import tokens_sentence

Result = TypeVar("Result", covariant=True)
BEGIN = ("local", "hf", "vllm")  # providers whose models always continue a prefilled reply


def print_plan(plan: Plan[Any]) -> None:
    """Print calls, tokens and price of a run, and its first question; the folder may hold an earlier probe."""
    console, task, expense = Console(), plan.task, plan.expense
    several = len(task.voices) > 1
    who = f"{len(task.voices)} voices" if several else f"judge {task.judge.name}"
    console.print(f"{task.subject}, {who}")
    if task.compares_groups:
        aim = "find the best of" if task.goal == "best-system" else "tell apart"
        console.print(f"goal {task.goal}: calls to {aim} {task.systems().count} groups, in all contexts together")
    for voice in task.voices if several else ():
        each = expense.costs[voice.name]
        console.print(f"  {voice.name}: {'price not known' if math.isnan(each) else f'{dollars(each)} a call'}")
    if sentence := growth_sentence(task):
        console.print(sentence)
    calls = f"{expense.calls:,} calls at most{given_words(task) if task.growth is None else ' now'}"
    remember_probes(task.judges, None if plan.storage.fresh else plan.folder)
    checks = plan.check_calls
    sentences = [
        calls + ", " + expense_words(task),
        f"at most {checks} calls more check that the judge still answers as before" if checks else "",
        equal_words(task),
        longest_prompt_words(task),
    ]
    sentences += [task.injections, *price_sentences(task.judges)]
    if (question := first_question(task)) is not None:
        sentences.append(f"The first question, as it is sent:\n\n{written_out(task, question)}")
    for sentence in filter(None, sentences):
        console.print(sentence)


def expense_words(task: Task) -> str:
    """The tokens that a run reads and writes, at most or as a probe predicts, and their price.

    Examples
    --------
        about 52,800 tokens read and at most 960 written (8 a call, as many as the settings allow), at most $0.0058
    """
    expense = task.expense
    writing = [(voice, voice.judge.writes(voice.prompt)) for voice in task.voices if hasattr(voice.judge, "writes")]
    if not writing:
        return f"about {expense.tokens:,} tokens, " + price_words("about", expense.cost)
    read = f"about {expense.tokens:,} tokens read"
    known = {voice.name: one.tokens for voice, one in writing if one is not None}
    if len(known) < len(writing):
        return (
            f"{read} for "
            + price_words("about", expense.cost)
            + "; how many are written is not known before a probe: the model reasons as long as it likes, unless the "
            "option max_tokens=N sets a limit"
        )
    if all(one.probed for _, one in writing):
        much, why = "about", "as a probe by a few words saw"
    else:
        much, why = "at most", "as many as the settings allow"
    if any(getattr(voice.judge, "reasons", False) for voice, _ in writing):
        why = f"reasoning included, {why}"
    each = max(known.values())
    dearest = 0.0
    for voice in task.voices:
        name, price = voice.name, getattr(voice.judge, "price", None)
        cost = expense.costs[name]
        if price is not None and name in known:
            cost += (known[name] - task.replies[name]) * price[1] / 1e6
        dearest = max(dearest, cost)
    most = expense.cost
    if not math.isnan(most):
        most = min(expense.calls * dearest, task.budget.dollars)
    written = f"{expense.calls * each:,} written ({each:,} a call, {why}), "
    return f"{read} and {much} {written}" + price_words(much, most)


def equal_words(task: Task) -> str:
    """The number of calls about pairs, or in a run of pairs about four texts, for the same tokens; "" if impossible.

    Examples
    --------
        The same tokens are 263 calls about pairs
    """
    other = 2 if task.prompt.size > 2 else 4
    can_ask = all(getattr(judge, "lines_up", False) for judge in task.judges)
    if other > 2 and (not can_ask or min(map(len, task.items.names.values())) < other):
        return ""
    try:
        prompt = task.prompt.resized(other)
    except ValueError:  # a prompt of the user's own, or several criteria
        return ""
    bare = len(prompt.text(Question("", "").with_texts([""] * other)))
    calls = task.expense.tokens * CHARACTERS / (bare + task.mean_length(other))
    what = "pairs" if other == 2 else Message("line-ups of four ({lineup:4})")
    return f"The same tokens are {calls:,.0f} calls about " + what


def price_sentences(judges: Sequence[Judge]) -> Iterator[str]:
    """The source of each list price and discount in the costs, one sentence each."""
    prices = (getattr(judge, "price", None) for judge in judges)
    for source in sorted(
        {price.source() for price in prices if isinstance(price, Price) and (price.day or price.share < 1)}
    ):
        yield f"prices: {source}; " + Message("{price} sets others")


def first_criteria(prompt: Prompt, question: Question) -> str:
    """The first question to a judge that reads the texts once and then each criterion's question after them."""
    assert isinstance(prompt, CriteriaPrompt)
    first, *others = prompt.parts
    part = prompt.parts[first]
    shared = part.template.rpartition("\n\n")[0]
    asked = [
        f"{name}: {prompt.parts[name].template.removeprefix(shared).strip()}".replace("{{", "{").replace("}}", "}")
        for name in others
    ]
    return "\n".join(
        [part.text(question), *(["\nand after the same texts, each by itself:\n"] if asked else []), *asked]
    )


def written_out(task: Task, question: Question) -> str:
    """A question of a run as it is sent, and the beginning of the reply, if it is prefilled."""
    voice = next(voice for voice in task.voices if voice.name == question.voice)
    judge = voice.judge
    prompt = judge.shown(voice.prompt) if hasattr(judge, "shown") else voice.prompt
    begins, adds = (getattr(judge, name, None) for name in ("begins", "adds"))
    by_itself = isinstance(prompt, CriteriaPrompt) and not adds
    text = first_criteria(prompt, question) if by_itself else prompt.text(question)
    text += adds(prompt) if adds else ""
    is_begun = begins(prompt) if begins else judge.name.partition("/")[0] in BEGIN
    return text + (f"\n\nThe answer is begun with: {prompt.answer}" if is_begun and prompt.answer else "")


@dataclass(frozen=True)
class RunFlags:
    """Output.

    Parameters
    ----------
    dry_run : Say calls, tokens and price, and ask nothing.
    out : The run folder. Default: one of comparo-runs, named after the time and the texts.
    fresh : Start anew; an existing folder is renamed and kept.
    output : How to print the result.
    quiet : Nothing on stderr but errors.
    """

    dry_run: bool = False
    out: Path | None = None
    fresh: bool = False
    output: Annotated[Format, typer.Option("--format")] = "table"
    quiet: Annotated[bool, typer.Option("--quiet", "-q")] = False

    @property
    def console(self) -> Console:
        """Where everything but the result is printed."""
        return Console(stderr=True, quiet=self.quiet)

    def storage(self, name: str | None = None, **how: Any) -> Storage:
        """Where the run is kept, with the command that made it."""
        return Storage(self.out, name, self.fresh, notes={"command": command_line()}, **how)


@dataclass(frozen=True)
class FailFlags:
    """Output.

    Parameters
    ----------
    fail_if_judge_unreliable : Exit code 4 if the judge hardly reads.
    """

    fail_if_judge_unreliable: bool = False

    def check(self, ranking: Ranking, console: Console) -> None:
        """Exit if that is wanted and the answers of the judge, on any criterion, flip too often with the order."""
        each = ranking.rankings.values() if isinstance(ranking, CriteriaRanking) else (ranking,)
        if self.fail_if_judge_unreliable and any(found := [unreliable_by(one.judged.comparisons) for one in each]):
            why = next(filter(None, found)).replace("_", " ")
            console.print(f"the judge is unreliable, by {why}: exit code {UNRELIABLE}", style="red")
            raise typer.Exit(UNRELIABLE)


@dataclass(frozen=True)
class RankingFlags(RunFlags):
    """Output.

    Parameters
    ----------
    top : Print only the best TOP of each context.
    """

    top: Count = None


class Prepared(Protocol[Result]):
    """A plan of any command; `base` is the plan of the calls still to make, None if there are none."""

    @property
    def base(self) -> Plan[Any] | None: ...

    def run(self, watch: Watch = None) -> Result: ...


def complete(plan: Prepared[Result], flags: RunFlags) -> Result:
    """Run a plan, with progress and messages on stderr; with --dry-run, print it and end.

    If the run is interrupted and its result is a ranking (`RankingFlags`), the ranking so far is printed.
    """
    if flags.dry_run and plan.base is not None:
        print_plan(plan.base)
        raise typer.Exit
    console = flags.console
    try:
        with watched(console) as watch:
            return plan.run(watch)
    except PendingError as pending:
        console.print(str(pending), style="yellow")
        raise typer.Exit from None
    except KeyboardInterrupt as stop:
        if plan.base is None or (run := plan.base.loop) is None:
            raise
        say_interrupted(console, run, stop)
        if isinstance(flags, RankingFlags) and run.progress.answered:
            console.print("The ranking so far:", style="yellow")
            print_result(run.ranking(), run, flags, is_finished=False)
        raise typer.Exit(getattr(stop, "code", 130)) from None


def rank_by(plan: Prepared[Ranking], flags: RankingFlags) -> Ranking:
    """Run a plan, and print its ranking, also on the scale of the anchors if there are any."""
    ranking = complete(plan, flags)
    assert plan.base is not None
    assert plan.base.loop is not None
    print_result(ranking, plan.base.loop, flags)
    return ranking


def print_result(ranking: Ranking, run: Run, flags: RankingFlags, is_finished: bool = True) -> None:
    """Print the ranking and sentences about it, and write the report to the run folder."""
    from comparo.report import write_report
    from comparo.report.record import run_record

    record = run_record(run, ranking)
    done = f"{run.progress.answered:,} of {record.possible:,} possible"
    if isinstance(ranking, CriteriaRanking):
        sentences = _print_criteria(ranking, run, flags, done, is_finished)
    else:
        sentences = _print_scores(ranking, record.scaled, run, flags, done)
        sentences += filter(None, [best_sentence(ranking)])
        if run.task.until is not None and is_finished:
            sentences.append(_stop_sentence(run, ranking))
        sentences += [scores_sentence(ranking), *taste_sentences(ranking)]
        for name, found in agreement(ranking, run.task.items).items():
            contexts = f", mean of {np.count_nonzero(~np.isnan(found))} contexts" if len(found) > 1 else ""
            if not np.isnan(found).all():
                sentences.append(f"Spearman correlation with {name}: {np.nanmean(found):.3f}{contexts}")
    for sentence in sentences:
        flags.console.print(sentence)
    flags.console.print(f"Report: {write_report(str(run.store.folder), record)}")


def _stop_sentence(run: Run, ranking: Ranking) -> str:
    return stop_sentence(run.task, ranking, run.contexts.rounds, run.progress.answered, run.progress.total)


def _print_scores(ranking: Ranking, scaled: Scaled | None, run: Run, flags: RankingFlags, done: str) -> list[str]:
    """Print a ranking, and return sentences about calls, tokens and prices."""
    is_table = flags.output == "table"
    if is_table and ranking.estimate == "consensus":
        print_text(consensus_sentence(ranking) + "\n\n")
    if is_table and ranking.leaderboard is not None:
        print_board(ranking.leaderboard)
    print_ranking(ranking, flags.output, flags.top, {"calls": calls_of(run)}, scaled)
    if not flags.quiet:
        print_notes([*all_notes(ranking), *chance_notes(ranking)])
        print_notes(scaled.notes if scaled else ())
    sentences = [how_it_went(run, f"{done} comparisons{given_words(run.task)}")]
    if any(one.tokens_cached or one.tokens_reasoning for one in run.judgements):
        sentences.append(tokens_sentence(run.judgements))
    if run.progress.cost:
        sentences += price_sentences(run.task.judges)
    return sentences


def _print_criteria(found: CriteriaRanking, run: Run, flags: RankingFlags, done: str, is_finished: bool) -> list[str]:
    """Print the overall ranking with the scores by each criterion, and return sentences about them."""
    from comparo.report.command_pages import people_of

    weights = print_criteria(found, flags.output, flags.top, {"calls": calls_of(run)})
    if not flags.quiet:
        print_notes(found.notes)
    sentences = [
        how_it_went(run, f"{done} calls, each answered for {len(found.rankings)} criteria"),
        f"overall: the weighted mean of the criteria ({weights}), each divided by the spread of its scores",
    ]
    for name, ranking in found.rankings.items():
        if run.task.until is not None and is_finished:
            sentences.append(f"{name}: " + _stop_sentence(run, ranking))
        for own, each in people_of(run.task.items, ranking, name).items():
            if not np.isnan(each).all():
                sentences.append(f"{name}: Spearman correlation with {own}: {np.nanmean(each):.3f}")
    return sentences
