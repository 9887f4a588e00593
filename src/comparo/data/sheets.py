"""Spreadsheets: CSV cells that no spreadsheet executes as a formula, and the first sheet of a workbook as CSV."""

import csv
import importlib.util
import io
import logging
import re
from collections.abc import Iterable
from datetime import date, datetime, time
from typing import Any

from comparo.data.frames import INSTALL
from comparo.errors import ComparisonsError

# A spreadsheet executes a cell that begins with one of these as a formula (OWASP, "CSV Injection"). A quote before it
# makes it text; a cell that already has quotes before such a beginning gets one more, so that it can be restored.
_FORMULA = re.compile("'*[=+\\-@\t\r\n＝＋－＠]")
_GUARDED = re.compile("'+[=+\\-@\t\r\n＝＋－＠]")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")

logger = logging.getLogger(__name__)


def guarded(value: Any) -> Any:
    """A value as a CSV cell that no spreadsheet executes as a formula; numbers, also in text, do not change.

    >>> guarded("=SUM(A1)"), guarded("'=x"), guarded("-5"), guarded(-5)
    ("'=SUM(A1)", "''=x", '-5', -5)
    """
    if isinstance(value, str) and _FORMULA.match(value) and not _NUMBER.fullmatch(value):
        return f"'{value}"
    return value


def unguarded(cell: str) -> str:
    """The value that `guarded` was called with.

    >>> unguarded(guarded("=x")), unguarded(guarded("'=x")), unguarded("'tis")
    ('=x', "'=x", "'tis")
    """
    return cell[1:] if _GUARDED.match(cell) else cell


def csv_line(values: Iterable[Any]) -> str:
    r"""A line of CSV, guarded; what is missing is an empty field.

    >>> csv_line(["=x", -1.5, None, float("nan"), "one\rtwo"])
    '\'=x,-1.5,,,"one\rtwo"\n'
    """
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer)  # its lines end with \r\n: if they ended with \n alone, it would not quote \r
    writer.writerow("" if value is None or value != value else guarded(value) for value in values)
    return buffer.getvalue().removesuffix("\r\n") + "\n"


def rows_of_workbook(content: bytes, source: str) -> tuple[list[str], list[list[str]], list[int]]:
    """The header of an .xlsx file's first sheet, the rows below it that are not blank, and their numbers there.

    Cells are strings, as if the sheet had been saved as CSV.
    """
    if importlib.util.find_spec("python_calamine") is None:
        raise ComparisonsError(f"{source}: .xlsx needs python-calamine: {INSTALL}; or save the sheet as .csv")
    from python_calamine import CalamineError, load_workbook

    try:
        book = load_workbook(io.BytesIO(content))
        sheets = {name: book.get_sheet_by_name(name).to_python(skip_empty_area=False) for name in book.sheet_names}
    except (CalamineError, OSError) as error:
        raise ComparisonsError(f"{source} is not a whole .xlsx file ({error}); save it again, or as .csv") from error
    filled = {name: rows for name, rows in ((name, _filled(rows)) for name, rows in sheets.items()) if rows}
    if not filled:
        raise ComparisonsError(f"{source} is empty; write its rows first")
    (first, ((_, header), *below)), *others = filled.items()
    if others:
        unread = ", ".join(repr(name) for name, _ in others)
        logger.warning("%s: only the first sheet, %r, is read, not %s", source, first, unread)
    named = [place for place, name in enumerate(header) if name.strip()]
    cells = [[row[place] for place in named] for _, row in below]
    return [header[place].strip() for place in named], cells, [number for number, _ in below]


def _filled(rows: list[list[Any]]) -> list[tuple[int, list[str]]]:
    """The rows that are not blank, each with its number."""
    texts = ([_cell(value) for value in row] for row in rows)
    return [(number, row) for number, row in enumerate(texts, 1) if any(cell.strip() for cell in row)]


def _cell(value: object) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    return "" if value is None else str(value)
