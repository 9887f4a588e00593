"""The pairs of a run put to another voice: what is asked, what is measured, and a stop in between."""

import json
import math
import re

import numpy as np
import pytest

from comparo import Comparisons, JudgeError, Judgement, StoreError, load_judge, rank, rejudge
from inside import read_configuration, read_judgements
from stored import asked
from test_voices import TEXTS, TRUTH, calls, contexts, told


@pytest.fixture
def first(tmp_path):
    rank(TEXTS, "better", judge=told("ana"), budget="10n", out=tmp_path / "run")
    return tmp_path / "run"


def pairs(judgements, voice):
    return sorted(
        (str(one.question.context), one.question.first, one.question.second)
        for one in judgements
        if one.question.voice == voice
    )


def test_the_same_pairs_are_put_to_another_voice_and_both_are_a_panel(first):
    before = {path.name: path.read_bytes() for path in first.iterdir() if path.name in ("run.json", "ranking.csv")}
    answers = asked(read_judgements(first))
    found = rejudge(first, told("bo"))
    folder = first.with_name("run-by-told-bo")
    both = read_judgements(folder)
    assert calls(both) == {"told/ana": 240, "told/bo": 240}
    assert pairs(both, "told/ana") == pairs(both, "told/bo")
    assert set(found.ranking.tables["voices"]["judge"]) == {"told/ana", "told/bo"}
    assert found.questions == 240
    assert asked(read_judgements(first)) == answers
    assert before == {name: (first / name).read_bytes() for name in before}
    assert Comparisons.read(folder).judges.tolist() == ["told/ana", "told/bo"]
    # What is reported, by an independent route.
    p = {(one.question.voice, one.question.first, one.question.second): one.p for one in both}
    keys = [key[1:] for key in p if key[0] == "told/ana"]
    same = [(p["told/ana", *key] > 0.5) == (p["told/bo", *key] > 0.5) for key in keys]
    assert found.agree == pytest.approx(np.mean(same))
    for share, voice in zip(found.flips, ("told/ana", "told/bo"), strict=True):
        turned = [(p[voice, a, b] > 0.5) == (p[voice, b, a] > 0.5) for a, b in keys if a < b]
        assert share == pytest.approx(np.mean(turned))
    places = [np.argsort(np.argsort([one[item].score for item in TEXTS])) for one in (found.before, found.after)]
    assert found.spearman == pytest.approx(np.corrcoef(*places)[0, 1])
    assert found.spearman > 0.6


@pytest.mark.long
def test_a_stopped_rejudging_goes_on_and_asks_what_was_added_since(first, tmp_path):
    with pytest.raises(JudgeError, match="withdrawn"):
        rejudge(first, told("bo", stop_after=100), out=tmp_path / "new")
    judge = told("bo")
    rejudge(first, judge, out=tmp_path / "new")
    assert judge.count == 140
    rank(TEXTS, "better", judge=told("ana"), budget="12n", out=first)
    judge = told("bo")
    rejudge(first, judge, out=tmp_path / "new")
    assert judge.count == 48
    assert calls(read_judgements(tmp_path / "new")) == {"told/ana": 288, "told/bo": 288}
    with pytest.raises(StoreError, match="another run"):
        rejudge(first, told("cy"), out=tmp_path / "new")


@pytest.mark.long
def test_the_same_judge_once_more_and_a_panel(first, tmp_path):
    found = rejudge(first, told("ana"), out=tmp_path / "two")
    assert found.voice == "told/ana again"
    identity = read_configuration(tmp_path / "two")["identity"]
    assert list(identity["voices"]) == ["told/ana", "told/ana again"]
    assert found.agree == 1.0
    rejudge(tmp_path / "two", told("bo"), budget="100", out=tmp_path / "three")
    assert sorted(calls(read_judgements(tmp_path / "three")).values()) == [100, 240, 240]


@pytest.mark.long
def test_contexts_failures_and_money(tmp_path):
    class Paid:
        name, settings, ahead, price = "paid/judge", {}, 2, (10.0, 0.0)

        def judge(self, questions, prompt):
            for number, one in enumerate(load_judge("simulated/soft").judge(questions)):
                if number == 3:
                    yield Judgement(one.question, error="the server answered 500")
                else:
                    yield Judgement(one.question, p=one.p, mass=1.0, cost=0.01)

    rank(contexts(), "better", judge=told("ana"), budget="6n", out=tmp_path / "run")
    found = rejudge(tmp_path / "run", Paid(), budget="$1")
    kept = [one for one in read_judgements(tmp_path / "run-by-paid-judge") if one.question.voice == "paid/judge"]
    assert 0.9 < sum(one.cost for one in kept if one.cost > 0) <= 1.01
    assert found.questions <= 101
    assert not math.isnan(found.spearman)
    with pytest.raises(ValueError, match="price"):
        rejudge(tmp_path / "run", told("bo"), budget="$1")


def test_the_command_prints_the_consensus_and_the_agreement(run, tmp_path):
    rows = [
        {"id": item, "text": text, "score_wit": wit} for (item, text), wit in zip(TEXTS.items(), TRUTH, strict=True)
    ]
    (tmp_path / "items.jsonl").write_text("\n".join(map(json.dumps, rows)))
    judge = ("--judge", "simulated/soft; scores=wit")
    assert run(tmp_path, ("rank", "items.jsonl", *judge, "--out", "run", "--quiet")).returncode == 0
    other = ("judge", "run", "--judge", "simulated/hard; scores=wit; strength=3")
    dry = run(tmp_path, (*other, "--dry-run"))
    assert "240 calls" in dry.stdout, dry.stderr
    assert not (tmp_path / "run-by-simulated-hard").exists()
    done = run(tmp_path, (*other, "--format", "csv"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("item,score,")
    assert re.search(r"Spearman .*simulated/hard.*: 0\.\d", done.stderr)
    assert "of 240 questions" in done.stderr
    assert (tmp_path / "run-by-simulated-hard" / "report.html").stat().st_size > 10_000
    wrong = run(tmp_path, (*other, "--judge", "simulated/soft"))
    assert (wrong.returncode, "asks one judge" in wrong.stderr) == (2, True)
    for wrong, said in (("--criterion", "its own"), ("--items", "--items"), ("--format", "'jsonl'")):
        refused = run(tmp_path, (*other, wrong, "jsonl"))
        assert (refused.returncode, said in refused.stderr) == (2, True)


def test_the_flags_of_a_run_are_refused_for_pairs_unless_a_settings_file_has_them(run, tmp_path):
    (tmp_path / "items.jsonl").write_text("\n".join(json.dumps({"id": item, "text": TEXTS[item]}) for item in TEXTS))
    first, second, *_ = TEXTS
    (tmp_path / "pairs.csv").write_text(f"first,second\n{first},{second}\n")
    judge = ("judge", "pairs.csv", "--items", "items.jsonl", "--criterion", "better", "--judge", "simulated/soft")
    refused = run(tmp_path, (*judge, "--budget", "10"))
    assert (refused.returncode, "leave --budget out" in refused.stderr) == (2, True)
    (tmp_path / "comparo.toml").write_text('budget = "5n"\n')
    assert len(run(tmp_path, judge).stdout.splitlines()) == 2
