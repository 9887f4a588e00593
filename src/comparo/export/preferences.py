"""Preference pairs for training, from the pairs that a run judged and the scores that it fitted.

Every pair of texts that was judged at least once is one candidate, in whichever orders and by however many voices. With
p̄ the mean over voices of what each says in both orders together (`Comparisons.merge_orders`), and s the scores of the
run's ranking,

    margin = s_chosen − s_rejected > 0,

the chosen text being that with the higher score. The scores rest on all comparisons of the run, so that the margin is
less noisy than the answers about this pair alone. A pair is left out as a tie where p̄ is ½ or the scores are equal, and
as contradicted where p̄ and the scores name different winners.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comparo.data.columns import look_up
from comparo.data.comparisons import Comparisons
from comparo.data.frames import Column
from comparo.model.graph import Graph
from comparo.ranking.ranking import Ranking
from comparo.report.record import Record
from comparo.run.answers import comparisons
from comparo.types import Array

CONTEXT = "{context}"
EQUAL = 1e-9  # of a probability or a score: what rounding leaves of equals, as two orders that contradict each other


@dataclass(frozen=True)
class Pairs:
    """M preferred pairs of candidates of a ranking, and how many others were left out, and why.

    Parameters
    ----------
    chosen, rejected : The candidates, as numbers into the ranking's, shape (M,).
    margin : s_chosen − s_rejected, shape (M,).
    p : The mean answer, as the probability that the chosen one is better, shape (M,).
    answers : How many answers it is the mean of, shape (M,).
    ties, contradicted, close : How many judged pairs were left out: ties, pairs whose answers contradict the scores,
        and pairs with a margin below the least.
    """

    chosen: NDArray[np.intp]
    rejected: NDArray[np.intp]
    margin: Array
    p: Array
    answers: NDArray[np.intp]
    ties: int
    contradicted: int
    close: int


def preferred_pairs(ranking: Ranking, answered: Comparisons, least_margin: float = 0.0) -> Pairs:
    """The preferred pairs among those that were compared, in the order of their first answers.

    >>> from comparo import fit
    >>> rows = [("a", "b", 0.8), ("b", "a", 0.4), ("b", "c", 0.5), ("c", "b", 0.5), ("a", "c", 0.9)]
    >>> found = preferred_pairs(fit(rows), Comparisons.from_rows(rows))
    >>> found.chosen.tolist(), found.p.round(2).tolist(), found.answers.tolist(), found.ties
    ([0, 0], [0.7, 0.9], [2, 1], 1)
    """
    merged = answered.merge_orders()
    first, second = _nodes(merged, ranking)
    low, high = np.minimum(first, second), np.maximum(first, second)
    key = low.astype(np.int64) * ranking.graph.nodes + high
    _, lead, pair = np.unique(key, return_index=True, return_inverse=True)
    mean = np.bincount(pair, np.where(first == low, merged.p, 1 - merged.p)) / np.bincount(pair)
    ends = _nodes(answered, ranking)
    asked = np.minimum(*ends).astype(np.int64) * ranking.graph.nodes + np.maximum(*ends)
    counts = np.unique(asked, return_counts=True)[1]
    low, high = low[lead], high[lead]
    difference = ranking.scores[low] - ranking.scores[high]
    tied = (np.abs(mean - 0.5) < EQUAL) | (np.abs(difference) < EQUAL)
    contradicted = ~tied & ((mean > 0.5) != (difference > 0))
    close = ~tied & ~contradicted & (np.abs(difference) < least_margin)
    kept = np.flatnonzero(~(tied | contradicted | close))
    kept = kept[np.argsort(lead[kept], kind="stable")]
    is_low = difference[kept] > 0
    return Pairs(
        np.where(is_low, low[kept], high[kept]),
        np.where(is_low, high[kept], low[kept]),
        np.abs(difference[kept]),
        np.where(is_low, mean[kept], 1 - mean[kept]),
        counts[kept],
        *(int(np.count_nonzero(left)) for left in (tied, contradicted, close)),
    )


def _nodes(data: Comparisons, ranking: Ranking) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The candidates of the ranking that each comparison is about, shape (K,) each."""
    graph = Graph.build(data)
    node = look_up(graph.labels(data), ranking.graph.labels(ranking.comparisons))
    return node[graph.first], node[graph.second]


def preference_columns(
    record: Record, least_margin: float = 0.0, prompt: str = CONTEXT, is_conversational: bool = False
) -> tuple[dict[str, Column], Pairs]:
    """The pairs of a run as prompt, chosen, rejected, margin, p, answers, context, chosen_id and rejected_id.

    `prompt` is the text that both texts answer; {context} in it stands for the text of their context. A conversational
    prompt is one message by the user, and the texts are messages by the assistant.
    """
    found = preferred_pairs(record.ranking, comparisons(record.judgements), least_margin)
    items, row = record.items, record.row
    if not len(found.margin):
        raise ValueError(_nothing(found, least_margin))
    context = items.context[row[found.chosen]].tolist()
    shown = [items.context_texts[code] for code in context]
    if CONTEXT in prompt and (missing := [code for code, text in zip(context, shown, strict=True) if text is None]):
        label = items.contexts[missing[0]]
        place = "the texts have" if label is None else f"context {label!r} has"
        raise ValueError(f"{place} no text to be the prompt; say by --dpo-prompt what the texts answer")
    asked = [prompt.replace(CONTEXT, text or "") for text in shown]
    chosen, rejected = ([items.texts[each] for each in row[nodes].tolist()] for nodes in (found.chosen, found.rejected))
    columns: dict[str, Column] = {
        "prompt": _messages("user", asked) if is_conversational else asked,
        "chosen": _messages("assistant", chosen) if is_conversational else chosen,
        "rejected": _messages("assistant", rejected) if is_conversational else rejected,
        "margin": found.margin,
        "p": found.p,
        "answers": found.answers,
    }
    if items.contexts.tolist() != [None]:
        columns["context"] = items.contexts[context].tolist()
    ids = {"chosen_id": found.chosen, "rejected_id": found.rejected}
    return columns | {name: items.ids[row[nodes]].tolist() for name, nodes in ids.items()}, found


def _messages(role: str, texts: Sequence[str]) -> list[Any]:
    return [[{"role": role, "content": text}] for text in texts]


def _nothing(found: Pairs, least_margin: float) -> str:
    if found.close:
        return f"no pair has a margin of {least_margin:g} or more; choose a smaller --least-margin"
    return (
        f"no pair is preferred: {found.ties} are ties, and the answers about {found.contradicted} contradict the scores"
    )
