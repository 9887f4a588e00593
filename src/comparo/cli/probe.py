"""comparo probe: what a model can do as a judge, found by a handful of small questions."""

from datetime import date
from typing import Annotated

import typer

from comparo.cli.judge_flags import NAMES, Options, parse_options
from comparo.cli.printing import Console
from comparo.judges import load_judge
from comparo.run.budget import dollars

EPILOG = (
    "Example: `comparo probe openai/gpt-6-luna`, or `comparo probe openai/qwen --base-url http://localhost:8000/v1`"
)


def probe_command(
    judge: Annotated[str, typer.Argument(help=NAMES)],
    option: Options = None,
    base_url: Annotated[str | None, typer.Option(help="The server, such as http://localhost:8000/v1.")] = None,
    price: Annotated[
        str | None, typer.Option(help="Dollars for a million tokens in and out, such as 0.15,0.60.")
    ] = None,
) -> None:
    """What a model can do as a judge, by about five small calls: log-probabilities, structured output, effort.

    A run asks one such question by itself; this command is for a look before.
    """
    given = {"base_url": base_url, "price": price}
    known = {name: value for name, value in given.items() if value is not None} | parse_options(option or ())
    made = load_judge(judge, **known)
    survey = getattr(made, "survey", None)
    if survey is None:
        raise ValueError(f"{judge} has nothing to find out: it is not behind a server")
    found, probe = survey()
    console, width = Console(highlight=False, markup=False), max(len(name) for name, _ in found)
    took = f"{probe.calls} calls, {probe.tokens:,} tokens, {dollars(probe.cost)}"
    console.print(f"{made.name}, found on {date.today()} by {took}", soft_wrap=True)
    for name, finding in found:
        console.print(f"{name:<{width}}  {finding}", soft_wrap=True)
