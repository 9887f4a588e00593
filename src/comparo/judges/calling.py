"""One call after another to a server that speaks OpenAI's API: what is sent, what its replies and refusals mean."""

from __future__ import annotations

import asyncio
import json
import math
import os
import re
import time
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from itertools import cycle
from queue import Empty, SimpleQueue
from ssl import PROTOCOL_TLS_CLIENT, SSLContext
from threading import Thread
from typing import TYPE_CHECKING, Any

from comparo.judges.judgement import JudgeError, Judgement
from comparo.judges.prices import cost
from comparo.judges.verdicts import (
    is_scale,
    read_grade,
    read_logprobs,
    read_score,
    read_verdict,
    reply_format,
    reply_text,
    soften,
    token_logprobs,
)
from comparo.prompts import Prompt, Question

if TYPE_CHECKING:
    from openai import AsyncOpenAI

    from comparo.judges.openai import OpenAIJudge

KEY, OPENAI = "OPENAI_API_KEY", "https://api.openai.com/v1"
TOP = 20  # tokens whose log-probabilities are asked for: the most that OpenAI gives
FORMS = 8  # ways in which a question is put before it counts as refused
TEMPLATE = 64  # tokens that a chat template may add to a prompt
GRACE = 10.0  # seconds that calls in flight have to come back where one has found that none can be answered
LANE = 8  # calls at once that share a pool of connections; every call searches its whole pool
TELEMETRY = "Lang Package-Version OS Arch Runtime Runtime-Version Async".split()  # what the SDK tells of this machine

_WINDOW = re.compile(r"context[ _](?:length|size|window)|max_model_len|(?:prompt|input|request) is too long")
_WISHES: dict[str, tuple[re.Pattern[str], object]] = {  # by part of the body: how a complaint names it, what to do then
    "max_tokens": (re.compile(r"max_completion_tokens"), "max_completion_tokens"),
    "temperature": (re.compile(r"temperature"), False),
    "response_format": (re.compile(r"response_format|schema|structured|grammar|guided"), False),
    "n": (re.compile(r"[`'\"]n\\?[`'\"]|\bone completion|\bmultiple (?:choices|completions)"), False),
}


class _AnswerError(Exception):
    """Why a question has no answer."""


@dataclass
class _Case:
    """A question, how it is put, and what came back so far."""

    question: Question
    text: str = ""
    cut: int = 0
    reply: str = ""
    tokens_in: int = 0
    tokens_out: int = 0


