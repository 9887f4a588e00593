"""Can I trust this? How sure the order is, what more calls would bring, and whether all texts can be compared."""

import math
from collections.abc import Sequence

import numpy as np

import comparo.report.bounds as bounds
from comparo.analysis.confidence import top_probability
from comparo.analysis.curves import mean_known
from comparo.report.consistency import consistency, failures, mass, position
from comparo.report.embed import figure, label
from comparo.report.measures import Outlook
from comparo.report.opinion import equal, length, sources, whose
from comparo.report.record import Record
from comparo.report.signs import Sign, graded, in_hundred
from comparo.report.words import words_of


def signs(record: Record, ahead: Sequence[Outlook]) -> list[Sign]:
    """All cards, the most important first."""
    found = [
        _expected(record),
        _goal(record),
        _more(record, ahead),
        whose(record),
        *position(record),
        *consistency(record),
        length(record),
        *equal(record),
        _connected(record),
        failures(record),
        mass(record),
        _calls(record),
        sources(record),
    ]
    return [sign for sign in found if sign is not None]


def _expected(record: Record) -> Sign:
    found, judge = mean_known(record.spearman), words_of(record).judge
    advice = {
        "fine": "Texts of the same tier may still be in the wrong order.",
        "check": "Rely on the tiers rather than on single ranks.",
    }.get(bounds.SPEARMAN.verdict(found), "Most of the order may be chance: do not use it as it is.")
    spread = f", {figure(np.min(record.spearman))} to {figure(np.max(record.spearman))} in single contexts"
    detail = (
        f"Expected Spearman correlation with the ranking after unlimited {words_of(record).calls}: {figure(found)}"
        f"{spread if len(record.contexts) > 1 else ''} (1 is the same order, 0 is chance)."
    )
    name, right = "How sure is the order?", bounds.pairs_in_order(found)
    if math.isnan(found):
        return Sign(name, "unknown", "plain", f"How sure the order is cannot be told. {advice}", detail=detail)
    sentence = (
        f"Of 100 pairs of texts, about {in_hundred(right).removesuffix(' of 100')} are in the order that {judge} would "
        f"settle on if asked again and again; guessing gives 50. {advice} Whether {judge} "
        f"{'are' if judge != 'the judge' else 'is'} right is another question."
    )
    return graded(name, f"{in_hundred(right)} pairs", bounds.SPEARMAN, found, sentence, detail)


def _goal(record: Record) -> Sign | None:
    goal = str(record.configuration["identity"].get("goal", "ranking"))
    if not goal.startswith("top-"):
        return None
    k = int(goal.removeprefix("top-"))
    found = mean_known(top_probability(record.ranking, k))
    sentence = (
        f"The probability that the {k} texts at the top are those that {words_of(record).judge} would place there if "
        "asked again and again. Where it is low, the tiers show which texts cannot be told apart."
    )
    text = "unknown" if math.isnan(found) else f"{found:.0%}"
    return graded(f"Are the best {k} right?", text, bounds.TOP, found, sentence)


def _calls(record: Record) -> Sign:
    made, possible, calls = len(record.answered), record.possible, words_of(record).calls
    if record.is_fitted:
        sentence = f"{made / record.ranking.graph.nodes * 2:.1f} comparisons per item."
        return Sign("Comparisons", f"{made:,}", "plain", sentence, main=False)
    rest = "nothing is left to ask" if made >= possible else "the model estimates the rest"
    each = ", each put to every voice," if "voices" in record.configuration["identity"] else ""
    taken = (record.configuration.get("audition") or {}).get("answers")
    before = f" {taken:,} of the answers are from the audition." if taken else ""
    return Sign(
        f"{calls.capitalize()} made",
        f"{made:,} of {possible:,}",
        "plain",
        f"{made / possible:.0%} of all ordered pairs{each} were judged, {made / record.ranking.graph.nodes * 2:.1f} "
        f"comparisons per text; {rest}.{before}",
        main=False,
    )


def _more(record: Record, ahead: Sequence[Outlook]) -> Sign | None:
    calls = words_of(record).calls
    name, now = f"Would more {calls} help?", ahead[0].expected
    if len(ahead) == 1 or math.isnan(now):
        return None
    if not record.joined.all():
        sentence = "Those that connect the separate groups help most; how much cannot be told from these answers."
        return Sign(name, "yes", "check", sentence)
    doubled = as_many_again(ahead)
    worth = doubled.expected - now >= bounds.WORTH
    parts = [
        f"{in_hundred(bounds.pairs_in_order(step.expected)).removesuffix(' of 100')} with {step.more:,} more"
        for step in ahead[1:]
    ]
    sentence = (
        f"Of 100 pairs, about {in_hundred(bounds.pairs_in_order(now)).removesuffix(' of 100')} are in the right order "
        f"now, and about {', '.join(parts)}, if answers vary as much as before. "
        f"{'' if worth else 'So more would change little.'}"
    ).strip()
    detail = ", ".join(f"{figure(step.expected)} with {step.more:,} more" for step in ahead[1:])
    return Sign(
        name,
        "yes" if worth else "little",
        "check" if worth else "fine",
        sentence,
        f"Worth a check where as many {calls} again would add {bounds.WORTH} or more: 2 of 100 pairs.",
        f"Expected Spearman correlation: {figure(now)} now, {detail}.",
    )


def as_many_again(ahead: Sequence[Outlook]) -> Outlook:
    """The step that is closest to doubling the calls: four times the first one, which is a quarter."""
    return min(ahead[1:], key=lambda step: abs(step.more - 4 * ahead[1].more))


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
        meaning = f"Nothing is known about {names}: continue until every text has been compared."
    elif groups > ranking.graph.contexts:
        state, verdict = f"{groups:,} separate groups", "poor"
        meaning = "Scores and ranks of different groups cannot be compared: continue until all are connected."
    else:
        enough = least >= bounds.COMPARISONS
        state, verdict = "yes", "fine" if enough else "check"
        advice = "" if enough else f" One answer can decide a rank with so few comparisons: {record.remedy}."
        meaning = f"A chain of comparisons connects any two texts of a context, so scores can be compared.{advice}"
    sentence = f"{meaning} Fewest comparisons of a text: {least:,}."
    source = f"Fine if all are connected and each text has at least {bounds.COMPARISONS} comparisons."
    return Sign("Can all texts be compared?", state, verdict, sentence, source, main=verdict != "fine")
