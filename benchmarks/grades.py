"""Whether scores on the scale of anchors are covered, and whether probabilities of grades are those that hold.

    python -m benchmarks.grades                # docs/measurements/grades.md
    python -m benchmarks.grades --draws 20     # a first look

Texts have the easiness that teachers gave to excerpts (CLEAR), on a scale of 50 ± 10. Decisions about random pairs are
drawn from it by Bradley–Terry, some texts are anchors with their true scores, and the others are to be found.
"""

import argparse
import gzip
import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from comparo.data.comparisons import Comparisons
from comparo.methods import quiet_fit
from comparo.ranking.ranking import Ranking
from comparo.ranking.scale import Scaled
from comparo.types import Array

CLEAR = Path(__file__).parents[2] / "shared" / "data" / "clear.jsonl.gz"
SETTINGS = (  # method, texts of a draw, decisions about each text, and the share of the draws
    ("mixed", 100, 20, 1.0),
    ("mixed", 100, 60, 1.0),
    ("poe-bt", 100, 20, 1.0),
    ("poe-bt", 100, 60, 1.0),
    ("mixed", 600, 20, 0.1),
)
SHARP = 1.5  # logits of a decision per unit of easiness
CUTS = np.array([60.0, 50.0, 40.0])
GRADES, SHARES = "A>=60, B>=50, C>=40, D", "A:15%, B:35%, C:35%, D"
LAST = np.array([0.15, 0.5, 0.85])  # where the shares end
WRONG = 30.0  # what is added to the score of one anchor: three standard deviations of the texts


def easiness() -> Array:
    with gzip.open(CLEAR, "rt") as file:
        score = np.array([json.loads(line)["scores"]["easiness"] for line in file])
    return np.asarray(50 + 10 * (score - score.mean()) / score.std())


def draw(score: Array, texts: int, votes: int, method: str, rng: np.random.Generator) -> tuple[Ranking, Array]:
    """A ranking of `texts` texts from `votes` decisions about each, and their true scores in its order."""
    chosen = rng.choice(score, texts, replace=False)
    first = rng.integers(texts, size=texts * votes // 2)
    second = (first + rng.integers(1, texts, size=len(first))) % texts
    chance = 1 / (1 + np.exp(-SHARP * (chosen[first] - chosen[second]) / 10))
    ranking = quiet_fit(Comparisons.from_columns(first, second, (rng.random(len(first)) < chance) * 1.0), method=method)
    return ranking, chosen[ranking.items]


def bins(probability: Array, happened: Array) -> list[tuple[int, float, float]]:
    """How many probabilities are in each tenth, their mean, and how often what they are about is so."""
    place = np.minimum((10 * probability).astype(int), 9)
    return [
        (int(np.sum(place == k)), float(probability[place == k].mean()), float(happened[place == k].mean()))
        for k in range(10)
    ]


def one_hot(place: Array) -> Array:
    return np.asarray(place[:, None] == np.arange(4))


def coverage(found: Iterable[tuple[Scaled, Array]]) -> tuple[float, float, float]:
    """The share of texts whose interval contains the score, its mean width, and the share of maps with a misfit."""
    rows = []
    for scaled, truth in found:
        other = np.isnan(scaled.anchor)
        held = (scaled.low <= truth) & (truth <= scaled.high)
        rows.append((held[other].mean(), np.median((scaled.high - scaled.low)[other]), scaled.is_misfit.any()))
    held, width, misfit = np.array(rows, dtype=float).T
    return float(held.mean()), float(np.median(width)), float(misfit.mean())


def chosen_by_score(draws: int) -> None:
    """Coverage where 20 anchors are chosen by their true scores: evenly, the extremes, or among the best 40%."""
    rng, score = np.random.default_rng(1), easiness()
    rankings = [draw(score, 100, 20, "poe-bt", rng) for _ in range(draws)]
    ends = np.r_[np.arange(10), np.arange(90, 100)]
    places = {"evenly": np.linspace(2, 97, 20).astype(int), "extremes": ends, "best 40%": np.arange(60, 100, 2)}
    print("\n| 20 anchors | covered | width | warned |\n| --- | --- | --- | --- |")
    for name, chosen in places.items():
        found, warned = [], 0
        for ranking, truth in rankings:
            nodes = np.argsort(truth)[chosen]
            scaled = ranking.on_scale({ranking.items[node]: float(truth[node]) for node in nodes})
            found.append((scaled, truth))
            warned += any("weakest" in note for note in scaled.notes)
        held, width, _ = coverage(found)
        print(f"| {name} | {held:.1%} | {width:.1f} | {warned / draws:.0%} |", flush=True)


def main(draws: int) -> None:
    score, calibration = easiness(), defaultdict(list)
    print(
        "| method | texts | votes per text | anchors | their error | covered | width | false alarms | wrong one found |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for method, texts, votes, part in SETTINGS:
        rng = np.random.default_rng([texts, votes])
        rankings = [draw(score, texts, votes, method, rng) for _ in range(max(1, round(part * draws)))]
        for ranking, truth in rankings:
            place = np.argsort(np.argsort(-truth))
            scaled = ranking.on_scale(grades=SHARES)
            calibration["shares"].append(
                (scaled.probability, one_hot(np.searchsorted(LAST * texts, place, side="right")))
            )
        for anchors, error in ((3, 0.0), (5, 0.0), (10, 0.0), (20, 0.0), (30, 0.0), (20, 5.0)):
            found, named = [], 0
            for ranking, truth in rankings:
                given = truth + error * rng.normal(size=len(truth))
                chosen = rng.choice(len(truth), anchors, replace=False)
                known = {ranking.items[node]: float(given[node]) for node in chosen}
                scaled = ranking.on_scale(known, GRADES)
                found.append((scaled, given))
                other = np.isnan(scaled.anchor)
                if anchors >= 10 and error == 0:
                    grade = np.sum(given[:, None] < CUTS, axis=1)
                    calibration[f"{anchors} anchors"].append((scaled.probability[other], one_hot(grade)[other]))
                wrong = ranking.items[chosen[0]]
                changed = ranking.on_scale(known | {wrong: known[wrong] + WRONG})
                named += int(changed.is_misfit[chosen[0]])
            held, width, misfit = coverage(found)
            cells = f"{error:g} | {held:.1%} | {width:.1f} | {misfit:.0%} | {named / len(rankings):.0%}"
            print(f"| {method} | {texts} | {votes} | {anchors} | {cells} |", flush=True)
    print(f"\nHow often a grade is right, by its probability\n\n| probability | {' | '.join(calibration)} |")
    print("| --- " * (1 + len(calibration)) + "|")
    columns, gaps = [], []
    for pairs in calibration.values():
        probability, happened = (np.concatenate([pair[side].ravel() for pair in pairs]) for side in (0, 1))
        found_bins = bins(probability, happened)
        columns.append([f"{mean:.3f}: {share:.3f}" for _, mean, share in found_bins])
        gaps.append(f"{max(abs(mean - share) for _, mean, share in found_bins):.3f}")
    for k, cells in enumerate(zip(*columns, strict=True)):
        print(f"| {k / 10:.1f} to {k / 10 + 0.1:.1f} | {' | '.join(cells)} |")
    print(f"| largest gap | {' | '.join(gaps)} |")
    chosen_by_score(draws)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=200)
    main(parser.parse_args().draws)
