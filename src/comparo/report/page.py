"""The page: everything that the other rooms found out, put into one file."""

from __future__ import annotations

import base64
import hashlib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from comparo.agreement import agreement
from comparo.disk import StoreError, write_text
from comparo.report.charts import Chart, line_chart, scatter_chart
from comparo.report.data import Data, View, page_data
from comparo.report.history import Outlook, convergence, outlook
from comparo.report.making import command, prompt_of, question, settings
from comparo.report.measures import surprises
from comparo.report.people import Agreement, agreements
from comparo.report.record import Record, read_record
from comparo.report.trust import figure, signs
from comparo.report.views import Columns, label

HERE = Path(__file__).parent
STATIC = 50  # lines of the ranking that need no script
SURPRISES = 5
EXCERPT = 3000  # characters of a text beside another
DRAWN = 2000  # points of a scatter


def write_report(folder: Path) -> Path:
    """Write report.html into a run folder, from what is in the folder alone, and return its path.

    A StoreError says why where the folder holds no run, or no answers yet.

    >>> write_report(Path("nowhere"))
    Traceback (most recent call last):
    comparo.store.StoreError: nowhere is not a run folder: it has no run.json
    """
    page, path = render(read_record(folder)), folder / "report.html"
    try:
        write_text(path, page)
    except OSError as error:
        raise StoreError(f"{path} cannot be written ({error.strerror}); make room, or mend its permissions") from error
    return path


def render(record: Record) -> str:
    """The page as text."""
    environment = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined
    )
    script = (HERE / "page.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return environment.get_template("page.html.j2").render(
        style=Markup((HERE / "style.css").read_text(encoding="utf-8")),
        script=Markup(script),
        script_hash=digest,
        version=version("comparo"),
        **_contents(record),
    )


def _contents(record: Record) -> dict[str, Any]:
    """What the template shows."""
    ranking, data, ahead = record.ranking, page_data(record), outlook(record)
    people = agreements(record, data.mean is not None)
    view, columns = data.shown
    sizes = sorted({context.end - context.begin for context in data.contexts})
    prompt = prompt_of(record.configuration)
    return {
        "question": question(prompt),
        "lead": _lead(data),
        "sizes": " to ".join(str(size) for size in dict.fromkeys((sizes[0], sizes[-1]))),
        "expected": figure(ahead[0].expected),
        "made": len(record.answered),
        "possible": record.possible,
        "judge": record.configuration["identity"]["judge"],
        "method": ranking.method,
        "level": f"{ranking.level:.0%}",
        "started": str(record.configuration.get("started", ""))[:10],
        "notes": ranking.notes,
        "view": view,
        "mean": data.mean,
        "lines": [_line(view, columns, row) for row in range(view.begin, min(view.end, view.begin + STATIC))],
        "hidden_lines": max(0, view.end - view.begin - STATIC),
        "cut": _cut(record, data),
        "contexts": _contexts(record, data),
        "people_names": [label(name) for name in list(record.items.scores)[:4]],
        "signs": signs(record, ahead),
        **_convergence(record, ahead),
        "surprises": [_surprise(record, place) for place in surprises(record, SURPRISES)],
        "people": [(found, _scatter(found)) for found in people],
        "people_about": _people_about(people),
        "command": command(record.configuration),
        "command_about": "ITEMS stands for the file of the texts." if "command" not in record.configuration else "",
        "prompt": prompt,
        "settings": settings(record.configuration, record.judgements),
        "data": Markup(data.json),
    }


def _lead(data: Data) -> dict[str, Any] | None:
    """Who is best, and who may be as good; None where there are several rankings and no mean."""
    if data.mean is None and len(data.contexts) > 1:
        return None
    view, columns = data.shown
    names, tiers, groups = columns["item"], columns["tier"], columns["group"]
    same = [row for row in range(1, view.end) if groups[row] == groups[0]]
    among = "" if data.mean is None else f" on average over {len(data.contexts):,} contexts"
    if view.groups > 1:
        among = f" in the first of {view.groups:,} groups"
    return {
        "best": names[0],
        "tied": [names[row] for row in same if tiers[row] == tiers[0]],
        "next": [names[row] for row in same[:2]],
        "size": f"{len(same) + 1:,}",
        "among": among,
    }


