"""The question that a run asks first, for those who want to read it before anything is asked."""

from typing import cast

from comparo.data.prompts import Question
from comparo.run.loop import Run, logger
from comparo.run.rejudge import Again, Repeated
from comparo.run.store import Store
from comparo.run.task import Task
from comparo.run.worker import Asking


class _Listener:
    """Stands where the judges of a run are, and remembers what they would be asked."""

    def __init__(self) -> None:
        self.asked: list[Question] = []

    @property
    def open(self) -> int:
        return len(self.asked)

    def ask(self, question: Question) -> None:
        self.asked.append(question)


def first_question(task: Task) -> Question | None:
    """The first question of a new run of this task; None where all its answers are given. No judge is asked.

    >>> from comparo.data.items import Items
    >>> from comparo.data.prompts import criterion_prompt
    >>> from comparo.judges import load_judge
    >>> from comparo.run.budget import Budget
    >>> items = Items.of({name: f"A story by {name}." for name in ("ana", "bo", "cy")})
    >>> asked = first_question(Task(items, criterion_prompt("better"), load_judge("simulated/soft"), Budget.of(6)))
    >>> asked.first_text == f"A story by {asked.first}." and asked.first != asked.second
    True
    """
    store = Store(None, {})
    try:
        run = Again(task, store, None, logger.warning) if isinstance(task, Repeated) else Run(task, store)
        listener = _Listener()
        run._fill(cast(Asking, listener))
        return listener.asked[0] if listener.asked else None
    finally:
        store.close()
