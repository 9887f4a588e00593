"""The pages over HTTP: access by token, checks of requests, and limits on connections.

Every URL has a token; without a valid one the answer is a refusal. A request that changes something is a POST of JSON
from a page of this server. Other sites cannot send it, because browsers send the origin of a request (Origin,
Sec-Fetch-Site) and ask before they send JSON to another origin. If only this machine can reach the server, the Host
must be one of its names, against DNS rebinding: no other site can pass for this server.

Behind a proxy, the public URL takes the place of what the proxy may have rewritten: scheme, Host and the beginning of
the path. X-Forwarded-For is then the client's address; without a proxy it is ignored, because anybody can send it.

Anybody who reaches the port can open connections and send nothing, without a token. So a request, with its body, must
arrive within `patience` seconds, and above the limit of connections the one that has waited longest for a request is
closed. A browser sends its request as soon as it is connected, and reconnects if it was closed.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import socket
import sys
import time
from collections import deque
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any
from urllib.parse import urlsplit

import h11
import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from comparo.data.sanitize import visible
from comparo.errors import StoreError
from comparo.log.questions import choices_of
from comparo.vote.pages import FILES, HERE, REASON, Pages
from comparo.vote.session import Links, is_same
from comparo.vote.standing import ranking_csv, votes_csv

MOST_CONNECTIONS = 256  # most connections: enough for several classes, each browser with a few for a moment
PATIENCE = 10.0  # seconds for a request to arrive: any network carries its few kilobytes in less
GRACE = 3  # seconds for requests in flight when the server is stopped
LARGEST = 10_000  # most bytes of a request's body: the longest reason takes 800, as UTF-8
JOINS = 40  # most attempts to join from an address within a minute: a class behind one address has fewer
MINUTE = 60.0  # seconds
LONGEST_REASON = 600  # characters: nine ticked reasons and a written one
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
REFUSED = (HERE / "refused.html").read_text(encoding="utf-8")
NOT_SAVED = "This was NOT saved: the server cannot write to its disk. Tell the organiser, and do not close this page."
NO_NEXT = "This was saved, but the server cannot write the next pair to its disk. Tell the organiser, then try again."

Sent = dict[str, Any]  # the JSON object that a page sends
logger = logging.getLogger(__name__)


def make_app(pages: Pages, hosts: Collection[str] | None = None, behind: str | None = None) -> ASGIApp:
    """The ASGI application; `hosts` are the allowed names in a request's Host header, None: any.

    `behind` is the public URL of a proxy through which requests come.
    """
    booth = pages.booth
    choices = choices_of(booth.voting.prompt.size)
    attempts: deque[tuple[float, str]] = deque()  # to join: when, and from which address

    # page → function of a token: the judge's name, or whether it is the token of that page
    owners: dict[str, Callable[[str], Any]] = {
        "vote": lambda token: _not_revoked(booth.links, token),
        "join": lambda token: pages.has_invitation and is_same(booth.links.invitation, token),
        "organiser": lambda token: is_same(booth.links.organiser, token),
    }

    def vote(name: str, sent: Sent) -> Response:
        ballot, turn, choice = _whole(sent, "ballot"), _whole(sent, "turn"), sent.get("choice")
        if not isinstance(choice, str) or choice not in choices:
            raise HTTPException(400, f"choice is one of {', '.join(choices)}")
        seconds = _seconds(sent)
        reason = "" if pages.reasons is None else _reason(sent)
        booth.vote(name, ballot, turn, choice, seconds, reason)
        return following(name)

    def skip(name: str, sent: Sent) -> Response:
        ballot, turn, reason = _whole(sent, "ballot"), _whole(sent, "turn"), _reason(sent)[:REASON]
        if not reason:
            raise HTTPException(400, "reason is a text that is not empty")
        booth.skip(name, ballot, turn, reason, _seconds(sent))
        return following(name)

    def undo(name: str, sent: Sent) -> Response:
        booth.undo(name, _whole(sent, "vote"))
        return following(name)

    def following(name: str) -> Response:
        """The judge's next turn, after a change was stored."""
        try:
            return JSONResponse({"html": pages.turn(name)})
        except StoreError as error:
            logger.error("%s", error)
            return JSONResponse({"error": NO_NEXT}, 507)

    def differing(name: str, request: Request) -> Response:
        number = request.query_params.get("ballot", "")
        ballot = None
        if number.isdecimal() and len(number) < 16:
            ballot = booth.ballot(name, int(number))
        if ballot is None or len(ballot.items) > 2:
            raise HTTPException(400, "there is no such pair")
        sides = pages.differences(ballot)
        if sides is None:
            raise HTTPException(422, "These texts are too long for their differences to be shown.")
        return JSONResponse({"sides": sides})

    def join(_: str, sent: Sent) -> Response:
        name = sent.get("name")
        try:
            token = booth.join(name if isinstance(name, str) else "")
        except ValueError as error:
            said = str(error)
            raise HTTPException(409, f"{said[:1].upper()}{said[1:]}.") from error
        return JSONResponse({"path": pages.path("vote", token)})

    def limit(address: str) -> None:
        now = time.monotonic()
        while attempts and attempts[0][0] < now - MINUTE:
            attempts.popleft()
        if sum(address == each for _, each in attempts) >= JOINS:
            raise HTTPException(429, "Too many people join from your address at once. Try again in a minute.")
        attempts.append((now, address))

    gets: dict[str, Callable[[str, Request], Response]] = {
        "vote/": lambda name, request: HTMLResponse(pages.judge(_base(request), name)),
        "vote/differences": differing,
        "join/": lambda _, request: HTMLResponse(pages.join(_base(request))),
        "organiser/": lambda _, request: HTMLResponse(pages.organiser(_base(request))),
        "organiser/live": lambda *_: JSONResponse({"html": pages.standing()}),
        "organiser/votes.csv": lambda *_: _download("votes.csv", votes_csv(booth)),
        "organiser/ranking.csv": lambda *_: _download("ranking.csv", ranking_csv(pages.live.look(wait=True))),
        **dict.fromkeys(("vote/{file}", "join/{file}", "organiser/{file}"), _file),
    }
    posts = {"vote/vote": vote, "vote/skip": skip, "vote/undo": undo, "join/name": join}

    def route(path: str, answer: Callable[[str, Any], Response], is_post: bool) -> Route:
        """Check the token, read the JSON of a POST, and answer in a thread."""
        page, _, name = path.partition("/")

        async def respond(request: Request) -> Response:
            who = owners[page](request.path_params["token"])
            if not who:
                raise HTTPException(404)
            if path == "join/name":
                limit(request.client.host if request.client else "")
            given = await _sent(request) if is_post else request
            return await run_in_threadpool(answer, who, given)

        return Route(f"/{page}/{{token}}/{name}", respond, methods=["POST" if is_post else "GET"])

    routes = [route(path, answer, False) for path, answer in gets.items()]
    routes += [route(path, change, True) for path, change in posts.items()]
    lost = count(1)

    async def left(_request: Request, _error: Exception) -> Response:
        number = next(lost)
        if number == 10 ** (len(str(number)) - 1):  # the first, the tenth, the hundredth, …
            logger.warning("Votes that do not count, because a page was closed before all was sent: %d so far.", number)
        return Response(status_code=400)  # nobody reads it

    handlers: dict[Any, Any] = {HTTPException: _explain, StoreError: _not_saved, ClientDisconnect: left}
    return _guarded(Starlette(routes=routes, exception_handlers=handlers), hosts, behind)


