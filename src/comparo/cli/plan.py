"""comparo plan: how many calls a ranking will take."""

import json
from typing import Annotated

import typer

from comparo.cli.printing import Format, print_table, print_text
from comparo.data.writing import csv_text
from comparo.selection.designs import DEFAULT_ORDERS, Orders, Strategy
from comparo.selection.planning import Answers, Plan, plan


def plan_command(
    items: Annotated[int, typer.Argument(min=2)],
    accuracy: float = 0.75,
    target: float = 0.9,
    answers: Answers = "soft",
    bias: float | None = None,
    strategy: Strategy | None = None,
    orders: Orders = DEFAULT_ORDERS,
    repeats: Annotated[int | None, typer.Option(min=1)] = None,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    output: Annotated[Format, typer.Option("--format")] = "table",
) -> None:
    """How many calls a ranking will take, by simulation; no judge is asked.

    Prints what more and more calls per item reach: the mean Spearman correlation with the true ranking, and between
    which values eight of ten runs are.

    Parameters
    ----------
    items : How many items are to be ranked.
    accuracy : How often the judge prefers the better of two random items; a coin has 0.5.
    target : The Spearman correlation with the true ranking that is wanted, below 1.
    answers : soft: the judge gives probabilities. hard: it only says which is better.
    bias : What is added to every logit: above 0 it favours the text shown first. Default: 0
    strategy : How pairs are chosen, as in comparo rank. Default: greedy
    orders : Ask each pair in both orders (two calls), or in one.
    repeats : Simulated runs. Default: 8 to 100, the fewer the more items.
    seed : The same seed gives the same plan.
    output : How to print the plan.

    Examples
    --------
    `comparo plan 200 --accuracy 0.75 --target 0.9`
    """
    found = plan(
        items,
        accuracy,
        target,
        answers=answers,
        bias=bias,
        strategy=strategy,
        orders=orders,
        repeats=repeats,
        seed=seed,
    )
    columns = found.to_columns()
    rows = list(zip(*(column.tolist() for column in columns.values()), strict=True))
    if output == "json":
        table = [
            {name: value if value == value else None for name, value in zip(columns, row, strict=True)} for row in rows
        ]
        print(json.dumps({"items": items, "accuracy": accuracy, "target": target, "calls": found.calls, "plan": table}))
    elif output == "csv":
        print_text(csv_text(columns))
    else:
        print_table(columns, [(int(each) if each.is_integer() else each, *rest) for each, *rest in rows])
        print(f"\n{_summary(found, orders)}")


def _summary(found: Plan, orders: Orders) -> str:
    every = found.items * (found.items - 1)
    if found.calls is None:
        more = "ask with --orders both, " if orders == "one" else ""
        return (
            f"{found.per_item[-1]:.3g} calls per item reach {found.spearman[-1]:.3f}, not {found.target:g}: "
            f"lower --target, {more}or find a judge of higher accuracy"
        )
    share = f"{found.calls / found.items:.3g} per item; {found.calls / every:.1%} of all {every:,}"
    # The log-probabilities of four labels are three observations (docs/lineups.md).
    four = f"; about {-(-found.calls // 3):,} with --lineup 4, if the judge is as exact about four texts"
    return f"about {found.calls:,} calls ({share}){four if found.items >= 4 else ''}"