class Caller:
    """Puts questions to the server and reads what comes back."""

    def __init__(self, judge: OpenAIJudge, prompt: Prompt) -> None:
        key, login = os.environ.get(KEY, ""), judge.login or ""
        if not key and judge.base_url == OPENAI:
            raise JudgeError(f"{judge.name} needs a key; set {KEY}, or base_url for a server of your own")
        basic = b64encode(login.encode()).decode()
        secrets = (key, login, login.partition(":")[2], basic)
        self.secrets = [secret for secret in secrets if len(secret) > 5]  # shorter ones are words, such as "none"
        self.judge, self.prompt, self.dialect = judge, prompt, judge.dialect
        self.client = _client(judge, key or "none", {"Authorization": f"Basic {basic}"} if login else {})
        self.begun = judge.begins(prompt)
        self.graded = judge.graded and not is_scale(prompt)
        self.added = judge.adds(prompt)

    async def answer(self, question: Question) -> Judgement | JudgeError:
        """The answer to a question, whatever becomes of it; a JudgeError where no question can be answered."""
        start, case = time.perf_counter(), _Case(question)
        p, mass, weight, error = math.nan, math.nan, 1.0, None
        try:
            self._write(case, self.judge.window)
            p, mass, weight = await (self._vote(case) if self.judge.votes else self._read(case))
        except JudgeError as problem:
            return JudgeError(self._scrub(str(problem)))
        except _AnswerError as problem:
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
        """p and mass where the reply names a label or, if it was begun, at its next token."""
        choice = (await self._ask(case))[0]
        case.reply = reply_text(choice)
        try:
            positions = token_logprobs(choice)
            found = read_logprobs(positions, self.prompt, begun=self.begun)
        except ValueError as problem:
            raise _AnswerError(f"{problem}, of the reply {self._short(case.reply)}") from None
        if not positions and case.reply and not self.dialect.gives_logprobs:
            raise self._without_logprobs()
        self.dialect.gives_logprobs |= bool(positions)
        if found is None:
            named = " or ".join(self.prompt.labels)
            raise _AnswerError(f"the reply {self._short(case.reply)} does not name {named}")
        return *found, 1.0

    async def _vote(self, case: _Case) -> tuple[float, float, float]:
        """p, mass and weight from sampled verdicts."""
        replies: list[str] = []
        while (missing := self.judge.votes - len(replies)) > 0:
            several = self.dialect.n
            choices = await self._ask(case, missing)
            replies += [reply_text(choice) for choice in choices[:missing]]
            if several and len(choices) < missing:
                self.dialect.adopt("n", False)
        case.reply = "\n".join(replies)
        chat = self.judge.endpoint == "chat"
        if chat and any(replies) and not any(reply.lstrip().startswith("{") for reply in replies):
            self.dialect.adopt("response_format", False)
        scale = is_scale(self.prompt)
        read = read_score if scale else read_grade if self.graded else read_verdict
        found = soften([read(reply, self.prompt) for reply in replies], scale or self.graded)
        if found is None:
            ended = "; raise max_tokens" if choices[-1].get("finish_reason") == "length" else ""
            raise _AnswerError(f"no verdict in the reply {self._short(case.reply)}{ended}")
        return found

    async def _ask(self, case: _Case, wanted: int = 1) -> list[dict[str, Any]]:
        """The choices that the server offers, asked in the form that it takes."""
        from openai import APIConnectionError, APIStatusError

        judge, dialect = self.judge, self.dialect
        address = f"{judge.base_url}/{'chat/' if judge.endpoint == 'chat' else ''}completions"
        for _ in range(FORMS):
            body = self._body(case, wanted)
            try:
                text = await self.client.post(address, cast_to=str, body=body)
            except APIStatusError as error:
                dialect.answers = True
                self._heed(error.status_code, error.response.text, body, case)
            except APIConnectionError as error:
                kind, tries = type(error.__cause__).__name__, judge.retries + 1
                if kind in ("ConnectError", "ConnectTimeout") and not dialect.answers:
                    why = f"({error.__cause__})"
                    raise JudgeError(f"there is no server at {judge.base_url} {why}; check base_url") from None
                raise _AnswerError(f"no answer in {tries} tries of {judge.timeout:g} s each ({kind})") from None
            else:
                dialect.answers = True
                return self._choices(text, case)
        raise _AnswerError(f"the server refused the question in {FORMS} forms")

    def _body(self, case: _Case, wanted: int) -> dict[str, Any]:
        judge, dialect, answer = self.judge, self.dialect, self.prompt.answer
        body: dict[str, Any] = {"model": judge.model, dialect.max_tokens: judge.max_tokens}
        if dialect.temperature:
            body["temperature"] = judge.temperature
        if judge.votes and wanted > 1 and dialect.n:
            body["n"] = wanted
        if judge.endpoint == "completion":
            body["prompt"] = f"{case.text}\n\n{answer}"
            return body if judge.votes else body | {"logprobs": dialect.top_logprobs}
        body["messages"] = [{"role": "user", "content": case.text + self.added}]
        if self.begun:
            body["messages"].append({"role": "assistant", "content": answer})
            body |= {"add_generation_prompt": False, "continue_final_message": True}  # llama.cpp does without, vLLM not
        if not judge.votes:
            body |= {"logprobs": True, "top_logprobs": dialect.top_logprobs}
        elif dialect.response_format:
            body["response_format"] = reply_format(self.prompt, self.graded)
        return body

    def _heed(self, status: int, words: str, body: dict[str, Any], case: _Case) -> None:
        """Do as the server's complaint says, so that the question can be put again, or raise what it means."""
        url, plain = self.judge.base_url, words.lower()
        said = f"({status}): {self._short(words)}"
        if status == 401:  # its words may hold parts of the key
            raise JudgeError(f"{url} refused the key (401); set {KEY} to one that is valid there")
        if status == 413 or (status in (400, 422) and _WINDOW.search(plain)):
            return self._shorten(case, plain)
        if status in (400, 403, 422) and "logprobs" in plain and "logprobs" in body:
            fewer = [
                int(number) for number in re.findall(r"\b1?\d\b", plain) if 0 < int(number) < self.dialect.top_logprobs
            ]
            if not fewer:
                raise self._without_logprobs()
            return self.dialect.adopt("top_logprobs", max(fewer))
        if status == 403:
            raise JudgeError(f"{url} does not let this key use {self.judge.model!r} {said}; check {KEY} and the model")
        if status in (404, 405):
            raise JudgeError(f"{url} has no model {self.judge.model!r} {said}; check the model and base_url")
        if status in (400, 422):
            for part, (pattern, value) in _WISHES.items():
                if part in body and pattern.search(plain):
                    return self.dialect.adopt(part, value)
            if "add_generation_prompt" in plain or "continue_final_message" in plain:
                raise JudgeError(f"{url} does not go on with a reply that was begun {said}; drop prefill")
        raise _AnswerError(f"the server answered {said}")

    def _shorten(self, case: _Case, words: str) -> None:
        counts = [int(count) for count in re.findall(r"(\d{2,9}) (?:\w+ )?tokens", words)]
        share = 0.9 * min(counts) / max(counts) if len(counts) > 1 else 0.7
        self._write(case, int(_tokens(case.text) * max(share, 0.05)) + self._overhead())

    def _overhead(self) -> int:
        return TEMPLATE + _tokens(self.added + self.prompt.answer) + self.judge.max_tokens

    def _write(self, case: _Case, window: int | None) -> None:
        """The prompt, cut to the window by a careful estimate of its tokens."""
        text = self.prompt.text(case.question)
        if window is not None:
            try:
                text, case.cut = self.prompt.fit(case.question, window - self._overhead(), _tokens)
            except ValueError as problem:
                raise _AnswerError(str(problem)) from None
        case.text = text.encode("utf-8", "replace").decode()  # a lone surrogate cannot be sent

    def _choices(self, text: str, case: _Case) -> list[dict[str, Any]]:
        try:
            answer = json.loads(text)
        except (ValueError, RecursionError):
            raise _AnswerError(f"the answer is not JSON: {self._short(text)}") from None
        choices = answer.get("choices") if isinstance(answer, dict) else None
        if not isinstance(choices, list) or not choices or not all(isinstance(choice, dict) for choice in choices):
            raise _AnswerError(f"the answer has no choices: {self._short(text)}")
        usage = answer.get("usage")
        case.tokens_in += _count(usage, "prompt_tokens")
        case.tokens_out += _count(usage, "completion_tokens")
        return choices

    def _without_logprobs(self) -> JudgeError:
        where = f"{self.judge.name} at {self.judge.base_url}"
        return JudgeError(f"{where} gives no log-probabilities; use --votes 5 to sample verdicts instead")

    def _short(self, text: str) -> str:
        text = " ".join(self._scrub(text).split())
        return repr(text if len(text) <= 200 else text[:200] + "…")

    def _scrub(self, text: str) -> str:
        for secret in self.secrets:
            text = text.replace(secret, "***")
        return text


