"""Questions through a provider's own library: votes and log-probabilities, tries, refusals and their reasons.

A provider says how a question is put (`_send`), what an answer holds (`_read`) and what its refusals mean (`_heed`);
the rest is here. The libraries do not try again themselves: pauses, Retry-After and time-outs are those of all judges.
"""

import asyncio
import json
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, NoReturn

import comparo.judges.openai.verdicts as verdicts
from comparo.data.criteria_prompt import CriteriaPrompt
from comparo.data.prompts import Prompt, Question
from comparo.errors import JudgeError
from comparo.judges.hosted.settings import Hosted
from comparo.judges.openai.complaints import Complaint, read_complaint, spoken, whole_characters
from comparo.judges.openai.criteria import Found, read_lines, read_votes
from comparo.judges.openai.usage import Usage
from comparo.judges.openai.wire import Answer, NoAnswerError, tried
from comparo.judges.prices import cost
from comparo.judges.protocol import Judgement
from comparo.judges.replies import model_of, most_tokens, shown
from comparo.judges.several import mean_of, shared_call

FORMS = 5  # in which a question is sent: the first, two with a part of `Found` changed, two with the prompt cut
ONLY = ""  # the criterion of a prompt that has one
TEMPLATE = 64  # tokens that a provider may add to a prompt, as for openai/ judges


class AnswerError(Exception):
    """Why a question has no answer."""


@dataclass(frozen=True, slots=True)
class Said:
    """One reply: its words, the likeliest tokens in each place, why it was withheld, and whether it was cut short."""

    text: str = ""
    positions: verdicts.Positions = field(default_factory=list)
    withheld: str = ""
    short: bool = False


@dataclass
class Case:
    """A question, its prompt, and what was returned so far."""

    question: Question
    text: str = ""
    cut: int = 0
    replies: list[Said] = field(default_factory=list)
    model: str = ""
    usage: Usage = field(default_factory=Usage)

    @property
    def texts(self) -> list[str]:
        return [self.question.first_text, self.question.second_text, self.question.context_text or ""]


