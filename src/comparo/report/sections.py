"""What stands first on the page, and the rows of its tables: the leader, a line, a context, a surprising answer.

The charts of the page, as coordinates and a sentence about each.

The part of the page about items that were added to a run: who is new, and what moved.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comparo.analysis.correlations import agreement
from comparo.ranking.display import growth_sentences, moved_columns, new_columns
from comparo.ranking.ranking import Ranking
from comparo.report.bounds import pairs_in_order
from comparo.report.data import Tables, View
from comparo.report.embed import figure, label
from comparo.report.measures import Agreement, Outlook, convergence
from comparo.report.phrases import context_told, told, words_of
from comparo.report.record import Record
from comparo.report.signs import in_hundred
from comparo.report.views import PEOPLE, Chart, Columns, line_chart, scatter_chart

LISTED = 200  # contexts in the list of them
NEXT = 3  # candidates that are named beside the best
EXCERPT = 3000  # characters of a text beside another


def leader(record: Record, tables: Tables) -> dict[str, Any] | None:
    """The best item, and those that may be as good; None where there are several rankings and no mean.

    Where the items of the only context are not all connected, none is named: `groups` is the number of groups.
    """
    several, board = len(record.contexts) > 1, tables.mean is not None
    if several and not board:
        return None
    if not board and not record.joined[0]:
        return {"groups": f"{record.apart[0]:,}", "size": f"{len(record.items):,}"}
    view, columns = tables.shown
    names, tiers = columns["item"], columns["tier"]
    texts = f" on average over {len(record.contexts):,} contexts" if several else " groups of texts"
    tied = sum(tiers[row] == tiers[0] for row in range(1, view.end))
    shown = [names[row] if board else told(record, int(tables.order[row])) for row in range(min(NEXT + 1, view.end))]
    return {
        "groups": "",
        "best": shown[0],
        "tied": shown[1 : tied + 1],
        "more": max(0, tied - NEXT),
        "next": shown[1:3],
        "size": f"{view.end if board else record.ranking.graph.nodes:,}",
        "among": texts if board else "",
    }


def line(view: View, columns: Columns, row: int, begun: str = "") -> dict[str, Any]:
    """A line of the ranking as the template writes it; page.js fills the others in the same way.

    `begun` is the beginning of its text, where names say nothing.
    """
    score, low, high = (columns[name][row] for name in ("score", "low", "high"))
    places = f"{columns['best'][row]}–{columns['worst'][row]}" if "best" in columns else ""
    if "judge_rank" in columns:
        places += f" · judge {columns['judge_rank'][row]}"
    return {
        "rank": columns["rank"][row],
        "places": places,
        "item": columns["item"][row],
        "begun": begun,
        "group": f"group {columns['group'][row]}" if view.groups > 1 else "",
        "tier": columns["tier"][row],
        "begins": row > view.begin and columns["tier"][row] != columns["tier"][row - 1],
        "zero": view.place(0.0),
        "low": view.place(score if low is None else low),
        "high": view.place(score if high is None else high),
        "at": view.place(score),
        "score": view.number(score),
        "reach": "–" if low is None else view.number(high - score),
        "comparisons": f"{columns['comparisons'][row]:,}",
    }


def context_rows(record: Record, tables: Tables) -> list[dict[str, Any]]:
    """The rows of the table of contexts, for the first of them; none where there is only one context.

    The best item of a context is named only where all of its items are connected.
    """
    ranking, graph = record.ranking, record.ranking.graph
    if len(record.contexts) == 1:
        return []
    (_, _, sure), expected = record.places, record.spearman
    people = list(agreement(ranking, record.items).values())[:4]
    calls = np.bincount(graph.context[graph.first], minlength=graph.contexts)
    found = []
    for view, nodes in zip(tables.contexts[:LISTED], record.contexts, strict=False):
        position = int(graph.context[nodes.start])
        code = int(record.items.context[record.row[nodes.start]])
        groups = int(record.apart[graph.position[nodes.start]])
        found.append(
            {
                "label": view.label,
                "best": told(record, int(tables.order[view.begin])) if groups == 1 else "",
                "groups": groups,
                "sure": float(np.max(sure[nodes])) if groups == 1 else math.nan,
                "size": view.end - view.begin,
                "calls": f"{calls[position]:,}",
                "right": in_hundred(pairs_in_order(float(expected[position]))),
                "people": [float(column[code]) for column in people],
            }
        )
    return found


def surprise(record: Record, place: int) -> dict[str, Any]:
    """An answer that differs from what all answers together imply: who gave it, both texts, and what was expected."""
    judgement, texts = record.answered[place], record.items.texts
    asked, p, words = judgement.question, judgement.p, words_of(record)
    names = {side: label(name) for side, name in (("first", asked.first), ("second", asked.second))}
    sides = []
    for side, wins in (("first", p > 0.5), ("second", p < 0.5)):
        text = texts[record.items.row(asked.context, getattr(asked, side))]
        sides.append((names[side], text[:EXCERPT], max(0, len(text) - EXCERPT), wins))
    is_choice = p in (0.0, 0.5, 1.0)
    said = f"gave the first {shares(p)} of 100" if not is_choice else CHOICES[p]
    likely = f"{shares(float(record.expected[place]))} of 100"
    return names | {
        "who": words.judge if asked.voice is None else label(asked.voice),
        "said": said,
        "expected": f"{'the first to win in' if is_choice else 'about'} {likely}{' cases' if is_choice else ''}",
        "sides": sides if record.has_texts else [],
        "context": "" if asked.context is None else context_told(record, asked.context),
        "reply": label(judgement.reply.strip()),
    }


CHOICES = {0.0: "chose the second", 0.5: "called them equal", 1.0: "chose the first"}


def shares(p: float) -> str:
    """A probability in whole per cent, 1 or 99 where it is neither impossible nor certain.

    >>> shares(0.754), shares(0.999), shares(1.0)
    ('75', '99', '100')
    """
    return f"{round(100 * p) if p in (0.0, 1.0) else min(99, max(1, round(100 * p)))}"


DRAWN = 2000  # points of a scatter


def convergence_chart(record: Record, ahead: list[Outlook]) -> dict[str, Any]:
    """How the ranking settled: its correlation with the last one, with people, and what is expected."""
    moments, made = convergence(record), len(record.answered)
    series = [
        ("final", "same order as in the end", [(moment.calls, moment.final) for moment in moments]),
        ("expected", "expected agreement", [(moment.calls, moment.expected) for moment in moments]),
        ("outlook", "expected agreement, with more of them", [(made + step.more, step.expected) for step in ahead[:3]]),
    ]
    for number, name in enumerate(list(record.items.scores)[:4]):
        line = [(moment.calls, moment.people[name]) for moment in moments]
        series.append((f"people-{number}", f"with people: {label(name)}", line))
    judge, calls = words_of(record).judge, words_of(record).calls
    about = (
        f"The ranking was made again after the first {calls}, and after more and more of them. A value of 1 is the "
        f"same order, 0 is chance. Where the dashed line is close to 1 for long, the last {calls} changed little. The "
        f"blue line is the expected agreement with the order that {judge} would settle on if asked again and again; "
        f"dotted, what more {calls} would bring."
    )
    calls_made = sorted({x for _, _, line in series for x, _ in line})
    known = [dict(line) for _, _, line in series]
    curves = {
        "names": [name for _, name, _ in series],
        "rows": [(f"{x:,}", [line.get(x) for line in known]) for x in calls_made],
    }
    return {"convergence": line_chart(series), "convergence_about": about, "curves": curves}


def length_chart(record: Record) -> Chart | None:
    """The scores of some texts over their lengths; None where all texts are as long, or not known."""
    if not record.has_texts:
        return None
    drawn = np.random.default_rng(0).permutation(len(record.characters))[:DRAWN]
    lengths = record.characters[drawn]
    return scatter_chart(lengths, record.ranking.scores[drawn]) if np.ptp(lengths) > 0 else None


def people_chart(found: Agreement) -> Chart:
    """People's scores over those of the ranking."""
    drawn = np.random.default_rng(0).permutation(len(found.x))[:DRAWN]
    return scatter_chart(found.x[drawn], found.y[drawn])


