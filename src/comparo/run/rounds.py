"""The questions of one context, in rounds.

Round r + 2 is chosen when round r is answered, from the answers to rounds 1…r and nothing else, while round r + 1 is
being judged. So no call waits for a choice, and which questions are asked does not depend on who answered first or on
how often the run was stopped: the same answers lead to the same questions.
"""

from collections.abc import Sequence
from math import inf
from typing import Any, Protocol

from comparo.judges import Judgement

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
    >>> rounds = Rounds(Selector(["ana", "bo", "cy"], orders="one", rng=0), calls=3, size=1)
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
