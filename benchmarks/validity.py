"""How much of what one judge says of a single text people share: the figures of docs/measurements/validity.md.

A judge's score of a text is s = m + δ, with m what is expected of the text (the mean of its system over all contexts,
or what its style predicts) and δ its own part. The consensus estimate is t = m + k·δ. For every recorded judge whose
texts people scored too, k goes from 0 to 1 and t is compared with people's scores; rules that know the judge's answers
only are fitted on all sets but one and measured on that one.
"""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.special import expit, logit
from scipy.stats import spearmanr

from benchmarks.efficiency import DATA, least_squares
from benchmarks.paper.datasets import load_dataset
from comparo.data.comparisons import Comparisons
from comparo.data.items import Items
from comparo.data.text_features import styles
from comparo.methods import quiet_fit
from comparo.ranking.consensus import PEOPLE, usual_validity
from comparo.ranking.ranking import Ranking
from comparo.ranking.self_consistency import text_variance
from comparo.studies.recorded import Recorded
from comparo.studies.sweep import correlate, everything
from comparo.types import Array, Index

GRID = np.linspace(0.0, 1.0, 21)
SHOWN = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)
FOLDS = 5
RIDGES = 10.0 ** np.arange(-3, 7)
FACTORS = (0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)
FLOORS = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3)


@dataclass(frozen=True, eq=False)
class Case:
    """One judge (or wording) on one attribute of a set, beside people's scores.

    `rows` are the candidates' rows of the items, `system` and `topic` (n,) codes of what wrote them and of what they
    answer.
    """

    group: str
    attribute: str
    voice: str
    recorded: Recorded
    items: Items
    rows: Index
    system: Index
    topic: Index


@dataclass(frozen=True, eq=False)
class Measured:
    """What is found of one case: Spearman × 100 with people at each k of GRID, and what the judge shows of itself.

    `between` is the share of the variance of its scores that is expected (systems or style); `orders` the correlation
    of the own parts that the two orders give a text, NaN where only one order was asked; `slope` the k of a regression
    of people's scores on m and δ; `misfits` the variance of people's scores around t over that of two models.
    """

    group: str
    attribute: str
    voice: str
    curve: Array
    between: float
    orders: float
    slope: float
    misfits: tuple[float, float] = (float("nan"), float("nan"))

    def at(self, k: float) -> float:
        return float(np.interp(k, GRID, self.curve))


@dataclass(frozen=True)
class Share:
    """The variance of what is expected, and that of texts around it."""

    expected: float
    own: float

    @property
    def share(self) -> float:
        return float(self.expected / (self.expected + self.own))


def bounded(share_between_systems: float, orders: float) -> float:
    """The validity by the rule; NaN where only one order was asked."""
    return usual_validity(share_between_systems, None if np.isnan(orders) else orders)


# The cases


def codes(labels: list[str]) -> Index:
    return np.unique(np.array(labels, dtype=str), return_inverse=True)[1].astype(np.int32)


def case(group: str, attribute: str, voice: str, judgements: object, items: Items, topics: dict[str, str]) -> Case:
    recorded = Recorded.of(judgements, items, attribute)
    ids = recorded.items[recorded.item].tolist()
    labels = zip(recorded.contexts[recorded.context].tolist(), ids, strict=True)
    rows = np.array([items.row(*label) for label in labels], dtype=np.int32)
    system = codes([str(name) for name in (items.ids if items.group is None else items.group)[rows]])
    topic = codes([topics[str(name)] for name in ids]) if topics else recorded.context
    return Case(group, attribute, voice, recorded, items, rows, system, topic)


def soft_cases() -> Iterator[Case]:
    """Qwen2.5-Coder 0.5B and 1.5B, several wordings each."""
    for name in ("summeval", "topicalchat", "hanna"):
        items = load_dataset(name, DATA / f"{name}.jsonl").items
        topics: dict[str, str] = {}
        if name == "hanna":
            lines = (DATA / "hanna.jsonl").read_text(encoding="utf-8").splitlines()
            topics = {str(row["id"]): row["prompt"] for row in map(json.loads, lines)}
        for folder in ("judgements", "panel", "wordings"):
            for path in sorted((DATA / folder).glob(f"{name}.*.csv.gz")):
                attribute, *voice = path.name.removesuffix(".csv.gz").split(".")[1:]
                known = {"judgements": "qwen15", "panel": "".join(voice), "wordings": "wording " + "".join(voice)}
                yield case(name, attribute, known[folder], path, items, topics)


