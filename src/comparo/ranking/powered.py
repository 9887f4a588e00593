"""A leaderboard of groups by people's votes that a machine's answers make more exact, and how many votes that saved.

The machine answers many pairs of texts, people vote on some of the same pairs. Nothing is assumed of the machine
(`prediction_powered`): where it is useless its weight is about 0, and the leaderboard is that of the votes alone.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from scipy.special import expit

from comparo.data.comparisons import Comparisons
from comparo.data.sheets import join
from comparo.errors import ComparisonsError, Message
from comparo.model.estimators.prediction_powered import GroupAnswers, fitted
from comparo.model.estimators.prediction_powered import powered as estimated
from comparo.model.linalg.graph import Graph
from comparo.ranking.grouping import Groups, group_codes, group_counts
from comparo.ranking.leaderboard import Leaderboard, Over
from comparo.ranking.votes import check_people
from comparo.types import Array, Index, Mask, check_level

LEAST_VOTES = 1.5  # votes per group of the board, the fewest of the simulation in docs/powered.md
NAMED = 3  # groups without a chain of votes that a sentence names
PEOPLE = -1  # the code of people among the judges
ALONE = "machine"  # the name of a machine that has none


@dataclass(frozen=True, eq=False)
class Powered:
    """People's leaderboard with a machine's help.

    Parameters
    ----------
    board : The leaderboard that people's votes and the machine's answers give together, about people's view.
    people_only : That of the votes alone.
    weight : λ of each machine, by its name: 0 is people alone.
    votes : How many votes there are.
    matched : How many of them are about pairs that a machine answered too.
    worth : How many votes would give the same mean variance without a machine.
    left_out : The groups that no chain of votes connects with those of the board: nothing is known of their scores.
    """

    board: Leaderboard
    people_only: Leaderboard
    weight: Mapping[Hashable, float]
    votes: int
    matched: int
    worth: float
    left_out: tuple[Hashable, ...] = ()

    @property
    def saved(self) -> int:
        """How many votes of people the machine's answers saved."""
        return max(round(self.worth) - self.votes, 0)

    @property
    def sentence(self) -> str:
        """How many votes the machine saved, and which groups are unknown."""
        said = f"{self.votes:,} votes, {self.matched:,} of them on pairs that the machine answered: "
        if self.saved:
            said += (
                f"with its answers they are worth {self.votes + self.saved:,} votes alone, so it saved "
                f"{self.saved:,}. Nothing is assumed of the machine."
            )
        else:
            said += "its answers saved no votes."
        if self.left_out:
            names = ", ".join(map(str, self.left_out[:NAMED]))
            if len(self.left_out) > NAMED:
                names += ", …"
            every = len(self.left_out) + len(self.board)
            said += (
                f" Nothing is known of {len(self.left_out):,} of {every:,} groups ({names}), which no chain of votes "
                "connects with the others: collect votes on pairs of their texts."
            )
        return said

    def __str__(self) -> str:
        return f"{self.board}\n{self.sentence}"

    def _repr_html_(self) -> str:
        return f"{self.board._repr_html_()}<p>{self.sentence}</p>"


