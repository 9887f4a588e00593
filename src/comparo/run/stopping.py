"""What is decided after each wave, from the answers of all contexts: who stops, which voices go on, what matters next.

Wave w is round w of every context (`rounds`). When all contexts have answered it, the answers to rounds 1…w of all of
them are fitted together, and a context stops if its expected agreement with the true ranking has reached the target.
The variances of scores and noise are those of all contexts. A small context that decided by its own answers alone
would stop when it is lucky: 16 items cannot tell scores that differ from noise, and answers that happen to agree would
be taken for certainty.

While wave w is fitted, wave w + 1 is judged. Which pairs a context asks is determined by its own answers only, and what
is decided by the answers to a wave: neither depends on which answer came first, nor on how often a run was stopped.
Which voice is asked about a pair is determined by the shares as decided two waves before (`allocation`). Where the goal
is to compare groups, the contexts choose their pairs one after the other, wave by wave, and all of them stop together.
To find the best group, pairs are chosen by the leaderboard of two waves before (`comparo.selection.systems`). It is
looked at whenever there are `GROWTH` times as many answers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from comparo.analysis.confidence import expected_spearman, top_probability
from comparo.analysis.evidence import SURE, log_evidence
from comparo.data.comparisons import Comparisons
from comparo.judges import Judgement
from comparo.model.linalg.graph import Graph
from comparo.ranking.ranking import Ranking
from comparo.run.scheduling import Rounds
from comparo.run.task import Task
from comparo.run.voice_allocation import Allocation
from comparo.run.voices import by_ranking, comparisons
from comparo.selection.designs import DEFAULT_GOAL
from comparo.selection.systems import Systems, sureness
from comparo.types import Array

GROWTH = 1.25  # answers, relative to those at the last look, that make another one


class Stops:
    """Decides which contexts of a task stop, if it has a target, and the shares of its voices, if it has several.

    `rounds` are those of the contexts that have begun.

    >>> from comparo.data.items import Items
    >>> from comparo.data.prompts import criterion_prompt
    >>> from comparo.judges import load_judge
    >>> from comparo.run.budget import Budget
    >>> items = Items.of({name: f"A story by {name}." for name in ("ana", "bo", "cy")})
    >>> task = Task(items, criterion_prompt("better"), load_judge("simulated/soft"), Budget.of(6), until=0.9)
    >>> Stops(task, {}).decide()
    False
    """

    def __init__(
        self,
        task: Task,
        rounds: Mapping[Any, Rounds],
        allocation: Allocation | None = None,
        systems: Systems | None = None,
    ) -> None:
        self.task, self.rounds, self.allocation, self.systems = task, rounds, allocation, systems
        self.wave = self._looked_at = 0
        self._sizes = {context: len(ids) for context, ids in task.items.names.items()}
        self._late = list(self._sizes)

    def decide(self) -> bool:
        """Decide the next wave if all contexts have answered it, and return whether there was one to decide."""
        wave = self.wave + 1
        while self._late:
            rounds = self.rounds.get(self._late[-1])
            if rounds is None or not rounds.has_answered(wave):
                return False
            self._late.pop()
        active = {context: rounds for context, rounds in self.rounds.items() if rounds.left}
        if not active:
            return False
        if self.allocation is not None:
            so_far, last = (self._judgements(rounds) for rounds in (slice(wave), slice(wave - 1, wave)))
            self.allocation.decide([*self.task.given, *so_far], last)
        reached: set[Any] = set()
        if self.task.until is not None or self.systems is not None:
            answers = [one for context in self._sizes for one in self.rounds[context].answers(wave)]
            if self.systems is not None:
                reached = set(active) if self._is_sure(answers, self.systems) else set()
            elif answers:
                reached = set.intersection(*(self._reached(comparisons(own), active) for own in by_ranking(answers)))
        for context, rounds in self.rounds.items():
            if context in reached:
                rounds.stop(is_sure=True)
            else:
                rounds.go_on(wave)
        self.wave, self._late = wave, list(self._sizes)
        return True

    def _judgements(self, rounds: slice) -> list[Judgement]:
        return [one for context in self._sizes for one in self.rounds[context].judgements(rounds)]

    def _is_sure(self, answers: list[Judgement], systems: Systems) -> bool:
        """Let the choice of pairs learn how groups differ, and return whether their order has reached the target."""
        asked = (one.question for one in answers)
        if (self.task.until is None and not systems.learns) or len(answers) < GROWTH * self._looked_at:
            return False
        if not systems.links((question.context, question.first, question.second) for question in asked):
            return False
        self._looked_at = len(answers)
        board = self.task.fitting.rank(comparisons(answers)).groups()
        if systems.learns:
            systems.learn(board)
        return sureness(board, systems.goal) >= (self.task.until or math.inf)

    def _reached(self, data: Comparisons, active: Iterable[Any]) -> set[Any]:
        """The active contexts whose items are all connected and whose ranking has reached the target."""
        able = connected(data, self._sizes).intersection(active)
        if not able:
            return set()
        ranking = self.task.fitting.rank(data)
        return able & sure_contexts(ranking, _found(self.task, ranking), self.task.until or 1.0)


def connected(data: Comparisons, sizes: Mapping[Any, int]) -> set[Any]:
    """The contexts whose items, so many by `sizes`, are all connected by comparisons.

    >>> connected(Comparisons.from_rows([("ana", "bo", 0.7)]), {None: 2}), connected(
    ...     Comparisons.from_rows([("ana", "bo", 0.7)]), {None: 3})
    ({None}, set())
    """
    graph = Graph.build(data)
    labels = [None] if data.contexts is None else data.contexts.tolist()
    ends = graph.component[graph.starts[:-1]], graph.component[graph.starts[1:] - 1]
    whole = zip(graph.context[graph.starts[:-1]].tolist(), np.diff(graph.starts), *ends, strict=True)
    return {labels[code] for code, nodes, one, last in whole if nodes == sizes[labels[code]] and one == last}


def sure_contexts(ranking: Ranking, found: Array, until: float) -> set[Any]:
    """The contexts whose sureness `found` (C,) has reached `until`; none while the answers may be chance."""
    labels = ranking.comparisons.contexts
    names = [None] if labels is None else labels.tolist()
    reached = {label for label, value in zip(names, found.tolist(), strict=True) if value >= until}
    return reached if reached and log_evidence(ranking.comparisons) >= math.log(SURE) else set()


def _found(task: Task, ranking: Ranking) -> Array:
    """What `until` is about, for each context; for a goal about groups one number, nan where they are not connected."""
    if task.compares_groups:
        board = ranking.leaderboard
        return np.array([math.nan if board is None else sureness(board, task.goal)])
    if task.goal == DEFAULT_GOAL:
        return expected_spearman(ranking)
    return top_probability(ranking, int(task.goal.removeprefix("top-")))


def stop_sentence(task: Task, ranking: Ranking, rounds: Mapping[Any, Rounds], calls: int, most: int) -> str:
    """Whether a run that has ended stopped because it reached its target, and what the target measures now."""
    found = _found(task, ranking)
    name = {
        DEFAULT_GOAL: "the expected Spearman correlation",
        "systems": "the expected correlation of the order of systems",
        "best-system": "the probability that the best system is right",
    }.get(task.goal, "the probability that the best are right")
    value = "unknown" if np.isnan(found).all() else f"{np.nanmean(found):.3f}"
    if len(found) > 1 and not np.isnan(found).all():
        value += f" on average, {np.nanmin(found):.3f} at least"
    said, sure = f"{name} is {value}", sum(one.is_sure for one in rounds.values())
    if sure == len(rounds):
        return f"stopped by --until {task.until:g} after {calls:,} of at most {most:,} calls: {said}"
    if sure:
        return f"--until {task.until:g} stopped {sure:,} of {len(rounds):,} contexts; over all of them, {said}"
    if not np.all(found >= (task.until or 1.0)):
        return f"not stopped by --until {task.until:g}, as it was not reached: {said}; a larger --budget goes on"
    if not task.compares_groups and log_evidence(ranking.comparisons) < math.log(SURE):
        return f"not stopped by --until {task.until:g}: {said}, but so few answers may be chance"
    return f"not stopped by --until {task.until:g} before the last call: {said}"
