"""Limits on connections, so that those without a request keep nobody from voting.

Anybody who reaches the port can open connections and send nothing; no token is needed for that. So a request, with its
body, must arrive within `patience` seconds, and of too many connections the one that has waited longest for a request
is closed. A browser sends its request as soon as it is connected, and connects again where it was closed.
"""

import asyncio
import logging
from dataclasses import dataclass, field
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

logger = logging.getLogger(__name__)


@dataclass
class Waiting:
    """The connections of a server without a whole request, the one that has waited longest first, and their limits."""

    most: int
    patience: float
    connections: dict["Limited", None] = field(default_factory=dict)
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

    def protocol(self, **given: Any) -> "Limited":
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
