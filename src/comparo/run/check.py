"""Is the judge of a run still the same? Some of its questions are asked again (`comparo.analysis.drift`).

`check` is for a run that has ended. A run that adds to old answers is checked first (`check_before`): where the judge
has changed, its old answers get the name of a voice of their own, "NAME until DATE". The ranking is then the consensus
of both, as of any two judges: the same texts link their scales.

Which questions are asked again must not depend on their old answers: a question chosen because its answer was extreme
would look changed. So half of the answers, drawn at random, predict the others, and the questions are drawn from these
others, weighted by their information about a change. With a predicted difference f it is (1 + f²)·σ(f)·σ(−f) for a
judge that decides, else (1 + f²)·(1 − (v/L)²), v = f + γ with position bias γ: answers at ±L cannot show a change.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit, logit

from comparo.analysis.drift import Drift
from comparo.data.prompts import Prompt
from comparo.data.run_folder import DATABASE, encode, key_of
from comparo.errors import Message, OptionError, RunError, StoreError
from comparo.judges import Judge, Judgement
from comparo.log.cache import Cache, clear
from comparo.log.configuration import differences
from comparo.log.files import as_json
from comparo.log.store import CHANGED, Store, read_configuration, read_judgements, reading, stored_items
from comparo.methods import ESTIMATES, quiet_fit
from comparo.model.observations import are_choices
from comparo.run.cached_judge import CachedJudge, remembering
from comparo.run.task import Task
from comparo.run.voices import Voice, comparisons, sorted_answers, stored_voices, with_texts, with_voice
from comparo.run.worker import answers_to
from comparo.types import Array

CALLS = 40  # of `check` by default
# Calls of `check_before`, by whether the judge decides: 16 calls find 84% of changes of wording and 90% of changes of
# model (python -m benchmarks.drift). Decisions have less information and need as many calls as `check`.
BEFORE = {False: 16, True: CALLS}
SHARE = 0.25  # largest share of the calls of a run that `check_before` takes
AGE = timedelta(hours=6)  # of the last old answer; a run interrupted more recently is not checked
UNFINISHED = "check.sqlite"  # in the run folder: the answers of a check until it ends
FEWEST = 20  # old answers to draw from
FITTED = 20_000  # old answers that predict the others, at most: a fit of a second
AT_ONCE = 8  # calls between two tests
CLIPPED = 0.01  # the least probability: a decision is ±4.6 logits
LIMIT = float(logit(1 - CLIPPED))
FLOOR = 0.05  # least information of a question, so that answers at the limit can be drawn too

logger = logging.getLogger(__name__)


@dataclass(eq=False)
class Check:
    """Asks one judge some questions of its `old` answers again, in at most `calls` calls.

    After `ask`, `answers` has the first new answer to each question, and `paid` all calls. Each answer is in `cache`
    as soon as it arrives, and those of a check that was stopped come from there.
    """

    voices: Sequence[Voice]
    old: Sequence[Judgement]
    calls: int
    rng: np.random.Generator
    cache: Cache | None = None
    answers: list[Judgement] = field(default_factory=list)
    paid: list[Judgement] = field(default_factory=list)

    def ask(self) -> Drift:
        """Ask question after question until there is evidence of a change or the calls are used up."""
        repeats = 1 if are_choices(comparisons(self.old)) else 2
        sample, expected, leaning = self._sample(self.calls // repeats, repeats == 1)
        step = max(1, AT_ONCE // repeats)
        found: list[tuple[float, float, list[float]]] = []
        for begin in range(0, len(sample), step):
            part = sample[begin : begin + step]
            # The second time in another order: rounding that depends on the server's batch should not repeat.
            rounds = [self._answers(part[:: -1 if turn % 2 else 1]) for turn in range(repeats)]
            for place, one in enumerate(part):
                key = key_of(one.question)
                new = [_value(answers[key]) for answers in rounds if key in answers]
                if len(new) == repeats:
                    found.append((_value(one), float(expected[begin + place]), new))
            self.answers += rounds[0].values()
            if found and (drift := self._drift(found, leaning)).is_changed:
                return drift
        if not found:
            raise RunError("the judge answered none of the questions of the check; try again later")
        return self._drift(found, leaning)

    def _drift(self, found: Sequence[tuple[float, float, list[float]]], leaning: float) -> Drift:
        old, expected, new = map(np.array, zip(*found, strict=True))
        before = tuple(sorted({one.model for one in self.old if one.model}))
        now = tuple(sorted({one.model for one in self.answers if one.model and one.model not in before}))
        return Drift(old, new, expected, leaning, (before, now if before else ()))

    def _sample(self, count: int, decides: bool) -> tuple[list[Judgement], Array, float]:
        """`count` old answers in the order they are asked again, their predicted differences f (count,), and γ."""
        order = self.rng.permutation(len(self.old))
        size = max(count, len(order) // 2)
        old = sorted_answers(self.old)  # not in the order in which they came
        shuffled = [old[place] for place in order.tolist()]
        pool, others = shuffled[:size], shuffled[size:]
        f, leaning = _predicted(pool, others[:FITTED])
        visible = expit(f) * expit(-f) if decides else 1 - ((f + leaning) / LIMIT) ** 2
        information = np.maximum((1 + f**2) * visible, FLOOR)
        drawn = np.argsort(-np.log(self.rng.random(size=len(pool))) / information, kind="stable")[:count]
        return [pool[place] for place in drawn.tolist()], np.asarray(f[drawn]), leaning

    def _answers(self, part: Sequence[Judgement]) -> dict[Any, Judgement]:
        """New answers to the questions of `part` by key, without failures; the judge's own cache is not used."""
        found: dict[Any, Judgement] = {}
        for voice in self.voices:
            own = [one.question for one in part if one.question.voice == voice.name]
            if own:
                (judge,) = remembering([_alone(voice.judge)], self.cache)
                answers = [replace(one, cached=False) for one in answers_to(own, replace(voice, judge=judge))]
                self.paid += answers
                found |= {key_of(one.question): one for one in answers if not one.failed}
        return found


