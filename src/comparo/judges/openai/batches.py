"""Batches of OpenAI's API, and of servers that imitate it.

A file of lines {custom_id, method, url, body} is uploaded with the purpose "batch" and made a batch, which is answered
within 24 hours or expires; results are a file of answers and one of errors. Requests are made, and answers read, by
the code that asks one question at a time: it is handed the answers that the batch has in place of a connection.
"""

import json
import math
import re
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from comparo.data.prompts import Prompt, Question
from comparo.errors import JudgeError
from comparo.judges.batches import WINDOW, GarbledError, Line, State
from comparo.judges.openai.caller import Caller
from comparo.judges.openai.exchange import Exchange, Refused
from comparo.judges.openai.settings import KEY, Settings
from comparo.judges.openai.wire import Answer, NoAnswerError, Wire
from comparo.judges.protocol import Judgement

MOST_LINES, MOST_BYTES = 50_000, 200_000_000  # of a file, by OpenAI's reference of the Batch API
PAGE = 100  # batches or files in one list: the most that OpenAI gives
SKEW = 3600  # seconds by which the server's clock may be behind this one
NAME = "comparo"  # the key of our name among a batch's metadata
OVER = ("completed", "failed", "expired", "cancelled")
FULL = "token_limit_exceeded"

Value = TypeVar("Value")


