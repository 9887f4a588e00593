"""Comparisons: which items were compared, and how probable it is that the first is the better one.

K comparisons of N items are columns of shape (K,): `first` and `second` are codes into `items`, `p` is P(first is
better) as the judge saw it with `first` shown first. Labels become codes once, here; `layouts` checks what is read.
Several files are read together: labels that are numbers in one file and text in another are text in all, and an answer
that stands in two files, with the same judge, items, order and context, counts once.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from comparo.data.columns import Table, column_from_values, columns_from_frame, frame_from_columns, look_up, shown
from comparo.data.layouts import LABELS, WANTED, fields_from_matrix, fields_from_table, judged_fields
from comparo.data.lineups import PAIR, ROWS, columns_of, ordered
from comparo.data.reading import columns_from_objects, read_columns
from comparo.data.run_folder import database_of, judged
from comparo.data.writing import write_columns
from comparo.errors import ComparisonsError


@dataclass(frozen=True, eq=False)
class Comparisons:
    """K comparisons of N items.

    Labels are any hashable values. Integer labels are kept as integers in ascending order, all others in the order of
    their first appearance. The class methods `of`, `from_…` and `read` check their input; this constructor does not.

    Parameters
    ----------
    items : The labels of the items, shape (N,).
    first, second : The items shown first and second, as codes into `items`, shape (K,).
    p : The probability that the first item is better, shape (K,).
    weight : The weight of each comparison, shape (K,); None if all have weight 1.
    contexts, context : The labels of the contexts, and the code of each comparison's context, shape (K,).
    judges, judge : The labels of the judges, and the code of each comparison's judge, shape (K,).
    voted : Whether the judges are people: their column is called `voter`, or they voted on the page of `comparo vote`.
    lineup : Which answer about several texts each comparison is part of, (K,) of `lineups.ROWS`; None: all are pairs.

    Examples
    --------
    >>> comparisons = Comparisons.from_rows([("ana", "bo", 0.7), ("bo", "cy", 0.6)])
    >>> comparisons.items, comparisons.first, comparisons.p
    (array(['ana', 'bo', 'cy'], dtype=object), array([0, 1], dtype=int32), array([0.7, 0.6]))
    """

    items: NDArray[Any]
    first: NDArray[np.int32]
    second: NDArray[np.int32]
    p: NDArray[np.float64]
    weight: NDArray[np.float64] | None = None
    contexts: NDArray[Any] | None = None
    context: NDArray[np.int32] | None = None
    judges: NDArray[Any] | None = None
    judge: NDArray[np.int32] | None = None
    voted: bool = False
    lineup: NDArray[Any] | None = None

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
        weighted = any(len(row) == 4 for row in rows)
        return cls.from_columns(
            [row[0] for row in rows],
            [row[1] for row in rows],
            [row[2] for row in rows],
            [row[3] if len(row) == 4 else 1.0 for row in rows] if weighted else None,
        )

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
            raise ComparisonsError(
                f"a {type(frame).__name__} does not hold comparisons; accepted are Comparisons, the path of a file, "
                "a square numpy matrix, a list or iterator of rows, and a pandas, polars or pyarrow frame"
            ) from error
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
        columns = self._columns()
        if self.lineup is None:
            return columns
        lead, found = columns_of(self.lineup, columns.pop("first"), columns.pop("second"), columns.pop("p"))
        columns = {name: column[lead] for name, column in columns.items()}
        columns["weight"] = columns["weight"] * self.lineup["left"][lead] / 2.0
        return {name: np.array(column) for name, column in found.items() if any(column)} | columns

    def _columns(self) -> dict[str, NDArray[Any]]:
        """The same with a row for each comparison, also of line-ups."""
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
        """The comparisons of some judges alone, with the items, contexts and judges that are left.

        >>> rows = [{"first": "a", "second": "b", "p": p, "judge": judge} for p, judge in ((0.7, "x"), (0.4, "y"))]
        >>> Comparisons.from_rows(rows).by_judges(["y"]).p
        array([0.4])
        """
        known = [] if self.judges is None else self.judges.tolist()
        wanted = list(names)
        if missing := [name for name in wanted if name not in known]:
            there = f"the judges are {', '.join(map(str, known))}" if known else "they have no column judge"
            raise ComparisonsError(f"the comparisons have no judge {shown(missing[0])}; {there}")
        kept = self.take(np.isin(self.judged_by, look_up(wanted, known)))
        return replace(Comparisons.from_columns(**kept._columns()), lineup=kept.lineup)

    def merge_orders(self) -> Comparisons:
        """One comparison for each unordered pair within a context and a judge, without the position bias.

            p̃_ij = ½ (p_ij + 1 − p_ji) = 1 − p̃_ji

        p_ij is the weighted mean of the comparisons that showed i first (unweighted if their weights sum to 0); a pair
        shown in one order only keeps the mean of that order. The weight is the sum of the weights. Pairs are in the
        order of their first appearance, and each shows the item first that was first there.

        >>> merged = Comparisons.from_rows([("ana", "bo", 0.75), ("bo", "ana", 0.5)]).merge_orders()
        >>> merged.p, merged.weight
        (array([0.625]), array([2.]))
        """
        lead, seen, mean, weight = self._orders()
        both = seen.all(axis=1)
        merged = replace(self.take(lead), p=np.where(both, (mean[:, 0] + 1 - mean[:, 1]) / 2, mean[:, 0]))
        return replace(merged, weight=np.sum(weight, axis=1))

    def both_orders(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """p_ij and p_ji of the M pairs that a judge compared in both orders, each the mean of its comparisons: (M,).

        >>> Comparisons.from_rows([("a", "b", 0.75), ("b", "a", 0.5), ("a", "c", 0.9)]).both_orders()
        (array([0.75]), array([0.5]))
        """
        _, seen, mean, _ = self._orders()
        first, second = mean[seen.all(axis=1)].T
        return first, second

    def pair_keys(self) -> NDArray[np.int64]:
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
        if self.lineup is not None:  # a row of a line-up is one of a kind: other texts stood beside the two
            apart = self.lineup["answer"] >= 0
            key[apart] = int(key.max(initial=0)) + 1 + np.arange(np.count_nonzero(apart))
        return key

    def _orders(self) -> tuple[NDArray[np.intp], NDArray[np.bool_], NDArray[np.float64], NDArray[np.float64]]:
        """The first row of each of M pairs (M,), and three arrays (M, 2) with the order of that row before the other.

        They say whether there are comparisons, their mean p (unweighted where the weights sum to 0), and the sum of
        their weights.
        """
        _, appearance, pair = np.unique(self.pair_keys(), return_index=True, return_inverse=True)
        order = np.argsort(appearance, kind="stable")
        lead = appearance[order]
        pair = np.argsort(order, kind="stable")[pair]
        slot = 2 * pair + (self.first != self.first[lead][pair])

        def total(values: NDArray[np.float64]) -> NDArray[np.float64]:
            return np.bincount(slot, values, 2 * len(lead)).astype(np.float64, copy=False).reshape(-1, 2)

        weight = self.weights
        seen, weights = total(np.ones(len(self))), total(weight)
        mean = total(self.p) / np.maximum(seen, 1)
        np.divide(total(weight * self.p), weights, out=mean, where=weights > 0)
        return lead, seen > 0, mean, weights

    @property
    def weights(self) -> NDArray[np.float64]:
        """The weight of each comparison, 1 if there are none, shape (K,).

        >>> Comparisons.from_rows([("ana", "bo", 0.7)]).weights
        array([1.])
        """
        return np.ones(len(self)) if self.weight is None else self.weight

    @property
    def judged_by(self) -> NDArray[np.int32]:
        """The code of each comparison's judge, 0 if there are none, shape (K,).

        >>> Comparisons.from_rows([("ana", "bo", 0.7)]).judged_by
        array([0], dtype=int32)
        """
        return np.zeros(len(self), dtype=np.int32) if self.judge is None else self.judge

    @property
    def freedom(self) -> NDArray[np.float64]:
        """How many observations each comparison counts for, (K,): 1, and 2/m as a row of a line-up (`lineups`)."""
        return np.ones(len(self)) if self.lineup is None else 2.0 / self.lineup["left"]

    @property
    def answers(self) -> int:
        """The number of answers: that of comparisons, each line-up counted once.

        >>> Comparisons.from_rows([{"items": "x|y|z", "best": "x"}, {"items": "x|y", "best": "x"}]).answers
        2
        """
        if self.lineup is None:
            return len(self)
        number = self.lineup["answer"]
        return int(np.count_nonzero(number < 0)) + len(np.unique(number[number >= 0]))

    @property
    def positions(self) -> NDArray[np.int32]:
        """The code of the position effect of each comparison among `slots`, (K,): of its judge, and of two slots.

        >>> Comparisons.from_rows([{"items": "x|y|z", "best": "x"}]).positions
        array([1, 2], dtype=int32)
        """
        return self._positions[0]

    @property
    def slots(self) -> NDArray[np.int32]:
        """The judge, size, lower and higher slot of each of F position effects, (F, 4): pairs of each judge first.

        >>> Comparisons.from_rows([{"items": "x|y|z", "best": "x"}]).slots.tolist()
        [[0, 2, 0, 1], [0, 3, 0, 1], [0, 3, 0, 2]]
        """
        return self._positions[1]

    @cached_property
    def _positions(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        judges = np.arange(1 if self.judges is None else len(self.judges), dtype=np.int32)
        slots = np.stack([judges, *(np.full_like(judges, part) for part in (2, 0, 1))], axis=1)
        if self.lineup is None or not (apart := self.lineup["answer"] >= 0).any():
            return self.judged_by, slots
        names = [self.judged_by, *(self.lineup[name].astype(np.int32) for name in ("size", "low", "high"))]
        found, code = np.unique(np.stack(names, axis=1)[apart], axis=0, return_inverse=True)
        positions = self.judged_by.copy()
        positions[apart] = len(slots) + code.ravel()
        return positions, np.concatenate([slots, found])

    @property
    def position_freedom(self) -> NDArray[np.float64]:
        """How many free parameters each position effect counts for, (F,): 1, and 2/k for two slots of a line-up.

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


