"""The batches of OpenAI's API (and of servers that imitate it) and of Anthropic's.

OpenAI: a file of lines {custom_id, method, url, body} is uploaded with the purpose "batch" and made a batch, which is
answered within 24 hours or expires; results are a file of answers and one of errors. Anthropic: all requests are sent
when the batch is created; results are one file of lines, there once the whole batch has ended. Such a batch has no name
of ours: one whose creation was not confirmed is known by its time and its number of requests, and for certain only by
the `custom_id` of its results.

Requests are made, and answers read, by the code that asks one question at a time: its client is replaced by one that
gives the answers of the batch.
"""

import json
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from comparo.data.prompts import Question
from comparo.errors import JudgeError
from comparo.judges.batches import WINDOW, BatchClient, GarbledError, Line, State
from comparo.judges.caller import AnswerError, Caller, Case
from comparo.judges.http import Answer, HttpClient, NoAnswerError, as_json
from comparo.judges.prices import count
from comparo.judges.protocol import Judgement
from comparo.judges.settings import Settings

PAGE = 100  # batches or files in one list: the most that OpenAI and Anthropic give
NAME = "comparo"  # the key of our name among the metadata of a batch at OpenAI
OVER = ("completed", "failed", "expired", "cancelled")
FULL = "token_limit_exceeded"
DONE = ("succeeded", "errored", "expired")  # counts of requests that have a line in Anthropic's results
LASTING = ("invalid_request_error", "not_found_error", "permission_error", "request_too_large")  # of a request itself

Value = TypeVar("Value")
Object = Mapping[str, Any]


class Batches(ABC):
    """Batches of one judge, all asked by one prompt; errors that no further try can mend are a JudgeError.

    A batch is a file of lines, one request each; it is uploaded, created, looked at until it is over, and then its
    lines are read, in any order. A question has one line, or several where each vote is a request of its own. No batch
    has more than `most_lines` lines or `most_bytes` bytes.
    """

    most_lines: int
    most_bytes: int
    route: str  # to the batches
    after: str  # the parameter that asks for the next page of a list
    skew: float  # seconds by which the server's clock may be behind this one

    def __init__(self, judge: Settings, caller: Caller) -> None:
        headers, secrets = judge.access()
        self._judge, self._caller = judge, caller
        self._server = BatchClient(judge.base_url, headers, secrets, judge.keys[0], judge.patience, judge.retries)

    @abstractmethod
    def line(self, name: str, request: Any) -> bytes:
        """A line of the file; the name identifies its result."""

    @abstractmethod
    def upload(self, name: str, path: Path) -> str:
        """Upload a file of lines under a name; return its id, "" where lines are sent when the batch is created."""

    @abstractmethod
    def create(self, name: str, file: str, path: Path) -> State:
        """Create the batch; ConnectionError where it is not known whether that was done."""

    @abstractmethod
    def find(self, name: str, file: str, created: float, lines: int) -> State | None:
        """The batch of this name whose creation was not confirmed; None where there is none.

        It was created after `created` (in seconds since 1970), of `lines` lines, of the file with this id.
        """

    @abstractmethod
    def results(self, state: State) -> Iterator[Line]:
        """The lines of a batch that is over, in any order, perhaps some of them twice or not at all."""

    @abstractmethod
    def _state(self, batch: Object) -> State: ...

    def requests(self, question: Question) -> list[Any] | Judgement:
        """The requests that a question needs, one for each line; a failed judgement where it cannot be asked."""
        case, samples = Case(question), self._judge.samples(self._caller.prompt)
        try:
            self._caller.write_prompt(case, self._judge.window)
        except AnswerError as problem:
            return Judgement(question, error=str(problem))
        _, body = self._caller.request(case, samples)
        return [body] * (1 if "n" in body else samples)

    def read(self, question: Question, answers: Sequence[Line]) -> Judgement:
        """What the answers to all requests of a question say."""
        if without := [answer.error for answer in answers if answer.error is not None]:
            return Judgement(question, error=self._server.secrets.scrub(without[0]))
        self._caller.client = _Replayer(answers)
        found = _now(self._caller.answer(question))
        if isinstance(found, Judgement):
            return replace(found, seconds=math.nan)
        return Judgement(question, error=str(found))

    def state(self, id: str) -> State:  # noqa: A002
        """How far a batch is."""
        return self._state(self._server.ask("GET", f"{self.route}/{safe_id(id)}", is_made=True))

    def cancel(self, id: str) -> None:  # noqa: A002
        """Let the server end a batch early; lines that are answered by then have results."""
        self._server.ask("POST", f"{self.route}/{safe_id(id)}/cancel", is_made=True)

    def close(self) -> None:
        """Close the connections."""
        self._server.close()

    def _created(self, **content: Any) -> State:
        try:
            return self._state(self._server.ask("POST", self.route, once=True, **content))
        except GarbledError as problem:
            raise ConnectionError(str(problem)) from None

    def _lines(self, route: str, read: Callable[[Object], Line | None]) -> Iterator[Line]:
        return (line for result in self._server.lines(route) if (line := read(result)) is not None)

    def _listed(self, route: str, more: str = "") -> Iterator[Object]:
        """What the server lists, the newest first, page by page."""
        after = ""
        while True:
            page = self._server.ask("GET", f"{route}?limit={PAGE}{more}{after}")
            found = _objects(page.get("data"))
            yield from found
            before, last = after, str(found[-1].get("id") or "") if found else ""
            if not last or not page.get("has_more"):
                return
            after = f"&{self.after}={safe_id(last)}"
            if after == before:
                return

    def _id(self, answer: Object) -> str:
        if not isinstance(found := answer.get("id"), str) or not found:
            raise GarbledError(f"{self._judge.base_url} does not answer as the Batch API does: there is no id")
        return found


