"""Sends questions to a server and reads votes or log-probabilities from its answers; handles refusals.

A provider's caller writes the request (`request`), reads an answer (`replies`) and interprets refusals (`heed`).
"""

import json
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

import comparo.judges.verdicts as verdicts
from comparo.data.criteria_prompt import CriteriaPrompt
from comparo.data.prompts import Prompt, Question
from comparo.data.wordings import LETTERS
from comparo.errors import JudgeError, Message
from comparo.judges.http import Answer, HttpClient, NoAnswerError, whole_characters
from comparo.judges.prices import Usage
from comparo.judges.protocol import Judgement, Probe, shared_call
from comparo.judges.refusals import FILTERED, NEEDS_TLS, Complaint, bad_key, no_credit, read_complaint, spoken
from comparo.judges.server_options import Settings

FORMS = 13  # most requests for a question: the first, five changes of `Dialect`, five smaller limits, two cuts
TEMPLATE = 64  # tokens that a chat template may add to a prompt: SmolLM2's adds 30, with its system prompt
ANSWER = 2**21  # bytes of an answer that are read for each reply in it: 25,000 tokens of reasoning have some 200,000
TOKEN = 2**14  # further bytes per token of the reply: with 20 alternatives in indented JSON a token takes 3,600
NAME = 200  # characters of a model's name that are kept
ONLY = ""  # the criterion of a prompt that has one


VERDICT = frozenset(  # all providers' request parameters that ask for a verdict
    "response_format logprobs top_logprobs format responseLogprobs responseMimeType responseJsonSchema".split()
)
LIMITS = ("max_tokens", "max_completion_tokens", "maxOutputTokens")


def freed(body: Mapping[str, Any], tokens: int) -> dict[str, Any]:
    """A request without the `VERDICT` parameters, and with a limit of at least `tokens`.

    >>> freed({"max_tokens": 5, "logprobs": True, "output_config": {"format": {}, "effort": "low"}}, 60)
    {'max_tokens': 60, 'output_config': {'effort': 'low'}}
    """
    found: dict[str, Any] = {}
    for name, value in body.items():
        if name in LIMITS:
            found[name] = max(value or 0, tokens)
        elif name not in VERDICT:
            found[name] = freed(value, tokens) if isinstance(value, Mapping) else value
    return found


class AnswerError(Exception):
    """Why a question has no answer."""


@dataclass(frozen=True, slots=True)
class Said:
    """One reply: its words, the log-probabilities of its tokens, and why it was withheld ("": it was not).

    `cut`: the token limit ended it; `reasoned`: the tokens before its words may be reasoning.
    """

    text: str = ""
    logprobs: Iterable[verdicts.TokenLogprobs] = ()
    withheld: str = ""
    cut: bool = False
    reasoned: bool = False


@dataclass
class Case:
    """A question, its prompt and the replies so far; `form` has the values that replace those of the dialect."""

    question: Question
    text: str = ""
    cut: int = 0
    replies: list[Said] = field(default_factory=list)
    model: str = ""
    usage: Usage = field(default_factory=Usage)
    form: dict[str, Any] = field(default_factory=dict)
    lineup: str = ""


