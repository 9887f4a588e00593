"""Length held equal: simulated judges that like long texts, and what recorded judges give for length.

    python -m benchmarks.control

Recorded answers are read from ../shared/data, and left out where that is absent.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit
from scipy.stats import spearmanr

from comparo import Comparisons, Items, Ranking, fit
from comparo.data.covariates import control_numbers

DATA = Path(__file__).parents[2] / "shared" / "data"
RUNS = 50
BETA = 0.8
SETS = (
    *(("summeval", attribute) for attribute in ("coherence", "consistency", "fluency", "relevance")),
    *(("topicalchat", attribute) for attribute in ("coherence", "engagingness", "naturalness", "understandability")),
)


def judged(
    rng: np.random.Generator, contexts: int, systems: int, calls: int, corr: float, soft: bool, betas: Sequence[float]
) -> tuple[Comparisons, np.ndarray, np.ndarray]:
    """Answers of judges that give `betas` for a doubling, the true scores, and log₂ of the lengths (contexts, systems).

    Where contexts share systems (corr is not nan), the length of a system goes with its quality by `corr`.
    """
    quality = np.zeros(systems) if np.isnan(corr) else rng.standard_normal(systems)
    long = np.nan_to_num(corr) * quality
    if not np.isnan(corr):
        long = long + 0.7 * np.sqrt(1 - corr**2) * rng.standard_normal(systems)
    x = long + 0.6 * rng.standard_normal((contexts, systems)) + rng.standard_normal((contexts, 1))
    truth = quality + 0.7 * rng.standard_normal((contexts, systems))
    parts = []
    for number, beta in enumerate(betas):
        view = truth + beta * x + (0.4 * rng.standard_normal(x.shape) if len(betas) > 1 else 0.0)
        context = np.repeat(np.arange(contexts), calls)
        first = rng.integers(systems, size=len(context))
        second = (first + rng.integers(1, systems, size=len(context))) % systems
        d = view[context, first] - view[context, second] - 0.3
        p = expit(d + 0.7 * rng.standard_normal(len(d))) if soft else (rng.random(len(d)) < expit(d)).astype(float)
        parts.append((first, second, p, context, np.full(len(d), number)))
    first, second, p, context, judge = (np.concatenate(column) for column in zip(*parts, strict=True))
    data = Comparisons.from_columns(first, second, p, context=context, judge=judge if len(betas) > 1 else None)
    return data, truth, x


def at(ranking: Ranking, values: np.ndarray) -> np.ndarray:
    return ranking.graph.centre(values[np.asarray(ranking.context), ranking.items])


def simulation() -> None:
    print("\n| judge | texts | calls | β found | β covered, % | scores covered, % | r raw | r at equal length |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    scenes = (
        ("20 × 8 systems, long and good independent", 20, 8, 0.0),
        ("20 × 8 systems, good ones write long", 20, 8, 0.8),
        ("20 × 8 texts", 20, 8, np.nan),
        ("60 texts", 1, 60, np.nan),
    )
    for soft in (True, False):
        for name, contexts, systems, corr in scenes:
            for calls in (60, 200) if contexts > 1 else (300, 900):
                row(f"{'soft' if soft else 'decisions'}", name, contexts, systems, calls, corr, soft, (BETA,))
    for soft in (True, False):
        row(f"{'soft' if soft else 'decisions'}, three", "20 × 8 texts", 20, 8, 60, np.nan, soft, (0.8, 0.2, -0.4))


def row(
    kind: str, name: str, contexts: int, systems: int, calls: int, corr: float, soft: bool, betas: tuple[float, ...]
) -> None:
    found: list[list[float]] = []
    for seed in range(RUNS):
        drawn = judged(np.random.default_rng(seed), contexts, systems, calls, corr, soft, betas)
        data, truth, x = drawn
        lengths = {(c, i): float(x[c, i]) for c in range(contexts) for i in range(systems)}
        groups: Any = None if np.isnan(corr) else "items"
        method = "panel" if len(betas) > 1 else "mixed"
        ranking = fit(data, method, groups=groups, control={"length": lengths})
        equal, true, step = ranking.controlled, at(ranking, truth), float(np.sqrt(np.mean(at(ranking, x) ** 2)))
        assert equal is not None
        table = ranking.tables["control"]
        assert table is not None
        low, high = table["low"] / step, table["high"] / step
        found.append(
            [
                float(table["coefficient"][0] / step),
                100 * float(np.mean((low <= betas) & (betas <= high))),
                100 * float(np.mean((equal.low <= true) & (true <= equal.high))),
                float(np.corrcoef(ranking.scores, true)[0, 1]),
                float(np.corrcoef(equal.scores, true)[0, 1]),
            ]
        )
    beta, covers, inside, raw, controlled = np.mean(found, axis=0)
    print(
        f"| {kind} | {name} | {calls} | {beta:.2f} | {covers:.0f} | {inside:.1f} | {raw:.3f} | {controlled:.3f} |",
        flush=True,
    )


def recorded() -> None:
    print("\n| set | twice the length is worth | ρ × 100 with people | at equal length | people and length |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for name, attribute in SETS:
        path = DATA / "judgements" / f"{name}.{attribute}.csv.gz"
        if not path.exists():
            continue
        items, data = Items.of(str(DATA / f"{name}.jsonl")), Comparisons.read(path)
        ranking = fit(data, "mixed", groups="items", control=control_numbers(items, ["length"]))
        table, equal = ranking.tables["control"], ranking.controlled
        assert equal is not None
        assert table is not None
        texts = control_numbers(items, ["length"])["length"]
        people = dict(zip(texts, items.scores[attribute], strict=True))
        lengths = {key: float(len(text)) for key, text in texts.items()}
        raw, controlled = (agreement(ranking, scores, people) for scores in (ranking.scores, equal.scores))
        long = agreement(ranking, np.array([lengths[key] for key in keys(ranking)]), people)
        beta, low, high = (float(table[column][0]) for column in ("coefficient", "low", "high"))
        print(
            f"| {name} {attribute} | {beta:.2f} ({low:.2f} to {high:.2f}) | {raw:.1f} | {controlled:.1f} | {long:.1f} |"
        )


def keys(ranking: Ranking) -> list[tuple[Any, Any]]:
    return list(zip(np.asarray(ranking.context).tolist(), ranking.items.tolist(), strict=True))


def agreement(ranking: Ranking, scores: np.ndarray, people: Mapping[Any, float]) -> float:
    """The mean over contexts of Spearman's correlation × 100."""
    said, context = np.array([people[key] for key in keys(ranking)]), np.asarray(ranking.context)
    found = [spearmanr(scores[context == label], said[context == label])[0] for label in dict.fromkeys(context)]
    return 100 * float(np.nanmean(found))


def main() -> None:
    warnings.simplefilter("ignore")
    simulation()
    recorded()


if __name__ == "__main__":
    main()
