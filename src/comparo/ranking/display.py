"""The notes of a ranking, the tables beside that of the scores, and sentences on whose scores they are and what grew.

The tables about judges are in `judge_tables`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import chndtrix, ndtri

from comparo.data.columns import shown
from comparo.data.comparisons import Comparisons
from comparo.data.wordings import FEW, few
from comparo.errors import Message
from comparo.model.estimators.panel_covariance import Panel
from comparo.model.estimators.panel_members import PanelMembers
from comparo.model.inference.position import winners_first
from comparo.ranking.judge_tables import (
    bias_columns,
    called,
    control_columns,
    control_sentences,
    held_of,
    member_columns,
    tie_columns,
    tie_sentences,
)
from comparo.ranking.scores import Grown, Scores, table_of
from comparo.ranking.self_consistency import unexplained_flips
from comparo.ranking.tabular import Columns, rows_of
from comparo.rounding import merge_ties

BLIND = 0.2  # correlation with the consensus below which a voice is noted: they share 4% of the variance
CONTRADICTED = 3.0  # standard deviations: 1 in 370 by chance
_VARIES = re.compile(r"'[^']*'|\"[^\"]*\"|[-−]?\d[\d.,]*")  # within a kind of note


def notes(ranking: Scores) -> tuple[str, ...]:
    """A sentence for each problem of the graph, the solver, the bias, the judge, the panel and the votes."""
    comparisons, graph, solution, found = ranking.comparisons, ranking.graph, ranking.solution, []
    if unreached := solution.unreached:
        names = [*dict.fromkeys(shown(item if context is None else context) for context, item in unreached)]
        found.append(
            f"{len(unreached):,} of {len(ranking) + len(unreached):,} items have no score, because no "
            f"answer is about them; go on asking{'' if ranking.context is None else ' in the contexts'}{listed(names)}"
        )
    split = np.diff(np.append(graph.component[graph.starts[:-1]], graph.components)) > 1
    if split.any():
        place = ""
        if comparisons.contexts is not None:
            label = comparisons.contexts[graph.context[graph.starts[:-1]][split][0]]
            others = np.count_nonzero(split) - 1
            place = f" in context '{label}'" + (f" and {others} more" if others else "")
        found.append(
            f"the comparisons{place} fall into groups that are not connected: each group is ranked on its own, and "
            "scores do not compare across groups; compare items of different groups to join them"
        )
    if not solution.converged:
        remedy = Message("try {method:'poe-bt'} with a firm prior, as {prior:1}")
        found.append("the scores did not settle and may be wrong; " + remedy)
    if not solution.is_bias_determined:
        remedy = Message("show items in both positions, or use {bias:'none'}")
        found.append("the position bias cannot be estimated from these comparisons: " + remedy)
    lists_winners = comparisons.lists_winners or bool(winners_first(comparisons, comparisons.positions).any())
    if lists_winners and solution.effects is not None and solution.bias.size:
        found.append(
            "the first text wins nearly always, as in a list of winners and losers: the order of texts says nothing "
            "about position, so no position bias is estimated; ask pairs in both orders to find one"
        )
    found += [] if lists_winners else _judge_notes(comparisons)
    found += _prior_notes(ranking if ranking.controlled is None else ranking.controlled)
    if solution.panel is not None:
        is_own = ranking.estimate != "consensus" or solution.validity in (None, 1.0)
        found += _member_notes(solution.panel, for_people=not is_own)
    if ranking.grown is not None and ranking.grown.link is not None:
        found += ranking.grown.link.notes
    return (*few_of_a_kind(found), *(() if ranking.people is None else ranking.people.notes))


def best_sentence(ranking: Scores) -> str:
    """How many texts are surely among the best k, surely not, or open, and the calls to settle half of these, or "".

    With z = Φ⁻¹(P), the true distance from the border is N(z, 1) in standard errors. A text is settled with probability
    ½ when the information about it has grown by the factor z₀²/m, z₀ = Φ⁻¹(level), m the median of the square of that
    distance. A call is about s texts, of which at most s − 1 are open ones: one is to compare with.

    >>> from comparo import fit
    >>> best_sentence(fit([("a", "b", 0.8), ("b", "a", 0.3)]))
    ''
    """
    if (p := ranking._among_best) is None:
        return ""
    level, data = ranking.level, ranking.comparisons
    inside, outside = np.count_nonzero(p >= level), np.count_nonzero(p <= 1.0 - level)
    is_open = (p < level) & (p > 1.0 - level)
    doubtful = np.count_nonzero(is_open)
    found = f"best {ranking.solution.best}: surely in {inside:,}, surely out {outside:,}, open {doubtful:,}"
    if not is_open.any():
        return found
    growth = np.maximum(ndtri(level) ** 2 / chndtrix(0.5, 1.0, ndtri(p[is_open]) ** 2) - 1.0, 0.0)
    others = (math.sqrt(1.0 + 8.0 * len(data) / data.answers) - 1.0) / 2.0  # s − 1: a call has s(s − 1)/2 rows
    wanted = float(np.sum(growth * ranking.graph.degrees()[is_open])) / others  # calls about each, summed
    calls = max(1, math.ceil(wanted / min(float(doubtful), others)))
    return f"{found}; about {calls:,} more {'call' if calls == 1 else 'calls'} would settle half of the open ones"


def few_of_a_kind(notes: Iterable[str]) -> list[str]:
    """The first notes of each kind, which differ in names and numbers only, and how many more of it there are.

    >>> few_of_a_kind([f"'voter {k}' ranks against the others" for k in range(683)])[-2:]
    ["'voter 4' ranks against the others", 'and 678 more notes like the one before']
    """
    kinds: dict[str, list[str]] = {}
    for note in notes:
        kinds.setdefault(_VARIES.sub("", note), []).append(note)
    found = []
    for kind in kinds.values():
        found += kind[:FEW]
        if len(kind) > FEW:
            found.append(f"and {len(kind) - FEW:,} more notes like the one before")
    return found


def tables(ranking: Scores) -> dict[str, Columns]:
    """The tables of `Ranking.tables`."""
    panel, grown = ranking.solution.panel, ranking.grown
    found = {
        "bias": bias_columns(ranking.solution),
        "voices": None if panel is None else member_columns(panel, ranking.level),
        "views": None if panel is None else table_of(ranking, {"item": ranking.items} | _views(panel)),
        "ties": tie_columns(ranking.solution),
        "control": control_columns(ranking if ranking.controlled is None else ranking.controlled, ranking.level),
        "new": None if grown is None else new_columns(ranking, grown),
        "moved": None if grown is None else moved_columns(ranking, grown),
    }
    return {name: table for name, table in found.items() if table is not None}


def _views(panel: Panel) -> Columns:
    return {str(name): voice.scores for name, voice in zip(panel.names, panel.voices, strict=True)}


def whose(ranking: Scores) -> str:
    """Whose scores they are, in a few words."""
    if ranking.people is not None:
        return f"people's, {ranking.people.votes:,} votes"
    validity = ranking.solution.validity
    known = "not known" if validity is None else f"{validity:.2f}"
    return "the judge's own" if ranking.estimate == "judge" else f"consensus, validity {known}"


def consensus_sentence(ranking: Scores) -> str:
    """The text above the table of a consensus: its formula, and how to get the judge's own ranking."""
    solution = ranking.solution
    who = "the judge" if solution.panel is None else "the panel"
    if solution.validity is None:
        return f"How much of what {who} says of single texts people share is not known: the scores are its own."
    expected = "what its style predicts" if solution.groups is None else "the mean score of its group in all contexts"
    is_shared = solution.groups is not None and ranking.context is not None
    first = ", so that one group may be first in every context" if is_shared else ""
    return (
        f"This is what people would say, as far as {who} can tell: a text counts by {expected}, and by "
        f"{solution.validity:.0%} of what {who} says of the text beyond that{first}. judge_rank is the "
        f"rank by {who} alone; " + Message("{estimate:'judge'} ranks by it, without new calls.")
    )


