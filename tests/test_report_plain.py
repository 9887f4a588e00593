"""The page for a reader who knows no statistics: what stands first, what to do next, whose answers, and no jargon."""

import itertools
import re
import shlex
from itertools import permutations

import numpy as np
import pytest

from comparo import Items, Judgement, Question, fit, load_judge
from comparo.report.advice import advice, calls_to_tell_apart
from inside import Fitted, Store, Voting, criterion_prompt, fitted_record, outlook, quiet_fit, read_record, render
from test_report import SCRIPT, Page, data_of, folder_of, reconfigure, run_folder, shown_in, stories, written


def steps_of(folder):
    record = read_record(folder)
    return {step.title: step for step in advice(record, outlook(record))}


def numbered(number=12):
    return [
        {"id": k, "text": f"The {word} of a long day at the sea, " * 9} for k, word in enumerate(["story"] * number)
    ]


def answers_of(pairs, **more):
    return [Judgement(Question(*pair), p=0.8 if pair[0] < pair[1] else 0.3, **more) for pair in pairs]


def test_names_that_are_numbers_have_the_beginning_of_their_text(tmp_path):
    page = written(run_folder(tmp_path / "run", numbered()))
    begun = re.findall(r'<small class="begun" dir="auto">(.*?)</small>', page)
    assert len(begun) == 13  # a line each, and the blank one of the script
    assert set(begun) == {"The story of a long day at the sea, The story of a long day…"}
    assert set(data_of(page)["candidates"]["begun"]) == set(begun)
    lead = shown_in(page).partition("Judged by")[0]
    assert re.search(r"\d+ \(“The story[^”]*…”\)", lead)
    assert "begun" not in data_of(written(run_folder(tmp_path / "named", stories())))["candidates"]


@pytest.mark.long
def test_contexts_that_are_hashes_are_named_by_their_text(tmp_path):
    items = [
        {"id": k, "text": "t", "context_id": f"dm-test-{c:040x}", "context": f"Paul has been to the {c}th <b>sea</b>."}
        for c in range(11, 14)
        for k in "ab"
    ]
    page = written(run_folder(tmp_path / "run", items, prompt=criterion_prompt("better", context="Article")))
    assert data_of(page)["contexts"][0]["label"] == "Paul has been to the 11th <b>sea</b>. (dm-test-00000000…)"
    assert "<b>sea" not in page


def test_judge_calls_and_cost_stand_first(tmp_path):
    items = dict.fromkeys("abcd", "text")
    folder = folder_of(tmp_path / "run", items, answers_of(itertools.permutations("abcd", 2), cost=0.25))
    text = shown_in(written(folder)).partition("What to do next :")[0]
    assert re.search(r"simulated/soft .*\b12 of 12.*\$3\.00", text)
    unknown = answers_of(itertools.permutations("abcd", 2))
    assert "Cost not known" in shown_in(written(folder_of(tmp_path / "other", items, unknown)))


def test_headings_are_in_order_and_tables_have_heads(tmp_path):
    page = Page(written(run_folder(tmp_path / "run", stories())))
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    heads = [attrs for tag, attrs in page.tags if tag == "th"]
    assert heads
    assert all(attrs.get("scope") in ("col", "row") for attrs in heads)
    charts = [attrs for tag, attrs in page.tags if tag == "svg" and "chart" in attrs.get("class", "")]
    assert charts
    assert all(attrs["role"] == "img" and attrs["aria-label"] for attrs in charts)