logger = logging.getLogger(__name__)
PathLike = str | os.PathLike[str]
Part = Mapping[str, Any]  # the columns of a file
ROLES = ("first", "second", "context", "judge")


def read_several(paths: Sequence[PathLike], *, is_kept: bool = False) -> Comparisons:
    """The comparisons of files and run folders, in any layouts, as those of one.

    Rows without a winner are left out, and counted in one line of the log for all files.

    Parameters
    ----------
    paths
        At least one file or run folder that `Comparisons.read` reads.
    is_kept
        Keep the rows without a winner, with p = NaN: what was handed out and has no answer yet.

    Returns
    -------
    Comparisons
        In the order of the files. A single file gives what `Comparisons.read` gives.

    Raises
    ------
    ComparisonsError
        If a file cannot be used, if no file has an answer, or if only some of the files have a column judge or context.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for judge in ("ana", "bo"):
    ...         one = Comparisons.from_columns(["x"], ["y"], [1], judge=[judge])
    ...         one.write(f"{folder}/{judge}.csv")
    ...     read_several([f"{folder}/ana.csv", f"{folder}/bo.csv"]).judges
    array(['ana', 'bo'], dtype=object)
    """
    if len(paths) == 1 and not is_kept and sheets_in(paths[0]) is None:
        return Comparisons.read(paths[0])
    return join(read_parts(paths, is_kept=is_kept))


