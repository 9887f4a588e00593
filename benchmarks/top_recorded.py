"""The best few by recorded answers of people and of a model: docs/top.md.

    python -m benchmarks.top_recorded [--runs 20] [--jobs 16]

People: UKPConvArg1, arguments on 16 topics with about five votes on every pair. In each run one vote of each pair,
drawn at random, is the answer to it, and the truth is the best 3 by all other votes. A model: the answers of a model of
1.5B parameters to every ordered pair of SummEval and TopicalChat, and the best 3 of 16 and 2 of 6 by people's scores.

Reported is the share of the best that are found by a number of calls per text, in rounds of which one is always in
flight, and by all calls. Where scores tie at the border, each text counts in part. Line-ups were recorded for random
sets only, so that the choice of line-ups cannot be repeated.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import sys
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial

import numpy as np

from benchmarks.defaults import DATA, recorded
from benchmarks.top import show
from comparo import Comparisons
from comparo.methods import quiet_fit
from comparo.selection import Selector
from comparo.types import Array

LOOKS = (1, 2, 4)
WAYS = {"random pairs": "random", "`--goal ranking`": "greedy", "`--goal top-k`": "adaptive"}
BEST = {"convarg": 3, "summeval": 3, "topicalchat": 2}
SETS = ["convarg", *(f"summeval.{name}" for name in ("coherence", "relevance", "consistency", "fluency"))]
SETS += [f"topicalchat.{name}" for name in ("coherence", "engagingness", "naturalness", "understandability")]
WINNER = {"first": 1.0, "tie": 0.5, "second": 0.0}
Row = tuple[int, int, int, float]  # context, first, second, p


@cache
def votes() -> dict[str, list[tuple[str, str, float]]]:
    found = defaultdict(list)
    with gzip.open(DATA / "convarg" / "votes.csv.gz", "rt") as file:
        for row in csv.DictReader(file):
            found[row["context"]].append((row["first"], row["second"], WINNER[row["winner"]]))
    return found


def people(seed: int) -> tuple[list[Array], list[Array]]:
    """One vote of each pair of a topic (N, N), and the scores by all other votes (N,)."""
    rng, answers, others = np.random.default_rng(seed), list[Array](), list[Row]()
    for context, rows in enumerate(votes().values()):
        number = {name: code for code, name in enumerate(sorted({name for row in rows for name in row[:2]}))}
        p = np.full((len(number), len(number)), np.nan)
        for k in rng.permutation(len(rows)).tolist():
            i, j, won = number[rows[k][0]], number[rows[k][1]], rows[k][2]
            if np.isnan(p[i, j]):
                p[i, j], p[j, i] = won, 1.0 - won
            else:
                others.append((context, i, j, won))
        answers.append(p)
    return answers, fitted(others, answers, "poe-bt")


def fitted(rows: list[Row], answers: list[Array], method: str = "mixed") -> list[Array]:
    """The scores of the texts of each context, 0 without an answer; no text is in two contexts."""
    context, first, second, p = (np.array(column) for column in zip(*rows, strict=True))
    starts = np.cumsum([0, *map(len, answers)])
    data = Comparisons.from_columns(starts[context] + first, starts[context] + second, p, context=context)
    ranking, scores = quiet_fit(data, method), np.zeros(starts[-1])
    scores[ranking.items] = ranking.scores
    return np.split(scores, starts[1:-1])


def spend(p: Array, calls: int, best: int, strategy: str, seed: int) -> list[tuple[int, int, float]]:
    """The answers to the pairs that comparo chooses, of which a round is always in flight."""
    texts, asked, known = len(p), list[tuple[int, int, float]](), 0
    goal = f"top-{best}" if strategy == "adaptive" else "ranking"
    orders = "both" if calls > texts * (texts - 1) // 2 else "one"  # as `comparo rank` does
    selector = Selector(range(texts), strategy=strategy, goal=goal, orders=orders, seed=seed)
    while len(asked) < calls:
        before = len(asked)
        asked += [(i, j, float(p[i, j])) for i, j in selector.next(min(max(4, texts // 4), calls - before))]
        if before > known:
            selector.observe(asked[known:before])
            known = before
    return asked


def among(scores: Array, best: int) -> Array:
    """1 for texts among the best, 0 for others; those that tie at the border share the places that are left."""
    border = np.sort(scores)[-best]
    above, ties = scores > border, scores == border
    return above + ties * (best - np.sum(above)) / np.sum(ties)


def one(name: str, seed: int) -> Array:
    """The share found by each way at each number of calls per text, and by all calls, (W, L + 1)."""
    best, is_people = BEST[name.partition(".")[0]], name == "convarg"
    answers, truth = people(seed) if is_people else recorded(*name.split("."))
    known = [among(scores, best) for scores in truth]

    def share(rows: list[Row]) -> float:
        scores = fitted(rows, answers)
        return float(np.mean([k @ among(s, best) / best for k, s in zip(known, scores, strict=True)]))

    every = [(c, i, j, float(p[i, j])) for c, p in enumerate(answers) for i, j in np.argwhere(~np.isnan(p)).tolist()]
    found = np.full((len(WAYS), len(LOOKS) + 1), share([row for row in every if row[1] < row[2] or not is_people]))
    for way, strategy in enumerate(WAYS.values()):
        for column, looks in enumerate(LOOKS):
            spent = (spend(p, looks * len(p), best, strategy, 1000 * seed + c) for c, p in enumerate(answers))
            found[way, column] = share([(c, *row) for c, rows in enumerate(spent) for row in rows])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--sets", nargs="+", default=SETS, choices=SETS)
    given = parser.parse_args(sys.argv[1:] if sys.argv[0].endswith("top_recorded.py") else [])
    with ProcessPoolExecutor(given.jobs) as pool:
        for name in given.sets:
            values = np.array([*pool.map(partial(one, name), range(given.runs))])
            show(name, "calls per text", [*LOOKS, "all"], dict(zip(WAYS, values.transpose(1, 0, 2), strict=True)))


if __name__ == "__main__":
    main()
