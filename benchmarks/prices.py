"""A cheap noisy judge and one that is better and costs 20 times as much, at equal money: docs/measurements/panel.md.

Simulated texts of a known quality t. A judge sees t + τ·u, u its own taste, in its own scale, favours a position, and
answers with noise, or with decisions. The same money pays for calls of the cheap judge alone, of the dear one alone,
and of both in one run, half of it for each. Spearman × 100 with t, the mean of `DRAWS` draws; each difference with its
standard error.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from benchmarks.soundness import spread
from benchmarks.verdict import table
from benchmarks.voices import Voiced
from comparo.analysis.correlations import spearman
from comparo.data.items import Items
from comparo.data.prompts import Prompt, Question, criterion_prompt
from comparo.judges import Judge, Judgement
from comparo.judges.simulated import Answers, Simulated
from comparo.ranking.ranking import Ranking
from comparo.run.budget import Budget
from comparo.run.loop import Run
from comparo.run.store import Store
from comparo.run.task import Task
from comparo.run.voices import voices_of
from comparo.types import Array

DRAWS, SEED = 64, 0
PRICES = (1.0, 20.0)  # dollars for a call


@dataclass(frozen=True)
class View:
    """How a judge sees quality: its scale, its taste, the noise of an answer in logits, its position bias."""

    scale: float = 1.0
    taste: float = 0.5
    noise: float = 1.0
    bias: float = 0.0


@dataclass(frozen=True)
class Shape:
    """Texts, contexts, dollars per text, and how the cheap and the dear judge see them; `kind` is soft or hard."""

    cheap: View
    dear: View
    kind: Answers = "soft"
    texts: int = 60
    contexts: int = 1
    money: int = 50


GOOD, SURE = View(taste=0.4, noise=0.7), View(scale=2.0, taste=0.3)
SHAPES = {
    "noisy and good": Shape(View(taste=0.6, noise=1.5), GOOD),
    "biased by position and good": Shape(View(taste=0.6, bias=1.5), GOOD),
    "of half the scale and good": Shape(View(scale=0.5, taste=0.6), GOOD),
    "noisy and good, three contexts": Shape(View(taste=0.6, noise=1.5), GOOD, "soft", 45, 3, 44),
    "decisions": Shape(View(taste=0.7), SURE, "hard"),
    "decisions, biased by position": Shape(View(taste=0.7, bias=1.0), SURE, "hard"),
    "decisions, three contexts": Shape(View(taste=0.7), SURE, "hard", 45, 3, 44),
    "noisy and sure, of the same taste": Shape(View(noise=1.5), View(noise=0.5)),
    "of much taste and of little": Shape(View(taste=1.0), View(taste=0.3, noise=0.5)),
}


@dataclass(frozen=True)
class Priced(Voiced):
    """A judge with a name and a price of its own."""

    dollars: float

    @property
    def chooses(self) -> bool:
        return bool(getattr(self.asked, "chooses", False))

    @property
    def price(self) -> tuple[float, float]:
        return 0.0, 1e6 * self.dollars  # for a million tokens in and out; an answer has one

    def judge(self, questions: Sequence[Question], prompt: Prompt) -> Iterator[Judgement]:
        return (replace(one, cost=self.dollars) for one in self.asked.judge(questions, prompt))


def run(items: Items, judges: Sequence[Judge], money: float) -> tuple[Ranking, list[Judgement]]:
    """The ranking for so many dollars, and what was answered."""
    prompt = criterion_prompt("better")
    panel = voices_of(judges, [prompt])
    several = panel if len(panel) > 1 else ()
    task = Task(items, prompt, judges[0], Budget.of(f"${money:.0f}"), panel=several, estimate="judge")
    made = Run(task, Store(None, task.identity))
    return made.go(), made.judgements


def drawn(shape: Shape, seed: int) -> tuple[Items, Array, list[Judge]]:
    """Items, their true quality (contexts, texts), and the two judges."""
    rng = np.random.default_rng(seed)
    truth = rng.standard_normal((shape.contexts, shape.texts))
    labels = [(c, k) for c in range(shape.contexts) for k in range(shape.texts)]
    items = Items.of([{"id": k, "text": f"Text {k} of {c}.", "context_id": c} for c, k in labels])
    judges: list[Judge] = []
    for number, (view, dollars) in enumerate(zip((shape.cheap, shape.dear), PRICES, strict=True)):
        seen = view.scale * (truth + view.taste * rng.standard_normal(truth.shape))
        scores = {label: float(seen[label]) for label in labels}
        noise = view.noise if shape.kind == "soft" else 0.0
        asked = Simulated(shape.kind, scores, noise=noise, bias=view.bias, seed=2 * seed + number)
        judges.append(Priced(("cheap", "dear")[number], asked, dollars))
    return items, truth, judges


def reached(ranking: Ranking, truth: Array) -> float:
    """Spearman × 100 with the true quality, mean over contexts."""
    found = [
        spearman(np.array([ranking[c, k].score for k in range(truth.shape[1])]), truth[c]) for c in range(len(truth))
    ]
    return 100 * float(np.mean(found))


def measured(shape: Shape, seeds: Sequence[int]) -> tuple[Array, Array]:
    """Cheap alone, dear alone and both, (draws, 3), and the calls of each judge when both are asked, (draws, 2)."""
    found, calls = [], []
    for seed in seeds:
        items, truth, judges = drawn(shape, seed)
        money = shape.money * len(items)
        ways = [run(items, some, money) for some in ([judges[0]], [judges[1]], judges)]
        for _, answers in ways:
            assert sum(one.cost for one in answers) <= money + PRICES[1]
        made = Counter(one.question.voice for one in ways[2][1])
        found.append([reached(ranking, truth) for ranking, _ in ways])
        calls.append([made["cheap"], made["dear"]])
    return np.array(found), np.array(calls)


def rows(seeds: Sequence[int]) -> Iterator[list[str]]:
    results = spread(partial(measured, seeds=seeds), list(SHAPES.values()), os.cpu_count() or 1)
    for name, (found, calls) in zip(SHAPES, results, strict=True):
        gains = [found[:, 2] - found[:, k] for k in range(2)]
        errors = [float(np.std(gain, ddof=1)) / np.sqrt(len(gain)) for gain in gains]
        yield [
            name,
            *(f"{value:.1f}" for value in found.mean(axis=0)),
            *(f"{gain.mean():+.1f} ± {error:.1f}" for gain, error in zip(gains, errors, strict=True)),
            ", ".join(f"{value:.0f}" for value in calls.mean(axis=0)),
        ]


def main(seed: int = SEED, draws: int = DRAWS) -> None:
    """Print the table."""
    print(f"\n# Two judges, one 20 times as dear, at equal money: {draws} draws\n", flush=True)
    head = ["judges", "cheap alone", "dear alone", "both", "against cheap", "against dear", "calls of both"]
    print("\n".join(table(head, rows(range(seed, seed + draws)))))


if __name__ == "__main__":
    main()
