"""The paper's claims, each with its figure there, the figure measured here, and whether it held for this judge.

A difference of two ways has a 95% interval (Student's t): over contexts, each with its mean over draws and attributes,
because other texts would have given other figures; with one context only, over draws, which leaves out that source of
variation. A claim that one way is better held where the interval is above 0, did not hold where it is below, and is not
significant where it contains 0.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import stdtrit

from benchmarks.paper.experiments import (
    METHODS,
    PAPER_HANNA,
    PAPER_PAIRS,
    PAPER_SELECTED,
    PAPER_SUMMEVAL,
    PAPER_TOPICALCHAT,
    PAPER_WHOLE,
    Experiment,
    between,
    by_context,
    signed,
)
from comparo.methods import Method
from comparo.studies.sweep import Results
from comparo.types import Array

HELD, OPPOSITE, OPEN = "held", "did not hold", "not significant"
DEBIASED = "poe-bt, bias joint, one order"
AGREE = 0.5  # two methods agree if their correlations × 100 differ by no more
SETTLED = 0.98  # share of the full correlation at which a method has converged


@dataclass(frozen=True)
class Finding:
    """What was measured for a claim on the data set `title`: labelled figures, and whether it held `where`."""

    title: str
    figures: Mapping[str, str]
    verdict: str
    where: str = ""


@dataclass(frozen=True)
class Claim:
    """What the paper says, its figure, and the findings here."""

    statement: str
    paper: str
    findings: list[Finding]


@dataclass(frozen=True)
class Difference:
    """A difference of correlations × 100, and its 95% interval.

    >>> str(Difference(1.24, 0.51, 1.97)), Difference(1.24, 0.51, 1.97).verdict
    ('+1.2 (+0.5 to +2.0)', 'held')
    """

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        ends = f"{signed(self.low)} to {signed(self.high)}" if self.low == self.low else "interval not known"
        return f"{signed(self.value)} ({ends})"

    @property
    def verdict(self) -> str:
        """Whether the first is better."""
        return HELD if self.low > 0 else OPPOSITE if self.high < 0 else OPEN


def over(gaps: Array) -> Difference:
    """The mean of differences (n,) of correlations × 100, and its interval by Student's t; NaN are left out.

    A single difference has no interval.

    >>> str(over(np.array([0.01, 0.02, 0.03])))
    '+2.0 (−0.5 to +4.5)'
    """
    known = 100 * gaps[~np.isnan(gaps)]
    error = float(np.std(known, ddof=1) / np.sqrt(len(known))) if len(known) > 1 else np.nan
    return _interval(float(np.mean(known)), error, max(len(known) - 1, 1))


def _interval(value: float, error: float, freedom: int) -> Difference:
    reach = float(stdtrit(freedom, 0.975)) * error
    return Difference(value, value - reach, value + reach)


def difference(one: Results, way: str, other: Results, rival: str, calls: str) -> Difference:
    """By how much `way` in the results `one` is better than `rival` in `other`, both at `calls` calls."""
    if len(next(iter(one.recorded.values())).contexts) > 1:
        return over(by_context(one, way, calls) - by_context(other, rival, calls))
    a, b = np.asarray(one.values(way, calls)), np.asarray(other.values(rival, calls))
    return over(a - b) if one is other else _unpaired(a, b)  # the same draws, or different ones


def _unpaired(a: Array, b: Array) -> Difference:
    """The difference of the means of two samples of draws, with the degrees of freedom of the smaller sample."""
    error = 100 * np.sqrt(np.var(a, ddof=1) / len(a) + np.var(b, ddof=1) / len(b))
    return _interval(100 * float(np.mean(a) - np.mean(b)), float(error), min(len(a), len(b)) - 1)


def claims(experiments: Iterable[Experiment]) -> list[Claim]:
    """All claims, on the data sets that were studied."""
    found = [
        Claim(statement, paper, [finding for one in experiments for finding in measure(one)])
        for statement, paper, measure in _CLAIMS
    ]
    return [claim for claim in found if claim.findings]


def _at(calls: str) -> str:
    return f" at {calls.replace('n', ' N')} calls"


def _reported(method: Method, rival: Method) -> str:
    one, other = METHODS.index(method), METHODS.index(rival)
    return "; ".join(
        f"{title} {between(row[one] - row[other] for row in rows)}"
        for title, rows in (("SummEval at 48 calls", PAPER_SUMMEVAL), ("TopicalChat at 18 calls", PAPER_TOPICALCHAT))
    )


def _gap(
    found: Experiment, way: str, rival: str, point: str, *, one: str = "random", other: str = "random", note: str = ""
) -> Finding:
    """How much better `way` in the results called `one` is than `rival` in those called `other`."""
    apart = difference(getattr(found, one), way, getattr(found, other), rival, point)
    return Finding(found.plan.title, {f"{found.plan.title}{_at(point)}{note}": str(apart)}, apart.verdict)


def _products_beat_means(found: Experiment) -> Iterator[Finding]:
    best = max(("avg-prob", "win-ratio"), key=lambda name: found.random.mean(name, found.plan.point))
    yield _gap(found, "poe-bt", best, found.plan.point, note=f" over {best}")


def _a_fifth_is_enough(found: Experiment) -> Iterator[Finding]:
    """The share of the full correlation that poe-bt keeps at few calls; within 2 of it is what the paper names."""
    label = f"{found.plan.title}{_at(found.plan.point)}"
    reached, whole = 100 * found.random.mean("poe-bt", found.plan.point), 100 * found.random.whole("poe-bt")
    figures = {f"{label} {reached:.1f} of {whole:.1f}": f"{reached / whole:.0%}"}
    yield Finding(found.plan.title, figures, HELD if whole - reached <= 2 else OPPOSITE)


def _experts_agree(found: Experiment) -> Iterator[Finding]:
    """poe-g against poe-bt: within half a point of each other."""
    apart = difference(found.random, "poe-g", found.random, "poe-bt", found.plan.point)
    verdict = HELD if max(abs(apart.low), abs(apart.high)) <= AGREE else OPPOSITE
    yield Finding(found.plan.title, {f"{found.plan.title}{_at(found.plan.point)}": str(apart)}, verdict)


def _debiasing_is_needed(found: Experiment) -> Iterator[Finding]:
    mean = [float(np.mean(judgements.p)) for judgements in found.opened.recorded.values()]
    note = f" (mean p {min(mean):.2f} to {max(mean):.2f})"
    yield _gap(found, DEBIASED, "poe-bt, one order", found.plan.one_point, one="one", other="one", note=note)


def _one_order_is_as_good(found: Experiment) -> Iterator[Finding]:
    """Debiased poe-bt in one order against both orders with as many calls, also at the fewest."""
    fewest = next(calls for calls in found.one.calls if calls in found.random.calls)
    for point in dict.fromkeys((fewest, found.plan.one_point)):
        gap = _gap(found, DEBIASED, "poe-bt", point, one="one")
        verdict = f"{HELD} (no significant difference)" if gap.verdict == OPEN else gap.verdict
        yield replace(gap, verdict=verdict, where=_at(point))


def _converges_within_ten(found: Experiment) -> Iterator[Finding]:
    """poe-bt on HANNA at 10 N against all that was recorded."""
    if found.plan.title != "HANNA":
        return
    figures, kept = {}, []
    for attribute in found.random.attributes:
        row = []
        for method in ("avg-prob", "poe-bt"):
            reached = 100 * found.random.mean(method, "10n", attribute=attribute)
            whole = 100 * found.random.whole(method, attribute=attribute)
            row.append(f"{method} {reached:.1f} of {whole:.1f}")
        kept.append(reached / whole)
        figures[f"{attribute} at 10 N"] = ", ".join(row[::-1])
    yield Finding("HANNA", figures, HELD if min(kept) >= SETTLED else OPPOSITE, ", as far as was recorded")


def _beats_sorting(found: Experiment) -> Iterator[Finding]:
    for name, sort in found.sorts.items():
        [calls] = sort.beside.calls
        apart = over(by_context(sort.beside, "poe-bt", calls) - sort.by_context)
        if len(sort.by_context) == 1:
            apart = _unpaired(np.asarray(sort.beside.values("poe-bt", calls)), sort.values)
        reached = f"{100 * sort.beside.mean('poe-bt', calls):.1f} over {100 * np.mean(sort.values):.1f}"
        figures = {f"against {name}, {sort.calls:.0f} calls": f"{reached}, {apart}"}
        yield Finding(found.plan.title, figures, apart.verdict, f" against {name}")


_KEPT = [few / whole for few, whole in PAPER_WHOLE]
_GAINS, _ENDS, _SORTS = (
    [after - before for before, after in pairs] for pairs in (PAPER_SELECTED, PAPER_HANNA, PAPER_PAIRS)
)
_CLAIMS: tuple[tuple[str, str, Callable[[Experiment], Iterable[Finding]]], ...] = (
    (
        "Probabilities beat decisions: avg-prob over win-ratio",
        _reported("avg-prob", "win-ratio"),
        lambda found: [_gap(found, "avg-prob", "win-ratio", found.plan.point)],
    ),
    (
        "The product of experts beats both at 20% of the comparisons: PoE-BT over the better of avg-prob and win-ratio",
        _reported("poe-bt", "avg-prob"),
        _products_beat_means,
    ),
    (
        "PoE-BT is then within 2 of its full correlation",
        f"SummEval at 48 of 240 calls: {min(_KEPT):.0%} to {max(_KEPT):.0%}, four of five judges within 2",
        _a_fifth_is_enough,
    ),
    ("Gaussian and Bradley–Terry experts agree: PoE-g less PoE-BT", _reported("poe-g", "poe-bt"), _experts_agree),
    (
        "Greedy selection adds: PoE-BT on selected pairs over random ones",
        f"SummEval at 48 calls {between(_GAINS)}",
        lambda found: [_gap(found, "poe-bt, greedy", "poe-bt", found.plan.point, one="selected")],
    ),
    (
        "A biased judge asked in one order must be debiased: PoE-BT with a joint bias over none",
        "curves only: large gains for a judge with mean p 0.78, hardly any at 0.51",
        _debiasing_is_needed,
    ),
    (
        "One order, debiased, does as well as both orders with as many calls, and often better with few",
        "curves only: similar",
        _one_order_is_as_good,
    ),
    ("PoE-BT converges within 10 N calls on HANNA", f"{between(_ENDS)} from 10 N to 50 N", _converges_within_ten),
    ("PoE-BT beats PairS", f"SummEval, PairS-beam: {between(_SORTS, 0)} by attribute", _beats_sorting),
)
