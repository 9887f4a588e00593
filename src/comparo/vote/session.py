"""A session of voting: the items and the question, the names of the judges, and the links to their pages.

Each judge, the organiser and the invitation have a token. A private file of the run folder stores the tokens, so that
links stay the same when the server is started again. Whoever has a link may use it.
"""

from __future__ import annotations

import hmac
import json
import secrets
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from math import ceil, comb
from pathlib import Path
from typing import Any

import numpy as np

from comparo.analysis.misfit import LONGEST_LIST, disagreements
from comparo.data.grammar import part
from comparo.data.items import Items
from comparo.data.prompts import Prompt, Question
from comparo.data.run_folder import DATABASE, database_of
from comparo.data.sanitize import skeleton, visible
from comparo.errors import JudgeError, Message, OptionError, StoreError, WrongFolderError, named
from comparo.judges import Judgement
from comparo.log.configuration import differences
from comparo.log.folders import choose_folder
from comparo.log.store import Store, count_judgements, read_configuration, read_judgements, stored_items
from comparo.model.observations import OTHERS
from comparo.options import AmountOptions, PollOptions, TaskOptions
from comparo.ranking.tabular import rows_of
from comparo.report.record import read_record
from comparo.rounding import merge_ties
from comparo.run.budget import Budget
from comparo.run.resume import Change
from comparo.run.task import Task
from comparo.run.voices import Voice, comparisons
from comparo.selection.sharing import telling_pairs

LONGEST = 40  # most characters of a name: the width of a row in the organiser's table
MAY_DIFFER = ("judge", "voices")  # people may join a run that has begun
FIRST = 50  # votes that give the validity of a judge to a factor of about three (docs/people.md)
FILE = "links.json"
BYTES = 18  # random bytes of a token: 144 bits, 24 characters
MOST_JUDGES = 1000  # most judges of one run: a leaked invitation must not fill the disk


@dataclass(frozen=True)
class Person:
    """A person as a `Judge`; its `judge` raises an error, because people vote on the page."""

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    ahead: int = 1
    chooses: bool = True
    lines_up: bool = True

    def judge(self, questions: Iterable[Question], prompt: Prompt) -> Iterator[Judgement]:
        raise JudgeError(f"{self.name} is a person, who votes on the page of `comparo vote`")


