"""The commands, each imported when it is used, and their help: the flags that most people need on one screen."""

import ast
import inspect
import logging
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import Field, dataclass, fields, is_dataclass
from functools import cache, wraps
from importlib import import_module
from pathlib import Path
from pkgutil import get_data
from types import NoneType
from typing import Annotated, Any, Literal, Self, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup
from typer.models import ArgumentInfo, OptionInfo

from comparo.cli.settings import UNNAMED, Command, flags_now, name_variables, read_settings, settings_file
from comparo.data.sanitize import visible
from comparo.errors import ComparoError, in_flags

KINDS = {str: "TEXT", int: "N", float: "X", Path: "PATH"}
WIDEST = 16  # characters of choices shown beside a flag; a longer list is in the help text
# The commands in the order of --help, and the modules of those whose module has another name.
COMMANDS = "demo rank audition audit compare vote fit agree judge plan study why import export runs".split()
NOTHING: Mapping[str, Any] = {}
FILES = {"import": "import_export", "export": "import_export"}
# The flags that --help shows of a command with many flags; --help-all shows all of them.
ASKING = "context criterion kind judge base-url dry-run out format"
COMMON = {
    "rank": f"{ASKING} group budget until top",
    "audition": f"{ASKING} wording pairs",
    "audit": f"{ASKING} wording calls fail-if",
    "compare": f"{ASKING} data group budget fail-if-worse",
    "judge": f"{ASKING} items probe budget",
    "vote": "criterion kind context for invite each until host out",
    "fit": "method voice votes leaderboard top format report",
    "plan": "accuracy target answers next asked for sheet context format",
    "why": "judge base-url because propose votes between item dry-run format",
    "study": "judgements attribute method calls draws table format out",
}


@dataclass(frozen=True)
class Described:
    """The parts of a docstring: its text, the description of each parameter, and examples.

    >>> Described.of("Add.\\n\\nParameters\\n----------\\none : A number,\\n    any.\\ntwo : Another.").parameters
    {'one': 'A number, any.', 'two': 'Another.'}
    """

    text: str
    parameters: dict[str, str]
    examples: str

    @classmethod
    def of(cls, doc: str | None) -> Self:
        rest, _, examples = inspect.cleandoc(doc or "").partition("\n\nExamples\n--------\n")
        text, _, parameters = rest.partition("\n\nParameters\n----------\n")
        entries = re.findall(r"^(\w+) : (.*(?:\n    .*)*)", parameters, re.MULTILINE)
        return cls(text, {name: " ".join(said.split()) for name, said in entries}, " ".join(examples.split()))


def with_flags(command: Callable[..., None]) -> Callable[..., None]:
    """A command with a flag for each parameter, and for each field of a parameter that is a group of flags.

    Docstrings say what a flag does; --help shows the flags of a group under the first line of its docstring.

    >>> @dataclass
    ... class Words:
    ...     first: str = "a"
    >>> def show(words: Words, top: int = 3) -> None:
    ...     print(words.first, top)
    >>> list(inspect.signature(with_flags(show)).parameters)
    ['first', 'top']
    >>> with_flags(show)(first="b", top=2)
    b 2
    """
    hints, said = get_type_hints(command, include_extras=True), Described.of(command.__doc__).parameters
    groups: dict[str, type[Any]] = {
        name: hint for name, hint in hints.items() if isinstance(hint, type) and is_dataclass(hint)
    }
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        if name in groups:
            parameters += _flags_of_group(groups[name], said)
        else:
            parameters.append(_flag(name, hints[name], parameter.default, said.get(name)))

    @wraps(command)
    def call(**given: Any) -> None:
        made = {}
        for name, group in groups.items():
            values = {field.name: given.pop(field.name) for field in fields(group)}
            made[name] = group(**{field: value for field, value in values.items() if value not in (None, [], ())})
        command(**given, **made)

    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    del call.__wrapped__
    return call


def _flags_of_group(group: type[Any], by_command: dict[str, str]) -> list[inspect.Parameter]:
    """The flags of a group, its own first; descriptions in `by_command` replace those in the group's docstring."""
    hints = get_type_hints(group, include_extras=True)
    said: dict[str, str] = {}
    known, own = {field.name: field for field in fields(group)}, dict[str, Field[Any]]()
    for part in group.__mro__:
        said = Described.of(part.__doc__).parameters | said
        own |= {name: known[name] for name in inspect.get_annotations(part) if name in known}
    said |= by_command
    panel = Described.of(group.__doc__).text.rstrip(".")
    return [_flag(name, hints[name], one.default, said.get(name), panel, one.metadata) for name, one in own.items()]


