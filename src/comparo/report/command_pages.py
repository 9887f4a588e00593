"""The pages of results other than a single ranking: comparisons of two systems, audits, reasons, several criteria.

Each is a template filled from the result that the command stored in its folder, and from the texts of the run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import TemplateError

from comparo.analysis.confidence import expected_spearman
from comparo.analysis.correlations import agreement, mean_known
from comparo.data.items import Items
from comparo.data.probes import ORIGINAL
from comparo.data.prompts import Prompt, Question
from comparo.errors import StoreError
from comparo.model.estimators.coefficients import DISCOVERY
from comparo.ranking.criteria_ranking import CriteriaRanking, spearman_matrix
from comparo.ranking.tabular import rows_of
from comparo.report.embed import SENTENCE, label, presentable, probe_reach, reason_reach
from comparo.report.making import NAME, injection_notes, prompt_of, question, settings
from comparo.report.page import filled, render, save_page, shortened
from comparo.report.record import Record
from comparo.run.audit_card import Audit, AuditCard
from comparo.run.voices import model_sentences, with_voice
from comparo.run.why import Explanation

RESULT = "compare.json"  # the result of a comparison, in its run folder
INPUTS = 50  # of each side, with both texts: at most 2 MB
TEXTS = 500  # texts with feedback on the page; why.csv has all
ROWS = 8  # reasons shown for two groups, and shown at least in the table of all
LINES = 1000  # of the overall ranking that are shown
BEST = 5  # items of each criterion that are named in its section


def compare_page(folder: Path, record: Record) -> str:
    """The page of a comparison in a run folder as text; a StoreError where the folder holds none."""
    try:
        return _compared(json.loads((folder / RESULT).read_text(encoding="utf-8")), record)
    except (OSError, ValueError, KeyError, TypeError, TemplateError) as error:
        raise StoreError(f"{folder / RESULT} holds no comparison ({error}); run the same command again") from error


def _compared(found: Mapping[str, Any], record: Record) -> str:
    inputs, rows = found["inputs"], found["by_input"]

    def shown(some: Sequence[Mapping[str, Any]]) -> list[tuple[Mapping[str, Any], Question]]:
        return [(row, record.items.question(row["input"], found["one"], found["other"])) for row in some[:INPUTS]]

    return _filled(
        "compare.html.j2",
        record,
        (*found["notes"], *model_sentences(record.judgements)),
        title=label(found["verdict"].split(": win rate")[0], SENTENCE),
        found=found,
        judge=record.identity["judge"],
        won=shown(rows[: inputs["won"]]),
        lost=shown(rows[::-1][: inputs["lost"]]),
        unmatched={name: alone for name, alone in found["unmatched"].items() if alone},
    )


def _filled(template: str, record: Record, notes: Sequence[str] = (), **values: Any) -> str:
    """A template filled with values, notes, and the settings of the run."""
    configuration = presentable(record.configuration)
    return filled(
        template,
        notes=shortened([*notes, *injection_notes(configuration, record.items)]),
        question=label(question(prompt_of(configuration)), SENTENCE),
        command=configuration.get("command", ""),
        settings=settings(configuration, record.judgements),
        **values,
    )


def audit_page(folder: Path, record: Record) -> str:
    """The page of the audit in a run folder as text; a ValueError where the folder holds none."""
    found = Audit.read(folder)
    cards = found.cards
    count = sum(len(card.biases) for card in cards)
    noun = "bias" if count == 1 else "biases"
    judges = [label(card.name) for card in cards]
    names = [one.probe for one in cards[0].findings]
    return _filled(
        "audit.html.j2",
        record,
        title=f"Audit: {count} {noun} found",
        summaries=[label(card.summary, SENTENCE) for card in cards],
        judges=judges if len(cards) > 1 else [],
        side_by_side=[(name, [card.finding(name) for card in cards]) for name in names],
        cards=cards,
        reach=probe_reach(found),
        examples=_examples(cards, record),
    )


def _examples(cards: tuple[AuditCard, ...], record: Record) -> list[tuple[str, str, str]]:
    """An original and its variant for each bias that was found."""
    found = []
    for name in dict.fromkeys(one.probe for card in cards for one in card.biases):
        if f"{name} 1" in record.items.groups:
            asked = record.items.question(f"{name} 1", ORIGINAL, name)
            found.append((name, asked.first_text, asked.second_text))
    return found


def write_why(folder: Path, found: Explanation, record: Record) -> Path:
    """Write why.html to a run folder, and return its path."""
    why = found.why
    shown = [k for k, one in enumerate(why.reasons) if one.verdict != "not shown"]
    page = _filled(
        "why.html.j2",
        record,
        title="Why did it win?",
        summary=label(why.summary, SENTENCE),
        judge=found.judge,
        calls=found.calls,
        texts=len(why.ranking),
        rows=why.reasons,
        widest=reason_reach(why.reasons),
        first=max(ROWS, max(shown, default=0) + 1),
        unexplained=(why.unexplained, why.unexplained_low, why.unexplained_high),
        between=found.between,
        parts=rows_of(why.between(*found.between, most=ROWS)) if found.between else [],
        place=found.place,
        people=[] if found.people is None else rows_of(why.beside(found.people)),
        discovery=DISCOVERY,
        stated=found.stated or {},
        advice=found.advice,
        feedback=rows_of(why.feedback(), TEXTS),
        left=max(0, len(why.ranking) - TEXTS),
    )
    return save_page(folder / "why.html", page)


def write_criteria_report(place: Path, record: Record, found: CriteriaRanking) -> Path:
    """Write the page of a run, and that of each criterion, into a folder; return the path of the first."""
    for name in found.rankings:
        save_page(place / f"report-{name}.html", render(_alone(record, found, name)))
    return save_page(place / "report.html", _overall(record, found))


def _alone(record: Record, found: CriteriaRanking, name: str) -> Record:
    """The record of a run by one of the criteria."""
    own = [with_voice(one) for one in record.judgements if one.question.voice == name]
    identity = {**record.identity, "prompt": dict(_prompt(record, name).identity)}
    configuration = {**record.configuration, "identity": identity}
    return replace(record, configuration=configuration, judgements=own, ranking=found.rankings[name])


def _prompt(record: Record, name: str) -> Prompt:
    stored = record.identity["prompt"]
    labels, wording = tuple(stored["labels"]), record.configuration.get("wording")
    return Prompt(stored["criteria"][name], labels, stored["answer"], wording)


def _overall(record: Record, found: CriteriaRanking) -> str:
    lines = rows_of(found.to_columns(), LINES)
    asked = {(one.question.context, one.question.first, one.question.second) for one in record.judgements}
    best, tied = None, []
    if found.graph.contexts == 1:
        tied = [line["item"] for line in lines if line["tier"] == 1][1:]
        if found.graph.components == 1:
            best = lines[0]["item"]
    return _filled(
        "criteria.html.j2",
        record,
        found.notes,
        title=label(f"Ranking by {', '.join(found.rankings)}", SENTENCE),
        best=best,
        tied=tied,
        contexts=found.graph.contexts,
        calls=len(asked),
        judge=label(presentable(record.identity["judge"]), NAME),
        started=str(record.configuration.get("started", ""))[:10],
        level=f"{found.level:.0%}",
        criteria=[_criterion(record, found, name) for name in found.rankings],
        lines=lines,
        hidden=max(0, found.graph.nodes - LINES),
        correlations=spearman_matrix(found).tolist(),
        residuals=found.residuals.tolist(),
    )


def _criterion(record: Record, found: CriteriaRanking, name: str) -> dict[str, Any]:
    ranking = found.rankings[name]
    people = [(own, mean_known(np.asarray(each))) for own, each in people_of(record.items, ranking, name).items()]
    best = list(ranking)[: BEST + 1] if ranking.graph.contexts == 1 else []
    return {
        "name": name,
        "share": found.shares[name],
        "question": label(question(_prompt(record, name)), SENTENCE),
        "expected": mean_known(expected_spearman(ranking)),
        "people": people,
        "best": [each[-1] if isinstance(each, tuple) else each for each in best[:BEST]],
        "more": len(best) > BEST,
        "page": f"report-{name}.html",
    }


def people_of(items: Items, ranking: Any, name: str) -> dict[str, Any]:
    """The agreement of the ranking by a criterion with people's scores of that name, else with all scores."""
    found = agreement(ranking, items)
    return {name: found[name]} if name in found else found
