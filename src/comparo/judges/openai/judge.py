"""openai/…: OpenAI's API, or any server that speaks it (vLLM, llama.cpp, Ollama, …), at `base_url`.

p is read from the log-probabilities of the reply's tokens or, where there are none, from a number of sampled verdicts.
The key comes from the environment and goes to the server alone: whatever is handed on is searched for it first.
"""

import math
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

from comparo.data.prompts import Prompt, Question
from comparo.judges.openai.caller import Caller
from comparo.judges.openai.calling import Calls
from comparo.judges.openai.prices import Price, find_price, read_price
from comparo.judges.openai.settings import OPENAI, Settings
from comparo.judges.protocol import Judgement

BASE_URL = "OPENAI_BASE_URL"
SHARED = 8  # calls at once that share a client, whose every call searches all of its connections


@dataclass(frozen=True)
class OpenAIJudge(Settings):
    """A model behind an API; `load` explains its options.

    >>> judge = load("gpt-4o-mini", votes=5)
    >>> judge.name, judge.price, judge.settings["temperature"]
    ('openai/gpt-4o-mini', (0.15, 0.6), 1.0)
    """

    def judge(self, questions: Iterable[Question], prompt: Prompt) -> Iterator[Judgement]:
        """The answers as they come, from `concurrency` calls at once; the first question goes alone."""
        clients = -(-self.concurrency // SHARED) if self.base_url.startswith("http:") else 1
        with Calls([Caller(self, prompt) for _ in range(clients)], questions, self) as calls:
            yield from calls.answers()


def load(
    model: str,
    *,
    base_url: str | None = None,
    concurrency: int = 32,
    endpoint: Literal["chat", "completion"] = "chat",
    votes: int = 0,
    graded: bool = False,
    prefill: bool = False,
    price: Price | str | None = None,
    timeout: float = 60.0,
    retries: int = 5,
    window: int | None = None,
    temperature: float | None = None,
    max_tokens: int | None = None,
) -> OpenAIJudge:
    """openai/MODEL at OpenAI, or at `base_url` (else the environment's OPENAI_BASE_URL), with OPENAI_API_KEY.

    `votes` samples so many verdicts in place of reading log-probabilities; `graded` asks for verdicts from A>>B to
    B>>A. `prefill` begins the reply for the model, where the server can go on with it. `price` is USD per million
    tokens read and written, `window` how many tokens a prompt may have. `timeout` is in seconds, for the whole of one
    try; up to `retries` more follow, and no pause before one is longer. `temperature` is 0 for log-probabilities and 1
    for votes, `max_tokens` as many as a reply needs.

    >>> load("llama", base_url="http://user:secret@localhost:8000/v1").base_url
    'http://localhost:8000/v1'
    >>> load("llama", votes=-1)
    Traceback (most recent call last):
    ValueError: votes = -1 is not a whole number from 0 up
    """
    if not model:
        raise ValueError("openai/ needs a model, such as openai/gpt-4o-mini")
    if endpoint not in ("chat", "completion"):
        raise ValueError(f"endpoint = {endpoint!r} is not one of chat, completion")
    for name, value in (("graded", graded), ("prefill", prefill)):
        if not isinstance(value, bool):
            raise ValueError(f"{name} = {value!r} is not one of true, false")
    if (prefill and (votes or graded)) or (graded and endpoint == "completion"):
        raise ValueError(
            "prefill is for log-probabilities (votes = 0) and graded for endpoint = chat; drop one of them"
        )
    votes = _number("votes", votes, 0, whole=True) or int(graded)
    if temperature is None:
        temperature = 1.0 if votes else 0.0
    if max_tokens is None:
        max_tokens = 1 if prefill or endpoint == "completion" else 64 if votes else 8
    url, login = _address(base_url or os.environ.get(BASE_URL) or OPENAI)
    return OpenAIJudge(
        model=model,
        base_url=url,
        login=login,
        concurrency=_number("concurrency", concurrency, 1, 1000, whole=True),
        endpoint=endpoint,
        votes=votes,
        graded=graded,
        prefill=prefill,
        price=find_price(model) if price is None else read_price(price),
        timeout=_number("timeout", timeout, 0.001),
        retries=_number("retries", retries, 0, whole=True),
        window=None if window is None else _number("window", window, 1, whole=True),
        temperature=_number("temperature", temperature, 0, 2),
        max_tokens=_number("max_tokens", max_tokens, 1, whole=True),
    )


def _address(url: str) -> tuple[str, str | None]:
    """A base URL without user and password, and these."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    odd = any(sign.isspace() or not sign.isprintable() for sign in host or "")
    if not host or odd or parts.scheme not in ("http", "https") or parts.query or parts.fragment:
        raise ValueError("base_url is not the address of an API; it looks like http://localhost:8000/v1")
    name = f"[{host}]" if ":" in host else host
    login = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
    clean = f"{parts.scheme}://{name}{f':{port}' if port else ''}{parts.path.rstrip('/')}"
    return clean, login if login != ":" else None


def _number(name: str, value: Any, least: float, most: float = math.inf, *, whole: bool = False) -> Any:
    """A number that a user gave, within its bounds."""
    kinds, meant = ((int,), "a whole number") if whole else ((int, float), "a number")
    if not isinstance(value, kinds) or isinstance(value, bool) or not least <= value <= most:
        raise ValueError(
            f"{name} = {value!r} is not {meant} from {least:g} {'up' if most == math.inf else f'to {most:g}'}"
        )
    return value if whole else float(value)
