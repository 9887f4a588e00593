"""The progress of a run on stderr, a line that is rewritten on a terminal, a line a minute elsewhere; and its calls."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.live import Live
from rich.text import Text

from comparo.cli.printing import MINUTE, Console
from comparo.run.answers import count_cached
from comparo.run.loop import Run
from comparo.run.probing import prices_of
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


def calls_of(run: Run) -> dict[str, Any]:
    """The calls of a run, what they cost, and by which prices of which day, as JSON has them."""
    progress = run.progress
    calls = {"answered": progress.answered, "cached": count_cached(run.judgements), "failed": progress.failed}
    return calls | {"cost": progress.cost, "prices": prices_of(run.task.judges)}
