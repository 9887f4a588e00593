"""Money: what a run has spent, and what it may still ask for."""

from __future__ import annotations

from collections.abc import Callable

from comparo.data.prompts import Question
from comparo.judges import Judgement


class Spending:
    """Keeps a run within `limit` dollars, to within one call.

    A call in flight counts for the most that it is likely to cost: what `expect` says of its question, times the
    largest ratio of cost to expectation that was seen (at least 1). A question is allowed while that, the calls in
    flight and what was `spent` stay within the limit. So that the ratio is known before it matters, no more calls are
    in flight than one beyond those that were paid.

    >>> spending = Spending(1.0, lambda question: 0.1)
    >>> spending.reserve(Question("ana", "bo"))
    >>> spending.allows(Question("bo", "ana"))  # the first goes alone
    False
    >>> spending.settle(Judgement(Question("ana", "bo"), p=0.7, cost=0.3))
    >>> round(spending.spent + spending.expected(Question("bo", "ana")), 2)  # three times what was expected
    0.6
    """

    def __init__(self, limit: float, expect: Callable[[Question], float], spent: float = 0.0) -> None:
        self.limit, self.spent = limit, spent
        self._expect = expect
        self._ratio, self._paid = 1.0, 0
        self._flying: dict[tuple[object, object, object], float] = {}

    def expected(self, question: Question) -> float:
        """What a question is likely to cost at most, in dollars."""
        return self._ratio * self._expect(question)

    def allows(self, question: Question) -> bool:
        """Whether a question may be asked now."""
        if len(self._flying) > self._paid:
            return False
        return self.spent + self._ratio * sum(self._flying.values()) + self.expected(question) <= self.limit

    def reserve(self, question: Question) -> None:
        """Count a question as in flight."""
        self._flying[_key(question)] = self._expect(question)

    def settle(self, judgement: Judgement) -> None:
        """Count what a judgement cost: what is not known, as expected; a call that failed without a price, as free."""
        expected = self._flying.pop(_key(judgement.question))
        if judgement.cost >= 0:
            self._ratio = max(self._ratio, judgement.cost / expected)
        elif judgement.failed:
            return
        self.spent += judgement.cost if judgement.cost >= 0 else self._ratio * expected
        self._paid += 1


def _key(question: Question) -> tuple[object, object, object]:
    return question.context, question.first, question.second
