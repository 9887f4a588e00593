"""Judges in threads of their own, which never wait for a choice of pairs or a fit, and the health of a voice."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Self

from scipy.special import bdtrc

from comparo.data.prompts import Prompt, Question
from comparo.errors import JudgeError, Message
from comparo.judges import Judge, Judgement
from comparo.run.cached_judge import CachedJudge
from comparo.run.voices import Voice

PATIENCE = 0.05  # seconds to wait for one more question before the judge answers those it has
LEAVE = 5.0  # seconds to wait for the thread to end; it is a daemon and ends with the process
STEP = 0.2  # seconds of waiting after which an interrupt is noticed in any case

Keep = Callable[[Sequence[Judgement]], list[Judgement]]


class JudgeThreads:
    """Takes questions to the voices of a run, returns judgements as they arrive.

    Every judge has a thread, which all its wordings share. `keep` stores every judgement, in the thread of the judge,
    as soon as it arrives, and returns it as stored. `ask` never waits. `answers` waits for at least one judgement while
    questions are open and returns all that have arrived; it raises what a judge or `keep` raised. But where there are
    several judges, the JudgeError of one is kept in `fallen`, by the names of its voices, and the others go on.
    `finish` sends no more questions and waits for those that are `out`: taken by a judge but not answered. Leaving the
    block ends the judges. After `PATIENCE` seconds without a further question, a judge answers those it has.
    """

    def __init__(self, voices: Iterable[Voice], keep: Keep) -> None:
        by_judge: dict[int, list[Voice]] = {}
        for voice in voices:
            by_judge.setdefault(id(voice.judge), []).append(voice)
        self._answers: queue.SimpleQueue[tuple[_Worker, Judgement | BaseException]] = queue.SimpleQueue()
        self._workers = [_Worker(of_judge, keep, self._answers) for of_judge in by_judge.values()]
        self._worker = {name: worker for worker in self._workers for name in worker.prompts}
        self.fallen: dict[str | None, JudgeError] = {}

    @property
    def open(self) -> int:
        """How many questions are not answered yet."""
        return sum(worker.open for worker in self._workers)

    @property
    def out(self) -> int:
        """How many questions a judge has taken and not answered."""
        return sum(worker.out for worker in self._workers)

    def __enter__(self) -> Self:
        for worker in self._workers:
            worker.thread.start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        for worker in self._workers:
            worker.leave()
        for worker in self._workers:
            worker.thread.join(LEAVE if error is None else 0.0)

    def ask(self, question: Question) -> None:
        worker = self._worker[question.voice]
        worker.open += 1
        worker.questions.put(question)

    def answers(self, timeout: float | None = None) -> list[Judgement]:
        """The judgements that arrived since the last call; an empty list after `timeout` seconds."""
        judgements: list[Judgement] = []
        while self.open and (not judgements or not self._answers.empty()):
            try:
                worker, answer = self._answers.get(timeout=timeout)
            except queue.Empty:
                break
            if isinstance(answer, JudgeError) and len(self._workers) > 1:
                self.fallen |= dict.fromkeys(worker.prompts, answer)
                worker.open = 0
                break
            if isinstance(answer, BaseException):
                if judgements:
                    self._answers.put((worker, answer))
                    break
                raise answer
            worker.open -= 1
            judgements.append(answer)
        return judgements

    def finish(self, seconds: float) -> list[Judgement]:
        """Wait until all questions that are out are answered, at most `seconds`; return the remaining judgements."""
        for worker in self._workers:
            worker.end_questions()
        end = time.monotonic() + seconds
        # In short steps: a signal that reaches the process in another thread does not end this one's waiting.
        for worker in self._workers:
            while worker.thread.is_alive() and (left := end - time.monotonic()) > 0:
                worker.thread.join(min(left, STEP))
        return self.late()

    def late(self) -> list[Judgement]:
        """The judgements that arrived but were not returned yet."""
        judgements = []
        while not self._answers.empty():
            _, answer = self._answers.get()
            if isinstance(answer, Judgement):
                judgements.append(answer)
        return judgements


class _Worker:
    """One judge in its thread; questions with another prompt wait until those before them are answered."""

    def __init__(
        self,
        voices: Sequence[Voice],
        keep: Keep,
        answers: queue.SimpleQueue[tuple[_Worker, Judgement | BaseException]],
    ) -> None:
        self.judge: Judge = voices[0].judge
        self.prompts: Mapping[str | None, Prompt] = {voice.name: voice.prompt for voice in voices}
        self._keep, self._answers = keep, answers
        self.questions: queue.SimpleQueue[Question | None] = queue.SimpleQueue()
        self._following: Question | None = None  # taken from the queue, and of another prompt
        self._no_more, self._left = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self._work, name="judge", daemon=True)
        self.open = 0
        self.out = 0

    def leave(self) -> None:
        self._left.set()
        self.end_questions()

    def end_questions(self) -> None:
        self._no_more.set()
        self.questions.put(None)

    def _work(self) -> None:
        try:
            while not self._no_more.is_set() and (question := self._following or self.questions.get()) is not None:
                self._following = None
                self.out += 1
                voice = question.voice
                asked = chain([question], self._more(voice))
                for judgement in self._asked(asked, self.prompts[voice]):
                    self._deliver(judgement)
                    if self._left.is_set():
                        return
                if self.out:
                    raise JudgeError(f"{self.judge.name} gave no answer to {self.out} of the questions that it took")
        except BaseException as error:  # raised again in `answers`
            self.out = 0
            self._answers.put((self, error))

    def _asked(self, questions: Iterator[Question], prompt: Prompt) -> Iterator[Judgement]:
        """The judge's answers; those from its cache come at once, also while it works or waits for a question."""
        if isinstance(self.judge, CachedJudge):
            return self.judge.answers(questions, prompt, self._deliver, self._no_more)
        return self.judge.judge(questions, prompt)

    def _deliver(self, judgement: Judgement) -> None:
        (kept,) = self._keep([judgement])
        self.out -= 1
        self._answers.put((self, kept))

    def _more(self, voice: str | None) -> Iterator[Question]:
        """Further questions to a voice; they end if none arrives for a moment, unless the judge streams."""
        is_patient = getattr(self.judge, "streams", False)
        while not self._no_more.is_set() and self._following is None:
            try:
                question = self.questions.get(timeout=PATIENCE)
            except queue.Empty:
                if is_patient:
                    continue
                return
            if question is None:
                return
            if question.voice != voice:
                self._following = question
                return
            self.out += 1
            yield question


