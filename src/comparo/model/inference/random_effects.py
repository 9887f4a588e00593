"""The solution of the mixed model given its variances, and the means of groups without a prior on them.

Scores are s = M θ + δ (`reml`), and the columns of M are groups and style. Given a = σ²/φ, the answers have the
precision C/φ about θ and the pull g/φ. Style has its prior; groups are fixed effects (generalised least squares).
Given θ, the scores are s = s₀ + F θ, F = H⁻¹M/a. A matrix W (G, n) maps scores to group means:

    new contexts:    m = W M θ,   Cov = W M Cov(θ) Mᵀ Wᵀ + v·W Wᵀ       for the next contexts
    these contexts:  m = W s,     Cov = W [φ·H⁻¹ + F Cov(θ) Fᵀ] Wᵀ      for all possible calls about these

v is the variance that style explains within groups. Both are averaged over the quantiles of a, as the scores are. With
a control, its coefficients β have no prior either, and β·x is subtracted from M θ and s.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import scipy

from comparo.model.design import Control, Shared, without
from comparo.model.inference.newton import Maximum
from comparo.model.inference.reml import Variances
from comparo.model.linalg.graph import Graph, Pattern
from comparo.model.linalg.spectrum import System
from comparo.model.posterior import difference_variances, mixture_moments
from comparo.rounding import TINY
from comparo.types import Array, Index, Mask


def solve(system: System, variances: Variances, shared: Shared) -> tuple[Maximum, Array, Array]:
    """Scores and biases at the best variances, with F = λ·H⁻¹QM (n + C·J, M) and Cov(θ)/φ (M, M)."""
    ridge = 1.0 / variances.ratio
    between, theta = variances.precision(variances.ratio)
    laplacian, start, spread = system.solved(ridge, system.towards(ridge, shared.columns))
    return Maximum(start + spread @ theta, laplacian, 1, True), spread, between


def differences(solution: Maximum, spread: Array, between: Array) -> tuple[Array, Array]:
    """Mean and variance (before φ) of d of every observation, in the pattern's order."""
    pattern = solution.laplacian.pattern
    variance = difference_variances(solution.laplacian)
    if spread.shape[1]:
        columns = apart(pattern, spread)
        variance = variance + np.sum((columns @ between) * columns, axis=1)
    return apart(pattern, solution.x), np.maximum(variance, TINY)


def apart(pattern: Pattern, values: Array) -> Array:
    """x_first − x_second − γ of every observation, for scores and biases x (n + C·J,) or columns of them."""
    found = values[pattern.first] - values[pattern.second]
    return found - values[pattern.bias_index] if pattern.judges else found


NEGLIGIBLE = 1e-10  # relative eigenvalue of a precision that counts as 0: the mean of all groups is not determined


class Solver(Protocol):
    """Solves for the scores given the answers and a prior."""

    def given(self, a: float, expected: Array, right: Array) -> tuple[Array, Array]:
        """s₀ (n,), and the columns F for `expected` (n, M) followed by H⁻¹·right (n, q), for H with the ridge 1/a."""
        ...


@dataclass(frozen=True, eq=False)
class Predicted:
    """The predictors `columns` M (n, M) of the scores, `is_group` (M,) marking groups, and the fit to the answers.

    `observations` is the number of pairs, `widening` a factor on covariances, and `unit` the unit of scores in logits.
    `held` (n, D) are the values of the `control`, whose β are the first D of θ. `lean` (n, K) is a root of the
    covariance that the control coefficients of a panel's voices add to the scores.
    """

    graph: Graph
    columns: Array
    is_group: Mask
    variances: Variances
    solver: Solver
    observations: float
    held: Array
    lean: Array
    widening: float = 1.0
    unit: float = 1.0
    control: Control | None = None

    def freedom(self, is_new: bool) -> float:
        """Degrees of freedom of Student's t for the group means.

        With estimated noise: for these contexts, the pairs beyond a spanning forest, which estimate the noise; ∞ for
        new contexts, whose means are averaged over the quantiles of a instead. With known noise (choices), that average
        is too narrow, and the degrees of freedom are n less components and groups, plus 1.
        """
        nodes, components = self.graph.nodes, self.graph.components
        if self.variances.has_known_noise:
            return float(max(nodes - components - int(np.sum(self.is_group)) + 1, 1))
        return float("inf") if is_new else float(self.observations - (nodes - components))

    @property
    def _is_free(self) -> Mask:
        return self.is_group | (self.variances.kind < 0)

    def free(self, a: float) -> tuple[Array, Array]:
        """θ (M,) and its covariance (M, M) for a ratio a; groups have no prior, and β only that of the control."""
        root = np.where(self._is_free, 1.0, np.sqrt(self.variances.ratios))
        information, pulled = self.variances.moments(a)
        precision = root[:, None] * information * root + np.diag(np.where(self._is_free, 0.0, 1.0))
        covariance = root[:, None] * np.linalg.pinv(precision, rcond=NEGLIGIBLE, hermitian=True) * root
        theta, known = covariance @ pulled, self.variances.noise(a) * covariance
        return (theta, known) if self.control is None else self.control.informed(theta, known)

    def new(self, means: Array, group: Index) -> tuple[Array, Array]:
        """m (G,) and its covariance (G, G) for new contexts, with `means` W and the `group` of each candidate (n,)."""
        follow, style, found = means @ without(self.columns, self.held), ~self._is_free, []
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
            follow = means @ without(solved[:, :width], self.held)
            own = self.variances.noise(a) * means @ solved[:, width:]
            found.append((means @ start + follow @ theta, own + follow @ known @ follow.T))
        return self._mixture(found, means)

    def _mixture(self, found: Sequence[tuple[Array, Array]], by: Array) -> tuple[Array, Array]:
        """Mean and covariance of a mixture with equal shares; `by` W maps scores to group means."""
        means, covariances = (np.array(part) for part in zip(*found, strict=True))
        shares = np.full(len(means), 1.0 / len(means))
        mean, covariance = mixture_moments(means, self.widening * covariances, shares)
        shifted = by @ self.lean
        return self.unit * mean, self.unit**2 * (covariance + shifted @ shifted.T)