def voted(folder, names=("ana", "bo"), votes=90):
    """The folder of a vote by these people, as `comparo vote` leaves it."""
    items = Items.of({f"essay {k}": f"An essay of {k} words. " * (k + 1) for k in range(8)})
    voting = Voting(items, criterion_prompt("better argued", kind="Essay"), names)
    task = voting.task()
    store = Store(folder, voting.identity(), {**task.configuration, "together": True, "command": "comparo vote essays"})
    store.add_items(items)
    rng = np.random.default_rng(1)
    pairs = rng.permutation(list(permutations(range(8), 2))).tolist()  # nobody is asked a pair twice in one order
    for k in range(min(votes, len(pairs) * len(names))):
        i, j = pairs[k // len(names)]
        asked = Question(f"essay {i}", f"essay {j}", voice=names[k % len(names)] if len(names) > 1 else None)
        store.add([Judgement(asked, p=float(i - j + 4 * rng.logistic() > 0))])
    store.add([Judgement(Question("essay 0", "essay 1", voice=names[0]), error="skipped: too long")])
    store.close()
    return folder


@pytest.mark.long
def test_a_vote_speaks_of_people_and_votes(tmp_path):
    text = shown_in(written(voted(tmp_path / "run")))
    assert re.search(r"\b2 people: .*ana.*bo.*\b90 of", text)
    assert "Were pairs skipped?" in text
    assert re.search(r"(Ana|Bo|ana|bo) saw essay \d first [^.]*essay \d second[^.]* the (first|second)", text)
    before = text.partition("How it was made")[0]
    for word in ("the judge", "judge's", "calls", "Cost", "probability on", "voice", "stronger judge", "--budget"):
        assert word not in before.replace("How it was made", "")


@pytest.mark.long
def test_too_few_answers_for_a_statement_name_the_command(tmp_path):
    judge = load_judge("simulated/hard", scores={f"story {k}": 0.1 * k for k in range(12)}, seed=3)
    folder = run_folder(tmp_path / "run", stories(), judge, budget="3n", estimate="judge")
    reconfigure(folder, lambda configuration: configuration | {"command": "comparo rank stories.csv --budget 3n"})
    steps = steps_of(folder)
    record = read_record(folder)
    commands = [step.command for step in steps.values() if "--budget" in step.command]
    assert commands
    words = shlex.split(commands[0])
    assert int(words[words.index("--budget") + 1]) > len(record.judgements)
    page = shown_in(written(folder))
    for step in steps.values():
        assert step.title in page
        assert step.command in page


def test_failed_calls_are_asked_again_first_and_a_budget_in_dollars_stays_one(tmp_path):
    answers = [*answers_of([("a", "b"), ("c", "d")], cost=0.5), Judgement(Question("b", "a"), error="lost")]
    folder = folder_of(tmp_path / "run", dict.fromkeys("abcd", "text"), answers)
    again = {"budget": "$1", "command": "comparo rank items.csv --budget '$1'"}
    reconfigure(folder, lambda configuration: configuration | again)
    first, *others = steps_of(folder).values()
    assert first.command == again["command"]
    (more,) = [step.command for step in others if "--budget" in step.command]
    words = shlex.split(more)
    assert words[words.index("--budget") + 1] == "$2.33"  # 4 calls more than 3, which cost a dollar


@pytest.mark.parametrize("answers", ["soft", "hard"])
def test_as_many_more_calls_as_it_says_tell_two_texts_apart(answers):
    """The variance of a difference falls as the calls it names: predicted from some calls, found with more."""
    rng = np.random.default_rng(0)
    scores = rng.normal(size=8)

    def variance(calls):
        pairs = [tuple(rng.choice(8, 2, replace=False).tolist()) for _ in range(calls)]
        logits = [scores[i] - scores[j] + rng.normal() for i, j in pairs]
        p = [1 / (1 + np.exp(-one)) if answers == "soft" else float(one + rng.logistic() > 0) for one in logits]
        ranking = fit([(*pair, one) for pair, one in zip(pairs, p, strict=True)])
        place = ranking.items.tolist().index
        return ranking.covariance.difference(place(0), place(1))

    now = np.mean([variance(200) for _ in range(5)])
    difference = 1.645 * np.sqrt(now) / 2  # so that it takes four times the calls
    more = calls_to_tell_apart(difference, now, 200, 0.95)
    assert more == pytest.approx(600, abs=2)
    then = np.mean([variance(200 + int(more)) for _ in range(5)])
    assert difference / np.sqrt(then) == pytest.approx(1.645, rel=0.12)


def test_nothing_to_do_is_said(tmp_path):
    judge = load_judge("simulated/soft", scores={f"story {k}": 2.0 * k for k in range(12)}, noise=0.1)
    steps = steps_of(run_folder(tmp_path / "run", stories(), judge, budget="11n"))
    assert [step.split()[0] for step in steps] == ["Nothing"]


def votes_file(path):
    rng, names = np.random.default_rng(0), ["t0", "t1", "t2", "t3", "=t4"]
    rows = ["first,second,winner,judge"]
    for k in range(60):
        i, j = rng.choice(5, 2, replace=False).tolist()
        rows.append(f"{names[i]},{names[j]},{'A' if i + rng.logistic() > j else 'B'},{('ana', 'bo')[k % 2]}")
    path.write_text("\n".join(rows) + "\n")
    return path


def test_fit_writes_the_same_page_without_texts(tmp_path, run):
    votes_file(tmp_path / "votes.csv")
    found = run(tmp_path, ["fit", "votes.csv", "--report", "page.html"])
    assert found.returncode == 0, found.stderr
    assert "Report: page.html" in found.stderr
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    text = shown_in(page)
    assert "of votes.csv" in text
    assert re.search("ana and bo.*60", text)
    assert "votes.csv --report page.html" in text
    for title in ("Ranking", "What to do next", "Can I trust this?", "Who judged", "Who beats whom"):
        assert title in text
    for title in ("Score and length", "What the judge was asked", "Cost", "--budget", "Did calls fail?"):
        assert title not in text
    data = data_of(page)
    ranking = [
        line.split(",")[0] for line in run(tmp_path, ["fit", "votes.csv", "--format", "csv"]).stdout.splitlines()
    ]
    assert data["candidates"]["item"] == [name.removeprefix("'") for name in ranking[1:]]
    assert len(data["judgements"]["p"]) == 60


@pytest.mark.parametrize(
    ("path", "message"),
    [("votes.csv", "name a file that ends in .html"), ("none/page.html", "the folder none does not exist")],
)
def test_a_page_that_cannot_be_is_said_before_anything_is_fitted(tmp_path, run, path, message):
    votes_file(tmp_path / "votes.csv")
    before = (tmp_path / "votes.csv").read_bytes()
    found = run(tmp_path, ["fit", "votes.csv", "--report", path])
    assert found.returncode != 0
    assert message in found.stderr
    assert found.stdout == ""
    assert (tmp_path / "votes.csv").read_bytes() == before


def test_hostile_names_in_a_file_stay_text():
    rows = [(SCRIPT, "b", 0.8), ("b", "</script>", 0.7), ("</script>", SCRIPT, 0.3)]
    ranking = quiet_fit(rows)
    page = render(fitted_record(ranking, Fitted(None), f"{SCRIPT}.csv", f"comparo fit {SCRIPT}"))
    assert SCRIPT not in page
    assert [tag for tag, _ in Page(page).tags].count("script") == 2
    assert set(data_of(page)["candidates"]["item"]) == {SCRIPT, "b", "</script>"}


def test_contexts_and_groups_of_a_file_have_a_leaderboard(tmp_path, run):
    rng = np.random.default_rng(0)
    rows = ["context,first,second,p"]
    for c, (i, j) in itertools.product(range(6), itertools.permutations("abcd", 2)):
        rows.append(f"c{c},{i},{j},{0.5 + 0.1 * (ord(j) - ord(i)) + 0.05 * rng.normal():.3f}")
    (tmp_path / "answers.csv").write_text("\n".join(rows) + "\n")
    found = run(tmp_path, ["fit", "answers.csv", "--leaderboard", "--report", "page.html"])
    assert found.returncode == 0, found.stderr
    data = data_of((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert data["mean"]["item"] == list("abcd")
    assert [context["label"] for context in data["contexts"]] == [f"c{c}" for c in range(6)]
