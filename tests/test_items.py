"""The same items from every source, and one line about whatever is wrong with them."""

import gzip
import hashlib
import importlib.util
import io
import json
import math
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

import numpy as np
import pandas
import polars
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

from comparo import ComparisonsError, Items, Question
from inside import Store, read_items
from workbooks import write_workbook

DATA = Path(__file__).parents[2] / "shared" / "data"
LIMIT = "COMPARO_MOST_MB"

ROWS = [
    {"id": "ana", "text": "A story.", "context_id": "x", "context": "Write.", "scores": {"wit": 1, "style": 2.5}},
    {"id": "bo", "text": "Another.", "context_id": "x", "context": "Write.", "scores": {"wit": None}},
    {"id": "ana", "text": "שלום 👋", "context_id": "y", "context": None, "scores": None},
    {"id": "cy", "text": "Two\nlines, 'quoted' \"twice\"", "context_id": "y", "context": None, "scores": {"wit": -3}},
]
FLAT = {
    **{role: [row[role] for row in ROWS] for role in ("id", "text", "context_id", "context")},
    "score_wit": [1.0, None, None, -3.0],
    "score_style": [2.5, None, None, None],
}


def written(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def json_lines(rows, ensure_ascii=False):
    return "".join(json.dumps(row, ensure_ascii=ensure_ascii) + "\n" for row in rows)


def plain(items):
    """All that items hold, with None for a missing score."""
    return {
        "ids": items.ids.tolist(),
        "texts": items.texts,
        "contexts": items.contexts.tolist(),
        "context": items.context.tolist(),
        "context_texts": items.context_texts,
        "scores": {n: [None if math.isnan(v) else v for v in c.tolist()] for n, c in items.scores.items()},
    }


@pytest.fixture
def pipe(monkeypatch):
    """Put something into standard input."""

    def fill(content):
        content = content.encode() if isinstance(content, str) else content
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        return "-"

    return fill


def test_closed_standard_input_is_a_mistake(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)  # as Python has it after comparo rank - <&-
    with pytest.raises(ComparisonsError, match="standard input"):
        Items.of("-")


class DataSet:
    """What items use of a `datasets.Dataset`; the real one of datasets 5.2.0 was tried by hand."""

    def __init__(self, table):
        self.table, self.num_rows = table, table.num_rows

    def with_format(self, type):  # noqa: A002
        assert type == "arrow"
        return DataSet(self.table)

    def __getitem__(self, key):
        assert key == slice(None)
        return self.table


def csv_of(columns):
    return pandas.DataFrame(columns).to_csv(index=False)


def parquet_of(columns):
    return pandas.DataFrame(columns).to_parquet(index=False)


SOURCES = {
    "mappings": lambda _: ROWS,
    "tuple of mappings": lambda _: tuple(ROWS),
    "items": lambda _: Items.of(ROWS),
    "jsonl": lambda folder: written(folder, "items.jsonl", json_lines(ROWS)),
    "ndjson, path as text": lambda folder: str(written(folder, "items.ndjson", json_lines(ROWS))),
    "ascii jsonl": lambda folder: written(folder, "items.jsonl", json_lines(ROWS, ensure_ascii=True)),
    "jsonl with a BOM": lambda folder: written(folder, "items.jsonl", "\ufeff\n" + json_lines(ROWS)),
    "gzip": lambda folder: written(folder, "items.jsonl.gz", gzip.compress(json_lines(ROWS).encode())),
    "csv": lambda folder: written(folder, "items.csv", csv_of(FLAT)),
    "csv with a BOM": lambda folder: written(folder, "items.CSV", "\ufeff" + csv_of(FLAT)),
    "parquet": lambda folder: written(folder, "items.parquet", parquet_of(FLAT)),
    "parquet.gz": lambda folder: written(folder, "items.parquet.gz", gzip.compress(parquet_of(FLAT))),
    "csv.gz": lambda folder: written(folder, "items.csv.gz", gzip.compress(csv_of(FLAT).encode())),
    "pandas": lambda _: pandas.DataFrame(FLAT),
    "pandas, nullable": lambda _: pandas.DataFrame(FLAT).convert_dtypes(),
    "pandas, objects": lambda _: pandas.DataFrame(ROWS).astype(object),
    "records of pandas": lambda _: pandas.DataFrame(FLAT).to_dict("records"),
    "polars": lambda _: polars.DataFrame(FLAT),
    "polars, nested": lambda _: polars.DataFrame(ROWS, strict=False),
    "lazy polars": lambda _: polars.LazyFrame(FLAT),
    "pyarrow": lambda _: pyarrow.Table.from_pylist(ROWS),
    "data set": lambda _: DataSet(pyarrow.Table.from_pylist(ROWS)),
}


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_every_source_gives_the_same_items(tmp_path, source):
    items = Items.of(source(tmp_path))
    assert plain(items) == {
        "ids": ["ana", "bo", "ana", "cy"],
        "texts": tuple(row["text"] for row in ROWS),
        "contexts": ["x", "y"],
        "context": [0, 0, 1, 1],
        "context_texts": ("Write.", None),
        "scores": {"wit": [1.0, None, None, -3.0], "style": [2.5, None, None, None]},
    }
    assert items.digest() == Items.of(ROWS).digest()
    assert len(items) == 4


def test_texts_without_ids_are_numbered():
    items = Items.of(["A story.", "Another.", "A story."])
    assert items.ids.tolist() == [0, 1, 2]
    assert items.names == {None: [0, 1, 2]}
    assert items.context_texts == (None,)
    assert items.scores == {}
    assert Items.of([{"text": "A story."}, {"text": "Another."}]).names == {None: [0, 1]}
    assert Items.of(pandas.DataFrame({"text": ["A", "B"]}, index=[7, 8])).names == {None: [0, 1]}


def test_a_mapping_is_from_id_to_text():
    items = Items.of({"ana": "A story.", 7: "Another."})
    assert (items.ids.tolist(), items.texts) == (["ana", 7], ("A story.", "Another."))


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_text_file_has_an_item_a_line(tmp_path, end):
    content = end.join(["\ufeffOne story, \u2028 and more.", "", "  Another. ", ""])
    items = Items.of(written(tmp_path, "items.TXT", content))
    assert items.texts == ("One story, \u2028 and more.", "Another.")
    assert items.names == {None: list(items.texts)}


def test_a_folder_has_an_item_a_file(tmp_path):
    for name, content in {
        "b.txt": "\ufeffTwo\r\n lines.\r\n",
        "a.TXT": " A story.",
        "d.md": "# A title\n",
        "README.md": b"\xff",
        ".hidden.txt": b"\xff",
        "archive.txt.gz": b"\xff",
    }.items():
        written(tmp_path, name, content)
    (tmp_path / "inner.txt").mkdir()
    written(tmp_path / "inner.txt", "c.txt", "Not read.")
    for path in (tmp_path, str(tmp_path), f"{tmp_path}/"):
        items = Items.of(path)
        assert (items.ids.tolist(), items.texts) == (["a", "b", "d"], (" A story.", "Two\n lines.", "# A title"))
    assert read_items(tmp_path).names == {None: ["a", "b", "d"]}


@pytest.mark.parametrize(
    ("content", "ids", "texts"),
    [
        ('\n{"text": "A"}\n\n{"text": "B"}\n', [0, 1], ("A", "B")),
        ('\ufeff{"id": "x", "text": "A"}\r\n{"id": "y", "text": "B"}', ["x", "y"], ("A", "B")),
        ("id,text\nx,A\ny,B\n", ["x", "y"], ("A", "B")),
        ('"text"\tage\r\nA\t1\r\n"B\tb"\t2\r\n', [0, 1], ("A", "B\tb")),
        ("text\nA\nB\n", [0, 1], ("A", "B")),
        ("Once.\n\nTwice.\n", ["Once.", "Twice."], ("Once.", "Twice.")),
        ("Once, a cat.\nTwice.\n", ["Once, a cat.", "Twice."], ("Once, a cat.", "Twice.")),
        ('"Once, he said.\nTwice.\n', ['"Once, he said.', "Twice."], ('"Once, he said.', "Twice.")),
    ],
)
def test_standard_input(pipe, content, ids, texts):
    items = Items.of(pipe(content))
    assert (items.ids.tolist(), items.texts) == (ids, texts)


def test_standard_input_with_named_columns_is_csv(pipe):
    assert Items.of(pipe("story\nA\nB\n"), text="story").texts == ("A", "B")
    assert Items.of(Path(pipe("text\nA\nB\n"))).texts == ("A", "B")
    assert read_items(pipe("name\na\nb\n")).names == {None: ["a", "b"]}


@pytest.mark.parametrize(
    ("content", "options", "place"),
    [
        ("", {}, "items in standard input"),
        (" \n", {"text": "story"}, "^standard input is empty"),
        (b"caf\xe9\nb\n", {}, "^standard input .*UTF-8"),
        ('{"text": "A"}\n{"text": \n', {}, "^standard input, line 2: "),
        ("id,text\nx,A\ny,B,C\n", {}, "^standard input, line 3: "),
        ("name,story\nx,A\ny,B\n", {}, "^standard input: .*'text'.*name, story.*text='NAME'"),
        ("name,story\nx,A\ny,B\n", {"text": "essay"}, "'essay'.*name, story"),
    ],
)
def test_standard_input_that_holds_no_items(pipe, content, options, place):
    with pytest.raises(ComparisonsError, match=place):
        Items.of(pipe(content), **options)


def test_the_bytes_of_a_pipe_are_read_whatever_the_locale():
    code = "from comparo import Items; print(ascii(Items.of('-').texts))"
    run = subprocess.run(
        [sys.executable, "-c", code],
        input="שלום\nnaïve 👋\n".encode(),
        capture_output=True,
        check=True,
        env={**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    )
    assert run.stdout.decode().strip() == ascii(("שלום", "naïve 👋"))


def test_columns_by_name():
    frame = pandas.DataFrame(
        {"name": [7, 3], "essay": ["A", "B"], "task": ["Argue."] * 2, "topic": ["x"] * 2, "text": 0}
    )
    items = Items.of(frame, id="name", text="essay", context="task", context_id="topic")
    assert items.names == {"x": [7, 3]}
    assert (items.texts, items.context_texts) == (("A", "B"), ("Argue.",))


def test_a_context_without_a_label_is_its_own_if_it_is_short():
    long = "Write an essay\nabout the sea, and why people love it: " + 30 * "more "
    rows = [{"text": letter, "context": context} for letter in "AB" for context in ("x" * 60, long, long + "!")]
    items = Items.of(rows)
    first, second, third = items.contexts
    begin = "Write an essay about the sea, and why people lov… "
    assert items.context_texts == ("x" * 60, long, long + "!")
    assert (first, second) == ("x" * 60, begin + hashlib.sha256(long.encode()).hexdigest()[:8])
    assert third.startswith(begin)
    assert second != third
    assert items.groups[second].tolist() == [1, 4]


def test_a_context_that_is_a_number_is_only_a_label(tmp_path):
    rows = [{"id": letter, "text": letter, "context": number} for letter in "ab" for number in (9, 2)]
    for source in (rows, pandas.DataFrame(rows)):
        items = Items.of(source)
        assert items.names == {2: ["a", "b"], 9: ["a", "b"]}
        assert items.context_texts == (None, None)
    assert read_items(written(tmp_path, "items.jsonl", json_lines(rows))).names == items.names


@pytest.mark.parametrize("empty", [None, "", " ", math.nan])
def test_a_context_that_is_empty_everywhere_is_none(empty):
    items = Items.of([{"text": letter, "context": empty} for letter in "AB"])
    assert items.names == {None: [0, 1]}
    assert items.context_texts == (None,)


def test_the_text_of_a_context_may_stand_in_one_of_its_rows():
    contexts = [None, "Write.", ""]
    items = Items.of([{"text": letter, "context_id": 0, "context": contexts[k]} for k, letter in enumerate("ABC")])
    assert items.context_texts == ("Write.",)


def test_scores_by_name():
    rows = [{"text": "A", "scores": {"wit": 1, "style": True}, "age": "7", "score": ""}, {"text": "B", "score": " 2 "}]
    assert plain(Items.of(rows))["scores"] == {"score": [None, 2.0], "wit": [1.0, None], "style": [1.0, None]}
    assert plain(Items.of(rows, scores=["age", "wit"]))["scores"] == {"age": [7.0, None], "wit": [1.0, None]}
    assert list(Items.of(rows, scores="wit").scores) == ["wit"]
    assert Items.of(rows, scores=[]).scores == {}
    assert Items.of([{"text": "A", "scores": 1}, {"text": "B", "scores": 2}]).scores == {}
    numbered = [{"text": "A", 5: 1, "scores": {6: 7}}, {"text": "B"}]
    assert list(Items.of(numbered, scores=["5", "6"]).scores) == ["5", "6"]
    assert list(Items.of(FLAT_ROWS, scores=["style", "score_wit"]).scores) == ["style", "score_wit"]


FLAT_ROWS = pandas.DataFrame(FLAT).to_dict("records")
TWO = [{"text": "A"}, {"text": "B"}]
NAMED = [{"id": "a", "text": "A"}, {"id": "b", "text": "B"}]


def dee(**values):
    return {**ROWS[0], "id": "dee", **values}


WRONG = {
    "no rows": ([], {}, "items in the data"),
    "no rows in a frame": (pandas.DataFrame({"text": []}), {}, "items in the data"),
    "nothing in a mapping": ({}, {}, "items in the data"),
    "no text": ([{"id": 1}, {"id": 2}], {}, "^the data: .* 'text'; .* id. .* text='NAME'$"),
    "no columns": ([{}, {}], {}, "'text'; .* none"),
    "no such id": (TWO, {"id": "name"}, "'name'; .* text. .* id='NAME'$"),
    "no such text": (TWO, {"text": "essay"}, "'essay'; .* text. .* text='NAME'$"),
    "no such context": (TWO, {"context": "task"}, "'task'; .* context='NAME'$"),
    "no such label": (TWO, {"context_id": "task"}, "'task'; .* context_id='NAME'$"),
    "no such scores": (ROWS, {"scores": ["wit", "age"]}, "'age'; .* wit, style, .* id, text"),
    "no scores": (TWO, {"scores": ["wit"]}, "'wit'; .* none, .* text. .* scores='NAME'$"),
    "empty text": (["A", "", " \n", "B"], {}, "^row 2, column 'text': .* 1 more row"),
    "missing text": ([*TWO, {"score": 3}], {}, "^row 3, column 'text': "),
    "text in a frame missing": (pandas.DataFrame({"text": ["A", None]}), {}, "^row 2, column 'text': "),
    "number for text": (["A", 5], {}, "^row 2, column 'text': 5 "),
    "numbers for texts": (pandas.DataFrame({"text": [1, 2]}), {}, "^row 1, column 'text': 1 "),
    "columns for a mapping": ({"id": ["a"], "text": ["A"]}, {}, r"^row 1, column 'text': \['a'\] "),
    "text among mappings": ([*TWO, "C"], {}, "^row 3: 'C' "),
    "same id": ([*NAMED, {"id": "a", "text": "C"}], {}, "^row 3, column 'id': 'a' "),
    "empty id": ([*NAMED, {"id": " ", "text": "C"}], {}, "^row 3, column 'id': ' ' "),
    "missing id": ([*NAMED, {"text": "C"}], {}, "^row 3, column 'id': None "),
    "id that is a list": ([*NAMED, {"id": [], "text": "C"}], {}, r"^row 3, column 'id': \[\] "),
    "one item": (["A"], {}, "^row 1: 0 is the only item; "),
    "one item in a context": ([*ROWS, dee(context_id="z")], {}, "^row 5, column 'id': 'dee' .* context 'z'"),
    "two texts of a context": ([*ROWS, dee(context="Wrote.")], {}, "^row 5, column 'context': context 'x' "),
    "context that is no text": (
        [{"text": "A", "context_id": "x", "context": 5}, {"text": "B", "context_id": "x"}],
        {},
        "^row 1, column 'context': 5 ",
    ),
    "context missing in a row": (
        [{"text": "A", "context": "x"}, {"text": "B", "context": "x"}, {"text": "C"}],
        {},
        "^row 3, column 'context': None ",
    ),
    "label missing in a row": ([*ROWS, {"id": "dee", "text": "D"}], {}, "^row 5, column 'context_id': None "),
    "score": ([{"text": "A", "score": "1"}, {"text": "B", "score": "good"}], {}, "^row 2, column 'score': 'good' "),
    "nested score": ([*ROWS, dee(scores={"wit": "high"})], {}, "^row 5, column 'scores.wit': 'high' "),
    "endless score": ([{"text": "A", "score_a": math.inf}, {"text": "B"}], {}, "^row 1, column 'score_a': inf "),
    "scores that are a list": ([*ROWS, dee(scores=[1])], {}, r"^row 5, column 'scores': \[1\] "),
    "half a character": (["A", "B \ud83d"], {}, r"^row 2, column 'text': '\\ud83d' "),
    "half a character in an id": ([*NAMED, {"id": "\ude00", "text": "C"}], {}, "^row 3, column 'id': "),
    "a missing file": ("nowhere.jsonl", {}, "^nowhere.jsonl does not exist"),
    "a missing text file": ("nowhere.txt", {}, "^nowhere.txt does not exist"),
    "a text for a path": (500 * "a story ", {}, "a story  does not exist"),
    "columns with numbers for names": (pandas.DataFrame({0: ["A", "B"], "id": [1, 2]}), {}, "'text'; .* id, 0. "),
    "an array": (np.zeros(3), {}, "^a ndarray "),
    "a number": (5, {}, "^a int "),
    "nothing": (None, {}, "^a NoneType "),
}


@pytest.mark.parametrize(("data", "options", "place"), WRONG.values(), ids=WRONG)
def test_items_that_cannot_be_ranked(data, options, place):
    with pytest.raises(ComparisonsError, match=place) as caught:
        Items.of(data, **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content", "place"),
    [
        ("a.csv", "id,text\nx,A\n\ny,  \n", r"a\.csv, row 2 \(line 4\), column 'text': "),
        ("a.jsonl", '{"text": "A"}\n{"text": 5}\n', r"a\.jsonl, row 2, column 'text': 5 "),
        ("a.jsonl", '{"text": "A"}\n{"text": "\\ud83d"}', r"a\.jsonl, row 2, column 'text': "),
        ("a.txt", "A\n\nB\nA\n", r"a\.txt, row 3 \(line 4\), column 'id': 'A' "),
        ("a.csv", "text,score\nA,1\nB,x\n", r"a\.csv, row 2 \(line 3\), column 'score': 'x' "),
        ("a.csv", "id,story\nx,A\n", r"a\.csv: .* id, story"),
        ("a.txt", "\n \n", r"items in .*a\.txt; "),
        ("a.txt", b"caf\xe9\nb\n", r"a\.txt .*UTF-8"),
        ("a.docx", "A", r"a\.docx: .* \.txt"),
    ],
)
def test_files_that_cannot_be_ranked(tmp_path, name, content, place):
    with pytest.raises(ComparisonsError, match=place):
        Items.of(written(tmp_path, name, content))


def test_folders_that_cannot_be_ranked(tmp_path):
    for content, place in (
        (None, r"no \.txt, "),
        ("A", "'a' is the only item"),
        (" \n", r"b\.txt has no text"),
        (b"caf\xe9", r"b\.txt is not UTF-8"),
    ):
        if content is not None:
            written(tmp_path, "a.txt" if content == "A" else "b.txt", content)
        with pytest.raises(ComparisonsError, match=place):
            Items.of(tmp_path)


class Splits(dict):
    """What `datasets.load_dataset` gives without a split: a mapping from names to data sets."""

    num_rows = 2

    def with_format(self, type):  # noqa: A002
        return self


class Stream:
    """A data set that is streamed has no rows to count."""

    def with_format(self, type):  # noqa: A002
        return self


@pytest.mark.parametrize("data", [Splits(train=DataSet(pyarrow.table({"text": ["A", "B"]}))), Stream()])
def test_a_data_set_is_one_loaded_split(data):
    with pytest.raises(ComparisonsError, match=rf"^{type(data).__name__} .*load_dataset\("):
        Items.of(data)


def test_rows_and_questions():
    items = Items.of(ROWS)
    assert {context: rows.tolist() for context, rows in items.groups.items()} == {"x": [0, 1], "y": [2, 3]}
    assert items.names == {"x": ["ana", "bo"], "y": ["ana", "cy"]}
    assert items.row("y", "ana") == 2
    assert items.question("x", "bo", "ana") == Question("bo", "ana", "x", "Another.", "A story.", "Write.")
    assert items.question("y", "ana", "cy").context_text is None
    assert Items.of(["A", "B"]).question(None, np.int64(1), 0).first_text == "B"
    with pytest.raises(ComparisonsError, match=r"'bo' .*'y'"):
        items.row("y", "bo")
    with pytest.raises(ComparisonsError, match=r"'0'"):
        Items.of(["A", "B"]).question(None, 0, "0")


def test_texts_are_not_in_the_way_of_a_look_at_the_items():
    assert "A story." not in repr(Items.of(ROWS))


def changed(row, **values):
    rows = [dict(each) for each in ROWS]
    rows[row].update(values)
    return rows


@pytest.mark.parametrize(
    "rows",
    [
        changed(0, id="al"),
        changed(0, text="A story!"),
        changed(2, context="Read."),
        [{**row, "context_id": {"x": "u", "y": "y"}[row["context_id"]]} for row in ROWS],
        [ROWS[1], ROWS[0], *ROWS[2:]],
        ROWS[:2],
    ],
)
def test_a_digest_changes_with_what_a_judge_is_asked(rows):
    assert Items.of(rows).digest() != Items.of(ROWS).digest()


def test_a_digest_stays_where_only_scores_change():
    assert Items.of(changed(0, scores={})).digest() == Items.of(ROWS).digest()
    assert Items.of(["A", "B"]).digest() != Items.of({"0": "A", "1": "B"}).digest()
    assert Items.of({(1, 2): "A", 3j: "B"}).digest() == Items.of({(1, 2): "A", 3j: "B"}).digest()
    known = hashlib.sha256(b'[null, null][0, 0, "A"][0, 1, "B"]').hexdigest()
    assert Items.of(["A", "B"]).digest() == known, "runs that were begun before could not be resumed"


texts = st.text(min_size=1).filter(str.strip)
labels = st.one_of(st.integers(-(2**63), 2**63 - 1), texts)


@st.composite
def rows_of_items(draw):
    """Rows in up to three contexts, each with two items or more and a text or none."""
    contexts = draw(st.lists(st.tuples(labels, st.none() | texts), min_size=1, max_size=3, unique_by=lambda c: c[0]))
    rows = []
    for label, context in contexts:
        for name in draw(st.lists(labels, min_size=2, max_size=4, unique=True)):
            score = draw(st.none() | st.floats(allow_nan=False, allow_infinity=False))
            row = {"id": name, "text": draw(texts), "context_id": label, "context": context, "scores": {"wit": score}}
            rows.append(row)
    return draw(st.permutations(rows))


@given(rows=rows_of_items(), ensure_ascii=st.booleans(), compressed=st.booleans())
def test_rows_come_back_from_a_file(tmp_path_factory, rows, ensure_ascii, compressed):
    content = json_lines(rows, ensure_ascii).encode()
    folder = tmp_path_factory.mktemp("items")
    name, content = ("items.jsonl.gz", gzip.compress(content)) if compressed else ("items.jsonl", content)
    direct, read = Items.of(rows), Items.of(written(folder, name, content))
    assert plain(direct) == plain(read)
    assert direct.digest() == read.digest()
    for row, given_row in enumerate(rows):
        assert direct.row(given_row["context_id"], given_row["id"]) == row
        assert direct.texts[row] == given_row["text"]
        assert direct.context_texts[direct.context[row]] == given_row["context"] or not given_row["context"].strip()
    assert sorted(np.concatenate(list(direct.groups.values()))) == list(range(len(rows)))


@pytest.mark.measures
def test_a_hundred_thousand_items():
    stories = [f"Story {k}. " + 40 * "word " for k in range(100_000)]
    start = time.process_time()
    items = Items.of(stories)
    items.row(None, 99_999)
    assert time.process_time() - start < 3, "about 0.2 s on a slow core"
    assert len(items) == 100_000


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("items.csv", "id,text\na,First.\nb,Second.\n", {None: ["a", "b"]}),
        ("items.csv", "name\na\nb\n", {None: ["a", "b"]}),
        ("items.txt", "\ufeffa\n\n  b \n", {None: ["a", "b"]}),
        ("items.jsonl", '{"id": 2}\n{"id": 1}\n', {None: [2, 1]}),
        ("items.csv", "context,id\nx,a\ny,a\nx,b\ny,c\n", {"x": ["a", "b"], "y": ["a", "c"]}),
        ("items.csv", "context,name\nx,a\nx,b\n", {"x": ["a", "b"]}),
        ("items.csv", "id,context_id\na,x\nb,x\n", {"x": ["a", "b"]}),
        ("items.csv", "id,context_id,context\na,x,Write.\nb,x,\n", {"x": ["a", "b"]}),
    ],
)
def test_ids_by_context_without_texts(tmp_path, name, text, expected):
    assert read_items(written(tmp_path, name, text)).names == expected


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("id,context\na,x\nb,x\na,y\n", r"row 3 \(line 4\), column 'id': 'a' .*context 'y'"),
        ("id,text\n,One\nb,Two\n", r"row 1 \(line 2\), column 'id': '' "),
        ("id\n", "items in .*items.csv"),
    ],
)
def test_ids_that_cannot_be_ranked(tmp_path, text, place):
    with pytest.raises(ComparisonsError, match=place):
        read_items(written(tmp_path, "items.csv", text))


