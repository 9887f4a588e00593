"""What it costs to add items to a ranking, until they are known as well as those that were there.

`python -m benchmarks.growing` ranks 1,000 simulated texts, ten calls each, adds 100, and raises the budget of the new
ones step by step. Standard errors are root mean squares over the items, and so are the errors against the true scores;
both are against the mean of the old items, so that an error which all new items share counts for each of them. `calls`
is where the standard error of the new items reaches that of the old ones, by interpolation of 1/error² over the calls,
with the standard error of its mean over the seeds. The baseline draws random pairs with a new item, both orders.
Starting anew asks ten calls of all 1,100 items.

No choice of pairs needs fewer calls than `least_calls`. Let a call have at most the information c: 1/noise² of a soft
judge, ¼ of a decision. With x calls per new item, a of them about an old one, the precision of the M new scores has the
trace M·(2x − a)·c + M/sd² at most, and a·c in the direction of their mean. The sum of inverse eigenvalues is least
where all others are equal, so that the mean variance of the new items is at least

    min over a of  1/(M·a·c) + (M − 1)²/M / ((M·(2x − a) − a)·c + (M − 1)/sd²).

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
from comparo.run.fit_policy import Fitting
from comparo.types import Array, Mask

BUDGETS = (8, 10, 13)  # calls per new item
RANDOM = (16, 24)  # the same for random pairs
BIAS, NOISE = 0.3, 1.0  # of the judge, in logits
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
        noise = NOISE if self.kind == "soft" else 0.0
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
    std = against(ranking, is_old)
    inside = np.abs(error) <= 1.96 * std
    parts = [float(np.sqrt(np.mean(values[rows] ** 2))) for values in (std, error) for rows in (is_old, ~is_old)]
    cover = [float(np.mean(inside[rows])) for rows in (is_old, ~is_old)]
    was = np.empty(old)
    was[before.items.astype(int)] = before.scores
    change = ranking.scores[is_old] - np.mean(ranking.scores[is_old]) - was[place[is_old]]
    return Row(calls, *parts, *cover, float(np.sqrt(np.mean(change**2))))


def against(ranking: Ranking, is_old: Mask) -> Array:
    """The standard error of each score against the mean of the old items."""
    (batch,) = ranking.covariance.pattern.batches
    covariance = ranking.covariance.block(batch)[0]
    with_mean = np.mean(covariance[:, is_old], axis=1)
    variance = covariance.diagonal() - 2.0 * with_mean + np.mean(with_mean[is_old])
    return np.asarray(np.sqrt(variance))


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


def least_calls(setting: Setting, std: float) -> float:
    """The calls per new item that any choice of pairs needs for this standard error, to a tenth.

    >>> least_calls(Setting(new=10**6), std=1 / 21**0.5)  # twenty comparisons each and the prior, as of an old item
    10.0
    """
    c, m = (1.0 / NOISE**2 if setting.kind == "soft" else 0.25), setting.new
    calls = np.arange(1.0, 30.0, 0.01)[:, None]
    a = np.geomspace(1e-5, 1.0, 400) * calls
    within = (m - 1) ** 2 / m / ((m * (2 * calls - a) - a) * c + (m - 1) / setting.sd**2)
    least = np.min(1.0 / (m * a * c) + within, axis=1)
    return round(float(calls[np.argmax(least <= std**2), 0]), 1)


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
            error = np.std(calls) / np.sqrt(max(1, len(calls) - 1))
            print(f"\n{setting} {name}: {np.mean(calls):.2f} ± {error:.2f} calls per new item")
            if name == "placed":
                least = least_calls(setting, float(np.mean([each[0].old_std for each in rows])))
                print(f"at least {least:.1f} by any choice of pairs")
            print("| calls | std old | std new | error old | error new | cover old | cover new | old moved |")
            for step in zip(*rows, strict=True):
                values = np.mean([[getattr(one, field) for field in Row.__dataclass_fields__] for one in step], axis=0)
                print(
                    "| " + " | ".join([f"{values[0]:.0f}", *(f"{value:.3f}" for value in values[1:])]) + " |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
