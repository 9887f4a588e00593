"""Files that are whole come back as they were written; files that are not are refused by name."""

import csv
import gzip
import importlib.util
import io
import os
import re
from pathlib import Path

import narwhals as nw
import numpy as np
import pandas
import polars
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

from comparo import ComparisonsError
from comparo.data.columns import Coded, Table, factorise
from inside import CHUNK, csv_text, frame_from_columns, guarded, read_columns, unguarded, write_columns
from workbooks import write_workbook

ENDINGS = [f".{kind}{gz}" for kind in ("csv", "jsonl", "parquet", "CSV", "Parquet") for gz in ("", ".gz", ".GZ")]
COLUMNS = {
    "first": ["ana", "bo, the 2nd", 'c"y\r\nd\re'],
    "p": np.array([0.1, 1 / 3, 1.0]),
    "rank": np.array([3, 1, 2]),
}


def plain(table):
    return {name: np.asarray(column, dtype=object).tolist() for name, column in table.columns.items()}


def without_libraries(monkeypatch, *missing):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in missing else find(name))


@pytest.mark.parametrize("ending", ENDINGS)
def test_what_is_written_is_read(tmp_path, ending):
    write_columns(tmp_path / f"pairs{ending}", COLUMNS)
    expected = {name: list(column) for name, column in COLUMNS.items()}
    if "csv" in ending.lower():
        expected = {name: [str(value) for value in column] for name, column in expected.items()}
    assert plain(read_columns(tmp_path / f"pairs{ending}")) == expected
    assert (tmp_path / f"pairs{ending}").read_bytes()[:2] == b"\x1f\x8b" or not ending.lower().endswith(".gz")


@pytest.mark.long
@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])
@pytest.mark.parametrize("distinct", [700, 100_600])
def test_many_rows(tmp_path, ending, distinct):
    labels = [f"item {k % distinct}" for k in range(distinct + 3 * CHUNK + 5)]
    write_columns(tmp_path / f"pairs{ending}", {"first": labels})
    assert plain(read_columns(tmp_path / f"pairs{ending}")) == {"first": labels}


@pytest.mark.parametrize("ending", [".csv.gz", ".jsonl.gz", ".parquet.gz"])
def test_the_same_columns_give_the_same_bytes(tmp_path, ending):
    for name in ("a", "b"):
        write_columns(tmp_path / f"{name}{ending}", COLUMNS)
    written = (tmp_path / f"a{ending}").read_bytes()
    assert written == (tmp_path / f"b{ending}").read_bytes()
    assert written[4:8] == bytes(4), "the time of writing"


@pytest.mark.parametrize("library", ["pyarrow", "polars"])
def test_parquet_through_either_library(tmp_path, monkeypatch, library):
    write_columns(tmp_path / "a.parquet", COLUMNS)
    without_libraries(monkeypatch, *({"pyarrow", "polars"} - {library}))
    write_columns(tmp_path / "b.parquet", COLUMNS)
    assert plain(read_columns(tmp_path / "a.parquet")) == plain(read_columns(tmp_path / "b.parquet"))


def test_parquet_without_a_library(tmp_path, monkeypatch):
    write_columns(tmp_path / "pairs.parquet", COLUMNS)
    without_libraries(monkeypatch, "pyarrow", "polars", "pandas")
    for action in (lambda: read_columns(tmp_path / "pairs.parquet"), lambda: write_columns(tmp_path / "b.parquet", {})):
        with pytest.raises(ComparisonsError, match=r"\[data\]"):
            action()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pairs.parquet"]


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])
def test_only_the_wanted_columns(tmp_path, ending):
    write_columns(tmp_path / f"pairs{ending}", COLUMNS)
    table = read_columns(tmp_path / f"pairs{ending}", wanted={"p", "weight"})
    assert list(table.columns) == ["p"]
    assert table.others == ("first", "rank")


