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
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtri

from comparo.data.comparisons import Comparisons
from comparo.model.inference.newton import Maximum, Problem
from comparo.model.inference.random_effects import apart, random_effects
from comparo.model.likelihoods import Expert
from comparo.model.linalg.graph import Graph, Pattern
from comparo.model.linalg.spectrum import System
from comparo.model.tuning import CLEARLY, NEARLY_ALWAYS, POSITION, POSITION_ERROR, SLOTS, SLOTS_ERROR, UNEVEN
from comparo.rounding import TINY
from comparo.types import Array, Index, LongIndex, Mask

WEAK = 1e-6  # ridge on a bias without a shared prior, relative to a curvature of ¼ per comparison
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


@dataclass(frozen=True)
class Biases:
    """γ ~ N(m, τ²) for each context and judge, shape (C·J,), with m and τ² from the data.

    Biases of one judge share m and τ² over the contexts; with a single context, all judges share them. `family` (C·J,)
    numbers the biases with the same m and τ²; `asked` (C·J,) marks biases with comparisons, `shared` (C·J,) those in a
    family with more than one such bias. For γ̂ with variance v, estimated with the ridge φ/τ² towards m, the estimate
    without the ridge is m + (γ̂ − m)·τ²/(τ² − v), with variance vτ²/(τ² − v). These give the next m and τ²
    (`random_effects`). The ridge of the first round keeps the estimate of a judge with few comparisons finite. `usual`
    is the prior variance of m, and of a bias that shares none: where order follows the scores, nothing else tells the
    two apart.
    """

    family: LongIndex
    asked: Mask
    shared: Mask
    mean: Array
    ridge: Array
    usual: float = np.inf

    @classmethod
    def of(cls, pattern: Pattern, common: Array, is_zero: Mask | None = None, usual: float = np.inf) -> Biases:
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
        return cls(family, asked, shared, mean, np.where(zero, ZERO, start), usual)

    def at(self, dispersion: float) -> Biases:
        """The prior with `usual` as the variance of the biases that share none."""
        own = ~self.shared & (self.ridge < ZERO)
        return replace(self, ridge=np.where(own, np.maximum(dispersion / self.usual, WEAK), self.ridge))

    def spread(self, dispersion: float) -> float | None:
        """The mean τ² over the biases that share one; None if no biases do."""
        return float(np.mean(dispersion / self.ridge[self.shared])) if self.shared.any() else None

    def applied(self, problem: Problem, ridge: Array, mean: Array) -> Problem:
        """The problem with this prior on its biases, and `ridge` and `mean` (n,) on its scores."""
        return replace(problem, mean=np.concatenate([mean, self.mean]), ridge=np.concatenate([ridge, self.ridge]))

    def _unshrunk(self, solution: Maximum, dispersion: float) -> tuple[Array, Array]:
        """The estimates without the ridge, and their variance, both (C·J,)."""
        between, n = dispersion / self.ridge, solution.laplacian.pattern.graph.nodes
        variance = np.minimum(dispersion * solution.laplacian.bias_variances, 0.999 * between)
        open_share = 1.0 - variance / between
        return self.mean + (solution.x[n:] - self.mean) / open_share, variance / open_share

    def error(self, solution: Maximum, dispersion: float) -> float:
        """The standard error of the mean of all γ, from a solution and its φ."""
        _, variance = self._unshrunk(solution, dispersion)
        total = variance + np.where(self.shared, dispersion / self.ridge, 0.0)
        return float(1.0 / np.sqrt(np.sum(1.0 / total[self.asked])))

    def learn(self, solution: Maximum, dispersion: float) -> Biases:
        """The next m and τ², from a solution and its φ."""
        between, mean = dispersion / self.ridge, self.mean.copy()
        estimate, variance = self._unshrunk(solution, dispersion)
        for number in np.unique(self.family[self.shared]):
            members = self.family == number
            known = members & self.asked
            members &= self.shared
            centre, between[members] = random_effects(estimate[known], variance[known])
            error = 1.0 / np.sum(1.0 / (variance[known] + between[members][0]))
            mean[members] = centre / (1.0 + error / self.usual)
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


