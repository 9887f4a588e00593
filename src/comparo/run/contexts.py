"""What a run of a task asks next: the pairs of every context, in rounds, until the budget or the goal is reached.

The loop (`loop`) takes the questions of `Contexts.next`, and gives every answer to `Contexts.answer`, also those that
were stored in an earlier start: the same answers lead to the same questions, in whatever order they come.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any

import numpy as np

from comparo.data.prompts import Question
from comparo.data.run_folder import Key, encode, key_of
from comparo.judges import Judgement
from comparo.run.budget import TOKENS
from comparo.run.rounds import Given, Pair, Rounds
from comparo.run.stopping import Stops
from comparo.run.task import Task
from comparo.run.voice_allocation import Allocation, Chorus, Source
from comparo.selection.designs import Orders, round_size
from comparo.selection.growing import MOST_NEW, Placing
from comparo.selection.lineups import LineupSelector
from comparo.selection.selector import Selector
from comparo.selection.systems import Systems

Turn = tuple[float, Question]  # when a question is sent among all that may be, and the question


class Contexts:
    """The questions of a task, without texts, whose answers so far are `known`; `configuration` is that of its folder.

    Answers that are `given` belong to no round: the first questions are chosen from them. With `at_once`, all questions
    are chosen before the first answer. `may_begin` says whether a context is asked, None where that depends on answers
    that are missing; no later context begins before.

    >>> from comparo.data.items import Items
    >>> from comparo.data.prompts import criterion_prompt
    >>> from comparo.judges import load_judge
    >>> from comparo.run.budget import Budget
    >>> items = Items.of({name: f"A story by {name}." for name in ("ana", "bo", "cy")})
    >>> task = Task(items, criterion_prompt("better"), load_judge("simulated/soft"), Budget.of(6))
    >>> len(Contexts(task, {}, {}).next())
    6
    """

    def __init__(
        self,
        task: Task,
        known: Mapping[Key, Sequence[Judgement]],
        configuration: Mapping[str, Any],
        given: Sequence[Judgement] = (),
        at_once: bool = False,
        may_begin: Callable[[Any], bool | None] = lambda _: True,
    ) -> None:
        self.task, self._at_once, self._may_begin = task, at_once, may_begin
        expense, growth, names = task.expense, task.growth, task.items.names
        voices = {voice.name for voice in task.voices}  # the folder may hold answers of others (`rejudge`)
        self._ahead = int(configuration.get("ahead", task.ahead))
        self._alike = expense.alike if growth is not None else int(configuration.get("alike", expense.alike))
        self._given = defaultdict[Any, list[Judgement]](list)
        for one in given:
            self._given[one.question.context].append(one)
        seed = task.seed if growth is None else [task.seed, growth.number]
        generators = np.random.default_rng(seed).spawn(len(names))
        asked = known if growth is None else map(key_of, (one.question for one in task.given))
        stored = Counter(context for context, *_, voice in asked if voice in voices)
        # A context whose calls were all made in an earlier start needs no rounds, unless its answers help others stop.
        self._waiting = deque(
            (context, ids, *expense.by_context[context], rng)
            for (context, ids), rng in zip(names.items(), generators, strict=True)
            if task.waits or stored[encode(context)] < expense.by_context[context][0]
        )
        self.rounds: dict[Any, Rounds] = {}
        costs = {str(voice): cost for voice, cost in expense.costs.items()}
        self._allocation = Allocation(costs, task.budget.unit == "$") if task.is_panel else None
        self._systems = task.systems() if task.compares_groups else None
        self._stops = Stops(task, self.rounds, self._allocation, self._systems) if task.waits else None
        self._moved: dict[Any, None] = {}  # contexts with an answer that was not looked at yet
        self._places = defaultdict[Any, Iterator[int]](count)
        self._is_limited = math.isfinite(task.budget.dollars) or task.budget.unit == TOKENS
        # The voice of pairs that name none, where a folder has answers of others too.
        self._voice = None if task.is_panel or task.pairs is not None else task.voices[0].name

    def next(self, room: float = math.inf) -> list[Turn]:
        """The questions that may be asked now; with less `room`, contexts begin later. Empty: wait for answers."""
        found: list[Turn] = []
        while not found:
            moved, self._moved = self._moved, {}
            for context in moved:
                found += self._offer(context)
            while self._waiting and (self._is_limited or len(found) < room):
                if (verdict := self._may_begin(self._waiting[0][0])) is None:
                    break
                waiting = self._waiting.popleft()
                found += self._offer(self._begin(*waiting)) if verdict else []
            if not found:
                if self._stops is None or not self._stops.decide():
                    break
                self._moved = dict.fromkeys(self.rounds)
        return found

    def answer(self, judgement: Judgement) -> None:
        """Take the first answer to a question, also one that failed."""
        context = judgement.question.context
        if context in self.rounds:
            self.rounds[context].answer(self._pair(judgement.question), judgement)
            self._moved[context] = None

    def end(self) -> None:
        """Begin no further context: the money is spent."""
        self._waiting.clear()

    def _turn(self, context: Any, place: int) -> float:
        """When a context's call number `place` is sent: after as many per item, in pairs, in all other contexts.

        The money may end before the last call, and then no context is left out. A number of calls is made wholly: 0.
        """
        return place // 2 / len(self.task.items.names[context]) if self._is_limited else 0.0

    def _begin(self, context: Any, ids: list[Any], calls: int, orders: Orders, rng: np.random.Generator) -> Any:
        size = -(-self._ahead // len(self.task.items.names))
        given = self._given[context]
        selector, new = pair_source(self.task, context, ids, orders, rng, self._systems, bool(given))
        if self._at_once:
            self._places[context] = count(len(given))
            size = calls
        elif self._systems is None:
            size = round_size(new, self.task.prompt.size, self.task.goal, size)
        else:
            size += size % 2 if orders == "both" else 0
        if self._allocation is None or isinstance(selector, Given):
            self.rounds[context] = Rounds(selector, calls, size, waits=self._stops is not None, given=given)
        else:
            asked = [self._pair(one.question) for one in given]
            chorus = Chorus(selector, self._allocation, len(self.rounds), asked, self._alike, orders == "both")
            size = max(size, 2 * len(self.task.voices))
            self.rounds[context] = Rounds(chorus, calls, size, waits=True, returned=True, given=given)
        return context

    def _offer(self, context: Any) -> list[Turn]:
        """The pairs of a context that may be asked now."""
        found = []
        for pair in self.rounds[context].offer():
            first, second, *voice = pair
            question = Question(first, second, context, voice=voice[0] if voice else self._voice)
            found.append((self._turn(context, next(self._places[context])), question))
        return found

    def _pair(self, question: Question) -> Pair:
        """The key of a question in its rounds."""
        pair = question.first, question.second
        return pair if question.voice == self._voice else (*pair, question.voice)


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
    pairs are random or there are more than `MOST_NEW` new items.
    """
    if task.pairs is not None:
        return Given(task.pairs[context]), 0
    contrast = task.fitting.contrast[context] if task.weighs_pairs else None
    if systems is not None:
        return systems.of_context(context, orders, rng, contrast, task.prompt.size), len(ids)
    strategy = task.strategy or "greedy"
    if task.prompt.size > 2:
        name, rows = task.first_stage, task.items.groups[context]
        first_stage = None if name is None else task.items.numbers[name][rows]
        prior: dict[str, Any] = {"goal": task.goal, "first_stage": first_stage}
        return LineupSelector(ids, task.prompt.size, strategy=strategy, **prior, seed=rng), len(ids)
    options: dict[str, Any] = {"strategy": strategy, "orders": orders, "goal": task.goal, "contrast": contrast}
    new = len(ids) if task.growth is None else task.growth.new.get(context, 0)
    if task.growth is None or not is_begun or strategy == "random" or new > MOST_NEW:
        return Selector(ids, **options, seed=rng), new
    own, other = rng.spawn(2)
    return Placing(ids, other, **options, seed=own), new
