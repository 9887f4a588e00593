"""The consensus estimate: how people would score each text, from one judge's or one panel's ranking.

Where systems answer many inputs, a judge separates systems much better than the single texts of a system: most of its
view of a text beyond the system is its own taste, and people share a part k of it, the validity. With s the judge's
score and m the mean score of the text's group over all its texts, the consensus estimate is

    t = m + k·(s − m).

One judge's answers do not determine k. The default is a rule whose constants were measured on recorded judges and
people's scores (`usual_validity`; docs/validity.md). Without groups, m is the score that the text's style predicts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Real
from typing import Literal

import numpy as np

from comparo.errors import Message, OptionError
from comparo.model.estimators.panel import of_those_that_count
from comparo.model.estimators.panel_covariance import Panel, PanelInformation
from comparo.model.inference.random_effects import Effects
from comparo.model.posterior import Posterior, evenly
from comparo.model.solution import Solution
from comparo.ranking.grouping import group_means
from comparo.ranking.ranking import Ranking, estimated, with_solution
from comparo.ranking.self_consistency import orders_correlation
from comparo.types import Array, Index

PEOPLE = 1.2  # variance of people's scores within systems, relative to that between them
LEAST_VALIDITY = 0.15  # the least validity
STYLE = 0.5  # the validity beyond style, where no groups are known
PANEL_STYLE = 0.7  # the same of a panel (docs/panel.md)


def usual_validity(share_between_groups: float, orders_correlation: float | None = None) -> float:
    """The share of a judge's view of single texts, beyond their groups, that people usually share.

        k = max(0.15, min(1.2·B/(1 − B), r, 1))

    People's scores vary about 1.2 times as much within systems as between them; where a judge's vary more, the rest is
    its own taste. An effect of the order of the texts is no property of a text, which is why r is a bound.

    1.2 and 0.15 had the best mean agreement with people over five sets of 99 recorded judges and wordings. Fitted on
    four of the sets they were the same, but for one set (1 in place of 1.2), and on the fifth the rule agreed better
    with people than k = 1 in every case (docs/validity.md).

    Parameters
    ----------
    share_between_groups
        B, the share of the variance of the judge's scores, without noise, that is between groups.
    orders_correlation
        r, the correlation of the judge's views of a text in either position, beyond its group; None where only one
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
    return max(min(PEOPLE * between / max(1.0 - between, 1e-9), bound, 1.0), LEAST_VALIDITY)


def check_validity(validity: float | None) -> None:
    """Raise a ValueError if `validity` is neither None nor between 0 and 1."""
    number = isinstance(validity, Real) and not isinstance(validity, bool)
    if validity is not None and not (number and 0 <= validity <= 1):
        raise OptionError("validity", validity, "is not between 0 and 1; without one, the usual is estimated")


def consensus(ranking: Ranking, validity: float | None = None) -> Ranking:
    """The ranking that people would give, estimated from a judge's ranking with estimated variances.

        t = m + k·(s − m),    own error: max(1.2·Var(m), k·σ²) − k²·σ²
        Cov(t) = k²·Cov(s) + k(1 − k)·[Cov(s, m) + Cov(m, s)] + (1 − k)²·Cov(m) + own error

    σ² is the variance of the judge's true scores within groups. The variance of people's is taken to be k·σ², or the
    usual 1.2·Var(m) where that is larger; k·(s − m) explains k²·σ² of it. Validity 1 is the judge's own ranking,
    without own error. Of a panel, s is the consensus of the voices in `Panel.counts`, whose content share is near that
    of the best. Intervals include the errors of s and of m, and the own error, but not the uncertainty of k, nor that
    the judge may be wrong about a whole group.

    Parameters
    ----------
    ranking
        What `fit` returned with prior="estimated" or as a panel, and groups or features.
    validity
        k, from 0 to 1; by default `usual_validity` of the ranking's groups, or, where there is only style, 0.5 of a
        judge and 0.7 of a panel. Where that is 1, its bound, as in many small runs, it is not known: k is 1, and the
        validity of its solution is None.

    Returns
    -------
    Ranking
        Its `judged` is the ranking given; its `controlled` is the consensus of the controlled ranking, if there is one.

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
    >>> found.estimate, found.solution.validity, found.judged is judged
    ('consensus', 0.3, True)
    """
    check_validity(validity)
    judged = ranking.judged
    equal = None if judged.controlled is None else consensus(judged.controlled, validity)
    if len(signs := either_sign(judged)) > 1:
        each = [consensus(replace(one, controlled=None), validity) for one in signs]
        scores, posterior = evenly([(one.scores, one.covariance) for one in each])
        return estimated(judged, each[0].solution.validity, scores=scores, covariance=posterior, controlled=equal)
    solution = of_those_that_count(judged.solution)
    counted = judged if solution is judged.solution else _by(judged, solution)
    parts = parts_of(counted)
    if parts is None:
        needed: str = Message("fit with {prior:'estimated'} and groups or features")
        if (panel := solution.panel) is not None:
            most = panel.opinion.panel_graph.limits.exact
            needed = f"a panel needs groups or features, and at most {most:,} texts in a context"
        raise ValueError("a consensus needs to know what is expected of a text; " + needed)
    k = float(parts.usual if validity is None else validity)
    if k == 1.0:  # at its bound the rule tells nothing
        return estimated(judged, validity, controlled=equal)
    scores = judged.graph.centre(k * counted.scores + (1.0 - k) * parts.expected)
    own = max(PEOPLE * parts.between, k * parts.within) - k**2 * parts.within
    roots = 2.0 * k * (1.0 - k) * parts.joint + (1.0 - k) ** 2 * parts.columns @ parts.spread
    covariance = Posterior((counted.covariance,), (k**2,), roots=roots, others=parts.columns, own=max(own, 0.0))
    return estimated(judged, k, scores=scores, covariance=covariance, controlled=equal)


