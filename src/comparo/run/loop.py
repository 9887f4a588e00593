"""The loop: choose pairs, judge them, store the answers, fit, until the budget is spent or the goal is reached."""

import logging
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from comparo.data.prompts import Question
from comparo.errors import JudgeError, RunError
from comparo.judges import Judgement
from comparo.ranking.ranking import Ranking
from comparo.run.answers import comparisons
from comparo.run.budget import Spending
from comparo.run.database import encode, key_of
from comparo.run.rounds import Rounds
from comparo.run.stops import Stops
from comparo.run.store import Store
from comparo.run.task import Task
from comparo.run.worker import PATIENCE, Asking
from comparo.selection.selector import Selector

FAILED = 0.2  # the share of failed judgements at which a run stops
ENOUGH = 20  # judgements needed before that share, or the share of probability on the labels, is checked
LOOK = 0.5  # seconds between two looks at the clock
GRACE = 10.0  # seconds that calls in flight have to come back when a run is stopped

logger = logging.getLogger(__name__)


@dataclass
class Progress:
    """The progress of a run: number of calls, failures, cost in dollars, calls per second, the ranking so far."""

    total: int
    answered: int = 0
    failed: int = 0
    cost: float = 0.0
    asked: int = 0  # calls since this start
    lost: int = 0  # of these, how many failed
    cut: int = 0  # of these, how many had texts cut to the model's window
    started: float = field(default_factory=time.monotonic)
    ranking: Ranking | None = None

    @property
    def rate(self) -> float:
        return self.asked / max(time.monotonic() - self.started, 1e-9)


