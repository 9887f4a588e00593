"""What the commands print: results on stdout, everything else on stderr."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from comparo.ranking import Ranking
from comparo.tables import csv_text

Format = Literal["table", "csv", "json"]
Something = TypeVar("Something")


def print_ranking(ranking: Ranking, output: Format, top: int | None) -> None:
    """The ranking on stdout, best first, only the best `top` of each context where given."""
    if output == "json":
        document = json.loads(ranking.to_json())
        document["ranking"] = [row for row in document["ranking"] if top is None or row["rank"] <= top]
        print(json.dumps(document, ensure_ascii=False))
        return
    columns = ranking.to_columns()
    shown = slice(None) if top is None else columns["rank"] <= top
    columns = {name: column[shown] for name, column in columns.items()}
    if output == "csv":
        print(csv_text(columns), end="")
        return
    print_table(columns, zip(*(column.tolist() for column in columns.values()), strict=True))


def print_table(header: Iterable[str], rows: Iterable[Sequence[Any]]) -> None:
    """A table for people on stdout, numbers to the right; as wide as it needs to be where that is no terminal."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    columns = list(zip(header, *rows, strict=True))
    for name, *values in columns:
        number = name != "item" and all(isinstance(value, int | float) for value in values)
        width = max(len(name), *(len(_cell(value)) for value in values)) if number else 4
        table.add_column(name, justify="right" if number else "left", no_wrap=number, min_width=width)
    for row in zip(*(values for _, *values in columns), strict=True):
        table.add_row(*(Text(_cell(value)) for value in row))
    console = Console()
    if not console.is_terminal:
        console.width = console.measure(table, options=console.options.update(max_width=1_000_000)).maximum
    console.print(table)


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.3f}"
    return str(value)


def print_notes(notes: Iterable[str]) -> None:
    """What a reader must know, on stderr."""
    for note in notes:
        Console(stderr=True).print(f"Note: {note}", style="yellow", highlight=False, markup=False)


def watch(things: Iterable[Something], total: int) -> Iterator[Something]:
    """The things as they come, with a bar on stderr where that is a terminal."""
    columns = (TextColumn("judging"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        yield from progress.track(things, total=total)
