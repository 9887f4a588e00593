"""How soon a judge that changed is noticed, and how often one that did not is suspected.

    python -m benchmarks.drift                # docs/measurements/drift.md
    python -m benchmarks.drift --draws 20     # a first look

Splices of recorded voices: a run has answers of one voice, and the check asks another, whose answers repeat. Simulated
judges have noise of their own, or decide by chance.
"""

import argparse
import math
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from comparo.analysis.drift import Drift
from comparo.data.comparisons import Comparisons
from comparo.data.prompts import Question, criterion_prompt
from comparo.judges import Judge, Judgement
from comparo.judges.replay import Replay
from comparo.run.check import CALLS, Check, check
from comparo.run.rank import rank
from comparo.run.voices import Voice

PANEL = Path(__file__).parents[2] / "shared" / "data" / "panel"
SETS = {
    "summeval": ("coherence", "consistency", "fluency", "relevance"),
    "topicalchat": ("coherence", "engagingness", "naturalness", "understandability"),
}
ASKED = 300  # answers of a run
ITEMS = 30  # of a simulated run


def splices(old: Comparisons, new: Comparisons, draws: int, calls: int = CALLS) -> list[float]:
    """After how many calls each of some runs by the voice `old` is found to be judged by `new`; inf: not at all."""
    judge, known = Replay(new), [*Replay(old).judge(_questions(old))]
    found = []
    for seed in range(draws):
        rng = np.random.default_rng(seed)
        run = [known[place] for place in rng.permutation(len(known))[:ASKED].tolist()]
        found.append(_delay(run, judge, calls, rng))
    return found


def _questions(data: Comparisons) -> list[Question]:
    columns = data.to_columns()
    rows = zip(columns["context"], columns["first"], columns["second"], strict=True)
    return [Question(first, second, context) for context, first, second in rows]


def _delay(run: Sequence[Judgement], judge: Judge, calls: int, rng: np.random.Generator) -> float:
    drift: Drift = Check([Voice(None, judge, criterion_prompt("better"))], run, calls, rng).ask()
    return math.inf if drift.alarm_after is None else drift.alarm_after


class Noisy:
    """A judge of known scores whose answers to the same question differ: noise in logits, or decisions."""

    name, ahead, cacheable = "noisy", 64, False
    settings: Mapping[str, Any] = {}

    def __init__(self, scores: Mapping[str, float], rng: np.random.Generator, kind: str, **change: float) -> None:
        self.rng, self.kind, self.change = (
            rng,
            kind,
            {"bias": 0.0, "strength": 1.0, "noise": 0.3, "order": 0.0} | change,
        )
        self.chooses = kind == "hard"
        own = self.change["order"]
        spread = float(np.std(list(scores.values())))
        self.scores = {
            name: math.sqrt(1 - own**2) * score + own * spread * float(rng.normal()) for name, score in scores.items()
        }

    def judge(self, questions: Any, prompt: Any = None) -> Any:
        for question in questions:
            apart = self.scores[question.first] - self.scores[question.second]
            value = self.change["strength"] * apart + self.change["bias"]
            if self.kind != "hard":
                value += self.change["noise"] * float(self.rng.normal())
            if self.kind == "rounded":
                value = round(8 * value) / 8
            p = 1 / (1 + math.exp(-value))
            yield Judgement(question, p=float(self.rng.random() < p) if self.kind == "hard" else p, mass=1.0)


def simulated(kind: str, change: Mapping[str, float], draws: int, before: Mapping[str, float]) -> list[float]:
    """After how many calls a change is found in each of some simulated runs."""
    found = []
    for seed in range(draws):
        rng = np.random.default_rng([seed, 37])
        scores = {f"t{number}": float(score) for number, score in enumerate(rng.normal(size=ITEMS))}
        pairs = [(one, other) for one in scores for other in scores if one != other]
        asked = [Question(*pairs[place]) for place in rng.permutation(len(pairs))[:ASKED].tolist()]
        run = list(Noisy(scores, rng, kind, **before).judge(asked))
        found.append(_delay(run, Noisy(scores, rng, kind, **{**before, **change}), CALLS, rng))
    return found


