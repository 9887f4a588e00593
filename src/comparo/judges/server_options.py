"""The options of a judge behind a server, and the `Dialect` that the server accepts."""

import inspect
import logging
import math
import os
import re
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self, TypeVar, get_type_hints
from urllib.parse import parse_qsl, unquote, urlsplit

from comparo.data.criteria_prompt import CriteriaPrompt, reply_tokens
from comparo.data.prompts import Prompt
from comparo.errors import JudgeError, pip_install
from comparo.judges.http import Secrets, ServerSilence, is_loopback
from comparo.judges.prices import Price, find_price, read_price
from comparo.judges.protocol import Writing
from comparo.judges.servers import SERVERS, Server
from comparo.judges.verdicts import ordering

TOP = 20  # tokens whose log-probabilities are asked for: the most that OpenAI's and Gemini's API allow
# Tokens that OpenAI's guide advises to reserve for reasoning and reply, and seconds that its own library waits
# (developers.openai.com/api/docs/guides/reasoning, github.com/openai/openai-python). A limit, not a cost.
ROOM, PATIENCE = 25_000, 600.0
WAIT = 60.0  # seconds for one try without reasoning
VERDICT = 64  # tokens that a verdict in words may have
LABEL = 8  # tokens in which a label is looked for
PLACE = 8  # further tokens per text in an order: the text's name, a label, quotes and a separator
NONE = "none"
NEEDED = {"concurrency": (1, 1000), "votes": (0, math.inf), "retries": (0, math.inf)}
WHOLE = {**NEEDED, "window": (1, math.inf), "max_tokens": (1, math.inf)}
RANGES = {**WHOLE, "timeout": (0.001, math.inf), "temperature": (0, 2)}
SECRET = re.compile("key|token|secret|sig|pass|auth|code", re.IGNORECASE)  # in a parameter's name
INNER = ("provider", "login", "dialect", "waiting")  # fields that are no options

logger = logging.getLogger(__name__)


