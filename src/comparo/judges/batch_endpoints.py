"""The batches of OpenAI's API (and of servers that imitate it) and of Anthropic's.

OpenAI: a file of lines {custom_id, method, url, body} is uploaded with the purpose "batch", and a batch is created from
it, which is answered within 24 hours or expires; results are a file of answers and one of errors. Anthropic: all
requests are sent when the batch is created; results are one file of lines, after the whole batch has ended. Anthropic's
batches have no name. One whose creation was not confirmed is searched among those that are newer than the newest one
before it, by its number of requests, and identified by the `custom_id` of its results. No clock is asked: those of this
machine and of the server may differ by hours.

The `Caller` of single questions also writes the requests and reads the answers: its client is replaced by one that
returns the answers of the batch.
"""

import json
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from comparo.data.prompts import Question
from comparo.errors import JudgeError
from comparo.judges.batches import WINDOW, BatchClient, GarbledError, ResultLine, State
from comparo.judges.caller import AnswerError, Caller, Case
from comparo.judges.http import Answer, HttpClient, NoAnswerError, as_json
from comparo.judges.prices import count
from comparo.judges.protocol import Judgement
from comparo.judges.server_options import Settings

PAGE = 100  # batches or files in one list: the most that OpenAI and Anthropic give
NAME = "comparo"  # the key of the batch's name in its metadata at OpenAI
OVER = ("completed", "failed", "expired", "cancelled")
FULL = "token_limit_exceeded"
DONE = ("succeeded", "errored", "expired")  # counts of requests that have a line in Anthropic's results
LASTING = ("invalid_request_error", "not_found_error", "permission_error", "request_too_large")  # a retry cannot help

Value = TypeVar("Value")
Object = Mapping[str, Any]


class Batches(ABC):
    """Batches of one judge with one prompt; an error that a retry cannot mend is a JudgeError.

    A batch is a file of lines, one request each. It is uploaded, created and polled until it is over; then its results
    are read, in any order. A question has one line, or several if each vote is a separate request. A batch has at most
    `most_lines` lines and `most_bytes` bytes.
    """

    most_lines: int
    most_bytes: int
    route: str  # of the batches
    after: str  # the query parameter for the next page of a list

    def __init__(self, judge: Settings, caller: Caller) -> None:
        headers, secrets = judge.access()
        self._judge, self._caller = judge, caller
        self._server = BatchClient(judge.base_url, headers, secrets, judge.keys[0], judge.patience, judge.retries)

    @abstractmethod
    def line(self, name: str, request: Any) -> bytes:
        """A line of the file; the name identifies its result."""

    @abstractmethod
    def upload(self, name: str, path: Path) -> str:
        """Upload a file of lines under a name; return its id, or if `create` sends them, that of the newest batch."""

    @abstractmethod
    def create(self, name: str, file: str, path: Path) -> State:
        """Create the batch; a ConnectionError if it is unknown whether the server created it."""

    @abstractmethod
    def find(self, name: str, file: str, lines: int) -> State | None:
        """Search the batch of this name and of `lines` lines whose creation was not confirmed; None if there is none.

        `file` is what `upload` returned.
        """

    @abstractmethod
    def results(self, state: State) -> Iterator[ResultLine]:
        """Yield the result lines of a batch that is over, in any order; some may be missing or repeated."""

    @abstractmethod
    def _state(self, batch: Object) -> State: ...

    def requests(self, question: Question) -> list[Any] | Judgement:
        """The requests of a question, one per line; a failed judgement if its prompt cannot be written."""
        case, samples = Case(question), self._judge.samples(self._caller.prompt)
        try:
            self._caller.write_prompt(case, self._judge.window)
        except AnswerError as problem:
            return Judgement(question, error=str(problem))
        _, body = self._caller.request(case, samples)
        return [body] * (1 if "n" in body else samples)

    def read(self, question: Question, answers: Sequence[ResultLine]) -> Judgement:
        """The judgement of a question from the answers to all its requests."""
        if without := [answer.error for answer in answers if answer.error is not None]:
            return Judgement(question, error=self._server.secrets.scrub(without[0]))
        self._caller.client = _Replayer(answers)
        found = _now(self._caller.answer(question))
        if isinstance(found, Judgement):
            return replace(found, seconds=math.nan)
        return Judgement(question, error=str(found))

    def state(self, id: str) -> State:  # noqa: A002
        """Ask the server for the state of a batch."""
        return self._state(self._server.ask("GET", f"{self.route}/{safe_id(id)}", is_made=True))

    def cancel(self, id: str) -> None:  # noqa: A002
        """Cancel a batch; the lines that are already answered have results."""
        self._server.ask("POST", f"{self.route}/{safe_id(id)}/cancel", is_made=True)

    def close(self) -> None:
        """Close the connections."""
        self._server.close()

    def _created(self, **content: Any) -> State:
        try:
            return self._state(self._server.ask("POST", self.route, once=True, **content))
        except GarbledError as problem:
            raise ConnectionError(str(problem)) from None

    def _lines(self, route: str, read: Callable[[Object], ResultLine | None]) -> Iterator[ResultLine]:
        return (line for result in self._server.lines(route) if (line := read(result)) is not None)

    def _listed(self, route: str, more: str = "") -> Iterator[Object]:
        """Yield the objects that the server lists, the newest first, page by page."""
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
    route, after = "/batches", "after"

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

    def find(self, name: str, file: str, lines: int) -> State | None:
        for batch in self._listed(self.route):
            known = _inner(batch, "metadata").get(NAME)
            if known == name or (known is None and file and batch.get("input_file_id") == file):
                return self._state(batch)
        return None

    def results(self, state: State) -> Iterator[ResultLine]:
        for file in state.results:
            yield from self._lines(f"/files/{safe_id(file)}/content", _openai_line)

    def _state(self, batch: Object) -> State:
        status = str(batch.get("status", ""))[:40]
        counts = batch.get("request_counts")
        total, completed, failed = (count(counts, name) or 0 for name in ("total", "completed", "failed"))
        faults = _objects(_inner(batch, "errors").get("data"))
        error = None
        if status == "failed":
            error = "; ".join(map(_fault, faults[:3])) or "it does not say why"
            error = self._server.secrets.scrub(error)
        files = (batch.get("output_file_id"), batch.get("error_file_id"))
        return State(
            self._id(batch),
            status,
            status in OVER,
            total,
            completed + failed,
            error,
            any(fault.get("code") == FULL for fault in faults),
            tuple(file for file in files if isinstance(file, str) and file),
        )


