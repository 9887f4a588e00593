"""Can I trust this? Each figure with a verdict, and a sentence that says what it means and what to do."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import comparo.report.bounds as bounds
from comparo.analysis.confidence import top_probability
from comparo.analysis.curves import mean_known
from comparo.analysis.verdicts import count_flips, cycles
from comparo.ranking.equal import control_name, control_sentences
from comparo.report.embed import figure, label, percentages, signed
from comparo.report.measures import Outlook, length_correlation, position_bias, residuals
from comparo.report.record import Record
from comparo.report.views import PEOPLE


@dataclass(frozen=True, slots=True)
class Sign:
    """One card: a figure to know before trusting the ranking; `plain` where it is neither good nor bad.

    `source` says where the bounds of the verdict come from.
    """

    name: str
    figure: str
    verdict: bounds.Verdict
    sentence: str
    source: str = ""


def signs(record: Record, ahead: Sequence[Outlook]) -> list[Sign]:
    """All cards, the most important first."""
    found = [
        _expected(record),
        _goal(record),
        _calls(record),
        _more(record, ahead),
        _connected(record),
        *_position(record),
    ]
    found += [
        _whose(record),
        _sources(record),
        _length(record),
        *_equal(record),
        *_consistency(record),
        _mass(record),
        _failures(record),
    ]
    return [sign for sign in found if sign is not None]


def _graded(name: str, text: str, bound: bounds.Bound, value: float, sentence: str) -> Sign:
    return Sign(name, text, bound.verdict(value), sentence, bound.source)


def _expected(record: Record) -> Sign:
    found = mean_known(record.spearman)
    advice = {
        "fine": "Texts of the same tier may still be in the wrong order.",
        "check": "Use the tiers, and make more calls before you rely on single ranks.",
    }.get(bounds.SPEARMAN.verdict(found), "Most of the order may be chance: make more calls before you use it.")
    right = bounds.pairs_in_order(found)
    pairs = "" if math.isnan(found) else f" About {right:.0%} of all pairs are in the right order."
    spread = f" It is {figure(np.min(record.spearman))} to {figure(np.max(record.spearman))} in single contexts."
    sentence = (
        "The expected agreement with the ranking that this judge would give after unlimited calls: 1 is the same "
        f"order, 0 is chance.{pairs} Whether the judge is right cannot be seen from it."
        f"{spread if len(record.contexts) > 1 else ''} {advice}"
    )
    return _graded("Expected Spearman correlation", figure(found), bounds.SPEARMAN, found, sentence)


def _goal(record: Record) -> Sign | None:
    goal = str(record.configuration["identity"].get("goal", "ranking"))
    if not goal.startswith("top-"):
        return None
    k = int(goal.removeprefix("top-"))
    found = mean_known(top_probability(record.ranking, k))
    sentence = (
        f"The probability that the {k} texts at the top are those that this judge would place there after unlimited "
        "calls. Where it is low, the tiers show which texts cannot be distinguished."
    )
    return _graded(f"The best {k} are right", figure(found), bounds.TOP, found, sentence)


def _calls(record: Record) -> Sign:
    made, possible = len(record.answered), record.possible
    rest = "nothing is left to ask" if made >= possible else "the model estimates the rest"
    each = ", each put to every voice," if "voices" in record.configuration["identity"] else ""
    taken = (record.configuration.get("audition") or {}).get("answers")
    before = f" {taken:,} of the answers are from the audition." if taken else ""
    return Sign(
        "Calls made",
        f"{made:,} of {possible:,}",
        "plain",
        f"{made / possible:.0%} of all ordered pairs{each} were judged, {made / record.ranking.graph.nodes * 2:.1f} "
        f"comparisons per text; {rest}.{before}",
    )


def _more(record: Record, ahead: Sequence[Outlook]) -> Sign | None:
    name, now = "What more calls would bring", ahead[0].expected
    if len(ahead) == 1 or math.isnan(now):
        return None
    if not record.joined.all():
        sentence = "Calls that connect the separate groups bring most; how much cannot be estimated from these answers."
        return Sign(name, "unknown", "check", f"{sentence} Run the same command again.")
    parts = [f"{figure(step.expected)} with {step.more:,} more calls" for step in ahead[1:]]
    doubled = min(ahead[1:], key=lambda step: abs(step.more - 4 * ahead[1].more))
    worth = doubled.expected - now >= bounds.WORTH
    advice = f"To get them, {record.remedy}" if worth else "So more calls would change little"
    return Sign(
        name,
        f"+{doubled.more:,} → {figure(doubled.expected)}",
        "check" if worth else "fine",
        f"The expected Spearman correlation is {figure(now)} now, and would be about {', '.join(parts)}, if the "
        f"answers vary as much as before. {advice}.",
        f"Worth a check where as many calls again would add {bounds.WORTH} or more: 2 of 100 pairs.",
    )


def _connected(record: Record) -> Sign:
    ranking, items = record.ranking, record.items
    lone = np.isnan(ranking.std)
    missing = [*sorted(set(range(len(items))) - set(record.row.tolist())), *record.row[lone].tolist()]
    groups = ranking.graph.components - int(np.count_nonzero(lone))
    least = int(np.min(ranking.counts))
    verdict: bounds.Verdict
    if missing:
        names = ", ".join(label(items.ids[row]) for row in missing[:3]) + ("…" if len(missing) > 3 else "")
        state, verdict = f"{len(missing):,} not compared", "poor"
        meaning = f"Nothing is known about {names}: continue the run until every text has been compared."
    elif groups > ranking.graph.contexts:
        state, verdict = f"{groups:,} separate groups", "poor"
        meaning = "Scores and ranks of different groups cannot be compared: continue the run until all are connected."
    else:
        enough = least >= bounds.COMPARISONS
        state, verdict = "all connected", "fine" if enough else "check"
        advice = "" if enough else f" One answer can decide a rank with so few comparisons: {record.remedy}."
        meaning = f"A chain of comparisons connects any two texts of a context, so scores can be compared.{advice}"
    sentence = f"{meaning} Fewest comparisons of a text: {least:,}."
    source = f"Fine if all are connected and each text has at least {bounds.COMPARISONS} comparisons."
    return Sign("Connectedness", state, verdict, sentence, source)


def _whose(record: Record) -> Sign | None:
    """What the scores of a consensus, or of people, are."""
    if record.ranking.people is not None:
        return Sign("Whose opinion", f"people, {record.ranking.people.votes:,} votes", "plain", _people(record))
    k, effects = record.ranking.validity, record.ranking.effects
    if k is None or effects is None:
        return None
    shared = "its style of writing" if effects.group is None else "its group"
    if record.configuration.get("validity") is not None:
        source = "The share was given by --validity"
    elif effects.group is None:
        source = "The share is what agreed better with people on every set that was measured"
    else:
        source = (
            "The share is estimated by a rule, from how much of the judge's scores is between groups and from what the "
            "two orders of a pair have in common; it was chosen on recorded judges whose texts people scored too"
        )
    sentence = (
        f"Scores are what people would say, as far as one judge can tell. Of what the judge says about a text beyond "
        f"{shared}, {k:.0%} is kept: about so much do people share, and the rest is the judge's own taste. {source}. "
        "Intervals contain what this judge cannot see of people's opinion, but not that it may be wrong about a whole "
        "group. The judge's own scores are the column judge_score of ranking.csv; --estimate judge ranks by them, "
        "without new calls."
    )
    return Sign("Whose opinion", f"consensus, validity {k:.2f}", "plain", sentence)


def _people(record: Record) -> str:
    """What the scores are where people voted, and what their votes told of the judge."""
    told, equal = record.ranking.people, "The judge's own scores are the column judge_score of ranking.csv."
    assert told is not None
    return f"Scores are what people would say of all texts, and intervals are for that. {told.sentence} {equal}"


def _sources(record: Record) -> Sign | None:
    """How much of the variance of the judge's scores each estimated part has."""
    effects = record.ranking.effects
    if effects is None:
        return None
    names = {"scores": "the text itself", "style": "style of writing", "groups": "group"}
    meanings = {
        "scores": "",
        "style": " Style is which sequences of letters a text uses; texts of similar style are expected to have "
        "similar scores until their own comparisons show otherwise.",
        "groups": " A group is what texts share, such as the system that wrote them; its texts are expected to have "
        "similar scores in the same way.",
    }
    parts = {name: value for name in names if (value := getattr(effects, name)) is not None}
    scores, noise = math.sqrt(sum(parts.values())), math.sqrt(effects.noise)
    shares = [f"{names[name]} {share}%" for name, share in zip(parts, percentages(list(parts.values())), strict=True)]
    spread = "" if effects.bias is None else f" The position bias varies by {effects.bias**0.5:.2f} between contexts."
    tails = (
        ""
        if effects.freedom is None
        else f" Its noise has heavy tails (Student's t, {effects.freedom:.0f} degrees of freedom): answers far from "
        "what all others imply count less."
    )
    return Sign(
        "What sets texts apart",
        ", ".join(shares) if len(parts) > 1 else f"{scores:.2f}",
        "plain",
        f"The judge's scores have a standard deviation of {scores:.2f}; a single answer deviates from the difference "
        f"of its two scores by {noise:.2f}, {noise / scores:.1f} times as much.{tails}"
        f"{''.join(meanings[name] for name in parts)}{spread}",
    )


