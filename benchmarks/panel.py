"""Several voices without a single label: the figures of docs/measurements/panel.md.

People's scores are used to measure only. Scores are Spearman × 100 with people, mean over contexts, then over sets
(`benchmarks.recorded_voices`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from benchmarks.audition import show_calibration, show_few
from benchmarks.bt_sigma import bt_sigma
from benchmarks.efficiency import DATA
from benchmarks.recorded_voices import Set, is_panel, sets
from benchmarks.verdict import table
from comparo.analysis.correlations import spearman_within
from comparo.analysis.reliability import reliability
from comparo.data.comparisons import Comparisons
from comparo.methods import quiet_fit
from comparo.types import Array

SHARES = (0.3, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.85, 1.0)
ANSWERS, PUBLIC = 5400, 99  # a published time for the authors' BT-σ: answers, and seconds


def once(one: Set) -> Array:
    """The weight of each voice with which a family of copies has one vote, (R,)."""
    family = one.heard.family
    return np.asarray(1.0 / np.bincount(family)[family])


VOTES: Mapping[str, Callable[[Set], Array]] = {
    "equal votes": lambda one: np.ones(len(one.content)),
    "equal, copies share a vote": once,
    "votes by content": lambda one: one.content,
    "votes by content, copies share": lambda one: one.content * once(one),
    "votes by content², copies share": lambda one: one.content**2 * once(one),
    "at least ⅔ of the best content": lambda one: (one.content >= one.content.max() / 1.5) * 1.0,
    "votes by signal": lambda one: one.content * one.heard.loading**2,
    "the voice of most content": lambda one: (one.content == one.content.max()) * 1.0,
    "the same, mean γ left out": lambda one: (one.varying == one.varying.max()) * 1.0,
    "votes by it, copies share": lambda one: one.varying * once(one),
    "at least ⅔ of the best of it, copies share": lambda one: (one.varying >= one.varying.max() / 1.5) * once(one),
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
    print("## The rule with the highest mean of both kinds on the other sets, measured on those left out\n")
    rules = [name for name in found if name in VOTES or name.startswith("`fit")]
    values = np.array([found[name] for name in rules])
    parts = {"a data set": [one.name for one in every], "an attribute": [one.name + one.attribute for one in every]}
    rows = []
    for label, part in parts.items():
        reached, best = chosen_elsewhere(values, panel, part)
        rows.append(
            [
                label,
                f"{reached[panel].mean():.1f}",
                f"{reached[~panel].mean():.1f}",
                ", ".join(dict.fromkeys(rules[number] for number in best)),
            ]
        )
    print("\n".join(table(["left out", "panel sets", "wordings sets", "chosen"], rows)))


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


def show_times(every: list[Set]) -> None:
    one = next(one for one in every if (one.folder, one.name) == ("panel", "topicalchat"))
    some = one.data.take(np.isin(one.heard.voice, np.argsort(-one.content)[:3]))
    assert len(some) == ANSWERS
    print(f"\n## Seconds, least of five: {ANSWERS:,} answers of three voices, and {len(every[0].data):,} of five\n")
    rows = []
    for method, fitted in (("BT-σ", bt_sigma), ("panel", partial(quiet_fit, method="panel"))):
        least = []
        for data in (some, every[0].data):
            seconds = []
            for _ in range(5):
                start = time.perf_counter()
                fitted(data)
                seconds.append(time.perf_counter() - start)
            least.append(f"{min(seconds):.3f}")
        rows.append([method, *least])
    rows.append(["the authors' BT-σ, a figure from the literature, not measured here", PUBLIC, "–"])
    print("\n".join(table(["method", f"{ANSWERS:,} answers", f"{len(every[0].data):,} answers"], rows)))


def main() -> None:
    print("\n# Panels: several voices without labels", flush=True)
    if not (DATA / "panel").exists():
        print(f"skipped, {DATA}/panel is not there")
        return
    every = list(sets())
    show_all(every)
    show_shares(every)
    show_few(every)
    show_recorded(every)
    show_judges()
    show_times(every)
    show_calibration()


if __name__ == "__main__":
    main()
