"""The page: one HTML file from the record of a run."""

import base64
import hashlib
import math
import re
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from comparo.errors import StoreError
from comparo.report.advice import Step, advice
from comparo.report.bounds import pairs_in_order
from comparo.report.data import ROOM, Room, Tables, page_data
from comparo.report.embed import LONGEST, label, presentable, snippet
from comparo.report.making import command, injection_notes, prompt_of, question, score_meaning, settings
from comparo.report.measures import agreements, outlook, surprises
from comparo.report.phrases import facts, words_of
from comparo.report.record import Record
from comparo.report.sections import (
    context_rows,
    convergence_chart,
    growth_part,
    leader,
    length_chart,
    line,
    people_about,
    people_chart,
    surprise,
)
from comparo.report.signs import in_hundred
from comparo.report.trust import signs
from comparo.report.voices_section import who_judged
from comparo.run.files import write_text
from comparo.run.voices import model_sentences

HERE = Path(__file__).parent
SCRIPTS = ("save.js", "page.js")
STATIC = 50  # lines of the ranking that are shown without JavaScript
SURPRISES = 5
SENTENCE, SETTING, SETTINGS = 1000, 300, 100  # characters of a question or a note and of a setting; settings


def write_page(path: Path, record: Record, room: Room = ROOM) -> Path:
    """Write the page of a record to a file, and return its path; a StoreError where it cannot be written."""
    return save_page(path, render(record, room))


def save_page(path: Path, page: str) -> Path:
    """Write a page to a file, and return its path; a StoreError where it cannot be written."""
    try:
        path.parent.mkdir(exist_ok=True)
        write_text(path, page)
    except OSError as error:
        raise StoreError(
            f"{path} cannot be written ({error.strerror}); make room, or correct the permissions"
        ) from error
    return path


def render(record: Record, room: Room = ROOM) -> str:
    """The page as text, of at most `room.page` bytes."""
    template, tables = _template(), Tables.of(record)
    script = "".join((HERE / name).read_text(encoding="utf-8") for name in SCRIPTS)
    contents = {
        "style": Markup((HERE / "style.css").read_text(encoding="utf-8")),
        "script": Markup(script),
        "script_hash": base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        "version": version("comparo"),
        **_contents(record, tables),
    }
    listed, left = context_rows(record, tables), room.page - room.around
    for _ in range(2):
        data, held, left_out = page_data(tables, left, room.judgements)
        shown = {"held": held, "contexts": listed[:held], "left_out": left_out, "data": Markup(data)}
        page = template.render(**contents, **shown)
        taken, around = (len(text.encode()) for text in (page, page.replace(data, "")))
        if taken <= room.page:
            break
        left = room.page - around - SENTENCE  # the sentence about what is left out may get longer
    return page


def environment() -> Environment:
    """The templates of the pages; whatever they show is escaped."""
    return Environment(
        loader=FileSystemLoader(HERE), autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined
    )


@cache
def _template() -> Template:
    return environment().get_template("page.html.j2")


