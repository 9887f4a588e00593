"""Newton's method for the product of experts, every context at once.

With the slopes r and curvatures c of the experts at d = X·x − offset, a step moves the scores and biases x by H⁻¹·g,
where g = Xᵀ(w·r) − ridge·(x − mean) is the gradient and H the Laplacian of w·c. Contexts in which the full step
overshoots take a shorter one.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import numpy as np
from scipy.special import logit

from comparo.data.comparisons import Comparisons
from comparo.model.likelihoods import Expert, derivatives, is_logit, of_rows
from comparo.model.linalg.graph import Pattern
from comparo.model.linalg.laplacian import Laplacian
from comparo.rounding import TINY
from comparo.types import Array

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Maximum:
    """The maximum `x` (n + C·J,), the Laplacian there, the number of Newton steps, and whether they converged."""

    x: Array
    laplacian: Laplacian
    steps: int
    converged: bool


@dataclass(frozen=True)
class Problem:
    """Maximise Σ w·ℓ(X·x − offset; p) − ½ Σ ridge·(x − mean)²; p, weight and offset (K,) in the pattern's order."""

    pattern: Pattern
    expert: Expert
    p: Array
    weight: Array
    offset: Array | None
    mean: Array
    ridge: Array

    @classmethod
    def of(
        cls, pattern: Pattern, expert: Expert, comparisons: Comparisons, ridge: Array, offset: Array | None = None
    ) -> Problem:
        """The problem of `comparisons` (and an offset in their order) with a prior around zero."""
        order = pattern.order
        shift = None if offset is None else offset[order]
        p, weight = comparisons.p.take(order), comparisons.weights.take(order)
        return cls(pattern, of_rows(expert, order), p, weight, shift, np.zeros(pattern.unknowns), ridge)

    @property
    def start(self) -> Array:
        """Starting values (n + C·J,): zero, but for choices among many items κ·logit of an item's mean probability.

        With random opponents, the mean probability is about σ(s / κ), κ² = 1 + v/2.9 with v the variance of the scores;
        from v = κ²·Var(logit mean) follows κ² = 1 / (1 − Var(logit mean)/2.9).
        """
        pattern, graph, start = self.pattern, self.pattern.graph, np.zeros(self.pattern.unknowns)
        sizes, n = np.diff(graph.starts), graph.nodes
        if is_logit(self.expert) and sizes[-1] > pattern.limits.batched:
            first, second = pattern.ends(self.weight)
            won, lost = pattern.ends(self.weight * self.p)
            mean = (won + second - lost + 0.5) / (first + second + 1.0)
            scores, context = graph.centre(logit(mean[:n])), pattern.context[:n]
            variance = np.bincount(context, scores**2) / sizes
            start[:n] = scores / np.sqrt(1.0 - np.minimum(variance / 2.9, 0.8))[context]
        return start

    def evaluate(self, x: Array, slope: Array, c: Array) -> Array:
        """The gradient (n + C·J,) at x; fills in the weighted slopes and curvatures (K,).

        Slopes and curvatures are the largest arrays, and reusing them is faster than allocating new ones.
        """
        pattern, chunk = self.pattern, self.pattern.limits.chunk
        first, second = pattern.first, pattern.second
        for begin in range(0, len(self.p), chunk):
            rows = slice(begin, begin + chunk)
            d = x.take(first[rows])
            d -= x.take(second[rows])
            if pattern.judges:
                d -= x[pattern.bias_index[rows]]
            if self.offset is not None:
                d -= self.offset[rows]
            derivatives(of_rows(self.expert, rows), d, self.p[rows], slope[rows], c[rows])
        if not np.isfinite(np.sum(slope) + np.sum(c)):
            row = int(pattern.order[np.argmin(np.isfinite(slope) & np.isfinite(c))])
            raise FloatingPointError(f"{self.expert!r} has no finite slope and curvature for comparison {row + 1}")
        slope *= self.weight
        c *= self.weight
        return pattern.gather(slope) - self.ridge * (x - self.mean)

    def maximise(self, start: Array, accuracy: float | None = None) -> Maximum:
        """Newton's method from `start`, until every gradient is below `accuracy` of its curvature, that of `Limits`."""
        x, limits = start, self.pattern.limits
        enough = accuracy or limits.accuracy
        exact = bool(getattr(self.expert, "quadratic", False))
        slope, c = np.empty((2, len(self.p)))
        gradient = self.evaluate(x, slope, c)
        laplacian = self._laplacian(c)
        rounding = limits.rounding * laplacian.diagonal
        largest = float(np.max(np.abs(gradient), initial=0.0))
        for steps in range(limits.newton_steps):
            allowed = enough * laplacian.diagonal + rounding
            excess = float(np.max(np.abs(gradient) / np.maximum(allowed, TINY), initial=0.0))
            if excess <= 1 and (self._is_even(c) or self._is_close(laplacian, gradient)):
                return Maximum(x, self._final(laplacian, c), steps, True)
            share = np.max(np.abs(gradient)) / largest
            accuracy = 1e-13 if exact else min(1e-2, max(1e-2 * share, 1e-2 / excess))
            direction = laplacian.solve(gradient, accuracy)
            x, gradient = self._advance(x, gradient, direction, slope, c)
            laplacian = self._laplacian(c)
        log.warning(
            "the scores did not settle in %d Newton steps; the largest gradient is %.1e", steps + 1, share * largest
        )
        return Maximum(x, self._final(laplacian, c), steps + 1, False)

    def _is_close(self, laplacian: Laplacian, gradient: Array) -> bool:
        """Whether the next step is small: the gradient alone may hide a large step along a weak link."""
        return bool(np.max(np.abs(laplacian.solve(gradient, 1e-2))) <= self.pattern.limits.last_step)

    def _is_even(self, c: Array) -> bool:
        """Whether no curvature above zero is far below the largest."""
        least = float(np.min(c, initial=np.inf))
        least = least if least > 0 else float(np.min(c[c > 0], initial=np.inf))
        return float(np.max(c, initial=0.0)) <= self.pattern.limits.even * least

    def _laplacian(self, c: Array) -> Laplacian:
        """H from |c|, so that H⁻¹·g is an ascent direction also where an expert is not concave."""
        return Laplacian(self.pattern, np.abs(c) if np.min(c, initial=0.0) < 0 else c, self.ridge)

    def _final(self, laplacian: Laplacian, c: Array) -> Laplacian:
        """H without the experts whose curvature is negative at the solution."""
        return laplacian if laplacian.c is c else Laplacian(self.pattern, np.maximum(c, 0.0), self.ridge)

    def _advance(self, x: Array, gradient: Array, direction: Array, slope: Array, c: Array) -> tuple[Array, Array]:
        """x + t·direction with the gradient there, t ≤ 1 for each context; fills in slopes and curvatures.

        The slope along the direction is `uphill` at t = 0 and decreases. Where it is below −½·`uphill` at t, the step
        is too long, and t becomes the root of the line through both slopes.
        """
        context, contexts = self.pattern.context, self.pattern.graph.contexts
        uphill = np.bincount(context, gradient * direction, contexts)
        t = np.ones(contexts)
        while True:
            advanced = x + t[context] * direction
            new_gradient = self.evaluate(advanced, slope, c)
            ahead = np.bincount(context, new_gradient * direction, contexts)
            over = (ahead < -0.5 * uphill) & (t > 1e-12)
            if not over.any():
                return advanced, new_gradient
            t[over] *= np.clip(uphill[over] / (uphill[over] - ahead[over]), 0.1, 0.9)
