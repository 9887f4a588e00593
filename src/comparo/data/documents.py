"""Office documents: CSV cells that no spreadsheet executes, workbooks, and the text of .docx and .pdf files.

Workbooks are read as if they had been saved as CSV. .docx needs only the standard library, a .pdf with a text layer
needs pypdf (the extra `documents`). Documents are untrusted: a document type declaration, the way to entities that
expand without end, is refused, and so is what unpacks to more than the limit of `comparo.data.opening`.
"""

import csv
import importlib
import importlib.util
import io
import logging
import re
import zipfile
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date, datetime, time
from functools import lru_cache, reduce
from pathlib import Path
from typing import Any
from xml.parsers import expat

from comparo.data.columns import INSTALL
from comparo.data.opening import VALUE, bounded, check_size, unpacked
from comparo.data.wordings import listed
from comparo.errors import ComparisonsError, pip_install

# A spreadsheet executes a cell that begins with one of these as a formula (OWASP, "CSV Injection"). A quote before it
# makes it text; a cell that already has quotes before such a beginning gets one more, so that it can be restored.
_FORMULA = re.compile("'*[=+\\-@\t\r\n＝＋－＠]")
_NUMBER = re.compile(r"[+-]?(\d+(?:\.\d*)?|\.\d+)([eE][+-]?\d+)?")
CELL = 32_767  # characters in a cell of .xlsx, at most (Excel's specifications and limits)
CUT = " … [cut: a cell holds no more; the .csv file has the whole text]"

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
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell


def csv_lines(rows: Iterable[Iterable[Any]]) -> str:
    r"""Rows as lines of CSV, each cell `guarded`; a missing value is an empty field.

    >>> csv_lines([["item", "std"], ["=x", -1.5], [None, float("nan")], ["one\rtwo", 1]])
    'item,std\n\'=x,-1.5\n,\n"one\rtwo",1\n'
    """
    lines = _Lines()
    # The lines end with \r\n: with \n alone, the writer would not quote \r.
    writer = csv.writer(lines)
    for row in rows:
        writer.writerow("" if value is None or value != value else guarded(value) for value in row)
    return "".join(f"{line[:-2]}\n" for line in lines)


class _Lines(list[str]):
    """A list of lines that `csv.writer` can write to."""

    write = list.append


def rows_of_workbook(content: io.BytesIO, source: str) -> tuple[list[str], list[list[str]], list[int]]:
    """The header of an .xlsx file's first sheet, the rows below it that are not blank, and their numbers there.

    Cells are strings, as if the sheet had been saved as CSV.
    """
    if importlib.util.find_spec("python_calamine") is None:
        raise ComparisonsError(f"{source}: .xlsx needs python-calamine: {INSTALL}; or save the sheet as .csv")
    from python_calamine import CalamineError, load_workbook

    try:
        book = load_workbook(_checked(content, source))
        sheets = {name: book.get_sheet_by_name(name).to_python(skip_empty_area=False) for name in book.sheet_names}
    except ComparisonsError:
        raise
    except (CalamineError, OSError, expat.ExpatError, ValueError, *NOT_WHOLE) as error:
        raise ComparisonsError(f"{source} is not a whole .xlsx file ({error}); save it again, or as .csv") from error
    every = {name: _filled(rows) for name, rows in sheets.items()}
    filled = [name for name, rows in every.items() if rows]
    if not filled:
        raise ComparisonsError(f"{source} is empty; write its rows first")
    first, *others = filled
    (_, header), *below = every[first]
    if others:
        unread = ", ".join(map(repr, others))
        logger.warning("%s: only the first sheet, %r, is read, not %s", source, first, unread)
    named = [place for place, name in enumerate(header) if name.strip()]
    cells = [[row[place] for place in named] for _, row in below]
    return [header[place].strip() for place in named], cells, [number for number, _ in below]