def _judge_notes(comparisons: Comparisons) -> list[str]:
    found = unexplained_flips(comparisons)
    low, high = found.interval
    sentence = (
        f"{found.flipped:,} of {found.pairs:,} winners change with the order of the texts (95% interval: "
        f"{100 * low:.0f} to {100 * high:.0f}%): this judge hardly reads them, or they hardly differ; try another "
        "judge or wording before you ask more"
    )
    return [sentence] if found.are_many else []


def _member_notes(panel: Panel, for_people: bool) -> list[str]:
    """Sentences about voices that are copies, reversed, or share next to nothing with the others.

    For a consensus (`for_people`), also about voices that it leaves out.
    """
    columns = member_columns(panel, 0.95)
    found = []
    copies = [f"'{one}' and '{of}'" for one, of in zip(columns["judge"], columns["copy_of"], strict=True) if of]
    if copies:
        found.append(f"the views of these judges cannot be told apart: {few(copies)}; they count as one opinion")
    for r in np.flatnonzero(panel.reversed).tolist():
        rho, low, high = (f"{columns[name][r]:.2f}" for name in ("agreement", "low", "high"))
        found.append(
            f"'{columns['judge'][r]}' ranks against the others (agreement {rho}, 95% interval {low} to {high}); its "
            "answers are sign-flipped"
        )
    found += contradictions(panel)
    blind = ~panel.reversed & ~panel.undecided & (columns["agreement"] < BLIND) & (columns["low"] < 0)
    unheard = ~panel.counts if for_people else np.zeros(len(blind), dtype=bool)
    for which, verb, rest in (
        (blind, "tell", "next to nothing of what the others agree on"),
        (unheard, "say", "too little about the texts to count for what people would say (less than ⅔ of the best)"),
    ):
        names = [f"'{name}'" for name in columns["judge"][which].tolist()]
        if names:
            found.append(f"{few(names)} {verb}{'s' if len(names) == 1 else ''} {rest}")
    return found


