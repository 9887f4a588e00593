"""A run by several criteria: one call about a pair gives an answer for each criterion, and each has its ranking.

In the folder, the voice of a judgement is its criterion; the answers of a call are stored in one piece. Pairs are
chosen once for all criteria, from the mean answer of each call, and a budget counts calls. A call in which a criterion
has no answer is asked once more, and only that criterion's answer is kept of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from comparo.data.comparisons import Comparisons
from comparo.data.criteria_prompt import CriteriaPrompt, shares, shares_in, split_weights
from comparo.data.run_folder import key_of
from comparo.errors import Message, StoreError, named
from comparo.judges import Judgement
from comparo.log.store import read_configuration, read_judgements
from comparo.options import RankOptions
from comparo.ranking.criteria_ranking import combine
from comparo.ranking.ranking import Ranking
from comparo.run.voices import Voice, comparisons, with_voice
from comparo.selection.designs import SYSTEM_GOALS


def stored_answers(folder: Path) -> tuple[list[Judgement], dict[str, float]]:
    """The judgements of a run folder, and the share of each of several criteria by its name.

    Raises
    ------
    StoreError
        If a criterion has no answers.
    """
    weights, judgements = shares_in(read_configuration(folder)), read_judgements(folder)
    answered = {one.question.voice for one in judgements if not one.failed}
    if missing := [name for name in weights if name not in answered]:
        raise StoreError(f"{folder} holds no answers by {missing[0]!r} yet. Run the same command again to go on")
    return judgements, weights


def concluded(
    conclude: Callable[[Comparisons], Ranking], answers: Sequence[Judgement], weights: Mapping[str, float]
) -> Ranking:
    """The ranking by `conclude`; a `CriteriaRanking` where the voices of answers are the criteria of `weights`.

    The overall uses the calls that answered every criterion; a ValueError where there is none.
    """
    if not weights:
        return conclude(comparisons(answers))
    by_name = by_criterion(answers, weights)
    rankings = {name: conclude(comparisons(own.values())) for name, own in by_name.items()}
    common = set.intersection(*map(set, by_name.values()))
    whole = {
        name: rankings[name] if len(own) == len(common) else conclude(comparisons(own[key] for key in common))
        for name, own in by_name.items()
    }
    return combine(whole, weights, rankings)


def by_criterion(answers: Sequence[Judgement], names: Iterable[str]) -> dict[str, dict[Any, Judgement]]:
    """The answers to each criterion by the key of their pair, without their voice."""
    answered = [one for one in answers if not one.failed]
    return {
        name: {key_of(one.question)[:-1]: with_voice(one) for one in answered if one.question.voice == name}
        for name in names
    }


def check_criteria(voices: Sequence[Voice], options: RankOptions) -> dict[str, float] | None:
    """The share of each criterion, None in a run of one; a ValueError where the options do not fit together."""
    prompt, judge, goal = voices[0].prompt, voices[0].judge, options.goal
    if not isinstance(prompt, CriteriaPrompt):
        return None
    assert isinstance(options.criterion, Mapping)
    found = shares(prompt.parts, split_weights(options.criterion)[1])
    problems = {
        Message("{audition} is not for several criteria in one call; leave it out"): options.audition is not None,
        Message("{votes} is not for several criteria in one call; leave it out"): options.votes is not None,
        "several criteria are asked of one judge in one wording; name one of each": len(voices) > 1,
        named("goal", goal) + " is about one ranking; leave it out": goal in SYSTEM_GOALS,
        f"{judge.name} with these options cannot answer several criteria in one call; name another judge": not getattr(
            judge, "several", False
        ),
    }
    if wrong := [problem for problem, is_there in problems.items() if is_there]:
        raise ValueError(wrong[0] + ", or rank by one criterion after another: one run for each, without a name")
    return found
