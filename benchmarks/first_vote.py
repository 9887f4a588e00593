"""How long until a person's first vote: from the end of `pip install` until the vote is stored.

    python -m benchmarks.first_vote [what pip installs, such as '.[vote]'] [--texts 20]

Makes an empty environment, installs comparo there, starts `comparo vote` on a folder of texts as a user does (the first
start compiles nothing beforehand), opens the judge's page by HTTP and posts its first vote.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
import venv
from pathlib import Path

from benchmarks.verdict import table

STATE = re.compile(r'data-ballot="(\d+)" data-turn="(\d+)"')
SENTENCES = "Schools should start later.", "Sleep helps memory.", "Buses would run twice.", "Parents leave at seven."


def essays(folder: Path, count: int) -> None:
    """A folder of short texts, all of them different."""
    folder.mkdir()
    for number in range(count):
        lines = [SENTENCES[(number + step * (1 + number // 4)) % 4] for step in range(20)]
        (folder / f"essay{number:02}.txt").write_text(f"Essay {number}. {' '.join(lines)}\n", encoding="utf-8")


def opened(url: str, message: dict[str, object] | None = None) -> str:
    """The text at an address, or the answer to a message that is posted there."""
    body = None if message is None else json.dumps(message).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return str(answer.read().decode())


def link_of(process: subprocess.Popen[str], name: str) -> str:
    """The judge's link, as soon as the command prints it."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.split()[:1] == [name]:
            return line.split()[1]
    raise SystemExit("comparo vote ended before it printed a link")


def measured(what: str, count: int) -> list[tuple[str, float]]:
    """Steps with the seconds that each took, in turn."""
    steps, last = [], time.perf_counter()
    env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}  # nothing but what pip installed

    def done(step: str) -> None:
        nonlocal last
        now = time.perf_counter()
        steps.append((step, now - last))
        last = now

    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        essays(home / "essays", count)
        venv.create(home / "venv", with_pip=True)
        done("an empty environment")
        folder = home / "venv" / ("Scripts" if sys.platform == "win32" else "bin")
        subprocess.run([folder / "python", "-m", "pip", "install", "--quiet", what], env=env, check=True)
        done(f"pip install {what}")
        command = [folder / "comparo", "vote", "essays", "--criterion", "better argued", "--for", "ana"]
        command = [*command, "--no-browser"]
        process = subprocess.Popen(command, env=env, cwd=home, stdout=subprocess.PIPE, text=True)
        try:
            link = link_of(process, "ana")
            done("comparo vote prints the link")
            ballot, turn = map(int, STATE.search(opened(link)).groups())  # type: ignore[union-attr]
            done("the judge's page")
            opened(f"{link}vote", {"ballot": ballot, "turn": turn, "choice": "A", "seconds": 1.0})
            done("the first vote is stored, the next pair is shown")
        finally:
            process.terminate()
            process.communicate()
    return steps


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", nargs="?", default=f"{Path(__file__).parent.parent}[vote]", help="what pip installs")
    parser.add_argument("--texts", type=int, default=20)
    args = parser.parse_args()
    steps = measured(args.what, args.texts)
    rows = [[step, f"{seconds:.1f}"] for step, seconds in steps]
    rows.append(["from the end of pip install to the first vote", f"{sum(seconds for _, seconds in steps[2:]):.1f}"])
    print(*table(["step", "seconds"], rows), sep="\n")


if __name__ == "__main__":
    main()
