"""comparo runs and comparo report: what was run, and its page made again."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer

from comparo.cli import groups
from comparo.cli.printing import print_table, print_text, say
from comparo.data.writing import csv_text
from comparo.run.folders import ROOT, list_runs, repair

EPILOG = "Example: `comparo runs --format csv`"
REPORT_EPILOG = "Example: `comparo report comparo-runs/20260301-120000-stories`"


def runs_command(
    root: Annotated[Path, typer.Argument(help="The folder that holds the run folders.")] = ROOT,
    output: Annotated[Literal["table", "csv"], typer.Option("--format", help="How to print the list.")] = "table",
    damaged: Annotated[
        Path | None,
        typer.Option(
            "--repair",
            help="A run folder whose judgements.db is damaged: keep every judgement that can still be read. The "
            "damaged database is kept beside.",
        ),
    ] = None,
) -> None:
    """The runs in a folder, the oldest first: judge, budget, how many judgements were answered and failed."""
    if damaged is not None:
        found = repair(damaged)
        lost = f", {found.lost:,} are lost" if found.lost else ""
        print_text(f"{found.kept:,} judgements are kept{lost}; the damaged database is {found.aside}\n")
        return
    runs = list_runs(root)
    if not runs:
        if root != ROOT and not root.is_dir():
            raise ValueError(f"{root} is not a folder; name the one that holds the run folders")
        say(f"There are no runs in {root}.")
        return
    columns = {name: [getattr(run, name) for run in runs] for name in asdict(runs[0])}
    if output == "csv":
        print_text(csv_text(columns))
    else:
        print_table(columns, zip(*columns.values(), strict=True))


def report_command(
    run: Annotated[
        Path, typer.Argument(help="A run folder, such as comparo-runs/TIME-NAME.", callback=groups.run_folder)
    ],
) -> None:
    """Make the page of a run again, report.html in its folder, and print where it is."""
    from comparo.report import write_report

    print_text(f"{write_report(run)}\n")
