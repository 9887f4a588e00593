"""What a provider tells of a model before the first question: whether it is there, and which settings it takes.

The provider's list of models costs nothing. A server of the user's own may not have such a list: then nothing is
known before the first question, which goes alone.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from comparo.errors import JudgeError
from comparo.judges.hosted.settings import Hosted
from comparo.judges.openai.wire import Answer, NoAnswerError

SECONDS = 20.0  # that the provider has to tell of a model, connecting included


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
