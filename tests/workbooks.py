"""An .xlsx file from rows of cells, as plain as the format allows, and sheets that people fill in."""

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape
from zipfile import ZipFile

from python_calamine import load_workbook

MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
RELATIONS = "http://schemas.openxmlformats.org/package/2006/relationships"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
TYPES = "http://schemas.openxmlformats.org/package/2006/content-types"
KIND = "application/vnd.openxmlformats-officedocument.spreadsheetml"


def write_workbook(path: Path, **sheets: list[list[Any]]) -> Path:
    """Write sheets by name; None is an empty cell."""
    numbers = range(1, len(sheets) + 1)
    kinds = "".join(
        f'<Override PartName="/xl/worksheets/sheet{k}.xml" ContentType="{KIND}.worksheet+xml"/>' for k in numbers
    )
    links = "".join(
        f'<Relationship Id="r{k}" Type="{OFFICE}/worksheet" Target="worksheets/sheet{k}.xml"/>' for k in numbers
    )
    names = "".join(f'<sheet name="{name}" sheetId="{k}" r:id="r{k}"/>' for k, name in enumerate(sheets, 1))
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{TYPES}"><Default Extension="rels" ContentType="application/vnd.'
        'openxmlformats-package.relationships+xml"/><Override PartName="/xl/workbook.xml" '
        f'ContentType="{KIND}.sheet.main+xml"/>{kinds}</Types>',
        "_rels/.rels": f'<Relationships xmlns="{RELATIONS}"><Relationship Id="r1" Type="{OFFICE}/officeDocument" '
        'Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{MAIN}" xmlns:r="{OFFICE}"><sheets>{names}</sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{RELATIONS}">{links}</Relationships>',
    }
    for k, rows in enumerate(sheets.values(), 1):
        lines = "".join(f'<row r="{number}">{_cells(row, number)}</row>' for number, row in enumerate(rows, 1))
        parts[f"xl/worksheets/sheet{k}.xml"] = f'<worksheet xmlns="{MAIN}"><sheetData>{lines}</sheetData></worksheet>'
    with ZipFile(path, "w") as file:
        for name, text in parts.items():
            file.writestr(name, f'<?xml version="1.0" encoding="UTF-8"?>{text}')
    return path


def _cells(row: list[Any], number: int) -> str:
    cells = ""
    for place, value in enumerate(row):
        where = f'r="{chr(65 + place)}{number}"'
        if isinstance(value, str):
            cells += f'<c {where} t="inlineStr"><is><t xml:space="preserve">{escape(value)}</t></is></c>'
        elif value is not None:
            cells += f"<c {where}><v>{value}</v></c>"
    return cells


def cells(path: Path) -> list[dict[str, Any]]:
    """The rows of a sheet, by the names of its columns."""
    if path.suffix == ".csv":
        rows = list(csv.reader(io.StringIO(path.read_text(encoding="utf-8-sig"), newline="")))
    else:
        rows = load_workbook(path).get_sheet_by_index(0).to_python()
    return [dict(zip(rows[0], row, strict=True)) for row in rows[1:]]


def fill(path: Path, answer: Callable[[dict[str, Any]], str]) -> list[dict[str, Any]]:
    """Write the answer to each row into a sheet, and the file anew."""
    rows = [row | {"winner": answer(row)} for row in cells(path)]
    table = [list(rows[0]), *(list(row.values()) for row in rows)]
    if path.suffix == ".xlsx":
        write_workbook(path, pairs=table)
    else:
        with path.open("w", encoding="cp1252" if path.stem == "old" else "utf-8", newline="") as file:
            csv.writer(file, delimiter=";").writerows(table)
    return rows
