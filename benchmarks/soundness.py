"""Whether the default path keeps its promises: intervals, probabilities, tiers, stops, and never worse than plain.

    python -m benchmarks.soundness --cells 240 --seeds 20 --out cells.csv
    python -m benchmarks.soundness --part grid --texts 3 4 6
    python -m benchmarks.soundness --part lineups

Judges with known scores (`simulation`) are asked as a default run asks, and as a plain run with as many calls: greedy
pairs with and without the contrast of the texts, fitted by `Fitting`. The stops are those of runs with `--until`. All
figures have the standard error of the simulation, in which a run counts as one observation, because the errors of its
items are not independent. Line-ups (`--texts`) are those of a default run, and plain is fitted to the same answers;
the fixed cells of `--part lineups` are not compared with it. Only numpy, scipy and narwhals are needed.
"""

from __future__ import annotations

import argparse
import csv
import multiprocessing
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import rankdata

from benchmarks.simulation import TWO, Cell, Simulation, draw_cells, simulate
from benchmarks.verdict import BINS, CellResult, StopResult, summary
from comparo.analysis.correlations import spearman
from comparo.data.comparisons import Comparisons
from comparo.data.prompts import Prompt, Question, criterion_prompt
from comparo.judges import Judgement
from comparo.log.store import Store
from comparo.options import AmountOptions
from comparo.run.budget import Budget
from comparo.run.fit_policy import Fitting
from comparo.run.loop import Run
from comparo.run.task import Task
from comparo.selection.lineups import LineupSelector
from comparo.selection.sharing import next_pairs
from comparo.types import Array

ROUND = 4  # calls of a round, or a quarter of the items if more, as in a run
PAIRS = 100  # of which each run tells the probability
TARGETS = (0.7, 0.8, 0.9)
STOPS = tuple(
    Cell(kind, sd, 1.0 if kind == "soft" else None, shape=shape)
    for kind, shape, sd in product(("soft", "decisions"), ((1, 16), (1, 40), (1, 200), (20, 16)), (0.0, 0.3, 1.0, 3.0))
)
LINEUPS = tuple(  # the cells of docs/measurements/lineups.md
    Cell(kind, sd, 1.0 if kind == "soft" else None, "slots", orders="one", shape=shape, calls=calls, texts=texts)
    for kind, texts, (shape, calls), sd in product(
        ("soft", "orders", "best"), (3, 4, 6), (((6, 16), 3.0), ((1, 40), 4.5)), (0.5, 2.0)
    )
)
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class Outcome:
    """What one run of a cell says: sums over its items and pairs, and the error if a fit failed.

    `bins` (B, 3) has for each bin of P(a beats b) ≥ ½ the number of pairs, the sum of P, and how often it was so.
    """

    covered: float = 0.0
    items: int = 0
    width: float = 0.0
    inner: float = 0.0  # Σ score · true score, and Σ score²
    square: float = 0.0
    right: float = 0.0
    breaks: int = 0
    bins: Array = field(default_factory=lambda: np.zeros((BINS, 3)))
    rho: float = np.nan
    plain_rho: float = np.nan
    seconds: float = 0.0
    error: str = ""


def measure(ranking: Any, simulation: Simulation, rng: np.random.Generator) -> Outcome:
    """How a ranking compares with the true scores; of the ranking only public members are used."""
    items, truth = simulation.items, simulation.truth
    centred = truth - np.mean(truth, axis=1, keepdims=True)
    low, high, tier = (on_grid(ranking, simulation, name) for name in ("low", "high", "tier"))
    known, scores = ~np.isnan(low), np.nan_to_num(on_grid(ranking, simulation, "scores"))
    better = np.triu(np.ones((truth.shape[1],) * 2, dtype=bool), 1) & (tier[:, :, None] != tier[:, None, :])
    right = (tier[:, :, None] < tier[:, None, :]) == (truth[:, :, None] > truth[:, None, :])
    return Outcome(
        covered=float(np.sum((low <= centred) & (centred <= high))),
        items=int(np.sum(known)),
        width=float(np.mean((high - low)[known])),
        inner=float(np.sum(scores * centred)),
        square=float(np.sum(scores**2)),
        right=float(np.sum(right & better)),
        breaks=int(np.sum(better)),
        bins=binned(*probabilities(ranking, items.names, truth, rng)),
        rho=agreement(ranking, simulation),
    )


def on_grid(ranking: Any, simulation: Simulation, name: str) -> Array:
    """An attribute of the ranking for every item, shape (C, n); NaN where it has none."""
    labels = ranking.items.tolist()
    contexts = [None] * len(labels) if ranking.context is None else ranking.context.tolist()
    found = np.full(simulation.truth.size, np.nan)
    found[[simulation.items.row(*label) for label in zip(contexts, labels, strict=True)]] = getattr(ranking, name)
    return found.reshape(simulation.truth.shape)


def agreement(ranking: Any, simulation: Simulation) -> float:
    """Spearman's correlation with the true scores, mean over contexts; 0 where all scores are equal."""
    return float(np.mean(rank_agreement(ranking, simulation)))


