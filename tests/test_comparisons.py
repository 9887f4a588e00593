"""Every way in gives the same comparisons, every bad value is named, and merging agrees with a plain dictionary."""

import csv
import io
import re
import sqlite3
from contextlib import closing
from dataclasses import replace

import numpy as np
import pandas
import polars
import pyarrow
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import comparo
from comparo import Comparisons, ComparisonsError, Judgement, Question
from comparo.errors import OptionError
from inside import Store, read_several

NAN = float("nan")
ROWS = [("ana", "bo", 0.7), ("bo", "cy", 0.25), ("cy", "ana", 1.0), ("ana", "bo", 0.0)]
FULL = {
    "first": ["ana", "bo", "cy", "ana"],
    "second": ["bo", "cy", "ana", "bo"],
    "p": [0.7, 0.25, 1.0, 0.0],
    "weight": [1.0, 2.5, 0.0, 1e-3],
    "context": ["x", "x", "y", "y"],
    "judge": ["j", "k", "j", "k"],
}
FRAMES = {
    "pandas": pandas.DataFrame,
    "polars": polars.DataFrame,
    "pyarrow": pyarrow.table,
    "polars lazy": polars.LazyFrame,
}


def plain(comparisons):
    return {name: column.tolist() for name, column in comparisons.to_columns().items()}


def assert_same(left, right):
    assert plain(left) == plain(right)
    assert left.items.tolist() == right.items.tolist()
    assert left.items.dtype == right.items.dtype


def test_columns():
    comparisons = Comparisons.from_columns(**FULL)
    assert plain(comparisons) == FULL
    assert len(comparisons) == 4
    labels = (comparisons.items, comparisons.contexts, comparisons.judges)
    assert [found.tolist() for found in labels] == [["ana", "bo", "cy"], ["x", "y"], ["j", "k"]]
    assert comparisons.items.dtype == object
    for codes in (comparisons.first, comparisons.second, comparisons.context, comparisons.judge):
        assert codes.dtype == np.int32
        assert codes.flags.c_contiguous
    assert comparisons.p.dtype == comparisons.weight.dtype == np.float64


def test_labels_stand_in_the_order_they_are_first_read_in_row_by_row():
    assert Comparisons.from_rows([("d", "b", 1), ("c", "a", 1), ("a", "e", 0)]).items.tolist() == list("dbcae")


def test_a_float_array_is_not_copied():
    p, weight = np.array([0.5, 0.5]), np.array([1.0, 2.0])
    comparisons = Comparisons.from_columns(["a", "b"], ["b", "a"], p, weight)
    assert comparisons.p is p
    assert comparisons.weight is weight


INTEGERS = {
    "list": lambda values: values,
    "tuple": tuple,
    "iterator": iter,
    "object array": lambda values: np.array(values, dtype=object),
    "numpy integers": lambda values: [np.int64(value) for value in values],
    "int64": np.array,
    "int8": lambda values: np.array(values, dtype=np.int8),
    "big-endian": lambda values: np.array(values, dtype=">i4"),
    "pandas": pandas.Series,
    "nullable pandas": lambda values: pandas.Series(values, dtype="Int64"),
    "polars": polars.Series,
    "pyarrow": lambda values: pyarrow.chunked_array([values]),
}


@pytest.mark.parametrize("kind", INTEGERS.values(), ids=INTEGERS)
@pytest.mark.parametrize(("first", "second"), [([7, -3], [-3, 5]), ([0, 2, 1], [1, 1, 2]), ([120, -120], [-120, 3])])
def test_integers_stay_integers_and_ascend(kind, first, second):
    comparisons = Comparisons.from_columns(kind(first), kind(second), [0.5] * len(first), context=kind(second))
    assert comparisons.items.dtype == np.int64
    assert comparisons.items.tolist() == sorted({*first, *second})
    assert plain(comparisons) == {"first": first, "second": second, "p": [0.5] * len(first), "context": second}


@given(st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(0, 9)), min_size=1).map(dict.fromkeys))
def test_integer_arrays_and_lists_agree(pairs):
    first = [a if a != b else b + 1 for a, b in pairs]
    second = [b for _, b in pairs]
    by_array = Comparisons.from_columns(np.array(first), np.array(second), np.zeros(len(first)))
    assert_same(by_array, Comparisons.from_columns(first, second, np.zeros(len(first))))
    assert by_array.items.tolist() == sorted({*first, *second})