def contradictions(members: PanelMembers) -> list[str]:
    """A sentence about voices that contradict each other without a majority, if there are any."""
    if not members.undecided.any():
        return []
    sides = [np.flatnonzero(members.undecided & (sign * members.loading > 0)).tolist() for sign in (1, -1)]
    one, other = (few([f"'{members.names[r]}'" for r in side]) for side in sides)
    return [
        f"{one} and {other} contradict each other, and nothing says who is right: every order is as likely as its "
        "reverse; ask another judge, say who are people, or leave one side out"
    ]


def _prior_notes(ranking: Scores) -> list[str]:
    """A sentence for each control coefficient that is far from its prior (`CONTRADICTED`)."""
    return [
        f"the answers contradict the prior of {column}: {called(judge)} gives {beta:.2f} logits for a step of it, "
        f"{abs(moved):.0f} errors from the prior; audit the judge on texts like these, or leave the prior out"
        for judge, held in held_of(ranking.solution)
        for column, beta, moved in zip(held.control.names, held.coefficient, held.surprise, strict=True)
        if abs(moved) > CONTRADICTED
    ]


def taste_sentences(ranking: Scores) -> list[str]:
    """Sentences about the ties and the controlled tastes of the judges."""
    found = tables(ranking)
    return [*tie_sentences(found.get("ties")), *control_sentences(found.get("control"))]


def new_columns(ranking: Scores, grown: Grown) -> Columns:
    """A table of new candidates, best first: context (if there are any), item, score, low, high and rank."""
    rows = np.flatnonzero(grown.new)
    rows = rows[np.lexsort((-merge_ties(ranking.scores[rows]), ranking.graph.context[rows]))]
    table = {"score": ranking.scores, "low": ranking.low, "high": ranking.high, "rank": ranking.rank}
    return _labelled(ranking, table, rows)


def moved_columns(ranking: Scores, grown: Grown) -> Columns:
    """A table of the candidates whose score left its earlier interval, the largest change first.

    Its columns are context (where there are any), item, score_before, low_before, high_before and score.
    """
    moved = np.flatnonzero(~grown.new & ((ranking.scores < grown.low) | (ranking.scores > grown.high)))
    rows = moved[np.argsort(-np.abs(ranking.scores - grown.score)[moved], kind="stable")]
    before = {"score_before": grown.score, "low_before": grown.low, "high_before": grown.high}
    return _labelled(ranking, before | {"score": ranking.scores}, rows)


def _labelled(ranking: Scores, table: Columns, rows: NDArray[np.intp]) -> Columns:
    context: Columns = {} if ranking.context is None else {"context": ranking.context}
    return {name: column[rows] for name, column in (context | {"item": ranking.items} | table).items()}


def growth_sentences(ranking: Scores, grown: Grown | None) -> list[str]:
    """Sentences about new candidates and those that moved."""
    if grown is None:
        return []
    new, moved = new_columns(ranking, grown), moved_columns(ranking, grown)
    old, count = np.count_nonzero(~grown.new), len(new["item"])
    names = [f"{row['item']} (rank {row['rank']:,})" for row in rows_of(new)]
    is_new = f"{count:,} {'item is' if count == 1 else 'items are'} new"
    found = [f"{is_new} beside {old:,} that were there before{listed(names)}"]
    if grown.link is not None:
        found.append(grown.link.sentence)
    names = [f"{row['item']} ({row['score_before']:.2f} to {row['score']:.2f})" for row in rows_of(moved)]
    found.append(
        f"of the {old:,}, {len(names) or 'none'} moved beyond the {ranking.level:.0%} interval of before{listed(names)}"
    )
    return found


def listed(names: Sequence[str]) -> str:
    """The first names after a colon, and how many more there are; "" where there are none."""
    return f": {few(names)}" if names else ""
