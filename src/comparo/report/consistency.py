"""Whether answers depend on the order of the two texts, contradict each other or the ranking, or are missing."""

from collections import Counter

import numpy as np

import comparo.report.bounds as bounds
from comparo.ranking.self_consistency import count_flips, cycles
from comparo.report.embed import label
from comparo.report.measures import position_bias, residuals
from comparo.report.phrases import PEOPLE, words_of
from comparo.report.record import Record
from comparo.report.signs import Sign, graded, in_hundred

RANDOM = 0.25  # of three pairs whose winners are drawn by a coin, 2 of 8 outcomes are a circle


def position(record: Record) -> list[Sign]:
    """Which of two equal texts wins, and how many pairs have another winner in the other order."""
    found, turned = position_bias(record.ranking), count_flips(record.ranking.comparisons)
    first = found.wins >= 0.5
    share, low, high = (found.wins, found.low, found.high) if first else (1 - found.wins, 1 - found.high, 1 - found.low)
    both = turned.pairs > 0 and (turned.once == 0 or record.configuration["identity"].get("orders") == "both")
    if found.fitted:
        taken = "The ranking corrects for it."
    elif both:
        taken = "The ranking need not correct for it: both orders of each pair were asked, in which it cancels mostly."
    elif record.ranking.method.startswith(("poe", "mixed", "panel")):
        taken = f"The ranking does not correct for it: use --bias joint{_or_both(record)}."
    else:
        taken = f"The ranking does not correct for it: use --method mixed --bias joint{_or_both(record)}."
    side, chance = "first" if first else "second", " This may be chance." if low < 0.5 else ""
    sentence = (
        f"Of two equally good texts, the one shown {side} is preferred {in_hundred(share)} times (95% interval: "
        f"{100 * low:.0f} to {100 * high:.0f}).{chance} {taken}"
    )
    bound = bounds.POSITION_FITTED if found.fitted else bounds.POSITION
    name = "Does it matter which text is shown first?"
    detail = f"Position bias: the first of two equal texts wins with probability {found.wins:.2f}."
    signs = [graded(name, f"{side}: {in_hundred(share)}", bound, share - 0.5, sentence, detail)]
    return [*signs, *_flips(record, both)]


def _or_both(record: Record) -> str:
    return "" if record.is_fitted else ", or --orders both"


def _flips(record: Record, both: bool) -> list[Sign]:
    turned = count_flips(record.ranking.comparisons)
    name = "Does the winner change with the order?"
    if not turned.pairs:
        if record.is_fitted or words_of(record) is PEOPLE:
            return []
        sentence = "No pair was asked in both orders, so this is not known: --orders both would show it."
        return [Sign(name, "not asked", "plain", sentence, main=False)]
    part = turned.flipped / turned.pairs
    if both:
        few, many = "One order would have been enough.", "One order alone would have misled; the scores use both."
    else:
        few, many = "One order is enough.", "One order alone misleads: ask in both orders."
    sentence = (
        f"{turned.pairs:,} pairs were asked twice, with the other text first the second time. In {turned.flipped:,} of "
        f"them the winner was then another{_by_voice(record)}. "
        f"{few if bounds.FLIPS.verdict(part) == 'fine' else many}"
    )
    return [graded(name, f"{turned.flipped:,} of {turned.pairs:,}", bounds.FLIPS, part, sentence, f"{part:.0%} flips.")]


def _by_voice(record: Record) -> str:
    one = words_of(record).one
    voices = f"; a pair counts for each {one} that was asked it in both orders, and Who judged has the share of each"
    return voices if _is_of_voices(record) else ""


def _is_of_voices(record: Record) -> bool:
    judges = record.ranking.comparisons.judges
    return judges is not None and len(judges) > 1


