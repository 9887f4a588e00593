"""The written study: the paper's claims on recorded judgements, as one Markdown page with its images.

Every figure on the page is computed when it is written; the template holds the words around them.

    python -m benchmarks.paper.page --data ../shared/data --out docs/measurements
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import logit

from benchmarks.paper.claims import DEBIASED, OPEN, OPPOSITE, Claim, claims
from benchmarks.paper.datasets import open_dataset
from benchmarks.paper.experiments import PAPER_WHOLE, PLANS, SELECTED, Experiment, experiment
from comparo.analysis.correlations import true_differences
from comparo.plots import BLUE, GREEN, MARKS, VERMILION
from comparo.report.page import environment
from comparo.studies.display import (
    NONE,
    Entry,
    attributes_table,
    correlations_table,
    efficiency,
    entry,
    panels,
    retention_table,
)
from comparo.studies.recorded import Recorded
from comparo.studies.sweep import Results, everything
from comparo.types import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HERE = Path(__file__).parent
JUDGE = "Qwen2.5-Coder-1.5B-Instruct (4-bit weights run in bfloat16, a model for code)"
SHOWN = "relevance"  # the attribute of SummEval whose p is shown: the one on which this judge agrees best with people
BINS, MANY = 20, 0.005  # bins of p, and the least share of comparisons of a bin that is reported
WIDE = 10  # bins of p in the picture of the difference given p
CERTAIN = 0.01  # p closer to 0 or 1 is replaced by this, since its logit would dominate the fit
LABELS = {"poe-bt": "PoE-BT", "poe-g": "PoE-g", "avg-prob": "avg-prob", "win-ratio": "win-ratio"}


def write_study(
    data: Path, out: Path, judgements: Path | None = None, *, draws: int = 100, seed: int = 0, processes: int = 2
) -> Path:
    """Measure all that the sets in the folder `data` allow, write study.md and its images to `out`, return its path."""
    found = {}
    for name, plan in PLANS.items():
        if (data / f"{name}.jsonl").is_file():
            found[name] = experiment(open_dataset(name, data, judgements), plan, draws, seed, processes)
    if "summeval" not in found:
        raise ValueError(f"there is no summeval.jsonl in {data}; give the folder of the data sets with `data`")
    options = "" if (draws, seed) == (100, 0) else f" --draws {draws} --seed {seed}"
    where = f" --judgements {judgements}" if judgements is not None else ""
    text = render(found, draws, f"python -m benchmarks.paper.page --data {data}{where} --out {out}{options}")
    images = out / "images"
    images.mkdir(parents=True, exist_ok=True)
    for name, figure in _figures(found).items():
        figure.savefig(images / f"study_{name}.png", metadata={"Software": None})
    path = out / "study.md"
    path.write_text(text, encoding="utf-8")
    return path


def render(found: Mapping[str, Experiment], draws: int, command: str) -> str:
    """The page as text, from what was measured."""
    templates = environment(HERE).overlay(autoescape=False)
    templates.filters |= {
        "tenths": Entry,
        "entry": lambda values: entry(values) or NONE,
        "table": lambda results, *of: correlations_table(results, *of).markdown(),
        "retention": lambda results: retention_table(results).markdown(),
        "mean": np.mean,
        "diff": np.diff,
    }
    everything = list(found.values())
    stated = claims(everything)
    text = templates.get_template("study.md.j2").render(
        judge=JUDGE,
        command=command,
        draws=draws,
        experiments=everything,
        summeval=found["summeval"],
        claims=stated,
        doubts=_doubts(stated),
        theirs=[few / whole for few, whole in PAPER_WHOLE],
        by_attribute=lambda one: attributes_table(one.random, one.plan.point).markdown(),
        selected=SELECTED,
        worse=_worse_than_length(everything),
        shown=SHOWN,
        linear=_linear(found["summeval"]),
    )
    lines = [line.rstrip() for line in text.splitlines()]
    kept = [line for number, line in enumerate(lines) if line or (number and lines[number - 1])]
    return "\n".join(kept) + "\n"


def efficiency_panels(of: Mapping[str, Mapping[str, tuple[Results, str]]]) -> Figure:
    """A panel for each title with the curves that `efficiency` takes."""
    figure, axes = panels(len(of))
    for (title, curves), ax in zip(of.items(), axes, strict=True):
        efficiency(curves, ax, title=title)
    return figure


def _doubts(stated: Sequence[Claim]) -> list[str]:
    """What did not hold and what is not significant: a line for each claim and verdict, with the figures."""
    lines = []
    for verdict in (OPPOSITE, OPEN):
        for claim in stated:
            parts = [
                f"on {one.title}{one.where} ({'; '.join(one.figures.values())})"
                for one in claim.findings
                if one.verdict == verdict
            ]
            lines += [f"{claim.statement}: **{verdict}** {', '.join(parts)}"] if parts else []
    return lines


def _worse_than_length(everything: Sequence[Experiment]) -> list[str]:
    """Where a count of words agrees better with people than the judge does."""
    return [
        f"{one.plan.title} {attribute}"
        for one in everything
        for attribute, cell in one.longer.items()
        if cell.spearman[0] > one.random.whole("poe-bt", attribute=attribute)
    ]


def _differences(recorded: Recorded) -> tuple[Array, Array, Array]:
    """p, the difference of people's scores, and the weight of each recorded comparison."""
    labels = zip(recorded.contexts[recorded.context].tolist(), recorded.items[recorded.item].tolist(), strict=True)
    known = {label: score for label, score in zip(labels, recorded.human.tolist(), strict=True) if score == score}
    return true_differences(everything(recorded).one(0), known)


