"""The scorer for inspect_ai in real evaluations: a model that says what it is told, and judges with known answers."""

import asyncio
import gc
import math
import os
import re
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import anyio
import pytest
from inspect_ai import Task, eval, score  # noqa: A004
from inspect_ai.dataset import Sample
from inspect_ai.log import read_eval_log
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer._scorer import scorer_create
from scipy.special import expit, logit

import comparo
from comparo import Judgement, Question, load_judge
from comparo.adapters.inspect import Desk, preferred
from documented import ROOT, shell_lines
from inside import criterion_prompt
from pretenders import providers
from servers import Api, prefers

# inspect_ai leaves streams in memory and event loops open, which Python finds when it collects them; a loop has two
# sockets of family 1. Sockets of servers (family 2) must be closed.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Unclosed <MemoryObject:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:unclosed event loop:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:unclosed <socket.socket fd=[0-9]+, family=1:ResourceWarning"),
]

SAMPLES = [Sample(id=f"q{k}", input=f"Question {k}?", target=f"target {k}") for k in range(12)]


@pytest.fixture(autouse=True)
def _collected():
    """What an evaluation left is collected here, and not in a test of another file, where a warning is an error."""
    yield
    gc.collect()


def says(answer):
    """A model whose answer is determined by the question."""

    def reply(messages, *_):
        output = ModelOutput.from_content("mockllm/model", answer(messages[-1].text))
        output.usage = ModelUsage()  # else tokens are counted, for which tiktoken loads a file from the network
        return output

    return get_model("mockllm/model", custom_outputs=reply, memoize=False)


def evaluated(tmp_path, scorer, answer=str.upper, samples=SAMPLES, **options):
    [log] = eval(
        Task(dataset=list(samples), scorer=scorer),
        model=says(answer),
        log_dir=str(tmp_path),
        display="none",
        **options,
    )
    assert log.status == "success", log.error
    return log


def scores_of(log):
    return {sample.id: sample.scores["preferred"] for sample in log.samples}


def figures(log):
    return {name: metric.value for name, metric in log.results.scores[0].metrics.items()}


def test_the_score_is_the_preference_of_the_judge_without_its_position_bias(tmp_path):
    quality = {(f"q{k}", "answer"): (k - 4) / 3 for k in range(12)} | {"reference": 0.0}
    judge = load_judge("simulated/soft", scores=quality, noise=0.0, bias=1.5)
    log = evaluated(tmp_path, preferred("more helpful", judge))
    found = scores_of(log)
    for k in range(12):
        one = found[f"q{k}"]
        assert one.value == pytest.approx(expit((k - 4) / 3), abs=1e-3)
        assert logit(one.metadata["first"]) - logit(one.metadata["second"]) == pytest.approx(3.0)
    said = figures(log)
    assert said["mean"] == pytest.approx(sum(one.value for one in found.values()) / 12)
    assert 0 < said["stderr"] < 0.5


def test_the_judge_reads_question_answer_and_target(tmp_path):
    seen = set()

    def judge(question):
        seen.add((question.context_text, question.first_text, question.second_text))
        return 0.5

    evaluated(tmp_path, preferred("more helpful", judge), samples=SAMPLES[:1])
    assert seen == {("Question 0?", "QUESTION 0?", "target 0"), ("Question 0?", "target 0", "QUESTION 0?")}
    seen.clear()
    evaluated(tmp_path, preferred("more helpful", judge, heading=None), samples=SAMPLES[:1])
    assert {context for context, _, _ in seen} == {None}


def test_what_cannot_be_compared_is_no_tie(tmp_path):
    def judge(first, second):
        if "BROKEN" in first + second:
            raise OSError("no answer")
        return 0.9 if "GOOD" in first else 0.2

    inputs = {"good": "t", "broken": "t", "empty": "t", "same": "SAME", "aimless": ""}
    samples = [Sample(id=name, input=name, target=target) for name, target in inputs.items()]
    scorer = preferred("more helpful", judge)
    log = evaluated(tmp_path, scorer, lambda text: "" if text == "empty" else text.upper(), samples)
    found = scores_of(log)
    assert found["good"].value == pytest.approx(expit((logit(0.9) + logit(0.8)) / 2))
    assert (found["empty"].value, found["empty"].reason) == (0.0, "no_response")
    assert found["same"].value == 0.5
    assert math.isnan(found["broken"].value)
    assert found["broken"].reason == "grader_failed"
    assert "OSError: no answer" in found["broken"].explanation
    assert math.isnan(found["aimless"].value)
    assert found["aimless"].explanation.startswith("sample aimless")
    assert figures(log)["mean"] == pytest.approx((found["good"].value + 0.0 + 0.5) / 3)  # the others do not count


def longer(first, second):
    return 0.8 if len(first) > len(second) else 0.3


