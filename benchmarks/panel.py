"""Several voices without a single label, and runs of several: the figures of docs/measurements/panel.md.

    python -m benchmarks.panel                       # all
    python -m benchmarks.panel recorded              # recorded voices beside people's scores, Spearman × 100
    python -m benchmarks.panel reliability           # do intervals of reliabilities hold? simulated
    python -m benchmarks.panel readers --draws 120   # does an audition tell coins from judges that read? simulated
    python -m benchmarks.panel runs --draws 20       # several voices in one run against one, at equal calls
    python -m benchmarks.panel prices --draws 64     # a cheap judge and one 20 times as dear, at equal money

The recorded voices are two small judges with up to six wordings each on SummEval and TopicalChat (`panel`), and ten
wordings of one judge (`wordings`). Each was asked every pair in both orders. People's scores are used to measure only;
figures are means over contexts, then over sets.
"""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from scipy.special import expit

from benchmarks.bt_sigma import bt_sigma
from benchmarks.efficiency import DATA
from benchmarks.paper.datasets import load_dataset
from benchmarks.soundness import spread
from benchmarks.verdict import table
from comparo.analysis.correlations import agreement, spearman, spearman_within
from comparo.analysis.reading import lead, reading
from comparo.analysis.reliability import measured, reliability
from comparo.data.comparisons import Comparisons
from comparo.data.items import Items
from comparo.data.prompts import Prompt, Question, criterion_prompt
from comparo.data.text_features import styles
from comparo.judges import Judge, Judgement, load_judge
from comparo.judges.simulated import Answers, Simulated
from comparo.log.store import Store
from comparo.methods import quiet_fit
from comparo.model.estimators.panel_members import PanelMembers, fit_members, signs
from comparo.model.likelihoods.bradley_terry import LOGISTIC
from comparo.ranking.ranking import Ranking
from comparo.run.audition import LEVEL, LOOPS
from comparo.run.budget import Budget
from comparo.run.loop import Run
from comparo.run.task import Task
from comparo.run.voices import voices_of
from comparo.selection.selector import Selector
from comparo.types import Array

FOLDERS = ("panel", "wordings")
SHARES = (0.3, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.85, 1.0)
DRAWS, BUDGET, PILOT = 5, 4, 1  # draws of calls; calls per text in all, and of these for the audition
SCALES = np.array([1.0, 1.0, 0.5, -0.7, 1.0, 0.3])
TASTES = np.array([0.3, 0.5, 1.0, 0.3, 0.3, 0.5])
BIAS, BETWEEN, MOVED = 0.5, 0.3, 0.3  # mean and deviation of γ, deviation of what the order does to a text
SIZES = (  # kind, texts per context, contexts, calls per voice and context, runs
    ("soft", 16, 20, 60, 40),
    ("soft", 10, 12, 60, 40),
    ("soft", 60, 1, 400, 40),
    ("decisions", 16, 20, 100, 12),
    ("decisions", 60, 1, 600, 12),
)
PANELS = {  # strengths of the judges, in logits per standard deviation of quality; a tenth of the view is their own
    "four coins": (0.0, 0.0, 0.0, 0.0),
    "one coin, three that read": (0.0, 1.5, 1.5, 1.5),
    "four equal ones": (1.5, 1.5, 1.5, 1.5),
    "two equal ones": (1.5, 1.5),
    "one alone": (1.5,),
    "four times as good as two others": (4.0, 1.0, 1.0),
}
SHOWN = ("signal", "agreement", "content", "position", "noise", "gamma")
TEXTS, CALLS, FEW = 40, "20n", "6n"  # of simulated runs of several voices; for recorded ones
PRICES = (1.0, 20.0)  # dollars for a call


# Recorded voices


