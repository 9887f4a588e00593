"""A sweep: every way to spend calls and to score the answers, at every number of calls, for every attribute.

A cell is one way at one number of calls. Ways with the same orders and strategy are scored on the same draws and can be
compared draw by draw. Seed, attribute, orders, strategy and calls determine a draw, whatever else is studied and
however many processes share the work. All contexts of all draws are fitted in one call, with draw·C + context as the
context, unless the method shares something between contexts, such as a position bias: then each draw is fitted alone.

With a the method's and b people's scores of a context's items, centred, Pearson's correlation is Σab / √(Σa²·Σb²), and
Spearman's the same of their ranks, ties at their mean rank. A cell has the mean over contexts in each draw; contexts in
which people gave all items the same score are left out, and a method that gives all items the same score has
correlation 0. nDCG@k and recall@k (`comparo.metrics`) have k = `BEST`; recall is the mean over contexts of more texts.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from multiprocessing import get_context
from typing import Literal, TypeVar

import numpy as np

from comparo.analysis.correlations import pearson, spearman
from comparo.data.comparisons import Comparisons
from comparo.methods import ESTIMATES, Method, quiet_fit, usual_bias
from comparo.metrics import BEST, ndcg, recall
from comparo.model.estimators.baselines import PriorPairs
from comparo.model.estimators.poe import Bias
from comparo.ranking.ranking import Ranking
from comparo.selection.designs import Orders
from comparo.studies.draws import Draws, DrawStrategy, calls_in, draw, reaches
from comparo.studies.recorded import Recorded
from comparo.types import Array

DECISIONS = ("win-ratio", "bt", "poe-g-hard")
POOLED = ("davidson", "rank", *ESTIMATES)  # methods that estimate ties or variances from all contexts together


@dataclass(frozen=True)
class Fit:
    """`comparo.fit` by a method's name and bias, by default the method's own; "rank" is the usual method.

    For methods that use decisions, a pair asked in both orders is one decision by p̃_ij = ½(p_ij + 1 − p_ji), as in the
    paper's symmetric set-up: else a judge who favours a position would tie items that it can distinguish. "bt" has the
    paper's prior (`prior_pairs="compared"`).

    >>> Fit("poe-bt").independent, Fit("poe-bt", "joint").independent
    (True, False)
    >>> Fit("win-ratio")(Comparisons.from_rows([("a", "b", 0.9), ("b", "a", 0.6)])).scores
    array([1., 0.])
    """

    method: Method | Literal["rank"]
    bias: Bias | None = None

    @property
    def independent(self) -> bool:
        """Whether contexts are fitted independently: biases, ties and variances are pooled over contexts."""
        return self.bias in (None, "none") and self.method not in POOLED

    def __call__(self, comparisons: Comparisons) -> Ranking:
        """The ranking, without the warnings of `fit`: draws that are not connected are expected here."""
        if self.method in DECISIONS and self.independent:
            merged = comparisons.merge_orders()
            comparisons = merged if comparisons.weight is not None else replace(merged, weight=None)
        prior_pairs: PriorPairs = "compared" if self.method == "bt" else "none"
        method = None if self.method == "rank" else self.method
        return quiet_fit(comparisons, method, bias=self.bias, prior_pairs=prior_pairs)


TIED = 1e-7  # scores closer than this share of their context's range are tied, so that rounding does not rank them
TOGETHER = 4_000_000  # most comparisons fitted at once


@dataclass(frozen=True, eq=False)
class Cell:
    """Spearman's and Pearson's correlation, nDCG and recall in each of S draws, (S,), each the mean over contexts.

    `by_context` (C,) is Spearman's in each context, mean over draws; NaN where people gave all items the same score.
    """

    spearman: Array
    pearson: Array
    by_context: Array
    ndcg: Array = field(default_factory=lambda: np.empty(0))
    recall: Array = field(default_factory=lambda: np.empty(0))


def evaluate(draws: Draws, scorer: Fit) -> Cell:
    """The cell of a scorer on draws of recorded judgements.

    >>> from comparo.studies.draws import draw
    >>> from comparo.studies.recorded import example
    >>> evaluate(draw(example(), 6, 2, rng=np.random.default_rng(0)), Fit("poe-bt")).spearman
    array([1., 1.])
    """
    return correlate(draws.recorded, score(draws, scorer))


def score(draws: Draws, scorer: Fit) -> Array:
    """The scores of all candidates in each draw, shape (S, n), in the recorded order."""
    recorded, number = draws.recorded, len(draws)
    if draws.whole and number > 1:
        once = Draws(recorded, draws.rows[:1], draws.calls, whole=True)
        return np.repeat(score(once, scorer), number, axis=0)
    hard = np.isin(recorded.p, (0.0, 0.5, 1.0))[draws.rows].all(axis=1)  # draws whose default prior is another
    if not scorer.independent or hard.any() != hard.all():
        return np.concatenate([placed(recorded, scorer(draws.one(each)), 1) for each in range(number)])
    step = max(1, TOGETHER // draws.rows.shape[1])
    parts = [slice(begin, min(begin + step, number)) for begin in range(0, number, step)]
    return np.concatenate([placed(recorded, scorer(draws.together(part)), part.stop - part.start) for part in parts])


def placed(recorded: Recorded, scored: Ranking, draws: int) -> Array:
    """Scores of all candidates, shape (draws, n), from a ranking with contexts draw·C + context."""
    contexts, items, candidates = len(recorded.contexts), len(recorded.items), len(recorded.item)
    draw, context = np.divmod(scored.graph.context.astype(np.int64), contexts)
    known = recorded.context * np.int64(items) + recorded.item
    order = np.argsort(known, kind="stable")
    place = order[np.searchsorted(known, context * items + scored.graph.item, sorter=order)]
    found = np.full((draws, candidates), np.nan)
    found[draw, place] = scored.scores
    return found


def correlate(recorded: Recorded, scores: Array) -> Cell:
    """The agreement of `scores` (S, n) with people's, the mean over contexts `has_spread`, each (S,).

    >>> from comparo.studies.recorded import example
    >>> correlate(example(), np.array([[9.0, 1.0, 2.0], [0.0, 0.0, 0.0]])).spearman
    array([1., 0.])
    """
    usable = ~np.isnan(recorded.human) & recorded.has_spread[recorded.context]
    columns = np.flatnonzero(usable)
    context = np.unique(recorded.context[columns], return_inverse=True)[1]
    sizes = np.bincount(context)
    ranked, linear, gained, found = np.empty((4, len(scores), len(sizes)))
    for size in np.unique(sizes).tolist():
        which = np.flatnonzero(sizes == size)
        members = columns[np.isin(context, which)].reshape(-1, size)
        one, other = scores[:, members], recorded.human[members]
        linear[:, which] = np.nan_to_num(pearson(one, other))
        spread = np.ptp(one, axis=-1, keepdims=True)
        width = TIED * np.where(spread > 0, spread, 1.0)
        steps = np.round((one - one.min(axis=-1, keepdims=True)) / width)
        ranked[:, which] = np.nan_to_num(spearman(steps, other))
        gained[:, which], found[:, which] = ndcg(steps, other), recall(steps, other)
    by_context = np.full(len(recorded.contexts), np.nan)
    by_context[recorded.has_spread] = np.mean(ranked, axis=0)
    large = found[:, sizes > BEST] if np.any(sizes > BEST) else found
    ranks, lines, gains, shares = (np.mean(each, axis=1) for each in (ranked, linear, gained, large))
    return Cell(ranks, lines, by_context, gains, shares)


def deviation(values: Array) -> float:
    """The standard deviation over draws (S,), with denominator S − 1; 0 for a single draw."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


