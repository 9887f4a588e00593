"""Which questions of which context are asked next, and when a context stops.

Round r + 2 of a context is chosen when round r is answered, from the answers to rounds 1…r and nothing else, while
round r + 1 is being judged. No call waits for a choice, and the questions do not depend on who answered first or on how
often the run was stopped: the same answers lead to the same questions.

Wave w is round w of every context. When all contexts have answered it, the answers to rounds 1…w of all of them are
fitted together, and a context stops if its expected agreement with the true ranking has reached the target. The
variances of scores and noise are those of all contexts: 16 items alone cannot distinguish scores from noise, and a
context that decided by its own answers would stop when it is lucky. While wave w is fitted, wave w + 1 is judged.

A voice that failed throughout a wave is asked no more (`voice_allocation`). Where the goal is to compare groups, the
contexts choose their pairs one after the other, wave by wave, and all of them stop together. To find the best group,
pairs are chosen by the leaderboard of two waves before (`comparo.selection.systems`), which is fitted whenever there
are `LOOK_GROWTH` times as many answers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from math import inf
from typing import Any

import numpy as np

from comparo.analysis.confidence import expected_spearman, top_probability
from comparo.analysis.sequential import SURE, log_evidence
from comparo.data.comparisons import Comparisons
from comparo.judges import Judgement
from comparo.model.linalg.graph import Graph
from comparo.ranking.ranking import Ranking
from comparo.run.task import Task
from comparo.run.voice_allocation import Allocation, Source
from comparo.run.voices import by_ranking, comparisons, observed
from comparo.selection.designs import DEFAULT_GOAL, Orders
from comparo.selection.growing import MOST, Placing
from comparo.selection.lineups import LineupSelector
from comparo.selection.selector import Selector
from comparo.selection.systems import Systems, sureness
from comparo.types import Array

Pair = tuple[Any, ...]  # the items shown first and second, and the voice where there are several


class Rounds:
    """Hands out the pairs of a context in rounds, up to `calls` pairs.

    `offer` gives pairs to ask; `answer` takes their judgements; the selector does not see failed ones. Rounds that wait
    (`waits`) are held up: round r + 2 is chosen only after `go_on(r)`. After `stop`, the round that was handed out last
    is the last. With `returned`, each failed call allows one more call, from the next choice on.

    With several voices the selector is a `Chorus`, and a pair is (first, second, voice). Answers that are `given` count
    among the calls, and the first round is chosen from them.

    >>> from comparo.data.prompts import Question
    >>> from comparo.selection.selector import Selector
    >>> rounds = Rounds(Selector(["ana", "bo", "cy"], orders="one", seed=0), calls=3, size=1)
    >>> first = rounds.offer()
    >>> len(first)
    2
    >>> for pair in first:
    ...     rounds.answer(pair, Judgement(Question(*pair), p=0.7))
    >>> len(rounds.offer()), rounds.offer()
    (1, [])
    """

    def __init__(
        self,
        selector: Source,
        calls: int,
        size: int,
        waits: bool = False,
        returned: bool = False,
        given: Sequence[Judgement] = (),
    ) -> None:
        self.selector = selector
        self.left = max(0, calls - len(given))
        self.given = list(given)
        self.returned, self.is_sure = returned, False
        self.size = size
        self._rounds: list[dict[Pair, Judgement | None]] = []
        self._open: dict[Pair, int] = {}
        self._missing: list[int] = []
        self._learnt = 0
        self._allowed: float = 0 if waits else inf
        self._observe(self.given)

    def offer(self) -> list[Pair]:
        """The pairs to ask now: two rounds at first, later one for each round that was answered."""
        pairs: list[Pair] = []
        while self.left and len(self._rounds) < min(self._learnt, self._allowed) + 2:
            # A whole round is chosen even for fewer calls, so that a larger budget leads to the same questions.
            free = min(self.size, self.selector.remaining)
            if not free:
                self.stop()
                break
            chosen: list[Pair] = [*self.selector.next(free)][: self.left]
            self.left -= len(chosen)
            self._open |= dict.fromkeys(chosen, len(self._rounds))
            self._rounds.append(dict.fromkeys(chosen))
            self._missing.append(len(chosen))
            pairs += chosen
            self._learn()
        return pairs

    def answer(self, pair: Pair, judgement: Judgement) -> None:
        number = self._open.pop(pair)
        self._rounds[number][pair] = judgement
        self._missing[number] -= 1
        self._learn()

    def answers(self, rounds: int) -> list[Judgement]:
        """The given answers and those to the first `rounds` rounds, without failures."""
        return self.given + [answer for answer in self.judgements(slice(rounds)) if not answer.failed]

    def judgements(self, rounds: slice) -> list[Judgement]:
        """The judgements in these rounds, including failures."""
        return [answer for answers in self._rounds[rounds] for answer in answers.values() if answer is not None]

    def has_answered(self, rounds: int) -> bool:
        """Whether the first `rounds` rounds are answered, or all if there are fewer."""
        return not any(self._missing[:rounds]) and (len(self._rounds) >= rounds or not self.left)

    def go_on(self, rounds: int) -> None:
        """Allow the choice of rounds up to number `rounds` + 2."""
        self._allowed = rounds

    def stop(self, is_sure: bool = False) -> None:
        """Choose no further round; `is_sure` where the target is reached."""
        self.left, self.returned, self.is_sure = 0, False, is_sure
        self._learn()

    def _learn(self) -> None:
        """Let the selector observe the rounds that are answered; round r only when round r + 1 has been chosen."""
        while self._learnt < len(self._rounds) and not self._missing[self._learnt]:
            if self.left and len(self._rounds) < self._learnt + 2:
                return
            given = self.judgements(slice(self._learnt, self._learnt + 1))
            answers = [one for one in given if not one.failed]
            self.left += (len(given) - len(answers)) * self.returned
            self._learnt += 1
            self._observe(answers)

    def _observe(self, answers: Sequence[Judgement]) -> None:
        if answers:
            self.selector.observe(observed(answers))


class Given:
    """Chooses given pairs, in their order."""

    def __init__(self, pairs: Sequence[Pair]) -> None:
        self._pairs = list(pairs)

    @property
    def remaining(self) -> int:
        return len(self._pairs)

    def next(self, batch: int) -> list[Pair]:
        pairs, self._pairs = self._pairs[:batch], self._pairs[batch:]
        return pairs

    def observe(self, data: Any) -> None:
        """Answers change nothing."""


def pair_source(
    task: Task,
    context: Any,
    ids: list[Any],
    orders: Orders,
    rng: np.random.Generator,
    systems: Systems | None = None,
    is_begun: bool = False,
) -> tuple[Source, int]:
    """The selector of a context's pairs, and the number of its items: in a run that grows, of the new ones.

    New items are placed in the ranking of the others (`Placing`) where some answers are there (`is_begun`), unless
    pairs are random or there are more than `MOST` new items.
    """
    if task.pairs is not None:
        return Given(task.pairs[context]), 0
    contrast = task.fitting.contrast[context] if task.weighs_pairs else None
    if systems is not None:
        return systems.of_context(context, orders, rng, contrast, task.prompt.size), len(ids)
    strategy = task.strategy or "greedy"
    if task.prompt.size > 2:
        return LineupSelector(ids, task.prompt.size, strategy=strategy, goal=task.goal, seed=rng), len(ids)
    options: dict[str, Any] = {"strategy": strategy, "orders": orders, "goal": task.goal, "contrast": contrast}
    new = len(ids) if task.growth is None else task.growth.new.get(context, 0)
    if task.growth is None or not is_begun or strategy == "random" or new > MOST:
        return Selector(ids, **options, seed=rng), new
    own, other = rng.spawn(2)
    return Placing(ids, other, **options, seed=own), new


LOOK_GROWTH = 1.25  # factor by which the answers grow between two fits of the groups


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
            elif answers:
                reached = set.intersection(*(self._reached(comparisons(own), active) for own in by_ranking(answers)))
        for context, rounds in self.rounds.items():
            if context in reached:
                rounds.stop(is_sure=True)
            else:
                rounds.go_on(wave)
        self.wave, self._late = wave, list(self._sizes)
        return True

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
    return reached if reached and log_evidence(ranking.comparisons) >= math.log(SURE) else set()


def _found(task: Task, ranking: Ranking) -> Array:
    """The stopping statistic per context, (C,); for a goal about groups (1,), nan where they are not connected."""
    if task.compares_groups:
        board = ranking.leaderboard
        return np.array([math.nan if board is None else sureness(board, task.goal)])
    if task.goal == DEFAULT_GOAL:
        return expected_spearman(ranking)
    return top_probability(ranking, int(task.goal.removeprefix("top-")))


def stop_sentence(task: Task, ranking: Ranking, rounds: Mapping[Any, Rounds], calls: int, most: int) -> str:
    """Whether a finished run stopped at its target, and the final value of the stopping statistic, in words."""
    found = _found(task, ranking)
    name = {
        DEFAULT_GOAL: "the expected Spearman correlation",
        "systems": "the expected correlation of the order of systems",
        "best-system": "the probability that the best system is right",
    }.get(task.goal, "the probability that the best are right")
    known = found[~np.isnan(found)]
    value = f"{np.mean(known):.3f}" if len(known) else "unknown"
    if len(known) > 1:
        value += f" on average, {np.min(known):.3f} at least"
    until, said, sure = f"`until={task.until:g}`", f"{name} is {value}", sum(one.is_sure for one in rounds.values())
    if sure == len(rounds):
        return f"stopped by {until} after {calls:,} of at most {most:,} calls: {said}"
    if sure:
        return f"{until} stopped {sure:,} of {len(rounds):,} contexts; over all of them, {said}"
    if not np.all(found >= (task.until or 1.0)):
        return f"not stopped by {until}, as it was not reached: {said}; a larger `budget` goes on"
    return f"not stopped by {until} before the last call: {said}"