@pytest.mark.parametrize("header", ["first{}p", '"first"{}"p"', "\ufefffirst{}p", " first {}p "])
@pytest.mark.parametrize("delimiter", [",", "\t", ";"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_csv_dialects(tmp_path, header, delimiter, end):
    text = end.join([header.format(delimiter), delimiter.join(["ana", "0.5"]), "", delimiter.join(["bo", "1"]), ""])
    (tmp_path / "pairs.csv").write_bytes(text.encode())
    table = read_columns(tmp_path / "pairs.csv")
    assert table.columns == {"first": ["ana", "bo"], "p": ["0.5", "1"]}
    assert table.place(1, "p").endswith("pairs.csv, row 2 (line 4), column 'p'")


def test_spaces_after_the_commas_belong_to_the_labels_only_if_the_header_has_none(tmp_path):
    (tmp_path / "spaced.csv").write_text("first, second\nana, bo\n")
    (tmp_path / "dense.csv").write_text("first,second\nana, bo\n")
    assert read_columns(tmp_path / "spaced.csv").columns["second"] == ["bo"]
    assert read_columns(tmp_path / "dense.csv").columns["second"] == [" bo"]


def test_a_line_is_where_its_row_ends(tmp_path):
    (tmp_path / "pairs.csv").write_text('first,p\n"an\na",0.5\nbo,1\n')
    (tmp_path / "pairs.jsonl").write_text('\ufeff{"p": 1}\n\n{"p": 2}\n', encoding="utf-8")
    for name, line in (("pairs.csv", 4), ("pairs.jsonl", 3)):
        assert read_columns(tmp_path / name).place(1, "p").endswith(f"{name}, row 2 (line {line}), column 'p'")
    assert read_columns(tmp_path / "pairs.jsonl").place(0).endswith("pairs.jsonl, row 1")


def test_a_key_that_some_lines_lack_is_none_there(tmp_path):
    lines = ['{"a": 1}'] * CHUNK + ['{"b": 2, "a": null}']
    (tmp_path / "pairs.jsonl").write_text("\n".join(lines))
    columns = read_columns(tmp_path / "pairs.jsonl").columns
    assert columns == {"a": [1] * CHUNK + [None], "b": [None] * CHUNK + [2]}


BROKEN = {
    "empty csv": ("a.csv", b"", "is empty"),
    "empty jsonl": ("a.jsonl", b"", "is empty"),
    "blank jsonl": ("a.jsonl", b"\n  \n", "is empty"),
    "empty parquet": ("a.parquet", b"", "is empty"),
    "nothing in the list": ("a.json", b"[]", "is empty"),
    "empty gz": ("a.csv.gz", b"", "is empty"),
    "nothing in the gz": ("a.csv.gz", gzip.compress(b""), "is empty"),
    "ending": ("a.doc", b"x", r"\.csv, \.jsonl, \.parquet, \.tsv, \.ndjson, \.json, \.xlsx, .* \.gz"),
    "old spreadsheet": ("a.xls", b"x", r"\.csv"),
    "ending behind gz": ("a.txt.gz", b"x", "the ending"),
    "no ending": ("a", b"x", "the ending"),
    "not xlsx": ("a.xlsx", b"x", "not a whole"),
    "not gzip": ("a.csv.gz", b"first,second,p\n", "not a whole"),
    "cut gzip": ("a.csv.gz", gzip.compress(os.urandom(9999).hex().encode())[:-99], "not a whole"),
    "cut parquet.gz": ("a.parquet.gz", gzip.compress(os.urandom(9999))[:-99], "not a whole"),
    "damaged gzip": ("a.csv.gz", gzip.compress(b"x")[:10] + b"\xff" * 20, "not a whole"),
    "not parquet": ("a.parquet", b"first,second,p\n", "Parquet"),
    "cut parquet": ("a.parquet", b"PAR1" + b"\0" * 50, "Parquet"),
    "cut json": ("a.json", b'[{"p": 1},', "not JSON"),
    "json of numbers": ("a.json", b'[{"p": 1}, 7]', ", row 2: 7 "),
    "half a json object": ("a.json", b'{\n"p": 1\n', "line 1: .*JSON"),
    "not json": ("a.jsonl", b'{"p": 1}\n{"p": \n', "line 2: .*JSON"),
    "not an object": ("a.jsonl", b'{"p": 1}\n\n[1, 2]\n', "line 3: a list"),
    "deep json": ("a.jsonl", b"[" * 100_000, "line 1: .*JSON"),
    "long number": ("a.jsonl", b'{"p": ' + b"9" * 5000 + b"}", "line 1: .*JSON"),
    "json not utf-8 in a list": ("a.json", b'[{"p": "\xe9"}]', "UTF-8"),
    "json not utf-8": ("a.jsonl", b'{"p": "\xe9"}', "UTF-8"),
    "csv not utf-8": ("a.csv", b"first\n\xe9\n", "UTF-8"),
    "utf-16": ("a.csv", "first\nx\n".encode("utf-16"), "UTF-8"),
    "nul": ("a.csv", b"first,p\na,1\nb\0,1\n", "line 3: .*NUL"),
    "nul in header": ("a.csv", b"f\0irst,p\na,1\n", "line 1: .*NUL"),
    "more fields": ("a.csv", b"first,p\na,1\nb,1,2\n", "line 3: 3 .* 2"),
    "fewer fields": ("a.csv", b"first,p\n\na\n", "line 3: 1 .* 2"),
    "open quote": ("a.csv", b'first,p\na,1\n"b,1\n', "line 3: .*not CSV"),
    "text behind a quote": ("a.csv", b'first,p\n"a"b,1\n', "line 2: .*not CSV"),
    "blank header": ("a.csv", b"\nfirst,p\n", "line 1: "),
    "same name twice": ("a.csv", b"p,first,p\n1,a,2\n", "line 1: .*'p'"),
}


@pytest.mark.parametrize(("name", "content", "place"), BROKEN.values(), ids=BROKEN)
def test_broken_files(tmp_path, name, content, place):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ComparisonsError, match=f"{re.escape(str(tmp_path / name))}.*{place}"):
        read_columns(tmp_path / name)


def test_no_file_and_a_folder(tmp_path):
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(ComparisonsError, match=r"nowhere\.csv .*exist"):
        read_columns(tmp_path / "nowhere.csv")
    for action in (read_columns, lambda path: write_columns(path, COLUMNS)):
        with pytest.raises(ComparisonsError, match=r"folder\.csv .*folder"):
            action(tmp_path / "folder.csv")
    with pytest.raises(ComparisonsError, match="missing does not"):
        write_columns(tmp_path / "missing" / "a.csv", COLUMNS)


def test_a_file_that_may_not_be_read(tmp_path, monkeypatch):
    (tmp_path / "a.csv").write_text("p\n1\n")

    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(ComparisonsError, match=r"a\.csv .*read"):
        read_columns(tmp_path / "a.csv")
    with pytest.raises(ComparisonsError, match=r"a\.csv .*written"):
        write_columns(tmp_path / "a.csv", COLUMNS)


@pytest.mark.parametrize(
    ("name", "labels", "other"),
    [
        ("a.csv", ["a\0b"], ".jsonl"),
        ("a.csv", ["\ud800"], ""),
        ("a.jsonl.gz", ["\ud800"], ""),
        ("a.parquet", ["a", 1], ".jsonl"),
    ],
)
def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, name, labels, other):
    (tmp_path / name).write_bytes(b"old")
    with pytest.raises(ComparisonsError) as raised:
        write_columns(tmp_path / name, {"first": ["fine"] * CHUNK + labels})
    assert name in str(raised.value)
    assert other in str(raised.value)
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [(name, b"old")]
    write_columns(tmp_path / name, {"first": ["bo"]})
    assert plain(read_columns(tmp_path / name)) == {"first": ["bo"]}
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_write_goes_through_a_temporary_file_in_the_same_folder(tmp_path, monkeypatch):
    moves = []
    monkeypatch.setattr(os, "replace", lambda source, target: moves.append((source, target)))
    write_columns(tmp_path / "a.csv", COLUMNS)
    ((source, target),) = moves
    assert (target, source.parent) == (tmp_path / "a.csv", tmp_path)
    assert source != target
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("backend", "kind"), [("pandas", pandas.DataFrame), ("polars", polars.DataFrame), ("pyarrow", pyarrow.Table)]
)
def test_frames(monkeypatch, backend, kind):
    frame = frame_from_columns(COLUMNS, backend)
    assert isinstance(frame, kind)
    assert nw.from_native(frame)["first"].to_list() == COLUMNS["first"]
    without_libraries(monkeypatch, *({"pandas", "polars", "pyarrow"} - {backend}))
    assert isinstance(frame_from_columns(COLUMNS), kind)
    without_libraries(monkeypatch, backend)
    with pytest.raises(ImportError, match=r"\[data\]"):
        frame_from_columns(COLUMNS, backend)


