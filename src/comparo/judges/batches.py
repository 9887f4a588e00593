"""Requests about batches to one server, and what they return.

`BatchClient` sends requests one after another: small answers in JSON, uploads of files, downloads line by line. Limits,
pauses and redirects are as in `http.py`, except that a large file may take any time as long as it moves. The batches
themselves are in `batch_endpoints.py`, and `run/batch.py` keeps them in a run folder.
"""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from comparo.errors import JudgeError
from comparo.judges.http import LONGEST_PAUSE, PAUSE, Secrets, asked_pause, make_client, may_pass
from comparo.judges.refusals import bad_key, no_credit, read_complaint

WINDOW = 24  # hours in which OpenAI and Anthropic answer a batch, or let it expire
SHARE = 0.5  # of the ordinary price that a batch costs: half of it at both
LONGEST_LINE = 2**24  # bytes of one line of results
MOST = 2**24  # bytes of an answer that is no file
PATIENCE = 600.0  # seconds of silence, as OpenAI's own library waits: a large upload is checked before it is answered
LONGEST_ASKED = 60.0  # seconds of a pause that the server asks for; its limits are per minute


class SilentError(JudgeError):
    """A server that gives no answer, which may pass."""


class LostError(JudgeError):
    """A server that does not have a batch, or not all of its results."""


class GarbledError(JudgeError):
    """An answer that is not what the API gives, to a request that may have been done."""


@dataclass(frozen=True, slots=True)
class State:
    """How far a batch is, by its server.

    `status` is the server's own word. `done` lines of `total` were answered or failed. `error` says why the server took
    none of it, and `is_full` that it would take it later, when fewer batches wait there. `results` is where the lines
    of a batch that is over are. The `id` is "" where only results will tell that it is the batch that was looked for.
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
class Line:
    """One line of the results: the answer to a request with its HTTP status, or the reason why it has none."""

    id: str
    status: int = 200
    body: Any = None
    error: str | None = None


class _Refused(Exception):  # noqa: N818
    """An answer with a status of 300 or more, in the server's words; 500 where there is none.

    `asked` are the seconds that the server asks to wait.
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
        # No limit for the whole of an exchange: a large file may take long. A server that is silent is given up.
        silence = httpx2.Timeout(max(timeout, PATIENCE), connect=timeout)
        self._http = make_client(httpx2.Client, httpx2.HTTPTransport, address, headers, silence)

    def close(self) -> None:
        self._http.close()

    def ask(
        self, method: str, route: str, *, is_made: bool = False, once: bool = False, **content: Any
    ) -> dict[str, Any]:
        """Return the object that the server answers with; a refusal becomes a JudgeError that names the remedy.

        A request that may have been done is not repeated if it is to be sent `once`: ConnectionError where that is not
        known. A batch that `is_made` and is not there is a LostError.
        """
        tried = 0
        while True:
            try:
                with self._opened(method, route, content) as response:
                    body = _beginning(response)
                break
            except _Refused as problem:
                if once and problem.status != 429 and may_pass(problem.status):  # it may have been done all the same
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
        """Yield the lines of a file, each read as a JSON object; lines that are none are left out.

        A download that is cut begins again, behind the lines that were read.
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
        """Pause before the next try; a SilentError where there is none."""
        if tried >= self.retries:
            raise SilentError(f"{self.address} gives no answer in {tried + 1} tries ({problem})") from None
        growing = min(PAUSE * 2 ** min(tried, 10), LONGEST_PAUSE)
        time.sleep(min(problem.asked, LONGEST_ASKED) if problem.asked else growing)

    @contextmanager
    def _opened(self, method: str, route: str, content: dict[str, Any]) -> Iterator[Any]:
        import httpx2

        try:
            with self._http.stream(method, self.address + route, **content) as response:
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
        return LostError(
            f"{self.address} has lost the batch, or its results {problem}. With batch='cancel' it is given up, and "
            "the same command then asks its questions again"
        )


def _beginning(response: Any) -> bytes:
    body = bytearray()
    for chunk in response.iter_bytes():
        body += chunk
        if len(body) > MOST:
            break
    return bytes(body[:MOST])


def _split(response: Any) -> Iterator[bytes]:
    """The lines of a body, which may have any length; an overlong line becomes an empty one."""
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
