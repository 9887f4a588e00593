"""The words for who judged, which differ between a model, several voices, people, and a file of comparisons."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from comparo.report.embed import label
from comparo.report.record import Record

NAMED = 4  # judges that are named; the number of the others is given


@dataclass(frozen=True, slots=True)
class Words:
    """Who judged (`judge`, in a sentence), one of several of them, and what an answer of theirs is called.

    `calls` are what one pays or waits for: calls of a model, votes of people, rows of a file.
    """

    judge: str
    one: str
    ones: str
    calls: str
    answers: str


MODEL = Words("the judge", "judge", "judges", "calls", "answers")
VOICES = Words("the judges", "voice", "voices", "calls", "answers")
PEOPLE = Words("the people who voted", "person", "people", "votes", "votes")
RECORDED = Words("the judge", "judge", "judges", "comparisons", "answers")
SEVERAL = replace(RECORDED, judge="the judges")


def words_of(record: Record) -> Words:
    """The words for the judges of a run."""
    identity = record.configuration["identity"]
    if identity.get("asked") == "people":
        return PEOPLE
    if record.is_fitted:
        return SEVERAL if len(judges_of(record)) > 1 else RECORDED
    return VOICES if len(identity.get("voices", {})) > 1 else MODEL


def judges_of(record: Record) -> list[str]:
    """The names of the judges: the voices of a run, people, or the column judge of a file."""
    identity = record.configuration["identity"]
    if voices := identity.get("voices"):
        return [str(name) for name in voices]
    judges = record.ranking.comparisons.judges
    if record.is_fitted and judges is not None:
        return [str(name) for name in judges.tolist()]
    return [str(identity["judge"])]


def listed(names: Sequence[Any], most: int = NAMED) -> str:
    """Names in a sentence; of more than `most`, the first and how many others there are.

    >>> listed(["ana"]), listed(["ana", "bo"]), listed(["ana", "bo", "cy"], 1)
    ('ana', 'ana and bo', 'ana and 2 more')
    """
    shown = [label(name) for name in names[:most]]
    if len(names) > most:
        return f"{', '.join(shown)} and {len(names) - most:,} more"
    return " and ".join(filter(None, [", ".join(shown[:-1]), shown[-1]]))
