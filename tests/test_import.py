"""comparo import: small files in the layouts of other tools, written by hand, and what they become."""

import gzip
import json
import re

import pandas
import pytest

from comparo import Comparisons, Items, import_file


@pytest.fixture
def write(tmp_path):
    """A file of JSON, a list in one piece or in lines."""

    def written(rows, name="file.json"):
        path = tmp_path / name
        lines = name.removesuffix(".gz").endswith("l")
        text = "\n".join(map(json.dumps, rows)) if lines else json.dumps(rows, indent=2)
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
        return path

    return written


def rows_of(found):
    columns = found.comparisons.to_columns()
    names = [name for name in ("context", "first", "second", "p", "judge", "weight") if name in columns]
    return list(zip(*(columns[name].tolist() for name in names), strict=True))


def annotation(preference, instruction="Why is it so?", **more):
    return {
        "instruction": instruction,
        "output_1": "Because.",
        "generator_1": "reference",
        "dataset": "helpful_base",
        "output_2": f"It is so, as {instruction} says.",
        "generator_2": "mine",
        "annotator": "weighted_gpt4",
        "preference": preference,
        "price_per_example": 0.01,
        **more,
    }


def test_annotations_of_alpaca_eval_soft_hard_tied_and_missing(write):
    preferences = [1, 2.0, 1.25, 1.5, 0, None, float("nan")]
    rows = [annotation(each, f"Question {number}") for number, each in enumerate(preferences)]
    found = import_file(write(rows))
    assert found.source == "alpaca_eval"
    assert [row[3] for row in rows_of(found)] == [1, 0, 0.75, 0.5, 0.5]
    assert rows_of(found)[0] == ("1", "reference", "mine", 1.0, "weighted_gpt4")
    assert found.left_out == {"without a preference": 2}
    items = Items.of(pandas.DataFrame(found.items))
    assert len(items) == 14
    assert items.question("3", "reference", "mine").context_text == "Question 2"
    assert items.question("3", "reference", "mine").second_text == "It is so, as Question 2 says."


def test_the_same_instruction_is_one_context_and_another_text_of_the_same_name_is_counted(write):
    rows = [annotation(1), annotation(2, generator_2="other"), annotation(2, output_1="No.")]
    found = import_file(write([*rows, annotation(1, generator_2="reference")], "annotations.jsonl.gz"))
    assert [row[:3] for row in rows_of(found)] == [("1", "reference", name) for name in ("mine", "other", "mine")]
    assert {count: "itself" in why for why, count in found.left_out.items()} == {1: True, 2: False}
    assert found.items["id"] == ["reference", "mine", "other"]
    assert found.items["text"][0] == "Because."


def battle(winner, question="q1", **more):
    said = [{"role": "user", "content": f"Tell me {question}"}]
    return {
        "question_id": question,
        "model_a": "koala",
        "model_b": "vicuna",
        "winner": winner,
        "judge": "arena_user_7",
        "conversation_a": [*said, {"role": "assistant", "content": "A short one."}],
        "conversation_b": [*said, {"role": "assistant", "content": "A longer one."}],
        "turn": 1,
        "anony": True,
        "language": "English",
        "tstamp": 1682351591.1,
        **more,
    }


@pytest.mark.parametrize("name", ["battles.json", "battles.jsonl", "battles.parquet"])
def test_battles_of_chatbot_arena(write, tmp_path, name):
    said = ["model_a", "model_b", "tie", "tie (bothbad)", None]
    rows = [battle(winner, f"q{number}") for number, winner in enumerate(said)]
    if name.endswith("parquet"):
        pandas.DataFrame(rows).to_parquet(tmp_path / name)
    found = import_file(tmp_path / name if name.endswith("parquet") else write(rows, name))
    assert found.source == "arena"
    expected = [(f"q{number}", "koala", "vicuna", p, "arena_user_7") for number, p in enumerate((1, 0, 0.5, 0.5))]
    assert rows_of(found) == expected
    assert found.left_out == {"without a winner": 1}
    items = Items.of(pandas.DataFrame(found.items))
    assert items.question("q1", "koala", "vicuna").first_text == "A short one."
    assert items.question("q1", "koala", "vicuna").context_text == "Tell me q1"