class OpenAIBatches(Batches):
    """Batches of OpenAI's API."""

    most_lines, most_bytes = 50_000, 200_000_000  # of a file, by OpenAI's reference of the Batch API
    route, after, skew = "/batches", "after", 3600.0

    def __init__(self, judge: Settings, caller: Caller, endpoint: str) -> None:
        super().__init__(judge, caller)
        self._endpoint = endpoint

    def line(self, name: str, request: Any) -> bytes:
        return as_json({"custom_id": name, "method": "POST", "url": self._endpoint, "body": request}) + b"\n"

    def upload(self, name: str, path: Path) -> str:
        with path.open("rb") as file:  # every try sends it from its beginning
            part = (f"{name}.jsonl", file, "application/jsonl")
            sent = self._server.ask("POST", "/files", data={"purpose": "batch"}, files={"file": part})
            return self._id(sent)

    def create(self, name: str, file: str, path: Path) -> State:
        body = {"input_file_id": file, "endpoint": self._endpoint, "completion_window": f"{WINDOW}h"}
        return self._created(json=body | {"metadata": {NAME: name}})

    def find(self, name: str, file: str, created: float, lines: int) -> State | None:
        for batch in self._listed(self.route):
            known = _inner(batch, "metadata").get(NAME)
            if known == name or (known is None and file and batch.get("input_file_id") == file):
                return self._state(batch)
            if (count(batch, "created_at", math.inf) or 0) < created - self.skew:
                return None
        return None

    def results(self, state: State) -> Iterator[Line]:
        for file in state.results:
            yield from self._lines(f"/files/{safe_id(file)}/content", _openai_line)

    def _state(self, batch: Object) -> State:
        status, counts = str(batch.get("status", ""))[:40], batch.get("request_counts")
        total, completed, failed = (count(counts, name) or 0 for name in ("total", "completed", "failed"))
        faults = _objects(_inner(batch, "errors").get("data"))
        error = "; ".join(map(_fault, faults[:3])) or "it does not say why"
        files = (batch.get("output_file_id"), batch.get("error_file_id"))
        return State(
            self._id(batch),
            status,
            status in OVER,
            total,
            completed + failed,
            self._server.secrets.scrub(error) if status == "failed" else None,
            any(fault.get("code") == FULL for fault in faults),
            tuple(file for file in files if isinstance(file, str) and file),
        )


