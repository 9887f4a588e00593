"""Sheets of people who judge elsewhere: one is written for each judge, and several are read as one.

A sheet is a .csv and an .xlsx file with the same rows: the context, both texts, an empty column `winner`, and then the
labels by which `Comparisons.read` knows them (first, second, context, voter). Answers that someone wrote into a sheet
are never overwritten.

Any files of comparisons are read as one. Labels that are numbers in one file and text in another are text in all, and
an answer in two files counts once if its judge, items, order, context and p are equal.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from comparo.data.columns import INSTALL, is_missing
from comparo.data.comparisons import Comparisons
from comparo.data.documents import workbook
from comparo.data.formats import csv_text, read_columns
from comparo.data.items import Items
from comparo.data.layouts import answers_at, judged_fields
from comparo.data.lineups import PAIR, ROWS
from comparo.data.opening import whole
from comparo.data.run_folder import database_of
from comparo.errors import ComparisonsError, Message, named

WINNER = "winner"
WORDS = (("A", "B", "equal"), ("left", "right", "tie"), ("first", "second", "draw"))
ENDINGS = (".csv", ".xlsx")
BYTE_ORDER_MARK = "\ufeff"  # without it, Excel reads CSV as Windows-1252

logger = logging.getLogger(__name__)
PathLike = str | os.PathLike[str]
FileColumns = Mapping[str, Any]  # the columns of a file


def sheet_columns(columns: Mapping[str, Sequence[Any]], judge: Any, items: Items) -> dict[str, list[str]]:
    """The columns of a judge's sheet, all text, for the pairs in columns first, second and, if any, context.

    The texts are called A and B, unless an item has such a name: a winner "A" would then be ambiguous.

    >>> items = Items.of({"ana": "A story.", "bo": "Another."})
    >>> sheet_columns({"first": ["bo"], "second": ["ana"]}, "zoe", items)["text A"]
    ['Another.']
    """
    one, other, _ = _words(items)
    contexts = list(columns.get("context", [None] * len(columns["first"])))
    labels = {name: list(map(str, columns[name])) for name in ("first", "second", "context") if name in columns}
    empty, judges = [""] * len(contexts), [str(judge)] * len(contexts)
    if not items.texts:
        return {**labels, WINNER: empty, "voter": judges}
    made: dict[str, list[str]] = {}
    for name, side in ((one, "first"), (other, "second")):
        rows = [items.row(*key) for key in zip(contexts, columns[side], strict=True)]
        made[f"text {name}"] = [items.texts[row] for row in rows]
    shared = [items.context_texts[items.context[row]] or "" for row in rows]
    if any(shared):
        made = {"context_text": shared} | made
    return {**made, WINNER: empty, **labels, "voter": judges}


def write_sheets(folder: Path, shared: Mapping[Any, Mapping[str, Sequence[Any]]], items: Items) -> list[Path]:
    """Write a .csv and an .xlsx sheet for each judge, and return their paths; without xlsxwriter only .csv.

    Parameters
    ----------
    folder
        Where to write; it is made if need be.
    shared
        The pairs of each judge, as `sharing.share_out` returns them.
    items
        The items, with texts if there are any.

    Raises
    ------
    ComparisonsError
        If a file there has answers, or is no sheet, or cannot be written. Nothing is written then.
    """
    endings = ENDINGS if importlib.util.find_spec("xlsxwriter") else ENDINGS[:1]
    if len(endings) < len(ENDINGS):
        logger.warning("only .csv sheets are written: .xlsx needs xlsxwriter: %s", INSTALL)
    stems = {judge: folder / _file_name(judge) for judge in shared}
    if len(set(stems.values())) < len(stems):
        raise ComparisonsError(f"two of the judges {', '.join(map(str, stems))} give the same file; rename one")
    for stem in stems.values():
        for ending in ENDINGS:
            _check_unanswered(stem.with_name(f"{stem.name}{ending}"))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ComparisonsError(f"the folder {folder} cannot be made ({error.strerror}); choose another") from error
    paths = []
    for judge, stem in stems.items():
        columns = sheet_columns(shared[judge], judge, items)
        for ending in endings:
            paths.append(stem.with_name(f"{stem.name}{ending}"))
            with whole(paths[-1]) as file:
                file.write(_content(ending, columns, _words(items)))
    return paths


def _content(ending: str, columns: Mapping[str, list[str]], words: Sequence[str]) -> bytes:
    if ending == ".csv":
        return f"{BYTE_ORDER_MARK}{csv_text(columns)}".encode()
    return workbook(columns, [name for name in columns if "text" in name], WINNER, words)


def _words(items: Items) -> tuple[str, str, str]:
    """What the two texts and a tie are called, such that no item has that name."""
    names = {str(name).strip().lower() for name in items.ids.tolist()}
    return next((words for words in WORDS if not names & {word.lower() for word in words}), WORDS[-1])


def _file_name(judge: Any) -> str:
    name = re.sub(r"[^\w.@+-]+", "_", str(judge)).strip("._")
    if not name:
        raise ComparisonsError(f"{judge!r} cannot be the name of a file; name the judge by letters or digits")
    return name


def _check_unanswered(path: Path) -> None:
    """Raise if an existing file holds answers, or is not a sheet that comparo wrote."""
    if not os.path.lexists(path):
        return
    remedy = Message("choose another folder with {out}, and count this sheet with ") + named("asked", str(path))
    try:
        columns = read_columns(path).columns
    except ComparisonsError as error:
        raise ComparisonsError(f"{path} is there and cannot be read as a sheet; " + remedy + f" ({error})") from error
    if not {WINNER, "first", "second"} <= set(columns):
        raise ComparisonsError(f"{path} is no sheet of pairs; " + Message("choose another folder with {out}"))
    if filled := sum(not is_missing(cell) for cell in columns[WINNER]):
        raise ComparisonsError(f"{path} has {filled} answers and is not overwritten; " + remedy)


def read_several(
    paths: Sequence[PathLike], *, is_kept: bool = False, names: Mapping[str, str] | None = None
) -> Comparisons:
    """The comparisons of several files and run folders, in any layouts, joined.

    Rows without a winner are left out, and counted in one line of the log for all files.

    Parameters
    ----------
    paths
        At least one file or run folder that `Comparisons.read` reads.
    is_kept
        Keep the rows without a winner, with p = NaN: what was handed out and has no answer yet.
    names
        What the files call the columns of a layout: {"first": "left_id"}.

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
    if len(paths) == 1 and not (is_kept or names) and sheets_in(paths[0]) is None:
        return Comparisons.read(paths[0])
    return join(read_parts(paths, is_kept=is_kept, names=names))


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


