"""Judging on a real Ray cluster of two nodes on this machine, whose processes are killed."""

import json
import logging
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager, suppress
from itertools import chain, islice

import pytest
import ray
from ray.cluster_utils import Cluster

from comparo import Items, JudgeError, Prompt, Question, load_judge, rank
from comparo.judges import ray_judge
from comparo.judges.ray import JOIN, LOOK, QuestionBatches, RayJudge
from inside import criteria_prompt, read_configuration, read_judgements

# A judge of another package, found by its entry point: a simulated judge that says where it runs, and can be made to
# fail or to die at the question of one item.
FRAIL = """
import os
import time
from dataclasses import dataclass
from pathlib import Path
from comparo.errors import JudgeError
from comparo.judges.simulated import Simulated

@dataclass(frozen=True)
class Frail(Simulated):
    fails: str = ""
    dies: str = ""
    differs: bool = False
    seconds: float = 0.0
    @property
    def settings(self):
        return super().settings | ({"process": os.getpid()} if self.differs else {})
    def judge(self, questions, prompt=None):
        for question in questions:
            if question.first == self.fails:
                raise JudgeError("the key was withdrawn")
            if question.first == self.dies:
                os._exit(1)
            time.sleep(self.seconds)
            yield from super().judge([question])

def load(model, *, folder=None, seed=0, seconds=0.0, fails="", dies="", exits=False, differs=False):
    if exits:
        os._exit(1)
    if folder is not None:
        import ray
        Path(folder, str(os.getpid())).write_text(ray.get_runtime_context().get_node_id())
    return Frail(seed=seed, seconds=seconds, fails=fails, dies=dies, differs=differs)
"""
PROMPT = Prompt("{first}{second}")
ALONE = {name: value for name, value in os.environ.items() if not name.startswith(("COMPARO_", "RAY_"))}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    package = tmp_path_factory.mktemp("packages")
    information = package / "frail-1.0.dist-info"
    information.mkdir()
    (package / "frail_judge.py").write_text(FRAIL)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: frail\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[comparo.judges]\nfrail = frail_judge:load\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(package), prepend=os.pathsep)
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        node = {"num_cpus": 4, "object_store_memory": 80_000_000}
        cluster = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
        cluster.second = cluster.add_node(**node)
    ray.init(address=cluster.address, log_to_driver=False, logging_level=logging.ERROR)
    yield cluster
    ray.shutdown()
    cluster.shutdown()


def questions(count, contexts=1):
    return [
        Question(f"item {k}", f"item {k + 1}", None if contexts == 1 else f"context {k % contexts}")
        for k in range(count)
    ]


def wait_until(condition, work=lambda: time.sleep(0.1)):
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        work()


def answers(judgements):
    return sorted((str(one.question.context), one.question.first, one.question.second, one.p) for one in judgements)


@pytest.mark.long
@pytest.mark.usefixtures("cluster")
def test_the_answers_are_those_of_one_machine_and_a_judge_left_early_can_be_asked_again():
    alone = load_judge("simulated/hard", seed=3)
    with ray_judge("simulated/hard", {"seed": 3}, replicas=2, cpus=0.5) as judge:
        assert (judge.name, judge.settings, judge.ahead) == (alone.name, alone.settings, alone.ahead)
        for _ in range(3):
            next(judge.judge(iter(questions(1000)), PROMPT))
        asked = [*questions(300, 7), *questions(20, 7)]  # some twice
        found = list(judge.judge(iter(asked), PROMPT))
        criteria = criteria_prompt({"length": "longer", "wit": "funnier"})
        calls = list(judge.judge(iter(questions(5)), criteria))
    assert answers(found) == answers(alone.judge(asked))
    assert Counter(one.question for one in found) == Counter(asked)
    each = (one for call in alone.judge(questions(5), criteria) for one in call.each)
    assert answers(one for call in calls for one in call.each) == answers(each)
    with pytest.raises(JudgeError, match="were ended"):
        list(judge.judge(asked, PROMPT))
    assert ray.is_initialized(), "a connection that was there before is left as it was"


@pytest.mark.long
@pytest.mark.usefixtures("cluster")
def test_what_ends_the_judge_ends_the_pool_and_the_answers_before_it_are_kept():
    with ray_judge("frail/soft", {"fails": "item 30"}, cpus=0.5) as judge:
        found = []
        with pytest.raises(JudgeError, match="withdrawn"):
            found.extend(judge.judge(questions(60), PROMPT))
    assert [one.question.first for one in found] == [f"item {k}" for k in range(30)]


