"""A judge at work in a thread of its own, so that choosing, storing and fitting never keep it waiting."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator
from itertools import chain
from types import TracebackType

from comparo.judges import Judge, Judgement
from comparo.prompts import Prompt, Question

GRACE = 5.0  # seconds that a judge has to end; its thread does not outlive the process
PATIENCE = 0.05  # seconds that a judge waits for one more question before it answers those it has


class Asking:
    """Questions in, judgements out as they come.

    `ask` never waits. `answers` waits for at least one judgement while questions are open and hands over all that are
    there; what the judge raises is raised there. Leaving the block ends the judge after the answer it is at.

    >>> from comparo.judges import load_judge
    >>> with Asking(load_judge("simulated/soft"), Prompt("{first}{second}")) as asking:
    ...     asking.ask([Question("ana", "bo"), Question("bo", "ana")])
    ...     answers = [*asking.answers(), *asking.answers()]
    >>> len(answers) >= 1
    True
    """

    def __init__(self, judge: Judge, prompt: Prompt) -> None:
        self._judge, self._prompt = judge, prompt
        self._questions: queue.SimpleQueue[Question | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[Judgement | BaseException] = queue.SimpleQueue()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="judge", daemon=True)
        self.open = 0

    def __enter__(self) -> Asking:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._questions.put(None)
        self._thread.join(GRACE)

    def ask(self, questions: Iterable[Question]) -> None:
        """Put questions in line."""
        for question in questions:
            self.open += 1
            self._questions.put(question)

    def answers(self, timeout: float | None = None) -> list[Judgement]:
        """The judgements that came since; at least one while questions are open, none after `timeout` seconds."""
        judgements: list[Judgement] = []
        while self.open and (not judgements or not self._answers.empty()):
            try:
                answer = self._answers.get(timeout=timeout)
            except queue.Empty:
                break
            if isinstance(answer, BaseException):
                if judgements:
                    self._answers.put(answer)
                    break
                raise answer
            self.open -= 1
            judgements.append(answer)
        return judgements

    def late(self) -> list[Judgement]:
        """The judgements that came and were not handed over yet."""
        judgements = []
        while not self._answers.empty():
            answer = self._answers.get()
            if isinstance(answer, Judgement):
                judgements.append(answer)
        return judgements

    def _work(self) -> None:
        try:
            while not self._stop.is_set() and (question := self._questions.get()) is not None:
                for judgement in self._judge.judge(chain([question], self._more()), self._prompt):
                    self._answers.put(judgement)
                    if self._stop.is_set():
                        return
        except BaseException as error:  # raised again where the answers are read
            self._answers.put(error)

    def _more(self) -> Iterator[Question]:
        """Further questions, until there is none for a moment: the judge may hold answers back for want of them."""
        while not self._stop.is_set():
            try:
                question = self._questions.get(timeout=PATIENCE)
            except queue.Empty:
                return
            if question is None:
                return
            yield question
