"""The page: one HTML file from the record of a run, by the template page.html.j2."""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from comparo.analysis.correlations import agreement
from comparo.analysis.misfit import LONGEST_LIST, disagreements, misfit
from comparo.analysis.sequential import chance_notes
from comparo.data.items import Items
from comparo.errors import StoreError
from comparo.log.files import write_text
from comparo.ranking.display import best_sentence, growth_sentences, whose
from comparo.ranking.ranking import Ranking, all_notes
from comparo.ranking.tabular import rows_of
from comparo.report.advice import advice
from comparo.report.cards import cards, pairs_in_order
from comparo.report.data import ROOM, Room, Tables, page_data
from comparo.report.embed import (
    SENTENCE,
    figure,
    in_hundred,
    label,
    presentable,
    probe_reach,
    reason_reach,
    scatter_chart,
    signed,
)
from comparo.report.making import facts, injection_notes, prompt_of, question, settings
from comparo.report.measures import agreements, outlook, who_judged
from comparo.report.record import SCORES, Record
from comparo.run.audit_card import Audit
from comparo.run.budget import dollars
from comparo.run.fit_policy import Fitting
from comparo.run.voices import model_sentences

HERE = Path(__file__).parent
STATIC = 50  # lines of the ranking that are shown without JavaScript
REASONS = 8  # why.html has all
SURPRISES = 5  # answers
MISFITS = 10  # texts whose answers fit least
LISTED = 200  # contexts in the table of contexts
NEXT = 3  # candidates that are named beside the best


@cache
def environment(folder: Path) -> Environment:
    """The Jinja environment of a folder of templates, which escapes all values."""
    found = Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    found.filters |= {
        "comma": "{:,}".format,
        "percent": "{:.0%}".format,
        "figure": figure,
        "signed": signed,
        "label": label,
        "in_order": pairs_in_order,
        "hundred": in_hundred,
        "dollars": dollars,
        "shares": shares,
        "per_hundred": lambda share: in_hundred(share).removesuffix(" of 100"),
    }
    return found


def filled(template: str, **values: Any) -> str:
    """A template of this folder filled with values, the style sheet and the version."""
    style = Markup((HERE / "style.css").read_text(encoding="utf-8"))
    return environment(HERE).get_template(template).render(style=style, version=version("comparo"), **values)


def shortened(sentences: Sequence[str]) -> list[str]:
    """Sentences that may hold names of any length, each cut to `SENTENCE` characters."""
    return [label(sentence, SENTENCE) for sentence in sentences]


def save_page(path: Path, page: str | bytes) -> Path:
    """Write a page or a table to a file, and return its path; a StoreError where it cannot be written."""
    try:
        path.parent.mkdir(exist_ok=True)
        write_text(path, page)
    except OSError as error:
        raise StoreError(
            f"{path} cannot be written ({error.strerror}); make room, or correct the permissions"
        ) from error
    return path


