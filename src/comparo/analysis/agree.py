"""A judge against people on the same pairs: how often they agree, with intervals.

The accuracy is the share of people's votes with the judge's verdict, among those that both decided. Its ceiling is how
often two people agree with each other. κ and α correct for chance and include ties (`comparo.metrics`); κ is that of
the judge and any person. Intervals allow for correlated votes on the same texts (`judge_votes.share_of`); those of κ
and α are a bootstrap over contexts or, below 20 of them, over pairs, widened for pairs that share a text.

Tables are lists of rows, each a dictionary.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comparo.analysis.judge_votes import (
    AgreementRow,
    JudgesAndPeople,
    Share,
    Votes,
    rank_correlation,
    share_of,
    without_bias,
)
from comparo.data.comparisons import Comparisons
from comparo.metrics import DRAWS, Estimate, alpha_of, kappa_of
from comparo.ranking.self_consistency import NEAR
from comparo.ranking.tabular import json_text, plain
from comparo.types import check_level

PEOPLE = "people among themselves"
TABLES = ("judges", "confidence", "calibration", "ranking")
CONFIDENCE = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)  # edges of the judge's probability for its choice
BINS = 10  # of p, for calibration


@dataclass(frozen=True)
class Agreement:
    """The tables that `agree` returns, as lists of rows; NaN where the votes do not determine a number.

    Parameters
    ----------
    people : The names of the people.
    judges : A row per judge: pairs, votes, accuracy, κ, α, ties, calibration errors; last, people among themselves.
    confidence : The accuracy by the judge's confidence.
    calibration : People's share for the text shown first, in bins of the judge's p.
    ranking : The correlation of the judge's ranking with the one that people would give after infinitely many votes.
    level : The coverage of the intervals.
    """

    people: tuple[str, ...]
    judges: list[AgreementRow]
    confidence: list[AgreementRow]
    calibration: list[AgreementRow]
    ranking: list[AgreementRow]
    level: float

    def to_json(self) -> str:
        """The rows as JSON, null where a number is not known."""
        tables = {}
        for name in TABLES:
            rows = getattr(self, name)
            tables[name] = [{key: plain(cell) for key, cell in row.items()} for row in rows]
        return json_text({"people": self.people, **tables, "level": self.level})


def agree(
    data: Any,
    people: Collection[Hashable],
    *,
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
    panel = JudgesAndPeople.of(Comparisons.of(data), people)
    tables: dict[str, list[AgreementRow]] = {name: [] for name in TABLES}
    for judge in panel.judges.tolist():
        votes, curve = panel.votes(judge), list(calibration(panel, judge, level))
        parts = {
            "judges": [_measured(panel, judge, votes, curve, (level, draws, seed))],
            "confidence": by_confidence(votes, level),
            "calibration": curve,
            "ranking": [rank_correlation(panel, judge, level)],
        }
        for table, rows in parts.items():
            tables[table] += [{"judge": str(panel.name(judge)), **row} for row in rows]
    tables["judges"].append({"judge": PEOPLE, **_ceiling(panel, (level, draws, seed))})
    return Agreement(tuple(str(panel.name(code)) for code in panel.people.tolist()), **tables, level=level)


Bootstrap = tuple[float, int, int]  # level, draws and seed


def _measured(
    panel: JudgesAndPeople, judge: int, votes: Votes, curve: list[AgreementRow], how: Bootstrap
) -> AgreementRow:
    """The row of a judge."""
    pair, verdicts, level = votes.pair.astype(np.int64), panel.verdicts, how[0]
    heard = np.isin(verdicts.judge, panel.people) | (verdicts.judge == judge)
    counted = heard & np.isin(verdicts.pair, pair)
    error, chance = calibration_error([row for row in curve if row["answers"] == "as said"])
    fair, _ = calibration_error([row for row in curve if row["answers"] == "without position bias"])
    return {
        **_agreement(panel, pair, votes.judged, votes.said, counted, how),
        "accuracy_fair": accuracy(without_position(votes), level).value,
        "ties": float(np.mean(votes.judged == 0)),
        "people_ties": float(np.mean(votes.said == 0)),
        "calibration": error,
        "calibration_fair": fair,
        "calibration_chance": chance,
    }


def _ceiling(panel: JudgesAndPeople, how: Bootstrap) -> AgreementRow:
    """The agreement of people with each other: a row like a judge's, with the columns that apply."""
    person = np.isin(panel.verdicts.judge, panel.people)
    ties = float(np.mean(panel.verdicts.said[person] == 0))
    return {**_agreement(panel, *panel.between_people(), person, how), "people_ties": ties}


def _agreement(
    panel: JudgesAndPeople,
    pair: NDArray[np.int64],
    one: NDArray[np.int64],
    other: NDArray[np.int64],
    counted: NDArray[np.bool_],
    how: Bootstrap,
) -> AgreementRow:
    """Accuracy and κ of two verdicts on each pair (V,), and α of the verdicts that are `counted`."""
    verdicts, every = panel.verdicts, np.arange(len(panel.verdicts.unit))
    decided = (one != 0) & (other != 0)
    is_same = (one == other)[decided].astype(np.float64)
    same = share_of(is_same, panel.clusters(pair[decided]), how[0])
    found: dict[str, Share | Estimate] = {
        "accuracy": same,
        "kappa": kappa_of(one, other, verdicts.unit[pair], *how, panel.texts(pair)),
        "alpha": alpha_of(verdicts.counts(counted), verdicts.unit, *how, panel.texts(every)),
    }
    row: AgreementRow = {"pairs": len(np.unique(pair)), "votes": len(pair), "decided": same.votes}
    for name, each in found.items():
        row |= {name: each.value, f"{name}_low": each.low, f"{name}_high": each.high}
    return row


def share_row(name: str, share: Share) -> AgreementRow:
    """A share as columns: value, low, high, votes and pairs."""
    return {name: share.value, "low": share.low, "high": share.high, "votes": share.votes, "pairs": share.pairs}


def by_confidence(votes: Votes, level: float) -> Iterator[AgreementRow]:
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


def calibration(panel: JudgesAndPeople, judge: int, level: float) -> Iterator[AgreementRow]:
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


def calibration_error(rows: list[AgreementRow]) -> tuple[float, float]:
    """The expected calibration error of a curve, and that of a perfectly calibrated judge on the same votes.

        ECE = Σ_b n_b/n · |people_b − p_b|,    by chance Σ_b n_b/n · √(2/π)·s_b,

    s_b being the standard error of people's share in bin b.
    """
    weight = np.array([row["votes"] for row in rows], dtype=np.float64)
    off = np.array([abs(row["people"] - row["p"]) for row in rows])
    error = np.array([row["std"] for row in rows])
    total = np.sum(weight)
    return float(weight @ off / total), float(np.sqrt(2 / np.pi) * (weight @ error) / total)