def _not_revoked(links: Links, token: str) -> str | None:
    name = links.judge(token)
    if name in links.revoked:
        raise HTTPException(403, f"The organiser has revoked the link of {name}, so it no longer works.")
    return name


def _file(_: str, request: Request) -> Response:
    name = request.path_params["file"]
    if name not in FILES:
        raise HTTPException(404)
    return Response((HERE / name).read_bytes(), media_type=f"{FILES[name]}; charset=utf-8")


def _guarded(app: ASGIApp, hosts: Collection[str] | None, behind: str | None) -> ASGIApp:
    """The application with a check of the headers of every request."""

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            if behind is not None:
                _publish(scope, behind)
            request = Request(scope)
            is_fine = _is_of_host(request, hosts) and (request.method in ("GET", "HEAD") or _is_own(request))
            await (app if is_fine else HTMLResponse(REFUSED, 403))(scope, receive, send)

    return guarded


def _publish(scope: Scope, url: str) -> None:
    """Change a request that came through the proxy at `url` to what it would be without the proxy."""
    public, headers = urlsplit(url), MutableHeaders(scope=scope)
    forwarded = ",".join(headers.getlist("x-forwarded-for"))
    if client := forwarded.rpartition(",")[2].strip():  # the proxy's own entry; anybody can send those before it
        scope["client"] = (client, 0)
    headers["host"] = public.netloc
    scope.update(scheme=public.scheme, root_path=public.path, path=public.path + scope["path"])


def _is_of_host(request: Request, hosts: Collection[str] | None) -> bool:
    try:
        return hosts is None or urlsplit(f"//{request.headers.get('host', '')}").hostname in hosts
    except ValueError:
        return False


def _is_own(request: Request) -> bool:
    """Whether a request that changes something is JSON, and comes from a page of this server or from no page."""
    origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site")
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    try:
        is_here = origin is None or urlsplit(origin).netloc == request.headers.get("host")
    except ValueError:
        is_here = False
    return kind == "application/json" and is_here and site in (None, "same-origin")


