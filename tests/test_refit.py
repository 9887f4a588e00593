"""comparo fit of a run folder: other methods, some of its voices, and what else the folder knows."""

import csv
import re

import pytest

from comparo import Comparisons, ComparisonsError, fit
from stored import ROWS, one_voice, two_voices


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    found = tmp_path_factory.mktemp("runs")
    two_voices(found / "two", control=["price"])
    one_voice(found / "one", rows=[{k: v for k, v in row.items() if k != "group"} for row in ROWS])
    return found


@pytest.fixture
def comparo(run, folder):
    return lambda *arguments: run(folder, arguments)


def scores(done):
    return {(row["context"], row["item"]): float(row["score"]) for row in csv.DictReader(done.stdout.splitlines())}


def test_a_run_is_fitted_by_one_of_its_voices_and_says_so(comparo, folder):
    done = comparo("fit", "two", "--voice", "simulated/hard", "--method", "bt", "--format", "csv")
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r".*\bbt: 60 .*simulated/hard", done.stderr.splitlines()[0])
    rows = [row for row in _rows(folder / "two") if row["judge"] == "simulated/hard"]
    alone = fit(rows, "bt").to_columns()
    own = dict(zip(zip(alone["context"], alone["item"], strict=True), alone["score"], strict=True))
    assert scores(done) == pytest.approx(own)
    both = comparo("fit", "two", "--voice", "simulated/hard", "--voice", "simulated/soft", "--method", "panel")
    assert re.search(r"panel: 120 .*\b2\b.*\(simulated/", both.stderr)
    one = comparo("fit", "one", "--voice", "simulated/soft")
    assert re.search("mixed: 60 .*simulated/soft", one.stderr)


def _rows(path):
    columns = Comparisons.read(path).to_columns()
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def test_voices_are_chosen_in_files_too(comparo, folder):
    Comparisons.read(folder / "two").write(folder / "two.csv")
    files = [
        comparo("fit", name, "--voice", "simulated/soft", "--method", "mixed", "--format", "csv").stdout
        for name in ("two", "two.csv")
    ]
    assert files[0] == files[1]


@pytest.mark.parametrize(
    ("file", "arguments", "message"),
    [
        ("two", ["--voice", "nobody"], "two has no voice 'nobody'; .*simulated/"),
        ("one", ["--voice", "nobody"], "one has no voice 'nobody'; .*simulated/soft"),
        ("plain.csv", ["--voice", "x"], "plain.csv .*column judge,.* --voice"),
        ("two", ["--groups", "--method", "bt"], "--groups .*--method mixed or panel.* --leaderboard"),
        ("plain.csv", ["--groups", "--leaderboard"], "--groups .*--items"),
        ("two", ["--items", "two"], "--items belongs to --control and --groups"),
        ("two", ["--control", "weight", "--method", "mixed"], "the items have no numbers 'weight'"),
    ],
)
def test_mistakes_are_one_line(comparo, folder, file, arguments, message):
    (folder / "plain.csv").write_text("first,second,p\na,b,0.7\n")
    done = comparo("fit", file, *arguments)
    assert done.returncode == 2
    assert re.search(message, done.stderr)
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.long
def test_groups_and_numbers_are_those_of_the_folder(comparo):
    plain = comparo("fit", "two", "--method", "panel", "--format", "csv")
    grouped = comparo("fit", "two", "--method", "panel", "--groups", "--format", "csv")
    assert grouped.returncode == 0, grouped.stderr
    assert scores(grouped) != pytest.approx(scores(plain), abs=1e-6)
    assert scores(grouped).keys() == scores(plain).keys()
    board = comparo("fit", "two", "--method", "mixed", "--groups", "--leaderboard")
    assert sorted(line.split()[0] for line in board.stdout.splitlines()[1:4]) == ["g0", "g1", "g2"]
    held = comparo("fit", "two", "--method", "mixed", "--control", "price", "--format", "csv")
    assert held.returncode == 0, held.stderr
    assert "equal_price_score" in held.stdout


def test_without_a_column_of_groups_the_same_id_in_other_contexts_is_one(comparo):
    board = comparo("fit", "one", "--method", "mixed", "--groups", "--leaderboard")
    assert sorted(line.split()[0] for line in board.stdout.splitlines()[1:7]) == [f"s{k}" for k in range(6)]


def test_comparisons_of_some_judges_hold_nothing_of_the_others():
    rows = [{"first": a, "second": b, "p": 0.7, "judge": j} for a, b, j in [("a", "b", "x"), ("c", "d", "y")]]
    found = Comparisons.from_rows(rows).by_judges(["y"])
    assert (found.items.tolist(), found.judges.tolist()) == (["c", "d"], ["y"])
    with pytest.raises(ComparisonsError, match=r"'z'.* x, y"):
        Comparisons.from_rows(rows).by_judges(["z"])
