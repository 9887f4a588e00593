"""The page of `comparo why`: bars of what each reason explains, two groups, people and judge, and feedback per text."""

from __future__ import annotations

from pathlib import Path

from comparo.model.estimators.coefficients import DISCOVERY
from comparo.ranking.tabular import rows_of
from comparo.report.charts import reason_rows
from comparo.report.embed import SENTENCE, excerpt, label, presentable, signed
from comparo.report.making import prompt_of, question
from comparo.report.page import filled, save_page
from comparo.report.record import Record
from comparo.run.why import Explanation

PAGE = "why.html"
TEXT = 600  # characters of each text of a pair
TEXTS = 500  # texts with feedback on the page; why.csv has all
ROWS = 8  # reasons in the comparison of two groups, and those that are always in the table of all


def write_why(folder: Path, found: Explanation, record: Record) -> Path:
    """Write why.html to a run folder, and return its path."""
    why, advice = found.why, found.advice
    feedback = rows_of(why.feedback(), TEXTS)
    found_last = max((k for k, one in enumerate(why.reasons) if one.verdict != "not shown"), default=0)
    page = filled(
        "why.html.j2",
        title="Why did it win?",
        summary=label(why.summary, SENTENCE),
        question=label(question(prompt_of(presentable(record.configuration))), SENTENCE),
        facts=_facts(found),
        rows=reason_rows(why.reasons),
        first=max(ROWS, found_last + 1),
        unexplained=(why.unexplained, why.unexplained_low, why.unexplained_high),
        between=[label(name) for name in found.between],
        parts=_parts(found),
        place=found.place,
        people=_people(found),
        stated=[(label(words), count) for words, count in (found.stated or {}).items()],
        advice=advice,
        own=None if advice is None or not advice["raise"] else excerpt(advice["text"], TEXT),
        pairs=[(label(one["winner"]), one["p"], excerpt(one["text"], TEXT)) for one in (advice or {}).get("pairs", ())],
        feedback=[{name: label(value, SENTENCE) for name, value in row.items()} for row in feedback],
        left=max(0, len(why.ranking) - TEXTS),
    )
    return save_page(folder / PAGE, page)


def _facts(found: Explanation) -> list[tuple[str, str]]:
    who = found.judge or "nobody: all reasons are computed from the texts"
    facts = [("Texts", f"{len(found.why.ranking):,}"), ("Reasons", f"{len(found.why.reasons)}"), ("Asked", label(who))]
    return facts + ([("Calls", f"{found.calls:,}")] if found.calls else [])


def _parts(found: Explanation) -> list[tuple[str, str, str]]:
    """The reasons that count most between two groups, and the rest: words, part and interval."""
    if not found.between:
        return []
    one, other = found.between
    rows = rows_of(found.why.between(one, other, most=ROWS))
    return [
        (
            row["words"],
            "" if row["part"] != row["part"] else signed(row["part"]),
            "" if row["low"] != row["low"] else f"{signed(row['low'])} to {signed(row['high'])}",
        )
        for row in rows
    ]


def _people(found: Explanation) -> list[tuple[str, list[str], bool]]:
    """Each reason with its effect on the judge and on people, and whether they differ."""
    if found.people is None:
        return []
    told = []
    for row in rows_of(found.why.beside(found.people)):
        sides = [
            f"{signed(row[who])} ({signed(row[f'{who}_low'])} to {signed(row[f'{who}_high'])})"
            for who in ("judge", "people")
        ]
        told.append((row["words"], sides, row["adjusted"] <= DISCOVERY))
    return told