def rank_agreement(ranking: Any, simulation: Simulation) -> Array:
    """Spearman's correlation of each context (C,), where a tie is broken by chance: its mean over all ways to do so.

    Ranks of ties vary less than places do, by which Spearman's correlation divides; a list of places has no ties.
    """
    scores = np.round(np.nan_to_num(on_grid(ranking, simulation, "scores")), 9)
    places = np.std(np.arange(scores.shape[1]))
    return np.nan_to_num(spearman(simulation.truth, scores) * np.std(rankdata(scores, axis=1), axis=1) / places)


def probabilities(
    ranking: Any, names: Mapping[Any, list[Any]], truth: Array, rng: np.random.Generator
) -> tuple[Array, Array]:
    """P of the likelier order of random pairs within contexts, and whether it is the true order."""
    contexts, n = list(names), truth.shape[1]
    said, came = np.empty(PAIRS), np.empty(PAIRS)
    for k in range(PAIRS):
        context = int(rng.integers(len(contexts)))
        i, j = rng.choice(n, 2, replace=False).tolist()
        label = contexts[context]
        p = float(ranking.probability(names[label][i], names[label][j], label))
        said[k], came[k] = max(p, 1 - p), (p >= 0.5) == (truth[context, i] > truth[context, j])
    return said, came


def binned(said: Array, came: Array) -> Array:
    """For each of equally wide bins of P from ½ to 1: pairs, sum of P, and how often it was so; shape (B, 3)."""
    code = np.minimum((2 * BINS * (said - 0.5)).astype(np.int64), BINS - 1)
    return np.column_stack([np.bincount(code, values, BINS) for values in (np.ones(len(said)), said, came)])


def run_cell(task: tuple[Cell, int]) -> Outcome:
    """One run of a cell: both paths, with the same judge."""
    cell, seed = task
    begin = time.perf_counter()
    simulation = simulate(cell, seed)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            default = Fitting(simulation.items, grouped=cell.groups != "none")
            if cell.texts > 2:
                asked = plainly = in_lineups(cell, simulation, seed)
            else:
                asked = in_rounds(cell, simulation, default, seed)
                chosen = next_pairs(simulation.items.names, cell.budget, orders=cell.orders, seed=seed)
                plainly = simulation.answers(chosen)
            ranking = default.rank(asked)
            found = measure(ranking, simulation, cell.generator(seed))
            if cell not in LINEUPS:  # these are about intervals, and plain line-ups take many times as long
                plain = Fitting(simulation.items, plain=True).rank(plainly)
                found = replace(found, plain_rho=agreement(plain, simulation))
            return replace(found, seconds=time.perf_counter() - begin)
    except Exception as error:  # a fit that fails is a finding of its own, and the other cells go on
        return Outcome(error=f"{type(error).__name__}: {error}")


