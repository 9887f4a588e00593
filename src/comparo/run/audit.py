"""Measure a judge's biases with probes: variants of texts whose relative quality is known by construction.

Every probe (`comparo.data.probes`) makes variants of the user's texts, each shown with its original in both orders.
With l₁ and l₂ the logits of P(the variant is preferred) where it is shown first and second,

    preference = (l₁ + l₂) / 2,        position = (l₁ − l₂) / 2.

The position bias is estimated from the pairs of all probes. Every probe gets `START` pairs; the other calls go, round
by round, to the undecided probes with the smallest p-values. In simulation this finds a bias of 0.5 logits as often as
an even allocation of twice the calls (docs/measurements/audit.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import numpy as np
from scipy.special import logit

from comparo.analysis.judge_biases import ROUNDING, ProbeEffects, probe_effects
from comparo.data.covariates import COMPUTED
from comparo.data.grammar import accepts, part
from comparo.data.items import Items
from comparo.data.probes import OBEYS, ORIGINAL, RIVAL, TWIN, TextProbe, bases_of, probes_for, variants_of
from comparo.log.files import write_text
from comparo.options import AuditOptions, ColumnOptions, ProbeOptions, Storage, TaskOptions
from comparo.ranking.self_consistency import CLIPPED
from comparo.run.audit_card import FILE, Audit, AuditCard, Finding
from comparo.run.budget import Budget, Expense
from comparo.run.loop import Experiment, Run
from comparo.run.plan import Plan, prepare
from comparo.run.progress import Watch
from comparo.run.task import Task
from comparo.run.voices import Voice, count_cached, make_voices
from comparo.types import Array

START = 3  # first pairs of every probe
RIVALS = 4  # pairs of two real texts
TOP = 2  # probes per round; 1 and 3 find as many biases, 6 fewer (docs/measurements/audit.md)
ROUNDS = 20  # texts that are varied at most
FEWEST = 4  # texts that are varied at least
PLACES = 9  # decimals of p; probes equal up to them are tied, so that rounding chooses nothing
SETTLED = 0.001  # adjusted p below which a probe needs no further pairs; at 0.01, 6.5% of audits of noise find a bias


@accepts(AuditOptions)
def audit(data: Any, options: AuditOptions) -> Audit:
    """Measure a judge's biases with variants of the texts whose relative quality is known by construction.

    Parameters
    ----------
    data, criterion, kind, prompt, judge, least_mass, out, cache, watch
        As for `rank`. Every judge with every wording has a card of its own; with `out`, several have folders in it.
    id, text, context, context_id, group, scores
        The names of columns, as for `rank`.
    wording
        Names of wordings.
    calls
        How many questions each judge is asked at most, two per pair.
    seed
        The seed of the choice of texts and of their variants.

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
    return plan_audit(data, options).run(options.watch)


@dataclass(frozen=True)
class AuditTask(Task):
    """The pairs of an audit, each in a context of its own; `calls` limits the questions of the whole audit.

    `counts[k]` is the number of texts that `probes[k]` varies.
    """

    calls: int = 0
    probes: tuple[TextProbe, ...] = ()
    counts: tuple[int, ...] = ()

    @property
    def subject(self) -> str:
        return f"{len(self.probes)} probes of {max(self.counts)} texts"

    @property
    def injections(self) -> str:
        """Empty: some probes address the judge on purpose."""
        return ""

    @cached_property
    def expense(self) -> Expense:
        """The expense of `calls` questions, not of all pairs that may be asked."""
        every = super().expense
        calls = min(self.calls, every.calls)
        share = calls / every.calls
        return replace(every, calls=calls, tokens=round(share * every.tokens), cost=share * every.cost)


def plan_audit(data: Any, options: AuditOptions) -> AuditPlan:
    """Make the probes of every voice, and check that there are enough texts and calls; nothing is asked."""
    items, storage = Items.of(data, **part(options, ColumnOptions)), Storage.of(options.out)
    voices, plans = make_voices(items, options), []
    for voice in voices:
        place = storage
        if len(voices) > 1:
            slug = "".join(sign if sign.isalnum() else "-" for sign in str(voice.name))
            out = None if storage.out is None else storage.out / slug
            place = replace(storage, out=out, name=None if storage.name is None else f"{storage.name}-{slug}")
        plans.append(prepare(_task(items, voice, options), place, Auditing))
    return AuditPlan(plans, plans[0])


def _task(items: Items, voice: Voice, options: ProbeOptions) -> AuditTask:
    rng = np.random.default_rng(options.seed)
    bases = bases_of(items, voice.prompt, ROUNDS, rng)
    if len(bases) < FEWEST:
        raise ValueError(f"an audit varies at least {FEWEST} different texts, not {len(bases)}; give more texts")
    variants = {probe: variants_of(probe, bases, rng) for probe in probes_for(bases)}
    variants = {probe: made for probe, made in variants.items() if len(made) >= START}
    probes, counts = tuple(variants), tuple(map(len, variants.values()))
    least = 2 * sum(map(_first, probes, counts))
    if options.calls < least:
        raise ValueError(f"an audit with {len(probes)} probes takes at least {least} calls, not {options.calls}")
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
    how: dict[str, Any] = {"plain": True, "estimate": "judge", "may_grow": False, **part(options, TaskOptions)}
    how |= {"calls": options.calls, "probes": probes, "counts": counts}
    return AuditTask(made, voice.prompt, voice.judge, Budget.of("100%"), **how)


def _places(probes: Sequence[TextProbe], counts: Sequence[int]) -> list[tuple[int, int]]:
    """(round, probe number) of every pair that may be asked; pairs that are asked in any case come first."""
    always, later = [], []
    for turn in range(max(counts)):
        for k, (probe, count) in enumerate(zip(probes, counts, strict=True)):
            if turn >= count:
                continue
            if turn < _first(probe, count):
                always.append((turn, k))
            if turn >= START and probe.name not in (TWIN, RIVAL):
                later.append((turn, k))
    return always + later


