"""From the judgements of a run to the comparisons that are fitted."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from comparo.data.comparisons import Comparisons
from comparo.judges import Judgement
from comparo.judges.several import Several


def comparisons(judgements: Iterable[Judgement]) -> Comparisons:
    """Convert the answered judgements to comparisons; a run of several voices has them as judges."""
    answered = [judgement for judgement in judgements if not judgement.failed]
    questions = [judgement.question for judgement in answered]
    return Comparisons.from_columns(
        [question.first for question in questions],
        [question.second for question in questions],
        np.array([judgement.p for judgement in answered]),
        np.array([judgement.weight for judgement in answered]) if any(one.weight != 1 for one in answered) else None,
        None
        if all(question.context is None for question in questions)
        else [question.context for question in questions],
        None if all(question.voice is None for question in questions) else [question.voice for question in questions],
    )


def by_ranking(answers: Sequence[Judgement]) -> list[list[Judgement]]:
    """The answers as they are ranked: all of them, or those to each criterion, by calls that answered all criteria.

    >>> from comparo.data.prompts import Question
    >>> len(by_ranking([Judgement(Question("ana", "bo"), p=0.7)]))
    1
    """
    calls = [answer.each for answer in answers if isinstance(answer, Several)]
    if len(calls) < len(answers) or not calls:
        return [list(answers)]
    return [
        [replace(one, question=replace(one.question, voice=None)) for one in own] for own in zip(*calls, strict=True)
    ]


def count_cached(judgements: Iterable[Judgement]) -> int:
    """How many of the judgements came from the cache."""
    return sum(judgement.cached for judgement in judgements)