@dataclass(frozen=True, eq=False)
class Set:
    """All voices on one attribute of a data set, with people's scores (n,) and the style of the candidates."""

    folder: str
    name: str
    attribute: str
    data: Comparisons
    human: Array
    style: dict[tuple[Any, Any], Array]

    @cached_property
    def heard(self) -> PanelMembers:
        return fit_members(self.data)

    @cached_property
    def sign(self) -> Array:
        return signs(self.heard.agreement, np.zeros(len(self.heard.names), dtype=bool))

    @cached_property
    def standard(self) -> Array:
        """The scores of each voice alone, with the same deviation, (R, n)."""
        scores = np.array([voice.scores for voice in self.heard.voices])
        return scores / np.std(scores, axis=1, keepdims=True)

    @cached_property
    def content(self) -> Array:
        return measured(self.data, self.heard, None)[2]

    @cached_property
    def varying(self) -> Array:
        """The content as a share of the variance of an answer around its mean: without the square of the mean γ."""
        return np.array([voice.content_around_mean for voice in self.heard.voices])

    @cached_property
    def rows(self) -> Array:
        """The rows of each voice, pair and order, (R, P, 2): every voice was asked every pair in both orders."""
        graph = self.heard.graph
        low, high = np.minimum(graph.first, graph.second), np.maximum(graph.first, graph.second)
        order = np.lexsort((graph.first > graph.second, high, low, self.data.judged_by))
        return order.reshape(len(self.heard.names), -1, 2)

    def people(self, scores: Array) -> float:
        graph = self.heard.graph
        return 100 * float(np.nanmean(spearman_within(scores, self.human, graph.position, graph.contexts)))

    def ranked(self, ranking: Ranking, turn: float = 1.0) -> float:
        """The same of a ranking of some of the candidates; the others have the mean score, 0."""
        keys, found = (g.context * len(self.data.items) + g.item for g in (self.heard.graph, ranking.graph))
        order, scores = np.argsort(keys), np.zeros(len(keys))
        scores[order[np.searchsorted(keys, found, sorter=order)]] = turn * ranking.scores
        return self.people(scores)

    def voted(self, weight: Array) -> float:
        return self.people((weight * self.sign) @ self.standard)

    @cached_property
    def each(self) -> Array:
        """Spearman × 100 of each voice alone, (R,)."""
        return np.array([self.people(scores) for scores in self.standard])


def sets() -> Iterator[Set]:
    for folder in FOLDERS:
        for name in ("summeval", "topicalchat"):
            items = load_dataset(name, DATA / f"{name}.jsonl").items
            style = styles(items)
            voices: dict[str, list[tuple[str, Comparisons]]] = {}
            for path in sorted((DATA / folder).glob(f"{name}.*.csv.gz")):
                attribute, voice = path.name.removesuffix(".csv.gz").split(".")[1:]
                voices.setdefault(attribute, []).append((voice, Comparisons.read(path)))
            for attribute, found in voices.items():
                columns = [one.to_columns() | {"judge": np.full(len(one), voice, dtype=object)} for voice, one in found]
                data = Comparisons.from_columns(
                    **{key: np.concatenate([c[key] for c in columns]) for key in columns[0]}
                )
                labels = fit_members(data).graph.labels(data)
                human = np.array([items.scores[attribute][items.row(*label)] for label in labels])
                features = {label: style[items.row(*label)] for label in labels}
                yield Set(folder, name, attribute, data, human, features)


def is_panel(every: list[Set]) -> Array:
    return np.array([one.folder == "panel" for one in every])


def once(one: Set) -> Array:
    """The weight of each voice with which a family of copies has one vote, (R,)."""
    family = one.heard.family
    return np.asarray(1.0 / np.bincount(family)[family])


VOTES: Mapping[str, Callable[[Set], Array]] = {
    "equal votes": lambda one: np.ones(len(one.content)),
    "equal, copies share a vote": once,
    "votes by content": lambda one: one.content,
    "at least ⅔ of the best content": lambda one: (one.content >= one.content.max() / 1.5) * 1.0,
    "the voice of most content": lambda one: (one.content == one.content.max()) * 1.0,
    "the same, mean γ left out": lambda one: (one.varying == one.varying.max()) * 1.0,
}


