"""Baselines on recorded judgements: PairS and the longer text."""

import numpy as np

from benchmarks.paper.pairs import recorded_answers, sort_contexts
from comparo.data.items import Items
from comparo.studies.recorded import Recorded
from comparo.studies.sweep import Cell, correlate, everything
from comparo.types import Array


def pairs_cell(
    recorded: Recorded, sorts: int, *, beam: int = 1, both: bool = False, rng: np.random.Generator
) -> tuple[Cell, Array]:
    """PairS on recorded judgements of every pair, each of S = `sorts` from another shuffled order; see `pairs`.

    Also the calls per context of each sort, (S,).

    >>> from comparo.studies.recorded import example
    >>> pairs_cell(example(), 5, rng=np.random.default_rng(0))[0].spearman
    array([1., 1., 1., 1., 1.])
    """
    answer = recorded_answers(everything(recorded).one(0))
    starts = recorded.starts.tolist()
    labels = recorded.items[recorded.item].tolist()
    contexts = zip(recorded.contexts.tolist(), starts[:-1], starts[1:], strict=True)
    names = {context: labels[begin:end] for context, begin, end in contexts}
    scores, calls = [], []
    for _ in range(sorts):
        found = sort_contexts(names, answer, beam=beam, both=both, rng=rng)
        scores.append(np.concatenate([found[context].scores for context in names]))
        calls.append(np.mean([found[context].calls for context in names]))
    return correlate(recorded, np.array(scores)), np.array(calls)


def longer(items: Items) -> Array:
    """How many words each text has, as its score; shape (N,). Words are separated by white space."""
    return np.array([len(text.split()) for text in items.texts], dtype=np.float64)


def longer_cell(recorded: Recorded, items: Items) -> Cell:
    """How well the number of words in a text agrees with people's scores."""
    words = longer(items)
    labels = zip(recorded.contexts[recorded.context].tolist(), recorded.items[recorded.item].tolist(), strict=True)
    return correlate(recorded, words[[items.row(context, item) for context, item in labels]][None])
