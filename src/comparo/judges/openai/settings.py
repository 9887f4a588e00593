"""What a user sets for a server that speaks OpenAI's API, and what the server was found to accept."""

import logging
import math
import os
import re
from base64 import b64encode
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

from comparo.data.prompts import Prompt
from comparo.errors import JudgeError
from comparo.judges.openai.complaints import Secrets
from comparo.judges.openai.verdicts import grading, is_scale
from comparo.judges.openai.wire import Waiting, need_client

KEY, OPENAI = "OPENAI_API_KEY", "https://api.openai.com/v1"
ACCOUNT = {"OPENAI_ORG_ID": "OpenAI-Organization", "OPENAI_PROJECT_ID": "OpenAI-Project"}
TOP = 20  # tokens whose log-probabilities are asked for: the most that OpenAI's API allows

logger = logging.getLogger(__name__)
Price = tuple[float, float]

# OpenAI's list prices of November 2026 in USD per million tokens read and written, for standard processing, without
# discounts for cached prompts or batches. Prices change: the user gives those that are missing or out of date.
PRICES: dict[str, Price] = {
    "gpt-5.4": (2.50, 15.00),
    "gpt-5.4-mini": (0.75, 4.50),
    "gpt-5.2": (1.75, 14.00),
    "gpt-5.1": (1.25, 10.00),
    "gpt-5": (1.25, 10.00),
    "gpt-5-mini": (0.25, 2.00),
    "gpt-5-nano": (0.05, 0.40),
    "gpt-4.1": (2.00, 8.00),
    "gpt-4.1-mini": (0.40, 1.60),
    "gpt-4.1-nano": (0.10, 0.40),
    "gpt-4o": (2.50, 10.00),
    "gpt-4o-2024-05-13": (5.00, 15.00),
    "gpt-4o-mini": (0.15, 0.60),
    "gpt-4-turbo": (10.00, 30.00),
    "gpt-4-0125-preview": (10.00, 30.00),
    "gpt-4-1106-preview": (10.00, 30.00),
    "gpt-4": (30.00, 60.00),
    "gpt-3.5-turbo": (0.50, 1.50),
    "gpt-3.5-turbo-instruct": (1.50, 2.00),
    "davinci-002": (2.00, 2.00),
    "babbage-002": (0.40, 0.40),
    "o1": (15.00, 60.00),
    "o3": (2.00, 8.00),
    "o3-mini": (1.10, 4.40),
    "o4-mini": (1.10, 4.40),
}


def find_price(model: str) -> Price | None:
    """The price of a model, of a dated version by the model's name; None where the table has none.

    >>> find_price("gpt-4o-mini-2024-07-18")
    (0.15, 0.6)
    >>> find_price("gpt-4o-realtime")
    """
    fitting = [name for name in PRICES if re.fullmatch(re.escape(name) + r"(-\d[\d-]*)?", model)]
    return PRICES[max(fitting, key=len)] if fitting else None


def read_price(value: object) -> Price:
    """A price as a user gives it: two numbers, or a text such as "0.15,0.60"; "0,0" for a server that is free.

    >>> read_price("0.15,0.60"), read_price("0,0")
    ((0.15, 0.6), (0.0, 0.0))
    >>> read_price("cheap")
    Traceback (most recent call last):
    ValueError: price = 'cheap' is not two numbers, USD per million tokens read and written, such as 0.15,0.60
    """
    parts = value.split(",") if isinstance(value, str) else value
    try:
        read, written = (float(part) for part in parts)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        read = written = math.nan
    if not (0 <= read < math.inf and 0 <= written < math.inf):
        raise ValueError(
            f"price = {value!r} is not two numbers, USD per million tokens read and written, such as 0.15,0.60"
        )
    return read, written


def cost(price: Price | None, tokens_in: int, tokens_out: int) -> float:
    """What the tokens cost in USD; nan where the price is unknown, or a paid model's tokens were not counted.

    >>> cost((0.15, 0.60), 1000, 2), cost((0.15, 0.60), 0, 0), cost((0.0, 0.0), 0, 0)
    (0.0001512, nan, 0.0)
    """
    if price == (0, 0):
        return 0.0
    if price is None or not (tokens_in or tokens_out):
        return math.nan
    return (tokens_in * price[0] + tokens_out * price[1]) / 1e6


