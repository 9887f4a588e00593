"""A judge behind a server: many calls at a time, in a thread of their own, and a probe before the first.

A probe is one question of a few words with the judge's own settings, and a second one if the reply is begun. A refused
request costs nothing; as for any question, `caller` then changes the request.
"""

import asyncio
import math
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AsyncExitStack, suppress
from dataclasses import asdict, dataclass, replace
from itertools import cycle
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Self

from comparo.data.prompts import Prompt, Question, criterion_prompt
from comparo.errors import JudgeError
from comparo.judges.batches import SHARE
from comparo.judges.caller import Caller
from comparo.judges.protocol import GRACE, Judgement, Probe
from comparo.judges.server_options import Settings

SHARED = 8  # calls in flight per client: every call searches all connections of its client
QUESTION = Question("7", "3", None, "This is number 7.", "This is number 3.")
PROMPT = criterion_prompt("larger", kind="Number")
# A model that continues the beginning says "four"; one that does not see it says "One".
COUNTING = Prompt("Count from one to six in words.{first}{second}", ("four", "One"), "One, two, three,")
CLEAR = 0.1  # least mass of "four" and "One" for a conclusion

Findings = list[tuple[str, str]]  # a property of the server or model, and its value in words
Outcome = Judgement | Exception | None  # an answer, an error that ends the questions, or the end


class Calls:
    """Calls to a server, `concurrency` of them at a time, in a thread with an event loop; a `with` block.

    The calls are made one by one until the server has answered. A question is taken only when it can be sent at once,
    so that after the last question only the calls in flight remain. After an error that every question would have, no
    question is taken; the other calls in flight, which are paid for, have `GRACE` seconds to return. Leaving the block
    cancels all calls at once.
    """

    def __init__(self, callers: Sequence[Caller], questions: Iterable[Question], judge: Settings) -> None:
        self._callers, self._questions, self._judge = callers, iter(questions), judge
        self._outcomes: SimpleQueue[Outcome] = SimpleQueue()
        self._started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[None]]] = Future()
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="questions")  # the next question may block
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
        """Yield the answers as they arrive; then raise the first error, if there was one."""
        error, deadline = None, None
        while (outcome := self._next(deadline)) is not None:
            if isinstance(outcome, Judgement):
                yield outcome
            elif error is None:
                error, deadline = outcome, time.monotonic() + GRACE
        if error is not None:
            raise error

    def _next(self, deadline: float | None) -> Outcome:
        """The next outcome; None at the end or after the deadline."""
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
                await clients.enter_async_context(caller.client.connections)
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


@dataclass(frozen=True, kw_only=True)
class ServerJudge(Settings):
    """A model behind a server; each provider's `load` explains the options."""

    def caller(self, prompt: Prompt) -> Caller:
        """The `Caller` that sends questions with this prompt."""
        raise NotImplementedError

    def judge(self, questions: Iterable[Question], prompt: Prompt) -> Iterator[Judgement]:
        """Yield the answers as they arrive, from `concurrency` calls at a time; the first question goes alone."""
        clients = -(-self.concurrency // SHARED) if self.base_url.startswith("http:") else 1
        with Calls([self.caller(prompt) for _ in range(clients)], questions, self) as calls:
            yield from calls.answers()

    def ask_once(self, prompt: Prompt, question: Question) -> tuple[Judgement, bool]:
        """Return the answer to one question, and whether the token limit cut the reply."""
        caller = self.caller(prompt)
        with Calls([caller], [question], self) as calls:
            (answer,) = calls.answers()
        return answer, caller.was_cut

    def write(self, text: str, tokens: int) -> Probe:
        """Return the model's own reply to a text, with a limit of at least `tokens`; a JudgeError without a reply."""
        return asyncio.run(self.caller(Prompt("{first}{second}")).write(text, tokens))

    def at_batch_price(self) -> Self:
        """The same judge with the price of a batch."""
        return self if self.price is None else replace(self, price=self.price.times(SHARE))

    def probe(self) -> Probe:
        """Ask one or two questions of a few words with the judge's settings; a JudgeError names the remedy."""
        self.ready()
        if self.dialect.serves:  # it has answered in this process, such as in an audition
            return self.probed(self.findings(), [])
        answer, was_cut = replace(self, votes=min(self.votes, 1)).ask_once(PROMPT, QUESTION)
        if was_cut and self.max_tokens is not None:
            raise JudgeError(
                f"{self.name} uses up max_tokens = {self.max_tokens} before it answers a question of a few words; "
                "raise it, or leave it out"
            )
        self.dialect.written = answer.tokens_out or None
        answers, found = [answer], self.findings()
        if self.begins(COUNTING):
            answers.append(self.ask_once(COUNTING, Question("", ""))[0])
            if goes_on(answers[-1]) is False:
                raise JudgeError(f"{self.base_url} does not go on with a reply that was begun; drop prefill")
            found.append(("goes on with" if goes_on(answers[-1]) else "unclear with", "a reply that was begun"))
        if answer.failed:
            found.append(("trouble:", str(answer.error)))
        return self.probed(found, answers)

    def survey(self) -> tuple[Findings, Probe]:
        """The findings of a probe with the judge's settings, followed by the price, and the `Probe`."""
        probe, price = self.probe(), self.price
        return self.findings() + ([] if price is None else [("price", price.sentence())]), probe

    def findings(self) -> Findings:
        """The properties of the server and model that the answers so far have shown."""
        dialect = self.dialect
        if self.votes:
            found = [("verdicts", "as structured output" if dialect.response_format else "as text")]
        else:
            found = [("log-probabilities", f"of {dialect.top_logprobs} tokens" if dialect.gives_logprobs else "none")]
        if effort := self.effort or dialect.effort:
            found.append(("effort", effort))
        elif self.reasons:
            found.append(("reasons", "before it answers"))
        return found

    def probed(self, found: Findings, answers: list[Judgement]) -> Probe:
        """The `Probe` of these findings, with the calls, tokens and cost of the answers."""
        costs = [answer.cost for answer in answers if answer.tokens_in or answer.tokens_out]
        return Probe(
            f"{self.name}: {', '.join(map(' '.join, found))}",
            asdict(self.dialect),
            len(answers),
            sum(answer.tokens_in + answer.tokens_out for answer in answers),
            math.nan if self.price is None else sum(costs),
        )


def goes_on(answer: Judgement) -> bool | None:
    """Whether a model continued the beginning of its reply to `COUNTING`; None below a mass of `CLEAR`.

    >>> [goes_on(Judgement(Question("", ""), p=p, mass=0.9)) for p in (0.99, 0.01)]
    [True, False]
    """
    return answer.p > 0.5 if answer.mass >= CLEAR else None
