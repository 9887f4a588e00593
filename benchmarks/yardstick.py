"""The yardstick: comparo's defaults against the paper's method, call for call, on recorded judgements.

The paper's method is PoE-BT from random pairs in both orders without a prior. Comparo's is what `comparo rank` does:
pairs and weights by contrast, estimated variances, and prior means from texts of similar style and, where candidates
are known to share a system, from their system. From the same calls, the consensus is what people would say, beyond the
system or, where systems are not known, beyond style (`comparo.ranking.consensus`). Draws of pairs by contrast differ
only in the order of the items.

`python -m benchmarks.yardstick --draws 20` prints the tables.
"""

import argparse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from benchmarks.paper.datasets import NAMES, open_dataset
from benchmarks.selection import DATA
from comparo.data.items import Items
from comparo.ranking.ranking import Ranking
from comparo.run.fit_policy import Fitting
from comparo.selection.selector import Selector
from comparo.studies.display import ResultTable, reaching
from comparo.studies.draws import Draws, calls_in, draw
from comparo.studies.recorded import Opened, Recorded
from comparo.studies.sweep import Fit, correlate, evaluate, everything, placed, spread
from comparo.types import Array

KEPT = 0.95
PAPER, ALONE, SHARED = "paper", "ours", "ours, systems known"
STYLE, CONSENSUS = "consensus, style", "consensus, systems known"
GRIDS = {  # calls studied besides all
    "summeval": ("16", "24", "32", "40", "48", "64", "80", "96", "128", "160"),
    "topicalchat": ("6", "8", "10", "12", "14", "16", "20", "24"),
    "hanna": ("5n", "10n"),
}
WAYS = (PAPER, ALONE, SHARED, STYLE, CONSENSUS)
OTHER = ("2n", "3n", "5n", "10n")  # of a set of the user's own
Curves = Mapping[tuple[str, str], Mapping[str, "Curve"]]


@dataclass(frozen=True)
class Curve:
    """Spearman's correlation × 100 by calls per context, of one way on one attribute: calls and values (Q,)."""

    calls: Array
    values: Array

    @property
    def whole(self) -> float:
        """The value with all calls, which are the last."""
        return float(self.values[-1])

    def at(self, calls: float) -> float:
        """The value at this number of calls, by linear interpolation."""
        return float(np.interp(calls, self.calls, self.values))

    def needed(self, goal: float) -> float:
        """The first calls at which the curve reaches the goal, by linear interpolation; NaN where it never does."""
        return reaching(self.calls, self.values, goal)


def chosen(recorded: Recorded, fitting: Fitting, grid: Sequence[str], draws: int, seed: int) -> dict[str, Draws]:
    """Draws of the pairs that `comparo rank` would choose, by calls; those of fewer calls begin those of more.

    Where not all pairs were recorded, the greedy ones of those that were.
    """
    rng, counts = np.random.default_rng([seed, 1]), {calls: calls_in(recorded, calls) for calls in grid}
    names, contexts = fitting.items.names, recorded.contexts.tolist()
    if any(fitting.contrast[context] is None for context in contexts):
        return {calls: draw(recorded, calls, draws, rng=rng, strategy="greedy") for calls in grid}
    place = _places(recorded)
    rows: dict[str, list[list[int]]] = {calls: [[] for _ in range(draws)] for calls in grid}
    for code, context in enumerate(contexts):
        contrast, most = fitting.contrast[context], max(int(count[code]) for count in counts.values())
        for number in range(draws):
            selector = Selector(names[context], strategy="greedy", orders="both", contrast=contrast, seed=rng)
            asked = [place[code, first, second] for first, second in selector.next(most)]
            for calls in grid:
                rows[calls][number] += asked[: counts[calls][code]]
    return {calls: Draws(recorded, np.array(rows[calls], dtype=np.int32), counts[calls]) for calls in grid}


def _places(recorded: Recorded) -> dict[tuple[int, Any, Any], int]:
    """The row of each recorded comparison by its context's code and its items."""
    labels = recorded.items[recorded.item]
    context = recorded.context[recorded.first].tolist()
    first, second = labels[recorded.first].tolist(), labels[recorded.second].tolist()
    return {key: row for row, key in enumerate(zip(context, first, second, strict=True))}


def _curves(recorded: Recorded, items: Items, grid: Sequence[str], draws: int, seed: int) -> dict[str, Curve]:
    """The curves of the five ways for one attribute."""
    alone = Fitting(items, grouped=False, estimate="consensus")
    rng, whole = np.random.default_rng([seed, 0]), everything(recorded)
    random = {calls: draw(recorded, calls, draws, rng=rng) for calls in grid} | {"all": whole}
    ours = chosen(recorded, alone, grid, draws, seed) | {"all": whole}
    values = {PAPER: [100 * float(np.mean(evaluate(drawn, Fit("poe-bt")).spearman)) for drawn in random.values()]}
    systems = Fitting(items, estimate="auto")
    for judge, shared, fitting in ((ALONE, STYLE, alone), (SHARED, CONSENSUS, systems)):
        both = [judged_and_shared(drawn, fitting) for drawn in ours.values()]
        values[judge], values[shared] = map(list, zip(*both, strict=True))
    made = np.array([float(np.mean(drawn.calls)) for drawn in random.values()])
    return {way: Curve(made, np.array(found)) for way, found in values.items()}


