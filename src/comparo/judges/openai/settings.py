"""What a user sets for a server that speaks OpenAI's API, and what the server was found to accept."""

import logging
import os
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

from comparo.data.criteria_prompt import CriteriaPrompt, reply_tokens
from comparo.data.prompts import Prompt
from comparo.errors import JudgeError
from comparo.judges.openai.complaints import Secrets
from comparo.judges.openai.verdicts import grading, is_scale
from comparo.judges.openai.wire import Waiting, need_client
from comparo.judges.prices import Price
from comparo.judges.protocol import Writing, take_over

KEY, OPENAI = "OPENAI_API_KEY", "https://api.openai.com/v1"
ACCOUNT = {"OPENAI_ORG_ID": "OpenAI-Organization", "OPENAI_PROJECT_ID": "OpenAI-Project"}
TOP = 20  # tokens whose log-probabilities are asked for: the most that OpenAI's API allows

# Tokens that OpenAI's guide advises to reserve for reasoning and reply, and seconds that its own library waits
# (developers.openai.com/api/docs/guides/reasoning, github.com/openai/openai-python). A limit, not a cost.
ROOM, PATIENCE = 25_000, 600.0
WAIT = 60.0  # seconds for one try without reasoning

logger = logging.getLogger(__name__)


class Access(NamedTuple):
    """The headers to send, and the secrets among them."""

    headers: dict[str, str]
    secrets: Secrets


@dataclass
class Dialect:
    """What the server was found to accept (by the names of OpenAI's API) and to give; used for later questions.

    `effort` is asked for where the user named none, `most` is the largest limit of tokens, and `reasons` tells that the
    model reasons before it answers. `chat_template_kwargs` keeps models behind other servers from reasoning. `written`
    is how many tokens the reply to the probe had.
    """

    max_tokens: str = "max_tokens"
    temperature: bool = True
    response_format: bool = True
    n: bool = True
    top_logprobs: int = TOP
    effort: str | None = None
    chat_template_kwargs: bool = True
    most: int = ROOM
    reasons: bool = False
    answers: bool = False
    serves: bool = False
    gives_logprobs: bool = False
    written: int | None = None

    def adopt(self, part: str, value: object) -> None:
        """Send later questions with this value."""
        if getattr(self, part) != value:
            logger.info("the server does not take the questions as they were put: now with %s = %s", part, value)
            setattr(self, part, value)

    def learn(self, found: Mapping[str, Any]) -> None:
        """Take over what was found before, as far as it is known here.

        >>> dialect = Dialect()
        >>> dialect.learn({"max_tokens": "max_completion_tokens", "of a later version": 1})
        >>> dialect.max_tokens
        'max_completion_tokens'
        """
        take_over(self, found, (part.name for part in fields(self)))

    def told(self) -> dict[str, Any]:
        """What was found, for `learn`."""
        return asdict(self)


@dataclass(frozen=True)
class Settings:
    """A model behind an API, and how it is asked; `load` explains the options.

    `limited` tells that the user gave `max_tokens`.
    """

    model: str
    base_url: str
    login: str | None = field(repr=False)
    concurrency: int
    endpoint: Literal["chat", "completion"]
    votes: int
    graded: bool
    prefill: bool
    price: Price | None
    timeout: float | None
    retries: int
    window: int | None
    temperature: float
    max_tokens: int
    effort: str | None = None
    limited: bool = False
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
        effort = {} if self.effort is None else {"effort": self.effort}
        return {name: getattr(self, name) for name in names} | effort

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

    @property
    def reasons(self) -> bool:
        """Whether the model reasons before it answers, by the user's wish or as it was found to do."""
        return self.dialect.reasons if self.effort is None else self.effort != "none"

    @property
    def patience(self) -> float:
        """The seconds for one try."""
        return self.timeout or (PATIENCE if self.reasons else WAIT)

    def writes(self, prompt: Prompt) -> Writing:
        """How many tokens a call writes: of each vote, what the probe saw or the limit, and a line per criterion."""
        lines = reply_tokens(prompt) if isinstance(prompt, CriteriaPrompt) else 0
        room = max(lines, self.max_tokens if self.limited or not self.reasons else self.dialect.most)
        seen = self.dialect.written
        each = room if seen is None else min(room, seen + lines)
        return Writing(max(1, self.votes) * each, seen is not None)

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
        key, login, official = read_variable(KEY), self.login or "", is_openai(self.base_url)
        if not key and not login and official:
            raise JudgeError(f"{self.name} needs a key; set {KEY}, or base_url for a server of your own")
        basic = f"Basic {b64encode(login.encode()).decode()}"
        headers = {"Authorization": basic if login else f"Bearer {key or 'none'}"}
        account = {header: read_variable(variable) for variable, header in ACCOUNT.items()} if official else {}
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


def read_variable(name: str) -> str:
    """A variable of the environment that can be sent as a header; a JudgeError where it cannot."""
    value = os.environ.get(name, "").strip()
    if not value.isascii() or not value.isprintable():
        raise JudgeError(f"{name} holds a character that cannot be sent, such as a line break; set it again")
    return value
