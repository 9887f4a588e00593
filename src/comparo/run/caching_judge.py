"""A judge that remembers: answers that are in a cache come from there, and what it is asked is kept there."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from comparo.data.criteria_prompt import CriteriaPrompt
from comparo.data.prompts import Prompt, Question
from comparo.judges import Judge, Judgement, Probe
from comparo.judges.several import Several, about
from comparo.run.cache import Cache, head_of, key_of_answer, key_of_probe
from comparo.run.database import key_of
from comparo.run.store import Store
from comparo.run.task import Task

Outcome = Judgement | BaseException | None  # an answer, what ended the judge, or the end


class Recalling:
    """A judge whose answers are looked up in a cache first; all else, its name and settings too, is the judge's own.

    An answer from the cache comes at once, also while the judge works or waits for a question: the judge is asked in a
    thread of its own. It is not started where every answer is in the cache.
    """

    def __init__(self, judge: Judge, cache: Cache) -> None:
        self.asked, self.cache = judge, cache

    @property
    def name(self) -> str:
        return self.asked.name

    @property
    def settings(self) -> Mapping[str, Any]:
        return self.asked.settings

    @property
    def ahead(self) -> int:
        return self.asked.ahead

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "asked":  # copying looks for these before there is a judge
            raise AttributeError(name)
        own = getattr(self.asked, name)
        return partial(self._probed, own) if name == "probe" else own

    def _probed(self, probe: Callable[[], Probe]) -> Probe:
        """What a probe found in an earlier run, or finds now."""
        key = key_of_probe(self.asked)
        if (found := self.cache.found(key)) is None:
            found = probe()
            self.cache.keep(key, self.name, found)
        else:
            self.asked.learn(found.found)  # type: ignore[attr-defined]  # a judge with a probe has it
        return found

    def remember(self) -> None:
        """Take over what an earlier probe found, if that is in the cache; nothing is asked, and no file is made."""
        if hasattr(self.asked, "learn") and self.cache.path.is_file():
            if (found := self.cache.found(key_of_probe(self.asked))) is not None:
                self.asked.learn(found.found)
            self.cache.close()

    def judge(self, questions: Iterable[Question], prompt: Prompt) -> Iterator[Judgement]:
        """The answers from the cache and those of the judge, as they come."""
        outcomes: SimpleQueue[Outcome] = SimpleQueue()
        stopped = threading.Event()
        arguments = (questions, prompt, outcomes.put, stopped)
        threading.Thread(target=self._work, args=arguments, name=f"{self.name} behind a cache", daemon=True).start()
        try:
            while (outcome := outcomes.get()) is not None:
                if isinstance(outcome, BaseException):
                    raise outcome
                yield outcome
        finally:
            stopped.set()

    def _work(
        self,
        questions: Iterable[Question],
        prompt: Prompt,
        put: Callable[[Outcome], None],
        stopped: threading.Event,
    ) -> None:
        """Put all answers, each in the cache before, and how it ended; after a stop, one more is taken."""
        try:
            head = head_of(self.asked, prompt)
            missing = self._missing(questions, prompt, head, put, stopped)
            if (first := next(missing, None)) is not None:
                answers = self.asked.judge(chain([first], missing), prompt)
                try:
                    for judgement in answers:
                        self._keep(head, judgement)
                        put(judgement)
                        if stopped.is_set():
                            break
                finally:
                    getattr(answers, "close", lambda: None)()
        except BaseException as error:  # raised again by `judge`
            put(error)
        put(None)

    def _missing(
        self,
        questions: Iterable[Question],
        prompt: Prompt,
        head: str,
        put: Callable[[Outcome], None],
        stopped: threading.Event,
    ) -> Iterator[Question]:
        """The questions whose answers are not in the cache; the answers of the others are put."""
        for question in questions:
            if stopped.is_set():
                return
            found = self._found(head, question, prompt)
            if found is None:
                yield question
            else:
                put(found)

    def _keep(self, head: str, judgement: Judgement) -> None:
        """Put an answer in the cache; of several criteria, each with the name of its criterion."""
        if not isinstance(judgement, Several):
            self.cache.add(key_of_answer(head, judgement.question), self.name, judgement)
            return
        for one in judgement.each:
            self.cache.add(key_of_answer(f"{head}\n{one.question.voice}", judgement.question), self.name, one)

    def _found(self, head: str, question: Question, prompt: Prompt) -> Judgement | None:
        """The answer in the cache; of several criteria, only where all of them are there."""
        if not isinstance(prompt, CriteriaPrompt):
            return self.cache.find(key_of_answer(head, question), question)
        each = []
        for name in prompt.parts:
            found = self.cache.find(key_of_answer(f"{head}\n{name}", question), about(question, name))
            if found is None:
                return None
            each.append(found)
        return Several.of(each)


class Memory:
    """What the cache of a judge holds of the questions of one prompt; nothing where the judge has no cache.

    >>> from comparo.data.prompts import criterion_prompt
    >>> from comparo.judges import load_judge
    >>> Memory(load_judge("simulated/soft"), criterion_prompt("better")).find(Question("ana", "bo"))
    """

    def __init__(self, judge: Judge, prompt: Prompt) -> None:
        self._judge = judge if isinstance(judge, Recalling) else None
        self._head = "" if self._judge is None else head_of(self._judge.asked, prompt)

    def find(self, question: Question) -> Judgement | None:
        """The answer to a question, None where there is none."""
        if self._judge is None:
            return None
        return self._judge.cache.find(key_of_answer(self._head, question), question)

    def keep(self, judgement: Judgement) -> None:
        """Put an answer into the cache, unless it failed."""
        if self._judge is not None and not judgement.failed:
            key = key_of_answer(self._head, judgement.question)
            self._judge.cache.add(key, self._judge.name, judgement)


def remembering(judges: Sequence[Judge], cache: str | Path | None) -> list[Judge]:
    """The judges, those whose answers can be kept with a cache in this file; without a file, as they are.

    >>> from comparo.judges import load_judge
    >>> judges = load_judge("openai/any"), load_judge("simulated/soft")
    >>> [type(judge).__name__ for judge in remembering(judges, "cache.sqlite")]
    ['Recalling', 'Simulated']
    """
    if cache is None:
        return list(judges)
    shared = Cache(cache)
    return [
        judge if isinstance(judge, Recalling) or not getattr(judge, "cacheable", True) else Recalling(judge, shared)
        for judge in judges
    ]


@contextmanager
def recalled(task: Task, store: Store) -> Iterator[None]:
    """Open the caches of a task's judges for its run, and close them afterwards; a StoreError where one is damaged."""
    heads = {
        voice.name: (voice.judge.cache, head_of(voice.judge.asked, voice.prompt))
        for voice in task.voices
        if isinstance(voice.judge, Recalling)
    }
    had: dict[Cache, list[bytes]] = {cache: [] for cache, _ in heads.values()}
    # Else no two questions of the run have the same key, and it need not be known which answers it has had.
    if len(set(heads.values())) < len(heads) or (heads and len(set(task.items.texts)) < len(task.items)):
        answered = (one.question for one in chain(store.judgements(), task.given) if not one.failed)
        for question in {key_of(question): question for question in answered if question.voice in heads}.values():
            cache, head = heads[question.voice]
            shown = task.items.question(question.context, question.first, question.second)
            had[cache].append(key_of_answer(head, shown))
    for cache, keys in had.items():
        cache.begin(keys)
    try:
        yield
    finally:
        for cache in had:
            cache.close()
