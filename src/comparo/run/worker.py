"""A judge in its own thread, so that it never waits for the choice of pairs or for fitting."""

import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Self

from comparo.data.prompts import Prompt, Question
from comparo.errors import JudgeError
from comparo.judges import Judge, Judgement

PATIENCE = 0.05  # seconds to wait for one more question before the judge answers those it has
LEAVE = 5.0  # seconds to wait for the thread to end; it is a daemon and ends with the process
STEP = 0.2  # seconds of waiting after which an interrupt is noticed in any case


class Asking:
    """Takes questions, returns judgements as they arrive.

    `keep` stores every judgement, in the thread of the judge, as soon as it arrives, and returns it as stored. `ask`
    never waits. `answers` waits for at least one judgement while questions are open and returns all that have arrived;
    it raises what the judge or `keep` raised. `finish` sends no more questions and waits for those that are `out`:
    taken by the judge but not answered. Leaving the block ends the judge. After `patience` seconds without a further
    question, the judge answers those it has.
    """

    def __init__(
        self,
        judge: Judge,
        prompt: Prompt,
        keep: Callable[[Sequence[Judgement]], list[Judgement]],
        patience: float = PATIENCE,
    ) -> None:
        self._judge, self._prompt, self._keep, self._patience = judge, prompt, keep, patience
        self._questions: queue.SimpleQueue[Question | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[Judgement | BaseException] = queue.SimpleQueue()
        self._no_more, self._left = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._work, name="judge", daemon=True)
        self.open = 0
        self.out = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._left.set()
        self._end_questions()
        self._thread.join(LEAVE if error is None else 0.0)

    def ask(self, questions: Iterable[Question]) -> None:
        for question in questions:
            self.open += 1
            self._questions.put(question)

    def answers(self, timeout: float | None = None) -> list[Judgement]:
        """The judgements that arrived since the last call; an empty list after `timeout` seconds."""
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

    def finish(self, seconds: float) -> list[Judgement]:
        """Wait until all questions that are out are answered, at most `seconds`; return the remaining judgements."""
        self._end_questions()
        end = time.monotonic() + seconds
        # In short steps: a signal that reaches the process in another thread does not end this one's waiting.
        while self._thread.is_alive() and (left := end - time.monotonic()) > 0:
            self._thread.join(min(left, STEP))
        return self.late()

    def late(self) -> list[Judgement]:
        """The judgements that arrived but were not returned yet."""
        judgements = []
        while not self._answers.empty():
            answer = self._answers.get()
            if isinstance(answer, Judgement):
                judgements.append(answer)
        return judgements

    def _end_questions(self) -> None:
        self._no_more.set()
        self._questions.put(None)

    def _work(self) -> None:
        try:
            while not self._no_more.is_set() and (question := self._questions.get()) is not None:
                self.out += 1
                for judgement in self._judge.judge(chain([question], self._more()), self._prompt):
                    (kept,) = self._keep([judgement])
                    self.out -= 1
                    self._answers.put(kept)
                    if self._left.is_set():
                        return
                if self.out:
                    raise JudgeError(f"{self._judge.name} gave no answer to {self.out} of the questions that it took")
        except BaseException as error:  # raised again in `answers`
            self.out = 0
            self._answers.put(error)

    def _more(self) -> Iterator[Question]:
        """Further questions; they end if none arrives for a moment, unless the judge streams."""
        is_patient = getattr(self._judge, "streams", False)
        while not self._no_more.is_set():
            try:
                question = self._questions.get(timeout=self._patience)
            except queue.Empty:
                if is_patient:
                    continue
                return
            if question is None:
                return
            self.out += 1
            yield question
