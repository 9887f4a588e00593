"""comparo.compare: is one system better than another? Asked input by input, until the answer is sure.

Both texts about an input are shown in both orders, and who wins it is decided by the mean of the two answers in logits,
in which the position bias cancels. Inputs are asked in an order drawn by the seed, and count in that order, whichever
answer comes first; what is sure is decided by bets that hold whenever one looks (`comparo.analysis.sequential`). Two
texts that are the same are not asked about: neither wins.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from comparo.analysis.sequential import Bets
from comparo.data.items import Items
from comparo.data.pairing import Paired, pair_files, pair_groups
from comparo.judges import Judgement
from comparo.ranking.ranking import Ranking
from comparo.run.answers import count_cached
from comparo.run.database import key_of
from comparo.run.duel import Duel, margins, wins
from comparo.run.loop import Run
from comparo.run.rank import rank

NEITHER = math.nan, math.nan  # the answers about two texts that are the same


def compare(
    one: Any,
    other: Any,
    criterion: str | None = None,
    *,
    data: Any = None,
    group: str | None = None,
    names: tuple[str, str] | None = None,
    id: str | None = None,  # noqa: A002
    text: str | None = None,
    context: str | None = None,
    context_id: str | None = None,
    **asked: Any,
) -> Duel:
    """Ask a judge, input by input, whether one system is better than another, until the answer is sure.

    Parameters
    ----------
    one, other
        Two files, or anything that `Items.of` reads, with one text per input: rows belong together by `context_id`,
        else by `id`, else by their number. With `data`: two values of its column `group`, or two ids.
    data, group
        One source with the texts of both, and the column that says whose text it is.
    names
        What to call the two sides; by default the files' names.
    id, text, context, context_id
        The names of columns, as for `rank`.
    criterion, asked
        What is asked and of whom: judge, options, kind, heading, wording, prompt, least_mass, out, cache, watch and
        others, as for `rank`, with one judge and one wording. And: `budget`, a number of calls, two per input, or
        dollars ("$2"), by default every input; `level`, how sure the answer must be (0.95); `stop` (True), to ask no
        further input once it is; `seed`, for the order of inputs.

    Returns
    -------
    Duel

    Raises
    ------
    ComparisonsError
        If the two have no inputs in common, or one has two texts on an input.
    ValueError, JudgeError, RunError, StoreError
        As for `rank`.

    Examples
    --------
    >>> old = {f"q{k}": f"answer {k}" for k in range(40)}
    >>> new = {name: f"better {text}" for name, text in old.items()}
    >>> duel = compare(old, new, "better", judge=lambda first, second: 0.8 if "better" in first else 0.2)
    >>> duel.verdict
    'B is better than A: B wins 100% (50% to 100%) of 8 inputs'
    >>> duel.calls < 80
    True
    """
    columns: dict[str, Any] = {"id": id, "text": text, "context": context, "context_id": context_id}
    if data is None:
        paired = pair_files(one, other, names, **columns)
    else:
        paired = pair_groups(Items.of(data, group=group, **columns), str(one), str(other))
    return compare_pairs(paired, criterion, context=context, **asked)


def compare_pairs(
    paired: Paired,
    criterion: str | None = None,
    *,
    budget: str | int | None = None,
    level: float = 0.95,
    stop: bool = True,
    seed: int = 0,
    finish: Callable[[Run], Ranking] = Run.finish,
    **asked: Any,
) -> Duel:
    """`compare` for texts that are paired already; `asked` goes to `rank`."""
    if not 0 < level < 1:
        raise ValueError(f"level is a probability between 0 and 1, not {level!r}")
    order = _order(paired, seed)
    if paired.items is None:
        return _duel(paired, order, None, level, None)
    calls = _calls(budget)
    items = _reordered(paired.items, order, None if calls is None else calls // 2)
    kept = set(items.contexts.tolist()) | set(paired.same)
    order = [key for key in order if key in kept]
    runs: list[Run] = []

    def ask(run: Run) -> Ranking:
        runs.append(run)
        if stop:
            run.may_begin = _Watch(paired, order, run, level).may_begin
        return finish(run)

    most = budget if isinstance(budget, str) and budget.startswith("$") else "100%"
    ranking = rank(items, criterion, budget=most, seed=seed, estimate="judge", finish=ask, **asked)
    return _duel(paired, order, runs[0], level, ranking)


class _Watch:
    """Whether inputs are still asked, given the answers of a run to those before them."""

    def __init__(self, paired: Paired, order: Sequence[Any], run: Run, level: float) -> None:
        self.paired, self.order, self.run, self.level = paired, order, run, level
        same = set(paired.same)
        self.places = [place for place, key in enumerate(order) if key not in same]
        self.number = {order[place]: number for number, place in enumerate(self.places)}
        self._wins: list[float] = []
        self._looked_at = 0

    def may_begin(self, key: Any) -> bool | None:
        """Not if the inputs up to `ahead` before it were sure; None while one of them is open.

        So which inputs are asked depends on answers only, and not on how fast they come.
        """
        last = self.number[key] - self.run.ahead
        if last < 0:
            return True
        for asked in self.order[self._looked_at : self.places[last] + 1]:
            answers: tuple[float, float] | None = NEITHER
            if asked in self.number:
                both = _both(self.paired, asked, self.run)
                if len(both) < 2:
                    return None
                answers = _probabilities(both)
            self._wins += [] if answers is None else wins(margins(*np.array(answers)[:, None])).tolist()
            self._looked_at += 1
        return not self._wins or Bets(np.array(self._wins)).side(1 - self.level) == 0


def _both(paired: Paired, key: Any, run: Run) -> list[Judgement]:
    """The last answers about an input, with the other's text shown first and second; fewer where it is open."""
    items = run.task.items
    asked = (items.question(key, *names) for names in ((paired.other, paired.one), (paired.one, paired.other)))
    return [run.known[number][-1] for number in map(key_of, asked) if number in run.known]


