"""Sheets of several people ranked by `comparo fit`: as those of one judge, by the mixed model, or as a panel.

    python -m benchmarks.sheets

Texts have scores with standard deviation 1.5, each person a taste of standard deviation 0.5 and a preference of 0.2 for
what is shown first, and near ties are called ties. Pairs are shared out as `comparo plan --for` shares them, a fifth
of them to two people.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit
from scipy.stats import spearmanr

from comparo import Comparisons
from comparo.methods import Method, quiet_fit
from comparo.selection.sharing import next_pairs, share_out
from comparo.types import Array

RUNS = 40
METHODS: tuple[Method, ...] = ("poe-bt", "mixed", "panel")
SCENES = (  # texts, pairs, people, of whom so many click at random
    (20, 60, 2, 0),
    (20, 60, 3, 0),
    (20, 120, 3, 0),
    (20, 120, 3, 1),
    (30, 300, 5, 0),
    (30, 300, 5, 1),
)


def filled_in(
    rng: np.random.Generator, texts: int, pairs: int, people: int, careless: int
) -> tuple[Comparisons, Array]:
    """Sheets that were filled in, and the scores of the texts."""
    scores = 1.5 * rng.standard_normal(texts)
    columns = next_pairs({None: list(range(texts))}, pairs, orders="one", seed=rng)
    parts = []
    for person, part in share_out(columns, list(range(people)), seed=rng).items():
        first, second = np.array(part["first"]), np.array(part["second"])
        view = scores + 0.5 * rng.standard_normal(texts)
        d = np.zeros(len(first)) if person < careless else view[first] - view[second] + 0.2
        p = (rng.random(len(d)) < expit(d)).astype(float)
        p[rng.random(len(d)) < 0.3 * np.exp(-np.abs(d))] = 0.5
        parts.append((first, second, p, np.full(len(d), person)))
    first, second, p, judge = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Comparisons.from_columns(first, second, p, judge=judge), scores


def main() -> None:
    print(f"\n| texts | pairs | people | of them careless | {' | '.join(f'{name}: ρ × 100' for name in METHODS)} |")
    print("| ---: " * (4 + len(METHODS)) + "|")
    for scene in SCENES:
        found = []
        for seed in range(RUNS):
            data, scores = filled_in(np.random.default_rng(seed), *scene)
            rankings = (quiet_fit(data, method) for method in METHODS)
            found.append([100 * float(spearmanr(one.scores, scores[one.items.astype(int)])[0]) for one in rankings])
        mean, error = np.mean(found, axis=0), np.std(found, axis=0, ddof=1) / np.sqrt(RUNS)
        cells = (f"{value:.1f} ± {each:.1f}" for value, each in zip(mean, error, strict=True))
        print(f"| {' | '.join(map(str, scene))} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
