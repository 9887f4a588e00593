"""Several voices in one run against one voice, at equal calls: docs/measurements/panel.md.

Simulated: 40 texts of a known quality t. Voice r sees a·(t + τ·u), u its own taste, and answers with noise; a coin sees
nothing. Spearman × 100 with t, the mean of `DRAWS` draws. Recorded: voices of SummEval and TopicalChat, with people's
scores in place of t.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.efficiency import DATA
from benchmarks.paper.datasets import load_dataset
from benchmarks.verdict import table
from comparo.analysis.correlations import agreement, spearman
from comparo.data.items import Items
from comparo.data.prompts import Prompt, Question, criterion_prompt
from comparo.judges import Judge, Judgement, load_judge
from comparo.judges.replay import Replay
from comparo.judges.simulated import Simulated
from comparo.ranking.ranking import Ranking
from comparo.run.budget import Budget
from comparo.run.loop import Run
from comparo.run.store import Store
from comparo.run.task import Task
from comparo.run.voices import voices_of

TEXTS, DRAWS, BUDGET = 40, 20, "20n"
FEW = "6n"  # for recorded voices
GOOD, NOISY, COIN = (1.0, 0.5, 0.5), (1.0, 0.5, 1.5), (0.0, 0.0, 1.0)  # scale a, taste τ, noise
PANELS = {
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
class Voiced:
    """A judge with a name of its own that works on few questions at once, as a server does."""

    name: str
    asked: Judge

    ahead = 4

    @property
    def settings(self) -> Mapping[str, Any]:
        return self.asked.settings

    def judge(self, questions: Sequence[Question], prompt: Prompt) -> Iterator[Judgement]:
        return self.asked.judge(questions, prompt)


def run(items: Items, judges: Sequence[Judge], budget: str) -> Ranking:
    prompt = criterion_prompt("better", context="Context" if any(items.context_texts) else None)
    panel = voices_of(judges, [prompt])
    task = Task(items, prompt, judges[0], Budget.of(budget), panel=panel if len(panel) > 1 else ())
    return Run(task, Store(None, task.identity)).go()


def simulated() -> Iterator[list[str]]:
    """A row for each panel: the first voice alone, and all voices."""
    texts = {f"item {k}": f"Text number {k}." for k in range(TEXTS)}
    for name, kinds in PANELS.items():
        found = []
        for seed in range(DRAWS):
            rng = np.random.default_rng(seed)
            truth = rng.standard_normal(TEXTS)
            judges = []
            for number, (scale, taste, noise) in enumerate(kinds):
                views = scale * (truth + taste * rng.standard_normal(TEXTS))
                scores = dict(zip(texts, views.tolist(), strict=True))
                judges.append(Voiced(f"voice {number}", Simulated(scores=scores, noise=noise, seed=10 * seed + number)))
            items = Items.of(texts)
            found.append([_correlation(run(items, some, BUDGET), texts, truth) for some in (judges[:1], judges)])
        yield [name, *(f"{100 * each:.1f}" for each in np.mean(found, axis=0))]


def recorded() -> Iterator[list[str]]:
    """A row for each set: every voice's own opinion, the best consensus of one voice with groups, all together."""
    for name, (source, attribute, voices) in SETS.items():
        items = load_dataset(source, DATA / f"{source}.jsonl").items
        judges = []
        for voice in voices:
            replay = load_judge(f"replay/{DATA / 'panel' / f'{source}.{attribute}.{voice}.csv.gz'}")
            assert isinstance(replay, Replay)
            judges.append(Voiced(voice, replay))
        alone = [run(items, [judge], FEW) for judge in judges]
        own = [_people(one.judged, items, attribute) for one in alone]
        best = max(_people(one, items, attribute) for one in alone)
        found = (*own, best, _people(run(items, judges, FEW), items, attribute))
        yield [name, *(f"{100 * each:.1f}" for each in found)]


def _people(ranking: Ranking, items: Items, attribute: str) -> float:
    return float(np.nanmean(agreement(ranking, items)[attribute]))


def _correlation(ranking: Ranking, texts: Mapping[str, str], truth: np.ndarray[Any, np.dtype[np.float64]]) -> float:
    return float(spearman(np.array([ranking[item].score for item in texts]), truth))


def main() -> None:
    """Print both tables."""
    print(*table(["panel", "first alone", "together"], simulated()), sep="\n")
    if (DATA / "panel").exists():
        head = ["set", "qwen15-a", "qwen15-b", "qwen05-a", "best of one with groups", "together"]
        print(*table(head, recorded()), sep="\n")


if __name__ == "__main__":
    main()
