"""An audition asks every voice the same few pairs in both orders and estimates its content, without labels.

A voice is a judge with a wording and, where line-ups are asked for, a number of texts. Voices of line-ups are asked
about the same texts, each as often as in the pairs.

Answers alone do not show which voice agrees best with people; what correlates with that is content, the share of an
answer that is about the texts rather than about their order or noise (docs/panel.md). A run may begin with the answers
of an audition: answers of voices that the run also has (same judge, settings and prompt) count within its budget and
are not asked again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comparo.analysis.correlations import mean_known
from comparo.analysis.reading import lead, reading
from comparo.analysis.reliability import MEASURES, Jackknife
from comparo.data.grammar import accepts, part
from comparo.data.items import Items
from comparo.data.run_folder import key_of
from comparo.errors import Message
from comparo.judges import Judgement
from comparo.log.configuration import differences
from comparo.log.files import as_json
from comparo.log.rows import texts_of
from comparo.log.store import read_configuration, read_judgements, stored_items
from comparo.model.tuning import NEARLY
from comparo.options import AuditionOptions, ColumnOptions, Storage, TaskOptions
from comparo.ranking.display import contradictions
from comparo.ranking.ranking import Ranking
from comparo.ranking.tabular import json_rows
from comparo.rounding import TIES
from comparo.run.budget import Budget, links_of, rounded
from comparo.run.loop import Experiment, Run
from comparo.run.plan import Plan, prepare
from comparo.run.resume import answers_about
from comparo.run.rounds import Pair
from comparo.run.task import Task
from comparo.run.voice_allocation import Source
from comparo.run.voices import Voice, comparisons, listed, make_voices, stored_voices
from comparo.selection.lineups import LineupSelector
from comparo.selection.selector import Selector
from comparo.types import Array

FEWEST = 15  # pairs: a voice of fewer than 30 answers has no variances of its own
EACH = 5  # pairs of a context, where there are many
LOOPS = 2 / 3  # share of comparisons that connect the texts; the others separate noise from taste
MOSTLY = 0.5  # share of position in an answer above which it outweighs everything else together
LEVEL = 0.95  # of intervals
OPEN = "not yet known"  # whether a voice reads
LEAST_MORE, MOST_MORE = (
    1.5,
    10,
)  # times the pairs that are suggested: fewer hardly change anything, and more are hardly worth it
ROUND = 10  # suggested pairs are a multiple of it


@accepts(AuditionOptions)
def audition(data: Any, options: AuditionOptions) -> Audition:
    """Ask every voice the same few pairs in both orders, and say which to use.

    Parameters
    ----------
    data, criterion, kind, prompt, judge, least_mass, out, cache, watch
        As for `rank`. Every judge with every wording is a voice.
    id, text, context, context_id, group, scores
        The names of columns, as for `rank`.
    wording
        Names of wordings, or "all" for all that can put the criterion.
    pairs
        How many pairs each voice is asked, of some contexts and texts chosen by `seed`.
    lineup
        Numbers of texts per call, such as (2, 4): a voice for each. Pairs and line-ups show equally many texts.

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
    return plan_audition(data, options).run(options.watch)


def plan_audition(data: Any, options: AuditionOptions) -> Plan[Audition]:
    """Choose some of the texts, and check that every voice can be asked `pairs` pairs of them; nothing is asked."""
    items = Items.of(data, **part(options, ColumnOptions))
    voices = make_voices(items, options, listed(options.lineup))
    pairs = options.pairs
    if pairs < FEWEST:
        raise ValueError(f"an audition needs at least {FEWEST} pairs for each voice, not {pairs}")
    size = max(voice.prompt.size for voice in voices)
    trial = Task(
        some_items(items, pairs, np.random.default_rng(options.seed), size),
        voices[0].prompt,
        voices[0].judge,
        Budget.of(2 * pairs * len(voices)),
        **part(options, TaskOptions),
        estimate="judge",
        panel=voices if len(voices) > 1 else (),
        may_grow=False,
    )
    if trial.largest > 2:
        trial = replace(trial, pairs=lineup_pairs(trial, pairs))
        trial = replace(trial, budget=Budget.of(trial.expense.calls))
    return prepare(trial, Storage.of(options.out), Auditioning)


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
            chosen = source.next(min(number, source.remaining))
            own = [(*one, voice) if voice else one for one in chosen for voice in voices]
            asked.setdefault(context, []).extend(own)
    return asked


