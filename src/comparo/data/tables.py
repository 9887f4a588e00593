"""A table: the columns of a file, a frame or a list, and the place of each row, which errors name."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from comparo.data.frames import Column
from comparo.errors import ComparisonsError


@dataclass(frozen=True)
class Table:
    """Columns of equal length, and what errors need to name a row.

    `source` is the file they were read from ("" in memory), `lines` the last line of each row (None if there are no
    lines), `others` the names of columns that were not wanted.

    >>> Table({"p": ["0.3", "0.6", "1.2"]}, "pairs.csv", lines=[2, 3, 4]).place(2, "p")
    "pairs.csv, row 3 (line 4), column 'p'"
    """

    columns: Mapping[str, Column]
    source: str = ""
    lines: Sequence[int] | None = None
    others: tuple[str, ...] = ()

    def place(self, row: int, column: str | None = None) -> str:
        """The place of a value, for errors: rows are counted from 1, and the line is named if it is another number."""
        file = f"{self.source}, " if self.source else ""
        line = f" (line {self.lines[row]})" if self.lines is not None and self.lines[row] != row + 1 else ""
        return f"{file}row {row + 1}{line}" + (f", column {column!r}" if column else "")

    def error(self, rows: Sequence[int] | NDArray[np.integer], column: str | None, problem: str) -> ComparisonsError:
        """The error for the first of the wrong rows, with the number of the others.

        >>> str(Table({}).error([1, 4, 5], "p", "7.0 is not a probability"))
        "row 2, column 'p': 7.0 is not a probability (and 2 more rows like it)"
        """
        more = len(rows) - 1
        also = f" (and {more} more row{'s' if more > 1 else ''} like it)" if more else ""
        return ComparisonsError(f"{self.place(int(rows[0]), column)}: {problem}{also}")

    def take(self, rows: Sequence[int]) -> Self:
        """Some rows, which keep the numbers that they had in errors.

        >>> Table({"p": ["0.3", "1.2"]}).take([1]).place(0)
        'row 1 (line 2)'
        """
        if len(rows) == len(next(iter(self.columns.values()))):
            return self
        columns = {
            name: column[rows] if isinstance(column, np.ndarray) else [column[row] for row in rows]
            for name, column in self.columns.items()
        }
        lines = [row + 1 if self.lines is None else self.lines[row] for row in rows]
        return replace(self, columns=columns, lines=lines)