def read_parts(
    paths: Sequence[PathLike], *, is_kept: bool = False, is_named: bool = False, names: Mapping[str, str] | None = None
) -> dict[str, FileColumns]:
    """The columns of each file, by its path, as `read_several` reads them; files without answers are left out.

    With `is_named`, a file without a column judge is by one judge, named after the file.
    """
    parts: dict[str, FileColumns] = {}
    blank = []
    files = [file for path in paths for file in map(str, sheets_in(path) or (path,))]
    for path in dict.fromkeys(files):
        fields, rows = judged_fields(answers_at(path, names or {}), is_kept)
        if len(fields["p"]):
            rows_of = {"lineup": fields["lineup"]} if "lineup" in fields else {}
            known = Comparisons(**fields)
            parts[path] = known.to_columns() if known.lists_winners else known.to_rows() | rows_of
            if is_named and not {"judge", "voter"} & set(parts[path]):
                database = database_of(path)
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


RENAMED = {"voter": "judge", "winner": "first", "loser": "second"}


def join(parts: Mapping[str, FileColumns], *, is_once: bool = True) -> Comparisons:
    """The comparisons of all files, in their order; `voted` if all files are people's votes.

    With `is_once`, equal answers of a judge in two files count once, else twice.

    >>> one = Comparisons.from_columns([1], [2], [1], judge=["ana"]).to_columns()
    >>> join({"a.csv": one, "b.csv": {**one, "judge": np.array(["bo"])}}).judges
    array(['ana', 'bo'], dtype=object)
    """
    voted, lists_winners = (all(name in part for part in parts.values()) for name in ("voter", "loser"))
    if not lists_winners and (lists := [path for path, part in parts.items() if "loser" in part]):
        other = next(path for path in parts if path not in lists)
        raise ComparisonsError(
            f"{lists[0]} lists winners and losers, and {other} says which text was shown first; fit them apart"
        )
    if any("lineup" in part for part in parts.values()):
        parts = _numbered(parts)
    renamed = {}
    for path, part in parts.items():
        renamed[path] = {RENAMED.get(name, name): column for name, column in part.items()}
    joined = _joined(renamed)
    if is_once and "judge" in joined and len(parts) > 1:
        sizes = [len(part["p"]) for part in parts.values()]
        kept = _once(joined, np.repeat(np.arange(len(parts)), sizes).tolist())
        joined = {name: [values[row] for row in kept] for name, values in joined.items()}
    p, answers = np.array(joined.pop("p")), joined.pop("lineup", None)
    known = Comparisons.from_columns(p=np.zeros(len(p)), **joined)  # p may be NaN: no answer yet
    lineup = None if answers is None else np.array(answers, dtype=ROWS)
    return replace(known, p=p, lineup=lineup, voted=voted, lists_winners=lists_winners)


