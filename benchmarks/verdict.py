"""From the runs of the benchmark of soundness to its figures, the bars they are held to, and a page in Markdown.

A figure of a cell is a ratio r = Σ x_k / Σ m_k over its R runs k, such as items inside their interval over items, with
the standard error √(R/(R − 1) · Σ (x_k − r m_k)²) / Σ m_k. A cell misses a bar only by more than two such errors, and
never where only one run has observations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.simulation import AXES, Cell, shown
from comparo.types import Array

BINS = 10
LEVEL, LOW, HIGH, LEAST = 0.95, 0.93, 0.97, 0.90  # of coverage: promised, the bar, and what no cell may be under
SHARE = 0.95  # of cells within the bar
OFF = 0.03  # of probabilities
BREAKS = 0.94  # of pairs in different tiers
BELOW_TARGET, BELOW_PLAIN = 0.02, 0.01
WORST = 5  # cells shown per table
Row = Sequence[object]


def ratio(x: Iterable[float], m: Iterable[float]) -> tuple[float, float]:
    """Σx/Σm and its standard error over runs; NaN without any observation, or for the error of one run.

    >>> [round(value, 3) for value in ratio([8, 10], [10, 10])]
    [0.9, 0.1]
    """
    x, m = np.array(list(x), dtype=float), np.array(list(m), dtype=float)
    total, runs = float(np.sum(m)), np.count_nonzero(m)
    if not total:
        return float("nan"), float("nan")
    found = float(np.sum(x)) / total
    if runs < 2:
        return found, float("nan")
    return found, float(np.sqrt(runs / (runs - 1) * np.sum((x - found * m) ** 2)) / total)


def twice(error: float) -> float:
    """Two errors; infinite where the error is unknown."""
    return float("inf") if np.isnan(error) else 2 * error


@dataclass(frozen=True)
class CellResult:
    """The figures of a cell, each with its error."""

    cell: Cell
    runs: int
    coverage: float
    coverage_error: float
    width: float
    slope: float  # of the true scores on the scores: 1 where a score is what is expected of the true one
    breaks: float  # NaN where no two items were in different tiers
    breaks_error: float
    breaks_pairs: int
    calibration: float
    sure: float  # the mean of P − (whether it was so): above 0 where the ranking is too sure
    sure_error: float
    rho: float
    plain_rho: float
    gain: float
    gain_error: float
    seconds: float
    failed: int
    error: str
    bins: Array

    @classmethod
    def of(cls, cell: Cell, outcomes: Sequence[Any]) -> CellResult:
        """The figures from the outcomes of runs."""
        good = [outcome for outcome in outcomes if not outcome.error]
        errors = [outcome.error for outcome in outcomes if outcome.error]
        coverage, error = ratio([one.covered for one in good], [one.items for one in good])
        # Few runs that all cover everything have no spread: the error is at least that of independent items.
        items = sum(one.items for one in good)
        error = float(np.fmax(error, np.sqrt(LEVEL * (1 - LEVEL) / items))) if items else error
        breaks, breaks_error = ratio([one.right for one in good], [one.breaks for one in good])
        ones = [1.0] * len(good)
        gain, gain_error = ratio([one.rho - one.plain_rho for one in good], ones)
        bins = np.sum([one.bins for one in good], axis=0) if good else np.zeros((BINS, 3))
        return cls(
            cell,
            len(good),
            coverage,
            error,
            ratio([one.width for one in good], ones)[0],
            ratio([one.inner for one in good], [one.square for one in good])[0],
            breaks,
            breaks_error,
            sum(one.breaks for one in good),
            off(bins),
            *ratio([np.sum(one.bins[:, 1] - one.bins[:, 2]) for one in good], [np.sum(one.bins[:, 0]) for one in good]),
            ratio([one.rho for one in good], ones)[0],
            ratio([one.plain_rho for one in good], ones)[0],
            gain,
            gain_error,
            ratio([one.seconds for one in good], ones)[0],
            len(errors),
            errors[0] if errors else "",
            bins,
        )


@dataclass(frozen=True)
class StopResult:
    """The figures of a cell and a target: over contexts that stopped before the end of the budget, and over all."""

    cell: Cell
    target: float
    runs: int
    stopped: float
    rho: float
    rho_error: float
    rho_of_all: float
    calls: float
    seconds: float
    failed: int
    error: str

    @classmethod
    def of(cls, cell: Cell, target: float, outcomes: Sequence[Any]) -> StopResult:
        """The figures from the outcomes of runs."""
        good = [outcome for outcome in outcomes if not outcome.error]
        errors = [outcome.error for outcome in outcomes if outcome.error]
        contexts, stopped = [one.contexts for one in good], [one.stopped for one in good]
        return cls(
            cell,
            target,
            len(good),
            ratio(stopped, contexts)[0],
            *ratio([one.rho for one in good], stopped),
            ratio([one.every for one in good], contexts)[0],
            ratio([one.calls for one in good], contexts)[0],
            ratio([one.seconds for one in good], [1.0] * len(good))[0],
            len(errors),
            errors[0] if errors else "",
        )

    @property
    def short(self) -> float:
        """How far ρ at a stop is below its target by more than two errors."""
        return self.target - self.rho - twice(self.rho_error)


def off(bins: Array) -> float:
    """The mean of |observed − predicted| over bins (B, 3), each with the weight of its pairs."""
    return float(np.sum(np.abs(bins[:, 2] - bins[:, 1])) / np.sum(bins[:, 0])) if np.any(bins) else float("nan")


def pooled_off(results: Sequence[CellResult]) -> float:
    """`off` of the pairs of all cells."""
    return off(np.sum([result.bins for result in results], axis=0)) if results else float("nan")


def known(values: Iterable[float]) -> list[float]:
    """The values that are not NaN, or one NaN: what a mean or a median needs."""
    return [value for value in values if not np.isnan(value)] or [float("nan")]


def mean_breaks(results: Sequence[CellResult]) -> float:
    """The share of pairs in different tiers that are in the true order, mean over the cells that have such pairs."""
    return float(np.mean(known(result.breaks for result in results)))


def beyond(result: CellResult) -> float:
    """How far a cell's coverage is outside of the bar by more than two errors; negative where it is inside."""
    return max(LOW - result.coverage, result.coverage - HIGH) - 2 * result.coverage_error


