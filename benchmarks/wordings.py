"""Ten wordings of one question to one judge, against people's scores: the figures of docs/measurements/wordings.md.

The judge is Qwen2.5-Coder-1.5B-Instruct; the sets are the first 25 articles of SummEval and all of TopicalChat, every
ordered pair. `p` is P(the text shown first is better); an answer flips if the judge prefers the same position in both
orders of a pair. The 3n calls are the ones that `comparo rank` would make, ranked as it does by default.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.efficiency import DATA
from benchmarks.paper.datasets import load_dataset
from benchmarks.verdict import table
from benchmarks.yardstick import chosen, judged_and_shared
from comparo.data.items import Items
from comparo.run.fit_policy import Fitting
from comparo.studies.recorded import Recorded
from comparo.studies.sweep import Fit, evaluate, everything
from comparo.types import Array

PAPER = "paper"
NAMES = {  # the letters of the recorded files, and the names of `--wording`; the others are not built in
    "a": PAPER,
    "b": "better",
    "f": "which",
    "g": "between",
    "h": "compare",
    "i": "before-after",
    "j": "letter",
    "k": "(yes or no)",
    "l": "reversed-options",
    "m": "(better, reversed)",
    "d": "(which is worse)",
    "e": "(definition first)",
}
DRAWS = 20
FEW = "3n"


@dataclass(frozen=True, eq=False)
class Measured:
    """One wording on one set: Spearman × 100 with people, with all calls also by context (C,), and the position."""

    whole: float
    by_context: Array
    few: float
    p: float
    flips: float


Results = Mapping[str, Mapping[str, Measured]]  # by wording and set


def measure(path: Path, items: Items, attribute: str, draws: int) -> Measured:
    recorded = Recorded.of(path, items, attribute)
    cell = evaluate(everything(recorded), Fit("avg-prob"))
    fitting = Fitting(items, estimate="auto")
    drawn = chosen(recorded, fitting, [FEW], draws, seed=0)[FEW] if draws else None
    few = float("nan") if drawn is None else judged_and_shared(drawn, fitting)[1]
    p = recorded.p[recorded.pairs]
    flips = float(np.mean((p[:, 0] > 0.5) == (p[:, 1] > 0.5)))
    return Measured(100 * float(cell.spearman[0]), 100 * cell.by_context, few, float(np.mean(recorded.p)), flips)


def results(folder: str, judge: str = "", draws: int = DRAWS) -> Results:
    """The wordings of the files `<set>.<attribute>.<judge><letter>.csv.gz` in a folder."""
    found: dict[str, dict[str, Measured]] = {}
    for name in ("summeval", "topicalchat"):
        items = load_dataset(name, DATA / f"{name}.jsonl").items
        for path in sorted((DATA / folder).glob(f"{name}.*.{judge}?.csv.gz")):
            attribute, letter = path.name.split(".")[1], path.name.removesuffix(".csv.gz")[-1]
            if letter in NAMES:
                one = found.setdefault(NAMES[letter], {})
                one[f"{name} {attribute}"] = measure(path, items, attribute, draws)
    return {name: found[name] for name in NAMES.values() if name in found}


def gain(found: Results, name: str, sets: Sequence[str]) -> tuple[float, float]:
    """How much better than the paper's wording, mean over sets, and its standard error over contexts."""
    means, squares = [], []
    for each in sets:
        apart = found[name][each].by_context - found[PAPER][each].by_context
        apart = apart[~np.isnan(apart)]
        means.append(float(np.mean(apart)))
        squares.append(float(np.var(apart, ddof=1)) / len(apart))
    return float(np.mean(means)), float(np.sqrt(np.sum(squares))) / len(sets)


def best(found: Results, sets: Sequence[str]) -> str:
    """The wording with the highest mean over sets."""
    return max(found, key=lambda name: float(np.mean([found[name][each].whole for each in sets])))


def surest(found: Results, sets: Sequence[str]) -> str:
    """The wording whose gain over the paper's, less two standard errors, is the largest."""

    def least(name: str) -> float:
        mean, error = gain(found, name, sets)
        return mean - 2 * error

    return max((name for name in found if name != PAPER), key=least)


def left_out(
    found: Results,
    sets: Sequence[str],
    parts: Sequence[Sequence[str]],
    choose: Callable[[Results, Sequence[str]], str],
) -> Iterator[tuple[str, str, float, float]]:
    """Each part of the sets, the wording that a rule chooses on the others, and what it and the paper's reach there."""
    for part in parts:
        name = choose(found, [each for each in sets if each not in part])
        reached, paper = (float(np.mean([found[one][each].whole for each in part])) for one in (name, PAPER))
        yield " and ".join(part), name, reached, paper


def show(found: Results, title: str) -> None:
    sets = list(found[PAPER])
    every = {name: ways for name, ways in found.items() if set(ways) == set(sets)}
    print(f"\n## {title}: Spearman × 100 with people, all pairs in both orders, average probability\n")
    rows = []
    for name, ways in found.items():
        there = [each for each in sets if each in ways]
        mean, error = gain(found, name, there)
        values = [f"{ways[each].whole:.1f}" if each in ways else "–" for each in sets]
        whole = f"{np.mean([ways[each].whole for each in sets]):.1f}" if name in every else "–"
        rows.append([name, *values, whole, "" if name == PAPER else f"{mean:+.1f} ± {error:.1f}"])
    print("\n".join(table(["wording", *sets, "mean", "against the paper's"], rows)))
    if not np.isnan(found[PAPER][sets[0]].few):
        print(f"## The same with {FEW} calls as comparo rank makes and ranks them, {DRAWS} draws\n")
        rows = [
            [name, *(f"{ways[each].few:.1f}" for each in sets), f"{np.mean([ways[each].few for each in sets]):.1f}"]
            for name, ways in every.items()
        ]
        print("\n".join(table(["wording", *sets, "mean"], rows)))
    print("## Position: mean p, share of flips\n")
    rows = [
        [name, *(f"{ways[each].p:.2f}, {ways[each].flips:.2f}" if each in ways else "–" for each in sets)]
        for name, ways in found.items()
    ]
    print("\n".join(table(["wording", *sets], rows)))
    kinds = [[each for each in sets if each.startswith(name)] for name in ("summeval", "topicalchat")]
    for title, choose in (("the highest mean", best), ("the surest gain", surest)):
        print(f"## Leaving sets out: the wording with {title} on the others\n")
        rows = [
            [*names, f"{reached:.1f}", f"{paper:.1f}"]
            for parts in ([[each] for each in sets], kinds)
            for *names, reached, paper in left_out(every, sets, parts, choose)
        ]
        print("\n".join(table(["left out", "chosen", "it reaches", "the paper's reaches"], rows)))


def main() -> None:
    print("\n# Wordings, recorded judgements", flush=True)
    if not (DATA / "wordings").exists():
        print(f"\nskipped, {DATA}/wordings is not there")
        return
    show(results("wordings"), "Ten wordings, four sets")
    show(results("panel", "qwen15-", draws=0), "All that was asked on SummEval's 100 articles and on TopicalChat")


if __name__ == "__main__":
    main()
