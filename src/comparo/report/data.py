"""The data of the page's script: rankings, texts and judgements as one JSON object of bounded size.

Where not everything fits, the page keeps the first contexts, or the best candidates of a single large one, with the
beginning of each text. The cuts follow from the sizes of the parts, so nothing is rendered twice.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from comparo.ranking.columns import columns_of, words_of
from comparo.ranking.criteria_ranking import in_logits
from comparo.report.embed import Scale, common_length, label, presentable, script_json, size, snippet
from comparo.report.record import Record

PageColumns = dict[str, list[Any]]

TOP = 10  # items of the table of wins
CANDIDATES = 20_000  # at most
# The names of columns of a leaderboard on the page.
OF_GROUPS = {"best_rank": "best", "worst_rank": "worst", "best": "sure", "win_rate": "wins", "won": "firsts"}
# The columns that each line of the page draws; the others are named where a line is opened.
DRAWN = ("item", "score", "std", "low", "high", "rank", "judge_rank", "tier", "comparisons", "p_best")


@dataclass(frozen=True, slots=True)
class Room:
    """Limits on the script's data: all bytes, bytes of the rankings among them, and the number of judgements.

    Texts are cut to what is left. The rest of a page takes about 0.2 MB, and 5 MB are small enough to be sent by mail.
    """

    data: int = 4_700_000
    tables: int = 2_000_000
    judgements: int = 50_000  # 1.3 MB


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


@dataclass(frozen=True, eq=False)
class Tables:
    """All data that could be shown: columns of the first candidates and their views; the leaderboard, if there is one.

    Candidates are in the order `record.order`.
    """

    record: Record
    candidates: PageColumns
    texts: list[str]
    contexts: list[View]
    context_texts: list[str]
    board: tuple[View, PageColumns] | None

    @classmethod
    def of(cls, record: Record) -> Tables:
        columns, mean, items = _candidates(record), _leaderboard(record), record.items
        ends = np.cumsum([nodes.stop - nodes.start for nodes in record.contexts]).tolist()
        codes = items.context[record.row[[nodes.start for nodes in record.contexts]]]
        contexts = [
            _view(record.context_name(name), columns, begin, min(end, CANDIDATES))
            for name, begin, end in zip(items.contexts[codes].tolist(), [0, *ends], ends, strict=False)
            if end <= CANDIDATES or begin == 0
        ]
        board = None if mean is None else (_view("mean", mean, 0, len(mean["item"])), mean)
        texts = [items.texts[row] for row in record.row[record.order[:CANDIDATES]].tolist()]
        return cls(record, columns, texts, contexts, [items.context_texts[code] or "" for code in codes], board)

    @property
    def shown(self) -> tuple[View, PageColumns]:
        """The view that the page shows first, and its columns."""
        return self.board or (self.contexts[0], self.candidates)


def _candidates(record: Record) -> PageColumns:
    """The columns of the first `CANDIDATES` candidates in the order in which they are shown."""
    ranking, order = record.ranking, record.order[:CANDIDATES]
    best, worst, _ = record.places
    columns = columns_of(ranking)
    items = columns.pop("item")
    columns |= {"best": best, "worst": worst, "group": ranking.graph.component_in_context}
    columns["characters"] = record.characters.astype(np.int64)
    columns |= {f"people: {label(name)}": scores for name, scores in record.people.items()}
    texts = {"item": [label(item) for item in items[order].tolist()]}
    if record.is_coded:
        texts["begun"] = [snippet(record.items.texts[row]) for row in record.row[order].tolist()]
    return texts | {name: _numbers(column[order]) for name, column in columns.items()}


def _leaderboard(record: Record) -> PageColumns | None:
    """The ranking's leaderboard with the names of the columns of candidates; None where there is none.

    A consensus has the same group means as the judge's scores. `firsts` is the number of contexts in which a group has
    the best text, where that is known.
    """
    board = record.ranking.leaderboard
    if board is None:
        return None
    columns = {OF_GROUPS.get(name, name): column for name, column in board.to_columns().items() if name != "group"}
    columns |= {"group": np.ones(len(board), dtype=np.int64), "firsts": board.won.round(1)}
    names = [label(name) for name in board.group.tolist()]
    return {"item": names} | {name: _numbers(column) for name, column in columns.items()}


def _numbers(values: NDArray[Any]) -> list[Any]:
    """Numbers for JSON: floats with six digits, None where one is missing."""
    if not np.issubdtype(values.dtype, np.floating):
        return values.tolist()  # type: ignore[no-any-return]
    return [float(f"{value:.6g}") if math.isfinite(value) else None for value in values.tolist()]


def _view(name: str, columns: PageColumns, begin: int, end: int) -> View:
    """A view of the rows `begin` to `end`; its scale is a little wider than their intervals."""
    known = [value for key in ("low", "score", "high") for value in columns[key][begin:end] if value is not None]
    low, high = min(known), max(known)
    room = 0.03 * (high - low) or 1.0
    scale = Scale(low - room, high + room, 0.0, 100.0)
    ticks = [(round(at, 2), text) for at, text in scale.ticks(4)]
    digits = max(2, 2 - math.floor(math.log10(scale.high - scale.low)))
    groups = max(columns["group"][begin:end])
    lowest, highest = (float(f"{each:.6g}") for each in (scale.low, scale.high))
    return View(name, begin, end, lowest, highest, ticks, digits, groups)


def page_data(tables: Tables, room: Room = ROOM) -> tuple[Markup, int, list[str]]:
    """The part of the tables that fits, as JSON; its number of contexts; sentences on what is left out."""
    board, mean = tables.board or (None, {})
    taken = size([tables.candidates, mean, [asdict(view) for view in tables.contexts]])
    rows = max(1, int(len(tables.texts) * min(1.0, room.tables / taken)))
    shown = _views(tables.contexts, rows)
    leaderboard = tables.record.ranking.leaderboard
    wins = None if leaderboard is None else [_numbers(row) for row in leaderboard.wins[:TOP, :TOP]]
    data: dict[str, Any] = {
        "run": presentable(tables.record.configuration),
        "mean": _first(mean, rows) if board else None,
        "mean_view": asdict(replace(board, end=min(board.end, rows))) if board else None,
        "mean_wins": wins,
        "logits": in_logits(tables.record.ranking),
        "judge": tables.record.words.judge,
        "best": tables.record.ranking.solution.best,
        "words": {name: text for name, text in words_of(tables.record.ranking).items() if name not in DRAWN},
        "candidates": _first(tables.candidates, shown[-1].end),
        "contexts": [asdict(view) for view in shown],
        "judgements": _judgements(tables, shown, room.judgements),
    }
    texts, context_texts = tables.texts[: shown[-1].end], tables.context_texts[: len(shown)]
    length = common_length([*texts, *context_texts], room.data - size(data))
    data["candidates"]["text"] = [text[:length] for text in texts]
    for context, text in zip(data["contexts"], context_texts, strict=True):
        context["text"] = text[:length]
    cut = sum(len(text) > length for text in (*texts, *context_texts))
    return Markup(script_json(data)), len(shown), _left_out(tables, data, cut, length)


def _first(columns: PageColumns, rows: int) -> PageColumns:
    return {name: column[:rows] for name, column in columns.items()}


def _views(contexts: list[View], rows: int) -> list[View]:
    """The contexts within the first `rows` rows; of a larger first context, its part within them."""
    first = contexts[0]
    if first.end > rows:
        return [replace(first, end=rows)]
    return [context for context in contexts if context.end <= rows]


def _judgements(tables: Tables, shown: list[View], most: int) -> dict[str, Any]:
    """At most `most` answers, candidates by row: all among the first `whole` rows or, if 0, those among the best.

    Before row `top`, the answers among the best candidates are present. `complete` says that no answer is left out.
    """
    record = tables.record
    place = np.argsort(record.order, kind="stable")
    first, second = place[record.ranking.graph.first], place[record.ranking.graph.second]
    furthest = np.maximum(first, second)
    ends = np.array([0, *(context.end for context in shown)])
    before = np.searchsorted(np.sort(furthest), ends)  # number of answers among the rows before each end
    whole = top = int(ends[np.flatnonzero(before <= most)[-1]])
    kept = np.flatnonzero(furthest < whole)
    if not whole:
        best, top = np.zeros(len(record.order), dtype=bool), shown[0].end
        best[:top] = np.array(tables.candidates["rank"][:top]) <= TOP
        kept = np.flatnonzero(best[first] & best[second])[:most]
    return {
        "complete": len(kept) == len(record.p),
        "whole": whole,
        "top": top,
        "first": first[kept].tolist(),
        "second": second[kept].tolist(),
        "p": record.p[kept].round(3).tolist(),
        "expected": record.expected[kept].round(3).tolist(),
    }


def _left_out(tables: Tables, whole: dict[str, Any], cut: int, longest: int) -> list[str]:
    """A sentence about what the page leaves out, if anything."""
    record, judgements = tables.record, whole["judgements"]
    contexts, rows, every = len(whole["contexts"]), len(whole["candidates"]["item"]), len(record.order)
    held = []
    if contexts < len(record.contexts):
        held.append(f"the first {contexts:,} of {len(record.contexts):,} contexts")
    elif rows < every:
        held.append(f"the best {rows:,} of {every:,} candidates")
    if tables.board is not None and (groups := len(whole["mean"]["item"])) < tables.board[0].end:
        held.append(f"the best {groups:,} of {tables.board[0].end:,} groups of the leaderboard")
    if not judgements["complete"]:
        held.append(f"{len(judgements['p']):,} of {len(record.p):,} judgements")
    if cut:
        held.append(f"the first {longest:,} characters of each text ({cut:,} are longer)")
    if not held:
        return []
    rest = "comparo fit prints all of the ranking." if record.is_fitted else "Everything is in the run folder."
    return [f"So that it stays small, this page holds {'; '.join(held)}. {rest}"]
