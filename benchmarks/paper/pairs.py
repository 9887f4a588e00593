"""PairS: ranking by a merge sort that asks the judge for each comparison (Liu et al. 2024, arXiv:2403.16950).

The candidates are put in random order and sorted by halves, the worst first. To merge two sorted runs, their heads are
compared, the one from the left run shown first, and the worse one goes next. PairS-greedy decides by p ≥ ½.
PairS-beam keeps the `beam` likeliest partial merges, by the mean over their D decisions (as in the authors' code: by
the sum, a merge would gain by asking little)

    (1/D) Σ_d  log p_d  where the right head went next,  log(1 − p_d)  where the left one did,

and goes on with both heads only where the judge is unsure, |p − ½| ≤ threshold; elsewhere with the likelier alone. The
rest of a run whose partner has ended follows without a question. The likeliest whole merge is the sorted run; a beam of
1 is PairS-greedy. Partial merges with equal numbers taken from the left and from the right have the same continuations,
so only the likelier of them is kept (the authors' code keeps both): a beam wider than half of the candidates misses
nothing.

A call is one ordered question; no question is asked twice. As in the paper's algorithm each pair is asked in one order,
unless `both` averages p over the two orders, at two calls. Merges that do not depend on each other ask at the same
time.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comparo.data.columns import shown
from comparo.data.comparisons import Comparisons
from comparo.data.items import Items
from comparo.data.prompts import Prompt, Question
from comparo.errors import JudgeError
from comparo.judges import Judge
from comparo.judges.replay import Replay
from comparo.rounding import TIES, merge_ties

Asked = tuple[Any, Any, Any]  # context, first, second
Answer = Callable[[Sequence[Asked]], Sequence[float]]
Pair = tuple[int, int]
Sorting = Generator[list[Pair], Mapping[Pair, float], list[int]]

THRESHOLD = 0.1  # as in the examples of the authors' package
LEAST = 1e-9  # a probability of 0 must not rule out a merge


@dataclass(frozen=True, eq=False)
class Sorted:
    """Candidates sorted best first, their scores in the order in which they were given (N − 1 … 0), and the calls."""

    order: tuple[Any, ...]
    scores: NDArray[np.float64]
    calls: int


def sort_contexts(
    names: Mapping[Any, Sequence[Any]],
    answer: Answer,
    *,
    beam: int = 1,
    threshold: float = THRESHOLD,
    both: bool = False,
    rng: np.random.Generator,
) -> dict[Any, Sorted]:
    """The candidates of each context sorted, all contexts at once.

    `answer` takes questions (context, first, second) that do not depend on each other, and returns p for each.

    >>> recorded = Comparisons.from_rows([("a", "b", 0.3), ("b", "a", 0.6)])
    >>> sorted_by = sort_contexts({None: ["a", "b"]}, recorded_answers(recorded), rng=np.random.default_rng(0))
    >>> sorted_by[None].order, sorted_by[None].calls
    (('b', 'a'), 1)
    """
    candidates: list[tuple[Any, Any]] = [(context, name) for context, group in names.items() for name in group]
    start, sorts = 0, []
    for group in names.values():
        sorts.append(_sort((start + rng.permutation(len(group))).tolist(), beam, threshold))
        start += len(group)
    calls = dict.fromkeys(names, 0)

    def probabilities(wanted: list[Pair]) -> dict[Pair, float]:
        ordered = [*wanted, *((second, first) for first, second in wanted if both)]
        asked = [(candidates[first][0], candidates[first][1], candidates[second][1]) for first, second in ordered]
        found = answer(asked)
        for context, *_ in asked:
            calls[context] += 1
        if both:
            found = [(p + 1 - turned) / 2 for p, turned in zip(found, found[len(wanted) :], strict=False)]
        return dict(zip(wanted, found, strict=True))

    every = _together(sorts)
    try:
        wanted = next(every)
        while True:
            wanted = every.send(probabilities(wanted))
    except StopIteration as end:
        orders: list[list[int]] = end.value
    result = {}
    for context, order in zip(names, orders, strict=True):
        scores = np.empty(len(order))
        scores[np.array(order, dtype=np.int64) - min(order, default=0)] = np.arange(len(order))
        result[context] = Sorted(tuple(candidates[row][1] for row in reversed(order)), scores, calls[context])
    return result


def recorded_answers(recorded: Comparisons) -> Answer:
    """Answers from recorded judgements, which must hold every ordered pair that the sort may ask for.

    >>> recorded_answers(Comparisons.from_rows([("a", "b", 0.3)]))([(None, "b", "a")])
    Traceback (most recent call last):
    comparo.errors.JudgeError: replay/memory on 'b' against 'a': ...
    """
    return judge_answers(Replay(recorded), Prompt("{first}{second}"))


def judge_answers(judge: Judge, prompt: Prompt, items: Items | None = None) -> Answer:
    """Answers from a judge that is asked with a prompt about the texts of `items`; a failed one raises a JudgeError."""

    def answer(asked: Sequence[Asked]) -> list[float]:
        names = (Question(first, second, context) for context, first, second in asked)
        questions = list(names if items is None else (items.question(*one) for one in asked))
        found = {}
        for judgement in judge.judge(questions, prompt):
            question = judgement.question
            if judgement.failed:
                raise JudgeError(f"{judge.name} on {_named(question)}: {judgement.error}; PairS cannot go on without")
            found[question.context, question.first, question.second] = judgement.p
        return [found[one] for one in asked]

    return answer


def _named(question: Question) -> str:
    place = "" if question.context is None else f" in context {shown(question.context)}"
    return f"{shown(question.first)} against {shown(question.second)}{place}"


def _sort(rows: list[int], beam: int, threshold: float) -> Sorting:
    """A merge sort, the worst first, that yields the pairs it waits for and is sent their probabilities."""
    if len(rows) < 2:
        return rows
    middle = len(rows) // 2
    left, right = yield from _together([_sort(half, beam, threshold) for half in (rows[:middle], rows[middle:])])
    return (yield from _merge(left, right, beam, threshold))


def _together(sorts: Sequence[Sorting]) -> Generator[list[Pair], Mapping[Pair, float], list[list[int]]]:
    """Several sorts as one that waits for the pairs of all of them, and ends with the orders that they end with."""
    waiting: dict[int, list[Pair]] = {}
    ended: dict[int, list[int]] = {}
    answers: Mapping[Pair, float] | None = None
    while True:
        for number, sort in enumerate(sorts):
            if number not in ended:
                try:
                    waiting[number] = next(sort) if answers is None else sort.send(answers)
                except StopIteration as end:
                    ended[number] = end.value
                    waiting.pop(number, None)
        if not waiting:
            return [ended[number] for number in range(len(sorts))]
        answers = yield [pair for wanted in waiting.values() for pair in wanted]


def _merge(left: list[int], right: list[int], beam: int, threshold: float) -> Sorting:
    # By how many are taken from the left and the right: log-likelihood, decisions in it, path as (path before, row).
    partial: dict[Pair, tuple[float, int, Any]] = {(0, 0): (0.0, 0, None)}
    for _ in range(len(left) + len(right)):
        heads = {at: (left[at[0]], right[at[1]]) for at in partial if at[0] < len(left) and at[1] < len(right)}
        answers = (yield list(heads.values())) if heads else {}
        grown: dict[Pair, tuple[float, int, Any]] = {}
        for (i, j), (likelihood, decisions, path) in partial.items():
            steps = [(i < len(left), 1.0)]
            if (i, j) in heads:
                p, decisions = answers[heads[i, j]], decisions + 1
                steps = [(False, p)] * (p >= 0.5 - threshold) + [(True, 1 - p)] * (p <= 0.5 + threshold)
            for from_left, probability in steps:
                at, row = ((i + 1, j), left[i]) if from_left else ((i, j + 1), right[j])
                total = likelihood + log(max(probability, LEAST))
                if at not in grown or total / decisions > grown[at][0] / grown[at][1] + TIES:
                    grown[at] = total, decisions, (path, row)
        mean = merge_ties(np.array([likelihood / decisions for likelihood, decisions, _ in grown.values()]))
        likeliest = np.argsort(-mean, kind="stable")[:beam]  # the same decisions in another order have the same mean
        entries = list(grown.items())
        partial = dict(entries[number] for number in likeliest.tolist())
    [(_, _, path)] = partial.values()
    merged: list[int] = []
    while path is not None:
        path, row = path
        merged.append(row)
    return merged[::-1]
