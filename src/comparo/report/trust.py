"""Can I trust this? Each figure with a verdict and a sentence that says what it means and what to do."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from comparo.analysis.confidence import top_probability
from comparo.report.history import Outlook, mean
from comparo.report.measures import cycles, flips, length_correlation, position_bias, residuals
from comparo.report.record import Record
from comparo.report.views import PEOPLE
from comparo.report.wording import figure, label, percentages, signed

Verdict = Literal["fine", "check", "poor", "plain"]


@dataclass(frozen=True, slots=True)
class Sign:
    """One thing to know before trusting the ranking; `plain` is a figure that is neither good nor bad."""

    name: str
    figure: str
    verdict: Verdict
    sentence: str


def signs(record: Record, ahead: Sequence[Outlook]) -> list[Sign]:
    """All of them, the most telling first."""
    found = [
        _expected(record),
        _goal(record),
        _calls(record),
        _more(record, ahead),
        _connected(record),
        *_position(record),
    ]
    found += [_sources(record), _length(record), *_consistency(record), _mass(record), _failures(record)]
    return [sign for sign in found if sign is not None]


def _graded(value: float, fine: float, check: float) -> Verdict:
    """Fine up to one bound, worth a check up to the other."""
    return "plain" if math.isnan(value) else "fine" if value <= fine else "check" if value <= check else "poor"


def _expected(record: Record) -> Sign:
    found = mean(record.spearman)
    verdict = _graded(1 - found, 0.1, 0.25)
    advice = {
        "fine": "Small differences in rank may still be chance: go by the tiers.",
        "check": "Go by the tiers, and ask more before you rely on single places.",
    }.get(verdict, "The order is largely chance still: ask more before you use it.")
    several = len(record.contexts) > 1
    spread = f" By context it goes from {figure(np.min(record.spearman))} to {figure(np.max(record.spearman))}."
    return Sign(
        "Expected Spearman correlation",
        figure(found),
        verdict,
        "How far this ranking would agree with the one that this judge would give if asked without end; it says "
        f"nothing about whether the judge is right.{spread if several else ''} {advice}",
    )


def _goal(record: Record) -> Sign | None:
    goal = str(record.configuration["identity"].get("goal", "ranking"))
    if not goal.startswith("top-"):
        return None
    k = int(goal.removeprefix("top-"))
    found = mean(top_probability(record.ranking, k))
    return Sign(
        f"The best {k} are right",
        figure(found),
        _graded(1 - found, 0.1, 0.5),
        f"The probability that the {k} at the top are those that the judge would put there if asked without end; where "
        "it is low, the tiers say between whom it is open.",
    )


def _calls(record: Record) -> Sign:
    made, possible = len(record.answered), record.possible
    share = made / possible
    rest = "nothing is left to ask" if made >= possible else "the ranking infers the rest"
    return Sign(
        "Calls made",
        f"{made:,} of {possible:,}",
        "plain",
        f"{share:.0%} of all ordered pairs were judged, {made / record.ranking.graph.nodes * 2:.1f} comparisons for "
        f"each text; {rest}.",
    )


def _more(record: Record, ahead: Sequence[Outlook]) -> Sign | None:
    now = ahead[0].expected
    if len(ahead) == 1 or math.isnan(now):
        return None
    if not record.joined.all():
        sentence = "Calls that join what is apart would bring most, and how much these answers cannot tell."
        return Sign("What more calls would bring", "not told", "check", f"{sentence} Run the same command again.")
    parts = [f"{step.more:,} more calls to about {figure(step.expected)}" for step in ahead[1:]]
    doubled = min(ahead[1:], key=lambda step: abs(step.more - 4 * ahead[1].more))
    worth = doubled.expected - now >= 0.03
    advice = "raise --budget and run the same command again" if worth else "more calls would change little"
    return Sign(
        "What more calls would bring",
        f"+{doubled.more:,} → {figure(doubled.expected)}",
        "check" if worth else "fine",
        f"From {figure(now)} now, {', '.join(parts)}, if the answers scatter as they did: {advice}.",
    )


def _connected(record: Record) -> Sign:
    ranking, items = record.ranking, record.items
    lone = np.isnan(ranking.std)
    missing = [*sorted(set(range(len(items))) - set(record.row.tolist())), *record.row[lone].tolist()]
    groups = ranking.graph.components - int(np.count_nonzero(lone))
    least = int(np.min(ranking.counts))
    verdict: Verdict
    if missing:
        names = ", ".join(label(items.ids[row]) for row in missing[:3]) + ("…" if len(missing) > 3 else "")
        state, verdict = f"{len(missing):,} not compared", "poor"
        meaning = f"Nothing is known of {names}: let the run go on until each was asked about."
    elif groups > ranking.graph.contexts:
        state, verdict = f"{groups:,} separate groups", "poor"
        meaning = "Scores and ranks do not compare across groups: let the run go on until a comparison joins them."
    else:
        state, verdict = "all connected", "fine" if least > 2 else "check"
        advice = "" if least > 2 else " An item with one or two comparisons hangs on single answers: raise --budget."
        meaning = f"A chain of comparisons joins any two items of a context, so their scores compare.{advice}"
    return Sign("Connectedness", state, verdict, f"{meaning} The least compared item has {least:,}.")


def _sources(record: Record) -> Sign | None:
    """Where differences between texts come from, by the variances that the answers tell."""
    effects = record.ranking.effects
    if effects is None:
        return None
    names = {"scores": "text", "style": "style", "groups": "group"}
    parts = {name: value for name in names if (value := getattr(effects, name)) is not None}
    total = sum(parts.values())
    scores, noise = math.sqrt(total), math.sqrt(effects.noise)
    shares = [f"{names[name]} {share}%" for name, share in zip(parts, percentages(list(parts.values())), strict=True)]
    lean = "" if len(parts) == 1 else " A text of which little was asked leans on those that share its style or group."
    spread = "" if effects.bias is None else f" Between contexts the position bias varies by {effects.bias**0.5:.2f}."
    return Sign(
        "What sets texts apart",
        ", ".join(shares) if len(parts) > 1 else f"{scores:.2f}",
        "plain",
        f"By the answers, scores vary by {scores:.2f} (standard deviation), and one comparison strays from the "
        f"difference of its two scores by {noise:.2f}, {noise / scores:.1f} times as much.{lean}{spread}",
    )


def _position(record: Record) -> list[Sign]:
    found, turned = position_bias(record.ranking), flips(record.ranking.comparisons)
    first = found.wins >= 0.5
    share, low, high = (found.wins, found.low, found.high) if first else (1 - found.wins, 1 - found.high, 1 - found.low)
    both = turned.pairs > 0 and (turned.once == 0 or record.configuration["identity"].get("orders") == "both")
    if found.fitted:
        taken = "the estimate is taken out of the scores"
    elif both:
        taken = "it is not estimated, but both orders of each pair were asked, in which it cancels for the most part"
    elif record.ranking.method.startswith("poe"):
        taken = "it is not taken out of the scores: use --bias joint, or --orders both"
    else:
        taken = "it is not taken out of the scores: use --orders both, or --method poe-bt"
    gamma = f"γ = {signed(found.gamma)} ± {1.96 * found.error:.2f}"
    sentence = (
        f"Of two equal texts the one shown {'first' if first else 'second'} wins with a probability of {share:.2f} "
        f"(95%: {low:.2f} to {high:.2f}; {gamma}; mean p {np.mean(record.p):.2f}). "
        f"{'That may be chance' if low < 0.5 else 'The judge looks at the order'}; {taken}."
    )
    verdict = _graded((share - 0.5) * (0.5 if found.fitted else 1.0), 0.05, 0.15)
    signs = [Sign("Position bias", f"{found.wins:.2f} for the first", verdict, sentence)]
    if turned.pairs:
        part = turned.flipped / turned.pairs
        if both:
            few, many = "One order would have done.", "One order alone would have misled; the scores go by both."
        else:
            few, many = "One order is enough.", "One order alone misleads: ask in both (--orders both)."
        advice = few if part < 0.1 else many
        sentence = (
            f"Of {turned.pairs:,} pairs asked in both orders, {turned.flipped:,} had another winner when the order was "
            f"turned. {advice}"
        )
        signs.append(Sign("Flips between orders", f"{part:.0%}", _graded(part, 0.1, 0.3), sentence))
    else:
        sentence = "No pair was asked in both orders, so flips cannot be seen: --orders both would show them."
        signs.append(Sign("Flips between orders", "not asked", "plain", sentence))
    return signs


def _length(record: Record) -> Sign:
    found = length_correlation(record, record.ranking.scores)
    verdict = _graded(abs(found), 0.3, 0.6)
    longer = "longer" if found > 0 else "shorter"
    meaning = {
        "fine": "Scores hardly follow the length of the texts.",
        "plain": "All texts are of the same length.",
    }.get(verdict, f"The {longer} text tends to win: read some pairs to see whether it is better or merely {longer}.")
    named = list(record.items.scores.items())[:PEOPLE]
    people = {name: length_correlation(record, scores[record.row]) for name, scores in named}
    known = [f"{label(name)} {signed(value)}" for name, value in people.items() if not math.isnan(value)]
    compared = f" For people's scores it is: {', '.join(known)}." if known else ""
    return Sign(
        "Length",
        signed(found),
        verdict,
        f"Spearman correlation of score and number of characters within a context. {meaning}{compared}",
    )


def _consistency(record: Record) -> list[Sign]:
    round_trips, left = cycles(record.ranking.comparisons), residuals(record.p, record.expected, record.even)
    if round_trips.triples:
        share = round_trips.cyclic / round_trips.triples
        some = " of a sample of items" if round_trips.sampled else ""
        meaning = (
            f"Of {round_trips.triples:,} triples{some} whose three pairs were all asked, {round_trips.cyclic:,} go "
            "round in a circle (a over b over c over a); a judge that tosses coins has 25 %."
        )
        advice = "" if share <= 0.05 else " Try a clearer criterion or a stronger judge."
        first = Sign("Cycles", f"{share:.1%}", _graded(share, 0.05, 0.15), meaning + advice)
    else:
        first = Sign(
            "Cycles", "none asked", "plain", "No three items were all compared with each other, so none can show."
        )
    verdict = _graded(left.contradicting, 0.15, 0.3)
    advice = (
        "One score a text explains the answers well." if verdict == "fine" else "See the most surprising ones below."
    )
    sentence = (
        "So many answers lean to the other text than the scores do, position taken out; p is on average (root mean "
        f"square) {left.rms:.2f} from what the model expects. {advice}"
    )
    return [first, Sign("Answers against the model", f"{left.contradicting:.0%}", verdict, sentence)]


def _mass(record: Record) -> Sign:
    mass = np.array([judgement.mass for judgement in record.answered])
    mass = mass[~np.isnan(mass)]
    if not mass.size:
        return Sign(
            "Label mass", "not told", "plain", "This judge does not tell how sure it was of answering with a label."
        )
    low = float(np.mean(mass < 0.5))
    verdict = _graded(1 - float(np.mean(mass)), 0.1, 0.5)
    advice = (
        "It understood what to answer with."
        if verdict == "fine"
        else "It wants to say something else: mend the prompt."
    )
    return Sign(
        "Label mass",
        f"{np.mean(mass):.3f}",
        verdict,
        f"The mean share of the judge's probability that lay on the two labels; below ½ in {low:.1%} of the answers. "
        f"{advice}",
    )


def _failures(record: Record) -> Sign:
    failed = [judgement for judgement in record.judgements if judgement.failed]
    cut = sum(judgement.cut > 0 for judgement in record.answered)
    shortened = f" Texts were cut to fit the judge's window: {cut:,} times." if cut else ""
    verdict = _graded(len(failed) / len(record.judgements), 0.0, 0.05)
    if not failed:
        sentence = "Every call was answered."
    else:
        error, times = Counter(str(judgement.error) for judgement in failed).most_common(1)[0]
        sentence = (
            f"Of {len(record.judgements):,} calls; failed ones are left out, never counted as ties. Most often "
            f"({times:,}): {label(error)}. The same command asks them again."
        )
    return Sign(
        "Failed calls", f"{len(failed):,}", "check" if cut and verdict == "fine" else verdict, sentence + shortened
    )