@pytest.mark.parametrize(
    "labels", [[2**63, 1], [2**70, -1], [1.5, 2], [("a", 1), ("b", 2)], [True, "b"], [True, False], ["1", 1]]
)
def test_other_labels_are_kept_as_they_are(labels):
    comparisons = Comparisons.from_columns(labels, labels[::-1], [0.5, 0.5])
    assert comparisons.items.dtype == object
    assert comparisons.items.tolist() == labels
    assert [type(label) for label in comparisons.items] == [type(label) for label in labels]


def test_numbers_beyond_int64_and_numbers_as_text():
    comparisons = Comparisons.from_columns(np.array([2**63], dtype=np.uint64), np.array([-1]), ["0.5"], [" 1e2 "])
    assert (comparisons.items.tolist(), comparisons.p.tolist()) == ([2**63, -1], [0.5])


def test_rows():
    assert plain(Comparisons.from_rows(ROWS)) == {name: FULL[name] for name in ("first", "second", "p")}
    assert plain(Comparisons.from_rows(zip(*list(FULL.values())[:4], strict=True)))["weight"] == FULL["weight"]
    mixed = Comparisons.from_rows([("a", "b", 0.5), ["b", "c", 0.5, 3]])
    assert mixed.weight.tolist() == [1.0, 3.0]
    mappings = [dict(zip(FULL, row, strict=True)) for row in zip(*FULL.values(), strict=True)]
    assert plain(Comparisons.from_rows(iter(mappings))) == FULL


def test_matrix():
    matrix = np.array([[0.3, 0.7, NAN], [NAN, 9.0, 0.0], [1.0, NAN, NAN]])
    comparisons = Comparisons.from_matrix(matrix, items=["cy", "ana", "bo"])
    assert plain(comparisons) == {"first": ["cy", "ana", "bo"], "second": ["ana", "bo", "cy"], "p": [0.7, 0.0, 1.0]}
    assert comparisons.items.tolist() == ["cy", "ana", "bo"]
    assert comparisons.first.dtype == comparisons.second.dtype == np.int32
    assert Comparisons.from_matrix(matrix.tolist()).items.tolist() == [0, 1, 2]
    assert Comparisons.from_matrix(matrix, items=np.array([5, 9, 1])).items.tolist() == [5, 9, 1]
    lone = Comparisons.from_matrix([[NAN, NAN, 0.5], [NAN, NAN, NAN], [NAN, NAN, NAN]])
    assert (lone.items.tolist(), lone.second.tolist()) == ([0, 1, 2], [2])  # 1 was never compared


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_frames(frame):
    assert_same(Comparisons.from_frame(frame(FULL)), Comparisons.from_columns(**FULL))
    integers = {"second": [3, 2], "first": [9, 3], "p": [1, 0], "context_id": [1, 1], "remark": ["x", None]}
    comparisons = Comparisons.from_frame(frame(integers))
    assert comparisons.items.dtype == np.int64
    assert plain(comparisons) == {"first": [9, 3], "second": [3, 2], "p": [1.0, 0.0], "context": [1, 1]}


@pytest.mark.parametrize("backend", [None, "pandas", "polars", "pyarrow"])
def test_to_frame_and_back(backend):
    for columns in (FULL, {"first": [2, 1], "second": [1, 3], "p": [0.5, 1.0]}):
        comparisons = Comparisons.from_columns(**columns)
        assert_same(Comparisons.of(comparisons.to_frame(backend)), comparisons)


LAYOUTS = {
    "model_a": (
        {"model_a": ["a"] * 7, "model_b": ["b"] * 7},
        ["model_a", "model_b", "tie", "tie (bothbad)", "both_bad", "bothbad", " Model_A "],
        [1.0, 0.0, 0.5, 0.5, 0.5, 0.5, 1.0],
    ),
    "left": ({"left": ["a"] * 4, "right": ["b"] * 4}, ["left", "RIGHT", "tie", "Tie\n"], [1.0, 0.0, 0.5, 0.5]),
}


