"""The pages over HTTP: who may open what, and how a request must look.

Every address begins with a token; without a valid one the answer is a page that says nothing. What changes something is
a POST of JSON from a page of this server: other sites cannot send it, because browsers say where a request comes from
(Origin, Sec-Fetch-Site) and ask before they send JSON elsewhere. On this machine alone, the Host must be one of its
names, so that no other site can give itself this server's address (DNS rebinding).
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Awaitable, Callable, Collection
from typing import Any
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from comparo.data.sanitize import visible
from comparo.errors import StoreError
from comparo.vote.ballots import CHOICES
from comparo.vote.pages import FILES, HERE, REASON, Pages
from comparo.vote.people import is_same
from comparo.vote.standing import ranking_csv, votes_csv

LARGEST = 10_000  # bytes of what a page sends: the longest reason takes 800, as UTF-8
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

Handler = Callable[[Request], Awaitable[Response]]
logger = logging.getLogger(__name__)


class RefusedError(Exception):
    """A request without a valid token, or from another site."""


def make_app(pages: Pages, hosts: Collection[str] | None = None) -> ASGIApp:
    """The application; `hosts` are the names that a request may use for this server, any if None."""
    booth = pages.booth

    def judge_of(request: Request) -> str:
        name = booth.links.judge(request.path_params["token"])
        if name is None:
            raise RefusedError
        return name

    def check_organiser(request: Request) -> None:
        if not is_same(booth.links.organiser, request.path_params["token"]):
            raise RefusedError

    def check_invitation(request: Request) -> None:
        if not pages.has_invitation or not is_same(booth.links.invitation, request.path_params["token"]):
            raise RefusedError

    async def judge_page(request: Request) -> Response:
        name = judge_of(request)
        return HTMLResponse(await run_in_threadpool(pages.judge, _base(request), name))

    async def vote(request: Request) -> Response:
        name, sent = judge_of(request), await _sent(request)
        ballot, turn, choice = _whole(sent, "ballot"), _whole(sent, "turn"), sent.get("choice")
        if not isinstance(choice, str) or choice not in CHOICES:
            raise HTTPException(400, f"choice is one of {', '.join(CHOICES)}")
        return await changed(name, booth.vote, name, ballot, turn, choice, _seconds(sent))

    async def skip(request: Request) -> Response:
        name, sent = judge_of(request), await _sent(request)
        ballot, turn, reason = _whole(sent, "ballot"), _whole(sent, "turn"), sent.get("reason")
        if not isinstance(reason, str) or not reason.strip():
            raise HTTPException(400, "reason is a text that is not empty")
        said = visible(" ".join(reason.split()))[:REASON]
        return await changed(name, booth.skip, name, ballot, turn, said, _seconds(sent))

    async def undo(request: Request) -> Response:
        name, sent = judge_of(request), await _sent(request)
        return await changed(name, booth.undo, name, _whole(sent, "vote"))

    async def changed(name: str, change: Callable[..., None], *arguments: Any) -> Response:
        """Change something, and answer with what the judge sees next."""
        await run_in_threadpool(change, *arguments)
        try:
            return JSONResponse({"html": await run_in_threadpool(pages.turn, name)})
        except StoreError as error:
            logger.error("%s", error)
            return JSONResponse({"error": NO_NEXT}, 507)

    async def differing(request: Request) -> Response:
        name, number = judge_of(request), request.query_params.get("ballot", "")
        ballot = booth.ballot(name, int(number)) if number.isdecimal() and len(number) < 16 else None
        if ballot is None:
            raise HTTPException(400, "there is no such pair")
        sides = await run_in_threadpool(pages.differences, ballot)
        if sides is None:
            raise HTTPException(422, "These texts are too long for their differences to be shown.")
        return JSONResponse({"sides": sides})

    async def join_page(request: Request) -> Response:
        check_invitation(request)
        return HTMLResponse(pages.join(_base(request)))

    async def join(request: Request) -> Response:
        check_invitation(request)
        name = (await _sent(request)).get("name")
        try:
            token = await run_in_threadpool(booth.join, name if isinstance(name, str) else "")
        except ValueError as error:
            raise HTTPException(409, f"{str(error)[:1].upper()}{str(error)[1:]}.") from error
        return JSONResponse({"path": f"/vote/{token}/"})

    async def organiser_page(request: Request) -> Response:
        check_organiser(request)
        return HTMLResponse(await run_in_threadpool(pages.organiser, _base(request)))

    async def live(request: Request) -> Response:
        check_organiser(request)
        return JSONResponse({"html": await run_in_threadpool(pages.standing)})

    async def votes(request: Request) -> Response:
        check_organiser(request)
        return _download("votes.csv", await run_in_threadpool(votes_csv, booth))

    async def ranking(request: Request) -> Response:
        check_organiser(request)
        standing = await run_in_threadpool(pages.live.look, True)
        return _download("ranking.csv", ranking_csv(standing))

    def files(check: Callable[[Request], Any]) -> Handler:
        async def file(request: Request) -> Response:
            check(request)
            name = request.path_params["file"]
            if name not in FILES:
                raise RefusedError
            return Response((HERE / name).read_bytes(), media_type=f"{FILES[name]}; charset=utf-8")

        return file

    routes = [
        Route("/vote/{token}/", judge_page),
        Route("/vote/{token}/vote", vote, methods=["POST"]),
        Route("/vote/{token}/skip", skip, methods=["POST"]),
        Route("/vote/{token}/undo", undo, methods=["POST"]),
        Route("/vote/{token}/differences", differing),
        Route("/vote/{token}/{file}", files(judge_of)),
        Route("/join/{token}/", join_page),
        Route("/join/{token}/name", join, methods=["POST"]),
        Route("/join/{token}/{file}", files(check_invitation)),
        Route("/organiser/{token}/", organiser_page),
        Route("/organiser/{token}/live", live),
        Route("/organiser/{token}/votes.csv", votes),
        Route("/organiser/{token}/ranking.csv", ranking),
        Route("/organiser/{token}/{file}", files(check_organiser)),
    ]
    handlers: dict[Any, Any] = {RefusedError: _refuse, HTTPException: _explain, StoreError: _not_saved}
    handlers[ClientDisconnect] = _left
    return _guarded(Starlette(routes=routes, exception_handlers=handlers), hosts)


def _guarded(app: ASGIApp, hosts: Collection[str] | None) -> ASGIApp:
    """The application behind a look at the headers of every request, with the headers of every response."""

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope)

        async def begun(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [
                    *message.get("headers", []),
                    *((name.lower().encode(), value.encode()) for name, value in HEADERS.items()),
                ]
            await send(message)

        is_fine = _is_of_host(request, hosts) and (request.method in ("GET", "HEAD") or _is_own(request))
        await (app if is_fine else _refusal())(scope, receive, begun)

    return guarded


def _is_of_host(request: Request, hosts: Collection[str] | None) -> bool:
    """Whether the request names this server by one of its names."""
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


async def _sent(request: Request) -> dict[str, Any]:
    """The JSON object that a page sent."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > LARGEST:
            raise HTTPException(413, "that is too long")
    try:
        sent = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise HTTPException(400, "that is not JSON") from error
    if not isinstance(sent, dict):
        raise HTTPException(400, "that is not a JSON object")
    return sent