def test_the_command_of_the_page_scores_a_log(tmp_path):
    """`inspect score` as docs/adapters.md has it, against a server that prefers the higher number."""
    [command] = [line.text for line in shell_lines(ROOT / "docs" / "adapters.md") if line.text.startswith("inspect ")]
    (tmp_path / "logs").mkdir()
    for name, gain in (("old", 0), ("new", 5)):
        log = evaluated(tmp_path / name, [], lambda text, gain=gain: f"Answer number {int(text[9:-1]) % 7 + gain}.")
        shutil.copyfile(log.location, tmp_path / "logs" / f"{name}.eval")
    with providers() as variables:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-c", command], cwd=tmp_path, env=os.environ | variables | {"PATH": path, "COLUMNS": "200"},
            input="\n\n", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, encoding="utf-8",
        )  # fmt: skip
    assert done.returncode == 0, done.stdout  # it asks where to write, and twice gets Enter
    assert "stderr" in done.stdout
    [scored] = (tmp_path / "logs").glob("new*scored*.eval")
    assert min(one.value for one in scores_of(read_eval_log(str(scored))).values()) > 0.5


def test_answers_of_an_earlier_log_are_a_baseline(tmp_path):
    old = evaluated(tmp_path, preferred("longer", longer), lambda text: "short " + text[-3:], epochs=2)
    scorer = preferred("longer", longer, baseline=old.location)
    new = evaluated(tmp_path, scorer, lambda text: f"a long answer to {text}", epochs=2)
    assert figures(new)["mean"] == pytest.approx(expit((logit(0.8) + logit(0.7)) / 2))
    texts = [[sample.output.completion for sample in read_eval_log(log.location).samples] for log in (old, new)]
    assert comparo.compare(*texts, "longer", judge=longer).side == 1
    mute = evaluated(tmp_path, [], lambda _: "")
    with pytest.raises(ValueError, match=r"baseline = .*no answers"):
        preferred("longer", longer, baseline=mute.location)


def test_a_log_is_scored_again_by_name_as_the_command_inspect_score_does(tmp_path):
    log = evaluated(tmp_path, preferred("longer", longer))
    again = scorer_create("comparo/preferred", criterion="longer", judge="simulated/soft; seed=3")
    scored = score(log, again, action="overwrite", display="none")
    assert all(0 < one.value < 1 for one in scores_of(scored).values())
    assert scored.results.scores[0].params["judge"] == "simulated/soft; seed=3"


class InFours:
    """Answers when four questions are there, the last first: samples that are judged one by one never get an answer."""

    name, settings, ahead, streams = "test/fours", {}, 64, True

    def __init__(self):
        self.now = self.most = 0

    def judge(self, questions, prompt):
        self.now += 1
        self.most = max(self.most, self.now)
        held = []
        for question in questions:
            held.append(question)
            if len(held) == 4:
                yield from (Judgement(one, p=0.8 if one.first == "answer" else 0.4) for one in reversed(held))
                held.clear()
        self.now -= 1


def test_samples_are_judged_together_and_the_judge_is_asked_in_one_place_at_a_time(tmp_path):
    judge = InFours()
    log = evaluated(tmp_path, preferred("longer", judge), max_samples=12)
    assert {round(one.value, 9) for one in scores_of(log).values()} == {round(expit((logit(0.8) + logit(0.6)) / 2), 9)}
    assert judge.most == 1


def test_a_judge_that_ends_is_told_to_all_who_wait_and_is_asked_anew_later():
    calls = []

    def judge(question):
        calls.append(question)
        if len(calls) < 3:
            raise comparo.JudgeError("the key is wrong")
        return 0.5

    desk = Desk(comparo.judges.as_judge(judge), criterion_prompt("better"))
    questions = [Question(k, k + 1, first_text=str(k), second_text="x") for k in range(5)]

    async def all_at_once():
        failed = []

        async def one(question):
            try:
                await desk.ask(question)
            except comparo.JudgeError as error:
                failed.append(str(error))

        async with anyio.create_task_group() as group:
            for question in questions:
                group.start_soon(one, question)
        return failed

    with closing(asyncio.new_event_loop()) as loop:  # asyncio.run, as inspect_ai changes it, leaves its loop open
        assert [loop.run_until_complete(all_at_once()) for _ in range(3)] == [["the key is wrong"] * 5] * 2 + [[]]


def test_a_judge_behind_a_server_is_probed_once_and_asked_once_with_a_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    samples = [Sample(id=k, input=f"{k}?", target=f"number {k}.") for k in range(6)]
    with Api(prefers(0.5, after=0.02)) as api:
        for requests in (13, 13):
            judge = f"openai/model; base_url={api.url}, concurrency=4"
            scorer = preferred("better", judge, heading=None, cache=str(tmp_path / "cache.sqlite"))
            log = evaluated(tmp_path, scorer, lambda text: f"number {int(text[:-1]) + 3}.", samples)
            assert min(one.value for one in scores_of(log).values()) > 0.5
            assert len(api.requests) == requests
        assert len(api.asked) == 12
        assert api.most == 4


def test_a_key_that_is_missing_is_told_before_the_model_is_asked(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(comparo.JudgeError, match="OPENAI_API_KEY"):
        preferred("more helpful", "openai/gpt-6-luna")


def test_the_task_in_the_docs_runs(tmp_path):
    page = (Path(__file__).parents[1] / "docs" / "adapters.md").read_text(encoding="utf-8")
    [block] = [code for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "@task" in code]
    names = {}
    exec(block, names)
    [log] = eval(names["capitals"](judge=longer), model=says(str.upper), log_dir=str(tmp_path), display="none")
    assert log.status == "success"
    assert {"mean", "stderr"} == set(figures(log))
