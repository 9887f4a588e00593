"""Can I trust this? The cards of the page; `consistency` has those about single answers."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

import comparo.report.bounds as bounds
from comparo.analysis.confidence import top_probability
from comparo.analysis.correlations import mean_known
from comparo.ranking.notes import control_name, control_sentences
from comparo.report.bounds import Card, graded
from comparo.report.consistency import consistency, failures, mass, position
from comparo.report.embed import figure, in_hundred, label, percentages, signed
from comparo.report.measures import Outlook, length_correlation
from comparo.report.record import Record

# The parts of the variance of scores (`Effects`): what each is called, and what it means.
PARTS = {
    "scores": ("the text itself", ""),
    "style": (
        "style of writing",
        " Style is which sequences of letters a text uses; texts of similar style are expected to have similar scores "
        "until their own comparisons show otherwise.",
    ),
    "groups": (
        "group",
        " A group is what texts share, such as the system that wrote them; its texts are expected to have similar "
        "scores in the same way.",
    ),
}


def cards(record: Record, ahead: Sequence[Outlook]) -> list[Card]:
    """All cards, the most important first."""
    found = [
        _expected(record),
        _goal(record),
        _more(record, ahead),
        _whose(record),
        *position(record),
        *consistency(record),
        _length(record),
        *_equal(record),
        _connected(record),
        failures(record),
        mass(record),
        _calls(record),
        _sources(record),
    ]
    return [card for card in found if card is not None]


def _whose(record: Record) -> Card | None:
    """Whose scores these are, a consensus or people's; None where they are the judge's own."""
    name, votes = "Whose opinion is this?", record.ranking.people
    held = "" if record.is_fitted else " of ranking.csv"
    own = f"The judge's own scores and ranks are the columns judge_score and judge_rank{held}."
    if votes is not None:
        sentence = f"Scores are what people would say of all texts, by their votes and the judge. {votes.sentence}"
        return Card(name, f"people, {votes.votes:,} votes", "plain", sentence, detail=own)
    k, effects = record.ranking.validity, record.ranking.effects
    if k is None or effects is None:
        return None
    shared = "its style of writing" if effects.group is None else "its group"
    if record.configuration.get("validity") is not None:
        source = "was given by --validity"
    elif effects.group is None:
        source = "is what agreed better with people on every set that was measured"
    else:
        source = (
            "is estimated by a rule, from how much of the judge's scores is between groups and from what the two "
            "orders of a pair have in common; it was chosen on recorded judges whose texts people scored too"
        )
    sentence = (
        "A judge has tastes of its own, so its scores are drawn together: they are what people would say, as far as "
        f"one judge can tell. Of what it says about a text beyond {shared}, {k:.0%} is kept, because people share "
        "about so much."
    )
    detail = (
        f"Consensus, validity {k:.2f}. The share {source}. Intervals contain what this judge cannot see of people's "
        f"opinion, but not that it may be wrong about a whole group. {own} --estimate judge ranks by them, without new "
        "calls."
    )
    return Card(name, "people's, guessed", "plain", sentence, detail=detail)


def _sources(record: Record) -> Card | None:
    """The share of each estimated part in the variance of the judge's scores; the shares add to 100."""
    effects = record.ranking.effects
    if effects is None:
        return None
    parts = {part: value for part in PARTS if (value := getattr(effects, part)) is not None}
    scores, noise = math.sqrt(sum(parts.values())), math.sqrt(effects.noise)
    sentence = (
        f"The scores have a standard deviation of {scores:.2f}; a single answer deviates from the difference of its "
        f"two scores by {noise:.2f}, {noise / scores:.1f} times as much."
    )
    text = f"{scores:.2f}"
    if len(parts) > 1:
        shares = zip(parts, percentages(list(parts.values())), strict=True)
        text = ", ".join(f"{PARTS[part][0]} {share}%" for part, share in shares)
        sentence = f"Shares of the variance of the scores. {sentence}"
    if effects.freedom is not None:
        sentence += (
            f" Its noise has heavy tails (Student's t, {effects.freedom:.0f} degrees of freedom): answers far from "
            "what all others imply count less."
        )
    sentence += "".join(PARTS[part][1] for part in parts)
    if effects.bias is not None:
        sentence += f" The position bias varies by {effects.bias**0.5:.2f} between contexts."
    return Card("What sets texts apart", text, "plain", sentence, main=False)


