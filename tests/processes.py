"""Commands in processes of their own that start at once: forked from one that has imported what they need."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
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
    from comparo.cli.app import main

    main()
