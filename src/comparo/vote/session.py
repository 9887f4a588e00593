"""A session of voting: the run folder opened with its links and judges, or what is wrong before anything starts."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from typing import Any

from comparo.data.items import Items
from comparo.data.prompts import Prompt
from comparo.data.run_folder import database_of
from comparo.errors import StoreError, WrongFolderError
from comparo.report.record import read_record
from comparo.run.budget import Budget
from comparo.run.files import set_aside
from comparo.run.folders import choose_folder, folders
from comparo.run.resume import Change
from comparo.run.store import Store, count_judgements, differences, read_configuration, stored_items
from comparo.selection.designs import DEFAULT_BUDGET
from comparo.selection.sharing import telling_pairs
from comparo.vote.booth import Booth
from comparo.vote.people import MAY_DIFFER, Links, identity_of, task_of

FIRST = 50  # votes that tell the validity of a judge to a factor of about three (docs/people.md)


@dataclass(frozen=True)
class Voting:
    """What is voted on, by whom, and how pairs are shared out; a ValueError where that is impossible.

    `names` are the judges that were named. `twice` is the share of pairs that go to two judges. `first` are the pairs
    that are asked before all others.
    """

    items: Items
    prompt: Prompt
    names: Sequence[str]
    twice: float = 0.2
    until: float | None = None
    seed: int = 0
    first: Sequence[tuple[Any, Any, Any]] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.twice <= 1:
            raise ValueError(f"--twice {self.twice} is not a share of the pairs, from 0 to 1")
        task_of(self.items, self.prompt, self.names, self.until, self.seed)  # which checks the rest

    def folder(self, data: str, out: Path | None, fresh: bool) -> Path:
        """The run folder: `out`, else that of the same voting, else a new one."""
        return out or choose_folder(data, self._identity, fresh, may_differ=MAY_DIFFER)

    @property
    def _identity(self) -> dict[str, Any]:
        return identity_of(task_of(self.items, self.prompt, self.names, self.until, self.seed))

    def check_texts(self, folder: Path) -> None:
        """Raise a WrongFolderError where a folder has the same voting about other texts, and say which."""
        if change := self._change(folder):
            raise WrongFolderError(
                f"{folder} has votes about other texts: {change.described(with_added=True)}. Give the texts as they "
                "were to go on, choose another --out, or start anew with --fresh, which keeps the votes elsewhere"
            )

    def before(self) -> tuple[Path, str] | None:
        """The newest run folder with the same voting about some of these texts, and how they have changed since."""
        for folder in sorted(folders(), reverse=True):
            change = self._change(folder)
            if change and len(change.added) + len(change.changed) < len(self.items):
                return folder, change.described(with_added=True)
        return None

    def _change(self, folder: Path) -> Change | None:
        """How the texts differ from those of a folder; None where they do not, or something else does too."""
        with suppress(StoreError, OSError):
            identity = json.loads(json.dumps(self._identity, default=str))
            before = read_configuration(folder)["identity"]
            if before.get("items") != identity["items"] and not differences(before, identity, (*MAY_DIFFER, "items")):
                return Change.between(stored_items(folder), self.items, frozenset())
        return None

    def each(self, judges: int) -> int:
        """How many votes to ask of each judge: together as many pairs as `comparo rank` asks by default.

        No judge can give more than one vote on each pair.

        >>> from comparo.data.prompts import criterion_prompt
        >>> items = Items.of({str(k): f"Text {k}." for k in range(20)})
        >>> Voting(items, criterion_prompt("better"), ["ana"], twice=0.2).each(3)
        40
        """
        sizes = {context: len(ids) for context, ids in self.items.names.items()}
        calls = sum(number for number, _ in Budget.of(DEFAULT_BUDGET).calls(sizes, "both").values())
        share = self.twice if judges > 1 else 0.0
        return min(ceil(calls / 2 * (1 + share) / judges), self.pairs)

    @property
    def pairs(self) -> int:
        """How many pairs there are, in all contexts."""
        return sum(len(ids) * (len(ids) - 1) // 2 for ids in self.items.names.values())


def telling_of(data: str, seed: int) -> list[tuple[Any, Any, Any]]:
    """The pairs whose votes tell most of the ranking of a machine's run; none where `data` is no folder of one."""
    database = None if data == "-" else database_of(data)
    if database is None or read_configuration(database.parent)["identity"].get("asked") == "people":
        return []
    if not count_judgements(database.parent)[0]:
        return []
    return telling_pairs(read_record(database.parent).ranking, FIRST, seed)


@contextmanager
def opened(
    voting: Voting,
    folder: Path,
    notes: dict[str, Any],
    *,
    fresh: bool = False,
    place: Callable[[Links], int],
) -> Iterator[Booth]:
    """The booth of a run folder, which is made or continued; `place` opens the port, given the links so far.

    `notes` are added to its run.json.
    """
    links = (Links.new() if fresh else Links.read(folder)).with_judges(voting.names)
    task = task_of(voting.items, voting.prompt, list(links.judges), voting.until, voting.seed)
    links = replace(links, port=place(links))
    if fresh:
        set_aside(folder)
    configuration = {**task.configuration, "budget": "votes", "together": True, "twice": voting.twice, **notes}
    # A vote is worth more than the time of a flush: each is on the disk before the page moves on.
    with closing(Store(folder, identity_of(task), configuration, may_differ=MAY_DIFFER, most_unsynced=1)) as store:
        store.add_items(voting.items)
        links.write(store)
        booth = Booth(
            store,
            voting.items,
            voting.prompt,
            links,
            twice=voting.twice,
            until=voting.until,
            seed=voting.seed,
            first=voting.first,
        )
        try:
            yield booth
        finally:
            booth.close()
