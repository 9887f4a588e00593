"""What the default fit costs next to a plain one, both with standard errors, on recorded judgements.

python -m benchmarks.mixed
"""

from __future__ import annotations

import time
from collections.abc import Callable

from benchmarks.efficiency import DATA
from comparo.methods import quiet_fit
from comparo.run.recipe import Fitting
from comparo.studies.opening import open_set
from comparo.studies.yardstick import chosen

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


def main() -> None:
    print("| set | comparisons | plain, ms | default, ms | ratio |\n| --- | ---: | ---: | ---: | ---: |")
    for name, calls in CASES:
        opened = open_set(name, DATA)
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


if __name__ == "__main__":
    main()
