"""Commands in processes of their own that start at once: forked from one that has imported what they need."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import Any

CONTEXT = get_context("forkserver")
CONTEXT.set_forkserver_preload(
    [
        *("comparo.cli.rank", "comparo.run.rank", "comparo.report", "comparo.judges.openai", "httpx2", "scipy.stats"),
        *("comparo.cli.vote", "comparo.vote.app", "uvicorn", "uvicorn.protocols.http.auto", "uvicorn.loops.auto"),
    ]
)


class Forked:
    """As much of `subprocess.Popen` as tests need that stop `python -m comparo.cli …`; the output comes at the end."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path | None = None,
        stdout: int = subprocess.DEVNULL,
        stderr: int = subprocess.DEVNULL,
        text: bool = True,
    ) -> None:
        assert list(command[1:3]) == ["-m", "comparo.cli"]
        assert text
        self._printed = [_file(stdout), _file(stderr)]
        arguments = (list(command[3:]), cwd or Path.cwd(), dict(env), self._printed)
        self._process: Any = CONTEXT.Process(target=_run, args=arguments)
        self._process.start()

    @property
    def pid(self) -> int:
        return int(self._process.pid)

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def send_signal(self, which: signal.Signals) -> None:
        os.kill(self._process.pid, which)

    def printed(self) -> str:
        """What it has printed on stdout so far."""
        return self._printed[0].read_text(encoding="utf-8")

    def wait(self) -> None:
        self._process.join()

    def communicate(self) -> tuple[str, str]:
        self.wait()
        out, errors = (path.read_text(encoding="utf-8") for path in self._printed)
        for path in self._printed:
            if path != NOWHERE:
                path.unlink()
        return out, errors


NOWHERE = Path(os.devnull)


def _file(pipe: int) -> Path:
    if pipe == subprocess.DEVNULL:
        return NOWHERE
    number, name = tempfile.mkstemp()
    os.close(number)
    return Path(name)


def _run(arguments: list[str], folder: Path, variables: dict[str, str], printed: list[Path]) -> None:
    """In the new process: what `python -m comparo.cli` does, with the variables of an environment of its own."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, path in enumerate(printed, start=1):
        os.dup2(os.open(path, os.O_WRONLY), number)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(variables)
    sys.path[:0] = [path for path in variables.get("PYTHONPATH", "").split(os.pathsep) if path not in sys.path]
    sys.argv = ["comparo", *arguments]
    from comparo.cli import main

    main()


# A judge of another package, found by its entry point: it writes down every question before it answers, and waits to be
# killed, or LOUD_PAUSE seconds, once the file has as many bytes as LOUD_LIMIT says.
LOUD = """
import os, time
from comparo.judges.simulated import Simulated

class Loud(Simulated):
    name = "loud/soft"
    def judge(self, questions, prompt=None):
        for question in questions:
            with open(os.environ["LOUD"], "a") as file:
                file.write(f"{question.first} {question.second}\\n")
            held = os.stat(file.name).st_size > float(os.environ.get("LOUD_LIMIT", "inf"))
            time.sleep(float(os.environ.get("LOUD_PAUSE", 600)) if held else 0.004)
            yield from super().judge([question])

def load(model, *, seed=0):
    return Loud(seed=seed)
"""


class Loud:
    """A folder with the package of the loud judge; starts `comparo rank` with it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.log = folder, folder / "log.txt"
        package = folder / "packages"
        information = package / "loud-1.0.dist-info"
        information.mkdir(parents=True)
        (package / "loud_judge.py").write_text(LOUD)
        (information / "METADATA").write_text("Metadata-Version: 2.1\nName: loud\nVersion: 1.0\n")
        (information / "entry_points.txt").write_text("[comparo.judges]\nloud = loud_judge:load\n")
        found = os.pathsep.join(filter(None, [str(package), os.environ.get("PYTHONPATH")]))
        self.environment = os.environ | {"PYTHONPATH": found, "LOUD": str(self.log)}

    def write_items(self, name: str, number: int) -> None:
        rows = (json.dumps({"id": f"item {k}", "text": f"Text {k}."}) for k in range(number))
        (self.folder / name).write_text("\n".join(rows))

    def command(self, items: str, out: str, *more: str) -> list[str]:
        what = [str(self.folder / items), "--judge", "loud/soft", "--criterion", "better"]
        return [sys.executable, "-m", "comparo.cli", "rank", *what, "--out", str(self.folder / out), *more]

    def start(self, *arguments: str, limit: float = math.inf) -> Forked:
        """Start a command, whose judge stops once the log has `limit` bytes; its output comes at the end."""
        variables = {"LOUD_LIMIT": str(limit)}
        return Forked(self.command(*arguments), env=self.environment | variables, stdout=subprocess.PIPE)

    @property
    def length(self) -> int:
        """The bytes of the log."""
        return self.log.stat().st_size if self.log.exists() else 0

    def kill(self, process: Forked, length: int, after: float = 0.0) -> None:
        """Kill a process a while after the log has more than `length` bytes."""
        while process.poll() is None and self.length <= length:
            time.sleep(0.005)
        time.sleep(after)
        assert process.poll() is None, "the run ended before it could be killed"
        process.send_signal(signal.SIGKILL)
        process.wait()
