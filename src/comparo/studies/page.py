"""The written study: the paper's claims on recorded judgements, as one Markdown page with its images.

Every figure on the page is computed when it is written; the template holds the words around them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from comparo.analysis.correlations import moments, true_differences
from comparo.plots.rankings import plot_difference_given_p, plot_joint
from comparo.studies.claims import OPEN, OPPOSITE, Claim, claims
from comparo.studies.experiments import BIASES, PAPER_WHOLE, PLANS, SELECTED, Experiment, experiment
from comparo.studies.figures import efficiency_panels, panels, save
from comparo.studies.recorded import open_set
from comparo.studies.tables import Entry, Table, attributes_table, correlations_table, entry, retention_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HERE = Path(__file__).parent
JUDGE = "Qwen2.5-Coder-1.5B-Instruct (4-bit weights run in bfloat16, a model for code)"
SHOWN = "relevance"  # the attribute of SummEval whose p is shown: the one on which this judge agrees best with people
BINS, MANY = 20, 0.005  # bins of p, and the least share of comparisons of a bin that is reported
LABELS = {"poe-bt": "PoE-BT", "poe-g": "PoE-g", "avg-prob": "avg-prob", "win-ratio": "win-ratio"}


def write_study(
    data: Path, out: Path, judgements: Path | None = None, *, draws: int = 100, seed: int = 0, processes: int = 2
) -> Path:
    """Measure all that the sets in the folder `data` allow, write study.md and its images to `out`, return its path."""
    found = {}
    for name, plan in PLANS.items():
        if (data / f"{name}.jsonl").is_file():
            found[name] = experiment(open_set(name, data, judgements), plan, draws, seed, processes)
    if "summeval" not in found:
        raise ValueError(f"there is no summeval.jsonl in {data}; give the folder of the data sets with `data`")
    options = "" if (draws, seed) == (100, 0) else f" --draws {draws} --seed {seed}"
    where = f" --judgements {judgements}" if judgements is not None else ""
    text = render(found, draws, f"comparo study all --data {data}{where} --out {out}{options}")
    save(_figures(found), out / "images", "study_")
    path = out / "study.md"
    path.write_text(text, encoding="utf-8")
    return path


def render(found: Mapping[str, Experiment], draws: int, command: str) -> str:
    """The page as text, from what was measured."""
    environment = Environment(
        loader=FileSystemLoader(HERE), trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined, autoescape=False
    )
    stated = claims(found)
    everything = list(found.values())
    text = environment.get_template("study.md.j2").render(
        judge=JUDGE,
        command=command,
        draws=draws,
        experiments=everything,
        size=_size,
        recorded=lambda one: f"{sum(map(len, one.opened.recorded.values())):,}",
        means=lambda one: ", ".join(f"{np.mean(r.p):.2f}" for r in one.opened.recorded.values()),
        claims=stated,
        doubts=_doubts(stated),
        remarks=_remarks(found["summeval"]),
        table=lambda results: correlations_table(results).markdown(),
        pearson=lambda results: correlations_table(results, "pearson").markdown(),
        retention=lambda results: retention_table(results).markdown(),
        by_attribute=lambda one: attributes_table(one.random, one.plan.point).markdown(),
        selection=_selection_table(everything).markdown(),
        orders=_orders_table(everything).markdown(),
        sorting=_sorting_table(everything).markdown(),
        length=_length_table(everything).markdown(),
        length_remark=_length_remark(everything),
        linear=_linear(found["summeval"]),
        images=_images(),
    )
    lines = [line.rstrip() for line in text.splitlines()]
    kept = [line for number, line in enumerate(lines) if line or (number and lines[number - 1])]
    return "\n".join(kept) + "\n"


def _size(one: Experiment) -> str:
    recorded = next(iter(one.opened.recorded.values()))
    sizes = np.diff(recorded.starts)
    return f"{len(sizes)} × {sizes[0]:,}"


def _doubts(stated: Sequence[Claim]) -> list[str]:
    """What did not hold and what is not significant: a line for each claim and verdict, with the figures."""
    lines = []
    for verdict in (OPPOSITE, OPEN):
        for claim in stated:
            parts = []
            for said in claim.held:
                title, _, rest = said.partition(": ")
                if rest.startswith(verdict):
                    where = f"{title}{rest.removeprefix(verdict)}"
                    figures = [text for text in claim.ours if text.startswith(where)]
                    parts.append(f"on {where} ({'; '.join(text.partition(': ')[2] for text in figures)})")
            if parts:
                lines.append(f"{claim.statement}: **{verdict}** {', '.join(parts)}")
    return lines


def _remarks(one: Experiment) -> str:
    """What the verdicts do not show."""
    soft, hard = (100 * one.random.whole(method) for method in ("avg-prob", "win-ratio"))
    kept = one.random.mean("poe-bt", one.plan.point) / one.random.whole("poe-bt")
    theirs = [few / whole for few, whole in PAPER_WHOLE]
    return (
        f"Being within 2 of {soft:.1f} is easier than being within 2 of 40: at {one.plan.point} calls this judge keeps "
        f"{kept:.0%} of SummEval's full correlation, the paper's five {min(theirs):.0%} to {max(theirs):.0%}. From all "
        f"comparisons probabilities reach {soft:.1f} there and decisions {hard:.1f}; the paper's judges differ by less "
        "than 1."
    )


def _selection_table(everything: Sequence[Experiment]) -> Table:
    columns = ["method"]
    rows: dict[str, list[Any]] = {method: [method] for method in SELECTED}
    for one in everything:
        point = one.plan.point
        columns += [f"{one.plan.title}, {point} calls, random", "selected"]
        for method, row in rows.items():
            row += [entry(one.random.values(method, point)), entry(one.selected.values(f"{method}, greedy", point))]
    return Table.of("", columns, rows.values())


def _orders_table(everything: Sequence[Experiment]) -> Table:
    names = [f"poe-bt, bias {bias}, one order".replace("bias none, ", "") for bias in BIASES]
    rows = []
    for one in everything:
        point = one.plan.one_point
        for attribute, recorded in one.opened.recorded.items():
            reached = [one.one.mean(name, point, attribute=attribute) for name in names]
            reached.append(one.random.mean("poe-bt", point, attribute=attribute))
            label = f"{one.plan.title} {attribute}, {point} calls"
            rows.append([label, Entry(float(np.mean(recorded.p)), digits=2), *(100 * value for value in reached)])
    columns = ("set", "mean p", *(f"one order, {bias}" for bias in ("no bias term", "plug-in", "joint")), "both orders")
    return Table.of("", columns, rows)


def _sorting_table(everything: Sequence[Experiment]) -> Table:
    rows = []
    for one in everything:
        for name, results in one.beside.items():
            reached = (100 * results.mean(way.name, results.calls[0]) for way in results.ways)
            rows.append([f"{one.plan.title}, {name}", one.sort_calls(name), entry(one.sort_values(name)), *reached])
    ways = (f"PoE-BT, {way}" for way in ("both orders", "both orders, selected", "one order, joint bias"))
    return Table.of("", ("set", "calls", "PairS", *ways), rows)


def _length_table(everything: Sequence[Experiment]) -> Table:
    rows = []
    for one in everything:
        for attribute, cell in one.longer.items():
            judged = (100 * one.random.whole(method, attribute=attribute) for method in ("avg-prob", "poe-bt"))
            rows.append([f"{one.plan.title} {attribute}", 100 * float(cell.spearman[0]), *judged])
    return Table.of("", ("set", "the longer text", "avg-prob", "PoE-BT"), rows)


def _length_remark(everything: Sequence[Experiment]) -> str:
    """Where the judge is worse than a count of words."""
    worse = [
        f"{one.plan.title} {attribute}"
        for one in everything
        for attribute, cell in one.longer.items()
        if cell.spearman[0] > one.random.whole("poe-bt", attribute=attribute)
    ]
    if not worse:
        return "The judge is better than a count of words everywhere."
    return f"A count of words is better than this judge, however many comparisons it makes, on {', '.join(worse)}."


def _linear(one: Experiment) -> str:
    """How the mean and the variance of the true difference go with p, on the attribute shown."""
    recorded = one.opened.recorded[SHOWN]
    p, apart, weight = true_differences(recorded.comparisons(), recorded.scores())
    middle, mean, spread = moments(p, apart, weight, BINS)
    counts = np.bincount(np.minimum((p * BINS).astype(int), BINS - 1), minlength=BINS)
    filled = counts[counts > 0] >= MANY * len(p)
    straight, alone = np.corrcoef(middle[filled], mean[filled])[0, 1], np.corrcoef(p, apart)[0, 1]
    least, largest = spread[filled].min(), spread[filled].max()
    return (
        f"On SummEval's {SHOWN}, in bins of p of width {1 / BINS:g} that hold {MANY:.1%} of the comparisons, the mean "
        f"difference correlates with p by {straight:.2f}, and its deviation goes from {least:.2f} to {largest:.2f}. "
        f"But a single comparison carries little information: p and the difference correlate by {alone:.2f}."
    )


def _images() -> dict[str, dict[str, str]]:
    abouts = {
        "efficiency": "Spearman correlation over the calls, for each set, with 95% bands",
        "selection": "Selected against random pairs",
        "orders": "Both orders against one, debiased and not",
        "judge": f"SummEval {SHOWN}: p and the true score difference, and the difference given p",
    }
    return {name: {"about": about, "path": f"images/study_{name}.png"} for name, about in abouts.items()}


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
            "one order, joint bias": (one.one, "poe-bt, bias joint, one order"),
            "one order, plug-in": (one.one, "poe-bt, bias plug-in, one order"),
            "one order, no bias term": (one.one, "poe-bt, one order"),
        }
        for one in everything
    }
    recorded = found["summeval"].opened.recorded[SHOWN]
    judge, (joint, given) = panels(2)
    plot_joint(recorded.comparisons(), recorded.scores(), ax=joint)
    plot_difference_given_p(recorded.comparisons(), recorded.scores(), ax=given)
    return {
        "efficiency": efficiency_panels(methods),
        "selection": efficiency_panels(selected),
        "orders": efficiency_panels(orders),
        "judge": judge,
    }
