"""What a provider tells of a model before the first question: whether it is there, and which settings it takes.

The provider's list of models costs nothing. A server of the user's own may not have such a list. Then one question of
a few words is asked with the user's settings.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any

from comparo.errors import JudgeError
from comparo.judges.calls import Calls
from comparo.judges.hosted.caller import HostedCaller
from comparo.judges.hosted.settings import Hosted
from comparo.judges.openai.probing import QUESTION
from comparo.judges.openai.wire import Answer, NoAnswerError
from comparo.judges.protocol import Probe

SECONDS = 20.0  # that the provider has to tell of a model, connecting included


def survey(judge: Hosted, caller: HostedCaller, facts: list[tuple[str, str]]) -> tuple[list[tuple[str, str]], Probe]:
    """What is known of a model (`facts`) and what a question of a few words shows: by name, and as a sentence."""
    with Calls([caller], [QUESTION], judge) as calls:
        (answer,) = calls.answers()
    judge.dialect.written = answer.tokens_out or None
    form = "structured output" if judge.dialect.format else "text"
    found = [*facts, ("answers", f"verdicts as {form}" if judge.votes else "log-probabilities")]
    found.append(("effort", judge.effort or "the model's own"))
    if answer.tokens_reasoning:
        found.append(("reasoning", f"{answer.tokens_reasoning:,} tokens for a question of a few words"))
    if answer.failed:
        found.append(("trouble", str(answer.error)))
    sentence = f"{judge.name}: {', '.join(f'{name}: {finding}' for name, finding in found)}"
    if judge.price is not None:
        found.append(("price", judge.price.sentence()))
    tokens = answer.tokens_in + answer.tokens_out
    return found, Probe(sentence, asdict(judge.dialect), 1, tokens, answer.cost)


def describe(judge: Hosted, ask: Callable[[], Awaitable[Answer]]) -> dict[str, Any]:
    """The provider's words on a model, empty where it has none; a JudgeError where the model or the key is refused."""

    async def once() -> Answer:
        async with asyncio.timeout(SECONDS):
            return await ask()

    try:
        with ThreadPoolExecutor(1) as apart:  # the caller may have an event loop of its own, as notebooks do
            answer = apart.submit(asyncio.run, once()).result()
    except TimeoutError:
        return {}
    except NoAnswerError as problem:
        if problem.refused:
            raise JudgeError(f"there is no server at {judge.base_url} ({problem}); check base_url") from None
        return {}
    official = judge.base_url == judge.home
    if answer.status == 401 or "API_KEY_INVALID" in answer.text:
        raise JudgeError(
            f"{judge.base_url} refused the key ({answer.status}); set {judge.keys[0]} to one that is valid there"
        )
    if official and answer.status == 404:
        raise JudgeError(f"{judge.base_url} has no model {judge.model!r} (404); check the model")
    try:
        told = json.loads(answer.text) if answer.status < 300 else None
    except (ValueError, RecursionError):
        told = None
    return told if isinstance(told, dict) else {}
