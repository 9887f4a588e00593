"""comparo agree: a judge against people on the same pairs."""

import math
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from comparo.analysis.agree import PEOPLE, Agreement, agree
from comparo.analysis.judge_votes import AgreementRow
from comparo.cli.flags import WORSE, SeedFlag, names_in
from comparo.cli.printing import print_table, print_text, say, say_if_many
from comparo.data.columns import shown
from comparo.data.comparisons import Comparisons
from comparo.data.formats import read_columns
from comparo.data.grammar import read_share
from comparo.data.run_folder import database_of
from comparo.data.sheets import join, read_parts
from comparo.data.wordings import few
from comparo.errors import ComparisonsError
from comparo.ranking.tabular import with_interval


def agree_command(
    files: list[Path],
    people: list[str] | None = None,
    level: float = 0.95,
    seed: SeedFlag = 0,
    fail_below: float | None = None,
    output: Annotated[Literal["table", "json"], typer.Option("--format")] = "table",
) -> None:
    """A judge against people on the same pairs.

    Prints how often they agree where both decided, κ and α, how often people agree with each other (the ceiling), the
    accuracy by confidence, calibration, and the correlation of the rankings.

    Parameters
    ----------
    files : Comparisons, in any form that `comparo fit` reads, run folders too: one file with a column judge, and
        --people; or the answers of the judge, and then the votes of people. A file without a column judge is that of
        one judge, called like the file.
    people : The judges that are people, such as ana,bo. May be repeated. Default, with several files: all but the
        first's.
    level : Coverage of the intervals.
    seed : Of the bootstrap of κ and α.
    fail_below : Exit with code 3 if a judge's accuracy is surely below this share, such as 0.6.
    output : How to print it; json has everything.

    Examples
    --------
    `comparo agree machine.csv sheets/*.xlsx`; `comparo agree judged.csv --people ana,bo`
    """
    comparisons, named = _read_judges(files, names_in(people))
    if fail_below is not None:
        read_share("fail_below", fail_below)
    say_if_many(comparisons)
    found = agree(comparisons, named, level=level, seed=seed)
    if output == "json":
        print_text(found.to_json() + "\n")
    else:
        _print_judges(found)
        _print_confidence(found)
        _print_calibration(found)
        _print_correlations(found)
    judges = [row for row in found.judges if row["judge"] != PEOPLE]
    if low := [str(row["judge"]) for row in judges if fail_below is not None and row["accuracy_high"] < fail_below]:
        say(f"{few(low)}: accuracy surely below {fail_below:g}, exit code {WORSE}")
        raise typer.Exit(WORSE)


def _read_judges(files: Sequence[Path], people: list[str]) -> tuple[Comparisons, list[str]]:
    """All comparisons, and the names of the people among their judges."""
    parts = read_parts(files, is_named=True)
    if people or len(parts) == 1:
        return join(parts), people
    if _is_sheet(sheet := next(iter(parts))):
        raise ComparisonsError(
            f"{sheet} is a sheet that a person filled in; name the judge's answers first, or say who are the people: "
            "--people NAMES"
        )
    named = [part.get("voter", part.get("judge")).tolist() for part in parts.values()]
    judges, *others = (dict.fromkeys(map(str, names)) for names in named)
    voters = list(dict.fromkeys(chain(*others)))
    if both := [name for name in judges if name in voters]:
        raise ComparisonsError(f"{shown(both[0])} is a judge in both files; say who are the people: --people NAMES")
    return join(parts), voters


def _is_sheet(path: str) -> bool:
    """Whether a file has a winner in words and no p, as people write it."""
    columns = {} if database_of(path) is not None else read_columns(path).columns
    return "winner" in columns and "p" not in columns


def _print_judges(found: Agreement) -> None:
    header = ("judge", "pairs", "votes", "both decided", "accuracy", "without bias", "κ", "α", "ties", "people's ties")
    rows = []
    for row in found.judges:
        if row["judge"] == PEOPLE and not row["pairs"]:
            continue
        measured = [_with_ends(row, name, f"{name}_low", f"{name}_high") for name in ("accuracy", "kappa", "alpha")]
        counts = [str(row[name]) for name in ("pairs", "votes", "decided")]
        others = [_number(row.get(name)) for name in ("accuracy_fair", "ties", "people_ties")]
        rows.append([row["judge"], *counts, measured[0], others[0], *measured[1:], *others[1:]])
    ceiling = "No pair was judged by two people, so that the ceiling is unknown: give some pairs to two people."
    note = (
        f"Accuracy: the share of votes with the judge's verdict, where both decided; intervals of {found.level:.0%}. "
        + (f"The row '{PEOPLE}' is the ceiling." if rows[-1][0] == PEOPLE else ceiling)
    )
    _print(f"Judges against {few(found.people)}", header, rows, note)


def _print_confidence(found: Agreement) -> None:
    rows = [
        [row["judge"], f"{row['from']:.1f}–{row['to']:.1f}", str(row["votes"]), _with_ends(row, "accuracy")]
        for row in found.confidence
    ]
    title = "By the judge's probability for its choice, without position bias"
    _print(title, ("judge", "probability", "votes", "accuracy"), rows)


def _print_calibration(found: Agreement) -> None:
    names = ("calibration", "calibration_fair", "calibration_chance")
    judges = [row for row in found.judges if row["judge"] != PEOPLE]
    rows = [[row["judge"], *(_number(row[name]) for name in names)] for row in judges]
    header = ("judge", "as said", "without position bias", "by chance")
    _print("Calibration error: how far people's share is from the judge's p, in bins of p", header, rows)


def _print_correlations(found: Agreement) -> None:
    rows = [
        [row["judge"], _with_ends(row, "correlation", "correlation_low", "correlation_high"), _number(row["quality"])]
        for row in found.ranking
        if math.isfinite(row["correlation"])
    ]
    note = (
        "The first correlation is with the ranking that infinitely many votes would give, the second that of these "
        "votes' ranking with it."
    )
    _print("Rank correlation", ("judge", "with people", "votes with people"), rows, note)


def _print(title: str, header: Sequence[str], rows: list[list[str]], note: str = "") -> None:
    """Print a table with a title above and a note below; nothing where it has no rows."""
    if rows:
        print_text(f"{title}\n")
        print_table(header, rows)
        print_text(f"{note}\n\n" if note else "\n")


def _number(value: Any) -> str:
    return "" if value is None or not math.isfinite(value) else f"{value:.3f}"


def _with_ends(row: AgreementRow, name: str, low: str = "low", high: str = "high") -> str:
    return with_interval(row[name], row[low], row[high], ".3f")
