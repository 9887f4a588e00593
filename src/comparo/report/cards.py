"""Can I trust this? The figures of the page's cards, and their verdicts.

cards.html.j2 has what each card says, also where the bounds of its verdict come from (`source`). Where a bound of the
verdicts fine, check and poor is measured, `python -m benchmarks.bounds` shows the measurement: simulated judges with
more and more noise are asked 6 calls per item in both orders, and the figure is read where the ranking's Spearman
correlation with the true scores falls to 0.90 (`fine`) and to 0.75 (`check`). 6 calls are fewer than the 10 of `comparo
rank`.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from comparo.analysis.confidence import top_probability, top_share
from comparo.analysis.correlations import mean_known
from comparo.ranking.judge_tables import control_name, control_sentences
from comparo.ranking.self_consistency import count_flips
from comparo.ranking.tabular import rows_of
from comparo.report.measures import Outlook, as_many_again, length_correlation, position_bias, residuals
from comparo.report.record import Record

Verdict = Literal["fine", "check", "poor", "plain"]


@dataclass(frozen=True, slots=True)
class Bound:
    """The verdict on a figure: fine up to `fine`, check up to `check`, else poor; down to them if `check` < `fine`.

    >>> Bound(0.9, 0.75).verdict(0.8), Bound(0.05, 0.15).verdict(0.2), Bound(0.0, 1.0).verdict(math.nan)
    ('check', 'poor', 'plain')
    """

    fine: float
    check: float

    def verdict(self, value: float) -> Verdict:
        """The verdict on a figure; `plain` where it is unknown."""
        if math.isnan(value):
            return "plain"
        sign = 1 if self.check >= self.fine else -1
        if sign * value <= sign * self.fine:
            return "fine"
        return "check" if sign * value <= sign * self.check else "poor"


def pairs_in_order(spearman: float) -> float:
    """The share of pairs in the right order at a Spearman correlation, exact where scores and estimates are normal.

    ½ + asin(2·sin(πρ/6)) / π (Kendall, Rank Correlation Methods, 1948).

    >>> round(pairs_in_order(0.9), 2), round(pairs_in_order(0.75), 2), pairs_in_order(0.0)
    (0.86, 0.78, 0.5)
    """
    return 0.5 + math.asin(min(2 * math.sin(math.pi * spearman / 6), 1.0)) / math.pi


# Definition: `pairs_in_order` of 0.90 and 0.75 are 86% and 78%.
SPEARMAN = Bound(0.9, 0.75)
# Definition: by `pairs_in_order`, 0.03 more at 0.9 puts 2 more of 100 pairs into the right order, for twice the calls.
WORTH = 0.03
# Definition: at 0.9, at most one of ten runs is wrong; below ½, a run is more probably wrong than right.
TOP = Bound(0.9, 0.5)
# Definition: with three comparisons a single answer is outvoted by the other two.
COMPARISONS = 3
# Measured, with P(the first of equal texts wins) not removed from the scores: 0.55 lowers the Spearman correlation by
# 0.003, and 0.65 by 0.025.
POSITION = Bound(0.05, 0.15)
# Measured, with the bias estimated along with the scores: 0.6 lowers it by less than 0.001 and 0.8 by 0.005 if the
# bias is the same for all texts. Real judges' bias differs between texts, so the bounds are narrower.
POSITION_FITTED = Bound(0.1, 0.3)
FLIPS = Bound(0.3, 0.42)  # measured
CONTRADICTING = Bound(0.2, 0.29)  # measured
# Cohen (Statistical Power Analysis, 1988) calls a correlation of 0.3 medium. docs/measurements/study.md, "The longer
# text wins": people's own scores on ten attributes correlate with the length by −0.02 to 0.53, so that 0.6 is beyond
# any of them.
LENGTH = Bound(0.3, 0.6)
# Definition: with mass m on the two labels, the rest, 1 − m, could move p by up to 1 − m. At m = ½ it could reverse any
# answer, and `comparo rank` stops there (Task.least_mass).
MASS = Bound(0.9, 0.5)
# Definition: the width of intervals is proportional to 1/√calls: 5% fewer calls widen them by 1/√0.95 − 1 = 3%.
FAILED = Bound(0.0, 0.05)


@dataclass(frozen=True, slots=True)
class Card:
    """A figure to know before trusting the ranking, written by the macro `kind` from `values`.

    The verdict is `plain` where the figure is neither good nor bad. A card that is not `main` is among those for
    specialists.
    """

    kind: str
    values: dict[str, Any]
    verdict: Verdict = "plain"
    main: bool = True


def cards(record: Record, ahead: Sequence[Outlook]) -> list[Card]:
    """All cards, the most important first."""
    found = [
        _expected(record),
        _goal(record),
        _more(record, ahead),
        _whose(record),
        _position(record),
        _flips(record),
        _fit(record),
        _length(record),
        *_equal(record),
        _connected(record),
        _failures(record),
        _mass(record),
        Card("calls", {"made": len(record.answered), "possible": record.possible}, main=False),
    ]
    return [card for card in found if card is not None]


def _graded(kind: str, bound: Bound, value: float, /, **values: Any) -> Card:
    """A card with the verdict of a bound on `value`."""
    return Card(kind, values, bound.verdict(value))


def _expected(record: Record) -> Card:
    value, low, high = mean_known(record.spearman), np.min(record.spearman), np.max(record.spearman)
    return _graded("expected", SPEARMAN, value, value=value, low=low, high=high)


def _goal(record: Record) -> Card | None:
    if (k := record.ranking.solution.best) is None:
        return None
    value, every = (mean_known(found(record.ranking, k)) for found in (top_share, top_probability))
    return _graded("goal", TOP, value, k=k, value=value, every=every)


def _more(record: Record, ahead: Sequence[Outlook]) -> Card | None:
    """The expected correlation after more calls; None if no more are possible, or it is unknown."""
    now, is_joined = ahead[0].expected, bool(record.joined.all())
    if len(ahead) == 1 or math.isnan(now):
        return None
    values = {"is_joined": is_joined, "now": now, "steps": ahead[1:]}
    if not is_joined:
        return Card("more", values, "check")
    is_worth = as_many_again(ahead).expected - now >= WORTH
    return Card("more", values, "check" if is_worth else "fine")


def _whose(record: Record) -> Card | None:
    """Whose scores these are, a consensus or people's; None where they are the judge's own."""
    solution, votes = record.ranking.solution, record.ranking.people
    if votes is None and (record.ranking.estimate == "judge" or solution.effects is None):
        return None
    return Card("whose", {"votes": votes, "validity": solution.validity, "effects": solution.effects})


def _position(record: Record) -> Card:
    """The position bias."""
    found = position_bias(record.ranking)
    bound = POSITION_FITTED if found.fitted else POSITION
    has_bias = record.ranking.method.startswith(("poe", "mixed", "panel"))
    values = {"found": found, "both": _has_both_orders(record), "has_bias": has_bias}
    return _graded("position", bound, abs(found.wins - 0.5), **values)


def _flips(record: Record) -> Card | None:
    """The number of pairs whose winner changes with the order."""
    flips = count_flips(record.ranking.comparisons)
    values = {"flipped": flips.flipped, "pairs": flips.pairs, "both": _has_both_orders(record)}
    if flips.pairs:
        return _graded("flips", FLIPS, flips.flipped / flips.pairs, **values)
    return None if record.is_fitted or record.is_voted else Card("flips", values, main=False)


def _has_both_orders(record: Record) -> bool:
    flips = count_flips(record.ranking.comparisons)
    return flips.pairs > 0 and (flips.once == 0 or record.identity.get("orders") == "both")


def _fit(record: Record) -> Card:
    """The share of answers that prefer the text with the lower score."""
    share, rms = residuals(record.p, record.expected, record.even)
    return _graded("fit", CONTRADICTING, share, share=share, rms=rms)


def _length(record: Record) -> Card | None:
    """The correlation of scores with the length of texts; None where the texts are unknown."""
    if not record.has_texts:
        return None
    value = length_correlation(record, record.ranking.scores)
    own = [(name, length_correlation(record, scores)) for name, scores in record.people.items()]
    values = {"value": value, "people": [each for each in own if not math.isnan(each[1])]}
    verdict = LENGTH.verdict(abs(value))
    return Card("length", values, verdict, main=verdict != "plain")


def _equal(record: Record) -> list[Card]:
    """The coefficient of each controlled feature per judge."""
    table = record.ranking.tables.get("control")
    if table is None:
        return []
    found = zip(control_sentences(table), rows_of(table), strict=True)
    return [Card("equal", {"columns": control_name(table), "sentence": each, "row": row}) for each, row in found]


def _connected(record: Record) -> Card:
    """Whether comparisons connect all texts of a context."""
    ranking, items = record.ranking, record.items
    lone = np.isnan(ranking.std)
    rest = set(range(len(items))) - set(record.row.tolist())
    missing = [*sorted(rest), *record.row[lone].tolist()]
    groups = ranking.graph.components - int(np.count_nonzero(lone))
    least = int(np.min(ranking.graph.degrees()))
    verdict: Verdict = "fine" if least >= COMPARISONS else "check"
    if missing or groups > ranking.graph.contexts:
        verdict = "poor"
    values = {"missing": items.ids[missing].tolist(), "groups": groups, "least": least}
    return Card("connected", values, verdict, main=verdict != "fine")


def _failures(record: Record) -> Card | None:
    """Calls without an answer, and texts that were cut; None for recorded comparisons."""
    if record.is_fitted:
        return None
    errors = Counter(str(judgement.error) for judgement in record.judgements if judgement.failed)
    failed, made = errors.total(), len(record.judgements)
    error, times = errors.most_common(1)[0] if failed else ("", 0)
    cut = sum(judgement.cut > 0 for judgement in record.answered)
    verdict = "check" if cut and not failed else FAILED.verdict(failed / made)
    values = {"failed": failed, "made": made, "error": error, "times": times, "cut": cut}
    return Card("failures", values, verdict, main=verdict != "fine")


def _mass(record: Record) -> Card | None:
    """The mean probability of the labels; None for people and recorded comparisons."""
    if record.is_voted or record.is_fitted:
        return None
    found = np.array([judgement.mass for judgement in record.answered])
    found = found[~np.isnan(found)]
    if not found.size:
        return Card("mass", {"mean": None, "low": None}, main=False)
    mean, low = float(np.mean(found)), float(np.mean(found < 0.5))
    verdict = MASS.verdict(mean)
    return Card("mass", {"mean": mean, "low": low}, verdict, main=verdict != "fine")