def sheets_in(path: PathLike) -> list[Path] | None:
    """The sheets in a folder, .csv and .xlsx, by name; None for a file and for a run folder.

    A ComparisonsError where a folder has none.
    """
    if not os.path.isdir(path) or database_of(path) is not None:
        return None
    found = sorted(file for file in Path(path).iterdir() if file.suffix.lower() in (".csv", ".xlsx"))
    if not found:
        raise ComparisonsError(f"the folder {path} is no run folder and has no .csv or .xlsx sheets; name a file")
    return found


def read_parts(paths: Sequence[PathLike], *, is_kept: bool = False, is_named: bool = False) -> dict[str, Part]:
    """The columns of each file, by its path, as `read_several` reads them; files without answers are left out.

    With `is_named`, a file without a column judge is that of a judge called like the file.
    """
    parts: dict[str, Part] = {}
    blank = []
    files = [file for path in paths for file in map(str, sheets_in(path) or (path,))]
    for path in dict.fromkeys(files):
        database = database_of(path)
        table = read_columns(path, WANTED, LABELS) if database is None else judged(database)
        fields, rows = judged_fields(table, is_kept)
        if len(fields["p"]):
            rows_of = {"lineup": fields["lineup"]} if "lineup" in fields else {}
            parts[path] = Comparisons(**fields)._columns() | rows_of
            if is_named and not {"judge", "voter"} & set(parts[path]):
                name = (Path(path) if database is None else database.parent).resolve().name.partition(".")[0]
                parts[path] = {**parts[path], "judge": np.full(len(fields["p"]), name, dtype=object)}
        if left := rows - len(fields["p"]):
            blank.append(f"{left} of {rows} in {path}")
    if blank:
        logger.warning("comparisons without a winner are left out: %s", ", ".join(blank))
    if not parts:
        named = f"{paths[0]} and {len(paths) - 1} more" if len(paths) > 1 else str(paths[0])
        raise ComparisonsError(f"no row of {named} has a winner; there is nothing to compare")
    return parts


