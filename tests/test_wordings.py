"""Ways to put one criterion: their grammar, what chooses one, what a run keeps of it, and what was recorded."""

import json
import re
import sqlite3

import pytest

from comparo import Question, load_judge, rank
from inside import DEFAULT_WORDING, WORDINGS, choose_prompt, criterion_prompt, prompt_of, question, read_configuration
from servers import Api, tokens

ANSWER = tokens({"A": 0.7, "B": 0.3})


def last(criterion, wording, kind="Text"):
    return criterion_prompt(criterion, kind, wording=wording).template.rpartition("\n\n")[2]


@pytest.mark.parametrize(
    ("wording", "asked"),
    [
        ("paper", "Which Joke {}, Joke A or Joke B?"),
        ("between", "Between Joke A and Joke B, which one {}? Answer with Joke A or Joke B."),
        ("better", "Between Joke A and Joke B, which one {}?"),
        ("which", "Which Joke {}? Answer with Joke A or Joke B."),
        ("compare", "Compare Joke A and Joke B: which one {}?"),
        ("before-after", "Which Joke {}, Joke A or Joke B?"),
        ("letter", "Which Joke {}, Joke A or Joke B? Answer with one letter, A or B."),
        ("reversed-options", "Which Joke {}, Joke B or Joke A?"),
    ],
)
@pytest.mark.parametrize(
    ("criterion", "does"),
    [
        ("more coherent", "is more coherent"),
        ("better argued", "is better argued"),
        ("less boring?", "is less boring"),
        ("has better structure", "has better structure"),
        ("has the better arguments.", "has the better arguments"),
        ("continues {it} better", "continues {{it}} better"),
    ],
)
def test_every_wording_puts_every_kind_of_criterion(wording, asked, criterion, does):
    assert last(criterion, wording, "Joke") == asked.format(does)


@pytest.mark.parametrize("name", WORDINGS)
@pytest.mark.parametrize("context", [None, "Article"])
def test_texts_stand_in_order_and_labels_and_answer_fit(name, context):
    prompt = criterion_prompt("has better {style}", "Summary", context, name)
    text = prompt.text(Question(1, 2, 3, "ONE {second}", "TWO", "WHOLE"))
    delimiters = re.findall(r"^[0-9a-f]{8}$", text, re.MULTILINE)
    if name == "paper":
        assert not delimiters
    else:
        assert delimiters == [delimiters[0]] * (6 if context else 4)
        text = text.partition("\n\n")[2].replace(f"\n{delimiters[0]}\n\n", "\n\n").replace(f"\n{delimiters[0]}\n", " ")
    assert text.index("Summary A: ONE {second}") < text.index("Summary B: TWO")
    assert text.startswith("Article: WHOLE\n\n") == (context is not None and name != "before-after")
    assert text.count("better {style}") == (2 if name == "before-after" else 1)
    assert prompt.has_context == (context is not None)
    assert prompt.labels == ("A", "B")
    assert prompt.answer == ("" if name == "letter" else "Summary")
    assert prompt.wording == name
    assert question(prompt) == "Which Summary has better {style}?"


def test_the_default_is_the_papers_question_with_delimiters_and_the_papers_prompts_have_none():
    assert last("better", DEFAULT_WORDING) == last("better", "paper")
    assert choose_prompt("better") == criterion_prompt("better", wording="delimited")
    assert choose_prompt("better").wording == DEFAULT_WORDING == "delimited"
    assert choose_prompt("better", wording="paper") == criterion_prompt("better", wording="paper")
    assert choose_prompt(prompt="{first} {second}").wording is None
    with pytest.raises(ValueError, match=r"'x'; .*paper, between"):
        criterion_prompt("better", wording="x")
    with pytest.raises(ValueError, match="wording"):
        choose_prompt(prompt="{first} {second}", wording="between")


