"""comparo judge: nothing is asked twice, and every line can be read again."""

import csv
import io
import json
import math

import pytest

from openai_models import LUNA
from servers import Api, tokens

YES = tokens({"A": 0.7, "B": 0.3})


def command(*more):
    return ["judge", "pairs.csv", "--items", "items.jsonl", "--criterion", "better", *more]


def ask(api):
    return "--judge", "openai/any", "--base-url", api.url, "-o", "retries=0", "-o", "timeout=5"


def prepare(folder, ids, contexts=(None,)):
    rows = [
        {"id": label, "text": f"Text {label}.", "context_id": context, "score": number}
        for context in contexts
        for number, label in enumerate(ids)
    ]
    rows = [{name: value for name, value in row.items() if value is not None} for row in rows]
    (folder / "items.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    pairs = [(context, a, b) for context in contexts for a in ids for b in ids if a != b]
    with (folder / "pairs.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("context", "first", "second"), *pairs])
    return len(pairs)


def judged(text):
    return list(csv.DictReader(io.StringIO(text)))


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
def test_the_same_command_asks_nothing_twice_whatever_the_labels(run, tmp_path, ids, contexts):
    pairs = prepare(tmp_path, ids, contexts)
    with Api(YES) as api:
        first, again = (run(tmp_path, command(*ask(api))) for _ in range(2))
        assert first.returncode == again.returncode == 0, first.stderr
        assert len(api.asked) == pairs
    rows = judged(first.stdout)
    names = ("context", "first", "second", "p") if None not in contexts else ("first", "second", "p")
    assert len({tuple(row[name] for name in names) for row in rows}) == pairs
    assert sorted(str([row[name] for name in names]) for row in judged(again.stdout)) == sorted(
        str([row[name] for name in names]) for row in rows
    )
    (tmp_path / "judged.csv").write_text(first.stdout, encoding="utf-8", newline="")
    fitted = run(tmp_path, ["fit", "judged.csv", "--format", "json"])
    assert fitted.returncode == 0, fitted.stderr
    items = {row["item"] for row in json.loads(fitted.stdout)["ranking"]}
    assert items == set(map(str, ids))


def test_a_reply_that_csv_cannot_hold_takes_no_other_answer_with_it(run, tmp_path):
    pairs = prepare(tmp_path, ["a", "b"])
    odd = tokens({"A": 0.7, "B": 0.3})
    odd.body["choices"][0]["message"]["content"] = "A \ud83d \0 =1+1"
    with Api(odd) as api:
        done = run(tmp_path, command(*ask(api), "--cache", "off"))
    assert done.returncode == 0, done.stderr
    assert len(judged(done.stdout)) == len(api.asked) == pairs


def test_the_judge_is_probed_once_and_what_it_takes_is_kept_in_the_cache(run, tmp_path):
    pairs = prepare(tmp_path, ["number 3", "number 7"])
    key = {"OPENAI_API_KEY": "sk-test-0123456"}
    asked = ("--judge", "openai/gpt-6-luna", "-o", "retries=0")
    with Api(LUNA) as api:
        for calls in (pairs, 0):
            done = run(tmp_path, command(*asked, "--base-url", api.url), **key)
            assert done.returncode == 0, done.stderr
            assert ("tokens, effort none" in done.stderr) == (calls > 0)
            assert len(api.asked) == pairs  # none of them is refused, since the probe has shown what is
        uncached = run(tmp_path, command(*asked, "--base-url", api.url, "--cache", "off"), **key)
        assert "108 tokens, $0.000014" in uncached.stderr
        refused = run(tmp_path, command(*asked, "--base-url", api.url, "-o", "effort=loud", "-o", "votes=1"), **key)
        assert len(api.asked) == 2 * pairs
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "effort" in refused.stderr


def test_the_options_of_a_judge_may_be_columns_of_the_items(run, tmp_path):
    prepare(tmp_path, [0, 1])
    done = run(tmp_path, command("--judge", "simulated/soft", "-o", "scores=score", "-o", "noise=0"))
    assert done.returncode == 0, done.stderr
    assert float(judged(done.stdout)[0]["p"]) == pytest.approx(1 / (1 + math.e))
    assert "2 judgements" in done.stderr


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ("first,second\n0,1\n", "contexts"),
        ("first,second,context\n0,9,x\n", "row 1"),
        ("first,second,context\n0,1,z\n", "row 1"),
        ("one,two\n0,1\n", "'first'"),
    ],
)
def test_wrong_pairs_are_named_before_anything_is_asked(run, tmp_path, pairs, message):
    prepare(tmp_path, [0, 1], ("x", "y"))
    (tmp_path / "pairs.csv").write_text(pairs)
    done = run(tmp_path, command("--judge", "simulated/soft"))
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stdout == ""
