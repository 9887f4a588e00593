"""The curvature of the product of experts: a weighted Laplacian of the comparison graph, and how to solve with it.

With X the K × (n + C·J) matrix whose row has +1 at the first candidate, −1 at the second and, where the position bias
is estimated, −1 at the bias of its context and judge,

    H = Xᵀ diag(c) X + diag(ridge),    c_k = weight · curvature of expert k.

Small contexts (`Limits.batched`) are solved as dense matrices, all those of one size in one call. Larger ones are
solved together by conjugate gradients, which need few steps on a well-connected graph. Where they need many, the graph
is close to a tree, and a sparse factorisation has few entries.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import lapack
from scipy.sparse.linalg import SuperLU, splu

from comparo.model.linalg.graph import ContextBatch, Pattern
from comparo.rounding import TINY
from comparo.types import Array

# Unknowns per right-hand side up to which a dense factorisation of a context is faster than conjugate gradients.
MANY = 2
# Entries per entry that is not 0 up to which multiplying by a dense matrix is faster, and the accuracy below which the
# steps of conjugate gradients are so many that this includes making it.
DENSE, ACCURATE = 8, 1e-6
SEVERAL = 4  # columns from which multiplying by one joined matrix is faster than by its parts, joining included

Sums = tuple[Array, Array, dict[int, Array]]


class Laplacian:
    """H for the curvatures c (K,) in the pattern's order and a ridge (n + C·J,) on the unknowns.

    Solutions are centred in each component, since comparisons do not determine the mean score of a component.

    >>> from comparo.data.comparisons import Comparisons
    >>> from comparo.model.linalg.graph import Graph
    >>> pattern = Pattern(Graph.build(Comparisons.from_rows([("a", "b", 0.7), ("b", "c", 0.6)])))
    >>> Laplacian(pattern, np.ones(2), np.zeros(3)).solve(np.array([3.0, -3.0, 0.0])).round(9)
    array([ 2., -1., -1.])
    """

    def __init__(self, pattern: Pattern, c: Array, ridge: Array, sums: Sums | None = None) -> None:
        self.pattern = pattern
        self.c = c
        self.ridge = ridge
        precision, self.border, self.kept = sums or self.sums(pattern, c)
        self.diagonal: Array = precision + ridge

    @staticmethod
    def sums(pattern: Pattern, c: Array) -> Sums:
        """What does not depend on the ridge: the diagonal of H (n + C·J,), and its border, scores × judges (n, J).

        The third are the matrices of `Tail` without their diagonal, by their first node, once there are any.
        """
        precision, border = np.sum(pattern.ends(c), axis=0), np.zeros((pattern.graph.nodes, pattern.judges))
        if pattern.judge is not None:
            precision += np.bincount(pattern.bias_index, c, pattern.unknowns)
            for sign, column in zip((-1.0, 1.0), pattern.border, strict=True):
                border += sign * np.bincount(column, c, border.size).reshape(border.shape)
        return precision, border, {}

    @cached_property
    def is_uneven(self) -> bool:
        """Whether every score has a ridge and the ridges differ: H is then invertible without `constants`."""
        own = self.ridge[: self.pattern.graph.nodes]
        return bool(np.min(own) > 0 and np.ptp(own) > 0)

    def solve(self, rhs: Array, accuracy: float = 1e-12) -> Array:
        """H⁻¹·rhs for rhs (n + C·J,) or (n + C·J, q), its scores centred in each component.

        `accuracy` bounds the relative residual where the solution is iterative.
        """
        rhs = self.pattern.centre(rhs)
        x = np.empty_like(rhs)
        n = self.pattern.graph.nodes
        width = self.pattern.judges
        large, columns = 0, rhs.reshape(len(rhs), -1)
        largest = self.pattern.batches[-1].size + width
        all_dense = largest <= min(MANY * columns.shape[1], self.pattern.limits.spectral)
        for batch in self.pattern.batches:
            if not (all_dense or self.pattern.is_batched(batch)):
                break
            count, large = batch.end - batch.begin, batch.end
            biases = slice(n + batch.begin * width, n + batch.end * width)
            parts = [columns[part].reshape(count, -1, columns.shape[1]) for part in (batch.nodes, biases)]
            found = np.linalg.solve(self.dense(batch), np.concatenate(parts, axis=1))
            x[batch.nodes] = found[:, : batch.size].reshape(-1, *rhs.shape[1:])
            x[biases] = found[:, batch.size :].reshape(-1, *rhs.shape[1:])
        if large < self.pattern.graph.contexts:
            x[self.tail.unknowns] = self.tail.solve(rhs[self.tail.unknowns], accuracy)
        return self.pattern.centre(x)

    def noise(self, columns: int, rng: np.random.Generator) -> Array:
        """Random vectors Xᵀ√c·ξ + √ridge·ξ′ with the covariance H, centred: shape (n + C·J, columns).

        Their solutions H⁻¹·noise are draws from N(0, H⁻¹). Centring subtracts a multiple of ridge = H·1, which changes
        a solution only by a constant.
        """
        root, pattern = np.sqrt(self.c), self.pattern
        drawn = np.column_stack([pattern.gather(root * rng.standard_normal(len(root))) for _ in range(columns)])
        drawn += np.sqrt(self.ridge)[:, None] * rng.standard_normal((pattern.unknowns, columns))
        if not self.is_uneven:
            return pattern.centre(drawn)
        n = pattern.graph.nodes
        return np.concatenate([pattern.graph.balance(drawn[:n], self.ridge[:n]), drawn[n:]])

    @cached_property
    def tail(self) -> Tail:
        """H of the contexts that are not solved as dense matrices."""
        batches = self.pattern.batches
        return Tail(self, next(batch.begin for batch in batches if not self.pattern.is_batched(batch)))

    def dense(self, batch: ContextBatch) -> Array:
        """H of the contexts of `batch`, shape (B, m, m) with m = size + J, plus `constants` on its scores.

        The constants make H invertible and do not change a centred solution; where the ridge is uneven they are 0.
        """
        graph, width = self.pattern.graph, batch.size + self.pattern.judges
        count, size = batch.end - batch.begin, batch.size
        shape = (count, width, width)
        half = np.bincount(self.pattern.entries[batch.rows], self.c[batch.rows], count * width**2).reshape(shape)
        matrix: Array = -(half + half.transpose(0, 2, 1)).astype(float, copy=False)
        along = np.arange(width)
        biases = self.diagonal[graph.nodes :].reshape(graph.contexts, -1)[batch.begin : batch.end]
        matrix[:, along, along] += np.hstack([self.diagonal[batch.nodes].reshape(count, size), biases])
        border = self.border[batch.nodes].reshape(count, size, -1)
        matrix[:, :size, size:] = border
        matrix[:, size:, :size] = border.transpose(0, 2, 1)
        matrix[:, :size, :size] += self.constants(batch)
        return matrix

    def constants(self, batch: ContextBatch) -> Array:
        """κ between nodes of one component, 0 elsewhere: (B, 1, 1) where every context of `batch` is connected.

        Where the ridge is uneven, H does not map constants to constants, and κ, which would change solutions, is 0.
        """
        if self.is_uneven:
            return np.zeros((batch.end - batch.begin, 1, 1))
        component = self.pattern.graph.component[batch.nodes].reshape(-1, batch.size)
        kappa = self.kappa(batch)[:, None, None]
        if np.all(component[:, 0] == component[:, -1]):
            return kappa
        return np.asarray(kappa * (component[:, :, None] == component[:, None, :]))

    def kappa(self, batch: ContextBatch) -> Array:
        """The mean of H's diagonal in each context of `batch`, shape (B,)."""
        mean = np.mean(self.diagonal[batch.nodes].reshape(-1, batch.size), axis=1)
        return np.where(mean > 0, mean, 1.0)

    def block(self, batch: ContextBatch) -> Array:
        """The scores' part of H⁻¹, centred in each component, for the contexts of `batch`: shape (B, size, size)."""
        matrix, size = self.dense(batch), batch.size
        if len(matrix) == 1:
            factor, failed = lapack.dpotrf(matrix[0])
            if failed:
                raise np.linalg.LinAlgError("the weights of the comparisons are too far apart; rescale them")
            triangle, _ = lapack.dpotri(factor, overwrite_c=True)
            inverse = (np.triu(triangle) + np.triu(triangle, 1).T)[None, :size, :size]
        else:
            inverse = np.linalg.inv(matrix)[:, :size, :size]
        if self.is_uneven:
            return self.pattern.centred(batch, inverse)
        # Along a component's constant vector H has the eigenvalue ridge + κ·(items in the component).
        constants = self.constants(batch)
        component = self.pattern.graph.component
        items = np.bincount(component)[component[batch.nodes]].reshape(-1, size, 1)
        ridge = self.ridge[batch.nodes].reshape(-1, size, 1)
        eigenvalue = ridge + self.kappa(batch)[:, None, None] * items
        return np.asarray(inverse - (constants > 0) / (items * eigenvalue))

    def variances(self, begin: int) -> Array:
        """The diagonal of H⁻¹ at the nodes from `begin` on, centred, by `Limits.error_draws` random vectors.

        With D the diagonal of H and S = D − H,

            H⁻¹ = D⁻¹ + D⁻¹ S D⁻¹ + D⁻¹ S H⁻¹ S D⁻¹

        whose last diagonal is the variance of (S z)/D for z ~ N(0, H⁻¹), one solution per draw. Only the last term is
        random: a standard error has the relative error 1/√(2·64) = 9% (root mean square) times that term's share of the
        variance, about 0.5% for an item with twenty comparisons, 9% at the end of a long chain.
        """
        pattern, rng = self.pattern, np.random.default_rng(0)
        draws, columns = pattern.limits.error_draws, pattern.limits.error_columns
        diagonal = np.where(self.diagonal > 0, self.diagonal, 1.0)[:, None]
        spread = np.zeros(pattern.unknowns)
        for _ in range(draws // columns):
            rhs = self.noise(columns, rng)
            # Weak links between clusters carry much of the variance and little of the residual.
            z = self.solve(rhs, accuracy=1e-8)
            spread += np.sum((z - rhs / diagonal) ** 2, axis=1) / draws
        nodes = slice(begin, pattern.graph.nodes)
        component, ridge = pattern.graph.component, self.ridge[: pattern.graph.nodes]
        items, total = (np.bincount(component, of)[component[nodes]] for of in (None, ridge))
        own = diagonal[nodes, 0]
        share = 1.0 - 2.0 / items + ridge[nodes] ** 2 / (np.where(total > 0, total, 1.0) * own)
        return np.asarray(share / own + spread[nodes])

    def tree_variances(self) -> Array:
        """v_i = 1 / (ridge_i + Σ_j 1/(1/c_ij + v_j)), (n,): the diagonal of H⁻¹ on a graph without short cycles.

        Very large for a node without comparisons and ridge.
        """
        first, second, c, nodes = self.pattern.first, self.pattern.second, self.c, self.pattern.graph.nodes
        ridge, precision = self.ridge[:nodes], self.diagonal[:nodes]
        for _ in range(self.pattern.limits.variance_steps):
            v = 1.0 / np.maximum(precision, TINY)
            ends = (first, c / (1.0 + c * v[second])), (second, c / (1.0 + c * v[first]))
            precision = ridge + np.sum([np.bincount(node, values, nodes) for node, values in ends], axis=0)
        return np.asarray(1.0 / np.maximum(precision, TINY))

    @cached_property
    def bias_variances(self) -> Array:
        """The diagonal of H⁻¹ at the biases, shape (C·J,), by J solutions, because H is block-diagonal by context.

        The relative error is that of a solution squared, since eᵀx is stationary at x = H⁻¹e.
        """
        pattern = self.pattern
        biases = np.arange(pattern.unknowns - pattern.graph.nodes)
        rhs = np.zeros((pattern.unknowns, pattern.judges))
        rhs[pattern.graph.nodes + biases, biases % pattern.judges] = 1.0
        return self.solve(rhs, accuracy=1e-2)[pattern.graph.nodes + biases, biases % pattern.judges]

    def difference(self, one: int, other: int) -> float:
        """The variance of the difference of two nodes by H⁻¹, from one solution."""
        rhs = np.zeros(self.pattern.unknowns)
        rhs[[one, other]] = 1.0, -1.0
        x = self.solve(rhs)
        return float(x[one] - x[other])


class Tail:
    """The part of H for the contexts from `begin` on, too large for batches of dense matrices."""

    def __init__(self, whole: Laplacian, begin: int) -> None:
        pattern, graph = whole.pattern, whole.pattern.graph
        self.limits, self.kept = pattern.limits, whole.kept
        self.start = int(graph.starts[begin])
        nodes, contexts = graph.nodes - self.start, graph.contexts - begin
        rows = slice(int(pattern.row_starts[self.start]), None)
        biases = np.arange(graph.nodes + begin * pattern.judges, pattern.unknowns)
        self.unknowns: slice | NDArray[np.intp] = slice(self.start, None)
        if pattern.judges:
            self.unknowns = np.concatenate([np.arange(self.start, graph.nodes), biases])
        self.nodes = nodes
        self.is_joined = False  # whether one vector too is multiplied by the joined matrix
        self.thin = False  # whether conjugate gradients have failed to converge
        self.diagonal = whole.diagonal[self.unknowns]
        self.ridge = whole.ridge[self.unknowns]
        self.component = graph.component[self.start :]
        self.half: sparse.coo_array | sparse.csr_array
        second = pattern.second[rows] - self.start if self.start else pattern.second
        if pattern.panelled:
            ends = pattern.first[rows] - self.start, second
            self.half = sparse.coo_array((whole.c[rows], ends), shape=(nodes, nodes))
        else:
            starts = pattern.row_starts[self.start :] - pattern.row_starts[self.start]
            self.half = sparse.csr_array((whole.c[rows], second, starts), shape=(nodes, nodes))
        self.other_half = self.half.T
        own, shape = whole.border[self.start :], (nodes, contexts * pattern.judges)
        row, judge = np.nonzero(own)  # most of many judges have judged few of the texts
        column = (pattern.context[self.start + row] - begin) * pattern.judges + judge
        self.border: sparse.csr_array = sparse.csr_array((own[row, judge], (row, column)), shape=shape)
        self.border_turned = self.border.T

    @property
    def is_full(self) -> bool:
        """Whether so much of H is not 0 that a dense matrix is faster."""
        return self.nodes <= self.limits.exact and DENSE * self.half.nnz > self.nodes**2

    @cached_property
    def joined(self) -> sparse.csr_array | Array:
        """H as one matrix, dense if it `is_full`."""
        return self._joined(self.diagonal)

    def _joined(self, diagonal: Array) -> sparse.csr_array | Array:
        """H with another diagonal (m,)."""
        if self.is_full:
            if self.start not in self.kept:
                half, border = self.half.toarray(), self.border.toarray()
                whole = [[-half - half.T, border], [border.T, np.zeros((border.shape[1],) * 2)]]
                self.kept[self.start] = np.block(whole)
            found = self.kept[self.start].copy()
            found[np.diag_indices_from(found)] = diagonal
            return found
        scores = sparse.diags_array(diagonal[: self.nodes]) - self.half - self.other_half
        biases = sparse.diags_array(diagonal[self.nodes :])
        return sparse.csr_array(sparse.block_array([[scores, self.border], [self.border_turned, biases]]))

    def signs(self, columns: int) -> Array:
        """Random signs, the same at each call: shape (m, columns). E[zᵀMz] = tr M for each column z (Hutchinson)."""
        return np.random.default_rng(0).choice([-1.0, 1.0], (len(self.diagonal), columns))

    def multiply(self, x: Array) -> Array:
        """H·x for x (m,) or (m, q)."""
        if self.is_joined or (x.ndim == 2 and x.shape[1] >= SEVERAL):
            return self.joined @ x
        scores, biases = x[: self.nodes], x[self.nodes :]
        result = (self.diagonal * x.T).T
        result[: self.nodes] -= self.half @ scores + self.other_half @ scores
        if len(biases):
            result[: self.nodes] += self.border @ biases
            result[self.nodes :] += self.border_turned @ scores
        return result

    def solve(self, rhs: Array, accuracy: float) -> Array:
        """H⁻¹·rhs by conjugate gradients, or by a factorisation once they have not converged."""
        x = None if self.thin else self.iterate(rhs, accuracy)
        if x is not None:
            return x
        self.thin = True
        return self.factor.solve(rhs)

    def iterate(self, rhs: Array, accuracy: float) -> Array | None:
        """Conjugate gradients, preconditioned by the diagonal; None where `Limits.gradient_steps` are not enough."""
        self.is_joined = self.is_full and accuracy < ACCURATE
        scale = np.where(self.diagonal > 0, self.diagonal, 1.0)
        x = np.zeros_like(rhs)
        residual = rhs.copy()
        step = (residual.T / scale).T
        direction = step.copy()
        energy = _dot(residual, step)
        goal = accuracy**2 * energy
        for _ in range(self.limits.gradient_steps):
            if np.all(energy <= goal):
                return x
            image = self.multiply(direction)
            length = energy / np.maximum(_dot(direction, image), TINY)
            x += length * direction
            residual -= length * image
            step = (residual.T / scale).T
            before, energy = energy, _dot(residual, step)
            direction *= energy / np.maximum(before, TINY)
            direction += step
        return None

    @cached_property
    def factor(self) -> SuperLU[np.float64]:
        """A sparse factorisation of H; a component without a ridge is grounded at its first node."""
        diagonal = self.diagonal.copy()
        grounded = np.flatnonzero((np.diff(self.component, prepend=-1) > 0) & (self.ridge[: self.nodes] == 0))
        diagonal[grounded] += np.where(diagonal[grounded] > 0, diagonal[grounded], 1.0)
        joined = sparse.csc_array(self._joined(diagonal))
        return splu(joined, permc_spec="MMD_AT_PLUS_A", options={"SymmetricMode": True})


def _dot(a: Array, b: Array) -> Array:
    return np.asarray(np.einsum("i...,i...->...", a, b))
