"""Where a judge and people agree, and where they do not: by confidence, by length, calibration, texts and kinds.

Every function returns rows as dictionaries, for one judge. A share comes with the ends of its interval (`shares`), the
number of votes and that of pairs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comparo.analysis.judge_votes import Panel, Share, Votes, share_of, without_bias
from comparo.ranking.flips import NEAR
from comparo.types import Array

Row = dict[str, Any]
CONFIDENCE = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)  # edges of the judge's probability for its choice
RATIOS = (1.0, 1.1, 1.5, 2.0, np.inf)  # edges of the length of the longer text in lengths of the shorter
BINS = 10  # of p, for calibration
LEAST = 10  # votes of a text or kind that is listed


def share_row(name: str, share: Share) -> Row:
    """A share as columns: value, low, high, votes and pairs."""
    ends = {name: share.value, "low": share.low, "high": share.high}
    return {**ends, "votes": share.votes, "pairs": share.pairs}


def by_confidence(votes: Votes, level: float) -> Iterator[Row]:
    """Accuracy on decided pairs, by the judge's probability max(p, 1 − p) for its choice without position bias."""
    some = without_position(votes)
    sure = np.maximum(some.fair, 1 - some.fair)
    place = np.clip(np.searchsorted(CONFIDENCE, sure, side="right") - 1, 0, len(CONFIDENCE) - 2)
    for number, (low, high) in enumerate(pairwise(CONFIDENCE)):
        here = some.take(place == number)
        if len(here):
            yield {"from": low, "to": high, **share_row("accuracy", accuracy(here, level))}


def accuracy(votes: Votes, level: float) -> Share:
    """The share of votes with the judge's verdict, among those that both decided."""
    some = votes.take(votes.decided)
    return share_of((some.said == some.judged).astype(np.float64), some.clusters, level)


def without_position(votes: Votes) -> Votes:
    """The decided votes with the verdict that the judge would give without its position bias."""
    fair = replace(
        votes, judged=np.where(np.abs(votes.fair - 0.5) > NEAR, np.sign(votes.fair - 0.5), 0).astype(np.int64)
    )
    return fair.take(fair.decided)


def by_length(votes: Votes, length: Array, level: float) -> Iterator[Row]:
    """Accuracy by how much longer one text is; and how often the judge, and people, prefer the longer one.

    `length` is that of each text by its number (context · items + item), NaN where it is unknown.
    """
    first, second = length[votes.clusters.first], length[votes.clusters.second]
    some = votes.take(votes.decided & np.isfinite(first) & np.isfinite(second))
    first, second = length[some.clusters.first], length[some.clusters.second]
    ratio = np.maximum(first, second) / np.maximum(np.minimum(first, second), 1)
    place = np.searchsorted(RATIOS, ratio, side="right") - 1
    longer = np.sign(first - second)
    for number, (low, high) in enumerate(pairwise(RATIOS)):
        here = place == number
        if not here.any():
            continue
        unequal = here & (longer != 0)
        prefers = {
            f"{who}_longer": float(np.mean((said == longer)[unequal])) if unequal.any() else np.nan
            for who, said in (("judge", some.judged), ("people", some.said))
        }
        yield {"from": low, "to": high, **share_row("accuracy", accuracy(some.take(here), level)), **prefers}


def calibration(panel: Panel, judge: int, level: float) -> Iterator[Row]:
    """People's share for the text shown first against the judge's p, in bins of p: as said, and without position bias.

    Each answer of the judge is an observation, as the judge saw the pair; ties of people count half.
    """
    count, share = panel.shares()
    _, pair = np.unique(panel_keys(panel), return_inverse=True)
    fair = without_bias(panel.comparisons, panel.judges)
    rows = np.flatnonzero((panel.comparisons.judged_by == judge) & (count[pair] > 0))
    turned = (panel.comparisons.first > panel.comparisons.second)[rows]
    people = np.where(turned, 1 - share[pair[rows]], share[pair[rows]])
    clusters = panel.clusters(pair[rows])
    for name, p in (("as said", panel.comparisons.p[rows]), ("without position bias", fair.p[rows])):
        place = np.minimum((p * BINS).astype(int), BINS - 1)
        for number in np.unique(place).tolist():
            here = place == number
            found = share_of(people[here], clusters.take(here), level)
            yield {"answers": name, "p": float(np.mean(p[here])), **share_row("people", found), "std": found.std}


