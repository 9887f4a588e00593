"""The pages of commands beside a single ranking: comparisons of two systems, audits, reasons and several criteria.

Each is a template filled from the result that the command stored in its folder, and from the texts of the run.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import TemplateError

from comparo.analysis.confidence import expected_spearman
from comparo.analysis.correlations import agreement, mean_known
from comparo.data.items import Items
from comparo.data.probes import ORIGINAL
from comparo.data.prompts import Prompt
from comparo.errors import StoreError
from comparo.ranking.criteria_ranking import CriteriaRanking, spearman_matrix
from comparo.ranking.reason_effects import DISCOVERY
from comparo.ranking.tabular import rows_of
from comparo.report.charts import probe_tables, reason_rows
from comparo.report.data import ROOM, Room
from comparo.report.embed import SENTENCE, excerpt, figure, label, presentable, signed
from comparo.report.making import NAME, injection_notes, prompt_of, question, settings
from comparo.report.page import filled, render, save_page, shortened
from comparo.report.record import Record
from comparo.run.audit_card import Audit, Card
from comparo.run.budget import dollars
from comparo.run.voices import model_sentences
from comparo.run.why import Explanation

RESULT = "compare.json"  # the result of a comparison, in its run folder
INPUTS, LONG = 50, 2000  # inputs of each side with both texts, and characters of each text: at most 2 MB
NAMED = 100  # inputs of one side only that are named
TEXT = 600  # characters of a text of an example
TEXTS = 500  # texts with feedback on the page; why.csv has all
ROWS = 8  # reasons in the comparison of two groups, and those that are always in the table of all
LINES = 1000  # of the overall that are shown
BEST = 5  # items of each criterion that are named in its section


def compare_page(folder: Path, record: Record) -> str:
    """The page of a comparison in a run folder as text; a StoreError where the folder holds none."""
    try:
        return _compared(json.loads((folder / RESULT).read_text(encoding="utf-8")), record)
    except (OSError, ValueError, KeyError, TypeError, TemplateError) as error:
        raise StoreError(f"{folder / RESULT} holds no comparison ({error}); run the same command again") from error


def _compared(found: Mapping[str, Any], record: Record) -> str:
    inputs, rows = found["inputs"], found["by_input"]
    configuration = presentable(record.configuration)
    notes = (*found["notes"], *model_sentences(record.judgements), *injection_notes(configuration, record.items))
    return filled(
        "compare.html.j2",
        title=label(found["verdict"].split(": win rate")[0], SENTENCE),
        found=found,
        facts=_compare_facts(found, record),
        notes=shortened(notes),
        question=label(question(prompt_of(configuration)), SENTENCE),
        won=[_input(found, record, row) for row in rows[: min(inputs["won"], INPUTS)]],
        lost=[_input(found, record, row) for row in rows[::-1][: min(inputs["lost"], INPUTS)]],
        unmatched=[
            (label(name), [label(each) for each in alone[:NAMED]], max(0, len(alone) - NAMED))
            for name, alone in found["unmatched"].items()
            if alone
        ],
        command=configuration.get("command", ""),
        settings=settings(configuration, record.judgements),
    )


def _compare_facts(found: Mapping[str, Any], record: Record) -> list[tuple[str, str]]:
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


def _input(found: Mapping[str, Any], record: Record, row: Mapping[str, Any]) -> dict[str, Any]:
    """An input as it is shown: its context, both texts and the answers in both orders."""
    asked = record.items.question(row["input"], found["one"], found["other"])
    wins = row["margin"] > 0
    return {
        "input": label(row["input"]),
        "context": label(asked.context_text or "", NAME),
        "one": (not wins, *excerpt(asked.first_text, LONG)),
        "other": (wins, *excerpt(asked.second_text, LONG)),
        "first": f"{row['first']:.2f}",
        "second": f"{row['second']:.2f}",
    }


def audit_page(folder: Path, record: Record) -> str:
    """The page of the audit in a run folder as text; a ValueError where the folder holds none."""
    found = Audit.read(folder)
    configuration = presentable(record.configuration)
    count = sum(len(card.biases) for card in found.cards)
    names = [one.probe for one in found.cards[0].findings]
    return filled(
        "audit.html.j2",
        title=f"Audit: {count} {'bias' if count == 1 else 'biases'} found",
        summaries=[label(card.summary, SENTENCE) for card in found.cards],
        question=label(question(prompt_of(configuration)), SENTENCE),
        judges=[label(card.name) for card in found.cards] if len(found.cards) > 1 else [],
        side_by_side=[(name, [card.finding(name) for card in found.cards]) for name in names],
        cards=probe_tables(found),
        examples=_examples(found.cards, record),
        command=configuration.get("command", ""),
        settings=settings(configuration, record.judgements),
    )


def _examples(cards: tuple[Card, ...], record: Record) -> list[tuple[str, Any, Any]]:
    """An original and its variant for each bias that was found."""
    found = []
    for name in dict.fromkeys(one.probe for card in cards for one in card.biases):
        if f"{name} 1" in record.items.groups:
            asked = record.items.question(f"{name} 1", ORIGINAL, name)
            found.append((name, excerpt(asked.first_text, TEXT), excerpt(asked.second_text, TEXT)))
    return found


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
        facts=_why_facts(found),
        rows=reason_rows(why.reasons),
        first=max(ROWS, found_last + 1),
        unexplained=(why.unexplained, why.unexplained_low, why.unexplained_high),
        between=[label(name) for name in found.between],
        parts=_between(found),
        place=found.place,
        people=_people_beside(found),
        stated=[(label(words), count) for words, count in (found.stated or {}).items()],
        advice=advice,
        own=None if advice is None or not advice["raise"] else excerpt(advice["text"], TEXT),
        pairs=[(label(one["winner"]), one["p"], excerpt(one["text"], TEXT)) for one in (advice or {}).get("pairs", ())],
        feedback=[{name: label(value, SENTENCE) for name, value in row.items()} for row in feedback],
        left=max(0, len(why.ranking) - TEXTS),
    )
    return save_page(folder / "why.html", page)


def _why_facts(found: Explanation) -> list[tuple[str, str]]:
    who = found.judge or "nobody: all reasons are computed from the texts"
    facts = [("Texts", f"{len(found.why.ranking):,}"), ("Reasons", f"{len(found.why.reasons)}"), ("Asked", label(who))]
    return facts + ([("Calls", f"{found.calls:,}")] if found.calls else [])


def _between(found: Explanation) -> list[tuple[str, str, str]]:
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


def _people_beside(found: Explanation) -> list[tuple[str, list[str], bool]]:
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


def write_criteria_report(place: Path, record: Record, found: CriteriaRanking, room: Room = ROOM) -> Path:
    """Write the page of a run, and that of each criterion, into a folder; return the path of the first."""
    for name in found.rankings:
        save_page(place / _page_name(name), render(_alone(record, found, name), room))
    return save_page(place / "report.html", _overall(record, found))


def _alone(record: Record, found: CriteriaRanking, name: str) -> Record:
    """The record of a run by one of the criteria."""
    own = [
        replace(one, question=replace(one.question, voice=None))
        for one in record.judgements
        if one.question.voice == name
    ]
    identity = {**record.identity, "prompt": dict(_prompt(record, name).identity)}
    configuration = {**record.configuration, "identity": identity}
    return replace(record, configuration=configuration, judgements=own, ranking=found.rankings[name])


def _prompt(record: Record, name: str) -> Prompt:
    """The prompt of a criterion alone."""
    stored = record.identity["prompt"]
    labels, wording = tuple(stored["labels"]), record.configuration.get("wording")
    return Prompt(stored["criteria"][name], labels, stored["answer"], wording)


def _page_name(criterion: str) -> str:
    return f"report-{criterion}.html"


def _overall(record: Record, found: CriteriaRanking) -> str:
    configuration, lines = presentable(record.configuration), rows_of(found.to_columns(), LINES)
    asked = {(one.question.context, one.question.first, one.question.second) for one in record.judgements}
    several = found.graph.contexts > 1
    tied = [] if several else [label(line["item"]) for line in lines if line["tier"] == 1][1:]
    is_joined = found.graph.components == found.graph.contexts
    return filled(
        "criteria.html.j2",
        title=label(f"Ranking by {', '.join(found.rankings)}", SENTENCE),
        best=label(lines[0]["item"]) if is_joined and not several else None,
        tied=f"{len(tied)} others" if len(tied) > 1 else "".join(tied),
        contexts=found.graph.contexts,
        calls=len(asked),
        judge=label(configuration["identity"]["judge"], NAME),
        started=str(configuration.get("started", ""))[:10],
        notes=shortened([*found.notes, *injection_notes(configuration, record.items)]),
        level=f"{found.level:.0%}",
        criteria=[_criterion(record, found, name) for name in found.rankings],
        lines=lines,
        hidden=max(0, found.graph.nodes - LINES),
        correlations=spearman_matrix(found).tolist(),
        residuals=found.residuals.tolist(),
        command=configuration.get("command", ""),
        settings=[pair for pair in settings(configuration, record.judgements) if pair[0] != "scores"],
    )


def _criterion(record: Record, found: CriteriaRanking, name: str) -> dict[str, Any]:
    ranking = found.rankings[name]
    expected = mean_known(expected_spearman(ranking))
    people = [(own, mean_known(np.asarray(each))) for own, each in people_of(record.items, ranking, name).items()]
    best = [label(each[-1] if isinstance(each, tuple) else each) for each in list(ranking)[: BEST + 1]]
    return {
        "name": name,
        "share": found.shares[name],
        "question": label(question(_prompt(record, name)), SENTENCE),
        "expected": None if math.isnan(expected) else figure(expected),
        "people": [(label(own), value) for own, value in people],
        "best": best[:BEST] if ranking.graph.contexts == 1 else [],
        "more": len(best) > BEST,
        "page": _page_name(name),
    }


def people_of(items: Items, ranking: Any, name: str) -> dict[str, Any]:
    """The agreement of the ranking by a criterion with people's scores of that name, else with all scores."""
    found = agreement(ranking, items)
    return {name: found[name]} if name in found else found
