"""How the answers of a run become a ranking: the method, and its use of the texts.

A method is that of `comparo.fit`, by default the usual one of the answers. "mixed" and "panel" also use the texts,
unless the run is plain: comparisons are weighted by the contrast of their texts, and items of the same group or of
similar style inform each other. The groups are those of the items, if they have any; otherwise items with the same id
in several contexts form a group, as the outputs of one system do. The scores may be a consensus: an estimate of what
people would say (`comparo.ranking.consensus`).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from comparo.data.comparisons import Comparisons
from comparo.data.covariates import Term, control_numbers
from comparo.data.grammar import Estimand
from comparo.data.items import Items
from comparo.data.text_features import contrasts, styles
from comparo.errors import Message, named
from comparo.log.store import VOTES
from comparo.methods import ESTIMATES, quiet_fit, usual_method
from comparo.model.linalg.graph import Graph
from comparo.model.observations import fitted_power
from comparo.options import FitOptions
from comparo.ranking.consensus import check_validity, consensus, expected_by
from comparo.ranking.grouping import ControlNumbers, control_of, group_codes
from comparo.ranking.ranking import Ranking, with_solution
from comparo.ranking.votes import find_voted, votes_about, with_votes
from comparo.run.linking import Past, read_past
from comparo.selection.designs import DEFAULT_GOAL, best_of
from comparo.types import Array

GROUPED = Message("name a column by {group}, such as the system, or give texts the same ids in several contexts")


def varies(items: Items, term: str) -> bool:
    """Whether texts of a context differ in a term of a control."""
    (numbers,) = control_numbers(items, [term]).values()
    values = np.array([len(one) if isinstance(one, str) else one for one in numbers.values()])
    return any(np.ptp(values[rows]) > 0 for rows in items.groups.values())


@dataclass(frozen=True)
class Fitting(FitOptions):
    """Ranks comparisons of `items`; if it is not `grouped`, the groups of items are ignored.

    The `estimate` is the judge's own ranking, a consensus with this `validity`, or "auto": a consensus where items have
    groups and variances are estimated. `control` names "length" or numbers of the items, which are controlled for in
    `Ranking.controlled`; `first_stage` names numbers that inform the scores. Without groups, a consensus shrinks scores
    to those that style predicts. Where the comparisons contain no group twice, as those of one context may, the ranking
    is the judge's. With `votes` of people about some of the items, `conclude` ranks as people would. Several voices
    `together` are people whose votes are pooled (docs/vote.md). A run that has grown has a `past`: its ranking is on
    the scale of the first one. `best` is k of the goal "top-k".

    >>> items = Items.of({"ana": "The cat sat.", "bo": "The cat sat!", "cy": "A dog ran."})
    >>> data = Comparisons.from_rows([("ana", "bo", 0.8), ("bo", "cy", 0.7)])
    >>> Fitting(items).rank(data).comparisons.weight.round(2)
    array([0.45, 1.55])
    """

    items: Items
    estimate: Estimand = field(default="judge", kw_only=True)
    grouped: bool = True
    votes: Comparisons | None = None
    together: bool = False
    past: Past | None = None
    level: float = 0.95
    best: int | None = None

    def check(self) -> None:
        """Raise a ValueError if the estimate cannot be made from these items by this method."""
        check_validity(self.validity)
        if self.votes is not None:
            find_voted(self.votes, self.items.labels)
        if self.estimate == "judge" and self.validity is not None:
            raise ValueError(Message("validity belongs to a consensus; leave it out, or use {estimate:'consensus'}"))
        is_consensus = self.estimate == "consensus" or self.validity is not None
        covariates = {Message("{control}"): self.control, Message("{first_stage}"): self.first_stage}
        for what, is_wanted in (covariates | {"a consensus": is_consensus}).items():
            if is_wanted and not self.pools:
                needed = Message(" needs estimated variances; use {method:'mixed'} (panel for several voices) ")
                raise ValueError(what + needed + Message("without {plain}"))
        terms = [("control", Term.of(term).name) for term in self.control]
        if self.first_stage is not None:
            if self.first_stage not in self.items.numbers:
                missing = ": the items have no such numbers; name a column of their file"
                raise ValueError(named("first_stage", self.first_stage) + missing)
            terms.append(("first_stage", self.first_stage))
        for option, name in terms:
            if not varies(self.items, name):
                raise ValueError(named(option, name) + ": all texts of a context are alike in it; leave it out")
        if is_consensus and self._groups is None and (self.estimate == "auto" or self._features is None):
            raise ValueError("a consensus needs texts that share a group; " + GROUPED)

    @property
    def shares(self) -> bool:
        """Whether the scores are a consensus."""
        return self.pools and (self.estimate == "consensus" or (self.estimate == "auto" and self._groups is not None))

    @property
    def group(self) -> dict[Any, dict[Any, Hashable]] | None:
        """The group of each item, by context; None where no two texts share one."""
        if self._groups is None:
            return None
        ids = self.items.ids
        group = ids if self.items.group is None else self.items.group
        return {
            context: dict(zip(ids[rows].tolist(), group[rows].tolist(), strict=True))
            for context, rows in self.items.groups.items()
        }

    @property
    def pools(self) -> bool:
        """Whether the method also uses the texts and estimates variances: "mixed" or "panel", unless plain."""
        return not self.plain and self.method in (None, *ESTIMATES)

    @cached_property
    def contrast(self) -> Mapping[Any, Array | None]:
        """The contrast of each two items, by context; None where all comparisons count the same."""
        return dict.fromkeys(self.items.groups) if self.plain else contrasts(self.items)

    @cached_property
    def _groups(self) -> Mapping[Any, Hashable] | Literal["items"] | None:
        items = self.items
        if not self.grouped:
            return None
        if items.group is not None:
            return dict(zip(items.labels, items.group.tolist(), strict=True))
        different = len(set(items.ids.tolist()))
        return "items" if len(items.contexts) > 1 and len(items) >= 2 * different else None

    @cached_property
    def _features(self) -> Mapping[Any, Any] | None:
        style = styles(self.items)
        return dict(zip(self.items.labels, style, strict=True)) if style.shape[1] else None

    @cached_property
    def _held(self) -> ControlNumbers:
        return control_numbers(self.items, self.control)

    def _control(self, data: Comparisons) -> ControlNumbers | None:
        """The values to control for; None while a term is constant among the compared texts."""
        if not self.control or not control_of(data, self._held).varies(Graph.build(data)).all():
            return None
        return self._held

    def rank(self, data: Comparisons) -> Ranking:
        """The ranking from comparisons as answered."""
        if self.together:
            data = replace(data, voted=True)
            return quiet_fit(data, usual_method(data), groups=self._groups, level=self.level)
        return self.fit(self.weigh(data) if self.pools else data)

    def conclude(self, data: Comparisons) -> Ranking:
        """The ranking of a whole run: that of its comparisons, or people's where they voted."""
        ranking = self.rank(data)
        ranking = ranking if self.votes is None else with_votes(ranking, self.votes)
        reached = ranking.solution.numbers
        unreached = tuple(label for label in self.items.labels if label not in reached)
        ranking = with_solution(ranking, unreached=unreached, best=self.best)
        if self.past is None or self._before is None:
            return ranking
        added = self.past.added(data)
        alone = replace(self, past=None, control=(), first_stage=None, votes=None)
        return self.past.place(ranking, self._before, None if added is None else alone.rank(added))

    @cached_property
    def _before(self) -> Ranking | None:
        """The ranking of the run before it grew, by the present method."""
        if self.past is None:
            return None
        items = self.past.items
        votes = None if self.votes is None else votes_about(self.votes, items.labels)
        own = replace(self, items=items, past=None, control=(), first_stage=None, votes=votes)
        return own.conclude(self.past.data)

    def weigh(self, data: Comparisons) -> Comparisons:
        """The comparisons with weights contrast^a, a estimated from the answers; the sum of weights is unchanged.

        Each voice has its own a and sum of weights.
        """
        worth, weight = self._worth(data), data.weights.copy()
        for judge in np.unique(data.judged_by):
            rows = data.judged_by == judge
            own = replace(data.take(rows), judges=None, judge=None)
            raised = own.weights * worth[rows] ** fitted_power(own, worth[rows])
            weight[rows] = raised * (np.sum(own.weights) / np.sum(raised))
        return data if np.array_equal(weight, data.weights) else replace(data, weight=weight)

    def _worth(self, data: Comparisons) -> Array:
        """The contrast of each comparison, shape (K,); 1 in contexts without contrasts."""
        contexts = [None] if data.contexts is None else data.contexts.tolist()
        context = np.zeros(len(data), dtype=np.int32) if data.context is None else data.context
        worth, names = np.ones(len(data)), self.items.names
        order = np.argsort(context, kind="stable")
        ends = np.cumsum(np.bincount(context, minlength=len(contexts)))
        for label, rows in zip(contexts, np.split(order, ends[:-1]), strict=True):
            table = self.contrast[label]
            if table is not None:
                place = {item: number for number, item in enumerate(names[label])}
                first = [place[item] for item in data.items[data.first[rows]].tolist()]
                second = [place[item] for item in data.items[data.second[rows]].tolist()]
                worth[rows] = table[first, second]
        # A line-up separates similar texts as well as others, and the rows of an answer share their weight.
        return worth if data.lineup is None else np.where(data.lineup["answer"] < 0, worth, 1.0)

    def _came(self, data: Comparisons) -> Mapping[Any, Hashable] | None:
        """The growth that added each item, as its group: items added together may be better on average.

        None for a run that has not grown, one that has groups, and where no items of different growths were compared.
        """
        if self.past is None or self._groups is not None:
            return None
        came, graph = self.past.cohorts(self.items.labels), Graph.build(data)
        growth = np.array([came[label] for label in graph.labels(data)])
        return came if np.any(growth[graph.first] != growth[graph.second]) else None

    def fit(self, data: Comparisons) -> Ranking:
        """The ranking from comparisons whose weights are final."""
        method = self.method or usual_method(data)
        if not self.pools:
            ranking = quiet_fit(data, method, bias=self.bias, level=self.level)
            named = None if self._groups is None else group_codes(data, ranking.graph, self._groups)
            return with_solution(ranking, groups=named)
        came = self._came(data)
        groups = self._groups if came is None else came
        shared: dict[str, Any] = {"groups": groups, "features": self._features, "control": self._control(data)}
        if self.first_stage is not None:
            values = self.items.numbers[self.first_stage].tolist()
            shared["first_stage"] = dict(zip(self.items.labels, values, strict=True))
        ranking = quiet_fit(data, method, bias=self.bias, level=self.level, **shared)
        if came is not None:
            return with_solution(ranking, groups=None)
        by = expected_by(ranking)
        is_shared = self.shares and (by == "groups" or (by == "style" and self._groups is None))
        return consensus(ranking, self.validity) if is_shared else ranking


def fitting_of(configuration: Mapping[str, Any], items: Items, folder: Path) -> Fitting:
    """How the answers of a run folder become a ranking."""
    given = configuration.get
    return Fitting(
        items,
        **{each.name: configuration[each.name] for each in fields(FitOptions) if each.name in configuration},
        votes=Comparisons.read(folder / VOTES) if given("votes") else None,
        together=given("together", False),
        past=read_past(folder),
        best=best_of(configuration["identity"].get("goal", DEFAULT_GOAL)),
    )
