"""--wording auto against fixed wordings, at 3n calls on recorded answers: figures of docs/measurements/wordings.md.

Every way makes its calls by `comparo.rank`. "auto" spends 320 of them on an audition of the eight built-in wordings.
The fixed wording of a set is the one with the highest mean on the three other sets: no set chooses its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.efficiency import DATA
from benchmarks.paper.datasets import load_dataset
from benchmarks.verdict import table
from benchmarks.wordings import NAMES, PAPER
from comparo.analysis.correlations import agreement
from comparo.data.items import Items
from comparo.data.prompts import Prompt, Question, criterion_prompt
from comparo.data.wordings import WORDINGS
from comparo.judges import Judgement
from comparo.judges.replay import Replay, load
from comparo.run.rank import rank
from comparo.run.voices import AUTO
from comparo.types import Array

SETS = (
    ("summeval", "coherence"),
    ("summeval", "relevance"),
    ("topicalchat", "coherence"),
    ("topicalchat", "naturalness"),
)
BUDGET, DRAWS, ALLOWED = "3n", 10, 0.5  # what auto may lose on a set, in points
LETTERS = {name: letter for letter, name in NAMES.items() if name in WORDINGS}


@dataclass(frozen=True)
class Worded:
    """A judge that answers as was recorded for the wording that it is asked in."""

    recorded: Mapping[str, Replay]

    name = "recorded/qwen15"
    ahead = 8

    @property
    def settings(self) -> Mapping[str, Any]:
        return {}

    def judge(self, questions: Sequence[Question], prompt: Prompt) -> Iterator[Judgement]:
        return self.recorded[str(prompt.wording)].judge(questions, prompt)


def measured(name: str, attribute: str) -> dict[str, Array]:
    """Spearman × 100 with people of every way, by draw: the judge's own ranking and the consensus, (DRAWS, 2)."""
    path = f"{DATA}/wordings/{name}.{attribute}.{{}}.csv.gz"
    judge = Worded({wording: load(path.format(letter)) for wording, letter in LETTERS.items()})
    items = load_dataset(name, DATA / f"{name}.jsonl").items
    asked = set(map(str, judge.recorded[PAPER].recorded.contexts))
    items = items.take(np.flatnonzero([str(context) in asked for context in items.contexts[items.context].tolist()]))
    prompts = {
        wording: criterion_prompt("has better quality", context="Context", wording=wording) for wording in LETTERS
    }
    found: dict[str, list[list[float]]] = {}
    for seed in range(DRAWS):
        for way, prompt in {**prompts, AUTO: list(prompts.values())}.items():
            ranking = rank(
                items,
                judge=judge,
                prompt=prompt,
                wording=AUTO if way == AUTO else None,
                budget=BUDGET,
                seed=seed,
            )
            both = [_people(each, items, attribute) for each in (ranking.judged, ranking)]
            found.setdefault(way, []).append(both)
    return {way: np.array(values) for way, values in found.items()}


def _people(ranking: Any, items: Items, attribute: str) -> float:
    return 100 * float(np.nanmean(agreement(ranking, items)[attribute]))


def show(every: Mapping[str, Mapping[str, Array]], part: int, title: str) -> None:
    print(f"\n## {title}\n")
    names = list(every)
    means = {way: np.array([every[each][way][:, part].mean() for each in names]) for way in (*LETTERS, AUTO)}
    rows = [[way, *(f"{value:.1f}" for value in values), f"{values.mean():.1f}"] for way, values in means.items()]
    fixed, chosen = [], []
    for number in range(len(names)):
        others = [k for k in range(len(names)) if k != number]
        best = max(LETTERS, key=lambda way: float(means[way][others].mean()))
        chosen.append(best)
        fixed.append(every[names[number]][best][:, part])
    gains = [every[each][AUTO][:, part] - own for each, own in zip(names, fixed, strict=True)]
    errors = [float(np.std(gain, ddof=1) / np.sqrt(DRAWS)) for gain in gains]
    rows.append(["fixed, chosen on the other sets", *(f"{own.mean():.1f}" for own in fixed), f"{np.mean(fixed):.1f}"])
    rows.append(["the fixed wording", *chosen, ""])
    each = [f"{gain.mean():+.1f} ± {error:.1f}" for gain, error in zip(gains, errors, strict=True)]
    rows.append(["auto against it", *each, f"{np.mean(gains):+.1f}"])
    print("\n".join(table(["way", *names, "mean"], rows)))
    lost = [name for name, gain in zip(names, gains, strict=True) if gain.mean() < -ALLOWED]
    print(f"auto loses more than {ALLOWED} points on: {', '.join(lost) or 'none'}")


def main() -> None:
    """Print both tables."""
    print(f"\n# --wording auto at {BUDGET} calls, {DRAWS} draws", flush=True)
    if not (DATA / "wordings").exists():
        print(f"skipped, {DATA}/wordings is not there")
        return
    every = {f"{name} {attribute}": measured(name, attribute) for name, attribute in SETS}
    show(every, 0, "The judge's own ranking")
    show(every, 1, "Systems known, consensus")


if __name__ == "__main__":
    main()
