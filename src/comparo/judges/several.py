"""What a judge answers to a prompt of several criteria: one call, a judgement for each criterion.

The judgement of a criterion has the criterion's name as the voice of its question. What the call cost is the sum over
its judgements: whatever was read and paid once for all of them is in the first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from comparo.data.criteria_prompt import CriteriaPrompt
from comparo.data.prompts import Prompt, Question
from comparo.judges.labels import common_prefix
from comparo.judges.protocol import Judgement


@dataclass(frozen=True, slots=True)
class Several(Judgement):
    """The answers to one call about several criteria, in `each`; as a judgement, the mean of them.

    p is the mean over the criteria, by which the next pairs are chosen, and mass the least. A call in which a criterion
    has no answer is failed, and asked once more for that criterion; the answers to the others are kept.

    >>> asked = Question("ana", "bo")
    >>> call = Several.of([Judgement(about(asked, "wit"), p=0.9, cost=0.1), Judgement(about(asked, "length"), p=0.4)])
    >>> call.p, call.question.voice, [answer.question.voice for answer in call.each]
    (0.65, None, ['wit', 'length'])
    """

    each: tuple[Judgement, ...] = ()

    @classmethod
    def of(cls, each: Sequence[Judgement]) -> Several:
        """The call that gave these answers, one or more, about the same pair."""
        failed = [f"{one.question.voice}: {one.error}" for one in each if one.failed]
        return cls(
            replace(each[0].question, voice=None),
            p=math.nan if failed else sum(one.p for one in each) / len(each),
            mass=math.nan if failed else min(one.mass for one in each),
            weight=sum(one.weight for one in each) / len(each),
            reply="\n".join(dict.fromkeys(one.reply for one in each if one.reply)),
            **{name: sum(getattr(one, name) for one in each) for name in NOTHING},
            cut=max(one.cut for one in each),
            model=each[0].model,
            error="; ".join(dict.fromkeys(failed)) or None,
            cached=all(one.cached for one in each),
            each=tuple(each),
        )

    def without(self, answered: Iterable[str | None]) -> Several:
        """The call without the criteria that were answered before; what it cost stays."""
        known = set(answered)
        first, *others = [one for one in self.each if one.question.voice not in known] or self.each[:1]
        whole = {name: getattr(self, name) for name in NOTHING}
        return Several.of([replace(first, **whole), *(replace(one, **NOTHING) for one in others)])


COUNTS = ("tokens_in", "tokens_out", "tokens_cached", "tokens_reasoning")
NOTHING: Mapping[str, Any] = dict.fromkeys(COUNTS, 0) | {"seconds": 0.0, "cost": 0.0}


def about(question: Question, criterion: str) -> Question:
    """The question as it is asked about one criterion."""
    return replace(question, voice=criterion)


def shared_call(whole: Judgement, found: Mapping[str, tuple[float, float, float] | str]) -> Several:
    """The answers of a call that was one request: p, mass and weight of each criterion, or why there is none.

    What the request cost, which `whole` says, is that of the first criterion.

    >>> whole = Judgement(Question("ana", "bo"), p=0.5, tokens_in=90, cost=0.25)
    >>> [(one.p, one.tokens_in, one.error) for one in shared_call(whole, {"wit": (0.9, 1.0, 1.0), "length": "no"}).each]
    [(0.9, 90, None), (nan, 0, 'no')]
    """
    each = []
    for number, (name, told) in enumerate(found.items()):
        cost = NOTHING if number else {}
        p, mass, weight = (math.nan, math.nan, 1.0) if isinstance(told, str) else told
        error = told if isinstance(told, str) else None
        asked = about(whole.question, name)
        each.append(replace(whole, question=asked, p=p, mass=mass, weight=weight, error=error, **cost))
    return Several.of(each)


def mean_of(found: Mapping[str, tuple[float, float, float] | None]) -> tuple[float, float, float] | None:
    """The means of p, mass and weight over the criteria that have an answer; None where none has.

    >>> mean_of({"wit": (0.9, 1.0, 1.0), "length": (0.5, 0.5, 1.0), "style": None})
    (0.7, 0.75, 1.0)
    """
    known = [told for told in found.values() if told is not None]
    if not known:
        return None
    p, mass, weight = (sum(column) / len(known) for column in zip(*known, strict=True))
    return p, mass, weight


def in_turn(
    question: Question,
    prompt: Prompt,
    ask: Callable[[Question, Prompt], tuple[Judgement, str]],
    tokens: Callable[[str], list[int]],
) -> Judgement:
    """The answer to a question; several criteria are asked in turn, of a model that keeps what it has read last.

    `ask` gives an answer and the prompt as it was read; tokens that the first criterion had read already do not count.
    """
    if not isinstance(prompt, CriteriaPrompt):
        return ask(question, prompt)[0]
    each: list[Judgement] = []
    read: list[int] = []
    for name, part in prompt.each:
        answer, written = ask(about(question, name), part)
        ids = tokens(written) if written else []
        known = common_prefix([read, ids]) if read and ids else 0
        each.append(replace(answer, tokens_in=max(0, answer.tokens_in - known)))
        read = read or ids
    return Several.of(each)


def gathered(answers: Iterable[Judgement], prompt: Prompt) -> Iterator[Judgement]:
    """Answers to single criteria as calls, each as soon as its last criterion is answered, in the prompt's order.

    Answers to another prompt are handed on as they are.
    """
    if not isinstance(prompt, CriteriaPrompt):
        yield from answers
        return
    names = list(prompt.parts)
    open_calls: dict[tuple[Any, Any, Any], dict[str | None, Judgement]] = {}
    for answer in answers:
        question = answer.question
        key = question.context, question.first, question.second
        call = open_calls.setdefault(key, {})
        call[question.voice] = answer
        if len(call) == len(names):
            del open_calls[key]
            yield Several.of([call[name] for name in names])
