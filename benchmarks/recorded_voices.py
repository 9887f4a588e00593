"""Recorded voices beside people's scores: what the benchmarks of panels and of auditions measure on.

The voices are two small judges with up to six wordings each on SummEval and TopicalChat (`panel`), and ten wordings of
one judge (`wordings`). Each was asked every pair in both orders.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from benchmarks.efficiency import DATA
from benchmarks.paper.datasets import load_dataset
from comparo.analysis.correlations import spearman_within
from comparo.analysis.reliability import measured
from comparo.data.comparisons import Comparisons
from comparo.data.text_features import styles
from comparo.model.estimators.panel_members import PanelMembers, fit_members, signs
from comparo.ranking.ranking import Ranking
from comparo.types import Array

FOLDERS = ("panel", "wordings")


@dataclass(frozen=True, eq=False)
class Set:
    """All voices on one attribute of a data set, with people's scores (n,) and the style of the candidates."""

    folder: str
    name: str
    attribute: str
    data: Comparisons
    human: Array
    style: dict[tuple[Any, Any], Array]

    @cached_property
    def heard(self) -> PanelMembers:
        return fit_members(self.data)

    @cached_property
    def sign(self) -> Array:
        return signs(self.heard.agreement, np.zeros(len(self.heard.names), dtype=bool))

    @cached_property
    def standard(self) -> Array:
        """The scores of each voice alone, with the same deviation, (R, n)."""
        scores = np.array([voice.scores for voice in self.heard.voices])
        return scores / np.std(scores, axis=1, keepdims=True)

    @cached_property
    def content(self) -> Array:
        return measured(self.data, self.heard, None)[2]

    @cached_property
    def varying(self) -> Array:
        """The content as a share of the variance of an answer around its mean: without the square of the mean γ."""
        return np.array([voice.content_around_mean for voice in self.heard.voices])

    @cached_property
    def rows(self) -> Array:
        """The rows of each voice, pair and order, (R, P, 2): every voice was asked every pair in both orders."""
        graph = self.heard.graph
        low, high = np.minimum(graph.first, graph.second), np.maximum(graph.first, graph.second)
        order = np.lexsort((graph.first > graph.second, high, low, self.data.judged_by))
        return order.reshape(len(self.heard.names), -1, 2)

    def people(self, scores: Array) -> float:
        graph = self.heard.graph
        return 100 * float(np.nanmean(spearman_within(scores, self.human, graph.position, graph.contexts)))

    def ranked(self, ranking: Ranking, turn: float = 1.0) -> float:
        """The same of a ranking of some of the candidates; the others have the mean score, 0."""
        keys, found = (g.context * len(self.data.items) + g.item for g in (self.heard.graph, ranking.graph))
        order, scores = np.argsort(keys), np.zeros(len(keys))
        scores[order[np.searchsorted(keys, found, sorter=order)]] = turn * ranking.scores
        return self.people(scores)

    def voted(self, weight: Array) -> float:
        return self.people((weight * self.sign) @ self.standard)

    @cached_property
    def each(self) -> Array:
        """Spearman × 100 of each voice alone, (R,)."""
        return np.array([self.people(scores) for scores in self.standard])


def sets() -> Iterator[Set]:
    for folder in FOLDERS:
        for name in ("summeval", "topicalchat"):
            items = load_dataset(name, DATA / f"{name}.jsonl").items
            style = styles(items)
            voices: dict[str, list[tuple[str, Comparisons]]] = {}
            for path in sorted((DATA / folder).glob(f"{name}.*.csv.gz")):
                attribute, voice = path.name.removesuffix(".csv.gz").split(".")[1:]
                voices.setdefault(attribute, []).append((voice, Comparisons.read(path)))
            for attribute, found in voices.items():
                columns = [one.to_columns() | {"judge": np.full(len(one), voice, dtype=object)} for voice, one in found]
                data = Comparisons.from_columns(
                    **{key: np.concatenate([c[key] for c in columns]) for key in columns[0]}
                )
                labels = fit_members(data).graph.labels(data)
                human = np.array([items.scores[attribute][items.row(*label)] for label in labels])
                features = {label: style[items.row(*label)] for label in labels}
                yield Set(folder, name, attribute, data, human, features)


def is_panel(every: list[Set]) -> Array:
    return np.array([one.folder == "panel" for one in every])