def _position(record: Record) -> list[Sign]:
    found, turned = position_bias(record.ranking), count_flips(record.ranking.comparisons)
    first = found.wins >= 0.5
    share, low, high = (found.wins, found.low, found.high) if first else (1 - found.wins, 1 - found.high, 1 - found.low)
    both = turned.pairs > 0 and (turned.once == 0 or record.configuration["identity"].get("orders") == "both")
    if found.fitted:
        taken = "its estimate is taken out of the scores"
    elif both:
        taken = "it is not estimated, but both orders of each pair were asked, in which it cancels for the most part"
    elif record.ranking.method.startswith("poe"):
        taken = "it is not taken out of the scores: use --bias joint, or --orders both"
    else:
        taken = "it is not taken out of the scores: use --orders both, or --method poe-bt"
    sentence = (
        f"Of two equal texts, the one shown {'first' if first else 'second'} wins with probability {share:.2f} (95% "
        f"interval: {low:.2f} to {high:.2f}). The effect of the order is {'not ' if low < 0.5 else ''}significant; "
        f"{taken}."
    )
    bound = bounds.POSITION_FITTED if found.fitted else bounds.POSITION
    signs = [_graded("Position bias", f"{found.wins:.2f} for the first", bound, share - 0.5, sentence)]
    if not turned.pairs:
        sentence = "No pair was asked in both orders, so flips cannot be counted: --orders both would show them."
        return [*signs, Sign("Flips between orders", "not asked", "plain", sentence)]
    part = turned.flipped / turned.pairs
    if both:
        few, many = "One order would have been enough.", "One order alone would have misled; the scores use both."
    else:
        few, many = "One order is enough.", "One order alone misleads: ask in both (--orders both)."
    sentence = (
        f"Of {turned.pairs:,} pairs asked in both orders, {turned.flipped:,} had another winner in the other order"
        f"{_by_voice(record)}. "
        f"{few if bounds.FLIPS.verdict(part) == 'fine' else many}"
    )
    return [*signs, _graded("Flips between orders", f"{part:.0%}", bounds.FLIPS, part, sentence)]


