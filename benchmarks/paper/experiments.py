"""The paper's experiments on a data set with recorded judgements: methods, numbers of calls, number of draws.

Beside them the figures that the paper reports, to compare with those measured here.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.paper.baselines import longer_cell, pairs_cell
from comparo.methods import Method
from comparo.model.estimators.poe import Bias
from comparo.studies.recorded import Opened
from comparo.studies.sweep import Cell, Results, Way, sweep
from comparo.types import Array

METHODS: tuple[Method, ...] = ("win-ratio", "bt", "poe-g-hard", "avg-prob", "poe-bt", "poe-g")
# The paper's Spearman × 100 of these methods for Llama2-7B, Llama2-13B, Mistral-7B, FlanT5-3B and FlanT5-11B: on
# SummEval at 48 calls per context (mean of four attributes), and on TopicalChat at 18.
PAPER_SUMMEVAL = (
    (21.6, 23.4, 22.5, 24.0, 26.8, 26.6),
    (30.8, 33.1, 31.6, 33.7, 37.7, 37.3),
    (29.7, 31.9, 30.5, 31.1, 33.2, 32.8),
    (34.1, 36.6, 34.9, 38.4, 42.6, 42.4),
    (31.2, 33.4, 32.0, 34.7, 38.5, 38.4),
)
PAPER_TOPICALCHAT = (
    (28.4, 28.9, 28.7, 27.7, 29.7, 29.5),
    (37.4, 38.1, 37.9, 38.4, 40.5, 40.5),
    (42.8, 43.3, 43.2, 42.8, 45.3, 44.8),
    (41.3, 41.8, 41.6, 43.4, 45.4, 45.2),
    (51.2, 52.4, 51.9, 53.8, 56.2, 56.1),
)
# Of poe-bt, two figures a judge: on SummEval at 48 and at all 240 calls, and at 48 of random and of selected pairs;
# on HANNA at 10 N and at 50 N calls, for coherence and complexity by three judges.
PAPER_WHOLE = ((26.8, 28.4), (37.7, 39.3), (33.2, 37.7), (42.6, 44.3), (38.5, 40.5))
PAPER_SELECTED = ((26.8, 27.3), (37.7, 38.2), (33.2, 34.0), (42.7, 43.2), (38.4, 39.2))
PAPER_HANNA = ((41.4, 41.6), (48.2, 48.3), (41.8, 42.1), (54.9, 55.1), (38.6, 38.9), (50.6, 51.0))
# PAIRS-beam and PoE-BT at 3 N calls on SummEval's coherence, consistency, fluency and relevance, by two judges.
PAPER_PAIRS = ((17, 29), (31, 24), (18, 20), (24, 34), (28, 34), (30, 36), (24, 26), (27, 37))


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


def column_means(rows: Sequence[Array]) -> Array:
    """The mean of several rows (C,) column by column without NaN; NaN where a column has no number."""
    return np.asarray(np.ma.masked_invalid(rows).mean(axis=0).filled(np.nan))


def by_context(results: Results, way: str, calls: str) -> Array:
    """Spearman's correlation in each context, shape (C,), mean over draws and attributes."""
    return column_means([results.cells[name, way, calls].by_context for name in results.attributes])


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
class Sort:
    """PairS: its calls per context, Spearman's correlation in each sort (S,) and context (C,), means over attributes.

    `beside` has poe-bt at as many calls.
    """

    calls: float
    values: Array
    by_context: Array
    beside: Results


@dataclass(frozen=True, eq=False)
class Experiment:
    """What was measured on one data set.

    `random` has the plan's methods on random pairs in both orders, `selected` those of the paper on greedily selected
    pairs, `one` poe-bt on random pairs in one order with each bias. `longer` is by attribute. `sorts` is PairS by its
    name in `SORTS`, empty where not every pair was recorded, for PairS chooses its own.
    """

    plan: Plan
    opened: Opened
    random: Results
    selected: Results
    one: Results
    longer: dict[str, Cell]
    sorts: dict[str, Sort]


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
    ways = [Way.of("poe-bt"), Way.of("poe-bt", strategy="greedy"), Way.of("poe-bt", "joint", orders="one")]
    sorts = {}
    for name, (beam, both) in SORTS.items() if _complete(opened) else ():
        rng = np.random.default_rng([seed, beam, both])
        cells, calls = zip(
            *(pairs_cell(each, max(2, few // 5), beam=beam, both=both, rng=rng) for each in recorded.values()),
            strict=True,
        )
        made = float(np.mean(calls))
        sorts[name] = Sort(
            made,
            np.mean([cell.spearman for cell in cells], axis=0),
            column_means([cell.by_context for cell in cells]),
            sweep(recorded, ways, [2 * round(made / 2)], draws=few, **settings),
        )
    return Experiment(plan, opened, random, selected, one, longer, sorts)


def _complete(opened: Opened) -> bool:
    """Whether every ordered pair of every context was recorded, for every attribute."""
    sizes = ((len(each), np.diff(each.starts)) for each in opened.recorded.values())
    return all(recorded >= np.sum(size * (size - 1)) for recorded, size in sizes)
