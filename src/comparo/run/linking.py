"""A ranking on the scale of another: of a run before it grew, or of another run.

All answers are fitted together. Where two runs are linked, they are groups: texts of one may be better on average.
Scores are centred in each connected component, so added items would move all others. With r_i the scores of the first
ranking, or of the other run, all scores of a component are shifted by the same number, such that

    mean of (s_i − r_i) over the texts O of that ranking that are still there and as they were = 0.

With V the joint covariance, Var(s_i − s̄_O) = V_ii − 2 V̄_iO + V̄_OO is the variance of a score; it includes the error of
the link, that of s̄_N − s̄_O, with N the new texts. Common texts C of two runs may have changed in the eyes of the
judges. With the rankings of each run alone, a and b, and their covariances A and B,

    d = a_C − b_C,    Ω = A_CC + B_CC,    P = Ω⁻¹ − Ω⁻¹11ᵀΩ⁻¹/(1ᵀΩ⁻¹1),    z_i = (P d)_i/√P_ii

compares the shift of text i with that of the other common texts: z_i is standard normal where none has changed. The
text with the largest |z_i| is marked as drifted and left out, again and again, while it is significant.

Growth g = 1, 2, … of a run adds items (`comparo.run.resume`). The table growths has the number of the last judgement
before each: a judgement belongs to the last growth before it, 0 for the first run.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtr

from comparo.data.columns import shown
from comparo.data.comparisons import Comparisons
from comparo.data.items import Items
from comparo.data.run_folder import Key, encode, slot_labels
from comparo.errors import ComparisonsError
from comparo.judges import Judgement
from comparo.log.rows import Label, stored_judgements
from comparo.log.store import LINK, read_configuration, reading, stored_items
from comparo.model.linalg.graph import ContextBatch, Pattern
from comparo.model.posterior import Covariance
from comparo.ranking.ranking import Ranking, with_solution
from comparo.ranking.ranks import components
from comparo.ranking.scale import MISFIT
from comparo.ranking.scores import Grown, Link
from comparo.ranking.tabular import Columns
from comparo.rounding import first_best
from comparo.run.voices import comparisons
from comparo.types import Array, LongIndex, Mask

UNCENTRED = ("win-ratio", "avg-prob")  # methods whose scores are shares of all comparisons, and not differences
FEW = 3  # common texts below which none can be said to have moved: of two, either may have


@dataclass(frozen=True, eq=False)
class Recentred:
    """The covariance of scores around the mean of the `kept` candidates (n,) of their component.

    Contexts of more than `Limits.exact` items keep their covariance.
    """

    around: Covariance
    kept: Mask

    @property
    def pattern(self) -> Pattern:
        return self.around.pattern

    @cached_property
    def std(self) -> Array:
        found = self.around.std.copy()
        for batch in self.pattern.batches:
            if batch.size <= self.pattern.limits.exact:
                variance = np.einsum("bii->bi", self.block(batch)).ravel()
                found[batch.nodes] = np.where(np.isnan(found[batch.nodes]), np.nan, np.sqrt(np.maximum(variance, 0.0)))
        return found

    def block(self, batch: ContextBatch) -> Array:
        own = self.around.block(batch)
        component = self.pattern.graph.component[batch.nodes].reshape(len(own), batch.size)
        is_same = component[:, :, None] == component[:, None, :]
        weight = np.where(is_same, self.kept[batch.nodes].reshape(len(own), 1, batch.size), 0.0)
        weight /= np.maximum(weight.sum(axis=2, keepdims=True), 1.0)
        to_zero = np.eye(batch.size) - weight
        return np.asarray(to_zero @ own @ to_zero.transpose(0, 2, 1))

    def variances(self, begin: int) -> Array:
        return np.asarray(self.std[begin:] ** 2)

    def difference(self, one: int, other: int) -> float:
        return self.around.difference(one, other)


def on_scale(ranking: Ranking, kept: Mask) -> Ranking:
    """The ranking with the mean of its `kept` candidates (n,) at 0.

    Standard errors are those of differences from that mean. Components without such a candidate, and scores that are
    shares of wins, stay as they are.

    >>> from comparo import fit
    >>> ranking = fit([("a", "b", 0.8), ("b", "new", 0.7), ("new", "a", 0.1)])
    >>> held = on_scale(ranking, ranking.items != "new")
    >>> round(held["a"].score + held["b"].score, 9), round(held["a"].score - ranking["a"].score, 2)
    (0.0, -0.48)
    """
    if ranking.method in UNCENTRED:
        return ranking
    component = ranking.graph.component
    number = np.bincount(component, kept)
    apart = np.bincount(component, np.where(kept, ranking.scores, 0.0))
    shift = np.divide(apart, number, out=np.zeros(len(number)), where=number > 0)
    controlled = None if ranking.controlled is None else on_scale(ranking.controlled, kept)
    held = replace(
        ranking,
        scores=ranking.scores - shift[component],
        covariance=Recentred(ranking.covariance, kept),
        controlled=controlled,
    )
    return held if ranking.judged is ranking else replace(held, _judged=on_scale(ranking.judged, kept))


def grown_from(before: Ranking, now: Ranking, old: Collection[Label], common: Columns | None = None) -> Ranking:
    """The ranking `now` with the scores of its `old` candidates `before`; the others are new.

    `common` are the texts that link two runs, as `drift` returns them.
    """
    nodes = {label: node for node, label in enumerate(labels_of(before)) if label in old}
    there = np.array([nodes.get(label, -1) for label in labels_of(now)])
    new = there < 0
    score, low, high = (np.where(new, np.nan, values[there]) for values in (before.scores, before.low, before.high))
    link = None if common is None else Link(common, _link_error(now.covariance, new))
    return replace(now, grown=Grown(new, score, low, high, link))


def _link_error(covariance: Covariance, new: Mask) -> float:
    """The largest standard error of the mean of new candidates (n,) of a component, whose covariance is `Recentred`."""
    found = []
    for members, block in components(covariance):
        rows = np.flatnonzero(new[members])
        if block is not None and len(rows) > 0:
            found.append(np.mean(block[np.ix_(rows, rows)]))
    return float(np.sqrt(max(found, default=np.nan)))


def labels_of(ranking: Ranking) -> list[Label]:
    """The candidates of a ranking by their encoded labels."""
    return [(encode(context), encode(item)) for context, item in ranking.solution.labels]


def link(
    here: Comparisons, there: Comparisons, both: Comparisons, fit: Callable[..., Ranking], *, has_groups: bool
) -> Ranking:
    """The ranking of all texts of two runs on the scale of `there`; its `grown` marks new ones and has the `link`.

    Parameters
    ----------
    here, there, both
        The comparisons of this run, of the other, and of both.
    fit
        A function that fits comparisons and, where the method `has_groups`, takes `groups`.
    has_groups
        Whether the method estimates the means of groups.

    Raises
    ------
    ComparisonsError
        If a context has no text in both runs.
    ValueError
        If the scores of the method are shares of wins, which depend on whom a text met.

    Examples
    --------
    >>> from comparo import fit
    >>> last = Comparisons.from_rows([("a", "b", 0.8), ("b", "c", 0.7), ("a", "c", 0.9)])
    >>> this = Comparisons.from_rows([("b", "c", 0.7), ("new", "b", 0.8), ("new", "c", 0.9)])
    >>> rows = Comparisons.from_rows([("a", "b", 0.8), ("b", "c", 0.7), ("a", "c", 0.9), ("new", "b", 0.8)])
    >>> found = link(this, last, rows, fit, has_groups=False)
    >>> found.grown.link.common["item"].tolist(), found["new"].score > found["b"].score
    (['b', 'c'], True)
    """
    one, other = fit(here), fit(there)
    if one.method in UNCENTRED:
        raise ValueError(
            f"the shares of wins of {one.method} depend on whom a text met, so they link no runs; use mixed"
        )
    known, old = one.solution.labels, {*other.solution.labels}
    linked = {label[0] for label in known if label in old}
    if missing := {context for context, _ in known} - linked:
        place = "" if missing == {None} else f" of context {shown(min(missing, key=str))}"
        raise ComparisonsError(
            f"no text{place} is in both runs, so nothing links them; judge some texts again in this run, or rank these "
            "texts by comparo rank TEXTS --link RUN, which asks pairs of both"
        )
    cohort = {label: "there" if label in old else "here" for label in chain(other.solution.labels, known)}
    is_split = has_groups and len({*cohort.values()}) > 1
    joint = with_solution(fit(both, groups=cohort), groups=None) if is_split else fit(both)
    placed = on_scale(joint, np.array([label in old for label in joint.solution.labels]))
    return grown_from(other, placed, labels_of(other), common=drift(one, other))


def drift(one: Ranking, other: Ranking) -> Columns:
    """The texts that two rankings of one method have in common, and how far each moved: a table as `Link.common`."""
    here, there = one.solution.numbers, other.solution.numbers
    common = [label for label in here if label in there]
    nodes = np.array([here[label] for label in common], dtype=np.int64)
    others = np.array([there[label] for label in common], dtype=np.int64)
    moved, z = np.full(len(nodes), np.nan), np.full(len(nodes), np.nan)
    drifted = np.zeros(len(nodes), dtype=bool)
    parts = np.column_stack([one.graph.component[nodes], other.graph.component[others]])
    for part in np.unique(parts, axis=0):
        rows = np.flatnonzero(np.all(parts == part, axis=1))
        omega = _covariance(one, nodes[rows]) + _covariance(other, others[rows])
        omega = omega + 1e-9 * np.trace(omega) / len(rows) * np.eye(len(rows))
        left = np.arange(len(rows))
        # The farthest text is left out, because it biases the apparent shifts of the others.
        while len(left) >= max(FEW, len(rows) / 2):
            at = rows[left]
            precision = np.linalg.inv(omega[np.ix_(left, left)])
            projector = precision - np.outer(precision.sum(axis=1), precision.sum(axis=0)) / precision.sum()
            pull = projector @ (one.scores[nodes[at]] - other.scores[others[at]])
            moved[at] = pull / np.diagonal(projector)
            z[at] = pull / np.sqrt(np.diagonal(projector))
            farthest = int(first_best(np.abs(z[at])))
            if 2 * len(nodes) * ndtr(-abs(z[at[farthest]])) > MISFIT:
                break
            drifted[at[farthest]] = True
            left = np.delete(left, farthest)
    found: Columns = {} if one.context is None else {"context": one.context[nodes]}
    found |= {"item": one.items[nodes], "here": one.scores[nodes], "there": other.scores[others]}
    return found | {"moved": moved, "z": z, "drifted": drifted}


def _covariance(ranking: Ranking, nodes: LongIndex) -> Array:
    """The covariance of some nodes of one component; that of a component that is too large has only a diagonal."""
    for members, block in components(ranking.covariance):
        if members[0] <= nodes[0] <= members[-1]:
            at = nodes - members[0]
            return np.diag(ranking.std[nodes] ** 2) if block is None else np.asarray(block[np.ix_(at, at)])
    raise ValueError("the nodes are in no component")


@dataclass(frozen=True, eq=False)
class Past:
    """A run before its last growth.

    Parameters
    ----------
    items, data : Its items and the comparisons of them.
    since : The growth that added each of these items; items of growth 0 define the scale.
    is_linked : Whether it was another run, to whose scale this one is linked.
    """

    items: Items
    data: Comparisons
    since: Mapping[Label, int]
    is_linked: bool

    def added(self, data: Comparisons) -> Comparisons | None:
        """The comparisons that a linked run added to those of the other, None where there are none."""
        known = {*_labels_of_rows(self.data)}
        is_new = np.array([labels not in known for labels in _labels_of_rows(data)])
        return data.take(is_new).trimmed() if self.is_linked and is_new.any() else None

    def place(self, ranking: Ranking, before: Ranking, added: Ranking | None = None) -> Ranking:
        """The ranking on the scale of the first one, with the scores that it had `before`.

        `added` is the ranking by the comparisons that a linked run added.
        """

        def held(each: Ranking) -> Ranking:
            return on_scale(each, np.array([self.since.get(label) == 0 for label in labels_of(each)]))

        before = held(before)
        common = None if added is None else drift(added.judged, before.judged)
        return grown_from(before, held(ranking), self.since, common)

    def cohorts(self, labels: Sequence[tuple[Any, Any]]) -> dict[tuple[Any, Any], int]:
        """The growth that added each item (context, id), −1 for the last."""
        return {(context, item): self.since.get((encode(context), encode(item)), -1) for context, item in labels}


def _labels_of_rows(data: Comparisons) -> list[tuple[Any, ...]]:
    """The texts, context and judge of each comparison."""
    columns = data.to_rows()
    return list(zip(*(columns[name].tolist() for name in columns if name not in ("p", "weight")), strict=True))


def read_past(folder: Path) -> Past | None:
    """The run of a folder before its last growth; None where it never grew."""
    with reading(folder) as connection:
        if not connection.execute("SELECT 1 FROM growths").fetchone():
            return None
    history = History.read(folder)
    link = read_configuration(folder).get(LINK) or {}
    return history.past(len(history.marks), link.get("growth") == len(history.marks))


@dataclass(frozen=True, eq=False)
class History:
    """The items of a run, its judgements, and when it grew.

    `since` is the growth that added each item, in their order; `marks` the number of the last judgement before each
    growth.
    """

    items: Items
    since: Mapping[Label, int]
    marks: tuple[int, ...]
    judgements: Sequence[tuple[int, Key, Judgement]]

    @classmethod
    def read(cls, folder: Path) -> History:
        with reading(folder) as connection:
            rows = connection.execute("SELECT context, id, since FROM items ORDER BY number")
            since = {(context, name): growth for context, name, growth in rows}
            marks = connection.execute("SELECT judgements FROM growths ORDER BY number").fetchall()
            judgements = list(stored_judgements(connection))
        return cls(stored_items(folder), since, tuple(mark for (mark,) in marks), judgements)

    def past(self, growth: int, is_linked: bool) -> Past:
        """The run before a growth: its last one, or the next."""
        since = {label: number for label, number in self.since.items() if number < growth}
        rows = [row for row, label in enumerate(self.since) if label in since]
        answers = [
            one
            for number, key, one in self.judgements
            if bisect_left(self.marks, number) < growth and since.keys() >= {*slot_labels(key)}
        ]
        return Past(self.items.take(np.array(rows)), comparisons(answers), since, is_linked)


@dataclass(frozen=True, eq=False)
class Growth:
    """How a run has grown, or is about to.

    Parameters
    ----------
    number : How often it will have grown.
    digest : The digest of all its items.
    new : How many items of each context are new.
    paid : The dollars that earlier judgements count within a budget, and the dollars spent on them.
    audition : The entry about an audition in the run's identity, if any.
    past : The run before.
    mark : The number of the last judgement before the growth.
    configuration : That of the folder before the growth; None where the folder has grown already.
    linked_to : The folder of another run, which stays as it is: its texts and answers are copied. None where the run
        itself grows.
    """

    number: int
    digest: str
    new: Mapping[Any, int]
    paid: tuple[float, float]
    audition: str | None
    past: Past = field(repr=False)
    mark: int
    configuration: Mapping[str, Any] | None = field(default=None, repr=False)
    linked_to: Path | None = None
