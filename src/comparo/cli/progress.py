"""The progress and the messages of a run on stderr, and the signals that stop it."""

import logging
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.live import Live
from rich.text import Text

from comparo.cli.printing import MINUTE, Console, cost_words
from comparo.run.loop import Run
from comparo.run.progress import Progress, Watcher, progress_text
from comparo.run.task import prices_of
from comparo.run.voices import count_cached

STOPS = ("SIGTERM", "SIGHUP")  # sent by `kill`, by a system that shuts down, and by a terminal that is closed
STYLES = {logging.INFO: "dim", logging.WARNING: "yellow"}


class Line:
    """Prints the progress as a line every `pace` seconds, as a log needs it."""

    def __init__(self, console: Console, pace: float = MINUTE) -> None:
        self.console, self.pace, self._printed = console, pace, time.monotonic()

    def __call__(self, progress: Progress) -> None:
        if time.monotonic() - self._printed >= self.pace:
            self.console.print(progress_text(progress))
            self._printed = time.monotonic()


@contextmanager
def watched(console: Console, pace: float = MINUTE) -> Iterator[Watcher | None]:
    """Show the messages of a run, and its progress: a line that is rewritten, or one every `pace` seconds in a log."""
    with _messages(console), stoppable():
        if console.quiet:
            yield None
        elif console.is_terminal:
            # Results on the same terminal go above the line; those in a file must not be redirected.
            with Live(Text("starting"), console=console, transient=True, redirect_stdout=sys.stdout.isatty()) as live:
                yield lambda progress: live.update(progress_line(progress))
        else:
            yield Line(console, pace)


def progress_line(progress: Progress) -> Text:
    """How far a run is, cut to the width of a terminal."""
    return Text(progress_text(progress), style="cyan", overflow="ellipsis", no_wrap=True)


def calls_of(run: Run) -> dict[str, Any]:
    """The calls of a run, what they cost, and by which prices of which day, as JSON has them."""
    progress = run.progress
    calls = {"answered": progress.answered, "cached": count_cached(run.judgements), "failed": progress.failed}
    return calls | {"cost": progress.cost, "prices": prices_of(run.task.judges)}


def how_it_went(run: Run, done: str) -> str:
    """What was `done` by a run, what failed, and what it cost, in one line."""
    progress, parts = run.progress, [done]
    if progress.failed:
        parts.append(f"{progress.failed:,} failed")
    if progress.cut:
        parts.append(f"{progress.cut:,} prompts cut to the model's window")
    return "; ".join(parts + cost_words(count_cached(run.judgements), progress.answered, progress.cost))


class Stopped(KeyboardInterrupt):
    """Raised where a signal arrives that ends the command; `code` is what to exit with."""

    def __init__(self, name: str) -> None:
        super().__init__(f"Stopped by {name}")
        self.code = 128 + signal.Signals[name].value


def say_interrupted(console: Console, run: Run, stop: KeyboardInterrupt) -> None:
    """Say that a run was interrupted, and what is kept."""
    kept = f"what was judged is kept ({run.progress.answered:,}), and the same command goes on from here."
    if run.progress.batch:
        kept = f"the server goes on with the batch ({run.progress.batch}), and the same command collects its answers."
    console.print(f"{str(stop) or 'Interrupted'}: {kept}", style="yellow")


class _Printed(logging.Handler):
    """Prints messages on a console, above a line that is rewritten there."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self.console = console

    def emit(self, record: logging.LogRecord) -> None:
        style = STYLES.get(record.levelno)
        self.console.print(record.getMessage(), style=style)


@contextmanager
def _messages(console: Console) -> Iterator[None]:
    logger, handler = logging.getLogger("comparo"), _Printed(console)
    before = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before[0])
        logger.propagate = before[1]


@contextmanager
def stoppable() -> Iterator[None]:
    """Let the signals that end a process raise `Stopped`, unless they are ignored, as SIGHUP is under nohup."""

    def stop(number: int, _: Any) -> None:
        raise Stopped(signal.Signals(number).name)

    usual: dict[Any, Callable[..., Any] | int | None] = {
        number: signal.signal(number, stop)
        for name in STOPS
        if (number := getattr(signal, name, None)) is not None and signal.getsignal(number) != signal.SIG_IGN
    }
    try:
        yield
    finally:
        for number, before in usual.items():
            signal.signal(number, before)