class AnthropicBatches(Batches):
    """Message Batches of Anthropic's API."""

    most_lines, most_bytes = 100_000, 255_000_000  # of a batch: Anthropic takes 256 MB, of which lines are not all
    route, after, skew = "/v1/messages/batches", "after_id", 300.0

    def line(self, name: str, request: Any) -> bytes:
        # Requests of a batch are answered in any order, so that a prompt kept for later ones would be paid in vain.
        params = {part: value for part, value in request.items() if part != "cache_control"}
        return as_json({"custom_id": name, "params": params}) + b"\n"

    def upload(self, name: str, path: Path) -> str:
        return ""

    def create(self, name: str, file: str, path: Path) -> State:
        content = b'{"requests":[' + b",".join(path.read_bytes().rstrip(b"\n").split(b"\n")) + b"]}"
        return self._created(content=content, headers={"Content-Type": "application/json"})

    def find(self, name: str, file: str, created: float, lines: int) -> State | None:
        likely = None
        for batch in self._listed(self.route):
            if _seconds(batch.get("created_at")) < created - self.skew:
                break
            state = self._state(batch)
            if state.total != lines:
                continue
            if not state.is_over:
                likely = replace(state, id="")  # whose it is will show in its results
            elif self._is_named(state, name):
                return state
        return likely

    def results(self, state: State) -> Iterator[Line]:
        return self._lines(f"{self.route}/{safe_id(state.id)}/results", _anthropic_line)

    def _is_named(self, state: State, name: str) -> bool:
        """Whether the results of a batch are of this name, by the first of them."""
        try:
            return next(self.results(state), Line("")).id.startswith(f"{name}-")
        except JudgeError:  # of a batch whose results are gone
            return False

    def _state(self, batch: Object) -> State:
        counts = batch.get("request_counts")
        done = sum(count(counts, name) or 0 for name in DONE)
        total = done + sum(count(counts, name) or 0 for name in ("processing", "canceled"))
        status = str(batch.get("processing_status", ""))[:40]
        is_over = status == "ended"
        if is_over and batch.get("cancel_initiated_at"):
            status = "cancelled"
        return State(self._id(batch), status, is_over, total, done)


class _Replayer(HttpClient):
    """Gives the answers of a batch, in place of sending requests."""

    def __init__(self, answers: Sequence[Line]) -> None:
        self._answers = iter(answers)
        self._last = ""

    async def ask(self, method: str, route: str, body: Object | None = None) -> Answer:
        line = next(self._answers, None)
        if line is None:
            raise NoAnswerError(self._last or "the batch has too few answers to it", lasting=True)
        text = json.dumps(line.body, ensure_ascii=False)
        self._last = f"the server answered ({line.status}): {text[:200]}" if line.status >= 300 else ""
        return Answer(line.status, {}, text)


def _now(asked: Coroutine[Any, Any, Value]) -> Value:
    """What a coroutine returns that never waits."""
    try:
        asked.send(None)
    except StopIteration as end:
        value: Value = end.value
        return value
    raise RuntimeError("a batch is read without waiting")


def _openai_line(result: Object) -> Line | None:
    """A line of OpenAI's results; None where it holds none."""
    name, response, error = str(result.get("custom_id", "")), _inner(result, "response"), _inner(result, "error")
    if response:
        return Line(name, count(response, "status_code") or 200, response.get("body"))
    return Line(name, error=_fault(error)) if error else None


def _anthropic_line(line: Object) -> Line | None:
    """A line of Anthropic's results; None where it holds none, as for a request that was cancelled before it ran."""
    name, result = str(line.get("custom_id", "")), _inner(line, "result")
    kind = result.get("type")
    if kind == "succeeded":
        return Line(name, 200, result.get("message"))
    if kind == "errored":
        outer = _inner(result, "error")
        fault = _inner(outer, "error") or outer
        said = f"{fault.get('type')}: {fault.get('message')}"[:500]
        return Line(name, 400, fault) if fault.get("type") in LASTING else Line(name, error=said)
    return Line(name, error="it expired") if kind == "expired" else None


def _inner(value: Object, name: str) -> Object:
    """The object of this name within another; an empty one where there is none."""
    found = value.get(name)
    return found if isinstance(found, dict) else {}


def _objects(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _fault(fault: Object) -> str:
    """An error in words: its code and message, and the line of the file that it is about."""
    place = f" (line {fault['line']})" if fault.get("line") is not None else ""
    parts = (str(fault[part]) for part in ("code", "message") if fault.get(part))
    return ": ".join(parts)[:500] + place


def _seconds(value: Any) -> float:
    """An RFC 3339 time in seconds since 1970; 0 where it is none."""
    try:
        return datetime.fromisoformat(str(value)).timestamp()
    except ValueError:
        return 0.0


def safe_id(id: str) -> str:  # noqa: A002
    """Return an id as a part of an address; a JudgeError where a server could lead elsewhere by it."""
    if not re.fullmatch(r"[\w.:=~-]{1,200}", id) or set(id) == {"."}:
        raise JudgeError(f"the server gave the id {id[:50]!r}, which is none")
    return id
