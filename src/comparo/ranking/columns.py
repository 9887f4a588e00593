"""The columns of a ranking's table, each in one place: its name, its values, when it is there, and words for readers.

`Ranking.to_columns`, CSV, JSON, the printed table and the report take them from here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from numpy.typing import NDArray

from comparo.ranking.judge_tables import control_name
from comparo.ranking.tabular import Columns


@dataclass(frozen=True)
class Column:
    """A column of the table of a ranking.

    Parameters
    ----------
    name : The name of the column; "{control}" in it is that of the controlled numbers, such as "equal_length".
    values : The values of a ranking's candidates, (n,), in the order of `Ranking.items`.
    words : What it is, for a reader of the report.
    needs : The field of a ranking that is not None where it has this column.

    >>> from comparo import fit
    >>> column = Column("half", lambda ranking: ranking.scores / 2, "half of the score")
    >>> column.values(fit([("a", "b", 0.8), ("b", "a", 0.3)])).shape
    (2,)
    """

    name: str
    values: Callable[[Any], NDArray[Any]]
    words: str
    needs: str = "solution"


COLUMNS = [
    Column("item", attrgetter("items"), "name"),
    Column("score", attrgetter("scores"), "score"),
    Column("judge_score", attrgetter("judged.scores"), "score by the judge alone", "_judged"),
    Column("std", attrgetter("std"), "standard error of the score"),
    Column("low", attrgetter("low"), "lower end of the score's interval"),
    Column("high", attrgetter("high"), "upper end of the score's interval"),
    Column("rank", attrgetter("rank"), "rank"),
    Column("judge_rank", attrgetter("judged.rank"), "rank by the judge alone", "_judged"),
    Column("tier", attrgetter("tier"), "tier"),
    Column("p_best", attrgetter("_among_best"), "probability of being among the best", "_among_best"),
    Column("comparisons", lambda ranking: ranking.graph.degrees(), "comparisons"),
    Column("{control}_score", attrgetter("controlled.scores"), "controlled score", "controlled"),
    Column("{control}_std", attrgetter("controlled.std"), "its standard error", "controlled"),
    Column("{control}_rank", attrgetter("controlled.rank"), "controlled rank", "controlled"),
    Column("new", attrgetter("grown.new"), "new", "grown"),
]


def columns_of(ranking: Any) -> Columns:
    """The columns that a ranking has, in the order of its candidates."""
    return {name: column.values(ranking) for name, column in _named(ranking)}


def words_of(ranking: Any) -> dict[str, str]:
    """The words for readers of each column that a ranking has, by its name."""
    return {name: column.words for name, column in _named(ranking)}


def _named(ranking: Any) -> list[tuple[str, Column]]:
    there = [column for column in COLUMNS if getattr(ranking, column.needs) is not None]
    control = "" if ranking.controlled is None else control_name(ranking.tables["control"])
    return [(column.name.format(control=control), column) for column in there]