def in_rounds(cell: Cell, simulation: Simulation, fitting: Fitting, seed: int) -> Comparisons:
    """The answers to the pairs that a default run chooses, in rounds, each from the answers to those before."""
    columns: dict[str, list[object]] = {}
    asked: Comparisons | None = None
    size = max(ROUND, cell.shape[1] // 4)
    contrast = fitting.contrast if cell.kind == "soft" else None
    for begin in range(0, cell.budget, size):
        calls = min(size, cell.budget - begin)
        more = next_pairs(simulation.items.names, calls, asked, orders=cell.orders, contrast=contrast, seed=seed)
        columns = {name: columns.get(name, []) + values for name, values in more.items()}
        asked = simulation.answers(columns)
    assert asked is not None
    return asked


def in_lineups(cell: Cell, simulation: Simulation, seed: int) -> Comparisons:
    """The answers to the line-ups that a default run chooses, which do not depend on answers."""
    rows, rng = [], np.random.default_rng(seed)
    for number, (context, ids) in enumerate(simulation.items.names.items()):
        place = {item: code for code, item in enumerate(ids)}
        for first, rest in LineupSelector(ids, cell.texts, seed=rng).next(cell.budget):
            shown = [first, *rest]
            answer = simulation.line_up(number, [place[item] for item in shown])
            rows.append({"context": context, "items": shown, **answer})
    kept = [{name: value for name, value in row.items() if value is not None} for row in rows]
    return Comparisons.from_rows(kept)


@dataclass(frozen=True)
class Answering:
    """The judge of a simulation as a run asks it."""

    simulation: Simulation
    chooses: bool
    name: str = "simulated/known"
    ahead: int = 16  # as the default judge has it
    streams = True

    @property
    def settings(self) -> dict[str, Any]:
        """Nothing: it is never stored."""
        return {}

    def judge(self, questions: Iterable[Question], prompt: Prompt) -> Iterator[Judgement]:
        """The answer to each question."""
        n = self.simulation.truth.shape[1]
        for question in questions:
            i, j = (self.simulation.items.row(question.context, item) for item in (question.first, question.second))
            p = float(self.simulation.p[i // n, i % n, j % n])
            yield Judgement(question, p=p, mass=1.0, weight=self.simulation.weight, cost=0.0)


@dataclass(frozen=True)
class Stop:
    """What one run with `--until` says: contexts that stopped before the budget's end, their ρ and calls; ρ of all."""

    contexts: int = 0
    stopped: int = 0
    rho: float = 0.0
    every: float = 0.0
    calls: float = 0.0
    seconds: float = 0.0
    error: str = ""


def run_stop(task: tuple[Cell, float, int]) -> Stop:
    """A default run until a target; calls are per item, and of contexts without an order ρ is 0."""
    cell, target, seed = task
    begin, simulation = time.perf_counter(), simulate(cell, seed)
    items = simulation.items
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            budget = Budget.of(AmountOptions.budget)
            work = Task(
                items,
                criterion_prompt("better"),
                Answering(simulation, cell.kind != "soft"),
                budget,
                until=target,
                seed=seed,
                estimate="judge",
            )
            run = Run(work, Store(None, work.identity))
            ranking = run.go()
    except Exception as error:
        return Stop(error=f"{type(error).__name__}: {error}")
    asked = np.zeros(len(items.contexts))
    for judgement in run.judgements:
        asked[items.context[items.row(judgement.question.context, judgement.question.first)]] += 1
    most = [calls for calls, _ in work.expense.by_context.values()]
    rho, stopped = rank_agreement(ranking, simulation), asked < most
    sums = float(np.sum(rho[stopped])), float(np.sum(rho)), float(np.sum(asked)) / cell.shape[1]
    return Stop(len(rho), int(np.sum(stopped)), *sums, time.perf_counter() - begin)


def spread(work: Callable[[Any], Any], tasks: Sequence[Any], jobs: int, say: str = "") -> list[Any]:
    """The results of all tasks in their order, each computed in one of `jobs` processes with one thread."""
    if jobs == 1 and not say:
        return [work(task) for task in tasks]
    os.environ |= dict.fromkeys(THREADS, "1")
    found, begin = [], time.monotonic()
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        for result in pool.map(work, tasks, chunksize=max(1, min(4, len(tasks) // (8 * jobs)))):
            found.append(result)
            if say and (len(found) % max(1, len(tasks) // 20) == 0 or len(found) == len(tasks)):
                seconds = time.monotonic() - begin
                print(f"{say}: {len(found)} of {len(tasks)} runs, {seconds:.0f} s", file=sys.stderr, flush=True)
    return found


def grid(cells: Sequence[Cell], seeds: int, jobs: int = 1, say: str = "") -> list[CellResult]:
    """The figures of each cell, from `seeds` runs."""
    outcomes = spread(run_cell, list(product(cells, range(seeds))), jobs, say)
    return [CellResult.of(cell, outcomes[k * seeds : (k + 1) * seeds]) for k, cell in enumerate(cells)]


def stops(cells: Sequence[Cell], seeds: int, jobs: int = 1, say: str = "") -> list[StopResult]:
    """The figures of each cell and target, from `seeds` runs."""
    kinds = list(product(cells, TARGETS))
    found = spread(run_stop, [(*kind, seed) for kind in kinds for seed in range(seeds)], jobs, say)
    return [StopResult.of(*kind, found[k * seeds : (k + 1) * seeds]) for k, kind in enumerate(kinds)]


def write(path: Path, results: Sequence[CellResult | StopResult]) -> None:
    """The results as CSV: the levels of each cell, then its figures."""
    rows = []
    for result in results:
        figures = {name: value for name, value in asdict(result).items() if name not in ("cell", "bins")}
        rows.append(result.cell.levels() | figures)
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(rows)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soundness", description=__doc__.split("\n")[0])
    parser.add_argument("--cells", type=int, default=240, help="cells of the grid (240)")
    parser.add_argument("--seeds", type=int, default=20, help="runs per cell (20)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (one per core)")
    parser.add_argument(
        "--part",
        choices=("all", "grid", "stops", "lineups"),
        default="all",
        help="what to run (all: grid and stops); lineups: fixed cells of line-ups",
    )
    parser.add_argument("--texts", type=int, nargs="+", default=TWO, help="texts of a call (2)")
    parser.add_argument("--only", type=int, nargs="+", help="numbers of cells, from 0, instead of all")
    parser.add_argument("--out", type=Path, help="a CSV file for the cells; that of the stops is NAME.stops.csv")
    given = parser.parse_args(arguments)
    drawn = list(LINEUPS) if given.part == "lineups" else draw_cells(given.cells, tuple(given.texts))
    drawn = drawn if given.only is None else [drawn[k] for k in given.only]
    cells = grid(drawn, given.seeds, given.jobs, "grid") if given.part != "stops" else []
    if given.out and cells:
        write(given.out, cells)
    ends = stops(STOPS, given.seeds, given.jobs, "stops") if given.part in ("all", "stops") else []
    if given.out and ends:
        write(given.out.with_suffix(".stops.csv"), ends)
    print(summary(cells, ends))


if __name__ == "__main__":
    main()
