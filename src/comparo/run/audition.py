"""An audition: every voice is asked the same few pairs in both orders, and shows what it is worth, without a label.

A voice is a judge with a wording. Which voice agrees best with people cannot be seen from answers alone; what goes with
it is content, the share of an answer that is about the texts rather than about their order or noise (docs/panel.md).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from comparo.analysis.correlations import mean_known
from comparo.analysis.reliability import Jackknife
from comparo.data.items import Items
from comparo.data.prompts import Prompt
from comparo.data.wordings import PAPER_WORDING, WORDINGS
from comparo.model.design import Design
from comparo.model.estimators.panel import NEARLY
from comparo.model.estimators.panel_members import Heard, hear
from comparo.ranking.grouping import control_of
from comparo.ranking.ranking import Ranking
from comparo.run.audition_result import BLIND, Answers, Audition
from comparo.run.budget import Budget
from comparo.run.loop import Run, logger
from comparo.run.starting import Asked, Folder, Start, listed, make_judges, make_prompt, reader_among
from comparo.run.task import DEFAULT_JUDGE, DEFAULT_LEAST_MASS, Task
from comparo.run.voices import Voice, voices_of
from comparo.run.watch import Watch

PAIRS = 20  # for each voice; 80% of the gap to the best voice is closed with n calls to all voices (docs/panel.md)
FEWEST = 15  # pairs: a voice of fewer than 30 answers has no variances of its own
EACH = 5  # pairs of a context, where there are many
LOOPS = 2 / 3  # comparisons that connect the texts, of all: the others tell noise from taste
MOSTLY = 0.5  # share of an answer about the order above which position says more than everything else together
LEVEL = 0.95  # of intervals


def audition(
    data: Any,
    criterion: str | None = None,
    *,
    judge: Asked | Sequence[Asked] = DEFAULT_JUDGE,
    wording: str | Sequence[str] | None = None,
    pairs: int = PAIRS,
    kind: str = "Text",
    heading: str | None = None,
    prompt: str | Prompt | Sequence[Prompt] | None = None,
    seed: int = 0,
    least_mass: float = DEFAULT_LEAST_MASS,
    out: Folder = None,
    cache: str | Path | None = None,
    notes: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
    watch: Watch = None,
    say: Callable[[str], None] = logger.warning,
    finish: Callable[[Run], Ranking] = Run.finish,
) -> Audition:
    """Ask every voice the same few pairs in both orders, and say which to use.

    Parameters
    ----------
    data, criterion, kind, heading, prompt, judge, options, least_mass, out, cache, notes, watch, say
        As for `rank`. Every judge with every wording is a voice.
    wording
        Names of wordings, or "all" for all that can put the criterion.
    pairs
        How many pairs each voice is asked, of some contexts and texts chosen by `seed`.
    finish
        Called with the `Run` to complete it and return its ranking.

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
    if pairs < FEWEST:
        raise ValueError(f"an audition needs at least {FEWEST} pairs for each voice, not {pairs}")
    items, named = Items.of(data), reader_among(judge)
    wordings = all_wordings(criterion) if wording == "all" else listed(wording)
    words = partial(make_prompt, kind=kind, heading=heading)
    prompts = [words(items, criterion, each, named, wording=way) for each in listed(prompt) for way in wordings]
    voices = voices_of(make_judges(judge, options, cache), prompts)
    return hold(trial_of(items, voices, pairs, seed, least_mass), Start(out, False, notes, watch, say, finish))


@dataclass(frozen=True)
class Trial(Task):
    """The task of an audition: some of the items, and the same pairs for every voice.

    Where it is the first part of a run, that makes up to `whole` calls in all.
    """

    whole: int = 0


def trial_of(
    items: Items, voices: tuple[Voice, ...], pairs: int, seed: int, least_mass: float, whole: int = 0
) -> Trial:
    """The task of asking every voice so many pairs of some of the items, in both orders."""
    some, budget = some_items(items, pairs, np.random.default_rng(seed)), Budget.of(2 * pairs * len(voices))
    several = voices if len(voices) > 1 else ()
    return Trial(
        some,
        voices[0].prompt,
        voices[0].judge,
        budget,
        seed=seed,
        least_mass=least_mass,
        estimate="judge",
        panel=several,
        whole=whole,
    )


def hold(trial: Trial, start: Start) -> Audition:
    """Ask the questions of an audition, and say what the voices showed."""
    runs: list[Run] = []

    def ask(run: Run) -> Ranking:
        runs.append(run)
        run.ask_alike()
        return start.finish(run)

    ranking = replace(start, finish=ask).go(trial)
    identities = {voice.name: json.loads(json.dumps(voice.identity, default=str)) for voice in trial.voices}
    folder = runs[0].store.folder
    answers = Answers("the audition" if folder is None else str(folder), trial.items, identities, runs[0].judgements)
    return _judged(ranking, answers, trial.judge.name)