def _checked(content: io.BytesIO, source: str) -> io.BytesIO:
    """The XML parts of a workbook, packed anew; a ComparisonsError where they, or their cells, are too large."""
    checked, strings, size = io.BytesIO(), list[int](), 0
    with zipfile.ZipFile(content) as archive, zipfile.ZipFile(checked, "w") as copy:
        names = [name for name in archive.namelist() if name.lower().endswith((".xml", ".rels"))]
        for name in sorted(names, key=lambda name: "sharedstrings" not in name.lower()):  # which others refer to
            part = bounded(archive.open(name), source).getvalue()
            check_size(size := size + max(len(part), VALUE * part.count(b"<")), source)
            check_size(size := size + _extent(part, strings), source)
            copy.writestr(name, part)
    checked.seek(0)
    return checked


def _extent(part: bytes, strings: list[int]) -> int:
    """The bytes that the cells of a sheet take once read; the lengths of shared `strings` are added to the list.

    The Rust reader, which ends the process where memory is short, makes room for every cell up to the last row and the
    last column that have a value, and copies a shared string into every cell that refers to it.
    """
    row = column = bottom = right = size = 0
    is_shared = False

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal row, column, bottom, right, is_shared
        kind, place = name.rpartition(":")[2], attributes.get("r", "")
        if kind == "c":
            letters = place.rstrip("0123456789")
            row, column = int(place[len(letters) :] or row), _number(letters) or column + 1
            is_shared = attributes.get("t") == "s"
        elif kind in ("v", "is"):
            bottom, right = max(bottom, row), max(right, column)
        elif kind == "row":
            row, column = int(place or row + 1), 0
        elif kind == "si":
            strings.append(0)

    def text(data: str) -> None:
        nonlocal size
        if is_shared and data.isdecimal():
            size += strings[int(data)]
        elif strings and not row:
            strings[-1] += len(data)

    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler, parser.CharacterDataHandler = start, text
    parser.Parse(part, True)
    return VALUE * bottom * right + size


@lru_cache(maxsize=20_000)
def _number(letters: str) -> int:
    """The number of a column.

    >>> _number("A"), _number("XFD")
    (1, 16384)
    """
    return reduce(lambda number, letter: 26 * number + ord(letter) - 64, letters.upper(), 0)


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


def workbook(
    columns: Mapping[str, Sequence[Any]], wide: Collection[str], answer: str | None = None, words: Sequence[str] = ()
) -> bytes:
    """An .xlsx file of a table, numbers as numbers; `wide` columns are 60 characters wide, others fit their cells.

    All else is text: no cell is a formula or a link. A text longer than `CELL` is cut, and ends with `CUT`.
    The cells of the column `answer` are empty and offer `words` to choose.
    """
    if importlib.util.find_spec("xlsxwriter") is None:
        raise ComparisonsError(f".xlsx needs xlsxwriter: {INSTALL}; or name a file that ends in .csv")
    import xlsxwriter

    content = io.BytesIO()
    as_text = {"strings_to_formulas": False, "strings_to_urls": False, "strings_to_numbers": False}
    with xlsxwriter.Workbook(content, {"in_memory": True, **as_text}) as book:
        sheet = book.add_worksheet()
        look = {"valign": "top", "text_wrap": True}
        header, text = book.add_format({"bold": True, "bottom": 1}), book.add_format(look)
        number, share = (book.add_format({"valign": "top", "num_format": form}) for form in ("0.0", "0%"))
        marked = book.add_format({**look, "bg_color": "#FFF7D6", "border": 1, "border_color": "#BFBFBF"})
        for place, (name, cells) in enumerate(columns.items()):
            longest = max(len(str(cell)) for cell in (name, *cells) if not isinstance(cell, float))
            sheet.set_column(place, place, 60 if name in wide else min(max(longest + 2, 10), 40))
            sheet.write_string(0, place, name, header)
            has_numbers = any(isinstance(cell, float) for cell in cells)
            form = text if not has_numbers else share if name.startswith("p") else number
            if name == answer:
                form = marked
                choice = {"validate": "list", "source": list(words), "error_title": "Which text is better?"}
                choice |= {"error_message": f"Choose {listed(words)}, or leave the cell empty."}
                sheet.data_validation(1, place, len(cells), place, choice)
            sheet.write_column(1, place, map(_fitted, cells), form)
        sheet.freeze_panes(1, 0)
        sheet.repeat_rows(0)
        sheet.fit_to_pages(1, 0)
    return content.getvalue()


