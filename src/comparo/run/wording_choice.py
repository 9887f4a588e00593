"""In which wording each judge is asked: a run begins with an audition of wordings, in a folder beside its own.

Each judge is then asked in its wording of most content. The number of pairs does not depend on the budget: a larger
budget continues with the same questions.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from comparo.ranking.ranking import Ranking
from comparo.run.audition import PAIRS, AuditionPlan, prepare_audition
from comparo.run.audition_table import Audition
from comparo.run.budget import Budget, dollars
from comparo.run.plan import Storage, prepare
from comparo.run.progress import Watch
from comparo.run.task import Task
from comparo.run.voices import Voice, named_voices

logger = logging.getLogger(__name__)

AUTO = "auto"
LARGEST_SHARE = 0.5  # of the budget for the audition: the ranking is made of what is left


class AutoPlan(AuditionPlan):
    """The plan of an audition, and then of a run that asks each judge in its wording of most content.

    `planned` is the task with the first wording of each judge and the whole budget, `voices` are all judges with all
    wordings.

    Raises
    ------
    ValueError
        If there is nothing to choose, or the audition takes more than half of the budget.
    """

    def __init__(self, planned: Task, voices: tuple[Voice, ...], storage: Storage) -> None:
        if len(voices) == len(planned.voices):
            raise ValueError("wording='auto' chooses among the wordings of a criterion, and there is only one prompt")
        self.planned, self.voices, self.storage = planned, voices, storage
        aside = storage.beside("audition")
        how: dict[str, Any] = {"seed": planned.seed, "least_mass": planned.least_mass}
        super().__init__(prepare_audition(planned.items, voices, PAIRS, aside, **how, whole=planned.expense.calls).base)
        self._check_share()

    def _check_share(self) -> None:
        """Raise a ValueError if the audition takes too much of the budget, or the rest cannot connect the items."""
        expense, calls, planned = self.base.expense, self.planned.expense.calls, self.planned
        asked = (
            f"wording='auto' asks {2 * PAIRS} questions of each of {len(self.voices)} voices, {expense.calls:,} calls"
        )
        if expense.cost > LARGEST_SHARE * planned.budget.dollars:
            raise ValueError(
                f"{asked} at about {dollars(expense.cost)}, which is more than half of the budget; allow more, or name "
                "one wording"
            )
        if expense.calls > LARGEST_SHARE * calls:
            least = -(-expense.calls // (LARGEST_SHARE * len(planned.items)))
            raise ValueError(
                f"{asked}, which is more than half of the {calls:,} that the budget allows; allow more, such as "
                f"budget='{least:.0f}n', or name one wording"
            )
        others = expense.calls - expense.calls * len(planned.voices) // len(self.voices)
        prepare(replace(planned, budget=self._left(others, 0.0)))

    def run(self, watch: Watch = None) -> Ranking:  # type: ignore[override]
        """Hold the audition, and rank by the wordings that it chose."""
        found = super().run(watch)
        wordings = len(self.voices) // len(self.planned.voices)
        best = [_best(found, self.voices[k : k + wordings]) for k in range(0, len(self.voices), wordings)]
        chosen = named_voices([(voice.judge, voice.prompt) for voice in best if voice is not None])
        given = found.answers.given_to(self.planned.items, chosen)
        answered = [one for one in found.answers.judgements if not one.failed]
        for voice in chosen:
            logger.warning(
                "The wording%s is %s: of %d that were asked the same %d pairs, the largest share of what it says is "
                "about the texts.",
                "" if voice.name is None else f" of {voice.judge.name}",
                voice.prompt.wording,
                wordings,
                PAIRS,
            )
        asked, kept = map(self.planned.budget.took, (found.answers.judgements, given))
        notes = {
            **self.storage.notes,
            "budget": self.planned.configuration["budget"],
            "audition": {**found.answers.taken(given), "calls": len(answered)},
        }
        task = replace(
            self.planned,
            prompt=chosen[0].prompt,
            judge=chosen[0].judge,
            panel=chosen if len(chosen) > 1 else (),
            method="mixed" if self.planned.method == "panel" and len(chosen) == 1 else self.planned.method,
            budget=self._left(len(answered) - len(given), asked - kept),
            given=given,
        )
        self.base = prepare(task, replace(self.storage, notes=notes))
        return self.base.run(watch)

    def _left(self, made: int, paid: float) -> Budget:
        """What is left of the budget after calls that were made, and paid, for voices that do not go on."""
        return self.planned.budget.less(made, paid, self.planned.expense.calls)


def _best(found: Audition, voices: Sequence[Voice]) -> Voice | None:
    """The voice of most content that is not reversed, of those of one judge; None where none of them answered."""
    table = found.table
    rows = [row for row, name in enumerate(table["judge"].tolist()) if any(voice.name == name for voice in voices)]
    upright = [row for row in rows if not table["agreement_high"][row] < 0]
    name = next((str(table["judge"][row]) for row in upright or rows), None)
    return next((voice for voice in voices if voice.name == name), None)
