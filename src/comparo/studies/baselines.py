"""Baselines: PairS and the longer text on recorded judgements, and G-Eval and PairS-greedy by asking a judge."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from comparo.analysis.correlations import mean_known, spearman_within
from comparo.data.items import Items
from comparo.data.prompts import PAPER, criterion_prompt, paper_prompt
from comparo.judges import Judge
from comparo.studies.cells import Cell, correlate
from comparo.studies.geval import geval, paper_score_prompt, score_prompt
from comparo.studies.pairs import judge_answers, recorded_answers, sort_contexts
from comparo.studies.recorded import Recorded
from comparo.studies.tables import Entry, Table
from comparo.types import Array

Baseline = Literal["geval", "pairs"]


@dataclass(frozen=True, eq=False)
class SortedCell:
    """PairS on recorded judgements: the correlations of S sorts, and the calls per context of each sort, shape (S,)."""

    cell: Cell
    calls: Array


def pairs_cell(
    recorded: Recorded, sorts: int, *, beam: int = 1, both: bool = False, rng: np.random.Generator
) -> SortedCell:
    """PairS on recorded judgements of every pair, each of S = `sorts` from another shuffled order; see `pairs`.

    >>> from comparo.studies.recorded import example
    >>> pairs_cell(example(), 5, rng=np.random.default_rng(0)).cell.spearman
    array([1., 1., 1., 1., 1.])
    """
    answer = recorded_answers(recorded.comparisons())
    starts = recorded.starts.tolist()
    labels = recorded.items[recorded.item].tolist()
    contexts = zip(recorded.contexts.tolist(), starts[:-1], starts[1:], strict=True)
    names = {context: labels[begin:end] for context, begin, end in contexts}
    scores, calls = [], []
    for _ in range(sorts):
        found = sort_contexts(names, answer, beam=beam, both=both, rng=rng)
        scores.append(np.concatenate([found[context].scores for context in names]))
        calls.append(np.mean([found[context].calls for context in names]))
    return SortedCell(correlate(recorded, np.array(scores)), np.array(calls))


def longer(items: Items) -> Array:
    """How many words each text has, as its score; shape (N,). Words are separated by white space."""
    return np.array([len(text.split()) for text in items.texts], dtype=np.float64)


def longer_cell(recorded: Recorded, items: Items) -> Cell:
    """How well the number of words in a text agrees with people's scores."""
    words = longer(items)
    labels = zip(recorded.contexts[recorded.context].tolist(), recorded.items[recorded.item].tolist(), strict=True)
    return correlate(recorded, words[[items.row(context, item) for context, item in labels]][None])


def judged_table(
    baseline: Baseline, name: str, items: Items, attributes: Iterable[str], judge: Judge, *, seed: int = 0
) -> Table:
    """Spearman's correlation × 100 of a baseline with people's scores, mean over contexts, and its calls per context.

    The judge is asked with the paper's prompts where the data set `name` is the paper's; else by the attribute's name.
    """
    rng, rows = np.random.default_rng(seed), []
    for attribute in attributes:
        asked = f"{name}/{attribute}"
        scores, calls = _geval(asked, items, judge) if baseline == "geval" else _pairs(asked, items, judge, rng)
        found = spearman_within(scores, items.scores[attribute], items.context, len(items.contexts))
        rows.append((attribute, (Entry(100 * mean_known(found)), Entry(calls / len(items.contexts)))))
    title = f"{'G-Eval' if baseline == 'geval' else 'PairS-greedy'} by {judge.name}: Spearman × 100, calls per context"
    return Table(title, ("attribute", "Spearman", "calls"), tuple(rows))


def _geval(name: str, items: Items, judge: Judge) -> tuple[Array, int]:
    """The score (N,) of each item and the calls made."""
    prompt = paper_score_prompt(name) if name in PAPER else score_prompt(_words(name), heading=_heading(items))
    found = geval(items, judge, prompt)
    return found.scores, found.calls


def _pairs(name: str, items: Items, judge: Judge, rng: np.random.Generator) -> tuple[Array, int]:
    """The place (N,) of each item, 0 the worst of its context, and the calls made."""
    criterion = f"has the better {_words(name)}"
    prompt = paper_prompt(name) if name in PAPER else criterion_prompt(criterion, context=_heading(items))
    scores = np.empty(len(items))
    found = sort_contexts(items.names, judge_answers(judge, prompt, items), rng=rng)
    for context, rows in items.groups.items():
        scores[rows] = found[context].scores
    return scores, sum(one.calls for one in found.values())


def _words(name: str) -> str:
    return name.rpartition("/")[2].replace("_", " ")


def _heading(items: Items) -> str | None:
    return "Context" if None not in items.context_texts else None
