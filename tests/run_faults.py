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
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from comparo.cli.app import app
from comparo.data.run_folder import DATABASE
from comparo.errors import ComparisonsError, JudgeError, RunError, StoreError
from comparo.log.repair import PAGE
from comparo.log.store import read_judgements

CONCURRENCY = 16
ITEMS = 100
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


class Server:
    """Answers after `waits` seconds, least and most, and counts what it is asked: a call is paid for when it comes.

    Calls beyond the first `most` wait for their answers, until there may be more.
    """

    def __init__(self, seed: int, waits: tuple[float, float]) -> None:
        self.paid: Counter[str] = Counter()
        self.open, self.most = 0, math.inf
        self.lock = threading.Lock()
        rng = random.Random(seed)
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # else the body waits 40 ms for the receipt of its header

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                asked = body["messages"][0]["content"]
                with outer.lock:
                    outer.paid[asked] += not asked.startswith("Number A:")  # which is the probe before the questions
                    outer.open += 1
                    wait, number = rng.uniform(*waits), outer.calls
                try:
                    time.sleep(wait)
                    while number > outer.most:
                        time.sleep(0.01)
                    self.send_response(200)
                    self.send_header("Content-Length", str(len(ANSWER)))
                    self.end_headers()
                    self.wfile.write(ANSWER)
                finally:
                    with outer.lock:
                        outer.open -= 1

            def log_message(self, *_: Any) -> None:
                pass

        class Quiet(ThreadingHTTPServer):
            daemon_threads, request_queue_size = True, 128

            def handle_error(self, *_: Any) -> None:
                """A client that was killed."""

        self.server = Quiet(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"

    @property
    def calls(self) -> int:
        return sum(self.paid.values())


def _answer() -> bytes:
    top = [{"token": "A", "logprob": -0.4, "bytes": None}, {"token": "B", "logprob": -1.2, "bytes": None}]
    choice = {"index": 0, "message": {"content": "A"}, "logprobs": {"content": [{**top[0], "top_logprobs": top}]}}
    return json.dumps({"choices": [choice], "usage": {"prompt_tokens": 100, "completion_tokens": 1}}).encode()


ANSWER = _answer()


@dataclass
class Outcome:
    """What became of a run that was stopped again and again until it was done."""

    stops: int = 0
    in_flight: int = 0
    distinct: int = 0
    paid_twice: int = 0
    stored: int = 0
    lost: int = 0
    doubled: int = 0
    words: list[str] = field(default_factory=list)


def stop_again_and_again(
    which: signal.Signals,
    stops: int,
    seed: int = 0,
    budget: str = "40n",
    items: int = ITEMS,
    waits: tuple[float, float] = (0.1, 0.3),
    start: Callable[..., Any] = subprocess.Popen,
) -> Outcome:
    """Start a run, stop it by a signal after a random while, start it again; after so many stops, let it finish."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs, and their children, ignore it
    rng, outcome = random.Random(seed), Outcome()
    total = int(budget.removesuffix("n")) * items
    most = max(total // (stops + 1) - CONCURRENCY, 1)  # calls before each stop, so that no run ends before it
    server = Server(seed, waits)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        texts = [json.dumps({"id": f"item {k}", "text": f"Text {k}."}) for k in range(items)]
        (folder / "items.jsonl").write_text("\n".join(texts))
        command = [sys.executable, "-m", "comparo.cli", "rank", "items.jsonl", "--criterion", "better", "--out", "run"]
        command += ["--judge", f"openai/any; concurrency={CONCURRENCY}", "--base-url", server.url]
        command += ["--budget", budget, "--format", "csv"]
        environment = os.environ | {"OPENAI_API_KEY": "none"}
        pipes: dict[str, Any] = {"cwd": folder, "env": environment, "stdout": subprocess.DEVNULL, "text": True}
        while outcome.stops < stops:
            before = server.calls
            server.most = before + most
            process = start(command, stderr=subprocess.PIPE, **pipes)
            while server.calls == before and process.poll() is None:
                time.sleep(0.002)
            end = time.monotonic() + rng.uniform(0.0, 0.5)
            while time.monotonic() < end and server.calls < server.most and process.poll() is None:
                time.sleep(0.002)
            assert process.poll() is None, f"the run ended before it was stopped:\n{process.communicate()[1]}"
            outcome.in_flight += server.open
            process.send_signal(which)
            server.most = math.inf
            _, words = process.communicate()
            stopped = (-which.value, 128 + which.value)  # by the signal itself, or in good order
            assert process.returncode in stopped, f"the run went on after {which.name}:\n{words}"
            outcome.words.append(words)
            outcome.stops += 1
        last = start(command, stderr=subprocess.PIPE, **pipes)
        _, words = last.communicate()
        assert last.returncode == 0, words
        stored = Counter(
            (one.question.first, one.question.second) for one in read_judgements(folder / "run") if not one.failed
        )
    server.server.shutdown()
    server.server.server_close()
    outcome.distinct = sum(count > 0 for count in server.paid.values())
    outcome.paid_twice = server.calls - outcome.distinct
    outcome.stored, outcome.doubled = len(stored), sum(count - 1 for count in stored.values())
    outcome.lost = total - len(stored)
    return outcome


@dataclass
class Damages:
    """What became of finished runs whose databases were damaged."""

    damages: int = 0
    nothing_left: int = 0
    kept: int = 0
    lost: int = 0
    asked_again: int = 0
    tracebacks: list[str] = field(default_factory=list)


def damage_again_and_again(damages: int, seed: int = 0, items: int = 12, budget: str = "11n") -> Damages:
    """Damage the database of a finished run at random, export, repair, rank, report, export and fit it.

    A damage is one to three flipped bits, one to three zeroed pages, or a file that is cut short.
    """
    rng, outcome = random.Random(seed), Damages()
    with tempfile.TemporaryDirectory() as name:
        home, run = Path(name), Path(name, "run")
        texts = [json.dumps({"id": f"item {k}", "text": f"Text {k}." * (1 if k else 600)}) for k in range(items)]
        (home / "items.jsonl").write_text("\n".join(texts))
        rank = ["rank", str(home / "items.jsonl"), "--criterion", "better", "--judge", "simulated/soft"]
        rank += ["--out", str(run), "--budget", budget, "--format", "csv"]
        command(outcome, "rank", rank)
        shutil.copytree(run, home / "sound")
        sound = (run / DATABASE).read_bytes()
        before = _judgements(run)
        for _ in range(damages):
            shutil.rmtree(run)
            shutil.copytree(home / "sound", run)
            (run / DATABASE).write_bytes(_damaged(rng, sound))
            what = f"damage {outcome.damages}"
            outcome.damages += 1
            export = ["export", str(run), "--texts", "--force", "--out", str(home / "x.csv")]
            command(outcome, what, export)
            if command(outcome, what, ["runs", "--repair", str(run)]):
                outcome.nothing_left += 1
                continue
            kept = _judgements(run)
            outcome.kept += len(kept)
            outcome.lost += len(before) - len(kept)
            last = max(kept)
            for again in (rank, ["runs", "--report", str(run)], export, ["fit", str(run)]):
                if code := command(outcome, what, again):
                    outcome.tracebacks.append(f"{what}: {again[0]} ended with {code}")
            outcome.asked_again += sum(number > last for number in _judgements(run))
    return outcome


def command(outcome: Damages, what: str, words: list[str]) -> int:
    """Run a command in this process and return its exit code; anything but a sentence is a traceback."""
    found = CliRunner().invoke(app, words)
    if found.exception is None or isinstance(found.exception, SystemExit):
        return found.exit_code
    is_sentence = isinstance(found.exception, (StoreError, RunError, JudgeError, ComparisonsError))
    if not is_sentence and type(found.exception) is not ValueError:
        outcome.tracebacks.append(f"{what}: {words[0]} raised {found.exception!r}")
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


def _judgements(run: Path) -> dict[int, tuple[Any, ...]]:
    with closing(sqlite3.connect(run / DATABASE)) as connection:
        return {row[0]: row for row in connection.execute("SELECT number, context, first, second, p FROM judgements")}


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


@dataclass
class Mended:
    """What became of a run with a damaged cache: `refused` before the first call, calls, sound answers, and words."""

    refused: bool
    calls: int
    sound: int
    lost: int
    words: str


def run_with_damaged_caches(
    kinds: Mapping[str, str | tuple[float, bytes]] = DAMAGES,
    items: int = 12,
    start: Callable[..., Any] = subprocess.Popen,
) -> Iterator[tuple[str, Mended]]:
    """Run once for a cache; then with each kind of damage to it. A run that is refused is repeated by --no-cache."""
    server = Server(0, (0.0, 0.0))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        texts = [json.dumps({"id": f"item {k}", "text": f"Text {k}."}) for k in range(items)]
        (folder / "items.jsonl").write_text("\n".join(texts))
        command = [sys.executable, "-m", "comparo.cli", "rank", "items.jsonl", "--criterion", "better", "--budget"]
        command += ["$0.30", "--price", "100,100", "--judge", "openai/any; concurrency=1", "--base-url", server.url]

        def run(*more: str) -> tuple[int, str]:
            environment = os.environ | {"OPENAI_API_KEY": "none"}
            pipes: dict[str, Any] = {"cwd": folder, "env": environment, "stdout": subprocess.DEVNULL, "text": True}
            process = start([*command, *more], stderr=subprocess.PIPE, **pipes)
            words = process.communicate()[1]
            return process.returncode, words

        code, words = run("--cache", "sound", "--out", "first")
        assert code == 0, words
        told = [(one.p, one.reply) for one in read_judgements(folder / "first")]  # the server says the same each time
        expected = len(told)
        for number, (kind, how) in enumerate(kinds.items()):
            shutil.copyfile(folder / "sound", folder / "cache")
            damage(folder / "cache", how)
            before, out = server.calls, f"run{number}"
            code, words = run("--cache", "cache", "--out", out)
            if refused := code == 1 and server.calls == before:
                words += run("--cache", "off", "--out", out)[1]
            stored = read_judgements(folder / out)
            sound = [one for one in stored if (one.p, one.reply) in told and one.weight == 1 and 0 < one.cost < 1]
            for path in folder.glob("cache*"):
                path.unlink()
            yield kind, Mended(refused, server.calls - before, len(sound), expected - len(sound), words)
    server.server.shutdown()
    server.server.server_close()
