"""Put the pairs of a run to another voice: how far do both rankings agree, and what is their consensus?

The new folder holds the answers of both and is a run of several voices like any other: its report, `comparo
fit` and a further rejudging work with it. The folder of the first run is read and never written to.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from comparo.analysis.correlations import mean_known, spearman_within
from comparo.data.columns import look_up
from comparo.data.grammar import accepts
from comparo.data.items import Items
from comparo.data.prompts import Prompt
from comparo.data.run_folder import key_of
from comparo.data.wordings import WORDINGS
from comparo.errors import StoreError
from comparo.judges import Judge, Judgement
from comparo.log.folders import slug
from comparo.log.store import CHANGED, read_configuration, read_judgements, stored_items
from comparo.methods import ESTIMATES
from comparo.options import RejudgeOptions, Storage
from comparo.ranking.ranking import Ranking
from comparo.ranking.self_consistency import count_flips
from comparo.run.budget import Budget
from comparo.run.loop import Experiment, Run
from comparo.run.plan import Plan, prepare
from comparo.run.rounds import Pair
from comparo.run.task import Task
from comparo.run.voices import Voice, comparisons, make_judges, stored_voices, with_voice
from comparo.types import Array


@dataclass(frozen=True)
class Repeated(Task):
    """A task that asks the one voice of its panel the `pairs` of each context.

    `stored` is the identity of the run that is rejudged.
    """

    stored: Mapping[str, Any] = field(default_factory=dict)

    @property
    def identity(self) -> dict[str, Any]:
        """The identity of the first run, with one more voice."""
        (voice,) = self.voices
        voices = {**self.stored["voices"], voice.name: voice.identity}
        return {**self.stored, "judge": ", ".join(map(str, voices)), "settings": {}, "voices": voices}


@dataclass(frozen=True)
class Rejudged:
    """Both rankings and how far they agree.

    Parameters
    ----------
    ranking : The consensus of all voices.
    before, after : The ranking of the first run, and that of the new voice alone.
    spearman : Their Spearman correlation, the mean over contexts.
    agree, questions : The share of questions answered by both with the same winner, and their number.
    flips : The share of the pairs asked in both orders whose winner changes with the order, before and after.
    voice : The name of the new voice.
    """

    ranking: Ranking
    before: Ranking
    after: Ranking
    spearman: float
    agree: float
    questions: int
    flips: tuple[float, float]
    voice: str


@accepts(RejudgeOptions)
def rejudge(run: str | Path, options: RejudgeOptions) -> Rejudged:
    """Put the pairs of a run to another voice, and compare both rankings.

    Parameters
    ----------
    run
        The folder of a run.
    judge
        Who is asked, as for `rank`; the question is that of the run.
    budget
        How many of the run's questions are asked, in the order in which they were: a number, "5n", "50%", or "$2.50".
    out, watch, cache
        As for `rank`; without `out`, a folder beside that of the run. A call that was stopped continues there.

    Returns
    -------
    Rejudged

    Raises
    ------
    StoreError, JudgeError, RunError
        If the folder holds no answers, or the judge or the run cannot continue.

    Examples
    --------
    >>> import tempfile
    >>> from comparo import load_judge, rank
    >>> quality = {name: float(place) for place, name in enumerate("abcdefgh")}
    >>> texts = {name: f"A story by {name}." for name in quality}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = rank(texts, "better", judge=load_judge("simulated/soft", scores=quality), out=f"{folder}/run")
    ...     found = rejudge(f"{folder}/run", load_judge("simulated/hard", scores=quality, strength=9))
    >>> found.spearman > 0.9, found.agree > 0.8, found.questions
    (True, True, 56)
    """
    return plan_rejudge(run, options).run(options.watch)


def plan_rejudge(run: str | Path, options: RejudgeOptions) -> Plan[Rejudged]:
    """Check the options of `rejudge`, and choose the folder; nothing is asked."""
    (judge,) = make_judges(options.judge, options.cache, is_stored=True)
    folder = Path(run)
    task, before = _task(folder, judge, Budget.of(options.budget))
    (voice,) = task.voices
    storage = Storage.of(options.out)
    place = storage.out or folder.with_name(f"{folder.name}-by-{slug(str(voice.name))}")
    return replace(prepare(task, replace(storage, out=place), Rejudging), given=before)


def _task(folder: Path, judge: Judge, budget: Budget) -> tuple[Repeated, list[Judgement]]:
    """The task that puts a run's questions to another voice, and the run's answers with named voices."""
    configuration, items = read_configuration(folder), stored_items(folder)
    identity = configuration["identity"]
    answered = [one for one in read_judgements(folder) if not one.failed]
    if not answered:
        raise StoreError(f"{folder} holds no answers, so there is nothing to judge again; run its command first")
    stored, wordings = identity["prompt"], configuration.get("wording")
    if "criteria" in stored:
        raise StoreError(
            f"{folder} is of several criteria, and a run is judged again by one; run comparo rank with another judge"
        )
    prompt = Prompt(stored["template"], tuple(stored["labels"]), stored["answer"], wordings)
    voices = stored_voices(identity, identity["judge"])
    changed = configuration.get(CHANGED) or {}
    voices = voices | {name: voices[one["voice"]] for name, one in changed.items()}
    name = f"{judge.name} again" if judge.name in voices else judge.name
    first_voice = next(iter(voices))
    before = [with_voice(one, one.question.voice or first_voice) for one in answered]
    asked = ((one.question.context, one.question.first, one.question.second) for one in before)
    within = pairs_within(budget, asked, items)
    pairs = {context: [(*pair, name) for pair in own] for context, own in within.items()}
    method = configuration["method"]
    task = Repeated(
        items,
        prompt,
        judge,
        budget,
        orders=identity["orders"],
        method=None if method in ESTIMATES else method,
        bias=configuration["bias"],
        plain=configuration.get("plain", True),
        panel=(Voice(name, judge, prompt),),
        pairs=pairs,
        may_grow=False,
        stored={**identity, "voices": voices},
    )
    return task, before


def pairs_within(budget: Budget, asked: Iterable[tuple[Any, Any, Any]], items: Items) -> dict[Any, list[Pair]]:
    """The pairs by context of the first distinct questions (context, first, second) that a budget allows."""
    keys = list(dict.fromkeys(asked))
    most = {"": budget.number, "n": budget.number * len(items), "%": budget.number / 100 * len(keys)}
    pairs: dict[Any, list[Pair]] = {context: [] for context in items.names}
    for context, first, second in keys[: math.ceil(most.get(budget.unit, len(keys)))]:
        pairs[context].append((first, second))
    return pairs


def read_template(template: str) -> list[str] | None:
    """[kind of text, heading, criterion] of a template in a known wording; None for a user's own template."""
    found = next(filter(None, (wording.read(template) for wording in WORDINGS.values())), None)
    return None if found is None else [part.replace("{{", "{").replace("}}", "}") for part in found]


