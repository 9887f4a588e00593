"""The page of a run by several criteria: the overall, how far the criteria agree, and each criterion.

report.html is the page; report-NAME.html beside it is the whole report by one criterion, as a run of its own has it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtri

from comparo.analysis.confidence import expected_spearman
from comparo.analysis.correlations import agreement, mean_known
from comparo.data.items import Items
from comparo.data.prompts import Prompt
from comparo.judges import Judgement
from comparo.ranking.criteria_ranking import CriteriaRanking, spearman_matrix
from comparo.ranking.tabular import rows_of
from comparo.report.data import ROOM, Room
from comparo.report.embed import SENTENCE, figure, label, presentable
from comparo.report.making import NAME, injection_notes, question, settings
from comparo.report.page import filled, render, save_page, shortened
from comparo.report.record import Record, checked, fitting_of
from comparo.run.criteria_run import CriteriaRun, concluded, stored_criteria
from comparo.run.fit_policy import Fitting
from comparo.run.store import read_configuration, stored_items

LINES = 1000  # of the overall that are shown
BEST = 5  # items of each criterion that are named in its section


@dataclass(frozen=True, eq=False)
class CriteriaRecord:
    """A run by several criteria from its folder: all judgements, whose voices are the criteria, and their rankings."""

    configuration: Mapping[str, Any]
    items: Items
    judgements: Sequence[Judgement]
    found: CriteriaRanking
    fitting: Fitting

    @property
    def prompts(self) -> dict[str, Prompt]:
        """The prompt of each criterion alone."""
        stored, wording = self.configuration["identity"]["prompt"], self.configuration.get("wording")
        first, second = stored["labels"]
        return {
            name: Prompt(template, (first, second), stored["answer"], wording)
            for name, template in stored["criteria"].items()
        }

    @property
    def calls(self) -> int:
        """The number of pairs that the judge was asked about."""
        asked = (one.question for one in self.judgements)
        return len({(question.context, question.first, question.second) for question in asked})

    def alone(self, name: str) -> Record:
        """The record of a run by one of the criteria."""
        identity = self.configuration["identity"] | {"prompt": dict(self.prompts[name].identity)}
        own = [
            replace(one, question=replace(one.question, voice=None))
            for one in self.judgements
            if one.question.voice == name
        ]
        ranking = self.found.rankings[name]
        return Record({**self.configuration, "identity": identity}, self.items, own, ranking, self.fitting)


def read_criteria_record(folder: Path) -> CriteriaRecord:
    """The record of a run folder of several criteria; a StoreError where a criterion has no answers."""
    configuration = checked(read_configuration(folder), folder)
    judgements, weights = stored_criteria(folder)
    items = stored_items(folder)
    fitting = fitting_of(configuration, items, folder)
    found = concluded(fitting.conclude, judgements, weights)
    return CriteriaRecord(configuration, items, judgements, found, fitting)


def criteria_record(run: CriteriaRun, found: CriteriaRanking) -> CriteriaRecord:
    """The record of a run that is at hand."""
    configuration = json.loads(json.dumps(run.store.configuration, default=str))
    return CriteriaRecord(configuration, run.task.items, run.each, found, run.task.fitting)


def write_criteria_report(place: Path, record: CriteriaRecord, room: Room = ROOM) -> Path:
    """Write the page of a run, and that of each criterion, into a folder; return the path of the first."""
    for name in record.found.rankings:
        save_page(place / _page_name(name), render(record.alone(name), room))
    return save_page(place / "report.html", _render(record))


def _page_name(criterion: str) -> str:
    return f"report-{criterion}.html"


def _render(record: CriteriaRecord) -> str:
    found, configuration = record.found, presentable(record.configuration)
    lines = _lines(found)
    several = found.graph.contexts > 1
    tied = [] if several else [line["item"] for line in lines if line["tier"] == 1][1:]
    is_joined = found.graph.components == found.graph.contexts
    return filled(
        "criteria.html.j2",
        title=label(f"Ranking by {', '.join(found.rankings)}", SENTENCE),
        best=lines[0]["item"] if is_joined and not several else None,
        tied=f"{len(tied)} others" if len(tied) > 1 else "".join(tied),
        contexts=found.graph.contexts,
        calls=record.calls,
        judge=label(configuration["identity"]["judge"], NAME),
        started=str(configuration.get("started", ""))[:10],
        notes=shortened([*found.notes, *injection_notes(configuration, record.items)]),
        level=f"{found.level:.0%}",
        criteria=[_criterion(record, name) for name in found.rankings],
        lines=lines,
        hidden=max(0, found.graph.nodes - LINES),
        correlations=spearman_matrix(found).tolist(),
        residuals=found.residuals.tolist(),
        command=configuration.get("command", ""),
        settings=[pair for pair in settings(configuration, record.judgements) if pair[0] != "scores"],
    )


def _lines(found: CriteriaRanking) -> list[dict[str, Any]]:
    reach = -float(ndtri((1 - found.level) / 2))
    return [
        {
            **row,
            "reach": reach * row["std"],
            "scores": [row[name] for name in found.rankings],
            "item": label(row["item"]),
        }
        for row in rows_of(found.to_columns(), LINES)
    ]


def _criterion(record: CriteriaRecord, name: str) -> dict[str, Any]:
    ranking = record.found.rankings[name]
    expected = mean_known(expected_spearman(ranking))
    people = [(own, mean_known(np.asarray(each))) for own, each in people_of(record.items, ranking, name).items()]
    best = [label(each[-1] if isinstance(each, tuple) else each) for each in list(ranking)[: BEST + 1]]
    return {
        "name": name,
        "share": record.found.shares[name],
        "question": label(question(record.prompts[name]), SENTENCE),
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
