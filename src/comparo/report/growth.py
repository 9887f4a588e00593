"""The part of the page about items that were added to a run: who is new, and what moved."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from comparo.ranking.grown import growth_sentences, moved_columns, new_columns
from comparo.ranking.ranking import Ranking
from comparo.report.embed import figure, label

LISTED = 100  # rows of a table
SENTENCE = 1000  # characters


def growth_part(ranking: Ranking) -> dict[str, Any] | None:
    """Sentences and tables about what is new and what moved; None for a ranking that has not grown."""
    grown = ranking.grown
    if grown is None:
        return None
    tables = {"The new texts": new_columns(ranking, grown), "The texts that moved": moved_columns(ranking, grown)}
    return {
        "sentences": [label(sentence, SENTENCE) for sentence in growth_sentences(ranking, grown)],
        "tables": [_table(title, columns) for title, columns in tables.items() if len(columns["item"])],
    }


def _table(title: str, columns: dict[str, NDArray[Any]]) -> dict[str, Any]:
    rows = zip(*(column[:LISTED].tolist() for column in columns.values()), strict=True)
    return {
        "title": title,
        "names": [name.replace("_", " ") for name in columns],
        "rows": [[_cell(name, value) for name, value in zip(columns, row, strict=True)] for row in rows],
        "hidden": max(0, len(columns["item"]) - LISTED),
    }


def _cell(name: str, value: Any) -> str:
    if name in ("item", "context"):
        return label(value)
    return f"{value:,}" if isinstance(value, int) else figure(value)