@pytest.mark.parametrize("name", WORDINGS)
def test_a_run_keeps_its_wording(name, tmp_path):
    judge = load_judge("simulated/soft")
    rank(["a", "b", "c"], "has better rhythm", kind="Poem", wording=name, judge=judge, out=tmp_path / "run")
    configuration = read_configuration(tmp_path / "run")
    assert configuration["wording"] == prompt_of(configuration).wording == name


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "items.jsonl").write_text("\n".join(json.dumps({"id": k, "text": f"Text {k}."}) for k in range(6)))
    return tmp_path


def ask(api, *more):
    server = ("--judge", "openai/any", "--base-url", api.url, "-o", "concurrency=2", "-o", "retries=0")
    return ("rank", "items.jsonl", "--criterion", "wittier", "--out", "run", "--budget", "2n", *server, *more)


def sent(api):
    return api.requests[-1].body["messages"][0]["content"]


@pytest.mark.long
def test_a_folder_from_before_wordings_had_names_goes_on(run, folder):
    with Api(ANSWER) as api:
        assert run(folder, ask(api)).returncode == 0
        path = folder / "run" / "run.json"
        old = json.loads(path.read_text())
        assert old.pop("wording") == DEFAULT_WORDING
        path.write_text(json.dumps(old))
        with sqlite3.connect(folder / "run" / "judgements.db") as database:
            database.execute("UPDATE run SET configuration = ?", (json.dumps(old),))
        database.close()
        number = len(api.requests)
        assert run(folder, ("runs", "--report", "run")).returncode == 0
        done = run(folder, ask(api, "--wording", DEFAULT_WORDING))
        assert done.returncode == 0, done.stderr
        assert len(api.requests) == number


def test_a_wording_comes_from_a_file_is_shown_dry_and_plain_is_the_papers(run, folder):
    dry = ("rank", "items.jsonl", "--criterion", "wittier", "--judge", "simulated/soft", "--dry-run")
    assert last("wittier", "paper") in run(folder, (*dry, "--plain")).stdout
    (folder / "comparo.toml").write_text('wording = "compare"\n')
    assert last("wittier", "compare") in run(folder, dry).stdout
    wrong = run(folder, ("rank", "items.jsonl", "--prompt", "{first} {second}", "--judge", "simulated/soft"))
    assert wrong.returncode == 2
    assert "(compare)" in wrong.stderr
    unknown = run(folder, (*dry, "--wording", "loud"))
    assert unknown.returncode == 2
    assert re.search("'loud'.*paper, between", unknown.stderr)


def test_pairs_are_judged_in_the_wording(run, folder):
    (folder / "pairs.csv").write_text("first,second\n0,1\n")
    with Api(ANSWER) as api:
        more = ("--items", "items.jsonl", "--criterion", "wittier", "--wording", "letter", "--base-url", api.url)
        done = run(folder, ("judge", "pairs.csv", *more, "--judge", "openai/any"))
        assert done.returncode == 0, done.stderr
        assert last("wittier", "letter") in sent(api)


def test_help_lists_the_names(run, folder):
    said = "".join(run(folder, ("rank", "--help-all"), COLUMNS="300").stdout.split())
    assert all(name in said for name in WORDINGS)


@pytest.mark.long
@pytest.mark.recorded
def test_the_table_of_wordings_is_what_was_recorded():
    from benchmarks.wordings import PAPER, best, gain, results, surest

    found = results("wordings", draws=0)
    sets = list(found[PAPER])
    assert set(WORDINGS) - {DEFAULT_WORDING} <= set(found)
    assert [round(found["between"][each].whole, 1) for each in sets] == [17.4, 33.7, 30.8, 26.3]
    assert [round(found[PAPER][each].whole, 1) for each in sets] == [10.6, 31.7, 28.7, 24.3]
    mean, error = gain(found, "between", sets)
    assert (round(mean, 1), round(error, 1)) == (3.2, 1.1)
    others = [[each for each in sets if each != one] for one in sets]
    assert [best(found, each) for each in others] == ["before-after", "(better, reversed)", "between", "between"]
    assert [surest(found, each) for each in others] == ["between"] * 4
