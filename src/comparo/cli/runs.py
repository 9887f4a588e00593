"""comparo runs and comparo report: what was run, and its page made again."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import fields
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.live import Live

from comparo.cli import flags as groups
from comparo.cli.printing import MINUTE, Console, print_table, print_text, rich_table, say
from comparo.data.writing import csv_text
from comparo.run.folders import ROOT, Summary, list_runs
from comparo.run.repair import repair

EPILOG = "Example: `comparo runs --format csv`"
REFRESH = 2.0  # seconds between two looks at the folders, on a terminal
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
    is_watched: Annotated[
        bool,
        typer.Option(
            "--watch",
            help="Show the list again and again, until interrupted, also while runs are going on; elsewhere than on a "
            "terminal once a minute.",
        ),
    ] = False,
) -> None:
    """The runs in a folder, the oldest first: judge, budget, how many judgements were answered and failed."""
    if damaged is not None:
        found = repair(damaged)
        lost = f", {found.lost:,} are lost" if found.lost else ""
        more = "; more may be lost: the file is cut short, or its length is unknown" if found.may_lack_more else ""
        items = "" if found.has_items else "; some items are lost, which the command of the run restores"
        print_text(f"{found.kept:,} judgements are kept{lost}{more}{items}; the damaged database is {found.aside}\n")
        return
    if root != ROOT and not root.is_dir():
        raise ValueError(f"{root} is not a folder; name the one that holds the run folders")
    if is_watched:
        if output == "csv":
            raise ValueError("--watch shows a table; leave --format csv out")
        watch_runs(root, Console())
        return
    runs = list_runs(root)
    if not runs:
        say(f"There are no runs in {root}.")
    elif output == "csv":
        print_text(csv_text(_columns(runs)))
    else:
        _print_runs(runs)


def watch_runs(root: Path, console: Console, wait: Callable[[float], None] = time.sleep) -> None:
    """Show the runs in a folder until interrupted, and `wait` some seconds between; runs may go on meanwhile."""
    with suppress(KeyboardInterrupt):
        if not console.is_terminal:
            while True:
                print_text(f"{datetime.now():%Y-%m-%d %H:%M:%S}\n")
                _print_runs(list_runs(root))
                wait(MINUTE)
        with Live(console=console, auto_refresh=False) as live:
            while True:
                columns = _columns(list_runs(root))
                live.update(rich_table(columns, zip(*columns.values(), strict=True)), refresh=True)
                wait(REFRESH)


def _print_runs(runs: Sequence[Summary]) -> None:
    columns = _columns(runs)
    print_table(columns, zip(*columns.values(), strict=True))


def _columns(runs: Sequence[Summary]) -> dict[str, list[Any]]:
    return {field.name: [getattr(run, field.name) for run in runs] for field in fields(Summary)}


def report_command(
    run: Annotated[
        Path, typer.Argument(help="A run folder, such as comparo-runs/TIME-NAME.", callback=groups.run_folder)
    ],
) -> None:
    """Make the page of a run again, report.html in its folder, and print where it is."""
    from comparo.report import write_report

    print_text(f"{write_report(run)}\n")
