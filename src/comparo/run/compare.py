"""comparo.compare: is one system better than another? Asked input by input, until the answer is sure.

Both texts about an input are shown in both orders, to each of the judges; the mean of the answers is how much one is
preferred, and a position bias cancels in it where systems are equal. Inputs are asked in an order drawn by the seed,
and count in that order, whichever answer comes first; the stopping rule is a test by betting, valid at every stopping
time (`comparo.analysis.sequential`). Inputs of a topic are asked one after the other, and their mean is one
observation; where there are few topics, a part of the error is kept for a test of all of them. Two texts that are the
same are not asked about: neither wins. `Duel` is the result.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, groupby
from typing import Any, Generic

import numpy as np

from comparo.analysis.sequential import BETS, FEW, Bettors
from comparo.data.grammar import accepts, part
from comparo.data.items import Items
from comparo.data.pairing import Paired, pair_files, pair_groups
from comparo.errors import Message, OptionError, RunError
from comparo.log.rows import as_objects
from comparo.options import CompareOptions, RankOptions, TextOptions
from comparo.ranking.ranking import Ranking, with_solution
from comparo.run.compare_result import NEITHER, Duel, too_few
from comparo.run.loop import Experiment, Result, Run
from comparo.run.plan import Plan
from comparo.run.progress import Watch
from comparo.run.rank import plan_rank
from comparo.run.voices import count_cached, listed, make_prompts
from comparo.types import check_level

logger = logging.getLogger(__name__)

BEYOND = 1.25  # most calls made per call needed: the others are in flight when the comparison stops


@accepts(CompareOptions)
def compare(one: Any, options: CompareOptions) -> Duel:
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
    cluster
        The column of the cluster of an input, by default "topic" where there is one. Inputs of a cluster are not
        independent: the mean of a cluster is one observation. "id" makes every input its own cluster.
    criterion, judge, kind, wording, prompt, least_mass, out, cache, watch
        As for `rank`. Each of several judges is asked about every input, and their mean is one observation.
    budget
        A number of calls, two per input and judge, or dollars ("$2"); by default every input.
    level, stop
        How sure the answer must be, and whether no further input is asked once it is.
    not_worse_than
        Ask whether the win rate is above this share, below 0.5, in place of ½ (`Duel.is_not_worse`).
    seed
        The seed of the order of inputs.

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
    'B is better than A: win rate 80% (57% to 98%) on 13 inputs'
    >>> duel.calls < 80
    True
    """
    columns, data, other, cluster = part(options, TextOptions), options.data, options.other, options.cluster
    if data is None:
        paired = pair_files(one, other, options.names, cluster, **columns)
    else:
        paired = pair_groups(data, str(one), str(other), options.group, cluster, **columns)
    return prepare_compare(paired, options).run(options.watch)


