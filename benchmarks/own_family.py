"""Do judges favour systems of their own family? Recorded judges, and simulated ones with a known effect.

python -m benchmarks.own_family                # docs/measurements/drift.md
python -m benchmarks.own_family --draws 20     # a first look
"""

import argparse
from pathlib import Path

import numpy as np

from comparo.analysis.judge_biases import families_of, own_family
from comparo.data.comparisons import Comparisons

ARENA = Path(__file__).parents[2] / "shared" / "data" / "panel" / "judges.arena_ppr.csv.gz"
FAMILIES = {"OpenAI": ["gpt-3", "gpt-4"], "Anthropic": ["claude"]}


def votes(rng: np.random.Generator, effect: float = 0.0, calls: int = 800) -> tuple[Comparisons, dict[str, str]]:
    """Decisions of five judges about 15 systems: four judges have a family of three systems, and all have tastes."""
    systems, judges = 15, 5
    family = {f"system {i}": f"family {i // 3}" for i in range(systems)}
    family |= {f"judge {r}": f"family {r}" for r in range(judges - 1)}
    quality = 1.2 * rng.normal(size=systems)
    first, second, p, judge = [], [], [], []
    for r in range(judges):
        own = np.arange(systems) // 3 == (r if r < judges - 1 else -1)
        score = (0.6 + 0.2 * r) * quality + 0.4 * rng.normal(size=systems) + effect * own
        i, j = rng.integers(systems, size=(2, calls))
        i, j = i[i != j], j[i != j]
        first += [f"system {one}" for one in i]
        second += [f"system {one}" for one in j]
        p += (rng.random(size=len(i)) < 1 / (1 + np.exp(-(score[i] - score[j] + 0.3)))).astype(float).tolist()
        judge += [f"judge {r}"] * len(i)
    return Comparisons.from_columns(first, second, np.array(p), judge=judge), family


def coverage(draws: int, effect: float) -> tuple[float, float]:
    """How often an interval has the effect, and how often any judge is found to have one."""
    rng, covered, found = np.random.default_rng(7), [], []
    for _ in range(draws):
        one = own_family(*votes(rng, effect))
        covered += ((one.low <= effect) & (effect <= one.high)).tolist()
        found.append(bool(one.is_found.any()))
    return float(np.mean(covered)), float(np.mean(found))


def main(draws: int) -> None:
    data = Comparisons.read(ARENA)
    found = own_family(data, families_of([*data.items.tolist(), *data.judges.tolist()], FAMILIES))
    print("| judge | family | effect | 95% interval |\n| --- | --- | --- | --- |")
    for judge, family, effect, low, high in zip(
        found.judge, found.family, found.effect, found.low, found.high, strict=True
    ):
        print(f"| {judge} | {family} | {effect:+.2f} | {low:+.2f} to {high:+.2f} |")
    print(f"\n{found.sentence}\n\n| planted effect | intervals that cover it | any judge found |\n| --- | --- | --- |")
    for effect in (0.0, 0.5, 1.0, 1.5):
        covered, any_found = coverage(draws, effect)
        print(f"| {effect:g} | {covered:.1%} | {any_found:.0%} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=300)
    main(parser.parse_args().draws)
