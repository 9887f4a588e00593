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
from contextlib import closing
from dataclasses import replace
from itertools import accumulate
from math import inf, log
from typing import get_args

from comparo.data.criteria_prompt import CriteriaPrompt
from comparo.data.grammar import check_one
from comparo.data.prompts import Question
from comparo.data.run_folder import key_of
from comparo.errors import JudgeError, Message, PendingError, RunError
from comparo.judges import Judge, Judgement
from comparo.judges.batches import SHARE, WINDOW, LostError, SilentError, State
from comparo.log.folders import Mode
from comparo.log.questions import OpenBatch
from comparo.log.store import Store
from comparo.ranking.ranking import Ranking
from comparo.run.batch_transport import CANCELLED, CREATIONS, UNANSWERED, Courier, Pauses
from comparo.run.budget import TOKENS
from comparo.run.cached_judge import CachedJudge
from comparo.run.contexts import Contexts
from comparo.run.loop import LOOK, Run, logger
from comparo.run.progress import Watcher
from comparo.run.task import Task
from comparo.run.worker import answers_to, too_many

TRIES = 3  # batches that a question may be part of: where a share x of each expires, x³ have no answer in the end
PROOFS = 3  # consecutive failures of directly asked questions after which the run ends


def check_batch(task: Task, has_folder: bool, mode: Mode = "wait") -> Task:
    """The task at the price of batches; a ValueError where it cannot be asked by batches."""
    check_one("batch", mode, get_args(Mode))
    asked = task.judge.asked if isinstance(task.judge, CachedJudge) else task.judge
    price = getattr(asked, "at_batch_price", None)
    if task.is_panel:
        raise ValueError(Message("{batch} is for one judge and wording: what is asked of several depends on answers"))
    if isinstance(task.prompt, CriteriaPrompt):
        raise ValueError(Message("{batch} is for one criterion; give one, or leave it out"))
    if task.budget.unit == TOKENS:
        raise ValueError(Message("the budget of {batch} is in calls or dollars; give one such as 2n, or no batch"))
    if price is None or not hasattr(asked, "batches"):
        raise ValueError(
            f"{task.judge.name} takes no batches, as openai/ and anthropic/ do; " + Message("leave {batch} out")
        )
    if task.until is not None or task.strategy == "adaptive":
        which = Message("{until}, an adaptive {strategy} and goals other than ranking go by answers: leave them out")
        raise ValueError(Message("{batch} chooses all questions before the first answer; ") + which)
    if not has_folder:
        raise ValueError(Message("a batch may take a day, so it needs a folder to go on from: give {out:'FOLDER'}"))
    judge: Judge = price()
    return replace(task, judge=CachedJudge(judge, task.judge.cache) if isinstance(task.judge, CachedJudge) else judge)


