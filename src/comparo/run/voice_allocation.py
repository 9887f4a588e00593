"""Which voice of a panel gets which question: equal calls, or equal money where the budget is in dollars.

All voices are asked the same pairs, one pair after the other, so that every voice gets the same number of calls in each
context. Where the calls are too few to connect a context by every voice, each pair goes to a team of `alike` voices. If
the budget is in dollars and the prices differ, the next question goes to the voice that has cost least in its context:
every voice gets the same money, and a dear one is asked the first of the pairs that a cheap one is asked.

A voice whose questions fail through whole waves, `LOST` or more in all, gets no more; its calls go to the others,
unless that leaves none. Nothing here depends on when answers come.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any, Protocol

from comparo.judges import Judgement

LOST = 3  # failed questions in a row: a dear voice has one in a wave, and 1 in 1,000 such rows fails where 1 in 10 does

Ask = tuple[Any, Any, str]


class Source(Protocol):
    """What chooses pairs: a `Selector`, `SystemPairs` that compare groups, or with several voices a `Chorus`."""

    @property
    def remaining(self) -> int:
        """How many pairs can still be asked."""

    def next(self, batch: int) -> Sequence[tuple[Any, ...]]:
        """The next pairs."""

    def observe(self, data: Any) -> None:
        """Learn from answers (first, second, p, weight)."""


class Allocation:
    """The voices that are asked, and the price of a question to each: 0 for all where every call counts the same.

    >>> Allocation({"ana": 2.0, "bo": 1.0}).prices, Allocation({"ana": 2.0, "bo": 1.0}, in_dollars=True).prices
    ({'ana': 0.0, 'bo': 0.0}, {'ana': 2.0, 'bo': 1.0})
    """

    def __init__(self, costs: Mapping[str, float], in_dollars: bool = False) -> None:
        is_known = all(cost > 0 for cost in costs.values())
        self.prices = dict(costs) if in_dollars and is_known else dict.fromkeys(costs, 0.0)
        self.active = list(costs)
        self._lost = dict.fromkeys(costs, 0)

    def decide(self, wave: Sequence[Judgement]) -> None:
        """Ask no more of a voice that has failed in this wave and the last ones, unless that leaves none."""
        for voice in self.active:
            own = [one.failed for one in wave if one.question.voice == voice]
            self._lost[voice] = self._lost[voice] + len(own) if all(own) else 0
        self.active = [voice for voice in self.active if self._lost[voice] < LOST] or self.active


class Chorus:
    """Chooses pairs of a context by a selector, and the voices of each.

    The context's `number` lets contexts of few questions use different voices first. `given` are earlier questions.
    Each pair goes to `alike` voices; None: to all.

    >>> from comparo.selection.selector import Selector
    >>> allocation = Allocation({"ana": 1.0, "bo": 3.0}, in_dollars=True)
    >>> chorus = Chorus(Selector(["w", "x", "y", "z"], orders="one", seed=0), allocation)
    >>> [voice for *_, voice in chorus.next(6)], chorus.remaining
    (['ana', 'bo', 'ana', 'ana', 'bo', 'ana'], 6)
    """

    def __init__(
        self,
        selector: Source,
        allocation: Allocation,
        number: int = 0,
        given: Sequence[Ask] = (),
        alike: int | None = None,
        is_both: bool = False,
    ) -> None:
        self._selector, self._allocation, self._teams = selector, allocation, number
        voices = allocation.active
        self._alike = alike if alike and not any(allocation.prices.values()) else len(voices)
        self._total = selector.remaining
        self._pairs: list[tuple[Any, Any]] = []
        self._asked: Mapping[str, set[tuple[Any, Any]]] = {voice: set() for voice in voices}
        self._spent = dict.fromkeys(voices, 0.0)
        self._queues: Mapping[str, deque[tuple[int, tuple[Any, Any]]]] = {voice: deque() for voice in voices}
        self._numbers = count()  # of questions, in the order of their choice
        seen: set[tuple[Any, Any]] = set()
        for first, second, voice in given:
            if is_both or (second, first) not in self._asked.get(voice, ()):  # one order of a pair is enough
                self._pairs += [] if (first, second) in seen else [(first, second)]
                seen.add((first, second))
                if voice in self._asked:  # else a judge before it changed
                    self._asked[voice].add((first, second))
                    self._spent[voice] += allocation.prices[voice]

    @property
    def remaining(self) -> int:
        """How many questions can still be asked of the voices that are asked."""
        return sum(self._total - len(self._asked[voice]) + len(self._queues[voice]) for voice in self._active)

    @property
    def _active(self) -> list[str]:
        return self._allocation.active

    def next(self, batch: int) -> list[Ask]:
        """The next questions: the items shown first and second, and the voice."""
        asks: list[Ask] = []
        while len(asks) < batch:
            voices = self._due()
            if not voices and self._choose(batch - len(asks)):
                continue
            voices = voices or [voice for voice in self._active if self._queues[voice]]
            if not voices:
                break
            voice = min(voices, key=lambda voice: self._queues[voice][0][0])
            asks.append((*self._queues[voice].popleft()[1], voice))
            self._spent[voice] += self._allocation.prices[voice]
        return asks

    def observe(self, data: Any) -> None:
        """Let the choice of pairs learn from answers."""
        self._selector.observe(data)

    def _due(self) -> list[str]:
        """The voices with a chosen question that have cost least."""
        least = min(self._spent[voice] for voice in self._active)
        return [voice for voice in self._active if self._queues[voice] and self._spent[voice] <= least]

    def _choose(self, missing: int) -> bool:
        """Choose new pairs, or voices that were not asked the old ones; return whether there were any."""
        alike = min(self._alike, len(self._active))
        new = min(-(-missing // alike), self._selector.remaining)
        pairs = self._selector.next(new) if new else []
        self._pairs += pairs
        asks = [(pair, voice) for pair in pairs for voice in self._team(pair, alike)]
        if not pairs:
            asks = [(pair, voice) for pair in self._pairs for voice in self._active if pair not in self._asked[voice]]
        for pair, voice in asks:
            self._asked[voice].add(pair)
            self._queues[voice].append((next(self._numbers), pair))
        return bool(asks)

    def _team(self, pair: tuple[Any, Any], size: int) -> list[str]:
        """The voices of a new pair: those of its other order, if it was asked, else the next team of this size.

        Team k begins with voice k and goes on in steps of 1, then of 2 and so on: any two voices meet.
        """
        active = self._active
        count = len(active)
        if size == count:
            return active
        if known := [voice for voice in active if pair[::-1] in self._asked[voice]]:
            return known
        turns, begin = divmod(self._teams, count)
        step = 1 + turns % (count - 1)
        self._teams += 1
        places = [begin + by * number for by in (step, 1) for number in range(count)]
        team = dict.fromkeys(active[place % count] for place in places)
        return list(team)[:size]