def _length(record: Record) -> Card | None:
    """How far longer texts have higher scores; None where the texts are not known."""
    if not record.has_texts:
        return None
    found = length_correlation(record, record.ranking.scores)
    longer, verdict = "longer" if found > 0 else "shorter", bounds.LENGTH.verdict(abs(found))
    meaning = {
        "fine": "Scores depend little on the length of the texts.",
        "plain": "All texts have the same length, or too few are compared to tell.",
    }.get(verdict, f"The {longer} text tends to win: read some pairs to see whether it is better or only {longer}.")
    people = {name: length_correlation(record, scores) for name, scores in record.people.items()}
    known = [f"{label(name)} {signed(value)}" for name, value in people.items() if not math.isnan(value)]
    compared = f" For people's own scores it is: {', '.join(known)}." if known else ""
    sentence = (
        f"{meaning} The figure goes from −1 (shorter texts always have higher scores) over 0 (length plays no part) to "
        f"+1 (longer texts always have).{compared}"
    )
    detail = "Spearman correlation of score and number of characters, the mean over contexts."
    card = graded("Does length decide?", signed(found), bounds.LENGTH, abs(found), sentence, detail)
    return replace(card, main=verdict != "plain")


def _equal(record: Record) -> list[Card]:
    """The coefficient of each controlled feature per judge."""
    table, found = record.ranking.control, []
    if table is None:
        return []
    rows = zip(control_sentences(table), *(part.tolist() for part in table.values()), strict=True)
    for sentence, _, column, _, beta, _, low, high in rows:
        sentence = (
            f"{sentence[0].upper()}{sentence[1:]}. The columns {control_name(table)}_… of ranking.csv have the scores "
            "without that: what texts that are alike in it would get."
        )
        found.append(
            Card(f"Equal {label(column)}", f"{signed(beta)} ({signed(low)} to {signed(high)})", "plain", sentence)
        )
    return found


def _expected(record: Record) -> Card:
    """How sure the order is, from the expected Spearman correlation."""
    found, judge = mean_known(record.spearman), record.words.judge
    advice = {
        "fine": "Texts of the same tier may still be in the wrong order.",
        "check": "Rely on the tiers rather than on single ranks.",
    }.get(bounds.SPEARMAN.verdict(found), "Most of the order may be chance: do not use it as it is.")
    spread = f", {figure(np.min(record.spearman))} to {figure(np.max(record.spearman))} in single contexts"
    detail = (
        f"Expected Spearman correlation with the ranking after unlimited {record.words.calls}: {figure(found)}"
        f"{spread if len(record.contexts) > 1 else ''} (1 is the same order, 0 is chance)."
    )
    name = "How sure is the order?"
    if math.isnan(found):
        return Card(name, "unknown", "plain", f"How sure the order is cannot be told. {advice}", detail=detail)
    sentence = (
        f"Of 100 pairs of texts, about {_right(found)} are in the order that {judge} would settle on if asked again "
        f"and again; guessing gives 50. {advice} Whether {judge} {'are' if judge != 'the judge' else 'is'} right is "
        "another question."
    )
    text = f"{in_hundred(bounds.pairs_in_order(found))} pairs"
    return graded(name, text, bounds.SPEARMAN, found, sentence, detail)


def _right(spearman: float) -> str:
    return in_hundred(bounds.pairs_in_order(spearman)).removesuffix(" of 100")


