"""A sweep: every way of spending calls and of scoring them, at every number of calls, for every attribute.

Ways with the same orders and strategy are scored on the same draws, so that they can be compared draw by draw. A draw
is determined by the seed, the attribute, the orders, the strategy and the calls: it does not depend on the other ways
studied, nor on the number of processes.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from multiprocessing import get_context
from operator import methodcaller
from typing import Any, Literal

import numpy as np

from comparo.methods import Method
from comparo.model.estimators.poe import Bias
from comparo.selection.designs import Orders
from comparo.studies.cells import Cell, Fit, Scorer, column_means, evaluate
from comparo.studies.draws import Draws, Strategy, calls_in, draw, reaches
from comparo.studies.recorded import Recorded
from comparo.types import Array

Measure = Literal["spearman", "pearson"]

BLAS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class Way:
    """How calls are made, and how scores are computed from the answers; `name` is its row in a table.

    >>> Way.of("poe-bt", "joint", orders="one").name
    'poe-bt, bias joint, one order'
    """

    name: str
    scorer: Scorer
    orders: Orders = "both"
    strategy: Strategy = "random"

    @classmethod
    def of(cls, method: Method, bias: Bias = "none", *, orders: Orders = "both", strategy: Strategy = "random") -> Way:
        """The way of a method of `comparo.fit`; its name lists the settings that are not the default."""
        parts = [
            method,
            f"bias {bias}" * (bias != "none"),
            "one order" * (orders == "one"),
            "greedy" * (strategy == "greedy"),
        ]
        return cls(", ".join(filter(None, parts)), Fit(method, bias), orders, strategy)


@dataclass(frozen=True, eq=False)
class Results:
    """The cells of a sweep by attribute, way's name and calls; `full` by attribute and way, from all that was recorded.

    `draws` is S. `calls` are as they were asked for ("48", "3n", "all"); a way for which
    too few judgements were recorded has no cell there. `made` is the number of calls per context, by way and calls.
    """

    recorded: Mapping[str, Recorded] = field(repr=False)
    ways: tuple[Way, ...]
    calls: tuple[str, ...]
    draws: int
    cells: Mapping[tuple[str, str, str], Cell] = field(repr=False)
    full: Mapping[tuple[str, str], Cell] = field(repr=False)

    @property
    def attributes(self) -> tuple[str, ...]:
        return tuple(self.recorded)

    def values(self, way: str, calls: str, measure: Measure = "spearman", attribute: str | None = None) -> Array | None:
        """The correlation in each draw, shape (S,), of one attribute or the mean over all; None where there is none."""
        names = self.attributes if attribute is None else (attribute,)
        found = [self.cells.get((name, way, calls)) for name in names]
        known = [getattr(cell, measure) for cell in found if cell is not None]
        return np.asarray(np.mean(known, axis=0)) if len(known) == len(names) else None

    def mean(self, way: str, calls: str, attribute: str | None = None) -> float:
        """The mean of Spearman's correlation over draws, NaN where there is no cell."""
        found = self.values(way, calls, attribute=attribute)
        return float("nan") if found is None else float(np.mean(found))

    def whole(self, way: str, measure: Measure = "spearman", attribute: str | None = None) -> float:
        """The correlation from all that was recorded."""
        names = self.attributes if attribute is None else (attribute,)
        return float(np.mean([getattr(self.full[name, way], measure) for name in names]))

    def by_context(self, way: str, calls: str) -> Array:
        """Spearman's correlation in each context, shape (C,), mean over draws and attributes."""
        return column_means([self.cells[name, way, calls].by_context for name in self.attributes])

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


@dataclass(frozen=True, eq=False)
class _Job:
    """Draws of one attribute, and the scorers that they are for; `calls` None is all that was recorded, once."""

    attribute: str
    recorded: Recorded
    scorers: tuple[Scorer, ...]
    calls: str | None
    orders: Orders
    strategy: Strategy
    draws: int
    seed: int

    def run(self) -> list[Cell]:
        if self.calls is None:
            drawn = everything(self.recorded)
        else:
            key = f"{self.attribute} {self.orders} {self.strategy} {self.calls}"
            rng = np.random.default_rng([self.seed, zlib.crc32(key.encode())])
            drawn = draw(self.recorded, self.calls, self.draws, rng=rng, orders=self.orders, strategy=self.strategy)
        return [evaluate(drawn, scorer) for scorer in self.scorers]


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

    Calls are given as for `calls_in`; equal numbers count once, and numbers that were not recorded (`reaches`) are left
    out. With more than one of `processes` the work is spread; a script must then be safe to
    import (`if __name__ == "__main__":`).

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
    wanted = _different(recorded, tuple(dict.fromkeys(str(each) for each in calls)), ways)
    kinds = list(dict.fromkeys((way.orders, way.strategy) for way in ways))
    jobs, keys = [], []
    for attribute, judgements in recorded.items():
        for orders, strategy in kinds:
            group = tuple(way for way in ways if (way.orders, way.strategy) == (orders, strategy))
            scorers = tuple(way.scorer for way in group)
            for each in (*wanted, None):
                if each is None or reaches(judgements, each, orders):
                    jobs.append(_Job(attribute, judgements, scorers, each, orders, strategy, draws, seed))
                    keys.append([(attribute, way.name, each) for way in group])
    cells: dict[tuple[str, str, str], Cell] = {}
    full: dict[tuple[str, str], Cell] = {}
    for names_of_job, found in zip(keys, spread(jobs, processes), strict=True):
        for (attribute, way, each), cell in zip(names_of_job, found, strict=True):
            if each is None:
                full[attribute, way] = cell
            else:
                cells[attribute, way, each] = cell
    return Results(dict(recorded), tuple(ways), wanted, draws, cells, full)


def everything(recorded: Recorded) -> Draws:
    """All that was recorded, as one draw."""
    counts = np.bincount(recorded.context[recorded.first], minlength=len(recorded.contexts))
    return Draws(recorded, np.arange(len(recorded), dtype=np.int32)[None], counts, whole=True)


def _different(recorded: Mapping[str, Recorded], calls: tuple[str, ...], ways: Sequence[Way]) -> tuple[str, ...]:
    """The calls that at least one way reaches; equal numbers once."""
    found: dict[tuple[int, ...], str] = {}
    for each in calls:
        reached = [
            calls_in(judgements, each, way.orders).tobytes()
            for judgements in recorded.values()
            for way in ways
            if reaches(judgements, each, way.orders)
        ]
        if reached:
            found.setdefault(tuple(map(hash, reached)), each)
    if not found:
        raise ValueError(f"{', '.join(calls)} calls are more than were recorded; ask for fewer, or for all")
    return tuple(found.values())


def spread(jobs: Sequence[Any], processes: int) -> Iterator[Any]:
    """What `run` of each job returns, by processes with one BLAS thread each: more would wait for each other."""
    if processes == 1 or len(jobs) == 1:
        yield from (job.run() for job in jobs)
        return
    before = {name: os.environ[name] for name in BLAS if name in os.environ}
    os.environ.update(dict.fromkeys(BLAS, "1"))
    try:
        with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
            yield from pool.map(methodcaller("run"), jobs)
    finally:
        for name in BLAS:
            del os.environ[name]
        os.environ.update(before)
