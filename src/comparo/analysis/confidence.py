"""How sure a ranking is as a whole: how well it would agree with the true one.

Scores scatter by more than the truth does, so that draws around them would find an order even in pure noise. Here the
true scores of a context have a prior N(0, τ²) whose τ² the comparisons tell. The experts are replaced by a quadratic,

    log p(comparisons | s) ≈ bᵀs − ½ sᵀQs,    s | τ² ~ N(Sb, S),    S = (Q + I/τ²)⁻¹,

with slopes and curvatures averaged over that posterior (at three points of each difference), which holds for decisions
too, whose likelihood is far from quadratic; Q, b and τ² are found in turns. In the eigenbasis of Q, with eigenvalues q
and coordinates β of b, all that is wanted of any τ² is cheap:

    log p(comparisons | τ²) = ½ Σ β²τ²/(1 + qτ²) − log(1 + qτ²).

τ² has weights on a grid, the most probable prior that the contexts could share: of many contexts it is the distribution
of their τ², of a single one it is close to the one τ² that makes its comparisons most probable.

Nothing tells the order of groups of items that no comparison joins (q = 0): there the prior alone decides, and the
correlation is accordingly low. Contexts of more than `DENSE` items take the errors of scores as independent, with the
variances of a graph without short cycles, v_i = 1 / Σ_j 1/(1/Q_ij + v_j).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from comparo.methods import WIDE
from comparo.model.experts import BradleyTerry
from comparo.model.laplacian import Laplacian, Pattern
from comparo.model.product import Product, multiply
from comparo.ranking.ranking import Ranking
from comparo.types import Array

DENSE = 256  # items of a context up to which the whole matrix is used
ROUNDS = 8  # at most, in which Q, b and τ² settle
SETTLED = 0.02  # change of the scores, relative to their size, that ends the rounds
STEPS = 5  # in which the variances of a large context settle
SHARING = 50  # rounds in which the contexts' weights of τ² settle
POINTS = ((0.0, 2 / 3), (3**0.5, 1 / 6), (-(3**0.5), 1 / 6))  # with the moments of a standard normal variable
NARROWEST, WIDEST = 0.0025, 3000.0  # τ² over the variance of a score
STEP = 0.5  # of log τ²
DRAWS = 256
DRAWN_ENTRIES = 500_000  # of one array of draws


def expected_spearman(ranking: Ranking, more: float = 0.0) -> Array:
    """The expected Spearman correlation of each context's ranking with its true one, shape (C,).

    Contexts are in the order of `ranking.contexts`. With `more`, what it would be after that many times as many further
    comparisons. The true ranking is the one that the judge would give if it were asked without end; whether the judge
    is right is another matter. From 256 draws, or fewer in contexts of thousands of items, whose correlation varies
    little: with a standard error of about 0.01 at most.

    >>> from comparo import fit
    >>> sure = fit([("a", "b", 0.8), ("b", "c", 0.7), ("c", "a", 0.1), ("b", "a", 0.2), ("c", "b", 0.3)])
    >>> vague = fit([("a", "b", 0.8), ("b", "c", 0.7), ("c", "a", 0.9), ("b", "a", 0.4), ("c", "b", 0.6)])
    >>> bool(expected_spearman(sure)[0] > 0.9), bool(expected_spearman(vague)[0] < 0.5)
    (True, True)
    """
    if not more >= 0:
        raise ValueError(f"more is a number from 0 up, not {more!r}")
    found, rng = np.empty(ranking.graph.contexts), np.random.default_rng(1)
    for some, x, spread in _Posterior.of(ranking).draws():
        drawn, size = some.rotate(x), x.shape[2]
        estimated = some.rotate(some.later(x, spread, more, rng)) if more else some.of(ranking.scores)[:, None]
        rank = rankdata(np.round(estimated, 9), axis=2) - (size + 1) / 2
        norm = np.sqrt(np.sum(rank**2, axis=2) * (size**3 - size) / 12)
        ordered = np.take_along_axis(np.broadcast_to(rank, drawn.shape), np.argsort(drawn, axis=2), axis=2)
        inner = ordered @ (np.arange(size) - (size - 1) / 2)
        found[some.contexts] = np.mean(inner / np.where(norm > 0, norm, 1.0), axis=1)
    return found[_in_order(ranking)]


def top_probability(ranking: Ranking, k: int) -> Array:
    """P(the best k of each context's ranking are exactly the true best k), shape (C,).

    Contexts are in the order of `ranking.contexts`. From the draws of `expected_spearman`; 1 where a context has no
    more than k items.

    >>> from comparo import fit
    >>> bool(top_probability(fit([("a", "b", 0.99), ("b", "a", 0.01), ("a", "b", 0.98)]), 1)[0] > 0.9)
    True
    """
    if not isinstance(k, int) or k < 1:
        raise ValueError(f"k is a whole number from 1 on, not {k!r}")
    found = np.ones(ranking.graph.contexts)
    for some, x, _ in _Posterior.of(ranking).draws():
        if k < x.shape[2]:
            best = np.argsort(-some.of(ranking.scores), axis=1, kind="stable")[:, None]
            drawn = np.take_along_axis(some.rotate(x), np.broadcast_to(best, x.shape), axis=2)
            found[some.contexts] = np.mean(np.min(drawn[..., :k], axis=2) > np.max(drawn[..., k:], axis=2), axis=1)
    return found[_in_order(ranking)]


def _in_order(ranking: Ranking) -> NDArray[np.intp]:
    """The place of each of the comparisons' contexts among the graph's."""
    return np.argsort(ranking.graph.context[ranking.graph.starts[:-1]])


@dataclass(frozen=True)
class _Quadratic:
    """q and β of B contexts of one size, shape (B, size), with the eigenvectors, shape (B, size, size).

    Contexts of more than `DENSE` items have no vectors: there an item stands for itself.
    """

    contexts: slice
    nodes: slice
    q: Array
    beta: Array
    vectors: Array | None

    def of(self, scores: Array) -> Array:
        """Those of all scores (n,) that are of these contexts, shape (B, size)."""
        return scores[self.nodes].reshape(self.q.shape)

    def rotate(self, coordinates: Array) -> Array:
        """Scores from coordinates in the basis of the vectors, both (B, D, size)."""
        return coordinates if self.vectors is None else coordinates @ self.vectors.transpose(0, 2, 1)

    def log_evidence(self, spreads: Array) -> Array:
        """log p(comparisons | τ²) for every τ² of `spreads` (G,), shape (B, G)."""
        square, q = self.beta**2, self.q
        gain = [np.sum(square * spread / (1 + q * spread) - np.log1p(q * spread), axis=1) for spread in spreads]
        return 0.5 * np.array(gain).T

    def later(self, x: Array, spread: Array, more: float, rng: np.random.Generator) -> Array:
        """The most probable coordinates given `more` times as many further comparisons, where x (B, D, size) holds."""
        q, beta = self.q[:, None], self.beta[:, None]
        told = beta + more * q * x + np.sqrt(more * q) * rng.standard_normal(x.shape)
        return np.asarray(told / ((1 + more) * q + 1 / spread))

    def parts(self, contexts: int) -> Iterator[_Quadratic]:
        """The same in parts of so many contexts."""
        count, size = self.q.shape
        for begin in range(0, count, contexts):
            end = min(begin + contexts, count)
            yield _Quadratic(
                slice(self.contexts.start + begin, self.contexts.start + end),
                slice(self.nodes.start + begin * size, self.nodes.start + end * size),
                self.q[begin:end],
                self.beta[begin:end],
                None if self.vectors is None else self.vectors[begin:end],
            )


def _quadratics(laplacian: Laplacian, b: Array) -> Iterator[_Quadratic]:
    batches = laplacian.pattern.batches
    if batches[-1].size > DENSE:
        told = 1.0 / _variances(laplacian)
        pull = told * laplacian.solve(b, accuracy=1e-4)
    for batch in batches:
        contexts, shape = slice(batch.begin, batch.end), (-1, batch.size)
        if batch.size <= DENSE:
            q, vectors = np.linalg.eigh(laplacian.dense(batch) - laplacian.constants(batch))
            beta = np.einsum("bij,bi->bj", vectors, b[batch.nodes].reshape(shape))
            yield _Quadratic(contexts, batch.nodes, np.maximum(q, 0.0), beta, vectors)
        else:
            parts = told[batch.nodes].reshape(shape), pull[batch.nodes].reshape(shape)
            yield _Quadratic(contexts, batch.nodes, *parts, None)


def _variances(laplacian: Laplacian) -> Array:
    """v_i = 1 / Σ_j 1/(1/Q_ij + v_j), shape (n,); as good as infinite for lone items."""
    first, second, c, n = laplacian.pattern.first, laplacian.pattern.second, laplacian.c, len(laplacian.diagonal)
    told = laplacian.diagonal
    for _ in range(STEPS):
        v = 1.0 / np.maximum(told, np.finfo(float).tiny)
        ends = (first, c / (1.0 + c * v[second])), (second, c / (1.0 + c * v[first]))
        told = np.sum([np.bincount(node, values, n) for node, values in ends], axis=0)
    return np.asarray(1.0 / np.maximum(told, np.finfo(float).tiny))


def _weights(log_evidence: Array) -> Array:
    """How probable each τ² is in each context, given log p(comparisons | τ²), both (C, G).

    The prior, which all contexts share, is the mean of their weights: by expectation and maximisation from equal ones.
    """
    likelihood = np.exp(log_evidence - np.max(log_evidence, axis=1, keepdims=True))
    weights = np.ones_like(likelihood)
    for _ in range(SHARING):
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
        comparisons, expert = product.comparisons, product.expert
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
class _Posterior:
    """Q and b of all contexts, and the weights (C, G) that each gives to every τ² of `spreads` (G,)."""

    laplacian: Laplacian
    b: Array
    spreads: Array
    weights: Array

    @classmethod
    def of(cls, ranking: Ranking) -> _Posterior:
        """Given the ranking's comparisons, whatever the method: methods without experts are held against poe-bt's."""
        product = ranking.product or multiply(ranking.comparisons, BradleyTerry(), prior=WIDE)
        pattern = Pattern(product.graph)
        experts, n, rows = _Experts(product, pattern), product.graph.nodes, len(product.comparisons)
        mean = product.scores
        laplacian, b = experts.quadratic(mean, np.zeros(rows))
        equal, _ = experts.quadratic(np.zeros(n), np.zeros(rows))
        certain = max(float(np.mean(one.diagonal)) for one in (laplacian, equal)) or 1.0
        widest = max(WIDEST / certain, 10.0 * float(np.mean(mean**2)))
        spreads = np.exp(np.arange(np.log(NARROWEST / certain), np.log(widest), STEP))
        for _ in range(ROUNDS):
            before, evidence = mean, []
            mean, variance, shared = np.empty(n), np.empty(n), np.zeros(rows)
            for some, batch in zip(_quadratics(laplacian, b), pattern.batches, strict=True):
                evidence.append(some.log_evidence(spreads))
                spread = (_weights(evidence[-1]) @ spreads)[:, None]
                v = spread / (1 + some.q * spread)
                mean[some.nodes] = some.rotate((v * some.beta)[:, None]).ravel()
                variance[some.nodes] = v.ravel()
                if some.vectors is not None:
                    covariance = (some.vectors * v[:, None]) @ some.vectors.transpose(0, 2, 1)
                    variance[some.nodes] = np.einsum("bii->bi", covariance).ravel()
                    shared[batch.rows] = covariance.ravel()[pattern.entries(batch)]
            if np.mean((mean - before) ** 2) < SETTLED**2 * np.mean(mean**2):
                break
            between = variance[pattern.first] + variance[pattern.second] - 2 * shared
            laplacian, b = experts.quadratic(mean, np.maximum(between, 0.0))
        return cls(laplacian, b, spreads, _weights(np.concatenate(evidence)))

    def draws(self) -> Iterator[tuple[_Quadratic, Array, Array]]:
        """Some contexts, D draws of the coordinates of their true scores (B, D, size), and the τ² of each (B, D, 1)."""
        rng = np.random.default_rng(0)
        for quadratic in _quadratics(self.laplacian, self.b):
            size = quadratic.q.shape[1]
            draws = min(max(DRAWN_ENTRIES // size, 16), DRAWS)
            for some in quadratic.parts(max(1, DRAWN_ENTRIES // (size * draws))):
                spread = self._spreads(some.contexts, draws)[:, :, None]
                v = spread / (1 + some.q[:, None] * spread)
                x = v * some.beta[:, None] + np.sqrt(v) * rng.standard_normal((len(v), draws, size))
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

    def _shifts(self, some: _Quadratic, draws: int, rng: np.random.Generator) -> Array:
        """How far the mean of each group of items is from that of all, for τ² = 1: shape (B, D, size)."""
        component = self.laplacian.pattern.graph.component[some.nodes].reshape(some.q.shape)
        component = component - component[0, 0]
        items = np.bincount(component.ravel())
        shift = rng.standard_normal((draws, len(items))) * (items > 1) / np.sqrt(items)
        return np.asarray(shift[:, component].transpose(1, 0, 2))
