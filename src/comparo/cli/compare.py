"""comparo compare: is B better than A, on which inputs, and how sure is that?"""

from dataclasses import dataclass
from typing import Annotated, Literal

import typer

from comparo.analysis.sequential import power
from comparo.cli.finishing import FailFlags, RunFlags, complete
from comparo.cli.flags import WORSE, GroupFlags, JudgeFlags
from comparo.cli.printing import Console, cost_words, print_notes, print_table, print_text
from comparo.data.grammar import read_until
from comparo.data.pairing import pair_files, pair_groups
from comparo.data.sanitize import visible
from comparo.log.files import write_text
from comparo.options import CompareOptions, CriterionOptions, DuelOptions
from comparo.report import write_report
from comparo.report.command_pages import RESULT
from comparo.report.record import run_record
from comparo.run.compare import prepare_compare
from comparo.run.compare_result import Duel

SHOWN = 3  # inputs that are shown on which each side wins most


@dataclass(frozen=True)
class AnswerFlags(RunFlags):
    """Output.

    Parameters
    ----------
    output : How to print the answer; markdown suits a pull request.
    """

    output: Annotated[Literal["table", "json", "markdown"], typer.Option("--format")] = "table"  # type: ignore[assignment]


def compare_command(
    one: Annotated[str, typer.Argument(metavar="A")],
    other: Annotated[str, typer.Argument(metavar="B")],
    question: CriterionOptions,
    asked: JudgeFlags,
    columns: GroupFlags,
    data: str | None = None,
    cluster: str | None = None,
    all_inputs: Annotated[bool, typer.Option("--all")] = False,
    fail_if_worse: float | None = None,
    *,
    fails: FailFlags,
    much: DuelOptions,
    flags: AnswerFlags,
) -> None:
    """Is B better than A, on how many inputs, by how much, and how surely? Stops once the answer is sure.

    Both texts of an input are shown in both orders. The answer goes to stdout, and to the run folder as compare.json
    and compare.md, beside the report. The same command continues a run that was stopped.

    Parameters
    ----------
    one : A file with a text per input; with --data, a value of its group column.
    other : The other one: is it better?
    data : One file with the texts of both; who wrote a text says --group, or its id.
    cluster : What inputs have in common, such as their topic: the mean of each is one observation; id: each input is
        one. Default: topic, if there is such a column.
    all_inputs : Ask about every input, also when the answer is already sure.
    fail_if_worse : Exit with code 3 if B is surely worse. With 0.95, a B that is not worse is refused in at most one of
        twenty runs.

    Examples
    --------
    `comparo compare old.jsonl new.jsonl --criterion 'more helpful' --kind Answer --judge openai/gpt-6-luna
    --fail-if-worse 0.95`, or two systems of one file: `comparo compare gpt-a gpt-b --data answers.jsonl --group system
    --criterion 'more helpful'`
    """
    read_until("fail_if_worse", fail_if_worse)
    line = much.not_worse_than
    if fail_if_worse is not None and line is not None:
        raise ValueError("--not-worse-than is the stricter gate; leave --fail-if-worse out")
    # Calls must go on until the one-sided test at `fail_if_worse` can reject: a side has half of the error 1 − level.
    level = much.level if fail_if_worse is None else max(much.level, 2 * fail_if_worse - 1)
    console = flags.console
    paired = (
        pair_files(one, other, cluster=cluster, **columns.without_scores)
        if data is None
        else pair_groups(data, one, other, cluster=cluster, **columns.without_scores)
    )
    given = vars(question) | vars(much) | {"level": level, "stop": not all_inputs}
    if paired.items is not None:
        given |= {"judge": asked.make(paired.items), "context": columns.context_column}
        given["out"] = flags.storage(f"compare-{paired.one}-{paired.other}")
    plan = prepare_compare(paired, CompareOptions(other, **given))
    if flags.dry_run and line is not None and plan.base is not None:
        inputs = len(set(map(paired.unit, [*plan.base.task.items.contexts.tolist(), *paired.same])))
        chance = power(line, 1 - level, inputs)
        console.print(
            f"If {paired.other} is as good, and each of {inputs:,} inputs is won or lost: shown in {chance:.0%} of runs"
        )
    duel = complete(plan, flags)
    run = None if plan.base is None else plan.base.loop
    if run is not None and run.store.folder is not None and duel.ranking is not None:
        folder = run.store.folder
        write_text(folder / RESULT, duel.to_json() + "\n")
        write_text(folder / "compare.md", duel.to_markdown())
        console.print(f"Report: {write_report(folder, run_record(run, duel.ranking))}")
    _print(duel, flags.output, console)
    if duel.ranking is not None:
        fails.check(duel.ranking, console)
    is_refused = line is not None and not duel.is_not_worse
    if is_refused or (fail_if_worse is not None and duel.is_worse(fail_if_worse)):
        may = "may be" if is_refused else "is"
        console.print(f"{duel.other} {may} worse than {duel.one}: exit code {WORSE}", style="red")
        raise typer.Exit(WORSE)


def _print(duel: Duel, output: str, console: Console) -> None:
    if output == "json":
        print_text(duel.to_json() + "\n")
        return
    if output == "markdown":
        print_text(duel.to_markdown())
        return
    print_text(visible(duel.verdict) + "\n")
    print_table(["", "value", "low", "high"], [[name, *values] for name, values in duel.figures.items()])
    most = duel.extremes(SHOWN)
    if len(most["input"]):
        header = ["input", f"{duel.other} wins by", "P, shown first", "P, shown second"]
        numbers = (most[name].tolist() for name in ("margin", "first", "second"))
        print_table(header, zip(map(str, most["input"]), *numbers, strict=True))
    told = [f"{duel.calls:,} calls on {duel.asked:,} of {duel.planned:,} inputs"]
    told += [f"{duel.same:,} with the same text twice"] if duel.same else []
    told += [f"{duel.failed:,} left out, because the judge did not answer in both orders"] if duel.failed else []
    told += [f"{sum(map(len, duel.unmatched)):,} that only one side has"] if any(duel.unmatched) else []
    told += cost_words(duel.cached, duel.calls, duel.cost)
    console.print("; ".join(told))
    if not console.quiet:
        print_notes(duel.notes)
