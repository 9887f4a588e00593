"""Which strategy, orders and bias `comparo rank` should have by default: recorded judgements, replayed.

An adaptive selector is asked in rounds of max(4, N/4) calls and hears the answers to a round after the next was chosen,
as in a run. A cell is Spearman × 100 with the human scores, mean over contexts and then attributes.
"""

from __future__ import annotations

import csv
import gzip
import itertools
import json
import os
import subprocess
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.special import logit
from scipy.stats import rankdata

from benchmarks.selection import DATA
from comparo import Comparisons, fit
from comparo.selection.selector import Selector

BIASES = ("none", "joint")
KEPT = 150  # designs without answers that are made of a kind; every use shuffles their items
Cells = dict[tuple[str, ...], list[np.ndarray]]


@dataclass(frozen=True)
class Set:
    """Recorded judgements, the calls an item at which designs are compared, and how often each is drawn."""

    name: str
    attributes: tuple[str, ...]
    budgets: tuple[int, ...]
    draws: tuple[int, ...]
    adaptive_draws: tuple[int, ...]

    def designs(self) -> list[tuple[str, str]]:
        strategies = ("random", "greedy", "adaptive") if self.adaptive_draws else ("random", "greedy")
        return list(itertools.product(strategies, ("one", "both")))


SETS = (
    Set("summeval", ("coherence", "consistency", "fluency", "relevance"), (3, 5, 10), (16, 12, 8), (7, 5, 3)),
    Set(
        "topicalchat",
        ("coherence", "engagingness", "naturalness", "understandability"),
        (2, 3, 5),
        (30,) * 3,
        (12,) * 3,
    ),
    Set("hanna", ("coherence", "complexity"), (3, 5, 10), (16, 10, 4), ()),
)


@cache
def texts(name: str) -> tuple[dict[str, int], dict[str, int], list[dict]]:
    """The number of each context and of each item, and the rows with the human scores."""
    rows = [json.loads(line) for line in (DATA / f"{name}.jsonl").read_text().splitlines()]
    contexts, items = (dict.fromkeys(row[column] for row in rows) for column in ("context_id", "id"))
    return *({label: number for number, label in enumerate(labels)} for labels in (contexts, items)), rows


def recorded(name: str, attribute: str) -> tuple[np.ndarray, np.ndarray]:
    """P(first is better) of each context's ordered pairs (C, N, N), NaN where not asked, and human scores (C, N)."""
    contexts, items, rows = texts(name)
    p, human = np.full((len(contexts), len(items), len(items)), np.nan), np.empty((len(contexts), len(items)))
    with gzip.open(DATA / "judgements" / f"{name}.{attribute}.csv.gz", "rt") as file:
        for row in csv.DictReader(file):
            p[contexts[row["context_id"]], items[row["first"]], items[row["second"]]] = float(row["p"])
    for row in rows:
        human[contexts[row["context_id"]], items[row["id"]]] = row["scores"][attribute]
    return p, human


class Recorded(Selector):
    """Asks only pairs that were recorded, beginning with a random tree of them."""

    def __init__(self, known: np.ndarray, strategy: str, orders: str, rng: np.random.Generator) -> None:
        super().__init__(range(len(known)), strategy=strategy, orders=orders, seed=rng)
        known = known[np.ix_(self._items, self._items)]
        x, y = np.nonzero(np.triu(~known, 1))
        self._closed = x * np.int64(len(known)) + y
        component, tree = np.arange(len(known)), []
        for x, y in rng.permutation(np.argwhere(np.triu(known, 1))).tolist():
            if component[x] != component[y]:
                component[component == component[y]] = component[x]
                tree.append((x, y))
        self._ask(np.array(tree, dtype=np.int32))

    def _taken(self) -> np.ndarray:
        return np.sort(np.concatenate([super()._taken(), self._closed]))


def spearman(scores: np.ndarray, human: np.ndarray) -> np.ndarray:
    """The mean over contexts for each draw, × 100: shape (D,). Contexts whose human scores are all equal have none."""
    one, other = (rankdata(part, axis=-1) for part in (scores, human))
    one -= one.mean(axis=-1, keepdims=True)
    other -= other.mean(axis=-1, keepdims=True)
    scale = np.sqrt(np.sum(one**2, axis=-1) * np.sum(other**2, axis=-1))
    correlation = np.sum(one * other, axis=-1) / np.where(scale > 0, scale, 1.0)
    return 100 * np.mean(correlation[:, other.any(axis=-1)], axis=1)