@dataclass
class Dialect:
    """The request parameters that the server accepts (by their names in OpenAI's API), and what its answers have.

    Earlier answers set it, for later questions. `effort` is sent if the user gave none, `most` is the largest token
    limit, and `reasons` states that the model reasons before it answers. `chat_template_kwargs` keeps models behind
    other servers from reasoning. `written` is the number of tokens of the reply to the probe.
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
        """Set the fields from an earlier probe, except `answers`, `serves` and values of another type.

        >>> dialect = Dialect()
        >>> dialect.learn({"max_tokens": "max_completion_tokens", "most": "seven", "of a later version": 1})
        >>> dialect.max_tokens, dialect.most == ROOM
        ('max_completion_tokens', True)
        """
        types = get_type_hints(type(self))
        for name in types.keys() & found.keys() - {"answers", "serves"}:
            if isinstance(found[name], types[name]):
                setattr(self, name, found[name])


@dataclass(frozen=True, kw_only=True)
class Settings:
    """A model behind a server, and the options of its requests.

    Parameters
    ----------
    model
        The model's name at the server.
    base_url
        The server, by default that of an environment variable, such as OPENAI_BASE_URL, else the provider's own.
    concurrency
        The most calls at a time.
    votes
        How many verdicts to sample in place of reading log-probabilities; 0 reads log-probabilities.
    effort
        How much the model reasons before it answers, such as none, low or high; by default the model's own.
    price
        USD per million tokens read and written (and a third for those from the server's cache); by default the list
        price of a known model.
    timeout
        Seconds for the whole of one try; by default 60, and 600 for a model that reasons.
    retries
        How many more tries may follow; no pause before one is longer than `timeout`.
    window
        How many tokens a prompt may have.
    temperature
        By default 0 for log-probabilities, and the provider's for votes.
    max_tokens
        The most tokens of a reply, reasoning included; by default as many as it needs.
    """

    version: ClassVar[str] = ""  # the path that routes begin with; `base_url` may end with it
    efforts: ClassVar[tuple[str, ...]]  # that the API knows; a model may have fewer
    named: ClassVar[str] = "model base_url votes effort window temperature max_tokens"
    streams = lines_up = True

    model: str
    base_url: str = ""
    concurrency: int = 32
    votes: int = 0
    effort: str | None = None
    price: Price | None = None
    timeout: float | None = None
    retries: int = 5
    window: int | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    provider: str = ""
    login: str | None = field(default=None, repr=False)
    dialect: Dialect = field(default_factory=Dialect, repr=False, compare=False)
    waiting: ServerSilence = field(default_factory=ServerSilence, repr=False, compare=False)

    @classmethod
    def checked(cls, **options: Any) -> Self:
        """Make a judge with these options; a ValueError if one is out of range or two are incompatible."""
        given = cls(**options)
        provider, server = given.provider, given.server
        if not given.model:
            raise ValueError(f"{provider}/ needs the name of a model after the slash")
        url = given.base_url or os.environ.get(server.variable) or server.home
        if url == server.home and server.is_template:
            raise ValueError(f"{provider}/ needs its address: base_url, such as {url}")
        url, login = address(url)
        numbers = {
            name: check_number(name, value, *bounds, whole=name in WHOLE)
            for name, bounds in RANGES.items()
            if (value := getattr(given, name)) is not None or name in NEEDED
        }
        price = find_price(given.model, url, server.priced) if given.price is None else read_price(given.price)
        path, mark, query = url.partition("?")
        url = path.removesuffix(cls.version) + mark + query
        made = replace(given, **numbers, base_url=url, login=login, price=price)
        made.check_options()
        return made

    def check_options(self) -> None:
        """Raise a ValueError if the provider does not know an option's value, or options are incompatible."""
        known = (NONE, *self.efforts)
        if self.effort is not None and self.effort not in known:
            raise ValueError(f"effort = {self.effort!r} is not one of {', '.join(known)}")

    @property
    def server(self) -> Server:
        return SERVERS[self.provider]

    @property
    def keys(self) -> tuple[str, ...]:
        return self.server.keys

    @property
    def name(self) -> str:
        return f"{self.provider}/{self.model}"

    @property
    def settings(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.named.split()}

    @property
    def ahead(self) -> int:
        """Twice `concurrency`, so that no call waits for a question."""
        return 2 * self.concurrency

    @property
    def several(self) -> bool:
        """Whether one call can ask about several criteria."""
        return True

    @property
    def chooses(self) -> bool:
        """Whether answers are votes or orders, not log-probabilities."""
        return self.votes > 0

    @property
    def reasons(self) -> bool:
        """Whether the model may reason before it answers."""
        return self.effort != NONE

    @property
    def patience(self) -> float:
        """The seconds for one try."""
        return self.timeout or (PATIENCE if self.reasons else WAIT)

    @property
    def reply_tokens(self) -> int | None:
        """The most tokens of a reply, reasoning included; None: as many as the model can write."""
        raise NotImplementedError

    def limit(self, prompt: Prompt) -> int | None:
        """The most tokens of a reply to a prompt: `max_tokens`, else `reply_tokens` + `more_tokens`; None: no limit."""
        room = self.reply_tokens
        return room if room is None or self.max_tokens is not None else room + self.more_tokens(prompt)

    def more_tokens(self, prompt: Prompt) -> int:
        """How many more tokens a reply may have than one about two texts by one criterion."""
        if isinstance(prompt, CriteriaPrompt):
            return reply_tokens(prompt)
        return PLACE * prompt.size if self.orders(prompt) else 0

    @property
    def reserved(self) -> int:
        """How many tokens of the model's window a prompt leaves for the reply."""
        return self.max_tokens or 0

    def writes(self, prompt: Prompt) -> Writing | None:
        """How many tokens a call writes: its replies times the smaller of the probe's tokens and the limit."""
        seen, room = self.dialect.written, self.limit(prompt)
        known = [room, None if seen is None else seen + self.more_tokens(prompt)]
        each = min((number for number in known if number is not None), default=None)
        return None if each is None else Writing(self.samples(prompt) * each, seen is not None)

    def samples(self, prompt: Prompt) -> int:
        """How many replies answer a question: one for each vote; log-probabilities and an order take one."""
        return 1 if self.orders(prompt) else max(1, self.votes)

    def begins(self, prompt: Prompt) -> bool:
        """Whether the request has the beginning of the reply, so that the model's next word is a label."""
        return False

    def orders(self, prompt: Prompt) -> bool:
        """Whether the reply is an order of more than two texts."""
        return prompt.size > 2 and self.votes > 0

    def adds(self, prompt: Prompt) -> str:
        """The instruction that is added to a prompt; "" if the request has the beginning of the reply."""
        if self.orders(prompt):
            return f"\n\n{ordering(prompt)}"
        return "" if self.begins(prompt) else f"\n\n{prompt.instruction}"

    def shown(self, prompt: Prompt) -> Prompt:
        """The prompt as it is sent: without its wording's request for a label, if the reply is an order."""
        return prompt.without_answers if self.orders(prompt) else prompt

    def learn(self, found: Mapping[str, Any]) -> None:
        """Set the dialect from the findings of an earlier probe."""
        self.dialect.learn(found)

    def ready(self) -> None:
        """Raise an error if no question can be sent: without the HTTP library, or without a key.

        A key that goes to another machine without TLS is warned of.
        """
        self.access()
        where = urlsplit(self.base_url)
        has_key = self.login or any(map(read_variable, self.keys))
        if has_key and where.scheme == "http" and not is_loopback(where.hostname or ""):
            logger.warning("%s gets the key unencrypted; begin base_url with https:// if it can", self.base_url)

    def headers(self, key: str) -> dict[str, str]:
        """The HTTP headers with the key."""
        raise NotImplementedError

    def access(self) -> tuple[dict[str, str], Secrets]:
        """Return the headers of every call, and the secrets in them; a JudgeError without a key.

        The key is "none" for a server that needs none. An ImportError names the remedy if the HTTP library is missing.
        """
        try:
            import httpx2  # noqa: F401
        except ImportError as error:
            remedy = pip_install(self.server.api)
            raise ImportError(f"{self.provider}/ judges need the library httpx2: {remedy}") from error
        key, login = next(filter(None, map(read_variable, self.keys)), ""), self.login or ""
        if not key and not login and self.base_url == self.server.home and self.base_url.startswith("https:"):
            raise JudgeError(f"{self.name} needs a key; set {self.keys[0]}, or base_url for a server of your own")
        headers = {self.server.header: key or NONE} if self.server.header else self.headers(key or NONE)
        if login:
            headers["Authorization"] = f"Basic {b64encode(login.encode()).decode()}"
        return headers, Secrets(key, login)


Made = TypeVar("Made", bound=Settings)


def loader(kind: type[Made], provider: str) -> Callable[..., Made]:
    """The function `load(model, **options)` of a provider; its signature has the options of `kind`."""

    def load(model: str, **options: Any) -> Made:
        return kind.checked(model=model, provider=provider, **options)

    options = [one for one in inspect.signature(kind).parameters.values() if one.name not in INNER]
    load.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    return load


def read_variable(name: str) -> str:
    """Read an environment variable; a JudgeError if it cannot be sent in a header."""
    value = os.environ.get(name, "").strip()
    if not value.isascii() or not value.isprintable():
        raise JudgeError(f"{name} holds a character that cannot be sent, such as a line break; set it again")
    return value


def address(url: str) -> tuple[str, str | None]:
    """Split a base URL into the address without its login, and the login user:password or None.

    >>> address("https://ana:secret@here.example/v1/?api-version=2024-10-21")
    ('https://here.example/v1?api-version=2024-10-21', 'ana:secret')
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    odd = any(sign.isspace() or not sign.isprintable() for sign in host or "")
    if not host or odd or parts.scheme not in ("http", "https") or parts.fragment:
        raise ValueError("base_url is not the address of an API; it looks like http://localhost:8000/v1")
    if named := [name for name, _ in parse_qsl(parts.query, keep_blank_values=True) if SECRET.search(name)]:
        raise ValueError(
            f"base_url holds a key ({named[0]}), which would be stored; set it as the environment's variable"
        )
    query = f"?{parts.query}" if parts.query else ""
    name = f"[{host}]" if ":" in host else host
    login = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
    clean = f"{parts.scheme}://{name}{f':{port}' if port else ''}{parts.path.rstrip('/')}{query}"
    return clean, login if login != ":" else None


def check_number(name: str, value: Any, least: float, most: float, *, whole: bool) -> Any:
    """Return a user's number; a ValueError if it is out of bounds or of the wrong type."""
    kinds, meant = ((int,), "a whole number") if whole else ((int, float), "a number")
    if not isinstance(value, kinds) or isinstance(value, bool) or not least <= value <= most:
        raise ValueError(
            f"{name} = {value!r} is not {meant} from {least:g} {'up' if most == math.inf else f'to {most:g}'}"
        )
    return value if whole else float(value)
