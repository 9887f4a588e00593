"""Can I trust this? The figures of the page's cards and their verdicts; cards.html.j2 has what each card says."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import comparo.report.bounds as bounds
from comparo.analysis.confidence import top_probability
from comparo.analysis.correlations import mean_known
from comparo.ranking.display import control_name, control_sentences
from comparo.ranking.self_consistency import count_flips, cycles
from comparo.ranking.tabular import rows_of
from comparo.report.bounds import Bound, Verdict
from comparo.report.embed import percentages
from comparo.report.measures import Outlook, as_many_again, length_correlation, position_bias, residuals
from comparo.report.record import Record


@dataclass(frozen=True, slots=True)
class Card:
    """A figure to know before trusting the ranking, written by the macro `kind` from `values`.

    The verdict is `plain` where the figure is neither good nor bad; `source` is the origin of its bounds. A card
    that is not `main` is among those for specialists.
    """

    kind: str
    values: dict[str, Any]
    verdict: Verdict = "plain"
    source: str = ""
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
        _circles(record),
        _fit(record),
        _length(record),
        *_equal(record),
        _connected(record),
        _failures(record),
        _mass(record),
        _calls(record),
        _sources(record),
    ]
    return [card for card in found if card is not None]


def _graded(kind: str, bound: Bound, value: float, /, **values: Any) -> Card:
    """A card with the verdict of a bound on `value`."""
    return Card(kind, values, bound.verdict(value), bound.source)


def _expected(record: Record) -> Card:
    value, low, high = mean_known(record.spearman), np.min(record.spearman), np.max(record.spearman)
    right = bounds.pairs_in_order(value)
    return _graded("expected", bounds.SPEARMAN, value, value=value, right=right, low=low, high=high)


def _goal(record: Record) -> Card | None:
    goal = str(record.identity.get("goal", "ranking"))
    if not goal.startswith("top-"):
        return None
    k = int(goal.removeprefix("top-"))
    value = mean_known(top_probability(record.ranking, k))
    return _graded("goal", bounds.TOP, value, k=k, value=value)


def _more(record: Record, ahead: Sequence[Outlook]) -> Card | None:
    """What more calls would bring; None where there are none, or nothing is known."""
    now, is_joined = ahead[0].expected, bool(record.joined.all())
    if len(ahead) == 1 or math.isnan(now):
        return None
    values = {"is_joined": is_joined, "now": now, "steps": ahead[1:]}
    if not is_joined:
        return Card("more", values, "check")
    is_worth = as_many_again(ahead).expected - now >= bounds.WORTH
    source = f"Worth a check where as many {record.words.calls} again would add {bounds.WORTH} or more: 2 of 100 pairs."
    return Card("more", values, "check" if is_worth else "fine", source)


def _whose(record: Record) -> Card | None:
    """Whose scores these are, a consensus or people's; None where they are the judge's own."""
    votes, validity, effects = record.ranking.people, record.ranking.validity, record.ranking.effects
    if votes is None and (validity is None or effects is None):
        return None
    has_groups = effects is not None and effects.group is not None
    is_given = record.configuration.get("validity") is not None
    values = {"votes": votes, "validity": validity, "has_groups": has_groups, "is_given": is_given}
    return Card("whose", values)


def _position(record: Record) -> Card:
    """Which of two equal texts wins."""
    found = position_bias(record.ranking)
    is_first = found.wins >= 0.5
    share, low, high = found.wins, found.low, found.high
    if not is_first:
        share, low, high = 1 - share, 1 - high, 1 - low
    bound = bounds.POSITION_FITTED if found.fitted else bounds.POSITION
    has_bias = record.ranking.method.startswith(("poe", "mixed", "panel"))
    values = {"is_first": is_first, "share": share, "low": low, "high": high, "is_corrected": found.fitted}
    both = _has_both_orders(record)
    return _graded("position", bound, share - 0.5, wins=found.wins, both=both, has_bias=has_bias, **values)


def _flips(record: Record) -> Card | None:
    """How many pairs have another winner in the other order."""
    flips = count_flips(record.ranking.comparisons)
    values = {"flipped": flips.flipped, "pairs": flips.pairs, "both": _has_both_orders(record)}
    if flips.pairs:
        return _graded("flips", bounds.FLIPS, flips.flipped / flips.pairs, **values)
    return None if record.is_fitted or record.is_voted else Card("flips", values, main=False)


def _has_both_orders(record: Record) -> bool:
    flips = count_flips(record.ranking.comparisons)
    return flips.pairs > 0 and (flips.once == 0 or record.identity.get("orders") == "both")


def _circles(record: Record) -> Card:
    found = cycles(record.ranking.comparisons)
    values = {"cyclic": found.cyclic, "triples": found.triples, "sampled": found.sampled}
    if not found.triples:
        return Card("circles", values, main=False)
    return _graded("circles", bounds.CYCLES, found.cyclic / found.triples, **values)


def _fit(record: Record) -> Card:
    """Answers that prefer the text with the lower score."""
    share, rms = residuals(record.p, record.expected, record.even)
    return _graded("fit", bounds.CONTRADICTING, share, share=share, rms=rms)


def _length(record: Record) -> Card | None:
    """How far longer texts have higher scores; None where the texts are not known."""
    if not record.has_texts:
        return None
    value = length_correlation(record, record.ranking.scores)
    own = [(name, length_correlation(record, scores)) for name, scores in record.people.items()]
    values = {"value": value, "people": [each for each in own if not math.isnan(each[1])]}
    verdict = bounds.LENGTH.verdict(abs(value))
    return Card("length", values, verdict, bounds.LENGTH.source, main=verdict != "plain")


def _equal(record: Record) -> list[Card]:
    """The coefficient of each controlled feature per judge."""
    table = record.ranking.control
    if table is None:
        return []
    found = zip(control_sentences(table), rows_of(table), strict=True)
    return [Card("equal", {"columns": control_name(table), "sentence": each, "row": row}) for each, row in found]


def _connected(record: Record) -> Card:
    """Whether comparisons connect all texts of a context."""
    ranking, items = record.ranking, record.items
    lone = np.isnan(ranking.std)
    missing = [*sorted(set(range(len(items))) - set(record.row.tolist())), *record.row[lone].tolist()]
    groups = ranking.graph.components - int(np.count_nonzero(lone))
    least = int(np.min(ranking.counts))
    verdict: Verdict = "fine" if least >= bounds.COMPARISONS else "check"
    if missing or groups > ranking.graph.contexts:
        verdict = "poor"
    source = f"Fine if all are connected and each text has at least {bounds.COMPARISONS} comparisons."
    values = {"missing": items.ids[missing].tolist(), "groups": groups, "least": least}
    return Card("connected", values, verdict, source, main=verdict != "fine")


def _failures(record: Record) -> Card | None:
    """Calls without an answer, and texts that were cut; None for recorded comparisons."""
    if record.is_fitted:
        return None
    errors = Counter(str(judgement.error) for judgement in record.judgements if judgement.failed)
    failed, made = errors.total(), len(record.judgements)
    error, times = errors.most_common(1)[0] if failed else ("", 0)
    cut = sum(judgement.cut > 0 for judgement in record.answered)
    verdict = "check" if cut and not failed else bounds.FAILED.verdict(failed / made)
    values = {"failed": failed, "made": made, "error": error, "times": times, "cut": cut}
    return Card("failures", values, verdict, bounds.FAILED.source, main=verdict != "fine")


def _mass(record: Record) -> Card | None:
    """The judge's probability of the two answers; None for people."""
    if record.is_voted or record.is_fitted:
        return None
    found = np.array([judgement.mass for judgement in record.answered])
    found = found[~np.isnan(found)]
    if not found.size:
        return Card("mass", {"mean": None, "low": None}, main=False)
    mean, low = float(np.mean(found)), float(np.mean(found < 0.5))
    verdict = bounds.MASS.verdict(mean)
    return Card("mass", {"mean": mean, "low": low}, verdict, bounds.MASS.source, main=verdict != "fine")


def _calls(record: Record) -> Card:
    made, auditioned = len(record.answered), (record.configuration.get("audition") or {}).get("answers")
    values = {"made": made, "possible": record.possible, "each": len(record.compared) / record.ranking.graph.nodes * 2}
    has_panel = "voices" in record.identity
    return Card("calls", {**values, "has_panel": has_panel, "auditioned": auditioned}, main=False)


def _sources(record: Record) -> Card | None:
    """The share of each estimated part in the variance of the judge's scores; the shares add to 100."""
    effects = record.ranking.effects
    if effects is None:
        return None
    named = {name: getattr(effects, name) for name in ("scores", "style", "groups")}
    parts = {name: value for name, value in named.items() if value is not None}
    shares = dict(zip(parts, percentages(list(parts.values())), strict=True))
    values = {"shares": shares, "std": math.sqrt(sum(parts.values())), "noise": math.sqrt(effects.noise)}
    return Card("sources", {**values, "bias": effects.bias}, main=False)
