"""The charts of the page, as coordinates and a sentence about each."""

from typing import Any

import numpy as np

from comparo.report.embed import label
from comparo.report.measures import Agreement, Outlook, convergence
from comparo.report.record import Record
from comparo.report.views import PEOPLE, Chart, line_chart, scatter_chart
from comparo.report.words import words_of

DRAWN = 2000  # points of a scatter


def convergence_chart(record: Record, ahead: list[Outlook]) -> dict[str, Any]:
    """How the ranking settled: its correlation with the last one, with people, and what is expected."""
    moments, made = convergence(record), len(record.answered)
    series = [
        ("final", "same order as in the end", [(moment.calls, moment.final) for moment in moments]),
        ("expected", "expected agreement", [(moment.calls, moment.expected) for moment in moments]),
        ("outlook", "expected agreement, with more of them", [(made + step.more, step.expected) for step in ahead[:3]]),
    ]
    for number, name in enumerate(list(record.items.scores)[:4]):
        line = [(moment.calls, moment.people[name]) for moment in moments]
        series.append((f"people-{number}", f"with people: {label(name)}", line))
    judge, calls = words_of(record).judge, words_of(record).calls
    about = (
        f"The ranking was made again after the first {calls}, and after more and more of them. A value of 1 is the "
        f"same order, 0 is chance. Where the dashed line is close to 1 for long, the last {calls} changed little. The "
        f"blue line is the expected agreement with the order that {judge} would settle on if asked again and again; "
        f"dotted, what more {calls} would bring."
    )
    calls_made = sorted({x for _, _, line in series for x, _ in line})
    known = [dict(line) for _, _, line in series]
    curves = {
        "names": [name for _, name, _ in series],
        "rows": [(f"{x:,}", [line.get(x) for line in known]) for x in calls_made],
    }
    return {"convergence": line_chart(series), "convergence_about": about, "curves": curves}


def length_chart(record: Record) -> Chart | None:
    """The scores of some texts over their lengths; None where all texts are as long, or not known."""
    if not record.has_texts:
        return None
    drawn = np.random.default_rng(0).permutation(len(record.characters))[:DRAWN]
    lengths = record.characters[drawn]
    return scatter_chart(lengths, record.ranking.scores[drawn]) if np.ptp(lengths) > 0 else None


def people_chart(found: Agreement) -> Chart:
    """People's scores over those of the ranking."""
    drawn = np.random.default_rng(0).permutation(len(found.x))[:DRAWN]
    return scatter_chart(found.x[drawn], found.y[drawn])


def people_about(people: list[Agreement], scores: int) -> str:
    """What the charts of people's scores show, and where their intervals come from."""
    if not people:
        return ""
    first = f" Shown are the first {PEOPLE} of {scores} scores." if scores > PEOPLE else ""
    about = "The 95% intervals come from a bootstrap over texts."
    if max(found.contexts for found in people) > 1:
        about = (
            "From both, the mean of their context is subtracted. Correlations are means over contexts; their 95% "
            "intervals come from a bootstrap over contexts."
        )
    return (
        "Each point is a text; across its score, upwards people's score. Where points rise to the right, the ranking "
        f"agrees with people. A correlation of 1 is the same order, 0 is chance. {about}{first}"
    )