def either_sign(judged: Ranking) -> list[Ranking]:
    """The ranking; of a panel whose voices are undecided, the two rankings of which it is the mixture."""
    return [_by(judged, one) for one in judged.solution.either] or [judged]


def _by(judged: Ranking, solution: Solution) -> Ranking:
    """The ranking with another solution for the same groups."""
    solution = replace(solution, groups=judged.solution.groups)
    return replace(judged, solution=solution, scores=solution.scores, covariance=solution.covariance)


def expected_by(judged: Ranking) -> Literal["groups", "style"] | None:
    """Whether groups or style predict the texts of a judge's or a panel's ranking; None where neither does."""
    effects, panel = judged.solution.effects, judged.solution.panel
    if panel is not None:
        group, has_style = panel.group, panel.opinion.predicted is not None
    elif effects is not None:
        group, has_style = effects.group, effects.style is not None
    else:
        return None
    return "groups" if group is not None else "style" if has_style else None


def parts_of(judged: Ranking) -> Parts | None:
    """The prediction of each text by its group, or else by its style; None where neither is known."""
    effects, panel = judged.solution.effects, judged.solution.panel
    if panel is not None:
        return _of_panel_style(panel.opinion) if panel.group is None else _of_panel(judged, panel, panel.group)
    if effects is None:
        return None
    if effects.group is None:
        return _of_style(effects)
    return _of_one_judge(judged, effects, effects.group)


@dataclass(frozen=True, eq=False)
class Parts:
    """The prediction of each text, e = columns·z (n,), and its uncertainty.

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


def _grouped(ranking: Ranking, group: Index, columns: Array, means: Array, joint: Array, within: float) -> Parts:
    """The prediction by the groups' mean scores z = W·s, with W = (PᵀP)⁻¹Pᵀ and P centred in components.

    Least squares adjusts z for the other groups in a group's contexts; where every context has a text of every group,
    z is the mean. `columns` is P, `means` is W and `joint` is Cov(s, z). Cov(z) includes σ²·W Wᵀ, since the texts of a
    group are a sample. The variance between groups is that of an analysis of variance, without the part that chance
    adds to the means of few texts.
    """
    scores, expected = ranking.scores, columns @ (means @ ranking.scores)
    chance = float(np.var(scores - expected)) / max(len(scores) / len(means) - 1.0, 1.0)
    between = max(float(np.var(expected)) - chance, 0.0)
    orders = orders_correlation(ranking.comparisons, ranking.graph, group)
    spread = means @ joint + within * means @ means.T
    usual = usual_validity(between / (between + within), orders)
    return Parts(expected, columns, joint, 0.5 * (spread + spread.T), between, within, usual)


def _of_one_judge(ranking: Ranking, effects: Effects, group: Index) -> Parts:
    """Groups, one judge: Cov(s, z) = φ·(H⁻¹Wᵀ + F S⁻¹ (W F)ᵀ); `within` includes the variance by style."""
    graph, laplacian = ranking.graph, ranking.solution.laplacian
    assert laplacian is not None
    columns, means = group_means(graph, group)
    right = np.zeros((laplacian.pattern.unknowns, len(means)))
    right[: graph.nodes] = means.T
    joint = laplacian.solve(right)[: graph.nodes]
    joint = joint + effects.spread @ (effects.between @ (means @ effects.spread).T)
    within = effects.scores + float(np.var(effects.mean - columns @ (means @ effects.mean)))
    return _grouped(ranking, group, columns, means, effects.dispersion * graph.centre(joint), within)


def _of_panel(ranking: Ranking, panel: Panel, group: Index) -> Parts:
    """Groups, a panel: Cov(s, z) is computed per context; reversed voices are sign-flipped for r.

    The variance within groups is that of the scores around their group's mean plus their mean squared error.
    """
    graph, covariance, comparisons = ranking.graph, ranking.covariance, ranking.comparisons
    columns, means = group_means(graph, group)
    joint = np.empty((graph.nodes, len(means)))
    for batch in covariance.pattern.batches:
        block = covariance.block(batch)
        own = means.T[batch.nodes].reshape(len(block), batch.size, -1)
        joint[batch.nodes] = (block @ own).reshape(-1, len(means))
    centred = graph.nodes / max(graph.nodes - graph.components, 1)
    within = ranking.scores - columns @ (means @ ranking.scores)
    around = float(np.var(within) + np.nanmean(covariance.std**2))
    flipped = np.where(panel.reversed[panel.voice], 1.0 - comparisons.p, comparisons.p)
    ranking = with_solution(ranking, comparisons=replace(comparisons, p=flipped))
    return _grouped(ranking, group, columns, means, joint, centred * around)


def _of_style(effects: Effects) -> Parts | None:
    """z are the coefficients of style: Cov(s, z) = φ·F S⁻¹ and Cov(z) = φ·S⁻¹; people's usual variance is not known."""
    if effects.style is None:
        return None
    count, between = effects.columns.shape[1], effects.dispersion * effects.between
    joint, cov = (effects.spread @ between)[:, :count], between[:count, :count]
    return Parts(effects.mean, effects.columns, joint, cov, 0.0, effects.scores, STYLE)


def _of_panel_style(opinion: PanelInformation) -> Parts | None:
    """As `_of_style`, of a panel: E(t | z) has the slope F = (W + 1/σ²)⁻¹P/σ² in z, so Cov(t, z) = F Cov(z)."""
    predicted = opinion.predicted
    if predicted is None:
        return None
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
