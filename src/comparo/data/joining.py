"""Several files of comparisons, read as one.

Labels that are numbers in one file and text in another are text in all, and an answer that stands in two files, with
the same judge, items, order and context, counts once.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from comparo.data.comparisons import Comparisons
from comparo.data.layouts import LABELS, WANTED, judged_fields
from comparo.data.lineups import PAIR, ROWS
from comparo.data.reading import read_columns
from comparo.data.run_folder import database_of, judged
from comparo.errors import ComparisonsError

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
            parts[path] = Comparisons(**fields).to_rows() | rows_of
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


def join(parts: Mapping[str, Part], *, is_once: bool = True) -> Comparisons:
    """The comparisons of all files together, in their order; people's votes if all of them are.

    Unless `is_once`, a judge's answer that stands in two files was given twice, and counts twice.

    >>> one = Comparisons.from_columns([1], [2], [1], judge=["ana"]).to_columns()
    >>> join({"a.csv": one, "b.csv": {**one, "judge": np.array(["bo"])}}).judges
    array(['ana', 'bo'], dtype=object)
    """
    voted = all("voter" in part for part in parts.values())
    if any("lineup" in part for part in parts.values()):
        parts = _numbered(parts)
    parts = {path: {"judge" if name == "voter" else name: part[name] for name in part} for path, part in parts.items()}
    return replace(_once(parts, _joined(parts), is_once), voted=voted)


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


def _once(parts: Mapping[str, Part], joined: Mapping[str, list[Any]], is_once: bool) -> Comparisons:
    """The comparisons, if `is_once` without the answers of a judge that another file has as well."""
    source = np.repeat(np.arange(len(parts)), [len(columns["p"]) for columns in parts.values()]).tolist()
    kept, seen = list(range(len(source))), dict[Any, int]()
    if is_once and "judge" in joined and len(parts) > 1:
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
