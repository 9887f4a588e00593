"""The booth: what judges do, one at a time, each step stored before it is answered.

All methods may be called from any thread. What is in memory is what was read from the run folder or stored in it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from comparo.data.items import Items
from comparo.data.prompts import Prompt
from comparo.errors import StoreError
from comparo.run.fit_policy import Fitting
from comparo.run.store import Store
from comparo.run.task import Task
from comparo.vote import ballots
from comparo.vote.ballots import Ballot
from comparo.vote.dealing import Dealer
from comparo.vote.people import Links, fitting_of, identity_of, task_of

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Turn:
    """What a judge's page shows: the open ballot, None where there are no more pairs, and what the judge has done.

    `last` is the number of the judge's last answer, which may be taken back.
    """

    ballot: Ballot | None
    votes: int
    skipped: int
    last: int | None


class Booth:
    """The judges and the ballots of a run whose store is open.

    Parameters
    ----------
    store : The run folder, with its items.
    items, prompt, until, seed : The task of the run (`people.task_of`).
    links : The judges so far.
    twice : The share of pairs that go to two judges.
    """

    def __init__(
        self,
        store: Store,
        items: Items,
        prompt: Prompt,
        links: Links,
        *,
        twice: float = 0.0,
        until: float | None = None,
        seed: int = 0,
        first: Sequence[tuple[Any, Any, Any]] = (),
    ) -> None:
        self.store, self.items, self.prompt, self.links = store, items, prompt, links
        self.until, self.seed = until, seed
        self._turn = threading.Lock()
        self._dealer = Dealer(items, twice, seed, first)
        self._own: dict[str, dict[int, Ballot]] = {}
        self._helper = ThreadPoolExecutor(max_workers=1, thread_name_prefix="chooser")
        self._choosing: set[Any] = set()
        self._is_unsure = False
        self._read()

    def close(self) -> None:
        """Wait for what is being stored, and for the choice of pairs."""
        with self._turn:
            self._helper.shutdown(cancel_futures=True)

    @property
    def task(self) -> Task:
        """The task of the run with the judges so far."""
        return task_of(self.items, self.prompt, list(self.links.judges), self.until, self.seed)

    @cached_property
    def fitting(self) -> Fitting:
        """How the votes become a ranking; what it finds out about the texts is kept."""
        return fitting_of(self.task)

    def join(self, name: str) -> str:
        """Add a judge, and return the token; a ValueError where the name cannot be taken."""
        with self._step():
            links = self.links.joined(name)
            task = task_of(self.items, self.prompt, list(links.judges), self.until, self.seed)
            self.store.identify(identity_of(task))
            links.write(self.store)
            self.links = links
            return list(links.judges.values())[-1]

    def turn(self, voter: str) -> Turn:
        """What the judge sees now: the oldest open ballot, or a new one."""
        with self._step():
            own = self._own.setdefault(voter, {})
            ballot = min((each for each in own.values() if each.is_open), key=lambda each: each.number, default=None)
            if ballot is None:
                ballot = self._deal(voter)
            return self._as_turn(voter, ballot)

    def vote(self, voter: str, number: int, turn: int, choice: str, seconds: float) -> None:
        """Store a vote; one on a ballot that was answered before, or in an earlier turn, changes nothing."""
        with self._step():
            if (ballot := self._open(voter, number, turn)) is not None:
                self._know(ballots.answer(self.store, ballot, choice, _clamped(seconds, ballot)))

    def skip(self, voter: str, number: int, turn: int, reason: str, seconds: float) -> None:
        """Store that a judge does not judge a pair, and why."""
        with self._step():
            if (ballot := self._open(voter, number, turn)) is not None:
                self._know(ballots.skip(self.store, ballot, reason, _clamped(seconds, ballot)))

    def undo(self, voter: str, judgement: int) -> None:
        """Take back a judge's own answer; one that was taken back before, or is another judge's, stays as it is."""
        with self._step():
            for ballot in self._own.get(voter, {}).values():
                if ballot.judgement == judgement:
                    self._know(ballots.withdraw(self.store, ballot))
                    return

    def ballot(self, voter: str, number: int) -> Ballot | None:
        """A judge's own ballot by its number."""
        with self._turn:
            return self._own.get(voter, {}).get(number)

    def shown(self) -> Sequence[Ballot]:
        """All ballots so far, in the order of their numbers."""
        with self._turn:
            return sorted((each for own in self._own.values() for each in own.values()), key=lambda each: each.number)

    @contextmanager
    def _step(self) -> Iterator[None]:
        """One step of one judge. A step that failed may be stored nevertheless: the next one looks what is."""
        with self._turn:
            if self._is_unsure:
                self._read()
            try:
                yield
            except StoreError:
                self._is_unsure = True
                raise

    def _read(self) -> None:
        for ballot in ballots.stored_ballots(self.store):
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

    def _as_turn(self, voter: str, ballot: Ballot | None) -> Turn:
        own = self._own[voter].values()
        last = max((each.judgement for each in own if each.judgement is not None), default=None)
        return Turn(ballot, sum(each.is_vote for each in own), sum(each.is_skip for each in own), last)

    def _deal(self, voter: str) -> Ballot | None:
        voters = max(1, len(self.links.judges))
        dealt = self._dealer.deal(voter, voters)
        if dealt is None:
            return None
        ballot = ballots.show(self.store, voter, *dealt)
        self._know(ballot)
        self._choose_ahead(ballot.context, self._dealer.ahead(voters))
        return ballot

    def _choose_ahead(self, context: Any, ahead: int) -> None:
        """Let another thread choose the next pairs of a context, so that the next judge need not wait for them."""
        deck = self._dealer.decks[context]
        if not deck.is_low(ahead) or context in self._choosing:
            return

        def choose() -> None:
            try:
                deck.fill(ahead)
            except Exception:  # the judge who needs the pairs would meet it again, and be told
                logger.exception("pairs could not be chosen ahead")
            finally:
                self._choosing.discard(context)

        self._choosing.add(context)
        self._helper.submit(choose)


def _clamped(seconds: float, ballot: Ballot) -> float:
    """The time that a page measured, at most the time since the ballot was first shown."""
    since = (datetime.now(UTC) - ballot.shown).total_seconds()
    return round(min(max(seconds, 0.0), max(since, 0.0)), 1) if seconds == seconds else round(max(since, 0.0), 1)
