"""The paper's experiments on a data set with recorded judgements: methods, numbers of calls, number of draws."""

from dataclasses import dataclass

import numpy as np

from comparo.methods import Method
from comparo.model.estimators.poe import Bias
from comparo.studies.baselines import SortedCell, longer_cell, pairs_cell
from comparo.studies.cells import Cell, column_means
from comparo.studies.opening import Opened
from comparo.studies.paper import METHODS
from comparo.studies.sweep import Results, Way, sweep
from comparo.types import Array

# The four methods of the paper's table on selection. On HANNA's many items, bt is determined by its prior alone.
SELECTED: tuple[Method, ...] = ("win-ratio", "avg-prob", "poe-bt", "poe-g")
BIASES: tuple[Bias, ...] = ("none", "plug-in", "joint")
# PairS by name: its beam (10 is wider than half of SummEval's 16 candidates, so that it misses nothing), both orders.
SORTS = {"PairS-greedy": (1, False), "PairS-beam": (10, False), "PairS-greedy in both orders": (1, True)}


@dataclass(frozen=True)
class Plan:
    """The calls studied with random pairs, with selected ones and in one order; `point` and `one_point` are reported.

    `draws` is the share of the requested draws that is made, `selected_draws` that for selected pairs.
    """

    title: str
    methods: tuple[Method, ...]
    calls: tuple[str, ...]
    selected: tuple[str, ...]
    one: tuple[str, ...]
    point: str
    one_point: str
    draws: float = 1.0
    selected_draws: float = 1.0


PLANS = {
    "summeval": Plan(
        title="SummEval",
        methods=METHODS,
        calls=("32", "48", "64", "96", "120", "240"),
        selected=("32", "48", "64", "96", "120"),
        one=("32", "48", "64", "96", "120"),
        point="48",
        one_point="48",
    ),
    "topicalchat": Plan(
        title="TopicalChat",
        methods=METHODS,
        calls=("12", "18", "24", "30"),
        selected=("12", "18", "24"),
        one=("9", "12", "15"),
        point="18",
        one_point="12",
    ),
    "hanna": Plan(
        title="HANNA",
        methods=SELECTED,
        calls=("2n", "3n", "5n", "10n", "20n"),
        selected=("3n", "5n"),
        one=("2n", "3n", "5n", "10n"),
        point="5n",
        one_point="5n",
        draws=0.2,
        selected_draws=0.05,
    ),
}


@dataclass(frozen=True, eq=False)
class Experiment:
    """What was measured on one data set.

    `random` has the plan's methods on random pairs in both orders, `selected` those of the paper on greedily selected
    pairs, `one` poe-bt on random pairs in one order with each bias. `longer` is by attribute. `sorted` is PairS by its
    name in `SORTS` and attribute, and `beside` has poe-bt at as many calls by that name; both are empty where not every
    pair was recorded, for PairS chooses its own.
    """

    plan: Plan
    opened: Opened
    random: Results
    selected: Results
    one: Results
    longer: dict[str, Cell]
    sorted: dict[str, dict[str, SortedCell]]
    beside: dict[str, Results]

    def sort_calls(self, name: str) -> float:
        """The calls of PairS per context, mean over attributes and sorts."""
        return float(np.mean([found.calls for found in self.sorted[name].values()]))

    def sort_by_context(self, name: str) -> Array:
        """Its Spearman correlation in each context, shape (C,), mean over sorts and attributes."""
        return column_means([found.cell.by_context for found in self.sorted[name].values()])

    def sort_values(self, name: str) -> Array:
        """Its Spearman correlation in each sort, shape (S,), the mean over attributes."""
        return np.asarray(np.mean([found.cell.spearman for found in self.sorted[name].values()], axis=0))


def experiment(opened: Opened, plan: Plan, draws: int = 100, seed: int = 0, processes: int = 1) -> Experiment:
    """Run the experiments of `plan` with `draws` draws each, or the share of them that the plan gives."""
    recorded = opened.recorded
    few, fewest = max(2, round(draws * plan.draws)), max(2, round(draws * plan.selected_draws))
    settings = {"seed": seed, "processes": processes}
    random = sweep(recorded, [Way.of(method) for method in plan.methods], plan.calls, draws=few, **settings)
    greedy = [Way.of(method, strategy="greedy") for method in SELECTED]
    selected = sweep(recorded, greedy, plan.selected, draws=fewest, **settings)
    ways = [Way.of("poe-bt", bias, orders="one") for bias in BIASES]
    one = sweep(recorded, ways, plan.one, draws=few, **settings)
    longer = {attribute: longer_cell(judgements, opened.items) for attribute, judgements in recorded.items()}
    sorts: dict[str, dict[str, SortedCell]] = {}
    beside: dict[str, Results] = {}
    for name, (beam, both) in SORTS.items() if _complete(opened) else ():
        rng = np.random.default_rng([seed, beam, both])
        times = max(2, few // 5)
        sorts[name] = {
            attribute: pairs_cell(judgements, times, beam=beam, both=both, rng=rng)
            for attribute, judgements in recorded.items()
        }
        calls = np.mean([found.calls for found in sorts[name].values()])
        ways = [Way.of("poe-bt"), Way.of("poe-bt", strategy="greedy"), Way.of("poe-bt", "joint", orders="one")]
        beside[name] = sweep(recorded, ways, [2 * round(calls / 2)], draws=few, **settings)
    return Experiment(plan, opened, random, selected, one, longer, sorts, beside)


def _complete(opened: Opened) -> bool:
    """Whether every ordered pair of every context was recorded, for every attribute."""
    sizes = {attribute: np.diff(judgements.starts) for attribute, judgements in opened.recorded.items()}
    return all(len(opened.recorded[attribute]) >= np.sum(size * (size - 1)) for attribute, size in sizes.items())