def work(callers: Sequence[Caller], questions: Iterable[Question], judge: OpenAIJudge) -> Iterator[Judgement]:
    """The answers to questions as they come, `concurrency` calls at a time, one until the server has answered.

    The calls are made in a thread with an event loop, which takes a question only when it can be sent at once: where
    the questions end, nothing but the calls in flight is left to wait for. A call that finds that none can be answered
    ends the questions too; the others in flight, which are paid for, have `GRACE` seconds to come back. Leaving ends
    all calls at once, whatever they wait for.
    """
    answered: SimpleQueue[Judgement | Exception | None] = SimpleQueue()
    started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[None] | None]] = Future()
    source, taking = iter(questions), ThreadPoolExecutor(1, thread_name_prefix="questions")

    async def call(caller: Caller, question: Question, taker: asyncio.Task[None] | None) -> None:
        try:
            outcome: Judgement | Exception = await caller.answer(question)
        except Exception as error:  # raised again where the answers are read
            outcome = error
        if taker is not None and isinstance(outcome, Exception):
            taker.cancel()
        answered.put(outcome)

    async def take(calls: asyncio.TaskGroup) -> None:
        free = asyncio.Semaphore(judge.concurrency)
        for caller in cycle(callers):
            await free.acquire()
            try:
                question = await asyncio.get_running_loop().run_in_executor(taking, next, source, None)
            except Exception as error:  # the questions', raised again where the answers are read
                answered.put(error)
                return
            if question is None:
                return
            made = calls.create_task(call(caller, question, asyncio.current_task()))
            made.add_done_callback(lambda _: free.release())
            if not judge.dialect.answers:
                await made

    async def serve() -> None:
        async with AsyncExitStack() as clients, asyncio.TaskGroup() as calls:
            for caller in callers:
                await clients.enter_async_context(caller.client)
            started.set_result((asyncio.get_running_loop(), asyncio.current_task()))
            calls.create_task(take(calls))

    def run() -> None:
        try:
            with suppress(asyncio.CancelledError):
                asyncio.run(serve())
        except Exception as error:  # raised again where the answers are read
            if not started.done():
                started.set_exception(error)
            answered.put(error)
        answered.put(None)

    thread = Thread(target=run, name=judge.name, daemon=True)
    thread.start()
    loop, whole = started.result()
    problem, patience = None, None
    try:
        while (outcome := _next(answered, patience)) is not None:
            if isinstance(outcome, Judgement):
                yield outcome
            elif problem is None:
                problem, patience = outcome, time.monotonic() + GRACE
        if problem is not None:
            raise problem
    finally:
        with suppress(RuntimeError):  # the loop has ended by itself
            if whole is not None:
                loop.call_soon_threadsafe(whole.cancel)
        thread.join()
        taking.shutdown(wait=False, cancel_futures=True)


