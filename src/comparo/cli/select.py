"""comparo select: the next pairs to ask, for those who judge elsewhere."""

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from comparo.cli import groups
from comparo.cli.printing import print_text
from comparo.data.comparisons import Comparisons
from comparo.data.items import read_items
from comparo.data.writing import csv_text
from comparo.selection.contexts import next_pairs
from comparo.selection.contrast import contrasts
from comparo.selection.defaults import DEFAULT_GOAL, DEFAULT_ORDERS, Orders, Strategy

EPILOG = "Example: `comparo select items.csv --asked comparisons.csv --next 50 > pairs.csv`"


def select_command(
    items: Annotated[
        Path,
        typer.Argument(
            help="The items: CSV, TSV, JSONL, JSON, Parquet or .xlsx with a column id (or the first column), a .txt "
            "file with one item per line, or a run folder. With a column context, pairs are chosen in every context; "
            "with a column text, those come first whose texts differ most."
        ),
    ],
    calls: Annotated[int, typer.Option("--next", min=1, help="How many calls to choose (in every context).")],
    asked: Annotated[
        Path | None,
        typer.Option(help="Comparisons answered so far, in any form that `comparo fit` reads, a run folder too."),
    ] = None,
    strategy: Annotated[
        Strategy | None,
        typer.Option(
            help="greedy: where the fewest comparisons connect, independent of the answers. adaptive: where the scores "
            "are least certain after the answers so far. random: any pairs that connect all items. Default: greedy, "
            "and adaptive for a goal top-K"
        ),
    ] = None,
    orders: Annotated[
        Orders,
        typer.Option(help="both: two calls per pair. one: each pair once, every item first and second equally often."),
    ] = DEFAULT_ORDERS,
    goal: Annotated[
        str, typer.Option(help="ranking, or top-K (such as top-5) to find only which items are the best K.")
    ] = DEFAULT_GOAL,
    id_column: groups.IdColumn = None,
    text_column: groups.TextColumn = None,
    context_column: groups.ContextColumn = None,
    context_id: groups.ContextIdColumn = None,
    repeats: Annotated[bool, typer.Option("--repeats", help="Allow calls that were asked before.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="The same seed and answers give the same pairs.")] = 0,
    output: Annotated[Literal["csv", "jsonl"], typer.Option("--format", help="How to print the pairs.")] = "csv",
) -> None:
    """The next pairs to ask, for those who judge elsewhere.

    Prints rows first, second (and context): show the first item first, ask which is better, and add the answer as p to
    the file given by --asked.
    """
    found = read_items(items, id=id_column, text=text_column, context=context_column, context_id=context_id)
    columns = next_pairs(
        found.names,
        calls,
        None if asked is None else Comparisons.read(asked),
        strategy=strategy,
        orders=orders,
        goal=goal,
        repeats=repeats,
        contrast=contrasts(found) if found.texts else None,
        rng=seed,
    )
    if output == "jsonl":
        for row in zip(*columns.values(), strict=True):
            print_text(json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False) + "\n")
    else:
        print_text(csv_text(columns))
