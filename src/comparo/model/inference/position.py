"""The position bias γ: one number per judge, or one per context and judge with a shared mean and variance.

Pairs that were asked in both orders separate the effect of position from that of the texts (`observations`).

`leaked_share`. With position effects e of single texts, y = X x − |B| e + noise, X the matrix of scores and biases and
|B| (M, n) the incidence of both texts of each observation; Var(e) = ω², Var(noise) = φ/W. In both orders, e cancels. In
one order, e is part of the residuals but hardly of the scores: a text shown first as often as second gains in one half
of its comparisons what it loses in the other. With the residuals r of least squares, P the projection on X and

    T = |B|ᵀW(I − P)|B|,    f = M − rank X,

    E rᵀWr = φ·f + ω²·tr T,    E ‖|B|ᵀWr‖² = φ·tr T + ω²·tr T²

give φ and ω². The residuals have the variance φ + ω²·tr T / f per degree of freedom. The part that reaches the scores,
given the biases, is φ + ω²·(tr |B|ᵀW|B| − tr T − tr |B|ᵀWP_γ|B|)/(n − components), the mean over all directions, with
P_γ the projection on the biases.

`information_share`. If a text is chosen and was only shown first, it may be better, or the judge may favour the first.
For a pair, c is the precision of its choices and l = (n₁ − n₂)/(n₁ + n₂) the imbalance of its n₁ and n₂ choices in the
two orders; the cross-information of γ and the scores d of a context and judge is Σ c·l·d. With known scores the
precision of γ is Σ c; with unknown scores it is Σ c − Var(Σ c·l·d), by the posterior variance of d. Pairs asked equally
often in both orders have l = 0. For the k slots of a line-up, A = Σ c·ffᵀ takes the place of Σ c, with f = −1 and 1 at
the slots of a row, and Σ c·l·d·f that of Σ c·l·d; the share is the mean over the k − 1 directions of A.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import scipy
from scipy.special import ndtri

from comparo.data.comparisons import Comparisons
from comparo.model.inference.newton import Problem, Solution
from comparo.model.inference.random_effects import apart, random_effects
from comparo.model.likelihoods import Expert
from comparo.model.linalg.graph import Graph, Pattern
from comparo.model.linalg.laplacian import Laplacian
from comparo.model.linalg.spectrum import System
from comparo.model.tuning import CLEARLY, LEAST_SHARE, SLOTS
from comparo.rounding import TINY
from comparo.types import Array, Index, LongIndex, Mask

WEAK = 1e-6  # ridge on a bias without a shared prior, relative to a curvature of ¼ per comparison
LEAST_SPREAD = 1e-4  # variance of slot effects between contexts below which it counts as 0: (0.01 logits)²
ZERO = 1e9  # ridge on a bias that is known to be 0


def plug_in(expert: Expert, comparisons: Comparisons) -> Array:
    """γ of each judge (J,) as if all texts were equal: the root of Σ w·slope(−γ; p).

    For Bradley–Terry γ is −logit(mean p); for the linear Gaussian, γ makes β the mean p.
    """
    # A graph of two nodes per judge: its only unknown, the difference of their scores, is −γ.
    judge = comparisons.positions
    nodes = np.arange(2 * (int(judge.max()) + 1), dtype=np.int32)
    starts = np.arange(0, len(nodes) + 1, 2)
    own = nodes // 2
    graph = Graph(nodes, own, starts, own, 2 * judge, 2 * judge + 1)
    problem = Problem.of(Pattern(graph), expert, comparisons, np.full(len(nodes), 1e-9))
    x = problem.maximise(np.zeros(len(nodes))).x
    return x[1::2] - x[::2]


def bias_variances(laplacian: Laplacian) -> Array:
    """The diagonal of H⁻¹ at the biases, shape (C·J,), by J solutions, because H is block-diagonal by context."""
    pattern = laplacian.pattern
    biases = np.arange(pattern.unknowns - pattern.graph.nodes)
    rhs = np.zeros((pattern.unknowns, pattern.judges))
    rhs[pattern.graph.nodes + biases, biases % pattern.judges] = 1.0
    return laplacian.solve(rhs, accuracy=1e-4)[pattern.graph.nodes + biases, biases % pattern.judges]


@dataclass(frozen=True)
class Biases:
    """γ ~ N(m, τ²) for each context and judge, shape (C·J,), with m and τ² from the data.

    Biases of one judge share m and τ² over the contexts; with a single context, all judges share them. `family` (C·J,)
    numbers the biases with the same m and τ²; `asked` (C·J,) marks biases with comparisons, `shared` (C·J,) those in a
    family with more than one such bias. For γ̂ with variance v, estimated with the ridge φ/τ² towards m, the estimate
    without the ridge is m + (γ̂ − m)·τ²/(τ² − v), with variance vτ²/(τ² − v). These give the next m and τ²
    (`random_effects`). The ridge of the first round keeps the estimate of a judge with few comparisons finite.
    """

    family: LongIndex
    asked: Mask
    shared: Mask
    mean: Array
    ridge: Array

    @classmethod
    def of(cls, pattern: Pattern, common: Array, is_zero: Mask | None = None) -> Biases:
        """The first prior: each judge's `common` γ over all contexts (J,) as m.

        `is_zero` (J,) marks γ that are known to be 0; where it is given, the prior of all others is flat at first.
        """
        contexts, width = pattern.graph.contexts, pattern.judges
        family = np.tile(np.arange(width), contexts) if contexts > 1 else np.zeros(width, dtype=np.int64)
        asked = np.bincount(pattern.bias_index, minlength=pattern.unknowns)[pattern.graph.nodes :] > 0
        zero = np.tile(np.zeros(width, dtype=bool) if is_zero is None else is_zero, contexts)
        asked &= ~zero
        shared = (np.bincount(family[asked], minlength=int(family.max()) + 1) > 1)[family] & ~zero
        start = np.where(shared & (is_zero is None), 1.0, WEAK)
        mean = np.where(shared, np.tile(common, contexts), 0.0)
        return cls(family, asked, shared, mean, np.where(zero, ZERO, start))

    def spread(self, dispersion: float) -> float | None:
        """The mean τ² over the biases that share one; None if no biases do."""
        return float(np.mean(dispersion / self.ridge[self.shared])) if self.shared.any() else None

    def applied(self, problem: Problem, ridge: Array, mean: Array) -> Problem:
        """The problem with this prior on its biases, and `ridge` and `mean` (n,) on its scores."""
        return replace(problem, mean=np.concatenate([mean, self.mean]), ridge=np.concatenate([ridge, self.ridge]))

    def _unshrunk(self, solution: Solution, dispersion: float) -> tuple[Array, Array]:
        """The estimates without the ridge, and their variance, both (C·J,)."""
        between, n = dispersion / self.ridge, solution.laplacian.pattern.graph.nodes
        variance = np.minimum(dispersion * bias_variances(solution.laplacian), 0.999 * between)
        open_share = 1.0 - variance / between
        return self.mean + (solution.x[n:] - self.mean) / open_share, variance / open_share

    def error(self, solution: Solution, dispersion: float) -> float:
        """The standard error of the mean of all γ, from a solution and its φ."""
        _, variance = self._unshrunk(solution, dispersion)
        total = variance + np.where(self.shared, dispersion / self.ridge, 0.0)
        return float(1.0 / np.sqrt(np.sum(1.0 / total[self.asked])))

    def learn(self, solution: Solution, dispersion: float) -> Biases:
        """The next m and τ², from a solution and its φ."""
        between, mean = dispersion / self.ridge, self.mean.copy()
        estimate, variance = self._unshrunk(solution, dispersion)
        for number in np.unique(self.family[self.shared]):
            members = self.family == number
            known = members & self.asked
            members &= self.shared
            mean[members], between[members] = random_effects(estimate[known], variance[known])
        return replace(self, mean=mean, ridge=np.where(self.shared, dispersion / between, self.ridge))


LEAST_RIDGE = 1e-9  # ridge relative to a comparison, for texts without used observations
ACCURACY = 1e-4  # of the residuals: far below the error of a variance


def leaked_share(system: System, used: Mask) -> float:
    """The share of the residual variance that reaches the scores; 1 unless position effects of texts are significant.

    Only the observations in `used` (M,) count. T is exact where all contexts have at most `Limits.batched` items, and
    else estimated by random signs.

    >>> from comparo.data.comparisons import Comparisons
    >>> from comparo.model.linalg.graph import Graph
    >>> from comparo.model.linalg.graph import Pattern
    >>> rng = np.random.default_rng(0)
    >>> rows = [(i, j, 0.5) if (i + j) % 2 else (j, i, 0.5) for i in range(40) for j in range(i)]
    >>> graph = Graph.build(Comparisons.from_rows(rows))
    >>> pattern = Pattern(graph)
    >>> effect, noise = rng.standard_normal(40), rng.standard_normal(len(rows))
    >>> both = effect[pattern.first] + effect[pattern.second]
    >>> systems = [System(pattern, np.ones(len(rows)), y) for y in (noise, noise + both)]
    >>> found = [leaked_share(system, np.ones(len(rows), dtype=bool)) for system in systems]
    >>> found[0], 0.5 < found[1] < 0.8
    (1.0, True)
    """
    system = replace(system, c=np.where(used, system.c, 0.0), pull=np.where(used, system.pull, 0.0))
    pattern, c, n = system.pattern, system.c, system.nodes
    graph, laplacian = pattern.graph, system.laplacian(LEAST_RIDGE * float(np.mean(system.c)))

    def both(values: Array) -> Array:
        """|B|ᵀ·values, (n,)."""
        first, second = pattern.ends(values)
        return (first + second)[:n]

    biases = 0 if pattern.judge is None else int(np.count_nonzero(np.bincount(pattern.bias_index, c)))
    rank = n - graph.components
    freedom = int(np.count_nonzero(c)) - rank - biases
    if freedom < 1:
        return 1.0
    probes, share = _probes(system)
    shown = probes[pattern.first] + probes[pattern.second]
    sums = [pattern.gather(c * column) for column in shown.T]
    rhs = np.column_stack([system.rhs, *sums])
    fitted = apart(pattern, laplacian.solve(rhs, accuracy=ACCURACY))
    left = system.pull / np.maximum(c, TINY) - fitted[:, 0]
    square = float(np.sum(c * left**2))
    effects = float(np.sum(both(c * left) ** 2))
    follow = fitted[:, 1:]
    reached = share * np.sum(c[:, None] * shown * (follow - _by_bias(system, shown)))
    trace = 2.0 * np.sum(c) - share * np.sum(c[:, None] * shown * follow)
    second = share * sum(float(np.sum(both(c * column) ** 2)) for column in (shown - follow).T)
    total = square / freedom
    clear = second - trace**2 / freedom
    excess = effects - total * trace
    if clear <= 0 or excess < ndtri(CLEARLY) * total * np.sqrt(2.0 * clear):
        return 1.0
    variance = min(excess / clear, square / trace)
    noise = max(total - variance * trace / freedom, 0.0)
    return float(min((noise + variance * reached / rank) / total, 1.0))


def _by_bias(system: System, values: Array) -> Array:
    """P_γ·values (M, q): the weighted mean of the values of observations with the same bias."""
    pattern, c = system.pattern, system.c
    if pattern.judge is None:
        return np.zeros_like(values)
    total = np.maximum(np.bincount(pattern.bias_index, c), TINY)
    sums = [np.bincount(pattern.bias_index, c * column) for column in values.T]
    return (np.array(sums) / total).T[pattern.bias_index]


def _probes(system: System) -> tuple[Array, float]:
    """Columns z (n, q) and a factor with tr A = factor·Σ zᵀAz for matrices A that are block-diagonal by context.

    Each column marks one place in every context, which is exact; with large contexts, columns are random signs.
    """
    pattern, limits = system.pattern, system.pattern.limits
    starts = pattern.graph.starts
    largest = int(np.max(np.diff(starts)))
    if largest <= limits.batched:
        place = np.arange(system.nodes) - starts[pattern.graph.position]
        return (place[:, None] == np.arange(largest)).astype(float), 1.0
    count = limits.determinant_probes
    return np.random.default_rng(0).choice([-1.0, 1.0], (system.nodes, count)), 1.0 / count


def slot_effects(slots: Index, gamma: Array, information: Array, excess: Array) -> tuple[Array, Array, Array, Array]:
    """Make a Newton step for the effects e of the slots of line-ups, one e per context.

    γ_ab = e_b − e_a for the slots a and b of a line-up of k texts. A context has the information A (k, k) about its e
    and the right-hand side r = A·e − slope. With e ~ N(ē, τ²·I) over contexts, r ~ N(A·ē, A + τ²·A²), and τ² maximises
    the restricted likelihood of r; ē has the prior `SLOTS`.

    `slots` (J, 4) are `Comparisons.slots`; `gamma`, the `information` about each, and the `excess` of texts in the
    lower slot that were chosen are (C, J). Returns γ and its variance (C, J), its variance between contexts (J,), and
    the variance of its mean (J,); for pairs, γ is unchanged and the variances are 0.

    >>> slots = np.array([[0, 3, 0, 1], [0, 3, 0, 2], [0, 3, 1, 2]], dtype=np.int32)
    >>> known = np.full((1, 3), 1e6)
    >>> found, variance, *_ = slot_effects(slots, np.zeros((1, 3)), known, -known * [1.0, 2.0, 4.0])
    >>> found.round(3), (known * variance).round(3)
    (array([[0., 3., 3.]]), array([[0.667, 0.667, 0.667]]))
    """
    found, (between, error) = gamma.copy(), np.zeros((2, len(slots)))
    variance, pull = np.zeros_like(gamma), information * gamma - excess
    for judge, size in np.unique(slots[slots[:, 1] > 2, :2], axis=0).tolist():
        own = np.flatnonzero((slots[:, 0] == judge) & (slots[:, 1] == size))
        ends = np.eye(size)[slots[own, 3]] - np.eye(size)[slots[own, 2]]
        known, said = np.einsum("cj,ja,jb->cab", information[:, own], ends, ends), pull[:, own] @ ends
        given, spread = partial(_slots_given, known, said, ends.T @ ends / SLOTS**2), 0.0
        if len(gamma) > 1 and given(LEAST_SPREAD)[-1] > 0.0:
            spread = SLOTS**2
            if given(spread)[-1] <= 0.0:
                spread = float(scipy.optimize.brentq(lambda x, given=given: given(x)[-1], LEAST_SPREAD, spread))
        shrink, mean, covariance, left, _ = given(spread)
        found[:, own] = (mean + spread * left) @ ends.T
        variance[:, own] = np.einsum("ja,cab,jb->cj", ends, spread * shrink + shrink @ covariance @ shrink, ends)
        between[own], error[own] = 2.0 * spread, np.einsum("ja,ab,jb->j", ends, covariance, ends)
    return found, variance, between, error


def _slots_given(known: Array, said: Array, prior: Array, spread: float) -> tuple[Array, Array, Array, Array, float]:
    """(I + τ²A)⁻¹, ē and its covariance, (I + τ²A)⁻¹(r − A·ē), and the slope of the likelihood in τ²."""
    shrink = np.linalg.inv(np.eye(len(prior)) + spread * known)
    weight = shrink @ known
    covariance = np.linalg.pinv(np.sum(weight, axis=0) + prior, rcond=1e-9, hermitian=True)
    mean = covariance @ np.einsum("cab,cb->a", shrink, said)
    left = np.einsum("cab,cb->ca", shrink, said - known @ mean)
    expected = np.einsum("caa->", weight) - np.einsum("ab,cbd,cda->", covariance, weight, weight)
    slope = float(np.sum(left**2) - expected)
    return np.asarray(shrink), np.asarray(mean), np.asarray(covariance), np.asarray(left), slope


def information_share(
    solution: Solution, spread: Array, between: Array, c: Array, weight: Array, family: Index, slots: Index
) -> Array:
    """1 − tr[A⁻¹·Cov(Σ c·l·d)]/(k − 1) of every context and position effect, (C, J).

    `solution`, `spread` and `between` are those of `random_effects.solve`. For each pair, `c` (M,) is its precision,
    `weight` (2, M) its choices in both orders, and `family` (M,) its context and position effect. `slots` (J, 4) are
    `Comparisons.slots`. All effects of the slots of a line-up of k texts have the same share; a pair is k = 2.
    """
    pattern, judges = solution.laplacian.pattern, len(slots)
    share = np.ones((pattern.graph.contexts, judges))
    leaning = c * (weight[0] - weight[1]) / np.maximum(np.sum(weight, axis=0), TINY)
    if not leaning.any():
        return share
    context, effect = np.divmod(family, judges)
    groups, group = np.unique(slots[:, :2], axis=0, return_inverse=True)
    begin = np.concatenate([[0], np.cumsum(groups[:, 1] - 1)])
    ends = np.zeros((judges, begin[-1]))  # without the first slot, whose effect is 0
    for column, sign in ((2, -1.0), (3, 1.0)):
        later = np.flatnonzero(slots[:, column] > 0)
        ends[later, begin[group[later]] + slots[later, column] - 1] = sign
    columns = leaning[:, None] * ends[effect]
    sums = np.column_stack([pattern.gather(column) for column in columns.T])
    follow = apart(pattern, solution.laplacian.solve(sums, accuracy=1e-3))
    total = np.bincount(family, c, share.size).reshape(share.shape)

    def by_context(values: Array) -> Array:
        return np.column_stack([np.bincount(context, column, len(share)) for column in values.T])

    for number, size in enumerate(groups[:, 1].tolist()):
        own, mine = group == number, slice(begin[number], begin[number + 1])
        inside = columns[:, mine]
        variance = np.stack([by_context(inside * part[:, None]) for part in follow[:, mine].T], axis=2)
        if spread.shape[1]:
            moved = apart(pattern, spread)
            parts = np.stack([by_context(column[:, None] * moved) for column in inside.T], axis=1)
            variance = variance + parts @ between @ parts.transpose(0, 2, 1)
        known = np.einsum("cj,ja,jb->cab", total[:, own], ends[own, mine], ends[own, mine])
        inverse = np.linalg.pinv(known, rcond=1e-9, hermitian=True)
        lost = np.einsum("cab,cba->c", inverse, variance) / (size - 1)
        share[:, own] = np.clip(1.0 - lost, LEAST_SHARE, 1.0)[:, None]
    return share
