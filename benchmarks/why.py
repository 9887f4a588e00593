"""Why did it win: planted reasons found again, and reasons of people on half of the topics for the votes on the others.

    python -m benchmarks.why
    python -m benchmarks.why --part planted --runs 20

Texts and votes are read from ../shared/data.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy.special import expit

import comparo
from comparo import Comparisons, Items, Ranking, fit
from comparo.data.covariates import computed_reasons
from comparo.data.formats import read_columns
from comparo.ranking.why import Why

DATA = Path(__file__).parents[2] / "shared" / "data"
SETS = {"summeval": "summeval.jsonl", "convarg": "convarg/items.jsonl.gz", "clear": "clear.jsonl.gz"}
PLANTED = {"length": 0.6, "polite": 0.4}
REST, NOISE, POSITION = 0.6, 0.7, 0.3
SCENES = (  # texts, contexts, calls per context, answers
    ("summeval", 10, 60, "soft"),
    ("convarg", 6, 100, "soft"),
    ("convarg", 6, 100, "no noise"),
    ("convarg", 6, 100, "asked"),
    ("convarg", 6, 100, "decisions"),
    ("convarg", 1, 100, "soft"),
    ("clear", 1, 2000, "soft"),
    ("clear", 1, 2000, "decisions"),
)
RUNS, SPLITS = 60, 20


def planted(runs: int, first: int) -> None:
    print(
        "\n| texts | answers | reasons | effects covered, % | planted covered, % | false discoveries, % "
        "| planted found, % | unexplained covered, % |"
    )
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name, contexts, calls, answers in SCENES:
        items = Items.of(str(DATA / SETS[name]))
        columns = {reason.name: column for reason, column in computed_reasons(items).items()}
        rows = [judged(items, columns, contexts, calls, answers, seed) for seed in range(first, first + runs)]
        covered = np.concatenate([row[0] for row in rows])
        is_planted = np.concatenate([row[1] for row in rows])
        false, found, left, texts, reasons = (np.mean([row[k] for row in rows]) for k in range(2, 7))
        print(
            f"| {name}: {texts:.0f} in {contexts} | {answers}, {calls} per context | {reasons:.0f} "
            f"| {100 * covered.mean():.1f} | {100 * covered[is_planted].mean():.1f} | {100 * false:.1f} "
            f"| {100 * found:.0f} | {100 * left:.0f} |",
            flush=True,
        )


def judged(
    items: Items, columns: dict[str, np.ndarray], contexts: int, calls: int, answers: str, seed: int
) -> tuple[np.ndarray, np.ndarray, float, float, bool, int, int]:
    """Whether each interval covers, which effects are planted, the share of false discoveries, that of planted ones
    that are found, whether the interval of what is unexplained covers, and the numbers of texts and reasons."""
    rng = np.random.default_rng(seed)
    groups = list(items.groups.values())
    chosen = [groups[k] for k in rng.choice(len(groups), contexts, replace=False)]
    rows = np.concatenate(chosen)
    context = np.repeat(np.arange(contexts), [len(own) for own in chosen])
    values = {name: standard(column[rows], context) for name, column in columns.items()}
    taste = sum(PLANTED[name] * values[name] for name in PLANTED)
    truth = taste + REST * rng.standard_normal(len(rows))
    pairs = [(k, *pair) for k in range(contexts) for pair in drawn(np.flatnonzero(context == k), calls, rng)]
    noise = {"no noise": 0.0}.get(answers, NOISE)
    data = said(truth, pairs, noise, answers == "decisions", rng)
    known = {name: dict(enumerate(column.tolist())) for name, column in values.items() if np.ptp(column)}
    effects = dict.fromkeys(known, 0.0) | {name: size for name, size in PLANTED.items() if name in known}
    left = REST**2
    if answers == "asked" and "polite" in known:
        by = fit(said(values["polite"], pairs, NOISE, False, rng), "mixed")
        score = np.zeros(len(rows))
        score[by.items] = by.scores
        known["polite"] = dict(enumerate(score.tolist()))
        # Of posterior means x̂, E[x | x̂] = x̂: a standard deviation of them is worth less than one of x.
        # What the answers leave open of x is part of the rest.
        seen = float(np.mean(standard(score, context, False) ** 2))
        left += PLANTED["polite"] ** 2 * max(1 - seen, 0.0)
        effects["polite"] *= float(np.sqrt(seen))
    why = comparo.why(fit(data, "mixed"), reasons=known)
    true = np.array([effects[one.name] for one in why.reasons])
    low, high = (np.array([getattr(one.beyond, end) for one in why.reasons]) for end in ("low", "high"))
    is_found = np.array([one.verdict == "matters" for one in why.reasons])
    is_false = is_found & (true == 0)
    share = left / (REST**2 + float(np.mean(taste**2)))
    covers = why.unexplained_low <= share <= why.unexplained_high
    covered = (low <= true) & (true <= high)
    false = is_false.sum() / max(is_found.sum(), 1)
    return covered, true != 0, false, is_found[true != 0].mean(), covers, len(rows), len(true)


def standard(column: np.ndarray, context: np.ndarray, is_scaled: bool = True) -> np.ndarray:
    """A column less the mean of its context, with the variance 1."""
    means = np.bincount(context, column) / np.bincount(context)
    centred = column - means[context]
    spread = float(np.sqrt(np.mean(centred**2)))
    return centred / spread if is_scaled and spread > 0 else centred


def drawn(texts: np.ndarray, calls: int, rng: np.random.Generator) -> Iterator[tuple[int, int]]:
    first = rng.integers(len(texts), size=calls)
    second = (first + rng.integers(1, len(texts), size=calls)) % len(texts)
    return zip(texts[first].tolist(), texts[second].tolist(), strict=True)


def said(
    truth: np.ndarray, pairs: list[tuple[int, int, int]], noise: float, is_hard: bool, rng: np.random.Generator
) -> Comparisons:
    context, first, second = (np.array(column) for column in zip(*pairs, strict=True))
    d = truth[first] - truth[second] - POSITION
    p = (rng.random(len(d)) < expit(d)).astype(float) if is_hard else expit(d + noise * rng.standard_normal(len(d)))
    return Comparisons.from_columns(first, second, p, context=context)


def people(splits: int) -> None:
    """Reasons found on the votes about half of the topics, and how well they predict those about the other half."""
    folder = DATA / "convarg"
    items = Items.of(str(folder / "items.jsonl.gz"))
    table = read_columns(folder / "votes.csv.gz").columns
    votes = {name: np.array(table[name]) for name in ("context", "first", "second", "winner")}
    topics = np.array([context.rpartition("_")[0] for context in votes["context"]])
    names, found = np.unique(topics), []
    for seed in range(splits):
        half = np.random.default_rng(seed).permutation(names)[: len(names) // 2]
        why = explained(votes, np.isin(topics, half), items)
        away = ~np.isin(topics, half) & (votes["winner"] != "tie")
        both = [again(why, items, names) for names in ([one.name for one in why.matters], ["length"])]
        found.append([len(why.matters), *(figure for one in both for figure in predicted(one, items, votes, away))])
    mean, error = np.mean(found, axis=0), np.std(found, axis=0, ddof=1)
    gain, loss = np.array(found)[:, 1] - np.array(found)[:, 3], np.array(found)[:, 2] - np.array(found)[:, 4]
    print(
        f"\n{splits} splits of {len(names)} topics; {mean[0]:.1f} reasons found; means over splits (± their deviation)"
    )
    print("\n| by | votes predicted, % | log loss |\n| --- | ---: | ---: |")
    for name, k in (("reasons found", 1), ("length alone", 3)):
        print(f"| {name} | {100 * mean[k]:.1f} (± {100 * error[k]:.1f}) | {mean[k + 1]:.4f} |")
    print(f"\nreasons predict more votes in {np.sum(gain > 0)} of {splits} splits, less log loss in {np.sum(loss < 0)}")
    why = explained(votes, np.ones(len(topics), dtype=bool), items)
    print(f"\nAll topics: {why.summary}\n\n| reason | on its own, % | beyond the others, % | verdict |")
    print("| --- | ---: | ---: | --- |")
    for one in why.reasons:
        print(f"| {one.words} | {ends(one.alone)} | {ends(one.beyond)} | {one.verdict} |")


def ends(one: object) -> str:
    share, low, high = (100 * getattr(one, name) for name in ("share", "share_low", "share_high"))
    return f"{share:.0f} ({low:.0f} to {high:.0f})"


def explained(votes: dict[str, np.ndarray], rows: np.ndarray, items: Items) -> Why:
    p = np.select([votes["winner"] == "first", votes["winner"] == "second"], [1.0, 0.0], 0.5)
    given = (votes[name][rows] for name in ("first", "second"))
    ranking: Ranking = fit(Comparisons.from_columns(*given, p[rows], context=votes["context"][rows]), "mixed")
    return comparo.why(ranking, items)


def again(why: Why, items: Items, names: list[str]) -> Why:
    """The same ranking by some of the reasons alone."""
    columns = {reason.name: column for reason, column in computed_reasons(items).items()}
    return comparo.why(
        why.ranking, reasons={name: dict(zip(keys(items), columns[name], strict=True)) for name in names}
    )


def keys(items: Items) -> list[tuple[str, str]]:
    return list(zip(items.contexts[items.context].tolist(), items.ids.tolist(), strict=True))


def predicted(why: Why, items: Items, votes: dict[str, np.ndarray], rows: np.ndarray) -> tuple[float, float]:
    """The share of votes whose winner is predicted, and −mean log P(winner).

    Scores differ by d = Σ β·(x − x′) and by what is unexplained, N(0, 2σ²): P ≈ σ(d / √(1 + 2σ²·π/8)).
    """
    row = {label: k for k, label in enumerate(keys(items))}
    contexts = np.asarray(why.ranking.context).tolist()
    own = np.array([row[label] for label in zip(contexts, why.ranking.items.tolist(), strict=True)])
    columns = {reason.name: column for reason, column in computed_reasons(items).items()}
    score = np.zeros(len(row))
    for one, beta in zip(why.reasons, why.beta, strict=True):
        column = columns[one.name]
        step = float(np.sqrt(np.mean(standard(column[own], items.context[own].astype(int), False) ** 2)))
        score += beta * column / step
    ends = (zip(votes["context"][rows], votes[side][rows], strict=True) for side in ("first", "second"))
    first, second = (np.array([row[label] for label in side]) for side in ends)
    d = np.where(votes["winner"][rows] == "first", 1.0, -1.0) * (score[first] - score[second])
    d = d / np.sqrt(1 + np.pi / 4 * why.unexplained * why.variance)
    return float(np.mean((d > 0) + 0.5 * (d == 0))), float(np.mean(np.logaddexp(0.0, -d)))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--seed", type=int, default=0, help="of the first run")
    parser.add_argument("--splits", type=int, default=SPLITS)
    parser.add_argument("--part", choices=("planted", "people"))
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.part != "people":
        planted(given.runs, given.seed)
    if given.part != "planted":
        people(given.splits)


if __name__ == "__main__":
    main()