def _linear(one: Experiment) -> dict[str, float]:
    """How the mean and the deviation of the true difference depend on p, on the attribute shown."""
    recorded = one.opened.recorded[SHOWN]
    p, apart, weight = _differences(recorded)
    middle, mean, spread = moments(p, apart, weight, BINS)
    counts = np.bincount(np.minimum((p * BINS).astype(int), BINS - 1), minlength=BINS)
    filled = counts[counts > 0] >= MANY * len(p)
    return {
        "width": 1 / BINS,
        "share": MANY,
        "by_bin": np.corrcoef(middle[filled], mean[filled])[0, 1],
        "by_answer": np.corrcoef(p, apart)[0, 1],
        "least": spread[filled].min(),
        "largest": spread[filled].max(),
    }


def moments(p: Array, values: Array, weight: Array, bins: int) -> tuple[Array, Array, Array]:
    """Weighted mean of p, and mean and standard deviation of `values`, in equally wide bins of p that are not empty.

    The deviation of a single value is NaN.

    >>> moments(np.array([0.2, 0.9, 0.9]), np.array([-1.0, 1.0, 3.0]), np.ones(3), bins=2)
    (array([0.2, 0.9]), array([-1.,  2.]), array([nan,  1.]))
    """
    which = np.minimum((p * bins).astype(int), bins - 1)
    counts, total = np.bincount(which, minlength=bins), np.bincount(which, weight, bins)
    filled = counts > 0

    def mean(column: Array) -> Array:
        return np.asarray(np.bincount(which, weight * column, bins)[filled] / total[filled])

    middle = mean(values)
    deviation = np.sqrt(mean((values - middle[(np.cumsum(filled) - 1)[which]]) ** 2))
    return mean(p), middle, np.where(counts[filled] > 1, deviation, np.nan)


def plot_joint(recorded: Recorded, ax: Axes) -> None:
    """Draw the joint distribution of p and the true difference s_first − s_second, as a histogram."""
    p, difference, weight = _differences(recorded)
    reach = float(np.max(np.abs(difference))) or 1.0
    counts, x, y = np.histogram2d(p, difference, BINS, ((0, 1), (-reach, reach)), weights=weight)
    mesh = ax.pcolormesh(x, y, np.ma.masked_equal(counts.T, 0), cmap="cividis_r", vmin=0)
    bar = ax.figure.colorbar(mesh, ax=ax)
    bar.set_label("comparisons", size=9)
    bar.ax.tick_params(labelsize=8)
    _label(ax)


def plot_difference_given_p(recorded: Recorded, ax: Axes) -> None:
    """Draw mean and standard deviation of the true difference given p, and the differences that experts assume.

    The curves are Bradley–Terry's a·logit(p) + c and the linear Gaussian's α·(p − β), by least squares.
    """
    p, difference, weight = _differences(recorded)
    middle, mean, deviation = moments(p, difference, weight, WIDE)
    ax.errorbar(middle, mean, yerr=deviation, color=BLUE, label="mean ± deviation", **MARKS)
    grid = np.linspace(CERTAIN, 1 - CERTAIN, 199)
    surely = np.clip(p, CERTAIN, 1 - CERTAIN)
    for label, of_p, of_grid, colour, style in (
        ("Bradley–Terry", logit(surely), logit(grid), VERMILION, "-"),
        ("linear Gaussian", p, grid, GREEN, "--"),
    ):
        slope, offset = np.polyfit(of_p, difference, 1, w=np.sqrt(weight))
        ax.plot(grid, slope * of_grid + offset, color=colour, linestyle=style, linewidth=1.2, label=label)
    ax.set_xlim(0, 1)
    ax.grid(linewidth=0.4, alpha=0.6)
    ax.legend(fontsize="small", frameon=False)
    _label(ax)


def _label(ax: Axes) -> None:
    ax.set_xlabel("p, that the first is better")
    ax.set_ylabel("true difference")


def _figures(found: Mapping[str, Experiment]) -> dict[str, Figure]:
    everything = list(found.values())
    methods = {one.plan.title: {LABELS[way]: (one.random, way) for way in LABELS} for one in everything}
    selected = {
        one.plan.title: {
            f"{LABELS[method]}, {kind}": (results, f"{method}{ending}")
            for method in ("poe-bt", "win-ratio")
            for kind, results, ending in (("random", one.random, ""), ("selected", one.selected, ", greedy"))
        }
        for one in everything
    }
    orders = {
        one.plan.title: {
            "both orders": (one.random, "poe-bt"),
            "one order, joint bias": (one.one, DEBIASED),
            "one order, plug-in": (one.one, "poe-bt, bias plug-in, one order"),
            "one order, no bias term": (one.one, "poe-bt, one order"),
        }
        for one in everything
    }
    recorded = found["summeval"].opened.recorded[SHOWN]
    judge, (joint, given) = panels(2)
    plot_joint(recorded, joint)
    plot_difference_given_p(recorded, given)
    return {
        "efficiency": efficiency_panels(methods),
        "selection": efficiency_panels(selected),
        "orders": efficiency_panels(orders),
        "judge": judge,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the folder of the data sets")
    parser.add_argument("--judgements", type=Path, help="by default the folder judgements in it")
    parser.add_argument("--out", type=Path, required=True, help="the folder for study.md and its images")
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    given = vars(parser.parse_args())
    print(write_study(given.pop("data"), given.pop("out"), given.pop("judgements"), **given))


if __name__ == "__main__":
    main()
