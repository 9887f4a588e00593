"""Answers of an audition in the run that follows: what counts, what is not asked again, what is refused."""

import json
import re
import shlex
from collections import Counter

import pytest

from comparo import Items, audition, rank
from inside import AuditionAnswers, read_configuration, read_judgements
from servers import Api, prefers
from stored import asked, run
from test_voices import TEXTS, coin, task, told


@pytest.fixture
def comparo(run, tmp_path):
    rows = [{"id": f"item {k}", "text": f"This is number {k}."} for k in range(24)]
    (tmp_path / "items.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return lambda *arguments: run(tmp_path, arguments)


def sent(api):
    return Counter(request.body["messages"][0]["content"] for request in api.asked)


def following(done):
    """The command that an audition names, as arguments."""
    line = next(line for line in done.stderr.splitlines() if line.strip().startswith("comparo rank"))
    return shlex.split(line)[1:]


@pytest.mark.long
def test_the_command_that_an_audition_names_asks_no_audited_pair_again(comparo, tmp_path):
    with Api(prefers(0.5)) as good, Api(prefers(0.01)) as bad:
        servers = {"bad": bad, "good": good}
        judges = [part for name, api in servers.items() for part in ("--judge", f"openai/{name}; base-url={api.url}")]
        flags = ("--criterion", "better", *judges, "--wording", "paper", "--wording", "between", "--price", "1,2")
        done = comparo("audition", "items.jsonl", *flags, "--pairs", "15", "--out", "found")
        assert done.returncode == 0, done.stderr
        heard = [len(good.asked), len(bad.asked)]
        assert heard == [60, 60]
        command = following(done)
        assert command[-2:] == ["--audition", "found"]
        planned = comparo(*command, "--dry-run")
        assert re.search("240 calls .*30.*audition", planned.stdout)
        ranked = comparo(*command, "--out", "run", "--format", "json")
        assert ranked.returncode == 0, ranked.stderr
        assert [len(good.asked), len(bad.asked)] == [60 + 240 - 30, 60]
        assert max(sent(good).values()) == 1
        assert re.search("240 of 552.*30.*audition", ranked.stderr)
        assert comparo(*command, "--out", "run").returncode == 0
        assert len(good.asked) == 270
        longer = comparo(*command, "--out", "run", "--budget", "11n")
        assert longer.returncode == 0, longer.stderr
        assert len(good.asked) == 270 + 24
        assert max(sent(good).values()) == 1
    written = read_configuration(tmp_path / "run")["audition"]
    assert (written["source"], written["answers"]) == ("found", 30)
    assert written["cost"] == pytest.approx(30 * (100 * 1 + 2 * 2) / 1e6)
    assert re.search(r"\b30 of .*audition", (tmp_path / "run" / "report.html").read_text())


@pytest.mark.long
def test_other_texts_another_criterion_and_a_folder_of_no_run_are_refused(comparo, tmp_path):
    common = ("--judge", "simulated/soft", "--wording", "paper")
    assert comparo("audition", "items.jsonl", "--criterion", "better", *common, "--out", "found").returncode == 0
    rows = (tmp_path / "items.jsonl").read_text().replace("number", "No.")
    (tmp_path / "others.jsonl").write_text(rows)
    for arguments, message in (
        (("others.jsonl", "--criterion", "better"), "found .*other texts"),
        (("items.jsonl", "--criterion", "worse"), "none of the voices .*found: prompt: t"),
        (("items.jsonl", "--criterion", "better", "-o", "seed=3"), "seed was 0 and is 3"),
    ):
        done = comparo("rank", *arguments, *common, "--audition", "found")
        assert (done.returncode, done.stdout) == (2, "")
        assert re.search(message, done.stderr)
    done = comparo("rank", "items.jsonl", "--criterion", "better", *common, "--audition", "items.jsonl")
    assert done.returncode != 0
    assert "items.jsonl" in done.stderr
    assert not (tmp_path / "comparo-runs").exists()
    ran = ("rank", "items.jsonl", "--criterion", "better", *common, "--out", "run")
    assert comparo(*ran, "--audition", "found").returncode == 0
    without = comparo(*ran)
    assert without.returncode != 0
    assert re.search(r"\brun .*'40 answers, ", without.stderr)


@pytest.mark.parametrize("orders", ["one", "both"])
def test_small_sets_are_asked_completely_and_once(orders):
    some = dict(list(TEXTS.items())[:7])
    found = audition(some, "better", judge=[told("ana"), told("bo")])
    work = task([told("ana"), told("bo")], items=Items.of(some), budget="50n", orders=orders)
    given = found.answers.given_to(work.items, work.voices)
    _, judgements = run(task([told("ana"), told("bo")], items=Items.of(some), budget="50n", orders=orders, given=given))
    assert len(asked(judgements)) == len(set(asked(judgements))) == 2 * 7 * 6


@pytest.mark.long
def test_python_takes_what_an_audition_returned_or_its_folder(tmp_path):
    found = audition(TEXTS, "better", judge=[told("ana"), coin()], out=tmp_path / "found")
    runs = []
    for given in (found, tmp_path / "found", str(tmp_path / "found")):
        ana = told("ana")
        ranking = rank(TEXTS, "better", judge=ana, budget="10n", audition=given)
        assert len(ranking.comparisons) == 240
        assert ana.count == 200
        runs.append(ranking.scores.tolist())
    assert runs[0] == runs[1] == runs[2]
    alone = audition(TEXTS, "better", judge=told("ana"), out=tmp_path / "alone")
    both = [told("ana"), told("bo")]
    rank(TEXTS, "better", judge=both, budget="20n", audition=alone, out=tmp_path / "run")
    assert read_configuration(tmp_path / "run")["audition"]["answers"] == 40
    assert both[0].count + both[1].count == 440


def test_a_spent_budget_asks_nothing_more():
    found = audition(TEXTS, "better", judge=told("ana"), pairs=30)
    ana = told("ana")
    ranking = rank(TEXTS, "better", judge=ana, budget=50, audition=found)
    assert len(ranking.comparisons) == 60
    assert "count" not in ana.__dict__


def test_a_context_keeps_its_answers(tmp_path):
    rows = [
        {"id": k, "text": f"Text {k} of {place}.", "context": f"Input {place}", "context_id": place}
        for place in range(6)
        for k in range(8)
    ]
    found = audition(rows, "better", judge="simulated/soft", out=tmp_path / "found")
    items = Items.of(rows)
    work = task([told("ana")], items=items)
    answers = AuditionAnswers.read(tmp_path / "found")
    with pytest.raises(ValueError, match="voices"):
        answers.given_to(items, work.voices)
    ranking = rank(rows, "better", judge="simulated/soft", audition=found, budget="6n", out=tmp_path / "run")
    assert len(ranking.comparisons) == 6 * 48
    kept, now = (
        {(one.question.context, one.question.first, one.question.second): one.p for one in some}
        for some in (answers.judgements, read_judgements(tmp_path / "run"))
    )
    assert kept.items() <= now.items()