def _flag(
    name: str, hint: Any, default: Any, said: str | None, panel: str | None = None, known: Mapping[str, Any] = NOTHING
) -> inspect.Parameter:
    """A parameter annotated for typer, with its type or choices beside it, and its default in the help text.

    One without a default is an argument, and a bool has no --no-….
    """
    is_argument, flag = default is inspect.Parameter.empty, None
    if get_origin(hint) is Annotated:
        hint, flag = get_args(hint)
    usual, (hint, default) = default, _as_flag(hint, default)
    flag = copy(flag) or (typer.Argument() if is_argument else typer.Option(f"--{name.replace('_', '-')}"))
    if isinstance(flag, ArgumentInfo):
        flag.metavar = flag.metavar or name.upper()
    flag.help, flag.rich_help_panel = said, panel
    if isinstance(flag, OptionInfo):
        kind = _bare(hint)
        choices = get_args(kind) if get_origin(kind) is Literal else known.get("choices", ())
        beside = "|".join(map(str, choices))
        usual_name = "NAME" if len(beside) > WIDEST else beside or KINDS.get(kind, "TEXT")
        flag.metavar = "" if kind is bool else flag.metavar or usual_name
        if len(beside) > WIDEST and any(str(choice) not in str(said) for choice in choices):
            flag.help = f"{said} One of {', '.join(map(str, choices))}."
        if not (is_argument or kind is bool or usual in (None, ())):
            flag.help = f"{flag.help} Default: {usual}"
        flag.show_default = False
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[hint, flag])


def _as_flag(hint: Any, default: Any) -> tuple[Any, Any]:
    """The type and default of a flag for an option of several types: a list where there may be several values.

    >>> _as_flag(str | Sequence[str] | None, None), _as_flag(int | Literal["auto"], 2)
    ((list[str] | None, None), (<class 'str'>, '2'))
    """
    kinds = [kind for kind in get_args(hint) if kind is not NoneType]
    if hint is Any or any(get_origin(kind) in (Sequence, Mapping) for kind in (hint, *kinds)):
        return list[str] | None, None
    if get_origin(hint) is Literal or len(kinds) < 2:
        return hint, default
    kind = Path if Path in kinds else str
    return (kind | None, None) if default is None else (kind, str(default))


def _bare(kind: Any) -> Any:
    """The type of one value, without None and list.

    >>> _bare(list[str] | None), _bare(float | None), _bare(Literal["ray"] | None)
    (<class 'str'>, <class 'float'>, typing.Literal['ray'])
    """
    if NoneType in get_args(kind):
        kind = next(each for each in get_args(kind) if each is not NoneType)
    return get_args(kind)[0] if get_origin(kind) is list else kind


@cache
def load_command(name: str) -> TyperCommand:
    """Import a command, and let environment variables set its flags."""
    module = import_module(f"comparo.cli.{FILES.get(name, name)}")
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="markdown")
    function = with_flags(getattr(module, f"{name}_command"))
    said = Described.of(function.__doc__)
    alone.command(name, cls=Command, help=said.text, epilog=f"Example: {said.examples}")(function)
    command = typer.main.get_command(alone)
    assert isinstance(command, Command)
    name_variables(command)
    command.common = COMMON.get(name, "").split()
    return command


def summary(name: str) -> str:
    """The first line of a command's docstring, read without importing its module, which would take a second for all.

    >>> summary("fit")
    'Scores and a ranking from recorded comparisons.'
    """
    source = get_data("comparo.cli", f"{FILES.get(name, name)}.py") or b""
    commands = {each.name: each for each in ast.parse(source).body if isinstance(each, ast.FunctionDef)}
    return str(ast.get_docstring(commands[f"{name}_command"])).partition("\n")[0]


class Commands(TyperGroup):
    """The group of all commands; --help lists their names and summaries without importing them."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = {name: TyperCommand(name) for name in COMMANDS}

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help, with the summary of each command."""
        for name, command in self.commands.items():
            command.help = summary(name)
        super().format_help(ctx, formatter)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        return name, command and load_command(command.name or ""), rest


app = typer.Typer(
    cls=Commands,
    help="Rank texts from few pairwise comparisons by a language model.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        print(f"comparo {version('comparo')}")
        raise typer.Exit


@app.callback()
def _comparo(
    context: typer.Context,
    config: Annotated[
        Path | None,
        typer.Option(
            help='A TOML file with flags, such as judge = "openai/gpt-6-luna". Default: comparo.toml, if there is '
            "one; what it says of costs, judges and files elsewhere must then be agreed to. Flags can also come from "
            "the environment: COMPARO_JUDGE."
        ),
    ] = None,
    _show: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(_Visible())
    logging.basicConfig(handlers=[handler], level=logging.WARNING)
    path, named = settings_file(config)
    if path is not None:
        context.default_map = read_settings({name: load_command(name) for name in COMMANDS}, path)
        context.meta[UNNAMED] = None if named else path


class _Visible(logging.Formatter):
    """Escapes control characters, and names flags in place of parameters."""

    def format(self, record: logging.LogRecord) -> str:
        record = copy(record)
        record.msg, record.args = in_flags(record.getMessage(), flags_now()), ()
        return visible(super().format(record))


def main() -> None:
    """Run the command; an error is one line on stderr.

    Exit code 2: the command is wrong and must be changed (a flag, a file, a folder, a library that is missing).
    Exit code 1: the command may be right, but failed (the judge, the disk, a folder in use).
    """
    try:
        typer.main.get_command(app)(standalone_mode=True)
    except (ValueError, ImportError) as error:
        _fail(error, 2)
    except ComparoError as error:
        _fail(error, 1)
    except OSError as error:  # of a broken pipe typer ends the command quietly, with exit code 1
        _fail(f"cannot read or write {error.filename or 'the output'}: {error.strerror or error}", 1)
    except KeyboardInterrupt as stop:
        _fail(str(stop) or "interrupted", getattr(stop, "code", 130))


def _fail(error: Exception | str, code: int) -> None:
    from comparo.cli.printing import say

    say("comparo: " + str(error), "red")
    sys.exit(code)