def test_a_json_list_a_sheet_and_tabs_are_read(tmp_path):
    rows = [{"id": 1, "text": "A", "score_wit": 2}, {"id": 2, "text": "B", "score_wit": 3}]
    table = [list(rows[0]), *(list(row.values()) for row in rows)]
    listed = Items.of(written(tmp_path, "a.json", json.dumps(rows)))
    tabbed = Items.of(written(tmp_path, "a.tsv", "".join("\t".join(map(str, row)) + "\n" for row in table)))
    sheet = Items.of(write_workbook(tmp_path / "a.xlsx", One=table))
    assert (listed.ids.tolist(), tabbed.ids.tolist()) == ([1, 2], ["1", "2"])
    assert plain(tabbed) == plain(sheet)
    for items in (listed, tabbed, sheet):
        assert (items.texts, items.scores["wit"].tolist()) == (("A", "B"), [2, 3])
    named = Items.of(written(tmp_path, "b.tsv", "text, or so\nA, B\nC, D\n"), text="text, or so")
    assert named.texts == ("A, B", "C, D")  # a comma does not end a column of tabbed text


@pytest.mark.parametrize("groups", [list("abab"), [7, 8, 7, 9], None])
def test_the_items_of_a_run_are_those_it_was_given(tmp_path, groups):
    rows = [{**row, "group": group} for row, group in zip(ROWS, groups or ROWS, strict=True)]
    items = Items.of(rows if groups else [{"id": 7, "text": "A"}, {"id": "7", "text": "B"}])
    store = Store(tmp_path / "run", {})
    store.add_items(items)
    store.close()
    for path in (tmp_path / "run", tmp_path / "run" / "judgements.db"):
        again = Items.of(path)
        assert plain(again) == plain(items)
        assert again.digest() == items.digest()
    assert again.group.tolist() == groups if groups else again.group is None


