"""From comparisons to scores: comparo against the libraries people use, on the same comparisons in one process.

Every library gets the comparisons in the form its public call takes, and is run until no item's gradient is above 1e-8
a comparison (or as near as it gets): the column `gradient` is the largest |Σ(y − σ)| of an item over its comparisons.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

from comparo import Comparisons, fit


def games(rng: np.random.Generator, items: int, rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Hard decisions among items of unit spread: first, second, whether the first won."""
    scores = rng.standard_normal(items)
    first = rng.integers(items, size=rows)
    second = (first + rng.integers(1, items, size=rows)) % items
    won = rng.random(rows) < 1 / (1 + np.exp(scores[second] - scores[first]))
    return first, second, won.astype(float)


def gradient(scores: np.ndarray, first: np.ndarray, second: np.ndarray, won: np.ndarray) -> float:
    n = len(scores)
    slope = won - 1 / (1 + np.exp(scores[second] - scores[first]))
    total = np.bincount(first, slope, n) - np.bincount(second, slope, n)
    return float(np.max(np.abs(total) / (np.bincount(first, minlength=n) + np.bincount(second, minlength=n))))


def timed(call: Callable[[], np.ndarray], repeats: int) -> tuple[float, np.ndarray]:
    """The shortest of `repeats` runs, in seconds, and what the last one returned."""
    best, result = np.inf, np.empty(0)
    for _ in range(repeats):
        begin = time.perf_counter()
        result = call()
        best = min(best, time.perf_counter() - begin)
    return best, result


def contexts() -> None:
    """N = 16, K = 48 in each of 10,000 contexts, against one choix fit after another."""
    import choix

    rng = np.random.default_rng(0)
    items, rows, count, sample = 16, 48, 10_000, 200
    context = np.repeat(np.arange(count), rows)
    parts = [games(rng, items, rows) for _ in range(count)]
    first, second, won = (np.concatenate(column) for column in zip(*parts, strict=True))
    penalty = 0.5

    def ours() -> np.ndarray:
        ranking = fit(Comparisons.from_columns(first, second, won, context=context), prior=(2 * penalty) ** -0.5)
        table = np.zeros((count, items))
        table[ranking.context, ranking.items] = ranking.scores
        return table

    def theirs() -> np.ndarray:
        found = []
        for a, b, y in parts[:sample]:
            data = [(i, j) if w else (j, i) for i, j, w in zip(a.tolist(), b.tolist(), y.tolist(), strict=True)]
            found.append(choix.opt_pairwise(items, data, alpha=penalty, tol=1e-8))
        return np.array(found)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        seconds, scores = timed(ours, 3)
    peer, expected = timed(theirs, 1)
    peer *= count / sample
    connected = np.all(scores[:sample] != 0, axis=1)
    apart = np.abs(scores[:sample] - expected)[connected].max()
    print(f"\nN = {items}, K = {rows}, in each of {count:,} contexts, Gaussian prior of variance {1 / (2 * penalty):g}")
    print(f"  comparo                       {seconds:8.2f} s")
    print(f"  choix.opt_pairwise, in turn   {peer:8.2f} s   ({sample} of them timed)")
    print(f"  ratio {peer / seconds:.0f}, largest difference of a score {apart:.1e}")


