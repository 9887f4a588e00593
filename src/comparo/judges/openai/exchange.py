"""Requests over HTTP one after another, for batches: small answers in JSON, uploads of files, downloads line by line.

Trouble that passes (429, 5xx, time-outs, cut connections) is tried again after growing pauses, or when the server says.
A redirect is an answer like any other: nothing is sent to where it points. The key is removed from what is told.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from comparo.errors import JudgeError
from comparo.judges.batches import GarbledError, LostError, SilentError
from comparo.judges.openai.complaints import Secrets, read_complaint, whole_characters
from comparo.judges.openai.wire import LONGEST_PAUSE, PAUSE, asked_pause, make_client

LONGEST_LINE = 2**24  # bytes of one line of results
MOST = 2**24  # bytes of an answer that is no file
PATIENCE = 600.0  # seconds of silence, as OpenAI's own library waits: a large upload is checked before it is answered
LONGEST_ASKED = 60.0  # seconds of a pause that the server asks for; its limits are per minute


class Refused(Exception):  # noqa: N818
    """An answer with a status of 300 or more, in the server's words."""

    def __init__(self, status: int, said: str, asked: float | None = None) -> None:
        super().__init__(f"({status}): {said}")
        self.status, self.asked = status, asked  # `asked`: the seconds that the server asks to wait


class Exchange:
    """Requests to one server.

    `key` is the name of the variable that holds the key, for messages; `pause` is replaced where tests do not wait.
    """

    def __init__(
        self,
        address: str,
        headers: Mapping[str, str],
        secrets: Secrets,
        key: str,
        timeout: float,
        retries: int,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        import httpx2

        self.address, self.secrets, self.key, self.retries = address, secrets, key, retries
        self._pause = pause
        # No limit for the whole of an exchange: a large file may take long. A server that is silent is given up.
        silence = httpx2.Timeout(max(timeout, PATIENCE), connect=timeout)
        self._http = make_client(httpx2.Client, httpx2.HTTPTransport, address, headers, silence)

    def close(self) -> None:
        self._http.close()

    def ask(self, method: str, route: str, **content: Any) -> dict[str, Any]:
        """The object that the server answers with; a JudgeError or `Refused` where it does not."""
        return self._tried(lambda: self._once(method, route, content))

    def ask_once(self, method: str, route: str, **content: Any) -> dict[str, Any]:
        """As `ask`, but a request that may have been done is not repeated: ConnectionError where that is not known."""
        tried = 0
        while True:
            try:
                return self._once(method, route, content)
            except Refused as problem:
                if problem.status != 429 and _passes(problem):
                    raise ConnectionError(str(problem)) from None
                self._wait(problem, tried)
            except GarbledError as problem:
                raise ConnectionError(str(problem)) from None
            tried += 1

    def upload(self, route: str, send: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """The answer to an upload; `send` gives its content anew for every try."""
        return self._tried(lambda: self._once("POST", route, send()))

    def lines(self, route: str) -> Iterator[dict[str, Any]]:
        """The lines of a file, each read as a JSON object; lines that are none are left out.

        A download that is cut begins again, behind the lines that were read.
        """
        tried = number = 0
        while True:
            try:
                with self._opened("GET", route, {}) as response:
                    for count, line in enumerate(self._split(response)):
                        if count >= number:
                            number, tried = count + 1, 0
                            if (value := _read(line)) is not None:
                                yield value
                return
            except (ConnectionError, Refused) as problem:
                if isinstance(problem, Refused) and not _passes(problem):
                    raise self.lost(problem) from None
                self._wait(problem, tried)
                tried += 1

    def _tried(self, attempt: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        tried = 0
        while True:
            try:
                return attempt()
            except (ConnectionError, Refused) as problem:
                self._wait(problem, tried)
            tried += 1

    def _wait(self, problem: Exception, tried: int) -> None:
        """Pause before the next try; raise what the problem means where there is none."""
        if isinstance(problem, Refused) and not _passes(problem):
            raise problem
        if tried >= self.retries:
            raise SilentError(f"{self.address} gives no answer in {tried + 1} tries ({problem})") from None
        asked = problem.asked if isinstance(problem, Refused) else None
        self._pause(min(asked, LONGEST_ASKED) if asked else min(PAUSE * 2 ** min(tried, 10), LONGEST_PAUSE))

    def _once(self, method: str, route: str, content: dict[str, Any]) -> dict[str, Any]:
        with self._opened(method, route, content) as response:
            text = self._text(response)
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            raise GarbledError(f"{self.address}{route} answers with something else than an object: {self.short(text)}")
        return value

    @contextmanager
    def _opened(self, method: str, route: str, content: dict[str, Any]) -> Iterator[Any]:
        import httpx2

        try:
            with self._http.stream(method, self.address + route, **content) as response:
                if response.status_code >= 300:
                    raise self._refusal(response, route)
                yield response
        except (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL, OSError) as problem:
            raise ConnectionError(f"{type(problem).__name__}: {self.secrets.scrub(str(problem))}") from None

    def _text(self, response: Any) -> str:
        body = bytearray()
        for chunk in response.iter_bytes():
            body += chunk
            if len(body) > MOST:
                break
        return bytes(body[:MOST]).decode("utf-8-sig", "replace")

    def _split(self, response: Any) -> Iterator[bytes]:
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

    def _refusal(self, response: Any, route: str) -> Exception:
        status, text = response.status_code, self._text(response)
        if status == 401:  # its words may hold parts of the key
            return JudgeError(f"{self.address} refused the key (401); set {self.key} to one that is valid there")
        if status == 402 or (status == 429 and "insufficient_quota" in read_complaint(text).codes):
            where = f"{self.address} has no credit left for this key ({status})"
            return JudgeError(f"{where}; top it up, then run this again")
        return Refused(status, f"{self.short(text)} at {route.partition('?')[0]}", asked_pause(response.headers))

    def explained(self, ask: Any, is_made: bool = False) -> dict[str, Any]:
        """What is asked, perhaps about a batch that was made; a refusal becomes a JudgeError that says what to do."""
        try:
            answer: dict[str, Any] = ask()
            return answer
        except Refused as problem:
            if is_made and problem.status in (404, 410):
                raise self.lost(problem) from None
            if problem.status in (404, 405, 501):
                raise JudgeError(f"{self.address} takes no batches {problem}; leave --batch out") from None
            raise JudgeError(f"{self.address} refused the batch {problem}") from None

    def lost(self, problem: Refused) -> LostError:
        """The error for a batch, or results, that the server does not give any more."""
        return LostError(
            f"{self.address} has lost the batch, or its results {problem}. With --batch cancel it is given up, and "
            "the same command then asks its questions again"
        )

    def short(self, text: str) -> str:
        """The beginning of a text, without secrets."""
        text = " ".join(self.secrets.scrub(whole_characters(text[:4000])).split())
        return repr(text if len(text) <= 300 else text[:300] + "…")


def _passes(problem: Refused) -> bool:
    return problem.status in (408, 409, 429) or problem.status >= 500


def _read(line: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(line.decode("utf-8-sig", "replace"))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