def panel_keys(panel: Panel) -> NDArray[np.int64]:
    """A number for each comparison (K,): equal for the same two items and context, in the order of the verdicts."""
    return replace(panel.comparisons, judges=None, judge=None).pair_keys()


def calibration_error(rows: list[Row]) -> tuple[float, float]:
    """The expected calibration error of a curve, and what a perfectly calibrated judge would show on as few votes.

        ECE = Σ_b n_b/n · |people_b − p_b|,    by chance Σ_b n_b/n · √(2/π)·s_b,

    s_b being the standard error of people's share in bin b.
    """
    weight = np.array([row["votes"] for row in rows], dtype=np.float64)
    off = np.array([abs(row["people"] - row["p"]) for row in rows])
    error = np.array([row["std"] for row in rows])
    total = np.sum(weight)
    return float(weight @ off / total), float(np.sqrt(2 / np.pi) * (weight @ error) / total)


def disagreements(
    panel: Panel, votes: Votes, length: Array | None, group: Mapping[int, Any], level: float
) -> Iterator[Row]:
    """The share of votes against the judge, by text, item, group, context, person and length, worst first in each kind.

    Only those with at least `LEAST` decided votes are listed. The intervals of a kind hold for all its rows at once
    (Bonferroni), since the worst of many is partly chance; rows are sorted by their lower ends, and `is_more` says
    whether that is above the share of all votes. `group` maps the number of a text to its group.
    """
    some = votes.take(votes.decided)
    wrong = (some.said != some.judged).astype(np.float64)
    items, clusters = len(panel.comparisons.items), some.clusters
    ends = np.stack([clusters.first, clusters.second])
    contexts = panel.comparisons.contexts
    kinds: dict[str, list[tuple[Any, NDArray[np.intp]]]] = {"person": _parts(some.person, panel.name)}
    kinds["text" if contexts is None else "item"] = _ends(ends % items, panel.comparisons.items.__getitem__)
    if contexts is not None:
        kinds["context"] = _parts(clusters.context, contexts.__getitem__)
        kinds["text"] = _ends(ends, lambda code: f"{contexts[code // items]}: {panel.comparisons.items[code % items]}")
    if group:
        names = list(dict.fromkeys(group.values()))
        code = {text: names.index(name) for text, name in group.items()}
        coded = np.array([[code.get(text, -1) for text in side] for side in ends.tolist()])
        kinds["group"] = [
            part for part in _ends(coded, lambda number: names[number] if number >= 0 else None) if part[0]
        ]
    if length is not None:
        mean = np.mean(length[ends], axis=0)
        middle = np.nanmedian(mean)
        kinds["length"] = [(f"up to {middle:.0f} characters", np.flatnonzero(mean <= middle))]
        kinds["length"] += [(f"above {middle:.0f} characters", np.flatnonzero(mean > middle))]
    for kind, parts in kinds.items():
        listed = [(name, rows) for name, rows in parts if len(rows) >= LEAST]
        if len(listed) < 2:
            continue
        together = 1 - (1 - level) / len(listed)
        found = [(name, share_of(wrong[rows], clusters.take(rows), together)) for name, rows in listed]
        for name, share in sorted(found, key=lambda one: -one[1].low):
            more = share.low > float(np.mean(wrong))
            yield {"kind": kind, "name": str(name), **share_row("disagree", share), "is_more": more}


def _parts(code: NDArray[np.integer], name: Any) -> list[tuple[Any, NDArray[np.intp]]]:
    """The votes of each code that has enough to be listed, with its name."""
    listed, codes, count = np.unique(code, return_inverse=True, return_counts=True)
    some = np.flatnonzero(count[codes] >= LEAST)
    order = some[np.argsort(codes[some], kind="stable")]
    parts = np.split(order, np.cumsum(count[count >= LEAST])[:-1]) if len(order) else []
    return [(name(label), rows) for label, rows in zip(listed[count >= LEAST].tolist(), parts, strict=True)]


def _ends(codes: NDArray[np.integer], name: Any) -> list[tuple[Any, NDArray[np.intp]]]:
    """The votes of each text, item or group: those in which it is on either side, each once."""
    return [(label, np.unique(rows % codes.shape[1])) for label, rows in _parts(np.concatenate(codes), name)]
