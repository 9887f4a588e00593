"""A folder in which the commands of a page run: with the files that they name, and the servers that they ask.

A file or folder is made when a command first names it, unless a command of the page has made it before. Commands go
through bash, so that quotes, `*`, variables and loops mean what they mean to a reader; where bash would start comparo,
it is started in this process.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from documented import Documented
from guides import Step
from named_files import RUNS, TABLES, VOTED, Row, recorded_set, write
from processes import Forked
from voting import PATIENCE, Server, essays
from workbooks import fill

SERVER = "http://localhost:8000/v1"  # the server of a reader's own, on the pages
MADE = ("--out", "--report")  # flags before the name of what a command makes
# In place of comparo, for bash: writes its arguments down, those of each call as a line of JSON.
NOTE = """#!{python} -IS
import json, sys
with open({file!r}, "a") as file:
    file.write(json.dumps(sys.argv[1:]) + chr(10))
"""


def _better(row: Row) -> str:
    first, second = (int(row[side].removeprefix("e")) for side in ("first", "second"))
    return "A" if first + (first + second) % 3 > second else "B"


class Voting(Server):
    """`comparo vote` as a page has it, wherever its run folder is."""

    def __init__(self, *arguments: str) -> None:
        self.command = [sys.executable, "-m", "comparo.cli", *arguments]

    @property
    def out(self) -> Path:
        """The folder that was written to last; a server writes its port there."""
        found = sorted(Path().rglob("links.json"), key=lambda path: path.stat().st_mtime_ns)
        if not found:
            raise FileNotFoundError("the server has no links yet")
        return found[-1].parent


class Sandbox:
    """Runs commands of a page in a folder; `start` runs comparo in this process."""

    def __init__(self, folder: Path, start: Callable[..., Any], variables: dict[str, str], model: Callable[[], Path]):
        self.folder, self.start, self.variables, self.model = folder, start, variables, model
        self.argv, self.stdout = folder.parent / "argv", ""
        programs = folder.parent / "programs"
        programs.mkdir()
        note = programs / "comparo"
        note.write_text(NOTE.format(python=sys.executable, file=str(self.argv)), encoding="utf-8")
        note.chmod(0o755)
        self.environment = os.environ | {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
        self.environment["GITHUB_STEP_SUMMARY"] = str(folder.parent / "summary.md")

    def run(self, command: Documented) -> str:
        """Run a command; what it printed."""
        page = Path(command.page).name
        for word, before in zip(command.words, [None, *command.words], strict=False):
            if before not in MADE or "runs" in command.words[:2]:  # runs --report reads the folder that it names
                self.make(word.removeprefix("replay/").rstrip("/;"), page)
        printed = "".join([self.call(arguments, str(command)) for arguments in self.expanded(command)])
        if ">" in command.words:  # bash wrote only what a program that notes its arguments prints
            (self.folder / command.words[command.words.index(">") + 1]).write_text(self.stdout)
        for name in command.made:
            assert any(self.folder.rglob(Path(name).name)), f"{command}\nwrote no {name}"
        if command.printed:
            Step("sh", command.text, command.printed, command.vague, command.line).check(printed)
        return printed

    def expanded(self, command: Documented) -> list[list[str]]:
        """The arguments of each comparo that bash starts."""
        self.argv.write_text("")
        text = command.text.replace(SERVER, self.variables["OPENAI_BASE_URL"])
        text = text.replace("--base-url URL", f"--base-url {self.variables['OPENAI_BASE_URL']}")
        text = text.replace("study SET", "study items.jsonl").replace("--judge NAME", "--judge openai/gpt-6-luna")
        done = subprocess.run(
            ["bash", "-c", text], cwd=self.folder, env=self.environment, capture_output=True, text=True
        )
        assert done.returncode == 0, str(command)
        found = [json.loads(line) for line in self.argv.read_text().splitlines()]
        assert found, f"{command} starts no comparo"
        return found

    def call(self, arguments: list[str], where: str) -> str:
        if arguments[0] == "vote":
            return self.vote(arguments)
        if "--watch" in arguments:
            return self.watch(arguments)
        done = self.start(self.folder, arguments, **self.variables)
        assert not done.returncode, f"{where}\nended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
        if "--sheet" in arguments:
            self.fill_in()
        self.stdout = done.stdout
        return str(done.stdout + done.stderr)

    def make(self, name: str, page: str) -> None:
        """Make what a command names, unless it is there."""
        if name.startswith("hf/"):
            self.place_model(name.removeprefix("hf/"))
        path = self.folder / name
        if path.exists() or ("*" in name and any(self.folder.glob(name))):
            return
        place = f"{page} {name}"
        if table := TABLES.get(place) or TABLES.get(name) or TABLES.get(Path(name).name):
            write(path, table())
        elif name == "../shared/data":
            recorded_set(path)
        elif name == "essays":
            essays(path)
        elif name.startswith("sheets/"):
            self.call(["plan", *self.inputs("essays", page), "--next", "20", "--for", "ana,bo", "--sheet"], name)
        elif data := VOTED.get(place) or VOTED.get(name):
            self.vote(["vote", *self.inputs(data, page), "--criterion", "better", "--for", "ana,bo", "--out", name], 12)
        elif command := RUNS.get(place) or RUNS.get(name):
            arguments = shlex.split(command)
            self.inputs(arguments[1], page)
            self.call([*arguments, name], name)

    def inputs(self, name: str, page: str) -> list[str]:
        self.make(name, page)
        return [name]

    def place_model(self, name: str) -> None:
        """The network where transformers looks first for a model of this name: in the working folder."""
        path = self.folder / name
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.symlink_to(self.model())

    def fill_in(self) -> None:
        """Fill in the sheets as two people would who mostly agree: the essay with the higher number is better."""
        for path in sorted((self.folder / "sheets").iterdir()):
            fill(path, _better)

    def vote(self, arguments: list[str], votes: int = 0) -> str:
        """`comparo vote`: its pages are there, judges vote, and Ctrl-C ends it."""
        with Voting(*arguments) as server:
            status, _, page = server.request("GET", f"{server.organiser}/")
            assert status == 200
            assert "<html" in page
            judges = [server.voter(name) for name in server.links()["judges"]]
            for _ in range(votes):
                for judge in judges:
                    left, right = (int(number) for number in re.findall(r"number (\d+)\.", judge.html)[:2])
                    judge.vote("A" if left > right else "B")
            printed, _ = server.stop()
            assert server.process.returncode == 0
        return str(printed)

    def watch(self, arguments: list[str]) -> str:
        """A command that shows something until it is interrupted."""
        process = Forked(
            [sys.executable, "-m", "comparo.cli", *arguments],
            env=dict(os.environ),
            cwd=self.folder,
            stdout=subprocess.PIPE,
        )
        end = time.monotonic() + PATIENCE
        while not process.printed() and time.monotonic() < end:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        printed, _ = process.communicate()
        assert process.returncode == 0
        return printed
