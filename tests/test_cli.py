"""The command as a user runs it: once in a process of its own, else in this one."""

import csv
import io
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from comparo import fit

STORIES = Path(__file__).parents[1] / "examples" / "stories.csv"


def test_the_table_is_whole_in_a_pipe():
    command = [sys.executable, "-m", "comparo.cli", "fit", STORIES, "--bias", "joint"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0
    assert run.stderr == ""
    lines = run.stdout.splitlines()
    assert lines[0].split() == ["item", "score", "std", "low", "high", "rank", "tier", "comparisons"]
    assert len(lines) == 13
    assert "…" not in run.stdout
    assert "\x1b" not in run.stdout
    assert lines[1].startswith("The Lighthouse Keeper's Debt ")


@pytest.mark.parametrize("method", ["poe-bt", "poe-g", "win-ratio"])
def test_csv_and_json_are_the_frame(comparo, method):
    frame = fit(STORIES, method=method).to_frame("pandas")
    rows = list(csv.DictReader(io.StringIO(comparo("fit", STORIES, "--method", method, "--format", "csv").stdout)))
    assert [row["item"] for row in rows] == frame["item"].tolist()
    assert [float(row["score"]) for row in rows] == pytest.approx(frame["score"].tolist())
    document = json.loads(comparo("fit", STORIES, "--method", method, "--format", "json").stdout)
    assert [row["low"] for row in document["ranking"]] == pytest.approx(frame["low"].tolist())
    assert document["method"] == method


def test_the_best_of_each_context(comparo, tmp_path):
    file = tmp_path / "two.csv"
    file.write_text("context,first,second,p\nx,a,b,0.9\nx,b,c,0.9\ny,c,b,0.9\n", encoding="utf-8")
    run = comparo("fit", file, "--top", "1", "--format", "csv")
    assert [line.split(",")[:2] for line in run.stdout.splitlines()[1:]] == [["x", "a"], ["y", "c"]]


def test_the_reader_is_warned_of_groups(comparo, tmp_path):
    file = tmp_path / "groups.jsonl"
    file.write_text('{"first":"a","second":"b","p":0.9}\n{"first":"c","second":"d","p":0.9}\n', encoding="utf-8")
    run = comparo("fit", file, "--format", "csv")
    assert run.returncode == 0
    assert run.stderr.startswith("Note: ")
    assert run.stdout.startswith("component,item,score")
    assert run.stdout.count("\n") == 5


@pytest.mark.parametrize(
    ("content", "arguments", "message"),
    [
        ("first,second,p\na,b,1.2\n", [], "row 1 (line 2), column 'p': 1.2"),
        ("first,second,p\na,a,0.2\n", [], "row 1 (line 2)"),
        ("one,two,p\na,b,0.2\n", [], "'first'"),
        ("first,second,p\na,b,0.2\n", ["--prior", "wide"], "'first' or 'estimated', not 'wide'"),
        ("first,second,p\na,b,0.2\n", ["--method", "bt", "--bias", "joint"], "'bt' has no bias term"),
        ("first,second,p\na,b,0.2\n", ["--level", "95"], "--level 95.0"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_two(comparo, tmp_path, content, arguments, message):
    file = tmp_path / "pairs.csv"
    file.write_text(content, encoding="utf-8")
    run = comparo("fit", file, *arguments)
    assert run.returncode == 2
    assert run.stdout == ""
    assert message in run.stderr
    assert len(run.stderr.splitlines()) == 1


@pytest.fixture
def asked(tmp_path):
    """Five items, and two comparisons of them."""
    items, answers = tmp_path / "items.csv", tmp_path / "asked.csv"
    items.write_text("id,text\n" + "".join(f"{name},text\n" for name in "abcde"), encoding="utf-8")
    answers.write_text("first,second,p\na,b,0.9\nb,c,0.6\n", encoding="utf-8")
    return items, answers


def pairs_of(run):
    assert run.returncode == 0, run.stderr
    return [tuple(row.values()) for row in csv.DictReader(io.StringIO(run.stdout))]


def test_the_next_pairs_are_new_and_join_everything(comparo, asked):
    items, answers = asked
    options = ("--asked", answers, "--next", 4, "--strategy", "adaptive", "--orders", "one")
    pairs = pairs_of(comparo("plan", items, *options))
    assert len(pairs) == 4
    seen = {frozenset(pair) for pair in pairs}
    assert len(seen) == 4
    assert not seen & {frozenset("ab"), frozenset("bc")}
    assert set("de") <= set().union(*seen)
    assert pairs == pairs_of(comparo("plan", items, *options))
    assert pairs != pairs_of(comparo("plan", items, *options, "--seed", 1))


def test_pairs_as_json_lines_in_both_orders(comparo, asked):
    items, _ = asked
    run = comparo("plan", items, "--next", 4, "--orders", "both", "--strategy", "greedy", "--format", "jsonl")
    rows = [json.loads(line) for line in run.stdout.splitlines()]
    assert [row["first"] for row in rows[::2]] == [row["second"] for row in rows[1::2]]


def test_pairs_by_the_contrast_of_texts(comparo, tmp_path):
    texts = [
        "A grey cat sat on the mat.",
        "Dogs run through the park!",
        "It rained on Tuesday, again.",
        "Why not eat soup?",
    ]
    rows = [{"id": f"{n}{twin}", "story": text + twin} for n, text in enumerate(texts) for twin in ("", "!")]
    items = tmp_path / "items.jsonl"
    items.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    pairs = pairs_of(comparo("plan", items, "--columns", "text=story", "--next", 48))
    assert len({frozenset(pair) for pair in pairs}) == 24
    assert not [pair for pair in pairs if pair[0][0] == pair[1][0]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--next", 9, "--orders", "one"], r"9 calls .*\b8\b.*5 items .*10 pairs"),
        (["--next", 2, "--goal", "best"], "goal .*'ranking' or 'top-'"),
        (["--next", 2, "--goal", "top-5"], "decides nothing among 5 items"),
    ],
)
def test_pairs_that_cannot_be_had(comparo, asked, arguments, message):
    items, answers = asked
    run = comparo("plan", items, "--asked", answers, *arguments)
    assert run.returncode == 2
    assert re.search(message, run.stderr)


def test_an_answer_about_an_unknown_item_is_said(comparo, asked):
    items, answers = asked
    answers.write_text("first,second,p\na,z,0.9\n", encoding="utf-8")
    run = comparo("plan", items, "--asked", answers, "--next", 2)
    assert run.returncode == 2
    assert re.search("'z', .*5 items", run.stderr)


@pytest.mark.parametrize(
    ("column", "options", "model"),
    [
        ("judge", (), "mixed"),
        ("voter", (), "mixed"),
        ("voter", ("--method", "mixed"), None),
        ("judge", ("--method", "mixed"), None),
        ("voter", ("--method", "bt"), None),
    ],
)
def test_which_model_was_chosen_for_answers_with_a_judge_or_voter_is_said_once(
    comparo, tmp_path, column, options, model
):
    rows = ["a,b,1,x", "b,c,1,y", "a,c,1,x", "c,a,1,y", "c,d,1,x", "b,d,1,y"]
    (tmp_path / "answers.csv").write_text("\n".join([f"first,second,p,{column}", *rows]))
    done = comparo("fit", "answers.csv", *options, "--format", "json")
    said = [line for line in done.stderr.splitlines() if line.startswith("fitted by")]
    assert [re.match(r"fitted by ([\w-]+)", line)[1] for line in said] == [model] * (model is not None)
    if model:
        assert json.loads(done.stdout)["method"] == model
