"""Rounds of one context: which pairs are asked next, from the answers to earlier rounds.

Round r + 2 of a context is chosen when round r is answered, from the answers to rounds 1…r and nothing else, while
round r + 1 is being judged. No call waits for a choice, and the questions do not depend on who answered first or on how
often the run was stopped: the same answers lead to the same questions.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any

from comparo.judges import Judgement
from comparo.run.voice_allocation import Source
from comparo.run.voices import observed

Pair = tuple[Any, ...]  # the items shown first and second, and the voice where there are several


class Rounds:
    """Hands out the pairs of a context in rounds, up to `calls` pairs.

    `offer` gives pairs to ask; `answer` takes their judgements; the selector does not see failed ones. Rounds that wait
    (`waits`) are held up: round r + 2 is chosen only after `go_on(r)`. After `stop`, the round that was handed out last
    is the last. With `returned`, each failed call allows one more call, from the next choice on.

    With several voices the selector is a `Chorus`, and a pair is (first, second, voice). Answers that are `given` count
    among the calls, and the first round is chosen from them.

    >>> from comparo.data.prompts import Question
    >>> from comparo.selection.selector import Selector
    >>> rounds = Rounds(Selector(["ana", "bo", "cy"], orders="one", seed=0), calls=3, size=1)
    >>> first = rounds.offer()
    >>> len(first)
    2
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

    def offer(self) -> list[Pair]:
        """The pairs to ask now: two rounds at first, later one for each round that was answered."""
        pairs: list[Pair] = []
        while self.left and len(self._rounds) < min(self._learnt, self._allowed) + 2:
            # A whole round is chosen even for fewer calls, so that a larger budget leads to the same questions.
            free = min(self.size, self.selector.remaining)
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
        """Take the judgement of a pair; nothing changes where the pair is not of these rounds, but was given."""
        if (number := self._open.pop(pair, None)) is None:
            return
        self._rounds[number][pair] = judgement
        self._missing[number] -= 1
        self._learn()

    def answers(self, rounds: int) -> list[Judgement]:
        """The given answers and those to the first `rounds` rounds, without failures."""
        return self.given + [answer for answer in self.judgements(slice(rounds)) if not answer.failed]

    def judgements(self, rounds: slice) -> list[Judgement]:
        """The judgements in these rounds, including failures."""
        return [answer for answers in self._rounds[rounds] for answer in answers.values() if answer is not None]

    def has_answered(self, rounds: int) -> bool:
        """Whether the first `rounds` rounds are answered, or all if there are fewer."""
        return not any(self._missing[:rounds]) and (len(self._rounds) >= rounds or not self.left)

    def go_on(self, rounds: int) -> None:
        """Allow the choice of rounds up to number `rounds` + 2."""
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
            self.selector.observe(observed(answers))


class Given:
    """Chooses given pairs, in their order."""

    def __init__(self, pairs: Sequence[Pair]) -> None:
        self._pairs = list(pairs)

    @property
    def remaining(self) -> int:
        return len(self._pairs)

    def next(self, batch: int) -> list[Pair]:
        pairs, self._pairs = self._pairs[:batch], self._pairs[batch:]
        return pairs

    def observe(self, data: Any) -> None:
        """Answers change nothing."""
