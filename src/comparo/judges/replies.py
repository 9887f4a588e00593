"""Small measures of what servers reply, for all judges that are behind an API."""

from typing import Any

from comparo.judges.openai.complaints import whole_characters
from comparo.judges.openai.verdicts import LONGEST

NAME = 200  # characters of a model's name that are kept
TOKENS = 10**9  # a count above this is an error of the server: no model reads as many


def count(usage: Any, name: str) -> int | None:
    """A number of tokens; None where the server gives none, or an impossible one."""
    value = usage.get(name) if isinstance(usage, dict) else None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= TOKENS else None


def model_of(told: Any) -> str:
    """The name of the model that an answer gives, by OpenAI's and Anthropic's field or by Gemini's; "" without one."""
    names = [told.get(field) for field in ("model", "modelVersion")] if isinstance(told, dict) else []
    return next((whole_characters(name[:NAME]) for name in names if isinstance(name, str)), "")


def shown(reply: str) -> str:
    """A reply as it is stored: no more of it than is read."""
    return reply if len(reply) <= LONGEST else reply[:LONGEST] + "…"


def most_tokens(text: str) -> int:
    """An upper estimate of the tokens of a text: one per three bytes; English has about one per four."""
    return -(-len(text.encode("utf-8", "replace")) // 3)
