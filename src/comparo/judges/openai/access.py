"""The key and the account that the environment gives for a server; both are secret.

OPENAI_API_KEY is sent to the server that is asked, OPENAI_ORG_ID and OPENAI_PROJECT_ID to OpenAI's own servers only.
"""

from __future__ import annotations

import os
from base64 import b64encode
from dataclasses import dataclass
from urllib.parse import urlsplit

from comparo.errors import JudgeError
from comparo.judges.openai.scrubbing import Secrets

KEY, OPENAI = "OPENAI_API_KEY", "https://api.openai.com/v1"
ACCOUNT = {"OPENAI_ORG_ID": "OpenAI-Organization", "OPENAI_PROJECT_ID": "OpenAI-Project"}


@dataclass(frozen=True, slots=True)
class Access:
    """The headers to send, and the secrets among them."""

    headers: dict[str, str]
    secrets: Secrets


def is_openai(base_url: str) -> bool:
    """Whether an address is OpenAI's own, of any region.

    >>> [is_openai(url) for url in (OPENAI, "https://eu.api.openai.com/v1", "https://api.openai.com.example.org/v1")]
    [True, True, False]
    """
    parts = urlsplit(base_url)
    host = parts.hostname or ""
    return parts.scheme == "https" and (host == "api.openai.com" or host.endswith(".api.openai.com"))


def read_access(name: str, base_url: str, login: str | None) -> Access:
    """The key or login for a server, and the account for OpenAI's; a JudgeError where a key is missing or broken."""
    key, login, headers = _variable(KEY), login or "", {}
    if not key and not login and is_openai(base_url):
        raise JudgeError(f"{name} needs a key; set {KEY}, or base_url for a server of your own")
    if login:
        headers["Authorization"] = f"Basic {b64encode(login.encode()).decode()}"
    else:
        headers["Authorization"] = f"Bearer {key or 'none'}"
    account = {header: _variable(variable) for variable, header in ACCOUNT.items()} if is_openai(base_url) else {}
    headers |= {header: value for header, value in account.items() if value}
    return Access(headers, Secrets(key, *account.values(), login=login))


def _variable(name: str) -> str:
    value = os.environ.get(name, "").strip()
    if not value.isascii() or not value.isprintable():
        raise JudgeError(f"{name} holds a character that cannot be sent, such as a line break; set it again")
    return value
