"""What commands print, results on stdout and progress and messages on stderr, and the signals that stop a run.

Names, contexts, notes and errors hold text from elsewhere. Its control characters are escaped; only
`print_text` leaves them as they are, in files and pipes.
"""

import json
import logging
import math
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

from rich.console import Console as RichConsole
from rich.live import Live
from rich.table import Table
from rich.text import Text

from comparo.cli.settings import flags_now
from comparo.data.comparisons import Comparisons
from comparo.data.formats import csv_text
from comparo.data.sanitize import visible
from comparo.errors import in_flags
from comparo.ranking.criteria_ranking import CriteriaRanking
from comparo.ranking.display import few_of_a_kind, growth_sentences, whose
from comparo.ranking.leaderboard import Leaderboard
from comparo.ranking.ranking import Ranking
from comparo.ranking.scale import Scaled
from comparo.ranking.tabular import json_text, rows_of
from comparo.run.budget import dollars
from comparo.run.loop import Run
from comparo.run.progress import Progress, Watcher, progress_text
from comparo.run.task import prices_of
from comparo.run.voices import count_cached

Format = Literal["table", "csv", "json"]
MINUTE = 60.0  # seconds between two lines of progress in a log
MANY = 1000  # voices: each may have a position bias of its own, and time grows with the cube of their number
STOPS = ("SIGTERM", "SIGHUP")  # sent by `kill`, by a system that shuts down, and by a terminal that is closed
STYLES = {logging.INFO: "dim", logging.WARNING: "yellow"}


class Console(RichConsole):
    """A console on which no text can move the cursor, change colours or turn the direction of reading.

    Sentences are not wrapped, and name options by the flags of the command.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"markup": False, "highlight": False} | options)
        self._flags = flags_now()  # now, because a message may come from another thread

    def print(self, *objects: Any, **options: Any) -> None:
        """Print objects; control characters in strings are escaped."""
        shown = [visible(in_flags(each, self._flags)) if isinstance(each, str) else each for each in objects]
        options.setdefault("soft_wrap", all(isinstance(each, str) for each in objects))
        super().print(*shown, **options)


def say_if_many(data: Comparisons) -> None:
    """Say beforehand that answers by many voices may take minutes."""
    if data.judges is not None and len(data.judges) >= MANY:
        say(f"Fits {len(data):,} answers by {len(data.judges):,} voices; so many may take minutes.")


def say(message: str, style: str | None = None) -> None:
    """Print one message on stderr."""
    Console(stderr=True).print(message, style=style)


def print_text(text: str) -> None:
    """Print a result on stdout, escaped on a terminal; it names options by the flags of the command."""
    text = in_flags(text, flags_now())
    print(visible(text) if os.isatty(1) else text, end="", flush=True)  # sys.stdout is None where it is closed


def print_as(output: str, columns: Mapping[str, Any], document: Mapping[str, Any]) -> bool:
    """Print a result as CSV or JSON, and return True; False for a table, which each command prints itself."""
    if output == "json":
        print_text(json_text(document) + "\n")
    elif output == "csv":
        print_text(csv_text(columns))
    return output in ("json", "csv")


def cost_words(cached: int, answered: int, cost: float) -> list[str]:
    """How many answers came from the cache, and what was paid for the others; each only if it is not 0.

    >>> cost_words(312, 480, 0.12), cost_words(0, 480, 0.0)
    (['312 of 480 answers came from the cache', '$0.12 spent'], [])
    """
    words = [f"{cached:,} of {answered:,} answers came from the cache"] if cached else []
    return [*words, f"{dollars(cost)} spent"] if cost else words


def print_ranking(
    ranking: Ranking,
    output: Format,
    top: int | None,
    more: Mapping[str, Any] | None = None,
    scaled: Scaled | None = None,
) -> None:
    """Print the ranking on stdout, best first, only the best `top` of each context if given, and what has grown.

    JSON also has the keys of `more`, such as the calls with their number, cost and prices. `scaled` is the ranking on
    the scale of its anchors.
    """
    shown = scaled or ranking
    columns, document = shown.to_columns(), {}
    if top is not None:
        is_best = columns["rank"] <= top
        columns = {name: column[is_best] for name, column in columns.items()}
    if output == "json":
        document = json.loads(shown.to_json()) | dict(more or {})
        document["ranking"] = [row for row in document["ranking"] if top is None or row["rank"] <= top]
    if print_as(output, columns, document):
        return
    rows = [list(row.values()) for row in rows_of(columns)]
    if ranking.solution.best is not None and ranking.graph.components == 1:
        border = [f"— end of the best {ranking.solution.best} —" if name == "item" else math.nan for name in columns]
        rows.insert(ranking.solution.best, border)
    print_table(columns, rows)
    if (voices := ranking.tables.get("voices")) is not None:
        print_text("\n")
        print_columns(voices)
    for sentence in growth_sentences(ranking, ranking.grown):
        print_text(f"\n{sentence[0].upper()}{sentence[1:]}.\n")
    moved = ranking.tables.get("moved")
    if moved is not None and len(moved["item"]):
        print_text("\n")
        print_columns(moved)


def print_board(board: Leaderboard) -> None:
    """Print the groups of a ranking on stdout, best first, and an empty line."""
    columns = board.to_columns()
    names = ["group", "score", "low", "high", "tier", "best", "win_rate", "won", "contexts", "comparisons"]
    print_columns({name: columns[name] for name in names})
    print_text("\n")


def print_criteria(
    found: CriteriaRanking, output: Format, top: int | None, more: Mapping[str, Any] | None = None
) -> str:
    """Print the overall ranking and the correlations between criteria, and return their weights in words."""
    print_ranking(found, output, top, more)
    if output == "table":
        print_text("\n")
        print_columns(dict(zip(["correlation", *found.rankings], found.correlations.values(), strict=True)))
    return ", ".join(f"{name} {share:.0%}" for name, share in found.shares.items())


def print_columns(columns: Mapping[str, Any]) -> None:
    """Print arrays as a table on stdout."""
    print_table(columns, (list(row.values()) for row in rows_of(columns)))


def print_table(header: Iterable[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print a table on stdout; it is not wrapped unless that is a terminal."""
    table, console = rich_table(header, rows), Console()
    if not console.is_terminal:
        console.width = console.measure(table, options=console.options.update(max_width=1_000_000)).maximum
    console.print(table)


