"""Which pair or line-up a judge sees next, and which text of it is in which slot.

1. A pair that needs another vote: a share `twice` of all pairs goes to two judges, to measure their agreement; one that
   was skipped goes to another judge once; and so does one that somebody opened and left.
2. Otherwise a pair that nobody has seen: first the most informative ones about a machine's ranking, where there is one
   (`selection.vote_priority`), then of the context with the fewest pairs for its size (`Deck`).
3. When all pairs have been seen: the pair with the fewest looks that this judge has not seen.

A voting may be about some pairs only: then each judge sees those, in their order.

The first two are of the judge's last context until each of its texts could have been shown once. No judge sees a pair
twice. The text that the judge has seen less often on the left than on the right is on the left; in a line-up each text
is where the judge has seen it least often. Line-ups are dealt as pairs are, chosen by `LineupSelector`.

New pairs are chosen by `selection.Selector`: greedy for the first `BASE` votes per text, then adaptive on the votes of
all judges. Scores from fewer votes are mostly chance, and pairs chosen by them would make the ranking look surer than
it is. A choice takes up to 0.15 s for 1,000 texts, so it is made while earlier pairs are read (`Booth.choose_ahead`).
"""

import math
import threading
from collections import Counter, deque
from collections.abc import Callable, Collection, Hashable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import chain, combinations
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from comparo.data.items import Items
from comparo.data.prompts import Question, Rest
from comparo.selection.designs import Strategy
from comparo.selection.lineups import LineupSelector
from comparo.selection.selector import Selector
from comparo.vote.ballots import Ballot, Pair

BASE = 3  # votes per text; docs/measurements/votes.md has what the ranking is worth after few and many votes
LEFT = timedelta(minutes=30)  # after which an open ballot counts as left: several times what two long texts take
AHEAD = 2  # pairs of a context per judge that are chosen ahead: the next one, and the one after
TRIES = 20  # of a selector, for a line-up that was not chosen before
Vote = Any  # a row of `Comparisons.from_rows`


class Deck:
    """Pairs of a context, the next ones on top; `votes` are those so far, by the number of their ballot.

    >>> deck = Deck(["ana", "bo", "cy"], [0])
    >>> pairs = [deck.take(lambda pair: False, ahead=1) for _ in range(3)]
    >>> len({frozenset(pair) for pair in pairs}), deck.take(lambda pair: False, ahead=1)
    (3, None)
    """

    def __init__(self, ids: Sequence[Hashable], seed: Sequence[int], size: int = 2) -> None:
        self.ids, self.seed, self.size = list(ids), list(seed), size
        self.votes: dict[int, Vote] = {}
        self._news: list[Vote] = []
        self._queue: deque[tuple[Any, ...]] = deque()
        self._lineups: set[frozenset[Any]] = set()  # chosen so far
        self._selector: Selector | LineupSelector | None = None
        self._is_exhausted = False
        self._post, self._choice = threading.Lock(), threading.Lock()

    def vote(self, ballot: int, vote: Vote) -> None:
        """Take a vote into account in what is chosen next."""
        with self._post:
            self.votes[ballot] = vote
            self._news.append(vote)

    def withdraw(self, ballot: int) -> None:
        """Forget a vote: the next choice starts from the others, since a `Selector` forgets none."""
        with self._post:
            self.votes.pop(ballot, None)
            self._selector = None

    def take(
        self, is_known: Callable[[tuple[Any, ...]], bool], ahead: int, seen: Callable[[Any], int] = lambda _: 0
    ) -> tuple[Any, ...] | None:
        """The next pair that is not known; None where there is none left. `ahead` pairs are chosen at once.

        Of these it is the one whose texts were `seen` least often.
        """
        while True:
            with self._post:
                self._queue = deque(pair for pair in self._queue if not is_known(pair))
                if self._queue:
                    pair = min(self._queue, key=lambda pair: sum(map(seen, pair)))
                    self._queue.remove(pair)
                    return pair
            if not self.fill(ahead):
                return None

    def is_low(self, ahead: int) -> bool:
        """Whether less than half of the pairs ahead are left."""
        return 2 * len(self._queue) < ahead and not self._is_exhausted

    def fill(self, ahead: int) -> bool:
        """Choose pairs until there are `ahead` of them; whether there is one."""
        with self._choice:
            wanted = ahead - len(self._queue)
            if wanted <= 0:
                return True
            with self._post:
                selector, news = self._selector, self._news
                strategy: Strategy = "greedy" if self.size > 2 or len(self.votes) < BASE * len(self.ids) else "adaptive"
                if selector is None or selector.strategy != strategy:
                    news = list(self.votes.values())
                    rng = np.random.default_rng([*self.seed, len(news)])
                    if self.size > 2:
                        selector = LineupSelector(self.ids, self.size, strategy=strategy, seed=rng)
                    else:
                        selector = Selector(self.ids, strategy=strategy, orders="one", seed=rng)
                self._selector, self._news = selector, []
            if news:
                selector.observe(news)
            left = selector.remaining or 0
            if isinstance(selector, LineupSelector):
                chosen = [found for _ in range(wanted) if (found := self._unlike(selector))]
            else:
                chosen = selector.next(min(wanted, left)) if left else []
            with self._post:
                self._queue.extend(chosen)
            self._is_exhausted = len(chosen) in (left, *range(wanted))
            return bool(self._queue)

    def _unlike(self, selector: LineupSelector) -> tuple[Any, ...] | None:
        """A line-up that was not chosen before; where the selector repeats itself, any other; None without one."""
        tries = (Question(*selector.next(1)[0]).items for _ in range(min(TRIES, selector.remaining)))
        every = chain(tries, combinations(self.ids, self.size))
        found = next((items for items in every if frozenset(items) not in self._lineups), None)
        self._lineups |= {frozenset(found or ())}
        return found


