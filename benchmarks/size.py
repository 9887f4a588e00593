"""What large runs take: a finished run continued, of 20,000 items or a million judgements; long texts, many contexts.

python -m benchmarks.size [judgements] [contexts] [items]     # 1000000 10000 20000 unless told otherwise; 0 for none
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from comparo.data.items import Items
from comparo.data.prompts import Question
from comparo.judges import Judgement, load_judge
from comparo.log.store import Store
from comparo.run.budget import Budget
from comparo.run.task import Task
from comparo.run.voices import make_prompt

WORDS = (
    "the cat sat on a mat and saw how rain fell in grey lines over old roofs while nobody came to close doors".split()
)
# Starts a command from a small process: a child's peak counts what its parent held when it was started.
WATCH = """
import json, os, subprocess, sys, time
begin, quiet = time.perf_counter(), subprocess.DEVNULL
process = subprocess.Popen(sys.argv[1:], stdout=quiet, stderr=quiet)
_, status, used = os.wait4(process.pid, 0)
figures = time.perf_counter() - begin, used.ru_utime + used.ru_stime, used.ru_maxrss
print(json.dumps([os.waitstatus_to_exitcode(status), *figures]))
"""


def text(rng: np.random.Generator, words: int) -> str:
    return " ".join(rng.choice(WORDS, words).tolist())


def command(folder: Path, *arguments: str) -> tuple[float, float, float]:
    """Seconds of wall clock and of CPU that a command takes, and MB of memory at its peak."""
    words = [sys.executable, "-c", WATCH, sys.executable, "-m", "comparo.cli", *arguments]
    done = subprocess.run(words, cwd=folder, stdout=subprocess.PIPE, check=True)
    code, seconds, cpu, peak = json.loads(done.stdout)
    assert code == 0, arguments
    unit = 1 if sys.platform == "darwin" else 1024  # bytes of `ru_maxrss`
    return seconds, cpu, peak * unit / 1e6


def write(folder: Path, rows: list[dict[str, Any]]) -> Path:
    path = folder / "items.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def finished(folder: Path, judgements: int, items: int = 10_000) -> None:
    """A run folder in which every call of the budget is answered; people have scored its items."""
    rng = np.random.default_rng(0)
    rows = [{"id": f"item {k}", "text": text(rng, 30), "score_quality": rng.normal()} for k in range(items)]
    path = write(folder, rows)
    texts, judge = Items.of(str(path)), load_judge("simulated/soft")
    task = Task(texts, make_prompt(texts, None, None, judge.name), judge, Budget.of(judgements))
    store = Store(folder / "comparo-runs" / "finished", task.identity, task.configuration)
    store.add_items(texts)
    codes = rng.choice(items * (items - 1), judgements, replace=False)
    first, second = np.divmod(codes, items - 1)
    second += second >= first
    names = texts.ids.tolist()
    asked = (Question(names[a], names[b]) for a, b in zip(first.tolist(), second.tolist(), strict=True))
    store.add(Judgement(question, p=judge.probability(question), mass=1.0) for question in asked)
    store.close()


def main(judgements: int = 1_000_000, contexts: int = 10_000, items: int = 20_000) -> None:
    print("\n## Size\n\n| case | seconds | CPU seconds | peak memory | report |\n| --- | --- | --- | --- | --- |")

    def say(case: str, took: tuple[float, float, float], folder: Path | None = None) -> None:
        page = "" if folder is None else f"{(folder / 'report.html').stat().st_size / 1e6:.1f} MB"
        print(f"| {case} | {took[0]:.1f} | {took[1]:.1f} | {took[2]:.0f} MB | {page} |", flush=True)

    simulated = ("--judge", "simulated/soft", "--format", "csv")
    if items:
        with tempfile.TemporaryDirectory() as name:
            folder, run = Path(name), Path(name, "comparo-runs", "finished")
            finished(folder, 2 * items, items)
            of = f"of {items:,} items and {2 * items:,} answers"
            say(f"the report {of}", command(folder, "runs", "--report", str(run)), run)
            took = command(folder, "rank", "items.jsonl", "--budget", "2n", *simulated)
            say(f"a finished run {of} continued", took, run)
    if judgements:
        _continue(judgements, say, simulated)
    if contexts:
        _long_and_many(contexts, say, simulated)


def _continue(judgements: int, say: Callable[..., None], simulated: tuple[str, ...]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        finished(folder, judgements)
        say(f"`comparo runs` beside {judgements:,} judgements", command(folder, "runs"))
        seconds = command(folder, "rank", "items.jsonl", "--budget", str(judgements), *simulated)
        say(f"a finished run of {judgements:,} judgements continued", seconds, folder / "comparo-runs" / "finished")


def _long_and_many(contexts: int, say: Callable[..., None], simulated: tuple[str, ...]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder, rng = Path(name), np.random.default_rng(1)
        write(folder, [{"id": f"item {k}", "text": text(rng, 1_200_000)[:5_000_000]} for k in range(12)])
        say("12 texts of 5 MB", command(folder, "rank", "items.jsonl", "--out", "run", *simulated), folder / "run")
    with tempfile.TemporaryDirectory() as name:
        folder, rng = Path(name), np.random.default_rng(2)
        write(
            folder,
            [{"id": f"s{k}", "text": text(rng, 30), "context_id": f"c{c}"} for c in range(contexts) for k in range(4)],
        )
        arguments = ("rank", "items.jsonl", "--budget", "3n", "--out", "run", *simulated)
        say(f"{contexts:,} contexts of 4 texts, 3n calls", command(folder, *arguments), folder / "run")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
