"""Scores on the scale of anchors, which are texts with known scores, and grades.

With the scores s of a ranking and their covariance V, the known scores y (k,) of the anchors A follow

    y = X β + r,    X = (1, s),    r ~ N(0, φ Ω),    Ω = b² V + τ² I

where b is the slope of the map. s are posterior means, so r includes their error b(θ − s), and β is not attenuated. τ²
is the residual variance beyond b² V: τ² = max(0, s²_OLS − b² mean(diag V_AA)). β is the GLS estimate and φ its residual
variance. The known score of another text then has a t distribution with k − 2 degrees of freedom around its best linear
prediction from y. An anchor is predicted from the others.

Where the anchors show a bend, X has a third column max(0, s − c), c being their median: a broken line, whose slope b
changes at c. It is used if it is monotone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from comparo.data.columns import as_number, shown
from comparo.errors import Message, named
from comparo.ranking.grades import Grading
from comparo.ranking.ranking import Ranking
from comparo.ranking.ranks import components
from comparo.ranking.scores import node_of, table_of
from comparo.ranking.tabular import Columns, Tabular, json_rows, json_text
from comparo.rounding import TIES, merge_ties
from comparo.types import Array, LongIndex, Mask

MISFIT = 0.05  # P(any anchor of a map is named although all fit), by Bonferroni
# Share of texts beyond the anchors that is noted: by anchors of the best 40%, 69% of intervals cover (docs/grades.md).
BEYOND = 1 / 3
ROUNDING = 1e-12  # residuals below this share of the variance of the anchors are 0
BENT = 15, 0.01  # fewest anchors for a bend, and the significance level of its t test


@dataclass(frozen=True, eq=False)
class ScaleMap:
    """The map of a component: y = β₀ + β₁ s (+ β₂ max(0, s − c)), and what it predicts for its m texts.

    Parameters
    ----------
    coefficients : β, shape (2,), or (3,) where the anchors show a bend.
    scatter : √(φ(b² v̄ + τ²)), the standard deviation of a known score around the map; NaN for two anchors.
    slope_error : The standard error of β₁; NaN for two anchors.
    score, std : The predicted score of each text and its standard error, shape (m,).
    degrees : The degrees of freedom of the predictive t distribution, shape (m,); 0 where there is no interval.
    misfit : (y − prediction)/std of each anchor, from the other anchors, shape (k,).
    knot : c; NaN for a line.
    """

    coefficients: Array
    scatter: float
    slope_error: float
    score: Array
    std: Array
    degrees: LongIndex
    misfit: Array
    knot: float = np.nan


def scale_map(scores: Array, variances: Array, shared: Array, anchors: NDArray[np.intp], known: Array) -> ScaleMap:
    """The map of a component to the scale of its anchors.

    Parameters
    ----------
    scores, variances : s and diag V, shape (m,).
    shared : The columns of V at the anchors, shape (m, k).
    anchors, known : The positions of the anchors, and y, shape (k,); k ≥ 2.

    Examples
    --------
    >>> s, v = np.array([-1.0, 0.0, 0.1, 1.0]), np.full(4, 0.04)
    >>> found = scale_map(s, v, np.diag(v)[:, [0, 1, 3]], np.array([0, 1, 3]), np.array([50.0, 61.0, 70.0]))
    >>> found.coefficients.round(1), found.score.round(1)
    (array([60.3, 10. ]), array([52. , 60. , 61.3, 72. ]))
    """
    linear, _ = _regression(scores, variances, shared, anchors, known, np.nan)
    least, level = BENT
    if len(np.unique(merge_ties(scores[anchors]))) < least or linear.scatter == 0:
        return linear
    bent, error = _regression(scores, variances, shared, anchors, known, float(np.median(scores[anchors])))
    _, below, more = bent.coefficients
    is_monotone = below * (below + more) > 0
    has_bend = abs(more) >= stdtrit(len(known) - 3, 1 - level / 2) * error
    return bent if is_monotone and has_bend else linear


def _regression(
    scores: Array, variances: Array, shared: Array, anchors: NDArray[np.intp], known: Array, knot: float
) -> tuple[ScaleMap, float]:
    """The map with a bend at `knot`, a line where that is NaN, and the standard error of its last coefficient."""
    bends = [] if np.isnan(knot) else [np.maximum(scores - knot, 0.0)]
    every = np.column_stack([np.ones(len(scores)), scores, *bends])
    design, free = every[anchors], len(known) - every.shape[1]
    first, *_ = np.linalg.lstsq(design, known, rcond=None)
    slope = first[1] + sum((first[2] * (bend > TIES) for bend in bends), np.zeros(len(scores)))
    own = slope**2 * variances
    residual = np.sum((known - design @ first) ** 2) / free if free else 0.0
    extra = max(0.0, float(residual - np.mean(own[anchors])))
    between = slope[:, None] * shared * slope[anchors]
    jitter = 1e-9 * (np.mean(own[anchors]) + extra)  # V of centred scores is singular where all texts are anchors
    precision = np.linalg.inv(between[anchors] + (extra + jitter) * np.eye(len(known)))
    uncertain = np.linalg.inv(design.T @ precision @ design)
    beta = uncertain @ design.T @ precision @ known
    weights = between @ precision
    score = every @ beta + weights @ (known - design @ beta)
    missed = every - weights @ design
    variance = own + extra - np.sum(weights * between, axis=1) + np.einsum("ij,jk,ik->i", missed, uncertain, missed)
    projector = precision - precision @ design @ uncertain @ design.T @ precision
    apart = known - known.mean()
    pull, alone = projector @ apart, np.diagonal(projector)
    alone = np.where(alone > 1e-9 * np.diagonal(precision), alone, np.nan)  # NaN if all other anchors have one score
    total = float(apart @ pull)
    total = total if total > ROUNDING * float(apart @ precision @ apart) else 0.0
    phi = total / free if free else np.nan
    std = np.sqrt(phi * np.maximum(variance, 0.0))
    degrees = np.full(len(scores), free)
    misfit = np.full(len(known), np.nan)
    if free:  # an anchor is predicted from the others
        left_out = pull / alone
        rest = np.full(len(known), np.nan)
        if free > 1:
            rest = np.maximum(total - left_out * pull, 0.0) / (free - 1)
        score[anchors] = known - np.where(np.isnan(left_out), 0.0, left_out)
        std[anchors] = np.sqrt(rest / alone)
        degrees[anchors] = free - 1
        misfit = np.divide(left_out, std[anchors], out=np.zeros(len(known)), where=std[anchors] > 0)
    errors = np.sqrt(phi * np.diagonal(uncertain))
    scatter = float(np.sqrt(phi * (np.mean(own[anchors]) + extra)))
    found = ScaleMap(beta, scatter, float(errors[1]), score, std, degrees, misfit, knot)
    return found, float(errors[-1])


@dataclass(frozen=True, eq=False)
class Scaled(Tabular):
    """A ranking on the scale of its anchors, with grades; arrays have one entry per candidate, as `Ranking.items`.

    Parameters
    ----------
    ranking : The ranking.
    anchor : The known scores, shape (n,); NaN for texts that are no anchors.
    score, low, high : The score of each text on the scale of the anchors, and its interval of coverage
        `ranking.level` for the score that a text would have as an anchor, shape (n,); NaN where no map is known. Of an
        anchor they come from the other anchors.
    is_misfit : Whether each is an anchor that does not fit the others, shape (n,).
    maps : A table with a row per map: anchors, intercept, slope, its change (bend) at the knot, NaN for a line,
        and scatter around it.
    grades : The names of the grades, best first; () where none were asked for.
    grade, near : The grade of each text, and another that is nearly as probable or more; "" where there is none.
    probability : The probability of each grade, shape (n, G).
    notes : What a reader must know.
    """

    ranking: Ranking
    anchor: Array
    score: Array
    low: Array
    high: Array
    is_misfit: Mask
    maps: Columns
    grades: tuple[str, ...]
    grade: NDArray[Any]
    near: NDArray[Any]
    probability: Array
    notes: tuple[str, ...]

    @property
    def tables(self) -> dict[str, Columns]:
        """`tables` of the ranking."""
        return self.ranking.tables

    def to_columns(self) -> Columns:
        """The table of the ranking with columns scaled, scaled_low, scaled_high, anchor, grade, near, p_A, p_B, …"""
        columns: Columns = {"item": self.ranking.items}
        if len(self.maps["anchors"]):
            columns |= {"scaled": self.score, "scaled_low": self.low, "scaled_high": self.high, "anchor": self.anchor}
        if self.grades:
            columns |= {"grade": self.grade, "near": self.near}
            columns |= {f"p_{name}": self.probability[:, place] for place, name in enumerate(self.grades)}
        return self.ranking.to_columns() | table_of(self.ranking, columns)

    def class_list(self, feedback: Mapping[tuple[str, str], str] | None = None) -> Columns:
        """A table for a teacher, best first: text, grade and its probability, a near grade, score, interval and rank.

        `feedback` maps the context and id of a text, both as str, "" for no context, to a remark.

        >>> from comparo import fit
        >>> found = on_scale(fit([("a", "b", 0.8), ("b", "c", 0.7)], "bt"), grades="good:50%, fair")
        >>> listed = found.class_list({("", "a"): "Well argued."})
        >>> [(name, listed[name][0]) for name in ("text", "grade", "near", "feedback")]
        [('text', 'a'), ('grade', 'good'), ('near', ''), ('feedback', 'Well argued.')]
        """
        ranking = self.ranking
        columns: Columns = {"text": ranking.items}
        if self.grades:
            is_own = self.grade[:, None] == np.array(self.grades, dtype=object)
            own = np.where(is_own.any(axis=1), np.max(np.where(is_own, self.probability, -1.0), axis=1), np.nan)
            columns |= {"grade": self.grade, "probability": own, "near": self.near}
        if len(self.maps["anchors"]):
            columns |= {"score": self.score, "low": self.low, "high": self.high}
        columns["rank"] = ranking.rank
        if feedback is not None:
            contexts = [""] * len(ranking) if ranking.context is None else ranking.context.tolist()
            labels = zip(map(str, contexts), map(str, ranking.items.tolist()), strict=True)
            columns["feedback"] = np.array([feedback.get(label, "") for label in labels], dtype=object)
        return table_of(ranking, columns)

    def to_json(self) -> str:
        """The JSON of the ranking, with the columns of this table, the maps, and the anchors that do not fit."""
        document = json.loads(self.ranking.to_json())
        misfits = {"item": self.ranking.items, "anchor": self.anchor, "scaled": self.score}
        shown_rows = table_of(self.ranking, {"misfit": self.is_misfit})["misfit"]
        named = {name: column[shown_rows] for name, column in table_of(self.ranking, misfits).items()}
        document["scale"] = {"maps": json_rows(self.maps), "misfits": json_rows(named), "notes": list(self.notes)}
        document["ranking"] = json_rows(self.to_columns())
        return json_text(document)


def on_scale(ranking: Ranking, anchors: Mapping[Any, float] | None = None, grades: str | None = None) -> Scaled:
    """A ranking on the scale of anchors, which are texts with known scores, and grades.

    Parameters
    ----------
    ranking
        The ranking.
    anchors
        The known scores by item, or by pair (context, item); at least two in each context, and three for intervals. May
        be left out where `grades` are shares.
    grades
        Cut points on the scale of the anchors, "A>=85, B>=70", or shares of the texts of each context, "A:10%, B:25%";
        a last name may stand alone, for the texts below.

    Returns
    -------
    Scaled
        Scores with intervals that include the errors of the ranking and of the map (`comparo.ranking.scale`), the map,
        the anchors that do not fit, and the grade of each text with the probability of each.

    Raises
    ------
    ValueError
        If the anchors are no numbers or do not differ, or the grades cannot be read.
    KeyError
        If an anchor is not in the ranking.

    Examples
    --------
    >>> from comparo import fit
    >>> ranking = fit([("a", "b", 0.8), ("b", "c", 0.7), ("c", "d", 0.6), ("d", "a", 0.1)])
    >>> found = on_scale(ranking, {"a": 90, "d": 60}, "A>=80, B>=65")
    >>> found.ranking.items.tolist(), found.grade.tolist()
    (['a', 'b', 'c', 'd'], ['A', 'B', 'below B', 'below B'])
    """
    anchor = np.full(len(ranking), np.nan)
    for label, value in (anchors or {}).items():
        if not np.isfinite(as_number(value)):
            raise ValueError(f"the score of the anchor {shown(label)} is {shown(value)}, which is not a number")
        anchor[node_of(ranking, label)] = as_number(value)
    grading, is_known = None if grades is None else Grading.of(grades), ~np.isnan(anchor)
    needs_anchors = grading is None or grading.needs_anchors or is_known.any()
    if needs_anchors and len(np.unique(anchor[is_known])) < 2:
        what = "a scale needs" if grading is None else named("grades", grades) + " on the scale of anchors need"
        remedy = Message("{anchors} with different scores; or give {grades} as shares, or by boundary texts")
        raise ValueError(what + " two or more " + remedy)
    n = len(ranking)
    score, std, degrees, is_misfit = np.full(n, np.nan), np.full(n, np.nan), np.zeros(n, int), np.zeros(n, bool)
    maps: Columns = {name: np.zeros(0) for name in ("anchors", "intercept", "slope", "bend", "knot", "scatter")}
    rows, notes, missing = [], [], []
    for members, block in components(ranking.covariance) if is_known.any() else ():
        where = "" if ranking.context is None else f" of context {shown(ranking.context[members[0]])}"
        chosen = np.flatnonzero(is_known[members])
        nodes = members[chosen]
        if len(np.unique(anchor[nodes])) < 2 or len(np.unique(merge_ties(ranking.scores[nodes]))) < 2:
            missing.append(where)
            continue
        variances = ranking.std[members] ** 2
        shared = np.zeros((len(members), len(chosen))) if block is None else block[:, chosen]
        if block is None:
            shared[chosen, np.arange(len(chosen))] = variances[chosen]
        found = scale_map(ranking.scores[members], variances, shared, chosen, anchor[nodes])
        score[members], std[members], degrees[members] = found.score, found.std, found.degrees
        chance = 2 * len(nodes) * stdtr(np.maximum(found.degrees[chosen], 1), -np.abs(found.misfit))
        is_misfit[nodes] = chance <= MISFIT
        bend = [0.0] * (3 - len(found.coefficients))
        rows.append((members[0], len(nodes), *found.coefficients, *bend, found.knot, found.scatter))
        notes += _map_notes(found, len(nodes), where)
        low, high = np.min(ranking.scores[nodes]), np.max(ranking.scores[nodes])
        beyond = int(np.sum((ranking.scores[members] < low) | (ranking.scores[members] > high)))
        if beyond > BEYOND * len(members):
            notes.append(
                f"{beyond} of {len(members)} texts{where} are better or worse than all anchors, and their intervals "
                "may be far off; give anchors from the weakest to the strongest texts"
            )
    if rows:
        first, *columns = (np.array(column) for column in zip(*rows, strict=True))
        maps = dict(zip(maps, columns, strict=True))
        maps = maps if ranking.context is None else {"context": ranking.context[first]} | maps
    for node in np.flatnonzero(is_misfit).tolist():
        notes.append(
            f"the anchor {shown(ranking.items[node])} does not fit the others: its score is {anchor[node]:g}, and "
            f"{score[node]:.4g} by them and the comparisons; check it, or leave it out"
        )
    if missing:
        more = ""
        if len(missing) > 1:
            more = f", nor have those of {len(missing) - 1} more unconnected parts of the comparisons"
        notes.append(f"without two anchors that differ, the texts{missing[0]} have no score on the scale{more}")
    t = stdtrit(np.maximum(degrees, 1), (1 + ranking.level) / 2)
    reach = np.where(degrees > 0, std * t, np.nan)
    grade, near = np.full((2, n), "", dtype=object)
    probability = np.zeros((n, 0))
    if grading is not None:
        if grading.needs_anchors:
            grade, probability = grading.by_cuts(score, std, degrees)
        elif grading.boundaries:
            grade, probability = grading.by_boundaries(ranking)
        else:
            grade, probability = grading.by_shares(ranking)
        near = grading.near(grade, probability)
        if grading.boundaries and (bare := np.flatnonzero(grade == "").tolist()):
            where = "" if ranking.context is None else f" of context {shown(ranking.context[bare[0]])}"
            notes.append(
                f"{len(bare)} texts, the first{where}, have no grade: no comparisons connect them "
                "with every boundary text; add some, or give grades as shares of texts"
            )
    names = () if grading is None else grading.names
    ends = score - reach, score + reach
    return Scaled(ranking, anchor, score, *ends, is_misfit, maps, names, grade, near, probability, tuple(notes))


def _map_notes(found: ScaleMap, anchors: int, where: str) -> list[str]:
    notes, slope = [], found.coefficients[1]
    if anchors == 2:
        notes.append(f"two anchors{where} make a scale without intervals; give three or more")
    elif abs(slope) < stdtrit(anchors - len(found.coefficients), 0.975) * found.slope_error:
        notes.append(f"the scores of the anchors{where} hardly follow the ranking; give more anchors, or check them")
    if slope < 0:
        notes.append(f"the scale{where} falls where the ranking rises: better texts have lower scores")
    if len(found.coefficients) > 2:
        notes.append(f"the anchors{where} show a bend, so the scale is a broken line")
    return notes
