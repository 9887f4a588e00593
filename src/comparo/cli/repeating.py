"""The command that repeats this one, whatever told it what: flags, the environment or a file."""

from __future__ import annotations

import re
import shlex
from typing import Any

import typer

from comparo.cli.consent import without_login

_SECRET = re.compile(r"key|token|secret|password|login", re.IGNORECASE)


def command_line(context: typer.Context) -> str:
    """A shell command with every argument, and every flag that is not at its default; nothing secret is in it.

    What came from a TOML file or from a variable such as COMPARO_JUDGE is a flag of its own, so that the command needs
    neither.
    """
    arguments, flags = [], []
    for parameter in context.command.params:
        value = context.params.get(str(parameter.name))
        values = list(value) if isinstance(value, list | tuple) else [value]
        if value is None or not values or str(value) == str(parameter.default):
            continue
        if parameter.param_type_name == "argument":
            arguments += [str(each) for each in values]
        elif parameter.is_flag:  # type: ignore[attr-defined]
            flags.append(_longest(parameter.opts))
        else:
            for each in values:
                flags += _flag(_longest(parameter.opts), _harmless(str(each)))
    return shlex.join(["comparo", str(context.info_name), *arguments, *flags])


def _flag(name: str, value: str) -> list[str]:
    return [f"{name}={value}"] if value.startswith("-") else [name, value]


def _longest(names: list[Any]) -> str:
    return str(max(names, key=len))


def _harmless(value: str) -> str:
    name, equals, _ = value.partition("=")
    return f"{name}=…" if equals and _SECRET.search(name) and " " not in name else without_login(value)
