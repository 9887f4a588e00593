"""Whether a voice reads the texts, and whether it reads more than another: statistics of answers, without a model.

The answers of a coin do not depend on the texts, so that every permutation of them over the questions is equally
probable. Let v_ka be what answer k gives to the text in its slot a, less the mean of that slot in its context
(y/2 and −y/2 for a pair and an answer y in logits). A text has the total s_i = Σ v_ka, and

    T = Σ_i s_i² + 2·(Σ_i s_i·S_i)² / Σ_i S_i²

is large where a voice says the same in both orders, of a text in several pairs, or as voices of other judges, whose
totals add up to S. It is compared with T of permuted answers, and with T of a reader, whose answers are √½ times
permuted ones plus √½·σ times normal scores of the texts, σ² the variance of v (docs/measurements/panel.md).

For voices that were asked pairs in both orders, with the answers y and y′ in logits, atanh of −corr(y, y′) is

    g = ½·log(Σ z² / Σ w²),    z = (y − y′)/2,    w = (y + y′)/2 less its mean.

The variance of a difference of two g is that of a sum over pairs of which any two that share a text may be correlated,
as in `comparo.analysis.judge_votes`.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import logit, stdtrit

from comparo.data.comparisons import Comparisons
from comparo.model.linalg.graph import Graph
from comparo.ranking.self_consistency import CLIPPED
from comparo.rounding import TIES, TINY
from comparo.types import Array, Mask

LEVEL = 0.05  # share of coins that are taken for readers, and of readers that are taken for coins
DRAWS = 1000  # permutations: the standard error of a p-value of 0.05 is 0.007
READER = 0.5  # share of the variance of a reader's answers that is about the texts
SHARED = 2.0  # weight of what other voices say
DIGITS = 9  # of v: a voice that always answers the same has 0, not rounding errors
Codes = NDArray[np.integer]


def reading(
    comparisons: Comparisons, voice: Codes, judges: Sequence[Hashable], rng: np.random.Generator
) -> tuple[Mask, Mask, Array]:
    """Test whether R voices read; `voice` (K,) numbers those of the comparisons, `judges` (R,) names their judges.

    Voices of one judge may share its noise, and do not confirm each other.

    Returns
    -------
    reads : Voices that are no coins, by p-values adjusted for R voices (Benjamini and Hochberg 1995), (R,).
    is_open : Other voices that show no less than a reader, half of whose answers' variance is about texts, (R,).
    growth : How many times as many pairs tell a coin from that reader, with 5% of errors either way, (R,).

    >>> rng = np.random.default_rng(0)
    >>> i, j = np.array([(i, j) for i in range(7) for j in range(7) if i != j]).T
    >>> y = np.concatenate([j - i, np.zeros(42)]) + rng.standard_normal(84)
    >>> data = Comparisons.from_columns(np.tile(i, 2), np.tile(j, 2), 1 / (1 + np.exp(y)))
    >>> reading(data, np.repeat([0, 1], 42), ["ana", "coin"], rng)[:2]
    (array([ True, False]), array([False, False]))
    """
    graph = Graph.build(comparisons)
    answers = [_Answers(comparisons, graph, np.flatnonzero(voice == number)) for number in range(len(judges))]
    said = np.array([own.totals(own.v[None])[:, 0] / max(float(np.std(own.v)), TINY) for own in answers])
    tests = []
    for own, judge in zip(answers, judges, strict=True):
        others = np.sum(said[[other != judge for other in judges]], axis=0)
        others *= np.sqrt(SHARED) / max(float(np.linalg.norm(others)), TINY)
        tests.append(own.tested(others, LEVEL / len(judges), rng))
    coin, reader, growth = np.array(tests).T
    reads = np.asarray(scipy.stats.false_discovery_control(coin) <= LEVEL)
    return reads, ~reads & (reader > LEVEL), growth


class _Answers:
    """The slot scores v (A, k) of the answers in `rows`, and the nodes in these slots."""

    def __init__(self, comparisons: Comparisons, graph: Graph, rows: Codes) -> None:
        answer = np.arange(len(rows))
        low, high = np.zeros_like(rows), np.ones_like(rows)
        if comparisons.lineup is not None:
            lineup = comparisons.lineup[rows]
            answer = np.unique(np.where(lineup["answer"] < 0, -1 - answer, lineup["answer"]), return_inverse=True)[1]
            low, high = lineup["low"], lineup["high"]
        v = np.zeros((int(answer.max()) + 1, int(high.max()) + 1))
        self.texts = np.zeros(v.shape, dtype=np.intp)
        y = comparisons.freedom[rows] * _logits(comparisons.p[rows]) / 2
        for slot, nodes, sign in ((low, graph.first, 1), (high, graph.second, -1)):
            np.add.at(v, (answer, slot), sign * y)
            self.texts[answer, slot] = nodes[rows]
        context = graph.position[self.texts[:, 0]]
        for one in np.unique(context):
            v[context == one] -= np.mean(v[context == one], axis=0)
        self.v = np.round(v, DIGITS)
        entries = np.ones(v.size), (self.texts.ravel(), np.arange(v.size))
        self._of_text = sparse.csr_array(entries, shape=(graph.nodes, v.size))

    def totals(self, scores: Array) -> Array:
        """The totals of all texts, (N, D), by D sets of slot scores, (D, A, k)."""
        return np.asarray(self._of_text @ scores.reshape(len(scores), -1).T)

    def tested(self, others: Array, level: float, rng: np.random.Generator) -> tuple[float, float, float]:
        """The p-value of a coin, the probability that a reader shows less, and how many times the answers tell them."""
        spread = float(np.std(self.v))
        if spread == 0:  # always the same answer
            return 1.0, 0.0, np.inf

        def statistic(scores: Array) -> Array:
            total = self.totals(scores)
            return np.asarray(np.sum(total**2, axis=0) + (others @ total) ** 2)

        moved = self.v[rng.permuted(np.tile(np.arange(len(self.v)), (DRAWS, 1)), axis=1)]
        shown = rng.standard_normal((DRAWS, len(others)))[:, self.texts]
        shown -= shown.mean(axis=2, keepdims=True)
        shown *= np.sqrt(READER) * spread / shown.std(axis=(1, 2), keepdims=True)
        coin, reader = statistic(moved), statistic(np.sqrt(1 - READER) * moved + shown)
        seen, apart = float(statistic(self.v[None])[0]) * (1 - TIES), float(np.mean(reader) - np.mean(coin))
        width = np.quantile(coin, 1 - level) - np.mean(coin) + np.mean(reader) - np.quantile(reader, LEVEL)
        p = (1 + np.sum(coin >= seen)) / (1 + DRAWS)
        return float(p), float(np.mean(reader < seen)), float((width / apart) ** 2)


def _logits(p: Array) -> Array:
    return np.asarray(logit(np.clip(p, CLIPPED, 1 - CLIPPED)))


def lead(comparisons: Comparisons, voice: Codes, best: int, level: float) -> tuple[Array, Array]:
    """The ends (R,) of the intervals of g of voice `best` less g of each voice (see the module).

    Each voice has one further pair of its own mean square, which shows nothing: g stays finite. A voice of which every
    interval is above 0 is not the best in at most 1 − `level` of cases: at worst two are equally good.
    """
    rows, seen, mean, _ = comparisons.by_order()
    rows, y = rows[seen.all(axis=1)], _logits(mean[seen.all(axis=1)])
    keys = replace(comparisons, judges=None, judge=None).pair_keys()[rows]
    _, lead, pair = np.unique(keys, return_index=True, return_inverse=True)
    parts = np.full((2, int(voice.max()) + 1, len(lead)), np.nan)  # z and w, or NaN where there is no answer
    parts[:, voice[rows], pair] = np.stack([y[:, 0] - y[:, 1], y[:, 0] + y[:, 1]]) / 2
    parts[1] -= np.nanmean(parts[1], axis=1, keepdims=True)
    squares = np.nan_to_num(parts**2)
    total = squares.sum(axis=2) + np.maximum(np.nanmean(parts**2, axis=(0, 2)), TINY)
    g = 0.5 * np.log(total[0] / total[1])
    share = 0.5 * (squares[0] / total[0, :, None] - squares[1] / total[1, :, None])
    apart, graph = share[best] - share, Graph.build(comparisons)
    ends = np.stack([graph.first[rows][lead], graph.second[rows][lead]])
    meet = np.any(ends[:, None, :, None] == ends[None, :, None, :], axis=(0, 1))
    square, texts = np.sum(apart**2, axis=1), len(np.unique(ends))
    variance = np.maximum(np.sum(apart @ meet * apart, axis=1), square) * texts / max(texts - 2, 1)
    reach = stdtrit(texts / 2, (1 + level) / 2) * np.sqrt(variance)
    return g[best] - g - reach, g[best] - g + reach
