"""The posterior of the true scores of each context, with a prior N(0, τ²) whose τ² is estimated.

The experts are replaced by a quadratic,

    log p(comparisons | s) ≈ bᵀs − ½ sᵀQs,    s | τ² ~ N(Sb, S),    S = (Q + I/τ²)⁻¹,

with slopes and curvatures averaged over that posterior (at three points of each difference), which holds for decisions
too, whose likelihood is far from quadratic; Q, b and τ² are found in rounds. In the eigenbasis of Q, with eigenvalues q
and coordinates β of b, everything needed for any τ² is cheap:

    log p(comparisons | τ²) = ½ Σ β²τ²/(1 + qτ²) − log(1 + qτ²).

τ² has weights on a grid, with the most probable prior that all contexts could share: for many contexts it is the
distribution of their τ², for a single one it is close to the τ² that makes its comparisons most probable.

Where variances were estimated (`mixed`), the posterior of that model is used as it is (`Estimated`).

The order of groups of items that no comparison connects is not determined (q = 0): there the prior alone decides.
Contexts of more than `Limits.correlated` items take the errors of scores as independent, with the variances of a graph
without short cycles, v_i = 1 / Σ_j 1/(1/Q_ij + v_j).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from comparo.model.estimators.poe import WIDE, Product, multiply
from comparo.model.estimators.votes import Voted
from comparo.model.likelihoods.bradley_terry import BradleyTerry
from comparo.model.likelihoods.experts import of_rows
from comparo.model.linalg.graph import Pattern
from comparo.model.linalg.laplacian import Laplacian
from comparo.ranking.ranking import Ranking
from comparo.types import Array

# Three points and weights with the first five moments of a standard normal variable (Gauss and Hermite).
POINTS = ((0.0, 2 / 3), (3**0.5, 1 / 6), (-(3**0.5), 1 / 6))
# The grid of τ², relative to the variance of a score: from a spread that cannot be detected to one that is certain.
NARROWEST, WIDEST = 0.0025, 3000.0
STEP = 0.5  # of log τ²


class Coordinates(Protocol):
    """Some contexts of one size, whose scores are drawn as independent coordinates."""

    @property
    def contexts(self) -> slice: ...

    def select(self, scores: Array) -> Array:
        """The scores of these contexts out of all (n,), shape (B, size)."""
        ...

    def rotate(self, coordinates: Array) -> Array:
        """Scores from coordinates, both (B, D, size)."""
        ...

    def later(self, x: Array, spread: Array, more: float, rng: np.random.Generator) -> Array:
        """The most probable coordinates after `more` times as many further comparisons, if x (B, D, size) is true."""
        ...


@dataclass(frozen=True)
class Quadratic:
    """q and β of B contexts of one size, shape (B, size), with the eigenvectors, shape (B, size, size).

    Contexts of more than `Limits.correlated` items have no vectors: there the coordinates are the items' own.
    """

    contexts: slice
    nodes: slice
    q: Array
    beta: Array
    vectors: Array | None

    def select(self, scores: Array) -> Array:
        return scores[self.nodes].reshape(self.q.shape)

    def rotate(self, coordinates: Array) -> Array:
        return coordinates if self.vectors is None else coordinates @ self.vectors.transpose(0, 2, 1)

    def log_evidence(self, spreads: Array) -> Array:
        """log p(comparisons | τ²) for every τ² of `spreads` (G,), shape (B, G)."""
        square, q = self.beta**2, self.q
        gain = [np.sum(square * spread / (1 + q * spread) - np.log1p(q * spread), axis=1) for spread in spreads]
        return 0.5 * np.array(gain).T

    def later(self, x: Array, spread: Array, more: float, rng: np.random.Generator) -> Array:
        q, beta = self.q[:, None], self.beta[:, None]
        later = beta + more * q * x + np.sqrt(more * q) * _standard_normal(x.shape, self.vectors, rng)
        return np.asarray(later / ((1 + more) * q + 1 / spread))

    def parts(self, contexts: int) -> Iterator[Quadratic]:
        """The same in parts of at most so many contexts."""
        count, size = self.q.shape
        for begin in range(0, count, contexts):
            end = min(begin + contexts, count)
            yield Quadratic(
                slice(self.contexts.start + begin, self.contexts.start + end),
                slice(self.nodes.start + begin * size, self.nodes.start + end * size),
                self.q[begin:end],
                self.beta[begin:end],
                None if self.vectors is None else self.vectors[begin:end],
            )


def _standard_normal(shape: tuple[int, ...], vectors: Array | None, rng: np.random.Generator) -> Array:
    """Independent coordinates (B, D, size), drawn for the items and then turned to the eigenvectors.

    The signs of eigenvectors, and their directions where eigenvalues are equal, depend on the machine: drawn as
    coordinates of these, the same numbers would be other scores.
    """
    drawn = rng.standard_normal(shape)
    return drawn if vectors is None else np.asarray(drawn @ vectors)


def _quadratics(laplacian: Laplacian, b: Array) -> Iterator[Quadratic]:
    """q and β of all contexts, those of one batch of the pattern together."""
    batches, correlated = laplacian.pattern.batches, laplacian.pattern.limits.correlated
    if batches[-1].size > correlated:
        precision = 1.0 / _variances(laplacian)
        pull = precision * laplacian.solve(b, accuracy=1e-4)
    for batch in batches:
        contexts, shape = slice(batch.begin, batch.end), (-1, batch.size)
        if batch.size <= correlated:
            q, vectors = np.linalg.eigh(laplacian.dense(batch) - laplacian.constants(batch))
            beta = np.einsum("bij,bi->bj", vectors, b[batch.nodes].reshape(shape))
            yield Quadratic(contexts, batch.nodes, np.maximum(q, 0.0), beta, vectors)
        else:
            parts = precision[batch.nodes].reshape(shape), pull[batch.nodes].reshape(shape)
            yield Quadratic(contexts, batch.nodes, *parts, None)


def _variances(laplacian: Laplacian) -> Array:
    """v_i = 1 / Σ_j 1/(1/Q_ij + v_j), shape (n,); very large for items without comparisons."""
    first, second, c, n = laplacian.pattern.first, laplacian.pattern.second, laplacian.c, len(laplacian.diagonal)
    precision = laplacian.diagonal
    for _ in range(laplacian.pattern.limits.variance_steps):
        v = 1.0 / np.maximum(precision, np.finfo(float).tiny)
        ends = (first, c / (1.0 + c * v[second])), (second, c / (1.0 + c * v[first]))
        precision = np.sum([np.bincount(node, values, n) for node, values in ends], axis=0)
    return np.asarray(1.0 / np.maximum(precision, np.finfo(float).tiny))


def _weights(log_evidence: Array, rounds: int) -> Array:
    """The probability of each τ² in each context, given log p(comparisons | τ²), both (C, G).

    All contexts share a prior, the mean of their weights, found by expectation and maximisation from equal weights.
    """
    likelihood = np.exp(log_evidence - np.max(log_evidence, axis=1, keepdims=True))
    weights = np.ones_like(likelihood)
    for _ in range(rounds):
        weights = np.sum(weights, axis=0) * likelihood
        weights /= np.sum(weights, axis=1, keepdims=True)
    return np.asarray(weights)


@dataclass(frozen=True)
class _Experts:
    """The experts of a product on its scores alone: biases stay what they were estimated to be."""

    product: Product
    pattern: Pattern

    def quadratic(self, mean: Array, variance: Array) -> tuple[Laplacian, Array]:
        """Q and b for scores around `mean` (n,) whose differences have the `variance` (K,), in the pattern's order."""
        pattern, product = self.pattern, self.product
        comparisons, expert = product.comparisons, of_rows(product.expert, pattern.order)
        p, weight = comparisons.p[pattern.order], comparisons.weights[pattern.order] / product.dispersion
        difference = mean[pattern.first] - mean[pattern.second]
        middle = difference
        if product.bias.size:
            judge = comparisons.judged_by[pattern.order]
            middle = difference - product.bias[pattern.context[pattern.first], judge]
        slope, curvature = np.zeros((2, len(p)))
        for point, share in POINTS:
            d = middle + point * np.sqrt(variance)
            slope += share * expert.slope(d, p)
            curvature += share * expert.curvature(d, p)
        curvature = weight * np.maximum(curvature, 0.0)
        b = pattern.gather(weight * slope + curvature * difference)
        return Laplacian(pattern, curvature, np.zeros(pattern.unknowns)), b


