"""What candidates share, and the solution of the mixed model given its variances."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from comparo.model.control import Control, residual
from comparo.model.inference.newton import Solution
from comparo.model.inference.reml import Variances
from comparo.model.linalg.graph import Graph
from comparo.model.linalg.pattern import Pattern
from comparo.model.linalg.spectrum import System
from comparo.model.posterior import difference_variances
from comparo.types import Array, Index


@dataclass(frozen=True)
class Shared:
    """What candidates share: the `columns` QM (n, M), and which of the `kinds` ("groups", "style") each is, (M,).

    A row of the columns of a kind has the mean square 1, so that ω² is the variance of the scores that it explains.
    Columns of what is held equal (`control`) come first; they are of no kind, −1, and their coefficients have no prior.
    `held` (n, D) are its numbers, centred in components. `group` (n,) is the group of each candidate, where groups are
    among the kinds.
    """

    kinds: tuple[str, ...]
    kind: NDArray[np.intp]
    columns: Array
    group: Index | None = None
    held: Array | None = None

    @classmethod
    def of(
        cls,
        graph: Graph,
        groups: NDArray[np.integer] | None,
        features: Array | None,
        entries: int,
        control: Control | None = None,
    ) -> Shared:
        """Groups are left out if the matrix has more than so many entries, or if no two candidates share one."""
        found = {}
        count = 0 if groups is None else int(groups.max()) + 1
        if groups is not None and 1 < count < graph.nodes and graph.nodes * count <= entries:
            found["groups"] = graph.centre(np.eye(count)[groups])
        group = groups.astype(np.int32) if groups is not None and "groups" in found else None
        flat, held = np.zeros((graph.nodes, 0)), None
        if control is not None:
            flat, held = control.columns(graph, group), graph.centre(control.values)
        if features is not None and features.shape[1]:
            found["style"] = graph.centre(features) if control is None else residual(graph.centre(features), flat)
        columns = np.concatenate([flat, *found.values()], axis=1)
        kind = np.repeat(np.arange(len(found)), [block.shape[1] for block in found.values()])
        return cls(tuple(found), np.concatenate([np.full(flat.shape[1], -1), kind]), columns, group, held)

    @property
    def is_group(self) -> NDArray[np.bool_]:
        """Which of the columns are groups, (M,)."""
        number = self.kinds.index("groups") if "groups" in self.kinds else len(self.kinds)
        return np.asarray(self.kind == number)


def solve(system: System, variances: Variances, shared: Shared) -> tuple[Solution, Array, Array]:
    """Scores and biases at the best variances, with F = λ·H⁻¹QM (n + C·J, M) and Cov(θ)/φ (M, M)."""
    ridge = 1.0 / variances.ratio
    between, theta = variances.precision(variances.ratio)
    laplacian = system.laplacian(ridge)
    columns = np.zeros((system.pattern.unknowns, shared.columns.shape[1]))
    columns[: system.nodes] = system.towards(ridge, shared.columns)
    rhs = np.column_stack([system.rhs, columns])
    found = laplacian.solve(rhs, accuracy=1e-9)
    spread = found[:, 1:]
    return Solution(found[:, 0] + spread @ theta, laplacian, 1, True), spread, between


def differences(solution: Solution, spread: Array, between: Array) -> tuple[Array, Array]:
    """Mean and variance (before φ) of d of every observation, in the pattern's order."""
    pattern = solution.laplacian.pattern
    variance = difference_variances(solution.laplacian)
    if spread.shape[1]:
        columns = apart(pattern, spread)
        variance = variance + np.sum((columns @ between) * columns, axis=1)
    return apart(pattern, solution.x), np.maximum(variance, np.finfo(float).tiny)


def apart(pattern: Pattern, values: Array) -> Array:
    """x_first − x_second − γ of every observation, for scores and biases x (n + C·J,) or columns of them."""
    found = values[pattern.first] - values[pattern.second]
    return np.asarray(found - values[pattern.bias_index] if pattern.judges else found)
