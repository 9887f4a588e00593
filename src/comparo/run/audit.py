"""An audit: what a judge's preferences are about beside the quality of texts, from probes with a known truth.

Every probe (`comparo.data.probes`) is a variant of the user's own texts, shown beside the original in both orders. With
l₁ and l₂ the logits of P(the variant is preferred) where it is shown first and second,

    preference = (l₁ + l₂) / 2,        position = (l₁ − l₂) / 2.

Position is known from the pairs of all probes together. Every probe gets `START` pairs; the other calls go, round by
round, to the undecided probes whose preferences are the least probable without a bias. In simulation this finds a bias
of 0.5 logits as often as twice the calls that are shared out evenly (docs/measurements/audit.md).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from comparo.analysis.judge_biases import DISCOVERY, ROUNDING, Effects, probe_effects
from comparo.data.control_terms import COMPUTED, Term, combined, number_of
from comparo.data.items import Items
from comparo.data.probes import OBEYS, ORIGINAL, PROBES, RIVAL, TWIN, Probe, bases_of, probes_for, variants_of
from comparo.data.prompts import Prompt
from comparo.ranking.self_consistency import CLIPPED
from comparo.ranking.tabular import plain
from comparo.run.budget import Budget, Expense
from comparo.run.files import write_text
from comparo.run.fit_policy import varies
from comparo.run.loop import Run
from comparo.run.plan import IN_MEMORY, Plan, Storage, prepare
from comparo.run.progress import Watch
from comparo.run.task import DEFAULT_JUDGE, DEFAULT_LEAST_MASS, Task
from comparo.run.voices import Asked, Voice, both_orders, count_cached, make_judges, make_prompts, voices_of
from comparo.types import Array

CALLS = 150
START = 3  # pairs of every probe
RIVALS = 4  # pairs of two real texts
TOP = 2  # probes of a round; 1 and 3 find as many biases, 6 fewer (docs/measurements/audit.md)
ROUNDS = 20  # texts that are varied at most
FEWEST = 4  # texts that are varied at least
PLACES = 9  # of p, beyond which two probes are equal: rounding must not choose
SETTLED = 0.01  # adjusted p below which a probe needs no further pairs
NAMED = 3  # biases in a summary
USUAL = 1.96  # standard errors from the estimate to an end of a 95% interval
FILE = "audit.json"  # in the run folder; the first card is that of the folder's judge
COLUMNS = "probe right pairs effect low high preferred p adjusted relative verdict sentence remedy control step"


def audit(
    data: Any,
    criterion: str | None = None,
    *,
    judge: Asked | Sequence[Asked] = DEFAULT_JUDGE,
    wording: str | Sequence[str] | None = None,
    calls: int = CALLS,
    kind: str = "Text",
    prompt: str | Prompt | Sequence[Prompt] | None = None,
    seed: int = 0,
    least_mass: float = DEFAULT_LEAST_MASS,
    out: str | Path | Storage | None = None,
    cache: str | Path | None = None,
    watch: Watch = None,
) -> Audit:
    """Measure what a judge is biased by, with variants of the texts whose worth is known by construction.

    Parameters
    ----------
    data, criterion, kind, prompt, judge, least_mass, out, cache, watch
        As for `rank`. Every judge with every wording has a card of its own; with `out`, several have folders in it.
    wording
        Names of wordings.
    calls
        How many questions each judge is asked at most, two per pair.
    seed
        Which texts are varied, and how.

    Returns
    -------
    Audit

    Raises
    ------
    ValueError
        If there are fewer than four different texts, too few calls, or as for `rank`.
    JudgeError, RunError, StoreError
        As for `rank`.

    Examples
    --------
    >>> texts = [f"The story of number {k} is short. It ends well." for k in range(20)]
    >>> found = audit(texts, "better", judge=lambda first, second: 0.9 if len(first) > len(second) else 0.4)
    >>> found.cards[0].finding("padded").verdict, found.cards[0].finding("cut off").verdict
    ('bias', 'seen')
    """
    items = Items.of(data)
    prompts = make_prompts(items, criterion, prompt, judge, wording, kind=kind)
    voices = voices_of(make_judges(judge, cache, is_stored=out is not None), prompts)
    return prepare_audit(items, voices, calls, Storage.of(out), seed=seed, least_mass=least_mass).run(watch)


@dataclass(frozen=True)
class AuditTask(Task):
    """The pairs of an audit: a context per probe and text, in which up to `calls` questions are asked.

    `counts` are the numbers of texts that each probe varies.
    """

    calls: int = CALLS
    probes: tuple[Probe, ...] = ()
    counts: tuple[int, ...] = ()

    @property
    def subject(self) -> str:
        return f"{len(self.probes)} probes of {max(self.counts)} texts"

    @property
    def injections(self) -> str:
        """Nothing: some probes are made to address the judge."""
        return ""

    @cached_property
    def expense(self) -> Expense:
        """That of so many questions, and not of all that may be asked."""
        every = super().expense
        calls = min(self.calls, every.calls)
        share = calls / every.calls
        return replace(every, calls=calls, tokens=round(share * every.tokens), cost=share * every.cost)


def prepare_audit(
    items: Items,
    voices: Sequence[Voice],
    calls: int = CALLS,
    storage: Storage = IN_MEMORY,
    *,
    seed: int = 0,
    least_mass: float = DEFAULT_LEAST_MASS,
) -> AuditPlan:
    """Make the probes of every voice, and check that there are enough texts and calls; nothing is asked."""
    plans = []
    for voice in voices:
        place = storage
        if len(voices) > 1:
            slug = "".join(sign if sign.isalnum() else "-" for sign in str(voice.name))
            out = None if storage.out is None else storage.out / slug
            place = replace(storage, out=out, name=None if storage.name is None else f"{storage.name}-{slug}")
        plans.append(prepare(_task(items, voice, calls, seed, least_mass), place))
    return AuditPlan(plans, plans[0])


def _task(items: Items, voice: Voice, calls: int, seed: int, least_mass: float) -> AuditTask:
    rng = np.random.default_rng(seed)
    bases = bases_of(items, voice.prompt, ROUNDS, rng)
    if len(bases) < FEWEST:
        raise ValueError(f"an audit varies at least {FEWEST} different texts, not {len(bases)}; give more texts")
    variants = {probe: variants_of(probe, bases, rng) for probe in probes_for(bases)}
    variants = {probe: made for probe, made in variants.items() if len(made) >= START}
    probes, counts = tuple(variants), tuple(map(len, variants.values()))
    least = 2 * sum(map(_first, probes, counts))
    if calls < least:
        raise ValueError(f"an audit with {len(probes)} probes takes at least {least} calls, not {calls}")
    texts, labels, about, ids = [], [], [], []
    for turn, number in _places(probes, counts):
        probe = probes[number]
        (base, context), variant = variants[probe][turn]
        texts += [base.text, variant]
        labels.append(f"{probe.name} {turn + 1}")
        about.append(context)
        ids += [ORIGINAL, probe.name]
    contexts = np.repeat(np.arange(len(labels), dtype=np.int32), 2)
    made = Items(np.array(ids, dtype=object), tuple(texts), np.array(labels, dtype=object), contexts, tuple(about))
    how: dict[str, Any] = {"plain": True, "estimate": "judge", "may_grow": False, "seed": seed}
    how |= {"least_mass": least_mass, "calls": calls, "probes": probes, "counts": counts}
    return AuditTask(made, voice.prompt, voice.judge, Budget.of("100%"), **how)


def _places(probes: Sequence[Probe], counts: Sequence[int]) -> list[tuple[int, int]]:
    """The round and the probe of every pair that may be asked; those that are asked whatever is answered come first."""
    every = [(turn, k) for turn in range(max(counts)) for k in range(len(probes)) if turn < counts[k]]
    always = [(turn, k) for turn, k in every if turn < _first(probes[k], counts[k])]
    return always + [(turn, k) for turn, k in every if turn >= START and probes[k].name not in (TWIN, RIVAL)]


def _first(probe: Probe, texts: int) -> int:
    """How many pairs of a probe are asked whatever is answered."""
    return min(RIVALS if probe.name == RIVAL else START, texts)


@dataclass
class AuditPlan:
    """The plans of all voices, whose result is an `Audit`; `base` is the plan of the calls that are made now."""

    plans: Sequence[Plan]
    base: Plan

    def run(self, watch: Watch = None) -> Audit:
        """Ask every voice about its probes, one voice after the other."""
        cards = []
        for plan in self.plans:
            self.base = plan
            with plan.started(watch) as run:
                rounds = _Rounds(run)
                run.may_begin = rounds.may_begin
                run.go()
                cards.append(rounds.card())
        for card, plan in zip(cards, self.plans, strict=True):
            if plan.folder is not None:
                own = Audit((card, *(other for other in cards if other is not card)))
                write_text(plan.folder / FILE, own.to_json() + "\n")
        return Audit(tuple(cards))


class _Rounds:
    """Which probes get a further pair, given the answers of the rounds before."""

    def __init__(self, run: Run) -> None:
        assert isinstance(run.task, AuditTask)
        self.run, self.task, self.probes = run, run.task, run.task.probes
        self.counts, self.turns = run.task.counts, max(run.task.counts)
        places = _places(self.probes, self.counts)
        self.place = dict(zip(run.task.items.contexts.tolist(), places, strict=True))
        self.choices = cache(self._choose)

    def may_begin(self, context: Any) -> bool | None:
        """Whether a pair is asked; None while that depends on an answer that is not there yet."""
        turn, number = self.place[context]
        if turn < _first(self.probes[number], self.counts[number]):
            return True
        if self.run.progress.answered + self.run.progress.failed < self._asked(turn):
            return None
        return self.probes[number].name in self.choices(turn)

    def _asked(self, turn: int) -> int:
        """How many questions are asked before a round: those of all probes, and what the rounds chose."""
        always = sum(map(_first, self.probes, self.counts))
        return 2 * (always + sum(len(self.choices(before)) for before in range(START, turn)))

    def _choose(self, turn: int) -> set[str]:
        """The probes that get a pair in a round."""
        left = (self.task.calls - self._asked(turn)) // 2
        count = min(left, max(TOP, math.ceil(left / (self.turns - turn))))
        found, *_ = self._effects(turn, 0)  # first answers: a question that is asked again must not change the rounds
        counted = [count for probe, count in zip(self.probes, self.counts, strict=True) if probe.right]
        names = [probe.name for probe in self.probes if probe.right]
        order = np.argsort(np.round(found.p, PLACES), kind="stable").tolist()
        is_open = (found.adjusted > SETTLED) & (turn < np.array(counted))
        undecided = [names[k] for k in order if is_open[k] and names[k] != TWIN]
        return set(undecided[:count])

    def _answers(self, turns: int, which: int) -> dict[str, Array]:
        """P(the variant is preferred), shown first and second, in the first rounds: (pairs, 2) for each probe."""
        found: dict[str, list[list[float]]] = {probe.name: [] for probe in self.probes}
        for context, (turn, number) in self.place.items():
            name = self.probes[number].name
            both = both_orders(self.run, context, name, ORIGINAL, which) if turn < turns else []
            if len(both) == 2 and not math.isnan(sum(both)):
                found[name].append(both)
        return {name: np.array(rows, dtype=np.float64).reshape(-1, 2) for name, rows in found.items()}

    def _effects(self, turns: int, which: int = -1) -> tuple[Effects, _Scale, dict[str, Array]]:
        """The effects of all probes but the rivals, in the first rounds, by the first (0) or last answers (−1)."""
        answers = self._answers(turns, which)
        is_whole = all(np.isin(p, (0, 0.5, 1)).all() for p in answers.values())
        scale = _Scale(getattr(self.task.judge, "chooses", False) or is_whole)
        both = {name: scale.of(p) for name, p in answers.items()}
        position = np.concatenate([_position(y) for name, y in both.items() if name != OBEYS])
        # Of decisions, pairs whose winner changes with the order tell γ alone: their odds are exp(2γ), whatever δ is.
        told = position[position != 0] if scale.is_hard else position
        seen = {name: np.mean(y, axis=1) for name, y in both.items()} | {TWIN: told}
        seen[OBEYS] = _position(both[OBEYS]) - np.mean(position)
        probes = [probe for probe in self.probes if probe.right]
        extra = [np.var(position) / len(position) if probe.name == OBEYS else 0.0 for probe in probes]
        found = probe_effects(
            [seen[probe.name] for probe in probes], [probe.right == "equal" for probe in probes], extra, scale.least
        )
        return found, scale, answers

    def _step(self, probe: Probe) -> float:
        """How many units of its control the variants of a probe have more than the originals, in the mean."""
        items, found = self.task.items, []
        for context, (_, number) in self.place.items():
            if self.probes[number] == probe:
                original, variant = (items.texts[row] for row in items.groups[context].tolist())
                found.append(number_of(probe.control, variant) - number_of(probe.control, original))
        return float(np.mean(found))

    def card(self) -> Card:
        """What all answers show."""
        found, scale, answers = self._effects(self.turns)
        rivals = np.mean(scale.of(answers[RIVAL]), axis=1) if RIVAL in answers else np.zeros(0)
        spread = math.sqrt(np.mean(rivals**2)) if len(rivals) and not scale.is_hard else math.nan
        findings = []
        for number, probe in enumerate(probe for probe in self.probes if probe.right):
            pairs = int(found.count[number])
            unit = 0.5 if scale.is_hard and probe.name == TWIN else 1.0
            ends = (found.mean[number], found.low[number], found.high[number])
            effect, low, high = (unit * scale.logits(float(end), pairs) for end in ends)
            chances = float(found.p[number]), float(found.adjusted[number])
            relative = abs(effect) / spread if spread > 0 else math.nan
            step = self._step(probe) if probe.control else 0.0
            findings.append(Finding(probe.name, pairs, effect, low, high, *chances, relative, step))
        answered = [one for one in self.run.judgements if not one.failed]
        facts = self.turns, len(answered), count_cached(answered), self.run.progress.cost
        return Card(self.task.judge.name, self.task.prompt.wording, tuple(findings), spread, *facts)


@dataclass(frozen=True)
class _Scale:
    """Logits of a judge's probabilities, or its decisions themselves, of which a mean has a logit."""

    is_hard: bool

    @property
    def least(self) -> float:
        """The least variance of an observation: of decisions in both orders, that of two coins."""
        return 0.125 if self.is_hard else ROUNDING

    def of(self, p: Array) -> Array:
        return p - 0.5 if self.is_hard else np.asarray(logit(np.clip(p, CLIPPED, 1 - CLIPPED)))

    def logits(self, mean: float, pairs: int) -> float:
        """A mean in logits; of decisions, those of n pairs are at most n + ½ to ½."""
        if not self.is_hard:
            return mean
        least = 0.5 / (2 * pairs + 1)
        return float(logit(min(max(0.5 + mean, least), 1 - least)))


