"""The command line: parse, call, print."""

from __future__ import annotations

import csv
import io
import json
import math
import sys
import warnings
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from comparo.comparisons import Comparisons, ComparisonsError
from comparo.items import read_items
from comparo.methods import Method, PriorPairs, fit
from comparo.product import Bias, Prior
from comparo.ranking import Ranking
from comparo.selection import Orders, Strategy, next_pairs
from comparo.zermelo import Algorithm

app = typer.Typer(
    help="Rank texts from few pairwise comparisons by a language model.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)

Format = Literal["table", "csv", "json"]


def _version(asked: bool) -> None:
    if asked:
        print(f"comparo {version('comparo')}")
        raise typer.Exit


@app.callback()
def _comparo(
    _show: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
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
            "paper does. Default: first for poe-g and poe-g-hard; for poe-bt 100, or 10 if all answers are decisions.",
            show_default=False,
        ),
    ] = None,
    algorithm: Annotated[
        Algorithm, typer.Option(help="For bt: how to solve it; newman needs fewer steps.")
    ] = "zermelo",
    prior_pairs: Annotated[
        PriorPairs, typer.Option(help="For bt: which pairs get the prior of 1/(N − 1) wins for either side.")
    ] = "compared",
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
        ranking = fit(
            file, method, bias=bias, prior=_prior(prior), algorithm=algorithm, prior_pairs=prior_pairs, level=level
        )
    _print(ranking, output, top)
    for note in ranking.notes:
        Console(stderr=True).print(f"Note: {note}", style="yellow", highlight=False, markup=False)


@app.command("select", epilog="Example: `comparo select items.csv --asked comparisons.csv --next 50 > pairs.csv`")
def select_command(
    items: Annotated[
        Path,
        typer.Argument(
            help="The items: CSV, JSONL or Parquet with a column id (or the first column), or a .txt file with one "
            "item a line. With a column context, pairs are chosen in every context.",
            show_default=False,
        ),
    ],
    calls: Annotated[int, typer.Option("--next", min=1, help="How many calls to choose (in every context).")],
    asked: Annotated[
        Path | None,
        typer.Option(help="Comparisons answered so far, in any form that `comparo fit` reads.", show_default=False),
    ] = None,
    strategy: Annotated[
        Strategy,
        typer.Option(
            help="adaptive: where the answers so far leave most open. greedy: where the fewest comparisons connect, "
            "whatever the answers. random: any pairs that connect all items."
        ),
    ] = "adaptive",
    orders: Annotated[
        Orders,
        typer.Option(help="one: each pair once, every item first and second equally often. both: two calls a pair."),
    ] = "one",
    goal: Annotated[
        str, typer.Option(help="ranking, or top-K (such as top-5) to decide only who is among the best K.")
    ] = "ranking",
    repeats: Annotated[bool, typer.Option("--repeats", help="Allow calls that were asked before.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="The same seed and answers give the same pairs.")] = 0,
    output: Annotated[Literal["csv", "jsonl"], typer.Option("--format", help="How to print the pairs.")] = "csv",
) -> None:
    """The next pairs to ask, for those who judge elsewhere.

    Prints rows first, second (and context): show the first item first, ask which is better, and add the answer as p to
    the file given by --asked.
    """
    columns = next_pairs(
        read_items(items),
        calls,
        None if asked is None else Comparisons.read(asked),
        rng=np.random.default_rng(seed),
        strategy=strategy,
        orders=orders,
        goal=goal,
        repeats=repeats,
    )
    rows = zip(*columns.values(), strict=True)
    if output == "jsonl":
        for row in rows:
            print(json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False))
    else:
        _print_csv(columns, rows)


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
        document = json.loads(ranking.to_json())
        document["ranking"] = [row for row in document["ranking"] if top is None or row["rank"] <= top]
        print(json.dumps(document, ensure_ascii=False))
        return
    columns = ranking.to_columns()
    shown = slice(None) if top is None else columns["rank"] <= top
    columns = {name: column[shown] for name, column in columns.items()}
    if output == "csv":
        _print_csv(columns, zip(*(column.tolist() for column in columns.values()), strict=True))
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


def _print_csv(header: Iterable[str], rows: Iterable[Sequence[Any]]) -> None:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(["" if value != value else value for value in row] for row in rows)
    print(buffer.getvalue(), end="")


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
