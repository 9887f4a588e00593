"""The page of a comparison of two systems: the verdict and its interval, then the inputs with both texts.

It is made from compare.json and the texts of the run folder.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import TemplateError

from comparo.errors import StoreError
from comparo.report.data import ROOM, Room
from comparo.report.embed import SENTENCE, excerpt, label, presentable
from comparo.report.making import NAME, injection_notes, prompt_of, question, settings
from comparo.report.page import filled, shortened
from comparo.report.record import Record
from comparo.run.budget import dollars
from comparo.run.voices import model_sentences

RESULT = "compare.json"  # the result of a comparison, in its run folder
SHOWN = 50  # inputs of each side with both texts
TEXT = 2000  # characters of each text
NAMED = 100  # inputs of one side only that are named


def compare_page(folder: Path, record: Record, room: Room = ROOM) -> str:
    """The page of a comparison in a run folder as text; a StoreError where the folder holds none."""
    try:
        found, shown = json.loads((folder / RESULT).read_text(encoding="utf-8")), SHOWN
        while len((page := _render(found, record, shown)).encode()) > room.page and shown > 1:
            shown //= 2
    except (OSError, ValueError, KeyError, TypeError, TemplateError) as error:
        raise StoreError(f"{folder / RESULT} holds no comparison ({error}); run the same command again") from error
    return page


def _render(found: Mapping[str, Any], record: Record, shown: int) -> str:
    """The page as text; `found` is from `Duel.to_json`, and up to `shown` inputs of each side have texts."""
    inputs, rows = found["inputs"], found["by_input"]
    configuration = presentable(record.configuration)
    notes = (*found["notes"], *model_sentences(record.judgements), *injection_notes(configuration, record.items))
    return filled(
        "compare.html.j2",
        title=label(found["verdict"].split(": win rate")[0], SENTENCE),
        found=found,
        facts=_facts(found, record),
        notes=shortened(notes),
        question=label(question(prompt_of(configuration)), SENTENCE),
        won=[_row(found, record, row) for row in rows[: min(inputs["won"], shown)]],
        lost=[_row(found, record, row) for row in rows[::-1][: min(inputs["lost"], shown)]],
        unmatched=[
            (label(name), [label(each) for each in alone[:NAMED]], max(0, len(alone) - NAMED))
            for name, alone in found["unmatched"].items()
            if alone
        ],
        command=configuration.get("command", ""),
        settings=settings(configuration, record.judgements),
    )


def _facts(found: Mapping[str, Any], record: Record) -> list[tuple[str, str]]:
    inputs, apart, flips = found["inputs"], found["score_difference"], found["flips"]
    facts = [
        ("Inputs won, lost, tied", f"{inputs['won']:,}, {inputs['lost']:,}, {inputs['tied']:,}"),
        ("Inputs asked", f"{inputs['asked']:,} of {inputs['planned']:,}"),
    ]
    counted = {
        "clusters": "Clusters",
        "same": "Inputs with the same text",
        "failed": "Inputs without an answer",
        "unmatched": "Inputs that one side has",
    }
    facts += [(words, f"{inputs[name]:,}") for name, words in counted.items() if inputs[name]]
    if apart["value"] is not None:
        facts.append(("Score difference, logits", f"{apart['value']:.2f} ({apart['low']:.2f} to {apart['high']:.2f})"))
    if flips["value"] is not None:
        facts.append(("Winners that change with the order", f"{flips['value']:.0%}"))
    facts.append(("Judge", label(record.identity["judge"], NAME)))
    cost = f", {dollars(found['cost'])}" if found["cost"] else ""
    return [*facts, ("Calls and cost", f"{found['calls']:,} calls{cost}")]


def _row(found: Mapping[str, Any], record: Record, row: Mapping[str, Any]) -> dict[str, Any]:
    """An input as it is shown: its context, both texts and the answers in both orders."""
    asked = record.items.question(row["input"], found["one"], found["other"])
    wins = row["margin"] > 0
    return {
        "input": label(row["input"]),
        "context": label(asked.context_text or "", NAME),
        "one": (not wins, *excerpt(asked.first_text, TEXT)),
        "other": (wins, *excerpt(asked.second_text, TEXT)),
        "first": f"{row['first']:.2f}",
        "second": f"{row['second']:.2f}",
    }
