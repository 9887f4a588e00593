"""Comparisons: which items were compared, and how probable it is that the first is the better one.

These are the ways in and out: labels become codes once, here; `layouts` checks what is read, and `sheets` reads several
files as one. What follows from the columns is in `answers`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from comparo.data.answers import Answers
from comparo.data.columns import (
    Table,
    column_from_values,
    columns_from_frame,
    columns_from_objects,
    frame_from_columns,
    look_up,
    shown,
)
from comparo.data.formats import write_columns
from comparo.data.layouts import WANTED, answers_at, fields_from_matrix, fields_from_table
from comparo.data.lineups import columns_of, ordered
from comparo.data.wordings import few
from comparo.errors import ComparisonsError


@dataclass(frozen=True, eq=False)
class Comparisons(Answers):
    """K comparisons of N items.

    Labels are any hashable values. Integer labels are kept as integers in ascending order, all others in the order of
    their first appearance. The class methods `of`, `from_…` and `read` check their input; this constructor does not.

    Parameters
    ----------
    items : The labels of the items, shape (N,).
    first, second : The items shown first and second, as codes into `items`, shape (K,).
    p : The probability that the first item is better, shape (K,); 0, ½ or 1 where it is that value within rounding.
    weight : The weight of each comparison, shape (K,); None if all have weight 1.
    contexts, context : The labels of the contexts, and the code of each comparison's context, shape (K,).
    judges, judge : The labels of the judges, and the code of each comparison's judge, shape (K,).
    voted : Whether the judges are people: their column is called `voter`, or they voted on the page of `comparo vote`.
    lineup : The line-up that each comparison is part of, shape (K,) of dtype `lineups.ROWS`; None if all are pairs.
    lists_winners : Whether the first is the winner of each pair, whichever was shown first.

    Examples
    --------
    >>> comparisons = Comparisons.from_rows([("ana", "bo", 0.7), ("bo", "cy", 0.6)])
    >>> comparisons.items, comparisons.first, comparisons.p
    (array(['ana', 'bo', 'cy'], dtype=object), array([0, 1], dtype=int32), array([0.7, 0.6]))
    """

    @classmethod
    def of(cls, data: Any) -> Comparisons:
        """Comparisons from a path, a square numpy matrix, rows, a data frame, or comparisons themselves.

        >>> Comparisons.of(np.array([[np.nan, 0.7], [0.4, np.nan]])).p
        array([0.7, 0.4])
        """
        if isinstance(data, Comparisons):
            return data
        if isinstance(data, (str, os.PathLike)):
            return cls.read(data)
        if isinstance(data, np.ndarray) and data.ndim == 2:
            return cls.from_matrix(data)
        if isinstance(data, (list, tuple, Iterator)):
            return cls.from_rows(data)
        return cls.from_frame(data)

    @classmethod
    def from_columns(
        cls,
        first: Iterable[Any],
        second: Iterable[Any],
        p: Iterable[Any],
        weight: Iterable[Any] | None = None,
        context: Iterable[Any] | None = None,
        judge: Iterable[Any] | None = None,
        voter: Iterable[Any] | None = None,
    ) -> Comparisons:
        """Comparisons from columns of labels and numbers, each of shape (K,). A float64 array is kept, not copied.

        A `voter` is a judge who is a person.

        >>> Comparisons.from_columns(np.array([7, 3]), np.array([3, 5]), [0.7, 1]).items
        array([3, 5, 7])
        """
        given = {"first": first, "second": second, "p": p, "weight": weight, "context": context}
        given |= {"judge": judge, "voter": voter}
        columns = {name: column_from_values(name, values) for name, values in given.items() if values is not None}
        return cls(**fields_from_table(Table(columns)))

    @classmethod
    def from_rows(cls, rows: Iterable[Any]) -> Comparisons:
        """Comparisons from rows (first, second, p) or (first, second, p, weight), or from mappings of any layout.

        A row of three has weight 1.

        >>> Comparisons.from_rows([{"left": "ana", "right": "bo", "winner": "tie"}]).p
        array([0.5])
        """
        rows = list(rows)
        if rows and all(isinstance(row, Mapping) for row in rows):
            columns, others = columns_from_objects(rows, WANTED)
            return cls(**fields_from_table(Table(columns, others=others)))
        if bad := [k for k, row in enumerate(rows) if not isinstance(row, (tuple, list)) or len(row) not in (3, 4)]:
            expected = "(first, second, p) or (first, second, p, weight); give all rows so, or all as mappings"
            raise Table({}).error(bad, None, f"{shown(rows[bad[0]])} is not {expected}. A matrix is a numpy array")
        if rows and all(isinstance(label, float) for row in rows for label in row[:2]):
            raise Table({}).error([0], None, f"{shown(rows[0])} has numbers for items. A matrix is a numpy array")
        names = ("first", "second", "p", "weight")[: max(map(len, rows), default=3)]
        weighted = [(*row, 1.0) for row in rows]
        columns = {name: [row[place] for row in weighted] for place, name in enumerate(names)}
        return cls.from_columns(**columns)

    @classmethod
    def from_matrix(cls, matrix: ArrayLike, items: Iterable[Any] | None = None) -> Comparisons:
        """One comparison for each entry [i, j] = P(i beats j), i shown first, of an N×N matrix.

        NaN means no comparison; the diagonal is ignored. All `items` are kept, in the order of the matrix.

        >>> Comparisons.from_matrix([[np.nan, 0.7], [0.4, np.nan]], items=["bo", "ana"]).to_columns()["first"]
        array(['bo', 'ana'], dtype=object)
        """
        return cls(**fields_from_matrix(matrix, items))

    @classmethod
    def from_frame(cls, frame: Any) -> Comparisons:
        """Comparisons from a pandas, polars or pyarrow frame, or any other that narwhals reads, in a known layout.

        >>> import pandas
        >>> arena = pandas.DataFrame({"model_a": ["ana"], "model_b": ["bo"], "winner": ["model_b"]})
        >>> Comparisons.from_frame(arena).p
        array([0.])
        """
        try:
            columns, others = columns_from_frame(frame, WANTED)
        except TypeError as error:
            accepted = "Comparisons, a file, a square numpy matrix, rows, or a pandas, polars or pyarrow frame"
            raise ComparisonsError(f"a {type(frame).__name__} does not hold comparisons; give {accepted}") from error
        return cls(**fields_from_table(Table(columns, others=others)))

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Comparisons:
        """Comparisons from a file, or the answers of a run folder.

        A file is .csv, .tsv, .jsonl, .ndjson, .json (a list of objects), .parquet or .xlsx, each also compressed (with
        .gz added). The labels of CSV files and spreadsheets are strings.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Comparisons.from_rows([("ana", "bo", 0.7)]).write(f"{folder}/pairs.csv.gz")
        ...     Comparisons.read(f"{folder}/pairs.csv.gz").items
        array(['ana', 'bo'], dtype=object)
        """
        return cls(**fields_from_table(answers_at(path)))

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the columns to a file in the format of its ending; `read` returns the same comparisons.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Comparisons.from_rows([(1, 2, 0.7)]).write(f"{folder}/pairs.parquet")
        ...     Comparisons.read(f"{folder}/pairs.parquet").items
        array([1, 2])
        """
        for labels in (self.items, self.contexts, self.judges):
            for label in [] if labels is None else labels.tolist():
                if not isinstance(label, (str, int, float)):
                    raise ComparisonsError(f"{path}: the label {shown(label)} is neither text nor number; rename it")
        write_columns(path, self.to_columns())

    def to_columns(self) -> dict[str, NDArray[Any]]:
        """Columns of labels and numbers, (K,): first, second, p; weight, context, judge (or voter) where present.

        Line-ups have a row for each answer, with items, logp and order in place of first, second and p; lists of
        winners have winner and loser in place of first and second.

        >>> Comparisons.from_rows([("ana", "bo", 0.7)]).to_columns()["second"]
        array(['bo'], dtype=object)
        """
        columns = self.to_rows()
        if self.lists_winners:
            columns = {"winner": columns.pop("first"), "loser": columns.pop("second"), **columns}
        if self.lineup is None:
            return columns
        lead, found = columns_of(self.lineup, columns.pop("first"), columns.pop("second"), columns.pop("p"))
        columns = {name: column[lead] for name, column in columns.items()}
        columns["weight"] = columns["weight"] * self.lineup["left"][lead] / 2.0
        return {name: np.array(column) for name, column in found.items() if any(column)} | columns

    def to_rows(self) -> dict[str, NDArray[Any]]:
        """The columns of `to_columns`, where line-ups too have one row per comparison.

        >>> Comparisons.from_rows([{"items": "x|y|z", "best": "x"}]).to_rows()["second"].tolist()
        ['y', 'z']
        """
        columns = {"first": self.items[self.first], "second": self.items[self.second], "p": self.p}
        if self.weight is not None:
            columns["weight"] = self.weight
        if self.contexts is not None:
            columns["context"] = self.contexts[self.context]
        if self.judges is not None:
            columns["voter" if self.voted else "judge"] = self.judges[self.judge]
        return columns

    def to_frame(self, backend: str | None = None) -> Any:
        """The columns as a pandas, polars or pyarrow frame; `backend` None is the first of them that is installed.

        >>> Comparisons.from_rows([("ana", "bo", 0.7)]).to_frame("polars").rows()
        [('ana', 'bo', 0.7)]
        """
        return frame_from_columns(self.to_columns(), backend)

    def take(self, rows: Any) -> Comparisons:
        """Some of the comparisons, by their numbers or a mask (K,); items, contexts and judges keep their codes.

        >>> Comparisons.from_rows([("ana", "bo", 0.7), ("bo", "cy", 0.6)]).take([1]).p
        array([0.6])
        """
        columns = {
            name: getattr(self, name) for name in ("first", "second", "p", "weight", "context", "judge", "lineup")
        }
        return replace(self, **{name: column[rows] for name, column in columns.items() if column is not None})

    def by_judges(self, names: Iterable[Any]) -> Comparisons:
        """The comparisons of the judges `names`, without the items and contexts that only others judged.

        >>> rows = [{"first": "a", "second": "b", "p": p, "judge": judge} for p, judge in ((0.7, "x"), (0.4, "y"))]
        >>> Comparisons.from_rows(rows).by_judges(["y"]).p
        array([0.4])
        """
        known = [] if self.judges is None else self.judges.tolist()
        wanted = list(names)
        if missing := [name for name in wanted if name not in known]:
            there = f"the judges are {few(known, like=str(missing[0]))}" if known else "they have no column judge"
            raise ComparisonsError(f"the comparisons have no judge {shown(missing[0])}; {there}")
        return self.take(np.isin(self.judged_by, look_up(wanted, known))).trimmed()

    def trimmed(self) -> Comparisons:
        """The same comparisons without unused items, contexts and judges.

        >>> Comparisons.from_rows([("ana", "bo", 0.7), ("bo", "cy", 0.6)]).take([1]).trimmed().items
        array(['bo', 'cy'], dtype=object)
        """
        found = Comparisons.from_columns(**self.to_rows())
        return replace(found, lineup=self.lineup, voted=self.voted, lists_winners=self.lists_winners)

    def merge_orders(self) -> Comparisons:
        """One comparison for each unordered pair within a context and a judge, without the position bias.

            p̃_ij = ½ (p_ij + 1 − p_ji) = 1 − p̃_ji

        p_ij is the weighted mean of the comparisons that showed i first (unweighted if their weights sum to 0); a pair
        shown in one order only keeps the mean of that order. The weight is the sum of the weights. Pairs are in the
        order of their first appearance, each with the item first that was first in that row.

        >>> merged = Comparisons.from_rows([("ana", "bo", 0.75), ("bo", "ana", 0.5)]).merge_orders()
        >>> merged.p, merged.weight
        (array([0.625]), array([2.]))
        """
        lead, seen, mean, weight = self.by_order()
        both = seen.all(axis=1)
        one, other = mean.T
        p = np.where(both, (one + 1 - other) / 2, one)
        return replace(self.take(lead), p=p, weight=np.sum(weight, axis=1))

    def decisions(self) -> Comparisons:
        """The same comparisons with hard p: 1 where p > ½, 0 where p < ½, and ½ where p = ½.

        >>> Comparisons.from_rows([("ana", "bo", 0.7), ("bo", "cy", 0.5)]).decisions().p
        array([1. , 0.5])
        """
        p = (np.sign(self.p - 0.5) + 1) / 2
        if self.lineup is None or self.hard:
            return replace(self, p=p)
        lineup, weight = ordered(self.lineup, p, self.weights)
        return replace(self, p=p, lineup=lineup, weight=weight)
