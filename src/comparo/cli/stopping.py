"""Signals that end a command in good order, as Ctrl-C does."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

STOPS = ("SIGTERM", "SIGHUP")  # sent by `kill`, by a system that shuts down, and by a terminal that is closed


class Stopped(KeyboardInterrupt):
    """Raised where a signal arrives that ends the command; `code` is what to exit with."""

    def __init__(self, name: str) -> None:
        super().__init__(f"Stopped by {name}")
        self.code = 128 + signal.Signals[name].value


@contextmanager
def stoppable() -> Iterator[None]:
    """Let the signals that end a process raise `Stopped`, unless they are ignored, as SIGHUP is under nohup."""

    def stop(number: int, _: Any) -> None:
        raise Stopped(signal.Signals(number).name)

    usual = {
        number: signal.signal(number, stop)
        for name in STOPS
        if (number := getattr(signal, name, None)) is not None and signal.getsignal(number) != signal.SIG_IGN
    }
    try:
        yield
    finally:
        for number, before in usual.items():
            signal.signal(number, before)
