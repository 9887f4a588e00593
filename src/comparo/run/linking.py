"""Two runs on one scale by the texts that both have: last year and this year, one class and another.

All answers are fitted together, with the runs as groups: texts of one run may be better on average. Scores are on the
scale of the other run, where the mean of its texts O is that of its own ranking, so with V the joint covariance

    Var(s_i − s̄_O) = V_ii − 2 V̄_iO + V̄_OO

is the variance of a score, and includes the error of the link. Common texts C may have changed in the eyes of the
judges. With the rankings of each run alone, a and b, and their covariances A and B,

    d = a_C − b_C,    Ω = A_CC + B_CC,    P = Ω⁻¹ − Ω⁻¹11ᵀΩ⁻¹/(1ᵀΩ⁻¹1),    z_i = (P d)_i/√P_ii

compares what text i moved with what the other common texts did: z_i is standard normal where none has changed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
from scipy.special import ndtr

from comparo.data.columns import shown
from comparo.data.comparisons import Comparisons
from comparo.errors import ComparisonsError
from comparo.model.linalg.graph import Batch, Pattern
from comparo.model.posterior import Covariance
from comparo.ranking.ranking import Ranking
from comparo.ranking.ranks import components
from comparo.ranking.scale import MISFIT
from comparo.ranking.tabular import Columns
from comparo.run.growth import UNCENTRED, grown_from, labels_of, on_scale
from comparo.types import Array, LongIndex, Mask

FEW = 3  # common texts below which none can be said to have moved: of two, either may have


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


@dataclass(frozen=True, eq=False)
class Linked:
    """Two runs on one scale.

    Parameters
    ----------
    ranking : All texts on the scale of the other run; its `grown` says which are new.
    common : A table of the common texts: score in this run and in the other, what it moved beyond the others (in this
        run, less in the other), z, and whether that is more than errors explain.
    error : The standard error of the link: of the shift between both runs, the largest where there are several.
    """

    ranking: Ranking
    common: Columns
    error: float

    @property
    def sentence(self) -> str:
        """How the runs are linked, in words."""
        count = len(self.common["item"])
        return f"linked by {count:,} common texts, with a standard error of {self.error:.2f} in every new score"

    @property
    def notes(self) -> tuple[str, ...]:
        """The common texts that moved, the farthest first, and whether there are too few to say so."""
        rows = np.argsort(-np.abs(self.common["z"]), kind="stable")
        found = [
            f"the common text {shown(self.common['item'][row])} moved by {self.common['moved'][row]:+.2f} against the "
            "others, more than errors explain; if it is not the same text, give it another id in one of the runs"
            for row in rows[self.common["drifted"][rows]].tolist()
        ]
        if np.isnan(self.common["z"]).any():
            found.append(f"fewer than {FEW} common texts do not show whether one of them moved; give more")
        return tuple(found)


def link(
    here: Comparisons, there: Comparisons, both: Comparisons, fit: Callable[..., Ranking], *, has_groups: bool
) -> Linked:
    """This run on the scale of the other.

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
    >>> found.common["item"].tolist(), found.ranking["new"].score > found.ranking["b"].score
    (['b', 'c'], True)
    """
    one, other = fit(here), fit(there)
    if one.method in UNCENTRED:
        raise ValueError(
            f"the shares of wins of {one.method} depend on whom a text met, so they link no runs; use mixed"
        )
    here_at, there_at = ({label: node for node, label in enumerate(_labels(each))} for each in (one, other))
    common = [label for label in here_at if label in there_at]
    if missing := {context for context, _ in here_at} - {context for context, _ in common}:
        place = "" if missing == {None} else f" of context {shown(min(missing, key=str))}"
        raise ComparisonsError(
            f"no text{place} is in both runs, so nothing links them; judge some texts again in this run, or add these "
            "texts to the other run, which chooses pairs of both: comparo rank TEXTS --out RUN"
        )
    cohort = {label: "there" if label in there_at else "here" for label in chain(there_at, here_at)}
    is_split = has_groups and len({*cohort.values()}) > 1
    joint = replace(fit(both, groups=cohort), group=None) if is_split else fit(both)
    kept = np.array([label in there_at for label in _labels(joint)])
    placed = grown_from(other, on_scale(joint, kept, np.zeros(len(joint))), labels_of(other))
    nodes = np.array([(here_at[label], there_at[label]) for label in common])
    drift, error = _drift(one, other, nodes)
    return Linked(replace(placed, covariance=Recentred(placed.covariance, kept)), drift, error)


def _labels(ranking: Ranking) -> list[tuple[Any, Any]]:
    return ranking.graph.labels(ranking.comparisons)


def _drift(one: Ranking, other: Ranking, nodes: LongIndex) -> tuple[Columns, float]:
    """The table of common texts from their nodes in both rankings (k, 2), and the largest error of a shift."""
    moved, z, errors = np.full(len(nodes), np.nan), np.full(len(nodes), np.nan), [0.0]
    parts = np.column_stack([ranking.graph.component[of] for ranking, of in zip((one, other), nodes.T, strict=True)])
    for part in np.unique(parts, axis=0):
        rows = np.flatnonzero(np.all(parts == part, axis=1))
        apart = one.scores[nodes[rows, 0]] - other.scores[nodes[rows, 1]]
        omega = sum(_covariance(ranking, of) for ranking, of in zip((one, other), nodes[rows].T, strict=True))
        precision = np.linalg.inv(omega + 1e-9 * np.trace(omega) / len(rows) * np.eye(len(rows)))
        total = precision.sum()
        errors.append(float(1 / np.sqrt(total)))
        if len(rows) < FEW:
            continue
        projector = precision - np.outer(precision.sum(axis=1), precision.sum(axis=0)) / total
        pull, alone = projector @ apart, np.diagonal(projector)
        moved[rows], z[rows] = pull / alone, pull / np.sqrt(alone)
    drifted = 2 * len(nodes) * ndtr(-np.abs(z)) <= MISFIT
    context: Columns = {} if one.context is None else {"context": one.context[nodes[:, 0]]}
    scores = {"here": one.scores[nodes[:, 0]], "there": other.scores[nodes[:, 1]]}
    table = context | {"item": one.items[nodes[:, 0]]} | scores | {"moved": moved, "z": z, "drifted": drifted}
    return table, max(errors)


def _covariance(ranking: Ranking, nodes: LongIndex) -> Array:
    """The covariance of some nodes of one component; that of a component that is too large has only a diagonal."""
    for members, block in components(ranking.covariance):
        if members[0] <= nodes[0] <= members[-1]:
            at = nodes - members[0]
            return np.diag(ranking.std[nodes] ** 2) if block is None else np.asarray(block[np.ix_(at, at)])
    raise ValueError("the nodes are in no component")