def _line(view: View, columns: Columns, row: int) -> dict[str, Any]:
    """A line of the ranking as the template writes it; page.js fills the others in the same way."""
    score, low, high = (columns[name][row] for name in ("score", "low", "high"))
    return {
        "rank": columns["rank"][row],
        "places": f"{columns['best'][row]}–{columns['worst'][row]}" if "best" in columns else "",
        "item": columns["item"][row],
        "group": f"group {columns['group'][row]}" if view.groups > 1 else "",
        "tier": columns["tier"][row],
        "begins": row > view.begin and columns["tier"][row] != columns["tier"][row - 1],
        "zero": view.place(0.0),
        "low": view.place(score if low is None else low),
        "high": view.place(score if high is None else high),
        "at": view.place(score),
        "score": view.number(score),
        "reach": "–" if low is None else view.number(high - score),
        "comparisons": f"{columns['comparisons'][row]:,}",
    }


def _cut(record: Record, data: Data) -> str:
    longer = sum(len(text) > data.kept for text in record.items.texts)
    if not longer:
        return ""
    return (
        f"So that it stays small, the page holds the first {data.kept:,} characters of each text; those that are "
        f"longer ({longer:,}) are whole in the run folder."
    )


def _contexts(record: Record, data: Data) -> list[dict[str, Any]]:
    """What is told of each context; nothing where there is but one."""
    ranking = record.ranking
    if len(data.contexts) == 1:
        return []
    sure, expected = ranking.top(1), record.spearman
    people = list(agreement(ranking, record.items).values())[:4]
    calls = np.bincount(ranking.graph.context[ranking.graph.first], minlength=ranking.graph.contexts)
    found = []
    for view, nodes in zip(data.contexts, record.contexts, strict=True):
        position = int(ranking.graph.context[nodes.start])
        code = int(record.items.context[record.row[nodes.start]])
        found.append(
            {
                "label": view.label,
                "best": data.candidates["item"][view.begin],
                "sure": float(np.max(sure[nodes])),
                "size": view.end - view.begin,
                "calls": f"{calls[position]:,}",
                "expected": float(expected[position]),
                "people": [float(column[code]) for column in people],
            }
        )
    return found


def _convergence(record: Record, ahead: list[Outlook]) -> dict[str, Any]:
    moments, made = convergence(record), len(record.answered)
    series = [
        ("final", "with the last ranking", [(moment.calls, moment.final) for moment in moments]),
        ("expected", "expected", [(moment.calls, moment.expected) for moment in moments]),
        ("outlook", "expected, with more calls", [(made + step.more, step.expected) for step in ahead[:3]]),
    ]
    for number, name in enumerate(list(record.items.scores)[:4]):
        line = [(moment.calls, moment.people[name]) for moment in moments]
        series.append((f"people-{number}", f"with people: {label(name)}", line))
    about = (
        "Spearman correlations of the ranking after so many calls: expected with the true one by the judge, on to what "
        "more calls would bring, and found with the last ranking, which it reaches by definition."
    )
    return {"convergence": line_chart(series), "convergence_about": about}


def _surprise(record: Record, place: int) -> dict[str, Any]:
    judgement, texts = record.answered[place], record.items.texts
    asked = judgement.question
    names = {side: label(name) for side, name in (("first", asked.first), ("second", asked.second))}
    sides = []
    for side, wins in (("first", judgement.p > 0.5), ("second", judgement.p < 0.5)):
        text = texts[record.items.row(asked.context, getattr(asked, side))]
        sides.append((names[side], text[:EXCERPT], max(0, len(text) - EXCERPT), wins))
    context = "" if asked.context is None else label(asked.context)
    reply = label(judgement.reply.strip())
    values = {"p": judgement.p, "expected": float(record.expected[place])}
    return names | values | {"sides": sides, "context": context, "reply": reply}


def _scatter(found: Agreement) -> Chart:
    drawn = np.random.default_rng(0).permutation(len(found.x))[:DRAWN]
    return scatter_chart(found.x[drawn], found.y[drawn])


def _people_about(people: list[Agreement]) -> str:
    if not people:
        return ""
    if max(found.contexts for found in people) == 1:
        return "The judge's score across, people's score upwards. The intervals (95%) come from drawing the texts anew."
    return (
        "The judge's score across, people's score upwards, both less their context's mean. Correlations are within a "
        "context, the mean over contexts; the intervals (95%) come from drawing the contexts anew."
    )
