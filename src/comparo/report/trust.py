"""Can I trust this? How sure the order is, what more calls would bring, and whether all texts can be compared.

Whose opinion the scores are, what they depend on, and how much of them is length.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

import comparo.report.bounds as bounds
from comparo.analysis.confidence import top_probability
from comparo.analysis.correlations import mean_known
from comparo.ranking.display import control_name, control_sentences
from comparo.report.consistency import consistency, failures, mass, position
from comparo.report.embed import figure, label, percentages, signed
from comparo.report.measures import Outlook, length_correlation
from comparo.report.phrases import words_of
from comparo.report.record import Record
from comparo.report.signs import Sign, graded, in_hundred
from comparo.report.views import PEOPLE


def whose(record: Record) -> Sign | None:
    """What the scores of a consensus, or of people, are; None where they are the judge's own."""
    name = "Whose opinion is this?"
    if (told := record.ranking.people) is not None:
        sentence = f"Scores are what people would say of all texts, by their votes and the judge. {told.sentence}"
        return Sign(name, f"people, {told.votes:,} votes", "plain", sentence, detail=_own(record))
    k, effects = record.ranking.validity, record.ranking.effects
    if k is None or effects is None:
        return None
    shared = "its style of writing" if effects.group is None else "its group"
    if record.configuration.get("validity") is not None:
        source = "The share was given by --estimate"
    elif effects.group is None:
        source = "The share is what agreed better with people on every set that was measured"
    else:
        source = (
            "The share is estimated by a rule, from how much of the judge's scores is between groups and from what the "
            "two orders of a pair have in common; it was chosen on recorded judges whose texts people scored too"
        )
    sentence = (
        "A judge has tastes of its own, so its scores are drawn together: they are what people would say, as far as "
        f"one judge can tell. Of what it says about a text beyond {shared}, {k:.0%} is kept, because people share "
        "about so much."
    )
    detail = (
        f"Consensus, validity {k:.2f}. {source}. Intervals contain what this judge cannot see of people's opinion, but "
        f"not that it may be wrong about a whole group. {_own(record)} --estimate judge ranks by them, without new "
        "calls."
    )
    return Sign(name, "people's, guessed", "plain", sentence, detail=detail)


def _own(record: Record) -> str:
    held = "" if record.is_fitted else " of ranking.csv"
    return f"The judge's own scores and ranks are the columns judge_score and judge_rank{held}."


def sources(record: Record) -> Sign | None:
    """How much of the variance of the judge's scores each estimated part has; the shares add to 100."""
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
    what = "Shares of the variance of the scores. " if len(parts) > 1 else ""
    return Sign(
        "What sets texts apart",
        ", ".join(shares) if len(parts) > 1 else f"{scores:.2f}",
        "plain",
        f"{what}The scores have a standard deviation of {scores:.2f}; a single answer deviates from the difference "
        f"of its two scores by {noise:.2f}, {noise / scores:.1f} times as much.{tails}"
        f"{''.join(meanings[name] for name in parts)}{spread}",
        main=False,
    )


def length(record: Record) -> Sign | None:
    """How far longer texts have higher scores; None where the texts are not known."""
    if not record.has_texts:
        return None
    found = length_correlation(record, record.ranking.scores)
    longer = "longer" if found > 0 else "shorter"
    meaning = {
        "fine": "Scores depend little on the length of the texts.",
        "plain": "All texts have the same length, or too few are compared to tell.",
    }.get(
        bounds.LENGTH.verdict(abs(found)),
        f"The {longer} text tends to win: read some pairs to see whether it is better or only {longer}.",
    )
    named = list(record.items.scores.items())[:PEOPLE]
    people = {name: length_correlation(record, scores[record.row]) for name, scores in named}
    known = [f"{label(name)} {signed(value)}" for name, value in people.items() if not math.isnan(value)]
    compared = f" For people's own scores it is: {', '.join(known)}." if known else ""
    sentence = (
        f"{meaning} The figure goes from −1 (shorter texts always have higher scores) over 0 (length plays no part) to "
        f"+1 (longer texts always have).{compared}"
    )
    detail = "Spearman correlation of score and number of characters, the mean over contexts."
    card = graded("Does length decide?", signed(found), bounds.LENGTH, abs(found), sentence, detail)
    return replace(card, main=card.verdict != "plain")


def equal(record: Record) -> list[Sign]:
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
