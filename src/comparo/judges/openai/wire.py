"""Requests over HTTP, each within its time and its size, to the address that was given and no other.

One try has `timeout` seconds for all of it, from connecting to the last byte. No more than `limit` bytes of an answer
are read, before and after it is unpacked. A redirect is an answer like any other: nothing is sent to where it points.
Passing trouble (429, 5xx, time-outs, cut connections) is tried again after growing pauses, or when the server says.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
import math
import socket
import time
import zlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from email.utils import mktime_tz, parsedate_tz
from random import random
from ssl import PROTOCOL_TLS_CLIENT, SSLContext
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urljoin, urlsplit

from comparo.errors import JudgeError, pip_install

if TYPE_CHECKING:
    from httpx2 import AsyncClient, Response

PAUSE, LONGEST_PAUSE = 0.5, 8.0  # seconds before the second try, doubled for each later one: as OpenAI's own library
LONGEST_WAIT = 600.0  # seconds that a server may ask to wait for; OpenAI's limits per minute end long before

PLAIN = ("wrong version number", "record layer failure", "http request")  # OpenSSL's words for an answer without TLS

logger = logging.getLogger(__name__)
Client = TypeVar("Client")


@dataclass(frozen=True, slots=True)
class Answer:
    """A server's answer; the text of an error is cut where it is too long."""

    status: int
    headers: Mapping[str, str]
    text: str

    def location(self, address: str) -> str:
        """The host alone that a redirect from an address points to: a path or a login may hold a secret.

        >>> Answer(307, {"location": "https://ana:secret@example.org/v1?key=secret"}, "").location("http://localhost/v1")
        'https://example.org'
        """
        try:
            parts = urlsplit(urljoin(address, self.headers.get("location", "")))
        except ValueError:
            return "another address"
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


class NoAnswerError(Exception):
    """Why there is no answer; `refused`: no connection at all, `lasting`: no further try can help."""

    def __init__(self, reason: str, *, refused: bool = False, lasting: bool = False) -> None:
        super().__init__(reason)
        self.refused, self.lasting = refused, lasting

    def no_server(self, address: str) -> JudgeError:
        """What it means that there is no connection to an address; a server without TLS is told apart.

        >>> print(NoAnswerError("[SSL] record layer failure").no_server("https://localhost:8000/v1"))
        https://localhost:8000/v1 does not speak HTTPS ([SSL] record layer failure); begin base_url with http:// instead
        """
        if address.startswith("https:") and any(sign in str(self).lower().replace("_", " ") for sign in PLAIN):
            return JudgeError(f"{address} does not speak HTTPS ({self}); begin base_url with http:// instead")
        return JudgeError(f"there is no server at {address} ({self}); check base_url")


@dataclass
class Waiting:
    """Since when no call of a judge has had an answer, and when that was last logged.

    A wait of at least `quiet` seconds is logged, every `every` seconds at most.
    """

    since: float = math.inf
    said: float = -math.inf
    quiet: float = 10.0
    every: float = 60.0

    def over(self) -> None:
        """End the wait: there is an answer."""
        self.since = math.inf

    def tell(self, address: str, why: str, pause: float) -> None:
        """Log that the judge waits, if the wait is long and was not logged lately."""
        now = time.monotonic()
        self.since = min(self.since, now)
        if now - self.since + pause >= self.quiet and now - self.said >= self.every:
            self.said = now
            waited = f"no answer for {now - self.since:.0f} s, " if now - self.since >= 1 else ""
            logger.warning("waiting for %s (%s): %sthe next try in %.0f s", address, why, waited, pause)


