"""How much of what is left of soft answers reaches the scores, where every pair was asked in one order only.

With position effects e of single texts, y = X x − |B| e + noise, X the matrix of scores and biases and |B| (M, n) that
of both texts of each observation; Var(e) = ω², Var(noise) = φ/W. Asked in both orders, e cancels. In one order it is
part of what is left of y, but mostly not of the scores: a text that is shown first as often as second gains in one half
of its comparisons what it loses in the other. With the residuals r of least squares, P their projection and

    T = |B|ᵀW(I − P)|B|,    f = M − rank X,

    E rᵀWr = φ·f + ω²·tr T,    E ‖|B|ᵀWr‖² = φ·tr T + ω²·tr T²

give φ and ω². What is left has the variance φ + ω²·tr T / f per degree of freedom. What reaches the scores, given the
biases, is φ + ω²·(tr |B|ᵀW|B| − tr T − tr |B|ᵀWP_γ|B|)/(n − components), the mean over all directions, with P_γ the
projection on the biases.

How much choices tell about a position bias γ while the scores are not known either.

A text that was only shown first and was chosen may be better, or the judge may favour the first. Of the pairs of a
context and judge, with c the precision of the choices about each and l = (n₁ − n₂)/(n₁ + n₂) how far its n₁ and n₂
choices in the two orders lean to one, the scores follow γ by Σ c·l·d. So the precision of γ is not Σ c, as if the
scores were known, but Σ c − Var(Σ c·l·d), with the posterior variance of the differences d. Pairs asked in both orders
have l = 0.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from comparo.model.inference.newton import Solution
from comparo.model.inference.solution import apart
from comparo.model.linalg.spectrum import System
from comparo.types import Array, Index

CLEARLY = 0.95  # probability that noise alone is not taken for position effects of texts, in one order or both
WEAK = 1e-9  # ridge relative to a comparison, for texts without observations that are used
ACCURACY = 1e-4  # of the residuals: far below the error of a variance


def reach(system: System, used: NDArray[np.bool_]) -> float:
    """The variance that reaches the scores, as a share of what is left; 1 where no effect of texts is clear.

    Only the observations in `used` (M,) count. T is known exactly where contexts have at most `Limits.batched` items,
    and by random signs above.

    >>> from comparo.data.comparisons import Comparisons
    >>> from comparo.model.linalg.graph import Graph
    >>> from comparo.model.linalg.pattern import Pattern
    >>> rng = np.random.default_rng(0)
    >>> rows = [(i, j, 0.5) if (i + j) % 2 else (j, i, 0.5) for i in range(40) for j in range(i)]
    >>> graph = Graph.build(Comparisons.from_rows(rows))
    >>> pattern = Pattern(graph)
    >>> effect, noise = rng.standard_normal(40), rng.standard_normal(len(rows))
    >>> both = effect[pattern.first] + effect[pattern.second]
    >>> systems = [System(pattern, np.ones(len(rows)), y, np.zeros(0), np.zeros(0)) for y in (noise, noise + both)]
    >>> found = [reach(system, np.ones(len(rows), dtype=bool)) for system in systems]
    >>> found[0], 0.5 < found[1] < 0.8
    (1.0, True)
    """
    system = replace(system, c=np.where(used, system.c, 0.0), pull=np.where(used, system.pull, 0.0))
    pattern, c, n = system.pattern, system.c, system.nodes
    graph, laplacian = pattern.graph, system.laplacian(WEAK * float(np.mean(system.c)))

    def both(values: Array) -> Array:
        """|B|ᵀ·values, (n,)."""
        first, second = pattern.ends(values)
        return np.asarray((first + second)[:n])

    biases, by_bias = _biases(system)
    rank = n - graph.components
    freedom = int(np.count_nonzero(c)) - rank - biases
    if freedom < 1:
        return 1.0
    probes, share = _probes(system)
    shown = probes[pattern.first] + probes[pattern.second]
    rhs = np.column_stack([system.rhs, *(pattern.gather(c * column) for column in shown.T)])
    fitted = apart(pattern, laplacian.solve(rhs, accuracy=ACCURACY))
    left = system.pull / np.maximum(c, np.finfo(float).tiny) - fitted[:, 0]
    square, effects = float(np.sum(c * left**2)), float(np.sum(both(c * left) ** 2))
    reached = share * float(np.sum(c[:, None] * shown * (fitted[:, 1:] - _by_bias(system, shown))))
    trace = 2.0 * float(np.sum(c)) - reached - by_bias
    second = share * sum(float(np.sum(both(c * column) ** 2)) for column in (shown - fitted[:, 1:]).T)
    total = square / freedom
    clear = second - trace**2 / freedom
    excess = effects - total * trace
    if clear <= 0 or excess < ndtri(CLEARLY) * total * np.sqrt(2.0 * clear):
        return 1.0
    variance = min(excess / clear, square / trace)
    noise = max(total - variance * trace / freedom, 0.0)
    return min((noise + variance * reached / rank) / total, 1.0)


def _biases(system: System) -> tuple[int, float]:
    """How many biases there are, and tr |B|ᵀWP_γ|B| = Σ (Σ W of a text)² / Σ W over the texts of each bias."""
    pattern, c, width = system.pattern, system.c, system.pattern.judges
    if pattern.judge is None:
        return 0, 0.0
    texts = np.zeros(system.nodes * width)
    for node in (pattern.first, pattern.second):
        texts += np.bincount(node.astype(np.int64) * width + pattern.judge, c, len(texts))
    bias = (pattern.context[: system.nodes, None] * width + np.arange(width)).ravel()
    squares, sums = np.bincount(bias, texts**2), 0.5 * np.bincount(bias, texts)
    return int(np.count_nonzero(sums)), float(np.sum(squares[sums > 0] / sums[sums > 0]))


def _by_bias(system: System, values: Array) -> Array:
    """P_γ·values (M, q): the mean of the values with the same bias."""
    pattern, c = system.pattern, system.c
    if pattern.judge is None:
        return np.zeros_like(values)
    total = np.maximum(np.bincount(pattern.bias_index, c), np.finfo(float).tiny)
    sums = [np.bincount(pattern.bias_index, c * column) for column in values.T]
    return np.asarray((np.array(sums) / total).T[pattern.bias_index])


def _probes(system: System) -> tuple[Array, float]:
    """Columns z (n, q), and the share with which share·Σ zᵀAz is the trace of a matrix A whose contexts do not mix.

    Each column is the same place in every context, which is exact; in large contexts they are random signs.
    """
    pattern, limits = system.pattern, system.pattern.limits
    starts = pattern.graph.starts
    largest = int(np.max(np.diff(starts)))
    if largest <= limits.batched:
        place = np.arange(system.nodes) - starts[pattern.graph.position]
        return (place[:, None] == np.arange(largest)).astype(float), 1.0
    count = limits.determinant_probes
    return np.random.default_rng(0).choice([-1.0, 1.0], (system.nodes, count)), 1.0 / count


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
