"""Runs that are stopped at random, and caches and databases of runs that are damaged: what each costs."""

from __future__ import annotations

import json
import math
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from comparo import ComparisonsError, JudgeError, RunError, StoreError
from inside import DATABASE, PAGE, app, key_of, read_judgements
from processes import Forked
from servers import Api, Reply, Request, is_probe, tokens

CONCURRENCY = 16
# What may have happened to a cache, each kind with what does it: SQL, or the bytes and where they begin.
VALUES = {
    **{f"p is {value}": f"UPDATE answers SET p = {value}" for value in ("-0.1", "1.5", "'x'", "x'00'")},
    **{f"mass is {value}": f"UPDATE answers SET mass = {value}" for value in ("-1", "'x'", "9e999")},
    **{f"weight is {value}": f"UPDATE answers SET weight = {value}" for value in ("-5", "0", "1e30", "'x'")},
    **{f"cost is {value}": f"UPDATE answers SET cost = {value}" for value in ("1e30", "-1", "'x'", "9e999")},
    **{f"tokens_in is {value}": f"UPDATE answers SET tokens_in = {value}" for value in ("-1", "2.5", "1 << 62")},
    **{f"reply is {value}": f"UPDATE answers SET reply = {value}" for value in ("x'ff'", "CAST(x'ff' AS TEXT)")},
    "seconds is 'x'": "UPDATE answers SET seconds = 'x'",
    "cut is -1": "UPDATE answers SET cut = -1",
    "a judge's name is not UTF-8": "UPDATE answers SET judge = CAST(x'ff' AS TEXT)",
    "a probe is no JSON": "UPDATE probes SET found = '{'",
    "a probe is a list": "UPDATE probes SET found = '[1]'",
    "a probe has other types": """UPDATE probes SET found = '{"most": "x", "top_logprobs": null}'""",
    "a probe's sentence is not UTF-8": "UPDATE probes SET sentence = CAST(x'ff' AS TEXT)",
    "no table of answers": "DROP TABLE answers",
    "no table of probes": "DROP TABLE probes",
    "a column is missing": "ALTER TABLE answers DROP COLUMN weight",
    "an earlier version": "PRAGMA user_version = 0",
}
BYTES = {
    "the first page": (0, b"\x07" * PAGE),
    "all other pages": (PAGE, b"\x07" * 50 * PAGE),
    "the page of the probes": (4 * PAGE, b"\xff" * PAGE),
    **{
        f"cut at {place / 10}%": (-place / 1000, b"") for place in sorted(random.Random(0).sample(range(100, 1000), 12))
    },
    "no database": (0, b"These are notes. " * 999),
}
DAMAGES: Mapping[str, str | tuple[float, bytes]] = {**VALUES, **BYTES}


@dataclass
class Outcome:
    """What became of runs: answers that are there, that are not, and that are there twice; calls, and what was said."""

    kept: int = 0
    lost: int = 0
    doubled: int = 0
    calls: int = 0
    paid_twice: int = 0
    words: list[str] = field(default_factory=list)


class Server(Api):
    """Answers after `waits` seconds, least and most, and counts what it is asked: a call is paid for when it comes.

    Calls beyond the first `limit` wait for their answers, until there may be more.
    """

    def __init__(self, waits: tuple[float, float] = (0.0, 0.0)) -> None:
        self.paid: Counter[str] = Counter()
        self.limit, self.waits, self.rng = math.inf, waits, random.Random(0)
        super().__init__(self.reply)

    @property
    def calls(self) -> int:
        return sum(self.paid.values())

    def reply(self, request: Request) -> Reply:
        with self.lock:
            self.paid[request.body["messages"][0]["content"]] += not is_probe(request.body)
            wait, number = self.rng.uniform(*self.waits), self.calls
        time.sleep(wait)
        while number > self.limit:
            time.sleep(0.01)
        return tokens({"A": 0.7, "B": 0.3})


def _start(folder: Path, server: Server, *flags: Any) -> Forked:
    """A run by the command, in a process of its own."""
    command = [sys.executable, "-m", "comparo.cli", "rank", "items.jsonl", "--criterion", "better", *map(str, flags)]
    command += ["--base-url", server.url, "--format", "csv"]
    pipes: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    return Forked(command, cwd=folder, env=os.environ | {"OPENAI_API_KEY": "none"}, **pipes)


def _write_items(folder: Path, texts: Iterable[str]) -> None:
    rows = (json.dumps({"id": f"item {k}", "text": text}) for k, text in enumerate(texts))
    (folder / "items.jsonl").write_text("\n".join(rows))


