"""HTTP requests to one server and no other, with limits on the time and on the size of an answer.

One try has `timeout` seconds from connecting to the last byte. At most `limit` bytes of an answer are read, both
compressed and decompressed. A redirect is an answer like any other: it is not followed. Transient errors (429, 5xx,
time-outs, cut connections) are retried with exponential backoff, or after the pause that the server asks for. The
providers' own libraries do not limit the size of an answer, so none of them is used.
"""

from __future__ import annotations

import asyncio
import html
import ipaddress
import json
import logging
import math
import socket
import time
import zlib
from base64 import b64encode
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from random import random
from ssl import PROTOCOL_TLS_CLIENT, SSLContext
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, quote_plus, urljoin, urlsplit

from comparo.errors import JudgeError

if TYPE_CHECKING:
    from httpx2 import Response

PAUSE, LONGEST_PAUSE = 0.5, 8.0  # seconds before the second try, doubled for each later one: as OpenAI's own library
LONGEST_WAIT = 600.0  # seconds that a server may ask to wait for; OpenAI's limits per minute end long before
PART = 6  # characters; 4 would match ordinary words, such as the key "none" for servers that need none
REFUSAL = 2**20  # bytes of an error body that are read: some servers repeat the question in it
SHORTEST = 4  # characters of the shortest password that is hidden; shorter ones occur in any text
HIDDEN = "***"

logger = logging.getLogger(__name__)
Client = TypeVar("Client")


class Secrets:
    """Removes a key and a login (user:password) from what is stored or shown.

    Servers repeat what they receive. A part of a secret is any `PART` characters of it, plain or encoded as in a URL,
    in JSON, in HTML or, for a login, in its header.

    >>> secrets = Secrets("sk-abcdef123456", "ana:pass word")
    >>> secrets.scrub("Incorrect key: sk-abcde***23456. You sent pass%20word and pass+word.")
    'Incorrect key: ******23456. You sent *** and ***.'
    """

    def __init__(self, key: str, login: str) -> None:
        password = login.partition(":")[2]
        basic = b64encode(login.encode()).decode() if login else ""
        self._parts: dict[int, set[str]] = {PART: set()}
        for secret in (key, login, password, basic):
            for written in _writings(secret):
                self._parts[PART] |= parts(written, PART)
        if SHORTEST <= len(password) < PART:
            self._parts[len(password)] = parts(password, len(password))

    def scrub(self, text: str) -> str:
        """Replace every part of a secret, in lower or upper case, by ***."""
        clean = whole_characters(text)
        for size, known in self._parts.items():
            clean = replace_parts(clean, known, size, HIDDEN)
        return text if clean == text else clean  # a message keeps its data

    def short(self, text: str, most: int = 200) -> str:
        """Quote the beginning of a text, without secrets."""
        text = " ".join(self.scrub(text[:4000]).split())
        return repr(text if len(text) <= most else text[:most] + "…")


def parts(text: str, size: int) -> set[str]:
    """Return all runs of `size` characters, in lower case."""
    small = _small(text)
    return {small[start : start + size] for start in range(len(small) - size + 1)}


def replace_parts(text: str, known: Set[str], size: int, mark: str) -> str:
    """Replace every stretch of text that is covered by `known` parts of `size` characters by `mark`.

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
    """Replace lone surrogates and NUL, which cannot be stored, by �.

    >>> whole_characters("fine \\ud83d")
    'fine �'
    """
    text = text.replace("\0", "�")
    return text if text.isascii() else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _writings(secret: str) -> set[str]:
    encoded = {quote(secret, safe=""), quote(secret), quote_plus(secret), html.escape(secret)}
    return {secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]} | encoded


def _small(text: str) -> str:
    """The text in lower case, with the same number of characters."""
    small = text.lower()
    if len(small) == len(text):
        return small
    return "".join(sign if len(sign.lower()) > 1 else sign.lower() for sign in text)


@dataclass(frozen=True, slots=True)
class Answer:
    """A server's answer; the text of an error is cut at `REFUSAL` bytes."""

    status: int
    headers: Mapping[str, str]
    text: str

    def location(self, address: str) -> str:
        """Return the host to which a redirect from `address` points, without path and login, which may hold a secret.

        >>> Answer(307, {"location": "https://ana:secret@example.org/v1?key=secret"}, "").location("http://localhost/v1")
        'https://example.org'
        """
        try:
            found = urlsplit(urljoin(address, self.headers.get("location", "")))
        except ValueError:
            return "another address"
        return f"{found.scheme}://{found.netloc.rpartition('@')[2]}"

    @property
    def passes(self) -> bool:
        """Whether a retry may succeed, by the status or by the header x-should-retry of OpenAI's servers."""
        wish = self.headers.get("x-should-retry")
        return wish == "true" or (wish != "false" and may_pass(self.status))