@pytest.mark.parametrize(("labels", "words", "p"), LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_layouts(frame, labels, words, p):
    more = {"weight": [2.0] * len(p), "context": ["x"] * len(p), "judge": ["j"] * len(p), "language": ["en"] * len(p)}
    columns = plain(Comparisons.from_frame(frame({**labels, "winner": words, **more})))
    expected = {"first": ["a"] * len(p), "second": ["b"] * len(p), "p": p}
    assert columns == expected | {name: more[name] for name in ("weight", "context", "judge")}


WON = [("a", "b", 7.0), ("b", "a", 3.0), ("b", "c", 6.0), ("c", "b", 4.0)]
LISTS = {
    "a row a win": [{"Winner": one, "LOSER": other} for one, other, times in WON for _ in range(int(times))],
    "weights": [{"winner": one, "loser": other, "weight": times} for one, other, times in WON],
    "counts": [
        {"left": "a", "right": "b", "A_wins": "7", "B_wins": 3},
        {"left": "b", "right": "c", "A_wins": 6, "B_wins": 4},
    ],
    "counts of none": [
        {"first": "b", "second": "a", "wins_first": 3, "wins_second": 7},
        {"first": "a", "second": "c", "wins_first": 0, "wins_second": 0},
        {"first": "b", "second": "c", "wins_first": 6, "wins_second": 4},
    ],
}  # fmt: skip


@pytest.mark.parametrize("rows", LISTS.values(), ids=LISTS)
def test_lists_of_winners_say_nothing_about_position(rows, tmp_path):
    found, alone = comparo.fit(rows), comparo.fit([(*pair, 1.0, times) for *pair, times in WON], "mixed", bias="none")
    assert {item: found[item].score for item in found} == pytest.approx({item: alone[item].score for item in alone})
    assert {item: found[item].std for item in found} == pytest.approx({item: alone[item].std for item in alone})
    assert not found.notes
    with pytest.raises(OptionError, match="joint"):
        comparo.fit(rows, bias="joint")
    comparisons = Comparisons.of(rows)
    comparisons.write(tmp_path / "wins.csv")
    for again in (Comparisons.of(tmp_path / "wins.csv"), read_several([tmp_path / "wins.csv"] * 2)):
        assert again.lists_winners
        assert again.trimmed().lists_winners
        assert again.answers == comparisons.answers
    Comparisons.from_rows([("a", "b", 0.7)]).write(tmp_path / "shown.csv")
    with pytest.raises(ComparisonsError, match=r"wins\.csv.*shown\.csv"):
        read_several([tmp_path / "shown.csv", tmp_path / "wins.csv"])


def test_files_of_other_tools_are_read_as_they_are(tmp_path, run):
    rows = "First;Second;P;Weight\nana;bo;0,75;2,5\nbo;cy;0,6;1\n"
    (tmp_path / "german.csv").write_text(rows, encoding="utf-8")
    read = Comparisons.read(tmp_path / "german.csv")
    assert (read.p.tolist(), read.weights.tolist()) == ([0.75, 0.6], [2.5, 1.0])
    (tmp_path / "german.csv").write_text(rows.replace("2,5", "1,000"), encoding="utf-8")
    with pytest.raises(ComparisonsError, match=r"row 1.*'weight': '1,000'"):
        Comparisons.read(tmp_path / "german.csv")
    (tmp_path / "own.csv").write_text("x,y,better,first\nana,bo,y,?\nana,bo,ana,?\nbo,ana,X,?\n", encoding="utf-8")
    named = ["fit", "own.csv", "--format", "csv", "--columns", "first=x, second=y", "--columns"]
    assert run(tmp_path, [*named, "winner=better"]).stdout.splitlines()[1].startswith("bo,")
    assert "'best'" in run(tmp_path, [*named, "winner=best"]).stderr
    assert "'loses'" in run(tmp_path, [*named, "loses=better"]).stderr


def test_the_order_of_the_layouts():
    row = {"left": "x", "right": "y", "winner": "model_a", "model_a": "m", "model_b": "n"}
    assert Comparisons.from_rows([row]).items.tolist() == ["m", "n"]
    row |= {"first": "a", "second": "b", "p": 0.5, "context_id": "old", "context": "new"}
    comparisons = Comparisons.from_rows([row])
    assert comparisons.items.tolist() == ["a", "b"]
    assert comparisons.contexts.tolist() == ["new"]


def test_of(tmp_path):
    comparisons = Comparisons.from_rows(ROWS)
    comparisons.write(tmp_path / "pairs.csv")
    assert Comparisons.of(comparisons) is comparisons
    for data in (
        ROWS,
        tuple(ROWS),
        iter(ROWS),
        (row for row in ROWS),
        tmp_path / "pairs.csv",
        str(tmp_path / "pairs.csv"),
    ):
        assert_same(Comparisons.of(data), comparisons)
    assert Comparisons.of(np.array([[NAN, 0.5], [0.25, NAN]])).p.tolist() == [0.5, 0.25]


@pytest.mark.parametrize("data", [3, None, {"first": ["a"]}, np.zeros(3), pandas.Series([1]), {("a", "b", 0.5)}])
def test_of_anything_else(data):
    with pytest.raises(ComparisonsError, match=rf"\b{type(data).__name__} "):
        Comparisons.of(data)


ENDINGS = [f"{kind}{gz}" for kind in (".csv", ".jsonl", ".parquet") for gz in ("", ".gz")]
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1).filter(str.strip)
ASKED = st.lists(
    st.tuples(NAMES, NAMES, st.floats(0, 1), st.floats(0, 1e300), NAMES, NAMES).filter(lambda row: row[0] != row[1]),
    min_size=1,
    max_size=5,
)


