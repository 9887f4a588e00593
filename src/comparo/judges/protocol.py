"""The protocol of judges: a question in, a judgement out.

A prompt of several criteria is one call with a judgement for each criterion, whose question has the criterion's name as
its voice. The cost of the call is the sum over its judgements; the first has the cost of tokens that all share.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol

from comparo.data.lineups import is_answer
from comparo.data.prompts import Prompt, Question
from comparo.data.wordings import few

# Seconds that calls in flight have to return when no more are sent; with the ranking so far, a command ends within 10.
GRACE = 7.0


@dataclass(frozen=True, slots=True)
class Judgement:
    """The answer to one question, or why there is none.

    `p` is P(first label) / (P(first label) + P(second label)) with the question's first text shown first, and `mass`
    the denominator: how much of the model's probability lies on the two labels. `weight` is 1 for the probabilities of
    one call, and the number of votes for votes. A failed judgement has an error and p = mass = nan; it is never a tie.
    `cut` is how many characters were cut to fit the model's window. `tokens_cached` is the part of `tokens_in` read
    from the server's cache, `tokens_reasoning` the part of `tokens_out` written before the reply. A `cached` judgement
    is from an earlier run, by the judgement cache; its tokens, seconds and cost are those of the original call.
    `model` is the model's name in the server's reply, which shows a silent change of the model. `lineup` is the
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
    def each(self) -> tuple[Judgement, ...]:
        """The answers of the call: this one, or one for each of several criteria."""
        return (self,)

    @property
    def spent(self) -> float:
        """The dollars that this run paid for it: 0 if it is from the cache, nan if the cost is unknown."""
        return 0.0 if self.cached else self.cost

    def row(self) -> dict[str, Any]:
        """The judgement as a dict of columns: context, first and second, then all fields of the answer."""
        question = self.question
        named = {"context": question.context, "first": question.first, "second": question.second}
        return named | {field.name: getattr(self, field.name) for field in fields(self)[1:]}


@dataclass(frozen=True, slots=True)
class Probe:
    """The result of probing a judge before its first question, and the calls, tokens and cost of the probe.

    `found` is the argument of the judge's `learn`, as values that JSON can hold; `sentence` states it for people. The
    `Probe` that `write` returns has an empty `found`, and the reply as `sentence`.
    """

    sentence: str
    found: Mapping[str, Any]
    calls: int = 0
    tokens: int = 0
    cost: float = 0.0


@dataclass(frozen=True, slots=True)
class Writing:
    """How many tokens a call writes, reasoning included: measured by a probe, else the limit in the settings.

    A probe asks about texts of a few words; a model that reasons may write more about longer texts.
    """

    tokens: int
    probed: bool


class Judge(Protocol):
    """Decides which of two texts is better.

    `name` is provider/model, `settings` all that changes its answers (never a key), `ahead` how many questions it works
    on at once. `judge` takes a question when it can work on it, and yields an answer to each, in any order.

    A judge may have further members:

    - `several` = True: it also answers a prompt of several criteria (`CriteriaPrompt`), with one
      `comparo.judges.protocol.Several` per question.
    - `lines_up` = True: it also answers a prompt about more than two texts, in `Judgement.lineup`.
    - `chooses` = True: it answers by choices (decisions, votes, orders), not by probabilities. A choice has binomial
      noise for any texts, so the selection of pairs then ignores their contrast.
    - `room`: how many questions it takes at once, if it consists of several judges; `ahead` is then that of one judge.
    - `streams` = True: no answer waits for a further question. The iterator of questions then waits for new ones; for
      other judges it ends whenever no new question arrives within a moment.
    - `begins(prompt)`, `shown(prompt)` and `adds(prompt)`: whether the request has the beginning of the answer, the
      prompt as it is sent, and the text added to it; `--dry-run` shows all.
    - `cacheable` = False: its answers are not kept in a cache, because they cost nothing, or because name, settings and
      texts do not determine them.
    - `weights`: a digest of the model's files, where name and settings leave open which these are.
    - `batches(prompt)` and `at_batch_price()`: it takes many questions in one upload, at a lower price
      (`comparo.judges.batch_endpoints`).
    - `ready()`: raises a JudgeError if no question can be answered, such as without a key.
    - `probe()` and `learn(found)`: `probe` makes a call or two to find out what the server accepts, returns a `Probe`,
      and raises a JudgeError with the remedy if the settings cannot work; `learn` loads the findings of a `Probe`.
    - `write(text, tokens)`: a reply in its own words, of at most `tokens` tokens, as the sentence of a `Probe`;
      `comparo why --propose` needs it.
    - `price`: the price of a million tokens, as a `Price`.
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
    """The answers to one call about several criteria, in `each`; as a judgement, their mean.

    p is the mean over the criteria, by which the next pairs are chosen, and mass the minimum. A call without an answer
    about a criterion has failed and is repeated for that criterion; the answers about the others are kept.

    >>> asked = Question("ana", "bo")
    >>> call = Several.of([Judgement(about(asked, "wit"), p=0.9, cost=0.1), Judgement(about(asked, "length"), p=0.4)])
    >>> call.p, call.question.voice, [answer.question.voice for answer in call.each]
    (0.65, None, ['wit', 'length'])
    """

    each: tuple[Judgement, ...] = ()

    @classmethod
    def of(cls, each: Sequence[Judgement]) -> Several:
        """The call with these answers, at least one, about the same pair."""
        errors = dict.fromkeys(one.error for one in each if one.failed)
        said = [f"{few([one.question.voice for one in each if one.error == error])}: {error}" for error in errors]
        return cls(
            replace(each[0].question, voice=None),
            p=math.nan if said else sum(one.p for one in each) / len(each),
            mass=math.nan if said else min(one.mass for one in each),
            weight=sum(one.weight for one in each) / len(each),
            reply="\n".join(dict.fromkeys(one.reply for one in each if one.reply)),
            **{name: sum(getattr(one, name) for one in each) for name in NOTHING},
            cut=max(one.cut for one in each),
            model=each[0].model,
            error="; ".join(said) or None,
            cached=all(one.cached for one in each),
            each=tuple(each),
        )

    def without(self, answered: Collection[str | None]) -> Several:
        """The call without the criteria in `answered`; it keeps its whole cost."""
        first, *others = [one for one in self.each if one.question.voice not in answered] or self.each[:1]
        whole = {name: getattr(self, name) for name in NOTHING}
        return Several.of([replace(first, **whole), *(replace(one, **NOTHING) for one in others)])


COUNTS = ("tokens_in", "tokens_out", "tokens_cached", "tokens_reasoning")
NOTHING: Mapping[str, Any] = dict.fromkeys(COUNTS, 0) | {"seconds": 0.0, "cost": 0.0}


def about(question: Question, criterion: str) -> Question:
    """The question about one criterion: with the criterion as its voice."""
    return replace(question, voice=criterion)


def shared_call(whole: Judgement, found: Mapping[str, tuple[float, float, float] | str]) -> Several:
    """The answers of one request, from p, mass and weight of each criterion, or from the error.

    The first criterion has the tokens, seconds and cost of `whole`, the others 0.

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
