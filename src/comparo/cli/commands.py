"""The commands, each imported when it is used, so that `comparo --help` imports none of them."""

from functools import cache
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from comparo.cli.helping import shorten_help
from comparo.cli.settings import Command, name_variables

# For each command: its file, and the line in the list of commands, which is the first one of the function's docstring.
COMMANDS = {
    "demo": ("demo", "See it work: a tiny model on this machine ranks 24 sentences, and shows what it cannot do."),
    "rank": ("rank", "Rank texts by a judge, from few comparisons, safe to stop and start again."),
    "audition": (
        "audition",
        "Which judge and which wording, without a single label: all get the same few pairs, in both orders.",
    ),
    "compare": (
        "compare",
        "Is B better than A, on how many inputs, by how much, and how sure is that? Stops once the answer is sure.",
    ),
    "vote": (
        "vote",
        "People vote on a page: two texts side by side, which is better? Every vote is safe before the next pair.",
    ),
    "fit": ("fit", "Scores and a ranking from recorded comparisons."),
    "powered": ("powered", "People's leaderboard with a machine's help: nothing is assumed of the machine."),
    "agree": ("agree", "A judge against people on the same pairs."),
    "select": ("select", "The next pairs to ask, for those who judge elsewhere."),
    "judge": ("judge", "Judgements of pairs of texts, one a line, as they come."),
    "probe": (
        "probe",
        "What a model can do as a judge, by about five small calls: log-probabilities, structured output, effort.",
    ),
    "plan": ("plan", "How many calls a ranking will take, by simulation; no judge is asked."),
    "study": (
        "study",
        "How few comparisons are enough, and by which method? From recorded judgements: only --baseline asks a judge.",
    ),
    "rejudge": (
        "rejudge",
        "The pairs of a run put to another judge: how far the two rankings agree, and their consensus.",
    ),
    "import": (
        "import_",
        "Comparisons, and texts where there are any, from files of promptfoo, AlpacaEval, Chatbot Arena and MT-Bench.",
    ),
    "export": (
        "export",
        "What a run found as a file for other tools: comparisons, preference pairs, a data set for Hugging Face.",
    ),
    "cache": ("cache", "What the judgement cache holds: answers by judge, when they came, and what they cost."),
    "report": ("runs", "Make the page of a run again, report.html in its folder, and print where it is."),
    "runs": (
        "runs",
        "The runs in a folder, the oldest first: judge, budget, how many judgements were answered and failed.",
    ),
}
EXAMPLES = {"report": "REPORT_EPILOG"}


@cache
def load_command(name: str) -> TyperCommand:
    """Import a command and let each of its flags come from a variable."""
    module = import_module(f"comparo.cli.{COMMANDS[name][0]}")
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="markdown")
    epilog = getattr(module, EXAMPLES.get(name, "EPILOG"))
    function = getattr(module, f"{name}_command")
    alone.command(name, cls=Command, epilog=epilog)(function)
    command = typer.main.get_command(alone)
    assert isinstance(command, TyperCommand)
    shorten_help(command, function)
    name_variables(command)
    return command


class Commands(TyperGroup):
    """The group of all commands; the list of commands needs their names and summaries only."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = {name: TyperCommand(name, help=summary) for name, (_, summary) in COMMANDS.items()}

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        return name, command and load_command(command.name or ""), rest
