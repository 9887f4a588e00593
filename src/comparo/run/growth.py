"""A run before it grew, and a ranking on the scale of another: of the run before, or of another run.

Growth g = 1, 2, … of a run adds items, and may change or remove some (`comparo.run.resume`). The table growths has the
number of the last judgement before each: a judgement belongs to the growth after whose mark it came, 0 for the first
run. The table former keeps items that were changed or removed, with the growths between which they were there. A
judgement counts in a growth if both its items were the same texts when it was made.

All answers are fitted together. Where two runs are linked, they are groups: texts of one may be better on average.
Scores are centred in each connected component, so added items would move all others. With r_i the scores of the first
ranking, or of the other run, all scores of a component are shifted by the same number, such that

    mean of (s_i − r_i) over the texts O of that ranking that are still there and as they were = 0.

With V the joint covariance, Var(s_i − s̄_O) = V_ii − 2 V̄_iO + V̄_OO is the variance of a score; it includes the error of
the link, that of s̄_N − s̄_O, with N the new texts. Common texts C of two runs may have changed in the eyes of the
judges. With the rankings of each run alone, a and b, and their covariances A and B,

    d = a_C − b_C,    Ω = A_CC + B_CC,    P = Ω⁻¹ − Ω⁻¹11ᵀΩ⁻¹/(1ᵀΩ⁻¹1),    z_i = (P d)_i/√P_ii

compares what text i moved with what the other common texts did: z_i is standard normal where none has changed. The one
with the largest |z_i| is named and left out, and so on, as long as errors do not explain it.
"""

from __future__ import annotations

import sqlite3
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
from comparo.data.run_folder import encode, named_rows, slot_labels, table_of_rows
from comparo.errors import ComparisonsError
from comparo.judges import Judgement
from comparo.model.linalg.graph import Batch, Pattern
from comparo.model.posterior import Covariance
from comparo.ranking.ranking import Ranking
from comparo.ranking.ranks import components, ranks
from comparo.ranking.scale import MISFIT
from comparo.ranking.scores import Grown, Link
from comparo.ranking.tabular import Columns
from comparo.rounding import first_best
from comparo.run.files import Label, numbered_judgements
from comparo.run.store import LINK, read_configuration, reading
from comparo.run.voices import comparisons
from comparo.types import Array, LongIndex, Mask

FEW = 3  # common texts below which none can be said to have moved: of two, either may have
UNCENTRED = ("win-ratio", "avg-prob")  # methods whose scores are shares of all comparisons, and not differences


