"""The members of a panel: a fit of each voice, the correlations of their views, copies, and loadings.

A voice's view of candidate i is x_ri = a_r·t_i + u_ri, with the variance v_r = a_r² + τ_r² (that of t is 1). The views
of two voices have the correlation ρ_r·ρ_s, with ρ_r = a_r/√v_r the loading of a voice. The scores of each voice alone
are x̂_r = A_r x_r + noise, A_r = (L_r + 1/v_r)⁻¹L_r, from which that correlation is estimated without bias by

    c_rs = x̂_r·x̂_s / (√(v_r v_s)·tr(A_r A_s)),        Var c_rs ≈ (1 + c_rs²) / tr(A_r A_s),

since the noise of different voices is independent. These are the estimating equations of the restricted likelihood at
the variances of the single voices (MINQUE), and they cost one fit per voice. The loadings minimise

    Σ_{r<s} (c_rs − ρ_r ρ_s)² / Var c_rs + Σ_r (|ρ_r| − e_r)² / `LOADING_SPREAD`²,        e_r = mean |ρ|·h_r / mean h,

where the second sum decides which of two voices is better. h_r is the square root of the voice's content, the share of
one answer that is about the texts: voices with more position bias and noise agree less with people (docs/panel.md).
The mean |ρ| includes `USUAL_LOADING`, for voices with few common answers.

No |ρ| is above 1. The maximum is often at ρ = 1 for one of three voices with a few hundred candidates, which would
make that voice the consensus. The consensus therefore uses the mean of each ρ below 1 given the others, not the mode.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components
from scipy.special import ndtri

from comparo.data.comparisons import Comparisons
from comparo.model.design import PLAIN, Design
from comparo.model.estimators.voice import VoiceModel
from comparo.model.likelihoods.gaussian import censored_moments
from comparo.model.linalg.graph import Graph
from comparo.model.observations import named_voices
from comparo.model.tuning import (
    COPY,
    LEAST_LOADING,
    LIMITS,
    LOADING_SPREAD,
    MOST_LOADING,
    REVERSED,
    SURE_COPY,
    USUAL_LOADING,
    Limits,
)
from comparo.rounding import TINY
from comparo.types import Array, Mask

PROBES = 16  # random vectors for traces, which have a relative error of √(2/(16·n)): 2% for 257 candidates
EXACT = 256  # candidates up to which traces are exact
SAME = 1.0 - 1e-12  # largest correlation of the scores of two voices: Fisher's z stays finite
ROUNDED = 9  # digits in which numbers are compared: differences at rounding level are ties
LOADING_ROUNDS, LOADING_CHANGE = 1000, 1e-7  # most rounds of coordinate updates, and the change that ends them


@dataclass(frozen=True)
class ViewCorrelation:
    """The correlation c (R, R) of the views of R voices, and its effective number of candidates tr(A_r A_s), (R, R).

    `reliability` (R,) is tr(A²)/tr(A), the share of the variance of a voice's scores that is its view.
    """

    correlation: Array
    candidates: Array
    reliability: Array | float = 1.0

    @classmethod
    def of(cls, voices: Sequence[VoiceModel]) -> ViewCorrelation:
        """Estimate the agreement of voices on the same candidates."""
        n = voices[0].pattern.graph.nodes
        if n <= EXACT:
            z = np.eye(n)
        else:
            signs = np.random.default_rng(0).choice([-1.0, 1.0], (n, PROBES))
            z = signs / np.sqrt(PROBES)
        shown = np.array([voice.seen(z).ravel() for voice in voices])
        seen, trace = np.maximum(shown @ shown.T, 1e-9), np.maximum(shown @ z.ravel(), 1e-9)
        scores = np.array([voice.scores / np.sqrt(voice.variance) for voice in voices])
        return cls(scores @ scores.T / seen, seen, np.minimum(np.diag(seen) / trace, 1.0))

    @property
    def precision(self) -> Array:
        """1 / Var c, 0 on the diagonal, shape (R, R)."""
        precision = self.candidates / (1.0 + np.minimum(self.correlation**2, 1.0))
        np.fill_diagonal(precision, 0.0)
        return precision

    def merged(self, family: NDArray[np.intp], sign: Array) -> ViewCorrelation:
        """The agreement of families: the precision-weighted mean over their members, times their `sign` (R,)."""
        count = int(family.max()) + 1
        member = np.eye(count)[family]
        precision, turned = self.precision, self.correlation * np.outer(sign, sign)
        total = member.T @ precision @ member
        mean = np.divide(member.T @ (precision * turned) @ member, total, out=np.ones((count, count)), where=total > 0)
        pairs = member.T @ (precision > 0) @ member
        most = np.divide(member.T @ self.candidates @ member, np.maximum(pairs, 1.0))
        return ViewCorrelation(mean, most)


def copies(agreement: ViewCorrelation) -> NDArray[np.intp]:
    """The family of each voice (R,), numbered from 0: copies share a family.

    They are copies if their views correlate by `COPY` or more, with a 95% interval above `SURE_COPY`: Fisher's interval
    of the correlation r of x̂_r and x̂_s over √(tr A_r·tr A_s) candidates. r is relative to that of equal views,
    tr(A_r A_s)/√(tr A_r·tr A_s). Its error vanishes where views are equal and noise is small; that of c is √(2/n)
    there, since c refers to v in place of the size of the views. A reversed copy counts as a copy. The members of a
    family are all copies of its first voice.

    >>> correlation = np.array([[1, 0.99, 0.5], [0.99, 1, 0.5], [0.5, 0.5, 1]])
    >>> copies(ViewCorrelation(correlation, np.full((3, 3), 20.0)))
    array([0, 0, 1])
    >>> copies(ViewCorrelation(correlation, np.full((3, 3), 3.0)))
    array([0, 1, 2])
    """
    texts = np.diag(agreement.candidates) / np.maximum(agreement.reliability, TINY)
    most = np.maximum(np.sqrt(np.outer(texts, texts)), TINY)
    equal = agreement.candidates / most
    size = np.sqrt(np.diag(agreement.correlation) * agreement.reliability)
    z = np.arctanh(np.minimum(np.abs(agreement.correlation) / np.maximum(np.outer(size, size), TINY) * equal, SAME))
    reach = -float(ndtri(REVERSED)) / np.sqrt(np.maximum(most - 2.0, TINY))
    same = (np.tanh(z) >= COPY * equal) & (np.tanh(z - reach) >= SURE_COPY * equal)
    np.fill_diagonal(same, True)
    family = np.full(len(same), -1)
    for voice in range(len(same)):
        if family[voice] < 0:
            family[(family < 0) & same[voice]] = family.max() + 1
    return family


def signs(agreement: ViewCorrelation, anchored: Mask) -> tuple[Array, Mask]:
    """−1 for each reversed voice and +1 for every other, and which voices are undecided, both (R,).

    A voice is reversed if its correlation with the sum of the others is negative by a one-sided test of level
    `REVERSED`. With t_rs = tr(A_r A_s) and σ the signs, the statistic is

        z_r = σ_r·Σ_s σ_s c_rs t_rs / √(Σ_ss' σ_s σ_s' c_ss' √(t_rs t_rs')),        s, s' ≠ r,  c_ss = 1,

    whose denominator bounds the standard deviation under ρ_r = 0 (by Cauchy–Schwarz; never less than that of
    independent voices). All voices begin with +1; the most significant one changes its sign until none is significant.
    So voices without common candidates, on which there is no evidence, stay positive.

    Voices that significant correlations connect form a block. Only the product of two of its signs is known:
    most voices of a block are positive, and of a tie those whose scores show more, tr(A²), then the first. Anchored
    voices are always positive, and decide for their block. In a tie all voices of the block are undecided: with all
    their signs changed they are as likely.

    >>> correlation = np.array([[1, 0.5, -0.5], [0.5, 1, -0.4], [-0.5, -0.4, 1]])
    >>> signs(ViewCorrelation(correlation, np.full((3, 3), 100.0)), np.zeros(3, dtype=bool))
    (array([ 1.,  1., -1.]), array([False, False, False]))
    >>> signs(ViewCorrelation(correlation, np.full((3, 3), 10.0)), np.zeros(3, dtype=bool))
    (array([1., 1., 1.]), array([False, False, False]))
    >>> signs(ViewCorrelation(correlation[1:, 1:], np.full((2, 2), 100.0)), np.zeros(2, dtype=bool))
    (array([ 1., -1.]), array([ True,  True]))
    """
    c, t, level = np.clip(agreement.correlation, -1.0, 1.0), agreement.candidates.copy(), float(ndtri(REVERSED))
    shown = np.diag(t).copy()
    np.fill_diagonal(c, 1.0)
    np.fill_diagonal(t, 0.0)
    root, sign, undecided = np.sqrt(t), np.ones(len(c)), np.zeros(len(c), dtype=bool)
    linked = np.abs(c) * root > -level
    while True:
        turned = np.outer(sign, sign) * c
        deviation = np.sqrt(np.maximum(np.einsum("rs,st,rt->r", root, turned, root), np.sum(t, axis=1)))
        z = np.where(anchored, 0.0, np.sum(turned * t, axis=1) / np.maximum(deviation, TINY))
        reversed_ = int(np.argmin(z.round(ROUNDED)))
        if z[reversed_] >= level:
            break
        sign[reversed_] *= -1.0
    for block in connected_components(linked, directed=False)[1] == np.arange(len(c))[:, None]:
        most, more = np.sum(sign[block]), float(np.round(sign[block] @ shown[block], ROUNDED))
        if block.any() and not (block & anchored).any():
            undecided |= block & (most == 0)
            sign[block] *= np.copysign(1.0, most or more or sign[block][0])
    return sign, undecided


def loadings(agreement: ViewCorrelation, anchored: Mask, content: Array) -> tuple[Array, Array, Array]:
    """The best ρ of families with aligned signs, the mean of ρ below 1, and its standard error, all (F,).

    `content` (F,) is the content of each family. Anchored families, such as people, have ρ = `MOST_LOADING`.

    >>> three = np.array([[1, 0.72, 0.45], [0.72, 1, 0.4], [0.45, 0.4, 1]])
    >>> best, mean, error = loadings(ViewCorrelation(three, np.full((3, 3), 1e4)), np.zeros(3, dtype=bool), np.ones(3))
    >>> best.round(2), mean.round(2)
    (array([0.9, 0.8, 0.5]), array([0.9, 0.8, 0.5]))
    """
    if len(agreement.correlation) == 1:
        return np.full(1, MOST_LOADING), np.full(1, MOST_LOADING), np.zeros(1)
    precision, c, even = agreement.precision, agreement.correlation, 1.0 / LOADING_SPREAD**2
    mean = np.sum(precision * c) / max(np.sum(precision), TINY)
    height = np.sqrt(content)
    height = height / np.mean(height)

    def settled(below: Callable[[float, float], float]) -> tuple[Array, Array]:
        """Update ρ of each family by `below`(best value, error) given the others, until none changes.

        Also returns ρ without the lower bound, which is negative for a voice that contradicts the others.
        """
        rho = np.where(anchored, MOST_LOADING, np.sqrt(np.clip(mean, LEAST_LOADING**2, MOST_LOADING**2)))
        free = rho.copy()
        for _ in range(LOADING_ROUNDS):
            before = rho.copy()
            for family in np.flatnonzero(~anchored):
                known = np.sum(precision[family] * rho**2) + even
                pulled = float(np.sum(precision[family] * c[family] * rho))
                best = (pulled + even * height[family] * np.mean([*rho, USUAL_LOADING])) / known
                free[family] = below(best, 1.0 / np.sqrt(known))
                rho[family] = max(free[family], LEAST_LOADING)
            if np.max(np.abs(rho - before)) < LOADING_CHANGE:
                break
        return rho, np.maximum(free, -MOST_LOADING)

    rho, best = settled(lambda best, _: min(best, MOST_LOADING))
    error = np.where(anchored, 0.0, 1.0 / np.sqrt(precision @ rho**2 + even))
    loading, _ = settled(_mean_below)
    return best, loading, error


def _mean_below(mean: float, error: float) -> float:
    """The mean of N(mean, error²) below `MOST_LOADING`."""
    turned, variance, least, none = np.array([-mean, error**2, -MOST_LOADING, 0.0])
    return float(-censored_moments(turned, variance, least, none)[0])


@dataclass(frozen=True)
class PanelMembers:
    """R voices, each with a fit of its own, and their loadings on the consensus.

    Parameters
    ----------
    names : The name of each voice, (R,); voices with fewer than `FEW` comparisons are pooled as "others".
    voice : The voice of each comparison, (K,).
    voices : The fit of each voice on its own.
    agreement : The correlation of the views of every two voices.
    family : The family of each voice, numbered from 0, (R,).
    loading, loading_error : The best ρ of each voice, with its sign, and the standard error, (R,).
    shrunk_loading : ρ of each voice in the consensus, (R,): the mean of ρ below 1; negative only for reversed voices.
    anchored : Which voices are people, (R,).
    undecided : Which voices contradict others without a majority, (R,): all their signs may as well be the other way.
    """

    graph: Graph
    names: tuple[Any, ...]
    voice: NDArray[np.intp]
    voices: tuple[VoiceModel, ...]
    agreement: ViewCorrelation
    family: NDArray[np.intp]
    loading: Array
    loading_error: Array
    shrunk_loading: Array
    anchored: Mask
    undecided: Mask

    @property
    def reversed(self) -> Mask:
        """Which voices are significantly reversed: their answers are sign-flipped, (R,)."""
        return (self.shrunk_loading < 0) & ~self.undecided

    def interval(self, level: float) -> tuple[Array, Array]:
        """The lower and upper ends (R,) of the interval of each ρ with coverage `level`."""
        reach = -float(ndtri((1.0 - level) / 2)) * self.loading_error
        low, high = np.maximum(self.loading - reach, -1.0), np.minimum(self.loading + reach, 1.0)
        most = np.where(self.undecided, np.maximum(high, -low), -1.0)
        return np.minimum(low, -most), np.maximum(high, most)

    def only(self, kept: Mask) -> PanelMembers:
        """The members in `kept` (R,), with the same signs; their comparisons must connect all candidates."""
        rows = kept[self.voice]
        graph = replace(self.graph, first=self.graph.first[rows], second=self.graph.second[rows])
        names, voices = (tuple(part[r] for r in np.flatnonzero(kept)) for part in (self.names, self.voices))
        code, sign = (np.cumsum(kept) - 1)[self.voice[rows]], np.where(self.reversed, -1.0, 1.0)
        return _agreeing(graph, names, code, voices, self.anchored[kept], sign[kept])


def fit_members(
    comparisons: Comparisons, design: Design = PLAIN, people: Collection[Any] = (), limits: Limits = LIMITS
) -> PanelMembers:
    """Fit each voice on its own, and estimate their loadings: a panel before its consensus.

    With a control each voice has its own coefficients, estimated within the groups.

    >>> rows = [{"first": a, "second": b, "p": p} for a, b, p in (("a", "b", 0.8), ("b", "a", 0.3), ("b", "c", 0.7))]
    >>> fit_members(Comparisons.from_rows(rows)).names
    ('judge',)
    """
    graph = Graph.build(comparisons)
    names, code = named_voices(comparisons, people)
    voices = []
    for r in range(len(names)):
        own = replace(comparisons.take(code == r), judges=None, judge=None)
        seen = replace(graph, first=graph.first[code == r], second=graph.second[code == r])
        voices.append(VoiceModel.of(own, seen, design, limits))
    return _agreeing(graph, names, code, tuple(voices), np.array([name in people for name in names]))


def _agreeing(
    graph: Graph,
    names: tuple[Any, ...],
    code: NDArray[np.intp],
    voices: tuple[VoiceModel, ...],
    anchored: Mask,
    sign: Array | None = None,
) -> PanelMembers:
    """Estimate agreement, families and loadings; `sign` (R,) gives the signs of the voices if they are known."""
    agreement = ViewCorrelation.of(voices)
    family = copies(agreement)
    undecided = np.zeros(len(family), dtype=bool)
    if sign is None:
        sign, undecided = signs(agreement, anchored)
    of_family = np.array([anchored[family == k].any() for k in range(int(family.max()) + 1)])
    content = np.array([voice.content for voice in voices])
    shown = np.bincount(family, content) / np.bincount(family)
    rho, mean, error = (part[family] for part in loadings(agreement.merged(family, sign), of_family, shown))
    rho, mean = sign * rho, sign * mean
    return PanelMembers(graph, names, code, voices, agreement, family, rho, error, mean, anchored, undecided)
