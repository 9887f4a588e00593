"""A run whose first calls, in folders within its own, choose the number of texts per call.

A pilot asks some texts in pairs and in line-ups. For each number k of texts, the mixed model of the pilot's answers has
the variance v of the scores and the noise φ of the difference of two texts, after slot effects are taken out. A call
about k texts gives f observations of such differences (`Comparisons.freedom`: 1 for a pair, k − 1 for the
log-probabilities of k labels), so that

    f·v / (φ·tokens)

is the information of a token about the scores: `rate`. v/φ does not depend on the scale of the answers, which differs
with k. The rates of a pilot have errors of a quarter and more, and at equal rates more texts agree better with people
(docs/measurements/lineups.md): so the largest line-up is taken whose rate is at least `ENOUGH` of the best.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from comparo.data.comparisons import Comparisons
from comparo.data.items import Items
from comparo.data.prompts import Question
from comparo.data.run_folder import key_of
from comparo.errors import Message
from comparo.judges import Judgement
from comparo.log.files import set_aside
from comparo.log.folders import choose_folder
from comparo.methods import quiet_fit
from comparo.model.likelihoods.bradley_terry import LOGISTIC
from comparo.model.observations import are_choices
from comparo.options import Storage
from comparo.ranking.ranking import Ranking
from comparo.run.budget import Budget
from comparo.run.loop import Experiment
from comparo.run.plan import Plan, prepare
from comparo.run.progress import Watch
from comparo.run.task import Task
from comparo.run.voices import comparisons

SIZES = (2, 3, 4, 6)  # numbers of texts that a pilot tries
SHOWN = 120  # texts shown in the pilot of each size: 60 pairs, 30 line-ups of four
# Texts in the pilot: standard errors of log rates are then 0.25, or 0.7 for choices (simulated).
PILOT = 12
ENOUGH = 0.5  # of the best rate: with standard errors of 0.35 in a log ratio, equal rates fall below in 2.5%
LARGEST_SHARE = 0.5  # of the budget for the pilot: the ranking is made of what is left
USUAL_WINDOW = 4096  # tokens that every current model reads

logger = logging.getLogger(__name__)


class Piloting(Experiment[list[Judgement]]):
    """The answers are all that is wanted."""

    def result(self) -> list[Judgement]:
        """Ask all questions, and return the answers without failures."""
        self.run.go()
        return [one for one in self.run.judgements if not one.failed]


class LineupPlan:
    """A pilot for each number of texts, then a run with the number that the pilots chose.

    `planned` is the task about pairs, with the whole budget; `base` is the current plan; `old` is the folder that is
    set aside first.

    Raises
    ------
    ValueError
        If there is nothing to choose, or the pilot takes more than half of the budget.
    """

    def __init__(self, planned: Task, storage: Storage) -> None:
        self.planned = planned
        items = some_contexts(planned.items, np.random.default_rng(planned.seed))
        smallest = min(map(len, planned.items.groups.values()))
        can_line_up = all(getattr(judge, "lines_up", False) for judge in planned.judges)
        tasks = {k: self._pilot(k, items) for k in SIZES if k <= smallest and (k == 2 or can_line_up)}
        room = min([judge.settings.get("window") or USUAL_WINDOW for judge in planned.judges])
        out = storage.out
        if out is None and storage.name is not None:
            out = choose_folder(storage.name, tasks[2].identity, storage.fresh, inside="pilot-2")
        self.storage = replace(storage, out=out, fresh=False)
        self.old = out if storage.fresh else None
        self.pilots = {
            k: prepare(task, replace(self.storage, out=out and out / f"pilot-{k}"), Piloting)
            for k, task in tasks.items()
            if k == 2 or task.longest_prompt <= room
        }
        if len(self.pilots) == 1:
            why = "too few texts in a context, texts too long, or a judge of pairs alone; "
            raise ValueError(Message("{lineup:'auto'} finds only pairs to ask: ") + why + Message("use {lineup:2}"))
        self.base: Plan[list[Judgement]] | Plan[Ranking] = self.pilots[2]
        self.tasks = {k: self._resized(k) for k in self.pilots}
        if not self._is_enough(planned.budget.number):
            calls = sum(plan.expense.calls for plan in self.pilots.values())
            if not (more := planned.budget.more(self._is_enough)):
                planned.expense_of(planned.budget)  # raises where no budget of this unit can be counted
            raise ValueError(
                Message("{lineup:'auto'} asks ")
                + f"{calls:,} questions first: more than half of what the budget allows, or so many "
                "that the rest cannot connect all texts" + more + Message("; or use {lineup:4}")
            )

    def _is_enough(self, number: float) -> bool:
        """Whether the pilots are at most half of this budget, and the rest connects all texts, whatever they choose."""
        budget, expected = replace(self.planned.budget, number=number), dict[int, list[Judgement]]()
        for k, plan in self.pilots.items():
            made, cost, tokens = plan.expense.calls, plan.expense.cost, plan.expense.tokens
            expected[k] = [Judgement(Question("", ""), p=0.5, cost=cost / made, tokens_in=-(-tokens // made))] * made
        try:
            whole = self.planned.expense_of(budget).calls
            for k, task in self.tasks.items():
                task.expense_of(budget.less(others_of(expected, k), whole))
        except ValueError:
            return False
        return sum(map(len, expected.values())) <= LARGEST_SHARE * whole

    def _resized(self, k: int, **changes: Any) -> Task:
        """The planned task about k texts, with other changes."""
        voices = tuple(replace(voice, prompt=voice.prompt.resized(k)) for voice in self.planned.panel)
        return replace(self.planned, prompt=self.planned.prompt.resized(k), panel=voices, **changes)

    def _pilot(self, k: int, items: Items) -> Task:
        aside: dict[str, Any] = {"may_grow": False, "until": None, "votes": None, "control": (), "first_stage": None}
        # In one order: more pairs, which tell noise from scores.
        return self._resized(k, items=items, budget=Budget.of(SHOWN // k), orders="one", **aside)

    def run(self, watch: Watch = None) -> Ranking:
        """Ask the pilots, and rank with the number of texts that they chose."""
        rates, answers = {}, dict[int, list[Judgement]]()
        if self.old is not None:
            set_aside(self.old)
        for k, pilot in self.pilots.items():
            self.base = pilot
            answers[k] = pilot.run(watch)
            rates[k] = rate(comparisons(answers[k]), pilot.expense.tokens / pilot.expense.calls)
        best = chosen_size(rates)
        shown = ", ".join(f"{k} texts {rates[k] / max(rates.values()):.0%}" for k in rates)
        logger.warning("Calls are about %d texts, by what a token shows of the scores: %s.", best, shown)
        budget = self.planned.budget.less(others_of(answers, best), self.planned.expense.calls)
        given = tuple(sorted(answers[best], key=lambda one: repr(key_of(one.question))))
        notes = {"lineup": {"texts": best, "rates": {str(k): rates[k] for k in rates}}}
        storage = replace(self.storage, notes={**self.storage.notes, **notes})
        self.base = plan = prepare(replace(self.tasks[best], budget=budget, given=given), storage)
        return plan.run(watch)


def others_of(answers: Mapping[int, Sequence[Judgement]], chosen: int) -> list[Judgement]:
    """The answers about other numbers of texts than the `chosen` one."""
    return [one for k, some in answers.items() for one in some if k != chosen]


def chosen_size(rates: Mapping[int, float]) -> int:
    """The largest number of texts whose rate is at least `ENOUGH` of the best.

    >>> chosen_size({2: 1.0, 3: 0.8, 4: 0.6, 6: 0.4})
    4
    """
    return max(k for k in rates if rates[k] >= ENOUGH * max(rates.values()))


def rate(data: Comparisons, tokens: float) -> float:
    """The mean over voices of f·v / (φ·tokens), estimated from comparisons with `tokens` tokens per call.

    >>> rows = [("a", "b", 0.8), ("b", "c", 0.71), ("c", "a", 0.09), ("b", "a", 0.25), ("c", "b", 0.3), ("a", "c", 0.9)]
    >>> rate(Comparisons.from_rows(rows), 100.0) > rate(Comparisons.from_rows(rows), 200.0) > 0.0
    True
    """
    found = []
    for judge in np.unique(data.judged_by):
        own = data.take(data.judged_by == judge)
        effects = quiet_fit(replace(own, judges=None, judge=None), "mixed").solution.effects
        assert effects is not None
        noise = LOGISTIC if are_choices(own) else effects.noise
        found.append(float(np.sum(own.freedom)) / own.answers * effects.scores / (noise * tokens))
    return float(np.mean(found))


def some_contexts(items: Items, rng: np.random.Generator) -> Items:
    """Random contexts, up to `PILOT` texts of each, until there are `PILOT` texts or more."""
    rows: list[np.ndarray[Any, Any]] = []
    for place in rng.permutation(len(items.contexts)).tolist():
        if sum(map(len, rows)) >= PILOT:
            break
        rows.append(np.sort(rng.permutation(list(items.groups.values())[place])[:PILOT]))
    return items.take(np.sort(np.concatenate(rows)))