def judged_and_shared(drawn: Draws, fitting: Fitting) -> tuple[float, float]:
    """Spearman's correlation × 100 with people, mean over draws: of the judge's own rankings, and of the estimate."""
    shared = [fitting.rank(drawn.one(number)) for number in range(1 if drawn.whole else len(drawn))]

    def agreement(rankings: Iterable[Ranking]) -> float:
        scores = np.concatenate([placed(drawn.recorded, ranking, 1) for ranking in rankings])
        return 100 * float(np.mean(correlate(drawn.recorded, scores).spearman))

    return agreement(ranking.judged for ranking in shared), agreement(shared)


def measure(
    sets: Sequence[Opened],
    *,
    draws: int = 100,
    seed: int = 0,
    processes: int = 1,
    grids: Mapping[str, Sequence[str]] = GRIDS,
) -> Curves:
    """The curves of the five ways, by set and attribute; a single context takes 20 draws at most.

    `grids` are the calls studied besides all, by the name of the set.
    """
    jobs = {
        (one.name, attribute): partial(
            _curves,
            recorded,
            one.items,
            grids.get(one.name, OTHER),
            draws if len(recorded.contexts) > 1 else min(draws, 20),
            seed,
        )
        for one in sets
        for attribute, recorded in one.recorded.items()
    }
    return dict(zip(jobs, spread(list(jobs.values()), processes), strict=True))


def tables(curves: Curves, sizes: Mapping[str, float]) -> list[ResultTable]:
    """What this benchmark prints, `sizes` being the items of a context of each set."""
    many = {key: ways for key, ways in curves.items() if key[0] != "hanna"}
    found = []
    if many:
        found += [_few_calls(many, sizes), _needed(many)]
    if hanna := {key: ways for key, ways in curves.items() if key[0] == "hanna"}:
        found.append(_hanna(hanna))
    return [*found, _worst(curves)]


def _few_calls(curves: Curves, sizes: Mapping[str, float]) -> ResultTable:
    rows: list[list[Any]] = []
    for (name, attribute), ways in curves.items():
        few = 2 * sizes[name]
        rows.append([f"{name} {attribute}", ways[PAPER].whole, *(ways[way].at(few) for way in WAYS)])
    means = ["mean", *np.mean([row[1:] for row in rows], axis=0).tolist()]
    columns = ("set", "paper, all calls", *(f"{way}, 2n" for way in WAYS))
    return ResultTable.of("Spearman × 100 with 2n calls per context", columns, [*rows, means])


def _needed(curves: Curves) -> ResultTable:
    rows = []
    for name in dict.fromkeys(key[0] for key in curves):
        every = {attribute: ways for (one, attribute), ways in curves.items() if one == name}
        for attribute, ways in [*every.items(), ("mean curve", _mean_curves(every.values()))]:
            goal = KEPT * ways[PAPER].whole
            calls = [ways[PAPER].needed(goal), ways[ALONE].needed(goal)]
            rows.append([f"{name} {attribute}", goal, *calls, calls[1] / calls[0]])
    columns = ("set", f"{KEPT:.0%} of the paper's with all", "paper, calls", f"{ALONE}, calls", "ratio")
    return ResultTable.of(
        "Calls per context that keep 95% of the full set's correlation, systems not known", columns, rows, 2
    )


def _hanna(curves: Curves) -> ResultTable:
    rows = []
    for (name, attribute), ways in curves.items():
        values, whole = ways[PAPER].values.tolist(), ways[PAPER].whole
        rows.append([f"{name} {attribute}", values[0], values[1], whole, *(ways[way].values[0] for way in WAYS[1:])])
    columns = ("set", "paper, 5n", "paper, 10n", "paper, all", *(f"{way}, 5n" for way in WAYS[1:]))
    return ResultTable.of("Spearman × 100 on HANNA", columns, rows)


def _worst(curves: Curves) -> ResultTable:
    rows = [
        [f"{name} {attribute}", *(float(np.min(ways[way].values - ways[PAPER].values)) for way in WAYS[1:])]
        for (name, attribute), ways in curves.items()
    ]
    return ResultTable.of(
        "Least advantage over the paper's method at any number of calls, in points", ("set", *WAYS[1:]), rows
    )


def _mean_curves(every: Iterable[Mapping[str, Curve]]) -> dict[str, Curve]:
    each = list(every)
    return {way: Curve(each[0][way].calls, np.mean([ways[way].values for ways in each], axis=0)) for way in each[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    given = vars(parser.parse_args())
    sets = [open_dataset(name, DATA) for name in NAMES if any((DATA / "judgements").glob(f"{name}.*"))]
    sizes = {one.name: len(one.items) / len(one.items.contexts) for one in sets}
    for table in tables(measure(sets, **given), sizes):
        print(f"{table.title}\n\n{table.markdown()}\n")


if __name__ == "__main__":
    main()
