"""How well a ranking agrees with the true one: the expected Spearman correlation and share of the top k that are right.

Estimated scores vary more than true ones, and draws around them would find an order even in pure noise. So draws come
from a posterior with a prior N(0, τ²) on the true scores of each context. The experts are replaced by a quadratic,

    log p(comparisons | s) ≈ bᵀs − ½ sᵀQs,    s | τ² ~ N(Sb, S),    S = (Q + I/τ²)⁻¹,

with slopes and curvatures averaged over that posterior (at three points of each difference), which is accurate also for
decisions, whose likelihood is far from quadratic; Q, b and τ² are found by iteration. In the eigenbasis of Q, with
eigenvalues q and coordinates β of b, the evidence is cheap for any τ²:

    log p(comparisons | τ²) = ½ Σ β²τ²/(1 + qτ²) − log(1 + qτ²).

τ² has weights on a grid. Their prior, shared by all contexts, maximises the likelihood (empirical Bayes): for many
contexts it is the distribution of their τ², for a single one it is concentrated near the most likely τ².

Where variances were estimated (`mixed`), the posterior of that model is used as it is. The order of groups of items
that no comparison connects is not determined (q = 0): it is drawn from the prior. Contexts of more than
`Limits.correlated` items take the errors of scores as independent, with the variances of a graph without short cycles,
v_i = 1 / Σ_j 1/(1/Q_ij + v_j).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from comparo.model.estimators.poe import multiply
from comparo.model.likelihoods import of_rows
from comparo.model.likelihoods.bradley_terry import BradleyTerry
from comparo.model.linalg.graph import Pattern
from comparo.model.linalg.laplacian import Laplacian
from comparo.model.solution import Solution
from comparo.model.tuning import WIDE, Limits
from comparo.ranking.ranking import Ranking
from comparo.rounding import mean_ranks, merge_ties
from comparo.types import Array, Mask

# Three points and weights with the first five moments of a standard normal variable (Gauss and Hermite).
POINTS = ((0.0, 2 / 3), (3**0.5, 1 / 6), (-(3**0.5), 1 / 6))
# The grid of τ², relative to the variance of a score: from a spread that cannot be detected to one that is certain.
NARROWEST, WIDEST = 0.0025, 3000.0
STEP = 0.5  # of log τ²


def expected_spearman(ranking: Ranking, more: float = 0.0) -> Array:
    """Return the expected Spearman correlation of each context's ranking with its true one.

    The true ranking is the one that the judge would give after infinitely many comparisons; whether the judge is right
    is another question. Of a consensus, it is the expected correlation of the judge's own ranking (`Ranking.judged`).

    Parameters
    ----------
    ranking
        What `fit` returned.
    more
        The correlation after this many times as many further comparisons: 1 doubles them.

    Returns
    -------
    ndarray of shape (C,)
        In the order of `ranking.contexts`. From 256 draws, fewer in contexts of thousands of items, whose correlation
        varies little: the standard error is at most about 0.01.

    Raises
    ------
    ValueError
        If `more` is negative.

    Examples
    --------
    >>> from comparo import fit
    >>> sure = fit([("a", "b", 0.8), ("b", "c", 0.7), ("c", "a", 0.1), ("b", "a", 0.2), ("c", "b", 0.3)])
    >>> vague = fit([("a", "b", 0.8), ("b", "c", 0.7), ("c", "a", 0.9), ("b", "a", 0.4), ("c", "b", 0.6)])
    >>> bool(expected_spearman(sure)[0] > 0.9), bool(expected_spearman(vague)[0] < 0.5)
    (True, True)
    """
    if not more >= 0:
        raise ValueError(f"more is a number from 0 up, not {more!r}")
    ranking = ranking.judged
    found, rng = np.empty(ranking.graph.contexts), np.random.default_rng(1)
    for some in _draws(ranking):
        drawn, size = some.rotate(some.x), some.x.shape[2]
        estimated = some.rotate(some.later(more, rng)) if more else some.select(ranking.scores)[:, None]
        rank = mean_ranks(np.round(estimated, 9)) - (size + 1) / 2
        norm = np.sqrt(np.sum(rank**2, axis=2) * (size**3 - size) / 12)
        order = np.argsort(drawn, axis=2, kind="stable")
        ordered = np.take_along_axis(np.broadcast_to(rank, drawn.shape), order, axis=2)
        inner = ordered @ (np.arange(size) - (size - 1) / 2)
        found[some.contexts] = np.mean(inner / np.where(norm > 0, norm, 1.0), axis=1)
    # With equal texts any order is chance.
    if (effects := ranking.solution.effects) is not None:
        found *= 1.0 - effects.equal
    return found[_in_order(ranking)]


def top_probability(ranking: Ranking, k: int) -> Array:
    """Return P(the best k of each context's ranking are exactly the true best k).

    Parameters and result are those of `top_share`.

    Examples
    --------
    >>> from comparo import fit
    >>> bool(top_probability(fit([("a", "b", 0.99), ("b", "a", 0.01), ("a", "b", 0.98)], "poe-bt"), 1)[0] > 0.9)
    True
    """
    return _of_best(ranking, k, lambda is_right: np.all(is_right, axis=2))


def top_share(ranking: Ranking, k: int) -> Array:
    """Return the expected share of the best k of each context's ranking that are among the true best k.

    Parameters
    ----------
    ranking
        What `fit` returned.
    k
        A whole number from 1 on.

    Returns
    -------
    ndarray of shape (C,)
        In the order of `ranking.contexts`, from the draws of `expected_spearman`; 1 where a context has at most k
        items.

    Raises
    ------
    ValueError
        If `k` is not a whole number from 1 on.

    Examples
    --------
    >>> from comparo import fit
    >>> ranking = fit([("a", "b", 0.9), ("b", "a", 0.1), ("b", "c", 0.5), ("c", "b", 0.5)], "poe-bt")
    >>> bool(top_share(ranking, 2)[0] > top_probability(ranking, 2)[0])
    True
    """
    return _of_best(ranking, k, lambda is_right: np.mean(is_right, axis=2))


def _of_best(ranking: Ranking, k: int, value: Callable[[Mask], Array]) -> Array:
    """The mean over draws of `value` (B, D) of whether each of the best k is among the drawn best k, (B, D, k)."""
    if not isinstance(k, int) or k < 1:
        raise ValueError(f"k is a whole number from 1 on, not {k!r}")
    ranking = ranking.judged
    found = np.ones(ranking.graph.contexts)
    for some in _draws(ranking):
        if k < some.x.shape[2]:
            scores = some.select(merge_ties(ranking.scores))
            best = np.argsort(-scores, axis=1, kind="stable")[:, None]
            drawn = np.take_along_axis(some.rotate(some.x), np.broadcast_to(best, some.x.shape), axis=2)
            least = np.partition(drawn, -k, axis=2)[..., -k]
            found[some.contexts] = np.mean(value(drawn[..., :k] >= least[..., None]), axis=1)
    return found[_in_order(ranking)]


def _in_order(ranking: Ranking) -> NDArray[np.intp]:
    """The position in the graph of each context, in the order of `ranking.contexts`."""
    return np.argsort(ranking.graph.context[ranking.graph.starts[:-1]], kind="stable")


@dataclass(frozen=True)
class ScoreDraws:
    """D draws x (B, D, size) of the scores of B contexts of one size, in independent coordinates N(mean, v).

    `vectors` (B, size, size) turn coordinates into scores; without them the coordinates are the scores. The precision
    1/v is the sum of that of the comparisons, `q` (B, size), and that of the prior, `prior`.
    """

    contexts: slice
    nodes: slice
    vectors: Array | None
    mean: Array
    q: Array
    prior: Array
    x: Array

    def select(self, scores: Array) -> Array:
        """The scores of these contexts out of all (n,), shape (B, size)."""
        return scores[self.nodes].reshape(self.q.shape)

    def rotate(self, coordinates: Array) -> Array:
        """Scores from coordinates, both (B, D, size)."""
        return coordinates if self.vectors is None else coordinates @ self.vectors.transpose(0, 2, 1)

    def later(self, more: float, rng: np.random.Generator) -> Array:
        """The most probable coordinates after `more` times as many further comparisons, if x is true."""
        q = self.q[:, None]
        pull = (q + self.prior) * self.mean + more * q * self.x
        pull += np.sqrt(more * q) * _standard_normal(self.x.shape, self.vectors, rng)
        return np.asarray(pull / ((1 + more) * q + self.prior))


def _draws(ranking: Ranking) -> Iterator[ScoreDraws]:
    """Draws of the true scores of all contexts, in batches of contexts of equal size."""
    effects, panel = ranking.solution.effects, ranking.solution.panel
    if panel is not None:
        return _estimated(ranking, panel.variance)
    if effects is not None:
        kinds = effects.scores, effects.groups, effects.style, effects.first_stage
        return _estimated(ranking, sum(filter(None, kinds)))
    return _by_evidence(ranking)


def _estimated(ranking: Ranking, own: float) -> Iterator[ScoreDraws]:
    """Draws from a model with estimated variances; `own` is the variance of scores before any comparison."""
    covariance, graph = ranking.covariance, ranking.graph
    limits, rng = covariance.pattern.limits, np.random.default_rng(0)
    for batch in covariance.pattern.batches:
        shape = (-1, batch.size)
        means, vectors = ranking.scores[batch.nodes].reshape(shape), None
        if batch.size <= limits.correlated:
            variances, vectors = np.linalg.eigh(covariance.block(batch))
            means = np.einsum("bij,bi->bj", vectors, means)
        else:
            variances = np.nan_to_num(ranking.std[batch.nodes].reshape(shape)) ** 2
        every = slice(batch.begin, batch.end)
        for rows, contexts, nodes, some, draws in _parts(every, batch.nodes, vectors, limits):
            mean, v = means[rows][:, None], np.maximum(variances[rows], 0.0)[:, None]
            x = mean + np.sqrt(v) * _standard_normal((len(mean), draws, batch.size), some, rng)
            if graph.components > graph.contexts:
                moved = np.sqrt(own) * _shifts(graph.component[nodes].reshape(-1, batch.size), draws, rng)
                x += moved if some is None else moved @ some
            precision = 1.0 / np.maximum(v, 1e-9 * own)  # v is 0 for a component's mean
            q = np.maximum(precision - 1.0 / own, 0.0)
            yield ScoreDraws(contexts, nodes, some, mean, q[:, 0], precision - q, x)


def _parts(
    contexts: slice, nodes: slice, vectors: Array | None, limits: Limits
) -> Iterator[tuple[slice, slice, slice, Array | None, int]]:
    """Batches of contexts of one size: their rows, contexts, nodes and vectors, and the number of draws."""
    count = contexts.stop - contexts.start
    size = (nodes.stop - nodes.start) // count
    draws = min(max(limits.agreement_entries // size, 16), limits.agreement_draws)
    step = max(1, limits.agreement_entries // (size * draws))
    for begin in range(0, count, step):
        rows = slice(begin, min(begin + step, count))
        own = slice(contexts.start + rows.start, contexts.start + rows.stop)
        inside = slice(nodes.start + rows.start * size, nodes.start + rows.stop * size)
        yield rows, own, inside, None if vectors is None else vectors[rows], draws


def _standard_normal(shape: tuple[int, ...], vectors: Array | None, rng: np.random.Generator) -> Array:
    """Independent coordinates (B, D, size), drawn for the items and then rotated to the eigenvectors.

    The signs of eigenvectors, and their directions where eigenvalues are equal, depend on the machine: coordinates
    drawn directly would give other scores on each.
    """
    drawn = rng.standard_normal(shape)
    return drawn if vectors is None else np.asarray(drawn @ vectors)


def _shifts(component: NDArray[np.integer], draws: int, rng: np.random.Generator) -> Array:
    """Prior draws, for τ² = 1, of the mean of each item's connected component (B, size): shape (B, D, size)."""
    component = component - component[0, 0]
    items = np.bincount(component.ravel())
    shift = rng.standard_normal((draws, len(items))) / np.sqrt(items)
    return np.asarray(shift[:, component].transpose(1, 0, 2))


@dataclass(frozen=True)
class Quadratic:
    """q and β of B contexts of one size, shape (B, size), with the eigenvectors, shape (B, size, size).

    Contexts of more than `Limits.correlated` items have no vectors: their coordinates are the scores.
    """

    contexts: slice
    nodes: slice
    q: Array
    beta: Array
    vectors: Array | None

    def log_evidence(self, spreads: Array) -> Array:
        """log p(comparisons | τ²) for every τ² of `spreads` (G,), shape (B, G)."""
        square, q = self.beta**2, self.q
        gain = [np.sum(square * spread / (1 + q * spread) - np.log1p(q * spread), axis=1) for spread in spreads]
        return 0.5 * np.array(gain).T


def _quadratics(laplacian: Laplacian, b: Array) -> Iterator[Quadratic]:
    """q and β of all contexts, those of one batch of the pattern together."""
    batches, correlated = laplacian.pattern.batches, laplacian.pattern.limits.correlated
    if batches[-1].size > correlated:
        precision = 1.0 / laplacian.tree_variances()
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


def _quadratic(product: Solution, pattern: Pattern, mean: Array, variance: Array | float) -> tuple[Laplacian, Array]:
    """Q and b for scores around `mean` (n,) whose differences have the `variance` (K,), in the pattern's order.

    Biases stay as they were estimated.
    """
    assert product.expert is not None
    comparisons, expert = product.comparisons, of_rows(product.expert, pattern.order)
    p, weight = comparisons.p[pattern.order], product.weights[pattern.order] / product.dispersion
    difference = mean[pattern.first] - mean[pattern.second]
    middle = difference
    if product.bias.size:
        position = comparisons.positions[pattern.order]
        middle = difference - product.bias[pattern.context[pattern.first], position]
    slope, curvature = np.zeros((2, len(p)))
    for point, share in POINTS:
        d = middle + point * np.sqrt(variance)
        slope += share * expert.slope(d, p)
        curvature += share * expert.curvature(d, p)
    curvature = weight * np.maximum(curvature, 0.0)
    b = pattern.gather(weight * slope + curvature * difference)
    return Laplacian(pattern, curvature, np.zeros(pattern.unknowns)), b


def _by_evidence(ranking: Ranking) -> Iterator[ScoreDraws]:
    """Draws given the comparisons, each with its own τ²; a method without experts uses those of poe-bt."""
    limits, rng = ranking.covariance.pattern.limits, np.random.default_rng(0)
    product = ranking.solution
    if product.expert is None:
        product = multiply(ranking.comparisons, BradleyTerry(), prior=WIDE, limits=limits)
    pattern, mean = Pattern(product.graph, limits=limits), product.scores
    laplacian, b = _quadratic(product, pattern, mean, 0.0)
    spreads = _grid(mean, laplacian, _quadratic(product, pattern, np.zeros(len(mean)), 0.0)[0])
    for _ in range(limits.evidence_rounds):
        before = mean
        evidence, mean, variance = _round(laplacian, b, spreads)
        if np.mean((mean - before) ** 2) < limits.evidence_change**2 * np.mean(mean**2):
            break
        laplacian, b = _quadratic(product, pattern, mean, variance)
    weights = _weights(evidence, limits.sharing_rounds)
    for every in _quadratics(laplacian, b):
        size = every.q.shape[1]
        for rows, contexts, nodes, vectors, draws in _parts(every.contexts, every.nodes, every.vectors, limits):
            q = every.q[rows]
            spread = _quantiles(spreads, weights[contexts], draws)[:, :, None]
            v = spread / (1 + q[:, None] * spread)
            mean = v * every.beta[rows][:, None]
            x = mean + np.sqrt(v) * _standard_normal((len(v), draws, size), vectors, rng)
            if vectors is None:
                component = pattern.graph.component[nodes].reshape(-1, size)
                alone = np.bincount(component.ravel())[component] == 1
                x += np.sqrt(spread) * np.where(alone[:, None], 0.0, _shifts(component, draws, rng))
            yield ScoreDraws(contexts, nodes, vectors, mean, q, 1 / spread, x)


def _quantiles(spreads: Array, weights: Array, draws: int) -> Array:
    """D quantiles of τ² in B contexts, shape (B, D), from the weights (B, G) of the values `spreads` (G,)."""
    count, grid = weights.shape
    edges = np.arange(count)[:, None] + np.cumsum(weights[:, :-1], axis=1)
    middles = np.arange(count)[:, None] + (np.arange(draws) + 0.5) / draws
    which = np.searchsorted(edges.ravel(), middles) - np.arange(count)[:, None] * (grid - 1)
    return np.asarray(spreads[np.clip(which, 0, grid - 1)])


def _grid(mean: Array, *laplacians: Laplacian) -> Array:
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
        mean[some.nodes], variance[some.nodes] = (v * some.beta).ravel(), v.ravel()
        if some.vectors is not None:
            mean[some.nodes] = np.einsum("bij,bj->bi", some.vectors, v * some.beta).ravel()
            covariance = (some.vectors * v[:, None]) @ some.vectors.transpose(0, 2, 1)
            variance[some.nodes] = np.einsum("bii->bi", covariance).ravel()
            shared[batch.rows] = covariance.ravel()[pattern.entries[batch.rows]]
    between = variance[pattern.first] + variance[pattern.second] - 2 * shared
    return np.concatenate(evidence), mean, np.maximum(between, 0.0)