def _fitted(cell: Any) -> Any:
    """A value as a cell: text cut to `CELL` UTF-16 units, and an empty cell for a missing number."""
    if isinstance(cell, int | float):
        return None if cell != cell else cell
    units = str(cell).encode("utf-16-le", "surrogatepass")
    if len(units) <= 2 * CELL:
        return str(cell)
    return units[: 2 * (CELL - len(CUT))].decode("utf-16-le", "ignore") + CUT


PART = "word/document.xml"
# Raised by zipfile for what is no archive, is cut or changed, encrypted, or lacks a part.
NOT_WHOLE = (zipfile.BadZipFile, zlib.error, KeyError, NotImplementedError, RuntimeError, EOFError)
WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
# Elements to skip: paragraph properties with tab stops, and second copies for old programs.
HIDDEN = {f"{WORD} pPr", "http://schemas.openxmlformats.org/markup-compatibility/2006 Fallback"}
BREAKS = {f"{WORD} tab": "\t", f"{WORD} br": "\n", f"{WORD} cr": "\n", f"{WORD} noBreakHyphen": "-"}


def docx_text(path: Path) -> str:
    """The paragraphs of a .docx file, one per line; a ComparisonsError where it is not one, or too large."""
    try:
        with zipfile.ZipFile(unpacked(path)) as archive, archive.open(PART) as part:
            content = bounded(part, str(path)).getvalue()
        check_size(VALUE * content.count(b"<"), str(path))
        return _paragraphs(content)
    except ComparisonsError:
        raise
    except NOT_WHOLE as error:
        raise ComparisonsError(f"{path} is not a whole .docx file ({error}); save it again, or as .txt") from error
    except (expat.ExpatError, ValueError) as error:
        raise ComparisonsError(f"{path} has text that cannot be read ({error}); save it as .txt") from error


def _paragraphs(content: bytes) -> str:
    """The text of word/document.xml; a ValueError where it has a document type declaration.

    >>> xml = f'<w:p xmlns:w="{WORD}"><w:r><w:t>One</w:t><w:tab/><w:t>two</w:t></w:r></w:p>'
    >>> _paragraphs(xml.encode())
    'One\\ttwo'
    """
    pieces: list[str] = []
    open_names: list[str] = []

    def start(name: str, _: object) -> None:
        open_names.append(name)
        if name in BREAKS and HIDDEN.isdisjoint(open_names):
            pieces.append(BREAKS[name])

    def end(name: str) -> None:
        open_names.pop()
        if name == f"{WORD} p" and HIDDEN.isdisjoint(open_names):
            pieces.append("\n")

    def text(data: str) -> None:
        if open_names[-1] == f"{WORD} t" and HIDDEN.isdisjoint(open_names):
            pieces.append(data)

    def refuse(*_: object) -> None:
        raise ValueError("it declares a document type")

    parser = expat.ParserCreate(namespace_separator=" ")
    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = start, end, text
    parser.StartDoctypeDeclHandler = refuse
    parser.Parse(content, True)
    return "".join(pieces).strip()


def pdf_text(path: Path) -> str:
    """The text layer of a .pdf file, page after page; a ComparisonsError where it has none, or pypdf is missing."""
    if importlib.util.find_spec("pypdf") is None:
        raise ComparisonsError(f"{path}: .pdf needs pypdf: {pip_install('documents')}; or save the text as .txt")
    pypdf, content = importlib.import_module("pypdf"), unpacked(path)
    try:
        found = "\n".join(page.extract_text() for page in pypdf.PdfReader(content).pages).strip()
    except (pypdf.errors.PyPdfError, pypdf.errors.DependencyError, ValueError, KeyError) as error:
        raise ComparisonsError(f"{path} cannot be read ({error}); save its text as .txt") from error
    if not found:
        raise ComparisonsError(f"{path} has no text layer; recognise its text (OCR), and save it as .txt")
    return found