@dataclass(frozen=True)
class Positions:
    """γ of each context and position effect ~ N(mean, 1/ridge), (C·J,), for choices.

    In a single context, the γ of one `family` are N(0, τ²): that of a judge's pairs alone, and those of every two slots
    of its line-ups of one size together. In several contexts, the γ of an effect are N(m, τ²), m ~ N(0, `SLOTS`²); the
    prior of each is what the other contexts say about m. τ is estimated, with log τ ~ N(log `SLOTS`, `SLOTS_ERROR`²)
    or, between contexts, N(log `POSITION`, `POSITION_ERROR`²); where there are no more answers than scores and γ, the
    contexts are taken not to vary. `known` (C·J,) marks γ that are 0: those without choices or left out.
    """

    family: LongIndex
    known: Mask
    mean: Array
    ridge: Array
    varies: bool = True
    between: float | None = None

    @classmethod
    def of(cls, pattern: Pattern, slots: Index, left_out: Mask) -> Positions:
        """The first prior; `slots` (J, 4) are `Comparisons.slots`, and `left_out` (J,) marks effects that are 0."""
        contexts, width = pattern.graph.contexts, pattern.judges
        same = np.arange(width) if contexts > 1 else np.unique(slots[:width, :2], axis=0, return_inverse=True)[1]
        asked = np.bincount(pattern.bias_index, minlength=pattern.unknowns)[pattern.graph.nodes :] > 0
        known = ~asked | np.tile(left_out[:width], contexts)
        ridge = np.where(known, ZERO, 1.0 / SLOTS**2)
        free = pattern.graph.nodes - pattern.graph.components + int(np.count_nonzero(~known))
        varies = bool(np.max(slots[:, 1]) > 2) or len(pattern.order) > free
        return cls(np.tile(same, contexts).astype(np.int64), known, np.zeros(len(known)), ridge, varies)

    def _messages(self, solution: Maximum) -> tuple[Array, Array]:
        """What the choices alone say about each γ: mean and precision (C·J,)."""
        variance = solution.laplacian.bias_variances
        precision = np.maximum(1.0 / variance - self.ridge, TINY)
        x = solution.x[solution.laplacian.pattern.graph.nodes :]
        return (x / variance - self.ridge * self.mean) / precision, precision

    def learn(self, solution: Maximum) -> Positions:
        """The next priors, given the solution with these."""
        mean, variance, spreads = self.mean.copy(), 1.0 / self.ridge, []
        found, precision = self._messages(solution)
        has_mean = solution.laplacian.pattern.graph.contexts > 1
        shared, usual = (SLOTS**2, (POSITION, POSITION_ERROR)) if has_mean else (0.0, (SLOTS, SLOTS_ERROR))
        for number in np.unique(self.family[~self.known]):
            own = np.flatnonzero((self.family == number) & ~self.known)
            x, v = found[own], 1.0 / precision[own]
            spread = _spread(x, v, shared, *usual) if self.varies or not has_mean else SPREADS[0] ** 2
            share = 1.0 / (v + spread)
            others = shared / (1.0 + shared * (np.sum(share) - share))  # the variance of m by all other contexts
            mean[own], variance[own] = others * (np.sum(share * x) - share * x), spread + others
            spreads.append(spread)
        return replace(self, mean=mean, ridge=1.0 / variance, between=float(np.mean(spreads)) if has_mean else None)

    def distance(self, other: Positions) -> float:
        """The largest change of a prior: of its mean in standard deviations, or of the logarithm of its variance."""
        moved = np.abs(self.mean - other.mean) * np.sqrt(self.ridge)
        return float(np.max(np.maximum(moved, np.abs(np.log(self.ridge / other.ridge)))))

    def error(self, solution: Maximum) -> float:
        """The standard error of the mean of all γ."""
        precision = self._messages(solution)[1]
        each = 1.0 / (1.0 / precision + (self.between or 0.0))
        total = float(np.sum(each[~self.known])) + 1.0 / SLOTS**2
        return float(1.0 / np.sqrt(total))


SPREADS = np.exp(np.linspace(np.log(0.01), np.log(10.0), 60))  # grid of τ


def _spread(x: Array, v: Array, shared: float, usual: float, error: float) -> float:
    """The posterior mean of τ² for values x ~ N(m, v + τ²), m ~ N(0, shared), log τ ~ N(log usual, error²).

    >>> bool(0.9 < _spread(np.array([-1.0, 1.0] * 50), np.full(100, 1e-3), 0.0, 1.0, 1.0) < 1.1)
    True
    """
    total = v + SPREADS[:, None] ** 2
    share = 1.0 / total
    known, pulled = np.sum(share, axis=1), np.sum(share * x, axis=1)
    square = np.sum(share * x**2, axis=1) - shared * pulled**2 / (1.0 + shared * known)
    height = -0.5 * (np.sum(np.log(total), axis=1) + np.log1p(shared * known) + square)
    height -= 0.5 * (np.log(SPREADS / usual) / error) ** 2
    chance = np.exp(height - np.max(height))
    return float(chance @ SPREADS**2 / np.sum(chance))


def winners_first(comparisons: Comparisons, effect: Index) -> Mask:
    """The position effects (J,) about which order says nothing, because the winner is nearly always named first.

    `effect` (K,) numbers them.

    They are those where the first wins at least `NEARLY_ALWAYS` of the decisions, and texts are shown first more
    unevenly than by chance: with f of its m choices shown first, Σ (2f − m)²/m is about n ± √(2n) over n texts.

    >>> rows = [("a", "b", 1.0)] * 20
    >>> many = [Comparisons.from_rows(rows + more) for more in ([], [("b", "a", 1.0)] * 20)]
    >>> [winners_first(data, data.positions).tolist() for data in many]
    [[True], [False]]
    """
    weight, effects = comparisons.weights, int(effect.max()) + 1
    total, won = (np.bincount(effect, of, effects) for of in (weight, weight * (comparisons.p > 0.5)))
    found = np.asarray(won >= NEARLY_ALWAYS * total)
    if not found.any():
        return found
    found &= np.bincount(effect, comparisons.slots[comparisons.positions, 1] > 2, effects) == 0
    place = effect.astype(np.int64)
    if comparisons.contexts is not None and comparisons.context is not None:
        place = place * len(comparisons.contexts) + comparisons.context
    place = place * len(comparisons.items)
    key, text = np.unique(np.append(place + comparisons.first, place + comparisons.second), return_inverse=True)
    uneven, times = (np.bincount(text, np.append(weight, way * weight)) for way in (-1.0, 1.0))
    own = np.zeros(len(key), dtype=np.intp)
    own[text] = np.tile(effect, 2)
    square = np.bincount(own, uneven**2 / np.maximum(times, TINY), effects)
    texts = np.bincount(own, minlength=effects)
    return np.asarray(found & (square > texts + UNEVEN * np.sqrt(2.0 * texts)))
