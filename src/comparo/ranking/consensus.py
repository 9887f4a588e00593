"""What people would say of each text, as far as one judge can tell.

Where systems answer many inputs, a judge tells systems apart much better than the single texts of a system: most of
what it says about a text beyond its system is its own taste, and people share a part k of it, the validity. With s the
judge's score and m the mean score of the text's group over all its texts, the consensus estimate is

    t = m + k·(s − m).

One judge's answers do not determine k. The usual one is a rule whose constants were measured on recorded judges beside
people's scores (`usual_validity`; docs/validity.md). Without groups, m is what the style of the text predicts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Real
from typing import Literal

import numpy as np

from comparo.model.estimators.panel import Panel
from comparo.model.estimators.panel_covariance import PanelInformation
from comparo.model.estimators.poe import Product
from comparo.model.inference.random_effects import Effects
from comparo.model.linalg.graph import Batch, Pattern
from comparo.model.posterior import Covariance
from comparo.ranking.flips import orders_correlation
from comparo.ranking.grouping import group_means
from comparo.ranking.ranking import Ranking
from comparo.types import Array

PEOPLE = 1.2  # how much more people's scores vary within systems than between them
LEAST = 0.15  # the least validity
STYLE = 0.5  # the validity beyond style, where no groups are known
PANEL_STYLE = 0.7  # the same of a panel (docs/panel.md)


def usual_validity(share_between_groups: float, orders_correlation: float | None = None) -> float:
    """The share of a judge's view of single texts, beyond their groups, that people usually share.

        k = max(0.15, min(1.2·B/(1 − B), r, 1))

    People's scores vary about 1.2 times as much within systems as between them; where a judge's vary more, the rest is
    its own taste. What changes with the order of the texts is no property of a text, which is why r is a bound.

    1.2 and 0.15 had the best mean agreement with people over five sets of 99 recorded judges and wordings. Fitted on
    four of the sets they were the same, but for one set (1 in place of 1.2), and on the fifth the rule agreed better
    with people than k = 1 in every case (docs/validity.md).

    Parameters
    ----------
    share_between_groups
        B, the share of the variance of the judge's scores, without noise, that is between groups.
    orders_correlation
        r, the correlation of what the judge says about a text in either position, beyond its group; None where only one
        order was asked, which gives no bound.

    Returns
    -------
    float
        k, from 0.15 to 1.

    Examples
    --------
    >>> usual_validity(0.2), usual_validity(0.5, 0.25), usual_validity(0.01, -0.1)
    (0.3, 0.25, 0.15)
    """
    between = min(max(share_between_groups, 0.0), 1.0)
    bound = 1.0 if orders_correlation is None else orders_correlation
    return max(min(PEOPLE * between / max(1.0 - between, 1e-9), bound, 1.0), LEAST)


def check_validity(validity: float | None) -> None:
    """A ValueError for a validity that is no share of 1."""
    number = isinstance(validity, Real) and not isinstance(validity, bool)
    if validity is not None and not (number and 0 <= validity <= 1):
        raise ValueError(f"validity = {validity!r} is not between 0 and 1; without one, the usual is estimated")


def consensus(ranking: Ranking, validity: float | None = None) -> Ranking:
    """The ranking of what people would say, from a judge's ranking with estimated variances.

        t = m + k·(s − m),    own error: max(1.2·Var(m), k·σ²) − k²·σ²

    σ² is the variance of the judge's true scores within groups. Its part k·σ² is what people see too, or 1.2·Var(m),
    which is usual among people, where that is larger; k·(s − m) explains k²·σ² of it. Validity 1 is the judge's own
    ranking, without own error. Of a panel, s is the consensus of the voices that count (`Panel.counts`): those that say
    about as much about the texts as the best. Intervals contain the errors of s and of m, and the own error; neither
    the uncertainty of k, nor that the judge may be wrong about a whole group.

    Parameters
    ----------
    ranking
        What `fit` returned with prior="estimated" or as a panel, and groups or features.
    validity
        k, from 0 to 1; by default `usual_validity` of the ranking's groups, or, where there is only style, 0.5 of a
        judge and 0.7 of a panel.

    Returns
    -------
    Ranking
        Its `judged` is the ranking given; where something is held equal, its `controlled` is the consensus of that.

    Raises
    ------
    ValueError
        If the ranking has neither groups nor style, or `validity` is not between 0 and 1.

    Examples
    --------
    >>> from comparo import fit
    >>> pairs = [("a", "b", 0.9), ("b", "a", 0.2), ("b", "c", 0.6), ("c", "b", 0.3), ("a", "c", 0.7), ("c", "a", 0.2)]
    >>> rows = [{"context": context, "first": i, "second": j, "p": p} for context in "xyz" for i, j, p in pairs]
    >>> judged = fit(rows, prior="estimated", groups="items", bias="joint")
    >>> found = consensus(judged, validity=0.3)
    >>> found.estimate, found.validity, found.judged is judged
    ('consensus', 0.3, True)
    """
    check_validity(validity)
    judged = ranking.judged
    equal = None if judged.controlled is None else consensus(judged.controlled, validity)
    heard = _of_those_that_count(judged)
    parts = parts_of(heard)
    if parts is None:
        needed = "fit with prior='estimated' and groups or features"
        if judged.panel is not None:
            most = judged.panel.opinion.panel_graph.limits.exact
            needed = f"a panel needs groups or features, and at most {most:,} texts in a context"
        raise ValueError(f"a consensus needs to know what is expected of a text; {needed}")
    k = float(parts.usual if validity is None else validity)
    if k == 1.0:
        return replace(judged, validity=k, opinion=judged, controlled=equal)
    scores = judged.graph.centre(k * heard.scores + (1.0 - k) * parts.expected)
    own = max(PEOPLE * parts.between, k * parts.within) - k**2 * parts.within
    added = k * (1.0 - k) * parts.joint + 0.5 * (1.0 - k) ** 2 * parts.columns @ parts.spread
    covariance = ConsensusCovariance(heard.covariance, k, max(own, 0.0), parts.columns, added)
    return replace(judged, scores=scores, covariance=covariance, validity=k, opinion=judged, controlled=equal)


def _of_those_that_count(judged: Ranking) -> Ranking:
    """The ranking by the voices that count for what people would say; the same where all do, or there is one judge."""
    panel = judged.panel
    if panel is None or panel.counts.all():
        return judged
    heard, comparisons = panel.of_those_that_count(), judged.comparisons.take(panel.counts[panel.voice])
    return replace(
        judged,
        comparisons=comparisons,
        graph=heard.graph,
        scores=heard.scores,
        covariance=heard.opinion.posterior,
        panel=heard,
    )


def expected_by(judged: Ranking) -> Literal["groups", "style"] | None:
    """By what something is expected of each text of a judge's or a panel's ranking; None where by nothing."""
    effects, panel = judged.effects, judged.panel
    if panel is not None:
        group, has_style = panel.group, panel.opinion.predicted is not None
    elif effects is not None:
        group, has_style = effects.group, effects.style is not None
    else:
        return None
    return "groups" if group is not None else "style" if has_style else None


def parts_of(judged: Ranking) -> Parts | None:
    """What is expected of each text by its group, or else by its style; None where neither is known."""
    effects, product, panel, by = judged.effects, judged.product, judged.panel, expected_by(judged)
    if by is None:
        return None
    if panel is not None:
        return _of_panel(judged, panel) if by == "groups" else _of_panel_style(panel.opinion)
    assert effects is not None
    assert product is not None
    return _of_groups(judged, effects, product) if by == "groups" else _of_style(effects, product)


@dataclass(frozen=True, eq=False)
class Parts:
    """What is expected of each text, e = columns·z (n,), and how well that is known.

    `columns` (n, M) are centred in components; `joint` (n, M) is Cov(s, z) and `spread` (M, M) Cov(z). `between` and
    `within` are the variances between groups and within them, and `usual` is the usual validity.
    """

    expected: Array
    columns: Array
    joint: Array
    spread: Array
    between: float
    within: float
    usual: float


def _of_groups(ranking: Ranking, effects: Effects, product: Product) -> Parts:
    """z are the means of the groups' scores, z = W·s with W = (PᵀP)⁻¹Pᵀ, which are centred in components.

    By least squares, z is not the worse for having met good groups only; where every context has a text of every group,
    it is the mean. Cov(s, z) = φ·(H⁻¹Wᵀ + F S⁻¹ (W F)ᵀ). That of z around the true mean of a group has σ²·W Wᵀ besides,
    since its texts are some of all that it could have written. Variances between and within groups are those of an
    analysis of variance; what style explains within groups is part of the second.
    """
    group, graph, laplacian = effects.group, ranking.graph, product.laplacian
    assert group is not None
    columns, means = group_means(graph, group)
    expected = columns @ (means @ ranking.scores)
    right = np.zeros((laplacian.pattern.unknowns, len(means)))
    right[: graph.nodes] = means.T
    joint = laplacian.solve(right)[: graph.nodes]
    if effects.spread is not None and effects.between is not None:
        joint = joint + effects.spread @ (effects.between @ (means @ effects.spread).T)
    joint = product.dispersion * graph.centre(joint)
    predicted = np.zeros(graph.nodes) if effects.mean is None else effects.mean
    within = effects.scores + float(np.var(predicted - columns @ (means @ predicted)))
    between = _between(ranking.scores, expected, len(means))
    orders = orders_correlation(ranking.comparisons, graph, group)
    usual = usual_validity(between / (between + within), orders)
    spread = means @ joint + within * means @ means.T
    return Parts(expected, columns, joint, 0.5 * (spread + spread.T), between, within, usual)


def _between(scores: Array, expected: Array, groups: int) -> float:
    """The variance between groups, without what chance adds to the means of few texts."""
    chance = float(np.var(scores - expected)) / max(len(scores) / groups - 1.0, 1.0)
    return max(float(np.var(expected)) - chance, 0.0)


def _of_panel(ranking: Ranking, panel: Panel) -> Parts:
    """As `_of_groups`, of what the voices agree on, with Cov(t) per context; reversed voices are sign-flipped for r.

    The variance within groups is that of the scores around their group's mean, and what is not known of them.
    """
    graph, covariance, comparisons, group = ranking.graph, ranking.covariance, ranking.comparisons, panel.group
    assert group is not None
    columns, means = group_means(graph, group)
    expected, joint = columns @ (means @ ranking.scores), np.empty((graph.nodes, len(means)))
    for batch in covariance.pattern.batches:
        block = covariance.block(batch)
        joint[batch.nodes] = (block @ means.T[batch.nodes].reshape(len(block), batch.size, -1)).reshape(-1, len(means))
    centred = graph.nodes / max(graph.nodes - graph.components, 1)
    within = centred * float(np.var(ranking.scores - expected) + np.nanmean(covariance.std**2))
    between = _between(ranking.scores, expected, len(means))
    flipped = np.where(panel.reversed[panel.voice], 1.0 - comparisons.p, comparisons.p)
    orders = orders_correlation(replace(comparisons, p=flipped), graph, group)
    usual = usual_validity(between / (between + within), orders)
    spread = means @ joint + within * means @ means.T
    return Parts(expected, columns, joint, 0.5 * (spread + spread.T), between, within, usual)


def _of_style(effects: Effects, product: Product) -> Parts:
    """z are the coefficients of style: Cov(s, z) = φ·F S⁻¹ and Cov(z) = φ·S⁻¹; people's usual variance is not known."""
    mean, columns, spread, between = effects.mean, effects.columns, effects.spread, effects.between
    assert mean is not None
    assert columns is not None
    assert spread is not None
    assert between is not None
    count, dispersion = columns.shape[1], product.dispersion
    joint, cov = dispersion * (spread @ between)[:, :count], dispersion * between[:count, :count]
    return Parts(mean, columns, joint, cov, 0.0, effects.scores, STYLE)