@dataclass(frozen=True)
class Posterior:
    """Q and b of all contexts, and the weights (C, G) that each gives to every τ² of `spreads` (G,)."""

    laplacian: Laplacian
    b: Array
    spreads: Array
    weights: Array

    @classmethod
    def of(cls, ranking: Ranking) -> Posterior:
        """The posterior given the ranking's comparisons; methods without experts use those of poe-bt."""
        limits = ranking.covariance.pattern.limits
        product = ranking.product or multiply(ranking.comparisons, BradleyTerry(), prior=WIDE, limits=limits)
        experts = _Experts(product, Pattern(product.graph, limits=limits))
        mean, none = product.scores, np.zeros(len(product.comparisons))
        laplacian, b = experts.quadratic(mean, none)
        equal, _ = experts.quadratic(np.zeros(len(mean)), none)
        spreads = _grid(mean, laplacian, equal)
        for _ in range(limits.evidence_rounds):
            before = mean
            evidence, mean, variance = _round(laplacian, b, spreads)
            if np.mean((mean - before) ** 2) < limits.evidence_change**2 * np.mean(mean**2):
                break
            laplacian, b = experts.quadratic(mean, variance)
        return cls(laplacian, b, spreads, _weights(evidence, limits.sharing_rounds))

    def draws(self) -> Iterator[tuple[Coordinates, Array, Array]]:
        """Some contexts, D draws of the coordinates of their true scores (B, D, size), and the τ² of each (B, D, 1)."""
        limits, rng = self.laplacian.pattern.limits, np.random.default_rng(0)
        for quadratic in _quadratics(self.laplacian, self.b):
            size = quadratic.q.shape[1]
            draws = min(max(limits.agreement_entries // size, 16), limits.agreement_draws)
            for some in quadratic.parts(max(1, limits.agreement_entries // (size * draws))):
                spread = self._spreads(some.contexts, draws)[:, :, None]
                v = spread / (1 + some.q[:, None] * spread)
                x = v * some.beta[:, None] + np.sqrt(v) * _standard_normal((len(v), draws, size), some.vectors, rng)
                if some.vectors is None:
                    x += np.sqrt(spread) * self._shifts(some, draws, rng)
                yield some, x, spread

    def _spreads(self, contexts: slice, draws: int) -> Array:
        """Quantiles of τ² in some contexts, shape (B, D)."""
        weights = self.weights[contexts]
        count, grid = weights.shape
        edges = np.arange(count)[:, None] + np.cumsum(weights[:, :-1], axis=1)
        middles = np.arange(count)[:, None] + (np.arange(draws) + 0.5) / draws
        which = np.searchsorted(edges.ravel(), middles) - np.arange(count)[:, None] * (grid - 1)
        return np.asarray(self.spreads[np.clip(which, 0, grid - 1)])

    def _shifts(self, some: Quadratic, draws: int, rng: np.random.Generator) -> Array:
        """How far the mean of each group of items is from that of all, for τ² = 1: shape (B, D, size)."""
        component = self.laplacian.pattern.graph.component[some.nodes].reshape(some.q.shape)
        component = component - component[0, 0]
        items = np.bincount(component.ravel())
        shift = rng.standard_normal((draws, len(items))) * (items > 1) / np.sqrt(items)
        return np.asarray(shift[:, component].transpose(1, 0, 2))


@dataclass(frozen=True)
class Normal:
    """Scores of some contexts of one size: N(mean, v) in coordinates (B, size), of which `vectors` make scores.

    Without vectors the coordinates are the items' own. `own` is σ², the variance of scores before any comparison.
    """

    contexts: slice
    nodes: slice
    mean: Array
    v: Array
    vectors: Array | None
    own: float

    def select(self, scores: Array) -> Array:
        return scores[self.nodes].reshape(self.mean.shape)

    def rotate(self, coordinates: Array) -> Array:
        return coordinates if self.vectors is None else coordinates @ self.vectors.transpose(0, 2, 1)

    def later(self, x: Array, spread: Array, more: float, rng: np.random.Generator) -> Array:
        precision = 1.0 / np.maximum(self.v, 1e-9 * self.own)  # of a component's mean, which is known, v is 0
        information = more * np.maximum(precision - 1.0 / self.own, 0.0)
        pull = (precision * self.mean)[:, None] + information[:, None] * x
        pull += np.sqrt(information)[:, None] * _standard_normal(x.shape, self.vectors, rng)
        return np.asarray(pull / (precision + information)[:, None])

    def parts(self, contexts: int) -> Iterator[Normal]:
        """The same in parts of at most so many contexts."""
        count, size = self.mean.shape
        for begin in range(0, count, contexts):
            end = min(begin + contexts, count)
            yield Normal(
                slice(self.contexts.start + begin, self.contexts.start + end),
                slice(self.nodes.start + begin * size, self.nodes.start + end * size),
                self.mean[begin:end],
                self.v[begin:end],
                None if self.vectors is None else self.vectors[begin:end],
                self.own,
            )


@dataclass(frozen=True)
class Estimated:
    """The posterior of a model with estimated variances: its scores and their covariance."""

    ranking: Ranking
    own: float

    def draws(self) -> Iterator[tuple[Coordinates, Array, Array]]:
        """As `Posterior.draws`."""
        covariance, graph = self.ranking.covariance, self.ranking.graph
        limits, rng = covariance.pattern.limits, np.random.default_rng(0)
        shift = np.sqrt(self.own / np.bincount(graph.component))
        for batch in covariance.pattern.batches:
            contexts, shape = slice(batch.begin, batch.end), (-1, batch.size)
            mean, vectors = self.ranking.scores[batch.nodes].reshape(shape), None
            if batch.size <= limits.correlated:
                v, vectors = np.linalg.eigh(covariance.block(batch))
                mean = np.einsum("bij,bi->bj", vectors, mean)
            else:
                v = np.nan_to_num(self.ranking.std[batch.nodes].reshape(shape)) ** 2
            every = Normal(contexts, batch.nodes, mean, np.maximum(v, 0.0), vectors, self.own)
            draws = min(max(limits.agreement_entries // batch.size, 16), limits.agreement_draws)
            for some in every.parts(max(1, limits.agreement_entries // (batch.size * draws))):
                x = _standard_normal((len(some.mean), draws, batch.size), some.vectors, rng)
                x = some.mean[:, None] + np.sqrt(some.v)[:, None] * x
                if graph.components > graph.contexts:  # what no comparison says of groups that are not connected
                    component = graph.component[some.nodes].reshape(some.mean.shape)
                    begin, end = component[0, 0], component[-1, -1] + 1
                    moved = shift[begin:end] * rng.standard_normal((draws, end - begin))
                    moved = moved[:, component - begin].transpose(1, 0, 2)
                    x += moved if some.vectors is None else moved @ some.vectors
                yield some, x, np.full((len(some.mean), draws, 1), self.own)


def posterior(ranking: Ranking) -> Posterior | Estimated:
    """The posterior of the true scores of a ranking.

    >>> from comparo import fit
    >>> type(posterior(fit([("a", "b", 0.8), ("b", "c", 0.7)], prior="estimated"))).__name__
    'Estimated'
    """
    effects = ranking.effects
    if isinstance(ranking.covariance, Voted):
        return Estimated(ranking, ranking.covariance.variance)
    if ranking.panel is not None:
        return Estimated(ranking, ranking.panel.variance)
    if effects is None:
        return Posterior.of(ranking)
    return Estimated(ranking, effects.scores + (effects.groups or 0.0) + (effects.style or 0.0))


def _grid(mean: Array, *laplacians: Laplacian) -> Array:
    """The values of τ² to consider, shape (G,)."""
    precision = max(float(np.mean(one.diagonal)) for one in laplacians) or 1.0
    widest = max(WIDEST / precision, 10.0 * float(np.mean(mean**2)))
    return np.asarray(np.exp(np.arange(np.log(NARROWEST / precision), np.log(widest), STEP)))


def _round(laplacian: Laplacian, b: Array, spreads: Array) -> tuple[Array, Array, Array]:
    """log p(comparisons | τ²) (C, G), the mean of the scores (n,), and the variance of the differences (K,)."""
    pattern, evidence = laplacian.pattern, []
    mean, variance = np.empty((2, pattern.graph.nodes))
    shared = np.zeros(len(pattern.order))
    for some, batch in zip(_quadratics(laplacian, b), pattern.batches, strict=True):
        evidence.append(some.log_evidence(spreads))
        spread = (_weights(evidence[-1], pattern.limits.sharing_rounds) @ spreads)[:, None]
        v = spread / (1 + some.q * spread)
        mean[some.nodes] = some.rotate((v * some.beta)[:, None]).ravel()
        variance[some.nodes] = v.ravel()
        if some.vectors is not None:
            covariance = (some.vectors * v[:, None]) @ some.vectors.transpose(0, 2, 1)
            variance[some.nodes] = np.einsum("bii->bi", covariance).ravel()
            shared[batch.rows] = covariance.ravel()[pattern.entries(batch)]
    between = variance[pattern.first] + variance[pattern.second] - 2 * shared
    return np.concatenate(evidence), mean, np.maximum(between, 0.0)