Measure = Literal["spearman", "pearson", "ndcg", "recall"]
Result = TypeVar("Result")

BLAS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class Way:
    """How calls are made, and how scores are computed from the answers; `name` is its row in a table.

    >>> Way.of("poe-bt", "joint", orders="one").name
    'poe-bt, bias joint, one order'
    """

    name: str
    scorer: Fit
    orders: Orders = "both"
    strategy: DrawStrategy = "random"

    @classmethod
    def of(
        cls,
        method: Method | Literal["rank"],
        bias: Bias | None = None,
        *,
        orders: Orders = "both",
        strategy: DrawStrategy = "random",
    ) -> Way:
        """The way of a method of `comparo.fit`; its name lists the settings that are not the default."""
        parts = [
            method,
            f"bias {bias}" * (bias not in (None, usual_bias("mixed" if method == "rank" else method))),
            "one order" * (orders == "one"),
            "greedy" * (strategy == "greedy"),
        ]
        return cls(", ".join(filter(None, parts)), Fit(method, bias), orders, strategy)


@dataclass(frozen=True, eq=False)
class Results:
    """The cells of a sweep by attribute, way's name and calls; None in place of calls is all that was recorded.

    `draws` is S. `calls` are as given to `sweep` ("48", "3n", "all"); a way for which too few judgements were recorded
    has no cell there.
    """

    recorded: Mapping[str, Recorded] = field(repr=False)
    ways: tuple[Way, ...]
    calls: tuple[str, ...]
    draws: int
    cells: Mapping[tuple[str, str, str | None], Cell] = field(repr=False)

    @property
    def attributes(self) -> tuple[str, ...]:
        return tuple(self.recorded)

    def values(self, way: str, calls: str, measure: Measure = "spearman", attribute: str | None = None) -> Array | None:
        """The correlation in each draw, shape (S,), of one attribute or the mean over all; None where there is none."""
        names = self.attributes if attribute is None else (attribute,)
        found = [self.cells.get((name, way, calls)) for name in names]
        known = [getattr(cell, measure) for cell in found if cell is not None]
        return np.mean(known, axis=0) if len(known) == len(names) else None

    def mean(self, way: str, calls: str, attribute: str | None = None) -> float:
        """The mean of Spearman's correlation over draws, NaN where there is no cell."""
        found = self.values(way, calls, attribute=attribute)
        return float("nan") if found is None else float(np.mean(found))

    def whole(self, way: str, attribute: str | None = None) -> float:
        """Spearman's correlation from all that was recorded."""
        names = self.attributes if attribute is None else (attribute,)
        return float(np.mean([self.cells[name, way, None].spearman for name in names]))

    def made(self, way: Way, calls: str) -> float:
        """The number of calls per context, mean over contexts."""
        return float(np.mean(calls_in(next(iter(self.recorded.values())), calls, way.orders)))

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What was left out, attribute by attribute."""
        many = len(self.recorded) > 1
        return tuple(
            f"{attribute}: {note}" if many else note
            for attribute, recorded in self.recorded.items()
            for note in recorded.notes
        )


def _cells(
    attribute: str, recorded: Recorded, ways: Sequence[Way], calls: str | None, draws: int, seed: int
) -> list[Cell]:
    """The cell of each way, all on the same draws; with `calls` None, on all that was recorded, once."""
    if calls is None:
        drawn = everything(recorded)
    else:
        orders, strategy = ways[0].orders, ways[0].strategy
        rng = np.random.default_rng([seed, zlib.crc32(f"{attribute} {orders} {strategy} {calls}".encode())])
        drawn = draw(recorded, calls, draws, rng=rng, orders=orders, strategy=strategy)
    return [evaluate(drawn, way.scorer) for way in ways]


def sweep(
    recorded: Mapping[str, Recorded],
    ways: Sequence[Way],
    calls: Sequence[int | str],
    *,
    draws: int = 100,
    seed: int = 0,
    processes: int = 1,
) -> Results:
    """Every way at every number of calls, for the recorded judgements of every attribute.

    Calls are given as for `calls_in`; numbers that were not recorded (`reaches`) are left out. With `processes` > 1 the
    cells are computed in parallel; a script must then be safe to import (`if __name__ == "__main__":`).

    >>> from comparo.studies.recorded import example
    >>> results = sweep({"wit": example()}, [Way.of("poe-bt"), Way.of("win-ratio")], [4, "all"], draws=5)
    >>> results.values("poe-bt", "all")
    array([1., 1., 1., 1., 1.])
    """
    names = [way.name for way in ways]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"two ways are called {twice.pop()!r}; give each its own name")
    if not recorded or not ways or not calls:
        raise ValueError("a sweep needs recorded judgements, ways and calls, at least one of each")
    wanted = tuple(dict.fromkeys(map(str, calls)))
    alike: dict[tuple[Orders, DrawStrategy], list[Way]] = {}
    for way in ways:
        alike.setdefault((way.orders, way.strategy), []).append(way)
    jobs = [
        partial(_cells, attribute, judgements, group, each, draws, seed)
        for attribute, judgements in recorded.items()
        for (orders, _), group in alike.items()
        for each in (*wanted, None)
        if each is None or reaches(judgements, each, orders)
    ]
    reached = {job.args[3] for job in jobs}
    studied = tuple(each for each in wanted if each in reached)
    if not studied:
        raise ValueError(f"{', '.join(wanted)} calls are more than were recorded; ask for fewer, or for all")
    cells: dict[tuple[str, str, str | None], Cell] = {}
    for job, found in zip(jobs, spread(jobs, processes), strict=True):
        attribute, _, group, each, *_ = job.args
        cells |= {(attribute, way.name, each): cell for way, cell in zip(group, found, strict=True)}
    return Results(dict(recorded), tuple(ways), studied, draws, cells)


def everything(recorded: Recorded) -> Draws:
    """All that was recorded, as one draw."""
    counts = np.bincount(recorded.context[recorded.first], minlength=len(recorded.contexts))
    return Draws(recorded, np.arange(len(recorded), dtype=np.int32)[None], counts, whole=True)


def spread(jobs: Sequence[partial[Result]], processes: int) -> Iterator[Result]:
    """The result of each job, from processes with one BLAS thread each: more would compete for cores."""
    if processes == 1 or len(jobs) == 1:
        yield from (job() for job in jobs)
        return
    before = {name: os.environ[name] for name in BLAS if name in os.environ}
    os.environ.update(dict.fromkeys(BLAS, "1"))
    try:
        with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
            yield from pool.map(partial.__call__, jobs)
    finally:
        for name in BLAS:
            del os.environ[name]
        os.environ.update(before)
