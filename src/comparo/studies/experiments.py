"""The paper's experiments on a data set with recorded judgements: methods, numbers of calls, number of draws.

What the paper reports, to compare with what is measured here: Spearman correlations × 100, by judge.

From its tables on SummEval (mean of four attributes; 48 and all 240 calls per context), on greedy selection (48 calls),
on TopicalChat (18 and all 30 calls) and on HANNA (at 5, 10, 20 and 50 N calls).
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from comparo.methods import Method
from comparo.model.estimators.poe import Bias
from comparo.studies.baselines import SortedCell, longer_cell, pairs_cell
from comparo.studies.recorded import Opened
from comparo.studies.sweep import Cell, Results, Way, column_means, sweep
from comparo.types import Array

METHODS: tuple[Method, ...] = ("win-ratio", "bt", "poe-g-hard", "avg-prob", "poe-bt", "poe-g")
Row = dict[str, float]


def _row(*values: float) -> Row:
    return dict(zip(METHODS, values, strict=True))


def _selected(random: tuple[float, ...], greedy: tuple[float, ...]) -> dict[str, Row]:
    methods = ("win-ratio", "avg-prob", "poe-bt", "poe-g")
    return {"random": dict(zip(methods, random, strict=True)), "greedy": dict(zip(methods, greedy, strict=True))}


def _converging(*values: tuple[float, float]) -> dict[str, Row]:
    pairs = zip(("5n", "10n", "20n", "50n"), values, strict=True)
    return {calls: {"avg-prob": mean, "poe-bt": product} for calls, (mean, product) in pairs}


PAPER_SUMMEVAL = {
    "Llama2-7B": {"48": _row(21.6, 23.4, 22.5, 24.0, 26.8, 26.6), "240": _row(27.8, 27.9, 27.6, 28.4, 28.4, 28.4)},
    "Llama2-13B": {"48": _row(30.8, 33.1, 31.6, 33.7, 37.7, 37.3), "240": _row(39.3, 39.3, 39.2, 39.3, 39.3, 39.3)},
    "Mistral-7B": {"48": _row(29.7, 31.9, 30.5, 31.1, 33.2, 32.8), "240": _row(38.1, 38.1, 38.0, 37.7, 37.7, 37.7)},
    "FlanT5-3B": {"48": _row(34.1, 36.6, 34.9, 38.4, 42.6, 42.4), "240": _row(43.6, 43.6, 43.4, 44.3, 44.3, 44.3)},
    "FlanT5-11B": {"48": _row(31.2, 33.4, 32.0, 34.7, 38.5, 38.4), "240": _row(40.0, 40.0, 39.7, 40.5, 40.5, 40.5)},
}
PAPER_TOPICALCHAT = {
    "Llama2-7B": {"18": _row(28.4, 28.9, 28.7, 27.7, 29.7, 29.5), "30": _row(31.5, 31.6, 31.6, 31.5, 31.5, 31.5)},
    "Llama2-13B": {"18": _row(37.4, 38.1, 37.9, 38.4, 40.5, 40.5), "30": _row(41.6, 41.7, 41.8, 41.6, 41.6, 41.6)},
    "Mistral-7B": {"18": _row(42.8, 43.3, 43.2, 42.8, 45.3, 44.8), "30": _row(47.4, 47.2, 47.7, 46.9, 46.9, 46.9)},
    "FlanT5-3B": {"18": _row(41.3, 41.8, 41.6, 43.4, 45.4, 45.2), "30": _row(45.3, 44.8, 45.3, 44.7, 44.7, 44.7)},
    "FlanT5-11B": {"18": _row(51.2, 52.4, 51.9, 53.8, 56.2, 56.1), "30": _row(57.0, 56.6, 56.0, 58.1, 58.1, 58.1)},
}
# At 48 calls on SummEval: win-ratio, avg-prob, poe-bt and poe-g of random pairs, then of selected ones.
PAPER_SELECTED = {
    "Llama2-7B": _selected((21.6, 24.0, 26.8, 26.6), (23.0, 24.5, 27.3, 27.2)),
    "Llama2-13B": _selected((30.8, 33.7, 37.7, 37.3), (32.4, 34.6, 38.2, 38.0)),
    "Mistral-7B": _selected((29.7, 31.1, 33.2, 32.8), (31.4, 32.2, 34.0, 33.9)),
    "FlanT5-3B": _selected((34.1, 38.4, 42.7, 42.4), (36.0, 39.3, 43.2, 42.9)),
    "FlanT5-11B": _selected((31.2, 34.7, 38.4, 38.4), (33.1, 35.7, 39.2, 39.0)),
}
# HANNA by attribute and calls per item: avg-prob and poe-bt.
PAPER_HANNA = {
    "Llama2-7B": {
        "coherence": _converging((39.2, 41.3), (40.3, 41.4), (41.1, 41.6), (41.4, 41.6)),
        "complexity": _converging((45.7, 47.9), (46.9, 48.2), (47.6, 48.3), (48.0, 48.3)),
    },
    "Llama2-13B": {
        "coherence": _converging((39.9, 41.3), (41.2, 41.8), (41.8, 41.9), (42.1, 42.1)),
        "complexity": _converging((51.7, 54.6), (53.4, 54.9), (54.3, 55.1), (54.9, 55.1)),
    },
    "Mistral-7B": {
        "coherence": _converging((36.6, 38.3), (37.9, 38.6), (38.7, 38.8), (38.9, 38.9)),
        "complexity": _converging((47.3, 49.9), (49.0, 50.6), (50.1, 50.9), (50.7, 51.0)),
    },
}
# PAIRS-beam and PoE-BT at 3 N calls, SummEval: coherence, consistency, fluency, relevance.
PAPER_PAIRS = {"Llama2-7B": ((17, 31, 18, 24), (29, 24, 20, 34)), "Mistral-7B": ((28, 30, 24, 27), (34, 36, 26, 37))}


def between(differences: Iterable[float], digits: int = 1) -> str:
    """The least and the largest of some differences, with their signs.

    >>> between([2.4, -0.31, 1.0])
    '−0.3 to +2.4'
    """
    found = sorted(differences)
    return f"{signed(found[0], digits)} to {signed(found[-1], digits)}"


def signed(value: float, digits: int = 1) -> str:
    """A number with its sign, a minus and not a hyphen; 0 has none.

    >>> signed(-0.26), signed(0.04)
    ('−0.3', '0.0')
    """
    text = f"{value:+.{digits}f}"
    return text[1:] if float(text) == 0 else text.replace("-", "−")


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