@pytest.mark.long
@pytest.mark.usefixtures("cluster")
def test_a_judge_that_cannot_be_loaded_or_is_not_the_same_everywhere_says_why():
    with (
        ray_judge("frail/soft", {"differs": True}, replicas=2, cpus=0.5) as judge,
        pytest.raises(JudgeError, match="in process;"),
    ):
        list(chain.from_iterable(judge.judge(questions(600), PROMPT) for _ in range(1000)))
    with pytest.raises(ValueError, match="'sed'"):
        ray_judge("simulated/soft", {"sed": 3})


@pytest.mark.long
@pytest.mark.usefixtures("cluster")
def test_questions_that_kill_every_judge_and_a_judge_that_dies_at_once_are_errors():
    half = {"CPU": 0.5, "GPU": 0.0}
    with RayJudge("frail/soft", {"dies": "item 30"}, 2, half, None) as judge:
        found = []
        with pytest.raises(JudgeError, match=r"4 times .*'item"):
            found.extend(judge.judge(questions(400, 10), PROMPT))
    assert len(found) == len({one.question for one in found})
    with pytest.raises(JudgeError, match="every judge"):
        RayJudge("frail/soft", {"exits": True}, 1, half, None)


@pytest.mark.long
@pytest.mark.usefixtures("cluster")
def test_too_little_room_is_an_error_and_less_than_asked_a_warning(caplog, monkeypatch):
    with pytest.raises(JudgeError, match=r"1 GPU; .*\b0 GPU"):
        ray_judge("simulated/soft", gpus=1)
    with ray_judge("simulated/soft", replicas=9) as judge:
        assert len(list(judge.judge(questions(500), PROMPT))) == 500
        assert "the 9 judges" in caplog.text
        wait_until(lambda: not ray.available_resources().get("CPU", 0))
        monkeypatch.setattr("comparo.judges.ray_replicas.BUSY", 2.0)
        with pytest.raises(JudgeError, match="1 CPU"):
            RayJudge("simulated/soft", {}, 1, {"CPU": 1.0, "GPU": 0.0}, None)


