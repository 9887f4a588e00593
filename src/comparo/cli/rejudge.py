"""comparo rejudge: the pairs of a run put to another judge or in another wording."""

import math
from pathlib import Path
from typing import Annotated

import typer

from comparo.cli import flags as groups
from comparo.cli.finishing import Shown, complete, print_plan, print_result
from comparo.cli.judge_flags import JudgeFlags
from comparo.cli.settings import command_line
from comparo.data.wordings import WORDINGS
from comparo.run.rejudge import Rejudged, prepare_rejudge
from comparo.run.store import stored_items


def rejudge_command(
    context: typer.Context,
    run: Annotated[Path, typer.Argument(callback=groups.run_folder)],
    asked: JudgeFlags,
    wording: Annotated[
        str | None,
        typer.Option(help=f"How the run's criterion is put: {', '.join(WORDINGS)}. Default: as in the run."),
    ] = None,
    budget: str = "100%",
    dry_run: bool = False,
    out: Path | None = None,
    *,
    shown: Shown,
) -> None:
    """The pairs of a run put to another judge: how far the two rankings agree, and their consensus.

    The new folder holds the answers of both, and RUN is left as it is. The same command continues one that was stopped,
    and asks what was added to RUN since.

    Parameters
    ----------
    run : A run folder, such as comparo-runs/TIME-NAME.
    budget : How many of the run's questions to ask, in their order: 500, 5n (five per item), 50% or $2.50.
    dry_run : Say calls, tokens and price, and ask nothing.
    out : The new run folder. Default: beside RUN, named after the judge.

    Examples
    --------
    `comparo rejudge comparo-runs/20260301-120000-stories --judge openai/gpt-6-luna --dry-run`
    """
    if len(asked.judges) > 1:
        raise ValueError("comparo rejudge asks one judge; give one --judge, and rejudge the new folder by the next")
    (judge,) = asked.make(stored_items(run), context)

    notes = {"command": command_line(context)}
    plan = prepare_rejudge(run, judge, wording=wording, budget=budget, out=out, notes=notes)
    if dry_run:
        print_plan(plan.base)
        return
    found = complete(plan, shown.console, shown)
    assert plan.base.loop is not None
    print_result(found.ranking, plan.base.loop, shown)
    shown.console.print(_summary(found))


def _summary(found: Rejudged) -> str:
    before, after = ("unknown" if math.isnan(share) else f"{share:.0%}" for share in found.flips)
    return (
        f"Spearman correlation of the ranking by {found.voice} with that of the run: {found.spearman:.3f}\n"
        f"The same winner in {found.agree:.0%} of {found.questions:,} questions; the winner changes with the order of "
        f"the texts in {before} of the run's pairs, and in {after} by {found.voice}"
    )