def _position(y: Array) -> Array:
    """How much the text shown first is preferred, (n,), from (n, 2)."""
    return np.asarray(0.5 * (y[:, 0] - y[:, 1]))


@dataclass(frozen=True)
class Finding:
    """What a probe shows of a judge.

    Parameters
    ----------
    probe : Its name.
    pairs : How many pairs were answered in both orders.
    effect, low, high : How much the variant is preferred, in logits, and the ends of the 95% interval; for twins, how
        much the text shown first is.
    p, adjusted : How probable such an effect is without a bias, alone and among all probes.
    relative : The effect over the typical difference of two real texts; nan where that is not known.
    step : How many units of `control` the variants have more than the originals, in the mean.
    """

    probe: str
    pairs: int
    effect: float
    low: float
    high: float
    p: float
    adjusted: float
    relative: float
    step: float = 0.0

    @property
    def _probe(self) -> Probe:
        return next(probe for probe in PROBES if probe.name == self.probe)

    @property
    def right(self) -> str:
        """What the variants are against the originals: equal, no better or worse."""
        return self._probe.right

    @property
    def control(self) -> str:
        """The term of a control that holds it equal, "" where there is none."""
        return self._probe.control

    @property
    def preferred(self) -> float:
        """σ(effect), the probability that the variant, or the text shown first, is preferred at equal quality."""
        return float(expit(self.effect))

    @property
    def verdict(self) -> str:
        """ "bias", "none found", "not answered"; of worse variants also "seen", where the originals are preferred."""
        if self.adjusted <= DISCOVERY:
            return "bias"
        if self.right == "worse" and self.high < 0:
            return "seen"
        return "none found" if self.pairs else "not answered"

    @property
    def sentence(self) -> str:
        """The bias in words, "" where there is none."""
        if self.verdict != "bias":
            return ""
        sign, does = (1, self._probe.does) if self.effect >= 0 else (-1, self._probe.against)
        near, far = sorted((sign * self.low, sign * self.high))
        size = abs(self.effect)
        return f"{does}: {size:.2f} logits ({near:.2f} to {far:.2f}), {100 * expit(size):.0f} of 100 at equal quality"

    @property
    def remedy(self) -> str:
        """What helps, "" where there is no bias."""
        return self._probe.remedy if self.verdict == "bias" else ""

    @property
    def row(self) -> dict[str, Any]:
        """All of it by name."""
        return {name: getattr(self, name) for name in COLUMNS.split()}


