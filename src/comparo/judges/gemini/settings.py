"""What a user sets for Gemini, the request that follows from it, and whether a model takes it."""

from dataclasses import dataclass
from typing import Any, ClassVar

import comparo.judges.openai.verdicts as verdicts
from comparo.data.prompts import Prompt
from comparo.errors import JudgeError
from comparo.judges.hosted.settings import LABEL, NONE, VERDICT, Hosted

TOP = 20  # tokens whose log-probabilities are asked for: the most that Gemini's API allows
CANDIDATES = 8  # replies to one request: the most that Gemini's API allows


@dataclass(frozen=True, kw_only=True)
class GeminiSettings(Hosted):
    """Gemini, and how it is asked; `load` explains the options."""

    provider: ClassVar[str] = "gemini"
    package: ClassVar[str] = "google.genai"
    keys: ClassVar[tuple[str, ...]] = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
    home: ClassVar[str] = "https://generativelanguage.googleapis.com"
    version: ClassVar[str] = "/v1beta"
    address_variable: ClassVar[str] = "GOOGLE_GEMINI_BASE_URL"
    example: ClassVar[str] = "gemini-3.8-flash"
    priced: ClassVar[str] = "google"
    efforts: ClassVar[tuple[str, ...]] = ("minimal", "low", "medium", "high")

    @property
    def reply_tokens(self) -> int | None:
        """The most tokens of a reply, reasoning included; None: as many as the model can write."""
        if self.max_tokens is not None or self.effort != NONE:
            return self.max_tokens
        return VERDICT if self.votes else LABEL

    def config(self, prompt: Prompt, wanted: int = 1) -> dict[str, Any]:
        """The configuration of a request for so many replies, by the names of Google's library."""
        made: dict[str, Any] = {
            "max_output_tokens": self.reply_tokens and self.reply_tokens + self.further_tokens(prompt),
            "temperature": 0.0 if self.temperature is None and not self.votes else self.temperature,
        }
        if not self.votes:
            made |= {"response_logprobs": True, "logprobs": TOP}
        elif self.dialect.format:
            schema = verdicts.reply_format(prompt, self.grades(prompt))["json_schema"]["schema"]
            made |= {"response_mime_type": "application/json", "response_json_schema": schema}
        if wanted > 1 and self.dialect.several:
            made["candidate_count"] = min(wanted, CANDIDATES)
        if self.thinking is not None or self.effort == NONE:
            made["thinking_config"] = {"thinking_budget": self.thinking or 0}
        elif self.effort is not None:
            made["thinking_config"] = {"thinking_level": self.effort.upper()}
        return {name: value for name, value in made.items() if value is not None}

    def check(self, told: dict[str, Any]) -> list[tuple[str, str]]:
        """What Google's list of models says of the model; a JudgeError where the settings do not go with it."""
        actions, most = told.get("supported_actions"), told.get("output_token_limit")
        if isinstance(actions, list) and actions and "generateContent" not in actions:
            raise JudgeError(
                f"{self.name} does not write texts (it has {', '.join(map(str, actions))}); use another model"
            )
        if isinstance(most, int) and (self.reply_tokens or 0) > most:
            raise JudgeError(f"{self.name} writes {most} tokens at most, not {self.reply_tokens}; lower max_tokens")
        if told.get("thinking") is False and (self.thinking or self.effort not in (None, NONE)):
            raise JudgeError(f"{self.name} does not reason; drop effort and thinking")
        reasons = told.get("thinking")
        return [] if reasons is None else [("can reason", "yes" if reasons else "no")]
