"""The loop: choose pairs, judge them, store the answers, fit, until the budget is spent or the goal is reached."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from comparo.asking import Asking
from comparo.comparisons import Comparisons
from comparo.confidence import expected_spearman, top_probability
from comparo.judges import JudgeError, Judgement
from comparo.prompts import Question
from comparo.ranking import Ranking
from comparo.rounds import Pair, Rounds
from comparo.selection import Selector
from comparo.store import Store, encode
from comparo.task import Task

FAILED = 0.2  # the share of failed judgements at which a run stops
ENOUGH = 20  # judgements before that share says anything
LOOK = 0.5  # seconds between two looks at the clock

Key = tuple[str, str, str]


class RunError(RuntimeError):
    """A run that cannot go on; what was judged is kept, and the same command goes on from there."""


@dataclass
class Progress:
    """How far a run is: calls of all, those that failed, dollars, calls a second, and the ranking so far."""

    total: int
    answered: int = 0
    failed: int = 0
    cost: float = 0.0
    asked: int = 0  # in this start, of which
    lost: int = 0  # have failed
    started: float = field(default_factory=time.monotonic)
    ranking: Ranking | None = None

    @property
    def rate(self) -> float:
        """Calls a second since the start."""
        return self.asked / max(time.monotonic() - self.started, 1e-9)


class Run:
    """One start of a task on a store: what is there is not asked again, what failed is asked once more.

    `watch` is told of the progress about twice a second.

    >>> from comparo.budget import Budget
    >>> from comparo.items import Items
    >>> from comparo.judges import load_judge
    >>> from comparo.prompts import criterion_prompt
    >>> scores = {"ana": 2.0, "bo": 0.0, "cy": -2.0}
    >>> items = Items.of({name: f"A story by {name}." for name in scores})
    >>> task = Task(items, criterion_prompt("better"), load_judge("simulated/soft", scores=scores), Budget.of(6))
    >>> Run(task, Store(None, task.identity)).go().to_columns()["item"].tolist()
    ['ana', 'bo', 'cy']
    """

    def __init__(self, task: Task, store: Store, watch: Callable[[Progress], None] | None = None) -> None:
        self.task, self.store, self.watch = task, store, watch
        estimate = task.estimate()
        self.known: dict[Key, list[Judgement]] = {}
        for judgement in store.judgements():
            self.known.setdefault(_key(judgement.question), []).append(judgement)
        self.progress = Progress(estimate.calls)
        self.ahead = int(store.configuration.get("ahead", task.judge.ahead))
        self.room = max(self.ahead, getattr(task.judge, "room", 0))  # more than `ahead` where replicas share the work
        names = task.items.names
        generators = np.random.default_rng(task.seed).spawn(len(names))
        self.rounds: dict[Any, Rounds] = {}
        for (context, ids), rng in zip(names.items(), generators, strict=True):
            calls, orders = estimate.by_context[context]
            strategy, goal = task.strategy, task.goal
            contrast = None if strategy == "random" else task.fitting.contrast[context]
            selector = Selector(ids, strategy=strategy, orders=orders, goal=goal, contrast=contrast, rng=rng)
            size = max(4, len(ids) // 4, -(-self.ahead // len(names)))
            self.rounds[context] = Rounds(selector, calls, size, None if task.until is None else self._enough)
        self._waiting = deque(self.rounds)
        self._active: list[Any] = []
        self._looked = 0.0

    def go(self) -> Ranking:
        """Ask until done, then what failed once more; the ranking from all answers."""
        asking = Asking(self.task.judge, self.task.prompt)
        try:
            with asking:
                self._fill(asking)
                self._listen(asking, lambda: self._fill(asking))
                failed = [answers[-1].question for answers in self.known.values() if answers[-1].failed]
                asking.ask(map(self._question, failed))
                self._listen(asking)
        except (KeyboardInterrupt, JudgeError, RunError):
            self._keep(asking.late())
            raise
        self._check(self.progress.failed, self.progress.failed + self.progress.answered)
        return self.ranking()

    def ranking(self) -> Ranking:
        """The ranking from all answers so far."""
        answers = [answer for answers in self.known.values() for answer in answers if not answer.failed]
        if not answers:
            raise RunError("there are no answers to rank by yet")
        return self.task.fitting.rank(comparisons(answers))

    @property
    def possible(self) -> int:
        """How many comparisons there are: every ordered pair of every context."""
        return sum(len(ids) * (len(ids) - 1) for ids in self.task.items.names.values())

    def _listen(self, asking: Asking, after: Callable[[], None] | None = None) -> None:
        """Store answers as they come, until no question is open."""
        while asking.open:
            self._keep(asking.answers(timeout=LOOK))
            self._look()
            self._check(self.progress.lost, self.progress.asked, ENOUGH)
            if after is not None:
                after()

    def _keep(self, judgements: Sequence[Judgement]) -> None:
        self.store.add(judgements)
        for judgement in judgements:
            self._take(judgement)

    def _take(self, judgement: Judgement) -> None:
        key = _key(judgement.question)
        again = key in self.known
        self.known.setdefault(key, []).append(judgement)
        self.progress.asked += 1
        self.progress.lost += judgement.failed
        self.progress.cost += judgement.cost if judgement.cost > 0 else 0.0
        self.progress.failed += judgement.failed - again
        self.progress.answered += not judgement.failed
        if not again:
            question = judgement.question
            self.rounds[question.context].answer((question.first, question.second), judgement)

    def _fill(self, asking: Asking) -> None:
        """Ask what may be asked now: the next rounds of open contexts, and new contexts while the judge has room."""
        if self.progress.cost >= self.task.budget.dollars:
            self._waiting.clear()
            for rounds in self.rounds.values():
                rounds.left = 0
        for context in self._active:
            asking.ask(self._offered(context))
        self._active = [context for context in self._active if not self.rounds[context].done]
        while self._waiting and asking.open < 2 * self.room:
            context = self._waiting.popleft()
            asking.ask(self._offered(context))
            if not self.rounds[context].done:
                self._active.append(context)

    def _offered(self, context: Any) -> list[Question]:
        """The pairs of a context to ask now, those answered in an earlier start left out."""
        rounds, questions = self.rounds[context], []
        while pairs := rounds.offer():
            for pair in pairs:
                question = self.task.items.question(context, *pair)
                if answers := self.known.get(_key(question)):
                    self._recall(rounds, pair, answers)
                else:
                    questions.append(question)
        return questions

    def _recall(self, rounds: Rounds, pair: Pair, answers: Sequence[Judgement]) -> None:
        """The first answer is what the later rounds went by; one that failed may have been answered since."""
        self.progress.answered += not answers[-1].failed
        self.progress.failed += answers[-1].failed
        self.progress.cost += sum(answer.cost for answer in answers if answer.cost > 0)
        rounds.answer(pair, answers[0])

    def _question(self, question: Question) -> Question:
        return self.task.items.question(question.context, question.first, question.second)

    def _enough(self, answers: Sequence[Judgement]) -> bool:
        """Whether the ranking of a context is as sure as was wished."""
        ranking = self.task.fitting.rank(comparisons(answers))
        found = expected_spearman(ranking) if self.task.goal == "ranking" else top_probability(ranking, self._top)
        return bool(found[0] >= (self.task.until or 1.0))

    @property
    def _top(self) -> int:
        return int(self.task.goal.removeprefix("top-"))

    def _look(self) -> None:
        """Tell whoever watches, with a ranking where making one takes little of the time."""
        if self.watch is None or time.monotonic() - self._looked < LOOK:
            return
        begin = time.monotonic()
        if len(self.rounds) == 1 and self.progress.answered:
            self.progress.ranking = self.ranking()
        self.watch(self.progress)
        self._looked = time.monotonic() + 9 * (time.monotonic() - begin)

    def _check(self, failed: int, asked: int, least: int = 0) -> None:
        """A RunError where too many judgements failed, of at least so many."""
        if asked >= least and failed > FAILED * asked:
            last = next(answers[-1].error for answers in reversed(self.known.values()) if answers[-1].failed)
            raise RunError(
                f"{failed} of {asked} judgements failed, the last with: {last}. Mend that and run the same command "
                "again: what was judged is kept"
            )


def comparisons(judgements: Iterable[Judgement]) -> Comparisons:
    """The judgements that were answered, as comparisons.

    >>> comparisons([Judgement(Question("ana", "bo"), p=0.7), Judgement(Question("bo", "cy"), error="lost")]).p
    array([0.7])
    """
    answered = [judgement for judgement in judgements if not judgement.failed]
    questions = [judgement.question for judgement in answered]
    return Comparisons.from_columns(
        [question.first for question in questions],
        [question.second for question in questions],
        np.array([judgement.p for judgement in answered]),
        np.array([judgement.weight for judgement in answered]) if any(one.weight != 1 for one in answered) else None,
        None
        if all(question.context is None for question in questions)
        else [question.context for question in questions],
    )


def _key(question: Question) -> Key:
    return encode(question.context), encode(question.first), encode(question.second)