class Wire:
    """Connections to one server, to be used in the event loop that entered it."""

    def __init__(
        self, address: str, headers: Mapping[str, str], timeout: float, retries: int, limit: int, waiting: Waiting
    ) -> None:
        self.address, self.timeout, self.retries, self.limit, self.waiting = address, timeout, retries, limit, waiting
        self._http = http_client(address, {**headers, "Content-Type": "application/json"}, timeout)

    async def __aenter__(self) -> Wire:
        await self._http.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._http.__aexit__(*error)

    async def post(self, route: str, body: Mapping[str, Any]) -> Answer:
        """The answer to a request, after up to `retries` more tries; NoAnswerError where there is none."""
        sent = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
        url = self.address + route
        return await tried(lambda: self._try(url, sent), self.address, self.timeout, self.retries, self.waiting)

    async def _try(self, url: str, sent: bytes) -> Answer:
        import httpx2

        try:
            async with asyncio.timeout(self.timeout), self._http.stream("POST", url, content=sent) as response:
                body = await self._read(response)
        except TimeoutError:
            raise NoAnswerError("TimeoutError") from None
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.InvalidURL) as error:
            raise NoAnswerError(f"{type(error).__name__}: {error}", refused=True) from None
        except (httpx2.HTTPError, httpx2.StreamError, OSError, zlib.error) as error:
            raise NoAnswerError(type(error).__name__) from None
        return Answer(response.status_code, response.headers, body.decode("utf-8-sig", "replace"))

    async def _read(self, response: Response) -> bytes:
        """The decompressed body; no more than the limit is read, and no encoding that was not asked for."""
        encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
        if encoding not in ("identity", "", "gzip"):
            raise NoAnswerError(f"the answer is packed as {encoding[:20]!r}, which nobody asked for", lasting=True)
        unpack = zlib.decompressobj(16 + zlib.MAX_WBITS) if encoding == "gzip" else None
        body, read = bytearray(), 0
        async for chunk in response.aiter_raw():
            read += len(chunk)
            body += unpack.decompress(chunk, self.limit + 1 - len(body)) if unpack else chunk
            if max(read, len(body)) > self.limit:
                if response.status_code < 300:
                    raise NoAnswerError(f"the answer is longer than {self.limit / 1e6:.0f} MB", lasting=True)
                return bytes(body[: self.limit])
        if unpack and read and not unpack.eof:
            raise zlib.error("the answer ends halfway")
        return bytes(body)


async def tried(
    attempt: Callable[[], Awaitable[Answer]], address: str, timeout: float, retries: int, waiting: Waiting
) -> Answer:
    """The answer to an attempt, after up to `retries` more of them; NoAnswerError where there is none."""
    number = 0
    while True:
        asked = None
        try:
            answer = await attempt()
        except NoAnswerError as problem:
            if problem.lasting or number == retries:
                raise
            why = str(problem)
        else:
            asked = asked_pause(answer.headers)
            if not _passing(answer):
                waiting.over()
                return answer
            if number == retries:
                return _check_wait(answer, asked, address)
            why = str(answer.status)
        growing = min(PAUSE * 2 ** min(number, 10), LONGEST_PAUSE) * (1 - random() / 4)
        pause = min(asked or growing, timeout)
        waiting.tell(address, why, pause)
        await asyncio.sleep(pause)
        number += 1


def _check_wait(answer: Answer, asked: float | None, address: str) -> Answer:
    if asked is not None and asked > LONGEST_WAIT:
        hours = f"{min(asked / 3600, 9999):.1f} hours"
        raise JudgeError(
            f"{address} asks to wait for {hours} ({answer.status}); run this again then, or use another server"
        )
    return answer


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


def asked_pause(headers: Mapping[str, str]) -> float | None:
    """The seconds that a server asks to wait, by any of the usual headers; None where it does not ask.

    >>> asked_pause({"retry-after": "20"}), asked_pause({"retry-after-ms": "20"}), asked_pause({"retry-after": "soon"})
    (20.0, 0.02, None)
    """
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers[name]) * unit
        except (KeyError, ValueError):
            continue
        return seconds if seconds > 0 else None
    try:
        date = parsedate_tz(headers.get("retry-after", ""))
        seconds = mktime_tz(date) - time.time() if date else 0.0
    except (IndexError, OverflowError, TypeError, ValueError):
        return None
    return seconds if seconds > 0 else None


def _passing(answer: Answer) -> bool:
    """Whether another try may have an answer, by the status or by the header of OpenAI's servers."""
    said = answer.headers.get("x-should-retry")
    return said == "true" or (said != "false" and (answer.status in (408, 409, 429) or answer.status >= 500))


def need_client() -> None:
    """Raise an ImportError unless the library for HTTP is installed."""
    try:
        import httpx2  # noqa: F401
    except ImportError as error:
        raise ImportError(f"openai/ judges need the library httpx2: {pip_install('openai')}") from error


def http_client(address: str, headers: Mapping[str, str], timeout: float) -> AsyncClient:
    """A client for one address: it follows no redirect, and takes a proxy for other machines only."""
    need_client()
    import httpx2

    patience = httpx2.Timeout(None, connect=timeout / 2)  # distinguishes a missing server from a slow one
    return make_client(httpx2.AsyncClient, httpx2.AsyncHTTPTransport, address, headers, patience)


def make_client(
    kind: Callable[..., Client], transport: Any, address: str, headers: Mapping[str, str], timeout: Any
) -> Client:
    """A client of httpx2, of one kind with its transport, that asks one server and follows no redirect."""
    import httpx2

    # loading certificates takes 70 ms per client; an http address needs none, as redirects are not followed
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
    except (ImportError, ValueError) as error:  # a message may hold the proxy's password
        why = type(error).__name__
        raise JudgeError(
            f"the environment's proxy cannot be used ({why}); check http_proxy, https_proxy and all_proxy"
        ) from None
