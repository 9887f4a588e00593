"""What half and double of each tuned constant change: the figures of docs/measurements/tuning.md.

    python -m benchmarks.tuning --seeds 4

Each case is drawn once and ranked with every value, so that the differences are paired. Of a probability, a share or a
correlation the odds are halved and doubled. Coverage of 95% intervals and their width are in percent,
ρ is Spearman's correlation with the true scores × 100. The cells are those of the soundness grid, with other seeds; the
worlds of people and machines are those of `benchmarks.people` and `benchmarks.powered`.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from inspect import isfunction
from itertools import product

import numpy as np
from scipy.special import expit, logit

from benchmarks import people, powered, ties
from benchmarks.simulation import draw_cells, simulate
from benchmarks.soundness import agreement, in_rounds, measure, spread
from benchmarks.verdict import table
from comparo.analysis.correlations import spearman
from comparo.data.comparisons import Comparisons
from comparo.methods import Method, quiet_fit
from comparo.model import tuning
from comparo.ranking.ranking import Ranking
from comparo.ranking.votes import with_votes
from comparo.run.fit_policy import Fitting
from comparo.types import Array

Figures = tuple[float, float, float]  # coverage, logarithm of the mean width, ρ
Case = Callable[[], Figures]
FIRST = 1000  # seed, so that none is of the soundness grid
ODDS = {"CLEARLY", "SURELY", "UNIFORM", "RARE", "USUAL_LOADING", "MOST_LOADING", "LEAST_LOADING"}
ODDS |= {"COPY", "SURE_COPY", "REVERSED", "NEARLY", "EQUAL"}
VOICES = {  # scale, taste, noise, and the voice whose taste it shares
    "two good, one coin": ((1.0, 0.5, 0.5, 0), (1.0, 0.5, 0.5, 1), (0.0, 0.0, 1.0, 2)),
    "one good, two noisy": ((1.0, 0.5, 0.5, 0), (1.0, 0.5, 1.5, 1), (1.0, 0.5, 1.5, 2)),
    "two copies and one": ((1.0, 0.7, 0.5, 0), (1.0, 0.7, 0.5, 0), (0.8, 0.5, 0.5, 2)),
    "one reversed": ((1.0, 0.5, 0.5, 0), (1.0, 0.5, 0.5, 1), (-0.7, 0.5, 0.5, 2)),
}


def grid(seed: int, kinds: Sequence[str]) -> Iterator[Case]:
    """Default runs of every fifth cell of the soundness grid."""
    for cell in draw_cells(240)[seed % 5 :: 5]:
        if cell.kind in kinds:
            simulation = simulate(cell, FIRST + seed)
            fitting = Fitting(simulation.items, grouped=cell.groups != "none")
            asked = in_rounds(cell, simulation, fitting, FIRST + seed)

            def case(fitting=fitting, asked=asked, simulation=simulation, cell=cell) -> Figures:
                ranking = fitting.rank(asked)
                found = measure(ranking, simulation, cell.generator(0))
                return found.covered / found.items, np.log(found.width), agreement(ranking, simulation)

            yield case


def panels(seed: int) -> Iterator[Case]:
    """Three voices with 20 to 800 answers each about 40 texts."""
    for kind, rows in product(VOICES.values(), (20, 80, 240, 800)):
        rng = np.random.default_rng([FIRST, seed, rows])
        truth, tastes = rng.standard_normal(40), rng.standard_normal((3, 40))
        first = rng.integers(40, size=(3, rows))
        second = (first + rng.integers(1, 40, size=(3, rows))) % 40
        p = np.empty((3, rows))
        for r, (scale, taste, noise, shared) in enumerate(kind):
            s = scale * truth + taste * tastes[shared]
            p[r] = expit(s[first[r]] - s[second[r]] + 0.3 + noise * rng.standard_normal(rows))
        judge = np.repeat(["a", "b", "c"], rows)
        data = Comparisons.from_columns(first.ravel(), second.ravel(), p.ravel(), judge=judge)
        yield lambda data=data, truth=truth: placed(data, truth, "panel")


def votes(seed: int) -> Iterator[Case]:
    """A judge's ranking with 50 or 150 votes of people."""
    for name, number in product(("usual judge", "groups not known", "any people"), (50, 150)):
        t, _, judged, given = people.drawn(name, number, FIRST + seed)

        def case(t=t, judged=judged, given=given) -> Figures:
            ranking = with_votes(judged, given)
            labels = ranking.graph.labels(ranking.comparisons)
            true = np.array([(t - t.mean(axis=1, keepdims=True))[int(c), int(i)] for c, i in labels])
            return figures(ranking, true)

        yield case


def boards(seed: int) -> Iterator[Case]:
    """People's leaderboard with a machine's help."""
    for machine, number in product(("useful", "useless", "reversed"), (10, 50)):
        setting = powered.Setting(machine, 5, number)

        def case(setting=setting) -> Figures:
            covered, width, *_ = powered.answered(np.random.default_rng([FIRST, seed]), setting)
            return covered, np.log(width), np.nan

        yield case


def tied(seed: int, method: Method = "mixed") -> Iterator[Case]:
    """Decisions with ties about 6 and 30 texts."""
    for items, calls in ties.SCENES:
        data, truth = ties.judged(np.random.default_rng([FIRST, seed]), items, calls, 0.6)
        yield lambda data=data, truth=truth: placed(data, truth, method)


def plain(seed: int) -> Iterator[Case]:
    """The method poe-bt, for decisions and for soft answers of which some are certain."""
    yield from tied(seed, "poe-bt")
    yield from sure(seed, "poe-bt")