def _probabilities(both: Sequence[Judgement]) -> tuple[float, float] | None:
    """P(the other's text is preferred), where it is shown first and second; None unless both were answered."""
    if len(both) < 2 or any(one.failed for one in both):
        return None
    return both[0].p, 1.0 - both[1].p


def _calls(budget: str | int | None) -> int | None:
    if budget is None or (isinstance(budget, str) and budget.startswith("$")):
        return None
    if not str(budget).isdecimal() or int(budget) < 4:
        raise ValueError(f"budget = {budget!r} is not a number of calls from 4 on (two per input), nor dollars: $2")
    return int(budget)


def _order(paired: Paired, seed: int) -> list[Any]:
    """All inputs that both sides have, in the order they are asked."""
    every = [*([] if paired.items is None else paired.items.contexts.tolist()), *paired.same]
    return [every[place] for place in np.random.default_rng(seed).permutation(len(every)).tolist()]


def _reordered(items: Items, order: Sequence[Any], most: int | None) -> Items:
    """The items of up to `most` inputs, in the order they are asked."""
    keys = [key for key in order if key in items.groups][:most]
    rows = np.concatenate([items.groups[key] for key in keys])
    contexts = np.empty(len(keys), dtype=object)
    contexts[:] = keys
    texts = tuple(items.context_texts[code] for code in items.context[rows[::2]].tolist())
    context = np.repeat(np.arange(len(keys), dtype=np.int32), 2)
    return Items(items.ids[rows], tuple(items.texts[row] for row in rows.tolist()), contexts, context, texts)


def _duel(paired: Paired, order: Sequence[Any], run: Run | None, level: float, ranking: Ranking | None) -> Duel:
    """What was answered, up to the first input that was not asked."""
    same = set(paired.same)
    found: dict[Any, tuple[float, float] | None] = {}
    for key in order:
        both = [] if key in same or run is None else _both(paired, key, run)
        if key not in same and not both:
            break
        found[key] = NEITHER if key in same else _probabilities(both)
    answered = {key: answers for key, answers in found.items() if answers is not None}
    inputs = np.empty(len(answered), dtype=object)
    inputs[:] = list(answered)
    answers = np.array(list(answered.values()), dtype=np.float64).reshape(-1, 2)
    return Duel(
        one=paired.one,
        other=paired.other,
        input=inputs,
        first=answers[:, 0],
        second=answers[:, 1],
        planned=len(same) + (0 if paired.items is None else len(paired.items.contexts)),
        same=len(same),
        failed=len(found) - len(answered),
        unmatched=paired.unmatched,
        calls=0 if run is None else run.progress.answered,
        cost=0.0 if run is None else run.progress.cost,
        level=level,
        ranking=ranking,
        cached=0 if run is None else count_cached(run.judgements),
    )
