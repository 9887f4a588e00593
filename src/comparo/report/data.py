"""What the page's script works on: the rankings, texts and judgements as one JSON object."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from comparo.report.charts import Scale
from comparo.report.embed import MOST, RESERVE, cut_texts, script_json, size
from comparo.report.record import Record, in_logits
from comparo.report.views import Columns, candidates, display_order, label, means

TOP = 10  # items of the table of wins
JUDGEMENTS = 100_000  # above, only those between the best are in the page


@dataclass(frozen=True, slots=True)
class View:
    """One ranking to show: rows from … to of its columns, and the scale of its picture."""

    label: str
    begin: int
    end: int
    low: float
    high: float
    ticks: list[tuple[float, str]]
    digits: int
    groups: int

    def number(self, score: float) -> str:
        """A score in as many digits as its scale needs."""
        return f"{round(score, self.digits) + 0.0:.{self.digits}f}".replace("-", "−")

    def place(self, score: float | None) -> str:
        """Where a score stands, in per cent of the picture's width."""
        return "" if score is None else f"{100 * (score - self.low) / (self.high - self.low):.2f}%"

    def as_json(self) -> dict[str, Any]:
        names = {"label": self.label, "from": self.begin, "to": self.end, "groups": self.groups}
        return names | {"low": self.low, "high": self.high, "ticks": self.ticks, "digits": self.digits}


@dataclass(frozen=True, eq=False)
class Data:
    """Columns of all candidates and of the mean over contexts, the views of them, and how much of each text is kept."""

    candidates: Columns
    mean: Columns | None
    contexts: list[View]
    mean_view: View | None
    kept: int
    json: str

    @property
    def shown(self) -> tuple[View, Columns]:
        """What the page shows first."""
        if self.mean is not None and self.mean_view is not None:
            return self.mean_view, self.mean
        return self.contexts[0], self.candidates


def page_data(record: Record) -> Data:
    """All that the page's script needs, its texts cut so that the page stays within `MOST` bytes."""
    order = display_order(record)
    columns, mean = candidates(record, order), means(record)
    ends = np.cumsum([nodes.stop - nodes.start for nodes in record.contexts]).tolist()
    contexts = [
        view(label(record.items.contexts[record.items.context[record.row[nodes.start]]]), columns, begin, end)
        for nodes, begin, end in zip(record.contexts, [0, *ends], ends, strict=False)
    ]
    mean_view = None if mean is None else view("mean", mean, 0, len(mean["item"]))
    shared = [
        record.items.context_texts[record.items.context[record.row[nodes.start]]] or "" for nodes in record.contexts
    ]
    whole: dict[str, Any] = {
        "run": record.configuration,
        "candidates": columns,
        "mean": mean,
        "mean_view": None if mean_view is None else mean_view.as_json(),
        "contexts": [context.as_json() for context in contexts],
        "logits": in_logits(record.ranking),
        "judgements": _judgements(record, order, columns, mean),
    }
    texts = [record.items.texts[row] for row in record.row[order].tolist()]
    kept_texts, kept = cut_texts([*texts, *shared], MOST - RESERVE - size(whole))
    columns["text"] = kept_texts[: len(texts)]
    for context, text in zip(whole["contexts"], kept_texts[len(texts) :], strict=True):
        context["text"] = text
    return Data(columns, mean, contexts, mean_view, kept, script_json(whole))


def view(name: str, columns: Columns, begin: int, end: int) -> View:
    """A view of some rows of columns, its scale a little wider than their intervals."""
    known = [value for key in ("low", "score", "high") for value in columns[key][begin:end] if value is not None]
    low, high = min(known), max(known)
    room = 0.03 * (high - low) or 1.0
    scale = Scale(low - room, high + room, 0.0, 100.0)
    ticks = [(round(tick.at, 2), tick.text) for tick in scale.ticks(4)]
    digits = max(2, 2 - math.floor(math.log10(scale.high - scale.low)))
    groups = max(columns["group"][begin:end])
    return View(name, begin, end, scale.low, scale.high, ticks, digits, groups)


def _judgements(record: Record, order: np.ndarray[Any, Any], columns: Columns, mean: Columns | None) -> dict[str, Any]:
    """The answers as places among the candidates; where they are too many, those between the best only."""
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    first, second = place[record.ranking.graph.first], place[record.ranking.graph.second]
    complete = len(record.p) <= JUDGEMENTS
    if not complete:
        leaders = set() if mean is None else set(mean["item"][:TOP])
        best = np.array([rank <= TOP for rank in columns["rank"]]) | np.isin(columns["item"], list(leaders))
        kept = np.flatnonzero(best[first] & best[second])
    else:
        kept = np.arange(len(record.p))
    return {
        "complete": complete,
        "first": first[kept].tolist(),
        "second": second[kept].tolist(),
        "p": record.p[kept].round(3).tolist(),
        "expected": record.expected[kept].round(3).tolist(),
    }