def answers_to(questions: Iterable[Question], voice: Voice) -> Iterator[Judgement]:
    """The answers of a voice to some questions, as they come.

    >>> from comparo.data.prompts import criterion_prompt
    >>> from comparo.judges import load_judge
    >>> asked = Question("ana", "bo"), Question("bo", "ana")
    >>> len(list(answers_to(asked, Voice(None, load_judge("simulated/soft"), criterion_prompt("better")))))
    2
    """
    with JudgeThreads([voice], list) as threads:
        for question in questions:
            threads.ask(question)
        while threads.open:
            yield from threads.answers()


FAILED = 0.2  # the share of judgements that may fail: the others are enough for a ranking
CHANCE = 0.001  # that a voice which fails at that rate is left out, at each look
ENOUGH = 20  # judgements needed before that share, or the share of probability on the labels, is checked


@dataclass
class Health:
    """The record of a voice, whose `first` answers must put `least_mass` on the labels on average.

    >>> health = Health(("A", "B"), least_mass=0.5, first=1)
    >>> from comparo.data.prompts import Question
    >>> health.take(Judgement(Question("ana", "bo"), p=0.7, mass=0.02, reply="I think"))
    >>> print(health.problem)
    the judge puts only 2.0% of its probability on the labels A and B in its first 1 answers, so they say little ...
    """

    labels: tuple[str, ...]
    least_mass: float
    first: int
    masses: list[float] = field(default_factory=list)
    asked: int = 0  # calls since this start
    lost: int = 0  # of these, how many failed
    error: str | None = None  # of the last that failed
    reply: str = ""

    def take(self, judgement: Judgement) -> None:
        """Take a judgement of this start into account."""
        self.asked += 1
        self.lost += judgement.failed
        self.error = judgement.error or self.error
        if not judgement.failed and judgement.mass == judgement.mass and len(self.masses) < self.first:
            self.masses.append(judgement.mass)
            self.reply = judgement.reply

    @property
    def problem(self) -> str | None:
        """Why the voice should not be asked further, in words for the user; None if all is well."""
        masses = self.masses[: self.first]
        if len(masses) == self.first and (mean := sum(masses) / len(masses)) < self.least_mass:
            said = f" Its last reply begins {self.reply[:80]!r}." if self.reply else ""
            return (
                f"the judge puts only {mean:.1%} of its probability on the labels {' and '.join(self.labels)} in its "
                f"first {len(masses)} answers, so they say little about the texts.{said} Change the labels, the answer "
                + Message("or the judge; {least_mass:0} goes on all the same")
            )
        if self.asked >= ENOUGH and is_excess(self.lost, self.asked):
            return too_many(self.lost, self.asked, self.error)
        return None


def is_excess(failed: int, asked: int) -> bool:
    """Whether significantly more than the share `FAILED` of judgements failed, by a one-sided binomial test.

    >>> is_excess(5, 20), is_excess(10, 20), is_excess(11, 20), is_excess(59, 200)
    (False, False, True, True)
    """
    return failed > 0 and bool(bdtrc(failed - 1, asked, FAILED) < CHANCE)


def too_many(failed: int, asked: int, error: str | None) -> str:
    """The message that too many judgements failed."""
    return (
        f"{failed} of {asked} judgements failed, the last with: {error}. Mend that and run the same command again: "
        "what was judged is kept"
    )
