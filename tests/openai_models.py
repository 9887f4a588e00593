"""Models behind OpenAI's chat completions, as its API reference and its own refusals describe them.

Sources, read in November 2026: developers.openai.com/api/docs/guides/reasoning (limits, `reasoning_tokens`),
…/guides/deployment-checklist (no temperature, top_p, logprobs unless the effort is none), …/guides/prompt-caching
(`cached_tokens`), and the words of refusals as users quote them (openai/openai-agents-python#2089,
experientiallabs/experiential#764, warmbly/warmbly#513).
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

from servers import Reply, Request, logistic, numbers_in, tokens


@dataclass(frozen=True)
class Model:
    """A model that prefers the text with the higher number; without `efforts` it does not reason.

    `thought` is how many tokens of reasoning a question takes, `cached` how many of 100 tokens read were cached.
    """

    name: str
    efforts: tuple[str, ...] = ()
    default: str = "none"
    thought: int = 300
    cached: int = 0
    most: int = 128_000
    structured: bool = True

    def __call__(self, request: Request) -> Reply:
        body = request.body
        if (refused := self._refused(body)) is not None:
            return refused
        if body["messages"][0]["content"].startswith("Count"):  # a last message of the assistant is a turn of its own
            return tokens({"One": 0.9, " four": 0.1})
        effort = body.get("reasoning_effort", self.default)
        thought = 0 if effort == "none" else self.thought
        limit = body.get("max_completion_tokens", body.get("max_tokens"))
        p = preference(body["messages"][0]["content"])
        kinds = _kinds(body["messages"][0]["content"])
        label = "A" if p > 0.5 else "B"
        said = json.dumps({"better": f"{kinds} {label}"}) if "response_format" in body and self.structured else label
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": said},
            "finish_reason": "stop",
            "logprobs": None,
        }
        written = thought + 8
        if limit < written:
            choice |= {"message": {"role": "assistant", "content": ""}, "finish_reason": "length"}
            written = thought = limit
        elif body.get("logprobs"):
            top = [{"token": name, "logprob": math.log(q), "bytes": None} for name, q in (("A", p), ("B", 1 - p))]
            top.sort(key=lambda entry: -entry["logprob"])
            choice["logprobs"] = {"content": [{**top[0], "top_logprobs": top}]}
        count = body.get("n", 1)
        usage = {
            "prompt_tokens": 100,
            "completion_tokens": count * written,
            "prompt_tokens_details": {"cached_tokens": self.cached, "audio_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": count * thought, "audio_tokens": 0},
        }
        choices = [{**choice, "index": index} for index in range(count)]
        return Reply({"object": "chat.completion", "model": self.name, "choices": choices, "usage": usage})

    def _refused(self, body: dict[str, Any]) -> Reply | None:
        effort = body.get("reasoning_effort")
        if self.efforts and "max_tokens" in body:
            return _refusal(
                "max_tokens",
                "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' "
                "instead.",
            )
        if not self.efforts and effort is not None:
            return _refusal("reasoning_effort", "Unrecognized request argument supplied: reasoning_effort")
        if effort is not None and effort not in self.efforts:
            known = ", ".join(f"'{value}'" for value in self.efforts)
            return _refusal(
                "reasoning_effort",
                f"Unsupported value: '{effort}' is not supported with the '{self.name}' model. Supported values are: "
                f"{known}.",
            )
        if body.get("max_completion_tokens", 0) > self.most:
            return _refusal(
                "max_completion_tokens",
                f"max_tokens is too large: {body['max_completion_tokens']}. This model supports at most {self.most} "
                "completion tokens.",
            )
        if (effort or self.default) != "none":
            if body.get("temperature", 1) != 1:
                return _refusal(
                    "temperature",
                    "Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) value "
                    "is supported.",
                )
            for name in ("logprobs", "top_logprobs", "top_p"):
                if name in body:
                    return _refusal(name, f"Unsupported parameter: '{name}' is not supported with this model.")
        return None


def preference(text: str) -> float:
    """P(the first of two texts is better), by their numbers."""
    first, second = numbers_in(text)[:2]
    return logistic(0.5 * (first - second))


def _kinds(text: str) -> str:
    """What the texts are called, "Text" in "Text A: …"."""
    return text.partition(" A:")[0].rpartition("\n")[2]


def _refusal(parameter: str, words: str) -> Reply:
    error = {"message": words, "type": "invalid_request_error", "param": parameter, "code": "unsupported_value"}
    return Reply({"error": error}, status=400)


LUNA = Model("gpt-6-luna", ("none", "low", "medium", "high", "xhigh", "max"), "medium")
ASTRA = Model("gpt-6-astra", ("low", "medium", "high", "xhigh"), "medium")
O3 = Model("o3", ("low", "medium", "high"), "medium")
OLDER = Model("gpt-4o-mini")
