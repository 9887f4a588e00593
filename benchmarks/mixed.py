"""What the default fit costs next to a plain one, both with standard errors, on recorded judgements; a panel; groups.

python -m benchmarks.mixed
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from scipy.special import expit

from benchmarks.efficiency import DATA
from benchmarks.paper.datasets import open_dataset
from benchmarks.systems import SPREAD, answers
from benchmarks.yardstick import chosen
from comparo.data.comparisons import Comparisons
from comparo.methods import quiet_fit
from comparo.run.fit_policy import Fitting

CASES = (("summeval", "32"), ("summeval", "80"), ("hanna", "5n"))
REPEATS = 7


def best(work: Callable[[], object]) -> float:
    """The shortest of some repeats, in milliseconds."""
    found = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        work()
        found.append(1000 * (time.perf_counter() - begin))
    return min(found)


def voices(items: int, calls: int, judges: int) -> Comparisons:
    """Soft answers of simulated voices that share half of their view, `calls` in all."""
    rng = np.random.default_rng(0)
    truth, tastes = rng.standard_normal(items), rng.standard_normal((judges, items))
    judge, first = rng.integers(judges, size=calls), rng.integers(items, size=calls)
    second = (first + rng.integers(1, items, size=calls)) % items
    view = truth + tastes
    y = view[judge, first] - view[judge, second] - 0.3 + rng.standard_normal(calls)
    return Comparisons.from_columns(first, second, expit(y), judge=judge)


def main() -> None:
    print("| set | comparisons | plain, ms | default, ms | ratio |\n| --- | ---: | ---: | ---: | ---: |")
    for name, calls in CASES:
        opened = open_dataset(name, DATA)
        recorded = next(iter(opened.recorded.values()))
        fitting = Fitting(opened.items)
        data = chosen(recorded, fitting, (calls,), 1, 0)[calls].one(0)
        fitting.rank(data)  # contrast and style are computed once
        plain = best(lambda data=data: quiet_fit(data, bias="joint").std)
        default = best(lambda data=data, fitting=fitting: fitting.rank(data).std)
        print(
            f"| {name}, {calls} calls | {len(data):,} | {plain:.1f} | {default:.1f} | {default / plain:.1f} |",
            flush=True,
        )
    _print_groups()
    data = voices(1000, 100_000, 6)
    plain = best(lambda: quiet_fit(data, bias="joint").scores)
    none = best(lambda: quiet_fit(data).scores)
    panel = best(lambda: quiet_fit(data, "panel").scores)
    print("\n| 1,000 items, 100,000 comparisons, 6 voices | ms | panel divided by it |\n| --- | ---: | ---: |")
    for name, took in (("plain", none), ("plain, with position biases", plain), ("panel", panel)):
        print(f"| {name} | {took:.0f} | {panel / took:.1f} |")


def _print_groups() -> None:
    """100 systems in 100 contexts, five calls per text: the fit with groups="items" next to that without."""
    print("\n| 100 × 100 contexts | mixed, CPU s | with groups, CPU s | ratio |\n| --- | ---: | ---: | ---: |")
    for is_hard in (False, True):
        data, _, _ = answers(np.random.default_rng(0), 100, 100, 5, SPREAD, is_hard)
        took = []
        for groups in (None, "items"):
            begin = time.process_time()
            quiet_fit(data, "mixed", groups=groups)
            took.append(time.process_time() - begin)
        name = "decisions" if is_hard else "soft"
        print(f"| {name} | {took[0]:.1f} | {took[1]:.1f} | {took[1] / took[0]:.1f} |", flush=True)


if __name__ == "__main__":
    main()
