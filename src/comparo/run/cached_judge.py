"""Judges with a cache: findings of probes and answers of earlier runs are looked up before a judge is asked.

The key of an answer has everything that determines it:

    key = SHA-256 of [judge, settings, weights, template, labels, answer, what is added, texts, context]

as JSON.
"""

import hashlib
import json
import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import partial
from itertools import chain
from pathlib import Path
from threading import Event
from typing import Any, TypeVar

from comparo.data.criteria_prompt import CriteriaPrompt
from comparo.data.prompts import Prompt, Question
from comparo.errors import JudgeError, StoreError
from comparo.judges import Judge, Judgement, Probe
from comparo.judges.protocol import Several, about
from comparo.log.cache import STEP, Cache
from comparo.log.configuration import PROBES
from comparo.log.files import as_json, now
from comparo.log.store import count_judgements, read_configuration
from comparo.run.budget import dollars

logger = logging.getLogger(__name__)

OFF = "off"
Found = TypeVar("Found")


def head_of(judge: Judge, prompt: Prompt) -> str:
    """Everything that determines an answer except the texts, as JSON.

    >>> from comparo.data.prompts import criterion_prompt
    >>> from comparo.judges import load_judge
    >>> sorted(json.loads(head_of(load_judge("openai/any"), criterion_prompt("better"))))
    ['adds', 'begins', 'judge', 'prompt', 'settings', 'weights']
    """
    asked = {name: getattr(judge, name, None) for name in ("begins", "adds")}
    prompt = judge.shown(prompt) if hasattr(judge, "shown") else prompt
    determined = {
        "judge": judge.name,
        "settings": dict(judge.settings),
        "weights": getattr(judge, "weights", None),
        "prompt": {field.name: getattr(prompt, field.name) for field in fields(prompt) if field.compare},
        **{name: method and method(prompt) for name, method in asked.items()},
    }
    return json.dumps(determined, sort_keys=True, default=str)


def key_of_answer(head: str, question: Question) -> bytes:
    """The key of an answer, 32 bytes: the SHA-256 of `head` and the texts of the question.

    >>> one = Question("a", "b", first_text="x", second_text="y")
    >>> other = Question("c", "d", first_text="x", second_text="y")
    >>> key_of_answer("", one) == key_of_answer("", other)
    True
    """
    texts = [question.first_text, question.second_text, question.context_text, *question.other_texts]
    return hashlib.sha256(json.dumps([head, *texts]).encode()).digest()


def key_of_probe(judge: Judge, *asked: object) -> bytes:
    """The key of the findings of a probe: the name and settings of the judge, and what it was asked, hashed."""
    determined = [judge.name, dict(judge.settings), *asked]
    return hashlib.sha256(json.dumps(determined, sort_keys=True, default=str).encode()).digest()


class CachedJudge:
    """A judge with a cache, in which its thread (`worker`) looks first; name, settings and all else are the judge's."""

    # Those of the judge, by `__getattr__`.
    name: str
    settings: Mapping[str, Any]
    ahead: int

    def __init__(self, judge: Judge, cache: Cache) -> None:
        self.asked, self.cache = judge, cache
        self._heads: tuple[Prompt | None, str] = None, ""  # of the last prompt

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "asked":  # copying looks for these before there is a judge
            raise AttributeError(name)
        own = getattr(self.asked, name)
        return partial(self._recalled, own) if name in ("probe", "write") else own

    def _recalled(self, ask: Callable[..., Probe], *written: object) -> Probe:
        """The probe, or the reply to `written`, from the cache; else `ask` makes it and it is stored."""
        about = (getattr(self.asked, "weights", None), *written) if written else ()
        key = key_of_probe(self.asked, *about)
        found = self._awaited(key, lambda: self.cache.found(key), Event())
        if found is None:
            try:
                found = ask(*written)
                self.cache.keep(key, self.name, found)
            finally:
                self.cache.release(key)
        elif not written:
            self.asked.learn(found.found)  # type: ignore[attr-defined]  # a judge with a probe has it
        return found

    def _awaited(self, key: bytes, look: Callable[[], Found | None], stopped: Event) -> Found | None:
        """What `look` finds in the cache, also what another process is asking for; None: this process is to ask.

        A model on this machine takes several questions before it answers one, so two could wait for each other: its
        answers are not waited for.
        """
        is_ours = False
        while (found := look()) is None and not is_ours:
            is_ours = bool(getattr(self.asked, "weights", None)) or self.cache.claim(key) or stopped.wait(STEP)
        if found is not None and is_ours:  # it came just before the claim
            self.cache.release(key)
        return found

    def remember(self) -> None:
        """Apply the findings of a cached probe, if there is one; nothing is asked, and no file is made."""
        if hasattr(self.asked, "learn") and self.cache.path.is_file():
            if (found := self.cache.found(key_of_probe(self.asked))) is not None:
                self.asked.learn(found.found)
            self.cache.close()

    def answers(
        self, questions: Iterable[Question], prompt: Prompt, deliver: Callable[[Judgement], None], stopped: Event
    ) -> Iterator[Judgement]:
        """Ask the judge what the cache has not, until it has `stopped`, and keep its answers.

        `deliver` gets answers from the cache. The judge is not started where all are there.
        """
        claimed = set[bytes]()

        def missing() -> Iterator[Question]:
            for question in questions:
                key = self._key(question, prompt)
                found = self._awaited(key, partial(self.find, question, prompt), stopped)
                if found is not None:
                    deliver(found)
                    continue
                claimed.add(key)
                if stopped.is_set():
                    return
                yield question

        rest = missing()
        try:
            if (first := next(rest, None)) is None:
                return
            for judgement in self.asked.judge(chain([first], rest), prompt):
                self.keep(judgement, prompt)
                claimed.discard(key := self._key(judgement.question, prompt))
                if judgement.failed or isinstance(judgement, Several):  # else its claim ended when it was stored
                    self.cache.release(key)
                yield judgement
        finally:
            while claimed:  # the judge may still take questions in another thread
                self.cache.release(claimed.pop())

    def keep(self, judgement: Judgement, prompt: Prompt) -> None:
        """Put an answer in the cache; for several criteria, one answer per criterion."""
        head = self._head(prompt)
        for one in judgement.each:
            own = f"{head}\n{one.question.voice}" if isinstance(judgement, Several) else head
            self.cache.add(key_of_answer(own, judgement.question), self.name, one)

    def find(self, question: Question, prompt: Prompt) -> Judgement | None:
        """The answer in the cache; None where it, or the answer to one of several criteria, is missing."""
        head = self._head(prompt)
        if not isinstance(prompt, CriteriaPrompt):
            return self.cache.find(key_of_answer(head, question), question)
        each = []
        for name in prompt.parts:
            found = self.cache.find(key_of_answer(f"{head}\n{name}", question), about(question, name))
            if found is None:
                return None
            each.append(found)
        return Several.of(each)

    def _key(self, question: Question, prompt: Prompt) -> bytes:
        return key_of_answer(self._head(prompt), question)

    def _head(self, prompt: Prompt) -> str:
        if self._heads[0] is not prompt:
            self._heads = prompt, head_of(self.asked, prompt)
        return self._heads[1]


