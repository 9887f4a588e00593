"""How much choices tell about a position bias γ while the scores are not known either.

A text that was only shown first and was chosen may be better, or the judge may favour the first. Of the pairs of a
context and judge, with c the precision of the choices about each and l = (n₁ − n₂)/(n₁ + n₂) how far its n₁ and n₂
choices in the two orders lean to one, the scores follow γ by Σ c·l·d. So the precision of γ is not Σ c, as if the
scores were known, but Σ c − Var(Σ c·l·d), with the posterior variance of the differences d. Pairs asked in both orders
have l = 0.
"""

from __future__ import annotations

import numpy as np

from comparo.model.newton import Solution
from comparo.model.shared import apart
from comparo.types import Array, Index

LEAST = 0.01  # share: choices that say nothing else would make any γ possible


def told_share(
    solution: Solution, spread: Array, between: Array, c: Array, weight: Array, family: Index, shape: tuple[int, int]
) -> Array:
    """1 − Var(Σ c·l·d) / Σ c of every context and judge, of this `shape` (C, J).

    `solution`, `spread` and `between` are those of the scores (`shared.solve`); `c` (M,), the choices `weight` (2, M)
    in both orders and `family` (M,), context and judge, are those of each pair.
    """
    pattern, judges = solution.laplacian.pattern, shape[1]
    leaning = c * (weight[0] - weight[1]) / np.maximum(np.sum(weight, axis=0), np.finfo(float).tiny)
    if not leaning.any():
        return np.ones(shape)
    own = np.where(family[:, None] % judges == np.arange(judges), leaning[:, None], 0.0)
    sums = np.column_stack([pattern.gather(column) for column in own.T])
    follow = np.sum(own * apart(pattern, solution.laplacian.solve(sums, accuracy=1e-3)), axis=1)
    variance, total = (np.bincount(family, values, shape[0] * judges) for values in (follow, c))
    if spread.shape[1]:
        parts = np.array([np.bincount(family, leaning * column, len(total)) for column in apart(pattern, spread).T])
        variance = variance + np.sum(parts * (between @ parts), axis=0)
    share = 1.0 - variance / np.maximum(total, np.finfo(float).tiny)
    return np.clip(share, LEAST, 1.0).reshape(shape)
