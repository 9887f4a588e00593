"""The variances of scores, groups and style by restricted likelihood, and their uncertainty.

Scores are s = M θ + δ with δ ~ N(0, σ²) and the θ of one kind (groups, style) ~ N(0, ω²); the noise of an observation
of weight 1 has the variance φ. With the ratios a = σ²/φ and r = ω²/φ, the coordinates of a `Spectrum` are independent,

    β ~ q·cθ + √q·N(0, φ·(1 + aq)),

and with d = 1 + aq, C = Σ q·ccᵀ/d, g = Σ β·c/d and R = diag(r)

    Q(a, r) = Σ c·y² − a Σ β²/d − gᵀ(C + R⁻¹)⁻¹g,
    log L   = −½ Σ log d − ½ log det(I + R^½ C R^½) − ½ K log Q           (−½ Q where φ = 1 is known),

φ = Q/K. All of it is exact for soft answers. The likelihood is defined for small negative a too. Its signed root

    z(a) = sign(a − â)·√(2 log L(â) − 2 log L(a))

is about standard normal at the true a, so Φ(z) is a confidence distribution of a. Scores are averaged over its
quantiles, so that intervals include the uncertainty of σ². An estimate σ² = 0 would make all intervals empty; it is
avoided by the term `PULL`·log((1 + aq̄)/(1 + aq̄/`UNTIL`)), which grows until σ² is about the variance of an estimated
score and was chosen by simulated judges (docs/soundness.md). For choices σ has a prior instead, log σ ~ N(log `SPREAD`,
`SPREAD_ERROR`²), and scores are averaged over the quantiles of its posterior. An estimate φ = 0, which a graph without
cycles allows, is avoided by the term −log(1 + a/`SUREST`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack
from scipy.special import ndtr

from comparo.model.linalg.spectrum import POLE_SHARE, Spectrum
from comparo.model.tuning import (
    NARROWEST,
    PULL,
    QUANTILES,
    SHARED_PULL,
    SPREAD,
    SPREAD_ERROR,
    SUREST,
    UNTIL,
    WIDEST,
)
from comparo.rounding import TINY
from comparo.types import Array

LEAST_NOISE = 1e-12  # φ of answers without noise: a millionth of a logit
FLAT = 1e6  # a coefficient of a thousand standard deviations of a score: practically no prior
NEGLIGIBLE = 0.05  # negligible change of the logarithm of a ratio: a third of its standard error for 100 items
COARSE_STEPS, FINE_STEPS, NEGATIVE_STEPS = 48, 16, 8
ROUNDS = 4  # of alternating between a and the r
SPREADS = 97  # points of the grid of σ: 6% from each to the next
SMALL = 24  # columns up to which one call for all matrices is faster than a call for each


@dataclass(frozen=True)
class Variances:
    """The best `ratio` a and `shared` r (by kind), the `quantiles` of a, and the number of observations K.

    φ is 1 where the noise is known. `flat` is the r of columns of no kind (−1), whose θ have no prior.
    """

    spectrum: Spectrum
    kind: NDArray[np.intp]
    observations: float
    has_known_noise: bool
    ratio: float
    shared: Array
    quantiles: Array
    flat: float = 0.0

    @property
    def ratios(self) -> Array:
        """r of every column, (M,)."""
        return _of_columns(self.shared, self.kind, self.flat)

    def noise(self, a: float) -> float:
        """φ for a ratio a: the mean square of the residuals, S/ν.

        At the maximum of the restricted likelihood, S/ν = Q/K. The terms that avoid 0 move a above it, where Q/K is too
        small, the more so the fewer answers there are. Where answers have hardly any noise, the largest ratio of the
        search is below the maximum, and S/ν is too small there: as Q/K rises from 2 to 3 times S/ν, φ changes from S/ν
        to Q/K.
        """
        if self.has_known_noise:
            return 1.0
        square, freedom = self.residual(a)
        found, profiled = square / freedom, _form(self.spectrum, a, self.ratios)[0] / self.observations
        share = min(max(profiled / max(found, LEAST_NOISE) - 2.0, 0.0), 1.0)
        return max(found + share * (profiled - found), LEAST_NOISE)

    def residual(self, a: float) -> tuple[float, float]:
        """The sum of the squared residuals S of the fitted scores, and their degrees of freedom ν (Satterthwaite).

        With S = ‖V⁻¹y‖² and ν = tr V⁻¹ for V = Cov(y)/φ, in the coordinates of the spectrum

            S = Σ c·y² − Σ β²/q + Σ (β − q·cθ)²/(q·d²),    ν = K − Σ aq/d − tr[Cov(θ)/φ · Σ q·ccᵀ/d²].
        """
        spectrum, d = self.spectrum, 1.0 + a * self.spectrum.q
        covariance, theta = self.precision(a)
        c, g = spectrum.moments.twice(a)
        square = spectrum.square + np.sum(spectrum.beta**2 * (1.0 / d**2 - 1.0) / spectrum.q)
        square += float(theta @ (c @ theta - 2.0 * g))
        aq = a * spectrum.trace_q
        fitted = float(np.sum(spectrum.trace_weight * aq / (1.0 + aq)))
        fitted += float(np.sum(covariance * c))
        most = max(self.observations, np.sum(spectrum.trace_weight))  # at least as many as scores
        return square, max(most - fitted, TINY)

    def moments(self, a: float) -> tuple[Array, Array]:
        """C (M, M) and g (M,)."""
        (c,), (g,) = self.spectrum.moments.at(np.array([a]))
        return c, g

    @property
    def evidence(self) -> float:
        """log ∫ exp(−½ Σ c·d² + Σ c·y·d) of all observations over scores with the best variances, where φ is 1."""
        spectrum = self.spectrum
        left, logdet = _form(spectrum, self.ratio, self.ratios)
        total = float(np.log1p(self.ratio * spectrum.trace_q) @ spectrum.trace_weight)
        return 0.5 * (spectrum.square - left - total - logdet)

    def precision(self, a: float) -> tuple[Array, Array]:
        """(C + R⁻¹)⁻¹, which is Cov(θ)/φ, shape (M, M), and the mean of θ (M,)."""
        root = np.sqrt(self.ratios)
        c, g = self.moments(a)
        inner = np.linalg.inv(np.eye(len(root)) + root[:, None] * c * root)
        covariance = root[:, None] * inner * root
        return covariance, covariance @ g


def estimate(
    spectrum: Spectrum,
    kind: NDArray[np.intp],
    observations: float,
    has_known_noise: bool,
    unit: float = 1.0,
    pull: float = PULL,
    flat: float = FLAT,
    quantiles: int = QUANTILES,
    has_prior: bool = False,
) -> Variances:
    """The variances for columns of these kinds (M,), numbered from 0; scores are in multiples of `unit` logits.

    Coefficients of columns of kind −1 have the variance `flat`·(φ + variance of all scores), by default practically no
    prior. φ is 1 where the noise is known. `pull` is the strength of the term that keeps the variance of scores from 0.
    With `has_prior`, σ has the prior of people's votes instead, the ratio is the median of its posterior, and the
    quantiles are those of the posterior. `quantiles` is their number.

    >>> rng = np.random.default_rng(0)
    >>> q = np.full(400, 4.0)
    >>> beta = np.sqrt(q) * np.sqrt(1 + 0.5 * q) * rng.standard_normal(400)
    >>> from comparo.model.linalg.spectrum import Moments
    >>> moments, square = Moments.of(q, beta, np.zeros((400, 0))), float(np.sum(beta**2 / q)) + 400.0
    >>> spectrum = Spectrum(q, beta, moments, q, np.ones(400), square)
    >>> found = estimate(spectrum, np.zeros(0, dtype=np.intp), 800, has_known_noise=False)
    >>> bool(abs(found.ratio - 0.5) < 0.15), bool(abs(found.noise(found.ratio) - 1.0) < 0.15)
    (True, True)
    """
    weight = spectrum.trace_weight
    level = float(np.sum(spectrum.trace_q * weight) / max(np.sum(weight), 1.0))
    level = max(level, TINY)
    kinds = int(kind.max(initial=-1)) + 1
    search = _Search(spectrum, kind, observations, has_known_noise, level, pull=pull, has_prior=has_prior)
    if np.any(kind < 0):
        a, *_ = search.best_ratio(np.zeros(kinds))
        search = replace(search, flat=flat * (1.0 + max(a, 0.0)))
    starts = (0.0, 1.0 / level) if kinds else (0.0,)  # there may be a maximum with and one without the kinds
    settled = [search.settle(np.full(kinds, start)) for start in starts]
    _, shared = max(settled, key=lambda found: found[0])
    a, grid, confidence = search.best_ratio(shared)
    best = Variances(spectrum, kind, observations, has_known_noise, a, shared, np.array([a]), search.flat)
    noise = best.noise(max(a, 0.0))
    low = (unit * NARROWEST) ** 2 / noise
    high = (unit * WIDEST) ** 2 / noise
    place = np.interp((np.arange(quantiles) + 0.5) / quantiles, confidence, np.arange(len(grid)))
    found = np.clip(np.interp(place, np.arange(len(grid)), grid), low, high)
    if np.log(found[-1] / found[0]) < NEGLIGIBLE:
        found = np.clip([a], low, high)
    return replace(best, ratio=float(np.clip(a, low, high)), quantiles=found)


_Terms = tuple[Array, Array, Array, Array]


@dataclass(frozen=True)
class _Search:
    spectrum: Spectrum
    kind: NDArray[np.intp]
    observations: float
    has_known_noise: bool
    level: float
    flat: float = 0.0
    pull: float = PULL
    has_prior: bool = False

    @cached_property
    def coarse(self) -> tuple[Array, _Terms]:
        """A coarse grid of a (G,), with its `_terms`."""
        largest = float(np.max(self.spectrum.trace_q, initial=self.level))
        negative = -np.linspace(POLE_SHARE, 0.0, NEGATIVE_STEPS) / max(largest, np.max(self.spectrum.q, initial=0.0))
        grid = np.concatenate([negative, np.exp(np.linspace(np.log(1e-4), np.log(1e5), COARSE_STEPS)) / self.level])
        return grid, self._terms(grid)

    def _terms(self, a: Array) -> _Terms:
        """The terms of the likelihood at each a (G,) that do not depend on r: C, g, Σ c·y² − a Σ β²/d and Σ log d."""
        logs = np.log1p(a[:, None] * self.spectrum.trace_q) @ self.spectrum.trace_weight
        return *self.spectrum.moments.at(a), _residual(self.spectrum, a), logs

    def likelihood(self, a: Array, shared: Array, terms: _Terms | None = None) -> Array:
        """log L with the terms that keep σ² and φ from 0, for each a (G,) and the r of all kinds."""
        c, g, residual, logs = self._terms(a) if terms is None else terms
        root = np.sqrt(_of_columns(shared, self.kind, self.flat))
        form, logdet = _factored(np.eye(len(root)) + root[:, None] * c * root, root * g)
        height = -0.5 * (logs + logdet) - 0.5 * self._fit(residual - form)
        return height + _pull(a * self.level, self.pull) - np.log1p(np.maximum(a, 0.0) / SUREST)

    def _fit(self, q: Array) -> Array:
        return q if self.has_known_noise else self.observations * np.log(np.maximum(q, TINY))

    def settle(self, shared: Array) -> tuple[float, Array]:
        """Alternate between the best a and the best r of each kind, starting from `shared`; return log L and r."""
        a = self.best_ratio(shared)[0]
        for _ in range(ROUNDS if len(shared) else 0):
            before = self._logs(a, shared)
            shared = self.best_shared(a, shared)
            a = self.best_ratio(shared)[0]
            if np.max(np.abs(self._logs(a, shared) - before)) < NEGLIGIBLE:
                break
        return float(self.likelihood(np.array([a]), shared)[0]), shared

    def _logs(self, a: float, shared: Array) -> Array:
        """Logarithms of a and r, bounded below where a ratio has no effect on the estimates any more."""
        return np.log(np.maximum([a, *shared], 1e-6 / self.level))

    def best_ratio(self, shared: Array) -> tuple[float, Array, Array]:
        """The best a, and the confidence Φ(z) at the points of a grid; with a prior, median and posterior."""
        if self.has_prior:
            return self._posterior(shared)
        grid, terms = self.coarse
        height = self.likelihood(grid, shared, terms)
        near = np.flatnonzero(height > np.max(height) - 8.0)
        low = grid[max(near[0] - 1, 0)]
        high = grid[min(near[-1] + 1, len(grid) - 1)]
        middle = grid[int(np.argmax(height))]
        fine = np.concatenate([np.linspace(low, middle, FINE_STEPS), np.linspace(middle, high, FINE_STEPS)[1:]])
        if middle > 0:
            down = np.exp(np.linspace(np.log(max(low, 1e-3 * middle)), np.log(middle), FINE_STEPS))
            up = np.exp(np.linspace(np.log(middle), np.log(high), FINE_STEPS))
            fine = np.concatenate([down, up[1:]])
            if low < down[0]:
                fine = np.append(np.linspace(low, down[0], 3), fine)
        fine = np.unique(fine)
        height = self.likelihood(fine, shared)
        top = int(np.argmax(height))
        a, peak = _parabola(fine, height, top)
        root = np.sign(fine - a) * np.sqrt(np.maximum(2.0 * (peak - height), 0.0))
        return a, fine, ndtr(np.maximum.accumulate(root))

    def _posterior(self, shared: Array) -> tuple[float, Array, Array]:
        """The median of a, a grid of a, and the posterior distribution function there, with the prior of log σ."""
        logs = np.linspace(np.log(NARROWEST), np.log(WIDEST), SPREADS)
        grid = np.exp(2.0 * logs)
        height = replace(self, pull=0.0).likelihood(grid, shared)
        height += spread_prior(logs)
        share = np.exp(height - np.max(height))
        below = np.append(0.0, np.cumsum(0.5 * (share[1:] + share[:-1])))
        below /= below[-1]
        return float(np.exp(np.interp(0.5, below, np.log(grid)))), grid, below

    def best_shared(self, a: float, shared: Array) -> Array:
        """Maximise over the r of each kind in turn, with a and the other r fixed."""
        spectrum, shared = self.spectrum, shared.copy()
        (c,), (g,) = spectrum.moments.at(np.array([a]))
        base = float(_residual(spectrum, np.array([a]))[0])
        for number in range(len(shared)):
            own = self.kind == number
            level = max(np.mean(np.diagonal(c)[own]), TINY)
            grid = np.concatenate([[0.0], np.exp(np.linspace(np.log(1e-3), np.log(1e5), COARSE_STEPS)) / level])
            for _ in range(2):
                every = np.where(own, grid[:, None], _of_columns(shared, self.kind, self.flat))
                root = np.sqrt(every)
                form, logdet = _factored(np.eye(len(g)) + root[:, :, None] * c * root[:, None, :], root * g)
                height = -0.5 * logdet - 0.5 * self._fit(base - form)
                height += _pull(grid * level, SHARED_PULL)
                best = int(np.argmax(height))
                shared[number] = grid[best]
                if best == 0:
                    break
                low, high = np.log(grid[max(best - 1, 1)]), np.log(grid[min(best + 1, len(grid) - 1)])
                grid = np.exp(np.linspace(low, high, 9))
        return shared


def spread_prior(logs: Array) -> Array:
    """The logarithm of the prior density of log σ at `logs`.

    >>> float(np.sum(np.exp(spread_prior(np.linspace(-9.0, 9.0, 1801)))).round(6))
    100.0
    """
    distance = (logs - np.log(SPREAD)) / SPREAD_ERROR
    return np.asarray(-0.5 * distance**2 - np.log(SPREAD_ERROR * np.sqrt(2.0 * np.pi)))


def _of_columns(shared: Array, kind: NDArray[np.intp], flat: float) -> Array:
    """r of every column (M,), from that of every kind and of the columns of no kind."""
    return np.append(shared, flat)[kind]


def _pull(x: Array, strength: float) -> Array:
    return strength * np.log((1.0 + x) / (1.0 + x / UNTIL))


def _residual(spectrum: Spectrum, a: Array) -> Array:
    """Σ c·y² − a Σ β²/d for each a (G,)."""
    a = a[:, None]
    explained = a * spectrum.beta**2 / (1.0 + a * spectrum.q)
    return np.asarray(spectrum.square - np.sum(explained, axis=1))


def _form(spectrum: Spectrum, a: float, ratio: Array) -> tuple[float, float]:
    """Q and log det(I + R^½ C R^½) for one a and the r of every column (M,)."""
    c, g = spectrum.moments.at(np.array([a]))
    root = np.sqrt(ratio)
    form, logdet = _factored(np.eye(len(root)) + root[:, None] * c * root, root * g)
    return float((_residual(spectrum, np.array([a])) - form)[0]), float(logdet[0])


def _factored(matrix: Array, pulled: Array) -> tuple[Array, Array]:
    """gᵀA⁻¹g and log det A of positive definite matrices A (G, M, M) and g (G, M); large ones by Cholesky factors."""
    if pulled.shape[1] <= SMALL:
        x = np.linalg.solve(matrix, pulled[:, :, None])[:, :, 0]
        return np.sum(pulled * x, axis=1), np.linalg.slogdet(matrix).logabsdet
    form, logdet = np.zeros((2, len(matrix)))
    for number, (own, g) in enumerate(zip(matrix, pulled, strict=True)):
        factor, x, failed = lapack.dposv(own.T, g)
        form[number], logdet[number] = g @ x, 2.0 * np.sum(np.log(np.diagonal(factor)))
        if failed:  # rounding: no eigenvalue is below 1
            form[number], logdet[number] = g @ np.linalg.solve(own, g), np.linalg.slogdet(own).logabsdet
    return form, logdet


def _parabola(x: Array, y: Array, top: int) -> tuple[float, float]:
    """The maximum of the parabola through the highest point and its neighbours."""
    if not 0 < top < len(x) - 1:
        return float(x[top]), float(y[top])
    left, right = x[top] - x[top - 1], x[top + 1] - x[top]
    down, up = y[top] - y[top - 1], y[top + 1] - y[top]
    slope = (down / left * right + up / right * left) / (left + right)
    bend = (up / right - down / left) / (0.5 * (left + right))
    if bend >= 0:
        return float(x[top]), float(y[top])
    step = float(np.clip(-slope / bend, -left, right))
    return float(x[top] + step), float(y[top] + slope * step + 0.5 * bend * step**2)