def _goal(record: Record) -> Card | None:
    """How sure the best k are, where the run looks for these."""
    goal = str(record.identity.get("goal", "ranking"))
    if not goal.startswith("top-"):
        return None
    k = int(goal.removeprefix("top-"))
    found = mean_known(top_probability(record.ranking, k))
    sentence = (
        f"The probability that the {k} texts at the top are those that {record.words.judge} would place there if asked "
        "again and again. Where it is low, the tiers show which texts cannot be told apart."
    )
    text = "unknown" if math.isnan(found) else f"{found:.0%}"
    return graded(f"Are the best {k} right?", text, bounds.TOP, found, sentence)


def _calls(record: Record) -> Card:
    made, possible = len(record.answered), record.possible
    each = made / record.ranking.graph.nodes * 2
    if record.is_fitted:
        return Card("Comparisons", f"{made:,}", "plain", f"{each:.1f} comparisons per item.", main=False)
    rest = "nothing is left to ask" if made >= possible else "the model estimates the rest"
    voices = ", each put to every voice," if "voices" in record.identity else ""
    taken = (record.configuration.get("audition") or {}).get("answers")
    sentence = (
        f"{made / possible:.0%} of all ordered pairs{voices} were judged, {each:.1f} comparisons per text; {rest}."
        f"{f' {taken:,} of the answers are from the audition.' if taken else ''}"
    )
    name = f"{record.words.calls.capitalize()} made"
    return Card(name, f"{made:,} of {possible:,}", "plain", sentence, main=False)


def _more(record: Record, ahead: Sequence[Outlook]) -> Card | None:
    """What more calls would bring; None where there are none, or nothing is known."""
    calls, now = record.words.calls, ahead[0].expected
    name = f"Would more {calls} help?"
    if len(ahead) == 1 or math.isnan(now):
        return None
    if not record.joined.all():
        sentence = "Those that connect the separate groups help most; how much cannot be told from these answers."
        return Card(name, "yes", "check", sentence)
    worth = as_many_again(ahead).expected - now >= bounds.WORTH
    later = ", ".join(f"{_right(step.expected)} with {step.more:,} more" for step in ahead[1:])
    sentence = (
        f"Of 100 pairs, about {_right(now)} are in the right order now, and about {later}, if answers vary as much as "
        f"before.{'' if worth else ' So more would change little.'}"
    )
    detail = ", ".join(f"{figure(step.expected)} with {step.more:,} more" for step in ahead[1:])
    return Card(
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


def _connected(record: Record) -> Card:
    """Whether comparisons connect all texts of a context."""
    ranking, items = record.ranking, record.items
    lone = np.isnan(ranking.std)
    missing = [*sorted(set(range(len(items))) - set(record.row.tolist())), *record.row[lone].tolist()]
    groups = ranking.graph.components - int(np.count_nonzero(lone))
    least = int(np.min(ranking.counts))
    verdict: bounds.Verdict = "poor"
    if missing:
        names = ", ".join(label(items.ids[row]) for row in missing[:3]) + ("…" if len(missing) > 3 else "")
        state = f"{len(missing):,} not compared"
        meaning = f"Nothing is known about {names}: continue until every text has been compared."
    elif groups > ranking.graph.contexts:
        state = f"{groups:,} separate groups"
        meaning = "Scores and ranks of different groups cannot be compared: continue until all are connected."
    else:
        state, verdict = "yes", "fine"
        meaning = "A chain of comparisons connects any two texts of a context, so scores can be compared."
        if least < bounds.COMPARISONS:
            verdict = "check"
            meaning += f" One answer can decide a rank with so few comparisons: {record.remedy}."
    sentence = f"{meaning} Fewest comparisons of a text: {least:,}."
    source = f"Fine if all are connected and each text has at least {bounds.COMPARISONS} comparisons."
    return Card("Can all texts be compared?", state, verdict, sentence, source, main=verdict != "fine")
