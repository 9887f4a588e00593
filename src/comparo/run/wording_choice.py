"""--wording auto: the first calls of a run are an audition of wordings, and the rest go to the best of each judge.

Of the ways to use an audition that docs/panel.md compares, giving the rest of the calls to the voice of most content is
the best on recorded wordings. The audition has a folder of its own beside that of the run. How many pairs it asks does
not depend on the budget, so that a larger budget goes on with the same questions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from comparo.judges import Judgement
from comparo.run.audition import PAIRS, Trial, hold, trial_of
from comparo.run.audition_result import Audition
from comparo.run.budget import Budget, dollars
from comparo.run.starting import Folder, Start
from comparo.run.task import Task
from comparo.run.voices import Voice, named_voices

AUTO = "auto"
MOST = 0.5  # of the budget for the audition: the ranking is made of what is left


@dataclass(frozen=True)
class Chosen:
    """The voices that go on, the budget that is left for them, their answers so far, and how the run is started."""

    voices: tuple[Voice, ...]
    budget: Budget
    given: tuple[Judgement, ...]
    start: Start


def choose_wordings(planned: Task, voices: tuple[Voice, ...], start: Start) -> Chosen:
    """Hold an audition of the voices, every judge with every wording, and choose the wording of each judge.

    `planned` is the task with the first wording of each judge and the whole budget.

    Raises
    ------
    ValueError
        Before anything is asked, if there is nothing to choose, or the audition takes more than half of the budget.
    """
    if len(voices) == len(planned.voices):
        raise ValueError("--wording auto chooses among the wordings of a criterion, and there is only one prompt")
    whole = planned.expense()
    trial = trial_of(planned.items, voices, PAIRS, planned.seed, planned.least_mass, whole.calls)
    _check(planned, trial, whole.calls)
    found = hold(trial, replace(start, out=beside(start.out), grows=False))
    wordings = len(voices) // len(planned.voices)
    best = [_best(found, voices[k : k + wordings]) for k in range(0, len(voices), wordings)]
    chosen = named_voices([(voice.judge, voice.prompt) for voice in best if voice is not None])
    given = found.answers.given_to(planned.items, chosen)
    answered = [one for one in found.answers.judgements if not one.failed]
    for voice in chosen:
        who = "" if voice.name is None else f" of {voice.judge.name}"
        start.say(
            f"The wording{who} is {voice.prompt.wording}: of {wordings} that were asked the same {PAIRS} pairs, the "
            "largest share of what it says is about the texts."
        )
    paid = sum(one.cost for one in found.answers.judgements if one.cost > 0) - sum(
        one.cost for one in given if one.cost > 0
    )
    notes = {
        **(start.notes or {}),
        "budget": planned.configuration["budget"],
        "audition": {**found.answers.taken(given), "calls": len(answered)},
    }
    return Chosen(
        chosen, _left(planned.budget, whole.calls, len(answered) - len(given), paid), given, replace(start, notes=notes)
    )


def beside(out: Folder) -> Folder:
    """The folder of the audition of a run: beside that of the run, if it has one; a function chooses it for the task.

    >>> beside("runs/first")
    PosixPath('runs/first-audition')
    """
    if out is None or callable(out):
        return out
    return Path(out).with_name(f"{Path(out).name}-audition")


def _check(planned: Task, trial: Trial, calls: int) -> None:
    """Raise a ValueError if the audition takes too much of the budget, or what is left cannot connect the items."""
    expense, limit = trial.expense(), planned.budget.dollars
    asked = f"--wording auto asks {2 * PAIRS} questions of each of {len(trial.voices)} voices, {expense.calls:,} calls"
    if expense.cost > MOST * limit:
        raise ValueError(
            f"{asked} at about {dollars(expense.cost)}, which is more than half of the budget; allow more, or name "
            "one wording"
        )
    if expense.calls > MOST * calls:
        least = -(-expense.calls // (MOST * len(planned.items)))
        raise ValueError(
            f"{asked}, which is more than half of the {calls:,} that the budget allows; allow more, such as --budget "
            f"{least:.0f}n, or name one wording"
        )
    others = expense.calls - expense.calls * len(planned.voices) // len(trial.voices)
    replace(planned, budget=_left(planned.budget, calls, others, 0.0)).check()


def _left(budget: Budget, calls: int, made: int, paid: float) -> Budget:
    """What is left of a budget of so many calls after some that were made, and paid, for voices that do not go on."""
    return Budget(budget.number - paid, "$") if budget.unit == "$" else Budget(float(calls - made), "")


def _best(found: Audition, voices: Sequence[Voice]) -> Voice | None:
    """The voice of most content that is not reversed, of those of one judge; None where none of them was heard."""
    table = found.table
    rows = [row for row, name in enumerate(table["judge"].tolist()) if any(voice.name == name for voice in voices)]
    upright = [row for row in rows if not table["agreement_high"][row] < 0]
    name = next((str(table["judge"][row]) for row in upright or rows), None)
    return next((voice for voice in voices if voice.name == name), None)
