"""The voices of a run: each judge with each wording of the question, by name.

From the judgements of a run to the comparisons that are fitted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from comparo.data.comparisons import Comparisons
from comparo.data.prompts import Prompt
from comparo.judges import Judge, Judgement
from comparo.judges.several import Several


@dataclass(frozen=True)
class Voice:
    """A judge with the prompt that it is asked; the name is None in a run of one voice."""

    name: str | None
    judge: Judge
    prompt: Prompt

    @property
    def identity(self) -> dict[str, Any]:
        """What must stay the same to continue a run: the judge, what changes its answers, and the prompt."""
        return {
            "judge": self.judge.name,
            "settings": dict(self.judge.settings),
            "prompt": dict(self.prompt.identity),
        }


def voices_of(judges: Sequence[Judge], prompts: Sequence[Prompt]) -> tuple[Voice, ...]:
    """Every judge with every prompt, in this order.

    A voice is named after its judge; where there are several prompts, after the wording too. Voices whose names would
    be the same are numbered.

    >>> from comparo.data.prompts import criterion_prompt
    >>> from comparo.judges import load_judge
    >>> judges = load_judge("simulated/soft"), load_judge("simulated/soft", seed=1), load_judge("simulated/hard")
    >>> [voice.name for voice in voices_of(judges, [criterion_prompt("better")])]
    ['simulated/soft 1', 'simulated/soft 2', 'simulated/hard']
    >>> prompts = [criterion_prompt("better", wording=wording) for wording in ("paper", "compare")]
    >>> [voice.name for voice in voices_of(judges[2:], prompts)]
    ['simulated/hard · paper', 'simulated/hard · compare']
    >>> [voice.name for voice in voices_of(judges[:1], prompts[:1])]
    [None]
    """
    return named_voices(list(product(judges, prompts)))


def named_voices(asked: Sequence[tuple[Judge, Prompt]]) -> tuple[Voice, ...]:
    """Judges, each with the prompt that it is asked, named as `voices_of` does."""
    if len(asked) == 1:
        return (Voice(None, *asked[0]),)
    is_worded = any(prompt != asked[0][1] for _, prompt in asked)
    names = [judge.name + (f" · {prompt.wording}" if is_worded else "") for judge, prompt in asked]
    counts, seen = Counter(names), Counter[str]()
    voices = []
    for name, (judge, prompt) in zip(names, asked, strict=True):
        seen[name] += 1
        voices.append(Voice(f"{name} {seen[name]}" if counts[name] > 1 else name, judge, prompt))
    return tuple(voices)


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
