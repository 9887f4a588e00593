"""Sheets for people who judge elsewhere: shared out, written, filled in and read again."""

import csv
import importlib.util
import io
import random
import re
from itertools import combinations, pairwise
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from comparo import Comparisons, ComparisonsError, Items, fit
from inside import CELL, next_pairs, read_several, share_out, sheet_columns, write_sheets
from workbooks import cells, fill

NAMES = [f"essay {number}" for number in range(12)]


def rows_of(done):
    return list(csv.DictReader(io.StringIO(done.stdout)))


@pytest.fixture
def essays(tmp_path):
    """A folder of texts, with formulas, quotes, lines and letters of other alphabets among them."""
    folder = tmp_path / "essays"
    folder.mkdir()
    for number, name in enumerate(NAMES):
        ending = ".md" if number % 2 else ".txt"
        text = f'=HYPERLINK("http://evil/{number}")\n„Schöner“ text, «тоже» {"x" * (number + 1)}'
        (folder / f"{name}{ending}").write_text(text, encoding="utf-8")
    return folder


# Sharing out

SHARES = st.tuples(st.integers(1, 40), st.integers(1, 5), st.floats(0, 1), st.integers(0, 9), st.booleans())


@given(SHARES)
def test_no_judge_gets_a_pair_twice_and_all_get_as_many(drawn):
    calls, judges, twice, seed, several = drawn
    contexts = {"x": list(range(10)), "y": list(range(10))} if several else {None: list(range(10))}
    columns = next_pairs(contexts, calls, orders="one", strategy="random", seed=seed)
    names = [f"judge {number}" for number in range(judges)]
    shared = share_out(columns, names, twice=twice, seed=seed)
    rows = {name: list(zip(*part.values(), strict=True)) for name, part in shared.items()}
    pairs = {name: [(frozenset(row[:2]), *row[2:]) for row in part] for name, part in rows.items()}
    assert all(len(set(part)) == len(part) for part in pairs.values())
    counted = [sum(pair in part for part in pairs.values()) for pair in {p for part in pairs.values() for p in part}]
    chosen = len(columns["first"])
    assert len(counted) == chosen
    assert counted.count(2) == (round(twice * chosen) if judges > 1 else 0)
    assert max(counted) <= 2
    loads = [len(part) for part in rows.values()]
    assert max(loads) - min(loads) <= 1
    for part in rows.values():
        first, second = ([(row[side], *row[2:]) for row in part] for side in (0, 1))
        assert all(abs(first.count(text) - second.count(text)) <= 3 for text in {*first, *second})
        if several:  # a context is read once
            order = [row[2] for row in part]
            assert sum(one != other for one, other in pairwise(order)) <= 1


def test_what_was_handed_out_before_goes_to_others():
    columns = {"first": ["a", "b", "c"], "second": ["b", "c", "a"]}
    before = Comparisons.from_columns(["b", "c"], ["a", "b"], [1, 0], judge=["ana", "ana"])
    shared = share_out(columns, ["ana", "bo"], twice=0, asked=before, seed=0)
    assert {frozenset(pair) for pair in zip(*shared["bo"].values(), strict=True)} >= {frozenset("ab"), frozenset("bc")}
    for judges, twice, asked, said in (
        (["ana"], 0.2, before, "'a' and 'b', and ana"),
        (["ana", "bo"], 1, before, "two judges"),
        (["ana", "ana"], 0.2, None, "ana, ana"),
        ([], 0.2, None, "none"),
        (["a"], 2, None, "share"),
    ):
        with pytest.raises(ValueError, match=said):
            share_out(columns, judges, twice=twice, asked=asked)


def test_positions_are_balanced_for_each_judge():
    columns = next_pairs({None: list(range(20))}, 150, orders="one", seed=0)
    for part in share_out(columns, ["ana", "bo", "cy"], seed=0).values():
        first, second = (np.bincount(part[side], minlength=20) for side in ("first", "second"))
        assert np.max(np.abs(first - second)) <= 2


# Writing