class BatchRun(Run):
    """A run whose questions are asked by batches.

    With the `mode` "submit" it ends with a PendingError where the batches are not answered yet; "cancel" lets the
    server end them early and keeps what was answered. Questions that expired, or are missing from the results, are
    asked in up to `TRIES` batches; an answer that cannot be read is a failed judgement, as in any run.
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
        self._cache = task.judge if isinstance(task.judge, CachedJudge) else None
        self._away: dict[int, OpenBatch] = {}  # the batches at the server
        self._pool: deque[Question] = deque()
        self._most: float = inf  # questions in a batch at most; fewer after the server was full
        self._is_proved = self._is_cancelled = False
        self._lost: LostError | None = None  # why the answers of a batch are not certain
        self._full_until = 0.0
        self._unconfirmed = 0

    def go(self) -> Ranking:
        """Ask all questions by batches, and return the ranking."""
        with closing(self.task.judge.batches(self.task.prompt)) as server:  # type: ignore[attr-defined]
            self._courier = Courier(self.store, server, self._question, self.pauses)
            self._resume()
            pause = self.pauses.first
            while True:
                self._submit()
                for batch in list(self._away.values()):
                    self._look_at(batch)
                if not self._away and (not self._pool or self._is_cancelled):
                    break
                if self._may_send:
                    continue
                if self.mode == "submit":
                    raise self._lost or PendingError(self._not_yet())
                self._rest(pause)
                pause = min(1.5 * pause, self.pauses.longest)
        self.progress.batch = ""
        if self._lost is not None:
            raise self._lost
        if self._is_cancelled:
            kept = f"{self.progress.answered:,} answers are kept. The same command"
            if self.mode == "cancel":
                raise PendingError(f"Cancelled: {kept} (without cancel) asks the rest in another batch")
            raise RunError(f"the batch was cancelled at the server: {kept} asks the rest in another batch")
        return self._conclude()

    def _resume(self) -> None:
        """Take up the batches of earlier starts, and choose what is still to be asked."""
        self._away = {batch.number: batch for batch in self._courier.resume()}
        under_way = [one for batch in self._away.values() for one, _ in batch.questions.values()]
        for question in under_way:
            self.spending.reserve(self._question(question))
        if self.mode == "cancel":
            self._is_cancelled = True
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
        """Answer the questions of the pool that the cache has answers to."""
        for _ in range(len(self._pool)):
            question = self._pool.popleft()
            found = None if self._cache is None else self._cache.find(question, self.task.prompt)
            if found is None:
                self._pool.append(question)
                continue
            self.spending.reserve(question, times=1 / SHARE)
            self._keep(found)

    def _is_left(self, answers: list[Judgement]) -> bool:
        """Whether a question with these judgements is asked again in another batch."""
        error = answers[-1].error
        return error is not None and error.startswith(UNANSWERED) and len(answers) < TRIES

    def _choose(self, under_way: list[Question]) -> None:
        """Fill the remaining budget with new questions, besides those that were asked or are under way."""
        last = [answers[-1] for answers in self.known.values()]
        given = [_undecided(one.question) if one.failed else one for one in last]
        given += [_undecided(one) for one in under_way if key_of(one) not in self.known]
        chosen = Contexts(self.task, self.known, self.store.configuration, given, at_once=True).next()
        self._pool.extend(self._question(one) for _, one in sorted(chosen, key=lambda turn: turn[0]))

    @property
    def _may_send(self) -> bool:
        """Whether questions can be sent now; after the server was full, one batch at a time."""
        is_full = time.monotonic() < self._full_until or (self._most < inf and bool(self._away))
        return bool(self._pool) and not self._is_cancelled and not is_full

    def _submit(self) -> None:
        """Send the questions of the pool in batches."""
        while self._may_send:
            self._prove()
            self._afford()
            batch = self._courier.pack(self._pool, int(min(self._most, len(self._pool))), self._keep)
            if batch is None:
                continue
            for question, _ in batch.questions.values():
                self.spending.reserve(question)
            batch = self._away[batch.number] = self._courier.send(batch)
            self._show()
            if batch.id is not None:
                logger.warning(
                    f"Batch {batch.id} of {len(batch.questions):,} questions is at the server, which has {WINDOW} "
                    "hours for it. This command may be stopped: the same command goes on from here."
                )

    def _prove(self) -> None:
        """Ask questions directly until one is answered with enough probability on the labels."""
        failures = 0
        while self._pool and not self._is_proved:
            question = self._pool.popleft()
            self.spending.reserve(question, times=1 / SHARE)
            (answer,) = answers_to([question], self.task.voices[0])
            self._keep(replace(answer, cost=answer.cost / SHARE))
            failures = failures + 1 if answer.failed else 0
            if failures == PROOFS:
                raise RunError(too_many(failures, failures, answer.error))
            self._is_proved = not answer.failed and not answer.mass < self.task.least_mass

    def _afford(self) -> None:
        """Drop the last questions of the pool that exceed a budget in dollars."""
        left, costs = self.spending.left, accumulate(map(self.spending.expected, self._pool))
        self._pool = deque(question for question, cost in zip(self._pool, costs, strict=True) if cost <= left)

    def _look_at(self, batch: OpenBatch) -> None:
        """Poll a batch and collect its answers; a lost batch is dropped in mode "cancel", else raised at the end."""
        try:
            found = self._courier.look_at(batch)
            if found is None:
                self._return(batch)
                self._unconfirmed += 1
                if self._unconfirmed == CREATIONS:
                    raise JudgeError(f"the server did not create a batch in {CREATIONS} tries; run this again later")
            else:
                self._collect(*found)
        except SilentError as problem:
            if not self.progress.batch:  # never seen in this start: more likely a mistake than an outage
                raise
            logger.warning("%s; the batch goes on there, and is looked at again", problem)
        except LostError as problem:
            self._away.pop(batch.number, None)
            if self.mode == "cancel":
                self._courier.batches.drop(batch)
            else:
                self._lost = problem

    def _collect(self, batch: OpenBatch, state: State) -> None:
        """Take the answers of a finished batch; in mode "cancel", cancel an unfinished one."""
        self._away[batch.number] = batch
        self._show()
        if not state.is_over:
            if self.mode == "cancel" and batch.id is not None and not state.status.startswith("cancel"):
                self._courier.server.cancel(batch.id)
            return
        if state.error is not None:
            self._refused(batch, state)
            return
        self._is_cancelled |= state.status in CANCELLED
        self._most *= 2
        for judgements in self._courier.answers(batch, state):
            for judgement in judgements:
                if self._cache is not None:
                    self._cache.keep(judgement, self.task.prompt)
                self._take(judgement)
                if self._is_left(self.known[key_of(judgement.question)]):
                    self._pool.append(self._question(judgement.question))
        del self._away[batch.number]
        self._check_health()

    def _refused(self, batch: OpenBatch, state: State) -> None:
        """Raise why the server refused a batch; where its queue is full, return the questions to the pool."""
        self._courier.batches.drop(batch)
        if not state.is_full:
            raise RunError(f"the server refused the batch, so nothing was asked: {state.error}")
        self._return(batch)
        number = len(batch.questions)
        if self._away:
            self._most = min(self._most, number)
        elif number == 1:
            raise RunError(f"not even one question fits the server's queue: {state.error}")
        else:
            self._most, self._full_until = number // 2, time.monotonic() + self.pauses.full
            logger.warning(
                f"The server's queue has no room for this batch; it goes in parts of {self._most:,}: {state.error}"
            )

    def _return(self, batch: OpenBatch) -> None:
        """Return the questions of a batch that was not created to the pool."""
        self._away.pop(batch.number, None)
        questions = [self._question(one) for one, _ in batch.questions.values()]
        for question in questions:
            self.spending.settle(Judgement(question, error="not asked"))
        self._pool.extendleft(reversed(questions))

    def _keep(self, judgement: Judgement) -> None:
        for kept in self.store.add([judgement]):
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
        how_far = self.progress.batch or "waiting"
        return f"The batch is not answered yet ({how_far}). To go on with it, run the same command again"

    def _rest(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self._look()
            time.sleep(min(left, LOOK))


def _undecided(question: Question) -> Judgement:
    """What stands for a missing answer while questions are chosen: this one was asked, and says nothing."""
    size = len(question.items)
    return Judgement(question, p=1.0 / size, lineup="|".join([repr(-log(size))] * size) if size > 2 else "")
