"""The pairs of one context that nobody has seen yet, chosen ahead of the judges so that none of them waits.

The choice is that of `selection.Selector`: greedy for the first `BASE` votes per text, then adaptive on the votes of
all judges. Scores from fewer votes are mostly chance, and pairs chosen by them would make the ranking look surer than
it is. A choice takes up to 0.15 s for 1,000 texts, so that another thread makes it while earlier pairs are read.
"""

import threading
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from comparo.selection.defaults import Strategy
from comparo.selection.selector import Selector

BASE = 3  # votes per text; docs/measurements/votes.md has what the ranking is worth after few and many votes
Vote = tuple[Any, Any, float]


class Deck:
    """Pairs of a context, the next ones on top; `votes` are those so far, by the number of their ballot.

    >>> deck = Deck(["ana", "bo", "cy"], [0])
    >>> pairs = [deck.take(lambda pair: False, ahead=1) for _ in range(3)]
    >>> len({frozenset(pair) for pair in pairs}), deck.take(lambda pair: False, ahead=1)
    (3, None)
    """

    def __init__(self, ids: Sequence[Hashable], seed: Sequence[int]) -> None:
        self.ids, self.seed = list(ids), list(seed)
        self.votes: dict[int, Vote] = {}
        self._news: list[Vote] = []
        self._queue: deque[tuple[Any, Any]] = deque()
        self._selector: Selector | None = None
        self._is_exhausted = False
        self._post, self._choice = threading.Lock(), threading.Lock()

    def vote(self, ballot: int, vote: Vote) -> None:
        """Take a vote into account in what is chosen next."""
        with self._post:
            self.votes[ballot] = vote
            self._news.append(vote)

    def withdraw(self, ballot: int) -> None:
        """Forget a vote: what is chosen next starts from the others, since a `Selector` forgets none."""
        with self._post:
            self.votes.pop(ballot, None)
            self._selector = None

    def take(self, is_known: Callable[[tuple[Any, Any]], bool], ahead: int) -> tuple[Any, Any] | None:
        """The next pair that is not known; None where there is none left. `ahead` pairs are chosen at once."""
        while True:
            while self._queue:
                pair = self._queue.popleft()
                if not is_known(pair):
                    return pair
            if not self.fill(ahead):
                return None

    @property
    def is_exhausted(self) -> bool:
        """Whether every pair was taken."""
        return self._is_exhausted and not self._queue

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
                strategy: Strategy = "greedy" if len(self.votes) < BASE * len(self.ids) else "adaptive"
                if selector is None or selector.strategy != strategy:
                    news = list(self.votes.values())
                    rng = np.random.default_rng([*self.seed, len(news)])
                    selector = Selector(self.ids, strategy=strategy, orders="one", rng=rng)
                self._selector, self._news = selector, []
            if news:
                selector.observe(news)
            left = selector.remaining or 0
            chosen = selector.next(min(wanted, left)) if left else []
            self._queue.extend(chosen)
            self._is_exhausted = len(chosen) == left
            return bool(self._queue)
