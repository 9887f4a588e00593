"""The progress of a run on stderr: a line that is rewritten on a terminal, a line a minute elsewhere."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.live import Live
from rich.text import Text

from comparo.cli.printing import MINUTE, Console
from comparo.run.loop import Progress, Run
from comparo.run.watching import progress_text


class Lines:
    """Prints how far a run is, whenever `every` seconds have passed since the last line, or since the start."""

    def __init__(self, console: Console, every: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._console, self._every, self._clock = console, every, clock
        self._said = clock()

    def __call__(self, progress: Progress) -> None:
        if self._clock() - self._said >= self._every:
            self._said = self._clock()
            self._console.print(progress_text(progress), markup=False, soft_wrap=True)


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
        run.watch, run.pace = Lines(console, every), every
        yield


def progress_line(progress: Progress) -> Text:
    """How far a run is, cut to the width of a terminal."""
    return Text(progress_text(progress), style="cyan", overflow="ellipsis", no_wrap=True)