@dataclass(frozen=True, eq=False)
class Recentred:
    """The covariance of scores around the mean of the `kept` candidates (n,) of their component.

    That of a context of more than `Limits.exact` items stays as it is.
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

    def block(self, batch: Batch) -> Array:
        own = self.around.block(batch)
        component = self.pattern.graph.component[batch.nodes].reshape(len(own), batch.size)
        is_same = component[:, :, None] == component[:, None, :]
        weight = np.where(is_same, self.kept[batch.nodes].reshape(len(own), 1, batch.size), 0.0)
        weight /= np.maximum(weight.sum(axis=2, keepdims=True), 1.0)
        to_zero = np.eye(batch.size) - weight
        return np.asarray(to_zero @ own @ to_zero.transpose(0, 2, 1))

    def difference(self, one: int, other: int) -> float:
        return self.around.difference(one, other)


def on_scale(ranking: Ranking, kept: Mask, reference: Array) -> Ranking:
    """The ranking with the mean of its `kept` candidates (n,) at that of their `reference` scores (n,).

    Standard errors are those of differences from that mean. Components without such a candidate, and scores that are
    shares of wins, stay as they are.

    >>> from comparo import fit
    >>> ranking = fit([("a", "b", 0.8), ("b", "new", 0.7), ("new", "a", 0.1)])
    >>> held = on_scale(ranking, ranking.items != "new", np.zeros(3))
    >>> round(held["a"].score + held["b"].score, 9), round(held["a"].score - ranking["a"].score, 2)
    (0.0, -0.51)
    """
    if ranking.method in UNCENTRED:
        return ranking
    component = ranking.graph.component
    number = np.bincount(component, kept)
    apart = np.bincount(component, np.where(kept, ranking.scores - reference, 0.0))
    shift = np.divide(apart, number, out=np.zeros(len(number)), where=number > 0)
    others = {name: getattr(ranking, name) for name in ("opinion", "controlled")}
    held: dict[str, Any] = {
        name: on_scale(other, kept, reference) for name, other in others.items() if other is not None
    }
    around = Recentred(ranking.covariance, kept)
    return replace(ranking, scores=ranking.scores - shift[component], covariance=around, **held)


def grown_from(
    before: Ranking, now: Ranking, old: Collection[Label], left_out: int = 0, common: Columns | None = None
) -> Ranking:
    """The ranking `now` with what its `old` candidates were `before`; the others are new.

    `common` are the texts that link two runs, as `drift` returns them.
    """
    nodes = {label: node for node, label in enumerate(labels_of(before)) if label in old}
    there = np.array([nodes.get(label, -1) for label in labels_of(now)])
    new = there < 0
    score, low, high = (np.where(new, np.nan, values[there]) for values in (before.scores, before.low, before.high))
    then, today = (np.where(new, 0, ranks(now.graph, np.where(new, -np.inf, each))) for each in (score, now.scores))
    link = None if common is None else Link(common, _link_error(now.covariance, new))
    return replace(now, grown=Grown(new, score, low, high, then, today, left_out, link))


def _link_error(covariance: Covariance, new: Mask) -> float:
    """The largest standard error of the mean of new candidates (n,) of a component, whose covariance is `Recentred`."""
    blocks = ((block, np.flatnonzero(new[members])) for members, block in components(covariance))
    found = [np.mean(block[np.ix_(rows, rows)]) for block, rows in blocks if block is not None and len(rows) > 0]
    return float(np.sqrt(max(found, default=np.nan)))


def labels_of(ranking: Ranking) -> list[Label]:
    """The candidates of a ranking by their encoded labels."""
    return [(encode(context), encode(item)) for context, item in ranking.graph.labels(ranking.comparisons)]


def link(
    here: Comparisons, there: Comparisons, both: Comparisons, fit: Callable[..., Ranking], *, has_groups: bool
) -> Ranking:
    """All texts of two runs on the scale of the other; `grown` of the ranking says which are new, and has the `link`.

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
    known, old = _labels(one), {*_labels(other)}
    if missing := {context for context, _ in known} - {context for context, item in known if (context, item) in old}:
        place = "" if missing == {None} else f" of context {shown(min(missing, key=str))}"
        raise ComparisonsError(
            f"no text{place} is in both runs, so nothing links them; judge some texts again in this run, or rank these "
            "texts by comparo rank TEXTS --link RUN, which asks pairs of both"
        )
    cohort = {label: "there" if label in old else "here" for label in chain(_labels(other), known)}
    is_split = has_groups and len({*cohort.values()}) > 1
    joint = replace(fit(both, groups=cohort), group=None) if is_split else fit(both)
    placed = on_scale(joint, np.array([label in old for label in _labels(joint)]), np.zeros(len(joint)))
    return grown_from(other, placed, labels_of(other), common=drift(one, other))


def _labels(ranking: Ranking) -> list[tuple[Any, Any]]:
    return ranking.graph.labels(ranking.comparisons)


