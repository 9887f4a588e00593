"""comparo fit of a run by several criteria: each criterion by itself, and the overall of them as in the run.

A call of such a run has an answer for each criterion, with the criterion's name in place of the judge's. To pool them
as if they were judges of one question would rank by nothing that was asked.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from comparo.cli.criteria import print_correlations
from comparo.cli.printing import Format, print_notes, print_ranking, say
from comparo.data.comparisons import Comparisons
from comparo.data.sources import database_of
from comparo.judges import Judgement
from comparo.ranking.ranking import Ranking
from comparo.run.answers import comparisons
from comparo.run.criteria import by_criterion, concluded, criteria_of, stored_criteria


def criteria_in(files: Sequence[Path]) -> list[str]:
    """The criteria of a run folder of several, [] for other files; a ValueError where it is not the only file."""
    for file in files:
        database = database_of(file)
        names = [] if database is None else criteria_of(database.parent)
        if names and len(files) > 1:
            raise ValueError(f"{file} is of several criteria ({', '.join(names)}); fit it by itself")
        if names:
            return names
    return []


def check_criterion(
    file: Path, names: Sequence[str], criterion: str | None, voices: Sequence[str] | None, single: Sequence[str]
) -> None:
    """A ValueError where flags do not fit to the criteria of a file; those of `single` are about one ranking."""
    if criterion is not None and criterion not in names:
        known = f"its criteria are {', '.join(names)}" if names else "it is not a run folder of several criteria"
        raise ValueError(f"{file} has no criterion {criterion!r}: {known}")
    if names and voices:
        raise ValueError(f"{file} is of several criteria by one judge; choose one by --criterion in place of --voice")
    if names and criterion is None and single:
        raise ValueError(
            f"--{single[0]} is about one ranking, and {file} is of several criteria; choose one by --criterion "
            f"{' or '.join(names)}"
        )


def answers_to(file: Path, criterion: str) -> Comparisons:
    """The answers of a run folder to one of its criteria, as those of a run by it alone."""
    return comparisons(by_criterion(*_stored(file))[criterion].values())


def print_criteria_fit(
    file: Path, fit: Callable[[Comparisons], Ranking], method: str, output: Format, top: int | None
) -> None:
    """Fit each criterion of a run folder by itself, and print the overall with the scores by each, as the run does."""
    judgements, weights = _stored(file)
    found = concluded(fit, judgements, weights)
    print_ranking(found, output, top)
    if output == "table":
        print_correlations(found)
    answers = sum(not one.failed for one in judgements)
    told = ", ".join(f"{name} {share:.0%}" for name, share in found.shares.items())
    say(
        f"fitted by {method}: {answers:,} answers to {len(weights)} criteria, each by itself; overall: their weighted "
        f"mean ({told}); --criterion NAME is for one alone"
    )
    print_notes(found.notes)


def _stored(file: Path) -> tuple[list[Judgement], dict[str, float]]:
    database = database_of(file)
    assert database is not None
    return stored_criteria(database.parent)