def _by_voice(record: Record) -> str:
    voices = "; a pair counts for each voice that was asked it in both orders, and Who judged has the share of each"
    return voices if _is_of_voices(record) else ""


def _is_of_voices(record: Record) -> bool:
    judges = record.ranking.comparisons.judges
    return judges is not None and len(judges) > 1


def _length(record: Record) -> Sign:
    found = length_correlation(record, record.ranking.scores)
    longer = "longer" if found > 0 else "shorter"
    meaning = {
        "fine": "Scores depend little on the length of the texts.",
        "plain": "All texts have the same length.",
    }.get(
        bounds.LENGTH.verdict(abs(found)),
        f"The {longer} text tends to win: read some pairs to see whether it is better or only {longer}.",
    )
    named = list(record.items.scores.items())[:PEOPLE]
    people = {name: length_correlation(record, scores[record.row]) for name, scores in named}
    known = [f"{label(name)} {signed(value)}" for name, value in people.items() if not math.isnan(value)]
    compared = f" For people's scores it is: {', '.join(known)}." if known else ""
    sentence = f"Spearman correlation of score and number of characters within a context. {meaning}{compared}"
    return _graded("Length", signed(found), bounds.LENGTH, abs(found), sentence)


def _equal(record: Record) -> list[Sign]:
    """What each judge gives for what is held equal."""
    table, found = record.ranking.control, []
    if table is None:
        return []
    name = control_name(table)
    rows = zip(control_sentences(table), *(part.tolist() for part in table.values()), strict=True)
    for sentence, _, column, _, beta, _, low, high in rows:
        sentence = (
            f"{sentence[0].upper()}{sentence[1:]}. The columns {name}_… of ranking.csv have the scores without that: "
            "what texts that are alike in it would get."
        )
        figure = f"{signed(beta)} ({signed(low)} to {signed(high)})"
        found.append(Sign(f"Equal {label(column)}", figure, "plain", sentence))
    return found