def checked_name(name: str, taken: Iterable[str] = ()) -> str:
    """A name as it is stored; a ValueError if it is invalid or looks like a name in `taken`.

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
    """The looks of a name, whatever its case.

    >>> _look("\u0410n\u200ba") == _look("ana")
    True
    """
    return skeleton(name).casefold()


def parse_names(text: str) -> list[str]:
    """Read names separated by commas, such as ana,bo.

    >>> parse_names("ana, bo,cy")
    ['ana', 'bo', 'cy']
    """
    names: list[str] = []
    for each in text.split(","):
        try:
            names.append(checked_name(each, names))
        except ValueError as error:
            raise ValueError(named("judges", text) + ": " + str(error)) from error
    return names


def split_reasons(text: str) -> tuple[str, ...]:
    """Read reasons separated by commas; a ValueError for more than nine, or for a long one or one with a semicolon.

    >>> split_reasons("clearer, better evidence")
    ('clearer', 'better evidence')
    """
    parts = [" ".join(part.split()) for part in text.split(",")]
    found = tuple(dict.fromkeys(visible(part) for part in parts if part))
    if len(found) > 9:
        raise ValueError(Message("{reasons}") + f" has {len(found)} reasons; nine are the most, one for each key")
    if long := [reason for reason in found if len(reason) > LONGEST or ";" in reason]:
        raise ValueError(f"the reason {long[0]!r} has a ; or more than {LONGEST} characters; shorten it")
    return found


@dataclass(frozen=True)
class Links:
    """The tokens of a run, and the port at which its pages were last served.

    `named` are the judges whom a start has named, `revoked` those of them whose links no longer work.

    >>> links = Links.new().joined("ana")
    >>> links.judge(links.judges["ana"]), links.judge("guess"), links.judge("")
    ('ana', None, None)
    """

    organiser: str
    invitation: str
    judges: Mapping[str, str]
    port: int | None = None
    named: Sequence[str] = ()
    revoked: Sequence[str] = ()

    @classmethod
    def new(cls) -> Links:
        """New tokens for an organiser and an invitation, without judges."""
        return cls(secrets.token_urlsafe(BYTES), secrets.token_urlsafe(BYTES), {})

    @classmethod
    def read(cls, folder: Path) -> Links:
        """The tokens of a run folder; new ones if it has none."""
        path = folder / FILE
        try:
            links = cls(**json.loads(path.read_text(encoding="utf-8")))
            texts = (links.organiser, links.invitation, *links.judges.values(), *links.named, *links.revoked)
            if not all(isinstance(each, str) for each in texts):
                raise TypeError("a token or a name is not text")
        except FileNotFoundError:
            return cls.new()
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise StoreError(
                f"{path} cannot be read ({error}), so the links of this run are not known; mend it, or remove it to "
                "get new links. The votes are not in it"
            ) from error
        return links

    def write(self, store: Store) -> None:
        """Write the tokens to a private file and flush it."""
        store.write(FILE, json.dumps(asdict(self), ensure_ascii=False, indent=2) + "\n")

    def joined(self, name: str) -> Links:
        """The links with one more judge; a ValueError if the name is invalid or taken, or there are too many judges."""
        name = checked_name(name, self.judges)
        if len(self.judges) >= MOST_JUDGES:
            raise ValueError(f"there are {MOST_JUDGES} judges, and no more can join; tell the organiser")
        return replace(self, judges={**self.judges, name: secrets.token_urlsafe(BYTES)})

    def with_judges(self, names: Sequence[str], are_all: bool = False) -> Links:
        """The links with these judges added, except those that are already there.

        If these `are_all`, the links of other judges whom a start has named are revoked; those of judges who joined by
        the invitation are not.

        >>> links = Links.new().with_judges(["ana", "bo"]).joined("cy").with_judges(["bo"], are_all=True)
        >>> list(links.judges), links.revoked
        (['ana', 'bo', 'cy'], ['ana'])
        """
        links, given = self, [name.casefold() for name in names]
        for name in names:
            if name.casefold() not in map(str.casefold, links.judges):
                links = links.joined(name)
        named = [name for name in links.judges if name in self.named or name.casefold() in given]
        others = named if are_all else self.revoked
        return replace(links, named=named, revoked=[name for name in others if name.casefold() not in given])

    @property
    def active(self) -> dict[str, str]:
        """The judges whose links work, with their tokens."""
        return {name: token for name, token in self.judges.items() if name not in self.revoked}

    def judge(self, token: str) -> str | None:
        """The judge with this token, also a revoked one, or None; the time does not depend on which token matches."""
        found = [name for name, own in self.judges.items() if is_same(own, token)]
        return found[0] if found else None


def is_same(token: str, given: str) -> bool:
    """Whether two tokens are equal, in a time that does not depend on their contents."""
    return hmac.compare_digest(token.encode(), given.encode("utf-8", "replace"))


@dataclass(frozen=True)
class Voting(PollOptions):
    """The items, the question, the judges, and how pairs are distributed; a ValueError if they are incompatible.

    With a `prompt` about more than two texts, judges see line-ups instead of pairs. `names` are the judges named at the
    start. `twice` is the share of pairs that go to two judges. `first` are the pairs shown before all others, or the
    only ones with `is_only_first`.

    >>> from comparo.data.prompts import criterion_prompt
    >>> items = Items.of({str(k): f"Text {k}." for k in range(20)})
    >>> voting = Voting(items, criterion_prompt("better"), ["Cy", "Di"])
    >>> voting.identity()["judge"], voting.each(3)
    ('Cy, Di', 40)
    """

    items: Items
    prompt: Prompt
    names: Sequence[str]
    first: Sequence[tuple[Any, Any, Any]] = ()
    is_only_first: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.twice <= 1:
            raise OptionError("twice", self.twice, "is not a share of the pairs, from 0 to 1")
        task = self.task()  # checks the other fields
        if self.prompt.size > 2:
            task.check_lineups(self._sizes)
            if names := [name for name in self.items.ids.tolist() if "|" in str(name)]:
                raise ValueError(f"the name {names[0]!r} has a |, which separates the texts of a line-up; rename it")

    def task(self, names: Sequence[str] | None = None) -> Task:
        """The task of these people, by default of `self.names`: each pair in one order, chosen adaptively."""
        if names is None:
            names = self.names
        people = tuple(Voice(name, Person(name), self.prompt) for name in names)
        return Task(
            self.items,
            self.prompt,
            people[0].judge if people else Person("people"),
            Budget.of(AmountOptions.budget),
            **part(self, TaskOptions) | {"strategy": "adaptive", "orders": "one"},
            panel=people if len(people) > 1 else (),
        )

    def identity(self, names: Sequence[str] | None = None) -> dict[str, Any]:
        """What must stay the same to continue a run: the identity of the task, and that people are asked."""
        return {**self.task(names).identity, "asked": "people"}

    def folder(self, data: str, out: Path | None, fresh: bool) -> Path:
        """The run folder: `out`, else (unless `fresh`) that of the same voting, else a new one."""
        return out or choose_folder(data, self.identity(), fresh, may_differ=MAY_DIFFER)

    def check_texts(self, folder: Path) -> None:
        """Raise a WrongFolderError if a folder has the same voting about other texts, with the differences."""
        if change := self._change(folder):
            remedy = Message("choose another {out}, or start anew with {fresh:True}, which keeps the votes elsewhere")
            problem = (
                f"{folder} has votes about other texts: {change.described()}. Give the texts as they were to go on, "
            )
            raise WrongFolderError(problem + remedy)

    def _change(self, folder: Path) -> Change | None:
        """How the texts differ from those of a folder; None if they do not, or if something else differs too."""
        with suppress(StoreError, OSError):
            identity = json.loads(json.dumps(self.identity(), default=str))
            before = read_configuration(folder)["identity"]
            if before.get("items") != identity["items"] and not differences(before, identity, (*MAY_DIFFER, "items")):
                return Change.between(stored_items(folder), self.items, frozenset())
        return None

    def each(self, judges: int) -> int:
        """The votes to ask of each judge, so that together they see as many pairs as `comparo rank` by default.

        A line-up of k texts counts as k − 1 pairs. A judge gives at most one vote on each pair.
        """
        calls = sum(number for number, _ in Budget.of(AmountOptions.budget).calls(self._sizes, "both").values())
        share = self.twice if judges > 1 else 0.0
        return min(ceil(calls / 2 / (self.prompt.size - 1) * (1 + share) / judges), self.pairs)

    @property
    def pairs(self) -> int:
        """The number of pairs or line-ups that a judge can see."""
        if self.is_only_first:
            return len(self.first)
        return sum(comb(size, self.prompt.size) for size in self._sizes.values())

    @property
    def _sizes(self) -> dict[Any, int]:
        return {context: len(ids) for context, ids in self.items.names.items()}


def _machine_run(data: str) -> Path | None:
    """The run folder `data`, if its judge is a machine; else None."""
    database = None if data == "-" else database_of(data)
    if database is None or read_configuration(database.parent)["identity"].get("asked") == "people":
        return None
    return database.parent


def informative_pairs(data: str, seed: int) -> list[tuple[Any, Any, Any]]:
    """The `FIRST` pairs whose votes are most informative about the machine's run `data`; [] if it is no such run."""
    run = _machine_run(data)
    if run is None or not count_judgements(run)[0]:
        return []
    return telling_pairs(read_record(run).ranking, FIRST, seed)


def disputed_pairs(data: str, folder: Path) -> list[tuple[Any, Any, Any]]:
    """The pairs on which votes, of the voting in `folder` or of the run, contradict the machine, the clearest first."""
    run = _machine_run(data)
    if run is None:
        raise ValueError(f"{data} is no run of a machine; name the folder of the run that people's votes are to check")
    record = read_record(run)
    given = [] if record.fitting.votes is None else [record.fitting.votes]
    judgements = read_judgements(folder) if (folder / DATABASE).is_file() else []
    if any(not judgement.failed for judgement in judgements):
        given.append(comparisons(judgements))
    rows = [row for votes in given for row in rows_of(disagreements(record.ranking, votes))]
    apart = merge_ties(np.array([row["machine"] - row["people"] for row in rows], dtype=np.float64))
    ordered = [rows[place] for place in np.argsort(apart, kind="stable").tolist()]
    pairs = dict.fromkeys((row.get("context"), row["chosen"], row["other"]) for row in ordered)
    if not pairs:
        raise ValueError(f"no vote contradicts the machine of {data}; " + Message("vote first, without {only}"))
    return list(pairs)[:LONGEST_LIST]