@dataclass(frozen=True)
class Effects:
    """Estimated variances, in the square of a score's unit, and the means that scores are shrunk towards.

    `scores` is the variance of candidates around their prediction by group, style and first stage; `groups`, `style`
    and `first_stage` are the variances of the predictions, if any; `bias` is that of γ between contexts, if there are
    several, and `bias_error` the standard error of the mean γ. `bias_variance` (C, J) is the posterior variance of each
    γ of choices, and `equal` the posterior probability that all texts are equal. `noise` is the variance of one
    comparison around the difference of its scores. `mean` (n,) is the prediction for each candidate. The uncertainty of
    the predictions adds spread·between·spreadᵀ to H⁻¹, with `spread` (n, M) and `between` (M, M). `group` (n,) is the
    number of each candidate's group, and `columns` (n, M′) are the features with which mean = columns·θ; the first M′
    of `between` are Cov(θ)/φ. `predicted` computes group means. `gap` is the distance of two peaks of the scores, None
    where they have one; `scores` includes the variance between the peaks.
    """

    dispersion: float
    scores: float
    noise: float
    mean: Array
    columns: Array
    spread: Array
    between: Array
    group: Index | None = None
    bias: float | None = None
    bias_error: float | None = None
    bias_variance: Array | None = None
    equal: float = 0.0
    groups: float | None = None
    style: float | None = None
    first_stage: float | None = None
    predicted: Predicted | None = None
    gap: float | None = None


def random_effects(estimate: Array, variance: Array) -> tuple[float, float]:
    """Mean m and variance τ² of the true values behind `estimate` (G,) with error `variance` (Paule and Mandel).

    τ² solves Σ(x − m)²/(v + τ²) = G − 1, with m the mean weighted by 1/(v + τ²). It is at least a thousandth of the
    smallest error variance, which makes all values practically equal. Weights 1/v (DerSimonian and Laird) would
    underweight extreme values with large errors, which occur for the biases of choices.

    >>> centre, between = random_effects(np.array([1.0, 3.0]), np.array([0.5, 0.5]))
    >>> round(centre, 6), round(between, 6)
    (2.0, 1.5)
    """

    def centre(between: float) -> float:
        share = 1.0 / (variance + between)
        return float(np.sum(share * estimate) / np.sum(share))

    def excess(between: float) -> float:
        square = np.sum((estimate - centre(between)) ** 2 / (variance + between))
        return float(square) - (len(estimate) - 1)

    least = 1e-3 * np.min(variance)
    most = least + np.sum((estimate - np.mean(estimate)) ** 2) / (len(estimate) - 1)
    between = float(scipy.optimize.brentq(excess, least, most)) if excess(least) > 0.0 else least
    return centre(between), between


def shrunk(gamma: Array, variance: Array, asked: Mask) -> tuple[Array, float | None]:
    """γ (C, J) shrunk towards the mean of its judge, 0 where not `asked`, and the mean variance between contexts."""
    gamma, spreads = np.where(asked, gamma, 0.0), []
    for judge in range(gamma.shape[1]):
        own = asked[:, judge]
        if np.count_nonzero(own) > 1:
            estimate, error = gamma[own, judge], variance[own, judge]
            centre, between = random_effects(estimate, error)
            gamma[own, judge] = centre + (estimate - centre) * between / (between + error)
            spreads.append(between)
    return gamma, float(np.mean(spreads)) if spreads else None
