"""Make stories.csv: twelve stories compared by a simulated judge that favours what it reads first."""

from pathlib import Path

import numpy as np
from scipy.special import expit

from comparo import Comparisons

TITLES = (
    "The Lighthouse Keeper's Debt,A Map of Small Hours,Salt,The Last Interpreter,Borrowed Weather,Eleven Doors,"
    "What the Orchard Knew,Paper Boats,The Quiet Engine,Northbound,Minor Planets,The Weight of Snow"
).split(",")


def main() -> None:
    """Each story against about seven others, each pair in one order."""
    rng = np.random.default_rng(7)
    quality = np.linspace(1.2, -1.2, len(TITLES))
    low, high = np.triu_indices(len(TITLES), 1)
    chosen = rng.choice(len(low), 42, replace=False)
    swap = rng.random(42) < 0.5
    first, second = np.where(swap, high[chosen], low[chosen]), np.where(swap, low[chosen], high[chosen])
    p = expit(quality[first] - quality[second] + 0.6 + 0.4 * rng.standard_normal(42)).round(3)
    titles = np.array(TITLES, dtype=object)
    Comparisons.from_columns(titles[first], titles[second], p).write(Path(__file__).with_name("stories.csv"))


if __name__ == "__main__":
    main()
