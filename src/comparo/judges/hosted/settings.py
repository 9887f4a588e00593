"""What a user sets for a model that is asked through its provider's own library."""

import os
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, ClassVar, Self

from comparo.data.criteria_prompt import CriteriaPrompt, reply_tokens
from comparo.data.prompts import Prompt
from comparo.errors import JudgeError, pip_install
from comparo.judges.openai.complaints import Secrets
from comparo.judges.openai.settings import PATIENCE, WAIT, read_variable
from comparo.judges.openai.verdicts import grading, is_scale
from comparo.judges.openai.wire import Waiting
from comparo.judges.options import address, number
from comparo.judges.prices import Price, find_price, read_price
from comparo.judges.protocol import Writing, take_over

VERDICT = 64  # tokens that a verdict in words may have, as for openai/ judges
LABEL = 8  # tokens in which a label is looked for, as for openai/ judges
NONE = "none"


@dataclass
class Found:
    """What was found out about the server: whether it answers, serves the model, and takes parts of a request.

    `written` is how many tokens the reply to the probe had.
    """

    answers: bool = False
    serves: bool = False
    logprobs: bool = False
    format: bool = True
    several: bool = True
    written: int | None = None


@dataclass(frozen=True, kw_only=True)
class Hosted:
    """A model behind its provider's own library; each provider's `load` explains the options."""

    provider: ClassVar[str]
    package: ClassVar[str]  # the library, by the name that it is imported by
    keys: ClassVar[tuple[str, ...]]  # the environment's variables that may hold the key, the first that is set
    home: ClassVar[str]  # the provider's own address
    version: ClassVar[str]  # the path that the library adds to an address; one that ends with it is accepted too
    address_variable: ClassVar[str]
    example: ClassVar[str]  # a model
    priced: ClassVar[str]  # the provider's name in the table of list prices
    efforts: ClassVar[tuple[str, ...]]  # that the library knows; a model may have fewer
    scales = True
    streams = True
    several = True

    model: str
    base_url: str
    login: str | None = field(repr=False)
    concurrency: int
    votes: int
    graded: bool
    effort: str | None
    thinking: int | None
    price: Price | None
    timeout: float
    retries: int
    window: int | None
    temperature: float | None
    max_tokens: int | None
    dialect: Found = field(default_factory=Found, repr=False, compare=False)
    waiting: Waiting = field(default_factory=Waiting, repr=False, compare=False)

    @classmethod
    def checked(
        cls,
        model: str,
        *,
        base_url: str | None,
        concurrency: int,
        votes: int,
        graded: bool,
        effort: str | None,
        thinking: int | None,
        price: Price | str | None,
        timeout: float | None,
        retries: int,
        window: int | None,
        temperature: float | None,
        max_tokens: int | None,
    ) -> Self:
        """A judge with these options; a ValueError where one is outside its range, or two do not go together."""
        if not model:
            raise ValueError(f"{cls.provider}/ needs a model, such as {cls.provider}/{cls.example}")
        if not isinstance(graded, bool):
            raise ValueError(f"graded = {graded!r} is not one of true, false")
        efforts = (NONE, *cls.efforts)
        if effort is not None and effort not in efforts:
            raise ValueError(f"effort = {effort!r} is not one of {', '.join(efforts)}")
        if effort is not None and thinking is not None:
            raise ValueError("effort and thinking both set how long the model reasons; drop one of them")
        if timeout is None:
            timeout = WAIT if effort == NONE else PATIENCE
        url, login = address(base_url or os.environ.get(cls.address_variable) or cls.home)
        return cls(
            model=model,
            base_url=url.removesuffix(cls.version),
            login=login,
            concurrency=number("concurrency", concurrency, 1, 1000, whole=True),
            votes=number("votes", votes, 0, whole=True) or int(graded),
            graded=graded,
            effort=effort,
            thinking=None if thinking is None else number("thinking", thinking, 1, whole=True),
            price=find_price(model, provider=cls.priced) if price is None else read_price(price),
            timeout=number("timeout", timeout, 0.001),
            retries=number("retries", retries, 0, whole=True),
            window=None if window is None else number("window", window, 1, whole=True),
            temperature=None if temperature is None else number("temperature", temperature, 0, 2),
            max_tokens=None if max_tokens is None else number("max_tokens", max_tokens, 1, whole=True),
        )

    @property
    def name(self) -> str:
        return f"{self.provider}/{self.model}"

    @property
    def settings(self) -> dict[str, Any]:
        names = "model base_url votes graded effort thinking window temperature max_tokens".split()
        return {name: getattr(self, name) for name in names}

    @property
    def ahead(self) -> int:
        """Twice as many questions as calls at once, so that no call waits for a question."""
        return 2 * self.concurrency

    @property
    def chooses(self) -> bool:
        """Whether answers are votes or grades, not log-probabilities."""
        return self.votes > 0

    def further_tokens(self, prompt: Prompt) -> int:
        """How many more tokens a reply about several criteria may have than one about a single one."""
        return reply_tokens(prompt) if isinstance(prompt, CriteriaPrompt) and self.max_tokens is None else 0

    @property
    def reply_tokens(self) -> int | None:
        """The most tokens of a reply, reasoning included; None: as many as the model can write."""
        raise NotImplementedError

    @property
    def reasons(self) -> bool:
        """Whether the model may reason before it answers: unless it is told not to."""
        return self.effort != NONE

    def writes(self, prompt: Prompt) -> Writing | None:
        """How many tokens a call writes: of each vote, what the probe saw or the limit, and a line per criterion."""
        seen, room = self.dialect.written, self.reply_tokens
        if seen is None and room is None:
            return None
        lines = reply_tokens(prompt) if isinstance(prompt, CriteriaPrompt) else 0
        each = min(number for number in (seen, room) if number is not None) + lines
        return Writing(max(1, self.votes) * each, seen is not None)

    def begins(self, prompt: Prompt) -> bool:
        """Replies are not begun: today's models of these providers refuse that."""
        return False

    def adds(self, prompt: Prompt) -> str:
        """The instruction after a prompt."""
        return "\n\n" + (grading(prompt) if self.grades(prompt) else prompt.instruction)

    def grades(self, prompt: Prompt) -> bool:
        """Whether verdicts on this prompt are grades from A>>B to B>>A."""
        return self.graded and not is_scale(prompt)

    def learn(self, found: Mapping[str, Any]) -> None:
        """Take over what was found in an earlier probe, but not that the server answered then."""
        take_over(self.dialect, found, ("logprobs", "format", "several", "written"))

    def ready(self) -> None:
        """Raise an error where no question can be sent: without the library, or without a key."""
        self.need_library()
        self.access()

    def need_library(self) -> None:
        """Import the provider's library, before any time runs; an ImportError names the command that brings it."""
        try:
            import_module(self.package)
        except ImportError as error:
            remedy = pip_install(self.provider)
            raise ImportError(f"{self.provider}/ judges need the library {self.package}: {remedy}") from error

    def access(self) -> tuple[str, dict[str, str]]:
        """The key ("none" for a server without one) and the header of a login; a JudgeError without a key.

        The key is sent to the server that is asked and to no other.
        """
        key, login = self._key, self.login or ""
        if not key and not login and self.base_url == self.home:
            raise JudgeError(f"{self.name} needs a key; set {self.keys[0]}, or base_url for a server of your own")
        headers = {"Authorization": f"Basic {b64encode(login.encode()).decode()}"} if login else {}
        return key or "none", headers

    @property
    def secrets(self) -> Secrets:
        """What must not be stored or shown."""
        return Secrets(self._key, login=self.login or "")

    @property
    def _key(self) -> str:
        return next(filter(None, map(read_variable, self.keys)), "")


def listed(words: Sequence[str]) -> str:
    """Words as they are listed in a sentence.

    >>> listed(["low", "medium", "high"])
    'low, medium or high'
    """
    return " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))