class Dealer:
    """Deals pairs to judges; `know` takes every ballot, as it is shown, answered or opened again.

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
        self._first: list[Pair] = [(context, frozenset(pair)) for context, *pair in first]
        self._only = list(self._first) if is_only_first else None
        self.decks = {name: Deck(ids, [seed, code], size) for code, (name, ids) in enumerate(items.names.items())}
        self.looks: dict[Pair, dict[int, Ballot]] = {}  # by the number of the ballot
        self.seen: dict[str, set[Pair]] = {}
        self._numbers: dict[Pair, int] = {}  # in the order in which pairs were first shown
        self._wanting: dict[Pair, None] = {}  # pairs with fewer votes than they should have, the oldest first
        self._begun: Counter[Any] = Counter()  # pairs of each context
        self._stay: dict[str, tuple[Any, int]] = {}  # the context that a judge saw last, and how often in a row
        self._slots: Counter[tuple[Any, ...]] = Counter()  # how often each text was in each slot

    def know(self, ballot: Ballot) -> None:
        """Take a ballot into account, new or changed."""
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
        """The context, first and second item that a judge sees next; None where there are no more.

        Of a line-up, all but the first are a `Rest`. `voters` is how many judges there are, for whom pairs are chosen
        ahead.
        """
        last, row = self._stay.get(voter, (None, 0))
        here = [last] if 0 < row < len(self.decks[last].ids) // self.size else []
        pair = (
            self._another_look(voter, here or self.decks)
            or self._new(voter, voters, here)
            or self._another_look(voter, self.decks)
            or self._any(voter)
            if self._only is None
            else next((pair for pair in self._only if pair not in self.seen.get(voter, ())), None)
        )
        if pair is None:
            return None
        context, items = pair
        first, *rest = self._placed(voter, context, sorted(items, key=lambda item: self.items.row(context, item)))
        return context, first, rest[0] if self.size == 2 else Rest(rest)

    def _wanted(self, pair: Pair) -> int:
        """How many votes a pair should have: two for a share `twice` of pairs, spread evenly, else one."""
        number = self._numbers[pair]
        return 1 + math.floor((number + 1) * self.twice) - math.floor(number * self.twice)

    def _another_look(self, voter: str, contexts: Collection[Any]) -> Pair | None:
        """The oldest pair that wants a vote which nobody is about to give, and that this judge has not seen."""
        seen, late = self.seen.get(voter, set()), datetime.now(UTC) - LEFT
        for pair in self._wanting:
            if pair not in seen and pair[0] in contexts:
                looks, wanted = self.looks[pair].values(), self._wanted(pair)
                coming = sum(look.is_vote or (look.is_open and look.shown > late) for look in looks)
                if coming < wanted and len(looks) <= wanted:
                    return pair
        return None

    def _new(self, voter: str, voters: int, here: Sequence[Any]) -> Pair | None:
        """A pair that nobody has seen: one of the first, else of the contexts `here` if they have one."""
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

    def _any(self, voter: str) -> Pair | None:
        seen = self.seen.get(voter, set())
        return min(
            (pair for pair in self.looks if pair not in seen), key=lambda pair: len(self.looks[pair]), default=None
        )

    def _placed(self, voter: str, context: Any, items: list[Any]) -> list[Any]:
        """The items in slot order: balanced for this judge, then for all, then by turns."""
        turn = (len(self._numbers) + 1) % self.size
        items = items[turn:] + items[:turn]
        own, total = (
            np.array([[self._slots[whose, context, slot, item] for item in items] for slot in range(self.size)])
            for whose in (voter, None)
        )
        return [items[place] for place in linear_sum_assignment(own + 1e-6 * total)[1]]
