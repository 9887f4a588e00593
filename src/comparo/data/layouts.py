"""The layouts of comparisons: sets of columns, and a square matrix; every value is checked here.

Frames, mappings and files have two columns of items, `first, second`, `model_a, model_b` or `left, right`, with `p` or
`winner` (or `choice`). A winner is named by its column, by A or B, or by its own label, in upper or lower case; tie,
draw or equal means neither. A row without a winner was not judged and is left out. Lists of winners have `winner,
loser`, or two items and how often each won, such as `wins_first, wins_second`: in which order the judge saw them is
not known. Each layout may also have `weight`, `context` (or `context_id`) and `judge` (or `voter`, if people judged);
other columns are ignored, except that rows with an `error` are judgements that failed and are left out. Answers about
several texts have the columns `items`, and `logp`, `order` or `best` (`lineups`). Names are in any case.
"""

import logging
import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from comparo.data.columns import Table, column_from_values, factorise, is_blank, is_missing, numbers, shown
from comparo.data.formats import read_columns
from comparo.data.lineups import SAID, is_lineup, pairs_of
from comparo.data.run_folder import database_of, judged
from comparo.errors import ComparisonsError
from comparo.types import Array, Mask

WON = ("winner", "loser")
WINS = ("wins_first", "wins_second")
PAIRS = (("first", "second"), ("model_a", "model_b"), ("left", "right"))
NAMED = ((*PAIRS[0], "p"), *((*pair, "winner") for pair in PAIRS), WON, (*PAIRS[0], *WINS))  # in errors
LAYOUTS = (*NAMED[:4], *((*pair, "p") for pair in PAIRS[1:]), (*WON, "p"))
# Other names of the columns, in lower case.
ALIASES = {"choice": "winner", "first_wins": WINS[0], "second_wins": WINS[1]}
ALIASES |= {form.format(name): WINS[k] for k, name in enumerate("ab") for form in ("wins_{}", "{}_wins")}
ALIASES |= {form.format(name): WINS[k] for k, name in enumerate(PAIRS[2]) for form in ("wins_{}", "{}_wins")}
OPTIONAL = {"weight": ("weight",), "context": ("context", "context_id"), "judge": ("judge", "voter")}


class Names(frozenset[str]):
    """Names of columns, in any case and with their aliases."""

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and super().__contains__(usual_name(name))


def usual_name(name: str) -> str:
    """What `layouts` calls a column.

    >>> usual_name("Choice "), usual_name("A_wins")
    ('winner', 'wins_first')
    """
    plain = name.strip().lower()
    return ALIASES.get(plain, plain)


WANTED = Names(chain(*LAYOUTS, *OPTIONAL.values(), WINS, ["error", "items"], SAID))
LABELS = Names(WANTED - {"p", "weight", "error", *WINS})
ROLES = ("first", "second", "p", *WON, *WINS, "weight", "context", "judge", "voter")
NONE: Mapping[str, str] = {}
TIES = {"tie": 0.5, "draw": 0.5, "equal": 0.5}
WINNERS = {  # by the second column of a layout
    "second": {"first": 1.0, "second": 0.0, "left": 1.0, "right": 0.0, "a": 1.0, "b": 0.0, **TIES},
    "model_b": {"model_a": 1.0, "model_b": 0.0, "a": 1.0, "b": 0.0, **TIES}
    | dict.fromkeys(("tie (bothbad)", "both_bad", "bothbad"), 0.5),
    "right": {"left": 1.0, "right": 0.0, "a": 1.0, "b": 0.0, **TIES},
}

logger = logging.getLogger(__name__)


def answers_at(path: str | os.PathLike[str], names: Mapping[str, str] = NONE) -> Table:
    """The columns of a file of comparisons, or the answers of a run.

    `names` has what the file calls the columns of a layout.
    """
    database = database_of(path)
    if not names:
        return read_columns(path, WANTED, LABELS) if database is None else judged(database)
    if database is not None:
        raise ComparisonsError(f"{path} is a run folder, which has its own columns; leave columns out")
    table = read_columns(path, None, LABELS | set(names.values()))
    if missing := [name for name in names.values() if name not in table.columns]:
        raise ComparisonsError(f"{path}: there is no column {missing[0]!r}; the columns are {', '.join(table.columns)}")
    chosen = {role: table.columns[name] for role, name in names.items()}
    if "winner" in chosen:  # it may say the name of a column
        ends = {names[end].lower(): end for end in PAIRS[0] if end in names}
        chosen["winner"] = [ends.get(str(value).strip().lower(), value) for value in chosen["winner"]]
    rest = {name: column for name, column in table.columns.items() if name in WANTED and name not in names.values()}
    return replace(table, columns=rest | chosen)