class Rejudging(Experiment[Rejudged]):
    """The questions of a run are asked again."""

    def result(self) -> Rejudged:
        return _compared(self.run)


def _compared(run: Run) -> Rejudged:
    """Ask all questions, and compare the answers with those from before."""
    ranking, task = run.finish(), run.task
    answered = [one for one in run.judgements if not one.failed]
    (voice,) = task.voices
    new = {key_of(one.question)[:3]: one for one in answered if one.question.voice == voice.name}
    old = [one for one in answered if one.question.voice != voice.name]
    told: dict[Any, list[float]] = {}
    for one in old:
        told.setdefault(key_of(one.question)[:3], []).append(one.p)
    mean = {key: float(np.mean(values)) for key, values in told.items()}
    pairs = [(mean[key], one.p) for key, one in new.items() if key in mean]
    both = [pair for pair in pairs if 0.5 not in pair]
    agree = float(np.mean([(p > 0.5) == (q > 0.5) for p, q in both])) if both else math.nan
    others = old if len({one.question.voice for one in old}) > 1 else map(with_voice, old)
    was, now = comparisons(others), comparisons(map(with_voice, new.values()))
    fitting = replace(task.fitting, estimate="judge")
    before, after = fitting.rank(was), fitting.rank(now)
    earlier, later = _scores(task, before), _scores(task, after)
    items = task.items
    by_context = spearman_within(earlier, later, items.context, len(items.contexts))
    spearman = mean_known(by_context)
    flips = count_flips(was).share, count_flips(now).share
    return Rejudged(ranking, before, after, spearman, agree, len(both), flips, str(voice.name))


def _scores(task: Task, ranking: Ranking) -> Array:
    """The score of each item of a task, (N,); nan for one that was not compared."""
    items = task.items
    row = look_up(items.labels, ranking.solution.labels)
    return np.asarray(np.where(row < 0, np.nan, ranking.scores[row]))
