"""The page: one HTML file from the record of a run."""

import base64
import hashlib
import math
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from comparo.analysis.agreement import agreement
from comparo.errors import StoreError
from comparo.report.data import ROOM, Room, Tables, View, page_data
from comparo.report.embed import LONGEST, figure, label, presentable
from comparo.report.making import METHODS, command, prompt_of, question, score_meaning, settings
from comparo.report.measures import Agreement, Outlook, agreements, convergence, outlook, surprises
from comparo.report.record import Record
from comparo.report.trust import signs
from comparo.report.views import PEOPLE, Chart, Columns, line_chart, scatter_chart
from comparo.report.voices import who_judged
from comparo.run.database import write_text

HERE = Path(__file__).parent
STATIC = 50  # lines of the ranking that are shown without JavaScript
LISTED = 200  # contexts in the list of them
SURPRISES = 5
EXCERPT = 3000  # characters of a text beside another
SENTENCE, SETTING, SETTINGS = 1000, 300, 100  # characters of a question or a note and of a setting; settings
DRAWN = 2000  # points of a scatter


def write_page(path: Path, record: Record, room: Room = ROOM) -> Path:
    """Write the page of a record to a file, and return its path; a StoreError where it cannot be written."""
    return save_page(path, render(record, room))


def save_page(path: Path, page: str) -> Path:
    """Write a page to a file, and return its path; a StoreError where it cannot be written."""
    try:
        write_text(path, page)
    except OSError as error:
        raise StoreError(
            f"{path} cannot be written ({error.strerror}); make room, or correct its permissions"
        ) from error
    return path


def render(record: Record, room: Room = ROOM) -> str:
    """The page as text, of at most `room.page` bytes."""
    template, tables = _template(), Tables.of(record)
    script = (HERE / "page.js").read_text(encoding="utf-8")
    contents = {
        "style": Markup((HERE / "style.css").read_text(encoding="utf-8")),
        "script": Markup(script),
        "script_hash": base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        "version": version("comparo"),
        **_contents(record, tables),
    }
    listed, left = _contexts(record, tables), room.page - room.around
    for _ in range(2):
        data, held, left_out = page_data(tables, left, room.judgements)
        shown = {"held": held, "contexts": listed[:held], "left_out": left_out, "data": Markup(data)}
        page = template.render(**contents, **shown)
        taken, around = (len(text.encode()) for text in (page, page.replace(data, "")))
        if taken <= room.page:
            break
        left = room.page - around - SENTENCE  # the sentence about what is left out may get longer
    return page


@cache
def _template() -> Template:
    environment = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined
    )
    return environment.get_template("page.html.j2")


def _contents(record: Record, tables: Tables) -> dict[str, Any]:
    """What the template shows in any case, however little of the data fits the page."""
    ranking, ahead = record.ranking, outlook(record)
    votes = 0 if ranking.people is None else ranking.people.votes
    people = agreements(record, tables.mean is not None)
    view, columns = tables.shown
    sizes = np.diff(ranking.graph.starts)
    configuration = presentable(record.configuration)
    prompt = prompt_of(configuration)
    again = command(record.configuration)
    about = "" if "command" in record.configuration else "ITEMS stands for the file of the texts."
    if len(again) > LONGEST:
        again, about = "", "The command is too long for a page; run.json in the run folder holds what it takes."
    return {
        "question": label(question(prompt), SENTENCE),
        "lead": _lead(record, tables),
        "sizes": " to ".join(f"{size:,}" for size in dict.fromkeys((int(sizes.min()), int(sizes.max())))),
        "expected": figure(ahead[0].expected),
        "made": len(record.answered),
        "possible": record.possible,
        "judge": label(configuration["identity"]["judge"], SETTING),
        "method": ranking.method,
        "method_name": METHODS[ranking.method],
        "score_meaning": score_meaning(ranking.method, ranking.estimate),
        "level": f"{ranking.level:.0%}",
        "unsure": f"{1 - ranking.level:.0%}",
        "started": str(configuration.get("started", ""))[:10],
        "notes": [label(note, SENTENCE) for note in ranking.notes],
        "view": view,
        "mean": tables.mean,
        "every": len(record.contexts),
        "lines": [_line(view, columns, row) for row in range(view.begin, min(view.end, view.begin + STATIC))],
        "hidden_lines": max(0, view.end - view.begin - STATIC),
        "people_names": [label(name) for name in list(record.items.scores)[:4]],
        "signs": signs(record, ahead),
        "voices": who_judged(record),
        **_convergence(record, ahead),
        "surprises": [_surprise(record, place) for place in surprises(record, SURPRISES)],
        "lengths": _lengths(record),
        "people": [(found, label(found.name), _scatter(found)) for found in people],
        "people_about": _people_about(people, len(record.items.scores)),
        "command": presentable(again),
        "command_about": about,
        "prompt": prompt,
        "settings": [
            (label(name), label(value, SETTING))
            for name, value in settings(configuration, record.judgements, ranking.validity, votes)[:SETTINGS]
        ],
    }