def _next(answered: SimpleQueue[Judgement | Exception | None], until: float | None) -> Judgement | Exception | None:
    """What comes next; None at the end, or where nothing comes until then."""
    try:
        return answered.get(timeout=None if until is None else max(0.0, until - time.monotonic()))
    except Empty:
        return None


def _client(judge: OpenAIJudge, key: str, headers: dict[str, str]) -> AsyncOpenAI:
    try:
        from openai import AsyncOpenAI, DefaultAsyncHttpxClient, Omit
    except ImportError as error:
        raise ImportError("openai/ judges need OpenAI's library: pip install 'comparo[openai]'") from error
    unsaid: dict[str, Any] = {f"X-Stainless-{about}": Omit() for about in TELEMETRY}
    # to load certificates takes 70 ms a client; without any, an address that is not https cannot lead to one that is
    plain = SSLContext(PROTOCOL_TLS_CLIENT) if judge.base_url.startswith("http:") else None
    return AsyncOpenAI(
        api_key=key,
        base_url=judge.base_url,
        timeout=judge.timeout,
        max_retries=judge.retries,
        default_headers=unsaid | headers,
        http_client=DefaultAsyncHttpxClient(verify=plain) if plain else None,
    )


def _count(usage: Any, name: str) -> int:
    value = usage.get(name) if isinstance(usage, dict) else None
    return value if isinstance(value, int) and value > 0 else 0


def _tokens(text: str) -> int:
    """How many tokens a text has at most, near enough: three bytes of it make one."""
    return -(-len(text.encode("utf-8", "replace")) // 3)
