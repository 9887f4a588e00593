"""Ties: simulated judges that call them, and how readily recorded judges and people do.

    python -m benchmarks.ties

Recorded answers are read from ../shared/data, and left out where that is absent.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

from comparo import Comparisons, fit

DATA = Path(__file__).parents[2] / "shared" / "data" / "panel"
RUNS = 100
SCENES = ((6, 60), (30, 120), (30, 300))
PARAMETERS = (0.0, 0.6, 2.5)


def judged(rng: np.random.Generator, items: int, calls: int, nu: float) -> tuple[Comparisons, np.ndarray]:
    """Decisions and ties about random pairs of items with standard normal scores, γ = 0.3, and these scores."""
    truth = rng.standard_normal(items)
    first = rng.integers(items, size=calls)
    second = (first + rng.integers(1, items, size=calls)) % items
    won = np.exp((truth[first] - truth[second] - 0.3) / 2)
    drawn = rng.random(calls) * (won + 1 / won + nu)
    p = np.where(drawn < won, 1.0, np.where(drawn < won + nu, 0.5, 0.0))
    return Comparisons.from_columns(first, second, p), truth


def half_wins(data: Comparisons) -> Comparisons:
    """The same with half a win and half a loss in place of each tie."""
    tied = data.p == 0.5
    rows = np.concatenate([np.arange(len(data)), np.flatnonzero(tied)])
    p = np.concatenate([np.where(tied, 1.0, data.p), np.zeros(np.count_nonzero(tied))])
    return replace(data.take(rows), p=p, weight=np.where(tied[rows], 0.5, 1.0))


def simulation() -> None:
    print("\n| items | calls | ν | ties, % | ν found | covers, % | ρ × 100 | half wins: covers, % | ρ × 100 |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for items, calls in SCENES:
        for nu in PARAMETERS:
            found: list[list[float]] = []
            for seed in range(RUNS):
                data, scores = judged(np.random.default_rng(seed), items, calls, nu)
                row = [100 * float(np.mean(data.p == 0.5))]
                for given in (data, half_wins(data)):
                    ranking = fit(given, "mixed")
                    truth = ranking.graph.centre(scores[ranking.items])
                    inside = float(np.mean((ranking.low <= truth) & (truth <= ranking.high)))
                    row += [100 * inside, 100 * float(spearmanr(ranking.scores, truth)[0])]
                    if given is data:
                        row.append(0.0 if "ties" not in ranking.tables else float(ranking.tables["ties"]["nu"][0]))
                found.append(row)
            ties, covers, rho, _, rounded, other = np.mean(found, axis=0)
            middle = float(np.median([row[3] for row in found]))
            print(
                f"| {items} | {calls} | {nu} | {ties:.0f} | {middle:.2f} | {covers:.1f} | {rho:.1f} | {rounded:.1f} "
                f"| {other:.1f} |"
            )


def recorded() -> None:
    print("\n| file | judge | answers | ties, % | ν | P(tie of equals) |")
    print("| --- | --- | ---: | ---: | ---: | ---: |")
    for name in ("arena_ppr", "mtbench6_en", "llmfao"):
        path = DATA / f"judges.{name}.csv.gz"
        if not path.exists():
            continue
        data = Comparisons.read(path)
        if name == "arena_ppr":  # each battle is a context of its own: systems are compared over all of them
            data = replace(data, contexts=None, context=None)
        begin = time.perf_counter()
        ties = fit(data, "panel").tables.get("ties")
        seconds = time.perf_counter() - begin
        for judge, answers, share, nu, equals in zip(*ties.values(), strict=True) if ties else ():
            print(f"| {name} | {judge} | {answers:,} | {100 * share:.1f} | {nu:.2f} | {equals:.2f} |")
        print(f"\n{name}: {seconds:.1f} s for {len(data):,} answers\n")


def main() -> None:
    warnings.simplefilter("ignore")
    simulation()
    recorded()


if __name__ == "__main__":
    main()