async def _sent(request: Request) -> Sent:
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > LARGEST:
            raise HTTPException(413, "that is too long")
    with suppress(ValueError, RecursionError):
        if isinstance(sent := json.loads(body), dict):
            return sent
    raise HTTPException(400, "that is not a JSON object")


def _whole(sent: Sent, name: str) -> int:
    value = sent.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < 2**53:
        raise HTTPException(400, f"{name} is a whole number from 1 on")
    return value


def _reason(sent: Sent) -> str:
    reason = sent.get("reason", "")
    if not isinstance(reason, str):
        raise HTTPException(400, "reason is a text")
    return visible(" ".join(reason.split()))[:LONGEST_REASON]


def _seconds(sent: Sent) -> float:
    value = sent.get("seconds")
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and abs(value) < 1e9 else math.nan  # type: ignore[arg-type]


def _base(request: Request) -> str:
    return request.url.path.rstrip("/")


async def _explain(request: Request, error: Exception) -> Response:
    """The answer to a faulty request; an unknown URL gets the same refusal as an invalid token."""
    assert isinstance(error, HTTPException)
    if error.status_code in (404, 405):
        return HTMLResponse(REFUSED, 403)
    if error.status_code == 403 and request.method == "GET":
        return PlainTextResponse(error.detail, 403)
    return JSONResponse({"error": error.detail}, error.status_code)


async def _not_saved(request: Request, error: Exception) -> Response:
    logger.error("%s", error)
    if request.method == "GET":
        return PlainTextResponse("The server cannot write to its disk. Tell the organiser.", 507)
    return JSONResponse({"error": NOT_SAVED}, 507)


def _download(name: str, text: str) -> Response:
    return Response(text, media_type="text/csv", headers={"Content-Disposition": f'attachment; filename="{name}"'})


@dataclass
class WaitingConnections:
    """The connections without a complete request, the one that has waited longest first, and their limits."""

    most: int
    patience: float
    connections: dict[Limited, None] = field(default_factory=dict)
    is_crowded: bool = False

    def make_room(self) -> None:
        """Close the connection that has waited longest; the first time, log it."""
        oldest = next(iter(self.connections))
        oldest.stop_waiting()
        oldest.transport.abort()
        if not self.is_crowded:
            logger.warning(
                "More than %d connections were open at once. Those that send no request are closed, and votes go on.",
                self.most,
            )
        self.is_crowded = True


class Limited(H11Protocol):
    """A connection that is closed if its request takes too long, or if there are too many connections."""

    def __init__(self, waiting: WaitingConnections, **given: Any) -> None:
        super().__init__(**given)
        self.waiting = waiting
        self.deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.waiting.connections[self] = None
        self._set_deadline()
        if len(self.connections) > self.waiting.most:
            self.waiting.make_room()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state in (h11.IDLE, h11.SEND_BODY):
            self._set_deadline()
        else:
            self.stop_waiting()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self in self.connections:
            self.waiting.connections[self] = None

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.stop_waiting()

    def stop_waiting(self) -> None:
        """Remove the connection from the waiting ones, and cancel its deadline."""
        self.waiting.connections.pop(self, None)
        if self.deadline is not None:
            self.deadline.cancel()
            self.deadline = None

    def _set_deadline(self) -> None:
        if self.deadline is None:
            self.deadline = self.loop.call_later(self.waiting.patience, lambda: self.transport.abort())


def most_connections(most: int = MOST_CONNECTIONS) -> int:
    """The limit of connections: `most`, but at most a quarter of the files that this process may open.

    Connections are closed a few rounds of the event loop after others are accepted, half the limit in each round.
    """
    if sys.platform == "win32":
        return most
    import resource

    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return most if files == resource.RLIM_INFINITY else max(2, min(most, files // 4))


def serve(
    app: ASGIApp,
    listening: socket.socket,
    ready: Callable[[], None] = lambda: None,
    patience: float = PATIENCE,
) -> None:
    """Serve until a signal (Ctrl-C, SIGTERM), which is raised again after requests in flight are answered.

    A connection is closed if its request has not arrived after `patience` seconds.
    """
    waiting = WaitingConnections(most_connections(), patience)
    config = uvicorn.Config(
        app,
        http=partial(Limited, waiting),  # type: ignore[arg-type]  # uvicorn calls it like a protocol class
        ws="none",
        log_level="error",
        access_log=False,
        lifespan="off",
        proxy_headers=False,  # see `_publish`
        server_header=False,
        headers=list(HEADERS.items()),
        backlog=waiting.most // 2,  # also how many connections are accepted before one is closed
        timeout_graceful_shutdown=GRACE,
    )
    ready()
    uvicorn.Server(config).run(sockets=[listening])