def test_a_sheet_has_both_texts_and_no_cell_is_executed(comparo, essays, tmp_path):
    done = comparo("plan", "essays", "--next", 30, "--for", "ana, bo", "--sheet")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [f"sheets/{name}.{kind}" for name in ("ana", "bo") for kind in ("csv", "xlsx")]
    assert re.search(r"18, bo 18\..*winner.*sheets/\*\.xlsx", done.stderr)
    texts = {file.stem: file.read_text(encoding="utf-8") for file in essays.iterdir()}
    for name in ("ana", "bo"):
        book = tmp_path / "sheets" / f"{name}.xlsx"
        rows = cells(book)
        assert list(rows[0]) == ["text A", "text B", "winner", "first", "second", "voter"]
        assert all((row["text A"], row["text B"]) == (texts[row["first"]], texts[row["second"]]) for row in rows)
        assert {(row["winner"], row["voter"]) for row in rows} == {("", name)}
        plain = cells(book.with_suffix(".csv"))
        assert [{**row, "text A": 0, "text B": 0} for row in plain] == [
            {**row, "text A": 0, "text B": 0} for row in rows
        ]
        assert all(row["text A"].startswith("'=") for row in plain)
        xml = ZipFile(book).read("xl/worksheets/sheet1.xml").decode()
        assert not any(part in xml for part in ("<f>", "hyperlink"))
        choice = ('<dataValidation type="list"', f'sqref="C2:C{len(rows) + 1}"', '<formula1>"A,B,equal"</formula1>')
        assert all(part in xml for part in (*choice, 'ySplit="1" topLeftCell="A2"', 'state="frozen"'))
        assert 'wrapText="1"' in ZipFile(book).read("xl/styles.xml").decode()


@pytest.mark.parametrize("kind", ["csv", "xlsx"])
@pytest.mark.usefixtures("essays")
def test_answers_are_never_overwritten(comparo, tmp_path, kind):
    order = ("plan", "essays", "--next", 10, "--for", "ana,bo", "--sheet")
    assert comparo(*order).returncode == 0
    assert comparo(*order, "--seed", 1).returncode == 0  # nothing was filled in
    answers = iter("A     ")
    fill(tmp_path / "sheets" / f"bo.{kind}", lambda _: next(answers).strip())
    filled = {path.name: path.read_bytes() for path in (tmp_path / "sheets").iterdir()}
    done = comparo(*order, "--seed", 2)
    assert done.returncode == 2
    assert re.fullmatch(rf".*sheets/bo\.{kind} .*\b1 answers .*--out.*\n", done.stderr)
    assert {path.name: path.read_bytes() for path in (tmp_path / "sheets").iterdir()} == filled
    assert comparo(*order, "--out", "later").stdout.startswith("later/ana.csv")
    for content, said in ((b"my,notes\n1,2\n", "no sheet"), (b"\xff\xfe", "cannot be read")):
        (tmp_path / "later" / "ana.csv").write_bytes(content)
        assert re.search(rf"later/ana\.csv .*{said}", comparo(*order, "--out", "later").stderr)


def test_contexts_are_shown_and_named(tmp_path):
    rows = [
        {"id": n, "text": f"{c} {n}", "context": f"The text of {c}. " * 9, "context_id": c}
        for c in "xy"
        for n in (1, 2, 3)
    ]
    items = Items.of(rows)
    shared = share_out(next_pairs(items.names, 2, orders="one", seed=0), ["ana"], seed=0)
    columns = sheet_columns(shared["ana"], "ana", items)
    assert list(columns) == ["context_text", "text A", "text B", "winner", "first", "second", "context", "voter"]
    shown = zip(columns["context_text"], columns["context"], strict=True)
    assert all(text.startswith(f"The text of {c}.") for text, c in shown)
    paths = write_sheets(tmp_path, shared, items)
    fill(paths[1], lambda _: "A")
    assert set(Comparisons.read(paths[1]).contexts) == {"x", "y"}