def _value(answer: Judgement) -> float:
    return float(logit(min(max(answer.p, CLIPPED), 1 - CLIPPED)))


def _predicted(pool: Sequence[Judgement], others: Sequence[Judgement]) -> tuple[Array, float]:
    """The score difference of each question in `pool`, (n,), fitted to `others`, 0 if unknown; and their bias γ."""
    if len(others) < FEWEST // 2:
        return np.zeros(len(pool)), 0.0
    ranking = quiet_fit(comparisons(map(with_voice, others)), "mixed")
    labels = ranking.solution.labels
    score = {(encode(c), encode(item)): s for (c, item), s in zip(labels, ranking.scores.tolist(), strict=True)}

    def difference(one: Judgement) -> float:
        first, *rest = (score.get((encode(one.question.context), encode(item))) for item in one.question.items)
        known = [value for value in rest if value is not None]
        return 0.0 if first is None or not known else first - sum(known) / len(known)

    leaning = float(np.mean([_value(one) - difference(one) for one in others]))
    return np.array([difference(one) for one in pool]), leaning


def check(run: str | Path, judge: Judge, *, calls: int = CALLS, seed: int = 0) -> Drift:
    """Ask some questions of a run again, and test whether its judge is still the same.

    Parameters
    ----------
    run
        The folder of a run. Until the check ends its answers are in a file there, from which the same check goes on.
    judge
        The judge of the run, or one of its judges, with the same options. A cache is not asked.
    calls
        How many calls are made at most. A judge that gives probabilities is asked each question twice.
    seed
        The seed of the draw of questions.

    Returns
    -------
    Drift
        For an unchanged judge, `is_changed` is True in at most 5% of checks, at whatever call they stop.

    Raises
    ------
    ValueError
        If the run has no such judge.
    StoreError, JudgeError, RunError
        If the folder has too few answers, or the judge cannot be asked.

    Examples
    --------
    >>> import tempfile
    >>> from comparo import load_judge, rank
    >>> texts = {name: f"A story by {name}." for name in "abcdefgh"}
    >>> judge = load_judge("simulated/soft")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = rank(texts, "better", judge=judge, out=f"{folder}/run")
    ...     found = check(f"{folder}/run", judge)
    >>> found.is_changed, found.calls
    (False, 40)
    """
    folder = Path(run)
    configuration, items = read_configuration(folder), stored_items(folder)
    voices = _voices(configuration, judge, folder)
    names = {voice.name for voice in voices}
    asked = [one for one in read_judgements(folder) if not one.failed and one.question.voice in names]
    if len(asked) < FEWEST:
        raise StoreError(f"{folder} holds {len(asked)} answers by {judge.name}; a check needs {FEWEST} or more")
    if calls < 4:
        raise OptionError("calls", calls, f"are too few for a check; {CALLS} is the usual number")
    old = [replace(one, question=with_texts(items, one.question)) for one in asked]
    with _unfinished(folder) as cache:
        return Check(voices, old, calls, np.random.default_rng(seed), cache).ask()


