"""The command line: parse, call, print."""

from __future__ import annotations

import csv
import io
import math
import sys
import warnings
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from comparo.comparisons import ComparisonsError
from comparo.methods import Method, fit
from comparo.product import Bias, Prior
from comparo.ranking import Ranking

app = typer.Typer(
    help="Rank texts from few pairwise comparisons by a language model.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)

Format = Literal["table", "csv", "json"]


@app.callback()
def _comparo() -> None:
    pass


@app.command("fit", epilog="Example: `comparo fit comparisons.csv --method poe-bt --bias joint --format csv`")
def fit_command(
    file: Annotated[
        Path,
        typer.Argument(
            help="Comparisons: CSV, JSONL or Parquet, also gzipped. Columns first, second, p (the probability that the "
            "first is better) and, if you have them, weight, context, judge; or model_a, model_b, winner; or left, "
            "right, winner.",
            show_default=False,
        ),
    ],
    method: Annotated[
        Method,
        typer.Option(
            help="How comparisons become scores. poe-bt and poe-g combine the judge's probabilities; bt, poe-g-hard "
            "and win-ratio use only who won; avg-prob is the mean probability.",
        ),
    ] = "poe-bt",
    bias: Annotated[
        Bias,
        typer.Option(
            help="A judge may favour what it sees first. joint: estimate by how much, along with the scores, for each "
            "context and judge. plug-in: from the mean probability.",
        ),
    ] = "none",
    prior: Annotated[
        str | None,
        typer.Option(
            help="Standard deviation of a Gaussian prior on the scores, or 'first' to fix only the first item, as the "
            "paper does. Default: 10 for poe-bt, first for poe-g and poe-g-hard.",
            show_default=False,
        ),
    ] = None,
    level: Annotated[
        float, typer.Option(help="Coverage of the intervals low to high, and what separates tiers.")
    ] = 0.95,
    top: Annotated[
        int | None, typer.Option(min=1, help="Print only the best TOP of each context.", show_default=False)
    ] = None,
    output: Annotated[Format, typer.Option("--format", help="How to print the ranking.")] = "table",
) -> None:
    """Scores and a ranking from recorded comparisons.

    Prints, best first: score, its standard error and interval, rank, tier (items that cannot be told apart share one)
    and how many comparisons the item is in.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the notes are printed below
        ranking = fit(file, method, bias=bias, prior=_prior(prior), level=level)
    _print(ranking, output, top)
    for note in ranking.notes:
        Console(stderr=True).print(f"Note: {note}", style="yellow", highlight=False, markup=False)


def _prior(text: str | None) -> Prior | None:
    if text is None:
        return None
    if text == "first":
        return "first"
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"--prior is a number above 0 or 'first', not {text!r}") from None


def _print(ranking: Ranking, output: Format, top: int | None) -> None:
    if output == "json":
        print(ranking.to_json())
        return
    columns = ranking.to_columns()
    shown = slice(None) if top is None else columns["rank"] <= top
    columns = {name: column[shown] for name, column in columns.items()}
    if output == "csv":
        rows = zip(*(column.tolist() for column in columns.values()), strict=True)
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(["" if value != value else value for value in row] for row in rows)
        print(buffer.getvalue(), end="")
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    cells = {name: [_cell(value) for value in column.tolist()] for name, column in columns.items()}
    for name, column in columns.items():
        number = column.dtype.kind in "if" and name != "item"
        width = max(len(name), *map(len, cells[name])) if number else 4
        table.add_column(name, justify="right" if number else "left", no_wrap=number, min_width=width)
    for row in zip(*cells.values(), strict=True):
        table.add_row(*map(Text, row))
    console = Console()
    if not console.is_terminal:
        console.width = console.measure(table, options=console.options.update(max_width=1_000_000)).maximum
    console.print(table)


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.3f}"
    return str(value)


def main() -> None:
    """Run the command; a mistake in it is one line on stderr and exit code 2."""
    try:
        app()
    except (ComparisonsError, ValueError, ImportError) as error:
        Console(stderr=True).print(f"comparo: {error}", style="red", highlight=False, markup=False, soft_wrap=True)
        sys.exit(2)


if __name__ == "__main__":
    main()