class HostedCaller(ABC):
    """Sends questions through the provider's library and reads its answers."""

    def __init__(self, judge: Hosted, prompt: Prompt) -> None:
        self.judge, self.prompt, self.secrets, self.dialect = judge, prompt, judge.secrets, judge.dialect

    @property
    @abstractmethod
    def client(self) -> AbstractAsyncContextManager[Any]:
        """The open connections."""

    @abstractmethod
    async def _send(self, case: Case, wanted: int) -> Answer:
        """One try; a NoAnswerError where the server cannot be reached."""

    @abstractmethod
    def _read(self, told: Any, case: Case) -> list[Said]:
        """The replies in an answer; its tokens are added to the case. A KeyError or its like where it has none."""

    @abstractmethod
    def _heed(self, answer: Answer, complaint: Complaint, case: Case) -> bool:
        """Whether the question was changed as a refusal asks, so that it can be sent again; or raise what it means."""

    async def answer(self, question: Question) -> Judgement | JudgeError:
        """The answer to a question, or its failure; a JudgeError is returned where no question can be answered."""
        start, case = time.perf_counter(), Case(question)
        try:
            self.write(case, self.judge.window)
            while (missing := max(self.judge.votes, 1) - len(case.replies)) > 0:
                case.replies += (await self._ask(case, missing))[:missing]
                if all(said.withheld for said in case.replies):  # so would further votes be, and cost as much
                    break
        except JudgeError as problem:
            return JudgeError(self._scrub(str(problem)))
        except AnswerError as problem:
            return self.judgement(case, time.perf_counter() - start, str(problem))
        try:
            return self.judgement(case, time.perf_counter() - start)
        except JudgeError as problem:
            return problem

    def judgement(self, case: Case, seconds: float = math.nan, error: str | None = None) -> Judgement:
        """What the replies of a case say; a failed judgement where they say nothing, or for this error."""
        p, mass, weight = math.nan, math.nan, 1.0
        each: Found = {}
        if error is None:
            try:
                each = self._vote(case) if self.judge.votes else self._tokens(case)
                p, mass, weight = mean_of(each) or self._unclear(case)
            except AnswerError as problem:
                error = str(problem)
        usage = case.usage
        paid = (usage.tokens_in, usage.tokens_out, usage.cached, usage.stored) if usage.counted else (0, 0)
        whole = Judgement(
            case.question,
            p=p,
            mass=mass,
            weight=weight,
            reply=self._scrub("\n".join(shown(said.text) for said in case.replies)),
            tokens_in=usage.tokens_in,
            tokens_out=usage.tokens_out,
            seconds=seconds,
            cost=cost(self.judge.price, *paid),
            cut=case.cut,
            tokens_cached=usage.cached,
            tokens_reasoning=usage.reasoning,
            model=self._scrub(case.model),
            error=None if error is None else self._scrub(error),
        )
        if not isinstance(self.prompt, CriteriaPrompt):
            return whole
        missing = whole.error or f"the reply {self._short(whole.reply)} has no verdict on it"
        return shared_call(whole, {name: each.get(name) or missing for name in self.prompt.parts})

    def write(self, case: Case, window: int | None) -> None:
        """Write the prompt, cut to the window by an upper estimate of its tokens."""
        text = self.prompt.text(case.question)
        if window is not None:
            try:
                text, case.cut = self.prompt.fit(case.question, window - self._overhead(), most_tokens)
            except ValueError as problem:
                raise AnswerError(str(problem)) from None
        case.text = text

    def read(self, text: str, case: Case) -> list[Said]:
        """The replies in the text of an answer; an AnswerError where it cannot be read."""
        try:
            told = json.loads(text)
        except (ValueError, RecursionError):
            case.usage += Usage(counted=False)
            raise AnswerError(f"the answer is not JSON: {self._short(text)}") from None
        return self.read_message(told, case)

    def read_message(self, told: Any, case: Case) -> list[Said]:
        """The replies in an answer that was read from JSON."""
        case.model = model_of(told)
        try:
            return self._read(told, case)
        except (AttributeError, KeyError, IndexError, TypeError, ValueError):
            raise AnswerError(f"the answer has no reply in it: {self._short(json.dumps(told))}") from None

    def _tokens(self, case: Case) -> Found:
        """p and mass where the reply names a label, by criterion."""
        [said] = case.replies
        if said.withheld:
            self._unclear(case)
        try:
            if isinstance(self.prompt, CriteriaPrompt):
                found = read_lines(said.positions, self.prompt)
            else:
                told = verdicts.read_logprobs(said.positions, self.prompt)
                found = {ONLY: None if told is None else (*told, 1.0)}
        except ValueError as problem:
            raise AnswerError(f"{problem}, of the reply {self._short(said.text)}") from None
        if not said.positions and said.text and not self.dialect.logprobs:
            raise self._without_logprobs()
        self.dialect.logprobs |= bool(said.positions)
        return found

    def _vote(self, case: Case) -> Found:
        """p, mass and weight from sampled verdicts, by criterion."""
        scale, graded = verdicts.is_scale(self.prompt), self.judge.grades(self.prompt)
        said = ["" if reply.withheld else reply.text for reply in case.replies]
        if isinstance(self.prompt, CriteriaPrompt):
            return read_votes(said, self.prompt, graded)
        read = verdicts.read_score if scale else verdicts.read_grade if graded else verdicts.read_verdict
        return {ONLY: verdicts.soften([read(text, self.prompt) for text in said], scale or graded)}

    def _unclear(self, case: Case) -> NoReturn:
        for said in case.replies:
            if said.withheld:
                raise AnswerError(said.withheld)
        said = case.replies[-1]
        if said.short:
            raise AnswerError(
                f"the reply {self._short(said.text)} ends before its verdict; raise max_tokens, or lower effort"
            )
        raise AnswerError(f"no verdict in the reply {self._short(said.text)}")

    async def _ask(self, case: Case, wanted: int) -> list[Said]:
        """The replies that the server gives; a form of the question that it accepts is used for all later ones."""
        judge = self.judge
        for _ in range(FORMS):
            try:
                answer = await self._try(lambda: self._send(case, wanted))
            except NoAnswerError as problem:
                if problem.refused and not self.dialect.answers:
                    raise problem.no_server(judge.base_url) from None
                if problem.lasting:
                    raise AnswerError(str(problem)) from None
                tries = f"{judge.retries + 1} tries of {judge.timeout:g} s each"
                raise AnswerError(f"no answer in {tries} ({str(problem).partition(':')[0]})") from None
            self.dialect.answers = True
            if answer.status < 300:
                replies = self.read(answer.text, case)
                self.dialect.serves = True
                return replies
            self._refused(answer, case)
        raise AnswerError(f"the server refused the question in {FORMS} forms")

    async def _try(self, send: Callable[[], Awaitable[Answer]]) -> Answer:
        judge = self.judge

        async def once() -> Answer:
            try:
                async with asyncio.timeout(judge.timeout):
                    return await send()
            except TimeoutError:
                raise NoAnswerError("TimeoutError") from None

        return await tried(once, judge.base_url, judge.timeout, judge.retries, judge.waiting)

    def _refused(self, answer: Answer, case: Case) -> None:
        """Heed a refusal that any provider may give, or leave it to the provider's own."""
        url, status = self.judge.base_url, answer.status
        if status < 400:
            where = answer.location(url)
            raise JudgeError(
                f"{url} points to {where} ({status}), where nothing was sent; set base_url to the API itself"
            )
        if status == 401:  # its words may hold parts of the key
            raise self._bad_key(status)
        if status == 402:
            raise self._no_credit(answer)
        complaint = read_complaint(answer.text, case.text, case.texts)
        if status == 413 or (status == 400 and complaint.too_long):
            return self.write(case, int(most_tokens(case.text) * complaint.share) + self._overhead())
        if self._heed(answer, complaint, case):
            return None
        model, said = self.judge.model, self._told(answer)
        if status == 404:
            raise JudgeError(f"{url} has no model {model!r} {said}; check the model and base_url")
        if status == 403 and not self.dialect.serves:
            raise JudgeError(
                f"{url} does not let this key use {model!r} {said}; check {self.judge.keys[0]} and the model"
            )
        raise AnswerError(f"the server answered {said}")

    def _unwanted(self, option: str, answer: Answer, remedy: str) -> JudgeError:
        """The error for an option that the model does not take."""
        return JudgeError(f"{self.judge.name} does not take this {option} {self._told(answer)}; {remedy}")

    def _no_credit(self, answer: Answer) -> JudgeError:
        url = self.judge.base_url
        return JudgeError(f"{url} has no credit left for this key {self._told(answer)}; top it up, then run this again")

    def _bad_key(self, status: int) -> JudgeError:
        key = self.judge.keys[0]
        return JudgeError(f"{self.judge.base_url} refused the key ({status}); set {key} to one that is valid there")

    def _without_logprobs(self) -> JudgeError:
        return JudgeError(
            f"{self.judge.name} at {self.judge.base_url} gives no log-probabilities; use --option votes=5 to sample "
            "verdicts instead (that is another run: give it another --out, or none)"
        )

    def _told(self, answer: Answer) -> str:
        return f"({answer.status}): {self._short(spoken(answer.text))}"

    def _overhead(self) -> int:
        return TEMPLATE + most_tokens(self.judge.adds(self.prompt)) + (self.judge.max_tokens or 0)

    def _short(self, text: str) -> str:
        text = " ".join(self._scrub(text[:4000]).split())
        return repr(text if len(text) <= 200 else text[:200] + "…")

    def _scrub(self, text: str) -> str:
        return self.secrets.scrub(whole_characters(text))
