"""A scorer for inspect_ai: the probability that a judge prefers the model's answer to a reference.

The judge sees answer and reference in both orders. The score of a sample is σ of the mean of the judge's two logits, in
which the position bias cancels, as in `comparo.compare`. The reference is the sample's target, or another model's
answer to the sample (`baseline`).

Many coroutines share one judge, which takes their questions together.

The judge runs in a thread (`comparo.run.worker.JudgeThreads`), because it waits for a server or computes. The thread
starts with the first coroutine that asks, and ends when no coroutine waits, so nothing has to be closed.
"""

from __future__ import annotations

from collections import deque
from contextlib import ExitStack

import numpy as np
from anyio import Lock, to_thread
from scipy.special import expit

from comparo.data.prompts import Prompt, Question, choose_prompt
from comparo.judges import Judge, Judgement
from comparo.options import DEFAULT_JUDGE, JudgeLike
from comparo.run.cached_judge import probe_judges
from comparo.run.compare_result import margins
from comparo.run.voices import Voice, make_judges
from comparo.run.worker import PATIENCE, JudgeThreads


class Desk:
    """Sends the questions of many coroutines to one judge, and returns each answer to the coroutine that asked.

    The judge is probed before its first question, as in a run. Equal questions have the same answer. An error of the
    judge is raised in all waiting coroutines.
    """

    def __init__(self, judge: Judge, prompt: Prompt) -> None:
        self._judge, self._prompt = judge, prompt
        self._lock = Lock()  # held by the one coroutine that waits for answers, for all of them
        self._new: deque[Question] = deque()  # a thread takes from it while others add
        self._found: dict[Question, Judgement] = {}
        self._guests = 0
        self._open = ExitStack()
        self._threads: JudgeThreads | None = None
        self._error: BaseException | None = None
        self._is_probed = False

    async def ask(self, *questions: Question) -> list[Judgement]:
        """Return the answers to the questions, in the same order."""
        self._guests += 1
        self._new.extend(questions)
        try:
            while not all(question in self._found for question in questions):
                async with self._lock:
                    if self._error is not None:
                        raise self._error
                    await to_thread.run_sync(self._serve)
            return [self._found[question] for question in questions]
        finally:
            self._guests -= 1
            if self._guests == 0:
                self._open.close()
                self._threads = self._error = None
                self._new.clear()

    def _serve(self) -> None:
        """Send the new questions and collect answers, for `PATIENCE` seconds at most; one thread at a time."""
        try:
            if not self._is_probed:
                probe_judges([self._judge])
                self._is_probed = True
            if self._threads is None:
                self._threads = self._open.enter_context(JudgeThreads([Voice(None, self._judge, self._prompt)], list))
            while self._new:
                self._threads.ask(self._new.popleft())
            self._found |= {one.question: one for one in self._threads.answers(PATIENCE)}
        except BaseException as error:
            self._error = error
            raise


try:
    from inspect_ai.log import read_eval_log
    from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
    from inspect_ai.solver import TaskState
except ImportError as problem:
    raise ImportError("comparo.adapters.inspect needs inspect_ai: pip install inspect_ai") from problem


ANSWER, REFERENCE = "answer", "reference"


@scorer(metrics=[mean(), stderr()])
def preferred(
    criterion: str | None = None,
    judge: JudgeLike | None = None,
    kind: str = "Answer",
    heading: str | None = "Question",
    wording: str | None = None,
    prompt: str | None = None,
    baseline: str | None = None,
    cache: str | None = None,
) -> Scorer:
    """P(the answer is preferred to the reference), by a judge that sees both orders.

    Parameters
    ----------
    criterion, kind, wording, prompt
        The question, as for `comparo.rank`.
    judge, cache
        The judge, as for `comparo.rank`; by default the small model on this machine.
    heading
        The heading of the sample's input, which the judge is shown; None shows no input.
    baseline
        The log of an evaluation of the same samples, whose answers are the references in place of the targets.

    A sample has no score (`Score.unscored`) if the judge does not answer or there is no reference. An empty answer
    scores 0, and an answer that equals the reference ½, without a call.
    """
    asked = choose_prompt(criterion, prompt, kind=kind, heading=heading, wording=wording)
    [found] = make_judges(DEFAULT_JUDGE if judge is None else judge, cache)
    getattr(found, "ready", lambda: None)()  # an error, such as a missing key, before the evaluation
    desk = Desk(found, asked)
    before = None if baseline is None else _answers(baseline)

    async def score(state: TaskState, target: Target) -> Score:
        name, answer = _input_name(state.sample_id, state.epoch), state.output.completion
        reference = target.text if before is None else before.get(name, "")
        if not reference.strip():
            told = "target" if before is None else f"answer in {baseline}"
            return Score.unscored(reason="scoring_failed", answer=answer, explanation=f"sample {name} has no {told}")
        if not answer.strip():
            return Score(value=0.0, answer=answer, reason="no_response", explanation="the answer is empty")
        if answer == reference:
            return Score(value=0.5, answer=answer, explanation="the answer is the reference")
        shown = state.input_text if heading is not None else None
        both = await desk.ask(
            Question(ANSWER, REFERENCE, name, answer, reference, shown),
            Question(REFERENCE, ANSWER, name, reference, answer, shown),
        )
        if failed := [one.error for one in both if one.error is not None]:
            return Score.unscored(reason="grader_failed", answer=answer, explanation=failed[0])
        first, second = both[0].p, 1.0 - both[1].p
        value = float(expit(margins(np.array([first]), np.array([second]))[0]))
        told = f"{found.name} prefers the answer with {first:.2f} where it is first, {second:.2f} where it is second"
        return Score(value=value, answer=answer, explanation=told, metadata={"first": first, "second": second})

    return score


def _answers(log: str) -> dict[str, str]:
    """The answers in a log, by the `_input_name` of their samples; a ValueError if it has none."""
    samples = read_eval_log(log).samples or []
    if not any(sample.output.completion.strip() for sample in samples):
        raise ValueError(f"baseline = {log} has no answers; give the log of an evaluation with its samples")
    return {_input_name(sample.id, sample.epoch): sample.output.completion for sample in samples}


def _input_name(sample: int | str, epoch: int) -> str:
    return str(sample) if epoch == 1 else f"{sample}, epoch {epoch}"
