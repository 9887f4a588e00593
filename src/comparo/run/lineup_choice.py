"""How many texts a call is about: a pilot asks some texts in pairs and in line-ups, and sees what a token shows.

For each number k of texts, the mixed model of the pilot's answers has the variance v of the scores and the noise φ of
the difference of two texts, after slot effects are taken out. A call about k texts gives f observations of such
differences (`Comparisons.freedom`: 1 for a pair, k − 1 for the log-probabilities of k labels), so that

    f·v / (φ·tokens)

is how much of the scores a token shows: `rate`. v/φ does not depend on the scale of the answers, which differs with k.
The rates of a pilot have errors of a quarter and more, and at equal rates more texts agree better with people
(docs/measurements/lineups.md): so the largest line-up is taken whose rate is at least `ENOUGH` of the best.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from comparo.data.comparisons import Comparisons
from comparo.data.items import Items
from comparo.data.lineups import MOST
from comparo.data.run_folder import key_of
from comparo.judges import Judgement
from comparo.methods import quiet_fit
from comparo.model.likelihoods.bradley_terry import LOGISTIC
from comparo.model.observations import are_choices
from comparo.ranking.ranking import Ranking
from comparo.run.budget import Budget
from comparo.run.plan import Plan, Storage, prepare
from comparo.run.progress import Watch
from comparo.run.task import Task
from comparo.run.voices import comparisons

SIZES = (2, 3, 4, 6)  # numbers of texts that a pilot tries
SHOWN = 120  # texts that each number of texts shows in the pilot: 60 pairs, 30 line-ups of four
# Texts in the pilot, in as few contexts as hold them: log rates then have errors of 0.25, of choices 0.7 (simulated).
PILOT = 12
ENOUGH = 0.5  # of the best rate: with errors of 0.35 in the logarithm of a ratio, equal rates fall below in 2.5%
LARGEST_SHARE = 0.5  # of the budget for the pilot
USUAL_WINDOW = 4096  # tokens that every current model reads

logger = logging.getLogger(__name__)


def check_lineup(lineup: int | str, used: Mapping[str, bool]) -> None:
    """Raise a ValueError where `lineup` is no number of texts, or does not go with an option that is used."""
    if lineup != "auto" and not (isinstance(lineup, int) and 2 <= lineup <= MOST):
        raise ValueError(f"lineup is a number of texts from 2 to {MOST} or 'auto', not {lineup!r}")
    if lineup == "auto" and any(used.values()):
        name = next(name for name, is_used in used.items() if is_used)
        raise ValueError(f"lineup='auto' goes by answers of its own and not with {name}=…; give a number of texts")


@dataclass(frozen=True)
class Pilot(Task):
    """The task of a pilot: some of the items, asked about so many texts at a time as its prompt has."""

    @property
    def grows(self) -> bool:
        return False

    @property
    def title(self) -> str:
        return f"A pilot of {self.prompt.size} texts a call: "


class LineupPlan:
    """A pilot for each number of texts, and then a run with the one that it chose.

    `planned` is the task with its whole budget, about pairs. `base` is the plan that is run now.

    Raises
    ------
    ValueError
        If there is nothing to choose, or the pilot takes more than half of the budget.
    """

    def __init__(self, planned: Task, storage: Storage) -> None:
        self.planned, self.storage = planned, storage
        items = some_contexts(planned.items, np.random.default_rng(planned.seed))
        smallest = min(map(len, planned.items.groups.values()))
        sizes = [k for k in SIZES if k <= smallest and (k == 2 or all(map(_lines_up, planned.judges)))]
        tasks = {k: self._pilot(k, items) for k in sizes}
        room = min([judge.settings.get("window") or USUAL_WINDOW for judge in planned.judges])
        self.pilots = {k: self._plan(k, task) for k, task in tasks.items() if k == 2 or task.longest_prompt <= room}
        if len(self.pilots) == 1:
            raise ValueError(
                "lineup='auto' chooses among pairs and line-ups, and only pairs can be asked here: too few texts in a "
                "context, texts too long, or a judge of pairs alone; use lineup=2"
            )
        self.base = self.pilots[2]
        calls = sum(plan.expense.calls for plan in self.pilots.values())
        if calls > LARGEST_SHARE * planned.expense.calls:
            raise ValueError(
                f"lineup='auto' asks {calls:,} questions first, more than half of the {planned.expense.calls:,} that "
                f"the budget allows; allow more, such as budget={2 * calls}, or use lineup=4"
            )

    def _pilot(self, k: int, items: Items) -> Pilot:
        given = {each.name: getattr(self.planned, each.name) for each in fields(Task)}
        given |= {"items": items, "budget": Budget.of(SHOWN // k), "until": None, "votes": None, "control": ()}
        given["orders"] = "one"  # more pairs, which tell noise from scores
        voices = tuple(replace(voice, prompt=voice.prompt.resized(k)) for voice in self.planned.panel)
        return Pilot(**given | {"prompt": self.planned.prompt.resized(k), "panel": voices})

    def _plan(self, k: int, task: Pilot) -> Plan:
        return prepare(task, self.storage.beside(f"pilot-{k}"))

    def run(self, watch: Watch = None) -> Ranking:
        """Ask the pilots, and rank with the number of texts that they chose."""
        rates, answers = {}, dict[int, list[Judgement]]()
        for k, plan in self.pilots.items():
            self.base = plan
            with plan.started(watch) as run:
                run.go()
            answers[k] = [one for one in run.judgements if not one.failed]
            rates[k] = rate(comparisons(answers[k]), plan.expense.tokens / plan.expense.calls)
        best = chosen_size(rates)
        shown = ", ".join(f"{k} texts {rates[k] / max(rates.values()):.0%}" for k in rates)
        logger.warning("Calls are about %d texts, by what a token shows of the scores: %s.", best, shown)
        spent = sum(len(some) for k, some in answers.items() if k != best)
        paid = self.planned.budget.took(one for k, some in answers.items() for one in some if k != best)
        planned = self.planned
        task = replace(
            planned,
            prompt=planned.prompt.resized(best),
            panel=tuple(replace(voice, prompt=voice.prompt.resized(best)) for voice in planned.panel),
            budget=planned.budget.less(spent, paid, planned.expense.calls),
            given=tuple(sorted(answers[best], key=lambda one: repr(key_of(one.question)))),
        )
        notes = {**self.storage.notes, "lineup": {"texts": best, "rates": {str(k): rates[k] for k in rates}}}
        self.base = prepare(task, replace(self.storage, notes=notes))
        return self.base.run(watch)


def chosen_size(rates: Mapping[int, float]) -> int:
    """The largest number of texts whose rate is at least `ENOUGH` of the best.

    >>> chosen_size({2: 1.0, 3: 0.8, 4: 0.6, 6: 0.4})
    4
    """
    return max(k for k in rates if rates[k] >= ENOUGH * max(rates.values()))


def rate(data: Comparisons, tokens: float) -> float:
    """f·v / (φ·tokens), the mean over voices, from the answers about some texts, with so many tokens a call.

    >>> rows = [("a", "b", 0.8), ("b", "c", 0.71), ("c", "a", 0.09), ("b", "a", 0.25), ("c", "b", 0.3), ("a", "c", 0.9)]
    >>> rate(Comparisons.from_rows(rows), 100.0) > rate(Comparisons.from_rows(rows), 200.0) > 0.0
    True
    """
    found = []
    for judge in np.unique(data.judged_by):
        own = data.take(data.judged_by == judge)
        effects = quiet_fit(replace(own, judges=None, judge=None), "mixed").effects
        assert effects is not None
        noise = LOGISTIC if are_choices(own) else effects.noise
        found.append(float(np.sum(own.freedom)) / own.answers * effects.scores / (noise * tokens))
    return float(np.mean(found))


def some_contexts(items: Items, rng: np.random.Generator) -> Items:
    """Up to `PILOT` texts of as few contexts as hold them."""
    rows: list[np.ndarray[Any, Any]] = []
    for place in rng.permutation(len(items.contexts)).tolist():
        if sum(map(len, rows)) >= PILOT:
            break
        rows.append(np.sort(rng.permutation(list(items.groups.values())[place])[:PILOT]))
    return items.take(np.sort(np.concatenate(rows)))


def _lines_up(judge: Any) -> bool:
    return bool(getattr(judge, "lines_up", False))
