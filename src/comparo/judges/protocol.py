"""What a judge is asked and what it answers: the protocol that every provider keeps."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, Protocol

from comparo.data.prompts import Prompt, Question


@dataclass(frozen=True, slots=True)
class Judgement:
    """The answer to one question, or why there is none.

    `p` is P(first label) / (P(first label) + P(second label)) with the question's first text shown first, and `mass`
    the denominator: how much of the model's probability lies on the two labels. `weight` is what the answer counts
    for, 1 for one call's probabilities, the number of votes for votes. A failed judgement has an error and p = mass =
    nan; it is never a tie. `cut` is how many characters did not fit the model's window.

    >>> Judgement(Question("ana", "bo"), p=0.7, mass=0.98).row()["p"]
    0.7
    >>> Judgement(Question("ana", "bo"), error="the server answered 500").failed
    True
    """

    question: Question
    p: float = math.nan
    mass: float = math.nan
    weight: float = 1.0
    reply: str = ""
    tokens_in: int = 0
    tokens_out: int = 0
    seconds: float = math.nan
    cost: float = math.nan
    cut: int = 0
    error: str | None = None

    def __post_init__(self) -> None:
        if self.error is None and not 0 <= self.p <= 1:
            raise ValueError(f"p = {self.p} is not a probability; a judgement without one says why in its error")

    @property
    def failed(self) -> bool:
        """Whether there is no answer."""
        return self.error is not None

    def row(self) -> dict[str, Any]:
        """The judgement as columns: context, first and second by name, then all that was answered."""
        question = self.question
        named = {"context": question.context, "first": question.first, "second": question.second}
        return named | {field.name: getattr(self, field.name) for field in fields(self)[1:]}


class Judge(Protocol):
    """Whoever says which of two texts is better.

    `name` is provider/model, `settings` all that changes its answers (never a key), `ahead` how many questions it works
    on at once. `judge` takes questions as it has room for them and yields an answer to each, in any order.

    A judge that also rates one text on a scale says so by an attribute `scales` = True. Its prompts then may have more
    than two labels, the highest first, and p is where the expected label lies between the last (0) and the first (1).
    One that is several judges at once may say by an attribute `room` how many questions all of them take. One whose
    answers never wait for a further question says so by `streams` = True: it is then handed questions for as long as
    there may be any; others are told that there are none whenever none comes for a moment. One that can tell before
    anything is asked that it cannot answer, for want of a key, has a method `ready` that raises a JudgeError.
    """

    @property
    def name(self) -> str:
        """provider/model."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """What changes an answer, as JSON can hold it."""

    @property
    def ahead(self) -> int:
        """How many questions it works on at once."""

    def judge(self, questions: Iterable[Question], prompt: Prompt) -> Iterator[Judgement]:
        """An answer to every question, as they come; JudgeError where none can be had."""
