"""Audits: planted biases of simulated judges, and whether a card predicts what a real judge does with styles.

    python -m benchmarks.audit --runs 400
    python -m benchmarks.audit --judge hf/FOLDER

The second command audits a model in several wordings on RM-Bench (../shared/data/rmbench_chat.json.gz), and compares
what the probes say of length and markup with what the judge gives for long and formatted answers of the same quality.
"""

from __future__ import annotations

import argparse
import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import logit
from scipy.stats import spearmanr

from comparo import Judge, Question, load_judge
from comparo.data.covariates import COMPUTED, Term
from comparo.data.probes import OBEYS, ORIGINAL, PROBES, RIVAL, TWIN
from comparo.data.prompts import criterion_prompt
from comparo.run.audit import audit
from comparo.run.audit_card import AuditCard

DATA = Path(__file__).parents[2] / "shared" / "data" / "rmbench_chat.json.gz"
PLANTED = 0.5
DAMAGE = -0.8  # what damage is worth to a simulated judge
WORDINGS = ("delimited", "between", "compare", "before-after", "letter")
TEXTS = [f"The story of number {k} is short. It has a middle, {k * 7} words long. It ends well." for k in range(40)]


def card(kind: str, seed: int, likes: dict[str, float], calls: int) -> AuditCard:
    """The card of a simulated judge that gives so much for each variant."""
    known = {ORIGINAL: 0.0} | {one.name: DAMAGE if one.right == "worse" else 0.0 for one in PROBES if one.name != RIVAL}
    judge = load_judge(f"simulated/{kind}", scores=known | likes, seed=seed)
    return audit(TEXTS, "better", judge=judge, seed=seed, calls=calls).cards[0]


def simulate(runs: int) -> None:
    """Print power and false discoveries for soft answers and decisions."""
    names = [one.name for one in PROBES if one.right in ("equal", "no better") and one.name not in (TWIN, OBEYS)]
    noise = {one.name: 0.0 for one in PROBES if one.name != RIVAL}
    shown = "found, % | false discoveries, % | false alarms, % | of noise, % | covered, %"
    print(f"| answers | calls | planted, logits | {shown} |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for kind, calls, planted in (("soft", 150, PLANTED), ("hard", 150, 1.5), ("hard", 600, 1.0)):
        found, false, alarms, of_noise, covered = [], [], [], [], []
        for run in range(runs):
            name = names[run % len(names)]
            seen = card(kind, run, {name: planted}, calls)
            biases = [one.probe for one in seen.biases]
            found.append(name in biases)
            false.append(sum(one != name for one in biases) / max(1, len(biases)))
            alarms.append(bool(card(kind, runs + run, {}, calls).biases))
            of_noise.append(bool(card(kind, 2 * runs + run, noise, calls).biases))
            for one in seen.findings:
                truth = planted if one.probe == name else DAMAGE if one.right == "worse" else 0.0
                covered.append(one.low <= truth <= one.high)
        shares = " | ".join(f"{100 * np.mean(each):.1f}" for each in (found, false, alarms, of_noise, covered))
        print(f"| {kind} | {calls} | {planted} | {shares} |", flush=True)


def rm_bench(count: int) -> list[dict[str, Any]]:
    with gzip.open(DATA) as file:
        return [json.loads(json.dumps(one)) for one in json.load(file)[:count]]


def real_effects(judge: Judge, wording: str, prompts: list[dict[str, Any]]) -> dict[str, float]:
    """What the judge gives for a detailed and for a formatted answer against the concise and the plain one, in logits.

    RM-Bench holds three styles of every answer, right ones and wrong ones: concise, detailed, detailed with Markdown.
    """
    prompt = criterion_prompt("more helpful", kind="Answer", context="Question", wording=wording)
    pairs = {"length": (1, 0), "markup": (2, 1)}
    asked = []
    for name, (more, less) in pairs.items():
        for one in prompts:
            for answers in (one["chosen"], one["rejected"]):
                for first, second in ((more, less), (less, more)):
                    texts = [answers[first], answers[second]]
                    sign = 1 if first == more else -1
                    asked.append((name, sign, Question("a", "b", context_text=one["prompt"]).with_texts(texts)))
    answers = list(judge.judge([question for *_, question in asked], prompt))
    y = np.array(
        [sign * logit(np.clip(one.p, 1e-4, 1 - 1e-4)) for (_, sign, _), one in zip(asked, answers, strict=True)]
    )
    names = np.array([name for name, *_ in asked])
    return {name: float(np.mean(y[names == name])) for name in pairs}


def predicted_effects(found: AuditCard, prompts: list[dict[str, Any]]) -> dict[str, float]:
    """What the card's terms say of the same pairs: β times the mean step."""
    betas = {term.name: term.mean for term in map(Term.of, found.terms)}

    def step(name: str, more: int, less: int) -> float:
        sides = [answers for one in prompts for answers in (one["chosen"], one["rejected"])]
        return float(np.mean([COMPUTED[name](side[more]) - COMPUTED[name](side[less]) for side in sides]))

    return {
        style: sum(betas[name] * step(name, more, less) for name in ("length", "markup"))
        for style, (more, less) in {"length": (1, 0), "markup": (2, 1)}.items()
    }


def predict(name: str, count: int, calls: int) -> None:
    """Print predicted and real style effects of a model in several wordings, and their correlation."""
    prompts, judge = rm_bench(count), load_judge(name)
    items = [
        {"id": f"{side}{style}", "text": one[side][style], "context": one["prompt"], "context_id": one["id"]}
        for one in prompts
        for side in ("chosen", "rejected")
        for style in range(2)
    ]
    rows = []
    print("| wording | style | by the card | on RM-Bench | biases of the card |\n| --- | --- | ---: | ---: | --- |")
    for wording in WORDINGS:
        how: dict[str, Any] = {"kind": "Answer; heading=Question", "wording": wording, "least_mass": 0.0}
        found = audit(items, "more helpful", judge=judge, calls=calls, **how).cards[0]
        real, told = real_effects(judge, wording, prompts), predicted_effects(found, prompts)
        named = ", ".join(one.probe for one in found.biases) or "none"
        for style in real:
            rows.append((told[style], real[style]))
            print(f"| {wording} | {style} | {told[style]:.2f} | {real[style]:.2f} | {named} |", flush=True)
    table = np.array(rows)
    r, rho = np.corrcoef(table.T)[0, 1], spearmanr(*table.T).statistic
    print(f"\nPearson {r:.2f}, Spearman {rho:.2f} over {len(rows)} effects of {judge.name}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--judge")
    parser.add_argument("--prompts", type=int, default=40)
    parser.add_argument("--calls", type=int, default=300)
    given = parser.parse_args()
    if given.judge:
        predict(given.judge, given.prompts, given.calls)
    else:
        simulate(given.runs)


if __name__ == "__main__":
    main()
