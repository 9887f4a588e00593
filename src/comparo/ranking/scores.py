"""Scores of candidates with their uncertainty and their source: a judge, a panel, votes, an earlier ranking."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from comparo.data.columns import shown
from comparo.data.comparisons import Comparisons
from comparo.errors import Message, named
from comparo.model.inference.soft import equality
from comparo.model.linalg.graph import Graph
from comparo.model.posterior import Covariance
from comparo.model.solution import Solution
from comparo.ranking.ranks import beats, places, ranks, tiers
from comparo.ranking.tabular import Columns, with_interval
from comparo.rounding import merge_ties
from comparo.types import Array, LongIndex, Mask

Estimand = Literal["judge", "consensus"]
Whose = Literal["judge", "consensus", "people"]


@dataclass(frozen=True, eq=False)
class Link:
    """The link between two runs: the texts that were judged in both.

    Parameters
    ----------
    common : A row per common text: its score in this run and in the other, its change (this run − other) less that of
        the other common texts, z of that, and whether it is significant.
    error : The standard error of the link: of the mean of the new texts on the scale of the other run, the largest of
        all contexts; NaN where it is not known.
    """

    common: Columns
    error: float

    @property
    def sentence(self) -> str:
        """How the runs are linked, in words."""
        error = "" if np.isnan(self.error) else f", with a standard error of {self.error:.2f} in every new score"
        return f"linked by {len(self.common['item']):,} common texts{error}"

    @property
    def notes(self) -> tuple[str, ...]:
        """The common texts that moved, the farthest first, and whether there are too few to say so."""
        rows = np.argsort(-merge_ties(np.abs(self.common["z"])), kind="stable")
        found = [
            f"the common text {shown(self.common['item'][row])} moved by {self.common['moved'][row]:+.2f} against the "
            "others, more than errors explain; if it is not the same text, give it another id in one of the runs"
            for row in rows[self.common["drifted"][rows]].tolist()
        ]
        if np.isnan(self.common["z"]).any():
            found.append("one or two common texts do not show whether one of them moved; give three or more")
        return tuple(found)


@dataclass(frozen=True, eq=False)
class Grown:
    """The earlier state of a ranking that grew; arrays have one entry per candidate, as `Ranking.items`.

    Parameters
    ----------
    new : Whether each candidate is new, shape (n,).
    score, low, high : The score of each before, and its interval, shape (n,); NaN for new ones.
    link : The link to another run; None where texts were added to the same run.
    """

    new: Mask
    score: Array
    low: Array
    high: Array
    link: Link | None = None


@dataclass(frozen=True, slots=True)
class People:
    """A summary of people's votes.

    Parameters
    ----------
    votes, voters : How many votes there are, and by how many people.
    level : The coverage of the interval of the validity.
    validity, low, high : k with its interval, the share of the judge's view of a text beyond its group that people
        share; None where no groups are known.
    correlation : The expected correlation of the scores with people's, which is 0 if all texts are equal.
    alone : The same from the votes alone, without the machine.
    worth : The number of votes that alone would give the same r²/(1 − r²), which is proportional to the number.
    is_scattered : Whether hardly any text is in two votes.
    """

    votes: int
    voters: int
    level: float
    validity: float | None
    low: float | None
    high: float | None
    correlation: float
    alone: float
    worth: float
    is_scattered: bool = False

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know before trusting the intervals."""
        if not self.is_scattered:
            return ()
        return (
            "hardly any text is in two votes, so that they do not tell how much texts of one group vary: the intervals "
            "of people's scores may be far off; "
            + Message("ask about the same texts again, or use {powered} for groups"),
        )

    @property
    def sentence(self) -> str:
        """The summary as a sentence.

        >>> print(People(50, 2, 0.95, 0.2, 0.05, 0.4, 0.6, 0.45, 107.0).sentence)
        50 votes of 2 people with the judge's answers are worth about as much as 107 votes alone: the expected
        correlation with people's scores is 0.60, and 0.45 from the votes alone. Of what the judge says about a text
        beyond its group, people share 0.20 (0.05 to 0.40).
        """
        who = f"{self.votes:,} votes of {self.voters:,} people" if self.voters > 1 else f"{self.votes:,} votes"
        sentence = (
            f"{who} with the judge's answers are worth about as much as {self.worth:,.0f} votes alone: the expected "
            f"correlation with people's scores is {self.correlation:.2f}, and {self.alone:.2f} from the votes alone."
        )
        if self.validity is None or self.low is None or self.high is None:
            return sentence
        shared = with_interval(self.validity, self.low, self.high, ".2f")
        if not np.isfinite([self.validity, self.low, self.high]).all():  # a ratio whose denominator may be 0
            shared = "an unknown share; more votes tell it"
        return f"{sentence} Of what the judge says about a text beyond its group, people share {shared}."


