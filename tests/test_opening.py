"""Files that unpack to gigabytes, never end or wait for ever: each is one sentence, with little memory and time."""

import csv
import gzip
import os
import subprocess
import sys
import zipfile

import pyarrow
import pytest
from pyarrow import parquet

from comparo import ComparisonsError
from inside import read_columns
from workbooks import write_workbook

GIB, VARIABLE = 1 << 30, "COMPARO_MOST_MB"
READ = """
import resource, sys
from pathlib import Path
from comparo import ComparisonsError, Items
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[2]),) * 2)
try:
    Items.of("-" if sys.argv[1] == "/dev/stdin" else sys.argv[1])
except ComparisonsError as error:
    print(error)
status = Path("/proc/self/status")  # the other count begins with the memory of the process that started this one
if status.is_file():
    print(status.read_text().partition("VmHWM:")[2].split()[0])
else:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def refused(path, stdin=subprocess.DEVNULL, most=4 * GIB, seconds=60):
    """What a process of its own, which may have `most` bytes of memory, says of a file, and how much it took."""
    command = [sys.executable, "-c", READ, str(path), str(most)]
    done = subprocess.run(command, stdin=stdin, capture_output=True, text=True, timeout=seconds)
    assert done.returncode == 0, done.stderr[-2000:]
    *said, kilobytes = done.stdout.splitlines()
    return "\n".join(said), int(kilobytes) << 10


def changed(path, part, *changes):
    """Change the text of one part of an archive, in place."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    for old, new in changes:
        assert old in parts[part]
        parts[part] = parts[part].replace(old, new)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return path


def sheet(path, rows):
    """A workbook whose only sheet has these rows, as XML."""
    write_workbook(path, S=[["id"]])
    return changed(path, "xl/worksheets/sheet1.xml", (b"</sheetData>", rows + b"</sheetData>"))


def shared_string(path):
    """A workbook with one long string in many cells."""
    sheet(path, b"".join(b'<row><c t="s"><v>0</v></c></row>' for _ in range(20_000)))
    link = b'<Relationship Id="r9" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/'
    link += b'sharedStrings" Target="sharedStrings.xml"/></Relationships>'
    changed(path, "xl/_rels/workbook.xml.rels", (b"</Relationships>", link))
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/sharedStrings.xml", f"<sst><si><t>{'a' * 1_000_000}</t></si></sst>")


def many_rows(path):
    table = pyarrow.table({name: ["a"] * 1_000_000 for name in ("id", "text")})
    with parquet.ParquetWriter(path, table.schema) as file:
        for _ in range(10):
            file.write_table(table)


def long_text(path):
    texts = pyarrow.DictionaryArray.from_arrays([0] * 20_000, ["a" * 1_000_000])
    parquet.write_table(pyarrow.table({"text": texts}), path)


def own_keys(path):
    path.write_text("".join(f'{{"{number}": 1}}\n' for number in range(100_000)))