@contextmanager
def _unfinished(folder: Path) -> Iterator[Cache]:
    """The answers of a check that goes on, stored until it ends; those of hours ago say nothing about the judge now."""
    path = folder / UNFINISHED
    if path.is_file() and time.time() - path.stat().st_mtime > AGE.total_seconds():
        clear(path)
    with closing(Cache(path)) as cache:
        yield cache
    with suppress(OSError):  # another check of the same run goes on
        path.unlink()


def _voices(configuration: Mapping[str, Any], judge: Judge, folder: Path) -> list[Voice]:
    """The voices of a run that are this judge, with their prompts; a ValueError where there is none."""
    identity = configuration["identity"]
    if "criteria" in identity["prompt"]:
        raise StoreError(
            f"{folder} is of several criteria, whose judge cannot be checked; run it anew in another folder"
        )
    stored = stored_voices(identity, judge.name if configuration.get(CHANGED) else None)
    now = as_json({"judge": judge.name, "settings": dict(judge.settings)})
    found, differing = [], list[str]()
    for name, voice in stored.items():
        if apart := differences({key: voice[key] for key in now}, now):
            differing += apart
        else:
            asked = voice["prompt"]
            prompt = Prompt(asked["template"], tuple(asked["labels"]), asked["answer"])
            found.append(Voice(name, judge, prompt))
    if not found:
        problem = f"{folder} was judged by another " + Message("{judge}: ") + "; ".join(differing)
        raise ValueError(problem + "; give that judge and its options")
    return found


def calls_before(task: Task, folder: Path | None) -> dict[int, int]:
    """The most calls of `check_before` for each judge (by `id`), before a run adds to the answers of `folder`.

    There is no check of a judge that cannot change (`may_change`), of answers of the last hours, or for a short run.
    """
    if folder is None or not (folder / DATABASE).is_file() or not task.grows or task.pairs is not None:
        return {}
    found = {}
    for judge in filter(may_change, task.judges):
        calls = min(BEFORE[bool(getattr(judge, "chooses", False))], int(SHARE * task.expense.calls))
        last, count = _answered(folder, [voice.name for voice in task.voices if voice.judge is judge])
        if calls >= AT_ONCE and last is not None and count >= FEWEST and datetime.now(UTC) - last > AGE:
            found[id(judge)] = calls
    return found


def may_change(judge: Judge) -> bool:
    """Whether a judge may change though name and settings stay: not one with weights or records, nor a function."""
    return bool(getattr(judge, "cacheable", True)) and not getattr(judge, "weights", None)


