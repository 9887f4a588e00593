"""The booth executes the judges' actions one at a time, and stores each before it returns.

All methods are thread-safe. The memory has only what was read from the run folder or stored in it.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from comparo.errors import StoreError
from comparo.log import questions
from comparo.log.files import set_aside
from comparo.log.questions import Ballot
from comparo.log.store import Store
from comparo.run.fit_policy import Fitting
from comparo.vote.dealing import Dealer
from comparo.vote.session import MAY_DIFFER, Links, Voting

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Turn:
    """What a judge's page shows: the open ballot, None without further pairs, and the judge's votes and skips so far.

    `last` is the number of the judge's last answer, which may be withdrawn.
    """

    ballot: Ballot | None
    votes: int
    skipped: int
    last: int | None


class Booth:
    """The judges and the ballots of a voting, with its open store, the run folder."""

    def __init__(self, store: Store, voting: Voting, links: Links) -> None:
        self.store, self.voting, self.links = store, voting, links
        self._turn = threading.Lock()
        size, is_only_first = voting.prompt.size, voting.is_only_first
        self._dealer = Dealer(voting.items, voting.twice, voting.seed, voting.first, size, is_only_first)
        self._own: dict[str, dict[int, Ballot]] = {}
        self._is_unsure = False
        self._read()

    def close(self) -> None:
        """Wait until the current action is stored."""
        with self._turn:
            pass

    @cached_property
    def fitting(self) -> Fitting:
        """The fit of the ranking: people are fitted together, because few votes each do not identify their tastes."""
        return replace(self.voting.task(list(self.links.judges)).fitting, together=True)

    def join(self, name: str) -> str:
        """Add a judge and return the judge's token; a ValueError if the name is invalid or taken."""
        with self._step():
            links = self.links.joined(name)
            self.store.identify(self.voting.identity(list(links.judges)))
            links.write(self.store)
            self.links = links
            return list(links.judges.values())[-1]

    def turn(self, voter: str) -> Turn:
        """The judge's current turn, with the oldest open ballot or a new one."""
        with self._step():
            own = self._own.setdefault(voter, {}).values()
            waiting = [each for each in own if each.is_open]
            ballot = min(waiting, key=lambda each: each.number, default=None)
            if ballot is None:
                ballot = self._deal(voter)
            given = [each.judgement for each in own if each.judgement is not None]
            votes = sum(each.is_vote for each in own)
            skipped = sum(each.is_skip for each in own)
            return Turn(ballot, votes, skipped, max(given, default=None))

    def vote(self, voter: str, number: int, turn: int, choice: str, seconds: float, reason: str = "") -> None:
        """Store a vote; ignore it if the ballot is already answered or is in another turn."""
        with self._step():
            if (ballot := self._open(voter, number, turn)) is not None:
                self._know(questions.answer(self.store, ballot, choice, _clamped(seconds, ballot), reason))

    def skip(self, voter: str, number: int, turn: int, reason: str, seconds: float) -> None:
        """Store that a judge skips a pair, and the reason."""
        with self._step():
            if (ballot := self._open(voter, number, turn)) is not None:
                self._know(questions.skip(self.store, ballot, reason, _clamped(seconds, ballot)))

    def undo(self, voter: str, judgement: int) -> None:
        """Withdraw a judge's own answer; ignore one that is already withdrawn or is another judge's."""
        with self._step():
            for ballot in list(self._own.get(voter, {}).values()):
                if ballot.judgement == judgement:
                    self._know(questions.withdraw(self.store, ballot))

    def ballot(self, voter: str, number: int) -> Ballot | None:
        """The judge's ballot of this number; None if it is not the judge's."""
        with self._turn:
            return self._own.get(voter, {}).get(number)

    def shown(self) -> Sequence[Ballot]:
        """All ballots so far, in the order of their numbers."""
        with self._turn:
            ballots = [each for own in self._own.values() for each in own.values()]
            return sorted(ballots, key=lambda each: each.number)

    @contextmanager
    def _step(self) -> Iterator[None]:
        """Lock for one action. A failed action may be stored nevertheless, so the next one reads the store again."""
        with self._turn:
            if self._is_unsure:
                self._read()
            try:
                yield
            except StoreError:
                self._is_unsure = True
                raise

    def _read(self) -> None:
        for ballot in questions.stored_ballots(self.store):
            if self._own.get(ballot.voter, {}).get(ballot.number) != ballot:
                self._know(ballot)
        self._is_unsure = False

    def _open(self, voter: str, number: int, turn: int) -> Ballot | None:
        ballot = self._own.get(voter, {}).get(number)
        return ballot if ballot is not None and ballot.is_open and ballot.turn == turn else None

    def _know(self, ballot: Ballot | None) -> None:
        if ballot is not None:
            self._own.setdefault(ballot.voter, {})[ballot.number] = ballot
            self._dealer.know(ballot)

    def _deal(self, voter: str) -> Ballot | None:
        dealt = self._dealer.deal(voter, max(1, len(self.links.active)))
        if dealt is None:
            return None
        ballot = questions.show(self.store, voter, *dealt)
        self._know(ballot)
        return ballot


def _clamped(seconds: float, ballot: Ballot) -> float:
    """The seconds that a page measured, from 0 to the time since the ballot was first shown; nan becomes that time."""
    since = max((datetime.now(UTC) - ballot.shown).total_seconds(), 0.0)
    return round(since if math.isnan(seconds) else min(max(seconds, 0.0), since), 1)


@contextmanager
def opened(
    voting: Voting,
    folder: Path,
    links: Links,
    notes: dict[str, Any],
    *,
    fresh: bool = False,
) -> Iterator[Booth]:
    """Open the booth of a new or existing run folder, and store its links.

    `fresh` sets the votes in the folder aside. `notes` are added to run.json.
    """
    names = list(links.judges)
    chosen = {"budget": "votes", "together": True, "twice": voting.twice}
    configuration = {**voting.task(names).configuration, **chosen, **notes}
    if fresh:
        set_aside(folder)
    # A vote is worth more than the time of a flush: each is on the disk before the page moves on.
    store = Store(folder, voting.identity(names), configuration, may_differ=MAY_DIFFER, most_unsynced=1)
    with closing(store):
        store.add_items(voting.items)
        links.write(store)
        with closing(Booth(store, voting, links)) as booth:
            yield booth
