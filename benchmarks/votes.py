"""Votes of people as `comparo vote` collects them: ranked together, or as a panel that weighs each judge.

    python -m benchmarks.votes
    python -m benchmarks.votes --spread     # of recorded votes and decisions, ../shared/data

Texts have scores with standard deviation 1.5, and each judge a taste of their own with standard deviation 0.5; a tenth
of the votes are ties. Pairs are dealt to judges in random turns, as the page deals them.
"""

from __future__ import annotations

import csv
import gzip
import sys
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
from scipy.special import expit
from scipy.stats import spearmanr

from benchmarks.efficiency import DATA
from comparo import Comparisons, Items, fit
from comparo.analysis.confidence import expected_spearman
from comparo.log.questions import Ballot
from comparo.run.fit_policy import Fitting
from comparo.vote.dealing import Dealer

RUNS = 20
SCENES = (  # texts, judges, of whom so many click at random, votes in all
    (20, 3, 0, 60),
    (20, 3, 0, 120),
    (60, 5, 0, 300),
    (60, 20, 0, 600),
    (60, 5, 0, 1200),
    (60, 5, 1, 600),
    (60, 5, 1, 1200),
)


def voted(
    rng: np.random.Generator, texts: int, judges: int, careless: int, votes: int
) -> tuple[Comparisons, np.ndarray]:
    """Votes, and the scores of the texts."""
    scores = 1.5 * rng.standard_normal(texts)
    taste = 0.5 * rng.standard_normal((judges, texts))
    dealer = Dealer(Items.of([f"Text {number}." for number in range(texts)]), twice=0.2, seed=int(rng.integers(2**31)))
    rows = []
    for number in range(votes):
        judge = int(rng.integers(judges))
        dealt = dealer.deal(str(judge), judges)
        if dealt is None:
            continue
        _, first, second = dealt
        view = scores + taste[judge]
        chance = 0.5 if judge < careless else expit(view[first] - view[second])
        p = 0.5 if rng.random() < 0.1 else float(rng.random() < chance)
        dealer.know(Ballot(number, str(judge), *dealt, datetime.now(UTC), judgement=number, p=p))
        rows.append((first, second, p, str(judge)))
    first, second, p, judge = zip(*rows, strict=True)
    return Comparisons.from_columns(first, second, np.array(p), judge=list(judge)), scores


def spreads() -> None:
    """The standard deviation of scores in logits, of people by question, and of machines that decide by judge."""
    sets: dict[str, dict[str, list[tuple[str, str, float]]]] = {"convarg": {}, "llmfao": {}}
    with gzip.open(DATA / "convarg" / "votes.csv.gz", "rt") as file:
        for row in csv.DictReader(file):
            p = {"first": 1.0, "second": 0.0}.get(row["winner"], 0.5)
            sets["convarg"].setdefault(row["context"], []).append((row["first"], row["second"], p))
    with gzip.open(DATA / "panel" / "judges.llmfao.csv.gz", "rt") as file:
        for row in csv.DictReader(file):
            if row["judge"] == "human_crowd":
                votes = int(float(row["votes"]))
                won, tied = divmod(round(2 * votes * float(row["p"])), 2)
                own = [1.0] * won + [0.5] * tied + [0.0] * (votes - won - tied)
                rows = sets["llmfao"].setdefault(row["context_id"], [])
                rows += [(row["first"], row["second"], p) for p in own]
    every = []
    for name, votes in sets.items():
        found = np.log([fit(rows, "mixed").solution.effects.scores ** 0.5 for rows in votes.values()])
        every.extend(found.tolist())
        print(f"{name}: {len(found)} sets, geometric mean {np.exp(np.mean(found)):.2f}, sd of log {np.std(found):.2f}")
    machines = []
    for name in ("mtbench6_en", "arena_ppr", "llmfao"):
        data = Comparisons.of(DATA / "panel" / f"judges.{name}.csv.gz")
        for judge in [] if data.judges is None else data.judges.tolist():
            if judge not in ("human", "human_crowd"):
                effects = fit(data.by_judges([judge]), "mixed").solution.effects
                machines.append(0.5 * np.log(effects.scores))
    every += machines
    size, spread = np.exp(np.mean(machines)), np.std(machines)
    print(f"machines: {len(machines)} judges, geometric mean {size:.2f}, sd of log {spread:.2f}")
    print(f"all {len(every)}: geometric mean {np.exp(np.mean(every)):.2f}, sd of log {np.std(every):.2f}")


def main() -> None:
    if "--spread" in sys.argv:
        spreads()
        return
    print("\n| texts | judges | of them careless | votes | together: ρ × 100 | expected | panel: ρ × 100 | expected |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for texts, judges, careless, votes in SCENES:
        found = []
        for seed in range(RUNS):
            data, scores = voted(np.random.default_rng(seed), texts, judges, careless, votes)
            alike = Fitting(Items.of([f"Text {number}." for number in range(texts)]), method="panel")
            row: list[float] = []
            for fitting in (replace(alike, together=True), alike):
                ranking = fitting.rank(data)
                rho = float(spearmanr(ranking.scores, scores[ranking.items.astype(int)])[0])
                row += [100 * rho, 100 * float(expected_spearman(ranking)[0])]
            found.append(row)
        mean = " | ".join(f"{value:.1f}" for value in np.mean(found, axis=0))
        print(f"| {texts} | {judges} | {careless} | {votes} | {mean} |", flush=True)


if __name__ == "__main__":
    main()
