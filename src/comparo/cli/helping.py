"""The help of a command on as few lines as it needs: short kinds of values, none for switches, defaults in the text."""

from collections.abc import Callable
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from typer.core import TyperCommand

from comparo.cli.settings import options_of

KINDS = {str: "TEXT", int: "N", float: "X", Path: "PATH"}
WIDEST = 16  # characters of the choices that stand beside a flag; longer lists of them are in the text


def shorten_help(command: TyperCommand, function: Callable[..., Any]) -> None:
    """Say beside each flag of a command what it takes, in a word or a few choices, and its default in the text."""
    hints = get_type_hints(function)
    for option in options_of(command):
        kind = _bare(hints[str(option.name)])
        choices = get_args(kind) if get_origin(kind) is Literal else ()
        said = "|".join(map(str, choices))
        if option.is_flag:
            option.metavar, option.show_default = "", False
        elif choices and len(said) > WIDEST:
            option.metavar = "NAME"
            if any(str(choice) not in str(option.help) for choice in choices):
                option.help = f"{option.help} One of {', '.join(map(str, choices))}."
        else:
            option.metavar = said or KINDS.get(kind, "TEXT")
        if option.show_default and option.default is not None and not callable(option.default):
            option.help, option.show_default = f"{option.help} Default: {option.default}", False


def _bare(kind: Any) -> Any:
    """The kind of one value, without None and lists.

    >>> _bare(list[str] | None), _bare(float | None), _bare(Literal["ray"] | None)
    (<class 'str'>, <class 'float'>, typing.Literal['ray'])
    """
    kinds = [each for each in get_args(kind) if each is not NoneType] if NoneType in get_args(kind) else [kind]
    return get_args(kinds[0])[0] if get_origin(kinds[0]) is list else kinds[0]
