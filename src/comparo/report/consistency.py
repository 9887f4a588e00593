"""Cards about single answers: do they depend on the order of the texts, contradict each other, or fail?"""

from collections import Counter

import numpy as np

import comparo.report.bounds as bounds
from comparo.analysis.transitivity import cycles
from comparo.ranking.flips import count_flips
from comparo.report.bounds import Card, graded
from comparo.report.embed import in_hundred, label
from comparo.report.measures import position_bias, residuals
from comparo.report.record import Record

RANDOM = 0.25  # of three pairs whose winners are drawn by a coin, 2 of 8 outcomes are a circle


def position(record: Record) -> list[Card]:
    """Which of two equal texts wins, and how many pairs have another winner in the other order."""
    found, flips = position_bias(record.ranking), count_flips(record.ranking.comparisons)
    first = found.wins >= 0.5
    share, low, high = (found.wins, found.low, found.high) if first else (1 - found.wins, 1 - found.high, 1 - found.low)
    both = flips.pairs > 0 and (flips.once == 0 or record.identity.get("orders") == "both")
    if found.fitted:
        taken = "The ranking corrects for it."
    elif both:
        taken = "The ranking need not correct for it: both orders of each pair were asked, in which it cancels mostly."
    else:
        method = "" if record.ranking.method.startswith(("poe", "mixed", "panel")) else "--method mixed "
        orders = "" if record.is_fitted else ", or --orders both"
        taken = f"The ranking does not correct for it: use {method}--bias joint{orders}."
    side, chance = "first" if first else "second", " This may be chance." if low < 0.5 else ""
    sentence = (
        f"Of two equally good texts, the one shown {side} is preferred {in_hundred(share)} times (95% interval: "
        f"{100 * low:.0f} to {100 * high:.0f}).{chance} {taken}"
    )
    bound = bounds.POSITION_FITTED if found.fitted else bounds.POSITION
    name = "Does it matter which text is shown first?"
    detail = f"Position bias: the first of two equal texts wins with probability {found.wins:.2f}."
    cards = [graded(name, f"{side}: {in_hundred(share)}", bound, share - 0.5, sentence, detail)]
    name = "Does the winner change with the order?"
    if flips.pairs:
        part = flips.flipped / flips.pairs
        sentence = (
            f"{flips.pairs:,} pairs were asked twice, with the other text first the second time. In {flips.flipped:,} "
            f"of them the winner was then another{_by_voice(record)}. {_one_order(part, both)}"
        )
        text = f"{flips.flipped:,} of {flips.pairs:,}"
        cards.append(graded(name, text, bounds.FLIPS, part, sentence, f"{part:.0%} flips."))
    elif not record.is_fitted and not record.is_voted:
        sentence = "No pair was asked in both orders, so this is not known: --orders both would show it."
        cards.append(Card(name, "not asked", "plain", sentence, main=False))
    return cards


def _one_order(flips: float, both: bool) -> str:
    """Whether one order of each pair is enough at this share of flips; `both` were asked."""
    if bounds.FLIPS.verdict(flips) == "fine":
        return f"One order {'would have been' if both else 'is'} enough."
    if both:
        return "One order alone would have misled; the scores use both."
    return "One order alone misleads: ask in both orders."


def _by_voice(record: Record) -> str:
    if not _has_voices(record):
        return ""
    one = record.words.one
    return f"; a pair counts for each {one} that was asked it in both orders, and Who judged has the share of each"


def _has_voices(record: Record) -> bool:
    judges = record.ranking.comparisons.judges
    return judges is not None and len(judges) > 1


def consistency(record: Record) -> list[Card]:
    """Circles of three texts, and answers that prefer the text with the lower score."""
    words, circles = record.words, cycles(record.ranking.comparisons)
    by_one = f" by the same {words.one}" if _has_voices(record) else ""
    name = "Do answers contradict each other?"
    if circles.triples:
        share = circles.cyclic / circles.triples
        some = " of a sample of texts" if circles.sampled else ""
        stronger = "" if record.is_voted else " or a stronger judge"
        advice = "" if share <= bounds.CYCLES.fine else f" Try a clearer criterion{stronger}."
        sentence = (
            f"A circle is a contradiction: a beats b, b beats c, and c beats a. Of {circles.triples:,} triples{some} "
            f"whose three pairs were all judged{by_one}, {circles.cyclic:,} "
            f"{'is a circle' if circles.cyclic == 1 else 'are circles'}; random answers would give about "
            f"{RANDOM * circles.triples:,.0f}.{advice}"
        )
        text = f"{circles.cyclic:,} of {circles.triples:,}"
        first = graded(name, text, bounds.CYCLES, share, sentence, f"{share:.1%} cycles; random answers give 25%.")
    else:
        sentence = f"No three texts were all compared with each other{by_one}, so circles cannot be counted."
        first = Card(name, "not known", "plain", sentence, main=False)
    share, rms = residuals(record.p, record.expected, record.even)
    fine = bounds.CONTRADICTING.verdict(share) == "fine"
    advice = "One score per text explains them well." if fine else "The most surprising ones are below."
    sentence = (
        f"About {in_hundred(share)} {words.answers} prefer the text that the ranking has lower, "
        f" beyond what the order of the two texts explains. {advice}"
    )
    detail = (
        "Answers against the model, after the position bias is taken out. Answers differ from the model's "
        f"probabilities by {rms:.2f} (root mean square)."
    )
    name = f"Do single {words.answers} fit the ranking?"
    return [first, graded(name, f"all but {in_hundred(share)}", bounds.CONTRADICTING, share, sentence, detail)]


def mass(record: Record) -> Card | None:
    """How much of the judge's probability is on the two answers; None for people."""
    if record.is_voted or record.is_fitted:
        return None
    name = "Does the judge answer as asked?"
    found = np.array([judgement.mass for judgement in record.answered])
    found = found[~np.isnan(found)]
    if not found.size:
        sentence = "This judge does not report how probable the two answers were."
        return Card(name, "not known", "plain", sentence, main=False)
    mean, low = float(np.mean(found)), float(np.mean(found < 0.5))
    verdict = bounds.MASS.verdict(mean)
    advice = "It answers as asked." if verdict == "fine" else "It tends to say something else: improve the prompt."
    sentence = (
        "A model gives every word that it could say a probability. This is the share of the two answers that it was "
        f"asked to choose from; the rest is on other words. {advice}"
    )
    detail = f"The mean is {mean:.3f}; it was below ½ in {low:.1%} of the answers."
    return Card(name, f"{mean:.1%}", verdict, sentence, bounds.MASS.source, detail, main=verdict != "fine")


def failures(record: Record) -> Card | None:
    """Calls without an answer, and texts that were cut; None for recorded comparisons."""
    if record.is_fitted:
        return None
    failed = [judgement for judgement in record.judgements if judgement.failed]
    cut = sum(judgement.cut > 0 for judgement in record.answered)
    shortened = f" Texts were cut to fit the judge's window: {cut:,} times." if cut else ""
    share = len(failed) / len(record.judgements)
    people = record.is_voted
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
    return Card(name, text, verdict, sentence + shortened, bounds.FAILED.source, main=verdict != "fine")