def test_battles_without_questions_compare_models_directly(write):
    rows = [{name: battle("tie")[name] for name in ("model_a", "model_b", "winner", "judge", "turn")}] * 2
    found = import_file(write(rows))
    assert rows_of(found) == [("koala", "vicuna", 0.5, "arena_user_7")] * 2
    assert not found.items


def test_longer_talks_are_told_whole(write):
    talk = [{"role": role, "content": f"{role} {k}"} for k in (1, 2) for role in ("user", "assistant")]
    rows = [battle("model_a", 81, judge="expert_1"), battle("model_b", 82, turn=2, conversation_a=talk, judge=None)]
    found = import_file(write(rows))
    assert [row[0] for row in rows_of(found)] == ["81", "82"]
    assert [row[-1] for row in rows_of(found)] == ["expert_1", "unknown"]
    text = found.items["text"][found.items["context_id"].index("82")]
    assert text == "Assistant: assistant 1\n\nUser: user 2\n\nAssistant: assistant 2"


def output(test, column, score, *, text="An answer.", components=(), prompt="Say {{topic}}", **more):
    grading = {"pass": score > 0.5, "score": score, "reason": "…", "componentResults": list(components)}
    return {
        "cost": 0,
        "error": None,
        "gradingResult": grading,
        "id": f"id-{test}-{column}",
        "latencyMs": 5,
        "namedScores": {},
        "prompt": {"raw": f"Say topic {test}", "label": prompt},
        "promptId": "abc",
        "promptIdx": column,
        "provider": {"id": f"openai:model-{column}", "label": ""},
        "response": {"output": text, "tokenUsage": {}},
        "score": score,
        "success": score > 0.5,
        "failureReason": 0,
        "testCase": {},
        "testIdx": test,
        "vars": {"topic": f"topic {test}"},
        **more,
    }


def results(*entries):
    stats = {"successes": 1, "failures": 1}
    return {
        "evalId": "eval-abc",
        "results": {"version": 3, "timestamp": "2026-03-01", "prompts": [], "results": list(entries), "stats": stats},
        "config": {"env": {"OPENAI_API_KEY": "sk-secret"}},
        "shareableUrl": None,
    }


def best(passed, value="the funniest"):
    return {"pass": passed, "score": int(passed), "reason": "…", "assertion": {"type": "select-best", "value": value}}


def test_scores_of_promptfoo_are_comparisons_within_a_test_case(write):
    entries = [output(0, column, score) for column, score in enumerate((0.9, 0.4, 0.4))]
    entries += [output(1, 0, 1), output(1, 1, 0, response=None, failureReason=2, error="refused")]
    found = import_file(write(results(*entries)))
    assert found.source == "promptfoo"
    names = [f"openai:model-{column}" for column in range(3)]
    weight = pytest.approx(2 / 3)
    pairs = [(names[a], names[b], p, "score", weight) for a, b, p in ((0, 1, 1.0), (0, 2, 1.0), (1, 2, 0.5))]
    assert rows_of(found) == [("1", *pair) for pair in pairs]
    assert [count for why, count in found.left_out.items() if "failed" in why or "single" in why] == [1, 1]
    assert found.items["context"][0] == "Say topic 0"
    assert found.items["id"] == names
    lines = import_file(write(entries, "results.jsonl"))
    assert rows_of(lines) == rows_of(found)