class Run:
    """One start of a task on a store: stored answers are not asked again, failed questions are asked once more.

    `watch` is called with the progress about twice per second, and `say` with a sentence that the user should read at
    once. A run that is stopped by an exception, including KeyboardInterrupt, first waits some seconds for the calls in
    flight, because they are paid for; a second interrupt ends it immediately. `patience` is how long the judge waits
    for one more question, in seconds.

    >>> from comparo.run.budget import Budget
    >>> from comparo.data.items import Items
    >>> from comparo.judges import load_judge
    >>> from comparo.data.prompts import criterion_prompt
    >>> scores = {"ana": 2.0, "bo": 0.0, "cy": -2.0}
    >>> items = Items.of({name: f"A story by {name}." for name in scores})
    >>> task = Task(items, criterion_prompt("better"), load_judge("simulated/soft", scores=scores), Budget.of(6))
    >>> Run(task, Store(None, task.identity)).go().to_columns()["item"].tolist()
    ['ana', 'bo', 'cy']
    """

    def __init__(
        self,
        task: Task,
        store: Store,
        watch: Callable[[Progress], None] | None = None,
        say: Callable[[str], None] = logger.warning,
        patience: float = PATIENCE,
    ) -> None:
        self.task, self.store, self.watch, self.say, self.patience = task, store, watch, say, patience
        expense = task.expense()
        self.known = store.known()
        last = [answers[-1] for answers in self.known.values()]
        failed = sum(answer.failed for answer in last)
        spent = sum(answer.cost for answers in self.known.values() for answer in answers if answer.cost > 0)
        self.progress = Progress(expense.calls, len(last) - failed, failed, spent)
        self.spending = Spending(task.budget.dollars, task.price_of, spent)
        self.ahead = int(store.configuration.get("ahead", task.judge.ahead))
        self.room = max(self.ahead, getattr(task.judge, "room", 0))  # more than `ahead` where replicas share the work
        names = task.items.names
        self._size = len(names)
        generators = np.random.default_rng(task.seed).spawn(len(names))
        stored = Counter(context for context, _, _ in self.known)
        # A context whose calls were all made in an earlier start needs no rounds, unless its answers help others stop.
        self._waiting = deque(
            (context, ids, *expense.by_context[context], rng)
            for (context, ids), rng in zip(names.items(), generators, strict=True)
            if task.until is not None or stored[encode(context)] < expense.by_context[context][0]
        )
        self.rounds: dict[Any, Rounds] = {}
        self._stops = None if task.until is None else Stops(task, self.rounds)
        self._moved: dict[Any, None] = {}  # contexts with an answer that was not looked at yet
        self._pending: deque[Question] = deque()
        self._masses = [answer.mass for answer in last if answer.mass == answer.mass]
        self._first = min(ENOUGH, max(1, expense.calls // 2))
        self._looked = 0.0
        self._priced = task.budget.unit == "$"

    def go(self) -> Ranking:
        """Ask all questions, repeat the failed ones once, and return the ranking."""
        with Asking(self.task.judge, self.task.prompt, self.store.add, self.patience) as asking:
            try:
                self._check_mass("")
                self._fill(asking)
                self._listen(asking, self._fill)
                failed = (answers[-1].question for answers in self.known.values() if answers[-1].failed)
                question = self.task.items.question
                self._pending.extend(question(one.context, one.first, one.second) for one in failed)
                self._send(asking)
                self._listen(asking, self._send)
            except (KeyboardInterrupt, JudgeError, RunError):
                self._wait_for_last(asking)
                raise
        self._check(self.progress.failed, self.progress.failed + self.progress.answered)
        return self.ranking()

    def finish(self) -> Ranking:
        """Ask all questions and write the ranking to the folder."""
        ranking = self.go()
        self.store.write("ranking.csv", ranking.to_csv())
        return ranking

    def ranking(self) -> Ranking:
        if not self.progress.answered:
            raise RunError("there are no answers to rank by yet")
        return self.task.fitting.rank(comparisons(self.judgements))

    @property
    def judgements(self) -> list[Judgement]:
        """All judgements so far, grouped by question."""
        return [judgement for judgements in self.known.values() for judgement in judgements]

    def _listen(self, asking: Asking, after: Callable[[Asking], None]) -> None:
        """Process answers as they arrive, until no question is open."""
        while asking.open:
            for judgement in asking.answers(timeout=LOOK):
                self._take(judgement)
            self.store.settle()
            self._look()
            self._check(self.progress.lost, self.progress.asked, ENOUGH)
            after(asking)

    def _wait_for_last(self, asking: Asking) -> None:
        """Wait some seconds for the calls in flight, whose answers the judge's thread stores."""
        if asking.out:
            self.say(
                f"Waiting up to {GRACE:g} s for the calls in flight ({asking.out}), to keep their answers; interrupt "
                "again to leave at once."
            )
        try:
            late = asking.finish(GRACE)
        except KeyboardInterrupt:
            late = asking.late()
        for judgement in late:
            self._count(judgement)

    def _take(self, judgement: Judgement) -> None:
        self._count(judgement)
        if judgement.cut and self.progress.cut == 1:
            self.say(
                f"Texts do not fit the model's window: {judgement.cut:,} characters of a prompt were cut. The judge "
                "sees only beginnings; a model with a larger window, or shorter texts, would be better."
            )
        if not judgement.failed and judgement.mass == judgement.mass and len(self._masses) < self._first:
            self._masses.append(judgement.mass)
            self._check_mass(judgement.reply)

    def _count(self, judgement: Judgement) -> None:
        key = key_of(judgement.question)
        again = key in self.known
        self.known.setdefault(key, []).append(judgement)
        self.progress.asked += 1
        self.progress.lost += judgement.failed
        self.progress.cut += judgement.cut > 0
        self.progress.cost += judgement.cost if judgement.cost > 0 else 0.0
        self.progress.failed += judgement.failed - again
        self.progress.answered += not judgement.failed
        if self._priced:
            self.spending.settle(judgement)
        if not again:
            question = judgement.question
            self.rounds[question.context].answer((question.first, question.second), judgement)
            self._moved[question.context] = None

    def _fill(self, asking: Asking) -> None:
        """Send the next rounds, and start new contexts while the judge has capacity; decide which contexts stop."""
        moved, self._moved = self._moved, {}
        for context in moved:
            self._offer(context)
        while self._waiting and asking.open + len(self._pending) < 2 * self.room:
            self._offer(self._begin(*self._waiting.popleft()))
        self._send(asking)
        while self._stops is not None and self._stops.decide():
            for context in self.rounds:
                self._offer(context)
            self._send(asking)

    def _begin(self, context: Any, ids: list[Any], calls: int, orders: Any, rng: np.random.Generator) -> Any:
        strategy, goal = self.task.strategy or "greedy", self.task.goal
        contrast = self.task.fitting.contrast[context] if self.task.weighs_pairs else None
        selector = Selector(ids, strategy=strategy, orders=orders, goal=goal, contrast=contrast, rng=rng)
        size = max(4, len(ids) // 4, -(-self.ahead // self._size))
        self.rounds[context] = Rounds(selector, calls, size, waits=self._stops is not None)
        return context

    def _send(self, asking: Asking) -> None:
        """Send pending questions within the budget in dollars; when it is spent, stop the run."""
        while self._pending and (not self._priced or self.spending.allows(self._pending[0])):
            question = self._pending.popleft()
            if self._priced:
                self.spending.reserve(question)
            asking.ask([question])
        if self._pending and not asking.open:
            self._pending.clear()
            self._waiting.clear()

    def _offer(self, context: Any) -> None:
        """Queue the pairs of a context that may be asked now, except those with a stored answer."""
        rounds = self.rounds[context]
        while pairs := rounds.offer():
            for pair in pairs:
                question = self.task.items.question(context, *pair)
                if answers := self.known.get(key_of(question)):
                    # Later rounds were chosen from the first answer, even if it failed and was answered later.
                    rounds.answer(pair, answers[0])
                else:
                    self._pending.append(question)

    def _look(self) -> None:
        """Report the progress, with a ranking as long as fitting takes at most a tenth of the time."""
        if self.watch is None or time.monotonic() - self._looked < LOOK:
            return
        begin = time.monotonic()
        if len(self.rounds) == 1 and self.progress.answered:
            self.progress.ranking = self.ranking()
        self.watch(self.progress)
        self._looked = time.monotonic() + 9 * (time.monotonic() - begin)

    def _check(self, failed: int, asked: int, least: int = 0) -> None:
        """Raise a RunError if too many judgements failed, once there are at least `least`."""
        if asked >= least and failed > FAILED * asked:
            last = next(answers[-1].error for answers in reversed(self.known.values()) if answers[-1].failed)
            raise RunError(
                f"{failed} of {asked} judgements failed, the last with: {last}. Mend that and run the same command "
                "again: what was judged is kept"
            )

    def _check_mass(self, reply: str) -> None:
        """Raise a RunError if the first answers put too little probability on the labels."""
        masses = self._masses[: self._first]
        if len(masses) == self._first and (mean := sum(masses) / len(masses)) < self.task.least_mass:
            labels = " and ".join(self.task.prompt.labels)
            said = f" Its last reply begins {reply[:80]!r}." if reply else ""
            raise RunError(
                f"the judge puts only {mean:.1%} of its probability on the labels {labels} in its first {len(masses)} "
                f"answers, so they say little about the texts.{said} Change --labels, --answer or the judge; "
                "--least-mass 0 goes on all the same"
            )
