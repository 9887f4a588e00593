"""The tables of `agree` to read: on a terminal, or as Markdown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from comparo.analysis.agree import LISTED, PEOPLE, Agreement
from comparo.analysis.judge_votes import Row

TOP = 5  # rows of each kind of texts on which judge and people disagree


@dataclass(frozen=True)
class Section:
    """A table with a title above and, if there is something to explain, a sentence below."""

    title: str
    header: tuple[str, ...]
    rows: list[list[str]]
    note: str = ""


def sections(found: Agreement, top: int = TOP) -> list[Section]:
    """The tables of an agreement, `top` rows of each kind of texts; those without rows are left out.

    >>> from comparo.analysis.agree import agree
    >>> rows = [{"first": "a", "second": "b", "p": 1, "judge": who} for who in ("ana", "gpt")]
    >>> sections(agree(rows, ["ana"]))[0].rows[0][:3]
    ['gpt', '1', '1']
    """
    tables = [_judges(found), _confidence(found), _length(found), _calibration(found), _ranking(found)]
    return [section for section in (*tables, *_kinds(found, top)) if section.rows]


def markdown(found: Agreement, top: int = TOP) -> str:
    """The tables as Markdown; names are escaped.

    >>> from comparo.analysis.agree import agree
    >>> rows = [{"first": "a", "second": "b", "p": 1, "judge": who} for who in ("ana", "g|pt")]
    >>> print(markdown(agree(rows, ["ana"])).splitlines()[4][:15])
    | g\\|pt | 1 | 1
    """
    parts = []
    for section in sections(found, top):
        lines = [f"## {section.title}", "", _line(section.header), "|" + " --- |" * len(section.header)]
        parts += [*lines, *map(_line, section.rows), "", *([section.note, ""] if section.note else [])]
    return "\n".join(parts)


def _line(cells: Iterable[str]) -> str:
    escaped = (cell.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;") for cell in cells)
    return f"| {' | '.join(' '.join(cell.split()) for cell in escaped)} |"


def _number(value: Any) -> str:
    return "" if value is None or not math.isfinite(value) else f"{value:.3f}"


def _with_ends(row: Row, name: str, low: str = "low", high: str = "high") -> str:
    """A value and its interval; without one, the value alone."""
    value, ends = _number(row[name]), [_number(row[end]) for end in (low, high)]
    return f"{value} ({ends[0]} to {ends[1]})" if value and all(ends) else value


def _judges(found: Agreement) -> Section:
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
    return Section(
        f"Judges against {', '.join(found.people)}",
        header,
        rows,
        f"Accuracy: the share of votes with the judge's verdict, where both decided; intervals of {found.level:.0%}. "
        + (f"The row '{PEOPLE}' is the ceiling." if rows[-1][0] == PEOPLE else ceiling),
    )


def _confidence(found: Agreement) -> Section:
    rows = [
        [row["judge"], f"{row['from']:.1f}–{row['to']:.1f}", str(row["votes"]), _with_ends(row, "accuracy")]
        for row in found.confidence
    ]
    title = "By the judge's probability for its choice, without position bias"
    return Section(title, ("judge", "probability", "votes", "accuracy"), rows)


def _length(found: Agreement) -> Section:
    rows = []
    for row in found.length:
        ratio = f"above {row['from']:g}" if math.isinf(row["to"]) else f"{row['from']:g}–{row['to']:g}"
        longer = [_number(row[f"{who}_longer"]) for who in ("judge", "people")]
        rows.append([row["judge"], ratio, str(row["votes"]), _with_ends(row, "accuracy"), *longer])
    header = ("judge", "longer / shorter", "votes", "accuracy", "judge: longer", "people: longer")
    return Section("By length", header, rows, "The last two: how often the longer text is preferred.")


def _calibration(found: Agreement) -> Section:
    said = [{**row, "answers": ""} for row in found.calibration if row["answers"] == "as said"]
    rows = [
        [row["judge"], row["answers"], f"{row['p']:.2f}", str(row["votes"]), _with_ends(row, "people")]
        for row in found.calibration
        if row["answers"] == "as said" or {**row, "answers": ""} not in said  # decisions have no bias to remove
    ]
    errors = "; ".join(
        f"{row['judge']}: {row['calibration']:.3f} as said, {row['calibration_fair']:.3f} without position bias (by "
        f"chance {row['calibration_chance']:.3f})"
        for row in found.judges
        if row["judge"] != PEOPLE
    )
    header = ("judge", "answers", "mean p", "answers in bin", "people for the first")
    return Section("Calibration", header, rows, f"Expected calibration error. {errors}.")


def _ranking(found: Agreement) -> Section:
    rows = [
        [row["judge"], _with_ends(row, "correlation", "correlation_low", "correlation_high"), _number(row["quality"])]
        for row in found.ranking
        if math.isfinite(row["correlation"])
    ]
    note = (
        "The first correlation is with the ranking that infinitely many votes would give, the second that of these "
        "votes' ranking with it."
    )
    return Section("Rank correlation", ("judge", "with people", "votes with people"), rows, note)


def _kinds(found: Agreement, top: int) -> Iterator[Section]:
    for kind in dict.fromkeys(row["kind"] for row in found.disagreements):
        rows = []
        for judge in dict.fromkeys(row["judge"] for row in found.disagreements):
            worst = [row for row in found.disagreements if (row["judge"], row["kind"]) == (judge, kind)][:top]
            for row in worst:
                counts, sure = [str(row["votes"]), str(row["pairs"])], "yes" if row["is_more"] else ""
                rows.append([judge, row["name"], *counts, _with_ends(row, "disagree"), sure])
        header = ("judge", kind, "votes", "pairs", "against the judge", "surely more than elsewhere")
        note = f"With at least {LISTED} votes; the intervals hold for all rows of this kind at once."
        yield Section(f"Most disagreement, by {kind}", header, rows, note)
