"""comparo.compare: is one system better than another? Asked input by input, until the answer is sure.

Both texts about an input are shown in both orders, and who wins it is decided by the mean of the two answers in logits,
in which the position bias cancels. Inputs are asked in an order drawn by the seed, and count in that order, whichever
answer comes first; what is sure is decided by bets that hold whenever one looks (`comparo.analysis.sequential`). Two
texts that are the same are not asked about: neither wins.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from comparo.analysis.sequential import Bets
from comparo.data.items import Items
from comparo.data.pairing import Paired, pair_files, pair_groups
from comparo.judges import Judgement
from comparo.ranking.ranking import Ranking
from comparo.run.duel import Duel, margins, wins
from comparo.run.loop import Run
from comparo.run.rank import rank
from comparo.types import Array


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
        What is asked and of whom: judge, options, kind, heading, wording, prompt, least_mass, out, watch and others, as
        for `rank`, with one judge and one wording. And: `budget`, a number of calls, two per input, or dollars ("$2"),
        by default every input; `level`, how sure the answer must be (0.95); `stop` (True), to ask no further input once
        it is; `seed`, for the order of inputs.

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
        return _duel(paired, order, (), (0, 0.0), level, None)
    calls = _calls(budget)
    items = _reordered(paired.items, order, None if calls is None else calls // 2)
    kept = set(items.contexts.tolist()) | set(paired.same)
    order = [key for key in order if key in kept]
    runs: list[Run] = []

    def ask(run: Run) -> Ranking:
        runs.append(run)
        if stop:
            run.may_begin = lambda key: _may_begin(paired, order, key, run, level)
        return finish(run)

    most = budget if isinstance(budget, str) and budget.startswith("$") else "100%"
    ranking = rank(items, criterion, budget=most, seed=seed, estimate="judge", finish=ask, **asked)
    progress = runs[0].progress
    return _duel(paired, order, runs[0].judgements, (progress.answered, progress.cost), level, ranking)


def _may_begin(paired: Paired, order: Sequence[Any], key: Any, run: Run, level: float) -> bool | None:
    """Whether an input is asked: not if those up to `ahead` inputs before it were sure; None while one is open.

    So which inputs are asked depends on answers only, and not on how fast they come.
    """
    same = set(paired.same)
    asked = [one for one in order if one not in same]
    last = asked.index(key) - run.ahead
    if last < 0:
        return True
    before = order[: order.index(asked[last]) + 1]
    answers = _answers(paired, run.judgements)
    if any(len(answers.get(one, {})) < 2 for one in asked[: last + 1]):
        return None
    seen = _seen(paired, before, run.judgements)
    return not seen.inputs or Bets(wins(margins(seen.first, seen.second))).side(1 - level) == 0


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


@dataclass(frozen=True, eq=False)
class _Seen:
    """Inputs in the order they are asked, and the answers about them in both orders."""

    inputs: list[Any]
    first: Array
    second: Array
    failed: int


def _answers(paired: Paired, judgements: Sequence[Judgement]) -> dict[Any, dict[bool, Judgement]]:
    """The answers about each input by whether the other's text was shown first; of one asked twice, the last counts."""
    found: dict[Any, dict[bool, Judgement]] = {}
    for judgement in judgements:
        found.setdefault(judgement.question.context, {})[judgement.question.first == paired.other] = judgement
    return found


def _seen(paired: Paired, order: Sequence[Any], judgements: Sequence[Judgement]) -> _Seen:
    """The inputs, of those in `order`, that were answered in both orders, and how many were asked and were not."""
    answers, same, rows, failed = _answers(paired, judgements), set(paired.same), [], 0
    for key in order:
        own = answers.get(key, {})
        if key in same:
            rows.append((key, math.nan, math.nan))
        elif len(own) == 2 and not any(one.failed for one in own.values()):
            rows.append((key, own[True].p, 1.0 - own[False].p))
        else:
            failed += bool(own)
    keys = [key for key, *_ in rows]
    values = np.array([row[1:] for row in rows], dtype=np.float64).reshape(-1, 2)
    return _Seen(keys, values[:, 0], values[:, 1], failed)


def _duel(
    paired: Paired,
    order: Sequence[Any],
    judgements: Sequence[Judgement],
    spent: tuple[int, float],
    level: float,
    ranking: Ranking | None,
) -> Duel:
    answers, same = _answers(paired, judgements), set(paired.same)
    end = next((place for place, key in enumerate(order) if key not in same and key not in answers), len(order))
    seen = _seen(paired, order[:end], judgements)
    inputs = np.empty(len(seen.inputs), dtype=object)
    inputs[:] = seen.inputs
    planned = len(paired.same) + (0 if paired.items is None else len(paired.items.contexts))
    return Duel(
        one=paired.one,
        other=paired.other,
        input=inputs,
        first=seen.first,
        second=seen.second,
        planned=planned,
        same=len(paired.same),
        failed=seen.failed,
        unmatched=paired.unmatched,
        calls=spent[0],
        cost=spent[1],
        level=level,
        ranking=ranking,
    )