def powered(
    machine: Any,
    votes: Any = None,
    groups: Groups = "items",
    *,
    people: Collection[Hashable] = (),
    contexts: Over = "new",
    level: float = 0.95,
) -> Powered:
    """Which group people prefer, from votes on some pairs of texts and a machine's answers to many.

    The scores and intervals are about people's votes, whatever the machine prefers. The better the machine predicts
    single votes, the narrower are the intervals.

    Parameters
    ----------
    machine
        Comparisons by one or several machines, in any form that `Comparisons.of` reads; a column `judge` names
        several, and each has a weight of its own.
    votes
        Comparisons by people of some of the same pairs, with the same names of contexts and items: p is 1, 0, or ½ for
        a tie. None if they are among those of `machine`; then `people` names the voters.
    groups
        The group of each item or pair (context, item), such as the system that wrote the text; "items": the same item
        in several contexts.
    people
        Without `votes`: the judges that are people.
    contexts
        "new": intervals are for all contexts that could have been drawn, and answers about one context are one cluster;
        "these": for these contexts only, and answers about one pair are one cluster. A single context is "these".
    level
        The coverage of intervals.

    Returns
    -------
    Powered
        Its `board` is a `Leaderboard`; scores are in logits of votes. It has the groups that chains of votes connect;
        the others are `left_out`.

    Raises
    ------
    ComparisonsError, ValueError
        If votes and machine share no pair, votes are too few or do not connect most of the groups, or an argument is
        invalid.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> texts = rng.normal([0.5, 0.0, -0.5], 2.0, (200, 3))
    >>> pairs = [(c, i, (i + 1 + c // 3 % 2) % 3) for c in range(200) for i in [c % 3]]
    >>> apart = [texts[c, i] - texts[c, j] for c, i, j in pairs]
    >>> machine = [
    ...     {"context": c, "first": "abc"[i], "second": "abc"[j], "p": expit(0.7 * d)}
    ...     for (c, i, j), d in zip(pairs, apart)
    ... ]
    >>> votes = [row | {"p": float(rng.random() < expit(d))} for row, d in zip(machine[:60], apart)]
    >>> found = powered(machine, votes)
    >>> found.board.group.tolist(), found.votes, bool(found.worth > 75)
    (['a', 'b', 'c'], 60, True)
    """
    if contexts not in ("new", "these"):
        raise ValueError(f"contexts is 'new' or 'these', not {contexts!r}")
    check_level(level)
    return _powered(*_by_judge(Comparisons.of(machine), votes, people), groups, contexts, level)


def _powered(
    data: Comparisons, judge: Index, names: list[Any], groups: Groups, contexts: Over, level: float
) -> Powered:
    """`powered` with `judge` (K,), the code of who answered each comparison: `PEOPLE`, or a machine."""
    graph = Graph.build(data)
    group, labels = group_codes(data, graph, groups)
    there, code = np.unique(group, return_inverse=True)
    group, labels = code.astype(np.int32), labels[there]
    first, second = group[graph.first], group[graph.second]
    is_vote = judge == PEOPLE
    kept = _compared(first[is_vote], second[is_vote], labels)
    if not kept.all():
        rows = kept[first] & kept[second]
        known = _powered(data.take(rows), judge[rows], names, groups, contexts, level)
        return replace(known, left_out=tuple(labels[~kept].tolist()))
    pair = np.unique(data.pair_keys(), return_inverse=True)[1].astype(np.int32)
    over: Over = "these" if graph.contexts == 1 else contexts
    cluster = pair if over == "these" or data.context is None else data.context
    answers = GroupAnswers(first, second, data.p, data.weights, cluster)
    if len(np.unique(cluster[is_vote])) < 2:
        if over == "these":
            raise ComparisonsError("all votes are about one pair of texts; add votes about others")
        raise ComparisonsError(Message("all votes are about one context; add others, or use {contexts:'these'}"))
    count, clusters = len(labels), int(cluster.max()) + 1
    own = fitted(answers.take(is_vote), count, clusters, is_reduced=True)
    asked = np.unique(judge[~is_vote]).tolist()
    names, by = [names[machine] for machine in asked], [judge == machine for machine in asked]
    matched = int(np.sum(np.isin(pair[is_vote], pair[~is_vote])))
    if not matched:
        raise ComparisonsError(
            "no vote is about a pair that the machine answered; check that both have the same names of contexts and "
            "items, or let the machine answer the pairs of the votes"
        )
    machines = [
        (fitted(answers.take(rows), count, clusters), _about_votes(answers, pair, is_vote, rows)) for rows in by
    ]
    found = estimated(own, machines)
    alone, left = own.covariance(own.robust), float(np.trace(found.covariance))
    columns = {"group": labels, "won": np.full(count, np.nan)} | group_counts(graph, group, count, is_vote)

    def board(score: Array, covariance: Array) -> Leaderboard:
        wins = expit(score[:, None] - score)
        return Leaderboard.ordered(score, covariance, wins, columns, freedom=own.freedom, level=level, over=over)

    return Powered(
        board=board(found.scores, found.covariance),
        people_only=board(own.scores, alone),
        weight=dict(zip(names, found.weight.tolist(), strict=True)),
        votes=len(own.answers),
        matched=matched,
        worth=len(own.answers) * (float(np.trace(alone) / left) if left > 0 else 1.0),
    )