def remembering(judges: Sequence[Judge], cache: str | Path | Cache | None) -> list[Judge]:
    """The judges, the cacheable ones with a `cache`, or one in the file `cache`; unchanged where it is None or "off".

    >>> from comparo.judges import load_judge
    >>> judges = load_judge("openai/any"), load_judge("simulated/soft")
    >>> [type(judge).__name__ for judge in remembering(judges, "cache.sqlite")]
    ['CachedJudge', 'Simulated']
    """
    if cache is None or str(cache) == OFF:
        return list(judges)
    shared = cache if isinstance(cache, Cache) else Cache(cache)
    made: list[Judge] = []
    for judge in judges:
        is_bare = not isinstance(judge, CachedJudge) and getattr(judge, "cacheable", True)
        made.append(CachedJudge(judge, shared) if is_bare else judge)
    return made


def probe_judges(judges: Sequence[Judge], folder: Path | None = None) -> list[dict[str, Any]]:
    """The probes of the judges of a run: from its folder, or made now if it has no answers yet.

    Of several judges, one that cannot be asked is named in a warning, and is left out when the run asks it.

    Raises
    ------
    JudgeError
        No judge can be asked with these settings; the message names the remedy.

    Examples
    --------
    >>> from comparo.judges import load_judge
    >>> probe_judges([load_judge("simulated/soft")])
    []
    """
    known, begun = _kept(folder)
    probes, failed = [], []
    for judge in _probing(judges):
        if (before := _known(judge, known)) is not None:
            judge.learn(before["found"])
            probes.append(before)
        elif not begun:
            try:
                probes.append({**_about(judge), **_probed(judge.probe())})
            except JudgeError as error:
                failed.append(error)
                if len(failed) == len(judges):
                    raise
                logger.warning("%s was probed in vain: %s", judge.name, error)
    return probes


def remember_probes(judges: Sequence[Judge], folder: Path | None = None) -> None:
    """Apply the findings of earlier probes, from a run folder or the judges' caches; nothing is asked."""
    known, _ = _kept(folder)
    for judge in _probing(judges):
        getattr(judge, "remember", lambda: None)()
        if (before := _known(judge, known)) is not None:
            judge.learn(before["found"])


def _about(judge: Judge) -> dict[str, Any]:
    """The entries that identify the judge of a probe in run.json."""
    return dict(as_json({"judge": judge.name, "settings": dict(judge.settings)}))


def _known(judge: Judge, probes: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    about = _about(judge)
    return next((one for one in probes if {name: one.get(name) for name in about} == about), None)


def _probing(judges: Sequence[Judge]) -> list[Any]:
    return [judge for judge in judges if hasattr(judge, "probe") and hasattr(judge, "learn")]


def _probed(probe: Probe) -> dict[str, Any]:
    """Log a probe, and return it as run.json holds it."""
    price = "price not known" if math.isnan(probe.cost) else dollars(probe.cost)
    took = f"{probe.calls} call{'' if probe.calls == 1 else 's'}, {probe.tokens:,} tokens, {price}"
    if probe.calls:
        logger.warning("%s (a probe of %s)", probe.sentence, took)
    return {
        "at": now(),
        "sentence": probe.sentence,
        "found": dict(probe.found),
        "calls": probe.calls,
        "tokens": probe.tokens,
        "cost": None if math.isnan(probe.cost) else probe.cost,
    }


def _kept(folder: Path | None) -> tuple[list[dict[str, Any]], bool]:
    """The probes in a run folder, and whether it has answers; none where there is no such folder yet."""
    if folder is None:
        return [], False
    try:
        return list(read_configuration(folder).get(PROBES) or ()), any(count_judgements(folder))
    except StoreError:  # not a run folder, or a damaged one, which is reported when it is opened
        return [], False