def _first(probe: TextProbe, texts: int) -> int:
    """The number of pairs of a probe that are asked in any case."""
    return min(RIVALS if probe.name == RIVAL else START, texts)


@dataclass
class AuditPlan:
    """The plans of all voices; `run` returns an `Audit`, and `base` is the plan that is running."""

    plans: Sequence[Plan[AuditCard]]
    base: Plan[AuditCard]

    def run(self, watch: Watch = None) -> Audit:
        """Ask every voice about its probes, one voice after the other."""
        cards = []
        for plan in self.plans:
            self.base = plan
            cards.append(plan.run(watch))
        for card, plan in zip(cards, self.plans, strict=True):
            if plan.folder is not None:
                own = Audit((card, *(other for other in cards if other is not card)))
                write_text(plan.folder / FILE, own.to_json() + "\n")
        return Audit(tuple(cards))


class Auditing(Experiment[AuditCard]):
    """The answers to earlier rounds decide which probes get another pair."""

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        assert isinstance(run.task, AuditTask)
        self.task, self.probes = run.task, run.task.probes
        self.counts, self.turns = run.task.counts, max(run.task.counts)
        places = _places(self.probes, self.counts)
        self.place = dict(zip(run.task.items.contexts.tolist(), places, strict=True))
        self.choices = cache(self._choose)

    def may_begin(self, context: Any) -> bool | None:
        """Whether the pair of `context` is asked; None while this depends on missing answers."""
        turn, number = self.place[context]
        if turn < _first(self.probes[number], self.counts[number]):
            return True
        if self.run.progress.answered + self.run.progress.failed < self._asked(turn):
            return None
        return self.probes[number].name in self.choices(turn)

    def _asked(self, turn: int) -> int:
        """The number of questions before round `turn`: first pairs of all probes, then those of chosen probes."""
        always = sum(map(_first, self.probes, self.counts))
        return 2 * (always + sum(len(self.choices(before)) for before in range(START, turn)))

    def _choose(self, turn: int) -> set[str]:
        """The names of the probes that get a pair in round `turn`."""
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
        """P(variant preferred), shown first and second, by probe: (pairs, 2) from the first `turns` rounds."""
        found: dict[str, list[list[float]]] = {probe.name: [] for probe in self.probes}
        for context, (turn, number) in self.place.items():
            name = self.probes[number].name
            both = self.run.both_orders(context, name, ORIGINAL, which) if turn < turns else []
            if len(both) == 2 and not math.isnan(sum(both)):
                found[name].append(both)
        return {name: np.array(rows, dtype=np.float64).reshape(-1, 2) for name, rows in found.items()}

    def _effects(self, turns: int, which: int = -1) -> tuple[ProbeEffects, _Scale, dict[str, Array]]:
        """The effects of all probes except rivals in the first `turns` rounds, by first (0) or last (−1) answers."""
        answers = self._answers(turns, which)
        is_whole = all(np.isin(p, (0, 0.5, 1)).all() for p in answers.values())
        scale = _Scale(getattr(self.task.judge, "chooses", False) or is_whole)
        both = {name: scale.of(p) for name, p in answers.items()}
        position = np.concatenate([_position(y) for name, y in both.items() if name != OBEYS])
        # For decisions, pairs whose winner changes with the order depend on γ only: their odds are exp(2γ) for every δ.
        told = position[position != 0] if scale.is_hard else position
        seen = {name: np.mean(y, axis=1) for name, y in both.items()} | {TWIN: told}
        seen[OBEYS] = _position(both[OBEYS]) - np.mean(position)
        probes = [probe for probe in self.probes if probe.right]
        extra = [np.var(position) / len(position) if probe.name == OBEYS else 0.0 for probe in probes]
        values = [seen[probe.name] for probe in probes]
        are_equal = [probe.right == "equal" for probe in probes]
        return probe_effects(values, are_equal, extra, scale.least), scale, answers

    def _step(self, probe: TextProbe) -> float:
        """The mean difference of the probe's control term between variants and originals."""
        items, term, found = self.task.items, COMPUTED[probe.control], []
        for context, (_, number) in self.place.items():
            if self.probes[number] == probe:
                original, variant = (items.texts[row] for row in items.groups[context].tolist())
                found.append(term(variant) - term(original))
        return float(np.mean(found))

    def result(self) -> AuditCard:
        """Ask about the probes, and return the judge's card from all answers."""
        self.run.go()
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
        return AuditCard(self.task.judge.name, self.task.prompt.wording, tuple(findings), spread, *facts)


@dataclass(frozen=True)
class _Scale:
    """The scale of answers: logits of probabilities, or decisions p − ½, whose mean is converted to logits."""

    is_hard: bool

    @property
    def least(self) -> float:
        """The smallest variance of an observation: for decisions, that of the mean of two fair coins."""
        return 0.125 if self.is_hard else ROUNDING

    def of(self, p: Array) -> Array:
        return p - 0.5 if self.is_hard else np.asarray(logit(np.clip(p, CLIPPED, 1 - CLIPPED)))

    def logits(self, mean: float, pairs: int) -> float:
        """A mean in logits; for decisions, the odds of n pairs are at most (2n + ½) : ½."""
        if not self.is_hard:
            return mean
        least = 0.5 / (2 * pairs + 1)
        return float(logit(min(max(0.5 + mean, least), 1 - least)))


def _position(y: Array) -> Array:
    """The preference for the text shown first, (n,): half the difference of both orders (n, 2)."""
    return np.asarray(0.5 * (y[:, 0] - y[:, 1]))
