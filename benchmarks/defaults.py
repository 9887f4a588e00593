"""Which strategy, orders and bias `comparo rank` should have by default: recorded judgements, replayed.

Every run asks its selector in rounds of max(4, N/4) calls; an adaptive one hears the answers to a round after the next
was chosen. A cell is Spearman × 100 with the human scores, mean over contexts and then attributes.
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

from benchmarks.selection import DATA, spearman
from comparo import Comparisons, fit
from comparo.selection import Selector

DRAWS = {2: 12, 3: 12, 5: 8, 10: 3}  # by calls an item: the fewer calls, the more a design's luck counts
FITS = (("poe-bt", "none"), ("poe-bt", "plug-in"), ("poe-bt", "joint"), ("poe-g", "joint"), ("avg-prob", "none"))
ALONE = 2  # draws in which each context is also fitted without the others
DESIGNS = tuple(itertools.product(("random", "greedy", "adaptive"), ("one", "both")))


@dataclass(frozen=True)
class Set:
    """Recorded judgements, and the calls an item at which designs are compared."""

    name: str
    attributes: tuple[str, ...]
    budgets: tuple[int, ...]
    designs: tuple[tuple[str, str], ...]


SETS = (
    Set("summeval", ("coherence", "consistency", "fluency", "relevance"), (3, 5, 10), DESIGNS),
    Set("topicalchat", ("coherence", "engagingness", "naturalness", "understandability"), (2, 3, 5), DESIGNS),
    Set("hanna", ("coherence", "complexity"), (3, 5, 10), DESIGNS[:4]),
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

    def __init__(self, p: np.ndarray, strategy: str, orders: str, rng: np.random.Generator) -> None:
        super().__init__(range(len(p)), strategy=strategy, orders=orders, rng=rng)
        known = ~np.isnan(p[np.ix_(self._items, self._items)])
        x, y = np.nonzero(np.triu(~known, 1))
        self._closed = x * np.int64(len(p)) + y
        links = rng.permutation(np.argwhere(np.triu(known, 1)))
        component, tree = np.arange(len(p)), []
        for x, y in links.tolist():
            if component[x] != component[y]:
                component[component == component[y]] = component[x]
                tree.append((x, y))
        self._ask(np.array(tree, dtype=np.int32))

    def _taken(self) -> np.ndarray:
        return np.sort(np.concatenate([super()._taken(), self._closed]))


def ask(p: np.ndarray, strategy: str, orders: str, calls: int, rng: np.random.Generator) -> np.ndarray:
    """The rows that are asked about one context, in turn: shape (calls, 2)."""
    items = len(p)
    if np.isnan(p[~np.eye(items, dtype=bool)]).any():
        selector = Recorded(p, strategy, orders, rng)
    else:
        selector = Selector(range(items), strategy=strategy, orders=orders, rng=rng)
    if strategy != "adaptive":
        return np.array(selector.next(calls))
    rows, unheard = [], []
    while len(rows) < calls:
        asked = selector.next(min(max(4, items // 4), calls - len(rows)))
        rows += asked
        unheard.append(asked)
        if len(unheard) > 1:
            selector.observe([(first, second, p[first, second]) for first, second in unheard.pop(0)])
    return np.array(rows)


def calls(p: np.ndarray, budget: int, orders: str) -> int:
    """So many calls an item, or all that were recorded."""
    most = np.count_nonzero(~np.isnan(p[0])) // (2 if orders == "one" else 1)
    return min(budget * p.shape[1], most)


def designs(p: np.ndarray, budgets: tuple[int, ...], strategy: str, orders: str) -> dict[int, np.ndarray]:
    """The rows asked in every draw and context, for each budget: shape (D, C, calls, 2)."""
    found: dict[int, list[list[np.ndarray]]] = {budget: [] for budget in budgets}
    for draw in range(max(DRAWS[budget] for budget in budgets)):
        wanted = [budget for budget in budgets if draw < DRAWS[budget]]
        # A random design of few calls is not the beginning of one of more; the others are.
        for some in [[budget] for budget in wanted] if strategy == "random" else [wanted]:
            most = calls(p, max(some), orders)
            asked = [
                ask(answers, strategy, orders, most, np.random.default_rng([draw, context]))
                for context, answers in enumerate(p)
            ]
            for budget in some:
                found[budget].append([rows[: calls(p, budget, orders)] for rows in asked])
    return {budget: np.array(rows) for budget, rows in found.items()}


@cache
def fixed_designs(name: str, budgets: tuple[int, ...], strategy: str, orders: str) -> dict[int, np.ndarray]:
    """Designs that do not depend on the answers, and so serve every attribute."""
    return designs(
        recorded(name, next(one for one in SETS if one.name == name).attributes[0])[0], budgets, strategy, orders
    )


def quality(p: np.ndarray, human: np.ndarray, rows: np.ndarray, method: str, bias: str, *, alone: bool) -> np.ndarray:
    """Spearman × 100 of each draw, its contexts fitted together, or each of them alone."""
    draws, contexts, count, _ = rows.shape
    answers = p[np.arange(contexts)[:, None], rows[..., 0], rows[..., 1]]
    scores = np.empty((draws, *human.shape))
    together = np.repeat(np.arange(contexts), count)
    for draw, (asked, answered) in enumerate(zip(rows, answers, strict=True)):
        if alone:
            for context in range(contexts):
                ranking = fit(Comparisons.from_columns(*asked[context].T, answered[context]), method, bias=bias)
                scores[draw, context, ranking.items] = ranking.scores
        else:
            data = Comparisons.from_columns(*asked.reshape(-1, 2).T, answered.ravel(), context=together)
            ranking = fit(data, method, bias=bias)
            scores[draw, ranking.context, ranking.items] = ranking.scores
    return spearman(scores, human)


def attribute(name: str, attribute: str) -> dict[tuple, np.ndarray]:
    """The quality of every draw, by strategy, orders, budget, method and bias."""
    warnings.simplefilter("ignore", UserWarning)  # a note on biases that few answers hardly tell
    one = next(one for one in SETS if one.name == name)
    p, human = recorded(name, attribute)
    found: dict[tuple, np.ndarray] = {}
    for strategy, orders in one.designs:
        if strategy == "adaptive":
            asked = designs(p, one.budgets, strategy, orders)
        else:
            asked = fixed_designs(name, one.budgets, strategy, orders)
        for (budget, rows), (method, bias) in itertools.product(asked.items(), FITS):
            found[strategy, orders, budget, method, bias] = quality(p, human, rows, method, bias, alone=False)
        if strategy == "greedy" and len(p) > 1:
            for budget, rows in asked.items():
                key = strategy, orders, budget, "poe-bt", "joint, alone"
                found[key] = quality(p, human, rows[:ALONE], "poe-bt", "joint", alone=True)
    everything = np.argwhere(~np.isnan(p[0]))[None, None].repeat(len(p), axis=1)
    for method, bias in FITS:
        found["all", "both", 0, method, bias] = quality(p, human, everything, method, bias, alone=False)
    return found


def show(one: Set, parts: list[dict[tuple, np.ndarray]]) -> None:
    """The mean over attributes, ± the standard error of the difference to the set's first design."""
    table = {key: np.mean([part[key] for part in parts], axis=0) for key in parts[0]}
    p = recorded(one.name, one.attributes[0])[0]
    print(f"\n{one.name}: {len(p)} contexts of {p.shape[1]} items, {len(one.attributes)} attributes")
    for orders in ("one", "both"):
        print(f"  calls in {orders} order{'s' * (orders == 'both')}: {[calls(p, b, orders) for b in one.budgets]}")
    methods = dict.fromkeys(key[3:] for key in table)
    print(" " * 36 + "".join(f"{f'{budget} an item':>22}" for budget in one.budgets) + f"{'all':>9}")
    for method, bias in methods:
        for strategy, orders in one.designs:
            cells = ""
            for budget in one.budgets:
                values = table.get((strategy, orders, budget, method, bias))
                if values is None:
                    break
                base = table["greedy", "one", budget, "poe-bt", "joint"][: len(values)]
                difference = values - base
                error = np.std(difference, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
                cells += f"{values.mean():8.2f} ({difference.mean():+5.2f} ± {error:.2f})"
            if cells:
                whole = table.get(("all", "both", 0, method, bias))
                rest = "" if whole is None else f"{whole.mean():9.2f}"
                print(f"  {method:<9}{bias:<14}{strategy:<9}{orders:<5}" + cells + rest, flush=True)


def defaults() -> None:
    """Every set and attribute, two at a time."""
    if not (DATA / "judgements").exists():
        print(f"\ndefaults: skipped, {DATA}/judgements is not there")
        return
    jobs = [(one.name, attribute) for one in SETS for attribute in one.attributes]
    with ProcessPoolExecutor(2) as pool:
        found = dict(zip(jobs, pool.map(attribute, *zip(*jobs, strict=True)), strict=True))
    for one in SETS:
        show(one, [found[one.name, attribute] for attribute in one.attributes])


def main() -> None:
    """In a process with one thread for BLAS: on shared cores its threads wait for each other."""
    print("\n# Defaults: Spearman × 100 (difference to greedy, one order, joint bias ± its standard error)", flush=True)
    command = "from benchmarks import defaults; defaults.defaults()"
    subprocess.run([sys.executable, "-c", command], env=os.environ | {"OPENBLAS_NUM_THREADS": "1"}, check=True)


if __name__ == "__main__":
    main()
