"""comparo plan: how many calls a ranking will take, and the next pairs for those who judge elsewhere."""

import json
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import typer

from comparo.cli.flags import ColumnFlags, Count, SeedFlag, names_in
from comparo.cli.judge import Names
from comparo.cli.printing import print_as, print_table, print_text, say
from comparo.data.comparisons import Comparisons
from comparo.data.formats import csv_text
from comparo.data.items import Items, read_items
from comparo.data.sheets import read_several, write_sheets
from comparo.data.text_features import contrasts
from comparo.data.wordings import LETTERS
from comparo.log.rows import as_objects
from comparo.ranking.tabular import json_rows
from comparo.selection.designs import DEFAULT_GOAL, DEFAULT_ORDERS, Orders, Strategy
from comparo.selection.planning import Answers, CallPlan, plan
from comparo.selection.sharing import TWICE, next_pairs, share_out

SHEETS = Path("sheets")
PlanFormat = Literal["table", "csv", "json", "jsonl"]


@dataclass(frozen=True)
class SimulationFlags:
    """How many calls: a simulated judge.

    Parameters
    ----------
    accuracy : How often the judge prefers the better of two random items; a coin has 0.5.
    target : What is wanted, below 1: the Spearman correlation with the true ranking; with --goal top-K, the expected
        share of the best K that are right, as --until of comparo rank.
    lineup : How many texts a call is about, 2 to 8 (docs/lineups.md).
    answers : soft: the judge gives probabilities. hard: it only says which is better.
    bias : What is added to every logit: above 0 it favours the text shown first. Default: 0
    draws : Simulated runs. Default: 8 to 100, the fewer the more items.
    """

    accuracy: float = 0.75
    target: float = 0.9
    lineup: Annotated[int, typer.Option(min=2, max=len(LETTERS))] = 2
    answers: Answers = "soft"
    bias: float | None = None
    draws: Count = None


@dataclass(frozen=True)
class NextPairs:
    """Which pairs: the next ones, for those who judge elsewhere.

    Parameters
    ----------
    calls : How many calls to choose (in every context); the pairs are printed, and nothing is simulated.
    asked : Comparisons answered so far, in any form that `comparo fit` reads, a run folder too. May be repeated. Rows
        of a sheet that have no winner yet count as asked.
    judges : Share the pairs out to these people, such as ana,bo; may be repeated. Nobody gets a pair twice.
    sheet : Write a sheet for each judge of --for, as .csv and .xlsx, with both texts and an empty column winner.
        `comparo fit` reads them when they are filled in. A sheet with answers is not overwritten.
    out : The folder of the sheets.
    twice : For --for: the share of the pairs that two judges get, to see if they agree.
    """

    calls: Annotated[int | None, typer.Option("--next", min=1)] = None
    asked: list[Path] | None = None
    judges: Annotated[list[str] | None, typer.Option("--for")] = None
    sheet: bool = False
    out: Path = SHEETS
    twice: Annotated[float, typer.Option(min=0, max=1)] = TWICE


def plan_command(
    items: str,
    simulated: SimulationFlags,
    pairs: NextPairs,
    columns: ColumnFlags,
    goal: str = DEFAULT_GOAL,
    strategy: Strategy | None = None,
    orders: Orders | None = None,
    seed: SeedFlag = 0,
    output: Annotated[PlanFormat | None, typer.Option("--format")] = None,
) -> None:
    """How many calls a ranking will take, by simulation; or, by --next, which pairs to ask. No judge is asked.

    Prints what more and more calls per item reach: the mean Spearman correlation with the true ranking (with --goal
    top-K, the expected share of the best K that are right), and between which values eight of ten runs are.

    With --next, prints rows first, second (and context): show the first item first, ask which is better, and add the
    answer as p to a file given by --asked. With --for, the rows also name a judge; with --sheet, each judge gets a
    sheet instead.

    Parameters
    ----------
    items : How many items are to be ranked. With --next, the items: CSV, TSV, JSONL, JSON, Parquet or .xlsx with a
        column id (or the first column), a .txt file with one item per line, a folder of .txt or .md files, or a run
        folder. With a column context, pairs are chosen in every context; with a column text, those come first whose
        texts differ most.
    goal : ranking, or top-K (such as top-5) to find only which items are the best K.
    strategy : greedy: where the fewest comparisons connect, independent of the answers. adaptive: where the scores are
        least certain after the answers so far. random: any pairs that connect all items. Default: greedy, and adaptive
        for a goal top-K
    orders : both: two calls per pair. one: each pair once, every item first and second equally often. Default: both,
        and one with --for
    seed : The same seed and answers give the same result.
    output : table, csv or json for the number of calls, csv or jsonl for pairs. Default: table, and csv for pairs

    Examples
    --------
    `comparo plan 200 --accuracy 0.75 --target 0.9`; `comparo plan 200 --goal top-10 --lineup 8`;
    `comparo plan items.csv --asked comparisons.csv --next 50 > pairs.csv`;
    `comparo plan essays --next 60 --for ana,bo --sheet`
    """
    if pairs.calls is not None:
        if output not in (None, "csv", "jsonl"):
            raise ValueError(f"--next prints pairs as csv or jsonl, not {output}; leave --format out")
        if simulated.lineup != 2:
            raise ValueError("--next chooses pairs; leave --lineup out")
        _choose(Path(items), pairs, columns, goal, strategy, orders, seed, output == "jsonl")
        return
    if given := [each.name for each in fields(NextPairs) if getattr(pairs, each.name) != each.default]:
        flag = {"judges": "for"}.get(given[0], given[0])
        raise ValueError(f"--{flag} is about the next pairs; add --next N, or leave --{flag} out")
    if not items.isdecimal():
        raise ValueError(f"{items} is not a number of items, such as 200; to choose pairs of these items, add --next N")
    if output == "jsonl":
        raise ValueError("--format jsonl is for pairs, by --next; choose table, csv or json")
    how = orders or DEFAULT_ORDERS
    found = plan(int(items), goal=goal, strategy=strategy, orders=how, seed=seed, **vars(simulated))
    _print(found, output or "table", simulated, how)