class NoAnswerError(Exception):
    """Why there is no answer; `refused`: no connection, or no HTTP, `lasting`: a retry cannot help."""

    def __init__(self, reason: str, *, refused: bool = False, lasting: bool = False) -> None:
        super().__init__(reason)
        self.refused, self.lasting = refused, lasting

    def no_server(self, address: str) -> JudgeError:
        """Return the error that there is no server at `address`."""
        has = "out TLS has http" if address.startswith("https:") else " TLS has https"
        return JudgeError(f"there is no server at {address} ({self}); check base_url (a server with{has}://)")


@dataclass
class ServerSilence:
    """Since when no call of a judge has had an answer (`since`), and when that was last logged (`said`).

    A wait of at least `quiet` seconds is logged, at most once in `every` seconds.
    """

    since: float = math.inf
    said: float = -math.inf
    quiet: float = 10.0
    every: float = 60.0

    def log(self, address: str, why: str, pause: float) -> None:
        """Log that the judge waits, by the rule of `quiet` and `every`."""
        now = time.monotonic()
        self.since = min(self.since, now)
        if now - self.since + pause >= self.quiet and now - self.said >= self.every:
            self.said = now
            waited = f"no answer for {now - self.since:.0f} s, " if now - self.since >= 1 else ""
            logger.warning("waiting for %s (%s): %sthe next try in %.0f s", address, why, waited, pause)


class HttpClient:
    """A client of one server, for use in the event loop that entered its `connections`.

    `annotate` adds the header of a pause to an answer, for a provider that states the pause elsewhere.
    """

    def __init__(
        self,
        address: str,
        headers: Mapping[str, str],
        timeout: float,
        limit: int,
        retries: int = 0,
        waiting: ServerSilence | None = None,
        annotate: Callable[[Answer], Answer] = lambda answer: answer,
    ) -> None:
        import httpx2

        self.address, self.timeout, self.limit, self.retries = address, timeout, limit, retries
        self.waiting, self.annotate = waiting or ServerSilence(), annotate
        patience = httpx2.Timeout(None, connect=timeout / 2)  # distinguishes a missing server from a slow one
        sent = {**headers, "Content-Type": "application/json"}
        self.connections = make_client(httpx2.AsyncClient, httpx2.AsyncHTTPTransport, address, sent, patience)

    async def ask(self, method: str, route: str, body: Mapping[str, Any] | None = None) -> Answer:
        """Return the answer to a request, after up to `retries` retries; raise NoAnswerError without one."""
        sent = None if body is None else as_json(body)
        for number in range(self.retries + 1):
            asked, is_last = None, number == self.retries
            try:
                answer = self.annotate(await self._try(method, at(self.address, route), sent))
            except NoAnswerError as problem:
                if problem.lasting or is_last:
                    raise
                why = str(problem)
            else:
                asked, why = asked_pause(answer.headers), str(answer.status)
                if not answer.passes:
                    self.waiting.since = math.inf
                    return answer
                if is_last:
                    break
            growing = min(PAUSE * 2 ** min(number, 10), LONGEST_PAUSE) * (1 - random() / 4)
            pause = min(asked or growing, self.timeout)
            self.waiting.log(self.address, why, pause)
            await asyncio.sleep(pause)
        if asked is not None and asked > LONGEST_WAIT:
            hours = f"{min(asked / 3600, 9999):.1f} hours"
            remedy = "run this again then, or use another server"
            raise JudgeError(f"{self.address} asks to wait for {hours} ({why}); {remedy}")
        return answer

    async def _try(self, method: str, url: str, sent: bytes | None) -> Answer:
        import httpx2

        is_http = False
        try:
            async with asyncio.timeout(self.timeout), self.connections.stream(method, url, content=sent) as response:
                is_http = True
                body = await self._read(response)
        except TimeoutError:
            raise NoAnswerError("TimeoutError") from None
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.InvalidURL) as error:
            raise NoAnswerError(f"{type(error).__name__}: {error}", refused=True) from None
        except (httpx2.HTTPError, httpx2.StreamError, OSError, zlib.error) as error:
            raise NoAnswerError(type(error).__name__, refused=not is_http) from None
        return Answer(response.status_code, response.headers, body.decode("utf-8-sig", "replace"))

    async def _read(self, response: Response) -> bytearray:
        """Return the decompressed body, up to `limit` bytes, of an error up to `REFUSAL`.

        Raise NoAnswerError for an encoding other than gzip.
        """
        encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
        if encoding not in ("identity", "", "gzip"):
            raise NoAnswerError(f"the answer is packed as {encoding[:20]!r}, which nobody asked for", lasting=True)
        unpack = zlib.decompressobj(16 + zlib.MAX_WBITS) if encoding == "gzip" else None
        limit = self.limit if response.status_code < 300 else min(self.limit, REFUSAL)
        body, read = bytearray(), 0
        async for chunk in response.aiter_raw():
            read += len(chunk)
            body += unpack.decompress(chunk, limit + 1 - len(body)) if unpack else chunk
            if max(read, len(body)) > limit:
                if response.status_code < 300:
                    raise NoAnswerError(f"the answer is longer than {limit / 1e6:.0f} MB", lasting=True)
                return body[:limit]
        if unpack and read and not unpack.eof:
            raise zlib.error("the answer ends halfway")
        return body


