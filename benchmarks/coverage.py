"""Whether 95% intervals hold the true score 95 times in 100, and what estimated variances cost.

On simulated judges the true scores are known. On recorded ones they are those of the same fit with all comparisons. As
the few are among these, the mean m of the scores from few comparisons and that from all, M, differ by less than the
interval of m allows: by the law of total variance M − m has the variance Var_few − Var_all, and by this, too, the share
inside is told.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from scipy.special import expit

from comparo import Comparisons, Ranking, Selector, fit

CONTEXTS = 500
FRESH = 1000  # seeds that had no part in settling how both orders of a pair are weighed
DATA = Path(__file__).parents[2] / "shared" / "data" / "judgements"
RECORDED = {
    "summeval": (("relevance", "coherence", "consistency", "fluency"), (32, 48)),
    "topicalchat": (("coherence", "engagingness", "naturalness", "understandability"), (12,)),
}
JUDGES = {  # γ's mean and spread, spread of texts' position effects, of systems and of scores around their system
    "soft": (0.0, 0.0, 0.0, 0.0, 1.0),
    "bias by context": (-0.5, 0.3, 0.0, 0.0, 1.0),
    "bias by text": (-0.5, 0.3, 0.3, 0.0, 1.0),
    "systems shared": (-0.5, 0.3, 0.0, 1.0, 0.5),
}


def judged(
    rng: np.random.Generator, items: int, rows: int, spread: float, noise: float, gamma: float
) -> tuple[Comparisons, np.ndarray]:
    """Soft answers σ(s_first − s_second − γ + noise) about random pairs in every context, and the true scores."""
    truth = spread * rng.standard_normal((CONTEXTS, items))
    context = np.repeat(np.arange(CONTEXTS), rows)
    first = rng.integers(items, size=len(context))
    second = (first + rng.integers(1, items, size=len(context))) % items
    d = truth[context, first] - truth[context, second] - gamma + noise * rng.standard_normal(len(context))
    return Comparisons.from_columns(first, second, expit(d), context=context), truth


def plain() -> None:
    """Fits without estimated variances."""
    print("\n# Intervals: share of true scores inside, in per cent (95 is right)\n")
    print("   N    K  spread  noise    γ   soft  soft, joint   hard  hard, joint")
    rng = np.random.default_rng(0)
    for items, rows, spread, noise, gamma in (
        (12, 18, 1.0, 0.4, 0.0),
        (12, 120, 1.0, 0.4, 0.0),
        (12, 36, 3.0, 0.4, 0.0),
        (16, 48, 1.0, 0.3, -0.7),
        (16, 48, 1.0, 1.0, -0.7),
        (30, 90, 1.0, 0.5, 0.5),
        (12, 120, 1.0, 1.5, 0.0),
    ):
        soft, truth = judged(rng, items, rows, spread, noise, gamma)
        flips = (rng.random(len(soft)) < soft.p).astype(float)
        hard = Comparisons.from_columns(soft.first, soft.second, flips, context=soft.context)
        shares = []
        for comparisons in (soft, hard):
            for bias in ("none", "joint"):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # at K = 18 some contexts are not connected
                    ranking = fit(comparisons, bias=bias)
                true = ranking.graph.centre(truth[ranking.context, ranking.items])
                inside = (ranking.low <= true) & (true <= ranking.high)
                shares.append(100 * np.mean(inside[~np.isnan(ranking.std)]))
        cells = "{:6.1f} {:12.1f} {:6.1f} {:12.1f}".format(*shares)
        print(f"{items:4} {rows:4} {spread:7.1f} {noise:6.1f} {gamma:5.1f} {cells}")


def answered(
    rng: np.random.Generator, judge: str, contexts: int, items: int, calls: int, orders: str, noise: float
) -> tuple[Comparisons, np.ndarray]:
    """logit p = s_i − s_j − γ_c − u_i − u_j + noise about greedy pairs, `calls` an item, and the true scores."""
    mean, between, own, shared, spread = JUDGES[judge]
    truth = shared * rng.standard_normal(items) + spread * rng.standard_normal((contexts, items))
    gamma, effect = mean + between * rng.standard_normal(contexts), own * rng.standard_normal((contexts, items))
    pairs = [
        Selector(range(items), orders=orders, strategy="adaptive", rng=rng).next(calls * items) for _ in range(contexts)
    ]
    context = np.repeat(np.arange(contexts), calls * items)
    first, second = np.array(pairs).reshape(-1, 2).T
    d = truth[context, first] - truth[context, second] - gamma[context] - effect[context, first]
    d += noise * rng.standard_normal(len(d)) - effect[context, second]
    return Comparisons.from_columns(first, second, expit(d), context=context), truth


def estimated(draws: int = 4) -> None:
    """Fits with estimated variances on simulated judges."""
    print("\n# Intervals with estimated variances: share of true scores inside, in per cent\n")
    print("judge            contexts    N  orders  calls/N  noise 0.3  noise 0.5")
    for judge in JUDGES:
        for contexts, items in ((100, 16), (1, 200)):
            if contexts == 1 and judge == "systems shared":
                continue
            for orders in ("both", "one"):
                for calls in (3, 6):
                    shares = []
                    for noise in (0.3, 0.5):
                        inside = []
                        for seed in range(draws if contexts > 1 else 3 * draws):
                            rng = np.random.default_rng(FRESH + seed)
                            data, truth = answered(rng, judge, contexts, items, calls, orders, noise)
                            groups = "items" if judge == "systems shared" else None
                            ranking = fit(data, bias="joint", prior="estimated", groups=groups)
                            true = ranking.graph.centre(truth[ranking.context, ranking.items])
                            inside.append(np.mean((ranking.low <= true) & (true <= ranking.high)))
                        shares.append(100 * np.mean(inside))
                    cells = "{:10.1f} {:10.1f}".format(*shares)
                    print(f"{judge:16} {contexts:8} {items:4}  {orders:6} {calls:8} {cells}", flush=True)


def recorded(draws: int = 3) -> None:
    """Few comparisons against all, of a real judge: random pairs in both orders."""
    if not DATA.exists():
        print(f"\nThe recorded judgements are not at {DATA}; their intervals are not checked.")
        return
    print("\n# Recorded judges: share of the scores from all comparisons inside, in per cent\n")
    print("set                            calls  alone  by Var_few − Var_all  systems  by Var_few − Var_all")
    for name, (attributes, budgets) in RECORDED.items():
        for attribute in attributes:
            every = Comparisons.read(DATA / f"{name}.{attribute}.csv.gz")
            whole = {groups: fit(every, bias="joint", prior="estimated", groups=groups) for groups in (None, "items")}
            for calls in budgets:
                cells = []
                for groups, full in whole.items():
                    shares = [
                        inside(fit(few(every, calls, seed), bias="joint", prior="estimated", groups=groups), full)
                        for seed in range(draws)
                    ]
                    cells.append("{:5.1f} {:21.1f}".format(*(100 * np.mean(shares, axis=0))))
                print(f"{name + ' ' + attribute:30} {calls:5}  {cells[0]}    {cells[1]}", flush=True)


def few(every: Comparisons, calls: int, seed: int) -> Comparisons:
    """Both orders of `calls`/2 random pairs of every context."""
    rng, items = np.random.default_rng(seed), len(every.items)
    low, high = np.minimum(every.first, every.second), np.maximum(every.first, every.second)
    pair = (every.context.astype(np.int64) * items + low) * items + high
    pairs = np.argsort(pair, kind="stable").reshape(len(every.contexts), -1, 2)
    chosen = [of[rng.choice(len(of), calls // 2, replace=False)].ravel() for of in pairs]
    rows = np.concatenate(chosen)
    first, second = every.items[every.first[rows]], every.items[every.second[rows]]
    return Comparisons.from_columns(first, second, every.p[rows], context=every.contexts[every.context[rows]])


def inside(ranking: Ranking, full: Ranking) -> tuple[float, float]:
    """The share of the full scores inside the intervals, and inside those of their difference."""

    def names(of: Ranking) -> list[tuple[object, object]]:
        return list(zip(of.context.tolist(), of.items.tolist(), strict=True))

    place = {label: number for number, label in enumerate(names(full))}
    rows = [place[label] for label in names(ranking)]
    off = np.abs(ranking.scores - ranking.graph.centre(full.scores[rows]))
    known = ~np.isnan(ranking.std)
    between = np.sqrt(np.maximum(ranking.std[known] ** 2 - full.std[rows][known] ** 2, 0.0))
    return float(np.mean(off[known] <= 1.96 * ranking.std[known])), float(np.mean(off[known] <= 1.96 * between))


def cost() -> None:
    """Seconds of fits with estimated variances, relative to the same fit without."""
    print("\n# What estimated variances cost: times a plain fit, and times one with a joint bias\n")
    print("set                        K    plain s  joint  estimated        with 11 groups and 8 features")
    rng = np.random.default_rng(0)
    for name, contexts, items, pairs in (
        ("SummEval, 48 calls", 100, 16, 24),
        ("HANNA, 5 calls a story", 1, 1056, 2640),
        ("HANNA, 10 calls a story", 1, 1056, 5280),
        ("10,000 items", 1, 10_000, 50_000),
    ):
        truth, context = rng.standard_normal((contexts, items)), np.tile(np.repeat(np.arange(contexts), pairs), 2)
        first = rng.integers(items, size=contexts * pairs)
        second = (first + rng.integers(1, items, size=len(first))) % items
        first, second = np.concatenate([first, second]), np.concatenate([second, first])
        d = truth[context, first] - truth[context, second] + 0.3 + 0.3 * rng.standard_normal(len(first))
        data = Comparisons.from_columns(first, second, expit(d), context=context if contexts > 1 else None)
        more = {
            "groups": "items" if contexts > 1 else {item: item % 11 for item in range(items)},
            "features": dict(enumerate(rng.standard_normal((items, 8)).tolist())),
        }
        joint: dict[str, object] = {"bias": "joint"}
        ways = ({}, joint, joint | {"prior": "estimated"}, joint | {"prior": "estimated"} | more)
        seconds = [shortest(partial(fit, data, **way)) for way in ways]
        ratios = [f"{each / seconds[0]:8.1f} {each / seconds[1]:8.1f}" for each in seconds[2:]]
        print(f"{name:23} {len(data):7,} {seconds[0]:8.3f} {seconds[1] / seconds[0]:6.1f}  {'      '.join(ratios)}")


def shortest(call: Callable[[], object], repeats: int = 3) -> float:
    """Seconds of the shortest of some calls."""
    found = []
    for _ in range(repeats):
        begin = time.perf_counter()
        call()
        found.append(time.perf_counter() - begin)
    return min(found)


def main() -> None:
    plain()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimated()
        recorded()
        cost()


if __name__ == "__main__":
    main()
