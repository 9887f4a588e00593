"""What stands up front: who judged, how much was asked, what it cost, and when."""

import math

from comparo.report.embed import label, presentable
from comparo.report.record import Record
from comparo.report.words import PEOPLE, judges_of, listed, words_of
from comparo.run.budget import dollars

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
