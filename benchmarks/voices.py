"""Several voices in one run against one voice and against equal shares, at equal calls: docs/measurements/panel.md.

Simulated: 40 texts of a known quality t. Voice r sees a·(t + τ·u), u its own taste, and answers with noise; a coin sees
nothing. Spearman × 100 with t, the mean of `DRAWS` draws with the standard error of the difference. Recorded: voices of
SummEval and TopicalChat, with people's scores in place of t.
"""

from __future__ import annotations

from collections import Counter
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
from comparo.run.voice_allocation import VoiceShares
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


def run(items: Items, judges: Sequence[Judge], budget: str, *, equal: bool = False) -> tuple[Ranking, Counter[Any]]:
    """The ranking of a run, and the calls of each voice; with `equal` shares the first answers decide nothing."""
    prompt = criterion_prompt("better", context="Context" if any(items.context_texts) else None)
    panel = voices_of(judges, [prompt])
    task = Task(items, prompt, judges[0], Budget.of(budget), panel=panel if len(panel) > 1 else ())
    made = Run(task, Store(None, task.identity))
    if equal and made._allocation is not None:
        made._allocation.shares = VoiceShares(dict.fromkeys((str(voice.name) for voice in panel), 1.0 / len(panel)))
        made._allocation.decide = lambda *_: None  # type: ignore[method-assign]
    ranking = made.go()
    return ranking, Counter(judgement.question.voice for judgement in made.judgements)


def simulated() -> Iterator[list[str]]:
    """A row for each panel: the first voice alone, all voices with the same pairs, and with calls shared by answers."""
    texts = {f"item {k}": f"Text number {k}." for k in range(TEXTS)}
    for name, kinds in PANELS.items():
        found, calls = [], []
        for seed in range(DRAWS):
            rng = np.random.default_rng(seed)
            truth = rng.standard_normal(TEXTS)
            judges = []
            for number, (scale, taste, noise) in enumerate(kinds):
                views = scale * (truth + taste * rng.standard_normal(TEXTS))
                scores = dict(zip(texts, views.tolist(), strict=True))
                judges.append(Voiced(f"voice {number}", Simulated(scores=scores, noise=noise, seed=10 * seed + number)))
            items = Items.of(texts)
            ways = [run(items, judges[:1], BUDGET), run(items, judges, BUDGET, equal=True), run(items, judges, BUDGET)]
            found.append([_correlation(ranking, texts, truth) for ranking, _ in ways])
            calls.append([ways[2][1][f"voice {number}"] for number in range(len(kinds))])
        mean, gain = np.mean(found, axis=0), np.array(found)[:, 2] - np.array(found)[:, 1]
        error = np.std(gain) / np.sqrt(DRAWS - 1)
        shares = ", ".join(f"{each:.0f}" for each in np.mean(calls, axis=0))
        yield [name, *(f"{100 * each:.1f}" for each in mean), f"{100 * np.mean(gain):+.1f} ± {100 * error:.1f}", shares]


def recorded() -> Iterator[list[str]]:
    """A row for each set: every voice's own opinion, the best consensus of one voice with groups, all together."""
    for name, (source, attribute, voices) in SETS.items():
        items = load_dataset(source, DATA / f"{source}.jsonl").items
        judges = []
        for voice in voices:
            replay = load_judge(f"replay/{DATA / 'panel' / f'{source}.{attribute}.{voice}.csv.gz'}")
            assert isinstance(replay, Replay)
            judges.append(Voiced(voice, replay))
        alone = [run(items, [judge], FEW)[0] for judge in judges]
        ranking, calls = run(items, judges, FEW)
        own = [_people(one.judged, items, attribute) for one in alone]
        best = max(_people(one, items, attribute) for one in alone)
        shares = ", ".join(f"{calls[voice]:,}" for voice in voices)
        found = (*own, best, _people(ranking, items, attribute))
        yield [name, *(f"{100 * each:.1f}" for each in found), shares]


def _people(ranking: Ranking, items: Items, attribute: str) -> float:
    return float(np.nanmean(agreement(ranking, items)[attribute]))


def _correlation(ranking: Ranking, texts: Mapping[str, str], truth: np.ndarray[Any, np.dtype[np.float64]]) -> float:
    return float(spearman(np.array([ranking[item].score for item in texts]), truth))


def main() -> None:
    """Print both tables."""
    print(*table(["panel", "first alone", "same pairs", "shared", "gain", "calls"], simulated()), sep="\n")
    if (DATA / "panel").exists():
        head = ["set", "qwen15-a", "qwen15-b", "qwen05-a", "best of one with groups", "together", "calls"]
        print(*table(head, recorded()), sep="\n")


if __name__ == "__main__":
    main()
