"""Which system is better: do the leaderboard's intervals hold, and what does stopping early cost?

    python -m benchmarks.systems [--runs 200] [--data ../shared/data]

Prints the tables of docs/measurements/systems.md:
coverage of 95% intervals and false splits of equal systems in simulation; power, number of inputs and printed
win rate of `compare` against a test with a fixed number; its false alarms and its power where inputs share topics;
with the recorded answers at hand, the leaderboard of each judge of 26,919 battles against that of people, and
SummEval's systems.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
from scipy.special import expit, stdtrit

from benchmarks.soundness import spread
from benchmarks.verdict import table
from comparo import Comparisons, fit
from comparo.analysis.correlations import spearman
from comparo.analysis.sequential import BETS, FEW, Bets, Bettors, mean_interval
from comparo.methods import quiet_fit
from comparo.run.compare import BEYOND

CELLS = [(6, 5), (3, 20), (8, 20), (16, 50), (4, 200)]  # systems, contexts
OWN, NOISE, BIAS = 0.7, 1.0, 0.3  # logits: texts of a system, noise of a soft answer, bias towards the first
SPREAD = 0.5  # logits: the systems' means


def answers(rng, groups, contexts, calls, sd, is_hard):
    """Comparisons of random pairs in random orders, and the systems' means, in all contexts and in these."""
    means = sd * rng.standard_normal(groups)
    scores = means + OWN * rng.standard_normal((contexts, groups))
    pairs = np.array([(i, j) for i in range(groups) for j in range(groups) if i != j])
    chosen = [pairs[rng.choice(len(pairs), min(calls * groups, len(pairs)), replace=False)] for _ in range(contexts)]
    context = np.repeat(np.arange(contexts), [len(rows) for rows in chosen])
    first, second = np.concatenate(chosen).T
    d = scores[context, first] - scores[context, second] + BIAS
    p = (rng.random(len(d)) < expit(d)).astype(float) if is_hard else expit(d + NOISE * rng.standard_normal(len(d)))
    these = np.mean(scores - scores.mean(axis=1, keepdims=True), axis=0)
    return Comparisons.from_columns(first, second, p, context=context), means - means.mean(), these


def cell(runs, seed, setting):
    """Coverage for new and for these contexts, with errors, and how often equal systems are split."""
    groups, contexts, calls, is_hard = setting
    rng, found, split = np.random.default_rng([seed, groups, contexts, calls, is_hard]), [], []
    for _ in range(runs):
        data, means, here = answers(rng, groups, contexts, calls, SPREAD, is_hard)
        ranking = quiet_fit(data, "mixed", groups="items")
        row = []
        for over, truth in (("new", means), ("these", here)):
            board = ranking.groups(contexts=over)
            true = truth[board.group.astype(int)]
            row.append(np.mean((board.low <= true) & (true <= board.high)))
        found.append(row)
        equal = answers(rng, groups, contexts, calls, 0.0, is_hard)[0]
        split.append(quiet_fit(equal, "mixed", groups="items").groups().tier.max() > 1)
    return np.mean(found, axis=0), np.std(found, axis=0) / np.sqrt(runs), np.mean(split)


def coverage(runs, seed):
    settings = [(*size, calls, hard) for hard in (False, True) for size in CELLS for calls in (2, 10)]
    results = spread(partial(cell, runs, seed), settings, os.cpu_count() or 1)
    rows = []
    for (groups, contexts, calls, hard), (mean, error, split) in zip(settings, results, strict=True):
        shares = [f"{100 * m:.1f} ± {100 * e:.1f}" for m, e in zip(mean, error, strict=True)]
        rows.append(["decisions" if hard else "soft", groups, contexts, f"{calls}n", *shares, f"{100 * split:.1f}"])
    header = ["answers", "systems", "contexts", "calls", "new contexts, %", "these contexts, %", "false splits, %"]
    print(*table(header, rows), sep="\n")


def inputs(rng, kind, apart, number):
    """The preference on each input, the mean of two answers in both orders."""
    d = apart + rng.standard_normal(number)
    if kind == "soft":
        return np.mean([expit(d + bias + 0.5 * rng.standard_normal(number)) for bias in (0.5, -0.5)], axis=0)
    first, second = (rng.random(number) < expit(d + bias) for bias in (0.5, -0.5))
    return 0.5 * (first.astype(float) + second)


def sequential(runs, seed, number=400):
    rows, fixed = [], float(stdtrit(number - 1, 0.975))
    for kind in ("soft", "decisions"):
        for apart in (0.0, 0.1, 0.2, 0.4, 0.8):
            rng = np.random.default_rng([seed, int(10 * apart), kind == "soft"])
            true = float(np.mean(inputs(rng, kind, apart, 400_000)))
            stops, sure, covered, means = [], [], [], []
            for _ in range(runs):
                x = inputs(rng, kind, apart, number)
                at = Bets(x).stopped
                stops.append(at or number)
                sure.append([at is not None, abs(x.mean() - 0.5) > fixed * x.std(ddof=1) / np.sqrt(number)])
                asked = Bets(x[: min(number, int(BEYOND * stops[-1]))], total=number)
                low, high = asked.interval
                covered.append(low <= true <= high)
                means.append([asked.x.mean() - true, asked.mean - true])
            power = [f"{100 * share:.1f}" for share in np.mean(sure, axis=0)]
            found = f"{np.mean(stops):.0f}", f"{100 * np.mean(covered):.1f}"
            error = 100 * np.std(means, axis=0) / np.sqrt(runs)
            away = [f"{100 * m:+.1f} ± {e:.1f}" for m, e in zip(np.mean(means, axis=0), error, strict=True)]
            rows.append([kind, f"{100 * true:.0f}%", *power, *found, *away])
    header = ["answers", "true win rate", "sure, %", f"sure, fixed {number}, %", "inputs needed", "intervals cover, %"]
    header += ["mean of the inputs, points too high", "printed win rate, points too high"]
    print(*table(header, rows), sep="\n")