class Access(NamedTuple):
    """The headers to send, and the secrets among them."""

    headers: dict[str, str]
    secrets: Secrets


@dataclass
class Dialect:
    """What the server was found to accept (by the names of OpenAI's API) and to give; used for later questions."""

    max_tokens: str = "max_tokens"
    temperature: bool = True
    response_format: bool = True
    n: bool = True
    top_logprobs: int = TOP
    answers: bool = False
    serves: bool = False
    gives_logprobs: bool = False

    def adopt(self, part: str, value: object) -> None:
        """Send later questions with this value."""
        if getattr(self, part) != value:
            logger.info("the server does not take the questions as they were put: now with %s = %s", part, value)
            setattr(self, part, value)


@dataclass(frozen=True)
class Settings:
    """A model behind an API, and how it is asked; `load` explains the options."""

    model: str
    base_url: str
    login: str | None = field(repr=False)
    concurrency: int
    endpoint: Literal["chat", "completion"]
    votes: int
    graded: bool
    prefill: bool
    price: Price | None
    timeout: float
    retries: int
    window: int | None
    temperature: float
    max_tokens: int
    dialect: Dialect = field(default_factory=Dialect, repr=False, compare=False)
    waiting: Waiting = field(default_factory=Waiting, repr=False, compare=False)

    scales = True
    streams = True

    @property
    def name(self) -> str:
        return f"openai/{self.model}"

    @property
    def settings(self) -> dict[str, Any]:
        names = "model base_url endpoint votes graded prefill window temperature max_tokens".split()
        return {name: getattr(self, name) for name in names}

    @property
    def ahead(self) -> int:
        """Twice as many questions as calls at once, so that no call waits for a question."""
        return 2 * self.concurrency

    @property
    def several(self) -> bool:
        """Whether several criteria can be asked in one call: a reply that is begun for the model answers one."""
        return self.endpoint == "chat" and not self.prefill

    @property
    def chooses(self) -> bool:
        """Whether answers are votes or grades, not log-probabilities."""
        return self.votes > 0

    def begins(self, prompt: Prompt) -> bool:
        """Whether the reply is begun for the model, so that its next word is a label."""
        return self.endpoint == "completion" or (self.prefill and bool(prompt.answer))

    def adds(self, prompt: Prompt) -> str:
        """The instruction after a prompt, for a model whose reply is not begun."""
        if self.begins(prompt):
            return ""
        return "\n\n" + (grading(prompt) if self.graded and not is_scale(prompt) else prompt.instruction)

    def ready(self) -> None:
        """Raise a JudgeError where the key is missing or broken, so that no question can be sent."""
        need_client()
        self.access()

    def access(self) -> Access:
        """The headers of every call, and the secrets among them; a JudgeError where the key is missing or broken.

        OPENAI_API_KEY is sent to the server that is asked, OPENAI_ORG_ID and OPENAI_PROJECT_ID to OpenAI's own only.
        """
        key, login, official = _variable(KEY), self.login or "", is_openai(self.base_url)
        if not key and not login and official:
            raise JudgeError(f"{self.name} needs a key; set {KEY}, or base_url for a server of your own")
        basic = f"Basic {b64encode(login.encode()).decode()}"
        headers = {"Authorization": basic if login else f"Bearer {key or 'none'}"}
        account = {header: _variable(variable) for variable, header in ACCOUNT.items()} if official else {}
        headers |= {header: value for header, value in account.items() if value}
        return Access(headers, Secrets(key, *account.values(), login=login))


def is_openai(base_url: str) -> bool:
    """Whether an address is OpenAI's own, of any region.

    >>> [is_openai(url) for url in (OPENAI, "https://eu.api.openai.com/v1", "https://api.openai.com.example.org/v1")]
    [True, True, False]
    """
    parts = urlsplit(base_url)
    host = parts.hostname or ""
    return parts.scheme == "https" and (host == "api.openai.com" or host.endswith(".api.openai.com"))


def _variable(name: str) -> str:
    value = os.environ.get(name, "").strip()
    if not value.isascii() or not value.isprintable():
        raise JudgeError(f"{name} holds a character that cannot be sent, such as a line break; set it again")
    return value
