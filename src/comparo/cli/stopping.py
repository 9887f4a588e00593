"""How a command that asks a judge is stopped: signals, and what the user is told."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from comparo.cli.printing import Console
from comparo.run.loop import Run

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


def say_interrupted(console: Console, run: Run, stop: KeyboardInterrupt) -> None:
    """Say that a run was interrupted, and what is kept."""
    kept = f"what was judged is kept ({run.progress.answered:,}), and the same command goes on from here."
    if run.progress.batch:
        kept = f"the server goes on with the batch ({run.progress.batch}), and the same command collects its answers."
    console.print(f"{str(stop) or 'Interrupted'}: {kept}", style="yellow", soft_wrap=True)