def peers(items: int, rows: int) -> None:
    import evalica
    import pandas as pd

    rng = np.random.default_rng(items + rows)
    first, second, won = games(rng, items, rows)
    repeats = 5 if rows <= 1_000_000 and items <= 1000 else 3

    def ours() -> np.ndarray:
        return fit(Comparisons.from_columns(first, second, won), prior="first").scores

    lists = first.tolist(), second.tolist(), [evalica.Winner.X if y else evalica.Winner.Y for y in won]

    def rust(method: Callable[..., evalica.Result]) -> Callable[[], np.ndarray]:
        # the loosest power of ten that brings the gradient below 1e-8
        return lambda: np.log(method(*lists, tolerance=1e-5, limit=10_000).scores.sort_index().to_numpy())

    frame = pd.DataFrame({"model_a": first, "model_b": second, "winner": np.where(won, "model_a", "model_b")})

    def arena() -> np.ndarray:
        from arena_rank.models.bradley_terry import BradleyTerry
        from arena_rank.utils.data_utils import PairDataset

        data = PairDataset.from_pandas(frame)
        model = BradleyTerry(n_competitors=data.n_competitors, max_iter=2000, gtol=1e-10, ftol=1e-16)
        model.fit(data)
        return np.asarray(model.params["ratings"])

    def spectral() -> np.ndarray:
        import choix

        data = np.column_stack([np.where(won, first, second), np.where(won, second, first)]).tolist()
        return np.asarray(choix.ilsr_pairwise(items, data, alpha=0, max_iter=100, tol=1e-8))

    calls: dict[str, tuple[Callable[[], np.ndarray], int]] = {"comparo.fit": (ours, repeats)}
    calls["evalica.bradley_terry"] = (rust(evalica.bradley_terry), min(repeats, 3))
    if items <= 1000:  # at N = 10,000 it takes minutes
        calls["evalica.newman"] = (rust(evalica.newman), 1)
    calls["arena_rank BradleyTerry"] = (arena, 2)  # the first run compiles
    if rows <= 1_000_000 and items <= 1000:
        calls["choix.ilsr_pairwise"] = (spectral, 1)
    print(f"\nN = {items:,}, K = {rows:,}")
    times = {}
    for name, (call, count) in calls.items():
        times[name], scores = timed(call, count)
        print(f"  {name:28} {times[name]:8.3f} s   gradient {gradient(scores, first, second, won):.0e}", flush=True)
    ours_time = times.pop("comparo.fit")
    fastest = min(times, key=times.__getitem__)
    print(f"  ratio to the fastest peer ({fastest}): {times[fastest] / ours_time:.1f}")


def memory(kind: str) -> float:
    """Bytes that this process holds (VmRSS) or has held at most (VmHWM), by Linux's account."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(float(line.split()[1]) for line in lines if line.startswith(kind))


def scale(items: int) -> None:
    """One fit of `items` and ten comparisons an item, and what it needed."""
    rng = np.random.default_rng(0)
    rows = 10 * items
    scores = rng.standard_normal(items)
    first = rng.integers(items, size=rows)
    second = (first + rng.integers(1, items, size=rows)) % items
    p = 1 / (1 + np.exp(scores[second] - scores[first] + 0.5 * rng.standard_normal(rows)))

    before = memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak of making the data
    begin = time.perf_counter()
    ranking = fit(Comparisons.from_columns(first, second, p))
    seconds, used = time.perf_counter() - begin, memory("VmHWM") - before
    begin = time.perf_counter()
    error = ranking.std.mean()
    print(
        f"  N = {items:>9,}, K = {rows:>10,}: {seconds:6.2f} s, {used / rows:4.0f} bytes a comparison; "
        f"standard errors {time.perf_counter() - begin:5.1f} s more (mean {error:.3f})",
        flush=True,
    )
    print(seconds, file=sys.stderr)


def main() -> None:
    print("# From comparisons to scores")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # arena-rank's compiler comments on its own speed
    contexts()
    for items, rows in ((1000, 100_000), (1000, 1_000_000), (10_000, 1_000_000)):
        peers(items, rows)
    print("\nTen comparisons an item, each in a process of its own")
    seconds = []
    for items in (100_000, 1_000_000):
        run = subprocess.run(
            [sys.executable, "-c", f"from benchmarks.core import scale; scale({items})"],
            stderr=subprocess.PIPE,
            text=True,
            check=True,
        )
        seconds.append(float(run.stderr.split()[-1]))
    print(f"  ten times the work took {seconds[1] / seconds[0]:.1f} times as long")


if __name__ == "__main__":
    main()
