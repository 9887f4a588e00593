"""The loop: choose pairs, judge them, store the answers, fit, until the budget is spent or the goal is reached."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from itertools import count
from typing import Any, Generic, TypeVar

from comparo.data.criteria_prompt import shares_in
from comparo.data.formats import csv_text
from comparo.data.prompts import Question
from comparo.data.run_folder import Key, key_of
from comparo.errors import JudgeError, RunError
from comparo.judges import Judgement
from comparo.judges.protocol import GRACE
from comparo.log.configuration import paid_and_spent
from comparo.log.questions import had_batches
from comparo.log.store import Store
from comparo.ranking.criteria_ranking import CriteriaRanking
from comparo.ranking.ranking import Ranking
from comparo.run.budget import TOKENS, Spending, tokens_of
from comparo.run.contexts import Contexts
from comparo.run.criteria import concluded
from comparo.run.progress import Progress, Watcher
from comparo.run.task import Task
from comparo.run.voices import model_sentences, with_texts
from comparo.run.worker import ENOUGH, Health, JudgeThreads, is_excess, too_many

LOOK = 0.5  # seconds between two looks at the clock, and between two reports of the progress

logger = logging.getLogger(__name__)
Result = TypeVar("Result")


class Experiment(Generic[Result]):
    """What a run is for: which contexts it asks about, and what comes out."""

    def __init__(self, run: Run) -> None:
        self.run = run

    def may_begin(self, context: Any) -> bool | None:
        """Whether a context is asked; None while this depends on missing answers, and no later context begins."""
        return True

    def result(self) -> Result:
        """Ask all questions, and return what they show."""
        raise NotImplementedError


class Rank(Experiment[Ranking]):
    """All contexts are asked, and ranked."""

    def result(self) -> Ranking:
        return self.run.finish()


class Run:
    """One start of a task on a store: stored answers are not asked again, failed questions are asked once more.

    `watch` is called with the progress about twice per second, or every `watch.pace` seconds. A run that is stopped by
    an exception, including KeyboardInterrupt, first waits some seconds for the calls in flight, because they are paid
    for; a second interrupt ends it immediately.

    Of several voices, one that cannot go on is left out with a warning and the run continues with the others: its
    remaining questions are stored as failed, never as ties, and are asked at the next start if calls are left.

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
        watch: Watcher | None = None,
        experiment: Callable[[Run], Experiment[Any]] = Rank,
    ) -> None:
        self.task, self.store, self.watch = task, store, watch
        expense = task.expense
        self.known = store.known()
        if new := [one for one in task.given if key_of(one.question) not in self.known]:
            store.add(new)
            self.known = store.known()
        last = [answers[-1] for answers in self.known.values()]
        failed = sum(answer.failed for answer in last)
        voices = {voice.name for voice in task.voices}  # the folder may hold answers of others (`rejudge`)
        own = (one for one in self.judgements if one.question.voice in voices)
        paid, spent = paid_and_spent(own, store.configuration)
        growth = task.growth
        own_given = sum(one.question.voice in voices for one in task.given)
        made, (was_paid, was_spent) = (0, (0.0, 0.0)) if growth is None else (own_given, growth.paid)
        total = made + expense.calls + sum(key[-1] not in voices for key in self.known)
        self.progress = Progress(total, len(last) - failed, failed, max(0.0, spent - was_spent))
        at_once = sum(getattr(judge, "concurrency", judge.ahead) for judge in task.judges)
        self.spending = Spending(task.budget.dollars, task.price_of, max(0.0, paid - was_paid), at_once)
        if task.budget.unit == TOKENS:
            read = sum(one.tokens_in for one in self.judgements if one.question.voice in voices)
            self.spending = Spending(task.budget.number, task.tokens_of, read, at_once, tokens_of)
        # More than `ahead` where replicas share the work.
        ahead = int(store.configuration.get("ahead", task.ahead))
        self.room = max(ahead, sum(getattr(judge, "room", judge.ahead) for judge in task.judges))
        given = [one for one in last if not one.failed] if had_batches(store) else task.given
        self.experiment = experiment(self)
        self.contexts = Contexts(task, self.known, store.configuration, given, may_begin=self.experiment.may_begin)
        self._pending: list[tuple[float, int, Question]] = []  # a heap, by turn and then in the order of the choice
        self._chosen = count()
        self._open: dict[Key, Question] = {}
        self.left_out: dict[str | None, str] = {}  # voices that cannot go on, and why
        first = min(ENOUGH, max(1, expense.calls // (2 * len(task.voices))))
        self._health = {
            voice.name: Health(voice.prompt.labels, task.least_mass, first, self._masses(voice.name))
            for voice in task.voices
        }
        self._looked, self._pace = time.monotonic(), getattr(watch, "pace", LOOK)  # seconds between two reports

    def go(self) -> Ranking:
        """Ask all questions, repeat the failed ones once, and return the ranking."""
        with JudgeThreads(self.task.voices, self.store.add) as threads:
            try:
                self._check(threads)
                self._fill(threads)
                self._listen(threads, self._fill)
                failed = [answers[-1].question for answers in self.known.values() if answers[-1].failed]
                again = [one for one in failed if one.voice not in self.left_out]
                left = max(0, self.progress.total - self.progress.answered)
                self._pending = [(0.0, next(self._chosen), self._question(one)) for one in again[:left]]
                self._send(threads)
                self._listen(threads, self._send)
            except (KeyboardInterrupt, JudgeError, RunError):
                self._wait_for_last(threads)
                raise
        return self._conclude()

    def _conclude(self) -> Ranking:
        """The ranking at the end of a run; a RunError where too many judgements failed."""
        last = [answers[-1] for answers in self.known.values() if answers[-1].question.voice not in self.left_out]
        lost = [answer for answer in last if answer.failed]
        if is_excess(len(lost), len(last)) or 0 < len(lost) == len(last):
            raise RunError(too_many(len(lost), len(last), lost[-1].error))
        for sentence in model_sentences(self.judgements):
            logger.warning(sentence)
        return self.ranking()

    def finish(self) -> Ranking:
        """Ask all questions; write the ranking, and that or the scores by each of several criteria or voices."""
        ranking = self.go()
        by_criterion = ranking.rankings if isinstance(ranking, CriteriaRanking) else {}
        for end, own in {"": ranking, **{f"-{name}": each for name, each in by_criterion.items()}}.items():
            self.store.write(f"ranking{end}.csv", own.to_csv())
            if own.leaderboard is not None:
                self.store.write(f"leaderboard{end}.csv", own.leaderboard.to_csv())
        if (views := ranking.tables.get("views")) is not None:
            place = {str(voice.name): number for number, voice in enumerate(self.task.voices, 1)}
            names = sorted(views, key=lambda name: place.get(name, 0))  # not in the order of the first answers
            self.store.write("voices.csv", csv_text({name: views[name] for name in names}))
        return ranking

    def ranking(self) -> Ranking:
        if not self.progress.answered:
            raise RunError("there are no answers to rank by yet")
        return concluded(self.task.fitting.conclude, self.answers, shares_in(self.store.configuration))

    @property
    def answers(self) -> list[Judgement]:
        """All answers so far, one for each criterion of a call; the voice of each is then its criterion."""
        return [answer for call in self.judgements for answer in call.each]

    @property
    def judgements(self) -> list[Judgement]:
        """All judgements so far, grouped by question."""
        return [judgement for judgements in self.known.values() for judgement in judgements]

    def both_orders(self, context: Any, one: Any, other: Any, which: int = -1) -> list[float]:
        """[P(`one` is preferred) where it is shown first, where it is shown second]; NaN for a failed answer.

        With several voices it is the mean of those that are not left out. An open question is left out. `which` is −1
        for the last answers, 0 for the first: failed ones are asked once more.
        """
        voices, found = [voice.name for voice in self.task.voices if voice.name not in self.left_out], []
        for first, second in ((one, other), (other, one)):
            known = [self.known.get(key_of(Question(first, second, context, voice=voice))) for voice in voices]
            if answers := [of_one[which] for of_one in known if of_one]:
                p = sum(math.nan if answer.failed else answer.p for answer in answers) / len(answers)
                found += [p if first is one else 1.0 - p] if len(answers) == len(voices) else []
        return found

    def _listen(self, threads: JudgeThreads, after: Callable[[JudgeThreads], None]) -> None:
        """Process answers as they arrive, until no question is open."""
        while threads.open:
            for judgement in threads.answers(timeout=LOOK):
                self._take(judgement)
            self.store.settle()
            self._look()
            self._check(threads)
            after(threads)

    def _wait_for_last(self, threads: JudgeThreads) -> None:
        """Wait some seconds for the calls in flight, whose answers the judge's thread stores."""
        if threads.out:
            logger.warning(
                f"Waiting up to {GRACE:g} s for the calls in flight ({threads.out}), to keep their answers; interrupt "
                "again to leave at once."
            )
        try:
            late = threads.finish(GRACE)
        except KeyboardInterrupt:
            late = threads.late()
        for judgement in late:
            self._count(judgement)

    def _take(self, judgement: Judgement) -> None:
        self._count(judgement)
        if judgement.cut and self.progress.cut == 1:
            logger.warning(
                f"Texts do not fit the model's window: {judgement.cut:,} characters of a prompt were cut, and the "
                "judge sees only beginnings; use a model with a larger window, or shorter texts."
            )
        self._health[judgement.question.voice].take(judgement)

    def _count(self, judgement: Judgement, was_asked: bool = True) -> None:
        question = judgement.question
        self._open.pop(key_of(question), None)
        self.progress.asked += was_asked
        if self._book(judgement):
            self.contexts.answer(judgement)

    def _book(self, judgement: Judgement) -> bool:
        """Count a judgement in `known`, the progress and the spending; return whether its question is new."""
        answers = self.known.setdefault(key_of(judgement.question), [])
        answers.append(judgement)
        is_new = len(answers) == 1
        self.progress.cut += judgement.cut > 0
        self.progress.pay(judgement)
        self.progress.failed += judgement.failed - (not is_new)
        self.progress.answered += not judgement.failed
        self.spending.settle(judgement)
        return is_new

    def pay(self, calls: Iterable[Judgement]) -> None:
        """Count the cost of calls that are not questions of the run, such as those of a check."""
        for call in calls:
            self.progress.pay(call)
            self.spending.settle(call)

    def _fill(self, threads: JudgeThreads) -> None:
        """Send the questions that may be asked now, except those with a stored answer."""
        self._send(threads)
        while questions := self.contexts.next(2 * self.room - threads.open - len(self._pending)):
            for turn, question in questions:
                if answers := self.known.get(key_of(question)):
                    # Later questions were chosen from the first answer, even if it failed and was answered later.
                    self.contexts.answer(answers[0])
                elif not self._is_full:
                    heappush(self._pending, (turn, next(self._chosen), self._question(question)))
            self._send(threads)

    def _send(self, threads: JudgeThreads) -> None:
        """Send pending questions within the spending limit; when it is reached, stop the run."""
        while self._pending:
            question = self._pending[0][-1]
            if question.voice in self.left_out:
                heappop(self._pending)
                self._fail(question)
                continue
            if not self.spending.allows(question):
                break
            heappop(self._pending)
            self.spending.reserve(question)
            self._open[key_of(question)] = question
            threads.ask(question)
        if self._pending and not threads.open:
            self._pending.clear()
            self.contexts.end()

    @property
    def _is_full(self) -> bool:
        """Whether a panel has all its calls: earlier versions shared them in another way, and their answers count."""
        made = self.progress.answered + len(self._open) + len(self._pending)
        return self.task.is_panel and made >= self.progress.total

    def _look(self) -> None:
        """Report the progress."""
        if self.watch is not None and time.monotonic() - self._looked >= self._pace:
            self.watch(self.progress)
            self._looked = time.monotonic()

    def _check(self, threads: JudgeThreads) -> None:
        """Leave out the voices that cannot go on; a RunError, or the JudgeError, where none is left."""
        for voice, error in threads.fallen.items():
            if voice not in self.left_out:
                self._leave_out(voice, str(error), error)
                for question in [one for one in self._open.values() if one.voice == voice]:
                    self._fail(question)
        for voice, health in self._health.items():
            if voice not in self.left_out and (problem := health.problem):
                self._leave_out(voice, problem, RunError(problem))

    def _leave_out(self, voice: str | None, reason: str, error: Exception) -> None:
        self.left_out[voice] = reason
        left = [str(one.name) for one in self.task.voices if one.name not in self.left_out]
        if not left:
            raise error
        end = " " if reason.endswith(".") else ". "
        logger.warning(f"{voice} is left out: " + reason + end + f"The run goes on with {', '.join(left)}.")

    def _fail(self, question: Question) -> None:
        """Store that a question was not asked, because its voice was left out."""
        failed = Judgement(question, error=f"{question.voice} was left out: {self.left_out[question.voice]}")
        (kept,) = self.store.add([failed])
        self._count(kept, was_asked=False)

    def _masses(self, voice: str | None) -> list[float]:
        """The share of probability on the labels in the answers of earlier starts."""
        last = (answers[-1] for key, answers in self.known.items() if key[-1] == voice)
        return [answer.mass for answer in last if answer.mass == answer.mass]

    def _question(self, asked: Question) -> Question:
        return with_texts(self.task.items, asked)
