"""What a user sets for Claude, the request that follows from it, and whether a model takes it."""

from dataclasses import dataclass
from typing import Any, ClassVar

import comparo.judges.openai.verdicts as verdicts
from comparo.data.prompts import Prompt
from comparo.errors import JudgeError
from comparo.judges.hosted.settings import NONE, VERDICT, Hosted, listed

REASONING = 16_000  # tokens of a reply with reasoning, as in the examples of Anthropic's documentation


@dataclass(frozen=True, kw_only=True)
class AnthropicSettings(Hosted):
    """Claude, and how it is asked; `load` explains the options."""

    provider: ClassVar[str] = "anthropic"
    package: ClassVar[str] = "anthropic"
    keys: ClassVar[tuple[str, ...]] = ("ANTHROPIC_API_KEY",)
    home: ClassVar[str] = "https://api.anthropic.com"
    version: ClassVar[str] = "/v1"
    address_variable: ClassVar[str] = "ANTHROPIC_BASE_URL"
    example: ClassVar[str] = "claude-haiku-5-5"
    priced: ClassVar[str] = "anthropic"
    efforts: ClassVar[tuple[str, ...]] = ("low", "medium", "high", "xhigh", "max")

    @property
    def reply_tokens(self) -> int:
        """The most tokens of a reply, reasoning included: the user's number, or as many as it needs."""
        if self.max_tokens is not None:
            return self.max_tokens
        if self.thinking is not None:
            return self.thinking + VERDICT
        return VERDICT if self.effort == NONE else REASONING

    def request(self, text: str, prompt: Prompt) -> dict[str, Any]:
        """The parameters of a request with this prompt."""
        sent: dict[str, Any] = {
            "model": self.model,
            "max_tokens": self.reply_tokens + self.further_tokens(prompt),
            "messages": [{"role": "user", "content": text + self.adds(prompt)}],
        }
        output: dict[str, Any] = {}
        if self.dialect.format:
            schema = verdicts.reply_format(prompt, self.grades(prompt))["json_schema"]["schema"]
            output["format"] = {"type": "json_schema", "schema": schema}
        if self.thinking is not None:
            sent["thinking"] = {"type": "enabled", "budget_tokens": self.thinking}
        elif self.effort == NONE:
            sent["thinking"] = {"type": "disabled"}
        elif self.effort is not None:
            sent["thinking"] = {"type": "adaptive"}
            output["effort"] = self.effort
        if output:
            sent["output_config"] = output
        if self.temperature is not None:
            sent["temperature"] = self.temperature
        return sent

    def check(self, told: dict[str, Any]) -> list[tuple[str, str]]:
        """What Anthropic's list of models says of the model; a JudgeError where the settings do not go with it."""
        if told.get("lifecycle") == "retired":
            raise JudgeError(f"{self.name} is retired; {self.base_url} does not serve it any more")
        most, able = told.get("max_tokens"), told.get("capabilities")
        if isinstance(most, int) and self.reply_tokens > most:
            raise JudgeError(f"{self.name} writes {most} tokens at most, not {self.reply_tokens}; lower max_tokens")
        if not isinstance(able, dict):
            return []
        efforts = [level for level in self.efforts if _takes(able, "effort", level) is not False]
        modes = {mode: _takes(able, "thinking", "types", mode) for mode in ("adaptive", "disabled", "enabled")}
        if _takes(able, "effort") is False:
            efforts = []
        self.dialect.format = _takes(able, "structured_outputs") is not False
        instead = f"use effort={listed(efforts)}" if efforts else "drop effort"
        if self.thinking is not None and modes["enabled"] is False:
            raise JudgeError(f"{self.name} takes no number of tokens for its reasoning; drop thinking and {instead}")
        if self.effort == NONE and modes["disabled"] is False:
            raise JudgeError(f"{self.name} always reasons; {instead} in place of effort=none")
        if self.effort not in (None, NONE) and (self.effort not in efforts or modes["adaptive"] is False):
            if efforts and modes["adaptive"] is not False:
                raise JudgeError(f"{self.name} has no effort={self.effort}; {instead}")
            raise JudgeError(f"{self.name} has no levels of effort; use thinking=TOKENS, effort=none or neither")
        modes_taken = [mode for mode, is_taken in modes.items() if is_taken]
        return [
            ("levels of effort", ", ".join(efforts) or "none"),
            ("kinds of thinking", ", ".join(modes_taken) or "none"),
        ]


def _takes(able: Any, *path: str) -> bool | None:
    """Whether the model is said to have an ability; None where nothing is said."""
    for name in path:
        able = able.get(name) if isinstance(able, dict) else None
    said = able.get("supported") if isinstance(able, dict) else None
    return said if isinstance(said, bool) else None