def bars(cells: Sequence[CellResult], stops: Sequence[StopResult]) -> list[Row]:
    """Each bar: what is promised, what was found, and whether it holds."""
    rows: list[Row] = []

    def add(what: str, bar: str, found: str, holds: object) -> None:
        rows.append((what, bar, found, "yes" if holds else "**no**"))

    failed = sum(one.failed for one in cells) + sum(one.failed for one in stops)
    add("runs that fail", "none", str(failed), not failed)
    if cells := [one for one in cells if one.runs]:
        within, few = (
            [beyond(one) <= 0 for one in cells],
            [one.coverage + twice(one.coverage_error) < LEAST for one in cells],
        )
        share = float(np.mean(within))
        add("coverage of 95% intervals", f"93–97% in ≥ {SHARE:.0%} of cells", f"in {share:.1%}", share >= SHARE)
        least = min(cells, key=lambda one: one.coverage)
        found = f"{sum(few)} cells; least {least.coverage:.1%} ± {least.coverage_error:.1%}"
        add("least coverage", f"no cell under {LEAST:.0%} by more than two standard errors", found, not any(few))
        kinds = {"all": list(cells)} | {kind: _of(cells, "kind", kind) for kind in AXES["kind"]}
        for kind, some in kinds.items():
            if some:
                add(f"P(a beats b), {kind}", f"off by ≤ {OFF}", f"{pooled_off(some):.3f}", pooled_off(some) <= OFF)
        right = mean_breaks(cells)
        add("pairs in different tiers", f"≥ {BREAKS:.0%} right", f"{right:.1%}", not right < BREAKS)
        wrong = sum(one.breaks + twice(one.breaks_error) < BREAKS for one in cells)
        add("the same, in each cell", f"none under {BREAKS:.0%}", f"{wrong} cells", not wrong)
        if gains := [one.gain for one in cells if not np.isnan(one.gain)]:
            worse = sum(_worse(one) > 0 for one in cells)
            add("default against plain", f"no cell worse by > {BELOW_PLAIN}", f"{worse} cells", not worse)
            gain, error = ratio(gains, [1.0] * len(gains))
            add("the same, on the mean", "above 0", f"{gain:+.4f} ± {error:.4f}", gain > 0)
    have = [one for one in stops if one.cell.sd > 0 and one.stopped > 0]
    for target in dict.fromkeys(one.target for one in have):
        ends = [one for one in have if one.target == target]
        rho, short = float(np.mean([one.rho for one in ends])), sum(one.short > BELOW_TARGET for one in ends)
        bar = f"mean ρ ≥ {target - BELOW_TARGET:.2f}"
        add(f"until {target}, mean of {len(ends)} cells", bar, f"{rho:.3f}", rho >= target - BELOW_TARGET)
        add(f"until {target}, in each cell", bar, f"{short} cells under it", not short)
    return rows


def _worse(result: CellResult) -> float:
    """How far the default path is below the plain one by more than is allowed and two errors."""
    return -result.gain - BELOW_PLAIN - twice(result.gain_error)


