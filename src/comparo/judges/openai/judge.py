"""openai/…: OpenAI's API, or any server that speaks it (vLLM, llama.cpp, Ollama, …), at `base_url`.

p is read from the log-probabilities of the reply's tokens or, where there are none, from a number of sampled verdicts.
The key comes from the environment and goes to the server alone: whatever is handed on is searched for it first.
"""

import asyncio
import math
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from itertools import cycle
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, Literal, Self
from urllib.parse import unquote, urlsplit

from comparo.data.joint import CriteriaPrompt
from comparo.data.prompts import Prompt, Question
from comparo.judges.openai.caller import Caller
from comparo.judges.openai.criteria import CriteriaCaller
from comparo.judges.openai.settings import OPENAI, Price, Settings, find_price, read_price
from comparo.judges.protocol import Judgement

BASE_URL = "OPENAI_BASE_URL"
SHARED = 8  # calls at once that share a client, whose every call searches all of its connections
GRACE = 10.0  # seconds that calls in flight have after an error, as many as a stopped run gives them (run/loop.py)

Outcome = Judgement | Exception | None  # an answer, what ends the questions, or the end


@dataclass(frozen=True)
class OpenAIJudge(Settings):
    """A model behind an API; `load` explains its options.

    >>> judge = load("gpt-4o-mini", votes=5)
    >>> judge.name, judge.price, judge.settings["temperature"]
    ('openai/gpt-4o-mini', (0.15, 0.6), 1.0)
    """

    def judge(self, questions: Iterable[Question], prompt: Prompt) -> Iterator[Judgement]:
        """The answers as they come, from `concurrency` calls at once; the first question goes alone."""
        clients = -(-self.concurrency // SHARED) if self.base_url.startswith("http:") else 1
        several = isinstance(prompt, CriteriaPrompt)
        callers = [CriteriaCaller(self, prompt) if several else Caller(self, prompt) for _ in range(clients)]
        with Calls(callers, questions, self) as calls:
            yield from calls.answers()


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
    """A judge behind OpenAI's API or one like it, with the key in the environment's OPENAI_API_KEY.

    Parameters
    ----------
    model
        The model's name at the server.
    base_url
        The server, by default the environment's OPENAI_BASE_URL, else OpenAI's.
    concurrency
        The most calls at a time.
    endpoint
        "chat", or "completion" for a model without a chat template.
    votes
        How many verdicts to sample in place of reading log-probabilities; 0 reads log-probabilities.
    graded
        Whether verdicts are from A>>B to B>>A.
    prefill
        Whether the beginning of the reply is sent too, where the server can go on with it.
    price
        USD per million tokens read and written; by default that of a known model.
    timeout
        Seconds for the whole of one try.
    retries
        How many more tries may follow; no pause before one is longer than `timeout`.
    window
        How many tokens a prompt may have.
    temperature
        By default 0 for log-probabilities and 1 for votes.
    max_tokens
        The most tokens of a reply, by default as many as it needs.

    Raises
    ------
    ValueError
        An option is outside its range, or two do not go together.

    Examples
    --------
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
        raise ValueError(
            "prefill is for log-probabilities (votes = 0) and graded for endpoint = chat; drop one of them"
        )
    votes = _number("votes", votes, 0, whole=True) or int(graded)
    if temperature is None:
        temperature = 1.0 if votes else 0.0
    if max_tokens is None:
        max_tokens = 1 if prefill or endpoint == "completion" else 64 if votes else 8
    url, login = _address(base_url or os.environ.get(BASE_URL) or OPENAI)
    return OpenAIJudge(
        model=model,
        base_url=url,
        login=login,
        concurrency=_number("concurrency", concurrency, 1, 1000, whole=True),
        endpoint=endpoint,
        votes=votes,
        graded=graded,
        prefill=prefill,
        price=find_price(model) if price is None else read_price(price),
        timeout=_number("timeout", timeout, 0.001),
        retries=_number("retries", retries, 0, whole=True),
        window=None if window is None else _number("window", window, 1, whole=True),
        temperature=_number("temperature", temperature, 0, 2),
        max_tokens=_number("max_tokens", max_tokens, 1, whole=True),
    )


def _address(url: str) -> tuple[str, str | None]:
    """A base URL without user and password, and these."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    odd = any(sign.isspace() or not sign.isprintable() for sign in host or "")
    if not host or odd or parts.scheme not in ("http", "https") or parts.query or parts.fragment:
        raise ValueError("base_url is not the address of an API; it looks like http://localhost:8000/v1")
    name = f"[{host}]" if ":" in host else host
    login = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
    clean = f"{parts.scheme}://{name}{f':{port}' if port else ''}{parts.path.rstrip('/')}"
    return clean, login if login != ":" else None


def _number(name: str, value: Any, least: float, most: float = math.inf, *, whole: bool = False) -> Any:
    """A number that a user gave, within its bounds."""
    kinds, meant = ((int,), "a whole number") if whole else ((int, float), "a number")
    if not isinstance(value, kinds) or isinstance(value, bool) or not least <= value <= most:
        raise ValueError(
            f"{name} = {value!r} is not {meant} from {least:g} {'up' if most == math.inf else f'to {most:g}'}"
        )
    return value if whole else float(value)


class Calls:
    """Calls to a server, `concurrency` of them at a time, in a thread with an event loop; leaving the block ends them.

    The first call goes alone until the server has answered. A question is taken only when it can be sent at once, so
    that after the last question only the calls in flight remain. An error that no question can escape ends the
    questions; the other calls in flight, which are paid for, have `GRACE` seconds to return. Leaving the block cancels
    all calls at once.
    """

    def __init__(self, callers: Sequence[Caller], questions: Iterable[Question], judge: Settings) -> None:
        self._callers, self._questions, self._judge = callers, iter(questions), judge
        self._outcomes: SimpleQueue[Outcome] = SimpleQueue()
        self._started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[None]]] = Future()
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="questions")  # the questions may make it wait
        self._thread = Thread(target=self._run, name=judge.name, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._loop, self._server = self._started.result()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(RuntimeError):  # the loop has ended by itself
            self._loop.call_soon_threadsafe(self._server.cancel)
        self._thread.join()
        self._reader.shutdown(wait=False, cancel_futures=True)

    def answers(self) -> Iterator[Judgement]:
        """The answers in the order in which they arrive; then the first error, if there was one, is raised."""
        error, deadline = None, None
        while (outcome := self._next(deadline)) is not None:
            if isinstance(outcome, Judgement):
                yield outcome
            elif error is None:
                error, deadline = outcome, time.monotonic() + GRACE
        if error is not None:
            raise error

    def _next(self, deadline: float | None) -> Outcome:
        """The next outcome; None at the end, and where there is none before the deadline."""
        try:
            return self._outcomes.get(timeout=None if deadline is None else max(0.0, deadline - time.monotonic()))
        except Empty:
            return None

    def _run(self) -> None:
        try:
            with suppress(asyncio.CancelledError):
                asyncio.run(self._serve())
        except Exception as error:  # raised again by `__enter__` or `answers`
            if not self._started.done():
                self._started.set_exception(error)
            self._outcomes.put(error)
        self._outcomes.put(None)

    async def _serve(self) -> None:
        async with AsyncExitStack() as clients, asyncio.TaskGroup() as calls:
            for caller in self._callers:
                await clients.enter_async_context(caller.client)
            self._taker = calls.create_task(self._take(calls))
            task = asyncio.current_task()
            assert task is not None
            self._started.set_result((asyncio.get_running_loop(), task))

    async def _take(self, calls: asyncio.TaskGroup) -> None:
        """Start a call for each question, the callers in turn, as soon as fewer than `concurrency` are in flight."""
        loop, free = asyncio.get_running_loop(), asyncio.Semaphore(self._judge.concurrency)
        for caller in cycle(self._callers):
            await free.acquire()
            try:
                question = await loop.run_in_executor(self._reader, next, self._questions, None)
            except Exception as error:  # of the questions; raised again by `answers`
                self._outcomes.put(error)
                return
            if question is None:
                return
            call = calls.create_task(self._call(caller, question))
            call.add_done_callback(lambda _: free.release())
            if not self._judge.dialect.answers:
                await call

    async def _call(self, caller: Caller, question: Question) -> None:
        try:
            outcome: Judgement | Exception = await caller.answer(question)
        except Exception as error:  # raised again by `answers`
            outcome = error
        if isinstance(outcome, Exception):
            self._taker.cancel()
        self._outcomes.put(outcome)