def some_items(items: Items, pairs: int, rng: np.random.Generator, size: int = 2) -> Items:
    """Random contexts, and items of each, that two thirds of `pairs` pairs can connect.

    With `size` > 2 texts per call, the contexts are so few that each may have the 2·`size` − 1 texts of two line-ups.
    """
    contexts = list(items.groups.values())
    most_contexts = min(pairs // EACH, int(LOOPS * pairs / (2 * (size - 1))))
    count = min(len(contexts), max(1, most_contexts))
    chosen = sorted(rng.choice(len(contexts), count, replace=False).tolist())
    most = int(LOOPS * pairs / count) + 1
    rows = [np.sort(rng.permutation(contexts[context])[:most]) for context in chosen]
    return items.take(np.concatenate(rows))


@dataclass(frozen=True, eq=False)
class AuditionAnswers:
    """The answers of an audition, the items that they are about, and the identity of each of its voices by name.

    `source` is where they are from, in words for the user.
    """

    source: str
    items: Items
    voices: Mapping[str | None, Mapping[str, Any]]
    judgements: Sequence[Judgement]

    @classmethod
    def read(cls, folder: str | Path) -> AuditionAnswers:
        """The answers in the run folder of an audition; a StoreError for another folder."""
        folder = Path(folder)
        identity = read_configuration(folder)["identity"]
        return cls(str(folder), stored_items(folder), stored_voices(identity), read_judgements(folder))

    def given_to(self, items: Items, voices: Sequence[Voice]) -> tuple[Judgement, ...]:
        """The answers that a run of these items and voices can use, as answers to its own questions.

        Raises
        ------
        ValueError
            If a text of the audition is not among the items or has changed, or no voice was asked.
        """
        self._check_texts(items)
        given = answers_about(items, self.judgements, self._names(voices))
        return tuple(given[key] for key in sorted(given, key=str))  # not in the order in which they came

    def taken(self, given: Sequence[Judgement]) -> dict[str, Any]:
        """The entry of run.json about the answers that a run begins with: source, number, and cost in dollars."""
        costs = [one.cost for one in given if one.cost >= 0]
        return {"source": self.source, "answers": len(given), "cost": sum(costs) if costs else None}

    def _check_texts(self, items: Items) -> None:
        now = texts_of(items)
        for label, texts in texts_of(self.items).items():
            if label not in now or now[label][1:] != texts[1:]:
                how = "is not among" if label not in now else "is another one in"
                problem = f"{self.source} is an audition of other texts: that of {label[1]} {how} these items; "
                raise ValueError(problem + Message("give the items of the audition, or leave {audition} out"))

    def _names(self, voices: Sequence[Voice]) -> dict[str | None, str | None]:
        """The names of the audition's voices in the run, by their names in the audition."""
        wanted = {voice.name: as_json(voice.identity) for voice in voices}
        names: dict[str | None, str | None] = {}
        apart: list[list[str]] = []
        for old, before in self.voices.items():
            for new, now in wanted.items():
                if differing := differences(before, now):
                    apart.append(differing)
                else:
                    names[old] = new
        if not names:
            fewest = sorted(apart, key=len)[0]
            raise ValueError(
                f"none of the voices of this run was asked in {self.source}: {'; '.join(fewest)}; "
                "give the judge, its options, the criterion and the wording of the audition, "
                + Message("or leave {audition} out")
            )
        return names


@dataclass(frozen=True)
class Audition:
    """The result of an audition.

    Parameters
    ----------
    table : A row per voice, the most content first: the columns of `comparo.reliability`, cost (dollars
        for a call), seconds (of a call), nan where not known, texts (of a call), tokens (of a prompt), per_call (f·v/φ,
        the information of a call about the scores), per_token (the same for a thousand tokens) and reads: "yes", "no"
        (it answers like a coin) or "not yet known". At most 5% of coins are taken for readers, and 5% of readers, half
        of whose answers' variance is about the texts, for coins (`comparo.analysis.reading`).
    best : The voice of most content, or with line-ups of most per_token, among those that read and do not contradict
        the others.
    rivals : Voices that are not significantly worse than the best: the 95% interval of the difference contains 0, of g
        (`comparo.analysis.reading`) or with line-ups of log per_token. With any of them, it is too close to call.
    panel : The voices that are nearly as good and have as many texts per call, the best first, without copies of
        another voice and voices whose agreement with the others may be 0 or less.
    ask : How many pairs would probably tell what is not yet known; 0 where nothing is open, or where more than ten
        times as many pairs are needed, or all pairs of the texts were asked.
    notes : Sentences about voices that are reversed, read nothing, are not yet known, or answer mostly by position.
    ranking : The consensus of the voices about the compared texts.
    answers : Their answers, for `rank(…, audition=…)`.
    """

    table: Mapping[str, NDArray[Any]]
    best: str
    rivals: tuple[str, ...]
    panel: tuple[str, ...]
    ask: int
    notes: tuple[str, ...]
    ranking: Ranking
    answers: AuditionAnswers = field(repr=False)

    @property
    def advice(self) -> str:
        """Which voice to use, if any."""
        more = f"Ask about {self.ask} pairs (" + Message("{pairs})")
        if "yes" not in self.table["reads"]:
            end = more + ", or try" if self.ask else "Try"
            return (
                "No judge sees these texts: the answers of none can be told from a coin's, and a ranking by them would "
                "mean little. " + end + " another judge, or another wording."
            )
        if self.rivals:
            most = "shows most for its tokens" if self.has_lineups else "has the most content"
            end = more if self.ask else "More pairs would hardly tell: take the cheapest of them"
            return (
                f"Too close to call: {self.best} {most}, but these answers do not show that it has more "
                f"than {', '.join(self.rivals)}. " + end + "."
            )
        if self.has_lineups:
            return f"Use {self.best}: of all voices, a token shows most of the scores."
        return f"Use {self.best}: of all voices, the largest share of what it says is about the texts."

    @property
    def has_lineups(self) -> bool:
        """Whether some voices were asked about more than two texts."""
        return bool(np.any(self.table["texts"] > 2))

    def to_dict(self) -> dict[str, Any]:
        """All but the ranking and the answers, as a JSON object; the voices are its rows."""
        names: dict[str, Any] = {"best": self.best, "rivals": list(self.rivals), "panel": list(self.panel)}
        names |= {"ask": self.ask, "advice": self.advice, "notes": list(self.notes)}
        return names | {"voices": json_rows(self.table)}


class Auditioning(Experiment[Audition]):
    """Every voice is asked the same pairs."""

    def result(self) -> Audition:
        return _judged(self.run)


def _judged(run: Run) -> Audition:
    """Ask every voice the same pairs, and make the table of the voices."""
    run.finish()
    trial, folder = run.task, run.store.folder
    identities = {voice.name: as_json(voice.identity) for voice in trial.voices}
    source = "the audition" if folder is None else str(folder)
    # By question, not by arrival: parts of the jackknife and permutations are drawn in this order.
    log = sorted(run.judgements, key=lambda one: str(key_of(one.question)))
    answers = AuditionAnswers(source, trial.items, identities, log)
    ranking = trial.fitting.conclude(comparisons(log))
    data = ranking.comparisons
    jackknife = Jackknife.of(data)
    table, voice = jackknife.table(LEVEL), jackknife.heard.voice
    if data.judges is None:
        table["judge"] = np.array([trial.judge.name], dtype=object)
    names = table["judge"].tolist()
    answered = [one for one in answers.judgements if not one.failed]
    own = [[one for one in answered if len(names) == 1 or one.question.voice == name] for name in names]
    for name in ("mass", "cost", "seconds"):
        values = (np.array([getattr(one, name) for one in some]) for some in own)
        table[name] = np.array([mean_known(each) for each in values])
    freedom = np.bincount(voice, data.freedom, len(names)) / table["calls"]
    table |= _calls(own, trial)
    table["per_call"] = freedom * table["content"] / (2.0 * table["noise"])
    table["per_token"] = 1000.0 * table["per_call"] / table["tokens"]
    per_token = freedom / table["tokens"]
    worth = "per_token" if trial.largest > 2 else "content"

    def merit(measures: Array) -> Array:
        content, noise = (measures[MEASURES.index(name)] for name in ("content", "noise"))
        found = content if worth == "content" else np.log(per_token * content / noise)
        return np.asarray(found)

    order = np.argsort(-table[worth], kind="stable")
    judges = {one.name: id(one.judge) for one in trial.voices}
    tests = reading(data, voice, [judges.get(name) for name in names], np.random.default_rng(trial.seed))
    reads, is_open, growth = tests[0][order], tests[1][order], tests[2][order]
    table = {name: values[order] for name, values in table.items()}
    table["reads"] = np.where(reads, "yes", np.where(is_open, OPEN, "no")).astype(object)
    agrees = ~np.asarray(table["agreement"] < 0)
    usable = next(kept for kept in (agrees & reads, reads, agrees, agrees | True) if kept.any())
    top = int(np.argmax(usable))
    ends = jackknife.lead(merit, int(order[top]), LEVEL) if trial.largest > 2 else lead(data, voice, order[top], LEVEL)
    low, high = (end[order] for end in ends)
    close = (usable | (agrees & is_open)) & ~(low > 0) & reads.any()
    close[top] = False
    growth = np.where(is_open, growth, 0.0)
    # The interval of a difference shrinks with the root of the number of pairs.
    growth[close] = np.maximum(growth, ((high - low) / np.maximum(high + low, TIES)) ** 2)[close]
    asked = float(np.nanmax(table["calls"] * table["texts"] / 4))  # pairs
    has_more = trial.expense.calls >= trial.budget.number  # else all pairs of the texts were asked
    within = growth[(growth > 0) & (growth <= MOST_MORE) & has_more]
    ask = ROUND * math.ceil(asked * max([LEAST_MORE, *within]) / ROUND) if len(within) else 0
    voices, copied = ranking.tables.get("voices"), {}
    if voices is not None:
        copied = dict(zip(voices["judge"].tolist(), voices["copy_of"].tolist(), strict=True))
    panel: list[str] = []
    taken: set[str] = set()
    best = str(table["judge"][top])
    is_near = table[worth] >= NEARLY * table[worth][top]
    is_near &= table["texts"] == table["texts"][top]
    for row in np.flatnonzero(usable & is_near).tolist():
        name = str(table["judge"][row])
        view = copied.get(name) or name
        if view not in taken and (not panel or table["agreement_low"][row] > 0):
            taken.add(view)
            panel.append(name)
    rivals = tuple(table["judge"][close].tolist())
    notes = (*_notes(table, asked), *contradictions(jackknife.heard))
    return Audition(table, best, rivals, tuple(panel), ask, notes, ranking, answers)


def _calls(own: Sequence[Sequence[Judgement]], trial: Task) -> dict[str, NDArray[Any]]:
    """Texts per call of each voice, and the mean tokens of its prompt: as counted, else as estimated.

    Voices with too few answers share one row, in which both are nan.
    """
    texts, tokens = np.full(len(own), np.nan), np.full(len(own), np.nan)
    for row, answers in enumerate(own):
        if answers:
            read = [one.tokens_in for one in answers if one.tokens_in > 0]
            texts[row] = len(answers[0].question.items)
            tokens[row] = np.mean(read) if read else trial.mean_tokens[answers[0].question.voice]
    return {"texts": texts, "tokens": tokens}


def _notes(table: Mapping[str, NDArray[Any]], pairs: float) -> tuple[str, ...]:
    found = []
    for row, name in enumerate(table["judge"].tolist()):
        if table["agreement_high"][row] < 0:
            found.append(f"'{name}' ranks against the others: look at its wording, or leave it out")
        if table["position"][row] > MOSTLY:
            share = f"{table['position'][row]:.0%}"
            found.append(f"'{name}' answers mostly by position: {share} of an answer is about the order")
        elif table["reads"][row] == "no":
            found.append(f"'{name}' reads nothing: it answers like a coin, and a reader would have shown")
        elif table["reads"][row] == OPEN:
            found.append(f"whether '{name}' reads is {OPEN}: {pairs:.0f} pairs do not tell its answers from a coin's")
    return tuple(found)
