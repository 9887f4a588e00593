"""Many calls at once to a server that speaks OpenAI's API."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AsyncExitStack, suppress
from itertools import cycle
from queue import Empty, SimpleQueue
from threading import Thread

from comparo.data.prompts import Question
from comparo.judges.openai.caller import Caller
from comparo.judges.openai.settings import Settings
from comparo.judges.protocol import Judgement

GRACE = 10.0  # seconds that calls in flight have to come back where one has found that none can be answered
LANE = 8  # calls at once that share a pool of connections; every call searches its whole pool


def work(callers: Sequence[Caller], questions: Iterable[Question], judge: Settings) -> Iterator[Judgement]:
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
