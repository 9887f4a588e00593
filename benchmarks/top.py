"""The best few of many: the goal top-k against other ways to ask, at equal line-ups: docs/top.md.

    python -m benchmarks.top [--runs 100] [--jobs 16] [--tables found large until work first] [--picture top.png]

True scores are normal with a standard deviation of 1.5. A judge orders the texts of a line-up by their scores plus
Gumbel noise of scale 1. Reported is the share of the k best texts that are among the k found.

The ways: `LineupSelector` with the goal top-k, in rounds of an eighth of a pass, of which one is always in flight, as
`comparo rank` asks; random line-ups; both are ranked by the product of Plackett–Luce choices with a normal prior. And
two published schemes, in our own words:

SiftRank (github.com/noperator/siftrank): all texts are dealt into line-ups in each of some trials, a text's score is
its mean place, and the better part goes on to the next round: half of the texts (--no-converge --ratio 0.5), or those
before the elbow of the scores (the default), for which it takes five trials at least, and nine to stop by itself. Here
halves have as many trials as half of the calls allow, five at most; an elbow leaves one look per text for later rounds,
and is a half where that leaves fewer than five trials; the last round, of twenty texts, gets all calls that are left.

BlitzRank (arXiv 2602.05448): an order of k texts is a path in a graph of wins. The next line-up has the k texts with
the fewest known losses, then the fewest known wins, by the transitive closure, and of texts that beat each other in
circles only one. A text is settled where its relation to all others is known, and a run ends when the best k are. It
has no use for more calls; here whole runs are repeated while calls are left, and their ranks averaged.

The table `first` has the same with a first stage: numbers that correlate with the true scores by 0.7, −0.7 or not.

The table `until` has whole runs of `comparo rank --until 0.9` of 60 texts, with the same scores: of those that stopped
by it, the mean share found, and of those that did not.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import pairwise, product

import numpy as np
from scipy.ndimage import gaussian_filter1d
from scipy.stats import rankdata

from comparo import Comparisons, load_judge
from comparo.analysis.confidence import top_share
from comparo.data.prompts import Rest
from comparo.run.rank import prepare_rank
from comparo.selection.doubt import Doubt
from comparo.selection.lineups import LineupSelector
from comparo.types import Array

SPREAD, SIZE, BEST = 1.5, 8, 10
ENOUGH = 5  # trials of SiftRank before it looks for an elbow
Row = dict[str, list[int]]
Way = Callable[["World", Sequence[int], int, int], list[float]]


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


def fitted(rows: Sequence[Row], texts: int, first_stage: Array | None = None) -> Array:
    """The scores of all texts; without a first stage, 0 for those without an answer."""
    data = Comparisons.from_rows(rows)
    codes = data.items.astype(np.int32)
    doubt = Doubt(texts, 1, first_stage)
    doubt.learn(
        Comparisons(np.arange(texts), codes[data.first], codes[data.second], data.p, data.weight, lineup=data.lineup)
    )
    return doubt.scores


def chosen(
    world: World, calls: Sequence[int], best: int, seed: int, strategy: str = "adaptive", stage: float | None = None
) -> list[float]:
    """The share found by the line-ups that comparo chooses, at each number of calls.

    `stage` is the correlation of a first stage with the true scores; None is without.
    """
    texts = len(world.scores)
    goal = f"top-{best}" if strategy == "adaptive" else "ranking"
    x = None
    if stage is not None:
        noise = SPREAD * np.random.default_rng([seed, 1]).standard_normal(texts)
        x = stage * world.scores + np.sqrt(1.0 - stage**2) * noise
    selector = LineupSelector(range(texts), SIZE, strategy=strategy, goal=goal, first_stage=x, seed=seed)
    waiting, rows = list[list[Row]](), list[Row]()
    while len(rows) < max(calls):
        waiting.append(world.ask(selector.next(max(4, texts // (8 * SIZE)))))
        rows += waiting[-1]
        if len(waiting) > 1:
            selector.observe(waiting.pop(0))
    return [world.found(fitted(rows[:number], texts, x), best) for number in calls]


def sifted(world: World, calls: int, best: int, by_elbow: bool = False) -> Array:
    """SiftRank: in each trial, all texts left are dealt into line-ups; of the mean places, the better part goes on."""
    texts = len(world.scores)
    looks = calls * SIZE // texts
    by_elbow = by_elbow and looks > ENOUGH
    trials = looks - 1 if by_elbow else max(1, min(ENOUGH, looks // 2))
    place, left, alive, stage, least = np.zeros(texts), calls, np.arange(texts), 0, max(SIZE, 2 * best)
    while left:
        wanted = left if len(alive) <= least else min(left, trials * len(alive) // SIZE)
        left, stage = left - wanted, stage + 1
        total, seen = np.zeros(texts), np.zeros(texts)
        while wanted:
            deck = world.rng.permutation(alive).tolist()
            while len(deck) >= SIZE and wanted:
                ordered, deck = world.order(deck[:SIZE]), deck[SIZE:]
                total[ordered] += np.arange(SIZE) / (SIZE - 1)
                seen[ordered] += 1
                wanted -= 1
        mean = np.where(seen > 0, total / np.maximum(seen, 1), 0.5)[alive]
        place[alive] = mean - stage
        order = np.argsort(mean, kind="stable")
        part = elbow(mean[order]) if by_elbow else len(alive) // 2
        alive = alive[order[: max(part, least)]]
    return -place


def elbow(sorted_places: Array) -> int:
    """Where the curve of sorted mean places bends most, smoothed by 3% of its length."""
    smooth = partial(gaussian_filter1d, sigma=max(1.0, 0.03 * len(sorted_places)), mode="nearest", truncate=3.0)
    return int(np.argmin(smooth(np.gradient(smooth(np.gradient(smooth(sorted_places)))))))


def blitzed(world: World, calls: int, best: int) -> Array:
    """BlitzRank: minus the mean rank by losses, of as many runs as the calls allow."""
    texts, total, runs = len(world.scores), np.zeros(len(world.scores)), 0
    while calls:
        reach, losses, wins = np.eye(texts, dtype=bool), np.zeros(texts), np.zeros(texts)  # of the transitive closure
        while calls and np.count_nonzero(is_open := losses + wins < texts - 1) > texts - best:
            some = list[int]()
            for u in np.lexsort((wins, losses)).tolist():
                if is_open[u] and not any(reach[u, v] and reach[v, u] for v in some):
                    some.append(u)
                if len(some) == SIZE:
                    break
            if len(some) < 2:
                break
            for u, v in pairwise(world.order(some)):
                above = np.flatnonzero(reach[:, u] & ~reach[:, v])
                new = reach[v] & ~reach[above]
                losses, wins[above] = losses + np.sum(new, axis=0), wins[above] + np.sum(new, axis=1)
                reach[above] |= reach[v]
            calls -= 1
        if calls or not runs:  # else the run was not finished
            total, runs = total + rankdata(losses - wins / texts), runs + 1
    return -total


def each(rule: Callable[[World, int, int], Array]) -> Way:
    """A way whose calls depend on their number."""
    return lambda world, calls, best, _: [world.found(rule(world, number, best), best) for number in calls]


WAYS: dict[str, Way] = {
    "SiftRank, halves": each(sifted),
    "SiftRank, elbow": each(partial(sifted, by_elbow=True)),
    "BlitzRank": each(blitzed),
    "random line-ups": partial(chosen, strategy="random"),
    "goal top-k": chosen,
}
STAGES: dict[str, Way] = {
    "none": chosen,
    "useful": partial(chosen, stage=0.7),
    "useless": partial(chosen, stage=0.0),
    "reversed": partial(chosen, stage=-0.7),
}


def one(way: str, texts: int, calls: Sequence[int], best: int, seed: int) -> list[float]:
    return (WAYS | STAGES)[way](World(texts, seed), calls, best, seed)


def table(
    pool: ProcessPoolExecutor, texts: int, calls: Sequence[int], runs: int, best: int = BEST, ways: Iterable[str] = WAYS
) -> None:
    """The share found by each way at each number of calls."""
    found = {way: np.array([*pool.map(partial(one, way, texts, calls, best), range(runs))]) for way in ways}
    show(f"{texts:,} texts, the best {best}, line-ups of {SIZE}", "calls", [f"{one:,}" for one in calls], found)


def show(title: str, corner: str, head: Sequence[object], found: Mapping[str, Array]) -> None:
    """A table of means over the R runs of each way, (R, columns)."""
    print(f"\n# {title}, {len(next(iter(found.values())))} runs: mean ± standard error\n")
    print(f"| {corner} | " + " | ".join(map(str, head)) + " |")
    print("| --- |" + " ---: |" * len(head))
    for way, values in found.items():
        mean, error = np.mean(values, axis=0), np.std(values, axis=0) / np.sqrt(len(values))
        cells = [f"{m:.3f} ± {e:.3f}" for m, e in zip(mean, error, strict=True)]
        print(f"| {way} | " + " | ".join(cells) + " |", flush=True)


def stopped(answers: str, size: int, best: int, seed: int, texts: int = 60) -> tuple[bool, int, float, float]:
    """Whether a run stopped by its target, its calls, and the share of the best that it found and said."""
    world = World(texts, seed)
    scores = dict(enumerate(world.scores.tolist()))
    judge = load_judge(f"simulated/{answers}", scores=scores, noise=float(answers == "soft"), seed=seed)
    how = {"judge": judge, "lineup": size, "goal": f"top-{best}", "until": 0.9, "budget": "30n" if size == 2 else "8n"}
    plan = prepare_rank({item: f"text {item}" for item in scores}, "better", seed=seed, **how)
    ranking = plan.run()
    assert plan.loop is not None
    is_sure = all(rounds.is_sure for rounds in plan.loop.contexts.rounds.values())
    got = np.zeros(texts)
    got[ranking.items.tolist()] = ranking.scores
    return is_sure, plan.loop.progress.answered, world.found(got, best), float(top_share(ranking, best)[0])


def until(pool: ProcessPoolExecutor, runs: int) -> None:
    print(f"\n# 60 texts, --until 0.9, {runs} runs: mean ± standard error\n")
    print("| answers | texts a call | k | runs | calls | said | found |")
    print("| --- | --- |" + " ---: |" * 5)
    for answers, size, best in product(("soft", "hard"), (SIZE, 2), (1, 5, 10, 50)):
        found = [*pool.map(partial(stopped, answers, size, best), range(runs))]
        for is_sure in (True, False):
            if rows := [row for row in found if row[0] == is_sure]:
                _, calls, share, said = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
                error = np.std(share) / np.sqrt(len(rows))
                what = f"{len(rows)} {'stopped' if is_sure else 'did not stop'}"
                mean = f"{np.mean(calls):.0f} | {np.mean(said):.3f} | {np.mean(share):.3f} ± {error:.3f}"
                print(f"| {answers} | {size} | {best} | {what} | {mean} |", flush=True)


def picture(pool: ProcessPoolExecutor, path: str, runs: int, texts: int = 200) -> None:
    """Draw the share found against the calls, with a band of two standard errors."""
    from matplotlib.figure import Figure

    calls = (25, 50, 75, 100, 150, 200, 300, 400)
    figure = Figure(figsize=(7, 3.6))
    axes = figure.subplots()
    for way, color in {"goal top-k": "#1f77b4", "random line-ups": "#888888", "SiftRank, halves": "#d62728"}.items():
        values = np.array([*pool.map(partial(one, way, texts, calls, BEST), range(runs))])
        mean, error = np.mean(values, axis=0), 2.0 * np.std(values, axis=0) / np.sqrt(runs)
        axes.fill_between(calls, mean - error, mean + error, color=color, alpha=0.15, linewidth=0)
        axes.plot(calls, mean, color=color, marker="o", markersize=4, label=way.replace("top-k", f"top-{BEST}"))
    axes.set(xlabel=f"calls about {SIZE} of {texts} texts each", ylabel=f"share of the best {BEST} found", ylim=(0, 1))
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, loc="lower right")
    figure.savefig(path, dpi=90, bbox_inches="tight")


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
    parser.add_argument("--picture", help="draw the share found by 200 texts into this file, and nothing else")
    given = parser.parse_args(sys.argv[1:] if sys.argv[0].endswith("top.py") else [])
    with ProcessPoolExecutor(given.jobs) as pool:
        if given.picture:
            picture(pool, given.picture, given.runs)
            return
        if "until" in given.tables:
            until(pool, given.runs)
        if "found" in given.tables:
            table(pool, 200, (50, 100, 200, 400), given.runs)
            table(pool, 1000, (125, 250, 500, 1000), max(1, given.runs // 2))
        if "large" in given.tables:
            table(pool, 10_000, (1250, 2500, 5000, 10_000), max(1, given.runs // 20))
        if "first" in given.tables:
            table(pool, 200, (25, 50, 100), given.runs, ways=STAGES)
            table(pool, 1000, (125, 250, 500), max(1, given.runs // 4), ways=STAGES)
    if "work" in given.tables:
        for texts in (1000, 10_000):
            work(texts)


if __name__ == "__main__":
    main()
