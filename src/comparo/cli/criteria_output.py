"""Several criteria on the command line: their flags, what comparo rank prints, and comparo fit of such a run.

A call has an answer for each criterion, with the criterion's name in place of the judge's. Each criterion is fitted
alone, and the overall is their weighted mean, as in the run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from comparo.cli.flags import QuestionFlags
from comparo.cli.printing import Console, Format, print_notes, print_ranking, print_table, print_text, say
from comparo.cli.progress import calls_of, how_it_went
from comparo.data.comparisons import Comparisons
from comparo.data.criteria_prompt import CriteriaPrompt, read_criteria, split_weights
from comparo.data.prompts import Prompt, Question
from comparo.data.run_folder import database_of
from comparo.judges import Judgement
from comparo.ranking.criteria_ranking import CriteriaRanking
from comparo.ranking.ranking import Ranking
from comparo.run.criteria_run import CriteriaRun, by_criterion, concluded, criteria_of, stored_criteria
from comparo.run.scheduling import stop_sentence
from comparo.run.voices import comparisons


@dataclass(frozen=True)
class CriteriaFlags(QuestionFlags):
    """What the judge is asked.

    Parameters
    ----------
    criterion : What makes a text better, to end "Which Text is …": "more coherent". Several, in one call:
        NAME='funnier', also with its weight: NAME='funnier; weight=2' (docs/criteria.md).
    """

    criterion: list[str] | None = None  # type: ignore[assignment]

    @property
    def resolved(self) -> QuestionFlags:
        """The flags with one criterion as text, or with several by name."""
        given: Any = read_criteria(self.criterion or ())
        given = split_weights(given)[0] if isinstance(given, Mapping) else given
        if isinstance(given, Mapping) and self.wording in (["all"], ["auto"]):
            raise ValueError(
                f"--wording {self.wording[0]} is not for several criteria in one call; name a wording, or rank by one "
                "criterion after another"
            )
        others = {each.name: getattr(self, each.name) for each in fields(QuestionFlags) if each.name != "criterion"}
        return QuestionFlags(given, **others)

    @property
    def weights(self) -> dict[str, float] | None:
        """The weights that are given."""
        given = read_criteria(self.criterion or ())
        return split_weights(given)[1] if isinstance(given, Mapping) else None


def print_criteria(
    found: CriteriaRanking, run: CriteriaRun, console: Console, output: Format, top: int | None, is_finished: bool
) -> None:
    """Print the overall with the scores by each criterion, and write the report to the run folder."""
    from comparo.report import write_report
    from comparo.report.criteria_page import people_of
    from comparo.report.record import run_record

    page = write_report(str(run.store.folder), run_record(run, found))
    print_ranking(found, output, top, {"calls": calls_of(run)})
    if output == "table":
        print_correlations(found)
    if not console.quiet:
        print_notes(found.notes)
    possible = sum(len(ids) * (len(ids) - 1) for ids in run.task.items.names.values())
    done = f"{run.progress.answered:,} of {possible:,} possible calls, each answered for {len(found.rankings)} criteria"
    console.print(how_it_went(run, done))
    weights = ", ".join(f"{name} {share:.0%}" for name, share in found.shares.items())
    console.print(
        f"overall: the weighted mean of the criteria ({weights}), each divided by the spread of its scores",
    )
    for name, ranking in found.rankings.items():
        if run.task.until is not None and is_finished:
            told = stop_sentence(run.task, ranking, run.rounds, run.progress.answered, run.progress.total)
            console.print(f"{name}: {told}")
        for own, each in people_of(run.task.items, ranking, name).items():
            if not np.isnan(each).all():
                value = f"{np.nanmean(each):.3f}"
                console.print(f"{name}: Spearman correlation with {own}: {value}")
    console.print(f"Report: {page}")


def print_correlations(found: CriteriaRanking) -> None:
    """The table of the correlations between criteria."""
    print_text("\n")
    rows = zip(*(column.tolist() for column in found.correlations.values()), strict=True)
    print_table(["correlation", *found.rankings], rows)


def first_criteria(prompt: Prompt, question: Question) -> str:
    """The first question of a judge that reads the texts once and then asks about one criterion after the other."""
    assert isinstance(prompt, CriteriaPrompt)
    first, *others = prompt.parts
    part = prompt.parts[first]
    shared = part.template.rpartition("\n\n")[0]
    asked = [
        f"{name}: {prompt.parts[name].template.removeprefix(shared).strip()}".replace("{{", "{").replace("}}", "}")
        for name in others
    ]
    return "\n".join(
        [part.text(question), *(["\nand after the same texts, each by itself:\n"] if asked else []), *asked]
    )


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
    """Fit each criterion of a run folder alone, and print the overall with the scores by each, as the run does."""
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
