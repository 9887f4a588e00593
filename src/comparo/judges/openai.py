"""openai/…: OpenAI's API, or any server that speaks it (vLLM, llama.cpp, Ollama, …), at `base_url`.

p is read from the log-probabilities of the reply's tokens or, where there are none, from a number of sampled verdicts.
The key comes from the environment and goes to the server alone: whatever is handed on is searched for it first.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import re
import time
from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import unquote, urlsplit

from comparo.judges.judgement import JudgeError, Judgement
from comparo.judges.labels import AROUND, label_probability, spells
from comparo.judges.prices import Price, cost, find_price, read_price
from comparo.judges.verdicts import grading, read_grade, read_verdict, reply_format, soften
from comparo.prompts import Prompt, Question

if TYPE_CHECKING:
    from openai import AsyncOpenAI

KEY, BASE_URL, OPENAI = "OPENAI_API_KEY", "OPENAI_BASE_URL", "https://api.openai.com/v1"
TOP = 20  # tokens whose log-probabilities are asked for: the most that OpenAI gives
FORMS = 8  # ways in which a question is put before it counts as refused
TEMPLATE = 64  # tokens that a chat template may add to a prompt

_WINDOW = re.compile(r"context[ _](?:length|size|window)|max_model_len|(?:prompt|input|request) is too long")
_SEVERAL = re.compile(r"[`'\"]n\\?[`'\"]|\bbest_of\b|\bone completion|\bmultiple (?:choices|completions)")
_FORM = re.compile(r"response_format|json_schema|structured|schema|grammar|guided")

logger = logging.getLogger(__name__)


@dataclass
class Dialect:
    """What the server turned out to take and to give; later questions are put accordingly."""

    limit: str = "max_tokens"
    temperature: bool = True
    several: bool = True
    form: bool = True
    top: int = TOP
    reached: bool = False
    logprobs: bool = False

    def adopt(self, what: str, value: object) -> None:
        """Go by something from now on."""
        if getattr(self, what) != value:
            logger.info("the server wants it otherwise: %s = %s from now on", what, value)
            setattr(self, what, value)


@dataclass(frozen=True)
class OpenAIJudge:
    """A model behind an API; `load` explains its options.

    >>> judge = load("gpt-4o-mini", votes=5)
    >>> judge.name, judge.price, judge.settings["temperature"]
    ('openai/gpt-4o-mini', (0.15, 0.6), 1.0)
    """

    model: str
    base_url: str
    login: str | None = field(repr=False)
    concurrency: int
    endpoint: Literal["chat", "completion"]
    votes: int
    graded: bool
    prefill: bool
    price: Price | None
    timeout: float
    retries: int
    window: int | None
    temperature: float
    max_tokens: int
    dialect: Dialect = field(default_factory=Dialect, repr=False, compare=False)

    @property
    def name(self) -> str:
        """openai/model."""
        return f"openai/{self.model}"

    @property
    def settings(self) -> dict[str, Any]:
        """What changes an answer."""
        names = "model base_url endpoint votes graded prefill window temperature max_tokens".split()
        return {name: getattr(self, name) for name in names}

    @property
    def ahead(self) -> int:
        """Twice as many questions as calls at once, so that no call waits for a question."""
        return 2 * self.concurrency

    def judge(self, questions: Iterable[Question], prompt: Prompt) -> Iterator[Judgement]:
        """The answers as they come, from `concurrency` calls at once; the first question goes alone."""
        caller = _Caller(self, prompt)
        yield from _work(caller.answer, caller.client, questions, self)


def load(
    model: str,
    *,
    base_url: str | None = None,
    concurrency: int = 32,
    endpoint: Literal["chat", "completion"] = "chat",
    votes: int = 0,
    graded: bool = False,
    prefill: bool = False,
    price: Price | str | None = None,
    timeout: float = 60.0,
    retries: int = 5,
    window: int | None = None,
    temperature: float | None = None,
    max_tokens: int | None = None,
) -> OpenAIJudge:
    """openai/MODEL at OpenAI, or at `base_url` (else the environment's OPENAI_BASE_URL), with OPENAI_API_KEY.

    `votes` samples so many verdicts in place of reading log-probabilities; `graded` asks for verdicts from A>>B to
    B>>A. `prefill` begins the reply for the model, where the server can go on with it. `price` is USD per million
    tokens read and written, `window` how many tokens a prompt may have. `timeout` is in seconds, for each of one call
    and its `retries`. `temperature` is 0 for log-probabilities and 1 for votes, `max_tokens` as many as a reply needs.

    >>> load("llama", base_url="http://user:secret@localhost:8000/v1").base_url
    'http://localhost:8000/v1'
    >>> load("llama", votes=-1)
    Traceback (most recent call last):
    ValueError: votes = -1 is not a whole number from 0 up
    """
    if not model:
        raise ValueError("openai/ needs a model, such as openai/gpt-4o-mini")
    if endpoint not in ("chat", "completion"):
        raise ValueError(f"endpoint = {endpoint!r} is not one of chat, completion")
    for name, value in (("graded", graded), ("prefill", prefill)):
        if not isinstance(value, bool):
            raise ValueError(f"{name} = {value!r} is not one of true, false")
    if (prefill and (votes or graded)) or (graded and endpoint == "completion"):
        raise ValueError("prefill is for log-probabilities (votes = 0) and graded for endpoint = chat; drop one of them")
    votes = _whole("votes", votes, 0) or int(graded)
    if temperature is None:
        temperature = 1.0 if votes else 0.0
    begun = prefill or endpoint == "completion"
    url, login = _address(base_url or os.environ.get(BASE_URL) or OPENAI)
    return OpenAIJudge(
        model=model,
        base_url=url,
        login=login,
        concurrency=_whole("concurrency", concurrency, 1),
        endpoint=endpoint,
        votes=votes,
        graded=graded,
        prefill=prefill,
        price=find_price(model) if price is None else read_price(price),
        timeout=_number("timeout", timeout, 0.001, math.inf),
        retries=_whole("retries", retries, 0),
        window=None if window is None else _whole("window", window, 1),
        temperature=_number("temperature", temperature, 0, 2),
        max_tokens=(1 if begun else 64 if votes else 8) if max_tokens is None else _whole("max_tokens", max_tokens, 1),
    )


@dataclass
class _Case:
    """A question, how it is put, and what came back so far."""

    question: Question
    text: str = ""
    cut: int = 0
    reply: str = ""
    tokens_in: int = 0
    tokens_out: int = 0


class _Unanswered(Exception):
    """Why a question has no answer."""


class _Caller:
    """Puts questions to the server and reads what comes back."""

    def __init__(self, judge: OpenAIJudge, prompt: Prompt) -> None:
        key = os.environ.get(KEY, "")
        if not key and judge.base_url == OPENAI:
            raise JudgeError(f"{judge.name} needs a key; set {KEY}, or base_url for a server of your own")
        self.judge, self.prompt, self.dialect = judge, prompt, judge.dialect
        self.client = _client(judge, key)
        self.secrets = [secret for secret in (key, judge.login or "") if len(secret) > 5]
        self.begun = judge.endpoint == "completion" or (judge.prefill and bool(prompt.answer))
        self.added = "" if self.begun else "\n\n" + (grading(prompt) if judge.graded else prompt.instruction)

    async def answer(self, question: Question) -> Judgement | JudgeError:
        """The answer to a question, whatever happens to it; a JudgeError where none can be had."""
        start, case = time.perf_counter(), _Case(question)
        p, mass, weight, error = math.nan, math.nan, 1.0, None
        try:
            self._write(case, self.judge.window)
            p, mass, weight = await (self._vote(case) if self.judge.votes else self._read(case))
        except JudgeError as problem:
            return JudgeError(self._scrub(str(problem)))
        except _Unanswered as problem:
            error = self._scrub(str(problem))
        return Judgement(
            question,
            p=p,
            mass=mass,
            weight=weight,
            reply=self._scrub(case.reply),
            tokens_in=case.tokens_in,
            tokens_out=case.tokens_out,
            seconds=time.perf_counter() - start,
            cost=cost(self.judge.price, case.tokens_in, case.tokens_out),
            cut=case.cut,
            error=error,
        )

    async def _read(self, case: _Case) -> tuple[float, float, float]:
        """p and mass from the log-probabilities where the reply names a label."""
        [choice, *_] = await self._ask(case)
        case.reply = _reply(choice)
        labels = self.prompt.labels
        try:
            positions = _positions(choice.get("logprobs"))
            if not positions and case.reply and not self.dialect.logprobs:
                raise JudgeError(self._without_logprobs())
            self.dialect.logprobs = self.dialect.logprobs or bool(positions)
            found = None
            for number, (token, likeliest) in enumerate(positions):
                if self.begun or any(_names(token, label, number) for label in labels):
                    if not all(logprob < 0.01 for _, logprob in likeliest):
                        raise _Unanswered(f"the reply {case.reply!r} has log-probabilities that are none")
                    found = label_probability(likeliest, labels)
                    break
        except (AttributeError, KeyError, TypeError) as problem:
            raise _Unanswered(f"the log-probabilities are not in OpenAI's form ({problem!r})") from None
        if found is None:
            raise _Unanswered(f"the reply {_short(case.reply)} does not name {labels[0]} or {labels[1]}")
        return *found, 1.0

    async def _vote(self, case: _Case) -> tuple[float, float, float]:
        """p, mass and weight from sampled verdicts."""
        replies: list[str] = []
        while (missing := self.judge.votes - len(replies)) > 0:
            several = self.dialect.several
            choices = await self._ask(case, missing)
            replies += [_reply(choice) for choice in choices[:missing]]
            if several and len(choices) < missing:
                self.dialect.adopt("several", False)
        case.reply = "\n".join(replies)
        if any(replies) and not any(reply.lstrip().startswith("{") for reply in replies):
            self.dialect.adopt("form", False)
        read = read_grade if self.judge.graded else read_verdict
        found = soften([read(reply, self.prompt) for reply in replies], self.judge.graded)
        if found is None:
            room = f"; were {self.judge.max_tokens} tokens (max_tokens) too few?" if choices[-1].get("finish_reason") == "length" else ""
            raise _Unanswered(f"no verdict in the reply {_short(case.reply)}{room}")
        return found

    async def _ask(self, case: _Case, wanted: int = 1) -> list[dict[str, Any]]:
        """The choices that the server offers, asked in the form that it takes."""
        from openai import APIConnectionError, APIStatusError, APITimeoutError

        judge = self.judge
        path = "/chat/completions" if judge.endpoint == "chat" else "/completions"
        for _ in range(FORMS):
            body = self._body(case, wanted)
            try:
                text = await self.client.post(path, cast_to=str, body=body)
            except APIStatusError as error:
                self.dialect.reached = True
                self._heed(error.status_code, error.response.text, body, case)
            except APITimeoutError:
                raise _Unanswered(f"no answer within {judge.timeout:g} s, in {judge.retries + 1} tries") from None
            except APIConnectionError as error:
                reason = type(error.__cause__).__name__
                if reason in ("ConnectError", "ConnectTimeout") and not self.dialect.reached:
                    raise JudgeError(f"there is no server at {judge.base_url}; check base_url or {BASE_URL}") from None
                raise _Unanswered(f"the connection broke off ({reason}) in {judge.retries + 1} tries") from None
            else:
                self.dialect.reached = True
                return _choices(text, case)
        raise _Unanswered(f"the server refused the question in {FORMS} forms")

    def _body(self, case: _Case, wanted: int) -> dict[str, Any]:
        judge, dialect, answer = self.judge, self.dialect, self.prompt.answer
        body: dict[str, Any] = {"model": judge.model, dialect.limit: judge.max_tokens}
        if dialect.temperature:
            body["temperature"] = judge.temperature
        if judge.endpoint == "completion":
            body["prompt"] = f"{case.text}\n\n{answer}"
        else:
            body["messages"] = [{"role": "user", "content": case.text + self.added}]
        if judge.endpoint == "chat" and self.begun:
            body["messages"].append({"role": "assistant", "content": answer})
            body |= {"add_generation_prompt": False, "continue_final_message": True}  # vLLM asks for these
        if not judge.votes:
            chat = judge.endpoint == "chat"
            return body | ({"logprobs": True, "top_logprobs": dialect.top} if chat else {"logprobs": dialect.top})
        if wanted > 1 and dialect.several:
            body["n"] = wanted
        if judge.endpoint == "chat" and dialect.form:
            body["response_format"] = reply_format(self.prompt, judge.graded)
        return body

    def _heed(self, status: int, words: str, body: dict[str, Any], case: _Case) -> None:
        """Put the next question as the server wants it, or raise what its complaint means."""
        judge, dialect, plain = self.judge, self.dialect, words.lower()
        if status == 401:
            raise JudgeError(f"{judge.base_url} refused the key (401); set {KEY} to one that is valid there")
        if status < 500 and status != 429:
            if status == 413 or _WINDOW.search(plain):
                return self._shorten(case, plain)
            if "logprobs" in plain and "logprobs" in body:
                fewer = [int(number) for number in re.findall(r"\b1?\d\b", plain) if 0 < int(number) < dialect.top]
                if not fewer:
                    raise JudgeError(self._without_logprobs())
                return dialect.adopt("top", max(fewer))
        said = f"({status}): {_short(words)}"
        if status in (403, 404, 405):
            raise JudgeError(f"{judge.base_url} has no model {judge.model!r} for this key {said}; check model, key and base_url")
        if status in (400, 422):
            if "max_completion_tokens" in plain and "max_tokens" in body:
                return dialect.adopt("limit", "max_completion_tokens")
            if "temperature" in plain and "temperature" in body:
                return dialect.adopt("temperature", False)
            if "response_format" in body and _FORM.search(plain):
                return dialect.adopt("form", False)
            if "n" in body and _SEVERAL.search(plain):
                return dialect.adopt("several", False)
            if "add_generation_prompt" in plain or "continue_final_message" in plain:
                raise JudgeError(f"{judge.base_url} cannot go on with a reply that was begun {said}; drop prefill")
        raise _Unanswered(f"the server refused {said}" if status < 500 else f"the server failed {said}")

    def _shorten(self, case: _Case, words: str) -> None:
        counts = [int(count) for count in re.findall(r"(\d{2,9}) (?:\w+ )?tokens", words)]
        share = 0.9 * min(counts) / max(counts) if len(counts) > 1 else 0.7
        self._write(case, int(_tokens(case.text) * max(share, 0.05)) + self._overhead())

    def _overhead(self) -> int:
        return TEMPLATE + _tokens(self.added + self.prompt.answer) + self.judge.max_tokens

    def _write(self, case: _Case, window: int | None) -> None:
        """The prompt, cut to a window by a careful estimate of its tokens."""
        if window is None:
            text = self.prompt.text(case.question)
        else:
            try:
                text, case.cut = self.prompt.fit(case.question, window - self._overhead(), _tokens)
            except ValueError as problem:
                raise _Unanswered(str(problem)) from None
        case.text = text.encode("utf-8", "replace").decode()

    def _without_logprobs(self) -> str:
        judge = self.judge
        return f"{judge.name} at {judge.base_url} gives no log-probabilities; use --votes 5 to sample verdicts instead"

    def _scrub(self, text: str) -> str:
        for secret in self.secrets:
            text = text.replace(secret, "***")
        return text
