"""The section Who judged: figures of each voice, the agreement of any two, and the texts on which they disagree; and
the tables of an audit.

All figures are relative to the common ranking of the voices (`panel`), whatever the method of the ranking is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.special import expit

from comparo.analysis.misfit import misfit
from comparo.analysis.reliability import MEASURES, measured
from comparo.data.run_folder import key_of
from comparo.model.design import Design
from comparo.model.estimators.panel_members import OTHERS, PanelMembers, fit_members
from comparo.model.tuning import FEW
from comparo.ranking.display import BLIND
from comparo.ranking.ranks import ranks
from comparo.ranking.tabular import rows_of
from comparo.report.embed import excerpt, label, signed
from comparo.report.measures import position_bias, voter_biases
from comparo.report.record import Record
from comparo.run.audit import Audit, Card
from comparo.run.budget import dollars
from comparo.types import Array

SHOWN, CROSSED, PLACED = 40, 12, 8  # voices of the table, of the agreement of any two, and of a contested text
CONTESTED = 5  # texts
EXCERPT = 600  # characters of such a text
REASON = 300  # characters of the reason why a voice was left out
Member = dict[str, Any]  # a row of the table: one voice, its figures as they are shown, and remarks
UNKNOWN: Member = dict.fromkeys(("agreement", "signal", "flips", "favours", "cost", "infit"), "–")
UNKNOWN |= {"interval": "", "favours_interval": "", "infit_limit": ""}
NARROW, WIDE = 0.2, 4.0  # logits from the middle of a picture of a probe to its end, at least and at most
PROBED = {
    "equal": "Variants that are as good as the original",
    "no better": "Variants that add nothing to the original",
    "worse": "Variants that are worse: the judge should prefer the original",
}


def who_judged(record: Record) -> dict[str, Any] | None:
    """The contents of the section; None for a run of one voice.

    Parameters
    ----------
    record
        A run with its ranking.

    Returns
    -------
    dict or None
        `members`, a row per voice, in the order of the run; `hidden`, how many are left out of them; `crossed`, the
        agreement of any two of the first voices as rows of cells (text, hue, share of it), and `uncrossed`, how many
        are not among them; `contested`, the texts on which they disagree most; and whether a cost is known (`priced`).
    """
    data = record.ranking.comparisons
    asked = [str(name) for name in record.identity.get("voices", {})]
    if len(asked) < 2 and (data.judges is None or len(data.judges) < 2):
        return None
    heard = fit_members(data, Design(is_biased=record.fitting.bias == "joint"))
    names = [str(name) for name in heard.names]
    place = {name: number for number, name in enumerate(asked)}
    order = sorted(range(len(names)), key=lambda r: place.get(names[r], len(asked)))
    costs, reasons = _costs(record, names), _left_out(record)
    members = _members(record, heard, order, costs)
    for name in asked:
        if name not in names:
            calls = sum(judgement.question.voice == name for judgement in record.answered)
            few = f"fewer than {FEW} answers: they are counted under “{OTHERS}”" if calls else "gave no answer"
            members.append({**UNKNOWN, "name": name, "calls": f"{calls:,}", "remarks": [few]})
    for member in members:
        if member["name"] in reasons:
            member["remarks"].append(f"was left out: {reasons[member['name']]}")
    single = [(number, r) for number, r in enumerate(order, 1) if names[r] != OTHERS]
    return {
        "members": members[:SHOWN],
        "hidden": max(0, len(members) - SHOWN),
        "crossed": _crossed(heard, single[:CROSSED]) if len(single) > 1 else [],
        "uncrossed": max(0, len(single) - CROSSED),
        "contested": _contested(record, heard, [r for _, r in single]) if len(single) > 1 else [],
        "priced": any(costs.values()),
        "level": f"{record.ranking.level:.0%}",
    }


def _members(record: Record, heard: PanelMembers, order: Sequence[int], costs: Mapping[str, float]) -> list[Member]:
    """A row for each voice with figures, in this order."""
    ranking, names = record.ranking, [str(name) for name in heard.names]
    found = dict(zip(MEASURES, measured(ranking.comparisons, heard, None), strict=True))
    own = voter_biases(ranking)
    fits = {str(row["judge"]): row for row in rows_of(misfit(ranking, "judge"), len(names) + SHOWN)}

    def preferred(name: str, first: float) -> tuple[str, str]:
        """Which of two equal texts wins: in a ranking of votes, by the bias that it corrects for, with its interval."""
        if not own:
            return favours(first), ""
        bias = own.get(name) or position_bias(ranking)  # the mean, of people with few votes together
        ends = (bias.low, bias.high) if bias.wins > 0.495 else (1.0 - bias.high, 1.0 - bias.low)
        return favours(bias.wins), f"{ends[0]:.0%} to {ends[1]:.0%}"

    low, high = heard.interval(ranking.level)
    calls = [ranking.comparisons.take(heard.voice == r).answers for r in range(len(names))]
    members = []
    for r in order:
        name, is_known, remarks = names[r], not math.isnan(found["agreement"][r]), []
        if (first := next(s for s in order if heard.family[s] == heard.family[r])) != r:
            remarks.append(f"gives the same ranking as {label(names[first])}: the two count as one opinion")
        if is_known and heard.reversed[r]:
            remarks.append("ranks against the others: its answers are sign-flipped")
        elif is_known and low[r] <= 0 <= high[r]:
            blind = heard.loading[r] < BLIND
            remarks.append(
                "tells next to nothing of what the others agree on"
                if blind
                else "may agree with the others by chance: its interval contains 0"
            )
        if name == OTHERS:
            remarks.append(f"all {record.words.ones} with fewer than {FEW} answers together")
        fit = fits.get(name)
        if fit is not None and fit["misfit"]:
            remarks.append("contradicts the ranking more often than chance explains: read some of its answers")
        favoured, favoured_interval = preferred(name, float(expit(-found["gamma"][r])))
        members.append(
            {
                "name": name,
                "calls": f"{calls[r]:,}",
                "remarks": remarks,
                "agreement": _number(found["agreement"][r]),
                "interval": f"{_number(low[r])} to {_number(high[r])}" if is_known else "",
                "signal": _percent(found["signal"][r]),
                "flips": _percent(found["flips"][r]),
                "favours": favoured,
                "favours_interval": favoured_interval,
                "infit": "–" if fit is None else f"{fit['infit']:.2f}",
                "infit_limit": "" if fit is None else f"limit {fit['limit']:.2f}",
                "cost": dollars(costs.get(name, math.nan)),
            }
        )
    return members


def favours(first: float) -> str:
    """Which of two equal texts wins, given the probability that the first does.

    >>> favours(0.62), favours(0.3), favours(0.503)
    ('the first, 62%', 'the second, 70%', 'neither')
    """
    share = max(first, 1.0 - first)
    return "neither" if share < 0.505 else f"the {'first' if first > 0.5 else 'second'}, {share:.0%}"


def _costs(record: Record, names: list[str]) -> dict[str, float]:
    """The known cost of each voice; "others" are all voices without a name among `names`."""
    costs: dict[str, float] = {}
    for judgement in record.judgements:
        if not math.isnan(judgement.spent):
            voice = str(judgement.question.voice)
            voice = voice if voice in names else OTHERS
            costs[voice] = costs.get(voice, 0.0) + judgement.spent
    return costs


def _left_out(record: Record) -> dict[str, str]:
    """Why voices were left out: the error of questions that were not asked again since."""
    last = {key_of(judgement.question): judgement for judgement in record.judgements}
    reasons = {}
    for judgement in last.values():
        begin = f"{judgement.question.voice} was left out: "
        if judgement.failed and str(judgement.error).startswith(begin):
            reasons[str(judgement.question.voice)] = label(str(judgement.error).removeprefix(begin), REASON)
    return reasons


def _crossed(heard: PanelMembers, single: Sequence[tuple[int, int]]) -> list[dict[str, Any]]:
    """The agreement of numbered voices with each other: rows of cells, None on the diagonal."""
    found = np.clip(heard.agreement.correlation, -1.0, 1.0).tolist()
    return [
        {
            "number": number,
            "name": label(heard.names[r]),
            "cells": [None if r == s else _cell(found[r][s]) for _, s in single],
        }
        for number, r in single
    ]


def _cell(value: float) -> tuple[str, str, str]:
    """A correlation in hundredths, since twelve must fit the width of a telephone; its hue and the share of it."""
    return f"{round(100 * value)}".replace("-", "−"), "blue" if value >= 0 else "orange", f"{60 * abs(value):.0f}%"


def _contested(record: Record, heard: PanelMembers, single: list[int]) -> list[Mapping[str, Any]]:
    """The texts on whose scores voices differ most, and the place that each voice gives them.

    Scores are in standard deviations of those of the same voice, and sign-flipped for a reversed voice. Voices that may
    agree by chance are left out, unless fewer than two remain, and so are texts that fewer than two voices judged.
    """
    graph, (low, high) = heard.graph, heard.interval(record.ranking.level)
    sure = [r for r in single if low[r] > 0 or high[r] < 0]
    counted = sure if len(sure) > 1 else single
    scores = np.full((len(counted), graph.nodes), np.nan)
    places = np.zeros(scores.shape, dtype=np.int64)
    for row, r in enumerate(counted):
        own, answered = np.sign(heard.shrunk_loading[r]) * heard.voices[r].scores, heard.voice == r
        seen = np.unique(np.concatenate([graph.first[answered], graph.second[answered]]))
        if np.ptp(own[seen]) > 0:
            scores[row, seen] = own[seen] / np.std(own[seen])
        places[row] = ranks(graph, own)
    judged = np.sum(~np.isnan(scores), axis=0)
    apart = np.full(graph.nodes, -1.0)
    apart[judged > 1] = np.nanstd(scores[:, judged > 1], axis=0)
    sizes = np.bincount(graph.component)
    found: list[Mapping[str, Any]] = []
    for node in np.argsort(-apart, kind="stable")[:CONTESTED].tolist():
        if apart[node] <= 0:
            break
        context = record.ranking.context
        text, left = excerpt(record.items.texts[record.row[node]], EXCERPT)
        found.append(
            {
                "item": label(record.ranking.items[node]),
                "context": "" if context is None else label(context[node]),
                "size": f"{sizes[graph.component[node]]:,}",
                "places": [
                    (label(heard.names[counted[row]]), f"{places[row, node]:,}") for row in _extremes(scores[:, node])
                ],
                "text": text,
                "left": left,
            }
        )
    return found


def _extremes(scores: Array) -> list[int]:
    """The voices that judged a text, in their order; of more than `PLACED`, those with the lowest and highest scores.

    >>> _extremes(np.array([0.5, np.nan, -1.0]))
    [0, 2]
    """
    known = [row for row in np.argsort(scores, kind="stable").tolist() if not math.isnan(scores[row])]
    half = PLACED // 2
    return sorted(known if len(known) <= PLACED else known[:half] + known[-half:])


def _number(value: float) -> str:
    return "–" if math.isnan(value) else signed(value).removeprefix("+")


def _percent(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.0%}"


def probe_tables(found: Audit) -> list[dict[str, Any]]:
    """What the macro `probes` shows of every card."""
    every = (end for card in found.cards for one in card.findings for end in (one.low, one.effect, one.high))
    widest = min(max([NARROW, *(abs(end) for end in every if not math.isnan(end))]), WIDE)
    return [_probe_table(card, widest) for card in found.cards]


def _probe_table(card: Card, widest: float) -> dict[str, Any]:
    def place(value: float) -> float:
        return round(100 + 95 * max(-1.0, min(1.0, value / widest)), 1)

    groups = [
        (words, [(one, *map(place, (one.low, one.effect, one.high))) for one in card.findings if one.right == right])
        for right, words in PROBED.items()
    ]
    cost = f", {dollars(card.cost)}" if card.cost else ""
    facts = [("Texts varied", f"{card.texts}"), ("Calls and cost", f"{card.calls:,} calls{cost}")]
    if not math.isnan(card.spread):
        facts.append(("Typical difference of two real texts", f"{card.spread:.2f} logits"))
    return {"name": label(card.name), "groups": groups, "facts": facts}
