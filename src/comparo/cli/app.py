"""The command line: parse, call, print. One file a command."""

import logging
import sys
from pathlib import Path
from typing import Annotated

import typer

from comparo.cli.commands import COMMANDS, Commands, load_command
from comparo.cli.settings import UNNAMED, read_settings, settings_file
from comparo.data.words import visible
from comparo.errors import ComparisonsError, JudgeError, RunError, StoreError

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
            "one; what it says of where keys and texts go must then be agreed to. Flags can also come from the "
            "environment: COMPARO_JUDGE."
        ),
    ] = None,
    _show: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(_Visible("%(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.WARNING)
    path, named = settings_file(config)
    if path is not None:
        context.default_map = read_settings({name: load_command(name) for name in COMMANDS}, path)
        context.meta[UNNAMED] = None if named else path


class _Visible(logging.Formatter):
    """Messages that a terminal shows and does not obey."""

    def format(self, record: logging.LogRecord) -> str:
        return visible(super().format(record))


def main() -> None:
    """Run the command; what goes wrong is one line on stderr.

    Exit code 2: the command is wrong, so that it must be changed (a flag, a file, a folder, a library that is missing).
    Exit code 1: it may be right and could not be done (the judge, the disk, a folder in use).
    """
    try:
        typer.main.get_command(app)(standalone_mode=True)
    except (ComparisonsError, ValueError, ImportError) as error:
        _fail(error, 2)
    except (JudgeError, RunError, StoreError) as error:
        _fail(error, 1)
    except KeyboardInterrupt:
        _fail("interrupted", 130)


def _fail(error: object, code: int) -> None:
    from comparo.cli.printing import say

    say(f"comparo: {error}", "red")
    sys.exit(code)
