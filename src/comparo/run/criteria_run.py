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
from comparo.data.criteria_prompt import CriteriaPrompt, shares, split_weights
from comparo.data.run_folder import Key
from comparo.errors import StoreError
from comparo.judges import Judgement
from comparo.judges.protocol import NOTHING, Several, about
from comparo.log.store import Store, read_configuration, read_judgements
from comparo.options import RankOptions
from comparo.ranking.criteria_ranking import CriteriaRanking, combine
from comparo.ranking.ranking import Ranking
from comparo.run.loop import Run
from comparo.run.voices import Voice, comparisons, with_voice
from comparo.selection.designs import SYSTEM_GOALS

WEIGHTS = "weights"  # of the criteria, in run.json


class CriteriaStore(Store):
    """A store of calls: each is stored as its judgements, one per criterion, and read as a call again."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self._answered: dict[Any, set[str | None]] = {}
        self.known()

    def add(self, judgements: Iterable[Judgement]) -> list[Judgement]:
        """Append each call in one transaction, without the criteria that were answered before."""
        kept: list[Judgement] = []
        for call in judgements:
            assert isinstance(call, Several)
            before = self._answered.setdefault(_key(call.question), set())
            stored = super().add((call.without(before) if before else call).each)
            before |= {one.question.voice for one in stored if not one.failed}
            kept.append(Several.of(stored))
        return kept

    def known(self) -> dict[Key, list[Judgement]]:
        """The calls about each pair, in the order in which they were stored.

        A criterion whose rows are lost has failed in the last call, so that it is asked again.
        """
        tries: dict[Key, list[list[Judgement]]] = {}
        self._answered = {}
        for (*pair, _), answers in super().known().items():
            calls = tries.setdefault((*pair, None), [])  # type: ignore[arg-type]
            for number, answer in enumerate(answers):
                calls += [[]] * (number == len(calls))
                calls[number] = [*calls[number], answer]
                if not answer.failed:
                    self._answered.setdefault(_key(answer.question), set()).add(answer.question.voice)
        names = _names(self.configuration)
        for *_, last in tries.values():
            asked, is_whole = last[0].question, not any(one.failed for one in last)
            lost = [about(asked, name) for name in names if is_whole and name not in self._answered[_key(asked)]]
            last += [Judgement(one, error="the answer is lost from the folder", **NOTHING) for one in lost]
        return {key: [Several.of(each) for each in calls] for key, calls in tries.items()}


class CriteriaRun(Run):
    """A run whose ranking is the overall one by several criteria; `finish` also writes that of each criterion."""

    @property
    def each(self) -> list[Judgement]:
        """All judgements so far; the voice of each is its criterion."""
        return [answer for call in self.judgements if isinstance(call, Several) for answer in call.each]

    def ranking(self) -> CriteriaRanking:
        """The overall ranking from all answers so far."""
        assert isinstance(self.task.prompt, CriteriaPrompt)
        weights = self.store.configuration.get(WEIGHTS) or {}
        return concluded(self.task.fitting.conclude, self.each, shares(self.task.prompt.parts, weights))

    def finish(self) -> CriteriaRanking:
        """Ask all questions and write the overall ranking, and that by each criterion, to the folder."""
        self.go()
        found = self.ranking()
        self.store.write("ranking.csv", found.to_csv())
        for name, ranking in found.rankings.items():
            self.store.write(f"ranking-{name}.csv", ranking.to_csv())
            if ranking.leaderboard is not None:
                self.store.write(f"leaderboard-{name}.csv", ranking.leaderboard.to_csv())
        return found


def criteria_of(folder: Path) -> list[str]:
    """The names of the criteria of a run folder; an empty list where it has only one."""
    return _names(read_configuration(folder))


def _names(configuration: Mapping[str, Any]) -> list[str]:
    prompt = configuration["identity"].get("prompt")
    return list(prompt["criteria"]) if isinstance(prompt, dict) and "criteria" in prompt else []


def stored_criteria(folder: Path) -> tuple[list[Judgement], dict[str, float]]:
    """The judgements of a run folder of several criteria, and the share of each criterion by its name.

    Raises
    ------
    StoreError
        If a criterion has no answers.
    """
    names, judgements = criteria_of(folder), read_judgements(folder)
    answered = {one.question.voice for one in judgements if not one.failed}
    if missing := [name for name in names if name not in answered]:
        raise StoreError(f"{folder} holds no answers by {missing[0]!r} yet. Run the same command again to go on")
    return judgements, shares(names, read_configuration(folder).get(WEIGHTS))


def concluded(
    conclude: Callable[[Comparisons], Ranking], each: Iterable[Judgement], weights: Mapping[str, float]
) -> CriteriaRanking:
    """The rankings and the overall from judgements whose voices are the criteria of `weights`.

    `conclude` ranks the answers to each criterion. The overall uses the calls that answered every criterion; a
    ValueError where there is none.
    """
    answers = by_criterion(each, weights)
    rankings = {name: conclude(comparisons(own.values())) for name, own in answers.items()}
    first, *others = answers.values()
    common = [key for key in first if all(key in other for other in others)]
    if all(list(own) == common for own in answers.values()):
        return combine(rankings, weights)
    whole = {name: conclude(comparisons(own[key] for key in common)) for name, own in answers.items()}
    return combine(whole, weights, rankings)


def by_criterion(each: Iterable[Judgement], names: Iterable[str]) -> dict[str, dict[Any, Judgement]]:
    """The answers to each criterion by (context, first, second), without their voice."""
    found: dict[str, dict[Any, Judgement]] = {name: {} for name in names}
    for one in each:
        if not one.failed and one.question.voice in found:
            found[str(one.question.voice)].setdefault(_key(one.question), with_voice(one))
    return found


def _key(question: Any) -> tuple[Any, Any, Any]:
    return question.context, question.first, question.second


def check_criteria(voices: Sequence[Voice], options: RankOptions) -> dict[str, float] | None:
    """The share of each criterion, None in a run of one; a ValueError where the options do not fit together."""
    prompt, judge, goal = voices[0].prompt, voices[0].judge, options.goal
    if not isinstance(prompt, CriteriaPrompt):
        return None
    assert isinstance(options.criterion, Mapping)
    found = shares(prompt.parts, split_weights(options.criterion)[1])
    after = "rank by one criterion after another"
    for option in ("audition", "votes"):
        if getattr(options, option) is not None:
            raise ValueError(f"`{option}` is not for several criteria in one call; leave it out, or {after}")
    if len(voices) > 1:
        raise ValueError(f"several criteria are asked of one judge in one wording; name one of each, or {after}")
    if goal in SYSTEM_GOALS:
        raise ValueError(f"goal={goal!r} is about one ranking; leave it out, or {after}")
    if not getattr(judge, "several", False):
        raise ValueError(
            f"{judge.name} with these options cannot answer several criteria in one call; {after}: one run for "
            "each `criterion`, without a name"
        )
    return found
