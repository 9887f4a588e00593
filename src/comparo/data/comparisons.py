"""Comparisons: which items were compared, and how probable it is that the first is the better one.

K comparisons of N items are columns of shape (K,): `first` and `second` are codes into `items`, `p` is P(first is
better) as the judge saw it with `first` shown first. Labels become codes once, here; `layouts` checks what is read, and
`sheets` reads several files as one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from comparo.data.columns import Table, column_from_values, columns_from_frame, frame_from_columns, look_up, shown
from comparo.data.formats import columns_from_objects, read_columns, write_columns
from comparo.data.layouts import LABELS, WANTED, fields_from_matrix, fields_from_table
from comparo.data.lineups import columns_of, ordered, position_effects
from comparo.data.run_folder import database_of, judged
from comparo.data.wordings import few
from comparo.errors import ComparisonsError
from comparo.rounding import snapped
from comparo.types import Array, Index, LongIndex, Mask


@dataclass(frozen=True, eq=False)
class Comparisons:
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

    Examples
    --------
    >>> comparisons = Comparisons.from_rows([("ana", "bo", 0.7), ("bo", "cy", 0.6)])
    >>> comparisons.items, comparisons.first, comparisons.p
    (array(['ana', 'bo', 'cy'], dtype=object), array([0, 1], dtype=int32), array([0.7, 0.6]))
    """

    items: NDArray[Any]
    first: Index
    second: Index
    p: Array
    weight: Array | None = None
    contexts: NDArray[Any] | None = None
    context: Index | None = None
    judges: NDArray[Any] | None = None
    judge: Index | None = None
    voted: bool = False
    lineup: NDArray[Any] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "p", snapped(self.p))

    def __len__(self) -> int:
        return len(self.p)

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
        database = database_of(path)
        table = read_columns(path, WANTED, LABELS) if database is None else judged(database)
        return cls(**fields_from_table(table))

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

        Line-ups have a row for each answer, with items, logp and order in place of first, second and p.

        >>> Comparisons.from_rows([("ana", "bo", 0.7)]).to_columns()["second"]
        array(['bo'], dtype=object)
        """
        columns = self.to_rows()
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
        return replace(Comparisons.from_columns(**self.to_rows()), lineup=self.lineup, voted=self.voted)

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

    def both_orders(self) -> tuple[Array, Array]:
        """p_ij and p_ji of the M pairs that a judge compared in both orders, each the mean of its comparisons: (M,).

        >>> Comparisons.from_rows([("a", "b", 0.75), ("b", "a", 0.5), ("a", "c", 0.9)]).both_orders()
        (array([0.75]), array([0.5]))
        """
        _, seen, mean, _ = self.by_order()
        first, second = mean[seen.all(axis=1)].T
        return first, second

    def pair_keys(self) -> LongIndex:
        """A number for each comparison, (K,): equal for the same two items, context and judge, in either order.

        >>> Comparisons.from_rows([("a", "b", 0.7), ("b", "a", 0.5), ("a", "c", 0.9)]).pair_keys()
        array([1, 1, 2])
        """
        key = np.minimum(self.first, self.second).astype(np.int64) * len(self.items)
        key += np.maximum(self.first, self.second)
        for labels, codes in ((self.contexts, self.context), (self.judges, self.judge)):
            if labels is not None and codes is not None:
                if int(key.max(initial=0)) * len(labels) >= 2**62:
                    key = np.unique(key, return_inverse=True)[1]
                key = key * len(labels) + codes
        if self.lineup is not None:  # rows of line-ups are never merged: the other texts shown differ
            apart = self.lineup["answer"] >= 0
            key[apart] = int(key.max(initial=0)) + 1 + np.arange(np.count_nonzero(apart))
        return key

    def by_order(self) -> tuple[NDArray[np.intp], Mask, Array, Array]:
        """The first row of each of M pairs (M,), and per order (M, 2): whether compared, mean p, sum of weights.

        Column 0 is the order of the first row, column 1 the other. The mean is unweighted where weights sum to 0.

        >>> Comparisons.from_rows([("a", "b", 0.75), ("b", "a", 0.5), ("a", "c", 0.9)]).by_order()[2]
        array([[0.75, 0.5 ],
               [0.9 , 0.  ]])
        """
        _, appearance, pair = np.unique(self.pair_keys(), return_index=True, return_inverse=True)
        order = np.argsort(appearance, kind="stable")
        lead = appearance[order]
        pair = np.argsort(order, kind="stable")[pair]
        slot = 2 * pair + (self.first != self.first[lead][pair])

        def total(values: Array) -> Array:
            return np.bincount(slot, values, 2 * len(lead)).astype(np.float64, copy=False).reshape(-1, 2)

        weight = self.weights
        seen, weights = total(np.ones(len(self))), total(weight)
        mean = total(self.p) / np.maximum(seen, 1)
        np.divide(total(weight * self.p), weights, out=mean, where=weights > 0)
        return lead, seen > 0, mean, weights

    @property
    def weights(self) -> Array:
        """The weight of each comparison, shape (K,); 1 if `weight` is None."""
        return np.ones(len(self)) if self.weight is None else self.weight

    def relative(self) -> Comparisons:
        """The same comparisons with a mean weight of at least 1 per answer.

        Where the noise is estimated from the answers, only the ratios of weights below 1 matter: there is no answer of
        less than one. Weights above 1 are repetitions.

        >>> Comparisons.from_rows([("ana", "bo", 0.7, 0.01), ("bo", "cy", 0.6, 0.03)]).relative().weights.round(9)
        array([0.5, 1.5])
        """
        if self.weight is None or not self.weight.any():
            return self
        share = self.weight / np.max(self.weight)
        least = share * (np.sum(self.freedom[share > 0]) / np.sum(share))
        return replace(self, weight=np.maximum(self.weight, least))

    @property
    def judged_by(self) -> Index:
        """The code of each comparison's judge, shape (K,); 0 if `judge` is None."""
        return np.zeros(len(self), dtype=np.int32) if self.judge is None else self.judge

    @property
    def freedom(self) -> Array:
        """The number of observations per comparison, (K,): 1 for a pair, 2/m for a row of a line-up (`lineups`)."""
        return np.ones(len(self)) if self.lineup is None else 2.0 / self.lineup["left"]

    @property
    def answers(self) -> int:
        """The number of answers; all rows of a line-up are one answer.

        >>> Comparisons.from_rows([{"items": "x|y|z", "best": "x"}, {"items": "x|y", "best": "x"}]).answers
        2
        """
        if self.lineup is None:
            return len(self)
        number = self.lineup["answer"]
        return int(np.count_nonzero(number < 0)) + len(np.unique(number[number >= 0]))

    @property
    def positions(self) -> Index:
        """The position effect of each comparison, (K,), as an index into `slots`."""
        return self._positions[0]

    @property
    def slots(self) -> Index:
        """Judge, size of the line-up, lower and higher slot of each position effect, (F, 4): those of pairs first.

        >>> Comparisons.from_rows([{"items": "x|y|z", "best": "x"}]).slots.tolist()
        [[0, 2, 0, 1], [0, 3, 0, 1], [0, 3, 0, 2]]
        """
        return self._positions[1]

    @cached_property
    def _positions(self) -> tuple[Index, Index]:
        return position_effects(self.lineup, self.judged_by, 1 if self.judges is None else len(self.judges))

    @property
    def position_freedom(self) -> Array:
        """The free parameters per position effect, (F,): 1 for pairs, 2/k for two slots of a line-up of k texts.

        Of the k(k − 1)/2 effects of two slots only k − 1 are free, as many as an answer has observations.
        """
        return 2.0 / self.slots[:, 1]

    @property
    def hard(self) -> bool:
        """Whether every p is a decision: 0, ½ or 1.

        >>> Comparisons.from_rows([("ana", "bo", 0.7)]).hard, Comparisons.from_rows([("ana", "bo", 1)]).hard
        (False, True)
        """
        return bool(np.all((self.p == 0) | (self.p == 0.5) | (self.p == 1)))

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