@pytest.mark.parametrize("ending", ENDINGS)
@settings(deadline=None)
@given(rows=ASKED)
def test_write_then_read(tmp_path_factory, ending, rows):
    path = tmp_path_factory.getbasetemp() / f"round-trip{ending}"
    comparisons = Comparisons.from_columns(*zip(*rows, strict=True))
    comparisons.write(path)
    assert_same(Comparisons.read(path), comparisons)


@pytest.mark.parametrize("ending", ENDINGS)
def test_integers_written_are_integers_read_but_for_csv(tmp_path, ending):
    comparisons = Comparisons.from_columns(np.array([12, 3]), np.array([3, 4]), [0.1, 0.2])
    comparisons.write(tmp_path / f"pairs{ending}")
    again = Comparisons.read(tmp_path / f"pairs{ending}")
    if ending.startswith(".csv"):
        assert again.items.tolist() == ["12", "3", "4"]
        assert again.p.tolist() == comparisons.p.tolist()
    else:
        assert_same(again, comparisons)


@pytest.mark.parametrize("ending", ENDINGS)
def test_labels_that_no_file_holds(tmp_path, ending):
    with pytest.raises(ComparisonsError, match=re.escape("('a', 1)")):
        Comparisons.from_rows([(("a", 1), "b", 0.5)]).write(tmp_path / f"pairs{ending}")
    assert not list(tmp_path.iterdir())


GOOD = {"first": ["a", "b", "c"], "second": ["b", "c", "a"], "p": [0.5, 0.5, 0.5]}
MORE = r".*\(and 1 more row "
BAD = {
    "p above 1": ({"p": [0.5, 0.5, 1.2]}, "^row 3, column 'p': 1.2 "),
    "p below 0": ({"p": [0.5, -0.1, 7]}, f"^row 2, column 'p': -0.1 {MORE}"),
    "p barely above 1": ({"p": np.array([0, 0, np.nextafter(1, 2)])}, "row 3, column 'p': 1.0000000000000002 "),
    "p many": ({"p": np.full(3, 2)}, r"row 1, column 'p': 2.0 .* \(and 2 more rows "),
    "p in percent": ({"p": [55, 70, 30]}, r"row 1, column 'p': 55.0 .* 100\? \(and 2 more"),
    "p nan": ({"p": np.array([0.5, NAN, 0.5])}, "row 2, column 'p': nan "),
    "p inf": ({"p": [0.5, float("inf"), 0.5]}, "row 2, column 'p': inf "),
    "p text": ({"p": ["0.5", "0.5", "half"]}, "row 3, column 'p': 'half' "),
    "p none": ({"p": [0.5, None, None]}, f"row 2, column 'p': None {MORE}"),
    "p too long": ({"p": [10**400, 0.5, 0.5]}, "row 1, column 'p': 10+.*0 "),
    "p list": ({"p": [0.5, [0.5], 0.5]}, r"row 2, column 'p': \[0.5\] "),
    "weight below 0": ({"weight": [1, 0, -1]}, "row 3, column 'weight': -1.0 "),
    "weight nan": ({"weight": [NAN, 1, 1]}, "row 1, column 'weight': nan "),
    "weight inf": ({"weight": [1, np.inf, 1]}, "row 2, column 'weight': inf "),
    "weight text": ({"weight": [1, "much", ""]}, f"row 2, column 'weight': 'much' {MORE}"),
    "against itself": ({"second": ["b", "b", "c"]}, f"row 2, column 'second': 'b' {MORE}"),
    "integer against itself": (
        {"first": np.array([1, 2, 3]), "second": np.array([2, 1, 3])},
        "row 3, column 'second': 3 ",
    ),
    "label none": ({"first": ["a", None, "c"]}, "row 2, column 'first': None "),
    "label nan": ({"second": np.array([1.0, NAN, NAN])}, f"row 2, column 'second': nan {MORE}"),
    "label NA": ({"second": ["a", "b", pandas.NA]}, "row 3, column 'second': <NA> "),
    "label empty": ({"second": ["b", "c", ""]}, "row 3, column 'second': '' "),
    "label blank": ({"first": [" ", "c", "d"]}, "row 1, column 'first': ' ' "),
    "label unhashable": ({"first": ["a", {"b": 1}, "c"]}, "row 2, column 'first': {'b': 1} "),
    "context none": ({"context": ["x", "x", None]}, "row 3, column 'context': None "),
    "judge nan": ({"judge": [NAN, "j", "j"]}, "row 1, column 'judge': nan "),
    "first shorter": ({"first": ["a"]}, "first has 1, second has 3, p has 3 "),
    "weight longer": ({"weight": [1] * 4}, "weight has 4 rows"),
    "judge shorter": ({"judge": []}, "judge has 0 rows"),
    "no rows": ({"first": [], "second": [], "p": []}, "comparisons in the data"),
    "two dimensions": ({"first": np.zeros((3, 2))}, r"column 'first' .* \(3, 2\)"),
    "no dimension": ({"first": "abc"}, "column 'first' is 'abc'"),
    "one number": ({"p": 0.5}, "column 'p' is 0.5"),
}


