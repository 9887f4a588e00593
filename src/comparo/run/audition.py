"""An audition: every voice is asked the same few pairs in both orders, which shows its content, without a label.

A voice is a judge with a wording and, where line-ups are asked for, a number of texts. Voices of line-ups are asked
about the same texts, each as often as in the pairs.

Answers alone do not show which voice agrees best with people; what correlates with that is content, the share of an
answer that is about the texts rather than about their order or noise (docs/panel.md). A run may begin with the answers
of an audition: those of the voices that it has too (same judge, settings and prompt) count within its budget and are
not asked again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from comparo.data.items import Items
from comparo.data.prompts import Prompt
from comparo.data.wordings import all_wordings
from comparo.run.audition_table import Answers, Audition, judged
from comparo.run.budget import Budget, links_of, rounded
from comparo.run.plan import Plan, Storage, prepare
from comparo.run.progress import Watch
from comparo.run.scheduling import Pair
from comparo.run.task import DEFAULT_JUDGE, DEFAULT_LEAST_MASS, Task
from comparo.run.voice_allocation import Source
from comparo.run.voices import Asked, Voice, check_lineup, listed, make_judges, make_prompts, voices_of
from comparo.selection.lineups import LineupSelector
from comparo.selection.selector import Selector

PAIRS = 20  # for each voice; 80% of the gap to the best voice is closed with n calls to all voices (docs/panel.md)
FEWEST = 15  # pairs: a voice of fewer than 30 answers has no variances of its own
EACH = 5  # pairs of a context, where there are many
LOOPS = 2 / 3  # comparisons that connect the texts, of all: the others tell noise from taste


def audition(
    data: Any,
    criterion: str | None = None,
    *,
    judge: Asked | Sequence[Asked] = DEFAULT_JUDGE,
    wording: str | Sequence[str] | None = None,
    pairs: int = PAIRS,
    lineup: int | Sequence[int] = 2,
    kind: str = "Text",
    prompt: str | Prompt | Sequence[Prompt] | None = None,
    seed: int = 0,
    least_mass: float = DEFAULT_LEAST_MASS,
    out: str | Path | Storage | None = None,
    cache: str | Path | None = None,
    watch: Watch = None,
) -> Audition:
    """Ask every voice the same few pairs in both orders, and say which to use.

    Parameters
    ----------
    data, criterion, kind, prompt, judge, least_mass, out, cache, watch
        As for `rank`. Every judge with every wording is a voice.
    wording
        Names of wordings, or "all" for all that can put the criterion.
    pairs
        How many pairs each voice is asked, of some contexts and texts chosen by `seed`.
    lineup
        Numbers of texts that a call is about, such as (2, 4): a voice for each. Line-ups show as many texts as pairs.

    Returns
    -------
    Audition

    Raises
    ------
    ValueError
        If there are fewer than 15 pairs, or as for `rank`.
    JudgeError, RunError, StoreError
        As for `rank`.

    Examples
    --------
    >>> from comparo.judges import load_judge
    >>> quality = {f"story {k}": k / 3 for k in range(20)}
    >>> good = load_judge("simulated/soft", scores=quality)
    >>> lost = load_judge("simulated/soft", scores=quality, strength=0.1, bias=3.0)
    >>> found = audition({name: f"About {name}." for name in quality}, "better", judge=[lost, good])
    >>> found.best, found.notes
    ('simulated/soft 2', ("'simulated/soft 1' answers mostly by position: 96% of an answer is about the order",))
    """
    items, wordings = Items.of(data), all_wordings(criterion) if wording == "all" else wording
    prompts = make_prompts(items, criterion, prompt, judge, wordings, kind=kind)
    judges = make_judges(judge, cache, is_stored=out is not None)
    voices = voices_of(judges, resized(prompts, listed(lineup)))
    return prepare_audition(items, voices, pairs, Storage.of(out), seed=seed, least_mass=least_mass).run(watch)


@dataclass(frozen=True)
class Trial(Task):
    """The task of an audition: some of the items, and the same pairs, or line-ups, for every voice.

    Where it is the first part of a run, that makes up to `whole` calls in all.
    """

    whole: int = 0


@dataclass
class AuditionPlan:
    """A `Plan` whose result is an `Audition`."""

    base: Plan

    def run(self, watch: Watch = None) -> Audition:
        """Ask every voice the same pairs."""
        with self.base.started(watch) as run:
            run.ask_alike()
            ranking = run.finish()
        trial, folder = self.base.task, self.base.folder
        identities = {voice.name: json.loads(json.dumps(voice.identity, default=str)) for voice in trial.voices}
        answers = Answers("the audition" if folder is None else str(folder), trial.items, identities, run.judgements)
        return judged(ranking, answers, trial)


def prepare_audition(
    items: Items,
    voices: tuple[Voice, ...],
    pairs: int,
    storage: Storage,
    *,
    seed: int,
    least_mass: float,
    whole: int = 0,
) -> AuditionPlan:
    """Choose some of the items, and check that every voice can be asked so many pairs of them; nothing is asked."""
    if pairs < FEWEST:
        raise ValueError(f"an audition needs at least {FEWEST} pairs for each voice, not {pairs}")
    trial = Trial(
        some_items(items, pairs, np.random.default_rng(seed), max(voice.prompt.size for voice in voices)),
        voices[0].prompt,
        voices[0].judge,
        Budget.of(2 * pairs * len(voices)),
        seed=seed,
        least_mass=least_mass,
        estimate="judge",
        panel=voices if len(voices) > 1 else (),
        may_grow=False,
        title="An audition of the wordings: " if whole else "",
        whole=whole,
    )
    if trial.largest > 2:
        trial = replace(trial, pairs=lineup_pairs(trial, pairs))
        trial = replace(trial, budget=Budget.of(trial.expense.calls))
    return AuditionPlan(prepare(trial, storage))


def lineup_pairs(trial: Task, each: int) -> dict[Any, list[Pair]]:
    """The questions to each voice by context: `each` pairs in both orders, or line-ups of as many texts."""
    trial.check_lineups({context: len(ids) for context, ids in trial.items.names.items()})
    asked: dict[Any, list[Pair]] = {}
    names, rng = trial.items.names, np.random.default_rng(trial.seed)
    texts = {context: 4 * each * len(ids) / len(trial.items) for context, ids in names.items()}
    for size in sorted({voice.prompt.size for voice in trial.voices}):
        voices = [voice.name for voice in trial.voices if voice.prompt.size == size]
        shown = 4 if size == 2 else size  # texts in both orders of a pair, or in a line-up
        numbers = rounded({context: number / shown for context, number in texts.items()})
        for context, ids in names.items():
            number = max(numbers[context], links_of(len(ids), len(ids), size))
            if size == 2:
                contrast = trial.fitting.contrast[context] if trial.weighs_pairs else None
                source: Source = Selector(ids, orders="both", contrast=contrast, seed=rng)
                number *= 2
            else:
                source = LineupSelector(ids, size, seed=rng)
            chosen = source.next(min(number, source.remaining or 0))
            own = [(*one, voice) if voice else one for one in chosen for voice in voices]
            asked.setdefault(context, []).extend(own)
    return asked


def resized(prompts: Sequence[Prompt], sizes: Sequence[int]) -> list[Prompt]:
    """Every prompt about each of these numbers of texts; a ValueError where one is not from 2 to 8, or there twice."""
    for size in sizes:
        check_lineup(size, {"audition": True})
    if len({*sizes}) < len(sizes):
        raise ValueError(f"lineup={', '.join(map(str, sizes))}: one of them is there twice; give each once")
    return [prompt.resized(size) for prompt in prompts for size in sizes]


def some_items(items: Items, pairs: int, rng: np.random.Generator, size: int = 2) -> Items:
    """Some contexts, and some items of each, that so many pairs connect with a third of them to spare.

    Where a call is about `size` > 2 texts, there are contexts so few that two line-ups connect the items of each.
    """
    contexts = list(items.groups.values())
    count = min(len(contexts), max(1, pairs // EACH), max(1, int(LOOPS * pairs / (2 * (size - 1)))))
    chosen = sorted(rng.choice(len(contexts), count, replace=False).tolist())
    most = int(LOOPS * pairs / count) + 1
    rows = [np.sort(rng.permutation(contexts[context])[:most]) for context in chosen]
    return items.take(np.concatenate(rows))
