"""People's scores of all texts from a machine's ranking and people's votes, and the validity of the machine.

The machine's score of a text is the mean of its group, m, plus a part of its own, δ. People's scores are correlated
with both; the coefficient of δ relative to that of m is the validity k of t = m + k·δ (`consensus`), which one judge's
answers do not determine, and few votes do. Before any vote, people's scores are

    t/S = ρ_m·√B·m/sd(m) + ρ_δ·√(1 − B)·δ/sd(δ) + rest,

with B the usual share of people's variance that is between groups, ρ_m the usual correlation of people's and machines'
means of groups, and ρ_δ such that k is the usual validity. Without groups there is one part. The constants are measured
on recorded judges beside people's scores (docs/people.md); votes overrule them.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from comparo.data.columns import look_up
from comparo.data.comparisons import Comparisons
from comparo.errors import ComparisonsError
from comparo.model.estimators.votes import Expectation, Voted, mixture, voted
from comparo.ranking.consensus import PEOPLE, either_sign, parts_of
from comparo.ranking.ranking import Ranking, estimated
from comparo.ranking.scores import People
from comparo.types import Array, Index

BETWEEN = 1.0 / (1.0 + PEOPLE)  # B
TEXTS_MOST = 0.85  # the most that is expected of ρ_δ
DRAWS = 20_000  # for the interval of k: its ends have an error of 2% of its standard error
# Votes are scattered if fewer than a tenth are about a text that has another, as on Arena (docs/powered.md). Of fewer
# than 100 votes the prior decides anyway.
SCATTERED, SCATTERED_LEAST = 0.1, 100
NONE = 1e-6  # standard deviation of a part, relative to that of the scores, below which it is rounding


@dataclass(frozen=True, slots=True)
class Usual:
    """The prior of the correlations of judges with people: means, and standard deviations between judges.

    `groups` is ρ_m, `texts_vary` the standard deviation of ρ_δ, and `whole` the correlation with a judge's scores where
    no groups are known. `against` is the share of judges that contradict people: their correlations have the prior mean
    0, and the usual size. Means over four sets of recorded judges and people's scores (docs/people.md); the deviations
    are about twice those between the sets, since ratings have noise of their own.
    """

    groups: float = 0.65
    groups_vary: float = 0.25
    texts_vary: float = 0.15
    whole: float = 0.32
    whole_varies: float = 0.2
    against: float = 0.02


USUAL = Usual()


def with_votes(ranking: Ranking, votes: Any, usual: Usual = USUAL) -> Ranking:
    """People's scores of all texts, estimated from a machine's ranking of them and people's votes about some.

    Parameters
    ----------
    ranking
        The ranking of a judge or a panel; with prior="estimated" and groups, it has two parts.
    votes
        Comparisons by people, in any form that `Comparisons.of` reads, of texts of the ranking: p is 1, 0, or ½ for a
        tie.
    usual
        The prior of the correlations of a judge with people.

    Returns
    -------
    Ranking
        Its scores, in logits of people's votes, with intervals for people's scores of the texts; its `people`
        summarises the votes, and its `judged` is the machine's ranking.

    Raises
    ------
    ComparisonsError
        If a vote is about a text that is not in the ranking, or its p is not 1, 0 or ½.

    Examples
    --------
    >>> from comparo import fit
    >>> machine = fit([("a", "b", 0.9), ("b", "c", 0.8), ("c", "a", 0.2)])
    >>> ranking = with_votes(machine, [("c", "a", 1.0)] * 3 + [("c", "b", 1.0)] * 2)
    >>> ranking.estimate, list(ranking)[0], list(ranking.judged)[0]
    ('people', 'c', 'a')
    """
    judged, said = ranking.judged, Comparisons.of(votes)
    graph = judged.graph
    first, second = find_voted(said, judged.solution.labels)
    asked = replace(graph.whole(), first=first, second=second)
    group = None if judged.solution.groups is None else judged.solution.groups[0]
    expectation, sizes = expected_of(ranking, usual)
    both = voted(said, asked, expectation)
    alone = voted(said, asked, _without_machine(graph.nodes, group))
    (own, odds), (lone, least) = _reached(both), _reached(alone)
    validity, low, high = _validity(both, sizes, judged.level) if len(sizes) == 2 else (None, None, None)
    people = People(
        votes=said.answers,
        voters=1 if said.judges is None else len(np.unique(said.judged_by)),
        level=judged.level,
        validity=validity,
        low=low,
        high=high,
        correlation=own,
        alone=lone,
        worth=said.answers * odds / least,
        is_scattered=group is not None and _are_scattered(first, second),
    )
    return estimated(judged, validity, scores=both.scores, covariance=both, people=people, controlled=None)


def shared_ids(votes: Comparisons) -> Literal["items"] | None:
    """`groups` for the ranking of votes: "items" if items are in two contexts or more on average, else None.

    >>> shared_ids(Comparisons.from_rows([("a", "b", 1.0)]))
    """
    if votes.contexts is None or votes.context is None:
        return None
    items = np.concatenate([votes.first, votes.second])
    texts = np.unique(np.column_stack([np.tile(votes.context, 2), items]), axis=0)
    return "items" if len(texts) >= 2 * len(np.unique(items)) else None


def _without_machine(texts: int, group: Index | None) -> Expectation:
    between = 0.0 if group is None else BETWEEN
    return Expectation(np.zeros((texts, 0)), np.zeros(0), np.zeros(0), group, between, 1.0 - between)


def expected_of(ranking: Ranking, usual: Usual = USUAL) -> tuple[Expectation, Array]:
    """The prior of people's scores before any vote, and the standard deviations of the machine's D parts, (D,).

    The validity is the usual one, or the one that the ranking has.
    """
    signs = either_sign(ranking.judged)
    if len(signs) > 1:  # votes tell which of the two signs is right
        usual = replace(usual, against=1.0)
    judged, parts = signs[0], parts_of(signs[0])
    scores, named = judged.scores, judged.solution.groups
    group = None if named is None else named[0]
    size = float(np.std(scores)) or 1.0
    if parts is None or np.std(parts.expected) < NONE * size or np.std(scores - parts.expected) < NONE * size:
        columns, sizes = scores[:, None], np.array([size])
    else:
        columns = np.column_stack([parts.expected, scores - parts.expected])
        sizes = np.std(columns, axis=0)
    validity = ranking.solution.validity
    if validity is None:
        validity = 1.0 if parts is None else parts.usual
    between = 0.0 if group is None else BETWEEN
    share = np.array([between, 1.0 - between])
    if len(sizes) == 2 and group is not None:
        texts = validity * usual.groups * float(np.sqrt(share[0] / share[1])) * sizes[1] / sizes[0]
        rho = np.array([usual.groups, min(texts, TEXTS_MOST)])
        b, rest = np.sqrt(share) * rho, share * (1.0 - rho**2)
        vary = share * np.array([usual.groups_vary, usual.texts_vary]) ** 2
    else:
        wanted = sizes * [1.0, validity][: len(sizes)]
        b, rest = usual.whole * wanted / float(np.linalg.norm(wanted)), share * (1.0 - usual.whole**2)
        vary = np.full(len(sizes), usual.whole_varies**2)
    prior = Expectation(columns / sizes, b, vary, group, float(rest[0]), float(rest[1]), against=usual.against)
    return prior, sizes


def _reached(found: Voted) -> tuple[float, float]:
    """The expected correlation of the scores with people's, and the odds r²/(1 − r²) = Var ŝ / mean Var(t − ŝ).

    r is the correlation if texts differ; if all are equal (P = `found.equal`), the correlation is 0.
    """
    explained, left = float(np.var(found.scores)), float(np.nanmean(found.std**2))
    return (1.0 - found.equal) * float(np.sqrt(explained / (explained + left))), explained / left


def _are_scattered(first: Index, second: Index) -> bool:
    """Whether of `SCATTERED_LEAST` votes or more a share below `SCATTERED` has a text with another vote."""
    times = np.bincount(np.concatenate([first, second]))
    again = np.mean((times[first] > 1) | (times[second] > 1))
    return bool(len(first) >= SCATTERED_LEAST and again < SCATTERED)


def _validity(found: Voted, sizes: Array, level: float) -> tuple[float, float, float]:
    """The posterior median of k = (b_δ/sd δ)/(b_m/sd m), and its interval."""
    drawn = mixture(found.points, DRAWS, np.random.default_rng(0)) / sizes
    with np.errstate(divide="ignore"):
        ratio = np.where(drawn[:, 0] > 0, drawn[:, 1] / drawn[:, 0], np.copysign(np.inf, drawn[:, 1]))
    low, middle, high = np.quantile(ratio, [(1 - level) / 2, 0.5, (1 + level) / 2], method="nearest")
    return float(middle), float(low), float(high)


def check_people(comparisons: Comparisons | None, people: Collection[Hashable]) -> None:
    """Raise an error if `people` is a single name, or has a name that is no judge of the comparisons."""
    if isinstance(people, str):
        raise TypeError(f"people is a list of judges, such as [{people!r}], not a single name")
    if comparisons is not None:
        known = [] if comparisons.judges is None else comparisons.judges.tolist()
        if missing := [name for name in people if name not in known]:
            judges = ", ".join(map(str, known)) or "none"
            raise ValueError(f"the comparisons have no judge {missing[0]!r}; their judges are {judges}")


def votes_about(votes: Comparisons, known: Sequence[tuple[Any, Any]]) -> Comparisons | None:
    """The votes of which both texts are among the `known` (context, item); None where there are none.

    >>> len(votes_about(Comparisons.from_rows([("a", "b", 1.0), ("a", "new", 0.0)]), [(None, "a"), (None, "b")]))
    1
    """
    about = (_numbers(votes, known)[1] >= 0).all(axis=0)
    return votes.take(about) if about.any() else None


def find_voted(votes: Comparisons, known: Sequence[tuple[Any, Any]]) -> tuple[Index, Index]:
    """The numbers of both texts of each vote, (K,) and (K,), among the `known` (context, item).

    A number and its text, as 1 and "1", are the same label. Raises a ComparisonsError for an unknown text, and for a p
    that is not 0, ½ or 1.

    >>> find_voted(Comparisons.from_rows([("1", "2", 1.0)]), [(None, 1), (None, 2)])
    (array([0], dtype=int32), array([1], dtype=int32))
    """
    if not votes.hard:
        row = int(np.argmin(np.isin(votes.p, (0.0, 0.5, 1.0))))
        ends = votes.items[[votes.first[row], votes.second[row]]].tolist()
        raise ComparisonsError(
            f"the vote on {ends[0]!r} and {ends[1]!r} has p = {votes.p[row]:g}; a vote is for the first (1), the "
            "second (0) or neither (0.5): give one row per vote, not the share of several"
        )
    labels, nodes = _numbers(votes, known)
    if (nodes < 0).any():
        side, row = np.argwhere(nodes < 0)[0].tolist()
        context, item = labels[side][row]
        place = "" if context is None else f" of context {context!r}"
        raise ComparisonsError(
            f"a vote is about {item!r}{place}, which is not among the {len(known)} texts that are ranked; "
            "leave it out, or rank that text too"
        )
    return nodes[0], nodes[1]


def _numbers(votes: Comparisons, known: Sequence[tuple[Any, Any]]) -> tuple[list[list[tuple[Any, Any]]], Index]:
    """The labels (context, item) of both texts of each vote, and their numbers (2, K) among the `known`, or −1."""
    contexts = list(dict.fromkeys(context for context, _ in known))
    if votes.contexts is None and len(contexts) > 1:
        raise ComparisonsError("the votes have no column context, and the texts have several; add it to the votes")
    named = [contexts[0]] * len(votes)
    if votes.contexts is not None and votes.context is not None:
        named = votes.contexts[votes.context].tolist()
    labels = [list(zip(named, votes.items[ends].tolist(), strict=True)) for ends in (votes.first, votes.second)]
    nodes = [look_up(side, known) for side in labels]
    if min(side.min(initial=0) for side in nodes) < 0:
        written = [[(str(context), str(item)) for context, item in side] for side in (*labels, known)]
        nodes = [look_up(side, written[2]) for side in written[:2]]
    return labels, np.stack(nodes)