class AnthropicBatches(Batches):
    """Message Batches of Anthropic's API."""

    most_lines, most_bytes = 100_000, 255_000_000  # Anthropic accepts 256 MB, including the JSON around the lines
    route, after = "/v1/messages/batches", "after_id"

    def line(self, name: str, request: Any) -> bytes:
        # Requests of a batch are answered in any order, so paying to cache a prompt would be in vain.
        params = {part: value for part, value in request.items() if part != "cache_control"}
        return as_json({"custom_id": name, "params": params}) + b"\n"

    def upload(self, name: str, path: Path) -> str:
        return next((self._id(batch) for batch in self._listed(self.route)), "")

    def create(self, name: str, file: str, path: Path) -> State:
        content = b'{"requests":[' + b",".join(path.read_bytes().rstrip(b"\n").split(b"\n")) + b"]}"
        return self._created(content=content, headers={"Content-Type": "application/json"})

    def find(self, name: str, file: str, lines: int) -> State | None:
        likely = None
        for batch in self._listed(self.route):
            state = self._state(batch)
            if state.id == file:  # this one and the rest of the list were there before
                break
            if state.total != lines:
                continue
            if not state.is_over:
                likely = replace(state, id="")  # only its results will identify it
            elif self._is_named(state, name):
                return state
        return likely

    def results(self, state: State) -> Iterator[ResultLine]:
        return self._lines(f"{self.route}/{safe_id(state.id)}/results", _anthropic_line)

    def _is_named(self, state: State, name: str) -> bool:
        try:
            return next(self.results(state), ResultLine("")).id.startswith(f"{name}-")
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
    """Returns the answers of a batch instead of sending requests."""

    def __init__(self, answers: Sequence[ResultLine]) -> None:
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
    """The result of a coroutine that never waits."""
    try:
        asked.send(None)
    except StopIteration as end:
        value: Value = end.value
        return value
    raise RuntimeError("a batch is read without waiting")


def _openai_line(result: Object) -> ResultLine | None:
    """A line of OpenAI's results; None if it has neither answer nor error."""
    name, response, error = str(result.get("custom_id", "")), _inner(result, "response"), _inner(result, "error")
    if response:
        return ResultLine(name, count(response, "status_code") or 200, response.get("body"))
    return ResultLine(name, error=_fault(error)) if error else None


def _anthropic_line(line: Object) -> ResultLine | None:
    """A line of Anthropic's results; None without a result, as for a request that was cancelled before it ran."""
    name, result = str(line.get("custom_id", "")), _inner(line, "result")
    kind = result.get("type")
    if kind == "succeeded":
        return ResultLine(name, 200, result.get("message"))
    if kind == "errored":
        outer = _inner(result, "error")
        fault = _inner(outer, "error") or outer
        said = f"{fault.get('type')}: {fault.get('message')}"[:500]
        return ResultLine(name, 400, fault) if fault.get("type") in LASTING else ResultLine(name, error=said)
    return ResultLine(name, error="it expired") if kind == "expired" else None


def _inner(value: Object, name: str) -> Object:
    found = value.get(name)
    return found if isinstance(found, dict) else {}


def _objects(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _fault(fault: Object) -> str:
    """An error in words: its code, its message and its line in the file."""
    place = f" (line {fault['line']})" if fault.get("line") is not None else ""
    parts = (str(fault[part]) for part in ("code", "message") if fault.get(part))
    return ": ".join(parts)[:500] + place


def safe_id(id: str) -> str:  # noqa: A002
    """Return an id that is safe in a URL; a JudgeError if it could change the URL's path."""
    if not re.fullmatch(r"[\w.:=~-]{1,200}", id) or set(id) == {"."}:
        raise JudgeError(f"the server gave the id {id[:50]!r}, which is none")
    return id
