"""What a file that nobody named may not decide alone: where keys and texts go.

comparo.toml in the working folder is read without being asked for, and folders come from elsewhere: a repository, an
archive, a colleague. What it says of servers, of judges that are asked over the network, of options of a judge, of Ray,
and of folders elsewhere to write to is used only if it is agreed to on a terminal. A file named by --config or
COMPARO_CONFIG, flags and variables are the user's own words.
"""

import sys
from pathlib import Path, PurePath
from typing import Any

import typer
from typer.core import TyperCommand

from comparo.cli.settings import name_of, options_of
from comparo.data.words import visible, without_login

UNNAMED = "comparo.unnamed"  # where a context keeps the path of a file that was read without being named
HERE = ("local", "hf", "vllm", "simulated", "replay")  # providers whose judges read the texts on this machine


class Command(TyperCommand):
    """A command that runs only with settings that were given or agreed to."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command, after asking about settings that nobody gave."""
        _agree(ctx)
        return super().invoke(ctx)


def decides(flag: str, value: Any) -> bool:
    """Whether a setting decides where keys and texts go.

    >>> decides("base-url", "http://localhost"), decides("judge", "openai/gpt-4o"), decides("judge", "local/smollm2")
    (True, True, False)
    >>> decides("out", "run"), decides("out", "/srv/public"), decides("budget", "20n")
    (False, True, False)
    """
    if flag == "judge":
        return str(value).partition("/")[0] not in HERE
    if flag == "out":
        return PurePath(value).is_absolute() or ".." in PurePath(value).parts
    return flag in ("base-url", "option", "engine", "ray-address")


def _agree(context: typer.Context) -> None:
    path: Path | None = context.find_root().meta.get(UNNAMED)
    if path is None:
        return
    chosen, asks = {}, context.params.get("baseline", True) is not None  # comparo study asks a judge for that only
    for option in options_of(context.command):
        source, value = context.get_parameter_source(str(option.name)), context.params.get(str(option.name))
        used = asks or name_of(option) == "out"
        if used and source is not None and source.name == "DEFAULT_MAP" and decides(name_of(option), value):
            chosen[name_of(option)] = value
    if not chosen:
        return
    said = visible(", ".join(f"{flag} = {without_login(_written(value))}" for flag, value in chosen.items()))
    if sys.stdin.isatty() and sys.stderr.isatty():
        question = f"{path} in this folder decides where keys and texts go:\n  {said}\nUse that?"
        if typer.confirm(question, default=False, err=True):
            return
        raise ValueError(f"{path} was not agreed to; give --{next(iter(chosen))} yourself, or change the file")
    raise ValueError(
        f"{path} in this folder decides where keys and texts go ({said}), and nobody named it. If that is meant, name "
        f"it: comparo --config {path} {context.info_name} …; or give --{next(iter(chosen))} yourself"
    )


def _written(value: Any) -> str:
    return ", ".join(map(_written, value)) if isinstance(value, list | tuple) else repr(str(value))
