"""Whether 95% intervals of plain fits hold the true score 95 times in 100; those of the default are in `soundness`."""

from __future__ import annotations

import warnings

import numpy as np
from scipy.special import expit

from comparo import Comparisons, fit

CONTEXTS = 500


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


def main() -> None:
    plain()


if __name__ == "__main__":
    main()
