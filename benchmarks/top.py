"""The best few of many: the goal top-k against other ways to ask, at equal line-ups: docs/top.md.

    python -m benchmarks.top [--runs 100] [--jobs 16] [--tables found large work]

True scores are normal with a standard deviation of 1.5. A judge orders the texts of a line-up by their scores plus
Gumbel noise of scale 1. Reported is the share of the k best texts that are among the k found.

The ways: `LineupSelector` with the goal top-k, in rounds of an eighth of a pass, of which one is always in flight, as
`comparo rank` asks; random line-ups; and batches that are sorted and halved, as SiftRank does: all texts are dealt into
line-ups in each of some trials, a text's score is its mean place, and the better half goes on to the next round. All
but the last are ranked by the product of Plackett–Luce choices with a normal prior.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import numpy as np

from comparo import Comparisons
from comparo.data.prompts import Rest
from comparo.selection.doubt import Doubt
from comparo.selection.lineups import LineupSelector
from comparo.types import Array

SPREAD, SIZE, BEST = 1.5, 8, 10
TRIALS = 5  # of each halving
Row = dict[str, list[int]]


class World:
    """Texts with true scores, and a judge that puts line-ups in order."""

    def __init__(self, texts: int, seed: int, spread: float = SPREAD) -> None:
        self.rng = np.random.default_rng(seed)
        self.scores = spread * self.rng.standard_normal(texts)

    def order(self, items: Sequence[int]) -> list[int]:
        """The items, best first."""
        heard = self.scores[list(items)] + self.rng.gumbel(size=len(items))
        return [items[place] for place in np.argsort(-heard, kind="stable").tolist()]

    def ask(self, asked: Sequence[tuple[int, Rest]]) -> list[Row]:
        lineups = [[first, *rest] for first, rest in asked]
        return [{"items": items, "order": self.order(items)} for items in lineups]

    def found(self, scores: Array, best: int) -> float:
        """The share of the best texts that are best by `scores`."""
        top, true = (set(np.argsort(-one, kind="stable")[:best].tolist()) for one in (scores, self.scores))
        return len(top & true) / best


def fitted(rows: Sequence[Row], texts: int) -> Array:
    """The scores of all texts, 0 for those without an answer."""
    data = Comparisons.from_rows(rows)
    codes = data.items.astype(np.int32)
    doubt = Doubt(texts, 1)
    doubt.learn(
        Comparisons(np.arange(texts), codes[data.first], codes[data.second], data.p, data.weight, lineup=data.lineup)
    )
    return doubt.scores


def chosen(world: World, calls: Sequence[int], best: int, seed: int, strategy: str = "adaptive") -> list[float]:
    """The share found by the line-ups that comparo chooses, at each number of calls."""
    texts = len(world.scores)
    goal = f"top-{best}" if strategy == "adaptive" else "ranking"
    selector = LineupSelector(range(texts), SIZE, strategy=strategy, goal=goal, seed=seed)
    waiting, rows = list[list[Row]](), list[Row]()
    while len(rows) < max(calls):
        waiting.append(world.ask(selector.next(max(4, texts // (8 * SIZE)))))
        rows += waiting[-1]
        if len(waiting) > 1:
            selector.observe(waiting.pop(0))
    return [world.found(fitted(rows[:number], texts), best) for number in calls]


def halved(world: World, calls: Sequence[int], best: int, seed: int) -> list[float]:
    """The share found by batches that are sorted, and of which the better half goes on, at each number of calls."""
    return [world.found(_halved(world, number, best, np.random.default_rng(seed)), best) for number in calls]


def _halved(world: World, calls: int, best: int, rng: np.random.Generator) -> Array:
    """The rounds halve the texts until one line-up holds them; each has the same number of trials, as calls allow."""
    texts = len(world.scores)
    sizes = [texts]
    while sizes[-1] > max(SIZE, 2 * best):
        sizes.append(max(sizes[-1] // 2, best))
    trials = max(1.0, min(TRIALS, calls * SIZE / sum(sizes)))
    place, left, alive, last = np.zeros(texts), calls, np.arange(texts), len(sizes) - 1
    for number in range(len(sizes)):
        wanted = np.inf if number == last else round(trials * len(alive) / SIZE)
        total, seen = np.zeros(texts), np.zeros(texts)
        while left and wanted > 0:
            deck = rng.permutation(alive).tolist()
            while len(deck) >= 2 and left and wanted > 0:
                some, deck = deck[:SIZE], deck[SIZE:]
                ordered = world.order(some)
                total[ordered] += np.arange(len(ordered)) / (len(ordered) - 1)
                seen[ordered] += 1
                left, wanted = left - 1, wanted - 1
        mean = np.where(seen > 0, total / np.maximum(seen, 1), 0.5)
        place[alive] = -number + mean[alive]
        if number < last:
            alive = alive[np.argsort(place[alive], kind="stable")[: sizes[number + 1]]]
    return -place


Way = Callable[[World, Sequence[int], int, int], list[float]]
WAYS: dict[str, Way] = {
    "batches sorted and halved": halved,
    "random line-ups": partial(chosen, strategy="random"),
    "goal top-k": chosen,
}


def one(way: str, texts: int, calls: Sequence[int], best: int, seed: int) -> list[float]:
    return WAYS[way](World(texts, seed), calls, best, seed)


def table(pool: ProcessPoolExecutor, texts: int, calls: Sequence[int], runs: int, best: int = BEST) -> None:
    """The share found by each way at each number of calls."""
    print(f"\n# {texts:,} texts, the best {best}, line-ups of {SIZE}, {runs} runs: mean ± standard error\n")
    print("| calls | " + " | ".join(f"{number:,}" for number in calls) + " |")
    print("| --- |" + " ---: |" * len(calls))
    for way in WAYS:
        values = np.array([*pool.map(partial(one, way, texts, calls, best), range(runs))])
        mean, error = np.mean(values, axis=0), np.std(values, axis=0) / np.sqrt(runs)
        cells = [f"{m:.3f} ± {e:.3f}" for m, e in zip(mean, error, strict=True)]
        print(f"| {way} | " + " | ".join(cells) + " |", flush=True)


def work(texts: int, looks: int = 4) -> None:
    """Seconds of comparo's own computing per call, and of one fit of all answers."""
    world = World(texts, 0)
    selector = LineupSelector(range(texts), SIZE, strategy="adaptive", goal=f"top-{BEST}", seed=0)
    calls, spent, rows = looks * texts // SIZE, 0.0, list[Row]()
    while len(rows) < calls:
        begin = time.perf_counter()
        asked = selector.next(max(4, texts // (8 * SIZE)))
        spent += time.perf_counter() - begin
        new = world.ask(asked)
        rows += new
        begin = time.perf_counter()
        selector.observe(new)
        spent += time.perf_counter() - begin
    begin = time.perf_counter()
    fitted(rows, texts)
    fit = time.perf_counter() - begin
    print(f"{texts:,} texts, {len(rows):,} calls: {1000 * spent / len(rows):.1f} ms per call; a fit of all {fit:.1f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--tables", nargs="+", default=["found", "large", "work"])
    given = parser.parse_args(sys.argv[1:] if sys.argv[0].endswith("top.py") else [])
    with ProcessPoolExecutor(given.jobs) as pool:
        if "found" in given.tables:
            table(pool, 200, (50, 100, 200, 400), given.runs)
            table(pool, 1000, (125, 250, 500, 1000), max(1, given.runs // 2))
        if "large" in given.tables:
            table(pool, 10_000, (1250, 2500, 5000, 10_000), max(1, given.runs // 20))
    if "work" in given.tables:
        for texts in (1000, 10_000):
            work(texts)


if __name__ == "__main__":
    main()