def _unsure(result: CellResult) -> float:
    """How far the mean of P is from what was observed, by more than two errors."""
    return abs(result.sure) - twice(result.sure_error)


def _of(cells: Sequence[CellResult], axis: str, level: object) -> list[CellResult]:
    return [one for one in cells if getattr(one.cell, axis) == level]


def summary(cells: Sequence[CellResult], stops: Sequence[StopResult] = ()) -> str:
    """The page: the bars, the worst cells of each kind, the means by axis, and the stops."""
    counts = [f"{len(cells)} cells × {max(one.runs + one.failed for one in cells)} runs"] if cells else []
    counts += [f"{len(stops)} stops × {max(one.runs + one.failed for one in stops)} runs"] if stops else []
    every: list[CellResult | StopResult] = [*cells, *stops]
    seconds = sum(one.seconds * one.runs for one in every if one.runs)
    page = ["# Soundness", "", f"{', '.join(counts)}; {seconds:.0f} s of runs.", ""]
    page += table(("promise", "bar", "found", "holds"), bars(cells, stops))
    if cells:
        page += ["## Worst cells", ""]
        page += _worst("coverage", cells, beyond, lambda one: _share(one.coverage, one.coverage_error))
        page += _worst("tiers", cells, lambda one: -one.breaks, lambda one: _share(one.breaks, one.breaks_error))
        page += _worst("P − observed", cells, _unsure, lambda one: f"{one.sure:+.3f} ± {one.sure_error:.3f}")
        page += _worst("default − plain", cells, _worse, lambda one: f"{one.gain:+.3f} ± {one.gain_error:.3f}")
        for one in [one for one in cells if one.failed][:WORST]:
            page += [f"{one.failed} runs failed of: {one.cell}: {one.error}", ""]
        page += ["## Means by axis", "", *_marginals(cells)]
    if stops:
        page += ["## Stops", "", *_stops(stops)]
    return "\n".join(page)


def _worst(
    title: str, cells: Sequence[CellResult], key: Callable[[CellResult], float], figure: Callable[[CellResult], str]
) -> list[str]:
    worst = sorted((one for one in cells if not np.isnan(key(one))), key=key, reverse=True)[:WORST]
    return table((title, "cell"), [(figure(one), one.cell) for one in worst])


def _share(value: float, error: float) -> str:
    return "–" if np.isnan(value) else f"{100 * value:.1f} ± {100 * error:.1f}%"


def _marginals(cells: Sequence[CellResult]) -> list[str]:
    """The mean of each figure over the cells of each level of each axis."""
    rows: list[Row] = []
    levels = [("all", "", list(cells))]
    levels += [(axis, shown(level), _of(cells, axis, level)) for axis, every in AXES.items() for level in every]
    for axis, level, some in levels:
        if not (some := [one for one in some if one.runs]):
            continue
        coverage = [one.coverage for one in some]
        outside = float(np.mean([beyond(one) > 0 for one in some]))
        gain, error = ratio([one.gain for one in some], [1.0] * len(some))
        rho, plain = (float(np.mean([getattr(one, name) for one in some])) for name in ("rho", "plain_rho"))
        shares = f"{100 * np.mean(coverage):.1f}", f"{100 * min(coverage):.1f}", f"{outside:.0%}"
        slope, breaks = f"{np.median(known(one.slope for one in some)):.2f}", f"{100 * mean_breaks(some):.1f}"
        gains = f"{rho:.3f}", f"{plain:.3f}", f"{gain:+.4f} ± {error:.4f}"
        rows.append((axis, level, len(some), *shares, slope, breaks, f"{pooled_off(some):.3f}", *gains))
    head = "axis, level, cells, coverage, least, outside, slope, tiers, P off, ρ, ρ plain, difference"
    return table(head.split(", "), rows)


def _stops(stops: Sequence[StopResult]) -> list[str]:
    rows: list[Row] = []
    for one in stops:
        cell, sd = one.cell, shown(one.cell.sd) if one.cell.sd else "0: noise"
        rho = "–" if np.isnan(one.rho) else f"{one.rho:.3f} ± {one.rho_error:.3f}"
        figures = f"{one.stopped:.0%}", rho, f"{one.rho_of_all:.3f}", f"{one.calls:.1f}"
        rows.append((cell.kind, sd, shown(cell.shape), one.target, *figures))
    head = "kind, sd, shape, until, stopped, ρ at the stop, ρ of all, calls per item"
    return table(head.split(", "), rows)


def table(head: Row, rows: Iterable[Row]) -> list[str]:
    """A table in Markdown, and an empty line."""
    lines = (head, ["---"] * len(head), *rows)
    return ["| " + " | ".join(map(str, line)) + " |" for line in lines] + [""]
