"""The people who judge: their names, and the task of a run whose voices they are.

Who may open which page: a token for each judge, one for the organiser, and one for an invitation.

They are in a private file of the run folder, so that the links stay the same when the server is started again. Whoever
has a link may use it; without one nothing is shown.
"""

from __future__ import annotations

import hmac
import json
import secrets
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from comparo.data.items import Items
from comparo.data.prompts import Prompt, Question
from comparo.data.sanitize import visible
from comparo.errors import JudgeError, StoreError
from comparo.judges import Judgement
from comparo.model.estimators.panel_members import OTHERS
from comparo.run.budget import Budget
from comparo.run.fit_policy import Fitting
from comparo.run.store import Store
from comparo.run.task import Task
from comparo.run.voices import Voice
from comparo.selection.designs import DEFAULT_BUDGET

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
    """The names in a list with commas between them, as `--for` has it.

    >>> parse_names("ana, bo,cy")
    ['ana', 'bo', 'cy']
    """
    names: list[str] = []
    for part in text.split(","):
        try:
            names.append(checked_name(part, names))
        except ValueError as error:
            raise ValueError(f"--for {visible(text)}: {error}") from error
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


FILE = "links.json"
BYTES = 18  # of randomness in a token: 144 bits, 24 characters
MOST = 1000  # judges of one run: an invitation that went astray must not fill the disk


@dataclass(frozen=True)
class Links:
    """The tokens of a run, and the port at which its pages were last.

    >>> links = Links.new().joined("ana")
    >>> links.judge(links.judges["ana"]), links.judge("guess"), links.judge("")
    ('ana', None, None)
    """

    organiser: str
    invitation: str
    judges: Mapping[str, str]
    port: int | None = None

    @classmethod
    def new(cls) -> Links:
        """Tokens for an organiser and an invitation, and no judges yet."""
        return cls(secrets.token_urlsafe(BYTES), secrets.token_urlsafe(BYTES), {})

    @classmethod
    def read(cls, folder: Path) -> Links:
        """The tokens of a run folder, new ones where it has none."""
        path = folder / FILE
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
            links = cls(**stored)
            if not all(isinstance(each, str) for each in (links.organiser, links.invitation, *links.judges.values())):
                raise TypeError("a token is not text")
        except FileNotFoundError:
            return cls.new()
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise StoreError(
                f"{path} cannot be read ({error}), so the links of this run are not known; mend it, or remove it to "
                "get new links. The votes are not in it"
            ) from error
        return links

    def write(self, store: Store) -> None:
        """Store the tokens, private and flushed."""
        store.write(FILE, json.dumps(asdict(self), ensure_ascii=False, indent=2) + "\n")

    def joined(self, name: str) -> Links:
        """With one more judge; a ValueError where the name is taken or is none."""
        name = checked_name(name, self.judges)
        if len(self.judges) >= MOST:
            raise ValueError(f"there are {MOST} judges, and no more can join; tell the organiser")
        return replace(self, judges={**self.judges, name: secrets.token_urlsafe(BYTES)})

    def with_judges(self, names: Iterable[str]) -> Links:
        """With these judges, those who are there already unchanged."""
        links = self
        for name in names:
            if name.casefold() not in map(str.casefold, links.judges):
                links = links.joined(name)
        return links

    def judge(self, token: str) -> str | None:
        """The judge with this token; every token is compared, in a time that tells nothing."""
        found = None
        for name, own in self.judges.items():
            if is_same(own, token):
                found = name
        return found


def is_same(token: str, given: str) -> bool:
    """Whether two tokens are the same, found in a time that does not tell how much of them is."""
    return hmac.compare_digest(token.encode(), given.encode("utf-8", "replace"))
