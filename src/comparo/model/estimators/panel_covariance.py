"""A panel: its graph, the information of all voices about the consensus, and what it says of each voice.

Every candidate is a node of the consensus, t_i, and a node of each family of voices, z_ki = x_ki / a_k = t_i + u_ki /
a_k, its view divided by its loading. Then a panel is one comparison graph:

    a voice compares z_ki with z_kj        with precision α_r²·c,
    a family's view is near the consensus  z_ki − t_i with precision e_k = ρ_k² / (1 − ρ_k²),
    and the consensus itself is t_i ~ N(0, 1),

with α_r the scale of the voice: its answers observe α_r·(z_ki − z_kj). A reversed voice has a negative scale. All
solvers of the plain graph work on this one. With Λ_k = Σ α_r²L_r over the voices of a family, eliminating the views
gives

    W = Σ_k e_k Λ_k (Λ_k + e_k)⁻¹,      g = Σ_k e_k (Λ_k + e_k)⁻¹ h_k,      h_k = Σ_r α_r b_r,

and t ~ N((W + 1/σ²)⁻¹(g + M θ/σ²), (W + 1/σ²)⁻¹): a family adds at most the precision e_k to a t, however many its
answers. Contexts of up to `Limits.exact` candidates are dense; above, random vectors estimate the covariance.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from comparo.model.design import Shared
from comparo.model.estimators.panel_members import PanelMembers
from comparo.model.estimators.voice import VoiceModel
from comparo.model.inference.random_effects import Predicted
from comparo.model.inference.reml import estimate
from comparo.model.linalg.graph import ContextBatch, Graph, Pattern
from comparo.model.linalg.laplacian import Laplacian
from comparo.model.linalg.spectrum import Moments, Spectrum
from comparo.model.posterior import Posterior, root_of
from comparo.model.tuning import NEARLY, Limits
from comparo.types import Array, Index, LongIndex, Mask


@dataclass(frozen=True)
class PanelGraph:
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
    def of(
        cls, graph: Graph, observed: list[tuple[Index, Index]], family: NDArray[np.intp], limits: Limits
    ) -> PanelGraph:
        """The panel graph of the candidates of `graph`; `observed` has (first, second) of each voice's observations."""
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
        """The pattern of all observations, followed by the ties of each family's views to the consensus."""
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
        """The right-hand side b of all nodes, from the pulls (M,) of the observations and the voices' α (R,)."""
        pattern = self.pattern
        pulls = np.concatenate([pull * scale[self.voice], np.zeros(self.views.size)])
        return pattern.gather(pulls[pattern.order])

    def observed(self, values: Array) -> Array:
        """The entries of `values`, given in the pattern's order, that belong to observations, in their own order."""
        found = np.empty_like(values)
        found[self.pattern.order] = values
        return found[: len(self.first)]


