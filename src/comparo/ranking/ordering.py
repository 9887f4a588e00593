"""Scores of candidates and what they say of their order: intervals, ranks, tiers, probabilities."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from comparo.data.comparisons import Comparisons
from comparo.model.inference.soft import equality
from comparo.model.linalg.graph import Graph
from comparo.model.posterior import Covariance
from comparo.ranking.ranks import Candidate, among_best, beats, nodes_of, rank_intervals, ranks, tiers
from comparo.rounding import merge_ties
from comparo.types import Array


@dataclass(frozen=True)
class Placed:
    """Scores (n,) of the candidates of a graph with their covariance, by a method; what `comparo.Ranking` builds on."""

    method: str
    comparisons: Comparisons
    graph: Graph
    scores: Array
    covariance: Covariance
    level: float = 0.95

    def __len__(self) -> int:
        """How many candidates are ranked."""
        return self.graph.nodes

    def __iter__(self) -> Iterator[Any]:
        """The items best first; with contexts, pairs (context, item) in the order of the table."""
        items = self.items[self._order].tolist()
        return iter(items if self.context is None else zip(self.context[self._order].tolist(), items, strict=True))

    def __getitem__(self, key: Hashable) -> Candidate:
        """The row of an item; with several contexts, of a pair (context, item).

        >>> from comparo import fit
        >>> ranking = fit([("a", "b", 0.8), ("b", "c", 0.7), ("c", "a", 0.1)])
        >>> ranking["b"].rank, [ranking[item].tier for item in ranking]
        (2, [1, 1, 1])
        """
        context, contexts = None, self.comparisons.contexts
        if contexts is not None and isinstance(key, tuple) and len(key) == 2:
            context, key = key
        node = self._node(key, context)
        label = None if contexts is None else contexts[self.graph.context[node]]
        score, std = float(self.scores[node]), float(self.std[node])
        reach = float(ndtri((1 - self.level) / 2)) * std
        places = (int(column[node]) for column in (self.rank, self.tier, self.counts))
        return Candidate(label, key, score, std, score + reach, score - reach, *places)

    @property
    def items(self) -> NDArray[Any]:
        """The label of each candidate."""
        return np.asarray(self.comparisons.items[self.graph.item])

    @property
    def context(self) -> NDArray[Any] | None:
        """The context's label of each candidate; None where the comparisons have no contexts."""
        contexts = self.comparisons.contexts
        return None if contexts is None else np.asarray(contexts[self.graph.context])

    @property
    def contexts(self) -> NDArray[Any] | None:
        """The label of each context, shape (C,), as `bias`, `expected_spearman` and `top_probability` have them."""
        return self.comparisons.contexts

    @property
    def std(self) -> Array:
        """Standard error of each score; NaN for an item that was never compared."""
        return self.covariance.std

    @property
    def low(self) -> Array:
        """Lower end of each score's interval of coverage `level`."""
        return np.asarray(self.scores + ndtri((1 - self.level) / 2) * self.std)

    @property
    def high(self) -> Array:
        """Upper end of each score's interval of coverage `level`."""
        return np.asarray(self.scores - ndtri((1 - self.level) / 2) * self.std)

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """How many comparisons each candidate is in."""
        return self.graph.degrees()

    @cached_property
    def component(self) -> NDArray[np.int32]:
        """The connected component of each candidate, numbered from 1 in its context."""
        first_of_context = self.graph.component[self.graph.starts[:-1]]
        return np.asarray(self.graph.component - np.repeat(first_of_context, np.diff(self.graph.starts)) + 1)

    @cached_property
    def _order(self) -> NDArray[np.int64]:
        """Best first, in the comparisons' order of contexts and then of components."""
        return np.lexsort((-merge_ties(self.scores), self.graph.component, self.graph.context))

    @cached_property
    def rank(self) -> NDArray[np.int64]:
        """1 for the best of each component; equal scores share a rank."""
        return ranks(self.graph, self.scores)

    @cached_property
    def tier(self) -> NDArray[np.int64]:
        """1 for the best tier of each component; items that cannot be distinguished share one.

        A tier ends before the first item that its best item beats with a probability of at least `level`. Contexts of
        more than 4096 items take the errors of two scores as independent. All are in one tier where a test at
        1 − `level` (`equality`) does not show that any items differ, so that equal items are split in at
        most that share of runs.
        """
        if equality(self.comparisons, self.covariance.pattern.limits) > 1 - self.level:
            return np.ones(len(self), dtype=np.int64)
        return tiers(self.scores, self.covariance, self.level)

    def probability(self, one: Hashable, other: Hashable, context: Hashable = None) -> float:
        """P(`one` is better than `other`): that its true score is higher, given the comparisons.

        NaN where no chain of comparisons connects the two. This is not the share of answers in favour
        of `one`: with enough comparisons a small difference becomes certain.

        >>> from comparo import fit
        >>> fit([("a", "b", 0.5), ("b", "a", 0.5)]).probability("a", "b")
        0.5
        """
        a, b = self._node(one, context), self._node(other, context)
        if self.graph.component[a] != self.graph.component[b]:
            return float("nan")
        variance = np.array(self.covariance.difference(a, b) if a != b else 0.0)
        return float(beats(np.array(self.scores[a] - self.scores[b]), variance))

    def rank_intervals(self) -> dict[str, NDArray[Any]]:
        """The best and the worst rank of each candidate at `level`: a table with columns best_rank and worst_rank.

        From 1000 draws of all scores of a component; in contexts of more than 4096 items, the ranks that the ends of
        the score's interval would have.

        >>> from comparo import fit
        >>> fit([("a", "b", 0.2), ("b", "c", 0.9), ("c", "a", 0.2)]).rank_intervals()["item"].tolist()
        ['b', 'a', 'c']
        """
        best, worst = rank_intervals(self.scores, self.covariance, self.level)
        return self._table({"item": self.items, "rank": self.rank, "best_rank": best, "worst_rank": worst})

    def top(self, k: int) -> dict[str, NDArray[Any]]:
        """P(each candidate is among the best k of its component): a table with a column probability.

        From 1000 draws; in contexts of more than 4096 items, P(its true score is above the mean of the k-th and the
        next score).

        >>> from comparo import fit
        >>> top = fit([("a", "b", 0.01), ("b", "a", 0.99), ("a", "b", 0.02)]).top(1)
        >>> top["item"].tolist(), top["probability"].round(2).tolist()
        (['b', 'a'], [0.99, 0.01])
        """
        if not isinstance(k, int) or k < 1:
            raise ValueError(f"k is a whole number from 1 on, not {k!r}")
        probability = among_best(self.scores, self.covariance, k)
        return self._table({"item": self.items, "rank": self.rank, "probability": probability})

    def _table(self, columns: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Columns (n,) in the order of `items` as a table: best first, with what else names a row."""
        if self.graph.components > self.graph.contexts:
            columns = {"component": self.component} | columns
        if self.context is not None:
            columns = {"context": self.context} | columns
        return {name: column[self._order] for name, column in columns.items()}

    def nodes_of(self, context: Hashable = None) -> slice:
        """The slice of the candidates of `context`, which may be omitted if there is only one."""
        return nodes_of(self.graph, self.comparisons.contexts, context)

    def _node(self, item: Hashable, context: Hashable) -> int:
        contexts, first = self.comparisons.contexts, self.nodes_of(context).start
        label = None if contexts is None else contexts[self.graph.context[first]]
        node = self._numbers.get((label, item))
        if node is None:
            raise KeyError(f"there is no item {item!r}" + ("" if context is None else f" in context {context!r}"))
        return node

    @cached_property
    def _numbers(self) -> dict[tuple[Any, Any], int]:
        return {label: node for node, label in enumerate(self.graph.labels(self.comparisons))}
