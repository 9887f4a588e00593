"""The questions of one context, in rounds.

Round r + 2 is chosen when round r is answered, from the answers to rounds 1…r and nothing else, while round r + 1 is
being judged. So no call waits for a choice, and which questions are asked does not depend on who answered first or on
how often the run was stopped: the same answers lead to the same questions.
"""

from collections.abc import Callable, Sequence
from typing import Any

from comparo.judges import Judgement
from comparo.selection.selector import Selector

Pair = tuple[Any, Any]


class Rounds:
    """Hands out the pairs of a context in rounds, up to `calls` pairs or until `enough` returns True.

    `offer` gives pairs to ask; `answer` takes what came back, and a failed judgement teaches nothing. `enough` is asked
    after every round with all answers so far, and the round that was handed out by then is the last.

    >>> from comparo.data.prompts import Question
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
        self, selector: Selector, calls: int, size: int, enough: Callable[[Sequence[Judgement]], bool] | None = None
    ) -> None:
        self.selector = selector
        self.left = calls
        self.size = size
        self.enough = enough
        self.answers: list[Judgement] = []
        self._rounds: list[dict[Pair, Judgement | None]] = []
        self._open: dict[Pair, int] = {}
        self._missing: list[int] = []
        self._learnt = 0

    @property
    def done(self) -> bool:
        """Whether every pair is answered and none is left to ask."""
        return not self.left and not self._open

    def offer(self) -> list[Pair]:
        """The pairs to ask now: two rounds at first, later one for each round that was answered."""
        pairs: list[Pair] = []
        while self.left and len(self._rounds) < self._learnt + 2:
            # A whole round is chosen even for fewer calls, so that a larger budget leads to the same questions.
            chosen = self.selector.next(min(self.size, self.selector.remaining or 0))[: self.left]
            self.left -= len(chosen)
            self._open |= dict.fromkeys(chosen, len(self._rounds))
            self._rounds.append(dict.fromkeys(chosen))
            self._missing.append(len(chosen))
            pairs += chosen
        return pairs

    def answer(self, pair: Pair, judgement: Judgement) -> None:
        number = self._open.pop(pair)
        self._rounds[number][pair] = judgement
        self._missing[number] -= 1
        while self._learnt < len(self._rounds) and not self._missing[self._learnt]:
            if self.left and len(self._rounds) < self._learnt + 2:
                return  # round r may be used only when round r + 1 has been chosen
            self._learn()

    def _learn(self) -> None:
        answers = [answer for answer in self._rounds[self._learnt].values() if answer is not None and not answer.failed]
        self._learnt += 1
        self.answers += answers
        if answers:
            self.selector.observe(
                [(answer.question.first, answer.question.second, answer.p, answer.weight) for answer in answers]
            )
        if self.left and self.enough is not None and self.enough(self.answers):
            self.left = 0