def _of_panel_style(opinion: PanelInformation) -> Parts:
    """As `_of_style`, of what the voices agree on: scores follow z by F = (W + 1/σ²)⁻¹P/σ², so Cov(t, z) = F Cov(z)."""
    predicted = opinion.predicted
    assert predicted is not None
    variances, columns = predicted.variances, opinion.graph.centre(predicted.columns)
    between, theta = variances.precision(variances.ratio)
    follow = opinion.graph.centre(opinion.given(variances.ratio, predicted.columns, np.zeros((len(columns), 0)))[1])
    square = opinion.unit**2
    return Parts(
        opinion.unit * columns @ theta,
        columns,
        square * follow @ between,
        square * between,
        0.0,
        square * variances.ratio,
        PANEL_STYLE,
    )


@dataclass(frozen=True, eq=False)
class ConsensusCovariance:
    """Cov(t) of t = k·s + (1 − k)·e, e = P z, with P (n, M) the centred `columns`, and an `own` error of each text.

        Cov(t) = k²·Cov(s) + Y Pᵀ + P Yᵀ + own·C,    Y = k(1 − k)·Cov(s, z) + ½(1 − k)²·P Cov(z)

    C = I − 1/items centres in each component; `added` is Y. All is exact, given Cov(s). Contexts share the uncertainty
    of z, which differences within a context take into account, as nothing here compares two contexts.
    """

    judged: Covariance
    share: float
    own: float
    columns: Array
    added: Array

    @property
    def pattern(self) -> Pattern:
        return self.judged.pattern

    @cached_property
    def _items(self) -> Array:
        """How many nodes the component of each node has, shape (n,)."""
        component = self.pattern.graph.component
        return np.bincount(component)[component].astype(float)

    @cached_property
    def std(self) -> Array:
        added = 2.0 * np.sum(self.added * self.columns, axis=1) + self.own * (1.0 - 1.0 / self._items)
        return np.asarray(np.sqrt(np.maximum(self.share**2 * self.judged.std**2 + added, 0.0)))

    def block(self, batch: Batch) -> Array:
        shape, graph = (batch.end - batch.begin, batch.size), self.pattern.graph
        columns, added = (of[batch.nodes].reshape(*shape, -1) for of in (self.columns, self.added))
        half = added @ columns.transpose(0, 2, 1)
        component = graph.component[batch.nodes].reshape(shape)
        together = component[:, :, None] == component[:, None, :]
        centre = np.eye(batch.size) - together / self._items[batch.nodes].reshape(*shape, 1)
        return np.asarray(self.share**2 * self.judged.block(batch) + half + half.transpose(0, 2, 1) + self.own * centre)

    def difference(self, one: int, other: int) -> float:
        if one == other:
            return 0.0
        apart = (self.added[one] - self.added[other]) @ (self.columns[one] - self.columns[other])
        return float(self.share**2 * self.judged.difference(one, other) + 2.0 * apart + 2.0 * self.own)
