"""One judge for many coroutines: their questions go to it together, as fast as it takes them.

Judges are asked in a thread (`comparo.run.worker.Asking`), because they wait for servers or compute. The thread starts
with the first coroutine that asks, and ends when none is left waiting, so nothing has to be closed.
"""

from collections import deque
from contextlib import ExitStack

from anyio import Lock, to_thread

from comparo.data.prompts import Prompt, Question
from comparo.judges import Judge, Judgement
from comparo.run.probing import probe_judges
from comparo.run.voices import Voice
from comparo.run.worker import PATIENCE, Asking


class Desk:
    """Takes the questions of coroutines to a judge, and each answer to who asked.

    The judge is probed before its first question, as in a run. Two questions that are equal have the same answer. What
    the judge raises is raised to all who wait.
    """

    def __init__(self, judge: Judge, prompt: Prompt) -> None:
        self._judge, self._prompt = judge, prompt
        self._lock = Lock()  # held by the one coroutine that waits for answers, for all of them
        self._new: deque[Question] = deque()  # a thread takes from it while others add
        self._found: dict[Question, Judgement] = {}
        self._guests = 0
        self._open = ExitStack()
        self._asking: Asking | None = None
        self._error: BaseException | None = None
        self._is_probed = False

    async def ask(self, *questions: Question) -> list[Judgement]:
        """The answers to some questions, in their order."""
        self._guests += 1
        self._new.extend(questions)
        try:
            while not all(question in self._found for question in questions):
                async with self._lock:
                    if self._error is not None:
                        raise self._error
                    if not all(question in self._found for question in questions):
                        await to_thread.run_sync(self._serve)
            return [self._found[question] for question in questions]
        finally:
            self._guests -= 1
            if self._guests == 0:
                self._open.close()
                self._asking = self._error = None
                self._new.clear()

    def _serve(self) -> None:
        """Send what is new and take in what is answered, for a moment; in a thread, one at a time."""
        try:
            if not self._is_probed:
                probe_judges([self._judge])
                self._is_probed = True
            if self._asking is None:
                self._asking = self._open.enter_context(Asking([Voice(None, self._judge, self._prompt)], list))
            while self._new:
                self._asking.ask(self._new.popleft())
            self._found |= {one.question: one for one in self._asking.answers(PATIENCE)}
        except BaseException as error:
            self._error = error
            raise