def fields_from_table(table: Table) -> dict[str, Any]:
    """The fields of `Comparisons` from a table in a known layout, after a check of every column."""
    fields, rows = judged_fields(table)
    place, left = table.source or "the data", rows - len(fields["p"])
    if left == rows:
        raise table.error(range(max(rows, 1)), "winner", "no row has a winner; there is nothing to fit")
    if left:
        logger.warning("%s: %d of %d comparisons have no winner and are left out", place, left, rows)
    return fields


def judged_fields(table: Table, is_kept: bool = False) -> tuple[dict[str, Any], int]:
    """The fields of `Comparisons` from the judged rows, possibly none, and the number of all rows.

    With `is_kept` the fields have all rows; p is NaN where there is no winner.
    """
    table, lineup = _answered(_usual(table)), None
    if is_lineup(table):
        asked = len(table.columns["items"])
        table, lineup = pairs_of(table)
        if not len(lineup):
            return {"p": np.empty(0)}, asked
    table = _winners(table)
    column = _layout(table)
    lengths = {name: len(table.columns[name]) for name in column.values()}
    if len(set(lengths.values())) > 1:
        counted = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise ComparisonsError(f"the columns differ in length: {counted} rows; give one value per row in each")
    if not all(lengths.values()):
        place = table.source or "the data"
        raise ComparisonsError(f"there are no comparisons in {place}; at least two items are needed, compared once")
    words = WINNERS[column["second"]] if column["p"] == "winner" else None
    table, judged = _judged(table, column)
    rows = len(judged)
    if not (is_kept or judged.any()):
        return {"p": np.empty(0)}, rows
    if not (is_kept or judged.all()):
        table, judged = table.take(np.flatnonzero(judged).tolist()), judged[judged]
    items, (first, second) = factorise(table, column["first"], column["second"])
    same = np.flatnonzero(first == second)
    if same.size:
        label = shown(table.columns[column["second"]][same[0]])
        raise table.error(same, column["second"], f"{label} is compared with itself; drop the row")
    if words is not None:
        p = np.full(len(judged), np.nan)
        said = table.take(np.flatnonzero(judged).tolist())
        p[judged] = winners(said, words, column["first"], column["second"])
    else:
        p = numbers(table, "p", 1.0, "a probability between 0 and 1")
    largest = float(np.finfo(np.float64).max)
    weight = numbers(table, "weight", largest, "a finite weight of 0 or more") if "weight" in column else None
    fields = {"items": items, "first": first, "second": second, "p": p, "weight": weight}
    for role in ("context", "judge"):
        if role in column:
            fields[f"{role}s"], (fields[role],) = factorise(table, column[role])
    if lineup is not None and np.any(lineup["answer"] >= 0):
        fields["lineup"] = lineup
    return fields | {"voted": column.get("judge") == "voter", "lists_winners": column["second"] == "loser"}, rows


def winners(table: Table, words: Mapping[str, float], first: str, second: str) -> Array:
    """The column `winner` as numbers: 1 for the item in the column `first`, 0 for that in `second`.

    A winner is named by its own label or by one of `words`, which map to numbers. Spaces around it do not matter, nor
    upper and lower case unless the two labels differ by that alone. Where a label and a word contradict each other (the
    winner is "A", and "A" is the label of the second item), the other rows decide which is meant; if they do not, it is
    an error.

    >>> columns = {"left": ["ana", "ana"], "right": ["bo", "bo"], "winner": ["Left", "bo"]}
    >>> winners(Table(columns), {"left": 1.0, "right": 0.0}, "left", "right")
    array([1., 0.])
    """
    column = table.columns["winner"]
    by_word, by_name = np.full((2, len(column)), np.nan)
    spelt = (map(_spelt, values) for values in (column, table.columns[first], table.columns[second]))
    for row, (word, *ends) in enumerate(zip(*spelt, strict=True)):
        if word.lower() in words:
            by_word[row] = words[word.lower()]
        elif word not in ends:
            word, ends = word.casefold(), [end.casefold() for end in ends]
        if ends.count(word) == 1:
            by_name[row] = 1.0 - ends.index(word)
    worded, named = ~np.isnan(by_word), ~np.isnan(by_name)
    bad = np.flatnonzero(~(worded | named))
    if bad.size:
        known = f"{', '.join(words)}, or the name of one of the two"
        raise table.error(bad, "winner", f"{shown(column[bad[0]])} is not one of {known}")
    unclear = np.flatnonzero(worded & named & (by_word != by_name))
    all_worded, all_named = worded.all(), (named | (by_word == 0.5)).all()
    if unclear.size and all_worded == all_named:
        problem = f"{shown(column[unclear[0]])} is one item's name and also says the other; write {first} or {second}"
        raise table.error(unclear, "winner", problem)
    return np.where(worded & (all_worded | ~named), by_word, by_name)


def _spelt(label: Any) -> str:
    """A label as text, whole floats as integers: a data frame stores integers as floats if one is missing."""
    return str(int(label) if isinstance(label, float) and label.is_integer() else label).strip()