def _print(found: CallPlan, output: PlanFormat, simulated: SimulationFlags, orders: Orders) -> None:
    columns = found.to_columns()
    head = {"items": found.items, "accuracy": simulated.accuracy, "target": found.target, "calls": found.calls}
    if not print_as(output, columns, head | {"plan": json_rows(columns)}):
        rows = zip(*(column.tolist() for column in columns.values()), strict=True)
        print_table(columns, [(int(each) if each.is_integer() else each, *rest) for each, *rest in rows])
        print(f"\n{_summary(found, simulated.lineup, orders)}")


def _summary(found: CallPlan, lineup: int, orders: Orders) -> str:
    every = found.items * (found.items - 1)
    if found.calls is None:
        more = "ask with --orders both, " if orders == "one" and lineup == 2 else ""
        return (
            f"{found.per_item[-1]:.3g} calls per item reach {found.reached[-1]:.3f}, not {found.target:g}: "
            f"lower --target, {more}or find a judge of higher accuracy"
        )
    if lineup > 2:
        return f"about {found.calls:,} calls about {lineup} items each ({found.calls / found.items:.3g} per item)"
    share = f"{found.calls / found.items:.3g} per item; {found.calls / every:.1%} of all {every:,}"
    # The log-probabilities of four labels are three observations (docs/lineups.md).
    four = f"; about {-(-found.calls // 3):,} with --lineup 4, if the judge is as exact about four texts"
    has_four = found.items >= 4 and found.goal == DEFAULT_GOAL
    return f"about {found.calls:,} calls ({share}){four if has_four else ''}"


def _choose(
    items: Path,
    pairs: NextPairs,
    columns: ColumnFlags,
    goal: str,
    strategy: Strategy | None,
    orders: Orders | None,
    seed: int,
    is_jsonl: bool,
) -> None:
    """Print the next pairs of the items, or write them to sheets."""
    assert pairs.calls is not None
    names = names_in(pairs.judges)
    if pairs.sheet and not names:
        raise ValueError("--sheet needs the names of those who judge; add --for ana,bo")
    if names and orders == "both":
        raise ValueError("with --for, a judge sees a pair in one order only; leave --orders out")
    found = read_items(items, **columns.without_scores)
    known = None if not pairs.asked else _as_in(found, read_several(pairs.asked, is_kept=True))
    rng = np.random.default_rng(seed)
    chosen = next_pairs(
        found.names,
        pairs.calls,
        known,
        strategy=strategy,
        orders=orders or ("one" if names else DEFAULT_ORDERS),
        goal=goal,
        contrast=contrasts(found) if found.texts else None,
        seed=rng,
    )
    if names:
        shared = share_out(chosen, names, twice=pairs.twice, asked=known, seed=rng)
        if pairs.sheet:
            _write(pairs.out, shared, found)
            return
        chosen = {name: [each for part in shared.values() for each in part[name]] for name in chosen}
        chosen["voter"] = [name for name, part in shared.items() for _ in part["first"]]
    if is_jsonl:
        for values in zip(*chosen.values(), strict=True):
            row = dict(zip(chosen, values, strict=True))
            print_text(json.dumps(row, ensure_ascii=False) + "\n")
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
    """The comparisons with the items' labels: a spreadsheet has text where the items may have numbers."""
    names = Names(items)
    known = replace(asked, items=as_objects(map(names.item, asked.items.tolist())))
    if asked.contexts is None or not names.has_contexts:
        return replace(known, contexts=None, context=None)
    return replace(known, contexts=as_objects(map(names.context, asked.contexts.tolist())))