def by_input(runs, seed, number=10, each=8):
    """How often equal systems are told apart, where each topic leans to one of them by sd 1."""
    found, rng = [], np.random.default_rng([seed, number, each])
    for _ in range(runs):
        x = expit(rng.standard_normal((number, 1)) + rng.standard_normal((number, each)))
        found.append([Bets(x.ravel()).side != 0, Bets(x.mean(axis=1), is_end=True).side != 0])
    shares = [f"{100 * share:.1f}" for share in np.mean(found, axis=0)]
    print(
        *table(["topics", "inputs", "sure by input, %", "sure by topic, %"], [[number, number * each, *shares]]),
        sep="\n",
    )


def topics(rng, kind, runs, number, each=8):
    """The mean preference in each topic, of two systems that are equal on the mean over topics, or of a better one."""
    if kind == "skewed":  # most topics are a little better, some much worse: an exponential distribution
        return np.clip(0.65 - 0.15 * rng.exponential(size=(runs, number)), 0, 1)
    if kind in ("one in ten", "one in twenty"):  # worse by 30 or 45 points
        share, by = (0.1, 0.3) if kind == "one in ten" else (0.05, 0.45)
        means = np.where(rng.random((runs, number)) < share, 0.5 - by, 0.5 + by * share / (1 - share))
        return np.clip(means + 0.08 * rng.standard_normal((runs, number)), 0, 1)
    apart = {"better": 3.5, "much better": 6.0}.get(kind, 0.0) / np.sqrt(number)
    lean = 0.0 if kind == "alike" else 1.0
    noise = rng.standard_normal((runs, number, each))
    return expit(apart + lean * rng.standard_normal((runs, number, 1)) + noise).mean(axis=2)


def clustered(runs, seed, error=0.05):
    """How often systems are told apart by topic: by bets alone, by bets and the test at the end, by Student's test."""
    rows = []
    for kind in ("alike", "leaning", "skewed", "one in ten", "one in twenty", "better", "much better"):
        for number in (6, 8, 12, 20, 40, 100, 200):
            x = topics(np.random.default_rng([seed, number, len(kind)]), kind, runs, number)
            share = BETS if number in FEW else 1.0
            alone, part = (Bettors(np.full(runs, 0.5), each * error, number) for each in (1.0, share))
            for column in x.T:
                alone.add(column)
                part.add(column)
            ends = np.array([mean_interval(one, (1 - BETS) * error) for one in x])
            tested = ((ends[:, 0] > 0.5) | (ends[:, 1] < 0.5)) & (number in FEW)
            t = (x.mean(axis=1) - 0.5) / (x.std(axis=1, ddof=1) / np.sqrt(number))
            sure = [alone.refuted.any(axis=0), part.refuted.any(axis=0) | tested]
            shares = [*map(np.mean, sure), np.mean(np.abs(t) > stdtrit(number - 1, 1 - error / 2))]
            rows.append([kind, number, f"{100 * x.mean():.0f}%", *(f"{100 * share:.1f}" for share in shares)])
    header = ["topics", "number", "win rate", "sure by bets, %", "sure by compare, %", "sure by Student's test, %"]
    print(*table(header, rows), sep="\n")


def battles(path):
    """The leaderboard of each judge of recorded battles, each an input of its own, and its distance to people's."""
    data = Comparisons.of(path)
    names, boards = data.judges.tolist(), {}
    for code, name in enumerate(names):
        begin = time.perf_counter()
        rows = data.take(data.judged_by == code)
        ranking = fit(Comparisons(rows.items, rows.first, rows.second, rows.p), "mixed")
        boards[name] = ranking, len(rows), time.perf_counter() - begin
    people = boards["human"][0]
    rows = []
    for name, (ranking, number, seconds) in boards.items():
        scores = np.array([[people[item].score, ranking[item].score] for item in people])
        ranks = np.argsort(np.argsort(-scores, axis=0), axis=0)
        apart = float(np.mean(np.abs(ranks[:, 0] - ranks[:, 1])))
        best = ", ".join(map(str, list(ranking)[:3]))
        rows.append([name, number, f"{spearman(*scores.T):.3f}", f"{apart:.1f}", best, f"{seconds:.2f}"])
    print(
        *table(["judge", "battles", "Spearman with people", "ranks apart, mean", "best three", "seconds"], rows),
        "",
        sep="\n",
    )


def summeval(path):
    """SummEval's systems on relevance by the recorded judge, from all pairs of 100 articles."""
    board = fit(path, "mixed", groups="items").groups()
    columns = board.to_columns()
    rows = [
        [name, f"{score:.2f}", f"{low:.2f} to {high:.2f}", tier, f"{best:.2f}", f"{100 * wins:.0f}"]
        for name, score, low, high, tier, best, wins in zip(
            *(columns[key] for key in ("group", "score", "low", "high", "tier", "best", "win_rate")), strict=True
        )
    ]
    print(*table(["system", "score", "95% interval", "tier", "P(best)", "win rate, %"], rows), sep="\n")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.systems", description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    given = parser.parse_args(arguments)
    coverage(given.runs, given.seed)
    sequential(given.runs, given.seed)
    by_input(given.runs, given.seed)
    clustered(20 * given.runs, given.seed)
    if given.data.is_dir():
        battles(given.data / "panel" / "judges.arena_ppr.csv.gz")
        summeval(given.data / "judgements" / "summeval.relevance.csv.gz")


if __name__ == "__main__":
    main()