@pytest.mark.parametrize(("change", "place"), BAD.values(), ids=BAD)
def test_bad_columns(change, place):
    with pytest.raises(ComparisonsError, match=place):
        Comparisons.from_columns(**GOOD | change)


def test_legal_extremes():
    comparisons = Comparisons.from_columns(["a", "b"], ["b", "a"], [0, 1], [0, 0])
    assert (comparisons.p.tolist(), comparisons.weight.tolist()) == ([0.0, 1.0], [0.0, 0.0])


ROW = ("a", "b", 1)
BAD_ROWS = {
    "none": ([], "comparisons in the data"),
    "two values": ([ROW, ("a", "b")], r"row 2: \('a', 'b'\) "),
    "text": ([ROW, "abc", "d"], f"row 2: 'abc' {MORE}"),
    "mapping among tuples": ([ROW, {"first": "a"}], "row 2: {'first': 'a'} "),
    "tuple among mappings": ([{"first": "a"}, ROW], "row 1: {'first': 'a'} "),
    "p": ([ROW, ("a", "b", 2)], "row 2, column 'p': 2.0 "),
    "value missing": ([dict(zip(FULL, ROW, strict=False)), {"first": "a", "second": "b"}], "row 2, column 'p': None "),
    "winner": (
        [{"left": "a", "right": "b", "winner": winner} for winner in ("left", "model_a")],
        "row 2, column 'winner': 'model_a' .* left, right, a, b, tie, draw, equal",
    ),
    "no winner": ([{"model_a": "a", "model_b": "b", "winner": None}], "row 1, column 'winner': "),
    "the layout's own name": ([{"left": "", "right": "b", "winner": "tie"}], "row 1, column 'left': '' "),
    "itself, by its own name": ([{"model_a": 1, "model_b": 1, "winner": "tie"}], "column 'model_b': 1 "),
    "context_id": ([{"first": 1, "second": 2, "p": 1, "context_id": None}], "column 'context_id': None "),
    "missing column": (
        [{"first": 1, "second": 2, "prob": 1, "weight": 1}],
        "^the data: .* 'p'; .* first, second, weight, prob. .* first, second, p; .*; left, right, winner",
    ),
    "missing columns": ([{"left": 1, 5: 2}], "'right' or 'winner'; .* left, 5"),
    "nothing known": ([{"x": 1}], "'first' or 'second' or 'p'; .* x"),
    "nothing at all": ([{}], "'first' or 'second' or 'p'; .* none"),
}


@pytest.mark.parametrize(("rows", "place"), BAD_ROWS.values(), ids=BAD_ROWS)
def test_bad_rows(rows, place):
    with pytest.raises(ComparisonsError, match=place):
        Comparisons.from_rows(rows)