def test_the_selected_output_beats_the_others_and_scores_are_not_used(write):
    """The losers of select-best have lost their scores too: promptfoo overwrites them."""
    contains = {"pass": True, "score": 1, "assertion": {"type": "contains", "value": "x"}}
    entries = [output(0, column, 0, components=[contains, best(column == 1)]) for column in range(3)]
    entries += [{**output(1, column, 1 - column), "gradingResult": best(column == 0)} for column in range(2)]
    entries += [output(2, column, 0, components=[best(passed=False)]) for column in range(2)]
    found = import_file(write(results(*entries)))
    said = "select-best · the funniest"
    expected = (("1", 0, 1, 0.0), ("1", 1, 2, 1.0), ("2", 0, 1, 1.0))
    assert [row[:5] for row in rows_of(found)] == [
        (case, f"openai:model-{a}", f"openai:model-{b}", p, said) for case, a, b, p in expected
    ]
    assert [(count, "select-best" in why) for why, count in found.left_out.items()] == [(1, True)]


def test_outputs_are_named_after_prompts_where_there_are_several_and_after_columns_of_one_name(write):
    entries = [output(0, 0, 1), output(0, 1, 0, prompt="Shout " + "x" * 80, provider={"id": "openai:model-0"})]
    entries += [output(0, 2, 0.5, provider="openai:model-0"), output(0, 0, 1, text={"a": 1})]
    found = import_file(write(results(*entries)))
    assert found.items["id"] == [
        "openai:model-0 · Say {{topic}} #1",
        "openai:model-0 · prompt 2",
        "openai:model-0 · Say {{topic}} #2",
    ]
    assert found.items["context"][0] == "topic: topic 0"
    assert [(count, "single" in why) for why, count in found.left_out.items()] == [(1, True)]  # the repeat


@pytest.mark.parametrize(
    ("rows", "place"),
    [
        ([annotation(1), annotation("both")], "row 2, column 'preference': 'both' "),
        ([annotation(1), annotation(3)], "row 2, column 'preference': 3 "),
        ([annotation(1, generator_2=None)], "row 1, column 'generator_2': "),
        ([annotation(None)], "(1 without"),
        ([battle("tie"), battle("nobody")], "row 2, column 'winner': 'nobody' "),
        ([{"model_a": "x", "model_b": "y"}], "(1 without"),
        ([battle("tie", model_a="")], "row 1, column 'model_a': "),
        ([battle("tie", conversation_a=["hello", "you"])], "row 1, column 'conversation_a': 'hello' "),
        (results(output(0, 0, 1), output(None, 1, 1)), "results, row 2, column 'testIdx': "),
        (results(output(0, 0, 1), {**output(0, 1, 1), "score": "1"}), "results, row 2, column 'score': '1' "),
        (results(output(0, 0, 1, provider={})), "results, row 1, column 'provider': "),
        (results(7), "results, row 1: 7 "),
        ([{"first": "a", "second": "b", "p": 0.5}], "(promptfoo: prompt, promptIdx, provider"),
        ({"hello": 1}, "; alpaca_eval: "),
    ],
)
def test_a_malformed_row_is_one_message_with_its_place(comparo, write, tmp_path, rows, place):
    write(rows)
    done = comparo("import", "file.json")
    assert done.returncode == 2
    assert place in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["file.json"]


def test_the_command_writes_files_that_fit_and_rank_read(comparo, write, tmp_path):
    rows = [annotation(each, f"Question {number}") for number, each in enumerate((1, 2, 1.25, None))]
    write(rows, "annotations.json")
    done = comparo("import", "annotations.json")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "annotations-comparisons.csv\nannotations-items.jsonl\n"
    assert re.match("alpaca_eval: 3 .*weighted_gpt4;.*: 1 without", done.stderr)
    assert Comparisons.read(tmp_path / "annotations-comparisons.csv").p.tolist() == [1, 0, 0.75]
    assert len(Items.of(tmp_path / "annotations-items.jsonl")) == 8
    fitted = comparo("fit", "annotations-comparisons.csv", "--leaderboard")
    assert fitted.returncode == 0, fitted.stderr
    refused = comparo("import", "annotations.json")
    assert refused.returncode == 2
    assert all(part in refused.stderr for part in ("annotations-comparisons.csv ", "--force"))
    assert comparo("import", "annotations.json", "--force").returncode == 0
    named = comparo("import", "annotations.json", "--out", "judged.parquet")
    assert named.stdout == "judged.parquet\njudged-items.jsonl\n"
