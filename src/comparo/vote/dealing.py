"""Chooses the next pair or line-up of a judge and its slots.

The next pair is, in this order:

1. A pair that needs another vote: a share `twice` of all pairs goes to two judges, to measure their agreement; a pair
   that was skipped, or opened and left, goes to another judge once.
2. A pair that nobody has seen: first the pairs that are most informative about a machine's ranking, if there is one
   (`selection.sharing.telling_pairs`), then pairs of the context with the fewest pairs for its size (`Deck`).
3. When all pairs have been seen: the pair shown least often that this judge has not seen.

A voting may have some pairs only: then each judge sees those, in their order.

Pairs of 1 and 2 are of the judge's last context until each of its texts could have been shown once. No judge sees a
pair twice. The left text is the one that the judge has seen less often on the left than on the right; in a line-up each
text is where the judge has seen it least often. Line-ups are dealt like pairs, chosen by `LineupSelector`.

`selection.Selector` chooses new pairs: greedy for the first `BASE` votes per text, then adaptive on the votes of all
judges. Scores from fewer votes are mostly noise, and pairs chosen by them would make the ranking look surer than it is.
Several pairs are chosen at once (`AHEAD`): that takes up to 0.15 s for 1,000 texts.

Each pair or line-up that is shown is a ballot (`comparo.log.questions`), stored before it is shown.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import chain, combinations
from typing import Any

import numpy as np
import scipy

from comparo.data.items import Items
from comparo.data.prompts import Question, Rest
from comparo.log.questions import Ballot, DealtPair
from comparo.selection.designs import Strategy
from comparo.selection.lineups import LineupSelector
from comparo.selection.selector import Selector

BASE = 3  # votes per text; docs/measurements/votes.md has what the ranking is worth after few and many votes
LEFT = timedelta(minutes=30)  # age at which an open ballot counts as left: several times the time for two long texts
AHEAD = 2  # pairs of a context that are chosen at once, per judge
TRIES = 20  # most line-ups requested of a selector until one is new
Vote = Any  # a row of `Comparisons.from_rows`


class Deck:
    """Chooses the pairs of a context; `votes` are those so far, by the number of their ballot.

    >>> deck = Deck(["ana", "bo", "cy"], [0])
    >>> pairs = [deck.take(lambda pair: False, ahead=1) for _ in range(3)]
    >>> len({frozenset(pair) for pair in pairs}), deck.take(lambda pair: False, ahead=1)
    (3, None)
    """

    def __init__(self, ids: Sequence[Hashable], seed: Sequence[int], size: int = 2) -> None:
        self.ids, self.seed, self.size = list(ids), list(seed), size
        self.votes: dict[int, Vote] = {}
        self._news: list[Vote] = []
        self._queue: list[tuple[Any, ...]] = []
        self._lineups: set[frozenset[Any]] = set()  # chosen so far
        self._selector: Selector | LineupSelector | None = None

    def vote(self, ballot: int, vote: Vote) -> None:
        """Add a vote, for the next choice of pairs."""
        self.votes[ballot] = vote
        self._news.append(vote)

    def withdraw(self, ballot: int) -> None:
        """Remove a vote; the next choice makes a new `Selector` from the others, since it cannot forget a vote."""
        self.votes.pop(ballot, None)
        self._selector = None

    def take(
        self, is_known: Callable[[tuple[Any, ...]], bool], ahead: int, seen: Callable[[Any], int] = lambda _: 0
    ) -> tuple[Any, ...] | None:
        """The next pair that is not known; None if none is left. `ahead` pairs are chosen at once.

        Of the chosen pairs it is the one whose texts were `seen` least often.
        """
        while not self._queue or all(map(is_known, self._queue)):
            self._queue = self._chosen(ahead)
            if not self._queue:
                return None
        self._queue = [pair for pair in self._queue if not is_known(pair)]
        pair = min(self._queue, key=lambda pair: sum(map(seen, pair)))
        self._queue.remove(pair)
        return pair

    def _chosen(self, number: int) -> list[tuple[Any, ...]]:
        news, self._news = self._news, []
        strategy: Strategy = "adaptive"
        if self.size > 2 or len(self.votes) < BASE * len(self.ids):
            strategy = "greedy"
        if self._selector is None or self._selector.strategy != strategy:
            news = list(self.votes.values())
            rng = np.random.default_rng([*self.seed, len(news)])
            if self.size > 2:
                self._selector = LineupSelector(self.ids, self.size, strategy=strategy, seed=rng)
            else:
                self._selector = Selector(self.ids, strategy=strategy, orders="one", seed=rng)
        if news:
            self._selector.observe(news)
        if isinstance(self._selector, LineupSelector):
            return [found for _ in range(number) if (found := self._unlike(self._selector))]
        left = self._selector.remaining
        return list(self._selector.next(min(number, left))) if left else []

    def _unlike(self, selector: LineupSelector) -> tuple[Any, ...] | None:
        """A line-up that was not chosen before: the selector's or, if it repeats itself, another; None without one."""
        tries = (Question(*selector.next(1)[0]).items for _ in range(min(TRIES, selector.remaining)))
        every = chain(tries, combinations(self.ids, self.size))
        found = next((items for items in every if frozenset(items) not in self._lineups), None)
        self._lineups |= {frozenset(found or ())}
        return found


