"""Whether scores on the scale of anchors are covered, and whether probabilities of grades are those that hold.

    python -m benchmarks.grades                          # docs/measurements/grades.md
    python -m benchmarks.grades --draws 20               # a first look
    python -m benchmarks.grades --part link --draws 100  # two halves linked by common texts
    python -m benchmarks.grades --part cross --draws 50  # two halves linked by pairs that comparo chooses
    python -m benchmarks.grades --part boundary --draws 100  # grades by boundary texts
    python -m benchmarks.grades --part bend --draws 60   # anchors on a scale with a bend
    python -m benchmarks.grades --part misfit            # careless judges among honest ones

Texts have the easiness that teachers gave to excerpts (CLEAR), on a scale of 50 ± 10. Decisions about random pairs are
drawn from it by Bradley–Terry, some texts are anchors with their true scores, and the others are to be found.
"""

import argparse
import gzip
import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from scipy.special import stdtrit

import comparo
from comparo.analysis.misfit import misfit
from comparo.data.comparisons import Comparisons
from comparo.judges.simulated import Simulated
from comparo.methods import quiet_fit
from comparo.ranking import scale
from comparo.ranking.ranking import Ranking
from comparo.ranking.ranks import components
from comparo.ranking.scale import Scaled
from comparo.run.linking import link
from comparo.run.plan import Storage
from comparo.run.rank import rank
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
LINKS = (("poe-bt", False, 20), ("poe-bt", False, 60), ("poe-bt", True, 20), ("mixed", False, 20), ("mixed", True, 20))
CROSSED = (("hard", False, 10), ("hard", False, 30), ("hard", True, 10), ("soft", False, 10), ("soft", True, 10))
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
            scaled = comparo.on_scale(ranking, {ranking.items[node]: float(truth[node]) for node in nodes})
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
            scaled = comparo.on_scale(ranking, grades=SHARES)
            calibration["shares"].append(
                (scaled.probability, one_hot(np.searchsorted(LAST * texts, place, side="right")))
            )
        for anchors, error in ((3, 0.0), (5, 0.0), (10, 0.0), (20, 0.0), (30, 0.0), (20, 5.0)):
            found, named = [], 0
            for ranking, truth in rankings:
                given = truth + error * rng.normal(size=len(truth))
                chosen = rng.choice(len(truth), anchors, replace=False)
                known = {ranking.items[node]: float(given[node]) for node in chosen}
                scaled = comparo.on_scale(ranking, known, GRADES)
                found.append((scaled, given))
                other = np.isnan(scaled.anchor)
                if anchors >= 10 and error == 0:
                    grade = np.sum(given[:, None] < CUTS, axis=1)
                    calibration[f"{anchors} anchors"].append((scaled.probability[other], one_hot(grade)[other]))
                wrong = ranking.items[chosen[0]]
                changed = comparo.on_scale(ranking, known | {wrong: known[wrong] + WRONG})
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


