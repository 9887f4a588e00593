"""Whose opinion the scores are, what they depend on, and how much of them is length."""

import math
from dataclasses import replace

import comparo.report.bounds as bounds
from comparo.ranking.equal import control_name, control_sentences
from comparo.report.embed import label, percentages, signed
from comparo.report.measures import length_correlation
from comparo.report.record import Record
from comparo.report.signs import Sign, graded
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
        source = "The share was given by --validity"
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
