"""The words for who judged, which differ between a model, several voices, people, and a file of comparisons.

The names of candidates and contexts in a sentence, with the beginning of the text where a name says nothing.

What stands up front: who judged, how much was asked, what it cost, and when.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from comparo.report.embed import label, presentable, snippet
from comparo.report.record import Record
from comparo.run.budget import dollars

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


SHORT = 30  # characters of a text in a sentence
CODE = 16  # characters of a hash that are shown


def told(record: Record, node: int) -> str:
    """The name of a candidate in a sentence, with the beginning of its text where names say nothing."""
    name = label(record.ranking.items[node])
    begins = snippet(record.items.texts[record.row[node]], SHORT) if record.is_coded else ""
    return f"{name} (“{begins}”)" if begins else name


def context_told(record: Record, context: Any) -> str:
    """The name of a context; where names say nothing, after the beginning of its text."""
    name = label(context)
    if not record.has_coded_contexts:
        return name
    place = record.items.context[record.items.groups[context][0]]
    begins = snippet(record.items.context_texts[place])
    return f"{begins} ({label(context, CODE)})" if begins else name


NAME = 300  # characters of a judge's name


def facts(record: Record) -> list[tuple[str, str]]:
    """Names and values of what a reader wants to know first, in this order."""
    words, made = words_of(record), len(record.answered)
    counted = f"{made:,}" if record.is_fitted else f"{made:,} of {record.possible:,} possible"
    found = [("Judged by", _judges(record)), (words.calls.capitalize(), counted)]
    if not record.is_fitted and words is not PEOPLE:
        found.append(("Cost", _cost(record)))
    if started := str(record.configuration.get("started", ""))[:10]:
        found.append(("Date", started))
    return found


def _judges(record: Record) -> str:
    names = [presentable(name) for name in judges_of(record)]
    if words_of(record) is PEOPLE:
        voted = {str(one.question.voice) for one in record.answered}
        names = [presentable(name) for name in judges_of(record) if str(name) in voted] or names
        return f"{len(names)} {'person' if len(names) == 1 else 'people'}: {listed(names)}"
    votes = record.ranking.people
    people = "" if votes is None else f", and people by {votes.votes:,} votes"
    return label(listed(names) if len(names) > 1 else names[0], NAME) + people


def _cost(record: Record) -> str:
    """What the calls cost; of those whose price is not known, how many they are."""
    known = [one.cost for one in record.judgements if not math.isnan(one.cost)]
    if not known:
        return "not known"
    rest = len(record.judgements) - len(known)
    more = f", without {rest:,} calls of unknown price" if rest else ""
    return f"{dollars(sum(known)) if sum(known) else 'none'}{more}"
