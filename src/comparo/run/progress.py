"""How far a run is: the numbers, a line of text, and a bar that is rewritten in place."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Literal, TextIO

from comparo.judges import Judgement
from comparo.run.budget import dollars

Watcher = Callable[["Progress"], None]
Watch = Watcher | Literal["bar"] | None
WIDTH, BLOCKS = 79, 20  # characters of the line, which a terminal must not wrap, and of the bar in it


@dataclass
class Progress:
    """The progress of a run: number of calls, failures, cost in dollars, calls per second."""

    total: int
    answered: int = 0
    failed: int = 0
    cost: float = 0.0
    asked: int = 0  # calls since this start
    cut: int = 0  # of these, how many had texts cut to the model's window
    started: float = field(default_factory=time.monotonic)
    batch: str = ""  # how far the server is with a batch, where the run waits for one

    def pay(self, judgement: Judgement) -> None:
        """Count what a call cost, where that is known."""
        self.cost += judgement.spent if judgement.spent > 0 else 0.0

    @property
    def rate(self) -> float:
        return self.asked / max(time.monotonic() - self.started, 1e-9)


def progress_text(progress: Progress) -> str:
    """Calls, rate, time left, cost and failures, in one line.

    >>> progress_text(Progress(total=100, answered=40, failed=1, cost=0.25))
    '41/100 calls  0.0/s  $0.25  1 failed'
    """
    done = progress.answered + progress.failed
    parts = [
        f"{done:,}/{progress.total:,} calls",
        f"batch: {progress.batch}" if progress.batch else f"{progress.rate:.1f}/s",
    ]
    if progress.rate and not progress.batch:
        left = (progress.total - done) / progress.rate
        parts.append(f"{left / 60:.0f} min left" if left >= 60 else f"{left:.0f} s left")
    if progress.cost:
        parts.append(dollars(progress.cost))
    if progress.failed:
        parts.append(f"{progress.failed} failed")
    return "  ".join(parts)


class Bar:
    """A bar of text for notebooks and terminals, which is what `watch="bar"` shows; `close` ends its line.

    >>> import io
    >>> stream = io.StringIO()
    >>> Bar(stream)(Progress(total=100, answered=40))
    >>> stream.getvalue().strip()
    '40%|████████            | 40/100 calls  0.0/s'
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._written = 0

    def __call__(self, progress: Progress) -> None:
        share = min(1.0, (progress.answered + progress.failed) / max(progress.total, 1))
        blocks = round(BLOCKS * share)
        text = f"{share:4.0%}|{'█' * blocks:{BLOCKS}}| {progress_text(progress)}"[:WIDTH]
        self._stream.write("\r" + text + " " * (self._written - len(text)))
        self._stream.flush()
        self._written = len(text)

    def close(self) -> None:
        """End the line, if there is one."""
        if self._written:
            self._stream.write("\n")
            self._stream.flush()


@contextmanager
def watching(watch: Watch) -> Iterator[Watcher | None]:
    """Yield the function that takes the progress; a bar is closed at the end, also after an error."""
    if isinstance(watch, str) and watch != "bar":
        raise ValueError(f"watch is a function of the progress, or 'bar', not {watch!r}")
    if watch != "bar":
        yield watch
        return
    with closing(Bar()) as bar:
        yield bar