class OpenAIBatches:
    """Batches of one judge and prompt; `comparo.judges.batches.Batches` says what each function does."""

    most_lines, most_bytes = MOST_LINES, MOST_BYTES

    def __init__(self, judge: Settings, prompt: Prompt) -> None:
        headers, secrets = judge.access()
        self._judge = judge
        self._caller = Caller(judge, prompt)
        self._server = Exchange(judge.base_url, headers, secrets, KEY, judge.patience, judge.retries)
        self._route = "/chat/completions" if judge.endpoint == "chat" else "/completions"

    def requests(self, question: Question) -> list[Any] | Judgement:
        recorder = _Recorder()
        self._caller.client = recorder
        failed = _now(self._caller.answer(question))
        if recorder.body is None:
            return failed if isinstance(failed, Judgement) else Judgement(question, error=str(failed))
        alone = self._judge.votes > 1 and "n" not in recorder.body
        return [recorder.body] * (self._judge.votes if alone else 1)

    def line(self, name: str, request: Any) -> bytes:
        made = {"custom_id": name, "method": "POST", "url": f"/v1{self._route}", "body": request}
        return json.dumps(made, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n"

    def read(self, question: Question, answers: Sequence[Line]) -> Judgement:
        if without := [answer.error for answer in answers if answer.error is not None]:
            return Judgement(question, error=self._server.secrets.scrub(without[0]))
        self._caller.client = _Replayer(answers)
        found = _now(self._caller.answer(question))
        return (
            replace(found, seconds=math.nan) if isinstance(found, Judgement) else Judgement(question, error=str(found))
        )

    def upload(self, name: str, path: Path) -> str:
        with path.open("rb") as file:

            def send() -> dict[str, Any]:
                file.seek(0)
                content = (f"{name}.jsonl", file, "application/jsonl")
                return {"data": {"purpose": "batch"}, "files": {"file": content}}

            return self._id(self._server.explained(lambda: self._server.upload("/files", send)))

    def create(self, name: str, file: str, path: Path) -> State:
        body = {
            "input_file_id": file,
            "endpoint": f"/v1{self._route}",
            "completion_window": f"{WINDOW}h",
            "metadata": {NAME: name},
        }
        try:
            return self._state(self._server.explained(lambda: self._server.ask_once("POST", "/batches", json=body)))
        except GarbledError as problem:
            raise ConnectionError(str(problem)) from None

    def find(self, name: str, file: str, created: float, lines: int, others: Sequence[str]) -> State | None:
        for batch in self._listed("/batches"):
            metadata = batch.get("metadata")
            told = metadata.get(NAME) if isinstance(metadata, dict) else None
            if told == name or (told is None and file and batch.get("input_file_id") == file):
                return self._state(batch)
            if number_of(batch.get("created_at")) < created - SKEW:
                return None
        return None

    def state(self, id: str) -> State:  # noqa: A002
        return self._state(
            self._server.explained(lambda: self._server.ask("GET", f"/batches/{safe_id(id)}"), is_made=True)
        )

    def results(self, state: State) -> Iterator[Line]:
        for file in state.results:
            for told in self._server.lines(f"/files/{safe_id(file)}/content"):
                if (line := _line(told)) is not None:
                    yield line

    def cancel(self, id: str) -> None:  # noqa: A002
        self._server.explained(lambda: self._server.ask("POST", f"/batches/{safe_id(id)}/cancel"), is_made=True)

    def discard(self, name: str, file: str) -> None:
        try:
            files = (
                [file]
                if file
                else [
                    self._id(one)
                    for one in self._listed("/files", "&purpose=batch")
                    if one.get("filename") == f"{name}.jsonl"
                ]
            )
            for one in files:
                self._server.ask("DELETE", f"/files/{safe_id(one)}")
        except (JudgeError, Refused):
            return  # the file stays there, and does no harm

    def close(self) -> None:
        self._server.close()

    def _listed(self, route: str, more: str = "") -> Iterator[Mapping[str, Any]]:
        """What the server lists, the newest first, page by page."""
        after = ""
        while True:
            page = self._server.explained(lambda: self._server.ask("GET", f"{route}?limit={PAGE}{more}{after}"))  # noqa: B023
            data = page.get("data")
            found = [one for one in data if isinstance(one, dict)] if isinstance(data, list) else []
            yield from found
            if not found or not page.get("has_more") or after == f"&after={safe_id(self._id(found[-1]))}":
                return
            after = f"&after={safe_id(self._id(found[-1]))}"

    def _state(self, batch: Mapping[str, Any]) -> State:
        status, counts = str(batch.get("status", ""))[:40], batch.get("request_counts")
        told = counts if isinstance(counts, dict) else {}
        total, completed, failed = (number_of(told.get(name)) for name in ("total", "completed", "failed"))
        errors = batch.get("errors")
        data = errors.get("data") if isinstance(errors, dict) else None
        faults = [one for one in data if isinstance(one, dict)] if isinstance(data, list) else []
        files = (batch.get("output_file_id"), batch.get("error_file_id"))
        results = tuple(file for file in files if isinstance(file, str) and file)
        is_full = any(fault.get("code") == FULL for fault in faults)
        error = None
        if status == "failed":
            error = "; ".join(map(_fault, faults[:3])) or "it does not say why"
        return State(
            self._id(batch),
            status,
            status in OVER,
            total,
            completed + failed,
            None if error is None else self._server.secrets.scrub(error),
            is_full,
            _room(faults) if is_full else None,
            results,
        )

    def _id(self, told: Mapping[str, Any]) -> str:
        if not isinstance(found := told.get("id"), str) or not found:
            raise GarbledError(f"{self._judge.base_url} does not answer as the Batch API does: there is no id")
        return found


class _Stop(BaseException):
    """Ends the asking of a question: nothing is to be sent."""


class _Recorder(Wire):
    """Keeps the first request in place of sending it."""

    def __init__(self) -> None:
        self.body: Mapping[str, Any] | None = None

    async def post(self, route: str, body: Mapping[str, Any]) -> NoReturn:
        self.body = body
        raise _Stop


class _Replayer(Wire):
    """Gives the answers of a batch, in place of sending requests."""

    def __init__(self, answers: Sequence[Line]) -> None:
        self._answers = iter(answers)
        self._last = ""

    async def post(self, route: str, body: Mapping[str, Any]) -> Answer:
        line = next(self._answers, None)
        if line is None:
            raise NoAnswerError(self._last or "the batch has too few answers to it", lasting=True)
        text = json.dumps(line.body, ensure_ascii=False)
        self._last = f"the server answered ({line.status}): {text[:200]}" if line.status >= 300 else ""
        return Answer(line.status, {}, text)


def _now(asked: Coroutine[Any, Any, Value]) -> Value | None:
    """What a coroutine returns that never waits; None where it was stopped."""
    try:
        asked.send(None)
    except StopIteration as end:
        value: Value = end.value
        return value
    except _Stop:
        return None
    raise RuntimeError("a batch is read without waiting")


def _line(told: Mapping[str, Any]) -> Line | None:
    """A line of the results; None where it holds none."""
    name, response, error = str(told.get("custom_id", "")), told.get("response"), told.get("error")
    if isinstance(response, dict):
        return Line(name, number_of(response.get("status_code")) or 200, response.get("body"))
    return Line(name, error=_fault(error)) if isinstance(error, dict) else None


def _fault(fault: Mapping[str, Any]) -> str:
    """An error in words: its code and message, and the line of the file that it is about."""
    place = f" (line {fault['line']})" if fault.get("line") is not None else ""
    parts = (str(fault[part]) for part in ("code", "message") if fault.get(part))
    return ": ".join(parts)[:500] + place


def _room(faults: Sequence[Mapping[str, Any]]) -> int | None:
    """How many tokens may wait at once, as the server's refusal says."""
    said = " ".join(str(fault.get("message", "")) for fault in faults)
    found = re.search(r"([\d,]*\d) enqueued tokens", said)
    return int(found[1].replace(",", "")) if found else None


def number_of(value: Any) -> int:
    """A number that a server tells; 0 where it is none."""
    return int(value) if isinstance(value, int | float) and value == value and abs(value) < 2**53 else 0


def safe_id(id: str) -> str:  # noqa: A002
    """An id as a part of an address: a server may not lead elsewhere by it."""
    if not re.fullmatch(r"[\w.:=~-]{1,200}", id) or set(id) == {"."}:
        raise JudgeError(f"the server gave the id {id[:50]!r}, which is none")
    return id