@pytest.mark.long
def test_a_judge_that_ends_before_all_replicas_are_placed_prints_nothing(tmp_path):
    script = tmp_path / "ends.py"
    script.write_text(
        "import time\nfrom comparo import load_judge\n"
        "for _ in range(3):\n"
        "    load_judge('simulated/soft', engine='ray', replicas=2, cpus=0.5).close()\n"
        "    time.sleep(1)  # Ray prints from a thread\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, env=ALONE)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@contextmanager
def port(behaviour):
    """A port that nobody listens at, or that never answers."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{server.getsockname()[1]}"
        if behaviour != "closed":  # it stays bound, so that nobody else gets it
            server.listen()
        yield address


def test_a_cluster_that_cannot_be_reached_is_an_error_within_thirty_seconds():
    assert LOOK + JOIN < 30
    with port("closed") as address, pytest.raises(JudgeError, match=rf"{address} .*refused"):
        ray_judge("simulated/soft", address=address)
    with pytest.raises(ValueError, match="HOST:PORT"):
        ray_judge("simulated/soft", address="head")


@pytest.mark.long
def test_a_port_that_takes_a_connection_and_says_nothing_is_left():
    code = "from comparo.judges import ray; ray.JOIN = 1; ray.ray_judge('simulated/soft', address={!r})"
    with port("silent") as address:
        done = subprocess.run([sys.executable, "-c", code.format(address)], capture_output=True, text=True, timeout=60)
    assert re.search(rf"JudgeError: .*{address} .*no answer", done.stderr)


@pytest.mark.parametrize("name", ["openai/gpt-6-luna", "anthropic/claude-haiku-5-5", "gemini/gemini-3.8-flash"])
def test_a_judge_of_a_server_is_refused_with_what_to_do_instead(name):
    with pytest.raises(ValueError, match=rf"^{name} .*concurrency"):
        load_judge(name, engine="ray", replicas=2)


@pytest.mark.long
def test_without_ray_the_command_that_brings_it_is_named():
    code = "import sys; sys.modules['ray'] = None; from comparo.judges import ray_judge; ray_judge('simulated/soft')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "[ray]" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("contexts", "size", "most", "whole"),
    [(20, 8, 32, True), (20, 8, 10, True), (6, 7, 7, False), (40, 1, 16, True), (3, 50, 20, False)],
)
def test_batches_keep_contexts_together(contexts, size, most, whole):
    shares, judges = QuestionBatches(), 4
    shares.add(Question(k, k + 1, context) for k in range(size) for context in range(contexts))
    batches = []
    while len(shares):
        batches.append(shares.take(len(batches) % judges, judges, most))
        assert 0 < len(batches[-1]) <= most
    asked = [(one.context, one.first) for batch in batches for one in batch]
    assert sorted(asked) == [(context, k) for context in range(contexts) for k in range(size)]
    pieces = Counter(context for batch in batches for context in {one.context for one in batch})
    assert not whole or Counter(pieces.values())[1] >= contexts - judges  # the last questions are shared out


def test_one_context_is_shared_by_all_and_later_questions_go_back_to_who_had_it():
    shares = QuestionBatches()
    shares.add(questions(100))
    assert [len(shares.take(judge, 4 - judge, 64)) for judge in range(4)] == [25] * 4
    shares.add(Question("a", "b", context) for context in "vwxyz" for _ in range(8))
    had = {judge: {one.context for one in shares.take(judge, 2, 16)} for judge in (0, 1)}
    shares.add(Question("b", "c", context) for context in reversed("vwxyz") for _ in range(8))
    again = {judge: {one.context for one in shares.take(judge, 2, 24)} for judge in (1, 0)}
    assert had[0] <= again[0]
    assert had[1] <= again[1]
    shares.move(0)
    shares.add(Question("c", "d", context) for context in had[0])
    assert {one.context for one in shares.take(1, 1, 100)} >= had[0]


class Roomy:
    """A judge on one machine with room for more questions than a run's rounds go by."""

    name, settings, ahead = "roomy/judge", {}, 4

    def __init__(self, room=None):
        self.most = room or self.ahead
        self.pulled = []
        if room is not None:
            self.room = room

    def judge(self, questions, prompt):
        stream = iter(questions)
        while batch := list(islice(stream, self.most)):
            self.pulled.append(len(batch))
            yield from load_judge("simulated/soft").judge(batch, prompt)


@pytest.mark.long
def test_a_judge_with_room_for_more_is_asked_more_at_once_but_nothing_else(tmp_path):
    items = Items.of([{"id": f"item {k}", "text": f"Text {k}.", "context": f"Context {k % 30}."} for k in range(180)])
    narrow, wide = Roomy(), Roomy(100)
    for judge, out in ((narrow, "narrow"), (wide, "wide")):
        rank(items, "better", judge=judge, budget="4n", strategy="adaptive", out=tmp_path / out)
    assert max(narrow.pulled) == 4
    assert max(wide.pulled) == 100
    assert answers(read_judgements(tmp_path / "wide")) == answers(read_judgements(tmp_path / "narrow"))


@pytest.mark.long
@pytest.mark.usefixtures("cluster")
def test_several_judges_on_ray_are_asked_what_they_are_asked_on_one_machine_and_one_that_fails_is_left_out(
    tmp_path, caplog
):
    texts = {f"item {k}": f"Text {k}." for k in range(24)}
    scores = {name: k / 4 for k, name in enumerate(texts)}
    own = [{"seed": 1, "scores": scores}, {"seed": 2, "scores": scores, "noise": 1.5}]
    how = {"criterion": "better", "wording": ["paper", "between"], "budget": "16n"}
    alone = rank(texts, judge=[load_judge("simulated/soft", **each) for each in own], out=tmp_path / "alone", **how)
    with (
        ray_judge("simulated/soft", own[0], replicas=2, cpus=0.5) as one,
        ray_judge("simulated/soft", own[1], cpus=0.5) as other,
    ):
        there = rank(texts, judge=[one, other], out=tmp_path / "there", **how)
    by_voice = [
        sorted((one.question.voice, one.question.first, one.question.second, one.p) for one in read_judgements(folder))
        for folder in (tmp_path / "alone", tmp_path / "there")
    ]
    assert by_voice[0] == by_voice[1]
    assert {row[0] for row in by_voice[1]} == {f"simulated/soft · {way} {k}" for way in how["wording"] for k in (1, 2)}
    assert there.scores.tolist() == pytest.approx(alone.scores.tolist())
    with (
        ray_judge("simulated/soft", own[0], cpus=0.5) as one,
        ray_judge("frail/soft", {"fails": "item 7"}, cpus=0.5) as other,
    ):
        ranking = rank(texts, "better", judge=[one, other], budget="10n")
    said = caplog.messages
    assert re.match("simulated/soft 2 .*withdrawn", said[0])
    assert said[0].endswith(" simulated/soft 1.")
    assert len(ranking.comparisons) == 240


@pytest.mark.long
def test_the_command_on_a_ray_of_its_own_asks_what_it_asks_on_one_machine(run, tmp_path):
    rows = [{"id": f"item {k}", "text": f"Text number {k}.", "context": f"Context {k % 2}."} for k in range(24)]
    (tmp_path / "items.jsonl").write_text("\n".join(map(json.dumps, rows)))
    what = ["rank", "items.jsonl", "--judge", "simulated/soft", "--strategy", "adaptive", "-o", "seed=5", "--out"]
    refused = run(tmp_path, [*what, "run", "-o", "gpus=1"])
    assert refused.returncode == 2
    assert "no option 'gpus'" in refused.stderr
    alone = run(tmp_path, [*what, "alone"])
    command = [sys.executable, "-m", "comparo.cli", *what, "there"]
    command += ["-o", "engine=ray", "-o", "replicas=2", "-o", "cpus=0.5"]
    there = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=ALONE)
    assert there.returncode == 0, there.stderr
    assert there.stdout == alone.stdout
    assert there.stderr == alone.stderr.replace("alone", "there")
    assert answers(read_judgements(tmp_path / "there")) == answers(read_judgements(tmp_path / "alone"))
    assert read_configuration(tmp_path / "there")["identity"] == read_configuration(tmp_path / "alone")["identity"]


