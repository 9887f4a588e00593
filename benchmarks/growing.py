"""What it costs to add items to a ranking, until they are known as well as those that were there.

`python -m benchmarks.growing` ranks 1,000 simulated texts, ten calls each, adds 100, and raises the budget of the new
ones step by step. Standard errors are root mean squares over the items, and so are the errors against the true scores;
zero is the mean of the old items. `calls` is where the standard error of the new items reaches that of the old ones, by
interpolation of 1/error² over the calls. The baseline draws random pairs with a new item, both orders. Starting anew
asks ten calls of all 1,100 items.

`--judges KIND:SPREAD:LIFT:CALLS` are the judges, with the spread of the true scores, how much better the new items are,
and the calls per old item. `--items`, `--new` and `--seeds` make it smaller or larger.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from comparo import Items, Ranking, load_judge, rank
from comparo.data.comparisons import Comparisons
from comparo.data.prompts import Question
from comparo.judges.simulated import Simulated
from comparo.run.recipe import Fitting
from comparo.types import Array

BUDGETS = (8, 10, 12)  # calls per new item
RANDOM = (16, 24)  # the same for random pairs
BIAS = 0.3
WORDS = np.array([a + b + c for a in "bdgklmnprst" for b in "aeiou" for c in "dlmnrst"])


@dataclass(frozen=True)
class Setting:
    """A judge, how many items are old and new, the spread of true scores, and how much better new items are on average.

    `calls` is how many each old item has had.
    """

    kind: str = "soft"
    old: int = 1000
    new: int = 100
    sd: float = 1.0
    lift: float = 0.0
    calls: float = 10  # per old item

    def truth(self, seed: int) -> Array:
        """The true scores, old items first, the mean of which is 0."""
        scores = self.sd * np.random.default_rng(seed).standard_normal(self.old + self.new)
        scores -= np.mean(scores[: self.old])
        return np.asarray(scores + self.lift * (np.arange(len(scores)) >= self.old))

    def judge(self, seed: int) -> Simulated:
        """A soft judge has noise of 1 logit; the noise of decisions is that of a coin."""
        scores = dict(enumerate(self.truth(seed).tolist()))
        noise = 1.0 if self.kind == "soft" else 0.0
        judge = load_judge(f"simulated/{self.kind}", scores=scores, noise=noise, bias=BIAS, seed=seed)
        assert isinstance(judge, Simulated)
        return judge

    def items(self, number: int) -> Items:
        """The first so many items; their texts are random words."""
        rng = np.random.default_rng(0)
        return Items.of([" ".join(rng.choice(WORDS, 30)) for _ in range(number)])


@dataclass(frozen=True)
class Row:
    """Calls per new item; standard errors, errors and coverage of old and new items; how far old scores moved."""

    calls: float
    old_std: float
    new_std: float
    old_error: float
    new_error: float
    old_cover: float
    new_cover: float
    moved: float


def row(ranking: Ranking, truth: Array, old: int, calls: float, before: Ranking) -> Row:
    """What a ranking of all items shows."""
    place = ranking.items.astype(int)
    is_old = place < old
    error = ranking.scores - np.mean(ranking.scores[is_old]) - truth[place]
    inside = np.abs(error) <= 1.96 * ranking.std
    parts = [
        float(np.sqrt(np.mean(values[rows] ** 2))) for values in (ranking.std, error) for rows in (is_old, ~is_old)
    ]
    cover = [float(np.mean(inside[rows])) for rows in (is_old, ~is_old)]
    was = np.empty(old)
    was[before.items.astype(int)] = before.scores
    change = ranking.scores[is_old] - np.mean(ranking.scores[is_old]) - was[place[is_old]]
    return Row(calls, *parts, *cover, float(np.sqrt(np.mean(change**2))))


@dataclass(frozen=True)
class Found:
    """The rows of a growth, those of random pairs, and the first ranking."""

    rows: tuple[Row, ...]
    random: tuple[Row, ...]


def grow(setting: Setting, seed: int, budgets: Sequence[int] = BUDGETS, random: Sequence[int] = ()) -> Found:
    """Rank the old items, and add the new ones with each budget."""
    judge, truth, size = setting.judge(seed), setting.truth(seed), setting.old + setting.new
    with tempfile.TemporaryDirectory() as name:
        options = {"judge": judge, "out": Path(name, "run"), "seed": seed}
        before = rank(setting.items(setting.old), "better", budget=f"{setting.calls:g}n", **options)
        rows = [
            row(rank(setting.items(size), "better", budget=f"{calls}n", **options), truth, setting.old, calls, before)
            for calls in budgets
        ]
    return Found(tuple(rows), tuple(at_random(setting, judge, truth, before, random, seed)))


def at_random(
    setting: Setting, judge: Simulated, truth: Array, before: Ranking, budgets: Sequence[int], seed: int
) -> list[Row]:
    """Random pairs with a new item, both orders, fitted in the same way."""
    rng, size = np.random.default_rng(seed), setting.old + setting.new
    asked = Comparisons.from_columns(
        before.comparisons.items[before.comparisons.first],
        before.comparisons.items[before.comparisons.second],
        before.comparisons.p,
    )
    pairs: dict[tuple[int, int], None] = {}
    found = []
    for calls in budgets:
        while 2 * len(pairs) < calls * setting.new:
            x, y = int(rng.integers(setting.old, size)), int(rng.integers(size))
            if x != y and (y, x) not in pairs:
                pairs[x, y] = None
        questions = [Question(a, b) for x, y in pairs for a, b in ((x, y), (y, x))]
        answers = [(one.question.first, one.question.second, one.p) for one in judge.judge(questions)]
        rows = [
            *zip(asked.items[asked.first].tolist(), asked.items[asked.second].tolist(), asked.p.tolist(), strict=True)
        ]
        ranking = Fitting(setting.items(size)).rank(Comparisons.from_rows(rows + answers))
        found.append(row(ranking, truth, setting.old, calls, before))
    return found


def needed(rows: Sequence[Row]) -> float:
    """The calls per new item at which new items have the standard error of the old ones; inf where none are enough."""
    calls = np.array([one.calls for one in rows])
    short = np.array([one.new_std**-2 - one.old_std**-2 for one in rows])
    return float(np.interp(0.0, short, calls, right=np.inf)) if short[-1] >= 0 else float("inf")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=1000)
    parser.add_argument("--new", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument(
        "--judges", nargs="+", default=["soft", "hard", "hard:2", "soft:1:1", "soft:1:0:8", "hard:1:0:8"]
    )
    given = parser.parse_args()
    for text in given.judges:
        kind, *numbers = text.split(":")
        setting = Setting(kind, given.items, given.new, *map(float, numbers))
        found = [grow(setting, seed, random=RANDOM) for seed in range(given.seeds)]
        for name, rows in (("placed", [one.rows for one in found]), ("random", [one.random for one in found])):
            calls = [needed(each) for each in rows]
            print(f"\n{setting} {name}: {np.mean(calls):.1f} calls per new item ({min(calls):.1f} to {max(calls):.1f})")
            print("| calls | std old | std new | error old | error new | cover old | cover new | old moved |")
            for step in zip(*rows, strict=True):
                values = np.mean([[getattr(one, field) for field in Row.__dataclass_fields__] for one in step], axis=0)
                print(
                    "| " + " | ".join([f"{values[0]:.0f}", *(f"{value:.3f}" for value in values[1:])]) + " |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
