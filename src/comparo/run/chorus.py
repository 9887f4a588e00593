"""The pairs of one context and who is asked about each, where a run has several voices.

At first every voice is asked the same pairs, so that it is known how far they agree. Where the calls are too few to
connect a context by every voice, each pair goes to `alike` of them, a different team for each pair, so that all voices
together connect it. Once the shares of the voices are decided (`allocation`), each new pair goes to one voice, in both
orders if both are asked. When all pairs are used up,
a voice is asked those that only others were asked. The choice of pairs learns from all answers alike.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from comparo.run.rounds import Source

GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0  # k·golden mod 1 is spread evenly over (0, 1) for every number of k

Ask = tuple[Any, Any, str]


class Shares(dict[str, float]):
    """The part of the next questions that each voice gets; `decided` is False while all are asked the same pairs."""

    decided = False

    def choose(self, point: float) -> str:
        """The voice at a point in (0, 1) of the shares one after the other.

        >>> shares = Shares(ana=0.75, bo=0.0, cy=0.25)
        >>> [shares.choose(point) for point in (0.1, 0.7, 0.8)]
        ['ana', 'ana', 'cy']
        """
        active = [voice for voice, share in self.items() if share > 0]
        left = point * sum(self.values())
        for voice in active[:-1]:
            left -= self[voice]
            if left < 0:
                return voice
        return active[-1]


class PairSource(Source, Protocol):
    """What chooses pairs for all voices alike, asked in one order or in both (`calls` for each pair)."""

    calls: int


class Chorus:
    """Chooses pairs of a context by a selector, and the voice of each by the shares as they are at that time.

    The context's `number` lets contexts of few questions use different voices first. What was asked before is `given`.
    Before the shares are decided, each pair goes to `alike` voices; None: to all.

    >>> from comparo.selection.selector import Selector
    >>> shares = Shares(ana=0.5, bo=0.5)
    >>> chorus = Chorus(Selector(["x", "y", "z"], orders="one", rng=0), shares)
    >>> first = chorus.next(4)
    >>> len({(first, second) for first, second, _ in first}), chorus.remaining
    (2, 2)
    >>> shares.decided, shares["bo"] = True, 0.0
    >>> [voice for *_, voice in chorus.next(1)], chorus.remaining
    (['ana'], 0)
    """

    def __init__(
        self,
        selector: PairSource,
        shares: Shares,
        number: int = 0,
        given: Sequence[Ask] = (),
        alike: int | None = None,
    ) -> None:
        self._selector, self._shares, self._alike = selector, shares, alike or len(shares)
        self._total = selector.remaining or 0
        self._pairs: list[tuple[Any, Any]] = []
        self._asked: Mapping[str, set[tuple[Any, Any]]] = {voice: set() for voice in shares}
        self._queue: list[Ask] = []
        self._steps = self._teams = number
        seen: set[tuple[Any, Any]] = set()
        for first, second, voice in given:
            if selector.calls == 2 or (second, first) not in self._asked[voice]:  # one order of a pair is enough
                self._pairs += [] if (first, second) in seen else [(first, second)]
                seen.add((first, second))
                self._ask((first, second), voice)

    @property
    def remaining(self) -> int:
        """How many questions can still be asked of voices that have a share."""
        return len(self._queue) + sum(self._total - len(self._asked[voice]) for voice in self._active)

    @property
    def _active(self) -> list[str]:
        return [voice for voice, share in self._shares.items() if share > 0]

    def next(self, batch: int) -> list[Ask]:
        """The next questions: the items shown first and second, and the voice."""
        while len(self._queue) < batch:
            missing = batch - len(self._queue)
            alike = 1 if self._shares.decided else min(self._alike, len(self._active))
            new = min(-(-missing // alike), self._new)
            pairs = self._selector.next(new) if new else []
            self._pairs += pairs
            if not pairs:
                self._queue += self._again(missing)
            elif self._shares.decided:
                self._queue += self._divided(pairs)
            else:
                self._queue += [self._ask(pair, voice) for pair in pairs for voice in self._team(pair, alike)]
        asks, self._queue = self._queue[:batch], self._queue[batch:]
        return asks

    def observe(self, data: Any) -> None:
        """Let the choice of pairs learn from answers."""
        self._selector.observe(data)

    @property
    def _new(self) -> int:
        return self._selector.remaining or 0

    def _ask(self, pair: tuple[Any, Any], voice: str) -> Ask:
        self._asked[voice].add(pair)
        return *pair, voice

    def _divided(self, pairs: Sequence[tuple[Any, Any]]) -> list[Ask]:
        """Each new pair for one voice: that of its other order, if it was asked, else the next by the shares."""
        asks = []
        for first, second in pairs:
            known = [voice for voice in self._active if (second, first) in self._asked[voice]]
            asks.append(self._ask((first, second), known[0] if known else self._turn()))
        return sorted(asks, key=lambda ask: list(self._shares).index(ask[2]))

    def _team(self, pair: tuple[Any, Any], size: int) -> list[str]:
        """The voices of a new pair: those of its other order, if it was asked, else the next team of this size.

        Team k begins with voice k and goes on in steps of 1, then of 2 and so on, so that any two voices meet.
        """
        active = self._active
        if size == len(active):
            return active
        if known := [voice for voice in active if pair[::-1] in self._asked[voice]]:
            return known
        begin, step = self._teams % len(active), 1 + self._teams // len(active) % (len(active) - 1)
        self._teams += 1
        places = [begin + by * number for by in (step, 1) for number in range(len(active))]
        return [active[place] for place in list(dict.fromkeys(place % len(active) for place in places))[:size]]

    def _again(self, wanted: int) -> list[Ask]:
        """Pairs that were asked before, for voices that were not asked them."""
        asks = []
        for _ in range(wanted):
            voice = self._turn()
            if len(self._asked[voice]) == self._total:
                voice = next(voice for voice in self._active if len(self._asked[voice]) < self._total)
            asks.append(self._ask(next(pair for pair in self._pairs if pair not in self._asked[voice]), voice))
        return asks

    def _turn(self) -> str:
        self._steps += 1
        return self._shares.choose(self._steps * GOLDEN % 1.0)
