"""The protocol of judges: a question in, a judgement out.

A prompt of several criteria is one call with a judgement for each criterion, whose question has the criterion's name as
its voice. The cost of the call is the sum over its judgements: what was read and paid once for all is in the first.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol

from comparo.data.lineups import is_answer
from comparo.data.prompts import Prompt, Question


@dataclass(frozen=True, slots=True)
class Judgement:
    """The answer to one question, or why there is none.

    `p` is P(first label) / (P(first label) + P(second label)) with the question's first text shown first, and `mass`
    the denominator: how much of the model's probability lies on the two labels. `weight` is 1 for the probabilities of
    one call, and the number of votes for votes. A failed judgement has an error and p = mass = nan; it is never a tie.
    `cut` is how many characters were cut to fit the model's window. Of `tokens_in`, `tokens_cached` were kept by the
    server from an earlier call, and of `tokens_out`, `tokens_reasoning` were written before the reply. A `cached`
    judgement is one of an earlier run, which the cache has kept: tokens, seconds and cost are those of its call then.
    `model` is the name that the server's reply gives to the model, by which a silent change shows. `lineup` is the
    answer about more than two texts: the log-probability of each label, as "-0.4|-1.6|-2.1", or an order of the labels,
    the best first, as "B>A>C"; p is then that of the first label among all of them, and mass that of all labels.

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
    tokens_cached: int = 0
    tokens_reasoning: int = 0
    model: str = ""
    lineup: str = ""
    error: str | None = None
    cached: bool = False

    def __post_init__(self) -> None:
        if self.error is None and not 0 <= self.p <= 1:
            raise ValueError(f"p = {self.p} is not a probability; a judgement without one says why in its error")
        if self.error is None and not is_answer(self.lineup, len(self.question.items)):
            raise ValueError(f"{self.lineup!r} is no answer about {len(self.question.items)} texts")

    @property
    def failed(self) -> bool:
        """Whether there is no answer."""
        return self.error is not None

    @property
    def spent(self) -> float:
        """What was paid for it now, in dollars: nothing where it is from the cache, nan where the cost is unknown."""
        return 0.0 if self.cached else self.cost

    def row(self) -> dict[str, Any]:
        """The judgement as columns: the names context, first and second, then all fields of the answer."""
        question = self.question
        named = {"context": question.context, "first": question.first, "second": question.second}
        return named | {field.name: getattr(self, field.name) for field in fields(self)[1:]}


@dataclass(frozen=True, slots=True)
class Probe:
    """What a judge was found to accept and to give before it is asked anything, and what finding it took.

    `found` is what the judge's `learn` takes, as values that JSON can hold; `sentence` says it to people. A reply in
    the judge's own words (`write`) has nothing else than a sentence.
    """

    sentence: str
    found: Mapping[str, Any]
    calls: int = 0
    tokens: int = 0
    cost: float = 0.0


@dataclass(frozen=True, slots=True)
class Writing:
    """How many tokens a call writes, reasoning included: as the probe of the judge saw, else as its settings allow.

    A probe asks about texts of a few words; a model that reasons may write more about longer ones.
    """

    tokens: int
    probed: bool


class Judge(Protocol):
    """Decides which of two texts is better.

    `name` is provider/model, `settings` all that changes its answers (never a key), `ahead` how many questions it works
    on at once. `judge` takes questions as it has room for them and yields an answer to each, in any order.

    A judge may have further members:

    - `several` = True: it also answers a prompt of several criteria (`CriteriaPrompt`), by one
      `comparo.judges.protocol.Several` per question.
    - `lines_up` = True: it also answers a prompt about more than two texts, by `Judgement.lineup`.
    - `chooses` = True: it answers by choices (decisions, votes, orders), not by probabilities. A choice has the
      noise of a coin whatever the texts, so pairs are then chosen without their contrast.
    - `room`: how many questions it takes at once, where it is several judges; `ahead` is then that of one of them.
    - `streams` = True: no answer waits for a further question. The iterator of questions then waits for new ones; for
      other judges it ends whenever no new question arrives within a moment.
    - `begins(prompt)`, `shown(prompt)` and `adds(prompt)`: whether the answer is begun for the model, the prompt as it
      is sent, and what is added to it; `--dry-run` shows all.
    - `cacheable` = False: its answers are not kept in a cache, because they cost nothing, or because name, settings and
      texts do not determine them.
    - `weights`: a digest of the model's files, where name and settings leave open which these are.
    - `batches(prompt)` and `at_batch_price()`: it takes many questions in one upload, at a lower price
      (`comparo.judges.batch_endpoints`).
    - `ready()`: raises a JudgeError where it is known beforehand that no question can be answered, such as without a
      key.
    - `probe()` and `learn(found)`: asks the server little to find out what it accepts, raises a JudgeError with the
      remedy where the settings cannot work, and returns a `Probe`; `learn` takes over what a probe found before.
    - `write(text, tokens)`: a reply in its own words, of at most so many tokens, as the sentence of a `Probe`;
      `comparo why --propose` needs it.
    - `price`: what a million tokens cost, as a `Price`.
    - `writes(prompt)`: how many tokens a call writes, as a `Writing`; None where neither a probe nor a limit states it.
    """

    @property
    def name(self) -> str:
        """provider/model."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """What changes an answer, as values that JSON can hold."""

    @property
    def ahead(self) -> int:
        """How many questions it works on at once."""

    def judge(self, questions: Iterable[Question], prompt: Prompt) -> Iterator[Judgement]:
        """Yield an answer to every question; raise a JudgeError where no question can be answered."""


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
    for number, (name, verdict) in enumerate(found.items()):
        cost = NOTHING if number else {}
        p, mass, weight = (math.nan, math.nan, 1.0) if isinstance(verdict, str) else verdict
        error = verdict if isinstance(verdict, str) else None
        asked = about(whole.question, name)
        each.append(replace(whole, question=asked, p=p, mass=mass, weight=weight, error=error, **cost))
    return Several.of(each)