def test_frames_prefer_pandas_and_name_what_they_lack(monkeypatch):
    assert isinstance(frame_from_columns(COLUMNS), pandas.DataFrame)
    with pytest.raises(ValueError, match=r"'dask'.*pandas .*polars "):
        frame_from_columns(COLUMNS, "dask")
    without_libraries(monkeypatch, "pandas", "polars", "pyarrow")
    with pytest.raises(ImportError, match=r"pandas .*\[data\]"):
        frame_from_columns(COLUMNS)


def test_a_json_list_and_json_lines_under_one_ending(tmp_path):
    (tmp_path / "list.json").write_text('\ufeff [\n{"a": 1, "b": "x"},\n{"a": 2}]', encoding="utf-8")
    (tmp_path / "lines.json").write_text('{"a": 1, "b": "x"}\n{"a": 2}\n')
    for name in ("list.json", "lines.json"):
        assert plain(read_columns(tmp_path / name)) == {"a": [1, 2], "b": ["x", None]}
    with pytest.raises(ComparisonsError, match=r"new\.json.*\.csv"):
        write_columns(tmp_path / "new.json", COLUMNS)


def test_a_sheet_reads_as_the_csv_that_it_would_be_saved_as(tmp_path, caplog):
    rows = [[None], ["first", " p ", None, "note"], ["ana & co", 0.7, "unnamed", None], [None, "  "], [7, 1, None, "x"]]
    path = write_workbook(tmp_path / "pairs.xlsx", Pairs=rows)
    table = read_columns(path, wanted=["first", "p"])
    assert table.columns == {"first": ["ana & co", "7"], "p": ["0.7", "1"]}
    assert table.others == ("note",)
    assert table.place(1, "p").endswith("pairs.xlsx, row 2 (line 5), column 'p'")
    assert not caplog.records
    write_workbook(path, Empty=[[None]], Pairs=rows, Others=rows)
    assert read_columns(path).columns["first"] == ["ana & co", "7"]
    [said] = caplog.messages
    assert re.fullmatch(rf"{re.escape(str(path))}: .*'Pairs'.*'Others'", said)
    with pytest.raises(ComparisonsError, match=r"pairs\.xlsx is empty"):
        read_columns(write_workbook(path, Empty=[[None]]))