def drift(one: Ranking, other: Ranking) -> Columns:
    """The texts that two rankings of one method have in common, and how far each moved: a table as `Link.common`."""
    here, there = ({label: node for node, label in enumerate(_labels(each))} for each in (one, other))
    nodes = np.array([(node, there[label]) for label, node in here.items() if label in there]).reshape(-1, 2)
    moved, z = np.full(len(nodes), np.nan), np.full(len(nodes), np.nan)
    drifted = np.zeros(len(nodes), dtype=bool)
    parts = np.column_stack([ranking.graph.component[of] for ranking, of in zip((one, other), nodes.T, strict=True)])
    for part in np.unique(parts, axis=0):
        rows = np.flatnonzero(np.all(parts == part, axis=1))
        omega = sum(_covariance(ranking, of) for ranking, of in zip((one, other), nodes[rows].T, strict=True))
        omega = omega + 1e-9 * np.trace(omega) / len(rows) * np.eye(len(rows))
        left = np.arange(len(rows))
        # The farthest text is left out: it moves where the others seem to be.
        while len(left) >= max(FEW, len(rows) / 2):
            at = rows[left]
            precision = np.linalg.inv(omega[np.ix_(left, left)])
            projector = precision - np.outer(precision.sum(axis=1), precision.sum(axis=0)) / precision.sum()
            pull = projector @ (one.scores[nodes[at, 0]] - other.scores[nodes[at, 1]])
            moved[at], z[at] = pull / np.diagonal(projector), pull / np.sqrt(np.diagonal(projector))
            farthest = int(first_best(np.abs(z[at])))
            if 2 * len(nodes) * ndtr(-abs(z[at[farthest]])) > MISFIT:
                break
            drifted[at[farthest]] = True
            left = np.delete(left, farthest)
    context: Columns = {} if one.context is None else {"context": one.context[nodes[:, 0]]}
    scores = {"here": one.scores[nodes[:, 0]], "there": other.scores[nodes[:, 1]]}
    return context | {"item": one.items[nodes[:, 0]]} | scores | {"moved": moved, "z": z, "drifted": drifted}


def _covariance(ranking: Ranking, nodes: LongIndex) -> Array:
    """The covariance of some nodes of one component; that of a component that is too large has only a diagonal."""
    for members, block in components(ranking.covariance):
        if members[0] <= nodes[0] <= members[-1]:
            at = nodes - members[0]
            return np.diag(ranking.std[nodes] ** 2) if block is None else np.asarray(block[np.ix_(at, at)])
    raise ValueError("the nodes are in no component")


@dataclass(frozen=True, eq=False)
class State:
    """The items of a run at some growth, and the answers about them."""

    items: Items
    data: Comparisons


@dataclass(frozen=True, eq=False)
class Past:
    """A run before its last growth.

    Parameters
    ----------
    before : Its items and answers before the last growth.
    since : The growth that brought each item of before that is still there and as it was; those of growth 0 hold the
        scale.
    first : The first run, where some of its items are gone or changed; None where all of them hold the scale.
    left_out : How many judgements the last growth left out.
    is_linked : Whether it was another run, to whose scale this one is linked.
    """

    before: State
    since: Mapping[Label, int]
    first: State | None = None
    left_out: int = 0
    is_linked: bool = False

    def added(self, data: Comparisons) -> Comparisons | None:
        """Those of the comparisons that were not there before; None where there are none."""
        known = {*_pairs(self.before.data)}
        is_new = np.array([pair not in known for pair in _pairs(data)])
        return data.take(is_new).trimmed() if is_new.any() else None

    def place(self, ranking: Ranking, rank: Callable[[State], Ranking], added: Ranking | None = None) -> Ranking:
        """The ranking on the scale of the first one, with what it was before.

        `rank` is how it is made; `added` the ranking by the comparisons that a linked run added.
        """
        reference: dict[Label, float] = {}
        if self.first is not None:
            first = rank(self.first)
            reference = dict(zip(labels_of(first), first.scores.tolist(), strict=True))

        def held(each: Ranking) -> Ranking:
            labels = labels_of(each)
            kept: Mask = np.array([self.since.get(label) == 0 for label in labels])
            return on_scale(each, kept, np.array([reference.get(label, 0.0) for label in labels]))

        before, now = held(rank(self.before)), held(ranking)
        common = None if added is None else drift(added.judged, before.judged)
        return grown_from(before, now, self.since, self.left_out, common)

    def cohorts(self, labels: Sequence[tuple[Any, Any]]) -> dict[tuple[Any, Any], int]:
        """The growth that brought each item (context, id), −1 for the last."""
        return {(context, item): self.since.get((encode(context), encode(item)), -1) for context, item in labels}


def _pairs(data: Comparisons) -> list[tuple[Any, ...]]:
    """The context, the texts and the judge of each comparison."""
    nothing = [None] * len(data)
    context = nothing if data.contexts is None else data.contexts[data.context].tolist()
    judge = nothing if data.judges is None else data.judges[data.judge].tolist()
    ends = (data.items[column].tolist() for column in (data.first, data.second))
    return list(zip(context, *ends, judge, strict=True))