def _answered(folder: Path, names: Sequence[str | None]) -> tuple[datetime | None, int]:
    """When the last answer by these voices came, and how many there are."""
    query = "SELECT max(at), count(*) FROM judgements WHERE error IS NULL AND NOT withdrawn AND voice IS ?"
    with reading(folder) as connection:
        rows = [connection.execute(query, (name,)).fetchone() for name in names]
    times = [datetime.fromisoformat(at) for at, _ in rows if at]
    return max(times, default=None), sum(count for _, count in rows)


def check_before(task: Task, store: Store) -> tuple[Task, list[Judgement]]:
    """Check the judges of a run that adds to old answers.

    Returns
    -------
    The task, with voices of their own for judges that changed, and the calls that are not among the run's answers.
    """
    if store.folder is None or not (due := calls_before(task, store.folder)):
        return task, []
    paid: list[Judgement] = []
    with _unfinished(store.folder) as cache:
        for judge in [judge for judge in task.judges if id(judge) in due]:
            voices = [voice for voice in task.voices if voice.judge is judge]
            names = {voice.name for voice in voices}
            last = (answers[-1] for key, answers in store.known().items() if key[-1] in names)
            old = [replace(one, question=with_texts(task.items, one.question)) for one in last if not one.failed]
            found = Check(voices, old, due[id(judge)], np.random.default_rng([task.seed, len(old)]), cache)
            drift = found.ask()
            if not drift.is_changed:
                logger.info("%s: %s", judge.name, drift.sentence)
                paid += found.paid
                continue
            logger.warning(
                f"{judge.name}: {drift.sentence}. Its old answers count as those of another judge, and the cache is "
                f"not asked: comparo runs --cached --clear {judge.name} removes the old answers there"
            )
            former = _set_aside(store, judge.name, sorted(names, key=str), drift)
            given = [with_voice(one, former.get(one.question.voice, one.question.voice)) for one in task.given]
            task = task_after(replace(task, given=tuple(given)), store.configuration)
            paid += [one for one in found.paid if not any(one is kept for kept in found.answers)]
            store.add(with_voice(one, one.question.voice or judge.name) for one in found.answers)
    return task, paid


def _set_aside(store: Store, judge: str, names: Sequence[str | None], drift: Drift) -> dict[str | None, str]:
    """Rename the voices of old answers in the folder and in run.json, and return the new names by the old ones."""
    assert store.folder is not None
    changed = dict(store.configuration.get(CHANGED) or {})
    last, _ = _answered(store.folder, names)
    former = {}
    for name in names:
        wanted = f"{name or judge} until {last:%Y-%m-%d}"
        taken = sum(known == wanted or known.startswith(f"{wanted} (") for known in changed)
        former[name] = f"{wanted} ({taken + 1})" if taken else wanted
        changed[former[name]] = {"voice": name or judge, "why": list(drift.changes)}

    def rename(connection: sqlite3.Connection) -> None:
        rows = [(other, name) for name, other in former.items()]
        connection.executemany("UPDATE judgements SET voice = ? WHERE voice IS ?", rows)

    store.change(rename, {**store.configuration, CHANGED: changed})
    return former


def task_after(task: Task, configuration: Mapping[str, Any]) -> Task:
    """The task of a folder with answers from before a judge changed: these belong to voices of their own.

    A judge that changed is asked without its cache, which holds old answers.
    """
    if not (changed := configuration.get(CHANGED)):
        return task
    names = {one["voice"] for one in changed.values()}
    panel = task.panel or (replace(task.voices[0], name=task.judge.name),)
    panel = tuple(replace(voice, judge=_alone(voice.judge)) if voice.name in names else voice for voice in panel)
    method = None if task.method in ESTIMATES else task.method
    return replace(task, judge=panel[0].judge, panel=panel, method=method)


def _alone(judge: Judge) -> Judge:
    """The judge without its cache."""
    return judge.asked if isinstance(judge, CachedJudge) else judge