@dataclass(frozen=True)
class PanelInformation:
    """The information of the voices about the consensus, in units of `unit` logits; a `Part` of a `Posterior`.

    `spread` (n, M) is a root of the covariance of the predictions by groups and style; `variance` is σ², `expected` the
    variance of the predictions, and `predicted` their estimate. With a control, `errors` (R·D, R·D) is a root of the
    covariance of the voices' coefficients, and `spread` includes their uncertainty.
    """

    panel_graph: PanelGraph
    laplacian: Laplacian
    voices: tuple[VoiceModel, ...]
    scale: Array
    ties: Array
    share: Array
    unit: float
    variance: float = 1.0
    expected: float = 0.0
    spread: Array | None = None
    errors: Array = field(default_factory=lambda: np.zeros((0, 0)))
    predicted: Predicted | None = None

    @property
    def graph(self) -> Graph:
        return self.panel_graph.graph

    @cached_property
    def pattern(self) -> Pattern:
        """The pattern of the candidates, with the same batches as the pattern of each voice."""
        return Pattern(self.graph, limits=self.panel_graph.limits)

    @cached_property
    def _kept(self) -> dict[int, tuple[Array, Array]]:
        return {}

    def information(self, number: int) -> tuple[Array, Array]:
        """W (B, size, size) and g (B, size) of the contexts of batch `number` of the pattern."""
        if number in self._kept:
            return self._kept[number]
        batch = self.pattern.batches[number]
        count, size = batch.end - batch.begin, batch.size
        w, g = np.zeros((count, size, size)), np.zeros((count, size))
        for k, tie in enumerate(self.ties.tolist()):
            known, pulled = np.zeros_like(w), np.zeros_like(g)
            for r in np.flatnonzero(self.panel_graph.family == k).tolist():
                laplacian, scale = self.voices[r].laplacian, self.scale[r]
                own = laplacian.pattern.batches[number]
                prior = np.eye(size) / self.voices[r].variance
                precision = laplacian.dense(own) - laplacian.constants(own) - prior
                said = laplacian.pattern.gather(self.voices[r].pull)[batch.nodes].reshape(count, size)
                known += self.share[r] * scale**2 * precision
                pulled += self.share[r] * scale * said
            shrink = tie * np.linalg.inv(known + tie * np.eye(size))
            w += known @ shrink
            g += np.einsum("bij,bj->bi", shrink, pulled)
        if self.pattern.may_keep:
            self._kept[number] = w, g
        return w, g

    def with_coefficient_errors(self, held: Array) -> PanelInformation:
        """Add the uncertainty of the voices' coefficients of the control, whose values are `held` (n, D)."""
        return replace(self, spread=self._moved_by(held, 1.0) @ self.errors)

    def _moved_by(self, held: Array, variance: float) -> Array:
        """The change of t by one unit of each coefficient of each voice, (n, R·D), for t with this prior variance."""
        star, laplacian = self.panel_graph, self.laplacian
        columns = []
        for r, voice in enumerate(self.voices):
            apart = held[voice.pattern.first] - held[voice.pattern.second]
            pulls = np.zeros((len(star.voice), held.shape[1]))
            pulls[star.voice == r] = self.share[r] * voice.c[:, None] * apart
            columns += [star.rhs(column, self.scale) for column in pulls.T]
        prior = Laplacian(laplacian.pattern, laplacian.c, laplacian.ridge / variance)
        return self.graph.centre(prior.solve(np.column_stack(columns))[star.consensus])

    def expecting(self, shared: Shared, held: Array | None = None) -> tuple[PanelInformation, Array]:
        """The information and t (n,) with groups or style as predictors of t, their variances estimated by REML.

        `held` (n, D) are the values of the control; the uncertainty of its coefficients adds to that of t.
        """
        parts = []
        for number, batch in enumerate(self.pattern.batches):
            w, g = self.information(number)
            q, vectors = np.linalg.eigh(0.5 * (w + w.transpose(0, 2, 1)))
            q, turned = np.maximum(q, 0.0), vectors.transpose(0, 2, 1)
            columns = turned @ shared.columns[batch.nodes].reshape(len(q), batch.size, -1)
            beta = np.einsum("bij,bj->bi", turned, g)
            parts.append((q.ravel(), beta.ravel(), columns.reshape(q.size, -1)))
        q, beta, columns = (np.concatenate(part) for part in zip(*parts, strict=True))
        spectrum = Spectrum(q, beta, Moments.of(q, beta, columns), q, np.ones(len(q)), 0.0)
        variances = estimate(spectrum, shared.kind, len(q), has_known_noise=True)
        between, theta = variances.precision(variances.ratio)
        none = np.zeros((self.graph.nodes, 0))
        start, solved = self.given(variances.ratio, shared.columns, none)
        follow = self.graph.centre(solved)
        moved = none if held is None else self._moved_by(held, variances.ratio)
        # An error of a coefficient also moves the prediction of t.
        moved = moved + follow @ (between @ (shared.columns.T @ moved)) / variances.ratio
        lean = moved @ self.errors
        known = (self.graph, shared.columns, shared.is_group, variances, self, len(q))
        predicted = Predicted(*known, none, lean, unit=self.unit)
        spread = np.column_stack([follow @ root_of(between), lean])
        expected = float(np.sum(variances.shared))
        found = replace(self, variance=variances.ratio, expected=expected, spread=spread, predicted=predicted)
        return found, start + follow @ theta

    @property
    def posterior(self) -> Posterior:
        return Posterior((self,), scale=self.unit**2, roots=self.spread)

    def block(self, batch: ContextBatch) -> Array:
        """(W + 1/σ²)⁻¹ of the consensus in each context of `batch`, (B, size, size)."""
        number = self.pattern.batches.index(batch)
        precision = self.information(number)[0] + np.eye(batch.size) / self.variance
        return self.pattern.centred(batch, np.asarray(np.linalg.inv(precision), dtype=float))

    def variances(self, begin: int) -> Array:
        return self.laplacian.variances(0)[self.panel_graph.consensus][begin:]

    def difference(self, one: int, other: int) -> float:
        return self.laplacian.difference(int(self.panel_graph.consensus[one]), int(self.panel_graph.consensus[other]))

    def given(self, a: float, expected: Array, right: Array) -> tuple[Array, Array]:
        """t (n,) with a prior of variance a around 0, (W + 1/a)⁻¹·expected/a and (W + 1/a)⁻¹·right (n, M + q)."""
        columns = np.column_stack([expected / a, right])
        found = np.empty((self.graph.nodes, 1 + columns.shape[1]))
        for number, batch in enumerate(self.pattern.batches):
            w, g = self.information(number)
            inverse = np.linalg.inv(w + np.eye(batch.size) / a)
            both = np.concatenate([g[..., None], columns[batch.nodes].reshape(*g.shape, -1)], axis=2)
            found[batch.nodes] = (inverse @ both).reshape(g.size, -1)
        return found[:, 0], found[:, 1:]