def all_answers(every: list[Set]) -> dict[str, Array]:
    """Spearman × 100 of each way on each set."""
    found = {"one voice at random": np.array([np.mean(one.each) for one in every])}
    for name, weight in VOTES.items():
        found[name] = np.array([one.voted(weight(one)) for one in every])
    fits = [quiet_fit(one.data, "panel") for one in every]
    found["`fit(…, 'panel')`"] = np.array([one.people(fit.scores) for one, fit in zip(every, fits, strict=True)])
    found["BT-σ"] = np.array([one.people(bt_sigma(one.data).scores) for one in every])
    found["best voice in hindsight"] = np.array([np.max(one.each) for one in every])
    fits = [quiet_fit(one.data, "panel", features=one.style, estimate="consensus") for one in every]
    found["panel, systems not known, consensus beyond style"] = np.array(
        [one.people(f.scores) for one, f in zip(every, fits, strict=True)]
    )
    fits = [quiet_fit(one.data, "panel", groups="items", estimate="consensus") for one in every]
    found["panel, systems known, consensus"] = np.array(
        [one.people(f.scores) for one, f in zip(every, fits, strict=True)]
    )
    singles = [systems_known(one) for one in every]
    best = [values[int(np.argmax(one.content))] for one, values in zip(every, singles, strict=True)]
    turns = [one.sign[int(np.argmax(one.content))] for one in every]
    found["the voice of most content, systems known, consensus"] = np.array(best) * np.array(turns)
    found["one voice at random, systems known, consensus"] = np.array([np.mean(values) for values in singles])
    found["best voice in hindsight, the same"] = np.array([np.max(values) for values in singles])
    return found


def systems_known(one: Set) -> list[float]:
    """Each voice alone, with the consensus estimate for one judge."""
    values = []
    for r in range(len(one.heard.names)):
        rows = replace(one.data.take(one.heard.voice == r), judges=None, judge=None)
        values.append(one.people(quiet_fit(rows, "mixed", groups="items", estimate="consensus").scores))
    return values


def show_all(every: list[Set]) -> None:
    found, panel = all_answers(every), is_panel(every)
    print("\n## All answers, no labels: Spearman × 100 with people\n")
    names = [f"{one.name[:3]} {one.attribute[:5]}" for one in every]
    for kind, which in (("panel", panel), ("wordings", ~panel)):
        head = [f"{kind} sets", *(name for name, own in zip(names, which, strict=True) if own), "mean"]
        rows = [
            [name, *(f"{v:.1f}" for v in values[which]), f"{values[which].mean():.1f}"]
            for name, values in found.items()
        ]
        print("\n".join(table(head, rows)))


def chosen_elsewhere(values: Array, panel: Array, part: list[str]) -> tuple[Array, list[int]]:
    """What each set reaches (S,) by the row of `values` (R, S) that is best on all other parts, and these rows."""
    reached, chosen = np.empty(len(part)), []
    for left in dict.fromkeys(part):
        out = np.array([each == left for each in part])
        best = int(np.argmax(values[:, ~out & panel].mean(axis=1) + values[:, ~out & ~panel].mean(axis=1)))
        reached[out], chosen = values[best, out], [*chosen, best]
    return reached, chosen


def show_shares(every: list[Set]) -> None:
    """The share k of what the panel says beyond style, and which is best on all other sets than those left out."""
    panel, means, values = is_panel(every), [], []
    for one in every:
        expected, half = (
            quiet_fit(one.data, "panel", features=one.style, estimate="consensus", validity=k).scores
            for k in (0.0, 0.5)
        )
        values.append([one.people(expected + k * 2.0 * (half - expected)) for k in SHARES])
    reached = np.array(values).T
    for kind, which in (("panel sets", panel), ("wordings sets", ~panel)):
        means.append([kind, *(f"{mean:.1f}" for mean in reached[:, which].mean(axis=1))])
    print("\n## The share of what the panel says beyond style, systems not known\n")
    print("\n".join(table(["", *(f"{k:g}" for k in SHARES)], means)))
    for label, part in (
        ("a data set", [o.name for o in every]),
        ("an attribute", [o.name + o.attribute for o in every]),
    ):
        best, chosen = chosen_elsewhere(reached, panel, part)
        figures = f"{best[panel].mean():.1f} and {best[~panel].mean():.1f}"
        print(f"{label} left out: {figures} with the shares {', '.join(f'{SHARES[number]:g}' for number in chosen)}")


def shown(made: Mapping[str, Array], name: str, row: int) -> str:
    return (
        "–"
        if np.isnan(made[name][row])
        else f"{made[name][row]:.2f} ({made[f'{name}_low'][row]:.2f} to {made[f'{name}_high'][row]:.2f})"
    )