def _consistency(record: Record) -> list[Sign]:
    circular, left = cycles(record.ranking.comparisons), residuals(record.p, record.expected, record.even)
    by_one = " by the same voice" if _is_of_voices(record) else ""
    if circular.triples:
        share = circular.cyclic / circular.triples
        some = " of a sample of texts" if circular.sampled else ""
        advice = "" if share <= bounds.CYCLES.fine else " Try a clearer criterion or a stronger judge."
        sentence = (
            f"Of {circular.triples:,} triples{some} whose three pairs were all judged{by_one}, {circular.cyclic:,} "
            f"form a circle (a beats b, b beats c, c beats a); random answers give 25%.{advice}"
        )
        first = _graded("Cycles", f"{share:.1%}", bounds.CYCLES, share, sentence)
    else:
        sentence = f"No three texts were all compared with each other{by_one}, so cycles cannot be counted."
        first = Sign("Cycles", "none asked", "plain", sentence)
    fine = bounds.CONTRADICTING.verdict(left.contradicting) == "fine"
    advice = "One score per text explains the answers well." if fine else "The most surprising answers are below."
    sentence = (
        "The share of answers that prefer the text with the lower score, after the position bias is taken out. The "
        f"judge's probabilities differ from the model's by {left.rms:.2f} (root mean square). {advice}"
    )
    share = left.contradicting
    return [first, _graded("Answers against the model", f"{share:.0%}", bounds.CONTRADICTING, share, sentence)]


def _mass(record: Record) -> Sign:
    name = "Probability on the two answers"
    mass = np.array([judgement.mass for judgement in record.answered])
    mass = mass[~np.isnan(mass)]
    if not mass.size:
        return Sign(name, "unknown", "plain", "This judge does not report how probable the two answers were.")
    found, low = float(np.mean(mass)), float(np.mean(mass < 0.5))
    fine = bounds.MASS.verdict(found) == "fine"
    advice = "The judge answers as asked." if fine else "The judge tends to say something else: improve the prompt."
    sentence = (
        "The mean share of the judge's probability on the two answers that it was asked to choose from; the rest was "
        f"on other words. It was below ½ in {low:.1%} of the answers. {advice}"
    )
    return _graded(name, f"{found:.3f}", bounds.MASS, found, sentence)


def _failures(record: Record) -> Sign:
    failed = [judgement for judgement in record.judgements if judgement.failed]
    cut = sum(judgement.cut > 0 for judgement in record.answered)
    shortened = f" Texts were cut to fit the judge's window: {cut:,} times." if cut else ""
    share = len(failed) / len(record.judgements)
    if not failed:
        sentence = "Every call was answered."
    else:
        error, times = Counter(str(judgement.error) for judgement in failed).most_common(1)[0]
        sentence = (
            f"Of {len(record.judgements):,} calls; failed ones are left out, never counted as ties. The most frequent "
            f"error ({times:,}): {label(error)}. The same command asks them again."
        )
    verdict = "check" if cut and not failed else bounds.FAILED.verdict(share)
    return Sign("Failed calls", f"{len(failed):,}", verdict, sentence + shortened, bounds.FAILED.source)
