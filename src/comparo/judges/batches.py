"""The HTTP client of batch APIs, and the types of its results.

`BatchClient` sends requests one after another: small answers in JSON, uploads of files, downloads line by line. Limits,
retries and redirects are as in `http.py`, except that a transfer may take any time while data flow. The batches are
implemented in `batch_endpoints.py`, and `run/batch.py` stores them in a run folder.
"""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from comparo.errors import JudgeError, Message
from comparo.judges.http import LONGEST_PAUSE, PAUSE, Secrets, asked_pause, at, make_client, may_pass
from comparo.judges.refusals import bad_key, no_credit, read_complaint

WINDOW = 24  # hours in which OpenAI and Anthropic answer a batch, or let it expire
SHARE = 0.5  # price of a batch relative to the ordinary price, at OpenAI and at Anthropic
LONGEST_LINE = 2**24  # most bytes of one line of results
MOST_BYTES = 2**24  # most bytes of an answer that is no file
PATIENCE = 600.0  # seconds without data, as in OpenAI's own library: the server checks a large upload before it answers
LONGEST_ASKED = 60.0  # most seconds of a pause that the server asks for; its limits are per minute


class SilentError(JudgeError):
    """The server gives no answer; a later try may have one."""


class LostError(JudgeError):
    """The server does not have a batch, or not all of its results."""


class GarbledError(JudgeError):
    """The answer is not in the form of the API; the server may have executed the request."""


@dataclass(frozen=True, slots=True)
class State:
    """The state of a batch, as its server reports it.

    `status` is the server's own word. `done` lines of `total` were answered or failed. `error` says why the server
    rejected the batch, and `is_full` that it would accept it later, with fewer batches in its queue. `results` are the
    ids of the result files. The `id` is "" if only the results will show whether it is the batch that was searched.
    """

    id: str
    status: str
    is_over: bool
    total: int = 0
    done: int = 0
    error: str | None = None
    is_full: bool = False
    results: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ResultLine:
    """One line of the results: the answer to a request with its HTTP status, or the reason why it has none."""

    id: str
    status: int = 200
    body: Any = None
    error: str | None = None

    @property
    def is_good(self) -> bool:
        return self.error is None and self.status < 300


class _Refused(Exception):  # noqa: N818
    """An answer with a status of 300 or more, in the server's words; status 500 if there is no answer.

    `asked` is the pause in seconds that the server asks for.
    """

    def __init__(self, said: str, status: int = 500, asked: float | None = None) -> None:
        super().__init__(said)
        self.status, self.asked = status, asked


class BatchClient:
    """Requests to one server; `key` is the name of the variable that holds the key, for messages."""

    def __init__(
        self, address: str, headers: Mapping[str, str], secrets: Secrets, key: str, timeout: float, retries: int
    ) -> None:
        import httpx2

        self.address, self.secrets, self.key, self.retries = address, secrets, key, retries
        # The limit is on the time without data, not on the whole transfer: a large file may take long.
        silence = httpx2.Timeout(max(timeout, PATIENCE), connect=timeout)
        self._http = make_client(httpx2.Client, httpx2.HTTPTransport, address, headers, silence)

    def close(self) -> None:
        self._http.close()

    def ask(
        self, method: str, route: str, *, is_made: bool = False, once: bool = False, **content: Any
    ) -> dict[str, Any]:
        """Return the JSON object of the server's answer; a refusal becomes a JudgeError that names the remedy.

        With `once`, a request that the server may have executed is not repeated but raises a ConnectionError. With
        `is_made`, a missing batch raises a LostError.
        """
        tried = 0
        while True:
            try:
                with self._opened(method, route, content) as response:
                    body = _beginning(response)
                break
            except _Refused as problem:
                if once and problem.status != 429 and may_pass(problem.status):  # the server may have executed it
                    raise ConnectionError(str(problem)) from None
                if is_made and problem.status in (404, 410):
                    raise self._lost(problem) from None
                if problem.status in (404, 405, 501):
                    raise JudgeError(f"{self.address} takes no batches {problem}; leave batch out") from None
                if not may_pass(problem.status):
                    raise JudgeError(f"{self.address} refused the batch {problem}") from None
                self._wait(problem, tried)
                tried += 1
        if (value := _object(body)) is None:
            said = self.secrets.short(body.decode("utf-8-sig", "replace"), 300)
            raise GarbledError(f"{self.address}{route} answers with something else than an object: {said}")
        return value

    def lines(self, route: str) -> Iterator[dict[str, Any]]:
        """Yield the JSON object of each line of a file; lines without one are left out.

        A download that is cut starts again, and skips the lines that were read.
        """
        tried = number = 0
        while True:
            try:
                with self._opened("GET", route, {}) as response:
                    for place, line in enumerate(_split(response)):
                        if place >= number:
                            number, tried = place + 1, 0
                            if (value := _object(line)) is not None:
                                yield value
                return
            except _Refused as problem:
                if not may_pass(problem.status):
                    raise self._lost(problem) from None
                self._wait(problem, tried)
                tried += 1

    def _wait(self, problem: _Refused, tried: int) -> None:
        """Pause before the next try; raise a SilentError after `retries`."""
        if tried >= self.retries:
            raise SilentError(f"{self.address} gives no answer in {tried + 1} tries ({problem})") from None
        growing = min(PAUSE * 2 ** min(tried, 10), LONGEST_PAUSE)
        time.sleep(min(problem.asked, LONGEST_ASKED) if problem.asked else growing)

    @contextmanager
    def _opened(self, method: str, route: str, content: dict[str, Any]) -> Iterator[Any]:
        import httpx2

        try:
            with self._http.stream(method, at(self.address, route), **content) as response:
                if response.status_code >= 300:
                    raise self._refusal(response, route)
                yield response
        except (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL, OSError) as problem:
            raise _Refused(f"{type(problem).__name__}: {self.secrets.scrub(str(problem))}") from None

    def _refusal(self, response: Any, route: str) -> Exception:
        status, text = response.status_code, _beginning(response).decode("utf-8-sig", "replace")
        if status == 401:
            return bad_key(self.address, status, self.key)
        if read_complaint(text).is_unpaid(status):
            return no_credit(self.address, f"({status})")
        said = f"({status}): {self.secrets.short(text, 300)} at {route.partition('?')[0]}"
        return _Refused(said, status, asked_pause(response.headers))

    def _lost(self, problem: _Refused) -> LostError:
        remedy = Message("With {batch:'cancel'} it is given up, and the same command then asks its questions again")
        return LostError(f"{self.address} has lost the batch, or its results {problem}. " + remedy)


def _beginning(response: Any) -> bytes:
    body = bytearray()
    for chunk in response.iter_bytes():
        body += chunk
        if len(body) > MOST_BYTES:
            break
    return bytes(body[:MOST_BYTES])


def _split(response: Any) -> Iterator[bytes]:
    """Yield the lines of a body of any length; a line of more than `LONGEST_LINE` bytes becomes an empty one."""
    rest, is_long = bytearray(), False
    for chunk in response.iter_bytes():
        *ended, last = chunk.split(b"\n")
        for part in ended:
            yield b"" if is_long else bytes(rest + part)
            rest, is_long = bytearray(), False
        rest += last
        if len(rest) > LONGEST_LINE:
            rest, is_long = bytearray(), True
    if rest:
        yield bytes(rest)


def _object(text: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(text.decode("utf-8-sig", "replace"))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
