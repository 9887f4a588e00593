"""What a user sets for a server that speaks OpenAI's API, and what the server was found to accept."""

import logging
import os
from base64 import b64encode
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

from comparo.data.prompts import Prompt
from comparo.errors import JudgeError
from comparo.judges.openai.prices import Price
from comparo.judges.openai.scrubbing import Secrets
from comparo.judges.openai.verdicts import grading, is_scale
from comparo.judges.openai.wire import Waiting, need_client

KEY, OPENAI = "OPENAI_API_KEY", "https://api.openai.com/v1"
ACCOUNT = {"OPENAI_ORG_ID": "OpenAI-Organization", "OPENAI_PROJECT_ID": "OpenAI-Project"}
TOP = 20  # tokens whose log-probabilities are asked for: the most that OpenAI's API allows

logger = logging.getLogger(__name__)


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
        """openai/model."""
        return f"openai/{self.model}"

    @property
    def settings(self) -> dict[str, Any]:
        """What changes an answer."""
        names = "model base_url endpoint votes graded prefill window temperature max_tokens".split()
        return {name: getattr(self, name) for name in names}

    @property
    def ahead(self) -> int:
        """Twice as many questions as calls at once, so that no call waits for a question."""
        return 2 * self.concurrency

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
