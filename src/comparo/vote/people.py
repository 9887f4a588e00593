"""The people who judge: their names, and the task of a run whose voices they are."""

import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from comparo.data.items import Items
from comparo.data.prompts import Prompt, Question
from comparo.data.words import visible
from comparo.errors import JudgeError
from comparo.judges import Judgement
from comparo.model.hearing import OTHERS
from comparo.run.budget import Budget
from comparo.run.recipe import Fitting
from comparo.run.task import Task
from comparo.run.voices import Voice
from comparo.selection.defaults import DEFAULT_BUDGET

LONGEST = 40  # characters of a name: what a row of the organiser's table has room for
ALIKE = str.maketrans("авекмнорстухіјѕԁһԛԝαβεζηικμνορτυχ", "abekmhopctyxijsdhqwabezhikmnoptyx")  # in small letters
UNSEEN = "\u034f\u115f\u1160\u2800" + "".join(map(chr, range(0xFE00, 0xFE10)))  # signs of other categories than Cf
MAY_DIFFER = ("judge", "voices")  # people may join a run that has begun


@dataclass(frozen=True)
class Person:
    """A judge who is asked on a page; no program can ask them."""

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    ahead: int = 1
    chooses: bool = True

    def judge(self, questions: Iterable[Question], prompt: Prompt) -> Iterator[Judgement]:
        raise JudgeError(f"{self.name} is a person, who votes on the page of `comparo vote`")


def checked_name(name: str, taken: Iterable[str] = ()) -> str:
    """A name as it is stored; a ValueError where it cannot be one, or is that of another judge.

    >>> checked_name("  Ana  Lima ")
    'Ana Lima'
    >>> checked_name("ANA", ["ana"])
    Traceback (most recent call last):
    ValueError: there is a judge called 'ana' already; choose another name
    """
    name = " ".join(unicodedata.normalize("NFC", name).split())
    if not name:
        raise ValueError("a judge has no name; give each judge one")
    if len(name) > LONGEST:
        raise ValueError(f"the name {name[:LONGEST]!r}… has {len(name)} characters; {LONGEST} are the most")
    if visible(name) != name:
        raise ValueError(f"the name {visible(name)!r} has characters that cannot be shown; leave them out")
    if name.casefold() == OTHERS:
        raise ValueError(f"no judge can be called {name!r}: judges with few votes are shown together under that name")
    if not _look(name):
        raise ValueError("the name has only characters that are not seen; give the judge a name")
    for other in taken:
        if _look(other) == _look(name):
            raise ValueError(f"there is a judge called {other!r} already; choose another name")
    return name


def _look(name: str) -> str:
    """A name as it looks, to compare it with others: without what is not seen, with Latin letters for their likes.

    >>> _look("\u0410n\u200ba") == _look("ana")
    True
    """
    plain = unicodedata.normalize("NFKC", name).casefold().translate(ALIKE)
    return "".join(sign for sign in plain if unicodedata.category(sign) != "Cf" and sign not in UNSEEN)


def parse_names(text: str) -> list[str]:
    """The names in a list with commas between them, as `--judges` has it.

    >>> parse_names("ana, bo,cy")
    ['ana', 'bo', 'cy']
    """
    names: list[str] = []
    for part in text.split(","):
        try:
            names.append(checked_name(part, names))
        except ValueError as error:
            raise ValueError(f"--judges {visible(text)}: {error}") from error
    return names


def task_of(items: Items, prompt: Prompt, names: Sequence[str], until: float | None, seed: int) -> Task:
    """The task that people with these names share: pairs in one order, chosen by all votes so far.

    >>> from comparo.data.prompts import criterion_prompt
    >>> items = Items.of({"ana": "A story.", "bo": "Another."})
    >>> task_of(items, criterion_prompt("better"), ["Cy", "Di"], None, 0).identity["judge"]
    'Cy, Di'
    """
    voices = tuple(Voice(name, Person(name), prompt) for name in names)
    first = voices[0].judge if voices else Person("people")
    budget = Budget.of(DEFAULT_BUDGET)
    how: dict[str, Any] = {"until": until, "strategy": "adaptive", "orders": "one", "method": "mixed", "seed": seed}
    return Task(items, prompt, first, budget, **how, panel=voices if len(voices) > 1 else ())


def identity_of(task: Task) -> dict[str, Any]:
    """What must stay the same to continue: that of the task, and that people are asked."""
    return {**task.identity, "asked": "people"}


def fitting_of(task: Task) -> Fitting:
    """How votes become a ranking: all people together, because few votes of each tell little of their tastes."""
    return replace(task.fitting, together=True)
