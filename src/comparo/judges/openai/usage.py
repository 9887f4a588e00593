"""The tokens of an answer, as OpenAI's API counts them.

`prompt_tokens` holds `prompt_tokens_details.cached_tokens` (read from the server's cache, at a lower price) and
`.cache_write_tokens` (written to it, at a higher one); `completion_tokens` holds
`completion_tokens_details.reasoning_tokens`. None of them is counted twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from comparo.judges.replies import count


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one or more answers; `counted` is False where the server did not say all of them.

    >>> told = {"prompt_tokens": 90, "completion_tokens": 40, "completion_tokens_details": {"reasoning_tokens": 32}}
    >>> Usage.read(told) + Usage.read(told)
    Usage(tokens_in=180, tokens_out=80, cached=0, stored=0, reasoning=64, counted=True)
    >>> Usage.read({"prompt_tokens": -1}).counted
    False
    """

    tokens_in: int = 0
    tokens_out: int = 0
    cached: int = 0
    stored: int = 0
    reasoning: int = 0
    counted: bool = True

    @classmethod
    def read(cls, told: Any) -> Usage:
        """The tokens in the field `usage` of an answer; a part that is larger than its whole is not counted."""
        read, written = count(told, "prompt_tokens"), count(told, "completion_tokens")
        about = [
            told.get(f"{name}_tokens_details") if isinstance(told, dict) else None for name in ("prompt", "completion")
        ]
        cached = _part(about[0], "cached_tokens", read)
        stored = _part(about[0], "cache_write_tokens", (read or 0) - cached)
        reasoning = _part(about[1], "reasoning_tokens", written)
        return cls(read or 0, written or 0, cached, stored, reasoning, None not in (read, written))

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.tokens_in + other.tokens_in,
            self.tokens_out + other.tokens_out,
            self.cached + other.cached,
            self.stored + other.stored,
            self.reasoning + other.reasoning,
            self.counted and other.counted,
        )


def _part(told: Any, name: str, whole: int | None) -> int:
    part = count(told, name) or 0
    return part if part <= (whole or 0) else 0