def calls(known: np.ndarray, budget: int, orders: str) -> int:
    """So many calls an item, or all that were recorded."""
    return min(budget * len(known), int(np.count_nonzero(known)) // (2 if orders == "one" else 1))


@cache
def kept(items: int, strategy: str, orders: str, most: int) -> np.ndarray:
    """Designs of `most` calls that do not depend on answers: shape (KEPT, most, 2)."""
    selectors = (
        Selector(range(items), strategy=strategy, orders=orders, seed=np.random.default_rng(n)) for n in range(KEPT)
    )
    return np.array([selector.next(most) for selector in selectors])


def shuffled(designs: np.ndarray, items: int, shape: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
    """A design drawn for each draw and context, its items shuffled: shape (D, C, calls, 2)."""
    chosen = designs[rng.integers(len(designs), size=shape)]
    order = rng.permuted(np.broadcast_to(np.arange(items), (*shape, items)), axis=-1)
    return np.take_along_axis(order[..., None], chosen.reshape(*shape, -1, 1), axis=2).reshape(chosen.shape)


def adapted(p: np.ndarray, orders: str, most: int, rng: np.random.Generator) -> np.ndarray:
    """The rows that an adaptive selector asks about one context: shape (most, 2)."""
    selector = Selector(range(len(p)), strategy="adaptive", orders=orders, seed=rng)
    rows: list[tuple[int, int]] = []
    unheard: list[list[tuple[int, int]]] = []
    while len(rows) < most:
        asked = selector.next(min(max(4, len(p) // 4), most - len(rows)))
        rows += asked
        unheard.append(asked)
        if len(unheard) > 1:
            selector.observe([(first, second, p[first, second]) for first, second in unheard.pop(0)])
    return np.array(rows)


@cache
def sparse(name: str, attribute: str, strategy: str, orders: str, budget: int, draws: int) -> np.ndarray:
    """Designs of recorded pairs of the only context: shape (D, 1, calls, 2)."""
    known = ~np.isnan(recorded(name, attribute)[0][0])
    selectors = (Recorded(known, strategy, orders, np.random.default_rng(draw)) for draw in range(draws))
    return np.array([[selector.next(calls(known, budget, orders))] for selector in selectors])


def designs(one: Set, p: np.ndarray, strategy: str, orders: str, rng: np.random.Generator) -> list[np.ndarray]:
    """The rows asked in every draw and context, for each budget: shape (D, C, calls, 2)."""
    known = ~np.isnan(p[0])
    limits = [calls(known, budget, orders) for budget in one.budgets]
    items, contexts = len(known), len(p)
    if strategy == "adaptive":
        found: list[list[list[np.ndarray]]] = [[] for _ in limits]
        for draw in range(max(one.adaptive_draws)):
            wanted = [number for number, draws in enumerate(one.adaptive_draws) if draw < draws]
            asked = [adapted(answers, orders, limits[wanted[-1]], rng) for answers in p]
            for number in wanted:
                found[number].append([rows[: limits[number]] for rows in asked])
        return [np.array(rows) for rows in found]
    if contexts == 1:
        plans = zip(one.budgets, one.draws, strict=True)
        return [sparse(one.name, one.attributes[0], strategy, orders, budget, draws) for budget, draws in plans]
    # A random design of few calls is not the beginning of one of more; a greedy one is.
    most = limits if strategy == "random" else [max(limits)] * len(limits)
    whole = [kept(items, strategy, orders, limit) for limit in most]
    return [
        shuffled(rows[:, :limit], items, (draws, contexts), rng)
        for rows, limit, draws in zip(whole, limits, one.draws, strict=True)
    ]


def quality(p: np.ndarray, human: np.ndarray, rows: np.ndarray, method: str, bias: str) -> np.ndarray:
    """Spearman × 100 of each draw, its contexts fitted together."""
    draws, contexts, count, _ = rows.shape
    answers = p[np.arange(contexts)[:, None], rows[..., 0], rows[..., 1]]
    scores = np.empty((draws, *human.shape))
    together = np.repeat(np.arange(contexts), count)
    for draw, (asked, answered) in enumerate(zip(rows, answers, strict=True)):
        data = Comparisons.from_columns(*asked.reshape(-1, 2).T, answered.ravel(), context=together)
        ranking = fit(data, method, bias=bias)
        scores[draw, ranking.context, ranking.items] = ranking.scores
    return spearman(scores, human)


def measure(one: Set, attributes: tuple[str, ...]) -> list[Cells]:
    """For each attribute, the quality of every draw at each budget, by strategy, orders, method and bias."""
    return [measure_one(one, attribute) for attribute in attributes]


def measure_one(one: Set, attribute: str) -> Cells:
    warnings.simplefilter("ignore", UserWarning)  # a note on biases that few answers hardly tell
    p, human = recorded(one.name, attribute)
    rng = np.random.default_rng([SETS.index(one), one.attributes.index(attribute)])
    found: Cells = {}
    for strategy, orders in one.designs():
        asked = designs(one, p, strategy, orders, rng)
        ways = [("poe-bt", bias) for bias in (BIASES if orders == "one" else BIASES[1:])]
        if (strategy, orders) == ("greedy", "both"):
            ways += [(method, "none") for method in ("poe-g", "avg-prob", "poe-g-hard", "win-ratio")]
        for method, bias in ways:
            found[strategy, orders, method, bias] = [quality(p, human, rows, method, bias) for rows in asked]
    everything = np.argwhere(~np.isnan(p[0]))[None, None].repeat(len(p), axis=1)
    found["all", "both", "poe-bt", "none"] = [quality(p, human, everything, "poe-bt", "none")] * len(one.budgets)
    return found


def by_position(one: Set) -> tuple[float, float]:
    """Of the logits of a pair in both orders, the standard deviations of half their sum and of half their difference.

    The second holds what the judge prefers, the first what it makes of the position; noise goes into both alike.
    """
    found = []
    for attribute in one.attributes:
        logits = logit(recorded(one.name, attribute)[0])
        turned = logits.transpose(0, 2, 1)
        found.append([np.nanstd(logits + turned) / 2, np.nanstd(logits - turned) / 2])
    return tuple(np.mean(found, axis=0))


def show(one: Set, parts: list[Cells]) -> None:
    """The mean over attributes ± the standard error of the draws; those of the attributes are independent."""
    p = recorded(one.name, one.attributes[0])[0]
    print(f"\n{one.name}: {len(p)} contexts of {p.shape[1]} items, {len(parts)} attributes; calls in a context:")
    for orders in ("one", "both"):
        print(f"  {orders:<5}" + ", ".join(str(calls(~np.isnan(p[0]), budget, orders)) for budget in one.budgets))
    print("  logits by position {:.2f}, by preference {:.2f}".format(*by_position(one)))
    print(" " * 44 + "".join(f"{f'{budget} an item':>15}" for budget in one.budgets))
    for key in parts[0]:
        cells = ""
        for number in range(len(one.budgets)):
            values = [part[key][number] for part in parts]
            if len(p) == 1:  # one design served all attributes
                values = [np.mean(values, axis=0)]
            variance = sum(np.var(draws, ddof=1) / len(draws) if len(draws) > 1 else 0.0 for draws in values)
            cells += f"{np.mean(values):9.2f} ± {np.sqrt(variance) / len(values):.2f}"
        print("  {:<9}{:<14}{:<11}{:<8}".format(*key) + cells)


def defaults() -> None:
    """Every set and attribute, two at a time."""
    if not (DATA / "judgements").exists():
        print(f"\ndefaults: skipped, {DATA}/judgements is not there")
        return
    # HANNA's designs take longest and serve both of its attributes.
    jobs = [(SETS[2], SETS[2].attributes), *((one, (attribute,)) for one in SETS[:2] for attribute in one.attributes)]
    with ProcessPoolExecutor(2) as pool:
        found = list(zip(jobs, pool.map(measure, *zip(*jobs, strict=True)), strict=True))
    for one in SETS:
        show(one, [cells for (other, _), parts in found if other == one for cells in parts])


def main() -> None:
    """In a process with one thread for BLAS: on shared cores its threads wait for each other."""
    print("\n# Defaults: Spearman × 100 with people, recorded judgements", flush=True)
    command = "from benchmarks import defaults; defaults.defaults()"
    subprocess.run([sys.executable, "-c", command], env=os.environ | {"OPENBLAS_NUM_THREADS": "1"}, check=True)


if __name__ == "__main__":
    main()
