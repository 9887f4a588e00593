"""A server of batches on loopback that behaves as OpenAI's reference of its Batch API says, with faults on demand."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from email import message_from_bytes
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit

from servers import Listening, Reply, Request, is_probe, prefers

EXPIRED = {
    "code": "batch_expired",
    "message": "This request could not be executed before the completion window expired.",
}
Outcome = str | Reply  # "ok", "expired", "missing" (not done, and not counted), or an answer of its own


@dataclass
class Behaviour:
    """What the server does, and may be changed while it runs.

    `looks` is how often a batch is looked at before it is over; -1: never. `outcome` says what becomes of a line, by
    the number of the batch and of the line. `lines` and `counts` change the results of a batch and the counts of its
    requests before they are told, by its number. `refuse` gives the errors for which a whole batch fails, by its lines.
    `at` is called with the name of a moment, in the server's thread. `behind` is how many seconds its clock is behind.
    """

    looks: int = 0
    outcome: Callable[[int, int], Outcome] = lambda *_: "ok"
    lines: Callable[[int, list[Any]], list[Any]] = lambda _, lines: lines
    counts: Callable[[int, Any], Any] = lambda _, counts: counts
    refuse: Callable[[list[dict[str, Any]]], list[dict[str, Any]] | None] = lambda _: None
    at: Callable[[str], None] = lambda _: None
    answer: Callable[[Request], Reply] = field(default_factory=lambda: prefers(0.5))
    key: str | None = None
    has_metadata: bool = True
    has_batches: bool = True
    behind: float = 0.0


class BatchServer(Listening):
    """Files and batches in memory; `batches` are all that were created, `asked` is how often each text was answered."""

    def __init__(self, behaviour: Behaviour | None = None) -> None:
        self.does = behaviour or Behaviour()
        self.files: dict[str, dict[str, Any]] = {}
        self.batches: dict[str, dict[str, Any]] = {}
        self.asked: dict[str, int] = {}
        self.direct: list[dict[str, Any]] = []
        self.routes: list[str] = []
        self.lock = threading.RLock()
        super().__init__()

    @property
    def made(self) -> list[dict[str, Any]]:
        """The batches, in the order in which they were created."""
        return list(self.batches.values())

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers.get("Content-Length", 0)) or 0)
        if "chunked" in handler.headers.get("Transfer-Encoding", ""):
            body = _unchunk(handler)
        parts = urlsplit(handler.path)
        route = parts.path.removeprefix("/v1")
        self.routes.append(f"{handler.command} {route}")
        status, told = self.route(handler, route, parse_qs(parts.query), body)
        data = told if isinstance(told, bytes) else json.dumps(told).encode()
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        half = len(data) // 2
        handler.wfile.write(data[:half])
        handler.wfile.flush()
        self.does.at(f"half of {handler.command} {_kind(route)}")
        handler.wfile.write(data[half:])

    def answer_at_once(self, route: str, asked: dict[str, Any]) -> tuple[int, Any]:
        """The answer to a question that is not in a batch."""
        if not is_probe(asked):
            self.direct.append(asked)
        self.count(asked)
        reply = self.does.answer(Request("POST", route, {}, asked))
        return reply.status, reply.body

    def route(self, handler: Any, route: str, query: dict[str, list[str]], body: bytes) -> tuple[int, Any]:
        if self.does.key is not None and handler.headers.get("Authorization") != f"Bearer {self.does.key}":
            return 401, {"error": {"message": "Incorrect API key provided", "type": "invalid_request_error"}}
        if route == "/chat/completions":
            return self.answer_at_once(route, json.loads(body))
        if not self.does.has_batches:
            return 404, {"detail": "Not Found"}
        moment = f"{handler.command} {_kind(route)}"
        self.does.at(f"before {moment}")
        with self.lock:
            status, told = self.batch_route(handler.command, route, query, handler.headers, body)
        self.does.at(f"after {moment}")
        return status, told

    def batch_route(
        self, method: str, route: str, query: dict[str, list[str]], headers: Any, body: bytes
    ) -> tuple[int, Any]:
        steps = route.strip("/").split("/")
        if method == "POST" and route == "/files":
            return 200, self.add_file(headers, body)
        if method == "GET" and route in ("/files", "/batches"):
            return 200, self.page(self.files if route == "/files" else self.batches, query)
        if method == "DELETE" and steps[0] == "files":
            return (200, {"id": steps[1], "deleted": True}) if self.files.pop(steps[1], None) else (404, {})
        if method == "GET" and steps[0] == "files" and steps[-1] == "content" and steps[1] in self.files:
            return 200, self.files[steps[1]]["content"]
        if method == "POST" and route == "/batches":
            return self.create(json.loads(body))
        if steps[0] == "batches" and steps[1] in self.batches:
            batch = self.batches[steps[1]]
            if method == "POST" and steps[-1] == "cancel":
                if batch["status"] not in ("validating", "in_progress", "finalizing"):
                    return 409, {"error": {"message": f"Cannot cancel a batch with status {batch['status']}"}}
                batch["status"] = "cancelling"
                return 200, self.told(batch)
            self.move(batch)
            return 200, self.told(batch)
        return 404, {"error": {"message": f"No such object: {route}", "type": "invalid_request_error"}}

    def add_file(self, headers: Any, body: bytes) -> dict[str, Any]:
        message = message_from_bytes(b"Content-Type: " + headers["Content-Type"].encode() + b"\r\n\r\n" + body)
        fields = {part.get_param("name", header="content-disposition"): part for part in message.get_payload()}
        assert fields["purpose"].get_payload() == "batch"
        id_ = f"file-{len(self.routes)}"
        content = fields["file"].get_payload(decode=True)
        self.files[id_] = {
            **{"id": id_, "object": "file", "purpose": "batch", "bytes": len(content)},
            **{"filename": fields["file"].get_filename(), "content": content},
        }
        return self.told(self.files[id_])

    def page(self, things: dict[str, Any], query: dict[str, list[str]], place: str = "after") -> dict[str, Any]:
        names, most = list(things)[::-1], int(query.get("limit", ["20"])[0])
        after = query.get(place, [""])[0]
        names = names[names.index(after) + 1 :] if after else names
        data = [self.told(things[name]) for name in names[:most]]
        return {"object": "list", "data": data, "has_more": len(names) > most}

    def create(self, asked: dict[str, Any]) -> tuple[int, Any]:
        assert asked["completion_window"] == "24h"
        if asked["input_file_id"] not in self.files:
            return 400, {"error": {"message": "No such File object", "type": "invalid_request_error"}}
        lines = [json.loads(line) for line in self.files[asked["input_file_id"]]["content"].splitlines()]
        assert all(line["url"] == asked["endpoint"] and line["method"] == "POST" for line in lines)
        assert len({line["custom_id"] for line in lines}) == len(lines)
        id_ = f"batch_{len(self.batches) + 1}"
        errors = self.does.refuse(lines)
        self.batches[id_] = {
            **{"id": id_, "object": "batch", "endpoint": asked["endpoint"], "input_file_id": asked["input_file_id"]},
            **{"status": "validating", "created_at": int(time.time() - self.does.behind), "completion_window": "24h"},
            **{"metadata": asked.get("metadata") if self.does.has_metadata else None},
            **{"request_counts": {"total": len(lines), "completed": 0, "failed": 0}, "looks": 0, "lines": lines},
            **{"output_file_id": None, "error_file_id": None, "errors": None, "refused": errors},
        }
        return 200, self.told(self.batches[id_])

    def told(self, thing: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in thing.items() if name not in ("content", "lines", "looks", "refused")}

    def move(self, batch: dict[str, Any]) -> None:
        """One step further, whenever it is looked at."""
        if batch["refused"] and batch["status"] == "validating":
            batch["status"], batch["errors"] = "failed", {"object": "list", "data": batch["refused"]}
        elif batch["status"] == "cancelling":
            self.finish(batch, "cancelled")
        elif batch["status"] in ("validating", "in_progress"):
            batch["looks"] += 1
            batch["status"] = "in_progress"
            if 0 <= self.does.looks < batch["looks"]:
                self.finish(batch, "completed")

    def finish(self, batch: dict[str, Any], status: str) -> None:
        number = list(self.batches).index(batch["id"])
        good, bad = [], []
        for place, line in enumerate(batch["lines"]):
            outcome = self.does.outcome(number, place)
            if status == "cancelled" and place >= len(batch["lines"]) // 2:
                outcome = "missing"
            head = {"id": f"batch_req_{place}", "custom_id": line["custom_id"]}
            if outcome == "expired":
                status = "expired"
                bad.append({**head, "response": None, "error": EXPIRED})
            elif outcome != "missing":
                reply = self.reply_to(line["body"], outcome)
                made = {**head, "response": {"status_code": reply.status, "body": reply.body}, "error": None}
                (good if reply.status < 300 else bad).append(made)
        good.reverse()  # results are in any order
        batch["status"] = status
        counts = batch["request_counts"] | {"completed": len(good), "failed": len(bad)}
        batch["request_counts"] = self.does.counts(number, counts)
        for name, lines in (("output_file_id", self.does.lines(number, good)), ("error_file_id", bad)):
            if lines:
                batch[name] = f"{batch['id']}-{name}"
                self.files[batch[name]] = {"id": batch[name], "content": jsonl(lines), "filename": "results"}

    def reply_to(self, body: dict[str, Any], outcome: Outcome) -> Reply:
        """The answer to a line of a batch, which is asked if the outcome is not an answer of its own."""
        self.count(body)
        return outcome if isinstance(outcome, Reply) else self.does.answer(Request("POST", "", {}, body))

    def count(self, body: dict[str, Any]) -> None:
        text = body["messages"][0]["content"]
        with self.lock:
            if not is_probe(body):
                self.asked[text] = self.asked.get(text, 0) + 1


def jsonl(lines: list[Any]) -> bytes:
    """Lines as JSON; bytes are as they are."""
    return b"".join((line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n" for line in lines)


def _kind(route: str) -> str:
    return route.strip("/").split("/")[-1 if route.endswith(("content", "cancel")) else 0] + (
        "/id" if route.count("/") == 2 else ""
    )


def _unchunk(handler: BaseHTTPRequestHandler) -> bytes:
    body = b""
    while size := int(handler.rfile.readline(), 16):
        body += handler.rfile.read(size)
        handler.rfile.readline()
    handler.rfile.readline()
    return body
