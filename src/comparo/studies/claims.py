"""The paper's claims, each with its figure there, the figure measured here, and whether it held for this judge.

A difference of two ways has a 95% interval (Student's t): over contexts, each with its mean over draws and attributes,
because other texts would have given other figures; with one context only, over draws, which leaves out that source of
variation. A claim that one way is better held where the interval is above 0, did not hold where it is below, and is not
significant where it contains 0.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from comparo.methods import Method
from comparo.studies.experiments import (
    METHODS,
    PAPER_HANNA,
    PAPER_PAIRS,
    PAPER_SELECTED,
    PAPER_SUMMEVAL,
    PAPER_TOPICALCHAT,
    PAPER_WHOLE,
    Experiment,
    between,
    signed,
)
from comparo.studies.sweep import Results
from comparo.types import Array

HELD, OPPOSITE, OPEN = "held", "did not hold", "not significant"
DEBIASED = "poe-bt, bias joint, one order"
AGREE = 0.5  # two methods agree if their correlations × 100 differ by no more
SETTLED = 0.98  # share of the full correlation at which a method has converged

Experiments = Mapping[str, Experiment]
Finding = tuple[str, str]  # what was measured on a data set, and the verdict on it


@dataclass(frozen=True)
class Claim:
    """What the paper says, its figure, ours for each data set, and whether it held there."""

    statement: str
    paper: str
    ours: tuple[str, ...]
    held: tuple[str, ...]


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
        return f"{signed(self.value)} ({signed(self.low)} to {signed(self.high)})"

    @property
    def verdict(self) -> str:
        """Whether the first is better."""
        return HELD if self.low > 0 else OPPOSITE if self.high < 0 else OPEN


def over(gaps: Array) -> Difference:
    """The mean of differences (n,) of correlations × 100, and its interval by Student's t; NaN are left out.

    >>> str(over(np.array([0.01, 0.02, 0.03])))
    '+2.0 (−0.5 to +4.5)'
    """
    known = 100 * gaps[~np.isnan(gaps)]
    return _interval(float(np.mean(known)), float(np.std(known, ddof=1) / np.sqrt(len(known))), len(known) - 1)


def _interval(value: float, error: float, freedom: int) -> Difference:
    reach = float(stdtrit(freedom, 0.975)) * error
    return Difference(value, value - reach, value + reach)


def difference(one: Results, way: str, other: Results, rival: str, calls: str) -> Difference:
    """By how much `way` in the results `one` is better than `rival` in `other`, both at `calls` calls."""
    if len(next(iter(one.recorded.values())).contexts) > 1:
        return over(one.by_context(way, calls) - other.by_context(rival, calls))
    a, b = one.values(way, calls), other.values(rival, calls)
    if a is None or b is None:
        raise ValueError(f"{way} or {rival} was not studied at {calls} calls")
    return over(a - b) if one is other else _unpaired(a, b)  # the same draws, or different ones


def _unpaired(a: Array, b: Array) -> Difference:
    """The difference of the means of two samples of draws, with the degrees of freedom of the smaller sample."""
    error = 100 * np.sqrt(np.var(a, ddof=1) / len(a) + np.var(b, ddof=1) / len(b))
    return _interval(100 * float(np.mean(a) - np.mean(b)), float(error), min(len(a), len(b)) - 1)


def claims(experiments: Experiments) -> list[Claim]:
    """All claims, on the data sets that were studied."""
    kept = [few / whole for few, whole in PAPER_WHOLE]
    gains, ends, sorts = (
        [after - before for before, after in pairs] for pairs in (PAPER_SELECTED, PAPER_HANNA, PAPER_PAIRS)
    )
    every: list[tuple[str, str, Callable[[Experiment], Iterator[Finding]]]] = [
        (
            "Probabilities beat decisions: avg-prob over win-ratio",
            _reported("avg-prob", "win-ratio"),
            _probabilities_beat_decisions,
        ),
        (
            "The product of experts beats both at 20% of the comparisons: PoE-BT over the better of avg-prob and "
            "win-ratio",
            _reported("poe-bt", "avg-prob"),
            _products_beat_means,
        ),
        (
            "PoE-BT is then within 2 of its full correlation",
            f"SummEval at 48 of 240 calls: {min(kept):.0%} to {max(kept):.0%}, four of five judges within 2",
            _a_fifth_is_enough,
        ),
        (
            "Gaussian and Bradley–Terry experts agree: PoE-g less PoE-BT",
            _reported("poe-g", "poe-bt"),
            _experts_agree,
        ),
        (
            "Greedy selection adds: PoE-BT on selected pairs over random ones",
            f"SummEval at 48 calls {between(gains)}",
            _selection_adds,
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
        (
            "PoE-BT converges within 10 N calls on HANNA",
            f"{between(ends)} from 10 N to 50 N",
            _converges_within_ten,
        ),
        ("PoE-BT beats PairS", f"SummEval, PairS-beam: {between(sorts, 0)} by attribute", _beats_sorting),
    ]
    found = []
    for statement, reported, of in every:
        findings = [(one.plan.title, *finding) for one in experiments.values() for finding in of(one)]
        ours = tuple(figure for _, figure, _ in findings if figure)
        held = tuple(f"{title}: {verdict}" for title, _, verdict in findings if verdict)
        found += [Claim(statement, reported, ours, held)] if findings else []
    return found


def _at(calls: str) -> str:
    return f"at {calls.replace('n', ' N')} calls"


def _reported(method: Method, rival: Method) -> str:
    one, other = METHODS.index(method), METHODS.index(rival)
    return "; ".join(
        f"{title} {between(row[one] - row[other] for row in rows)}"
        for title, rows in (("SummEval at 48 calls", PAPER_SUMMEVAL), ("TopicalChat at 18 calls", PAPER_TOPICALCHAT))
    )


def _gap(found: Experiment, one: Results, way: str, other: Results, rival: str, point: str, where: str = "") -> Finding:
    apart = difference(one, way, other, rival, point)
    return f"{found.plan.title} {_at(point)}{where}: {apart}", apart.verdict


def _probabilities_beat_decisions(found: Experiment) -> Iterator[Finding]:
    yield _gap(found, found.random, "avg-prob", found.random, "win-ratio", found.plan.point)


def _products_beat_means(found: Experiment) -> Iterator[Finding]:
    best = max(("avg-prob", "win-ratio"), key=lambda name: found.random.mean(name, found.plan.point))
    yield _gap(found, found.random, "poe-bt", found.random, best, found.plan.point, f" over {best}")


def _a_fifth_is_enough(found: Experiment) -> Iterator[Finding]:
    """The share of the full correlation that poe-bt keeps at few calls; within 2 of it is what the paper names."""
    point = found.plan.point
    reached, whole = 100 * found.random.mean("poe-bt", point), 100 * found.random.whole("poe-bt")
    verdict = HELD if whole - reached <= 2 else OPPOSITE
    yield f"{found.plan.title} {_at(point)} {reached:.1f} of {whole:.1f}: {reached / whole:.0%}", verdict


def _experts_agree(found: Experiment) -> Iterator[Finding]:
    """poe-g against poe-bt: within half a point of each other."""
    apart = difference(found.random, "poe-g", found.random, "poe-bt", found.plan.point)
    agree = max(abs(apart.low), abs(apart.high)) <= AGREE
    yield f"{found.plan.title} {_at(found.plan.point)}: {apart}", HELD if agree else OPPOSITE


def _selection_adds(found: Experiment) -> Iterator[Finding]:
    yield _gap(found, found.selected, "poe-bt, greedy", found.random, "poe-bt", found.plan.point)


def _debiasing_is_needed(found: Experiment) -> Iterator[Finding]:
    mean = [float(np.mean(judgements.p)) for judgements in found.opened.recorded.values()]
    where = f" (mean p {min(mean):.2f} to {max(mean):.2f})"
    yield _gap(found, found.one, DEBIASED, found.one, "poe-bt, one order", found.plan.one_point, where)


def _one_order_is_as_good(found: Experiment) -> Iterator[Finding]:
    """Debiased poe-bt in one order against both orders with as many calls, also at the fewest."""
    fewest = next(calls for calls in found.one.calls if calls in found.random.calls)
    for point in dict.fromkeys((fewest, found.plan.one_point)):
        figure, verdict = _gap(found, found.one, DEBIASED, found.random, "poe-bt", point)
        yield figure, f"{verdict.replace(OPEN, f'{HELD} (no significant difference)')} {_at(point)}"


def _converges_within_ten(found: Experiment) -> Iterator[Finding]:
    """poe-bt on HANNA at 10 N against all that was recorded."""
    kept = []
    for attribute in found.random.attributes if found.plan.title == "HANNA" else ():
        row = []
        for method in ("poe-bt", "avg-prob"):
            reached = 100 * found.random.mean(method, "10n", attribute=attribute)
            whole = 100 * found.random.whole(method, attribute=attribute)
            row.append(f"{method} {reached:.1f} of {whole:.1f}")
            kept += [reached / whole] if method == "poe-bt" else []
        yield f"{attribute} at 10 N: {', '.join(row)}", ""
    if kept:
        yield "", f"{HELD if min(kept) >= SETTLED else OPPOSITE}, as far as was recorded"


def _beats_sorting(found: Experiment) -> Iterator[Finding]:
    for name, results in found.beside.items():
        [calls] = results.calls
        by_context = results.by_context("poe-bt", calls) - found.sort_by_context(name)
        values, sort = results.values("poe-bt", calls), found.sort_values(name)
        apart = over(by_context) if len(by_context) > 1 or values is None else _unpaired(values, sort)
        reached = f"{100 * results.mean('poe-bt', calls):.1f} over {100 * np.mean(sort):.1f}"
        yield (
            f"against {name}, {found.sort_calls(name):.0f} calls: {reached}, {apart}",
            f"{apart.verdict} against {name}",
        )