def _whole(sent: dict[str, Any], name: str) -> int:
    value = sent.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < 2**53:
        raise HTTPException(400, f"{name} is a whole number from 1 on")
    return value


def _seconds(sent: dict[str, Any]) -> float:
    value = sent.get("seconds")
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and abs(value) < 1e9 else math.nan  # type: ignore[arg-type]


def _base(request: Request) -> str:
    """The beginning of a page's own addresses."""
    return request.url.path.rstrip("/")


def _refusal() -> Response:
    return HTMLResponse(REFUSED, 403)


async def _refuse(_request: Request, _error: Exception) -> Response:
    return _refusal()


async def _explain(_request: Request, error: Exception) -> Response:
    """What is wrong with a request; an address that there is not says as little as one without a token."""
    assert isinstance(error, HTTPException)
    if error.status_code in (404, 405):
        return _refusal()
    return JSONResponse({"error": error.detail}, error.status_code)


async def _left(_request: Request, _error: Exception) -> Response:
    logger.warning("A judge's page was closed before it had sent all of a vote, which does not count.")
    return Response(status_code=400)  # which nobody reads


async def _not_saved(request: Request, error: Exception) -> Response:
    logger.error("%s", error)
    if request.method == "GET":
        return PlainTextResponse("The server cannot write to its disk. Tell the organiser.", 507)
    return JSONResponse({"error": NOT_SAVED}, 507)


def _download(name: str, text: str) -> Response:
    return Response(text, media_type="text/csv", headers={"Content-Disposition": f'attachment; filename="{name}"'})