def join(parts: Mapping[str, Part]) -> Comparisons:
    """The comparisons of all files together, in their order; people's votes if all of them are.

    >>> one = Comparisons.from_columns([1], [2], [1], judge=["ana"]).to_columns()
    >>> join({"a.csv": one, "b.csv": {**one, "judge": np.array(["bo"])}}).judges
    array(['ana', 'bo'], dtype=object)
    """
    voted = all("voter" in part for part in parts.values())
    if any("lineup" in part for part in parts.values()):
        parts = _numbered(parts)
    parts = {path: {"judge" if name == "voter" else name: part[name] for name in part} for path, part in parts.items()}
    return replace(_once(parts, _joined(parts)), voted=voted)


def _numbered(parts: Mapping[str, Part]) -> dict[str, Part]:
    """The parts with a column lineup in each, whose answers have numbers of their own."""
    found: dict[str, Part] = {}
    start = 0
    for path, part in parts.items():
        rows = part.get("lineup", np.array([PAIR] * len(part["p"]), dtype=ROWS)).copy()
        rows["answer"] += start * (rows["answer"] >= 0)
        start = max(start, int(rows["answer"].max()) + 1)
        found[path] = {**part, "lineup": rows}
    return found


def _joined(parts: Mapping[str, Part]) -> dict[str, list[Any]]:
    """The columns of all files below each other."""
    joined: dict[str, list[Any]] = {"first": [], "second": [], "p": []}
    for name in ("judge", "context", "weight", "lineup"):
        having = [path for path, columns in parts.items() if name in columns]
        if having and len(having) < len(parts) and name != "weight":
            missing = next(path for path in parts if path not in having)
            raise ComparisonsError(
                f"{missing} has no column {name!r} and {having[0]} has one; add it to {Path(missing).name} as well"
            )
        if having:
            joined[name] = []
    for columns in parts.values():
        for name, values in joined.items():
            values.extend(columns[name].tolist() if name in columns else [1.0] * len(columns["p"]))
    for names in (("first", "second"), ("context",), ("judge",)):
        kinds = {isinstance(label, str) for name in names for label in joined.get(name, ())}
        for name in names if len(kinds) > 1 else ():
            joined[name] = list(map(str, joined[name]))
    return joined


def _once(parts: Mapping[str, Part], joined: Mapping[str, list[Any]]) -> Comparisons:
    """The comparisons without the answers of a judge that another file has as well."""
    source = np.repeat(np.arange(len(parts)), [len(columns["p"]) for columns in parts.values()]).tolist()
    kept, seen = list(range(len(source))), dict[Any, int]()
    if "judge" in joined and len(parts) > 1:
        answers = zip(*(joined[name] for name in (*ROLES, "p") if name in joined), strict=True)
        # NaN is not equal to itself: a row that has no answer yet is the same row in both files.
        keys = [(*key, None if p != p else p) for *key, p in answers]
        kept = [row for row in kept if seen.setdefault(keys[row], source[row]) == source[row]]
        other = dict[Any, int]()
        differ = sum(other.setdefault(keys[row][:-1], source[row]) != source[row] for row in kept)
        if differ:
            logger.warning(
                "%d answers of a judge stand in two files and differ; both count: name one of the files", differ
            )
    if twice := len(source) - len(kept):
        logger.warning("%d answers of a judge stand in two files, equal in both, and count once", twice)
    columns = {name: [values[row] for row in kept] for name, values in joined.items()}
    p, lineup = np.array(columns.pop("p")), columns.pop("lineup", None)
    known = Comparisons.from_columns(p=np.zeros(len(p)), **columns)
    return replace(known, p=p, lineup=None if lineup is None else np.array(lineup, dtype=ROWS))
