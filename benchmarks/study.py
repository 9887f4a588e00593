"""One data set's table: every context and draw of a cell in one batch, against one context after another."""

from __future__ import annotations

import time

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from benchmarks.paper.datasets import open_dataset
from benchmarks.selection import DATA
from comparo.methods import METHODS
from comparo.studies.draws import Draws, draw
from comparo.studies.sweep import Fit, Way, evaluate, score, sweep

SAMPLE = 40


def table(name: str, methods: tuple[str, ...], calls: tuple[str, ...], draws: int) -> None:
    """The time of a table from its files on, with loading and starting two processes."""
    begin = time.perf_counter()
    opened = open_dataset(name, DATA)
    ways = [Way.of(method) for method in methods]
    results = sweep(opened.recorded, ways, calls, draws=draws, processes=2)
    seconds = time.perf_counter() - begin
    print(
        f"\n{name}: {len(opened.recorded)} attributes, K = {', '.join(results.calls)}, {len(methods)} methods, {draws} "
        f"draws, Spearman and Pearson: {seconds:.1f} s"
    )
    for way in results.ways:
        cells = ", ".join(f"{100 * results.mean(way.name, each):.1f}" for each in results.calls)
        print(f"  {way.name:12} {cells}")


def by_bfgs(draws: Draws, which: int) -> np.ndarray:
    """PoE-BT of one context in one draw, by minimising as one would with scipy."""
    recorded, contexts = draws.recorded, len(draws.recorded.contexts)
    number, context = divmod(which, contexts)
    ends = np.cumsum(draws.calls)
    rows = draws.rows[number, ends[context] - draws.calls[context] : ends[context]]
    begin, end = recorded.starts[context : context + 2]
    first, second, p = recorded.first[rows] - begin, recorded.second[rows] - begin, recorded.p[rows]

    def loss(scores: np.ndarray) -> tuple[float, np.ndarray]:
        d = scores[first] - scores[second]
        slope = p - expit(d)
        gradient = np.bincount(first, slope, end - begin) - np.bincount(second, slope, end - begin)
        return float(np.sum(np.logaddexp(0, d) - p * d) + scores[0] ** 2 / 2), -gradient + scores * (
            np.arange(end - begin) == 0
        )

    found = minimize(loss, np.zeros(end - begin), jac=True, method="BFGS").x
    return found - found.mean()


def ratio() -> None:
    """One cell of PoE-BT: SummEval relevance, 48 calls, 100 draws of 100 contexts."""
    recorded = open_dataset("summeval", DATA, attributes=["relevance"]).recorded["relevance"]
    begin = time.perf_counter()
    draws = draw(recorded, 48, 100, rng=np.random.default_rng(0))
    cell = evaluate(draws, Fit("poe-bt"))
    batch = time.perf_counter() - begin
    sets = len(draws) * len(recorded.contexts)
    chosen = np.random.default_rng(1).choice(sets, SAMPLE, replace=False)
    begin = time.perf_counter()
    naive = [by_bfgs(draws, which) for which in chosen.tolist()]
    slow = (time.perf_counter() - begin) * sets / SAMPLE
    ours = score(draws, Fit("poe-bt")).reshape(sets, -1)[chosen]
    apart = np.median(np.abs(ours - np.array(naive)).max(axis=1))
    print(f"\none cell, PoE-BT, {sets:,} contexts of 16 items and 48 calls: {cell}")
    print(f"  drawn, solved in one batch and correlated {batch:8.2f} s")
    print(f"  scipy's BFGS, one after another           {slow:8.1f} s   ({SAMPLE} of them timed)")
    print(f"  ratio {slow / batch:.0f}; a score differs by {apart:.0e} (median)")


def main() -> None:
    print("\n# A study's tables, recorded judgements", flush=True)
    if not (DATA / "judgements").exists():
        print(f"\nskipped, {DATA}/judgements is not there")
        return
    table("summeval", METHODS, ("48", "240"), 100)
    table("hanna", ("avg-prob", "poe-bt"), ("5n", "10n", "20n"), 20)
    ratio()


if __name__ == "__main__":
    main()
