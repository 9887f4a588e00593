"""The data of the page's script: the rankings, texts and judgements as one JSON object of bounded size.

Where not everything fits, the first contexts are kept, or the best candidates of a single large one; then as many
judgements as fit their share; and the beginning of each text, at least `BEGINNING` characters.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from comparo.ranking.criteria_ranking import in_logits
from comparo.report.embed import cut_texts, presentable, script_json, size
from comparo.report.phrases import context_told, words_of
from comparo.report.record import Record
from comparo.report.views import Columns, Scale, candidates, display_order, leaderboard
from comparo.types import LongIndex

TOP = 10  # items of the table of wins
CANDIDATES = 40_000  # at most; a browser takes too long to read more
ANSWER = 26  # bytes of a judgement at most
BEGINNING = 80  # characters of a text that identify it
MEAN, RANKED, JUDGED = 0.15, 0.6, 0.5  # shares of the remaining bytes, in this order; texts get the rest


@dataclass(frozen=True, slots=True)
class Room:
    """How large a page may get: bytes of the file, bytes of it that are kept free of data, and judgements."""

    page: int = 5_000_000  # small enough to be sent by mail
    around: int = 600_000  # for what is around the data, in the first attempt; the second one knows how much it takes
    judgements: int = 100_000  # 2.6 MB, about half of a page


ROOM = Room()


@dataclass(frozen=True, slots=True)
class View:
    """One ranking to show: rows `begin` to `end` of its columns, and the scale of its picture."""

    label: str
    begin: int
    end: int
    low: float
    high: float
    ticks: list[tuple[float, str]]
    digits: int
    groups: int

    def number(self, score: float) -> str:
        """A score with as many digits as its scale needs."""
        return f"{round(score, self.digits) + 0.0:.{self.digits}f}".replace("-", "−")

    def place(self, score: float | None) -> str:
        """The position of a score, in per cent of the picture's width."""
        return "" if score is None else f"{100 * (score - self.low) / (self.high - self.low):.2f}%"

    def as_json(self) -> dict[str, Any]:
        names = {"label": self.label, "from": self.begin, "to": self.end, "groups": self.groups}
        scale = {"low": float(f"{self.low:.6g}"), "high": float(f"{self.high:.6g}")}
        return names | scale | {"ticks": self.ticks, "digits": self.digits}


@dataclass(frozen=True, eq=False)
class Tables:
    """All data that could be shown: columns of the first candidates and of the leaderboard, and their views."""

    record: Record
    order: LongIndex
    candidates: Columns
    mean: Columns | None
    contexts: list[View]
    mean_view: View | None

    @classmethod
    def of(cls, record: Record) -> Tables:
        order, mean = display_order(record), leaderboard(record)
        columns = candidates(record, order[:CANDIDATES])
        ends = np.cumsum([nodes.stop - nodes.start for nodes in record.contexts]).tolist()
        codes = record.items.context[record.row[[nodes.start for nodes in record.contexts]]]
        contexts = [
            view(context_told(record, name), columns, begin, min(end, CANDIDATES))
            for name, begin, end in zip(record.items.contexts[codes].tolist(), [0, *ends], ends, strict=False)
            if end <= CANDIDATES or begin == 0
        ]
        mean_view = None if mean is None else view("mean", mean, 0, len(mean["item"]))
        return cls(record, order, columns, mean, contexts, mean_view)

    @property
    def shown(self) -> tuple[View, Columns]:
        """The view that the page shows first, and its columns."""
        if self.mean is not None and self.mean_view is not None:
            return self.mean_view, self.mean
        return self.contexts[0], self.candidates


def page_data(tables: Tables, room: int, most: int = ROOM.judgements) -> tuple[str, int, list[str]]:
    """As much of the tables as fits into `room` bytes as JSON, and at most `most` judgements.

    Also how many contexts it holds, and sentences on what is left out.
    """
    record = tables.record
    whole: dict[str, Any] = {
        "run": presentable(record.configuration),
        "mean": None,
        "mean_view": None,
        "mean_wins": None if tables.mean is None else _mean_wins(record, tables.mean),
        "logits": in_logits(record.ranking),
        "coded": record.is_coded,
        "judge": words_of(record).judge,
    }
    left = room - size(whole)
    if tables.mean is not None and tables.mean_view is not None:
        mean = {name: column for name, column in tables.mean.items() if name != "code"}
        rows = _most(len(mean["item"]), lambda rows: size(_first(mean, rows)), MEAN * left)
        whole["mean"] = _first(mean, rows)
        whole["mean_view"] = tables.mean_view.as_json() | {"to": rows}
        left -= size([whole["mean"], whole["mean_view"]])
    texts = [record.items.texts[row] for row in record.row[tables.order[:CANDIDATES]].tolist()]
    begun = [text[:BEGINNING] for text in texts]

    def ranked(rows: int) -> int:
        views = [context.as_json() for context in _views(tables.contexts, rows)]
        return size([_first(tables.candidates, rows), views, begun[:rows]])

    rows = _most(len(texts), ranked, RANKED * left)
    shown = _views(tables.contexts, rows)
    rows = shown[-1].end
    contexts = [context.as_json() for context in shown]
    columns = _first(tables.candidates, rows)
    left -= ranked(rows)
    judgements = _judgements(tables, shown, JUDGED * left, most)
    left -= size(judgements)
    here = [nodes.start for nodes in record.contexts[: len(shown)]]
    shared = [record.items.context_texts[code] or "" for code in record.items.context[record.row[here]].tolist()]
    kept, longest = cut_texts([*texts[:rows], *shared], left + size(begun[:rows]) - 20 * len(shown) - 100)
    columns["text"] = kept[:rows]
    for context, text in zip(contexts, kept[rows:], strict=True):
        context["text"] = text
    whole |= {"candidates": columns, "contexts": contexts, "judgements": judgements}
    cut = sum(len(text) > longest for text in [*texts[:rows], *shared])
    return script_json(whole), len(shown), _left_out(tables, whole, cut, longest)