def rich_table(header: Iterable[str], rows: Iterable[Sequence[Any]]) -> Table:
    """A table for a console, with numbers right-aligned."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    columns = list(zip(header, *rows, strict=True))
    for name, *values in columns:
        number = name != "item" and all(isinstance(value, int | float) for value in values)
        width = max([len(name), *(len(_cell(value)) for value in values)]) if number else 4
        table.add_column(
            Text(visible(name, lines=False)), justify="right" if number else "left", no_wrap=number, min_width=width
        )
    for row in zip(*(values for _, *values in columns), strict=True):
        table.add_row(*(Text(_cell(value)) for value in row))
    return table


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.3f}"
    return visible(value, lines=False)


def print_notes(notes: Iterable[str]) -> None:
    """Print notes on stderr."""
    for note in few_of_a_kind(notes):
        say("Note: " + note, "yellow")


def scores_sentence(ranking: Ranking) -> str:
    """A sentence on whose opinion the scores are."""
    if ranking.people is not None:
        by = f"by the model of votes, with the judge's answers by {ranking.judged.method}, because votes are given"
        return f"scores: what people would say, {by}. {ranking.people.sentence}"
    if (panel := ranking.solution.panel) is not None:
        return f"scores: the consensus of {len(panel.names)} voices"
    if ranking.estimate == "judge":
        return "scores: the judge's own opinion"
    meaning = "what people would say, as far as one judge can tell; --estimate judge for the judge's own opinion"
    if ranking.solution.validity is None:
        meaning = (
            "these are the judge's own; --estimate 0.5, or another share, counts that much of its view of single texts"
        )
    return f"scores: {whose(ranking)}: {meaning}"


class LogLines:
    """Prints the progress as a new line every `pace` seconds, for logs."""

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
            with Live(Text("starting"), console=console, transient=True, redirect_stdout=os.isatty(1)) as live:
                yield lambda progress: live.update(progress_line(progress))
        else:
            yield LogLines(console, pace)


def progress_line(progress: Progress) -> Text:
    """The progress in one line, cut to the terminal's width."""
    return Text(progress_text(progress), style="cyan", overflow="ellipsis", no_wrap=True)


def calls_of(run: Run) -> dict[str, Any]:
    """The numbers of calls of a run, their cost, and the prices with their dates, for JSON."""
    progress = run.progress
    calls = {"answered": progress.answered, "cached": count_cached(run.judgements), "failed": progress.failed}
    return calls | {"cost": progress.cost, "prices": prices_of(run.task.judges)}


def how_it_went(run: Run, done: str) -> str:
    """One line on a run: what was `done`, what failed, and the cost."""
    progress, parts = run.progress, [done]
    if progress.failed:
        parts.append(f"{progress.failed:,} failed")
    if progress.cut:
        parts.append(f"{progress.cut:,} prompts cut to the model's window")
    return "; ".join(parts + cost_words(count_cached(run.judgements), progress.answered, progress.cost))


class Stopped(KeyboardInterrupt):
    """Raised by a signal that ends the command; `code` is the exit code."""

    def __init__(self, name: str) -> None:
        super().__init__(f"Stopped by {name}")
        self.code = 128 + signal.Signals[name].value


def say_interrupted(console: Console, run: Run, stop: KeyboardInterrupt) -> None:
    """Print that a run was interrupted, and what is kept."""
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
    """Within this context, the signals `STOPS` raise `Stopped`, unless ignored as SIGHUP is under nohup."""

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
