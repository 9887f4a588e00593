"""People's scores with all that is known of them: the posterior of `comparo.model.voted`, as a covariance.

It is a mixture of points, each with its `share`: the posterior for one spread S of people's scores and its variances.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from comparo.model.choices import Choices
from comparo.model.covariance import block_difference, compared, sampled_variances, solved_difference
from comparo.model.laplacian import Laplacian
from comparo.model.pattern import Batch, Pattern
from comparo.types import Array, Index


@dataclass(frozen=True, eq=False)
class Point:
    """The posterior for one (S, ω², σ²): t (n,) and its covariance H⁻¹ + root·rootᵀ, root (n, M).

    What groups and the machine's parts predict of t is `mean` (n,), with the covariance lead·leadᵀ, `lead` (n, M).
    `coefficient` (D,) is S·b with its covariance `error` (D, D), and `evidence` the log probability of the votes.
    `choices` are their settled sites, `variance` is that of a score around the machine's view before any vote, and
    `share` is the probability of this point among all.
    """

    scores: Array
    laplacian: Laplacian
    root: Array
    mean: Array
    lead: Array
    coefficient: Array
    error: Array
    evidence: float
    choices: Choices
    variance: float
    share: float = 1.0


@dataclass(frozen=True, eq=False)
class Voted:
    """People's scores (n,), as the covariance of them, over `points` whose shares add to 1.

    It is a `comparo.model.covariance.Covariance`: the mean of the points' covariances, and the scatter of their scores.
    `equal` is the probability, given the votes, that all texts are equal. Scores and covariance are those if they
    differ: averaged with 0, intervals would miss the scores of texts that do.
    """

    points: tuple[Point, ...]
    equal: float = 0.0

    @property
    def pattern(self) -> Pattern:
        return self.points[0].laplacian.pattern

    @cached_property
    def scores(self) -> Array:
        return self._mean([point.scores for point in self.points])

    def _mean(self, of: Sequence[Array]) -> Array:
        """The mean over the points."""
        return np.asarray(np.tensordot(self._shares, np.array(of), axes=1))

    @property
    def _shares(self) -> Array:
        return np.array([point.share for point in self.points])

    @cached_property
    def _scatter(self) -> Array:
        """(n, points), whose square is the covariance of the points' scores."""
        apart = np.array([point.scores for point in self.points]) - self.scores
        return np.asarray(apart.T * np.sqrt(self._shares))

    @cached_property
    def _roots(self) -> Array:
        """All that is not H⁻¹, as columns whose square is its covariance, (n, K)."""
        return np.column_stack([self._scatter, *(point.root * np.sqrt(point.share) for point in self.points)])

    @cached_property
    def _kept(self) -> dict[int, Array]:
        return {}

    def block(self, batch: Batch) -> Array:
        """The covariance of the scores in each context of `batch`, (B, size, size)."""
        if batch.begin in self._kept:
            return self._kept[batch.begin]
        own = self._mean([point.laplacian.inverse(batch) for point in self.points])
        roots = self._roots[batch.nodes].reshape(len(own), batch.size, -1)
        block = np.asarray(own + roots @ roots.transpose(0, 2, 1))
        if self.pattern.may_keep:
            self._kept[batch.begin] = block
        return block

    @cached_property
    def std(self) -> Array:
        """The standard error of every score, (n,)."""
        variance = np.empty(self.pattern.graph.nodes)
        for batch in self.pattern.batches:
            if batch.size > self.pattern.limits.exact:
                begin = batch.nodes.start
                own = self._mean([sampled_variances(point.laplacian, begin) for point in self.points])
                variance[begin:] = own + np.sum(self._roots[begin:] ** 2, axis=1)
                break
            variance[batch.nodes] = np.einsum("bii->bi", self.block(batch)).ravel()
        return np.where(compared(self.pattern.graph), np.sqrt(np.maximum(variance, 0.0)), np.nan)

    @property
    def variance(self) -> float:
        """The variance of a score before any vote, the mean over the points."""
        return float(self._shares @ [point.variance for point in self.points])

    def means(self, by: Array, group: Index, is_new: bool) -> tuple[Array, Array]:
        """Means of groups (G,) and their covariance (G, G), with `by` (G, n) and the `group` of each text (n,).

        In new contexts δ is not that of these, and the machine's parts vary around their mean in the group, with a
        variance v that adds v·by·byᵀ.
        """
        found, covariances = [], []
        graph = self.pattern.graph
        for point in self.points:
            if is_new:
                apart = graph.centre(point.mean - (by @ point.mean)[group])
                left, own = by @ point.lead, float(np.mean(apart**2)) * by @ by.T
                found.append(by @ point.mean)
            else:
                left, own = by @ point.root, by @ point.laplacian.solve(by.T)
                found.append(by @ point.scores)
            covariances.append(left @ left.T + own)
        middle = self._mean(found)
        scatter = np.array(found) - middle
        covariance = self._mean(covariances) + scatter.T @ (self._shares[:, None] * scatter)
        return middle, 0.5 * (covariance + covariance.T)

    def difference(self, one: int, other: int) -> float:
        """The variance of the difference of two texts of one context."""
        batch = next(batch for batch in self.pattern.batches if one < batch.nodes.stop)
        if batch.size <= self.pattern.limits.exact:
            return block_difference(self.block(batch), batch, one, other)
        own = [solved_difference(point.laplacian, one, other) for point in self.points]
        return float(self._shares @ own + np.sum((self._roots[one] - self._roots[other]) ** 2))


def mixture(points: Sequence[Point], draws: int, rng: np.random.Generator) -> Array:
    """Draws of S·b (draws, D) from the posterior of all points."""
    counts = rng.multinomial(draws, [point.share for point in points])
    return np.concatenate(
        [rng.multivariate_normal(p.coefficient, p.error, n) for p, n in zip(points, counts, strict=True)]
    )
