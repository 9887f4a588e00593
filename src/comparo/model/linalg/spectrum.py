"""The spectrum of the comparison graph, from which the restricted likelihood follows for any variances.

Observations of weights c determine scores by L·s = b, L the Laplacian of the graph after the position biases are
eliminated. With the eigenvalues q of L, and the coordinates of b (β) and of the columns of M (groups and style) in its
eigenvectors, every term of the restricted likelihood is a sum over independent coordinates (`reml`). Where score i has
the variance h_i·σ² around its prediction, the scores are divided by √h, and √h·L·√h, √h·b and M/√h take the place of L,
b and M. Contexts of up to `Limits.spectral` items are decomposed exactly. Above, a block Lanczos iteration from b and M
gives a Krylov basis of a few hundred vectors, and random vectors give the trace (stochastic Lanczos quadrature).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from scipy.linalg import eigh_tridiagonal

from comparo.model.linalg.graph import ContextBatch, Pattern
from comparo.model.linalg.laplacian import Laplacian, Sums, Tail
from comparo.rounding import TINY
from comparo.types import Array

ZERO = 1e-9  # relative to the largest eigenvalue of a context: smaller ones count as 0 (null vectors of components)
POLE_SHARE = 0.95  # the smallest a is −POLE_SHARE/max q
INTERVAL, POINTS = 1.0, 12  # length and Chebyshev points: (2π + √(4π² + 1))⁻¹² = 6e-14, the error of the interpolation
NEGLIGIBLE = 1e-4  # product of the ratios β/α, a bound of the relative effect of further steps


@dataclass(frozen=True)
class System:
    """M observations as a linear system: precisions c and pulls c·y (M,), in the order of the `pattern`.

    `ridge` and `mean` (C·J,) are precision and mean of the prior of the biases. Score i has the prior variance σ²·h_i,
    with h (n,) the `inflation`.
    """

    pattern: Pattern
    c: Array
    pull: Array
    ridge: Array = field(default_factory=lambda: np.zeros(0))
    mean: Array = field(default_factory=lambda: np.zeros(0))
    inflation: Array | float = 1.0

    @property
    def square(self) -> float:
        """Σ c·y²."""
        return float(np.sum(self.pull**2 / np.maximum(self.c, TINY)))

    def laplacian(self, ridge: float) -> Laplacian:
        """H with the ridge `ridge`/h on the scores."""
        own = np.full(self.nodes, ridge) / self.inflation
        return Laplacian(self.pattern, self.c, np.concatenate([own, self.ridge]), self._sums)

    @cached_property
    def _sums(self) -> Sums:
        return Laplacian.sums(self.pattern, self.c)

    def towards(self, ridge: float, expected: Array) -> Array:
        """The term that a prior around `expected` (n,) or (n, q) adds to b; with h, it sums to 0 in each component."""
        own = np.full(self.nodes, ridge) / self.inflation
        return self.pattern.graph.balance((expected.T * own).T, own)

    @property
    def nodes(self) -> int:
        return self.pattern.graph.nodes

    @property
    def rhs(self) -> Array:
        """b of the scores and of the biases, shape (n + C·J,)."""
        b = self.pattern.gather(self.pull)
        b[self.nodes :] += self.ridge * self.mean
        return b

    def solve(self, ridge: float, expected: Array) -> Array:
        """The most probable scores and biases (n + C·J,), the scores with a prior around `expected` (n,)."""
        rhs = self.rhs
        rhs[: self.nodes] += self.towards(ridge, expected)
        return self.laplacian(ridge).solve(rhs)

    def given(self, a: float, expected: Array, right: Array) -> tuple[Array, Array]:
        """The most probable scores (n,) with a prior of variance a around 0, and further columns (n, M + q).

        The columns are the changes of scores by a prior mean in `expected` (n, M), and H⁻¹·right for `right` (n, q).
        """
        _, start, found = self.solved(1.0 / a, np.column_stack([self.towards(1.0 / a, expected), right]), 1e-12)
        return start[: self.nodes], found[: self.nodes]

    def solved(self, ridge: float, columns: Array, accuracy: float = 1e-9) -> tuple[Laplacian, Array, Array]:
        """H with the `ridge`, H⁻¹b (n + C·J,), and H⁻¹·columns (n + C·J, q) for `columns` (n, q) of the scores."""
        laplacian, rhs = self.laplacian(ridge), np.zeros((self.pattern.unknowns, 1 + columns.shape[1]))
        rhs[:, 0], rhs[: self.nodes, 1:] = self.rhs, columns
        found = laplacian.solve(rhs, accuracy)
        return laplacian, found[:, 0], found[:, 1:]


@dataclass(frozen=True)
class Spectrum:
    """Eigenvalues q (A,), coordinates β (A,), moments of the columns' coordinates (A, M), and a quadrature for traces.

    `trace_q` and `trace_weight` (T,) are the nodes and weights of the quadrature. `square` is Σ c·y² after the biases
    are eliminated.

    >>> from comparo.data.comparisons import Comparisons
    >>> from comparo.model.linalg.graph import Graph
    >>> pattern = Pattern(Graph.build(Comparisons.from_rows([("a", "b", 0.7), ("b", "c", 0.6)])))
    >>> system = System(pattern, np.ones(2), np.array([0.8, 0.4]))
    >>> Spectrum.of(system, np.zeros((3, 0))).q.round(6)
    array([1., 3.])
    """

    q: Array
    beta: Array
    moments: Moments
    trace_q: Array
    trace_weight: Array
    square: float

    @classmethod
    def of(cls, system: System, columns: Array) -> Spectrum:
        """Compute the spectrum of `system`, with `columns` (n, M) that are centred in each component."""
        laplacian, rhs, n = system.laplacian(0.0), system.rhs, system.nodes
        biases = laplacian.diagonal[n:]
        scale = np.where(biases > 0, biases, 1.0)
        square = system.square + np.sum(system.ridge * system.mean**2) - np.sum(rhs[n:] ** 2 / scale)
        shift = np.divide(rhs[n:], scale)
        width = system.pattern.judges
        b = rhs[:n] - (
            np.sum(laplacian.border * shift.reshape(-1, width)[system.pattern.context[:n]], axis=1) if width else 0.0
        )
        root = np.sqrt(np.ones(n) * system.inflation)
        b, columns = b * root, columns / root[:, None]
        limit, found = system.pattern.limits.spectral, []
        for batch in system.pattern.batches:
            if batch.size > limit:
                found.append(_krylov(Tail(laplacian, batch.begin), b, columns, root))
                break
            found.append(_exact(laplacian, batch, b, columns, scale, root))
        q, beta, coordinates, trace_q, weight = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return cls(q, beta, Moments.of(q, beta, coordinates), trace_q, weight, square)


@dataclass(frozen=True)
class Moments:
    """C(a) = Σ q·ccᵀ/(1 + aq) and g(a) = Σ β·c/(1 + aq) of A coordinates, for any a ≥ −`POLE_SHARE`/max q.

    With u = 1/q, both are Σ xxᵀ/(u + a) for the rows x = (c, βu), which costs A·M² for each a. As a function of
    log(u − `POLE_SHARE`·min u), 1/(u + a) has no pole nearer than ±πi, whatever a is: Chebyshev interpolation from
    `POINTS` points in each interval of length `INTERVAL` is exact to rounding. The sums of xxᵀ by these weights,
    `matrices` (P, M + 1, M + 1) at the `points` u (P,), are computed once; each a then costs P·M².

    >>> rng = np.random.default_rng(0)
    >>> q, beta, columns = rng.uniform(0.1, 9.0, 200), rng.standard_normal(200), rng.standard_normal((200, 2))
    >>> (c,), (g,) = Moments.of(q, beta, columns).at(np.array([0.7]))
    >>> share = 1 / (1 + 0.7 * q)
    >>> np.allclose(c, (columns.T * q * share) @ columns, rtol=1e-12), np.allclose(g, columns.T @ (beta * share))
    (True, True)
    >>> c, g = Moments.of(q, beta, columns).twice(0.7)
    >>> np.allclose(c, (columns.T * q * share**2) @ columns), np.allclose(g, columns.T @ (beta * share**2))
    (True, True)
    """

    points: Array
    matrices: Array

    @classmethod
    def of(cls, q: Array, beta: Array, columns: Array) -> Moments:
        """The moments of q (A,), β (A,) and the columns c (A, M)."""
        kept = q > ZERO * np.max(q, initial=0.0)
        width = columns.shape[1] + 1
        if width == 1 or not kept.any():
            return cls(np.zeros(0), np.zeros((0, width, width)))
        u = 1.0 / q[kept]
        rows = np.column_stack([columns[kept], beta[kept] * u])
        least = POLE_SHARE * np.min(u)
        x = np.log(u - least)
        interval = ((x - np.min(x)) / INTERVAL).astype(int)
        points, matrices = [], []
        for number in np.unique(interval):
            own = interval == number
            places, weights = _interpolation(x[own], np.min(x) + INTERVAL * (number + 0.5))
            points.append(np.exp(places) + least)
            matrices += [(rows[own] * weight[:, None]).T @ rows[own] for weight in weights.T]
        return cls(np.concatenate(points), np.array(matrices))

    def at(self, a: Array) -> tuple[Array, Array]:
        """C (G, M, M) and g (G, M) for each a (G,)."""
        found = np.tensordot(1.0 / (self.points + a[:, None]), self.matrices, 1)
        return found[:, :-1, :-1], found[:, :-1, -1]

    def twice(self, a: float) -> tuple[Array, Array]:
        """Σ q·ccᵀ/(1 + aq)² (M, M) and Σ β·c/(1 + aq)² (M,): both are Σ xxᵀ·u/(u + a)²."""
        found = np.tensordot(self.points / (self.points + a) ** 2, self.matrices, 1)
        return found[:-1, :-1], found[:-1, -1]


def _interpolation(x: Array, middle: float) -> tuple[Array, Array]:
    """Interpolation points (P,) in the interval around `middle`, and their weights (A, P) for the values at x (A,).

    Few x are points themselves; else Chebyshev points by the barycentric formula (Berrut and Trefethen 2004).
    """
    if len(x) <= POINTS:
        return x, np.eye(len(x))
    angle = (np.arange(POINTS) + 0.5) * np.pi / POINTS
    points = middle + 0.5 * INTERVAL * np.cos(angle)
    apart = x[:, None] - points
    met = apart == 0.0
    weight = (-1.0) ** np.arange(POINTS) * np.sin(angle) / np.where(met, 1.0, apart)
    weight = np.where(met.any(axis=1, keepdims=True), met, weight)
    return points, weight / np.sum(weight, axis=1, keepdims=True)


_Part = tuple[Array, Array, Array, Array, Array]


def _exact(laplacian: Laplacian, batch: ContextBatch, b: Array, columns: Array, biases: Array, root: Array) -> _Part:
    """The part of the spectrum by eigendecomposition of every context of `batch`."""
    size, width = batch.size, laplacian.pattern.judges
    matrix = laplacian.dense(batch)
    scores = matrix[:, :size, :size] - laplacian.constants(batch)
    if width:
        border = matrix[:, :size, size:]
        diagonal = biases.reshape(-1, width)[batch.begin : batch.end]
        scores = scores - (border / diagonal[:, None]) @ border.transpose(0, 2, 1)
    own = root[batch.nodes].reshape(-1, size)
    q, vectors = np.linalg.eigh(own[:, :, None] * scores * own[:, None, :])
    kept = q > ZERO * np.maximum(q[:, -1:], TINY)
    beta = np.einsum("bij,bi->bj", vectors, b[batch.nodes].reshape(-1, size))
    parts = vectors.transpose(0, 2, 1) @ columns[batch.nodes].reshape(len(q), size, -1)
    return q[kept], beta[kept], parts[kept], q[kept], np.ones(np.count_nonzero(kept))


def _krylov(tail: Tail, b: Array, columns: Array, root: Array) -> _Part:
    """The part of the spectrum by block Lanczos from b and the columns, with Lanczos quadrature for the trace."""
    limits, begin = tail.limits, tail.start
    start = np.column_stack([b[begin:], columns[begin:]])
    component, root = tail.component - tail.component[0], root[begin:, None]
    sizes = np.bincount(component, root[:, 0] ** -2)

    def centred(x: Array) -> Array:
        """x without the null vectors of L, which are 1/root in a component."""
        sums = np.array([np.bincount(component, column, len(sizes)) for column in (x / root).T]).T
        return np.asarray(x - (sums / sizes[:, None])[component] / root)

    def multiply(x: Array) -> Array:
        """L·x, where L has the biases eliminated."""
        known = np.zeros((len(tail.diagonal), x.shape[1]))
        known[: tail.nodes] = root * x
        if len(tail.diagonal) > tail.nodes:
            biases = tail.diagonal[tail.nodes :, None]
            known[tail.nodes :] = -(tail.border_turned @ (root * x)) / np.where(biases > 0, biases, 1.0)
        return centred(root * tail.multiply(known)[: tail.nodes])

    width = start.shape[1]
    steps = max(3, min(limits.krylov_steps, limits.krylov_entries // (tail.nodes * width)))
    found = np.empty((tail.nodes, steps * width), order="F")  # the basis, of which `blocks` are filled
    blocks, left = [slice(0, width)], 1.0
    found[:, :width] = np.linalg.qr(centred(start))[0]
    while len(blocks) < steps and blocks[-1].stop + width < tail.nodes:
        basis, image = found[:, : blocks[-1].stop], multiply(found[:, blocks[-1]])
        for _ in range(2):  # twice, for the digits that the first subtraction loses
            image -= basis @ (basis.T @ image)
        block, triangle = np.linalg.qr(image)
        size = np.abs(np.diagonal(triangle))
        sound = size > 1e-10 * max(np.max(np.abs(triangle)), TINY)
        if not sound.any():
            break
        left *= np.max(size) / max(np.mean(tail.diagonal[: tail.nodes]), TINY)
        if left < NEGLIGIBLE:
            break
        blocks.append(slice(blocks[-1].stop, blocks[-1].stop + int(np.count_nonzero(sound))))
        found[:, blocks[-1]] = block[:, sound]
    basis = found[:, : blocks[-1].stop]
    q, vectors = np.linalg.eigh(np.column_stack([basis.T @ multiply(basis[:, block]) for block in blocks]))
    coordinates = vectors.T @ (basis.T @ start)
    kept = q > ZERO * q[-1]
    nodes, weight = quadrature(multiply, centred(tail.signs(limits.krylov_probes)[: tail.nodes]), limits.krylov_steps)
    scale = (tail.nodes - len(sizes)) / np.sum(weight)
    return q[kept], coordinates[kept, 0], coordinates[kept, 1:], nodes, weight * scale


def quadrature(multiply: Callable[[Array], Array], probes: Array, steps: int) -> tuple[Array, Array]:
    """Nodes q and weights, both (steps·P,), such that Σ weight·f(q) estimates tr f(L) for smooth f.

    The iteration stops early where further steps would change nothing. `multiply` applies L to columns, and `probes`
    (n, P) are random signs, projected on the space in which the trace is taken.

    >>> matrix = np.diag([1.0, 2.0, 3.0])
    >>> q, weight = quadrature(lambda x: matrix @ x, np.ones((3, 1)), 3)
    >>> round(float(np.sum(weight * q**2)), 6)
    14.0
    """
    squares, left = np.sum(probes**2, axis=0), 1.0
    z, previous = probes / np.sqrt(squares), np.zeros_like(probes)
    alpha, beta = np.zeros((2, steps, probes.shape[1]))
    for step in range(steps):
        image = multiply(z)
        alpha[step] = np.sum(z * image, axis=0)
        image = image - alpha[step] * z - (beta[step - 1] * previous if step else 0.0)
        beta[step] = np.linalg.norm(image, axis=0)
        previous, z = z, image / np.maximum(beta[step], TINY)
        left *= float(np.max(beta[step] / np.maximum(alpha[step], TINY)))
        if left < NEGLIGIBLE:
            break
    steps, nodes, weights = step + 1, [], []
    for column, square in enumerate(squares):
        values, vectors = eigh_tridiagonal(alpha[:steps, column], beta[: steps - 1, column])
        nodes.append(np.maximum(values, 0.0))
        weights.append(vectors[0] ** 2 * square / len(squares))
    return np.concatenate(nodes), np.concatenate(weights)


def log_det(laplacian: Laplacian) -> float:
    """log det H, with a ridge above 0 on every score.

    Exact for contexts of up to `Limits.exact` items. Above it is Σ log D + tr log(D^−½ H D^−½), D the diagonal of H,
    with the trace estimated by `Limits.determinant_probes` random vectors (`quadrature`). With ten comparisons per item
    the error is about 0.15% of |log det| for 600 items and falls with the square root of their number.
    """
    total, limits = 0.0, laplacian.pattern.limits
    for batch in laplacian.pattern.batches:
        if batch.size > limits.exact:
            return total + _estimated(Tail(laplacian, batch.begin))
        matrices = laplacian.dense(batch)
        matrices[:, : batch.size, : batch.size] -= laplacian.constants(batch)
        total += float(np.sum(np.linalg.slogdet(matrices).logabsdet))
    return total


def _estimated(tail: Tail) -> float:
    root, probes = np.sqrt(tail.diagonal)[:, None], tail.signs(tail.limits.determinant_probes)
    q, weight = quadrature(lambda x: tail.multiply(x / root) / root, probes, tail.limits.lanczos_steps)
    return float(np.sum(np.log(tail.diagonal)) + np.sum(weight * np.log(np.maximum(q, 1e-12))))
