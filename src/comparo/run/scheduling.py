"""The questions of one context, in rounds.

Round r + 2 is chosen when round r is answered, from the answers to rounds 1…r and nothing else, while round r + 1 is
being judged. So no call waits for a choice, and which questions are asked does not depend on who answered first or on
how often the run was stopped: the same answers lead to the same questions.

The pairs of one context and who is asked about each, where a run has several voices.

At first every voice is asked the same pairs, so that it is known how far they agree. Where the calls are too few to
connect a context by every voice, each pair goes to `alike` of them, a different team for each pair, so that all voices
together connect it. Once the shares of the voices are decided (`allocation`), each new pair goes to one voice, in both
orders if both are asked. When all pairs are used up,
a voice is asked those that only others were asked. The choice of pairs learns from all answers alike.

What chooses the pairs of a context: for its items, for groups over all contexts, or for items that are new to it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from math import inf
from typing import Any, Protocol

import numpy as np

from comparo.judges import Judgement
from comparo.run.task import Task
from comparo.selection.designs import Orders
from comparo.selection.growing import MOST, Placing
from comparo.selection.selector import Selector
from comparo.selection.systems import Systems
from comparo.types import Array

Pair = tuple[Any, ...]  # the items shown first and second, and the voice where there are several


class Source(Protocol):
    """What chooses pairs: a `Selector`, `Pairs` that compare groups, or a `Chorus` where there are several voices."""

    @property
    def remaining(self) -> int | None:
        """How many can still be asked."""

    def next(self, batch: int) -> Sequence[Pair]:
        """The next pairs."""

    def observe(self, data: Any) -> None:
        """Learn from answers (first, second, p, weight)."""


class Rounds:
    """Hands out the pairs of a context in rounds, up to `calls` pairs.

    `offer` gives pairs to ask; `answer` takes what came back, and a failed judgement teaches nothing. Rounds that wait
    (`waits`) are held up: round r + 2 is chosen only after `go_on(r)`. After `stop`, the round that was handed out last
    is the last. Where failures are `returned`, a failed call is one more that may be made, from the next choice on.

    With several voices the selector is a `Chorus`, and a pair is (first, second, voice). Answers that are `given` count
    among the calls, and the first round is chosen from them.

    >>> from comparo.data.prompts import Question
    >>> from comparo.selection.selector import Selector
    >>> rounds = Rounds(Selector(["ana", "bo", "cy"], orders="one", seed=0), calls=3, size=1)
    >>> first = rounds.offer()
    >>> len(first), rounds.done
    (2, False)
    >>> for pair in first:
    ...     rounds.answer(pair, Judgement(Question(*pair), p=0.7))
    >>> len(rounds.offer()), rounds.offer()
    (1, [])
    """

    def __init__(
        self,
        selector: Source,
        calls: int,
        size: int,
        waits: bool = False,
        returned: bool = False,
        given: Sequence[Judgement] = (),
    ) -> None:
        self.selector = selector
        self.left = max(0, calls - len(given))
        self.given = list(given)
        self.returned, self.is_sure = returned, False
        self.size = size
        self._rounds: list[dict[Pair, Judgement | None]] = []
        self._open: dict[Pair, int] = {}
        self._missing: list[int] = []
        self._learnt = 0
        self._allowed: float = 0 if waits else inf
        self._observe(self.given)

    @property
    def done(self) -> bool:
        """Whether every pair is answered and none is left to ask."""
        return not self.left and not self._open

    def offer(self) -> list[Pair]:
        """The pairs to ask now: two rounds at first, later one for each round that was answered."""
        pairs: list[Pair] = []
        while self.left and len(self._rounds) < min(self._learnt, self._allowed) + 2:
            # A whole round is chosen even for fewer calls, so that a larger budget leads to the same questions.
            free = min(self.size, self.selector.remaining or 0)
            if not free:
                self.stop()
                break
            chosen: list[Pair] = [*self.selector.next(free)][: self.left]
            self.left -= len(chosen)
            self._open |= dict.fromkeys(chosen, len(self._rounds))
            self._rounds.append(dict.fromkeys(chosen))
            self._missing.append(len(chosen))
            pairs += chosen
            self._learn()
        return pairs

    def answer(self, pair: Pair, judgement: Judgement) -> None:
        number = self._open.pop(pair)
        self._rounds[number][pair] = judgement
        self._missing[number] -= 1
        self._learn()

    def answers(self, rounds: int) -> list[Judgement]:
        """The answers that were given and those to the first so many rounds, without failed ones."""
        return self.given + [answer for answer in self.judgements(slice(rounds)) if not answer.failed]

    def judgements(self, rounds: slice) -> list[Judgement]:
        """What came back in these rounds, failed ones too."""
        return [answer for answers in self._rounds[rounds] for answer in answers.values() if answer is not None]

    def has_answered(self, rounds: int) -> bool:
        """Whether the first so many rounds are answered, or all rounds if there are fewer."""
        return not any(self._missing[:rounds]) and (len(self._rounds) >= rounds or not self.left)

    def go_on(self, rounds: int) -> None:
        """Allow the choice of rounds up to the second after so many."""
        self._allowed = rounds

    def stop(self, is_sure: bool = False) -> None:
        """Choose no further round; `is_sure` where the target is reached."""
        self.left, self.returned, self.is_sure = 0, False, is_sure
        self._learn()

    def _learn(self) -> None:
        """Let the selector observe the rounds that are answered; round r only when round r + 1 has been chosen."""
        while self._learnt < len(self._rounds) and not self._missing[self._learnt]:
            if self.left and len(self._rounds) < self._learnt + 2:
                return
            given = self.judgements(slice(self._learnt, self._learnt + 1))
            answers = [one for one in given if not one.failed]
            self.left += (len(given) - len(answers)) * self.returned
            self._learnt += 1
            self._observe(answers)

    def _observe(self, answers: Sequence[Judgement]) -> None:
        if answers:
            self.selector.observe([(one.question.first, one.question.second, one.p, one.weight) for one in answers])


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
    >>> chorus = Chorus(Selector(["x", "y", "z"], orders="one", seed=0), shares)
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


def pair_source(
    task: Task,
    context: Any,
    ids: list[Any],
    orders: Orders,
    rng: np.random.Generator,
    contrast: Array | None,
    systems: Systems | None,
    is_begun: bool,
) -> tuple[PairSource, int]:
    """What chooses the pairs of a context, and of how many items they are: in a run that grows, of the new ones.

    New items are placed in the ranking of the others (`Placing`) where some answers are there (`is_begun`), unless
    pairs are random or there are more than `MOST` new items.
    """
    if systems is not None:
        return systems.of_context(context, orders, rng, contrast), len(ids)
    strategy = task.strategy or "greedy"
    options: dict[str, Any] = {"strategy": strategy, "orders": orders, "goal": task.goal, "contrast": contrast}
    new = len(ids) if task.growth is None else task.growth.new.get(context, 0)
    if task.growth is None or not is_begun or strategy == "random" or new > MOST:
        return Selector(ids, **options, seed=rng), new
    own, other = rng.spawn(2)
    return Placing(ids, Selector(ids, **options, seed=own), contrast, other), new
