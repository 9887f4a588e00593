"""Keep a run within its budget in dollars."""

from collections.abc import Callable
from operator import attrgetter

from comparo.data.prompts import Question
from comparo.judges import Judgement

_key = attrgetter("context", "first", "second")


class Spending:
    """Limits a run to `limit` dollars, exceeded by at most one call.

    The expected cost of a call is `expect(question)` times the largest ratio of actual to expected cost seen so far (at
    least 1). A question is allowed if the money spent, the expected cost of all calls in flight and its own expected
    cost stay within the limit. The number of calls in flight is at most one more than the number of paid calls, so that
    the ratio is known before many calls depend on it.

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
        self._flying: dict[object, float] = {}

    def expected(self, question: Question) -> float:
        """The expected cost of a question in dollars."""
        return self._ratio * self._expect(question)

    def allows(self, question: Question) -> bool:
        """Whether a question may be asked now."""
        if len(self._flying) > self._paid:
            return False
        return self.spent + self._ratio * sum(self._flying.values()) + self.expected(question) <= self.limit

    def reserve(self, question: Question) -> None:
        """Reserve the expected cost of a question that is sent."""
        self._flying[_key(question)] = self._expect(question)

    def settle(self, judgement: Judgement) -> None:
        """Book the cost of a judgement: if unknown, its expected cost; nothing for a failed call without a cost."""
        expected = self._flying.pop(_key(judgement.question))
        if judgement.cost >= 0:
            self._ratio = max(self._ratio, judgement.cost / expected)
        elif judgement.failed:
            return
        self.spent += judgement.cost if judgement.cost >= 0 else self._ratio * expected
        self._paid += 1