def test_an_id_that_stands_in_two_contexts_is_told_of_context(tmp_path):
    rows = [{"id": name, "text": "T", "article": article} for article in "xy" for name in "ab"]
    with pytest.raises(ComparisonsError, match=r"'a' .*`context`"):
        Items.of(rows)
    assert Items.of(rows, context="article").names == {"x": ["a", "b"], "y": ["a", "b"]}
    with pytest.raises(ComparisonsError, match=r"'a' [^`]*$"):
        Items.of([*rows, rows[0]], context="article")
    path = written(tmp_path, "items.jsonl", json_lines(rows))
    for role in ("context", "context_id"):
        assert read_items(path, id="id", **{role: "article"}).names == {"x": ["a", "b"], "y": ["a", "b"]}
    with pytest.raises(ComparisonsError, match="'name'"):
        read_items(path, id="name")


def test_a_folder_that_may_not_be_read_is_one_clear_message():
    """Root may read everything, and is somebody else for a while."""
    with tempfile.TemporaryDirectory() as folder:  # for its owner alone, in a folder that everybody may enter
        user = os.geteuid()
        os.chmod(folder, 0o700 if user == 0 else 0)
        try:
            os.seteuid(65534 if user == 0 else user)
            with pytest.raises(ComparisonsError, match="Permission denied"):
                Items.of(folder)
        finally:
            os.seteuid(user)
            os.chmod(folder, 0o700)


WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


def write_docx(path, body, before=""):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        xml = f'<?xml version="1.0"?>{before}<w:document xmlns:w="{WORD}"><w:body>{body}</w:body></w:document>'
        archive.writestr("word/document.xml", xml)


def test_a_folder_of_documents_is_read_and_other_files_are_named(tmp_path, caplog):
    run = "<w:pPr><w:tabs><w:tab/></w:tabs></w:pPr><w:r><w:t>One</w:t><w:tab/><w:t>t&amp;wo</w:t></w:r>"
    write_docx(
        tmp_path / "ana.docx", f"<w:p>{run}</w:p><w:p><w:r><w:t>Three</w:t><w:delText>no</w:delText></w:r></w:p>"
    )
    (tmp_path / "bo.txt").write_text("Plain.")
    (tmp_path / "cy.odt").write_bytes(b"PK")
    items = Items.of(tmp_path)
    assert dict(zip(items.ids.tolist(), items.texts, strict=True)) == {"ana": "One\tt&wo\nThree", "bo": "Plain."}
    assert "cy.odt" in caplog.text


def write_pdf(path, content=b""):
    """Write a PDF of one page whose content stream is `content`."""
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 99 99] /Contents 4 0 R /Resources << /Font << /F 5 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(content), content),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    written, places = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(written))
        written += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    end = b"trailer\n<< /Size 6 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % len(written)
    path.write_bytes(written + b"xref\n0 6\n0000000000 65535 f \n" + table + end)


