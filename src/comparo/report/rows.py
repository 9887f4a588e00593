"""What stands first on the page, and the rows of its tables: the leader, a line, a context, a surprising answer."""

import math
from typing import Any

import numpy as np

from comparo.analysis.agreement import agreement
from comparo.report.bounds import pairs_in_order
from comparo.report.data import Tables, View
from comparo.report.embed import label
from comparo.report.names import context_told, told
from comparo.report.record import Record
from comparo.report.signs import in_hundred
from comparo.report.views import Columns
from comparo.report.words import words_of

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