@dataclass(frozen=True)
class Panel(PanelMembers):
    """R voices in F families, in one model.

    Parameters
    ----------
    scale : a of each voice, (R,), in units of the scores.
    opinion : The information of all voices about t, from which its covariance is computed.
    group : The group of each candidate, (n,), where groups predict t; else None.
    shared, leans : The columns of groups and style, and the values of the control, (n, D), or None.
    """

    scale: Array
    opinion: PanelInformation
    group: Index | None
    shared: Shared
    leans: Array | None

    @cached_property
    def counts(self) -> Mask:
        """Which voices enter the consensus, (R,): people, and voices with at least `NEARLY` of the largest content.

        The content is that around the mean answer, because a constant bias is removed. All voices enter where fewer
        than two would be left, or where those left connect fewer candidates.
        """
        content = np.array([voice.content_around_mean for voice in self.voices])
        found: Mask = self.anchored | (content >= NEARLY * np.max(content))
        is_enough = np.count_nonzero(found) > 1 and self.graph.is_connected_by(found[self.voice])
        return found if is_enough else np.ones(len(found), dtype=bool)

    @property
    def calls(self) -> LongIndex:
        """How many answers each voice gave, (R,)."""
        return np.array([voice.answers for voice in self.voices])

    @property
    def apart(self) -> Array:
        """x_first − x_second of each comparison, x the scores of its voice, (K,)."""
        views = np.array([voice.scores for voice in self.voices])
        return np.asarray(views[self.voice, self.graph.first] - views[self.voice, self.graph.second])

    @property
    def gamma(self) -> Array:
        """γ of each comparison, (K,)."""
        gamma = np.empty(len(self.voice))
        for r, voice in enumerate(self.voices):
            own = self.voice == r
            gamma[own] = voice.bias[self.graph.position[self.graph.first[own]], voice.positions]
        return gamma

    @cached_property
    def taste(self) -> Array:
        """τ of each voice, in logits of its own answers, (R,): τ² = v·(1 − ρ²)."""
        variance = np.array([voice.variance for voice in self.voices])
        return np.sqrt(variance * (1.0 - self.shrunk_loading**2))

    @property
    def variance(self) -> float:
        """The prior variance of the consensus, in squared units of the scores."""
        return self.opinion.unit**2 * (self.opinion.variance + self.opinion.expected)

    @property
    def bias(self) -> Array:
        """γ of each context and voice, (C, R); for line-ups the mean over all pairs of slots."""
        return np.column_stack([voice.mean_bias for voice in self.voices])