def _by_judge(data: Comparisons, votes: Any, people: Collection[Hashable]) -> tuple[Comparisons, Index, list[Any]]:
    """All comparisons without judges, the code of who answered each (`PEOPLE`, or a machine), and the machines."""
    check_people(data if votes is None else None, people)
    if votes is not None and people:
        raise ValueError("people are the judges of one table that holds their votes too; leave people or votes out")
    if votes is None:
        known = [] if data.judges is None else data.judges.tolist()
        if not people or len(set(people)) == len(known):
            raise ValueError("give votes, or say which of several judges are people, such as people=['human']")
        names = [name for name in known if name not in people]
        code = np.array([PEOPLE if name in people else names.index(name) for name in known], dtype=np.int32)
        judge = code[data.judged_by]
    else:
        said = Comparisons.of(votes)
        names = [ALONE] if data.judges is None else data.judges.tolist()
        judge = np.concatenate([data.judged_by, np.full(len(said), PEOPLE, dtype=np.int32)])
        data = _joined(data, said)
    counts = data.weights > 0
    return replace(data, judges=None, judge=None).take(counts), judge[counts], names


def _joined(machine: Comparisons, votes: Comparisons) -> Comparisons:
    """The comparisons of both, without judges."""
    parts = [machine, votes]
    if any(part.contexts is None for part in parts):
        if any(part.contexts is not None and len(part.contexts) > 1 for part in parts):
            name = "votes" if votes.contexts is None else "machine's answers"
            raise ComparisonsError(f"the {name} have no column context, and the others have several; add it")
        parts = [replace(part, contexts=None, context=None) for part in parts]
    columns = [replace(part, judges=None, judge=None).to_rows() for part in parts]
    return join(dict(zip(("machine", "votes"), columns, strict=True)))


def _compared(first: Index, second: Index, labels: NDArray[Any]) -> Mask:
    """Whether each group is in the largest connected part, (G,); an error unless most are, by enough votes."""
    count, between = len(labels), first != second
    if count < 2:
        raise ComparisonsError(f"there is only one group, {labels[0]!r}; a leaderboard needs two or more")
    first, second = first[between], second[between]
    links = sparse.coo_array((np.ones(len(first)), (first, second)), shape=(count, count))
    chain = connected_components(links, directed=False)[1]
    sizes = np.bincount(chain)
    kept = np.asarray(chain == np.argmax(sizes))
    for votes, among in ((len(first), count), (int(np.sum(kept[first])), int(np.sum(kept)))):
        if votes < LEAST_VOTES * among:
            raise ComparisonsError(
                f"{votes:,} votes between {among:,} groups are too few to assume nothing of the machine; collect at "
                f"least {np.ceil(LEAST_VOTES * among):.0f}, or use with_votes, which takes the machine to agree with "
                "people as machines usually do"
            )
    if 2 * np.max(sizes) <= count:
        one, other = labels[kept][0], labels[~kept][0]
        raise ComparisonsError(
            f"no chain of votes connects the groups {one!r} and {other!r}, so that they cannot be compared; collect "
            "votes on pairs of their texts, or leave one of them out"
        )
    return kept


def _about_votes(answers: GroupAnswers, pair: Index, is_vote: Mask, rows: Mask) -> GroupAnswers:
    """The answers in `rows` to pairs with votes; their weights of each pair sum to those of its votes."""
    voted, asked = (np.bincount(pair, answers.weight * some) for some in (is_vote, rows))
    rows = rows & (voted[pair] > 0)
    some = answers.take(rows)
    return replace(some, weight=some.weight * voted[pair[rows]] / asked[pair[rows]])