def repeated(line, compressed):
    """A gzip file of three gigabytes, in few bytes."""
    block = gzip.compress(line * ((10 << 20) // len(line)))
    return lambda path: path.write_bytes(block * (300 if compressed else 1))


HOSTILE = {
    "last cell": ("a.xlsx", lambda path: sheet(path, b'<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>')),
    "cells without places": ("a.xlsx", lambda path: sheet(path, (b"<row>" + b"<c/>" * 10 + b"</row>") * 4_000_000)),
    "a wide row and many rows": (
        "a.xlsx",
        lambda path: sheet(
            path, b"<row>" + b"<c><v>1</v></c>" * 16_384 + b"</row>" + b"<row><c><v>1</v></c></row>" * 9999
        ),
    ),
    "shared string": ("a.xlsx", shared_string),
    "many rows": ("a.parquet", many_rows),
    "a text in many rows": ("a.parquet", long_text),
    "JSON lines": ("a.jsonl.gz", repeated(b'{"text": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}\n', True)),
    "empty objects": (
        "a.json.gz",
        lambda path: path.write_bytes(gzip.compress(b"[" + b"{}," * 20_000_000 + b"{}]", 1)),
    ),
    "a key of its own in each row": ("a.jsonl", own_keys),
    "CSV": ("a.csv.gz", repeated(b"id,text\n", True)),
    "zeros": ("a.csv", lambda path: path.symlink_to("/dev/zero")),
    "a pipe": ("a.txt", os.mkfifo),
    "a pipe of rows": ("a.jsonl", os.mkfifo),
    "a large file": ("a.txt", lambda path: path.touch() or os.truncate(path, 3 * GIB)),
}


SHORT = ("last cell", "many rows", "JSON lines", "CSV", "a pipe")


@pytest.mark.parametrize(
    ("name", "write"),
    [pytest.param(*case, id=name, marks=[pytest.mark.long] * (name not in SHORT)) for name, case in HOSTILE.items()],
)
def test_a_file_that_would_fill_the_memory_is_refused_by_its_name(tmp_path, name, write):
    write(tmp_path / name)
    said, taken = refused(tmp_path / name)
    assert said.startswith(str(tmp_path / name))
    assert VARIABLE in said or "a pipe" in said
    assert "not" not in said.partition(";")[0].removeprefix(str(tmp_path))  # neither a cut file nor the wrong format
    assert taken < GIB


def test_standard_input_that_does_not_end_is_refused():
    with open("/dev/zero", "rb") as zeros:
        said, taken = refused("/dev/stdin", zeros)
    assert said.startswith("standard input")
    assert VARIABLE in said
    assert taken < GIB


def test_the_limit_can_be_raised_and_lowered(tmp_path, monkeypatch):
    path = tmp_path / "a.csv"
    path.write_text("first,second,p\n" + "a,b,1\n" * 200_000)
    monkeypatch.setenv(VARIABLE, "1")
    with pytest.raises(ComparisonsError, match=rf"a\.csv .*\b1 MB.*{VARIABLE}"):
        read_columns(path)
    monkeypatch.setenv(VARIABLE, "64")
    assert len(read_columns(path).columns["p"]) == 200_000
    monkeypatch.setenv(VARIABLE, "much")
    with pytest.raises(ComparisonsError, match=f"{VARIABLE}='much'"):
        read_columns(path)


def test_cells_that_only_have_a_look_do_not_count(tmp_path):
    path = sheet(
        tmp_path / "a.xlsx", b'<row r="1048576"><c r="XFD1048576" s="0"/></row><row r="2"><c r="A2"><v>7</v></c></row>'
    )
    assert read_columns(path).columns == {"id": ["7"]}


@pytest.mark.parametrize("library", ["pyarrow", "polars"])
def test_parquet_files_of_few_bytes_and_many_values_are_refused_by_both_libraries(tmp_path, monkeypatch, library):
    monkeypatch.setattr("comparo.data.formats.installed", lambda *_: library)
    monkeypatch.setenv(VARIABLE, "8")
    for rows, is_read in ((100_000, True), (300_000, False)):
        path = tmp_path / f"{rows}.parquet"
        parquet.write_table(pyarrow.table({"id": ["a"] * rows, "text": [["b"]] * rows}), path)
        assert path.stat().st_size < 100_000
        if is_read:
            assert len(read_columns(path).columns["id"]) == rows
        else:
            with pytest.raises(ComparisonsError, match=VARIABLE):
                read_columns(path)


def test_a_cell_of_a_million_characters_is_read_and_the_limit_of_csv_stays(tmp_path):
    before = csv.field_size_limit()
    path = tmp_path / "a.csv"
    path.write_text("id,text\nana," + "a" * 1_000_000 + "\n")
    assert len(read_columns(path).columns["text"][0]) == 1_000_000
    assert csv.field_size_limit() == before


@pytest.mark.parametrize(
    ("name", "content", "place"),
    [
        ("a.jsonl", '{"p": 1}\n{"p": 0, "q": 1, "p": 1}\n', "line 2: .*'p'"),
        ("a.json", '[{"id": "ana", "scores": {"q": 1,\n"q": 2}}]', "'q'"),
        ("a.json", '{"id": "ana",\n"id": "bo"}', "'id'"),
    ],
)
def test_a_key_that_an_object_has_twice_is_named(tmp_path, name, content, place):
    (tmp_path / name).write_text(content)
    with pytest.raises(ComparisonsError, match=rf"{name}.* {place} twice"):
        read_columns(tmp_path / name)


@pytest.mark.parametrize(("library", "reason"), [("pyarrow", r"Multiple matches .*\(p\)"), ("polars", "name 'p'")])
def test_a_doubled_column_of_parquet_is_no_damaged_file(tmp_path, monkeypatch, library, reason):
    monkeypatch.setattr("comparo.data.formats.installed", lambda *_: library)
    table = pyarrow.Table.from_arrays([pyarrow.array([1]), pyarrow.array([0])], names=["p", "p"])
    parquet.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(ComparisonsError, match=rf"a\.parquet .*{reason}"):
        read_columns(tmp_path / "a.parquet")