def test_a_text_that_no_cell_holds_is_cut_and_says_so(tmp_path):
    items = Items.of({"long": "😀" * CELL, "short": "Short."})
    paths = write_sheets(tmp_path, {"ana": {"first": ["long"], "second": ["short"]}}, items)
    text = cells(paths[1])[0]["text A"]
    assert len(text.encode("utf-16-le")) // 2 <= CELL
    assert re.search(r"\.csv[^]]*\]$", text)
    assert cells(paths[0])[0]["text A"] == "😀" * CELL


def test_texts_get_other_names_where_an_item_is_called_so(tmp_path):
    items = Items.of({"a": "One.", "left": "Two.", "c": "Three."})
    pairs = {"first": ["c", "a"], "second": ["a", "left"]}
    columns = sheet_columns(pairs, "zoe", items)
    assert "text first" in columns
    paths = write_sheets(tmp_path, {"zoe": pairs}, items)
    assert '"first,second,draw"' in ZipFile(paths[1]).read("xl/worksheets/sheet1.xml").decode()
    fill(paths[1], lambda _: "first")
    assert Comparisons.read(paths[1]).p.tolist() == [1, 1]


def test_judges_whose_names_make_no_file():
    items = Items.of({"a": "One.", "b": "Two."})
    pairs = {"first": ["a"], "second": ["b"]}
    for names, said in ((["a/b", "a b"], "a/b, a b"), ([".."], r"'\.\.'")):
        with pytest.raises(ComparisonsError, match=said):
            write_sheets(Path("nowhere"), dict.fromkeys(names, pairs), items)


# Reading


@pytest.mark.long
@pytest.mark.usefixtures("essays")
def test_sheets_come_back_filled_in(comparo, tmp_path):
    """Two people fill in .xlsx files in their own way; the second round leaves out what they had."""
    comparo("plan", "essays", "--next", 40, "--for", "ana,bo", "--sheet")
    better, luck = {name: number for number, name in enumerate(NAMES)}, random.Random(0)

    def answer(row):
        if luck.random() < 0.1:
            return luck.choice(["", "  "])
        if luck.random() < 0.1:
            return luck.choice(["equal", "Tie ", " DRAW"])
        won = better[row["first"]] > better[row["second"]]
        name = row["first"] if won else row["second"]
        return luck.choice(
            [["A", "a ", "Left", "FIRST"], ["B", " b", "right\u00a0", "second"]][not won] + [name, name.upper()]
        )

    rows = [row for name in ("ana", "bo") for row in fill(tmp_path / "sheets" / f"{name}.xlsx", answer)]
    blank = [sum(not row["winner"].strip() for row in part) for part in (rows[:24], rows[24:])]
    done = comparo("fit", *sorted((tmp_path / "sheets").glob("*.xlsx")), "--format", "csv")
    assert done.returncode == 0, done.stderr
    files = [tmp_path / "sheets" / f"{name}.xlsx" for name in ("ana", "bo")]
    assert ", ".join(f"{left} of 24 in {file}" for left, file in zip(blank, files, strict=True)) in done.stderr
    sheets = read_several(files)
    assert fit(sheets).method == "mixed"
    assert fit(sheets).to_csv().splitlines() == done.stdout.splitlines()
    assert comparo("fit", "sheets", "--format", "csv").stdout == done.stdout
    found = rows_of(done)
    assert found[0]["item"] in NAMES[-3:]
    assert found[-1]["item"] in NAMES[:3]
    assert sum(int(row["comparisons"]) for row in found) == 2 * (48 - sum(blank))

    both = sorted((tmp_path / "sheets").iterdir())  # the .csv files were never filled in
    again = comparo("fit", *both, "--format", "csv")
    assert again.stdout == done.stdout
    assert f"24 of 24 in {tmp_path / 'sheets' / 'ana.csv'}" in again.stderr
    one = comparo("fit", tmp_path / "sheets" / "ana.xlsx")
    assert "judges: method" not in one.stderr

    asked = [part for path in both for part in ("--asked", path)]
    later = comparo("plan", "essays", "--next", 20, "--for", "ana,bo", *asked, "--out", "later", "--sheet")
    assert later.returncode == 0, later.stderr
    had = {frozenset((row["first"], row["second"])) for row in rows}
    new = [row for name in ("ana", "bo") for row in cells(tmp_path / "later" / f"{name}.xlsx")]
    assert len(new) == 24
    assert not had & {frozenset((row["first"], row["second"])) for row in new}
    left = 12 * 11 // 2 - len(had)
    many = comparo("plan", "essays", "--next", left + 1, "--for", "ana,bo", *asked, "--out", "later", "--sheet")
    assert re.search(rf"\b{left + 1} calls .*\b{left}\b", many.stderr)


