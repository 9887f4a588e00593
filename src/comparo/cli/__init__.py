"""The command line: parse, call, print. One file a command."""

from __future__ import annotations

import logging
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from typer.core import TyperGroup

from comparo.cli import fit, judge, plan, rank, runs, select, study
from comparo.cli.settings import name_variables, read_settings, settings_file
from comparo.comparisons import ComparisonsError
from comparo.disk import StoreError
from comparo.judges import JudgeError
from comparo.run import RunError

app = typer.Typer(
    help="Rank texts from few pairwise comparisons by a language model.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
app.command("rank", epilog=rank.EPILOG)(rank.rank_command)
app.command("fit", epilog=fit.EPILOG)(fit.fit_command)
app.command("select", epilog=select.EPILOG)(select.select_command)
app.command("judge", epilog=judge.EPILOG)(judge.judge_command)
app.command("plan", epilog=plan.EPILOG)(plan.plan_command)
app.command("study", epilog=study.EPILOG)(study.study_command)
app.command("report", epilog=runs.REPORT_EPILOG)(runs.report_command)
app.command("runs", epilog=runs.EPILOG)(runs.runs_command)


def _version(asked: bool) -> None:
    if asked:
        print(f"comparo {version('comparo')}")
        raise typer.Exit


@app.callback()
def _comparo(
    context: typer.Context,
    config: Annotated[
        Path | None,
        typer.Option(
            help='A TOML file with flags, such as judge = "openai/gpt-4o-mini". Default: comparo.toml, if there is '
            "one. Flags can also come from the environment: COMPARO_JUDGE.",
            show_default=False,
        ),
    ] = None,
    _show: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    group, path = context.command, settings_file(config)
    if path is not None and isinstance(group, TyperGroup):
        context.default_map = read_settings(group, path)


def main() -> None:
    """Run the command; a mistake in it is one line on stderr and exit code 2, a judge that cannot go on exit code 1."""
    command = typer.main.get_command(app)
    if isinstance(command, TyperGroup):
        name_variables(command)
    try:
        command(standalone_mode=True)
    except (ComparisonsError, ValueError, ImportError) as error:
        _fail(error, 2)
    except (JudgeError, RunError, StoreError) as error:
        _fail(error, 1)
    except KeyboardInterrupt:
        _fail("interrupted", 130)


def _fail(error: object, code: int) -> None:
    Console(stderr=True).print(f"comparo: {error}", style="red", highlight=False, markup=False, soft_wrap=True)
    sys.exit(code)
