"""Why texts win: how much of a ranking each of several reasons explains, on its own and beyond the others.

With x_r the values of reason r for the texts, centred in contexts and with the variance 1, the mixed model of the
comparisons (`comparo.model.estimators.coefficients`) has

    s = Σ_r β_r x_r + rest,        alone:  s = b_r x_r + rest,

all of it within contexts. Of the variance of scores T, a reason explains b_r²/T on its own and β_r²·v_r/T beyond the
others, with v_r the variance of x_r given the others. The expected share of false discoveries among the reasons found
is 5% (Benjamini and Hochberg 1995), on their own and beyond the others alike. Values from a judge are posterior means,
which do not attenuate β (Berkson's errors); the variance that they miss is unexplained.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import stdtr, stdtrit

from comparo.data.columns import look_up
from comparo.data.covariates import LIBRARY, computed_reasons
from comparo.data.items import Items
from comparo.data.wordings import few
from comparo.errors import Message
from comparo.model.estimators.coefficients import (
    LEVELS,
    Evidence,
    ReasonEffect,
    adjusted,
    estimates,
    on_one_scale,
    unexplained,
)
from comparo.ranking.grouping import group_means, numbers_by_label
from comparo.ranking.ranking import Ranking
from comparo.ranking.scores import table_of
from comparo.ranking.tabular import Columns, Tabular, columns_from, json_rows, json_text, plain, with_interval
from comparo.types import Array, Index

SINGULAR = 1e-9  # ridge relative to the variance of a reason: collinear reasons have a finite inverse
FEWEST = 4  # texts beyond one per component that an estimate of variances needs
NAMED = 3  # reasons in a summary
TOLD = 2  # strongest and weakest reasons of a text
BEST = 0.75  # quantile of the texts of a context that a text could reach


@dataclass(frozen=True)
class Found:
    """The estimated effects of one reason: on its own (`alone`) and `beyond` the others.

    `words` name it in the direction of its effect: alone where only that is found, else beyond the others. `more`
    names it in the direction of a positive effect.
    """

    name: str
    words: str
    more: str
    alone: ReasonEffect
    beyond: ReasonEffect

    @property
    def sign(self) -> int:
        """1 where `words` are those of a positive effect, else −1."""
        return 1 if self.words == self.more else -1

    @property
    def verdict(self) -> str:
        """ "matters" beyond the others; "goes with others", where it is found alone only; or "not shown"."""
        if self.beyond.is_found:
            return "matters"
        return "goes with others" if self.alone.is_found else "not shown"


def found_reasons(rows: Sequence[Mapping[str, Any]]) -> tuple[Found, ...]:
    """The reasons from the rows of `Why.to_columns`, as JSON holds them."""
    names = [each.name for each in fields(ReasonEffect)]

    def estimate(row: Mapping[str, Any], prefix: str) -> ReasonEffect:
        values = [row[prefix + name] for name in names]
        return ReasonEffect(*(np.nan if value is None else float(value) for value in values))

    return tuple(
        Found(row["reason"], row["words"], row["more"], estimate(row, "alone_"), estimate(row, "")) for row in rows
    )


@dataclass(frozen=True, eq=False)
class Why(Tabular):
    """Why texts win, made by `why`.

    Parameters
    ----------
    ranking : The judge's ranking.
    reasons : The effects of each reason, the largest share on its own first.
    unexplained, unexplained_low, unexplained_high : The share of the variance of scores that no reason explains.
    values : The reasons of each text, (n, R), centred in contexts with the variance 1, in the order of `reasons`.
    beta, covariance, freedom : The coefficients of all reasons together, (R,) and (R, R), and their degrees of freedom.
    variance : T, the variance of scores within contexts.

    Examples
    --------
    >>> from comparo import fit
    >>> rng = np.random.default_rng(1)
    >>> length, taste = rng.standard_normal((2, 30))
    >>> pairs = rng.integers(30, size=(300, 2)).tolist()
    >>> rows = [(i, j, 1 / (1 + np.exp(length[j] - length[i]))) for i, j in pairs if i != j]
    >>> found = why(fit(rows, "mixed"), reasons={"length": dict(enumerate(length)), "taste": dict(enumerate(taste))})
    >>> [(one.name, one.verdict) for one in found.reasons]
    [('length', 'matters'), ('taste', 'not shown')]
    """

    ranking: Ranking = field(repr=False)
    reasons: tuple[Found, ...]
    unexplained: float
    unexplained_low: float
    unexplained_high: float
    values: Array = field(repr=False)
    beta: Array = field(repr=False)
    covariance: Array = field(repr=False)
    freedom: float
    variance: float

    @property
    def matters(self) -> list[Found]:
        """The reasons that matter beyond the others, the largest share on its own first."""
        return [one for one in self.reasons if one.verdict == "matters"]

    @property
    def summary(self) -> str:
        """The answer in a sentence."""
        own = self.matters or [one for one in self.reasons if one.verdict != "not shown"]
        left = with_interval(self.unexplained, self.unexplained_low, self.unexplained_high, ".0%")
        left += " of the ranking is unexplained."
        if not own:
            return f"No reason was shown to matter. {left}"
        said = [f"{one.words} ({one.alone.share:.0%})" for one in own[:NAMED]]
        more = f", and {len(own) - NAMED} more" if len(own) > NAMED else ""
        meant = "" if self.matters else ", though none of them beyond the others"
        begin = "What wins, with the share of the ranking that it explains on its own"
        return f"{begin}: {', '.join(said)}{more}{meant}. {left}"

    def to_columns(self) -> Columns:
        """A row per reason: its words and verdict, and its effects and shares beyond the others and alone."""
        rows: list[dict[str, Any]] = []
        for one in self.reasons:
            told = {"reason": one.name, "words": one.words, "verdict": one.verdict}
            alone = {f"alone_{name}": value for name, value in asdict(one.alone).items()}
            rows.append(told | asdict(one.beyond) | alone | {"more": one.more})
        return {name: np.array([row[name] for row in rows], dtype=object) for name in rows[0]}

    def to_dict(self) -> dict[str, Any]:
        """All of it as values that JSON can hold."""
        names = ("unexplained", "unexplained_low", "unexplained_high")
        left = {name: plain(getattr(self, name)) for name in names}
        told = {"summary": self.summary, **left, "reasons": json_rows(self.to_columns())}
        return told | {"feedback": json_rows(self.feedback())}

    def to_json(self) -> str:
        return json_text(self.to_dict())

    @cached_property
    def _told(self) -> list[int]:
        """The numbers of the reasons in feedback: those that matter, else those that are found alone."""
        every = [one.verdict for one in self.reasons]
        verdict = "matters" if "matters" in every else "goes with others"
        return [k for k, own in enumerate(every) if own == verdict]

    @cached_property
    def parts(self) -> Array:
        """The contribution of each reason r to the score of each text i, x_ir times the effect of r, (n, R).

        The effects are those beyond the others, or on their own where no reason matters beyond the others.
        """
        effects = [one.beyond.effect if self.matters else one.alone.effect for one in self.reasons]
        return np.asarray(self.values * np.array(effects))

    def gains(self, node: int) -> list[tuple[Found, float]]:
        """The gain in logits of a text, if each reason rose to the 75% quantile of its component; largest first."""
        same = self.ranking.graph.component == self.ranking.graph.component[node]
        found = []
        for k in self._told:
            gain = float(np.quantile(self.parts[same, k], BEST) - self.parts[node, k])
            found.append((self.reasons[k], max(gain, 0.0)))
        return sorted(found, key=lambda one: -round(one[1], 9))

    def shown_by(self, node: int, name: str, most: int = 2) -> list[int]:
        """The rows of up to `most` comparisons that `node` lost to texts with more of a reason, clearest first."""
        graph, comparisons = self.ranking.graph, self.ranking.judged.comparisons
        k = [one.name for one in self.reasons].index(name)
        is_first, is_second = graph.first == node, graph.second == node
        other = np.where(is_first, graph.second, graph.first)
        lost = np.where(is_first, 1.0 - comparisons.p, comparisons.p)
        more = self.parts[other, k] - self.parts[node, k]
        rows = np.flatnonzero((is_first | is_second) & (lost > 0.5) & (more > 0))
        order = rows[np.argsort(-np.round((lost * more)[rows], 9), kind="stable")].tolist()
        kept = {int(other[row]): row for row in reversed(order)}  # one comparison per opponent
        return [row for row in order if kept[int(other[row])] == row][:most]

    def feedback(self) -> Columns:
        """A row per text, best first: two strongest and two weakest reasons, what would raise it most, a sentence."""
        rows = [self._feedback_of(node) for node in range(len(self.ranking))]
        columns: Columns = {"item": self.ranking.items, "rank": self.ranking.rank, "score": self.ranking.scores}
        columns |= {name: np.array([row[name] for row in rows], dtype=object) for name in rows[0]}
        return table_of(self.ranking, columns)

    def _feedback_of(self, node: int) -> dict[str, str]:
        own = ((float(self.parts[node, k]), self.reasons[k]) for k in self._told)
        parts = sorted(own, key=lambda one: -round(one[0], 9))
        strong = [f"{one.words} ({part:+.2f})" for part, one in parts if part > 0][:TOLD]
        weak = [f"{one.words} ({part:+.2f})" for part, one in reversed(parts) if part < 0][:TOLD]
        gains = self.gains(node)
        rises = gains[0][0].words if gains and gains[0][1] > 0 else ""
        said = [f"gains most by this: {', '.join(strong)}"] if strong else []
        said += [f"lacks most: {', '.join(weak)}"] if weak else []
        return {
            "strongest": "; ".join(strong),
            "weakest": "; ".join(weak),
            "raise": rises,
            "feedback": "; ".join(said) or "no reason was shown to matter",
        }

    def between(self, one: Hashable, other: Hashable, *, most: int | None = None) -> Columns:
        """Why one group of texts, such as a system, beats another: differences of mean reasons times coefficients.

        A row per reason with the difference in standard deviations, its part of the difference of scores in logits
        and the interval; the last row is the rest that no reason explains, NaN where the ranking is not by the mixed
        model: its scores have other units. Reasons after the `most` with the largest parts share one row.
        """
        steps = self._apart(one, other) @ self.values
        total = float("nan") if self.ranking.solution.effects is None else self.lead(one, other)
        order = np.argsort(-np.round(np.abs(steps * self.beta), 9), kind="stable")
        named = order[:most].tolist()
        rows = [(self.reasons[k].name, self.reasons[k].words, steps[k], [k]) for k in named]
        if others := order[len(named) :].tolist():
            rows.append(("others", f"{len(others)} other reasons", np.nan, others))
        found = [(*row, *self._part(steps, few)) for *row, few in rows]
        rest = total - float(steps @ self.beta)
        found.append(("rest", "what no reason explains", np.nan, rest, np.nan, np.nan))
        names = ("reason", "words", "difference", "part", "low", "high")
        return columns_from(found, names, texts=2)

    def _part(self, steps: Array, few: list[int]) -> tuple[float, float, float]:
        """The part in logits of the reasons `few`, for differences `steps` (R,), and its 95% interval."""
        part = float(steps[few] @ self.beta[few])
        variance = float(steps[few] @ self.covariance[np.ix_(few, few)] @ steps[few])
        reach = float(stdtrit(self.freedom, 0.975)) * np.sqrt(variance)
        return part, part - reach, part + reach

    def lead(self, one: Hashable, other: Hashable) -> float:
        """The mean score of group `one` less that of group `other`."""
        return float(self._apart(one, other) @ self.ranking.scores)

    def _apart(self, one: Hashable, other: Hashable) -> Array:
        """The weights (n,) whose product with scores is the difference of the means of two groups."""
        group, (a, b) = numbers_of_groups(self.ranking, (one, other))
        means = group_means(self.ranking.graph, group)[1]
        return np.asarray(means[a] - means[b])

    def beside(self, other: Why) -> Columns:
        """The effects of the same reasons here and in another `Why`, such as that of people, and their difference.

        Effects are in standard deviations of the scores, since logits of people and judges differ in size; they are
        positive where `words` win. `adjusted` is the p of the difference, adjusted for all reasons.
        """
        theirs = {one.name: k for k, one in enumerate(other.reasons)}
        own = [k for k, one in enumerate(self.reasons) if one.name in theirs]
        k = np.array(own, dtype=int)
        j = np.array([theirs[self.reasons[each].name] for each in own], dtype=int)
        columns: Columns = {
            "reason": np.array([self.reasons[each].name for each in own], dtype=object),
            "words": np.array([self.reasons[each].more for each in own], dtype=object),
        }
        sides = [
            (why.beta[at] / np.sqrt(why.variance), np.diag(why.covariance)[at] / why.variance, why.freedom)
            for why, at in ((self, k), (other, j))
        ]
        (here, one, _), (there, two, _) = sides
        freedom = min(self.freedom, other.freedom)
        sides.append((here - there, one + two, freedom))
        for name, (mean, variance, own_freedom) in zip(("judge", "people", "apart"), sides, strict=True):
            reach = stdtrit(own_freedom, 0.975) * np.sqrt(variance)
            columns |= {name: mean, f"{name}_low": mean - reach, f"{name}_high": mean + reach}
        t = np.abs(here - there) / np.sqrt(one + two)
        return columns | {"adjusted": adjusted(2 * stdtr(freedom, -t))}


def why(
    ranking: Ranking,
    data: Any = None,
    reasons: Mapping[str, Mapping[Any, float] | Ranking] | None = None,
    **columns: Any,
) -> Why:
    """Why texts win: how much of a ranking each reason explains, on its own and beyond the others.

    Parameters
    ----------
    ranking
        The ranking.
    data, columns
        The texts, anything that `Items.of` reads with its arguments, from which numbers of texts are computed (length,
        long words, markup, …); None: only `reasons` are used.
    reasons
        Further reasons by name: a number by item, or by pair (context, item); or the `Ranking` of the same texts by a
        criterion, whose scores they are.

    Returns
    -------
    Why
        Effects with intervals, in logits for one standard deviation of a reason within contexts; shares of the
        ranking; what no reason explains; feedback for each text (docs/why.md).

    Raises
    ------
    ValueError
        If a text is not given or has no number, or there are fewer than five texts.

    Examples
    --------
    >>> from comparo import fit
    >>> texts = {k: "word " * k for k in range(1, 9)}
    >>> rows = [(i, j, 0.9 if i > j else 0.2) for i in texts for j in texts if i != j]
    >>> found = why(fit(rows, "mixed"), texts)
    >>> found.reasons[0].words, found.reasons[0].alone.is_found
    ('longer', True)
    """
    labels, numbers = ranking.solution.labels, dict[str, Any]()
    if data is not None:
        items = Items.of(data, **columns)
        row = look_up(labels, items.labels)
        if np.any(row < 0):
            raise ValueError(f"there is no text of {labels[int(np.argmax(row < 0))]!r}; give the texts of all items")
        numbers |= {reason.name: column[row] for reason, column in computed_reasons(items).items()}
    for name, given in (reasons or {}).items():
        if isinstance(given, Ranking):
            given = dict(zip(given.solution.labels, given.scores.tolist(), strict=True))
        numbers[name] = numbers_by_label(f"the reason {name!r}", given, labels)
    if not numbers:
        raise ValueError(Message("there is no reason; give the texts, or {reasons} by name"))
    return explain(ranking, numbers, {reason.name: (reason.words, reason.against) for reason in LIBRARY})


def explain(ranking: Ranking, numbers: Mapping[str, Array], words: Mapping[str, tuple[str, str]] | None = None) -> Why:
    """Why texts win, from the `numbers` (n,) of each reason in the order of the candidates; see `why`.

    `words` maps a reason to its words and those of its opposite.
    """
    judged, graph = ranking.judged, ranking.graph
    check_enough(ranking)
    given = np.column_stack([np.asarray(column, dtype=np.float64) for column in numbers.values()])
    centred = graph.centre(given)
    scale = np.sqrt(np.mean(centred**2, axis=0))
    kept = np.flatnonzero(scale > 1e-9 * np.maximum(np.max(np.abs(given), axis=0), 1e-300))
    if not len(kept):
        raise ValueError("the texts of a context are alike in every reason; give reasons in which they differ")
    names, values = [list(numbers)[k] for k in kept], centred[:, kept] / scale[kept]
    groups = ranking.solution.groups
    group = None if groups is None else groups[0]
    data, panel = judged.comparisons, judged.solution.panel
    if panel is not None:
        data = on_one_scale(data, dict(zip(panel.names, panel.scale.tolist(), strict=True)))
    evidence = Evidence.of(data, values, group, judged.covariance.pattern.limits)
    joint, square = evidence.fit(range(len(names)), LEVELS), values.T @ values / len(values)
    (mean, covariance), left = joint.moments, unexplained(joint, square)
    # β̂ᵀSβ̂ exceeds βᵀSβ by tr(S·Cov) in the mean.
    explained = max(float(mean @ square @ mean - np.sum(square * covariance)), 0.0)
    total = float(np.mean(joint.unexplained)) + explained
    inverse = np.linalg.inv(square + SINGULAR * np.eye(len(names)))
    beyond = estimates(mean, np.diag(covariance), joint.freedom, 1.0 / np.diag(inverse), total)
    single = [evidence.fit([k]) for k in range(len(names))]
    each = [one.moments for one in single]
    means = np.array([own[0] for own, _ in each])
    variances = np.array([own[0, 0] for _, own in each])
    freedom = float(np.mean([one.freedom for one in single]))
    alone = estimates(means, variances, freedom, np.ones(len(names)), total)
    found = []
    for name, own, other in zip(names, alone, beyond, strict=True):
        meant, against = (words or {}).get(name, (name, f"not so: {name}"))
        effect = other.effect
        if own.is_found and not other.is_found:
            effect = own.effect
        found.append(Found(name, meant if effect >= 0 else against, meant, own, other))
    order = np.argsort([-round(one.alone.share, 9) for one in found], kind="stable")
    coefficients = mean[order], covariance[np.ix_(order, order)]
    reasons = tuple(found[k] for k in order)
    return Why(judged, reasons, *left, values[:, order], *coefficients, joint.freedom, total)


def check_enough(ranking: Ranking) -> None:
    """Raise a ValueError where a ranking has too few texts to say why they win."""
    nodes, components = ranking.graph.nodes, ranking.graph.components
    if nodes - components < FEWEST:
        raise ValueError(f"{nodes} texts are too few to say why; rank at least {FEWEST + 1} in a context")


def numbers_of_groups(ranking: Ranking, names: Sequence[Hashable]) -> tuple[Index, list[int]]:
    """The group of each candidate, (n,), and the numbers of the groups `names`; a ValueError if one is unknown."""
    groups = ranking.solution.groups
    if groups is None:
        raise ValueError(Message("the ranking has no groups to compare; name a column by {group}, such as the system"))
    group, known = groups[0], [str(name) for name in groups[1]]
    for name in names:
        if str(name) not in known:
            raise ValueError(f"there is no group {name!r}; there are {few(known, like=str(name))}")
    return group, [known.index(str(name)) for name in names]
