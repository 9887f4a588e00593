"""comparo powered: people's leaderboard with a machine's help, and how many votes the machine saved."""

import json
from pathlib import Path
from typing import Annotated

import typer

from comparo.cli.fit import spelt
from comparo.cli.printing import Format, print_board, print_text, say
from comparo.data.read_many import read_several
from comparo.data.run_folder import database_of
from comparo.data.writing import csv_text
from comparo.ranking.grouping import Groups
from comparo.ranking.leaderboard import Over
from comparo.ranking.powered import Powered, powered
from comparo.run.fit_policy import Fitting
from comparo.run.store import stored_items

EPILOG = (
    "Example: `comparo powered judged.csv --votes votes.csv`; a run and the votes about it: `comparo powered "
    "comparo-runs/20260301-120000-answers --votes comparo-runs/20260302-090000-vote`; one table with a column judge: "
    "`comparo powered battles.csv --people human`"
)


def powered_command(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="The machine's answers, in any form that `comparo fit` reads, also a run folder; several are read as "
            "one. A column judge tells several machines apart."
        ),
    ],
    votes: Annotated[
        list[Path] | None,
        typer.Option(
            help="People's votes on some of the same pairs: a sheet, a file of comparisons, or the folder of comparo "
            "vote; may be repeated."
        ),
    ] = None,
    people: Annotated[
        list[str] | None,
        typer.Option(help="In place of --votes: a judge of the files that is a person. May be repeated."),
    ] = None,
    these: Annotated[
        bool,
        typer.Option(
            "--these",
            help="Intervals for these contexts only. Default: for all contexts that could have been drawn.",
        ),
    ] = False,
    level: Annotated[float, typer.Option(help="Coverage of the intervals, and what separates tiers.")] = 0.95,
    output: Annotated[Format, typer.Option("--format", help="How to print the leaderboard.")] = "table",
) -> None:
    """People's leaderboard with a machine's help: nothing is assumed of the machine.

    Groups are those of the run folder, else the same item in several contexts. Prints, best first: score in logits of
    votes, interval, tier and the probability to be the best; then how many votes the machine saved.
    """
    over: Over = "these" if these else "new"
    found = powered(
        read_several(files),
        read_several(votes) if votes else None,
        _groups(files),
        people=people or (),
        contexts=over,
        level=level,
    )
    if output == "json":
        print_text(json.dumps(_document(found), ensure_ascii=False) + "\n")
    elif output == "csv":
        print_text(csv_text(found.board.to_columns()))
    else:
        print_board(found.board)
    say(found.sentence)


def _groups(files: list[Path]) -> Groups:
    """The groups of the texts of a run folder, else the same item in several contexts."""
    database = database_of(files[0]) if len(files) == 1 else None
    if database is None:
        return "items"
    texts = stored_items(database.parent)
    group = Fitting(texts).group or {}
    return spelt(texts, {(c, item): of for c, own in group.items() for item, of in own.items()}) or "items"


def _document(found: Powered) -> dict[str, object]:
    return {
        "leaderboard": json.loads(found.board.to_json()),
        "people_only": json.loads(found.people_only.to_json()),
        "weight": {str(name): value for name, value in found.weight.items()},
        "votes": found.votes,
        "matched": found.matched,
        "worth": found.worth,
        "left_out": [str(name) for name in found.left_out],
    }
