"""Line-ups: one answer about k ≥ 3 texts in slots, as rows of pairs.

An answer about k texts is k(k − 1)/2 rows, one for each two slots, or k − 1 rows where only the best text is known:
the winner against each other one. The dtype `ROWS` names the answer of each row. With y_a the centred
log-probabilities of the labels and noise of precision (I − 11ᵀ/k)/φ, which is a clique of weight 1/k,

    Σ_{a<b} (1/k)·(d_ab − y_a + y_b)² = Σ_a (s_a − s̄ − y_a)²,

so rows of weight 2/k, relative to a pair, are equivalent to the answer: k − 1 = (2/k)·k(k − 1)/2 observations.
An order is a sequence of choices (Plackett and Luce): a text wins against the m − 1 that remain. The slope and the
expected curvature of log π_a, with π = softmax(s) of the m texts, are those of Bradley–Terry rows of the winner a
against each other text b with the weight π_a + π_b, which is 2/m where all are equal. A pair is k = 2 and m = 2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit, log_softmax, logit, softmax

from comparo.data.columns import Table, as_number, is_blank, is_missing, shown
from comparo.data.wordings import LETTERS
from comparo.errors import ComparisonsError
from comparo.types import Array, Index

LARGEST_LINEUP = len(LETTERS)  # texts of a line-up
# `answer` numbers the line-ups, −1 for a pair; `size` is k, `left` is m; `low` and `high` are the slots of first and
# second, from 0.
ROWS = np.dtype([("answer", "i4"), ("size", "i1"), ("left", "i1"), ("low", "i1"), ("high", "i1")])
LineupRow = tuple[int, int, int, int, int]
PAIR: LineupRow = (-1, 2, 2, 0, 1)
SUREST = 34.0  # −log of the smallest probability of a label that is recorded
CLEAR = 27.0  # the largest logit of a pair of labels: above 27.6 the probability is 1 within rounding (`EXACT`)
TINY, ROUNDING = 1e-300, 1e-16  # distances of a probability from 0 and 1 whose logit is finite
SAID = ("logp", "order", "best")


def is_lineup(table: Table) -> bool:
    """Whether a table has the columns of line-ups: items, and logp, order or best."""
    return "items" in table.columns and any(name in table.columns for name in SAID)


def pairs_of(table: Table) -> tuple[Table, NDArray[Any]]:
    """A table of line-ups as one of pairs with first, second, p and weight, and `ROWS` of each.

    `items` are labels in slot order, separated by "|", or a list. Of the columns `logp` (a number for each slot),
    `order` ("C>A>B": slots as letters, or the items, the best first; the rest may be left out) and `best`, one is
    filled in each row. Rows without any were not judged and are left out.

    >>> table, rows = pairs_of(Table({"items": ["x|y|z"], "order": ["B>A>C"]}))
    >>> table.columns["first"], table.columns["second"], table.columns["p"], rows["left"].tolist()
    (['x', 'y', 'x'], ['y', 'z', 'z'], array([0., 1., 1.]), [3, 3, 2])
    """
    said = [name for name in SAID if name in table.columns]
    weights = table.columns.get("weight")
    source: list[int] = []
    found: list[tuple[Any, Any, float, float]] = []
    rows: list[LineupRow] = []
    for row, cell in enumerate(table.columns["items"]):
        given = [name for name in said if not is_blank(table.columns[name][row])]
        if not given:
            continue
        items = _items(table, row, cell)
        answer = len(rows)
        times = 1.0 if weights is None else _number(table, row, "weight", weights[row])
        if given[0] == "logp":
            new = soft_rows(_logs(table, row, len(items)), answer)
        else:
            new = order_rows(_order(table, row, given[0], items), len(items), answer)
        for p, part in new:
            source.append(row)
            found.append((items[part[3]], items[part[4]], p, times * 2.0 / part[2]))
            rows.append(part)
    first, second, probability, weight = map(list, zip(*found, strict=True)) if found else ([], [], [], [])
    kept = table.take(source) if found else table
    columns = {name: column for name, column in kept.columns.items() if name not in ("items", *SAID)}
    columns |= {
        "first": first,
        "second": second,
        "p": np.array(probability, dtype=float),
        "weight": np.array(weight, dtype=float),
    }
    return Table(columns, table.source, kept.lines, table.others), np.array(rows, dtype=ROWS)


def soft_rows(logp: Sequence[float], answer: int) -> list[tuple[float, LineupRow]]:
    """p and `ROWS` of every pair of slots, from the log-probability of each label (k,).

    >>> [(round(p, 3), part[3:]) for p, part in soft_rows(np.log([0.5, 0.25, 0.25]), 0)]
    [(0.667, (0, 1)), (0.667, (0, 2)), (0.5, (1, 2))]
    """
    k = len(logp)
    if k == 2:
        return [(float(expit(logp[0] - logp[1])), PAIR)]
    # No p may be 0 or 1: these values mark a choice.
    p = expit(np.clip(np.subtract.outer(logp, logp), -CLEAR, CLEAR))
    return [(float(p[low, high]), (answer, k, k, low, high)) for low in range(k) for high in range(low + 1, k)]


def order_rows(order: Sequence[int], size: int, answer: int) -> list[tuple[float, LineupRow]]:
    """p (0 or 1) and `ROWS` of each slot in `order`, best first, against every remaining one of the `size` slots.

    >>> [(p, part[2:]) for p, part in order_rows([2, 0], 3, 0)]
    [(0.0, (3, 0, 2)), (0.0, (3, 1, 2)), (1.0, (2, 0, 1))]
    """
    left, rows = list(range(size)), []
    for best in order[: size - 1]:
        for other in left:
            if other != best:
                low, high = sorted((best, other))
                part = PAIR if size == 2 else (answer, size, len(left), low, high)
                rows.append((float(best < other), part))
        left.remove(best)
    return rows


def _parts(cell: Any) -> list[Any]:
    return list(cell) if isinstance(cell, (list, tuple, np.ndarray)) else str(cell).split("|")


def _items(table: Table, row: int, cell: Any) -> list[Any]:
    items = _parts(cell)
    if not 2 <= len(items) <= LARGEST_LINEUP:
        raise table.error(
            [row], "items", f"{shown(cell)} has {len(items)} items; a line-up has 2 to {LARGEST_LINEUP}, as a|b|c"
        )
    if len(set(items)) < len(items) or any(map(is_missing, items)):
        raise table.error([row], "items", f"{shown(cell)} names an item twice, or none; name each text once")
    return items


def _number(table: Table, row: int, column: str, value: Any) -> float:
    number = as_number(value)
    if not np.isfinite(number) or (column == "weight" and number < 0):
        raise table.error(
            [row], column, f"{shown(value)} is not a finite number{' of 0 or more' * (column == 'weight')}"
        )
    return number


def _logs(table: Table, row: int, size: int) -> list[float]:
    cell = table.columns["logp"][row]
    parts = _parts(cell)
    if len(parts) != size:
        raise table.error([row], "logp", f"{shown(cell)} has {len(parts)} numbers for {size} items; give one for each")
    return [_number(table, row, "logp", part) for part in parts]


def _order(table: Table, row: int, column: str, items: list[Any]) -> list[int]:
    """The slots that the column `order` lists, or the one that `best` names."""
    cell = table.columns[column][row]
    words = cell if isinstance(cell, (list, tuple)) else [word.strip() for word in str(cell).split(">")]
    if column == "best":
        words = [cell]
    names = [str(item) for item in items]
    letters = list(LETTERS[: len(items)])
    for known in (names, letters):
        if all(str(word) in known for word in words):
            slots = [known.index(str(word)) for word in words]
            if len(set(slots)) == len(slots):
                return slots
    raise table.error([row], column, f"{shown(cell)} is no order of the items or of {', '.join(letters)}; write C>A>B")


def joined(values: Any) -> str:
    """Labels or numbers as one cell of a file; a ComparisonsError where a label holds the separator."""
    if isinstance(values, str):
        return values
    parts = [str(value) for value in values]
    if wrong := [part for part in parts if "|" in part]:
        raise ComparisonsError(f"the item {shown(wrong[0])} holds a |, which separates the items; rename it")
    return "|".join(parts)


def columns_of(
    rows: NDArray[Any], first: NDArray[Any], second: NDArray[Any], p: Array
) -> tuple[NDArray[np.intp], dict[str, list[str]]]:
    """The first row of each answer, and its columns `items`, `logp` and `order`, as `pairs_of` reads them.

    Log-probabilities are normalised over the labels: the rows do not hold the mass of other replies.

    >>> table, rows = pairs_of(Table({"items": ["x|y|z"], "order": ["B>A>C"]}))
    >>> columns_of(rows, *(np.array(table.columns[name]) for name in ("first", "second", "p")))
    (array([0]), {'items': ['x|y|z'], 'logp': [''], 'order': ['B>A>C']})
    """
    number = np.where(rows["answer"] < 0, -1 - np.arange(len(rows)), rows["answer"])
    _, lead, answer = np.unique(number, return_index=True, return_inverse=True)
    members = np.split(np.argsort(answer, kind="stable"), np.cumsum(np.bincount(answer))[:-1])
    found: dict[str, list[str]] = {"items": [], "logp": [], "order": []}
    for code in np.argsort(lead, kind="stable").tolist():
        own = members[code]
        k, low, high = int(rows["size"][own[0]]), rows["low"][own], rows["high"][own]
        names = np.empty(k, dtype=object)
        names[low], names[high] = first[own], second[own]
        found["items"].append(joined(names))
        is_decided = bool(np.all((p[own] == 0) | (p[own] == 1)))
        y = np.zeros(k)
        y[high[low == 0]] = -logit(np.clip(p[own][low == 0], TINY, 1.0 - ROUNDING))
        found["logp"].append("" if is_decided else "|".join(map(repr, log_softmax(y).tolist())))
        wins = np.bincount(np.where(p[own] > 0.5, low, high), minlength=k)
        order = [
            slot for slot in np.argsort(-wins, kind="stable").tolist() if wins[slot] or len(own) == k * (k - 1) // 2
        ]
        found["order"].append(">".join(LETTERS[slot] for slot in order) if is_decided else "")
    return np.sort(lead), found


def masses(rows: NDArray[Any], p: Array, difference: Array) -> Array:
    """π_first + π_second of every row (K,), with π = softmax(s) over the m texts of its choice; 1 for a pair.

    `difference` (K,) is s_first − s_second − γ. The scores s of a soft answer are read from the rows of its first
    slot, those of a choice from the rows of its winner.

    >>> _, rows = pairs_of(Table({"items": ["x|y|z"], "best": ["x"]}))
    >>> masses(rows, np.ones(2), np.zeros(2))
    array([0.66666667, 0.66666667])
    """
    if not len(rows):
        return np.zeros(0)
    is_choice = (p == 0) | (p == 1)
    stage = _stages(rows)
    low, high, wins = rows["low"], rows["high"], p > 0.5
    score = np.full((int(stage.max()) + 1, LARGEST_LINEUP), -np.inf)
    of_choice, of_first = is_choice & (rows["answer"] >= 0), ~is_choice & (low == 0)
    score[stage[of_choice], np.where(wins, low, high)[of_choice]] = 0.0
    score[stage[of_choice], np.where(wins, high, low)[of_choice]] = np.where(wins, -difference, difference)[of_choice]
    score[stage[of_first], 0] = 0.0
    score[stage[of_first], high[of_first]] = -difference[of_first]
    with np.errstate(invalid="ignore"):  # pairs share one stage, which is not read
        share = softmax(score, axis=1)
    return np.where(rows["answer"] < 0, 1.0, share[stage, low] + share[stage, high])


def luce_weights(rows: NDArray[Any], p: Array, weight: Array, difference: Array) -> Array:
    """The row weights with which Bradley–Terry has the slope of Σ_a p_a·log π_a, the multinomial likelihood.

    They are (p_first + p_second)·(π_first + π_second) times the weight of the answer, where p of a choice is 1 for its
    winner. `weight` (…, K) is 2/m times the weight of the answer; `difference` (K,) is s_first − s_second − γ.

    >>> _, rows = pairs_of(Table({"items": ["x|y|z"], "best": ["x"]}))
    >>> luce_weights(rows, np.ones(2), np.full(2, 2 / 3), np.array([0.0, 9.0])).round(3)
    array([1. , 0.5])
    """
    is_choice = (p == 0) | (p == 1)
    said = np.ones(len(p))
    if not is_choice.all():
        said = np.where(is_choice, 1.0, masses(rows, p, logit(np.where(is_choice, 0.5, p))))
    return np.asarray(weight * rows["left"] / 2.0 * said * masses(rows, p, difference))


def luce_excess(rows: NDArray[Any], p: Array, weight: Array, difference: Array) -> float:
    """Σ log π of the winner of each choice, minus Σ weight·log σ of its rows.

    With `luce_weights` at `difference` (K,), rows have the slope and curvature of log π, but not its value.

    >>> _, rows = pairs_of(Table({"items": ["x|y|z"], "best": ["x"]}))
    >>> found = luce_excess(rows, np.ones(2), np.full(2, 2 / 3), np.zeros(2))
    >>> bool(np.isclose(found, np.log(1 / 3) - 2 * 2 / 3 * np.log(1 / 2)))
    True
    """
    chosen = (rows["answer"] >= 0) & ((p == 0) | (p == 1))
    ahead = np.where(p > 0.5, difference, -difference)[chosen]
    won = -np.log1p(np.bincount(_stages(rows[chosen]), np.exp(-ahead)))
    return float(np.sum(won) - np.sum(weight[chosen] * log_expit(ahead)))


def _stages(rows: NDArray[Any]) -> NDArray[np.intp]:
    """The index of the choice that each row is part of, (K,)."""
    stage = rows["answer"].astype(np.int64) * (LARGEST_LINEUP + 1) + rows["left"]
    _, index = np.unique(stage, return_inverse=True)
    return index


def ordered(rows: NDArray[Any], p: Array, weight: Array) -> tuple[NDArray[Any], Array]:
    """`ROWS` and weights of soft line-ups after their `p` were rounded to 0 or 1: each is then an order.

    >>> _, rows = pairs_of(Table({"items": ["x|y|z"], "logp": ["-1|-2|-3"]}))
    >>> found, weight = ordered(rows, np.ones(3), np.full(3, 2 / 3))
    >>> found["left"], weight
    (array([3, 3, 2], dtype=int8), array([0.66666667, 0.66666667, 1.        ]))
    """
    apart, winner = rows["answer"] >= 0, np.where(p > 0.5, rows["low"], rows["high"])
    wins = np.zeros((int(rows["answer"].max()) + 1, LARGEST_LINEUP), dtype=np.int8)
    np.add.at(wins, (rows["answer"][apart], winner[apart]), 1)
    found = rows.copy()
    found["left"][apart] = wins[rows["answer"][apart], winner[apart]] + 1
    return found, weight * rows["left"] / found["left"]


def position_effects(rows: NDArray[Any] | None, judge: Index, judges: int) -> tuple[Index, Index]:
    """The code of the position effect of each row (K,), and judge, size, lower and higher slot of each effect (F, 4).

    Each judge (K,) has one effect for pairs, and one for every two slots of its line-ups of one size.

    >>> _, rows = pairs_of(Table({"items": ["x|y|z"], "best": ["x"]}))
    >>> position_effects(rows, np.zeros(2, dtype=np.int32), 1)[0]
    array([1, 2], dtype=int32)
    """
    codes = np.arange(judges, dtype=np.int32)
    slots = np.stack([codes, *(np.full_like(codes, part) for part in (2, 0, 1))], axis=1)
    if rows is None or not (apart := rows["answer"] >= 0).any():
        return judge, slots
    names = [judge, *(rows[name].astype(np.int32) for name in ("size", "low", "high"))]
    found, code = np.unique(np.stack(names, axis=1)[apart], axis=0, return_inverse=True)
    positions = judge.copy()
    positions[apart] = len(slots) + code.ravel()
    return positions, np.concatenate([slots, found])


def is_answer(said: str, size: int) -> bool:
    """Whether `said` holds log-probabilities of `size` labels or an order of them; for a pair, whether it is empty.

    >>> is_answer("-1.5|-0.5|-2", 3), is_answer("B>A>C", 3), is_answer("B>A", 3), is_answer("", 2)
    (True, True, False, True)
    """
    if size == 2 or ">" in said:
        return said == "" if size == 2 else sorted(said.split(">")) == list(LETTERS[:size])
    parts = [as_number(part) for part in said.split("|")]
    return len(parts) == size and all(map(math.isfinite, parts))


def lineup_columns(
    first: Sequence[Any], second: Sequence[Any], p: Sequence[float], said: Sequence[str]
) -> dict[str, list[Any]]:
    """The columns items, logp and order of the answers of a run, for `pairs_of`.

    `second` is a sequence of labels where more than two texts were compared, and `said` then the log-probabilities of
    the labels ("-0.4|-1.6|-2.1") or an order of them ("B>A>C"); for a pair it is empty, and `p` its answer.

    >>> lineup_columns(["x", "x"], ["y", ("y", "z")], [0.0, 1.0], ["", "A>C>B"])
    {'items': [['x', 'y'], ['x', 'y', 'z']], 'logp': ['', ''], 'order': ['B>A', 'A>C>B']}
    """
    items = [[a, *b] if line else [a, b] for a, b, line in zip(first, second, said, strict=True)]
    decided = {0.0: "B>A", 1.0: "A>B"}
    lines = [line or decided.get(one) or [math.log(one), math.log1p(-one)] for one, line in zip(p, said, strict=True)]
    orders = [line if isinstance(line, str) and ">" in line else "" for line in lines]
    logp = ["" if order else line for line, order in zip(lines, orders, strict=True)]
    return {"items": items, "logp": logp, "order": orders}
