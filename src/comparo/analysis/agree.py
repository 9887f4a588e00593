"""A judge against people on the same pairs: how often they agree, and where they do not.

The accuracy is the share of people's votes with the judge's verdict, among those that both decided. Its ceiling is how
often two people agree with each other. κ and α correct for chance and count ties (`comparo.metrics`); κ is that of the
judge and any person. Intervals take into account that votes on the same texts are alike (`judge_votes.share_of`); those
of κ and α are a bootstrap over contexts or, below 20 of them, over pairs, widened for pairs that share a text.

Tables are lists of rows, each a dictionary.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comparo.analysis.judge_votes import Panel, Row, Share, Votes, rank_correlation, share_of, without_bias
from comparo.data.columns import look_up
from comparo.data.comparisons import Comparisons
from comparo.data.items import Items
from comparo.metrics import DRAWS, Estimate, alpha_of, kappa_of
from comparo.ranking.self_consistency import NEAR
from comparo.ranking.tabular import plain
from comparo.types import Array, check_level

PEOPLE = "people among themselves"
TABLES = ("judges", "confidence", "length", "calibration", "disagreements", "ranking")
CONFIDENCE = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)  # edges of the judge's probability for its choice
RATIOS = (1.0, 1.1, 1.5, 2.0, np.inf)  # edges of the length of the longer text in lengths of the shorter
BINS = 10  # of p, for calibration
LISTED = 10  # votes of a text or kind that is listed


@dataclass(frozen=True)
class Agreement:
    """The tables that `agree` returns, as lists of rows; NaN where the votes do not determine a number.

    Parameters
    ----------
    people : The names of the people.
    judges : A row per judge: pairs, votes, accuracy, κ, α, ties, calibration errors; last, people among themselves.
    confidence, length : The accuracy by the judge's confidence, and by how much longer one text is.
    calibration : People's share for the text shown first, in bins of the judge's p.
    disagreements : By person, text, item, context and group: the share of votes against the judge.
    ranking : The correlation of the judge's ranking with the one that people would give after infinitely many votes.
    level : The coverage of the intervals.
    """

    people: tuple[str, ...]
    judges: list[Row]
    confidence: list[Row]
    length: list[Row]
    calibration: list[Row]
    disagreements: list[Row]
    ranking: list[Row]
    level: float

    def to_json(self) -> str:
        """The rows as JSON, null where a number is not known."""
        tables = {
            name: [{key: plain(cell) for key, cell in row.items()} for row in getattr(self, name)] for name in TABLES
        }
        return json.dumps({"people": self.people, **tables, "level": self.level}, ensure_ascii=False)


def agree(
    data: Any,
    people: Collection[Hashable],
    *,
    items: Any = None,
    level: float = 0.95,
    draws: int = DRAWS,
    seed: int = 0,
) -> Agreement:
    """Compare judges with people on the pairs that both judged.

    Parameters
    ----------
    data
        Comparisons with judges, in any form that `fit` reads: the votes of people and the answers of judges.
    people
        The judges that are people; all others are judges to compare with them.
    items
        The texts, in any form that `Items.of` reads: for what depends on length or on groups. None: unknown.
    level, draws, seed
        The coverage of the intervals, and the number of draws and the seed of the bootstrap of κ and α.

    Returns
    -------
    Agreement

    Raises
    ------
    ComparisonsError
        If the data cannot be used, if a person is not one of the judges, or if no pair was judged by both.
    ValueError
        If `level` is not between 0 and 1.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> rows = []
    >>> for _ in range(300):
    ...     i, j = rng.permutation(30)[:2].tolist()
    ...     right = i > j
    ...     for judge, chance in (("ana", 0.95), ("bo", 0.95), ("gpt", 0.85)):
    ...         p = right if rng.random() < chance else not right
    ...         rows.append({"first": i, "second": j, "p": float(p), "judge": judge})
    >>> found = agree(rows, ["ana", "bo"])
    >>> [(row["judge"], round(row["accuracy"], 2)) for row in found.judges]
    [('gpt', 0.87), ('people among themselves', 0.97)]
    """
    check_level(level)
    panel = Panel.of(Comparisons.of(data), people)
    length, group = _lengths_and_groups(panel.comparisons, None if items is None else Items.of(items))
    tables: dict[str, list[Row]] = {name: [] for name in TABLES}
    for judge in panel.judges.tolist():
        votes, curve = panel.votes(judge), list(calibration(panel, judge, level))
        parts = {
            "judges": [_measured(panel, judge, votes, curve, (level, draws, seed))],
            "confidence": by_confidence(votes, level),
            "length": () if length is None else by_length(votes, length, level),
            "calibration": curve,
            "disagreements": disagreements(panel, votes, group, level),
            "ranking": [rank_correlation(panel, judge, level)],
        }
        for table, rows in parts.items():
            tables[table] += [{"judge": str(panel.name(judge)), **row} for row in rows]
    tables["judges"].append({"judge": PEOPLE, **_ceiling(panel, (level, draws, seed))})
    return Agreement(tuple(str(panel.name(code)) for code in panel.people.tolist()), **tables, level=level)


def _lengths_and_groups(comparisons: Comparisons, items: Items | None) -> tuple[Array | None, Mapping[int, Any]]:
    """The length of each text by its number (context · items + item), NaN where unknown, and its group.

    CSV has text where the items may have numbers: labels are compared as text.
    """
    if items is None:
        return None, {}
    contexts = [None] if comparisons.contexts is None else comparisons.contexts.tolist()
    wanted = [(str(context), str(label)) for context in contexts for label in comparisons.items.tolist()]
    row = look_up(wanted, [(str(context), str(label)) for context, label in items.labels])
    length = np.where(row < 0, np.nan, np.array([len(text) for text in items.texts])[row])
    known = np.flatnonzero(row >= 0).tolist()
    return length, {} if items.group is None else {text: items.group[row[text]] for text in known}


Bootstrap = tuple[float, int, int]  # level, draws and seed


def _measured(panel: Panel, judge: int, votes: Votes, curve: list[Row], how: Bootstrap) -> Row:
    """The row of a judge."""
    pair, verdicts, level = votes.pair.astype(np.int64), panel.verdicts, how[0]
    counted = (np.isin(verdicts.judge, panel.people) | (verdicts.judge == judge)) & np.isin(verdicts.pair, pair)
    said, fair = (
        calibration_error([row for row in curve if row["answers"] == answers])
        for answers in ("as said", "without position bias")
    )
    return {
        **_agreement(panel, pair, votes.judged, votes.said, counted, how),
        "accuracy_fair": accuracy(without_position(votes), level).value,
        "ties": float(np.mean(votes.judged == 0)),
        "people_ties": float(np.mean(votes.said == 0)),
        "calibration": said[0],
        "calibration_fair": fair[0],
        "calibration_chance": said[1],
    }


def _ceiling(panel: Panel, how: Bootstrap) -> Row:
    """How far people agree with each other: a row like that of a judge, as far as it has a meaning."""
    person = np.isin(panel.verdicts.judge, panel.people)
    ties = float(np.mean(panel.verdicts.said[person] == 0))
    return {**_agreement(panel, *panel.between_people(), person, how), "people_ties": ties}


def _agreement(
    panel: Panel,
    pair: NDArray[np.int64],
    one: NDArray[np.int64],
    other: NDArray[np.int64],
    counted: NDArray[np.bool_],
    how: Bootstrap,
) -> Row:
    """Accuracy and κ of two verdicts on each pair (V,), and α of the verdicts that are `counted`."""
    verdicts, every = panel.verdicts, np.arange(len(panel.verdicts.unit))
    decided = (one != 0) & (other != 0)
    same = share_of((one == other)[decided].astype(np.float64), panel.clusters(pair[decided]), how[0])
    found: dict[str, Share | Estimate] = {
        "accuracy": same,
        "kappa": kappa_of(one, other, verdicts.unit[pair], *how, panel.texts(pair)),
        "alpha": alpha_of(verdicts.counts(counted), verdicts.unit, *how, panel.texts(every)),
    }
    row: Row = {"pairs": len(np.unique(pair)), "votes": len(pair), "decided": same.votes}
    for name, each in found.items():
        row |= {name: each.value, f"{name}_low": each.low, f"{name}_high": each.high}
    return row


def share_row(name: str, share: Share) -> Row:
    """A share as columns: value, low, high, votes and pairs."""
    return {name: share.value, "low": share.low, "high": share.high, "votes": share.votes, "pairs": share.pairs}


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
    return share_of((some.said == some.judged).astype(np.float64), some, level)


def without_position(votes: Votes) -> Votes:
    """The decided votes with the verdict that the judge would give without its position bias."""
    away = votes.fair - 0.5
    fair = replace(votes, judged=np.where(np.abs(away) > NEAR, np.sign(away), 0).astype(np.int64))
    return fair.take(fair.decided)


def by_length(votes: Votes, length: Array, level: float) -> Iterator[Row]:
    """Accuracy by how much longer one text is; and how often the judge, and people, prefer the longer one.

    `length` is that of each text by its number (context · items + item), NaN where it is unknown.
    """
    known = np.isfinite(length[votes.first]) & np.isfinite(length[votes.second])
    some = votes.take(votes.decided & known)
    first, second = length[some.first], length[some.second]
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
    _, pair = np.unique(panel.pair_keys(), return_inverse=True)
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


def disagreements(panel: Panel, votes: Votes, group: Mapping[int, Any], level: float) -> Iterator[Row]:
    """The share of votes against the judge, by person, text, item, context and group, worst first in each kind.

    Only those with at least `LISTED` decided votes are listed. The intervals of a kind hold for all its rows at once
    (Bonferroni), since the worst of many is partly chance; rows are sorted by their lower ends, and `is_more` says
    whether that is above the share of all votes. `group` maps the number of a text to its group.
    """
    some = votes.take(votes.decided)
    wrong = (some.said != some.judged).astype(np.float64)
    items, contexts = panel.comparisons.items, panel.comparisons.contexts
    size, ends = len(items), np.stack([some.first, some.second])
    kinds: dict[str, tuple[NDArray[np.integer], Callable[[int], Any]]] = {"person": (some.person[None], panel.name)}
    kinds["text" if contexts is None else "item"] = ends % size, items.__getitem__
    if contexts is not None:
        kinds["context"] = some.context[None], contexts.__getitem__
        kinds["text"] = ends, lambda code: f"{contexts[code // size]}: {items[code % size]}"
    if group:
        names = list(dict.fromkeys(group.values()))
        code = {text: names.index(name) for text, name in group.items() if name}
        kinds["group"] = np.vectorize(lambda text: code.get(text, -1), otypes=[int])(ends), names.__getitem__
    for kind, (codes, name) in kinds.items():
        listed = [(name(code), rows) for code, rows in _votes_by_code(codes) if len(rows) >= LISTED]
        if len(listed) < 2:
            continue
        together = 1 - (1 - level) / len(listed)
        found = [(label, share_of(wrong[rows], some.take(rows), together)) for label, rows in listed]
        for label, share in sorted(found, key=lambda one: -one[1].low):
            more = share.low > float(np.mean(wrong))
            yield {"kind": kind, "name": str(label), **share_row("disagree", share), "is_more": more}


def _votes_by_code(codes: NDArray[np.integer]) -> list[tuple[int, NDArray[np.intp]]]:
    """The votes (V,) in which each code from 0 on is on any of the k sides, of codes (k, V)."""
    labels, place, count = np.unique(codes, return_inverse=True, return_counts=True)
    votes = np.argsort(place.ravel(), kind="stable") % codes.shape[1]
    parts = np.split(votes, np.cumsum(count))  # the last is empty
    return [(label, np.unique(rows)) for label, rows in zip(labels.tolist(), parts, strict=False) if label >= 0]
