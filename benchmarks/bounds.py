"""Where the bounds of the report's verdicts lie: figures of simulated judges beside what their rankings are worth.

A judge answers p = σ(s_first − s_second − γ + noise) about texts with scores s ~ N(0, 1). `comparo.report.cards` holds
what is read from these tables.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit

from comparo import Comparisons, Ranking, fit
from comparo.analysis.correlations import spearman_within
from comparo.ranking.criteria_ranking import expected
from comparo.ranking.self_consistency import count_flips
from comparo.report.cards import CONTRADICTING, FLIPS, SPEARMAN
from comparo.report.measures import residuals

TEXTS = 10_000  # in all contexts of a simulation
CALLS = 6  # per text
NOISES = (0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0)
SHARES = (0.55, 0.6, 0.65, 0.7, 0.8, 0.9)


@dataclass(frozen=True)
class Figures:
    """Shares of flips and contradicting answers, and Spearman's correlation with the true scores."""

    flips: float
    contradicting: float
    spearman: float


def simulate(
    items: int, noise: float, share: float = 0.5, orders: str = "both", bias: str = "joint", texts: int = TEXTS
) -> Figures:
    """The figures of a judge under whom the first of two equal texts wins with probability `share`."""
    rng, contexts = np.random.default_rng(0), texts // items
    truth = rng.standard_normal((contexts, items))
    pairs = np.column_stack(np.triu_indices(items, 1))
    asked = []
    for _ in range(contexts):
        chosen = rng.permuted(pairs[rng.permutation(len(pairs))[: CALLS * items // (1 + (orders == "both"))]], axis=1)
        asked.append(np.concatenate([chosen, chosen[:, ::-1]]) if orders == "both" else chosen)
    first, second = np.concatenate(asked).T
    context = np.repeat(np.arange(contexts), CALLS * items)
    d = truth[context, first] - truth[context, second] + logit(share) + noise * rng.standard_normal(len(context))
    data = Comparisons.from_columns(first, second, expit(d), context=context)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some contexts are not connected
        ranking: Ranking = fit(data, bias=bias)
    turned = count_flips(data)
    true = truth[ranking.context, ranking.items]
    return Figures(
        turned.flipped / max(turned.pairs, 1),
        residuals(data.p, expected(ranking), expected(ranking, equal=True))[0],
        float(np.nanmean(spearman_within(ranking.scores, true, ranking.graph.position, contexts))),
    )


def crossings(items: int, texts: int = TEXTS) -> dict[str, list[float]]:
    """Each figure where the correlation falls to the bounds of the expected one, between noises by straight lines."""
    found = [simulate(items, noise, texts=texts) for noise in NOISES]
    falling = [-figures.spearman for figures in found]
    return {
        name: [
            float(np.interp(-bound, falling, [getattr(figures, name) for figures in found]))
            for bound in (SPEARMAN.fine, SPEARMAN.check)
        ]
        for name in ("flips", "contradicting")
    }


def main() -> None:
    """All tables."""
    used = {"flips": FLIPS, "contradicting": CONTRADICTING}
    print(f"\n# Figures at a Spearman correlation of {SPEARMAN.fine} and {SPEARMAN.check}, {CALLS} calls per text\n")
    print("figure           bounds used    10 texts        20 texts        50 texts")
    tables = [crossings(items) for items in (10, 20, 50)]
    for name, bound in used.items():
        cells = "".join(f"{table[name][0]:9.3f} {table[name][1]:6.3f}" for table in tables)
        print(f"{name:14} {bound.fine:7.2f} {bound.check:6.2f} {cells}")
    print("\n# Loss of Spearman correlation to the position bias, 20 texts, one order\n")
    print("share of the first   noise   not taken out   estimated with the scores")
    for noise in (0.5, 1.0):
        fair = {bias: simulate(20, noise, orders="one", bias=bias).spearman for bias in ("none", "joint")}
        for share in SHARES:
            lost = [fair[bias] - simulate(20, noise, share, "one", bias).spearman for bias in fair]
            print(f"{share:18.2f} {noise:7.1f} {lost[0]:15.3f} {lost[1]:27.3f}")


if __name__ == "__main__":
    main()
