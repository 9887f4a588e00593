"""comparo select: the next pairs to ask, for those who judge elsewhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import typer

from comparo.cli import options
from comparo.cli.printing import print_text
from comparo.data.comparisons import Comparisons
from comparo.data.items import read_items
from comparo.data.writing import csv_text
from comparo.selection.selector import Orders, Strategy, next_pairs

EPILOG = "Example: `comparo select items.csv --asked comparisons.csv --next 50 > pairs.csv`"


def select_command(
    items: Annotated[
        Path,
        typer.Argument(
            help="The items: CSV, TSV, JSONL, JSON, Parquet or .xlsx with a column id (or the first column), a .txt "
            "file with one item a line, or a run folder. With a column context, pairs are chosen in every context.",
            show_default=False,
        ),
    ],
    calls: Annotated[int, typer.Option("--next", min=1, help="How many calls to choose (in every context).")],
    asked: Annotated[
        Path | None,
        typer.Option(
            help="Comparisons answered so far, in any form that `comparo fit` reads, a run folder too.",
            show_default=False,
        ),
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
    id_column: options.IdColumn = None,
    context_column: options.ContextColumn = None,
    context_id: options.ContextIdColumn = None,
    repeats: Annotated[bool, typer.Option("--repeats", help="Allow calls that were asked before.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="The same seed and answers give the same pairs.")] = 0,
    output: Annotated[Literal["csv", "jsonl"], typer.Option("--format", help="How to print the pairs.")] = "csv",
) -> None:
    """The next pairs to ask, for those who judge elsewhere.

    Prints rows first, second (and context): show the first item first, ask which is better, and add the answer as p to
    the file given by --asked.
    """
    columns = next_pairs(
        read_items(items, id=id_column, context=context_column, context_id=context_id),
        calls,
        None if asked is None else Comparisons.read(asked),
        rng=np.random.default_rng(seed),
        strategy=strategy,
        orders=orders,
        goal=goal,
        repeats=repeats,
    )
    if output == "jsonl":
        for row in zip(*columns.values(), strict=True):
            print_text(json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False) + "\n")
    else:
        print_text(csv_text(columns))