def decided(nodes: Array, score: Array, votes: int, rng: np.random.Generator) -> list[tuple[int, int, float]]:
    """`votes` decisions about each of some texts, as rows of comparisons."""
    first = rng.integers(len(nodes), size=len(nodes) * votes // 2)
    second = (first + rng.integers(1, len(nodes), size=len(first))) % len(nodes)
    one, other = nodes[first], nodes[second]
    chance = 1 / (1 + np.exp(-SHARP * (score[one] - score[other]) / 10))
    won = (rng.random(len(first)) < chance) * 1.0
    return list(zip(one.tolist(), other.tolist(), won.tolist(), strict=True))


def linked(draws: int) -> None:
    """Two halves of 50 texts each, judged apart, on the scale of the first half by common texts."""
    all_scores = easiness()
    print(
        "| method | second half | votes per text | common | new covered | old covered | width | false alarms | found |"
    )
    print("| --- " * 9 + "|")
    for method, is_better, votes in LINKS:
        fit = partial(quiet_fit, method=method)
        for common in (5, 10, 20):
            rng, rows = np.random.default_rng([common, votes, is_better]), []
            for _ in range(draws if method == "poe-bt" else max(1, draws // 2)):
                score = rng.choice(all_scores, 100, replace=False)
                if is_better:
                    score = score[np.argsort(score + 10 * rng.normal(size=100))]
                both = rng.choice(50, common, replace=False)
                second = np.concatenate([both, np.arange(50, 100)])
                old, new = decided(np.arange(50), score, votes, rng), decided(second, score, votes, rng)
                moved = score.copy()
                moved[both[0]] += 20
                other = decided(second, moved, votes, rng)
                ranking, shifted = (
                    link(*map(Comparisons.from_rows, (rows, old, old + rows)), fit, has_groups=method == "mixed")
                    for rows in (new, other)
                )
                truth = SHARP * (score - score[:50].mean())[ranking.items] / 10
                held, is_new = (ranking.low <= truth) & (truth <= ranking.high), ranking.items >= 50
                found, drifted = ranking.grown.link, shifted.grown.link
                place = drifted.common["item"].tolist().index(both[0])
                width = np.median((ranking.high - ranking.low)[is_new])
                alarms = found.common["drifted"].any(), drifted.common["drifted"][place]
                rows.append((held[is_new].mean(), held[~is_new].mean(), width, *alarms))
            cells = np.mean(rows, axis=0)
            kind = "better" if is_better else "alike"
            shown = f"{cells[0]:.1%} | {cells[1]:.1%} | {cells[2]:.2f} | {cells[3]:.0%} | {cells[4]:.0%}"
            print(f"| {method} | {kind} | {votes} | {common} | {shown} |", flush=True)


def crossed(draws: int) -> None:
    """Two halves of 50 texts each by a simulated judge: the second is linked to the first by pairs of both."""
    with gzip.open(CLEAR, "rt") as file:
        texts = [json.loads(line)["text"] for line in file]
    all_scores = easiness()
    print(
        "| answers | second half | calls per text | pairs of both | new covered | old covered | width | false alarms |"
    )
    print("| --- " * 8 + "|")
    for answers, is_better, calls in CROSSED:
        rng, rows = np.random.default_rng([calls, is_better]), []
        for seed in range(draws):
            chosen = rng.choice(len(texts), 100, replace=False)
            if is_better:
                chosen = chosen[np.argsort(all_scores[chosen] + 10 * rng.normal(size=100))]
            score = SHARP * all_scores[chosen] / 10
            noise = 0.0 if answers == "hard" else 1.0
            judge = Simulated(answers, dict(enumerate(score.tolist())), noise=noise, seed=seed)
            items = [{"id": k, "text": texts[place]} for k, place in enumerate(chosen)]
            how = {"judge": judge, "budget": f"{calls}n", "seed": seed}
            with TemporaryDirectory() as folder:
                rank(items[:50], "easier", out=f"{folder}/first", **how)
                ranking = rank(items[50:], "easier", out=Storage(link=Path(folder, "first")), **how)
            truth, is_new = (score - score[:50].mean())[ranking.items.astype(int)], ranking.grown.new
            held = (ranking.low <= truth) & (truth <= ranking.high)
            data = ranking.comparisons
            across = np.sum((data.items[data.first] < 50) != (data.items[data.second] < 50)) / 2
            width = np.median((ranking.high - ranking.low)[is_new])
            alarms = ranking.grown.link.common["drifted"].any()
            rows.append((across, held[is_new].mean(), held[~is_new].mean(), width, alarms))
        across, new, old, width, alarms = np.mean(rows, axis=0)
        cells = f"{calls} | {across:.0f} | {new:.1%} | {old:.1%} | {width:.2f} | {alarms:.0%}"
        print(f"| {answers} | {'better' if is_better else 'alike'} | {cells} |", flush=True)


def bounded(draws: int) -> None:
    """Probabilities of grades by three boundary texts: any three of 100, or from the best, middle and last 30."""
    rng, score, found = np.random.default_rng(2), easiness(), defaultdict(list)
    for number, votes in product(range(draws), (20, 60)):
        ranking, truth = draw(score, 100, votes, "mixed", rng)
        for _ in range(10):
            anywhere = np.sort(rng.choice(100, 3, replace=False))
            for name, chosen in (("any", anywhere), ("by place", rng.integers([5, 35, 65], [35, 65, 95]))):
                limits = np.argsort(-truth)[chosen]
                cuts = ", ".join(f"{g}>='{ranking.items[node]}'" for g, node in zip("ABC", limits, strict=True))
                try:
                    scaled = comparo.on_scale(ranking, grades=f"{cuts}, D")
                except ValueError:  # the ranking contradicts their order
                    continue
                other = np.isin(np.arange(100), limits, invert=True)
                place = np.sum(truth[:, None] < truth[limits], axis=1)
                found[name].append((number, scaled.probability[other], one_hot(place)[other]))
    for name, parts in found.items():
        probability, happened = (np.concatenate([part[side].ravel() for part in parts]) for side in (1, 2))
        of = np.concatenate([np.full(part[1].size, part[0]) for part in parts])
        print(f"\n{name}\n\n| probability | mean | share | error |\n| --- | --- | --- | --- |")
        place, errors = np.minimum((10 * probability).astype(int), 9), []
        for k, (count, mean, share) in enumerate(bins(probability, happened)):
            inside = place == k  # the error of the share, where texts of one ranking err together
            by_draw = np.bincount(of[inside], (happened - probability)[inside] - (share - mean))
            errors.append(np.sqrt(np.sum(by_draw**2)) / count)
            print(f"| {k / 10:.1f} to {k / 10 + 0.1:.1f} | {mean:.3f} | {share:.3f} | {errors[-1]:.3f} |")
        chance = np.max(np.abs(rng.normal(size=(2000, 10)) * errors), axis=1)
        print(f"largest gap of probabilities that hold: {np.mean(chance):.3f}, at most {np.quantile(chance, 0.95):.3f}")


def bent(draws: int) -> None:
    """Known scores with a bend: by the map of 20 and 30 anchors, and by a line."""
    rng, score = np.random.default_rng(3), easiness()
    low, middle, high = np.quantile(score, (0.25, 0.5, 0.75))
    shapes = {
        "line": lambda t: t,
        "steeper above": lambda t: 50 + np.where(t < middle, 0.3, 1.5) * (t - middle),
        "flatter above": lambda t: 50 + np.where(t < middle, 1.5, 0.3) * (t - middle),
        "steep below a quarter": lambda t: 50 + np.where(t < low, 2.0, 0.6) * (t - low),
        "ceiling at three quarters": lambda t: 50 + np.where(t < high, 1.2, 0.05) * (t - high),
        "exponential": lambda t: 40 + 10 * np.exp((t - 50) / 12),
    }
    print("| votes per text | anchors | scale | line | | broken line | |\n" + "| --- " * 7 + "|")
    for votes in (20, 60):
        rankings = [draw(score, 100, votes, "poe-bt", rng) for _ in range(draws)]
        for anchors, (name, shape) in product((20, 30), shapes.items()):
            rows = []
            for ranking, truth in rankings:
                chosen, y = rng.choice(100, anchors, replace=False), shape(truth)
                block = next(components(ranking.covariance))[1]
                given = ranking.scores, ranking.std**2, block[:, chosen], chosen, y[chosen]
                maps = [scale._regression(*given, np.nan)[0], scale.scale_map(*given)]
                guesses = [(one.score, one.std * stdtrit(one.degrees, 0.975)) for one in maps]
                other = np.isin(np.arange(100), chosen, invert=True)
                misses = [(np.abs(guess - y)[other], reach[other]) for guess, reach in guesses]
                rows.append([(np.mean(miss <= reach), np.sqrt(np.mean(miss**2))) for miss, reach in misses])
            cells = " | ".join(f"{held:.1%} | {error:.2f}" for held, error in np.mean(rows, axis=0))
            print(f"| {votes} | {anchors} | {name} | {cells} |", flush=True)


def careless(draws: int) -> None:
    """Ten judges of 50 texts: all honest, or one or three who toss a coin."""
    all_scores = easiness()
    print("| method | votes per judge | careless | found | honest flagged | any honest flagged | texts flagged |")
    print("| --- " * 7 + "|")
    for name, votes, count in product(("poe-bt", "mixed"), (20, 40, 80), (0, 1, 3)):
        rank = partial(quiet_fit, method=name)
        rng, rows = np.random.default_rng([votes, count]), []
        for _ in range(draws):
            judge = np.repeat(np.arange(10), votes)
            score = rng.choice(all_scores, 50, replace=False)
            answers = decided(np.arange(50), score, len(judge) * 2 // 50, rng)
            first, second, p = (np.array(column) for column in zip(*answers, strict=True))
            p = np.where(judge < count, rng.integers(2, size=len(p)), p)
            data = Comparisons.from_columns(first, second, p, judge=[f"j{who}" for who in judge])
            ranking = rank(replace(data, voted=name == "votes"))
            found = misfit(ranking, "judge")
            is_careless = np.isin(found["judge"], [f"j{who}" for who in range(count)])
            honest, power = found["misfit"][~is_careless], found["misfit"][is_careless]
            texts = misfit(ranking, "item")["misfit"].mean()
            rows.append((power.mean() if count else np.nan, honest.mean(), honest.any(), texts))
        power, *others = np.mean(rows, axis=0)
        shown = " | ".join(f"{value:.1%}" for value in others)
        cells = f"{votes} | {count} | {'–' if np.isnan(power) else f'{power:.0%}'} | {shown}"
        print(f"| {name} | {cells} |", flush=True)


PARTS = {"anchors": main, "link": linked, "cross": crossed, "bend": bent, "boundary": bounded, "misfit": careless}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--part", choices=PARTS, default="anchors")
    given = parser.parse_args()
    PARTS[given.part](given.draws)