def _lead(record: Record, tables: Tables) -> dict[str, Any] | None:
    """The best item, and those that may be as good; None where there are several rankings and no mean.

    Where the items of the only context are not all connected, none is named: `groups` is the number of groups.
    """
    several, board = len(record.contexts) > 1, tables.mean is not None
    if several and not board:
        return None
    if not board and not record.joined[0]:
        return {"groups": f"{record.apart[0]:,}", "size": f"{len(record.items):,}"}
    view, columns = tables.shown
    names, tiers = columns["item"], columns["tier"]
    texts = f" on average over {len(record.contexts):,} contexts" if several else " groups of texts"
    return {
        "groups": "",
        "best": names[0],
        "tied": [names[row] for row in range(1, view.end) if tiers[row] == tiers[0]],
        "next": names[1:3],
        "size": f"{view.end if board else record.ranking.graph.nodes:,}",
        "among": texts if board else "",
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


def _contexts(record: Record, tables: Tables) -> list[dict[str, Any]]:
    """The rows of the table of contexts, for the first of them; none where there is only one context.

    The best item of a context is named only where all of its items are connected.
    """
    ranking, graph = record.ranking, record.ranking.graph
    if len(record.contexts) == 1:
        return []
    (_, _, sure), expected = record.places, record.spearman
    people = list(agreement(ranking, record.items).values())[:4]
    calls = np.bincount(graph.context[graph.first], minlength=graph.contexts)
    found = []
    for view, nodes in zip(tables.contexts[:LISTED], record.contexts, strict=False):
        position = int(graph.context[nodes.start])
        code = int(record.items.context[record.row[nodes.start]])
        groups = int(record.apart[graph.position[nodes.start]])
        found.append(
            {
                "label": view.label,
                "best": tables.candidates["item"][view.begin] if groups == 1 else "",
                "groups": groups,
                "sure": float(np.max(sure[nodes])) if groups == 1 else math.nan,
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
        ("expected", "expected agreement", [(moment.calls, moment.expected) for moment in moments]),
        ("outlook", "expected agreement, with more calls", [(made + step.more, step.expected) for step in ahead[:3]]),
    ]
    for number, name in enumerate(list(record.items.scores)[:4]):
        line = [(moment.calls, moment.people[name]) for moment in moments]
        series.append((f"people-{number}", f"with people: {label(name)}", line))
    about = (
        "Spearman correlations of the judge's ranking after the first calls, from 0 (chance) to 1 (same order): with "
        "the last one, where it ends at 1 by definition; and the expected agreement with the one after unlimited "
        "calls, continued to what more calls would bring."
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


def _lengths(record: Record) -> Chart | None:
    """The scores of some texts over their lengths; None where all texts are as long."""
    drawn = np.random.default_rng(0).permutation(len(record.characters))[:DRAWN]
    lengths = record.characters[drawn]
    return scatter_chart(lengths, record.ranking.scores[drawn]) if np.ptp(lengths) > 0 else None


def _scatter(found: Agreement) -> Chart:
    drawn = np.random.default_rng(0).permutation(len(found.x))[:DRAWN]
    return scatter_chart(found.x[drawn], found.y[drawn])


def _people_about(people: list[Agreement], scores: int) -> str:
    if not people:
        return ""
    first = f" Shown are the first {PEOPLE} of {scores} scores." if scores > PEOPLE else ""
    about = "The 95% intervals come from a bootstrap over texts."
    if max(found.contexts for found in people) > 1:
        about = (
            "From both, the mean of their context is subtracted. Correlations are means over contexts; their 95% "
            "intervals come from a bootstrap over contexts."
        )
    return f"Across: the score. Upwards: people's score. {about}{first}"
