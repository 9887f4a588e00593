"""Errors and messages as data, which Python and the command line write in their own words.

A message names options: Python writes `budget` and budget='5n', the command line --budget and --budget 5n.
"""

import shlex
from ast import literal_eval
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from string import Formatter
from typing import Any


@dataclass(frozen=True, slots=True)
class Named:
    """An option in a message: its name, the words for it in Python, and its value as Python writes it, or "".

    The name "option.votes" is an option of a judge, "columns.id" the role of a column.
    """

    option: str
    words: str
    value: str = ""

    def __str__(self) -> str:
        return self.words

    def written(self, flags: Mapping[str, str]) -> str:
        """The option by its flag, if it has one."""
        group, _, name = self.option.rpartition(".")
        if (flag := flags.get(group or name)) is None:
            return self.words
        value = shlex.quote(literal_eval(self.value)) if self.value.startswith(("'", '"')) else self.value
        if group:
            return f"{flag} {name}={value}"
        return flag if value in ("", "True") else f"{flag} {value}"


class Message(str):
    """A text that names options; as text, it is in Python's words.

    The template has no fields but options, also with values. Texts are added before and behind; what they hold is never
    read as a template.

    >>> found = "3 calls; " + Message("choose another {budget}, as {budget:'5n'}, or {fresh:True}")
    >>> found == "3 calls; choose another `budget`, as budget='5n', or fresh=True"
    True
    >>> in_flags(found, {"budget": "--budget", "fresh": "--fresh"})
    '3 calls; choose another --budget, as --budget 5n, or --fresh'
    """

    parts: tuple[str | Named, ...]

    def __new__(cls, template: str) -> "Message":
        parts: list[str | Named] = []
        for text, option, value, _ in Formatter().parse(template):
            parts.append(text)
            if option is not None:
                name = option.rpartition(".")[2]
                parts.append(Named(option, f"{name}={value}" if value else f"`{name}`", value or ""))
        return _joined(parts)

    def __str__(self) -> str:
        return self  # so that the text of an exception, and of a record of a log, is the message with its data

    def __add__(self, text: str) -> "Message":
        return _joined([*self.parts, *_parts(text)])

    def __radd__(self, text: str) -> "Message":
        return _joined([*_parts(text), *self.parts])

    def __reduce__(self) -> Any:
        return _joined, (self.parts,)


def named(option: str, value: object) -> Message:
    """An option with its value.

    >>> named("goal", "top-3") + " needs more items"
    "goal='top-3' needs more items"
    """
    return _joined([Named(option, f"{option}={value!r}", repr(value))])


def in_flags(text: str, flags: Mapping[str, str]) -> str:
    """A text with the flag of each option that it names as data."""
    return "".join(part if isinstance(part, str) else part.written(flags) for part in _parts(text))


def _parts(text: str) -> tuple[str | Named, ...]:
    return text.parts if isinstance(text, Message) else (text,)


def _joined(parts: Iterable[str | Named]) -> Message:
    made = str.__new__(Message, "".join(map(str, parts := tuple(parts))))
    made.parts = parts
    return made


def pip_install(extra: str) -> str:
    """The pip command that installs an extra; it needs the checkout because comparo is not on PyPI.

    >>> pip_install("vote")
    "pip install '.[vote]' in the checkout of comparo"
    """
    return f"pip install '.[{extra}]' in the checkout of comparo"


class ComparoError(Exception):
    """The base class of every error that comparo raises on purpose; invalid arguments raise a ValueError."""


class OptionError(ComparoError, ValueError):
    """A value that an option cannot have; `remedy` says why, and what it can be.

    >>> raise OptionError("until", 2, "is not between 0 and 1; 0.95 is a usual choice")
    Traceback (most recent call last):
    comparo.errors.OptionError: until = 2 is not between 0 and 1; 0.95 is a usual choice
    """

    def __init__(self, option: str, value: object, remedy: str) -> None:
        super().__init__(option, value, remedy)
        self.option, self.value, self.remedy = option, value, remedy

    def __str__(self) -> str:
        shown = Named(self.option, f"{self.option} = {self.value!r}", repr(self.value))
        return _joined([shown, " ", *_parts(self.remedy)])


class ComparisonsError(ComparoError, ValueError):
    """Invalid input; the message states where the problem is and how to solve it."""


class JudgeError(ComparoError, RuntimeError):
    """The judge cannot answer at all: a wrong key, an unknown model, a server without a required feature.

    The message states what to do. A single answer that failed does not raise this: it is a `Judgement` with an error.
    """


class RunError(ComparoError, RuntimeError):
    """A run that cannot continue; all answers so far are kept, and the same command continues from there."""


class PendingError(RunError):
    """A batch that is not answered yet; the same command continues it."""


class StoreError(ComparoError, RuntimeError):
    """A run folder that cannot be used: in use, of another run, damaged, on a full disk, or not writable."""


class WrongFolderError(StoreError, ValueError):
    """A folder that holds no run, or another run; it is not changed."""
