"""A server that answers as Anthropic's public API reference says: messages and refusals."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

from servers import Reply, Request, in_turn


def message(text: str | None, stop: str = "end_turn", thought: str = "", **more: Any) -> Reply:
    """A message with a text, and with a block of thinking before it where there is a thought."""
    content = [{"type": "thinking", "thinking": thought, "signature": "c2ln"}] if thought else []
    content += [] if text is None else [{"type": "text", "text": text}]
    usage = {"input_tokens": 100, "output_tokens": 8} | more.pop("usage", {})
    body = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-haiku-5-5", "content": content}
    return Reply(body | {"stop_reason": stop, "stop_sequence": None, "usage": usage} | more.pop("body", {}), **more)


def verdict(better: str, **more: Any) -> Reply:
    """A message in the structured output that was asked for."""
    return message(json.dumps({"better": better}), **more)


def refused(status: int, kind: str, text: str, **more: Any) -> Reply:
    """An error as the API tells it."""
    details = {"details": more.pop("details")} if "details" in more else {}
    body = {"type": "error", "error": {"type": kind, "message": text} | details, "request_id": "req_1"}
    return Reply(body, status=status, **more)


def claude(*script: Reply | Callable[[Request], Reply]) -> Callable[[Request], Reply]:
    """The replies to messages in turn, the last one ever after."""
    return in_turn(script)


def prefers_larger(request: Request) -> Reply:
    """Prefers the text with the higher number, surely where they differ by much."""
    content, labels = request.body["messages"][0]["content"], request.body["output_config"]["format"]["schema"]
    first, second, *others = numbers = [int(part.partition(".")[0]) for part in content.split("number ")[1:]]
    if others:
        order = sorted(zip(numbers, "ABCDEFGH", strict=False), reverse=True)
        return message(json.dumps({"order": ">".join(label for _, label in order)}))
    better, worse = labels["properties"]["better"]["enum"]
    return verdict(better if first - second + 2 * math.sin(7 * first + 3 * second) > 0 else worse)