class Dealer:
    """Deals pairs to judges; `know` is called with every ballot that is shown, answered or opened again.

    >>> dealer = Dealer(Items.of({"ana": "A story.", "bo": "Another.", "cy": "A third."}), twice=0.0)
    >>> context, first, second = dealer.deal("me", 1)
    >>> dealer.know(Ballot(1, "me", context, first, second, datetime.now(UTC)))
    >>> {first, second} == set(dealer.deal("me", 1)[1:])
    False
    """

    def __init__(
        self,
        items: Items,
        twice: float,
        seed: int = 0,
        first: Sequence[Any] = (),
        size: int = 2,
        is_only_first: bool = False,
    ) -> None:
        self.items, self.twice, self.size = items, twice, size
        self._first: list[DealtPair] = [(context, frozenset(pair)) for context, *pair in first]
        self._only = list(self._first) if is_only_first else None
        self.decks = {name: Deck(ids, [seed, code], size) for code, (name, ids) in enumerate(items.names.items())}
        self.looks: dict[DealtPair, dict[int, Ballot]] = {}  # by the number of the ballot
        self.seen: dict[str, set[DealtPair]] = {}
        self._numbers: dict[DealtPair, int] = {}  # in the order in which pairs were first shown
        self._wanting: dict[DealtPair, None] = {}  # pairs with fewer votes than `_wanted`, the oldest first
        self._begun: Counter[Any] = Counter()  # context → number of pairs shown
        self._stay: dict[str, tuple[Any, int]] = {}  # judge → last context, and how often it was shown in a row
        self._slots: Counter[tuple[Any, ...]] = Counter()  # (judge or None for all, context, slot, text) → times shown

    def know(self, ballot: Ballot) -> None:
        """Update the state with a ballot that is new or changed."""
        looks = self.looks.setdefault(ballot.pair, {})
        before = looks.get(ballot.number)
        if before is None:
            self._show(ballot, is_first=not looks)
        looks[ballot.number] = ballot
        deck = self.decks[ballot.context]
        if ballot.p is not None:
            lineup = {"items": ballot.items, "order": ballot.order}
            deck.vote(ballot.number, lineup if ballot.order else (ballot.first, ballot.second, ballot.p))
        elif before is not None and before.p is not None:
            deck.withdraw(ballot.number)
        if sum(look.is_vote for look in looks.values()) < self._wanted(ballot.pair):
            self._wanting.setdefault(ballot.pair)
        else:
            self._wanting.pop(ballot.pair, None)

    def _show(self, ballot: Ballot, is_first: bool) -> None:
        pair, voter, context = ballot.pair, ballot.voter, ballot.context
        self.seen.setdefault(voter, set()).add(pair)
        if is_first:
            self._begun[context] += 1
            self._numbers[pair] = len(self._numbers)
        last, row = self._stay.get(voter, (None, 0))
        self._stay[voter] = context, row + 1 if last == context else 1
        for place in enumerate(ballot.items):
            for whose in (voter, None):
                self._slots[whose, context, *place] += 1

    def deal(self, voter: str, voters: int) -> tuple[Any, Any, Any] | None:
        """The context, first and second item that a judge sees next; None without further pairs.

        In a line-up, all items but the first are a `Rest`. `voters` is the number of judges for whom pairs are chosen
        ahead.
        """
        last, row = self._stay.get(voter, (None, 0))
        here = [last] if 0 < row < len(self.decks[last].ids) // self.size else []
        if self._only is None:
            pair = (
                self._another_look(voter, here or self.decks)
                or self._new(voter, voters, here)
                or self._another_look(voter, self.decks)
                or self._any(voter)
            )
        else:
            seen = self.seen.get(voter, ())
            pair = next((pair for pair in self._only if pair not in seen), None)
        if pair is None:
            return None
        context, items = pair
        in_order = sorted(items, key=lambda item: self.items.row(context, item))
        first, *rest = self._placed(voter, context, in_order)
        return context, first, rest[0] if self.size == 2 else Rest(rest)

    def _wanted(self, pair: DealtPair) -> int:
        """The number of votes that a pair should have: 2 for a share `twice` of pairs, evenly spread, else 1."""
        number = self._numbers[pair]
        return 1 + math.floor((number + 1) * self.twice) - math.floor(number * self.twice)

    def _another_look(self, voter: str, contexts: Collection[Any]) -> DealtPair | None:
        """The oldest pair with too few votes, counting recent open ballots as votes, that this judge has not seen."""
        seen, late = self.seen.get(voter, set()), datetime.now(UTC) - LEFT
        for pair in self._wanting:
            if pair not in seen and pair[0] in contexts:
                looks, wanted = self.looks[pair].values(), self._wanted(pair)
                coming = sum(look.is_vote or (look.is_open and look.shown > late) for look in looks)
                if coming < wanted and len(looks) <= wanted:
                    return pair
        return None

    def _new(self, voter: str, voters: int, here: Sequence[Any]) -> DealtPair | None:
        """A pair that nobody has seen: of `first`, else of the contexts `here`, else of the least shown context."""
        self._first = [pair for pair in self._first if pair not in self.looks]
        if self._first:
            return self._first[0]
        others = sorted(self.decks, key=lambda name: self._begun[name] / len(self.decks[name].ids))
        for context in (*here, *others):
            found = self.decks[context].take(
                partial(self._is_known, context), AHEAD * voters, partial(self._seen, voter, context)
            )
            if found is not None:
                return context, frozenset(found)
        return None

    def _seen(self, voter: str, context: Any, item: Any) -> int:
        return sum(self._slots[voter, context, slot, item] for slot in range(self.size))

    def _is_known(self, context: Any, items: tuple[Any, ...]) -> bool:
        return (context, frozenset(items)) in self.looks

    def _any(self, voter: str) -> DealtPair | None:
        seen = self.seen.get(voter, set())
        unseen = (pair for pair in self.looks if pair not in seen)
        return min(unseen, key=lambda pair: len(self.looks[pair]), default=None)

    def _placed(self, voter: str, context: Any, items: list[Any]) -> list[Any]:
        """The items in slot order, balanced for this judge; ties are broken by all judges' balance, then by turns."""
        turn = (len(self._numbers) + 1) % self.size
        items = items[turn:] + items[:turn]
        times = np.empty((self.size, len(items)))
        for slot, place in np.ndindex(times.shape):
            key = context, slot, items[place]
            times[slot, place] = self._slots[voter, *key] + 1e-6 * self._slots[None, *key]
        _, places = scipy.optimize.linear_sum_assignment(times)
        return [items[place] for place in places]
