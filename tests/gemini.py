"""A server that answers as the public reference of the Gemini API says: replies and refusals."""

from __future__ import annotations

import json
import math
from typing import Any

from servers import Reply, Request, likelier_first, logistic, numbers_in

USAGE = {"promptTokenCount": 100, "candidatesTokenCount": 8, "totalTokenCount": 108}


def replies(*texts: str | None, reason: str = "STOP", thought: str = "", **more: Any) -> Reply:
    """An answer with a candidate for each text, and a thought before each where there is one."""
    candidates = []
    for index, text in enumerate(texts):
        parts = [{"text": thought, "thought": True}] if thought else []
        parts += [] if text is None else [{"text": text}]
        candidates.append({"content": {"parts": parts, "role": "model"}, "finishReason": reason, "index": index})
    body = {
        "candidates": candidates,
        "usageMetadata": USAGE | more.pop("usage", {}),
        "modelVersion": "gemini-3.8-flash",
    }
    return Reply(body | more.pop("body", {}), **more)


def verdicts(*better: str, **more: Any) -> Reply:
    """An answer in the structured output that was asked for, with a candidate for each verdict."""
    return replies(*(json.dumps({"better": one}) for one in better), **more)


def likeliest(*positions: dict[str, float], **more: Any) -> Reply:
    """A reply with log-probabilities: for every token, the likeliest in its place; the first was sampled."""
    places = [
        [{"token": t, "tokenId": 1, "logProbability": math.log(p)} for t, p in place.items()] for place in positions
    ]
    made = replies("".join(next(iter(place)) for place in positions), **more)
    made.body["candidates"][0] |= {
        "avgLogprobs": -0.1,
        "logprobsResult": {
            "chosenCandidates": [place[0] for place in places],
            "topCandidates": [{"candidates": place} for place in places],
        },
    }
    return made


def refused(status: int, kind: str, text: str, *details: dict[str, Any], **more: Any) -> Reply:
    """An error as the API tells it."""
    return Reply({"error": {"code": status, "message": text, "status": kind, "details": [*details]}}, status, **more)


def prefers_larger(request: Request) -> Reply:
    """Prefers the text with the higher number, the more surely the more they differ."""
    first, second = numbers_in(request.body["contents"][0]["parts"][0]["text"])
    return likelier_first(likeliest, logistic(first - second))