def stop_again_and_again(which: signal.Signals, stops: int, items: int = 30, calls: int = 600) -> Outcome:
    """Start a run, stop it by a signal after a random while, start it again; after so many stops, let it finish."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs, and their children, ignore it
    rng, said = random.Random(1), []
    most = max(calls // (stops + 1) - CONCURRENCY, 1)  # calls before each stop, so that no run ends before it
    with tempfile.TemporaryDirectory() as name, Server((0.05, 0.1)) as server:
        folder = Path(name)
        _write_items(folder, (f"Text {k}." for k in range(items)))
        flags = ("--judge", f"openai/any; concurrency={CONCURRENCY}", "--budget", calls, "--out", "run")
        for _ in range(stops):
            before = server.calls
            server.limit = before + most
            process = _start(folder, server, *flags)
            while server.calls == before and process.poll() is None:
                time.sleep(0.002)
            end = time.monotonic() + rng.uniform(0.0, 0.5)
            while time.monotonic() < end and server.calls < server.limit and process.poll() is None:
                time.sleep(0.002)
            assert process.poll() is None, f"the run ended before it was stopped:\n{process.communicate()[1]}"
            process.send_signal(which)
            server.limit = math.inf
            _, words = process.communicate()
            stopped = (-which.value, 128 + which.value)  # by the signal itself, or in good order
            assert process.returncode in stopped, f"the run went on after {which.name}:\n{words}"
            said.append(words)
        last = _start(folder, server, *flags)
        _, words = last.communicate()
        assert last.returncode == 0, words
        stored = Counter(key_of(one.question) for one in read_judgements(folder / "run") if not one.failed)
    twice = server.calls - sum(count > 0 for count in server.paid.values())
    return Outcome(len(stored), calls - len(stored), stored.total() - len(stored), server.calls, twice, said)


def damage_again_and_again(damages: int, seed: int, items: int = 8) -> Outcome:
    """Damage the database of a finished run at random, export, repair, rank, report, export and fit it.

    A damage is one to three flipped bits, one to three zeroed pages, or a file that is cut short. The words of the
    outcome are exceptions that are no sentence, and commands that end with an error after the repair.
    """
    rng, outcome = random.Random(seed), Outcome()
    with tempfile.TemporaryDirectory() as name:
        home, run = Path(name), Path(name, "run")
        _write_items(home, (f"Text {k}." * (1 if k else 600) for k in range(items)))
        rank = ["rank", str(home / "items.jsonl"), "--criterion", "better", "--judge", "simulated/soft"]
        rank += ["--out", str(run), "--budget", "4n", "--format", "csv"]
        export = ["export", str(run), "--texts", "--force", "--out", str(home / "x.csv")]
        _command(outcome, "rank", rank)
        shutil.copytree(run, home / "sound")
        sound, before = (run / DATABASE).read_bytes(), _count(run)
        for number in range(damages):
            shutil.rmtree(run)
            shutil.copytree(home / "sound", run)
            (run / DATABASE).write_bytes(_damaged(rng, sound))
            what = f"damage {number}"
            _command(outcome, what, export)
            if _command(outcome, what, ["runs", "--repair", str(run)]):
                continue  # nothing is left
            kept = _count(run)
            outcome.kept, outcome.lost = outcome.kept + kept, outcome.lost + before - kept
            for again in (rank, ["runs", "--report", str(run)], export, ["fit", str(run)]):
                if code := _command(outcome, what, again):
                    outcome.words.append(f"{what}: {again[0]} ended with {code}")
    return outcome


def _command(outcome: Outcome, what: str, words: list[str]) -> int:
    """Run a command in this process and return its exit code; anything but a sentence is a traceback."""
    found = CliRunner().invoke(app, words)
    if found.exception is None or isinstance(found.exception, SystemExit):
        return found.exit_code
    is_sentence = isinstance(found.exception, (StoreError, RunError, JudgeError, ComparisonsError))
    if not is_sentence and type(found.exception) is not ValueError:
        outcome.words.append(f"{what}: {words[0]} raised {found.exception!r}")
    return 1


def _damaged(rng: random.Random, sound: bytes) -> bytes:
    """A damaged copy of a database."""
    content = bytearray(sound)
    kind = rng.choice(("flips", "zeros", "cut"))
    if kind == "cut":
        return bytes(content[: rng.randrange(len(sound))])
    places = [rng.randrange(len(sound)) for _ in range(rng.randint(1, 3))]
    for place in places:
        if kind == "flips":
            content[place] ^= 1 << rng.randrange(8)
        else:
            content[place // PAGE * PAGE : (place // PAGE + 1) * PAGE] = bytes(PAGE)
    return bytes(content)


def _count(run: Path) -> int:
    with closing(sqlite3.connect(run / DATABASE)) as connection:
        return int(connection.execute("SELECT count(*) FROM judgements").fetchone()[0])


def damage(path: Path, how: str | tuple[float, bytes]) -> None:
    """Damage a cache; SQL may do what SQLite's own checks would refuse in a sound file."""
    if isinstance(how, str):
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute(how)
        return
    data, (place, others) = path.read_bytes(), how
    begin = int(place if place >= 0 else -place * len(data))
    rest = data[begin + len(others) :] if others else b""
    path.write_bytes(data[:begin] + others[: max(len(data) - begin, 0)] + rest)


def run_with_damaged_caches(kinds: Iterable[str], items: int = 12) -> Iterator[tuple[str, Outcome]]:
    """Run once for a cache; then with each kind of damage to it. A run that is refused is repeated by --no-cache."""
    with tempfile.TemporaryDirectory() as name, Server() as server:
        folder = Path(name)
        _write_items(folder, (f"Text {k}." for k in range(items)))

        def run(*more: str) -> tuple[int, str]:
            judge = ("--judge", "openai/any; concurrency=1", "--budget", "$0.30", "--price", "100,100")
            process = _start(folder, server, *judge, *more)
            words = process.communicate()[1]
            return process.returncode, words

        code, words = run("--cache", "sound", "--out", "first")
        assert code == 0, words
        told = [(one.p, one.reply) for one in read_judgements(folder / "first")]  # the server says the same each time
        for number, kind in enumerate(kinds):
            shutil.copyfile(folder / "sound", folder / "cache")
            damage(folder / "cache", DAMAGES[kind])
            before, out = server.calls, f"run{number}"
            code, words = run("--cache", "cache", "--out", out)
            if code == 1 and server.calls == before:
                words += run("--cache", "off", "--out", out)[1]
            stored = read_judgements(folder / out)
            sound = [one for one in stored if (one.p, one.reply) in told and one.weight == 1 and 0 < one.cost < 1]
            for path in folder.glob("cache*"):
                path.unlink()
            yield kind, Outcome(len(sound), len(told) - len(sound), calls=server.calls - before, words=[words])
