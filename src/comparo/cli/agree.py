"""comparo agree: a judge against people on the same pairs."""

from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Annotated, Literal

import typer

from comparo.analysis.agree import agree
from comparo.analysis.agree_text import TOP, markdown, sections
from comparo.cli import flags as groups
from comparo.cli.flags import Seed
from comparo.cli.printing import print_table, print_text
from comparo.data.columns import shown
from comparo.data.comparisons import Comparisons
from comparo.data.formats import read_columns
from comparo.data.items import Items
from comparo.data.run_folder import database_of
from comparo.data.sheets import join, read_parts
from comparo.errors import ComparisonsError


def agree_command(
    files: list[Path],
    people: list[str] | None = None,
    items: Path | None = None,
    group: groups.GroupColumn = None,
    level: float = 0.95,
    top: Annotated[int, typer.Option(min=1)] = TOP,
    seed: Seed = 0,
    output: Annotated[Literal["table", "json", "markdown"], typer.Option("--format")] = "table",
) -> None:
    """A judge against people on the same pairs.

    Prints how often they agree where both decided, κ and α, how often people agree with each other (the ceiling), the
    accuracy by confidence and by length, calibration, the correlation of the rankings, and the texts on which they
    disagree most.

    Parameters
    ----------
    files : Comparisons, in any form that `comparo fit` reads, run folders too: one file with a column judge, and
        --people; or the answers of the judge, and then the votes of people. A file without a column judge is that of
        one judge, called like the file.
    people : The judges that are people, such as ana,bo. May be repeated. Default, with several files: all but the
        first's.
    items : The texts, for what depends on length or on groups, with columns id, text and, if you have them, context_id
        and group. Default: those of a run folder.
    level : Coverage of the intervals.
    top : Texts of each kind to print, the most disagreement first.
    seed : Of the bootstrap of κ and α.
    output : How to print it; json has everything.

    Examples
    --------
    `comparo agree machine.csv sheets/*.xlsx`; `comparo agree judged.csv --people ana,bo --items essays.csv`
    """
    comparisons, named = _read_judges(files, groups.names_in(people))
    texts = None
    if (source := items or next((file for file in files if database_of(file) is not None), None)) is not None:
        texts = Items.of(str(source), group=group)
    found = agree(comparisons, named, items=texts, level=level, seed=seed)
    if output == "json":
        print_text(found.to_json() + "\n")
    elif output == "markdown":
        print_text(markdown(found, top))
    else:
        for section in sections(found, top):
            print_text(f"{section.title}\n")
            print_table(section.header, section.rows)
            print_text(f"{section.note}\n\n" if section.note else "\n")


def _read_judges(files: Sequence[Path], people: list[str]) -> tuple[Comparisons, list[str]]:
    """All comparisons, and the names of the people among their judges."""
    parts = read_parts(files, is_named=True)
    judges = [{str(name): None for name in part.get("voter", part.get("judge")).tolist()} for part in parts.values()]
    if people:
        return join(parts), people
    if len(parts) == 1:
        known = ", ".join(map(shown, list(judges[0])[:20]))
        raise ComparisonsError(f"name the people among the judges {known}: --people NAMES")
    if _is_sheet(sheet := next(iter(parts))):
        raise ComparisonsError(
            f"{sheet} is a sheet that a person filled in; name the judge's answers first, or say who are the people: "
            "--people NAMES"
        )
    voters = list(dict.fromkeys(chain(*judges[1:])))
    if both := [name for name in judges[0] if name in voters]:
        raise ComparisonsError(f"{shown(both[0])} is a judge in both files; say who are the people: --people NAMES")
    return join(parts), voters


def _is_sheet(path: str) -> bool:
    """Whether a file has a winner in words and no p, as people write it."""
    columns = {} if database_of(path) is not None else read_columns(path).columns
    return "winner" in columns and "p" not in columns
