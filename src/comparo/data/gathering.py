"""Comparisons and texts of another tool's file as they are gathered row by row.

Rows without a comparison are counted by reason. The text of an item is the answer to the first message; where there
were more turns, the whole conversation after that message.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from comparo.data.columns import Column, Table, is_blank
from comparo.data.comparisons import Comparisons
from comparo.data.reading import columns_from_objects
from comparo.errors import ComparisonsError

UNKNOWN = "unknown"  # a judge that a row does not name, where others do


@dataclass(frozen=True)
class Imported:
    """The comparisons of another tool's file.

    Parameters
    ----------
    source : The tool.
    comparisons : The comparisons; labels are text.
    items : The texts as columns id, text, context_id and context; empty where the file holds no texts.
    left_out : How many rows hold no comparison, by the reason.
    """

    source: str
    comparisons: Comparisons
    items: Mapping[str, Column]
    left_out: Mapping[str, int]


@dataclass
class Gathering:
    """Comparisons and texts as they are read from the rows of a table.

    >>> table = Table({"model_a": ["x"], "model_b": [None]}, "battles.json")
    >>> Gathering(table).name(0, "model_a")
    'x'
    >>> Gathering(table).name(0, "model_b")
    Traceback (most recent call last):
    comparo.errors.ComparisonsError: battles.json, row 1, column 'model_b': there is no name; write it, or drop the row
    """

    table: Table
    left_out: Counter[str] = field(default_factory=Counter)
    _rows: list[dict[str, Any]] = field(default_factory=list)
    _texts: dict[str | None, dict[str, str]] = field(default_factory=dict)
    _questions: dict[str | None, str | None] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(next(iter(self.table.columns.values()), ()))

    def cell(self, row: int, column: str) -> Any:
        """The value of a row; None where it is missing, or the file has no such column."""
        values = self.table.columns.get(column)
        if values is None:
            return None
        return None if is_blank(values[row]) else values[row]

    def name(self, row: int, column: str) -> str:
        """A name, which must be there."""
        value = self.cell(row, column)
        if value is None or isinstance(value, list | dict):
            raise self.error(row, column, "there is no name; write it, or drop the row")
        return str(value).strip()

    def error(self, row: int, column: str, problem: str) -> ComparisonsError:
        """The error for a malformed row."""
        return self.table.error([row], column, problem)

    def compare(
        self, context: str | None, first: str, second: str, p: float, judge: str | None = None, weight: float = 1.0
    ) -> None:
        """Add a comparison, unless it is that of a system with itself."""
        if first == second:
            self.left_out["of a system with itself"] += 1
            return
        self._rows.append(
            {"first": first, "second": second, "p": p, "context": context, "judge": judge, "weight": weight}
        )

    def add_text(self, context: str | None, item: str, text: Any, question: Any) -> None:
        """Add the text of an item and what it answers; of two texts of the same item, the first is kept."""
        if not isinstance(text, str) or not text.strip():
            return
        known = self._texts.setdefault(context, {})
        if known.setdefault(item, _clean(text)) != _clean(text):
            self.left_out["texts that differ from an earlier one of the same name and question"] += 1
        if self._questions.get(context) is None:
            self._questions[context] = _clean(question) if isinstance(question, str) and question.strip() else None

    def finish(self, source: str) -> Imported:
        """All that was gathered; a ComparisonsError where there is no comparison."""
        if not self._rows:
            why = ", ".join(f"{count:,} {reason}" for reason, count in self.left_out.items())
            raise ComparisonsError(f"{self.table.source} holds no comparison{f' ({why})' if why else ''}")
        columns, _ = columns_from_objects(self._rows)
        if any(context is None for context in columns["context"]):
            del columns["context"]
        if all(judge is None for judge in columns["judge"]):
            del columns["judge"]
        else:
            columns["judge"] = [judge or UNKNOWN for judge in columns["judge"]]
        if all(weight == 1 for weight in columns["weight"]):
            del columns["weight"]
        return Imported(source, Comparisons.from_columns(**columns), self._items(), dict(self.left_out))

    def _items(self) -> dict[str, Column]:
        """The texts of contexts that have at least two: with one there is nothing to compare it with."""
        rows = [
            {"id": item, "text": text, "context_id": context, "context": self._questions[context]}
            for context, known in self._texts.items()
            for item, text in known.items()
            if len(known) > 1
        ]
        columns, _ = columns_from_objects(rows)
        return {name: column for name, column in columns.items() if any(value is not None for value in column)}


def _clean(text: str) -> str:
    """The text with half characters, which published files hold, replaced: they can be neither stored nor sent."""
    return text.encode("utf-8", "replace").decode()
