"""The page of a run by several criteria: the overall, how far the criteria agree, and each criterion.

report.html is the page; report-NAME.html beside it is the whole report by one criterion, as a run of its own has it.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from comparo.analysis.confidence import expected_spearman
from comparo.analysis.correlations import agreement, mean_known
from comparo.data.items import Items
from comparo.data.prompts import Prompt
from comparo.ranking.criteria_ranking import CriteriaRanking, spearman_matrix
from comparo.ranking.tabular import rows_of
from comparo.report.data import ROOM, Room
from comparo.report.embed import SENTENCE, figure, label, presentable
from comparo.report.making import NAME, injection_notes, question, settings
from comparo.report.page import filled, render, save_page, shortened
from comparo.report.record import Record, checked, fitting_of
from comparo.run.criteria_run import concluded, stored_criteria
from comparo.run.store import read_configuration, stored_items

LINES = 1000  # of the overall that are shown
BEST = 5  # items of each criterion that are named in its section


def read_criteria_record(folder: Path) -> Record:
    """The record of a run folder of several criteria, whose ranking is a `CriteriaRanking`.

    The voices of its judgements are the criteria. A StoreError where a criterion has no answers.
    """
    configuration = checked(read_configuration(folder), folder)
    judgements, weights = stored_criteria(folder)
    items = stored_items(folder)
    fitting = fitting_of(configuration, items, folder)
    return Record(configuration, items, judgements, concluded(fitting.conclude, judgements, weights), fitting)


def write_criteria_report(place: Path, record: Record, found: CriteriaRanking, room: Room = ROOM) -> Path:
    """Write the page of a run, and that of each criterion, into a folder; return the path of the first."""
    for name in found.rankings:
        save_page(place / _page_name(name), render(_alone(record, found, name), room))
    return save_page(place / "report.html", _render(record, found))


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


def _render(record: Record, found: CriteriaRanking) -> str:
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
