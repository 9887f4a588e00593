"""Questions to a server that speaks OpenAI's API: what is sent, and what replies and refusals mean."""

import json
import math
import re
import time
from dataclasses import dataclass, field
from typing import Any

import comparo.judges.openai.verdicts as verdicts
from comparo.data.prompts import Prompt, Question
from comparo.errors import JudgeError
from comparo.judges.openai.complaints import Complaint, read_complaint, whole_characters
from comparo.judges.openai.settings import KEY, Settings, cost
from comparo.judges.openai.wire import Answer, NoAnswerError, Wire
from comparo.judges.protocol import Judgement

FORMS = 8  # in which a question is sent: the first, five with a part of `Dialect` changed, two with the prompt cut
TEMPLATE = 64  # tokens that a chat template may add to a prompt: SmolLM2's adds 30, with its system prompt
TOKENS = 10**9  # a count above this is an error of the server: no model reads as many
ANSWER = 2**24  # bytes of an answer that are read
TOKEN = 2**14  # further bytes for each token asked for: with 20 alternatives in indented JSON one takes 3,600


class _AnswerError(Exception):
    """Why a question has no answer."""


@dataclass
class Case:
    """A question, its prompt, and what was returned so far; `form` is where its request differs from the dialect."""

    question: Question
    text: str = ""
    cut: int = 0
    reply: str = ""
    tokens_in: int = 0
    tokens_out: int = 0
    counted: bool = True
    form: dict[str, Any] = field(default_factory=dict)
    each: dict[str, tuple[float, float, float] | str] = field(default_factory=dict)  # of several criteria

    @property
    def texts(self) -> list[str]:
        question = self.question
        return [question.first_text, question.second_text, question.context_text or ""]