def adaptive(kind: str, draws: int) -> float:
    """The share of false alarms where the run chose its pairs by its answers, to find the best five of 20 texts."""
    alarms = 0
    for seed in range(draws):
        rng = np.random.default_rng(seed)
        scores = {f"t{number}": float(score) for number, score in enumerate(rng.normal(size=20))}
        judge = Noisy(scores, rng, kind, strength=2.0 if kind == "hard" else 1.0)
        texts = {name: f"a story by {name}" for name in scores}
        with tempfile.TemporaryDirectory() as folder:
            rank(texts, "better", judge=judge, strategy="adaptive", goal="top-5", out=f"{folder}/run")
            alarms += check(f"{folder}/run", judge, seed=seed).is_changed
    return alarms / draws


def rounding(noise: float, draws: int) -> float:
    """The share of false alarms where rounding differs from the old answers, and is the same in both new ones."""
    rng, alarms = np.random.default_rng(0), 0
    for _ in range(draws):
        value = rng.normal(size=20)
        old, new = (value + noise * rng.normal(size=20) for _ in range(2))
        alarms += Drift(old, np.column_stack([new, new]), np.zeros(len(old))).is_changed
    return alarms / draws


def _row(name: str, found: Sequence[float]) -> None:
    calls = np.array(found)
    share = [f"{np.mean(calls <= most):.0%}" for most in (16, 40)]
    middle = float(np.median(calls))
    print(f"| {name} | {share[0]} | {share[1]} | {'–' if math.isinf(middle) else f'{middle:.0f}'} |", flush=True)


def main(draws: int) -> None:
    head = "| | found by 16 calls | by 40 | median calls |\n| --- | --- | --- | --- |"
    print(f"Recorded voices, {draws} draws each\n\n{head}")
    total: dict[str, list[float]] = {}
    for name, attributes in SETS.items():
        for attribute in attributes:
            voices = {
                voice: Comparisons.read(PANEL / f"{name}.{attribute}.{voice}.csv.gz")
                for voice in ("qwen15-a", "qwen15-b", "qwen05-a")
            }
            for what, other in (("no change", "qwen15-a"), ("wording a → b", "qwen15-b"), ("1.5B → 0.5B", "qwen05-a")):
                found = splices(voices["qwen15-a"], voices[other], draws)
                total.setdefault(what, []).extend(found)
                if other != "qwen15-a":
                    _row(f"{name} {attribute}, {what}", found)
    for what, every in total.items():
        _row(f"all, {what}", every)
    print(f"\nSimulated judges, {4 * draws} draws each\n\n{head}")
    soft = {"bias + 0.5": {"bias": 0.5}, "bias + 1": {"bias": 1.0}, "half as sharp": {"strength": 0.5}}
    soft |= {"other order (0.8)": {"order": 0.6}, "noise 0.3 → 1.5": {"noise": 1.5}}
    for change in ({}, *soft.values()):
        name = next((name for name, one in soft.items() if one is change), "no change")
        _row(f"soft, {name}", simulated("soft", change, 4 * draws, {}))
    _row("rounded to 1/8, no change", simulated("rounded", {}, 4 * draws, {"noise": 0.08}))
    hard = {"no change": {}, "bias + 2": {"bias": 2.0}, "answers at random": {"strength": 0.0}}
    for name, change in hard.items():
        _row(f"decides, {name}", simulated("hard", change, 4 * draws, {"strength": 2.0}))
    found = ", ".join(f"{kind}: {adaptive(kind, 3 * draws):.1%}" for kind in ("soft", "hard"))
    print(f"\nRuns that chose their pairs by answers, false alarms: {found}")
    print(f"\nRounding of 0.06 logits that all new answers share: {rounding(0.06, 20 * draws):.1%} false alarms")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=100)
    main(parser.parse_args().draws)
