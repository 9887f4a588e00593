"""Which voice to pay: an audition at few calls, and do the intervals of reliabilities hold; docs/measurements/panel.md.

Of 4n calls in all, n go to all voices alike, on the same random pairs in both orders, and the rest to the voice that
shows most. No label is used to choose. People's scores say how much of the way from one voice at random to the best one
in hindsight is gained: Spearman × 100, mean over contexts, draws and sets.

    python -m benchmarks.audition --runs 200

simulates coins and judges that read, and how often an audition tells them apart and recommends the best.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import numpy as np
from scipy.special import expit

from benchmarks.recorded_voices import Set, is_panel
from benchmarks.verdict import table
from comparo.analysis.reading import lead, reading
from comparo.analysis.reliability import measured, reliability
from comparo.data.comparisons import Comparisons
from comparo.methods import quiet_fit
from comparo.model.estimators.panel_members import fit_members
from comparo.model.likelihoods.bradley_terry import LOGISTIC
from comparo.run.audition import LEVEL, LOOPS
from comparo.selection.selector import Selector
from comparo.types import Array

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


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    show_readers(parser.parse_args().runs)