BAD_MATRICES = {
    "not square": (np.zeros((2, 3)), None, r"\(2, 3\)"),
    "a vector": (np.zeros(4), None, r"\(4,\)"),
    "one item": ([[0.5]], None, r"\(1, 1\)"),
    "no item": (np.zeros((0, 0)), None, r"\(0, 0\)"),
    "above 1": ([[0, 1.5], [0.5, 0]], None, r"\[0, 1\]: 1.5 "),
    "below 0": ([[0, 0.5], [-1, 0]], None, r"\[1, 0\]: -1.0 "),
    "infinite": ([[0, np.inf], [-1, 0]], None, r"\[0, 1\]: inf "),
    "nothing asked": ([[0.5, NAN], [NAN, 0.5]], None, "no comparisons"),
    "text": ([["a", "b"], ["c", "d"]], None, "not a number"),
    "ragged": ([[0.5, 0.5], [0.5]], None, "not a number"),
    "few labels": (np.eye(3), ["a", "b"], "2 different .* 3 rows"),
    "same label": (np.eye(3), ["a", "b", "b"], "2 different .* 3 rows"),
    "no label": (np.eye(3), ["a", None, "b"], "row 2, column 'items': None "),
}


@pytest.mark.parametrize(("matrix", "items", "place"), BAD_MATRICES.values(), ids=BAD_MATRICES)
def test_bad_matrices(matrix, items, place):
    with pytest.raises(ComparisonsError, match=place):
        Comparisons.from_matrix(matrix, items)


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_bad_frames(frame):
    for change, place in (
        ({"p": [0.5, None, 0.5]}, "row 2, column 'p': nan "),
        ({"first": ["a", "b", None]}, "row 3, column 'first': (None|nan) "),
        ({"first": [4, None, 5], "second": [5, 6, 7]}, "row 2, column 'first': nan "),
        ({"second": ["b", "b", "a"]}, "row 2, column 'second': 'b' "),
        ({"p": []} | {"first": [], "second": []}, "comparisons in the data"),
    ):
        with pytest.raises(ComparisonsError, match=place):
            Comparisons.from_frame(frame(GOOD | change))
    with pytest.raises(ComparisonsError, match=r"'p'; .*second, odds"):
        Comparisons.from_frame(frame({"first": ["a"], "second": ["b"], "odds": [1.0]}))


def test_a_frame_with_a_column_twice():
    with pytest.raises(ComparisonsError, match="two columns"):
        Comparisons.from_frame(pandas.DataFrame([["a", "b", 0.5, 0.5]], columns=["first", "second", "p", "p"]))


@pytest.mark.parametrize(
    ("name", "text", "place"),
    [
        ("a.csv", "first,second,p\na,b,0\na,b,1\na,b,1.2\n", ", row 3 .line 4., column 'p': 1.2 "),
        ("a.csv", "first,second,p\na,b,\n", ", row 1 .line 2., column 'p': '' "),
        ("a.csv", "first,second,p\n\na,,1\n", ", row 1 .line 3., column 'second': '' "),
        ("a.csv", "first,second,p\n", "; at least"),
        ("a.csv", "first,second,odds\na,b,1\n", ": .*'p'; .* first, second, odds"),
        ("a.jsonl", '{"first": 1, "second": 1, "p": 0}\n', ", row 1, column 'second': 1 "),
        (
            "a.jsonl",
            '{"first": 1, "second": 2, "p": 0}\n\n{"first": 1, "second": 2, "note": 1}\n',
            ", row 2 .line 3., column 'p': None ",
        ),
        ("a.jsonl", '{"model_a": "a", "model_b": "b", "winner": "q"}\n', ", row 1, column 'winner': 'q' "),
    ],
)
def test_bad_files(tmp_path, name, text, place):
    (tmp_path / name).write_text(text)
    with pytest.raises(ComparisonsError, match=f"{name}{place}"):
        Comparisons.read(tmp_path / name)


def test_bad_parquet(tmp_path):
    pandas.DataFrame(GOOD | {"p": [0, 1, 1.5]}).to_parquet(tmp_path / "pairs.parquet")
    with pytest.raises(ComparisonsError, match=r"row 3, .*1\.5 "):
        Comparisons.read(tmp_path / "pairs.parquet")


def merged_by_dictionary(rows):
    """`merge_orders` as its docstring says it, one pair at a time."""
    pairs = {}
    for row in rows:
        pairs.setdefault((frozenset(row[:2]), *row[4:]), []).append(row)
    merged = []
    for (_, *where), members in pairs.items():
        first, second = members[0][:2]
        means = []
        for leader in (first, second):
            shown = [(p, weight) for name, _, p, weight, *_ in members if name == leader]
            total = sum(weight for _, weight in shown)
            if total > 0:
                means.append(sum(p * weight for p, weight in shown) / total)
            elif shown:
                means.append(sum(p for p, _ in shown) / len(shown))
        p = means[0] if len(means) == 1 else 0.5 * (means[0] + 1 - means[1])
        merged.append((first, second, p, sum(row[3] for row in members), *where))
    return merged