def view(name: str, columns: Columns, begin: int, end: int) -> View:
    """A view of some rows of columns, its scale a little wider than their intervals."""
    known = [value for key in ("low", "score", "high") for value in columns[key][begin:end] if value is not None]
    low, high = min(known), max(known)
    room = 0.03 * (high - low) or 1.0
    scale = Scale(low - room, high + room, 0.0, 100.0)
    ticks = [(round(at, 2), text) for at, text in scale.ticks(4)]
    digits = max(2, 2 - math.floor(math.log10(scale.high - scale.low)))
    groups = max(columns["group"][begin:end])
    return View(name, begin, end, scale.low, scale.high, ticks, digits, groups)


def _most(rows: int, measure: Callable[[int], int], room: float) -> int:
    """The number of first rows, at least one, that fit into `room` bytes, found in a few steps."""
    while rows > 1 and (taken := measure(rows)) > room:
        rows = max(1, min(rows - 1, int(0.98 * rows * room / taken)))
    return rows


def _first(columns: Columns, rows: int) -> Columns:
    return {name: column[:rows] for name, column in columns.items()}


def _views(contexts: list[View], rows: int) -> list[View]:
    """The contexts within the first `rows` rows; of a larger first context, its part within them."""
    first = contexts[0]
    if first.end > rows:
        return [replace(first, end=rows)]
    return [context for context in contexts if context.end <= rows]


def _judgements(tables: Tables, shown: list[View], room: float, most: int) -> dict[str, Any]:
    """The answers, with candidates by their row: all answers of the first `whole` rows, else those among the best.

    Before row `top`, the answers among the best candidates are there. `complete` says whether none is left out.
    """
    record, order = tables.record, tables.order
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    first, second = place[record.ranking.graph.first], place[record.ranking.graph.second]
    furthest = np.maximum(first, second)
    ends = np.array([0, *(context.end for context in shown)])
    before = np.searchsorted(np.sort(furthest), ends)  # number of answers within the first candidates
    fits = [number for number, count in enumerate(before) if count <= most and ANSWER * count <= room]
    whole = top = int(ends[fits[-1]])
    kept = np.flatnonzero(furthest < whole)
    if not whole:
        best = np.append(np.array(tables.candidates["rank"][: shown[0].end]) <= TOP, False)
        between = best[np.minimum(first, len(best) - 1)] & best[np.minimum(second, len(best) - 1)]
        kept, top = np.flatnonzero(between)[: min(most, int(room / ANSWER))], shown[0].end
    return {
        "complete": len(kept) == len(record.p),
        "whole": whole,
        "top": top,
        "first": first[kept].tolist(),
        "second": second[kept].tolist(),
        "p": record.p[kept].round(3).tolist(),
        "expected": record.expected[kept].round(3).tolist(),
    }


def _mean_wins(record: Record, mean: Columns) -> dict[str, Any]:
    """The judge's probabilities between the texts of the best groups, summed over contexts, and the number of calls."""
    assert record.ranking.group is not None
    graph, group, size_of = record.ranking.graph, record.ranking.group[0], min(TOP, len(mean["code"]))
    place = np.full(len(mean["code"]), -1)
    place[mean["code"][:size_of]] = np.arange(size_of)
    i, j = place[group[graph.first]], place[group[graph.second]]
    kept = (i >= 0) & (j >= 0)
    i, j, p = i[kept], j[kept], record.p[kept]
    key, turned = i * size_of + j, j * size_of + i
    total = np.bincount(key, p, size_of**2) + np.bincount(turned, 1 - p, size_of**2)
    calls = np.bincount(key, minlength=size_of**2) + np.bincount(turned, minlength=size_of**2)
    shape = (size_of, size_of)
    return {"sum": total.round(4).reshape(shape).tolist(), "calls": calls.reshape(shape).tolist()}


def _left_out(tables: Tables, whole: dict[str, Any], cut: int, longest: int) -> list[str]:
    """A sentence about what the page leaves out, if anything."""
    record, contexts, judgements = tables.record, whole["contexts"], whole["judgements"]
    rows, every = len(whole["candidates"]["item"]), len(tables.order)
    held = []
    if len(contexts) < len(record.contexts):
        held.append(f"the first {len(contexts):,} of {len(record.contexts):,} contexts")
    elif rows < every:
        held.append(f"the best {rows:,} of {every:,} candidates")
    if tables.mean is not None and len(whole["mean"]["item"]) < len(tables.mean["item"]):
        held.append(
            f"the best {len(whole['mean']['item']):,} of {len(tables.mean['item']):,} groups of the leaderboard"
        )
    if not judgements["complete"]:
        held.append(f"{len(judgements['p']):,} of {len(record.p):,} judgements")
    if cut:
        held.append(f"the first {longest:,} characters of each text ({cut:,} are longer)")
    if not held:
        return []
    rest = "comparo fit prints all of the ranking." if record.is_fitted else "Everything is in the run folder."
    return [f"So that it stays small, this page holds {'; '.join(held)}. {rest}"]
