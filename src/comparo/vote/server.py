"""The server: a socket on this machine or its network, and the application on it until it is stopped.

Limits on connections, so that those without a request keep nobody from voting.

Anybody who reaches the port can open connections and send nothing; no token is needed for that. So a request, with its
body, must arrive within `patience` seconds, and of too many connections the one that has waited longest for a request
is closed. A browser sends its request as soon as it is connected, and connects again where it was closed.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import logging
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from comparo.errors import pip_install

if TYPE_CHECKING:
    from starlette.types import ASGIApp


logger = logging.getLogger(__name__)


@dataclass
class Waiting:
    """The connections of a server without a whole request, the one that has waited longest first, and their limits."""

    most: int
    patience: float
    connections: dict[Limited, None] = field(default_factory=dict)
    is_crowded: bool = False

    def make_room(self) -> None:
        """Close the connection that has waited longest; the first time, say so."""
        oldest = next(iter(self.connections))
        oldest.stop_waiting()
        oldest.transport.abort()
        if not self.is_crowded:
            logger.warning(
                "More than %d connections were open at once. Those that send no request are closed, and votes go on.",
                self.most,
            )
        self.is_crowded = True

    def protocol(self, **given: Any) -> Limited:
        """A new connection, as uvicorn makes them."""
        return Limited(self, **given)


class Limited(H11Protocol):
    """A connection that is closed where its request takes too long, or where others need its place."""

    def __init__(self, waiting: Waiting, **given: Any) -> None:
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
        """Wait for the request no more."""
        self.waiting.connections.pop(self, None)
        if self.deadline is not None:
            self.deadline.cancel()
            self.deadline = None

    def _set_deadline(self) -> None:
        if self.deadline is None:
            self.deadline = self.loop.call_later(self.waiting.patience, lambda: self.transport.abort())


HOST = "127.0.0.1"
PORT = 8377  # the usual one; any that is rarely used would do
LOCAL = ("localhost", "127.0.0.1", "::1")
MOST = 256  # connections: several classes, of which each browser opens some for a moment
PATIENCE = 10.0  # seconds for a request to arrive: it is a few kilobytes, which any network carries in less
GRACE = 3  # seconds that requests in flight have to end when the server is stopped


def check_installed() -> None:
    """Raise an ImportError with the pip command where the server's libraries are missing."""
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise ImportError(f"comparo vote needs {error.name}: {pip_install('vote')}") from error


def is_local(host: str) -> bool:
    """Whether only this machine can reach a server at this host.

    >>> is_local("127.0.0.1"), is_local("localhost"), is_local("::1"), is_local("0.0.0.0")
    (True, True, True, False)
    """
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def open_socket(host: str, port: int | None, last: int | None = None) -> socket.socket:
    """A socket that listens at a host and port; without a port at the `last` or the usual one, else at a free one.

    A ValueError says what is wrong with the host, or that the port is taken.
    """
    wanted = [port] if port is not None else [*([last] if last else []), PORT, 0]
    for number in wanted:
        try:
            return _listening(host, number)
        except socket.gaierror as error:
            raise ValueError(f"--host {host}: there is no such address ({error.strerror})") from error
        except OSError as error:
            if error.errno == errno.EADDRNOTAVAIL:
                raise ValueError(f"--host {host} is not an address of this machine; 0.0.0.0 is all of them") from error
            if port is not None or number == 0:
                why = "is taken" if error.errno == errno.EADDRINUSE else f"cannot be opened ({error.strerror})"
                raise ValueError(f"--port {number} {why}; choose another, or leave --port out") from error
    raise AssertionError("a free port is tried last")


def _listening(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # so that a server that was killed can return
        listening.bind(address)
        listening.listen(128)
    except OSError:
        listening.close()
        raise
    return listening


def origin_of(listening: socket.socket, host: str) -> str:
    """How others address a server: http:// with the host, or this machine's address in its network, and the port."""
    port = listening.getsockname()[1]
    with suppress(ValueError):
        if ipaddress.ip_address(host).is_unspecified:
            host = _address(listening.family)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _address(family: int) -> str:
    """The address from which this machine would reach others; nothing is sent to find it out."""
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:  # addresses for documentation (RFC 5737, RFC 3849), which nobody has
            probe.connect(("192.0.2.1" if family == socket.AF_INET else "2001:db8::1", 9))
            return str(probe.getsockname()[0])
        except OSError:
            return socket.gethostname()


def most_connections(most: int = MOST) -> int:
    """How many connections to hold: at most a quarter of the files that this process may open.

    Accepting is ahead of closing by a few rounds of the event loop, with half as many connections in each.
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
    """Serve until a signal ends it (Ctrl-C, SIGTERM), which is raised again when requests in flight are answered.

    A connection is closed where its request has not arrived after `patience` seconds.
    """
    import uvicorn

    waiting = Waiting(most_connections(), patience)
    config = uvicorn.Config(
        app,
        http=waiting.protocol,  # type: ignore[arg-type]  # it is called as a class of protocols is
        ws="none",
        log_level="error",
        access_log=False,
        lifespan="off",
        server_header=False,
        backlog=waiting.most // 2,  # also how many connections are accepted before one is closed
        timeout_graceful_shutdown=GRACE,
    )
    ready()
    uvicorn.Server(config).run(sockets=[listening])