def _numbered(parts: Mapping[str, FileColumns]) -> dict[str, FileColumns]:
    """The parts, each with a column lineup; numbers of answers are unique over all parts."""
    found: dict[str, FileColumns] = {}
    start = 0
    for path, part in parts.items():
        rows = part.get("lineup", np.array([PAIR] * len(part["p"]), dtype=ROWS)).copy()
        rows["answer"] += start * (rows["answer"] >= 0)
        start = max(start, int(rows["answer"].max()) + 1)
        found[path] = {**part, "lineup": rows}
    return found


def _joined(parts: Mapping[str, FileColumns]) -> dict[str, list[Any]]:
    """The columns of all files, concatenated."""
    joined: dict[str, list[Any]] = {}
    for name in ("first", "second", "p", "judge", "context", "weight", "lineup"):
        without = [path for path, part in parts.items() if name not in part]
        if without and len(without) < len(parts) and name != "weight":
            having = next(path for path in parts if path not in without)
            raise ComparisonsError(
                f"{without[0]} has no column {name!r} and {having} has one; add it to {Path(without[0]).name} as well"
            )
        if len(without) < len(parts):
            columns = [part.get(name, np.ones(len(part["p"]))) for part in parts.values()]
            joined[name] = [value for column in columns for value in column.tolist()]
    for names in (("first", "second"), ("context",), ("judge",)):
        kinds = {isinstance(label, str) for name in names for label in joined.get(name, ())}
        for name in names if len(kinds) > 1 else ():
            joined[name] = list(map(str, joined[name]))
    return joined


def _once(joined: Mapping[str, list[Any]], file: Sequence[int]) -> list[int]:
    """The rows to keep: without answers of a judge that an earlier `file` (K,) also has."""
    labels = [joined[name] for name in ("first", "second", "context", "judge") if name in joined]
    # NaN is not equal to itself: a row that has no answer yet is the same row in both files.
    keys = list(zip(*labels, strict=True))
    answers = [(key, None if p != p else p) for key, p in zip(keys, joined["p"], strict=True)]
    first, other = dict[Any, int](), dict[Any, int]()
    kept = [row for row, answer in enumerate(answers) if first.setdefault(answer, file[row]) == file[row]]
    if differ := sum(other.setdefault(keys[row], file[row]) != file[row] for row in kept):
        logger.warning("%d answers of a judge stand in two files and differ; both count: name one of the files", differ)
    if twice := len(answers) - len(kept):
        logger.warning("%d answers of a judge stand in two files, equal in both, and count once", twice)
    return kept
