"""comparo select: the next pairs to ask, for those who judge elsewhere, also as a sheet for each of them."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import typer

from comparo.cli.flags import ColumnFlags, names_in
from comparo.cli.judge import Names
from comparo.cli.printing import print_text, say
from comparo.data.annotator_sheets import write_sheets
from comparo.data.comparisons import Comparisons
from comparo.data.items import Items, read_items
from comparo.data.joining import read_several
from comparo.data.writing import csv_text
from comparo.selection.designs import DEFAULT_GOAL, DEFAULT_ORDERS, Orders, Strategy
from comparo.selection.sharing import TWICE, next_pairs, share_out
from comparo.selection.text_features import contrasts

SHEETS = Path("sheets")


def select_command(
    items: Path,
    calls: Annotated[int, typer.Option("--next", min=1)],
    asked: list[Path] | None = None,
    judges: Annotated[list[str] | None, typer.Option("--for")] = None,
    sheet: bool = False,
    out: Path = SHEETS,
    twice: Annotated[float, typer.Option(min=0, max=1)] = TWICE,
    strategy: Strategy | None = None,
    orders: Orders | None = None,
    goal: str = DEFAULT_GOAL,
    *,
    columns: ColumnFlags,
    repeats: bool = False,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    output: Annotated[Literal["csv", "jsonl"], typer.Option("--format")] = "csv",
) -> None:
    """The next pairs to ask, for those who judge elsewhere.

    Prints rows first, second (and context): show the first item first, ask which is better, and add the answer as p to
    a file given by --asked. With --for, the rows also name a judge; with --sheet, each judge gets a sheet instead.

    Parameters
    ----------
    items : The items: CSV, TSV, JSONL, JSON, Parquet or .xlsx with a column id (or the first column), a .txt file with
        one item per line, a folder of .txt or .md files, or a run folder. With a column context, pairs are chosen in
        every context; with a column text, those come first whose texts differ most.
    calls : How many calls to choose (in every context).
    asked : Comparisons answered so far, in any form that `comparo fit` reads, a run folder too. May be repeated. Rows
        of a sheet that have no winner yet count as asked.
    judges : Share the pairs out to these people, such as ana,bo; may be repeated. Nobody gets a pair twice.
    sheet : Write a sheet for each judge of --for, as .csv and .xlsx, with both texts and an empty column winner.
        `comparo fit` reads them when they are filled in. A sheet with answers is not overwritten.
    out : The folder of the sheets.
    twice : For --for: the share of the pairs that two judges get, to see if they agree.
    strategy : greedy: where the fewest comparisons connect, independent of the answers. adaptive: where the scores are
        least certain after the answers so far. random: any pairs that connect all items. Default: greedy, and adaptive
        for a goal top-K
    orders : both: two calls per pair. one: each pair once, every item first and second equally often. Default: both,
        and one with --for
    goal : ranking, or top-K (such as top-5) to find only which items are the best K.
    repeats : Allow calls that were asked before.
    seed : The same seed and answers give the same pairs.
    output : How to print the pairs.

    Examples
    --------
    `comparo select items.csv --asked comparisons.csv --next 50 > pairs.csv`; `comparo select essays --next 60 --for
    ana,bo --sheet`
    """
    names = names_in(judges)
    if sheet and not names:
        raise ValueError("--sheet needs the names of those who judge; add --for ana,bo")
    if names and orders == "both":
        raise ValueError("with --for, a judge sees a pair in one order only; leave --orders out")
    found = read_items(items, **columns.without_scores)
    known = None if not asked else _as_in(found, read_several(asked, is_kept=True))
    rng = np.random.default_rng(seed)
    chosen = next_pairs(
        found.names,
        calls,
        known,
        strategy=strategy,
        orders=orders or ("one" if names else DEFAULT_ORDERS),
        goal=goal,
        repeats=repeats,
        contrast=contrasts(found) if found.texts else None,
        seed=rng,
    )
    if names:
        shared = share_out(chosen, names, twice=twice, asked=known, seed=rng)
        if sheet:
            _write(out, shared, found)
            return
        chosen = {name: [each for part in shared.values() for each in part[name]] for name in chosen}
        chosen["voter"] = [name for name, part in shared.items() for _ in part["first"]]
    if output == "jsonl":
        for row in zip(*chosen.values(), strict=True):
            print_text(json.dumps(dict(zip(chosen, row, strict=True)), ensure_ascii=False) + "\n")
    else:
        print_text(csv_text(chosen))


def _write(folder: Path, shared: dict[Any, dict[str, list[Any]]], items: Items) -> None:
    """Write the sheets, print where they are, and say what comes next."""
    written = write_sheets(folder, shared, items)
    print_text("".join(f"{path}\n" for path in written))
    rows = ", ".join(f"{name} {len(part['first'])}" for name, part in shared.items())
    if not items.texts:
        say("Note: the items have no texts, so that the sheets have only their names", "yellow")
    say(f"Pairs for each judge: {rows}. Fill in the column winner, then: comparo fit {folder}/*{written[-1].suffix}")


def _as_in(items: Items, asked: Comparisons) -> Comparisons:
    """The comparisons with the labels that the items have: a spreadsheet has text where they may have numbers."""
    columns, names = asked.to_columns(), Names(items)
    contexts = columns.get("context", np.full(len(asked), None)).tolist()
    labels = zip(contexts, columns["first"].tolist(), columns["second"].tolist(), strict=True)
    context, first, second = zip(*(names.key(*key) for key in labels), strict=True)
    more: dict[str, Any] = {"judge": asked.judges[asked.judge]} if asked.judges is not None else {}
    more |= {"context": context} if asked.contexts is not None and names.has_contexts else {}
    known = Comparisons.from_columns(first, second, np.zeros(len(asked)), asked.weight, **more)
    return replace(known, p=asked.p)
