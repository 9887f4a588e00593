"""Answers that do not fit: infit of texts and judges with simulated limits, and people's votes against a machine.

With e_k the expectation and W_k the variance of the answer p_k by the model, the infit of a judge or a text g is

    infit_g = (Σ_k∈g (p_k − e_k)² / Σ_k∈g W_k) / (Σ_k (p_k − e_k)² / Σ_k W_k),

about 1 where the answers of g fit as well as all answers, and larger where they contradict the model. It is relative to
all answers because scores are fitted to the same answers, which makes residuals smaller, most of all with few answers.

For decisions, W = e(1 − e) − P(tie)/4, and the limits come from answers drawn from the model. For probabilities, the
residual is that of their logits and W its mean square, for texts that of the same judge; the limits come from permuted
residuals. Decisions beside probabilities are permuted too, separately and with a W of their own, and so are the answers
of judges of line-ups, where each line-up is one answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
from scipy.sparse import csr_array

from comparo.data.comparisons import Comparisons
from comparo.methods import quiet_fit
from comparo.ranking.criteria_ranking import expected_answers, in_logits
from comparo.ranking.ranking import Ranking
from comparo.ranking.tabular import Columns
from comparo.ranking.votes import find_voted
from comparo.rounding import TIES, merge_ties
from comparo.types import Array, Mask

UNLIKELY = 0.05  # P(any judge or text that fits is named), by Bonferroni, within the precision of the draws
DRAWS, ENTRIES, LEAST_ABOVE = 2000, 4_000_000, 5  # most draws, most drawn answers, and fewest draws above a limit
LONGEST_LIST = 20  # pairs of a list for adjudication: about an hour of reading
ROUNDING = 1e-9  # of an infit
TINY = 1e-300  # in place of a divisor 0
CLIPPED = 1e-6  # a probability of 0 or 1 has no logit


def misfit(ranking: Ranking, by: Literal["judge", "item"], rng: np.random.Generator | None = None) -> Columns:
    """The infit of each judge or text, the most surprising first.

    Parameters
    ----------
    ranking
        A ranking; if it combines votes with a machine's answers, the machine's answers are checked.
    by
        "judge": a row per judge; "item": a row per candidate.
    rng
        The generator of the draws; by default one with the seed 0.

    Returns
    -------
    Columns
        Columns context (of items, where there are any), `by`, answers, infit, limit (which a judge or text that fits
        exceeds with a probability of 0.05 divided by the number of rows, but at least 0.0025), surprise
        (infit less the mean of its draws, in their standard deviations) and misfit: whether infit is above the limit.

    Examples
    --------
    >>> from comparo import fit
    >>> pairs = [{"first": a, "second": b} for a in "abcdef" for b in "abcdef" if a != b]
    >>> rows = [pair | {"p": float(pair["first"] < pair["second"]), "judge": "good"} for pair in pairs]
    >>> careless = [pair | {"p": 1.0, "judge": "careless"} for pair in pairs]
    >>> found = misfit(fit(rows * 2 + careless, "poe-bt"), "judge")
    >>> found["judge"].tolist(), found["misfit"].tolist()
    (['careless', 'good'], [True, False])
    """
    rng = np.random.default_rng(0) if rng is None else rng
    ranking = ranking.judged
    # A panel's scale for each judge hides what does not fit.
    if ranking.solution.panel is not None and ranking.comparisons.hard:
        ranking = quiet_fit(ranking.comparisons, "mixed")
    data, graph = ranking.comparisons, ranking.graph
    judge, rows = data.judged_by, np.arange(len(data))
    decides = np.bincount(judge, ~np.isin(data.p, (0.0, 0.5, 1.0)))[judge] == 0
    square, variance = _residuals(ranking, by, decides)
    if by == "item":
        group, answer, count = np.concatenate([graph.first, graph.second]), np.tile(rows, 2), len(ranking)
    else:
        if data.lineup is not None:
            number = data.lineup["answer"]
            _, lead, whole = np.unique(np.where(number < 0, -1 - rows, number), return_index=True, return_inverse=True)
            judge, decides = judge[lead], decides[lead]
            square, variance = (np.bincount(whole, part).astype(np.float64) for part in (square, variance))
        group, answer, count = judge, np.arange(len(judge)), 1 if data.judges is None else len(data.judges)
    among = csr_array((np.ones(len(group)), (group, answer)), shape=(count, len(square)))
    is_drawn = data.hard and (by == "item" or data.lineup is None)
    if not is_drawn:
        square = square / np.maximum(variance, TINY)  # standardised residuals of one kind are exchangeable
        variance = np.ones(len(square))
    answers = np.bincount(group, minlength=count)
    total = np.maximum(np.asarray(among @ variance), TINY)
    found = (among @ square) / total * (np.sum(variance) / max(np.sum(square), TINY))  # 0 where all answers fit
    parts = _simulated(ranking, len(square), rng) if is_drawn else _permuted(square, decides, rng)
    drawn = np.concatenate(
        [(among @ each) / total[:, None] / np.maximum(each.sum(axis=0), TINY) for each in parts], axis=1
    ) * np.sum(variance)
    chance = max(UNLIKELY / count, LEAST_ABOVE / drawn.shape[1])
    limit = np.quantile(drawn, 1 - chance, axis=1)
    spread = drawn.std(axis=1)
    surprise = np.where(spread > ROUNDING, (found - drawn.mean(axis=1)) / np.maximum(spread, ROUNDING), 0.0)
    columns: Columns = {"answers": answers, "infit": found, "limit": limit, "surprise": surprise}
    columns["misfit"] = found > limit + ROUNDING  # a judge who gave all answers has an infit and a limit of 1
    if by == "judge":
        columns = {by: np.array([None], dtype=object) if data.judges is None else data.judges} | columns
    else:
        columns = {by: ranking.items} | columns
        columns = columns if ranking.context is None else {"context": ranking.context} | columns
    order = np.argsort(-merge_ties(surprise), kind="stable")
    order = order[answers[order] > 0]
    return {name: column[order] for name, column in columns.items()}


def _residuals(ranking: Ranking, by: str, decides: Mask) -> tuple[Array, Array]:
    """The squared residual of each answer and its variance by the model, each (K,); `decides` marks decisions."""
    data, (expected, ties) = ranking.comparisons, expected_answers(ranking)
    if data.hard:
        return (data.p - expected) ** 2, np.maximum(expected * (1 - expected) - ties / 4, 0.0)
    p, e = (np.clip(values, CLIPPED, 1 - CLIPPED) for values in (data.p, expected))
    apart = np.log(p / (1 - p)) - np.log(e / (1 - e)) if in_logits(ranking) else p - e
    square = np.where(decides, p - e, apart) ** 2
    kind = decides.astype(np.int32) if by == "judge" else data.judged_by
    mean = np.bincount(kind, square) / np.maximum(np.bincount(kind), 1)
    return square, np.maximum(mean[kind], TINY)


def _parts(size: int) -> Iterator[tuple[int, int]]:
    """The shapes (K, D) of batches of draws of K answers, which limit the memory."""
    draws, step = int(np.clip(ENTRIES // size, 10 * LEAST_ABOVE, DRAWS)), max(1, 500_000 // size)
    return ((size, min(step, draws - begin)) for begin in range(0, draws, step))


def _simulated(ranking: Ranking, size: int, rng: np.random.Generator) -> Iterator[Array]:
    """Squared residuals of decisions that are drawn from the model, (K, D)."""
    expected, ties = (values[:, None] for values in expected_answers(ranking))
    won = expected - ties / 2
    for shape in _parts(size):
        chance = rng.random(shape)
        yield (np.where(chance < won, 1.0, np.where(chance < won + ties, 0.5, 0.0)) - expected) ** 2


def _permuted(square: Array, decides: Mask, rng: np.random.Generator) -> Iterator[Array]:
    """Permuted squared residuals, (K, D); those of decisions and of other answers are permuted separately."""
    for shape in _parts(len(square)):
        drawn = np.array(np.broadcast_to(square[:, None], shape))
        for rows in (decides, ~decides):
            drawn[rows] = rng.permuted(drawn[rows], axis=0)
        yield drawn


def disagreements(ranking: Ranking, votes: Comparisons, most: int = LONGEST_LIST) -> Columns:
    """The pairs of texts on which people's votes contradict a machine's ranking most.

    Parameters
    ----------
    ranking
        The machine's ranking, or one that combines it with votes.
    votes
        People's votes about texts of the ranking.
    most
        The number of pairs.

    Returns
    -------
    Columns
        Columns context (where there are any), chosen (by most votes), other, votes, people (the share of the votes for
        `chosen`) and machine (its probability that `chosen` is better, below ½), the largest difference first; of
        equal ones, that with more votes.

    Examples
    --------
    >>> from comparo import fit
    >>> votes = Comparisons.from_rows([("b", "a", 1.0), ("a", "c", 1.0), ("c", "b", 1.0)])
    >>> found = disagreements(fit([("a", "b", 0.9), ("b", "c", 0.8), ("a", "c", 0.95)]), votes)
    >>> list(zip(found["chosen"].tolist(), found["other"].tolist()))
    [('b', 'a'), ('c', 'b')]
    """
    judged = ranking.judged
    labels = judged.solution.labels
    first, second = find_voted(votes, labels)
    ends = np.sort(np.stack([first, second]), axis=0)
    (low, high), begin, pair, count = np.unique(ends, True, True, True, axis=1)
    share = np.bincount(pair.ravel(), np.where(first < second, votes.p, 1 - votes.p)) / count
    chosen, other = np.where(share > 0.5, low, high), np.where(share > 0.5, high, low)
    machine = np.zeros(len(share))
    for row, (one, rest) in enumerate(zip(chosen.tolist(), other.tolist(), strict=True)):
        (context, item), (_, against) = labels[one], labels[rest]
        machine[row] = judged.probability(item, against, context)
    people = np.maximum(share, 1 - share)
    order = np.lexsort((begin, -count, merge_ties(machine - people)))
    order = order[((share != 0.5) & (machine < 0.5 - TIES))[order]][:most]
    columns: Columns = {} if judged.context is None else {"context": judged.context[chosen]}
    columns |= {"chosen": judged.items[chosen], "other": judged.items[other]}
    columns |= {"votes": count, "people": people, "machine": machine}
    return {name: column[order] for name, column in columns.items()}
