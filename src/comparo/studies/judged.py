"""Baselines that ask a judge themselves, on items with people's scores: G-Eval and PairS-greedy."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import numpy as np

from comparo.analysis.agreement import spearman_within
from comparo.analysis.curves import mean_known
from comparo.data.items import Items
from comparo.data.prompts import PAPER, criterion_prompt, paper_prompt
from comparo.judges import Judge
from comparo.studies.geval import geval, paper_score_prompt, score_prompt
from comparo.studies.pairs import judge_answers, sort_contexts
from comparo.studies.tables import Entry, Table
from comparo.types import Array

Baseline = Literal["geval", "pairs"]


def judged_table(
    baseline: Baseline, name: str, items: Items, attributes: Iterable[str], judge: Judge, *, seed: int = 0
) -> Table:
    """Spearman's correlation × 100 of a baseline with people's scores, mean over contexts, and its calls per context.

    The judge is asked with the paper's prompts where the data set `name` is the paper's; else by the attribute's name.

    >>> from comparo.judges import load_judge
    >>> items = Items.of([{"id": name, "text": name, "score_wit": score} for name, score in zip("abc", (3, 1, 2))])
    >>> judge = load_judge("simulated/soft", scores={"a": 3.0, "b": 1.0, "c": 2.0}, noise=0.0)
    >>> print(judged_table("geval", "mine", items, ["wit"], judge).markdown().splitlines()[2])
    | wit | 100.0 | 3.0 |
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