def consistency(record: Record) -> list[Sign]:
    """Circles of three texts, and answers that prefer the text with the lower score."""
    circular, left = cycles(record.ranking.comparisons), residuals(record.p, record.expected, record.even)
    words = words_of(record)
    by_one = f" by the same {words.one}" if _is_of_voices(record) else ""
    stronger = "" if words is PEOPLE else " or a stronger judge"
    name = "Do answers contradict each other?"
    if circular.triples:
        share = circular.cyclic / circular.triples
        some = " of a sample of texts" if circular.sampled else ""
        advice = "" if share <= bounds.CYCLES.fine else f" Try a clearer criterion{stronger}."
        sentence = (
            f"A circle is a contradiction: a beats b, b beats c, and c beats a. Of {circular.triples:,} triples{some} "
            f"whose three pairs were all judged{by_one}, {circular.cyclic:,} "
            f"{'is a circle' if circular.cyclic == 1 else 'are circles'}; random answers would give about "
            f"{RANDOM * circular.triples:,.0f}.{advice}"
        )
        text = f"{circular.cyclic:,} of {circular.triples:,}"
        first = graded(name, text, bounds.CYCLES, share, sentence, f"{share:.1%} cycles; random answers give 25%.")
    else:
        sentence = f"No three texts were all compared with each other{by_one}, so circles cannot be counted."
        first = Sign(name, "not known", "plain", sentence, main=False)
    fine = bounds.CONTRADICTING.verdict(left.contradicting) == "fine"
    advice = "One score per text explains them well." if fine else "The most surprising ones are below."
    share = left.contradicting
    sentence = (
        f"About {in_hundred(share)} {words.answers} prefer the text that the ranking has lower, "
        f" beyond what the order of the two texts explains. {advice}"
    )
    detail = (
        "Answers against the model, after the position bias is taken out. Answers differ from the model's "
        f"probabilities by {left.rms:.2f} (root mean square)."
    )
    name = f"Do single {words.answers} fit the ranking?"
    return [first, graded(name, f"all but {in_hundred(share)}", bounds.CONTRADICTING, share, sentence, detail)]


def mass(record: Record) -> Sign | None:
    """How much of the judge's probability is on the two answers; None for people."""
    if words_of(record) is PEOPLE or record.is_fitted:
        return None
    name = "Does the judge answer as asked?"
    found = np.array([judgement.mass for judgement in record.answered])
    found = found[~np.isnan(found)]
    if not found.size:
        sentence = "This judge does not report how probable the two answers were."
        return Sign(name, "not known", "plain", sentence, main=False)
    mean, low = float(np.mean(found)), float(np.mean(found < 0.5))
    verdict = bounds.MASS.verdict(mean)
    advice = "It answers as asked." if verdict == "fine" else "It tends to say something else: improve the prompt."
    sentence = (
        "A model gives every word that it could say a probability. This is the share of the two answers that it was "
        f"asked to choose from; the rest is on other words. {advice}"
    )
    detail = f"The mean is {mean:.3f}; it was below ½ in {low:.1%} of the answers."
    return Sign(name, f"{mean:.1%}", verdict, sentence, bounds.MASS.source, detail, main=verdict != "fine")


def failures(record: Record) -> Sign | None:
    """Calls without an answer, and texts that were cut; None for recorded comparisons."""
    if record.is_fitted:
        return None
    failed = [judgement for judgement in record.judgements if judgement.failed]
    cut = sum(judgement.cut > 0 for judgement in record.answered)
    shortened = f" Texts were cut to fit the judge's window: {cut:,} times." if cut else ""
    share = len(failed) / len(record.judgements)
    people = words_of(record) is PEOPLE
    if not failed:
        sentence = "Every pair that was shown was voted on." if people else "Every call was answered."
    else:
        error, times = Counter(str(judgement.error) for judgement in failed).most_common(1)[0]
        again = "They were shown to somebody else, where there was one." if people else "The same command asks again."
        what, why = ("pairs shown", "reason") if people else ("calls", "error")
        sentence = (
            f"Of {len(record.judgements):,} {what}; they are left out, never counted as ties. The most frequent {why} "
            f"({times:,}): {label(error)}. {again}"
        )
    verdict = "check" if cut and not failed else bounds.FAILED.verdict(share)
    name = "Were pairs skipped?" if people else "Did calls fail?"
    text = f"{len(failed):,}" if failed else "no"
    return Sign(name, text, verdict, sentence + shortened, bounds.FAILED.source, main=verdict != "fine")
