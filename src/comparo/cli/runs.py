"""comparo runs: what was run and what is cached; a run's page made again, its database repaired, its judge checked."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import fields
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.live import Live

from comparo.cli.flags import UncachedJudgeFlags, run_folder
from comparo.cli.printing import MINUTE, Console, print_table, print_text, rich_table, say
from comparo.data.formats import csv_text
from comparo.data.sanitize import visible
from comparo.log.cache import CACHE, clear, contents
from comparo.log.folders import ROOT, Summary, list_runs
from comparo.log.repair import repair, repair_cache
from comparo.log.store import stored_items
from comparo.run.budget import dollars
from comparo.run.cached_judge import probe_judges
from comparo.run.check import CALLS, check

DRIFTED = 6  # the exit code of --check where the judge has changed
REFRESH = 2.0  # seconds between two looks at the folders, on a terminal


def runs_command(
    path: Annotated[Path, typer.Argument(metavar="[PATH]")] = ROOT,
    is_watched: Annotated[bool, typer.Option("--watch")] = False,
    is_reported: Annotated[bool, typer.Option("--report")] = False,
    is_repaired: Annotated[bool, typer.Option("--repair")] = False,
    is_checked: Annotated[bool, typer.Option("--check")] = False,
    calls: int = CALLS,
    is_cached: Annotated[bool, typer.Option("--cached")] = False,
    removed: Annotated[str | None, typer.Option("--clear", metavar="JUDGE")] = None,
    output: Annotated[Literal["table", "csv"], typer.Option("--format")] = "table",
    *,
    asked: UncachedJudgeFlags,
) -> None:
    """The runs in a folder, the oldest first: judge, budget, how many judgements were answered and failed.

    Parameters
    ----------
    path : The folder that holds the run folders; for --report, --repair and --check a run folder, for --cached a file.
    is_watched : Show the list again and again, until interrupted, also while runs are going on; elsewhere than on a
        terminal once a minute.
    is_reported : Make the page of a run again, report.html in its folder.
    is_repaired : Of a run whose judgements.db is damaged, keep every judgement that can still be read; with --cached,
        of a damaged cache every answer. The damaged database is kept beside.
    is_checked : Ask some of a run's questions again: is its judge, given by --judge with its options, still the same?
        Exit code 6 where it has changed; at most 5% of checks say so of a judge that has not.
    calls : For --check: how many calls are made at most; a change that is plain is seen after 10.
    is_cached : What the judgement cache holds, by judge: answers, dates, costs. Default: comparo-runs/cache.sqlite
    removed : With --cached: remove the answers of this judge, as the table names it, or of all.
    output : How to print the list.

    Examples
    --------
    `comparo runs --watch`; `comparo runs --report comparo-runs/20260301-120000-stories`; `comparo runs --cached --clear
    openai/gpt-4o-mini`; `comparo runs --check comparo-runs/20260301-120000-stories --judge openai/gpt-6-luna`
    """
    if removed is not None and not is_cached:
        raise ValueError("--clear removes answers from the cache; add --cached, or leave it out")
    if is_cached and is_repaired:
        found = repair_cache(CACHE if path == ROOT else path)
        print_text(f"{found.kept:,} answers are kept. The damaged cache is {found.aside}\n")
    elif is_cached:
        _print_cache(CACHE if path == ROOT else path, removed)
    elif is_reported:
        from comparo.report import write_report

        print_text(f"{write_report(run_folder(path))}\n")
    elif is_repaired:
        _repair(path)
    elif is_checked:
        _check(run_folder(path), asked, calls)
    elif path != ROOT and not path.is_dir():
        raise ValueError(f"{path} is not a folder; name the one that holds the run folders")
    elif is_watched:
        if output == "csv":
            raise ValueError("--watch shows a table; leave --format csv out")
        watch_runs(path, Console())
    elif not (runs := list_runs(path)):
        say(f"There are no runs in {path}.")
    elif output == "csv":
        print_text(csv_text(_columns(runs)))
    else:
        _print_runs(runs)


def _print_cache(path: Path, removed: str | None) -> None:
    if removed is not None:
        count = clear(path, None if removed == "all" else removed)
        print_text(f"{count:,} answers were removed from {path}\n")
        return
    kept = contents(path)
    rows = [[one.judge, one.answers, one.first, one.last, dollars(one.cost)] for one in kept]
    print_table(["judge", "answers", "first", "last", "cost"], rows)
    total = sum(one.answers for one in kept)
    print_text(f"{total:,} answers, {path.stat().st_size / 1e6:.1f} MB in {path}\n")


def _check(run: Path, asked: UncachedJudgeFlags, calls: int) -> None:
    if len(asked.judge or ()) != 1:
        raise ValueError("--check asks one judge of the run; give it by one --judge, with its options")
    (judge,) = asked.load(stored_items(run))
    getattr(judge, "ready", lambda: None)()
    probe_judges([judge], run)
    found = check(run, judge, calls=calls)
    print_text(f"{visible(found.sentence)}\n")
    if found.is_changed:
        raise typer.Exit(DRIFTED)


def _repair(run: Path) -> None:
    found = repair(run)
    lost = f", at least {found.lost:,} are lost" if found.lost else ""
    print_text(
        f"{found.kept:,} judgements are kept{lost}; the command of the run restores what is missing. The damaged "
        f"database is {found.aside}\n"
    )


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