def render(record: Record, room: Room = ROOM) -> str:
    """The page as text, with as much of the data as there is room for."""
    tables = Tables.of(record)
    data, held, left_out = page_data(tables, room)
    script = "".join((HERE / name).read_text(encoding="utf-8") for name in ("save.js", "page.js"))
    return filled(
        "page.html.j2",
        script=Markup(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        **_contents(record, tables),
        contexts=_context_rows(record, tables)[:held],
        held=held,
        left_out=left_out,
        data=data,
    )


def _contents(record: Record, tables: Tables) -> dict[str, Any]:
    """What the template shows beside the data."""
    ranking, ahead = record.ranking, outlook(record)
    reasons = record.why["reasons"][:REASONS] if record.why else []
    audit = Audit.of(record.configuration["audit"]) if "audit" in record.configuration else None
    found = cards(record, ahead)
    view, columns = tables.shown
    sizes = np.diff(ranking.graph.starts)
    ends = dict.fromkeys((int(sizes.min()), int(sizes.max())))
    agreeing = agreements(record, tables.board is not None)
    surprises = np.argsort(-np.abs(record.p - record.expected), kind="stable")[:SURPRISES]
    notes = *all_notes(ranking), *chance_notes(ranking), *model_sentences(record.judgements)
    notes += injection_notes(record.configuration, record.items)
    return {
        "record": record,
        "lead": _leader(record, tables),
        "sizes": " to ".join(f"{size:,}" for size in ends),
        "expected": ahead[0].expected,
        "facts": facts(record),
        "steps": [replace(step, command=presentable(step.command)) for step in advice(record, ahead)],
        "notes": shortened(notes),
        "view": view,
        "mean": tables.board,
        "best": ranking.solution.best,
        "best_words": best_sentence(ranking),
        "columns": columns,
        "lines": range(view.begin, min(view.end, view.begin + STATIC)),
        "people_names": [label(name) for name in list(record.items.scores)[:4]],
        "cards": [card for card in found if card.main],
        "special": [card for card in found if not card.main],
        "voices": who_judged(record),
        "audition": record.audition,
        "why": None if record.why is None else label(record.why["summary"], SENTENCE),
        "reasons": reasons,
        "widest": reason_reach(reasons),
        "audit": audit,
        "reach": audit and probe_reach(audit),
        "growth": _growth(ranking),
        "graded": _graded(record),
        "surprises": [_surprise(record, place) for place in surprises.tolist()],
        "misfits": rows_of(misfit(ranking, "item"), MISFITS),
        "disagreements": _disagreements(record),
        "lengths": scatter_chart(record.characters, ranking.scores) if np.ptp(record.characters) > 0 else None,
        "people": [(each, label(each.name), scatter_chart(each.x, each.y)) for each in agreeing],
        "shown_scores": SCORES,
        **_making(record),
    }


def _making(record: Record) -> dict[str, Any]:
    """The title, the prompt, the command that repeats the run, and its settings."""
    configuration, ranking = presentable(record.configuration), record.ranking
    prompt = None if record.is_fitted else prompt_of(configuration)
    made = {**configuration, "method": ranking.method}  # people's votes have an estimator of their own
    known = settings(made, record.judgements, whose(ranking))
    title = f"Ranking of {record.source}" if prompt is None else question(prompt)
    return {
        "title": label(title, SENTENCE),
        "prompt": prompt,
        "command": presentable(record.command),
        "settings": [pair for pair in known if not (record.is_fitted and pair[1] == "unknown")],
    }


def _leader(record: Record, tables: Tables) -> dict[str, Any] | None:
    """The best item, and those that may be as good; None for several contexts without a leaderboard.

    Where the items of the only context are not all connected, none is named: `groups` is the number of groups.
    """
    several, board = len(record.contexts) > 1, tables.board is not None
    if several and not board:
        return None
    if not board and not record.joined[0]:
        return {"groups": int(record.apart[0]), "size": len(record.items)}
    view, columns = tables.shown
    tied = columns["tier"][: view.end].count(columns["tier"][0]) - 1
    if board:
        size, names = view.end, columns["item"][: NEXT + 1]
    else:
        size = record.ranking.graph.nodes
        names = [record.name(int(node)) for node in record.order[: NEXT + 1]]
    return {"groups": 0, "size": size, "names": names, "tied": tied, "more": max(0, tied - NEXT)}


def _context_rows(record: Record, tables: Tables) -> list[dict[str, Any]]:
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
        best, surest = "", math.nan
        if groups == 1:
            best = record.name(int(record.order[view.begin]))
            surest = float(np.max(sure[nodes]))
        found.append(
            {
                "label": view.label,
                "best": best,
                "groups": groups,
                "sure": surest,
                "size": view.end - view.begin,
                "calls": int(calls[position]),
                "expected": float(expected[position]),
                "people": [float(column[code]) for column in people],
            }
        )
    return found


def _surprise(record: Record, place: int) -> dict[str, Any]:
    """An answer that differs from the model's expectation: who gave it, both texts, and the expected p."""
    judgement = record.compared(place)
    asked, p = judgement.question, judgement.p
    sides = _sides(record.items, asked.context, {asked.first: p > 0.5, asked.second: p < 0.5})
    return {
        "asked": asked,
        "p": p,
        "expected": float(record.expected[place]),
        "sides": sides if record.has_texts else [],
        "context": record.context_name(asked.context),
        "reply": judgement.reply.strip(),
    }


def _sides(items: Items, context: Any, wins: Mapping[Any, bool]) -> list[tuple[Any, bool, str]]:
    """The names of items, whether each wins, and its text."""
    return [(item, won, items.texts[items.row(context, item)]) for item, won in wins.items()]


def _disagreements(record: Record) -> list[dict[str, Any]]:
    """The pairs on which people's votes contradict the machine most, with both texts where they are known."""
    fitting, votes, found = record.fitting, record.fitting.votes, list[dict[str, Any]]()
    if votes is None:
        return []
    items = record.items if isinstance(fitting, Fitting) else fitting.texts
    for row in rows_of(disagreements(record.ranking, votes), LONGEST_LIST):
        context, wins = row.get("context"), {row["chosen"]: True, row["other"]: False}
        sides = [] if items is None else _sides(items, context, wins)
        found.append({**row, "sides": sides, "context": record.context_name(context)})
    return found


def shares(p: float) -> str:
    """A probability in whole per cent; only 0 is shown as 0, and only 1 as 100.

    >>> shares(0.754), shares(0.999), shares(1.0)
    ('75', '99', '100')
    """
    return f"{round(100 * p) if p in (0.0, 1.0) else min(99, max(1, round(100 * p)))}"


def _graded(record: Record) -> dict[str, Any] | None:
    """The class list with the notes on its scale; None where there are neither anchors nor grades."""
    scaled = record.scaled
    if scaled is None:
        return None
    columns = scaled.class_list((record.why or {}).get("feedback"))
    return {
        "columns": {name: column.tolist() for name, column in columns.items()},
        "rows": len(columns["text"]),
        "notes": shortened(scaled.notes),
        "anchors": int(np.count_nonzero(~np.isnan(scaled.anchor))),
    }


def _growth(ranking: Ranking) -> dict[str, Any] | None:
    """Sentences about what is new, and a table of what moved; None for a ranking that has not grown."""
    if ranking.grown is None:
        return None
    return {
        "sentences": shortened(growth_sentences(ranking, ranking.grown)),
        "moved": {name: column.tolist() for name, column in ranking.tables["moved"].items()},
    }
