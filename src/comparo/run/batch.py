"""A run by batches: all questions are chosen before the first answer, and go to the server in one upload.

One question is asked directly first: a wrong key, model or setting shows before anything waits for a day. Then

    pool ─► planned ─► uploaded ─► sent ─► created ─► over ─► judgements
      ▲                                                 │
      └──────────── questions without an answer ◄───────┘

where every step is in the run folder before the next request (`BatchStore`). A process may end at any moment:
the next one goes on, and no batch is lost or made twice.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from itertools import accumulate
from math import inf, nan
from typing import Any, Literal, get_args

from comparo.data.criteria_prompt import CriteriaPrompt
from comparo.data.prompts import Question
from comparo.data.run_folder import encode, key_of
from comparo.errors import JudgeError, PendingError, RunError
from comparo.judges import Judge, Judgement
from comparo.judges.batches import SHARE, WINDOW, LostError, SilentError, State
from comparo.ranking.ranking import Ranking
from comparo.run.batch_transport import CANCELLED, CREATIONS, UNANSWERED, Batch, Courier, Pauses, StrangerError
from comparo.run.budget import TOKENS
from comparo.run.loop import LOOK, Run, logger
from comparo.run.progress import Watcher
from comparo.run.recalling import Recalling
from comparo.run.scheduling import pair_source
from comparo.run.store import Store
from comparo.run.task import Task
from comparo.run.worker import too_many

Mode = Literal["wait", "submit", "cancel"]
TRIES = 3  # batches that a question may be part of: where a share x of each expires, x³ have no answer in the end
PROOFS = 3  # questions asked directly that fail one after another, before it is the judge that fails
WAITS = 12  # times, an hour in all, that a batch waits which should fit a server's queue, before it goes in parts
ROOM = 0.9  # of the tokens that may wait at a server: ours are estimated from characters


def check_batch(task: Task, has_folder: bool, mode: Mode = "wait") -> Task:
    """The task at the price of batches; a ValueError where it cannot be asked by batches."""
    if mode not in get_args(Mode):
        raise ValueError(f"batch is one of {', '.join(map(repr, get_args(Mode)))}, not {mode!r}")
    asked = task.judge.asked if isinstance(task.judge, Recalling) else task.judge
    price = getattr(asked, "at_batch_price", None)
    if task.is_panel:
        raise ValueError("`batch` is for one judge and one wording: what is asked of several depends on their answers")
    if isinstance(task.prompt, CriteriaPrompt):
        raise ValueError("`batch` is for one criterion; give one, or leave it out")
    if task.budget.unit == TOKENS:
        raise ValueError("the budget of `batch` is in calls or dollars; give one such as 2n, or no batch")
    if price is None or not hasattr(asked, "batches"):
        raise ValueError(f"{task.judge.name} takes no batches; openai/ and anthropic/ judges do. Leave `batch` out")
    if task.until is not None or task.strategy == "adaptive":
        what = (
            "`until`" if task.until is not None else f"goal={task.goal!r}" if task.goal != "ranking" else "`strategy`"
        )
        raise ValueError(f"`batch` chooses all questions before the first answer, and {what} goes by answers; drop one")
    if not has_folder:
        raise ValueError("a batch may take a day, so it needs a folder from which to go on: give out='FOLDER'")
    judge: Judge = price()
    return replace(task, judge=Recalling(judge, task.judge.cache) if isinstance(task.judge, Recalling) else judge)


class BatchRun(Run):
    """A run whose questions are asked by batches.

    With the `mode` "submit" it ends with a PendingError where the batches are not answered yet; "cancel" lets the
    server end them early and keeps what was answered. Questions that expired, or of which the results say nothing, are
    asked again in up to `TRIES` batches; an answer that cannot be read is a failed judgement, as in any run.
    """

    def __init__(
        self,
        task: Task,
        store: Store,
        watch: Watcher | None = None,
        mode: Mode = "wait",
        pauses: Pauses | None = None,
    ) -> None:
        super().__init__(task, store, watch)
        self.mode, self.pauses = mode, pauses or Pauses()
        self._cache = task.judge if isinstance(task.judge, Recalling) else None
        self._away: dict[int, Batch] = {}  # the batches at the server
        self._pool: deque[Question] = deque()
        self._most: float = inf  # questions of a batch, fewer where the server was full
        self._is_proved = self._is_cancelled = False
        self._lost: LostError | None = None  # why the answers of a batch are not certain
        self._full_until = 0.0
        self._unconfirmed = self._waits = 0

    def go(self) -> Ranking:
        """Ask all questions by batches, and return the ranking."""
        with closing(self.task.judge.batches(self.task.prompt)) as server:  # type: ignore[attr-defined]
            self._courier = Courier(self.store, server, self._question, self.pauses)
            self._resume()
            pause = self.pauses.first
            while True:
                self._submit()
                for batch in list(self._away.values()):
                    self._if_there(batch, self._look_at)
                if not self._away and (not self._pool or self._is_cancelled):
                    break
                if self.mode == "submit":
                    raise self._lost or PendingError(self._not_yet())
                self._rest(pause)
                pause = min(1.5 * pause, self.pauses.longest)
        self.progress.batch = ""
        if self._lost is not None:
            raise self._lost
        if self._is_cancelled:
            raise PendingError(
                f"Cancelled: {self.progress.answered:,} answers are kept. The same command (without cancel) asks the "
                "rest in another batch"
            )
        return self._conclude()

    def _resume(self) -> None:
        """Take up the batches of earlier starts, and choose what is still to be asked."""
        self._away = {batch.number: batch for batch in self._courier.resume()}
        under_way = [one for batch in self._away.values() for one, _ in batch.questions.values()]
        for question in under_way:
            self.spending.reserve(self._question(question))
        if self.mode == "cancel":
            self._is_cancelled = True
            for batch in list(self._away.values()):
                self._if_there(batch, self._courier.cancel)
            return
        keys = {key_of(question) for question in under_way}
        self._pool.extend(
            self._question(answers[-1].question)
            for key, answers in self.known.items()
            if key not in keys and self._is_left(answers)
        )
        self._choose(under_way)
        self._recall()

    def _recall(self) -> None:
        """Take the answers that are in a cache from there."""
        for _ in range(len(self._pool)):
            question = self._pool.popleft()
            found = None if self._cache is None else self._cache.find(question, self.task.prompt)
            if found is None:
                self._pool.append(question)
                continue
            self.spending.reserve(question, times=1 / SHARE)
            self._keep([found])

    def _is_left(self, answers: list[Judgement]) -> bool:
        """Whether a question, with what is known of it, is to be asked in another batch."""
        error = answers[-1].error
        return error is not None and error.startswith(UNANSWERED) and len(answers) < TRIES

    def _choose(self, under_way: list[Question]) -> None:
        """Fill the remaining budget with new pairs or line-ups, besides those that were asked or are under way."""
        rows: dict[str, list[Any]] = {}

        def asked_before(question: Question, p: float = nan, weight: float = 1.0) -> None:
            pair = question.first, question.second, p, weight
            row = pair if self.task.prompt.size == 2 else {"items": question.items}
            rows.setdefault(encode(question.context), []).append(row)

        for answers in self.known.values():
            asked_before(answers[-1].question, answers[-1].p, answers[-1].weight)
        for question in under_way:
            if key_of(question) not in self.known:
                asked_before(question)
        for context, ids, calls, orders, rng in self._waiting:
            asked = rows.get(encode(context), [])
            if len(asked) >= calls:
                continue
            contrast = self.task.fitting.contrast[context] if self.task.weighs_pairs else None
            selector, _ = pair_source(self.task, context, ids, orders, rng, contrast, None, False)
            if asked:
                selector.observe(asked)
            if number := min(calls - len(asked), selector.remaining or 0):
                self._pool.extend(self.task.items.question(context, *pair) for pair in selector.next(number))

    def _submit(self) -> None:
        """Send what is in the pool, in as many batches as it needs; one after another where the server was full."""
        while self._pool and not self._is_cancelled and time.monotonic() >= self._full_until:
            if self._most < inf and self._away:
                return
            self._prove()
            self._afford()
            packed = self._courier.pack(
                self._pool, int(min(self._most, len(self._pool))), lambda refused: self._keep([refused])
            )
            if packed is None:
                continue
            questions = [one for one, _ in packed[0].questions.values()]
            for question in questions:
                self.spending.reserve(question)
            batch = self._courier.send(*packed)
            if batch is None:
                self._return(questions)
                self._unconfirmed += 1
                if self._unconfirmed == CREATIONS:
                    raise JudgeError(f"the server did not create a batch in {CREATIONS} tries; run this again later")
                continue
            self._away[batch.number] = batch
            self._show()
            logger.warning(
                f"Batch {batch.id} of {len(questions):,} questions is at the server, which has {WINDOW} hours for it. "
                "This command may be stopped: the same command goes on from here."
            )

    def _prove(self) -> None:
        """Ask a question directly, and more of them as long as the answers are not as they should be."""
        failures = 0
        while self._pool and not self._is_proved:
            question = self._pool.popleft()
            self.spending.reserve(question, times=1 / SHARE)
            (answer,) = self.task.judge.judge([question], self.task.prompt)
            self._keep([replace(answer, cost=answer.cost / SHARE)])
            failures = failures + 1 if answer.failed else 0
            if failures == PROOFS:
                raise RunError(too_many(failures, failures, answer.error))
            self._is_proved = not answer.failed and not answer.mass < self.task.least_mass

    def _afford(self) -> None:
        """Leave out the last questions of the pool that a budget in dollars does not allow."""
        left, costs = self.spending.left, accumulate(map(self.spending.expected, self._pool))
        self._pool = deque(question for question, cost in zip(self._pool, costs, strict=True) if cost <= left)

    def _if_there(self, batch: Batch, do: Callable[[Batch], None]) -> None:
        """Do something with a batch; lost results give it up by "cancel", and are raised after the others else."""
        try:
            do(batch)
        except LostError as problem:
            self._away.pop(batch.number, None)
            if self.mode == "cancel":
                self._courier.batches.drop(batch)
            else:
                self._lost = problem

    def _look_at(self, batch: Batch) -> None:
        """Ask how far a batch is; where it is over, take what it has."""
        try:
            batch, state = self._courier.look_at(batch)
        except SilentError as problem:
            if not self.progress.batch:  # never seen in this start: more likely a mistake than an outage
                raise
            logger.warning("%s; the batch goes on there, and is looked at again", problem)
            return
        self._away[batch.number] = batch
        self._show()
        if not state.is_over:
            return
        del self._away[batch.number]
        if state.error is not None:
            self._heed(batch, state)
            return
        self._is_cancelled |= state.status in CANCELLED
        self._most, self._waits = 2 * self._most, 0
        try:
            for judgements in self._courier.answers(batch, state):
                for judgement in judgements:
                    if self._cache is not None:
                        self._cache.keep(judgement, self.task.prompt)
                    self._take(judgement)
                    if self._is_left(self.known[key_of(judgement.question)]):
                        self._pool.append(self._question(judgement.question))
        except StrangerError:
            if (found := self._courier.look_again(batch)) is not None:
                self._away[found.number] = found
            else:
                self._return([self._question(one) for one, _ in batch.questions.values()])
        self._check_health()

    def _heed(self, batch: Batch, state: State) -> None:
        """Put the questions of a batch that the server refused as a whole back; raise what that means, or wait."""
        self._courier.refused(batch)
        if not state.is_full:
            raise RunError(f"the server refused the batch, so nothing was asked: {state.error}")
        questions = [self._question(one) for one, _ in batch.questions.values()]
        self._return(questions)
        tokens = sum(map(self.task.tokens_of, questions))
        if state.room is not None and tokens <= ROOM * state.room and not self._away and self._waits < WAITS:
            self._full_until = time.monotonic() + self.pauses.full
            if not self._waits:
                logger.warning(f"Other batches fill the server's queue, so this one waits: {state.error}")
            self._waits += 1
        elif not self._away:
            share = 0.5 if state.room is None else min(0.5, ROOM * state.room / tokens)
            if len(questions) == 1:
                raise RunError(f"not even one question fits the server's queue: {state.error}")
            self._most, self._waits = max(1, int(share * len(questions))), 0
            logger.warning(
                f"The server's queue is too short for this batch; it goes in parts of {self._most:,}: {state.error}"
            )
        else:
            self._most = min(self._most, len(questions))

    def _return(self, questions: list[Question]) -> None:
        """Put questions back of which no batch was made."""
        for question in questions:
            self.spending.settle(Judgement(question, error="not asked"))
        self._pool.extendleft(reversed(questions))

    def _keep(self, judgements: list[Judgement]) -> None:
        for kept in self.store.add(judgements):
            self._take(kept)
        self._check_health()

    def _take(self, judgement: Judgement) -> None:
        if (judgement.error or "").startswith(UNANSWERED):  # says nothing about the judge
            self._count(judgement)
        else:
            super()._take(judgement)

    def _check_health(self) -> None:
        if problem := self._health[None].problem:
            raise RunError(problem)

    def _show(self) -> None:
        self.progress.batch = "; ".join(one.how_far for one in self._away.values())

    def _not_yet(self) -> str:
        command = self.store.configuration.get("command")
        how = f"run the same command again: {command}" if command else "run the same again"
        return f"The batch is not answered yet ({self.progress.batch or 'waiting'}). To go on with it, {how}"

    def _rest(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self._look()
            time.sleep(min(left, LOOK))
