"""The progress of a run on stderr, a line that is rewritten on a terminal, a line a minute elsewhere; and its calls.

How a command that asks a judge is stopped: signals, and what the user is told.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.live import Live
from rich.text import Text

from comparo.cli.printing import MINUTE, Console
from comparo.run.budget import Progress
from comparo.run.loop import Run
from comparo.run.probing import prices_of
from comparo.run.voices import count_cached
from comparo.run.watch import progress_text


@contextmanager
def watched(run: Run, console: Console, every: float = MINUTE) -> Iterator[None]:
    """Show how far a run is; where stderr is no terminal, by a line in `every` seconds, as a log needs it."""
    if console.quiet:
        yield
    elif console.is_terminal:
        with Live(Text("starting"), console=console, transient=True, refresh_per_second=4) as live:
            run.watch = lambda progress: live.update(progress_line(progress))
            yield
    else:
        run.watch = lambda progress: console.print(progress_text(progress), markup=False, soft_wrap=True)
        run.pace = every
        yield


def progress_line(progress: Progress) -> Text:
    """How far a run is, cut to the width of a terminal."""
    return Text(progress_text(progress), style="cyan", overflow="ellipsis", no_wrap=True)


def calls_of(run: Run) -> dict[str, Any]:
    """The calls of a run, what they cost, and by which prices of which day, as JSON has them."""
    progress = run.progress
    calls = {"answered": progress.answered, "cached": count_cached(run.judgements), "failed": progress.failed}
    return calls | {"cost": progress.cost, "prices": prices_of(run.task.judges)}


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