@dataclass(frozen=True)
class Card:
    """What an audit shows of one judge.

    Parameters
    ----------
    judge, wording : Who was asked, and how.
    findings : Of each probe, in their order.
    spread : The typical difference of two real texts of a context in logits, the root of the mean square.
    texts : How many texts were varied.
    calls, cached, cost : How many answers there are, how many of them came from the cache, and dollars.
    """

    judge: str
    wording: str | None
    findings: tuple[Finding, ...]
    spread: float
    texts: int
    calls: int
    cached: int
    cost: float

    @property
    def name(self) -> str:
        return f"{self.judge} · {self.wording}" if self.wording else self.judge

    @property
    def biases(self) -> list[Finding]:
        """The biases that were found, the largest first."""
        return sorted((one for one in self.findings if one.verdict == "bias"), key=lambda one: -abs(one.effect))

    @property
    def unseen(self) -> list[Finding]:
        """Damage to texts that the judge does not show to see."""
        return [one for one in self.findings if one.right == "worse" and one.verdict == "none found"]

    @property
    def summary(self) -> str:
        """The card in a sentence."""
        found = "; ".join(one.sentence for one in self.biases[:NAMED]) or "no bias found"
        found += f"; and {len(self.biases) - NAMED} more biases" if len(self.biases) > NAMED else ""
        blind = f"; not shown to see: {', '.join(one.probe for one in self.unseen)}" if self.unseen else ""
        return f"{self.name}: {found}{blind}"

    @property
    def terms(self) -> list[str]:
        """Terms of a control, each with the estimate of its probes as the prior of its coefficient."""
        found = []
        for name in COMPUTED:
            # A right dislike of what adds nothing says nothing of other texts.
            own = [one for one in self.findings if one.control == name and one.step and one.pairs]
            own = [one for one in own if one.right == "equal" or one.high > 0]
            if own:
                errors = np.array([(one.high - one.low) / (2 * USUAL) for one in own])
                effects, steps = (np.array([getattr(one, part) for one in own]) for part in ("effect", "step"))
                found.append(str(Term(name, *combined(effects, errors, steps))))
        return found

    def finding(self, probe: str) -> Finding | None:
        """What a probe shows, None where it was not asked."""
        return next((one for one in self.findings if one.probe == probe), None)