def as_json(value: Any) -> bytes:
    """Write a value as compact JSON; a lone surrogate becomes a question mark."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def may_pass(status: int) -> bool:
    """Whether a status is a transient error."""
    return status in (408, 409, 429) or status >= 500


def asked_pause(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a server asks to wait, by retry-after-ms or retry-after; None without a number.

    >>> asked_pause({"retry-after": "20"}), asked_pause({"retry-after-ms": "20"}), asked_pause({"retry-after": "soon"})
    (20.0, 0.02, None)
    """
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers[name]) * unit
        except (KeyError, ValueError):
            continue
        return seconds if seconds > 0 else None
    return None


def at(address: str, route: str) -> str:
    """The route at an address, whose query goes behind it.

    >>> at("https://here.example/v1?api-version=1", "/chat/completions")
    'https://here.example/v1/chat/completions?api-version=1'
    """
    path, mark, query = address.partition("?")
    return f"{path}{route}{'&' if mark and '?' in route else mark}{query}"


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, which a proxy cannot reach.

    >>> [host for host in ("localhost", "127.0.0.1", "127.1", "::1", "example.org", "10.0.0.1") if is_loopback(host)]
    ['localhost', '127.0.0.1', '127.1', '::1']
    """
    name = host.lower().rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(name if ":" in name else socket.inet_aton(name))
    except (OSError, ValueError):
        return False
    inner = getattr(address, "ipv4_mapped", None) or address
    return bool(inner.is_loopback or inner.is_unspecified)


def make_client(
    kind: Callable[..., Client], transport: Any, address: str, headers: Mapping[str, str], timeout: Any
) -> Client:
    """Make an httpx2 client for one server: no redirects, and the environment's proxy only for other machines."""
    import httpx2

    # loading certificates takes 70 ms per client; http needs none, because redirects are not followed
    verify = SSLContext(PROTOCOL_TLS_CLIENT) if address.startswith("http:") else True
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=None)
    try:
        here = is_loopback(urlsplit(address).hostname or "")
        return kind(
            headers={**headers, "Accept": "application/json", "Accept-Encoding": "gzip"},
            timeout=timeout,
            verify=verify,
            limits=limits,
            # with a transport of its own a client takes no proxy from the environment
            transport=transport(verify=verify, limits=limits) if here else None,
            follow_redirects=False,
        )
    except OSError as error:
        raise JudgeError(f"the certificates cannot be read ({error}); check SSL_CERT_FILE and SSL_CERT_DIR") from None
    except (ImportError, ValueError) as error:  # a message may hold the proxy's password
        why = type(error).__name__
        raise JudgeError(
            f"the environment's proxy cannot be used ({why}); check http_proxy, https_proxy and all_proxy"
        ) from None
