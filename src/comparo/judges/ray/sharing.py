"""Which questions are sent together, and to which of several judges that work in parallel.

Questions of one context begin alike, and a judge reads their common beginning once. So a batch holds whole contexts as
far as possible, and a context goes to the judge that had it before, unless another would be idle.
"""

from collections.abc import Iterable
from typing import Any

from comparo.data.prompts import Question


class Shares:
    """Questions that wait, handed out in batches.

    >>> shares = Shares()
    >>> shares.add(Question(first, second, context) for first, second in ("ab", "bc") for context in ("x", "y"))
    >>> [(question.context, question.first) for question in shares.take(0, among=2, least=1, most=4)]
    [('x', 'a'), ('x', 'b')]
    """

    def __init__(self) -> None:
        self._waiting: dict[Any, list[Question]] = {}
        self._home: dict[Any, int] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, questions: Iterable[Question]) -> None:
        """Add questions to those that wait."""
        for question in questions:
            self._waiting.setdefault(question.context, []).append(question)
            self._count += 1

    def move(self, judge: int) -> None:
        """Free the contexts of a judge that is gone for the others."""
        self._home = {context: home for context, home in self._home.items() if home != judge}

    def take(self, judge: int, among: int, least: int, most: int) -> list[Question]:
        """A batch for one of `among` judges: its share of what waits, but `least` to `most`; none where none waits.

        The judge's own contexts come first, then those that no judge had; contexts of others, and parts of a context,
        fill a batch that would else be less than half full. A context is also cut where it is larger than a batch, or
        than a share where there are fewer contexts than judges.
        """
        share = min(most, max(least, -(-self._count // among)))
        limit = share if len(self._waiting) < among else most
        batch: list[Question] = []
        for context in sorted(self._waiting, key=lambda context: self._distance(context, judge)):
            room = limit - len(batch)
            there = self._waiting[context]
            if 2 * len(batch) >= limit and (len(there) > room or self._distance(context, judge) == 2):
                continue
            batch += there[:room]
            if len(there) > room:
                self._waiting[context] = there[room:]
                self._home.setdefault(context, judge)
            else:
                del self._waiting[context]
                self._home[context] = judge
            if len(batch) >= share:
                break
        self._count -= len(batch)
        return batch

    def _distance(self, context: Any, judge: int) -> int:
        home = self._home.get(context)
        return 1 if home is None else 0 if home == judge else 2