def prepare_compare(paired: Paired, options: CompareOptions) -> Plan[Duel] | Known[Duel]:
    """Check the options of `compare` for paired texts; nothing is asked."""
    budget = options.budget
    check_level(options.level)
    if few := too_few(paired.cluster, paired.units, options.level):
        logger.warning(few)
    order = _order(paired, options.seed)
    if paired.items is None:
        return Known(_duel(paired, order, None, options, None))
    judges = listed(options.judge)
    prompts = make_prompts(paired.items, options, judges, options.context)
    each = 2 * max(1, len(judges)) * len(prompts)
    calls = _calls(budget, 2 * each)
    items = _reordered(paired.items, order, None if calls is None else calls // each)
    kept = set(items.contexts.tolist()) | set(paired.same)
    most = budget if isinstance(budget, str) and budget.startswith("$") else f"{50 * each}%"
    asked = part(options, RankOptions) | {"budget": most, "estimate": "judge"}
    experiment = partial(Comparing, paired, [key for key in order if key in kept], options)
    plan: Plan[Any] = plan_rank(items, RankOptions(**asked), experiment).base
    if plan.task.growth is None and min(plan.expense.by_context.values())[0] < each:
        remedy = f"is less than {each} calls for each input; give more, or a number of calls"
        raise OptionError("budget", budget, remedy)
    plan.restarts = items
    return plan


@dataclass
class Known(Generic[Result]):
    """A plan whose result is known: nothing is asked."""

    result: Result
    base = None

    def run(self, watch: Watch = None) -> Result:
        return self.result


class Comparing(Experiment[Duel]):
    """The inputs are asked in their order; with `stop`, until the answer is sure.

    An input is asked if the calls up to it are at most `BEYOND` times the fewest after which the bets can be sure:
    the decision depends on the answers, not on how fast they come.
    """

    def __init__(self, paired: Paired, order: Sequence[Any], options: CompareOptions, run: Run) -> None:
        super().__init__(run)
        self.paired, self.order, self.options = paired, order, options
        self.compared, self.same = set(order), set(paired.same)  # the folder may have others
        self.units = [list(keys) for _, keys in groupby(order, key=paired.unit)]
        asked = [[key for key in keys if key not in self.same] for keys in self.units]
        self.number = {key: number for number, key in enumerate(chain.from_iterable(asked))}
        share = 1.0 if paired.cluster is None or paired.units not in FEW else BETS
        line = options.not_worse_than or 0.5
        self.bettors = Bettors(np.array([line]), share * (1 - options.level), paired.units)
        self._ends = np.cumsum([len(keys) for keys in asked]).tolist()
        self._done = self._allowed = 0
        self._allow()

    def may_begin(self, context: Any) -> bool | None:
        """Whether the input is asked; None while this depends on a missing answer."""
        if context not in self.compared or not self.options.stop:
            return context in self.compared
        while self.number[context] >= self._allowed:
            if not self.bettors.needed:
                return False
            if not self._look():
                return None
            self._allow()
        return True

    def result(self) -> Duel:
        """Ask about the inputs, and compare the two sides."""
        # Once the answer is sure, the other inputs are left out on purpose.
        ranking = with_solution(self.run.finish(), unreached=())
        duel = _duel(self.paired, self.order, self.run, self.options, ranking)
        if not duel.asked:
            remedy = Message("give a larger {budget}, choose another {out}, or start anew with {fresh:True}")
            raise RunError("no input was answered in both orders, so nothing is known; " + remedy)
        return duel

    def _allow(self) -> None:
        """Allow the inputs up to the first after which the answer can be sure, and a quarter more."""
        if needed := self.bettors.needed:
            last = self._ends[min(self._done + needed, len(self._ends)) - 1]
            self._allowed = max(self._allowed, int(BEYOND * last))

    def _look(self) -> bool:
        """Bet on the next input, or cluster of inputs; False where it is not answered yet."""
        found = []
        for key in self.units[self._done]:
            both = [0.5, 0.5] if key in self.same else self.run.both_orders(key, self.paired.other, self.paired.one)
            if len(both) < 2:
                return False
            found.append(0.5 * sum(both))
        if answered := [p for p in found if not math.isnan(p)]:
            self.bettors.add(float(np.mean(answered)))
        self._done += 1
        return True


def _calls(budget: str | int | None, least: int) -> int | None:
    if budget is None or (isinstance(budget, str) and budget.startswith("$")):
        return None
    if not str(budget).isdecimal() or int(budget) < least:
        remedy = f"is neither {least} calls or more (two per input and judge), nor dollars: $2"
        raise OptionError("budget", budget, remedy)
    return int(budget)


def _order(paired: Paired, seed: int) -> list[Any]:
    """All inputs that both sides have, in the order they are asked: one cluster after the other."""
    every, rng = paired.inputs, np.random.default_rng(seed)
    order = [every[place] for place in rng.permutation(len(every)).tolist()]
    if paired.cluster is None:
        return order
    place = dict(zip(dict.fromkeys(map(paired.unit, every)), rng.permutation(paired.units).tolist(), strict=True))
    return sorted(order, key=lambda key: place[paired.unit(key)])


def _reordered(items: Items, order: Sequence[Any], most: int | None) -> Items:
    """The items of up to `most` inputs, in the order they are asked."""
    keys = [key for key in order if key in items.groups][:most]
    rows = np.concatenate([items.groups[key] for key in keys])
    texts = tuple(items.texts[row] for row in rows.tolist())
    context = np.repeat(np.arange(len(keys), dtype=np.int32), 2)
    codes = items.context[rows[::2]].tolist()
    context_texts = tuple(items.context_texts[code] for code in codes)
    return Items(items.ids[rows], texts, as_objects(keys), context, context_texts)


def _duel(
    paired: Paired, order: Sequence[Any], run: Run | None, options: CompareOptions, ranking: Ranking | None
) -> Duel:
    """The result from the inputs before the first that was not asked."""
    same, failed = set(paired.same), 0
    found: dict[Any, Sequence[float]] = {}
    for key in order:
        if key in same:
            found[key] = NEITHER
            continue
        both = [] if run is None else run.both_orders(key, paired.other, paired.one)
        if len(both) == 2 and not math.isnan(sum(both)):
            found[key] = both
        elif both:
            failed += 1
        else:
            break
    answers = np.array(list(found.values()), dtype=np.float64).reshape(-1, 2)
    return Duel(
        one=paired.one,
        other=paired.other,
        input=as_objects(found),
        first=answers[:, 0],
        second=answers[:, 1],
        planned=len(paired.inputs),
        same=len(same),
        failed=failed,
        unmatched=paired.unmatched,
        calls=0 if run is None else run.progress.answered,
        cost=0.0 if run is None else run.progress.cost,
        level=options.level,
        ranking=ranking,
        cluster=None if paired.cluster is None else as_objects(map(paired.unit, found)),
        observations=paired.units,
        cached=0 if run is None else count_cached(run.judgements),
        not_worse_than=options.not_worse_than,
    )