JUDGED = st.lists(
    st.tuples(
        st.sampled_from("abcd"),
        st.sampled_from("abcd"),
        st.floats(0, 1),
        st.sampled_from([0.0, 0.5, 1.0, 3.0]),
        st.sampled_from("xy"),
        st.sampled_from("jk"),
    ).filter(lambda row: row[0] != row[1]),
    min_size=1,
    max_size=30,
)


@example([("a", "b", p, weight, "x", "j") for p, weight in ((0.5, 1.0), (1.0, 3.0))], True, False, False)
@given(rows=JUDGED, weighted=st.booleans(), contexts=st.booleans(), judges=st.booleans())
def test_merging_agrees_with_a_dictionary(rows, weighted, contexts, judges):
    columns = dict(zip(FULL, zip(*rows, strict=True), strict=True))
    kept = {"weight": weighted, "context": contexts, "judge": judges}
    merged = Comparisons.from_columns(**{name: column for name, column in columns.items() if kept.get(name, True)})
    merged = merged.merge_orders()

    rows = [
        (first, second, p, weight if weighted else 1.0, *([context] if contexts else []), *([judge] if judges else []))
        for first, second, p, weight, context, judge in rows
    ]
    expected = merged_by_dictionary(rows)
    got = list(zip(*merged.to_columns().values(), strict=True))
    assert [row[:2] + row[4:] for row in got] == [row[:2] + row[4:] for row in expected]
    np.testing.assert_allclose([row[2:4] for row in got], [row[2:4] for row in expected], rtol=0, atol=1e-12)
    assert merged.p.min() >= 0
    assert merged.p.max() <= 1


def test_merging_with_more_pairs_and_contexts_than_an_integer_counts():
    many = np.broadcast_to(np.array(["x"], dtype=object), (2**32,))  # 2³² · 2³² contexts and judges: the pair overflows
    first, second = np.array([0, 1, 2, 1], dtype=np.int32), np.array([1, 2, 0, 0], dtype=np.int32)
    same, p = np.zeros(4, dtype=np.int32), np.array([0.5, 0.1, 0.2, 0.2])
    merged = Comparisons(np.array(["a", "b", "c"]), first, second, p, None, many, same, many, same).merge_orders()
    assert merged.first.tolist() == [0, 1, 2]
    np.testing.assert_allclose(merged.p, [0.65, 0.1, 0.2])


def test_no_comparisons_merge_to_none():
    comparisons = Comparisons.from_columns(**FULL)
    empty = {name: getattr(comparisons, name)[:0] for name in ("first", "second", "p", "weight", "context", "judge")}
    assert len(replace(comparisons, **empty).merge_orders()) == 0


def test_decisions():
    comparisons = Comparisons.from_matrix(
        [[NAN, np.nextafter(0.5, 0), 0.5 + 1e-9], [0.0, NAN, 1.0], [NAN, 0.5 - 1e-9, NAN]]
    )
    assert comparisons.decisions().p.tolist() == [0.5, 1.0, 0.0, 1.0, 0.0]
    assert comparisons.decisions().first is comparisons.first
    full = Comparisons.from_columns(**FULL).decisions()
    assert plain(full) == FULL | {"p": [1.0, 0.0, 1.0, 0.0]}


SHEET = "first,second,winner\nana,bo,{}\nbo,cy,{}\ncy,ana,{}\n"


@pytest.mark.parametrize(
    "words",
    [
        ("first", "SECOND", "tie"),
        ("A", " b ", "draw"),
        ("left", "right", "Equal"),
        ("ana", "cy", "tie"),
        ("ana", "second", "tie"),
    ],
)
def test_a_winner_is_called_by_its_place_its_letter_or_its_name(tmp_path, words):
    (tmp_path / "sheet.csv").write_text(SHEET.format(*words))
    assert Comparisons.read(tmp_path / "sheet.csv").p.tolist() == [1, 0, 0.5]


def test_rows_without_a_winner_are_left_out_and_counted(tmp_path, caplog):
    (tmp_path / "sheet.csv").write_text(SHEET.format("A", "", "  ") + ",,\n,,\n")
    comparisons = Comparisons.read(tmp_path / "sheet.csv")
    assert plain(comparisons) == {"first": ["ana"], "second": ["bo"], "p": [1.0]}
    [record] = caplog.records
    assert record.getMessage().startswith(f"{tmp_path / 'sheet.csv'}: 2 of 3 ")
    rows = [{"left": "x", "right": "y", "winner": winner} for winner in ("left", None, float("nan"), pandas.NA)]
    assert len(Comparisons.from_rows(rows)) == 1
    assert len(Comparisons.from_frame(pandas.DataFrame(rows))) == 1