def show_judges() -> None:
    data = Comparisons.read(DATA / "panel" / "judges.mtbench6_en.csv.gz")
    made, whole = reliability(data), quiet_fit(data, "panel")
    graph = whole.graph
    print("\n## Six judges on MT-Bench, decisions in both orders, 95% intervals\n")
    names = ("signal", "agreement", "content", "position", "flips", "ties")
    rows = []
    for row, judge in enumerate(made["judge"].tolist()):
        assert data.judges is not None
        without = quiet_fit(data.take(data.judges[data.judged_by] != judge), "panel")
        same = float(np.nanmean(spearman_within(without.scores, whole.scores, graph.position, graph.contexts)))
        rows.append([judge, *(shown(made, name, row) for name in names), f"{100 * same:.1f}"])
    print("\n".join(table(["judge", *names, "consensus without it"], rows)))


def show_recorded(every: list[Set]) -> None:
    """The reliabilities of the voices of one set, beside their agreement with people."""
    one = next(one for one in every if (one.folder, one.name, one.attribute) == ("panel", "summeval", "relevance"))
    made = reliability(one.data)
    names = ("signal", "agreement", "content", "position", "flips")
    print("\n## The voices on SummEval's relevance, 95% intervals, and Spearman × 100 with people\n")
    rows = [
        [judge, *(shown(made, name, row) for name in names), f"{one.each[row]:.1f}"]
        for row, judge in enumerate(made["judge"].tolist())
    ]
    print("\n".join(table(["voice", *names, "people"], rows)))
    values = [np.corrcoef(each.content, each.sign * each.each)[0, 1] for each in every]
    above = sum(value > 0 for value in values)
    print(f"correlation of content with people over the voices of a set: above 0 in {above} of {len(values)} sets, ")
    print(f"median {np.median(values):.2f}\n")


# The audition


def drawn(one: Set, voice: int, pairs: int, rng: np.random.Generator) -> Array:
    """The rows of so many random pairs per context in both orders, for one voice."""
    context = one.heard.graph.position[one.heard.graph.first[one.rows[0, :, 0]]]
    shuffled = rng.permutation(len(context))
    place = np.empty(len(context), dtype=int)
    order = shuffled[np.argsort(context[shuffled], kind="stable")]
    place[order] = np.arange(len(context)) - np.searchsorted(context[order], context[order])
    return one.rows[voice, place < pairs].ravel()


def alone(one: Set, rows: Array, turn: float, grouped: bool) -> float:
    """The mixed model of one voice's answers; turned round where it ranks against the others."""
    data = replace(one.data.take(rows), judges=None, judge=None)
    fit = quiet_fit(data, "mixed", groups="items", estimate="consensus") if grouped else quiet_fit(data, "mixed")
    return one.ranked(fit, turn)


