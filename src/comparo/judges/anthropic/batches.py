"""Message Batches of Anthropic's API.

All requests are sent when a batch is created; results are one file of lines, there once the whole batch has ended. A
batch has no name of ours: one whose creation was not confirmed is known by its time and its number of requests, and for
certain only by the `custom_id` of its results. The key is sent as the Messages API takes it.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from comparo.data.prompts import Question
from comparo.errors import JudgeError
from comparo.judges.anthropic.caller import library
from comparo.judges.anthropic.settings import AnthropicSettings
from comparo.judges.batches import GarbledError, Line, State
from comparo.judges.openai.batches import number_of, safe_id
from comparo.judges.openai.exchange import Exchange
from comparo.judges.openai.wire import http_client
from comparo.judges.protocol import Judgement

MOST_LINES, MOST_BYTES = 100_000, 255_000_000  # of a batch: Anthropic takes 256 MB, of which lines are not all
PAGE = 100  # batches in one list: the most that Anthropic gives
SKEW = 300  # seconds by which the server's clock may be behind this one
ROUTE = "/v1/messages/batches"
DONE = ("succeeded", "errored", "expired")  # counts of requests that have a line in the results
COUNTS = ("processing", "canceled", *DONE)
LASTING = ("invalid_request_error", "not_found_error", "permission_error", "request_too_large")  # of a request itself


class AnthropicBatches:
    """Batches of one judge and prompt; `comparo.judges.batches.Batches` says what each function does.

    `params` makes the request for one verdict on a question, and `judgement` reads the messages about it.
    """

    most_lines, most_bytes = MOST_LINES, MOST_BYTES

    def __init__(
        self,
        judge: AnthropicSettings,
        params: Callable[[Question], dict[str, Any]],
        judgement: Callable[[Question, Sequence[Mapping[str, Any]]], Judgement],
    ) -> None:
        key, login = judge.access()
        asked = library(
            judge, http_client(judge.base_url, {}, judge.timeout)
        )  # the version of the API is the library's
        headers = {**login, "x-api-key": key, "anthropic-version": str(asked.default_headers["anthropic-version"])}
        self._judge, self._params, self._judgement = judge, params, judgement
        self._server = Exchange(judge.base_url, headers, judge.secrets, judge.keys[0], judge.timeout, judge.retries)

    def requests(self, question: Question) -> list[Any] | Judgement:
        try:
            return [self._params(question)] * max(1, self._judge.votes)
        except JudgeError as problem:
            return Judgement(question, error=str(problem))

    def line(self, name: str, request: Any) -> bytes:
        made = {"custom_id": name, "params": request}
        return json.dumps(made, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n"

    def read(self, question: Question, answers: Sequence[Line]) -> Judgement:
        for answer in answers:
            if answer.error is not None:
                return Judgement(question, error=self._server.secrets.scrub(answer.error))
            if answer.status >= 300:
                said = self._server.short(json.dumps(answer.body, ensure_ascii=False))
                return Judgement(question, error=f"the server answered ({answer.status}): {said}")
        return self._judgement(question, [answer.body for answer in answers])

    def upload(self, name: str, path: Path) -> str:
        return ""

    def create(self, name: str, file: str, path: Path) -> State:
        content = b'{"requests":[' + b",".join(path.read_bytes().rstrip(b"\n").split(b"\n")) + b"]}"
        headers = {"Content-Type": "application/json"}
        try:
            told = self._server.explained(
                lambda: self._server.ask_once("POST", ROUTE, content=content, headers=headers)
            )
            return self._state(told)
        except GarbledError as problem:
            raise ConnectionError(str(problem)) from None

    def find(self, name: str, file: str, created: float, lines: int, others: Sequence[str]) -> State | None:
        likely = None
        for batch in self._listed():
            if _time(batch.get("created_at")) < created - SKEW:
                break
            state = self._state(batch)
            if state.id in others or state.total != lines:
                continue
            if not state.is_over:
                likely = likely or state  # whose it is will show in its results
            elif self._is_named(state, name):
                return state
        return likely

    def state(self, id: str) -> State:  # noqa: A002
        return self._state(
            self._server.explained(lambda: self._server.ask("GET", f"{ROUTE}/{safe_id(id)}"), is_made=True)
        )

    def results(self, state: State) -> Iterator[Line]:
        for told in self._server.lines(f"{ROUTE}/{safe_id(state.id)}/results"):
            if (line := _line(told)) is not None:
                yield line

    def cancel(self, id: str) -> None:  # noqa: A002
        self._server.explained(lambda: self._server.ask("POST", f"{ROUTE}/{safe_id(id)}/cancel"), is_made=True)

    def discard(self, name: str, file: str) -> None:
        """There is no file."""

    def close(self) -> None:
        self._server.close()

    def _is_named(self, state: State, name: str) -> bool:
        """Whether the results of a batch are of this name, by the first of them."""
        try:
            return next(self.results(state), Line("")).id.startswith(f"{name}-")
        except JudgeError:  # of a batch whose results are gone
            return False

    def _listed(self) -> Iterator[Mapping[str, Any]]:
        """The batches of this key's workspace, the newest first."""
        after = ""
        while True:
            route = f"{ROUTE}?limit={PAGE}{after}"
            page = self._server.explained(lambda: self._server.ask("GET", route))  # noqa: B023
            data = page.get("data")
            found = [one for one in data if isinstance(one, dict)] if isinstance(data, list) else []
            yield from found
            last = str(page.get("last_id") or "")
            if not found or not page.get("has_more") or not last or after.endswith(f"={last}"):
                return
            after = f"&after_id={safe_id(last)}"

    def _state(self, batch: Mapping[str, Any]) -> State:
        if not isinstance(found := batch.get("id"), str) or not found:
            raise GarbledError(f"{self._judge.base_url} does not answer as the Message Batches API does: no id")
        counts = batch.get("request_counts")
        told = counts if isinstance(counts, dict) else {}
        total = sum(number_of(told.get(name)) for name in COUNTS)
        done = sum(number_of(told.get(name)) for name in DONE)
        status = str(batch.get("processing_status", ""))[:40]
        is_over = status == "ended"
        if is_over:
            status = "cancelled" if batch.get("cancel_initiated_at") else "ended"
        return State(found, status, is_over, total, done)


def _line(told: Mapping[str, Any]) -> Line | None:
    """A line of the results; None where it holds none, as for a request that was cancelled, and so was not asked."""
    name, result = str(told.get("custom_id", "")), told.get("result")
    kind = result.get("type") if isinstance(result, dict) else None
    if kind == "succeeded":
        return Line(name, 200, result["message"] if isinstance(result, dict) and "message" in result else None)
    if kind == "errored" and isinstance(result, dict):
        outer = result.get("error")
        inner = outer.get("error") if isinstance(outer, dict) else None
        fault = inner if isinstance(inner, dict) else outer if isinstance(outer, dict) else {}
        said = f"{fault.get('type')}: {fault.get('message')}"[:500]
        return Line(name, 400, fault) if fault.get("type") in LASTING else Line(name, error=said)
    return Line(name, error="it expired") if kind == "expired" else None


def _time(value: Any) -> float:
    """An RFC 3339 time in seconds since 1970; 0 where it is none."""
    try:
        return datetime.fromisoformat(str(value)).timestamp()
    except ValueError:
        return 0.0