def count_growths(connection: sqlite3.Connection) -> int | None:
    """How often a run has grown; None where it holds no items yet."""
    if not connection.execute("SELECT 1 FROM items LIMIT 1").fetchone():
        return None
    return int(connection.execute("SELECT count(*) FROM growths").fetchone()[0])


def read_past(folder: Path) -> Past | None:
    """The run of a folder before its last growth; None where it never grew."""
    with reading(folder) as connection:
        if not count_growths(connection):
            return None
        history = History.read(connection, str(folder))
    link = read_configuration(folder).get(LINK) or {}
    return history.past(history.growth, history.left_out, is_linked=link.get("growth") == history.growth)


@dataclass(frozen=True, eq=False)
class History:
    """All items that a run has or had, its judgements, and when it grew.

    `rows` are those of the tables items and former; `marks` the number of the last judgement before each growth.
    """

    source: str
    rows: Sequence[Mapping[str, Any]]
    texts: Mapping[str, str | None]
    marks: tuple[int, ...]
    judgements: Sequence[tuple[int, tuple[Label, ...], Judgement]]
    left_out: int

    @classmethod
    def read(cls, connection: sqlite3.Connection, source: str) -> History:
        rows = named_rows(connection, "SELECT number AS place, * FROM items")
        rows += named_rows(connection, "SELECT * FROM former")
        growths = connection.execute("SELECT judgements, left_out FROM growths ORDER BY number").fetchall()
        judgements = [
            (number, slot_labels(key), judgement)
            for number, key, judgement in numbered_judgements(connection, "error IS NULL")
        ]
        texts = dict(connection.execute("SELECT context, text FROM contexts").fetchall())
        return cls(
            source,
            sorted(rows, key=lambda row: row["place"]),
            texts,
            tuple(mark for mark, _ in growths),
            judgements,
            growths[-1][1] if growths else 0,
        )

    @property
    def growth(self) -> int:
        """How often the run has grown."""
        return len(self.marks)

    def since(self, growth: int) -> dict[Label, int]:
        """The items of a growth, and the growth that brought each as it was then."""
        return {(row["context"], row["id"]): row["since"] for row in self._there(growth)}

    def answers(self, growth: int) -> list[Judgement]:
        """The answers about the items of a growth, as they were then, that came in it or before."""
        since = self.since(growth)
        found: dict[Any, Judgement] = {}
        for number, labels, judgement in self.judgements:
            made = bisect_left(self.marks, number)
            if made <= growth and all(label in since and since[label] <= made for label in labels):
                found.setdefault((labels, judgement.question.voice), judgement)  # one stored twice counts once
        return list(found.values())

    def state(self, growth: int) -> State:
        """The items of a growth and the answers about them."""
        rows = self._there(growth)
        texts = {row["context"]: row.get("context_text", self.texts.get(row["context"])) for row in rows}
        items = Items.of(table_of_rows(rows, texts, self.source), has_images=True)
        return State(items, comparisons(self.answers(growth)))

    def past(self, growth: int, left_out: int, gone: Collection[Label] = (), is_linked: bool = False) -> Past:
        """The run before a growth: its last one, or the next, which leaves out some judgements and items, `gone`."""
        now = self.since(self.growth)
        since = {label: came for label, came in now.items() if came < growth and label not in gone}
        is_whole = sum(came == 0 for came in since.values()) == len(self.since(0))
        return Past(self.state(growth - 1), since, None if is_whole else self.state(0), left_out, is_linked)

    def _there(self, growth: int) -> list[Mapping[str, Any]]:
        return [row for row in self.rows if row["since"] <= growth < row.get("until", growth + 1)]


@dataclass(frozen=True, eq=False)
class Growth:
    """How a run has grown, or is about to.

    Parameters
    ----------
    number : How often it will have grown.
    digest : That of all its items.
    new : How many items of each context are new.
    paid : What all judgements before count for within a budget, and what was spent on them, in dollars.
    audition : What the identity of the run says of an audition, if anything.
    past : The run before.
    mark : The number of the last judgement before.
    changed, removed : The items whose text is another now, and that are not there any more.
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
    changed: tuple[Label, ...] = ()
    removed: tuple[Label, ...] = ()
    configuration: Mapping[str, Any] | None = field(default=None, repr=False)
    linked_to: Path | None = None