def _usual(table: Table) -> Table:
    """The table with the usual names of its columns; a column that has its usual name keeps it."""
    columns = {name: column for name, column in table.columns.items() if usual_name(name) == name}
    for name, column in table.columns.items():
        columns.setdefault(usual_name(name), column)
    return replace(table, columns=columns)


def _winners(table: Table) -> Table:
    """A list of winners, or of how often each won, with a row for each winner, p = 1 and the number of wins as weight.

    Other tables stay as they are.
    """
    columns = dict(table.columns)
    ends = next((pair for pair in PAIRS if set(pair) <= columns.keys()), None)
    if ends is None and set(WON) <= columns.keys():
        columns.setdefault("p", np.ones(len(columns["loser"])))
        return replace(table, columns=columns)
    if ends is None or not set(WINS) <= columns.keys() or {"p", "winner"} & columns.keys():
        return table
    most = float(np.finfo(np.float64).max)
    wins = [numbers(table, name, most, "a number of wins of 0 or more") for name in WINS]
    parts = [table.take(np.flatnonzero(own).tolist()).columns for own in wins]
    found = {name: [*parts[0][name], *parts[1][name]] for name in columns.keys() - {*WINS, *ends}}
    for name, one, other in zip(WON, ends, reversed(ends), strict=True):
        found[name] = [*parts[0][one], *parts[1][other]]
    weight = np.concatenate([own[own > 0] for own in wins])
    return replace(table, columns=found | {"p": np.ones(len(weight)), "weight": weight}, lines=None)


def _answered(table: Table) -> Table:
    """The table without rows that have an error; a ComparisonsError if every row has one."""
    errors = table.columns.get("error")
    if errors is None:
        return table
    kept = [row for row, error in enumerate(errors) if is_blank(error)]
    if not kept:
        raise table.error(range(len(errors)), "error", "every judgement failed; there is nothing to fit")
    columns = {name: column for name, column in table.columns.items() if name != "error"}
    return replace(table, columns=columns).take(kept)


def _judged(table: Table, column: Mapping[str, str]) -> tuple[Table, Mask]:
    """The table without blank rows, and a mask of the rows with a winner or p."""
    said = table.columns[column["p"]]
    if column["p"] != "winner":
        return table, np.ones(len(said), dtype=bool)
    judged = np.fromiter((not is_missing(word) for word in said), bool, len(said))
    first = table.columns[column["first"]]
    kept = [row for row, name in enumerate(first) if judged[row] or not is_missing(name)]
    return table.take(kept), judged[kept]


def _layout(table: Table) -> dict[str, str]:
    """The column of each role."""
    layout = min(LAYOUTS, key=lambda names: len(set(names) - set(table.columns)))
    if missing := [repr(name) for name in layout if name not in table.columns]:
        raise ComparisonsError(
            f"{table.source or 'the data'}: there is no column {' or '.join(missing)}; the columns are "
            f"{', '.join([*table.columns, *map(str, table.others)]) or 'none'}. Rename them to one of the layouts "
            f"{'; '.join(', '.join(names) for names in NAMED)}"
        )
    column = dict(zip(("first", "second", "p"), layout, strict=True))
    for role, names in OPTIONAL.items():
        if there := [name for name in names if name in table.columns]:
            column[role] = there[0]
    return column


def fields_from_matrix(matrix: ArrayLike, items: Iterable[Any] | None) -> dict[str, Any]:
    """The fields of `Comparisons` from an N×N matrix of P(i beats j), NaN where there is no comparison."""
    try:
        entries = np.asarray(matrix, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ComparisonsError(f"the matrix holds something that is not a number: {error}") from error
    if entries.ndim != 2 or entries.shape[0] != entries.shape[1] or len(entries) < 2:
        problem = "it must be square, a row for each of at least two items"
        raise ComparisonsError(f"the matrix has shape {entries.shape}; {problem}")
    size = len(entries)
    names = column_from_values("items", np.arange(size) if items is None else items)
    labels, (codes,) = factorise(Table({"items": names}), "items")
    if not len(labels) == len(codes) == size:
        problem = f"there are {len(labels)} different items for a matrix of {size} rows"
        raise ComparisonsError(f"{problem}; give each row a name of its own")
    asked = ~np.isnan(entries)
    np.fill_diagonal(asked, False)
    first, second = np.nonzero(asked)
    p = entries[first, second]
    for i, j in np.argwhere(asked & ((entries < 0) | (entries > 1)))[:1]:
        raise ComparisonsError(f"matrix entry [{i}, {j}]: {entries[i, j]} is not a probability between 0 and 1")
    if not p.size:
        raise ComparisonsError("there are no comparisons in the matrix: every entry off its diagonal is NaN")
    return {"items": labels[codes], "first": first.astype(np.int32), "second": second.astype(np.int32), "p": p}