def _contents(record: Record, tables: Tables) -> dict[str, Any]:
    """What the template shows in any case, however little of the data fits the page."""
    ranking, ahead = record.ranking, outlook(record)
    people, cards = agreements(record, tables.mean is not None), signs(record, ahead)
    view, columns = tables.shown
    sizes = np.diff(ranking.graph.starts)
    notes = *ranking.notes, *ranking.board_notes, *model_sentences(record.judgements)
    notes += injection_notes(record.configuration, record.items)
    return {
        "words": words_of(record),
        "is_fitted": record.is_fitted,
        "has_texts": record.has_texts,
        "name": _file_name(record),
        "lead": leader(record, tables),
        "sizes": " to ".join(f"{size:,}" for size in dict.fromkeys((int(sizes.min()), int(sizes.max())))),
        "right": "" if math.isnan(ahead[0].expected) else in_hundred(pairs_in_order(ahead[0].expected)),
        "facts": facts(record),
        "steps": [
            Step(label(step.title, SENTENCE), label(step.sentence, SENTENCE), presentable(step.command)[:LONGEST])
            for step in advice(record, ahead)
        ],
        "score_meaning": score_meaning(ranking.method, ranking.estimate),
        "level": f"{ranking.level:.0%}",
        "unsure": f"{1 - ranking.level:.0%}",
        "notes": [label(note, SENTENCE) for note in notes],
        "view": view,
        "mean": tables.mean,
        "every": len(record.contexts),
        "lines": [
            line(view, columns, row, _begun(record, tables, row))
            for row in range(view.begin, min(view.end, view.begin + STATIC))
        ],
        "hidden_lines": max(0, view.end - view.begin - STATIC),
        "people_names": [label(name) for name in list(record.items.scores)[:4]],
        "signs": [sign for sign in cards if sign.main],
        "special": [sign for sign in cards if not sign.main],
        "voices": who_judged(record),
        "audition": _auditioned(record.audition) if record.audition else None,
        "growth": growth_part(ranking),
        **convergence_chart(record, ahead),
        "surprises": [surprise(record, place) for place in surprises(record, SURPRISES)],
        "lengths": length_chart(record),
        "people": [(found, label(found.name), people_chart(found)) for found in people],
        "people_about": people_about(people, len(record.items.scores)),
        **_making(record),
    }


def _auditioned(found: Mapping[str, Any]) -> dict[str, Any]:
    """The advice of an audition, its notes, and the shares of an answer of each voice that are shown."""

    def share(voice: Mapping[str, Any], name: str) -> tuple[str, str]:
        value, low, high = (voice[key] for key in (name, f"{name}_low", f"{name}_high"))
        return "–" if value is None else f"{value:.0%}", "" if low is None else f"{low:.0%} to {high:.0%}"

    return {
        "advice": label(found["advice"], SENTENCE),
        "notes": [label(note, SENTENCE) for note in found["notes"]],
        "voices": [
            (label(voice["judge"]), [share(voice, name) for name in ("content", "length", "position")])
            for voice in found["voices"]
        ],
    }


def _making(record: Record) -> dict[str, Any]:
    """The title, the prompt, the command that repeats the run, and its settings."""
    configuration, ranking = presentable(record.configuration), record.ranking
    votes = 0 if ranking.people is None else ranking.people.votes
    prompt = None if record.is_fitted else prompt_of(configuration)
    again = command(record.configuration)
    about = "" if "command" in record.configuration else "ITEMS stands for the file of the texts."
    if len(again) > LONGEST:
        again, about = "", "The command is too long for a page; run.json in the run folder holds what it takes."
    made = {**configuration, "method": ranking.method}  # people's votes have an estimator of their own
    told = settings(made, record.judgements, ranking.validity, votes)
    told = [pair for pair in told if not (record.is_fitted and pair[1] == "unknown")]
    title = f"Ranking of {record.source}" if prompt is None else question(prompt)
    return {
        "question": label(title, SENTENCE),
        "prompt": prompt,
        "command": presentable(again),
        "command_about": about,
        "settings": [(label(name), label(value, SETTING)) for name, value in told[:SETTINGS]],
    }


def _begun(record: Record, tables: Tables, row: int) -> str:
    """The beginning of the text of a row of the view that is shown first, where names say nothing."""
    if tables.mean is not None or not record.is_coded:
        return ""
    return snippet(record.items.texts[record.row[tables.order[row]]])


def _file_name(record: Record) -> str:
    """How files that the page saves begin: letters and digits of the source, or of the day of the run."""
    source = Path(record.source or "").stem or str(record.configuration.get("started", ""))[:10]
    return "-".join(filter(None, ["comparo", re.sub(r"[^A-Za-z0-9]+", "-", source).strip("-")[:40]]))