def test_the_text_layer_of_a_pdf_is_read(tmp_path):
    write_pdf(tmp_path / "ana.pdf", b"BT /F 12 Tf 20 150 Td (The sea took) Tj 0 -20 Td (the house.) Tj ET")
    (tmp_path / "bo.txt").write_text("Plain.")
    items = Items.of(tmp_path)
    assert items.ids.tolist() == ["ana", "bo"]
    assert list(items.texts) == ["The sea took\nthe house.", "Plain."]


@pytest.mark.parametrize(
    ("name", "write", "wrong"),
    [
        ("ana.docx", lambda path: path.write_bytes(b"no archive"), "not a whole"),
        ("ana.docx", lambda path: write_docx(path, "<w:p/>", '<!DOCTYPE d [<!ENTITY a "aaaa">]>'), "document type"),
        ("ana.docx", lambda path: write_docx(path, "<w:p>"), "cannot be read"),
        ("ana.docx", lambda path: write_docx(path, " " * (1 << 20)), f"1 MB.*{LIMIT}"),
        ("ana.pdf", lambda path: write_pdf(path, b"0 0 300 200 re f"), "OCR"),
        ("ana.pdf", lambda path: path.write_bytes(b"%PDF-1.4\nno more"), "cannot be read"),
    ],
)
def test_a_document_that_is_broken_or_hostile_is_one_clear_message(tmp_path, monkeypatch, name, write, wrong):
    monkeypatch.setenv(LIMIT, "1")
    write(tmp_path / name)
    with pytest.raises(ComparisonsError, match=wrong) as raised:
        Items.of(tmp_path)
    assert name in str(raised.value)


def test_without_pypdf_the_extra_is_named(tmp_path, monkeypatch):
    write_pdf(tmp_path / "ana.pdf")
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ComparisonsError, match=r"ana\.pdf.*\[documents\].*\.txt"):
        Items.of(tmp_path)


@pytest.mark.parametrize("name", ["ana.docx", "ana.pdf", "ana.odt", "ana.md"])
def test_one_document_is_refused_and_a_folder_of_them_is_the_remedy(tmp_path, name):
    with pytest.raises(ComparisonsError, match=rf"{name} does not exist"):
        Items.of(tmp_path / name)
    write_docx(tmp_path / name, "<w:p><w:r><w:t>One.</w:t></w:r></w:p>")
    with pytest.raises(ComparisonsError, match=rf"{name}: .*\.docx"):
        Items.of(tmp_path / name)