def people_about(people: list[Agreement], scores: int) -> str:
    """What the charts of people's scores show, and where their intervals come from."""
    if not people:
        return ""
    first = f" Shown are the first {PEOPLE} of {scores} scores." if scores > PEOPLE else ""
    about = "The 95% intervals come from a bootstrap over texts."
    if max(found.contexts for found in people) > 1:
        about = (
            "From both, the mean of their context is subtracted. Correlations are means over contexts; their 95% "
            "intervals come from a bootstrap over contexts."
        )
    return (
        "Each point is a text; across its score, upwards people's score. Where points rise to the right, the ranking "
        f"agrees with people. A correlation of 1 is the same order, 0 is chance. {about}{first}"
    )


LISTED_ITEMS = 100  # rows of a table
SENTENCE = 1000  # characters


def growth_part(ranking: Ranking) -> dict[str, Any] | None:
    """Sentences and tables about what is new and what moved; None for a ranking that has not grown."""
    grown = ranking.grown
    if grown is None:
        return None
    tables = {"The new texts": new_columns(ranking, grown), "The texts that moved": moved_columns(ranking, grown)}
    return {
        "sentences": [label(sentence, SENTENCE) for sentence in growth_sentences(ranking, grown)],
        "tables": [_table(title, columns) for title, columns in tables.items() if len(columns["item"])],
    }


def _table(title: str, columns: dict[str, NDArray[Any]]) -> dict[str, Any]:
    rows = zip(*(column[:LISTED_ITEMS].tolist() for column in columns.values()), strict=True)
    return {
        "title": title,
        "names": [name.replace("_", " ") for name in columns],
        "rows": [[_cell(name, value) for name, value in zip(columns, row, strict=True)] for row in rows],
        "hidden": max(0, len(columns["item"]) - LISTED_ITEMS),
    }


def _cell(name: str, value: Any) -> str:
    if name in ("item", "context"):
        return label(value)
    return f"{value:,}" if isinstance(value, int) else figure(value)