def sure(seed: int, method: Method = "mixed") -> Iterator[Case]:
    """Soft answers about 30 texts, 0 or 1 beyond 3 logits."""
    rng = np.random.default_rng([FIRST, seed])
    truth, first = 2.0 * rng.standard_normal(30), rng.integers(30, size=150)
    second = (first + rng.integers(1, 30, size=150)) % 30
    logits = truth[first] - truth[second] + rng.standard_normal(150)
    p = np.where(np.abs(logits) > 3, logits > 0, expit(logits))
    yield lambda: placed(Comparisons.from_columns(first, second, p), truth, method)


def placed(data: Comparisons, truth: Array, method: Method) -> Figures:
    ranking = quiet_fit(data, method, bias="joint")
    return figures(ranking, ranking.graph.centre(truth[ranking.items.astype(int)]))


def figures(ranking: Ranking, true: Array) -> Figures:
    covered = np.mean((ranking.low <= true) & (true <= ranking.high))
    scores = np.round(ranking.scores, 9)
    return float(covered), float(np.log(np.mean(ranking.std))), float(spearman(true[None], scores[None])[0])


ALL = ("soft", "decisions", "votes")
PARTS: dict[str, tuple[tuple[str, ...], Callable[[int], Iterator[Case]]]] = {
    "all runs": (
        ("PULL", "UNTIL", "SHARED_PULL", "NARROWEST", "WIDEST", "QUANTILES"),
        lambda seed: grid(seed, ALL),
    ),
    "soft answers": (("SUREST", "CLEARLY", "SURELY", "TWICE"), lambda seed: grid(seed, ALL[:1])),
    "decisions and votes": (
        ("SLOTS", "SLOTS_ERROR", "POSITION", "POSITION_ERROR", "CLEAR", "UNIFORM", "RARE", "GAP"),
        lambda seed: grid(seed, ALL[1:]),
    ),
    "panels": (
        (
            *("FEW", "LOADING_SPREAD", "USUAL_LOADING", "MOST_LOADING", "LEAST_LOADING"),
            *("COPY", "SURE_COPY", "REVERSED", "NEARLY"),
        ),
        panels,
    ),
    "votes beside a judge": (("SPREAD", "SPREAD_ERROR", "EQUAL", "VARIES"), votes),
    "leaderboards": (("NOTHING_NEW", "EXPECTED"), boards),
    "ties": (("TIE_PRIOR",), tied),
    "poe-bt": (("WIDE", "WIDER"), plain),
    "certain answers": (("LEAST_CAP",), sure),
}


def values(name: str) -> tuple[float, float]:
    """Half and double of a constant, or of its odds."""
    value = getattr(tuning, name)
    if name in ODDS:
        return float(expit(logit(value) - np.log(2))), float(expit(logit(value) + np.log(2)))
    return (5, 17) if name == "QUANTILES" else (type(value)(value / 2), value * 2)


@contextmanager
def constant(name: str, value: float) -> Iterator[None]:
    """Another value of a constant wherever it was imported, also as the default of a parameter."""
    own = getattr(tuning, name)
    modules = [m for key, m in sys.modules.items() if key.startswith("comparo.") and vars(m).get(name) is own]
    names = [one for module in modules for one in vars(module).values()]
    members = [
        thing for one in names if isfunction(one) or isinstance(one, type) for thing in (one, *vars(one).values())
    ]
    given = [(f, f.__defaults__) for f in members if isfunction(f) and any(d is own for d in f.__defaults__ or ())]
    for module in modules:
        setattr(module, name, value)
    for function, defaults in given:
        function.__defaults__ = tuple(value if d is own else d for d in defaults)
    try:
        yield
    finally:
        for module in modules:
            setattr(module, name, own)
        for function, defaults in given:
            function.__defaults__ = defaults


def differences(task: tuple[str, int]) -> dict[tuple[str, int], list[Array]]:
    """The figures of half (0) and double (1) of each constant of a part, less those of its value."""
    part, seed = task
    names, cases = PARTS[part]
    found: dict[tuple[str, int], list[Array]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in cases(seed):
            own = np.array(case())
            for name in names:
                for side, value in enumerate(values(name)):
                    with constant(name, value):
                        found.setdefault((name, side), []).append(100 * (np.array(case()) - own))
    return found


def shown(rows: Array) -> str:
    """The mean difference and its standard error."""
    known = rows[~np.isnan(rows)]
    if not len(known):
        return "–"
    if not known.any():
        return "0"
    return f"{np.mean(known):+.2f} ± {np.std(known, ddof=1) / np.sqrt(len(known)):.2f}"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tuning", description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--part", choices=tuple(PARTS), nargs="+", default=tuple(PARTS))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args(arguments)
    tasks = list(product(given.part, range(given.seeds)))
    results = spread(differences, tasks, given.jobs, "tuning")
    head = ["constant", "value", "cases", "half: coverage", "width", "ρ", "double: coverage", "width", "ρ"]
    for part in given.part:
        rows = []
        for name in PARTS[part][0]:
            one = [found for (own, _), found in zip(tasks, results, strict=True) if own == part]
            sides = [np.array([row for found in one for row in found[name, side]]) for side in (0, 1)]
            figures = [shown(side[:, column]) for side in sides for column in range(3)]
            rows.append([f"`{name}`", f"{getattr(tuning, name):.4g}", len(sides[0]), *figures])
        print(f"\n**{part[0].upper()}{part[1:]}**\n", *table(head, rows), sep="\n", flush=True)


if __name__ == "__main__":
    main()