def some_items(items: Items, pairs: int, rng: np.random.Generator) -> Items:
    """Some contexts, and some items of each, that so many pairs connect with a third of them to spare."""
    contexts = list(items.groups.values())
    count = min(len(contexts), max(1, pairs // EACH))
    chosen = sorted(rng.choice(len(contexts), count, replace=False).tolist())
    most = int(LOOPS * pairs / count) + 1
    rows = [np.sort(rng.permutation(contexts[context])[:most]) for context in chosen]
    return items.take(np.concatenate(rows))


def all_wordings(criterion: str | None) -> list[str]:
    """The wordings that can put a criterion, but for the paper's, which asks as the default without its delimiters.

    >>> all_wordings("more coherent")[:2]
    ['delimited', 'between']
    """
    found = []
    for name, each in WORDINGS.items():
        try:
            each.template(criterion or "", "Text")
        except ValueError:
            continue
        found.append(name)
    return [name for name in found if name != PAPER_WORDING]


def _judged(ranking: Ranking, answers: Answers, judge: str) -> Audition:
    jackknife = Jackknife.of(ranking.comparisons)
    table = jackknife.table(LEVEL) | _length(ranking, answers.items, jackknife.heard)
    if ranking.comparisons.judges is None:
        table["judge"] = np.array([judge], dtype=object)
    names = table["judge"].tolist()
    answered = [one for one in answers.judgements if not one.failed]
    own = [[one for one in answered if len(names) == 1 or one.question.voice == name] for name in names]
    for name in ("mass", "cost", "seconds"):
        table[name] = np.array([mean_known(np.array([getattr(one, name) for one in some])) for some in own])
    order = np.argsort(-table["content"], kind="stable")
    table = {name: values[order] for name, values in table.items()}
    contradicts = np.asarray(table["agreement"] < 0)
    usable = np.flatnonzero(~contradicts) if (~contradicts).any() else np.arange(len(names))
    low, _ = jackknife.lead("content", int(order[usable[0]]), LEVEL)
    close = [row for row in usable[1:].tolist() if not low[order[row]] > 0]
    voices = ranking.voices
    copied = {} if voices is None else dict(zip(voices["judge"].tolist(), voices["copy_of"].tolist(), strict=True))
    panel: list[str] = []
    best, taken = str(table["judge"][usable[0]]), set[str]()
    for row in usable[table["content"][usable] >= NEARLY * table["content"][usable[0]]].tolist():
        name = str(table["judge"][row])
        view = copied.get(name) or name
        if view not in taken and (not panel or table["agreement_low"][row] > 0):
            taken.add(view)
            panel.append(name)
    rivals = tuple(str(table["judge"][row]) for row in close)
    return Audition(table, best, rivals, tuple(panel), _notes(table), ranking, answers)


def _length(ranking: Ranking, items: Items, heard: Heard) -> dict[str, NDArray[Any]]:
    """The share of an answer that the length of the texts explains, with its interval, of each voice, (R,).

    With β the voice's coefficient of x = log₂ characters (`comparo.model.design`) it is 2·β²·Var x / M, of which M is
    the mean square of an answer; the interval is that of β. NaN where no text of a context differs in length.
    """
    data, graph = ranking.comparisons, heard.graph
    control = control_of(data, items.held(["length"]))
    if not control.varies(graph).any():
        return {name: np.full(len(heard.names), np.nan) for name in ("length", "length_low", "length_high")}
    held = [voice.held for voice in hear(data, Design(control=control)).voices]
    beta, error = np.array([[each.coefficient[0], each.std[0]] for each in held if each is not None]).T
    reach = stdtrit(max(graph.nodes - graph.components - 1, 1), 0.5 + LEVEL / 2) * error
    unit = 2 * np.mean(graph.centre(control.values) ** 2) / np.array([sum(voice.parts) for voice in heard.voices])
    ends = unit * np.array([(beta - reach) ** 2, (beta + reach) ** 2])
    low = np.where(np.abs(beta) > reach, np.min(ends, axis=0), 0.0)
    high = np.minimum(np.max(ends, axis=0), 1.0)
    return {"length": np.minimum(unit * beta**2, 1.0), "length_low": np.minimum(low, 1.0), "length_high": high}


def _notes(table: Mapping[str, NDArray[Any]]) -> tuple[str, ...]:
    found = []
    for row, name in enumerate(table["judge"].tolist()):
        if table["agreement_high"][row] < 0:
            found.append(f"'{name}' ranks against the others: look at its wording, or leave it out")
        if table["position"][row] > MOSTLY:
            share = f"{table['position'][row]:.0%}"
            found.append(f"'{name}' answers mostly by position: {share} of an answer is about the order")
        elif table["content_high"][row] < BLIND:
            found.append(f"'{name}' hardly sees the texts: at most {BLIND:.0%} of an answer is about them")
        elif table["content_low"][row] < BLIND:
            found.append(f"'{name}' may be a coin: these answers do not show that it sees the texts; ask more pairs")
    return tuple(found)
