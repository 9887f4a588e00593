"""The section Who judged: figures of each voice, and the agreement of any two.

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
from comparo.ranking.tabular import rows_of
from comparo.report.embed import label
from comparo.report.measures import position_bias, voter_biases
from comparo.report.record import Record

SHOWN, CROSSED = 40, 12  # voices of the table, and of the agreement of any two
REASON = 300  # characters of the reason why a voice was left out
Member = dict[str, Any]  # a row of the table: one voice, its figures, and remarks
UNKNOWN: Member = dict.fromkeys(("agreement", "signal", "flips", "cost"), math.nan)
UNKNOWN |= {"favours": "–", "favours_interval": "", "fit": None}


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
        agreement of any two of the first voices as rows of cells, and `uncrossed`, how many are not among them; and
        whether a cost is known (`priced`).
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
            members.append({**UNKNOWN, "name": name, "calls": calls, "remarks": [few]})
    for member in members:
        if member["name"] in reasons:
            member["remarks"].append(f"was left out: {reasons[member['name']]}")
    single = [(number, r) for number, r in enumerate(order, 1) if names[r] != OTHERS]
    return {
        "members": members[:SHOWN],
        "hidden": max(0, len(members) - SHOWN),
        "crossed": _crossed(heard, single[:CROSSED]) if len(single) > 1 else [],
        "uncrossed": max(0, len(single) - CROSSED),
        "priced": any(costs.values()),
        "level": f"{record.ranking.level:.0%}",
    }


def _members(record: Record, heard: PanelMembers, order: Sequence[int], costs: Mapping[str, float]) -> list[Member]:
    """A row for each voice with figures, in the given `order`."""
    ranking, names = record.ranking, [str(name) for name in heard.names]
    found = dict(zip(MEASURES, measured(ranking.comparisons, heard, None), strict=True))
    own = voter_biases(ranking)
    fits = {str(row["judge"]): row for row in rows_of(misfit(ranking, "judge"), len(names) + SHOWN)}

    def preferred(name: str, first: float) -> tuple[str, str]:
        """Which of two equal texts wins; in a ranking of votes, by its own bias estimate and with its interval."""
        if not own:
            return favours(first), ""
        bias = own.get(name) or position_bias(ranking)  # the mean bias, for the row of all people with few votes
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
                "calls": calls[r],
                "remarks": remarks,
                **{measure: float(found[measure][r]) for measure in ("agreement", "signal", "flips")},
                "low": low[r],
                "high": high[r],
                "favours": favoured,
                "favours_interval": favoured_interval,
                "fit": fit,
                "cost": costs.get(name, math.nan),
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
    """Why voices were left out: the error of questions that have not been asked again."""
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
            "cells": [None if r == s else found[r][s] for _, s in single],
        }
        for number, r in single
    ]