def test_the_row_at_fault_keeps_its_line_where_others_are_left_out(tmp_path):
    (tmp_path / "sheet.csv").write_text(SHEET.format("A", "", "neither"))
    with pytest.raises(ComparisonsError, match=r"\(line 4\).*'winner': 'neither' "):
        Comparisons.read(tmp_path / "sheet.csv")


def test_a_name_that_is_also_a_letter_is_told_by_the_other_rows():
    named = [("a", "b", "a"), ("b", "a", "a"), ("b", "c", "c")]  # "c" is no letter of a place
    lettered = [("a", "b", "a"), ("b", "a", "a"), ("x", "y", "b")]  # "b" is no name there
    assert won(named).p.tolist() == [1, 0, 0]
    assert won(lettered).p.tolist() == [1, 1, 0]
    with pytest.raises(ComparisonsError, match=r"row 2, .*'a' "):
        won(named[:2])


def won(rows):
    return Comparisons.from_rows([dict(zip(("first", "second", "winner"), row, strict=True)) for row in rows])


@pytest.mark.parametrize(
    ("rows", "p"),
    [
        ([("Ana", "bo", "ANA"), ("Ana", "bo", "Bo")], [1, 0]),
        ([("ana", "Ana", "Ana"), ("ana", "Ana", "ana")], [0, 1]),
        ([("7", "8", 8.0)], [0]),
        ([(7, 8, 7.0), (8, 7, 7.0)], [1, 0]),
        ([("A", "B", "A"), ("A", "B", "B")], [1, 0]),
    ],
)
def test_a_winner_may_be_a_name_in_any_case(rows, p):
    assert won(rows).p.tolist() == p


@pytest.mark.parametrize("row", [("ana", "ANA", "Ana"), ("B", "A", "A")])
def test_a_winner_that_is_unclear(row):
    with pytest.raises(ComparisonsError, match=f"row 1, .*'{row[2]}' "):
        won([row])


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_labels_that_look_like_formulas_come_back(tmp_path, ending):
    labels = ["=x", "'=x", "''=x", "-5", "+1 more", "@b", "\tq", "\nq", "'tis", "＝x", "-"]
    rows = [(label, "z", 0.7) for label in labels]
    Comparisons.from_rows(rows).write(tmp_path / f"pairs.{ending}")
    assert Comparisons.read(tmp_path / f"pairs.{ending}").to_columns()["first"].tolist() == labels
    if ending == "csv":
        text = (tmp_path / f"pairs.{ending}").read_text()
        cells = [row[0] for row in csv.reader(io.StringIO(text, newline=""))]
        assert [cell for cell in cells if cell[0] in "=+-@\t\r\n＝"] == ["-5"]  # a number is no formula


def test_a_run_folder_is_read_as_its_answers(tmp_path):
    store = Store(tmp_path / "run", {"judge": "x"})
    store.add(
        [
            Judgement(Question(7, "7", "=c"), p=0.75, mass=1.0, weight=3.0),
            Judgement(Question("7", 8, "=c"), error="lost"),
            Judgement(Question("7", 8, "=c"), p=0.25, mass=1.0),
        ]
    )
    store.close()
    for path in (tmp_path / "run", tmp_path / "run" / "judgements.db"):
        assert plain(Comparisons.of(path)) == {
            "first": ["7", 7],
            "second": [8, "7"],
            "p": [0.25, 0.75],
            "weight": [1.0, 3.0],
            "context": ["=c", "=c"],
        }


def test_a_database_that_is_no_runs_is_answered_with_how_to_export(tmp_path):
    with closing(sqlite3.connect(tmp_path / "mine.db")) as connection:
        connection.execute("CREATE TABLE pairs (a, b)")
    (tmp_path / "text.db").write_text("not a database at all, but long enough to look like one" * 99)
    Store(tmp_path / "run", {}).close()
    for name, said in (
        ("mine.db", r".*export .* \.csv"),
        ("text.db", " cannot"),
        ("none.db", " cannot"),
        ("run", " .* yet"),
    ):
        with pytest.raises(ComparisonsError, match=f"{name}{said}"):
            Comparisons.read(tmp_path / name)