class Caller:
    """Sends questions to the server and reads its answers."""

    def __init__(self, judge: Settings, prompt: Prompt) -> None:
        headers, self.secrets = judge.access()
        self.judge, self.prompt, self.dialect = judge, prompt, judge.dialect
        self.begun = judge.begins(prompt)
        self.max_tokens = max(judge.max_tokens, verdicts.label_tokens(prompt)) if self.begun else judge.max_tokens
        limit = ANSWER + TOKEN * self.max_tokens
        self.client = Wire(judge.base_url, headers, judge.timeout, judge.retries, limit, judge.waiting)
        self.graded = judge.graded and not verdicts.is_scale(prompt)
        self.added = judge.adds(prompt)

    async def answer(self, question: Question) -> Judgement | JudgeError:
        """The answer to a question, or its failure; a JudgeError is returned where no question can be answered."""
        start, case = time.perf_counter(), Case(question)
        p, mass, weight, error = math.nan, math.nan, 1.0, None
        try:
            self._write(case, self.judge.window)
            p, mass, weight = await (self._vote(case) if self.judge.votes else self._read(case))
        except JudgeError as problem:
            return JudgeError(self._scrub(str(problem)))
        except _AnswerError as problem:
            error = self._scrub(str(problem))
        tokens = (case.tokens_in, case.tokens_out)
        judgement = Judgement(
            question,
            p=p,
            mass=mass,
            weight=weight,
            reply=self._scrub(case.reply),
            tokens_in=tokens[0],
            tokens_out=tokens[1],
            seconds=time.perf_counter() - start,
            cost=cost(self.judge.price, *(tokens if case.counted else (0, 0))),
            cut=case.cut,
            error=error,
        )
        return self._told(case, judgement)

    def _told(self, case: Case, judgement: Judgement) -> Judgement:
        return judgement

    async def _read(self, case: Case) -> tuple[float, float, float]:
        """p and mass where the reply names a label or, if it was begun, at its next token."""
        choice = (await self._ask(case))[0]
        reply = verdicts.reply_text(choice)
        case.reply = _shown(reply)
        try:
            positions = verdicts.token_logprobs(choice)
            found = self._probability(case, positions)
        except ValueError as problem:
            raise _AnswerError(f"{problem}, of the reply {self._short(reply)}") from None
        if not positions and reply and not self.dialect.gives_logprobs:
            raise self._without_logprobs()
        self.dialect.gives_logprobs |= bool(positions)
        if found is None:
            named = " or ".join(self.prompt.labels)
            raise _AnswerError(f"the reply {self._short(reply)} does not name {named}")
        return *found, 1.0

    def _probability(self, case: Case, positions: verdicts.Positions) -> tuple[float, float] | None:
        """p and mass from the log-probabilities of a reply's tokens; None where it names no label."""
        return verdicts.read_logprobs(positions, self.prompt, begun=self.begun)

    async def _vote(self, case: Case) -> tuple[float, float, float]:
        """p, mass and weight from sampled verdicts."""
        replies: list[str] = []
        while (missing := self.judge.votes - len(replies)) > 0:
            several = self._put("n", case)
            choices = await self._ask(case, missing)
            replies += [verdicts.reply_text(choice) for choice in choices[:missing]]
            if several and len(choices) < missing:
                self.dialect.adopt("n", False)
        case.reply = "\n".join(map(_shown, replies))
        chat = self.judge.endpoint == "chat"
        if chat and any(replies) and not any(reply.lstrip().startswith("{") for reply in replies):
            self.dialect.adopt("response_format", False)
        found = self._verdict(case, replies)
        if found is None:
            ended = "; raise max_tokens" if choices[-1].get("finish_reason") == "length" else ""
            raise _AnswerError(f"no verdict in the reply {self._short(case.reply)}{ended}")
        return found

    def _verdict(self, case: Case, replies: list[str]) -> tuple[float, float, float] | None:
        """p, mass and weight from the words of replies; None where none of them is a verdict."""
        scale = verdicts.is_scale(self.prompt)
        read = verdicts.read_score if scale else verdicts.read_grade if self.graded else verdicts.read_verdict
        return verdicts.soften([read(reply, self.prompt) for reply in replies], scale or self.graded)

    async def _ask(self, case: Case, wanted: int = 1) -> list[dict[str, Any]]:
        """The choices that the server offers; a form of the question that it accepts is used for all later ones."""
        judge, dialect = self.judge, self.dialect
        route = "/chat/completions" if judge.endpoint == "chat" else "/completions"
        for _ in range(FORMS):
            body = self._body(case, wanted)
            try:
                answer = await self.client.post(route, body)
            except NoAnswerError as problem:
                if problem.refused and not dialect.answers:
                    raise JudgeError(f"there is no server at {judge.base_url} ({problem}); check base_url") from None
                if problem.lasting:
                    raise _AnswerError(str(problem)) from None
                tries = f"{judge.retries + 1} tries of {judge.timeout:g} s each"
                raise _AnswerError(f"no answer in {tries} ({str(problem).partition(':')[0]})") from None
            dialect.answers = True
            if answer.status >= 300:
                self._heed(answer, body, case)
                continue
            choices = self._choices(answer.text, case)
            for part, value in case.form.items():
                dialect.adopt(part, value)
            dialect.serves = True
            return choices
        raise _AnswerError(f"the server refused the question in {FORMS} forms")

    def _put(self, part: str, case: Case) -> Any:
        """The value of a part of the request: this question's own, else the dialect's."""
        return case.form.get(part, getattr(self.dialect, part))

    def _body(self, case: Case, wanted: int) -> dict[str, Any]:
        judge, answer = self.judge, self.prompt.answer
        body: dict[str, Any] = {"model": judge.model, self._put("max_tokens", case): self.max_tokens}
        if self._put("temperature", case):
            body["temperature"] = judge.temperature
        if judge.votes and wanted > 1 and self._put("n", case):
            body["n"] = wanted
        if judge.endpoint == "completion":
            body["prompt"] = f"{case.text}\n\n{answer}"
            return body if judge.votes else body | {"logprobs": self._put("top_logprobs", case)}
        body["messages"] = [{"role": "user", "content": case.text + self.added}]
        if self.begun:
            body["messages"].append({"role": "assistant", "content": answer})
            body |= {"add_generation_prompt": False, "continue_final_message": True}  # needed by vLLM, not by llama.cpp
        if not judge.votes:
            body |= {"logprobs": True, "top_logprobs": self._put("top_logprobs", case)}
        elif self._put("response_format", case):
            body["response_format"] = verdicts.reply_format(self.prompt, self.graded)
        return body

    def _heed(self, answer: Answer, body: dict[str, Any], case: Case) -> None:
        """Change the question as the server's complaint asks, so that it can be sent again, or raise what it means."""
        url, status = self.judge.base_url, answer.status
        if status < 400:
            raise self._redirected(answer)
        if status == 401:  # its words may hold parts of the key
            raise JudgeError(f"{url} refused the key (401); set {KEY} to one that is valid there")
        complaint, said = read_complaint(answer.text, case.text, case.texts), f"({status}): {self._short(answer.text)}"
        if status == 429 and "insufficient_quota" in complaint.codes:
            raise JudgeError(f"{url} has no credit left for this key {said}; top it up, then run this again")
        if status == 413 or (status in (400, 422) and complaint.too_long):
            return self._write(case, int(_tokens(case.text) * complaint.share) + self._overhead())
        if status in (400, 403, 422) and "logprobs" in body and self._about(complaint, case, "logprobs"):
            return self._ask_for_fewer(complaint, case, said)
        if status == 403 and not self.dialect.serves:
            raise JudgeError(f"{url} does not let this key use {self.judge.model!r} {said}; check {KEY} and the model")
        if status in (404, 405):
            raise JudgeError(f"{url} has no model {self.judge.model!r} {said}; check the model and base_url")
        if status in (400, 422):
            if (wish := complaint.wish(body)) is not None:
                return case.form.update([wish])
            if self.begun and self._about(complaint, case, "add_generation_prompt", "continue_final_message"):
                raise JudgeError(f"{url} does not go on with a reply that was begun {said}; drop prefill")
        raise _AnswerError(f"the server answered {said}")

    def _about(self, complaint: Complaint, case: Case, *names: str) -> bool:
        """Whether a complaint is certainly about a parameter: it names it, and not by repeating the question."""
        if any(name in told for name in names for told in complaint.names):
            return True
        asked = case.text.lower()
        return any(name in complaint.words and name not in asked for name in names)

    def _ask_for_fewer(self, complaint: Complaint, case: Case, said: str) -> None:
        """Ask for as many log-probabilities as the server gives; raise an error where it gives none."""
        most = self._put("top_logprobs", case)
        fewer = [int(number) for number in re.findall(r"\b1?\d\b", complaint.words) if 0 < int(number) < most]
        if fewer:
            case.form["top_logprobs"] = max(fewer)
        elif self.dialect.gives_logprobs:
            raise _AnswerError(f"the server answered {said}")
        else:
            raise self._without_logprobs()

    def _redirected(self, answer: Answer) -> JudgeError:
        url, where = self.judge.base_url, self._short(answer.location(self.judge.base_url))
        return JudgeError(
            f"{url} points to {where} ({answer.status}), where nothing was sent; "
            "set base_url to the address of the API itself"
        )

    def _overhead(self) -> int:
        return TEMPLATE + _tokens(self.added + self.prompt.answer) + self.max_tokens

    def _write(self, case: Case, window: int | None) -> None:
        """Write the prompt, cut to the window by an upper estimate of its tokens."""
        text = self.prompt.text(case.question)
        if window is not None:
            try:
                text, case.cut = self.prompt.fit(case.question, window - self._overhead(), _tokens)
            except ValueError as problem:
                raise _AnswerError(str(problem)) from None
        case.text = text.encode("utf-8", "replace").decode()  # a lone surrogate cannot be sent

    def _choices(self, text: str, case: Case) -> list[dict[str, Any]]:
        try:
            answer = json.loads(text)
        except (ValueError, RecursionError):
            case.counted = False
            raise _AnswerError(f"the answer is not JSON: {self._short(text)}") from None
        told = answer if isinstance(answer, dict) else {}
        counts = [_count(told.get("usage"), name) for name in ("prompt_tokens", "completion_tokens")]
        case.counted &= None not in counts
        case.tokens_in += counts[0] or 0
        case.tokens_out += counts[1] or 0
        choices = told.get("choices")
        if not isinstance(choices, list) or not choices or not all(isinstance(choice, dict) for choice in choices):
            raise _AnswerError(f"the answer has no choices: {self._short(text)}")
        return choices

    def _without_logprobs(self) -> JudgeError:
        where = f"{self.judge.name} at {self.judge.base_url}"
        return JudgeError(
            f"{where} gives no log-probabilities; use --option votes=5 to sample verdicts instead "
            "(that is another run: give it another --out, or none)"
        )

    def _short(self, text: str) -> str:
        text = " ".join(self._scrub(text[:4000]).split())
        return repr(text if len(text) <= 200 else text[:200] + "…")

    def _scrub(self, text: str) -> str:
        return self.secrets.scrub(whole_characters(text))


def _count(usage: Any, name: str) -> int | None:
    """A number of tokens; None where the server gives none, or an impossible one."""
    value = usage.get(name) if isinstance(usage, dict) else None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= TOKENS else None


def _shown(reply: str) -> str:
    """A reply as it is stored: no more of it than is read."""
    return reply if len(reply) <= verdicts.LONGEST else reply[: verdicts.LONGEST] + "…"


def _tokens(text: str) -> int:
    """An upper estimate of the tokens of a text: one per three bytes; English has about one per four."""
    return -(-len(text.encode("utf-8", "replace")) // 3)