@dataclass(frozen=True)
class Audit:
    """The cards of all judges that were asked.

    >>> from comparo.judges import load_judge
    >>> from comparo.run.audit import audit
    >>> likes = {"original": 0.0} | {probe.name: 0.0 for probe in PROBES} | {"padded": 0.8}
    >>> texts = [f"The story of number {k} is short. It ends well." for k in range(20)]
    >>> found = audit(texts, "better", judge=load_judge("simulated/soft", scores=likes, noise=0.3))
    >>> [one.probe for one in found.cards[0].biases], len(found.failures({"padded": 0.5}))
    (['padded'], 1)
    """

    cards: tuple[Card, ...]

    def failures(self, limits: Mapping[str, float]) -> list[str]:
        """The biases that reach the limit of their probe in logits, in words; "any" is the limit of all others."""
        check_limits(limits)
        return [
            f"{card.name}: {one.sentence}"
            for card in self.cards
            for one in card.biases
            if abs(one.effect) >= limits.get(one.probe, limits.get("any", math.inf))
        ]

    def to_columns(self) -> dict[str, NDArray[Any]]:
        """A row per judge and probe."""
        rows = [{"judge": card.name, **one.row} for card in self.cards for one in card.findings]
        return {name: np.array([row[name] for row in rows], dtype=object) for name in rows[0]}

    def to_dict(self) -> dict[str, Any]:
        names = ("judge", "wording", "summary", "spread", "texts", "calls", "cached", "cost")
        cards = []
        for card in self.cards:
            findings = [{name: plain(value) for name, value in one.row.items()} for one in card.findings]
            cards.append({name: plain(getattr(card, name)) for name in names} | {"findings": findings})
        return {"cards": cards}

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False)

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Audit:
        """The audit that `to_dict` wrote."""
        cards = []
        for card in stored["cards"]:
            findings = tuple(_made(Finding, one) for one in card["findings"])
            cards.append(_made(Card, {**card, "findings": findings}))
        return cls(tuple(cards))

    @classmethod
    def read(cls, folder: str | Path) -> Audit:
        """The audit in a run folder.

        Raises
        ------
        ValueError
            If there is none, or it is damaged.
        """
        path = Path(folder) / FILE
        try:
            return cls.of(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{path} holds no audit ({error}); run comparo audit, and name its folder") from error


def _made(kind: Any, stored: Mapping[str, Any]) -> Any:
    """A finding or a card as JSON has it: a number that is not known is null."""
    values = {each.name: stored[each.name] for each in fields(kind)}
    unknown = {name: math.nan for name, value in values.items() if value is None and name != "wording"}
    return kind(**values | unknown)


def _cards_in(control: Sequence[str]) -> dict[str, Card]:
    """The card of each audit among the terms of a control."""
    return {term: Audit.read(term).cards[0] for term in control if (Path(term) / FILE).is_file()}


def audited_terms(control: Sequence[str]) -> tuple[str, ...]:
    """The terms of a control, with the folder of an audit replaced by the terms that it gives."""
    if several := [term for term in control if any(Path(term).glob(f"*/{FILE}"))]:
        raise ValueError(f"{several[0]} holds audits of several judges; name the folder of one of them")
    cards = _cards_in(control)
    return tuple(found for term in control for found in (cards[term].terms if term in cards else [term]))


def audited(control: Sequence[str], judges: Sequence[tuple[str, str | None]]) -> Audit | None:
    """The card of the audit that a control names, None where it names none.

    Raises
    ------
    ValueError
        If it is not of the one judge of a run, and its wording.
    """
    cards = _cards_in(control)
    for folder, card in cards.items():
        if [(card.judge, card.wording)] != list(judges):
            names = " and ".join(f"{judge} ({wording})" if wording else judge for judge, wording in judges)
            raise ValueError(f"{folder} is an audit of {card.name}, and the run is by {names}; audit that")
    return Audit(tuple(cards.values())) if cards else None


def varying(control: Sequence[str], items: Items) -> tuple[str, ...]:
    """The terms but for those with a prior in which all texts of a context are alike."""
    return tuple(term for term in control if term == Term.of(term).name or varies(items, term))


def check_limits(limits: Mapping[str, float]) -> None:
    """Raise a ValueError for a limit of an unknown probe, or one below 0."""
    names = [probe.name for probe in PROBES if probe.right] + ["any"]
    for name, limit in limits.items():
        if name not in names:
            raise ValueError(f"there is no probe {name!r}; there are {', '.join(names)}")
        if not limit >= 0:
            raise ValueError(f"the limit of {name!r} is a number of logits from 0 up, not {limit}")