def test_ids_that_look_like_formulas_or_numbers_come_back(tmp_path):
    names = ["=1+1", "'=x", "-5", "007", "+49", "@me", " padded ", "two\nlines", "1e5", "TRUE", "ü"]
    items = Items.of({name: f"Text of {name}" for name in names})
    pairs = {"first": names[:-1], "second": names[1:]}
    for path in write_sheets(tmp_path, {"=ana": pairs}, items):
        fill(path, lambda _: "A")
        read = Comparisons.read(path).to_columns()
        assert (read["first"].tolist(), read["second"].tolist()) == (names[:-1], names[1:])
        assert set(read["voter"]) == {"=ana"}


def test_an_excel_of_other_countries_saves_semicolons(comparo, tmp_path):
    (tmp_path / "a.csv").write_text("\ufefffirst;second;winner;judge\r\nü;b;A;ana\r\nb;c; ;ana\r\n", encoding="utf-8")
    (tmp_path / "b.csv").write_text("first\tsecond\twinner\tjudge\nü\tb\tb\tbo\n", encoding="utf-8")
    for paths in ([tmp_path], [tmp_path / "a.csv", tmp_path / "b.csv"]):  # a folder is read as its files
        read = read_several(paths).to_columns()
        assert (read["first"].tolist(), read["p"].tolist()) == (["ü", "ü"], [1, 0])
        assert read["judge"].tolist() == ["ana", "bo"]
    (tmp_path / "a.csv").write_bytes("first;second;winner\r\nü;b;A\r\n".encode("cp1252"))
    done = comparo("fit", "a.csv")
    assert (done.returncode, "not UTF-8" in done.stderr) == (2, True)


def written(folder, name, text):
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def test_several_files_are_one(tmp_path, caplog):
    ana = written(tmp_path, "ana.csv", "first,second,winner,judge\n1,2,A,ana\n2,3,,ana\n1,3,B,ana\n")
    bo = written(tmp_path, "bo.jsonl", '{"first": 2, "second": 1, "p": 0.25, "judge": "bo", "weight": 2}\n')
    read = read_several([ana, bo, ana])  # the same file twice is one file
    assert read.to_columns()["first"].tolist() == ["1", "1", "2"]
    assert (read.p.tolist(), read.weight.tolist()) == ([1, 0, 0.25], [1, 1, 2])
    [said] = caplog.messages
    assert said.endswith(f": 1 of 3 in {ana}")
    kept = read_several([ana], is_kept=True)
    assert np.isnan(kept.p).tolist() == [False, True, False]
    copy = written(tmp_path, "copy.csv", ana.read_text())
    assert read_several([ana, copy, bo]).p.tolist() == [1, 0, 0.25]
    assert re.search("2 answers .*equal", caplog.text)
    other = written(tmp_path, "other.csv", "first,second,winner,judge\n1,2,B,ana\n")
    assert read_several([ana, other]).p.tolist() == [1, 0, 0]  # the judge was of another mind
    assert re.search("1 answers .*differ", caplog.text)


JUDGED, PLAIN = "first,second,p,judge\na,b,1,ana\n", "first,second,p\na,b,1\n"


@pytest.mark.parametrize(
    ("texts", "place"),
    [
        ((JUDGED, PLAIN), "1.csv .*'judge' and .*0.csv"),
        ((JUDGED.replace("judge", "context"), PLAIN), "1.csv .*'context' and .*0.csv"),
        (("first,second,winner\na,b,\n",) * 2, "0.csv and 1 more .*winner"),
        ((PLAIN, "first,second,p\na,b,7\n"), r"1.csv, row 1 \(line 2\), column 'p': 7.0 "),
    ],
)
def test_files_that_do_not_go_together(tmp_path, texts, place):
    with pytest.raises(ComparisonsError, match=place):
        read_several([written(tmp_path, f"{number}.csv", text) for number, text in enumerate(texts)])


