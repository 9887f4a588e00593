"""The shell commands of the pages, in the order in which a reader meets them.

A command stands in a block of code, where a line may be continued by a backslash, or in a sentence. After one with the
prompt `$`, the block shows what it prints. In a sentence, `comparo fit` and `comparo rank --group` only name a command
or a flag: it is a command if an argument follows the name at once, as in `comparo fit RUN`, or if it needs none
(`comparo runs`). One with `…` or `[` says how commands look.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from inside import COMMANDS

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`]+)`")
CALL = re.compile(rf"\bcomparo (?:{'|'.join(COMMANDS)})\b")
# A line of a block that is a command, and not what one printed; in a workflow it may follow `run:`.
SHELL = re.compile(r"((?:- )?(?:run: )?)(?:comparo|python|pip|make|git|ray|inspect|curl|export|for|gh) ")
VAGUE = "<!-- other numbers each time -->\n"
READ_ONLY = ("python", "toml", "json")  # blocks in which no shell runs; blocks of "text" are what a command prints
ALONE = ("comparo runs", "comparo runs --cached", "comparo demo")  # commands that need no argument


@dataclass(frozen=True)
class Documented:
    """A command of a page, as it is written there, its line, and what it prints where the page shows that.

    The numbers of what it prints are `vague` where they differ from day to day.
    """

    page: str
    line: int
    text: str
    printed: str = ""
    vague: bool = False

    @property
    def words(self) -> list[str]:
        return shlex.split(self.text, comments=True)

    @property
    def made(self) -> list[str]:
        """The files that a comment after the command names: what it writes."""
        comment = self.text.rpartition("  # ")[2] if "  # " in self.text else ""
        return [name.replace("TIME", "*") for name in re.findall(r"[\w/-]+\.(?:csv|jsonl|xlsx|html)\b", comment)]

    def __str__(self) -> str:
        return f"{self.page}:{self.line}: {self.text}"


def commands(page: Path, has_blocks: bool = True) -> list[Documented]:
    """The commands of a page that run `comparo`; a guide's blocks of `sh` are left out where a test runs them whole."""
    return [one for one in shell_lines(page, has_blocks) if CALL.search(one.text)]


def shell_lines(page: Path, has_blocks: bool = True) -> list[Documented]:
    """All lines of shell of a page, of whichever program."""
    text, name = page.read_text(encoding="utf-8"), str(page.relative_to(ROOT)) if ROOT in page.parents else page.name
    found: list[tuple[int, str, str, bool]] = []
    for match in FENCE.finditer(text):
        language, block = match.groups()
        if language in READ_ONLY or (language == "sh" and not has_blocks):
            continue
        for start, line in logical_lines(block):
            place = match.start(2) + start
            if line.startswith("$ "):
                is_vague = text[: match.start()].endswith(VAGUE)
                found.append((place, line[2:], block[start:].partition("\n")[2], is_vague))
            elif language != "text" and (shell := SHELL.match(line)):
                found.append((place, line[shell.end(1) :], "", False))
    prose = FENCE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    spans = [(match.start(), " ".join(match[1].split())) for match in SPAN.finditer(prose)]
    found += [(place, span, "", False) for place, span in spans if _is_whole(span)]
    return [Documented(name, text.count("\n", 0, place) + 1, *rest) for place, *rest in sorted(found)]


def logical_lines(block: str) -> list[tuple[int, str]]:
    """The lines of a block with their places, a continued line as one."""
    return [
        (match.start(), re.sub(r"\\\n\s*", "", match[0]).strip())
        for match in re.finditer(r"(?:[^\n]*\\\n)*[^\n]+", block)
    ]


def _is_whole(span: str) -> bool:
    """Whether code in a sentence is a whole command."""
    if re.search(r"…|\[", span):
        return False
    if span.startswith(ALONE):
        return True
    return re.match(rf"comparo (?:{'|'.join(COMMANDS)}) (?:[^-\s]|.*--help)", span) is not None
