"""When a run stops: at its target, decided by the answers of all contexts together.

Wave w is round w of every context (`rounds`). When all contexts have answered it, the answers to rounds 1…w of all of
them are fitted together, and a context stops if its expected agreement with the true ranking has reached the target.
The variances of scores and noise are those of all contexts: 16 items alone cannot distinguish scores from noise, and a
context that decided by its own answers would stop when it is lucky. While wave w is fitted, wave w + 1 is judged.

A voice that fails through whole waves is asked no more (`voice_allocation`). Where the goal is to compare groups, the
contexts choose their pairs one after the other, wave by wave, and all of them stop together. To find the best group,
pairs are chosen by the leaderboard of two waves before (`comparo.selection.systems`), which is fitted whenever there
are `LOOK_GROWTH` times as many answers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from comparo.analysis.confidence import expected_spearman, top_probability, top_share
from comparo.analysis.sequential import CLEAR_EVIDENCE, log_evidence
from comparo.data.comparisons import Comparisons
from comparo.errors import Message, named
from comparo.judges import Judgement
from comparo.model.linalg.graph import Graph
from comparo.ranking.ranking import Ranking
from comparo.run.rounds import Rounds
from comparo.run.task import Task
from comparo.run.voice_allocation import Allocation
from comparo.run.voices import by_ranking, comparisons
from comparo.selection.designs import DEFAULT_GOAL, best_of
from comparo.selection.systems import Systems, sureness
from comparo.types import Array

LOOK_GROWTH = 1.25  # factor by which the answers grow between two fits of the groups, or of the best k


class Stops:
    """Decides which contexts of a task stop, if it has a target, and which of several voices are asked no more.

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
            last = slice(wave - 1, wave)
            asked = [one for context in self._sizes for one in self.rounds[context].judgements(last)]
            self.allocation.decide(asked)
        reached: set[Any] = set()
        if self.task.until is not None or self.systems is not None:
            answers = [one for context in self._sizes for one in self.rounds[context].answers(wave)]
            if self.systems is not None:
                reached = set(active) if self._is_sure(answers, self.systems) else set()
            elif answers and self._is_due(len(answers)):
                reached = set.intersection(*(self._reached(comparisons(own), active) for own in by_ranking(answers)))
        for context, rounds in self.rounds.items():
            if context in reached:
                rounds.stop(is_sure=True)
            else:
                rounds.go_on(wave)
        self.wave, self._late = wave, list(self._sizes)
        return True

    def _is_due(self, answers: int) -> bool:
        """Whether there are enough new answers for a fit; for the best k, whose waves are small, `LOOK_GROWTH`."""
        is_due = self.task.goal == DEFAULT_GOAL or answers >= LOOK_GROWTH * self._looked_at
        self._looked_at = answers if is_due else self._looked_at
        return is_due

    def _is_sure(self, answers: list[Judgement], systems: Systems) -> bool:
        """Give the leaderboard of groups to `systems`, and return whether it has reached the target."""
        if (self.task.until is None and not systems.learns) or len(answers) < LOOK_GROWTH * self._looked_at:
            return False
        asked = [(one.question.context, pairwise(one.question.items)) for one in answers]
        if not systems.links((context, *pair) for context, pairs in asked for pair in pairs):
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
    """The contexts in which comparisons connect all `sizes[context]` items.

    >>> connected(Comparisons.from_rows([("ana", "bo", 0.7)]), {None: 2}), connected(
    ...     Comparisons.from_rows([("ana", "bo", 0.7)]), {None: 3})
    ({None}, set())
    """
    graph = Graph.build(data)
    labels = [None] if data.contexts is None else data.contexts.tolist()
    first, last = graph.starts[:-1], graph.starts[1:] - 1
    is_one = graph.component[first] == graph.component[last]
    names = [labels[code] for code in graph.context[first]]
    rows = zip(names, np.diff(graph.starts), is_one, strict=True)
    return {name for name, nodes, one in rows if one and nodes == sizes[name]}


def sure_contexts(ranking: Ranking, found: Array, until: float) -> set[Any]:
    """The contexts whose sureness `found` (C,) has reached `until`; none while the answers may be chance."""
    labels = ranking.comparisons.contexts
    names = [None] if labels is None else labels.tolist()
    reached = {label for label, value in zip(names, found.tolist(), strict=True) if value >= until}
    return reached if reached and log_evidence(ranking.comparisons) >= math.log(CLEAR_EVIDENCE) else set()


def _found(task: Task, ranking: Ranking) -> Array:
    """The stopping statistic per context, (C,); for a goal about groups (1,), nan where they are not connected."""
    if task.compares_groups:
        board = ranking.leaderboard
        return np.array([math.nan if board is None else sureness(board, task.goal)])
    k = best_of(task.goal)
    return expected_spearman(ranking) if k is None else top_share(ranking, k)


def stop_sentence(task: Task, ranking: Ranking, rounds: Mapping[Any, Rounds], calls: int, most: int) -> str:
    """Whether a finished run stopped at its target, and the final value of the stopping statistic, in words."""
    found = _found(task, ranking)
    name = {
        DEFAULT_GOAL: "the expected Spearman correlation",
        "systems": "the expected correlation of the order of systems",
        "best-system": "the probability that the best system is right",
    }.get(task.goal, f"the expected share of the best {best_of(task.goal)} that are right")
    known = found[~np.isnan(found)]
    value = f"{np.mean(known):.3f}" if len(known) else "unknown"
    if len(known) > 1:
        value += f" on average, {np.min(known):.3f} at least"
    if (k := best_of(task.goal)) is not None:
        value += f"; the probability that all are right is {np.mean(top_probability(ranking, k)):.3f}"
    until, said, sure = named("until", task.until), f"{name} is {value}", sum(one.is_sure for one in rounds.values())
    if sure == len(rounds):
        return "stopped by " + until + f" after {calls:,} of at most {most:,} calls: {said}"
    if sure:
        return until + f" stopped {sure:,} of {len(rounds):,} contexts; over all of them, {said}"
    if not np.all(found >= (task.until or 1.0)):
        return "not stopped by " + until + f", as it was not reached: {said}; " + Message("a larger {budget} goes on")
    return "not stopped by " + until + f" before the last call: {said}"
