"""What the goals "systems" and "best-system" are worth: simulated runs with known means of systems, at equal calls.

G systems have a text in each of C contexts, of the score m_g + own·ε. The goal "ranking" needs 2(G − 1) calls to
connect a context, so that with few calls it sees fewer contexts; the goals of systems spread the calls over all.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import expit
from scipy.stats import spearmanr

from benchmarks.defaults import recorded
from benchmarks.selection import DATA
from comparo import Comparisons, fit
from comparo.ranking.leaderboard import Leaderboard
from comparo.run.stopping import LOOK_GROWTH
from comparo.selection import Selector
from comparo.selection.designs import Orders
from comparo.selection.systems import Systems, sureness

SYSTEMS, CONTEXTS = 16, 50
SPREAD, OWN, NOISE = 0.4, 0.5, 0.7  # of the systems' means, of texts of one system, and of soft answers, in logits
GOALS = ("ranking", "systems", "best-system")
Row = tuple[int, int, int, float]


@dataclass(frozen=True)
class World:
    """The mean score of each system, and what a judge says about every two texts: P(first is better), (C, G, G)."""

    mean: np.ndarray
    p: np.ndarray

    @classmethod
    def simulated(cls, seed: int, is_hard: bool, spread: float = SPREAD) -> World:
        """Soft answers, or decisions."""
        rng = np.random.default_rng([seed, 1])
        mean = spread * rng.standard_normal(SYSTEMS)
        mean -= np.mean(mean)
        score = mean + OWN * rng.standard_normal((CONTEXTS, SYSTEMS))
        noise = NOISE * rng.standard_normal((CONTEXTS, SYSTEMS, SYSTEMS))
        p = expit(score[:, :, None] - score[:, None, :] + noise)
        return cls(mean, (rng.random(p.shape) < p).astype(float) if is_hard else p)

    def answer(self, context: int, pairs: Sequence[tuple[int, int]]) -> list[Row]:
        return [(context, i, j, float(self.p[context, i, j])) for i, j in pairs]


def board(rows: Sequence[Row]) -> Leaderboard:
    """The leaderboard of the systems by these answers."""
    context, first, second, p = zip(*rows, strict=True)
    data = Comparisons.from_columns(first, second, np.array(p), context=context)
    return fit(data, groups="items", prior="estimated", bias="joint").groups()


def ranked(world: World, calls: int, seed: int) -> list[Row]:
    """The answers of a run with the goal "ranking", in as many contexts as the calls connect."""
    contexts = min(CONTEXTS, calls // (2 * (SYSTEMS - 1)))
    rows: list[Row] = []
    for context in range(contexts):
        own = 2 * ((calls // 2 + context) // contexts)
        rows += world.answer(context, Selector(range(SYSTEMS), seed=1000 * seed + context).next(own))
    return rows


def compared(world: World, goal: str, calls: int, seed: int, until: float = 2.0, orders: Orders = "both") -> list[Row]:
    """The answers of a run with a goal of systems, in waves of a pair per context as `comparo rank` asks."""
    design = Systems({context: {g: g for g in range(SYSTEMS)} for context in range(CONTEXTS)}, goal)
    generators = np.random.default_rng(seed).spawn(CONTEXTS)
    parts = [design.of_context(context, orders, rng) for context, rng in enumerate(generators)]
    rows: list[Row] = []
    waiting: list[list[Row]] = []
    looked_at, left = 0, calls
    while left:
        waiting.append([])
        for context, part in enumerate(parts[: left // 2]):
            waiting[-1] += world.answer(context, part.next(2))  # of one pair, or of two in one order
        left -= len(waiting[-1])
        if len(waiting) < 2:
            continue
        rows += waiting.pop(0)
        if (
            (design.learns or until < 1)
            and len(rows) >= LOOK_GROWTH * looked_at
            and design.links(row[:3] for row in rows)
        ):
            looked_at, found = len(rows), board(rows)
            if sureness(found, goal) >= until:
                break
            if design.learns:
                design.learn(found)
    return rows + [row for wave in waiting for row in wave]


def measured(world: World, rows: Sequence[Row]) -> tuple[float, float, float, float]:
    """The RMS error of the means, the Spearman correlation with the truth, and of the system that is named the best by
    how much it falls short of the best, and whether it is the best.
    """
    found = board(rows)
    mean = np.empty(SYSTEMS)
    mean[found.group.astype(int)] = found.score
    error = float(np.sqrt(np.mean((mean - world.mean) ** 2)))
    short = float(np.max(world.mean) - world.mean[np.argmax(mean)])
    return error, float(spearmanr(mean, world.mean)[0]), short, float(short == 0.0)


def worth(runs: int, kinds: Sequence[bool] = (False, True), budgets: Sequence[float] = (0.5, 1, 2)) -> None:
    """The three goals at equal calls."""
    print(f"\n# {SYSTEMS} systems, {CONTEXTS} contexts, {runs} runs: mean ± standard error\n")
    print("| answers | calls per text | goal | RMS error of means | Spearman | named falls short by | best named |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for is_hard in kinds:
        for budget in budgets:
            calls = round(budget * SYSTEMS * CONTEXTS)
            for goal in GOALS:
                found = []
                for seed in range(runs):
                    world = World.simulated(seed, is_hard)
                    is_ranking = goal == "ranking"
                    rows = ranked(world, calls, seed) if is_ranking else compared(world, goal, calls, seed)
                    found.append(measured(world, rows))
                mean, error = np.mean(found, axis=0), np.std(found, axis=0) / np.sqrt(runs)
                cells = [f"{m:.3f} ± {e:.3f}" for m, e in zip(mean[:3], error[:3], strict=True)]
                best = f"{mean[3]:.0%} ± {100 * error[3]:.0f}"
                kind = "decisions" if is_hard else "soft"
                print(f"| {kind} | {budget:g} | {goal} | {' | '.join(cells)} | {best} |", flush=True)


def stopped(runs: int, spread: float, until: float = 0.9) -> None:
    """Whether runs that stop at `until` hold what they promise."""
    print(f"\n# --until {until}, means of spread {spread}, {runs} runs of at most 4 calls per text\n")
    for goal in GOALS[1:]:
        held, calls = [], []
        for seed in range(runs):
            world, most = World.simulated(seed, False, spread), 4 * SYSTEMS * CONTEXTS
            rows = compared(world, goal, most, seed, until)
            if len(rows) < most:
                held.append(measured(world, rows)[3 if goal == "best-system" else 1])
                calls.append(len(rows) / (SYSTEMS * CONTEXTS))
        share = f"{np.mean(held):.2f} ± {np.std(held) / np.sqrt(len(held)):.2f}" if held else "–"
        print(
            f"| {goal} | {len(held)} of {runs} stopped | {np.mean(calls or [4]):.1f} calls per text | {share} |",
            flush=True,
        )


def replayed(runs: int, attributes: Sequence[str] = ("relevance", "coherence")) -> None:
    """SummEval as recorded: the truth is the leaderboard of all 24,000 answers, and a run sees half of the articles."""
    print(f"\n# SummEval as judged by Qwen2.5-Coder-1.5B-Instruct, 50 of 100 articles, {runs} draws\n")
    print("| calls per text | goal | RMS error of means | Spearman |")
    print("| --- | --- | --- | --- |")
    worlds = []
    for attribute in attributes:
        p, _ = recorded("summeval", attribute)
        found, mean = board([(c, i, j, p[c, i, j]) for c, i, j in np.ndindex(p.shape) if i != j]), np.empty(SYSTEMS)
        mean[found.group.astype(int)] = found.score
        drawn = (np.random.default_rng(seed).permutation(len(p))[:CONTEXTS] for seed in range(runs))
        worlds += [World(mean, p[some]) for some in drawn]
    for budget in (0.5, 1, 2):
        calls = round(budget * SYSTEMS * CONTEXTS)
        for goal, orders in (("ranking", "both"), ("systems", "both"), ("systems", "one")):
            values = []
            for seed, world in enumerate(worlds):
                is_ranking = goal == "ranking"
                rows = ranked(world, calls, seed) if is_ranking else compared(world, goal, calls, seed, orders=orders)
                values.append(measured(world, rows)[:2])
            mean, error = np.mean(values, axis=0), np.std(values, axis=0) / np.sqrt(len(values))
            cells = [f"{m:.3f} ± {e:.3f}" for m, e in zip(mean, error, strict=True)]
            print(f"| {budget:g} | {goal}, {orders} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 and sys.argv[1].isdigit() else 40
    worth(runs)
    for spread in (0.8, 0.4):
        stopped(runs, spread)
    if DATA.is_dir():
        replayed(runs // 4)


if __name__ == "__main__":
    main()
