"""A judge that answers from recorded judgements, for studies and for trying out a run at no cost."""

import hashlib
import json
import math
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from comparo.data.comparisons import Comparisons
from comparo.data.prompts import Prompt, Question
from comparo.data.wordings import LETTERS
from comparo.judges.protocol import Judgement
from comparo.model.observations import are_choices

# (context, first item, other items) → (p, weight, line-up)
RecordedAnswers = dict[tuple[str, str, str], tuple[float, float, str]]


@dataclass(frozen=True)
class Replay:
    """Answers each question with the p recorded for its context, first and second; names are compared as text.

    The p of a pair recorded several times is the weighted mean; a pair that was not recorded is a failed judgement.

    >>> judge = Replay(Comparisons.from_rows([("ana", "bo", 0.7)]))
    >>> [(answer.p, answer.error) for answer in judge.judge([Question("ana", "bo"), Question("bo", "ana")])]
    [(0.7, None), (nan, 'no judgement of these texts in this order was recorded')]
    """

    recorded: Comparisons = field(repr=False)
    source: str = "memory"

    ahead = 64
    lines_up = True
    cacheable = False  # an answer costs nothing, and depends on the items' names

    @property
    def name(self) -> str:
        return f"replay/{self.source}"

    @property
    def settings(self) -> dict[str, Any]:
        return {"recorded": self._digest}

    @cached_property
    def chooses(self) -> bool:
        return are_choices(self.recorded)

    def judge(self, questions: Iterable[Question], prompt: Prompt | None = None) -> Iterator[Judgement]:
        for question in questions:
            found = self._answers.get(_key(question.context, *question.items))
            if found is None:
                yield Judgement(question, error="no judgement of these texts in this order was recorded", cost=0.0)
            else:
                p, weight, said = found
                yield Judgement(question, p=p, weight=weight, seconds=0.0, cost=0.0, lineup=said)

    @cached_property
    def _digest(self) -> str:
        digest = hashlib.sha256()
        columns = self.recorded.to_columns()
        for name in sorted(columns):
            digest.update(json.dumps([name, np.asarray(columns[name]).tolist()], default=str).encode())
        return digest.hexdigest()[:16]

    @cached_property
    def _answers(self) -> RecordedAnswers:
        data = self.recorded
        found = {} if data.lineup is None else _lineups(data)
        if data.lineup is not None:
            data = replace(data.take(data.lineup["answer"] < 0), lineup=None)
        columns = data.to_columns()
        contexts = columns["context"] if "context" in columns else [None] * len(data)
        rows = zip(contexts, columns["first"], columns["second"], data.p, data.weights, strict=True)
        sums: dict[tuple[str, str, str], tuple[float, float]] = {}
        for context, first, second, p, weight in rows:
            key = _key(context, first, second)
            total, weights = sums.get(key, (0.0, 0.0))
            sums[key] = total + float(weight * p), weights + float(weight)
        return found | {key: (total / weights, weights, "") for key, (total, weights) in sums.items() if weights}


def _lineups(data: Comparisons) -> RecordedAnswers:
    found: RecordedAnswers = {}
    columns = data.to_columns()
    empty = [""] * len(columns["items"])
    rows = zip(*(columns.get(name, empty) for name in ("context", "items", "logp", "order")), strict=True)
    for context, items, logp, order in rows:
        said = str(logp or order)
        p = math.exp(float(said.split("|")[0])) if "|" in said else float(said.startswith(LETTERS[0]))
        if str(items).count("|") > 1:  # pairs are read from `first` and `second`
            found[_key(context or None, *str(items).split("|", 1))] = p, 1.0, said
    return found


def load(model: str) -> Replay:
    """A judge that repeats recorded answers.

    Parameters
    ----------
    model
        The path of any file of comparisons.

    Raises
    ------
    ValueError
        There is no path.
    ComparisonsError
        The file cannot be read as comparisons.

    Examples
    --------
    >>> load("")
    Traceback (most recent call last):
    ValueError: a replay judge is replay/PATH, with the path of recorded judgements
    """
    if not model:
        raise ValueError("a replay judge is replay/PATH, with the path of recorded judgements")
    return Replay(Comparisons.read(model), os.path.basename(model))


def _key(context: Any, first: Any, *others: Any) -> tuple[str, str, str]:
    return str(context), str(first), "|".join(map(str, others))