# The command


def test_pairs_for_judges_without_a_sheet(comparo, tmp_path):
    written(tmp_path, "items.jsonl", "".join(f'{{"id": {n}, "text": "Text {n}."}}\n' for n in range(6)))
    done = comparo("plan", "items.jsonl", "--next", 10, "--for", "ana,bo", "--twice", 0.5)
    voters = [row["voter"] for row in rows_of(done)]
    assert sorted(voters) == voters
    assert sorted(map(voters.count, ("ana", "bo"))) == [7, 8]
    assert len(voters) == 15
    answers = "first,second,winner,judge\n" + "".join(f"{a},{b},A,ana\n" for a, b in combinations(range(5), 2))
    written(tmp_path, "answers.csv", answers)  # text where the items have numbers
    done = comparo("plan", "items.jsonl", "--asked", "answers.csv", "--next", 5, "--for", "ana")
    assert {"5" in (row["first"], row["second"]) for row in rows_of(done)} == {True}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--sheet"], "--for ana,bo"),
        (["--for", " , ", "--sheet"], "--sheet needs"),
        (["--for", "ana", "--orders", "both"], "--orders"),
        (["--for", "ana,ana"], "ana, ana"),
    ],
)
@pytest.mark.usefixtures("essays")
def test_sheets_that_cannot_be_had(comparo, tmp_path, arguments, said):
    done = comparo("plan", "essays", "--next", 4, *arguments)
    assert (done.returncode, said in done.stderr) == (2, True)
    assert not (tmp_path / "sheets").exists()


@pytest.mark.usefixtures("essays")
def test_without_xlsxwriter_there_is_csv(comparo, monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "xlsxwriter" else found(name))
    done = comparo("plan", "essays", "--next", 4, "--for", "ana", "--sheet")
    assert done.stdout == "sheets/ana.csv\n"
    assert all(part in done.stderr for part in ("[data]", "sheets/*.csv"))


def test_items_without_texts_have_sheets_of_names(comparo, tmp_path):
    written(tmp_path, "names.csv", "id\nana\nbo\ncy\n")
    done = comparo("plan", "names.csv", "--next", 2, "--for", "zoe", "--sheet")
    assert "no texts" in done.stderr
    assert list(cells(tmp_path / "sheets" / "zoe.xlsx")[0]) == ["first", "second", "winner", "voter"]


def test_the_name_of_a_column_does_not_choose_the_model(tmp_path, comparo):
    rows = [("x", "y", "A"), ("y", "z", "A"), ("x", "z", "B"), ("z", "y", "B")]
    for name in ("judge", "voter"):
        for who in ("one", "two"):
            lines = "".join(f"{first},{second},{winner},{who}\n" for first, second, winner in rows)
            (tmp_path / f"{name}-{who}.csv").write_text(f"first,second,winner,{name}\n{lines}")
    votes, judges = (
        read_several([tmp_path / f"{name}-{who}.csv" for who in ("one", "two")]) for name in ("voter", "judge")
    )
    assert (fit(votes).method, fit(judges).method) == ("mixed", "mixed")
    assert fit(votes.by_judges(["one"])).method == "mixed"
    assert not read_several([tmp_path / "voter-one.csv", tmp_path / "judge-two.csv"]).voted
    done = comparo("fit", "judge-one.csv", "judge-two.csv", "--format", "csv")
    assert done.stdout.splitlines() == fit(judges, "mixed").to_csv().splitlines()


def test_a_sheet_of_a_person_is_not_taken_for_the_judge(tmp_path, comparo):
    for judge in ("ana", "bo", "cy"):
        (tmp_path / f"{judge}.csv").write_text(f"winner,first,second,judge\nA,x,y,{judge}\nB,y,z,{judge}\n")
    done = comparo("agree", "ana.csv", "bo.csv", "cy.csv")
    assert done.returncode != 0
    assert all(part in done.stderr for part in ("ana.csv", "--people"))