@pytest.mark.long
def test_comparo_judge_joins_the_cluster_at_an_address(cluster, run, tmp_path):
    (tmp_path / "items.jsonl").write_text("\n".join(json.dumps({"id": k, "text": f"Text {k}."}) for k in "abc"))
    (tmp_path / "pairs.csv").write_text("first,second\na,b\nb,c\nc,a\n")
    what = ["judge", "pairs.csv", "--items", "items.jsonl", "--judge", "simulated/soft"]
    flags = ["-o", "engine=ray", "-o", f"address={cluster.address}", "-o", "cpus=0.5"]
    command = [sys.executable, "-m", "comparo.cli", *what, *flags]
    there = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=True)
    outputs = [run(tmp_path, what).stdout, there.stdout]
    assert sorted(outputs[0].splitlines()) == sorted(outputs[1].splitlines())
    assert len(outputs[0].splitlines()) == 4


class Killing:
    """A judge, and what is done to it after so many answers."""

    def __init__(self, judge, deeds):
        self.judge_inside, self.deeds, self.count = judge, deeds, 0
        self.name, self.settings, self.ahead, self.room = judge.name, judge.settings, judge.ahead, judge.room

    def judge(self, questions, prompt):
        for judgement in self.judge_inside.judge(questions, prompt):
            self.count += 1
            if self.count in self.deeds:
                self.deeds.pop(self.count)()
            yield judgement


@pytest.mark.long
def test_twenty_thousand_judgements_are_stored_once_each_though_a_worker_and_a_node_are_killed(
    cluster, tmp_path, caplog
):
    items = Items.of([{"id": f"item {k}", "text": f"Text {k}.", "context": f"Context {k % 50}."} for k in range(2_000)])
    how = {"budget": "10n", "strategy": "random", "plain": True}
    rank(items, "better", judge=load_judge("simulated/soft", seed=7), out=tmp_path / "alone", **how)
    log = tmp_path / "replicas"
    log.mkdir()

    def started():
        """The process of every replica that there was, and its node."""
        return {int(path.name): path.read_text() for path in log.iterdir() if path.stat().st_size}

    def of_second(nodes):
        return [process for process, node in nodes.items() if node == cluster.second.node_id]

    def kill_worker():
        os.kill(min(started().keys() - of_second(started())), signal.SIGKILL)

    def kill_node():  # as when its power fails: everything that runs there is gone at once
        cluster.remove_node(cluster.second, allow_graceful=False)
        for process in of_second(started()):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)

    options = {"folder": str(log), "seed": 7, "seconds": 0.001}
    with ray_judge("frail/soft", options, replicas=6) as judge:
        wait_until(lambda: len(started()) >= 6, lambda: list(judge.judge(questions(600), PROMPT)))
        assert len(of_second(started())) >= 2
        killing = Killing(judge, {5_000: kill_worker, 10_000: kill_node})
        rank(items, "better", judge=killing, out=tmp_path / "run", **how)
        assert not killing.deeds
        assert caplog.text.count("started anew") >= 2
        wait_until(lambda: len(started()) >= 7, lambda: list(judge.judge(questions(600), PROMPT)))
    rows = "SELECT context, first, second, p, mass, weight, reply, error FROM judgements ORDER BY 1, 2, 3"
    databases = [sqlite3.connect(tmp_path / name / "judgements.db") for name in ("run", "alone")]
    found, expected = (database.execute(rows).fetchall() for database in databases)
    assert len(found) == 20_000
    assert len({row[:3] for row in found}) == 20_000
    assert found == expected
    for database in databases:
        database.close()
