"""--wording auto: an audition of the wordings out of the budget, then the best of each judge."""

import json
import re
from collections import Counter

import pytest

from comparo import rank
from comparo.data.prompts import criterion_prompt
from comparo.data.wordings import all_wordings
from comparo.errors import StoreError
from comparo.run.audition import Trial
from comparo.run.rank import prepare_rank
from comparo.run.store import Store, read_configuration, read_judgements
from servers import Api, prefers
from test_voices import TEXTS, Told, asked, told

SIZE = 60
SIGNS = {"letter": "one letter", "compare": "Compare "}  # what tells a wording from the others


def worded(best, sure=0.5, other=0.05):
    """A server that sees the difference of texts best where it is asked in one wording."""
    good, bad = prefers(sure), prefers(other)
    return lambda request: (good if SIGNS[best] in request.body["messages"][0]["content"] else bad)(request)


def sent(api):
    return Counter(request.body["messages"][0]["content"] for request in api.asked)


@pytest.fixture
def comparo(run, tmp_path):
    rows = [{"id": f"item {k}", "text": f"This is number {k}."} for k in range(SIZE)]
    (tmp_path / "items.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return lambda *arguments: run(tmp_path, arguments)


@pytest.mark.long
def test_the_budget_pays_for_the_audition_and_the_best_wording_gets_the_rest(comparo, tmp_path):
    with Api(worded("letter")) as api:
        flags = ("rank", "items.jsonl", "--criterion", "better", "--wording", "auto", "--out", "run")
        flags += ("--judge", f"openai/model; base-url={api.url}")
        planned = comparo(*flags, "--dry-run")
        assert re.search("At most 600 calls .*audition of the wordings", planned.stdout)
        assert "280 calls at most" in planned.stdout
        assert not api.asked
        done = comparo(*flags, "--format", "json")
        assert done.returncode == 0, done.stderr
        assert len(api.asked) == 600
        assert max(sent(api).values()) == 1
        assert re.search(r"wording is letter: .*\b7 .*\b20 pairs", done.stderr)
        assert json.loads(done.stdout)["ranking"][0]["item"] == f"item {SIZE - 1}"
        assert comparo(*flags).returncode == 0
        assert len(api.asked) == 600
        assert comparo(*flags, "--budget", "12n").returncode == 0
        assert len(api.asked) == 720
        assert max(sent(api).values()) == 1
    written = read_configuration(tmp_path / "run")
    assert (written["wording"], written["budget"]) == ("letter", "12n")
    assert written["audition"]["answers"] == 40
    assert written["audition"]["calls"] == 280
    assert len(read_judgements(tmp_path / "run-audition")) == 280
    assert len(read_judgements(tmp_path / "run")) == 720 - 240


@pytest.mark.long
def test_every_judge_has_its_own_wording(comparo, tmp_path):
    with Api(worded("letter")) as one, Api(worded("compare", 0.3)) as other:
        judges = [f"openai/{name}; base-url={api.url}" for name, api in (("one", one), ("other", other))]
        flags = ("--criterion", "better", "--wording", "auto", "--judge", judges[0], "--judge", judges[1])
        done = comparo("rank", "items.jsonl", *flags, "--budget", "20n", "--out", "run")
        assert done.returncode == 0, done.stderr
        assert len(one.asked) + len(other.asked) == 1200
        assert max((sent(one) + sent(other)).values()) <= 2
    assert "The wording of openai/one is letter" in done.stderr
    assert "The wording of openai/other is compare" in done.stderr
    voices = read_configuration(tmp_path / "run")["identity"]["voices"]
    assert set(voices) == {"openai/one · letter", "openai/other · compare"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--budget", "5n"], r"280 calls,.* half of the 300 .*allow more"),
        (["--audition", "items.jsonl"], "leave --audition out"),
        (["--budget", "$0.01", "--judge", "openai/x; price=1,1"], "half of the budget"),
    ],
)
def test_what_auto_cannot_do_is_one_sentence_before_anything_is_asked(comparo, tmp_path, arguments, message):
    flags = ("--criterion", "better", "--wording", "auto")
    judge = () if "--judge" in arguments else ("--judge", "simulated/soft")
    done = comparo("rank", "items.jsonl", *flags, *judge, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.search(message, done.stderr)
    assert not (tmp_path / "comparo-runs").exists()
    (tmp_path / "mine.txt").write_text("{first} or {second}?")
    done = comparo("rank", "items.jsonl", "--prompt", "mine.txt", "--wording", "auto", "--judge", "simulated/soft")
    assert done.returncode == 2


class Worded(Told):
    """Says more about the texts in one of the wordings."""

    def _answers(self, questions, prompt):
        judge = self if prompt.wording == self.best else self.weak
        yield from Told._answers(judge, questions, prompt)


def judge(best="letter"):
    made = told("ana", best=best, weak=told("ana", scale=0.2, noise=1.0))
    made.__class__ = Worded
    return made


@pytest.mark.long
@pytest.mark.parametrize("stop", [5, 100, 170, 300])
def test_a_run_that_was_stopped_in_either_part_ends_like_an_unbroken_one(tmp_path, monkeypatch, stop):
    prompts = [criterion_prompt("better", wording=wording) for wording in ("paper", "letter", "which", "between")]

    def go(folder):
        more = {"budget": "18n", "out": tmp_path / folder}
        return rank(TEXTS, judge=judge(), prompt=prompts, wording="auto", **more)

    go("whole")
    left = [stop]

    add = Store.add

    def stopping(store, judgements):
        judgements = list(judgements)
        if left[0] < len(judgements):
            raise StoreError("the power failed")
        left[0] -= len(judgements)
        return add(store, judgements)

    with monkeypatch.context() as patch:
        patch.setattr(Store, "add", stopping)
        with pytest.raises(StoreError, match="power"):
            go("run")
    go("run")
    for name in ("", "-audition"):
        found = [asked(read_judgements(tmp_path / f"{folder}{name}")) for folder in ("run", "whole")]
        assert found[0] == found[1]
    assert read_configuration(tmp_path / "run")["wording"] == "letter"


@pytest.mark.long
def test_python_chooses_among_prompts_of_ones_own_too():
    prompts = [criterion_prompt("better", wording=wording) for wording in ("paper", "compare", "which")]
    plan = prepare_rank(TEXTS, judge=judge("compare"), prompt=prompts, wording="auto", budget="12n")
    trial = plan.base.task
    plan.run()
    chosen = plan.base.task
    assert isinstance(trial, Trial)
    assert chosen.prompt.wording == "compare"
    assert (len(trial.voices), len(chosen.given), chosen.expense.calls) == (3, 40, 288 - 80)
    with pytest.raises(ValueError, match="there is only one prompt"):
        rank(TEXTS, judge=judge(), prompt=prompts[0], wording="auto")
    assert "letter" in all_wordings("better")
