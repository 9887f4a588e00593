"""A server that answers as Anthropic's public API reference says: messages, refusals and Message Batches."""

from __future__ import annotations

import json
import math
import time
from datetime import UTC, datetime
from typing import Any

from batch_server import BatchServer, Behaviour, jsonl
from servers import Reply, Request, numbers_in

COUNTS = ("processing", "succeeded", "errored", "canceled", "expired")


def message(text: str | None, stop: str = "end_turn", thought: str = "", **more: Any) -> Reply:
    """A message with a text, and with a block of thinking before it where there is a thought."""
    content = [{"type": "thinking", "thinking": thought, "signature": "c2ln"}] if thought else []
    content += [] if text is None else [{"type": "text", "text": text}]
    usage = {"input_tokens": 100, "output_tokens": 8} | more.pop("usage", {})
    body = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-haiku-5-5", "content": content}
    return Reply(body | {"stop_reason": stop, "stop_sequence": None, "usage": usage} | more.pop("body", {}), **more)


def verdict(better: str, **more: Any) -> Reply:
    """A message in the structured output that was asked for."""
    return message(json.dumps({"better": better}), **more)


def refused(status: int, kind: str, text: str, **more: Any) -> Reply:
    """An error as the API tells it."""
    details = {"details": more.pop("details")} if "details" in more else {}
    body = {"type": "error", "error": {"type": kind, "message": text} | details, "request_id": "req_1"}
    return Reply(body, status=status, **more)


def prefers_larger(request: Request) -> Reply:
    """Prefers the text with the higher number, surely where they differ by much."""
    content, labels = request.body["messages"][0]["content"], request.body["output_config"]["format"]["schema"]
    first, second, *others = numbers = numbers_in(content)
    if others:
        order = sorted(zip(numbers, "ABCDEFGH", strict=False), reverse=True)
        return message(json.dumps({"order": ">".join(label for _, label in order)}))
    better, worse = labels["properties"]["better"]["enum"]
    return verdict(better if first - second + 2 * math.sin(7 * first + 3 * second) > 0 else worse)


class ClaudeBatchServer(BatchServer):
    """Batches in memory; outcomes are "ok", "expired", "missing" or a message of its own."""

    def __init__(self) -> None:
        super().__init__(Behaviour(answer=prefers_larger))
        self.versions: set[str | None] = set()  # of the API, as requests name it

    def route(self, handler: Any, route: str, query: dict[str, list[str]], body: bytes) -> tuple[int, Any]:
        if self.does.key is not None and handler.headers.get("x-api-key") != self.does.key:
            reply = refused(401, "authentication_error", "invalid x-api-key")
            return reply.status, reply.body
        self.versions.add(handler.headers.get("anthropic-version"))
        if route == "/messages":
            return self.answer_at_once(route, json.loads(body))
        steps = route.removeprefix("/messages/").split("/")
        kind = "results" if steps[-1] == "results" else "id" if len(steps) == 2 else "batches"
        self.does.at(f"before {handler.command} {kind}")
        with self.lock:
            status, told = self.claude_route(handler.command, steps, query, body)
        self.does.at(f"after {handler.command} {kind}")
        return status, told

    def claude_route(self, method: str, steps: list[str], query: dict[str, list[str]], body: bytes) -> tuple[int, Any]:
        if method == "POST" and steps == ["batches"]:
            return 200, self.make(json.loads(body)["requests"])
        if method == "GET" and steps == ["batches"]:
            for batch in self.batches.values():  # a list is a look, too
                self.move(batch)
            return 200, self.page(self.batches, query, "after_id")
        if (batch := self.batches.get(steps[1])) is None:
            return 404, refused(404, "not_found_error", "no such batch").body
        if steps[-1] == "cancel":
            batch |= {"processing_status": "canceling", "cancel_initiated_at": self.now()}
        elif steps[-1] == "results":
            return 200, jsonl(batch["results"])
        else:
            self.move(batch)
        return 200, self.told(batch)

    def make(self, requests: list[dict[str, Any]]) -> dict[str, Any]:
        assert len({one["custom_id"] for one in requests}) == len(requests)
        assert all(set(one) == {"custom_id", "params"} for one in requests)
        id_ = f"msgbatch_{len(self.batches) + 1}"
        self.batches[id_] = {
            **{"id": id_, "type": "message_batch", "processing_status": "in_progress", "created_at": self.now()},
            **{"request_counts": dict.fromkeys(COUNTS, 0) | {"processing": len(requests)}, "looks": 0},
            **{"lines": requests, "results_url": None, "cancel_initiated_at": None, "results": []},
        }
        return self.told(self.batches[id_])

    def told(self, thing: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in thing.items() if name not in ("lines", "looks", "results")}

    def move(self, batch: dict[str, Any]) -> None:
        batch["looks"] += 1
        is_cancelled = batch["processing_status"] == "canceling"
        if batch["processing_status"] == "ended" or (not is_cancelled and not 0 <= self.does.looks < batch["looks"]):
            return
        number, results = list(self.batches).index(batch["id"]), []
        for place, line in enumerate(batch["lines"]):
            outcome = self.does.outcome(number, place)
            outcome = "canceled" if is_cancelled and place % 2 else outcome
            if outcome == "missing":
                continue
            if outcome in ("expired", "canceled"):
                results.append({"custom_id": line["custom_id"], "result": {"type": outcome}})
                continue
            reply = self.reply_to(line["params"], outcome)
            good = {"type": "succeeded", "message": reply.body}
            result = good if reply.status < 300 else {"type": "errored", "error": reply.body}
            results.append({"custom_id": line["custom_id"], "result": result})
        types = [one["result"]["type"] for one in results]
        counts = {name: types.count(name) for name in COUNTS} | {"processing": len(batch["lines"]) - len(results)}
        batch |= {"processing_status": "ended", "request_counts": self.does.counts(number, counts)}
        batch |= {"results": self.does.lines(number, results[::-1]), "results_url": f"{self.url}/elsewhere"}

    def now(self) -> str:
        return datetime.fromtimestamp(time.time() - self.does.behind, UTC).isoformat().replace("+00:00", "Z")
