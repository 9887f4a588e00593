"""The columns of a ranking's table, each in one place: its name, its values, when it is there, and words for readers.

`Ranking.to_columns`, CSV, JSON, the printed table and the report take them from here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from comparo.ranking.display import control_name
from comparo.ranking.scores import Scores
from comparo.ranking.tabular import Columns


def _is_estimated(ranking: Scores) -> bool:
    return ranking.estimate != "judge"


def _is_controlled(ranking: Scores) -> bool:
    return ranking.controlled is not None


@dataclass(frozen=True)
class Column:
    """A column of the table of a ranking.

    Parameters
    ----------
    name : The name of the column; a part "{control}" is that of the controlled numbers, as in "equal_length".
    values : The values of a ranking's candidates, (n,), in the order of `Ranking.items`.
    words : What it is, for a reader of the report.
    is_there : Whether a ranking has the column.

    >>> from comparo import fit
    >>> [column.name for column in COLUMNS if column.is_there(fit([("a", "b", 0.8)]))][:3]
    ['item', 'score', 'std']
    """

    name: str
    values: Callable[[Any], NDArray[Any]]
    words: str
    is_there: Callable[[Any], bool] = lambda _: True


COLUMNS = [
    Column("item", lambda ranking: ranking.items, "name"),
    Column("score", lambda ranking: ranking.scores, "score"),
    Column("judge_score", lambda ranking: ranking.judged.scores, "score by the judge alone", _is_estimated),
    Column("std", lambda ranking: ranking.std, "standard error of the score"),
    Column("low", lambda ranking: ranking.low, "lower end of the score's interval"),
    Column("high", lambda ranking: ranking.high, "upper end of the score's interval"),
    Column("rank", lambda ranking: ranking.rank, "rank"),
    Column("judge_rank", lambda ranking: ranking.judged.rank, "rank by the judge alone", _is_estimated),
    Column("tier", lambda ranking: ranking.tier, "tier"),
    Column("comparisons", lambda ranking: ranking.graph.degrees(), "comparisons"),
    Column("{control}_score", lambda ranking: ranking.controlled.scores, "controlled score", _is_controlled),
    Column("{control}_std", lambda ranking: ranking.controlled.std, "its standard error", _is_controlled),
    Column("{control}_rank", lambda ranking: ranking.controlled.rank, "controlled rank", _is_controlled),
    Column("new", lambda ranking: ranking.grown.new, "new", lambda ranking: ranking.grown is not None),
]


def columns_of(ranking: Any) -> Columns:
    """The columns that a ranking has, in the order of its candidates."""
    return {name: column.values(ranking) for name, column in _named(ranking)}


def words_of(ranking: Any) -> dict[str, str]:
    """The words for readers of each column that a ranking has, by its name."""
    return {name: column.words for name, column in _named(ranking)}


def _named(ranking: Any) -> list[tuple[str, Column]]:
    control = control_name(ranking.tables["control"]) if _is_controlled(ranking) else ""
    return [(column.name.format(control=control), column) for column in COLUMNS if column.is_there(ranking)]