@dataclass(frozen=True)
class Scores:
    """The fields of a `Ranking`, whose docstring describes them, and properties of each candidate."""

    solution: Solution
    scores: Array
    covariance: Covariance
    level: float = 0.95
    controlled: Self | None = field(default=None, repr=False)
    people: People | None = None
    grown: Grown | None = field(default=None, repr=False)
    _judged: Self | None = field(default=None, repr=False)

    @property
    def method(self) -> str:
        """The name of the method."""
        return self.solution.method

    @property
    def comparisons(self) -> Comparisons:
        """What was fitted."""
        return self.solution.comparisons

    @property
    def graph(self) -> Graph:
        """The comparison graph, whose nodes are the candidates."""
        return self.solution.graph

    def __len__(self) -> int:
        """How many candidates are ranked."""
        return self.graph.nodes

    @property
    def items(self) -> NDArray[Any]:
        """The label of each candidate."""
        return self.comparisons.items[self.graph.item]

    @property
    def context(self) -> NDArray[Any] | None:
        """The context's label of each candidate; None where the comparisons have no contexts."""
        contexts = self.comparisons.contexts
        return None if contexts is None else np.asarray(contexts[self.graph.context])

    @property
    def std(self) -> Array:
        """Standard error of each score; NaN for an item that was never compared."""
        return self.covariance.std

    @property
    def low(self) -> Array:
        """Lower end of each score's interval of coverage `level`."""
        return self.scores + ndtri((1 - self.level) / 2) * self.std

    @property
    def high(self) -> Array:
        """Upper end of each score's interval of coverage `level`."""
        return self.scores - ndtri((1 - self.level) / 2) * self.std

    @cached_property
    def rank(self) -> LongIndex:
        """1 for the best of each component; equal scores share a rank."""
        return ranks(self.graph, self.scores)

    @cached_property
    def tier(self) -> LongIndex:
        """1 for the best tier of each component; items that cannot be distinguished share one.

        A tier ends before the first item that its best item beats with a probability of at least `level`. Contexts of
        more than 4096 items take the errors of two scores as independent. All are in one tier where a test at
        1 − `level` (`equality`) does not show that any items differ: equal items are split in at most that share of
        runs.
        """
        if equality(self.comparisons, self.covariance.pattern.limits) > 1 - self.level:
            return np.ones(len(self), dtype=np.int64)
        return tiers(self.scores, self.covariance, self.level)

    @cached_property
    def _among_best(self) -> Array | None:
        """P(each candidate is among the best k of its component), of a run with the goal "top-k"; else None."""
        k = self.solution.best
        return None if k is None else places(self.scores, self.covariance, self.level, k)[2]

    @property
    def estimate(self) -> Whose:
        """Whose ranking it is: "judge", "consensus" (people's, estimated from one judge) or "people" (with votes)."""
        if self.people is not None:
            return "people"
        return "judge" if self._judged is None else "consensus"

    @property
    def judged(self) -> Self:
        """The judge's own ranking, from which a consensus is estimated."""
        return self if self._judged is None else self._judged

    @cached_property
    def _order(self) -> LongIndex:
        """The candidates' numbers, sorted by context, component and score, best first."""
        return np.lexsort((-merge_ties(self.scores), self.graph.component, self.graph.context))

    def probability(self, one: Hashable, other: Hashable, context: Hashable = None) -> float:
        """P(`one` is better than `other`): that its true score is higher, given the comparisons.

        NaN where no chain of comparisons connects the two. This is not the share of answers in favour
        of `one`: with enough comparisons a small difference becomes certain.

        >>> from comparo import fit
        >>> fit([("a", "b", 0.5), ("b", "a", 0.5)]).probability("a", "b")
        0.5
        """
        a, b = _node(self, one, context), _node(self, other, context)
        if self.graph.component[a] != self.graph.component[b]:
            return float("nan")
        variance = np.array(self.covariance.difference(a, b) if a != b else 0.0)
        return float(beats(np.array(self.scores[a] - self.scores[b]), variance))


def table_of(ranking: Scores, columns: Columns) -> Columns:
    """Columns (n,) in the order of `items` as a table: best first, with the context and the component, if any.

    The items that are unreached come last, without values.
    """
    graph, unreached = ranking.graph, ranking.solution.unreached
    if graph.components > graph.contexts:
        columns = {"component": graph.component_in_context} | columns
    if ranking.context is not None:
        columns = {"context": ranking.context} | columns
    table = {name: column[ranking._order] for name, column in columns.items()}
    if not unreached:
        return table
    labels, none = dict(zip(("context", "item"), zip(*unreached, strict=True), strict=True)), [np.nan]
    for name, column in table.items():
        kind = column.dtype if column.dtype.kind == "f" else np.dtype(object)
        rest = labels.get(name, none * len(unreached))
        table[name] = np.concatenate([column.astype(kind), np.fromiter(rest, kind)])
    return table


def nodes_of(ranking: Scores, context: Hashable = None) -> slice:
    """The slice of the candidates of `context`, which may be omitted if there is only one."""
    graph, contexts = ranking.graph, ranking.comparisons.contexts
    if contexts is None and context is not None:
        raise KeyError(f"there is no context {context!r}: the comparisons have no contexts")
    if contexts is None or (context is None and graph.contexts == 1):
        return slice(0, graph.nodes)
    labels = contexts.tolist()
    if context is None:
        raise KeyError(f"say which of the {len(labels)} contexts, for example " + named("context", labels[0]))
    if context not in labels:
        raise KeyError(f"there is no context {context!r}; there are {', '.join(map(repr, labels[:5]))}, …")
    position = int(np.flatnonzero(graph.context[graph.starts[:-1]] == labels.index(context))[0])
    return slice(int(graph.starts[position]), int(graph.starts[position + 1]))


def node_of(ranking: Scores, key: Hashable) -> int:
    """The number of an item, or of a pair (context, item)."""
    context = None
    if ranking.context is not None and isinstance(key, tuple) and len(key) == 2:
        context, key = key
    return _node(ranking, key, context)


def _node(ranking: Scores, item: Hashable, context: Hashable) -> int:
    labels = ranking.solution.labels
    node = ranking.solution.numbers.get((labels[nodes_of(ranking, context).start][0], item))
    if node is None:
        raise KeyError(f"there is no item {item!r}" + ("" if context is None else f" in context {context!r}"))
    return node
