"""Removes keys and passwords, whole or in part, and half characters from a text before it is stored or shown.

Servers repeat what they were sent. A part of a secret is any `PART` characters of it, plain or encoded as in a URL, in
JSON, in HTML or, for a login, in its header.
"""

import html
import json
from base64 import b64encode
from collections.abc import Set
from urllib.parse import quote, quote_plus

PART = 6  # characters; parts as short as 4 are words, such as the key "none" of servers that need none
SHORTEST = 4  # characters of a password that is hidden where it appears whole; shorter ones are found in any text
HIDDEN = "***"


class Secrets:
    """A key, a login (user:password) and other secret texts.

    >>> secrets = Secrets("sk-abcdef123456", login="ana:pass word")
    >>> secrets.scrub("Incorrect key: sk-abcde***23456. You sent pass%20word and pass+word.")
    'Incorrect key: ******23456. You sent *** and ***.'
    """

    def __init__(self, *secrets: str, login: str = "") -> None:
        password = login.partition(":")[2]
        basic = b64encode(login.encode()).decode() if login else ""
        self._parts: dict[int, set[str]] = {}
        for secret in (*secrets, login, password, basic):
            for written in _writings(secret):
                self._add(written, PART)
        if SHORTEST <= len(password) < PART:
            self._add(password, len(password))

    def _add(self, secret: str, size: int) -> None:
        self._parts.setdefault(size, set()).update(parts(secret, size))

    def scrub(self, text: str) -> str:
        """The text with *** in place of every part of a secret, in lower or upper case."""
        for size, known in self._parts.items():
            text = replace_parts(text, known, size, HIDDEN)
        return text


def parts(text: str, size: int) -> set[str]:
    """All runs of `size` characters, in lower case."""
    small = _small(text)
    return {small[start : start + size] for start in range(len(small) - size + 1)}


def replace_parts(text: str, known: Set[str], size: int, mark: str) -> str:
    """The text with a mark in place of every stretch that known parts of `size` characters cover.

    >>> replace_parts("It said: the cat sat.", parts("On the mat the cat sat", 5), 5, "…")
    'It said:….'
    """
    small, end = _small(text), 0
    made: list[str] = []
    for start in range(len(small) - size + 1):
        if small[start : start + size] in known:
            if start > end or not made:
                made.append(text[end:start] + mark)
            end = start + size
    return "".join(made) + text[end:]


def whole_characters(text: str) -> str:
    """The text with � in place of half a character (a lone surrogate) and of NUL, which cannot be stored.

    >>> whole_characters("fine \\ud83d")
    'fine �'
    """
    if "\0" in text:
        text = text.replace("\0", "�")
    return text if text.isascii() else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _writings(secret: str) -> set[str]:
    return {
        secret,
        quote(secret, safe=""),
        quote(secret),
        quote_plus(secret),
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        html.escape(secret),
    }


def _small(text: str) -> str:
    small = text.lower()
    return (
        small if len(small) == len(text) else "".join(sign if len(sign.lower()) > 1 else sign.lower() for sign in text)
    )
