"""How far a run is, for people: a line of text, and a bar that is written over and over."""

import sys
from collections.abc import Callable
from typing import Literal, TextIO

from comparo.data.sanitize import visible
from comparo.ranking.ranking import Ranking
from comparo.run.budget import Progress, dollars
from comparo.run.loop import Run

Watcher = Callable[[Progress], None]
Watch = Watcher | Literal["bar"] | None
WIDTH, BLOCKS = 79, 20  # characters of the line, which a terminal must not wrap, and of the bar in it


def progress_text(progress: Progress) -> str:
    """Calls, rate, time left, cost, failures and the leaders, in one line.

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
        parts.append(f"{left // 60:.0f} min {left % 60:.0f} s left" if left >= 60 else f"{left:.0f} s left")
    if progress.cost:
        parts.append(dollars(progress.cost))
    if progress.failed:
        parts.append(f"{progress.failed} failed")
    if progress.ranking is not None:
        best = progress.ranking.to_columns()["item"][:3].tolist()
        parts.append("leading: " + ", ".join(visible(f"{item!s:.20}", lines=False) for item in best))
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


def finish_watched(begin: Callable[[Watcher | None], Run], watch: Watch, finish: Callable[[Run], Ranking]) -> Ranking:
    """Begin a run, complete it, and let the watcher see how it ended; a bar is closed, whatever happens.

    `begin` makes the run for what is to be called with its progress.
    """
    if isinstance(watch, str) and watch != "bar":
        raise ValueError(f"watch is a function of the progress, or 'bar', not {watch!r}")
    bar = Bar() if isinstance(watch, str) else None
    watcher = bar if isinstance(watch, str) else watch
    try:
        run = begin(watcher)
        ranking = finish(run)
        if watcher is not None:
            watcher(run.progress)
        return ranking
    finally:
        if bar is not None:
            bar.close()
