"""Which pair to ask next: how fast the choice is, and how often it finds the best few."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from scipy.special import expit

from benchmarks.core import memory
from comparo import Comparisons, fit
from comparo.model.linalg.graph import Graph, Pattern
from comparo.model.linalg.laplacian import Laplacian
from comparo.model.linalg.spectrum import log_det as log_determinant
from comparo.selection.designs import random_pairs
from comparo.selection.selector import Selector, greedy_pairs

DATA = Path(__file__).parents[2] / "shared" / "data"


def log_det(pairs: np.ndarray, items: int) -> float:
    """log det(W̃ᵀW̃), the logarithm of the number of spanning trees, by a ridge so small that it adds nothing else."""
    first, second = np.ascontiguousarray(pairs.T)
    graph = Graph.build(Comparisons(np.arange(items), first, second, np.full(len(pairs), 0.5)))
    laplacian = Laplacian(Pattern(graph), np.ones(len(pairs)), np.full(items, 1e-6))
    return log_determinant(laplacian) - float(np.log(1e-6 * items))


def full_scan(items: int, pairs: int) -> np.ndarray:
    """The paper's greedy selection: every gain anew for each pair, the inverse by a rank-one update in place."""
    A = 1.0 + np.minimum.outer(np.arange(items), np.arange(items))
    closed = np.where(np.tri(items, k=1, dtype=bool), -np.inf, 0.0)
    gains, update = np.empty_like(A), np.empty_like(A)
    chosen = list(itertools.pairwise(range(items)))
    while len(chosen) < pairs:
        diagonal = A.diagonal()
        np.multiply(A, -2.0, out=gains)
        gains += diagonal[:, None]
        gains += diagonal
        gains += closed
        x, y = divmod(int(np.argmax(gains >= gains.max() * (1 - 1e-9))), items)
        v = (A[x] - A[y]) / np.sqrt(1.0 + gains[x, y])
        np.multiply(v[:, None], v, out=update)
        A -= update
        closed[x, y] = -np.inf
        chosen.append((x, y))
    return np.array(chosen)


def greedy_speed(items: int = 1000, pairs: int = 10_000) -> None:
    begin = time.perf_counter()
    lazy = greedy_pairs(items, pairs, np.random.default_rng(0))
    middle = time.perf_counter()
    scanned = np.random.default_rng(0).permutation(items)[full_scan(items, pairs)]
    end = time.perf_counter()
    same = np.array_equal(np.sort(lazy, axis=1), np.sort(scanned, axis=1))
    print(f"\ngreedy, N = {items:,}, K = {pairs:,}")
    print(f"  full scan with rank-one updates {end - middle:8.1f} s")
    print(f"  greedy_pairs                    {middle - begin:8.1f} s")
    print(f"  ratio {(end - middle) / (middle - begin):.1f}; the same pairs: {'yes' if same else 'NO'}")


def adaptive_run(scores: np.ndarray, calls: int, noise: float, batch: int = 32) -> tuple[float, np.ndarray]:
    """Seconds spent in the selector, and the rows it asked, with a judge that answers σ(difference + noise)."""
    rng = np.random.default_rng(0)
    selector = Selector(range(len(scores)), strategy="adaptive", orders="one", seed=np.random.default_rng(0))
    rows, seconds = np.empty((0, 2), dtype=np.int32), 0.0
    while len(rows) < calls:
        begin = time.perf_counter()
        asked = np.array(selector.next(min(batch, calls - len(rows))), dtype=np.int32)
        seconds += time.perf_counter() - begin
        p = expit(scores[asked[:, 0]] - scores[asked[:, 1]] + noise * rng.standard_normal(len(asked)))
        answers = Comparisons.from_columns(asked[:, 0], asked[:, 1], p)
        begin = time.perf_counter()
        selector.observe(answers)
        seconds += time.perf_counter() - begin
        rows = np.concatenate([rows, asked])
    return seconds, rows


def adaptive_speed(items: int = 1000, calls: int = 10_000) -> None:
    scores = 1.5 * np.random.default_rng(1).standard_normal(items)
    seconds, _ = adaptive_run(scores, calls, 0.5)
    print(f"\nadaptive, N = {items:,}, K = {calls:,}, batches of 32")
    print(f"  {1000 * seconds / calls:.2f} ms a comparison, refitting included")
    _, rows = adaptive_run(np.zeros(items), calls, 0.0)
    adaptive, greedy = (
        log_det(rows, items),
        log_det(greedy_pairs(items, calls, np.random.default_rng(0)), items),
    )
    print(f"  all scores equal: log det {adaptive:.1f}, greedy's {greedy:.1f} ({100 * (adaptive / greedy - 1):+.2f}%)")


def large(items: int = 100_000, pairs: int = 500_000) -> None:
    begin = time.perf_counter()
    chosen = greedy_pairs(items, pairs, np.random.default_rng(0))
    seconds, peak = time.perf_counter() - begin, memory("VmHWM") / 2**30
    drawn = random_pairs(items, pairs, np.random.default_rng(1))
    print(f"\ngreedy by random projection, N = {items:,}, K = {pairs:,}")
    print(f"  {seconds:.0f} s, peak memory {peak:.2f} GB")
    print(f"  log det, estimated: {log_det(chosen, items):,.0f}; random connected {log_det(drawn, items):,.0f}")


def top_k(runs: int = 200) -> None:
    """How often the best k are found, with a judge that answers σ(difference + noise)."""
    for items, top, calls, batch in ((30, 5, 120, 10), (60, 5, 240, 30)):
        print(f"\nwho are the top {top} of {items}? {calls} calls in batches of {batch}, {runs} simulated runs")
        for strategy, goal in itertools.product(("random", "greedy", "adaptive"), ("ranking", f"top-{top}")):
            if strategy != "adaptive" and goal != "ranking":
                continue
            right = [top_k_run(run, items, top, calls, batch, strategy, goal) for run in range(runs)]
            share, error = 100 * np.mean(right), 100 * np.std(right) / np.sqrt(runs)
            print(f"  {strategy:>8}, goal {goal:<7} all {top} right in {share:4.1f}% ± {error:.1f}")


def top_k_run(run: int, items: int, top: int, calls: int, batch: int, strategy: str, goal: str) -> bool:
    rng = np.random.default_rng([run, 0])
    scores = 1.5 * rng.standard_normal(items)
    selector = Selector(range(items), strategy=strategy, goal=goal, orders="one", seed=np.random.default_rng([run, 1]))
    rows: list[tuple[int, int, float]] = []
    while len(rows) < calls:
        asked = selector.next(batch)
        answers = [(a, b, float(expit(scores[a] - scores[b] + rng.standard_normal()))) for a, b in asked]
        selector.observe(answers)
        rows += answers
    ranking = fit(rows)
    return set(ranking.items[ranking.rank <= top]) == set(np.argsort(-scores)[:top])


def main() -> None:
    """Each part in a process of its own, with one thread for BLAS: on shared cores its threads wait for each other."""
    print("\n# Selection", flush=True)
    for part in (greedy_speed, adaptive_speed, large, top_k):
        command = f"from benchmarks import selection; selection.{part.__name__}()"
        subprocess.run([sys.executable, "-c", command], env=os.environ | {"OPENBLAS_NUM_THREADS": "1"}, check=True)


if __name__ == "__main__":
    main()
