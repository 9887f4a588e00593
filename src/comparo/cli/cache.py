"""comparo cache: what the judgement cache holds, and how it is emptied."""

from pathlib import Path
from typing import Annotated

import typer

from comparo.cli.printing import print_table, print_text
from comparo.run.budget import dollars
from comparo.run.cache import CACHE, clear, contents
from comparo.run.folders import ROOT

EPILOG = "Example: `comparo cache --clear --judge openai/gpt-4o-mini`"


def cache_command(
    path: Annotated[Path, typer.Argument(help="The file of the cache.", metavar="[CACHE]")] = ROOT / CACHE,
    is_cleared: Annotated[bool, typer.Option("--clear", help="Remove the answers, those of --judge or all.")] = False,
    judge: Annotated[
        str | None, typer.Option(help="The judge whose answers are removed, as the table names it.")
    ] = None,
) -> None:
    """What the judgement cache holds: answers by judge, when they came, and what they cost."""
    if is_cleared:
        print_text(f"{clear(path, judge):,} answers were removed from {path}\n")
        return
    if judge is not None:
        raise ValueError("--judge says whose answers --clear removes; add --clear, or leave it out")
    kept = contents(path)
    rows = [[one.judge, one.answers, one.first, one.last, dollars(one.cost)] for one in kept]
    print_table(["judge", "answers", "first", "last", "cost"], rows)
    total = sum(one.answers for one in kept)
    print_text(f"{total:,} answers, {path.stat().st_size / 1e6:.1f} MB in {path}\n")