def each_alone(one: Set, seed: int, grouped: bool) -> list[float]:
    """Every voice with all the calls, on the same pairs."""
    graph = one.heard.graph
    pairs = BUDGET * (graph.nodes // graph.contexts) // 2
    rows = [drawn(one, r, pairs, np.random.default_rng(seed)) for r in range(len(one.heard.names))]
    return [alone(one, own, 1.0, grouped) for own in rows]


def audition(one: Set, seed: int, grouped: bool) -> dict[str, float]:
    """The audition's choices, and calls that are shared equally."""
    rng = np.random.default_rng(seed)
    graph, count, found = one.heard.graph, len(one.heard.names), {}
    size = graph.nodes // graph.contexts
    tried = rng.choice(one.rows.shape[1], PILOT * graph.nodes // (2 * count), replace=False)
    pilot = one.rows[:, tried].reshape(count, -1)
    some = one.data.take(pilot.ravel())
    heard = fit_members(some)
    known = [heard.names.index(name) for name in one.heard.names]
    signal, _, content, *_ = measured(some, heard, None)[:, known]
    turn, rest = np.sign(heard.loading[known]), (BUDGET - PILOT) * size // 2
    for name, value in (("content", content), ("signal", signal)):
        best = int(np.argmax(value))
        rows = np.union1d(pilot[best], drawn(one, best, rest, rng))
        found[f"the rest to the voice of most {name}"] = alone(one, rows, turn[best], grouped)
    two = [drawn(one, int(r), rest // 2, rng) for r in np.argsort(-content)[:2]]
    shared = [drawn(one, r, BUDGET * size // (2 * count), rng) for r in range(count)]
    options = {"groups": "items", "estimate": "consensus"} if grouped else {}
    for name, rows in (
        ("the rest to the two of most content, panel", np.unique(np.concatenate([pilot.ravel(), *two]))),
        ("no audition: calls shared equally, panel", np.concatenate(shared)),
    ):
        found[name] = one.ranked(quiet_fit(one.data.take(rows), "panel", **options))
    return found


def show_few(every: list[Set]) -> None:
    panel = is_panel(every)
    for grouped in (False, True):
        singles = [np.mean([each_alone(one, seed, grouped) for seed in range(DRAWS)], axis=0) for one in every]
        random, best = (np.array([of(values) for values in singles])[None] for of in (np.mean, np.max))
        runs = [[audition(one, seed, grouped) for one in every] for seed in range(DRAWS)]
        ways = {name: np.array([[found[name] for found in run] for run in runs]) for name in runs[0][0]}
        known = "systems known, consensus" if grouped else "systems not known"
        print(f"\n## {BUDGET}n calls in all, {PILOT}n of them for the audition, {DRAWS} draws: {known}\n")
        rows = []
        for name, values in ({"one voice at random": random} | ways | {"best voice in hindsight": best}).items():
            closed = 100 * (values.mean(axis=1) - random.mean()) / (best.mean() - random.mean())
            error = f" ± {np.std(closed, ddof=1) / np.sqrt(DRAWS):.0f}" if len(closed) > 1 else ""
            means = (values[:, panel], values[:, ~panel], values)
            rows.append([name, *(f"{part.mean():.1f}" for part in means), f"{closed.mean():.0f}{error}"])
        print("\n".join(table(["way", "panel sets", "wordings sets", "mean of the sets", "gap closed, %"], rows)))


def simulated(rng: np.random.Generator, kind: str, items: int, contexts: int, calls: int) -> tuple[Comparisons, Array]:
    """Answers of six voices with known shares, each pair in both orders, and their true measures, (6, R)."""
    truth, parts = rng.standard_normal((contexts, items)), []
    between = BETWEEN if contexts > 1 else 0.0
    moved, noise = (MOVED, 1.0) if kind == "soft" else (0.0, LOGISTIC)
    for judge, (scale, taste) in enumerate(zip(SCALES, TASTES, strict=True)):
        view = scale * truth + taste * rng.standard_normal(truth.shape)
        e, gamma = moved * rng.standard_normal(truth.shape), BIAS + between * rng.standard_normal(contexts)
        c = np.repeat(np.arange(contexts), calls // 2)
        i = rng.integers(items, size=len(c))
        j = (i + rng.integers(1, items, size=len(c))) % items
        i, j, c = np.concatenate([i, j]), np.concatenate([j, i]), np.concatenate([c, c])
        d = view[c, i] - view[c, j] - gamma[c] + e[c, i] + e[c, j]
        p = expit(d + rng.standard_normal(len(c))) if kind == "soft" else 1.0 * (rng.random(len(c)) < expit(d))
        parts.append((i, j, p, c, np.full(len(c), judge)))
    first, second, p, context, judge = (np.concatenate(column) for column in zip(*parts, strict=True))
    content, position = 2 * (SCALES**2 + TASTES**2), BIAS**2 + between**2 + 2 * moved**2
    total, rho = content + position + noise, SCALES / np.hypot(SCALES, TASTES)
    true = [rho**2 * content / total, rho, content / total, position / total, noise / total, np.full(len(rho), BIAS)]
    return Comparisons.from_columns(first, second, p, context=context, judge=judge), np.array(true)


def show_calibration() -> None:
    print("\n## Reliabilities by simulation: |mean found − true|, mean over voices; coverage of 95% intervals\n")
    rows = []
    for kind, items, contexts, calls, runs in SIZES:
        found, inside = [], []
        for seed in range(runs):
            data, true = simulated(np.random.default_rng(seed), kind, items, contexts, calls)
            made = reliability(data)
            found.append([made[name] - value for name, value in zip(SHOWN, true, strict=True)])
            inside.append(
                [
                    (made[f"{name}_low"] <= value) & (value <= made[f"{name}_high"])
                    for name, value in zip(SHOWN, true, strict=True)
                ]
            )
        off = np.mean(np.abs(np.mean(found, axis=0)), axis=1)
        cover = np.mean(inside, axis=(0, 2))
        size = f"{kind}, {contexts} × {items} texts, {calls * contexts} calls a voice"
        rows.append([size, runs, *(f"{a:.3f}, {b:.0%}" for a, b in zip(off, cover, strict=True))])
    print("\n".join(table(["answers", "runs", *SHOWN], rows)))


def auditioned(rng: np.random.Generator, kind: str, strengths: tuple[float, ...], pairs: int) -> Comparisons:
    """Answers of judges to the pairs of an audition, in both orders: with a noise of 0.5 logits, or decisions."""
    texts = int(LOOPS * pairs) + 1
    chosen = Selector(list(range(texts)), orders="both", seed=rng).next(2 * pairs)
    first, second = np.array(chosen).T
    truth, parts = rng.standard_normal(texts), []
    for strength in strengths:
        view = strength * (np.sqrt(0.9) * truth + np.sqrt(0.1) * rng.standard_normal(texts))
        d = view[first] - view[second] + BIAS * rng.standard_normal() + 0.5 * rng.standard_normal(len(first))
        parts.append(expit(d) if kind == "soft" else 1.0 * (rng.random(len(d)) < expit(d)))
    count, judge = len(strengths), np.repeat(np.arange(len(strengths)), len(first))
    return Comparisons.from_columns(np.tile(first, count), np.tile(second, count), np.concatenate(parts), judge=judge)


def show_readers(runs: int) -> None:
    """Print what an audition finds of coins and of judges that read, in % of the first judge of each panel."""
    rows = []
    for kind in ("soft", "decisions"):
        for name, strengths in PANELS.items():
            for pairs in (20, 40, 60):
                found = []
                for run in range(runs):
                    rng = np.random.default_rng([run, pairs])
                    data = auditioned(rng, kind, strengths, pairs)
                    reads, is_open, growth = reading(data, data.judged_by, range(len(strengths)), rng)
                    ahead = np.array([lead(data, data.judged_by, best, LEVEL)[0] > 0 for best in range(len(strengths))])
                    leads = reads & np.all(ahead | np.eye(len(reads), dtype=bool) | ~(reads | is_open), axis=1)
                    found.append([reads[0], is_open[0], ~reads.any(), leads[0], leads[1:].any(), growth[0]])
                yes, still, none, right, wrong, growth = np.mean(found, axis=0)
                shares = (f"{100 * share:.1f}" for share in (yes, 1 - yes - still, still, none, right, wrong))
                rows.append([kind, name, pairs, *shares, f"{10 * np.ceil(growth * pairs / 10):.0f}"])
    header = [
        "answers",
        "judges",
        "pairs",
        "reads",
        "reads nothing",
        "not yet known",
        "none reads",
        "first recommended",
    ]
    print("\n".join(table([*header, "another recommended", "pairs suggested"], rows)))


# Runs of several voices


@dataclass(frozen=True)
class View:
    """How a judge sees quality: its scale, its taste, the noise of an answer in logits, its position bias."""

    scale: float = 1.0
    taste: float = 0.5
    noise: float = 1.0
    bias: float = 0.0


GOOD, NOISY, COIN = View(noise=0.5), View(noise=1.5), View(0.0, 0.0)
PANELS_OF_RUNS = {
    "two good, one coin": (GOOD, GOOD, COIN),
    "one good, two noisy": (GOOD, NOISY, NOISY),
    "four good": (GOOD,) * 4,
}
SETS = {
    "SummEval relevance": ("summeval", "relevance", ("qwen15-a", "qwen15-b", "qwen05-a")),
    "SummEval coherence": ("summeval", "coherence", ("qwen15-a", "qwen15-b", "qwen05-a")),
    "TopicalChat engagingness": ("topicalchat", "engagingness", ("qwen15-a", "qwen15-b", "qwen05-a")),
}


@dataclass(frozen=True)
class Shape:
    """Texts, contexts, dollars per text, and how the cheap and the dear judge see them; `kind` is soft or hard."""

    cheap: View
    dear: View
    kind: Answers = "soft"
    texts: int = 60
    contexts: int = 1
    money: int = 50


FAIR, SURE = View(taste=0.4, noise=0.7), View(scale=2.0, taste=0.3)
SHAPES = {
    "noisy and good": Shape(View(taste=0.6, noise=1.5), FAIR),
    "biased by position and good": Shape(View(taste=0.6, bias=1.5), FAIR),
    "of half the scale and good": Shape(View(scale=0.5, taste=0.6), FAIR),
    "noisy and good, three contexts": Shape(View(taste=0.6, noise=1.5), FAIR, "soft", 45, 3, 44),
    "decisions": Shape(View(taste=0.7), SURE, "hard"),
    "decisions, biased by position": Shape(View(taste=0.7, bias=1.0), SURE, "hard"),
    "decisions, three contexts": Shape(View(taste=0.7), SURE, "hard", 45, 3, 44),
    "noisy and sure, of the same taste": Shape(View(noise=1.5), View(noise=0.5)),
    "of much taste and of little": Shape(View(taste=1.0), View(taste=0.3, noise=0.5)),
}


@dataclass(frozen=True)
class Voiced:
    """A judge with a name and a price of its own that works on few questions at once, as a server does."""

    name: str
    asked: Judge
    dollars: float = 0.0

    ahead = 4

    @property
    def settings(self) -> Mapping[str, Any]:
        return self.asked.settings

    @property
    def chooses(self) -> bool:
        return bool(getattr(self.asked, "chooses", False))

    @property
    def price(self) -> tuple[float, float] | None:
        return (0.0, 1e6 * self.dollars) if self.dollars else None  # for a million tokens; an answer has one

    def judge(self, questions: Sequence[Question], prompt: Prompt) -> Iterator[Judgement]:
        return (replace(one, cost=self.dollars) for one in self.asked.judge(questions, prompt))


def run(items: Items, judges: Sequence[Judge], budget: str, **more: Any) -> Run:
    """A finished run of these judges."""
    prompt = criterion_prompt("better", context="Context" if any(items.context_texts) else None)
    panel = voices_of(judges, [prompt])
    task = Task(items, prompt, judges[0], Budget.of(budget), panel=panel if len(panel) > 1 else (), **more)
    made = Run(task, Store(None, task.identity))
    made.go()
    return made


def seen(
    views: Sequence[View], labels: Sequence[Any], truth: Array, rng: np.random.Generator
) -> list[dict[Any, float]]:
    """What each judge makes of the texts, whose true quality is `truth`."""
    own = (view.scale * (truth + view.taste * rng.standard_normal(truth.shape)) for view in views)
    return [dict(zip(labels, scores.ravel().tolist(), strict=True)) for scores in own]


def simulated_runs(draws: int) -> Iterator[list[str]]:
    """A row for each panel: the first voice alone, and all voices."""
    texts = {f"item {k}": f"Text number {k}." for k in range(TEXTS)}
    for name, views in PANELS_OF_RUNS.items():
        found = []
        for seed in range(draws):
            rng = np.random.default_rng(seed)
            truth = rng.standard_normal(TEXTS)
            judges = [
                Voiced(f"voice {r}", Simulated(scores=scores, noise=views[r].noise, seed=10 * seed + r))
                for r, scores in enumerate(seen(views, list(texts), truth, rng))
            ]
            rankings = [run(Items.of(texts), some, CALLS).ranking() for some in (judges[:1], judges)]
            found.append([spearman(np.array([one[item].score for item in texts]), truth) for one in rankings])
        yield [name, *(f"{100 * each:.1f}" for each in np.mean(found, axis=0))]


def recorded_runs() -> Iterator[list[str]]:
    """A row for each set: every voice's own opinion, the best consensus of one voice with groups, all together."""
    for name, (source, attribute, voices) in SETS.items():
        items = load_dataset(source, DATA / f"{source}.jsonl").items
        paths = [f"replay/{DATA / 'panel' / f'{source}.{attribute}.{voice}.csv.gz'}" for voice in voices]
        judges = [Voiced(voice, load_judge(path)) for voice, path in zip(voices, paths, strict=True)]
        alone = [run(items, [judge], FEW).ranking() for judge in judges]
        rankings = [*(one.judged for one in alone), *alone, run(items, judges, FEW).ranking()]
        found = [100 * float(np.nanmean(agreement(one, items)[attribute])) for one in rankings]
        own, consensus = found[: len(voices)], found[len(voices) : -1]
        yield [name, *(f"{each:.1f}" for each in (*own, max(consensus), found[-1]))]


def show_runs(draws: int) -> None:
    print("\n## Several voices in one run: Spearman × 100 with the true quality, and with people\n", flush=True)
    print(*table(["panel", "first alone", "together"], simulated_runs(draws)), sep="\n")
    if (DATA / "panel").exists():
        head = ["set", *next(iter(SETS.values()))[2], "best of one with groups", "together"]
        print(*table(head, recorded_runs()), sep="\n")


def priced(shape: Shape, seeds: Sequence[int]) -> tuple[Array, Array]:
    """Cheap alone, dear alone and both, (draws, 3), and the calls of each judge when both are asked, (draws, 2)."""
    found, calls, views = [], [], (shape.cheap, shape.dear)
    labels = [(c, k) for c in range(shape.contexts) for k in range(shape.texts)]
    items = Items.of([{"id": k, "text": f"Text {k} of {c}.", "context_id": c} for c, k in labels])
    for seed in seeds:
        rng = np.random.default_rng(seed)
        truth = rng.standard_normal((shape.contexts, shape.texts))
        judges = []
        for r, scores in enumerate(seen(views, labels, truth, rng)):
            noise = views[r].noise if shape.kind == "soft" else 0.0
            asked = Simulated(shape.kind, scores, noise=noise, bias=views[r].bias, seed=2 * seed + r)
            judges.append(Voiced(("cheap", "dear")[r], asked, PRICES[r]))
        money = f"${shape.money * len(items)}"
        ways = [run(items, some, money, estimate="judge") for some in (judges[:1], judges[1:], judges)]
        made = Counter(one.question.voice for one in ways[2].judgements)
        found.append([reached(way.ranking(), truth) for way in ways])
        calls.append([made["cheap"], made["dear"]])
    return np.array(found), np.array(calls)


def reached(ranking: Ranking, truth: Array) -> float:
    """Spearman × 100 with the true quality, mean over contexts."""
    found = [
        spearman(np.array([ranking[c, k].score for k in range(truth.shape[1])]), truth[c]) for c in range(len(truth))
    ]
    return 100 * float(np.mean(found))


def show_prices(draws: int) -> None:
    print(f"\n## Two judges, one 20 times as dear, at equal money: {draws} draws\n", flush=True)
    results = spread(partial(priced, seeds=range(draws)), list(SHAPES.values()), os.cpu_count() or 1)
    rows = []
    for name, (found, calls) in zip(SHAPES, results, strict=True):
        gains = [found[:, 2] - found[:, k] for k in range(2)]
        errors = [float(np.std(gain, ddof=1)) / np.sqrt(len(gain)) for gain in gains]
        means = (f"{value:.1f}" for value in found.mean(axis=0))
        against = (f"{gain.mean():+.1f} ± {error:.1f}" for gain, error in zip(gains, errors, strict=True))
        rows.append([name, *means, *against, ", ".join(f"{value:.0f}" for value in calls.mean(axis=0))])
    head = ["judges", "cheap alone", "dear alone", "both", "against cheap", "against dear", "calls of both"]
    print("\n".join(table(head, rows)))


def show_voices() -> None:
    if not (DATA / "panel").exists():
        print(f"skipped, {DATA}/panel is not there")
        return
    every = list(sets())
    for show in (show_all, show_shares, show_few, show_recorded):
        show(every)
    show_judges()


def main(part: str = "all", draws: int | None = None) -> None:
    print("\n# Several voices", flush=True)
    parts: dict[str, Callable[[], None]] = {
        "recorded": show_voices,
        "reliability": show_calibration,
        "readers": lambda: show_readers(draws or 120),
        "runs": lambda: show_runs(draws or 20),
        "prices": lambda: show_prices(draws or 64),
    }
    for name, show in parts.items():
        if part in ("all", name):
            show()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "part", nargs="?", default="all", choices=["all", "recorded", "reliability", "readers", "runs", "prices"]
    )
    parser.add_argument("--draws", type=int)
    main(**vars(parser.parse_args()))
