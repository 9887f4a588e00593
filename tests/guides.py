"""Runs a guide as a reader would: its blocks one after another, in one folder, with what each prints compared.

A block of `sh` is run by bash, a block of `python` as a doctest; a block of `text` after it is what it prints, on
stdout and stderr together, with `...` for what differs from run to run. After the comment `other numbers each time`,
only what is no number is compared. `python tests/guides.py` runs all guides and puts the pictures that they draw into
docs/images; a guide that is a notebook is run by tests/notebooks.py.
"""

import contextlib
import doctest
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib import pyplot

from voting import Server

ROOT = Path(__file__).parents[1]
GUIDES = ROOT / "docs" / "guides"
BLOCK = re.compile(r"^(<!-- other numbers each time -->\n)?```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"-?\d[\d.,]*")
PICTURE = re.compile(r"!\[[^\]]+\]\(\.\./images/([\w.-]+)\)")
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
TEACHERS = ("ana", "bo", "cy")


@dataclass(frozen=True)
class Step:
    """A block of a guide: its language, what it says, what it prints if the guide shows that, and its line.

    The numbers are `vague` where they differ from run to run.
    """

    language: str
    source: str
    printed: str
    vague: bool
    line: int

    def check(self, said):
        """Compare with what was printed."""
        wanted, found = (NUMBER.sub("#", text) if self.vague else text for text in (self.printed, said))
        assert doctest.OutputChecker().check_output(wanted, found, FLAGS), f"line {self.line} printed:\n{said}"


def steps(page):
    """The blocks of a guide that are run; those of other languages are to be read only."""
    text = page.read_text(encoding="utf-8")
    found = [(*match.groups(), text.count("\n", 0, match.start()) + 1) for match in BLOCK.finditer(text)]
    following = [*found[1:], (None, "", "", 0)]
    return [
        Step(language, source, printed if kind == "text" else "", vague is not None, line)
        for (_, language, source, line), (vague, kind, printed, _) in zip(found, following, strict=True)
        if language in ("sh", "python")
    ]


def pictures(page):
    return PICTURE.findall(page.read_text(encoding="utf-8"))


def drawn(page):
    """The pictures that the guide itself draws: those that its steps name."""
    return [name for name in pictures(page) if any(name in step.source for step in steps(page))]


def prepare(folder):
    """A folder to work in: the examples, and programs called comparo and python, which are these."""
    (folder / "examples").symlink_to(ROOT / "examples")
    programs = folder / ".programs"
    programs.mkdir()
    for name, rest in (("comparo", " -m comparo.cli"), ("python", "")):
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}"{rest} "$@"\n', encoding="utf-8")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("COMPARO_", "OPENAI_"))}
    source = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
    return kept | {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": source,
        "MPLBACKEND": "agg",
        "COLUMNS": "100",
    }


def run_shell(step, folder, environment):
    done = subprocess.run(
        ["bash", "-c", step.source], cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, encoding="utf-8",
    )  # fmt: skip
    assert done.returncode == 0, f"line {step.line} ended with {done.returncode}:\n{done.stdout}"
    return done.stdout


def run_python(step, folder, names, page):
    test = doctest.DocTestParser().get_doctest(step.source, names, page.name, str(page), step.line)
    said = []
    with contextlib.chdir(folder):
        doctest.DocTestRunner(verbose=False, optionflags=FLAGS).run(test, out=said.append, clear_globs=False)
    assert not said, "".join(said)
    names.update(test.globs)


def run_vote(step, folder):
    """`comparo vote`, while three teachers open their links and vote in turn, then Ctrl-C; what it printed.

    The better essay is the one with more reasons, but a teacher misjudges each by about one.
    """
    _, _, data, *flags = shlex.split(step.source.replace("\\\n", " "))
    out, each = (flags[flags.index(name) + 1] for name in ("--out", "--each"))
    rng = np.random.default_rng(0)
    with Server(folder / data, folder / out, *_without(flags, "--out", "--criterion")) as server:
        voters = [server.voter(name) for name in TEACHERS]
        for _ in range(int(each)):
            for voter in voters:
                left, right = (text.count("because") + rng.standard_normal() for text in shown(voter.html))
                voter.vote("A" if left > right else "B")
        return "".join(server.stop())


def shown(html):
    """The two texts on the page."""
    return re.findall(r'<div class="side">(.*?)</div>', html, re.DOTALL)


def _without(flags, *names):
    """Flags less some that have a value, which the server of the tests gives itself."""
    at = {place for name in names for place in (flags.index(name), flags.index(name) + 1)}
    return [flag for place, flag in enumerate(flags) if place not in at]


def run_guide(page, folder):
    """Run every step of a guide in an empty folder; the pictures are there afterwards."""
    environment, names = prepare(folder), {}
    for step in steps(page):
        if step.language == "python":
            run_python(step, folder, names, page)
            continue
        is_vote = step.source.startswith("comparo vote")
        step.check(run_vote(step, folder) if is_vote else run_shell(step, folder, environment))
    pyplot.close("all")
    for name in drawn(page):
        assert (folder / name).stat().st_size > 5000, f"{name} is not a picture"


def main():
    for page in sorted(GUIDES.glob("*.md")):
        if page.with_suffix(".ipynb").exists():  # tests/notebooks.py writes it
            continue
        with tempfile.TemporaryDirectory() as folder:
            run_guide(page, Path(folder))
            for name in drawn(page):
                shutil.copyfile(Path(folder) / name, ROOT / "docs" / "images" / name)


if __name__ == "__main__":
    main()
