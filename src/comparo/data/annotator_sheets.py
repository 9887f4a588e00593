"""Sheets for people who judge elsewhere: one per judge, with both texts, and an empty column `winner`.

A sheet is a .csv and an .xlsx file with the same rows: the context, both texts, winner, and then the labels by which
`Comparisons.read` knows them (first, second, context, voter). Answers that someone wrote into a sheet are never
overwritten.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from comparo.data.columns import INSTALL, is_missing
from comparo.data.documents import workbook
from comparo.data.items import Items
from comparo.data.reading import read_columns
from comparo.data.writing import csv_text, whole
from comparo.errors import ComparisonsError

WINNER = "winner"
WORDS = (("A", "B", "equal"), ("left", "right", "tie"), ("first", "second", "draw"))
ENDINGS = (".csv", ".xlsx")
BYTE_ORDER_MARK = "\ufeff"  # without it, Excel reads CSV as Windows-1252

logger = logging.getLogger(__name__)


def sheet_columns(columns: Mapping[str, Sequence[Any]], judge: Any, items: Items) -> dict[str, list[str]]:
    """The columns of a judge's sheet, all text, for the pairs in columns first, second and, if any, context.

    The texts are called A and B, unless an item has such a name: a winner "A" would then be unclear.

    >>> items = Items.of({"ana": "A story.", "bo": "Another."})
    >>> sheet_columns({"first": ["bo"], "second": ["ana"]}, "zoe", items)["text A"]
    ['Another.']
    """
    one, other, _ = _words(items)
    contexts = list(columns.get("context", [None] * len(columns["first"])))
    rows = [
        [items.row(*key) for key in zip(contexts, columns[side], strict=True)] if items.texts else []
        for side in ("first", "second")
    ]
    shared = [items.context_texts[items.context[row]] for row in rows[0]]
    labels = {name: list(map(str, columns[name])) for name in ("first", "second", "context") if name in columns}
    made: dict[str, list[str]] = {}
    if any(text is not None and text != str(label) for text, label in zip(shared, contexts, strict=bool(shared))):
        made["context_text"] = [text or "" for text in shared]
    elif any(shared):  # a short context is its own label
        made["context"] = labels.pop("context")
    for name, side in ((f"text {one}", rows[0]), (f"text {other}", rows[1])) if items.texts else ():
        made[name] = [items.texts[row] for row in side]
    empty, judges = [""] * len(contexts), [str(judge)] * len(contexts)
    return {**made, WINNER: empty, **labels, "voter": judges} if made else {**labels, WINNER: empty, "voter": judges}


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
    paths = {judge: [folder / f"{_file_name(judge)}{ending}" for ending in endings] for judge in shared}
    if len({path for each in paths.values() for path in each}) < len(endings) * len(paths):
        raise ComparisonsError(f"two of the judges {', '.join(map(str, paths))} give the same file; rename one")
    for judge in paths:
        for ending in ENDINGS:
            _check_unanswered(folder / f"{_file_name(judge)}{ending}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ComparisonsError(f"the folder {folder} cannot be made ({error.strerror}); choose another") from error
    for judge, pairs in shared.items():
        columns = sheet_columns(pairs, judge, items)
        for path in paths[judge]:
            with whole(path) as file:
                file.write(_content(path, columns, _words(items)))
    return [path for each in paths.values() for path in each]


def _content(path: Path, columns: Mapping[str, list[str]], words: Sequence[str]) -> bytes:
    if path.suffix == ".csv":
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
    """Raise where a file is there that holds answers, or is not a sheet that was written here."""
    if not os.path.lexists(path):
        return
    remedy = f"choose another folder with `out`, and count this sheet with asked='{path}'"
    try:
        columns = read_columns(path).columns
    except ComparisonsError as error:
        raise ComparisonsError(f"{path} is there and cannot be read as a sheet; {remedy} ({error})") from error
    if not {WINNER, "first", "second"} <= set(columns):
        raise ComparisonsError(f"{path} is there and is no sheet of pairs; choose another folder with `out`")
    if filled := sum(not is_missing(cell) for cell in columns[WINNER]):
        raise ComparisonsError(f"{path} has {filled} answers and is not overwritten; {remedy}")