class Caller(ABC):
    """Sends questions to the server and reads its answers."""

    def __init__(self, judge: Settings, prompt: Prompt) -> None:
        headers, self.secrets = judge.access()
        self.judge, self.prompt, self.dialect = judge, judge.shown(prompt), judge.dialect
        self.is_several = isinstance(self.prompt, CriteriaPrompt)
        self.parts = self.prompt.parts if isinstance(self.prompt, CriteriaPrompt) else {ONLY: self.prompt}
        self.added, self.begun = judge.adds(prompt), judge.begins(prompt)
        self.words_asked: int | None = None  # tokens of a reply in the model's own words; None: a verdict is asked for
        self.was_cut = False  # whether the token limit ended all replies before a verdict
        size = ANSWER * judge.samples(prompt) + (0 if judge.votes else TOKEN * (judge.limit(prompt) or 0))
        self.client = HttpClient(
            judge.base_url, headers, judge.patience, size, judge.retries, judge.waiting, self.annotate
        )

    @abstractmethod
    def request(self, case: Case, wanted: int) -> tuple[str, dict[str, Any]]:
        """The route and body of a request for `wanted` replies."""

    @abstractmethod
    def replies(self, answer: Any, case: Case) -> list[Said]:
        """Return the replies in an answer and add its tokens to the case; a KeyError or similar if it has none."""

    @abstractmethod
    def heed(self, answer: Answer, complaint: Complaint, case: Case, body: Mapping[str, Any]) -> bool:
        """Change the request in response to a refusal, or raise an error; False for an unknown refusal."""

    def annotate(self, answer: Answer) -> Answer:
        """Add headers to an answer whose body states whether and when to retry."""
        return answer

    def frees_room(self, case: Case) -> bool:
        """Lower the token limit after a refusal of the length; False if the prompt must be cut instead."""
        return False

    def asks_again(self, case: Case, replies: list[Said], wanted: int) -> bool:
        """Whether to discard the replies and to send another form of the question."""
        return False

    def limit(self, case: Case) -> int | None:
        """The most tokens of a reply; None: as many as the model can write."""
        return self.judge.limit(self.prompt)

    def put(self, part: str, case: Case) -> Any:
        """The value of a request parameter: that of `case.form`, else the dialect's."""
        return case.form.get(part, getattr(self.dialect, part))

    async def answer(self, question: Question) -> Judgement | JudgeError:
        """Return the judgement of a question, perhaps failed, or a JudgeError if no question can be answered."""
        start, case, wanted = time.perf_counter(), Case(question), self.judge.samples(self.prompt)
        p, mass, weight, error = math.nan, math.nan, 1.0, None
        each: verdicts.CriterionAnswers = {}
        try:
            self.write_prompt(case, self.judge.window)
            while (missing := wanted - len(case.replies)) > 0:
                replies = await self._ask(case, missing)
                if self.asks_again(case, replies, missing):
                    continue
                case.replies += replies[:missing]
                if all(said.withheld for said in case.replies):  # further votes would be withheld too, and cost as much
                    break
            each = self._vote(case) if self.judge.votes else self._tokens(case)
            p, mass, weight = next(iter(each.values()), None) or self._unclear(case)
        except JudgeError as problem:
            return JudgeError(self.secrets.scrub(str(problem)))
        except AnswerError as problem:
            error = self.secrets.scrub(str(problem))
        whole = Judgement(
            question,
            p=p,
            mass=mass,
            weight=weight,
            reply=self.secrets.scrub("\n".join(_stored(said.text) for said in case.replies)),
            tokens_in=case.usage.tokens_in,
            tokens_out=case.usage.tokens_out,
            seconds=time.perf_counter() - start,
            cost=case.usage.cost(self.judge.price),
            cut=case.cut,
            tokens_cached=case.usage.cached,
            tokens_reasoning=case.usage.reasoning,
            model=self.secrets.scrub(case.model),
            lineup=case.lineup,
            error=error,
        )
        if not self.is_several:
            return whole
        missed = error or f"the reply {self.secrets.short(whole.reply)} has no verdict on it"
        return shared_call(whole, {name: each.get(name) or missed for name in self.parts})

    def _tokens(self, case: Case) -> verdicts.CriterionAnswers:
        """p, mass and weight by criterion, where the reply names a label or, if it was begun, at its first token."""
        [said] = case.replies
        if said.withheld:
            self._unclear(case)
        if said.reasoned:  # the label may be one that its reasoning mentions
            raise self.without_logprobs("it reasons before it answers")
        found: verdicts.CriterionAnswers = {}
        try:
            positions = verdicts.token_positions(said.logprobs)
            own = verdicts.part_positions(positions, self.parts) if self.is_several else {ONLY: positions}
            for name in own:
                if read := verdicts.read_logprobs(own[name], self.parts[name], begun=self.begun):
                    p, mass, case.lineup = read
                    found[name] = p, mass, 1.0
        except ValueError as problem:
            raise AnswerError(f"{problem}, of the reply {self.secrets.short(said.text)}") from None
        if not positions and said.text:
            raise self.without_logprobs(f"it replied {self.secrets.short(said.text)}" * self.dialect.gives_logprobs)
        self.dialect.gives_logprobs |= bool(positions)
        return found

    def _vote(self, case: Case) -> verdicts.CriterionAnswers:
        """p, mass and weight by criterion, from sampled verdicts."""
        replies = [self.words(said) for said in case.replies]
        if not self.begun and any(replies) and not any(reply.lstrip().startswith("{") for reply in replies):
            self.dialect.adopt("response_format", False)
        if self.prompt.size > 2:
            case.lineup = verdicts.read_order(replies[0], self.prompt) or ""
            if not case.lineup:
                return {}
            return {ONLY: (float(case.lineup.startswith(LETTERS[0])), 1.0, 1.0)}
        said = [{ONLY: reply} for reply in replies]
        if self.is_several:
            said = [verdicts.part_words(reply, self.parts) for reply in replies]
        found = {}
        for name, part in self.parts.items():
            verdict = verdicts.soften([verdicts.read_verdict(words.get(name, ""), part) for words in said])
            if verdict is not None:
                found[name] = verdict
        return found

    def words(self, said: Said) -> str:
        """The words of a reply that may have a verdict."""
        return "" if said.withheld else said.text

    def _unclear(self, case: Case) -> NoReturn:
        for said in case.replies:
            if said.withheld:
                raise AnswerError(said.withheld)
        reply = self.secrets.short("\n".join(said.text for said in case.replies))
        if not self.judge.votes:
            raise AnswerError(f"the reply {reply} does not name {' or '.join(self.prompt.labels)}")
        remedy = ""
        if any(said.cut for said in case.replies):
            self.was_cut = all(said.cut for said in case.replies)
            limit, reasons = self.limit(case), self.judge.reasons
            at = "" if limit is None else f" at {limit:,} tokens{' with its reasoning' if reasons else ''}"
            remedy = f", cut{at}; raise max_tokens{', or lower effort' if reasons else ''}"
        raise AnswerError(f"no verdict in the reply {reply}{remedy}")

    async def write(self, text: str, tokens: int) -> Probe:
        """A reply to a text in the model's own words; a JudgeError where there is none."""
        self.words_asked, self.added, self.begun = tokens, "", False
        case = Case(Question(None, None), text)
        async with self.client.connections:
            try:
                (said, *_) = await self._ask(case, 1)
            except AnswerError as problem:
                raise JudgeError(self.secrets.scrub(str(problem))) from None
        usage = case.usage
        read = usage.tokens_in + usage.tokens_out
        return Probe(self.secrets.scrub(said.text), {}, calls=1, tokens=read, cost=usage.cost(self.judge.price))

    async def _ask(self, case: Case, wanted: int) -> list[Said]:
        """Return the server's replies; the dialect adopts the form of the question that the server accepts."""
        judge, dialect = self.judge, self.dialect
        for _ in range(FORMS):
            route, body = self.request(case, wanted)
            body = body if self.words_asked is None else freed(body, self.words_asked)
            try:
                answer = await self.client.ask("POST", route, body)
            except NoAnswerError as problem:
                if problem.refused and not dialect.answers:
                    raise problem.no_server(judge.base_url) from None
                if problem.lasting:
                    raise AnswerError(str(problem)) from None
                tries = f"{judge.retries + 1} tries of {judge.patience:g} s each"
                raise AnswerError(f"no answer in {tries} ({str(problem).partition(':')[0]})") from None
            dialect.answers = True
            if answer.status < 300:
                replies = self._read(answer.text, case)
                for part, value in case.form.items():
                    dialect.adopt(part, value)
                dialect.serves = True
                return replies
            self._refused(answer, case, body)
        raise AnswerError(f"the server refused the question in {FORMS} forms")

    def _read(self, text: str, case: Case) -> list[Said]:
        try:
            answer = json.loads(text)
        except (ValueError, RecursionError):
            case.usage += Usage(counted=False)
            raise AnswerError(f"the answer is not JSON: {self.secrets.short(text)}") from None
        case.model = _model_name(answer)
        try:
            return self.replies(answer, case)
        except (AttributeError, KeyError, IndexError, TypeError, ValueError):
            raise AnswerError(f"the answer has no reply in it: {self.secrets.short(text)}") from None

    def _refused(self, answer: Answer, case: Case, body: Mapping[str, Any]) -> None:
        """Change the request in response to a refusal, or raise the error that it means."""
        url, status, model, said = self.judge.base_url, answer.status, self.judge.model, self.quoted(answer)
        if status < 400:
            where = self.secrets.short(answer.location(url))
            remedy = "set base_url to the address of the API itself"
            raise JudgeError(f"{url} points to {where} ({status}), where nothing was sent; {remedy}")
        if status == 401:
            raise self.bad_key(status)
        texts = (*case.question.texts, case.question.context_text or "")
        complaint = read_complaint(answer.text, case.text, texts)
        if not self.dialect.serves and any(words in complaint.words for words in NEEDS_TLS):
            raise JudgeError(f"{url} takes no questions without TLS {said}; begin base_url with https://")
        if complaint.is_unpaid(status):
            raise self.no_credit(answer)
        if complaint.is_filter:
            raise AnswerError(f"{FILTERED} the question {said}")
        if status == 413 or (status in (400, 422) and (complaint.too_long or complaint.too_many)):
            if self.frees_room(case):
                return None
            if status == 413 or complaint.too_long:
                return self.write_prompt(case, int(most_tokens(case.text) * complaint.share) + self._overhead())
        if self.heed(answer, complaint, case, body):
            return None
        if status in (404, 405):
            raise JudgeError(f"{url} has no model {model!r} {said}; check the model and base_url")
        if status == 403 and not self.dialect.serves:
            key = self.judge.keys[0]
            raise JudgeError(f"{url} does not let this key use {model!r} {said}; check {key} and the model")
        raise AnswerError(f"the server answered {said}")

    def unwanted(self, option: str, answer: Answer, remedy: str) -> JudgeError:
        """The error for an option that the model refuses."""
        return JudgeError(f"{self.judge.name} does not take this {option} {self.quoted(answer)}; {remedy}")

    def no_credit(self, answer: Answer) -> JudgeError:
        return no_credit(self.judge.base_url, self.quoted(answer))

    def bad_key(self, status: int) -> JudgeError:
        return bad_key(self.judge.base_url, status, self.judge.keys[0])

    def without_logprobs(self, why: str = "") -> Exception:
        """The error for a server, or for one of its answers, without log-probabilities."""
        where = f"{self.judge.name} at {self.judge.base_url}"
        if self.dialect.gives_logprobs:
            return AnswerError(f"{where} gives no log-probabilities for this question{f': {why}' if why else ''}")
        remedy = Message("use {option.votes:5} to sample verdicts instead (that is another run, with another {out})")
        return JudgeError(f"{where} gives no log-probabilities{f' ({why})' if why else ''}; " + remedy)

    def quoted(self, answer: Answer) -> str:
        """The status and words of a refusal, without secrets."""
        return f"({answer.status}): {self.secrets.short(spoken(answer.text))}"

    def _overhead(self) -> int:
        return TEMPLATE + most_tokens(self.added + self.prompt.answer) + self.judge.reserved

    def write_prompt(self, case: Case, window: int | None) -> None:
        """Write the prompt, cut to the window by an upper estimate of its tokens."""
        text = self.prompt.text(case.question)
        if window is not None:
            try:
                text, case.cut = self.prompt.fit(case.question, window - self._overhead(), most_tokens)
            except ValueError as problem:
                raise AnswerError(str(problem)) from None
        case.text = text.encode("utf-8", "replace").decode()  # a lone surrogate cannot be sent


def most_tokens(text: str) -> int:
    """An upper estimate of the tokens of a text: one per three bytes; English has about one per four."""
    return -(-len(text.encode("utf-8", "replace")) // 3)


def _stored(reply: str) -> str:
    return reply if len(reply) <= verdicts.LONGEST else reply[: verdicts.LONGEST] + "…"


def _model_name(answer: Any) -> str:
    """The model's name in an answer, from `model` (OpenAI, Anthropic) or `modelVersion` (Gemini); "" without one."""
    name = answer.get("model", answer.get("modelVersion")) if isinstance(answer, dict) else None
    return whole_characters(name[:NAME]) if isinstance(name, str) else ""
