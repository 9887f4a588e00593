"""The means of groups by the mixed model, without a prior on them: generalised least squares.

Scores are s = M θ + δ (`comparo.model.variances`), and the columns of M are groups and style. Given a = σ²/φ, the
answers say of θ a precision C/φ with the pull g/φ; style has its prior, and groups, as fixed effects, have none. Scores
follow θ by s = s₀ + F θ, F = H⁻¹M/a. A matrix W (G, n) takes scores to the means of groups:

    new contexts:    m = W M θ,   Cov = W M Cov(θ) Mᵀ Wᵀ + v·W Wᵀ       what the next contexts would say
    these contexts:  m = W s,     Cov = W [φ·H⁻¹ + F Cov(θ) Fᵀ] Wᵀ      what all possible calls about these would say

v is the variance of what style explains within groups. Both are averaged over the confidence in a, as the scores are.
Where something is held equal (`control`), its coefficients β have no prior either, and β·x is taken out of M θ and s.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from comparo.model.control import without
from comparo.model.graph import Graph
from comparo.model.variances import Variances
from comparo.types import Array, Index

NEGLIGIBLE = 1e-10  # an eigenvalue of a precision, relative to the largest: the mean of all groups is not determined


class Solver(Protocol):
    """What the answers say of the scores."""

    def given(self, a: float, expected: Array, right: Array) -> tuple[Array, Array]:
        """s₀ (n,), then F of the columns `expected` (n, M) and H⁻¹·right (n, q), for H with the ridge 1/a."""
        ...


@dataclass(frozen=True, eq=False)
class Predicted:
    """M = `columns` (n, M), of which `is_group` (M,) are groups; the answers, by `solver`, and the `variances`.

    `observations` is the number of pairs, `widening` a factor on covariances, and `unit` that of scores in logits.
    `held` (n, D) are the numbers that are held equal, whose β are the first of θ. `lean` (n, K) are columns whose
    square is the covariance that the coefficients of the voices of a panel add to the scores.
    """

    graph: Graph
    columns: Array
    is_group: NDArray[np.bool_]
    variances: Variances
    solver: Solver
    observations: int
    widening: float = 1.0
    unit: float = 1.0
    held: Array | None = None
    lean: Array | None = None

    def freedom(self, is_new: bool) -> float:
        """Degrees of freedom of Student's t: how many numbers tell the variance that matters.

        For new contexts that is the variance of texts, whose confidence the mean is averaged over; for these, the
        noise, told by pairs beyond those that link the texts. Where the noise is known, as that of choices is, the
        average is too narrow, and texts count beyond those that the levels of contexts and the groups' means take.
        """
        nodes, components = self.graph.nodes, self.graph.components
        if self.variances.has_known_noise:
            return float(max(nodes - components - int(np.sum(self.is_group)) + 1, 1))
        return float("inf") if is_new else float(self.observations - (nodes - components))

    @property
    def _is_free(self) -> NDArray[np.bool_]:
        return np.asarray(self.is_group | (self.variances.kind < 0))

    def _equal(self, columns: Array) -> Array:
        """Columns (n, M) of θ at equal x."""
        return columns if self.held is None else without(columns, self.held)

    def free(self, a: float) -> tuple[Array, Array]:
        """θ (M,) and its covariance (M, M) for a ratio a; groups and what is held equal have no prior."""
        root = np.where(self._is_free, 1.0, np.sqrt(self.variances.ratios))
        information, pulled = self.variances.moments(a)
        precision = root[:, None] * information * root + np.diag(np.where(self._is_free, 0.0, 1.0))
        covariance = root[:, None] * np.linalg.pinv(precision, rcond=NEGLIGIBLE, hermitian=True) * root
        return np.asarray(covariance @ pulled), self.variances.noise(a) * covariance

    def new(self, means: Array, group: Index) -> tuple[Array, Array]:
        """m (G,) and its covariance (G, G) for new contexts, with `means` W and the `group` of each candidate (n,)."""
        follow, style, found = means @ self._equal(self.columns), ~self._is_free, []
        for a in self.variances.quantiles.tolist():
            theta, known = self.free(a)
            explained = self.columns[:, style] @ theta[style]
            within = float(np.mean(self.graph.centre(explained - (means @ explained)[group]) ** 2))
            found.append((follow @ theta, follow @ known @ follow.T + within * means @ means.T))
        return self._mixture(found, means)

    def these(self, means: Array) -> tuple[Array, Array]:
        """m (G,) and its covariance (G, G) for these contexts, with `means` W."""
        width, found = self.columns.shape[1], []
        for a in self.variances.quantiles.tolist():
            theta, known = self.free(a)
            start, solved = self.solver.given(a, self.columns, means.T)
            follow = means @ self._equal(solved[:, :width])
            own = self.variances.noise(a) * means @ solved[:, width:]
            found.append((means @ start + follow @ theta, own + follow @ known @ follow.T))
        return self._mixture(found, means)

    def _mixture(self, found: Sequence[tuple[Array, Array]], by: Array) -> tuple[Array, Array]:
        """Mean and covariance of equally probable normal distributions of the scores' means `by` W."""
        means, covariances = (np.array(part) for part in zip(*found, strict=True))
        mean = np.mean(means, axis=0)
        apart = means - mean
        covariance = self.widening * np.mean(covariances, axis=0) + apart.T @ apart / len(apart)
        if self.lean is not None:
            shifted = by @ self.lean
            covariance = covariance + shifted @ shifted.T
        return self.unit * mean, self.unit**2 * 0.5 * (covariance + covariance.T)
