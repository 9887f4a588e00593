"""The graph of a panel: every candidate once as the consensus sees it, and once for each family of voices.

Divide the view of a family by its loading, z_ki = x_ki / a_k = t_i + u_ki / a_k. Then a panel is one comparison graph:

    a voice compares z_ki with z_kj        with precision α_r²·c,
    a family's view is near the consensus  z_ki − t_i with precision e_k = ρ_k² / (1 − ρ_k²),
    and the consensus itself is t_i ~ N(0, 1),

with α_r the scale of the voice, so that its answers observe α_r·(z_ki − z_kj). A reversed voice has a negative scale.
All solvers of the plain graph work on this one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from comparo.model.graph import Graph
from comparo.model.laplacian import Laplacian
from comparo.model.limits import Limits
from comparo.model.pattern import Pattern
from comparo.types import Array, Index


@dataclass(frozen=True)
class Star:
    """The nodes of a panel of F families about the n candidates of `graph`.

    `views` (F, n) and `consensus` (n,) are its nodes. `first`, `second` and `voice` (M,) are the nodes and the voice of
    each observation; `family` (R,) is that of each voice.
    """

    graph: Graph
    views: Index
    consensus: Index
    first: Index
    second: Index
    voice: Index
    family: NDArray[np.intp]
    limits: Limits

    @classmethod
    def of(cls, graph: Graph, observed: list[tuple[Index, Index]], family: NDArray[np.intp], limits: Limits) -> Star:
        """The star for the candidates of `graph` and the first and second candidate of each voice's observations."""
        families, n = int(family.max()) + 1, graph.nodes
        block = np.repeat(np.arange(families + 1), n)
        candidate = np.tile(np.arange(n), families + 1)
        order = np.lexsort((candidate, block, graph.component[candidate]))
        number = np.empty(len(order), dtype=np.int32)
        number[order] = np.arange(len(order), dtype=np.int32)
        place = number.reshape(families + 1, n)
        counts = [len(first) for first, _ in observed]
        voice = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
        ends = [np.concatenate(side) for side in zip(*observed, strict=True)]
        first, second = (place[family[voice], end].astype(np.int32) for end in ends)
        return cls(graph, place[:-1], place[-1], first, second, voice, family, limits)

    @cached_property
    def pattern(self) -> Pattern:
        """The pattern of all observations, and after them of the ties of each family's views to the consensus."""
        graph, families = self.graph, len(self.views)
        member = np.empty(self.views.size + graph.nodes, dtype=np.int32)
        for row in (*self.views, self.consensus):
            member[row] = np.arange(graph.nodes)
        first = np.concatenate([self.first, self.views.ravel()]).astype(np.int32)
        second = np.concatenate([self.second, np.tile(self.consensus, families)]).astype(np.int32)
        whole = Graph(
            graph.item[member],
            graph.context[member],
            graph.starts * (families + 1),
            graph.component[member],
            first,
            second,
        )
        return Pattern(whole, limits=self.limits)

    def laplacian(self, c: Array, scale: Array, ties: Array) -> Laplacian:
        """H for the precisions c (M,) of the observations, the voices' α (R,) and the families' e (F,)."""
        pattern, n = self.pattern, self.graph.nodes
        precision = np.concatenate([c * scale[self.voice] ** 2, np.repeat(ties, n)])
        ridge = np.zeros(pattern.unknowns)
        ridge[self.consensus] = 1.0
        return Laplacian(pattern, precision[pattern.order], ridge)

    def rhs(self, pull: Array, scale: Array) -> Array:
        """What the observations say of all nodes, from their pulls (M,)."""
        pattern = self.pattern
        pulls = np.concatenate([pull * scale[self.voice], np.zeros(self.views.size)])
        return pattern.gather(pulls[pattern.order])

    def observed(self, values: Array) -> Array:
        """The entries of the observations, in their own order, of `values` in the pattern's order."""
        found = np.empty_like(values)
        found[self.pattern.order] = values
        return found[: len(self.first)]
