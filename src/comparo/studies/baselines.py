"""Baselines without a statistical model, on recorded judgements: PairS, and the longer text."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from comparo.data.items import Items
from comparo.studies.cells import Cell, correlate
from comparo.studies.length import longer
from comparo.studies.pairs import THRESHOLD, recorded_answers, sort_contexts
from comparo.studies.recorded import Recorded
from comparo.types import Array


@dataclass(frozen=True, eq=False)
class SortedCell:
    """PairS on recorded judgements: the correlations of S sorts, and the calls per context of each sort, shape (S,)."""

    cell: Cell
    calls: Array


def pairs_cell(
    recorded: Recorded,
    sorts: int,
    *,
    beam: int = 1,
    threshold: float = THRESHOLD,
    both: bool = False,
    rng: np.random.Generator,
) -> SortedCell:
    """PairS on recorded judgements of every pair, each of S = `sorts` from another shuffled order; see `pairs.pairs`.

    >>> texts = [{"id": name, "text": "…", "score": score} for name, score in zip("abc", (3, 1, 2))]
    >>> rows = [("a", "b", 0.9), ("b", "a", 0.2), ("a", "c", 0.8), ("c", "a", 0.3), ("b", "c", 0.3), ("c", "b", 0.8)]
    >>> found = pairs_cell(Recorded.of(rows, Items.of(texts), "score"), 5, rng=np.random.default_rng(0))
    >>> found.cell.spearman
    array([1., 1., 1., 1., 1.])
    """
    answer = recorded_answers(recorded.comparisons())
    starts = recorded.starts.tolist()
    labels = recorded.items[recorded.item].tolist()
    contexts = zip(recorded.contexts.tolist(), starts[:-1], starts[1:], strict=True)
    names = {context: labels[begin:end] for context, begin, end in contexts}
    scores, calls = [], []
    for _ in range(sorts):
        found = sort_contexts(names, answer, beam=beam, threshold=threshold, both=both, rng=rng)
        scores.append(np.concatenate([found[context].scores for context in names]))
        calls.append(np.mean([found[context].calls for context in names]))
    return SortedCell(correlate(recorded, np.array(scores)), np.array(calls))


def longer_cell(recorded: Recorded, items: Items) -> Cell:
    """How well the number of words in a text agrees with people's scores.

    >>> texts = [{"id": "a", "text": "Two words", "score": 1}, {"id": "b", "text": "One", "score": 2}]
    >>> items = Items.of(texts)
    >>> longer_cell(Recorded.of([("a", "b", 0.9)], items, "score"), items).spearman
    array([-1.])
    """
    words = longer(items)
    labels = zip(recorded.contexts[recorded.context].tolist(), recorded.items[recorded.item].tolist(), strict=True)
    return correlate(recorded, words[[items.row(context, item) for context, item in labels]][None])
