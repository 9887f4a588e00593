"""The progress of a run on stderr: a line that is rewritten on a terminal, a line a minute elsewhere."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.live import Live
from rich.text import Text

from comparo.cli.printing import MINUTE, Console
from comparo.run.loop import Run
from comparo.run.progress import Progress
from comparo.run.watching import progress_text


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
