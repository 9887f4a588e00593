"""What a ranking was before items were added to it: who is new, and who moved.

What people's votes told beside a machine's ranking.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comparo.ranking.ordering import Placed
from comparo.rounding import merge_ties
from comparo.types import Array, Mask

NAMED = 5  # items that a sentence names
EQUAL = 1.05  # ratio of two squared widths up to which they are shown as equal: the number of calls rounds to one


@dataclass(frozen=True, eq=False)
class Grown:
    """What a ranking of n candidates was before it grew; arrays have one entry per candidate, as `Ranking.items`.

    Parameters
    ----------
    new : Whether each candidate is new, shape (n,).
    score, low, high : The score of each before, and its interval, shape (n,); NaN for new ones.
    rank, rank_now : Its rank before and now, both among those that are in both rankings, shape (n,); 0 for new ones.
    left_out : How many judgements about changed or removed texts were left out.
    """

    new: Mask
    score: Array
    low: Array
    high: Array
    rank: NDArray[np.int64]
    rank_now: NDArray[np.int64]
    left_out: int = 0

    def moved(self, scores: Array) -> Mask:
        """Which candidates of before have a score now (n,) that is outside of their interval of before."""
        return np.asarray(~self.new & ((scores < self.low) | (scores > self.high)))


def new_columns(ranking: Placed, grown: Grown) -> dict[str, NDArray[Any]]:
    """The new candidates, best first: context (where there are any), item, score, low, high and rank."""
    rows = np.flatnonzero(grown.new)
    rows = rows[np.lexsort((-merge_ties(ranking.scores[rows]), ranking.graph.context[rows]))]
    columns: dict[str, NDArray[Any]] = {} if ranking.context is None else {"context": ranking.context[rows]}
    columns |= {"item": ranking.items[rows], "score": ranking.scores[rows]}
    return columns | {"low": ranking.low[rows], "high": ranking.high[rows], "rank": ranking.rank[rows]}


def moved_columns(ranking: Placed, grown: Grown) -> dict[str, NDArray[Any]]:
    """The candidates that moved beyond their interval of before, the farthest first: a table with a row for each.

    Its columns are context (where there are any), item, score_before, low_before, high_before, score, rank_before and
    rank_now; both ranks are among the items that are in both rankings.
    """
    moved = np.flatnonzero(grown.moved(ranking.scores))
    rows = moved[np.argsort(-np.abs(ranking.scores - grown.score)[moved], kind="stable")]
    columns: dict[str, NDArray[Any]] = {} if ranking.context is None else {"context": ranking.context[rows]}
    columns |= {"item": ranking.items[rows], "score_before": grown.score[rows]}
    columns |= {"low_before": grown.low[rows], "high_before": grown.high[rows], "score": ranking.scores[rows]}
    return columns | {"rank_before": grown.rank[rows], "rank_now": grown.rank_now[rows]}


def growth_sentences(ranking: Placed, grown: Grown | None) -> list[str]:
    """Who is new, how well they are known, what moved and what was left out, in sentences; none if nothing grew."""
    if grown is None:
        return []
    new, moved = new_columns(ranking, grown), moved_columns(ranking, grown)
    old = np.count_nonzero(~grown.new)
    names = [f"{item} (rank {rank:,})" for item, rank in zip(new["item"].tolist(), new["rank"].tolist(), strict=True)]
    found = [f"{_number(len(names), 'item')} new beside {old:,} that were there before{_listed(names)}"]
    found += _precision(ranking, grown)
    steps = zip(moved["item"].tolist(), moved["score_before"].tolist(), moved["score"].tolist(), strict=True)
    names = [f"{item} ({before:.2f} to {now:.2f})" for item, before, now in steps]
    found.append(
        f"of the {old:,}, {len(names) or 'none'} moved beyond the {ranking.level:.0%} interval of before"
        f"{_listed(names)}"
    )
    if grown.left_out:
        found.append(
            f"{grown.left_out:,} judgements about changed or removed texts are left out; they stay in the folder"
        )
    return found


def _precision(ranking: Placed, grown: Grown) -> list[str]:
    """How wide the intervals of new and old candidates are, and how many calls would make them equal.

    The square of a width goes with one divided by the number of calls.
    """
    square = ((ranking.high - ranking.low) / 2.0) ** 2
    new, old = (square[group & np.isfinite(square)] for group in (grown.new, ~grown.new))
    if not len(new) or not len(old) or not np.mean(old) > 0:
        return []
    ratio = float(np.mean(new) / np.mean(old))
    said = f"intervals are ± {np.sqrt(np.mean(new)):.2f} for the new and ± {np.sqrt(np.mean(old)):.2f} for the others"
    return [
        f"{said}; about {ratio:.1f} times the calls about new ones would make them equal" if ratio > EQUAL else said
    ]


def _number(count: int, what: str) -> str:
    return f"{count:,} {what}{' is' if count == 1 else 's are'}"


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
    return f": {', '.join(names[:NAMED])}{more}" if names else ""


@dataclass(frozen=True, slots=True)
class People:
    """What people's votes told.

    Parameters
    ----------
    votes, voters : How many votes there are, and by how many people.
    level : The coverage of the interval of the validity.
    validity, low, high : k with its interval, the share of the judge's view of a text beyond its group that people
        share; None where no groups are known.
    correlation : The expected correlation of the scores with people's; 0 counts for the case that all texts are equal.
    alone : The same from the votes alone, without the machine.
    worth : How many votes of people alone would give the same, r²/(1 − r²) being proportional to their number.
    is_scattered : Whether hardly any text is in two votes.
    """

    votes: int
    voters: int
    level: float
    validity: float | None
    low: float | None
    high: float | None
    correlation: float
    alone: float
    worth: float
    is_scattered: bool = False

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know before trusting the intervals."""
        if not self.is_scattered:
            return ()
        return (
            "hardly any text is in two votes, so that they do not tell how much texts of one group vary: the intervals "
            "of people's scores may be far off; ask about the same texts again, or use fit --powered for groups",
        )

    @property
    def sentence(self) -> str:
        """What the votes told, for a reader.

        >>> print(People(50, 2, 0.95, 0.2, 0.05, 0.4, 0.6, 0.45, 107.0).sentence)
        50 votes of 2 people with the judge's answers are worth about as much as 107 votes alone: the expected
        correlation with people's scores is 0.60, and 0.45 from the votes alone. Of what the judge says about a text
        beyond its group, people share 0.20 (0.05 to 0.40).
        """
        who = f"{self.votes:,} votes of {self.voters:,} people" if self.voters > 1 else f"{self.votes:,} votes"
        sentence = (
            f"{who} with the judge's answers are worth about as much as {self.worth:,.0f} votes alone: the expected "
            f"correlation with people's scores is {self.correlation:.2f}, and {self.alone:.2f} from the votes alone."
        )
        if self.validity is None:
            return sentence
        shared = f"{self.validity:.2f} ({self.low:.2f} to {self.high:.2f})"
        if not all(
            math.isfinite(value) for value in (self.validity, self.low, self.high) if value is not None
        ):  # a ratio whose denominator may be 0
            shared = "an unknown share; more votes tell it"
        return f"{sentence} Of what the judge says about a text beyond its group, people share {shared}."
