"""comparo judge --out: nothing is asked twice, and every line of the file is whole, whatever ends the command."""

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest

from openai_models import LUNA, O3
from servers import Api, tokens

YES = tokens({"A": 0.7, "B": 0.3})
FULL = (
    "import resource, signal, sys; from comparo.cli.app import main; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
    "resource.setrlimit(resource.RLIMIT_FSIZE, ({0}, {0})); main()"
)


def command(folder, *more, out="judged.csv"):
    return ["judge", "pairs.csv", "--items", "items.jsonl", "--criterion", "better", "--out", str(folder / out), *more]


def process(folder, code, arguments):
    """The command in a process of its own."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("COMPARO_", "OPENAI_"))}
    started = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(started, cwd=folder, env=variables, capture_output=True, text=True)


def ask(api):
    return "--judge", "openai/any", "--base-url", api.url, "-o", "retries=0", "-o", "timeout=5"


def prepare(folder, ids, contexts=(None,)):
    rows = [{"id": label, "text": f"Text {label}.", "context_id": context} for context in contexts for label in ids]
    rows = [{name: value for name, value in row.items() if value is not None} for row in rows]
    (folder / "items.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    pairs = [(context, a, b) for context in contexts for a in ids for b in ids if a != b]
    with (folder / "pairs.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("context", "first", "second"), *pairs])
    return len(pairs)


def judged(path):
    if path.suffix == ".csv":
        with path.open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("out", ["judged.csv", "judged.jsonl"])
@pytest.mark.parametrize(
    ("ids", "contexts"),
    [
        ([1, 2, 3], (None,)),
        (["=a", "-5", "b\nc\rd"], (None,)),
        ([1, 2], (1.5, 2.0)),
        (["x", "y"], (0, 1)),
        ([-1, "two"], ("+c", "@d")),
    ],
)
def test_the_same_command_asks_nothing_twice_whatever_the_labels(run, tmp_path, out, ids, contexts):
    pairs = prepare(tmp_path, ids, contexts)
    with Api(YES) as api:
        for _ in range(2):
            done = run(tmp_path, command(tmp_path, *ask(api), out=out))
            assert done.returncode == 0, done.stderr
            assert len(api.asked) == pairs
    assert len(judged(tmp_path / out)) == pairs
    fitted = run(tmp_path, ["fit", out, "--format", "json"])
    assert fitted.returncode == 0, fitted.stderr
    items = {row["item"] for row in json.loads(fitted.stdout)["ranking"]}
    assert items == set(map(str, ids)) if out.endswith("csv") else set(ids)


@pytest.mark.long
@pytest.mark.parametrize("out", ["judged.csv", "judged.jsonl"])
@pytest.mark.parametrize("room", [30, 500])
def test_a_full_disk_leaves_whole_lines_and_the_same_command_goes_on(run, tmp_path, out, room):
    pairs = prepare(tmp_path, [1, 2, 3, 4])
    with Api(YES) as api:
        done = process(tmp_path, FULL.format(room), command(tmp_path, *ask(api), out=out))
        assert done.returncode == 1
        assert re.search(rf"{re.escape(str(out))} .*\(File too large\)", done.stderr)
        assert "the same command" in done.stderr
        assert "Traceback" not in done.stderr
        path = tmp_path / out
        text = path.read_text() if path.exists() else ""
        assert text == "" or text.endswith("\n")
        kept = len(judged(path)) if text else 0
        assert kept < pairs
        assert (kept > 0) == (room >= 500)
    with Api(YES) as api:  # another server, which hears nothing late of the calls that ended with the first command
        again = run(tmp_path, command(tmp_path, *ask(api), out=out))
        assert again.returncode == 0, again.stderr
        assert len(api.asked) == pairs - kept
    assert len(judged(path)) == pairs


@pytest.mark.parametrize("out", ["judged.csv", "judged.jsonl"])
def test_half_a_line_that_a_kill_left_is_removed_wherever_it_was_cut(run, tmp_path, out):
    pairs = prepare(tmp_path, ["a", 'b "quoted",\nover lines', "c"])
    judge = ("--judge", "simulated/soft")
    path = tmp_path / out
    assert run(tmp_path, command(tmp_path, *judge, out=out)).returncode == 0
    whole = path.read_bytes()
    rows = judged(path)
    inside = whole.rindex(b"over lines")  # behind a newline that is no line's end
    for cut in (3, len(whole) // 3, inside, inside + 20, len(whole) - 1):
        path.write_bytes(whole[:cut])
        done = run(tmp_path, command(tmp_path, *judge, out=out))
        assert done.returncode == 0, done.stderr
        assert f"{out} ended in half a line" in done.stderr
        assert sorted(map(str, judged(path))) == sorted(map(str, rows))
    path.write_bytes(whole)
    done = run(tmp_path, command(tmp_path, *judge, out=out))
    assert "half a line" not in done.stderr
    assert done.stderr.startswith("0 judgements")
    assert path.read_bytes() == whole
    assert len(rows) == pairs


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("notes.csv", "dear diary,p\nx,1\n", "has no column 'first'; choose another"),
        ("notes.csv", "dear diary", "holds something else than judgements"),
        ("notes.csv", "first,second,p,error,mood\na,b,1,,good\n", "column 'mood'"),
        ("notes.jsonl", '{"first": 1}\n', "has no column 'second'"),
        ("notes.jsonl", "dear diary\n", "has no column 'first'"),
        ("notes.jsonl", "dear diary", "holds something else than judgements"),
        ("notes.txt", "", ".csv or a .jsonl file"),
        ("notes.parquet", "", ".csv or a .jsonl file"),
        ("none/notes.csv", None, "(No such file or directory)"),
    ],
)
def test_another_file_is_refused_and_stays_as_it_is(run, tmp_path, name, content, message):
    prepare(tmp_path, ["a", "b"])
    if content is not None:
        (tmp_path / name).write_text(content)
    done = run(tmp_path, command(tmp_path, "--judge", "simulated/soft", out=name))
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    if content is not None:
        assert (tmp_path / name).read_text() == content


def test_a_file_with_fewer_or_other_columns_of_its_own_keeps_them(run, tmp_path):
    prepare(tmp_path, [1, 2])
    (tmp_path / "judged.csv").write_text("p,second,first,error\n0.5,2,1,\n,1,2,lost\n")
    done = run(tmp_path, command(tmp_path, "--judge", "simulated/soft"))
    assert done.returncode == 0, done.stderr
    rows = judged(tmp_path / "judged.csv")
    assert [(row["first"], row["second"]) for row in rows] == [("1", "2"), ("2", "1"), ("2", "1")]
    assert list(rows[0]) == ["p", "second", "first", "error"]
    assert 0 < float(rows[2]["p"]) < 1


def test_labels_that_csv_cannot_tell_apart_are_refused(run, tmp_path):
    pairs = prepare(tmp_path, [7, "7"])
    (tmp_path / "pairs.csv").unlink()
    (tmp_path / "pairs.jsonl").write_text('{"first": 7, "second": "7"}\n{"first": "7", "second": 7}\n')
    judge = ["judge", "pairs.jsonl", "--items", "items.jsonl", "--judge", "simulated/soft", "--out"]
    done = run(tmp_path, [*judge, "judged.csv"])
    assert (done.returncode, (tmp_path / "judged.csv").exists()) == (2, False)
    assert "7 and '7'" in done.stderr
    assert ".jsonl" in done.stderr
    for _ in range(2):
        assert run(tmp_path, [*judge, "judged.jsonl"]).returncode == 0
    assert len(judged(tmp_path / "judged.jsonl")) == pairs


@pytest.mark.long
def test_two_commands_do_not_write_to_one_file_and_a_kill_loses_no_line(run, tmp_path):
    pairs = prepare(tmp_path, list(range(1, 9)))
    slow = command(tmp_path, "--judge", "simulated/soft", "-o", "seconds=0.2")
    start = [sys.executable, "-m", "comparo.cli", *slow]
    first = subprocess.Popen(start, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    path = tmp_path / "judged.csv"
    for _ in range(600):
        if path.exists() and path.read_text().count("\n") > 3:
            break
        time.sleep(0.05)
    second = run(tmp_path, slow)
    first.send_signal(signal.SIGKILL)
    first.wait()
    assert second.returncode == 1
    assert "judged.csv is in use" in second.stderr
    kept = len(judged(path))
    assert 0 < kept < pairs
    done = run(tmp_path, command(tmp_path, "--judge", "simulated/soft"))
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith(f"{pairs - kept} judgements")
    assert len({(row["first"], row["second"]) for row in judged(path)}) == len(judged(path)) == pairs


def test_a_reply_that_cannot_be_written_takes_no_other_answer_with_it(run, tmp_path):
    pairs = prepare(tmp_path, ["a", "b"])
    odd = tokens({"A": 0.7, "B": 0.3})
    odd.body["choices"][0]["message"]["content"] = "A \ud83d \0 =1+1"
    for out in ("judged.csv", "judged.jsonl"):
        with Api(odd) as api:
            for _ in range(2):
                done = run(tmp_path, command(tmp_path, *ask(api), out=out))
                assert done.returncode == 0, done.stderr
            assert len(api.asked) == pairs
        assert len(judged(tmp_path / out)) == pairs


def test_a_judge_that_cannot_be_made_leaves_no_file(run, tmp_path):
    prepare(tmp_path, ["a", "b"])
    done = run(tmp_path, command(tmp_path, "--judge", "oracle/delphi"))
    assert done.returncode == 2
    assert not (tmp_path / "judged.csv").exists()


def test_the_judge_is_probed_once_and_what_it_takes_is_kept_in_the_cache(run, tmp_path):
    pairs = prepare(tmp_path, ["number 3", "number 7"])
    key = {"OPENAI_API_KEY": "sk-test-0123456"}
    asked = ("--judge", "openai/gpt-6-luna", "-o", "retries=0")
    with Api(LUNA) as api:
        for out, calls in (("first.csv", pairs), ("second.csv", 0)):
            done = run(tmp_path, command(tmp_path, *asked, "--base-url", api.url, out=out), **key)
            assert done.returncode == 0, done.stderr
            assert ("of 20 tokens, effort none" in done.stderr) == (calls > 0)
            assert len(api.asked) == pairs  # none of them is refused, since the probe has shown what is
        assert (
            "1 call, 108 tokens, $0.000014"
            in run(
                tmp_path, command(tmp_path, *asked, "--base-url", api.url, "--cache", "off", out="third.csv"), **key
            ).stderr
        )
        made = len(api.requests)
        run(tmp_path, command(tmp_path, *asked, "--base-url", api.url, "--cache", "off", out="third.csv"), **key)
        assert len(api.requests) == made  # with all answers in the file, nothing is probed either


def test_a_setting_that_cannot_work_is_refused_before_the_first_pair(run, tmp_path):
    prepare(tmp_path, ["number 3", "number 7"])
    with Api(O3) as api:
        done = run(
            tmp_path,
            command(tmp_path, "--judge", "openai/o3", "--base-url", api.url, "-o", "retries=0"),
            OPENAI_API_KEY="sk-test-0123456",
        )
        assert api.asked == []
    assert (done.returncode, done.stdout) == (1, "")
    assert "votes=5" in done.stderr
    assert not (tmp_path / "judged.csv").exists()