def test_a_sheet_without_its_library(tmp_path, monkeypatch):
    path = write_workbook(tmp_path / "pairs.xlsx", Pairs=[["first"], ["ana"]])
    without_libraries(monkeypatch, "python_calamine")
    with pytest.raises(ComparisonsError, match=r"python-calamine.*\[data\].*\.csv"):
        read_columns(path)


def test_no_cell_of_csv_is_a_formula_and_numbers_stay_numbers(tmp_path):
    labels = ["=1+1", "+x", "-x", "@x", "\tx", "\rx", "\nx", "'=x", "＠x", "-5", "+1.5e3", "-.5", "x=1", "'x", "-", ""]
    text = csv_text({"item": labels, "score": np.full(len(labels), -1.5)})
    rows = list(csv.reader(io.StringIO(text, newline="")))[1:]
    assert {row[1] for row in rows} == {"-1.5"}
    cells = [row[0] for row in rows]
    assert [cell for cell, label in zip(cells, labels, strict=True) if cell == label] == [*labels[9:14], ""]
    assert [cell[:1] for cell in cells[:9]] == ["'"] * 9
    assert cells[14] == "'-"
    (tmp_path / "a.csv").write_text(text, newline="")
    assert read_columns(tmp_path / "a.csv", labels=["item"]).columns["item"] == labels
    assert read_columns(tmp_path / "a.csv").columns["item"] == cells  # a file of the user's own is read as it is


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_what_is_guarded_comes_back(label):
    assert unguarded(guarded(label)) == label


def test_codes_in_any_order_have_labels_in_the_order_of_their_first_rows():
    first, second = Coded(["a", "b", "c"], np.array([1, 0, 2])), Coded(["a", "c"], np.array([1, 1, 0]))
    labels, codes = factorise(Table({"first": first, "second": second}), "first", "second")
    assert labels.tolist() == ["b", "c", "a"]
    assert [column.tolist() for column in codes] == [[0, 2, 1], [1, 1, 2]]