def table(path: Path) -> dict[str, Array]:
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return {name: np.array([row[name] for row in rows], dtype=float if name == "p" else object) for name in rows[0]}


def llmfao() -> Iterator[Case]:
    """GPT-4 and GPT-3.5, decisions in one order, 59 systems on 13 prompts; people are a crowd."""
    with gzip.open(DATA / "panel" / "llmfao.jsonl.gz", "rt", encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    items = Items.of([{**line, "text": line["text"].strip() or "(nothing)"} for line in lines])
    columns = table(DATA / "panel" / "judges.llmfao.csv.gz")
    for voice in ("gpt-4", "gpt-3.5-turbo-instruct"):
        first, second, p, context = (
            columns[name][columns["judge"] == voice] for name in ("first", "second", "p", "context_id")
        )
        data = Comparisons.from_columns(first, second, p, context=context)
        yield case("llmfao", "human_bt", voice, data, items, {})


# What is expected of a text, its own part, and what the judge shows of itself


def centred(values: Array, code: Index) -> Array:
    return np.asarray(values - (np.bincount(code, values) / np.bincount(code))[code])


def means(values: Array, code: Index) -> Array:
    return np.asarray((np.bincount(code, values) / np.bincount(code))[code])


def curve(recorded: Recorded, expected: Array, own: Array) -> Array:
    return np.asarray(100 * correlate(recorded, expected + GRID[:, None] * own).spearman)


def regressed(recorded: Recorded, expected: Array, own: Array) -> float:
    """k by the regression of people's scores on m and δ."""
    known = ~np.isnan(recorded.human)
    human = centred(recorded.human[known], codes([str(code) for code in recorded.context[known]]))
    a, b = np.linalg.lstsq(np.stack([expected[known], own[known]], axis=1), human, rcond=None)[0]
    return float(b / a)


def misfits(found: Case, expected: Array, own: Array, shares: Share, k: float) -> tuple[float, float]:
    """The variance of people's scores of a system around t over k(1 − k)·Var δ + k²·Var(δ̂ − δ), and over another model.

    That says: people's scores vary `PEOPLE` times as much within systems as between them, and k·δ̂ explains a part. The
    judge's scores have the scale on which its systems vary as much as people's.
    """
    known = ~np.isnan(found.recorded.human)
    human = centred(found.recorded.human[known], codes([str(code) for code in found.recorded.context[known]]))
    between = means(human, found.system[known])
    scale = float(np.std(between) / np.std(expected[known]))
    around = float(np.var(human - between - scale * k * own[known])) / scale**2
    seen = float(np.var(own))
    one = k * (1 - k) * shares.own + k**2 * max(shares.own - seen, 0.0)
    other = PEOPLE * shares.expected - k**2 * seen
    return around / max(one, 1e-9), around / max(other, one, 1e-9)


def decided(recorded: Recorded) -> bool:
    return bool(np.isin(recorded.p, (0.0, 0.5, 1.0)).all())


def both(recorded: Recorded) -> tuple[Index, Index, Array, Array]:
    """The texts of the pairs asked in both orders, what is preferred and what the position does.

    In logits, those of decisions in probabilities.
    """
    pairs = recorded.pairs[recorded.pairs.min(axis=1) >= 0]
    one, other = (recorded.p[pairs] if decided(recorded) else logit(np.clip(recorded.p[pairs], 1e-4, 1 - 1e-4))).T
    first, second = recorded.first[pairs[:, 0]], recorded.second[pairs[:, 0]]
    return first, second, (one - other) / 2, (one + other) / 2


def orders_correlation(found: Case, expected: Array, grouped: bool = True) -> float:
    """The correlation of the own parts that a text gets as the first and as the second of its pairs, without noise."""
    recorded, n = found.recorded, len(found.recorded.item)
    first, second, prefers, position = both(recorded)
    if not len(first):
        return float("nan")
    context = recorded.context
    own = text_variance(first, second, prefers - expected[first] + expected[second], -1, context[first], n)
    if grouped:  # what the position makes of a system is no matter of the single text
        systems = np.eye(int(found.system.max()) + 1)
        x = systems[found.system[first]] + systems[found.system[second]]
        where = context[first]
        x -= np.stack([means(column, where) for column in x.T], axis=1)
        position = position - x @ np.linalg.lstsq(x, centred(position, where), rcond=None)[0]
    moved = max(text_variance(first, second, position, 1, context[first], n), 0.0)
    return float((own - moved) / (own + moved)) if own > 0 else 0.0


def least_scores(found: Case) -> tuple[Array, float]:
    """The scores from all pairs in both orders, and the variance of their noise."""
    recorded, n = found.recorded, len(found.recorded.item)
    first, second, prefers, _ = both(recorded)
    scores, rest = least_squares(first, second, prefers, -1, n)  # type: ignore[no-untyped-call]
    freedom = len(first) - n + len(recorded.contexts)
    counts = np.bincount(np.concatenate([first, second]), minlength=n)
    return centred(scores, recorded.context), float(np.sum(rest**2) / freedom * np.mean(1 / counts))


def share_between(scores: Array, system: Index, contexts: int, noise: float) -> float:
    """The share of the variance of the true scores that is between systems (analysis of variance)."""
    groups, n = int(system.max()) + 1, len(scores)
    mean = means(scores, system)
    within = np.sum((scores - mean) ** 2) / (n - contexts - groups + 1)
    between = max((np.sum(mean**2) / (groups - 1) - within) / (n / groups), 0.0)
    return float(between / (between + max(within - noise, 1e-9)))


def placed(recorded: Recorded, ranking: Ranking) -> tuple[Array, Array]:
    """The ranking's scores and what it expects of each candidate, in the recorded order."""
    many = np.int64(len(recorded.items))
    key = recorded.context * many + recorded.item
    order = np.argsort(key)
    place = order[np.searchsorted(key, ranking.graph.context * many + ranking.graph.item, sorter=order)]
    scores, expected = np.zeros((2, len(key)))
    scores[place] = ranking.scores
    effects = ranking.solution.effects
    if effects is not None and effects.mean is not None:
        expected[place] = effects.mean
    return scores, centred(expected, recorded.context)


def pooled(found: Case, data: Comparisons, grouped: bool) -> tuple[Array, Array, Share]:
    """Scores, what is expected, and their variances, which are estimated."""
    labels = list(zip(found.items.contexts[found.items.context].tolist(), found.items.ids.tolist(), strict=True))
    group = found.items.ids if found.items.group is None else found.items.group
    groups = dict(zip(labels, group.tolist(), strict=True)) if grouped else None
    ranking = quiet_fit(data, bias="joint", prior="estimated", groups=groups)
    effects = ranking.solution.effects
    assert effects is not None
    shared = Share((effects.groups or 0.0) + (effects.style or 0.0), effects.scores)
    return *placed(found.recorded, ranking), shared


STYLES: dict[str, Array] = {}


def with_systems(found: Case) -> Measured:
    """Soft answers by least squares, decisions by Bradley–Terry with estimated variances."""
    recorded, contexts = found.recorded, len(found.recorded.contexts)
    orders = float("nan")
    if np.any(recorded.pairs.min(axis=1) >= 0):
        scores, noise = least_scores(found)
        expected = centred(means(scores, found.system), recorded.context)
        orders = orders_correlation(found, expected)
    if decided(recorded):
        scores, expected, shares = pooled(found, everything(recorded).one(0), grouped=True)
    else:
        between = share_between(scores, found.system, contexts, noise)
        own = float(np.var(scores - expected)) - noise
        shares = Share(own * between / (1 - between), own)
    return measured(found, scores, expected, shares, orders)


def measured(
    found: Case, scores: Array, expected: Array, shares: Share, orders: float, grouped: bool = True
) -> Measured:
    own = scores - expected
    k = bounded(shares.share, orders)
    slope, shown = regressed(found.recorded, expected, own), curve(found.recorded, expected, own)
    of_model = misfits(found, expected, own, shares, k) if grouped and k < 1 else (float("nan"), float("nan"))
    return Measured(found.group, found.attribute, found.voice, shown, shares.share, orders, slope, of_model)


def with_style(found: Case) -> Measured:
    """Coefficients of style from the other topics, with the ridge that predicts those best."""
    recorded = found.recorded
    if found.group == "llmfao":
        scores, _, _ = pooled(found, everything(recorded).one(0), grouped=False)
    else:
        scores, _ = least_scores(found)
    style, fold = STYLES[found.group][found.rows], found.topic % FOLDS
    predicted = np.zeros((len(RIDGES), len(scores)))
    for number in range(FOLDS):
        there, here = style[fold != number], fold == number
        for row, ridge in enumerate(RIDGES):
            matrix = there.T @ there + ridge * np.eye(style.shape[1])
            predicted[row, here] = style[here] @ np.linalg.solve(matrix, there.T @ scores[fold != number])
    errors = np.mean((predicted - scores) ** 2, axis=1)
    expected = centred(predicted[np.argmin(errors)], recorded.context)
    shares = Share(max(float(np.mean(scores**2) - np.min(errors)), 0.0), float(np.min(errors)))
    orders = orders_correlation(found, expected, grouped=False)
    return measured(found, scores, expected, shares, orders, grouped=False)


def arena() -> list[Measured]:
    """Battles, each on a question of its own: t of the difference against people's vote, over all battles.

    One decision says of δ only its sign: δ is its expectation given the decision, as if all that the judge's systems do
    not explain were its own part (the noise of one decision cannot be told from it).
    """
    columns = table(DATA / "panel" / "judges.arena_ppr.csv.gz")
    keys = [columns[name].astype(str) for name in ("context_id", "first", "second")]
    order = np.lexsort((np.arange(len(columns["p"])), *keys[::-1]))
    judge = columns["judge"][order]
    human = columns["p"][order][judge == "human"]
    first, second = (columns[name][order][judge == "human"] for name in ("first", "second"))
    found = []
    for voice in ("gpt-4-0125-preview", "claude-3-opus-20240229", "gpt-3.5-turbo"):
        p = columns["p"][order][judge == voice]
        ranking = quiet_fit(Comparisons.from_columns(first, second, p), bias="joint")
        score = dict(zip(ranking.items.tolist(), ranking.scores.tolist(), strict=True))
        expected = np.array([score[one] - score[other] for one, other in zip(first, second, strict=True)])
        q = expit(expected - float(np.mean(ranking.solution.bias)) if ranking.solution.bias.size else 0.0)
        entropy = -q * np.log(q) - (1 - q) * np.log(1 - q)
        own = p * entropy / q - (1 - p) * entropy / (1 - q)
        shown = np.array([100 * spearmanr(expected + k * own, human)[0] for k in GRID])
        a, b = np.linalg.lstsq(np.stack([expected, own], axis=1), human - human.mean(), rcond=None)[0]
        between = float(np.var(expected) / (np.var(expected) + np.pi**2 / 3))
        found.append(Measured("arena", "vote", voice, shown, between, float("nan"), float(b / a)))
    return found


def against_each_other() -> list[Measured]:
    """Six judges of 7B to 32B, decisions in both orders; instead of people, the mean score of the other five."""
    columns = table(DATA / "panel" / "judges.mtbench6_en.csv.gz")
    data, scores = {}, {}
    for voice in sorted(set(columns["judge"].tolist())):
        here = columns["judge"] == voice
        first, second, p, context = (columns[name][here] for name in ("first", "second", "p", "context_id"))
        data[voice] = Comparisons.from_columns(first, second, p, context=context)
        ranking = quiet_fit(data[voice], bias="joint", prior="estimated", groups="items")
        labels = zip(np.asarray(ranking.context).tolist(), ranking.items.tolist(), strict=True)
        scores[voice] = dict(zip(labels, (ranking.scores / np.std(ranking.scores)).tolist(), strict=True))
    found = []
    for voice in data:
        others = [scores[other] for other in data if other != voice]
        joint = {label: float(np.mean([of[label] for of in others])) for label in scores[voice]}
        rows = [{"context_id": label[0], "id": label[1], "text": label[1], "score": joint[label]} for label in joint]
        found.append(with_systems(case("mtbench", "score", voice, data[voice], Items.of(rows), {})))
    return found


# Rules, each fitted on all sets but one


@dataclass(frozen=True)
class Rule:
    """k from what a judge shows of itself and constants, of which the best of `candidates` are chosen."""

    share: Callable[[Measured, tuple[float, ...]], float]
    candidates: Sequence[tuple[float, ...]]

    def k(self, found: Measured, constants: tuple[float, ...]) -> float:
        return min(max(self.share(found, constants), 0.0), 1.0)


def bound(found: Measured) -> float:
    return 1.0 if np.isnan(found.orders) else max(found.orders, 0.0)


def odds(found: Measured) -> float:
    return found.between / (1 - found.between)


ONE = [(c,) for c in FACTORS]
TWO = [(c, least) for c in FACTORS for least in FLOORS]
RULES = {
    "k = c": Rule(lambda _, of: of[0], ONE),
    "k = c·B/(1 − B)": Rule(lambda judge, of: of[0] * odds(judge), ONE),
    "k = min(c·B/(1 − B), r)": Rule(lambda judge, of: min(of[0] * odds(judge), bound(judge)), ONE),
    "k = max(f, min(c·B/(1 − B), r))": Rule(lambda judge, of: max(of[1], min(of[0] * odds(judge), bound(judge))), TWO),
}
USUAL = Rule(lambda judge, _: bounded(judge.between, judge.orders), [()])
HALF = Rule(lambda _, of: of[0], [(0.5,)])


def by_set(cases: list[Measured], values: list[float]) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for one, value in zip(cases, values, strict=True):
        found.setdefault(one.group, []).append(value)
    return {group: float(np.mean(of)) for group, of in found.items()}


def mean(cases: list[Measured], values: list[float]) -> float:
    """The mean over sets of the mean over their cases."""
    return float(np.mean(list(by_set(cases, values).values())))


def reached(cases: list[Measured], rule: Rule, constants: tuple[float, ...]) -> list[float]:
    return [one.at(rule.k(one, constants)) for one in cases]


def agreeing(cases: list[Measured]) -> list[Measured]:
    """Those whose ranking, as it is, goes with people's at all: no share of a contrary judge's view is right."""
    return [one for one in cases if one.curve[-1] > 0]


def fitted(cases: list[Measured], rule: Rule) -> tuple[float, ...]:
    usable = agreeing(cases)
    return max(rule.candidates, key=lambda constants: mean(usable, reached(usable, rule, constants)))


def without_own(cases: list[Measured], rule: Rule) -> dict[str, tuple[float, ...]]:
    """The constants for each set, fitted on the others."""
    groups = dict.fromkeys(one.group for one in cases)
    return {group: fitted([one for one in cases if one.group != group], rule) for group in groups}


# The tables


def line(*cells: object) -> None:
    shown = [f"{cell:.1f}" if isinstance(cell, float) else str(cell) for cell in cells]
    print("| " + " | ".join(shown) + " |", flush=True)


def head(*cells: str) -> None:
    line(*cells)
    line("---", *["---:"] * (len(cells) - 1))


def families(cases: list[Measured]) -> dict[tuple[str, str], list[Measured]]:
    """The cases of each set and judge, the ten wordings together."""
    found: dict[tuple[str, str], list[Measured]] = {}
    for one in cases:
        voice = "qwen15, ten wordings" if one.voice.startswith("wording") else one.voice
        found.setdefault((one.group, voice), []).append(one)
    return found


def show_curves(title: str, cases: list[Measured]) -> None:
    print(f"\n## {title}: Spearman × 100 with people by k\n")
    head("set, judge", "cases", *(f"{k:g}" for k in SHOWN))

    def row(name: str, members: list[Measured]) -> None:
        line(name, len(members), *(float(np.mean([one.at(k) for one in members])) for k in SHOWN))

    for (group, voice), members in families(cases).items():
        row(f"{group}, {voice}", members)
    for group in dict.fromkeys(one.group for one in cases):
        row(f"{group}, all", [one for one in cases if one.group == group])
    row("all", cases)
    row("all that go with people", agreeing(cases))


def show_features(cases: list[Measured]) -> None:
    print("\n## What judges show of themselves, means over attributes; k by the rule, by regression and in hindsight\n")
    head(
        "set, judge",
        "B",
        "B/(1 − B)",
        "r",
        "k by the rule",
        "by regression",
        "best",
        "Spearman, k = 1",
        "the rule's",
        "best",
    )
    for (group, voice), members in families(cases).items():
        b, r, k, best = np.mean(
            [[one.between, one.orders, USUAL.k(one, ()), GRID[np.argmax(one.curve)]] for one in members], axis=0
        )
        slope = np.median([one.slope for one in members])
        shown = ("–" if value != value else f"{value:.2f}" for value in (b, b / (1 - b), r, k, slope, best))
        reach = np.mean([[one.curve[-1], one.at(USUAL.k(one, ())), one.curve.max()] for one in members], axis=0)
        line(f"{group}, {voice}", *shown, *(f"{value:.1f}" for value in reach))


def show_rules(title: str, cases: list[Measured], rules: dict[str, Rule]) -> None:
    groups = list(dict.fromkeys(one.group for one in cases))
    for name, members in (("those that go with people", agreeing(cases)), ("all", cases)):
        print(f"\n## {title}, {len(members)} cases, {name}: Spearman × 100, constants fitted without the set\n")
        head(
            "rule", *groups, "mean over sets", "over cases", "worse than k = 1", "constants without each set; with all"
        )
        plain = [one.at(1.0) for one in members]

        def shown(label: str, values: list[float], chosen: str = "") -> None:
            gains = np.subtract(values, plain)  # noqa: B023
            worse = f"{np.sum(gains < -1)}, by {abs(min(np.min(gains), 0)):.1f}"
            line(label, *by_set(members, values).values(), mean(members, values), float(np.mean(values)), worse, chosen)  # noqa: B023

        shown("k = 1", plain)
        shown("k = 0", [one.at(0.0) for one in members])
        for label, rule in rules.items():
            chosen = without_own(cases, rule)
            values = [one.at(rule.k(one, chosen[one.group])) for one in members]
            all_sets = written(fitted(cases, rule))
            shown(label, values, ", ".join(map(written, chosen.values())) + "; " + all_sets)
        shown("best k of each case", [float(one.curve.max()) for one in members])


def written(constants: tuple[float, ...]) -> str:
    return " ".join(f"{c:g}" for c in constants) or "none"


def show_people(cases: list[Case], found: list[Measured]) -> None:
    print("\n## People: variance within systems / between them; variance around t / the model's, median over judges\n")
    head("set, attribute", "within / between", "around t / by k(1 − k)", "around t / by people's usual")
    members: dict[tuple[str, str], list[int]] = {}
    for number, one in enumerate(cases):
        members.setdefault((one.group, one.attribute), []).append(number)
    for (group, attribute), numbers in members.items():
        recorded, system = cases[numbers[0]].recorded, cases[numbers[0]].system
        known = ~np.isnan(recorded.human)
        context = codes([str(code) for code in recorded.context[known]])
        share = share_between(centred(recorded.human[known], context), system[known], int(context.max()) + 1, 0.0)
        one, other = np.nanmedian([found[number].misfits for number in numbers], axis=0).tolist()
        line(f"{group}, {attribute}", f"{(1 - share) / share:.2f}", one, other)


def main() -> None:
    print("\n# Validity: how much of a judge's view of single texts people share", flush=True)
    if not (DATA / "panel").exists():
        print(f"skipped, {DATA}/panel is not there")
        return
    soft, hard = list(soft_cases()), list(llmfao())
    for found in (*soft, *hard):
        if found.group not in STYLES:
            STYLES[found.group] = styles(found.items)
    systems = [*map(with_systems, (*soft, *hard)), *arena()]
    rules = {**RULES, "the rule, constants fixed": USUAL}
    show_curves("Systems", systems)
    show_features(systems)
    show_rules("Systems", systems, rules)
    panel = against_each_other()
    print("\nJudges against the mean of five others, not people:")
    show_features(panel)
    show_people([*soft, *hard], systems)
    style = [with_style(found) for found in (*soft, *hard)]
    show_curves("Style", style)
    show_rules("Style", style, {**RULES, "k = 0.5": HALF})


if __name__ == "__main__":
    main()
